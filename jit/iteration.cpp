// Iterators in the trace: where they stand in what they walk over, and what comes next. Real ones are not followed,
// except a range's, which is advanced as a step.
#include <algorithm>

#include "jit/tracer_core.h"
#include "runtime/frame.h"

namespace kintsugi {

Value* Tracer::iterate(Value* value) {
  std::vector<Value*>* items;
  if (value->kind == ValueKind::kIterator) {
    bool is_view = !value->complete &&
                   (value->iterator == IteratorKind::kDictKeys || value->iterator == IteratorKind::kDictValues ||
                    value->iterator == IteratorKind::kDictItems);
    if (!is_view) return value->iterator == IteratorKind::kUnknown ? nullptr : value;
    Value* iterator = make(ValueKind::kIterator);
    iterator->iterator = value->iterator;
    iterator->items = value->items;
    ++value->items[0]->iterated;
    return dict_complete(value->items[0]) ? iterator : nullptr;
  }
  Value* iterator = make(ValueKind::kIterator);
  if (value->kind == ValueKind::kDict) {
    if (!dict_complete(value)) return nullptr;
    iterator->iterator = IteratorKind::kDictKeys;
    iterator->items = {value};
    ++value->iterated;
    return iterator;
  }
  if (value->is_constant() && PyRange_Check(value->object)) {
    iterator->iterator = IteratorKind::kRange;
    int64_t parts[3];
    const char* const names[] = {"start", "stop", "step"};
    for (int i = 0; i < 3; ++i) {
      Ref part(PyObject_GetAttrString(value->object, names[i]));
      parts[i] = part ? PyLong_AsLongLong(part.get()) : -1;
      constexpr int64_t kFar = INT64_MAX / 4;  // sums and differences of these stay within 64 bits
      if (PyErr_Occurred() || parts[i] > kFar || parts[i] < -kFar) return PyErr_Clear(), nullptr;
    }
    iterator->index = parts[0];
    iterator->stop = parts[1];
    iterator->step = parts[2];
    return iterator;
  }
  if (value->kind == ValueKind::kRange) {
    iterator->iterator = IteratorKind::kRange;
    iterator->items = value->items;
    return iterator;
  }
  if (value->kind == ValueKind::kTensor) {
    std::vector<Value*> parts;
    if (tensor_iterate(value, &parts) != Flow::kGo) return nullptr;
    value = tuple_of(std::move(parts));
  }
  if (value->is_constant() && PyUnicode_CheckExact(value->object) && PyUnicode_GET_LENGTH(value->object) <= 256) {
    Ref characters(PySequence_Tuple(value->object));
    if (!characters) return PyErr_Clear(), nullptr;
    value = constant(characters.get());
  }
  if (!list_items(value, &items)) return nullptr;
  iterator->iterator = IteratorKind::kSequence;
  iterator->items = {value};
  return iterator;
}

int64_t Tracer::remaining(Value* iterator) {
  if (iterator->kind != ValueKind::kIterator) return -1;
  std::vector<Value*>* items;
  switch (iterator->iterator) {
    case IteratorKind::kSequence:
      if (!list_items(iterator->items[0], &items)) return -1;
      return std::max<int64_t>(0, static_cast<int64_t>(items->size()) - iterator->index);
    case IteratorKind::kReversed: return iterator->index + 1;
    case IteratorKind::kRange: {
      if (!iterator->items.empty()) return -1;
      int64_t step = iterator->step,
              span = step > 0 ? iterator->stop - iterator->index : iterator->index - iterator->stop;
      int64_t stride = step > 0 ? step : -step;
      return span <= 0 ? 0 : (span + stride - 1) / stride;
    }
    case IteratorKind::kEnumerate: return remaining(iterator->items[0]);
    case IteratorKind::kZip:
    case IteratorKind::kMap: {
      int64_t least = INT64_MAX;
      for (size_t i = iterator->iterator == IteratorKind::kMap ? 1 : 0; i < iterator->items.size(); ++i) {
        int64_t left = remaining(iterator->items[i]);
        if (left < 0) return -1;
        least = std::min(least, left);
      }
      return least == INT64_MAX ? 0 : least;
    }
    case IteratorKind::kDictKeys:
    case IteratorKind::kDictValues:
    case IteratorKind::kDictItems: {
      int64_t count = length(iterator->items[0]);
      return count < 0 ? -1 : std::max<int64_t>(0, count - iterator->index);
    }
    default: return -1;
  }
}

bool Tracer::can_follow(Value* iterator) { return remaining(iterator) >= 0; }

Tracer::Next Tracer::next(Value* iterator, Value** out) {
  if (iterator->kind != ValueKind::kIterator) return Next::kUnknown;
  if (iterator->iterator == IteratorKind::kRealRange) {
    const long* fields =
        reinterpret_cast<const long*>(reinterpret_cast<const char*>(iterator->object) + sizeof(PyObject));
    long index = fields[0] + iterator->index;  // index, start, step, length: Objects/rangeobject.c of 3.11
    if (index >= fields[3]) return Next::kUnknown;
    ExitId exit = exit_here(ExitKind::kStep);
    Step& step = record(StepKind::k_range_next);
    Value* value = make(ValueKind::kInt);
    value->int_hint = fields[1] + index * fields[2];
    step.a = iterator->id;
    step.on_fail = exit;
    step.dst = value->id = new_value();
    ++iterator->index;
    *out = value;
    return Next::kItem;
  }
  if (!can_follow(iterator)) return Next::kUnknown;
  changing(iterator);
  if (iterator->is_real()) return Next::kUnknown;
  switch (iterator->iterator) {
    case IteratorKind::kSequence:
      if (remaining(iterator) == 0) {
        iterator->items[0] = tuple_of({});  // an exhausted iterator stays so, whatever is appended
        iterator->index = 0;
        return Next::kEnd;
      }
      *out = item_at(iterator->items[0], static_cast<size_t>(iterator->index++));
      return Next::kItem;
    case IteratorKind::kReversed:
      if (iterator->index < 0) return Next::kEnd;
      if (iterator->index >= length(iterator->items[0])) return Next::kUnknown;
      *out = item_at(iterator->items[0], static_cast<size_t>(iterator->index--));
      return Next::kItem;
    case IteratorKind::kRange:
      if (remaining(iterator) == 0) return Next::kEnd;
      *out = int_constant(iterator->index);
      iterator->index += iterator->step;
      return Next::kItem;
    case IteratorKind::kEnumerate: {
      Value* item = nullptr;
      Next result = next(iterator->items[0], &item);
      if (result == Next::kItem) *out = tuple_of({int_constant(iterator->index++), item});
      return result;
    }
    case IteratorKind::kZip:
    case IteratorKind::kMap: {
      std::vector<Value*> items;
      bool is_map = iterator->iterator == IteratorKind::kMap;
      if (iterator->items.size() == (is_map ? 1u : 0u)) return Next::kEnd;
      for (size_t i = is_map ? 1 : 0; i < iterator->items.size(); ++i) {
        Value* item = nullptr;
        Next result = next(iterator->items[i], &item);
        if (result != Next::kItem) return result;
        items.push_back(item);
      }
      if (!is_map) {
        *out = tuple_of(std::move(items));
        return Next::kItem;
      }
      return call_now(iterator->items[0], std::move(items), out) == Flow::kGo ? Next::kItem : Next::kUnknown;
    }
    case IteratorKind::kDictKeys:
    case IteratorKind::kDictValues:
    case IteratorKind::kDictItems: {
      Value* dict = iterator->items[0];
      if (remaining(iterator) == 0) {
        --dict->iterated;
        iterator->items[0] = make(ValueKind::kDict);  // an exhausted iterator stays so
        ++iterator->items[0]->iterated;
        iterator->index = 0;
        return Next::kEnd;
      }
      PyObject* key = dict->entries[iterator->index++].first;
      if (iterator->iterator == IteratorKind::kDictKeys) {
        *out = constant(key);
        return Next::kItem;
      }
      Value* value = dict_get(dict, key);
      *out = iterator->iterator == IteratorKind::kDictValues ? value : tuple_of({constant(key), value});
      return Next::kItem;
    }
    default: return Next::kUnknown;
  }
}

bool Tracer::drain(Value* iterable, std::vector<Value*>* items) {
  iterable = force(iterable);
  Value* iterator = iterate(iterable);
  if (iterator == nullptr || iterator->is_real()) return false;
  int64_t left = remaining(iterator);
  if (left < 0 || left > kLongestDrain) return false;
  for (int64_t i = 0; i <= kLongestDrain; ++i) {
    Value* item = nullptr;
    switch (next(iterator, &item)) {
      case Next::kItem: items->push_back(item); break;
      case Next::kEnd: return true;
      case Next::kUnknown: return false;
    }
  }
  return false;
}

}  // namespace kintsugi
