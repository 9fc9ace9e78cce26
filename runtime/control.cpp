#include "runtime/control.h"

#include "runtime/backends.h"
#include "runtime/hook.h"
#include "runtime/log.h"
#include "runtime/marks.h"
#include "runtime/observe.h"
#include "runtime/wrapper.h"

namespace kintsugi {

TracePolicy trace_policy(const Policy& policy) {
  TracePolicy result;
  result.fullgraph = policy.fullgraph;
  result.strict = error_on_graph_break;
  result.capture_scalars = policy.fullgraph || options.capture_scalar_outputs;
  result.capture_shapes = policy.fullgraph || options.capture_dynamic_output_shape_ops;
  result.pure = policy.isolation == kPure || policy.isolation == kExportedBranch;
  result.in_export = policy.isolation == kExport || policy.isolation == kExportedBranch;
  if (policy.isolation == kExport) {
    result.exporting = true;
    result.unroll_limit = 10000;
    result.instruction_limit = 1000000;
  }
  result.dynamic = policy.dynamic < 0 && !options.assume_static_by_default ? 1 : policy.dynamic;
  result.inline_calls = !options.break_everywhere || policy.fullgraph;
  result.break_everywhere = options.break_everywhere && !policy.fullgraph;
  result.fuse = !options.no_fuse;
  result.describe = compiles_are_shown();
  result.exact_locals = options.exact_locals;
  result.watched = policy.watched;
  return result;
}

StanceSetting stance_setting;
static thread_local Governing governing_now;
const Governing& governing() { return governing_now; }
GoverningScope::GoverningScope(const Governing& now) : before_(std::exchange(governing_now, now)) {}
GoverningScope::~GoverningScope() { governing_now = before_; }

namespace {

// ---- disable -------------------------------------------------------------------------------------------------------

struct Disabled {
  Wrapper wrapper;
  PyObject* reason;  // str, or null
  bool recursive;
};
PyTypeObject* disabled_type = nullptr;
Disabled* as_disabled(PyObject* object) { return reinterpret_cast<Disabled*>(object); }

// Nothing below the call is captured, except through compiled functions of its own. Not recursive: the function is a
// copy whose code object is marked (see kt.compiler.disable), and what it calls is captured as usual.
PyObject* call_disabled(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  Ref function = Ref::share(as_disabled(self)->wrapper.function);
  CaptureScope scope(is_capturing() && !as_disabled(self)->recursive);
  return PyObject_Vectorcall(function.get(), args, nargsf, kwnames);
}

void release_disabled(Wrapper* wrapper) { Py_CLEAR(reinterpret_cast<Disabled*>(wrapper)->reason); }

PyObject* rebuild_disabled(Wrapper* wrapper) {
  auto* self = reinterpret_cast<Disabled*>(wrapper);
  Ref module = import_module("kintsugi.compiler");
  Ref function(module ? PyObject_GetAttrString(module.get(), "disable") : nullptr);
  return function ? Py_BuildValue("O(OO)", function.get(), original_of(wrapper), self->recursive ? Py_True : Py_False)
                  : nullptr;
}

const WrapperKind disabled_kind = {"kintsugi._runtime._driver.DisabledFunction",
                                   sizeof(Disabled),
                                   "A function that runs as plain Python wherever it is called from.",
                                   "disabled",
                                   release_disabled,
                                   rebuild_disabled};

// make_disabled(callable, recursive, reason, original=callable) -> DisabledFunction
PyObject* make_disabled(PyObject*, PyObject* args) {
  PyObject *callable, *reason, *original = nullptr;
  int recursive;
  if (!PyArg_ParseTuple(args, "OpO|O", &callable, &recursive, &reason, &original)) return nullptr;
  auto* made = reinterpret_cast<Disabled*>(make_wrapper(disabled_type, callable, call_disabled, original));
  if (made == nullptr) return nullptr;
  made->recursive = recursive != 0;
  made->reason = reason == Py_None ? nullptr : Py_NewRef(reason);
  return reinterpret_cast<PyObject*>(made);
}

PyObject* stands_for(PyObject*, PyObject* callable) {
  bool is_wrapper = Py_TYPE(callable) == disabled_type || compiled_target(callable) != nullptr;
  return Py_NewRef(is_wrapper ? original_of(reinterpret_cast<Wrapper*>(callable)) : Py_None);
}

PyObject* skip_code(PyObject*, PyObject* code) {
  if (!PyCode_Check(code)) return PyErr_Format(PyExc_TypeError, "skip_code() takes a code object, not %R", code);
  CodeRecord* record = record_of(reinterpret_cast<PyCodeObject*>(code));
  if (record == nullptr) return nullptr;
  record->skipped = true;
  Py_RETURN_NONE;
}

PyObject* disabled_facts(PyObject*, PyObject* callable) {
  if (Py_TYPE(callable) != disabled_type) Py_RETURN_NONE;
  Disabled* self = as_disabled(callable);
  return Py_BuildValue("OOO", self->wrapper.function, self->recursive ? Py_True : Py_False,
                       self->reason == nullptr ? Py_None : self->reason);
}

// ---- Stances -------------------------------------------------------------------------------------------------------

// set_stance(number, backend or None) -> (number, backend) that were in force
PyObject* set_stance(PyObject*, PyObject* args) {
  int number;
  PyObject* backend;
  if (!PyArg_ParseTuple(args, "iO", &number, &backend)) return nullptr;
  PyObject* forced = backend_object(stance_setting.backend);
  Ref before(Py_BuildValue("iO", static_cast<int>(stance_setting.stance), forced == nullptr ? Py_None : forced));
  if (!before) return nullptr;
  int32_t old = std::exchange(stance_setting, {static_cast<Stance>(number), use_backend(backend)}).backend;
  options.stanced = stance_setting.stance == Stance::kForceEager || stance_setting.backend != 0;
  update_indirect();
  drop_backend(old);
  return before.release();
}

// ---- Settings ------------------------------------------------------------------------------------------------------

PyObject* set_option_method(PyObject*, PyObject* args) {
  const char* name;
  long long value;
  if (!PyArg_ParseTuple(args, "sL", &name, &value)) return nullptr;
  std::string error;
  if (set_option(name, value, &error)) Py_RETURN_NONE;
  PyErr_SetString(error.find("no setting") == std::string::npos ? PyExc_ValueError : PyExc_AttributeError,
                  error.c_str());
  return nullptr;
}

// settings() -> {name: (value, meaning)}
PyObject* settings(PyObject*, PyObject*) {
  Ref result(PyDict_New());
  if (!result) return nullptr;
  auto add = [&](const char* name, PyObject* stolen, const char* meaning) {
    Ref value(stolen);
    Ref pair(value ? Py_BuildValue("Os", value.get(), meaning) : nullptr);
    return pair && PyDict_SetItemString(result.get(), name, pair.get()) == 0;
  };
  auto object_of = [](auto value) {
    if constexpr (std::is_same_v<decltype(value), bool>)
      return PyBool_FromLong(value);
    else
      return PyLong_FromLong(value);
  };
#define KN_OPTION(type, name, value, meaning) \
  if (!add(#name, object_of(options.name), meaning)) return nullptr;
  KN_OPTIONS(KN_OPTION)
#undef KN_OPTION
  return result.release();
}

PyObject* set_logs_method(PyObject*, PyObject* names) {
  const char* text = PyUnicode_AsUTF8(names);
  if (text == nullptr) return nullptr;
  std::string error;
  if (set_logs(text, &error)) Py_RETURN_NONE;
  PyErr_SetString(PyExc_ValueError, error.c_str());
  return nullptr;
}

PyObject* reset(PyObject*, PyObject*) {
  reset_entries();
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"make_disabled", make_disabled, METH_VARARGS,
     "make_disabled(callable, recursive, reason, original=callable): see kt.compiler.disable"},
    {"stands_for", stands_for, METH_O, "what a wrapper stands in for; None for any other object"},
    {"disabled_facts", disabled_facts, METH_O, "(function, recursive, reason) of a disabled function, else None"},
    {"skip_code", skip_code, METH_O, "skip_code(code): its own frames are never captured; what it calls is"},
    {"set_stance", set_stance, METH_VARARGS, "set_stance(number, backend or None): see kt.compiler.set_stance"},
    {"set_option", set_option_method, METH_VARARGS, "set_option(name, value): see kt._dynamo.config"},
    {"settings", settings, METH_NOARGS, "name to (value, meaning) of every setting"},
    {"set_logs", set_logs_method, METH_O, "set_logs(\"name,name\"): which records go to stderr"},
    {"reset", reset, METH_NOARGS, "reset()\n--\n\nDrops every compiled segment and what was learnt. Safe at any time."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool is_disabled(Borrowed callable) { return Py_TYPE(callable) == disabled_type; }

bool disabled_mark(Borrowed callable, Mark* mark) {
  if (Py_TYPE(callable) != disabled_type) return false;
  const Disabled* self = as_disabled(callable);
  PyObject* function = self->wrapper.function;
  auto text_of = [](PyObject* object) {
    const char* text = object != nullptr && PyUnicode_Check(object) ? PyUnicode_AsUTF8(object) : nullptr;
    PyErr_Clear();  // a lone surrogate
    return std::string(text == nullptr ? "" : text);
  };
  mark->kind = MarkKind::kBreak;
  mark->reason = self->recursive ? BreakReason::k_disabled : BreakReason::k_disabled_frame;
  mark->context = PyFunction_Check(function) ? text_of(reinterpret_cast<PyFunctionObject*>(function)->func_qualname)
                                             : Py_TYPE(function)->tp_name;
  std::string reason = text_of(self->reason);
  mark->context += " is wrapped with kt.compiler.disable, reason: " + (reason.empty() ? "None" : reason);
  return true;
}

bool init_control(PyObject* module) {
  disabled_type = make_wrapper_type(&disabled_kind);
  if (disabled_type == nullptr || PyModule_AddType(module, disabled_type) < 0) return false;
  const std::pair<const char*, int> numbers[] = {
      {"FLAT", static_cast<int>(AnswerForm::kFlat)},
      {"TREE", static_cast<int>(AnswerForm::kTree)},
      {"BRANCH", static_cast<int>(AnswerForm::kBranch)},
      {"PURE", kPure},
      {"EXPORT", kExport},
      {"EXPORTED_BRANCH", kExportedBranch},
  };
  for (auto [name, number] : numbers)
    if (PyModule_AddIntConstant(module, name, number) < 0) return false;
  return PyModule_AddFunctions(module, methods) == 0;
}

}  // namespace kintsugi
