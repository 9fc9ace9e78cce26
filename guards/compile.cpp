// See compile.h. Values live in registers of a small pool as long as they can, and always in NativeState::values too,
// so that the slow reference finds them and a call in a stub costs only reloads. kResult is scratch for wide
// immediates; kArgument1 and kArgument2 are scratch inside one guard.
#include "guards/compile.h"

#include <algorithm>
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
bool misses_are_named = false;

// The value of the cache's name where it lay last; null: another table lies there, or nothing. The keys object must be
// the one of the cache, and of the same size and kind (a new one may have an old one's address), so that the entry may
// be read. Called with everything in registers, so it keeps them all; the first argument is not passed.
[[gnu::no_caller_saved_registers, gnu::target("general-regs-only"),
  gnu::no_sanitize("address", "undefined")]] const void*
find_again(const void*, GuardCache* cache, const char* dict) {
  const ObjectFacts& facts = facts_of_this_process;
  const char* keys = *reinterpret_cast<const char* const*>(dict + facts.dict_keys_offset);
  if (keys != cache->keys) return nullptr;
  const uint32_t geometry = *reinterpret_cast<const uint32_t*>(keys + facts.keys_geometry_offset);
  if ((geometry & facts.keys_geometry_mask) != cache->geometry) return nullptr;
  auto* name = reinterpret_cast<const void* const*>(keys + cache->name_offset);
  if (name[0] != cache->name) return nullptr;
  const void* value;
  if (cache->form == GuardCache::Form::kDict) {
    value = name[1];
  } else {
    const char* values = *reinterpret_cast<const char* const*>(dict + facts.dict_values_offset);
    if (values == nullptr) return nullptr;
    value = *reinterpret_cast<const void* const*>(values + cache->value_offset);
  }
  if (value == nullptr || (cache->expected != nullptr && cache->expected != value)) return value;
  cache->value = value;
  cache->version = *reinterpret_cast<const uint64_t*>(dict + facts.dict_version_offset);
  return value;
}

}  // namespace

void set_object_facts(const ObjectFacts& facts) { facts_of_this_process = facts; }
const ObjectFacts& object_facts() { return facts_of_this_process; }

void name_missed_guards(bool on) { misses_are_named = on; }

GuardCompiler::GuardCompiler(Emitter& emitter, const GuardProgram& program, const GuardFrame& frame,
                             std::vector<uint8_t> used, Label missed, Label held)
    : e_(emitter), program_(program), frame_(frame), missed_(missed), done_(held), used_(std::move(used)) {
  offsets_.reserve(program.guards.size());
  ValueId most = -1;
  for (const Guard& guard : program.guards) most = std::max(most, guard.dst);
  const bool all = used_.empty();
  used_.resize(static_cast<size_t>(std::max(most + 1, static_cast<ValueId>(used_.size()))), all ? 2 : 0);
  dicts_.resize(used_.size(), 0);
  for (const Guard& guard : program.guards) {
    for (ValueId value : {guard.a, guard.b})
      if (value != kNoValue && used_[static_cast<size_t>(value)] < 2) ++used_[static_cast<size_t>(value)];
  }
}

void GuardCompiler::emit() {
  const int count = static_cast<int>(program_.guards.size());
  for (current_ = 0; current_ < count; ++current_) {
    const int first = current_;
    miss_ = slow_ = Label{};
    offsets_.push_back(e_.offset());
    emit_guard(program_.guards[static_cast<size_t>(current_)]);
    if (current_ != first) offsets_.push_back(e_.offset());  // merged
    if (slow_.id == UINT32_MAX) continue;
    Slow& slow = slows_.back();
    slow.is_same = current_ != first;
    slow.resume = e_.new_label();
    e_.bind(slow.resume);
    for (int r = 0; r < kPool; ++r) slow.reload[r] = held_[r].value;
  }
}

void GuardCompiler::emit_stubs() {
  for (const Place& place : places_) emit_place(place);
  for (const Slow& slow : slows_) emit_slow(slow);
  for (const Miss& miss : misses_) {
    e_.bind(miss.label);
    e_.store_immediate_32(at(Reg::kState, frame_.missed_guard), miss.guard);
    e_.jump(missed_);
  }
}

