// Exceptions in the trace: made, raised, passed from frame to frame to a handler, looked at, all without an object.
// What of it has to exist at an exit is built there, with the traceback that it would have (Exit::raised). Where that
// cannot be, because a frame it passed through is gone, the raise is a break from the start: it really happens then.
#include <algorithm>
#include <cstring>

#include "jit/tracer_core.h"
#include "runtime/frame.h"

#include <structmember.h>

namespace kintsugi {

enum Part : size_t { kArgs, kCause, kContext, kPartCount };  // Value::items of an exception

static PyTypeObject* as_type(PyObject* object) { return reinterpret_cast<PyTypeObject*>(object); }
static bool is_traced_exception(const Value* value) { return value->exception != nullptr && !value->is_real(); }

// ---- Making
// ----------------------------------------------------------------------------------------------------------

// BaseException.__new__ makes it, and its fields are those that init_exception knows.
static bool is_modelled(PyTypeObject* type) {
  if (!PyType_IsSubtype(type, as_type(PyExc_BaseException)) || Py_TYPE(type) != &PyType_Type) return false;
  return type->tp_new == as_type(PyExc_BaseException)->tp_new && type->tp_finalize == nullptr &&
         type->tp_del == nullptr && !PyType_HasFeature(type, Py_TPFLAGS_IS_ABSTRACT) &&
         type->tp_basicsize <= static_cast<Py_ssize_t>(sizeof(PyImportErrorObject) + 4 * sizeof(PyObject*));
}

Value* Tracer::new_exception(PyTypeObject* type, std::vector<Value*> arguments) {
  Value* made = make(ValueKind::kObject);
  made->type = type;
  made->items.assign(kPartCount, nullptr);
  made->items[kArgs] = tuple_of(std::move(arguments));
  exceptions_.emplace_back();
  made->exception = &exceptions_.back();
  return made;
}

static void set_field(Value* exception, const char* name, Value* value) {
  for (auto& [key, held] : exception->entries) {
    if (PyUnicode_CompareWithASCIIString(key, name) != 0) continue;
    held = value;
    return;
  }
  exception->entries.emplace_back(PyUnicode_InternFromString(name), value);  // interned for good: few and short
}

// tp_init of an exception class, as `init` (what a class's __init__ wraps) does it. False: not followed.
static bool init_exception(Tracer& t, void* init, Value* self, const std::vector<Value*>& arguments, PyObject* names) {
  auto is_init_of = [&](PyObject* type) { return init == reinterpret_cast<void*>(as_type(type)->tp_init); };
  size_t keywords = names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names));
  std::vector<Value*> positional(arguments.begin(), arguments.end() - static_cast<std::ptrdiff_t>(keywords));
  std::vector<const char*> known;
  if (is_init_of(PyExc_AttributeError)) known = {"name", "obj"};
  if (is_init_of(PyExc_NameError)) known = {"name"};
  bool is_stop = is_init_of(PyExc_StopIteration), is_exit = is_init_of(PyExc_SystemExit);
  if (known.empty() && !is_stop && !is_exit && !is_init_of(PyExc_BaseException)) return false;
  std::vector<std::pair<const char*, Value*>> fields;
  for (const char* name : known) fields.emplace_back(name, nullptr);
  for (size_t k = 0; k < keywords; ++k) {
    bool found = false;
    for (auto& [name, value] : fields) {
      if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(k)), name) != 0) continue;
      value = arguments[positional.size() + k];
      found = true;
    }
    if (!found) return false;
  }
  t.changing(self);
  for (auto& [name, value] : fields) set_field(self, name, value);
  if (is_stop) set_field(self, "value", positional.empty() ? t.none() : positional[0]);
  if (is_exit && !positional.empty())
    set_field(self, "code", positional.size() == 1 ? positional[0] : t.tuple_of(positional));
  self->items[kArgs] = t.tuple_of(std::move(positional));
  return true;
}

