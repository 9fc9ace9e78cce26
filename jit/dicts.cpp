// Dicts in the trace: keys, reading, changing, methods, views. Keys are atoms, which compare by value, or objects that
// hash and compare by identity, or those of hashed_keys.cpp; anything else may run user code and is a break.
#include <algorithm>

#include "jit/containers.h"
#include "runtime/frame.h"

namespace kintsugi {

constexpr Py_ssize_t kLongestDict = 2048;  // of real ones whose keys are all looked at

// ---- Keys -----------------------------------------------------------------------------------------------------------

static bool is_enum_hash(PyTypeObject* type) {
  static PyObject* hash = [] {
    Ref module = import_module("enum");
    Ref base(module ? PyObject_GetAttrString(module.get(), "Enum") : nullptr);
    PyObject* found =
        base ? PyDict_GetItemString(reinterpret_cast<PyTypeObject*>(base.get())->tp_dict, "__hash__") : nullptr;
    PyErr_Clear();
    return Py_XNewRef(found);
  }();
  return hash != nullptr && _PyType_Lookup(type, interned.hash) == hash;
}

// Equal only to itself, and a hash that fits: plain objects and members of an Enum.
static bool has_identity_keys(PyTypeObject* type) {
  return type->tp_richcompare == PyBaseObject_Type.tp_richcompare &&
         (type->tp_hash == PyBaseObject_Type.tp_hash || is_enum_hash(type));
}

bool Tracer::key_of(Value* key, PyObject** out) {
  if (key->is_number()) key = specialise(key);
  if (fold(key, out)) return !is_nan(*out);  // a NaN is found by identity
  if (key->is_constant()) {
    PyTypeObject* type = Py_TYPE(key->object);
    *out = key->object;
    if (PyTypeObject* self = as_class(key); self != nullptr && metaclass(self) == nullptr) return false;
    // A metaclass may define its own; functions and methods of C hash by what they are.
    return has_identity_keys(type) || key->object == Py_NotImplemented;
  }
  bool by_identity = key->kind == ValueKind::kTensor || key->kind == ValueKind::kFunction ||
                     (key->kind == ValueKind::kObject && ensure_version(key->type) && has_identity_keys(key->type));
  if (!by_identity) return false;
  // A real object is its own key; for one that was made here another object stands in.
  auto [place, fresh] = identity_keys_.try_emplace(key, nullptr);
  if (fresh) {
    bool real = key->is_real() && key->source >= 0 && key->object != nullptr;
    Ref object(real ? Py_NewRef(key->object) : PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
    if (!object) throw Restart{};
    keep(object.get());
    place->second = object.get();
    key_values_[object.get()] = key;
  }
  *out = place->second;
  return true;
}

Value* Tracer::key_value(PyObject* key) {
  auto found = key_values_.find(key);
  return found == key_values_.end() ? constant(key) : found->second;
}

static bool is_hashed_by_identity(PyObject* key) {
  return !PyUnicode_CheckExact(key) && !PyLong_CheckExact(key) && !PyFloat_CheckExact(key) && !PyTuple_Check(key) &&
         !PyBool_Check(key) && !PyBytes_CheckExact(key) && !PyComplex_CheckExact(key) && !PyRange_Check(key) &&
         !PyFrozenSet_CheckExact(key) && key != Py_None && key != Py_Ellipsis;
}

bool same_dict_key(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b)) return PyUnicode_Compare(a, b) == 0;
  if (is_hashed_by_identity(a) || is_hashed_by_identity(b)) return false;
  int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

// Two real objects that are two keys today: the guards say so.
void Tracer::keys_are_apart(PyObject* a, PyObject* b) {
  auto x = key_values_.find(a), y = key_values_.find(b);
  if (x == key_values_.end() || y == key_values_.end()) return;
  Value *left = x->second, *right = y->second;
  if (left == right || left->source < 0 || right->source < 0 || left->kind != right->kind) return;  // one of two hashes
  if (!apart_.insert(std::minmax(left, right)).second) return;
  Guard& check = guard(GuardKind::k_distinct, left->source);
  check.a = left->id;
  check.b = right->id;
}

// What says of itself that it has no hash; null: it may have one.
static const char* unhashable(Tracer& t, Value* key) {
  switch (key->kind) {
    case ValueKind::kList: return "list";
    case ValueKind::kDict: return "dict";
    case ValueKind::kSlice: return "slice";
    case ValueKind::kSet: return key->type == &PySet_Type ? "set" : nullptr;
    case ValueKind::kObject: {
      bool known = key->is_virtual() || !is_heap_type(key->type) || t.versions_.count(key->type) != 0;
      if (!known || !t.ensure_version(key->type) || key->type->tp_hash != PyObject_HashNotImplemented) return nullptr;
      t.guard_name(key->type);
      return key->type->tp_name;
    }
    case ValueKind::kTuple: {
      PyObject* atom;
      for (size_t i = 0; i < key->items.size() && key->type == nullptr; ++i) {
        Value* item = t.item_at(key, i);
        if (const char* name = unhashable(t, item)) return name;
        if (!item->is_number() && !t.fold(item, &atom)) return nullptr;
      }
      return nullptr;
    }
    default: return key->is_constant() && PySlice_Check(key->object) ? "slice" : nullptr;
  }
}

Flow no_key(Tracer& t, Value* key, const char* context) {
  const char* name = unhashable(t, key);
  if (name == nullptr) return t.stop(BreakReason::k_container, context);
  return raise_here(t, PyExc_TypeError, "unhashable type: '" + std::string(name).substr(0, 200) + "'");
}

static std::pair<PyObject*, Value*>* find_entry(Tracer& t, Value* dict, PyObject* key) {
  bool by_identity = t.key_values_.count(key) != 0;
  for (size_t i = dict->entries.size(); i-- > 0;) {  // the newest: a real dict keeps what was deleted, as null
    auto& entry = dict->entries[i];
    if (same_dict_key(entry.first, key)) return &entry;
    if (by_identity) t.keys_are_apart(entry.first, key);
  }
  return nullptr;
}

// Tuples and the like of atoms: they compare without code of the program.
static bool is_key_of_atoms(PyObject* key) {
  if (PyTuple_CheckExact(key)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
      if (!is_key_of_atoms(PyTuple_GET_ITEM(key, i))) return false;
    return true;
  }
  PyTypeObject* type = Py_TYPE(key);
  return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type ||
         type == &PyBytes_Type || type == &PyComplex_Type || key == Py_None || key == Py_Ellipsis ||
         has_identity_keys(type);
}

// Finds a key of a real dict without running user code. False: it has keys of classes that may compare in their own
// way.
static bool find_real(PyObject* dict, PyObject* key, PyObject** value) {
  ValuePlace place = find_in_dict(dict, key);
  *value = place.keys == nullptr ? nullptr : value_at(place, values_of(dict));
  if (has_only_str_keys(dict) && (*value != nullptr || PyUnicode_CheckExact(key))) return true;
  PyObject *each, *item;
  Py_ssize_t position = 0;
  bool found = *value != nullptr;
  while (PyDict_Next(dict, &position, &each, &item)) {
    PyTypeObject* type = Py_TYPE(each);
    bool plain = type == &PyUnicode_Type || type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type ||
                 each == Py_None || type == &PyBytes_Type || has_identity_keys(type);
    if (!plain && found && is_key_of_atoms(each)) continue;
    if (!plain) return false;  // asked first, where it has the same hash
    if (!found && !is_hashed_by_identity(each) && !is_hashed_by_identity(key) && same_dict_key(each, key))
      *value = item;
  }
  return true;
}

bool modelled_dict(Tracer& t, Value* dict, PyObject* key) {
  PyObject* ignored;
  if (dict->is_virtual() || dict->source < 0) return true;
  auto known = t.key_values_.find(key);
  if (known != t.key_values_.end() && known->second->source < 0 && known->second->is_real()) {
    for (auto& entry : dict->entries)
      if (entry.first == key) return true;
    return false;  // who made it, and whether it was there before, is not known
  }
  return find_real(dict->object, key, &ignored);
}

// The equal key that the dict itself has: native guards compare the object. A str made at run time is not interned, and
// 1.0 finds 1.
static PyObject* key_as_stored(PyObject* dict, PyObject* key) {
  if (PyUnicode_CheckExact(key)) {
    Py_ssize_t index = index_of_key(keys_of(dict), key);
    return index < 0 ? key : key_at(keys_of(dict), index);
  }
  PyObject *each, *item;
  Py_ssize_t position = 0;
  if (!is_hashed_by_identity(key))
    while (PyDict_Next(dict, &position, &each, &item))
      if (!is_hashed_by_identity(each) && same_dict_key(each, key)) return each;
  return key;
}

// ---- What a dict holds ----------------------------------------------------------------------------------------------

static std::string entry_text(Tracer& t, Value* dict, PyObject* key) {
  std::string name = PyUnicode_CheckExact(key) && PyUnicode_AsUTF8(key) != nullptr ? PyUnicode_AsUTF8(key) : "";
  if (name.empty() && is_hashed_by_identity(key)) name = Py_TYPE(key)->tp_name;  // without its own repr
  if (name.empty()) {
    Ref repr = quiet_repr(key);
    name = repr && PyUnicode_AsUTF8(repr.get()) ? PyUnicode_AsUTF8(repr.get()) : "?";
  }
  PyErr_Clear();
  const std::string& owner = t.source_text(dict);
  if (owner.find("__globals__") != std::string::npos) return "global " + name;
  if (owner == "builtins") return "builtin " + name;
  if (owner.rfind("module ", 0) == 0) return owner.substr(7) + "." + name;
  return owner + "['" + name + "']";
}

Value* Tracer::dict_get(Value* dict, PyObject* key) {
  if (auto* entry = find_entry(*this, dict, key)) {
    if (entry->second != nullptr || dict->is_virtual() || !dict->complete) {
      if (entry->second != nullptr) return entry->second = force(entry->second);
      if (!(dict->is_real() && dict->complete)) return nullptr;
    }
  } else if (dict->is_virtual() || dict->complete) {
    return nullptr;
  }
  PyObject* found = nullptr;
  keep(key);
  if (auto known = key_values_.find(key); known != key_values_.end() && known->second->source < 0) {
    dict->entries.emplace_back(key, nullptr);  // made here: it cannot be there
    return nullptr;
  }
  if (!find_real(dict->object, key, &found))
    break_from_the_start(BreakReason::k_container, "a dict with keys that are not modelled");
  std::string text = entry_text(*this, dict, key);
  if (auto known = key_values_.find(key); known != key_values_.end()) {  // which object it is decides
    ConstantId object = constant_id(key, Hold::kWeak);
    Guard& same = guard(GuardKind::k_same, known->second->source);
    same.a = known->second->id;
    same.constant = object;
  }
  ConstantId constant =
      constant_id(key_as_stored(dict->object, key), is_hashed_by_identity(key) ? Hold::kWeak : Hold::kStrong);
  Guard& guard = this->guard(found != nullptr ? GuardKind::k_dict_value : GuardKind::k_dict_lacks, source(text));
  guard.a = dict->id;
  guard.imm = dict->owner != nullptr ? kOfCheckedClass : 0;
  guard.constant = constant;
  Value* value = nullptr;
  if (found != nullptr) {
    ValueId id = guard.dst = new_value();
    value = wrap(found, id, text);
  }
  if (auto* entry = find_entry(*this, dict, key))
    entry->second = value;
  else
    dict->entries.emplace_back(key, value);
  return value;
}

void Tracer::dict_put(Value* dict, PyObject* key, Value* value) {
  changing(dict);
  keep(key);
  auto* entry = find_entry(*this, dict, key);
  if (entry != nullptr && (entry->second != nullptr || dict->complete))
    entry->second = value;
  else
    dict->entries.emplace_back(key, value);
}

static bool keys_in_order(Value* dict, std::vector<PyObject*>* keys) {
  PyObject *key, *item;
  Py_ssize_t position = 0;
  if (dict->owner == nullptr || !is_ordered_dict(dict)) {
    while (PyDict_Next(dict->object, &position, &key, &item)) keys->push_back(key);
    return true;
  }
  while (PyDict_Next(dict->object, &position, &key, &item))
    if (is_hashed_by_identity(key) || PyTuple_Check(key) || PyFrozenSet_Check(key))
      return false;  // the walk hashes each key
  Ref walk(PyODict_Type.tp_iter(dict->object));
  while (walk)
    if (Ref next{PyIter_Next(walk.get())}; next)
      keys->push_back(next.get());  // the dict holds it
    else
      break;
  bool good = walk && !PyErr_Occurred() && static_cast<Py_ssize_t>(keys->size()) == PyDict_GET_SIZE(dict->object);
  PyErr_Clear();
  return good;
}

// All keys known, in order. Of a real dict the values stay unread (null) until they are asked for.
bool Tracer::dict_complete(Value* dict) {
  if (dict->complete || dict->is_virtual()) return true;
  if (PyDict_GET_SIZE(dict->object) > kLongestDict) return false;
  Ref keys(PyTuple_New(PyDict_GET_SIZE(dict->object)));
  Py_ssize_t count = 0;
  std::vector<std::pair<PyObject*, Value*>> entries, fresh;
  std::vector<PyObject*> deleted;
  for (auto& entry : dict->entries) {
    if (entry.second != nullptr)
      fresh.push_back(entry);
    else
      deleted.push_back(entry.first);
  }
  std::vector<PyObject*> in_order;
  if (!keys_in_order(dict, &in_order)) return false;
  for (PyObject* key : in_order) {
    if (is_hashed_by_identity(key) || PyTuple_Check(key) || PyFrozenSet_Check(key)) return false;
    PyTuple_SET_ITEM(keys.get(), count++, Py_NewRef(key));
    if (std::any_of(deleted.begin(), deleted.end(), [&](PyObject* each) { return same_dict_key(each, key); })) continue;
    auto known = std::find_if(fresh.begin(), fresh.end(), [&](auto& entry) { return same_dict_key(entry.first, key); });
    entries.emplace_back(key, known != fresh.end() ? known->second : nullptr);
    if (known != fresh.end()) fresh.erase(known);
  }
  entries.insert(entries.end(), fresh.begin(), fresh.end());  // put there since
  keep(keys.get());
  ConstantId constant = constant_id(keys.get(), Hold::kStrong);
  Guard& check = guard(GuardKind::k_dict_keys, dict->source);
  check.a = dict->id;
  check.imm = dict->owner == nullptr ? 0 : is_ordered_dict(dict) ? kOfOrderedDict : kOfCheckedClass;
  check.constant = constant;
  dict->entries = std::move(entries);
  dict->complete = true;
  return true;
}

int64_t Tracer::dict_length(Value* dict) {
  if (!dict->complete && dict->is_real() && !dict->mutated) {  // how many, not which
    int64_t size = PyDict_GET_SIZE(dict->object);
    bool exact = dict->owner == nullptr;
    ConstantId number = exact ? kNoConstant : number_constant({ConstantKind::kInt, size, 0, {}});
    Guard& check = guard(exact ? GuardKind::k_dict_length : GuardKind::k_word_is, dict->source);
    check.a = dict->id;
    check.imm = exact ? size : kDictUsedOffset;
    check.constant = number;
    return size;
  }
  if (!dict_complete(dict)) return -1;
  int64_t count = 0;
  for (auto& [key, item] : dict->entries) count += item != nullptr || dict->is_real();
  return count;
}

// ---- Items ----------------------------------------------------------------------------------------------------------

Flow Tracer::dict_item(Value* dict, Value* key, Value** out) {
  PyObject* object;
  if (Flow flow = find_key(dict, key, &object, "dict key"); flow != Flow::kGo) return flow;
  *out = dict_get(dict, object);
  return *out != nullptr ? Flow::kGo : raise_with_repr(*this, PyExc_KeyError, key, "");
}

Flow Tracer::dict_contains(Value* container, Value* item, bool* found) {
  PyObject* key;
  if (container->kind == ValueKind::kDict || container->iterator == IteratorKind::kDictKeys) {
    Value* dict = container->kind == ValueKind::kDict ? container : container->items[0];
    if (Flow flow = find_key(dict, item, &key, "in"); flow != Flow::kGo) return flow;
    *found = dict_get(dict, key) != nullptr;
    return Flow::kGo;
  }
  Value* dict = container->items[0];
  if (container->iterator == IteratorKind::kDictItems) {
    std::vector<Value*>* pair;
    *found = false;
    if (item->kind != ValueKind::kTuple && !(item->is_constant() && PyTuple_CheckExact(item->object)))
      return item->is_constant() || item->is_number() ? Flow::kGo : stop(BreakReason::k_container, "in items()");
    if (!list_items(item, &pair) || pair->size() != 2) return Flow::kGo;
    Value *first = item_at(item, 0), *second = item_at(item, 1);
    if (Flow flow = find_key(dict, first, &key, "in items()"); flow != Flow::kGo) return flow;
    Value* held = dict_get(dict, key);
    return held == nullptr ? Flow::kGo : same_item(held, second, found);
  }
  if (!dict_complete(dict)) return stop(BreakReason::k_container, "in values()");
  *found = false;
  for (size_t i = 0; i < dict->entries.size(); ++i) {
    Value* held = dict_get(dict, dict->entries[i].first);
    if (held == nullptr) continue;
    if (Flow flow = same_item(held, item, found); flow != Flow::kGo || *found) return flow;
  }
  return Flow::kGo;
}

// `key` is what find_key has answered.
static Flow put_found(Tracer& t, Value* dict, PyObject* key, Value* value) {
  if (dict->iterated > 0 && t.dict_get(dict, key) == nullptr)
    return t.stop(BreakReason::k_container, "a new key while the dict is iterated");
  if (dict->is_real() && t.hashed_keys_.count(key) != 0)  // the step would hash it
    return t.stop(BreakReason::k_container, "a key that hashes in Python");
  t.changing(dict);
  if (dict->is_real() && is_ordered_dict(dict)) {
    t.run_method(&PyODict_Type, "__setitem__", {dict, t.key_value(key), value});
  } else if (dict->is_real()) {
    ValueId held = t.object_of(value), key_id = t.object_of(t.key_value(key));
    ExitId exit = t.exit_here(ExitKind::kRaise);
    Step& step = t.record(StepKind::k_dict_set);
    step.a = dict->id;
    step.b = key_id;
    step.c = held;
    step.on_fail = exit;
    t.mutate(dict);
  }
  t.dict_put(dict, key, value);
  return Flow::kGo;
}

Flow Tracer::dict_set_item(Value* dict, Value* key, Value* value) {
  PyObject* object;
  if (Flow flow = find_key(dict, key, &object, "dict key", /*inserts=*/true); flow != Flow::kGo) return flow;
  return put_found(*this, dict, object, value);
}

static Flow delete_found(Tracer& t, Value* dict, PyObject* key) {
  if (dict->iterated > 0) return t.stop(BreakReason::k_container, "a key less while the dict is iterated");
  if (dict->is_real() && t.hashed_keys_.count(key) != 0)
    return t.stop(BreakReason::k_container, "a key that hashes in Python");
  t.changing(dict);
  if (dict->is_real() && is_ordered_dict(dict)) {
    t.run_method(&PyODict_Type, "__delitem__", {dict, t.key_value(key)});
  } else if (dict->is_real()) {
    ValueId key_id = t.object_of(t.key_value(key));
    ExitId exit = t.exit_here(ExitKind::kRaise);
    Step& step = t.record(StepKind::k_dict_delete);
    step.a = dict->id;
    step.b = key_id;
    step.on_fail = exit;
    t.mutate(dict);
  }
  auto* entry = find_entry(t, dict, key);
  if (dict->complete) {
    dict->entries.erase(dict->entries.begin() + (entry - dict->entries.data()));
  } else {
    entry->second = nullptr;
  }
  return Flow::kGo;
}

Flow Tracer::dict_delete_item(Value* dict, Value* key) {
  PyObject* object;
  if (Flow flow = find_key(dict, key, &object, "dict key"); flow != Flow::kGo) return flow;
  if (dict_get(dict, object) == nullptr) return raise_with_repr(*this, PyExc_KeyError, key, "");
  return delete_found(*this, dict, object);
}

// ---- Methods --------------------------------------------------------------------------------------------------------

Value* copy_of_dict(Tracer& t, Value* dict) {
  if (!t.dict_complete(dict)) return nullptr;
  Value* copy = t.make(ValueKind::kDict);
  for (size_t i = 0; i < dict->entries.size(); ++i) {
    PyObject* key = dict->entries[i].first;
    if (Value* value = t.dict_get(dict, key)) t.dict_put(copy, key, value);
  }
  return copy;
}

Flow dict_update(Tracer& t, Value* dict, Value* other) {
  if (Value* merged = merged_dict(t, other)) {
    other = merged;
    if (other == dict) return Flow::kGo;
    if (!t.dict_complete(other) || t.has_hashed_keys(other))
      return t.stop(BreakReason::k_container, "update from a dict that is not modelled");
    for (size_t i = 0; i < other->entries.size(); ++i) {
      PyObject* key = other->entries[i].first;
      Value* value = t.dict_get(other, key);
      if (value == nullptr) continue;
      if (Flow flow = t.dict_set_item(dict, t.key_value(key), value); flow != Flow::kGo) return flow;
    }
    return Flow::kGo;
  }
  bool has_no_keys = other->kind == ValueKind::kList || other->kind == ValueKind::kTuple || is_view(other) ||
                     other->kind == ValueKind::kIterator || other->kind == ValueKind::kGenerator ||
                     other->is_constant();
  if (!has_no_keys || walks_over(other, dict)) return t.stop(BreakReason::k_container, "update");
  return hand_on(t, other, Tracer::Asks::kNothing, "update", [&](Value* pair) {
    std::vector<Value*> parts;
    if (!t.drain(pair, &parts)) return t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_container, "update");
    if (parts.size() != 2) return t.stop(BreakReason::k_raises, "update from what is no pair");
    return t.dict_set_item(dict, t.force(parts[0]), t.force(parts[1]));
  });
}

