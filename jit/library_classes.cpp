// Classes that the standard library makes from atoms alone: collections.namedtuple(), @dataclass on a class of the
// trace. While tracing the library makes its class of the model; a step has it make the real one. Its methods are
// followed as functions of the model; those that hold what only the model has are breaks where they are used.
#include "jit/containers.h"
#include "runtime/frame.h"

namespace kintsugi {

namespace {

struct Makers {
  PyObject *named_tuple = nullptr, *process_class = nullptr, *missing = nullptr, *has_factory = nullptr;

  Makers() {
    Ref collections(PyImport_ImportModule("collections"));
    if (collections) named_tuple = PyObject_GetAttrString(collections.get(), "namedtuple");
    PyErr_Clear();
    find();
  }
  // The module is imported by who uses it, perhaps later.
  void find() {
    Ref name(process_class == nullptr ? PyUnicode_FromString("dataclasses") : nullptr);
    Ref module(name ? PyImport_GetModule(name.get()) : nullptr);
    if (module) {
      process_class = PyObject_GetAttrString(module.get(), "_process_class");
      missing = PyObject_GetAttrString(module.get(), "MISSING");
      has_factory = PyObject_GetAttrString(module.get(), "_HAS_DEFAULT_FACTORY");
    }
    PyErr_Clear();
  }
};

Makers& makers() {
  static Makers* makers = new Makers;
  return *makers;
}

// What the run-time class's parts refer to as well; null: it may be the model's own.
Value* shared(Tracer& t, PyObject* object) {
  if (auto found = t.stand_ins_.find(object); found != t.stand_ins_.end()) return found->second;
  Value* value = t.constant(object);
  PyObject* atom;
  if (t.fold(value, &atom)) return value;
  bool is_static = PyCFunction_Check(object) && is_atom(object);
  if (PyType_Check(object)) {
    auto* type = reinterpret_cast<PyTypeObject*>(object);
    return t.is_made_class(type) || !is_heap_type(type) ? value : t.wrap_bound(object, "a class");
  }
  if (object == makers().missing || object == makers().has_factory) return t.wrap_bound(object, "dataclasses");
  return is_static ? value : nullptr;
}

bool is_dict_of_module(PyObject* dict) {
  PyObject* name = PyDict_GetItemWithError(dict, interned.name);
  Ref module(name != nullptr && PyUnicode_CheckExact(name) ? PyImport_GetModule(name) : nullptr);
  PyErr_Clear();
  return module && PyModule_CheckExact(module.get()) && PyModule_GetDict(module.get()) == dict;
}

// A function of the model as one that the trace has made; null: not followed.
Value* function_of_model(Tracer& t, PyObject* object) {
  auto* real = reinterpret_cast<PyFunctionObject*>(object);
  Value* function = t.make(ValueKind::kFunction);
  function->code = code_of(real);
  function->made_in = reinterpret_cast<PyObject*>(t.frame().bytecode->code);  // it has no recipe
  function->made_at = t.frame().at;
  PyObject* globals = globals_of(real);
  if (is_dict_of_module(globals)) {
    function->globals = t.wrap_bound(globals, "__globals__");
  } else {
    function->globals = t.make(ValueKind::kDict);
    PyObject *key, *item;
    for (Py_ssize_t at = 0; PyDict_Next(globals, &at, &key, &item);) {
      bool empty = PyDict_CheckExact(item) && PyDict_GET_SIZE(item) == 0;
      Value* value = empty ? t.make(ValueKind::kDict) : shared(t, item);
      if (value == nullptr) return nullptr;
      t.dict_put(function->globals, key, value);
    }
  }
  auto all_shared = [&](PyObject* tuple, bool cells) -> Value* {
    std::vector<Value*> items;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
      PyObject* each = PyTuple_GET_ITEM(tuple, i);
      PyObject* content = cells ? PyCell_GET(each) : each;
      Value* value = content == nullptr ? nullptr : shared(t, content);
      if (value == nullptr) return nullptr;
      items.push_back(value);
      if (!cells) continue;
      items.back() = t.make(ValueKind::kCell);
      items.back()->items = {value};
    }
    return t.tuple_of(std::move(items));
  };
  if (PyObject* defaults = defaults_of(real)) {
    function->defaults = all_shared(defaults, /*cells=*/false);
    if (function->defaults == nullptr) return nullptr;
  }
  if (PyObject* closure = closure_of(real)) {
    function->closure = all_shared(closure, /*cells=*/true);
    if (function->closure == nullptr) return nullptr;
  }
  return keyword_defaults_of(real) == nullptr ? function : nullptr;
}

// A tuple that the class made for itself, as `_fields`: it is told from others by `is`.
Value* tuple_of_class(Tracer& t, Value* type, PyObject* name, PyObject* tuple) {
  static PyObject* const get = PyDict_GetItemString(PyEval_GetBuiltins(), "getattr");
  std::vector<Value*> items;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* atom;
    items.push_back(t.constant(PyTuple_GET_ITEM(tuple, i)));
    if (!t.fold(items.back(), &atom)) return nullptr;
  }
  Value* value = t.tuple_of(std::move(items));
  value->id = t.run_call(get, {type, t.constant(name)});
  return value;
}

