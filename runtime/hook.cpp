#include "runtime/hook.h"

#include <atomic>
#include <vector>

#include "runtime/resume.h"

namespace kintsugi {

static PyObject* evaluate(PyThreadState* thread, Frame* frame, int throwflag);

// ---- The word ------------------------------------------------------------------------------------------------------
// CPython has one hook pointer per interpreter. Capture is counted: the pointer is set while any thread captures. A
// hook that somebody put over ours calls us in turn; we never go over it again, and when it leaves and puts us back
// while nobody captures, `evaluate` takes itself out. All of this is under the interpreter's lock.

static PyInterpreterState* home;                    // whose frames we take
static Evaluator below = _PyEval_EvalFrameDefault;  // who evaluates what we do not take
static Evaluator over_us = nullptr;                 // a hook that was put over ours
static std::atomic<int> capturing_threads = 0;  // a thread that captured to its end counts itself out without the lock
static Capture default_capture = {};
static const Capture* for_every_thread = nullptr;
[[gnu::tls_model("initial-exec")]] static thread_local const Capture* capturing = nullptr;
[[gnu::tls_model("initial-exec")]] static thread_local bool joined = false;  // this thread has seen for_every_thread

static void add_capturing_thread() {
  if (capturing_threads++ > 0) return;
  Evaluator now = evaluator_of(home);
  if (now == evaluate || now == over_us) return;
  over_us = nullptr;
  below = now;
  set_evaluator(home, evaluate);
}

static void remove_capturing_thread() {
  if (--capturing_threads > 0) return;
  Evaluator now = evaluator_of(home);
  if (now == evaluate) {
    set_evaluator(home, below);
  } else if (now != below) {
    over_us = now == _PyEval_EvalFrameDefault ? nullptr : now;  // who took us away is not over us
  }
}

void set_capture(const Capture& capture) { default_capture = capture; }
bool is_capturing() { return capturing != nullptr; }

static void switch_capture(const Capture* capture) {
  const Capture* before = capturing;
  if (capture == before || home == nullptr || !can_take_frames(this_thread())) return;
  capturing = capture;
  if (before == nullptr) add_capturing_thread();
  if (capture == nullptr) remove_capturing_thread();
}
CaptureScope::CaptureScope(bool on) : before_(capturing) {
  if (on != is_capturing()) switch_capture(on ? &default_capture : nullptr);
}
CaptureScope::CaptureScope(const Capture* capture) : before_(capturing) { switch_capture(capture); }
CaptureScope::~CaptureScope() { switch_capture(before_); }

struct CountOut {
  bool wanted = false;
  ~CountOut() {
    if (wanted && std::exchange(capturing, nullptr) != nullptr) --capturing_threads;
  }
};
static thread_local CountOut at_thread_end;

static void join_capture() {
  joined = true;
  at_thread_end.wanted = true;
  if (capturing == nullptr) switch_capture(for_every_thread);
}

void capture_every_thread(const Capture* capture) {
  for_every_thread = capture;
  if (capture == nullptr)
    switch_capture(nullptr);
  else
    join_capture();
}

// ---- One-shot ------------------------------------------------------------------------------------------------------
// Between arming and the frame only argument binding runs. With automatic collection held off and plain keyword names
// it runs no Python code, so the lock stays with us and no other thread sees the state below or the pointer.

struct OneShot {
  PyFunctionObject* function;
  PyThreadState* thread;
  Frame* caller;
  FrameTaken taken;
  void* context;
  Evaluator before;
  bool collector_was_on;
};
static OneShot* armed = nullptr;

static void arm(OneShot* shot) {
  shot->before = evaluator_of(home);
  if (shot->before != evaluate) set_evaluator(home, evaluate);
  shot->collector_was_on = set_collector(shot->thread, false);
  armed = shot;
}

static void disarm() {
  OneShot* shot = std::exchange(armed, nullptr);
  if (shot->collector_was_on) set_collector(shot->thread, true);
  if (shot->before != evaluate) set_evaluator(home, shot->before);
}

static PyObject* call_armed(PyFunctionObject* function, PyObject* const* args, size_t nargsf, PyObject* kwnames,
                            PyThreadState* thread, FrameTaken taken, void* context) {
  OneShot shot{function, thread, current_frame(thread), taken, context};
  arm(&shot);
  PyObject* result = _PyFunction_Vectorcall(reinterpret_cast<PyObject*>(function), args, nargsf, kwnames);
  if (armed == &shot) disarm();  // it did not bind: there was no frame
  return result;
}

static bool are_plain_names(PyObject* kwnames) {
  if (kwnames == nullptr) return true;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kwnames); ++i)
    if (!PyUnicode_CheckExact(PyTuple_GET_ITEM(kwnames, i))) return false;
  return true;
}

