// The small types around tensors: dtype objects (kintsugi.float32), the CPU device, and Size, the tuple of a shape.
#include <array>
#include <cstring>
#include <string>

#include "runtime/tensor_rows.h"

namespace kintsugi {

namespace {

// ---- dtype: one object for each row of dtypes.def -------------------------------------------------------------------

struct DTypeObject {
  PyObject ob_base;
  DType dtype;
};

PyTypeObject dtype_type = {PyVarObject_HEAD_INIT(nullptr, 0)};
std::array<DTypeObject, kDTypeCount> dtype_objects;

DType dtype_of(PyObject* self) { return reinterpret_cast<DTypeObject*>(self)->dtype; }

PyObject* dtype_repr(PyObject* self) { return PyUnicode_FromFormat("kintsugi.%s", info(dtype_of(self)).name); }

PyObject* dtype_new(PyTypeObject*, PyObject* arguments, PyObject* keywords) {
  const char* name;
  static const char* const names[] = {"name", nullptr};
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "s:dtype", const_cast<char**>(names), &name)) return nullptr;
  DType dtype;
  if (parse_dtype(name, &dtype)) return Py_NewRef(dtype_object(dtype));
  PyErr_Format(PyExc_TypeError, "there is no dtype %s", name);
  return nullptr;
}

PyObject* dtype_reduce(PyObject* self, PyObject*) {
  return Py_BuildValue("O(s)", &dtype_type, info(dtype_of(self)).name);
}
PyObject* dtype_bytes(PyObject* self, void*) { return PyLong_FromSize_t(info(dtype_of(self)).bytes); }
PyObject* dtype_is_floating(PyObject* self, void*) {
  return PyBool_FromLong(info(dtype_of(self)).kind == DTypeKind::kFloatingKind);
}

PyMethodDef dtype_methods[] = {{"__reduce__", dtype_reduce, METH_NOARGS, "For pickle."}, {}};
PyGetSetDef dtype_attributes[] = {{"itemsize", dtype_bytes, nullptr, "Bytes of one element.", nullptr},
                                  {"is_floating_point", dtype_is_floating, nullptr, "Whether it is floating.", nullptr},
                                  {}};

bool init_dtypes(Borrowed module) {
  dtype_type.tp_name = "kintsugi.dtype";
  dtype_type.tp_doc = "The type of a tensor's elements.";
  dtype_type.tp_basicsize = sizeof(DTypeObject);
  dtype_type.tp_flags = Py_TPFLAGS_DEFAULT;
  dtype_type.tp_repr = dtype_repr;
  dtype_type.tp_new = dtype_new;
  dtype_type.tp_methods = dtype_methods;
  dtype_type.tp_getset = dtype_attributes;
  if (PyType_Ready(&dtype_type) < 0) return false;
  if (PyModule_AddObjectRef(module, "dtype", reinterpret_cast<PyObject*>(&dtype_type)) < 0) return false;
  for (int i = 0; i < kDTypeCount; ++i) {
    DTypeObject& object = dtype_objects[i];
    PyObject_Init(&object.ob_base, &dtype_type);  // this reference is never given up
    object.dtype = static_cast<DType>(i);
    if (PyModule_AddObjectRef(module, info(object.dtype).name, &object.ob_base) < 0) return false;
  }
  struct Alias {
    const char* name;
    DType dtype;
  };
  for (const Alias& alias : {Alias{"float", DType::k_float32}, Alias{"double", DType::k_float64},
                             Alias{"int", DType::k_int32}, Alias{"long", DType::k_int64}}) {
    if (PyModule_AddObjectRef(module, alias.name, dtype_object(alias.dtype)) < 0) return false;
  }
  return true;
}

// ---- device: there is one so far ------------------------------------------------------------------------------------

PyTypeObject device_type = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyObject cpu_object;

bool is_cpu_name(Borrowed object) {
  return PyUnicode_Check(object) && (PyUnicode_CompareWithASCIIString(object, "cpu") == 0 ||
                                     PyUnicode_CompareWithASCIIString(object, "cpu:0") == 0);
}

PyObject* device_repr(PyObject*) { return PyUnicode_FromString("device(type='cpu')"); }
PyObject* device_str(PyObject*) { return PyUnicode_FromString("cpu"); }
PyObject* device_kind(PyObject*, void*) { return PyUnicode_FromString("cpu"); }
PyObject* device_index(PyObject*, void*) { Py_RETURN_NONE; }
PyObject* device_reduce(PyObject*, PyObject*) { return Py_BuildValue("O(s)", &device_type, "cpu"); }

PyObject* device_new(PyTypeObject*, PyObject* arguments, PyObject* keywords) {
  PyObject* type;
  static const char* const names[] = {"type", nullptr};
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O:device", const_cast<char**>(names), &type)) return nullptr;
  return check_device(type) ? Py_NewRef(cpu_device()) : nullptr;
}

