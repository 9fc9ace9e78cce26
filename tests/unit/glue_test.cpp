// Every guard kind, hit and miss, and every native step, as emitted code over fake objects; exits and who owns what after.
#include "jit/glue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>

#include "tests/unit/fake_objects.h"

namespace kintsugi {
namespace {

using fake::PlanRun;
using testing::HasSubstr;

constexpr int64_t kMinimum = std::numeric_limits<int64_t>::min(), kMaximum = std::numeric_limits<int64_t>::max();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// The lines between the plan's head and an exit that hands everything over: 0 the guards held and all steps succeeded,
// 1 a step failed.
std::string plan_text(const std::string& lines, int values = 8) {
  return "plan \"test@0\" values=" + std::to_string(values) + " final=!0\nconstant #0 object \"code\"\n" + lines +
         "exit !0 next\n  frame code=#0\nexit !1 next\n  frame code=#0\n";
}

// ---- Guards ------------------------------------------------------------------------------------------------------------

// Guards `lines` over the objects in slots %0, %1.. (loaded first). The slow reference always says no, and counts.
struct GuardRun : PlanRun {
  GuardRun(const std::string& lines, std::vector<void*> objects) : PlanRun(plan_text(loads(objects.size()) + lines)) {
    slots = std::move(objects);
    slow_guard = [this](NativeState*, int guard) {
      ++slow_calls;
      return slow_answer(guard);
    };
  }
  static std::string loads(size_t count) {
    std::string text;
    for (size_t i = 0; i < count; ++i) text += "guard slot dst=%" + std::to_string(i) + " imm=" + std::to_string(i) + "\n";
    return text;
  }
  bool holds() { return (*this)() == 0; }
  bool misses(int guard) { return (*this)() == kMissed && state.missed_guard == guard; }

