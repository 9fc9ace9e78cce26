// Lists, tuples, dicts and iterators in the trace. Virtual ones are only these models; changing a real one is also a
// step, so that effects keep their order, and the model says what later reads see.
#include <algorithm>

#include "jit/tracer_core.h"
#include "runtime/frame.h"

namespace kintsugi {

Value* Tracer::tuple_of(std::vector<Value*> items) {
  Value* value = make(ValueKind::kTuple);
  value->items = std::move(items);
  return value;
}
Value* Tracer::list_of(std::vector<Value*> items) {
  Value* value = make(ValueKind::kList);
  value->items = std::move(items);
  return value;
}

// ---- Sequences ------------------------------------------------------------------------------------------------------

bool Tracer::list_items(Value* value, std::vector<Value*>** items) {
  *items = &value->items;
  if (value->kind == ValueKind::kTuple) return true;
  if (value->kind == ValueKind::kList) {
    if (value->complete) return true;
    Py_ssize_t count = PyList_GET_SIZE(value->object);
    Guard& check = guard(GuardKind::k_list_length, value->source);
    check.a = value->id;
    check.imm = count;
    std::vector<Value*> appended = std::move(value->items);
    value->items.assign(count, nullptr);
    value->origins.clear();
    for (Py_ssize_t i = 0; i < count; ++i) value->origins.push_back(static_cast<int32_t>(i));
    for (Value* item : appended) {
      value->items.push_back(item);
      value->origins.push_back(-1);
    }
    value->complete = true;
    return true;
  }
  if (value->kind != ValueKind::kConstant || !PyTuple_Check(value->object)) return false;
  Py_ssize_t count = PyTuple_GET_SIZE(value->object);
  if (value->items.empty())
    for (Py_ssize_t i = 0; i < count; ++i) value->items.push_back(constant(PyTuple_GET_ITEM(value->object, i)));
  return true;
}

Value* Tracer::item_at(Value* sequence, size_t index) {
  Value*& item = sequence->items[index];
  if (item != nullptr) return item = force(item);
  bool is_list = sequence->kind == ValueKind::kList;
  int64_t origin = is_list ? sequence->origins[index] : static_cast<int64_t>(index);
  std::string text = source_text(sequence) + "[" + std::to_string(origin) + "]";
  Guard& load = guard(is_list ? GuardKind::k_list_item : GuardKind::k_tuple_item, source(text));
  load.a = sequence->id;
  load.imm = origin;
  ValueId id = load.dst = new_value();
  PyObject* object = is_list ? PyList_GET_ITEM(sequence->object, origin) : PyTuple_GET_ITEM(sequence->object, origin);
  Value* value = wrap(object, id, text);
  sequence->items[index] = value;
  return value;
}

int64_t Tracer::length(Value* value) {
  std::vector<Value*>* items;
  switch (value->kind) {
    case ValueKind::kTuple:
    case ValueKind::kList: return list_items(value, &items) ? static_cast<int64_t>(items->size()) : -1;
    case ValueKind::kDict: {
      if (!dict_complete(value)) return -1;
      int64_t count = 0;
      for (auto& [key, item] : value->entries) count += item != nullptr || value->is_real();
      return count;
    }
    case ValueKind::kConstant: {
      PyObject* object;
      if (!PyTuple_Check(value->object) && !fold(value, &object)) return -1;
      Py_ssize_t count = PyObject_Length(value->object);
      PyErr_Clear();
      return count;
    }
    default: return -1;
  }
}

static bool index_of(Value* key, int64_t size, int64_t* index) {
  if (!key->is_constant() || (!PyLong_CheckExact(key->object) && !PyBool_Check(key->object))) return false;
  int overflow;
  *index = PyLong_AsLongLongAndOverflow(key->object, &overflow);
  if (overflow != 0) return false;
  if (*index < 0) *index += size;
  return *index >= 0 && *index < size;
}

// ---- Dicts ----------------------------------------------------------------------------------------------------------

bool Tracer::key_of(Value* key, PyObject** out) {
  if (key->kind == ValueKind::kInt || key->kind == ValueKind::kFloat || key->kind == ValueKind::kBool) return false;
  if (fold(key, out)) return !is_nan(*out);  // a NaN is found by identity
  // Classes, functions and modules hash by identity.
  if (key->is_constant() && (PyType_Check(key->object) || PyModule_Check(key->object)) &&
      compares_by_identity(key->object)) {
    *out = key->object;
    return true;
  }
  return false;
}

static bool same_key(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b)) return PyUnicode_Compare(a, b) == 0;
  if (PyType_Check(a) || PyType_Check(b) || PyModule_Check(a) || PyModule_Check(b)) return false;
  int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

