// tensor[key] and tensor[key] = value, for keys of integers, slices, None and Ellipsis: views, and stores into views.
// Keys that choose by tensors are in tensor_gather.cpp.
#include <string>

#include "runtime/grad_mode.h"
#include "runtime/tensor_rows.h"

namespace kintsugi {

bool insert_dimension(Shape* shape, int dim) {
  if (shape->rank == kMaxRank) {
    PyErr_Format(PyExc_ValueError, "the result would have more than %d dimensions", kMaxRank);
    return false;
  }
  for (int d = shape->rank; d > dim; --d) {
    shape->sizes[d] = shape->sizes[d - 1];
    shape->strides[d] = shape->strides[d - 1];
  }
  shape->sizes[dim] = 1;
  shape->strides[dim] = dim + 1 <= shape->rank ? shape->sizes[dim + 1] * shape->strides[dim + 1] : 1;
  ++shape->rank;
  return true;
}

// It takes no dimension and adds one, of a size that depends on its value: no kind of key that is read here does.
bool refuse_bool_key() {
  PyErr_SetString(PyExc_NotImplementedError, "indexing by a single bool is not supported; use where()");
  return false;
}

namespace {

// A key item's place: how many of the tensor's dimensions the whole key takes.
bool takes_dimension(Borrowed item) { return item != Py_None && item != Py_Ellipsis; }

bool refuse_key(Borrowed item) {
  if (PyBool_Check(item)) return refuse_bool_key();
  PyErr_Format(PyExc_IndexError,
               "a tensor index is an int, a slice, None, ... or a tensor or list of ints or bools, "
               "not %.200s",
               Py_TYPE(item)->tp_name);
  return false;
}

// An int: Python's, NumPy's, or an integer tensor without dimensions.
bool is_integer_key(Borrowed item) {
  if (PyBool_Check(item)) return false;
  if (!is_tensor(item)) return PyIndex_Check(item) && !PyList_Check(item);
  const Layout* layout = as_tensor(item)->layout;
  return layout->rank == 0 && info(layout->dtype).kind == DTypeKind::kIntegerKind;
}

}  // namespace

// Applies one item at dimension *dim and moves on.
bool apply_key_item(Borrowed item, Shape* shape, int64_t* offset, int* dim) {
  OpError error;
  if (item == Py_None) {
    if (!insert_dimension(shape, *dim)) return false;
    ++*dim;
    return true;
  }
  if (PySlice_Check(item)) {
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(item, &start, &stop, &step) < 0) return false;
    if (step <= 0) {
      PyErr_Format(PyExc_ValueError, "slice step must be positive, got %zd", step);
      return false;
    }
    PySlice_AdjustIndices(shape->sizes[*dim], &start, &stop, step);
    if (!slice_dim(shape, offset, *dim, start, stop, step, &error)) return raise(error) != nullptr;
    ++*dim;
    return true;
  }
  if (!is_integer_key(item)) return refuse_key(item);
  int64_t index;
  if (!read_int(item, "a tensor index", &index)) {
    // An index beyond 64 bits is out of range like any other.
    if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
      PyErr_Format(PyExc_IndexError, "index is out of bounds for dimension %d with size %lld", *dim,
                   static_cast<long long>(shape->sizes[*dim]));
    }
    return false;
  }
  if (select_dim(shape, offset, *dim, index, &error)) return true;
  raise(error);
  return false;
}

namespace {

bool apply_key(const TensorObject* tensor, Borrowed key, Shape* shape, int64_t* offset) {
  *shape = shape_of(*tensor->layout);
  *offset = 0;
  int dim = 0;
  // The common cases first: one integer, one slice.
  if (!PyTuple_Check(key) && takes_dimension(key)) {
    if (shape->rank > 0) return apply_key_item(key, shape, offset, &dim);
    if (!PySlice_Check(key) && !is_integer_key(key)) return refuse_key(key);
    PyErr_SetString(PyExc_IndexError, "a 0-d tensor has no dimension to index; item() gives its value");
    return false;
  }
  Py_ssize_t count = PyTuple_Check(key) ? PyTuple_GET_SIZE(key) : 1;
  auto item_at = [&](Py_ssize_t i) { return PyTuple_Check(key) ? PyTuple_GET_ITEM(key, i) : key; };
  int taken = 0, ellipses = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    taken += takes_dimension(item_at(i));
    ellipses += item_at(i) == Py_Ellipsis;
  }
  if (ellipses > 1) {
    PyErr_SetString(PyExc_IndexError, "an index has one ... at most");
    return false;
  }
  if (taken > tensor->layout->rank) {
    PyErr_Format(PyExc_IndexError, "%d indices are too many for a tensor of %d dimensions (%s)", taken,
                 tensor->layout->rank, to_text(*tensor->layout).c_str());
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (item_at(i) == Py_Ellipsis) {
      dim += tensor->layout->rank - taken;
    } else if (!apply_key_item(item_at(i), shape, offset, &dim)) {
      return false;
    }
  }
  return true;
}

