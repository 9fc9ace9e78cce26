// The longer instructions: calls, methods, functions, imports, `with`, raise, and class and mapping patterns. Texts of
// errors are the interpreter's, since programs and tests compare them.
#include "runtime/step_parts.h"

namespace kintsugi::stepping {

// ---- Calls ---------------------------------------------------------------------------------------------------------

//   NULL | callable | arguments ...     or     method | self | arguments ...
StepResult call(const Machine& m) {
  PyObject** base = m.top(m.argument + 2);
  if (base[0] == nullptr && Py_IS_TYPE(base[1], &PyMethod_Type)) {
    PyObject* bound = base[1];
    base[0] = Py_NewRef(PyMethod_GET_FUNCTION(bound));
    base[1] = Py_NewRef(PyMethod_GET_SELF(bound));
    Py_DECREF(bound);
  }
  int skipped = base[0] == nullptr ? 1 : 0;
  PyObject* callable = base[skipped];
  Py_ssize_t count = m.argument + 1 - skipped;
  Py_ssize_t keywords = m.kwnames == nullptr ? 0 : PyTuple_GET_SIZE(m.kwnames);
  PyObject* result = PyObject_Vectorcall(
      callable, base + skipped + 1, static_cast<size_t>(count - keywords) | PY_VECTORCALL_ARGUMENTS_OFFSET, m.kwnames);
  drop(m, m.argument + 2);
  if (result == nullptr) return raised(m);
  m.push(result);
  return next_served(m);
}

// After a failed merge of `**mapping` into the keyword arguments of `callable`.
static void explain_bad_keywords(PyObject* callable, PyObject* mapping) {
  if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
    Ref text(_PyObject_FunctionStr(callable));
    if (text)
      PyErr_Format(PyExc_TypeError, "%U argument after ** must be a mapping, not %.200s", text.get(),
                   Py_TYPE(mapping)->tp_name);
    return;
  }
  if (!PyErr_ExceptionMatches(PyExc_KeyError)) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (value == nullptr || !PyTuple_Check(value) || PyTuple_GET_SIZE(value) != 1) {  // raised by the mapping itself
    PyErr_Restore(type, value, traceback);
    return;
  }
  Ref type_ref(type), value_ref(value), traceback_ref(traceback);
  Ref text(_PyObject_FunctionStr(callable));
  if (text)
    PyErr_Format(PyExc_TypeError, "%U got multiple values for keyword argument '%S'", text.get(),
                 PyTuple_GET_ITEM(value, 0));
}

StepResult dict_merge(const Machine& m) {
  PyObject* update = m.peek();
  int status = _PyDict_MergeEx(m.peek(m.argument), update, /*override=*/2);  // 2: a repeated key is an error
  if (status < 0) explain_bad_keywords(m.peek(m.argument + 2), update);
  return consume(m, 1, status);
}

// Replaces a stack value by `owned`; what was there is dropped after.
static void put(PyObject** place, PyObject* owned) {
  PyObject* old = std::exchange(*place, owned);
  Py_DECREF(old);
}

//   NULL | callable | arguments | keywords?
StepResult call_function_ex(const Machine& m) {
  int count = m.argument & 1 ? 4 : 3;
  PyObject** base = m.top(count);
  PyObject* callable = base[1];
  auto fail = [&] { return consume(m, count, -1); };
  if (count == 4 && !PyDict_CheckExact(base[3])) {
    PyObject* keywords = PyDict_New();
    if (keywords == nullptr) return fail();
    if (_PyDict_MergeEx(keywords, base[3], /*override=*/2) < 0) {
      Py_DECREF(keywords);
      explain_bad_keywords(callable, base[3]);
      return fail();
    }
    put(&base[3], keywords);
  }
  if (!PyTuple_CheckExact(base[2])) {
    if (Py_TYPE(base[2])->tp_iter == nullptr && !PySequence_Check(base[2])) {
      Ref text(_PyObject_FunctionStr(callable));
      if (text)
        PyErr_Format(PyExc_TypeError, "%U argument after * must be an iterable, not %.200s", text.get(),
                     Py_TYPE(base[2])->tp_name);
      return fail();
    }
    PyObject* arguments = PySequence_Tuple(base[2]);
    if (arguments == nullptr) return fail();
    put(&base[2], arguments);
  }
  PyObject* result = PyObject_Call(callable, base[2], count == 4 ? base[3] : nullptr);
  drop(m, count);
  if (result == nullptr) return raised(m);
  m.push(result);
  return next_served(m);
}

