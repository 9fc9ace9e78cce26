#include "runtime/marks.h"

#include <unordered_map>

#include "jit/death.h"
#include "runtime/control.h"
#include "runtime/hook.h"
#include "runtime/options.h"
#include "runtime/tensor.h"

namespace kintsugi {

bool error_on_graph_break = false;

namespace {

// ---- The table -----------------------------------------------------------------------------------------------------
// By identity. An object that dies takes its marks with it: a new one at the same address has none.

struct Marks {
  bool forbidden = false, disallowed = false;
  MarkKind kind = MarkKind::kNone;  // beside the two above
  BreakReason reason{};
  PyObject* other = nullptr;  // owned: what is traced instead
  PyObject* weak = nullptr;   // owned; null: the object takes none and is held itself
  PyObject* alike = nullptr;  // borrowed: its code object, or its class
};
struct Table {
  std::unordered_map<PyObject*, Marks> marks;
  std::unordered_map<PyObject*, int> alike;
};
Table& table() {
  static auto* all = new Table;
  return *all;
}

PyObject* what_guards_see(PyObject* object) {
  return PyFunction_Check(object) ? reinterpret_cast<PyFunctionObject*>(object)->func_code
                                  : reinterpret_cast<PyObject*>(Py_TYPE(object));
}

void object_died(void* object) {
  auto found = table().marks.find(static_cast<PyObject*>(object));
  if (found == table().marks.end()) return;
  Marks marks = found->second;
  table().marks.erase(found);
  if (auto count = table().alike.find(marks.alike); count != table().alike.end() && --count->second == 0)
    table().alike.erase(count);
  Py_XDECREF(marks.weak);
  Py_XDECREF(marks.other);
}

// Null with an exception.
Marks* marks_for(PyObject* object) {
  auto found = table().marks.find(object);
  if (found != table().marks.end()) return &found->second;
  Marks fresh;
  Ref death(make_death_callback(&object_died, object, /*quiet=*/false));
  if (!death) return nullptr;
  fresh.weak = PyWeakref_NewRef(object, death.get());
  if (fresh.weak == nullptr) {
    PyErr_Clear();
    Py_INCREF(object);
  }
  fresh.alike = what_guards_see(object);
  ++table().alike[fresh.alike];
  return &(table().marks[object] = fresh);
}

// ---- Functions that a trace knows ----------------------------------------------------------------------------------

thread_local int compiling_depth = 0;

// Told apart by their addresses.
PyObject* graph_break(PyObject*, PyObject*, PyObject*) { Py_RETURN_NONE; }
PyObject* skip_frame(PyObject*, PyObject*, PyObject*) { Py_RETURN_NONE; }
PyObject* step_unsupported(PyObject*, PyObject*, PyObject*) { Py_RETURN_NONE; }
PyObject* opaque(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return Py_NewRef(count > 0 ? args[0] : Py_None);
}
PyObject* is_compiling(PyObject*, PyObject*) { return PyBool_FromLong(compiling_depth > 0); }
PyObject* is_dynamo_compiling(PyObject*, PyObject*) { Py_RETURN_FALSE; }
PyObject* is_exporting(PyObject*, PyObject*) { Py_RETURN_FALSE; }
PyObject* is_in_region(PyObject*, PyObject*) { return PyBool_FromLong(is_capturing()); }

PyObject* set_error_on_graph_break(PyObject*, PyObject* value) {
  int wanted = PyObject_IsTrue(value);
  if (wanted < 0) return nullptr;
  return PyBool_FromLong(std::exchange(error_on_graph_break, wanted != 0));
}

// swap_option(name, value): sets a setting that is True or False, answers what it was.
PyObject* swap_option(PyObject*, PyObject* args) {
  const char* name;
  int value;
  bool before = false;
  std::string error;
  if (!PyArg_ParseTuple(args, "sp", &name, &value)) return nullptr;
  if (get_option(name, &before) && set_option(name, value, &error)) return PyBool_FromLong(before);
  return PyErr_Format(PyExc_ValueError, "no switch is called '%s'", name);
}

template <class Function>
PyCFunction as_method(Function function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function));
}

