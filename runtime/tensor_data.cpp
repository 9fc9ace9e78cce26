// Between tensor elements and Python objects: reading and writing one element, item() and tolist(), kt.tensor() from
// nested data, and pickle.
#include <cmath>
#include <cstring>
#include <string>

#include "runtime/exchange.h"
#include "runtime/grad_mode.h"
#include "runtime/tensor_rows.h"

namespace kintsugi {

static int hidden_depth = 0;
DataHidden::DataHidden() { ++hidden_depth; }
DataHidden::~DataHidden() { --hidden_depth; }
PyObject* DataHidden::error() {
  static PyObject* const kind = PyErr_NewException("kintsugi._runtime.DataHidden", nullptr, nullptr);
  return kind != nullptr ? kind : PyExc_MemoryError;
}

bool has_memory(const TensorObject* tensor) {
  if (hidden_depth > 0) {
    PyErr_SetString(DataHidden::error(), "what a tensor holds is not known while its use is traced");
    return false;
  }
  if (tensor->buffer != nullptr) return true;
  PyErr_SetString(PyExc_RuntimeError, "a tensor that stands in for a future result has no data");
  return false;
}

PyObject* read_element(DType dtype, const char* data) {
  switch (dtype) {
    case DType::k_bool: return PyBool_FromLong(*reinterpret_cast<const uint8_t*>(data) != 0);
    case DType::k_int32: return PyLong_FromLong(*reinterpret_cast<const int32_t*>(data));
    case DType::k_int64: return PyLong_FromLongLong(*reinterpret_cast<const int64_t*>(data));
    case DType::k_float32: return PyFloat_FromDouble(*reinterpret_cast<const float*>(data));
    case DType::k_float64: return PyFloat_FromDouble(*reinterpret_cast<const double*>(data));
  }
  Py_UNREACHABLE();
}

namespace {

template <typename T>
void put(char* data, T value) {
  memcpy(data, &value, sizeof(value));
}

bool refuse_number(DType dtype, const OperandValue& number) {
  std::string text =
      number.number_dtype == DType::k_float64 ? std::to_string(number.number.f64) : std::to_string(number.number.i64);
  PyErr_Format(PyExc_OverflowError, "%s does not fit into %s", text.c_str(), info(dtype).name);
  return false;
}

// The integer a number stands for in an integer dtype: a float loses its fraction, as in Python's int().
bool integer_of(DType dtype, const OperandValue& number, int64_t* out) {
  if (number.number_dtype == DType::k_float64) {
    double value = number.number.f64;
    if (std::isnan(value)) {
      PyErr_Format(PyExc_ValueError, "NaN does not fit into %s", info(dtype).name);
      return false;
    }
    if (!(value > -9.3e18 && value < 9.3e18) || value >= 0x1p63 || value < -0x1p63) return refuse_number(dtype, number);
    *out = static_cast<int64_t>(value);
  } else {
    *out = number.number.i64;
  }
  if (dtype == DType::k_int32 && *out != static_cast<int32_t>(*out)) return refuse_number(dtype, number);
  return true;
}

}  // namespace

bool write_number(DType dtype, char* data, const OperandValue& number) {
  bool is_float = number.number_dtype == DType::k_float64;
  double real = is_float ? number.number.f64 : static_cast<double>(number.number.i64);
  int64_t integer = 0;
  switch (dtype) {
    case DType::k_bool: put<uint8_t>(data, is_float ? number.number.f64 != 0 : number.number.i64 != 0); return true;
    case DType::k_int32:
      if (!integer_of(dtype, number, &integer)) return false;
      put(data, static_cast<int32_t>(integer));
      return true;
    case DType::k_int64:
      if (!integer_of(dtype, number, &integer)) return false;
      put(data, integer);
      return true;
    case DType::k_float32:
      // An int is rounded once, straight to float32.
      put(data, is_float ? static_cast<float>(real) : static_cast<float>(number.number.i64));
      return true;
    case DType::k_float64: put(data, real); return true;
  }
  Py_UNREACHABLE();
}

PyObject* item_of(const Arguments& arguments) {
  const TensorObject* self = as_tensor(arguments.values[0]);
  if (self->layout->count != 1) {
    PyErr_Format(PyExc_RuntimeError, "item() needs a tensor with one element, this one has %lld (%s)",
                 static_cast<long long>(self->layout->count), to_text(*self->layout).c_str());
    return nullptr;
  }
  return has_memory(self) ? read_element(self->layout->dtype, self->data) : nullptr;
}

namespace {

PyObject* list_of(const Layout& layout, const char* data, int dim) {
  if (dim == layout.rank) return read_element(layout.dtype, data);
  int64_t step = layout.strides[dim] * static_cast<int64_t>(info(layout.dtype).bytes);
  Ref list(PyList_New(layout.sizes[dim]));
  for (int64_t i = 0; list && i < layout.sizes[dim]; ++i) {
    PyObject* item = list_of(layout, data + i * step, dim + 1);
    if (item == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), i, item);
  }
  return list.release();
}

}  // namespace

