// Functions of standard modules, written in C, that act on any traced value: operator, sys.exc_info. What acts on atoms
// alone is in pure.cpp.
#include <cstring>

#include "jit/tracer_core.h"
#include "runtime/frame.h"

#include <opcode.h>  // NB_ADD and the like

namespace kintsugi {

namespace {

enum class Kind : uint8_t { kBinary, kCompare, kUnary, kNot, kTruth, kItem, kContains, kIs, kIsNot };
struct Function {
  const char* name;
  Kind kind;
  int operation;
};

constexpr int number(Opcode opcode) { return static_cast<int>(opcode); }
constexpr Function kOperators[] = {
    {"add", Kind::kBinary, NB_ADD},
    {"and_", Kind::kBinary, NB_AND},
    {"floordiv", Kind::kBinary, NB_FLOOR_DIVIDE},
    {"lshift", Kind::kBinary, NB_LSHIFT},
    {"matmul", Kind::kBinary, NB_MATRIX_MULTIPLY},
    {"mul", Kind::kBinary, NB_MULTIPLY},
    {"mod", Kind::kBinary, NB_REMAINDER},
    {"or_", Kind::kBinary, NB_OR},
    {"pow", Kind::kBinary, NB_POWER},
    {"rshift", Kind::kBinary, NB_RSHIFT},
    {"sub", Kind::kBinary, NB_SUBTRACT},
    {"truediv", Kind::kBinary, NB_TRUE_DIVIDE},
    {"xor", Kind::kBinary, NB_XOR},
    {"iadd", Kind::kBinary, NB_INPLACE_ADD},
    {"imul", Kind::kBinary, NB_INPLACE_MULTIPLY},
    {"isub", Kind::kBinary, NB_INPLACE_SUBTRACT},
    {"itruediv", Kind::kBinary, NB_INPLACE_TRUE_DIVIDE},
    {"iand", Kind::kBinary, NB_INPLACE_AND},
    {"ifloordiv", Kind::kBinary, NB_INPLACE_FLOOR_DIVIDE},
    {"ilshift", Kind::kBinary, NB_INPLACE_LSHIFT},
    {"imatmul", Kind::kBinary, NB_INPLACE_MATRIX_MULTIPLY},
    {"imod", Kind::kBinary, NB_INPLACE_REMAINDER},
    {"ior", Kind::kBinary, NB_INPLACE_OR},
    {"ipow", Kind::kBinary, NB_INPLACE_POWER},
    {"irshift", Kind::kBinary, NB_INPLACE_RSHIFT},
    {"ixor", Kind::kBinary, NB_INPLACE_XOR},
    {"lt", Kind::kCompare, Py_LT},
    {"le", Kind::kCompare, Py_LE},
    {"eq", Kind::kCompare, Py_EQ},
    {"ne", Kind::kCompare, Py_NE},
    {"gt", Kind::kCompare, Py_GT},
    {"ge", Kind::kCompare, Py_GE},
    {"neg", Kind::kUnary, number(Opcode::k_UNARY_NEGATIVE)},
    {"pos", Kind::kUnary, number(Opcode::k_UNARY_POSITIVE)},
    {"inv", Kind::kUnary, number(Opcode::k_UNARY_INVERT)},
    {"invert", Kind::kUnary, number(Opcode::k_UNARY_INVERT)},
    {"not_", Kind::kNot, number(Opcode::k_UNARY_NOT)},
    {"truth", Kind::kTruth, number(Opcode::k_UNARY_NOT)},
    {"getitem", Kind::kItem, 0},
    {"contains", Kind::kContains, 0},
    {"is_", Kind::kIs, 0},
    {"is_not", Kind::kIsNot, 0},
};

const std::unordered_map<PyObject*, const Function*>& functions() {
  static const auto* table = [] {
    auto* made = new std::unordered_map<PyObject*, const Function*>;
    Ref module = import_module("_operator");
    for (const Function& each : kOperators) {
      PyObject* object = module ? PyObject_GetAttrString(module.get(), each.name) : nullptr;  // kept for good
      if (object != nullptr) made->emplace(object, &each);
    }
    PyErr_Clear();
    return made;
  }();
  return *table;
}

// Null: the program has put another thing there.
PyObject* own_function_of_sys(const char* name) {
  PyObject* object = PySys_GetObject(name);
  bool own = object != nullptr && PyCFunction_CheckExact(object) &&
             std::strcmp(reinterpret_cast<PyCFunctionObject*>(object)->m_ml->ml_name, name) == 0 &&
             PyCFunction_GET_SELF(object) != nullptr && PyModule_CheckExact(PyCFunction_GET_SELF(object));
  return own ? Py_NewRef(object) : nullptr;
}

}  // namespace

Flow Tracer::module_call(PyObject* callable, std::vector<Value*>& arguments, PyObject* names, Value** out,
                         bool* handled) {
  *handled = false;
  static PyObject* const exc_info = own_function_of_sys("exc_info");
  static PyObject* const exception = own_function_of_sys("exception");
  if ((callable == exc_info || callable == exception) && arguments.empty() && names == nullptr) {
    *handled = true;
    if (callable == exc_info) return exception_info(out);
    return known_handled(topmost_handled(), out);
  }
  auto found = functions().find(callable);
  if (found == functions().end() || names != nullptr) return Flow::kGo;
  const Function& function = *found->second;
  bool is_unary = function.kind == Kind::kUnary || function.kind == Kind::kNot || function.kind == Kind::kTruth;
  if (arguments.size() != (is_unary ? 1u : 2u)) return Flow::kGo;
  *handled = true;
  for (Value*& argument : arguments) argument = force(argument);
  Value* first = arguments[0];
  Value* second = is_unary ? nullptr : arguments[1];
  switch (function.kind) {
    case Kind::kBinary: return binary(function.operation, first, second, out);
    case Kind::kCompare: return compare(function.operation, first, second, out);
    case Kind::kItem: return get_item(first, second, out);
    case Kind::kContains: return contains(first, second, out);
    case Kind::kIs: return identity(first, second, /*invert=*/false, out);
    case Kind::kIsNot: return identity(first, second, /*invert=*/true, out);
    case Kind::kUnary:
    case Kind::kNot: return unary(function.operation, first, out);
    case Kind::kTruth: break;
  }
  if (Flow flow = unary(function.operation, first, out); flow != Flow::kGo) return flow;
  return unary(function.operation, force(*out), out);
}

}  // namespace kintsugi
