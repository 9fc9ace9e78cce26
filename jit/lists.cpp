// Lists and tuples in the trace: their methods, slices, repetition, sorting. A virtual one is only this model; of a
// real one each change is also a step. See containers.cpp.
#include <algorithm>

#include "jit/containers.h"

namespace kintsugi {

namespace {

using Items = std::vector<Value*>;

void list_step(Tracer& t, Value* list, StepKind kind, ValueId object, int64_t imm) {
  ExitId exit = t.exit_here(ExitKind::kRaise);
  Step& step = t.record(kind);
  step.a = list->id;
  step.b = object;
  step.imm = imm;
  step.on_fail = exit;
  t.mutate(list);
}

// Items [start, start + count) of a list whose items are all known give way to `fresh`; the steps are the caller's.
void splice(Value* list, int64_t start, int64_t count, const Items& fresh) {
  list->items.erase(list->items.begin() + start, list->items.begin() + start + count);
  list->items.insert(list->items.begin() + start, fresh.begin(), fresh.end());
  if (!list->has_origins()) return;
  list->origins.erase(list->origins.begin() + start, list->origins.begin() + start + count);
  list->origins.insert(list->origins.begin() + start, fresh.size(), -1);
}

}  // namespace

// All items at once.
void replace_items(Tracer& t, Value* list, Items fresh) {
  t.changing(list);
  if (list->is_real()) {
    Value* all = t.constant_owned(PySlice_New(nullptr, nullptr, nullptr));
    t.run_method(&PyList_Type, "__setitem__", {list, all, t.tuple_of(fresh)});
    if (list->has_origins()) list->origins.assign(fresh.size(), -1);
  }
  list->items = std::move(fresh);
}

namespace {

Flow append(Tracer& t, Value* self, Items& a, Value**) {
  t.changing(self);
  if (self->is_real()) list_step(t, self, StepKind::k_list_append, t.object_of(a[0]), 0);
  self->items.push_back(a[0]);
  if (self->has_origins() && self->complete) self->origins.push_back(-1);
  return Flow::kGo;
}

Flow extend(Tracer& t, Value* self, Items& a, Value** out) {
  if (walks_over(a[0], self)) return t.stop(BreakReason::k_container, "extend by an iterator over the list itself");
  return hand_on(t, a[0], Tracer::Asks::kHint, "extend", [&](Value* item) {
    Items one{item};
    return append(t, self, one, out);
  });
}

Flow pop(Tracer& t, Value* self, Items& a, Value** out) {
  int64_t size = static_cast<int64_t>(self->items.size()), index = size - 1;
  if (!a.empty()) a[0] = t.specialise(a[0]);
  if (size == 0) return raise_here(t, PyExc_IndexError, "pop from empty list");
  if (!a.empty() && !index_of(a[0], size, &index)) return no_index(t, a[0], "pop index out of range");
  t.changing(self);
  *out = t.item_at(self, index);
  if (self->is_real()) list_step(t, self, StepKind::k_list_delete, kNoValue, index);
  splice(self, index, 1, {});
  return Flow::kGo;
}

Flow insert(Tracer& t, Value* self, Items& a, Value**) {
  int64_t size = static_cast<int64_t>(self->items.size()), index;
  if (!position_of(t, a[0], size, &index)) return t.stop(BreakReason::k_container, "insert");
  t.changing(self);
  if (self->is_real()) list_step(t, self, StepKind::k_list_insert, t.object_of(a[1]), index);
  splice(self, index, 0, {a[1]});
  return Flow::kGo;
}

Flow clear(Tracer& t, Value* self, Items&, Value**) {
  t.changing(self);
  if (self->is_real()) list_step(t, self, StepKind::k_list_clear, kNoValue, 0);
  splice(self, 0, static_cast<int64_t>(self->items.size()), {});
  return Flow::kGo;
}

Items all_items(Tracer& t, Value* sequence) {
  Items items;
  for (size_t i = 0; i < sequence->items.size(); ++i) items.push_back(t.item_at(sequence, i));
  return items;
}

Flow copy(Tracer& t, Value* self, Items&, Value** out) {
  *out = t.list_of(all_items(t, self));
  return Flow::kGo;
}

Flow reverse(Tracer& t, Value* self, Items&, Value**) {
  t.changing(self);
  if (self->is_real()) t.run_method(&PyList_Type, "reverse", {self});
  std::reverse(self->items.begin(), self->items.end());
  if (self->has_origins()) std::reverse(self->origins.begin(), self->origins.end());
  return Flow::kGo;
}

// The first item in [start, stop) that equals `item`; -1: none.
Flow find(Tracer& t, Value* self, Value* item, int64_t start, int64_t stop, int64_t* found) {
  *found = -1;
  for (int64_t i = start; i < stop && i < static_cast<int64_t>(self->items.size()); ++i) {
    bool same = false;
    if (Flow flow = t.same_item(t.item_at(self, i), item, &same); flow != Flow::kGo) return flow;
    if (!same) continue;
    *found = i;
    return Flow::kGo;
  }
  return Flow::kGo;
}

Flow index(Tracer& t, Value* self, Items& a, Value** out) {
  int64_t size = static_cast<int64_t>(self->items.size()), start = 0, stop = size, found;
  if ((a.size() > 1 && !position_of(t, a[1], size, &start)) || (a.size() > 2 && !position_of(t, a[2], size, &stop)))
    return t.stop(BreakReason::k_container, "index");
  if (Flow flow = find(t, self, a[0], start, stop, &found); flow != Flow::kGo) return flow;
  if (found < 0) {
    if (self->kind == ValueKind::kTuple || self->is_constant())
      return raise_here(t, PyExc_ValueError, "tuple.index(x): x not in tuple");
    return raise_with_repr(t, PyExc_ValueError, a[0], " is not in list");
  }
  *out = t.int_constant(found);
  return Flow::kGo;
}

Flow count(Tracer& t, Value* self, Items& a, Value** out) {
  int64_t total = 0;
  for (size_t i = 0; i < self->items.size(); ++i) {
    bool same = false;
    if (Flow flow = t.same_item(t.item_at(self, i), a[0], &same); flow != Flow::kGo) return flow;
    total += same;
  }
  *out = t.int_constant(total);
  return Flow::kGo;
}

Flow remove(Tracer& t, Value* self, Items& a, Value**) {
  int64_t found;
  if (Flow flow = find(t, self, a[0], 0, INT64_MAX, &found); flow != Flow::kGo) return flow;
  if (found < 0) return raise_here(t, PyExc_ValueError, "list.remove(x): x not in list");
  t.changing(self);
  if (self->is_real()) list_step(t, self, StepKind::k_list_delete, kNoValue, found);
  splice(self, found, 1, {});
  return Flow::kGo;
}

struct Method {
  const char* name;
  size_t least, most;
  bool all_known;  // items must be known first
  Flow (*run)(Tracer&, Value*, Items&, Value**);
};
constexpr Method kListMethods[] = {{"append", 1, 1, false, append},  {"extend", 1, 1, false, extend},
                                   {"pop", 0, 1, true, pop},         {"insert", 2, 2, true, insert},
                                   {"clear", 0, 0, true, clear},     {"copy", 0, 0, true, copy},
                                   {"reverse", 0, 0, true, reverse}, {"index", 1, 3, true, index},
                                   {"count", 1, 1, true, count},     {"remove", 1, 1, true, remove}};

bool is_none(Value* value) { return value->is_constant() && value->object == Py_None; }

// By keys that are constants: Python's own sort, its order also where keys have none (NaN).
Flow order_by_objects(Tracer& t, const std::vector<PyObject*>& keys, bool reverse, std::vector<size_t>* order) {
  Ref list(PyList_New(0)), order_list(PyList_New(0));
  if (!list || !order_list) return t.stop(BreakReason::k_container, "sorting");
  for (size_t i = 0; i < keys.size(); ++i) {
    Ref position(PyLong_FromSize_t(i));
    if (!position || PyList_Append(list.get(), keys[i]) < 0 || PyList_Append(order_list.get(), position.get()) < 0)
      return t.stop(BreakReason::k_container, "sorting");
  }
  Ref sort(PyObject_GetAttrString(order_list.get(), "sort")), none(PyTuple_New(0));
  Ref key_at(PyObject_GetAttrString(list.get(), "__getitem__"));
  Ref how(key_at ? Py_BuildValue("{s:O,s:O}", "key", key_at.get(), "reverse", reverse ? Py_True : Py_False) : nullptr);
  Ref done(sort && none && how ? PyObject_Call(sort.get(), none.get(), how.get()) : nullptr);
  if (!done) return t.stop(BreakReason::k_raises, "sort");
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(order_list.get()); ++i)
    order->push_back(PyLong_AsSize_t(PyList_GET_ITEM(order_list.get(), i)));
  return Flow::kGo;
}

}  // namespace