bool can_take_frames(PyThreadState* thread) { return thread->interp == home; }

static constexpr const char* kTooDeep = "maximum recursion depth exceeded";

bool c_stack_is_short() {
  if (c_stack_left() >= kStackReserve) return false;
  PyErr_SetString(PyExc_RecursionError, kTooDeep);
  return true;
}

PyObject* call_with_frame(PyFunctionObject* function, PyObject* const* args, size_t nargsf, PyObject* kwnames,
                          FrameTaken taken, void* context) {
  PyThreadState* thread = this_thread();
  if (c_stack_is_short()) return nullptr;
  if (!can_take_frames(thread) || !is_ordinary(code_of(function)) || !are_plain_names(kwnames))
    return _PyFunction_Vectorcall(reinterpret_cast<PyObject*>(function), args, nargsf, kwnames);
  return call_armed(function, args, nargsf, kwnames, thread, taken, context);
}

static Ref function_with_code(PyFunctionObject* function, PyCodeObject* code) {
  Ref made(PyFunction_New(reinterpret_cast<PyObject*>(code), globals_of(function)));
  if (made && code->co_nfreevars > 0) {
    KN_CHECK(closure_of(function) != nullptr && PyTuple_GET_SIZE(closure_of(function)) == code->co_nfreevars);
    furnish(reinterpret_cast<PyFunctionObject*>(made.get()), nullptr, nullptr, nullptr,
            Py_NewRef(closure_of(function)));
  }
  return made;
}

// A call that binds None to every parameter, of a function with this code. False: an exception is set.
struct PlaceholderCall {
  Ref stand_in, kwnames;
  PyFunctionObject* function;
  PyObject* const* arguments;
  Py_ssize_t count;

  bool prepare(PyFunctionObject* given, PyCodeObject* code) {
    function = given;
    if (code_of(function) != code) {
      stand_in = function_with_code(function, code);
      if (!stand_in) return false;
      function = reinterpret_cast<PyFunctionObject*>(stand_in.get());
    }
    count = code->co_argcount;
    if (code->co_kwonlyargcount > 0) {
      kwnames = Ref(
          PyTuple_GetSlice(code->co_localsplusnames, code->co_argcount, code->co_argcount + code->co_kwonlyargcount));
      if (!kwnames) return false;
    }
    static std::vector<PyObject*> nones;
    size_t wanted = static_cast<size_t>(code->co_argcount + code->co_kwonlyargcount);
    if (nones.size() < wanted) nones.resize(wanted, Py_None);
    arguments = nones.data();
    return true;
  }
};

PyObject* call_with_placeholders(PyFunctionObject* function, PyCodeObject* code, FrameTaken taken, void* context) {
  PyThreadState* thread = this_thread();
  if (c_stack_is_short()) return nullptr;
  if (!can_take_frames(thread) || !is_ordinary(code)) {
    PyErr_Format(PyExc_RuntimeError, "no frame of %U can be made here: %s", code->co_qualname,
                 is_ordinary(code) ? "this is not the interpreter that imported kintsugi" : "not an ordinary function");
    return nullptr;
  }
  PlaceholderCall call;
  if (!call.prepare(function, code)) return nullptr;
  return call_armed(call.function, call.arguments, static_cast<size_t>(call.count), call.kwnames.get(), thread, taken,
                    context);
}

PyObject* new_generator(PyFunctionObject* function, PyCodeObject* code) {
  PlaceholderCall call;
  if (!is_generator(code) || !call.prepare(function, code)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "kintsugi: not a generator function");
    return nullptr;
  }
  PyObject* made = _PyFunction_Vectorcall(reinterpret_cast<PyObject*>(call.function), call.arguments,
                                          static_cast<size_t>(call.count), call.kwnames.get());
  if (made != nullptr && call.stand_in) rename_generator(made, function);
  return made;
}

