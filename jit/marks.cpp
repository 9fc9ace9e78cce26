// Calls of callables that carry a mark: breaks on demand, forbidden ones, those that are one opaque call (opaque.cpp),
// and the switches that the trace itself carries out. runtime/marks.cpp knows the marks.
#include "jit/tracer_core.h"
#include "runtime/frame.h"
#include "runtime/options.h"

namespace kintsugi {

bool is_left_to_the_frame(BreakReason reason) {
  return reason == BreakReason::k_skip_frame || reason == BreakReason::k_step_unsupported;
}

std::string qualified_name(PyObject* callable) {
  Ref name(PyObject_GetAttrString(callable, "__qualname__"));
  const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  std::string result = text != nullptr ? text : "?";
  PyErr_Clear();
  return result;
}

std::string forbidden_text(PyObject* callable) {
  return "Attempt to trace forbidden callable " + qualified_name(callable);
}

// Objects are borrowed from what holds them now, and that may change.
void Tracer::expect_foreign_code() {
  result_->ran_foreign_code = true;
  auto share = [&](void* object) {
    if (object != nullptr && shared_.insert(object).second) keep(static_cast<PyObject*>(object));
  };
  for (const Value& value : arena_) {
    for (void* each : std::initializer_list<void*>{value.object, value.mirror, value.type, value.code, value.made_in})
      share(each);
    for (auto& [key, item] : value.entries) share(key);
    if (value.layout == nullptr || !shared_.insert(value.layout).second) continue;
    retain(value.layout);
    keep_layout(value.layout);
  }
  for (auto& [key, value] : key_values_) share(key);
  for (const TraceFrame& frame : frames_) share(frame.bytecode->code);
  for (size_t i = 0; i < result_->bindings.size(); ++i)
    if (Hold hold = result_->holds[i]; hold != Hold::kNone && hold != Hold::kLayout) share(result_->bindings[i]);
}

// ---- Ends ----------------------------------------------------------------------------------------------------------

Flow Tracer::end_without_plan() {
  BreakRecord record = describe_break();
  plan().breaks.assign(1, std::move(record));
  ended_ = true;
  return Flow::kEnd;
}

Flow Tracer::fail(Failure failure, std::string text) {
  result_->failure = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) ? Failure::kPending : failure;
  reason_ = BreakReason::k_internal;
  context_ = std::move(text);
  return end_without_plan();
}

// The frame that asked for it runs plain, all of it or the rest; in an inlined callee, the callee does so on its own.
Flow Tracer::leave_skipped() {
  if (frames_.size() > 1) restart_without_this_call();
  bool empty = trace_.nodes.empty() && tensor_calls_ == 0;
  if (reason_ == BreakReason::k_step_unsupported && !empty) {
    BreakRecord record = describe_break();
    frame().stack = frame().before;
    ExitId exit = exit_here(ExitKind::kHandOver);
    plan().breaks.push_back(std::move(record));
    plan().exits[exit].break_index = static_cast<int32_t>(plan().breaks.size() - 1);
    finish(exit);
    return Flow::kEnd;
  }
  if (reason_ == BreakReason::k_step_unsupported) reason_ = BreakReason::k_step_empty;
  result_->skips_frame = true;
  return end_without_plan();
}

// What a segment's caller holds weakly, the step holds while the segment runs.
static Flow held_by_the_step(Tracer& t, Flow flow, Value* callee) {
  callee = t.force(callee);
  ValueId id = callee->is_real() ? callee->id : t.bound_id(callee->object);
  auto& records = t.trace_.records;
  for (size_t r = records.size(); flow == Flow::kGo && r-- > 0;)
    if (records[r].node < 0 && records[r].step.kind == StepKind::k_opaque_call) {
      records[r].step.a = id;
      break;
    }
  return flow;
}

// ---- Marks ---------------------------------------------------------------------------------------------------------

