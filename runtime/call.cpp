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
//                                                                       └► raise, hand over, return: the end
#include "runtime/call.h"

#include <exception>

#include "jit/bytecode.h"
#include "runtime/binding.h"
#include "runtime/compile.h"
#include "runtime/control.h"
#include "runtime/exits.h"
#include "runtime/hook.h"
#include "runtime/log.h"
#include "runtime/observe.h"
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

// A C++ exception must not cross CPython.
template <class Function>
PyObject* contained(Function&& function) {
  try {
    return function();
  } catch (const std::exception& failure) {
    PyErr_Format(PyExc_SystemError, "kintsugi: %s", failure.what());
    return nullptr;
  }
}

// Runs `then` with a real frame, and what follows it up to the end of the activation. Answers the activation's result.
template <class Then>
PyObject* with_frame(Run& run, Then&& then) {
  auto follow = [&]() -> PyObject* {
    Onward onward = then();
    return onward.offset < 0 ? onward.result : drive(run, onward.offset);
  };
  if (run.activation.frame != nullptr) return follow();
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
  return call_with_placeholders(run.activation.function, run.activation.code, taken, &context);
}

// ---- Ends ----------------------------------------------------------------------------------------------------------

PyObject* end(Run& run, PyObject* result) {
  return run.activation.frame == nullptr ? result : finish(run.activation, result);
}

// The default evaluator runs the rest.
PyObject* rest(Run& run, int offset, const char* reason) {
  ++counters.hand_overs;
  count_reason("hand_over", std::string(reason) + " at " + place_text(run.activation.code, offset));
  return with_frame(run, [&] { return ended(hand_over(run.activation, offset)); });
}

// The pending exception belongs to the instruction at `offset`.
PyObject* raise(Run& run, int offset) {
  if (bytecode_of(run.activation.code).handler_at(offset) != nullptr) {
    ++counters.hand_overs;
    count_reason("hand_over",
                 std::string(row(BreakReason::k_raises).type) + " at " + place_text(run.activation.code, offset));
  }
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  bool delivered = false;
  PyObject* result = with_frame(run, [&] {
    delivered = true;
    PyErr_Restore(type, value, traceback);
    return ended(raise_at(run.activation, offset));
  });
  if (!delivered) {  // no frame could be made: that is the error now
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
  }
  return result;
}

// No segment can be had at this entry: the rest runs plain. Counted where it was decided.
PyObject* run_plain(Run& run, int offset) {
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
      if (is_traced(run.thread())) return ended(rest(run, done.offset, "a tracer or profiler is on"));
      return go_on(done.offset);
    case Outcome::kReturn: return ended(end(run, done.value));
    case Outcome::kRaised: return ended(raise(run, done.offset));
    case Outcome::kCannot: break;
  }
  --counters.call_outs;
  return ended(rest(run, offset, "an instruction that only the evaluator can run"));
}

// What the evaluator looks at on its way back to a loop's head.
Onward pass_back_edge(Run& run, int offset) {
  if (is_traced(run.thread())) return ended(rest(run, offset, "a tracer or profiler is on"));
  if (!is_interrupted(run.thread())) return go_on(offset);
  return ended(with_frame(run, [&] {
    set_position(run.activation, opcode_unit(run.activation.code, offset));
    if (serve_interrupts(run.thread()) < 0) return ended(raise(run, offset));
    if (is_traced(run.thread())) return ended(rest(run, offset, "a tracer or profiler is on"));
    return go_on(offset);
  }));
}

// What the result of a continued callee becomes for its caller. Takes the result.
bool apply_rule(Activation& activation, ReturnRule rule, PyObject* result_stolen) {
  Ref result(result_stolen);
  if (rule == ReturnRule::kDiscard) return true;
  if (rule == ReturnRule::kInit) {  // Objects/typeobject.c, slot_tp_init
    if (result.get() == Py_None) return true;
    PyErr_Format(PyExc_TypeError, "__init__() should return None, not '%.200s'", Py_TYPE(result.get())->tp_name);
    return false;
  }
  if (rule != ReturnRule::kPush) {
    int truth = PyObject_IsTrue(result.get());
    if (truth < 0) return false;
    result = Ref(PyBool_FromLong((truth != 0) == (rule == ReturnRule::kTruth)));
  }
  activation.stack()[activation.depth++] = result.release();
  return true;
}

