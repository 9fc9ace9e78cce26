// Objects as native code sees them, without Python: structs with the fields that ObjectFacts names, and a helper table
// that counts. PlanRun reads a plan as text, emits it at the first call and runs it. Used by plan_test and glue_test.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "guards/compile.h"
#include "jit/glue.h"

namespace kintsugi::fake {

// ---- Objects: CPython 3.11's shapes -------------------------------------------------------------

struct Object {
  int64_t references = 1;
  const void* type = nullptr;
};
struct Type : Object {
  uint32_t version = 1;
};
inline Type tensor_type, int_type, float_type, list_type, tuple_type, dict_type, range_iterator_type,
    list_iterator_type, tuple_iterator_type, string_type;
inline Object true_object{1000}, false_object{1000}, none_object{1000};

struct Tensor : Object {
  Layout* layout;
  char* memory;
  explicit Tensor(Layout* of) : Object{1, &tensor_type}, layout(of) {
    memory = static_cast<char*>(std::aligned_alloc(64, (static_cast<size_t>(of->count) * 8 + 63) / 64 * 64 + 64));
  }
  ~Tensor() { std::free(memory); }
  template <typename T>
  T* data() {
    return reinterpret_cast<T*>(memory);
  }
};
struct Int : Object {
  int64_t size;
  uint32_t digits[3] = {};
  explicit Int(int64_t value) : Object{1, &int_type} {
    uint64_t magnitude = value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    int64_t count = 0;
    for (; magnitude != 0; magnitude >>= 30) digits[count++] = static_cast<uint32_t>(magnitude & ((1u << 30) - 1));
    size = value < 0 ? -count : count;
  }
};
struct Float : Object {
  double value;
  explicit Float(double of) : Object{1, &float_type}, value(of) {}
};
struct Tuple : Object {
  int64_t size;
  void* items[4];
};
struct List : Object {
  int64_t size;
  void** items;
};
struct Keys {
  int64_t references = 1;
  uint8_t log2_size = 3, log2_index_bytes = 3, kind = 1;
  uint8_t padding = 0xAA;  // never compared
  uint32_t version = 0;
  int64_t usable = 5, entry_count = 0;
  char indices[8] = {};
  struct {
    const void *name, *value;
  } entries[5] = {};
};
struct Dict : Object {
  int64_t used = 0;
  uint64_t version = 1;
  Keys* keys = nullptr;
  void** values = nullptr;
  Dict() : Object{1, &dict_type} {}
};
struct Instance {  // 3.11: the dict and the values lie before the object
  void** values = nullptr;
  Dict* dict = nullptr;
  int64_t collector[2] = {};
  Object object;
};
struct Cell : Object {
  void* contents = nullptr;
};
struct RangeIterator : Object {
  int64_t index, start, step, length;
};

inline Layout* layout(const char* text) {
  Layout* found = parse_layout(text);
  if (found == nullptr) throw std::runtime_error(std::string("no layout: ") + text);
  return found;  // kept for the process
}

// ---- Helpers ------------------------------------------------------------------------------------

inline bool fail_allocation = false;
inline int live_tensors = 0;

inline void* tensor_new(const Layout* layout) {
  if (fail_allocation) return nullptr;
  ++live_tensors;
  return new Tensor(const_cast<Layout*>(layout));
}
inline void release(void* object) {
  auto* tensor = static_cast<Tensor*>(object);
  if (--tensor->references > 0) return;
  if (tensor->type != &tensor_type) return;  // other fakes live on the test's stack
  --live_tensors;
  delete tensor;
}

template <typename T, typename Field>
int32_t offset_of(Field T::*field) {  // offsetof, also of structs that inherit
  alignas(T) static char place[sizeof(T)];
  return static_cast<int32_t>(reinterpret_cast<char*>(&(reinterpret_cast<T*>(place)->*field)) - place);
}

inline int32_t threads_without_grad = 0;

inline void set_facts() {
  ObjectFacts facts;
  facts.type_version_offset = offset_of(&Type::version);
  facts.dict_keys_offset = offset_of(&Dict::keys);
  facts.dict_values_offset = offset_of(&Dict::values);
  facts.dict_used_offset = offset_of(&Dict::used);
  facts.dict_version_offset = offset_of(&Dict::version);
  facts.keys_geometry_offset = offset_of(&Keys::log2_size);
  facts.keys_geometry_mask = 0xFFFFFF;
  facts.keys_entries_offset = offset_of(&Keys::entry_count);
  facts.inline_values_offset = offset_of(&Instance::values) - offset_of(&Instance::object);
  facts.tensor_layout_offset = offset_of(&Tensor::layout);
  facts.tensor_data_offset = offset_of(&Tensor::memory);
  facts.tensor_type = &tensor_type;
  facts.int_type = &int_type;
  facts.float_type = &float_type;
  facts.list_type = &list_type;
  facts.tuple_type = &tuple_type;
  facts.dict_type = &dict_type;
  facts.range_iterator_type = &range_iterator_type;
  facts.list_iterator_type = &list_iterator_type;
  facts.true_object = &true_object;
  facts.false_object = &false_object;
  facts.none_object = &none_object;
  facts.threads_without_grad = &threads_without_grad;
  set_object_facts(facts);
}

// The objects in slots 0, 1.. as values %0, %1..
inline std::string loads(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += "guard slot dst=%" + std::to_string(i) + " imm=" + std::to_string(i) + "\n";
  return text;
}

// The lines between the plan's head and an exit that hands everything over: 0 the guards held and all steps succeeded,
// 1 a step failed.
inline std::string wrapped(const std::string& lines, int values = 8) {
  return "plan \"test@0\" values=" + std::to_string(values) + " final=!0\nconstant #0 object \"code\"\n" + lines +
         "exit !0 next\n  frame code=#0\nexit !1 next\n  frame code=#0\n";
}

// One plan: its text, what its constants are bound to, and what it runs over.
class PlanRun {
 public:
  explicit PlanRun(const std::string& text) {
    set_facts();
    name_missed_guards(true);
    set_code_allocator(&code_memory());
    if (!parse_plan(text, &plan, &error.text)) throw std::runtime_error(error.text);
    helpers.tensor_new = &tensor_new;
    helpers.release = &release;
    helpers.guard_slow = [](NativeState* state, int guard) {
      return reinterpret_cast<PlanRun*>(state->function)->slow_guard(state, guard);
    };
    for (auto& helper : helpers.step) {
      helper = [](NativeState* state, const Step* step) {
        return reinterpret_cast<PlanRun*>(state->function)->step_helper(state, step);
      };
    }
    for (size_t i = 0; i < plan.constants.size(); ++i) {
      const Constant& constant = plan.constants[i];
      bindings.push_back(constant.kind == ConstantKind::kLayout ? layout(constant.text.c_str()) : nullptr);
    }
  }
  ~PlanRun() { free_segment(code); }

