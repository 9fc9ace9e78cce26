// Text of values: f-strings, str(), repr(), format(). Atoms and containers of them go through pure.cpp; objects of
// classes written in Python through their own methods, in the order in which Python looks for them.
#include "jit/tracer_core.h"
#include "runtime/frame.h"

namespace kintsugi {

static bool is_text(Value* value) {
  if (value->is_constant()) return PyUnicode_CheckExact(value->object);
  return value->kind == ValueKind::kObject && value->type == &PyUnicode_Type;
}

// dtypes and devices: immutable, and their text says only which they are.
static bool is_own_singleton(Value* value) {
  if (!value->is_constant()) return false;
  PyTypeObject* type = Py_TYPE(value->object);
  return std::string(type->tp_name).rfind("kintsugi.", 0) == 0 && !PyType_IS_GC(type) &&
         !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);
}

// What the class has under this name: a Python function, or nothing of its own (object's). False: something else.
static bool own_method(Tracer& t, Value* value, PyObject* name, Value** method) {
  *method = nullptr;
  if (value->kind != ValueKind::kObject || !t.ensure_version(value->type)) return false;
  if (value->is_real() && value->source >= 0 && t.versions_.count(value->type) == 0) return false;
  PyObject* found = _PyType_Lookup(value->type, name);
  if (found == _PyType_Lookup(&PyBaseObject_Type, name)) return true;
  if (found == nullptr || Py_TYPE(found) != &PyFunction_Type) return false;
  *method = t.find_in_class(value->type, name);
  return *method != nullptr;
}

// The text of a member of an IntEnum and the like, where its class has it from int, float or str: as that of the number
// or text that it is. *out stays null otherwise.
static Flow text_as_atom(Tracer& t, Value* value, PyObject* name, Value* spec, Value** out) {
  *out = nullptr;
  if (value->kind != ValueKind::kObject || t.python_class(value) == nullptr) return Flow::kGo;
  PyObject* found = _PyType_Lookup(value->type, name);
  bool is_slot = found != nullptr && (Py_TYPE(found) == &PyWrapperDescr_Type || Py_TYPE(found) == &PyMethodDescr_Type);
  PyTypeObject* owner = is_slot ? PyDescr_TYPE(found) : nullptr;
  if (owner != &PyLong_Type && owner != &PyFloat_Type && owner != &PyUnicode_Type) return Flow::kGo;
  bool is_empty = spec != nullptr && spec->is_constant() && PyUnicode_CheckExact(spec->object) &&
                  PyUnicode_GET_LENGTH(spec->object) == 0;
  if (is_empty) return t.text_value(value, 1, out);  // its class may have another __str__
  Value* atom = t.plain_atom(value, {});
  if (atom == nullptr || Py_TYPE(atom->object) != owner || (spec != nullptr && !spec->is_constant())) return Flow::kGo;
  PyObject* arguments[] = {atom->object, spec == nullptr ? nullptr : spec->object};
  *out = t.constant_owned(PyObject_Vectorcall(found, arguments, spec == nullptr ? 1 : 2, nullptr));
  return *out != nullptr ? Flow::kGo : t.raise_pending("formatting");
}

Flow Tracer::text_value(Value* value, int conversion, Value** out) {
  value = force(value);
  if (value->kind == ValueKind::kTensor) return stop(BreakReason::k_repr_tensor, "text of a tensor");
  if (conversion == 1 && is_text(value)) return *out = value, Flow::kGo;
  if (is_own_singleton(value)) {
    *out = constant_owned(conversion == 1 ? PyObject_Str(value->object) : PyObject_Repr(value->object));
    return *out != nullptr ? Flow::kGo : raise_pending("formatting");
  }
  PyObject* builtins = standard_builtins();
  PyObject* callable = PyDict_GetItemString(builtins, conversion == 1 ? "str" : conversion == 2 ? "repr" : "ascii");
  std::vector<Value*> arguments{value};
  bool handled = false;
  Flow flow = callable == nullptr ? Flow::kGo : pure_call(callable, arguments, nullptr, out, &handled);
  if (handled || flow != Flow::kGo) return flow;
  if (conversion < 3) {
    flow = text_as_atom(*this, value, conversion == 1 ? interned.str : interned.repr, nullptr, out);
    if (flow != Flow::kGo || *out != nullptr) return flow;
  }
  Value* method = nullptr;
  if (conversion == 1 && !own_method(*this, value, interned.str, &method))
    return stop(BreakReason::k_instruction, "text of this object");
  if (method == nullptr && (!own_method(*this, value, interned.repr, &method) || method == nullptr || conversion == 3))
    return stop(BreakReason::k_instruction, "text of this object");
  if (flow = call_now(method, {value}, out); flow != Flow::kGo) return flow;
  return is_text(*out) ? Flow::kGo : stop(BreakReason::k_raises, "text that is no str");
}

Flow Tracer::format_value(Value* value, int conversion, Value* spec, Value** out) {
  if (conversion != 0) {
    Flow flow = text_value(value, conversion, &value);
    if (flow != Flow::kGo) return flow;
  }
  value = force(value);
  if (value->kind == ValueKind::kTensor) return stop(BreakReason::k_repr_tensor, "formatting a tensor");
  if (spec == nullptr && is_text(value)) return *out = value, Flow::kGo;
  Value* empty = constant_owned(PyUnicode_New(0, 0));
  bool plain = spec == nullptr ||
               (spec->is_constant() && PyUnicode_CheckExact(spec->object) && PyUnicode_GET_LENGTH(spec->object) == 0);
  if (plain && is_own_singleton(value)) return text_value(value, 1, out);
  if (value->kind == ValueKind::kObject && !is_pure_object(value)) {
    Value* method = nullptr;
    if (Flow flow = text_as_atom(*this, value, interned.format, spec == nullptr ? empty : spec, out);
        flow != Flow::kGo || *out != nullptr)
      return flow;
    if (!own_method(*this, value, interned.format, &method)) return stop(BreakReason::k_instruction, "formatting");
    if (method == nullptr) return plain ? text_value(value, 1, out) : stop(BreakReason::k_raises, "formatting");
    if (Flow flow = call_now(method, {value, spec == nullptr ? empty : spec}, out); flow != Flow::kGo) return flow;
    return is_text(*out) ? Flow::kGo : stop(BreakReason::k_raises, "text that is no str");
  }
  return pure_format(value, spec == nullptr ? empty : spec, out);
}

Flow Tracer::join_text(std::vector<Value*> parts, Value** out) {
  static PyObject* join = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyUnicode_Type), "join");
  for (Value*& part : parts) part = force(part);
  bool handled = false;
  Flow flow = pure_apply(join, {constant_owned(PyUnicode_New(0, 0)), tuple_of(parts)}, nullptr, /*containers=*/true,
                         out, &handled);
  return handled || flow != Flow::kGo ? flow : stop(BreakReason::k_instruction, "joining text");
}

}  // namespace kintsugi