// Of kt._dynamo.config's logging sets: left out, or called without a break.
bool Tracer::call_log(Value* callable, std::vector<Value*>& arguments, PyObject* names, Flow* flow) {
  PyObject *function = callable->object, *self = nullptr;
  std::vector<Value*> all = arguments;
  bool bound = callable->kind == ValueKind::kMethod && callable->items.size() == 2;
  if (bound) {
    function = force(callable->items[0])->object;
    all.insert(all.begin(), callable->items[1]);
  }
  if (function == nullptr) return false;
  // A method that was looked up for a call is its function, and the object the first argument.
  if ((bound || PyFunction_Check(function)) &&
      all.size() > (names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names)))) {
    Value* receiver = force(all[0]);
    if (receiver->kind == ValueKind::kObject && receiver->is_real()) self = receiver->object;
  }
  LogRole role = log_role(function, self);
  if (role == LogRole::kNone) return false;
  if (role == LogRole::kIgnored || input_.policy.in_export) {
    frame().stack.push_back(none());
    *flow = Flow::kGo;
    return true;
  }
  *flow = call_for_effect(function, all, names, /*checked_from=*/bound ? 1 : 0);
  return true;
}

bool Tracer::call_marked(Value* callable, std::vector<Value*>& arguments, PyObject* names, Flow* flow) {
  if (callable->kind == ValueKind::kPartial && nonstrict_.count(callable) != 0) {
    Value* function = callable->items[1];
    *flow = held_by_the_step(*this, call_opaque(function->object, AnswerForm::kTree, arguments, names), function);
    return true;
  }
  if (any_log_roles() && call_log(callable, arguments, names, flow)) return true;
  bool known =
      callable->is_constant() || ((callable->kind == ValueKind::kFunction || callable->kind == ValueKind::kObject) &&
                                  callable->is_real() && callable->source >= 0);
  if (!known || callable->object == nullptr) return false;
  Mark mark = mark_of(callable->object);
  bool by_identity = !callable->is_constant() && (mark.kind != MarkKind::kNone || marks_look_alike(callable->object));
  if (by_identity && callable->object != reinterpret_cast<PyObject*>(input_.function)) {
    ConstantId object = constant_id(callable->object, Hold::kWeak);
    Guard& same = guard(GuardKind::k_same, callable->source);
    same.a = callable->id;
    same.constant = object;
  }
  if (mark.kind == MarkKind::kNone) return false;
  *flow = follow_mark(mark, callable, arguments, names);
  return true;
}

static bool is_shallow(Tracer& t, Value* value) {
  Nesting nesting(t);
  if (nesting.is_much()) return false;
  value = t.force(value);
  if (value->is_real() && t.input_.backend == nullptr && !t.input_.policy.exporting) return true;  // handed on as it is
  std::vector<Value*>* items;
  if (value->kind == ValueKind::kDict) {
    for (auto& [key, item] : value->entries)
      if (item != nullptr && !is_shallow(t, item)) return false;
  } else if ((value->kind == ValueKind::kTuple || value->kind == ValueKind::kList) && t.list_items(value, &items)) {
    for (size_t i = 0; i < items->size(); ++i)
      if (!is_shallow(t, t.item_at(value, i))) return false;
  }
  return true;
}

