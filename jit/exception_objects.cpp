// Exceptions as objects of the trace: made, looked at, written to, as text. Raising and handling are in exceptions.cpp.
#include "jit/exceptions.h"

#include <cstring>

#include "runtime/frame.h"

#include <structmember.h>

namespace kintsugi {

void changing_exception(Tracer& t, Value* exception) {
  t.changing(exception);
  if (auto before = t.before_.find(exception);
      before != t.before_.end() && before->second.exception == exception->exception) {
    t.exceptions_.push_back(*exception->exception);
    exception->exception = &t.exceptions_.back();
  }
}

// ---- Making ---------------------------------------------------------------------------------------------------------

bool is_modelled(PyTypeObject* type) {
  if (!PyType_IsSubtype(type, as_type(PyExc_BaseException)) || Py_TYPE(type) != &PyType_Type) return false;
  return type->tp_new == as_type(PyExc_BaseException)->tp_new && type->tp_finalize == nullptr &&
         type->tp_del == nullptr && !PyType_HasFeature(type, Py_TPFLAGS_IS_ABSTRACT) &&
         type->tp_basicsize <= static_cast<Py_ssize_t>(sizeof(PyImportErrorObject) + 4 * sizeof(PyObject*));
}

Value* Tracer::new_exception(PyTypeObject* type, std::vector<Value*> arguments) {
  Value* made = make(ValueKind::kObject);
  made->type = type;
  made->items.assign(kPartCount, nullptr);
  made->items[kArgs] = tuple_of(std::move(arguments));
  exceptions_.emplace_back();
  made->exception = &exceptions_.back();
  return made;
}

void set_field(Value* exception, const char* name, Value* value) {
  for (auto& [key, held] : exception->entries) {
    if (PyUnicode_CompareWithASCIIString(key, name) != 0) continue;
    held = value;
    return;
  }
  exception->entries.emplace_back(PyUnicode_InternFromString(name), value);  // interned for good: few and short
}

bool init_exception(Tracer& t, void* init, Value* self, const std::vector<Value*>& arguments, PyObject* names) {
  auto is_init_of = [&](PyObject* type) { return init == reinterpret_cast<void*>(as_type(type)->tp_init); };
  size_t keywords = names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names));
  std::vector<Value*> positional(arguments.begin(), arguments.end() - static_cast<std::ptrdiff_t>(keywords));
  std::vector<const char*> known;
  if (is_init_of(PyExc_AttributeError)) known = {"name", "obj"};
  if (is_init_of(PyExc_NameError)) known = {"name"};
  bool is_stop = is_init_of(PyExc_StopIteration), is_exit = is_init_of(PyExc_SystemExit);
  if (known.empty() && !is_stop && !is_exit && !is_init_of(PyExc_BaseException) &&
      !is_init_of(PyExc_BaseExceptionGroup))
    return false;
  std::vector<std::pair<const char*, Value*>> fields;
  for (const char* name : known) fields.emplace_back(name, nullptr);
  for (size_t k = 0; k < keywords; ++k) {
    bool found = false;
    for (auto& [name, value] : fields) {
      if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(k)), name) != 0) continue;
      value = arguments[positional.size() + k];
      found = true;
    }
    if (!found) return false;
  }
  t.changing(self);
  for (auto& [name, value] : fields) set_field(self, name, value);
  if (is_stop) set_field(self, "value", positional.empty() ? t.none() : positional[0]);
  if (is_exit && !positional.empty())
    set_field(self, "code", positional.size() == 1 ? positional[0] : t.tuple_of(positional));
  self->items[kArgs] = t.tuple_of(std::move(positional));
  return true;
}