StepResult load_method(const Machine& m) {
  PyObject* object = m.peek();
  PyObject* method = nullptr;
  bool is_unbound = _PyObject_GetMethod(object, m.name(m.argument), &method) != 0;
  if (method == nullptr) return raised(m);
  if (is_unbound) {
    m.top(1)[0] = method;
    m.push(object);
  } else {
    m.top(1)[0] = nullptr;
    m.push(method);
    Py_DECREF(object);
  }
  return next(m);
}

StepResult make_function(const Machine& m) {
  PyObject* made = PyFunction_New(m.peek(), m.globals());
  drop(m, 1);
  if (made == nullptr) return raised(m);
  PyObject* closure = m.argument & 8 ? m.pop() : nullptr;
  PyObject* annotations = m.argument & 4 ? m.pop() : nullptr;
  PyObject* keyword_defaults = m.argument & 2 ? m.pop() : nullptr;
  PyObject* defaults = m.argument & 1 ? m.pop() : nullptr;
  furnish(reinterpret_cast<PyFunctionObject*>(made), defaults, keyword_defaults, annotations, closure);
  m.push(made);
  return next(m);
}

StepResult load_build_class(const Machine& m) {
  bool is_dict = PyDict_CheckExact(m.builtins());
  PyObject* found = is_dict ? Py_XNewRef(PyDict_GetItemWithError(m.builtins(), names.build_class))
                            : PyObject_GetItem(m.builtins(), names.build_class);
  if (found == nullptr && (is_dict ? !PyErr_Occurred() : PyErr_ExceptionMatches(PyExc_KeyError)))
    PyErr_SetString(PyExc_NameError, "__build_class__ not found");
  return push(m, found);
}

// ---- Imports -------------------------------------------------------------------------------------------------------

StepResult import_name(const Machine& m) {
  PyObject* name = m.name(m.argument);
  PyObject *level = m.peek(1), *wanted = m.peek();
  PyObject* locals = m.activation.frame == nullptr ? nullptr : namespace_of(m.activation.frame);
  if (locals == nullptr) locals = Py_None;
  PyObject* function = PyDict_GetItemWithError(m.builtins(), names.import);
  PyObject* result = nullptr;
  if (function == nullptr) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ImportError, "__import__ not found");
  } else if (function == import_function(this_thread())) {
    int number = _PyLong_AsInt(level);
    if (number != -1 || !PyErr_Occurred())
      result = PyImport_ImportModuleLevelObject(name, m.globals(), locals, wanted, number);
  } else {
    Ref kept = Ref::share(function);
    PyObject* arguments[] = {name, m.globals(), locals, wanted, level};
    result = PyObject_Vectorcall(function, arguments, 5, nullptr);
  }
  return replace(m, 2, result);
}

static void set_import_error(PyObject* module, PyObject* module_name, PyObject* name) {
  Ref path(PyModule_GetFilenameObject(module));
  Ref shown = module_name != nullptr ? Ref::share(module_name) : Ref(PyUnicode_FromString("<unknown module name>"));
  if (!shown) return;
  Ref text;
  if (!path || !PyUnicode_Check(path.get())) {
    PyErr_Clear();
    path = Ref();
    text = Ref(PyUnicode_FromFormat("cannot import name %R from %R (unknown location)", name, shown.get()));
  } else {
    Ref spec(PyObject_GetAttr(module, names.spec));
    const char* format = _PyModuleSpec_IsInitializing(spec.get())
                             ? "cannot import name %R from partially initialized module %R "
                               "(most likely due to a circular import) (%S)"
                             : "cannot import name %R from %R (%S)";
    text = Ref(PyUnicode_FromFormat(format, name, shown.get(), path.get()));
  }
  PyErr_SetImportError(text.get(), module_name, path.get());
}

