// The slow reference of guards on real objects, and native code beside it: both must give the same answer while the
// objects change, and native code must do it without asking the reference once places are recorded.
#include "guards/check.h"
#include "guards/compile.h"

#include <Python.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "jit/glue.h"

namespace kintsugi {
namespace {

struct Interpreter : testing::Environment {
  void SetUp() override {
    Py_Initialize();
    set_code_allocator(&code_memory());
    learn_object_facts(nullptr);
  }
};
const testing::Environment* const interpreter = testing::AddGlobalTestEnvironment(new Interpreter);

// A namespace in which a test runs its Python lines.
struct Python {
  PyObject* globals = PyDict_New();
  explicit Python(const std::string& lines) {
    PyDict_SetItemString(globals, "__builtins__", PyEval_GetBuiltins());
    run(lines);
  }
  ~Python() { Py_DECREF(globals); }
  void run(const std::string& lines) {
    PyObject* result = PyRun_String(lines.c_str(), Py_file_input, globals, globals);
    if (result == nullptr) PyErr_Print();
    ASSERT_NE(result, nullptr) << lines;
    Py_DECREF(result);
  }
  PyObject* operator[](const char* name) { return PyDict_GetItemString(globals, name); }
};

PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

// Guards over the objects in slots %0..; constants #0.. are bound to `bindings`.
class Guards {
 public:
  Guards(const std::string& lines, std::vector<PyObject*> objects, std::vector<PyObject*> bindings) {
    std::string text = "plan \"check@0\" values=16 final=!0\n";
    for (size_t i = 0; i <= bindings.size(); ++i) text += "constant #" + std::to_string(i) + " object \"\"\n";
    text += "source 0 \"x\"\n";
    for (size_t i = 0; i < objects.size(); ++i) {
      text += "guard slot dst=%" + std::to_string(i) + " imm=" + std::to_string(i) + "\n";
    }
    text += lines + "exit !0 next\n  frame code=#" + std::to_string(bindings.size()) + "\n";
    std::string error;
    Plan plan;
    if (!parse_plan(text, &plan, &error)) throw std::runtime_error(error);
    std::vector<void*> bound(bindings.begin(), bindings.end());
    bound.resize(plan.constants.size());
    slots_.assign(objects.begin(), objects.end());
    std::vector<GuardCache> caches(plan.guards.size());
    values_.resize(16);
    recorded = record_caches({plan.guards, plan.constants, plan.sources, bound, caches},
                             {slots_.data(), nullptr, values_.data()});
    OpError problem;
    name_missed_guards(true);
    code_ = emit_segment(plan, bound, caches, &problem);
    if (code_ == nullptr) throw std::runtime_error(problem.text);
    helpers_.guard_slow = [](NativeState* state, int guard) {
      auto* self = static_cast<Guards*>(state->function);
      ++self->slow_calls;
      const GuardProgram program = guard_program(*self->code_);
      const GuardInput input = guard_input(*state);
      const int holds = check_guard(program, input, guard);
      for (int i = ~guard; guard < 0 && holds == 0 && self->missed_after_ < 0; ++i)
        if (check_guard(program, input, i) == 0) self->missed_after_ = i;
      return holds;
    };
  }
  ~Guards() { free_segment(code_); }

  void set_slot(size_t slot, PyObject* object) { slots_[slot] = object; }
  // The guard that native code missed, or -1. The reference must say the same.
  int operator()() {
    NativeState state{slots_.data(), this, values_.data(), &helpers_, code_, nullptr, -1};
    missed_after_ = -1;
    int missed = code_->entry(&state) == kMissed ? state.missed_guard : -1;
    if (missed_after_ >= 0) missed = missed_after_;  // all after a guard were left to the reference
    report = find_miss(guard_program(*code_), guard_input(state));
    EXPECT_EQ(report.guard, missed) << to_text(report);
    EXPECT_FALSE(PyErr_Occurred());
    return missed;
  }
  PyObject* value(size_t number) { return reinterpret_cast<PyObject*>(values_[number]); }
  std::string said() { return to_text(report); }

