// Sets and frozensets in the trace. What a set holds is kept in a real set of its keys (the mirror) on which the
// program's own operations are performed: its order is Python's, and where the set must exist its table is copied.
// Elements that hash by identity lie elsewhere in every process: then the order is not known. A real set that is only
// asked for single keys is guarded for these; otherwise for its whole table.
#include <algorithm>

#include "jit/containers.h"
#include "runtime/frame.h"

#include <opcode.h>  // NB_AND and the like

namespace kintsugi {

namespace {

using Arguments = std::vector<Value*>;

bool is_atom_key(PyObject* key) {
  PyTypeObject* type = Py_TYPE(key);
  if (type == &PyTuple_Type) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
      if (!is_atom_key(PyTuple_GET_ITEM(key, i))) return false;
    return true;
  }
  return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBool_Type || type == &PyBytes_Type ||
         (type == &PyFloat_Type && !is_nan(key)) || key == Py_None;
}

// What an element is in the mirror. False: unhashable, or its hash is the program's own.
bool set_key(Tracer& t, Value* item, PyObject** key, bool* by_identity) {
  if (!t.key_of(t.force(item), key)) return false;
  *by_identity = !is_atom_key(*key);
  if (!*by_identity) return true;
  if (PyTuple_Check(*key) || Py_TYPE(*key)->tp_hash != PyBaseObject_Type.tp_hash) {
    if (Py_TYPE(*key) != &TensorType && !PyType_Check(*key))
      return false;  // hashed by Python code, as an Enum's members
  }
  return true;
}

// Takes the mirror over. A frozenset of atoms is a constant, but for its identity.
Value* set_of(Tracer& t, PyObject* stolen, bool unordered) {
  Ref mirror(stolen);
  if (!mirror) throw Restart{};
  t.keep(mirror.get());
  bool frozen = PyFrozenSet_CheckExact(mirror.get());
  if (frozen && !unordered && !has_hashed_elements(mirror.get())) {
    Value* made = t.constant(mirror.get());
    made->fresh = true;
    return made;
  }
  Value* set = t.make(ValueKind::kSet);
  set->type = frozen ? &PyFrozenSet_Type : &PySet_Type;
  set->mirror = mirror.get();
  set->unordered = unordered;
  return set;
}

// All elements known. Of a real set: its table, guarded; no user code may be needed to compare its keys.
bool known(Tracer& t, Value* set) {
  if (set->is_constant()) {
    set->mirror = set->object;
    PyObject* key;
    Py_hash_t hash;
    for (Py_ssize_t position = 0; _PySet_NextEntry(set->object, &position, &key, &hash);)
      if (!is_atom_key(key)) return false;
    return true;
  }
  if (set->mirror != nullptr) return true;
  if (set->mutated) return false;
  PyObject* key;
  Py_hash_t hash;
  for (Py_ssize_t position = 0; _PySet_NextEntry(set->object, &position, &key, &hash);)
    if (!is_atom_key(key)) return false;
  Ref mirror(clone_set(set->object, set->type == &PyFrozenSet_Type)), expected(clone_set(set->object, /*frozen=*/true));
  if (!mirror || !expected) throw Restart{};
  t.keep(mirror.get());
  t.keep(expected.get());
  ConstantId constant = t.constant_id(expected.get(), Hold::kStrong);
  Guard& check = t.guard(GuardKind::k_set_equal, set->source);
  check.a = set->id;
  check.constant = constant;
  set->mirror = mirror.get();
  set->complete = true;
  set->entries.clear();
  return true;
}

void tell_apart(Tracer& t, Value* set, PyObject* key) {
  PyObject* each;
  Py_hash_t hash;
  for (Py_ssize_t position = 0; _PySet_NextEntry(set->mirror, &position, &each, &hash);)
    if (each != key) t.keys_are_apart(each, key);
}

// Whether the set asks an element that compares in Python whether it is this one, or lies where its hash says and has
// some that do not.
bool meets_hashed(Value* set, PyObject* key, bool by_identity) {
  if (is_hashed_stand_in(key)) return set->unordered;
  Py_hash_t hash = by_identity ? -1 : PyObject_Hash(key), each_hash;
  PyObject* each;
  for (Py_ssize_t position = 0; _PySet_NextEntry(set->mirror, &position, &each, &each_hash);)
    if (is_hashed_stand_in(each) && (hash == -1 || hash == each_hash)) return true;
  return false;
}

// Of a real set and a real object that is equal to nothing else.
Flow has_object(Tracer& t, Value* set, PyObject* key, bool* found) {
  auto held = t.key_values_.find(key);
  bool known = held != t.key_values_.end() && held->second->source >= 0 && !set->mutated;
  PyObject* each;
  Py_hash_t ignored;
  for (Py_ssize_t position = 0; known && _PySet_NextEntry(set->object, &position, &each, &ignored);) {
    *found = *found || each == key;
    known = Py_TYPE(each)->tp_richcompare == PyBaseObject_Type.tp_richcompare || is_atom_key(each);
  }
  if (!known) return t.stop(BreakReason::k_container, "an object in a set that existed before");
  ConstantId constant = t.constant_id(key, Hold::kWeak);
  Guard& same = t.guard(GuardKind::k_same, held->second->source);
  same.a = held->second->id;
  same.constant = constant;
  Guard& check = t.guard(GuardKind::k_set_has, set->source);
  check.a = set->id;
  check.constant = constant;
  check.imm = *found;
  set->entries.emplace_back(key, *found ? held->second : nullptr);
  return Flow::kGo;
}

// Whether a set has the key; of a real one that was not looked at as a whole, by a guard for this key.
Flow has(Tracer& t, Value* set, PyObject* key, bool by_identity, bool* found) {
  if (set->is_constant() && !known(t, set)) return t.stop(BreakReason::k_container, "in a set");
  if (set->mirror != nullptr) {
    if (by_identity && !is_hashed_stand_in(key)) tell_apart(t, set, key);
    if (meets_hashed(set, key, by_identity))
      return t.stop(BreakReason::k_container, "an element that compares in Python");
    *found = PySet_Contains(set->mirror, key) == 1;
    return Flow::kGo;
  }
  for (auto& entry : set->entries) {
    if (PyObject_RichCompareBool(entry.first, key, Py_EQ) != 1) continue;
    *found = entry.second != nullptr;
    return Flow::kGo;
  }
  bool unknown = false;
  *found = false;
  if (by_identity) return has_object(t, set, key, found);
  keys_of_hash(set->object, PyObject_Hash(key), [&](PyObject* candidate) {
    if (!is_atom_key(candidate))
      unknown = true;
    else if (PyObject_RichCompareBool(candidate, key, Py_EQ) == 1)
      key = candidate, *found = true;
    return false;
  });
  if (unknown) return t.stop(BreakReason::k_container, "in a set");  // which may be asked first
  t.keep(key);
  ConstantId constant = t.constant_id(key, Hold::kStrong);
  Guard& check = t.guard(GuardKind::k_set_has, set->source);
  check.a = set->id;
  check.constant = constant;
  check.imm = *found;
  set->entries.emplace_back(key, *found ? t.constant(key) : nullptr);
  return Flow::kGo;
}

// Puts an overlay entry of a real set that was not looked at as a whole.
void note(Tracer& t, Value* set, PyObject* key, bool present) {
  t.keep(key);
  for (auto& entry : set->entries) {
    if (PyObject_RichCompareBool(entry.first, key, Py_EQ) != 1) continue;
    entry.second = present ? t.constant(key) : nullptr;
    return;
  }
  set->entries.emplace_back(key, present ? t.constant(key) : nullptr);
}

// Before a change: the mirror may be another value's too, and what an exit shows is the set before the instruction.
void own_mirror(Tracer& t, Value* set) {
  t.changing(set);
  if (set->mirror == nullptr) return;
  Ref mirror(clone_set(set->mirror, /*frozen=*/false));
  if (!mirror) throw Restart{};
  t.keep(mirror.get());
  set->mirror = mirror.get();
}

// A set is looked for as a frozenset.
Flow no_key_to_find(Tracer& t, Value* item, const char* context) {
  PyTypeObject* type = type_of(item);
  bool is_set = type == nullptr || PyType_IsSubtype(type, &PySet_Type);
  return is_set ? t.stop(BreakReason::k_container, context) : no_key(t, item, context);
}

Flow change(Tracer& t, Value* set, Value* item, bool add, bool must_have) {
  PyObject* key;
  bool by_identity, found = false;
  item = t.force(item);
  if (!set_key(t, item, &key, &by_identity)) {
    by_identity = false;
    if (set->mirror != nullptr)
      if (Flow flow = find_element(t, set, item, add, &key); flow != Flow::kGo) return flow;
    if (set->mirror == nullptr || key == nullptr)
      return add ? no_key(t, item, "an element of a set") : no_key_to_find(t, item, "an element of a set");
  }
  bool whole = set->mirror != nullptr;
  if (whole || must_have || set->iterated > 0)
    if (Flow flow = has(t, set, key, by_identity, &found); flow != Flow::kGo) return flow;
  if (must_have && !found) return raise_with_repr(t, PyExc_KeyError, item, "");
  if (whole && found == add) return Flow::kGo;
  if (set->iterated > 0) return t.stop(BreakReason::k_container, "a set that changes while it is iterated");
  if (!whole && by_identity) return t.stop(BreakReason::k_container, "an object in a set that existed before");
  own_mirror(t, set);
  if (set->is_real()) t.run_method(&PySet_Type, add ? "add" : "discard", {set, item});
  if (!whole) {
    note(t, set, key, add);
    return Flow::kGo;
  }
  int failed = add ? PySet_Add(set->mirror, key) : PySet_Discard(set->mirror, key);
  if (failed < 0) throw Restart{};
  set->unordered = set->unordered || by_identity;
  t.keep(key);
  return Flow::kGo;
}

// Elements that hash in Python are compared by it where one set meets another that has the same hash.
bool may_compare(PyObject* a, PyObject* b) {
  if (!PyAnySet_Check(a) || !PyAnySet_Check(b)) return PyAnySet_Check(a) && has_hashed_elements(a);
  if (!has_hashed_elements(a) && !has_hashed_elements(b)) return false;
  PyObject *each, *other;
  Py_hash_t hash, other_hash;
  for (Py_ssize_t i = 0; _PySet_NextEntry(a, &i, &each, &hash);)
    for (Py_ssize_t k = 0; _PySet_NextEntry(b, &k, &other, &other_hash);)
      if (each != other && hash == other_hash && (is_hashed_stand_in(each) || is_hashed_stand_in(other))) return true;
  return false;
}

// An operand as a real object of keys: a set, a dict or its view, or a list of what it gives. Null: cannot be followed.
PyObject* operand(Tracer& t, Value* value, bool* unordered, bool only_sets) {
  bool by_identity = false;
  PyObject* key;
  if (is_set(value)) {
    if (!known(t, value)) return nullptr;
    *unordered |= value->unordered;
    return Py_NewRef(value->mirror);
  }
  bool view = is_view(value) && value->iterator != IteratorKind::kDictValues;
  if (view || (!only_sets && value->kind == ValueKind::kDict)) {
    Value* dict = view ? value->items[0] : value;
    if (!t.dict_complete(dict) || t.has_hashed_keys(dict)) return nullptr;
    Ref keys(PyDict_New());
    for (size_t i = 0; keys && i < dict->entries.size(); ++i) {
      PyObject *each = dict->entries[i].first, *object = Py_None;
      Value* held = t.dict_get(dict, each);
      if (held == nullptr) continue;
      if (!set_key(t, t.key_value(each), &key, &by_identity)) return nullptr;
      if (view && value->iterator == IteratorKind::kDictItems && (!t.fold(held, &object) || !is_atom_key(object)))
        return nullptr;
      *unordered |= by_identity;
      if (PyDict_SetItem(keys.get(), key, object) < 0) throw Restart{};
    }
    if (!view) return keys.release();
    return PyObject_CallMethod(keys.get(), value->iterator == IteratorKind::kDictKeys ? "keys" : "items", nullptr);
  }
  if (only_sets) return nullptr;
  Arguments items;
  if (!t.drain(value, &items)) return nullptr;
  Ref list(PyList_New(0));
  for (Value* item : items) {
    if (!set_key(t, item, &key, &by_identity)) return nullptr;
    *unordered |= by_identity;
    t.keep(key);
    if (by_identity)
      for (Value* other : items) {
        PyObject* other_key;
        bool ignored;
        if (other != item && set_key(t, other, &other_key, &ignored) && other_key != key)
          t.keys_are_apart(key, other_key);
      }
    if (!list || PyList_Append(list.get(), key) < 0) throw Restart{};
  }
  return list.release();
}

Flow answer(Tracer& t, PyObject* stolen, bool unordered, Value** out) {
  if (stolen == nullptr) return t.stop(BreakReason::k_raises, "an operation of sets");
  if (PyAnySet_CheckExact(stolen)) {
    *out = set_of(t, stolen, unordered);
  } else {
    *out = t.constant_owned(stolen);
  }
  return Flow::kGo;
}

struct Changing {
  const char* name;
  bool changes;
};
constexpr Changing kMethods[] = {{"union", false},
                                 {"intersection", false},
                                 {"difference", false},
                                 {"symmetric_difference", false},
                                 {"isdisjoint", false},
                                 {"issubset", false},
                                 {"issuperset", false},
                                 {"copy", false},
                                 {"update", true},
                                 {"intersection_update", true},
                                 {"difference_update", true},
                                 {"symmetric_difference_update", true},
                                 {"clear", true}};

// A list or tuple of what hashes in Python: one element is added after the other.
bool hashes_all(Tracer& t, Value* sequence) {
  sequence = t.force(sequence);
  PyObject* key;
  bool by_identity;
  std::vector<Value*>* items;
  if ((sequence->kind != ValueKind::kList && !Tracer::is_exact_tuple(sequence)) || sequence->owner != nullptr)
    return false;
  if (!t.list_items(sequence, &items)) return false;
  for (size_t i = 0; i < items->size(); ++i)
    if (!set_key(t, t.item_at(sequence, i), &key, &by_identity)) return true;
  return false;
}

Flow by_mirror(Tracer& t, Value* self, const Changing& method, Arguments& a, Value** out) {
  bool unordered = self->unordered;
  // update of a real set adds one after the other: what else it holds does not matter.
  if (std::string(method.name) == "update" && self->kind == ValueKind::kSet && self->mirror == nullptr) {
    auto add = [&](Value* item) { return change(t, self, item, true, false); };
    for (Value* each : a)
      if (Flow flow = hand_on(t, each, Tracer::Asks::kNothing, "update of a set", add); flow != Flow::kGo) return flow;
    return Flow::kGo;
  }
  for (Value* each : a) {
    if (!method.changes || (!walk_runs_code(t, each) && !(a.size() == 1 && hashes_all(t, each)))) continue;
    if (std::string(method.name) != "update" || a.size() > 1)
      return t.stop(BreakReason::k_container, "a set changed by what may read it");
    return hand_on(t, each, Tracer::Asks::kNothing, "update of a set",
                   [&](Value* item) { return change(t, self, item, true, false); });
  }
  if (!known(t, self)) return t.stop(BreakReason::k_container, "a set that is not modelled");
  std::vector<Ref> operands;
  Ref arguments(PyTuple_New(static_cast<Py_ssize_t>(a.size())));
  for (size_t i = 0; arguments && i < a.size(); ++i) {
    PyObject* object = walks_over(a[i], self) ? nullptr : operand(t, a[i], &unordered, false);
    if (object == nullptr) return t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_container, method.name);
    if (may_compare(self->mirror, object) || may_compare(object, self->mirror) ||
        (a.size() > 1 && has_hashed_elements(self->mirror)))
      return Py_DECREF(object), t.stop(BreakReason::k_container, method.name);
    PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), object);
  }
  if (!arguments) throw Restart{};
  if (method.changes) {
    if (self->iterated > 0) return t.stop(BreakReason::k_container, "a set that changes while it is iterated");
    own_mirror(t, self);
  }
  Ref bound(PyObject_GetAttrString(self->mirror, method.name));
  Ref result(bound ? PyObject_Call(bound.get(), arguments.get(), nullptr) : nullptr);
  if (!result) return t.stop(BreakReason::k_raises, method.name);
  if (!method.changes) return answer(t, result.release(), unordered, out);
  self->unordered = unordered;
  if (!self->is_real()) return Flow::kGo;
  Arguments given{self};
  for (size_t i = 0; i < a.size(); ++i) {
    PyObject* object = PyTuple_GET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i));
    if (!PyList_CheckExact(object)) {
      given.push_back(a[i]);
      continue;
    }
    Arguments drained;  // once more would move an iterator on
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(object); ++k) drained.push_back(t.key_value(PyList_GET_ITEM(object, k)));
    given.push_back(t.tuple_of(std::move(drained)));
  }
  t.run_method(&PySet_Type, method.name, given);
  return Flow::kGo;
}

