// x.numpy(): a step makes the array, an object that may be kept, handed on and returned. Its sizes are the tensor's,
// and tolist() reads the memory that both share. All else that is asked of it is a break.
#include <cstring>

#include "jit/arrays.h"
#include "runtime/frame.h"

namespace kintsugi {

namespace {

constexpr int64_t kMostNumbers = 64;  // that tolist() reads, each with a step

// Only where the program has loaded NumPy: loading it takes long, and is the program's business.
PyTypeObject* array_type() {
  static PyTypeObject* known = nullptr;
  if (known != nullptr) return known;
  Borrowed numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
  Ref type(numpy != nullptr && PyModule_Check(numpy) ? PyObject_GetAttrString(numpy, "ndarray") : nullptr);
  PyErr_Clear();
  if (type && PyType_Check(type.get()) && !is_heap_type(reinterpret_cast<PyTypeObject*>(type.get())))
    known = reinterpret_cast<PyTypeObject*>(type.release());
  return known;
}

Value* tensor_of(const Value* array) {
  bool is = array->kind == ValueKind::kObject && array->type == array_type() && array->items.size() == 1 &&
            array->items[0]->kind == ValueKind::kTensor;
  return is ? array->items[0] : nullptr;
}

Flow read(Tracer& t, Value* tensor, Value** out) {
  if (tensor->layout->rank == 0) return *out = read_item(t, tensor, -1), Flow::kGo;
  std::vector<Value*> parts;
  if (Flow flow = t.tensor_iterate(tensor, &parts); flow != Flow::kGo) return flow;
  for (Value*& part : parts)
    if (Flow flow = read(t, part, &part); flow != Flow::kGo) return flow;
  *out = t.list_of(std::move(parts));
  return Flow::kGo;
}

}  // namespace

bool make_array(Tracer& t, PyObject* callable, const std::vector<Value*>& arguments, Value** out) {
  if (array_type() == nullptr || t.input_.policy.exporting || arguments.size() != 1) return false;
  Value* array = t.make(ValueKind::kObject);
  array->type = array_type();
  array->items = {arguments[0]};
  array->id = t.run_call(callable, arguments);
  *out = array;
  return true;
}

bool array_attribute(Tracer& t, Value* array, PyObject* name, Value** out) {
  Value* tensor = tensor_of(array);
  if (tensor == nullptr) return false;
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return PyErr_Clear(), false;
  int rank = tensor->layout->rank;
  if (std::strcmp(text, "ndim") == 0) return *out = t.int_constant(rank), true;
  if (std::strcmp(text, "size") == 0 && !tensor->dynamic) return *out = t.int_constant(tensor->layout->count), true;
  if (std::strcmp(text, "shape") != 0) return false;
  std::vector<Value*> sizes;
  for (int d = 0; d < rank; ++d) sizes.push_back(t.size_of(tensor, d));
  *out = t.tuple_of(std::move(sizes));
  return true;
}

bool call_array(Tracer& t, PyObject* callable, const std::vector<Value*>& arguments, PyObject* names, Value** out,
                Flow* flow) {
  if (Py_TYPE(callable) != &PyMethodDescr_Type || arguments.size() != 1 || names != nullptr) return false;
  Value* tensor = tensor_of(arguments[0]);
  auto* method = reinterpret_cast<PyMethodDescrObject*>(callable);
  if (tensor == nullptr || PyDescr_TYPE(callable) != array_type() ||
      std::strcmp(method->d_method->ml_name, "tolist") != 0)
    return false;
  if (tensor->dynamic || tensor->layout->count > kMostNumbers) return false;
  *flow = read(t, tensor, out);
  return true;
}

}  // namespace kintsugi