// The attribute; or, in a circular import, the submodule that is in sys.modules already.
static PyObject* imported_name(PyObject* module, PyObject* name) {
  PyObject* value = nullptr;
  if (_PyObject_LookupAttr(module, name, &value) != 0) return value;
  static PyObject* dunder_name = PyUnicode_InternFromString("__name__");
  Ref module_name(PyObject_GetAttr(module, dunder_name));
  if (module_name && PyUnicode_Check(module_name.get())) {
    Ref full(PyUnicode_FromFormat("%U.%U", module_name.get(), name));
    if (!full) return nullptr;
    value = PyImport_GetModule(full.get());
    if (value != nullptr || PyErr_Occurred()) return value;
  } else {
    module_name = Ref();
  }
  set_import_error(module, module_name.get(), name);
  return nullptr;
}

StepResult import_from(const Machine& m) { return push(m, imported_name(m.peek(), m.name(m.argument))); }

// ---- with, raise ---------------------------------------------------------------------------------------------------

// manager -> exit method, result of __enter__
StepResult before_with(const Machine& m) {
  PyObject* manager = m.peek();
  const char* type_name = Py_TYPE(manager)->tp_name;
  PyObject* enter = _PyObject_LookupSpecial(manager, names.enter);
  if (enter == nullptr) {
    if (!PyErr_Occurred())
      PyErr_Format(PyExc_TypeError, "'%.200s' object does not support the context manager protocol", type_name);
    return raised(m);
  }
  PyObject* exit = _PyObject_LookupSpecial(manager, names.exit);
  if (exit == nullptr) {
    if (!PyErr_Occurred())
      PyErr_Format(PyExc_TypeError,
                   "'%.200s' object does not support the context manager protocol (missed __exit__ method)", type_name);
    Py_DECREF(enter);
    return raised(m);
  }
  put(m.top(1), exit);
  PyObject* result = PyObject_CallNoArgs(enter);
  Py_DECREF(enter);
  return push(m, result);
}

// The exception that `raise thing` means; null with another exception set.
static PyObject* exception_of(PyObject* thing) {
  if (PyExceptionInstance_Check(thing)) return Py_NewRef(thing);
  if (!PyExceptionClass_Check(thing)) {
    PyErr_SetString(PyExc_TypeError, "exceptions must derive from BaseException");
    return nullptr;
  }
  PyObject* made = PyObject_CallNoArgs(thing);
  if (made != nullptr && !PyExceptionInstance_Check(made)) {
    PyErr_Format(PyExc_TypeError, "calling %R should have returned an instance of BaseException, not %R", thing,
                 Py_TYPE(made));
    Py_CLEAR(made);
  }
  return made;
}

static bool set_cause(PyObject* exception, PyObject* cause) {
  PyObject* fixed = nullptr;
  if (PyExceptionClass_Check(cause)) {
    fixed = PyObject_CallNoArgs(cause);
    if (fixed == nullptr) return false;
  } else if (PyExceptionInstance_Check(cause)) {
    fixed = Py_NewRef(cause);
  } else if (cause != Py_None) {
    PyErr_SetString(PyExc_TypeError, "exception causes must derive from BaseException");
    return false;
  }
  PyException_SetCause(exception, fixed);
  return true;
}

// The exception with the traceback that it has.
static StepResult raise_again(const Machine& m, PyObject* exception_stolen) {
  PyObject* type = Py_NewRef(PyExceptionInstance_Class(exception_stolen));
  PyErr_Restore(type, exception_stolen, PyException_GetTraceback(exception_stolen));
  return raised_again(m);
}

