// tensor[key] and tensor[key] = value where the key chooses by tensors, lists or arrays: of integers, which number the
// elements of a dimension, or of bools, which say of each element whether it is meant. Copies, not views. The other
// items of the key come first, as a view. Also nonzero().
#include <cstring>
#include <string>

#include "kernels/reference.h"
#include "runtime/grad_mode.h"
#include "runtime/tensor_rows.h"

namespace kintsugi {

namespace {

bool is_array(Borrowed object) { return std::strcmp(Py_TYPE(object)->tp_name, "numpy.ndarray") == 0; }
bool is_mask(const TensorObject* tensor) { return tensor->layout->dtype == DType::k_bool; }

// A tensor of integers without dimensions is an int.
bool chooses(Borrowed item) {
  if (is_tensor(item))
    return as_tensor(item)->layout->rank > 0 || info(as_tensor(item)->layout->dtype).kind != DTypeKind::kIntegerKind;
  return PyList_Check(item) || is_array(item);
}

// A chosen part: the view that the other items leave, and a tensor of numbers for some of its dimensions.
struct Choice {
  Ref view;
  std::vector<Ref> numbers;
  uint32_t dims = 0;
};

Ref new_numbers(int64_t count) {
  Layout* layout = intern_contiguous(DType::k_int64, {&count, 1});
  Ref made(new_tensor(layout));
  release(layout);
  return made;
}

// Calls f with the coordinates of each element, in row-major order, and its offset in elements.
template <typename F>
void each_element(const Layout& layout, F&& f) {
  int64_t at[kMaxRank] = {};
  for (int64_t n = 0; n < layout.count; ++n) {
    int64_t place = 0;
    for (int d = 0; d < layout.rank; ++d) place += at[d] * layout.strides[d];
    f(at, place);
    for (int d = layout.rank - 1; d >= 0 && ++at[d] == layout.sizes[d]; --d) at[d] = 0;
  }
}

// For each dimension of a mask the numbers of the elements that it means, in row-major order. False: an exception.
bool find_elements(const TensorObject* mask, std::vector<Ref>* out) {
  if (!has_memory(mask)) return false;
  const Layout& layout = *mask->layout;
  const int64_t bytes = static_cast<int64_t>(info(layout.dtype).bytes);
  std::vector<int64_t> found;  // a row of numbers each
  each_element(layout, [&](const int64_t* at, int64_t place) {
    uint8_t truth = 0;
    convert_element(layout.dtype, mask->data + place * bytes, DType::k_bool, &truth);
    if (truth != 0) found.insert(found.end(), at, at + layout.rank);
  });
  const int64_t count = layout.rank == 0 ? 0 : static_cast<int64_t>(found.size()) / layout.rank;
  for (int d = 0; d < layout.rank; ++d) {
    Ref numbers = new_numbers(count);
    if (!numbers) return false;
    auto* to = reinterpret_cast<int64_t*>(as_tensor(numbers.get())->data);
    for (int64_t i = 0; i < count; ++i) to[i] = found[static_cast<size_t>(i * layout.rank + d)];
    out->push_back(std::move(numbers));
  }
  return true;
}

// An item as a tensor; a list without elements has no integers that it could not mean.
Ref tensor_of(Borrowed item) {
  if (is_tensor(item)) return Ref::share(item);
  Arguments arguments;
  arguments.values[0] = item;
  Ref made(tensor_from_data(arguments));
  if (made && as_tensor(made.get())->layout->count == 0 && PyList_Check(item)) return new_numbers(0);
  return made;
}

bool add_mask(const TensorObject* mask, const Shape& shape, int dim, Choice* out) {
  const Layout& layout = *mask->layout;
  if (layout.rank == 0) return refuse_bool_key();
  for (int d = 0; d < layout.rank; ++d) {
    if (dim + d < shape.rank && layout.sizes[d] == shape.sizes[dim + d]) continue;
    PyErr_Format(PyExc_IndexError,
                 "The shape of the mask %s at index %d does not match the shape of the indexed tensor %s at index %d",
                 sizes_text({layout.sizes, layout.rank}).c_str(), d,
                 sizes_text({shape.sizes, static_cast<size_t>(shape.rank)}).c_str(), dim + d);
    return false;
  }
  if (!find_elements(mask, &out->numbers)) return false;
  for (int d = 0; d < layout.rank; ++d) out->dims |= 1u << (dim + d);
  return true;
}

bool choose(const TensorObject* tensor, Borrowed key, Choice* out) {
  std::vector<Ref> items;  // lists and arrays as tensors
  Py_ssize_t count = PyTuple_Check(key) ? PyTuple_GET_SIZE(key) : 1;
  const int rank = tensor->layout->rank;
  int taken = 0, ellipses = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Borrowed item = PyTuple_Check(key) ? PyTuple_GET_ITEM(key, i) : key;
    items.push_back(chooses(item) ? tensor_of(item) : Ref::share(item));
    if (!items.back()) return false;
    Borrowed now = items.back().get();
    bool masks = is_tensor(now) && is_mask(as_tensor(now));
    taken += masks ? as_tensor(now)->layout->rank : now != Py_None && now != Py_Ellipsis;
    ellipses += now == Py_Ellipsis;
  }
  if (taken > rank) {
    PyErr_Format(PyExc_IndexError, "%d indices are too many for a tensor of %d dimensions (%s)", taken, rank,
                 to_text(*tensor->layout).c_str());
    return false;
  }
  if (ellipses > 1) {
    PyErr_SetString(PyExc_IndexError, "an index has one ... at most");
    return false;
  }
  Shape shape = shape_of(*tensor->layout);
  int64_t offset = 0;
  int dim = 0;
  for (const Ref& each : items) {
    Borrowed item = each.get();
    if (item == Py_Ellipsis) {
      dim += rank - taken;
    } else if (!is_tensor(item) || !chooses(item)) {
      if (!apply_key_item(item, &shape, &offset, &dim)) return false;
    } else if (is_mask(as_tensor(item))) {
      if (!add_mask(as_tensor(item), shape, dim, out)) return false;
      dim += as_tensor(item)->layout->rank;
    } else {
      out->numbers.push_back(Ref::share(item));
      out->dims |= 1u << dim++;
    }
  }
  out->view = Ref(make_view(tensor, shape, offset));
  return bool(out->view);
}

PyObject* take(const Choice& choice, Borrowed from) {
  std::vector<PyObject*> operands{from};
  for (const Ref& each : choice.numbers) operands.push_back(each.get());
  Attributes attributes;
  attributes.dims = choice.dims;
  return apply_op(Op::k_index, operands.data(), operands.size(), attributes);
}

// The offsets of a view's elements from its first one, in its own shape.
Ref offsets_of(const Layout& layout) {
  Layout* like = intern_contiguous(DType::k_int64, {layout.sizes, layout.rank});
  Ref made(new_tensor(like));
  release(like);
  if (!made) return made;
  auto* to = reinterpret_cast<int64_t*>(as_tensor(made.get())->data);
  each_element(layout, [&](const int64_t*, int64_t place) { *to++ = place; });
  return made;
}

// The value in the tensor's dtype and in the shape of what is chosen, as a fresh tensor.
Ref value_like(Borrowed value, const Layout& chosen, DType dtype) {
  Layout* layout = intern_contiguous(dtype, {chosen.sizes, chosen.rank});
  Ref made(new_tensor(layout));
  release(layout);
  if (!made || !store_whole(as_tensor(made.get()), value)) return Ref();
  return made;
}

// Of a mask: [[row, column], ...], or a tensor a dimension.
PyObject* nonzero(const TensorObject* self, bool as_tuple) {
  std::vector<Ref> numbers;
  if (self->layout->rank == 0) {  // it has no dimension to number; NumPy refuses it, too
    PyErr_SetString(PyExc_NotImplementedError, "nonzero() of a 0-d tensor is not supported; reshape it to [1] first");
    return nullptr;
  }
  if (!find_elements(self, &numbers)) return nullptr;
  if (as_tuple) {
    Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
    for (size_t d = 0; tuple && d < numbers.size(); ++d)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(d), numbers[d].release());
    return tuple.release();
  }
  std::vector<PyObject*> columns;
  for (const Ref& each : numbers) columns.push_back(each.get());
  Attributes attributes;
  attributes.dim = 1;
  return apply_op(Op::k_stack, columns.data(), columns.size(), attributes);
}

}  // namespace

