// Calls of classes, and the questions what class an object is of.
#include <algorithm>

#include "jit/container_types.h"
#include "jit/containers.h"
#include "runtime/frame.h"

namespace kintsugi {

// What ends the instances of every class statement's class; classes made in C have their own, for what theirs hold.
static destructor end_of_python_classes() {
  static const destructor known = [] {
    Ref made(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(){}", "any"));
    PyErr_Clear();
    return made ? reinterpret_cast<PyTypeObject*>(made.get())->tp_dealloc : nullptr;
  }();
  return known;
}

// Instances may stay virtual when their class, all through, is made of Python and object alone.
bool is_plain_class(PyTypeObject* type) {
  if (!is_heap_type(type) || type->tp_finalize != nullptr || type->tp_del != nullptr ||
      type->tp_alloc != PyType_GenericAlloc || type->tp_itemsize != 0)
    return false;
  PyObject* mro = type->tp_mro;
  for (Py_ssize_t i = 0; i + 1 < PyTuple_GET_SIZE(mro); ++i)
    if (auto* each = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
        !is_heap_type(each) || each->tp_dealloc != end_of_python_classes())
      return false;
  return true;
}

// A class whose instances are tuples in all that the tracer knows of tuples: a namedtuple.
bool tuple_like(PyTypeObject* type) {
  if (!PyType_IsSubtype(type, &PyTuple_Type) || type->tp_finalize != nullptr || type->tp_del != nullptr) return false;
  for (PyObject* name : {interned.iter, interned.len, interned.getitem, interned.contains, interned.hash,
                         interned.binary[0], interned.binary[5], interned.reflected[5], interned.bool_})
    if (!inherits(type, name, &PyTuple_Type)) return false;
  for (PyObject* name : interned.compare)
    if (!inherits(type, name, &PyTuple_Type)) return false;
  return inherits(type, interned.getattribute, &PyTuple_Type);
}

// object.__new__. bare: no further arguments.
Flow Tracer::new_object(PyTypeObject* type, bool bare, Value** out) {
  if (!is_plain_class(type) || !ensure_version(type)) return stop(BreakReason::k_call, type->tp_name);
  bool refused = PyType_HasFeature(type, Py_TPFLAGS_IS_ABSTRACT) || type->tp_new == nullptr ||
                 (!bare && (type->tp_new != PyBaseObject_Type.tp_new || type->tp_init == PyBaseObject_Type.tp_init));
  if (refused) return stop(BreakReason::k_raises, type->tp_name);
  *out = make(ValueKind::kObject);
  (*out)->type = type;
  return Flow::kGo;
}

// As type.__call__: __new__, then __init__ of what it answers.
Flow Tracer::call_type(PyTypeObject* type, std::vector<Value*> arguments, PyObject* names) {
  if (type == &PyBaseObject_Type && arguments.empty()) {
    frame().stack.push_back(make(ValueKind::kObject));
    frame().stack.back()->type = type;
    return Flow::kGo;
  }
  if (PyType_IsSubtype(type, &PyType_Type) && type != &PyType_Type) {
    Value* made = nullptr;
    if (Flow flow = call_metaclass(type, arguments, names, nullptr, &made); flow != Flow::kGo) return flow;
    if (made != nullptr) frame().stack.push_back(made);
    return Flow::kGo;
  }
  if (!is_heap_type(type) || !ensure_version(type)) return stop(BreakReason::k_call, type->tp_name);
  PyObject* maker = _PyType_Lookup(type, interned.new_);
  Value *instance = nullptr, *self = constant(reinterpret_cast<PyObject*>(type));
  if (maker == nullptr) return stop(BreakReason::k_call, type->tp_name);
  if (maker == _PyType_Lookup(&PyBaseObject_Type, interned.new_)) {
    if (Flow flow = new_object(type, arguments.empty(), &instance); flow != Flow::kGo) return flow;
  } else {
    Value* function = nullptr;
    if (Flow flow = bind_descriptor(maker, type, nullptr, interned.new_, &function); flow != Flow::kGo) return flow;
    if (function == nullptr || (function->kind != ValueKind::kFunction && !function->is_constant()))
      return stop(BreakReason::k_call, type->tp_name);
    std::vector<Value*> all{self};
    all.insert(all.end(), arguments.begin(), arguments.end());
    if (Flow flow = call_now(function, std::move(all), &instance, names); flow != Flow::kGo) return flow;
  }
  PyTypeObject* made = instance == nullptr ? nullptr : type_of(instance);
  if (made == nullptr || !ensure_version(made)) return stop(BreakReason::k_call, type->tp_name);
  frame().stack.push_back(instance);
  if (!PyType_IsSubtype(made, type)) return Flow::kGo;
  PyObject* init = _PyType_Lookup(made, interned.init);
  if (init == _PyType_Lookup(&PyBaseObject_Type, interned.init)) {
    bool refused = !arguments.empty() && made->tp_new == PyBaseObject_Type.tp_new;
    return refused ? stop(BreakReason::k_raises, type->tp_name) : Flow::kGo;
  }
  if (init != nullptr && instance->content != nullptr && Py_TYPE(init) == &PyWrapperDescr_Type &&
      is_container_type(PyDescr_TYPE(init))) {
    Value* ignored = nullptr;
    frame().stack.pop_back();
    Flow flow = container_slot(*this, PyDescr_TYPE(init), "__init__", instance, arguments, names, &ignored);
    if (flow == Flow::kGo) frame().stack.push_back(instance);
    return flow;
  }
  if (init == nullptr || Py_TYPE(init) != &PyFunction_Type) return stop(BreakReason::k_call, type->tp_name);
  arguments.insert(arguments.begin(), instance);
  return inline_call(wrap_bound(init, std::string(made->tp_name) + ".__init__"), std::move(arguments), names,
                     ReturnRule::kInit);
}

// A call of a class: its metaclass may have a word in it.
Flow Tracer::construct(PyTypeObject* type, std::vector<Value*> arguments, PyObject* names) {
  bool handled = false;
  if (Flow flow = construct_exception(type, arguments, names, &handled); handled) return flow;
  if (type == &PyMethod_Type && arguments.size() == 2 && names == nullptr) {
    Value *function = force(arguments[0]), *self = force(arguments[1]);
    bool known = function->kind == ValueKind::kFunction && !(self->is_constant() && self->object == Py_None);
    if (!known) return stop(BreakReason::k_call, type->tp_name);
    Value* method = make(ValueKind::kMethod);
    method->items = {function, self};
    frame().stack.push_back(method);
    return Flow::kGo;
  }
  if (type == &PyDictProxy_Type) return make_proxy(*this, arguments, names);
  PyTypeObject* meta = metaclass(type);
  if (meta == nullptr) return stop(BreakReason::k_call, type->tp_name);
  if (inherits(meta, interned.call, &PyType_Type)) return call_type(type, std::move(arguments), names);
  Value* method = find_in_class(meta, interned.call);
  if (method == nullptr || method->kind != ValueKind::kFunction) return stop(BreakReason::k_call, type->tp_name);
  arguments.insert(arguments.begin(), constant(reinterpret_cast<PyObject*>(type)));
  return inline_call(method, std::move(arguments), names, ReturnRule::kPush);
}

// ---- isinstance, issubclass -----------------------------------------------------------------------------------------

namespace {

struct AbstractClasses {
  PyTypeObject* meta = nullptr;     // abc.ABCMeta
  const uint64_t* token = nullptr;  // what abc.get_cache_token() answers
  PyObject* dump = nullptr;         // _abc._get_dump

  AbstractClasses() {
    Ref abc = import_module("abc"), native = import_module("_abc");
    Ref found(abc ? PyObject_GetAttrString(abc.get(), "ABCMeta") : nullptr);
    Ref get(native ? PyObject_GetAttrString(native.get(), "get_cache_token") : nullptr);
    Ref now(get ? PyObject_CallNoArgs(get.get()) : nullptr);
    dump = native ? PyObject_GetAttrString(native.get(), "_get_dump") : nullptr;
    const uint64_t* counter = native ? abc_counter(native.get()) : nullptr;
    bool good = found && PyType_Check(found.get()) && now && dump != nullptr && counter != nullptr &&
                PyLong_AsUnsignedLongLong(now.get()) == *counter;
    PyErr_Clear();
    if (!good) return;
    meta = reinterpret_cast<PyTypeObject*>(found.release());
    token = counter;
  }
};

const AbstractClasses& abstract_classes() {
  static const AbstractClasses* known = new AbstractClasses;
  return *known;
}

// Modules whose __subclasshook__s answer from the class alone.
bool has_plain_hooks(PyObject* globals) {
  for (const char* name : {"_collections_abc", "contextlib", "os"}) {
    Ref module = finished_module(name);
    if (module && PyModule_GetDict(module.get()) == globals) return true;
  }
  return false;
}

bool asks_plainly(PyTypeObject* meta) { return inherits(meta, interned.subclasscheck, &PyType_Type); }
bool asks_abc(PyTypeObject* meta) {
  PyTypeObject* abc = abstract_classes().meta;
  return abc != nullptr && inherits(meta, interned.subclasscheck, abc);
}

// Whether ABCMeta's answers about this class come from classes alone: no hook of the program's runs.
bool answers_by_class(PyTypeObject* type, int* budget) {
  if (--*budget < 0) return false;
  if (asks_plainly(Py_TYPE(type))) return true;
  if (!asks_abc(Py_TYPE(type))) return false;
  const AbstractClasses& abc = abstract_classes();
  PyObject* hook = _PyType_Lookup(type, interned.subclasshook);
  if (hook != _PyType_Lookup(&PyBaseObject_Type, interned.subclasshook)) {
    if (hook == nullptr || Py_TYPE(hook) != &PyClassMethod_Type) return false;
    Ref function(PyObject_GetAttr(hook, interned.func));
    if (!function || Py_TYPE(function.get()) != &PyFunction_Type) return PyErr_Clear(), false;
    PyObject* globals = globals_of(reinterpret_cast<PyFunctionObject*>(function.get()));
    if (!has_plain_hooks(globals)) return false;
  }
  PyObject* self = reinterpret_cast<PyObject*>(type);
  Ref below(PyObject_CallMethodOneArg(reinterpret_cast<PyObject*>(&PyType_Type), interned.subclasses, self));
  Ref parts(below ? PyObject_CallOneArg(abc.dump, self) : nullptr);
  Ref registered(parts && PyTuple_Check(parts.get()) ? PySequence_List(PyTuple_GET_ITEM(parts.get(), 0)) : nullptr);
  if (!registered || !PyList_Check(below.get())) return PyErr_Clear(), false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(registered.get()); ++i) {  // weak references
    PyObject* each = PyWeakref_GetObject(PyList_GET_ITEM(registered.get(), i));
    if (each != Py_None && (!PyType_Check(each) || !answers_by_class(reinterpret_cast<PyTypeObject*>(each), budget)))
      return false;
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(below.get()); ++i)
    if (!answers_by_class(reinterpret_cast<PyTypeObject*>(PyList_GET_ITEM(below.get(), i)), budget)) return false;
  return true;
}

}  // namespace

bool is_abstract_meta(PyTypeObject* type) { return type == abstract_classes().meta; }

static Flow abstract_answer(Tracer& t, PyTypeObject* sub, PyTypeObject* type, bool* answer) {
  int budget = 1000;
  if (!t.ensure_version(sub) || !t.ensure_version(type) || !answers_by_class(type, &budget))
    return t.stop(BreakReason::k_builtin, "an abstract class with a hook");
  // CPython remembers answers until a class is registered somewhere.
  t.guard_word("abc.get_cache_token()", abstract_classes().token);
  t.expect_foreign_code();  // of abc and its hooks: other threads and signals get their turn
  int result = PyObject_IsSubclass(reinterpret_cast<PyObject*>(sub), reinterpret_cast<PyObject*>(type));
  if (result < 0 && is_of_a_handler(PyErr_Occurred())) return t.fail(Failure::kPending, "interrupted");
  if (result < 0) return t.stop(BreakReason::k_builtin, "isinstance");
  *answer = result != 0;
  return Flow::kGo;
}

PyTypeObject* union_type() {
  static PyTypeObject* const type = [] {
    Ref made(PyNumber_Or(reinterpret_cast<PyObject*>(&PyLong_Type), reinterpret_cast<PyObject*>(&PyFloat_Type)));
    PyErr_Clear();
    return made ? Py_TYPE(made.get()) : nullptr;
  }();
  return type;
}
static bool is_union(const Value* value) {
  return value->kind == ValueKind::kObject && value->is_real() && value->object != nullptr &&
         value->type == union_type();
}

// Whether __class__ of its instances is the type itself: what is no instance by type may be one by that.
static bool tells_its_class(PyTypeObject* type) {
  if (!inherits(type, interned.class_, &PyBaseObject_Type)) return false;
  return type->tp_getattro == PyObject_GenericGetAttr || !is_heap_type(type)
             ? type != &_PyWeakref_ProxyType && type != &_PyWeakref_CallableProxyType && type != &PySuper_Type
             : inherits(type, interned.getattribute, &PyBaseObject_Type);
}

// isinstance(value, classes); with `sub`, issubclass(sub, classes).
Flow Tracer::is_of_class(Value* value, PyTypeObject* sub, Value* classes, bool* answer) {
  *answer = false;
  classes = force(classes);
  std::vector<Value*>* items;
  Value* several = classes;
  if (is_union(classes))
    several = load_field(classes, sizeof(PyObject), *reinterpret_cast<PyObject**>(classes->object + 1),
                         source_text(classes) + ".__args__");  // Objects/unionobject.c: args comes first
  if (several->kind == ValueKind::kUnion || several->kind == ValueKind::kTuple ||
      (several->is_constant() && PyTuple_Check(several->object))) {
    if (several->kind == ValueKind::kUnion)
      items = &several->items;
    else
      list_items(several, &items);
    for (size_t i = 0; i < items->size() && !*answer; ++i) {
      Value* each = several->kind == ValueKind::kUnion ? (*items)[i] : item_at(several, i);
      if (several != classes && each->is_constant() && each->object == Py_None)
        each = constant(reinterpret_cast<PyObject*>(Py_TYPE(Py_None)));
      if (Flow flow = is_of_class(value, sub, each, answer); flow != Flow::kGo) return flow;
    }
    return Flow::kGo;
  }
  PyTypeObject* type = as_class(classes);
  PyTypeObject* own = sub != nullptr ? sub : type_of(value);
  if (own == nullptr) own = partial_type(value);
  if (type == nullptr || own == nullptr || !ensure_version(own)) return stop(BreakReason::k_builtin, "isinstance");
  if (sub == nullptr && own == type) {
    *answer = true;
    return Flow::kGo;
  }
  PyTypeObject* meta = metaclass(type);
  PyObject* name = sub != nullptr ? interned.subclasscheck : interned.instancecheck;
  if (meta == nullptr) return stop(BreakReason::k_builtin, "isinstance");
  bool says_its_class = sub != nullptr || tells_its_class(own);
  if (inherits(meta, name, &PyType_Type)) {
    *answer = PyType_IsSubtype(own, type);
    return *answer || says_its_class ? Flow::kGo : stop(BreakReason::k_builtin, "isinstance of what has a __class__");
  }
  PyTypeObject* abc = abstract_classes().meta;
  if (abc != nullptr && inherits(meta, name, abc)) {
    if (!asks_abc(meta) || !says_its_class) return stop(BreakReason::k_builtin, "isinstance");
    return abstract_answer(*this, own, type, answer);
  }
  Value* method = find_in_class(meta, name);
  if (method == nullptr || method->kind != ValueKind::kFunction) return stop(BreakReason::k_builtin, "isinstance");
  Value *result = nullptr, *asked = sub != nullptr ? constant(reinterpret_cast<PyObject*>(sub)) : value;
  bool known = false;
  if (Flow flow = call_now(method, {classes, asked}, &result); flow != Flow::kGo) return flow;
  return truth(result, &known, answer) && known ? Flow::kGo : stop(BreakReason::k_builtin, "isinstance");
}

// X | Y of classes; null: not that.
Value* Tracer::union_of(Value* left, Value* right) {
  auto may = [&](Value* value) {
    if (value->kind == ValueKind::kUnion || (value->is_constant() && value->object == Py_None)) return true;
    PyTypeObject *type = as_class(value), *meta = type == nullptr ? nullptr : metaclass(type);
    return meta != nullptr && inherits(meta, interned.binary[7], &PyType_Type) &&
           inherits(meta, interned.reflected[7], &PyType_Type);
  };
  bool has_class = as_class(left) != nullptr || as_class(right) != nullptr || left->kind == ValueKind::kUnion;
  if (!has_class || !may(left) || !may(right)) return nullptr;
  Value* made = make(ValueKind::kUnion);
  for (Value* side : {left, right}) {
    const std::vector<Value*> parts = side->kind == ValueKind::kUnion ? side->items : std::vector<Value*>{side};
    for (Value* part : parts) {
      if (part->is_constant() && part->object == Py_None)
        part = constant(reinterpret_cast<PyObject*>(Py_TYPE(Py_None)));
      if (std::find(made->items.begin(), made->items.end(), part) == made->items.end()) made->items.push_back(part);
    }
  }
  return made->items.size() == 1 ? made->items[0] : made;
}

}  // namespace kintsugi