// ---- Python's side -------------------------------------------------------------------------------------------------

struct Name {
  const char* name;
  MarkKind kind;
  BreakReason reason;
};
constexpr Name kNames[] = {
    {"allowed", MarkKind::kOpaque, {}},
    {"nonstrict", MarkKind::kNonstrict, {}},
    {"makes_nonstrict", MarkKind::kMakesNonstrict, {}},
    {"printed", MarkKind::kPrinted, {}},
    {"cond", MarkKind::kCond, {}},
    {"without_effect", MarkKind::kWithoutEffect, {}},
    {"constant_result", MarkKind::kConstantResult, {}},
    {"substituted", MarkKind::kSubstituted, {}},
    {"disable_called", MarkKind::kBreak, BreakReason::k_disable_called},
    {"marks_called", MarkKind::kBreak, BreakReason::k_marks_called},
};

// mark(object, name, other=None): name is forbidden, disallowed, not_disallowed or one of the above.
PyObject* mark(PyObject*, PyObject* args) {
  PyObject *object, *other = nullptr;
  const char* name;
  if (!PyArg_ParseTuple(args, "Os|O", &object, &name, &other)) return nullptr;
  Marks* marks = marks_for(object);
  if (marks == nullptr) return nullptr;
  std::string wanted = name;
  if (wanted == "forbidden") {
    marks->forbidden = true;
    Py_RETURN_NONE;
  }
  if (wanted == "disallowed" || wanted == "not_disallowed") {
    marks->disallowed = wanted == "disallowed";
    Py_RETURN_NONE;
  }
  if (wanted == "allowed") marks->disallowed = false;
  for (const Name& each : kNames) {
    if (wanted != each.name) continue;
    marks->kind = each.kind;
    marks->reason = each.reason;
    Py_XSETREF(marks->other, Py_XNewRef(other));
    Py_RETURN_NONE;
  }
  return PyErr_Format(PyExc_ValueError, "no mark is called '%s'", name);
}

// marks(object) -> set of names
PyObject* marks_of(PyObject*, PyObject* object) {
  Ref names(PySet_New(nullptr));
  auto found = table().marks.find(object);
  if (!names || found == table().marks.end()) return names.release();
  auto add = [&](const char* name) {
    Ref text(PyUnicode_FromString(name));
    return text && PySet_Add(names.get(), text.get()) == 0;
  };
  if (found->second.forbidden && !add("forbidden")) return nullptr;
  if (found->second.disallowed && !add("disallowed")) return nullptr;
  for (const Name& each : kNames)
    if (found->second.kind == each.kind && found->second.kind != MarkKind::kNone &&
        found->second.reason == each.reason && !add(each.name))
      return nullptr;
  return names.release();
}

// same_layout(a, b, dynamic): of two tensors; dynamic: their dtypes, ranks and gradients only.
PyObject* same_layout(PyObject*, PyObject* args) {
  PyObject *a, *b;
  int dynamic;
  if (!PyArg_ParseTuple(args, "O!O!p", &TensorType, &a, &TensorType, &b, &dynamic)) return nullptr;
  const Layout *left = as_tensor(a)->layout, *right = as_tensor(b)->layout;
  bool alike = left->dtype == right->dtype && left->rank == right->rank && left->gradients == right->gradients;
  return PyBool_FromLong(left == right || (dynamic && alike));
}

PyObject* same_memory(PyObject*, PyObject* args) {
  PyObject *a, *b;
  if (!PyArg_ParseTuple(args, "O!O!", &TensorType, &a, &TensorType, &b)) return nullptr;
  return PyBool_FromLong(as_tensor(a)->buffer == as_tensor(b)->buffer);
}

// mark_sizes(tensor, dynamic, static): bits to add, a dimension each; dynamic ones win. () -> (dynamic, static) now.
PyObject* mark_sizes(PyObject*, PyObject* args) {
  PyObject* object;
  int dynamic = 0, fixed = 0;
  if (!PyArg_ParseTuple(args, "O!ii", &TensorType, &object, &dynamic, &fixed)) return nullptr;
  TensorObject* tensor = as_tensor(object);
  auto all_dynamic = static_cast<uint8_t>(tensor->layout->marked_dynamic | dynamic);
  auto all_fixed = static_cast<uint8_t>((tensor->layout->marked_static | fixed) & ~all_dynamic);
  Layout* marked = intern_marked(*tensor->layout, all_dynamic, all_fixed);
  release(std::exchange(tensor->layout, marked));
  return Py_BuildValue("ii", all_dynamic, all_fixed);
}

