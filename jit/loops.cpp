#include "jit/loops.h"

#include "jit/tracer_core.h"

namespace kintsugi {

bool walks_over_objects(const Value* iterator) {
  constexpr int kDeepest = 4;  // enumerate(zip(...))
  for (int depth = 0; depth < kDeepest && iterator->kind == ValueKind::kIterator && !iterator->is_real(); ++depth) {
    if (iterator->items.empty()) return false;
    const Value* walked = iterator->items[0];
    if (walked->forwarded != nullptr) walked = walked->forwarded;
    switch (iterator->iterator) {
      case IteratorKind::kEnumerate:
      case IteratorKind::kZip:
      case IteratorKind::kReversed:
      case IteratorKind::kSequence:
      case IteratorKind::kDictValues:
      case IteratorKind::kDictItems: break;
      default: return false;
    }
    PyObject *first = nullptr, *key = nullptr;
    Py_ssize_t at = 0;
    if (walked->kind == ValueKind::kIterator) {
      iterator = walked;
      continue;
    }
    if (walked->object != nullptr && PyDict_Check(walked->object)) {
      PyDict_Next(walked->object, &at, &key, &first);
    } else if (walked->object != nullptr && (PyList_Check(walked->object) || PyTuple_Check(walked->object))) {
      if (PySequence_Fast_GET_SIZE(walked->object) > 0) first = PySequence_Fast_GET_ITEM(walked->object, 0);
    } else if (!walked->items.empty() && walked->items[0] != nullptr) {
      const Value* item = walked->items[0];
      if (item->forwarded != nullptr) item = item->forwarded;
      return item->kind == ValueKind::kObject && item->type != nullptr && is_plain_class(item->type);
    }
    return first != nullptr && is_plain_class(Py_TYPE(first));
  }
  return false;
}

}  // namespace kintsugi
