// Exception groups in the trace: made, asked, split; the two instructions of except*. As Objects/exceptions.c and
// Python/ceval.c of CPython 3.11 have it. Only groups that exist in the trace, of exceptions that do.
#include "jit/exceptions.h"

#include <algorithm>

#include "jit/containers.h"

namespace kintsugi {

using Values = std::vector<Value*>;

static PyTypeObject* base_group() { return as_type(PyExc_BaseExceptionGroup); }
static PyTypeObject* exception_group() {  // a heap type of the builtins
  static auto* type = as_type(PyDict_GetItemString(standard_builtins(), "ExceptionGroup"));
  return type;
}

bool is_group_type(PyTypeObject* type) { return type != nullptr && PyType_IsSubtype(type, base_group()); }
static bool is_traced_group(const Value* value) { return is_traced_exception(value) && is_group_type(value->type); }

Value* field_of_exception(const Value* exception, const char* name) {
  for (const auto& [key, value] : exception->entries)
    if (value != nullptr && PyUnicode_CompareWithASCIIString(key, name) == 0) return value;
  return nullptr;
}
// What BaseExceptionGroup keeps beside args; a recipe gives them to __new__.
bool is_field_of_group(PyObject* name) {
  return PyUnicode_CompareWithASCIIString(name, "message") == 0 ||
         PyUnicode_CompareWithASCIIString(name, "exceptions") == 0;
}

// ---- Making ---------------------------------------------------------------------------------------------------------

// BaseExceptionGroup.__new__(type, message, exceptions)
static Flow new_group(Tracer& t, PyTypeObject* type, Value* message, Value* exceptions, Value** out) {
  bool follows = type->tp_new == base_group()->tp_new && Py_TYPE(type) == &PyType_Type &&
                 type->tp_finalize == nullptr && type->tp_del == nullptr && t.ensure_version(type);
  std::vector<Value*>* items;
  message = t.force(message);
  exceptions = t.force(exceptions);
  bool sequence = exceptions->kind == ValueKind::kList || Tracer::is_exact_tuple(exceptions);
  if (!follows || type_of(message) != &PyUnicode_Type || !sequence || !t.list_items(exceptions, &items))
    return t.stop(BreakReason::k_call, type->tp_name);
  if (items->empty())
    return t.raise_text(PyExc_ValueError, "second argument (exceptions) must be a non-empty sequence", type->tp_name);
  bool nests_base = false;
  Values parts;
  for (size_t i = 0; i < items->size(); ++i) {
    Value* each = t.item_at(exceptions, i);
    if (!is_traced_exception(each)) return t.stop(BreakReason::k_call, "a group of what is not in the trace");
    nests_base = nests_base || !PyType_IsSubtype(each->type, as_type(PyExc_Exception));
    parts.push_back(each);
  }
  if (type == base_group() && !nests_base) type = exception_group();
  if (nests_base && PyType_IsSubtype(type, as_type(PyExc_Exception))) {
    t.guard_name(type);
    std::string text = "Cannot nest BaseExceptions in ";
    text += type == exception_group() ? "an ExceptionGroup" : "'" + std::string(type->tp_name).substr(0, 200) + "'";
    return t.raise_text(PyExc_TypeError, text, type->tp_name);
  }
  *out = t.new_exception(type, {message, exceptions});
  set_field(*out, "message", message);
  set_field(*out, "exceptions", Tracer::is_exact_tuple(exceptions) ? exceptions : t.tuple_of(std::move(parts)));
  return Flow::kGo;
}

// A call of a class of groups.
Flow Tracer::construct_group(PyTypeObject* type, std::vector<Value*>& arguments, PyObject* names) {
  Value* made = nullptr;
  if (names != nullptr || arguments.size() != 2) return stop(BreakReason::k_call, type->tp_name);
  if (Flow flow = new_group(*this, type, arguments[0], arguments[1], &made); flow != Flow::kGo) return flow;
  PyObject* init = _PyType_Lookup(made->type, interned.init);
  frame().stack.push_back(made);
  if (init != nullptr && Py_TYPE(init) == &PyFunction_Type) {
    arguments.insert(arguments.begin(), made);
    return inline_call(wrap_bound(init, std::string(made->type->tp_name) + ".__init__"), arguments, names,
                       ReturnRule::kInit);
  }
  if (init != nullptr && Py_TYPE(init) == &PyWrapperDescr_Type) return Flow::kGo;
  frame().stack.pop_back();
  return stop(BreakReason::k_call, type->tp_name);
}

// ---- Splitting ------------------------------------------------------------------------------------------------------

namespace {

// Whether this one, group or leaf, belongs to the match as a whole.
using Matcher = std::function<Flow(Value* exception, bool* matches)>;

// A group of some of its exceptions, with what it is known by; null: of none.
Flow subset(Tracer& t, Value* group, Values exceptions, Value** out) {
  *out = nullptr;
  if (exceptions.empty()) return Flow::kGo;
  Value* list = t.list_of(std::move(exceptions));
  static PyObject* const builtin = PyDict_GetItemString(base_group()->tp_dict, "derive");
  static PyObject* const name = PyUnicode_InternFromString("derive");
  PyObject* method = _PyType_Lookup(group->type, name);
  if (method == builtin) {
    Flow flow = new_group(t, base_group(), field_of_exception(group, "message"), list, out);
    if (flow != Flow::kGo) return flow;
  } else {
    if (method == nullptr || Py_TYPE(method) != &PyFunction_Type) return t.stop(BreakReason::k_call, "derive");
    Flow flow = t.call_now(t.wrap_bound(method, std::string(group->type->tp_name) + ".derive"), {group, list}, out);
    if (flow != Flow::kGo) return flow;
    if (!is_traced_group(*out)) return t.stop(BreakReason::k_call, "derive");
  }
  if (*out == group) return t.stop(BreakReason::k_call, "derive");
  changing_exception(t, *out);
  TracedException& told = *(*out)->exception;
  if (group->exception->traceback != nullptr) told.traceback = group->exception->traceback;
  told.code = group->exception->code;
  told.offset = group->exception->offset;
  told.suppress_context = true;
  (*out)->items[kContext] = group->items[kContext];
  (*out)->items[kCause] = group->items[kCause];
  if (Value* notes = field_of_exception(group, "__notes__")) {
    std::vector<Value*>* items;
    notes = t.force(notes);
    if (notes->kind != ValueKind::kList || !t.list_items(notes, &items))
      return t.stop(BreakReason::k_call, "notes of a group");
    Values copy;
    for (size_t i = 0; i < items->size(); ++i) copy.push_back(t.item_at(notes, i));
    set_field(*out, "__notes__", t.list_of(std::move(copy)));
  }
  return Flow::kGo;
}

Flow split(Tracer& t, Value* exception, const Matcher& matcher, bool wants_rest, Value** match, Value** rest) {
  bool matches = false;
  *match = *rest = nullptr;
  if (Flow flow = matcher(exception, &matches); flow != Flow::kGo) return flow;
  if (matches) return *match = exception, Flow::kGo;
  if (!is_group_type(exception->type)) {
    if (wants_rest) *rest = exception;
    return Flow::kGo;
  }
  Value* parts = field_of_exception(exception, "exceptions");
  std::vector<Value*>* items;
  if (parts == nullptr || !t.list_items(parts, &items)) return t.stop(BreakReason::k_call, "a group");
  Values matched, left;
  for (size_t i = 0; i < items->size(); ++i) {
    Value *in = nullptr, *out = nullptr;
    if (Flow flow = split(t, t.item_at(parts, i), matcher, wants_rest, &in, &out); flow != Flow::kGo) return flow;
    if (in != nullptr) matched.push_back(in);
    if (out != nullptr) left.push_back(out);
  }
  if (Flow flow = subset(t, exception, std::move(matched), match); flow != Flow::kGo) return flow;
  return wants_rest ? subset(t, exception, std::move(left), rest) : Flow::kGo;
}

// The classes that `except*` or split() name; false: it names something else.
bool classes_of(Tracer& t, Value* wanted, std::vector<PyTypeObject*>* classes) {
  std::vector<Value*>* items;
  Values all{t.force(wanted)};
  if (Tracer::is_exact_tuple(all[0])) {
    Value* tuple = all[0];
    if (!t.list_items(tuple, &items)) return false;
    all.clear();
    for (size_t i = 0; i < items->size(); ++i) all.push_back(t.item_at(tuple, i));
  }
  for (Value* each : all) {
    if (!each->is_constant() || !PyExceptionClass_Check(each->object)) return false;
    classes->push_back(as_type(each->object));
  }
  return true;
}

Matcher of_classes(Tracer& t, const std::vector<PyTypeObject*>& classes) {
  return [&t, &classes](Value* exception, bool* matches) {
    if (!t.ensure_version(exception->type)) return t.stop(BreakReason::k_instruction, "except*");
    for (PyTypeObject* each : classes) *matches = *matches || PyType_IsSubtype(exception->type, each);
    return Flow::kGo;
  };
}

void collect_leaves(Tracer& t, Value* exception, Values* leaves) {
  if (!is_group_type(exception->type)) return leaves->push_back(exception);
  Value* parts = field_of_exception(exception, "exceptions");
  std::vector<Value*>* items;
  if (parts == nullptr || !t.list_items(parts, &items)) throw Restart{};
  for (size_t i = 0; i < items->size(); ++i) collect_leaves(t, t.item_at(parts, i), leaves);
}

bool same_metadata(const Value* a, const Value* b) {
  return is_group_type(a->type) && a->exception->traceback == b->exception->traceback &&
         a->items[kCause] == b->items[kCause] && a->items[kContext] == b->items[kContext];
}

Value* or_none(Tracer& t, Value* value) { return value == nullptr ? t.none() : value; }

}  // namespace

// group.split(what), group.subgroup(what), group.derive(exceptions) where the class does not say otherwise
Flow Tracer::group_method(PyObject* callable, const std::vector<Value*>& arguments, PyObject* names, Value** out,
                          bool* handled) {
  if (Py_TYPE(callable) != &PyMethodDescr_Type || names != nullptr || arguments.size() != 2) return Flow::kGo;
  auto* method = reinterpret_cast<PyMethodDescrObject*>(callable);
  Value* self = force(arguments[0]);
  if (method->d_common.d_type != base_group() || !is_traced_group(self)) return Flow::kGo;
  std::string name = method->d_method->ml_name;
  *handled = true;
  if (name == "derive") return new_group(*this, base_group(), field_of_exception(self, "message"), arguments[1], out);
  if (name != "split" && name != "subgroup") return stop(BreakReason::k_call, name);
  std::vector<PyTypeObject*> classes;
  Value* wanted = force(arguments[1]);
  Matcher matcher;
  if (wanted->kind == ValueKind::kFunction) {
    matcher = [&](Value* exception, bool* matches) {
      Value* answer = nullptr;
      if (Flow flow = call_now(wanted, {exception}, &answer); flow != Flow::kGo) return flow;
      Next truth = truth_now(answer);
      *matches = truth == Next::kItem;
      return truth != Next::kUnknown ? Flow::kGo : ended_ ? Flow::kEnd : stop(BreakReason::k_call, name);
    };
  } else if (classes_of(*this, wanted, &classes)) {
    matcher = of_classes(*this, classes);
  } else {
    return stop(BreakReason::k_call, name);
  }
  Value *match = nullptr, *rest = nullptr;
  bool whole = name == "split";
  if (Flow flow = kintsugi::split(*this, self, matcher, whole, &match, &rest); flow != Flow::kGo) return flow;
  *out = whole ? tuple_of({or_none(*this, match), or_none(*this, rest)}) : or_none(*this, match);
  return Flow::kGo;
}

// ---- except* --------------------------------------------------------------------------------------------------------

// rest, classes -> rest of that, match
static Flow check_group_match(Tracer& t) {
  Values& stack = t.frame().stack;
  Value *wanted = t.force(stack.back()), *exception = t.force(stack[stack.size() - 2]);
  std::vector<PyTypeObject*> classes;
  if (!classes_of(t, wanted, &classes)) {
    bool known = wanted->is_constant() && !PyTuple_Check(wanted->object);
    return known ? t.raise_text(PyExc_TypeError,
                                "catching classes that do not inherit from BaseException is not allowed", "except*")
                 : t.stop(BreakReason::k_instruction, "except*");
  }
  for (PyTypeObject* each : classes)
    if (is_group_type(each))
      return t.raise_text(PyExc_TypeError, "catching ExceptionGroup with except* is not allowed. Use except instead.",
                          "except*");
  Value *match = nullptr, *rest = nullptr;
  bool is_none = exception->is_constant() && exception->object == Py_None;
  if (!is_none) {
    if (!is_traced_exception(exception)) return t.stop(BreakReason::k_instruction, "except*");
    static PyObject* const name = PyUnicode_InternFromString("split");  // what the instruction calls
    static PyObject* const builtin = PyDict_GetItemString(base_group()->tp_dict, "split");
    if (is_group_type(exception->type) &&
        (!t.ensure_version(exception->type) || _PyType_Lookup(exception->type, name) != builtin))
      return t.stop(BreakReason::k_instruction, "except* of a class with a split() of its own");
    Flow flow = split(t, exception, of_classes(t, classes), /*wants_rest=*/true, &match, &rest);
    if (flow != Flow::kGo) return flow;
    if (match == exception && !is_group_type(exception->type)) {  // a naked one
      if (flow =
              new_group(t, base_group(), t.constant_owned(PyUnicode_FromString("")), t.tuple_of({exception}), &match);
          flow != Flow::kGo)
        return flow;
      match->exception->code = exception->exception->code;
      match->exception->offset = exception->exception->offset;
    }
  }
  Values& now = t.frame().stack;
  now.resize(now.size() - 2);
  now.push_back(or_none(t, rest));
  now.push_back(or_none(t, match));
  if (match == nullptr) return Flow::kGo;
  t.changing(match);
  t.handled_ = match;
  return Flow::kGo;
}

// original, list of what was raised and what is left -> what is to be raised, or None
static Flow prepare_reraise(Tracer& t) {
  Values& stack = t.frame().stack;
  Value *list = t.force(stack.back()), *original = t.force(stack[stack.size() - 2]);
  std::vector<Value*>* items;
  if (!is_traced_exception(original) || list->kind != ValueKind::kList || !t.list_items(list, &items))
    return t.stop(BreakReason::k_instruction, "except*");
  Values all;
  for (size_t i = 0; i < items->size(); ++i) {
    Value* each = t.item_at(list, i);
    bool is_none = each->is_constant() && each->object == Py_None;
    if (!is_none && !is_traced_exception(each)) return t.stop(BreakReason::k_instruction, "except*");
    all.push_back(is_none ? nullptr : each);
  }
  Value* result = nullptr;
  if (!is_group_type(original->type)) {
    if (!all.empty()) result = all[0];
  } else {
    Values raised, leaves;
    for (Value* each : all) {
      if (each == nullptr) continue;
      if (same_metadata(each, original))
        collect_leaves(t, each, &leaves);
      else
        raised.push_back(each);
    }
    Value* ignored = nullptr;
    Matcher is_kept = [&](Value* exception, bool* matches) {
      *matches = !is_group_type(exception->type) && std::find(leaves.begin(), leaves.end(), exception) != leaves.end();
      return Flow::kGo;
    };
    if (!leaves.empty())
      if (Flow flow = split(t, original, is_kept, /*wants_rest=*/false, &result, &ignored); flow != Flow::kGo)
        return flow;
    if (!raised.empty()) {
      if (result != nullptr) raised.push_back(result);
      result = raised[0];
      if (raised.size() > 1) {
        TracedException told = *original->exception;
        Value* text = t.constant_owned(PyUnicode_FromString(""));
        if (Flow flow = new_group(t, base_group(), text, t.list_of(std::move(raised)), &result); flow != Flow::kGo)
          return flow;
        result->exception->code = told.code;
        result->exception->offset = told.offset;
      }
    }
  }
  Values& now = t.frame().stack;
  now.resize(now.size() - 2);
  now.push_back(or_none(t, result));
  return Flow::kGo;
}

Flow Tracer::group_step(const Instruction& in) {
  return in.opcode == Opcode::k_CHECK_EG_MATCH ? check_group_match(*this) : prepare_reraise(*this);
}

}  // namespace kintsugi