// Everything in the model's dict that wrap_bound may be asked for.
void describe(Tracer& t, Value* made, PyTypeObject* model) {
  PyObject *key, *item;
  for (Py_ssize_t at = 0; PyDict_Next(model->tp_dict, &at, &key, &item);) {
    if (t.stand_ins_.count(item) != 0) continue;
    PyObject* part = item;
    Ref function;
    if (Py_TYPE(item) == &PyStaticMethod_Type || Py_TYPE(item) == &PyClassMethod_Type) {
      function = Ref(PyObject_GetAttr(item, interned.func));
      PyErr_Clear();
      if (!function) continue;
      part = function.get();
      t.keep(part);
      if (t.stand_ins_.count(part) != 0) continue;
    }
    bool is_own = PyTuple_CheckExact(part) && PyTuple_GET_SIZE(part) > 0;
    t.stand_ins_[part] = is_own                              ? tuple_of_class(t, made, key, part)
                         : Py_TYPE(part) == &PyFunction_Type ? function_of_model(t, part)
                                                             : shared(t, part);
    if (part != item && t.stand_ins_.count(item) == 0) t.stand_ins_[item] = nullptr;
  }
}

}  // namespace

// A call of namedtuple() or of what @dataclass does. False: another function, or arguments that are not known.
bool make_library_class(Tracer& t, PyObject* function, std::vector<Value*>& arguments, PyObject* names, Flow* flow) {
  Makers& known = makers();
  bool is_tuple = function == known.named_tuple;
  if (!is_tuple && known.process_class == nullptr) known.find();
  if (function == nullptr || (!is_tuple && function != known.process_class) || t.call_now_depth_ > 0) return false;
  std::vector<PyObject*> objects;
  bool runs = false;
  for (Value*& argument : arguments) {
    argument = t.force(argument);
    PyTypeObject* type = as_class(argument);
    bool is_model = !is_tuple && objects.empty() && type != nullptr && t.is_made_class(type);
    objects.push_back(is_model ? argument->object : t.pure_argument(argument, /*containers=*/true, &runs, 0));
    if (objects.back() == nullptr || runs) return false;
  }
  size_t named = names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names));
  Ref all_names = Ref::share(names == nullptr ? Py_None : names);
  if (is_tuple) {  // __module__ is that of the frame that calls, which there may be none of then
    Ref module_name(PyUnicode_InternFromString("module"));
    for (size_t i = 0; i < named; ++i)
      if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(i)), "module") == 0)
        return false;
    Value* module = t.module_name();
    if (module == nullptr) return false;
    arguments.push_back(module);
    objects.push_back(module->object);
    all_names = Ref(PyTuple_New(static_cast<Py_ssize_t>(named) + 1));
    for (size_t i = 0; i < named; ++i)
      PyTuple_SET_ITEM(all_names.get(), static_cast<Py_ssize_t>(i),
                       Py_NewRef(PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(i))));
    PyTuple_SET_ITEM(all_names.get(), static_cast<Py_ssize_t>(named), module_name.release());
    t.keep(all_names.get());
    ++named;
  } else {
    if (objects.empty() || as_class(arguments[0]) == nullptr || !t.is_made_class(as_class(arguments[0]))) return false;
    auto* model = as_class(arguments[0]);
    PyObject *key, *item;  // a default that is a stand-in could show in what the library asks of it
    for (Py_ssize_t at = 0; PyDict_Next(model->tp_dict, &at, &key, &item);)
      if (auto found = t.stand_ins_.find(item); found != t.stand_ins_.end() && Py_TYPE(item) == &PyBaseObject_Type) {
        bool is_annotations = PyUnicode_CompareWithASCIIString(key, "__annotations__") == 0;
        if (!is_annotations) return false;
        PyObject* annotations = t.pure_argument(found->second, /*containers=*/true, &runs, 0);
        Ref copy(annotations == nullptr ? PyDict_New() : Py_NewRef(annotations));
        if (annotations == nullptr) {
          for (auto& [name, value] : found->second->entries) {
            Value* note = value == nullptr ? nullptr : t.force(value);
            if (note == nullptr || !note->is_constant() || PyDict_SetItem(copy.get(), name, note->object) < 0)
              return PyErr_Clear(), false;
          }
        }
        if (runs || PyDict_SetItem(model->tp_dict, key, copy.get()) < 0) return PyErr_Clear(), false;
        t.keep(copy.get());
        t.stand_ins_[copy.get()] = found->second;
        PyType_Modified(model);
      }
  }
  Ref made(
      PyObject_Vectorcall(function, objects.data(), objects.size() - named, named == 0 ? nullptr : all_names.get()));
  if (!made || !PyType_Check(made.get())) {
    *flow = t.stop(BreakReason::k_raises, "a class of the library");
    return true;
  }
  t.keep(made.get());
  ValueId id = t.run_call(function, arguments, named == 0 ? nullptr : all_names.get());
  auto* model = reinterpret_cast<PyTypeObject*>(made.get());
  Value* result = t.is_made_class(model) ? t.constant(made.get()) : t.made_class(made.get(), id);
  describe(t, result, model);
  t.frame().stack.push_back(result);
  *flow = Flow::kGo;
  return true;
}

}  // namespace kintsugi