// A call of an exception class. *handled false: not one.
Flow Tracer::construct_exception(PyTypeObject* type, std::vector<Value*>& arguments, PyObject* names, bool* handled) {
  *handled = PyType_IsSubtype(type, as_type(PyExc_BaseException));
  if (!*handled) return Flow::kGo;
  if (is_group_type(type)) return construct_group(type, arguments, names);
  if (!is_modelled(type) || !ensure_version(type)) return stop(BreakReason::k_call, type->tp_name);
  PyObject* init = _PyType_Lookup(type, interned.init);
  size_t keywords = names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names));
  Value* made = new_exception(type, {arguments.begin(), arguments.end() - static_cast<std::ptrdiff_t>(keywords)});
  if (init != nullptr && Py_TYPE(init) == &PyFunction_Type) {
    arguments.insert(arguments.begin(), made);
    frame().stack.push_back(made);
    return inline_call(wrap_bound(init, std::string(type->tp_name) + ".__init__"), arguments, names, ReturnRule::kInit);
  }
  if (init == nullptr || Py_TYPE(init) != &PyWrapperDescr_Type ||
      !init_exception(*this, reinterpret_cast<PyWrapperDescrObject*>(init)->d_wrapped, made, arguments, names))
    return stop(BreakReason::k_call, type->tp_name);
  frame().stack.push_back(made);
  return Flow::kGo;
}

// Exception.__init__(self, ...), through super() or the class; __str__ and __repr__ likewise.
Flow Tracer::call_exception_slot(PyObject* callable, const std::vector<Value*>& arguments, PyObject* names, Value** out,
                                 bool* handled) {
  if (arguments.empty()) return Flow::kGo;
  Value* self = force(arguments[0]);
  if (!is_traced_exception(self)) return Flow::kGo;
  static PyObject* const with_traceback = PyDict_GetItemString(as_type(PyExc_BaseException)->tp_dict, "with_traceback");
  if (callable == with_traceback && arguments.size() == 2 && names == nullptr) {
    Value* traceback = force(arguments[1]);
    bool is_none = traceback->is_constant() && traceback->object == Py_None;
    if (!is_none && !is_traced_traceback(traceback)) return Flow::kGo;
    *out = self;
    *handled = true;
    return set_traceback(self, is_none ? nullptr : traceback);
  }
  if (Flow flow = group_method(callable, arguments, names, out, handled); *handled) return flow;
  if (Py_TYPE(callable) != &PyWrapperDescr_Type) return Flow::kGo;
  auto* slot = reinterpret_cast<PyWrapperDescrObject*>(callable);
  if (!PyType_IsSubtype(self->type, slot->d_common.d_type)) return Flow::kGo;
  std::string name = slot->d_base->name;
  if (name == "__init__") {
    std::vector<Value*> rest(arguments.begin() + 1, arguments.end());
    if (!init_exception(*this, slot->d_wrapped, self, rest, names)) return Flow::kGo;
    *handled = true;
    *out = none();
  } else if ((name == "__str__" || name == "__repr__") && arguments.size() == 1) {
    *handled = true;
    return exception_text(self, name == "__repr__", slot->d_wrapped, out);
  }
  return Flow::kGo;
}

// What `raise thing` raises: a class is called.
Flow Tracer::exception_of(Value* thing, Value** out) {
  thing = force(thing);
  *out = thing;
  if (is_traced_exception(thing)) return Flow::kGo;
  if (!thing->is_constant() || !PyExceptionClass_Check(thing->object)) return stop(BreakReason::k_raises, "raise");
  PyTypeObject* type = as_type(thing->object);
  if (!is_modelled(type) || !ensure_version(type)) return stop(BreakReason::k_raises, "raise");
  PyObject* init = _PyType_Lookup(type, interned.init);
  *out = new_exception(type, {});
  if (init != nullptr && Py_TYPE(init) == &PyFunction_Type) {
    Value* result = nullptr;
    Flow flow = call_now(wrap_bound(init, std::string(type->tp_name) + ".__init__"), {*out}, &result);
    if (flow != Flow::kGo) return flow;
    if (result->is_constant() && result->object == Py_None) return Flow::kGo;
  } else if (init != nullptr && Py_TYPE(init) == &PyWrapperDescr_Type &&
             init_exception(*this, reinterpret_cast<PyWrapperDescrObject*>(init)->d_wrapped, *out, {}, nullptr)) {
    return Flow::kGo;
  }
  return stop(BreakReason::k_raises, "raise");
}

