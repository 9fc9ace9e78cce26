// Descriptors and functions of functools that are written in Python but lean on locks, weak references or attributes of
// C objects: cached_property, partialmethod, the dispatch of singledispatch; and the wrapper around the __repr__ of a
// dataclass. They are known by their code; what they do is followed by its meaning.
#include "jit/containers.h"
#include "jit/names.h"
#include "runtime/frame.h"

namespace kintsugi {

namespace {

struct Table {
  PyCodeObject *cached = nullptr, *partial = nullptr, *dispatch = nullptr;
  PyObject* partial_type = nullptr;
  int lock_count_offset = 0;
  PyTypeObject *lock_type = nullptr, *weak_dict = nullptr;

  Table() {
    Ref module = import_module("functools");
    auto code_of_get = [&](const char* name) -> PyCodeObject* {
      Ref type(module ? PyObject_GetAttrString(module.get(), name) : nullptr);
      PyObject* get = type && PyType_Check(type.get())
                          ? PyDict_GetItem(reinterpret_cast<PyTypeObject*>(type.get())->tp_dict, interned.get)
                          : nullptr;
      if (get == nullptr || !PyFunction_Check(get)) return nullptr;
      return reinterpret_cast<PyCodeObject*>(
          Py_NewRef(reinterpret_cast<PyObject*>(code_of(reinterpret_cast<PyFunctionObject*>(get)))));
    };
    cached = code_of_get("cached_property");
    partial = code_of_get("partialmethod");
    partial_type = module ? PyObject_GetAttrString(module.get(), "partial") : nullptr;
    Ref single(module ? PyObject_GetAttrString(module.get(), "singledispatch") : nullptr);
    if (single && PyFunction_Check(single.get())) {
      PyObject* constants = code_of(reinterpret_cast<PyFunctionObject*>(single.get()))->co_consts;
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i) {
        PyObject* each = PyTuple_GET_ITEM(constants, i);
        if (PyCode_Check(each) &&
            PyUnicode_CompareWithASCIIString(reinterpret_cast<PyCodeObject*>(each)->co_name, "dispatch") == 0)
          dispatch = reinterpret_cast<PyCodeObject*>(Py_NewRef(each));
      }
    }
    Ref weak = import_module("weakref");
    PyObject* dict = weak ? PyObject_GetAttrString(weak.get(), "WeakKeyDictionary") : nullptr;  // kept for good
    if (dict != nullptr && PyType_Check(dict)) weak_dict = reinterpret_cast<PyTypeObject*>(dict);
    find_lock_count();
    PyErr_Clear();
  }