bool has_choice(Borrowed key) {
  if (!PyTuple_Check(key)) return chooses(key);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
    if (chooses(PyTuple_GET_ITEM(key, i))) return true;
  return false;
}

PyObject* get_chosen(const TensorObject* tensor, Borrowed key) {
  Choice choice;
  if (!choose(tensor, key, &choice)) return nullptr;
  return choice.numbers.empty() ? choice.view.release() : take(choice, choice.view.get());  // arrays without dimensions
}

bool set_chosen(TensorObject* tensor, Borrowed key, Borrowed value) {
  Choice choice;
  if (!choose(tensor, key, &choice)) return false;
  const Layout& part = *as_tensor(choice.view.get())->layout;
  if (!check_writable(tensor, shape_of(part))) return false;
  if (tensor->layout->gradients != 0 && !check_gradients_in_place(tensor, /*part=*/true)) return false;
  if (choice.numbers.empty()) return store_into(as_tensor(choice.view.get()), shape_of(part), 0, value);
  Ref offsets = offsets_of(part);
  Ref places(offsets ? take(choice, offsets.get()) : nullptr);
  if (!places) return false;
  Ref values = value_like(value, *as_tensor(places.get())->layout, tensor->layout->dtype);
  if (!values) return false;
  const auto bytes = static_cast<int64_t>(info(tensor->layout->dtype).bytes);
  const auto* to = reinterpret_cast<const int64_t*>(as_tensor(places.get())->data);
  const int64_t count = as_tensor(places.get())->layout->count;
  char* first = as_tensor(choice.view.get())->data;
  for (int64_t i = 0; i < count; ++i)  // of a place that is meant twice the last value stays
    std::memcpy(first + to[i] * bytes, as_tensor(values.get())->data + i * bytes, static_cast<size_t>(bytes));
  if (is_tensor(value)) {
    CallOperand stored{value, -1};
    take_gradients(tensor, &stored, 1);
  }
  return true;
}

