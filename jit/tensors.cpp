// Tensor calls in the trace. What a call means comes from the runtime's table (parse_call and its kin), asked with
// stand-ins that have a layout but no memory; here the meaning becomes graph nodes, views, writes, or a generic call.
#include <algorithm>

#include "jit/arrays.h"
#include "jit/tracer_core.h"
#include "runtime/frame.h"

#include <opcode.h>  // NB_ADD and the like

namespace kintsugi {

// What parse_call sees of a value: the real object, a stand-in of the same layout, or today's value of a word.
PyObject* Tracer::stand_in(Value* value, bool* has_words) {
  value = force(value);
  switch (value->kind) {
    case ValueKind::kConstant: return value->object;
    case ValueKind::kInt:
    case ValueKind::kBool:
    case ValueKind::kFloat: {
      *has_words = true;
      if (value->object == nullptr) {
        Ref hint(value->kind == ValueKind::kFloat ? PyFloat_FromDouble(value->float_hint)
                 : value->kind == ValueKind::kInt ? PyLong_FromLongLong(value->int_hint)
                                                  : PyBool_FromLong(value->int_hint));
        keep(hint.get());
        value->object = hint.get();
      }
      return value->object;
    }
    case ValueKind::kTensor:
      if (value->object == nullptr) {
        Ref stand(make_stand_in(value->layout));
        if (!stand) return nullptr;
        keep(stand.get());
        value->object = stand.get();
      }
      return value->object;
    case ValueKind::kTuple:
    case ValueKind::kList: {
      Nesting nesting(*this);
      std::vector<Value*>* items;
      if (nesting.is_much() || !list_items(value, &items)) return nullptr;
      Ref sequence(value->kind == ValueKind::kTuple ? PyTuple_New(items->size()) : PyList_New(items->size()));
      for (size_t i = 0; i < items->size(); ++i) {
        PyObject* part = stand_in(item_at(value, i), has_words);
        if (part == nullptr) return nullptr;
        Py_INCREF(part);
        if (value->kind == ValueKind::kTuple)
          PyTuple_SET_ITEM(sequence.get(), i, part);
        else
          PyList_SET_ITEM(sequence.get(), i, part);
      }
      keep(sequence.get());
      return sequence.get();
    }
    case ValueKind::kSlice: {
      PyObject* parts[3];
      for (int i = 0; i < 3; ++i)
        if ((parts[i] = stand_in(value->items[i], has_words)) == nullptr) return nullptr;
      Ref slice(PySlice_New(parts[0], parts[1], parts[2]));
      keep(slice.get());
      return slice.get();
    }
    default: return nullptr;
  }
}

// A parser's answer, from layouts and what is no tensor alone.
template <typename Parse, typename... Arguments>
static bool of_layouts(Parse parse, Arguments... arguments) {
  DataHidden hidden;
  return parse(arguments...);
}

Value* Tracer::tensor_value(Layout* stolen, ValueId id, bool dynamic) {
  Value* value = make(ValueKind::kTensor);
  value->layout = keep_layout(stolen);
  value->id = id;
  value->dynamic = dynamic;
  return value;
}

Value* Tracer::size_of(Value* tensor, int dim) {
  bool known = input_.policy.exporting && tensor->source >= 0 && (tensor->layout->marked_dynamic >> dim & 1) == 0;
  if (!tensor->dynamic || known) return int_constant(tensor->layout->sizes[dim]);
  Step& step = record(StepKind::k_size);
  Value* value = make(ValueKind::kInt);
  value->int_hint = tensor->layout->sizes[dim];
  step.a = tensor->id;
  step.imm = dim;
  step.dst = value->id = new_value();
  return value;
}

static bool any_dynamic(const std::vector<Value*>& arguments) {
  for (Value* v : arguments) {
    if (v->forwarded != nullptr) v = v->forwarded;
    if (v->kind == ValueKind::kTensor && v->dynamic) return true;
    if ((v->kind == ValueKind::kTuple || v->kind == ValueKind::kList) && any_dynamic(v->items)) return true;
  }
  return false;
}

// How many numbers that vary are among the arguments, within tuples, lists and slices too.
static int count_words(Tracer& t, const std::vector<Value*>& arguments, int depth = 0) {
  int count = 0;
  for (Value* v : arguments) {
    v = t.force(v);
    std::vector<Value*>* items;
    if (v->is_number()) {
      ++count;
    } else if (v->kind == ValueKind::kSlice) {
      count += count_words(t, v->items, depth + 1);
    } else if (depth < 64 && (v->kind == ValueKind::kTuple || v->kind == ValueKind::kList) && t.list_items(v, &items)) {
      for (size_t i = 0; i < items->size(); ++i) count += count_words(t, {t.item_at(v, i)}, depth + 1);
    }
  }
  return count;
}

// The callable itself, on objects, where only its result's layout is known (all of it, or dtype and rank).
Flow Tracer::tensor_run(PyObject* callable, const std::vector<Value*>& arguments, PyObject* names, Layout* layout,
                        Value** out) {
  ValueId id = run_call(callable, arguments, names);
  ++tensor_calls_;
  if (layout != nullptr) {
    retain(layout);
    *out = tensor_value(layout, id, false);
  }
  return Flow::kGo;
}

static bool is_division(Op op) { return op == Op::k_floor_divide || op == Op::k_remainder; }

// A call's meaning becomes nodes and steps. `arguments` are what was parsed, in order (keywords last, as `names` says).
Flow Tracer::tensor_meaning_of(const ParsedCall& call, PyObject* callable, const std::vector<Value*>& arguments,
                               PyObject* names, bool has_words, Value** out) {
  bool dynamic = any_dynamic(arguments);
  auto operand_value = [&](const CallOperand& operand) -> Value* {
    if (operand.argument >= 0) return force(arguments[operand.argument]);
    for (Value* v : arguments) {
      v = force(v);
      if (v->object == operand.object && !v->is_number()) return v;
      if (v->kind != ValueKind::kTuple && v->kind != ValueKind::kList) continue;
      std::vector<Value*>* items;
      if (!list_items(v, &items)) continue;
      for (size_t i = 0; i < items->size(); ++i)
        if (item_at(v, i)->object == operand.object && !item_at(v, i)->is_number()) return item_at(v, i);
    }
    return nullptr;
  };
  // Operands of a node; false when a word went into something other than an operand (a size, a dim, a fill value).
  std::vector<NodeOperand> operands;
  std::vector<Value*> int_words;
  int words_used = 0;
  auto collect = [&]() -> bool {
    for (const CallOperand& given : call.all_operands()) {
      Value* v = operand_value(given);
      NodeOperand operand;
      if (v != nullptr && v->kind == ValueKind::kTensor) {
        operand.value = v->id;
        operand.dtype = v->layout->dtype;
        operand.layout = v->layout;
        operand.dynamic = v->dynamic;
      } else if (v != nullptr && v->is_number()) {
        ++words_used;
        operand.is_number = true;
        operand.value = v->id;
        if (v->kind == ValueKind::kInt) int_words.push_back(v);
        operand.dtype = v->kind == ValueKind::kFloat ? DType::k_float64
                        : v->kind == ValueKind::kInt ? DType::k_int64
                                                     : DType::k_bool;
      } else {
        OperandValue number;
        if (given.object == nullptr || !operand_of(given.object, &number) || !number.is_number)
          return PyErr_Clear(), false;
        if (v == nullptr && has_words && given.argument < 0) return false;  // by keyword: might be a word's hint
        operand.is_number = true;
        operand.dtype = number.number_dtype;
        operand.i64 = number.number.i64;
        operand.f64 = number.number_dtype == DType::k_float64 ? number.number.f64 : 0;
      }
      operands.push_back(operand);
    }
    return !has_words || words_used == count_words(*this, arguments);
  };
  OpError refused;  // by the operator's own rule
  auto refuses = [&] { return refused.kind != ErrorKind::kNone && !dynamic && !has_words; };
  auto refuse = [&] {
    raise(refused);
    return refused_call("operator", has_words, arguments);
  };
  auto result_layout = [&](const Result& inferred) {
    bool any = false;
    for (const NodeOperand& operand : operands)
      any = any || (!operand.is_number && (operand.layout->gradients & kRequiresGrad) != 0);
    return intern_layout(inferred.dtype, inferred.shape, result_gradients(inferred.dtype, any, grad_mode_));
  };
  auto node_of = [&](Op op, const Attributes& attributes, Value** result) -> bool {
    std::vector<Operand> facts;
    for (const NodeOperand& operand : operands) {
      Operand fact;
      fact.is_number = operand.is_number;
      fact.dtype = operand.dtype;
      if (!operand.is_number) fact.shape = shape_of(*operand.layout);
      facts.push_back(fact);
    }
    Result inferred;
    if (!infer(op, facts, attributes, &inferred, &refused)) return false;
    if (inferred.compute == DType::k_int32) {  // an int that does not fit raises: the call itself will
      for (const NodeOperand& operand : operands)
        if (operand.is_number && operand.value == kNoValue && operand.dtype == DType::k_int64 &&
            operand.i64 != static_cast<int32_t>(operand.i64))
          return false;
      for (Value* v : int_words) {
        if (v->int_hint != static_cast<int32_t>(v->int_hint)) return false;
        specialise(word_compare(Compare::kLessEqual, v, int_constant(INT32_MAX)));
        specialise(word_compare(Compare::kGreaterEqual, v, int_constant(INT32_MIN)));
      }
    }
    Node node;
    node.op = op;
    node.attributes = attributes;
    node.operands = operands;
    node.compute = inferred.compute;
    node.dynamic = dynamic;
    node.layout = keep_layout(result_layout(inferred));
    bool integers = info(inferred.compute).kind != DTypeKind::kFloatingKind;
    node.may_raise = is_division(op) && integers;
    // A node of a kernel reports a fault without an exception: the instruction is performed again, and raises.
    may_raise_here();
    if (node.dynamic || !is_fusable(node))
      node.on_fail = exit_here(ExitKind::kRaise);
    else if (node.may_raise)
      node.on_fail = exit_here(ExitKind::kStep);
    node.value = new_value();
    retain(node.layout);
    *result = tensor_value(node.layout, node.value, dynamic);
    (*result)->node = static_cast<int32_t>(trace_.nodes.size());
    trace_.records.push_back({(*result)->node, {}});
    trace_.nodes.push_back(std::move(node));
    return true;
  };

  switch (call.kind) {
    case CallKind::kOp: {
      if (call.requires_grad) return stop(BreakReason::k_requires_grad, "a new tensor with requires_grad=True");
      bool random = call.op == Op::k_rand || call.op == Op::k_randn;
      // Sizes and values of a creation are in its attributes: today's, when words or dynamic sizes went into them.
      bool varies = info(call.op).op_class == OpClass::kCreation && (dynamic || has_words);
      if (!random && !varies && collect() && node_of(call.op, call.attributes, out)) return Flow::kGo;
      if (refuses()) return refuse();
      // Sizes or fill values known only at run time, and draws: the call itself runs; its result's dtype and rank are
      // known.
      if (callable == nullptr) return stop(BreakReason::k_tensor_call, "operands that are known only at run time");
      std::vector<Operand> facts;
      for (const NodeOperand& operand : operands) {
        Operand fact{operand.is_number, operand.dtype, {}};
        if (!operand.is_number) fact.shape = shape_of(*operand.layout);
        facts.push_back(fact);
      }
      Result inferred;
      OpError error;
      if (facts.size() != call.all_operands().size() || !infer(call.op, facts, call.attributes, &inferred, &error))
        return stop(BreakReason::k_tensor_call, "operands that are known only at run time");
      Layout* layout = keep_layout(result_layout(inferred));
      Flow flow = tensor_run(callable, arguments, names, layout, out);
      (*out)->dynamic = dynamic || has_words;
      return flow;
    }
    case CallKind::kInPlace: {
      Value* target = nullptr;
      for (Value* v : arguments)
        if (force(v)->object == call.target) {
          target = force(v);
          break;
        }
      if (target == nullptr) return stop(BreakReason::k_tensor_call, "the target of an in-place call");
      // What is written may make the target require gradients: eager code says so on the object.
      bool takes = (target->layout->gradients & kRequiresGrad) == 0 && grad_mode_ == 0;
      for (const CallOperand& given : call.all_operands()) {
        Value* v = takes ? operand_value(given) : nullptr;
        if (v != nullptr && v->kind == ValueKind::kTensor && (v->layout->gradients & kRequiresGrad) != 0 &&
            info(target->layout->dtype).kind == DTypeKind::kFloatingKind) {
          guard_grad_mode();
          return stop(BreakReason::k_requires_grad, "an in-place operation");
        }
      }
      if (is_leaf_in_place(*target->layout, grad_mode_)) {
        guard_grad_mode();
        return stop(BreakReason::k_raises, "a leaf that requires grad is changed in place");
      }
      *out = target;
      bool whole = target->layout->rank == call.shape.rank && call.offset == 0;
      for (int d = 0; whole && d < call.shape.rank; ++d)
        whole = target->layout->sizes[d] == call.shape.sizes[d] && target->layout->strides[d] == call.shape.strides[d];
      Value* value = nullptr;
      bool plain = !dynamic && (whole || !has_words) && !target->layout->overlaps_itself;
      if (plain && call.op == Op::kCount) {
        value = operand_value(call.operands[0]);
        plain = value != nullptr && value->kind == ValueKind::kTensor && value->node >= 0;
      } else if (plain) {
        plain = collect() && node_of(call.op, call.attributes, &value);
        if (refuses()) return refuse();
      }
      if (!plain) {
        if (callable == nullptr) return stop(BreakReason::k_tensor_call, "an in-place call on dynamic sizes");
        Value* ignored = nullptr;
        return tensor_run(callable, arguments, names, nullptr, &ignored);
      }
      ValueId part = target->id;
      if (!whole) {
        Layout* layout = keep_layout(intern_layout(target->layout->dtype, call.shape));
        ConstantId constant = layout_constant(layout);
        may_raise_here();
        ExitId exit = exit_here(ExitKind::kRaise);
        Step& view = record(StepKind::k_tensor_view);
        view.a = target->id;
        view.constant = constant;
        view.imm = call.offset;
        view.on_fail = exit;
        part = view.dst = new_value();
      }
      may_raise_here();
      ExitId exit = exit_here(ExitKind::kRaise);
      Step& write = record(StepKind::k_write);
      write.a = part;
      write.b = value->id;
      write.on_fail = exit;
      ++tensor_calls_;
      return Flow::kGo;
    }
    case CallKind::kView: {
      Value* base = operand_value(call.operands[0]);
      if (base == nullptr) return stop(BreakReason::k_tensor_call, "the base of a view");
      uint8_t gradients =
          call.gradients >= 0 ? static_cast<uint8_t>(call.gradients) : view_gradients(*base->layout, grad_mode_);
      if (call.copies && gradients != 0) gradients = kRequiresGrad | kComputed;
      Layout* layout = keep_layout(intern_layout(base->layout->dtype, call.shape, gradients));
      if (dynamic || has_words || call.copies) {
        if (callable == nullptr) return stop(BreakReason::k_tensor_call, "a view of dynamic sizes");
        Flow flow = tensor_run(callable, arguments, names, layout, out);
        (*out)->dynamic = dynamic || has_words;
        return flow;
      }
      ConstantId constant = layout_constant(layout);
      may_raise_here();
      ExitId exit = exit_here(ExitKind::kRaise);
      Step& view = record(StepKind::k_tensor_view);
      view.a = base->id;
      view.constant = constant;
      view.imm = call.offset;
      view.on_fail = exit;
      view.dst = new_value();
      retain(layout);
      *out = tensor_value(layout, view.dst, false);
      ++tensor_calls_;
      return Flow::kGo;
    }
    case CallKind::kIdentity: {
      Value* same = operand_value(call.operands[0]);
      if (same == nullptr || has_words) return stop(BreakReason::k_tensor_call, "an identity");
      *out = same;
      return Flow::kGo;
    }
    case CallKind::kMetadata: {
      if (dynamic || has_words) return stop(BreakReason::k_tensor_call, "a fact about dynamic sizes");
      Ref answer(execute(call));
      if (!answer) return stop(BreakReason::k_tensor_call);
      *out = constant(answer.get());
      return Flow::kGo;
    }
    case CallKind::kScalarRead:
      if (Value* read = arguments.size() == 1 ? force(arguments[0]) : nullptr;
          read != nullptr && item_of(read, -1, out))
        return Flow::kGo;
      return stop(BreakReason::k_item, call.arguments.row != nullptr ? call.arguments.row->name : "");
    case CallKind::kOther:
      if (call.arguments.row != nullptr && std::string_view(call.arguments.row->name) == "nonzero")
        return stop(BreakReason::k_unruled_shape, "nonzero");
      return stop(BreakReason::k_method, call.arguments.row != nullptr ? call.arguments.row->name : "");
  }
  return stop(BreakReason::k_tensor_call);
}

// The one element of a tensor, as a word. as: 0 int, 1 float, 2 bool, -1 by dtype. False: it breaks.
// What the tensor holds now, as a hint: of one of before, or made of a number in the trace.
// `fresh` says that it is not known.
static void look_at_number(const Value* tensor, int as, Value* word) {
  word->fresh = true;
  bool is_before = tensor->source >= 0 && tensor->object != nullptr && is_tensor(tensor->object);
  Ref number = tensor->defaults != nullptr ? Ref::share(tensor->defaults->object) : Ref();
  if (is_before) number = Ref(PyObject_CallMethod(tensor->object, "item", nullptr));
  if (number) word->fresh = false;
  if (number && PyFloat_Check(number.get()) && as == 1) word->float_hint = PyFloat_AS_DOUBLE(number.get());
  if (number && PyLong_Check(number.get()) && as != 1) {
    int overflow;
    int64_t held = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
    if (overflow == 0) word->int_hint = as == 2 ? held != 0 : held;
  }
  PyErr_Clear();
}

Value* read_item(Tracer& t, Value* tensor, int as) {
  if (as < 0) {
    DTypeKind kind = info(tensor->layout->dtype).kind;
    as = kind == DTypeKind::kFloatingKind ? 1 : kind == DTypeKind::kIntegerKind ? 0 : 2;
  }
  ExitId exit = t.exit_here(ExitKind::kStep);
  Step& read = t.record(StepKind::k_item);
  Value* word = t.make(as == 1 ? ValueKind::kFloat : as == 0 ? ValueKind::kInt : ValueKind::kBool);
  word->int_hint = as == 2 ? 1 : 2;  // a guess: whatever depends on it is checked at run time
  word->float_hint = 1.5;
  look_at_number(tensor, as, word);
  read.a = tensor->id;
  read.imm = as;
  read.on_fail = exit;
  read.dst = word->id = t.new_value();
  return word;
}

bool Tracer::item_of(Value* tensor, int as, Value** out) {
  if (!capture_scalars_ || tensor->kind != ValueKind::kTensor || (tensor->dynamic && tensor->layout->rank > 0) ||
      tensor->layout->count != 1)
    return false;
  *out = read_item(*this, tensor, as);
  return true;
}

// kt.tensor of nested lists of numbers: shape by nesting, dtype by kind.
static bool nested_numbers(Tracer& t, Value* value, int depth, Shape* shape, int* kind) {
  value = t.force(value);
  std::vector<Value*>* items;
  if (value->is_number() ||
      (value->is_constant() &&
       (PyFloat_CheckExact(value->object) || PyLong_CheckExact(value->object) || PyBool_Check(value->object)))) {
    if (shape->rank != depth) return false;
    bool floating = value->kind == ValueKind::kFloat || (value->is_constant() && PyFloat_CheckExact(value->object));
    bool boolean = value->kind == ValueKind::kBool || (value->is_constant() && PyBool_Check(value->object));
    *kind = std::max(*kind, floating ? 2 : boolean ? 0 : 1);
    return true;
  }
  if (depth >= 2 || !t.list_items(value, &items) || items->empty() || items->size() > 64) return false;
  int64_t size = static_cast<int64_t>(items->size());
  if (shape->rank == depth) shape->sizes[shape->rank++] = size;
  if (shape->sizes[depth] != size) return false;
  int ranks = shape->rank;
  for (int64_t i = 0; i < size; ++i) {
    Value* item = t.item_at(value, i);
    if (i == 0) {
      // The first item may deepen the shape; the others must match it.
      if (!nested_numbers(t, item, depth + 1, shape, kind)) return false;
      ranks = shape->rank;
    } else if (!nested_numbers(t, item, depth + 1, shape, kind) || shape->rank != ranks) {
      return false;
    }
  }
  return true;
}

// The value with constants in place of its numbers that vary: those decide how many dimensions a result has.
static Value* all_specialised(Tracer& t, Value* value) {
  value = t.force(value);
  std::vector<Value*>* items;
  if (count_words(t, {value}) == 0) return value;
  if (value->is_number()) return t.specialise(value);
  if (value->kind == ValueKind::kSlice || !t.list_items(value, &items)) return value;
  std::vector<Value*> parts;
  for (size_t i = 0, count = items->size(); i < count; ++i) parts.push_back(all_specialised(t, t.item_at(value, i)));
  return t.tuple_of(std::move(parts));
}

Flow Tracer::tensor_call(const FunctionRow* row, const std::vector<Value*>& given, PyObject* names, Value** out) {
  std::vector<Value*> arguments;
  for (Value* value : given) arguments.push_back(force(value));
  size_t keywords = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  PyObject* callable = called_;
  std::string name = row->name;
  bool ranks = name == "flatten" || name == "squeeze" ||
               (row->op != Op::kCount && info(row->op).op_class == OpClass::kReduction);
  if (ranks || row->op == Op::k_pow)  // the table looks at the exponent
    for (Value*& value : arguments) value = all_specialised(*this, value);
  form_ = {CallForm::kFunction, 0, callable};
  if (callable != nullptr && Py_TYPE(callable) == &PyMethodDescr_Type)
    form_ = {CallForm::kMethod, 0, reinterpret_cast<PyDescrObject*>(callable)->d_name};
  if (name == "numpy" && keywords == 0 && make_array(*this, callable, arguments, out)) return Flow::kGo;
  if (name == "tensor" && arguments.size() == 1 && keywords == 0) {
    Shape shape;
    int kind = 0;
    if (!nested_numbers(*this, arguments[0], 0, &shape, &kind))
      return stop(BreakReason::k_method, "tensor of this data");
    set_contiguous_strides(&shape);
    Layout* layout = keep_layout(intern_layout(kind == 2   ? DType::k_float32
                                               : kind == 1 ? DType::k_int64
                                                           : DType::k_bool,
                                               shape));
    size_t before = trace_.records.size();
    Flow flow = tensor_run(callable, arguments, names, layout, out);
    if (flow != Flow::kGo) return flow;
    note_call(before, arguments, names, *out);
    if (shape.rank == 0 && arguments[0]->is_constant()) (*out)->defaults = arguments[0];  // see look_at_number
    return flow;
  }
  bool has_words = false;
  std::vector<PyObject*> objects;
  for (Value* value : arguments) {
    PyObject* object = stand_in(value, &has_words);
    if (object == nullptr) return stop(BreakReason::k_tensor_call, "an argument that is not modelled");
    objects.push_back(object);
  }
  Value* self = arguments.empty() ? nullptr : arguments[0];
  if (self != nullptr && self->kind == ValueKind::kTensor && self->dynamic && keywords == 0) {
    int rank = self->layout->rank;
    if (name == "size" && arguments.size() == 2 && arguments[1]->is_constant() && PyLong_Check(arguments[1]->object)) {
      int64_t dim = PyLong_AsLongLong(arguments[1]->object);
      if (dim < 0) dim += rank;
      if (dim < 0 || dim >= rank) return stop(BreakReason::k_raises, "size");
      *out = size_of(self, static_cast<int>(dim));
      return Flow::kGo;
    }
    if (name == "size" && arguments.size() == 1) {
      static PyObject* const shape = PyUnicode_InternFromString("shape");
      return tensor_attribute(self, shape, out);
    }
    if (name == "dim") {
      *out = int_constant(rank);
      return Flow::kGo;
    }
    if (name == "numel") {
      *out = int_constant(1);
      for (int d = 0; d < rank; ++d) {
        Value* product = nullptr;
        if (Flow flow = binary(NB_MULTIPLY, *out, size_of(self, d), &product); flow != Flow::kGo) return flow;
        *out = product;
      }
      return Flow::kGo;
    }
    // Which dimensions go, and whether anything is copied, may change with the sizes.
    if (name == "squeeze" || name == "contiguous") return stop(BreakReason::k_tensor_call, name + " of dynamic sizes");
  }
  ParsedCall call;
  if (!of_layouts(parse_call, *row, objects.data(), objects.size() - keywords, names, &call))
    return refused_call(name, has_words, arguments);
  return tensor_meaning(call, callable, arguments, names, has_words, out);
}

// Whether an exception that this frame raises now meets managers of `with` only, before it leaves.
static bool only_managers(const TraceFrame& frame) {
  const Bytecode& bytecode = *frame.bytecode;
  int32_t unit = bytecode.at(frame.at).unit;
  for (int depth = 0; depth < 64; ++depth) {
    const Handler* handler = bytecode.handler_at(unit);
    if (handler == nullptr) return true;
    auto first = static_cast<size_t>(bytecode.index_at[handler->target]);
    bool cleans_up = bytecode.instructions[first].opcode == Opcode::k_COPY;  // of a handler
    if (!cleans_up && (first + 1 >= bytecode.instructions.size() ||
                       bytecode.instructions[first + 1].opcode != Opcode::k_WITH_EXCEPT_START))
      return false;
    unit = handler->target;
  }
  return false;
}

// The table refuses these arguments: the error is set, or, for an operator that is not a tensor's, none. Where layouts
// and constants alone decide, a handler in the trace gets it; where breaks are errors it is one of its own, but for
// arguments that do not bind.
Flow Tracer::refused_call(std::string context, bool has_words, const std::vector<Value*>& arguments) {
  if (PyErr_Occurred() && PyErr_ExceptionMatches(DataHidden::error())) {
    PyErr_Clear();
    bool part = context == "index" || context == "item assignment";
    return stop(part ? BreakReason::k_index_by_tensor : BreakReason::k_item, context + " by what a tensor holds");
  }
  if (!PyErr_Occurred() || has_words || any_dynamic(arguments))
    return stop(BreakReason::k_tensor_call, std::move(context));
  PyObject* type = PyErr_Occurred();
  bool modelled = type == PyExc_RuntimeError || type == PyExc_IndexError || type == PyExc_ValueError;
  bool strict = input_.policy.fullgraph || strict_;
  bool handled = modelled && is_handled(reinterpret_cast<PyTypeObject*>(type), frames_.size());
  if (handled && !(strict && std::all_of(frames_.begin(), frames_.end(), only_managers)))
    return raise_pending(std::move(context));
  PyObject *kind, *value, *traceback;
  PyErr_Fetch(&kind, &value, &traceback);
  Ref kept_kind(kind), kept(value), kept_traceback(traceback), text(value == nullptr ? nullptr : PyObject_Str(value));
  const char* words = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  PyErr_Clear();
  context +=
      std::string(": ") + reinterpret_cast<PyTypeObject*>(kind)->tp_name + ": " + (words == nullptr ? "" : words);
  if (!modelled || !strict) return stop(BreakReason::k_tensor_call, std::move(context));
  return fail(Failure::kRuntime, std::string(row(BreakReason::k_opaque_fails).type) + ": " + context +
                                     "\n  Hint: " + row(BreakReason::k_raises).hints);
}

static PyObject* tensor_slot(PyObject* name) {  // a slot wrapper of Tensor, "__getitem__"
  return _PyType_Lookup(&TensorType, name);
}

Flow Tracer::tensor_binary(int operation, Value* left, Value* right, Value** out) {
  form_ = {CallForm::kBinary, operation, nullptr};
  bool has_words = false;
  left = force(left);
  right = force(right);
  bool varies = (operation == NB_POWER || operation == NB_INPLACE_POWER) && left->kind == ValueKind::kTensor &&
                right->is_number();  // a power; the table looks at it
  if (varies && (info(left->layout->dtype).kind != DTypeKind::kFloatingKind || right->kind == ValueKind::kBool)) {
    right = specialise(right);
    varies = false;
  }
  PyObject* a = stand_in(left, &has_words);
  PyObject* b = stand_in(right, &has_words);
  ParsedCall call;
  if (varies) {  // some power, whatever it is today
    static PyObject* const three = PyLong_FromLong(3);
    static PyObject* const odd = PyFloat_FromDouble(3.5);
    b = right->kind == ValueKind::kFloat ? odd : three;
  }
  if (a == nullptr || b == nullptr || !of_layouts(parse_binary, operation, a, b, &call))
    return refused_call("operator", has_words, {left, right});
  PyObject* callable =
      operation >= NB_INPLACE_ADD ? tensor_slot(interned.in_place[operation - NB_INPLACE_ADD]) : nullptr;
  return tensor_meaning(call, callable, {left, right}, nullptr, has_words, out);
}

Flow Tracer::tensor_compare(int operation, Value* left, Value* right, Value** out) {
  form_ = {CallForm::kCompare, operation, nullptr};
  bool has_words = false;
  PyObject* a = stand_in(left, &has_words);
  PyObject* b = stand_in(right, &has_words);
  ParsedCall call;
  if (a == nullptr || b == nullptr || !of_layouts(parse_compare, operation, a, b, &call))
    return refused_call("comparison", has_words, {left, right});
  return tensor_meaning(call, nullptr, {left, right}, nullptr, has_words, out);
}

Flow Tracer::tensor_unary(Unary operation, Value* operand, Value** out) {
  form_ = {CallForm::kUnary, static_cast<int>(operation), nullptr};
  bool has_words = false;
  PyObject* a = stand_in(operand, &has_words);
  ParsedCall call;
  if (a == nullptr || !of_layouts(parse_unary, operation, a, &call))
    return refused_call("unary operator", has_words, {operand});
  return tensor_meaning(call, nullptr, {operand}, nullptr, has_words, out);
}

static bool has_mask(Tracer& t, Value* key) {
  key = t.force(key);
  if (key->kind == ValueKind::kTensor) return key->layout->dtype == DType::k_bool;
  std::vector<Value*>* items;
  if (key->kind != ValueKind::kTuple || !t.list_items(key, &items)) return false;
  for (size_t i = 0; i < items->size(); ++i)
    if (Value* part = t.item_at(key, i); part->kind == ValueKind::kTensor && part->layout->dtype == DType::k_bool)
      return true;
  return false;
}

// The key with the numbers that its tensors hold in their places; null: it has none, or they are not captured.
static Value* captured_key(Tracer& t, Value* key, int depth = 0) {
  key = t.force(key);
  Value* word = nullptr;
  if (key->kind == ValueKind::kTensor)
    return key->layout->rank == 0 && info(key->layout->dtype).kind == DTypeKind::kIntegerKind &&
                   t.item_of(key, /*as=*/0, &word)
               ? word
               : nullptr;
  if (depth > 1 || (key->kind != ValueKind::kTuple && key->kind != ValueKind::kSlice)) return nullptr;
  Value* copy = t.make(key->kind);
  copy->items = key->items;
  bool any = false;
  for (Value*& part : copy->items)
    if (Value* captured = captured_key(t, part, depth + 1); captured != nullptr) part = captured, any = true;
  return any ? copy : nullptr;
}

Flow Tracer::tensor_get_item(Value* tensor, Value* key, Value** out) {
  form_ = {CallForm::kGetItem, 0, nullptr};
  if (has_mask(*this, key)) return stop(BreakReason::k_unruled_shape, "an index that is a mask");
  bool has_words = false;
  PyObject* a = stand_in(tensor, &has_words);
  PyObject* b = stand_in(key, &has_words);
  ParsedCall call;
  if (a == nullptr || b == nullptr || !of_layouts(parse_get_item, a, b, &call)) {
    if (a != nullptr && b != nullptr && !PyErr_Occurred())
      return stop(BreakReason::k_method, "an index by lists, or by tensors beside slices and ints");
    if (PyErr_Occurred() && PyErr_ExceptionMatches(DataHidden::error()))
      if (Value* captured = captured_key(*this, key); captured != nullptr) {
        PyErr_Clear();
        return tensor_get_item(tensor, captured, out);
      }
    return refused_call("index", has_words, {tensor, key});
  }
  Flow flow = tensor_meaning(call, tensor_slot(interned.getitem), {tensor, key}, nullptr, has_words, out);
  if (flow != Flow::kGo || !has_words || tensor->dynamic) return flow;
  // A dimension picked by a word is gone whichever element it picks; only slices make sizes of words.
  bool in_slices = key->kind == ValueKind::kSlice;
  if (key->kind == ValueKind::kTuple)
    for (Value* part : key->items) in_slices = in_slices || force(part)->kind == ValueKind::kSlice;
  (*out)->dynamic = in_slices;
  return flow;
}

Flow Tracer::tensor_set_item(Value* tensor, Value* key, Value* value) {
  form_ = {CallForm::kSetItem, 0, nullptr};
  bool has_words = false;
  PyObject* a = stand_in(tensor, &has_words);
  PyObject* b = stand_in(key, &has_words);
  PyObject* c = stand_in(value, &has_words);
  ParsedCall call;
  if (a == nullptr || b == nullptr || c == nullptr || !of_layouts(parse_set_item, a, b, c, &call)) {
    if (a != nullptr && b != nullptr && c != nullptr && !PyErr_Occurred())
      return stop(BreakReason::k_method,
                  "an item assignment by tensors, unless of a number by a mask of the same sizes");
    return refused_call("item assignment", has_words, {tensor, key, value});
  }
  if (call.op == Op::k_where && value->kind == ValueKind::kInt)  // it may become too large for a kernel's number
    return stop(BreakReason::k_tensor_call, "an int that varies, stored by a mask");
  Value* ignored = nullptr;
  return tensor_meaning(call, tensor_slot(interned.setitem), {tensor, key, value}, nullptr, has_words, &ignored);
}

Flow Tracer::tensor_attribute(Value* tensor, PyObject* name, Value** out) {
  PyObject* attribute = _PyType_Lookup(&TensorType, name);
  if (attribute == nullptr) {
    // Tensors have a dict of their own: only one that is empty is modelled.
    return stop(BreakReason::k_attribute, "an attribute that tensors do not have");
  }
  const FunctionRow* row = find_row(attribute);
  if (Py_TYPE(attribute) == &PyFunction_Type) {  // made of others
    *out = make(ValueKind::kMethod);
    Value* function = wrap_bound(attribute, "Tensor." + text_of(name));
    (*out)->items = {function, tensor};
    return Flow::kGo;
  }
  if (row == nullptr) return stop(BreakReason::k_attribute, "an attribute of a tensor");
  if (Py_TYPE(attribute) == &PyMethodDescr_Type) {
    *out = make(ValueKind::kMethod);
    (*out)->items = {constant(attribute), tensor};
    return Flow::kGo;
  }
  std::string text = row->name;
  form_ = {CallForm::kAttribute, 0, name};
  if (tensor->dynamic && text == "shape") {
    std::vector<Value*> sizes;
    for (int d = 0; d < tensor->layout->rank; ++d) sizes.push_back(size_of(tensor, d));
    bool ignored = false;
    Ref shape(PyObject_GetAttr(stand_in(tensor, &ignored), name));
    if (!shape) return stop(BreakReason::k_tensor_call, text);
    *out = tuple_of(std::move(sizes), Py_TYPE(shape.get()));
    return Flow::kGo;
  }
  if (tensor->dynamic && (text == "nbytes" || text == "T")) return stop(BreakReason::k_tensor_call, text);
  bool has_words = false;
  PyObject* object = stand_in(tensor, &has_words);
  ParsedCall call;
  if (object == nullptr || !of_layouts(parse_call, *row, &object, 1, nullptr, &call))
    return stop(BreakReason::k_tensor_call, text);
  if (call.kind == CallKind::kMetadata) {
    Ref answer(execute(call));
    if (!answer) return stop(BreakReason::k_tensor_call, text);
    reads_gradients_ = reads_gradients_ || text == "requires_grad" || text == "is_leaf";
    *out = constant(answer.get());
    return Flow::kGo;
  }
  return tensor_meaning(call, nullptr, {tensor}, nullptr, has_words, out);
}

Flow Tracer::tensor_iterate(Value* tensor, std::vector<Value*>* items) {
  const bool exporting = input_.policy.exporting && tensor->source >= 0;  // then each size is dynamic or not
  if (exporting && (tensor->layout->marked_dynamic & 1) != 0) refuse_walk(tensor);
  if ((tensor->dynamic && !exporting) || tensor->layout->rank == 0 || tensor->layout->sizes[0] > 64)
    return stop(BreakReason::k_iteration, "iterating a tensor");
  for (int64_t i = 0; i < tensor->layout->sizes[0]; ++i) {
    Value* item = nullptr;
    if (Flow flow = tensor_get_item(tensor, int_constant(i), &item); flow != Flow::kGo) return flow;
    items->push_back(item);
  }
  return Flow::kGo;
}

}  // namespace kintsugi