StepResult raise_varargs(const Machine& m) {
  if (m.argument == 0) {
    Ref handled(PyErr_GetHandledException());
    if (handled) return raise_again(m, handled.release());
    PyErr_SetString(PyExc_RuntimeError, "No active exception to reraise");
    return raised(m);
  }
  PyObject** operands = m.top(m.argument);
  PyObject* exception = exception_of(operands[0]);
  if (exception != nullptr && (m.argument == 1 || set_cause(exception, operands[1])))
    PyErr_SetObject(PyType_Check(operands[0]) ? operands[0] : PyExceptionInstance_Class(exception), exception);
  Py_XDECREF(exception);
  drop(m, m.argument);
  return raised(m);
}

// ---- Handlers ------------------------------------------------------------------------------------------------------

// exception ->; the position that lies below is where it was raised first
StepResult reraise(const Machine& m) {
  if (m.argument != 0) {
    PyObject* position = m.peek(m.argument);
    if (!PyLong_Check(position)) {
      PyErr_SetString(PyExc_SystemError, "lasti is not an int");
      return raised(m);
    }
    set_position(m.activation, static_cast<int>(PyLong_AsLong(position)));
  }
  return raise_again(m, m.pop());
}

// exception -> the one handled before, exception
StepResult push_handled(const Machine& m) {
  PyObject*& handled = handled_exception(this_thread());
  PyObject* exception = m.peek();
  m.top(1)[0] = handled != nullptr ? handled : Py_NewRef(Py_None);
  handled = Py_NewRef(exception);
  m.push(exception);
  return next(m);
}

StepResult pop_handled(const Machine& m) {
  PyObject* old = std::exchange(handled_exception(this_thread()), m.pop());
  Py_XDECREF(old);
  return next(m);
}

static bool is_exception_class(PyObject* type) {
  if (PyExceptionClass_Check(type)) return true;
  PyErr_SetString(PyExc_TypeError, "catching classes that do not inherit from BaseException is not allowed");
  return false;
}

// exception, class or tuple of classes -> exception, bool
StepResult check_match(const Machine& m) {
  PyObject* wanted = m.peek();
  bool good = true;
  if (PyTuple_Check(wanted)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(wanted) && good; ++i)
      good = is_exception_class(PyTuple_GET_ITEM(wanted, i));
  } else {
    good = is_exception_class(wanted);
  }
  PyObject* answer = !good                                                 ? nullptr
                     : PyErr_GivenExceptionMatches(m.peek(1), wanted) != 0 ? Py_NewRef(Py_True)
                                                                           : Py_NewRef(Py_False);
  return replace(m, 1, answer);
}

// exit, position, handled before, exception -> the same, exit(type, exception, traceback)
StepResult call_exit(const Machine& m) {
  PyObject* exception = m.peek();
  Ref traceback(PyException_GetTraceback(exception));
  PyObject* arguments[] = {nullptr, PyExceptionInstance_Class(exception), exception,
                           traceback ? traceback.get() : Py_None};
  return push(m, PyObject_Vectorcall(m.peek(3), arguments + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

// ---- Patterns ------------------------------------------------------------------------------------------------------

// subject, keys -> subject, keys, tuple of values | None
static PyObject* values_of_keys(PyObject* subject, PyObject* keys) {
  Py_ssize_t count = PyTuple_GET_SIZE(keys);
  if (count == 0) return PyTuple_New(0);
  // get(key, default) neither makes entries in a defaultdict nor raises for what is missing.
  Ref get(PyObject_GetAttr(subject, names.get));
  Ref seen(get ? PySet_New(nullptr) : nullptr);
  Ref missing(seen ? PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)) : nullptr);
  Ref values(missing ? PyTuple_New(count) : nullptr);
  if (!values) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys, i);
    int repeated = PySet_Contains(seen.get(), key);
    if (repeated > 0) PyErr_Format(PyExc_ValueError, "mapping pattern checks duplicate key (%R)", key);
    if (repeated != 0 || PySet_Add(seen.get(), key) < 0) return nullptr;
    PyObject* arguments[] = {key, missing.get()};
    PyObject* value = PyObject_Vectorcall(get.get(), arguments, 2, nullptr);
    if (value == nullptr) return nullptr;
    if (value == missing.get()) {
      Py_DECREF(value);
      return Py_NewRef(Py_None);
    }
    PyTuple_SET_ITEM(values.get(), i, value);
  }
  return values.release();
}