// ---- Resumed generators --------------------------------------------------------------------------------------------

static ResumptionTaken* awaited = nullptr;

// The frame must come to us: a hook over ours might not call us.
ResumptionTaken::ResumptionTaken(PyObject* generator, FrameTaken taken, void* context)
    : frame_(frame_of_generator(generator)), taken_(taken), context_(context) {
  add_capturing_thread();
  before_ = evaluator_of(home);
  if (before_ != evaluate) set_evaluator(home, evaluate);
  awaited = this;
}

void ResumptionTaken::end() {
  if (!std::exchange(on_, false)) return;
  awaited = nullptr;
  if (before_ != evaluate && evaluator_of(home) == evaluate) set_evaluator(home, before_);
  remove_capturing_thread();
}

// ---- The hook ------------------------------------------------------------------------------------------------------

// As the evaluator does on entry and exit; CPython clears the frame after the hook returns.
static PyObject* run_taken(PyThreadState* thread, Frame* frame, FrameTaken taken, void* context) {
  set_caller(frame, current_frame(thread));
  if (!enter_call(thread)) return nullptr;
  set_current_frame(thread, frame);
  PyObject* result = taken(context, thread, frame);
  set_current_frame(thread, caller_of(frame));
  leave_call(thread);
  return result;
}

// With the hook pointer set every Python call uses the C stack; without it, none does. So when the stack runs short
// this thread stops capturing inside this frame. Where another thread keeps the pointer set, half of the reserve is the
// end.
static PyObject* evaluate_aside(PyThreadState* thread, Frame* frame, int throwflag) {
  if (c_stack_left() < kStackReserve / 2 && throwflag == 0) {
    PyErr_SetString(PyExc_RecursionError, kTooDeep);
    return nullptr;
  }
  CaptureScope off(false);
  return calling_python([&] { return below(thread, frame, throwflag); });
}

PyObject* ResumptionTaken::take(PyThreadState* thread) {
  came_ = true;
  end();
  Py_DECREF(take_sent(frame_));
  return run_taken(thread, frame_, taken_, context_);
}

static PyObject* evaluate(PyThreadState* thread, Frame* frame, int throwflag) {
  if (awaited != nullptr && awaited->is_for(frame)) [[unlikely]] {
    if (throwflag != 0) PyErr_Clear();  // it has been followed from there on
    return awaited->take(thread);
  }
  if (armed != nullptr) [[unlikely]] {
    bool ours = throwflag == 0 && thread == armed->thread && function_of(frame) == armed->function && is_fresh(frame) &&
                current_frame(thread) == armed->caller;
    if (!ours) return _PyEval_EvalFrameDefault(thread, frame, throwflag);
    OneShot shot = *armed;
    disarm();
    return run_taken(thread, frame, shot.taken, shot.context);
  }
  if (capturing_threads == 0) {
    if (thread->interp == home && evaluator_of(home) == evaluate) set_evaluator(home, below);
    return below(thread, frame, throwflag);
  }
  if (c_stack_left() < kStackReserve) [[unlikely]]
    return evaluate_aside(thread, frame, throwflag);
  if (for_every_thread != nullptr && !joined && thread->interp == home) [[unlikely]]
    join_capture();
  const Capture* capture = capturing;
  if (capture != nullptr && throwflag == 0 && thread->interp == home && is_ordinary(code_of(frame)) &&
      is_fresh(frame) && !is_of_generator(frame) && !is_traced(thread) && capture->wants != nullptr &&
      capture->wants(code_of(frame)))
    return run_taken(thread, frame, capture->taken, capture->context);
  return below(thread, frame, throwflag);
}

// ---- Start ---------------------------------------------------------------------------------------------------------

static void forget_other_threads() {  // in the child of a fork
  if (capturing_threads > 0) capturing_threads = is_capturing() ? 1 : 0;
}

bool init_hook() {
  if (home != nullptr) return true;
  if (pthread_atfork(nullptr, nullptr, forget_other_threads) != 0) {
    PyErr_NoMemory();
    return false;
  }
  home = this_thread()->interp;
  return true;
}

}  // namespace kintsugi
