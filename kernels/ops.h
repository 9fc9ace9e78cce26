// What an operation is: the rows of ops.def as data, and its shape and dtype rule. No execution here: cpu.h runs
// kernels, reference.cpp is the meaning. Called by eager tensors (runtime/tensor.cpp) and by the tracer alike.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "kernels/layout.h"

namespace kintsugi {

enum class Op : uint16_t {
#define KN_OP(name, ...) k_##name,
#include "kernels/ops.def"
  kCount
};

enum class OpClass : uint8_t {
  kElementwise,  // broadcasts its operands; one result element each
  kReduction,    // dims, keepdim
  kMatmul,
  kCreation,  // full, arange, eye, rand, randn: no tensor operand
  kMovement,  // cat, stack, copy, gather, index: moves elements only
  kScan,      // cumsum, argsort: along a dimension
};

// In which dtype an op computes, and which it gives. "Promoted" is torch's result type of all operands.
enum class DTypeRule : uint8_t {
  kPromote,         // computes and gives promoted
  kPromoteNumber,   // the same; bool is refused
  kPromoteBits,     // the same; floating is refused
  kPromoteInteger,  // the same; bool and floating are refused
  kPromoteFloat,    // computes and gives promoted; bool and integers become float32
  kCompare,         // computes in promoted, gives bool
  kChoose,          // operand 0 is bool, the others promoted
  kLogical,         // computes in bool (nonzero is true), gives bool
  kConvert,         // from the operand's dtype to attributes.dtype
  kSum,             // attributes.dtype, else the operand's; bool and integers become int64
  kMean,            // attributes.dtype, else the operand's; must be floating
  kSame,            // the operand's
  kIndex,           // gives int64
  kSameBoth,        // both operands must have one dtype, not bool
  kGiven,           // attributes.dtype
  kGivenFloat,      // attributes.dtype, must be floating
};
// What each partial result of a reduction starts at.
enum class Identity : uint8_t { kNone, kZero, kLowest, kHighest };

// Classes of Python exception a rule or kernel can ask for.
enum class ErrorKind : uint8_t { kNone, kType, kValue, kIndex, kRuntime, kZeroDivision, kOverflow, kMemory };
struct OpError {
  ErrorKind kind = ErrorKind::kNone;
  std::string text;
};

struct OpInfo {
  const char* name;  // Python spelling, "floor_divide"
  OpClass op_class;
  int arity;  // tensor-or-number operands; -1: a list (cat, stack)
  DTypeRule dtype_rule;
  Identity identity;
  bool may_raise;                   // a kernel of it can report ZeroDivisionError (integer operands only)
  double max_ulp_f32, max_ulp_f64;  // error bound against the exact value; 0: correctly rounded or exact
  const char* expression;           // scalar expression over a, b, c, as in ops.def
  const char* bool_expression;      // the same for compute dtype bool; empty: not computed in bool
  const char* document;
};
const OpInfo& info(Op op);
bool parse_op(const char* name, Op* out);

// An operand as rules see it: a tensor's layout facts, or a Python number by kind.
struct Operand {
  bool is_number = false;
  DType dtype = DType::k_float32;  // of the tensor; for a number: bool, int64 or float64 by kind
  Shape shape;                     // of the tensor
};

// Everything beside operands that an op's meaning depends on. Plain data; unused fields stay default.
struct Attributes {
  uint32_t dims = 0;     // bit d: dimension d is reduced (all set for a full reduction), or has an index
  bool has_dim = false;  // dim given (argmax, sum(dim=...))
  bool keepdim = false;
  int dim = 0;  // cat, stack, argmax, scans
  bool has_dtype = false;
  DType dtype = DType::k_float32;       // requested result dtype
  Shape shape;                          // creation: sizes
  double start = 0, step = 1;           // arange, full (value in start), in double when the dtype is floating
  int64_t int_start = 0, int_step = 1;  // argsort: step -1 is descending
  uint64_t seed = 0, draw = 0;          // rand, randn: stream and position
};

struct Result {
  DType dtype;    // of the result
  DType compute;  // in which the expression is evaluated (operands are converted to it first)
  Shape shape;    // contiguous strides
};
// The shape and dtype rule. False: *error names both sides and nothing else changed.
bool infer(Op op, std::span<const Operand> operands, const Attributes& attributes, Result* result, OpError* error);

// torch's result type of these operands; numbers and 0-dim tensors do not widen within their kind.
DType result_dtype(std::span<const Operand> operands);
// Which dims of an operand of this rank a reduction folds (bit d: dimension d); infer() has accepted the attributes.
uint32_t folded_dims(Op op, int rank, const Attributes& attributes);
// cat passes over such an operand (1-D, no elements), as torch does.
bool is_skipped_by_cat(const Shape& shape);
// The element that partial results of a reduction start at, 8 bytes at most.
void write_identity(Op op, DType compute, void* element);

}  // namespace kintsugi
