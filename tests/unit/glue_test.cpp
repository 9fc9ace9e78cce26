// Every native step as emitted code over fake objects; exits and who owns what after; kernels; emission itself.
#include "jit/glue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <string>

#include "tests/unit/fake_objects.h"

namespace kintsugi {
namespace {

using fake::PlanRun;
using testing::HasSubstr;

constexpr int64_t kMinimum = std::numeric_limits<int64_t>::min(), kMaximum = std::numeric_limits<int64_t>::max();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

const int64_t kIntegers[] = {0,
                             1,
                             -1,
                             5,
                             -5,
                             (1 << 30) - 1,
                             1 << 30,
                             -(1 << 30),
                             (int64_t{1} << 60) - 1,
                             int64_t{1} << 60,
                             -(int64_t{1} << 60) + 1,
                             kMaximum,
                             kMinimum,
                             0x123456789ABCDEF};

// ---- Steps on numbers ---------------------------------------------------------------------------

struct IntRow {
  const char* kind;
  int64_t a, b;
  bool leaves;
  int64_t result;
};

TEST(Step, Integers) {
  const IntRow rows[] = {
      {"int_add", 3, 4, false, 7},
      {"int_add", kMaximum, 1, true, 0},
      {"int_add", kMinimum, -1, true, 0},
      {"int_sub", 3, 4, false, -1},
      {"int_sub", kMinimum, 1, true, 0},
      {"int_sub", kMaximum, -1, true, 0},
      {"int_mul", -3, 4, false, -12},
      {"int_mul", kMaximum, 2, true, 0},
      {"int_mul", kMinimum, -1, true, 0},
      {"int_mul", int64_t{1} << 31, int64_t{1} << 31, false, int64_t{1} << 62},
      {"int_neg", 5, 0, false, -5},
      {"int_neg", kMinimum, 0, true, 0},
      {"int_neg", kMaximum, 0, false, -kMaximum},
      {"int_floor_divide", 7, 2, false, 3},
      {"int_floor_divide", -7, 2, false, -4},
      {"int_floor_divide", 7, -2, false, -4},
      {"int_floor_divide", -7, -2, false, 3},
      {"int_floor_divide", -8, 2, false, -4},
      {"int_floor_divide", 1, 0, true, 0},
      {"int_floor_divide", 5, -1, false, -5},
      {"int_floor_divide", kMinimum, -1, true, 0},
      {"int_floor_divide", kMinimum, 1, false, kMinimum},
      {"int_floor_divide", -1, kMaximum, false, -1},
      {"int_remainder", 7, 3, false, 1},
      {"int_remainder", -7, 3, false, 2},
      {"int_remainder", 7, -3, false, -2},
      {"int_remainder", -7, -3, false, -1},
      {"int_remainder", 6, -3, false, 0},
      {"int_remainder", 6, 0, true, 0},
      {"int_remainder", kMinimum, -1, false, 0},
      {"int_remainder", -1, kMaximum, false, kMaximum - 1},
      {"int_and", 12, 10, false, 8},
      {"int_or", 12, 10, false, 14},
      {"int_xor", 12, 10, false, 6},
      {"int_and", -1, 10, false, 10},
  };
  for (const IntRow& row : rows) {
    const std::string kind = row.kind;
    const bool one = kind == "int_neg";
    const bool can_leave = kind != "int_and" && kind != "int_or" && kind != "int_xor";
    PlanRun run(fake::wrapped("step int_const dst=%0 imm=" + std::to_string(row.a) +
                              "\nstep int_const dst=%1 imm=" + std::to_string(row.b) + "\nstep " + kind +
                              " dst=%2 a=%0" + (one ? "" : " b=%1") + (can_leave ? " on_fail=!1\n" : "\n")));
    EXPECT_EQ(run(), row.leaves ? 1 : 0) << run.error.text << kind << " " << row.a << " " << row.b;
    if (row.leaves) continue;
    EXPECT_EQ(run.integer(2), row.result) << kind << " " << row.a << " " << row.b;
  }
}

std::string float_const(int value, double number) {
  return "step float_const dst=%" + std::to_string(value) + " imm=" + std::to_string(std::bit_cast<int64_t>(number)) +
         "\n";
}

TEST(Step, Floats) {
  struct Row {
    const char* kind;
    double a, b;
    bool leaves;
    double result;
  };
  const Row rows[] = {
      {"float_add", 1.5, 2, false, 3.5},   {"float_sub", 1.5, 2, false, -0.5}, {"float_mul", 1.5, 2, false, 3},
      {"float_div", 3, 2, false, 1.5},     {"float_div", 3, 0.0, true, 0},     {"float_div", 3, -0.0, true, 0},
      {"float_div", 3, kNaN, false, kNaN}, {"float_neg", 0.0, 0, false, -0.0}, {"float_neg", -2.5, 0, false, 2.5},
      {"float_abs", -2.5, 0, false, 2.5},  {"float_abs", -0.0, 0, false, 0.0},
  };
  for (const Row& row : rows) {
    const std::string kind = row.kind;
    const bool one = kind == "float_neg" || kind == "float_abs";
    PlanRun run(fake::wrapped(float_const(0, row.a) + float_const(1, row.b) + "step " + kind + " dst=%2 a=%0" +
                              (one ? "" : " b=%1") + (kind == "float_div" ? " on_fail=!1\n" : "\n")));
    EXPECT_EQ(run(), row.leaves ? 1 : 0) << run.error.text << kind;
    if (row.leaves) continue;
    if (std::isnan(row.result)) {
      EXPECT_TRUE(std::isnan(run.floating(2)));
    } else {
      EXPECT_EQ(std::bit_cast<uint64_t>(run.floating(2)), std::bit_cast<uint64_t>(row.result)) << kind;
    }
  }
}

TEST(Step, Comparisons) {
  for (int how = 0; how < 6; ++how) {
    for (double a : {-1.0, 2.0, kNaN}) {
      for (double b : {-1.0, 2.0, kNaN}) {
        PlanRun run(fake::wrapped(float_const(0, a) + float_const(1, b) +
                                  "step float_compare dst=%2 a=%0 b=%1 imm=" + std::to_string(how) + "\n"));
        ASSERT_EQ(run(), 0);
        const bool expected[] = {a<b, a <= b, a == b, a != b, a> b, a >= b};
        EXPECT_EQ(run.integer(2), expected[how]) << a << " " << how << " " << b;
      }
    }
    for (int64_t a : {kMinimum, int64_t{3}, kMaximum}) {
      for (int64_t b : {kMinimum, int64_t{3}, kMaximum}) {
        PlanRun run(fake::wrapped("step int_const dst=%0 imm=" + std::to_string(a) +
                                  "\nstep int_const dst=%1 imm=" + std::to_string(b) +
                                  "\nstep int_compare dst=%2 a=%0 b=%1 imm=" + std::to_string(how) + "\n"));
        ASSERT_EQ(run(), 0);
        const bool expected[] = {a<b, a <= b, a == b, a != b, a> b, a >= b};
        EXPECT_EQ(run.integer(2), expected[how]) << a << " " << how << " " << b;
      }
    }
  }
}

TEST(Step, IntToFloatIsExact) {
  const int64_t limit = int64_t{1} << 53;
  for (int64_t number : {int64_t{0}, int64_t{-7}, limit, -limit, limit + 1, -limit - 1, kMaximum, kMinimum}) {
    PlanRun run(fake::wrapped("step int_const dst=%0 imm=" + std::to_string(number) +
                              "\nstep int_to_float dst=%1 a=%0 on_fail=!1\n"));
    const bool leaves = number > limit || number < -limit;
    EXPECT_EQ(run(), leaves ? 1 : 0) << number;
    if (leaves) continue;
    EXPECT_EQ(run.floating(1), static_cast<double>(number));
  }
}

TEST(Step, Check) {
  for (int64_t number : kIntegers) {
    PlanRun run(fake::wrapped("step int_const dst=%0 imm=" + std::to_string(number) +
                              "\nstep check a=%0 imm=" + std::to_string(kMaximum) + " on_fail=!1\n"));
    EXPECT_EQ(run(), number == kMaximum ? 0 : 1);
  }
}

// ---- Steps on objects ---------------------------------------------------------------------------

TEST(Step, RangeNext) {
  fake::RangeIterator iterator{{1, &fake::range_iterator_type}, 0, 10, -3, 2};
  PlanRun run(fake::wrapped(fake::loads(1) + "step range_next dst=%1 a=%0 on_fail=!1\n"));
  run.slots = {&iterator};
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(run.integer(1), 10);
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(run.integer(1), 7);
  EXPECT_EQ(run(), 1);
  EXPECT_EQ(iterator.index, 2);
}

TEST(Step, BoxBoolSizeAndTypeCheck) {
  fake::Tensor tensor(fake::layout("f32[2,3]{3,1}"));
  PlanRun run(fake::wrapped(fake::loads(1) +
                            "step size dst=%1 a=%0 imm=1\nstep int_const dst=%2 imm=0\nstep box_bool dst=%3 a=%1\n"
                            "step box_bool dst=%4 a=%2\nstep type_check a=%0 constant=#0 on_fail=!1\n"));
  run.slots = {&tensor};
  run.bindings[0] = &fake::tensor_type;
  const int64_t before = fake::true_object.references;
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(run.integer(1), 3);
  EXPECT_EQ(run.values[3], reinterpret_cast<uint64_t>(&fake::true_object));
  EXPECT_EQ(run.values[4], reinterpret_cast<uint64_t>(&fake::false_object));
  EXPECT_EQ(fake::true_object.references, before + 1);
  tensor.type = &fake::list_type;
  EXPECT_EQ(run(), 1);
  tensor.type = &fake::tensor_type;
}

TEST(Step, AttributesAreSetInPlace) {
  static AttributePlace place;
  fake::Type type;
  type.version = 77;
  fake::Object old{2, nullptr}, value{1, nullptr};
  void* values[2] = {nullptr, &old};
  struct {
    fake::Instance instance;
    void* slot;
  } made{{values, nullptr, {}, {1, &type}}, &old};
  int helped = 0;
  bool changes = false;
  auto make = [&](AttributePlace::Form form, int32_t offset) {
    auto run = std::make_unique<PlanRun>(
        fake::wrapped("constant #1 object \"class\"\nconstant #2 object \"name\"\n" + fake::loads(2) +
                      "guard type_version a=%0 constant=#1 imm=77\nstep int_const dst=%2 imm=1\n"
                      "step box_int dst=%3 a=%2 on_fail=!1\nstep attribute_set a=%0 b=%1 constant=#2 on_fail=!1\n"));
    place = {form, offset};
    ObjectFacts facts = object_facts();
    facts.attribute_place = [](const void*, const void*) { return place; };
    set_object_facts(facts);
    run->slots = {&made.instance.object, &value};
    run->bindings[1] = &type;
    run->step_helper = [&](NativeState*, const Step* step) {
      if (step->kind == StepKind::k_box_int && changes) type.version = 78;
      if (step->kind != StepKind::k_attribute_set) return 0;
      return ++helped, -1;
    };
    EXPECT_TRUE(run->emit());
    return run;
  };
  auto inside = make(AttributePlace::Form::kInlineValues, 8);
  EXPECT_EQ((*inside)(), 0);
  EXPECT_EQ(values[1], &value);
  EXPECT_EQ(value.references, 2);
  EXPECT_EQ(old.references, 1);
  EXPECT_EQ(helped, 0);
  values[1] = nullptr;  // not set yet
  EXPECT_EQ((*inside)(), 1);
  made.instance.values = nullptr;  // it has a dict
  EXPECT_EQ((*inside)(), 1);
  made.instance.values = values;
  values[1] = &old;
  changes = true;  // the class, by a step
  EXPECT_EQ((*inside)(), 1);
  EXPECT_EQ(values[1], &old);
  EXPECT_EQ(helped, 3);

  changes = false;
  type.version = 77;
  auto slot = make(AttributePlace::Form::kSlot, static_cast<int32_t>(reinterpret_cast<char*>(&made.slot) -
                                                                     reinterpret_cast<char*>(&made.instance.object)));
  old.references = 2;
  EXPECT_EQ((*slot)(), 0);
  EXPECT_EQ(made.slot, &value);
  EXPECT_EQ(value.references, 3);
  EXPECT_EQ(old.references, 1);
  auto unknown = make(AttributePlace::Form::kNone, 0);
  EXPECT_EQ((*unknown)(), 1);
  EXPECT_EQ(helped, 4);
}

TEST(Step, HelpersGetTheirStepAndCanFail) {
  PlanRun run(
      fake::wrapped("step int_const dst=%0 imm=4\nstep box_int dst=%1 a=%0 on_fail=!1\nstep int_const dst=%2 imm=9\n"));
  int answer = 0;
  run.step_helper = [&](NativeState* state, const Step* step) {
    EXPECT_EQ(step->kind, StepKind::k_box_int);
    state->values[step->dst] = state->values[step->a] + 100;
    return answer;
  };
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(run.integer(1), 104);
  EXPECT_EQ(run.integer(2), 9);
  answer = -1;
  EXPECT_EQ(run(), 1);
  EXPECT_NE(run.integer(2), 9);
}

// ---- Exits --------------------------------------------------------------------------------------

constexpr const char* kTwoTensors = R"(plan "exit@0" values=4 final=!0
constant #0 layout "f32[4]{1}"
constant #1 object "code"
guard slot dst=%0
step tensor_new dst=%1 constant=#0 on_fail=!1
step tensor_new dst=%2 constant=#0 on_fail=!2
)";
constexpr const char* kTwoTensorExits = R"(
exit !1 raise
  frame code=#1
exit !2 raise owned=%1
  frame code=#1
)";

