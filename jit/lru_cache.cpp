// Calls of functools.lru_cache objects that existed before. Where the cache has the answer, guards say so, and the call
// itself is a step: it finds the same, counts the hit and moves the entry, and runs no code of the program. A call that
// would compute is a break.
#include "jit/containers.h"
#include "runtime/frame.h"

namespace kintsugi {

namespace {

// Modules/_functoolsmodule.c keeps what it knows in a dict, of a bounded cache behind a link. Where, is looked up in
// caches made for this.
struct Layouts {
  PyTypeObject *type = nullptr, *link_type = nullptr;
  int dict_offset = 0, result_offset = 0;

  Layouts() {
    Ref module(PyImport_ImportModule("functools"));
    Ref found(module ? PyObject_GetAttrString(module.get(), "_lru_cache_wrapper") : nullptr);
    Ref key(PyLong_FromLong(71923)), size(PyLong_FromLong(3));
    if (found && PyType_Check(found.get()) && key && size) {
      type = reinterpret_cast<PyTypeObject*>(found.get());
      int unbounded = find_dict(Py_None, key.get()), bounded = find_dict(size.get(), key.get());
      dict_offset = bounded == unbounded ? bounded : 0;
      Py_INCREF(type);
    }
    PyErr_Clear();
  }

  static int place_of(PyObject* holder, PyObject* held) {
    for (int at = sizeof(PyObject); at < Py_TYPE(holder)->tp_basicsize; at += sizeof(void*))
      if (*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(holder) + at) == held) return at;
    return 0;
  }

  int find_dict(PyObject* size, PyObject* key) {
    PyObject* hex = PyDict_GetItemString(PyEval_GetBuiltins(), "hex");
    Ref cache(hex ? PyObject_CallFunction(reinterpret_cast<PyObject*>(type), "OOOO", hex, size, Py_False,
                                          reinterpret_cast<PyObject*>(&PyTuple_Type))
                  : nullptr);
    Ref result(cache ? PyObject_CallOneArg(cache.get(), key) : nullptr);
    if (!result || type->tp_traverse == nullptr) return 0;
    struct Search {
      PyObject *key, *dict;
    } search{key, nullptr};
    auto visit = [](PyObject* each, void* argument) {
      auto* now = static_cast<Search*>(argument);
      bool is = each != nullptr && PyDict_CheckExact(each) && PyDict_GetItemWithError(each, now->key) != nullptr;
      if (is) now->dict = each;
      return 0;
    };
    type->tp_traverse(cache.get(), visit, &search);
    if (search.dict == nullptr) return 0;
    PyObject* held = PyDict_GetItemWithError(search.dict, key);
    if (held != result.get()) {
      link_type = Py_TYPE(held);
      result_offset = place_of(held, result.get());
      Py_INCREF(link_type);
    }
    return place_of(cache.get(), search.dict);
  }
};

const Layouts& layouts() {
  static const Layouts* layouts = new Layouts;
  return *layouts;
}

bool is_atom_throughout(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type != &PyTuple_Type)
    return type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || type == &PyUnicode_Type ||
           type == &PyBytes_Type || object == Py_None;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
    if (!is_atom_throughout(PyTuple_GET_ITEM(object, i))) return false;
  return true;
}

// The key as the cache has it; null: it has none that is found without running code.
PyObject* stored_key(PyObject* dict, PyObject* key) {
  PyObject* found = nullptr;
  entries_of_hash(dict, PyObject_Hash(key), [&](PyObject* each, PyObject*) {
    bool same =
        is_atom_throughout(each) && Py_TYPE(each) == Py_TYPE(key) && PyObject_RichCompareBool(each, key, Py_EQ) == 1;
    if (same) found = each;
    return same;
  });
  PyErr_Clear();
  return found;
}

}  // namespace

bool call_lru_cache(Tracer& t, Value* cache, std::vector<Value*>& arguments, PyObject* names, Flow* flow) {
  const Layouts& known = layouts();
  if (known.type == nullptr || known.dict_offset == 0 || cache->type != known.type || !cache->is_real() ||
      cache->source < 0)
    return false;
  auto refused = [&](const char* why) {
    *flow = t.stop(BreakReason::k_call, why);
    return true;
  };
  if (t.call_now_depth_ > 0) return refused("a cache that a builtin calls");
  if (names != nullptr) return refused("a cache, called with keywords");
  for (Value*& argument : arguments) {
    argument = t.force(argument);
    if (argument->is_number()) argument = t.specialise(argument);
  }
  PyObject* key = nullptr;
  if (!t.fold(t.tuple_of(arguments), &key) || !is_atom_throughout(key)) return refused("a cache of objects");
  if (arguments.size() == 1) {
    PyObject* only = PyTuple_GET_ITEM(key, 0);
    if (PyUnicode_CheckExact(only) || PyLong_CheckExact(only)) key = only;
  }
  PyObject* dict = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(cache->object) + known.dict_offset);
  if (dict == nullptr || !PyDict_CheckExact(dict)) return refused("a cache");
  key = stored_key(dict, key);
  if (key == nullptr) return refused("a cache that does not have the answer");
  std::string text = t.source_text(cache);
  Value* held = t.load_field(cache, known.dict_offset, dict, text + ".cache");
  if (held->kind != ValueKind::kDict || held->mutated) return refused("a cache");
  ConstantId stored = t.constant_id(key, Hold::kStrong);
  Guard& guard = t.guard(GuardKind::k_dict_value, t.source(text + "(...)"));
  guard.a = held->id;
  guard.constant = stored;
  ValueId id = guard.dst = t.new_value();
  PyObject* found = PyDict_GetItemWithError(dict, key);
  Value* result = t.wrap(found, id, text + "(...)");
  if (Py_TYPE(found) == known.link_type) {
    PyObject* answer = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(found) + known.result_offset);
    result = t.load_field(result, known.result_offset, answer, text + "(...)");
  }
  ConstantId called = t.constant_id(cache->object, Hold::kWeak);
  Guard& same = t.guard(GuardKind::k_same, cache->source);
  same.a = cache->id;
  same.constant = called;
  t.run_call(cache->object, arguments);
  t.frame().stack.push_back(result);
  *flow = Flow::kGo;
  return true;
}

}  // namespace kintsugi