Flow pop(Tracer& t, Value* self, Value** out) {
  if (!known(t, self) || (self->unordered && PySet_GET_SIZE(self->mirror) > 1) || self->iterated > 0)
    return t.stop(BreakReason::k_container, "pop of a set");
  if (PySet_GET_SIZE(self->mirror) == 0) return raise_here(t, PyExc_KeyError, "pop from an empty set");
  own_mirror(t, self);
  Ref key(PySet_Pop(self->mirror));
  if (!key) throw Restart{};
  t.keep(key.get());
  *out = t.key_value(key.get());
  if (self->is_real()) t.run_method(&PySet_Type, "pop", {self});
  return Flow::kGo;
}

}  // namespace

bool is_set(Value* value) {
  return value->kind == ValueKind::kSet || (value->is_constant() && PyFrozenSet_CheckExact(value->object));
}

Flow make_set(Tracer& t, PyTypeObject* type, const std::vector<Value*>& items, Value** out) {
  bool unordered = false, frozen = type == &PyFrozenSet_Type;
  if (items.size() == 1 && frozen && items[0]->is_constant() && PyFrozenSet_CheckExact(items[0]->object)) {
    *out = items[0];  // frozenset() of an exact one is that one
    return Flow::kGo;
  }
  if (items.size() > 1 ||
      (items.size() == 1 && frozen && items[0]->kind == ValueKind::kSet && items[0]->type == &PyFrozenSet_Type))
    return t.stop(BreakReason::k_container, "frozenset");
  Value* given = items.empty() ? nullptr : t.force(items[0]);
  if (given != nullptr && !is_set_like(given) && given->kind != ValueKind::kDict && walk_runs_code(t, given)) {
    std::vector<Value*> all;
    if (!t.drain(given, &all)) return t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_container, "set");
    given = t.tuple_of(std::move(all));
  }
  if (given != nullptr && hashes_all(t, given)) {
    if (Flow flow = build_set(t, {}, out); flow != Flow::kGo) return flow;
    Value* made = *out;
    auto add = [&](Value* item) { return change(t, made, item, true, false); };
    if (Flow flow = hand_on(t, given, Tracer::Asks::kNothing, "set", add); flow != Flow::kGo) return flow;
    if (frozen) *out = set_of(t, clone_set(made->mirror, /*frozen=*/true), made->unordered);
    return Flow::kGo;
  }
  Ref from(items.empty() ? nullptr : operand(t, given, &unordered, false));
  if (!items.empty() && !from) return t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_container, "set");
  *out = set_of(t, frozen ? PyFrozenSet_New(from.get()) : PySet_New(from.get()), unordered);
  return Flow::kGo;
}

