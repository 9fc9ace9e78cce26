// A trace as one graph that stands alone (kt.export): its tensor calls, the numbers between them, and what it returns.
// Whatever else it would check or change when it runs is refused where it happens. Nothing is run and nothing is kept:
// python/kintsugi/export.py takes the graph and raises.
#include <opcode.h>  // NB_ADD and the like

#include <algorithm>
#include <set>

#include "jit/graph_calls.h"
#include "runtime/frame.h"

namespace kintsugi {

void Tracer::refuse_export(Failure failure, std::string text) {
  result_->failure = failure;
  NotExported refused;
  refused.record.reason = static_cast<int32_t>(BreakReason::k_internal);
  refused.record.context = std::move(text);
  if (!frames_.empty()) refused.record.stack = user_stack();
  throw refused;
}

void Tracer::refuse_long_loop() {
  refuse_export(
      Failure::kUser,
      "kt.export: the function does not end within one graph: a loop is too long, or its length is known only "
      "when it runs; make the loop shorter, or its length static");
}

void Tracer::export_assert(Value* condition) {
  TraceFrame& now = frame();
  Ref module = import_module("kintsugi.export");
  Ref check(module ? PyObject_GetAttrString(module.get(), "_assert") : nullptr);
  if (!check) refuse_export(Failure::kUser, "kt.export: assert");
  keep(check.get());
  const Instruction& message = now.bytecode->at(now.bytecode->at(now.next).next);  // after LOAD_ASSERTION_ERROR
  Value* text = none();
  if (message.opcode == Opcode::k_LOAD_CONST)
    text = constant(PyTuple_GET_ITEM(now.bytecode->code->co_consts, message.argument));
  form_ = {CallForm::kFunction, 0, check.get()};
  note_call(trace_.records.size(), {condition, text}, nullptr, nullptr);
}

// A graph changes the mode as the program does.
void Tracer::export_grad_mode(size_t first_record, int mode) {
  Ref module = import_module("kintsugi._runtime");
  Ref change(module ? PyObject_GetAttrString(module.get(), "_change_grad_mode") : nullptr);
  if (!change) refuse_export(Failure::kUser, "kt.export: a grad mode");
  keep(change.get());
  form_ = {CallForm::kFunction, 0, change.get()};
  note_call(first_record, {int_constant(mode)}, nullptr, nullptr);
}

// Of _outgoing in python/kintsugi/export.py: what it cannot look at has no form.
bool Tracer::tells_result() const {
  if (!input_.policy.exporting || frames_.size() < 2) return false;
  static PyObject* const name = PyUnicode_InternFromString("_outgoing");
  return frames_.back().bytecode->code->co_name == name &&
         PyUnicode_CompareWithASCIIString(frames_.front().bytecode->code->co_name, "exported") == 0;
}

void Tracer::refuse_result() {
  refuse_export(
      Failure::kUser,
      "kt.export: the function answers an object that has no form in a graph; answer tensors, numbers, text, None, or "
      "tuples, lists, dicts, sets and slices of these, or objects of classes that "
      "kt.utils._pytree knows, nested a few dozen times at most");
}

void Tracer::refuse_walk(Value* tensor) {
  refuse_export(Failure::kConstraint,
                "kt.export: Constraints violated: the function iterates over " + source_text(tensor) +
                    ", whose first size dynamic_shapes declares dynamic. Leave it out of dynamic_shapes, so that it is "
                    "static, or use operators over the whole tensor");
}

void Tracer::refuse_change() {
  refuse_export(Failure::kUser,
                "kt.export: the function changes an object outside of its graph; make what it changes a result, or "
                "change it after the call");
}

namespace {

// By value: the step that sets it. A sum may be thousands of steps deep, so nothing below walks them by recursion.
class Makers {
 public:
  explicit Makers(const Trace& trace) : steps_(static_cast<size_t>(trace.plan.value_count)) {
    for (const Record& record : trace.records)
      if (record.node < 0 && record.step.dst != kNoValue) steps_[static_cast<size_t>(record.step.dst)] = &record.step;
  }
  const Step* of(ValueId id) const {
    return static_cast<size_t>(id) < steps_.size() ? steps_[static_cast<size_t>(id)] : nullptr;
  }