  // Where a reentrant lock counts how often it is held.
  void find_lock_count() {
    Ref threads = import_module("_thread");
    Ref lock(threads ? PyObject_CallMethod(threads.get(), "RLock", nullptr) : nullptr);
    constexpr int kTimes = 93;
    for (int i = 0; lock && i < kTimes; ++i) Ref(PyObject_CallMethod(lock.get(), "acquire", nullptr));
    for (int at = sizeof(PyObject); lock && at < Py_TYPE(lock.get())->tp_basicsize; at += sizeof(long)) {
      if (*reinterpret_cast<unsigned long*>(reinterpret_cast<char*>(lock.get()) + at) != kTimes) continue;
      lock_count_offset = at;
      lock_type = Py_TYPE(lock.get());
      Py_INCREF(lock_type);
    }
    for (int i = 0; lock && i < kTimes; ++i) Ref(PyObject_CallMethod(lock.get(), "release", nullptr));
  }
};
const Table& table() {
  static const Table* table = new Table;
  return *table;
}

Value* field(Tracer& t, Value* object, const char* name) {
  PyObject* text = PyUnicode_InternFromString(name);  // few; kept for good
  if (text == nullptr || object->kind != ValueKind::kObject) return nullptr;
  Value* value = t.own_attribute(object, text);
  return value == nullptr ? nullptr : t.force(value);
}

// The value is computed, then kept in the instance under the same name. The lock must be free.
Flow cached_property(Tracer& t, Value* descriptor, Value* self, PyObject* name, Value** out) {
  auto refused = [&] { return t.stop(BreakReason::k_attribute, "a cached_property"); };
  Value *function = field(t, descriptor, "func"), *attribute = field(t, descriptor, "attrname"),
        *lock = field(t, descriptor, "lock");
  PyTypeObject* type = type_of(self);
  bool is_data = type_of(descriptor)->tp_descr_set != nullptr;  // asked though the value is there
  bool has_dict = type->tp_dictoffset != 0 || PyType_HasFeature(type, Py_TPFLAGS_MANAGED_DICT);
  bool named = attribute != nullptr && attribute->is_constant() && PyUnicode_CheckExact(attribute->object) &&
               PyUnicode_Compare(attribute->object, name) == 0;
  if (function == nullptr || function->kind != ValueKind::kFunction || !named || !has_dict || is_data ||
      t.has_fallback_ || self->kind != ValueKind::kObject || lock == nullptr || lock->kind != ValueKind::kObject ||
      !lock->is_real() || lock->source < 0 || lock->type != table().lock_type)
    return refused();
  if (*reinterpret_cast<unsigned long*>(reinterpret_cast<char*>(lock->object) + table().lock_count_offset) != 0)
    return refused();
  ConstantId zero = t.number_constant({ConstantKind::kInt, 0, 0, {}});
  Guard& check = t.guard(GuardKind::k_word_is, lock->source);
  check.a = lock->id;
  check.imm = table().lock_count_offset;
  check.constant = zero;
  if (Flow flow = t.call_now(function, {self}, out); flow != Flow::kGo) return flow;
  if (*out == nullptr) return refused();
  return t.generic_set(self, name, *out);
}

// A partial of the bound method, with a __self__ of its own: it is not let out of the trace.
Flow partial_method(Tracer& t, Value* descriptor, Value* self, Value** out) {
  Value *function = field(t, descriptor, "func"), *arguments = field(t, descriptor, "args"),
        *keywords = field(t, descriptor, "keywords");
  if (function == nullptr || function->kind != ValueKind::kFunction || arguments == nullptr || keywords == nullptr ||
      !t.is_exact_tuple(arguments) || keywords->kind != ValueKind::kDict || !t.dict_complete(keywords))
    return t.stop(BreakReason::k_attribute, "a partialmethod");
  Value* method = t.make(ValueKind::kMethod);
  method->items = {function, self};
  std::vector<Value*> items{t.constant(table().partial_type), method};
  for (int64_t i = 0; i < t.length(arguments); ++i) items.push_back(t.item_at(arguments, static_cast<size_t>(i)));
  *out = t.make_iterator(IteratorKind::kUnknown, std::move(items));
  (*out)->kind = ValueKind::kPartial;
  (*out)->stop = 1;
  for (size_t i = 0; i < keywords->entries.size(); ++i) {
    PyObject* key = keywords->entries[i].first;
    if (!PyUnicode_CheckExact(key)) return t.stop(BreakReason::k_attribute, "a partialmethod");
    (*out)->entries.emplace_back(key, t.dict_get(keywords, key));
  }
  return Flow::kGo;
}

// What a variable of the function's closure holds; null: not known.
Value* free_variable(Tracer& t, Value* function, const char* name) {
  t.complete_function(function);
  Value* closure = function->closure == nullptr ? nullptr : t.force(function->closure);
  if (closure == nullptr || closure->kind != ValueKind::kTuple) return nullptr;
  PyCodeObject* code = function->code;
  int first = code->co_nlocalsplus - static_cast<int>(t.length(closure));
  for (int i = first; i < code->co_nlocalsplus; ++i) {
    if (PyUnicode_CompareWithASCIIString(slot_name(code, i), name) != 0) continue;
    Value* cell = t.item_at(closure, static_cast<size_t>(i - first));
    Value* content = cell->kind == ValueKind::kCell ? t.cell_content(cell, slot_name(code, i)) : nullptr;
    return content == nullptr ? nullptr : t.force(content);
  }
  return nullptr;
}

// Of dataclasses, which may be imported later.
bool is_repr_wrapper(PyCodeObject* code) {
  static PyCodeObject* known = nullptr;
  if (known != nullptr || PyUnicode_CompareWithASCIIString(code->co_name, "wrapper") != 0) return code == known;
  Ref module = finished_module("dataclasses");
  Ref maker(module ? PyObject_GetAttrString(module.get(), "_recursive_repr") : nullptr);
  PyErr_Clear();
  if (!maker || !PyFunction_Check(maker.get())) return false;
  PyObject* constants = code_of(reinterpret_cast<PyFunctionObject*>(maker.get()))->co_consts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i)
    if (PyObject* each = PyTuple_GET_ITEM(constants, i); PyCode_Check(each))
      known = reinterpret_cast<PyCodeObject*>(Py_NewRef(each));
  return code == known;
}

// An object whose repr is under way shows as three dots. Here it is if a frame says so; no other may be.
Flow wrapped_repr(Tracer& t, Value* function, Value* self, Value** out) {
  Value *running = free_variable(t, function, "repr_running"), *inner = free_variable(t, function, "user_function");
  bool none =
      running != nullptr && running->kind == ValueKind::kSet && !running->mutated && set_length(t, running) == 0;
  if (!none || inner == nullptr || inner->kind != ValueKind::kFunction)
    return t.stop(BreakReason::k_call, "the repr of a dataclass");
  for (const TraceFrame& each : t.frames_)
    if (each.function == inner && !each.locals.empty() && t.force(each.locals[0]) == self) {
      *out = t.constant_owned(PyUnicode_FromString("..."));
      return Flow::kGo;
    }
  Flow flow = t.call_now(inner, {self}, out);
  if (flow == Flow::kRaise)  // its traceback would lack the wrapper
    t.break_from_the_start(BreakReason::k_call, "the repr of a dataclass");
  return flow;
}

