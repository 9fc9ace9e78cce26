// An activation is driven by one loop (drive): look up a segment of the present entry, run it, carry out its exit,
// which says where to go on or ends the activation. It begins without a frame, over an array of slots on the C stack;
// the first exit that needs CPython's frame has it made, moves the slots there, and the same loop goes on inside
// (with_frame).
//
//   call_compiled ─ fast hit ──────────────────────────────► result
//        └► call_slow ──► drive ─► look_up ─► segment's code ─► leave ─┬► go on at the next entry
//                            ▲        └► compile_segment                ├► perform: one instruction, then go on
//                            └───────────────────────────────────────────┤
//                                                                       ├► continue_inside: frames of inlined callees
//                                                                       ├► raise: the handler's entry is the next
//                                                                       └► return, hand over, nobody handles: the end
#include "runtime/call.h"

#include <exception>

#include "jit/bytecode.h"
#include "jit/names.h"
#include "runtime/backends.h"
#include "runtime/binding.h"
#include "runtime/compile.h"
#include "runtime/control.h"
#include "runtime/effort.h"
#include "runtime/exits.h"
#include "runtime/hook.h"
#include "runtime/log.h"
#include "runtime/marks.h"
#include "runtime/misses.h"
#include "runtime/observe.h"
#include "runtime/return_rules.h"
#include "runtime/step.h"
#include "runtime/step_helpers.h"
#include "runtime/wrapper.h"

namespace kintsugi {

namespace {

// ---- What is being driven ------------------------------------------------------------------------------------------

struct Run {
  Activation activation;
  CodeRecord* record;
  Policy policy;
  bool tireless = false;  // everything is captured, worth it or not
  bool callee = false;    // of an activation that is being driven: left to the evaluator once its code proved plain

  PyThreadState* thread() const { return activation.thread; }
};

// An exit on its way: the segment stays while its exit is being read.
struct Left {
  Segment* segment = nullptr;
  ExitId id = kNoExit;
  Leaving leaving;
  bool built = false;