  Layout* layout(const std::string& text) { return fake::layout(text.c_str()); }
  Layout* layout(int constant) { return static_cast<Layout*>(bindings[static_cast<size_t>(constant)]); }

  bool emit() {
    if (code != nullptr) return true;
    code = emit_segment(plan, bindings, caches, &error);
    return code != nullptr;
  }
  // The exit's number, or kMissed; -100 when there is no code.
  int32_t operator()() {
    if (!emit()) return -100;
    values.assign(static_cast<size_t>(plan.value_count) + 1, 0xDEADDEADDEADDEAD);
    state = {slots.data(), this, values.data(), &helpers, code, nullptr, -1};
    return code->entry(&state);
  }
  int64_t integer(ValueId value) const { return static_cast<int64_t>(values[static_cast<size_t>(value)]); }
  double floating(ValueId value) const {
    double out;
    std::memcpy(&out, &values[static_cast<size_t>(value)], sizeof out);
    return out;
  }

  Plan plan;
  std::vector<void*> bindings;
  std::vector<GuardCache> caches;
  std::vector<void*> slots;
  std::vector<uint64_t> values;
  HelperTable helpers{};
  NativeState state{};
  SegmentCode* code = nullptr;
  OpError error;
  std::function<int(NativeState*, int)> slow_guard = [](NativeState*, int) { return 0; };
  std::function<int(NativeState*, const Step*)> step_helper = [](NativeState*, const Step*) { return 0; };
};

}  // namespace kintsugi::fake
