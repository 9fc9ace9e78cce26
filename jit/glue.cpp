// One segment's code, in order of addresses:
//
//   entry:  frame | guards | -> body
//   body':  frame            (entered when guards were checked elsewhere)
//   body:   steps | final exit | other exits | guard stubs
//
// Straight-line: what fails jumps forward. Exits answer their number; a missed guard answers kMissed.
#include "jit/glue.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "guards/compile.h"
#include "jit/glue_emitter.h"
#include "jit/uses.h"

namespace kintsugi {
namespace {

constexpr GuardFrame kGuardFrame = {
    offsetof(NativeState, slots),   offsetof(NativeState, function),   offsetof(NativeState, missed_guard),
    offsetof(NativeState, helpers), offsetof(HelperTable, guard_slow),
};

bool make_kernels(SegmentCode* code, OpError* error) {
  for (const KernelCall& call : code->plan.kernels) {
    Layout* space = parse_layout(call.space);
    if (space == nullptr) {
      *error = {ErrorKind::kRuntime, "\"" + call.space + "\" is no layout; one looks like f32[2,3]{3,1}"};
      return false;
    }
    code->spaces.push_back(shape_of(*space));
    const int64_t elements = space->count;
    release(space);
    if (call.flat && elements != call.count) {
      *error = {ErrorKind::kRuntime, "a flat kernel over " + call.space + " counts " + std::to_string(call.count) +
                                         " elements, not " + std::to_string(elements)};
      return false;
    }
    Kernel* kernel = acquire_kernel(call.spec, error);
    if (kernel == nullptr) return false;
    code->kernels.push_back(kernel);
  }
  return true;
}

// By value, 2: a step or an exit looks at it.
std::vector<uint8_t> values_after_guards(const Plan& plan) {
  std::vector<uint8_t> used(static_cast<size_t>(plan.value_count), 0);
  auto use = [&](ValueId value) {
    if (value != kNoValue) used[static_cast<size_t>(value)] = 2;
  };
  for (const Step& step : plan.steps) {
    for (ValueId value : {step.a, step.b, step.c}) use(value);
    for (ValueId value : step.list) use(value);
  }
  for (const Recipe& recipe : plan.recipes)
    if (names_value(recipe)) use(recipe.value);
  for (const Exit& exit : plan.exits)
    for (ValueId value : exit.owned) use(value);
  return used;
}

}  // namespace

SegmentCode* emit_segment(Plan plan, std::vector<void*> bindings, std::vector<GuardCache> caches, OpError* error) {
  return emit_segment(&plan, &bindings, &caches, error);
}

SegmentCode* emit_segment(Plan* plan, std::vector<void*>* bindings, std::vector<GuardCache>* caches, OpError* error) {
  std::string fault = verify(*plan);
  if (!fault.empty()) {
    *error = {ErrorKind::kRuntime, "the plan is not legal: " + fault};
    return nullptr;
  }
  auto* code = new SegmentCode;
  code->plan = std::move(*plan);
  code->bindings = std::move(*bindings);
  code->bindings.resize(code->plan.constants.size());
  code->caches = std::move(*caches);
  code->caches.resize(code->plan.guards.size());
  if (!make_kernels(code, error) || !GlueEmitter(code).emit(error)) {
    *plan = std::move(code->plan);
    *bindings = std::move(code->bindings);
    *caches = std::move(code->caches);
    free_segment(code);
    return nullptr;
  }
  return code;
}

void free_segment(SegmentCode* code) {
  if (code == nullptr) return;
  if (code->span.execute != nullptr) code_memory().free(code->span, code->code_bytes);
  for (Kernel* kernel : code->kernels) release_kernel(kernel);
  delete code;
}

GlueEmitter::GlueEmitter(SegmentCode* code)
    : e_(Emitter::of_this_thread()), code_(code), plan_(code->plan), exits_(code->plan.exits.size()) {
  size_t scratch = 0;
  bool direct = false;
  for (size_t i = 0; i < plan_.kernels.size(); ++i) {
    if (!calls_directly(plan_.kernels[i], *code->kernels[i])) continue;
    direct = true;
    scratch = std::max(scratch, code->kernels[i]->scratch_bytes);
  }
  if (direct) frame_bytes_ = static_cast<int32_t>(sizeof(KernelBlock) + (scratch + 63) / 64 * 64);
  code->parts.reserve(plan_.guards.size() + plan_.steps.size() + plan_.exits.size() + 4);
}

bool GlueEmitter::emit(OpError* error) {
  const GuardProgram program = guard_program(*code_);
  e_.start();
  Label body = e_.new_label(), missed = e_.new_label();
  GuardCompiler guards(e_, program, kGuardFrame, values_after_guards(plan_), missed, body);

  note(CodePart::Kind::kEnter, 0);
  e_.enter_frame(frame_bytes_, offsetof(NativeState, values));
  guards.emit();
  for (size_t i = 0; i < guards.offsets().size(); ++i) {
    code_->parts.push_back(
        {static_cast<uint32_t>(guards.offsets()[i]), CodePart::Kind::kGuard, static_cast<int32_t>(i)});
  }
  e_.jump(body);

  const size_t body_entry = e_.offset();
  note(CodePart::Kind::kBody, 0);
  e_.enter_frame(frame_bytes_, offsetof(NativeState, values));
  e_.bind(body);
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    note(CodePart::Kind::kStep, i);
    emit_step(plan_.steps[i]);
  }
  emit_exit(plan_.final_exit);
  for (size_t i = 0; i < plan_.exits.size(); ++i) {
    if (exits_[i].id != UINT32_MAX && static_cast<ExitId>(i) != plan_.final_exit) emit_exit(static_cast<ExitId>(i));
  }
  note(CodePart::Kind::kStubs, 0);
  guards.emit_stubs();
  e_.bind(missed);
  e_.load_immediate(Reg::kResult, int64_t{kMissed});
  e_.leave_frame(frame_bytes_);