PyObject* to_list(const Arguments& arguments) {
  const TensorObject* self = as_tensor(arguments.values[0]);
  return has_memory(self) ? list_of(*self->layout, self->data, 0) : nullptr;
}

// ---- kt.tensor(data) ------------------------------------------------------------------------------------------------

namespace {

// A value that stands for one number: a Python or NumPy number, or a tensor with one element.
bool number_in(Borrowed object, OperandValue* out) {
  if (!operand_of(object, out)) return false;
  if (out->is_number) return true;
  Arguments arguments;
  arguments.values[0] = object;
  if (as_tensor(object)->layout->rank > 0) return false;
  Ref item(item_of(arguments));
  return item && operand_of(item.get(), out);
}

bool is_nested(Borrowed object) {
  if (PyList_Check(object) || PyTuple_Check(object) || PyRange_Check(object)) return true;
  if (is_tensor(object)) return as_tensor(object)->layout->rank > 0;
  if (PyUnicode_Check(object) || PyBytes_Check(object) || PyByteArray_Check(object)) return false;
  OperandValue ignored;
  bool is_number = operand_of(object, &ignored);
  PyErr_Clear();
  return !is_number && PySequence_Check(object) && PyObject_CheckBuffer(object);
}

// First pass over nested sequences: shape and kind of number. Numbers are kept flat in reading order, so that data that
// changes meanwhile cannot be read twice with two answers.
struct NestedData {
  Shape shape;
  std::vector<OperandValue> numbers;
  DTypeKind kind = DTypeKind::kBoolKind;
};

bool refuse_ragged(int depth, int64_t expected, int64_t found) {
  PyErr_Format(PyExc_ValueError, "tensor(): rows differ in length: expected %lld items at depth %d, found %lld",
               static_cast<long long>(expected), depth, static_cast<long long>(found));
  return false;
}

bool read_nested(Borrowed object, int depth, bool first, NestedData* out) {
  if (!is_nested(object)) {
    if (!first && depth != out->shape.rank) return refuse_ragged(depth, out->shape.sizes[depth], 0);
    OperandValue number;
    if (!number_in(object, &number)) {
      if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "tensor(): cannot take a %.200s as an element", Py_TYPE(object)->tp_name);
      }
      return false;
    }
    out->numbers.push_back(number);
    out->kind = std::max(out->kind, info(number.number_dtype).kind);
    return true;
  }
  if (first) {
    if (depth == kMaxRank) {
      PyErr_Format(PyExc_ValueError, "tensor(): data is nested more than %d deep", kMaxRank);
      return false;
    }
    out->shape.rank = depth + 1;
  } else if (depth >= out->shape.rank) {
    PyErr_Format(PyExc_ValueError, "tensor(): a sequence at depth %d where other rows have numbers", depth);
    return false;
  }
  Ref items(PySequence_Tuple(object));
  if (!items) return false;
  int64_t count = PyTuple_GET_SIZE(items.get());
  if (first) out->shape.sizes[depth] = count;
  if (count != out->shape.sizes[depth]) return refuse_ragged(depth, out->shape.sizes[depth], count);
  for (int64_t i = 0; i < count; ++i) {
    if (!read_nested(PyTuple_GET_ITEM(items.get(), i), depth + 1, first && i == 0, out)) return false;
  }
  return true;
}

PyObject* tensor_from_nested(Borrowed object, bool has_dtype, DType dtype) {
  NestedData data;
  if (!read_nested(object, 0, /*first=*/true, &data)) return nullptr;
  if (!has_dtype) {
    dtype = data.numbers.empty() || data.kind == DTypeKind::kFloatingKind ? DType::k_float32
            : data.kind == DTypeKind::kIntegerKind                        ? DType::k_int64
                                                                          : DType::k_bool;
  }
  Layout* layout = intern_contiguous(dtype, {data.shape.sizes, static_cast<size_t>(data.shape.rank)});
  Ref result(new_tensor(layout));
  release(layout);
  if (!result) return nullptr;
  char* at = as_tensor(result.get())->data;
  for (const OperandValue& number : data.numbers) {
    if (!write_number(dtype, at, number)) return nullptr;
    at += info(dtype).bytes;
  }
  return result.release();
}

}  // namespace

