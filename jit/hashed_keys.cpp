// Keys of dicts and elements of sets that hash and compare in Python: objects of classes with their own __hash__,
// members of an Enum, named tuples, tuples of such. Their methods are followed, in the order in which a dict or a set
// calls them; what is found is the key that it has. Only in dicts and sets that the trace has made, and that hold no
// two keys of one hash: these an exit builds without a call.
#include <cmath>

#include "jit/containers.h"
#include "runtime/frame.h"

namespace kintsugi {

// A dict finds it where it lies on the way of its new hash: the very object is equal before its hash is looked at.
constexpr const char* kMoved = "a key whose hash has changed";

bool Tracer::has_hashed_keys(const Value* dict) const {
  if (hashed_keys_.empty()) return false;
  for (auto& [key, value] : dict->entries)
    if (hashed_keys_.count(key) != 0) return true;
  return false;
}

// ---- Stand-ins: equal to nothing else, of a hash that is known ------------------------------------------------------

namespace {

struct StandIn {
  PyObject_HEAD Py_hash_t hash;
};

PyTypeObject* stand_in_type() {
  static PyTypeObject* const type = [] {
    static PyTypeObject made = {PyVarObject_HEAD_INIT(nullptr, 0)};
    made.tp_name = "kintsugi.key";
    made.tp_basicsize = sizeof(StandIn);
    made.tp_flags = Py_TPFLAGS_DEFAULT;
    made.tp_hash = [](PyObject* self) { return reinterpret_cast<StandIn*>(self)->hash; };
    made.tp_richcompare = PyBaseObject_Type.tp_richcompare;
    return PyType_Ready(&made) == 0 ? &made : nullptr;
  }();
  return type;
}

}  // namespace

bool is_hashed_stand_in(PyObject* key) { return Py_TYPE(key) == stand_in_type(); }

bool has_hashed_elements(PyObject* mirror) {
  PyObject* key;
  Py_hash_t hash;
  for (Py_ssize_t position = 0; _PySet_NextEntry(mirror, &position, &key, &hash);)
    if (is_hashed_stand_in(key)) return true;
  return false;
}

// One for each value and hash.
static PyObject* hashed_stand_in(Tracer& t, Value* key, Py_hash_t hash) {
  PyObject*& known = t.hashed_stand_ins_[key];
  if (known != nullptr && t.hashed_keys_[known] == hash) return known;
  if (stand_in_type() == nullptr) throw Restart{};
  Ref made(PyType_GenericAlloc(stand_in_type(), 0));
  if (!made) throw Restart{};
  reinterpret_cast<StandIn*>(made.get())->hash = hash;
  t.keep(made.get());
  t.key_values_[made.get()] = key;
  t.hashed_keys_[made.get()] = hash;
  return known = made.get();
}

// ---- Hashing --------------------------------------------------------------------------------------------------------

static bool hashes_in_python(Tracer& t, Value* key);

// A tuple that holds what hashes in Python beside atoms.
static bool is_tuple_of_hashed(Tracer& t, Value* tuple) {
  if (tuple->type != nullptr) return false;
  PyObject* atom;
  bool some = false;
  for (size_t i = 0; i < tuple->items.size(); ++i) {
    Value* item = t.item_at(tuple, i);
    if (item->is_number() || t.fold(item, &atom)) continue;
    if (!hashes_in_python(t, item)) return false;
    some = true;
  }
  return some;
}

// A member of an IntEnum and the like, which hashes and compares as the number or text that it is.
static bool is_worth_an_atom(Tracer& t, const Value* key) {
  if (!key->is_real() || key->source < 0 || t.python_class(key) == nullptr) return false;
  bool is_float = PyFloat_Check(key->object);
  if (is_float && std::isnan(PyFloat_AS_DOUBLE(key->object))) return false;  // its hash is the object's
  for (PyTypeObject* base : {&PyLong_Type, &PyFloat_Type, &PyUnicode_Type})
    if (PyType_IsSubtype(key->type, base))
      return inherits(key->type, interned.hash, base) && inherits(key->type, interned.compare[Py_EQ], base);
  return false;
}

// Whether the key's class says in Python how it hashes, and everything else as usual.
static bool hashes_in_python(Tracer& t, Value* key) {
  Nesting nesting(t);
  if (nesting.is_deep()) return false;
  if (key->kind == ValueKind::kTuple)
    return (key->type != nullptr && is_heap_type(key->type) && tuple_like(key->type)) || is_tuple_of_hashed(t, key);
  if (key->kind != ValueKind::kObject || key->content != nullptr || key->exception != nullptr) return false;
  if (is_worth_an_atom(t, key)) return true;
  PyTypeObject* type = t.python_class(key);
  if (type == nullptr || !is_plain_class(type)) return false;
  PyObject *hash = _PyType_Lookup(type, interned.hash), *equal = _PyType_Lookup(type, interned.compare[Py_EQ]);
  return hash != nullptr && Py_TYPE(hash) == &PyFunction_Type && equal != nullptr &&
         (Py_TYPE(equal) == &PyFunction_Type || inherits(type, interned.compare[Py_EQ], &PyBaseObject_Type));
}

// The hash of a NaN is that of the object.
static bool holds_nan(PyObject* atom) {
  if (PyComplex_CheckExact(atom))
    return std::isnan(PyComplex_RealAsDouble(atom)) || std::isnan(PyComplex_ImagAsDouble(atom));
  if (!PyTuple_Check(atom)) return is_nan(atom) || PyFrozenSet_Check(atom);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(atom); ++i)
    if (holds_nan(PyTuple_GET_ITEM(atom, i))) return true;
  return false;
}