 private:
  std::vector<const Step*> steps_;
};

// What a word is made of: sizes, as text ("x.shape[0]"), and elements of tensors.
struct Origins {
  std::string sizes;
  bool data = false;
  std::set<ValueId> seen;

  void add(Tracer& t, ValueId id) {
    const Makers makers(t.trace_);
    std::vector<ValueId> work{id};
    while (!work.empty()) {
      const ValueId now = work.back();
      work.pop_back();
      const Step* step = seen.insert(now).second ? makers.of(now) : nullptr;
      if (step == nullptr) continue;
      if (step->kind == StepKind::k_size) {
        add_size(t, *step);
        continue;
      }
      if (step->kind == StepKind::k_unbox) {
        const Step* boxed = makers.of(step->a);
        if (boxed == nullptr || boxed->kind != StepKind::k_pure_call) data = true;
      }
      data = data || step->kind == StepKind::k_item;
      work.insert(work.end(), step->list.rbegin(), step->list.rend());
      for (ValueId part : {step->b, step->a})
        if (part != kNoValue) work.push_back(part);
    }
  }
  void add_size(Tracer& t, const Step& step) {
    std::string name;
    for (Value& value : t.arena_)
      if (value.kind == ValueKind::kTensor && value.id == step.a && value.source >= 0) name = t.source_text(&value);
    name = (name.empty() ? "a tensor" : name) + ".shape[" + std::to_string(step.imm) + "]";
    if (sizes.find(name) == std::string::npos) sizes += (sizes.empty() ? "" : ", ") + name;
  }
};

}  // namespace

// The trace depends on what a word is.
void Tracer::refuse_check(ValueId id) {
  Origins origins;
  origins.add(*this, id);
  if (origins.data || origins.sizes.empty())
    refuse_export(Failure::kUser,
                  "kt.export: Could not guard on data-dependent expression: the way through the function depends on "
                  "what a tensor contains. Use kt.cond or kt.where, or read the number outside");
  refuse_export(Failure::kConstraint,
                "kt.export: Constraints violated: the way through the function depends on " + origins.sizes +
                    ", which dynamic_shapes declares dynamic. Leave it out of dynamic_shapes, so that it is static, or "
                    "do not compare it");
}

namespace {

// From steps and recipes to what kintsugi.fx.build takes.
class Exporter {
 public:
  explicit Exporter(Tracer& t) : t_(t), makers_(t.trace_) {
    numbers_.computed = [this](Value* value) { return word(value->id); };
    numbers_.function = [this](Value* value) { return function(value); };
  }

  // Null: an exception is set.
  Ref told() {
    Ref calls(PyList_New(0));
    calls_ = calls.get();
    for (const GraphCall& call : t_.calls_) {
      int number = -1;
      Ref row = call_row(t_, call, &numbers_, &number);
      if (number >= 0) {
        by_id_[call.out->id] = number;
        if (call.out->boxed != kNoValue) by_id_[call.out->boxed] = number;
      }
      if (!row || PyList_Append(calls_, row.get()) < 0) return Ref();
    }
    const Exit& last = t_.plan().exits[static_cast<size_t>(t_.plan().final_exit)];
    Ref returned = structure(last.result);
    if (!returned) return Ref();
    Ref inputs(PyList_New(0));
    for (Value* input : numbers_.inputs) {
      bool ignored = false;
      PyObject* example = input->object != nullptr ? input->object : t_.stand_in(input, &ignored);
      Ref row(Py_BuildValue("(isOi)", numbers_.of[input], t_.source_text(input).c_str(),
                            example == nullptr ? Py_None : example, input->source >= 0 || input->slot >= 0));
      if (!inputs || !row || PyList_Append(inputs.get(), row.get()) < 0) return Ref();
    }
    return Ref(
        Py_BuildValue("(OOOO)", inputs.get(), calls.get(), returned.get(), t_.reads_gradients_ ? Py_True : Py_False));
  }

 private:
  [[noreturn]] void refuse(const std::string& what) { t_.refuse_export(Failure::kUser, "kt.export: " + what); }