// set_logging_sets(reorderable, ignored): the sets of kt._dynamo.config.
PyObject *reorderable = nullptr, *ignored = nullptr;
PyObject* set_logging_sets(PyObject*, PyObject* args) {
  PyObject *a, *b;
  if (!PyArg_ParseTuple(args, "O!O!", &PySet_Type, &a, &PySet_Type, &b)) return nullptr;
  Py_XSETREF(reorderable, Py_NewRef(a));
  Py_XSETREF(ignored, Py_NewRef(b));
  Py_RETURN_NONE;
}
// As `==` on functions and methods, but no __hash__ or __eq__ of the program's is asked.
bool is_same(PyObject* one, PyObject* other) {
  if (one == other) return true;
  if (PyMethod_Check(one) && PyMethod_Check(other))
    return PyMethod_GET_SELF(one) == PyMethod_GET_SELF(other) &&
           PyMethod_GET_FUNCTION(one) == PyMethod_GET_FUNCTION(other);
  return PyCFunction_CheckExact(one) && PyCFunction_CheckExact(other) &&
         PyCFunction_GET_SELF(one) == PyCFunction_GET_SELF(other) &&
         PyCFunction_GET_FUNCTION(one) == PyCFunction_GET_FUNCTION(other);
}
bool is_member(PyObject* set, PyObject* callable) {
  if (set == nullptr || PySet_GET_SIZE(set) == 0) return false;
  PyObject* member;
  Py_hash_t hash;
  for (Py_ssize_t at = 0; _PySet_NextEntry(set, &at, &member, &hash);)
    if (is_same(member, callable)) return true;
  return false;
}

PyObject* is_operator(PyObject*, PyObject* callable) { return PyBool_FromLong(find_row(callable) != nullptr); }