static std::pair<PyObject*, Value*>* find_entry(Value* dict, PyObject* key) {
  for (auto& entry : dict->entries)
    if (same_key(entry.first, key)) return &entry;
  return nullptr;
}

// Finds a key of a real dict without running user code. False: it has keys of classes that may compare in their own
// way.
static bool find_real(PyObject* dict, PyObject* key, PyObject** value) {
  ValuePlace place = find_in_dict(dict, key);
  if (place.keys != nullptr && (*value = value_at(place, values_of(dict))) != nullptr) return true;
  *value = nullptr;
  if (PyUnicode_CheckExact(key) && DK_IS_UNICODE(keys_of(dict))) return true;
  PyObject *each, *item;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict, &position, &each, &item)) {
    PyTypeObject* type = Py_TYPE(each);
    if (type != &PyUnicode_Type && type != &PyLong_Type && type != &PyFloat_Type && type != &PyBool_Type &&
        each != Py_None && type != &PyBytes_Type && !compares_by_identity(each))
      return false;
  }
  *value = PyDict_GetItemWithError(dict, key);
  PyErr_Clear();
  return true;
}

// The equal str that the dict itself has: native guards compare the object. A str made at run time is not interned.
static PyObject* key_as_stored(PyObject* dict, PyObject* key) {
  if (!PyUnicode_CheckExact(key)) return key;
  Py_ssize_t index = index_of_key(keys_of(dict), key);
  return index < 0 ? key : key_at(keys_of(dict), index);
}

Value* Tracer::dict_get(Value* dict, PyObject* key) {
  if (auto* entry = find_entry(dict, key)) {
    if (entry->second != nullptr || dict->is_virtual() || !dict->complete) {
      if (entry->second != nullptr) return entry->second = force(entry->second);
      if (!(dict->is_real() && dict->complete)) return nullptr;
    }
  } else if (dict->is_virtual() || dict->complete) {
    return nullptr;
  }
  PyObject* found = nullptr;
  if (!find_real(dict->object, key, &found)) throw Restart{};  // callers ask modelled_dict first
  keep(key);
  std::string name = PyUnicode_CheckExact(key) && PyUnicode_AsUTF8(key) != nullptr ? PyUnicode_AsUTF8(key) : "";
  if (name.empty()) {
    Ref repr(PyObject_Repr(key));
    name = repr && PyUnicode_AsUTF8(repr.get()) ? PyUnicode_AsUTF8(repr.get()) : "?";
  }
  PyErr_Clear();
  std::string text = source_text(dict) + "['" + name + "']";
  if (source_text(dict).find("__globals__") != std::string::npos) text = "global " + name;
  if (source_text(dict) == "builtins") text = "builtin " + name;
  if (source_text(dict).rfind("module ", 0) == 0) text = source_text(dict).substr(7) + "." + name;
  ConstantId constant = constant_id(key_as_stored(dict->object, key), Hold::kStrong);
  Guard& guard = this->guard(found != nullptr ? GuardKind::k_dict_value : GuardKind::k_dict_lacks, source(text));
  guard.a = dict->id;
  guard.constant = constant;
  Value* value = nullptr;
  if (found != nullptr) {
    ValueId id = guard.dst = new_value();
    value = wrap(found, id, text);
  }
  if (auto* entry = find_entry(dict, key))
    entry->second = value;
  else
    dict->entries.emplace_back(key, value);
  return value;
}

void Tracer::dict_put(Value* dict, PyObject* key, Value* value) {
  changing(dict);
  keep(key);
  if (auto* entry = find_entry(dict, key)) {
    entry->second = value;
    return;
  }
  dict->entries.emplace_back(key, value);
}

static bool modelled_dict(Value* dict, PyObject* key) {
  PyObject* ignored;
  return dict->is_virtual() || dict->source < 0 || find_real(dict->object, key, &ignored);
}