Flow dict_equal(Tracer& t, Value* left, Value* right, bool* equal) {
  *equal = left == right;
  if (*equal && left->entries.empty() && left->complete) return Flow::kGo;
  int64_t size = t.length(left), other_size = t.length(right);
  if (size < 0 || other_size < 0) return t.stop(BreakReason::k_container, "comparing dicts");
  if (size != other_size) {
    *equal = false;
    return Flow::kGo;
  }
  if (!t.dict_complete(left) || t.has_hashed_keys(left) || t.has_hashed_keys(right))
    return t.stop(BreakReason::k_container, "comparing dicts");
  for (size_t i = 0; i < left->entries.size(); ++i) {
    PyObject* key = left->entries[i].first;
    Value* held = t.dict_get(left, key);
    if (held == nullptr) continue;
    if (!modelled_dict(t, right, key)) return t.stop(BreakReason::k_container, "comparing dicts");
    Value* other = t.dict_get(right, key);
    *equal = other != nullptr;
    if (!*equal) return Flow::kGo;
    if (Flow flow = t.same_item(held, other, equal); flow != Flow::kGo || !*equal) return flow;
  }
  *equal = true;
  return Flow::kGo;
}

Value* reversed_dict(Tracer& t, Value* walked) {
  Value* dict = is_view(walked) ? walked->items[0] : walked;
  if (!t.dict_complete(dict)) return nullptr;
  ++dict->iterated;
  Value* iterator = t.make_iterator(is_view(walked) ? walked->iterator : IteratorKind::kDictKeys, {dict});
  iterator->step = -1;
  return iterator;
}

