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
static bool is_traced_traceback(const Value* value) { return value->type == &PyTraceBack_Type && value->is_virtual(); }

// Also what stands in no Value.
static void changing_exception(Tracer& t, Value* exception) {
  t.changing(exception);
  if (auto before = t.before_.find(exception);
      before != t.before_.end() && before->second.exception == exception->exception) {
    t.exceptions_.push_back(*exception->exception);
    exception->exception = &t.exceptions_.back();
  }
}

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
  if (arguments.empty()) return Flow::kGo;
  Value* self = force(arguments[0]);
  if (!is_traced_exception(self)) return Flow::kGo;
  static PyObject* const with_traceback = PyDict_GetItemString(as_type(PyExc_BaseException)->tp_dict, "with_traceback");
  if (callable == with_traceback && arguments.size() == 2 && names == nullptr) {
    Value* traceback = force(arguments[1]);
    bool is_none = traceback->is_constant() && traceback->object == Py_None;
    if (!is_none && !is_traced_traceback(traceback)) return Flow::kGo;
    *out = self;
    *handled = true;
    return set_traceback(self, is_none ? nullptr : traceback);
  }
  if (Py_TYPE(callable) != &PyWrapperDescr_Type) return Flow::kGo;
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

bool Tracer::is_handled(PyTypeObject* type, size_t frames) const {
  if (awaiting_stop_ > 0 && PyType_IsSubtype(type, as_type(PyExc_StopIteration))) return true;
  for (size_t i = 0; i < frames; ++i) {
    const TraceFrame& each = frames_[i];
    bool here = each.bytecode->handler_at(each.bytecode->at(each.at).unit) != nullptr;
    bool closes = each.generator != nullptr && each.resumed == Resumption::kClose &&
                  PyType_IsSubtype(type, as_type(PyExc_GeneratorExit));
    if (here || closes || is_the_end(each.rule, type)) return true;
  }
  return false;
}

Flow Tracer::raise_unbound(int local) {
  const char* name = PyUnicode_AsUTF8(slot_name(frame().bytecode->code, local));
  if (name == nullptr) return stop(BreakReason::k_unbound);
  if (!is_handled(as_type(PyExc_UnboundLocalError), frames_.size())) return stop(BreakReason::k_unbound);
  Value* words = constant_owned(
      PyUnicode_FromFormat("cannot access local variable '%s' where it is not associated with a value", name));
  return raise_builtin(PyExc_UnboundLocalError, {words}, {}, "unbound");
}

Flow Tracer::raise_value(Value* exception, std::string context, Raising how) {
  raising_ = exception;
  how_raising_ = how;
  context_ = std::move(context);
  return Flow::kRaise;
}

void Tracer::break_at_raise(const TracedException& told) {
  input_.memory->not_followed[{told.code, told.offset}] = {BreakReason::k_raises, "raise"};
  throw Restart{};
}

// Of the thread, and found to be None.
static bool is_nothing(const Value* handled) { return handled->kind == ValueKind::kHandled && handled->mutated; }

