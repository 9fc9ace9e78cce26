// Making containers in the trace, and calls of their methods through their types.
#include <cstring>

#include "jit/containers.h"

namespace kintsugi {

namespace {

using Arguments = std::vector<Value*>;

Flow make_dict(Tracer& t, Arguments& a, PyObject* names, Value** out) {
  Value *dict = t.make(ValueKind::kDict), *ignored = nullptr;
  *out = dict;
  return t.container_method(dict, interned.update, a, names, &ignored);
}

Flow dict_from_keys(Tracer& t, Arguments& a, Value** out) {
  Arguments keys;
  if (a.empty() || a.size() > 2) return t.stop(BreakReason::k_raises, "arguments of fromkeys");
  if (a[0]->kind == ValueKind::kDict && t.has_hashed_keys(a[0])) return t.stop(BreakReason::k_container, "fromkeys");
  if (!t.drain(a[0], &keys)) return t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_container, "fromkeys");
  *out = t.make(ValueKind::kDict);
  for (Value* key : keys)
    if (Flow flow = t.dict_set_item(*out, t.force(key), a.size() == 2 ? a[1] : t.none()); flow != Flow::kGo)
      return flow;
  return Flow::kGo;
}

bool is_of(PyTypeObject* type, Value* value) {
  if (type == &PyList_Type) return value->kind == ValueKind::kList;
  if (type == &PyDict_Type) return value->kind == ValueKind::kDict;
  if (type == &PyTuple_Type) return value->kind == ValueKind::kTuple;
  if (type == &PySet_Type || type == &PyFrozenSet_Type)
    return value->kind == ValueKind::kSet
               ? value->type == type
               : value->is_constant() && Py_TYPE(value->object) == type && PyFrozenSet_CheckExact(value->object);
  return false;
}

}  // namespace

Flow Tracer::call_container(PyObject* callable, std::vector<Value*>& arguments, PyObject* names, Value** out,
                            bool* handled) {
  auto* type = reinterpret_cast<PyTypeObject*>(callable);
  size_t named = names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names));
  if (Flow flow = call_subclass(*this, callable, arguments, names, out, handled); *handled || flow != Flow::kGo)
    return flow;
  *handled = true;
  if (type == &PyDict_Type) return make_dict(*this, arguments, names, out);
  if ((type == &PySet_Type || type == &PyFrozenSet_Type) && named == 0) return make_set(*this, type, arguments, out);
  if (Py_TYPE(callable) == &PyMethodDescr_Type && !arguments.empty()) {
    auto* method = reinterpret_cast<PyMethodDescrObject*>(callable);
    PyTypeObject* owner = method->d_common.d_type;
    if (is_of(owner, arguments[0])) {
      std::vector<Value*> rest(arguments.begin() + 1, arguments.end());
      return container_method(arguments[0], method->d_common.d_name, rest, names, out);
    }
    if (owner == &PyList_Type || owner == &PyDict_Type || owner == &PySet_Type)
      return stop(BreakReason::k_method, method->d_method->ml_name);
  }
  if (PyCFunction_CheckExact(callable) && PyCFunction_GET_SELF(callable) == reinterpret_cast<PyObject*>(&PyDict_Type) &&
      strcmp(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name, "fromkeys") == 0 && named == 0)
    return dict_from_keys(*this, arguments, out);
  *handled = false;
  return Flow::kGo;
}

}  // namespace kintsugi