  Ref numbered(ValueId id) {
    auto found = by_id_.find(id);
    if (found != by_id_.end()) return graph_ref(found->second);
    if (const Step* maker = makers_.of(id)) {
      const Step step = *maker;
      if (step.kind == StepKind::k_box_int || step.kind == StepKind::k_box_float || step.kind == StepKind::k_box_bool)
        return word(step.a);
      if (step.kind == StepKind::k_pure_call) return pure_call(id, step);
      if (step.kind == StepKind::k_build) return structure(static_cast<RecipeId>(step.index));
    }
    for (Value& value : t_.arena_) {  // an input that no call has named yet
      bool here = (value.id == id || value.boxed == id) && value.forwarded == nullptr;
      if (here && value.object != nullptr && is_fixed(value)) return Ref::share(value.object);
      if (here && (value.kind == ValueKind::kTensor || value.kind == ValueKind::kLazy) && value.object != nullptr) {
        if (auto known = numbers_.of.find(&value); known != numbers_.of.end()) return graph_ref(known->second);
        int number = static_cast<int>(numbers_.of.size());
        numbers_.of[&value] = number;
        numbers_.inputs.push_back(&value);
        return graph_ref(number);
      }
    }
    for (auto& [object, bound] : t_.checked_)
      if (bound == id) return Ref::share(object);
    return Ref();
  }

  // What is the same at every call: constants, and the program's own classes and functions.
  static bool is_fixed(const Value& value) {
    return value.kind == ValueKind::kConstant ||
           (value.source >= 0 && (PyType_Check(value.object) || PyFunction_Check(value.object)));
  }

  Ref call(const char* form, int operation, PyObject* target, std::vector<Ref> arguments) {
    Ref list(PyList_New(0));
    for (Ref& argument : arguments)
      if (!list || !argument || PyList_Append(list.get(), argument.get()) < 0) return Ref();
    int number = ++made_ + kFirstMade;
    Ref row(Py_BuildValue("(siOOOiO)", form, operation, target == nullptr ? Py_None : target, list.get(), Py_None,
                          number, Py_None));
    if (!row || PyList_Append(calls_, row.get()) < 0) return Ref();
    return graph_ref(number);
  }

  // Of atoms: text of a size, a power of it.
  Ref pure_call(ValueId id, const Step& step) {
    std::vector<Ref> arguments;
    for (ValueId each : step.list) {
      arguments.push_back(numbered(each));
      if (!arguments.back()) return Ref();
    }
    auto* callable = static_cast<PyObject*>(t_.result_->bindings[static_cast<size_t>(step.constant)]);
    Ref made = call("function", 0, callable, std::move(arguments));
    if (made) by_id_[id] = made_ + kFirstMade;
    return made;
  }

  // One that captures nothing is a constant, any other is made of what it captures and its defaults.
  Ref function(Value* value) {
    Ref base = t_.example_function(value);
    if (!base) refuse("a function that is made inside has no form in a graph");
    if (value->closure == nullptr && value->defaults == nullptr && value->keyword_defaults == nullptr) return base;
    std::vector<Value*>* items = nullptr;
    Ref contents(PyTuple_New(0)), defaults(Py_NewRef(Py_None)), keyword_defaults(Py_NewRef(Py_None));
    if (value->closure != nullptr) {
      Value* closure = t_.force(value->closure);
      if (!t_.list_items(closure, &items)) refuse("a function that is made inside has no form in a graph");
      contents = Ref(PyTuple_New(static_cast<Py_ssize_t>(items->size())));
      for (size_t i = 0; contents && i < items->size(); ++i) {
        Value* content = t_.cell_content(t_.item_at(closure, i), interned.call);
        Ref object = content == nullptr ? Ref() : argument_object(t_, content, &numbers_);
        if (!object) refuse("a function that is made inside captures a name without a value");
        PyTuple_SET_ITEM(contents.get(), static_cast<Py_ssize_t>(i), object.release());
      }
    }
    if (value->defaults != nullptr) defaults = argument_object(t_, value->defaults, &numbers_);
    if (value->keyword_defaults != nullptr) keyword_defaults = argument_object(t_, value->keyword_defaults, &numbers_);
    Ref module = import_module("kintsugi.export");
    Ref bind(module ? PyObject_GetAttrString(module.get(), "_bound") : nullptr);
    std::vector<Ref> arguments;
    arguments.push_back(std::move(base));
    arguments.push_back(std::move(contents));
    arguments.push_back(std::move(defaults));
    arguments.push_back(std::move(keyword_defaults));
    return bind ? call("function", 0, bind.get(), std::move(arguments)) : Ref();
  }

