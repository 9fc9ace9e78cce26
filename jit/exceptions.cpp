// Exceptions in the trace: made, raised, passed from frame to frame to a handler, looked at, all without an object.
// What of it has to exist at an exit is built there, with the traceback that it would have (Exit::raised). Where that
// cannot be, because a frame it passed through is gone, the raise is a break from the start: it really happens then.
#include <algorithm>
#include <cstring>

#include "jit/exceptions.h"
#include "runtime/frame.h"

namespace kintsugi {

// ---- Raising --------------------------------------------------------------------------------------------------------

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
  if (is_of_a_handler(PyErr_Occurred())) return fail(Failure::kPending, "interrupted");
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
  for (PyTypeObject* awaited : awaited_)
    if (PyType_IsSubtype(type, awaited)) return true;
  for (size_t i = 0; i < frames; ++i) {
    const TraceFrame& each = frames_[i];
    bool here = each.bytecode->handler_at(each.bytecode->at(each.at).unit) != nullptr;
    bool closes = each.generator != nullptr && each.resumed == Resumption::kClose &&
                  PyType_IsSubtype(type, as_type(PyExc_GeneratorExit));
    if (here || closes || is_the_end(each.rule, type)) return true;
  }
  return false;
}

void refuse_taken(Tracer& t, Flow flow, PyObject* type, const char* builtin) {
  if (flow == Flow::kRaise && t.raising_ != nullptr && PyType_IsSubtype(t.raising_->type, as_type(type)))
    t.break_from_the_start(BreakReason::k_builtin, builtin);
}

Flow Tracer::at_once_taking(PyObject* type, const std::function<Flow(Value**)>& operation, Value** out, bool* taken) {
  awaited_.push_back(as_type(type));
  Flow flow = at_once(operation, out);
  awaited_.pop_back();
  *taken = flow == Flow::kRaise && raising_ != nullptr && PyType_IsSubtype(raising_->type, as_type(type));
  if (!*taken) return flow;
  raising_ = nullptr;
  return Flow::kGo;
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
    return false;         // kept when nothing is handled
  std::set<Value*> seen;  // the program may have made a cycle
  for (Value* each = handled;
       is_traced_exception(each) && each->items[kContext] != nullptr && seen.insert(each).second;) {
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
    const TraceFrame& where = learns_nothing() ? frames_.front() : frame();
    told.code = where.bytecode->code;
    told.offset = where.at;
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
    const Handler* handler = now.bytecode->handler_at(unit);
    if (unwinding_ends(handler == nullptr ? 0 : static_cast<size_t>(handler->depth))) break_at_raise(told);
    if (handler != nullptr) {
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

// ---- What is handled ------------------------------------------------------------------------------------------------

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

// ---- Instructions ---------------------------------------------------------------------------------------------------

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
    case Opcode::k_CHECK_EG_MATCH:
    case Opcode::k_PREP_RERAISE_STAR: return group_step(in);
    default: return stop(BreakReason::k_instruction, opcode_name(in.opcode));
  }
}

// ---- At exits -------------------------------------------------------------------------------------------------------

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
  bool is_group = is_group_type(exception->type);
  for (Value* part : exception->items) recipe.parts.push_back(recipe_of(part));
  recipe.parts.push_back(recipe_of(exception->exception->traceback));
  if (is_group) {  // args may be others by now
    Recipe given;
    given.kind = RecipeKind::kTuple;
    for (const char* name : {"message", "exceptions"})
      given.parts.push_back(recipe_of(field_of_exception(exception, name)));
    recipe.parts.push_back(recipe_of(constant(interned.args)));
    recipe.parts.push_back(std::exchange(recipe.parts[1], add_recipe(std::move(given))));
  }
  for (auto& [key, value] : exception->entries) {
    if (value == nullptr || (is_group && is_field_of_group(key))) continue;
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