// A call of an exception class. *handled false: not one.
Flow Tracer::construct_exception(PyTypeObject* type, std::vector<Value*>& arguments, PyObject* names, bool* handled) {
  *handled = PyType_IsSubtype(type, as_type(PyExc_BaseException));
  if (!*handled) return Flow::kGo;
  if (!is_modelled(type) || !ensure_version(type)) return stop(BreakReason::k_call, type->tp_name);
  PyObject* init = _PyType_Lookup(type, interned.init);
  size_t keywords = names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names));
  Value* made = new_exception(type, {arguments.begin(), arguments.end() - static_cast<std::ptrdiff_t>(keywords)});
  if (init != nullptr && Py_TYPE(init) == &PyFunction_Type) {
    arguments.insert(arguments.begin(), made);
    frame().stack.push_back(made);
    return inline_call(wrap_bound(init, std::string(type->tp_name) + ".__init__"), arguments, names, ReturnRule::kInit);
  }
  if (init == nullptr || Py_TYPE(init) != &PyWrapperDescr_Type ||
      !init_exception(*this, reinterpret_cast<PyWrapperDescrObject*>(init)->d_wrapped, made, arguments, names))
    return stop(BreakReason::k_call, type->tp_name);
  frame().stack.push_back(made);
  return Flow::kGo;
}

// Exception.__init__(self, ...), through super() or the class; __str__ and __repr__ likewise.
Flow Tracer::call_exception_slot(PyObject* callable, const std::vector<Value*>& arguments, PyObject* names, Value** out,
                                 bool* handled) {
  if (Py_TYPE(callable) != &PyWrapperDescr_Type || arguments.empty()) return Flow::kGo;
  Value* self = force(arguments[0]);
  if (!is_traced_exception(self)) return Flow::kGo;
  auto* slot = reinterpret_cast<PyWrapperDescrObject*>(callable);
  if (!PyType_IsSubtype(self->type, slot->d_common.d_type)) return Flow::kGo;
  std::string name = slot->d_base->name;
  if (name == "__init__") {
    std::vector<Value*> rest(arguments.begin() + 1, arguments.end());
    if (!init_exception(*this, slot->d_wrapped, self, rest, names)) return Flow::kGo;
    *handled = true;
    *out = none();
  } else if ((name == "__str__" || name == "__repr__") && arguments.size() == 1) {
    *handled = true;
    return exception_text(self, name == "__repr__", slot->d_wrapped, out);
  }
  return Flow::kGo;
}

// What `raise thing` raises: a class is called.
Flow Tracer::exception_of(Value* thing, Value** out) {
  thing = force(thing);
  *out = thing;
  if (is_traced_exception(thing)) return Flow::kGo;
  if (!thing->is_constant() || !PyExceptionClass_Check(thing->object)) return stop(BreakReason::k_raises, "raise");
  PyTypeObject* type = as_type(thing->object);
  if (!is_modelled(type) || !ensure_version(type)) return stop(BreakReason::k_raises, "raise");
  PyObject* init = _PyType_Lookup(type, interned.init);
  *out = new_exception(type, {});
  if (init != nullptr && Py_TYPE(init) == &PyFunction_Type) {
    Value* result = nullptr;
    Flow flow = call_now(wrap_bound(init, std::string(type->tp_name) + ".__init__"), {*out}, &result);
    if (flow != Flow::kGo) return flow;
    if (result->is_constant() && result->object == Py_None) return Flow::kGo;
  } else if (init != nullptr && Py_TYPE(init) == &PyWrapperDescr_Type &&
             init_exception(*this, reinterpret_cast<PyWrapperDescrObject*>(init)->d_wrapped, *out, {}, nullptr)) {
    return Flow::kGo;
  }
  return stop(BreakReason::k_raises, "raise");
}

// ---- Raising
// ---------------------------------------------------------------------------------------------------------

Flow Tracer::raise_builtin(PyObject* type, std::vector<Value*> arguments,
                           std::initializer_list<std::pair<const char*, Value*>> fields, std::string context) {
  PyErr_Clear();
  if (!is_modelled(as_type(type))) return stop(BreakReason::k_raises, std::move(context));
  Value* made = new_exception(as_type(type), std::move(arguments));
  init_exception(*this, reinterpret_cast<void*>(as_type(type)->tp_init), made, made->items[kArgs]->items, nullptr);
  for (auto& [name, value] : fields) set_field(made, name, value);
  return raise_value(made, std::move(context));
}

