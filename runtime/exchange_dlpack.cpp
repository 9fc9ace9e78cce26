// DLPack in both directions, with and without version. Read-only memory travels only in versioned capsules, which can
// say so.
#include <cstring>
#include <string>

#include "runtime/dlpack.h"
#include "runtime/exchange.h"
#include "runtime/tensor_rows.h"

namespace kintsugi {

namespace {

constexpr const char* kPlain = "dltensor";
constexpr const char* kVersioned = "dltensor_versioned";
constexpr int32_t kCpu = 1;

// ---- Giving ---------------------------------------------------------------------------------------------------------

// What a capsule owns: the layout's numbers and one reference to the buffer.
template <typename Managed>
struct Lent {
  Managed managed;
  Buffer* buffer;
  int64_t sizes[kMaxRank];
  int64_t strides[kMaxRank];
};

DlpackType type_of(DType dtype) {
  DlpackCode code = kDlpackFloat;
  if (info(dtype).kind == DTypeKind::kIntegerKind) code = kDlpackInt;
  if (info(dtype).kind == DTypeKind::kBoolKind) code = kDlpackBool;
  return {code, static_cast<uint8_t>(info(dtype).bytes * 8), 1};
}

template <typename Managed>
void destroy_lent(Managed* managed) {
  auto* lent = static_cast<Lent<Managed>*>(managed->context);
  release(lent->buffer);
  delete lent;
}

template <typename Managed>
void destroy_capsule(PyObject* capsule) {
  // A capsule that was taken has another name, and its taker owns the content.
  const char* name = PyCapsule_GetName(capsule);
  if (name == nullptr || (strcmp(name, kPlain) != 0 && strcmp(name, kVersioned) != 0)) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed != nullptr && managed->destroy != nullptr) managed->destroy(managed);
}

template <typename Managed>
Lent<Managed>* lend(const TensorObject* tensor) {
  auto* lent = new Lent<Managed>{};
  const Layout& layout = *tensor->layout;
  for (int d = 0; d < layout.rank; ++d) {
    lent->sizes[d] = layout.sizes[d];
    lent->strides[d] = layout.strides[d];
  }
  retain(tensor->buffer);
  lent->buffer = tensor->buffer;
  lent->managed.context = lent;
  lent->managed.destroy = destroy_lent<Managed>;
  lent->managed.tensor = {tensor->data, {kCpu, 0}, layout.rank, type_of(layout.dtype), lent->sizes, lent->strides, 0};
  return lent;
}

template <typename Managed>
PyObject* wrap(Lent<Managed>* lent, const char* name) {
  PyObject* capsule = PyCapsule_New(&lent->managed, name, destroy_capsule<Managed>);
  if (capsule == nullptr) destroy_lent(&lent->managed);
  return capsule;
}

bool wants_versioned(Borrowed max_version, bool* out) {
  *out = false;
  if (max_version == nullptr) return true;
  int major, minor;
  if (!PyTuple_Check(max_version) || !PyArg_ParseTuple(max_version, "ii", &major, &minor)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "__dlpack__(): max_version must be a tuple of two ints");
    return false;
  }
  *out = major >= 1;
  return true;
}

}  // namespace

// self, *, stream=None, max_version=None, dl_device=None, copy=None
PyObject* to_dlpack(const Arguments& arguments) {
  TensorObject* self = as_tensor(arguments.values[0]);
  if (!has_memory(self)) return nullptr;
  if (arguments.values[1] != nullptr) {
    PyErr_SetString(PyExc_BufferError, "__dlpack__(): CPU memory has no stream");
    return nullptr;
  }
  bool versioned;
  if (!wants_versioned(arguments.values[2], &versioned)) return nullptr;
  if (arguments.values[3] != nullptr) {
    int type, id;
    if (!PyTuple_Check(arguments.values[3]) || !PyArg_ParseTuple(arguments.values[3], "ii", &type, &id)) {
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "__dlpack__(): dl_device must be a tuple of two ints");
      return nullptr;
    }
    if (type != kCpu) {
      PyErr_SetString(PyExc_BufferError, "__dlpack__(): the tensor is on the CPU");
      return nullptr;
    }
  }
  Ref copy;
  bool copies = arguments.values[4] == Py_True;
  if (copies) {
    PyObject* operand = arguments.values[0];
    copy = Ref(apply_op(Op::k_copy, &operand, 1, Attributes()));
    if (!copy) return nullptr;
    self = as_tensor(copy.get());
  }
  if (!versioned && self->buffer->read_only) {
    PyErr_SetString(PyExc_BufferError, "__dlpack__(): read-only memory needs max_version=(1, 0) or copy=True");
    return nullptr;
  }
  if (!versioned) return wrap(lend<DlpackManaged>(self), kPlain);
  Lent<DlpackVersioned>* lent = lend<DlpackVersioned>(self);
  lent->managed.major = 1;
  lent->managed.flags = (self->buffer->read_only ? kDlpackReadOnly : 0) | (copies ? kDlpackCopied : 0);
  return wrap(lent, kVersioned);
}

PyObject* dlpack_device(const Arguments&) { return Py_BuildValue("(ii)", kCpu, 0); }

// ---- Taking ---------------------------------------------------------------------------------------------------------