// As slot_tp_hash: an int of any size.
static Flow hash_of(Tracer& t, Value* key, Py_hash_t* hash) {
  PyObject* object = nullptr;
  Ref parts;
  if (key->kind == ValueKind::kTuple) {  // its hash is made of theirs
    parts = Ref(PyTuple_New(static_cast<Py_ssize_t>(key->items.size())));
    for (size_t i = 0; parts && i < key->items.size(); ++i) {
      Value* item = t.item_at(key, i);
      PyObject* part = nullptr;
      if (item->is_number() || !t.fold(item, &part)) {
        if (item->is_number() || !hashes_in_python(t, item))
          return t.stop(BreakReason::k_container, "a key of numbers that vary");
        Py_hash_t inner;
        if (Flow flow = hash_of(t, item, &inner); flow != Flow::kGo) return flow;
        part = hashed_stand_in(t, item, inner);
      } else if (holds_nan(part)) {
        return t.stop(BreakReason::k_container, "a NaN in a key");
      }
      PyTuple_SET_ITEM(parts.get(), static_cast<Py_ssize_t>(i), Py_NewRef(part));
    }
    if (!parts) throw Restart{};
    object = parts.get();
  } else if (Value* atom = is_worth_an_atom(t, key) ? t.plain_atom(key, {}) : nullptr) {
    object = atom->object;
  } else {
    Value* result = nullptr;
    if (Flow flow = t.call_special(key, interned.hash, {}, &result); flow != Flow::kGo) return flow;
    if (result != nullptr && result->is_number()) result = t.specialise(result);
    if (result == nullptr || !result->is_constant() || !PyLong_Check(result->object))
      return t.stop(BreakReason::k_container, "a hash that is no int");
    object = result->object;
    int overflow = 0;
    *hash = static_cast<Py_hash_t>(PyLong_AsLongLongAndOverflow(object, &overflow));
    if (overflow == 0) {
      if (*hash == -1) *hash = -2;
      return Flow::kGo;
    }
  }
  *hash = PyObject_Hash(object);
  if (*hash != -1) return Flow::kGo;
  PyErr_Clear();
  return t.stop(BreakReason::k_container, "a hash");
}

Flow hash_in_python(Tracer& t, Value* value, Value** out) {
  *out = nullptr;
  value = t.force(value);
  if ((value->kind != ValueKind::kObject && value->kind != ValueKind::kTuple) || !hashes_in_python(t, value))
    return Flow::kGo;
  Py_hash_t hash;
  if (Flow flow = hash_of(t, value, &hash); flow != Flow::kGo) return flow;
  *out = t.int_constant(hash);
  return Flow::kGo;
}