Flow Tracer::raise_text(PyObject* type, const std::string& text, std::string context) {
  Value* words = constant_owned(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
  if (words == nullptr) return stop(BreakReason::k_raises, std::move(context));
  return raise_builtin(type, {words}, {}, std::move(context));
}

// What a call of a pure function on atoms has just raised here.
Flow Tracer::raise_pending(std::string context) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Ref kept_type(type), kept(value), kept_traceback(traceback);
  if (!kept || Py_TYPE(value) == as_type(PyExc_RecursionError) || !is_modelled(Py_TYPE(value)) ||
      PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE) ||
      Py_TYPE(value)->tp_init != as_type(PyExc_BaseException)->tp_init)
    return stop(BreakReason::k_raises, std::move(context));
  PyObject* args = reinterpret_cast<PyBaseExceptionObject*>(value)->args;
  std::vector<Value*> arguments;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    PyObject* folded;
    arguments.push_back(constant(PyTuple_GET_ITEM(args, i)));
    if (!fold(arguments.back(), &folded)) return stop(BreakReason::k_raises, std::move(context));
  }
  return raise_builtin(reinterpret_cast<PyObject*>(Py_TYPE(value)), std::move(arguments), {}, std::move(context));
}

// A StopIteration out of __next__ ends an iteration.
static bool is_the_end(ReturnRule rule, PyTypeObject* type) {
  return (rule == ReturnRule::kNext || rule == ReturnRule::kNextOr) &&
         PyType_IsSubtype(type, as_type(PyExc_StopIteration));
}

// Whether a frame of the trace goes on after it.
static bool is_handled(const Tracer& t, PyTypeObject* type) {
  for (const TraceFrame& each : t.frames_) {
    bool here = each.bytecode->handler_at(each.bytecode->at(each.at).unit) != nullptr;
    if (here || is_the_end(each.rule, type)) return true;
  }
  return false;
}

Flow Tracer::raise_unbound(int local) {
  const char* name = PyUnicode_AsUTF8(slot_name(frame().bytecode->code, local));
  if (name == nullptr) return stop(BreakReason::k_unbound);
  if (!is_handled(*this, as_type(PyExc_UnboundLocalError))) return stop(BreakReason::k_unbound);
  Value* words = constant_owned(
      PyUnicode_FromFormat("cannot access local variable '%s' where it is not associated with a value", name));
  return raise_builtin(PyExc_UnboundLocalError, {words}, {}, "unbound");
}

Flow Tracer::raise_value(Value* exception, std::string context, bool again) {
  raising_ = exception;
  raising_again_ = again;
  context_ = std::move(context);
  return Flow::kRaise;
}

void Tracer::break_at_raise(const TracedException& told) {
  input_.memory->not_followed[{told.code, told.offset}] = {BreakReason::k_raises, "raise"};
  throw Restart{};
}

// What is handled becomes the context of what is raised, as _PyErr_SetObject does it. False: it cannot be said.
static bool set_context(Tracer& t, Value* exception) {
  Value* handled = t.handled_ != nullptr ? t.handled_ : t.thread_handled(/*topmost=*/true);
  if (handled == exception) return true;
  if (t.handled_ == nullptr && exception->items[kContext] != nullptr) return false;  // kept when nothing is handled
  for (Value* each = handled; is_traced_exception(each) && each->items[kContext] != nullptr;) {
    if (each->items[kContext] == exception) {
      t.changing(each);
      each->items[kContext] = nullptr;
      break;
    }
    each = each->items[kContext];
  }
  exception->items[kContext] = handled;
  return true;
}

// An AttributeError that comes out of a getter is told of which attribute it is: set_attribute_error_context.
static void name_attribute_error(Tracer& t, Value* exception) {
  ReturnRule rule = t.frame().rule;
  if (rule != ReturnRule::kAttribute && rule != ReturnRule::kNamedAttribute) return;
  if (!PyType_IsSubtype(exception->type, as_type(PyExc_AttributeError))) return;
  for (auto& [key, value] : exception->entries)
    if (value != nullptr &&
        (PyUnicode_CompareWithASCIIString(key, "name") == 0 || PyUnicode_CompareWithASCIIString(key, "obj") == 0))
      return;
  const TraceFrame& caller = t.frames_[t.frames_.size() - 2];
  bool named = rule == ReturnRule::kNamedAttribute;
  Value* object = caller.stack[caller.stack.size() - (named ? 2 : 1)];
  int argument = caller.bytecode->at(caller.at).argument;
  Value* name = named ? caller.stack.back() : t.constant(PyTuple_GET_ITEM(caller.bytecode->code->co_names, argument));
  set_field(exception, "name", name);
  set_field(exception, "obj", object);
}