PyMethodDef device_methods[] = {{"__reduce__", device_reduce, METH_NOARGS, "For pickle."}, {}};
PyGetSetDef device_attributes[] = {{"type", device_kind, nullptr, "'cpu'", nullptr},
                                   {"index", device_index, nullptr, "None: there is one.", nullptr},
                                   {}};

bool init_device(Borrowed module) {
  device_type.tp_name = "kintsugi.device";
  device_type.tp_doc = "Where a tensor's memory is: 'cpu'.";
  device_type.tp_basicsize = sizeof(PyObject);
  device_type.tp_flags = Py_TPFLAGS_DEFAULT;
  device_type.tp_repr = device_repr;
  device_type.tp_str = device_str;
  device_type.tp_new = device_new;
  device_type.tp_methods = device_methods;
  device_type.tp_getset = device_attributes;
  if (PyType_Ready(&device_type) < 0) return false;
  PyObject_Init(&cpu_object, &device_type);  // this reference is never given up
  return PyModule_AddObjectRef(module, "device", reinterpret_cast<PyObject*>(&device_type)) == 0;
}

// ---- Size: a tuple that prints as Size([2, 3]) ----------------------------------------------------------------------

PyTypeObject size_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

PyObject* size_repr(PyObject* self) {
  Ref items(PySequence_List(self));
  return items ? PyUnicode_FromFormat("Size(%R)", items.get()) : nullptr;
}

PyObject* size_numel(PyObject* self, PyObject*) {
  Ref count(PyLong_FromLong(1));
  for (Py_ssize_t i = 0; count && i < PyTuple_GET_SIZE(self); ++i) {
    count = Ref(PyNumber_Multiply(count.get(), PyTuple_GET_ITEM(self, i)));
  }
  return count.release();
}

// Slices of a Size are Sizes.
PyObject* size_subscript(PyObject* self, PyObject* key) {
  Ref item(PyTuple_Type.tp_as_mapping->mp_subscript(self, key));
  if (!item || !PySlice_Check(key)) return item.release();
  return PyObject_CallOneArg(reinterpret_cast<PyObject*>(&size_type), item.get());
}

PyMethodDef size_methods[] = {{"numel", size_numel, METH_NOARGS, "The product of the sizes."}, {}};
PyMappingMethods size_mapping;

bool init_size(Borrowed module) {
  size_mapping = *PyTuple_Type.tp_as_mapping;
  size_mapping.mp_subscript = size_subscript;
  size_type.tp_name = "kintsugi.Size";
  size_type.tp_doc = "The sizes of a tensor's dimensions.";
  size_type.tp_base = &PyTuple_Type;
  size_type.tp_basicsize = PyTuple_Type.tp_basicsize;
  size_type.tp_itemsize = PyTuple_Type.tp_itemsize;
  size_type.tp_flags = Py_TPFLAGS_DEFAULT;
  size_type.tp_repr = size_repr;
  size_type.tp_methods = size_methods;
  size_type.tp_as_mapping = &size_mapping;
  if (PyType_Ready(&size_type) < 0) return false;
  return PyModule_AddObjectRef(module, "Size", reinterpret_cast<PyObject*>(&size_type)) == 0;
}

}  // namespace

PyObject* dtype_object(DType dtype) { return &dtype_objects[static_cast<size_t>(dtype)].ob_base; }

PyObject* cpu_device() { return &cpu_object; }

PyObject* make_size(const Layout& layout) {
  Ref size(size_type.tp_alloc(&size_type, layout.rank));
  for (int d = 0; size && d < layout.rank; ++d) {
    PyObject* item = PyLong_FromLongLong(layout.sizes[d]);
    if (item == nullptr) return nullptr;
    PyTuple_SET_ITEM(size.get(), d, item);
  }
  return size.release();
}

bool read_dtype(Borrowed object, DType* out) {
  if (Py_IS_TYPE(object, &dtype_type)) {
    *out = dtype_of(object);
    return true;
  }
  PyTypeObject* type = reinterpret_cast<PyTypeObject*>(object);
  if (type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type) {
    *out = type == &PyFloat_Type ? DType::k_float64 : type == &PyLong_Type ? DType::k_int64 : DType::k_bool;
    return true;
  }
  PyErr_Format(PyExc_TypeError, "a dtype is kintsugi.bool, int32, int64, float32 or float64, not %.200R", object);
  return false;
}

bool is_device(Borrowed object) { return Py_IS_TYPE(object, &device_type) || PyUnicode_Check(object); }

bool check_device(Borrowed object) {
  if (object == nullptr || Py_IS_TYPE(object, &device_type) || is_cpu_name(object)) return true;
  PyErr_Format(PyUnicode_Check(object) ? PyExc_RuntimeError : PyExc_TypeError, "the only device is 'cpu', not %.200R",
               object);
  return false;
}

bool init_types(Borrowed module) { return init_dtypes(module) && init_device(module) && init_size(module); }

}  // namespace kintsugi