struct ExitRun : PlanRun {
  ExitRun(const std::string& exit, const std::string& recipe)
      : PlanRun(kTwoTensors + ("exit !0 " + exit) + kTwoTensorExits + "recipe @0 " + recipe + "\n") {
    slots = {&argument};
    bindings[1] = &constant;
  }
  fake::Object argument{5}, constant{5};
};

TEST(Exit, ReturnMovesTheResultAndReleasesTheRest) {
  const int before = fake::live_tensors;
  ExitRun run("return result=@0 owned=%1,%2", "value value=%2");
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(run.state.result, reinterpret_cast<void*>(run.values[2]));
  EXPECT_EQ(static_cast<fake::Object*>(run.state.result)->references, 1);
  EXPECT_EQ(fake::live_tensors, before + 1);
  fake::release(run.state.result);
}

TEST(Exit, ReturnOfWhatIsNotOwnedTakesAReference) {
  const int before = fake::live_tensors;
  ExitRun argument("return result=@0 owned=%1,%2", "value value=%0"),
      constant("return result=@0 owned=%1,%2", "constant constant=#1"),
      truth("return result=@0 owned=%1,%2", "box_bool value=%0");
  EXPECT_EQ(argument(), 0);
  EXPECT_EQ(argument.state.result, &argument.argument);
  EXPECT_EQ(argument.argument.references, 6);
  EXPECT_EQ(constant(), 0);
  EXPECT_EQ(constant.state.result, &constant.constant);
  EXPECT_EQ(constant.constant.references, 6);
  const int64_t references = fake::true_object.references;
  EXPECT_EQ(truth(), 0);
  EXPECT_EQ(truth.state.result, &fake::true_object);
  EXPECT_EQ(fake::true_object.references, references + 1);
  EXPECT_EQ(fake::live_tensors, before);
}

