// What calls of ops and operators mean: element-wise functions, their in-place forms, reductions, conversions, and
// Python's binary, unary and comparison operators. From layouts and arguments alone; the tracer calls these too.
#include <opcode.h>

#include <string>

#include "runtime/tensor_rows.h"

namespace kintsugi {

namespace {

bool add_operand(ParsedCall* call, Borrowed object, int argument) {
  OperandValue ignored;
  if (!operand_of(object, &ignored)) return false;
  call->operands[call->operand_count++] = {object, argument};
  return true;
}

bool needs_tensor(const ParsedCall& call) {
  for (int i = 0; i < call.operand_count; ++i) {
    if (is_tensor(call.operands[i].object)) return true;
  }
  PyErr_Format(PyExc_TypeError, "%s(): at least one argument must be a Tensor; for Python numbers use math",
               info(call.op).name);
  return false;
}

// Turns "op over operands" into "... written into target": checks that the result fits before anything is done.
bool set_in_place(ParsedCall* call, TensorObject* target) {
  call->kind = CallKind::kInPlace;
  call->target = &target->ob_base;
  call->shape = shape_of(*target->layout);
  OperandValue operands[2];
  for (int i = 0; i < call->operand_count; ++i) operand_of(call->operands[i].object, &operands[i]);
  const Layout* result = plain_result_layout(call->op, operands, static_cast<size_t>(call->operand_count));
  if (result == nullptr) return false;
  bool fits = result->rank == target->layout->rank;
  for (int d = 0; fits && d < result->rank; ++d) fits = result->sizes[d] == target->layout->sizes[d];
  if (!fits) {
    PyErr_Format(PyExc_RuntimeError, "%s_(): the result has shape %s, which does not fit into the tensor of shape %s",
                 info(call->op).name, sizes_text({result->sizes, result->rank}).c_str(),
                 sizes_text({target->layout->sizes, target->layout->rank}).c_str());
    return false;
  }
  DType own = target->layout->dtype;
  if (info(result->dtype).kind > info(own).kind) {
    PyErr_Format(PyExc_RuntimeError, "%s_(): the result is %s, which cannot be written into a %s tensor in place",
                 info(call->op).name, info(result->dtype).name, info(own).name);
    return false;
  }
  return true;
}

bool is_bool_operand(Borrowed object) {
  if (is_tensor(object)) return as_tensor(object)->layout->dtype == DType::k_bool;
  OperandValue value;
  return operand_of(object, &value) && value.number_dtype == DType::k_bool;
}

// x ** 2 is x * x and x ** 0.5 a square root, as in torch: the same bits as the general power gives.
bool set_power(ParsedCall* call, CallOperand base, CallOperand exponent) {
  OperandValue value;
  if (is_tensor(base.object) && !is_tensor(exponent.object) && operand_of(exponent.object, &value)) {
    double power = value.number_dtype == DType::k_float64 ? value.number.f64 : static_cast<double>(value.number.i64);
    DTypeKind kind = info(as_tensor(base.object)->layout->dtype).kind;
    bool integers = kind == DTypeKind::kIntegerKind && value.number_dtype != DType::k_float64;
    if (integers && power < 0) {
      PyErr_SetString(PyExc_RuntimeError, "Integers to negative integer powers are not allowed.");
      return false;
    }
    if (power == 2 && (integers || kind == DTypeKind::kFloatingKind)) {
      call->op = Op::k_mul;
      return add_operand(call, base.object, base.argument) && add_operand(call, base.object, base.argument);
    }
    if (power == 0.5) {
      call->op = Op::k_sqrt;
      return add_operand(call, base.object, base.argument);
    }
  }
  call->op = Op::k_pow;
  return add_operand(call, base.object, base.argument) && add_operand(call, exponent.object, exponent.argument);
}

bool is_in_place(int operation) { return operation >= NB_INPLACE_ADD && operation <= NB_INPLACE_XOR; }

// By the plain operation: NB_ADD, not NB_INPLACE_ADD.
bool find_operator(int operation, Borrowed left, Borrowed right, Op* out) {
  auto by_bits = [&](Op of_bools, Op of_integers) {
    return is_bool_operand(left) && is_bool_operand(right) ? of_bools : of_integers;
  };
  switch (operation) {
    case NB_ADD: *out = Op::k_add; return true;
    case NB_SUBTRACT: *out = Op::k_sub; return true;
    case NB_MULTIPLY: *out = Op::k_mul; return true;
    case NB_TRUE_DIVIDE: *out = Op::k_div; return true;
    case NB_FLOOR_DIVIDE: *out = Op::k_floor_divide; return true;
    case NB_REMAINDER: *out = Op::k_remainder; return true;
    case NB_MATRIX_MULTIPLY: *out = Op::k_matmul; return true;
    case NB_AND: *out = by_bits(Op::k_logical_and, Op::k_bitwise_and); return true;
    case NB_OR: *out = by_bits(Op::k_logical_or, Op::k_bitwise_or); return true;
    case NB_XOR: *out = by_bits(Op::k_ne, Op::k_bitwise_xor); return true;
    case NB_LSHIFT: *out = Op::k_bitwise_left_shift; return true;
    case NB_RSHIFT: *out = Op::k_bitwise_right_shift; return true;
    default: return false;
  }
}

}  // namespace

bool parse_elementwise(ParsedCall* call) {
  int arity = info(call->op).arity;
  for (int i = 0; i < arity; ++i) {
    if (!set_operand(call, i)) return false;
  }
  return needs_tensor(*call);
}

// self, exponent
bool parse_power(ParsedCall* call) {
  const Arguments& arguments = call->arguments;
  for (int i = 0; i < 2; ++i) {
    if (!set_operand(call, i)) return false;
  }
  if (!needs_tensor(*call)) return false;
  call->operand_count = 0;
  return set_power(call, {arguments.values[0], arguments.positions[0]}, {arguments.values[1], arguments.positions[1]});
}

bool parse_in_place(ParsedCall* call) {
  TensorObject* target;
  return parse_elementwise(call) && read_tensor(*call, 0, &target) && set_in_place(call, target);
}

// self, dim=None, keepdim=False, *, dtype=None
bool parse_reduction(ParsedCall* call) {
  TensorObject* self;
  const Arguments& arguments = call->arguments;
  Attributes& attributes = call->attributes;
  if (!read_tensor(*call, 0, &self) || !read_bool(*call, 2, false, &attributes.keepdim)) return false;
  if (!read_optional_dtype(*call, 3, &attributes.has_dtype, &attributes.dtype)) return false;
  if (attributes.has_dtype && call->op != Op::k_sum && call->op != Op::k_mean) {
    PyErr_Format(PyExc_TypeError, "%s() takes no dtype; convert the tensor first", arguments.row->name);
    return false;
  }
  int rank = self->layout->rank;
  int64_t dims[kMaxRank];
  int count = 0;
  Borrowed dim = arguments.values[1];
  if (dim != nullptr && (PyTuple_Check(dim) || PyList_Check(dim))) {
    if (!read_int_list(dim, "dim", &count, dims)) return false;
    for (int i = 0; i < count; ++i) {
      Ref number(PyLong_FromLongLong(dims[i]));
      int one;
      if (!number || !read_dim(number.get(), rank, &one)) return false;
      if ((attributes.dims >> one & 1) != 0) {
        PyErr_Format(PyExc_RuntimeError, "%s(): dim %d appears twice", arguments.row->name, one);
        return false;
      }
      attributes.dims |= 1u << one;
      attributes.dim = one;
    }
  } else if (dim != nullptr) {
    if (!read_dim(dim, rank, &attributes.dim)) return false;
    attributes.dims = 1u << attributes.dim;
    count = 1;
  }
  attributes.has_dim = count > 0;
  if (count == 0) attributes.dims = (1u << rank) - 1;
  if (rank == 0) attributes.dims = 0;
  if ((call->op == Op::k_argmax || call->op == Op::k_argmin) && count > 1) {
    PyErr_Format(PyExc_TypeError, "%s(): dim must be one int", arguments.row->name);
    return false;
  }
  return set_operand(call, 0);
}

bool parse_cast(ParsedCall* call) {
  TensorObject* self;
  if (!read_tensor(*call, 0, &self) || !set_operand(call, 0)) return false;
  DType dtype = call->arguments.row->dtype;
  if (call->attributes.has_dtype) dtype = call->attributes.dtype;
  if (self->layout->dtype == dtype) {
    call->kind = CallKind::kIdentity;
    return true;
  }
  call->kind = CallKind::kOp;
  call->op = Op::k_convert;
  call->attributes.has_dtype = true;
  call->attributes.dtype = dtype;
  return true;
}

bool set_store(ParsedCall* call, Borrowed target, Borrowed value, int argument) {
  call->kind = CallKind::kInPlace;
  call->op = Op::kCount;
  call->target = target;
  DType own = as_tensor(target)->layout->dtype;
  OperandValue operand;
  if (!operand_of(value, &operand)) {
    if (!PyErr_Occurred()) {
      PyErr_Format(PyExc_TypeError, "cannot store a %.200s into a %s tensor: give a Tensor or a number",
                   Py_TYPE(value)->tp_name, info(own).name);
    }
    return false;
  }
  if (!operand.is_number && !fits_by_broadcast(*operand.view.layout, call->shape)) return false;
  call->operands[0] = {value, argument};
  call->operand_count = 1;
  return true;
}

bool parse_binary(int operation, Borrowed left, Borrowed right, ParsedCall* out) {
  int plain = is_in_place(operation) ? operation - NB_INPLACE_ADD + NB_ADD : operation;
  out->kind = CallKind::kOp;
  OperandValue ignored;
  if (!operand_of(left, &ignored) || !operand_of(right, &ignored)) return false;
  if (plain == NB_POWER) {
    if (!set_power(out, {left, 0}, {right, 1})) return false;
  } else {
    if (!find_operator(plain, left, right, &out->op)) return false;
    add_operand(out, left, 0);
    add_operand(out, right, 1);
  }
  // a @= b makes a new tensor: the product has another shape in general.
  bool in_place = plain != operation && plain != NB_MATRIX_MULTIPLY && is_tensor(left);
  return !in_place || set_in_place(out, as_tensor(left));
}

bool parse_compare(int comparison, Borrowed left, Borrowed right, ParsedCall* out) {
  static constexpr Op ops[] = {Op::k_lt, Op::k_le, Op::k_eq, Op::k_ne, Op::k_gt, Op::k_ge};
  out->kind = CallKind::kOp;
  out->op = ops[comparison];
  return add_operand(out, left, 0) && add_operand(out, right, 1);
}

bool parse_unary(Unary operation, Borrowed operand, ParsedCall* out) {
  out->kind = CallKind::kOp;
  switch (operation) {
    case Unary::kNegative: out->op = Op::k_neg; break;
    case Unary::kAbsolute: out->op = Op::k_abs; break;
    case Unary::kPositive: out->kind = CallKind::kIdentity; break;
    case Unary::kInvert:
      if (info(as_tensor(operand)->layout->dtype).kind == DTypeKind::kFloatingKind) {
        PyErr_Format(PyExc_TypeError, "~ is defined for integer and bool tensors, not %s",
                     info(as_tensor(operand)->layout->dtype).name);
        return false;
      }
      out->op = is_bool_operand(operand) ? Op::k_logical_not : Op::k_bitwise_not;
      break;
  }
  return add_operand(out, operand, 0);
}

}  // namespace kintsugi