Onward leave_frame(Run& run, Left& left, size_t index);

// The exit lies in a callee that had been inlined: its frame is made real and continued on its own, then this one goes
// on after its call.
Onward continue_inside(Run& run, Left& left, size_t index) {
  Activation& caller = run.activation;
  int offset = left.leaving.frame(index).offset;
  ReturnRule rule = left.leaving.frame(index).rule;
  set_position(caller, opcode_unit(caller.code, offset));
  struct Context {
    Run& caller;
    Left& left;
    size_t index;
  } context{run, left, index + 1};
  auto taken = [](void* data, PyThreadState* thread, Frame* frame) -> PyObject* {
    auto& [caller, left, index] = *static_cast<Context*>(data);
    return contained([&, index = index]() -> PyObject* {
      Run inner{adopt(thread, frame), record_of(code_of(frame)), caller.policy};
      if (inner.record == nullptr) return nullptr;
      Onward onward = leave_frame(inner, left, index);
      return onward.offset < 0 ? onward.result : drive(inner, onward.offset);
    });
  };
  // The exit goes when its innermost frame has been written; callee and code must outlive that.
  Ref function = Ref::share(reinterpret_cast<PyObject*>(left.leaving.function(index + 1)));
  Ref code = Ref::share(reinterpret_cast<PyObject*>(left.leaving.code(index + 1)));
  ++counters.frames;
  PyObject* result = call_with_placeholders(reinterpret_cast<PyFunctionObject*>(function.get()),
                                            reinterpret_cast<PyCodeObject*>(code.get()), taken, &context);
  if (result == nullptr || !apply_rule(caller, rule, result)) return ended(raise(run, offset));
  const Bytecode& bytecode = bytecode_of(caller.code);
  int next = bytecode.at(offset).next;
  for (int unit = opcode_unit(caller.code, offset); next <= unit;) next = bytecode.at(next).next;
  if (is_traced(run.thread())) return ended(rest(run, next, "a tracer or profiler is on"));
  return go_on(next);
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
    return ended(raise(run, offset));
  }
  leaving.write_slots(index, activation);
  if (index + 1 < leaving.frame_count()) {
    if (activation.frame != nullptr) return continue_inside(run, left, index);
    return ended(with_frame(run, [&] { return continue_inside(run, left, index); }));
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
  if (kind == ExitKind::kRaise) leaving.restore_error();
  left.release();
  switch (kind) {
    case ExitKind::kNext:
      if (backward && !stuck) return pass_back_edge(run, offset);
      if (!stuck) return go_on(offset);
      [[fallthrough]];
    case ExitKind::kStep:
      if (activation.frame != nullptr || !needs_frame(activation.code, offset, activation.slots, activation.depth))
        return perform(run, offset);
      return ended(with_frame(run, [&] { return perform(run, offset); }));
    case ExitKind::kRaise: return ended(raise(run, offset));
    case ExitKind::kHandOver: return ended(rest(run, offset, reason));
    case ExitKind::kReturn: break;
  }
  PyErr_SetString(PyExc_SystemError, "kintsugi: an exit of an unknown kind");
  return ended(end(run, nullptr));
}

Onward leave(Run& run, Left& left) {
  if (left.leaving.exit()->kind != ExitKind::kReturn) return leave_frame(run, left, 0);
  PyObject* result = left.leaving.take_result();
  if (result == nullptr) left.leaving.restore_error();
  left.release();
  if (run.activation.frame == nullptr) ++counters.frameless_calls;
  return ended(end(run, result));
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
  Segment* made = compile_segment(entry, activation);
  if (made == nullptr) return PyErr_Occurred() ? Found::kRaised : Found::kNone;
  pin(made);
  bool fits = run_segment(activation, made, left);
  std::string why = fits ? "" : explain_miss(*made, activation);
  unpin(made);
  if (fits) return Found::kLeft;
  entry.beyond_help = true;
  return internal_failure("a new segment does not fit at " + place_text(activation.code, entry.offset) + ": " + why)
             ? Found::kRaised
             : Found::kNone;
}

