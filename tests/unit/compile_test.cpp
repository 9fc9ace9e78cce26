// Every guard kind as emitted code over fake objects: hit, miss, and when the slow reference is asked.
#include "guards/compile.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/fake_objects.h"

namespace kintsugi {
namespace {

using fake::PlanRun;

constexpr int64_t kMinimum = std::numeric_limits<int64_t>::min(), kMaximum = std::numeric_limits<int64_t>::max();

// Guards `lines` over the objects in slots %0, %1.. (loaded first). The slow reference always says no, and counts.
struct GuardRun : PlanRun {
  GuardRun(const std::string& lines, std::vector<void*> objects)
      : PlanRun(fake::wrapped(fake::loads(objects.size()) + lines)) {
    slots = std::move(objects);
    slow_guard = [this](NativeState*, int guard) {
      ++slow_calls;
      return slow_answer(guard);
    };
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
  GuardRun run(
      "guard function dst=%1\nguard field dst=%2 a=%0 imm=16\nguard bound dst=%3 constant=#0\n"
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

  uint32_t word = 5;  // what its stores have left it at
  GuardRun kept("guard class_kept a=%0 constant=#0\n", {&type});
  kept.bindings[0] = &word;
  type.version = 5;
  EXPECT_TRUE(kept.holds());
  type.version = word = 6;
  EXPECT_TRUE(kept.holds());
  type.version = 0;
  EXPECT_TRUE(kept.misses(1));
  word = 0xFFFFFFFF;
  EXPECT_TRUE(kept.misses(1));

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
    run.slow_answer = [&](int) {
      return run.state.values[1] = static_cast<uint64_t>(given), 1;
    };  // as check_guard does
    EXPECT_TRUE(run.holds());
    EXPECT_EQ(run.integer(1), given);
    EXPECT_EQ(run.slow_calls, std::abs(object.size) > 2 ? 1 : 0) << given;
    object.type = &fake::float_type;
    EXPECT_TRUE(run.misses(1));
  }
}

TEST(Guard, Floats) {
  fake::Float object(1.5);
  GuardRun equal("guard float_equal a=%0 constant=#1\n", {&object}),
      value("guard float_value dst=%1 a=%0\n", {&object});
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
  GuardRun run(
      "guard tuple_length a=%0 imm=2\nguard tuple_item dst=%2 a=%0 imm=1\nguard list_length a=%1 imm=3\n"
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

  struct {
    fake::Object base;
    int64_t index;
    void* sequence;
  } iterator{{1, &fake::list_iterator_type}, 1, nullptr};
  GuardRun next("guard next_item dst=%1 a=%0 imm=1\n", {&iterator});
  GuardRun none("guard next_none a=%0 imm=1\n", {&iterator});
  EXPECT_TRUE(next.misses(1));
  EXPECT_TRUE(none.holds());
  list.type = &fake::list_type;
  list.size = 3;
  iterator.sequence = &list;
  EXPECT_TRUE(next.holds());
  EXPECT_EQ(next.integer(1), reinterpret_cast<int64_t>(&item));
  EXPECT_TRUE(none.misses(1));
  iterator.index = 2;
  EXPECT_TRUE(next.misses(1));
  EXPECT_TRUE(none.holds());
  fake::Tuple pair{{1, &fake::tuple_type}, 2, {nullptr, &item}};
  iterator.base.type = &fake::tuple_iterator_type;
  iterator.sequence = &pair;
  iterator.index = 0;
  EXPECT_TRUE(next.holds());
  EXPECT_EQ(next.integer(1), reinterpret_cast<int64_t>(&item));

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
    cache.name_offset =
        static_cast<int32_t>(reinterpret_cast<char*>(&keys.entries[2].name) - reinterpret_cast<char*>(&keys));
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
  f.dict.keys = nullptr;  // of the same version: nothing else is read
  EXPECT_TRUE(run.holds());
  EXPECT_EQ(run.values[1], reinterpret_cast<uint64_t>(&f.value));
  f.dict.keys = &f.keys;
  f.dict.version = 2;
  f.keys.entries[2].value = &f.other;  // a new value of the same key: what the guard loads
  EXPECT_TRUE(run.holds());
  EXPECT_EQ(run.values[1], reinterpret_cast<uint64_t>(&f.other));
  EXPECT_EQ(run.slow_calls, 0);

  f.dict.version = 3;
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
  EXPECT_EQ(run.code->caches[1].version, 3u);
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
  f.dict.version = 2;
  values[2] = nullptr;
  EXPECT_TRUE(run.misses(1));
  f.dict.values = nullptr;
  EXPECT_TRUE(run.misses(1));
}

TEST(Guard, UnrecordedPlacesAreSlow) {
  DictGuard f;
  GuardRun run(
      "guard dict_value dst=%1 a=%0 constant=#0\nguard instance_value dst=%2 a=%0 constant=#0\n"
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

TEST(Guard, DictsOfOtherClasses) {  // which an earlier guard has checked
  for (const char* kind : {"dict_lacks", "dict_keys"}) {
    fake::Dict dict;
    dict.version = 9;
    dict.type = &fake::list_type;
    for (const char* imm : {"1", "2"}) {
      bool ordered = imm[0] == '2';  // that order has no version
      GuardRun run("guard " + std::string(kind) + " a=%0 imm=" + imm + " constant=#0\n", {&dict});
      run.caches.resize(2);
      run.caches[1].version = 9;
      run.slow_answer = [](int) { return 1; };
      EXPECT_TRUE(run.holds());
      EXPECT_EQ(run.slow_calls, ordered ? 1 : 0);
    }
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
  GuardRun exact("guard tensor_layout a=%0 constant=#0\n", {&tensor}),
      any("guard tensor_class a=%0 constant=#0\n", {&tensor});
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
        const bool expected[] = {a<b, a <= b, a == b, a != b, a> b, a >= b};
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

// While no thread has another mode than the default one, a word says so; else the slow reference is asked.
TEST(Guard, GradMode) {
  GuardRun run("guard grad_mode imm=0\n", {});
  EXPECT_TRUE(run.holds());
  EXPECT_EQ(run.slow_calls, 0);
  fake::threads_without_grad = 1;
  EXPECT_TRUE(run.misses(0));
  run.slow_answer = [](int) { return 1; };
  EXPECT_TRUE(run.holds());
  EXPECT_EQ(run.slow_calls, 2);
  fake::threads_without_grad = 0;
  GuardRun off("guard grad_mode imm=1\n", {});
  EXPECT_TRUE(off.misses(0));
  EXPECT_EQ(off.slow_calls, 1);
}

// More values than registers, and a slow guard in the middle: everything is still right after it.
TEST(Guard, ManyValuesAcrossASlowGuard) {
  std::vector<fake::Int> numbers;
  std::vector<void*> objects;
  for (int i = 0; i < 12; ++i) numbers.emplace_back(i == 5 ? kMaximum : i);
  for (fake::Int& number : numbers) objects.push_back(&number);
  std::string lines;
  for (int i = 0; i < 12; ++i)
    lines += "guard int_value dst=%" + std::to_string(12 + i) + " a=%" + std::to_string(i) + "\n";
  for (int i = 1; i < 12; ++i) {
    lines += "guard int_compare a=%" + std::to_string(12 + i) + " b=%" + std::to_string(12) + " imm=3\n";
    lines += "guard distinct a=%" + std::to_string(i) + " b=%" + std::to_string(i - 1) + "\n";
  }
  PlanRun run(fake::wrapped(fake::loads(12) + lines, 24));
  run.slots = objects;
  run.slow_guard = [&](NativeState* state, int guard) {
    EXPECT_EQ(guard, 12 + 5);
    state->values[17] = static_cast<uint64_t>(kMaximum);
    return 1;
  };
  EXPECT_EQ(run(), 0);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(run.integer(12 + i), i == 5 ? kMaximum : i);
}

}  // namespace
}  // namespace kintsugi