// data, dtype=None, device=None
static PyObject* tensor_without_gradient(const Arguments& arguments) {
  Borrowed data = arguments.values[0];
  DType dtype = DType::k_float32;
  bool has_dtype = arguments.values[1] != nullptr;
  if (has_dtype && !read_dtype(arguments.values[1], &dtype)) return nullptr;
  if (!check_device(arguments.values[2])) return nullptr;
  OperandValue number;
  bool is_number = operand_of(data, &number);
  if (!is_number && PyErr_Occurred()) return nullptr;
  if (is_number && number.is_number) return tensor_from_nested(data, has_dtype, dtype);
  Ref copy;
  if (is_tensor(data)) {
    copy = Ref(apply_op(Op::k_copy, &data, 1, Attributes()));
  } else if (PyObject_CheckBuffer(data)) {
    copy = Ref(copy_buffer(data));
  } else {
    return tensor_from_nested(data, has_dtype, dtype);
  }
  if (!copy || !has_dtype || as_tensor(copy.get())->layout->dtype == dtype) return copy.release();
  Attributes attributes;
  attributes.has_dtype = true;
  attributes.dtype = dtype;
  PyObject* operand = copy.get();
  return apply_op(Op::k_convert, &operand, 1, attributes);
}

// data, dtype=None, device=None, requires_grad=False
PyObject* tensor_from_data(const Arguments& arguments) {
  Ref made(tensor_without_gradient(arguments));
  bool wanted;
  if (!made || !wants_gradient(arguments.values[3], as_tensor(made.get())->layout->dtype, &wanted)) return nullptr;
  set_gradients(made.get(), wanted ? kRequiresGrad : 0);
  return made.release();
}

// ---- Pickle ---------------------------------------------------------------------------------------------------------

// (_rebuild_tensor, (dtype, sizes, bytes), attributes). Tensors that share memory do not share it afterwards.
PyObject* reduce_tensor(const Arguments& arguments) {
  PyObject* self = arguments.values[0];
  Ref copy(apply_op(Op::k_copy, &self, 1, Attributes()));
  if (!copy) return nullptr;
  const TensorObject* packed = as_tensor(copy.get());
  Ref module = import_module("kintsugi._runtime");
  if (!module) return nullptr;
  Ref rebuild(PyObject_GetAttrString(module.get(), "_rebuild_tensor"));
  Ref sizes(make_size(*packed->layout));
  Py_ssize_t bytes = static_cast<Py_ssize_t>(info(packed->layout->dtype).bytes) * packed->layout->count;
  Ref data(PyBytes_FromStringAndSize(packed->data, bytes));
  if (!rebuild || !sizes || !data) return nullptr;
  Borrowed attributes = as_tensor(self)->dict != nullptr ? as_tensor(self)->dict : Py_None;
  int gradients = as_tensor(self)->layout->gradients & (kRequiresGrad | kParameter);
  return Py_BuildValue("O(OOOi)O", rebuild.get(), dtype_object(packed->layout->dtype), sizes.get(), data.get(),
                       gradients, attributes);
}

PyObject* rebuild_tensor(const Arguments& arguments) {
  DType dtype;
  int rank;
  Shape shape;
  if (!read_dtype(arguments.values[0], &dtype)) return nullptr;
  if (!read_int_list(arguments.values[1], "sizes", &rank, shape.sizes)) return nullptr;
  int64_t bytes = static_cast<int64_t>(info(dtype).bytes);
  for (int d = 0; d < rank; ++d) {
    if (shape.sizes[d] < 0 || __builtin_mul_overflow(bytes, shape.sizes[d], &bytes)) bytes = -1;
    if (bytes < 0) break;
  }
  if (!PyBytes_Check(arguments.values[2]) || PyBytes_GET_SIZE(arguments.values[2]) != bytes) {
    PyErr_SetString(PyExc_ValueError, "pickled tensor: its bytes do not fit its sizes");
    return nullptr;
  }
  int64_t gradients = 0;
  if (arguments.values[3] != nullptr && !read_int(arguments.values[3], "gradients", &gradients)) return nullptr;
  Layout* layout = intern_contiguous(dtype, {shape.sizes, static_cast<size_t>(rank)});
  PyObject* result = new_tensor(layout);
  release(layout);
  if (result != nullptr) set_gradients(result, static_cast<uint8_t>(gradients & (kRequiresGrad | kParameter)));
  if (result != nullptr)
    memcpy(as_tensor(result)->data, PyBytes_AS_STRING(arguments.values[2]), static_cast<size_t>(bytes));
  return result;
}

}  // namespace kintsugi
