// The module's functions that no row of ops.def gives: making tensors, joining them, and the random stream.
#include <cmath>
#include <limits>
#include <string>

#include "runtime/exchange.h"
#include "runtime/tensor_rows.h"

namespace kintsugi {

namespace {

bool set_sizes(ParsedCall* call, int count, const int64_t* sizes) {
  Shape& shape = call->attributes.shape;
  shape.rank = count;
  int64_t elements = 1;
  bool empty = false, overflow = false;
  for (int d = 0; d < count; ++d) {
    if (sizes[d] < 0) {
      PyErr_Format(PyExc_RuntimeError, "%s(): sizes must not be negative, got %s", call->arguments.row->name,
                   sizes_text({sizes, static_cast<size_t>(count)}).c_str());
      return false;
    }
    shape.sizes[d] = sizes[d];
    empty |= sizes[d] == 0;
    overflow |= __builtin_mul_overflow(elements, std::max<int64_t>(sizes[d], 1), &elements);
  }
  if (!empty && (overflow || elements > (int64_t{1} << 60) / 8)) {
    PyErr_Format(PyExc_RuntimeError, "%s(): shape %s has too many elements", call->arguments.row->name,
                 sizes_text({sizes, static_cast<size_t>(count)}).c_str());
    return false;
  }
  set_contiguous_strides(&shape);
  return true;
}

bool read_shape(ParsedCall* call, int parameter) {
  int count;
  int64_t sizes[kMaxRank];
  return read_sizes(*call, parameter, &count, sizes) && set_sizes(call, count, sizes);
}

// dtype and device of a creation call; the dtype falls back.
bool read_kind(ParsedCall* call, int dtype_parameter, int device_parameter, DType fallback) {
  bool has = false;
  call->attributes.dtype = fallback;
  call->attributes.has_dtype = true;
  return read_optional_dtype(*call, dtype_parameter, &has, &call->attributes.dtype) &&
         check_device(call->arguments.values[device_parameter]);
}

// The value of full() in both forms, after checking that the dtype can hold it.
bool set_fill(ParsedCall* call, const OperandValue& value) {
  alignas(8) char element[8];
  DType dtype = call->attributes.dtype;
  if (!write_number(dtype, element, value)) return false;
  bool is_float = value.number_dtype == DType::k_float64;
  call->attributes.start = is_float ? value.number.f64 : static_cast<double>(value.number.i64);
  if (info(dtype).kind == DTypeKind::kBoolKind) {
    call->attributes.int_start = element[0] != 0;
  } else if (info(dtype).kind == DTypeKind::kIntegerKind) {
    call->attributes.int_start = is_float ? static_cast<int64_t>(value.number.f64) : value.number.i64;
  }
  return true;
}

OperandValue number_value(int64_t value) {
  OperandValue number;
  number.is_number = true;
  number.number_dtype = DType::k_int64;
  number.number.i64 = value;
  return number;
}

// *size, dtype=None, device=None, requires_grad=False
bool parse_sized(ParsedCall* call) {
  return read_shape(call, 0) && read_kind(call, 1, 2, DType::k_float32) && read_gradient(call, 3);
}
bool parse_zeros(ParsedCall* call) { return parse_sized(call) && set_fill(call, number_value(0)); }
bool parse_ones(ParsedCall* call) { return parse_sized(call) && set_fill(call, number_value(1)); }

DType default_dtype(DType number) { return number == DType::k_float64 ? DType::k_float32 : number; }

bool read_number(const ParsedCall& call, int parameter, OperandValue* out) {
  Borrowed object = call.arguments.values[parameter];
  if (operand_of(object, out) && out->is_number) return true;
  if (!PyErr_Occurred()) {
    PyErr_Format(PyExc_TypeError, "%s(): argument %d must be a number, not %.200s", call.arguments.row->name,
                 parameter + 1, Py_TYPE(object)->tp_name);
  }
  return false;
}

// size, fill_value, *, dtype=None, device=None
bool parse_full(ParsedCall* call) {
  OperandValue value;
  if (!read_shape(call, 0) || !read_number(*call, 1, &value)) return false;
  return read_kind(call, 2, 3, default_dtype(value.number_dtype)) && set_fill(call, value);
}

// input, *, dtype=None, device=None
bool set_like(ParsedCall* call, int dtype_parameter, const OperandValue& value) {
  TensorObject* model;
  if (!read_tensor(*call, 0, &model)) return false;
  const Layout& layout = *model->layout;
  return set_sizes(call, layout.rank, layout.sizes) &&
         read_kind(call, dtype_parameter, dtype_parameter + 1, layout.dtype) && set_fill(call, value);
}
bool parse_zeros_like(ParsedCall* call) { return set_like(call, 1, number_value(0)); }
bool parse_ones_like(ParsedCall* call) { return set_like(call, 1, number_value(1)); }
bool parse_full_like(ParsedCall* call) {
  OperandValue value;
  return read_number(*call, 1, &value) && set_like(call, 2, value);
}

// n, m=None, *, dtype=None, device=None
bool parse_eye(ParsedCall* call) {
  int64_t sizes[2];
  const Arguments& arguments = call->arguments;
  if (!read_int(arguments.values[0], "eye(): n", &sizes[0])) return false;
  sizes[1] = sizes[0];
  if (arguments.values[1] != nullptr && !read_int(arguments.values[1], "eye(): m", &sizes[1])) return false;
  return set_sizes(call, 2, sizes) && read_kind(call, 2, 3, DType::k_float32);
}

bool refuse_range(const char* why) {
  PyErr_Format(PyExc_RuntimeError, "arange(): %s", why);
  return false;
}

double double_of(const OperandValue& number) {
  return number.number_dtype == DType::k_float64 ? number.number.f64 : static_cast<double>(number.number.i64);
}

// start, end=None, step=1, *, dtype=None, device=None
bool parse_arange(ParsedCall* call) {
  OperandValue start = number_value(0), end, step = number_value(1);
  bool one = call->arguments.values[1] == nullptr;
  if (!read_number(*call, 0, one ? &end : &start)) return false;
  if (!one && !read_number(*call, 1, &end)) return false;
  if (call->arguments.values[2] != nullptr && !read_number(*call, 2, &step)) return false;
  bool floats = false;
  for (const OperandValue* number : {&start, &end, &step}) floats |= number->number_dtype == DType::k_float64;
  if (!read_kind(call, 3, 4, floats ? DType::k_float32 : DType::k_int64)) return false;

  Attributes& attributes = call->attributes;
  DTypeKind kind = info(attributes.dtype).kind;
  if (kind == DTypeKind::kBoolKind) {
    PyErr_SetString(PyExc_TypeError, "arange(): bool tensors have no ranges; take an integer dtype");
    return false;
  }
  attributes.start = double_of(start);
  attributes.step = double_of(step);
  double last = double_of(end);
  if (!std::isfinite(attributes.start) || !std::isfinite(attributes.step) || !std::isfinite(last)) {
    return refuse_range("start, end and step must be finite");
  }
  if (kind == DTypeKind::kIntegerKind) {
    // Integers are cut before counting, as in torch.
    for (OperandValue* number : {&start, &end, &step}) {
      alignas(8) char element[8];
      if (!write_number(attributes.dtype, element, *number)) return false;
      if (number->number_dtype == DType::k_float64) *number = number_value(static_cast<int64_t>(number->number.f64));
    }
    attributes.int_start = start.number.i64;
    attributes.int_step = step.number.i64;
    if (attributes.int_step == 0) return refuse_range("step must not be 0");
  }
  if (attributes.step == 0) return refuse_range("step must not be 0");
  if ((last - attributes.start) * attributes.step < 0) return refuse_range("end lies against the direction of step");
  int64_t count;
  if (kind == DTypeKind::kIntegerKind) {
    __int128 span = static_cast<__int128>(end.number.i64) - start.number.i64;
    __int128 stride = attributes.int_step;
    __int128 wide = stride > 0 ? (span + stride - 1) / stride : (-span - stride - 1) / -stride;
    count =
        wide > std::numeric_limits<int64_t>::max() ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(wide);
  } else {
    double wide = std::ceil((last - attributes.start) / attributes.step);
    count = wide > 9e18 ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(wide);
  }
  return set_sizes(call, 1, &count);
}

// tensors, dim=0
bool read_tensors(ParsedCall* call, int extra_rank) {
  Borrowed tensors = call->arguments.values[0];
  const char* name = call->arguments.row->name;
  if (!PyTuple_Check(tensors) && !PyList_Check(tensors)) {
    PyErr_Format(PyExc_TypeError, "%s(): the first argument must be a list or tuple of Tensors, not %.200s", name,
                 Py_TYPE(tensors)->tp_name);
    return false;
  }
  Py_ssize_t count = PySequence_Fast_GET_SIZE(tensors);
  if (count == 0) {
    PyErr_Format(PyExc_RuntimeError, "%s(): the list of Tensors is empty", name);
    return false;
  }
  int rank = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Borrowed item = PySequence_Fast_GET_ITEM(tensors, i);
    if (!is_tensor(item)) {
      PyErr_Format(PyExc_TypeError, "%s(): item %zd must be a Tensor, not %.200s", name, i, Py_TYPE(item)->tp_name);
      return false;
    }
    const Layout* layout = as_tensor(item)->layout;
    // cat passes over empty vectors, whatever the rank of the others.
    if (rank == 0 || layout->rank != 1 || layout->sizes[0] != 0) rank = layout->rank;
    call->list.push_back({item, -1});
  }
  Borrowed dim = call->arguments.values[1];
  return dim == nullptr || read_dim(dim, rank + extra_rank, &call->attributes.dim);
}
bool parse_cat(ParsedCall* call) { return read_tensors(call, /*extra_rank=*/0); }
bool parse_stack(ParsedCall* call) { return read_tensors(call, /*extra_rank=*/1); }

PyObject* manual_seed(const Arguments& arguments) {
  Ref number(PyNumber_Index(arguments.values[0]));
  if (!number) return nullptr;
  unsigned long long seed = PyLong_AsUnsignedLongLongMask(number.get());
  if (PyErr_Occurred()) return nullptr;
  random_stream = {seed, 0};
  Py_RETURN_NONE;
}

// (buffers, layouts) alive, for tests that look for leaks.
PyObject* count_live(const Arguments&) {
  empty_free_list();
  return Py_BuildValue("(Ln)", static_cast<long long>(live_buffers()), static_cast<Py_ssize_t>(live_layouts()));
}

// Gives the type a method that is written in Python, once for all.
PyObject* add_method(const Arguments& arguments) {
  if (!PyUnicode_CheckExact(arguments.values[0]) || !PyFunction_Check(arguments.values[1])) {
    PyErr_SetString(PyExc_TypeError, "a name and a function are wanted");
    return nullptr;
  }
  if (PyDict_SetItem(TensorType.tp_dict, arguments.values[0], arguments.values[1]) < 0) return nullptr;
  PyType_Modified(&TensorType);
  Py_RETURN_NONE;
}

PyObject* check_tensor(const Arguments& arguments) { return PyBool_FromLong(is_tensor(arguments.values[0])); }

constexpr CallKind kOp = CallKind::kOp, kOther = CallKind::kOther;
constexpr const char* kSized = "*size, dtype=None, device=None, requires_grad=False";
constexpr const char* kLike = "input, *, dtype=None, device=None";

const FunctionRow kFunctions[] = {
    {"tensor", "data, dtype=None, device=None, requires_grad=False", kOther, nullptr, tensor_from_data,
     "A tensor with a copy of nested lists, numbers, a buffer or a NumPy array."},
    {"zeros", kSized, kOp, parse_zeros, nullptr, "All zeros.", Op::k_full},
    {"ones", kSized, kOp, parse_ones, nullptr, "All ones.", Op::k_full},
    {"full", "size, fill_value, *, dtype=None, device=None", kOp, parse_full, nullptr, "One value everywhere.",
     Op::k_full},
    {"zeros_like", kLike, kOp, parse_zeros_like, nullptr, "Zeros in the shape and dtype of input.", Op::k_full},
    {"ones_like", kLike, kOp, parse_ones_like, nullptr, "Ones in the shape and dtype of input.", Op::k_full},
    {"full_like", "input, fill_value, *, dtype=None, device=None", kOp, parse_full_like, nullptr,
     "One value in the shape and dtype of input.", Op::k_full},
    {"eye", "n, m=None, *, dtype=None, device=None", kOp, parse_eye, nullptr, "Ones on the diagonal.", Op::k_eye},
    {"arange", "start, end=None, step=1, *, dtype=None, device=None", kOp, parse_arange, nullptr,
     "start, start + step, ... before end; arange(n) is 0 to n - 1.", Op::k_arange},
    {"rand", kSized, kOp, parse_sized, nullptr, "Uniform draws in [0, 1).", Op::k_rand},
    {"randn", kSized, kOp, parse_sized, nullptr, "Normal draws with mean 0 and variance 1.", Op::k_randn},
    {"cat", "tensors, dim=0", kOp, parse_cat, nullptr, "Tensors joined along a dimension.", Op::k_cat},
    {"stack", "tensors, dim=0", kOp, parse_stack, nullptr, "Tensors joined along a new dimension.", Op::k_stack},
    {"manual_seed", "seed", kOther, nullptr, manual_seed, "Starts the random stream anew."},
    {"from_numpy", "array", kOther, nullptr, from_numpy, "A tensor over the memory of a NumPy array."},
    {"from_dlpack", "source", kOther, nullptr, from_dlpack, "A tensor over memory offered through DLPack."},
    {"is_tensor", "object", kOther, nullptr, check_tensor, "Whether it is a Tensor."},
    {"_add_method", "name, function", kOther, nullptr, add_method, "For methods that are made of others."},
    {"_live", "", kOther, nullptr, count_live, "Buffers and layouts alive."},
    {"_rebuild_tensor", "dtype, sizes, data, gradients=0", kOther, nullptr, rebuild_tensor, "For pickle."},
};

}  // namespace

std::span<const FunctionRow> function_rows() { return kFunctions; }

}  // namespace kintsugi
