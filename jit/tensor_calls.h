// What the tracer asks of the array type: is this a tensor, what does this call of it mean, what stands in for one that
// does not exist yet. runtime/tensor*.cpp answers, and eager calls go the same way: parse_call() says what a call means
// from layouts and Python arguments alone, execute() does it. A second provider of arrays would answer the same
// questions.
#pragma once
#include <span>
#include <vector>

#include "kernels/cpu.h"
#include "runtime/python.h"
#include "runtime/tensor_layout.h"

namespace kintsugi {

extern PyTypeObject TensorType;  // cannot be subclassed, so one compare decides
inline bool is_tensor(Borrowed object) { return Py_TYPE(object) == &TensorType; }
inline TensorObject* as_tensor(Borrowed object) { return reinterpret_cast<TensorObject*>(object); }
// A tensor of this layout without memory. parse_call() and kMetadata calls accept it; anything that reads data raises.
PyObject* make_stand_in(Layout* layout);
// A tensor, a Python bool, int or float, or a NumPy scalar. False without an exception: something else; false with one:
// an int beyond 64 bits.
bool operand_of(Borrowed object, OperandValue* out);

// What tensors hold is not read while one lives: error() is raised instead. A trace holds for other data too.
struct DataHidden {
  DataHidden();
  ~DataHidden();
  DataHidden(const DataHidden&) = delete;
  DataHidden& operator=(const DataHidden&) = delete;
  static PyObject* error();
};

// ---- What differentiation would know: flags only
// ----------------------------------------------------------------------

// Of this thread: 0 results of tensors that require gradients require them too, 1 they do not, 2 the same,
// inference_mode.
int grad_mode();
int set_grad_mode(int mode);  // answers what it was
// Of C functions: whether it answers something of the mode; whether it sets it.
bool reads_grad_mode(PyCFunction meaning, int mode, PyObject** answer);
bool changes_grad_mode(PyCFunction meaning);
uint8_t view_gradients(const Layout& base, int mode);
inline uint8_t result_gradients(DType result, bool any_operand_requires, int mode) {
  bool requires_grad = any_operand_requires && mode == 0 && info(result).kind == DTypeKind::kFloatingKind;
  return requires_grad ? kRequiresGrad | kComputed : 0;
}
bool is_leaf_in_place(const Layout& target, int mode);  // writing into it is an error
struct GradModeScope {
  int before;
  explicit GradModeScope(int mode) : before(set_grad_mode(mode)) {}
  ~GradModeScope() { set_grad_mode(before); }
  GradModeScope(const GradModeScope&) = delete;
  GradModeScope& operator=(const GradModeScope&) = delete;
};

// ---- What a call means ----------------------------------------------------------------------------------------------

enum class CallKind : uint8_t {
  kOp,          // a new tensor: op(operands, attributes)
  kInPlace,     // op(operands, attributes) converted into the part (shape, offset) of target; the result is target.
                // op == Op::kCount: operand 0 is stored as it is (fill_, copy_, item assignment)
  kView,        // a tensor (shape, offset) over the memory of operand 0; with `copies`, over a contiguous copy of it
  kIdentity,    // operand 0 itself: contiguous() of a contiguous tensor, float() of float32
  kScalarRead,  // one element as a Python number
  kMetadata,    // answered by layouts alone: executing it on stand-ins is right
  kOther,       // has to be run
};

struct CallOperand {
  PyObject* object = nullptr;  // borrowed from the arguments (or from a list or tuple among them)
  int argument = -1;           // its position among the arguments; -1 when it came by keyword or inside a list
};

// The arguments of one call by parameter of its row. All borrowed.
struct FunctionRow;
inline constexpr int kMaxParameters = 8;
struct Arguments {
  const FunctionRow* row = nullptr;
  PyObject* values[kMaxParameters] = {};  // null: not given
  int8_t positions[kMaxParameters] = {};  // valid where a value is: index among the positional arguments, -1 by keyword
  PyObject* const* rest = nullptr;        // what "*name" took
  size_t rest_count = 0;
};

struct ParsedCall {
  CallKind kind = CallKind::kOther;
  Op op = Op::kCount;
  CallOperand operands[3];
  int operand_count = 0;
  std::vector<CallOperand> list;  // cat, stack: the operands instead of the array
  Attributes attributes;          // seed and draw are filled in by execute()
  PyObject* target = nullptr;     // kInPlace; borrowed
  Shape shape;                    // kView: of the result; kInPlace: of the written part
  int64_t offset = 0;             // in elements
  bool copies = false;
  int gradients = -1;          // kView: of the result's layout; -1: as a view's of its base
  bool requires_grad = false;  // kOp: a creation asks for it
  Arguments arguments;         // kMetadata, kScalarRead, kOther: what row->run gets

  std::span<const CallOperand> all_operands() const {
    if (!list.empty()) return list;
    return {operands, static_cast<size_t>(operand_count)};
  }
};

// One Python function or method. Rows of element-wise ops, reductions and products come from ops.def; the others are
// listed in tensor_functions.cpp and tensor_methods.cpp.
struct FunctionRow {
  const char* name;        // "sum"
  const char* parameters;  // "self, dim=None, keepdim=False, *, dtype=None"; "*shape" takes the rest or one sequence
  CallKind kind;           // of most calls; parse decides
  bool (*parse)(ParsedCall* call);               // reads call->arguments; null: always run. False with an exception
  PyObject* (*run)(const Arguments& arguments);  // kMetadata, kScalarRead, kOther
  const char* document;
  Op op = Op::kCount;
  DType dtype = DType::k_float32;               // of casts: float(), long()
  const struct Signature* signature = nullptr;  // parameters, parsed at import
};

// The row behind Tensor.sum, tensor.sum, kt.sum or the descriptor of Tensor.shape; null for anything else. A bound
// method's tensor is in PyCFunction_GET_SELF; parse_call wants it as the first argument.
const FunctionRow* find_row(Borrowed callable);
// arguments: the positional ones, then those that keyword_names (a tuple or null) names: the vectorcall convention.
bool parse_call(const FunctionRow& row, PyObject* const* arguments, size_t positional, Borrowed keyword_names,
                ParsedCall* out);
// tensor[key] and tensor[key] = value.
bool parse_get_item(Borrowed tensor, Borrowed key, ParsedCall* out);
bool parse_set_item(Borrowed tensor, Borrowed key, Borrowed value, ParsedCall* out);
// Operators by BINARY_OP's argument (NB_ADD, NB_INPLACE_ADD, ...), by rich comparison (Py_LT, ...), and - + ~ abs. At
// least one operand is a tensor. False without an exception: no such operator for these operands.
bool parse_binary(int operation, Borrowed left, Borrowed right, ParsedCall* out);
bool parse_compare(int comparison, Borrowed left, Borrowed right, ParsedCall* out);
enum class Unary : uint8_t { kNegative, kPositive, kInvert, kAbsolute };
bool parse_unary(Unary operation, Borrowed operand, ParsedCall* out);

PyObject* execute(const ParsedCall& call);
PyObject* raise(const OpError& error);  // sets the exception that it asks for; answers null

}  // namespace kintsugi
