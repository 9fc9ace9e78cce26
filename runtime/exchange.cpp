// Sharing tensor memory: the buffer protocol and NumPy here, DLPack in exchange_dlpack.cpp.
#include "runtime/exchange.h"

#include <cstring>
#include <string>

#include "runtime/tensor_rows.h"

namespace kintsugi {

namespace {

// Element formats of the buffer protocol (struct module codes), native byte order.
const char* format_of(DType dtype) {
  switch (dtype) {
    case DType::k_bool: return "?";
    case DType::k_int32: return "i";
    case DType::k_int64: return "l";
    case DType::k_float32: return "f";
    case DType::k_float64: return "d";
  }
  Py_UNREACHABLE();
}

bool dtype_of_buffer(const Py_buffer& view, DType* out) {
  const char* format = view.format == nullptr ? "B" : view.format;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  std::string code = format;
  if (code == "?")
    *out = DType::k_bool;
  else if (code == "f")
    *out = DType::k_float32;
  else if (code == "d")
    *out = DType::k_float64;
  else if (code == "i" || code == "l" || code == "q")
    *out = view.itemsize == 4 ? DType::k_int32 : DType::k_int64;
  else
    code.clear();
  if (!code.empty() && static_cast<size_t>(view.itemsize) == info(*out).bytes) return true;
  PyErr_Format(PyExc_TypeError,
               "elements of format '%s' (%zd bytes) have no dtype here; convert them to bool, int32, int64, float32 or "
               "float64 first",
               view.format == nullptr ? "B" : view.format, view.itemsize);
  return false;
}

// Sizes, and strides in bytes.
bool shape_of_buffer(const Py_buffer& view, Shape* out) {
  if (view.ndim > kMaxRank) {
    PyErr_Format(PyExc_ValueError, "the array has %d dimensions; tensors have at most %d", view.ndim, kMaxRank);
    return false;
  }
  if (view.suboffsets != nullptr) {
    PyErr_SetString(PyExc_ValueError, "arrays of pointers to rows (suboffsets) cannot be read");
    return false;
  }
  out->rank = view.ndim;
  for (int d = 0; d < view.ndim; ++d) out->sizes[d] = view.shape[d];
  if (view.strides != nullptr) {
    for (int d = 0; d < view.ndim; ++d) out->strides[d] = view.strides[d];
    return true;
  }
  set_contiguous_strides(out);
  for (int d = 0; d < view.ndim; ++d) out->strides[d] *= view.itemsize;
  return true;
}

struct BufferHolder {
  Py_buffer view{};
  bool held = false;
  ~BufferHolder() {
    if (held) PyBuffer_Release(&view);
  }
  bool take(Borrowed source, int flags) {
    held = PyObject_GetBuffer(source, &view, flags) == 0;
    return held;
  }
};

// Bytes of elements at any strides, in row-major order.
char* gather(const char* from, const Shape& shape, int dim, size_t bytes, char* to) {
  if (dim == shape.rank) {
    memcpy(to, from, bytes);
    return to + bytes;
  }
  if (dim + 1 == shape.rank && shape.strides[dim] == static_cast<int64_t>(bytes)) {
    size_t row = bytes * static_cast<size_t>(shape.sizes[dim]);
    memcpy(to, from, row);
    return to + row;
  }
  for (int64_t i = 0; i < shape.sizes[dim]; ++i) to = gather(from + i * shape.strides[dim], shape, dim + 1, bytes, to);
  return to;
}

}  // namespace

int export_buffer(PyObject* self, Py_buffer* view, int flags) {
  const TensorObject* tensor = as_tensor(self);
  view->obj = nullptr;
  if (!has_memory(tensor)) return -1;
  const Layout& layout = *tensor->layout;
  if ((flags & PyBUF_WRITABLE) != 0 && tensor->buffer->read_only) {
    PyErr_SetString(PyExc_BufferError, "the tensor's memory is read-only");
    return -1;
  }
  bool rows = (flags & PyBUF_STRIDES) != PyBUF_STRIDES || (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS;
  if (rows && !layout.contiguous) {
    PyErr_SetString(PyExc_BufferError, "the tensor is not contiguous; ask for strides or take contiguous()");
    return -1;
  }
  // Sizes, then strides in bytes.
  auto* facts = static_cast<Py_ssize_t*>(PyMem_Malloc(2 * kMaxRank * sizeof(Py_ssize_t)));
  if (facts == nullptr) {
    PyErr_NoMemory();
    return -1;
  }
  size_t bytes = info(layout.dtype).bytes;
  for (int d = 0; d < layout.rank; ++d) {
    facts[d] = layout.sizes[d];
    facts[kMaxRank + d] = layout.strides[d] * static_cast<Py_ssize_t>(bytes);
  }
  view->buf = tensor->data;
  view->len = layout.count * static_cast<Py_ssize_t>(bytes);
  view->itemsize = static_cast<Py_ssize_t>(bytes);
  view->readonly = tensor->buffer->read_only;
  view->ndim = layout.rank;
  view->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format_of(layout.dtype)) : nullptr;
  view->shape = (flags & PyBUF_ND) != 0 ? facts : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? facts + kMaxRank : nullptr;
  view->suboffsets = nullptr;
  view->internal = facts;
  bool fits = ((flags & PyBUF_F_CONTIGUOUS) != PyBUF_F_CONTIGUOUS || PyBuffer_IsContiguous(view, 'F')) &&
              ((flags & PyBUF_ANY_CONTIGUOUS) != PyBUF_ANY_CONTIGUOUS || PyBuffer_IsContiguous(view, 'A'));
  if (!fits) {
    PyMem_Free(facts);
    PyErr_SetString(PyExc_BufferError, "the tensor is not contiguous in the order that was asked for");
    return -1;
  }
  view->obj = Py_NewRef(self);
  return 0;
}

void release_exported_buffer(PyObject*, Py_buffer* view) { PyMem_Free(view->internal); }

PyObject* copy_buffer(Borrowed source) {
  BufferHolder holder;
  DType dtype;
  Shape shape;
  if (!holder.take(source, PyBUF_FULL_RO)) return nullptr;
  if (!dtype_of_buffer(holder.view, &dtype) || !shape_of_buffer(holder.view, &shape)) return nullptr;
  Layout* layout = intern_contiguous(dtype, {shape.sizes, static_cast<size_t>(shape.rank)});
  PyObject* result = new_tensor(layout);
  if (result != nullptr && layout->count > 0) {
    gather(static_cast<const char*>(holder.view.buf), shape, 0, info(dtype).bytes, as_tensor(result)->data);
  }
  release(layout);
  return result;
}

// ---- NumPy ----------------------------------------------------------------------------------------------------------

namespace {

// The lender's side of a borrowed buffer. The last holder may be a thread without the lock; after the interpreter's end
// the memory stays.
void release_view(Buffer* buffer) {
  if (!Py_IsInitialized()) return;
  PyGILState_STATE state = PyGILState_Ensure();
  auto* view = static_cast<Py_buffer*>(buffer->owner);
  PyBuffer_Release(view);
  PyMem_Free(view);
  PyGILState_Release(state);
}

bool is_numpy_array(Borrowed object) {
  Borrowed numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
  if (numpy == nullptr || !PyModule_Check(numpy)) return false;
  Borrowed array = PyDict_GetItemString(PyModule_GetDict(numpy), "ndarray");
  return array != nullptr && PyType_Check(array) && PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(array));
}

// Strides in elements; from_numpy shares only what a tensor's views can express.
bool use_element_strides(Shape* shape, int64_t bytes) {
  for (int d = 0; d < shape->rank; ++d) {
    if (shape->strides[d] < 0 && shape->sizes[d] > 1) {
      PyErr_Format(
          PyExc_ValueError,
          "from_numpy(): the array has a negative stride (%lld bytes in dimension %d); share a copy() of it, or "
          "use tensor(), which copies",
          static_cast<long long>(shape->strides[d]), d);
      return false;
    }
    if (shape->strides[d] % bytes != 0) {
      PyErr_Format(PyExc_ValueError, "from_numpy(): the stride of %lld bytes is no multiple of the element size %lld",
                   static_cast<long long>(shape->strides[d]), static_cast<long long>(bytes));
      return false;
    }
    shape->strides[d] = shape->strides[d] < 0 ? 0 : shape->strides[d] / bytes;
  }
  return true;
}

}  // namespace

