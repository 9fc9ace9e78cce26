#include "runtime/observe.h"

#include <set>

#include "runtime/log.h"
#include "runtime/status.h"

namespace kintsugi {

Counters counters;
uint64_t foreign_runs = 0;

namespace {

using Reasons = std::map<std::string, int64_t>;
std::map<std::string, Reasons>& all_reasons() {
  static auto* reasons = new std::map<std::string, Reasons>;  // outlives every module's teardown
  return *reasons;
}

// Compiles since start_recording(), for explain(). Null: nobody listens.
PyObject* recording = nullptr;

std::string indented(const std::string& text) {
  std::string result;
  for (char c : text) {
    result += c;
    if (c == '\n') result += "    ";
  }
  return result;
}

// Line `number` of a file through linecache, without blanks around it. Empty when it cannot be had.
std::string source_line(const std::string& file, int number) {
  SavedError saved;
  Ref cache = import_module("linecache");
  Ref line(cache ? PyObject_CallMethod(cache.get(), "getline", "si", file.c_str(), number) : nullptr);
  Ref stripped(line ? PyObject_CallMethod(line.get(), "strip", nullptr) : nullptr);
  const char* text = stripped ? PyUnicode_AsUTF8(stripped.get()) : nullptr;
  std::string result = text == nullptr ? "" : text;
  forget_error();
  return result;
}

PyObject* list_of(const std::vector<std::string>& lines) {
  Ref list(PyList_New(0));
  for (const std::string& line : lines) {
    Ref text(PyUnicode_DecodeUTF8(line.data(), static_cast<Py_ssize_t>(line.size()), "replace"));
    if (!list || !text || PyList_Append(list.get(), text.get()) < 0) return nullptr;
  }
  return list.release();
}

}  // namespace

void forget_error() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (type != nullptr && PyErr_GivenExceptionMatches(type, PyExc_KeyboardInterrupt))
    PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), type);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
}

// What a handler of a signal has raised: the program gets it as soon as it goes on. Such handlers run in the main
// thread, and so do pending calls. Steals the references.
static void postpone_error(PyObject* type, PyObject* value, PyObject* traceback) {
  SavedError saved;
  PyErr_NormalizeException(&type, &value, &traceback);
  auto raise = [](void* error) {
    Ref raised(static_cast<PyObject*>(error));
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised.get())), raised.get());
    return -1;
  };
  if (Py_AddPendingCall(raise, value) < 0) Py_XDECREF(value);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
}

uint64_t modules_loaded = 0;

// A table that is made while tracing must not lack, ever after, what a signal has kept it from loading.
Ref import_module(const char* name) {
  Ref text(PyUnicode_FromString(name));
  auto load = [&] {
    return text ? PyImport_ImportModuleLevelObject(text.get(), nullptr, nullptr, nullptr, 0) : nullptr;
  };
  if (!Ref(text ? PyImport_GetModule(text.get()) : nullptr)) ++modules_loaded;
  Ref outermost(load());
  if (!outermost && is_of_a_handler(PyErr_Occurred()) && !PyErr_ExceptionMatches(PyExc_OSError)) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    outermost = Ref(load());
    postpone_error(type, value, traceback);
  }
  return Ref(outermost ? PyImport_GetModule(text.get()) : nullptr);
}

Ref finished_module(PyObject* name) {
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* found =
      modules == nullptr || !PyDict_CheckExact(modules) ? nullptr : PyDict_GetItemWithError(modules, name);
  PyErr_Clear();
  if (found == nullptr || !PyModule_CheckExact(found)) return Ref();
  PyObject* spec = PyDict_GetItemString(PyModule_GetDict(found), "__spec__");
  if (spec != nullptr && spec != Py_None) {
    Ref busy(PyObject_GetAttrString(spec, "_initializing"));
    PyErr_Clear();
    if (busy && busy.get() != Py_False) return Ref();
  }
  return Ref::share(found);
}

Ref finished_module(const char* name) {
  Ref text(PyUnicode_FromString(name));
  PyErr_Clear();
  return text ? finished_module(text.get()) : Ref();
}

UserLine parse_line(const std::string& text) {  // "file:line:function"; the file may hold colons
  UserLine result;
  size_t last = text.rfind(':');
  size_t middle = last == std::string::npos || last == 0 ? std::string::npos : text.rfind(':', last - 1);
  if (middle == std::string::npos) return {text, "", 0};
  result.file = text.substr(0, middle);
  result.line = std::atoi(text.substr(middle + 1, last - middle - 1).c_str());
  result.function = text.substr(last + 1);
  return result;
}

std::string source_line(const std::string& text) {
  UserLine line = parse_line(text);
  return source_line(line.file, line.line);
}

