// See compile.h. Values live in registers of a small pool as long as they can, and always in NativeState::values too,
// so that the slow reference finds them and a call in a stub costs only reloads. kResult is scratch for wide
// immediates; kArgument1 and kArgument2 are scratch inside one guard.
#include "guards/compile.h"

#include <bit>
#include <cstddef>

#include "guards/object_facts.h"
#include "kernels/layout.h"

namespace kintsugi {
namespace {

ObjectFacts facts_of_this_process;
constexpr Reg kPoolRegs[] = {Reg::kTemp0, Reg::kArgument0, Reg::kTemp1, Reg::kTemp2, Reg::kTemp3, Reg::kTemp4};
constexpr Reg kScratch = Reg::kArgument2, kScratch2 = Reg::kArgument1;
constexpr uint64_t kDigitMask = (uint64_t{1} << 30) - 1;

}  // namespace

void set_object_facts(const ObjectFacts& facts) { facts_of_this_process = facts; }
const ObjectFacts& object_facts() { return facts_of_this_process; }

GuardCompiler::GuardCompiler(Emitter& emitter, const GuardProgram& program, const GuardFrame& frame)
    : e_(emitter), program_(program), frame_(frame) {
  offsets_.reserve(program.guards.size());
}

void GuardCompiler::emit() {
  for (size_t i = 0; i < program_.guards.size(); ++i) {
    current_ = static_cast<int>(i);
    miss_ = slow_ = Label{};
    offsets_.push_back(e_.offset());
    emit_guard(program_.guards[i]);
    if (slow_.id == UINT32_MAX) continue;
    Stub& stub = slows_.back();
    stub.miss = miss();
    stub.resume = e_.new_label();
    e_.bind(stub.resume);
    for (int r = 0; r < kPool; ++r) stub.reload[r] = held_[r].value;
  }
}

void GuardCompiler::emit_stubs(Label missed) {
  for (const Place& place : places_) emit_place(place);
  for (const Stub& stub : slows_) {
    e_.bind(stub.label);
    e_.move(Reg::kArgument0, Reg::kState);
    e_.load_immediate(Reg::kArgument1, stub.guard);
    e_.load(Reg::kResult, at(Reg::kState, frame_.helpers));
    e_.call(at(Reg::kResult, frame_.guard_slow));
    e_.compare_32(Reg::kResult, 0);
    e_.jump_if(Condition::kEqual, stub.miss);
    for (int r = 0; r < kPool; ++r) reload(stub.reload[r], kPoolRegs[r]);
    e_.jump(stub.resume);
  }
  for (const Stub& stub : misses_) {
    e_.bind(stub.label);
    e_.store_immediate_32(at(Reg::kState, frame_.missed_guard), stub.guard);
    e_.jump(missed);
  }
}

void GuardCompiler::emit_guard(const Guard& guard) {
  const ObjectFacts& facts = object_facts();
  const int32_t imm = static_cast<int32_t>(guard.imm);
  switch (guard.kind) {
    case GuardKind::k_slot: {
      load_result(guard.dst, at(hold(kSlots), imm * 8));
      e_.test(hold(guard.dst));
      e_.jump_if(Condition::kEqual, miss());
      break;
    }
    case GuardKind::k_function: load_result(guard.dst, at(Reg::kState, frame_.function)); break;
    case GuardKind::k_field: {
      load_result(guard.dst, at(hold(guard.a), imm));
      e_.test(hold(guard.dst));
      e_.jump_if(Condition::kEqual, miss());
      break;
    }
    case GuardKind::k_tuple_item: load_result(guard.dst, at(hold(guard.a), facts.tuple_items_offset + imm * 8)); break;
    case GuardKind::k_list_item:
      e_.load(kScratch, at(hold(guard.a), facts.list_items_offset));
      load_result(guard.dst, at(kScratch, imm * 8));
      break;
    case GuardKind::k_next_item:
    case GuardKind::k_next_none: next_item(guard); break;
    case GuardKind::k_dict_value: {
      Reg dict = hold(guard.a);
      if ((imm & kOfHash) != 0) {
        e_.jump(slow());
        define(guard.dst);
        break;
      }
      if (imm == 0) type_must_be(dict, facts.dict_type, slow());
      load_from_dict(guard, dict);
      break;
    }
    case GuardKind::k_instance_value: load_instance_value(guard); break;
    case GuardKind::k_bound: {
      Reg reg = define(guard.dst);
      e_.load_immediate(reg, binding(guard.constant));
      keep(guard.dst, reg);
      break;
    }
    case GuardKind::k_type_of: load_result(guard.dst, at(hold(guard.a), facts.type_offset)); break;

    case GuardKind::k_unbound:
      e_.compare(at(hold(kSlots), imm * 8), int64_t{0});
      e_.jump_if(Condition::kNotEqual, miss());
      break;
    case GuardKind::k_same:
      e_.compare(hold(guard.a), reinterpret_cast<int64_t>(binding(guard.constant)));
      e_.jump_if(Condition::kNotEqual, miss());
      break;
    case GuardKind::k_type_is: type_must_be(hold(guard.a), binding(guard.constant), miss()); break;
    case GuardKind::k_type_version:
      if (imm == 0) e_.jump(miss());  // the type had no version
      e_.load(kScratch, at(hold(guard.a), facts.type_offset));
      e_.compare(kScratch, reinterpret_cast<int64_t>(binding(guard.constant)));
      e_.jump_if(Condition::kNotEqual, miss());
      e_.compare_32(at(kScratch, facts.type_version_offset), imm);
      e_.jump_if(Condition::kNotEqual, miss());
      break;
    case GuardKind::k_class_version:
      if (imm == 0) e_.jump(miss());
      e_.compare(hold(guard.a), reinterpret_cast<int64_t>(binding(guard.constant)));
      e_.jump_if(Condition::kNotEqual, miss());
      e_.compare_32(at(hold(guard.a), facts.type_version_offset), imm);
      e_.jump_if(Condition::kNotEqual, miss());
      break;
    case GuardKind::k_identical:
    case GuardKind::k_distinct: {
      Reg a = hold(guard.a);
      e_.compare(a, hold(guard.b));
      e_.jump_if(guard.kind == GuardKind::k_identical ? Condition::kNotEqual : Condition::kEqual, miss());
      break;
    }
    case GuardKind::k_int_equal: int_must_equal(hold(guard.a), program_.constants[guard.constant].i64); break;
    case GuardKind::k_float_equal: {
      Reg a = hold(guard.a);
      type_must_be(a, facts.float_type, miss());
      e_.compare(at(a, facts.float_value_offset), std::bit_cast<int64_t>(program_.constants[guard.constant].f64));
      e_.jump_if(Condition::kNotEqual, miss());
      break;
    }
    case GuardKind::k_equal:
    case GuardKind::k_range_equal:
      if (binding(guard.constant) == nullptr) {
        e_.jump(slow());
      } else {
        e_.compare(hold(guard.a), reinterpret_cast<int64_t>(binding(guard.constant)));
        e_.jump_if(Condition::kNotEqual, slow());
      }
      break;
    case GuardKind::k_int_value: load_int(guard); break;
    case GuardKind::k_float_value: {
      Reg a = hold(guard.a);
      type_must_be(a, facts.float_type, miss());
      load_result(guard.dst, at(a, facts.float_value_offset));
      break;
    }
    case GuardKind::k_tuple_length:
    case GuardKind::k_list_length: {
      Reg a = hold(guard.a);
      type_must_be(a, guard.kind == GuardKind::k_tuple_length ? facts.tuple_type : facts.list_type, miss());
      e_.compare(at(a, facts.size_offset), guard.imm);
      e_.jump_if(Condition::kNotEqual, miss());
      break;
    }
    case GuardKind::k_tuple_size:
      e_.compare(at(hold(guard.a), facts.size_offset), guard.imm);
      e_.jump_if(Condition::kNotEqual, miss());
      break;
    case GuardKind::k_null_field:
      e_.compare(at(hold(guard.a), static_cast<int>(imm)), int64_t{0});
      e_.jump_if(Condition::kNotEqual, miss());
      break;
    case GuardKind::k_pointer_field:
      e_.load(kScratch, at(hold(guard.a), static_cast<int>(imm)));
      e_.compare(kScratch, reinterpret_cast<int64_t>(binding(guard.constant)));
      e_.jump_if(Condition::kNotEqual, miss());
      break;
    case GuardKind::k_list_size: {
      Reg a = hold(guard.a);
      type_must_be(a, facts.list_type, miss());
      load_result(guard.dst, at(a, facts.size_offset));
      break;
    }
    case GuardKind::k_dict_length: {
      Reg a = hold(guard.a);
      type_must_be(a, facts.dict_type, miss());
      e_.compare(at(a, facts.dict_used_offset), guard.imm);
      e_.jump_if(Condition::kNotEqual, miss());
      break;
    }
    case GuardKind::k_dict_keys:
    case GuardKind::k_dict_lacks: {
      Reg a = hold(guard.a);
      if (imm == kOfOrderedDict) {
        e_.jump(slow());
        break;
      }
      if (imm == 0) type_must_be(a, facts.dict_type, miss());
      e_.load(kScratch, at(a, facts.dict_version_offset));
      version_must_hold();
      break;
    }
    case GuardKind::k_instance_lacks: instance_must_lack(guard); break;
    case GuardKind::k_word_is:
      e_.compare(at(hold(guard.a), imm), program_.constants[guard.constant].i64);
      e_.jump_if(Condition::kNotEqual, miss());
      break;
    case GuardKind::k_set_equal:
    case GuardKind::k_set_has: e_.jump(slow()); break;
    case GuardKind::k_deque_item:
      e_.jump(slow());
      define(guard.dst);
      break;
    case GuardKind::k_cell_empty:
      e_.compare(at(hold(guard.a), facts.cell_contents_offset), int64_t{0});
      e_.jump_if(Condition::kNotEqual, miss());
      break;
    case GuardKind::k_tensor_layout: {
      Reg a = hold(guard.a);
      type_must_be(a, facts.tensor_type, miss());
      e_.compare(at(a, facts.tensor_layout_offset), binding(guard.constant));
      e_.jump_if(Condition::kNotEqual, miss());
      break;
    }
    case GuardKind::k_tensor_class: {
      // dtype, rank, contiguous and gradients are neighbours: one compare of four bytes.
      static_assert(offsetof(Layout, rank) == offsetof(Layout, dtype) + 1 &&
                    offsetof(Layout, contiguous) == offsetof(Layout, dtype) + 2 &&
                    offsetof(Layout, gradients) == offsetof(Layout, dtype) + 3);
      const auto* layout = static_cast<const Layout*>(binding(guard.constant));
      uint32_t wanted = static_cast<uint32_t>(layout->dtype) | uint32_t{layout->rank} << 8 |
                        uint32_t{layout->contiguous} << 16 | uint32_t{layout->gradients} << 24;
      Reg a = hold(guard.a);
      type_must_be(a, facts.tensor_type, miss());
      e_.load(kScratch, at(a, facts.tensor_layout_offset));
      e_.load_32(kScratch, at(kScratch, offsetof(Layout, dtype)));
      e_.compare_32(kScratch, static_cast<int32_t>(wanted));
      e_.jump_if(Condition::kNotEqual, miss());
      break;
    }
    case GuardKind::k_int_compare: {
      Reg a = hold(guard.a);
      e_.compare(a, hold(guard.b));
      e_.jump_if(opposite(condition_of(static_cast<Compare>(guard.imm))), miss());
      break;
    }
    case GuardKind::k_state_word:
      e_.load_immediate(kScratch, binding(guard.constant));
      e_.compare_32(at(kScratch), imm);
      e_.jump_if(Condition::kNotEqual, miss());
      break;
    case GuardKind::k_grad_mode:
      if (imm != 0) {
        e_.jump(slow());
        break;
      }
      e_.load_immediate(kScratch, object_facts().threads_without_grad);
      e_.compare_32(at(kScratch), 0);
      e_.jump_if(Condition::kNotEqual, slow());
      break;
    case GuardKind::kCount: break;
  }
}

// kScratch = the sequence, kScratch2 = the place in it that is asked for.
void GuardCompiler::next_item(const Guard& guard) {
  const ObjectFacts& facts = object_facts();
  const bool wanted = guard.kind == GuardKind::k_next_item;
  Reg iterator = hold(guard.a);
  Label none = wanted ? miss() : e_.new_label();
  e_.load(kScratch, at(iterator, facts.iterator_sequence_offset));
  e_.test(kScratch);
  e_.jump_if(Condition::kEqual, none);
  e_.load(kScratch2, at(iterator, facts.iterator_index_offset));
  e_.add(kScratch2, static_cast<int32_t>(guard.imm));
  e_.compare(kScratch2, at(kScratch, facts.size_offset));
  if (!wanted) {
    e_.jump_if(Condition::kLess, miss());
    e_.bind(none);
    return;
  }
  e_.jump_if(Condition::kGreaterEqual, none);
  e_.shift_left(kScratch2, 3);
  Label is_tuple = e_.new_label(), found = e_.new_label();
  e_.compare(at(iterator, facts.type_offset), facts.list_iterator_type);  // the list's own class may be another
  e_.jump_if(Condition::kNotEqual, is_tuple);
  e_.load(kScratch, at(kScratch, facts.list_items_offset));
  e_.jump(found);
  e_.bind(is_tuple);
  e_.add(kScratch, facts.tuple_items_offset);
  e_.bind(found);
  load_result(guard.dst, at(kScratch, kScratch2));
}

void GuardCompiler::type_must_be(Reg object, const void* type, Label otherwise) {
  e_.compare(at(object, object_facts().type_offset), type);
  e_.jump_if(Condition::kNotEqual, otherwise);
}

// ---- Dicts and instances ------------------------------------------------------------------------

// While the dict has the version that it had, the value is the one it had; else see emit_place.
void GuardCompiler::load_from_dict(const Guard& guard, Reg dict) {
  const GuardCache::Form form = cache().form;
  if ((form != GuardCache::Form::kDict && form != GuardCache::Form::kSplitDict) || binding(guard.constant) == nullptr) {
    e_.jump(slow());
    define(guard.dst);
    return;
  }
  Place place{current_, e_.new_label(), e_.new_label(), slow(), dict, define(guard.dst)};
  e_.load_immediate(kScratch2, &cache());
  e_.load(kScratch, at(dict, object_facts().dict_version_offset));
  e_.compare(kScratch, at(kScratch2, offsetof(GuardCache, version)));
  e_.jump_if(Condition::kNotEqual, place.label);
  e_.load(place.result, at(kScratch2, offsetof(GuardCache, value)));
  e_.bind(place.resume);
  keep(guard.dst, place.result);
  places_.push_back(place);
}

// Out of line: kScratch is the dict's version, kScratch2 the cache's address. The keys object must be the one of the
// cache, and of the same size and kind (a new one may have an old one's address), so that the entry may be read.
void GuardCompiler::emit_place(const Place& place) {
  const ObjectFacts& facts = object_facts();
  const GuardCache& cache = program_.caches[static_cast<size_t>(place.guard)];
  const Guard& guard = program_.guards[static_cast<size_t>(place.guard)];
  const Reg keys = kScratch;
  e_.bind(place.label);
  e_.load(keys, at(place.dict, facts.dict_keys_offset));
  e_.compare(keys, at(kScratch2, offsetof(GuardCache, keys)));
  e_.jump_if(Condition::kNotEqual, place.slow);
  e_.load_32(Reg::kResult, at(keys, facts.keys_geometry_offset));
  e_.bit_and_32(Reg::kResult, facts.keys_geometry_mask);
  e_.compare_32(Reg::kResult, at(kScratch2, offsetof(GuardCache, geometry)));
  e_.jump_if(Condition::kNotEqual, place.slow);
  // The name, then the value right after it.
  e_.load_signed_32(Reg::kResult, at(kScratch2, offsetof(GuardCache, name_offset)));
  e_.add(keys, Reg::kResult);
  e_.compare(at(keys), binding(guard.constant));
  e_.jump_if(Condition::kNotEqual, place.slow);
  if (cache.form == GuardCache::Form::kDict) {
    e_.load(keys, at(keys, 8));
  } else {
    e_.load_signed_32(Reg::kResult, at(kScratch2, offsetof(GuardCache, value_offset)));
    e_.load(keys, at(place.dict, facts.dict_values_offset));
    e_.test(keys);
    e_.jump_if(Condition::kEqual, place.slow);
    e_.load(keys, at(keys, Reg::kResult));
  }
  e_.test(keys);
  e_.jump_if(Condition::kEqual, place.slow);
  e_.store(at(kScratch2, offsetof(GuardCache, value)), keys);
  e_.load(Reg::kResult, at(place.dict, facts.dict_version_offset));
  e_.store(at(kScratch2, offsetof(GuardCache, version)), Reg::kResult);
  e_.move(place.result, keys);
  e_.jump(place.resume);
}

void GuardCompiler::load_instance_value(const Guard& guard) {
  const GuardCache& place = cache();
  if (place.form == GuardCache::Form::kInlineValues) {
    // The type's version was checked: its shared keys, and so the place, are as they were.
    e_.load(kScratch, at(hold(guard.a), object_facts().inline_values_offset));
    e_.test(kScratch);
    e_.jump_if(Condition::kEqual, slow());
    load_result(guard.dst, at(kScratch, place.value_offset));
    e_.test(hold(guard.dst));
    e_.jump_if(Condition::kEqual, slow());
    return;
  }
  if (place.form == GuardCache::Form::kNone || place.dict_offset == 0) {
    e_.jump(slow());
    define(guard.dst);
    return;
  }
  Reg dict = take(kNoValue);
  e_.load(dict, at(hold(guard.a), place.dict_offset));
  e_.test(dict);
  e_.jump_if(Condition::kEqual, slow());
  load_from_dict(guard, dict);
}

// kScratch holds the version that must be the cache's; the slow reference notes the new one.
void GuardCompiler::version_must_hold() {
  e_.load_immediate(kScratch2, &cache());
  e_.compare(kScratch, at(kScratch2, offsetof(GuardCache, version)));
  e_.jump_if(Condition::kNotEqual, slow());
}

void GuardCompiler::instance_must_lack(const Guard& guard) {
  const ObjectFacts& facts = object_facts();
  const GuardCache& place = cache();
  Reg object = hold(guard.a);
  if (place.form == GuardCache::Form::kInlineValues) {
    e_.load(kScratch, at(object, facts.inline_values_offset));
    e_.test(kScratch);
    e_.jump_if(Condition::kEqual, slow());
    if (place.value_offset >= 0) {  // the shared keys have the name: this instance has not set it
      e_.compare(at(kScratch, place.value_offset), int64_t{0});
      e_.jump_if(Condition::kNotEqual, miss());
    } else {  // they do not: no name was added since
      e_.load_immediate(kScratch, place.keys);
      e_.load(kScratch, at(kScratch, facts.keys_entries_offset));
      version_must_hold();
    }
  } else if (place.form != GuardCache::Form::kNone && place.dict_offset != 0) {
    e_.load(kScratch, at(object, place.dict_offset));
    e_.test(kScratch);
    e_.jump_if(Condition::kEqual, slow());
    e_.load(kScratch, at(kScratch, facts.dict_version_offset));
    version_must_hold();
  } else {
    e_.jump(slow());
  }
}

// ---- Numbers ------------------------------------------------------------------------------------

// One digit in line, two in line on another path, the rest slow (three digits can still fit 64 bits).
void GuardCompiler::load_int(const Guard& guard) {
  const ObjectFacts& facts = object_facts();
  Reg object = hold(guard.a);
  type_must_be(object, facts.int_type, miss());
  e_.load(kScratch, at(object, facts.int_size_offset));  // sign times number of digits
  e_.load_32(kScratch2, at(object, facts.int_digits_offset));
  Reg result = define(guard.dst);
  Label small = e_.new_label(), done = e_.new_label();
  e_.load_address(Reg::kResult, at(kScratch, 1));
  e_.compare(Reg::kResult, int64_t{2});
  e_.jump_if(Condition::kBelowEqual, small);
  e_.load_address(Reg::kResult, at(kScratch, 2));
  e_.bit_and(Reg::kResult, int32_t{-5});  // 0 for -2 and 2
  e_.jump_if(Condition::kNotEqual, slow());
  e_.load_32(Reg::kResult, at(object, facts.int_digits_offset + 4));
  e_.shift_left(Reg::kResult, 30);
  e_.bit_or(kScratch2, Reg::kResult);
  e_.test(kScratch);
  e_.jump_if(Condition::kGreaterEqual, done);
  e_.negate(kScratch2);
  e_.jump(done);
  e_.bind(small);
  e_.multiply(kScratch2, kScratch);
  e_.bind(done);
  e_.move(result, kScratch2);
  keep(guard.dst, result);
}

void GuardCompiler::int_must_equal(Reg object, int64_t value) {
  const ObjectFacts& facts = object_facts();
  type_must_be(object, facts.int_type, miss());
  uint64_t magnitude = value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  int digits = 0;
  for (uint64_t rest = magnitude; rest != 0; rest >>= 30) ++digits;
  e_.compare(at(object, facts.int_size_offset), int64_t{value < 0 ? -digits : digits});
  e_.jump_if(Condition::kNotEqual, miss());
  for (int i = 0; i < digits; ++i, magnitude >>= 30) {
    e_.compare_32(at(object, facts.int_digits_offset + i * 4), static_cast<int32_t>(magnitude & kDigitMask));
    e_.jump_if(Condition::kNotEqual, miss());
  }
}

// ---- Registers and stubs ------------------------------------------------------------------------

Reg GuardCompiler::hold(ValueId value) {
  for (int r = 0; r < kPool; ++r) {
    if (held_[r].value != value) continue;
    held_[r].used = ++clock_;
    return kPoolRegs[r];
  }
  Reg reg = take(value);
  reload(value, reg);
  return reg;
}

Reg GuardCompiler::define(ValueId value) {
  for (Held& held : held_) {
    if (held.value == value) held.value = kNoValue;
  }
  return take(value);
}

// The register unused for longest. kNoValue: for the length of one guard.
Reg GuardCompiler::take(ValueId value) {
  int oldest = 0;
  for (int r = 1; r < kPool; ++r) {
    if (held_[r].used < held_[oldest].used) oldest = r;
  }
  held_[oldest] = {value, ++clock_};
  return kPoolRegs[oldest];
}

void GuardCompiler::reload(ValueId value, Reg reg) {
  if (value == kSlots) {
    e_.load(reg, at(Reg::kState, frame_.slots));
  } else if (value != kNoValue) {
    e_.load(reg, value_at(value));
  }
}

void GuardCompiler::load_result(ValueId dst, Memory from) {
  Reg reg = define(dst);
  e_.load(reg, from);
  keep(dst, reg);
}

void GuardCompiler::keep(ValueId value, Reg reg) { e_.store(value_at(value), reg); }

Label GuardCompiler::miss() {
  if (miss_.id == UINT32_MAX) {
    miss_ = e_.new_label();
    misses_.push_back({current_, miss_, {}, {}, {}});
  }
  return miss_;
}

Label GuardCompiler::slow() {
  if (slow_.id == UINT32_MAX) {
    slow_ = e_.new_label();
    slows_.push_back({current_, slow_, {}, {}, {}});
  }
  return slow_;
}

void* GuardCompiler::binding(ConstantId constant) const {
  return constant == kNoConstant ? nullptr : program_.bindings[static_cast<size_t>(constant)];
}

}  // namespace kintsugi