Flow build_set(Tracer& t, const std::vector<Value*>& items, Value** out) {
  *out = set_of(t, PySet_New(nullptr), false);
  for (Value* item : items)
    if (Flow flow = change(t, *out, item, true, false); flow != Flow::kGo) return flow;
  return Flow::kGo;
}

int64_t set_length(Tracer& t, Value* set) {
  if (set->mirror == nullptr && set->is_real() && !set->mutated) {  // how many, not which
    int64_t size = PySet_GET_SIZE(set->object);
    ConstantId constant = t.number_constant({ConstantKind::kInt, size, 0, {}});
    Guard& check = t.guard(GuardKind::k_word_is, set->source);
    check.a = set->id;
    check.imm = offsetof(PySetObject, used);
    check.constant = constant;
    return size;
  }
  return known(t, set) ? PySet_GET_SIZE(set->mirror) : -1;
}

bool set_elements(Tracer& t, Value* set, std::vector<Value*>* elements) {
  if (!known(t, set) || (set->unordered && PySet_GET_SIZE(set->mirror) > 1)) return false;
  PyObject* key;
  Py_hash_t hash;
  for (Py_ssize_t position = 0; _PySet_NextEntry(set->mirror, &position, &key, &hash);)
    elements->push_back(t.key_value(key));
  return true;
}