// All keys known, in order. Of a real dict the values stay unread (null) until they are asked for.
bool Tracer::dict_complete(Value* dict) {
  if (dict->complete || dict->is_virtual()) return true;
  if (dict->mutated || PyDict_GET_SIZE(dict->object) > 256) return false;
  Ref keys(PyTuple_New(PyDict_GET_SIZE(dict->object)));
  PyObject *key, *item;
  Py_ssize_t position = 0, count = 0;
  std::vector<std::pair<PyObject*, Value*>> entries;
  while (PyDict_Next(dict->object, &position, &key, &item)) {
    PyTypeObject* type = Py_TYPE(key);
    if (type != &PyUnicode_Type && type != &PyLong_Type && type != &PyBool_Type && type != &PyFloat_Type &&
        key != Py_None)
      return false;
    auto* known = find_entry(dict, key);
    entries.emplace_back(key, known != nullptr ? known->second : nullptr);
    PyTuple_SET_ITEM(keys.get(), count++, Py_NewRef(key));
  }
  keep(keys.get());
  ConstantId constant = constant_id(keys.get(), Hold::kStrong);
  Guard& check = guard(GuardKind::k_dict_keys, dict->source);
  check.a = dict->id;
  check.constant = constant;
  dict->entries = std::move(entries);
  dict->complete = true;
  return true;
}

// ---- Items ----------------------------------------------------------------------------------------------------------

Flow Tracer::get_item(Value* container, Value* key, Value** out) {
  PyObject *a, *b;
  switch (container->kind) {
    case ValueKind::kTensor: return tensor_get_item(container, key, out);
    case ValueKind::kDict: {
      if (!key_of(key, &b) || !modelled_dict(container, b)) return stop(BreakReason::k_container, "dict key");
      *out = dict_get(container, b);
      return *out != nullptr ? Flow::kGo : stop(BreakReason::k_raises, "KeyError");
    }
    case ValueKind::kTuple:
    case ValueKind::kList:
    case ValueKind::kConstant: {
      std::vector<Value*>* items;
      if (fold(container, &a) && fold(key, &b)) {
        Ref result(PyObject_GetItem(a, b));
        if (!result) return stop(BreakReason::k_raises, "index");
        *out = constant(result.get());
        return Flow::kGo;
      }
      bool is_slice = key->is_constant() && PySlice_Check(key->object);
      if (!list_items(container, &items)) {
        if (container->is_constant() && PyType_Check(container->object))
          return stop(BreakReason::k_call, "a generic alias");
        if (is_slice && fold(container, &a)) {
          *out = constant_owned(PyObject_GetItem(a, key->object));
          return *out != nullptr ? Flow::kGo : stop(BreakReason::k_raises, "slice");
        }
        return stop(BreakReason::k_container, "item of this object");
      }
      int64_t size = static_cast<int64_t>(items->size()), index;
      if (is_slice) {
        Py_ssize_t start, end, step;
        if (PySlice_Unpack(key->object, &start, &end, &step) < 0) return stop(BreakReason::k_raises, "slice");
        Py_ssize_t count = PySlice_AdjustIndices(size, &start, &end, step);
        std::vector<Value*> part;
        for (Py_ssize_t i = 0; i < count; ++i) part.push_back(item_at(container, start + i * step));
        *out = container->kind == ValueKind::kList ? list_of(std::move(part)) : tuple_of(std::move(part));
        if (container->kind == ValueKind::kTuple) (*out)->type = container->type;
        return Flow::kGo;
      }
      if (key->is_number()) key = specialise(key);
      if (!index_of(key, size, &index)) return stop(BreakReason::k_raises, "index");
      *out = item_at(container, static_cast<size_t>(index));
      return Flow::kGo;
    }
    case ValueKind::kObject: {
      Ref name(PyUnicode_InternFromString("__getitem__"));
      if (container->is_real() && versions_.count(container->type) == 0) break;
      Value* method = find_in_class(container->type, name.get());
      if (method != nullptr && method->kind == ValueKind::kFunction)
        return inline_call(method, {container, key}, nullptr, ReturnRule::kPush);
      break;
    }
    default: break;
  }
  return stop(BreakReason::k_container, "item of this object");
}

