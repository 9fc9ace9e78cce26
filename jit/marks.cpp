// Calls of callables that carry a mark: breaks on demand, forbidden ones, those that are one opaque call, and the
// switches that the trace itself carries out. runtime/marks.cpp knows the marks.
#include "jit/tracer_core.h"
#include "runtime/frame.h"
#include "runtime/options.h"

namespace kintsugi {

bool is_left_to_the_frame(BreakReason reason) {
  return reason == BreakReason::k_skip_frame || reason == BreakReason::k_step_unsupported;
}

constexpr int kOfCond = 2;  // in place of `structured`: ints and floats of the result vary

static std::string qualified_name(PyObject* callable) {
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
    if (Hold hold = result_->holds[i]; hold == Hold::kWeak || hold == Hold::kStrong) share(result_->bindings[i]);
}

// ---- Ends ----------------------------------------------------------------------------------------------------------

Flow Tracer::end_without_plan() {
  BreakRecord record;
  record.reason = static_cast<int32_t>(reason_);
  record.context = context_;
  record.stack = user_stack();
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
    frame().stack = frame().before;
    ExitId exit = exit_here(ExitKind::kHandOver);
    BreakRecord record;
    record.reason = static_cast<int32_t>(reason_);
    record.context = context_;
    record.stack = user_stack();
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
  if ((bound || PyFunction_Check(function)) && all.size() > (names == nullptr ? 0 : PyTuple_GET_SIZE(names))) {
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
    *flow = held_by_the_step(*this, call_opaque(function->object, /*structured=*/true, arguments, names), function);
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
      Flow flow = call_opaque(callable->object, mark.kind == MarkKind::kNonstrict, arguments, names);
      return held_by_the_step(*this, flow, callable);
    }
    case MarkKind::kMakesNonstrict: {
      Value* function = arguments.size() == 1 && names == nullptr ? force(arguments[0]) : nullptr;
      if (function == nullptr || function->kind != ValueKind::kFunction || !function->is_real())
        return stop(BreakReason::k_nonstrict_local, qualified_name(callable->object));
      static PyObject* partial = [] {
        Ref functools(PyImport_ImportModule("functools"));
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

// ---- Opaque calls --------------------------------------------------------------------------------------------------

// What the function is shown while it is compiled: a tensor of ones for a tensor. Null: `shown->refused`, or an
// exception.
Ref Tracer::placeholder(Value* value, Shown* shown) {
  value = force(value);
  if (shown->structured && value->is_number()) value = specialise(value);
  Nesting nesting(*this);
  if (nesting.is_much()) {
    shown->refused = "a deep container";
    return Ref();
  }
  std::vector<Value*>* items;
  switch (value->kind) {
    case ValueKind::kTensor: {
      shown->leaves.push_back(value);
      Shape shape = shape_of(*value->layout);
      Ref sizes(PyTuple_New(shape.rank));
      for (int d = 0; sizes && d < shape.rank; ++d)
        PyTuple_SET_ITEM(sizes.get(), d, PyLong_FromLongLong(shape.sizes[d]));
      Ref module(PyImport_ImportModule("kintsugi._opaque"));
      return Ref(module && sizes ? PyObject_CallMethod(module.get(), "placeholder", "Osi", sizes.get(),
                                                       info(value->layout->dtype).name, int{value->layout->gradients})
                                 : nullptr);
    }
    case ValueKind::kInt: shown->leaves.push_back(value); return Ref(PyLong_FromLongLong(value->int_hint));
    case ValueKind::kBool: shown->leaves.push_back(value); return Ref(PyBool_FromLong(value->int_hint));
    case ValueKind::kFloat: shown->leaves.push_back(value); return Ref(PyFloat_FromDouble(value->float_hint));
    case ValueKind::kTuple:
    case ValueKind::kList: {
      if (value->type != nullptr || !list_items(value, &items)) break;
      Ref list(PyList_New(0));
      for (size_t i = 0; list && i < items->size(); ++i) {
        Ref item = placeholder(item_at(value, i), shown);
        if (!item || PyList_Append(list.get(), item.get()) < 0) return Ref();
      }
      return value->kind == ValueKind::kList || !list ? std::move(list) : Ref(PyList_AsTuple(list.get()));
    }
    case ValueKind::kDict: {
      if (value->type != nullptr || !dict_complete(value)) break;
      Ref dict(PyDict_New());
      for (size_t i = 0; dict && i < value->entries.size(); ++i) {
        PyObject* key = value->entries[i].first;
        Value* item = dict_get(value, key);
        if (item == nullptr) continue;
        Ref part = placeholder(item, shown);
        if (!part || PyDict_SetItem(dict.get(), key, part.get()) < 0) return Ref();
      }
      return dict;
    }
    case ValueKind::kConstant: {
      PyTypeObject* type = Py_TYPE(value->object);
      bool plain = value->object == Py_None || type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type ||
                   type == &PyUnicode_Type || std::string(type->tp_name).rfind("kintsugi.", 0) == 0;
      if (!plain) break;
      shown->leaves.push_back(value);
      return Ref::share(value->object);
    }
    default: break;
  }
  PyTypeObject* type = type_of(value);
  if (shown->trees && type != nullptr)
    if (Ref node = registered_node(type); node) return tree_placeholder(value, node.get(), shown);
  shown->refused = type != nullptr ? type->tp_name : "an object that is not modelled";
  return Ref();
}

// The values of a result, built like the example. `leaf`: the tensors and floats in it, in order; `nodes`, from *node
// on: the instances of registered classes.
Value* Tracer::result_like(PyObject* example, std::vector<Value*>::const_iterator* leaf, PyObject* nodes,
                           Py_ssize_t* node, int structured) {
  if (is_tensor(example) || (structured != 1 && PyFloat_CheckExact(example)) ||
      (structured == kOfCond && PyLong_CheckExact(example)))
    return *(*leaf)++;
  auto sequence = [&](PyObject* parts) {
    std::vector<Value*> items;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(parts); ++i)
      items.push_back(result_like(PySequence_Fast_GET_ITEM(parts, i), leaf, nodes, node, structured));
    return items;
  };
  if (PyTuple_CheckExact(example) || PyList_CheckExact(example))
    return PyTuple_CheckExact(example) ? tuple_of(sequence(example)) : list_of(sequence(example));
  if (PyDict_CheckExact(example)) {
    Value* dict = make(ValueKind::kDict);
    PyObject *key, *item;
    for (Py_ssize_t at = 0; PyDict_Next(example, &at, &key, &item);)
      dict_put(dict, key, result_like(item, leaf, nodes, node, structured));
    return dict;
  }
  if (example == Py_None || PyBool_Check(example) || PyLong_CheckExact(example) || PyFloat_CheckExact(example) ||
      PyUnicode_CheckExact(example))
    return constant(example);
  return built_like(example, leaf, nodes, node, structured);
}

// The function runs once on placeholders: what it answers tells the layouts. At run time it is called as it is, capture
// off, and its answer has to be of the same structure (python/kintsugi/_opaque.py).
Flow Tracer::call_opaque(PyObject* function, bool structured, std::vector<Value*>& arguments, PyObject* names) {
  Shown shown;
  shown.structured = shown.trees = structured;
  shown.reason = structured ? BreakReason::k_nonstrict_input : BreakReason::k_graph_arguments;
  shown.objects = Ref(PyList_New(0));
  for (Value*& argument : arguments) {
    argument = force(argument);
    if (structured && argument->is_number()) argument = specialise(argument);
    Ref stand = placeholder(argument, &shown);
    if (!stand) return stop(shown.refused.empty() ? BreakReason::k_internal : shown.reason, shown.refused);
    if (PyList_Append(shown.objects.get(), stand.get()) < 0) return stop(BreakReason::k_internal, "memory");
  }
  return call_shown(function, "trace_call", structured, arguments, names, shown);
}

Flow Tracer::call_shown(PyObject* function, const char* helper, int structured, std::vector<Value*>& arguments,
                        PyObject* names, const Shown& shown) {
  Ref module(PyImport_ImportModule("kintsugi._opaque"));
  if (!module) return stop(BreakReason::k_internal, "kintsugi._opaque");
  bool dynamic = false;
  for (Value* leaf : shown.leaves) dynamic = dynamic || (leaf->kind == ValueKind::kTensor && leaf->dynamic);
  expect_foreign_code();
  Ref traced;
  {
    CompilingScope compiling;
    GradModeScope mode(grad_mode_);
    traced = Ref(PyObject_CallMethod(module.get(), helper, "OOOiii", function, shown.objects.get(),
                                     names == nullptr ? Py_None : names, structured, dynamic, shown.found_trees));
  }
  if (!traced) {
    if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) return fail(Failure::kPending, "interrupted");
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    Ref kind(type), object(value), entries(traceback);
    auto is = [&](const char* name) {
      Ref ours(PyObject_GetAttrString(module.get(), name));
      return ours.get() == kind.get();
    };
    Ref text(object ? PyObject_Str(object.get()) : nullptr);
    const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    std::string what = utf8 != nullptr ? utf8 : "?";
    PyErr_Clear();
    if (is("NoFakeRule")) return fail(Failure::kRuntime, what);
    if (is("Forbidden")) return fail(Failure::kForbidden, what);
    if (is("Uncaptured")) return fail(Failure::kUncaptured, what);
    if (is("Unrepresentable"))
      return stop(structured ? BreakReason::k_nonstrict_output : BreakReason::k_graph_result, what);
    return stop(BreakReason::k_opaque_fails,
                std::string(reinterpret_cast<PyTypeObject*>(kind.get())->tp_name) + ": " + what);
  }
  PyObject* caller = PyTuple_GET_ITEM(traced.get(), 0);
  PyObject* example = PyTuple_GET_ITEM(traced.get(), 1);
  PyObject* leaves = PyTuple_GET_ITEM(traced.get(), 2);
  PyObject* nodes = PyTuple_GET_ITEM(traced.get(), 4);
  if (PyTuple_GET_ITEM(traced.get(), 5) == Py_True) {
    if (!input_.policy.capture_shapes) return stop(BreakReason::k_dynamic_shape, qualified_name(function));
    dynamic = true;
  }
  keep(traced.get());
  keep(function);
  std::vector<ValueId> objects;
  size_t first = trace_.records.size();
  for (Value* argument : arguments) objects.push_back(object_of(argument));
  ConstantId called = constant_id(caller, Hold::kStrong);
  ExitId exit = exit_here(ExitKind::kRaise);
  size_t at = trace_.records.size();
  Step& step = record(StepKind::k_opaque_call);
  step.constant = called;
  step.list = std::move(objects);
  step.on_fail = exit;
  step.imm = PyTuple_GET_SIZE(leaves);
  std::vector<Value*> parts;
  std::vector<std::pair<Value*, ValueId>> numbers;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(leaves); ++i) {
    PyObject* leaf = PyTuple_GET_ITEM(leaves, i);
    ValueId id = new_value();
    if (i == 0) trace_.records[at].step.dst = id;
    if (is_tensor(leaf)) {
      Layout* layout = as_tensor(leaf)->layout;
      retain(layout);
      parts.push_back(tensor_value(layout, id, dynamic));
    } else {
      bool whole = PyLong_Check(leaf);
      Value* number = make(whole ? ValueKind::kInt : ValueKind::kFloat);
      if (whole) number->int_hint = PyLong_AsLongLong(leaf);
      if (!whole) number->float_hint = PyFloat_AS_DOUBLE(leaf);
      number->boxed = id;
      parts.push_back(number);
      numbers.emplace_back(number, id);
    }
  }
  for (auto& [number, id] : numbers) {  // cannot fail: the caller has looked
    Step& unbox = record(StepKind::k_unbox);
    unbox.a = id;
    unbox.imm = number->kind == ValueKind::kFloat ? 1 : 0;
    unbox.on_fail = exit;
    unbox.dst = number->id = new_value();
  }
  ++tensor_calls_;
  guard_grad_mode();
  Value* whole = parts.size() == 1 && is_tensor(example) ? parts[0] : make(ValueKind::kTuple);
  form_ = {CallForm::kOpaque, 0, shown.found_trees ? PyTuple_GET_ITEM(traced.get(), 6) : function};
  if (shown.found_trees)
    note_call(first, shown.leaves, nullptr, whole);
  else
    note_call(first, arguments, names, whole);
  PyObject* paths = PyTuple_GET_ITEM(traced.get(), 3);
  for (size_t i = 0; i < parts.size() && whole != parts[0]; ++i) {
    form_ = {CallForm::kLeaf, 0, PyTuple_GET_ITEM(paths, i)};
    note_call(trace_.records.size(), {whole}, nullptr, parts[i]);
  }
  auto leaf = parts.cbegin();
  Py_ssize_t node = 0;
  frame().stack.push_back(result_like(example, &leaf, nodes, &node, structured));
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

// A function as it is, or one made of the trace's code with placeholders for what it captured.
Ref Tracer::example_function(Value* function) {
  if (function->kind == ValueKind::kFunction && function->is_real() && function->object != nullptr)
    return Ref::share(function->object);
  if (function->kind != ValueKind::kFunction)
    return function->object != nullptr && PyCallable_Check(function->object) ? Ref::share(function->object) : Ref();
  Value* globals = function->globals == nullptr ? nullptr : force(function->globals);
  if (globals == nullptr || globals->object == nullptr || !PyDict_Check(globals->object)) return Ref();
  Ref made(PyFunction_New(reinterpret_cast<PyObject*>(function->code), globals->object));
  auto example = [&](Value* content) {
    Shown plain;
    Ref shown = content == nullptr ? Ref() : placeholder(content, &plain);
    if (!shown && content != nullptr) shown = example_function(force(content));
    if (!shown && content != nullptr && force(content)->object != nullptr) shown = Ref::share(force(content)->object);
    return shown;
  };
  std::vector<Value*>* items = nullptr;
  auto examples = [&](Value* sequence, auto wrap) {
    if (!made || !list_items(force(sequence), &items)) return Ref();
    Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(items->size())));
    for (size_t i = 0; tuple && i < items->size(); ++i) {
      Ref shown = wrap(item_at(force(sequence), i));
      if (!shown) return Ref();
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), shown.release());
    }
    return tuple;
  };
  if (function->closure != nullptr) {
    Ref closure = examples(function->closure, [&](Value* cell) {
      Ref shown = example(cell_content(cell, interned.call));
      return shown ? Ref(PyCell_New(shown.get())) : Ref();
    });
    if (!closure || PyFunction_SetClosure(made.get(), closure.get()) < 0) return Ref();
  }
  if (function->defaults != nullptr) {
    Ref defaults = examples(function->defaults, example);
    if (!defaults || PyFunction_SetDefaults(made.get(), defaults.get()) < 0) return Ref();
  }
  if (function->keyword_defaults != nullptr) {
    Value* given = force(function->keyword_defaults);
    Ref defaults(PyDict_New());
    if (given->kind != ValueKind::kDict || !dict_complete(given)) return Ref();
    for (auto& [key, item] : given->entries) {
      Ref shown = item == nullptr ? Ref() : example(item);
      if (!defaults || !shown || PyDict_SetItem(defaults.get(), key, shown.get()) < 0) return Ref();
    }
    if (!made || PyFunction_SetKwDefaults(made.get(), defaults.get()) < 0) return Ref();
  }
  return made;
}