Flow set_contains(Tracer& t, Value* set, Value* item, bool* found) {
  PyObject* key;
  bool by_identity;
  item = t.force(item);
  if (!set_key(t, item, &key, &by_identity)) {
    bool whole = set->mirror != nullptr, is_object = !whole && !set->is_constant() && t.key_of(item, &key);
    by_identity = is_object && !is_atom_key(key);
    if (whole)
      if (Flow flow = find_element(t, set, item, /*adds=*/false, &key); flow != Flow::kGo) return flow;
    if (!whole && !by_identity && !set->is_constant()) {
      Flow flow = find_in_real_set(t, set, item, found);
      if (flow != Flow::kGo || *found) return flow;
    }
    if (whole ? key == nullptr : !by_identity) return no_key_to_find(t, item, "in a set");
  }
  return has(t, set, key, by_identity, found);
}

Flow set_method(Tracer& t, Value* self, const std::string& name, std::vector<Value*>& arguments, Value** out) {
  bool frozen = self->is_constant() || self->type == &PyFrozenSet_Type;
  *out = t.none();
  if (!frozen && arguments.size() == 1) {
    if (name == "add") return change(t, self, arguments[0], true, false);
    if (name == "discard") return change(t, self, arguments[0], false, false);
    if (name == "remove") return change(t, self, arguments[0], false, true);
  }
  if (!frozen && name == "pop" && arguments.empty()) return pop(t, self, out);
  if (name == "__contains__" && arguments.size() == 1) {
    bool found = false;
    Flow flow = set_contains(t, self, arguments[0], &found);
    *out = t.constant(found ? Py_True : Py_False);
    return flow;
  }
  if (frozen && name == "copy" && arguments.empty()) {
    *out = self;
    return Flow::kGo;
  }
  for (const Changing& method : kMethods)
    if (name == method.name && !(frozen && method.changes)) return by_mirror(t, self, method, arguments, out);
  return t.stop(BreakReason::k_container, "set." + name);
}

