// Inside runtime/tensor*.cpp only: the lists of rows, and how their parsers read Python arguments. Readers return false
// with an exception that names the function and the argument.
#pragma once
#include <span>

#include "runtime/tensor.h"

namespace kintsugi {

std::span<const FunctionRow> function_rows();       // kt.zeros, kt.cat, ...: tensor_functions.cpp
std::span<const FunctionRow> function_form_rows();  // kt.reshape, ...: tensor_methods.cpp
std::span<const FunctionRow> method_rows();         // Tensor.reshape, ...: tensor_methods.cpp
std::span<const FunctionRow> attribute_rows();      // Tensor.shape, ...: tensor_methods.cpp

// Makes the final tables (with ops.def's rows), the type's method and attribute lists, and the module's functions.
bool init_rows(Borrowed module);
PyMethodDef* tensor_method_list();
PyGetSetDef* tensor_attribute_list();

// tensor.cpp
PyObject* make_element_view(const TensorObject* base, int64_t offset);  // no dimensions
// One or two operands, an element-wise op, nothing else.
void deallocate_tensor(PyObject* self);
void empty_free_list();  // dead tensor objects and the layouts they keep
const Layout* plain_result_layout(Op op, const OperandValue* values, size_t count);  // good until the next call
PyObject* apply_plain(Op op, const OperandValue* values, size_t count);
bool apply_plain_into(Op op, PyObject* const* operands, size_t count, const TensorObject* target);

// Parsers that rows of ops.def use.
bool parse_elementwise(ParsedCall* call);
bool parse_in_place(ParsedCall* call);
bool parse_power(ParsedCall* call);
bool parse_reduction(ParsedCall* call);
bool parse_cast(ParsedCall* call);  // values[0] to row.dtype

bool read_tensor(const ParsedCall& call, int parameter, TensorObject** out);
bool read_int(Borrowed object, const char* what, int64_t* out);
bool read_bool(const ParsedCall& call, int parameter, bool default_value, bool* out);
// A dtype object, or Python's bool, int or float. has is false when the argument was not given.
bool read_dtype(Borrowed object, DType* out);
bool read_optional_dtype(const ParsedCall& call, int parameter, bool* has, DType* out);
bool check_device(Borrowed object);                            // null is fine
bool wants_gradient(Borrowed object, DType dtype, bool* out);  // requires_grad
bool read_gradient(ParsedCall* call, int parameter);           // of a creation, whose dtype is known
// The rest parameter: f(2, 3), f((2, 3)) or f(shape=(2, 3)).
bool read_sizes(const ParsedCall& call, int parameter, int* count, int64_t (&out)[kMaxRank]);
bool read_int_list(Borrowed sequence, const char* what, int* count, int64_t (&out)[kMaxRank]);
// A dimension with -1 as the last one; IndexError beyond rank.
bool read_dim(Borrowed object, int rank, int* out);
bool set_operand(ParsedCall* call, int parameter);  // appends an argument as operand: tensor or number
// "Write value as it is into the part (call->shape, call->offset) of target", after checking that it fits.
bool set_store(ParsedCall* call, Borrowed target, Borrowed value, int argument);
void set_view(ParsedCall* call, const Shape& shape, int64_t offset);

// Whether a stored value fits into these sizes; RuntimeError if not.
bool fits_by_broadcast(const Layout& value, const Shape& target);

// tensor_types.cpp
bool is_device(Borrowed object);            // a device, or a str
PyObject* dtype_object(DType dtype);        // borrowed, lives for ever
PyObject* cpu_device();                     // borrowed, lives for ever
PyObject* make_size(const Layout& layout);  // a Size
bool init_types(Borrowed module);

// tensor_data.cpp: between elements and Python objects
PyObject* read_element(DType dtype, const char* data);
bool write_number(DType dtype, char* data,
                  const OperandValue& number);  // OverflowError, ValueError when it does not fit
PyObject* item_of(const Arguments& arguments);
PyObject* to_list(const Arguments& arguments);
PyObject* tensor_from_data(const Arguments& arguments);  // kt.tensor
PyObject* reduce_tensor(const Arguments& arguments);     // for pickle, and its inverse
PyObject* rebuild_tensor(const Arguments& arguments);
bool has_memory(const TensorObject* tensor);  // false: RuntimeError, a stand-in

// tensor_type.cpp: Tensor.__dict__
PyObject* get_attribute_dict(PyObject* self, void* closure);
int set_attribute_dict(PyObject* self, PyObject* value, void* closure);

// tensor_print.cpp
PyObject* tensor_repr(PyObject* self);

// tensor_index.cpp: a new dimension of size 1, and slots
bool insert_dimension(Shape* shape, int dim);                                 // ValueError beyond kMaxRank
bool apply_key_item(Borrowed item, Shape* shape, int64_t* offset, int* dim);  // at a dimension, and moves on
bool refuse_bool_key();                                                       // false
PyObject* get_item(PyObject* self, PyObject* key);
int set_item(PyObject* self, PyObject* key, PyObject* value);
PyObject* get_element(PyObject* self, Py_ssize_t index);

// tensor_gather.cpp: keys that choose by tensors, lists or arrays
bool has_choice(Borrowed key);
PyObject* get_chosen(const TensorObject* tensor, Borrowed key);
bool set_chosen(TensorObject* tensor, Borrowed key, Borrowed value);
bool parse_chosen(Borrowed tensor, Borrowed key, ParsedCall* out);
bool parse_set_chosen(Borrowed tensor, Borrowed key, Borrowed value, ParsedCall* out);
PyObject* nonzero_value(const Arguments& arguments);

}  // namespace kintsugi