Flow Tracer::set_item(Value* container, Value* key, Value* value) {
  switch (container->kind) {
    case ValueKind::kTensor: return tensor_set_item(container, key, value);
    case ValueKind::kDict: {
      PyObject* object;
      if (!key_of(key, &object) || !modelled_dict(container, object)) return stop(BreakReason::k_container, "dict key");
      if (container->iterated > 0 && dict_get(container, object) == nullptr)
        return stop(BreakReason::k_container, "a new key while the dict is iterated");
      changing(container);
      if (container->is_real()) {
        ValueId held = object_of(value), key_id = object_of(constant(object));
        ExitId exit = exit_here(ExitKind::kRaise);
        Step& step = record(StepKind::k_dict_set);
        step.a = container->id;
        step.b = key_id;
        step.c = held;
        step.on_fail = exit;
        mutate(container);
      }
      dict_put(container, object, value);
      return Flow::kGo;
    }
    case ValueKind::kList: {
      std::vector<Value*>* items;
      int64_t index;
      if (!list_items(container, &items)) break;
      if (key->is_number()) key = specialise(key);
      if (!key->is_constant() || !PyLong_Check(key->object)) break;
      if (!index_of(key, static_cast<int64_t>(items->size()), &index)) return stop(BreakReason::k_raises, "index");
      changing(container);
      if (container->is_real()) {
        ValueId held = object_of(value);
        ExitId exit = exit_here(ExitKind::kRaise);
        Step& step = record(StepKind::k_list_set);
        step.a = container->id;
        step.b = held;
        step.imm = index;
        step.on_fail = exit;
        mutate(container);
        if (!container->origins.empty()) container->origins[index] = -1;
      }
      container->items[index] = value;
      return Flow::kGo;
    }
    case ValueKind::kObject: {
      Ref name(PyUnicode_InternFromString("__setitem__"));
      if (container->is_real() && versions_.count(container->type) == 0) break;
      Value* method = find_in_class(container->type, name.get());
      if (method != nullptr && method->kind == ValueKind::kFunction)
        return inline_call(method, {container, key, value}, nullptr, ReturnRule::kDiscard);
      break;
    }
    default: break;
  }
  return stop(BreakReason::k_container, "item assignment");
}

Flow Tracer::delete_item(Value* container, Value* key) {
  std::vector<Value*>* items;
  if (container->kind == ValueKind::kDict) {
    PyObject* object;
    if (!key_of(key, &object) || !modelled_dict(container, object)) return stop(BreakReason::k_container, "dict key");
    if (dict_get(container, object) == nullptr) return stop(BreakReason::k_raises, "KeyError");
    if (container->iterated > 0) return stop(BreakReason::k_container, "a key less while the dict is iterated");
    changing(container);
    if (container->is_real()) {
      ValueId key_id = object_of(constant(object));
      ExitId exit = exit_here(ExitKind::kRaise);
      Step& step = record(StepKind::k_dict_delete);
      step.a = container->id;
      step.b = key_id;
      step.on_fail = exit;
      mutate(container);
    }
    auto* entry = find_entry(container, object);
    if (container->complete)
      container->entries.erase(container->entries.begin() + (entry - container->entries.data()));
    else
      entry->second = nullptr;
    return Flow::kGo;
  }
  if (container->kind == ValueKind::kList && list_items(container, &items)) {
    int64_t index;
    if (key->is_number()) key = specialise(key);
    if (!key->is_constant() || !PyLong_Check(key->object)) return stop(BreakReason::k_container, "item deletion");
    if (!index_of(key, static_cast<int64_t>(items->size()), &index)) return stop(BreakReason::k_raises, "index");
    Ref pop(PyUnicode_InternFromString("pop"));
    std::vector<Value*> arguments{key};
    Value* ignored = nullptr;
    return container_method(container, pop.get(), arguments, nullptr, &ignored);
  }
  return stop(BreakReason::k_container, "item deletion");
}

