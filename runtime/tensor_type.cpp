// The Python type Tensor: its slots. Operators go to the ops; indexing, printing and the buffer protocol have their own
// files.
#include <opcode.h>

#include <string>

#include "runtime/exchange.h"
#include "runtime/tensor_rows.h"

namespace kintsugi {

namespace {

// ---- Attributes and the collector -----------------------------------------------------------------------------------

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(as_tensor(self)->dict);
  return 0;
}

int clear(PyObject* self) {
  Py_CLEAR(as_tensor(self)->dict);
  return 0;
}

// Attributes make cycles possible: from the first one on the collector watches the tensor.
void track_with_dict(PyObject* self) {
  if (as_tensor(self)->dict != nullptr && !PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
}

int set_attribute(PyObject* self, PyObject* name, PyObject* value) {
  int status = PyObject_GenericSetAttr(self, name, value);
  track_with_dict(self);
  return status;
}

}  // namespace

PyObject* get_attribute_dict(PyObject* self, void* closure) {
  PyObject* dict = PyObject_GenericGetDict(self, closure);
  track_with_dict(self);
  return dict;
}

int set_attribute_dict(PyObject* self, PyObject* value, void* closure) {
  int status = PyObject_GenericSetDict(self, value, closure);
  track_with_dict(self);
  return status;
}

namespace {

// ---- Operators ------------------------------------------------------------------------------------------------------

// An operator slot. Operands that are neither tensors nor numbers get NotImplemented, so that the other class has its
// say.
PyObject* binary(Op op, PyObject* left, PyObject* right) {
  OperandValue values[2];
  if (!operand_of(left, &values[0]) || !operand_of(right, &values[1])) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NOTIMPLEMENTED;
  }
  for (PyObject* object : {left, right}) {
    if (is_tensor(object) && !has_memory(as_tensor(object))) return nullptr;
  }
  return apply_plain(op, values, 2);
}

template <Op op>
PyObject* binary_slot(PyObject* left, PyObject* right) {
  return binary(op, left, right);
}

// Slots whose meaning needs a parse: in-place forms, powers, operators by bits.
PyObject* parsed_binary(int operation, PyObject* left, PyObject* right) {
  ParsedCall call;
  if (parse_binary(operation, left, right, &call)) return execute(call);
  if (PyErr_Occurred()) return nullptr;
  Py_RETURN_NOTIMPLEMENTED;
}

template <int operation>
PyObject* parsed_slot(PyObject* left, PyObject* right) {
  return parsed_binary(operation, left, right);
}

template <int operation>
PyObject* power_slot(PyObject* left, PyObject* right, PyObject* modulus) {
  if (modulus != Py_None) {
    PyErr_SetString(PyExc_TypeError, "pow() of a Tensor takes no modulus");
    return nullptr;
  }
  return parsed_binary(operation, left, right);
}

template <Unary operation>
PyObject* unary_slot(PyObject* operand) {
  ParsedCall call;
  if (!parse_unary(operation, operand, &call)) return nullptr;
  return execute(call);
}

PyObject* compare(PyObject* left, PyObject* right, int comparison) {
  static constexpr Op ops[] = {Op::k_lt, Op::k_le, Op::k_eq, Op::k_ne, Op::k_gt, Op::k_ge};
  return binary(ops[comparison], left, right);
}

Ref single_item(PyObject* self, const char* what) {
  if (as_tensor(self)->layout->count != 1) {
    std::string text = to_text(*as_tensor(self)->layout);
    PyErr_Format(PyExc_ValueError, "%s needs a tensor with one element, this one has %lld (%s)", what,
                 static_cast<long long>(as_tensor(self)->layout->count), text.c_str());
    return Ref();
  }
  if (!has_memory(as_tensor(self))) return Ref();
  return Ref(read_element(as_tensor(self)->layout->dtype, as_tensor(self)->data));
}

PyObject* to_float(PyObject* self) {
  Ref item = single_item(self, "float()");
  return item ? PyNumber_Float(item.get()) : nullptr;
}

PyObject* to_int(PyObject* self) {
  Ref item = single_item(self, "int()");
  return item ? PyNumber_Long(item.get()) : nullptr;
}

PyObject* to_index(PyObject* self) {
  const Layout* layout = as_tensor(self)->layout;
  if (info(layout->dtype).kind != DTypeKind::kIntegerKind || layout->count != 1) {
    PyErr_Format(PyExc_TypeError, "only an integer tensor with one element can be used as an index, not %s",
                 to_text(*layout).c_str());
    return nullptr;
  }
  return single_item(self, "an index").release();
}

int truth(PyObject* self) {
  const Layout* layout = as_tensor(self)->layout;
  if (layout->count != 1) {
    PyErr_Format(PyExc_RuntimeError, "the truth value of a tensor with %lld elements is ambiguous: use any() or all()",
                 static_cast<long long>(layout->count));
    return -1;
  }
  Ref item = single_item(self, "bool()");
  return item ? PyObject_IsTrue(item.get()) : -1;
}

Py_ssize_t length(PyObject* self) {
  const Layout* layout = as_tensor(self)->layout;
  if (layout->rank > 0) return layout->sizes[0];
  PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
  return -1;
}

Py_hash_t hash_identity(PyObject* self) { return _Py_HashPointer(self); }

int contains(PyObject* self, PyObject* value) {
  Ref equal(compare(self, value, Py_EQ));
  if (!equal) return -1;
  if (!is_tensor(equal.get())) {
    PyErr_Format(PyExc_TypeError, "'in' of a Tensor needs a Tensor or a number, not %.200s", Py_TYPE(value)->tp_name);
    return -1;
  }
  PyObject* operand = equal.get();
  Attributes attributes;
  attributes.dims = (1u << as_tensor(operand)->layout->rank) - 1;
  Ref any(apply_op(Op::k_any, &operand, 1, attributes));
  return any ? truth(any.get()) : -1;
}

PyObject* iterate(PyObject* self) {
  if (as_tensor(self)->layout->rank > 0) return PySeqIter_New(self);
  PyErr_SetString(PyExc_TypeError, "iteration over a 0-d tensor");
  return nullptr;
}

PyNumberMethods make_number_methods() {
  PyNumberMethods slots{};
  slots.nb_add = binary_slot<Op::k_add>;
  slots.nb_subtract = binary_slot<Op::k_sub>;
  slots.nb_multiply = binary_slot<Op::k_mul>;
  slots.nb_true_divide = binary_slot<Op::k_div>;
  slots.nb_floor_divide = binary_slot<Op::k_floor_divide>;
  slots.nb_remainder = binary_slot<Op::k_remainder>;
  slots.nb_matrix_multiply = parsed_slot<NB_MATRIX_MULTIPLY>;
  slots.nb_power = power_slot<NB_POWER>;
  slots.nb_and = parsed_slot<NB_AND>;
  slots.nb_or = parsed_slot<NB_OR>;
  slots.nb_xor = parsed_slot<NB_XOR>;
  slots.nb_lshift = parsed_slot<NB_LSHIFT>;
  slots.nb_rshift = parsed_slot<NB_RSHIFT>;
  slots.nb_inplace_add = parsed_slot<NB_INPLACE_ADD>;
  slots.nb_inplace_subtract = parsed_slot<NB_INPLACE_SUBTRACT>;
  slots.nb_inplace_multiply = parsed_slot<NB_INPLACE_MULTIPLY>;
  slots.nb_inplace_true_divide = parsed_slot<NB_INPLACE_TRUE_DIVIDE>;
  slots.nb_inplace_floor_divide = parsed_slot<NB_INPLACE_FLOOR_DIVIDE>;
  slots.nb_inplace_remainder = parsed_slot<NB_INPLACE_REMAINDER>;
  slots.nb_inplace_power = power_slot<NB_INPLACE_POWER>;
  slots.nb_inplace_and = parsed_slot<NB_INPLACE_AND>;
  slots.nb_inplace_or = parsed_slot<NB_INPLACE_OR>;
  slots.nb_inplace_xor = parsed_slot<NB_INPLACE_XOR>;
  slots.nb_inplace_lshift = parsed_slot<NB_INPLACE_LSHIFT>;
  slots.nb_inplace_rshift = parsed_slot<NB_INPLACE_RSHIFT>;
  slots.nb_negative = unary_slot<Unary::kNegative>;
  slots.nb_positive = unary_slot<Unary::kPositive>;
  slots.nb_absolute = unary_slot<Unary::kAbsolute>;
  slots.nb_invert = unary_slot<Unary::kInvert>;
  slots.nb_bool = truth;
  slots.nb_float = to_float;
  slots.nb_int = to_int;
  slots.nb_index = to_index;
  return slots;
}

PyNumberMethods number_methods = make_number_methods();
PySequenceMethods sequence_methods = {.sq_length = length, .sq_item = get_element, .sq_contains = contains};
PyMappingMethods mapping_methods = {.mp_length = length, .mp_subscript = get_item, .mp_ass_subscript = set_item};
PyBufferProcs buffer_methods = {.bf_getbuffer = export_buffer, .bf_releasebuffer = release_exported_buffer};

PyTypeObject make_type() {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "kintsugi.Tensor";
  type.tp_doc = "An n-dimensional array of one dtype. Made by kintsugi.tensor, zeros, arange, from_numpy and the like.";
  type.tp_basicsize = sizeof(TensorObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
  type.tp_dealloc = deallocate_tensor;
  type.tp_traverse = traverse;
  type.tp_clear = clear;
  type.tp_repr = tensor_repr;
  type.tp_hash = hash_identity;  // though == compares elements
  type.tp_richcompare = compare;
  type.tp_iter = iterate;
  type.tp_as_number = &number_methods;
  type.tp_as_sequence = &sequence_methods;
  type.tp_as_mapping = &mapping_methods;
  type.tp_as_buffer = &buffer_methods;
  type.tp_setattro = set_attribute;
  type.tp_weaklistoffset = offsetof(TensorObject, weakrefs);
  type.tp_dictoffset = offsetof(TensorObject, dict);
  return type;
}

}  // namespace

PyTypeObject TensorType = make_type();

bool init_tensor(Borrowed module) {
  if (!init_types(module) || !init_rows(module)) return false;
  TensorType.tp_methods = tensor_method_list();
  TensorType.tp_getset = tensor_attribute_list();
  if (PyType_Ready(&TensorType) < 0) return false;
  // NumPy leaves operators between its arrays or scalars and our tensors to us.
  if (PyDict_SetItemString(TensorType.tp_dict, "__array_ufunc__", Py_None) < 0) return false;
  PyType_Modified(&TensorType);
  return PyModule_AddObjectRef(module, "Tensor", reinterpret_cast<PyObject*>(&TensorType)) == 0;
}

}  // namespace kintsugi