  // What a number is computed of, first to last. False: an exception is set.
  bool make_what_comes_before(ValueId id) {
    std::vector<ValueId> work{id};
    std::set<const Step*> steps;  // they lie in program order
    while (!work.empty()) {
      const ValueId now = work.back();
      work.pop_back();
      const Step* step = by_id_.count(now) != 0 ? nullptr : makers_.of(now);
      if (step == nullptr || step->kind == StepKind::k_size || !steps.insert(step).second) continue;
      for (ValueId part : {step->a, step->b})
        if (part != kNoValue) work.push_back(part);
      if (step->kind == StepKind::k_pure_call) work.insert(work.end(), step->list.begin(), step->list.end());
    }
    for (const Step* step : steps)
      if (step->dst != id && is_computed(step->kind))
        if (!(step->kind == StepKind::k_pure_call ? numbered(step->dst) : word(step->dst))) return false;
    return true;
  }
  static bool is_computed(StepKind kind) {
    return kind == StepKind::k_pure_call || (kind >= StepKind::k_int_add && kind <= StepKind::k_float_compare);
  }

  // The number in a word: a constant, a Ref of a call's answer, or of a call made here.
  Ref word(ValueId id) {
    if (auto found = by_id_.find(id); found != by_id_.end()) return graph_ref(found->second);
    if (!std::exchange(makes_words_, true)) {
      const bool made = make_what_comes_before(id);
      makes_words_ = false;
      if (!made) return Ref();
    }
    const Step* maker = makers_.of(id);
    if (maker == nullptr) refuse("a number that the function computes has no form in a graph");
    const Step step = *maker;
    Ref made;
    auto binary = [&](int operation) { made = call("binary", operation, nullptr, parts(step)); };
    switch (step.kind) {
      case StepKind::k_int_const: return Ref(PyLong_FromLongLong(step.imm));
      case StepKind::k_float_const: {
        double number;
        memcpy(&number, &step.imm, sizeof number);
        return Ref(PyFloat_FromDouble(number));
      }
      case StepKind::k_size: {
        Ref name(PyUnicode_FromString("size"));
        std::vector<Ref> arguments;
        arguments.push_back(numbered(step.a));
        arguments.push_back(Ref(PyLong_FromLongLong(step.imm)));
        if (!arguments[0]) refuse("a size of a tensor that has no form in a graph");
        made = call("method", 0, name.get(), std::move(arguments));
        break;
      }
      case StepKind::k_int_add:
      case StepKind::k_float_add: binary(NB_ADD); break;
      case StepKind::k_int_sub:
      case StepKind::k_float_sub: binary(NB_SUBTRACT); break;
      case StepKind::k_int_mul:
      case StepKind::k_float_mul: binary(NB_MULTIPLY); break;
      case StepKind::k_int_floor_divide: binary(NB_FLOOR_DIVIDE); break;
      case StepKind::k_int_remainder: binary(NB_REMAINDER); break;
      case StepKind::k_int_and: binary(NB_AND); break;
      case StepKind::k_int_or: binary(NB_OR); break;
      case StepKind::k_int_xor: binary(NB_XOR); break;
      case StepKind::k_unbox:
        if (Ref object = numbered(step.a)) return object;
        refuse("a number that the function computes has no form in a graph");
      case StepKind::k_float_math:
        switch (static_cast<FloatFunction>(step.imm)) {
          case FloatFunction::kPow: binary(NB_POWER); break;
          case FloatFunction::kFloorDivide: binary(NB_FLOOR_DIVIDE); break;
          case FloatFunction::kRemainder: binary(NB_REMAINDER); break;
          default: {
            static constexpr const char* kNames[] = {"sin",   "cos",   "tan",   "asin",     "acos",   "atan",
                                                     "atan2", "sinh",  "cosh",  "tanh",     "exp",    "log",
                                                     "log2",  "log10", "sqrt",  "copysign", "fmod",   "hypot",
                                                     nullptr, nullptr, nullptr, "radians",  "degrees"};
            Ref module = import_module("math");
            Ref function(module ? PyObject_GetAttrString(module.get(), kNames[step.imm]) : nullptr);
            if (!function) return Ref();
            made = call("function", 0, function.get(), parts(step));
          }
        }
        break;
      case StepKind::k_float_div: binary(NB_TRUE_DIVIDE); break;
      case StepKind::k_int_neg:
      case StepKind::k_float_neg: made = call("unary", static_cast<int>(Unary::kNegative), nullptr, parts(step)); break;
      case StepKind::k_float_abs: made = call("unary", static_cast<int>(Unary::kAbsolute), nullptr, parts(step)); break;
      case StepKind::k_int_compare:
      case StepKind::k_float_compare: made = call("compare", static_cast<int>(step.imm), nullptr, parts(step)); break;
      case StepKind::k_int_to_float:
        made = call("function", 0, reinterpret_cast<PyObject*>(&PyFloat_Type), parts(step));
        break;
      default: refuse("a number that the function computes has no form in a graph");
    }
    if (made) by_id_[id] = made_ + kFirstMade;
    return made;
  }
  std::vector<Ref> parts(const Step& step) {
    std::vector<Ref> out;
    for (ValueId part : {step.a, step.b})
      if (part != kNoValue) out.push_back(word(part));
    return out;
  }