  Left() = default;
  Left(const Left&) = delete;
  Left& operator=(const Left&) = delete;
  ~Left() { release(); }
  void release() {
    if (segment != nullptr) unpin(std::exchange(segment, nullptr));
  }
};

// What carrying out an exit or an instruction answers: where to go on, or the end of the activation.
struct Onward {
  int offset = -1;             // negative: it ended
  PyObject* result = nullptr;  // then: what the activation returns
};
Onward go_on(int offset) { return {offset, nullptr}; }
Onward ended(PyObject* result) { return {-1, result}; }

PyObject* drive(Run& run, int offset);

// ---- Making the frame real -----------------------------------------------------------------------------------------

// Runs `then` with a real frame. When the frame has to be made, also what follows, up to the end of the activation.
template <class Then>
Onward with_frame(Run& run, Then&& then) {
  if (run.activation.frame != nullptr) return then();
  auto follow = [&]() -> PyObject* {
    Onward onward = then();
    return onward.offset < 0 ? onward.result : drive(run, onward.offset);
  };
  struct Context {
    Run& run;
    decltype(follow)& rest;
  } context{run, follow};
  auto taken = [](void* data, PyThreadState*, Frame* frame) -> PyObject* {
    auto& [run, rest] = *static_cast<Context*>(data);
    move_into_frame(run.activation, frame);
    CaptureScope capture(true);
    return contained(rest);
  };
  ++counters.frames;
  return ended(call_with_placeholders(run.activation.function, run.activation.code, taken, &context));
}

// ---- Ends ----------------------------------------------------------------------------------------------------------

Onward end(Run& run, PyObject* result) {
  return ended(run.activation.frame == nullptr ? result : finish(run.activation, result));
}

// Only the evaluator yields.
bool is_in_generator(const Run& run) {
  return run.activation.frame != nullptr && is_of_generator(run.activation.frame);
}

// The default evaluator runs the rest.
Onward rest(Run& run, int offset, const char* reason) {
  ++counters.hand_overs;
  count_reason("hand_over", std::string(reason) + " at " + place_text(run.activation.code, offset));
  return with_frame(run, [&] { return ended(hand_over(run.activation, offset)); });
}

// How a pending exception is delivered.
enum class Raise {
  kHere,   // at an instruction
  kAgain,  // by an instruction that adds nothing to its traceback
  kPlain,  // at an instruction, by the default evaluator, which runs the handlers: something of ours has failed
};

// The pending exception belongs to the instruction at `offset`. Its handler is an entry like others.
Onward raise(Run& run, int offset, Raise how = Raise::kHere) {
  bool plain = how == Raise::kPlain || is_in_generator(run) || (how == Raise::kHere && is_traced(run.thread()));
  if (plain && bytecode_of(run.activation.code).handler_at(opcode_unit(run.activation.code, offset)) != nullptr) {
    ++counters.hand_overs;
    count_reason("hand_over",
                 std::string(row(BreakReason::k_raises).type) + " at " + place_text(run.activation.code, offset));
  }
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  bool delivered = false;
  Onward onward = with_frame(run, [&] {
    delivered = true;
    PyErr_Restore(type, value, traceback);
    if (plain) return ended(raise_at(run.activation, offset));
    int handler = unwind(run.activation, offset, how == Raise::kAgain);
    if (handler < 0) return end(run, nullptr);
    if (is_traced(run.thread())) return rest(run, handler, "a tracer or profiler is on");
    return go_on(handler);
  });
  if (!delivered) {  // no frame could be made: that is the error now
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
  }
  return onward;
}

// No segment can be had at this entry: the rest runs plain. Counted where it was decided.
Onward run_plain(Run& run, int offset) {
  return with_frame(run, [&] { return ended(hand_over(run.activation, offset)); });
}

// ---- Carrying out exits --------------------------------------------------------------------------------------------

// One instruction through the C API, at a break.
Onward perform(Run& run, int offset) {
  ++counters.call_outs;
  StepResult done = step(run.activation, offset);
  switch (done.outcome) {
    case Outcome::kNext:
    case Outcome::kJump:
      if (is_traced(run.thread())) return rest(run, done.offset, "a tracer or profiler is on");
      return go_on(done.offset);
    case Outcome::kReturn: return end(run, done.value);
    case Outcome::kRaised: return raise(run, done.offset);
    case Outcome::kReraised: return raise(run, done.offset, Raise::kAgain);
    case Outcome::kCannot: break;
  }
  --counters.call_outs;
  return rest(run, offset, "an instruction that only the evaluator can run");
}

// What the evaluator looks at on its way back to a loop's head.
Onward pass_back_edge(Run& run, int offset) {
  if (is_traced(run.thread())) return rest(run, offset, "a tracer or profiler is on");
  if (!is_interrupted(run.thread())) return go_on(offset);
  return with_frame(run, [&] {
    set_position(run.activation, opcode_unit(run.activation.code, offset));
    if (serve_interrupts(run.thread()) < 0) return raise(run, offset);
    if (is_traced(run.thread())) return rest(run, offset, "a tracer or profiler is on");
    return go_on(offset);
  });
}

Onward leave_frame(Run& run, Left& left, size_t index);
Onward carry_out(Run& run, Left& left, size_t index);

// What the frame of an exit's next activation is told when it comes.
struct Inside {
  Run& caller;
  Left& left;
  size_t index;
};

// The exit lies in a callee that had been inlined: its frame is made real and continued on its own, then this one goes
// on after its call.
Onward continue_inside(Run& run, Left& left, size_t index) {
  Activation& caller = run.activation;
  int offset = left.leaving.frame(index).offset;
  ReturnRule rule = left.leaving.frame(index).rule;
  std::string refusal = left.leaving.refusal(index);  // the segment may go meanwhile
  set_position(caller, opcode_unit(caller.code, offset));
  Inside inside{run, left, index + 1};
  auto taken = [](void* data, PyThreadState* thread, Frame* frame) -> PyObject* {
    auto& [caller, left, index] = *static_cast<Inside*>(data);
    return contained([&, index = index]() -> PyObject* {
      Run inner{adopt(thread, frame), record_of(code_of(frame)), caller.policy, caller.tireless, /*callee=*/true};
      if (inner.record == nullptr) return nullptr;
      JudgedRun judged(*inner.record, !inner.tireless && inner.policy == Policy{});
      Onward onward = leave_frame(inner, left, index);
      return onward.offset < 0 ? onward.result : drive(inner, onward.offset);
    });
  };
  // The exit goes when its innermost frame has been written; callee and code must outlive that.
  Ref function(left.leaving.take_callee(index + 1));
  Ref code = Ref::share(reinterpret_cast<PyObject*>(left.leaving.code(index + 1)));
  ++counters.frames;
  PyObject* result = call_with_placeholders(reinterpret_cast<PyFunctionObject*>(function.get()),
                                            reinterpret_cast<PyCodeObject*>(code.get()), taken, &inside);
  if (result == nullptr) apply_rule_to_error(caller, rule, offset);
  const Bytecode& bytecode = bytecode_of(caller.code);
  int next = bytecode.at(offset).next;
  bool may_stop = rule == ReturnRule::kNext || rule == ReturnRule::kNextOr;
  if (result == nullptr && may_stop && PyErr_ExceptionMatches(PyExc_StopIteration)) {
    PyErr_Clear();
    if (rule == ReturnRule::kNext) {
      Py_DECREF(caller.stack()[--caller.depth]);
      next = bytecode.at(offset).target;
    }
  } else if (result == nullptr || !apply_rule(caller, rule, refusal, result)) {
    return raise(run, offset);
  }
  for (int unit = opcode_unit(caller.code, offset); next <= unit;) next = bytecode.at(next).next;
  if (is_traced(run.thread())) return rest(run, next, "a tracer or profiler is on");
  return go_on(next);
}

// The exit lies in a generator that the instruction at hand resumes: the instruction is performed, and the frame taken
// when it comes by. From there on the evaluator runs it.
Onward continue_resumed(Run& run, Left& left, size_t index) {
  Activation& caller = run.activation;
  int offset = left.leaving.frame(index).offset;
  set_position(caller, opcode_unit(caller.code, offset));
  Inside inside{run, left, index + 1};
  auto taken = [](void* data, PyThreadState* thread, Frame* frame) -> PyObject* {
    auto& [caller, left, index] = *static_cast<Inside*>(data);
    return contained([&, index = index]() -> PyObject* {
      Run inner{adopt(thread, frame), record_of(code_of(frame)), caller.policy};
      if (inner.record == nullptr) return nullptr;
      Onward onward = leave_frame(inner, left, index);
      return onward.offset < 0 ? onward.result : hand_over(inner.activation, onward.offset);
    });
  };
  Ref generator(left.leaving.take_callee(index + 1));
  ResumptionTaken resumption(generator.get(), taken, &inside);
  Onward onward = is_of_generator(caller.frame) ? ended(hand_over(caller, offset)) : perform(run, offset);
  resumption.end();
  if (!resumption.came()) {  // the instruction failed before: the frame holds placeholders that nobody must see
    SavedError saved;
    Ref none(PyObject_CallMethod(generator.get(), "close", nullptr));
    PyErr_Clear();
  }
  return onward;
}

// Frame `index` of the exit is this activation: its slots are written, then the exit's action is taken or the frame
// inside it is continued.
Onward leave_frame(Run& run, Left& left, size_t index) {
  Leaving& leaving = left.leaving;
  Activation& activation = run.activation;
  const FrameState& state = leaving.frame(index);
  int offset = state.offset;
  if (!left.built) {  // out of memory, most likely; nothing was written
    if (index == 0) leaving.restore_error();
    left.release();
    return raise(run, offset, Raise::kPlain);
  }
  leaving.write_slots(index, activation);
  leaving.hand_on_handled(index, run.thread());
  if (leaving.was_raised_in(index))
    return with_frame(run, [&] {
      leaving.add_tracebacks(index, activation);
      return carry_out(run, left, index);
    });
  return carry_out(run, left, index);
}

Onward carry_out(Run& run, Left& left, size_t index) {
  Leaving& leaving = left.leaving;
  Activation& activation = run.activation;
  int offset = leaving.frame(index).offset;
  if (index + 1 < leaving.frame_count()) {
    return with_frame(run, [&] {
      return leaving.frame(index).rule == ReturnRule::kResumed ? continue_resumed(run, left, index)
                                                               : continue_inside(run, left, index);
    });
  }
  ExitKind kind = leaving.exit()->kind;
  const Entry* entry = left.segment->entry;
  // A check that failed at the entry's own instruction would lead back here for ever: that instruction is performed
  // instead.
  bool stuck = kind == ExitKind::kNext && index == 0 && left.id != left.segment->code->plan.final_exit &&
               entry != nullptr && entry->offset == offset;
  bool backward = kind == ExitKind::kNext && index == 0 && entry != nullptr && offset <= entry->offset;
  const char* reason = "the trace says so";
  int record = leaving.exit()->break_index;
  if (record >= 0) {
    auto number = static_cast<BreakReason>(left.segment->code->plan.breaks[static_cast<size_t>(record)].reason);
    reason = row(number).type;
    if (number == BreakReason::k_everywhere) ++counters.steps_everywhere;
  }
  if (kind == ExitKind::kStep && leaving.was_interrupted()) kind = ExitKind::kRaise;
  if (kind == ExitKind::kRaise) leaving.restore_error();
  left.release();
  switch (kind) {
    case ExitKind::kNext:
      if (backward && !stuck) return pass_back_edge(run, offset);
      if (!stuck) return go_on(offset);
      [[fallthrough]];
    case ExitKind::kStep:
      if (is_in_generator(run)) return rest(run, offset, reason);
      if (activation.frame != nullptr || !needs_frame(activation.code, offset, activation.slots, activation.depth))
        return perform(run, offset);
      return with_frame(run, [&] { return perform(run, offset); });
    case ExitKind::kRaise: return raise(run, offset);
    case ExitKind::kHandOver: return rest(run, offset, reason);
    case ExitKind::kReturn: break;
  }
  PyErr_SetString(PyExc_SystemError, "kintsugi: an exit of an unknown kind");
  return end(run, nullptr);
}

Onward leave(Run& run, Left& left) {
  if (left.leaving.exit()->kind != ExitKind::kReturn) return leave_frame(run, left, 0);
  PyObject* result = left.leaving.take_result();
  if (result == nullptr) left.leaving.restore_error();
  left.release();
  if (run.activation.frame == nullptr) ++counters.frameless_calls;
  return end(run, result);
}

// ---- Look-up -------------------------------------------------------------------------------------------------------

// After a segment's code answered an exit: everything it hands on is built.
void take_exit(NativeState* state, Segment* pinned, ExitId id, Left* left) {
  left->segment = pinned;
  left->id = id;
  counters.kernels += pinned->kernels;
  left->built = left->leaving.build(state, id);
}

// Runs a segment. False: its guards do not hold, nothing happened.
[[gnu::noinline]] bool run_segment(const Activation& activation, Segment* segment, Left* left) {
  const SegmentCode* code = segment->code;
  auto* values = static_cast<uint64_t*>(alloca((static_cast<size_t>(code->plan.value_count) + 1) * sizeof(uint64_t)));
  NativeState state{reinterpret_cast<void* const*>(activation.slots),
                    activation.function,
                    values,
                    &helper_table(),
                    code,
                    nullptr,
                    kNoExit};
  pin(segment);
  ExitId id = code->entry(&state);
  if (id == kMissed) {
    unpin(segment);
    return false;
  }
  ++counters.segment_runs;
  take_exit(&state, segment, id, left);
  return true;
}

enum class Found { kLeft, kNone, kRaised };

constexpr int kMostForcedMisses = 50;  // an entry; a long loop under miss_every_guard still ends in time

// Runs the first segment of the entry that fits; if none does, a new one.
Found look_up(Run& run, Entry& entry, Left* left) {
  const Activation& activation = run.activation;
  if (options.miss_every_guard && entry.forced_misses < kMostForcedMisses) {
    ++entry.forced_misses;
    counters.forced_misses += !entry.segments.empty();
  } else {
    Segment* first = entry.first;
    if (first != nullptr && run_segment(activation, first, left)) return Found::kLeft;
    for (size_t i = 0; i < entry.segments.size(); ++i) {  // native code may release the lock, and the list change
      Segment* segment = entry.segments[i];
      if (segment == first || !run_segment(activation, segment, left)) continue;
      segment->last_run = next_tick();
      if (segment->entry != nullptr) entry.first = segment;
      return Found::kLeft;
    }
    counters.misses += !entry.segments.empty();
  }
  if (run.policy.isolation > 0) {  // the shared ones serve too
    Policy shared = run.policy;
    shared.isolation = 0;
    if (Entry* other = entry_at(*run.record, entry.offset, activation.stack(), activation.depth, shared))
      for (size_t i = 0; i < other->segments.size(); ++i)
        if (run_segment(activation, other->segments[i], left)) return Found::kLeft;
  }
  if (governing().stance == Stance::kAotEagerThenCompile && run.policy.isolation != kFirstTry &&
      remember(entry, activation)) {
    run.policy.isolation = kFirstTry;
    run.policy.backend = 0;
    Entry* first = entry_at(*run.record, entry.offset, activation.stack(), activation.depth, run.policy);
    return look_up(run, *first, left);
  }
  uint64_t foreign_runs_before = foreign_runs;
  Segment* made = compile_segment(entry, activation);
  if (made == nullptr) return PyErr_Occurred() ? Found::kRaised : Found::kNone;
  bool lives = made->entry != nullptr, fits = lives && run_segment(activation, made, left);
  std::string why = fits || !lives ? "" : explain_miss(*made, activation);
  unpin(made);
  if (fits) return Found::kLeft;
  if (!lives) return ++counters.fallbacks, Found::kNone;
  if (foreign_runs != foreign_runs_before && !why.empty()) return ++counters.fallbacks, Found::kNone;
  entry.beyond_help = true;
  return internal_failure("a new segment does not fit at " + place_text(activation.code, entry.offset) + ": " + why)
             ? Found::kRaised
             : Found::kNone;
}

PyObject* drive(Run& run, int offset) {
  Effort effort;
  int turns = 0;
  for (;;) {
    Activation& activation = run.activation;
    if (run.callee && run.record->plain && !run.tireless && run.policy == Policy{})
      return run_plain(run, offset).result;
    Policy policy = run.policy;
    policy.watched = activation.frame != nullptr && is_frame_object_shared(activation.frame);
    Entry* entry = entry_at(*run.record, offset, activation.stack(), activation.depth, policy);
    auto go = [&] {
      if (entry == nullptr) return rest(run, offset, "the value stack is too deep");
      Left left;
      switch (look_up(run, *entry, &left)) {
        case Found::kLeft: return leave(run, left);
        case Found::kNone: return run_plain(run, offset);
        default: return raise(run, offset, Raise::kPlain);
      }
    };
    Onward onward = go();
    if (onward.offset < 0) return onward.result;
    if (onward.offset <= offset && ++turns % 64 == 0 && !run.tireless &&
        is_wasted_loop(*run.record, run.policy, effort))
      onward = rest(run, onward.offset, "a loop without tensor operations that breaks at every turn");
    if (onward.offset < 0) return onward.result;
    offset = onward.offset;
  }
}

// ---- Frames that the hook offers -----------------------------------------------------------------------------------

// A break inside inlined callees makes all their frames at once: that must fit above the reserve.
CodeRecord* record_to_capture(PyCodeObject* code) {
  if (c_stack_left() < 2 * kStackReserve || options.disable || _Py_IsFinalizing()) return nullptr;
  CodeRecord* record = find_record(code);
  if (record == nullptr) record = record_of(code);
  return record == nullptr || record->skipped ? nullptr : record;
}

bool wants_frame(PyCodeObject* code) {
  auto wanted = [&] {
    CodeRecord* record = record_to_capture(code);
    return record != nullptr && !record->library && !record->plain;
  };
  bool wants = contained(wanted, false);
  PyErr_Clear();  // memory is short: the frame runs plain
  return wants;
}

// A callee of a call-out, or of code that was handed over.
PyObject* run_captured(void* for_ever, PyThreadState* thread, Frame* frame) {
  return contained([&]() -> PyObject* {
    Policy policy = governing().policy;
    policy.fullgraph = false;
    Run run{adopt(thread, frame), find_record(code_of(frame)), policy, /*tireless=*/for_ever != nullptr};
    KN_CHECK(run.record != nullptr);
    HandledKept handled(thread);
    ++counters.captured_frames;
    JudgedRun judged(*run.record, !run.tireless);
    return drive(run, 0);
  });
}

// Tensors or not, the standard library too.
bool wants_any_frame(PyCodeObject* code) { return record_to_capture(code) != nullptr; }
constexpr bool kForEver = true;  // what run_captured gets then
constexpr Capture everything = {wants_any_frame, run_captured, const_cast<bool*>(&kForEver)};

PyObject* capture_everything(PyObject*, PyObject* on) {
  int wanted = PyObject_IsTrue(on);
  if (wanted < 0) return nullptr;
  capture_every_thread(wanted ? &everything : nullptr);
  Py_RETURN_NONE;
}

// ---- Calls from outside --------------------------------------------------------------------------------------------

struct Compiled {
  Wrapper wrapper;
  Policy policy;
  int recompile_limit;  // 0: the setting
  // Of the code object that the function had at the last slow call; the fast path compares it.
  PyCodeObject* code;  // owned: its address must not come back as another's
  CodeRecord* record;
  Entry* entry;           // at offset 0
  Py_ssize_t parameters;  // positional ones, if a call that gives exactly these needs no binding; else -1
  int wasted_calls;       // one after the other, see note_call