TEST(Exit, OthersLeaveOwnedValuesToTheDriver) {
  const int before = fake::live_tensors;
  for (const char* exit : {"next owned=%1,%2\n  frame code=#1 slots=0:@0", "return result=@0 owned=%1,%2"}) {
    ExitRun run(exit, "box_int value=%0");
    EXPECT_EQ(run(), 0) << run.error.text;
    EXPECT_EQ(run.state.result, nullptr);
    EXPECT_EQ(fake::live_tensors, before + 2);
    fake::release(reinterpret_cast<void*>(run.values[1]));
    fake::release(reinterpret_cast<void*>(run.values[2]));
  }
}

TEST(Exit, SharedObjectsAreOnlyCountedDown) {
  ExitRun run("return result=@0 owned=%1,%2", "value value=%0");
  fake::Tensor kept(fake::layout("f32[4]{1}"));
  kept.references = 3;
  run.helpers.tensor_new = [](const Layout*) -> void* { return nullptr; };
  EXPECT_EQ(run(), 1);
  PlanRun drop(fake::wrapped(fake::loads(1) + "step drop a=%0\n"));
  drop.slots = {&kept};
  EXPECT_EQ(drop(), 0);
  EXPECT_EQ(kept.references, 2);
}

// ---- Kernels ------------------------------------------------------------------------------------

