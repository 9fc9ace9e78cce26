// Arithmetic and comparison in the trace: constants fold, numbers known only at run time become unboxed words with
// checks, containers concatenate, classes written in Python are asked. Tensors are in tensors.cpp.
#include <cmath>
#include <cstring>

#include "jit/tracer_core.h"
#include "runtime/frame.h"

#include <opcode.h>  // NB_ADD and the like

namespace kintsugi {

bool is_nan(PyObject* object) { return PyFloat_CheckExact(object) && std::isnan(PyFloat_AS_DOUBLE(object)); }

static bool is_size(PyTypeObject* type) {  // the type of a tensor's shape
  return PyType_IsSubtype(type, &PyTuple_Type) && strcmp(type->tp_name, "kintsugi.Size") == 0;
}

// An immutable object whose operators run no user code and depend on its value alone.
bool Tracer::fold(Value* value, PyObject** object) {
  if (value->kind == ValueKind::kTuple && value->is_virtual() && value->type == nullptr) {
    Ref tuple(PyTuple_New(value->items.size()));
    for (size_t i = 0; i < value->items.size(); ++i) {
      PyObject* part;
      if (!fold(force(value->items[i]), &part) || is_nan(part))
        return false;  // a NaN in a tuple is compared by identity
      PyTuple_SET_ITEM(tuple.get(), i, Py_NewRef(part));
    }
    keep(tuple.get());
    *object = tuple.get();
    return true;
  }
  if (!value->is_constant()) return false;
  PyTypeObject* type = Py_TYPE(value->object);
  bool atom = type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || type == &PyUnicode_Type ||
              type == &PyBytes_Type || type == &PyComplex_Type || type == &PyTuple_Type || type == &PyFrozenSet_Type ||
              type == &PyRange_Type || value->object == Py_None || value->object == Py_Ellipsis || is_size(type);
  if (atom) *object = value->object;
  return atom;
}

Value* Tracer::word(Value* number) {
  if (number->is_number()) return number;
  bool is_float = PyFloat_CheckExact(number->object);
  Step& step = record(is_float ? StepKind::k_float_const : StepKind::k_int_const);
  Value* value = make(is_float ? ValueKind::kFloat : ValueKind::kInt);
  if (is_float) {
    value->float_hint = PyFloat_AS_DOUBLE(number->object);
    memcpy(&step.imm, &value->float_hint, sizeof(double));
  } else {
    value->int_hint = step.imm = PyLong_AsLongLong(number->object);
  }
  step.dst = value->id = new_value();
  value->boxed = kNoValue;
  return value;
}

Value* Tracer::as_float(Value* number) {
  if (number->is_constant() && !PyFloat_CheckExact(number->object)) {
    int64_t exact = PyLong_AsLongLong(number->object);
    if (std::abs(exact) <= (int64_t{1} << 53)) number = constant_owned(PyFloat_FromDouble(static_cast<double>(exact)));
  }
  number = word(number);
  if (number->kind == ValueKind::kFloat) return number;
  ExitId exit = exit_here(ExitKind::kStep);
  Step& step = record(StepKind::k_int_to_float);
  Value* value = make(ValueKind::kFloat);
  value->float_hint = static_cast<double>(number->int_hint);
  step.a = number->id;
  step.dst = value->id = new_value();
  step.on_fail = exit;
  return value;
}

static bool compare_hints(Compare how, double a, double b) {
  switch (how) {
    case Compare::kLess: return a < b;
    case Compare::kLessEqual: return a <= b;
    case Compare::kEqual: return a == b;
    case Compare::kNotEqual: return a != b;
    case Compare::kGreater: return a > b;
    case Compare::kGreaterEqual: return a >= b;
  }
  return false;
}
static bool compare_hints(Compare how, int64_t a, int64_t b) {
  int order = a < b ? -1 : a > b ? 1 : 0;
  return compare_hints(how, static_cast<double>(order), 0.0);
}

Value* Tracer::word_compare(Compare how, Value* left, Value* right) {
  left = word(left);
  right = word(right);
  bool floating = left->kind == ValueKind::kFloat || right->kind == ValueKind::kFloat;
  if (floating) {
    left = as_float(left);
    right = as_float(right);
  }
  Step& step = record(floating ? StepKind::k_float_compare : StepKind::k_int_compare);
  Value* value = make(ValueKind::kBool);
  value->int_hint = floating ? compare_hints(how, left->float_hint, right->float_hint)
                             : compare_hints(how, left->int_hint, right->int_hint);
  step.a = left->id;
  step.b = right->id;
  step.imm = static_cast<int64_t>(how);
  step.dst = value->id = new_value();
  return value;
}

// The word must be what it is in this call: the value becomes a constant.
Value* Tracer::specialise(Value* number) {
  if (!number->is_number()) return number;
  ExitId exit = exit_here(ExitKind::kStep);
  if (number->kind == ValueKind::kFloat) {
    int64_t bits;
    memcpy(&bits, &number->float_hint, sizeof bits);
    check_word(number, bits, exit);
    return constant_owned(PyFloat_FromDouble(number->float_hint));
  }
  check_word(number, number->int_hint, exit);
  if (number->kind == ValueKind::kBool) return constant(number->int_hint ? Py_True : Py_False);
  return int_constant(number->int_hint);
}

// A number in the wide sense: a word, or a constant int, bool or float that fits a word.
static bool is_numeric(Value* value) {
  if (value->is_number()) return true;
  if (!value->is_constant()) return false;
  PyObject* object = value->object;
  if (PyFloat_CheckExact(object)) return true;
  if (!PyLong_CheckExact(object) && !PyBool_Check(object)) return false;
  int overflow;
  PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0;
}
static bool is_float(Value* value) {
  return value->kind == ValueKind::kFloat || (value->is_constant() && PyFloat_CheckExact(value->object));
}

static bool same_bits(double a, double b) { return memcmp(&a, &b, sizeof a) == 0; }

// Those that came from outside are taken up as objects, so that the break shows the very objects: the trace begins
// again.
Flow Tracer::stop_for_identity(BreakReason reason, std::string context, std::initializer_list<Value*> atoms) {
  bool learnt = false;
  for (const Guard& guard : plan().guards) {
    if (guard.kind != GuardKind::k_int_equal && guard.kind != GuardKind::k_float_equal &&
        guard.kind != GuardKind::k_equal)
      continue;
    const Constant& constant = plan().constants[guard.constant];
    for (Value* atom : atoms) {
      PyObject* object = atom->is_constant() ? atom->object : nullptr;
      bool alike = object != nullptr;
      if (constant.kind == ConstantKind::kInt) {
        int overflow = 0;
        alike = alike && PyLong_CheckExact(object) && PyLong_AsLongLongAndOverflow(object, &overflow) == constant.i64 &&
                overflow == 0;
      } else if (constant.kind == ConstantKind::kFloat) {
        alike = alike && PyFloat_CheckExact(object) && same_bits(constant.f64, PyFloat_AS_DOUBLE(object));
      } else {
        alike = alike && result_->bindings[guard.constant] == object;
      }
      if (alike) learnt |= input_.memory->dynamic.insert(plan().sources[guard.source]).second;
    }
  }
  if (learnt && input_.policy.dynamic != 0) throw Restart{};
  return stop(reason, std::move(context));
}

bool Tracer::rule_out_nan(Value* number) {
  if (number->is_constant()) return !is_nan(number->object);
  if (number->kind != ValueKind::kFloat) return true;
  if (std::isnan(number->float_hint)) return false;
  specialise(word_compare(Compare::kEqual, number, number));
  return true;
}

static double python_floor_divide(double a, double b) {
  Ref left(PyFloat_FromDouble(a)), right(PyFloat_FromDouble(b));
  Ref result(PyNumber_FloorDivide(left.get(), right.get()));
  return result ? PyFloat_AsDouble(result.get()) : (PyErr_Clear(), 0.0);
}

static Flow word_binary(Tracer& t, int operation, Value* left, Value* right, Value** out) {
  if (operation >= NB_INPLACE_ADD) operation -= NB_INPLACE_ADD;
  bool floating = is_float(left) || is_float(right) || operation == NB_TRUE_DIVIDE;
  auto finish = [&](StepKind kind, Value* a, Value* b, ValueKind result, bool fails, int64_t imm) {
    ExitId exit = fails ? t.exit_here(ExitKind::kStep) : kNoExit;
    Step& step = t.record(kind);
    Value* value = t.make(result);
    step.a = a->id;
    step.b = b->id;
    step.imm = imm;
    step.on_fail = exit;
    step.dst = value->id = t.new_value();
    *out = value;
    return value;
  };
  if (floating) {
    Value* a = t.as_float(left);
    Value* b = t.as_float(right);
    double x = a->float_hint, y = b->float_hint;
    auto math = [&](FloatFunction function) {
      return finish(StepKind::k_float_math, a, b, ValueKind::kFloat, true, static_cast<int64_t>(function));
    };
    switch (operation) {
      case NB_ADD: finish(StepKind::k_float_add, a, b, ValueKind::kFloat, false, 0)->float_hint = x + y; break;
      case NB_SUBTRACT: finish(StepKind::k_float_sub, a, b, ValueKind::kFloat, false, 0)->float_hint = x - y; break;
      case NB_MULTIPLY: finish(StepKind::k_float_mul, a, b, ValueKind::kFloat, false, 0)->float_hint = x * y; break;
      case NB_TRUE_DIVIDE:
        if (y == 0) return t.stop(BreakReason::k_raises, "division by zero");
        finish(StepKind::k_float_div, a, b, ValueKind::kFloat, true, 0)->float_hint = x / y;
        break;
      case NB_FLOOR_DIVIDE:
        if (y == 0) return t.stop(BreakReason::k_raises, "division by zero");
        math(FloatFunction::kFloorDivide)->float_hint = python_floor_divide(x, y);
        break;
      case NB_REMAINDER:
        if (y == 0) return t.stop(BreakReason::k_raises, "division by zero");
        math(FloatFunction::kRemainder)->float_hint = x - y * std::floor(x / y);
        break;
      case NB_POWER:
        if (x < 0 || (x == 0 && y < 0)) return t.stop(BreakReason::k_instruction, "a power that may be complex");
        math(FloatFunction::kPow)->float_hint = std::pow(x, y);
        break;
      default: return t.stop(BreakReason::k_raises, "operator on floats");
    }
    return Flow::kGo;
  }
  Value* a = t.word(left);
  Value* b = t.word(right);
  int64_t x = a->int_hint, y = b->int_hint, r = 0;
  switch (operation) {
    case NB_ADD:
      if (__builtin_add_overflow(x, y, &r)) return t.stop(BreakReason::k_instruction, "an int beyond 64 bits");
      finish(StepKind::k_int_add, a, b, ValueKind::kInt, true, 0)->int_hint = r;
      break;
    case NB_SUBTRACT:
      if (__builtin_sub_overflow(x, y, &r)) return t.stop(BreakReason::k_instruction, "an int beyond 64 bits");
      finish(StepKind::k_int_sub, a, b, ValueKind::kInt, true, 0)->int_hint = r;
      break;
    case NB_MULTIPLY:
      if (__builtin_mul_overflow(x, y, &r)) return t.stop(BreakReason::k_instruction, "an int beyond 64 bits");
      finish(StepKind::k_int_mul, a, b, ValueKind::kInt, true, 0)->int_hint = r;
      break;
    case NB_FLOOR_DIVIDE:
    case NB_REMAINDER: {
      if (y == 0 || (x == INT64_MIN && y == -1)) return t.stop(BreakReason::k_raises, "integer division");
      int64_t q = x / y, m = x % y;
      if (m != 0 && (m < 0) != (y < 0)) --q, m += y;
      bool divide = operation == NB_FLOOR_DIVIDE;
      finish(divide ? StepKind::k_int_floor_divide : StepKind::k_int_remainder, a, b, ValueKind::kInt, true, 0)
          ->int_hint = divide ? q : m;
      break;
    }
    case NB_AND:
    case NB_OR:
    case NB_XOR: {
      auto is_bool = [](Value* v) {
        return v->kind == ValueKind::kBool || (v->is_constant() && PyBool_Check(v->object));
      };
      ValueKind result = is_bool(left) && is_bool(right) ? ValueKind::kBool : ValueKind::kInt;
      StepKind kind = operation == NB_AND  ? StepKind::k_int_and
                      : operation == NB_OR ? StepKind::k_int_or
                                           : StepKind::k_int_xor;
      finish(kind, a, b, result, false, 0)->int_hint = operation == NB_AND  ? (x & y)
                                                       : operation == NB_OR ? (x | y)
                                                                            : (x ^ y);
      break;
    }
    default: return t.stop(BreakReason::k_instruction, "an operator on dynamic ints");
  }
  return Flow::kGo;
}

// Folding must not take long or grow large: what the program asks for stays the program's business.
static bool folds_small(int operation, PyObject* left, PyObject* right) {
  if (operation >= NB_INPLACE_ADD) operation -= NB_INPLACE_ADD;
  auto size = [](PyObject* o) -> Py_ssize_t {
    if (PyLong_Check(o)) return _PyLong_NumBits(o);
    return Py_TYPE(o)->tp_as_sequence != nullptr && Py_TYPE(o)->tp_as_sequence->sq_length != nullptr
               ? PyObject_Length(o)
               : 1;
  };
  Py_ssize_t a = size(left), b = size(right);
  bool ints = PyLong_Check(left) && PyLong_Check(right);
  if (operation == NB_POWER && ints) return a < 64 && b < 10;
  if (operation == NB_LSHIFT) return a < 1024 && b < 10;
  if (operation == NB_MULTIPLY && !ints)
    return (PyLong_Check(left) ? b : a) < 1000 && (!PyLong_Check(left) || a < 10) && (!PyLong_Check(right) || b < 10);
  return a < 100000 && b < 100000;
}

static PyObject* evaluate(int operation, PyObject* left, PyObject* right) {
  if (operation >= NB_INPLACE_ADD) operation -= NB_INPLACE_ADD;
  switch (operation) {
    case NB_ADD: return PyNumber_Add(left, right);
    case NB_AND: return PyNumber_And(left, right);
    case NB_FLOOR_DIVIDE: return PyNumber_FloorDivide(left, right);
    case NB_LSHIFT: return PyNumber_Lshift(left, right);
    case NB_MATRIX_MULTIPLY: return PyNumber_MatrixMultiply(left, right);
    case NB_MULTIPLY: return PyNumber_Multiply(left, right);
    case NB_REMAINDER: return PyNumber_Remainder(left, right);
    case NB_OR: return PyNumber_Or(left, right);
    case NB_POWER: return PyNumber_Power(left, right, Py_None);
    case NB_RSHIFT: return PyNumber_Rshift(left, right);
    case NB_SUBTRACT: return PyNumber_Subtract(left, right);
    case NB_TRUE_DIVIDE: return PyNumber_TrueDivide(left, right);
    case NB_XOR: return PyNumber_Xor(left, right);
    default: return nullptr;
  }
}

static const char* const kOperatorNames[] = {"add", "and", "floordiv", "lshift", "matmul",  "mul", "mod",
                                             "or",  "pow", "rshift",   "sub",    "truediv", "xor"};

// Classes written in Python: the left operand's method, then the reflected one.
static Flow object_binary(Tracer& t, int operation, Value* left, Value* right, Value** out) {
  bool in_place = operation >= NB_INPLACE_ADD;
  std::string name = kOperatorNames[in_place ? operation - NB_INPLACE_ADD : operation];
  auto try_method = [&](Value* self, Value* other, const std::string& method_name, bool* found) {
    if (self->kind != ValueKind::kObject || t.versions_.count(self->type) == 0) return Flow::kBreak;
    Ref text(PyUnicode_InternFromString(method_name.c_str()));
    Value* method = t.find_in_class(self->type, text.get());
    if (method == nullptr) return Flow::kGo;
    *found = true;
    if (method->kind != ValueKind::kFunction) return Flow::kBreak;
    Flow flow = t.call_now(method, {self, other}, out);
    if (flow == Flow::kGo && (*out)->is_constant() && (*out)->object == Py_NotImplemented) return Flow::kBreak;
    return flow;
  };
  bool found = false;
  bool left_is_object = left->kind == ValueKind::kObject;
  if (left_is_object && right->kind == ValueKind::kObject && left->type != right->type)
    return t.stop(BreakReason::k_instruction, "an operator between two classes");
  Flow flow = Flow::kGo;
  if (left_is_object) {  // a number or tensor on the right has no say before it
    if (in_place) flow = try_method(left, right, "__i" + name + "__", &found);
    if (flow == Flow::kGo && !found) flow = try_method(left, right, "__" + name + "__", &found);
  } else if (right->kind == ValueKind::kObject &&
             (left->is_constant() || left->is_number() || left->kind == ValueKind::kTensor)) {
    PyObject* object;  // none of these knows a class written in Python
    if (left->is_constant() && !t.fold(left, &object))
      flow = Flow::kBreak;
    else
      flow = try_method(right, left, "__r" + name + "__", &found);
  }
  if (flow == Flow::kBreak || !found) return t.stop(BreakReason::k_instruction, "an operator of these objects");
  return flow;
}

Flow Tracer::binary(int operation, Value* left, Value* right, Value** out) {
  auto of_python_class = [&](Value* value) {  // and no number: tensors know those
    return value->kind == ValueKind::kObject && versions_.count(value->type) != 0 &&
           !PyType_IsSubtype(value->type, &PyFloat_Type) && !PyType_IsSubtype(value->type, &PyLong_Type);
  };
  if (left->kind == ValueKind::kTensor || right->kind == ValueKind::kTensor) {
    if (of_python_class(left) || of_python_class(right)) return object_binary(*this, operation, left, right, out);
    return tensor_binary(operation, left, right, out);
  }
  PyObject *a, *b;
  if (fold(left, &a) && fold(right, &b)) {
    if (!folds_small(operation, a, b)) return stop(BreakReason::k_instruction, "a large constant");
    Ref result(evaluate(operation, a, b));
    if (!result) return stop(BreakReason::k_raises, "operator");
    *out = constant(result.get());
    return Flow::kGo;
  }
  if (is_numeric(left) && is_numeric(right)) return word_binary(*this, operation, left, right, out);
  int plain = operation >= NB_INPLACE_ADD ? operation - NB_INPLACE_ADD : operation;
  bool in_place = operation >= NB_INPLACE_ADD;
  auto copy_items = [&](Value* sequence, std::vector<Value*>* into) {
    std::vector<Value*>* items;
    if (!list_items(sequence, &items)) return false;
    for (size_t i = 0; i < items->size(); ++i) into->push_back(item_at(sequence, i));
    return true;
  };
  auto is_list = [](Value* v) { return v->kind == ValueKind::kList; };
  auto is_tuple = [](Value* v) {
    return v->kind == ValueKind::kTuple ||
           (v->is_constant() && (PyTuple_CheckExact(v->object) || is_size(Py_TYPE(v->object))));
  };
  if (plain == NB_ADD && in_place && is_list(left)) {
    Ref extend(PyUnicode_InternFromString("extend"));
    std::vector<Value*> arguments{right};
    Value* ignored = nullptr;
    Flow flow = container_method(left, extend.get(), arguments, nullptr, &ignored);
    *out = left;
    return flow;
  }
  if (plain == NB_ADD && ((is_list(left) && is_list(right)) || (is_tuple(left) && is_tuple(right)))) {
    std::vector<Value*> items;
    if (!copy_items(left, &items) || !copy_items(right, &items)) return stop(BreakReason::k_container, "concatenation");
    *out = is_list(left) ? list_of(std::move(items)) : tuple_of(std::move(items));
    return Flow::kGo;
  }
  if (plain == NB_MULTIPLY && !in_place && (is_list(left) || is_tuple(left)) && right->is_constant() &&
      PyLong_Check(right->object)) {
    std::vector<Value*> once, items;
    int64_t count = PyLong_AsLongLong(right->object);
    if (!copy_items(left, &once)) return stop(BreakReason::k_container, "repetition");
    if (PyErr_Occurred() || count > 4096 / static_cast<int64_t>(once.size() + 1))
      return stop(BreakReason::k_container, "a long repetition");
    for (int64_t i = 0; i < count; ++i) items.insert(items.end(), once.begin(), once.end());
    *out = is_list(left) ? list_of(std::move(items)) : tuple_of(std::move(items));
    return Flow::kGo;
  }
  if (left->kind == ValueKind::kObject || right->kind == ValueKind::kObject)
    return object_binary(*this, operation, left, right, out);
  return stop(BreakReason::k_instruction, "an operator of these objects");
}

// == by identity is right for objects whose type does not define it.
static bool compares_by_identity(Value* value) {
  if (value->kind == ValueKind::kFunction || value->kind == ValueKind::kCell)
    return value->kind == ValueKind::kFunction;
  if (!value->is_constant()) return false;
  PyTypeObject* type = Py_TYPE(value->object);
  return value->object == Py_None || type->tp_richcompare == nullptr ||
         type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

Flow Tracer::compare(int operation, Value* left, Value* right, Value** out) {
  if (left->kind == ValueKind::kTensor || right->kind == ValueKind::kTensor)
    return tensor_compare(operation, left, right, out);
  PyObject *a, *b;
  bool equality = operation == Py_EQ || operation == Py_NE;
  auto answer = [&](bool truth) {
    *out = constant(truth ? Py_True : Py_False);
    return Flow::kGo;
  };
  if (fold(left, &a) && fold(right, &b)) {
    Ref result(PyObject_RichCompare(a, b, operation));
    if (!result) return stop(BreakReason::k_raises, "comparison");
    *out = constant(result.get());
    return Flow::kGo;
  }
  if (is_numeric(left) && is_numeric(right)) {
    static constexpr Compare kBy[] = {Compare::kLess,     Compare::kLessEqual, Compare::kEqual,
                                      Compare::kNotEqual, Compare::kGreater,   Compare::kGreaterEqual};
    *out = word_compare(kBy[operation], left, right);
    return Flow::kGo;
  }
  if (equality && compares_by_identity(left) && compares_by_identity(right)) {
    bool same = left == right || (left->is_constant() && right->is_constant() && left->object == right->object);
    if (!same && left->kind == ValueKind::kFunction && right->kind == ValueKind::kFunction)
      return stop(BreakReason::k_instruction, "comparing functions");
    return answer(same == (operation == Py_EQ));
  }
  auto is_tuple = [](Value* v) {
    return v->kind == ValueKind::kTuple ||
           (v->is_constant() && (PyTuple_CheckExact(v->object) || is_size(Py_TYPE(v->object))));
  };
  bool sequences =
      (left->kind == ValueKind::kList && right->kind == ValueKind::kList) || (is_tuple(left) && is_tuple(right));
  if (sequences) {
    std::vector<Value*>*x, *y;
    if (!list_items(left, &x) || !list_items(right, &y)) return stop(BreakReason::k_container, "comparison");
    if (equality && x->size() != y->size()) return answer(operation == Py_NE);
    for (size_t i = 0; i < std::min(x->size(), y->size()); ++i) {
      Value *p = item_at(left, i), *q = item_at(right, i), *same = nullptr;
      if (!rule_out_nan(p)) return stop_for_identity(BreakReason::k_container, "comparing containers of NaN", {p, q});
      if (p == q && !p->is_number()) continue;
      bool known, truth_of;
      if (p->kind == ValueKind::kTensor || q->kind == ValueKind::kTensor)
        return stop(BreakReason::k_container, "comparing containers of tensors");
      if (Flow flow = compare(Py_EQ, p, q, &same); flow != Flow::kGo) return flow;
      if (!truth(same, &known, &truth_of)) return stop(BreakReason::k_container, "comparison");
      if (!known) specialise(same);
      if (truth_of) continue;
      if (equality) return answer(operation == Py_NE);
      return compare(operation, p, q, out);  // the first items that differ decide
    }
    if (equality) return answer(operation == Py_EQ);
    return compare(operation, int_constant(static_cast<int64_t>(x->size())),
                   int_constant(static_cast<int64_t>(y->size())), out);
  }
  static const char* const kNames[] = {"__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"};
  if (left->kind == ValueKind::kObject && versions_.count(left->type) != 0 &&
      (right->kind != ValueKind::kObject || right->type == left->type)) {
    Ref name(PyUnicode_InternFromString(kNames[operation]));
    Value* method = find_in_class(left->type, name.get());
    if (method != nullptr && method->kind == ValueKind::kFunction) {
      Flow flow = call_now(method, {left, right}, out);
      if (flow == Flow::kGo && (*out)->is_constant() && (*out)->object == Py_NotImplemented)
        return stop(BreakReason::k_instruction, "a comparison that is not implemented");
      return flow;
    }
  }
  return stop(BreakReason::k_instruction, "a comparison of these objects");
}

Flow Tracer::unary(int opcode, Value* operand, Value** out) {
  Opcode op = static_cast<Opcode>(opcode);
  if (op == Opcode::k_UNARY_NOT) {
    if (operand->kind == ValueKind::kTensor) return stop(BreakReason::k_data_branch, "not of a tensor");
    bool known, answer;
    if (!truth(operand, &known, &answer)) return ended_ ? Flow::kEnd : stop(BreakReason::k_data_branch, "not");
    if (known) {
      *out = constant(answer ? Py_False : Py_True);
    } else {
      Value* zero = operand->kind == ValueKind::kFloat ? constant_owned(PyFloat_FromDouble(0)) : int_constant(0);
      *out = word_compare(Compare::kEqual, operand, zero);
    }
    return Flow::kGo;
  }
  if (operand->kind == ValueKind::kTensor) {
    return tensor_unary(op == Opcode::k_UNARY_NEGATIVE   ? Unary::kNegative
                        : op == Opcode::k_UNARY_POSITIVE ? Unary::kPositive
                                                         : Unary::kInvert,
                        operand, out);
  }
  PyObject* object;
  if (fold(operand, &object)) {
    Ref result(op == Opcode::k_UNARY_NEGATIVE   ? PyNumber_Negative(object)
               : op == Opcode::k_UNARY_POSITIVE ? PyNumber_Positive(object)
                                                : PyNumber_Invert(object));
    if (!result) return stop(BreakReason::k_raises, "unary operator");
    *out = constant(result.get());
    return Flow::kGo;
  }
  if (operand->kind == ValueKind::kFloat || operand->kind == ValueKind::kInt) {
    if (op == Opcode::k_UNARY_POSITIVE) {
      *out = operand;
      return Flow::kGo;
    }
    bool is_int = operand->kind == ValueKind::kInt;
    if (op == Opcode::k_UNARY_NEGATIVE && !(is_int && operand->int_hint == INT64_MIN)) {
      ExitId exit = is_int ? exit_here(ExitKind::kStep) : kNoExit;
      Step& step = record(is_int ? StepKind::k_int_neg : StepKind::k_float_neg);
      Value* value = make(operand->kind);
      value->int_hint = -operand->int_hint;
      value->float_hint = -operand->float_hint;
      step.a = operand->id;
      step.dst = value->id = new_value();
      step.on_fail = exit;
      *out = value;
      return Flow::kGo;
    }
  }
  if (operand->kind == ValueKind::kObject && versions_.count(operand->type) != 0) {
    Ref name(PyUnicode_InternFromString(op == Opcode::k_UNARY_NEGATIVE   ? "__neg__"
                                        : op == Opcode::k_UNARY_POSITIVE ? "__pos__"
                                                                         : "__invert__"));
    Value* method = find_in_class(operand->type, name.get());
    if (method != nullptr && method->kind == ValueKind::kFunction)
      return inline_call(method, {operand}, nullptr, ReturnRule::kPush);
  }
  return stop(BreakReason::k_instruction, "a unary operator of this object");
}

}  // namespace kintsugi