Flow Tracer::contains(Value* container, Value* item, Value** out) {
  PyObject *a, *b;
  auto answer = [&](bool truth_of) {
    *out = constant(truth_of ? Py_True : Py_False);
    return Flow::kGo;
  };
  if (fold(container, &a) && fold(item, &b)) {
    int found = PySequence_Contains(a, b);
    if (found < 0) return stop(BreakReason::k_raises, "in");
    return answer(found != 0);
  }
  if (container->kind == ValueKind::kDict) {
    if (!key_of(item, &b) || !modelled_dict(container, b)) return stop(BreakReason::k_container, "in");
    return answer(dict_get(container, b) != nullptr);
  }
  std::vector<Value*>* items;
  if ((container->kind == ValueKind::kTuple || container->kind == ValueKind::kList) && list_items(container, &items)) {
    if (!rule_out_nan(item)) return stop_for_identity(BreakReason::k_container, "in, with NaN", {item});
    for (size_t i = 0; i < container->items.size(); ++i) {
      Value* each = item_at(container, i);
      if (each == item && !item->is_number()) return answer(true);
      if (each->kind == ValueKind::kTensor || item->kind == ValueKind::kTensor)
        return stop(BreakReason::k_container, "in, with tensors");
      Value* equal = nullptr;
      bool known, truth_of;
      if (Flow flow = compare(Py_EQ, each, item, &equal); flow != Flow::kGo) return flow;
      if (!truth(equal, &known, &truth_of)) return stop(BreakReason::k_container, "in");
      if (!known) equal = specialise(equal);
      if (truth_of) return answer(true);
    }
    return answer(false);
  }
  if (container->kind == ValueKind::kObject && (container->is_virtual() || versions_.count(container->type) != 0)) {
    Ref name(PyUnicode_InternFromString("__contains__"));
    Value* method = find_in_class(container->type, name.get());
    if (method != nullptr && method->kind == ValueKind::kFunction) {
      Value* result = nullptr;
      bool known, truth_of;
      if (Flow flow = call_now(method, {container, item}, &result); flow != Flow::kGo) return flow;
      if (truth(result, &known, &truth_of) && known) return answer(truth_of);
    }
  }
  return stop(BreakReason::k_container, "in");
}

// ---- Methods --------------------------------------------------------------------------------------------------------

static Flow list_method(Tracer& t, Value* self, const std::string& name, std::vector<Value*>& arguments, Value** out) {
  size_t given = arguments.size();
  bool real = self->is_real();
  auto effect = [&](StepKind kind, ValueId object, int64_t imm) {
    ExitId exit = t.exit_here(ExitKind::kRaise);
    Step& step = t.record(kind);
    step.a = self->id;
    step.b = object;
    step.imm = imm;
    step.on_fail = exit;
    t.mutate(self);
  };
  std::vector<Value*>* items;
  *out = t.none();
  if (name == "append" && given == 1) {
    t.changing(self);
    if (real) effect(StepKind::k_list_append, t.object_of(arguments[0]), 0);
    self->items.push_back(arguments[0]);
    if (real && self->source >= 0 && self->complete) self->origins.push_back(-1);
    return Flow::kGo;
  }
  if (name == "extend" && given == 1) {
    std::vector<Value*> more;
    if (t.force(arguments[0]) == self || !t.drain(arguments[0], &more))
      return t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_container, "extend");
    t.changing(self);
    for (Value* item : more) {
      if (real) effect(StepKind::k_list_append, t.object_of(item), 0);
      self->items.push_back(item);
      if (real && self->source >= 0 && self->complete) self->origins.push_back(-1);
    }
    return Flow::kGo;
  }
  if (!t.list_items(self, &items)) return t.stop(BreakReason::k_container, name);
  int64_t size = static_cast<int64_t>(items->size()), index = size - 1;
  if (name == "pop" && given <= 1) {
    if (given == 1 && !index_of(t.force(arguments[0]), size, &index)) return t.stop(BreakReason::k_raises, "pop");
    if (size == 0) return t.stop(BreakReason::k_raises, "pop from an empty list");
    t.changing(self);
    *out = t.item_at(self, index);
    if (real) {
      effect(StepKind::k_list_delete, kNoValue, index);
      if (self->source >= 0) self->origins.erase(self->origins.begin() + index);
    }
    self->items.erase(self->items.begin() + index);
    return Flow::kGo;
  }
  if (name == "insert" && given == 2) {
    Value* place = t.force(arguments[0]);
    if (!place->is_constant() || !PyLong_Check(place->object)) return t.stop(BreakReason::k_container, name);
    index = PyLong_AsLongLong(place->object);
    if (PyErr_Occurred()) return t.stop(BreakReason::k_container, name);
    if (index < 0) index = std::max<int64_t>(0, index + size);
    index = std::min(index, size);
    t.changing(self);
    if (real) {
      effect(StepKind::k_list_insert, t.object_of(arguments[1]), index);
      if (self->source >= 0) self->origins.insert(self->origins.begin() + index, -1);
    }
    self->items.insert(self->items.begin() + index, arguments[1]);
    return Flow::kGo;
  }
  if (name == "clear" && given == 0) {
    t.changing(self);
    if (real) effect(StepKind::k_list_clear, kNoValue, 0);
    self->items.clear();
    self->origins.clear();
    return Flow::kGo;
  }
  if (name == "copy" && given == 0) {
    std::vector<Value*> copy;
    for (int64_t i = 0; i < size; ++i) copy.push_back(t.item_at(self, i));
    *out = t.list_of(std::move(copy));
    return Flow::kGo;
  }
  if (name == "reverse" && given == 0 && !real) {
    t.changing(self);
    std::reverse(items->begin(), items->end());
    return Flow::kGo;
  }
  if (name == "index" && given == 1) {
    for (int64_t i = 0; i < size; ++i) {
      Value* one = t.tuple_of({t.item_at(self, i)});
      Value* found = nullptr;
      if (Flow flow = t.contains(one, t.force(arguments[0]), &found); flow != Flow::kGo) return flow;
      if (found->object != Py_True) continue;
      *out = t.int_constant(i);
      return Flow::kGo;
    }
    return t.stop(BreakReason::k_raises, "index");
  }
  return t.stop(BreakReason::k_container, name);
}

