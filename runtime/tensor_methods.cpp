// The tensor's methods and attributes that no row of ops.def gives: views, copies, conversions, metadata, single
// values.
#include <string>

#include "runtime/exchange.h"
#include "runtime/grad_mode.h"
#include "runtime/tensor_rows.h"

namespace kintsugi {

namespace {

const Layout& layout_of(const Arguments& arguments) { return *as_tensor(arguments.values[0])->layout; }

std::string sizes_of(const Layout& layout) { return sizes_text({layout.sizes, layout.rank}); }

bool fail(const OpError& error) {
  raise(error);
  return false;
}

// ---- Views ----------------------------------------------------------------------------------------------------------

bool set_reshape(ParsedCall* call, const TensorObject* self, std::span<const int64_t> sizes, bool may_copy) {
  Shape shape = shape_of(*self->layout);
  OpError error;
  if (!reshape_to(&shape, sizes, &call->copies, &error)) return fail(error);
  if (call->copies && !may_copy) {
    PyErr_Format(PyExc_RuntimeError, "view(): no view of layout %s has shape %s; reshape() would copy",
                 to_text(*self->layout).c_str(), sizes_text(sizes).c_str());
    return false;
  }
  set_view(call, shape, 0);
  return true;
}

bool parse_reshape(ParsedCall* call) {
  TensorObject* self;
  int count;
  int64_t sizes[kMaxRank];
  if (!read_tensor(*call, 0, &self) || !read_sizes(*call, 1, &count, sizes)) return false;
  return set_reshape(call, self, {sizes, static_cast<size_t>(count)}, /*may_copy=*/true);
}

bool parse_view(ParsedCall* call) {
  TensorObject* self;
  int count;
  int64_t sizes[kMaxRank];
  if (!read_tensor(*call, 0, &self) || !read_sizes(*call, 1, &count, sizes)) return false;
  return set_reshape(call, self, {sizes, static_cast<size_t>(count)}, /*may_copy=*/false);
}

bool parse_flatten(ParsedCall* call) {
  TensorObject* self;
  if (!read_tensor(*call, 0, &self)) return false;
  const Layout& layout = *self->layout;
  int first = 0, last = layout.rank > 0 ? layout.rank - 1 : 0;
  const Arguments& arguments = call->arguments;
  if (arguments.values[1] != nullptr && !read_dim(arguments.values[1], layout.rank, &first)) return false;
  if (arguments.values[2] != nullptr && !read_dim(arguments.values[2], layout.rank, &last)) return false;
  if (first > last) {
    PyErr_Format(PyExc_RuntimeError, "flatten(): start_dim %d comes after end_dim %d", first, last);
    return false;
  }
  int64_t sizes[kMaxRank] = {1};
  int count = 0;
  for (int d = 0; d < layout.rank; ++d) {
    if (d > first && d <= last) {
      sizes[count - 1] *= layout.sizes[d];
    } else {
      sizes[count++] = layout.sizes[d];
    }
  }
  if (layout.rank == 0) count = 1;
  return set_reshape(call, self, {sizes, static_cast<size_t>(count)}, /*may_copy=*/true);
}

bool parse_transpose(ParsedCall* call) {
  TensorObject* self;
  int a, b;
  if (!read_tensor(*call, 0, &self)) return false;
  if (!read_dim(call->arguments.values[1], self->layout->rank, &a)) return false;
  if (!read_dim(call->arguments.values[2], self->layout->rank, &b)) return false;
  Shape shape = shape_of(*self->layout);
  OpError error;
  if (!transpose_dims(&shape, a, b, &error)) return fail(error);
  set_view(call, shape, 0);
  return true;
}

// Tensor.T: all dimensions in reverse order.
bool parse_reversed(ParsedCall* call) {
  TensorObject* self;
  if (!read_tensor(*call, 0, &self)) return false;
  const Layout& layout = *self->layout;
  Shape shape = shape_of(layout);
  for (int d = 0; d < layout.rank; ++d) {
    shape.sizes[d] = layout.sizes[layout.rank - 1 - d];
    shape.strides[d] = layout.strides[layout.rank - 1 - d];
  }
  set_view(call, shape, 0);
  return true;
}

bool parse_matrix_transpose(ParsedCall* call) {
  TensorObject* self;
  if (!read_tensor(*call, 0, &self)) return false;
  if (self->layout->rank > 2) {
    PyErr_Format(PyExc_RuntimeError, "t() is for tensors of at most 2 dimensions, this one has %d (shape %s)",
                 self->layout->rank, sizes_of(*self->layout).c_str());
    return false;
  }
  return parse_reversed(call);
}

bool parse_permute(ParsedCall* call) {
  TensorObject* self;
  int count;
  int64_t dims[kMaxRank];
  if (!read_tensor(*call, 0, &self) || !read_sizes(*call, 1, &count, dims)) return false;
  const Layout& layout = *self->layout;
  if (count != layout.rank) {
    PyErr_Format(PyExc_RuntimeError, "permute(): %d dims were given for a tensor of %d dimensions (shape %s)", count,
                 layout.rank, sizes_of(layout).c_str());
    return false;
  }
  Shape shape = shape_of(layout);
  uint32_t seen = 0;
  for (int i = 0; i < count; ++i) {
    int64_t dim = dims[i] < 0 ? dims[i] + count : dims[i];
    if (dim < 0 || dim >= count) {
      PyErr_Format(PyExc_IndexError, "permute(): dim %lld is out of range for a tensor of %d dimensions",
                   static_cast<long long>(dims[i]), count);
      return false;
    }
    if ((seen >> dim & 1) != 0) {
      PyErr_Format(PyExc_RuntimeError, "permute(): dim %lld appears twice", static_cast<long long>(dims[i]));
      return false;
    }
    seen |= 1u << dim;
    shape.sizes[i] = layout.sizes[dim];
    shape.strides[i] = layout.strides[dim];
  }
  set_view(call, shape, 0);
  return true;
}

bool parse_expand(ParsedCall* call) {
  TensorObject* self;
  int count;
  int64_t sizes[kMaxRank];
  if (!read_tensor(*call, 0, &self) || !read_sizes(*call, 1, &count, sizes)) return false;
  Shape shape = shape_of(*self->layout);
  OpError error;
  if (!expand_to(&shape, {sizes, static_cast<size_t>(count)}, &error)) return fail(error);
  set_view(call, shape, 0);
  return true;
}

bool parse_unsqueeze(ParsedCall* call) {
  TensorObject* self;
  int dim;
  if (!read_tensor(*call, 0, &self)) return false;
  const Layout& layout = *self->layout;
  if (!read_dim(call->arguments.values[1], layout.rank + 1, &dim)) return false;
  Shape shape = shape_of(layout);
  if (!insert_dimension(&shape, dim)) return false;
  set_view(call, shape, 0);
  return true;
}

// self, dimension, size, step: windows along a dimension, as a new last one.
bool parse_unfold(ParsedCall* call) {
  TensorObject* self;
  int dim;
  int64_t size, step;
  const Arguments& arguments = call->arguments;
  if (!read_tensor(*call, 0, &self) || !read_dim(arguments.values[1], self->layout->rank, &dim) ||
      !read_int(arguments.values[2], "unfold(): size", &size) ||
      !read_int(arguments.values[3], "unfold(): step", &step))
    return false;
  const Layout& layout = *self->layout;
  const int64_t length = layout.rank == 0 ? 1 : layout.sizes[dim];
  if (size < 0 || size > length) {
    PyErr_Format(PyExc_RuntimeError, "maximum size for tensor at dimension %d is %lld but size is %lld", dim,
                 static_cast<long long>(length), static_cast<long long>(size));
    return false;
  }
  if (step <= 0) {
    PyErr_Format(PyExc_RuntimeError, "step is %lld but must be > 0", static_cast<long long>(step));
    return false;
  }
  Shape shape = shape_of(layout);
  if (layout.rank == 0) {
    if (!insert_dimension(&shape, 0)) return false;
    shape.sizes[0] = size;
  } else {
    if (!insert_dimension(&shape, layout.rank)) return false;
    shape.sizes[layout.rank] = size;
    shape.strides[layout.rank] = layout.strides[dim];
    shape.sizes[dim] = (length - size) / step + 1;
    if (shape.sizes[dim] > 1) shape.strides[dim] = layout.strides[dim] * step;
  }
  set_view(call, shape, 0);
  return true;
}

// self, dim, index
bool parse_gather(ParsedCall* call) {
  TensorObject *self, *index;
  call->op = Op::k_gather;
  if (!read_tensor(*call, 0, &self) || !read_tensor(*call, 2, &index) ||
      !read_dim(call->arguments.values[1], self->layout->rank, &call->attributes.dim))
    return false;
  return set_operand(call, 0) && set_operand(call, 2);
}

// self, dim, *, dtype=None
bool parse_cumsum(ParsedCall* call) {
  TensorObject* self;
  return read_tensor(*call, 0, &self) &&
         read_dim(call->arguments.values[1], self->layout->rank, &call->attributes.dim) &&
         read_optional_dtype(*call, 2, &call->attributes.has_dtype, &call->attributes.dtype) && set_operand(call, 0);
}

// self, dim=-1, descending=False, *, stable=False
bool parse_argsort(ParsedCall* call) {
  TensorObject* self;
  bool descends = false;
  const Arguments& arguments = call->arguments;
  if (!read_tensor(*call, 0, &self) || !read_bool(*call, 2, false, &descends)) return false;
  call->attributes.dim = std::max(self->layout->rank - 1, 0);
  call->attributes.int_step = descends ? -1 : 1;
  if (arguments.values[1] != nullptr && !read_dim(arguments.values[1], self->layout->rank, &call->attributes.dim))
    return false;
  return set_operand(call, 0);
}

bool parse_squeeze(ParsedCall* call) {
  TensorObject* self;
  int only = -1;
  if (!read_tensor(*call, 0, &self)) return false;
  const Layout& layout = *self->layout;
  Borrowed dim = call->arguments.values[1];
  if (dim != nullptr && !read_dim(dim, layout.rank, &only)) return false;
  Shape shape;
  for (int d = 0; d < layout.rank; ++d) {
    if (layout.sizes[d] == 1 && (only < 0 || d == only)) continue;
    shape.sizes[shape.rank] = layout.sizes[d];
    shape.strides[shape.rank++] = layout.strides[d];
  }
  set_view(call, shape, 0);
  return true;
}

bool parse_detach(ParsedCall* call) {
  TensorObject* self;
  if (!read_tensor(*call, 0, &self)) return false;
  call->gradients = 0;
  set_view(call, shape_of(*self->layout), 0);
  return true;
}

// ---- Copies and conversions -----------------------------------------------------------------------------------------

bool parse_clone(ParsedCall* call) {
  TensorObject* self;
  call->kind = CallKind::kOp;
  call->op = Op::k_copy;
  return read_tensor(*call, 0, &self) && set_operand(call, 0);
}

bool parse_contiguous(ParsedCall* call) {
  TensorObject* self;
  if (!read_tensor(*call, 0, &self)) return false;
  if (!self->layout->contiguous) return parse_clone(call);
  call->kind = CallKind::kIdentity;
  return set_operand(call, 0);
}

bool parse_cpu(ParsedCall* call) {
  call->kind = CallKind::kIdentity;
  return set_operand(call, 0);
}

// self, target=None, *, dtype=None, device=None, copy=False. target is a dtype, a device or a tensor of the wanted
// dtype.
bool parse_to(ParsedCall* call) {
  TensorObject* self;
  bool copy;
  const Arguments& arguments = call->arguments;
  if (!read_tensor(*call, 0, &self) || !check_device(arguments.values[3]) || !read_bool(*call, 4, false, &copy))
    return false;
  Attributes& attributes = call->attributes;
  if (!read_optional_dtype(*call, 2, &attributes.has_dtype, &attributes.dtype)) return false;
  Borrowed target = arguments.values[1];
  if (target != nullptr && is_tensor(target)) {
    attributes.has_dtype = true;
    attributes.dtype = as_tensor(target)->layout->dtype;
  } else if (target != nullptr && is_device(target)) {
    if (!check_device(target)) return false;
  } else if (target != nullptr) {
    if (!read_dtype(target, &attributes.dtype)) return false;
    attributes.has_dtype = true;
  }
  if (!attributes.has_dtype) attributes.dtype = self->layout->dtype;
  attributes.has_dtype = true;
  if (copy && attributes.dtype == self->layout->dtype) {
    attributes = Attributes();
    return parse_clone(call);
  }
  return parse_cast(call);
}

// ---- In place -------------------------------------------------------------------------------------------------------

bool parse_store(ParsedCall* call) {
  TensorObject* self;
  if (!read_tensor(*call, 0, &self)) return false;
  call->shape = shape_of(*self->layout);
  return set_store(call, &self->ob_base, call->arguments.values[1], call->arguments.positions[1]);
}

bool parse_zero(ParsedCall* call) {
  static PyObject* const zero = PyLong_FromLong(0);  // a small int, kept for ever
  TensorObject* self;
  if (!read_tensor(*call, 0, &self)) return false;
  call->shape = shape_of(*self->layout);
  return set_store(call, &self->ob_base, zero, /*argument=*/-1);
}

// ---- Reductions of another spelling ---------------------------------------------------------------------------------

// max() and min() of everything, or of two tensors. With a dim torch gives values and indices; ours are amax and
// argmax.
bool parse_extreme(ParsedCall* call, Op of_all, Op of_two) {
  TensorObject* self;
  if (!read_tensor(*call, 0, &self) || !set_operand(call, 0)) return false;
  call->kind = CallKind::kOp;
  Borrowed other = call->arguments.values[1];
  if (other != nullptr && is_tensor(other)) {
    call->op = of_two;
    return set_operand(call, 1);
  }
  if (other != nullptr) {
    PyErr_Format(PyExc_NotImplementedError, "%s() with a dim is not supported; use %s(dim) for values%s",
                 call->arguments.row->name, info(of_all).name,
                 of_all == Op::k_amax ? " and argmax(dim) for indices" : " and argmin(dim) for indices");
    return false;
  }
  call->op = of_all;
  call->attributes.dims = (1u << self->layout->rank) - 1;
  return true;
}
bool parse_max(ParsedCall* call) { return parse_extreme(call, Op::k_amax, Op::k_maximum); }
bool parse_min(ParsedCall* call) { return parse_extreme(call, Op::k_amin, Op::k_minimum); }

// Tensor.where(condition, other): self where the condition holds.
bool parse_where_method(ParsedCall* call) {
  TensorObject* self;
  call->op = Op::k_where;
  return read_tensor(*call, 0, &self) && set_operand(call, 1) && set_operand(call, 0) && set_operand(call, 2);
}

// ---- Metadata -------------------------------------------------------------------------------------------------------

PyObject* shape_value(const Arguments& arguments) { return make_size(layout_of(arguments)); }
PyObject* dtype_value(const Arguments& arguments) { return Py_NewRef(dtype_object(layout_of(arguments).dtype)); }
PyObject* device_value(const Arguments&) { return Py_NewRef(cpu_device()); }
PyObject* rank_value(const Arguments& arguments) { return PyLong_FromLong(layout_of(arguments).rank); }
PyObject* count_value(const Arguments& arguments) { return PyLong_FromLongLong(layout_of(arguments).count); }
PyObject* contiguous_value(const Arguments& arguments) { return PyBool_FromLong(layout_of(arguments).contiguous); }
PyObject* item_bytes_value(const Arguments& arguments) {
  return PyLong_FromSize_t(info(layout_of(arguments).dtype).bytes);
}
PyObject* bytes_value(const Arguments& arguments) {
  return PyLong_FromSize_t(info(layout_of(arguments).dtype).bytes * static_cast<size_t>(layout_of(arguments).count));
}

PyObject* size_value(const Arguments& arguments) {
  const Layout& layout = layout_of(arguments);
  if (arguments.values[1] == nullptr) return make_size(layout);
  int dim;
  if (!read_dim(arguments.values[1], layout.rank, &dim)) return nullptr;
  if (layout.rank > 0) return PyLong_FromLongLong(layout.sizes[dim]);
  PyErr_SetString(PyExc_IndexError, "size(dim) of a 0-d tensor: it has no dimensions");
  return nullptr;
}

PyObject* stride_value(const Arguments& arguments) {
  const Layout& layout = layout_of(arguments);
  if (arguments.values[1] != nullptr) {
    int dim;
    if (!read_dim(arguments.values[1], layout.rank, &dim)) return nullptr;
    return PyLong_FromLongLong(layout.strides[dim]);
  }
  Ref strides(PyTuple_New(layout.rank));
  for (int d = 0; strides && d < layout.rank; ++d) {
    PyObject* stride = PyLong_FromLongLong(layout.strides[d]);
    if (stride == nullptr) return nullptr;
    PyTuple_SET_ITEM(strides.get(), d, stride);
  }
  return strides.release();
}

// ---- Everything else ------------------------------------------------------------------------------------------------

PyObject* data_ptr_value(const Arguments& arguments) {
  const TensorObject* self = as_tensor(arguments.values[0]);
  return has_memory(self) ? PyLong_FromVoidPtr(self->data) : nullptr;
}

// f"{x:.2f}" formats the value of a 0-d tensor; other tensors take no format.
PyObject* format_value(const Arguments& arguments) {
  if (layout_of(arguments).rank == 0) {
    Ref item(item_of(arguments));
    return item ? PyObject_Format(item.get(), arguments.values[1]) : nullptr;
  }
  if (PyUnicode_Check(arguments.values[1]) && PyUnicode_GET_LENGTH(arguments.values[1]) == 0) {
    return PyObject_Str(arguments.values[0]);
  }
  PyErr_Format(PyExc_TypeError, "a format specification needs a 0-d tensor, this one has shape %s",
               sizes_of(layout_of(arguments)).c_str());
  return nullptr;
}

PyObject* deep_copy(const Arguments& arguments) {
  PyObject* self = arguments.values[0];
  uint8_t gradients = as_tensor(self)->layout->gradients;
  if ((gradients & kComputed) != 0) {
    PyErr_SetString(
        PyExc_RuntimeError,
        "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.");
    return nullptr;
  }
  Ref copy(apply_op(Op::k_copy, &self, 1, Attributes()));
  if (copy) set_gradients(copy.get(), gradients);
  if (!copy || as_tensor(self)->dict == nullptr) return copy.release();
  Ref module = import_module("copy");
  if (!module) return nullptr;
  Ref attributes(PyObject_CallMethod(module.get(), "deepcopy", "OO", as_tensor(self)->dict, arguments.values[1]));
  if (!attributes || PyObject_SetAttrString(copy.get(), "__dict__", attributes.get()) < 0) return nullptr;
  return copy.release();
}

// copy.copy(): another tensor over the same memory, as torch does.
PyObject* shallow_copy(const Arguments& arguments) {
  const TensorObject* self = as_tensor(arguments.values[0]);
  Ref copy(make_view(self, shape_of(*self->layout), 0));
  if (copy) set_gradients(copy.get(), self->layout->gradients);
  if (!copy || self->dict == nullptr) return copy.release();
  Ref attributes(PyDict_Copy(self->dict));
  if (!attributes || PyObject_SetAttrString(copy.get(), "__dict__", attributes.get()) < 0) return nullptr;
  return copy.release();
}

constexpr CallKind kOp = CallKind::kOp, kView = CallKind::kView, kInPlace = CallKind::kInPlace,
                   kMetadata = CallKind::kMetadata, kScalarRead = CallKind::kScalarRead, kOther = CallKind::kOther;

const FunctionRow kMethods[] = {
    {"reshape", "self, *shape", kView, parse_reshape, nullptr,
     "A view with these sizes where there is one, else a copy."},
    {"view", "self, *shape", kView, parse_view, nullptr, "A view with these sizes; RuntimeError where there is none."},
    {"flatten", "self, start_dim=0, end_dim=-1", kView, parse_flatten, nullptr, "Joins dimensions into one."},
    {"transpose", "self, dim0, dim1", kView, parse_transpose, nullptr, "A view with two dimensions swapped."},
    {"permute", "self, *dims", kView, parse_permute, nullptr, "A view with the dimensions in this order."},
    {"t", "self", kView, parse_matrix_transpose, nullptr, "The transpose of a matrix, as a view."},
    {"expand", "self, *sizes", kView, parse_expand, nullptr,
     "A view that repeats dimensions of size 1; -1 keeps a size."},
    {"unsqueeze", "self, dim", kView, parse_unsqueeze, nullptr, "A view with a new dimension of size 1."},
    {"squeeze", "self, dim=None", kView, parse_squeeze, nullptr, "A view without dimensions of size 1."},
    {"unfold", "self, dimension, size, step", kView, parse_unfold, nullptr,
     "A view of all windows of this size along a dimension, step apart, as a new last dimension."},
    {"gather", "self, dim, index", kOp, parse_gather, nullptr,
     "Elements along a dimension by their numbers. IndexError beyond it."},
    {"cumsum", "self, dim, *, dtype=None", kOp, parse_cumsum, nullptr, "Sums of the elements up to each one.",
     Op::k_cumsum},
    {"argsort", "self, dim=-1, descending=False, *, stable=False", kOp, parse_argsort, nullptr,
     "The numbers of the elements in order; equal ones stay in order, NaN is greatest.", Op::k_argsort},
    {"nonzero", "self, *, as_tuple=False", kOther, nullptr, nonzero_value,
     "The positions of elements other than zero, a row each; as_tuple: a tensor for each dimension."},
    {"detach", "self", kView, parse_detach, nullptr, "Another tensor over the same memory, without gradients."},
    {"clone", "self", kOp, parse_clone, nullptr, "A copy in memory of its own."},
    {"contiguous", "self", kOp, parse_contiguous, nullptr, "Itself when it is contiguous, else a contiguous copy."},
    {"cpu", "self", kOp, parse_cpu, nullptr, "Itself: every tensor is on the CPU."},
    {"to", "self, target=None, *, dtype=None, device=None, copy=False", kOp, parse_to, nullptr,
     "In another dtype; itself when nothing changes. target: a dtype, a device or a tensor with the dtype."},
    {"float", "self", kOp, parse_cast, nullptr, "As float32.", Op::kCount, DType::k_float32},
    {"double", "self", kOp, parse_cast, nullptr, "As float64.", Op::kCount, DType::k_float64},
    {"int", "self", kOp, parse_cast, nullptr, "As int32.", Op::kCount, DType::k_int32},
    {"long", "self", kOp, parse_cast, nullptr, "As int64.", Op::kCount, DType::k_int64},
    {"bool", "self", kOp, parse_cast, nullptr, "As bool.", Op::kCount, DType::k_bool},
    {"max", "self, other=None", kOp, parse_max, nullptr, "The greatest element, or the greater ones of two tensors."},
    {"min", "self, other=None", kOp, parse_min, nullptr, "The smallest element, or the smaller ones of two tensors."},
    {"where", "self, condition, other", kOp, parse_where_method, nullptr,
     "Itself where condition is true, else other."},
    {"copy_", "self, src", kInPlace, parse_store, nullptr, "Overwrites all elements with those of src."},
    {"fill_", "self, value", kInPlace, parse_store, nullptr, "Overwrites all elements with one value."},
    {"zero_", "self", kInPlace, parse_zero, nullptr, "Overwrites all elements with zero."},
    {"item", "self", kScalarRead, nullptr, item_of, "The value of a tensor with one element, as a Python number."},
    {"tolist", "self", kOther, nullptr, to_list, "Nested lists of Python numbers."},
    {"size", "self, dim=None", kMetadata, nullptr, size_value, "The shape, or one size of it."},
    {"dim", "self", kMetadata, nullptr, rank_value, "The number of dimensions."},
    {"numel", "self", kMetadata, nullptr, count_value, "The number of elements."},
    {"element_size", "self", kMetadata, nullptr, item_bytes_value, "Bytes of one element."},
    {"stride", "self, dim=None", kMetadata, nullptr, stride_value,
     "Elements to skip for the next index, by dimension."},
    {"is_contiguous", "self", kMetadata, nullptr, contiguous_value, "Whether it is row-major without gaps."},
    {"data_ptr", "self", kOther, nullptr, data_ptr_value, "The address of the first element."},
    {"numpy", "self", kOther, nullptr, to_numpy, "A NumPy array over the same memory."},
    {"__dlpack__", "self, *, stream=None, max_version=None, dl_device=None, copy=None", kOther, nullptr, to_dlpack,
     "A DLPack capsule over the same memory."},
    {"__dlpack_device__", "self", kOther, nullptr, dlpack_device, "(1, 0): the CPU."},
    {"__format__", "self, specification", kOther, nullptr, format_value, "Formats the value of a 0-d tensor."},
    {"__copy__", "self", kOther, nullptr, shallow_copy, "Another tensor over the same memory."},
    {"__deepcopy__", "self, memo", kOther, nullptr, deep_copy, "A copy in memory of its own."},
    {"__reduce__", "self", kOther, nullptr, reduce_tensor, "For pickle."},
};

const FunctionRow kAttributes[] = {
    {"shape", "self", kMetadata, nullptr, shape_value, "The sizes, as a Size."},
    {"dtype", "self", kMetadata, nullptr, dtype_value, "The type of the elements."},
    {"device", "self", kMetadata, nullptr, device_value, "Where the memory is."},
    {"ndim", "self", kMetadata, nullptr, rank_value, "The number of dimensions."},
    {"itemsize", "self", kMetadata, nullptr, item_bytes_value, "Bytes of one element."},
    {"nbytes", "self", kMetadata, nullptr, bytes_value, "Bytes of all elements."},
    {"data", "self", kView, parse_detach, nullptr, "Another tensor over the same memory, without gradients."},
    {"T", "self", kView, parse_reversed, nullptr, "A view with the dimensions in reverse order."},
};

// Function forms of methods: kt.reshape(x, (2, 3)).
const FunctionRow kFunctionForms[] = {
    {"reshape", "input, shape", kView, parse_reshape, nullptr,
     "A view with these sizes where there is one, else a copy."},
    {"flatten", "input, start_dim=0, end_dim=-1", kView, parse_flatten, nullptr, "Joins dimensions into one."},
    {"transpose", "input, dim0, dim1", kView, parse_transpose, nullptr, "A view with two dimensions swapped."},
    {"permute", "input, dims", kView, parse_permute, nullptr, "A view with the dimensions in this order."},
    {"t", "input", kView, parse_matrix_transpose, nullptr, "The transpose of a matrix, as a view."},
    {"unsqueeze", "input, dim", kView, parse_unsqueeze, nullptr, "A view with a new dimension of size 1."},
    {"squeeze", "input, dim=None", kView, parse_squeeze, nullptr, "A view without dimensions of size 1."},
    {"gather", "input, dim, index", kOp, parse_gather, nullptr, "Elements along a dimension by their numbers."},
    {"cumsum", "input, dim, *, dtype=None", kOp, parse_cumsum, nullptr, "Sums of the elements up to each one.",
     Op::k_cumsum},
    {"argsort", "input, dim=-1, descending=False, *, stable=False", kOp, parse_argsort, nullptr,
     "The numbers of the elements in order; equal ones stay in order, NaN is greatest.", Op::k_argsort},
    {"nonzero", "input, *, as_tuple=False", kOther, nullptr, nonzero_value,
     "The positions of elements other than zero, a row each; as_tuple: a tensor for each dimension."},
    {"clone", "input", kOp, parse_clone, nullptr, "A copy in memory of its own."},
    {"max", "input, other=None", kOp, parse_max, nullptr, "The greatest element, or the greater ones of two tensors."},
    {"min", "input, other=None", kOp, parse_min, nullptr, "The smallest element, or the smaller ones of two tensors."},
};

}  // namespace

std::span<const FunctionRow> method_rows() { return kMethods; }
std::span<const FunctionRow> attribute_rows() { return kAttributes; }
std::span<const FunctionRow> function_form_rows() { return kFunctionForms; }

}  // namespace kintsugi
