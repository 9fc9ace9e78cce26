// Classes that the standard library makes from atoms alone: collections.namedtuple(), class statements over
// typing.NamedTuple, @dataclass on a class of the trace, and its fields. While tracing the library makes its class of
// the model; a step has it make the real one. Its methods are followed as functions of the model; those that hold what
// only the model has are breaks where they are used.
#include <algorithm>

#include "jit/containers.h"
#include "runtime/frame.h"

namespace kintsugi {

namespace {

struct Makers {
  PyObject *named_tuple = nullptr, *process_class = nullptr, *missing = nullptr, *has_factory = nullptr;
  PyObject* field = nullptr;
  PyObject *typed_tuple = nullptr, *typed_meta = nullptr, *typed_base = nullptr;  // of typing

  Makers() {
    Ref collections = import_module("collections");
    if (collections) named_tuple = PyObject_GetAttrString(collections.get(), "namedtuple");
    PyErr_Clear();
    find();
  }
  // The module is imported by who uses it, perhaps later.
  void find() {
    Ref module = process_class == nullptr ? finished_module("dataclasses") : Ref();
    if (module) {
      process_class = PyObject_GetAttrString(module.get(), "_process_class");
      missing = PyObject_GetAttrString(module.get(), "MISSING");
      has_factory = PyObject_GetAttrString(module.get(), "_HAS_DEFAULT_FACTORY");
      field = PyObject_GetAttrString(module.get(), "Field");
    }
    PyErr_Clear();
  }
  void find_typing() {
    Ref module = typed_tuple == nullptr ? finished_module("typing") : Ref();
    if (module) {
      typed_tuple = PyObject_GetAttrString(module.get(), "NamedTuple");
      typed_meta = PyObject_GetAttrString(module.get(), "NamedTupleMeta");
      typed_base = PyObject_GetAttrString(module.get(), "_NamedTuple");
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
  Ref module = name != nullptr && PyUnicode_CheckExact(name) ? finished_module(name) : Ref();
  PyErr_Clear();
  return module && PyModule_GetDict(module.get()) == dict;
}

Value* function_of_model(Tracer& t, PyObject* object);

// What a cell of one of its functions holds: a function, or a set to come, of its own.
Value* shared_content(Tracer& t, PyObject* content) {
  Value* made = nullptr;
  if (PySet_CheckExact(content) && PySet_GET_SIZE(content) == 0)
    return build_set(t, {}, &made) == Flow::kGo ? made : nullptr;
  if (PyFunction_Check(content) && t.stand_ins_.count(content) == 0) return function_of_model(t, content);
  return shared(t, content);
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
      Value* value = content == nullptr ? nullptr : cells ? shared_content(t, content) : shared(t, content);
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
  PyObject *key, *item, *named = keyword_defaults_of(real);
  if (named != nullptr) function->keyword_defaults = t.make(ValueKind::kDict);
  for (Py_ssize_t at = 0; named != nullptr && PyDict_Next(named, &at, &key, &item);) {
    Value* value = shared(t, item);
    if (value == nullptr) return nullptr;
    t.dict_put(function->keyword_defaults, key, value);
  }
  return function;
}

// A tuple that the class made for itself, as `_fields`: it is told from others by `is`.
Value* tuple_of_class(Tracer& t, Value* type, PyObject* name, PyObject* tuple) {
  static PyObject* const get = PyDict_GetItemString(standard_builtins(), "getattr");
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

// Annotations as the library reads them; null: they are not all known.
static Ref known_annotations(Tracer& t, Value* annotations) {
  bool runs = false;
  if (PyObject* all = t.pure_argument(annotations, /*containers=*/true, &runs, 0); all != nullptr && !runs) {
    t.keep(all);
    return Ref::share(all);
  }
  Ref known(PyDict_New());
  for (auto& [name, value] : annotations->entries) {
    Value* note = value == nullptr ? nullptr : t.force(value);
    if (note == nullptr || !note->is_constant() || !known || PyDict_SetItem(known.get(), name, note->object) < 0)
      return PyErr_Clear(), Ref();
  }
  t.keep(known.get());
  return known;
}

// @dataclass on a model: no default may be a stand-in, which could show in what the library asks of it; annotations are
// put in their place.
static bool prepare_dataclass(Tracer& t, PyTypeObject* model) {
  PyObject *key, *item;
  for (Py_ssize_t at = 0; PyDict_Next(model->tp_dict, &at, &key, &item);) {
    auto found = t.stand_ins_.find(item);
    if (found == t.stand_ins_.end()) continue;
    bool is_field = reinterpret_cast<PyObject*>(Py_TYPE(item)) == makers().field;
    if (!is_field && is_plain_class(Py_TYPE(item))) return false;
    if (Py_TYPE(item) != &PyBaseObject_Type) continue;
    if (PyUnicode_CompareWithASCIIString(key, "__annotations__") != 0) return false;
    Ref known = known_annotations(t, found->second);
    if (!known || PyDict_SetItem(model->tp_dict, key, known.get()) < 0) return PyErr_Clear(), false;
    t.stand_ins_[known.get()] = found->second;
    PyType_Modified(model);
  }
  return true;
}

// namedtuple() reads __module__ of the frame that calls, which there may be none of then: it is named. Null: it is
// already, or not known.
static Ref with_module(Tracer& t, std::vector<Value*>& arguments, std::vector<PyObject*>& objects, PyObject* names) {
  Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  Ref module_name(PyUnicode_InternFromString("module"));
  for (Py_ssize_t i = 0; i < named; ++i)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "module") == 0) return Ref();
  Value* module = t.module_name();
  if (module == nullptr) return Ref();
  arguments.push_back(module);
  objects.push_back(module->object);
  Ref all_names(PyTuple_New(named + 1));
  for (Py_ssize_t i = 0; all_names && i < named; ++i)
    PyTuple_SET_ITEM(all_names.get(), i, Py_NewRef(PyTuple_GET_ITEM(names, i)));
  if (!all_names) throw Restart{};
  PyTuple_SET_ITEM(all_names.get(), named, module_name.release());
  t.keep(all_names.get());
  return all_names;
}

// What the library is called with while tracing. False: not known.
static bool known_arguments(Tracer& t, bool of_model, std::vector<Value*>& arguments, std::vector<PyObject*>* objects) {
  bool runs = false;
  for (Value*& argument : arguments) {
    argument = t.force(argument);
    PyTypeObject* type = as_class(argument);
    bool is_model = of_model && objects->empty() && type != nullptr && t.is_made_class(type);
    objects->push_back(is_model ? argument->object : t.pure_argument(argument, /*containers=*/true, &runs, 0));
    if (objects->back() == nullptr || runs) return false;
  }
  return true;
}

// A call of namedtuple() or of what @dataclass does. False: another function, or arguments that are not known.
bool make_library_class(Tracer& t, PyObject* function, std::vector<Value*>& arguments, PyObject* names, Flow* flow) {
  Makers& known = makers();
  bool is_tuple = function == known.named_tuple;
  if (!is_tuple && known.process_class == nullptr) known.find();
  if (function == nullptr || (!is_tuple && function != known.process_class) || t.call_now_depth_ > 0) return false;
  std::vector<PyObject*> objects;
  if (!known_arguments(t, !is_tuple, arguments, &objects)) return false;
  Ref all_names = Ref::share(names == nullptr ? Py_None : names);
  if (is_tuple) {
    all_names = with_module(t, arguments, objects, names);
    if (!all_names) return false;
  } else {
    PyTypeObject* model = objects.empty() ? nullptr : as_class(arguments[0]);
    if (model == nullptr || !t.is_made_class(model) || !prepare_dataclass(t, model)) return false;
  }
  PyObject* given = all_names.get() == Py_None ? nullptr : all_names.get();
  size_t named = given == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(given));
  t.expect_foreign_code();  // see make_enum_class
  Ref made(PyObject_Vectorcall(function, objects.data(), objects.size() - named, given));
  if (!made && is_of_a_handler(PyErr_Occurred())) return *flow = t.fail(Failure::kPending, "interrupted"), true;
  if (!made || !PyType_Check(made.get())) {
    *flow = t.stop(BreakReason::k_raises, "a class of the library");
    return true;
  }
  t.keep(made.get());
  ValueId id = t.run_call(function, arguments, given);
  auto* model = reinterpret_cast<PyTypeObject*>(made.get());
  Value* result = t.is_made_class(model) ? t.constant(made.get()) : t.made_class(made.get(), id);
  describe(t, result, model);
  t.frame().stack.push_back(result);
  *flow = Flow::kGo;
  return true;
}

// ---- typing.NamedTuple ----------------------------------------------------------------------------------------------

bool is_typed_tuple(Tracer& t, const std::vector<Value*>& bases) {
  Value* base = bases.size() == 1 ? t.force(bases[0]) : nullptr;
  if (base == nullptr || base->kind != ValueKind::kFunction || base->object == nullptr || base->source < 0)
    return false;
  makers().find_typing();
  return base->object == makers().typed_tuple && makers().typed_meta != nullptr && makers().typed_base != nullptr;
}

// The metaclass's call, after the body of the class. The class itself holds its functions.
Flow make_typed_tuple(Tracer& t, Value* name, Value* base, Value* names, Value** out) {
  auto refused = [&](const std::string& what) {
    PyErr_Clear();
    return t.stop(BreakReason::k_instruction, "a named tuple with " + what);
  };
  static PyObject* const bases_name = PyUnicode_InternFromString("__orig_bases__");
  Ref held(PyDict_New()), original(PyTuple_Pack(1, base->object)), bases(PyTuple_Pack(1, makers().typed_base));
  if (!held || !original || !bases) throw Restart{};
  if (!name->is_constant() || !PyUnicode_CheckExact(name->object)) return refused("such a name");
  for (auto& [key, value] : names->entries) {
    if (value == nullptr) continue;
    Value* each = t.force(value);
    if (PyUnicode_CompareWithASCIIString(key, "__annotations__") == 0) {
      if (each->kind != ValueKind::kDict || !each->is_virtual()) return refused("such annotations");
      Ref notes = known_annotations(t, each);
      for (auto& [field, note] : each->entries) {
        PyObject* object = notes ? PyDict_GetItemWithError(notes.get(), field) : nullptr;
        bool plain = object != nullptr && (Py_IS_TYPE(object, &PyType_Type) || object == Py_None);
        if (!plain) return refused("such annotations");
      }
      if (PyDict_SetItem(held.get(), key, notes.get()) < 0) throw Restart{};
      continue;
    }
    Ref stand_in = t.stand_in_for(key, each);
    if (!stand_in) return refused("such a " + text_of(key));
    if (PyDict_SetItem(held.get(), key, stand_in.get()) < 0) throw Restart{};
  }
  if (PyDict_SetItem(held.get(), bases_name, original.get()) < 0) throw Restart{};
  t.expect_foreign_code();  // see make_enum_class
  Ref model(PyObject_CallFunctionObjArgs(makers().typed_meta, name->object, bases.get(), held.get(), nullptr));
  if (!model && is_of_a_handler(PyErr_Occurred())) return t.fail(Failure::kPending, "interrupted");
  if (!model || !PyType_Check(model.get())) return refused("an error");
  t.keep(model.get());
  ConstantId function = t.constant_id(base->object, Hold::kWeak);
  Guard& same = t.guard(GuardKind::k_same, base->source);
  same.a = base->id;
  same.constant = function;
  t.dict_put(names, bases_name, t.tuple_of({base}));
  Value* real_base = t.wrap_bound(makers().typed_base, "typing._NamedTuple");
  ValueId id = t.run_call(makers().typed_meta, {name, t.tuple_of({real_base}), names});
  *out = t.made_class(model.get(), id);
  describe(t, *out, reinterpret_cast<PyTypeObject*>(model.get()));
  return Flow::kGo;
}

// ---- dataclasses.field() --------------------------------------------------------------------------------------------

// The same field for the model of a class; null: it is none, or one with what is not known. What the library does to
// the real one is not followed, so nobody else may have it.
Ref field_of_model(Tracer& t, PyObject* name, Value* field) {
  if (makers().process_class == nullptr) makers().find();
  auto* type = reinterpret_cast<PyTypeObject*>(makers().field);
  if (type == nullptr || field->kind != ValueKind::kObject || field->type != type || !field->is_virtual()) return Ref();
  for (const TraceFrame& each : t.frames_)
    for (const auto* slots : {&each.locals, &each.stack})
      if (std::find(slots->begin(), slots->end(), field) != slots->end()) return Ref();
  Ref nothing(PyTuple_New(0)), made(nothing ? PyBaseObject_Type.tp_new(type, nothing.get(), nullptr) : nullptr);
  for (auto& [key, value] : field->entries) {
    Value* part = value == nullptr ? nullptr : t.force(value);
    if (part == nullptr) continue;
    PyObject* object = nullptr;
    Ref held;
    bool is_factory = PyUnicode_CompareWithASCIIString(key, "default_factory") == 0;
    if (t.fold(part, &object) || (part->object != nullptr && part->kind == ValueKind::kObject && part->source >= 0) ||
        as_class(part) != nullptr)
      held = Ref::share(object != nullptr ? object : part->object);
    else if (is_factory && part->kind == ValueKind::kFunction)
      held = t.stand_in_for(name, part);
    if (!held || !made || PyObject_SetAttr(made.get(), key, held.get()) < 0) return PyErr_Clear(), Ref();
    if (!is_factory || part->kind != ValueKind::kFunction) t.stand_ins_.emplace(held.get(), part);
  }
  return made;
}

}  // namespace kintsugi
