// Offsets and addresses of CPython's structs that native guards and glue read. Filled once by the runtime from frame.h,
// by fakes in tests: nothing in native code knows CPython otherwise. A null type pointer matches no object.
#pragma once
#include <cstdint>

namespace kintsugi {

// Where a store to an attribute of an instance goes as long as the class has the version that it had.
struct AttributePlace {
  enum class Form : uint8_t { kNone, kInlineValues, kSlot } form = Form::kNone;
  int32_t offset = 0;  // bytes from the array of values, or from the object
};

struct ObjectFacts {
  int32_t references_offset = 0;  // PyObject.ob_refcnt
  int32_t type_offset = 8;        // PyObject.ob_type
  int32_t size_offset = 16;       // PyVarObject.ob_size
  int32_t list_items_offset = 24;
  int32_t tuple_items_offset = 24;
  int32_t iterator_index_offset = 16, iterator_sequence_offset = 24;  // of list and tuple iterators
  int32_t float_value_offset = 16;
  int32_t int_size_offset = 16, int_digits_offset = 24;  // 3.11: sign in ob_size, 30-bit digits
  int32_t cell_contents_offset = 16;
  int32_t type_version_offset = 0;
  int32_t dict_keys_offset = 0, dict_values_offset = 0, dict_used_offset = 0, dict_version_offset = 0;
  int32_t keys_geometry_offset = 0;  // 4 bytes of the keys object, of which keys_geometry_mask count
  uint32_t keys_geometry_mask = 0;
  int32_t keys_entries_offset = 0;     // number of entries, 64 bits
  int32_t inline_values_offset = -32;  // 3.11: PyDictValues pointer before the object (managed dict)
  int32_t tensor_layout_offset = 0, tensor_data_offset = 0;
  int32_t range_iterator_index = 16, range_iterator_start = 24, range_iterator_step = 32, range_iterator_length = 40;
  const void *tensor_type = nullptr, *int_type = nullptr, *float_type = nullptr, *list_type = nullptr,
             *tuple_type = nullptr, *dict_type = nullptr, *function_type = nullptr, *range_iterator_type = nullptr,
             *list_iterator_type = nullptr;
  AttributePlace (*attribute_place)(const void* type, const void* name) = nullptr;
  int (*grad_mode)() = nullptr;                   // of the calling thread
  const int32_t* threads_without_grad = nullptr;  // how many have another one than 0
  void *true_object = nullptr, *false_object = nullptr, *none_object = nullptr;
};
void set_object_facts(const ObjectFacts& facts);
const ObjectFacts& object_facts();

}  // namespace kintsugi
