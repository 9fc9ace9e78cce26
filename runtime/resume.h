// Activations, and giving a frame back to CPython in the middle of its function. Slots, stack and position are written
// into the frame that CPython made, and its default evaluator goes on from there. Offsets are code units: bytes / 2.
// Used by call.cpp and step.cpp; knows nothing of segments.
#pragma once
#include <exception>
#include <new>

#include "runtime/frame.h"

namespace kintsugi {

// A daemon thread that wants the lock while the interpreter ends is ended by CPython (pthread_exit) in the middle of
// whatever it called. C++ frames must not be torn down by that: they would drop references without the lock. Calls that
// may run Python code go through this near to the call; such a thread then sleeps until the process is gone.
[[noreturn]] void sleep_for_ever();
template <class Call>
auto calling_python(Call&& call) {
  try {
    return call();
  } catch (const std::exception&) {
    throw;
  } catch (...) {  // the forced unwinding of pthread_exit
    sleep_for_ever();
  }
}

// Stands between our code and its callers in C or emitted code: an exception of C++ becomes one of Python.
template <class Call, class Answer>
Answer contained(Call&& call, Answer on_failure) {
  try {
    return calling_python(call);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& failure) {
    PyErr_Format(PyExc_SystemError, "kintsugi: %s", failure.what());
  }
  return on_failure;
}
template <class Call>
PyObject* contained(Call&& call) {
  return contained(std::forward<Call>(call), static_cast<PyObject*>(nullptr));
}

// A frame leaves the handled exception as it found it. Handlers see to that themselves; this, for ends in the middle.
class HandledKept {
 public:
  explicit HandledKept(PyThreadState* thread) : thread_(thread), before_(Py_XNewRef(handled_exception(thread))) {}
  ~HandledKept() {
    PyObject* now = handled_exception(thread_);
    if (now != before_) [[unlikely]]
      std::swap(handled_exception(thread_), before_);
    Py_XDECREF(before_);
  }
  HandledKept(const HandledKept&) = delete;
  HandledKept& operator=(const HandledKept&) = delete;

 private:
  PyThreadState* thread_;
  PyObject* before_;
};

// One running compiled frame. Native code works over `slots`: localsplus, then the value stack; owned references, null
// for unbound locals and for the NULL that calls leave on the stack; words above `depth` are garbage. There is room for
// co_nlocalsplus + co_stacksize words.
struct Activation {
  PyFunctionObject* function = nullptr;  // borrowed from the caller or the frame
  PyCodeObject* code = nullptr;          // borrowed likewise
  PyObject** slots = nullptr;            // of the frame, or an array of the caller's while there is no frame
  int depth = 0;                         // values on the stack now
  Frame* frame = nullptr;                // null while frameless
  PyThreadState* thread = nullptr;

  PyObject** stack() const { return slots + local_slots(code); }
};

// The activation of a frame that the hook has just handed over: parameters bound, nothing run yet.
Activation adopt(PyThreadState* thread, Frame* frame);

// Gives a frameless activation its frame: every slot moves there, what the frame held (placeholders) is dropped.
void move_into_frame(Activation& activation, Frame* frame);

// Makes a slot hold `owned` (or nothing); what it held goes last, since dropping it may run code that looks at the
// frame.
inline void store_slot(Activation& activation, int slot, PyObject* owned) {
  PyObject* old = std::exchange(activation.slots[slot], owned);
  Py_XDECREF(old);
}

// What sys._getframe, tracebacks and f_lineno see from now on: the instruction whose opcode unit is `unit`. Call before
// anything that can run Python code or raise.
inline void set_position(Activation& activation, int unit) {
  if (activation.frame != nullptr) set_running(activation.frame, unit);
}

// The opcode unit of the instruction at `offset`: past EXTENDED_ARG; for KW_NAMES and PRECALL, the CALL they prepare.
int opcode_unit(PyCodeObject* code, int offset);

// Three ends of a taken frame. Each consumes the activation's stack and answers what FrameTaken has to return. The
// activation must have its frame.
//
// The default evaluator runs the rest, beginning with the instruction at `offset`. No exception may be pending.
PyObject* hand_over(Activation& activation, int offset);
// The pending exception is delivered at the instruction at `offset`: the function's own handlers, `with` and `finally`
// run, the traceback gets its entry, and the evaluator runs the rest.
PyObject* raise_at(Activation& activation, int offset);
// PyTraceBack_Here: the pending exception gets an entry for the frame as it stands.
void add_traceback_entry(Activation& activation);
// What the evaluator does for the exception that is pending: a traceback entry for the instruction at `offset`, unless
// it is raised `again` by that instruction (the frame's position is whatever it set then); the stack falls to the
// handler's depth and gets what the handler expects. Answers the handler's offset. Negative: there is none, the stack
// is empty and the exception still pending. Tells no tracer: not for a thread that is traced.
int unwind(Activation& activation, int offset, bool again);
// The function is done: `result` is its value, or null with an exception that has its traceback already (passed
// through). The value stack is dropped; CPython drops the locals.
PyObject* finish(Activation& activation, PyObject* result);

}  // namespace kintsugi
