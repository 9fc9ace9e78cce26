#include "runtime/return_rules.h"

#include "jit/bytecode.h"
#include "runtime/exits.h"

namespace kintsugi {

namespace {

// The attribute of a kAttribute call; below the object whose attribute it is, on the caller's stack.
PyObject* take_attribute_name(Activation& activation, ReturnRule rule, int offset) {
  if (rule == ReturnRule::kNamedAttribute) return activation.stack()[--activation.depth];
  int argument = bytecode_of(activation.code).at(offset).argument;
  return Py_NewRef(PyTuple_GET_ITEM(activation.code->co_names, argument));
}

// Python/bltinmodule.c, builtin___build_class__; the class's name and its cell are on the caller's stack.
bool is_class_of_cell(Activation& activation, PyObject* made) {
  PyObject *cell = activation.stack()[activation.depth - 1], *name = activation.stack()[activation.depth - 2];
  if (!PyType_Check(made) || !PyCell_Check(cell) || PyCell_GET(cell) == made) return true;
  if (PyCell_GET(cell) == nullptr)
    PyErr_Format(PyExc_RuntimeError,
                 "__class__ not set defining %.200R as %.200R. Was __classcell__ propagated to type.__new__?", name,
                 made);
  else
    PyErr_Format(PyExc_TypeError, "__class__ set to %.200R defining %.200R as %.200R", PyCell_GET(cell), name, made);
  return false;
}

}  // namespace

// A callee raised. What looks attributes up tells an AttributeError of whose and which (Objects/object.c).
void apply_rule_to_error(Activation& activation, ReturnRule rule, int offset) {
  if (rule != ReturnRule::kAttribute && rule != ReturnRule::kNamedAttribute) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (PyErr_GivenExceptionMatches(type, PyExc_AttributeError)) {
    PyErr_NormalizeException(&type, &value, &traceback);
    Ref name(take_attribute_name(activation, rule, offset));
    auto* error = reinterpret_cast<PyAttributeErrorObject*>(value);
    if (PyErr_GivenExceptionMatches(value, PyExc_AttributeError) && error->name == nullptr && error->obj == nullptr) {
      error->name = name.release();
      error->obj = Py_NewRef(activation.stack()[activation.depth - 1]);
    }
  }
  PyErr_Restore(type, value, traceback);
}

// What the result of a continued callee becomes for its caller. Takes the result.
bool apply_rule(Activation& activation, ReturnRule rule, const std::string& refusal, PyObject* result_stolen) {
  Ref result(result_stolen);
  if (result.get() == Py_NotImplemented && !refusal.empty()) {
    raise_from_text(refusal);
    return false;
  }
  if (rule == ReturnRule::kDiscard) return true;
  if (rule == ReturnRule::kInit) {  // Objects/typeobject.c, slot_tp_init
    if (result.get() == Py_None) return true;
    PyErr_Format(PyExc_TypeError, "__init__() should return None, not '%.200s'", Py_TYPE(result.get())->tp_name);
    return false;
  }
  if (rule == ReturnRule::kIterator && !PyIter_Check(result.get())) {  // Objects/abstract.c, PyObject_GetIter
    PyErr_Format(PyExc_TypeError, "iter() returned non-iterator of type '%.100s'", Py_TYPE(result.get())->tp_name);
    return false;
  }
  if (rule == ReturnRule::kClass && !is_class_of_cell(activation, result.get())) return false;
  int above = rule == ReturnRule::kNamedAttribute || rule == ReturnRule::kClass ? 2
              : rule == ReturnRule::kAttribute || rule == ReturnRule::kNextOr   ? 1
                                                                                : 0;
  for (; above > 0; --above) Py_DECREF(activation.stack()[--activation.depth]);
  activation.stack()[activation.depth++] = result.release();
  return true;
}

}  // namespace kintsugi