// The present instruction raises `raising_`. Goes on at its handler; when the frames above `floor` have none, they end,
// and the instruction below them raises it.
Flow Tracer::follow_raise(size_t floor) {
  Value* exception = std::exchange(raising_, nullptr);
  bool again = std::exchange(raising_again_, false);
  if (!is_handled(*this, exception->type)) {
    if (exception->exception->code != nullptr) break_at_raise(*exception->exception);
    return stop(BreakReason::k_raises, context_);
  }
  changing(exception);
  if (auto before = before_.find(exception);
      before != before_.end() && before->second.exception == exception->exception) {
    exceptions_.push_back(*exception->exception);
    exception->exception = &exceptions_.back();
  }
  TracedException& told = *exception->exception;
  if (told.code == nullptr) {
    told.code = frame().bytecode->code;
    told.offset = frame().at;
  }
  if (!again && !set_context(*this, exception)) break_at_raise(told);
  for (;; again = false) {
    TraceFrame& now = frame();
    int unit = now.bytecode->at(now.at).unit;
    if (!again) {
      now.position = unit;
      told.trail.push_back({now.number, unit});
    }
    if (const Handler* handler = now.bytecode->handler_at(unit)) {
      now.stack.resize(static_cast<size_t>(handler->depth));
      if (handler->lasti) now.stack.push_back(int_constant(now.position));
      now.stack.push_back(exception);
      now.next = handler->target;
      now.keyword_names = nullptr;
      return Flow::kGo;
    }
    if (now.generator != nullptr) break_at_raise(told);  // a generator that ends by an exception is a real one
    name_attribute_error(*this, exception);
    ReturnRule rule = now.rule;
    frames_.pop_back();
    if (is_the_end(rule, exception->type)) {
      if (rule == ReturnRule::kNextOr) return Flow::kGo;  // the default is on the stack
      frame().stack.pop_back();
      return jump_to(frame().bytecode->at(frame().at).target, /*backward=*/false);
    }
    if (frames_.size() == floor) {
      raising_ = exception;
      return Flow::kRaise;
    }
  }
}

// ---- What is handled
// -------------------------------------------------------------------------------------------------

// What the thread handles where the trace began, or since then; known at run time only.
Value* Tracer::thread_handled(bool topmost) {
  Value*& value = thread_handled_[topmost];
  if (value == nullptr) {
    value = make(ValueKind::kHandled);
    value->complete = topmost;
  }
  return value;
}

// Before the thread's own is changed by a step: who refers to it gets what it was.
void Tracer::keep_thread_handled() {
  for (Value*& value : thread_handled_) {
    if (value != nullptr) {
      Step& load = record(StepKind::k_load_handled);
      load.imm = value->complete;
      load.dst = value->id = new_value();
    }
    value = nullptr;
  }
}

static Flow push_handled(Tracer& t) {
  for (const TraceFrame& each : t.frames_)  // what a generator handles is its own
    if (each.generator != nullptr) return t.stop(BreakReason::k_instruction, "a handler in a generator");
  std::vector<Value*>& stack = t.frame().stack;
  Value* exception = stack.back()->forwarded != nullptr ? stack.back()->forwarded : stack.back();
  if (is_traced_exception(exception)) {
    stack.back() = t.handled_ != nullptr ? t.handled_ : t.thread_handled(/*topmost=*/false);
    stack.push_back(exception);
    t.changing(exception);
    t.handled_ = exception;
    return Flow::kGo;
  }
  if (t.handled_ != nullptr) return t.stop(BreakReason::k_instruction, "a handler in a handler");
  ValueId id = t.object_of(exception);
  t.keep_thread_handled();
  Value* before = t.make(ValueKind::kHandled);
  Step& step = t.record(StepKind::k_push_handled);
  step.a = id;
  step.dst = before->id = t.new_value();
  stack.back() = before;
  stack.push_back(exception);
  return Flow::kGo;
}

static Flow pop_handled(Tracer& t) {
  std::vector<Value*>& stack = t.frame().stack;
  Value* before = stack.back()->forwarded != nullptr ? stack.back()->forwarded : stack.back();
  stack.pop_back();
  if (is_traced_exception(before)) {
    t.handled_ = before;
    return Flow::kGo;
  }
  t.handled_ = nullptr;
  if (before == t.thread_handled_[0]) return Flow::kGo;
  ValueId id = t.object_of(before);
  t.keep_thread_handled();
  t.record(StepKind::k_set_handled).a = id;
  return Flow::kGo;
}

