#include "runtime/grad_mode.h"

#include <atomic>

#include "guards/object_facts.h"
#include "runtime/marks.h"

namespace kintsugi {

namespace {

// Of each thread, with a count of those that differ from the default one: native guards look at that alone.
std::atomic<int32_t> threads_without_grad = 0;
struct ThreadMode {
  int mode = 0;
  void set(int wanted) {
    threads_without_grad += (wanted != 0) - (mode != 0);
    mode = wanted;
  }
  ~ThreadMode() { set(0); }
};
thread_local ThreadMode thread_mode;

}  // namespace

int grad_mode() { return thread_mode.mode; }
int set_grad_mode(int mode) {
  int before = thread_mode.mode;
  if (before != mode) thread_mode.set(mode);
  return before;
}

uint8_t view_gradients(const Layout& base, int mode) {
  if ((base.gradients & kRequiresGrad) == 0 || mode != 0) return 0;
  bool of_leaf = (base.gradients & kComputed) == 0 || (base.gradients & kLeafView) != 0;
  return kRequiresGrad | kComputed | (of_leaf ? kLeafView : 0);
}

void set_gradients(PyObject* tensor, uint8_t gradients) {
  Layout*& layout = as_tensor(tensor)->layout;
  if (layout->gradients == gradients) return;
  Layout* changed = intern_gradients(*layout, gradients);
  release(std::exchange(layout, changed));
}

bool is_leaf_in_place(const Layout& target, int mode) {
  if (mode != 0 || (target.gradients & kRequiresGrad) == 0) return false;
  return (target.gradients & kComputed) == 0 || (target.gradients & kLeafView) != 0;
}

bool check_gradients_in_place(const TensorObject* target, bool part) {
  if (!is_leaf_in_place(*target->layout, grad_mode())) return true;
  bool view = part || (target->layout->gradients & kLeafView) != 0;
  PyErr_SetString(PyExc_RuntimeError,
                  view ? "a view of a leaf Variable that requires grad is being used in an in-place operation."
                       : "a leaf Variable that requires grad is being used in an in-place operation.");
  return false;
}

bool any_gradients(const CallOperand* operands, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (is_tensor(operands[i].object) && (as_tensor(operands[i].object)->layout->gradients & kRequiresGrad) != 0)
      return true;
  return false;
}

void take_gradients(TensorObject* target, const CallOperand* operands, size_t count) {
  bool floats = info(target->layout->dtype).kind == DTypeKind::kFloatingKind;
  if (grad_mode() != 0 || !floats || (target->layout->gradients & kRequiresGrad) != 0) return;
  if (any_gradients(operands, count)) set_gradients(&target->ob_base, kRequiresGrad | kComputed);
}

namespace {

// ---- Methods and attributes ----------------------------------------------------------------------------------------

const Layout& layout_of(const Arguments& arguments) { return *as_tensor(arguments.values[0])->layout; }
bool is_leaf(const Layout& layout) {
  return (layout.gradients & kRequiresGrad) == 0 || (layout.gradients & kComputed) == 0;
}

bool change(PyObject* tensor, bool wanted) {
  const Layout& layout = *as_tensor(tensor)->layout;
  if (wanted && info(layout.dtype).kind != DTypeKind::kFloatingKind) {
    PyErr_SetString(PyExc_RuntimeError, "only Tensors of floating point dtype can require gradients");
    return false;
  }
  if (!is_leaf(layout)) {
    if (wanted) return true;
    PyErr_SetString(
        PyExc_RuntimeError,
        "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
        "subgraph that doesn't require differentiation use var_no_grad = var.detach().");
    return false;
  }
  set_gradients(tensor, static_cast<uint8_t>((layout.gradients & kParameter) | (wanted ? kRequiresGrad : 0)));
  return true;
}

PyObject* requires_grad_value(const Arguments& arguments) {
  return PyBool_FromLong(layout_of(arguments).gradients & kRequiresGrad);
}
PyObject* is_leaf_value(const Arguments& arguments) { return PyBool_FromLong(is_leaf(layout_of(arguments))); }
PyObject* is_parameter_value(const Arguments& arguments) {
  return PyBool_FromLong(layout_of(arguments).gradients & kParameter);
}
PyObject* none_value(const Arguments&) { Py_RETURN_NONE; }

PyObject* is_floating_value(const Arguments& arguments) {
  return PyBool_FromLong(info(layout_of(arguments).dtype).kind == DTypeKind::kFloatingKind);
}

PyObject* set_requires_grad(const Arguments& arguments) {
  PyObject* self = arguments.values[0];
  int wanted = arguments.values[1] == nullptr ? 1 : PyObject_IsTrue(arguments.values[1]);
  if (wanted < 0 || !change(self, wanted != 0)) return nullptr;
  return Py_NewRef(self);
}

PyObject* retain_grad(const Arguments& arguments) {
  if ((layout_of(arguments).gradients & kRequiresGrad) != 0) Py_RETURN_NONE;
  PyErr_SetString(PyExc_RuntimeError, "can't retain_grad on Tensor that has requires_grad=False");
  return nullptr;
}

PyObject* backward(const Arguments& arguments) {
  if ((layout_of(arguments).gradients & kRequiresGrad) == 0) {
    PyErr_SetString(PyExc_RuntimeError, "element 0 of tensors does not require grad and does not have a grad_fn");
    return nullptr;
  }
  PyErr_SetString(PyExc_NotImplementedError,
                  "backward(): derivatives are not there yet; requires_grad is kept as a flag only");
  return nullptr;
}

// Another tensor over the same memory.
bool parse_parameter(ParsedCall* call) {
  TensorObject* tensor;
  bool requires_grad;
  if (!read_tensor(*call, 0, &tensor) || !read_bool(*call, 1, true, &requires_grad)) return false;
  if (requires_grad && info(tensor->layout->dtype).kind != DTypeKind::kFloatingKind) {
    PyErr_SetString(PyExc_RuntimeError, "Only Tensors of floating point and complex dtype can require gradients");
    return false;
  }
  set_view(call, shape_of(*tensor->layout), /*offset=*/0);
  call->gradients = kParameter | (requires_grad ? kRequiresGrad : 0);
  return true;
}

int assign_requires_grad(PyObject* self, PyObject* value, void*) {
  if (value == nullptr) {
    PyErr_SetString(PyExc_AttributeError, "requires_grad of a Tensor cannot be deleted");
    return -1;
  }
  if (!PyBool_Check(value)) {
    PyErr_SetString(PyExc_RuntimeError, "requires_grad must be a bool");
    return -1;
  }
  return change(self, value == Py_True) ? 0 : -1;
}

int assign_grad(PyObject*, PyObject* value, void*) {
  if (value == nullptr || value == Py_None) return 0;
  PyErr_SetString(PyExc_NotImplementedError, "grad: derivatives are not there yet, it is always None");
  return -1;
}

constexpr CallKind kMetadata = CallKind::kMetadata, kOther = CallKind::kOther;
const FunctionRow kMethods[] = {
    {"requires_grad_", "self, requires_grad=True", kOther, nullptr, set_requires_grad,
     "Sets the flag of a leaf; answers itself."},
    {"is_floating_point", "self", kMetadata, nullptr, is_floating_value, "Whether the dtype is a floating one."},
    {"retain_grad", "self", kOther, nullptr, retain_grad, "Nothing: there are no derivatives yet."},
    {"backward", "self, gradient=None, retain_graph=None, create_graph=False, inputs=None", kOther, nullptr, backward,
     "NotImplementedError: there are no derivatives yet."},
};
const FunctionRow kFunctions[] = {
    {"_make_parameter", "data, requires_grad", CallKind::kView, parse_parameter, nullptr, "See kt.nn.Parameter."},
};
const FunctionRow kAttributes[] = {
    {"requires_grad", "self", kMetadata, nullptr, requires_grad_value, "Whether derivatives would be wanted: a flag."},
    {"is_leaf", "self", kMetadata, nullptr, is_leaf_value, "Whether no operation made it, or it requires no gradient."},
    {"_is_parameter", "self", kMetadata, nullptr, is_parameter_value, "Whether it is a kt.nn.Parameter."},
    {"grad", "self", kMetadata, nullptr, none_value, "None: there are no derivatives yet."},
    {"grad_fn", "self", kMetadata, nullptr, none_value, "None: there are no derivatives yet."},
};

// ---- Python's side -------------------------------------------------------------------------------------------------

PyObject* is_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(grad_mode() == 0); }
PyObject* is_inference(PyObject*, PyObject*) { return PyBool_FromLong(grad_mode() == 2); }
PyObject* change_grad_mode(PyObject*, PyObject* wanted) {
  int mode = static_cast<int>(PyLong_AsLong(wanted));
  if (mode < 0 || mode > 2) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "grad modes are 0, 1 and 2");
    return nullptr;
  }
  return PyLong_FromLong(set_grad_mode(mode));
}