StepResult match_keys(const Machine& m) { return push(m, values_of_keys(m.peek(1), m.peek())); }

// One attribute of the subject. Null: no match, or an exception.
static bool append_attribute(PyObject* found, PyObject* subject, PyObject* type, PyObject* name, PyObject* seen) {
  int repeated = PySet_Contains(seen, name);
  if (repeated > 0)
    PyErr_Format(PyExc_TypeError, "%s() got multiple sub-patterns for attribute %R",
                 reinterpret_cast<PyTypeObject*>(type)->tp_name, name);
  if (repeated != 0 || PySet_Add(seen, name) < 0) return false;
  Ref value(PyObject_GetAttr(subject, name));
  if (!value) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
    return false;
  }
  return PyList_Append(found, value.get()) == 0;
}

static bool append_positional(PyObject* found, PyObject* subject, PyObject* type, Py_ssize_t count, PyObject* seen) {
  const char* type_name = reinterpret_cast<PyTypeObject*>(type)->tp_name;
  bool takes_itself = false;  // int(x), str(x), ...: the one sub-pattern is the subject
  Ref allowed_names(PyObject_GetAttr(type, names.match_args));
  if (!allowed_names) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return false;
    PyErr_Clear();
    allowed_names = Ref(PyTuple_New(0));
    if (!allowed_names) return false;
    takes_itself = PyType_HasFeature(reinterpret_cast<PyTypeObject*>(type), _Py_TPFLAGS_MATCH_SELF);
  } else if (!PyTuple_CheckExact(allowed_names.get())) {
    PyErr_Format(PyExc_TypeError, "%s.__match_args__ must be a tuple (got %s)", type_name,
                 Py_TYPE(allowed_names.get())->tp_name);
    return false;
  }
  Py_ssize_t allowed = takes_itself ? 1 : PyTuple_GET_SIZE(allowed_names.get());
  if (allowed < count) {
    PyErr_Format(PyExc_TypeError, "%s() accepts %zd positional sub-pattern%s (%zd given)", type_name, allowed,
                 allowed == 1 ? "" : "s", count);
    return false;
  }
  if (takes_itself) return PyList_Append(found, subject) == 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* name = PyTuple_GET_ITEM(allowed_names.get(), i);
    if (!PyUnicode_CheckExact(name)) {
      PyErr_Format(PyExc_TypeError, "__match_args__ elements must be strings (got %s)", Py_TYPE(name)->tp_name);
      return false;
    }
    if (!append_attribute(found, subject, type, name, seen)) return false;
  }
  return true;
}

// The attributes as a tuple; null: no match, or an exception.
static PyObject* attributes_of_match(PyObject* subject, PyObject* type, Py_ssize_t count, PyObject* keywords) {
  if (!PyType_Check(type)) {
    PyErr_SetString(PyExc_TypeError, "called match pattern must be a type");
    return nullptr;
  }
  if (PyObject_IsInstance(subject, type) <= 0) return nullptr;
  Ref seen(PySet_New(nullptr));
  Ref found(seen ? PyList_New(0) : nullptr);
  if (!found) return nullptr;
  if (count > 0 && !append_positional(found.get(), subject, type, count, seen.get())) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keywords); ++i)
    if (!append_attribute(found.get(), subject, type, PyTuple_GET_ITEM(keywords, i), seen.get())) return nullptr;
  return PyList_AsTuple(found.get());
}

// subject, type, names of keyword patterns -> tuple of attributes | None
StepResult match_class(const Machine& m) {
  PyObject* found = attributes_of_match(m.peek(2), m.peek(1), m.argument, m.peek());
  if (found == nullptr && !PyErr_Occurred()) found = Py_NewRef(Py_None);
  return replace(m, 3, found);
}

}  // namespace kintsugi::stepping