static PyObject* called_cond(bool in_export) {
  static PyObject* functions[2] = {};
  PyObject*& function = functions[in_export];
  if (function == nullptr) {
    Ref module(PyImport_ImportModule("kintsugi._opaque"));
    function = module ? PyObject_GetAttrString(module.get(), in_export ? "exported_cond" : "cond") : nullptr;
  }
  return function;
}

// A predicate of Python picks a branch, which is followed. A tensor's: both branches are compiled on placeholders, one
// call chooses.
Flow Tracer::call_cond(std::vector<Value*>& arguments, PyObject* names) {
  static constexpr const char* kNames[] = {"pred", "true_fn", "false_fn", "operands"};
  Value* given[4] = {};
  size_t named = names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names)),
         positional = arguments.size() - named;
  if (positional > 4) return fail(Failure::kUncaptured, "kt.cond: improper args/kwargs");
  for (size_t i = 0; i < positional; ++i) given[i] = force(arguments[i]);
  for (size_t k = 0; k < named; ++k)
    for (size_t i = 0; i < 4; ++i)
      if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(k)), kNames[i]) == 0)
        given[i] = force(arguments[positional + k]);
  if (given[0] == nullptr || given[1] == nullptr || given[2] == nullptr)
    return fail(Failure::kUncaptured, "kt.cond: improper args/kwargs: pred, true_fn and false_fn are wanted");
  Value* operands = given[3] != nullptr ? given[3] : tuple_of({});
  std::vector<Value*>* items = nullptr;
  if ((operands->kind != ValueKind::kTuple && operands->kind != ValueKind::kList) || !list_items(operands, &items))
    return fail(Failure::kUncaptured, "kt.cond: improper operands: a tuple or list is wanted");
  std::vector<Value*> passed;
  for (size_t i = 0; i < items->size(); ++i) passed.push_back(item_at(operands, i));
  if (given[0]->kind != ValueKind::kTensor) {
    Value* known = given[0]->is_number() ? specialise(given[0]) : given[0];
    bool number = known->is_constant() && (PyBool_Check(known->object) || PyLong_CheckExact(known->object) ||
                                           PyFloat_CheckExact(known->object));
    if (!number) return fail(Failure::kUncaptured, "kt.cond: improper predicate: a bool or a tensor of one is wanted");
    expect_foreign_code();
    if (PyErr_WarnEx(PyExc_UserWarning,
                     "kt.cond specializes: its predicate is a Python constant, so that one branch only is compiled",
                     1) < 0)
      return fail(Failure::kPending, "a warning");
    return call(given[PyObject_IsTrue(known->object) ? 1 : 2], std::move(passed), nullptr);
  }
  if (given[0]->layout->dtype != DType::k_bool || (given[0]->dynamic && given[0]->layout->rank > 0) ||
      given[0]->layout->count != 1)
    return fail(Failure::kUncaptured, "kt.cond: improper predicate: a tensor of one bool is wanted");
  Shown shown;
  shown.trees = true;
  shown.objects = Ref(PyList_New(0));
  std::vector<Value*> all = {given[0], given[1], given[2]};
  all.insert(all.end(), passed.begin(), passed.end());
  for (size_t i = 0; i < all.size(); ++i) {
    Ref stand = i == 1 || i == 2 ? example_function(all[i]) : placeholder(all[i], &shown);
    if (!stand)
      return fail(Failure::kUncaptured,
                  i < 3 ? "HOP: non-callable variable" : "kt.cond: improper operands contents: " + shown.refused);
    if (i == 1 || i == 2) shown.leaves.push_back(all[i]);
    if (PyList_Append(shown.objects.get(), stand.get()) < 0) return stop(BreakReason::k_internal, "memory");
  }
  return call_shown(called_cond(input_.policy.in_export), "trace_cond", kOfCond, all, nullptr, shown);
}

}  // namespace kintsugi
