#include "runtime/compile.h"

#include <algorithm>
#include <chrono>

#include "guards/check.h"
#include "jit/changing_classes.h"
#include "kernels/layout.h"
#include "runtime/backends.h"
#include "runtime/control.h"
#include "runtime/hook.h"
#include "runtime/log.h"
#include "runtime/misses.h"
#include "runtime/observe.h"
#include "runtime/tensor.h"

namespace kintsugi {

namespace {

constexpr size_t kTinyCodeMemory = 64 * 1024;

double now_us() {
  using namespace std::chrono;
  return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

// ---- Learning ------------------------------------------------------------------------------------------------------

// The value differs from the recorded one in what a more general segment could take as an input.
// `last`: the entry has all its segments, and only a general one can serve what is to come. Text stays a constant until
// then: as an object it can be handed on, but not compared.
bool could_be_general(const Guard& guard, bool last, const SegmentCode& code, const std::vector<uint64_t>& values) {
  if (guard.a == kNoValue || !options.automatic_dynamic_shapes) return false;
  auto* object = reinterpret_cast<PyObject*>(values[static_cast<size_t>(guard.a)]);
  if (object == nullptr) return false;
  switch (guard.kind) {
    case GuardKind::k_int_equal: return PyLong_CheckExact(object) && !options.specialize_int;
    case GuardKind::k_float_equal: return PyFloat_CheckExact(object) && !options.specialize_float;
    case GuardKind::k_equal: return last && (PyUnicode_CheckExact(object) || PyBytes_CheckExact(object));
    case GuardKind::k_list_length: return PyList_CheckExact(object);
    case GuardKind::k_range_equal: return PyRange_Check(object);
    case GuardKind::k_tensor_layout: {
      const auto* layout = static_cast<const Layout*>(code.bindings[static_cast<size_t>(guard.constant)]);
      if (is_tensor(object) &&
          (as_tensor(object)->layout->marked_dynamic | as_tensor(object)->layout->marked_static) != 0)
        return false;
      return is_tensor(object) && layout != nullptr && as_tensor(object)->layout->dtype == layout->dtype &&
             as_tensor(object)->layout->rank == layout->rank;
    }
    default: return false;
  }
}

size_t most_segments() {
  int own = governing().recompile_limit;
  return static_cast<size_t>(own > 0 ? own : options.recompile_limit);
}

// The sources that differ from what the first call held become inputs.
void learn_from_examples(Entry& entry, const Activation& activation) {
  for (const Example& example : entry.examples) {
    PyObject* now = activation.slots[example.slot];
    if (now == nullptr || Py_TYPE(now) != example.type) continue;
    bool differs = false;
    if (PyLong_CheckExact(now)) {
      int overflow = 0;
      differs =
          PyLong_AsLongLongAndOverflow(now, &overflow) != example.whole && overflow == 0 && !options.specialize_int;
    } else if (PyFloat_CheckExact(now)) {
      differs = PyFloat_AS_DOUBLE(now) != example.real && !options.specialize_float;
    } else {
      const Layout *a = as_tensor(now)->layout, *b = example.layout.get();
      differs = a != b && a->dtype == b->dtype && a->rank == b->rank;
    }
    if (differs && options.automatic_dynamic_shapes)
      entry.memory.dynamic.insert(slot_text(activation.code, example.slot));
  }
  entry.examples.clear();
}

// A class in it has changed: no version comes back.
bool is_outdated(const SegmentCode& code) {
  for (const Guard& guard : code.plan.guards) {
    if (guard.kind == GuardKind::k_class_kept &&
        *static_cast<uint32_t*>(code.bindings[static_cast<size_t>(guard.constant)]) == kNeverVersion)
      return true;
    if (guard.kind != GuardKind::k_type_version && guard.kind != GuardKind::k_class_version) continue;
    auto* type = static_cast<PyTypeObject*>(code.bindings[static_cast<size_t>(guard.constant)]);
    if (static_cast<int64_t>(type_version(type)) != guard.imm) return true;
  }
  return false;
}

// Makes room of segments that cannot fit again. A program that changes a class at each call is left to the limit.
void retire_outdated(Entry& entry) {
  constexpr int kMostRetired = 64;
  std::vector<Segment*> segments = entry.segments;
  segments.erase(std::remove_if(segments.begin(), segments.end(),
                                [](const Segment* segment) { return !is_outdated(*segment->code); }),
                 segments.end());
  if (segments.size() > static_cast<size_t>(kMostRetired - entry.outdated))
    segments.resize(static_cast<size_t>(kMostRetired - entry.outdated));
  entry.outdated += static_cast<int>(segments.size());
  retire_all(segments);
}

// True: it learnt something with the entry full.
bool learn(Entry& entry, const Activation& activation) {
  size_t known = entry.memory.dynamic.size();
  bool last = entry.segments.size() == most_segments();
  for (Segment* segment : entry.segments) {
    std::vector<uint64_t> values;
    MissReport miss = look_for_miss(*segment, activation, &values);
    if (miss.guard < 0) continue;
    const Plan& plan = segment->code->plan;
    const Guard& guard = plan.guards[static_cast<size_t>(miss.guard)];
    if (guard.source >= 0 && entry.policy.dynamic != 0 && could_be_general(guard, last, *segment->code, values))
      entry.memory.dynamic.insert(plan.sources[static_cast<size_t>(guard.source)]);
  }
  retire_outdated(entry);
  return last && entry.memory.dynamic.size() > known;
}

// ---- Limits and failures -------------------------------------------------------------------------------------------

// Segments from before something was learnt: what they served, a general one may serve.
void retire_superseded(Entry& entry) {
  std::vector<Segment*> superseded;
  for (Segment* segment : entry.segments)
    if (segment->generality < entry.memory.dynamic.size()) superseded.push_back(segment);
  retire_all(std::move(superseded));
}

bool has_room(Entry& entry) {
  if (entry.segments.size() < most_segments()) return true;
  retire_superseded(entry);
  if (entry.segments.size() < most_segments()) return true;
  if (options.miss_every_guard || options.tiny_code_memory) {
    ++counters.evictions;
    retire(entry.segments.front());
    return true;
  }
  std::string place = place_text(entry.record->code, entry.offset);
  ++counters.fallbacks;
  count_reason("fallback", std::string(row(BreakReason::k_recompile_limit).type) + " at " + place);
  if (entry.policy.fullgraph || options.fail_on_recompile_limit_hit) {
    raise_error("FailOnRecompileLimitHit",
                place + " has as many variants as recompile_limit allows (" + std::to_string(most_segments()) +
                    "), and " + (entry.policy.fullgraph ? "fullgraph=True" : "config.fail_on_recompile_limit_hit") +
                    " does not let others run plain. KINTSUGI_LOGS=recompiles shows why they differ");
    return false;
  }
  if (!std::exchange(entry.limit_told, true))
    warn_once(place + " has " + std::to_string(entry.segments.size()) +
              " segments, the limit (kt._dynamo.config.recompile_limit); other variants run plain. " +
              "KINTSUGI_LOGS=recompiles shows why they differ");
  return false;
}

void raise_unsupported(const BreakRecord& record) { raise_error("Unsupported", error_text(record)); }

// What the trace itself raises. True: the call ends with it.
bool raise_failure(const TraceResult& traced, bool fullgraph) {
  if (traced.failure == Failure::kPending) return true;  // or a backend failed under suppress_errors
  const BreakRecord& record = traced.plan.breaks[0];
  std::string text = record.context + "\n\nfrom user code:\n" + stack_text(record.stack);
  if (traced.failure == Failure::kForbidden && options.suppress_errors && !fullgraph) {
    warn_once(text + "\n(suppress_errors is on: this runs plain)");
    return false;
  }
  static constexpr const char* kNames[] = {
      "",          "AssertionError",          "TorchRuntimeError", "UncapturedHigherOrderOpError",
      "UserError", "ConstraintViolationError"};
  raise_error(kNames[static_cast<int>(traced.failure)], text);
  return true;
}

// ---- Trace, emit ---------------------------------------------------------------------------------------------------

// Constants by value that become objects get them here, once. `made` keeps them until publish() has taken its own
// references.
bool bind_constants(TraceResult* result, std::vector<Ref>* made) {
  const auto& constants = result->plan.constants;
  result->bindings.resize(constants.size(), nullptr);
  result->holds.resize(constants.size(), Hold::kNone);
  for (size_t i = 0; i < constants.size(); ++i) {
    if (result->bindings[i] != nullptr) continue;
    PyObject* object = nullptr;
    switch (constants[i].kind) {
      case ConstantKind::kString:
        object =
            PyUnicode_DecodeUTF8(constants[i].text.data(), static_cast<Py_ssize_t>(constants[i].text.size()), nullptr);
        if (object != nullptr) PyUnicode_InternInPlace(&object);
        break;
      case ConstantKind::kInt: object = PyLong_FromLongLong(constants[i].i64); break;
      case ConstantKind::kFloat: object = PyFloat_FromDouble(constants[i].f64); break;
      default: continue;
    }
    if (object == nullptr) return false;
    made->emplace_back(object);
    result->bindings[i] = object;
    result->holds[i] = Hold::kStrong;
  }
  return true;
}

// Writes down where dict and attribute guards find their values. Answers the first guard that does not hold though the
// trace has just made it: a fault of ours.
int record_places(TraceResult* traced, const Activation& activation) {
  Plan& plan = traced->plan;
  traced->caches.assign(plan.guards.size(), {});
  std::vector<uint64_t> values(static_cast<size_t>(plan.value_count) + 1);
  GuardProgram program{plan.guards, plan.constants, plan.sources, traced->bindings, traced->caches};
  return record_caches(program, {reinterpret_cast<void* const*>(activation.slots), activation.function, values.data()});
}

// The frames below what is compiled, outermost first.
std::vector<std::string> callers_of(const Activation& activation) {
  std::vector<std::string> places;
  for (Frame* frame = current_frame(activation.thread); frame != nullptr; frame = caller_of(frame)) {
    if (frame == activation.frame || is_incomplete(frame) || (!options.verbose && is_internal(code_of(frame))))
      continue;
    std::string place = place_text(code_of(frame), position_of(frame));
    size_t inner = place.rfind('.');  // tracebacks of 3.11 show bare names
    size_t colon = place.rfind(':');
    if (inner != std::string::npos && inner > colon) place.erase(colon + 1, inner - colon);
    places.insert(places.begin(), std::move(place));
  }
  return places;
}

std::vector<std::string> guard_texts(const Plan& plan) {
  static constexpr const char* kNames[] = {
#define KN_GUARD(name, ...) #name,
#include "guards/guards.def"
  };
  static constexpr bool kIsCheck[] = {
#define kLoad false
#define kCheck true
#define KN_GUARD(name, form, ...) form,
#include "guards/guards.def"
#undef kLoad
#undef kCheck
  };
  std::vector<std::string> texts;
  for (const Guard& guard : plan.guards) {
    auto kind = static_cast<size_t>(guard.kind);
    if (!kIsCheck[kind]) continue;
    std::string text = guard.source < 0 ? "" : plan.sources[static_cast<size_t>(guard.source)] + ": ";
    text += kNames[kind];
    if (guard.constant != kNoConstant) {
      const Constant& constant = plan.constants[static_cast<size_t>(guard.constant)];
      switch (constant.kind) {
        case ConstantKind::kInt: text += " " + std::to_string(constant.i64); break;
        case ConstantKind::kFloat: text += " " + std::to_string(constant.f64); break;
        case ConstantKind::kPointer: break;
        default: text += " " + constant.text;
      }
    } else if (guard.imm != 0) {
      text += " " + std::to_string(guard.imm);
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

std::string lines(const std::string& title, const std::vector<std::string>& items) {
  std::string text = title;
  for (const std::string& item : items) text += "\n" + item;
  return text;
}

void tell_break(const BreakRecord& record, const Activation& activation, const TraceResult& traced) {
  log_break(record, is_logged(LogKind::k_graph_breaks) ? callers_of(activation) : std::vector<std::string>(),
            traced.recent);
}

void tell(const Entry& entry, const Activation& activation, const Segment& segment, const TraceResult& traced,
          double emit_us) {
  const SegmentCode& code = *segment.code;
  const Plan& plan = code.plan;
  for (const BreakRecord& record : plan.breaks) tell_break(record, activation, traced);
  if (!compiles_are_shown()) return;
  std::string title = place_text(entry.record->code, entry.offset) + "@" + std::to_string(entry.offset);
  CompileRecord record;
  record.function = title;
  record.graph = plan.graph;
  record.tensor_ops = traced.tensor_ops;
  record.guards = guard_texts(plan);
  const Exit* last = plan.final_exit == kNoExit ? nullptr : &plan.exits[static_cast<size_t>(plan.final_exit)];
  if (last != nullptr && last->break_index >= 0) record.ended_by = &plan.breaks[static_cast<size_t>(last->break_index)];
  record.trace_us = traced.trace_us;
  record.fuse_us = traced.fuse_us;
  record.emit_us = emit_us;
  record.code_bytes = code.code_bytes;
  for (const Kernel* kernel : code.kernels) record.code_bytes += kernel->code_bytes;
  note_compile(record);
  if (is_logged(LogKind::k_guards)) write_record(LogKind::k_guards, lines(title, record.guards));
  if (is_logged(LogKind::k_graph)) write_record(LogKind::k_graph, lines(title, plan.graph));
  if (is_logged(LogKind::k_plan)) write_record(LogKind::k_plan, title + "\n" + to_text(plan));
  if (is_logged(LogKind::k_asm)) write_record(LogKind::k_asm, title + "\n" + disassemble(code));
}

// Code memory may be short: the oldest segments make room, first in ordinary use as under tiny_code_memory. More of
// them each time, or a large segment among many small ones would be emitted as often as there are small ones.
SegmentCode* emit_with_room(TraceResult& traced, OpError* error) {
  for (int evicted = 1;; evicted *= 2) {
    *error = {};
    SegmentCode* code = emit_segment(&traced.plan, &traced.bindings, &traced.caches, error);
    if (code != nullptr || error->kind != ErrorKind::kMemory || !evict_oldest(nullptr)) return code;
    for (int i = 1; i < evicted && evict_oldest(nullptr); ++i) {
    }
  }
}

// Plans are plain data: nothing is lost in their text.
bool survives_text(const Plan& plan) {
  std::string text = to_text(plan), error;
  Plan again;
  return parse_plan(text, &again, &error) && to_text(again) == text;
}

// *disturbed: the program's code that ran meanwhile has changed what the guards look at. beyond_limit: a general
// segment in place of others.
Segment* trace_and_emit(Entry& entry, const Activation& activation, CompileId id, bool beyond_limit, bool* disturbed) {
  TraceInput input;
  input.function = activation.function;
  input.code = activation.code;
  input.offset = entry.offset;
  input.depth = activation.depth;
  input.slots = activation.slots;
  input.policy = trace_policy(entry.policy);
  input.memory = &entry.memory;
  if (entry.policy.backend != 0) input.backend = backend_object(entry.policy.backend);
  Ref keep_backend = input.backend == nullptr ? Ref() : Ref::share(input.backend);  // it may drop itself
  TraceResult traced;
  auto place = [&] { return place_text(activation.code, entry.offset); };
  count_reason("frames", "total");
  uint64_t loaded_before = modules_loaded;
  Status status = trace(input, &traced);
  if (modules_loaded != loaded_before) traced.ran_foreign_code = true;  // by a table of the tracer's, once
  if (!status.ok) {
    entry.beyond_help = true;
    internal_failure(std::string(row(status.reason).type) + " at " + place() + ": " + status.context);
    return nullptr;
  }
  if (traced.failure != Failure::kNone) {
    entry.suppressed = !raise_failure(traced, entry.policy.fullgraph) || !PyErr_Occurred();
    return nullptr;
  }
  const Plan& plan = traced.plan;
  if (traced.skips_frame) {
    entry.skipped = true;
    tell_break(plan.breaks[0], activation, traced);
    CompileRecord record;
    record.function = place();
    record.ended_by = &plan.breaks[0];
    note_compile(record);
    return nullptr;
  }
  if (entry.policy.fullgraph || traced.strict_break) {
    const Exit& last = plan.exits[static_cast<size_t>(plan.final_exit)];
    if (last.break_index >= 0) {
      raise_unsupported(plan.breaks[static_cast<size_t>(last.break_index)]);
      return nullptr;
    }
  }

  double start = now_us();
  std::vector<Ref> made;
  if (!bind_constants(&traced, &made)) return nullptr;
  int failed = record_places(&traced, activation);
  if (failed >= 0 && traced.ran_foreign_code) {
    *disturbed = true;
    return nullptr;
  }
  if (failed >= 0) {
    entry.beyond_help = true;
    const Guard& guard = traced.plan.guards[static_cast<size_t>(failed)];
    std::string of = guard.source < 0 ? std::string() : " of " + traced.plan.sources[static_cast<size_t>(guard.source)];
    internal_failure("the guards of a new segment do not hold at " + place() + ": number " + std::to_string(failed) +
                     of);
    return nullptr;
  }
  if (options.strict && !survives_text(traced.plan)) {
    entry.beyond_help = true;
    internal_failure("a plan is not the same after a round through text at " + place());
    return nullptr;
  }
  code_memory().set_limit(options.tiny_code_memory ? kTinyCodeMemory : CodeMemory::kDefaultReserve);
  OpError error;
  SegmentCode* code = emit_with_room(traced, &error);
  if (code == nullptr) {
    if (error.kind == ErrorKind::kMemory) {
      ++counters.fallbacks;
      count_reason("fallback", "no code memory at " + place());
    } else {
      entry.beyond_help = true;
      internal_failure("no code could be made at " + place() + ": " + error.text);
    }
    return nullptr;
  }
  if (traced.ran_foreign_code && !beyond_limit && !has_room(entry)) {  // it has compiled others here
    free_segment(code);
    return nullptr;
  }
  if (traced.calls > 0) {
    count_reason("stats", "unique_graphs");
    count_reason("stats", "calls_captured", traced.calls);
  }
  count_reason("frames", "ok");
  if (entry.offset > 0 && entry.segments.empty()) {
    UserLine where = parse_line(place());
    count_reason("resumes", "kintsugi_resume_in_" + where.function + "_at_" + std::to_string(where.line));
  }
  Segment* segment = publish(entry, code, std::move(traced.holds));
  segment->tensor_ops = traced.tensor_ops;
  segment->id = id;
  segment->origins = origins_of(traced);
  if (traced.reads_compiling) segment->returns = false;
  if (!input.policy.fuse) ++counters.unfused;
  pin(segment);  // who is told may reset, and what only the trace has kept may end now
  tell(entry, activation, *segment, traced, now_us() - start);
  return segment;
}

}  // namespace

bool remember(Entry& entry, const Activation& activation) {
  if (entry.seen || !entry.segments.empty()) return false;
  entry.seen = true;
  int count = local_slots(activation.code) + activation.depth;
  for (int slot = 0; slot < count; ++slot) {
    PyObject* object = activation.slots[slot];
    if (object == nullptr) continue;
    Example example{slot, Py_TYPE(object), 0, 0, nullptr};
    if (PyLong_CheckExact(object)) {
      int overflow = 0;
      example.whole = PyLong_AsLongLongAndOverflow(object, &overflow);
    } else if (PyFloat_CheckExact(object)) {
      example.real = PyFloat_AS_DOUBLE(object);
    } else if (is_tensor(object)) {
      retain(as_tensor(object)->layout);
      example.layout = KeptLayout(as_tensor(object)->layout);
    } else {
      continue;
    }
    entry.examples.push_back(std::move(example));
  }
  return true;
}

void raise_error(const char* name, const std::string& text) {
  Ref module = import_module("kintsugi._dynamo.exc");
  Ref type(module ? PyObject_GetAttrString(module.get(), name) : nullptr);
  Ref message(type ? PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace") : nullptr);
  if (message) PyErr_SetObject(type.get(), message.get());
}

PyObject* refuse_generator(PyCodeObject* code) {
  BreakRecord record;
  record.reason = static_cast<int32_t>(BreakReason::k_generator);
  record.context = "the compiled function itself";
  record.stack.push_back(place_text(code, 0));
  raise_error("Unsupported", error_text(record));
  return nullptr;
}

bool internal_failure(const std::string& what) {
  ++counters.fallbacks;
  count_reason("fallback", what);
  if (options.strict) {
    raise_error("InternalTorchDynamoError", "kintsugi: " + what);
    return true;
  }
  warn_once(what + "; this runs plain. Please report it with the program");
  return false;
}

std::string place_text(PyCodeObject* code, int offset) {
  SavedError saved;
  auto text = [](PyObject* object) -> std::string {
    const char* utf8 = PyUnicode_AsUTF8(object);
    PyErr_Clear();
    return utf8 == nullptr ? "?" : utf8;
  };
  int line = PyCode_Addr2Line(code, offset * 2);
  if (line < 0) line = code->co_firstlineno;  // COPY_FREE_VARS and the like have none
  return text(code->co_filename) + ":" + std::to_string(line) + ":" + text(code->co_qualname);
}

// What the stance says of compiling now. False: run plain, or an exception is set.
static bool may_compile(Entry& entry, const Activation& activation) {
  auto place = [&] { return place_text(activation.code, entry.offset); };
  switch (governing().stance) {
    case Stance::kEagerOnRecompile:
    case Stance::kForceEager: return false;
    case Stance::kFailOnRecompile: {
      UserLine where = parse_line(place());
      std::string text = "Detected recompile when kt.compile stance is 'fail_on_recompile'. filename: '" + where.file +
                         "', function name: '" + where.function + "', line number: " + std::to_string(where.line);
      std::string misses = all_misses(entry, activation);
      if (!misses.empty()) text += "\n  triggered by the following guard failure(s):" + misses;
      PyErr_SetString(PyExc_RuntimeError, text.c_str());
      return false;
    }
    case Stance::kEagerThenCompile:
      if (remember(entry, activation)) return false;
      break;
    default: break;
  }
  if (!entry.examples.empty()) learn_from_examples(entry, activation);
  if (options.error_on_recompile && !entry.segments.empty()) {
    raise_error("RecompileError", "Recompiling " + place() + "\n  triggered by the following guard failure(s):" +
                                      all_misses(entry, activation));
    return false;
  }
  return true;
}

Segment* compile_segment(Entry& entry, const Activation& activation) {
  if (entry.beyond_help || entry.skipped || _Py_IsFinalizing()) return nullptr;
  if (entry.suppressed && options.suppress_errors) return nullptr;
  CaptureScope off(false);  // records look up source lines with Python code
  if (!may_compile(entry, activation)) return nullptr;
  load_modules();
  CollectorHeld held(activation.thread);  // while we trace nothing may change
  try {
    // Looking for what missed costs more than a segment: it ends when it has taught nothing for long.
    constexpr int kMostFullMisses = 100;
    bool settled =
        entry.full_misses >= kMostFullMisses && entry.segments.size() >= most_segments() && !options.stressed();
    if (settled) return ++counters.fallbacks, nullptr;
    CompileId id = next_compile_id(entry);
    RecordScope scope(to_text(id));
    log_recompile(entry, activation);
    bool generalises = learn(entry, activation);
    entry.full_misses = generalises ? 0 : entry.full_misses + 1;
    if (!generalises && !has_room(entry)) return nullptr;
    note_compile_id(entry, id);
    constexpr int kMostAttempts = 3, kMostDisturbed = 8;  // what is set up once is there at the second attempt
    for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
      bool disturbed = false;
      Segment* made = trace_and_emit(entry, activation, id, generalises, &disturbed);
      if (made != nullptr && made->entry != nullptr && entry.segments.size() > most_segments())
        retire_superseded(entry);
      if (!disturbed) return made;
    }
    entry.beyond_help = ++entry.disturbed >= kMostDisturbed;
    ++counters.fallbacks;
    count_reason("fallback", "the backend or a marked function changes what a guard looks at, at " +
                                 place_text(activation.code, entry.offset));
    return nullptr;
  } catch (const std::exception& failure) {
    forget_error();
    entry.beyond_help = true;
    internal_failure("tracing " + place_text(activation.code, entry.offset) + " failed: " + failure.what());
    return nullptr;
  }
}

}  // namespace kintsugi
