// collections.deque in the trace: its content is a list with a greatest length (Value::stop, -1: none). A change of a
// real one is a call of its own method. See subclasses.cpp.
#include <algorithm>

#include "jit/container_types.h"
#include "jit/containers.h"
#include "runtime/frame.h"

#include <opcode.h>  // NB_ADD and the like

namespace kintsugi {

namespace {

using Values = std::vector<Value*>;

// The greatest length of a real one is in its struct, at a place that is looked for once.
int maxlen_offset() {
  static const int offset = [] {
    Ref none(PyTuple_New(0)), probe, other;
    auto make = [&](int length) {
      Ref arguments(Py_BuildValue("((),i)", length));
      return arguments ? PyObject_CallObject(reinterpret_cast<PyObject*>(deque_type()), arguments.get()) : nullptr;
    };
    probe = Ref(make(987654321));
    other = Ref(make(123456789));
    int found = 0;
    for (int at = sizeof(PyVarObject); probe && other && at < deque_type()->tp_basicsize; at += sizeof(Py_ssize_t)) {
      auto word = [at](const Ref& object) {
        return *reinterpret_cast<Py_ssize_t*>(reinterpret_cast<char*>(object.get()) + at);
      };
      if (word(probe) == 987654321 && word(other) == 123456789) found = at;
    }
    PyErr_Clear();
    return found;
  }();
  return offset;
}

Flow no_model(Tracer& t, const std::string& name) { return t.stop(BreakReason::k_container, "deque." + name); }

int64_t size_of(Value* content) { return static_cast<int64_t>(content->items.size()); }

// The content with all that it holds known; null: it is not modelled.
Value* known(Tracer& t, Value* self) {
  Values* ignored;
  return know_maxlen(t, self->content) && t.list_items(self->content, &ignored) ? self->content : nullptr;
}

// Before a change: the deque must not be walked through meanwhile. False: it may be.
bool may_change(Tracer& t, Value* content) {
  if (content->iterated > 0) return false;
  t.changing(content);
  return true;
}

void replace(Value* content, Values items) {
  content->items = std::move(items);
  if (content->has_origins()) content->origins.assign(content->items.size(), -1);
}

Values all_items(Tracer& t, Value* content) {
  Values items;
  for (size_t i = 0; i < content->items.size(); ++i) items.push_back(t.item_at(content, i));
  return items;
}

void drop(Value* content, int64_t index) {
  content->items.erase(content->items.begin() + index);
  if (content->has_origins()) content->origins.erase(content->origins.begin() + index);
}

void put(Value* content, int64_t index, Value* item) {
  content->items.insert(content->items.begin() + index, item);
  if (content->has_origins()) content->origins.insert(content->origins.begin() + index, -1);
}

// What a full one lets go at the other end may run code as it ends.
bool ends_with_code(Tracer& t, const Value* item) {
  return item == nullptr || t.finalizes(item->forwarded != nullptr ? item->forwarded : item);
}

Flow append(Tracer& t, Value* self, Value* item, bool left, Value** out) {
  Value* content = self->content;
  *out = t.none();
  if (!know_maxlen(t, content)) return no_model(t, "append");
  int64_t most = content->stop;
  bool counts = left || most >= 0;
  if ((counts && known(t, self) == nullptr) || content->iterated > 0) return no_model(t, "append");
  bool full = most >= 0 && size_of(content) == most;
  if (full && most > 0) {
    Value* last = t.item_at(content, left ? content->items.size() - 1 : 0);
    if (ends_with_code(t, last)) return no_model(t, "append");
  }
  t.changing(content);
  if (content->is_real()) t.run_method(deque_type(), left ? "appendleft" : "append", {content, item});
  if (most == 0) return Flow::kGo;
  if (!content->complete) {
    content->items.push_back(item);
    return Flow::kGo;
  }
  if (full) drop(content, left ? size_of(content) - 1 : 0);
  put(content, left ? 0 : size_of(content), item);
  return Flow::kGo;
}

Flow extend(Tracer& t, Value* self, Value* iterable, bool left, Value** out) {
  iterable = t.force(iterable);
  *out = t.none();
  if (iterable == self && walks_plainly(t, self)) {
    if (known(t, self) == nullptr) return no_model(t, "extend");
    iterable = t.tuple_of(all_items(t, self->content));
  }
  if (walks_over(iterable, self->content)) return no_model(t, "extend");
  return hand_on(t, iterable, Tracer::Asks::kNothing, "deque.extend",
                 [&](Value* item) { return append(t, self, item, left, out); });
}

Flow pop(Tracer& t, Value* self, bool left, Value** out) {
  Value* content = known(t, self);
  if (content == nullptr) return no_model(t, "pop");
  if (content->items.empty()) return raise_here(t, PyExc_IndexError, "pop from an empty deque");
  int64_t index = left ? 0 : size_of(content) - 1;
  *out = t.item_at(content, static_cast<size_t>(index));
  if (!may_change(t, content)) return no_model(t, "pop");
  if (content->is_real()) t.run_method(deque_type(), left ? "popleft" : "pop", {content});
  drop(content, index);
  return Flow::kGo;
}

Flow rotate(Tracer& t, Value* self, Values& a, Value** out) {
  Value *content = known(t, self), *by = a.empty() ? t.int_constant(1) : t.force(a[0]);
  if (by->is_number()) by = t.specialise(by);
  int overflow = 0;
  if (content == nullptr || !by->is_constant() || !PyLong_Check(by->object) || !may_change(t, content))
    return no_model(t, "rotate");
  int64_t count = PyLong_AsLongLongAndOverflow(by->object, &overflow), size = size_of(content);
  if (overflow != 0) return no_model(t, "rotate");
  if (content->is_real()) t.run_method(deque_type(), "rotate", {content, by});
  *out = t.none();
  if (size < 2) return Flow::kGo;
  Values items = all_items(t, content);
  count = ((count % size) + size) % size;
  std::rotate(items.begin(), items.end() - count, items.end());
  replace(content, std::move(items));
  return Flow::kGo;
}

// How many items from the front equal `item` before `limit` matches are found; *last: the place of the last of these.
Flow search(Tracer& t, Value* content, Value* item, int64_t start, int64_t stop, int64_t limit, int64_t* count,
            int64_t* last) {
  *count = 0;
  for (int64_t i = start; i < stop && i < size_of(content) && *count < limit; ++i) {
    bool same = false;
    if (Flow flow = t.same_item(t.item_at(content, static_cast<size_t>(i)), item, &same); flow != Flow::kGo)
      return flow;
    if (!same) continue;
    ++*count;
    *last = i;
  }
  return Flow::kGo;
}

Flow find(Tracer& t, const std::string& name, Value* self, Values& a, Value** out) {
  Value* content = known(t, self);
  int64_t count = 0, place = 0, start = 0, stop = INT64_MAX;
  if (content == nullptr) return no_model(t, name);
  if ((a.size() > 1 && !position_of(t, a[1], size_of(content), &start)) ||
      (a.size() > 2 && !position_of(t, a[2], size_of(content), &stop)))
    return no_model(t, name);
  Value* item = t.force(a[0]);
  int64_t limit = name == "count" ? INT64_MAX : 1;
  if (Flow flow = search(t, content, item, start, stop, limit, &count, &place); flow != Flow::kGo) return flow;
  if (name == "count" || (name == "index" && count > 0)) {
    *out = t.int_constant(name == "count" ? count : place);
    return Flow::kGo;
  }
  if (name == "__contains__") {
    *out = t.constant(count > 0 ? Py_True : Py_False);
    return Flow::kGo;
  }
  if (count == 0) return raise_with_repr(t, PyExc_ValueError, item, " is not in deque");
  if (!may_change(t, content)) return no_model(t, name);
  if (content->is_real())
    t.run_method(deque_type(), "__delitem__", {content, t.int_constant(place)});  // compared already
  drop(content, place);
  *out = t.none();
  return Flow::kGo;
}

Flow insert(Tracer& t, Value* self, Values& a, Value** out) {
  Value* content = known(t, self);
  int64_t index;
  if (content == nullptr || !position_of(t, a[0], size_of(content), &index)) return no_model(t, "insert");
  if (content->stop >= 0 && size_of(content) >= content->stop)
    return raise_here(t, PyExc_IndexError, "deque already at its maximum size");
  if (!may_change(t, content)) return no_model(t, "insert");
  if (content->is_real()) t.run_method(deque_type(), "insert", {content, t.int_constant(index), a[1]});
  put(content, index, a[1]);
  *out = t.none();
  return Flow::kGo;
}

Flow copy(Tracer& t, Value* self, Value** out) {
  Value* content = known(t, self);
  if (content == nullptr || self->type != deque_type()) return no_model(t, "copy");  // a class of its own is called
  *out = new_container(t, deque_type());
  (*out)->content->stop = content->stop;
  (*out)->content->items = all_items(t, content);
  return Flow::kGo;
}

// d * times, d *= times
Flow repeat_deque(Tracer& t, Value* self, Value* times, bool in_place, Value** out) {
  Value* content = known(t, self);
  if (times->is_number()) times = t.specialise(times);
  int overflow = 0;
  bool plain = content != nullptr && content->stop < 0 && times->is_constant() && PyLong_Check(times->object);
  int64_t count = plain ? PyLong_AsLongLongAndOverflow(times->object, &overflow) : 0;
  if (!plain || overflow != 0 || (count > 1 && count > 4096 / (size_of(content) + 1))) return no_model(t, "__mul__");
  Values once = all_items(t, content), items;
  for (Value* each : once)
    if (in_place && count < 1 && ends_with_code(t, each)) return no_model(t, "__imul__");
  for (int64_t i = 0; i < count; ++i) items.insert(items.end(), once.begin(), once.end());
  if (!in_place) {
    if (Flow flow = copy(t, self, out); flow != Flow::kGo) return flow;
    (*out)->content->items = std::move(items);
    return Flow::kGo;
  }
  if (!may_change(t, content)) return no_model(t, "__imul__");
  if (content->is_real()) t.run_method(deque_type(), "__imul__", {content, times});
  replace(content, std::move(items));
  *out = self;
  return Flow::kGo;
}

// d[i], d[i] = value (also a null one: del d[i])
Flow item(Tracer& t, const char* name, Value* self, Values& a, Value** out) {
  Value *content = known(t, self), *key = t.force(a[0]);
  int64_t index;
  if (content == nullptr) return no_model(t, name);
  if (key->is_number()) key = t.specialise(key);
  if (key->kind == ValueKind::kObject)
    if (Value* number = t.as_index(key)) key = number;
  if (!index_of(key, size_of(content), &index)) return no_index(t, key, "deque index out of range");
  if (std::string(name) == "__getitem__") {
    *out = t.item_at(content, static_cast<size_t>(index));
    return Flow::kGo;
  }
  *out = t.none();
  t.changing(content);
  bool deletes = a.size() == 1;
  if (deletes && content->iterated > 0) return no_model(t, name);
  if (content->is_real()) {
    Values arguments{content, t.int_constant(index)};
    if (!deletes) arguments.push_back(a[1]);
    t.run_method(deque_type(), name, arguments);
  }
  if (deletes) {
    drop(content, index);
  } else {
    content->items[static_cast<size_t>(index)] = a[1];
    if (content->has_origins()) content->origins[static_cast<size_t>(index)] = -1;
  }
  return Flow::kGo;
}

Flow init(Tracer& t, Value* self, Values& a, PyObject* names, Value** out) {
  Value* content = self->content;
  if (!place_keywords(&a, names, {"iterable", "maxlen"}) || content->is_real() || !content->items.empty())
    return no_model(t, "__init__");
  if (a[1] != nullptr) {
    Value* most = t.force(a[1]);
    if (most->is_number()) most = t.specialise(most);
    bool none = most->is_constant() && most->object == Py_None;
    if (!none) {
      if (!most->is_constant() || !PyLong_CheckExact(most->object)) return no_model(t, "__init__");
      content->stop = PyLong_AsSsize_t(most->object);
      if (content->stop < 0) return PyErr_Clear(), no_model(t, "__init__");
    }
  }
  *out = t.none();
  return a[0] == nullptr ? Flow::kGo : extend(t, self, a[0], /*left=*/false, out);
}

}  // namespace

// An iterator over a deque at a position (false: it is none): its class is called with the deque and the position.
bool Tracer::deque_walk_recipe(Value* iterator, Recipe* recipe) {
  bool reversed = iterator->iterator == IteratorKind::kReversed;
  if ((!reversed && iterator->iterator != IteratorKind::kSequence) || !is_deque(iterator->items[0])) return false;
  Ref empty(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(deque_type())));
  Ref walk(!empty     ? nullptr
           : reversed ? PyObject_CallMethod(empty.get(), "__reversed__", nullptr)
                      : PyObject_GetIter(empty.get()));
  if (!walk) throw Restart{};
  Value* content = iterator->items[0];
  int64_t taken = reversed ? static_cast<int64_t>(content->items.size()) - 1 - iterator->index : iterator->index;
  recipe->kind = RecipeKind::kCallObject;
  recipe->parts = {recipe_of(constant(reinterpret_cast<PyObject*>(Py_TYPE(walk.get())))), recipe_of(content),
                   recipe_of(int_constant(taken))};
  return true;
}