  PyFunctionObject* function() const { return reinterpret_cast<PyFunctionObject*>(wrapper.function); }
};
PyTypeObject* compiled_type = nullptr;
Compiled* as_compiled(PyObject* object) { return reinterpret_cast<Compiled*>(object); }

PyObject* forward(Compiled* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  Ref function = Ref::share(self->wrapper.function);
  return PyObject_Vectorcall(function.get(), args, nargsf, kwnames);
}

// Nothing below is captured.
PyObject* call_plain(Compiled* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  CaptureScope off(false);
  return forward(self, args, nargsf, kwnames);
}

bool is_running(PyCodeObject* code) {
  const CodeRecord* record = find_record(code);
  if (record == nullptr) return false;
  for (const auto& entry : record->entries)
    for (const Segment* segment : entry->segments)
      if (segment->running > 0) return true;
  return false;
}

// The function's code object was replaced (or this is the first call).
bool refresh(Compiled* self) {
  PyCodeObject* code = code_of(self->function());
  if (self->code == code) return true;
  CodeRecord* record = record_of(code);
  if (record == nullptr) return false;
  self->record = record;
  self->entry = entry_at(*record, 0, nullptr, 0, self->policy);
  bool simple = code->co_kwonlyargcount == 0 && (code->co_flags & (CO_VARARGS | CO_VARKEYWORDS)) == 0;
  self->parameters = simple ? code->co_argcount : -1;
  PyCodeObject* old = std::exchange(self->code, reinterpret_cast<PyCodeObject*>(Py_NewRef(code)));
  if (old != nullptr && !is_running(old)) Py_DECREF(old);  // else its exits name it: it stays for good
  return true;
}

void drop_slots(Activation& activation) {
  int count = local_slots(activation.code) + activation.depth;
  for (int i = 0; i < count; ++i) Py_XDECREF(activation.slots[i]);
}

// A run over an array of slots, not yet with a frame. `begin` answers where it goes on.
template <class Begin>
PyObject* run_frameless(Compiled* self, PyCodeObject* code, Begin&& begin) {
  if (c_stack_is_short()) return nullptr;
  Policy policy = self->policy;
  if (stance_setting.backend != 0) policy.backend = stance_setting.backend;
  BackendUse use(policy.backend);
  GoverningScope scope({policy, stance_setting.stance, self->recompile_limit});
  Ref keep_function = Ref::share(self->wrapper.function), keep_code = Ref::share(reinterpret_cast<PyObject*>(code));
  size_t count = static_cast<size_t>(local_slots(code) + stack_slots(code));
  Run run{};
  run.activation.function = self->function();
  run.activation.code = code;
  run.activation.slots = static_cast<PyObject**>(alloca((count + 1) * sizeof(PyObject*)));
  run.activation.thread = this_thread();
  run.record = find_record(code);
  run.policy = policy;
  std::fill_n(run.activation.slots, count, nullptr);
  HandledKept handled(run.activation.thread);
  return contained([&]() -> PyObject* {
    Onward onward = begin(run);
    PyObject* result = onward.offset < 0 ? onward.result : drive(run, onward.offset);
    if (run.activation.frame == nullptr) drop_slots(run.activation);
    return result;
  });
}

PyObject* refuse_fullgraph(const char* why) {
  PyErr_Format(PyExc_RuntimeError, "fullgraph=True, but no compiled frame was found: %s", why);
  return nullptr;
}

bool is_switched_off(const Compiled* self) {
  return stance_setting.stance == Stance::kForceEager || (options.disable && !self->policy.fullgraph);
}

// Everything but a hit of the first segment.
[[gnu::noinline]] PyObject* call_slow(Compiled* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  PyThreadState* thread = this_thread();
  if (options.disable) return refuse_fullgraph("kt._dynamo.config.disable is on");
  if (!can_take_frames(thread) || is_traced(thread) || _Py_IsFinalizing() || !is_ordinary(code_of(self->function())))
    return self->policy.fullgraph && is_generator(code_of(self->function()))
               ? refuse_generator(code_of(self->function()))
               : forward(self, args, nargsf, kwnames);
  if (!refresh(self)) return nullptr;
  auto count = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
  if (kwnames == nullptr && is_plain_call(*self->record, self->policy, args, count)) {
    ++counters.plain_calls;
    return forward(self, args, nargsf, kwnames);
  }
  bool binds = true;
  size_t segments_before = self->entry->segments.size();
  Effort effort;
  Ref keep = Ref::share(reinterpret_cast<PyObject*>(self));
  PyObject* result = run_frameless(self, self->code, [&](Run& run) {
    binds = bind_arguments(run.activation.function, args, count, kwnames, run.activation.slots);
    if (!binds) return ended(nullptr);
    if (!options.no_frameless) return go_on(0);
    ++counters.early_frames;
    return with_frame(run, [] { return go_on(0); });
  });
  if (!binds && !PyErr_Occurred()) return forward(self, args, nargsf, kwnames);  // which raises Python's own TypeError
  if (kwnames == nullptr) {
    const auto& segments = self->entry->segments;
    if (segments.size() > segments_before) mark_if_plain(*self->record, self->policy, segments, args, count);
    note_call(*self->record, self->policy, &self->wasted_calls, args, count, effort);
  }
  return result;
}

// The first segment of `code` ran over the caller's arguments and left by another exit than the return. Meanwhile a
// finaliser may have given the function other code.
[[gnu::noinline]] PyObject* leave_fast(Compiled* self, PyCodeObject* code, PyObject* const* args, NativeState* state,
                                       Segment* segment, ExitId id) {
  Left left;
  take_exit(state, segment, id, &left);
  Ref keep = Ref::share(reinterpret_cast<PyObject*>(self));
  if (left.built && left.leaving.exit()->kind == ExitKind::kReturn) {
    ++counters.frameless_calls;
    return left.leaving.take_result();
  }
  Effort effort;
  PyObject* result = run_frameless(self, code, [&](Run& run) {
    for (int i = 0; i < code->co_argcount; ++i) run.activation.slots[i] = Py_NewRef(args[i]);
    return leave(run, left);
  });
  if (self->code == code)
    note_call(*self->record, self->policy, &self->wasted_calls, args, static_cast<size_t>(code->co_argcount), effort);
  return result;
}

// The first segment does not fit; another may.
[[gnu::noinline]] PyObject* call_another(Compiled* self, PyObject* const* args, size_t nargsf, const Segment* missed) {
  PyCodeObject* python = self->code;
  const auto& segments = self->entry->segments;
  auto count = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
  if (is_plain_call(*self->record, self->policy, args, count)) {
    ++counters.plain_calls;
    return forward(self, args, nargsf, nullptr);
  }
  int32_t most = 0;
  for (const Segment* segment : segments) most = std::max(most, segment->code->plan.value_count);
  auto* values = static_cast<uint64_t*>(alloca((static_cast<size_t>(most) + 1) * sizeof(uint64_t)));
  for (Segment* segment : segments) {  // guards run no foreign code: the list stays as it is
    if (segment == missed || !segment->reads_parameters_only) continue;
    NativeState state{reinterpret_cast<void* const*>(args),
                      self->wrapper.function,
                      values,
                      &helper_table(),
                      segment->code,
                      nullptr,
                      kNoExit};
    pin(segment);
    ExitId id = segment->code->entry(&state);
    if (id == kMissed) {
      unpin(segment);
      continue;
    }
    segment->last_run = next_tick();
    if (segment->entry != nullptr) self->entry->first = segment;
    return leave_fast(self, python, args, &state, segment, id);
  }
  return call_slow(self, args, nargsf, nullptr);
}

PyObject* call_compiled(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  Compiled* self = as_compiled(object);
  if (kwnames != nullptr || PyVectorcall_NARGS(nargsf) != self->parameters || code_of(self->function()) != self->code ||
      is_traced(this_thread()) || options.indirect) [[unlikely]] {
    if (is_switched_off(self)) return call_plain(self, args, nargsf, kwnames);
    return contained([&] { return call_slow(self, args, nargsf, kwnames); });
  }
  PyCodeObject* python = self->code;
  Segment* segment = self->entry->first;
  if (segment == nullptr || !segment->reads_parameters_only)
    return contained([&] { return call_slow(self, args, nargsf, kwnames); });
  const SegmentCode* code = segment->code;
  auto* values = static_cast<uint64_t*>(alloca((static_cast<size_t>(code->plan.value_count) + 1) * sizeof(uint64_t)));
  NativeState state{
      reinterpret_cast<void* const*>(args), self->wrapper.function, values, &helper_table(), code, nullptr, kNoExit};
  pin(segment);
  ExitId id = code->entry(&state);
  if (state.result != nullptr) [[likely]] {
    counters.kernels += segment->kernels;
    ++counters.frameless_calls;
    unpin(segment);
    return static_cast<PyObject*>(state.result);
  }
  if (id != kMissed) return contained([&] { return leave_fast(self, python, args, &state, segment, id); });
  unpin(segment);
  return contained([&] { return call_another(self, args, nargsf, segment); });
}

// ---- The wrapper ---------------------------------------------------------------------------------------------------

void release_compiled(Wrapper* wrapper) {
  auto* self = reinterpret_cast<Compiled*>(wrapper);
  Py_CLEAR(self->code);
  drop_backend(std::exchange(self->policy.backend, 0));
  drop_isolation(std::exchange(self->policy.isolation, 0));
}

int visit_compiled(Wrapper* wrapper, visitproc visit, void* arg) {
  return visit_backend(reinterpret_cast<Compiled*>(wrapper)->policy.backend, visit, arg);
}

PyObject* rebuild_compiled(Wrapper* wrapper) {
  const Policy& policy = reinterpret_cast<Compiled*>(wrapper)->policy;
  Ref module = import_module("kintsugi._compile");
  Ref function(module ? PyObject_GetAttrString(module.get(), "compile_again") : nullptr);
  PyObject* backend = backend_object(policy.backend);
  return function ? Py_BuildValue("O(OiiO)", function.get(), wrapper->function, int{policy.fullgraph},
                                  int{policy.dynamic}, backend == nullptr ? Py_None : backend)
                  : nullptr;
}

const WrapperKind compiled_kind = {"kintsugi._runtime._driver.CompiledFunction",
                                   sizeof(Compiled),
                                   "A Python function that is compiled as it runs.",
                                   "compiled",
                                   release_compiled,
                                   rebuild_compiled,
                                   visit_compiled};

// make_compiled(function, fullgraph, dynamic, backend, isolate, recompile_limit): dynamic is -1 (None), 0 or 1; backend
// a callable or None.
PyObject* make_compiled_method(PyObject*, PyObject* args) {
  PyObject *function, *backend = Py_None;
  int fullgraph, dynamic, isolate = 0, limit = 0;
  if (!PyArg_ParseTuple(args, "O!pi|Oii", &PyFunction_Type, &function, &fullgraph, &dynamic, &backend, &isolate,
                        &limit))
    return nullptr;
  auto* made =
      reinterpret_cast<Compiled*>(make_wrapper(compiled_type, reinterpret_cast<PyObject*>(function), call_compiled));
  if (made == nullptr) return nullptr;
  forget_shown_breaks();
  made->policy.fullgraph = fullgraph != 0;
  made->policy.dynamic = static_cast<int8_t>(dynamic < 0 ? -1 : dynamic != 0);
  made->policy.backend = use_backend(backend);
  made->policy.isolation = isolate < 0 ? isolate : isolate > 0 ? use_isolation() : 0;
  made->recompile_limit = limit;
  made->parameters = -1;
  return reinterpret_cast<PyObject*>(made);
}

PyMethodDef methods[] = {
    {"make_compiled", make_compiled_method, METH_VARARGS,
     "make_compiled(function, fullgraph, dynamic, backend=None, isolate=False, recompile_limit=0): see kt.compile"},
    {"capture_everything", capture_everything, METH_O,
     "capture_everything(on): every ordinary function that this thread, or one that starts later, "
     "calls is compiled, the standard library too; for tests"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyFunctionObject* compiled_target(Borrowed callable, bool* fullgraph) {
  if (Py_TYPE(callable) != compiled_type) return nullptr;
  if (fullgraph != nullptr) *fullgraph = as_compiled(callable)->policy.fullgraph;
  return as_compiled(callable)->function();
}

bool init_call(PyObject* module) {
  read_environment();
  // A namespace of its own: the package shows every public name of the extension.
  PyObject* driver = PyImport_AddModule("kintsugi._runtime._driver");
  if (driver == nullptr || PyModule_AddObjectRef(module, "_driver", driver) < 0) return false;
  compiled_type = make_wrapper_type(&compiled_kind);
  if (compiled_type == nullptr || PyModule_AddType(driver, compiled_type) < 0) return false;
  if (!make_names() || !init_hook() || !init_step() || !init_entries()) return false;
  set_capture({wants_frame, run_captured, nullptr});
  return PyModule_AddFunctions(driver, methods) == 0 && init_control(driver) && init_marks(driver) &&
         init_observe(driver);
}

}  // namespace kintsugi