// exception, class or tuple of classes -> exception, bool
static Flow check_match(Tracer& t) {
  std::vector<Value*>& stack = t.frame().stack;
  Value* wanted = t.force(stack.back());
  stack.pop_back();
  Value* exception = stack.back() = t.force(stack.back());
  std::vector<Value*> classes{wanted};
  std::vector<Value*>* items;
  if ((wanted->kind == ValueKind::kTuple && wanted->type == nullptr) ||
      (wanted->is_constant() && PyTuple_CheckExact(wanted->object))) {
    if (!t.list_items(wanted, &items)) return t.stop(BreakReason::k_instruction, "except");
    size_t count = items->size();
    classes.clear();
    for (size_t i = 0; i < count; ++i) classes.push_back(t.item_at(wanted, i));
  }
  if (exception->kind != ValueKind::kObject || exception->type == nullptr || !t.ensure_version(exception->type))
    return t.stop(BreakReason::k_instruction, "except");
  for (Value* each : classes) {
    bool known = each->is_constant() || each->kind == ValueKind::kInt || each->kind == ValueKind::kFloat;
    if (!known) return t.stop(BreakReason::k_instruction, "except");
    if (!each->is_constant() || !PyExceptionClass_Check(each->object))
      return t.raise_text(PyExc_TypeError, "catching classes that do not inherit from BaseException is not allowed",
                          "except");
  }
  bool answer = false;
  for (Value* each : classes) answer = answer || PyType_IsSubtype(exception->type, as_type(each->object));
  stack.push_back(t.constant(answer ? Py_True : Py_False));
  return Flow::kGo;
}

// ---- Instructions
// ----------------------------------------------------------------------------------------------------

static Flow raise_varargs(Tracer& t, int count) {
  if (count == 0) {
    if (t.handled_ == nullptr) return t.stop(BreakReason::k_raises, "raise");
    t.frame().position = t.frame().bytecode->at(t.frame().at).unit;
    return t.raise_value(t.handled_, "raise", /*again=*/true);
  }
  std::vector<Value*> operands(t.frame().stack.end() - count, t.frame().stack.end());
  Value* exception = nullptr;
  if (Flow flow = t.exception_of(operands[0], &exception); flow != Flow::kGo) return flow;
  if (count == 2) {
    Value* cause = t.force(operands[1]);
    bool is_none = cause->is_constant() && cause->object == Py_None;
    if (!is_none && !(cause->kind == ValueKind::kObject && cause->type != nullptr && cause->exception == nullptr &&
                      t.ensure_version(cause->type) && PyType_IsSubtype(cause->type, as_type(PyExc_BaseException))))
      if (Flow flow = t.exception_of(cause, &cause); flow != Flow::kGo) return flow;
    t.changing(exception);
    exception->items[kCause] = is_none ? nullptr : cause;
    exception->exception->suppress_context = true;
  }
  return t.raise_value(exception, "raise");
}

static Flow reraise(Tracer& t, int argument) {
  TraceFrame& now = t.frame();
  Value* exception = now.stack.back()->forwarded != nullptr ? now.stack.back()->forwarded : now.stack.back();
  now.stack.pop_back();
  if (!is_traced_exception(exception)) return t.stop(BreakReason::k_raises, "raise again");
  now.position = now.bytecode->at(now.at).unit;
  if (argument != 0) {
    Value* position = now.stack[now.stack.size() - static_cast<size_t>(argument)];
    if (!position->is_constant() || !PyLong_CheckExact(position->object))
      return t.stop(BreakReason::k_raises, "raise again");
    now.position = static_cast<int32_t>(PyLong_AsLong(position->object));
  }
  return t.raise_value(exception, "raise again", /*again=*/true);
}

// exit, position, handled before, exception -> the same, what exit(type, exception, traceback) answers
static Flow call_exit(Tracer& t) {
  std::vector<Value*>& stack = t.frame().stack;
  Value* exception = t.force(stack.back());
  Value* leave = t.force(stack[stack.size() - 4]);
  if (!is_traced_exception(exception)) return t.stop(BreakReason::k_instruction, "leaving a with block");
  Value* traceback = t.make(ValueKind::kObject);
  traceback->type = &PyTraceBack_Type;
  traceback->items = {exception};
  return t.call(leave, {t.constant(reinterpret_cast<PyObject*>(exception->type)), exception, traceback}, nullptr);
}