// The one of these objects that existed before which is equal to the key, as a value; null: none, which no guard says.
static Flow equal_of_before(Tracer& t, Value* key, Py_hash_t hash, const std::vector<PyObject*>& candidates,
                            Value** out) {
  *out = nullptr;
  if (candidates.size() != 1) return t.stop(BreakReason::k_container, "a key that hashes in Python");
  Value* held = t.wrap_bound(candidates[0], "a key");
  bool same = held == key;
  if (!same)
    if (Flow flow = t.same_item(held, key, &same); flow != Flow::kGo) return flow;
  if (!same || !held->is_real()) return t.stop(BreakReason::k_container, "a key that hashes in Python");
  t.key_values_[candidates[0]] = *out = held;
  t.hashed_keys_[candidates[0]] = hash;
  return Flow::kGo;
}

// In a dict that existed before: a guard says that it still has the very key.
static Flow find_in_real(Tracer& t, Value* dict, Value* key, PyObject** out) {
  if (dict->source < 0 || dict->mutated || dict->owner != nullptr || dict->complete)
    return t.stop(BreakReason::k_container, "a key that hashes in Python");
  Py_hash_t hash, each_hash;
  if (Flow flow = hash_of(t, key, &hash); flow != Flow::kGo) return flow;
  std::vector<PyObject*> candidates;
  PyObject *each, *item;
  for (Py_ssize_t at = 0; _PyDict_Next(dict->object, &at, &each, &item, &each_hash);) {
    if (each_hash == hash) candidates.push_back(each);
    if (each_hash != hash && each == key->object) return t.stop(BreakReason::k_container, kMoved);
  }
  Value* held = nullptr;
  if (Flow flow = equal_of_before(t, key, hash, candidates, &held); flow != Flow::kGo) return flow;
  *out = candidates[0];
  for (auto& entry : dict->entries)
    if (entry.first == *out) return Flow::kGo;
  for (Py_ssize_t at = 0; _PyDict_Next(dict->object, &at, &each, &item, &each_hash);)
    if (each == *out) break;
  ConstantId constant = t.constant_id(*out, Hold::kWeak);
  std::string text = t.source_text(dict) + "[a key]";
  Guard& guard = t.guard(GuardKind::k_dict_value, t.source(text));
  guard.a = dict->id;
  guard.constant = constant;
  guard.imm = imm_of_hash(hash);
  ValueId id = guard.dst = t.new_value();
  dict->entries.emplace_back(*out, t.wrap(item, id, text));
  return Flow::kGo;
}

// In a set that existed before. *found stays false without a break where the element is no such.
Flow find_in_real_set(Tracer& t, Value* set, Value* element, bool* found) {
  *found = false;
  if (!hashes_in_python(t, element)) return Flow::kGo;
  if (set->source < 0 || set->mutated || !set->is_real()) return t.stop(BreakReason::k_container, "in a set");
  Py_hash_t hash, each_hash;
  if (Flow flow = hash_of(t, element, &hash); flow != Flow::kGo) return flow;
  std::vector<PyObject*> candidates;
  PyObject* each;
  for (Py_ssize_t at = 0; _PySet_NextEntry(set->object, &at, &each, &each_hash);)
    if (each_hash == hash) candidates.push_back(each);
  Value* held = nullptr;
  if (Flow flow = equal_of_before(t, element, hash, candidates, &held); flow != Flow::kGo) return flow;
  ConstantId constant = t.constant_id(candidates[0], Hold::kWeak);
  Guard& check = t.guard(GuardKind::k_set_has, set->source);
  check.a = set->id;
  check.constant = constant;
  check.imm = imm_of_hash(hash) | 1;
  *found = true;
  return Flow::kGo;
}

