// The frame hook (PEP 523): how a frame that CPython made comes into our hands. Two ways, each on its own thread:
//  - one-shot: call_with_frame and call_with_placeholders call a function and take exactly the frame of that call;
//  - capture: while a CaptureScope is on, frames of ordinary functions are offered before CPython evaluates them.
// Everything else passes through, to a hook that was there before us or to the default evaluator. Uses frame.h only;
// used by call.cpp (calls and breaks) and step.cpp's callers (capture around call-outs).
#pragma once
#include "runtime/frame.h"

namespace kintsugi {

// Runs a taken frame and answers what it returns: a new reference, or null with an exception set. The frame is linked
// as the thread's current one and counted against the recursion limit until this returns. Must not throw.
using FrameTaken = PyObject* (*)(void* context, PyThreadState* thread, Frame* frame);

// Once, at import, with the interpreter whose frames are taken. Threads of other interpreters are left alone.
bool init_hook();
bool can_take_frames(PyThreadState* thread);

// True with RecursionError set when the C stack is nearly used up: the caller returns null.
bool c_stack_is_short();

// Calls `function` so that its frame, arguments bound, goes to `taken`. The frame has run nothing yet. Where frames
// cannot be taken (another interpreter, a generator, keyword names that are not plain strings) the function is called
// plainly: `taken` never ran then. A call that does not bind raises Python's own TypeError.
PyObject* call_with_frame(PyFunctionObject* function, PyObject* const* args, size_t nargsf, PyObject* kwnames,
                          FrameTaken taken, void* context);

// The same for a frame whose slots are written anyway: every parameter is bound to None. `code` is what must run; where
// the function has got another code object since, a function with the old one is made for the frame. Raises
// RuntimeError where frames cannot be taken.
PyObject* call_with_placeholders(PyFunctionObject* function, PyCodeObject* code, FrameTaken taken, void* context);

// A generator of `function` with every parameter bound to None, at its start. `code` as above.
PyObject* new_generator(PyFunctionObject* function, PyCodeObject* code);

// While this lives, the frame of `generator` goes to `taken` when somebody resumes it with a value; that value is
// dropped. One at a time.
class ResumptionTaken {
 public:
  ResumptionTaken(PyObject* generator, FrameTaken taken, void* context);
  ~ResumptionTaken() { end(); }
  ResumptionTaken(const ResumptionTaken&) = delete;
  ResumptionTaken& operator=(const ResumptionTaken&) = delete;
  void end();
  bool came() const { return came_; }
  bool is_for(const Frame* frame) const { return frame == frame_; }
  PyObject* take(PyThreadState* thread);  // the hook has its frame

 private:
  Frame* frame_;
  FrameTaken taken_;
  void* context_;
  Evaluator before_;
  bool on_ = true, came_ = false;
};

// Whom capture offers frames to. `wants` is asked for each fresh frame of an ordinary function and must be quick.
struct Capture {
  bool (*wants)(PyCodeObject* code);
  FrameTaken taken;
  void* context;
};
void set_capture(const Capture& capture);  // the one that CaptureScope(true) turns on

// Turns capture on or off in this thread until the end of the scope. What is on already stays as it is.
class CaptureScope {
 public:
  explicit CaptureScope(bool on);
  explicit CaptureScope(const Capture* capture);  // another one; must outlive the scope
  ~CaptureScope();
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

 private:
  const Capture* before_;
};
bool is_capturing();

// Turns capture on for good in this thread and in every thread that runs Python code from now on: with this one, which
// must live for ever. Null: threads that come later start without. For tests that judge the runtime by other programs.
void capture_every_thread(const Capture* capture);

}  // namespace kintsugi