KernelCall add_number_call(DType dtype, int8_t number_kind, Op op = Op::k_add) {
  KernelCall call;
  call.spec.inputs = {{false, dtype, Access::kContiguous}, {true, dtype, Access::kUniform}};
  call.spec.body = {{op, dtype, dtype, {0, 1, -1}}};
  call.spec.outputs = {{2, Access::kContiguous, false, Op::kCount, dtype}};
  call.operand_kinds = {0, number_kind, 0};
  call.count = 5;
  call.space = std::string(info(dtype).short_name) + "[5]{1}";
  return call;
}

struct KernelRun : PlanRun {
  KernelRun(const std::string& number, const KernelCall& call)
      : PlanRun(fake::wrapped(fake::loads(2) + number + "step kernel index=0 list=%0,%2,%1 on_fail=!1\n")) {
    plan.kernels = {call};
  }
};

TEST(Kernel, NumbersAreConverted) {
  Layout* layout = fake::layout("f32[5]{1}");
  const std::pair<std::string, int8_t> numbers[] = {
      {"step int_const dst=%2 imm=3\n", 1}, {float_const(2, 3), 2}, {"step int_const dst=%2 imm=1\n", 3}};
  for (const auto& [line, kind] : numbers) {
    for (bool flat : {true, false}) {
      fake::Tensor a(layout), out(layout);
      for (int i = 0; i < 5; ++i) a.data<float>()[i] = static_cast<float>(i);
      KernelCall call = add_number_call(DType::k_float32, kind);
      call.flat = flat;
      KernelRun run(line, call);
      run.slots = {&a, &out};
      ASSERT_EQ(run(), 0) << run.error.text;
      for (int i = 0; i < 5; ++i) EXPECT_EQ(out.data<float>()[i], static_cast<float>(i + (kind == 3 ? 1 : 3)));
      EXPECT_GE(run.code->kernels[0]->runs, 1u);
    }
  }
}