// What stands for the key in this dict: the equal one that it has, or the key itself.
Flow Tracer::find_key(Value* dict, Value* key, PyObject** out, const char* context, bool inserts) {
  key = force(key);
  bool plain = key_of(key, out);
  if (plain && !has_hashed_keys(dict))
    return modelled_dict(*this, dict, *out) ? Flow::kGo : no_key(*this, key, context);
  if (!plain && !hashes_in_python(*this, key)) return no_key(*this, key, context);
  if (dict->is_real() || dict->owner != nullptr) {
    if (plain) return modelled_dict(*this, dict, *out) ? Flow::kGo : no_key(*this, key, context);
    return inserts ? stop(BreakReason::k_container, "a key that hashes in Python")
                   : find_in_real(*this, dict, key, out);
  }
  bool by_address = plain && key_values_.count(*out) != 0;
  if (by_address) return Flow::kGo;
  Py_hash_t hash;
  if (plain) {
    hash = PyObject_Hash(*out);
    PyErr_Clear();
  } else if (Flow flow = hash_of(*this, key, &hash); flow != Flow::kGo) {
    return flow;
  }
  const auto entries = dict->entries;
  for (auto& [each, value] : entries) {
    if (value == nullptr || key_value(each) != key) continue;
    auto known = hashed_keys_.find(each);
    if (known == hashed_keys_.end() || known->second == hash) return *out = each, Flow::kGo;
    return stop(BreakReason::k_container, kMoved);
  }
  for (auto& [each, value] : entries) {
    if (value == nullptr) continue;
    Value* held = key_value(each);
    auto known = hashed_keys_.find(each);
    if (known == hashed_keys_.end() && (plain || key_values_.count(each) != 0 || PyType_Check(each))) continue;
    if ((known != hashed_keys_.end() ? known->second : PyObject_Hash(each)) != hash) continue;
    bool same = false;
    if (Flow flow = same_item(held, key, &same); flow != Flow::kGo) return flow;
    if (dict->entries != entries) return stop(BreakReason::k_container, "a dict that changes while it compares");
    if (same) return *out = each, Flow::kGo;
    if (inserts) return stop(BreakReason::k_container, "two keys of one hash");
  }
  if (!plain) *out = hashed_stand_in(*this, key, hash);
  return Flow::kGo;
}

// What stands for the element in this set: the equal one that it has, or itself. *out stays null for what is no such.
Flow find_element(Tracer& t, Value* set, Value* element, bool adds, PyObject** out) {
  *out = nullptr;
  if (!hashes_in_python(t, element)) return Flow::kGo;
  Py_hash_t hash, each_hash;
  if (Flow flow = hash_of(t, element, &hash); flow != Flow::kGo) return flow;
  Ref mirror = Ref::share(set->mirror);
  PyObject *each, *candidate = nullptr;
  for (Py_ssize_t position = 0; _PySet_NextEntry(mirror.get(), &position, &each, &each_hash);) {
    if (each_hash != hash) continue;
    if (candidate != nullptr) return t.stop(BreakReason::k_container, "two elements of one hash");
    candidate = each;
  }
  if (candidate != nullptr) {
    bool same = false;
    Value* held = t.key_value(candidate);
    if (held != element)
      if (Flow flow = t.same_item(held, element, &same); flow != Flow::kGo) return flow;
    if (set->mirror != mirror.get()) return t.stop(BreakReason::k_container, "a set that changes while it compares");
    if (held == element || same) return *out = candidate, Flow::kGo;
    if (adds) return t.stop(BreakReason::k_container, "two elements of one hash");
  }
  *out = hashed_stand_in(t, element, hash);
  return Flow::kGo;
}

// Key, value and hash, or none where hashing calls nothing.
void Tracer::hashed_dict_recipe(Value* dict, Recipe* recipe) {
  recipe->kind = RecipeKind::kDict;
  recipe->value = kWithHashes;
  for (auto& [key, value] : dict->entries) {
    if (value == nullptr) continue;
    auto known = hashed_keys_.find(key);
    for (Value* part : {key_value(key), value, known == hashed_keys_.end() ? none() : int_constant(known->second)})
      recipe->parts.push_back(recipe_of(part));
  }
}

}  // namespace kintsugi
