// Keys of dicts that hash and compare in Python: objects of classes with their own __hash__, named tuples. Their
// methods are followed, in the order in which a dict calls them; what is found is the key that the dict has. Only in
// dicts that the trace has made, and that hold no two keys of one hash: these an exit builds without a call.
#include "jit/containers.h"
#include "runtime/frame.h"

namespace kintsugi {

bool Tracer::has_hashed_keys(const Value* dict) const {
  if (hashed_keys_.empty()) return false;
  for (auto& [key, value] : dict->entries)
    if (hashed_keys_.count(key) != 0) return true;
  return false;
}

// Whether the key's class says in Python how it hashes, and everything else as usual.
static bool hashes_in_python(Tracer& t, Value* key) {
  if (key->kind == ValueKind::kTuple) return key->type != nullptr && is_heap_type(key->type) && tuple_like(key->type);
  if (key->kind != ValueKind::kObject || key->content != nullptr || key->exception != nullptr) return false;
  PyTypeObject* type = t.python_class(key);
  if (type == nullptr || !is_plain_class(type)) return false;
  PyObject *hash = _PyType_Lookup(type, interned.hash), *equal = _PyType_Lookup(type, interned.compare[Py_EQ]);
  return hash != nullptr && Py_TYPE(hash) == &PyFunction_Type && equal != nullptr &&
         (Py_TYPE(equal) == &PyFunction_Type || inherits(type, interned.compare[Py_EQ], &PyBaseObject_Type));
}

// As slot_tp_hash: an int of any size.
static Flow hash_of(Tracer& t, Value* key, Py_hash_t* hash) {
  PyObject* object = nullptr;
  if (key->kind == ValueKind::kTuple) {
    Value* plain = t.tuple_of(key->items);
    if (!t.fold(plain, &object)) return t.stop(BreakReason::k_container, "a key of numbers that vary");
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
  if (value->kind != ValueKind::kObject || value->is_real() || !hashes_in_python(t, value)) return Flow::kGo;
  Py_hash_t hash;
  if (Flow flow = hash_of(t, value, &hash); flow != Flow::kGo) return flow;
  *out = t.int_constant(hash);
  return Flow::kGo;
}

// What stands for the key in this dict: the equal one that it has, or the key itself.
Flow Tracer::find_key(Value* dict, Value* key, PyObject** out, const char* context, bool inserts) {
  key = force(key);
  bool plain = key_of(key, out);
  if (plain && !has_hashed_keys(dict))
    return modelled_dict(*this, dict, *out) ? Flow::kGo : no_key(*this, key, context);
  if (!plain && !hashes_in_python(*this, key)) return no_key(*this, key, context);
  if (dict->is_real() || dict->owner != nullptr) return stop(BreakReason::k_container, "a key that hashes in Python");
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
    if (value == nullptr) continue;
    Value* held = key_value(each);
    auto known = hashed_keys_.find(each);
    if (held == key && (known == hashed_keys_.end() || known->second == hash)) return *out = each, Flow::kGo;
    if (known == hashed_keys_.end() && (plain || key_values_.count(each) != 0 || PyType_Check(each))) continue;
    if ((known != hashed_keys_.end() ? known->second : PyObject_Hash(each)) != hash) continue;
    bool same = false;
    if (Flow flow = same_item(held, key, &same); flow != Flow::kGo) return flow;
    if (dict->entries != entries) return stop(BreakReason::k_container, "a dict that changes while it compares");
    if (same) return *out = each, Flow::kGo;
    if (inserts) return stop(BreakReason::k_container, "two keys of one hash");
  }
  if (plain) return Flow::kGo;
  Ref object(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  if (!object) throw Restart{};
  keep(object.get());
  key_values_[object.get()] = key;
  hashed_keys_[object.get()] = hash;
  *out = object.get();
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