static Flow dict_method(Tracer& t, Value* self, const std::string& name, std::vector<Value*>& arguments, Value** out) {
  size_t given = arguments.size();
  PyObject* key = nullptr;
  auto view = [&](IteratorKind kind) {
    *out = t.make(ValueKind::kIterator);
    (*out)->iterator = kind;
    (*out)->items = {self};
    (*out)->complete = false;
    return Flow::kGo;
  };
  if (given == 0) {
    if (name == "keys") return view(IteratorKind::kDictKeys);
    if (name == "values") return view(IteratorKind::kDictValues);
    if (name == "items") return view(IteratorKind::kDictItems);
    if (name == "copy" && t.dict_complete(self)) {
      *out = t.make(ValueKind::kDict);
      for (size_t i = 0; i < self->entries.size(); ++i)
        t.dict_put(*out, self->entries[i].first, t.dict_get(self, self->entries[i].first));
      return Flow::kGo;
    }
  }
  bool keyed = given >= 1 && t.key_of(t.force(arguments[0]), &key) && modelled_dict(self, key);
  if (name == "get" && keyed && given <= 2) {
    Value* found = t.dict_get(self, key);
    *out = found != nullptr ? found : given == 2 ? arguments[1] : t.none();
    return Flow::kGo;
  }
  if (name == "setdefault" && keyed && given <= 2) {
    *out = t.dict_get(self, key);
    if (*out != nullptr) return Flow::kGo;
    *out = given == 2 ? arguments[1] : t.none();
    return t.set_item(self, t.force(arguments[0]), *out);
  }
  if (name == "pop" && keyed && given <= 2) {
    *out = t.dict_get(self, key);
    if (*out == nullptr) {
      if (given == 1) return t.stop(BreakReason::k_raises, "KeyError");
      *out = arguments[1];
      return Flow::kGo;
    }
    return t.delete_item(self, t.force(arguments[0]));
  }
  if (name == "update" && given == 1) {
    Value* other = t.force(arguments[0]);
    if (other->kind == ValueKind::kDict && other != self && t.dict_complete(other)) {
      for (size_t i = 0; i < other->entries.size(); ++i) {
        PyObject* each = other->entries[i].first;
        Value* value = t.dict_get(other, each);
        if (value == nullptr) continue;
        if (Flow flow = t.set_item(self, t.constant(each), value); flow != Flow::kGo) return flow;
      }
      *out = t.none();
      return Flow::kGo;
    }
  }
  return t.stop(BreakReason::k_container, "dict." + name);
}

Flow Tracer::container_method(Value* self, PyObject* name, std::vector<Value*>& arguments, PyObject* names,
                              Value** out) {
  std::string text = PyUnicode_AsUTF8(name);
  self = force(self);
  for (Value*& argument : arguments) argument = force(argument);
  if (names != nullptr) {
    if (self->kind != ValueKind::kDict || text != "update")
      return stop(BreakReason::k_container, text + " with keywords");
    size_t positional = arguments.size() - PyTuple_GET_SIZE(names);
    Value* more = make(ValueKind::kDict);
    for (size_t k = positional; k < arguments.size(); ++k)
      dict_put(more, PyTuple_GET_ITEM(names, k - positional), arguments[k]);
    arguments.resize(positional);
    if (positional > 0)
      if (Flow flow = dict_method(*this, self, text, arguments, out); flow != Flow::kGo) return flow;
    arguments = {more};
  }
  if (self->kind == ValueKind::kList) return list_method(*this, self, text, arguments, out);
  if (self->kind == ValueKind::kDict) return dict_method(*this, self, text, arguments, out);
  return stop(BreakReason::k_container, text);
}

}  // namespace kintsugi