std::string stack_text(const std::vector<std::string>& stack) {
  std::string text;
  for (const std::string& entry : stack) {
    UserLine line = parse_line(entry);
    text += "  File \"" + line.file + "\", line " + std::to_string(line.line) + ", in " + line.function + "\n";
    std::string source = source_line(line.file, line.line);
    if (!source.empty()) text += "    " + source + "\n";
  }
  return text;
}

void count_reason(const char* heading, const std::string& text, int64_t times) {
  all_reasons()[heading][text] += times;
}

std::string message_of(const BreakRecord& record) {
  const BreakRow& facts = row(static_cast<BreakReason>(record.reason));
  std::string text = facts.type;
  text += "\n  Explanation: " + indented(record.explanation.empty() ? facts.explanation : record.explanation);
  std::string hints = facts.hints;
  for (size_t start = 0; start < hints.size();) {
    size_t end = std::min(hints.find('\n', start), hints.size());
    text += "\n  Hint: " + hints.substr(start, end - start);
    start = end + 1;
  }
  text += "\n\n  Developer debug context: " + indented(record.context) + "\n";
  return text;
}

std::string error_text(const BreakRecord& record) {
  return message_of(record) + "\nfrom user code:\n" + stack_text(record.stack) +
         "\nSet kt._dynamo.config.verbose to have every log record in full.";
}

// What a record says before the message.
static std::string introduction(const BreakRecord& record) {
  struct Row {
    const char *instruction, *what;
  };
  static constexpr Row kRows[] = {
      {"CALL", "a function call, e.g. f(x, y)"},
      {"CALL_KW", "a function call with keyword arguments, e.g. f(x, y=1)"},
      {"CALL_FUNCTION_EX", "a variadic function call, e.g. f(*args)"},
      {"STORE_ATTR", "an attribute store, e.g. o.name = x"},
      {"STORE_SUBSCR", "an item store, e.g. o[i] = x"},
      {"BINARY_SUBSCR", "an item load, e.g. o[i]"},
      {"COMPARE_OP", "a comparison, e.g. x < y"},
  };
  switch (static_cast<BreakReason>(record.reason)) {
    case BreakReason::k_data_branch:
    case BreakReason::k_object_branch: return "";
    case BreakReason::k_step_unsupported:
      return "Nothing can resume from this break: what precedes it is compiled, the rest of the function is skipped.\n";
    case BreakReason::k_skip_frame:
    case BreakReason::k_step_empty:
      return "This break cannot be handled gracefully: the function is skipped and runs eagerly.\n";
    default: break;
  }
  if (record.instruction.empty()) return "";
  std::string text = "Encountered graph break when attempting to trace " + record.instruction;
  for (const Row& row : kRows)
    if (record.instruction == row.instruction) text += std::string(": ") + row.what;
  return text + "\n";
}

static std::set<std::string>& shown_breaks() {
  static auto* shown = new std::set<std::string>;
  return *shown;
}
void forget_shown_breaks() { shown_breaks().clear(); }

void log_break(const BreakRecord& record, const std::vector<std::string>& callers,
               const std::vector<std::string>& recent) {
  count_reason("graph_break", message_of(record));
  switch (static_cast<BreakReason>(record.reason)) {  // those that are of no call
    case BreakReason::k_data_branch:
    case BreakReason::k_object_branch:
    case BreakReason::k_skip_frame:
    case BreakReason::k_step_unsupported:
    case BreakReason::k_step_empty:
    case BreakReason::k_raises: count_reason("unimplemented", message_of(record)); break;
    default: break;
  }
  if (!is_logged(LogKind::k_graph_breaks)) return;
  UserLine where = record.stack.empty() ? UserLine{} : parse_line(record.stack.back());
  std::string place = where.file + ":" + std::to_string(where.line);
  std::string chain = std::to_string(record.reason);
  for (const std::string& entry : record.stack) chain += "\n" + entry;
  if (!shown_breaks().insert(chain).second && !options.verbose) {
    write_record(LogKind::k_graph_breaks,
                 "Graph break (user stack suppressed, it is a duplicate) at " + place + "\n" + message_of(record));
    return;
  }
  std::string text = "Graph break in user code at " + place + "\nGraph Break Reason: " + introduction(record) +
                     message_of(record) + "User code traceback:\n" + stack_text(callers) + stack_text(record.stack);
  if (options.verbose)
    text += "This attempt may have begun in the middle of the function that was compiled.\nMost recent instructions:\n";
  for (const std::string& line : recent) text += "  " + line + "\n";
  write_record(LogKind::k_graph_breaks, text);
}

