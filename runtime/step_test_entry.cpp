// kintsugi._runtime._interpret: runs a Python function one step() at a time over its real frame. For tests and the
// stress modes: it is an interpreter made of exactly the parts that cross breaks, so that these can be compared with
// CPython instruction by instruction. Not for users.
#include <vector>

#include "runtime/hook.h"
#include "runtime/step.h"

namespace kintsugi {

struct Counts {
  long long steps = 0, frames = 0, hand_overs = 0, raises = 0, returns = 0;
};
static Counts counts;

struct Trial {
  long long stop_after = -1;  // hand over after so many steps; negative: never
  long long fail_after = -1;  // ... or raise InterruptedError
  long long steps = 0;
};

static PyObject* run_steps(Activation& activation, int offset, Trial* trial) {
  HandledKept handled(activation.thread);
  for (;;) {
    long long number = trial->steps++;
    if (number == trial->stop_after || is_traced(activation.thread)) {
      ++counts.hand_overs;
      return hand_over(activation, offset);
    }
    if (number == trial->fail_after) {
      ++counts.raises;
      PyErr_SetNone(PyExc_InterruptedError);
      return raise_at(activation, offset);
    }
    ++counts.steps;
    StepResult result = step(activation, offset);
    switch (result.outcome) {
      case Outcome::kNext:
      case Outcome::kJump: offset = result.offset; break;
      case Outcome::kReturn: ++counts.returns; return finish(activation, result.value);
      case Outcome::kRaised:
      case Outcome::kReraised:
        ++counts.raises;
        if (is_traced(activation.thread) && result.outcome == Outcome::kRaised)
          return raise_at(activation, result.offset);
        offset = unwind(activation, result.offset, result.outcome == Outcome::kReraised);
        if (offset < 0) return finish(activation, nullptr);
        break;
      case Outcome::kCannot: ++counts.hand_overs; return hand_over(activation, result.offset);
    }
  }
}

static PyObject* end_with_internal_error(Activation& activation, const InternalError& error) {
  PyErr_SetString(PyExc_SystemError, error.what());
  return finish(activation, nullptr);
}

static PyObject* interpret_frame(void* context, PyThreadState* thread, Frame* frame) {
  Activation activation = adopt(thread, frame);
  try {
    ++counts.frames;
    Trial endless;
    return run_steps(activation, 0, context == nullptr ? &endless : static_cast<Trial*>(context));
  } catch (const InternalError& error) {
    return end_with_internal_error(activation, error);
  }
}

// ---- late: no frame until an instruction needs one ------------------------------------------------------------------

struct Late {
  Activation activation;
  Trial* trial;
  int offset;
  bool raised = false;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
};

static PyObject* continue_in_frame(void* context, PyThreadState* thread, Frame* frame) {
  Late* late = static_cast<Late*>(context);
  try {
    ++counts.frames;
    move_into_frame(late->activation, frame);
    if (!late->raised) return run_steps(late->activation, late->offset, late->trial);
    ++counts.raises;
    PyErr_Restore(late->type, late->value, late->traceback);
    return raise_at(late->activation, late->offset);
  } catch (const InternalError& error) {
    return end_with_internal_error(late->activation, error);
  }
}

static PyObject* interpret_late(PyFunctionObject* function, PyObject* const* args, Py_ssize_t count, Trial* trial) {
  PyCodeObject* code = code_of(function);
  if (count != code->co_argcount || code->co_kwonlyargcount > 0 || (code->co_flags & (CO_VARARGS | CO_VARKEYWORDS))) {
    PyErr_SetString(PyExc_TypeError, "late: give every parameter by position");
    return nullptr;
  }
  std::vector<PyObject*> slots(static_cast<size_t>(local_slots(code) + stack_slots(code)));
  for (Py_ssize_t i = 0; i < count; ++i) slots[static_cast<size_t>(i)] = Py_NewRef(args[i]);
  Late late{{function, code, slots.data(), 0, nullptr, this_thread()}, trial, 0};
  PyObject* result = nullptr;
  bool returned = false;
  while (!returned && !late.raised && !needs_frame(code, late.offset, slots.data(), late.activation.depth)) {
    if (trial->steps++ == trial->stop_after) {
      --trial->steps;
      break;
    }
    ++counts.steps;
    StepResult done = step(late.activation, late.offset);
    late.offset = done.offset;
    late.raised = done.outcome == Outcome::kRaised;
    if (done.outcome == Outcome::kCannot) break;
    if (done.outcome == Outcome::kReturn) {
      result = done.value;
      returned = true;
    }
  }
  if (!returned) {
    if (late.raised) PyErr_Fetch(&late.type, &late.value, &late.traceback);
    result = call_with_placeholders(function, code, continue_in_frame, &late);
  }
  if (late.activation.frame == nullptr)  // else the slots have moved there
    for (int i = local_slots(code) + late.activation.depth; i-- > 0;) Py_XDECREF(slots[static_cast<size_t>(i)]);
  return result;
}

// ---- The entry ------------------------------------------------------------------------------------------------------

static bool want_every_frame(PyCodeObject*) { return true; }

static PyObject* interpret(PyObject*, PyObject* args, PyObject* keywords) {
  static const char* kNames[] = {"function", "args", "kwargs", "deep", "late", "stop_after", "fail_after", nullptr};
  PyObject *function, *arguments = nullptr, *named = nullptr;
  int deep = 0, late = 0;
  Trial trial;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!|O!O!$ppLL", const_cast<char**>(kNames), &PyFunction_Type,
                                   &function, &PyTuple_Type, &arguments, &PyDict_Type, &named, &deep, &late,
                                   &trial.stop_after, &trial.fail_after))
    return nullptr;
  std::vector<PyObject*> values;
  Py_ssize_t count = arguments == nullptr ? 0 : PyTuple_GET_SIZE(arguments);
  for (Py_ssize_t i = 0; i < count; ++i) values.push_back(PyTuple_GET_ITEM(arguments, i));
  PyFunctionObject* callee = reinterpret_cast<PyFunctionObject*>(function);
  static const Capture every_frame = {want_every_frame, interpret_frame, nullptr};
  CaptureScope scope(deep ? &every_frame : nullptr);
  if (late) return interpret_late(callee, values.data(), count, &trial);
  Ref names;
  if (named != nullptr && PyDict_GET_SIZE(named) > 0) {
    Ref list(PyDict_Keys(named));
    names = Ref(list ? PyList_AsTuple(list.get()) : nullptr);
    if (!names) return nullptr;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i)
      values.push_back(PyDict_GetItem(named, PyTuple_GET_ITEM(names.get(), i)));
  }
  return call_with_frame(callee, values.data(), static_cast<size_t>(count), names.get(), interpret_frame, &trial);
}

