// Generators in the trace. A call of a generator function makes one: its frame, which waits at the first instruction.
// What resumes it directly (FOR_ITER, SEND, a call of next() or send()) puts that frame on the tracer's own until the
// next yield; a break or side exit in it leaves with the generator real and running (ReturnRule::kResumed). Where it is
// resumed inside another instruction (sum(), zip(), list()), that instruction is the break, and the generator is shown
// as it was before (Tracer::before_).
#include <cstring>

#include "jit/tracer_core.h"
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
  if (now.rule == ReturnRule::kInit || now.rule == ReturnRule::kTruth || now.rule == ReturnRule::kNotTruth)
    restart_without_this_call();  // what raises, or never asks the generator for anything
  TraceFrame& caller = frames_[frames_.size() - 2];
  Value* generator = make(ValueKind::kGenerator);
  generator->code = now.bytecode->code;
  generator->function = now.function;
  generator->globals = now.globals;
  generator->items = std::move(now.locals);
  generator->at = now.at;
  generator->next = now.next;
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
    return stop(BreakReason::k_raises, "StopIteration");
  }
  bool says_nothing = sent->is_constant() && sent->object == Py_None;
  if (generator->stage == GeneratorStage::kCreated && !says_nothing)
    return stop(BreakReason::k_raises, "can't send non-None value to a just-started generator");
  if (input_.memory->not_inlined.count({consumer.bytecode->code, consumer.at}) != 0 || !has_room_for(generator->code))
    return stop(BreakReason::k_not_inlined, "a generator's frame");
  if (handled_ != nullptr) return stop(BreakReason::k_instruction, "a generator that is resumed in a handler");
  changing(generator);
  TraceFrame& resumed = frames_.emplace_back();
  resumed.number = ++frame_count_;
  resumed.bytecode = &bytecode_of(generator->code);
  resumed.function = generator->function;
  resumed.globals = generator->globals;
  resumed.locals = std::move(generator->items);
  resumed.stack = std::move(generator->stack);
  resumed.stack.push_back(sent);
  resumed.next = generator->next;
  resumed.generator = generator;
  resumed.resumed = how;
  resumed.fallback = fallback;
  resumed.exhausted = exhausted;
  generator->items.clear();
  generator->stack.clear();
  generator->stage = GeneratorStage::kRunning;
  return Flow::kGo;
}

Flow Tracer::yield_value(Value* value) {
  TraceFrame& now = frame();
  Value* generator = now.generator;
  if (generator == nullptr) return stop(BreakReason::k_generator, "a yield");
  generator->globals = now.globals;
  generator->items = std::move(now.locals);
  generator->stack = std::move(now.stack);
  generator->at = now.at;
  generator->next = now.next;
  generator->stage = GeneratorStage::kSuspended;
  frames_.pop_back();
  frame().stack.push_back(value);
  return Flow::kGo;
}

Flow Tracer::finish_generator(Value* result) {
  TraceFrame& now = frame();
  Resumption how = now.resumed;
  Value* fallback = now.fallback;
  int32_t exhausted = now.exhausted;
  if (how == Resumption::kNext && fallback == nullptr) return stop(BreakReason::k_raises, "StopIteration");
  now.generator->stage = GeneratorStage::kFinished;
  frames_.pop_back();
  switch (how) {
    case Resumption::kNow: return Flow::kGo;  // no value on the stack: Tracer::next sees it
    case Resumption::kForIter: return leave_loop(exhausted);
    case Resumption::kSend: frame().stack.back() = result; return jump_to(exhausted, false);
    case Resumption::kNext: frame().stack.push_back(fallback); return Flow::kGo;
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
    case Next::kEnd: frame().stack.back() = none(); return jump_to(exhausted, false);
    case Next::kUnknown: break;
  }
  return ended_ ? Flow::kEnd : stop(BreakReason::k_iteration, "an iterator that is not modelled");
}

// Where nothing of the generator's own runs.
Flow Tracer::close_generator(Value* generator) {
  if (generator->is_real() || generator->stage == GeneratorStage::kRunning || ends_with_effects(*generator))
    return stop(BreakReason::k_generator, "close");
  if (generator->stage == GeneratorStage::kSuspended) {
    const Bytecode& bytecode = bytecode_of(generator->code);
    const Instruction& after = bytecode.at(generator->next);
    if (after.opcode == Opcode::k_RESUME && after.argument >= 2) {  // in `yield from`: that is closed first
      Value* inner = force(generator->stack.back());
      if (inner->kind == ValueKind::kGenerator) {
        if (Flow flow = close_generator(inner); flow != Flow::kGo) return flow;
      } else if (inner->kind != ValueKind::kIterator) {
        return stop(BreakReason::k_generator, "close");
      }
    }
  }
  changing(generator);
  generator->stage = GeneratorStage::kFinished;
  generator->items.clear();
  generator->stack.clear();
  return Flow::kGo;
}

Flow Tracer::generator_method(Value* generator, const char* name, std::vector<Value*>& arguments, Value** out) {
  auto is = [&](const char* other) { return std::strcmp(name, other) == 0; };
  if (is("send") && arguments.size() == 1) return resume(generator, force(arguments[0]), Resumption::kNext);
  if (is("__next__") && arguments.empty()) return resume(generator, none(), Resumption::kNext);
  if (is("__iter__") && arguments.empty()) {
    *out = generator;
    return Flow::kGo;
  }
  if (is("close") && arguments.empty()) {
    *out = none();
    return close_generator(generator);
  }
  return stop(BreakReason::k_generator, name);
}

}  // namespace kintsugi