  // What the function returns: Refs, constants, and tuples, lists, dicts and slices of them.
  Ref structure(RecipeId id) {
    const Recipe recipe = t_.plan().recipes[static_cast<size_t>(id)];
    if (std::find(around_.begin(), around_.end(), id) != around_.end())
      refuse("the function answers a container that contains itself");
    auto list = [&] {
      around_.push_back(id);
      Ref items(PyList_New(0));
      for (RecipeId part : recipe.parts) {
        Ref item = structure(part);
        if (!items || !item || PyList_Append(items.get(), item.get()) < 0) return Ref();
      }
      around_.pop_back();
      return items;
    };
    switch (recipe.kind) {
      case RecipeKind::kValue: {
        Ref ref = numbered(recipe.value);
        if (!ref) break;
        return ref;
      }
      case RecipeKind::kConstant:
        return Ref::share(static_cast<PyObject*>(t_.result_->bindings[static_cast<size_t>(recipe.constant)]));
      case RecipeKind::kBoxInt:
      case RecipeKind::kBoxFloat:
      case RecipeKind::kBoxBool: return word(recipe.value);
      case RecipeKind::kList: return list();
      case RecipeKind::kTuple: {
        Ref items = list();
        return items ? Ref(PyList_AsTuple(items.get())) : Ref();
      }
      case RecipeKind::kDict: {
        Ref items = list();
        Ref dict(items ? PyDict_New() : nullptr);
        const Py_ssize_t stride = recipe.value == kWithHashes ? 3 : 2;
        for (Py_ssize_t i = 0; dict && i + 1 < PyList_GET_SIZE(items.get()); i += stride)
          if (PyDict_SetItem(dict.get(), PyList_GET_ITEM(items.get(), i), PyList_GET_ITEM(items.get(), i + 1)) < 0)
            return Ref();
        return dict;
      }
      default: break;
    }
    t_.refuse_result();
  }

  static constexpr int kFirstMade = 1 << 24;  // beyond the numbers of values
  Tracer& t_;
  GraphNumbers numbers_;
  std::map<ValueId, int> by_id_;
  std::vector<RecipeId> around_;  // the containers whose parts are being told
  const Makers makers_;
  PyObject* calls_ = nullptr;  // borrowed
  int made_ = 0;
  bool makes_words_ = false;  // word() is at it
};

}  // namespace

// Leaves an exception: the graph, or why there is none. May throw NotExported.
void Tracer::hand_to_export() {
  const Exit& last = plan().exits[static_cast<size_t>(plan().final_exit)];
  if (last.kind != ExitKind::kReturn) refuse_long_loop();
  if (grad_mode_ != grad_mode())
    refuse_export(Failure::kUser,
                  "kt.export: the function leaves another grad mode than it found; a graph has no modes");
  Ref told = Exporter(*this).told();
  Ref module = told ? import_module("kintsugi.export") : Ref();
  Ref taken(module ? PyObject_CallMethod(module.get(), "_take", "O", told.get()) : nullptr);
}

}  // namespace kintsugi