bool compiles_are_shown() {
  return recording != nullptr || is_logged(LogKind::k_guards) || is_logged(LogKind::k_graph) ||
         is_logged(LogKind::k_plan) || is_logged(LogKind::k_asm);
}

void note_compile(const CompileRecord& record) {
  if (recording == nullptr) return;
  SavedError saved;
  Ref graph(list_of(record.graph)), guards(list_of(record.guards));
  Ref stack(list_of(record.ended_by == nullptr ? std::vector<std::string>{} : record.ended_by->stack));
  std::string message = record.ended_by == nullptr ? "" : message_of(*record.ended_by);
  Ref entry(graph && guards && stack
                ? Py_BuildValue("{s:s,s:O,s:i,s:O,s:s,s:O,s:d,s:d,s:d,s:n}", "function", record.function.c_str(),
                                "graph", graph.get(), "tensor_ops", record.tensor_ops, "guards", guards.get(), "break",
                                message.c_str(), "stack", stack.get(), "trace_us", record.trace_us, "fuse_us",
                                record.fuse_us, "emit_us", record.emit_us, "code_bytes",
                                static_cast<Py_ssize_t>(record.code_bytes))
                : nullptr);
  if (!entry || PyList_Append(recording, entry.get()) < 0) PyErr_Clear();  // explain() shows less; the program runs on
}

// ---- Python's view -------------------------------------------------------------------------------------------------

namespace {

// counts(heading) -> dict of name to number
PyObject* counts(PyObject*, PyObject* heading) {
  const char* name = PyUnicode_AsUTF8(heading);
  if (name == nullptr) return nullptr;
  Ref result(PyDict_New());
  if (!result) return nullptr;
  auto add = [&](const std::string& key, int64_t value) {
    Ref number(PyLong_FromLongLong(value));
    Ref text(PyUnicode_DecodeUTF8(key.data(), static_cast<Py_ssize_t>(key.size()), "replace"));
    return number && text && PyDict_SetItem(result.get(), text.get(), number.get()) == 0;
  };
  if (std::string(name) == "native") {
#define KN_COUNTER(counter, ...) \
  if (!add(#counter, counters.counter)) return nullptr;
    KN_COUNTERS(KN_COUNTER)
#undef KN_COUNTER
    return result.release();
  }
  auto found = all_reasons().find(name);
  if (found == all_reasons().end()) return result.release();
  for (const auto& [text, number] : found->second)
    if (!add(text, number)) return nullptr;
  return result.release();
}

PyObject* headings(PyObject*, PyObject*) {
  std::vector<std::string> names = {"native"};
  for (const auto& [name, reasons] : all_reasons())
    if (!reasons.empty()) names.push_back(name);
  return list_of(names);
}

PyObject* clear_counts(PyObject*, PyObject*) {
  counters = {};
  all_reasons().clear();
  Py_RETURN_NONE;
}

PyObject* start_recording(PyObject*, PyObject*) {
  PyObject* fresh = PyList_New(0);
  if (fresh == nullptr) return nullptr;
  Py_XSETREF(recording, fresh);
  Py_RETURN_NONE;
}

PyObject* stop_recording(PyObject*, PyObject*) {
  if (recording == nullptr) return PyList_New(0);
  return std::exchange(recording, nullptr);
}

PyObject* log_sink = nullptr;

void tell_python(LogKind kind, const std::string& text) {
  ++foreign_runs;
  SavedError saved;
  Ref message(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
  Ref sink = Ref::share(log_sink);
  Ref done(message && sink
               ? PyObject_CallFunction(sink.get(), "sOs", name_of(kind), message.get(), RecordScope::current().c_str())
               : nullptr);
  if (!done) forget_error();  // a handler of the program's failed; what is compiled does not depend on it
}

PyObject* set_log_sink(PyObject*, PyObject* sink) {
  Py_XSETREF(log_sink, sink == Py_None ? nullptr : Py_NewRef(sink));
  record_sink = log_sink == nullptr ? nullptr : tell_python;
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"set_log_sink", set_log_sink, METH_O, "set_log_sink(f or None): f(kind, text, compile_id) gets the records"},
    {"counts", counts, METH_O, "counts(heading): the numbers under one heading, as a dict"},
    {"count_headings", headings, METH_NOARGS, "the headings that have numbers"},
    {"clear_counts", clear_counts, METH_NOARGS, "sets every number back to zero"},
    {"start_recording", start_recording, METH_NOARGS, "from now on every compile is recorded"},
    {"stop_recording", stop_recording, METH_NOARGS, "the recorded compiles, a list of dicts"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool init_observe(PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; }

}  // namespace kintsugi