PyObject* drive(Run& run, int offset) {
  for (;;) {
    Activation& activation = run.activation;
    Entry* entry = entry_at(*run.record, offset, activation.stack(), activation.depth, run.policy);
    if (entry == nullptr) return rest(run, offset, "the value stack is too deep");
    Left left;
    switch (look_up(run, *entry, &left)) {
      case Found::kLeft: break;
      case Found::kNone: return run_plain(run, offset);
      case Found::kRaised: return end(run, nullptr);
    }
    Onward onward = leave(run, left);
    if (onward.offset < 0) return onward.result;
    offset = onward.offset;
  }
}

// ---- Frames that the hook offers -----------------------------------------------------------------------------------

constexpr int kFruitlessRuns = 8;  // complete captured runs without a tensor operation, before a code object runs plain

bool has_tensor_ops(const CodeRecord& record) {
  for (const auto& entry : record.entries)
    for (const Segment* segment : entry->segments)
      if (segment->tensor_ops > 0 || (!segment->returns && segment->code->plan.breaks.empty())) return true;
  return false;
}

bool wants_frame(PyCodeObject* code) {
  // A break inside inlined callees makes all their frames at once: that must fit above the reserve.
  if (c_stack_left() < 2 * kStackReserve) return false;
  CodeRecord* record = find_record(code);
  if (record == nullptr) record = record_of(code);
  return record != nullptr && !record->skipped && !record->plain && !options.disable && !_Py_IsFinalizing();
}

// A callee of a call-out, or of code that was handed over.
PyObject* run_captured(void*, PyThreadState* thread, Frame* frame) {
  return contained([&]() -> PyObject* {
    Run run{adopt(thread, frame), find_record(code_of(frame)), Policy{}};
    KN_CHECK(run.record != nullptr);
    ++counters.captured_frames;
    PyObject* result = drive(run, 0);
    if (!options.stressed() && ++run.record->fruitless_runs >= kFruitlessRuns) {
      run.record->plain = !has_tensor_ops(*run.record);
      run.record->fruitless_runs = 0;
    }
    return result;
  });
}

// ---- Calls from outside --------------------------------------------------------------------------------------------

struct Compiled {
  Wrapper wrapper;
  Policy policy;
  // Of the code object that the function had at the last slow call; the fast path compares it.
  PyCodeObject* code;  // owned: its address must not come back as another's
  CodeRecord* record;
  Entry* entry;           // at offset 0
  Py_ssize_t parameters;  // positional ones, if a call that gives exactly these needs no binding; else -1

  PyFunctionObject* function() const { return reinterpret_cast<PyFunctionObject*>(wrapper.function); }
};
PyTypeObject* compiled_type = nullptr;
Compiled* as_compiled(PyObject* object) { return reinterpret_cast<Compiled*>(object); }

PyObject* forward(Compiled* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  Ref function = Ref::share(self->wrapper.function);
  return PyObject_Vectorcall(function.get(), args, nargsf, kwnames);
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
  Py_XDECREF(old);
  return true;
}

// Argument types for which this code turned out to hold nothing worth compiling.
bool is_plain_call(const CodeRecord& record, PyObject* const* args, size_t count) {
  for (const auto& types : record.plain_types) {
    if (types.size() != count) continue;
    bool same = true;
    for (size_t i = 0; i < count && same; ++i) same = Py_TYPE(args[i]) == types[i];
    if (same) return true;
  }
  return false;
}