namespace {

template <typename Managed>
void return_managed(Buffer* buffer) {
  // The lender's function may need the lock; after the interpreter's end the memory stays.
  if (!Py_IsInitialized()) return;
  PyGILState_STATE state = PyGILState_Ensure();
  auto* managed = static_cast<Managed*>(buffer->owner);
  if (managed->destroy != nullptr) managed->destroy(managed);
  PyGILState_Release(state);
}

bool read_type(const DlpackType& type, DType* out) {
  for (int i = 0; i < kDTypeCount; ++i) {
    DlpackType own = type_of(static_cast<DType>(i));
    if (own.code != type.code || own.bits != type.bits || type.lanes != 1) continue;
    *out = static_cast<DType>(i);
    return true;
  }
  PyErr_Format(PyExc_TypeError,
               "from_dlpack(): elements of DLPack type (code %d, %d bits, %d lanes) have no dtype here", type.code,
               type.bits, type.lanes);
  return false;
}

bool read_shape(const DlpackTensor& tensor, Shape* out) {
  if (tensor.rank < 0 || tensor.rank > kMaxRank) {
    PyErr_Format(PyExc_ValueError, "from_dlpack(): %d dimensions; tensors have at most %d", tensor.rank, kMaxRank);
    return false;
  }
  out->rank = tensor.rank;
  for (int d = 0; d < tensor.rank; ++d) out->sizes[d] = tensor.sizes[d];
  set_contiguous_strides(out);
  for (int d = 0; tensor.strides != nullptr && d < tensor.rank; ++d) {
    out->strides[d] = tensor.strides[d];
    if (out->sizes[d] > 1 && out->strides[d] < 0) {
      PyErr_SetString(PyExc_ValueError, "from_dlpack(): negative strides; share a copy instead");
      return false;
    }
    if (out->strides[d] < 0) out->strides[d] = 0;
  }
  return true;
}

template <typename Managed>
PyObject* take(Borrowed capsule, const char* name, const char* used_name) {
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed == nullptr) return nullptr;
  bool read_only = false;
  if constexpr (std::is_same_v<Managed, DlpackVersioned>) {
    if (managed->major != 1) {
      PyErr_Format(PyExc_BufferError, "from_dlpack(): DLPack version %u is not known here", managed->major);
      return nullptr;
    }
    read_only = (managed->flags & kDlpackReadOnly) != 0;
  }
  const DlpackTensor& tensor = managed->tensor;
  DType dtype;
  Shape shape;
  if (tensor.device.type != kCpu) {
    PyErr_Format(PyExc_BufferError, "from_dlpack(): the memory is on device %d, not on the CPU", tensor.device.type);
    return nullptr;
  }
  if (!read_type(tensor.type, &dtype) || !read_shape(tensor, &shape)) return nullptr;
  char* data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  if (reinterpret_cast<uintptr_t>(data) % info(dtype).bytes != 0) {
    PyErr_SetString(PyExc_ValueError, "from_dlpack(): the memory is not aligned to its element size");
    return nullptr;
  }
  Layout* layout = intern_layout(dtype, shape);
  size_t reach = static_cast<size_t>(layout->high) * info(dtype).bytes;
  Buffer* buffer = borrow_buffer(data, reach, read_only, return_managed<Managed>, managed);
  if (buffer == nullptr) {
    release(layout);
    return PyErr_NoMemory();
  }
  // From here on the content is ours.
  if (PyCapsule_SetName(capsule, used_name) < 0 || PyCapsule_SetDestructor(capsule, nullptr) < 0) PyErr_Clear();
  return make_tensor(layout, buffer, data);
}

PyObject* take_capsule(Borrowed capsule) {
  if (PyCapsule_IsValid(capsule, kVersioned))
    return take<DlpackVersioned>(capsule, kVersioned, "used_dltensor_versioned");
  if (PyCapsule_IsValid(capsule, kPlain)) return take<DlpackManaged>(capsule, kPlain, "used_dltensor");
  PyErr_SetString(PyExc_ValueError, "from_dlpack(): the capsule holds no DLPack tensor, or was taken already");
  return nullptr;
}

}  // namespace

PyObject* from_dlpack(const Arguments& arguments) {
  Borrowed source = arguments.values[0];
  if (PyCapsule_CheckExact(source)) return take_capsule(source);
  Ref give(PyObject_GetAttrString(source, "__dlpack__"));
  if (!give) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "from_dlpack() takes an object with __dlpack__, not %.200s",
                 Py_TYPE(source)->tp_name);
    return nullptr;
  }
  Ref none(PyTuple_New(0));
  Ref version(Py_BuildValue("{s(ii)}", "max_version", 1, 0));
  if (!none || !version) return nullptr;
  Ref capsule(PyObject_Call(give.get(), none.get(), version.get()));
  if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
    // A producer from before versions.
    PyErr_Clear();
    capsule = Ref(PyObject_CallNoArgs(give.get()));
  }
  if (!capsule) return nullptr;
  if (PyCapsule_CheckExact(capsule.get())) return take_capsule(capsule.get());
  PyErr_SetString(PyExc_TypeError, "from_dlpack(): __dlpack__() returned no capsule");
  return nullptr;
}

}  // namespace kintsugi
