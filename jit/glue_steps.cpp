// The steps of steps.def as code. Operands are read from NativeState::values and results written there at once, so that
// helpers and exits find them. Steps that are not native are one call of the helper table.
#include <algorithm>
#include <cstddef>

#include "guards/compile.h"
#include "jit/glue_emitter.h"

namespace kintsugi {
namespace {

constexpr size_t kMaxStackScratch = 32 * 1024;  // more scratch: run_kernel() finds its own

enum OperandKind : int8_t { kTensorOperand = 0, kIntOperand = 1, kFloatOperand = 2, kBoolOperand = 3 };

bool is_native(StepKind kind) {
  static constexpr bool kNative[] = {
#define KN_STEP(name, native, ...) native,
#include "jit/steps.def"
  };
  return kNative[static_cast<int>(kind)];
}

DType operand_dtype(const KernelSpec& spec, size_t operand) {
  return operand < spec.inputs.size() ? spec.inputs[operand].dtype : spec.outputs[operand - spec.inputs.size()].dtype;
}
bool is_floating(DType dtype) { return info(dtype).kind == DTypeKind::kFloatingKind; }

int64_t elements_of(const Shape& space) {
  int64_t elements = 1;
  for (int d = 0; d < space.rank; ++d) elements *= space.sizes[d];
  return elements;
}

uint64_t run_large_step(NativeState* state, const Step* step, KernelBlock* block) {
  auto* helper = state->helpers->run_large;
  return helper != nullptr ? helper(state, step, block) : run_kernel_step(state, step, block);
}

}  // namespace

bool is_large(const KernelCall& call, int64_t elements) {
  if (elements > kLargeKernelBytes) return true;
  int64_t bytes = 0;
  for (size_t i = 0; i < call.operand_kinds.size(); ++i)
    if (call.operand_kinds[i] == kTensorOperand)
      bytes += elements * static_cast<int64_t>(info(operand_dtype(call.spec, i)).bytes);
  return bytes > kLargeKernelBytes;
}

uint64_t run_kernel_step(NativeState* state, const Step* step, KernelBlock* block) {
  const SegmentCode& code = *state->segment;
  const size_t index = static_cast<size_t>(step->index);
  Kernel* kernel = code.kernels[index];
  ++kernel->runs;
  if (block != nullptr) {
    kernel->code(block);
    return block->fault;
  }
  const KernelCall& call = code.plan.kernels[index];
  const ObjectFacts& facts = object_facts();
  TensorView operands[kMaxKernelOperands] = {};
  KernelBlock::Slot numbers[kMaxKernelOperands] = {};
  for (size_t i = 0; i < step->list.size(); ++i) {
    const uint64_t word = state->values[step->list[i]];
    if (call.operand_kinds[i] == kTensorOperand) {
      const char* tensor = reinterpret_cast<const char*>(word);
      operands[i].layout = *reinterpret_cast<Layout* const*>(tensor + facts.tensor_layout_offset);
      operands[i].data = *reinterpret_cast<char* const*>(tensor + facts.tensor_data_offset);
    } else if (call.operand_kinds[i] != kFloatOperand && is_floating(operand_dtype(call.spec, i))) {
      numbers[i].f64 = static_cast<double>(static_cast<int64_t>(word));
    } else {
      numbers[i].i64 = static_cast<int64_t>(word);
    }
  }
  return run_kernel(kernel, code.spaces[index], call.reduced_dims, {operands, step->list.size()},
                    {numbers, step->list.size()});
}

void GlueEmitter::emit_step(const Step& step) {
  if (!is_native(step.kind)) return call_step_helper(step);
  switch (step.kind) {
    case StepKind::k_tensor_new: return emit_tensor_new(step);
    case StepKind::k_kernel: return emit_kernel(step);
    case StepKind::k_size: return emit_size(step);
    case StepKind::k_int_const:
    case StepKind::k_float_const: return e_.store_immediate(value_at(step.dst), step.imm);
    case StepKind::k_int_add:
    case StepKind::k_int_sub:
    case StepKind::k_int_mul:
    case StepKind::k_int_neg:
    case StepKind::k_int_and:
    case StepKind::k_int_or:
    case StepKind::k_int_xor:
    case StepKind::k_int_compare: return emit_int_arithmetic(step);
    case StepKind::k_int_floor_divide:
    case StepKind::k_int_remainder: return emit_division(step);
    case StepKind::k_int_to_float: return emit_int_to_float(step);
    case StepKind::k_float_add:
    case StepKind::k_float_sub:
    case StepKind::k_float_mul: return emit_float_arithmetic(step);
    case StepKind::k_float_div: return emit_float_division(step);
    case StepKind::k_float_neg:
    case StepKind::k_float_abs: return emit_float_sign(step);
    case StepKind::k_float_compare: return emit_float_compare(step);
    case StepKind::k_check: e_.compare(value_at(step.a), step.imm); return e_.jump_if(Condition::kNotEqual, fail(step));
    case StepKind::k_box_bool: emit_box_bool(step.a); return e_.store(value_at(step.dst), Reg::kResult);
    case StepKind::k_range_next: return emit_range_next(step);
    case StepKind::k_attribute_set: return emit_attribute_set(step);
    case StepKind::k_type_check:
      e_.load(Reg::kTemp0, value_at(step.a));
      e_.compare(at(Reg::kTemp0, object_facts().type_offset), code_->bindings[static_cast<size_t>(step.constant)]);
      return e_.jump_if(Condition::kNotEqual, fail(step));
    case StepKind::k_drop: return release_value(step.a);
    case StepKind::k_hold:
      e_.load(Reg::kTemp0, value_at(step.a));
      return e_.add(at(Reg::kTemp0, object_facts().references_offset), 1);
    default: return call_step_helper(step);
  }
}

void GlueEmitter::call_step_helper(const Step& step) {
  const size_t helper = offsetof(HelperTable, step) + static_cast<size_t>(step.kind) * sizeof(StepHelper);
  e_.move(Reg::kArgument0, Reg::kState);
  e_.load_immediate(Reg::kArgument1, &step);
  load_helper(Reg::kResult);
  e_.call(at(Reg::kResult, static_cast<int32_t>(helper)));
  if (step.on_fail == kNoExit) return;
  e_.compare_32(Reg::kResult, 0);
  e_.jump_if(Condition::kLess, fail(step));
}

// ---- Tensors ------------------------------------------------------------------------------------

void GlueEmitter::emit_tensor_new(const Step& step) {
  e_.load_immediate(Reg::kArgument0, code_->bindings[static_cast<size_t>(step.constant)]);
  load_helper(Reg::kResult);
  e_.call(at(Reg::kResult, offsetof(HelperTable, tensor_new)));
  e_.test(Reg::kResult);
  e_.jump_if(Condition::kEqual, fail(step));
  e_.store(value_at(step.dst), Reg::kResult);
}

bool GlueEmitter::calls_directly(const KernelCall& call, const Kernel& kernel) const {
  return call.flat && kernel.code != nullptr && kernel.scratch_bytes <= kMaxStackScratch;
}

void GlueEmitter::emit_kernel(const Step& step) {
  const size_t index = static_cast<size_t>(step.index);
  const KernelCall& call = plan_.kernels[index];
  Kernel* kernel = code_->kernels[index];
  const bool direct = calls_directly(call, *kernel);
  const bool large = is_large(call, elements_of(code_->spaces[index]));
  if (direct) fill_block(step, call, *kernel);
  if (direct && !large) {
    e_.load_immediate(Reg::kTemp0, &kernel->runs);
    e_.add(at(Reg::kTemp0), 1);
    e_.move(Reg::kArgument0, Reg::kStack);
    e_.call(reinterpret_cast<const void*>(kernel->code));
    if (step.on_fail == kNoExit) return;
    e_.compare(at(Reg::kStack, offsetof(KernelBlock, fault)), int64_t{0});
  } else {
    e_.move(Reg::kArgument0, Reg::kState);
    e_.load_immediate(Reg::kArgument1, &step);
    if (direct) {
      e_.move(Reg::kArgument2, Reg::kStack);
    } else {
      e_.load_immediate(Reg::kArgument2, int64_t{0});
    }
    e_.call(reinterpret_cast<const void*>(large ? &run_large_step : &run_kernel_step));
    if (step.on_fail == kNoExit) return;
    e_.test(Reg::kResult);
  }
  e_.jump_if(Condition::kNotEqual, fail(step));
}

// The block lies at the stack pointer, scratch behind it.
void GlueEmitter::fill_block(const Step& step, const KernelCall& call, const Kernel& kernel) {
  e_.store_immediate(at(Reg::kStack, offsetof(KernelBlock, count)), call.count);
  e_.store_immediate(at(Reg::kStack, offsetof(KernelBlock, fault)), 0);
  for (size_t i = 0; i < step.list.size(); ++i) {
    const Memory slot =
        at(Reg::kStack, static_cast<int32_t>(offsetof(KernelBlock, operand) + i * sizeof(KernelBlock::Slot)));
    const int8_t kind = call.operand_kinds[i];
    if (kind != kTensorOperand && kind != kFloatOperand && is_floating(operand_dtype(call.spec, i))) {
      e_.convert_to_float(FloatReg::kFloat0, value_at(step.list[i]));
      e_.store_float(slot, FloatReg::kFloat0);
      continue;
    }
    e_.load(Reg::kTemp0, value_at(step.list[i]));
    if (kind == kTensorOperand) e_.load(Reg::kTemp0, at(Reg::kTemp0, object_facts().tensor_data_offset));
    e_.store(slot, Reg::kTemp0);
  }
  if (kernel.scratch_bytes > 0) {
    e_.load_address(Reg::kTemp0, at(Reg::kStack, sizeof(KernelBlock)));
    e_.store(at(Reg::kStack, offsetof(KernelBlock, scratch)), Reg::kTemp0);
  }
}

void GlueEmitter::emit_size(const Step& step) {
  e_.load(Reg::kTemp0, value_at(step.a));
  e_.load(Reg::kTemp0, at(Reg::kTemp0, object_facts().tensor_layout_offset));
  e_.load(Reg::kTemp0, at(Reg::kTemp0, static_cast<int32_t>(offsetof(Layout, sizes) + step.imm * 8)));
  e_.store(value_at(step.dst), Reg::kTemp0);
}

// ---- Numbers ------------------------------------------------------------------------------------

void GlueEmitter::emit_int_arithmetic(const Step& step) {
  const Reg a = Reg::kResult;
  e_.load(a, value_at(step.a));
  switch (step.kind) {
    case StepKind::k_int_add: e_.add(a, value_at(step.b)); break;
    case StepKind::k_int_sub: e_.subtract(a, value_at(step.b)); break;
    case StepKind::k_int_mul: e_.multiply(a, value_at(step.b)); break;
    case StepKind::k_int_neg: e_.negate(a); break;
    case StepKind::k_int_and: e_.bit_and(a, value_at(step.b)); break;
    case StepKind::k_int_or: e_.bit_or(a, value_at(step.b)); break;
    case StepKind::k_int_xor: e_.bit_xor(a, value_at(step.b)); break;
    default:
      e_.compare(a, value_at(step.b));
      e_.set_if(condition_of(static_cast<Compare>(step.imm)), a);
      break;
  }
  if (step.on_fail != kNoExit) e_.jump_if(Condition::kOverflow, fail(step));
  e_.store(value_at(step.dst), a);
}

// Rounded down, with the divisor's sign. The processor cannot divide by -1 when the quotient does not fit.
void GlueEmitter::emit_division(const Step& step) {
  const bool quotient = step.kind == StepKind::k_int_floor_divide;
  const Reg divisor = Reg::kTemp0, remainder = Reg::kArgument2, result = quotient ? Reg::kResult : remainder;
  Label minus_one = e_.new_label(), done = e_.new_label();
  e_.load(divisor, value_at(step.b));
  e_.test(divisor);
  e_.jump_if(Condition::kEqual, fail(step));
  e_.load(Reg::kResult, value_at(step.a));
  e_.compare(divisor, int64_t{-1});
  e_.jump_if(Condition::kEqual, minus_one);
  e_.divide(divisor);
  e_.test(remainder);
  e_.jump_if(Condition::kEqual, done);
  e_.move(Reg::kTemp1, remainder);
  e_.bit_xor(Reg::kTemp1, divisor);
  e_.jump_if(Condition::kGreaterEqual, done);  // same sign
  if (quotient) {
    e_.add(result, -1);
  } else {
    e_.add(result, divisor);
  }
  e_.jump(done);
  e_.bind(minus_one);
  if (quotient) {
    e_.negate(result);
    e_.jump_if(Condition::kOverflow, fail(step));
  } else {
    e_.load_immediate(result, int64_t{0});
  }
  e_.bind(done);
  e_.store(value_at(step.dst), result);
}

void GlueEmitter::emit_int_to_float(const Step& step) {
  constexpr int64_t kExact = int64_t{1} << 53;  // beyond it Python and the processor could round apart from intent
  e_.load(Reg::kTemp0, value_at(step.a));
  e_.load_immediate(Reg::kTemp1, kExact);
  e_.add(Reg::kTemp0, Reg::kTemp1);
  e_.compare(Reg::kTemp0, 2 * kExact);
  e_.jump_if(Condition::kAbove, fail(step));
  e_.convert_to_float(FloatReg::kFloat0, value_at(step.a));
  e_.store_float(value_at(step.dst), FloatReg::kFloat0);
}

void GlueEmitter::emit_float_arithmetic(const Step& step) {
  const FloatReg a = FloatReg::kFloat0;
  e_.load_float(a, value_at(step.a));
  switch (step.kind) {
    case StepKind::k_float_add: e_.add_float(a, value_at(step.b)); break;
    case StepKind::k_float_sub: e_.subtract_float(a, value_at(step.b)); break;
    default: e_.multiply_float(a, value_at(step.b)); break;
  }
  e_.store_float(value_at(step.dst), a);
}

void GlueEmitter::emit_float_division(const Step& step) {
  Label divide = e_.new_label();
  e_.load_float(FloatReg::kFloat1, value_at(step.b));
  e_.zero_float(FloatReg::kFloat2);
  e_.compare_float(FloatReg::kFloat1, FloatReg::kFloat2);
  e_.jump_if(Condition::kUnordered, divide);
  e_.jump_if(Condition::kEqual, fail(step));
  e_.bind(divide);
  e_.load_float(FloatReg::kFloat0, value_at(step.a));
  e_.divide_float(FloatReg::kFloat0, FloatReg::kFloat1);
  e_.store_float(value_at(step.dst), FloatReg::kFloat0);
}

void GlueEmitter::emit_float_sign(const Step& step) {
  e_.load(Reg::kTemp0, value_at(step.a));
  if (step.kind == StepKind::k_float_neg) {
    e_.load_immediate(Reg::kTemp1, INT64_MIN);
    e_.bit_xor(Reg::kTemp0, Reg::kTemp1);
  } else {
    e_.load_immediate(Reg::kTemp1, INT64_MAX);
    e_.bit_and(Reg::kTemp0, Reg::kTemp1);
  }
  e_.store(value_at(step.dst), Reg::kTemp0);
}

// Every comparison with NaN is false but "not equal". "Above" is false when unordered, so less is greater turned
// around.
void GlueEmitter::emit_float_compare(const Step& step) {
  const Compare compare = static_cast<Compare>(step.imm);
  const bool turned = compare == Compare::kLess || compare == Compare::kLessEqual;
  e_.load_float(FloatReg::kFloat0, value_at(turned ? step.b : step.a));
  e_.load_float(FloatReg::kFloat1, value_at(turned ? step.a : step.b));
  e_.compare_float(FloatReg::kFloat0, FloatReg::kFloat1);
  switch (compare) {
    case Compare::kLess:
    case Compare::kGreater: e_.set_if(Condition::kAbove, Reg::kResult); break;
    case Compare::kLessEqual:
    case Compare::kGreaterEqual: e_.set_if(Condition::kAboveEqual, Reg::kResult); break;
    case Compare::kEqual:
      e_.set_if(Condition::kEqual, Reg::kResult);
      e_.set_if(Condition::kOrdered, Reg::kTemp0);
      e_.bit_and(Reg::kResult, Reg::kTemp0);
      break;
    case Compare::kNotEqual:
      e_.set_if(Condition::kNotEqual, Reg::kResult);
      e_.set_if(Condition::kUnordered, Reg::kTemp0);
      e_.bit_or(Reg::kResult, Reg::kTemp0);
      break;
  }
  e_.store(value_at(step.dst), Reg::kResult);
}

// ---- Objects ------------------------------------------------------------------------------------

void GlueEmitter::emit_box_bool(ValueId truth) {
  e_.load_immediate(Reg::kResult, object_facts().true_object);
  e_.load_immediate(Reg::kTemp0, object_facts().false_object);
  e_.compare(value_at(truth), int64_t{0});
  e_.move_if(Condition::kEqual, Reg::kResult, Reg::kTemp0);
  e_.add(at(Reg::kResult, object_facts().references_offset), 1);
}

// In place where the class has the version that its guard saw and the attribute is set already, as STORE_ATTR does
// (CPython 3.11, Python/ceval.c, STORE_ATTR_INSTANCE_VALUE and STORE_ATTR_SLOT); through the helper otherwise.
void GlueEmitter::emit_attribute_set(const Step& step) {
  const ObjectFacts& facts = object_facts();
  if (class_guards_.empty()) {
    class_guards_.assign(static_cast<size_t>(plan_.value_count) + 1, -1);
    for (size_t i = 0; i < plan_.guards.size(); ++i) {
      if (plan_.guards[i].kind == GuardKind::k_type_version)
        class_guards_[static_cast<size_t>(plan_.guards[i].a)] = static_cast<int32_t>(i);
    }
  }
  const int32_t index = class_guards_[static_cast<size_t>(step.a)];
  const Guard* guard = index < 0 ? nullptr : &plan_.guards[static_cast<size_t>(index)];
  AttributePlace place;
  const void* type = nullptr;
  if (guard != nullptr && guard->imm != 0 && facts.attribute_place != nullptr) {
    type = code_->bindings[static_cast<size_t>(guard->constant)];
    place = facts.attribute_place(type, code_->bindings[static_cast<size_t>(step.constant)]);
  }
  if (place.form == AttributePlace::Form::kNone) return call_step_helper(step);

  const Reg object = Reg::kTemp0, value = Reg::kTemp1, old = Reg::kArgument0;
  Label slow = e_.new_label(), done = e_.new_label();
  e_.load(object, value_at(step.a));
  e_.load(value, at(object, facts.type_offset));
  e_.compare(value, reinterpret_cast<int64_t>(type));
  e_.jump_if(Condition::kNotEqual, slow);
  e_.compare_32(at(value, facts.type_version_offset), static_cast<int32_t>(guard->imm));
  e_.jump_if(Condition::kNotEqual, slow);
  if (place.form == AttributePlace::Form::kInlineValues) {
    e_.load(object, at(object, facts.inline_values_offset));
    e_.test(object);
    e_.jump_if(Condition::kEqual, slow);
  }
  e_.load(old, at(object, place.offset));
  e_.test(old);
  e_.jump_if(Condition::kEqual, slow);
  e_.load(value, value_at(step.b));
  e_.add(at(value, facts.references_offset), 1);
  e_.store(at(object, place.offset), value);
  release_argument();
  e_.jump(done);
  e_.bind(slow);
  call_step_helper(step);
  e_.bind(done);
}

// CPython 3.11, Objects/rangeobject.c: index, start, step and length are C longs; the iterator makes no overflow.
void GlueEmitter::emit_range_next(const Step& step) {
  const ObjectFacts& facts = object_facts();
  const Reg iterator = Reg::kTemp0, index = Reg::kResult;
  e_.load(iterator, value_at(step.a));
  e_.load(index, at(iterator, facts.range_iterator_index));
  e_.compare(index, at(iterator, facts.range_iterator_length));
  e_.jump_if(Condition::kGreaterEqual, fail(step));
  e_.add(at(iterator, facts.range_iterator_index), 1);
  e_.multiply(index, at(iterator, facts.range_iterator_step));
  e_.add(index, at(iterator, facts.range_iterator_start));
  e_.store(value_at(step.dst), index);
}

}  // namespace kintsugi