// ---- Looking at one -------------------------------------------------------------------------------------------------

// *handled false: an attribute as of any object.
Flow Tracer::exception_attribute(Value* exception, PyObject* name, Value** out, bool* handled) {
  *handled = false;
  if (is_traced_traceback(exception)) {
    std::string text = text_of(name);
    int unit = static_cast<int>(exception->index);
    *handled = true;
    if (text == "tb_next") return *out = exception->items[0] == nullptr ? none() : exception->items[0], Flow::kGo;
    if (text == "tb_lineno") return *out = int_constant(PyCode_Addr2Line(exception->code, unit * 2)), Flow::kGo;
    return stop(BreakReason::k_attribute, text + " of a traceback");
  }
  if (!is_traced_exception(exception) || exception->type->tp_getattro != PyObject_GenericGetAttr ||
      !ensure_version(exception->type))
    return Flow::kGo;
  PyObject* in_class = _PyType_Lookup(exception->type, name);
  if (in_class == nullptr) return Flow::kGo;
  auto found = [&](Value* value) {
    *handled = true;
    *out = value == nullptr ? none() : force(value);
    return Flow::kGo;
  };
  if (Py_TYPE(in_class) == &PyMemberDescr_Type) {
    PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(in_class)->d_member;
    if (member->type == T_BOOL && std::strcmp(member->name, "__suppress_context__") == 0)
      return found(constant(exception->exception->suppress_context ? Py_True : Py_False));
    if (member->type != T_OBJECT) return Flow::kGo;
    for (auto& [key, value] : exception->entries)
      if (PyUnicode_Compare(key, name) == 0) return found(value);
    return found(nullptr);
  }
  if (Py_TYPE(in_class) != &PyGetSetDescr_Type ||
      reinterpret_cast<PyDescrObject*>(in_class)->d_type != as_type(PyExc_BaseException))
    return Flow::kGo;
  std::string text = text_of(name);
  Value* context = exception->items[kContext];
  if (text == "args") return found(exception->items[kArgs]);
  if (text == "__cause__") return found(exception->items[kCause]);
  if (text == "__context__" && context != nullptr && context->kind == ValueKind::kHandled) {
    *handled = true;
    return known_handled(context, out);
  }
  if (text == "__context__") return found(context);
  if (text == "__traceback__") return found(exception->exception->traceback);
  *handled = true;
  return stop(BreakReason::k_attribute, text + " of an exception");
}

Flow Tracer::set_exception_attribute(Value* exception, PyObject* name, Value* value, bool* handled) {
  *handled = false;
  if (!is_traced_exception(exception) || exception->type->tp_setattro != PyObject_GenericSetAttr ||
      !ensure_version(exception->type))
    return Flow::kGo;
  PyObject* in_class = _PyType_Lookup(exception->type, name);
  if (in_class == nullptr || Py_TYPE(in_class)->tp_descr_set == nullptr) return Flow::kGo;
  std::string text = text_of(name);
  bool is_field = Py_TYPE(in_class) == &PyMemberDescr_Type &&
                  reinterpret_cast<PyMemberDescrObject*>(in_class)->d_member->type == T_OBJECT &&
                  reinterpret_cast<PyMemberDescrObject*>(in_class)->d_member->flags == 0;
  bool is_none = value->is_constant() && value->object == Py_None;
  if (is_field) {
    changing(exception);
    set_field(exception, text.c_str(), value);
  } else if ((text == "__cause__" || text == "__context__") && (is_none || is_traced_exception(value))) {
    changing_exception(*this, exception);
    exception->items[text == "__cause__" ? kCause : kContext] = is_none ? nullptr : value;
    if (text == "__cause__") exception->exception->suppress_context = true;
  } else if (text == "__traceback__" && (is_none || is_traced_traceback(value))) {
    set_traceback(exception, is_none ? nullptr : value);
  } else {
    return Flow::kGo;
  }
  *handled = true;
  return Flow::kGo;
}