Flow Tracer::exception_step(const Instruction& in) {
  switch (in.opcode) {
    case Opcode::k_RAISE_VARARGS: return raise_varargs(*this, in.argument);
    case Opcode::k_RERAISE: return reraise(*this, in.argument);
    case Opcode::k_PUSH_EXC_INFO: return push_handled(*this);
    case Opcode::k_POP_EXCEPT: return pop_handled(*this);
    case Opcode::k_CHECK_EXC_MATCH: return check_match(*this);
    case Opcode::k_WITH_EXCEPT_START: return call_exit(*this);
    default: return stop(BreakReason::k_instruction, opcode_name(in.opcode));
  }
}

// ---- Looking at one
// --------------------------------------------------------------------------------------------------

// *handled false: an attribute as of any object.
Flow Tracer::exception_attribute(Value* exception, PyObject* name, Value** out, bool* handled) {
  *handled = false;
  if (!is_traced_exception(exception) || exception->type->tp_getattro != PyObject_GenericGetAttr ||
      !ensure_version(exception->type))
    return Flow::kGo;
  PyObject* in_class = _PyType_Lookup(exception->type, name);
  if (in_class == nullptr) return Flow::kGo;
  auto found = [&](Value* value) {
    *handled = true;
    *out = value == nullptr ? none() : force(value);
    return Flow::kGo;
  };
  if (Py_TYPE(in_class) == &PyMemberDescr_Type) {
    PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(in_class)->d_member;
    if (member->type == T_BOOL && std::strcmp(member->name, "__suppress_context__") == 0)
      return found(constant(exception->exception->suppress_context ? Py_True : Py_False));
    if (member->type != T_OBJECT) return Flow::kGo;
    for (auto& [key, value] : exception->entries)
      if (PyUnicode_Compare(key, name) == 0) return found(value);
    return found(nullptr);
  }
  if (Py_TYPE(in_class) != &PyGetSetDescr_Type ||
      reinterpret_cast<PyDescrObject*>(in_class)->d_type != as_type(PyExc_BaseException))
    return Flow::kGo;
  std::string text = text_of(name);
  Value* context = exception->items[kContext];
  if (text == "args") return found(exception->items[kArgs]);
  if (text == "__cause__") return found(exception->items[kCause]);
  if (text == "__context__" && (context == nullptr || context->kind != ValueKind::kHandled)) return found(context);
  if (text == "__traceback__" && exception->exception->trail.empty()) return found(nullptr);
  *handled = true;
  return stop(BreakReason::k_attribute, text + " of an exception");
}

Flow Tracer::set_exception_attribute(Value* exception, PyObject* name, Value* value, bool* handled) {
  *handled = false;
  if (!is_traced_exception(exception) || exception->type->tp_setattro != PyObject_GenericSetAttr ||
      !ensure_version(exception->type))
    return Flow::kGo;
  PyObject* in_class = _PyType_Lookup(exception->type, name);
  if (in_class == nullptr || Py_TYPE(in_class)->tp_descr_set == nullptr) return Flow::kGo;
  std::string text = text_of(name);
  bool is_field = Py_TYPE(in_class) == &PyMemberDescr_Type &&
                  reinterpret_cast<PyMemberDescrObject*>(in_class)->d_member->type == T_OBJECT &&
                  reinterpret_cast<PyMemberDescrObject*>(in_class)->d_member->flags == 0;
  bool is_none = value->is_constant() && value->object == Py_None;
  if (is_field) {
    changing(exception);
    set_field(exception, text.c_str(), value);
  } else if (text == "__cause__" && (is_none || is_traced_exception(value))) {
    changing(exception);
    exception->items[kCause] = is_none ? nullptr : value;
    exception->exception->suppress_context = true;
  } else {
    return Flow::kGo;
  }
  *handled = true;
  return Flow::kGo;
}