// Once several variants were compiled and none had a tensor operation or a break, further ones are not worth it.
void mark_if_plain(Compiled* self, PyObject* const* args, size_t count, size_t segments_before) {
  constexpr size_t kVariants = 3, kMostMarks = 8;
  if (self->policy != Policy{} || options.stressed()) return;
  const auto& segments = self->entry->segments;
  if (segments.size() < kVariants || segments.size() == segments_before) return;
  for (const auto& entry : self->record->entries)
    for (const Segment* segment : entry->segments)
      if (segment->tensor_ops > 0 || !segment->returns) return;
  if (self->record->plain_types.size() >= kMostMarks) return;
  auto& types = self->record->plain_types.emplace_back();
  for (size_t i = 0; i < count; ++i) types.push_back(Py_TYPE(args[i]));
}

void drop_slots(Activation& activation) {
  int count = local_slots(activation.code) + activation.depth;
  for (int i = 0; i < count; ++i) Py_XDECREF(activation.slots[i]);
}

// A run over an array of slots, not yet with a frame. `begin` answers where it goes on.
template <class Begin>
PyObject* run_frameless(Compiled* self, Begin&& begin) {
  if (c_stack_is_short()) return nullptr;
  Ref function = Ref::share(self->wrapper.function), code = Ref::share(reinterpret_cast<PyObject*>(self->code));
  size_t count = static_cast<size_t>(local_slots(self->code) + stack_slots(self->code));
  Run run{};
  run.activation.function = self->function();
  run.activation.code = self->code;
  run.activation.slots = static_cast<PyObject**>(alloca((count + 1) * sizeof(PyObject*)));
  run.activation.thread = this_thread();
  run.record = self->record;
  run.policy = self->policy;
  std::fill_n(run.activation.slots, count, nullptr);
  return contained([&]() -> PyObject* {
    Onward onward = begin(run);
    PyObject* result = onward.offset < 0 ? onward.result : drive(run, onward.offset);
    if (run.activation.frame == nullptr) drop_slots(run.activation);
    return result;
  });
}

// Everything but a hit of the first segment.
[[gnu::noinline]] PyObject* call_slow(Compiled* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  PyThreadState* thread = this_thread();
  if (!can_take_frames(thread) || is_traced(thread) || options.disable || _Py_IsFinalizing() ||
      !is_ordinary(code_of(self->function())))
    return forward(self, args, nargsf, kwnames);
  if (!refresh(self)) return nullptr;
  auto count = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
  if (kwnames == nullptr && is_plain_call(*self->record, args, count)) {
    ++counters.plain_calls;
    return forward(self, args, nargsf, kwnames);
  }
  bool binds = true;
  size_t segments_before = self->entry->segments.size();
  Ref keep = Ref::share(reinterpret_cast<PyObject*>(self));
  PyObject* result = run_frameless(self, [&](Run& run) {
    binds = bind_arguments(run.activation.function, args, count, kwnames, run.activation.slots);
    if (!binds) return ended(nullptr);
    if (!options.no_frameless) return go_on(0);
    ++counters.early_frames;
    return ended(with_frame(run, [] { return go_on(0); }));
  });
  if (!binds && !PyErr_Occurred()) return forward(self, args, nargsf, kwnames);  // which raises Python's own TypeError
  if (kwnames == nullptr) mark_if_plain(self, args, count, segments_before);
  return result;
}

// The first segment ran over the caller's arguments and left by another exit than the return.
[[gnu::noinline]] PyObject* leave_fast(Compiled* self, PyObject* const* args, NativeState* state, Segment* segment,
                                       ExitId id) {
  Left left;
  take_exit(state, segment, id, &left);
  Ref keep = Ref::share(reinterpret_cast<PyObject*>(self));
  if (left.built && left.leaving.exit()->kind == ExitKind::kReturn) {
    ++counters.frameless_calls;
    return left.leaving.take_result();
  }
  return run_frameless(self, [&](Run& run) {
    for (Py_ssize_t i = 0; i < self->parameters; ++i) run.activation.slots[i] = Py_NewRef(args[i]);
    return leave(run, left);
  });
}