TEST(Kernel, FaultLeaves) {
  Layout* layout = fake::layout("i64[5]{1}");
  for (bool flat : {true, false}) {
    fake::Tensor a(layout), out(layout);
    for (int i = 0; i < 5; ++i) a.data<int64_t>()[i] = i;
    KernelCall call = add_number_call(DType::k_int64, 1, Op::k_floor_divide);
    call.flat = flat;
    KernelRun zero("step int_const dst=%2 imm=0\n", call), two("step int_const dst=%2 imm=2\n", call);
    zero.slots = two.slots = {&a, &out};
    EXPECT_EQ(zero(), 1) << zero.error.text;
    EXPECT_EQ(two(), 0) << two.error.text;
    for (int i = 0; i < 5; ++i) EXPECT_EQ(out.data<int64_t>()[i], i / 2);
  }
}

TEST(Kernel, LargeOnesGoThroughTheHelper) {
  Layout* layout = fake::layout("f32[40000]{1}");
  fake::Tensor a(layout), out(layout);
  a.data<float>()[39999] = 1;
  KernelCall call = add_number_call(DType::k_float32, 1);
  call.count = 40000;
  call.space = "f32[40000]{1}";
  KernelRun run("step int_const dst=%2 imm=3\n", call);
  run.slots = {&a, &out};
  static int calls;
  calls = 0;
  run.helpers.run_large = [](NativeState* state, const Step* step, KernelBlock* block) {
    ++calls;
    EXPECT_NE(block, nullptr);
    return run_kernel_step(state, step, block);
  };
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(out.data<float>()[39999], 4);
  run.helpers.run_large = nullptr;
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(calls, 1);
}