// gradients(tensor) -> bits
PyObject* gradients_of(PyObject*, PyObject* tensor) {
  return is_tensor(tensor) ? PyLong_FromLong(as_tensor(tensor)->layout->gradients) : PyLong_FromLong(0);
}

// set_gradients(tensor, bits) -> tensor
PyObject* set_gradients_method(PyObject*, PyObject* args) {
  PyObject* tensor;
  int gradients;
  if (!PyArg_ParseTuple(args, "O!i", &TensorType, &tensor, &gradients)) return nullptr;
  set_gradients(tensor, static_cast<uint8_t>(gradients & kGradientBits));
  return Py_NewRef(tensor);
}

PyMethodDef methods[] = {
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS,
     "is_grad_enabled()\n--\n\nWhether results of tensors that require gradients require them too."},
    {"is_inference_mode_enabled", is_inference, METH_NOARGS,
     "is_inference_mode_enabled()\n--\n\nWhether inference_mode is on."},
    {"_change_grad_mode", change_grad_mode, METH_O,
     "_change_grad_mode(mode): 0 on, 1 off, 2 inference; answers what it was"},
    {"_gradients", gradients_of, METH_O, "_gradients(object): the bits of a tensor's layout, 0 of anything else"},
    {"_set_gradients", set_gradients_method, METH_VARARGS, "_set_gradients(tensor, bits): answers the tensor"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

std::span<const FunctionRow> gradient_method_rows() { return kMethods; }
std::span<const FunctionRow> gradient_function_rows() { return kFunctions; }
std::span<const FunctionRow> gradient_attribute_rows() { return kAttributes; }
setter gradient_setter(const char* attribute) {
  if (attribute == std::string_view("requires_grad")) return assign_requires_grad;
  return attribute == std::string_view("grad") ? assign_grad : nullptr;
}

bool reads_grad_mode(PyCFunction meaning, int mode, PyObject** answer) {
  if (meaning == is_grad_enabled)
    *answer = mode == 0 ? Py_True : Py_False;
  else if (meaning == is_inference)
    *answer = mode == 2 ? Py_True : Py_False;
  else
    return false;
  return true;
}
bool changes_grad_mode(PyCFunction meaning) { return meaning == change_grad_mode; }

bool init_grad_mode(PyObject* module) {
  ObjectFacts facts = object_facts();
  facts.grad_mode = grad_mode;
  facts.threads_without_grad = reinterpret_cast<const int32_t*>(&threads_without_grad);
  set_object_facts(facts);
  return PyModule_AddFunctions(module, methods) == 0;
}

}  // namespace kintsugi
