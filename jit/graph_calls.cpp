// The tensor calls of a trace as the program wrote them, for a backend in Python. The backend may answer the graph's
// own code: then nothing changes. Anything else that it answers is called by one step, which takes the place of the
// nodes.
#include "jit/graph_calls.h"

#include <algorithm>

#include "jit/uses.h"
#include "runtime/frame.h"

namespace kintsugi {

Flow Tracer::tensor_meaning(const ParsedCall& call, PyObject* callable, const std::vector<Value*>& arguments,
                            PyObject* names, bool has_words, Value** out) {
  size_t before = trace_.records.size();
  Flow flow = tensor_meaning_of(call, callable, arguments, names, has_words, out);
  if (flow == Flow::kGo && call.kind != CallKind::kMetadata) {
    guard_grad_mode();
    note_call(before, arguments, names, *out);
  }
  return flow;
}

// What a container holds at the call: it may change before the backend sees it. What another call answered stays
// itself.
Value* Tracer::as_it_is(Value* value) {
  Nesting nesting(*this);
  value = force(value);
  bool sequence = value->kind == ValueKind::kList || value->kind == ValueKind::kTuple;
  if (nesting.is_much() || (!sequence && value->kind != ValueKind::kDict)) return value;
  for (const GraphCall& call : calls_)
    if (call.out == value) return value;
  std::vector<Value*>* items = nullptr;
  if (sequence ? !list_items(value, &items) : !dict_complete(value)) return value;
  Value like;
  bool differs = value->kind != ValueKind::kTuple;
  for (size_t i = 0; sequence && i < items->size(); ++i) {
    Value* item = force(item_at(value, i));
    like.items.push_back(as_it_is(item));
    differs = differs || like.items.back() != item;
  }
  for (size_t i = 0; !sequence && i < value->entries.size(); ++i) {
    PyObject* key = value->entries[i].first;
    if (Value* item = dict_get(value, key)) like.entries.emplace_back(key, as_it_is(item));
  }
  if (!differs) return value;
  Value* copy = make(value->kind);
  copy->items = std::move(like.items);
  copy->entries = std::move(like.entries);
  copy->type = value->type;
  return copy;
}

void Tracer::note_call(size_t first_record, const std::vector<Value*>& arguments, PyObject* names, Value* out) {
  ++result_->calls;
  if (input_.policy.pure)  // inputs of a branch stay as they are
    for (size_t r = first_record; r < trace_.records.size(); ++r)
      if (const Step& step = trace_.records[r].step; trace_.records[r].node < 0 && step.kind == StepKind::k_write)
        for (Value* argument : arguments)
          if (force(argument)->kind == ValueKind::kTensor && force(argument)->source >= 0 && force(argument) == out)
            throw Impure{user_stack(), /*input=*/true};
  if (input_.backend == nullptr && !input_.policy.exporting) return;
  GraphCall call;
  call.form = form_;
  for (Value* argument : arguments) call.arguments.push_back(as_it_is(argument));
  call.names = names;
  call.out = out == nullptr ? nullptr : force(out);
  call.first_record = first_record;
  call.end_record = trace_.records.size();
  TraceFrame& frame = call_now_depth_ > 0 ? frames_[call_now_frames_ - 1] : this->frame();
  call.code = frame.bytecode->code;
  call.at = frame.at;
  calls_.push_back(std::move(call));
}

static const char* form_name(CallForm form) {
  static constexpr const char* kNames[] = {"function", "method",  "binary",    "compare", "unary",
                                           "getitem",  "setitem", "attribute", "opaque",  "leaf"};
  return kNames[static_cast<int>(form)];
}

namespace {

bool is_tensor_step(StepKind kind) {
  switch (kind) {
    case StepKind::k_tensor_view:
    case StepKind::k_write:
    case StepKind::k_run_call:
    case StepKind::k_opaque_call:
    case StepKind::k_build:  // arguments
    case StepKind::k_box_int:
    case StepKind::k_box_float:
    case StepKind::k_box_bool:
    case StepKind::k_item: return true;
    default: return false;
  }
}

std::vector<ValueId> defined_by(const Trace& trace, const Record& record) {
  if (record.node >= 0) return {trace.nodes[static_cast<size_t>(record.node)].value};
  std::vector<ValueId> out;
  if (record.step.dst == kNoValue) return out;
  int64_t count = record.step.kind == StepKind::k_opaque_call ? record.step.imm : 1;
  for (int64_t i = 0; i < count; ++i) out.push_back(record.step.dst + static_cast<ValueId>(i));
  return out;
}

}  // namespace

PyObject* graph_module() {
  static PyObject* module = nullptr;  // set by hand: an import lets other threads run, which must not wait here
  if (module == nullptr) {
    Ref made = import_module("kintsugi.fx");
    if (module == nullptr) module = made.release();
  }
  return module;
}

Ref graph_ref(int number) { return Ref(PyObject_CallMethod(graph_module(), "Ref", "i", number)); }

Ref argument_object(Tracer& t, Value* value, GraphNumbers* numbers) {
  Nesting nesting(t);
  if (nesting.is_deep()) {
    PyErr_SetString(PyExc_RecursionError, "kintsugi: a deep container is an argument of a graph's call");
    return Ref();
  }
  value = t.force(value);
  if (auto found = numbers->of.find(value); found != numbers->of.end()) return graph_ref(found->second);
  std::vector<Value*>* items;
  bool sequence = (value->kind == ValueKind::kTuple || value->kind == ValueKind::kList) && t.list_items(value, &items);
  if (sequence) {
    Ref list(PyList_New(0));
    for (size_t i = 0; list && i < items->size(); ++i) {
      Ref item = argument_object(t, t.item_at(value, i), numbers);
      if (!item || PyList_Append(list.get(), item.get()) < 0) return Ref();
    }
    return value->kind == ValueKind::kList || !list ? std::move(list) : Ref(PyList_AsTuple(list.get()));
  }
  if (value->kind == ValueKind::kSlice) {
    Ref parts[3];
    for (size_t i = 0; i < 3; ++i)
      if (!(parts[i] = argument_object(t, value->items[i], numbers))) return Ref();
    return Ref(PyObject_CallMethod(graph_module(), "Slice", "OOO", parts[0].get(), parts[1].get(), parts[2].get()));
  }
  if (value->is_constant()) return Ref::share(value->object);
  if (value->is_number() && numbers->computed) return numbers->computed(value);
  if (value->kind == ValueKind::kTensor || value->is_number()) {
    int number = static_cast<int>(numbers->of.size());
    numbers->of[value] = number;
    numbers->inputs.push_back(value);
    return graph_ref(number);
  }
  if (value->kind == ValueKind::kDict) {
    Ref dict(PyDict_New());
    for (auto& [key, item] : value->entries) {
      if (item == nullptr) continue;
      Ref part = argument_object(t, item, numbers);
      if (!dict || !part || PyDict_SetItem(dict.get(), key, part.get()) < 0) return Ref();
    }
    return dict;
  }
  if (value->kind == ValueKind::kFunction && value->source < 0 && numbers->function) return numbers->function(value);
  if (numbers->function && value->object != nullptr) return Ref::share(value->object);  // the graph holds it
  if (!value->is_real()) return Ref::share(value->object != nullptr ? value->object : Py_None);
  int number = static_cast<int>(numbers->of.size());
  numbers->of[value] = number;
  numbers->inputs.push_back(value);
  return graph_ref(number);
}

Ref call_row(Tracer& t, const GraphCall& call, GraphNumbers* numbers, int* number) {
  *number = -1;
  Ref arguments(PyList_New(0));
  for (Value* argument : call.arguments) {
    Ref object = argument_object(t, argument, numbers);
    if (!arguments || !object || PyList_Append(arguments.get(), object.get()) < 0) return Ref();
  }
  bool ignored = false;
  PyObject* example = call.out == nullptr ? nullptr : t.stand_in(call.out, &ignored);
  PyErr_Clear();
  if (call.out != nullptr && numbers->of.count(call.out) == 0)
    *number = numbers->of[call.out] = static_cast<int>(numbers->of.size());
  return Ref(Py_BuildValue("(siOOOiO)", form_name(call.form.kind), call.form.operation,
                           call.form.target == nullptr ? Py_None : call.form.target, arguments.get(),
                           call.names == nullptr ? Py_None : call.names, *number,
                           example == nullptr ? Py_None : example));
}

// Of a call in the graph. A function that is made for one is an input of the graph.
bool Tracer::belongs(const Step& step) const {
  if (step.kind != StepKind::k_build) return is_tensor_step(step.kind);
  return trace_.plan.recipes[static_cast<size_t>(step.index)].kind != RecipeKind::kFunction;
}

// Where the call of a backend's code can stand in place of the nodes. Where it cannot, the trace begins again, cut
// there; false: it was, in vain.
bool Tracer::place_graph(size_t* place, std::vector<ValueId>* outputs, std::pair<void*, int>* cut) {
  std::vector<bool> tensor_record(trace_.records.size(), false);
  std::set<ValueId> ours;
  for (const GraphCall& call : calls_)
    for (size_t r = call.first_record; r < call.end_record; ++r) {
      const Record& record = trace_.records[r];
      if (record.node < 0 && !belongs(record.step)) continue;
      tensor_record[r] = true;
      for (ValueId value : defined_by(trace_, record)) ours.insert(value);
    }
  Uses uses(plan());
  std::set<ValueId> wanted;
  *place = trace_.records.size();
  for (size_t r = 0; r < trace_.records.size(); ++r) {
    if (tensor_record[r] || trace_.records[r].node >= 0) continue;
    bool uses_ours = false;
    for (ValueId value : uses.of(trace_.records[r].step))
      if (ours.count(value) != 0) wanted.insert(value), uses_ours = true;
    if (uses_ours && *place == trace_.records.size()) *place = r;
  }
  for (ValueId value : uses.of_exit(plan().final_exit))
    if (ours.count(value) != 0) wanted.insert(value);
  outputs->assign(wanted.begin(), wanted.end());
  std::set<ValueId> later;  // set by what comes after the place
  for (size_t r = *place; r < trace_.records.size(); ++r)
    if (!tensor_record[r])
      for (ValueId value : defined_by(trace_, trace_.records[r])) later.insert(value);
  for (const GraphCall& call : calls_) {
    if (call.end_record <= *place) continue;
    bool movable = true;
    for (size_t r = std::max(call.first_record, *place); r < call.end_record && movable; ++r) {
      const Record& record = trace_.records[r];
      if (record.node >= 0) {
        for (const NodeOperand& operand : trace_.nodes[static_cast<size_t>(record.node)].operands)
          movable = movable && later.count(operand.value) == 0;
      } else if (tensor_record[r]) {
        movable = movable && (record.step.kind == StepKind::k_tensor_view || record.step.kind == StepKind::k_build) &&
                  later.count(record.step.a) == 0;
      }
    }
    if (movable) continue;
    *cut = {call.code, call.at};
    return false;
  }
  return true;
}

// Takes the nodes and tensor steps out and puts one call of `caller` where something first looks at their values.
void Tracer::replace_by_call(PyObject* caller, const std::vector<Value*>& inputs, size_t place,
                             const std::vector<ValueId>& outputs) {
  std::vector<bool> gone(trace_.records.size(), false);
  std::map<ValueId, int64_t> words;  // of numbers that were read: what a step unboxes from the answer
  for (const GraphCall& call : calls_)
    for (size_t r = call.first_record; r < call.end_record; ++r)
      if (const Record& record = trace_.records[r]; record.node >= 0 || belongs(record.step)) {
        gone[r] = true;
        if (record.node < 0 && record.step.kind == StepKind::k_item) words[record.step.dst] = record.step.imm;
      }
  Exit raises = plan().exits[static_cast<size_t>(trace_.entry_exit)];
  raises.kind = ExitKind::kRaise;
  plan().exits.push_back(std::move(raises));
  auto exit = static_cast<ExitId>(plan().exits.size() - 1);
  std::vector<Record> made;
  auto add = [&](StepKind kind) -> Step& {
    made.emplace_back();
    made.back().step.kind = kind;
    return made.back().step;
  };
  std::vector<ValueId> objects;
  for (Value* input : inputs) {
    if (!input->is_number() || input->boxed != kNoValue) {
      objects.push_back(input->is_number() ? input->boxed : input->id);
      continue;
    }
    Step& box = add(input->kind == ValueKind::kInt     ? StepKind::k_box_int
                    : input->kind == ValueKind::kFloat ? StepKind::k_box_float
                                                       : StepKind::k_box_bool);
    box.a = input->id;
    if (box.kind != StepKind::k_box_bool) box.on_fail = exit;
    objects.push_back(box.dst = new_value());
  }
  ConstantId called = constant_id(caller, Hold::kStrong);
  Step& call = add(StepKind::k_opaque_call);
  call.constant = called;
  call.list = std::move(objects);
  call.on_fail = exit;
  call.imm = static_cast<int64_t>(outputs.size());
  ValueId first = plan().value_count;
  std::map<ValueId, ValueId> renamed;
  for (ValueId value : outputs) renamed[value] = new_value();
  if (!outputs.empty()) call.dst = first;
  for (ValueId value : outputs) {
    if (words.count(value) == 0) continue;
    Step& unbox = add(StepKind::k_unbox);  // cannot fail: the caller has looked
    unbox.a = renamed[value];
    unbox.imm = words[value];
    unbox.on_fail = exit;
    unbox.dst = renamed[value] = new_value();
  }
  std::vector<Record> records;
  auto rename = [&](ValueId& value) {
    if (auto found = renamed.find(value); found != renamed.end()) value = found->second;
  };
  for (size_t r = 0; r <= trace_.records.size(); ++r) {
    if (r == place)
      for (Record& record : made) records.push_back(std::move(record));
    if (r == trace_.records.size() || gone[r]) continue;
    Record record = std::move(trace_.records[r]);
    rename(record.step.a);
    rename(record.step.b);
    rename(record.step.c);
    for (ValueId& value : record.step.list) rename(value);
    records.push_back(std::move(record));
  }
  for (Recipe& recipe : plan().recipes)
    if (names_value(recipe)) rename(recipe.value);
  trace_.records = std::move(records);
  trace_.nodes.clear();
}

// False: an exception is set, or none: then this runs plain.
bool Tracer::hand_to_backend() {
  expect_foreign_code();
  size_t place = 0;
  std::vector<ValueId> outputs;
  std::pair<void*, int> cut{nullptr, 0}, stuck{nullptr, 0};
  bool placed = place_graph(&place, &outputs, &cut);
  GraphNumbers numbers;
  Ref calls(PyList_New(0));
  std::map<ValueId, int> number_of;
  for (const GraphCall& call : calls_) {
    int number = -1;
    Ref row = call_row(*this, call, &numbers, &number);
    if (number >= 0) {
      if (call.out->is_real() || call.out->is_number()) number_of[call.out->id] = number;
      if (call.out->is_number() && call.out->boxed != kNoValue) number_of[call.out->boxed] = number;
    }
    if (!calls || !row || PyList_Append(calls.get(), row.get()) < 0) return false;
  }
  Ref inputs(PyList_New(0));
  for (Value* input : numbers.inputs) {
    bool ignored = false;
    PyObject* example = stand_in(input, &ignored);
    if (example == nullptr) example = Py_None;  // a function of the trace
    Ref row(Py_BuildValue("(isO)", numbers.of[input], source_text(input).c_str(), example));
    if (!inputs || !row || PyList_Append(inputs.get(), row.get()) < 0) return false;
  }
  Ref wanted(PyList_New(0));
  for (ValueId value : outputs) {
    auto found = number_of.find(value);
    if (found == number_of.end()) {  // of a step that is no call's answer: a container that is an argument and lives on
      placed = false;
      for (const GraphCall& call : calls_)
        for (size_t r = call.first_record; r < call.end_record; ++r)
          for (ValueId each : defined_by(trace_, trace_.records[r]))
            if (each == value) stuck = {call.code, call.at};
      continue;
    }
    Ref number(PyLong_FromLong(found->second));
    if (!wanted || !number || PyList_Append(wanted.get(), number.get()) < 0) return false;
  }
  bool dynamic = std::any_of(trace_.nodes.begin(), trace_.nodes.end(), [](const Node& node) { return node.dynamic; }) ||
                 std::any_of(calls_.begin(), calls_.end(),
                             [](const GraphCall& call) { return call.out != nullptr && call.out->dynamic; });
  Ref answer;
  {
    CompilingScope compiling;
    answer = Ref(PyObject_CallMethod(graph_module(), "compile_graph", "OOOOii", input_.backend, inputs.get(),
                                     calls.get(), wanted.get(), dynamic, input_.policy.fullgraph));
  }
  if (!answer || answer.get() == Py_False) return false;
  if (answer.get() == Py_None) return true;  // the graph's own code
  if (!placed) {
    if (cut.first != nullptr && input_.memory->cuts.insert(cut).second) throw Restart{};
    if (cut.first != nullptr) stuck = cut;
    std::pair<BreakReason, std::string> why{BreakReason::k_graph_arguments, "effects and tensor operations alternate"};
    if (stuck.first != nullptr && input_.memory->not_followed.emplace(stuck, why).second) throw Restart{};
    PyErr_SetString(
        PyExc_NotImplementedError,
        "kintsugi: only the graph's own `forward` can run here, where effects and tensor operations alternate "
        "within one instruction");
    return false;
  }
  keep(answer.get());
  replace_by_call(answer.get(), numbers.inputs, place, outputs);
  return true;
}

}  // namespace kintsugi