Flow Tracer::sort_items(std::vector<Value*>* items, Value* key, bool reverse) {
  Items keys;
  for (Value*& item : *items) {
    item = force(item);
    Value* by = item;
    if (key != nullptr && !is_none(key)) {
      if (Flow flow = call_now(key, {item}, &by); flow != Flow::kGo) return flow;
    }
    keys.push_back(force(by));
  }
  std::vector<PyObject*> objects;
  for (Value* each : keys) {
    PyObject* object;
    if (fold(each, &object)) objects.push_back(object);
  }
  std::vector<size_t> order;
  Flow flow = Flow::kGo;
  if (keys.size() < 2)
    order.assign(keys.size(), 0);  // one key is compared with nothing
  else if (objects.size() == keys.size())
    flow = order_by_objects(*this, objects, reverse, &order);
  else
    flow = order_by_comparing(*this, keys, reverse, &order);
  if (flow != Flow::kGo) return flow;
  Items sorted;
  for (size_t i : order) sorted.push_back((*items)[i]);
  *items = std::move(sorted);
  return Flow::kGo;
}

// Numbers that are read from an object and decide an order: each order would be a variant.
bool holds_numbers(Tracer& t, Value* item) {
  item = t.force(item);
  if (item->is_number()) return true;
  if (item->is_constant()) return PyNumber_Check(item->object) && !PyUnicode_Check(item->object);
  if (item->kind != ValueKind::kTuple) return false;
  for (int64_t i = 0; i < t.length(item); ++i)
    if (holds_numbers(t, t.item_at(item, static_cast<size_t>(i)))) return true;
  return false;
}

