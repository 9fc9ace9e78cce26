// Arithmetic and comparison in the trace: constants fold, numbers known only at run time become unboxed words with
// checks, containers concatenate, classes written in Python are asked. Tensors are in tensors.cpp.
#include <cmath>
#include <cstring>

#include "jit/containers.h"
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

void Tracer::check_word(Value* number, int64_t expected, ExitId on_fail) {
  if (input_.policy.exporting) refuse_check(number->id);
  Step& step = record(StepKind::k_check);
  step.a = number->id;
  step.imm = expected;
  step.on_fail = on_fail;
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
  if (number->kind == ValueKind::kObject) return number->type != &PyComplex_Type;
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

static PyObject* evaluate(int operation, PyObject* left, PyObject* right);

// The text is that of the same division of today's numbers.
static Flow division_by_zero(Tracer& t, int operation, Value* left, Value* right) {
  auto hint = [](Value* number) {
    return number->is_constant()               ? Py_NewRef(number->object)
           : number->kind == ValueKind::kFloat ? PyFloat_FromDouble(number->float_hint)
                                               : PyLong_FromLongLong(number->int_hint);
  };
  Ref a(hint(left)), b(hint(right));
  Ref result(a && b ? evaluate(operation, a.get(), b.get()) : nullptr);
  if (result) return t.stop(BreakReason::k_raises, "division by zero");
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (!right->is_constant()) {
    Value* zero = right->kind == ValueKind::kFloat ? t.constant_owned(PyFloat_FromDouble(0)) : t.int_constant(0);
    ExitId exit = t.exit_here(ExitKind::kStep);
    t.check_word(t.word_compare(Compare::kEqual, right, zero), 1, exit);
  }
  PyErr_Restore(type, value, traceback);
  return t.raise_pending("division by zero");
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
        if (y == 0) return division_by_zero(t, operation, left, right);
        finish(StepKind::k_float_div, a, b, ValueKind::kFloat, true, 0)->float_hint = x / y;
        break;
      case NB_FLOOR_DIVIDE:
        if (y == 0) return division_by_zero(t, operation, left, right);
        math(FloatFunction::kFloorDivide)->float_hint = python_floor_divide(x, y);
        break;
      case NB_REMAINDER:
        if (y == 0) return division_by_zero(t, operation, left, right);
        math(FloatFunction::kRemainder)->float_hint = x - y * std::floor(x / y);
        break;
      case NB_POWER:
        if (x == 0 && y < 0) return t.stop(BreakReason::k_raises, "a power of zero");
        if (x < 0) return t.pure_operator(operation, left, right, out);  // may be complex
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
      if (__builtin_add_overflow(x, y, &r)) return t.pure_operator(operation, left, right, out);
      finish(StepKind::k_int_add, a, b, ValueKind::kInt, true, 0)->int_hint = r;
      break;
    case NB_SUBTRACT:
      if (__builtin_sub_overflow(x, y, &r)) return t.pure_operator(operation, left, right, out);
      finish(StepKind::k_int_sub, a, b, ValueKind::kInt, true, 0)->int_hint = r;
      break;
    case NB_MULTIPLY:
      if (__builtin_mul_overflow(x, y, &r)) return t.pure_operator(operation, left, right, out);
      finish(StepKind::k_int_mul, a, b, ValueKind::kInt, true, 0)->int_hint = r;
      break;
    case NB_FLOOR_DIVIDE:
    case NB_REMAINDER: {
      if (y == 0) return division_by_zero(t, operation, left, right);
      if (x == INT64_MIN && y == -1) return t.pure_operator(operation, left, right, out);
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
    default: return t.pure_operator(operation, left, right, out);
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

// The in-place forms too: constants do not change, but texts of errors name the operator.
static PyObject* evaluate(int operation, PyObject* left, PyObject* right) {
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
    case NB_INPLACE_ADD: return PyNumber_InPlaceAdd(left, right);
    case NB_INPLACE_AND: return PyNumber_InPlaceAnd(left, right);
    case NB_INPLACE_FLOOR_DIVIDE: return PyNumber_InPlaceFloorDivide(left, right);
    case NB_INPLACE_LSHIFT: return PyNumber_InPlaceLshift(left, right);
    case NB_INPLACE_MATRIX_MULTIPLY: return PyNumber_InPlaceMatrixMultiply(left, right);
    case NB_INPLACE_MULTIPLY: return PyNumber_InPlaceMultiply(left, right);
    case NB_INPLACE_REMAINDER: return PyNumber_InPlaceRemainder(left, right);
    case NB_INPLACE_OR: return PyNumber_InPlaceOr(left, right);
    case NB_INPLACE_POWER: return PyNumber_InPlacePower(left, right, Py_None);
    case NB_INPLACE_RSHIFT: return PyNumber_InPlaceRshift(left, right);
    case NB_INPLACE_SUBTRACT: return PyNumber_InPlaceSubtract(left, right);
    case NB_INPLACE_TRUE_DIVIDE: return PyNumber_InPlaceTrueDivide(left, right);
    case NB_INPLACE_XOR: return PyNumber_InPlaceXor(left, right);
    default: return nullptr;
  }
}

static bool type_is_text(Value* value) {
  return value->is_constant() ? PyUnicode_CheckExact(value->object)
                              : value->kind == ValueKind::kObject && value->type == &PyUnicode_Type;
}

// A tuple made here of parts that are told apart by identity: to fold it would be to make them once more.
static bool has_identities(Tracer& t, Value* value) {
  if (value->kind != ValueKind::kTuple || !value->is_virtual()) return false;
  for (Value* item : value->items) {
    item = t.force(item);
    if (item->kind == ValueKind::kTuple || item->fresh) return true;
  }
  return false;
}

static Flow drop_error_and_stop(Tracer& t, const char* context) {
  PyErr_Clear();
  return t.stop(BreakReason::k_raises, context);
}

Flow Tracer::binary(int operation, Value* left, Value* right, Value** out) {
  bool frames_welcome = std::exchange(frames_welcome_, false);
  int plain = operation >= NB_INPLACE_ADD ? operation - NB_INPLACE_ADD : operation;
  bool replaced = false;  // the text of an error would name the wrong class
  auto plainly = [&](Value* value) {
    PyObject* first = operation >= NB_INPLACE_ADD ? interned.in_place[plain] : interned.binary[plain];
    Value* atom = plain_atom(value, {first, interned.binary[plain], interned.reflected[plain]});
    replaced |= atom != nullptr && atom != value;
    return atom != nullptr ? atom : value;
  };
  left = plainly(left);
  bool formats = plain == NB_REMAINDER && (type_is_text(left) || type_of(left) == &PyBytes_Type);  // asks for its text
  if (!formats) right = plainly(right);
  auto of_python_class = [&](Value* value) {  // and no number: tensors know those
    return value->kind == ValueKind::kObject && python_class(value) != nullptr && is_plain_class(value->type);
  };
  if (left->kind == ValueKind::kTensor || right->kind == ValueKind::kTensor) {
    if (of_python_class(left) || of_python_class(right))
      return object_binary(operation, left, right, frames_welcome, out);
    return tensor_binary(operation, left, right, out);
  }
  PyObject *a, *b;
  bool folds = !has_identities(*this, left) && !has_identities(*this, right);
  if (folds && !formats && fold(left, &a) && fold(right, &b)) {
    if (!folds_small(operation, a, b)) return stop(BreakReason::k_instruction, "a large constant");
    Ref result(evaluate(operation, a, b));
    if (!result && replaced) return drop_error_and_stop(*this, "operator");
    if (!result) return raise_pending("operator");
    *out = made_now(result.release());
    return Flow::kGo;
  }
  if (is_numeric(left) && is_numeric(right)) return word_binary(*this, operation, left, right, out);
  if (folds && is_atomic(left) && is_atomic(right))
    return replaced && plain != NB_REMAINDER ? drop_error_and_stop(*this, "operator")
                                             : pure_operator(operation, left, right, out);
  if (operation % NB_INPLACE_ADD == NB_REMAINDER && type_is_text(left))
    return pure_operator(operation, left, right, out);
  bool of_containers = false;
  if (Flow flow = container_binary(operation, left, right, out, &of_containers); of_containers || flow != Flow::kGo)
    return flow;
  if (plain == NB_OR)
    if (Value* classes = union_of(left, right)) return *out = classes, Flow::kGo;
  if (replaced) return stop(BreakReason::k_instruction, "an operator of these objects");  // a method would get the atom
  return object_binary(operation, left, right, frames_welcome, out);
}

// == by identity is right for objects whose type does not define it.
static bool compares_by_identity(Tracer& t, Value* value) {
  if (value->kind == ValueKind::kFunction || value->kind == ValueKind::kCell)
    return value->kind == ValueKind::kFunction;
  if (partial_type(value) != nullptr) return true;
  if (!value->is_constant()) return false;
  if (PyTypeObject* self = as_class(value); self != nullptr && t.metaclass(self) == nullptr) return false;
  PyTypeObject* type = Py_TYPE(value->object);
  return value->object == Py_None || type->tp_richcompare == nullptr ||
         type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

// Kinds whose == answers False for every other of them. kUnknown: may run anything.
enum class Family { kUnknown, kNumber, kText, kBytes, kTuple, kList, kDict, kRange, kSlice, kNone, kSet, kIdentity };
static Family family_of(Tracer& t, Value* value) {
  PyTypeObject* type = type_of(value);
  if (type == nullptr || value->kind == ValueKind::kTensor) return Family::kUnknown;
  if (type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || type == &PyComplex_Type)
    return Family::kNumber;
  if (type == &PyUnicode_Type) return Family::kText;
  if (type == &PyBytes_Type) return Family::kBytes;
  if (type == &PyTuple_Type || is_size(type)) return Family::kTuple;
  if (type == &PyList_Type) return Family::kList;
  if (type == &PyDict_Type) return Family::kDict;
  if (type == &PyRange_Type) return Family::kRange;
  if (type == &PySlice_Type) return Family::kSlice;
  if (type == &PyFrozenSet_Type || type == &PySet_Type) return Family::kSet;
  if (value->is_constant() && value->object == Py_None) return Family::kNone;
  if (compares_by_identity(t, value)) return Family::kIdentity;
  if (value->kind != ValueKind::kObject || (value->is_real() && t.versions_.count(type) == 0) ||
      !t.ensure_version(type))
    return Family::kUnknown;
  for (int operation : {Py_EQ, Py_NE})
    if (_PyType_Lookup(type, interned.compare[operation]) !=
        _PyType_Lookup(&PyBaseObject_Type, interned.compare[operation]))
      return Family::kUnknown;
  return Family::kIdentity;
}

// a.method == b.method
static Flow compare_methods(Tracer& t, Value* left, Value* right, bool* same) {
  for (int i = 0; i < 2; ++i) {
    Flow flow = t.same_object(t.force(left->items[i]), t.force(right->items[i]), same);
    if (flow != Flow::kGo || !*same) return flow;
  }
  return Flow::kGo;
}

Flow Tracer::compare(int operation, Value* left, Value* right, Value** out) {
  bool replaced = false;
  auto plainly = [&](Value* value) {
    Value* atom = plain_atom(value, {interned.compare[operation], interned.compare[operation ^ 1]});
    replaced |= atom != nullptr && atom != value;
    return atom != nullptr ? atom : value;
  };
  left = plainly(left);
  right = plainly(right);
  if (left->kind == ValueKind::kTensor || right->kind == ValueKind::kTensor) {
    bool by_object = left->kind == ValueKind::kObject && python_class(left) != nullptr && is_plain_class(left->type);
    return by_object ? compare_objects(operation, left, right, out) : tensor_compare(operation, left, right, out);
  }
  PyObject *a, *b;
  bool equality = operation == Py_EQ || operation == Py_NE;
  auto answer = [&](bool truth) {
    *out = constant(truth ? Py_True : Py_False);
    return Flow::kGo;
  };
  if (fold(left, &a) && fold(right, &b)) {
    Ref result(PyObject_RichCompare(a, b, operation));
    if (!result && replaced) return drop_error_and_stop(*this, "comparison");
    if (!result) return raise_pending("comparison");
    *out = constant(result.get());
    return Flow::kGo;
  }
  if (is_numeric(left) && is_numeric(right)) {
    static constexpr Compare kBy[] = {Compare::kLess,     Compare::kLessEqual, Compare::kEqual,
                                      Compare::kNotEqual, Compare::kGreater,   Compare::kGreaterEqual};
    *out = word_compare(kBy[operation], left, right);
    return Flow::kGo;
  }
  if (is_atomic(left) && is_atomic(right))
    return replaced && !equality ? drop_error_and_stop(*this, "comparison") : pure_compare(operation, left, right, out);
  if (equality && compares_by_identity(*this, left) && compares_by_identity(*this, right)) {
    bool same = left == right || (left->is_constant() && right->is_constant() && left->object == right->object);
    if (!same && left->kind == ValueKind::kFunction && right->kind == ValueKind::kFunction)
      if (Flow flow = same_object(left, right, &same); flow != Flow::kGo) return flow;
    return answer(same == (operation == Py_EQ));
  }
  if (equality && left->kind == ValueKind::kMethod && right->kind == ValueKind::kMethod) {
    bool same = false;
    if (Flow flow = compare_methods(*this, left, right, &same); flow != Flow::kGo) return flow;
    return answer(same == (operation == Py_EQ));
  }
  bool of_containers = false;
  if (Flow flow = container_compare(operation, left, right, out, &of_containers); of_containers || flow != Flow::kGo)
    return flow;
  if (equality) {
    Family a_family = family_of(*this, left), b_family = family_of(*this, right);
    bool known = a_family != Family::kUnknown && b_family != Family::kUnknown;
    bool warns = Py_BytesWarningFlag != 0 && (a_family == Family::kBytes || b_family == Family::kBytes);
    if (known && a_family != b_family && !warns) return answer(operation == Py_NE);
    if (known && a_family == Family::kIdentity && b_family == Family::kIdentity)
      return identity(left, right, operation == Py_NE, out);
  }
  bool by_methods = python_class(left) != nullptr || python_class(right) != nullptr;
  if (by_methods && !replaced) return compare_objects(operation, left, right, out);  // a method would get the atom
  return stop(BreakReason::k_instruction, "a comparison of these objects");
}

Flow Tracer::unary(int opcode, Value* operand, Value** out) {
  Opcode op = static_cast<Opcode>(opcode);
  if (op == Opcode::k_UNARY_NOT) {
    if (operand->kind == ValueKind::kTensor) return stop(BreakReason::k_data_branch, "not of a tensor");
    bool known, answer;
    if (!truth(operand, &known, &answer, &operand))
      return ended_ ? Flow::kEnd : stop(BreakReason::k_data_branch, "not");
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
    if (!result) return raise_pending("unary operator");
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
  if (operand->kind == ValueKind::kInt && op == Opcode::k_UNARY_INVERT)
    return binary(NB_XOR, operand, int_constant(-1), out);
  if (is_atomic(operand)) return pure_unary(opcode, operand, out);
  PyObject* name = op == Opcode::k_UNARY_NEGATIVE   ? interned.neg
                   : op == Opcode::k_UNARY_POSITIVE ? interned.pos
                                                    : interned.invert;
  if (Value* atom = plain_atom(operand, {name})) return unary(opcode, atom, out);
  Value* method = nullptr;
  if (find_special(operand, name, &method) == Special::kPython) return call(method, {operand}, nullptr);
  return stop(BreakReason::k_instruction, "a unary operator of this object");
}

}  // namespace kintsugi
