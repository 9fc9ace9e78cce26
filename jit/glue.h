// From a plan to native code: guards, then glue between kernels, then exits. The code calls nothing by name: helpers come
// from one table, so that a plan also runs where there is no Python (tests/unit/plan_test.cpp supplies its own table).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "jit/plan.h"

namespace kintsugi {

struct NativeState;
using StepHelper = int (*)(NativeState*, const Step*);  // negative: an exception is set, leave through on_fail

struct HelperTable {
  StepHelper step[static_cast<int>(StepKind::kCount)];  // by kind; null for those that are native
  void* (*tensor_new)(const Layout*);                   // new reference, null with an exception set
  int (*guard_slow)(NativeState*, int guard);           // a native guard did not hold: 1 it does hold after all, 0 it does not
  void (*release)(void* object);                        // drop one reference
};

// What emitted code runs over. The driver keeps it on its own stack.
struct NativeState {
  void* const* slots;          // PyObject*: read by guards; null entries are unbound
  void* function;              // PyFunctionObject*
  uint64_t* values;            // value_count words
  const HelperTable* helpers;
  const struct SegmentCode* segment;
  void* result;                // kReturn: an owned object when the result was moved out in native code, else null
  int32_t missed_guard;        // index, when entry() answered kMissed
};
inline constexpr int32_t kMissed = -1;

// Offsets and addresses of CPython's structs that native guards read; filled once by the runtime (frame.h), by fakes in tests.
struct ObjectFacts {
  int32_t type_offset = 8;           // PyObject.ob_type
  int32_t size_offset = 16;          // PyVarObject.ob_size
  int32_t list_items_offset = 24;
  int32_t tuple_items_offset = 24;
  int32_t float_value_offset = 16;
  int32_t int_size_offset = 16, int_digits_offset = 24;  // 3.11: sign in ob_size, 30-bit digits
  int32_t type_version_offset = 0;
  int32_t dict_keys_offset = 0, dict_values_offset = 0, dict_used_offset = 0;
  int32_t inline_values_offset = -24;  // 3.11: PyDictValues pointer before the object (managed dict): see frame.h
  int32_t tensor_layout_offset = 0, tensor_data_offset = 0;
  int32_t range_iterator_index = 16, range_iterator_start = 24, range_iterator_step = 32, range_iterator_length = 40;
  const void *tensor_type = nullptr, *int_type = nullptr, *float_type = nullptr, *list_type = nullptr,
             *tuple_type = nullptr, *dict_type = nullptr, *range_iterator_type = nullptr;
  void *true_object = nullptr, *false_object = nullptr, *none_object = nullptr;
};
void set_object_facts(const ObjectFacts& facts);
const ObjectFacts& object_facts();

struct GuardCache {   // what a fast dict or attribute guard compares, recorded at trace time, by guard index
  const void* keys = nullptr;   // keys object
  int32_t entry_offset = -1;    // bytes from the keys object to the entry's value, or from the values array to the value
  bool values = false;          // the value lies in a values array (split dict or inline values)
};

// The code of one segment. Owns its kernels and its code memory. `plan` and `bindings` stay valid beside it.
struct SegmentCode {
  Plan plan;
  std::vector<void*> bindings;              // by ConstantId: objects, layouts, pointers; null where the constant is by value
  std::vector<GuardCache> caches;           // by guard index
  std::vector<Kernel*> kernels;             // by kernels index
  int32_t (*entry)(NativeState*) = nullptr; // guards then body; answers an ExitId, or kMissed
  int32_t (*body)(NativeState*) = nullptr;  // after guards that were checked elsewhere: the values they load are filled in
  size_t code_bytes = 0;
};
// Null with *error set when there is no code memory left or a kernel cannot be made (an ordered failure).
SegmentCode* emit_segment(Plan plan, std::vector<void*> bindings, std::vector<GuardCache> caches, OpError* error);
void free_segment(SegmentCode* code);
std::string disassemble(const SegmentCode& code);  // through Zydis, each part named

}  // namespace kintsugi