Flow Tracer::follow_mark(const Mark& mark, Value* callable, std::vector<Value*>& arguments, PyObject* names) {
  switch (mark.kind) {
    case MarkKind::kForbidden: return fail(Failure::kForbidden, forbidden_text(callable->object));
    case MarkKind::kBreak: {
      std::string context = mark.context;
      if (callable->is_constant() && context.empty()) {
        for (Value* argument : arguments) {
          argument = force(argument);
          if (!argument->is_constant() || !PyUnicode_CheckExact(argument->object)) continue;
          const char* given = PyUnicode_AsUTF8(argument->object);  // null: a lone surrogate
          if (given != nullptr) context = given;
        }
      }
      bool strict = input_.policy.fullgraph || strict_;
      bool steps = mark.reason == BreakReason::k_step_unsupported && strict;
      return stop(steps ? BreakReason::k_step_strict : mark.reason, context);
    }
    case MarkKind::kAnswer:
      result_->reads_compiling = true;
      frame().stack.push_back(constant(mark.object));
      return Flow::kGo;
    case MarkKind::kIsExporting:
      result_->reads_compiling = true;
      frame().stack.push_back(constant(input_.policy.in_export ? Py_True : Py_False));
      return Flow::kGo;
    case MarkKind::kSetStrict: return set_strict(arguments);
    case MarkKind::kSetGrad: return set_grad(arguments);
    case MarkKind::kReadGrad: {
      guard_grad_mode();
      PyObject* answer = nullptr;
      if (!reads_grad_mode(PyCFunction_GET_FUNCTION(callable->object), grad_mode_, &answer) || !arguments.empty())
        return stop(BreakReason::k_builtin, "the grad mode");
      frame().stack.push_back(constant(answer));
      return Flow::kGo;
    }
    case MarkKind::kOpaque:
    case MarkKind::kNonstrict: {
      AnswerForm form = mark.kind == MarkKind::kNonstrict ? AnswerForm::kTree : AnswerForm::kFlat;
      Flow flow = call_opaque(callable->object, form, arguments, names);
      return held_by_the_step(*this, flow, callable);
    }
    case MarkKind::kMakesNonstrict: {
      Value* function = arguments.size() == 1 && names == nullptr ? force(arguments[0]) : nullptr;
      if (function == nullptr || function->kind != ValueKind::kFunction || !function->is_real())
        return stop(BreakReason::k_nonstrict_local, qualified_name(callable->object));
      static PyObject* partial = [] {
        Ref functools = import_module("functools");
        return functools ? PyObject_GetAttrString(functools.get(), "partial") : nullptr;
      }();
      if (partial == nullptr) return stop(BreakReason::k_internal, "functools");
      Value* made = make(ValueKind::kPartial);
      made->items = {constant(partial), function};
      nonstrict_.insert(made);
      frame().stack.push_back(made);
      return Flow::kGo;
    }
    case MarkKind::kConstantResult: return constant_result(callable->object, arguments, names);
    case MarkKind::kSubstituted: return call(wrap_bound(mark.object, "a stand-in"), std::move(arguments), names);
    case MarkKind::kPrinted: {
      for (Value* argument : arguments)
        if (!is_shallow(*this, argument)) return stop(BreakReason::k_graph_arguments, "a deep container");
      size_t before = trace_.records.size();
      Flow flow = call_for_effect(callable->object, arguments, names, -1);
      form_ = {CallForm::kFunction, 0, callable->object};
      if (flow == Flow::kGo) note_call(before, arguments, names, nullptr);
      return flow;
    }
    case MarkKind::kWithoutEffect: frame().stack.push_back(none()); return Flow::kGo;
    case MarkKind::kSwapOption: return swap_option(callable->object, arguments, names);
    case MarkKind::kCond: return call_cond(arguments, names);
    case MarkKind::kNone: break;
  }
  return stop(BreakReason::k_internal, "a mark");
}

static bool may_be_logged(Tracer& t, Value* value) {
  Nesting nesting(t);
  if (nesting.is_much()) return false;
  value = t.force(value);
  if (value->kind == ValueKind::kTensor || value->is_number() || t.is_pure_object(value)) return true;
  PyObject* object;
  if (t.fold(value, &object)) return true;
  std::vector<Value*>* items;
  if (value->type != nullptr || !t.list_items(value, &items)) return false;
  for (size_t i = 0; i < items->size(); ++i)
    if (!may_be_logged(t, t.item_at(value, i))) return false;
  return true;
}

// A call for its effect alone, in its place. checked_from: from which argument on they must be what logs are made of;
// -1: whatever it is given.
Flow Tracer::call_for_effect(PyObject* function, const std::vector<Value*>& arguments, PyObject* names,
                             int checked_from) {
  if (checked_from >= 0 && names != nullptr) return stop(BreakReason::k_not_reorderable, "keywords");
  for (size_t i = static_cast<size_t>(std::max(checked_from, 0)); i < arguments.size() && checked_from >= 0; ++i)
    if (!may_be_logged(*this, arguments[i])) return stop(BreakReason::k_not_reorderable, "an object");
  Value* ignored = nullptr;
  Flow flow = tensor_run(function, arguments, names, nullptr, &ignored);
  --tensor_calls_;
  if (flow == Flow::kGo) frame().stack.push_back(none());
  return flow;
}

Flow Tracer::set_strict(std::vector<Value*>& arguments) {
  Value* wanted = arguments.size() == 1 ? force(arguments[0]) : nullptr;
  if (wanted == nullptr ||
      !(wanted->kind == ValueKind::kBool || (wanted->is_constant() && PyBool_Check(wanted->object))))
    return stop(BreakReason::k_builtin, "error_on_graph_break of what is no bool");
  may_raise_here();
  ExitId exit = exit_here(ExitKind::kRaise);
  Step& step = record(StepKind::k_set_strict);
  step.on_fail = exit;
  if (wanted->is_constant()) {
    step.imm = wanted->object == Py_True;
  } else {
    step.a = wanted->id;
  }
  Value* before = make(ValueKind::kBool);
  before->int_hint = strict_;
  step.dst = before->id = new_value();
  strict_ = wanted->is_constant() ? wanted->object == Py_True : wanted->int_hint != 0;
  frame().stack.push_back(before);
  return Flow::kGo;
}

