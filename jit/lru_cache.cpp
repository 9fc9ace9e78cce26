// Calls of functools.lru_cache objects that existed before. Where the cache has the answer, guards say so, and the call
// itself is a step: it finds the same, counts the hit and moves the entry, and runs no code of the program. A call that
// would compute is a break.
#include "jit/containers.h"
#include "runtime/frame.h"

namespace kintsugi {

namespace {

PyTypeObject* cache_type() {
  static PyTypeObject* const type = [] {
    Ref module = import_module("functools");
    PyObject* found = module ? PyObject_GetAttrString(module.get(), "_lru_cache_wrapper") : nullptr;  // kept for good
    PyErr_Clear();
    bool is = found != nullptr && PyType_Check(found) && is_cache_type(reinterpret_cast<PyTypeObject*>(found));
    return is ? reinterpret_cast<PyTypeObject*>(found) : nullptr;
  }();
  return type;
}

// Atoms, static types, and what marks keywords in a key.
bool is_key_part(PyObject* object, PyObject* mark) {
  PyTypeObject* type = Py_TYPE(object);
  if (object == mark || (type == &PyType_Type && !is_heap_type(reinterpret_cast<PyTypeObject*>(object)))) return true;
  if (type != &PyTuple_Type)
    return type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || type == &PyUnicode_Type ||
           type == &PyBytes_Type || object == Py_None;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
    if (!is_key_part(PyTuple_GET_ITEM(object, i), mark)) return false;
  return true;
}

// The key as the cache has it; null: it has none that is found without running code.
PyObject* stored_key(PyObject* dict, PyObject* key, PyObject* mark) {
  PyObject* found = nullptr;
  entries_of_hash(dict, PyObject_Hash(key), [&](PyObject* each, PyObject*) {
    bool same =
        is_key_part(each, mark) && Py_TYPE(each) == Py_TYPE(key) && PyObject_RichCompareBool(each, key, Py_EQ) == 1;
    if (same) found = each;
    return same;
  });
  PyErr_Clear();
  return found;
}

// As lru_cache_make_key. Null: an argument is no atom.
Ref key_of_call(Tracer& t, const LruCache* real, std::vector<Value*>& arguments, PyObject* names) {
  std::vector<PyObject*> given, parts;
  for (Value*& argument : arguments) {
    argument = t.force(argument);
    if (argument->is_number()) argument = t.specialise(argument);
    PyObject* atom = nullptr;
    if (!t.fold(argument, &atom) || !is_key_part(atom, nullptr)) return Ref();
    given.push_back(atom);
  }
  size_t named = names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names)), plain = given.size() - named;
  bool is_short = real->typed == 0 && given.size() == 1 && named == 0;
  if (is_short && (PyUnicode_CheckExact(given[0]) || PyLong_CheckExact(given[0]))) return Ref::share(given[0]);
  parts.assign(given.begin(), given.begin() + static_cast<long>(plain));
  if (named > 0) parts.push_back(real->kwd_mark);
  for (size_t i = 0; i < named; ++i) {
    parts.push_back(PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(i)));
    parts.push_back(given[plain + i]);
  }
  if (real->typed != 0)
    for (PyObject* each : given) parts.push_back(reinterpret_cast<PyObject*>(Py_TYPE(each)));
  Ref key(PyTuple_New(static_cast<Py_ssize_t>(parts.size())));
  for (size_t i = 0; key && i < parts.size(); ++i)
    PyTuple_SET_ITEM(key.get(), static_cast<Py_ssize_t>(i), Py_NewRef(parts[i]));
  if (!key) throw Restart{};
  return key;
}

}  // namespace

bool call_lru_cache(Tracer& t, Value* cache, std::vector<Value*>& arguments, PyObject* names, Flow* flow) {
  if (cache_type() == nullptr || cache->type != cache_type() || !cache->is_real() || cache->source < 0) return false;
  auto refused = [&](const char* why) {
    *flow = t.stop(BreakReason::k_call, why);
    return true;
  };
  if (t.call_now_depth_ > 0) return refused("a cache that a builtin calls");
  const auto* real = reinterpret_cast<LruCache*>(cache->object);
  Ref given = key_of_call(t, real, arguments, names);
  if (!given) return refused("a cache of objects");
  t.keep(given.get());
  PyObject* dict = real->cache;
  if (dict == nullptr || !PyDict_CheckExact(dict)) return refused("a cache");
  PyObject* key = stored_key(dict, given.get(), real->kwd_mark);
  if (key == nullptr) return refused("a cache that does not have the answer");
  std::string text = t.source_text(cache);
  Value* held = t.load_field(cache, offsetof(LruCache, cache), dict, text + ".cache");
  if (held->kind != ValueKind::kDict || held->mutated) return refused("a cache");
  ConstantId stored = t.constant_id(key, Hold::kStrong);
  Guard& guard = t.guard(GuardKind::k_dict_value, t.source(text + "(...)"));
  guard.a = held->id;
  guard.constant = stored;
  ValueId id = guard.dst = t.new_value();
  PyObject* found = PyDict_GetItemWithError(dict, key);
  Value* result = t.wrap(found, id, text + "(...)");
  if (Py_TYPE(found) == real->link_type)  // of a bounded cache
    result = t.load_field(result, offsetof(LruLink, result), reinterpret_cast<LruLink*>(found)->result, text + "(...)");
  ConstantId called = t.constant_id(cache->object, Hold::kWeak);
  Guard& same = t.guard(GuardKind::k_same, cache->source);
  same.a = cache->id;
  same.constant = called;
  t.run_call(cache->object, arguments, names);
  t.frame().stack.push_back(result);
  *flow = Flow::kGo;
  return true;
}

}  // namespace kintsugi
