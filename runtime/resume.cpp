#include "runtime/resume.h"

#include <opcode.h>
#include <unistd.h>

#include "jit/bytecode.h"

namespace kintsugi {

void sleep_for_ever() {
  for (;;) pause();
}

Activation adopt(PyThreadState* thread, Frame* frame) {
  Activation activation;
  activation.function = function_of(frame);
  activation.code = code_of(frame);
  activation.slots = slots_of(frame);
  activation.frame = frame;
  activation.thread = thread;
  return activation;
}

void move_into_frame(Activation& activation, Frame* frame) {
  PyObject** from = std::exchange(activation.slots, slots_of(frame));
  activation.frame = frame;
  activation.function = function_of(frame);
  int count = local_slots(activation.code) + activation.depth;
  int held = value_count(frame);
  for (int i = 0; i < count; ++i) {
    PyObject* old = i < held ? activation.slots[i] : nullptr;
    activation.slots[i] = std::exchange(from[i], nullptr);
    Py_XDECREF(old);
  }
}

int opcode_unit(PyCodeObject* code, int offset) {
  const uint16_t* units = plain_units(code);
  KN_CHECK(units != nullptr);
  for (;; ++offset) {
    int opcode = units[offset] & 0xff;
    if (opcode == EXTENDED_ARG || opcode == KW_NAMES) continue;
    if (opcode != PRECALL) return offset;
    offset += INLINE_CACHE_ENTRIES_PRECALL;
  }
}

// ---- Tracing that begins in the middle -----------------------------------------------------------------------------
// Delivering an exception enters the evaluator the way generator.throw does, and that tells a tracer and a profiler of
// a call which has long begun. Both are kept from that one event.

struct Watchers {
  PyThreadState* thread = nullptr;
  Py_tracefunc tracer = nullptr, profiler = nullptr;
};
static thread_local Watchers muted;

static int ignore_one_trace_event(PyObject*, PyFrameObject*, int, PyObject*) {
  tracer_of(muted.thread) = std::exchange(muted.tracer, nullptr);
  return 0;
}
static int ignore_one_profile_event(PyObject*, PyFrameObject*, int, PyObject*) {
  profiler_of(muted.thread) = std::exchange(muted.profiler, nullptr);
  return 0;
}
static void mute_call_event(PyThreadState* thread) {
  muted = {thread, tracer_of(thread), profiler_of(thread)};
  if (muted.tracer != nullptr) tracer_of(thread) = ignore_one_trace_event;
  if (muted.profiler != nullptr) profiler_of(thread) = ignore_one_profile_event;
}
static void unmute(PyThreadState* thread) {  // for events that never came
  if (tracer_of(thread) == ignore_one_trace_event) tracer_of(thread) = muted.tracer;
  if (profiler_of(thread) == ignore_one_profile_event) profiler_of(thread) = muted.profiler;
}

// ---- The three ends ------------------------------------------------------------------------------------------------

// Until here the frame says that it holds its locals only, so that however it ends CPython's caller clears those and no
// garbage. The evaluator wants to know of the stack; it links the frame and counts the call itself, and leaves it
// empty. The frame is linked again after, since the hook unlinks what it linked.
static PyObject* evaluate_rest(Activation& activation, bool throwing) {
  KN_CHECK(activation.frame != nullptr);
  KN_CHECK((PyErr_Occurred() != nullptr) == throwing);
  PyThreadState* thread = activation.thread;
  set_value_count(activation.frame, local_slots(activation.code) + activation.depth);
  set_current_frame(thread, caller_of(activation.frame));
  leave_call(thread);
  bool mute = throwing && is_traced(thread);
  if (mute) mute_call_event(thread);
  PyObject* result = calling_python([&] { return _PyEval_EvalFrameDefault(thread, activation.frame, throwing); });
  if (mute) unmute(thread);
  enter_again(thread);
  set_current_frame(thread, activation.frame);
  activation.depth = 0;
  return result;
}

PyObject* hand_over(Activation& activation, int offset) {
  set_next(activation.frame, offset);
  return evaluate_rest(activation, /*throwing=*/false);
}

PyObject* raise_at(Activation& activation, int offset) {
  set_running(activation.frame, opcode_unit(activation.code, offset));
  return evaluate_rest(activation, /*throwing=*/true);
}

void add_traceback_entry(Activation& activation) {
  if (is_incomplete(activation.frame)) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyFrameObject* frame = PyThreadState_GetFrame(activation.thread);
  if (frame == nullptr) {
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    PyErr_NoMemory();
    return;
  }
  PyErr_Restore(type, value, traceback);
  PyTraceBack_Here(frame);
  Py_DECREF(frame);
}

int unwind(Activation& activation, int offset, bool again) {
  KN_CHECK(activation.frame != nullptr && PyErr_Occurred() != nullptr);
  int unit = opcode_unit(activation.code, offset);
  if (!again) {
    set_running(activation.frame, unit);
    add_traceback_entry(activation);
  }
  const Handler* handler = bytecode_of(activation.code).handler_at(unit);
  auto drop_to = [&](int depth) {
    while (activation.depth > depth) Py_XDECREF(activation.stack()[--activation.depth]);
  };
  while (handler != nullptr) {
    drop_to(handler->depth);
    if (handler->lasti) {
      PyObject* position = PyLong_FromLong(position_of(activation.frame));
      if (position == nullptr) continue;
      activation.stack()[activation.depth++] = position;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyException_SetTraceback(value, traceback != nullptr ? traceback : Py_None);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    activation.stack()[activation.depth++] = value;
    return handler->target;
  }
  drop_to(0);
  return -1;
}

PyObject* finish(Activation& activation, PyObject* result) {
  if (activation.frame != nullptr && !has_frame_object(activation.frame)) {
    // They end as locals do, when the frame is nobody's caller any more.
    set_value_count(activation.frame, local_slots(activation.code) + std::exchange(activation.depth, 0));
    return result;
  }
  while (activation.depth > 0) Py_XDECREF(activation.stack()[--activation.depth]);
  return result;
}

}  // namespace kintsugi