  const char* refusal = nullptr;
  if (!e_.finish(&code_memory(), plan_.name.c_str(), &code_->span, &code_->code_bytes, &refusal)) {
    *error = {ErrorKind::kMemory, "no code for " + plan_.name + ": " + refusal};
    return false;
  }
  code_->entry = reinterpret_cast<int32_t (*)(NativeState*)>(code_->span.execute);
  code_->body = reinterpret_cast<int32_t (*)(NativeState*)>(code_->span.execute + body_entry);
  return true;
}

// ---- Exits --------------------------------------------------------------------------------------

void GlueEmitter::emit_exit(ExitId id) {
  note(CodePart::Kind::kExit, static_cast<size_t>(id));
  e_.bind(exit_label(id));
  const Exit& exit = plan_.exits[static_cast<size_t>(id)];
  if (exit.kind == ExitKind::kReturn && emit_fast_return(exit)) {
    for (ValueId value : exit.owned) {
      const Recipe& result = plan_.recipes[static_cast<size_t>(exit.result)];
      if (result.kind != RecipeKind::kValue || result.value != value) release_value(value);
    }
  }
  e_.load_immediate(Reg::kResult, id);
  e_.leave_frame(frame_bytes_);
}

// Moves the result to NativeState::result, with one reference of its own. False: the driver builds it.
bool GlueEmitter::emit_fast_return(const Exit& exit) {
  const Recipe& result = plan_.recipes[static_cast<size_t>(exit.result)];
  const int32_t references = object_facts().references_offset;
  switch (result.kind) {
    case RecipeKind::kValue: {
      e_.load(Reg::kResult, value_at(result.value));
      bool owned = false;
      for (ValueId value : exit.owned) owned |= value == result.value;
      if (!owned) e_.add(at(Reg::kResult, references), 1);
      break;
    }
    case RecipeKind::kConstant: {
      void* object = code_->bindings[static_cast<size_t>(result.constant)];
      if (object == nullptr) return false;
      e_.load_immediate(Reg::kResult, object);
      e_.add(at(Reg::kResult, references), 1);
      break;
    }
    case RecipeKind::kBoxBool: emit_box_bool(result.value); break;
    default: return false;
  }
  e_.store(at(Reg::kState, offsetof(NativeState, result)), Reg::kResult);
  return true;
}

// The last reference goes through the helper, which knows how to end an object.
void GlueEmitter::release_value(ValueId value) {
  e_.load(Reg::kArgument0, value_at(value));
  release_argument();
}

void GlueEmitter::release_argument() {
  const Memory references = at(Reg::kArgument0, object_facts().references_offset);
  Label shared = e_.new_label(), done = e_.new_label();
  e_.compare(references, int64_t{1});
  e_.jump_if(Condition::kNotEqual, shared);
  load_helper(Reg::kResult);
  e_.call(at(Reg::kResult, offsetof(HelperTable, release)));
  e_.jump(done);
  e_.bind(shared);
  e_.add(references, -1);
  e_.bind(done);
}

void GlueEmitter::note(CodePart::Kind kind, size_t index) {
  code_->parts.push_back({static_cast<uint32_t>(e_.offset()), kind, static_cast<int32_t>(index)});
}

Label GlueEmitter::exit_label(ExitId exit) {
  Label& label = exits_[static_cast<size_t>(exit)];
  if (label.id == UINT32_MAX) label = e_.new_label();
  return label;
}

}  // namespace kintsugi
