#include "runtime/step_helpers.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "guards/check.h"
#include "kernels/layout.h"
#include "runtime/exits.h"
#include "runtime/frame.h"
#include "runtime/hook.h"
#include "runtime/marks.h"
#include "runtime/resume.h"
#include "runtime/tensor.h"

namespace kintsugi {

namespace {

constexpr int kDone = 0, kLeave = -1;

// ---- Reading and writing values ------------------------------------------------------------------------------------

PyObject* object(const NativeState* state, ValueId value) {
  return value == kNoValue ? nullptr : reinterpret_cast<PyObject*>(state->values[value]);
}
double number(const NativeState* state, ValueId value) {
  double result;
  std::memcpy(&result, &state->values[value], sizeof result);
  return result;
}
int put(NativeState* state, ValueId value, PyObject* owned) {  // null: an exception is set
  state->values[value] = reinterpret_cast<uint64_t>(owned);
  return owned == nullptr ? kLeave : kDone;
}
int put(NativeState* state, ValueId value, double result) {
  std::memcpy(&state->values[value], &result, sizeof result);
  return kDone;
}
PyObject* constant(const NativeState* state, ConstantId id) {
  return static_cast<PyObject*>(state->segment->bindings[static_cast<size_t>(id)]);
}

// An operand as an object: 0 a tensor, 1 an int word, 2 a float word, 3 a bool word. A new reference.
PyObject* boxed(const NativeState* state, ValueId value, int8_t kind) {
  switch (kind) {
    case 0: return Py_NewRef(object(state, value));
    case 1: return PyLong_FromLongLong(static_cast<int64_t>(state->values[value]));
    case 2: return PyFloat_FromDouble(number(state, value));
    default: return PyBool_FromLong(state->values[value] != 0);
  }
}

// ---- Tensors -------------------------------------------------------------------------------------------------------

// Without the lock; the operands are held, since other threads may drop what we only borrowed.
template <typename F>
void without_lock(const NativeState* state, const Step* step, const KernelCall& call, F run) {
  for (size_t i = 0; i < step->list.size(); ++i)
    if (call.operand_kinds[i] == 0) Py_INCREF(object(state, step->list[i]));
  PyThreadState* thread = PyEval_SaveThread();
  run();
  calling_python([&] { PyEval_RestoreThread(thread); });
  for (size_t i = 0; i < step->list.size(); ++i)
    if (call.operand_kinds[i] == 0) Py_DECREF(object(state, step->list[i]));
}

int run_op(NativeState* state, const Step* step) {
  const OpCall& call = state->segment->plan.ops[static_cast<size_t>(step->index)];
  constexpr size_t kFew = 4;  // cat and stack have more
  PyObject* few[kFew];
  std::vector<PyObject*> many;
  PyObject** operands = few;
  size_t count = step->list.size(), made = 0;
  if (count > kFew) {
    many.resize(count);
    operands = many.data();
  }
  while (made < count && (operands[made] = boxed(state, step->list[made], call.operand_kinds[made])) != nullptr) ++made;
  PyObject* result = made < count ? nullptr : apply_op(call.op, operands, count, call.attributes);
  while (made > 0) Py_DECREF(operands[--made]);
  return put(state, step->dst, result);
}

// Node after node, as eager code would: sizes are known only now.
int run_group(NativeState* state, const Step* step) {
  if (step->c != kNoValue && state->values[step->c] != 0) return kDone;
  const Group& group = state->segment->plan.groups[static_cast<size_t>(step->index)];
  std::vector<Ref> made;  // inputs, then nodes
  for (size_t i = 0; i < group.inputs.size(); ++i) {
    int8_t kind = 0;
    if (group.inputs[i].is_number) {
      DTypeKind number_kind = info(group.inputs[i].dtype).kind;
      kind = number_kind == DTypeKind::kFloatingKind ? 2 : number_kind == DTypeKind::kIntegerKind ? 1 : 3;
    }
    made.emplace_back(boxed(state, step->list[i], kind));
    if (!made.back()) return kLeave;
  }
  for (const GroupNode& node : group.nodes) {
    PyObject* operands[3];
    size_t count = 0;
    for (int16_t operand : node.operands)
      if (operand >= 0) operands[count++] = made[static_cast<size_t>(operand)].get();
    Attributes attributes = node.attributes;
    if (node.op == Op::k_convert) {
      attributes.has_dtype = true;
      attributes.dtype = node.dtype;
    }
    made.emplace_back(apply_op(node.op, operands, count, attributes));
    if (!made.back()) return kLeave;
  }
  ValueId dst = step->dst;
  for (int16_t output : group.outputs) put(state, dst++, Py_NewRef(made[static_cast<size_t>(output)].get()));
  return kDone;
}

// Operands of a kernel over everything at once. Null: not all of one size and row-major, or with gradients.
const Layout* fill_block(const NativeState* state, const Step* step, const KernelCall& call, KernelBlock* block) {
  const Layout* space = nullptr;
  for (size_t i = 0; i < call.spec.inputs.size(); ++i) {
    const KernelInput& input = call.spec.inputs[i];
    KernelBlock::Slot& slot = block->operand[i];
    if (input.is_number) {
      bool converts = call.operand_kinds[i] != 2 && info(input.dtype).kind == DTypeKind::kFloatingKind;
      slot.i64 = static_cast<int64_t>(state->values[step->list[i]]);
      if (converts) slot.f64 = static_cast<double>(slot.i64);
      continue;
    }
    const TensorObject* tensor = as_tensor(object(state, step->list[i]));
    const Layout& layout = *tensor->layout;
    if (layout.dtype != input.dtype || layout.gradients != 0 || tensor->data == nullptr) return nullptr;
    slot.pointer = tensor->data;
    if (input.access == Access::kUniform) {
      if (layout.count != 1) return nullptr;
    } else {
      if (!layout.contiguous || layout.count == 0) return nullptr;
      if (space == nullptr) space = &layout;
      if (layout.rank != space->rank || !std::equal(layout.sizes, layout.sizes + layout.rank, space->sizes))
        return nullptr;
    }
  }
  return space;
}

int groups_ahead(NativeState* state, const Step* step) {
  constexpr size_t kMostScratch = 8 << 10;
  constexpr int64_t kLargeCount = 64 << 10;  // elements: 256 KB of most
  const KernelCall& call = state->segment->plan.kernels[static_cast<size_t>(step->index)];
  const Kernel& kernel = *state->segment->kernels[static_cast<size_t>(step->index)];
  state->values[step->dst] = 0;
  KernelBlock block;
  block.fault = 0;
  const Layout* space = fill_block(state, step, call, &block);
  if (space == nullptr || kernel.code == nullptr || kernel.scratch_bytes > kMostScratch) return kDone;
  const size_t inputs = call.spec.inputs.size(), outputs = call.spec.outputs.size();
  Ref made[kMaxKernelOperands];
  for (size_t n = 0; n < outputs; ++n) {
    Layout* layout = intern_contiguous(call.spec.outputs[n].dtype, {space->sizes, size_t{space->rank}});
    made[n] = Ref(new_tensor(layout));
    release(layout);
    if (!made[n]) {  // one by one, the first that finds no memory raises
      PyErr_Clear();
      return kDone;
    }
    block.operand[inputs + n].pointer = as_tensor(made[n].get())->data;
  }
  alignas(64) char scratch[kMostScratch];
  block.scratch = scratch;
  block.count = space->count;
  if (space->count > kLargeCount) {
    without_lock(state, step, call, [&] { kernel.code(&block); });
  } else {
    kernel.code(&block);
  }
  for (int64_t g = 1; g <= step->imm; ++g) put(state, step[g].dst, Py_NewRef(Py_None));
  for (size_t n = 0; n < outputs; ++n) {
    const int64_t group = call.spec.outputs[n].value - static_cast<int64_t>(inputs) + 1;
    Py_DECREF(Py_None);
    put(state, step[group].dst, made[n].release());
  }
  state->values[step->dst] = 1;
  return kDone;
}

// Tensor.__setitem__ is a wrapper around this slot; calling it would pack the arguments into a tuple and out again.
bool is_set_item(PyObject* callable) {
  auto* slot = reinterpret_cast<void*>(TensorType.tp_as_mapping->mp_ass_subscript);
  return Py_IS_TYPE(callable, &PyWrapperDescr_Type) &&
         reinterpret_cast<PyWrapperDescrObject*>(callable)->d_wrapped == slot;
}

int run_call(NativeState* state, const Step* step) {
  PyObject* callable = constant(state, step->constant);
  if (step->list.size() == 3 && is_set_item(callable) && is_tensor(object(state, step->list[0]))) {
    int bad = TensorType.tp_as_mapping->mp_ass_subscript(object(state, step->list[0]), object(state, step->list[1]),
                                                         object(state, step->list[2]));
    return put(state, step->dst, bad == 0 ? Py_NewRef(Py_None) : nullptr);
  }
  std::vector<PyObject*> arguments(step->list.size() + 1);
  for (size_t i = 0; i < step->list.size(); ++i) arguments[i + 1] = object(state, step->list[i]);
  PyObject* names = step->imm < 0 ? nullptr : constant(state, static_cast<ConstantId>(step->imm));
  size_t named = names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names));
  size_t positional = (step->list.size() - named) | PY_VECTORCALL_ARGUMENTS_OFFSET;
  return put(state, step->dst, PyObject_Vectorcall(callable, arguments.data() + 1, positional, names));
}