// One element by as many ints as there are dimensions, all in range: the offset, without any shape work.
bool find_element(const Layout& layout, Borrowed key, int64_t* offset) {
  bool tuple = PyTuple_CheckExact(key);
  if ((tuple ? PyTuple_GET_SIZE(key) : 1) != layout.rank) return false;
  *offset = 0;
  for (int d = 0; d < layout.rank; ++d) {
    Borrowed item = tuple ? PyTuple_GET_ITEM(key, d) : key;
    if (!PyLong_CheckExact(item)) return false;
    int overflow;
    int64_t index = PyLong_AsLongLongAndOverflow(item, &overflow);
    if (index < 0) index += layout.sizes[d];
    if (overflow != 0 || index < 0 || index >= layout.sizes[d]) return false;
    *offset += index * layout.strides[d];
  }
  return true;
}

}  // namespace

bool parse_get_item(Borrowed tensor, Borrowed key, ParsedCall* out) {
  if (has_choice(key)) return parse_chosen(tensor, key, out);
  out->kind = CallKind::kView;
  out->operands[0] = {tensor, 0};
  out->operand_count = 1;
  return apply_key(as_tensor(tensor), key, &out->shape, &out->offset);
}

bool parse_set_item(Borrowed tensor, Borrowed key, Borrowed value, ParsedCall* out) {
  if (has_choice(key)) return parse_set_chosen(tensor, key, value, out);
  if (!apply_key(as_tensor(tensor), key, &out->shape, &out->offset)) return false;
  return set_store(out, tensor, value, /*argument=*/2);
}

PyObject* get_item(PyObject* self, PyObject* key) {
  Shape shape;
  int64_t offset;
  if (find_element(*as_tensor(self)->layout, key, &offset)) return make_element_view(as_tensor(self), offset);
  if (has_choice(key)) return get_chosen(as_tensor(self), key);
  if (!apply_key(as_tensor(self), key, &shape, &offset)) return nullptr;
  return make_view(as_tensor(self), shape, offset);
}

int set_item(PyObject* self, PyObject* key, PyObject* value) {
  if (value == nullptr) {
    PyErr_SetString(PyExc_TypeError, "elements of a Tensor cannot be deleted");
    return -1;
  }
  Shape shape;
  int64_t offset;
  if (!find_element(*as_tensor(self)->layout, key, &offset)) {
    if (has_choice(key)) return set_chosen(as_tensor(self), key, value) ? 0 : -1;
    if (!apply_key(as_tensor(self), key, &shape, &offset)) return -1;
  }
  TensorObject* tensor = as_tensor(self);
  if (tensor->layout->gradients != 0 && !check_gradients_in_place(tensor, /*part=*/true)) return -1;
  if (!store_into(tensor, shape, offset, value)) return -1;
  if (is_tensor(value)) {
    CallOperand stored{value, -1};
    take_gradients(tensor, &stored, 1);
  }
  return 0;
}

// The sequence protocol: iteration, and PySequence_GetItem of C code.
PyObject* get_element(PyObject* self, Py_ssize_t index) {
  const Layout& layout = *as_tensor(self)->layout;
  if (layout.rank == 1 && index >= 0 && index < layout.sizes[0]) {
    return make_element_view(as_tensor(self), index * layout.strides[0]);
  }
  Shape shape = shape_of(layout);
  int64_t offset = 0;
  OpError error;
  if (shape.rank == 0) {
    PyErr_SetString(PyExc_IndexError, "a 0-d tensor has no dimension to index");
    return nullptr;
  }
  if (!select_dim(&shape, &offset, 0, index, &error)) return raise(error);
  return make_view(as_tensor(self), shape, offset);
}

}  // namespace kintsugi