// Python's sort of a list in place: the keys are computed in order, and meanwhile the list is empty.
Flow sort_list(Tracer& t, Value* self, Value* key, bool reverse) {
  Items* known;
  if (!t.list_items(self, &known)) return t.stop(BreakReason::k_container, "sort");
  Items items = all_items(t, self), hidden;
  for (Value* item : items)
    if (self->is_real() && items.size() > 1 && !t.input_.memory->dynamic.empty() && holds_numbers(t, item))
      return t.stop(BreakReason::k_container, "sorting numbers that vary");
  if (self->is_virtual()) t.changing(self);
  hidden.swap(self->items);
  Flow flow = t.sort_items(&items, key, reverse);
  bool untouched = self->items.empty();
  hidden.swap(self->items);
  if (flow != Flow::kGo) return flow;
  if (!untouched) return t.stop(BreakReason::k_raises, "list modified during sort");
  if (items != self->items) replace_items(t, self, std::move(items));
  return Flow::kGo;
}

Flow list_method(Tracer& t, Value* self, const std::string& name, std::vector<Value*>& arguments, Value** out) {
  *out = t.none();
  if (name == "sort" && arguments.empty()) return sort_list(t, self, nullptr, false);
  Items* items;
  for (const Method& method : kListMethods) {
    if (name != method.name) continue;
    if (arguments.size() < method.least || arguments.size() > method.most)
      return t.stop(BreakReason::k_raises, "arguments of " + name);
    if (method.all_known && !t.list_items(self, &items)) break;
    return method.run(t, self, arguments, out);
  }
  return t.stop(BreakReason::k_container, name);
}

Flow tuple_method(Tracer& t, Value* self, const std::string& name, std::vector<Value*>& arguments, Value** out) {
  Items* items;
  if (!t.list_items(self, &items)) return t.stop(BreakReason::k_container, name);
  if (name == "index" && !arguments.empty() && arguments.size() <= 3) return index(t, self, arguments, out);
  if (name == "count" && arguments.size() == 1) return count(t, self, arguments, out);
  return t.stop(BreakReason::k_container, name);
}

// ---- Slices, repetition ---------------------------------------------------------------------------------------------

