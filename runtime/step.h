// Performs exactly one bytecode instruction through the C API, with the meaning, errors and reference counts that
// CPython's own evaluator gives it: how native code crosses a break without leaving. KW_NAMES and PRECALL belong to
// their CALL. Works on the slots of an activation, with or without a frame; a frame shows the instruction's position
// meanwhile. Whoever drives it (call.cpp, step_test_entry.cpp) tests for tracing in between and delivers exceptions.
#pragma once
#include "runtime/resume.h"

namespace kintsugi {

enum class Outcome : uint8_t {
  kNext,      // done; go on at `offset`, the following instruction
  kJump,      // done; go on at `offset`, the target of a jump that was taken
  kReturn,    // the function returns `value`, now owned by the caller
  kRaised,    // an exception is set; it belongs to the instruction at `offset` (see raise_at)
  kReraised,  // likewise, but the instruction raises it again: no entry in the traceback (see unwind)
  kCannot,    // nothing was done: `except*`, generators, class bodies. Hand over at `offset`
};
struct StepResult {
  Outcome outcome;
  int offset;
  PyObject* value = nullptr;
};
StepResult step(Activation& activation, int offset);

// False when the instruction at `offset` can neither run Python code nor look at a frame, given the values on the
// stack. It may still raise.
bool needs_frame(PyCodeObject* code, int offset, PyObject* const* slots, int depth);

// Signals, pending calls, other threads' wish for the lock, asynchronous exceptions: what the evaluator serves at back
// edges when is_interrupted(). Negative: an exception is set.
int serve_interrupts(PyThreadState* thread);

// Once, at import. init_frames: the hook, this, and the test entry (step_test_entry.cpp) on `module`.
bool init_step();
bool init_frames(PyObject* module);

}  // namespace kintsugi