// str() or repr(). `slot`: the C function that answers; null: as the class says.
Flow Tracer::exception_text(Value* exception, bool repr, void* slot, Value** out) {
  PyTypeObject* type = exception->type;
  PyTypeObject* base = as_type(PyExc_BaseException);
  auto own = reinterpret_cast<void*>(repr ? type->tp_repr : type->tp_str);
  if (slot == nullptr) slot = own;
  bool of_key = !repr && slot == reinterpret_cast<void*>(as_type(PyExc_KeyError)->tp_str);
  if (!of_key && slot != reinterpret_cast<void*>(repr ? base->tp_repr : base->tp_str)) {
    Value* method = slot == own ? find_in_class(type, repr ? interned.repr : interned.str) : nullptr;
    if (method == nullptr || method->kind != ValueKind::kFunction)
      return stop(BreakReason::k_builtin, repr ? "repr of an exception" : "str of an exception");
    if (Flow flow = call_now(method, {exception}, out); flow != Flow::kGo) return flow;
    bool is_text = (*out)->is_constant() && PyUnicode_Check((*out)->object);
    return is_text ? Flow::kGo : stop(BreakReason::k_builtin, "text of an exception");
  }
  Value* args = exception->items[kArgs];
  std::vector<Value*>* items;
  if (!list_items(args, &items)) return stop(BreakReason::k_builtin, "text of an exception");
  size_t count = items->size();
  Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; i < count; ++i) {
    Value* item = item_at(args, i);
    PyObject* object;
    if (is_traced_exception(item)) {
      Value* text = nullptr;
      if (count != 1 || repr || of_key) return stop(BreakReason::k_builtin, "text of an exception");
      if (Flow flow = exception_text(item, false, nullptr, &text); flow != Flow::kGo) return flow;
      *out = text;
      return Flow::kGo;
    }
    if (!fold(item, &object)) return stop(BreakReason::k_builtin, "text of an exception");
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(object));
  }
  PyObject* only = count == 1 ? PyTuple_GET_ITEM(tuple.get(), 0) : nullptr;
  Ref text;
  if (repr) {
    const char* dot = std::strrchr(type->tp_name, '.');
    const char* name = dot == nullptr ? type->tp_name : dot + 1;
    text = Ref(only != nullptr ? PyUnicode_FromFormat("%s(%R)", name, only)
                               : PyUnicode_FromFormat("%s%R", name, tuple.get()));
  } else if (count == 0) {
    text = Ref(PyUnicode_FromString(""));
  } else if (only == nullptr) {
    text = Ref(PyObject_Str(tuple.get()));
  } else {
    text = Ref(of_key ? PyObject_Repr(only) : PyObject_Str(only));
  }
  if (!text) return stop(BreakReason::k_raises, "text of an exception");
  *out = constant(text.get());
  return Flow::kGo;
}

// ---- At exits
// --------------------------------------------------------------------------------------------------------

Recipe Tracer::exception_recipe(Value* exception, RecipeId id) {
  if (exception->type == &PyTraceBack_Type) break_at_raise(*exception->items[0]->exception);
  exit_exceptions_.emplace_back(exception->exception, id);
  Recipe recipe;
  recipe.kind = RecipeKind::kException;
  recipe.parts.push_back(recipe_of(constant(reinterpret_cast<PyObject*>(exception->type))));
  recipe.value = exception->exception->suppress_context ? 1 : 0;
  for (Value* part : exception->items) recipe.parts.push_back(recipe_of(part));
  for (auto& [key, value] : exception->entries) {
    if (value == nullptr) continue;
    recipe.parts.push_back(recipe_of(constant(key)));
    recipe.parts.push_back(recipe_of(value));
  }
  return recipe;
}

// The frames that exceptions of the exit being made were raised in. A frame that is gone: the raise has to happen.
void Tracer::tell_raised(Exit* exit, size_t visible) {
  for (auto [told, id] : exit_exceptions_) {
    for (const RaisedAt& place : told->trail) {
      size_t index = 0;
      while (index < visible && frames_[index].number != place.frame) ++index;
      if (index == visible) break_at_raise(*told);
      exit->raised.push_back({id, static_cast<int32_t>(index), place.unit});
    }
  }
  exit_exceptions_.clear();
}

// An object is needed now, with no exit to give it a traceback.
void Tracer::refuse_raised() {
  for (auto [told, id] : exit_exceptions_)
    if (!told->trail.empty()) break_at_raise(*told);
  exit_exceptions_.clear();
}

}  // namespace kintsugi
