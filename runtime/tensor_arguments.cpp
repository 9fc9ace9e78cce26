// Reading Python arguments for rows of the function table. Only layouts of tensors are looked at, never their data,
// except where a tensor is used as an integer.
#include <string>

#include "runtime/tensor_rows.h"

namespace kintsugi {

namespace {

std::string function_name(const ParsedCall& call) { return std::string(call.arguments.row->name) + "()"; }

}  // namespace

bool read_tensor(const ParsedCall& call, int parameter, TensorObject** out) {
  Borrowed object = call.arguments.values[parameter];
  if (is_tensor(object)) {
    *out = as_tensor(object);
    return true;
  }
  PyErr_Format(PyExc_TypeError, "%s: argument %d must be a Tensor, not %.200s", function_name(call).c_str(),
               parameter + 1, Py_TYPE(object)->tp_name);
  return false;
}

bool read_int(Borrowed object, const char* what, int64_t* out) {
  if (!PyIndex_Check(object)) {
    PyErr_Format(PyExc_TypeError, "%s must be an int, not %.200s", what, Py_TYPE(object)->tp_name);
    return false;
  }
  Ref number(PyNumber_Index(object));
  if (!number) return false;
  int overflow = 0;
  *out = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
  if (overflow == 0) return true;
  PyErr_Format(PyExc_OverflowError, "%s is beyond 64 bits: %.200S", what, number.get());
  return false;
}

bool read_bool(const ParsedCall& call, int parameter, bool default_value, bool* out) {
  Borrowed object = call.arguments.values[parameter];
  *out = object == nullptr ? default_value : object == Py_True;
  if (object == nullptr || PyBool_Check(object)) return true;
  PyErr_Format(PyExc_TypeError, "%s: argument %d must be a bool, not %.200s", function_name(call).c_str(),
               parameter + 1, Py_TYPE(object)->tp_name);
  return false;
}

bool read_optional_dtype(const ParsedCall& call, int parameter, bool* has, DType* out) {
  Borrowed object = call.arguments.values[parameter];
  *has = object != nullptr;
  return !*has || read_dtype(object, out);
}

bool wants_gradient(Borrowed object, DType dtype, bool* out) {
  int wanted = object == nullptr ? 0 : PyObject_IsTrue(object);
  *out = wanted > 0;
  if (wanted <= 0 || info(dtype).kind == DTypeKind::kFloatingKind) return wanted >= 0;
  PyErr_SetString(PyExc_RuntimeError, "Only Tensors of floating point and complex dtype can require gradients");
  return false;
}

bool read_gradient(ParsedCall* call, int parameter) {
  return wants_gradient(call->arguments.values[parameter], call->attributes.dtype, &call->requires_grad);
}

bool read_int_list(Borrowed sequence, const char* what, int* count, int64_t (&out)[kMaxRank]) {
  if (!PyTuple_Check(sequence) && !PyList_Check(sequence)) {
    PyErr_Format(PyExc_TypeError, "%s must be a tuple or list of ints, not %.200s", what, Py_TYPE(sequence)->tp_name);
    return false;
  }
  // A copy: reading an item may run its __index__, which may change a list.
  Ref items(PySequence_Tuple(sequence));
  if (!items) return false;
  if (PyTuple_GET_SIZE(items.get()) > kMaxRank) {
    PyErr_Format(PyExc_ValueError, "%s has %zd items; tensors have at most %d dimensions", what,
                 PyTuple_GET_SIZE(items.get()), kMaxRank);
    return false;
  }
  *count = static_cast<int>(PyTuple_GET_SIZE(items.get()));
  for (int i = 0; i < *count; ++i) {
    if (!read_int(PyTuple_GET_ITEM(items.get(), i), what, &out[i])) return false;
  }
  return true;
}

bool read_sizes(const ParsedCall& call, int parameter, int* count, int64_t (&out)[kMaxRank]) {
  const Arguments& arguments = call.arguments;
  std::string what = function_name(call) + " sizes";
  if (arguments.values[parameter] != nullptr)
    return read_int_list(arguments.values[parameter], what.c_str(), count, out);
  if (arguments.rest_count == 1 && (PyTuple_Check(arguments.rest[0]) || PyList_Check(arguments.rest[0]))) {
    return read_int_list(arguments.rest[0], what.c_str(), count, out);
  }
  if (arguments.rest_count > kMaxRank) {
    PyErr_Format(PyExc_ValueError, "%s: %zu sizes; tensors have at most %d dimensions", what.c_str(),
                 arguments.rest_count, kMaxRank);
    return false;
  }
  *count = static_cast<int>(arguments.rest_count);
  for (int i = 0; i < *count; ++i) {
    if (!read_int(arguments.rest[i], what.c_str(), &out[i])) return false;
  }
  return true;
}

bool read_dim(Borrowed object, int rank, int* out) {
  int64_t dim = 0;
  if (!read_int(object, "dim", &dim)) return false;
  int span = rank > 0 ? rank : 1;  // a 0-d tensor accepts dims 0 and -1
  if (dim < -span || dim >= span) {
    PyErr_Format(PyExc_IndexError, "dim %lld is out of range: the tensor has %d dimensions, so it is between %d and %d",
                 static_cast<long long>(dim), rank, -span, span - 1);
    return false;
  }
  *out = static_cast<int>(dim < 0 ? dim + span : dim);
  return true;
}

bool set_operand(ParsedCall* call, int parameter) {
  Borrowed object = call->arguments.values[parameter];
  OperandValue ignored;
  if (!operand_of(object, &ignored)) {
    if (!PyErr_Occurred()) {
      PyErr_Format(PyExc_TypeError, "%s: argument %d must be a Tensor or a number, not %.200s",
                   function_name(*call).c_str(), parameter + 1, Py_TYPE(object)->tp_name);
    }
    return false;
  }
  call->operands[call->operand_count++] = {object, call->arguments.positions[parameter]};
  return true;
}

void set_view(ParsedCall* call, const Shape& shape, int64_t offset) {
  call->kind = CallKind::kView;
  call->operands[0] = {call->arguments.values[0], call->arguments.positions[0]};
  call->operand_count = 1;
  call->shape = shape;
  call->offset = offset;
}

}  // namespace kintsugi
