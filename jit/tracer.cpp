// The tracer's loop and the state it keeps: frames of inlined calls, constants, exits with their recipes, restarts.
#include "jit/tracer.h"

#include <algorithm>
#include <chrono>

#include "jit/containers.h"
#include "runtime/frame.h"
#include "runtime/log.h"

namespace kintsugi {

namespace {

constexpr size_t kMostGuards = 16'384, kMostRecords = 8192;  // of a segment
constexpr int kMostValues = 16'384;                          // they lie on the C stack
constexpr size_t kMostRecordsAtOnce = 2048;                  // of one instruction
constexpr int kRestartLimit = 100;                           // as many calls may turn out not to be followed inside

using Clock = std::chrono::steady_clock;
double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

std::string place_of(const TraceFrame& frame) {
  PyCodeObject* code = frame.bytecode->code;
  int line = line_of(*frame.bytecode, frame.bytecode->at(frame.at));
  if (line < 0) line = code->co_firstlineno;
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  const char* name = PyUnicode_AsUTF8(code->co_name);
  if (file == nullptr || name == nullptr) PyErr_Clear();
  return std::string(file ? file : "?") + ":" + std::to_string(line) + ":" + (name ? name : "?");
}

}  // namespace

Tracer::Tracer(const TraceInput& input, TraceResult* result, int attempt)
    : input_(input),
      result_(result),
      attempt_(attempt),
      strict_(input.policy.strict),
      grad_mode_(kintsugi::grad_mode()),
      capture_scalars_(input.policy.capture_scalars) {
  null_ = make(ValueKind::kNull);
}

// What a graph that stands alone cannot do.
static bool changes_an_object(StepKind kind) {
  switch (kind) {
    case StepKind::k_list_append:
    case StepKind::k_list_set:
    case StepKind::k_list_insert:
    case StepKind::k_list_delete:
    case StepKind::k_list_clear:
    case StepKind::k_dict_set:
    case StepKind::k_dict_delete:
    case StepKind::k_attribute_set:
    case StepKind::k_attribute_delete:
    case StepKind::k_global_set:
    case StepKind::k_cell_set:
    case StepKind::k_range_next:
    case StepKind::k_list_next:
    case StepKind::k_count_next: return true;
    default: return false;
  }
}

// A change made inside a builtin's callback could not be taken back when the builtin has to be called again.
static bool is_effect(StepKind kind) {
  switch (kind) {
    case StepKind::k_write:
    case StepKind::k_run_call:
    case StepKind::k_opaque_call:
    case StepKind::k_set_strict:
    case StepKind::k_set_grad:
    case StepKind::k_push_handled:
    case StepKind::k_set_handled: return true;
    default: return changes_an_object(kind);
  }
}

Step& Tracer::record(StepKind kind) {
  if (input_.policy.exporting && changes_an_object(kind)) refuse_change();
  if (is_effect(kind) && !makes_inner_class_) {
    if (input_.policy.pure && kind != StepKind::k_write && kind != StepKind::k_run_call &&
        kind != StepKind::k_opaque_call)
      throw Impure{user_stack()};
    if (call_now_depth_ > statement_depth_) restart_without_this_call();
    changed_ = true;
    acted_ =
        acted_ || (kind != StepKind::k_range_next && kind != StepKind::k_list_next && kind != StepKind::k_count_next);
  }
  if (trace_.records.size() - records_before_ > kMostRecordsAtOnce)
    break_from_the_start(BreakReason::k_container, "it would take thousands of steps");
  Record record;
  record.step.kind = kind;
  trace_.records.push_back(std::move(record));
  return trace_.records.back().step;
}

// ---- Exits ----------------------------------------------------------------------------------------------------------

RecipeId Tracer::add_recipe(Recipe recipe) {
  plan().recipes.push_back(std::move(recipe));
  return static_cast<RecipeId>(plan().recipes.size() - 1);
}

RecipeId Tracer::recipe_of(Value* now) {
  if (now == nullptr) now = null_;
  if (now->forwarded != nullptr) now = now->forwarded;
  if (now->owner != nullptr) now = now->owner;
  auto found = recipes_.find(now);
  if (found != recipes_.end()) return found->second;
  RecipeId id = recipes_[now] = add_recipe({});  // known before its parts are: it may be one of them
  Value* value = shown(now);
  Recipe recipe;
  auto part = [&](Value* v) { recipe.parts.push_back(recipe_of(v)); };
  auto constant_part = [&](PyObject* object) { recipe.parts.push_back(recipe_of(constant(object))); };
  if (value->kind == ValueKind::kLazy) {
    recipe = {RecipeKind::kValue, slot_id(now), kNoConstant, {}};
  } else if (value->is_number()) {
    if (value->boxed != kNoValue)
      recipe = {RecipeKind::kValue, value->boxed, kNoConstant, {}};
    else
      recipe = {value->kind == ValueKind::kInt     ? RecipeKind::kBoxInt
                : value->kind == ValueKind::kFloat ? RecipeKind::kBoxFloat
                                                   : RecipeKind::kBoxBool,
                value->id,
                kNoConstant,
                {}};
  } else if (value->is_real()) {
    recipe = {RecipeKind::kValue, value->id, kNoConstant, {}};
  } else {
    switch (value->kind) {
      case ValueKind::kNull: break;
      case ValueKind::kConstant:
        if (value->boxed != kNoValue) {
          recipe = {RecipeKind::kValue, value->boxed, kNoConstant, {}};
          break;
        }
        if (PySlice_Check(value->object)) {  // a new one each time: it shows in `is`
          auto* slice = reinterpret_cast<PySliceObject*>(value->object);
          recipe.kind = RecipeKind::kSlice;
          for (PyObject* field : {slice->start, slice->stop, slice->step}) constant_part(field);
          break;
        }
        if (value->fresh && PyRange_Check(value->object)) {
          recipe.kind = RecipeKind::kRange;
          for (const char* field : {"start", "stop", "step"}) {
            Ref part(PyObject_GetAttrString(value->object, field));
            if (!part) throw Restart{};
            constant_part(part.get());
          }
          break;
        }
        if (value->fresh) {
          recipe.kind = RecipeKind::kSetLike;
          recipe.constant = constant_id(value->object, Hold::kStrong);
          recipe.value = 1;
          break;
        }
        if (!is_atom(value->object)) {
          // As it was loaded: the program may drop the last reference to it before it is handed on (see k_hold).
          recipe = {RecipeKind::kValue, bound_id(value->object), kNoConstant, {}};
          break;
        }
        recipe.kind = RecipeKind::kConstant;
        recipe.constant = constant_id(value->object, Hold::kStrong);
        break;
      case ValueKind::kTuple:
        recipe.kind = RecipeKind::kTuple;
        for (Value* item : value->items) part(item);
        if (value->type != nullptr) {
          RecipeId plain = add_recipe(std::move(recipe));
          recipe = {RecipeKind::kCallObject, kNoValue, kNoConstant, {}};
          if (is_heap_type(value->type))  // whatever its own __new__ takes
            constant_part(PyDict_GetItemWithError(PyTuple_Type.tp_dict, interned.new_));
          constant_part(reinterpret_cast<PyObject*>(value->type));
          recipe.parts.push_back(plain);
        }
        break;
      case ValueKind::kList:
        recipe.kind = RecipeKind::kList;
        for (Value* item : value->items) part(item);
        break;
      case ValueKind::kDict:
        if (has_hashed_keys(value)) {
          hashed_dict_recipe(value, &recipe);
          break;
        }
        recipe.kind = RecipeKind::kDict;
        for (auto& [key, item] : value->entries) {
          if (item == nullptr) continue;
          part(key_value(key));
          part(item);
        }
        break;
      case ValueKind::kSet: recipe = set_recipe(*this, value); break;
      case ValueKind::kSlice:
        recipe.kind = RecipeKind::kSlice;
        for (Value* item : value->items) part(item);
        break;
      case ValueKind::kRange:
        recipe.kind = RecipeKind::kRange;
        for (Value* item : value->items) part(item);
        break;
      case ValueKind::kCell:
        recipe.kind = RecipeKind::kCell;
        if (!value->items.empty() && value->items[0] != nullptr) part(value->items[0]);
        break;
      case ValueKind::kFunction:
        if (value->made_in != nullptr) {  // of a class that the library makes: see library_classes.cpp
          input_.memory->not_followed[{value->made_in, value->made_at}] = {BreakReason::k_call,
                                                                           "a class of the library"};
          throw Restart{};
        }
        recipe.kind = RecipeKind::kFunction;
        recipe.constant = constant_id(reinterpret_cast<PyObject*>(value->code), Hold::kStrong);
        for (Value* v : {value->globals, value->defaults, value->keyword_defaults, value->closure, value->annotations})
          part(v);
        part(value->qualname != nullptr ? value->qualname : constant(value->code->co_qualname));
        if (value->wrapped != nullptr || !value->entries.empty()) part(value->wrapped);
        for (auto& [key, item] : value->entries) {
          constant_part(key);
          part(item);
        }
        break;
      case ValueKind::kPartial: partial_recipe(value, &recipe); break;
      case ValueKind::kMethod:
        recipe.kind = RecipeKind::kBoundMethod;
        if (PyObject* method = value->items[0]->object;
            value->items[0]->is_constant() && method != nullptr && Py_TYPE(method) == &PyClassMethodDescr_Type) {
          recipe.kind = RecipeKind::kCallObject;
          constant_part(PyDict_GetItemString(Py_TYPE(method)->tp_dict, "__get__"));
          part(value->items[0]);
          constant_part(Py_None);
          part(value->items[1]);
          break;
        }
        for (Value* item : value->items) part(item);
        break;
      case ValueKind::kHandled:
        recipe.kind = RecipeKind::kHandled;
        recipe.value = value->complete ? 1 : 0;
        break;
      case ValueKind::kObject:
        if (value->exception != nullptr || value->type == &PyTraceBack_Type) {
          recipe = exception_recipe(value, id);
          break;
        }
        if (value->content != nullptr) {
          container_recipe(value, &recipe);
          break;
        }
        if (is_made_descriptor(value)) {
          recipe.kind = RecipeKind::kCallObject;
          constant_part(reinterpret_cast<PyObject*>(value->type));
          for (Value* item : value->items) part(item);
          break;
        }
        if (proxy_recipe(*this, value, &recipe)) break;
        recipe.kind = RecipeKind::kInstance;
        constant_part(reinterpret_cast<PyObject*>(value->type));
        for (auto& [key, item] : value->entries) {
          if (item == nullptr) continue;
          constant_part(key);
          part(item);
        }
        break;
      case ValueKind::kUnion: {  // operator.or_ of the first ones and the next
        Ref module = import_module("operator");
        Ref both(module ? PyObject_GetAttrString(module.get(), "or_") : nullptr);
        if (!both) throw Restart{};
        RecipeId made = recipe_of(value->items[0]);
        for (size_t i = 1; i < value->items.size(); ++i) {
          recipe = {RecipeKind::kCallObject, kNoValue, kNoConstant, {}};
          constant_part(both.get());
          recipe.parts.push_back(made);
          part(value->items[i]);
          if (i + 1 < value->items.size()) made = add_recipe(std::move(recipe));
        }
        break;
      }
      case ValueKind::kSuper:
        recipe.kind = RecipeKind::kCallObject;
        constant_part(reinterpret_cast<PyObject*>(&PySuper_Type));
        for (Value* item : value->items) part(item);
        break;
      case ValueKind::kGenerator: generator_recipe(value, &recipe); break;
      case ValueKind::kIterator:
        if (deque_walk_recipe(value, &recipe)) break;
        switch (value->iterator) {
          case IteratorKind::kSequence:
            recipe.kind = RecipeKind::kSequenceIterator;
            part(value->items[0]);
            part(int_constant(value->index));
            break;
          case IteratorKind::kReversed:
            if (value->items[0]->kind == ValueKind::kObject) {  // making one asks for __len__
              iterator_recipe(value, &recipe);
              break;
            }
            recipe.kind = RecipeKind::kReversed;
            part(value->items[0]);
            part(int_constant(value->index));
            break;
          case IteratorKind::kRange:
            recipe.kind = RecipeKind::kRangeIterator;
            if (!value->items.empty()) {
              for (Value* item : value->items) part(item);
              break;
            }
            part(int_constant(value->index));
            part(int_constant(value->stop));
            part(int_constant(value->step));
            break;
          case IteratorKind::kSet:
            recipe.kind = RecipeKind::kDictIterator;
            recipe.value = 3;
            part(value->items[0]);
            part(int_constant(value->index));
            break;
          case IteratorKind::kDictKeys:
          case IteratorKind::kDictValues:
          case IteratorKind::kDictItems:
            recipe.kind = value->complete ? RecipeKind::kDictIterator : RecipeKind::kDictView;
            recipe.value = static_cast<int>(value->iterator) - static_cast<int>(IteratorKind::kDictKeys);
            if (value->complete && value->step < 0) recipe.value += kReversedWalk;
            part(value->items[0]);
            if (value->complete) part(int_constant(value->index));
            break;
          case IteratorKind::kEnumerate:
            recipe.kind = RecipeKind::kEnumerate;
            recipe.parts.push_back(iterable_recipe(value->items[0]));
            part(int_constant(value->index));
            break;
          case IteratorKind::kZip:
            recipe.kind = RecipeKind::kZip;
            for (Value* item : value->items) recipe.parts.push_back(iterable_recipe(item));
            if (value->stop == 0) break;
            recipe = {RecipeKind::kWithState, kNoValue, kNoConstant, {add_recipe(std::move(recipe))}};
            constant_part(Py_True);  // strict
            break;
          case IteratorKind::kMap:
            recipe.kind = RecipeKind::kMap;
            part(value->items[0]);
            for (size_t i = 1; i < value->items.size(); ++i) recipe.parts.push_back(iterable_recipe(value->items[i]));
            break;
          case IteratorKind::kItems:
            recipe.kind = RecipeKind::kSequenceIterator;
            part(value->items[0]);
            part(int_constant(value->index));
            break;
          default: iterator_recipe(value, &recipe);
        }
        break;
      default: throw Restart{};
    }
  }
  return settle_recipe(now, id, std::move(recipe));
}

// A constant that is an object of its own wherever it is made: it shows in `is`.
static bool is_made_anew(const Value* constant) { return constant->fresh || PySlice_Check(constant->object); }

// Objects inside first, each with a step of its own: they may be changed later, or compared by identity, through
// another name. Objects that hold themselves only an exit builds.
void Tracer::build_parts(Value* value) {
  if (!building_.insert(value).second) break_from_the_start(BreakReason::k_container, "an object that holds itself");
  auto build = [&](Value* part) {
    if (part == nullptr) return;
    if (part->forwarded != nullptr) part = part->forwarded;
    if (part->owner != nullptr) part = part->owner;
    bool virtual_part = part->is_virtual() && part->kind != ValueKind::kLazy && part->kind != ValueKind::kNull;
    if (virtual_part || (part->is_constant() && is_made_anew(part))) object_of(part);
  };
  if (value->kind == ValueKind::kSet && value->mirror != nullptr) {
    PyObject* key;
    Py_hash_t hash;
    for (Py_ssize_t position = 0; _PySet_NextEntry(value->mirror, &position, &key, &hash);)
      if (value->unordered || is_hashed_stand_in(key)) build(key_value(key));
  }
  for (const Value* holder : {static_cast<const Value*>(value), static_cast<const Value*>(value->content)}) {
    if (holder == nullptr) continue;
    for (Value* part : holder->items) build(part);
    for (auto& [key, part] : holder->entries) {
      if (auto known = key_values_.find(key); known != key_values_.end()) build(known->second);
      build(part);
    }
  }
  for (Value* part : value->stack) build(part);
  for (Value* part : {value->closure, value->defaults, value->keyword_defaults, value->wrapped, value->function,
                      value->handled, value->exception != nullptr ? value->exception->traceback : nullptr})
    build(part);
  building_.erase(value);
}

ValueId Tracer::object_of(Value* value) {
  if (value->forwarded != nullptr) value = value->forwarded;
  if (value->owner != nullptr) value = value->owner;
  if (value->kind == ValueKind::kLazy) return slot_id(value);
  if (value->is_real()) return value->id;
  if (value->is_number()) {
    if (value->boxed != kNoValue) return value->boxed;
    ExitId exit = value->kind == ValueKind::kBool ? kNoExit : exit_here(ExitKind::kRaise);
    Step& box = record(value->kind == ValueKind::kInt     ? StepKind::k_box_int
                       : value->kind == ValueKind::kFloat ? StepKind::k_box_float
                                                          : StepKind::k_box_bool);
    box.a = value->id;
    box.on_fail = exit;
    return box.dst = value->boxed = new_value();
  }
  if (before_.count(value) != 0 || before_.count(value->content) != 0)
    break_from_the_start(BreakReason::k_instruction, "an object that was changed before");
  if (value->kind == ValueKind::kGenerator && ends_with_effects(*value))  // nobody would see when it is dropped
    restart_without(value->maker);
  build_parts(value);
  recipes_.clear();
  RecipeId recipe = recipe_of(value);
  refuse_raised();
  size_t at = trace_.records.size();
  record(StepKind::k_build).index = recipe;
  ExitId exit = exit_here(ExitKind::kRaise);
  Step& step = trace_.records[at].step;
  step.on_fail = exit;
  step.dst = new_value();
  if (!value->is_constant() || is_made_anew(value)) value->id = step.dst;
  if (value->content != nullptr) value->content->id = step.dst;
  return step.dst;
}

// The frames an exit shows: all of them, or, inside a builtin's callback, those up to the builtin's call.
static size_t visible_frames(const Tracer& tracer) {
  return tracer.call_now_depth_ > 0 ? static_cast<size_t>(tracer.call_now_frames_) : tracer.frames_.size();
}

ExitId Tracer::exit_at(ExitKind kind, int32_t offset, const std::vector<Value*>& stack) {
  recipes_.clear();
  Exit exit;
  size_t visible = visible_frames(*this);
  bool inside = call_now_depth_ > 0;
  // What a class statement has changed it has changed: there its body raises no error but that memory is short.
  if (inside && kind == ExitKind::kRaise && !(changed_ && call_now_depth_ == statement_depth_)) kind = ExitKind::kStep;
  if (changed_ && kind == ExitKind::kStep)
    break_from_the_start(BreakReason::k_instruction, "an iterator that was advanced before");
  exit.kind = kind;
  struct Dead {
    size_t frame;
    int32_t slot;
    Value* value;
  };
  std::vector<Dead> dead;
  exiting_ = true;
  shows_before_ = kind == ExitKind::kStep;
  bool read = std::any_of(frames_.begin(), frames_.end(),
                          [](const TraceFrame& frame) { return frame.bytecode->calls_frame_readers; });
  for (size_t i = 0; i < visible; ++i) {
    TraceFrame& frame = frames_[i];
    bool innermost = i + 1 == visible;
    FrameState state;
    state.code = constant_id(reinterpret_cast<PyObject*>(frame.bytecode->code), Hold::kStrong);
    bool resumes = !innermost && frames_[i + 1].generator != nullptr;
    if (i > 0) state.function = recipe_of(frame.generator != nullptr ? frame.generator : frame.function);
    state.offset = innermost ? (inside ? frame.offset : offset) : resumes ? frame.offset : frame.at;
    const std::vector<Value*>& values = innermost ? (inside ? frame.before : stack)
                                        : resumes ? frame.before
                                                  : frame.stack;
    state.depth = static_cast<int32_t>(values.size());
    if (!innermost) {
      state.rule = resumes ? ReturnRule::kResumed : frames_[i + 1].rule;
      state.refusal = frames_[i + 1].refusal;
    }
    int live_at = frame.bytecode->index_at[state.offset];
    for (size_t slot = 0; slot < frame.locals.size(); ++slot) {
      Value* value = frame.locals[slot];
      if (value->forwarded != nullptr && !(frame.root && value->slot == static_cast<int32_t>(slot)))
        value = value->forwarded;
      bool live = input_.policy.exact_locals || read || shows_dead_locals_ ||
                  frame.bytecode->is_live(live_at, static_cast<int>(slot)) ||
                  (!innermost && frame.bytecode->is_live(frame.bytecode->index_at[frame.next], static_cast<int>(slot)));
      if (!live && !exceptions_.empty()) live = holds_frame(value, frame.number);
      bool exists = value->kind == ValueKind::kLazy || value->is_real() || value->is_constant() ||
                    (value->is_number() && value->boxed != kNoValue);
      if (value->kind == ValueKind::kTensor && value->node >= 0) exists = false;  // perhaps only inside a kernel
      if (frame.root && initial_[slot] == value) continue;                        // the slot holds it
      if (frame.root && initial_[slot]->forwarded == value && value->kind != ValueKind::kNull) continue;
      if (value->kind == ValueKind::kNull) {
        if (frame.root) state.slots.emplace_back(static_cast<int32_t>(slot), recipe_of(null_));
      } else if (live || exists) {
        state.slots.emplace_back(static_cast<int32_t>(slot), recipe_of(value));
      } else {
        dead.push_back({i, static_cast<int32_t>(slot), value});
      }
    }
    int base = static_cast<int>(frame.locals.size());
    for (size_t d = 0; d < values.size(); ++d) {
      size_t slot = base + d;
      if (frame.root && slot < initial_.size() &&
          (initial_[slot] == values[d] || initial_[slot]->forwarded == values[d]) &&
          values[d]->kind != ValueKind::kNull)
        continue;
      state.slots.emplace_back(static_cast<int32_t>(slot), recipe_of(values[d]));
    }
    exit.frames.push_back(std::move(state));
  }
  Value* handled = inside ? handled_before_call_now_ : handled_;
  for (size_t i = visible; i-- > 0;) {  // each generator's own, then the root's
    if (frames_[i].generator == nullptr) continue;
    if (handled != nullptr) exit.frames[i].handled = recipe_of(handled);
    handled = frames_[i].handled_outside;
  }
  if (handled != nullptr) exit.handled = recipe_of(handled);
  // What this exit makes for another's sake lives as long as the frame, like everything a local names.
  for (const Dead& local : dead) {
    auto& slots = exit.frames[local.frame].slots;
    auto place = std::lower_bound(slots.begin(), slots.end(), local.slot,
                                  [](const auto& each, int32_t slot) { return each.first < slot; });
    bool made = recipes_.count(local.value) != 0;
    if (made || frames_[local.frame].root) slots.insert(place, {local.slot, recipe_of(made ? local.value : null_)});
  }
  tell_raised(&exit, visible);
  guard_no_generator_is_dropped();
  exiting_ = false;
  recipes_.clear();
  shows_before_ = false;
  plan().exits.push_back(std::move(exit));
  return static_cast<ExitId>(plan().exits.size() - 1);
}

// What a class's body has changed cannot be changed again, and it has no frame to raise in.
void Tracer::may_raise_here() {
  if (changed_ && call_now_depth_ > 0 && call_now_depth_ == statement_depth_)
    break_from_the_start(BreakReason::k_instruction, "a class statement that may raise");
}

ExitId Tracer::exit_here(ExitKind kind) {
  int32_t offset = kind == ExitKind::kRaise ? frame().at : frame().offset;
  return exit_at(kind, offset, frame().before);
}

Flow Tracer::stop(BreakReason reason, std::string context) {
  if (tells_result()) refuse_result();
  reason_ = reason;
  context_ = std::move(context);
  forget_error();
  return raising_ = nullptr, Flow::kBreak;
}

// Then all that is known is that the root's present instruction cannot be followed.
void Tracer::give_up_when_nothing_is_learnt() {
  if (!learns_nothing()) return;
  const TraceFrame& root = frames_.front();
  input_.memory->not_followed[{root.bytecode->code, root.at}] = {BreakReason::k_trace_limit, "begun again too often"};
  throw Restart{};
}

void Tracer::restart_without(PyObject* code, int32_t offset) {
  give_up_when_nothing_is_learnt();
  input_.memory->not_inlined.emplace(std::pair<void*, int>{code, offset}, strict_);
  throw Restart{};
}

// Abandon: the present instruction is a break before it does anything.
void Tracer::break_from_the_start(BreakReason reason, std::string context) {
  give_up_when_nothing_is_learnt();
  TraceFrame& frame = call_now_depth_ > 0 ? frames_[call_now_frames_ - 1] : this->frame();
  input_.memory->not_followed[{frame.bytecode->code, frame.at}] = {reason, std::move(context)};
  throw Restart{};
}

void Tracer::changing(Value* value) {
  if (finalizers_ && value->is_virtual()) {  // what leaves the container may end
    auto breaks = [&](const Value* part) {
      if (part != nullptr && finalizes(part))
        break_from_the_start(BreakReason::k_container, "it holds an object with a finalizer");
    };
    for (const Value* item : value->items) breaks(item);
    for (const auto& [key, item] : value->entries) breaks(item);
  }
  if (value->serial > instruction_serial_) return;
  if (value->is_virtual()) {
    before_.try_emplace(value, *value);
    return;
  }
  if (call_now_depth_ > statement_depth_) restart_without_this_call();
  changed_ = true;
}

void Tracer::restart_without_this_call() {
  size_t caller = call_now_depth_ > 0 ? call_now_frames_ - 1 : frames_.size() - 2;
  TraceFrame& frame = frames_[caller];
  restart_without(reinterpret_cast<PyObject*>(frame.bytecode->code), frame.at);
}

std::vector<std::string> Tracer::user_stack() const {
  std::vector<std::string> stack;
  for (const TraceFrame& each : frames_)
    if (options.verbose || !is_internal(each.bytecode->code)) stack.push_back(place_of(each));
  for (const TraceFrame& each : frames_)
    if (stack.empty()) stack.push_back(place_of(each));
  return stack;
}

void Tracer::finish(ExitId exit) {
  plan().final_exit = exit;
  ended_ = true;
}

// ---- The loop -------------------------------------------------------------------------------------------------------

Flow Tracer::step_or_break(const Instruction& instruction) {
  if (input_.policy.break_everywhere) return stop(BreakReason::k_everywhere);
  const auto& known = input_.memory->not_followed;
  if (!known.empty()) {
    auto found = known.find({frame().bytecode->code, frame().at});
    if (found != known.end()) return stop(found->second.first, found->second.second);
  }
  if (drops_a_finaliser(instruction)) return stop(BreakReason::k_instruction, "it may end an object that runs code");
  return step(instruction);
}

// Follows instructions until the frames above `floor` have returned or the trace has ended.
Flow Tracer::run_loop(size_t floor) {
  while (frames_.size() > floor && !ended_) {
    TraceFrame& now = frame();
    const Instruction& instruction = now.bytecode->at(now.next);
    now.at = instruction.offset;
    if (now.keyword_names == nullptr) now.offset = instruction.offset;
    now.before = now.stack;
    now.next = instruction.next;
    raising_ = nullptr;
    int depth = stack_depth_at(*now.bytecode, instruction.offset);
    if (depth >= 0 && static_cast<size_t>(depth) != now.stack.size()) {  // a fault of the tracer: nothing of it is used
      fault_ =
          Status::decline(BreakReason::k_internal, std::to_string(now.stack.size()) + " values on the stack, not " +
                                                       std::to_string(depth) + ", at " + place_of(now));
      ended_ = true;
      return Flow::kEnd;
    }
    if (++instructions_ > input_.policy.instruction_limit || plan().guards.size() > kMostGuards ||
        trace_.records.size() > kMostRecords || plan().value_count > kMostValues) {
      if (input_.policy.exporting) refuse_long_loop();
      if (frames_.size() > 1) restart_without_this_call();
      if (now.offset == input_.offset) return stop(BreakReason::k_trace_limit);
      finish(exit_here(ExitKind::kNext));
      return Flow::kEnd;
    }
    if (!input_.memory->cuts.empty() && call_now_depth_ == 0 && !calls_.empty() &&
        input_.memory->cuts.count({now.bytecode->code, now.at}) != 0) {
      finish(exit_here(ExitKind::kNext));
      return Flow::kEnd;
    }
    if (call_now_depth_ == 0) {
      changed_ = false;
      before_.clear();
      instruction_serial_ = static_cast<int32_t>(arena_.size());
      guards_before_ = plan().guards.size();
      records_before_ = trace_.records.size();
    }
    if (options.verbose) [[unlikely]]
      note_instruction(instruction);
    Flow flow = step_or_break(instruction);
    if (flow == Flow::kRaise) flow = follow_raise(floor);
    if (flow == Flow::kRaise) return flow;
    if (flow == Flow::kBreak) {
      if (frames_.size() > 1 && is_generator(frame().bytecode->code) && frame().generator == nullptr)
        restart_without_this_call();  // what comes before RETURN_GENERATOR cannot be continued
      if (is_left_to_the_frame(reason_) && !input_.policy.fullgraph && !strict_) return leave_skipped();
      if (call_now_depth_ > 0) {  // a builtin's callback cannot be continued: the builtin's call is the break
        TraceFrame& caller = frames_[call_now_frames_ - 1];
        restart_without(reinterpret_cast<PyObject*>(caller.bytecode->code), caller.at);
      }
      for (size_t i = 1; i < frames_.size() && !input_.policy.fullgraph; ++i)
        if (frames_[i].hard)
          restart_without(reinterpret_cast<PyObject*>(frames_[i - 1].bytecode->code), frames_[i - 1].at);
      TraceFrame& broken = frame();
      if (changed_) break_from_the_start(reason_, context_);
      BreakRecord record = describe_break();
      broken.stack = broken.before;
      shows_dead_locals_ = reason_ == BreakReason::k_raises || reason_ == BreakReason::k_unbound ||
                           must_raise(*broken.bytecode, broken.bytecode->index_at[broken.at]);
      ExitId exit = exit_here(ExitKind::kStep);
      shows_dead_locals_ = false;
      result_->strict_break = leaf_strict_ >= 0 ? leaf_strict_ != 0 : strict_;
      plan().breaks.push_back(std::move(record));
      plan().exits[exit].break_index = static_cast<int32_t>(plan().breaks.size() - 1);
      finish(exit);
      return Flow::kEnd;
    }
  }
  return ended_ ? Flow::kEnd : Flow::kGo;
}

Status Tracer::run() {
  const Bytecode& bytecode = bytecode_of(input_.code);
  frames_.emplace_back();
  TraceFrame& root = frames_.back();
  root.bytecode = &bytecode;
  root.root = true;
  root.next = input_.offset;
  root.function = make(ValueKind::kFunction);
  root.function->object = reinterpret_cast<PyObject*>(input_.function);
  root.function->code = input_.code;
  root.function->id = function_id_ = new_value();
  root.function->source = source("the function");
  guard(GuardKind::k_function, root.function->source).dst = function_id_;
  root.function->complete = false;
  known_.emplace(root.function->object, root.function);

  int locals = input_.code->co_nlocalsplus;
  for (int i = 0; i < locals + input_.depth; ++i) {
    Value* value = input_.slots[i] == nullptr ? make(ValueKind::kNull) : make(ValueKind::kLazy);
    value->slot = i;
    value->object = input_.slots[i];
    finalizers_ = finalizers_ || finalizes(value);
    initial_.push_back(value);
    (i < locals ? root.locals : root.stack).push_back(value);
  }
  plan().name = std::string(PyUnicode_AsUTF8(input_.code->co_name) ? PyUnicode_AsUTF8(input_.code->co_name) : "?") +
                "@" + std::to_string(input_.offset);
  PyErr_Clear();

  Exit nothing_done;
  nothing_done.kind = ExitKind::kHandOver;
  nothing_done.frames.emplace_back();
  nothing_done.frames[0].code = constant_id(reinterpret_cast<PyObject*>(input_.code), Hold::kStrong);
  nothing_done.frames[0].offset = input_.offset;
  nothing_done.frames[0].depth = input_.depth;
  plan().exits.push_back(std::move(nothing_done));
  trace_.entry_exit = 0;

  run_loop(0);
  if (!fault_.ok) return fault_;
  if (result_->failure == Failure::kPending) return Status::success();
  forget_error();
  guard_distinct();
  return Status::success();
}

Status trace(const TraceInput& input, TraceResult* result) {
  TracePolicy policy = input.policy;
  for (int attempt = 0; attempt < kRestartLimit; ++attempt) {
    *result = TraceResult{};
    Clock::time_point start = Clock::now();
    try {
      Tracer tracer(input, result, attempt);
      if (Status status = tracer.run(); !status.ok) return status;
      if (result->failure != Failure::kNone || result->skips_frame) {
        result->plan = std::move(tracer.trace_.plan);
        return Status::success();
      }
      result->trace_us = microseconds_since(start);
      const Exit& last = tracer.plan().exits[static_cast<size_t>(tracer.plan().final_exit)];
      bool refused = last.break_index >= 0 && (policy.fullgraph || result->strict_break);
      if (policy.exporting && !refused) {
        tracer.hand_to_export();
        result->failure = Failure::kPending;
        return Status::success();
      }
      if (!tracer.calls_.empty() && !refused && !tracer.hand_to_backend()) {
        result->failure = Failure::kPending;
        return Status::success();
      }
      start = Clock::now();
      result->tensor_ops = static_cast<int>(tracer.trace_.nodes.size()) + tracer.tensor_calls_;
      if (policy.describe)
        for (const Node& node : tracer.trace_.nodes) tracer.plan().graph.push_back(to_text(node));
      fuse(&tracer.trace_, policy.fuse);
      result->fuse_us = microseconds_since(start);
      result->plan = std::move(tracer.trace_.plan);
      for (size_t i = result->bindings.size(); i < result->plan.constants.size(); ++i) {  // layouts that fusing added
        result->layouts.emplace_back(parse_layout(result->plan.constants[i].text));
        result->bindings.push_back(result->layouts.back().get());
        result->holds.push_back(Hold::kLayout);
      }
      return Status::success();
    } catch (const Impure& refused) {
      forget_error();
      *result = TraceResult{};
      result->failure = Failure::kUncaptured;
      result->plan.breaks.emplace_back();
      result->plan.breaks[0].context =
          refused.input ? "Encountered input mutation during higher order op tracing: a branch changes its input in "
                          "place; change a clone of it"
                        : "HOP: Unsafe side effect: a branch changes something outside of it";
      result->plan.breaks[0].stack = refused.stack;
      return Status::success();
    } catch (const NotExported& refused) {
      PyErr_Clear();
      result->plan.breaks.assign(1, refused.record);
      return Status::success();
    } catch (const Restart&) {
      forget_error();
    }
  }
  *result = TraceResult{};
  return Status::decline(BreakReason::k_trace_limit, "the trace was begun again too often");
}

}  // namespace kintsugi
