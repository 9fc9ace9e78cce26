// Plans without Python: text in, native code out, run over fake objects with a fake helper table. No Py symbol may be
// in this binary; the first test looks.
#include "jit/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>

#include "jit/glue.h"
#include "tests/unit/fake_objects.h"

namespace kintsugi {
namespace {

using fake::PlanRun;

TEST(Plan, BinaryHasNoPythonSymbol) {
  const std::string binary = "/proc/" + std::to_string(getpid()) + "/exe";
  FILE* names = popen(("nm --undefined-only " + binary).c_str(), "r");
  ASSERT_NE(names, nullptr);
  char line[512];
  int count = 0;
  while (std::fgets(line, sizeof line, names) != nullptr) {
    const char* name = std::strrchr(line, ' ');
    if (name == nullptr) continue;
    ++count;
    EXPECT_FALSE(std::strncmp(name, " Py", 3) == 0 || std::strncmp(name, " _Py", 4) == 0) << line;
  }
  pclose(names);
  EXPECT_GT(count, 10);
}

// ---- Text ---------------------------------------------------------------------------------------

constexpr const char* kEverything = R"plan(plan "f@0" values=9 final=!0
constant #0 layout "f32[8]{1}"
constant #1 int -7
constant #2 float 0.10000000000000001
constant #3 string "a \"b\"\n\\c"
constant #4 object "code f"
constant #5 pointer "keys of globals"
constant #6 float nan:7ff8000000000001
source 0 "x"
source 1 "self.taps[0]"
guard slot dst=%0 source=0
guard slot dst=%1 imm=1
guard tensor_layout a=%0 constant=#0
guard int_value dst=%2 a=%1
step tensor_new dst=%3 constant=#0 on_fail=!1
step kernel index=0 list=%0,%2,%3 on_fail=!2
step int_const dst=%4 imm=-9223372036854775808
step group dst=%5 index=0 list=%0 on_fail=!1
step run_op dst=%7 index=0 list=%0 on_fail=!1
step drop a=%7
exit !0 return result=@2 owned=%3,%5,%6
exit !1 raise error=#3
  frame code=#4 offset=7 depth=1 slots=0:@0,3:@1
  frame code=#4 function=@0 rule=next_or
exit !2 step owned=%3 break=0
  frame code=#4 offset=3
recipe @0 constant constant=#4
recipe @1 box_int value=%2
recipe @2 tuple parts=@3,@1
recipe @3 value value=%3
break item context="x.item()" explanation="because"
  at "f.py:3:f"
  at "g.py:4:g"
kernel space="f32[8]{1}" count=8 kinds=0,1,0 spec="SPEC"
group outputs=1,2
  input dtype=f32
  input dtype=f64 number=1 access=uniform
  node op=add dtype=f32 compute=f32 operands=0,1,-1
  node op=sum dtype=f32 compute=f32 operands=2,-1,-1 dims=3 has_dim=1 keepdim=1 dim=1 has_dtype=1 dtype_asked=f64
op op=full kinds=0 rank=2 sizes=2,3 strides=3,1 start=1.5 step=0.25 int_start=3 int_step=2 seed=5 draw=18446744073709551610
graph "add f32[8]"
)plan";

std::string everything() {
  KernelSpec spec;
  spec.inputs = {{false, DType::k_float32, Access::kContiguous}, {true, DType::k_float32, Access::kUniform}};
  spec.body = {{Op::k_add, DType::k_float32, DType::k_float32, {0, 1, -1}}};
  spec.outputs = {{2, Access::kContiguous, false, Op::kCount, DType::k_float32}};
  std::string text = kEverything, kernel;
  for (char c : to_text(spec)) kernel += c == '\n' ? "\\n" : c == '"' ? "\\\"" : std::string(1, c);
  return text.replace(text.find("SPEC"), 4, kernel);
}

TEST(PlanText, RoundTripsEveryPart) {
  Plan plan;
  std::string error;
  ASSERT_TRUE(parse_plan(everything(), &plan, &error)) << error;
  EXPECT_EQ(to_text(plan), everything());
  EXPECT_EQ(plan.constants[3].text, "a \"b\"\n\\c");
  EXPECT_EQ(std::bit_cast<uint64_t>(plan.constants[6].f64), 0x7ff8000000000001u);
  EXPECT_EQ(plan.exits[1].frames[1].rule, ReturnRule::kNextOr);
  EXPECT_EQ(plan.groups[0].nodes[1].attributes.dtype, DType::k_float64);
  EXPECT_EQ(plan.ops[0].attributes.draw, static_cast<uint64_t>(-6));
}

TEST(PlanText, NamesTheLineItCannotRead) {
  const std::pair<const char*, const char*> rows[] = {
      {"plan \"f\" values=1\nguard sloth dst=%0", "line 2: \"sloth\" is no kind of guard"},
      {"plan \"f\" values=x", "line 1: \"x\" is no integer of 32 bits"},
      {"plan \"f\" valves=1", "line 1: unknown field \"valves\""},
      {"plan \"f", "line 1: a string has no closing quote"},
      {"exit !1 return", "line 1: expected number 0"},
      {"frame code=#0", "line 1: \"frame\" begins no line of a plan here"},
      {"exit !0 next\n  frame slots=1", "line 2: a slot is slot:@recipe, not 1"},
      {"op op=frobnicate", "line 1: \"frobnicate\" is no operation"},
      {"op op=full sizes=1,2,3,4,5,6,7,8,9", "line 1: sizes has more than 8 items"},
      {"op op=full rank=9", "line 1: rank is not within 0 and 8"},
      {"op op=full keepdim=2", "line 1: \"2\" is neither 0 nor 1"},
      {"step int_const imm=9223372036854775808", "line 1: \"9223372036854775808\" is no integer of 64 bits"},
  };
  for (auto [text, expected] : rows) {
    Plan plan;
    std::string error;
    EXPECT_FALSE(parse_plan(text, &plan, &error)) << text;
    EXPECT_EQ(error, expected);
  }
}

TEST(PlanVerify, NamesThePlace) {
  const std::string exits = "exit !0 return result=@0\nrecipe @0 box_int value=%0\n";
  const std::pair<std::string, const char*> rows[] = {
      {"plan \"f\" values=1 final=!0\nstep int_const dst=%0 imm=1\n" + exits, ""},
      {"plan \"f\" values=1 final=!0\n" + exits, "at the end -> exit 0: value 0 is used before it is set"},
      {"plan \"f\" values=1 final=!3\n" + exits, "at the end: no exit 3 among 1"},
      {"plan \"f\" values=1 final=!0\nguard slot dst=%1\n" + exits, "guard 0 (slot): no value 1 among 1"},
      {"plan \"f\" values=1 final=!0\nguard list_length a=%0\n" + exits,
       "guard 0 (list_length): value 0 is used before it is set"},
      {"plan \"f\" values=1 final=!0\nguard slot dst=%0\nguard same a=%0\n" + exits,
       "guard 1 (same): no constant -1 among 0"},
      {"plan \"f\" values=1 final=!0\nstep int_const dst=%0\nstep int_neg dst=%0 a=%0\n" + exits,
       "step 1 (int_neg): can fail and has no exit"},
      {"plan \"f\" values=2 final=!0\nstep int_const dst=%1\nstep int_neg dst=%0 a=%1 on_fail=!0\n" + exits,
       "step 1 (int_neg) -> exit 0: value 0 is used before it is set"},
      {"plan \"f\" values=1 final=!0\nstep int_const dst=%0\nexit !0 return result=@0 owned=%0,%0\nrecipe @0 null\n",
       "at the end -> exit 0: value 0 is owned twice"},
  };
  for (const auto& [text, expected] : rows) {
    Plan plan;
    std::string error;
    ASSERT_TRUE(parse_plan(text, &plan, &error)) << error;
    EXPECT_EQ(verify(plan), expected) << text;
  }
}

TEST(PlanVerify, WhatRunsGroupsAheadIsFollowedByThem) {
  KernelSpec spec;
  spec.inputs = {{false, DType::k_float32, Access::kContiguous}};
  spec.body = {{Op::k_neg, DType::k_float32, DType::k_float32, {0, -1, -1}},
               {Op::k_exp, DType::k_float32, DType::k_float32, {1, -1, -1}}};
  spec.outputs = {{2, Access::kContiguous, false, Op::kCount, DType::k_float32}};
  auto plan_of = [&](const std::string& ahead, const std::string& second) {
    return "plan \"f\" values=4 final=!0\nguard slot dst=%0\nstep groups_ahead dst=%1 " + ahead +
           " index=0\nstep group dst=%2 c=%1 index=0 list=%0 on_fail=!0\n" + second +
           "exit !0 return result=@0\nrecipe @0 null\nkernel space=\"f32[8]{1}\" count=8 kinds=0,0 spec=\"" +
           to_text(spec) +
           "\"\ngroup outputs=1\n  input dtype=f32\n  node op=neg dtype=f32 compute=f32 operands=0,-1,-1\n";
  };
  const std::string second = "step group dst=%3 c=%1 index=0 list=%2 on_fail=!0\n";
  const std::tuple<std::string, std::string, const char*> rows[] = {
      {"imm=2 list=%0", second, ""},
      {"imm=2 list=%0,%0", second, "step 0 (groups_ahead): the list does not fit the kernel's inputs"},
      {"imm=3 list=%0", second, "step 0 (groups_ahead): fewer steps follow"},
      {"imm=2 list=%0", "step int_const dst=%3\n", "step 0 (groups_ahead): other steps follow"},
      {"imm=1 list=%0", second, "step 0 (groups_ahead): the kernel has other outputs"},
  };
  for (const auto& [ahead, following, expected] : rows) {
    Plan plan;
    std::string error;
    ASSERT_TRUE(parse_plan(plan_of(ahead, following), &plan, &error)) << error;
    EXPECT_EQ(verify(plan), expected) << to_text(plan);
  }
}

// ---- Running ------------------------------------------------------------------------------------

// c = a * b + a over 8 float32, a new tensor, returned: the shape of a warm call.
TEST(PlanRun, TensorNewKernelReturn) {
  PlanRun run(R"(plan "axpy@0" values=3 final=!0
constant #0 layout "f32[8]{1}"
guard slot dst=%0
guard tensor_layout a=%0 constant=#0
guard slot dst=%1 imm=1
guard tensor_layout a=%1 constant=#0
step tensor_new dst=%2 constant=#0 on_fail=!1
step kernel index=0 list=%0,%1,%2
exit !0 return result=@0 owned=%2
exit !1 raise
  frame code=#0
recipe @0 value value=%2
)");
  KernelCall call;
  call.space = "f32[8]{1}";
  call.count = 8;
  call.operand_kinds = {0, 0, 0};
  call.spec.inputs = {{false, DType::k_float32, Access::kContiguous}, {false, DType::k_float32, Access::kContiguous}};
  call.spec.body = {{Op::k_mul, DType::k_float32, DType::k_float32, {0, 1, -1}},
                    {Op::k_add, DType::k_float32, DType::k_float32, {2, 0, -1}}};
  call.spec.outputs = {{3, Access::kContiguous, false, Op::kCount, DType::k_float32}};
  run.plan.kernels = {call};
  fake::Tensor a(run.layout(0)), b(run.layout(0));
  for (int i = 0; i < 8; ++i) a.data<float>()[i] = static_cast<float>(i), b.data<float>()[i] = 2;
  run.slots = {&a, &b};
  ASSERT_EQ(run(), 0) << run.error.text;
  auto* result = static_cast<fake::Tensor*>(run.state.result);
  ASSERT_NE(result, nullptr);
  EXPECT_EQ(result->references, 1);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(result->data<float>()[i], static_cast<float>(3 * i));
  EXPECT_EQ(run.code->kernels[0]->runs, 1u);
  fake::release(result);

  b.layout = fake::layout("f32[9]{1}");
  EXPECT_EQ(run(), kMissed);
  EXPECT_EQ(run.state.missed_guard, 3);
  run.slots[0] = nullptr;
  EXPECT_EQ(run(), kMissed);
  EXPECT_EQ(run.state.missed_guard, 0);

  fake::fail_allocation = true;
  run.slots[0] = &a;
  b.layout = a.layout;
  EXPECT_EQ(run(), 1);
  EXPECT_EQ(run.state.result, nullptr);
  fake::fail_allocation = false;

  // After guards that were checked elsewhere.
  EXPECT_EQ(run.code->body(&run.state), 0);
  fake::release(run.state.result);
  EXPECT_THAT(disassemble(*run.code),
              testing::AllOf(testing::HasSubstr("guard 1 tensor_layout:"), testing::HasSubstr("step 1 kernel:"),
                             testing::HasSubstr("exit 1:"), testing::Not(testing::HasSubstr("no instruction"))));
}

}  // namespace
}  // namespace kintsugi