bool is_set_like(Value* value) {
  return is_set(value) || (is_view(value) && value->iterator != IteratorKind::kDictValues);
}

Flow set_compare(Tracer& t, int operation, Value* left, Value* right, Value** out) {
  bool unordered = false;
  Ref a(operand(t, left, &unordered, true)), b(a ? operand(t, right, &unordered, true) : nullptr);
  if (!a || !b || may_compare(a.get(), b.get()) || may_compare(b.get(), a.get()))
    return t.stop(BreakReason::k_container, "comparing sets");
  return answer(t, PyObject_RichCompare(a.get(), b.get(), operation), false, out);
}

Flow set_binary(Tracer& t, int operation, Value* left, Value* right, Value** out) {
  bool in_place = operation >= NB_INPLACE_ADD, unordered = false;
  int plain = in_place ? operation - NB_INPLACE_ADD : operation;
  Ref a(operand(t, left, &unordered, true)), b(a ? operand(t, right, &unordered, true) : nullptr);
  if (!a || !b || may_compare(a.get(), b.get()) || may_compare(b.get(), a.get()))
    return t.stop(BreakReason::k_container, "an operator of sets");
  using Operator = PyObject* (*)(PyObject*, PyObject*);
  auto choose = [&](Operator ordinary, Operator changing) { return in_place ? changing : ordinary; };
  Operator apply = plain == NB_OR    ? choose(PyNumber_Or, PyNumber_InPlaceOr)
                   : plain == NB_AND ? choose(PyNumber_And, PyNumber_InPlaceAnd)
                   : plain == NB_XOR ? choose(PyNumber_Xor, PyNumber_InPlaceXor)
                                     : choose(PyNumber_Subtract, PyNumber_InPlaceSubtract);
  bool changes = in_place && left->kind == ValueKind::kSet && left->type == &PySet_Type && is_set(right);
  if (!changes) return answer(t, apply(a.get(), b.get()), unordered, out);
  if (left->iterated > 0) return t.stop(BreakReason::k_container, "a set that changes while it is iterated");
  own_mirror(t, left);
  Ref result(apply(left->mirror, right == left ? left->mirror : b.get()));
  if (!result) return t.stop(BreakReason::k_raises, "an operator of sets");
  left->unordered = unordered;
  const char* name = plain == NB_OR    ? "__ior__"
                     : plain == NB_AND ? "__iand__"
                     : plain == NB_XOR ? "__ixor__"
                                       : "__isub__";
  if (left->is_real()) t.run_method(&PySet_Type, name, {left, right});
  *out = left;
  return Flow::kGo;
}

// The table as it lies; where its order is not known, the elements one after the other.
Recipe set_recipe(Tracer& t, Value* set) {
  bool frozen = set->type == &PyFrozenSet_Type;
  Recipe recipe{set->unordered ? RecipeKind::kSet : RecipeKind::kSetLike, kNoValue, kNoConstant, {}};
  PyObject* key;
  Py_hash_t hash;
  for (Py_ssize_t position = 0; _PySet_NextEntry(set->mirror, &position, &key, &hash);)
    if (set->unordered || is_hashed_stand_in(key)) recipe.parts.push_back(t.recipe_of(t.key_value(key)));
  if (!set->unordered) {
    Ref like(clone_set(set->mirror, /*frozen=*/true));
    if (!like) throw Restart{};
    t.keep(like.get());
    recipe.constant = t.constant_id(like.get(), Hold::kStrong);
    recipe.value = frozen;
    return recipe;
  }
  if (!frozen) return recipe;
  RecipeId plain = t.add_recipe(std::move(recipe));
  RecipeId type = t.recipe_of(t.constant(reinterpret_cast<PyObject*>(&PyFrozenSet_Type)));
  return {RecipeKind::kCallObject, kNoValue, kNoConstant, {type, plain}};
}

}  // namespace kintsugi