  std::function<int(int)> slow_answer = [](int) { return 0; };
  int slow_calls = 0;
};

TEST(Guard, SlotBoundAndUnbound) {
  fake::Object object;
  GuardRun run("guard unbound imm=1\n", {&object});
  run.slots.push_back(nullptr);
  EXPECT_TRUE(run.holds());
  EXPECT_EQ(run.values[0], reinterpret_cast<uint64_t>(&object));
  run.slots[1] = &object;
  EXPECT_TRUE(run.misses(1));
  run.slots[0] = nullptr;
  EXPECT_TRUE(run.misses(0));
}

TEST(Guard, FunctionFieldBoundTypeOf) {
  fake::Cell cell;
  fake::Object content{1, &fake::string_type};
  cell.contents = &content;
  GuardRun run("guard function dst=%1\nguard field dst=%2 a=%0 imm=16\nguard bound dst=%3 constant=#0\n"
               "guard type_of dst=%4 a=%2\nguard cell_empty a=%0\n",
               {&cell});
  run.bindings[0] = &content;
  EXPECT_TRUE(run.misses(5));
  EXPECT_EQ(run.values[1], reinterpret_cast<uint64_t>(static_cast<PlanRun*>(&run)));
  EXPECT_EQ(run.values[2], reinterpret_cast<uint64_t>(&content));
  EXPECT_EQ(run.values[3], reinterpret_cast<uint64_t>(&content));
  EXPECT_EQ(run.values[4], reinterpret_cast<uint64_t>(&fake::string_type));
  cell.contents = nullptr;
  EXPECT_TRUE(run.misses(2));
}

TEST(Guard, CellEmpty) {
  fake::Cell cell;
  GuardRun run("guard cell_empty a=%0\n", {&cell});
  EXPECT_TRUE(run.holds());
  cell.contents = &cell;
  EXPECT_TRUE(run.misses(1));
}

TEST(Guard, IdentityTypeAndVersions) {
  fake::Type type, other;
  type.version = other.version = 77;
  fake::Object a{1, &type}, b{1, &type};
  GuardRun same("guard same a=%0 constant=#0\n", {&a});
  same.bindings[0] = &a;
  EXPECT_TRUE(same.holds());
  same.slots[0] = &b;
  EXPECT_TRUE(same.misses(1));

  GuardRun type_is("guard type_is a=%0 constant=#0\n", {&a});
  type_is.bindings[0] = &type;
  EXPECT_TRUE(type_is.holds());
  a.type = &other;
  EXPECT_TRUE(type_is.misses(1));
  a.type = &type;

  GuardRun version("guard type_version a=%0 constant=#0 imm=77\n", {&a});
  version.bindings[0] = &type;
  EXPECT_TRUE(version.holds());
  type.version = 78;
  EXPECT_TRUE(version.misses(1));
  type.version = 77;
  a.type = &other;
  EXPECT_TRUE(version.misses(1));
  a.type = &type;

  GuardRun klass("guard class_version a=%0 constant=#0 imm=77\n", {&type});
  klass.bindings[0] = &type;
  EXPECT_TRUE(klass.holds());
  type.version = 0;
  EXPECT_TRUE(klass.misses(1));
  klass.slots[0] = &other;
  EXPECT_TRUE(klass.misses(1));

  GuardRun no_version("guard type_version a=%0 constant=#0\n", {&a});
  no_version.bindings[0] = &type;
  EXPECT_TRUE(no_version.misses(1));

  GuardRun identical("guard identical a=%0 b=%1\n", {&a, &a}), distinct("guard distinct a=%0 b=%1\n", {&a, &b});
  EXPECT_TRUE(identical.holds());
  EXPECT_TRUE(distinct.holds());
  identical.slots[1] = &b;
  distinct.slots[1] = &a;
  EXPECT_TRUE(identical.misses(2));
  EXPECT_TRUE(distinct.misses(2));
}

const int64_t kIntegers[] = {0, 1, -1, 5, -5, (1 << 30) - 1, 1 << 30, -(1 << 30), (int64_t{1} << 60) - 1, int64_t{1} << 60,
                             -(int64_t{1} << 60) + 1, kMaximum, kMinimum, 0x123456789ABCDEF};

TEST(Guard, IntEqual) {
  for (int64_t wanted : kIntegers) {
    GuardRun run("guard int_equal a=%0 constant=#1\n", {nullptr});
    run.plan.constants.push_back({ConstantKind::kInt, wanted});
    for (int64_t given : kIntegers) {
      fake::Int object(given);
      run.slots[0] = &object;
      EXPECT_EQ(run.holds(), given == wanted) << given << " " << wanted;
      object.type = &fake::float_type;
      EXPECT_TRUE(run.misses(1));
    }
  }
}

TEST(Guard, IntValue) {
  for (int64_t given : kIntegers) {
    fake::Int object(given);
    GuardRun run("guard int_value dst=%1 a=%0\nguard int_compare a=%1 b=%1 imm=2\n", {&object});
    run.slow_answer = [&](int) { return run.state.values[1] = static_cast<uint64_t>(given), 1; };  // as check_guard does
    EXPECT_TRUE(run.holds());
    EXPECT_EQ(run.integer(1), given);
    EXPECT_EQ(run.slow_calls, std::abs(object.size) > 2 ? 1 : 0) << given;
    object.type = &fake::float_type;
    EXPECT_TRUE(run.misses(1));
  }
}

TEST(Guard, Floats) {
  fake::Float object(1.5);
  GuardRun equal("guard float_equal a=%0 constant=#1\n", {&object}), value("guard float_value dst=%1 a=%0\n", {&object});
  equal.plan.constants.push_back({ConstantKind::kFloat, 0, -0.0});
  EXPECT_TRUE(value.holds());
  EXPECT_EQ(value.floating(1), 1.5);
  EXPECT_TRUE(equal.misses(1));
  object.value = 0.0;
  EXPECT_TRUE(equal.misses(1));
  object.value = -0.0;
  EXPECT_TRUE(equal.holds());
  object.type = &fake::int_type;
  EXPECT_TRUE(equal.misses(1));
  EXPECT_TRUE(value.misses(1));
}

TEST(Guard, EqualAsksTheReferenceOnlyWhenNotIdentical) {
  for (const char* kind : {"equal", "range_equal"}) {
    fake::Object a{1, &fake::string_type}, b{1, &fake::string_type};
    GuardRun run("guard " + std::string(kind) + " a=%0 constant=#0\n", {&a});
    run.bindings[0] = &a;
    EXPECT_TRUE(run.holds());
    EXPECT_EQ(run.slow_calls, 0);
    run.slots[0] = &b;
    EXPECT_TRUE(run.misses(1));
    run.slow_answer = [](int) { return 1; };
    EXPECT_TRUE(run.holds());
    EXPECT_EQ(run.slow_calls, 2);
  }
}

TEST(Guard, Containers) {
  fake::Object item;
  fake::Tuple tuple{{1, &fake::tuple_type}, 2, {nullptr, &item}};
  void* items[] = {nullptr, nullptr, &item};
  fake::List list{{1, &fake::list_type}, 3, items};
  GuardRun run("guard tuple_length a=%0 imm=2\nguard tuple_item dst=%2 a=%0 imm=1\nguard list_length a=%1 imm=3\n"
               "guard list_item dst=%3 a=%1 imm=2\nguard list_size dst=%4 a=%1\nguard identical a=%2 b=%3\n",
               {&tuple, &list});
  EXPECT_TRUE(run.holds());
  EXPECT_EQ(run.integer(4), 3);
  tuple.size = 1;
  EXPECT_TRUE(run.misses(2));
  tuple.size = 2;
  list.size = 4;
  EXPECT_TRUE(run.misses(4));
  list.type = &fake::tuple_type;
  EXPECT_TRUE(run.misses(4));
  tuple.type = &fake::list_type;
  EXPECT_TRUE(run.misses(2));

  fake::Dict dict;
  dict.used = 2;
  GuardRun length("guard dict_length a=%0 imm=2\n", {&dict});
  EXPECT_TRUE(length.holds());
  dict.used = 3;
  EXPECT_TRUE(length.misses(1));
}

// A combined table with the name in entry 2.
struct DictGuard {
  fake::Object name, value, other;
  fake::Keys keys;
  fake::Dict dict;
  GuardCache cache;
  DictGuard() {
    keys.entry_count = 3;
    keys.entries[2] = {&name, &value};
    dict.keys = &keys;
    cache.form = GuardCache::Form::kDict;
    cache.keys = &keys;
    cache.name_offset = static_cast<int32_t>(reinterpret_cast<char*>(&keys.entries[2].name) - reinterpret_cast<char*>(&keys));
    cache.geometry = 0x010303;
  }
};

TEST(Guard, DictValue) {
  DictGuard f;
  GuardRun run("guard dict_value dst=%1 a=%0 constant=#0\n", {&f.dict});
  run.bindings[0] = &f.name;
  run.caches = {{}, f.cache};
  EXPECT_TRUE(run.holds());
  EXPECT_EQ(run.values[1], reinterpret_cast<uint64_t>(&f.value));
  f.keys.entries[2].value = &f.other;  // a new value of the same key: what the guard loads
  EXPECT_TRUE(run.holds());
  EXPECT_EQ(run.values[1], reinterpret_cast<uint64_t>(&f.other));
  EXPECT_EQ(run.slow_calls, 0);

  f.keys.entries[2].value = nullptr;  // deleted
  EXPECT_TRUE(run.misses(1));
  f.keys.entries[2] = {&f.other, &f.value};  // another key in its place
  EXPECT_TRUE(run.misses(1));
  f.keys.entries[2] = {&f.name, &f.value};
  f.keys.kind = 0;  // another table at the same address
  EXPECT_TRUE(run.misses(1));
  f.keys.kind = 1;
  fake::Keys moved = f.keys;
  f.dict.keys = &moved;
  EXPECT_TRUE(run.misses(1));
  EXPECT_EQ(run.slow_calls, 4);

  run.slow_answer = [&](int guard) {  // as check_guard does: fills the value and writes the new place down
    run.state.values[1] = reinterpret_cast<uint64_t>(&f.value);
    run.code->caches[static_cast<size_t>(guard)].keys = &moved;
    return 1;
  };
  EXPECT_TRUE(run.holds());
  EXPECT_TRUE(run.holds());
  EXPECT_EQ(run.values[1], reinterpret_cast<uint64_t>(&f.value));
  EXPECT_EQ(run.slow_calls, 5);
  f.dict.type = &fake::list_type;
  run.slow_answer = [](int) { return 0; };
  EXPECT_TRUE(run.misses(1));
}

TEST(Guard, DictValueInSplitTable) {
  DictGuard f;
  void* values[5] = {nullptr, nullptr, &f.value};
  f.dict.values = values;
  f.cache.form = GuardCache::Form::kSplitDict;
  f.cache.value_offset = 16;
  GuardRun run("guard dict_value dst=%1 a=%0 constant=#0\n", {&f.dict});
  run.bindings[0] = &f.name;
  run.caches = {{}, f.cache};
  EXPECT_TRUE(run.holds());
  EXPECT_EQ(run.values[1], reinterpret_cast<uint64_t>(&f.value));
  values[2] = nullptr;
  EXPECT_TRUE(run.misses(1));
  f.dict.values = nullptr;
  EXPECT_TRUE(run.misses(1));
}

TEST(Guard, UnrecordedPlacesAreSlow) {
  DictGuard f;
  GuardRun run("guard dict_value dst=%1 a=%0 constant=#0\nguard instance_value dst=%2 a=%0 constant=#0\n"
               "guard instance_lacks a=%0 constant=#0\n",
               {&f.dict});
  run.bindings[0] = &f.name;
  run.slow_answer = [&](int guard) {
    if (guard < 3) run.state.values[guard] = 100 + static_cast<uint64_t>(guard);
    return 1;
  };
  EXPECT_TRUE(run.holds());
  EXPECT_EQ(run.integer(1), 101);
  EXPECT_EQ(run.integer(2), 102);
  EXPECT_EQ(run.slow_calls, 3);
}

TEST(Guard, DictVersions) {
  for (const char* kind : {"dict_lacks", "dict_keys"}) {
    fake::Dict dict;
    dict.version = 9;
    GuardRun run("guard " + std::string(kind) + " a=%0 constant=#0\n", {&dict});
    run.caches.resize(2);
    run.caches[1].version = 9;
    EXPECT_TRUE(run.holds());
    EXPECT_EQ(run.slow_calls, 0);
    dict.version = 10;
    EXPECT_TRUE(run.misses(1));
    EXPECT_EQ(run.slow_calls, 1);
    dict.type = &fake::list_type;
    EXPECT_TRUE(run.misses(1));
    EXPECT_EQ(run.slow_calls, 1);
  }
}

TEST(Guard, InstanceValueInline) {
  fake::Object value;
  void* values[] = {nullptr, &value};
  fake::Instance instance{values};
  GuardRun run("guard instance_value dst=%1 a=%0 constant=#0\n", {&instance.object});
  run.caches.resize(2);
  run.caches[1].form = GuardCache::Form::kInlineValues;
  run.caches[1].value_offset = 8;
  EXPECT_TRUE(run.holds());
  EXPECT_EQ(run.values[1], reinterpret_cast<uint64_t>(&value));
  values[1] = nullptr;
  EXPECT_TRUE(run.misses(1));
  instance.values = nullptr;  // the dict was made
  EXPECT_TRUE(run.misses(1));
  EXPECT_EQ(run.slow_calls, 2);
}

TEST(Guard, InstanceValueInItsDict) {
  DictGuard f;
  fake::Instance instance{nullptr, &f.dict};
  GuardRun run("guard instance_value dst=%1 a=%0 constant=#0\n", {&instance.object});
  run.bindings[0] = &f.name;
  f.cache.dict_offset = -24;
  run.caches = {{}, f.cache};
  EXPECT_TRUE(run.holds());
  EXPECT_EQ(run.values[1], reinterpret_cast<uint64_t>(&f.value));
  EXPECT_EQ(run.slow_calls, 0);
  instance.dict = nullptr;
  EXPECT_TRUE(run.misses(1));
  EXPECT_EQ(run.slow_calls, 1);
}

TEST(Guard, InstanceLacks) {
  fake::Object value;
  fake::Keys keys;
  keys.entry_count = 2;
  void* values[] = {nullptr, nullptr};
  fake::Instance instance{values};
  GuardRun unset("guard instance_lacks a=%0 constant=#0\n", {&instance.object});  // the shared keys have the name
  unset.caches.resize(2);
  unset.caches[1].form = GuardCache::Form::kInlineValues;
  unset.caches[1].value_offset = 8;
  EXPECT_TRUE(unset.holds());
  values[1] = &value;
  EXPECT_TRUE(unset.misses(1));
  EXPECT_EQ(unset.slow_calls, 0);

  GuardRun unknown("guard instance_lacks a=%0 constant=#0\n", {&instance.object});  // they do not
  unknown.caches.resize(2);
  unknown.caches[1].form = GuardCache::Form::kInlineValues;
  unknown.caches[1].keys = &keys;
  unknown.caches[1].version = 2;
  EXPECT_TRUE(unknown.holds());
  keys.entry_count = 3;
  EXPECT_TRUE(unknown.misses(1));
  EXPECT_EQ(unknown.slow_calls, 1);

  fake::Dict dict;
  fake::Instance with_dict{nullptr, &dict};
  GuardRun in_dict("guard instance_lacks a=%0 constant=#0\n", {&with_dict.object});
  in_dict.caches.resize(2);
  in_dict.caches[1].form = GuardCache::Form::kDict;
  in_dict.caches[1].dict_offset = -24;
  in_dict.caches[1].version = 1;
  EXPECT_TRUE(in_dict.holds());
  dict.version = 2;
  EXPECT_TRUE(in_dict.misses(1));
}

TEST(Guard, Tensors) {
  Layout *flat = fake::layout("f32[2,3]{3,1}"), *other = fake::layout("f32[4,5]{5,1}");
  fake::Tensor tensor(flat);
  GuardRun exact("guard tensor_layout a=%0 constant=#0\n", {&tensor}), any("guard tensor_class a=%0 constant=#0\n", {&tensor});
  exact.bindings[0] = any.bindings[0] = flat;
  EXPECT_TRUE(exact.holds());
  EXPECT_TRUE(any.holds());
  tensor.layout = other;
  EXPECT_TRUE(exact.misses(1));
  EXPECT_TRUE(any.holds());
  for (const char* text : {"f64[2,3]{3,1}", "f32[3]{1}", "f32[2,3]{1,2}"}) {
    tensor.layout = fake::layout(text);
    EXPECT_TRUE(exact.misses(1)) << text;
    EXPECT_TRUE(any.misses(1)) << text;
  }
  tensor.layout = flat;
  tensor.type = &fake::list_type;
  EXPECT_TRUE(exact.misses(1));
  EXPECT_TRUE(any.misses(1));
}

TEST(Guard, IntCompareAndStateWord) {
  const int64_t numbers[] = {-2, 0, 7};
  for (int how = 0; how < 6; ++how) {
    for (int64_t a : numbers) {
      for (int64_t b : numbers) {
        fake::Int x(a), y(b);
        GuardRun run("guard int_value dst=%2 a=%0\nguard int_value dst=%3 a=%1\nguard int_compare a=%2 b=%3 imm=" +
                         std::to_string(how) + "\n",
                     {&x, &y});
        const bool expected[] = {a < b, a <= b, a == b, a != b, a > b, a >= b};
        EXPECT_EQ(run.holds(), expected[how]) << a << " " << b << " " << how;
      }
    }
  }
  int32_t word = 5;
  GuardRun run("guard state_word constant=#0 imm=5\n", {});
  run.bindings[0] = &word;
  EXPECT_TRUE(run.holds());
  word = 6;
  EXPECT_TRUE(run.misses(0));
}

// More values than registers, and a slow guard in the middle: everything is still right after it.
TEST(Guard, ManyValuesAcrossASlowGuard) {
  std::vector<fake::Int> numbers;
  std::vector<void*> objects;
  for (int i = 0; i < 12; ++i) numbers.emplace_back(i == 5 ? kMaximum : i);
  for (fake::Int& number : numbers) objects.push_back(&number);
  std::string lines;
  for (int i = 0; i < 12; ++i) lines += "guard int_value dst=%" + std::to_string(12 + i) + " a=%" + std::to_string(i) + "\n";
  for (int i = 1; i < 12; ++i) {
    lines += "guard int_compare a=%" + std::to_string(12 + i) + " b=%" + std::to_string(12) + " imm=3\n";
    lines += "guard distinct a=%" + std::to_string(i) + " b=%" + std::to_string(i - 1) + "\n";
  }
  PlanRun run(plan_text(GuardRun::loads(12) + lines, 24));
  run.slots = objects;
  run.slow_guard = [&](NativeState* state, int guard) {
    EXPECT_EQ(guard, 12 + 5);
    state->values[17] = static_cast<uint64_t>(kMaximum);
    return 1;
  };
  EXPECT_EQ(run(), 0);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(run.integer(12 + i), i == 5 ? kMaximum : i);
}

// ---- Steps on numbers --------------------------------------------------------------------------------------------------

struct IntRow {
  const char* kind;
  int64_t a, b;
  bool leaves;
  int64_t result;
};

TEST(Step, Integers) {
  const IntRow rows[] = {
      {"int_add", 3, 4, false, 7}, {"int_add", kMaximum, 1, true, 0}, {"int_add", kMinimum, -1, true, 0},
      {"int_sub", 3, 4, false, -1}, {"int_sub", kMinimum, 1, true, 0}, {"int_sub", kMaximum, -1, true, 0},
      {"int_mul", -3, 4, false, -12}, {"int_mul", kMaximum, 2, true, 0}, {"int_mul", kMinimum, -1, true, 0},
      {"int_mul", int64_t{1} << 31, int64_t{1} << 31, false, int64_t{1} << 62},
      {"int_neg", 5, 0, false, -5}, {"int_neg", kMinimum, 0, true, 0}, {"int_neg", kMaximum, 0, false, -kMaximum},
      {"int_floor_divide", 7, 2, false, 3}, {"int_floor_divide", -7, 2, false, -4}, {"int_floor_divide", 7, -2, false, -4},
      {"int_floor_divide", -7, -2, false, 3}, {"int_floor_divide", -8, 2, false, -4}, {"int_floor_divide", 1, 0, true, 0},
      {"int_floor_divide", 5, -1, false, -5}, {"int_floor_divide", kMinimum, -1, true, 0},
      {"int_floor_divide", kMinimum, 1, false, kMinimum}, {"int_floor_divide", -1, kMaximum, false, -1},
      {"int_remainder", 7, 3, false, 1}, {"int_remainder", -7, 3, false, 2}, {"int_remainder", 7, -3, false, -2},
      {"int_remainder", -7, -3, false, -1}, {"int_remainder", 6, -3, false, 0}, {"int_remainder", 6, 0, true, 0},
      {"int_remainder", kMinimum, -1, false, 0}, {"int_remainder", -1, kMaximum, false, kMaximum - 1},
      {"int_and", 12, 10, false, 8}, {"int_or", 12, 10, false, 14}, {"int_xor", 12, 10, false, 6}, {"int_and", -1, 10, false, 10},
  };
  for (const IntRow& row : rows) {
    const std::string kind = row.kind;
    const bool one = kind == "int_neg";
    const bool can_leave = kind != "int_and" && kind != "int_or" && kind != "int_xor";
    PlanRun run(plan_text("step int_const dst=%0 imm=" + std::to_string(row.a) + "\nstep int_const dst=%1 imm=" +
                          std::to_string(row.b) + "\nstep " + kind + " dst=%2 a=%0" + (one ? "" : " b=%1") +
                          (can_leave ? " on_fail=!1\n" : "\n")));
    EXPECT_EQ(run(), row.leaves ? 1 : 0) << run.error.text << kind << " " << row.a << " " << row.b;
    if (row.leaves) continue;
    EXPECT_EQ(run.integer(2), row.result) << kind << " " << row.a << " " << row.b;
  }
}

std::string float_const(int value, double number) {
  return "step float_const dst=%" + std::to_string(value) + " imm=" + std::to_string(std::bit_cast<int64_t>(number)) + "\n";
}

TEST(Step, Floats) {
  struct Row {
    const char* kind;
    double a, b;
    bool leaves;
    double result;
  };
  const Row rows[] = {
      {"float_add", 1.5, 2, false, 3.5}, {"float_sub", 1.5, 2, false, -0.5}, {"float_mul", 1.5, 2, false, 3},
      {"float_div", 3, 2, false, 1.5}, {"float_div", 3, 0.0, true, 0}, {"float_div", 3, -0.0, true, 0},
      {"float_div", 3, kNaN, false, kNaN}, {"float_neg", 0.0, 0, false, -0.0}, {"float_neg", -2.5, 0, false, 2.5},
      {"float_abs", -2.5, 0, false, 2.5}, {"float_abs", -0.0, 0, false, 0.0},
  };
  for (const Row& row : rows) {
    const std::string kind = row.kind;
    const bool one = kind == "float_neg" || kind == "float_abs";
    PlanRun run(plan_text(float_const(0, row.a) + float_const(1, row.b) + "step " + kind + " dst=%2 a=%0" +
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
        PlanRun run(plan_text(float_const(0, a) + float_const(1, b) + "step float_compare dst=%2 a=%0 b=%1 imm=" + std::to_string(how) + "\n"));
        ASSERT_EQ(run(), 0);
        const bool expected[] = {a < b, a <= b, a == b, a != b, a > b, a >= b};
        EXPECT_EQ(run.integer(2), expected[how]) << a << " " << how << " " << b;
      }
    }
    for (int64_t a : {kMinimum, int64_t{3}, kMaximum}) {
      for (int64_t b : {kMinimum, int64_t{3}, kMaximum}) {
        PlanRun run(plan_text("step int_const dst=%0 imm=" + std::to_string(a) + "\nstep int_const dst=%1 imm=" + std::to_string(b) +
                              "\nstep int_compare dst=%2 a=%0 b=%1 imm=" + std::to_string(how) + "\n"));
        ASSERT_EQ(run(), 0);
        const bool expected[] = {a < b, a <= b, a == b, a != b, a > b, a >= b};
        EXPECT_EQ(run.integer(2), expected[how]) << a << " " << how << " " << b;
      }
    }
  }
}

TEST(Step, IntToFloatIsExact) {
  const int64_t limit = int64_t{1} << 53;
  for (int64_t number : {int64_t{0}, int64_t{-7}, limit, -limit, limit + 1, -limit - 1, kMaximum, kMinimum}) {
    PlanRun run(plan_text("step int_const dst=%0 imm=" + std::to_string(number) + "\nstep int_to_float dst=%1 a=%0 on_fail=!1\n"));
    const bool leaves = number > limit || number < -limit;
    EXPECT_EQ(run(), leaves ? 1 : 0) << number;
    if (leaves) continue;
    EXPECT_EQ(run.floating(1), static_cast<double>(number));
  }
}

TEST(Step, Check) {
  for (int64_t number : kIntegers) {
    PlanRun run(plan_text("step int_const dst=%0 imm=" + std::to_string(number) + "\nstep check a=%0 imm=" + std::to_string(kMaximum) +
                          " on_fail=!1\n"));
    EXPECT_EQ(run(), number == kMaximum ? 0 : 1);
  }
}

// ---- Steps on objects --------------------------------------------------------------------------------------------------

TEST(Step, RangeNext) {
  fake::RangeIterator iterator{{1, &fake::range_iterator_type}, 0, 10, -3, 2};
  PlanRun run(plan_text(GuardRun::loads(1) + "step range_next dst=%1 a=%0 on_fail=!1\n"));
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
  PlanRun run(plan_text(GuardRun::loads(1) +
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

TEST(Step, HelpersGetTheirStepAndCanFail) {
  PlanRun run(plan_text("step int_const dst=%0 imm=4\nstep box_int dst=%1 a=%0 on_fail=!1\nstep int_const dst=%2 imm=9\n"));
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

// ---- Exits -------------------------------------------------------------------------------------------------------------

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
  ExitRun argument("return result=@0 owned=%1,%2", "value value=%0"), constant("return result=@0 owned=%1,%2", "constant constant=#1"),
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
  PlanRun drop(plan_text(GuardRun::loads(1) + "step drop a=%0\n"));
  drop.slots = {&kept};
  EXPECT_EQ(drop(), 0);
  EXPECT_EQ(kept.references, 2);
}

// ---- Kernels -----------------------------------------------------------------------------------------------------------

KernelCall add_number_call(DType dtype, int8_t number_kind, Op op = Op::k_add) {
  KernelCall call;
  call.spec.inputs = {{false, dtype, Access::kContiguous}, {true, dtype, Access::kUniform}};
  call.spec.body = {{op, dtype, dtype, {0, 1, -1}}};
  call.spec.outputs = {{2, Access::kContiguous, false, Op::kCount, dtype}};
  call.operand_kinds = {0, number_kind, 0};
  call.count = 5;
  return call;
}

struct KernelRun : PlanRun {
  KernelRun(const std::string& number, const KernelCall& call)
      : PlanRun(plan_text(GuardRun::loads(2) + number + "step kernel index=0 list=%0,%2,%1 on_fail=!1\n")) {
    plan.kernels = {call};
  }
};

TEST(Kernel, NumbersAreConverted) {
  Layout* layout = fake::layout("f32[5]{1}");
  const std::pair<std::string, int8_t> numbers[] = {{"step int_const dst=%2 imm=3\n", 1}, {float_const(2, 3), 2}, {"step int_const dst=%2 imm=1\n", 3}};
  for (const auto& [line, kind] : numbers) {
    for (bool flat : {true, false}) {
      fake::Tensor a(layout), out(layout);
      for (int i = 0; i < 5; ++i) a.data<float>()[i] = static_cast<float>(i);
      KernelCall call = add_number_call(DType::k_float32, kind);
      call.flat = flat;
      call.space = "f32[5]{1}";
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
    call.space = "i64[5]{1}";
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

// ---- Failures and speed ------------------------------------------------------------------------------------------------

TEST(Emit, FullCodeMemoryIsAnOrderedFailure) {
  PlanRun run(plan_text("step int_const dst=%0 imm=1\n"));
  code_memory().set_limit(0);
  EXPECT_FALSE(run.emit());
  EXPECT_EQ(run.error.kind, ErrorKind::kMemory);
  EXPECT_THAT(run.error.text, HasSubstr("code memory"));
  code_memory().set_limit(CodeMemory::kDefaultReserve);
  EXPECT_EQ(run(), 0);
}

TEST(Emit, IllegalPlansAreRefused) {
  PlanRun run(plan_text("step int_neg dst=%0 a=%1 on_fail=!1\n"));
  EXPECT_FALSE(run.emit());
  EXPECT_EQ(run.error.kind, ErrorKind::kRuntime);
  EXPECT_THAT(run.error.text, HasSubstr("value 1 is used before it is set"));
}

TEST(Emit, MemoryComesBack) {
  const size_t before = code_memory().bytes_in_use();
  { PlanRun run(plan_text("step int_const dst=%0 imm=1\n")); EXPECT_EQ(run(), 0); EXPECT_GT(code_memory().bytes_in_use(), before); }
  EXPECT_EQ(code_memory().bytes_in_use(), before);
}

// Not a benchmark: that twenty steps take microseconds, not milliseconds, on any machine.
TEST(Emit, TwentyStepsTakeMicroseconds) {
  std::string lines = GuardRun::loads(4);
  for (int i = 0; i < 4; ++i) lines += "guard tensor_layout a=%" + std::to_string(i) + " constant=#1\n";
  lines += "step int_const dst=%4 imm=1\n";
  for (int i = 0; i < 19; ++i) lines += "step int_add dst=%5 a=%4 b=%4 on_fail=!1\n";
  std::string text = plan_text(lines);
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