// What is handled becomes the context of what is raised, as _PyErr_SetObject does it. False: it cannot be said.
static bool set_context(Tracer& t, Value* exception) {
  Value* handled = t.topmost_handled();
  if (handled == exception || is_nothing(handled) || handled == exception->items[kContext]) return true;
  if (!is_traced_exception(handled) && exception->items[kContext] != nullptr)
    return false;  // kept when nothing is handled
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

static void add_traceback_entry(Tracer& t, Value* exception, int unit) {
  TracedException& told = *exception->exception;
  Value* entry = t.make(ValueKind::kObject);
  entry->type = &PyTraceBack_Type;
  entry->items = {told.traceback};
  entry->code = t.frame().bytecode->code;
  entry->frame_number = t.frame().number;
  entry->index = unit;
  entry->made_in = reinterpret_cast<PyObject*>(told.code);
  entry->made_at = told.offset;
  told.traceback = entry;
}

// A StopIteration that would leave a generator: gen_send_ex2. Its frame is gone already.
static Value* stopped_generator(Tracer& t, Value* stop) {
  if (!t.is_handled(as_type(PyExc_RuntimeError), t.frames_.size())) t.break_at_raise(*stop->exception);
  Value* text = t.constant_owned(PyUnicode_InternFromString("generator raised StopIteration"));
  if (text == nullptr) t.break_at_raise(*stop->exception);
  Value* made = t.new_exception(as_type(PyExc_RuntimeError), {text});
  made->items[kCause] = made->items[kContext] = stop;
  made->exception->suppress_context = true;
  made->exception->code = stop->exception->code;
  made->exception->offset = stop->exception->offset;
  return made;
}

void Tracer::take_context(Value* exception) {
  if (!set_context(*this, exception)) break_at_raise(*exception->exception);
}

Flow Tracer::set_traceback(Value* exception, Value* traceback) {
  changing_exception(*this, exception);
  exception->exception->traceback = traceback;
  return Flow::kGo;
}

// The present instruction raises `raising_`. Goes on at its handler; when the frames above `floor` have none, they end,
// and the instruction below them raises it.
Flow Tracer::follow_raise(size_t floor) {
  Value* exception = std::exchange(raising_, nullptr);
  if (!is_handled(exception->type, frames_.size())) {
    if (exception->exception->code != nullptr) break_at_raise(*exception->exception);
    return stop(BreakReason::k_raises, context_);
  }
  changing_exception(*this, exception);
  TracedException& told = *exception->exception;
  if (told.code == nullptr) {
    told.code = frame().bytecode->code;
    told.offset = frame().at;
  }
  bool takes_context = how_raising_ == Raising::kNew || (how_raising_ == Raising::kThrown && handled_ != nullptr);
  if (takes_context && !set_context(*this, exception)) break_at_raise(told);
  for (bool again = how_raising_ == Raising::kAgain;; again = false) {
    TraceFrame& now = frame();
    int unit = now.bytecode->at(now.at).unit;
    if (!again) {
      now.position = unit;
      add_traceback_entry(*this, exception, unit);
    }
    if (const Handler* handler = now.bytecode->handler_at(unit)) {
      now.stack.resize(static_cast<size_t>(handler->depth));
      if (handler->lasti) now.stack.push_back(int_constant(now.position));
      now.stack.push_back(exception);
      now.next = handler->target;
      now.keyword_names = nullptr;
      return Flow::kGo;
    }
    if (frames_.size() == 1) break_at_raise(told);
    if (now.generator != nullptr) {
      Resumption how = now.resumed;
      leave_generator(GeneratorStage::kFinished);
      if (PyType_IsSubtype(exception->type, as_type(PyExc_StopIteration)))
        exception = stopped_generator(*this, exception);
      if (how == Resumption::kClose && PyType_IsSubtype(exception->type, as_type(PyExc_GeneratorExit))) {
        frame().stack.push_back(none());
        return Flow::kGo;
      }
    } else {
      name_attribute_error(*this, exception);
      ReturnRule rule = now.rule;
      frames_.pop_back();
      if (is_the_end(rule, exception->type)) {
        if (rule == ReturnRule::kNextOr) return Flow::kGo;  // the default is on the stack
        frame().stack.pop_back();
        return jump_to(frame().bytecode->at(frame().at).target, /*backward=*/false);
      }
    }
    if (frames_.size() == floor) return raise_value(exception, context_, Raising::kPassing);
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

Value* Tracer::topmost_handled() {
  if (handled_ != nullptr) return handled_;
  for (auto each = frames_.rbegin(); each != frames_.rend(); ++each)
    if (each->generator != nullptr && each->handled_outside != nullptr) return each->handled_outside;
  return thread_handled(/*topmost=*/true);
}

Flow Tracer::known_handled(Value* handled, Value** out) {
  *out = handled;
  if (handled->kind != ValueKind::kHandled) return Flow::kGo;
  *out = none();
  if (is_nothing(handled)) return Flow::kGo;
  Ref now(PyErr_GetHandledException());
  if ((now && now.get() != Py_None) || handled_was_set_ || handled != thread_handled_[1])
    return stop(BreakReason::k_builtin, "what is handled");
  ConstantId none_type = constant_id(reinterpret_cast<PyObject*>(Py_TYPE(Py_None)), Hold::kStrong);
  ExitId exit = exit_here(ExitKind::kStep);
  Step& load = record(StepKind::k_load_handled);
  load.imm = 1;
  ValueId id = load.dst = new_value();
  Step& check = record(StepKind::k_type_check);
  check.a = id;
  check.constant = none_type;
  check.on_fail = exit;
  handled->mutated = true;
  return Flow::kGo;
}

Flow Tracer::exception_info(Value** out) {
  Value* handled = nullptr;
  if (Flow flow = known_handled(topmost_handled(), &handled); flow != Flow::kGo) return flow;
  if (!is_traced_exception(handled)) {
    if (!handled->is_constant()) return stop(BreakReason::k_builtin, "exc_info");
    *out = tuple_of({none(), none(), none()});
    return Flow::kGo;
  }
  Value* traceback = handled->exception->traceback;
  Value* type = constant(reinterpret_cast<PyObject*>(handled->type));
  *out = tuple_of({type, handled, traceback != nullptr ? traceback : none()});
  return Flow::kGo;
}

// Before the thread's own is changed by a step: who refers to it gets what it was.
void Tracer::keep_thread_handled() {
  handled_was_set_ = true;
  for (Value*& value : thread_handled_) {
    if (value != nullptr) {
      Step& load = record(StepKind::k_load_handled);
      load.imm = value->complete;
      load.dst = value->id = new_value();
    }
    value = nullptr;
  }
}

static bool is_in_generator(const Tracer& t) {
  return std::any_of(t.frames_.begin(), t.frames_.end(),
                     [](const TraceFrame& each) { return each.generator != nullptr; });
}

static Flow push_handled(Tracer& t) {
  std::vector<Value*>& stack = t.frame().stack;
  Value* exception = stack.back()->forwarded != nullptr ? stack.back()->forwarded : stack.back();
  if (is_traced_exception(exception)) {
    stack.back() = t.handled_ != nullptr ? t.handled_
                   : is_in_generator(t)  ? t.none()
                                         : t.thread_handled(/*topmost=*/false);
    stack.push_back(exception);
    t.changing(exception);
    t.handled_ = exception;
    return Flow::kGo;
  }
  if (t.handled_ != nullptr) return t.stop(BreakReason::k_instruction, "a handler in a handler");
  if (is_in_generator(t)) return t.stop(BreakReason::k_instruction, "a handler in a generator");
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
  bool is_none = before->is_constant() && before->object == Py_None;
  if (is_in_generator(t) && !is_none) return t.stop(BreakReason::k_instruction, "a handler in a generator");
  t.handled_ = nullptr;
  if (before == t.thread_handled_[0] || is_in_generator(t)) return Flow::kGo;
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
    Value* handled = t.topmost_handled();
    if (!is_traced_exception(handled)) return t.stop(BreakReason::k_raises, "raise");
    t.frame().position = t.frame().bytecode->at(t.frame().at).unit;
    return t.raise_value(handled, "raise", Raising::kAgain);
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
    changing_exception(t, exception);
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
  return t.raise_value(exception, "raise again", Raising::kAgain);
}

// exit, position, handled before, exception -> the same, what exit(type, exception, traceback) answers
static Flow call_exit(Tracer& t) {
  std::vector<Value*>& stack = t.frame().stack;
  Value* exception = t.force(stack.back());
  Value* leave = t.force(stack[stack.size() - 4]);
  if (!is_traced_exception(exception)) return t.stop(BreakReason::k_instruction, "leaving a with block");
  Value* traceback = exception->exception->traceback;
  if (traceback == nullptr) traceback = t.none();
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
  if (is_traced_traceback(exception)) {
    std::string text = text_of(name);
    int unit = static_cast<int>(exception->index);
    *handled = true;
    if (text == "tb_next") return *out = exception->items[0] == nullptr ? none() : exception->items[0], Flow::kGo;
    if (text == "tb_lineno") return *out = int_constant(PyCode_Addr2Line(exception->code, unit * 2)), Flow::kGo;
    return stop(BreakReason::k_attribute, text + " of a traceback");
  }
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
  if (text == "__context__" && context != nullptr && context->kind == ValueKind::kHandled) {
    *handled = true;
    return known_handled(context, out);
  }
  if (text == "__context__") return found(context);
  if (text == "__traceback__") return found(exception->exception->traceback);
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
  } else if ((text == "__cause__" || text == "__context__") && (is_none || is_traced_exception(value))) {
    changing_exception(*this, exception);
    exception->items[text == "__cause__" ? kCause : kContext] = is_none ? nullptr : value;
    if (text == "__cause__") exception->exception->suppress_context = true;
  } else if (text == "__traceback__" && (is_none || is_traced_traceback(value))) {
    set_traceback(exception, is_none ? nullptr : value);
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
  Recipe recipe;
  if (exception->type == &PyTraceBack_Type) {
    exit_tracebacks_.emplace_back(exception, id);
    recipe.kind = RecipeKind::kTraceback;
    recipe.parts = {recipe_of(exception->items[0])};
    return recipe;
  }
  recipe.kind = RecipeKind::kException;
  recipe.parts.push_back(recipe_of(constant(reinterpret_cast<PyObject*>(exception->type))));
  recipe.value = exception->exception->suppress_context ? 1 : 0;
  for (Value* part : exception->items) recipe.parts.push_back(recipe_of(part));
  recipe.parts.push_back(recipe_of(exception->exception->traceback));
  for (auto& [key, value] : exception->entries) {
    if (value == nullptr) continue;
    recipe.parts.push_back(recipe_of(constant(key)));
    recipe.parts.push_back(recipe_of(value));
  }
  return recipe;
}

// An entry of a traceback is needed whose frame is gone: the raise has to happen.
static void break_at_entry(Tracer& t, const Value* entry) {
  TracedException told;
  told.code = reinterpret_cast<PyCodeObject*>(entry->made_in);
  told.offset = entry->made_at;
  t.break_at_raise(told);
}

// The frames of the tracebacks in the exit being made.
void Tracer::tell_raised(Exit* exit, size_t visible) {
  for (auto [entry, id] : exit_tracebacks_) {
    RaisedState raised;
    raised.entry = id;
    raised.unit = static_cast<int32_t>(entry->index);
    size_t index = 0;
    while (index < visible && frames_[index].number != entry->frame_number) ++index;
    raised.frame = static_cast<int32_t>(index);
    if (index == visible) {
      auto is_its = [&, number = entry->frame_number](Value* generator) {
        bool waits = !generator->is_real() && shown(generator)->stage == GeneratorStage::kSuspended;
        return generator->frame_number == number && waits && recipes_.count(generator) != 0;
      };
      auto generator = std::find_if(generators_.begin(), generators_.end(), is_its);
      if (generator == generators_.end()) break_at_entry(*this, entry);
      raised.frame = 0;
      raised.generator = recipes_[*generator];
    }
    exit->raised.push_back(raised);
  }
  exit_tracebacks_.clear();
}

// An object is needed now, with no exit to give it a traceback.
void Tracer::refuse_raised() {
  if (!exit_tracebacks_.empty()) break_at_entry(*this, exit_tracebacks_[0].first);
}

}  // namespace kintsugi