int opaque_call(NativeState* state, const Step* step) {
  if (c_stack_is_short()) return kLeave;  // what it calls may call us, and again
  std::vector<PyObject*> arguments(step->list.size() + 1);
  for (size_t i = 0; i < step->list.size(); ++i) arguments[i + 1] = object(state, step->list[i]);
  PyObject* callable = constant(state, step->constant);
  CaptureScope off(false);
  Ref result(
      PyObject_Vectorcall(callable, arguments.data() + 1, step->list.size() | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
  if (!result) return kLeave;
  if (!PyTuple_CheckExact(result.get()) || PyTuple_GET_SIZE(result.get()) != step->imm) {
    PyErr_Format(PyExc_SystemError, "kintsugi: an opaque call has to answer a tuple of %lld, not %.100s",
                 static_cast<long long>(step->imm), Py_TYPE(result.get())->tp_name);
    return kLeave;
  }
  for (Py_ssize_t i = 0; i < step->imm; ++i)
    put(state, step->dst + static_cast<ValueId>(i), Py_NewRef(PyTuple_GET_ITEM(result.get(), i)));
  return kDone;
}

int set_strict(NativeState* state, const Step* step) {
  bool wanted = step->a == kNoValue ? step->imm != 0 : state->values[step->a] != 0;
  state->values[step->dst] = std::exchange(error_on_graph_break, wanted);
  return kDone;
}

int set_grad(NativeState*, const Step* step) {
  set_grad_mode(static_cast<int>(step->imm));
  return kDone;
}

int pure_call(NativeState* state, const Step* step) {
  CollectorHeld held(this_thread());  // a finaliser could drop what later steps only borrow
  int outcome = run_call(state, step);
  if (outcome != kDone && !is_of_a_handler(PyErr_Occurred())) PyErr_Clear();
  return outcome;
}

int view(NativeState* state, const Step* step) {
  const TensorObject* base = as_tensor(object(state, step->a));
  auto* layout = static_cast<Layout*>(state->segment->bindings[static_cast<size_t>(step->constant)]);
  retain(layout);
  retain(base->buffer);
  char* data = base->data + step->imm * static_cast<int64_t>(info(layout->dtype).bytes);
  return put(state, step->dst, make_tensor(layout, base->buffer, data));
}

int write(NativeState* state, const Step* step) {
  const TensorObject* target = as_tensor(object(state, step->a));
  return store_whole(target, object(state, step->b)) ? kDone : kLeave;
}

int item(NativeState* state, const Step* step) {
  const TensorObject* tensor = as_tensor(object(state, step->a));
  int64_t whole = 0;
  double real = 0;
  bool floating = info(tensor->layout->dtype).kind == DTypeKind::kFloatingKind;
  switch (tensor->layout->dtype) {
    case DType::k_bool: whole = *reinterpret_cast<const uint8_t*>(tensor->data) != 0; break;
    case DType::k_int32: whole = *reinterpret_cast<const int32_t*>(tensor->data); break;
    case DType::k_int64: whole = *reinterpret_cast<const int64_t*>(tensor->data); break;
    case DType::k_float32: real = *reinterpret_cast<const float*>(tensor->data); break;
    case DType::k_float64: real = *reinterpret_cast<const double*>(tensor->data); break;
  }
  switch (step->imm) {
    case 0: {
      // Beyond 64 bits, infinite or NaN: the interpreter converts, or raises.
      if (floating && !(real >= -9223372036854775808.0 && real < 9223372036854775808.0)) return kLeave;
      int64_t result = floating ? static_cast<int64_t>(real) : whole;
      state->values[step->dst] = static_cast<uint64_t>(result);
      return kDone;
    }
    case 1: return put(state, step->dst, floating ? real : static_cast<double>(whole));
    default: state->values[step->dst] = floating ? real != 0 : whole != 0; return kDone;
  }
}

// ---- Numbers -------------------------------------------------------------------------------------------------------

int unbox(NativeState* state, const Step* step) {
  PyObject* boxed = object(state, step->a);
  if (step->imm == 1) return PyFloat_CheckExact(boxed) ? put(state, step->dst, PyFloat_AS_DOUBLE(boxed)) : kLeave;
  if (step->imm == 2 ? !PyBool_Check(boxed) : !PyLong_CheckExact(boxed)) return kLeave;
  int overflow = 0;
  int64_t number = PyLong_AsLongLongAndOverflow(boxed, &overflow);
  state->values[step->dst] = static_cast<uint64_t>(number);
  return overflow == 0 ? kDone : kLeave;
}

// Through Python's own function: right to the bit. Where it raises, the step leaves and the interpreter raises again.
int through_python(NativeState* state, const Step* step, const char* name) {
  CollectorHeld held(this_thread());
  Ref a(PyFloat_FromDouble(number(state, step->a)));
  Ref b(step->b == kNoValue ? nullptr : PyFloat_FromDouble(number(state, step->b)));
  Ref result;
  if (!a || (step->b != kNoValue && !b)) {
    // Memory is short: nothing was done.
  } else if (std::strcmp(name, "floordiv") == 0) {
    result = Ref(PyNumber_FloorDivide(a.get(), b.get()));
  } else if (std::strcmp(name, "mod") == 0) {
    result = Ref(PyNumber_Remainder(a.get(), b.get()));
  } else if (std::strcmp(name, "power") == 0) {
    result = Ref(PyNumber_Power(a.get(), b.get(), Py_None));
  } else {
    static PyObject* math = import_module("math").release();
    Ref function(math == nullptr ? nullptr : PyObject_GetAttrString(math, name));
    PyObject* arguments[] = {a.get(), b.get()};
    if (function) result = Ref(PyObject_Vectorcall(function.get(), arguments, b ? 2 : 1, nullptr));
  }
  if (!result || !PyFloat_CheckExact(result.get())) {  // (-8) ** 0.5 is complex
    PyErr_Clear();
    return kLeave;
  }
  return put(state, step->dst, PyFloat_AS_DOUBLE(result.get()));
}

int float_math(NativeState* state, const Step* step) {
  double a = number(state, step->a);
  double b = step->b == kNoValue ? 0 : number(state, step->b);
  auto direct = [&](double result, const char* name) {  // CPython calls the same libm; special cases are its own
    return std::isfinite(a) && std::isfinite(b) && std::isfinite(result) ? put(state, step->dst, result)
                                                                         : through_python(state, step, name);
  };
  switch (static_cast<FloatFunction>(step->imm)) {
    case FloatFunction::kSin: return direct(std::sin(a), "sin");
    case FloatFunction::kCos: return direct(std::cos(a), "cos");
    case FloatFunction::kTan: return direct(std::tan(a), "tan");
    case FloatFunction::kAsin: return direct(std::asin(a), "asin");
    case FloatFunction::kAcos: return direct(std::acos(a), "acos");
    case FloatFunction::kAtan: return direct(std::atan(a), "atan");
    case FloatFunction::kAtan2:
      return a != 0 && b != 0 ? direct(std::atan2(a, b), "atan2") : through_python(state, step, "atan2");
    case FloatFunction::kSinh: return direct(std::sinh(a), "sinh");
    case FloatFunction::kCosh: return direct(std::cosh(a), "cosh");
    case FloatFunction::kTanh: return direct(std::tanh(a), "tanh");
    case FloatFunction::kExp: return direct(std::exp(a), "exp");
    case FloatFunction::kLog: return through_python(state, step, "log");
    case FloatFunction::kLog2: return through_python(state, step, "log2");
    case FloatFunction::kLog10: return through_python(state, step, "log10");
    case FloatFunction::kSqrt: return direct(std::sqrt(a), "sqrt");
    case FloatFunction::kCopysign: return put(state, step->dst, std::copysign(a, b));
    case FloatFunction::kFmod: return through_python(state, step, "fmod");
    case FloatFunction::kHypot: return through_python(state, step, "hypot");
    case FloatFunction::kPow: return through_python(state, step, "power");
    case FloatFunction::kFloorDivide: return through_python(state, step, "floordiv");
    case FloatFunction::kRemainder: return through_python(state, step, "mod");
    case FloatFunction::kRadians: return through_python(state, step, "radians");
    case FloatFunction::kDegrees: return through_python(state, step, "degrees");
  }
  return kLeave;
}

// ---- Objects -------------------------------------------------------------------------------------------------------

int box_int(NativeState* state, const Step* step) {
  return put(state, step->dst, PyLong_FromLongLong(static_cast<int64_t>(state->values[step->a])));
}
int box_float(NativeState* state, const Step* step) {
  return put(state, step->dst, PyFloat_FromDouble(number(state, step->a)));
}
int build(NativeState* state, const Step* step) { return put(state, step->dst, build_recipe(state, step->index)); }

int list_append(NativeState* state, const Step* step) {
  return PyList_Append(object(state, step->a), object(state, step->b));
}
int list_set(NativeState* state, const Step* step) {
  return PyList_SetItem(object(state, step->a), step->imm, Py_NewRef(object(state, step->b)));
}
int list_insert(NativeState* state, const Step* step) {
  return PyList_Insert(object(state, step->a), step->imm, object(state, step->b));
}
int list_delete(NativeState* state, const Step* step) {
  return PyList_SetSlice(object(state, step->a), step->imm, step->imm + 1, nullptr);
}
int list_clear(NativeState* state, const Step* step) {
  PyObject* list = object(state, step->a);
  return PyList_SetSlice(list, 0, PyList_GET_SIZE(list), nullptr);
}
int dict_set(NativeState* state, const Step* step) {
  return PyDict_SetItem(object(state, step->a), object(state, step->b), object(state, step->c));
}
int dict_delete(NativeState* state, const Step* step) {
  return PyDict_DelItem(object(state, step->a), object(state, step->b));
}
int attribute_set(NativeState* state, const Step* step) {
  return PyObject_GenericSetAttr(object(state, step->a), constant(state, step->constant), object(state, step->b));
}
int attribute_delete(NativeState* state, const Step* step) {
  return PyObject_GenericSetAttr(object(state, step->a), constant(state, step->constant), nullptr);
}
int global_set(NativeState* state, const Step* step) {
  return PyDict_SetItem(object(state, step->a), constant(state, step->constant), object(state, step->b));
}
int cell_set(NativeState* state, const Step* step) {
  return PyCell_Set(object(state, step->a), object(state, step->b));
}
int list_next(NativeState* state, const Step* step) {
  PyObject* item = next_of_sequence_iterator(object(state, step->a));
  return item == nullptr ? kLeave : put(state, step->dst, Py_NewRef(item));
}
int count_next(NativeState* state, const Step* step) {
  auto* counter = reinterpret_cast<EnumerateIterator*>(object(state, step->a));
  if (counter->count == PY_SSIZE_T_MAX) return kLeave;  // it counts in objects from there
  state->values[step->dst] = static_cast<uint64_t>(counter->count++);
  return kDone;
}

int push_handled(NativeState* state, const Step* step) {
  PyObject* before = std::exchange(handled_exception(this_thread()), Py_NewRef(object(state, step->a)));
  return put(state, step->dst, before != nullptr ? before : Py_NewRef(Py_None));
}
int set_handled(NativeState* state, const Step* step) {
  PyObject* before = std::exchange(handled_exception(this_thread()), Py_NewRef(object(state, step->a)));
  Py_XDECREF(before);
  return kDone;
}
int load_handled(NativeState* state, const Step* step) {
  PyObject* handled = step->imm != 0 ? PyErr_GetHandledException() : Py_XNewRef(handled_exception(this_thread()));
  return put(state, step->dst, handled != nullptr ? handled : Py_NewRef(Py_None));
}

// ---- The table -----------------------------------------------------------------------------------------------------

template <StepHelper helper>
int contained_step(NativeState* state, const Step* step) {
  return contained([&] { return helper(state, step); }, kLeave);
}

// Whatever is in its way, memory for a layout too, is met again by the groups themselves.
int groups_ahead_or_not(NativeState* state, const Step* step) {
  if (contained_step<groups_ahead>(state, step) == kDone) return kDone;
  PyErr_Clear();
  state->values[step->dst] = 0;
  return kDone;
}

void* make_new_tensor(const Layout* layout) {
  return contained([&] { return new_tensor(const_cast<Layout*>(layout)); });
}
void release_object(void* object) { Py_XDECREF(static_cast<PyObject*>(object)); }

// A finaliser could change what earlier guards saw, and what native code still holds of it.
int check_slowly(NativeState* state, int guard) {
  CollectorHeld held(PyThreadState_Get());
  auto check = [&] {
    return check_guard(guard_program(const_cast<SegmentCode&>(*state->segment)), guard_input(*state), guard);
  };
  int holds = contained(check, 0);
  PyErr_Clear();  // memory is short: the segment does not fit
  return holds;
}

// The lock is free while a large kernel runs.
uint64_t run_large(NativeState* state, const Step* step, KernelBlock* block) {
  const KernelCall& call = state->segment->plan.kernels[static_cast<size_t>(step->index)];
  uint64_t fault = 0;
  without_lock(state, step, call, [&] { fault = run_kernel_step(state, step, block); });
  return fault;
}

HelperTable make_table() {
  HelperTable table{};
  auto set = [&](StepKind kind, StepHelper helper) { table.step[static_cast<int>(kind)] = helper; };
  set(StepKind::k_group, contained_step<run_group>);
  set(StepKind::k_groups_ahead, groups_ahead_or_not);
  set(StepKind::k_run_op, contained_step<run_op>);
  set(StepKind::k_run_call, contained_step<run_call>);
  set(StepKind::k_opaque_call, contained_step<opaque_call>);
  set(StepKind::k_set_strict, contained_step<set_strict>);
  set(StepKind::k_set_grad, contained_step<set_grad>);
  set(StepKind::k_pure_call, contained_step<pure_call>);
  set(StepKind::k_unbox, contained_step<unbox>);
  set(StepKind::k_tensor_view, contained_step<view>);
  set(StepKind::k_write, contained_step<write>);
  set(StepKind::k_item, contained_step<item>);
  set(StepKind::k_float_math, contained_step<float_math>);
  set(StepKind::k_box_int, contained_step<box_int>);
  set(StepKind::k_box_float, contained_step<box_float>);
  set(StepKind::k_build, contained_step<build>);
  set(StepKind::k_list_append, contained_step<list_append>);
  set(StepKind::k_list_set, contained_step<list_set>);
  set(StepKind::k_list_insert, contained_step<list_insert>);
  set(StepKind::k_list_delete, contained_step<list_delete>);
  set(StepKind::k_list_clear, contained_step<list_clear>);
  set(StepKind::k_dict_set, contained_step<dict_set>);
  set(StepKind::k_dict_delete, contained_step<dict_delete>);
  set(StepKind::k_attribute_set, contained_step<attribute_set>);
  set(StepKind::k_attribute_delete, contained_step<attribute_delete>);
  set(StepKind::k_global_set, contained_step<global_set>);
  set(StepKind::k_cell_set, contained_step<cell_set>);
  set(StepKind::k_list_next, contained_step<list_next>);
  set(StepKind::k_push_handled, contained_step<push_handled>);
  set(StepKind::k_set_handled, contained_step<set_handled>);
  set(StepKind::k_load_handled, contained_step<load_handled>);
  set(StepKind::k_count_next, contained_step<count_next>);
  table.tensor_new = make_new_tensor;
  table.guard_slow = check_slowly;
  table.release = release_object;
  table.run_large = run_large;
  return table;
}

const HelperTable table = make_table();

}  // namespace

const HelperTable& helper_table() { return table; }

}  // namespace kintsugi