// The first segment does not fit; another may.
[[gnu::noinline]] PyObject* call_another(Compiled* self, PyObject* const* args, size_t nargsf, const Segment* missed) {
  const auto& segments = self->entry->segments;
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
    return leave_fast(self, args, &state, segment, id);
  }
  return call_slow(self, args, nargsf, nullptr);
}

PyObject* call_compiled(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  Compiled* self = as_compiled(object);
  if (kwnames != nullptr || PyVectorcall_NARGS(nargsf) != self->parameters || code_of(self->function()) != self->code ||
      is_traced(this_thread()) || options.miss_every_guard || options.no_frameless || options.disable) [[unlikely]]
    return call_slow(self, args, nargsf, kwnames);
  Segment* segment = self->entry->first;
  if (segment == nullptr || !segment->reads_parameters_only) return call_slow(self, args, nargsf, kwnames);
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
  if (id != kMissed) return leave_fast(self, args, &state, segment, id);
  unpin(segment);
  return call_another(self, args, nargsf, segment);
}

// ---- The wrapper ---------------------------------------------------------------------------------------------------

void release_compiled(Wrapper* wrapper) { Py_CLEAR(reinterpret_cast<Compiled*>(wrapper)->code); }

PyObject* rebuild_compiled(Wrapper* wrapper) {
  const Policy& policy = reinterpret_cast<Compiled*>(wrapper)->policy;
  Ref module(PyImport_ImportModule("kintsugi._compile"));
  Ref function(module ? PyObject_GetAttrString(module.get(), "compile_again") : nullptr);
  return function
             ? Py_BuildValue("O(Oii)", function.get(), wrapper->function, int{policy.fullgraph}, int{policy.dynamic})
             : nullptr;
}

const WrapperKind compiled_kind = {"kintsugi._runtime._driver.CompiledFunction",
                                   sizeof(Compiled),
                                   "A Python function that is compiled as it runs.",
                                   "compiled",
                                   release_compiled,
                                   rebuild_compiled};

// make_compiled(function, fullgraph, dynamic): dynamic is -1 (None), 0 or 1.
PyObject* make_compiled_method(PyObject*, PyObject* args) {
  PyObject* function;
  int fullgraph, dynamic;
  if (!PyArg_ParseTuple(args, "O!pi", &PyFunction_Type, &function, &fullgraph, &dynamic)) return nullptr;
  return make_compiled(reinterpret_cast<PyFunctionObject*>(function),
                       {fullgraph != 0, static_cast<int8_t>(dynamic < 0 ? -1 : dynamic != 0)});
}

PyMethodDef methods[] = {{"make_compiled", make_compiled_method, METH_VARARGS,
                          "make_compiled(function, fullgraph, dynamic): see kt.compile"},
                         {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyObject* make_compiled(PyFunctionObject* function, const Policy& policy) {
  auto* made =
      reinterpret_cast<Compiled*>(make_wrapper(compiled_type, reinterpret_cast<PyObject*>(function), call_compiled));
  if (made == nullptr) return nullptr;
  made->policy = policy;
  made->parameters = -1;
  return reinterpret_cast<PyObject*>(made);
}

PyFunctionObject* compiled_target(Borrowed callable) {
  return Py_TYPE(callable) == compiled_type ? as_compiled(callable)->function() : nullptr;
}

bool init_call(PyObject* module) {
  read_environment();
  // A namespace of its own: the package shows every public name of the extension.
  PyObject* driver = PyImport_AddModule("kintsugi._runtime._driver");
  if (driver == nullptr || PyModule_AddObjectRef(module, "_driver", driver) < 0) return false;
  compiled_type = make_wrapper_type(&compiled_kind);
  if (compiled_type == nullptr || PyModule_AddType(driver, compiled_type) < 0) return false;
  if (!init_hook() || !init_step() || !init_entries()) return false;
  set_capture({wants_frame, run_captured, nullptr});
  return PyModule_AddFunctions(driver, methods) == 0 && init_control(driver) && init_observe(driver);
}

}  // namespace kintsugi