static PyObject* interpret_counts(PyObject*, PyObject*) {
  Counts now = std::exchange(counts, {});
  return Py_BuildValue("{sLsLsLsLsL}", "steps", now.steps, "frames", now.frames, "hand_overs", now.hand_overs, "raises",
                       now.raises, "returns", now.returns);
}

// ---- A second user of the hook pointer ------------------------------------------------------------------------------

// Installs and removes itself the way debuggers and other compilers do: keeps what was there, calls it, puts it back.
static Evaluator rival_before = nullptr;
static long long rival_frames = 0;

static PyObject* rival_evaluate(PyThreadState* thread, Frame* frame, int throwflag) {
  ++rival_frames;
  return (rival_before != nullptr ? rival_before : _PyEval_EvalFrameDefault)(thread, frame, throwflag);
}

static PyObject* rival_hook(PyObject*, PyObject* on) {
  PyInterpreterState* interpreter = this_thread()->interp;
  if (on == Py_True && rival_before == nullptr) {
    rival_before = evaluator_of(interpreter);
    set_evaluator(interpreter, rival_evaluate);
  } else if (on == Py_False && rival_before != nullptr) {
    set_evaluator(interpreter, std::exchange(rival_before, nullptr));
  }
  return PyLong_FromLongLong(std::exchange(rival_frames, 0));
}

static PyObject* hook_is_set(PyObject*, PyObject*) {
  return PyBool_FromLong(evaluator_of(this_thread()->interp) != _PyEval_EvalFrameDefault);
}

bool init_frames(PyObject* module) {
  static PyMethodDef methods[] = {
      {"_interpret", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(interpret)),
       METH_VARARGS | METH_KEYWORDS,
       "_interpret(function, args=(), kwargs={}, *, deep=False, late=False, stop_after=-1, fail_after=-1): for tests."},
      {"_interpret_counts", interpret_counts, METH_NOARGS, "Counts since the last call: for tests."},
      {"_rival_hook", rival_hook, METH_O, "_rival_hook(on): a second frame hook; frames it saw since. For tests."},
      {"_hook_is_set", hook_is_set, METH_NOARGS, "Whether any frame hook is set now: for tests."},
      {nullptr, nullptr, 0, nullptr}};
  return init_hook() && init_step() && PyModule_AddFunctions(module, methods) == 0;
}

}  // namespace kintsugi
