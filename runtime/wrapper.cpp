#include "runtime/wrapper.h"

#include <structmember.h>

#include <cstddef>

namespace kintsugi {

namespace {

PyObject* kind_name() {
  static PyObject* name = PyUnicode_InternFromString("_kind");
  return name;
}

const WrapperKind& kind_of(PyObject* self) {
  PyObject* capsule = PyDict_GetItemWithError(Py_TYPE(self)->tp_dict, kind_name());
  return *static_cast<const WrapperKind*>(PyCapsule_GetPointer(capsule, nullptr));
}
Wrapper* as_wrapper(PyObject* self) { return reinterpret_cast<Wrapper*>(self); }

// Attributes of its own first, then the function's: __defaults__, __code__, __closure__, ...
PyObject* get_attribute(PyObject* self, PyObject* name) {
  PyObject* value = PyObject_GenericGetAttr(self, name);
  if (value != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return value;
  PyObject* function = as_wrapper(self)->function;
  if (function == nullptr) return nullptr;
  PyErr_Clear();
  return PyObject_GetAttr(function, name);
}

PyObject* bind(PyObject* self, PyObject* object, PyObject*) {
  return object == nullptr || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

PyObject* represent(PyObject* self) {
  Ref name(PyObject_GetAttrString(self, "__qualname__"));
  if (!name) {
    PyErr_Clear();
    return PyUnicode_FromFormat("<%s %R>", kind_of(self).word, as_wrapper(self)->function);
  }
  return PyUnicode_FromFormat("<%s function %S at %p>", kind_of(self).word, name.get(), self);
}

PyObject* copy(PyObject* self, PyObject*) { return Py_NewRef(self); }

// Found under its own name: by name, as functions are. Else as the call that makes it.
PyObject* reduce(PyObject* self, PyObject*) {
  Ref name(PyObject_GetAttrString(self, "__qualname__"));
  Ref module_name(name ? PyObject_GetAttrString(self, "__module__") : nullptr);
  Ref found(module_name && PyUnicode_Check(module_name.get()) ? PyImport_Import(module_name.get()) : nullptr);
  Ref parts(found ? PyObject_CallMethod(name.get(), "split", "s", ".") : nullptr);
  for (Py_ssize_t i = 0; parts && found && i < PyList_GET_SIZE(parts.get()); ++i)
    found = Ref(PyObject_GetAttr(found.get(), PyList_GET_ITEM(parts.get(), i)));
  PyErr_Clear();
  if (found.get() == self) return name.release();
  return kind_of(self).rebuild(as_wrapper(self));
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(as_wrapper(self)->function);
  Py_VISIT(as_wrapper(self)->original);
  Py_VISIT(as_wrapper(self)->dict);
  auto visit_rest = kind_of(self).visit;
  return visit_rest == nullptr ? 0 : visit_rest(as_wrapper(self), visit, arg);
}

// The function stays until the end: a wrapper that is called while its cycle is taken apart still has to answer.
int clear(PyObject* self) {
  Py_CLEAR(as_wrapper(self)->dict);
  return 0;
}

void deallocate(PyObject* self) {
  Wrapper* wrapper = as_wrapper(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (wrapper->weakrefs != nullptr) PyObject_ClearWeakRefs(self);
  if (kind_of(self).release != nullptr) kind_of(self).release(wrapper);
  Py_CLEAR(wrapper->dict);
  Py_CLEAR(wrapper->function);
  Py_CLEAR(wrapper->original);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMethodDef methods[] = {{"__copy__", copy, METH_NOARGS, nullptr},
                         {"__deepcopy__", copy, METH_O, nullptr},
                         {"__reduce__", reduce, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(Wrapper, vectorcall), READONLY, nullptr},
                         {"__dictoffset__", T_PYSSIZET, offsetof(Wrapper, dict), READONLY, nullptr},
                         {"__weaklistoffset__", T_PYSSIZET, offsetof(Wrapper, weakrefs), READONLY, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef attributes[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};

}  // namespace

PyTypeObject* make_wrapper_type(const WrapperKind* kind) {
  PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                         {Py_tp_getattro, reinterpret_cast<void*>(get_attribute)},
                         {Py_tp_setattro, reinterpret_cast<void*>(PyObject_GenericSetAttr)},
                         {Py_tp_descr_get, reinterpret_cast<void*>(bind)},
                         {Py_tp_repr, reinterpret_cast<void*>(represent)},
                         {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                         {Py_tp_clear, reinterpret_cast<void*>(clear)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                         {Py_tp_methods, methods},
                         {Py_tp_members, members},
                         {Py_tp_getset, attributes},
                         {Py_tp_doc, const_cast<char*>(kind->document)},
                         {0, nullptr}};
  constexpr unsigned kFlags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                              Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION |
                              Py_TPFLAGS_IMMUTABLETYPE;
  PyType_Spec spec = {kind->name, kind->size, 0, kFlags, slots};
  auto* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  Ref capsule(type ? PyCapsule_New(const_cast<WrapperKind*>(kind), nullptr, nullptr) : nullptr);
  if (!capsule || PyDict_SetItem(type->tp_dict, kind_name(), capsule.get()) < 0) return nullptr;
  return type;
}

PyObject* original_of(Wrapper* wrapper) { return wrapper->original != nullptr ? wrapper->original : wrapper->function; }

Wrapper* make_wrapper(PyTypeObject* type, PyObject* function, vectorcallfunc vectorcall, PyObject* original) {
  Ref self(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  Wrapper* wrapper = as_wrapper(self.get());
  wrapper->vectorcall = vectorcall;
  wrapper->function = Py_NewRef(function);
  wrapper->original = Py_XNewRef(original);
  wrapper->dict = PyDict_New();
  if (wrapper->dict == nullptr) return nullptr;
  // As functools.wraps does: the function's own attributes, then the names.
  Ref own(PyObject_GetAttrString(function, "__dict__"));
  if (!own) PyErr_Clear();
  if (own && PyDict_Update(wrapper->dict, own.get()) < 0) return nullptr;
  for (const char* name : {"__module__", "__name__", "__qualname__", "__doc__", "__annotations__"}) {
    Ref value(PyObject_GetAttrString(function, name));
    if (!value) PyErr_Clear();
    if (value && PyDict_SetItemString(wrapper->dict, name, value.get()) < 0) return nullptr;
  }
  if (PyDict_SetItemString(wrapper->dict, "__wrapped__", original_of(wrapper)) < 0) return nullptr;
  return reinterpret_cast<Wrapper*>(self.release());
}

}  // namespace kintsugi