  int recorded = 0, slow_calls = 0;
  MissReport report;

 private:
  std::vector<void*> slots_;
  std::vector<uint64_t> values_;
  HelperTable helpers_{};
  int missed_after_ = -1;
  SegmentCode* code_ = nullptr;
};

TEST(Check, GlobalsStayFastWhenTheDictGrows) {
  Python python("gain = 2.5\n");
  Guards guards("guard dict_value dst=%1 a=%0 constant=#0 source=0\n", {python.globals}, {interned("gain")});
  EXPECT_EQ(guards.recorded, -1);
  EXPECT_EQ(guards(), -1);
  EXPECT_EQ(guards.value(1), python["gain"]);
  python.run("gain = 3.5");
  EXPECT_EQ(guards(), -1);
  EXPECT_EQ(guards.value(1), python["gain"]);
  EXPECT_EQ(guards.slow_calls, 0);
  python.run("for i in range(100): globals()['name' + str(i)] = i");
  EXPECT_EQ(guards(), -1);
  EXPECT_EQ(guards.slow_calls, 1);  // the place moved and was written down
  EXPECT_EQ(guards(), -1);
  EXPECT_EQ(guards.slow_calls, 1);
  python.run("del gain");
  EXPECT_EQ(guards(), 1);
  EXPECT_EQ(guards.said(), "x: expected a value of key 'gain', found no such key");
  python.run("gain = 1");
  EXPECT_EQ(guards(), -1);
}

TEST(Check, BuiltinBehindGlobals) {
  Python python("pass");
  Guards guards("guard dict_lacks a=%0 constant=#0\nguard dict_value dst=%2 a=%1 constant=#0\n",
                {python.globals, PyEval_GetBuiltins()}, {interned("len")});
  EXPECT_EQ(guards(), -1);
  EXPECT_EQ(guards.slow_calls, 0);
  python.run("other = 1");
  EXPECT_EQ(guards(), -1);
  EXPECT_EQ(guards(), -1);
  EXPECT_EQ(guards.slow_calls, 1);
  python.run("len = 5");
  EXPECT_EQ(guards(), 2);
}

constexpr const char* kFilter =
    "class Filter:\n"
    "  def __init__(self, gain): self.gain = gain; self.taps = [1]\n"
    "  def step(self): pass\n"
    "a, b, late = Filter(2.0), Filter(3.0), Filter(4.0)\n";

uint32_t version_of(PyObject* type) { return reinterpret_cast<PyTypeObject*>(type)->tp_version_tag; }

TEST(Check, InstanceValues) {
  Python python(kFilter);
  python.run("a.gain");  // a look-up gives the type its version
  const std::string version = std::to_string(version_of(python["Filter"]));
  Guards guards("guard type_version a=%0 constant=#0 imm=" + version +
                    "\nguard instance_value dst=%1 a=%0 constant=#1\nguard instance_lacks a=%0 constant=#2\n",
                {python["a"]}, {python["Filter"], interned("gain"), interned("step")});
  EXPECT_EQ(guards.recorded, -1);
  EXPECT_EQ(guards(), -1);
  EXPECT_EQ(PyFloat_AsDouble(guards.value(1)), 2.0);
  guards.set_slot(0, python["b"]);
  EXPECT_EQ(guards(), -1);
  EXPECT_EQ(PyFloat_AsDouble(guards.value(1)), 3.0);
  EXPECT_EQ(guards.slow_calls, 0);

  python.run("late.extra = 1");  // a new name among the shared keys
  EXPECT_EQ(guards(), -1);
  python.run("late.step = 1");
  EXPECT_EQ(guards(), -1);
  guards.set_slot(0, python["late"]);
  EXPECT_EQ(guards(), 3);
  guards.set_slot(0, python["b"]);
  python.run("d = b.__dict__");  // the dict is made, over the same values
  EXPECT_EQ(guards(), -1);
  EXPECT_EQ(PyFloat_AsDouble(guards.value(1)), 3.0);
  python.run("d['step'] = 1");
  EXPECT_EQ(guards(), 3);
  python.run("del d['gain']");
  EXPECT_EQ(guards(), 2);
  guards.set_slot(0, python["a"]);
  EXPECT_EQ(guards(), -1);
  python.run("del a.gain");
  EXPECT_EQ(guards(), 2);
  python.run("Filter.step = None");
  EXPECT_EQ(guards(), 1);
  EXPECT_THAT(guards.said(), testing::HasSubstr("its class was changed"));
}

TEST(Check, InstanceDictIsFastToo) {
  Python python(kFilter);
  python.run("a.gain; d = a.__dict__\nimport types; m = types.ModuleType('m'); m.gain = 7.0");
  for (const char* name : {"a", "m"}) {  // a split table behind a managed pointer; a dict at a fixed offset
    PyObject* object = python[name];
    Guards guards("guard instance_value dst=%1 a=%0 constant=#0\nguard instance_lacks a=%0 constant=#1\n", {object},
                  {interned("gain"), interned("nothing")});
    EXPECT_EQ(guards(), -1);
    EXPECT_EQ(guards(), -1);
    EXPECT_EQ(guards.value(1), PyObject_GetAttrString(object, "gain"));
    EXPECT_EQ(guards.slow_calls, 0) << name;
    python.run(std::string(name) + ".gain = 8.0");
    EXPECT_EQ(guards(), -1);
    EXPECT_EQ(guards(), -1);
    EXPECT_EQ(PyFloat_AsDouble(guards.value(1)), 8.0);
    EXPECT_EQ(guards.slow_calls, 1) << name;  // "lacks" looked once: the dict had changed
  }
}

// Each row: a guard, an object for which it holds, others for which it does not.
TEST(Check, NextOfAnIterator) {  // whose class other guards have seen to
  Python python("");
  const std::pair<const char*, bool> rows[] = {
      {"iter([1, 2])", true}, {"iter((1, 2, 3))", true}, {"iter([1])", false}, {"iter(())", false}};
  for (auto [text, more] : rows) {
    PyObject* iterator = PyRun_String(text, Py_eval_input, python.globals, python.globals);
    ASSERT_NE(iterator, nullptr);
    Guards item("guard next_item dst=%1 a=%0 imm=1 source=0\n", {iterator}, {});
    Guards none("guard next_none a=%0 imm=1 source=0\n", {iterator}, {});
    EXPECT_EQ(item(), more ? -1 : 1) << text;
    EXPECT_EQ(none(), more ? 1 : -1) << text;
    Py_DECREF(iterator);
  }
}

TEST(Check, Values) {
  Python python(
      "loud = []\n"
      "class Odd:\n"
      "  def __eq__(self, other):\n"
      "    if loud: raise SystemError('user code')\n"
      "    return False\n"
      "  def __hash__(self): return hash('a')\n"
      "odd = Odd()\n");
  struct Row {
    const char* guard;
    const char* constant;
    std::vector<const char*> good, bad;
  };
  const Row rows[] = {
      {"equal", "'some text'", {"''.join(['some ', 'text'])"}, {"'some texts'", "5", "odd", "b'some text'"}},
      {"equal", "10 ** 30", {"10 ** 29 * 10"}, {"10 ** 30 + 1", "1e30", "True"}},
      {"equal",
       "(1, 'a', (2.0, None))",
       {"(1, 'a', (2.0, None))"},
       {"(1.0, 'a', (2.0, None))", "(1, 'a', (-2.0, None))", "(True, 'a', (2.0, None))", "(1, odd, (2.0, None))"}},
      {"equal", "(0.0,)", {"tuple([0.0])"}, {"(-0.0,)"}},
      {"equal", "1j", {"complex(0, 1)"}, {"1.0"}},
      {"range_equal",
       "range(0, 10, 2)",
       {"range(0, 10, 2)"},
       {"range(0, 11, 2)", "range(1, 10, 2)", "range(0, 10, 3)", "5"}},
      {"dict_keys",
       "('a', 'b')",
       {"{'a': 1, 'b': 2}", "dict(a=odd, b=odd)"},
       {"{'b': 1, 'a': 2}", "{'a': 1}", "{'a': 1, 'b': 2, 'c': 3}", "{odd: 1, 'b': 2}", "5"}},
      {"dict_lacks", "'a'", {"{}", "{'b': 1}", "{'b': 1, 5: 2}"}, {"{'a': 1}", "{odd: 1}", "{5: 1, 'a': 2}", "[]"}},
      {"dict_lacks", "1", {"{}", "{'b': 1}", "{2: 3}", "{odd: 1}"}, {"{1: 1}", "{True: 1}", "{1.0: 2}"}},
      {"dict_value dst=%1",
       "'a'",
       {"{'a': 1}", "{5: 1, 'a': 2}"},
       {"{}", "{odd: 1}", "{odd: 1, 'a': 3}", "{'b': 2}", "[]"}},
      {"dict_value dst=%1", "10 ** 20", {"{10 ** 20: 1}"}, {"{}", "{'b': 2}"}},
      {"type_is", "int", {"5"}, {"True", "5.0"}},
      {"int_value dst=%1", "0", {"5", "2 ** 62", "-2 ** 63", "0"}, {"2 ** 63", "True", "1.0"}},
      {"float_value dst=%1", "0", {"5.0", "float('nan')"}, {"5", "odd"}},
      {"tuple_length imm=2", "0", {"(1, 2)"}, {"(1,)", "[1, 2]"}},
      {"list_length imm=2", "0", {"[1, 2]"}, {"[1]", "(1, 2)"}},
      {"dict_length imm=1", "0", {"{1: 2}"}, {"{}", "[1]"}},
  };
  for (const Row& row : rows) {
    PyObject* constant = PyRun_String(row.constant, Py_eval_input, python.globals, python.globals);
    ASSERT_NE(constant, nullptr);
    Guards guards(std::string("guard ") + row.guard + " a=%0 constant=#0 source=0\n", {Py_None}, {constant});
    EXPECT_EQ(guards(), 1) << row.guard;
    // Odd keys cannot be compared while guards run: they must not even try.
    auto try_all = [&](const std::vector<const char*>& texts, int expected) {
      for (const char* text : texts) {
        PyObject* object = PyRun_String(text, Py_eval_input, python.globals, python.globals);
        ASSERT_NE(object, nullptr);
        guards.set_slot(0, object);
        python.run("loud.append(1)");
        EXPECT_EQ(guards(), expected) << row.guard << " " << row.constant << " " << text << ": " << guards.said();
        EXPECT_EQ(guards(), expected) << "again: " << row.guard << " " << row.constant << " " << text;
        python.run("loud.clear()");
      }
    };
    try_all(row.good, -1);
    try_all(row.bad, 1);
    try_all(row.good, -1);
  }
}

TEST(Check, SaysWhatWasExpectedAndFound) {
  Python python("x = [1, 2]\n");
  Guards length("guard list_length a=%0 imm=3 source=0\n", {python["x"]}, {});
  EXPECT_EQ(length(), 1);
  EXPECT_EQ(length.said(), "x: expected a list of 3 items, found a list of 2 items");
  EXPECT_EQ(length.report.kind, "list_length");
  Guards unbound("guard unbound source=0\n", {python["x"]}, {});
  EXPECT_EQ(unbound(), 1);
  EXPECT_EQ(unbound.said(), "x: expected no value, found a list of 2 items");
  PyObject* wide = PyUnicode_FromString(std::string(200, 'w').c_str());
  Guards same("guard same a=%0 constant=#0 source=0\n", {wide}, {Py_None});
  EXPECT_EQ(same(), 1);
  EXPECT_EQ(same.said(), "x: expected the same None, found '" + std::string(79, 'w') + "...");
}

}  // namespace
}  // namespace kintsugi
