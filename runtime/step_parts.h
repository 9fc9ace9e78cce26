// What step.cpp and step_call.cpp share: the operands of the one instruction that is being performed. No other user.
#pragma once
#include <opcode.h>

#include "runtime/step.h"

namespace kintsugi::stepping {

struct Machine {
  Activation& activation;
  PyObject** stack;  // its bottom
  int start;         // offset of the instruction, prefixes included
  int argument;
  int next;                     // offset of the following instruction
  PyObject* kwnames = nullptr;  // borrowed from the constants: of a CALL

  PyObject** slots() const { return activation.slots; }
  PyCodeObject* code() const { return activation.code; }
  int& depth() const { return activation.depth; }
  PyObject* peek(int below = 0) const { return stack[activation.depth - 1 - below]; }  // 0: the top
  PyObject** top(int count) const { return stack + activation.depth - count; }         // the `count` topmost
  void push(PyObject* owned) const { stack[activation.depth++] = owned; }
  PyObject* pop() const { return stack[--activation.depth]; }
  PyObject* name(int index) const { return PyTuple_GET_ITEM(code()->co_names, index); }
  PyObject* globals() const { return globals_of(activation.function); }
  PyObject* builtins() const { return builtins_of(activation.function); }
};

inline StepResult next(const Machine& m) { return {Outcome::kNext, m.next}; }
inline StepResult raised(const Machine& m) { return {Outcome::kRaised, m.start}; }

inline StepResult raised_again(const Machine& m) { return {Outcome::kReraised, m.start}; }

// Drops the `count` topmost values, in the order they were pushed.
inline void drop(const Machine& m, int count) {
  PyObject** values = m.top(count);
  m.depth() -= count;
  for (int i = 0; i < count; ++i) Py_XDECREF(values[i]);
}
// ... and pushes `result` in their place; null: it raised.
inline StepResult replace(const Machine& m, int count, PyObject* result) {
  drop(m, count);
  if (result == nullptr) return raised(m);
  m.push(result);
  return next(m);
}
// ... and pushes nothing: negative, it raised.
inline StepResult consume(const Machine& m, int count, int status) {
  drop(m, count);
  return status < 0 ? raised(m) : next(m);
}
inline StepResult push(const Machine& m, PyObject* result) {
  if (result == nullptr) return raised(m);
  m.push(result);
  return next(m);
}
// After a call, as after a backward jump, the evaluator serves what waits.
inline StepResult next_served(const Machine& m) {
  PyThreadState* thread = this_thread();
  if (is_interrupted(thread) && serve_interrupts(thread) < 0) return raised(m);
  return next(m);
}

// Interned names, made once.
struct Names {
  PyObject *enter, *exit, *build_class, *import, *name, *spec, *get, *match_args, *empty;
};
extern Names names;

void set_name_error(PyObject* type, const char* format, PyObject* name);

// step_call.cpp
StepResult call(const Machine& m);
StepResult call_function_ex(const Machine& m);
StepResult make_function(const Machine& m);
StepResult load_method(const Machine& m);
StepResult load_build_class(const Machine& m);
StepResult import_name(const Machine& m);
StepResult import_from(const Machine& m);
StepResult before_with(const Machine& m);
StepResult raise_varargs(const Machine& m);
StepResult reraise(const Machine& m);
StepResult push_handled(const Machine& m);
StepResult pop_handled(const Machine& m);
StepResult check_match(const Machine& m);
StepResult call_exit(const Machine& m);
StepResult dict_merge(const Machine& m);
StepResult match_class(const Machine& m);
StepResult match_keys(const Machine& m);

}  // namespace kintsugi::stepping