// inspect.unwrap(), which remembers functions by their numbers.
Flow unwrap(Tracer& t, Value* function, Value* stop, Value** out) {
  constexpr int kMost = 64;  // in a chain; one that leads back to itself is among those beyond
  for (int i = 0; i < kMost; ++i) {
    bool wraps = false;
    if (!t.has_attribute(function, interned.wrapped, &wraps)) break;
    if (wraps && stop != nullptr && !(stop->is_constant() && stop->object == Py_None)) {
      Value* answer = nullptr;
      if (Flow flow = t.call_now(stop, {function}, &answer); flow != Flow::kGo) return flow;
      Tracer::Next truth = t.truth_now(answer);
      if (truth == Tracer::Next::kUnknown) break;
      wraps = truth == Tracer::Next::kEnd;
    }
    if (!wraps) return *out = function, Flow::kGo;
    if (Flow flow = t.attribute_now(function, interned.wrapped, &function); flow != Flow::kGo) return flow;
    if (function == nullptr) break;
  }
  return t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_call, "inspect.unwrap");
}

}  // namespace

bool is_code_of(PyCodeObject* code, const char* module, const char* name, PyCodeObject** known) {
  if (*known != nullptr || PyUnicode_CompareWithASCIIString(code->co_name, name) != 0) return code == *known;
  Ref loaded = finished_module(module), function(loaded ? PyObject_GetAttrString(loaded.get(), name) : nullptr);
  PyErr_Clear();
  if (!function || !PyFunction_Check(function.get())) return false;
  auto* found = code_of(reinterpret_cast<PyFunctionObject*>(function.get()));
  if (found == code) *known = reinterpret_cast<PyCodeObject*>(Py_NewRef(reinterpret_cast<PyObject*>(found)));
  return found == code;
}

// The __get__ of a descriptor written in Python; false: it is none of these.
bool bind_functools(Tracer& t, Value* get, Value* descriptor, Value* self, PyObject* name, Value** out, Flow* flow) {
  if (get->code == nullptr || self == nullptr || !get->is_real()) return false;
  if (get->code == table().cached)
    *flow = cached_property(t, descriptor, self, name, out);
  else if (get->code == table().partial)
    *flow = partial_method(t, descriptor, self, out);
  else
    return false;
  return true;
}

// dispatch(cls) of a singledispatch function that knows plain classes alone, the repr of a dataclass, unwrap();
// *handled stays false for another function.
Flow call_dispatch(Tracer& t, Value* function, const std::vector<Value*>& arguments, PyObject* names, Value** out,
                   bool* handled) {
  *handled = function->code != nullptr && names == nullptr && arguments.size() == 1 && is_repr_wrapper(function->code);
  if (*handled) return wrapped_repr(t, function, t.force(arguments[0]), out);
  *handled = call_copy(t, function, arguments, names, out);
  if (*handled) return Flow::kGo;
  static PyCodeObject* unwrap_code = nullptr;
  bool has_stop = names != nullptr && arguments.size() == 2 && PyTuple_GET_SIZE(names) == 1 &&
                  PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "stop") == 0;
  *handled = function->code != nullptr && (has_stop || (names == nullptr && arguments.size() == 1)) &&
             is_code_of(function->code, "inspect", "unwrap", &unwrap_code);
  if (*handled) return unwrap(t, t.force(arguments[0]), has_stop ? t.force(arguments[1]) : nullptr, out);
  *handled =
      function->code != nullptr && function->code == table().dispatch && names == nullptr && arguments.size() == 1;
  if (!*handled) return Flow::kGo;
  PyTypeObject* type = as_class(t.force(arguments[0]));
  auto refused = [&] { return t.stop(BreakReason::k_call, "singledispatch"); };
  bool by_identity = type != nullptr && t.metaclass(type) != nullptr &&  // its cache and the registry look it up
                     compares_by_identity(reinterpret_cast<PyObject*>(type));
  if (!by_identity || !t.ensure_version(type)) return refused();
  auto variable = [&](const char* name) { return free_variable(t, function, name); };
  Value *token = variable("cache_token"), *registry = variable("registry");
  Value* cache = variable("dispatch_cache");  // what it is filled with shows in no other way
  if (cache == nullptr || type_of(cache) != table().weak_dict) return refused();
  if (token == nullptr || !token->is_constant() || token->object != Py_None || registry == nullptr ||
      registry->kind != ValueKind::kDict || !registry->is_real() || registry->source < 0 || registry->mutated ||
      t.dict_length(registry) < 0)
    return refused();
  PyObject *key, *item;
  Py_ssize_t position = 0;
  std::vector<std::pair<PyObject*, Value*>> known;
  while (PyDict_Next(registry->object, &position, &key, &item)) {
    if (!PyType_Check(key) || Py_TYPE(key) != &PyType_Type) return refused();
    known.emplace_back(key, nullptr);
  }
  for (auto& [each, value] : known)
    if ((value = t.dict_get(registry, each)) == nullptr) return refused();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i)
    for (auto& [each, value] : known)
      if (each == PyTuple_GET_ITEM(type->tp_mro, i)) return *out = value, Flow::kGo;
  return refused();
}

}  // namespace kintsugi