// ---- Failures and speed -------------------------------------------------------------------------

TEST(Emit, FullCodeMemoryIsAnOrderedFailure) {
  PlanRun run(fake::wrapped("step int_const dst=%0 imm=1\n"));
  code_memory().set_limit(0);
  EXPECT_FALSE(run.emit());
  EXPECT_EQ(run.error.kind, ErrorKind::kMemory);
  EXPECT_THAT(run.error.text, HasSubstr("code memory"));
  code_memory().set_limit(CodeMemory::kDefaultReserve);
  EXPECT_EQ(run(), 0);
}

TEST(Emit, IllegalPlansAreRefused) {
  PlanRun run(fake::wrapped("step int_neg dst=%0 a=%1 on_fail=!1\n"));
  EXPECT_FALSE(run.emit());
  EXPECT_EQ(run.error.kind, ErrorKind::kRuntime);
  EXPECT_THAT(run.error.text, HasSubstr("value 1 is used before it is set"));
}

TEST(Emit, KernelsMustFit) {
  const std::pair<KernelCall, const char*> rows[] = {
      {[] {
         auto call = add_number_call(DType::k_int64, 2);
         return call;
       }(),
       "is a float where the kernel takes an integer"},
      {[] {
         auto call = add_number_call(DType::k_float32, 0);
         return call;
       }(),
       "operand 1 is a number on one side only"},
      {[] {
         auto call = add_number_call(DType::k_float32, 1);
         call.space = "f32[x]";
         return call;
       }(),
       "is no layout"},
      {[] {
         auto call = add_number_call(DType::k_float32, 1);
         call.space = "";
         return call;
       }(),
       "no index space"},
      {[] {
         auto call = add_number_call(DType::k_float32, 1);
         call.count = 6;
         return call;
       }(),
       "counts 6 elements, not 5"},
  };
  for (const auto& [call, expected] : rows) {
    KernelRun run("step int_const dst=%2 imm=3\n", call);
    EXPECT_FALSE(run.emit());
    EXPECT_THAT(run.error.text, HasSubstr(expected));
  }
}

TEST(Emit, MemoryComesBack) {
  const size_t before = code_memory().bytes_in_use();
  {
    PlanRun run(fake::wrapped("step int_const dst=%0 imm=1\n"));
    EXPECT_EQ(run(), 0);
    EXPECT_GT(code_memory().bytes_in_use(), before);
  }
  EXPECT_EQ(code_memory().bytes_in_use(), before);
}

// Not a benchmark: that twenty steps take microseconds, not milliseconds, on any machine.
TEST(Emit, TwentyStepsTakeMicroseconds) {
  std::string lines = fake::loads(4);
  for (int i = 0; i < 4; ++i) lines += "guard tensor_layout a=%" + std::to_string(i) + " constant=#1\n";
  lines += "step int_const dst=%4 imm=1\n";
  for (int i = 0; i < 19; ++i) lines += "step int_add dst=%5 a=%4 b=%4 on_fail=!1\n";
  std::string text = fake::wrapped(lines);
  text.insert(text.find("guard"), "constant #1 layout \"f32[8]{1}\"\n");
  double best = 1e9;
  for (int round = 0; round < 20; ++round) {
    PlanRun run(text);
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(run.emit()) << run.error.text;
    best = std::min(best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  RecordProperty("microseconds", std::to_string(best));
  std::printf("emission: %.1f us\n", best);
  EXPECT_LT(best, 2000);
}

}  // namespace
}  // namespace kintsugi
