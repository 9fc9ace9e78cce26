// Whether a plan is legal: rules of plan.h as checks. Run before emission and after every change of a plan in tests.
// The answer names the place: "step 3 (int_add): value 7 is used before it is set".
#include <algorithm>
#include <string>
#include <vector>

#include "jit/uses.h"

namespace kintsugi {
namespace {

struct StepRow {
  const char* name;
  bool may_fail;
};
constexpr StepRow kSteps[] = {
#define KN_STEP(name, native, may_fail, ...) {#name, may_fail},
#include "jit/steps.def"
};
constexpr const char* kGuards[] = {
#define KN_GUARD(name, ...) #name,
#include "guards/guards.def"
};

class Verifier {
 public:
  explicit Verifier(const Plan& plan)
      : plan_(plan),
        defined_(static_cast<size_t>(std::max(plan.value_count, 0))),
        owned_(defined_.size()),
        visited_(plan.recipes.size()) {}
  std::string run();

 private:
  void guard(const Guard& guard);
  void step(const Step& step);
  void kernel_step(const Step& step);
  void groups_ahead(const Step& step);
  void exit(ExitId id);
  void recipe(RecipeId id);

  void use(ValueId value);
  void use_if_any(ValueId value) {
    if (value != kNoValue) use(value);
  }
  void define(ValueId value);
  void constant(ConstantId id);
  void index(int64_t index, size_t count, const char* what);
  void fail(const std::string& text) {
    if (fault_.empty()) fault_ = where_ + ": " + text;
  }

