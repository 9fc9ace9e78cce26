// From a trace's records to steps: what runs together, what runs although nobody looks, what is held, and that many
// thousand operations take no longer than they should.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <initializer_list>
#include <string>
#include <vector>

#include "jit/graph.h"

namespace kintsugi {

namespace {

using testing::ElementsAre;

// One trace, written down node by node.
class Program {
 public:
  explicit Program(std::vector<int64_t> sizes = {4}) : layout_(intern_contiguous(DType::k_float32, sizes)) {
    plan().constants.push_back({ConstantKind::kObject, 0, 0, "code f"});
    trace_.entry_exit = exit(ExitKind::kNext);
  }
  ~Program() { release(layout_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Plan& plan() { return trace_.plan; }
  ValueId argument() { return guard(GuardKind::k_slot, kNoValue); }
  ValueId item_of(ValueId list) { return guard(GuardKind::k_list_item, list); }
  ValueId node(Op op, std::initializer_list<ValueId> operands, bool dynamic = false) {
    Node made;
    made.op = op;
    made.value = plan().value_count++;
    for (ValueId operand : operands) {
      made.operands.emplace_back();
      made.operands.back().value = operand;
      made.operands.back().layout = layout_;
      made.operands.back().dynamic = dynamic;
    }
    made.compute = DType::k_float32;
    made.layout = layout_;
    made.dynamic = dynamic;
    if (dynamic) made.on_fail = exit(ExitKind::kRaise);
    trace_.records.push_back({static_cast<int32_t>(trace_.nodes.size()), {}});
    trace_.nodes.push_back(std::move(made));
    return trace_.nodes.back().value;
  }
  void write(ValueId target, ValueId value) {
    Record record;
    record.step.kind = StepKind::k_write;
    record.step.a = target;
    record.step.b = value;
    record.step.on_fail = exit(ExitKind::kRaise);
    trace_.records.push_back(record);
  }
  // Returns them, fused.
  const Plan& returning(const std::vector<ValueId>& values) {
    Recipe tuple{RecipeKind::kTuple, kNoValue, kNoConstant, {}};
    for (ValueId value : values) {
      tuple.parts.push_back(static_cast<RecipeId>(plan().recipes.size()));
      plan().recipes.push_back({RecipeKind::kValue, value, kNoConstant, {}});
    }
    plan().final_exit = exit(ExitKind::kReturn);
    plan().exits.back().result = static_cast<RecipeId>(plan().recipes.size());
    plan().recipes.push_back(tuple);
    fuse(&trace_, /*fuse=*/true);
    EXPECT_EQ(verify(plan()), "");
    return plan();
  }

 private:
  ValueId guard(GuardKind kind, ValueId of) {
    Guard made{kind};
    made.a = of;
    made.dst = plan().value_count++;
    plan().guards.push_back(made);
    return made.dst;
  }
  ExitId exit(ExitKind kind) {
    Exit made;
    made.kind = kind;
    if (kind != ExitKind::kReturn) made.frames.push_back({0});
    plan().exits.push_back(made);
    return static_cast<ExitId>(plan().exits.size() - 1);
  }

  Trace trace_;
  Layout* layout_;
};

size_t count(const Plan& plan, StepKind kind) {
  size_t found = 0;
  for (const Step& step : plan.steps) found += step.kind == kind;
  return found;
}

// How many groups each kernel runs ahead.
std::vector<int64_t> stretches(const Plan& plan) {
  std::vector<int64_t> found;
  for (const Step& step : plan.steps)
    if (step.kind == StepKind::k_groups_ahead) found.push_back(step.imm);
  return found;
}

TEST(UnknownSizes, AStretchHasAsManyOperandsAsAKernelTakes) {
  Program program;
  std::vector<ValueId> shown;
  const ValueId x = program.argument();
  for (int i = 0; i < 20; ++i) shown.push_back(program.node(Op::k_neg, {x}, /*dynamic=*/true));
  const Plan& plan = program.returning(shown);
  EXPECT_THAT(stretches(plan), ElementsAre(kMaxKernelOperands - 1, 20 - (kMaxKernelOperands - 1)));
  for (const Step& step : plan.steps) {
    if (step.kind != StepKind::k_groups_ahead) continue;
    const KernelSpec& spec = plan.kernels[static_cast<size_t>(step.index)].spec;
    EXPECT_EQ(spec.inputs.size(), 1U);
    EXPECT_EQ(spec.outputs.size(), static_cast<size_t>(step.imm));
  }
}

TEST(UnknownSizes, WhatNobodyLooksAtAfterwardsIsNoOperand) {
  Program program;
  std::vector<ValueId> terms;
  const ValueId x = program.argument();
  for (int i = 0; i < kMaxKernelOperands + 4; ++i) terms.push_back(program.node(Op::k_neg, {x}, /*dynamic=*/true));
  ValueId sum = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) sum = program.node(Op::k_add, {sum, terms[i]}, /*dynamic=*/true);
  const Plan& plan = program.returning({sum});
  EXPECT_THAT(stretches(plan), ElementsAre(static_cast<int64_t>(2 * terms.size() - 1)));
  EXPECT_EQ(plan.kernels[0].spec.outputs.size(), 1U);
}

TEST(UnknownSizes, WhatMayRaiseRunsThoughNobodyLooks) {
  Program program;
  const ValueId x = program.argument(), y = program.argument();
  program.node(Op::k_add, {x, y}, /*dynamic=*/true);
  program.node(Op::k_neg, {x}, /*dynamic=*/true);  // fits itself
  EXPECT_EQ(count(program.returning({x}), StepKind::k_group), 1U);
}

TEST(Held, WhatGuardsLoadedWhereOtherThreadsMayRun) {
  for (const int64_t elements : {8, 1 << 20}) {
    Program program(std::vector<int64_t>{elements});
    const ValueId x = program.argument(), item = program.item_of(x);
    const ValueId sum = program.node(Op::k_add, {x, x});
    const Plan& plan = program.returning({item, sum});
    ASSERT_EQ(count(plan, StepKind::k_hold), elements > 8 ? 1U : 0U);
    for (const Step& step : plan.steps) {
      if (step.kind == StepKind::k_kernel) break;
      EXPECT_TRUE(step.kind == StepKind::k_tensor_new || step.kind == StepKind::k_hold);
      if (step.kind == StepKind::k_hold) {
        EXPECT_EQ(step.a, item);
      }
    }
  }
}

// What took a time that grew with the square or the cube of it would take minutes.
constexpr int kMany = 2000;

double seconds_of(Program& program, const std::vector<ValueId>& shown) {
  const auto start = std::chrono::steady_clock::now();
  program.returning(shown);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Many, GroupsOfUnknownSizes) {
  for (const int each : {1, 7, kMany}) {  // of how many values one is shown
    Program program;
    const ValueId x = program.argument();
    std::vector<ValueId> shown;
    ValueId y = x;
    for (int i = 1; i <= kMany; ++i) {
      y = program.node(Op::k_mul, {y, x}, /*dynamic=*/true);
      if (i % each == 0) shown.push_back(y);
    }
    EXPECT_LT(seconds_of(program, shown), 3) << each;
    EXPECT_EQ(count(program.plan(), StepKind::k_group), static_cast<size_t>(kMany));
    EXPECT_EQ(count(program.plan(), StepKind::k_groups_ahead), each == kMany ? 1U : each == 7 ? 21U : 143U);
  }
}

TEST(Many, OperationsThatWait) {
  Program program;
  const ValueId x = program.argument(), target = program.argument();
  std::vector<ValueId> shown;
  for (int i = 0; i < kMany; ++i) shown.push_back(program.node(Op::k_add, {x, x}));
  program.write(target, shown[0]);
  EXPECT_LT(seconds_of(program, shown), 3);
  EXPECT_EQ(count(program.plan(), StepKind::k_tensor_new), static_cast<size_t>(kMany));
}

}  // namespace
}  // namespace kintsugi