bool know_maxlen(Tracer& t, Value* content) {
  if (!content->is_real() || content->source < 0 || !content->numbers.empty()) return true;
  if (maxlen_offset() == 0) return false;
  content->stop = *reinterpret_cast<Py_ssize_t*>(reinterpret_cast<char*>(content->object) + maxlen_offset());
  content->numbers = {content->stop};
  ConstantId most = t.number_constant({ConstantKind::kInt, content->stop, 0, {}});
  Guard& check = t.guard(GuardKind::k_word_is, t.source(t.source_text(content) + ".maxlen"));
  check.a = content->id;
  check.imm = maxlen_offset();
  check.constant = most;
  return true;
}

Flow deque_slot(Tracer& t, const std::string& name, Value* self, Values& a, PyObject* names, Value** out) {
  size_t given = a.size();
  Value* content = self->content;
  if (name == "__init__") return init(t, self, a, names, out);
  if (names != nullptr && PyTuple_GET_SIZE(names) > 0) return no_model(t, name);
  if (given == 0) {
    if (name == "pop" || name == "popleft") return pop(t, self, name == "popleft", out);
    if (name == "copy" || name == "__copy__") return copy(t, self, out);
    if (name == "rotate") return rotate(t, self, a, out);
    if (known(t, self) == nullptr) return no_model(t, name);
    if (name == "__len__") {
      *out = t.int_constant(size_of(content));
      return Flow::kGo;
    }
    if (name == "__iter__") {
      *out = t.iterate(content);
      return Flow::kGo;
    }
    if (name == "__reversed__") {
      ++content->iterated;
      *out = t.make_iterator(IteratorKind::kReversed, {content});
      (*out)->index = size_of(content) - 1;
      return Flow::kGo;
    }
    if ((name == "clear" || name == "reverse") && may_change(t, content)) {
      Values items = all_items(t, content);
      for (Value* each : items)
        if (name == "clear" && ends_with_code(t, each)) return no_model(t, name);
      if (content->is_real()) t.run_method(deque_type(), name.c_str(), {content});
      std::reverse(items.begin(), items.end());
      replace(content, name == "clear" ? Values{} : std::move(items));
      *out = t.none();
      return Flow::kGo;
    }
    return no_model(t, name);
  }
  if (given == 1) {
    if (name == "append" || name == "appendleft") return append(t, self, a[0], name == "appendleft", out);
    if (name == "extend" || name == "extendleft") return extend(t, self, a[0], name == "extendleft", out);
    if (name == "rotate") return rotate(t, self, a, out);
    if (name == "__getitem__" || name == "__delitem__") return item(t, name.c_str(), self, a, out);
    if (name == "__iadd__") {
      Flow flow = extend(t, self, a[0], /*left=*/false, out);
      *out = self;
      return flow;
    }
    if (name == "__mul__" || name == "__imul__") return repeat_deque(t, self, t.force(a[0]), name == "__imul__", out);
    if (name == "__add__") {
      Value *other = t.force(a[0]), *ignored = nullptr;
      if (other->content == nullptr || !is_deque(other->content)) return no_model(t, name);
      if (Flow flow = copy(t, self, out); flow != Flow::kGo) return flow;
      return extend(t, *out, other, /*left=*/false, &ignored);
    }
    for (int operation = 0; operation < 6; ++operation)
      if (PyUnicode_CompareWithASCIIString(interned.compare[operation], name.c_str()) == 0)
        return compare_contents(t, deque_type(), operation, self, t.force(a[0]), out);
  }
  if (given == 2 && name == "__setitem__") return item(t, name.c_str(), self, a, out);
  if (given == 2 && name == "insert") return insert(t, self, a, out);
  bool finds = name == "count" || name == "remove" || name == "__contains__";
  if ((finds && given == 1) || (name == "index" && given <= 3)) return find(t, name, self, a, out);
  return no_model(t, name);
}

}  // namespace kintsugi