// The reference looks at the guard, or at it and all after it: then no register is needed any more.
void GuardCompiler::emit_slow(const Slow& slow) {
  e_.bind(slow.label);
  e_.move(Reg::kArgument0, Reg::kState);
  e_.load_immediate(Reg::kArgument1, slow.rest ? ~slow.guard : slow.guard);
  e_.load(Reg::kResult, at(Reg::kState, frame_.helpers));
  e_.call(at(Reg::kResult, frame_.guard_slow));
  e_.compare_32(Reg::kResult, 0);
  e_.jump_if(Condition::kEqual, miss(slow.guard));
  if (slow.rest) return e_.jump(done_);
  if (slow.is_same) {
    e_.load(kScratch, value_at(program_.guards[static_cast<size_t>(slow.guard)].dst));
    must_be_expected(slow.guard, kScratch, miss(slow.guard + 1));
  }
  for (int r = 0; r < kPool; ++r) reload(slow.reload[r], kPoolRegs[r]);
  e_.jump(slow.resume);
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
    case GuardKind::k_field: load_field(guard); break;
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
      if (imm == 0) dict_must_be(guard.a, slow());
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
    case GuardKind::k_type_is:
      if (binding(guard.constant) == facts.dict_type) {
        dict_must_be(guard.a, miss());
      } else if (!is_bound_to(guard.a, binding(guard.constant))) {
        type_must_be(hold(guard.a), binding(guard.constant), miss());
      }
      break;
    case GuardKind::k_type_version:
      e_.load(kScratch, at(hold(guard.a), facts.type_offset));
      version_must_be(guard.constant, guard.imm, kScratch);
      break;
    case GuardKind::k_class_version: version_must_be(guard.constant, guard.imm, hold(guard.a)); break;
    case GuardKind::k_class_kept: {
      Reg a = hold(guard.a);
      e_.load_immediate(kScratch, binding(guard.constant));
      e_.load_32(kScratch, at(kScratch));
      e_.compare_32(kScratch, at(a, facts.type_version_offset));
      e_.jump_if(Condition::kNotEqual, miss());
      break;
    }
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
      dict_must_be(guard.a, miss());
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
      if (imm == 0) dict_must_be(guard.a, miss());
      e_.load(kScratch, at(a, facts.dict_version_offset));
      version_must_hold(kScratch);
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

// An object that the segment keeps alive, or an earlier guard: it is of the builtin type that it was.
bool GuardCompiler::is_bound_to(ValueId value, const void* type) const {
  if (current_ == 0) return false;
  const Guard& load = program_.guards[static_cast<size_t>(current_ - 1)];
  if (load.kind != GuardKind::k_bound || load.dst != value) return false;
  const ObjectFacts& facts = object_facts();
  const char* object = static_cast<const char*>(binding(load.constant));
  if (object == nullptr || type == nullptr || (type != facts.dict_type && type != facts.function_type)) return false;
  return *reinterpret_cast<const void* const*>(object + facts.type_offset) == type;
}

void GuardCompiler::dict_must_be(ValueId dict, Label otherwise) {
  uint8_t& known = dicts_[static_cast<size_t>(dict)];
  if (known != 0) return;
  known = 1;
  if (!is_bound_to(dict, object_facts().dict_type)) type_must_be(hold(dict), object_facts().dict_type, otherwise);
}

// `in` is the type. Its version is compared once.
void GuardCompiler::version_must_be(ConstantId type, int64_t version, Reg in) {
  if (version == 0) e_.jump(miss());  // the type had none
  e_.compare(in, reinterpret_cast<int64_t>(binding(type)));
  e_.jump_if(Condition::kNotEqual, miss());
  constexpr size_t kMostRemembered = 32;
  const auto from = versions_.end() - static_cast<ptrdiff_t>(std::min(versions_.size(), kMostRemembered));
  if (std::find(from, versions_.end(), std::pair(type, version)) != versions_.end()) return;
  versions_.emplace_back(type, version);
  e_.compare_32(at(in, object_facts().type_version_offset), static_cast<int32_t>(version));
  e_.jump_if(Condition::kNotEqual, miss());
}

// ---- What a load and a comparison by identity after it have in common -----------------------------

// The next guard says which object the current one loads. It is taken over; see merged_holds().
bool GuardCompiler::merges_same() {
  const size_t next = static_cast<size_t>(current_) + 1;
  if (next >= program_.guards.size()) return false;
  const Guard& same = program_.guards[next];
  return same.kind == GuardKind::k_same && same.a == program_.guards[next - 1].dst && binding(same.constant) != nullptr;
}

// The value that `guard` loads is the one that it must be.
void GuardCompiler::merged_holds(int guard) {
  const Guard& load = program_.guards[static_cast<size_t>(guard)];
  if (used_[static_cast<size_t>(load.dst)] < 2) return;
  const Guard& same = program_.guards[static_cast<size_t>(guard) + 1];
  e_.load_immediate(Reg::kResult, binding(same.constant));
  keep(load.dst, Reg::kResult);
}

void GuardCompiler::must_be_expected(int guard, Reg value, Label otherwise) {
  const Guard& same = program_.guards[static_cast<size_t>(guard) + 1];
  e_.compare(value, reinterpret_cast<int64_t>(binding(same.constant)));
  e_.jump_if(Condition::kNotEqual, otherwise);
}

void GuardCompiler::load_field(const Guard& guard) {
  const Memory field = at(hold(guard.a), static_cast<int32_t>(guard.imm));
  if (merges_same() && !misses_are_named) {
    e_.compare(field, binding(program_.guards[static_cast<size_t>(current_) + 1].constant));
    e_.jump_if(Condition::kNotEqual, missed_);
    merged_holds(current_++);
    return;
  }
  load_result(guard.dst, field);
  e_.test(hold(guard.dst));
  e_.jump_if(Condition::kEqual, miss());
}

// ---- Dicts and instances ------------------------------------------------------------------------

// While the dict has the version that it had, the value is the one it had; else see emit_place.
void GuardCompiler::load_from_dict(const Guard& guard, Reg dict) {
  GuardCache& cache = this->cache();
  const GuardCache::Form form = cache.form;
  if ((form != GuardCache::Form::kDict && form != GuardCache::Form::kSplitDict) || binding(guard.constant) == nullptr) {
    e_.jump(slow());
    define(guard.dst);
    return;
  }
  cache.name = binding(guard.constant);
  const bool is_same = merges_same();
  Place place{current_, e_.new_label(), e_.new_label(), slow(), dict, Reg::kNone};
  if (is_same) {
    cache.expected = binding(program_.guards[static_cast<size_t>(current_) + 1].constant);
    if (cache.value != cache.expected) cache.version = 0;  // no dict has this one
  } else {
    place.result = define(guard.dst);
  }
  const Memory version = in_cache(offsetof(GuardCache, version)), value = in_cache(offsetof(GuardCache, value));
  e_.load(kScratch, at(dict, object_facts().dict_version_offset));
  e_.compare(kScratch, version);
  e_.jump_if(Condition::kNotEqual, place.label);
  if (!is_same) e_.load(place.result, value);
  e_.bind(place.resume);
  is_same ? merged_holds(current_++) : keep(guard.dst, place.result);
  places_.push_back(place);
}

void GuardCompiler::emit_place(const Place& place) {
  const bool is_same = place.result == Reg::kNone;
  e_.bind(place.label);
  e_.move(kScratch, place.dict);
  e_.load_immediate(kScratch2, &program_.caches[static_cast<size_t>(place.guard)]);
  e_.call(reinterpret_cast<const void*>(&find_again));
  e_.test(Reg::kResult);
  e_.jump_if(Condition::kEqual, place.slow);
  e_.move(is_same ? kScratch : place.result, Reg::kResult);
  if (is_same) must_be_expected(place.guard, kScratch, miss(place.guard + 1));
  e_.jump(place.resume);
}

// The class's version was checked: its shared keys, and so each place, are as they were.
Reg GuardCompiler::hold_inline_values(ValueId object) {
  const ValueId wanted = inline_values_of(object);
  for (int r = 0; r < kPool; ++r) {
    if (held_[r].value != wanted) continue;
    held_[r].used = ++clock_;
    slows_[static_cast<size_t>(held_[r].slow_at)].rest = true;
    return kPoolRegs[r];
  }
  Reg from = hold(object), reg = take(wanted);
  e_.load(reg, at(from, object_facts().inline_values_offset));
  e_.test(reg);
  e_.jump_if(Condition::kEqual, slow());
  for (Held& held : held_)
    if (held.value == wanted) held.slow_at = static_cast<int>(slows_.size()) - 1;
  return reg;
}

void GuardCompiler::load_instance_value(const Guard& guard) {
  const GuardCache& place = cache();
  if (place.form == GuardCache::Form::kInlineValues) {
    const Memory value = at(hold_inline_values(guard.a), place.value_offset);
    if (merges_same()) {
      e_.compare(value, binding(program_.guards[static_cast<size_t>(current_) + 1].constant));
      e_.jump_if(Condition::kNotEqual, slow());
      merged_holds(current_++);
      return;
    }
    load_result(guard.dst, value);
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

Memory GuardCompiler::in_cache(size_t field) {
  return at(hold(kCaches), static_cast<int32_t>(static_cast<size_t>(current_) * sizeof(GuardCache) + field));
}

// It must be the cache's; the slow reference notes the new one.
void GuardCompiler::version_must_hold(Reg version) {
  e_.compare(version, in_cache(offsetof(GuardCache, version)));
  e_.jump_if(Condition::kNotEqual, slow());
}

void GuardCompiler::instance_must_lack(const Guard& guard) {
  const ObjectFacts& facts = object_facts();
  const GuardCache& place = cache();
  if (place.form == GuardCache::Form::kInlineValues) {
    Reg values = hold_inline_values(guard.a);
    if (place.value_offset >= 0) {  // the shared keys have the name: this instance has not set it
      e_.compare(at(values, place.value_offset), int64_t{0});
      e_.jump_if(Condition::kNotEqual, miss());
      return;
    }
    for (const Lacking& lacking : lacking_) {
      if (lacking.keys != place.keys || lacking.name != guard.constant) continue;
      slows_[static_cast<size_t>(lacking.slow_at)].rest = true;
      return;
    }
    // They do not: no name was added since.
    e_.load_immediate(kScratch, place.keys);
    e_.load(kScratch, at(kScratch, facts.keys_entries_offset));
    version_must_hold(kScratch);
    constexpr size_t kMostRemembered = 32;
    if (lacking_.size() < kMostRemembered)
      lacking_.push_back({place.keys, guard.constant, static_cast<int>(slows_.size()) - 1});
  } else if (place.form != GuardCache::Form::kNone && place.dict_offset != 0) {
    e_.load(kScratch, at(hold(guard.a), place.dict_offset));
    e_.test(kScratch);
    e_.jump_if(Condition::kEqual, slow());
    e_.load(kScratch, at(kScratch, facts.dict_version_offset));
    version_must_hold(kScratch);
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
  } else if (value == kCaches) {
    e_.load_immediate(reg, program_.caches.data());
  } else if (value <= kFirstInline) {
    e_.load(reg, value_at(kFirstInline - value));
    e_.load(reg, at(reg, object_facts().inline_values_offset));
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
  if (!misses_are_named) return missed_;
  if (miss_.id == UINT32_MAX) miss_ = miss(current_);
  return miss_;
}

Label GuardCompiler::miss(int guard) {
  if (!misses_are_named) return missed_;
  for (const Miss& miss : misses_)
    if (miss.guard == guard) return miss.label;
  misses_.push_back({guard, e_.new_label()});
  return misses_.back().label;
}

Label GuardCompiler::slow() {
  if (slow_.id == UINT32_MAX) {
    slow_ = e_.new_label();
    slows_.push_back({current_, slow_, {}, false, false, {}});
  }
  return slow_;
}

void* GuardCompiler::binding(ConstantId constant) const {
  return constant == kNoConstant ? nullptr : program_.bindings[static_cast<size_t>(constant)];
}

}  // namespace kintsugi
