// Operators of objects whose classes are written in Python: which methods are asked, in Python's order.
// Objects/abstract.c and the slots of Objects/typeobject.c are the rule.
#include "jit/tracer_core.h"
#include "runtime/frame.h"

#include <opcode.h>  // NB_ADD and the like

namespace kintsugi {

// The method of that name in the object's class.
Tracer::Special Tracer::find_special(Value* self, PyObject* name, Value** function) {
  PyTypeObject* type = python_class(self);
  if (type == nullptr) return Special::kBuiltin;
  PyObject* attribute = _PyType_Lookup(type, name);
  if (attribute == nullptr) return Special::kNone;
  PyTypeObject* kind = Py_TYPE(attribute);
  if (kind == &PyWrapperDescr_Type || kind == &PyMethodDescr_Type) return Special::kBuiltin;
  if (kind != &PyFunction_Type && compiled_target(attribute) == nullptr) return Special::kOther;
  *function = wrap_bound(attribute, std::string(type->tp_name) + "." + text_of(name));
  return Special::kPython;
}

// Calls the method of that name, if there is one: *out stays null if not.
Flow Tracer::call_special(Value* self, PyObject* name, std::vector<Value*> arguments, Value** out) {
  Value* function = nullptr;
  *out = nullptr;
  switch (find_special(self, name, &function)) {
    case Special::kNone: return Flow::kGo;
    case Special::kPython: break;
    case Special::kBuiltin:
      if (self->content != nullptr) return container_special(self, name, std::move(arguments), out);
      [[fallthrough]];
    default: return stop(BreakReason::k_method, text_of(name));
  }
  arguments.insert(arguments.begin(), self);
  Flow flow = call_now(function, std::move(arguments), out);
  return flow == Flow::kGo && *out == nullptr ? stop(BreakReason::k_method, text_of(name)) : flow;
}

static bool is_not_implemented(const Value* value) {
  return value->is_constant() && value->object == Py_NotImplemented;
}

// ---- Arithmetic -----------------------------------------------------------------------------------------------------

static const char* const kSigns[] = {"+", "&", "//", "<<", "@", "*", "%", "|", "** or pow()", ">>", "-", "/", "^"};
static const char* const kInPlaceSigns[] = {
    "+=", "&=", "//=", "<<=", "@=", "*=", "%=", "|=", "**=", ">>=", "-=", "/=", "^="};

// An int, float or str that is an instance of a subclass without operators of its own, as the plain atom it is worth: a
// member of an IntEnum. Null: not that.
Value* Tracer::plain_atom(Value* value, std::initializer_list<PyObject*> names) {
  if (value->kind != ValueKind::kObject || !value->is_real() || value->source < 0) return nullptr;
  PyTypeObject* type = python_class(value);
  if (type == nullptr) return nullptr;
  PyTypeObject* base = nullptr;
  for (PyTypeObject* each : {&PyLong_Type, &PyFloat_Type, &PyUnicode_Type})
    if (PyType_IsSubtype(type, each)) base = each;
  if (base == nullptr) return nullptr;
  for (PyObject* name : names)
    if (!inherits(type, name, base)) return nullptr;
  ConstantId constant = constant_id(value->object, Hold::kWeak);
  Guard& same = guard(GuardKind::k_same, value->source);
  same.a = value->id;
  same.constant = constant;
  if (base == &PyLong_Type) return constant_owned(PyLong_Type.tp_as_number->nb_int(value->object));
  if (base == &PyFloat_Type) return constant_owned(PyFloat_FromDouble(PyFloat_AS_DOUBLE(value->object)));
  return constant_owned(PyUnicode_FromObject(value->object));
}

// A builtin whose operators know no class written in Python: they answer NotImplemented.
static bool is_foreign(Tracer& t, Value* value) {
  PyObject* atom;
  switch (value->kind) {
    case ValueKind::kInt:
    case ValueKind::kFloat:
    case ValueKind::kBool:
    case ValueKind::kTensor:
    case ValueKind::kList:
    case ValueKind::kDict:
    case ValueKind::kFunction:
    case ValueKind::kSlice: return true;
    case ValueKind::kTuple: return value->type == nullptr;
    case ValueKind::kConstant: return t.fold(value, &atom);
    case ValueKind::kObject: return t.is_pure_object(value) && !is_heap_type(value->type);
    default: return false;
  }
}

// Whether a function can answer nothing but its first argument, as most in-place methods do.
static bool answers_itself(PyCodeObject* code) {
  const Bytecode& bytecode = bytecode_of(code);
  const auto& all = bytecode.instructions;
  for (size_t i = 0; i < all.size(); ++i) {
    bool stores = all[i].opcode == Opcode::k_STORE_FAST || all[i].opcode == Opcode::k_DELETE_FAST ||
                  all[i].opcode == Opcode::k_MAKE_CELL;
    if (stores && all[i].argument == 0) return false;
    if (all[i].opcode != Opcode::k_RETURN_VALUE) continue;
    if (i == 0 || all[i - 1].opcode != Opcode::k_LOAD_FAST || all[i - 1].argument != 0) return false;
    for (const Instruction& each : all)
      if (each.target == all[i].offset) return false;
  }
  return code->co_argcount > 0 && is_ordinary(code);
}

// Whether the class takes part in operators by methods in Python alone.
static bool is_of_python(Tracer& t, Value* value, std::initializer_list<PyObject*> names) {
  PyTypeObject* type = t.python_class(value);
  if (type == nullptr) return false;
  for (PyObject* each : names) {
    PyObject* attribute = _PyType_Lookup(type, each);
    if (attribute != nullptr && Py_TYPE(attribute) == &PyWrapperDescr_Type) return false;
  }
  return true;
}

Flow Tracer::object_binary(int operation, Value* left, Value* right, bool frames_welcome, Value** out) {
  bool in_place = operation >= NB_INPLACE_ADD;
  int plain = in_place ? operation - NB_INPLACE_ADD : operation;
  PyObject *name = interned.binary[plain], *reflected = interned.reflected[plain];
  bool alike = type_of(left) == type_of(right);  // then nothing is reflected
  bool from_left = alike ? is_of_python(*this, left, {name}) : is_of_python(*this, left, {name, reflected});
  bool from_right = alike ? from_left : is_of_python(*this, right, {name, reflected});
  if ((!from_left && !is_foreign(*this, left)) || (!from_right && !is_foreign(*this, right)) ||
      (!from_left && !from_right))
    return stop(BreakReason::k_instruction, "an operator of these objects");
  struct Attempt {
    Value *self, *other;
    PyObject* name;
  };
  std::vector<Attempt> attempts;
  PyTypeObject *left_type = type_of(left), *right_type = type_of(right);
  if (from_left && in_place) attempts.push_back({left, right, interned.in_place[plain]});
  Attempt forth{left, right, name}, back{right, left, reflected};
  if (!from_left) {
    // The builtin is asked first: most know nothing of the other class, those that it derives from do.
    bool formats = plain == NB_REMAINDER && (left_type == &PyUnicode_Type || left_type == &PyBytes_Type);
    if (formats || (right->kind == ValueKind::kObject && !is_plain_class(right_type)))
      return stop(BreakReason::k_instruction, "an operator of these objects");
    attempts.push_back(back);
  } else if (!from_right || left_type == right_type) {
    attempts.push_back(forth);
  } else {
    PyObject *ours = _PyType_Lookup(left_type, reflected), *theirs = _PyType_Lookup(right_type, reflected);
    bool overloads = PyType_IsSubtype(right_type, left_type) && theirs != nullptr && theirs != ours;
    attempts.push_back(overloads ? back : forth);
    attempts.push_back(overloads ? forth : back);
  }
  std::vector<std::pair<Value*, Attempt>> found;  // the function, and what it is called with
  for (const Attempt& attempt : attempts) {
    Value* function = nullptr;
    switch (find_special(attempt.self, attempt.name, &function)) {
      case Special::kNone: break;
      case Special::kPython: found.emplace_back(function, attempt); break;
      default: return stop(BreakReason::k_instruction, "an operator of these objects");
    }
  }
  for (size_t i = 0; i < found.size(); ++i) {
    auto& [function, attempt] = found[i];
    // With nobody left to ask afterwards the method is followed as a call, and may change things and break inside.
    // A tensor could still take the other side.
    bool last =
        (i + 1 == found.size() && right->kind != ValueKind::kTensor) ||
        (attempt.name == interned.in_place[plain] && function->code != nullptr && answers_itself(function->code));
    if (last && frames_welcome && function->kind == ValueKind::kFunction) {
      std::string refusal = std::string("TypeError: unsupported operand type(s) for ") +
                            (in_place ? kInPlaceSigns : kSigns)[plain] + ": '" +
                            std::string(left_type->tp_name).substr(0, 100) + "' and '" +
                            std::string(right_type->tp_name).substr(0, 100) + "'";
      *out = nullptr;  // the NotImplemented of who was asked before
      Flow flow = inline_call(function, {attempt.self, attempt.other}, nullptr, ReturnRule::kPush);
      if (flow == Flow::kGo) frame().refusal = string_constant(refusal);
      return flow;
    }
    if (Flow flow = call_now(function, {attempt.self, attempt.other}, out); flow != Flow::kGo) return flow;
    if (*out == nullptr) return stop(BreakReason::k_instruction, "an operator of these objects");
    if (!is_not_implemented(*out)) return Flow::kGo;
  }
  if (right->kind == ValueKind::kTensor && from_left)
    return stop(BreakReason::k_instruction, "an operator of these objects");
  return stop(BreakReason::k_raises, "unsupported operand types");
}

// ---- Comparison -----------------------------------------------------------------------------------------------------

// What object.__eq__ and its kin answer; *out stays null for NotImplemented.
Flow Tracer::object_compare(int operation, Value* self, Value* other, Value** out) {
  bool same = false, known = false, answer = false;
  *out = nullptr;
  if (operation == Py_EQ) {
    if (Flow flow = same_object(self, other, &same); flow != Flow::kGo) return flow;
    *out = same ? constant(Py_True) : nullptr;
  } else if (operation == Py_NE) {
    Value* equal = nullptr;
    if (Flow flow = half_compare(Py_EQ, self, other, &equal); flow != Flow::kGo || equal == nullptr) return flow;
    if (equal->kind == ValueKind::kTensor || !truth(equal, &known, &answer))
      return ended_ ? Flow::kEnd : stop(BreakReason::k_instruction, "a comparison of these objects");
    if (!known) specialise(equal);
    *out = constant(answer ? Py_False : Py_True);
  }
  return Flow::kGo;
}

// One side's say; *out stays null for NotImplemented.
Flow Tracer::half_compare(int operation, Value* self, Value* other, Value** out) {
  *out = nullptr;
  PyTypeObject* type = python_class(self);
  if (type == nullptr) {
    if (is_foreign(*this, self) && self->kind != ValueKind::kTensor) return Flow::kGo;
    return stop(BreakReason::k_instruction, "a comparison of these objects");
  }
  if (inherits(type, interned.compare[operation], &PyBaseObject_Type))
    return object_compare(operation, self, other, out);
  Value* function = nullptr;
  if (find_special(self, interned.compare[operation], &function) != Special::kPython)
    return stop(BreakReason::k_instruction, "a comparison of these objects");
  if (Flow flow = call_now(function, {self, other}, out); flow != Flow::kGo) return flow;
  if (*out == nullptr) return stop(BreakReason::k_instruction, "a comparison of these objects");
  if (is_not_implemented(*out)) *out = nullptr;
  return Flow::kGo;
}

// As do_richcompare: one of the two is of a class written in Python.
Flow Tracer::compare_objects(int operation, Value* left, Value* right, Value** out) {
  static constexpr int kSwapped[] = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};
  PyTypeObject *left_type = type_of(left), *right_type = type_of(right);
  if (left_type == nullptr || right_type == nullptr)
    return stop(BreakReason::k_instruction, "a comparison of these objects");
  // A builtin that the other class derives from compares the two in its own way.
  for (auto [one, other] : {std::pair{left, right}, {right, left}})
    if (python_class(one) == nullptr && other->kind == ValueKind::kObject && python_class(other) != nullptr &&
        !is_plain_class(type_of(other)))
      return stop(BreakReason::k_instruction, "a comparison of these objects");
  bool reversed = left_type != right_type && PyType_IsSubtype(right_type, left_type);
  if (reversed) {
    Flow flow = half_compare(kSwapped[operation], right, left, out);
    if (flow != Flow::kGo || *out != nullptr) return flow;
  }
  if (Flow flow = half_compare(operation, left, right, out); flow != Flow::kGo || *out != nullptr) return flow;
  if (!reversed) {
    Flow flow = half_compare(kSwapped[operation], right, left, out);
    if (flow != Flow::kGo || *out != nullptr) return flow;
  }
  if (operation != Py_EQ && operation != Py_NE) return stop(BreakReason::k_raises, "objects without an order");
  bool same = false;
  if (Flow flow = same_object(left, right, &same); flow != Flow::kGo) return flow;
  *out = constant(same == (operation == Py_EQ) ? Py_True : Py_False);
  return Flow::kGo;
}

// ---- Numbers and text
// -----------------------------------------------------------------------------------------------------------

Value* Tracer::as_index(Value* key) {
  if (key->kind == ValueKind::kTensor) {
    Value* word = nullptr;
    bool is_whole = info(key->layout->dtype).kind == DTypeKind::kIntegerKind;
    return is_whole && item_of(key, /*as=*/0, &word) ? word : nullptr;
  }
  if (Value* atom = plain_atom(key, {})) return PyLong_CheckExact(atom->object) ? atom : nullptr;
  Value* index = nullptr;
  if (call_special(key, interned.index, {}, &index) != Flow::kGo || index == nullptr) return nullptr;
  return index->is_constant() && PyLong_CheckExact(index->object) ? index : nullptr;
}

}  // namespace kintsugi