// A slice whose parts are constants; null: it has others.
Value* constant_slice(Tracer& t, Value* slice) {
  if (slice->is_constant()) return PySlice_Check(slice->object) ? slice : nullptr;
  if (slice->kind != ValueKind::kSlice) return nullptr;
  Items parts;
  for (Value*& part : slice->items) {
    part = t.force(part);
    if (part->kind != ValueKind::kInt && part->kind != ValueKind::kBool && part->kind != ValueKind::kTensor &&
        !part->is_constant())
      return nullptr;
  }
  for (Value* part : slice->items) {
    if (part->kind == ValueKind::kTensor) part = t.as_index(part);
    if (part == nullptr) return nullptr;
    parts.push_back(t.specialise(part));
  }
  for (Value* part : parts)
    if (part->object != Py_None && !PyLong_Check(part->object)) return nullptr;
  return t.constant_owned(PySlice_New(parts[0]->object, parts[1]->object, parts[2]->object));
}

Flow set_slice(Tracer& t, Value* list, Value* slice, Value* value) {
  Items fresh, *items;
  Py_ssize_t start, stop, step;
  Value* known = constant_slice(t, slice);
  if (known == nullptr || !t.list_items(list, &items)) return t.stop(BreakReason::k_container, "slice assignment");
  if (PySlice_Unpack(known->object, &start, &stop, &step) < 0) return t.stop(BreakReason::k_raises, "slice");
  if (!t.drain(value, &fresh, Tracer::Asks::kHint))
    return t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_container, "slice assignment");
  Py_ssize_t count = PySlice_AdjustIndices(static_cast<Py_ssize_t>(items->size()), &start, &stop, step);
  if (step != 1 && count != static_cast<Py_ssize_t>(fresh.size()))
    return raise_here(t, PyExc_ValueError,
                      "attempt to assign sequence of size " + std::to_string(fresh.size()) +
                          " to extended slice of size " + std::to_string(count));
  for (Value*& item : fresh) item = t.force(item);
  t.changing(list);
  if (list->is_real()) t.run_method(&PyList_Type, "__setitem__", {list, known, t.tuple_of(fresh)});
  if (step == 1) {
    splice(list, start, count, fresh);
    return Flow::kGo;
  }
  for (Py_ssize_t i = 0; i < count; ++i) splice(list, start + i * step, 1, {fresh[i]});
  return Flow::kGo;
}

Flow delete_slice(Tracer& t, Value* list, Value* slice) {
  Items* items;
  Py_ssize_t start, stop, step;
  Value* known = constant_slice(t, slice);
  if (known == nullptr || !t.list_items(list, &items)) return t.stop(BreakReason::k_container, "slice deletion");
  if (PySlice_Unpack(known->object, &start, &stop, &step) < 0) return t.stop(BreakReason::k_raises, "slice");
  Py_ssize_t count = PySlice_AdjustIndices(static_cast<Py_ssize_t>(items->size()), &start, &stop, step);
  if (count == 0) return Flow::kGo;
  t.changing(list);
  if (list->is_real()) t.run_method(&PyList_Type, "__delitem__", {list, known});
  if (step < 0) start += (count - 1) * step, step = -step;
  for (Py_ssize_t i = count; i-- > 0;) splice(list, start + i * step, 1, {});
  return Flow::kGo;
}

Flow repeat(Tracer& t, Value* sequence, Value* times, bool in_place, Value** out) {
  constexpr int64_t kLongest = 4096;
  times = t.specialise(times);
  Items* known;
  int overflow = 0;
  if (!times->is_constant() || !PyLong_Check(times->object)) return t.stop(BreakReason::k_raises, "repetition");
  int64_t count = PyLong_AsLongLongAndOverflow(times->object, &overflow);
  if (overflow != 0 || !t.list_items(sequence, &known)) return t.stop(BreakReason::k_container, "repetition");
  if (count > 0 && count > kLongest / static_cast<int64_t>(known->size() + 1))
    return t.stop(BreakReason::k_container, "a long repetition");
  Items once = all_items(t, sequence), items;
  if (t.is_exact_tuple(sequence) && (count == 1 || once.empty())) {
    *out = sequence;
    return Flow::kGo;
  }
  for (int64_t i = 0; i < count; ++i) items.insert(items.end(), once.begin(), once.end());
  bool is_list = sequence->kind == ValueKind::kList;
  if (is_list && in_place) {
    replace_items(t, sequence, std::move(items));
    *out = sequence;
    return Flow::kGo;
  }
  *out = is_list ? t.list_of(std::move(items)) : t.tuple_of(std::move(items));
  return Flow::kGo;
}

}  // namespace kintsugi