PyMethodDef methods[] = {
    {"same_layout", same_layout, METH_VARARGS, "same_layout(a, b, dynamic): whether two tensors are laid out alike"},
    {"same_memory", same_memory, METH_VARARGS, "same_memory(a, b): whether two tensors lie in one buffer"},
    {"mark_sizes", mark_sizes, METH_VARARGS, "mark_sizes(tensor, dynamic, static): see kt._dynamo.mark_dynamic"},
    {"set_logging_sets", set_logging_sets, METH_VARARGS, "set_logging_sets(reorderable, ignored)"},
    {"is_operator", is_operator, METH_O, "whether a call of it is an operation of a graph"},
    {"graph_break", as_method(graph_break), METH_VARARGS | METH_KEYWORDS,
     "graph_break(msg=\"\")\n--\n\nA break that the program asks for: what comes before and after is compiled apart.\n"
     "Outside of compiled code it does nothing. `graph_break(\"read the sensor\")`"},
    {"skip_frame", as_method(skip_frame), METH_VARARGS | METH_KEYWORDS,
     "skip_frame(msg=\"\")\n--\n\nThe function that calls it runs as plain Python from now on; what that calls is "
     "compiled."},
    {"step_unsupported", as_method(step_unsupported), METH_VARARGS | METH_KEYWORDS,
     "step_unsupported(msg=\"\")\n--\n\nThe rest of the function runs as plain Python."},
    {"opaque", as_method(opaque), METH_FASTCALL,
     "opaque(*args)\n--\n\nAn empty C function without a model: calling it is a break. Returns its first argument or "
     "None."},
    {"is_compiling", is_compiling, METH_NOARGS, "is_compiling()\n--\n\nTrue in code that is being compiled."},
    {"is_dynamo_compiling", is_dynamo_compiling, METH_NOARGS,
     "is_dynamo_compiling()\n--\n\nTrue in code that is being traced; False in a backend."},
    {"is_exporting", is_exporting, METH_NOARGS, "is_exporting()\n--\n\nTrue while a graph is being exported."},
    {"is_in_region", is_in_region, METH_NOARGS, "whether frames of this thread are captured"},
    {"set_error_on_graph_break", set_error_on_graph_break, METH_O,
     "set_error_on_graph_break(value): sets the flag, answers what it was"},
    {"swap_option", swap_option, METH_VARARGS, "swap_option(name, value): sets a switch, answers what it was"},
    {"mark", mark, METH_VARARGS, "mark(object, name, other=None): see kt._dynamo.decorators"},
    {"marks", marks_of, METH_O, "marks(object): the names of its marks"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool any_log_roles() { return reorderable != nullptr && PySet_GET_SIZE(reorderable) + PySet_GET_SIZE(ignored) > 0; }

LogRole log_role(Borrowed callable, Borrowed self) {
  Ref method(self == nullptr ? nullptr : PyMethod_New(callable, self));
  bool reorders = is_member(reorderable, callable) || (method && is_member(reorderable, method.get()));
  bool ignores = is_member(ignored, callable) || (method && is_member(ignored, method.get()));
  bool is_method = method && (is_member(ignored, method.get()) || is_member(reorderable, method.get()));
  if (ignores && (!reorders || is_method)) return LogRole::kIgnored;
  return reorders ? LogRole::kReorderable : LogRole::kNone;
}

Mark mark_of(Borrowed callable) {
  Mark mark;
  if (PyCFunction_Check(callable)) {
    PyCFunction meaning = PyCFunction_GET_FUNCTION(callable);
    auto breaks = [&](BreakReason reason) {
      mark.kind = MarkKind::kBreak;
      mark.reason = reason;
      return mark;
    };
    auto answers = [&](PyObject* answer) {
      mark.kind = MarkKind::kAnswer;
      mark.object = answer;
      return mark;
    };
    if (meaning == as_method(graph_break)) return breaks(BreakReason::k_graph_break);
    if (meaning == as_method(skip_frame)) return breaks(BreakReason::k_skip_frame);
    if (meaning == as_method(step_unsupported)) return breaks(BreakReason::k_step_unsupported);
    if (meaning == as_method(opaque)) return breaks(BreakReason::k_opaque);
    if (meaning == is_compiling || meaning == is_dynamo_compiling) return answers(Py_True);
    if (changes_grad_mode(meaning)) {
      mark.kind = MarkKind::kSetGrad;
      return mark;
    }
    if (PyObject * answer; reads_grad_mode(meaning, 0, &answer)) {
      mark.kind = MarkKind::kReadGrad;
      return mark;
    }
    if (meaning == is_exporting) {
      mark.kind = MarkKind::kIsExporting;
      return mark;
    }
    if (meaning == swap_option) {
      mark.kind = MarkKind::kSwapOption;
      return mark;
    }
    if (meaning == set_error_on_graph_break) {
      mark.kind = MarkKind::kSetStrict;
      return mark;
    }
  } else if (disabled_mark(callable, &mark)) {
    auto found = table().marks.find(callable);
    if (found == table().marks.end() || (found->second.kind == MarkKind::kNone && !found->second.forbidden))
      return mark;
    mark = {};
  }
  auto found = table().marks.find(callable);
  if (found == table().marks.end()) return mark;
  const Marks& marks = found->second;
  if (marks.forbidden) {
    mark.kind = MarkKind::kForbidden;
  } else if (marks.disallowed) {
    mark.kind = MarkKind::kBreak;
    mark.reason = BreakReason::k_disallowed;
    Ref name(PyObject_GetAttrString(callable, "__qualname__"));
    const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
    mark.context = text == nullptr ? "a callable" : text;
    PyErr_Clear();
  } else {
    mark.kind = marks.kind;
    mark.reason = marks.reason;
    mark.object = marks.other;
  }
  return mark;
}

bool marks_look_alike(Borrowed callable) {
  return !table().alike.empty() && table().alike.count(what_guards_see(callable)) != 0;
}

CompilingScope::CompilingScope() { ++compiling_depth; }
CompilingScope::~CompilingScope() { --compiling_depth; }

bool init_marks(PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; }

}  // namespace kintsugi
