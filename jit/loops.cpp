#include "jit/loops.h"

#include "jit/tensor_calls.h"
#include "jit/tracer_core.h"

namespace kintsugi {

// kt.nn.Module says so of itself.
static bool is_module_class(PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("_is_module_class");
  return name != nullptr && is_plain_class(type) && _PyType_Lookup(type, name) == Py_True;
}

static bool is_part_of_module(PyObject* object) {
  if (is_tensor(object)) return (as_tensor(object)->layout->gradients & kParameter) != 0;
  return is_module_class(Py_TYPE(object));
}

static bool holds_parts(const Value* walked, int depth) {
  if (walked->forwarded != nullptr) walked = walked->forwarded;
  if (walked->kind == ValueKind::kIterator) return walks_over_modules(walked, depth + 1);
  if (walked->object != nullptr && PyDict_Check(walked->object)) {
    PyObject *key, *first = nullptr;
    Py_ssize_t at = 0;
    return PyDict_Next(walked->object, &at, &key, &first) && is_part_of_module(first);
  }
  if (walked->object != nullptr && (PyList_Check(walked->object) || PyTuple_Check(walked->object)))
    return PySequence_Fast_GET_SIZE(walked->object) > 0 &&
           is_part_of_module(PySequence_Fast_GET_ITEM(walked->object, 0));
  if (walked->items.empty() || walked->items[0] == nullptr) return false;
  const Value* item = walked->items[0];
  if (item->forwarded != nullptr) item = item->forwarded;
  if (item->kind == ValueKind::kTensor) return (item->layout->gradients & kParameter) != 0;
  return item->kind == ValueKind::kObject && item->type != nullptr && is_module_class(item->type);
}

bool walks_over_modules(const Value* iterator, int depth) {
  constexpr int kDeepest = 4;  // enumerate(zip(...))
  if (depth > kDeepest || iterator->kind != ValueKind::kIterator || iterator->is_real() || iterator->items.empty())
    return false;
  switch (iterator->iterator) {
    case IteratorKind::kZip:
      return std::any_of(iterator->items.begin(), iterator->items.end(),
                         [&](const Value* part) { return holds_parts(part, depth); });
    case IteratorKind::kEnumerate:
    case IteratorKind::kReversed:
    case IteratorKind::kSequence:
    case IteratorKind::kDictValues:
    case IteratorKind::kDictItems: return holds_parts(iterator->items[0], depth);
    default: return false;
  }
}

}  // namespace kintsugi