bool is_view(const Value* value) {
  return value->kind == ValueKind::kIterator && !value->complete &&
         (value->iterator == IteratorKind::kDictKeys || value->iterator == IteratorKind::kDictValues ||
          value->iterator == IteratorKind::kDictItems);
}

static Flow clear(Tracer& t, Value* self) {
  if (self->iterated > 0) return t.stop(BreakReason::k_container, "clear while the dict is iterated");
  if (!t.dict_complete(self)) return t.stop(BreakReason::k_container, "dict.clear");
  t.changing(self);
  if (self->is_real()) t.run_method(methods_of(self), "clear", {self});
  self->entries.clear();
  return Flow::kGo;
}

static Flow pop_item(Tracer& t, Value* self, Value** out) {
  if (!t.dict_complete(self)) return t.stop(BreakReason::k_container, "dict.popitem");
  while (!self->entries.empty() && self->is_virtual() && self->entries.back().second == nullptr)
    self->entries.pop_back();
  if (self->entries.empty()) return raise_here(t, PyExc_KeyError, "popitem(): dictionary is empty");
  PyObject* key = self->entries.back().first;
  Value* value = t.dict_get(self, key);
  *out = t.tuple_of({t.key_value(key), value});
  return delete_found(t, self, key);
}

Flow dict_method(Tracer& t, Value* self, const std::string& name, std::vector<Value*>& arguments, PyObject* names,
                 Value** out) {
  PyObject* key = nullptr;
  size_t named = names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names));
  *out = t.none();
  if (name == "update") {
    size_t positional = arguments.size() - named;
    if (positional > 1) return t.stop(BreakReason::k_raises, "arguments of update");
    if (positional == 1)
      if (Flow flow = dict_update(t, self, arguments[0]); flow != Flow::kGo) return flow;
    for (size_t k = 0; k < named; ++k) {
      Value* keyword = t.constant(PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(k)));
      if (Flow flow = t.dict_set_item(self, keyword, arguments[positional + k]); flow != Flow::kGo) return flow;
    }
    return Flow::kGo;
  }
  if (named != 0) return t.stop(BreakReason::k_raises, name + " with keywords");
  size_t given = arguments.size();
  if (given == 0) {
    if (name == "keys" || name == "values" || name == "items") {
      *out = t.make(ValueKind::kIterator);
      (*out)->iterator = name == "keys"     ? IteratorKind::kDictKeys
                         : name == "values" ? IteratorKind::kDictValues
                                            : IteratorKind::kDictItems;
      (*out)->items = {self};
      (*out)->complete = false;
      return Flow::kGo;
    }
    if (name == "copy") {
      *out = copy_of_dict(t, self);
      return *out != nullptr ? Flow::kGo : t.stop(BreakReason::k_container, "dict.copy");
    }
    if (name == "clear") return clear(t, self);
    if (name == "popitem") return pop_item(t, self, out);
    return t.stop(BreakReason::k_container, "dict." + name);
  }
  if (given > 2) return t.stop(BreakReason::k_container, "dict." + name);
  bool hashes = name == "get" || name == "setdefault" || (name == "pop" && t.length(self) > 0);
  PyObject* plain;
  if (!hashes && !t.key_of(arguments[0], &plain)) return t.stop(BreakReason::k_container, "dict." + name);
  if (Flow flow = t.find_key(self, arguments[0], &key, "dict key", name == "setdefault"); flow != Flow::kGo)
    return flow;
  Value* found = t.dict_get(self, key);
  Value* otherwise = given == 2 ? arguments[1] : t.none();
  if (name == "get") {
    *out = found != nullptr ? found : otherwise;
    return Flow::kGo;
  }
  if (name == "setdefault") {
    *out = found != nullptr ? found : otherwise;
    return found != nullptr ? Flow::kGo : put_found(t, self, key, otherwise);
  }
  if (name == "pop") {
    *out = found != nullptr ? found : otherwise;
    if (found != nullptr) return delete_found(t, self, key);
    return given == 2 ? Flow::kGo : raise_with_repr(t, PyExc_KeyError, arguments[0], "");
  }
  if (name == "__contains__" && given == 1) {
    *out = t.constant(found != nullptr ? Py_True : Py_False);
    return Flow::kGo;
  }
  return t.stop(BreakReason::k_container, "dict." + name);
}

}  // namespace kintsugi