void Tracer::guard_grad_mode() {
  if (std::exchange(grad_mode_guarded_, true)) return;
  guard(GuardKind::k_grad_mode, source("the grad mode")).imm = kintsugi::grad_mode();
}

Flow Tracer::set_grad(std::vector<Value*>& arguments) {
  Value* wanted = arguments.size() == 1 ? force(arguments[0]) : nullptr;
  if (wanted != nullptr && wanted->kind == ValueKind::kInt) wanted = specialise(wanted);
  if (wanted == nullptr || !wanted->is_constant() || !PyLong_CheckExact(wanted->object))
    return stop(BreakReason::k_builtin, "a grad mode that is not known");
  int mode = static_cast<int>(PyLong_AsLong(wanted->object));
  if (mode < 0 || mode > 2) return PyErr_Clear(), stop(BreakReason::k_builtin, "no grad mode");
  guard_grad_mode();
  Value* before = int_constant(grad_mode_);
  if (mode != grad_mode_) {
    may_raise_here();
    ExitId exit = exit_here(ExitKind::kRaise);
    size_t first = trace_.records.size();
    Step& step = record(StepKind::k_set_grad);
    step.imm = mode;
    step.on_fail = exit;
    if (input_.policy.exporting) export_grad_mode(first, mode);
  }
  grad_mode_ = mode;
  frame().stack.push_back(before);
  return Flow::kGo;
}

// Settings that may change for a region: the real one as an effect, the trace's own notion of it now. It answers what
// it was.
Flow Tracer::swap_option(PyObject* function, std::vector<Value*>& arguments, PyObject* names) {
  for (Value*& argument : arguments) argument = force(argument);
  bool constants = arguments.size() == 2 && names == nullptr && arguments[0]->is_constant() &&
                   PyUnicode_CheckExact(arguments[0]->object) && arguments[1]->is_constant() &&
                   PyBool_Check(arguments[1]->object);
  const char* name = constants ? PyUnicode_AsUTF8(arguments[0]->object) : nullptr;
  bool before = false;
  if (name == nullptr || !get_option(name, &before))
    return stop(BreakReason::k_builtin, "a setting that is no constant");
  auto [found, fresh] = region_options_.emplace(name, before);
  before = found->second;
  found->second = arguments[1]->object == Py_True;
  Flow flow = call_for_effect(function, arguments, nullptr, -1);
  if (flow != Flow::kGo) return flow;
  if (std::string(name) == "capture_scalar_outputs") capture_scalars_ = found->second || input_.policy.fullgraph;
  frame().stack.back() = constant(before ? Py_True : Py_False);
  return Flow::kGo;
}

// Called now, on what the arguments are; what it answers is a constant that no guard looks at.
Flow Tracer::constant_result(PyObject* function, std::vector<Value*>& arguments, PyObject* names) {
  std::vector<PyObject*> objects;
  for (Value* argument : arguments) {
    argument = force(argument);
    if (argument->is_number()) argument = specialise(argument);
    bool given = (argument->is_constant() && (as_class(argument) == nullptr || !is_made_class(as_class(argument)))) ||
                 (argument->is_real() && argument->source >= 0 && !argument->mutated);
    if (!given || argument->object == nullptr) return stop(BreakReason::k_graph_arguments, "of assume_constant_result");
    objects.push_back(argument->object);
  }
  size_t named = names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names));
  expect_foreign_code();
  Ref result;
  {
    CompilingScope compiling;
    result = Ref(PyObject_Vectorcall(function, objects.data(), objects.size() - named, names));
  }
  if (!result && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) return fail(Failure::kPending, "interrupted");
  if (!result) return stop(BreakReason::k_opaque_fails, "of assume_constant_result");
  bool held_by_nobody = Py_REFCNT(result.get()) == 1;
  keep(result.get());
  if (held_by_nobody) constant_id(result.get(), Hold::kStrong);  // else it would end here, and the segment with it
  frame().stack.push_back(wrap_bound(result.get(), qualified_name(function) + "()"));
  return Flow::kGo;
}

}  // namespace kintsugi
