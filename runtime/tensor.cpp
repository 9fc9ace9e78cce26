// The tensor object: making and dropping it, and the one way an op is run on real tensors.
#include "runtime/tensor.h"

#include <cstring>
#include <string>

#include "runtime/frame.h"
#include "runtime/resume.h"
#include "runtime/tensor_rows.h"

namespace kintsugi {

RandomStream random_stream = {0x9e3779b97f4a7c15u, 0};

PyObject* raise(const OpError& error) {
  PyObject* type = PyExc_RuntimeError;
  switch (error.kind) {
    case ErrorKind::kNone:
    case ErrorKind::kRuntime: type = PyExc_RuntimeError; break;
    case ErrorKind::kType: type = PyExc_TypeError; break;
    case ErrorKind::kValue: type = PyExc_ValueError; break;
    case ErrorKind::kIndex: type = PyExc_IndexError; break;
    case ErrorKind::kZeroDivision: type = PyExc_ZeroDivisionError; break;
    case ErrorKind::kOverflow: type = PyExc_OverflowError; break;
    case ErrorKind::kMemory: type = PyExc_MemoryError; break;
  }
  PyErr_SetString(type, error.text.c_str());
  return nullptr;
}

// ---- Making and dropping --------------------------------------------------------------------------------------------

namespace {

// Dead tensor objects, ready for use again. Each keeps its layout, and a small buffer where no other tensor has it: the
// next one is likely to want the same. The lock guards it.
constexpr int kFreeListSize = 128;
TensorObject* free_list[kFreeListSize];
int free_count = 0;

// With a counted layout that is to be replaced, or none; without a buffer.
TensorObject* allocate_object() {
  if (free_count > 0) {
    TensorObject* tensor = free_list[--free_count];
    if (tensor->buffer != nullptr) release(tensor->buffer);
    _Py_NewReference(&tensor->ob_base);
    return tensor;
  }
  CollectorHeld held(this_thread());  // a finaliser could drop what emitted code only borrows
  TensorObject* tensor = PyObject_GC_New(TensorObject, &TensorType);
  if (tensor == nullptr) return nullptr;
  tensor->layout = nullptr;
  tensor->weakrefs = nullptr;
  tensor->dict = nullptr;
  return tensor;
}

// One of this layout with its buffer, from among the latest; null: none.
TensorObject* revive(const Layout* layout) {
  constexpr int kLookedAt = 4;
  for (int i = free_count - 1; i >= 0 && i >= free_count - kLookedAt; --i) {
    TensorObject* tensor = free_list[i];
    if (tensor->layout != layout || tensor->buffer == nullptr) continue;
    free_list[i] = free_list[--free_count];
    _Py_NewReference(&tensor->ob_base);
    return tensor;
  }
  return nullptr;
}

bool keeps_buffer(const TensorObject* tensor) {
  return tensor->buffer != nullptr && is_reusable(tensor->buffer) && tensor->data == tensor->buffer->data &&
         tensor->layout->contiguous;
}

void share_layout(TensorObject* tensor, Layout* layout) {
  if (tensor->layout == layout) return;
  if (tensor->layout != nullptr) release(tensor->layout);
  retain(layout);
  tensor->layout = layout;
}

// Layouts used lately are kept: making one anew for each short-lived view costs more than the view.
Layout* recent_layouts[64];

void keep_recent(Layout* layout) {
  Layout*& entry = recent_layouts[layout->hash % std::size(recent_layouts)];
  if (entry == layout) return;
  if (entry != nullptr) release(entry);
  retain(layout);
  entry = layout;
}

}  // namespace

void deallocate_tensor(PyObject* self) {
  TensorObject* tensor = as_tensor(self);
  // Only a tensor with attributes was ever tracked by the collector.
  if (is_tracked(self)) PyObject_GC_UnTrack(self);
  if (tensor->weakrefs != nullptr) PyObject_ClearWeakRefs(self);
  Py_CLEAR(tensor->dict);
  // Giving up a borrowed buffer may run any code: first of all.
  if (tensor->buffer != nullptr && !keeps_buffer(tensor)) release(std::exchange(tensor->buffer, nullptr));
  if (free_count < kFreeListSize) {
    free_list[free_count++] = tensor;
  } else {
    if (tensor->buffer != nullptr) release(tensor->buffer);
    release(tensor->layout);
    PyObject_GC_Del(self);
  }
}

void empty_free_list() {
  while (free_count > 0) {
    TensorObject* tensor = free_list[--free_count];
    if (tensor->buffer != nullptr) release(tensor->buffer);
    release(tensor->layout);
    PyObject_GC_Del(tensor);
  }
}

PyObject* make_tensor(Layout* layout, Buffer* buffer, char* data) {
  TensorObject* tensor = allocate_object();
  if (tensor == nullptr) {
    release(layout);
    release(buffer);
    return nullptr;
  }
  if (tensor->layout != nullptr) release(tensor->layout);
  tensor->layout = layout;
  tensor->buffer = buffer;
  tensor->data = data;
  return &tensor->ob_base;
}

PyObject* new_tensor(Layout* layout) {
  if (TensorObject* tensor = revive(layout)) return &tensor->ob_base;
  size_t bytes = static_cast<size_t>(layout->count) * info(layout->dtype).bytes;
  Buffer* buffer = allocate_buffer(bytes);
  if (buffer == nullptr) {
    PyErr_Format(PyExc_MemoryError, "no memory for a tensor of %zu bytes", bytes);
    return nullptr;
  }
  TensorObject* tensor = allocate_object();
  if (tensor == nullptr) {
    release(buffer);
    return nullptr;
  }
  share_layout(tensor, layout);
  tensor->buffer = buffer;
  tensor->data = buffer->data;
  return &tensor->ob_base;
}

PyObject* make_view(const TensorObject* base, const Shape& shape, int64_t offset) {
  if (!has_memory(base)) return nullptr;
  DType dtype = base->layout->dtype;
  Layout* layout = intern_layout(dtype, shape, view_gradients(*base->layout, grad_mode()));
  keep_recent(layout);
  retain(base->buffer);
  return make_tensor(layout, base->buffer, base->data + offset * static_cast<int64_t>(info(dtype).bytes));
}

PyObject* make_element_view(const TensorObject* base, int64_t offset) {
  // Kept for ever: elements are taken and dropped all the time.
  static Layout* const layouts[] = {
      intern_layout(static_cast<DType>(0), Shape()), intern_layout(static_cast<DType>(1), Shape()),
      intern_layout(static_cast<DType>(2), Shape()), intern_layout(static_cast<DType>(3), Shape()),
      intern_layout(static_cast<DType>(4), Shape())};
  static_assert(std::size(layouts) == kDTypeCount);
  if (!has_memory(base)) return nullptr;
  if (base->layout->gradients != 0) return make_view(base, Shape(), offset);
  DType dtype = base->layout->dtype;
  Layout* layout = layouts[static_cast<size_t>(dtype)];
  retain(layout);
  retain(base->buffer);
  return make_tensor(layout, base->buffer, base->data + offset * static_cast<int64_t>(info(dtype).bytes));
}

PyObject* make_stand_in(Layout* layout) {
  TensorObject* tensor = allocate_object();
  if (tensor == nullptr) return nullptr;
  share_layout(tensor, layout);
  tensor->buffer = nullptr;
  tensor->data = nullptr;
  return &tensor->ob_base;
}

// ---- Running ops ----------------------------------------------------------------------------------------------------

namespace {

// NumPy's scalar base class, once NumPy is loaded by somebody else; we never import it for this.
PyTypeObject* numpy_scalar_type() {
  static PyTypeObject* type = nullptr;
  if (type != nullptr) return type;
  PyObject* numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
  if (numpy == nullptr || !PyModule_Check(numpy)) return nullptr;
  PyObject* generic = PyDict_GetItemString(PyModule_GetDict(numpy), "generic");
  if (generic != nullptr && PyType_Check(generic)) type = reinterpret_cast<PyTypeObject*>(Py_NewRef(generic));
  return type;
}

bool number_of_int(Borrowed object, OperandValue* out) {
  int overflow = 0;
  out->number.i64 = PyLong_AsLongLongAndOverflow(object, &overflow);
  out->number_dtype = DType::k_int64;
  if (overflow == 0) return true;
  PyErr_Format(PyExc_OverflowError, "Python int %.200S does not fit into int64", object);
  return false;
}

// Kernels above this many bytes run without the lock. Their operands are held by the caller's arguments.
constexpr size_t kUnlockBytes = 256 * 1024;

bool run_unlocked(Op op, std::span<const OperandValue> operands, const Attributes& attributes, TensorView out,
                  OpError* error) {
  size_t bytes = static_cast<size_t>(out.layout->count) * info(out.layout->dtype).bytes;
  for (const OperandValue& operand : operands) {
    if (!operand.is_number)
      bytes += static_cast<size_t>(operand.view.layout->count) * info(operand.view.layout->dtype).bytes;
  }
  if (bytes <= kUnlockBytes) return run_op(op, operands, attributes, out, error);
  PyThreadState* state = PyEval_SaveThread();
  bool done = run_op(op, operands, attributes, out, error);
  calling_python([&] { PyEval_RestoreThread(state); });
  return done;
}

bool copy_unlocked(TensorView in, TensorView out, OpError* error) {
  if (static_cast<size_t>(out.layout->count) * info(out.layout->dtype).bytes <= kUnlockBytes) {
    return copy_into(in, out, error);
  }
  PyThreadState* state = PyEval_SaveThread();
  bool done = copy_into(in, out, error);
  calling_python([&] { PyEval_RestoreThread(state); });
  return done;
}

// New reference, or null with an exception.
Layout* result_layout(Op op, std::span<const OperandValue> values, const Attributes& attributes) {
  Operand few[3];
  std::vector<Operand> many;
  Operand* operands = few;
  if (values.size() > 3) {
    many.resize(values.size());
    operands = many.data();
  }
  bool any_requires = false;
  for (size_t i = 0; i < values.size(); ++i) {
    any_requires = any_requires || (!values[i].is_number && (values[i].view.layout->gradients & kRequiresGrad) != 0);
    operands[i].is_number = values[i].is_number;
    if (values[i].is_number) {
      operands[i].dtype = values[i].number_dtype;
    } else {
      operands[i].dtype = values[i].view.layout->dtype;
      operands[i].shape = shape_of(*values[i].view.layout);
    }
  }
  Result result;
  OpError error;
  if (!infer(op, {operands, values.size()}, attributes, &result, &error)) {
    raise(error);
    return nullptr;
  }
  int mode = any_requires ? grad_mode() : 0;
  Layout* layout = intern_layout(result.dtype, result.shape, result_gradients(result.dtype, any_requires, mode));
  keep_recent(layout);
  return layout;
}

const Attributes kNoAttributes;

// The result layouts of recent two-operand calls: the shape rule and the table of layouts cost more than a small
// kernel. Keys are addresses of layouts that the entry holds, or small numbers for Python numbers by dtype. The lock
// guards it.
struct RecentResult {
  Op op = Op::kCount;
  uintptr_t left = 0, right = 0;
  Layout* result = nullptr;
};
constexpr size_t kRecentResults = 256;
RecentResult recent_results[kRecentResults];

uintptr_t key_of(const OperandValue& value) {
  if (value.is_number) return 1 + static_cast<uintptr_t>(value.number_dtype);
  return reinterpret_cast<uintptr_t>(value.view.layout);
}

void hold_key(uintptr_t key) {
  if (key > kDTypeCount) retain(reinterpret_cast<Layout*>(key));
}

void drop_key(uintptr_t key) {
  if (key > kDTypeCount) release(reinterpret_cast<Layout*>(key));
}

// Borrowed from the entry: good until the next call.
Layout* recent_result_layout(Op op, const OperandValue* values, size_t count) {
  uintptr_t left = key_of(values[0]);
  uintptr_t right = count == 2 ? key_of(values[1]) : 0;
  uint64_t hash = ((left * 31 + right) >> 4) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(op) * 0xff51afd7ed558ccdu;
  RecentResult& entry = recent_results[hash >> 56];
  // Entries are of the default grad mode; a result that another one makes different is not kept.
  if (entry.op == op && entry.left == left && entry.right == right && entry.result != nullptr) {
    if (entry.result->gradients == 0 || grad_mode() == 0) return entry.result;
  }
  Layout* result = result_layout(op, {values, count}, kNoAttributes);
  if (result == nullptr) return nullptr;
  bool varies = false;  // with the mode
  for (size_t i = 0; i < count; ++i)
    varies = varies || (!values[i].is_number && (values[i].view.layout->gradients & kRequiresGrad) != 0);
  if (varies && grad_mode() != 0) {
    static Layout* latest = nullptr;
    if (latest != nullptr) release(latest);
    return latest = result;
  }
  if (entry.result != nullptr) {
    drop_key(entry.left);
    drop_key(entry.right);
    release(entry.result);
  }
  hold_key(left);
  hold_key(right);
  entry = {op, left, right, result};
  return result;
}

PyObject* run_into_new(Op op, std::span<const OperandValue> values, const Attributes& attributes, Layout* layout) {
  PyObject* result = new_tensor(layout);
  if (result == nullptr) return nullptr;
  OpError error;
  if (run_unlocked(op, values, attributes, view_of(as_tensor(result)), &error)) return result;
  Py_DECREF(result);
  return raise(error);
}

bool read_operand(Op op, size_t index, Borrowed object, OperandValue* out) {
  if (operand_of(object, out)) {
    if (out->is_number || out->view.data != nullptr) return true;
    has_memory(as_tensor(object));
    return false;
  }
  if (!PyErr_Occurred()) {
    PyErr_Format(PyExc_TypeError, "%s(): operand %zu must be a Tensor or a number, not %.200s", info(op).name,
                 index + 1, Py_TYPE(object)->tp_name);
  }
  return false;
}

}  // namespace

// A Python int takes part in the dtype of the tensors beside it, so it has to fit there, unless all become floats.
static bool ints_fit(Op op, const OperandValue* values, size_t count) {
  if (info(op).dtype_rule == DTypeRule::kPromoteFloat) return true;
  for (size_t i = 0; i < count; ++i) {
    const OperandValue& number = values[i];
    if (!number.is_number || number.number_dtype != DType::k_int64 ||
        number.number.i64 == static_cast<int32_t>(number.number.i64))
      continue;
    Operand facts[3];
    for (size_t n = 0; n < count && n < 3; ++n) {
      facts[n].is_number = values[n].is_number;
      facts[n].dtype = values[n].is_number ? values[n].number_dtype : values[n].view.layout->dtype;
      if (!values[n].is_number) facts[n].shape.rank = values[n].view.layout->rank;
    }
    bool chooses = op == Op::k_where;
    if (result_dtype({facts + chooses, count - chooses}) != DType::k_int32) continue;
    PyErr_Format(PyExc_OverflowError, "%s(): the int %lld does not fit into int32, the dtype of the Tensor beside it",
                 info(op).name, static_cast<long long>(number.number.i64));
    return false;
  }
  return true;
}

const Layout* plain_result_layout(Op op, const OperandValue* values, size_t count) {
  if (count > 1 && !ints_fit(op, values, count)) return nullptr;
  if (!values[0].is_number || (count == 2 && !values[1].is_number)) return recent_result_layout(op, values, count);
  PyErr_Format(PyExc_TypeError, "%s(): at least one operand must be a Tensor; for Python numbers use math",
               info(op).name);
  return nullptr;
}

PyObject* apply_plain(Op op, const OperandValue* values, size_t count) {
  const Layout* layout = plain_result_layout(op, values, count);
  if (layout == nullptr) return nullptr;
  return run_into_new(op, {values, count}, kNoAttributes, const_cast<Layout*>(layout));
}

bool operand_of(Borrowed object, OperandValue* out) {
  if (is_tensor(object)) {
    out->is_number = false;
    out->view = view_of(as_tensor(object));
    return true;
  }
  out->is_number = true;
  if (PyFloat_Check(object)) {
    out->number.f64 = PyFloat_AS_DOUBLE(object);
    out->number_dtype = DType::k_float64;
    return true;
  }
  if (PyBool_Check(object)) {
    out->number.i64 = object == Py_True;
    out->number_dtype = DType::k_bool;
    return true;
  }
  if (PyLong_Check(object)) return number_of_int(object, out);
  PyTypeObject* scalar = numpy_scalar_type();
  if (scalar == nullptr || !PyType_IsSubtype(Py_TYPE(object), scalar)) return false;
  Ref number(PyObject_CallMethod(object, "item", nullptr));
  if (!number) {
    PyErr_Clear();
    return false;
  }
  if (PyFloat_CheckExact(number.get()) || PyBool_Check(number.get()) || PyLong_CheckExact(number.get())) {
    return operand_of(number.get(), out);
  }
  return false;
}

PyObject* apply_op(Op op, PyObject* const* operands, size_t count, const Attributes& attributes) {
  OperandValue few[3];
  std::vector<OperandValue> many;
  OperandValue* values = few;
  if (count > 3) {
    many.resize(count);
    values = many.data();
  }
  for (size_t i = 0; i < count; ++i) {
    if (!read_operand(op, i, operands[i], &values[i])) return nullptr;
  }
  bool product = op == Op::k_matmul && count == 2 && !values[0].is_number && !values[1].is_number;
  bool elementwise = info(op).op_class == OpClass::kElementwise && (count == 1 || count == 2);
  if ((elementwise || product) && !attributes.has_dtype) {
    return apply_plain(op, values, count);
  }
  if (op == Op::k_where && !ints_fit(op, values, count)) return nullptr;
  Layout* layout = result_layout(op, {values, count}, attributes);
  if (layout == nullptr) return nullptr;
  PyObject* result = run_into_new(op, {values, count}, attributes, layout);
  release(layout);
  return result;
}

bool apply_plain_into(Op op, PyObject* const* operands, size_t count, const TensorObject* target) {
  OperandValue values[2];
  for (size_t i = 0; i < count; ++i) {
    if (!read_operand(op, i, operands[i], &values[i])) return false;
  }
  const Layout* layout = plain_result_layout(op, values, count);
  if (layout == nullptr) return false;
  // Straight into place if the layouts agree, no element is read after it was written, and nothing can fail half-way.
  bool direct =
      layout == target->layout && !(info(op).may_raise && info(layout->dtype).kind == DTypeKind::kIntegerKind);
  for (size_t i = 0; direct && i < count; ++i) {
    if (values[i].is_number) continue;
    bool same = values[i].view.data == target->data && values[i].view.layout == target->layout;
    direct = same || !views_overlap(values[i].view, view_of(target));
  }
  if (direct) {
    OpError error;
    if (run_unlocked(op, {values, count}, kNoAttributes, view_of(target), &error)) return true;
    raise(error);
    return false;
  }
  Ref value(apply_plain(op, values, count));
  return value && store_whole(target, value.get());
}

namespace {

constexpr int64_t kFewElements = 1024;  // copied at once by store_whole

// Null unless tensor's part may be written: each element once, and memory that is ours to write.
Layout* writable_layout(const TensorObject* tensor, const Shape& shape) {
  if (!has_memory(tensor)) return nullptr;
  if (tensor->buffer->read_only) {
    PyErr_SetString(PyExc_ValueError, "the tensor's memory is read-only; write into a clone() instead");
    return nullptr;
  }
  Layout* layout = intern_layout(tensor->layout->dtype, shape);
  if (!layout->overlaps_itself) return layout;
  PyErr_Format(PyExc_RuntimeError,
               "cannot write in place into %s: several of its elements share one memory location; clone() it first",
               to_text(*layout).c_str());
  release(layout);
  return nullptr;
}

bool store_number(const OperandValue& number, TensorView out) {
  alignas(8) char element[8];
  DType dtype = out.layout->dtype;
  if (!write_number(dtype, element, number)) return false;
  if (out.layout->count == 1) {
    memcpy(out.data, element, info(dtype).bytes);
    return true;
  }
  Shape shape = shape_of(*out.layout);
  for (int64_t& stride : shape.strides) stride = 0;
  Layout* layout = intern_layout(dtype, shape);
  OpError error;
  bool done = copy_unlocked({layout, element}, out, &error);
  release(layout);
  if (!done) raise(error);
  return done;
}

// The value's shape with target's sizes. False: exception.
bool broadcast_value(const Layout& value, const Shape& target, Shape* out) {
  *out = shape_of(value);
  // Leading dimensions of size 1 do not count, as in x[0] = row of shape [1, n].
  while (out->rank > target.rank && out->sizes[0] == 1) {
    for (int d = 1; d < out->rank; ++d) {
      out->sizes[d - 1] = out->sizes[d];
      out->strides[d - 1] = out->strides[d];
    }
    --out->rank;
  }
  OpError error;
  std::span<const int64_t> sizes(target.sizes, static_cast<size_t>(target.rank));
  if (expand_to(out, sizes, &error)) return true;
  PyErr_Format(PyExc_RuntimeError, "a value of shape %s does not broadcast to shape %s, where it is to be stored",
               sizes_text({value.sizes, value.rank}).c_str(), sizes_text(sizes).c_str());
  return false;
}

bool store_tensor(const TensorObject* value, TensorView out) {
  if (!has_memory(value)) return false;
  if (value->layout == out.layout && value->data == out.data) return true;
  Shape shape;
  if (!broadcast_value(*value->layout, shape_of(*out.layout), &shape)) return false;
  OpError error;
  Layout* layout = intern_layout(value->layout->dtype, shape);
  bool done = copy_unlocked({layout, value->data}, out, &error);
  release(layout);
  if (!done) raise(error);
  return done;
}

}  // namespace

bool fits_by_broadcast(const Layout& value, const Shape& target) {
  Shape shape;
  return broadcast_value(value, target, &shape);
}

bool check_writable(const TensorObject* tensor, const Shape& shape) {
  Layout* layout = writable_layout(tensor, shape);
  if (layout != nullptr) release(layout);
  return layout != nullptr;
}

bool store_into(const TensorObject* tensor, const Shape& shape, int64_t offset, Borrowed value) {
  Layout* layout = writable_layout(tensor, shape);
  if (layout == nullptr) return false;
  TensorView out{layout, tensor->data + offset * static_cast<int64_t>(info(layout->dtype).bytes)};
  OperandValue operand;
  bool done = false;
  if (is_tensor(value)) {
    done = store_tensor(as_tensor(value), out);
  } else if (operand_of(value, &operand)) {
    done = store_number(operand, out);
  } else if (!PyErr_Occurred()) {
    PyErr_Format(PyExc_TypeError, "cannot store a %.200s into a %s tensor: give a Tensor or a number",
                 Py_TYPE(value)->tp_name, info(tensor->layout->dtype).name);
  }
  release(layout);
  return done;
}

bool store_whole(const TensorObject* tensor, Borrowed value) {
  const Layout* layout = tensor->layout;
  const TensorObject* given = is_tensor(value) ? as_tensor(value) : nullptr;
  // Most often bytes alike: one copy.
  if (given != nullptr && given->layout == layout && layout->contiguous && layout->count <= kFewElements &&
      given->buffer != nullptr && tensor->buffer != nullptr && !tensor->buffer->read_only) {
    if (!has_memory(tensor)) return false;  // hidden while its use is traced
    memmove(tensor->data, given->data, static_cast<size_t>(layout->count) * info(layout->dtype).bytes);
    return true;
  }
  return store_into(tensor, shape_of(*layout), 0, value);
}

}  // namespace kintsugi