  const Plan& plan_;
  std::vector<bool> defined_;
  std::vector<uint32_t> owned_;    // values, by the exit that last released them
  std::vector<uint32_t> visited_;  // recipes, by the exit or step that last reached them
  uint32_t visit_ = 0;
  std::string where_, fault_;
};

std::string Verifier::run() {
  for (size_t i = 0; i < plan_.guards.size() && fault_.empty(); ++i) {
    if (plan_.guards[i].kind >= GuardKind::kCount) return "guard " + std::to_string(i) + " is of no kind";
    guard(plan_.guards[i]);
    if (!fault_.empty())
      fault_ = "guard " + std::to_string(i) + " (" + kGuards[static_cast<int>(plan_.guards[i].kind)] + ")" + fault_;
  }
  for (size_t i = 0; i < plan_.steps.size() && fault_.empty(); ++i) {
    if (plan_.steps[i].kind >= StepKind::kCount) return "step " + std::to_string(i) + " is of no kind";
    step(plan_.steps[i]);
    if (!fault_.empty())
      fault_ = "step " + std::to_string(i) + " (" + kSteps[static_cast<int>(plan_.steps[i].kind)].name + ")" + fault_;
  }
  if (fault_.empty()) {
    exit(plan_.final_exit);
    if (!fault_.empty()) fault_ = "at the end" + fault_;
  }
  return fault_;
}

void Verifier::guard(const Guard& guard) {
  using K = GuardKind;
  bool reads_a = true, reads_b = false, has_constant = false;
  switch (guard.kind) {
    case K::k_slot:
    case K::k_unbound:
      if (guard.imm < 0) fail("slot " + std::to_string(guard.imm) + " is negative");
      [[fallthrough]];
    case K::k_grad_mode:
    case K::k_function: reads_a = false; break;
    case K::k_bound:
    case K::k_state_word:
      reads_a = false;
      has_constant = true;
      break;
    case K::k_identical:
    case K::k_distinct:
    case K::k_int_compare: reads_b = true; break;
    case K::k_dict_value:
    case K::k_instance_value:
    case K::k_same:
    case K::k_pointer_field:
    case K::k_class_kept:
    case K::k_type_is:
    case K::k_type_version:
    case K::k_class_version:
    case K::k_int_equal:
    case K::k_float_equal:
    case K::k_equal:
    case K::k_dict_keys:
    case K::k_dict_lacks:
    case K::k_instance_lacks:
    case K::k_set_equal:
    case K::k_set_has:
    case K::k_word_is:
    case K::k_tensor_layout:
    case K::k_tensor_class:
    case K::k_range_equal: has_constant = true; break;
    default: break;
  }
  if (reads_a) use(guard.a);
  if (reads_b) use(guard.b);
  if (has_constant) constant(guard.constant);
  if (guard.source != -1) index(guard.source, plan_.sources.size(), "source");
  if (guard.dst != kNoValue) define(guard.dst);
}

void Verifier::step(const Step& step) {
  use_if_any(step.a);
  use_if_any(step.b);
  use_if_any(step.c);
  for (ValueId value : step.list) use(value);
  if (step.constant != kNoConstant) constant(step.constant);
  switch (step.kind) {
    case StepKind::k_kernel: kernel_step(step); break;
    case StepKind::k_group:
      index(step.index, plan_.groups.size(), "group");
      if (fault_.empty()) {
        const Group& group = plan_.groups[static_cast<size_t>(step.index)];
        if (group.inputs.size() != step.list.size()) fail("the list does not fit the group's inputs");
        for (size_t i = 1; i < group.outputs.size(); ++i) define(step.dst + static_cast<ValueId>(i));
      }
      break;
    case StepKind::k_groups_ahead: groups_ahead(step); break;
    case StepKind::k_run_op:
      index(step.index, plan_.ops.size(), "op");
      if (fault_.empty() && plan_.ops[static_cast<size_t>(step.index)].operand_kinds.size() != step.list.size()) {
        fail("the list does not fit the op's operands");
      }
      break;
    case StepKind::k_build:
      ++visit_;
      recipe(step.index);
      break;
    case StepKind::k_tensor_new:
    case StepKind::k_tensor_view:
    case StepKind::k_type_check:
    case StepKind::k_pure_call:
    case StepKind::k_run_call: constant(step.constant); break;
    case StepKind::k_opaque_call:
      constant(step.constant);
      for (int64_t i = 1; i < step.imm; ++i) define(step.dst + static_cast<ValueId>(i));
      break;
    case StepKind::k_size:
      if (step.imm < 0 || step.imm >= kMaxRank) fail("no size " + std::to_string(step.imm));
      break;
    default: break;
  }
  const bool may_fail = kSteps[static_cast<int>(step.kind)].may_fail;
  if (step.on_fail != kNoExit) {
    if (!may_fail) fail("cannot fail, but has an exit");
    exit(step.on_fail);
  } else if (may_fail && step.kind != StepKind::k_kernel) {
    fail("can fail and has no exit");
  }
  if (step.dst != kNoValue) define(step.dst);
}

void Verifier::kernel_step(const Step& step) {
  index(step.index, plan_.kernels.size(), "kernel");
  if (!fault_.empty()) return;
  const KernelCall& call = plan_.kernels[static_cast<size_t>(step.index)];
  const size_t operands = call.spec.inputs.size() + call.spec.outputs.size();
  if (operands != step.list.size() || operands != call.operand_kinds.size())
    fail("the list does not fit the kernel's operands");
  if (operands > kMaxKernelOperands) fail("more than " + std::to_string(kMaxKernelOperands) + " operands");
  if (call.space.empty()) fail("the kernel has no index space");
  if (!fault_.empty()) return;
  for (size_t i = 0; i < operands; ++i) {
    const bool number = call.operand_kinds[i] != 0;
    const bool wants_number = i < call.spec.inputs.size() && call.spec.inputs[i].is_number;
    if (number != wants_number) fail("operand " + std::to_string(i) + " is a number on one side only");
    constexpr int8_t kFloatWord = 2;
    if (wants_number && call.operand_kinds[i] == kFloatWord &&
        info(call.spec.inputs[i].dtype).kind != DTypeKind::kFloatingKind) {
      fail("operand " + std::to_string(i) + " is a float where the kernel takes an integer");
    }
  }
}

// The steps that follow are those groups, one node each, and look at its word.
void Verifier::groups_ahead(const Step& step) {
  index(step.index, plan_.kernels.size(), "kernel");
  if (!fault_.empty()) return;
  const KernelCall& call = plan_.kernels[static_cast<size_t>(step.index)];
  if (call.spec.inputs.size() != step.list.size() || call.operand_kinds.size() < step.list.size())
    fail("the list does not fit the kernel's inputs");
  const int64_t left = plan_.steps.data() + plan_.steps.size() - 1 - &step;
  if (step.imm < 1 || step.imm > left) return fail("fewer steps follow");
  for (int64_t g = 1; g <= step.imm; ++g)
    if ((&step)[g].kind != StepKind::k_group || (&step)[g].c != step.dst) fail("other steps follow");
  for (const KernelOutput& output : call.spec.outputs) {
    const auto node = output.value - static_cast<int64_t>(call.spec.inputs.size());
    if (output.reduces || node < 0 || node >= step.imm) fail("the kernel has other outputs");
  }
}

// Every value that the exit needs is set at the place it is reached from.
void Verifier::exit(ExitId id) {
  index(id, plan_.exits.size(), "exit");
  if (!fault_.empty()) return;
  const Exit& exit = plan_.exits[static_cast<size_t>(id)];
  ++visit_;
  if (exit.kind == ExitKind::kReturn) {
    if (exit.result < 0) fail("exit " + std::to_string(id) + " returns nothing");
  } else if (exit.frames.empty()) {
    fail("exit " + std::to_string(id) + " has no frame");
  }
  if (exit.break_index >= 0) index(exit.break_index, plan_.breaks.size(), "break");
  if (exit.error != kNoConstant) constant(exit.error);
  for (size_t f = 0; f < exit.frames.size(); ++f) {
    const FrameState& frame = exit.frames[f];
    constant(frame.code);
    if (f > 0 && frame.function < 0) fail("an inlined frame has no function");
  }
  for (const RaisedState& raised : exit.raised)
    if (raised.generator < 0) index(raised.frame, exit.frames.size(), "frame");
  each_recipe(exit, [&](RecipeId id) { recipe(id); });
  for (ValueId value : exit.owned) {
    use(value);
    if (!fault_.empty()) break;
    uint32_t& last = owned_[static_cast<size_t>(value)];
    if (last == visit_) fail("value " + std::to_string(value) + " is owned twice");
    last = visit_;
  }
  if (!fault_.empty()) fault_ = " -> exit " + std::to_string(id) + fault_;
}

void Verifier::recipe(RecipeId id) {
  index(id, plan_.recipes.size(), "recipe");
  if (!fault_.empty()) return;
  if (visited_[static_cast<size_t>(id)] == visit_) return;  // shared, or part of itself through a cell or container
  visited_[static_cast<size_t>(id)] = visit_;
  const Recipe& recipe = plan_.recipes[static_cast<size_t>(id)];
  switch (recipe.kind) {
    case RecipeKind::kValue:
    case RecipeKind::kBoxInt:
    case RecipeKind::kBoxFloat:
    case RecipeKind::kBoxBool: use(recipe.value); break;
    case RecipeKind::kConstant:
    case RecipeKind::kFunction:
    case RecipeKind::kGenerator:
    case RecipeKind::kSetLike: constant(recipe.constant); break;
    default: break;
  }
  for (RecipeId part : recipe.parts) {
    if (fault_.empty()) this->recipe(part);
  }
}

void Verifier::use(ValueId value) {
  index(value, defined_.size(), "value");
  if (fault_.empty() && !defined_[static_cast<size_t>(value)])
    fail("value " + std::to_string(value) + " is used before it is set");
}
void Verifier::define(ValueId value) {
  index(value, defined_.size(), "value");
  if (fault_.empty()) defined_[static_cast<size_t>(value)] = true;
}
void Verifier::constant(ConstantId id) { index(id, plan_.constants.size(), "constant"); }
void Verifier::index(int64_t index, size_t count, const char* what) {
  if (index < 0 || static_cast<size_t>(index) >= count) {
    fail("no " + std::string(what) + " " + std::to_string(index) + " among " + std::to_string(count));
  }
}

}  // namespace

std::string verify(const Plan& plan) { return Verifier(plan).run(); }

}  // namespace kintsugi