// str() or repr(). `slot`: the C function that answers; null: as the class says.
Flow Tracer::exception_text(Value* exception, bool repr, void* slot, Value** out) {
  PyTypeObject* type = exception->type;
  PyTypeObject* base = as_type(PyExc_BaseException);
  auto own = reinterpret_cast<void*>(repr ? type->tp_repr : type->tp_str);
  if (slot == nullptr) slot = own;
  if (!repr && slot == reinterpret_cast<void*>(as_type(PyExc_BaseExceptionGroup)->tp_str)) {
    Value *message = field_of_exception(exception, "message"), *parts = field_of_exception(exception, "exceptions");
    int64_t count = parts == nullptr ? -1 : length(parts);
    if (message == nullptr || !message->is_constant() || count < 0)
      return stop(BreakReason::k_builtin, "text of an exception");
    *out = constant_owned(PyUnicode_FromFormat("%S (%zd sub-exception%s)", message->object,
                                               static_cast<Py_ssize_t>(count), count > 1 ? "s" : ""));
    return *out != nullptr ? Flow::kGo : stop(BreakReason::k_raises, "text of an exception");
  }
  bool of_key = !repr && slot == reinterpret_cast<void*>(as_type(PyExc_KeyError)->tp_str);
  if (!of_key && slot != reinterpret_cast<void*>(repr ? base->tp_repr : base->tp_str)) {
    Value* method = slot == own ? find_in_class(type, repr ? interned.repr : interned.str) : nullptr;
    if (method == nullptr || method->kind != ValueKind::kFunction)
      return stop(BreakReason::k_builtin, repr ? "repr of an exception" : "str of an exception");
    if (Flow flow = call_now(method, {exception}, out); flow != Flow::kGo) return flow;
    bool is_text = (*out)->is_constant() && PyUnicode_Check((*out)->object);
    return is_text ? Flow::kGo : stop(BreakReason::k_builtin, "text of an exception");
  }
  Value* args = exception->items[kArgs];
  std::vector<Value*>* items;
  if (!list_items(args, &items)) return stop(BreakReason::k_builtin, "text of an exception");
  size_t count = items->size();
  Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; i < count; ++i) {
    Value* item = item_at(args, i);
    PyObject* object;
    if (is_traced_exception(item)) {
      Value* text = nullptr;
      if (count != 1 || repr || of_key) return stop(BreakReason::k_builtin, "text of an exception");
      if (Flow flow = exception_text(item, false, nullptr, &text); flow != Flow::kGo) return flow;
      *out = text;
      return Flow::kGo;
    }
    if (!fold(item, &object)) return stop(BreakReason::k_builtin, "text of an exception");
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(object));
  }
  PyObject* only = count == 1 ? PyTuple_GET_ITEM(tuple.get(), 0) : nullptr;
  Ref text;
  if (repr) {
    guard_name(type);
    const char* dot = std::strrchr(type->tp_name, '.');
    const char* name = dot == nullptr ? type->tp_name : dot + 1;
    text = Ref(only != nullptr ? PyUnicode_FromFormat("%s(%R)", name, only)
                               : PyUnicode_FromFormat("%s%R", name, tuple.get()));
  } else if (count == 0) {
    text = Ref(PyUnicode_FromString(""));
  } else if (only == nullptr) {
    text = Ref(PyObject_Str(tuple.get()));
  } else {
    text = Ref(of_key ? PyObject_Repr(only) : PyObject_Str(only));
  }
  if (!text) return raise_pending("text of an exception");
  *out = constant(text.get());
  return Flow::kGo;
}

}  // namespace kintsugi
