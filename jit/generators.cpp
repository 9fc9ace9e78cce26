// Generators in the trace. A call of a generator function makes one: its frame, which waits at the first instruction.
// What resumes it directly (FOR_ITER, SEND, a call of next() or send()) puts that frame on the tracer's own until the
// next yield; a break or side exit in it leaves with the generator real and running (ReturnRule::kResumed). What it
// handles is its own: Tracer::handled_ is of the innermost generator that runs. throw() and close() put its frame there
// likewise, and its yield raises. Where it is resumed inside another instruction (sum(), zip(), list()), that
// instruction is the break, and the generator is shown as it was before (Tracer::before_).
#include <cstring>

#include "jit/exceptions.h"
#include "jit/names.h"
#include "runtime/frame.h"

namespace kintsugi {

bool ends_with_effects(const Value& generator) {
  return generator.stage == GeneratorStage::kSuspended &&
         bytecode_of(generator.code).handler_at(generator.at) != nullptr;
}

// Nobody counts references here, so nobody would see when a generator is dropped, and its `finally` run.
void Tracer::guard_no_generator_is_dropped() {
  for (Value* generator : generators_) {
    if (generator->is_real() || (shows_before_ && generator->serial > instruction_serial_)) continue;
    if (ends_with_effects(*shown(generator)) && recipes_.count(generator) == 0) restart_without(generator->maker);
  }
}

Value* Tracer::shown(Value* value) {
  if (!shows_before_) return value;
  auto found = before_.find(value);
  return found == before_.end() ? value : &found->second;
}

// Parts: see RecipeKind::kGenerator.
void Tracer::generator_recipe(Value* generator, Recipe* recipe) {
  bool is_running = generator->stage == GeneratorStage::kRunning;
  if (is_running && !exiting_) break_from_the_start(BreakReason::k_generator, "a generator that is running");
  recipe->kind = RecipeKind::kGenerator;
  recipe->constant = constant_id(reinterpret_cast<PyObject*>(generator->code), Hold::kStrong);
  auto part = [&](Value* value) { recipe->parts.push_back(recipe_of(value)); };
  part(generator->function);
  part(int_constant(is_running                                      ? kGeneratorFilledLater
                    : generator->stage == GeneratorStage::kFinished ? kGeneratorFinished
                                                                    : generator->next));
  part(is_running ? nullptr : generator->handled);
  const Bytecode& bytecode = bytecode_of(generator->code);
  for (size_t i = 0; i < generator->items.size(); ++i) {
    Value* local = generator->items[i];
    if (local->forwarded != nullptr) local = local->forwarded;
    bool only_in_kernel = local->kind == ValueKind::kTensor && local->node >= 0;
    bool is_live = bytecode.is_live(bytecode.index_at[generator->next], static_cast<int>(i));
    part(only_in_kernel && !is_live && !input_.policy.exact_locals ? null_ : local);
  }
  for (Value* item : generator->stack) part(item);
}

Flow Tracer::make_generator() {
  if (frames_.size() == 1) return stop(BreakReason::k_generator, "a generator function");
  TraceFrame& now = frame();
  if (now.rule == ReturnRule::kInit) restart_without_this_call();  // it raises
  TraceFrame& caller = frames_[frames_.size() - 2];
  Value* generator = make(ValueKind::kGenerator);
  generator->code = now.bytecode->code;
  generator->function = now.function;
  generator->globals = now.globals;
  generator->items = std::move(now.locals);
  generator->at = now.at;
  generator->next = now.next;
  generator->frame_number = now.number;
  generator->maker = {caller.bytecode->code, caller.at};
  generators_.push_back(generator);
  return return_value(generator);
}

Flow Tracer::resume(Value* generator, Value* sent, Resumption how, Value* fallback, int32_t exhausted) {
  TraceFrame& consumer = frame();
  if (generator->is_real()) return stop(BreakReason::k_generator, "a generator that is an object already");
  if (generator->stage == GeneratorStage::kRunning) return stop(BreakReason::k_raises, "generator already executing");
  if (generator->stage == GeneratorStage::kFinished) {
    if (how == Resumption::kForIter) return leave_loop(exhausted);
    if (fallback == nullptr) return raise_builtin(PyExc_StopIteration, {}, {}, "StopIteration");
    frame().stack.push_back(fallback);
    return Flow::kGo;
  }
  bool says_nothing = sent->is_constant() && sent->object == Py_None;
  if (generator->stage == GeneratorStage::kCreated && !says_nothing)
    return stop(BreakReason::k_raises, "can't send non-None value to a just-started generator");
  if (input_.memory->not_inlined.count({consumer.bytecode->code, consumer.at}) != 0 || !has_room_for(generator->code))
    return stop(BreakReason::k_not_inlined, "a generator's frame");
  TraceFrame& resumed = push_generator(generator, how, exhausted);
  resumed.stack.push_back(sent);
  resumed.fallback = fallback;
  return Flow::kGo;
}

TraceFrame& Tracer::push_generator(Value* generator, Resumption how, int32_t exhausted) {
  changing(generator);
  TraceFrame& resumed = frames_.emplace_back();
  resumed.number = generator->frame_number;
  resumed.bytecode = &bytecode_of(generator->code);
  resumed.function = generator->function;
  resumed.globals = generator->globals;
  resumed.locals = std::move(generator->items);
  resumed.stack = std::move(generator->stack);
  resumed.offset = resumed.at = generator->at;
  resumed.next = generator->next;
  resumed.generator = generator;
  resumed.resumed = how;
  resumed.exhausted = exhausted;
  resumed.handled_outside = std::exchange(handled_, std::exchange(generator->handled, nullptr));
  generator->items.clear();
  generator->stack.clear();
  generator->stage = GeneratorStage::kRunning;
  return resumed;
}

void Tracer::leave_generator(GeneratorStage stage) {
  TraceFrame& now = frame();
  Value* generator = now.generator;
  changing(generator);
  if (stage == GeneratorStage::kSuspended) {
    generator->globals = now.globals;
    generator->items = std::move(now.locals);
    generator->stack = std::move(now.stack);
    generator->at = now.at;
    generator->next = now.next;
    generator->handled = handled_;
  }
  generator->stage = stage;
  handled_ = now.handled_outside;
  frames_.pop_back();
}

Flow Tracer::yield_value(Value* value) {
  if (frame().generator == nullptr) return stop(BreakReason::k_generator, "a yield");
  if (frame().resumed == Resumption::kClose) {
    if (!is_handled(as_type(PyExc_RuntimeError), frames_.size() - 1))
      return stop(BreakReason::k_raises, "generator ignored GeneratorExit");
    leave_generator(GeneratorStage::kSuspended);
    return raise_text(PyExc_RuntimeError, "generator ignored GeneratorExit");
  }
  leave_generator(GeneratorStage::kSuspended);
  frame().stack.push_back(value);
  return Flow::kGo;
}

Flow Tracer::finish_generator(Value* result) {
  TraceFrame& now = frame();
  Resumption how = now.resumed;
  Value* fallback = now.fallback;
  int32_t exhausted = now.exhausted;
  bool stops = how == Resumption::kNext && fallback == nullptr;
  if (stops && !is_handled(as_type(PyExc_StopIteration), frames_.size() - 1))
    return stop(BreakReason::k_raises, "StopIteration");
  leave_generator(GeneratorStage::kFinished);
  if (stops) {
    result = force(result);
    bool is_none = result->is_constant() && result->object == Py_None;
    return raise_builtin(PyExc_StopIteration, is_none ? std::vector<Value*>{} : std::vector<Value*>{result}, {},
                         "StopIteration");
  }
  switch (how) {
    case Resumption::kNow: return Flow::kGo;  // no value on the stack: Tracer::next sees it
    case Resumption::kForIter: return leave_loop(exhausted);
    case Resumption::kSend: frame().stack.back() = result; return jump_to(exhausted, false);
    case Resumption::kNext: frame().stack.push_back(fallback); return Flow::kGo;
    case Resumption::kClose: frame().stack.push_back(none()); return Flow::kGo;
  }
  return Flow::kGo;
}

Tracer::Next Tracer::next_of_generator(Value* generator, Value** out) {
  if (generator->stage == GeneratorStage::kFinished && !generator->is_real()) return Next::kEnd;
  Flow flow = at_once([&](Value**) { return resume(generator, none(), Resumption::kNow); }, out);
  if (flow != Flow::kGo) return Next::kUnknown;
  return *out != nullptr ? Next::kItem : Next::kEnd;
}

// SEND: the value goes to what is delegated to; when that has ended, its result takes its place.
Flow Tracer::send_on(Value* sent, int32_t exhausted) {
  std::vector<Value*>& stack = frame().stack;
  Value* receiver = stack.back() = force(stack.back());
  sent = force(sent);
  if (receiver->kind == ValueKind::kGenerator) {
    if (receiver->stage != GeneratorStage::kFinished || receiver->is_real())
      return resume(receiver, sent, Resumption::kSend, nullptr, exhausted);
    stack.back() = none();
    return jump_to(exhausted, false);
  }
  if (!sent->is_constant() || sent->object != Py_None) return stop(BreakReason::k_raises, "no attribute send");
  Value* item = nullptr;
  switch (next(receiver, &item)) {
    case Next::kItem: frame().stack.push_back(item); return Flow::kGo;
    case Next::kEnd:
      if (receiver->kind != ValueKind::kObject) item = none();
      if (item == nullptr) return stop(BreakReason::k_generator, "what an iterator ends with");
      frame().stack.back() = item;
      return jump_to(exhausted, false);
    case Next::kUnknown: break;
  }
  return pass_on("an iterator that is not modelled");
}

// ---- throw() and close() --------------------------------------------------------------------------------------------

// What a suspended generator delegates to in `yield from`; null: nothing.
static Value* delegate_of(Tracer& t, Value* generator) {
  if (generator->stage != GeneratorStage::kSuspended) return nullptr;
  const Instruction& after = bytecode_of(generator->code).at(generator->next);
  return after.opcode == Opcode::k_RESUME && after.argument >= 2 ? t.force(generator->stack.back()) : nullptr;
}

// The yield where it waits raises an exception of the trace, with the traceback that it has.
Flow Tracer::throw_into(Value* generator, Value* exception, Resumption how, int32_t exhausted) {
  if (generator->is_real() || generator->stage == GeneratorStage::kRunning)
    return stop(BreakReason::k_generator, "throw");
  if (generator->stage == GeneratorStage::kFinished) return raise_value(exception, "throw", Raising::kPassing);
  const Bytecode& bytecode = bytecode_of(generator->code);
  Value* inner = delegate_of(*this, generator);
  bool has_handler = bytecode.handler_at(bytecode.at(generator->at).unit) != nullptr;
  for (Value* each = inner; each != nullptr && each->kind == ValueKind::kGenerator; each = delegate_of(*this, each))
    has_handler = has_handler || ends_with_effects(*each);
  if (how != Resumption::kClose && !has_handler && !is_handled(exception->type, frames_.size())) {
    if (exception->exception->code != nullptr) break_at_raise(*exception->exception);
    return stop(BreakReason::k_raises, "throw");
  }
  if (input_.memory->not_inlined.count({frame().bytecode->code, frame().at}) != 0 || !has_room_for(generator->code))
    return stop(BreakReason::k_not_inlined, "a generator's frame");
  bool exits = PyType_IsSubtype(exception->type, as_type(PyExc_GeneratorExit));
  if (inner != nullptr && exits) {  // it is closed first
    if (inner->kind == ValueKind::kGenerator && !ends_with_effects(*inner)) {
      if (Flow flow = close_generator(inner); flow != Flow::kGo) return flow;
      frame().stack.pop_back();
    } else if (inner->kind != ValueKind::kIterator) {
      return stop(BreakReason::k_generator, "throw through yield from");
    }
  } else if (inner != nullptr && inner->kind == ValueKind::kGenerator) {  // as if it was sent on
    const Instruction& after = bytecode.at(generator->next);
    const Instruction& send = bytecode.at(bytecode.at(after.next).target);
    if (send.opcode != Opcode::k_SEND) return stop(BreakReason::k_generator, "throw through yield from");
    std::pair<void*, int> here{frame().bytecode->code, frame().at};
    TraceFrame& outer = push_generator(generator, how, exhausted);
    outer.offset = outer.at = send.offset;
    outer.next = send.next;
    outer.before = outer.stack;
    outer.before.push_back(none());
    Flow flow = throw_into(inner, exception, Resumption::kSend, send.target);
    if (flow != Flow::kBreak) return flow;
    input_.memory->not_followed[here] = {reason_, context_};
    throw Restart{};
  } else if (inner != nullptr && inner->kind != ValueKind::kIterator) {
    return stop(BreakReason::k_generator, "throw through yield from");
  }
  push_generator(generator, how, exhausted).stack.push_back(none());
  return raise_value(exception, "throw", Raising::kThrown);
}

Flow Tracer::close_generator(Value* generator) {
  if (generator->is_real() || generator->stage == GeneratorStage::kRunning)
    return stop(BreakReason::k_generator, "close");
  if (ends_with_effects(*generator)) {
    Value* exit = new_exception(as_type(PyExc_GeneratorExit), {});
    exit->exception->code = frame().bytecode->code;
    exit->exception->offset = frame().at;
    take_context(exit);
    return throw_into(generator, exit, Resumption::kClose);
  }
  if (Value* inner = delegate_of(*this, generator)) {  // that is closed first
    if (inner->kind == ValueKind::kGenerator) {
      if (ends_with_effects(*inner)) return stop(BreakReason::k_generator, "close");
      if (Flow flow = close_generator(inner); flow != Flow::kGo) return flow;
      frame().stack.pop_back();
    } else if (inner->kind != ValueKind::kIterator) {
      return stop(BreakReason::k_generator, "close");
    }
  }
  changing(generator);
  generator->stage = GeneratorStage::kFinished;
  generator->items.clear();
  generator->stack.clear();
  frame().stack.push_back(none());
  return Flow::kGo;
}

// The exception that throw(...) throws, as _gen_throw makes it of its arguments.
static Flow thrown(Tracer& t, std::vector<Value*>& arguments, Value** out) {
  auto is_none = [](const Value* value) { return value->is_constant() && value->object == Py_None; };
  for (Value*& argument : arguments) argument = t.force(argument);
  Value* type = arguments[0];
  Value* value = arguments.size() > 1 ? arguments[1] : t.none();
  Value* traceback = arguments.size() > 2 ? arguments[2] : t.none();
  bool has_traceback = is_traced_traceback(traceback);
  if (!has_traceback && !is_none(traceback)) return t.stop(BreakReason::k_generator, "throw");
  if (is_traced_exception(type)) {
    if (!is_none(value)) return t.stop(BreakReason::k_raises, "throw");
    *out = type;
    return has_traceback ? t.set_traceback(type, traceback) : Flow::kGo;
  }
  if (!type->is_constant() || !PyExceptionClass_Check(type->object)) return t.stop(BreakReason::k_raises, "throw");
  PyTypeObject* wanted = as_type(type->object);
  if (is_traced_exception(value) && PyType_IsSubtype(value->type, wanted)) {
    *out = value;
  } else if (is_none(value)) {
    PyObject* init = _PyType_Lookup(wanted, interned.init);
    if (init == nullptr || Py_TYPE(init) == &PyFunction_Type) return t.stop(BreakReason::k_generator, "throw");
    if (Flow flow = t.exception_of(type, out); flow != Flow::kGo) return flow;
  } else {
    return t.stop(BreakReason::k_generator, "throw");
  }
  return t.set_traceback(*out, has_traceback ? traceback : nullptr);
}

Flow Tracer::generator_method(Value* generator, const char* name, std::vector<Value*>& arguments, Value** out) {
  auto is = [&](const char* other) { return std::strcmp(name, other) == 0; };
  if (is("send") && arguments.size() == 1) return resume(generator, force(arguments[0]), Resumption::kNext);
  if (is("__next__") && arguments.empty()) return resume(generator, none(), Resumption::kNext);
  if (is("__iter__") && arguments.empty()) {
    *out = generator;
    return Flow::kGo;
  }
  if (is("close") && arguments.empty()) return close_generator(generator);
  if (is("throw") && !arguments.empty() && arguments.size() <= 3) {
    Value* exception = nullptr;
    if (Flow flow = thrown(*this, arguments, &exception); flow != Flow::kGo) return flow;
    return throw_into(generator, exception, Resumption::kNext);
  }
  return stop(BreakReason::k_generator, name);
}

}  // namespace kintsugi