PyObject* from_numpy(const Arguments& arguments) {
  Borrowed array = arguments.values[0];
  if (!is_numpy_array(array)) {
    PyErr_Format(PyExc_TypeError, "from_numpy() takes a numpy.ndarray, not %.200s", Py_TYPE(array)->tp_name);
    return nullptr;
  }
  BufferHolder holder;
  DType dtype;
  Shape shape;
  // A read-only array says so in the view that it gives.
  if (!holder.take(array, PyBUF_FULL_RO)) return nullptr;
  if (!dtype_of_buffer(holder.view, &dtype) || !shape_of_buffer(holder.view, &shape)) return nullptr;
  int64_t bytes = static_cast<int64_t>(info(dtype).bytes);
  if (!use_element_strides(&shape, bytes)) return nullptr;
  if (reinterpret_cast<uintptr_t>(holder.view.buf) % static_cast<uintptr_t>(bytes) != 0) {
    PyErr_SetString(PyExc_ValueError, "from_numpy(): the array's memory is not aligned to its element size");
    return nullptr;
  }
  auto* view = static_cast<Py_buffer*>(PyMem_Malloc(sizeof(Py_buffer)));
  if (view == nullptr) return PyErr_NoMemory();
  Layout* layout = intern_layout(dtype, shape);
  size_t reach = static_cast<size_t>(layout->high) * static_cast<size_t>(bytes);
  Buffer* buffer = borrow_buffer(holder.view.buf, reach, holder.view.readonly != 0, release_view, view);
  if (buffer == nullptr) {
    PyMem_Free(view);
    release(layout);
    return PyErr_NoMemory();
  }
  *view = holder.view;
  holder.held = false;
  return make_tensor(layout, buffer, static_cast<char*>(view->buf));
}

PyObject* to_numpy(const Arguments& arguments) {
  if ((as_tensor(arguments.values[0])->layout->gradients & kRequiresGrad) != 0) {
    PyErr_SetString(PyExc_RuntimeError,
                    "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.");
    return nullptr;
  }
  Ref numpy = import_module("numpy");
  return numpy ? PyObject_CallMethod(numpy.get(), "asarray", "O", arguments.values[0]) : nullptr;
}

}  // namespace kintsugi
