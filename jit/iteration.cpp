// Iterators in the trace: where they stand in what they walk over, and what comes next. Those of itertools are in
// itertools.cpp. Real ones are not followed, except a range's, which is advanced as a step.
#include <algorithm>

#include "jit/container_types.h"
#include "jit/containers.h"
#include "jit/exceptions.h"
#include "jit/names.h"
#include "runtime/frame.h"

namespace kintsugi {

bool Tracer::is_instance(Value* value) {
  return value->kind == ValueKind::kObject && (value->is_virtual() || versions_.count(value->type) != 0);
}

Value* Tracer::python_method(Value* object, PyObject* name) {
  PyTypeObject* self = as_class(object);
  PyTypeObject* type = self != nullptr ? metaclass(self) : is_instance(object) ? object->type : nullptr;
  if (type == nullptr || type == &PyType_Type) return nullptr;
  Value* method = find_in_class(type, name);
  return method != nullptr && method->kind == ValueKind::kFunction ? method : nullptr;
}

bool Tracer::is_iterator(Value* value) {
  if (value->kind == ValueKind::kIterator) return !is_view(value);
  if (value->kind == ValueKind::kGenerator) return true;
  if (value->kind != ValueKind::kObject) return false;
  bool is_static = !PyType_HasFeature(value->type, Py_TPFLAGS_HEAPTYPE);
  return (is_static || is_instance(value)) && value->type->tp_iternext != nullptr &&
         value->type->tp_iternext != &_PyObject_NextNotImplemented;
}

Value* Tracer::make_iterator(IteratorKind kind, std::vector<Value*> items) {
  Value* iterator = make(ValueKind::kIterator);
  iterator->iterator = kind;
  iterator->items = std::move(items);
  const TraceFrame& maker = call_now_depth_ > 0 ? frames_[static_cast<size_t>(call_now_frames_) - 1] : frame();
  iterator->made_in = reinterpret_cast<PyObject*>(maker.bytecode->code);
  iterator->made_at = maker.at;
  return iterator;
}

// ---- Sequences -----------------------------------------------------------------------------------------------------

static bool is_text(Value* value) {
  return value->is_constant() && (PyUnicode_CheckExact(value->object) || PyBytes_CheckExact(value->object));
}

int64_t Tracer::sequence_length(Value* sequence) {
  if (is_text(sequence)) return PySequence_Size(sequence->object);
  std::vector<Value*>* items;
  return list_items(sequence, &items) ? static_cast<int64_t>(items->size()) : -1;
}

Value* Tracer::sequence_item(Value* sequence, int64_t index) {
  if (is_text(sequence)) return constant_owned(PySequence_GetItem(sequence->object, index));
  return item_at(sequence, static_cast<size_t>(index));
}

// ---- iter() --------------------------------------------------------------------------------------------------------

Value* Tracer::iterate(Value* value) {
  value = force(value);
  if (Value* mapping = proxied(*this, value)) value = mapping;
  if (value->kind == ValueKind::kGenerator) return value->is_real() ? nullptr : value;
  if (value->kind == ValueKind::kIterator) {
    if (!is_view(value)) return value->iterator == IteratorKind::kUnknown ? nullptr : value;
    if (!dict_complete(value->items[0])) return nullptr;
    ++value->items[0]->iterated;
    return make_iterator(value->iterator, value->items);
  }
  if (value->kind == ValueKind::kDict) {
    if (!dict_complete(value)) return nullptr;
    ++value->iterated;
    return make_iterator(IteratorKind::kDictKeys, {value});
  }
  if (value->is_constant() && PyRange_Check(value->object)) {
    int64_t parts[3];
    PyObject* const names[] = {interned.start, interned.stop, interned.step};
    for (int i = 0; i < 3; ++i) {
      Ref part(PyObject_GetAttr(value->object, names[i]));
      parts[i] = part ? PyLong_AsLongLong(part.get()) : -1;
      constexpr int64_t kFar = INT64_MAX / 4;  // sums and differences of these stay within 64 bits
      if (PyErr_Occurred() || parts[i] > kFar || parts[i] < -kFar) return PyErr_Clear(), nullptr;
    }
    Value* iterator = make_iterator(IteratorKind::kRange, {});
    iterator->index = parts[0];
    iterator->stop = parts[1];
    iterator->step = parts[2];
    return iterator;
  }
  if (value->kind == ValueKind::kRange) return make_iterator(IteratorKind::kRange, value->items);
  if (value->kind == ValueKind::kTensor) {
    std::vector<Value*> parts;
    if (tensor_iterate(value, &parts) != Flow::kGo) return nullptr;
    value = tuple_of(std::move(parts));
  }
  if (value->kind == ValueKind::kObject) {
    if (value->content != nullptr && walks_plainly(*this, value)) return iterate(value->content);
    if (!is_instance(value)) return nullptr;
    if (Value* method = python_method(value, interned.iter)) {
      Value* iterator = nullptr;
      if (call_now(method, {value}, &iterator) != Flow::kGo || !is_iterator(iterator)) return nullptr;
      return iterator;
    }
    if (_PyType_Lookup(value->type, interned.iter) != nullptr || value->type->tp_iter != nullptr) return nullptr;
    return python_method(value, interned.getitem) != nullptr ? make_iterator(IteratorKind::kItems, {value}) : nullptr;
  }
  if (as_class(value) != nullptr) {  // of a metaclass that says how: an Enum
    Value *method = python_method(value, interned.iter), *iterator = nullptr;
    bool good = method != nullptr && call_now(method, {value}, &iterator) == Flow::kGo && is_iterator(iterator);
    return good ? iterator : nullptr;
  }
  if (is_set(value)) {
    std::vector<Value*> elements;
    if (!set_elements(*this, value, &elements)) return nullptr;
    ++value->iterated;
    return make_iterator(IteratorKind::kSet, {value});
  }
  if (sequence_length(value) < 0) return nullptr;
  if (is_deque(value)) ++value->iterated;
  return make_iterator(IteratorKind::kSequence, {value});
}

Flow Tracer::get_iter(Value* value, Value** out) {
  value = force(value);
  if (Value* mapping = proxied(*this, value)) value = mapping;
  if (Value* method = python_method(value, interned.iter))
    return inline_call(method, {value}, nullptr, ReturnRule::kIterator);
  *out = iterate(value);
  if (*out != nullptr) return Flow::kGo;
  return ended_ ? Flow::kEnd : stop(BreakReason::k_iteration, "iter() of an object that is not modelled");
}

// ---- next() --------------------------------------------------------------------------------------------------------

int64_t Tracer::remaining(Value* iterator) {
  if (iterator->kind != ValueKind::kIterator || iterator->is_real()) return -1;
  switch (iterator->iterator) {
    case IteratorKind::kSequence: {
      int64_t size = sequence_length(iterator->items[0]);
      return size < 0 ? -1 : std::max<int64_t>(0, size - iterator->index);
    }
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
    case IteratorKind::kSet:
    case IteratorKind::kDictKeys:
    case IteratorKind::kDictValues:
    case IteratorKind::kDictItems: {
      int64_t count = length(iterator->items[0]);
      return count < 0 ? -1 : std::max<int64_t>(0, count - iterator->index);
    }
    default: return -1;
  }
}

Tracer::Next Tracer::truth_now(Value* value) {
  bool known, answer;
  value = force(value);
  if (value->kind == ValueKind::kTensor) {
    stop(BreakReason::k_data_branch, "a tensor's truth");
    return Next::kUnknown;
  }
  if (!truth(value, &known, &answer) || (!known && !value->is_number())) return Next::kUnknown;
  if (!known)
    specialise(value->kind == ValueKind::kFloat
                   ? word_compare(Compare::kNotEqual, value, constant_owned(PyFloat_FromDouble(0)))
                   : word_compare(Compare::kNotEqual, value, int_constant(0)));
  return answer ? Next::kItem : Next::kEnd;
}

Flow Tracer::pass_on(const char* what) { return raising_ != nullptr ? Flow::kRaise : stop_iteration(what); }

Tracer::Next Tracer::call_for_item(Value* callable, std::vector<Value*> arguments, Value** out) {
  awaited_.push_back(as_type(PyExc_StopIteration));
  Flow flow = call_now(callable, std::move(arguments), out);
  awaited_.pop_back();
  if (flow == Flow::kGo) return Next::kItem;
  PyTypeObject* stop_type = as_type(PyExc_StopIteration);
  bool stops = flow == Flow::kRaise && PyType_IsSubtype(raising_->type, stop_type);
  if (!stops) return Next::kUnknown;
  // What a delegating generator goes on with; null: not known.
  Value* exception = std::exchange(raising_, nullptr);
  bool plain = exception->is_virtual() && exception->type == stop_type && !exception->items.empty() &&
               exception->items[kArgs] != nullptr;
  int64_t given = plain ? length(exception->items[kArgs]) : -1;
  *out = given < 0 ? nullptr : given == 0 ? none() : item_at(exception->items[kArgs], 0);
  return Next::kEnd;
}

Flow Tracer::stop_iteration(const char* what) { return ended_ ? Flow::kEnd : stop(BreakReason::k_iteration, what); }

// One item of each part in order, as zip and map take them; the first that has none ends it.
Tracer::Next Tracer::next_of_parts(Value* iterator, size_t first, std::vector<Value*>* items) {
  for (size_t i = first; i < iterator->items.size(); ++i) {
    Value* item = nullptr;
    if (Next result = next(iterator->items[i], &item); result != Next::kItem) return result;
    items->push_back(item);
  }
  return Next::kItem;
}

// ---- Real ones -----------------------------------------------------------------------------------------------------
//
// Guards at the entry look at what they give next; a step moves them on. That holds until an effect is recorded.

bool Tracer::is_real_walk(const Value* iterator) {
  return iterator->kind == ValueKind::kIterator && iterator->is_real() &&
         (iterator->iterator == IteratorKind::kRealRange || iterator->iterator == IteratorKind::kRealSequence ||
          iterator->iterator == IteratorKind::kRealEnumerate || iterator->iterator == IteratorKind::kRealZip);
}

// A real one that runs nothing of the program's when it moves on.
bool Tracer::is_builtin_iterator(const Value* iterator) {
  if (is_real_walk(iterator)) return true;
  PyObject* object = iterator->is_real() || iterator->is_constant() ? iterator->object : nullptr;
  if (object == nullptr) return false;
  static PyTypeObject* const of_ascii = [] {  // without a name in the headers
    Ref text(PyUnicode_FromString("a")), walk(text ? PyObject_GetIter(text.get()) : nullptr);
    return walk ? Py_TYPE(walk.get()) : &PyUnicodeIter_Type;
  }();
  for (PyTypeObject* type :
       {&PyRangeIter_Type, &PyListIter_Type, &PyListRevIter_Type, &PyTupleIter_Type, &PyDictIterKey_Type,
        &PyDictIterValue_Type, &PyDictIterItem_Type, &PyDictRevIterKey_Type, &PyDictRevIterValue_Type,
        &PyDictRevIterItem_Type, &PySetIter_Type, &PyUnicodeIter_Type, of_ascii, &PyBytesIter_Type})
    if (Py_IS_TYPE(object, type)) return true;
  return false;
}

Tracer::Next Tracer::peek_real(Value* iterator, Value** out) {
  if (!is_real_walk(iterator) || call_now_depth_ > 0) return Next::kUnknown;
  if (acted_ && iterator->iterator != IteratorKind::kRealRange) return Next::kUnknown;
  std::string text = source_text(iterator);
  switch (iterator->iterator) {
    case IteratorKind::kRealRange: {
      const long* fields =
          reinterpret_cast<const long*>(reinterpret_cast<const char*>(iterator->object) + sizeof(PyObject));
      long index = fields[0] + iterator->index;  // index, start, step, length: Objects/rangeobject.c of 3.11
      if (index >= fields[3]) return Next::kUnknown;
      *out = make(ValueKind::kInt);
      (*out)->int_hint = fields[1] + index * fields[2];
      break;
    }
    case IteratorKind::kRealSequence: {
      PyObject* item = item_of_sequence_iterator(iterator->object, iterator->index);
      std::string name = text + " next " + std::to_string(iterator->index);
      Guard& guard = this->guard(item != nullptr ? GuardKind::k_next_item : GuardKind::k_next_none, source(name));
      guard.a = iterator->id;
      guard.imm = iterator->index;
      if (item == nullptr) return Next::kUnknown;
      ValueId id = guard.dst = new_value();
      *out = wrap(item, id, name);
      break;
    }
    case IteratorKind::kRealEnumerate: {
      auto* real = reinterpret_cast<EnumerateIterator*>(iterator->object);
      if (real->count > INT64_MAX / 2) return Next::kUnknown;
      if (iterator->items.empty())
        iterator->items = {load_field(iterator, offsetof(EnumerateIterator, iterator), real->iterator, text + " of")};
      Value *item = nullptr, *count = make(ValueKind::kInt);
      if (Next result = peek_real(force(iterator->items[0]), &item); result != Next::kItem) return result;
      count->int_hint = real->count + iterator->index;
      *out = tuple_of({count, item});
      break;
    }
    default: {
      auto* real = reinterpret_cast<ZipIterator*>(iterator->object);
      if (iterator->items.empty()) {
        Value* parts = load_field(iterator, offsetof(ZipIterator, iterators), real->iterators, text + " of");
        for (int64_t i = 0; i < length(parts); ++i) iterator->items.push_back(item_at(parts, static_cast<size_t>(i)));
      }
      std::vector<Value*> items(iterator->items.size());
      for (size_t i = 0; i < items.size(); ++i)
        if (Next result = peek_real(force(iterator->items[i]), &items[i]); result != Next::kItem) return result;
      if (items.empty()) return Next::kUnknown;
      *out = tuple_of(std::move(items));
    }
  }
  ++iterator->index;
  return Next::kItem;
}

// item: what peek_real answered.
void Tracer::advance_real(Value* iterator, Value* item, ExitId exit) {
  StepKind kind = StepKind::k_range_next;
  ValueId dst = kNoValue;
  switch (iterator->iterator) {
    case IteratorKind::kRealRange: dst = item->id = new_value(); break;
    case IteratorKind::kRealSequence:
      kind = StepKind::k_list_next;
      dst = new_value();
      break;
    case IteratorKind::kRealEnumerate:
      advance_real(force(iterator->items[0]), item->items[1], exit);
      kind = StepKind::k_count_next;
      dst = item->items[0]->id = new_value();
      break;
    default:
      for (size_t i = 0; i < iterator->items.size(); ++i) advance_real(force(iterator->items[i]), item->items[i], exit);
      return;
  }
  Step& step = record(kind);
  step.a = iterator->id;
  step.on_fail = exit;
  step.dst = dst;
}

// Where nothing follows a loop over a range but the return of a local, the loop's own segment returns it, and none has
// to be compiled for that after a loop that ran for so long that nothing of the compiler is in the caches any more.
ExitId Tracer::end_of_walk(Value* iterator) {
  TraceFrame& now = frame();
  const Instruction& loop = now.bytecode->at(now.at);
  if (iterator->iterator != IteratorKind::kRealRange || loop.opcode != Opcode::k_FOR_ITER ||
      loop.offset != input_.offset || changed_ || now.stack.back() != iterator || handled_ != nullptr ||
      !exceptions_.empty() || !generators_.empty() || input_.policy.watched || input_.policy.break_everywhere ||
      (input_.code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0)
    return exit_here(ExitKind::kStep);
  const Instruction& load = now.bytecode->at(loop.target);
  if (load.opcode != Opcode::k_LOAD_FAST || now.bytecode->at(load.next).opcode != Opcode::k_RETURN_VALUE ||
      now.locals[static_cast<size_t>(load.argument)]->kind == ValueKind::kNull)
    return exit_here(ExitKind::kStep);
  recipes_.clear();
  Exit exit;
  exit.kind = ExitKind::kReturn;
  exit.result = recipe_of(now.locals[static_cast<size_t>(load.argument)]);
  recipes_.clear();
  plan().exits.push_back(std::move(exit));
  return static_cast<ExitId>(plan().exits.size() - 1);
}

// ---- One after the other -------------------------------------------------------------------------------------------

Tracer::Next Tracer::next(Value* iterator, Value** out) {
  iterator = force(iterator);
  if (iterator->kind == ValueKind::kObject) {
    Value* method = python_method(iterator, interned.next);
    return method == nullptr ? Next::kUnknown : call_for_item(method, {iterator}, out);
  }
  if (iterator->kind == ValueKind::kGenerator) return next_of_generator(iterator, out);
  if (iterator->kind != ValueKind::kIterator || is_view(iterator)) return Next::kUnknown;
  if (is_real_walk(iterator)) {
    if (Next result = peek_real(iterator, out); result != Next::kItem) return result;
    advance_real(iterator, *out, end_of_walk(iterator));
    return Next::kItem;
  }
  if (iterator->is_real()) return Next::kUnknown;
  changing(iterator);
  switch (iterator->iterator) {
    case IteratorKind::kSequence: {
      int64_t left = remaining(iterator);
      if (left < 0) return Next::kUnknown;
      if (left == 0) {  // an exhausted iterator stays so, whatever is appended
        Value* sequence = iterator->items[0];
        if (is_deque(sequence)) {
          --sequence->iterated;
          iterator->items[0] = new_container(*this, deque_type())->content;
          ++iterator->items[0]->iterated;
          iterator->index = 0;
          return Next::kEnd;
        }
        iterator->items[0] = sequence->kind == ValueKind::kList ? list_of({})
                             : sequence->is_constant() ? constant_owned(PySequence_GetSlice(sequence->object, 0, 0))
                                                       : tuple_of({});
        iterator->index = 0;
        return Next::kEnd;
      }
      *out = sequence_item(iterator->items[0], iterator->index++);
      return Next::kItem;
    }
    case IteratorKind::kReversed: {
      if (Value* method = python_method(iterator->items[0], interned.getitem)) {
        if (iterator->index < 0) return Next::kEnd;
        Value* place = int_constant(iterator->index);
        Flow flow = call_now(method, {iterator->items[0], place}, out);
        refuse_taken(*this, flow, PyExc_IndexError, "reversed");
        refuse_taken(*this, flow, PyExc_StopIteration, "reversed");
        if (flow != Flow::kGo) return Next::kUnknown;
        --iterator->index;
        return Next::kItem;
      }
      int64_t size = sequence_length(iterator->items[0]);
      if (size < 0) return Next::kUnknown;
      if (iterator->index < 0 || iterator->index >= size) {  // the list may have become shorter
        if (iterator->index == -1 && is_deque(iterator->items[0])) --iterator->items[0]->iterated;
        iterator->index = is_deque(iterator->items[0]) ? -2 : -1;
        return Next::kEnd;
      }
      *out = sequence_item(iterator->items[0], iterator->index--);
      return Next::kItem;
    }
    case IteratorKind::kRange:
      if (int64_t left = remaining(iterator); left <= 0) return left < 0 ? Next::kUnknown : Next::kEnd;
      *out = int_constant(iterator->index);
      iterator->index += iterator->step;
      return Next::kItem;
    case IteratorKind::kEnumerate: {
      Value* item = nullptr;
      Next result = next(iterator->items[0], &item);
      if (result == Next::kItem) *out = tuple_of({int_constant(iterator->index++), item});
      return result;
    }
    case IteratorKind::kZip: {
      std::vector<Value*> items;
      if (iterator->items.empty()) return Next::kEnd;
      Next result = next_of_parts(iterator, 0, &items);
      if (result == Next::kEnd && iterator->stop != 0) {  // strict: all must end together
        if (!items.empty()) return Next::kUnknown;
        for (size_t i = 1; i < iterator->items.size(); ++i) {
          Value* item = nullptr;
          if (next(iterator->items[i], &item) != Next::kEnd) return Next::kUnknown;
        }
      }
      if (result == Next::kItem) *out = tuple_of(std::move(items));
      return result;
    }
    case IteratorKind::kMap: {
      std::vector<Value*> items;
      if (Next result = next_of_parts(iterator, 1, &items); result != Next::kItem) return result;
      return call_for_item(iterator->items[0], std::move(items), out);
    }
    case IteratorKind::kSet: {
      Value* set = iterator->items[0];
      std::vector<Value*> elements;
      if (!set_elements(*this, set, &elements)) return Next::kUnknown;
      if (iterator->index < static_cast<int64_t>(elements.size())) {
        *out = elements[static_cast<size_t>(iterator->index++)];
        return Next::kItem;
      }
      --set->iterated;
      build_set(*this, {}, &iterator->items[0]);  // an exhausted iterator stays so
      ++iterator->items[0]->iterated;
      iterator->index = 0;
      return Next::kEnd;
    }
    case IteratorKind::kDictKeys:
    case IteratorKind::kDictValues:
    case IteratorKind::kDictItems: {
      Value* dict = iterator->items[0];
      int64_t left = remaining(iterator);
      if (left < 0) return Next::kUnknown;
      if (left == 0) {
        --dict->iterated;
        iterator->items[0] = make(ValueKind::kDict);  // an exhausted iterator stays so
        ++iterator->items[0]->iterated;
        iterator->index = 0;
        return Next::kEnd;
      }
      size_t place = static_cast<size_t>(iterator->index++);
      PyObject* key = dict->entries[iterator->step < 0 ? dict->entries.size() - 1 - place : place].first;
      if (iterator->iterator == IteratorKind::kDictKeys) {
        *out = key_value(key);
        return Next::kItem;
      }
      Value* value = dict_get(dict, key);
      *out = iterator->iterator == IteratorKind::kDictValues ? value : tuple_of({key_value(key), value});
      return Next::kItem;
    }
    case IteratorKind::kItems: {
      Value* method = iterator->items[0] == nullptr ? nullptr : python_method(iterator->items[0], interned.getitem);
      if (method == nullptr) return Next::kUnknown;
      Flow flow = call_now(method, {iterator->items[0], int_constant(iterator->index)}, out);
      refuse_taken(*this, flow, PyExc_IndexError, "__getitem__");
      refuse_taken(*this, flow, PyExc_StopIteration, "__getitem__");
      if (flow != Flow::kGo) return Next::kUnknown;
      ++iterator->index;
      return Next::kItem;
    }
    case IteratorKind::kSentinel: {
      if (iterator->stop != 0) return Next::kEnd;
      Value* same = nullptr;
      Flow flow = call_now(iterator->items[0], {}, out);
      refuse_taken(*this, flow, PyExc_StopIteration, "iter");
      if (flow != Flow::kGo) return Next::kUnknown;
      Value* sentinel = force(iterator->items[1]);
      if (*out != sentinel || (*out)->is_number() || (*out)->kind == ValueKind::kTensor) {
        if (!rule_out_nan(sentinel)) return Next::kUnknown;
        if ((*out)->kind == ValueKind::kTensor || sentinel->kind == ValueKind::kTensor) return Next::kUnknown;
        if (compare(Py_EQ, sentinel, *out, &same) != Flow::kGo || same == nullptr) return Next::kUnknown;
        Next equal = truth_now(same);
        if (equal == Next::kUnknown) return equal;
        if (equal == Next::kEnd) return Next::kItem;
      }
      iterator->stop = 1;
      return Next::kEnd;
    }
    default: {
      Next result = next_of_itertools(iterator, out);
      if (result == Next::kUnknown && raising_ != nullptr)
        refuse_taken(*this, Flow::kRaise, PyExc_StopIteration, "an iterator's function");
      return result;
    }
  }
}

// `in` without __contains__: each item compared in turn, an iterator left after the one that was found.
Flow Tracer::contains_by_walk(Value* container, Value* item, Value** out) {
  if (container->kind == ValueKind::kObject &&
      (!is_instance(container) ||
       (container->type->tp_as_sequence != nullptr && container->type->tp_as_sequence->sq_contains != nullptr)))
    return stop(BreakReason::k_container, "in");
  if (container->kind != ValueKind::kObject && container->kind != ValueKind::kIterator &&
      container->kind != ValueKind::kGenerator)
    return stop(BreakReason::k_container, "in");
  Value* iterator = iterate(container);
  if (iterator == nullptr) return stop_iteration("in");
  for (int64_t i = 0; i <= kLongestDrain; ++i) {
    Value *each = nullptr, *found = nullptr;
    Next result = next(iterator, &each);
    if (result == Next::kUnknown) break;
    *out = constant(Py_False);
    if (result == Next::kEnd) return Flow::kGo;
    if (Flow flow = contains(tuple_of({each}), item, &found); flow != Flow::kGo) return flow;
    if (found->object != Py_True) continue;
    *out = found;
    return Flow::kGo;
  }
  return stop_iteration("in");
}

bool walk_runs_code(Tracer& t, Value* iterable) {
  iterable = t.force(iterable);
  if (iterable->kind == ValueKind::kObject)
    return !t.is_pure_object(iterable) && (iterable->content == nullptr || !walks_plainly(t, iterable));
  if (iterable->kind == ValueKind::kGenerator || as_class(iterable) != nullptr) return true;
  if (iterable->kind != ValueKind::kIterator || is_view(iterable)) return false;
  switch (iterable->iterator) {
    case IteratorKind::kSequence:
    case IteratorKind::kReversed:
    case IteratorKind::kRange:
    case IteratorKind::kDictKeys:
    case IteratorKind::kDictValues:
    case IteratorKind::kDictItems:
    case IteratorKind::kSet: return !iterable->items.empty() && t.python_method(iterable->items[0], interned.getitem);
    case IteratorKind::kEnumerate:
    case IteratorKind::kZip:
      for (Value* part : iterable->items)
        if (walk_runs_code(t, part)) return true;
      return false;
    default: return !t.is_real_walk(iterable);
  }
}

Flow hand_on(Tracer& t, Value* iterable, Tracer::Asks asks, const char* what, const std::function<Flow(Value*)>& take) {
  iterable = t.force(iterable);
  auto unknown = [&] { return t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_container, what); };
  if (!walk_runs_code(t, iterable)) {
    std::vector<Value*> items;
    if (!t.drain(iterable, &items, asks)) return unknown();
    for (Value* item : items)
      if (Flow flow = take(item); flow != Flow::kGo) return flow;
    return Flow::kGo;
  }
  Value* iterator = t.iterate(iterable);
  if (iterator == nullptr || (asks == Tracer::Asks::kHint && !t.ask_length(iterable, /*hint=*/true))) return unknown();
  for (int64_t i = 0; i <= kLongestDrain; ++i) {
    Value* item = nullptr;
    Tracer::Next result = t.next(iterator, &item);
    if (result == Tracer::Next::kEnd) return Flow::kGo;
    if (result == Tracer::Next::kUnknown) return unknown();
    if (Flow flow = take(item); flow != Flow::kGo) return flow;
  }
  return unknown();
}

bool Tracer::drain(Value* iterable, std::vector<Value*>* items, Asks asks) {
  iterable = force(iterable);
  Value* iterator = iterate(iterable);
  if (iterator == nullptr || remaining(iterator) > kLongestDrain) return false;
  if (asks == Asks::kHint && !ask_length(iterable, /*hint=*/true)) return false;
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