// By tensors of integers alone, beside whole dimensions: one operator. False without an exception: it has to be run.
bool parse_chosen(Borrowed tensor, Borrowed key, ParsedCall* out) {
  const Py_ssize_t count = PyTuple_Check(key) ? PyTuple_GET_SIZE(key) : 1;
  const int rank = as_tensor(tensor)->layout->rank;
  out->kind = CallKind::kOp;
  out->op = Op::k_index;
  out->list.assign(1, {tensor, 0});
  int taken = 0, ellipses = 0, dim = 0;
  auto item_at = [&](Py_ssize_t i) -> Borrowed { return PyTuple_Check(key) ? PyTuple_GET_ITEM(key, i) : key; };
  for (Py_ssize_t i = 0; i < count; ++i) {
    Borrowed item = item_at(i);
    const bool whole = PySlice_Check(item) && reinterpret_cast<PySliceObject*>(item)->start == Py_None &&
                       reinterpret_cast<PySliceObject*>(item)->stop == Py_None &&
                       reinterpret_cast<PySliceObject*>(item)->step == Py_None;
    const bool numbers = is_tensor(item) && chooses(item) && !is_mask(as_tensor(item));
    if (!whole && !numbers && item != Py_Ellipsis) return false;
    taken += item != Py_Ellipsis;
    ellipses += item == Py_Ellipsis;
  }
  if (taken > rank || ellipses > 1) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Borrowed item = item_at(i);
    if (item == Py_Ellipsis) {
      dim += rank - taken;
    } else if (PySlice_Check(item)) {
      ++dim;
    } else {
      out->list.push_back({item, PyTuple_Check(key) ? -1 : 1});
      out->attributes.dims |= 1u << dim++;
    }
  }
  return true;
}

// A number where a mask of the tensor's own shape says so: a choice, written back.
bool parse_set_chosen(Borrowed tensor, Borrowed key, Borrowed value, ParsedCall* out) {
  constexpr int64_t kExact = int64_t{1} << 53;  // stored as a double on the way
  const Layout& layout = *as_tensor(tensor)->layout;
  OperandValue number;
  if (!is_tensor(key) || !is_mask(as_tensor(key)) || layout.rank == 0) return false;
  const Layout& mask = *as_tensor(key)->layout;
  if (mask.rank != layout.rank || !std::equal(mask.sizes, mask.sizes + mask.rank, layout.sizes)) return false;
  if (is_tensor(value) || !operand_of(value, &number)) return PyErr_Clear(), false;
  if (info(number.number_dtype).kind > info(layout.dtype).kind) return false;
  const bool integer = info(number.number_dtype).kind == DTypeKind::kIntegerKind;
  if (integer && (number.number.i64 > kExact || number.number.i64 < -kExact)) return false;
  out->kind = CallKind::kInPlace;
  out->op = Op::k_where;
  out->target = tensor;
  out->shape = shape_of(layout);
  out->operands[0] = {key, 1};
  out->operands[1] = {value, 2};
  out->operands[2] = {tensor, 0};
  out->operand_count = 3;
  return true;
}

// self, *, as_tuple=False
PyObject* nonzero_value(const Arguments& arguments) {
  if (!is_tensor(arguments.values[0])) {
    PyErr_Format(PyExc_TypeError, "nonzero(): argument 1 must be a Tensor, not %.200s",
                 Py_TYPE(arguments.values[0])->tp_name);
    return nullptr;
  }
  return nonzero(as_tensor(arguments.values[0]), arguments.values[1] == Py_True);
}

}  // namespace kintsugi
