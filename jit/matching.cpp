// The instructions of match statements, as Python/ceval.c of 3.11 has them.
#include "jit/exceptions.h"
#include "jit/tracer_core.h"
#include "runtime/frame.h"

namespace kintsugi {

static constexpr unsigned long kMatchesItself = 1UL << 22;  // _Py_TPFLAGS_MATCH_SELF: int(x), str(x) and the like

// Whether the type says that it is a sequence or mapping. A class may be registered as one later: its flags are
// checked.
static bool has_flag(Tracer& t, Value* subject, unsigned long flag, bool* answer) {
  *answer = false;
  switch (subject->kind) {
    case ValueKind::kIterator:
    case ValueKind::kMethod:
    case ValueKind::kCell: return true;
    default: break;
  }
  PyTypeObject* type = type_of(subject);
  if (type == nullptr) return false;
  *answer = PyType_HasFeature(type, flag);
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE)) return true;
  if (!t.ensure_version(type)) return false;
  if (t.is_made_class(type)) return true;
  std::string text = std::string("class ") + type->tp_name;
  ConstantId constant = t.constant_id(reinterpret_cast<PyObject*>(type), Hold::kWeak);
  Guard& bound = t.guard(GuardKind::k_bound, t.source(text));
  bound.constant = constant;
  ValueId class_id = bound.dst = t.new_value();
  Guard& load = t.guard(GuardKind::k_field, t.source(text + " flags"));
  load.a = class_id;
  load.imm = offsetof(PyTypeObject, tp_flags);
  Value flags;
  flags.kind = ValueKind::kInt;
  flags.id = load.dst = t.new_value();
  t.check_word(&flags, static_cast<int64_t>(type->tp_flags), t.exit_here(ExitKind::kStep));
  return true;
}

// getattr, or *out null where Python finds AttributeError.
static Flow attribute_or_none(Tracer& t, Value* subject, PyObject* name, Value** out) {
  PyTypeObject* type = type_of(subject);
  if (type == nullptr) return t.stop(BreakReason::k_instruction, "a class pattern");
  PyObject* in_class = _PyType_Lookup(type, name);
  bool plain = type->tp_getattro == PyObject_GenericGetAttr || subject->kind == ValueKind::kTensor;
  bool computed = in_class != nullptr && Py_TYPE(in_class)->tp_descr_set != nullptr;
  if (plain && !computed && subject->kind == ValueKind::kObject && !t.is_pure_object(subject)) {
    bool present;
    if (!t.has_attribute(subject, name, &present)) return t.stop(BreakReason::k_instruction, "a class pattern");
    if (!present) return *out = nullptr, Flow::kGo;
  } else if (plain && in_class == nullptr && subject->kind != ValueKind::kObject && type->tp_dictoffset == 0) {
    return *out = nullptr, Flow::kGo;
  }
  bool missing;
  Flow flow = t.at_once_taking(
      PyExc_AttributeError, [&](Value** answer) { return t.get_attribute(subject, name, answer); }, out, &missing);
  if (missing) *out = nullptr;
  return flow;
}

static Flow match_class(Tracer& t, int positional) {
  TraceFrame& now = t.frame();
  Value* names = now.stack.back();
  now.stack.pop_back();
  Value* type = t.force(now.stack.back());
  now.stack.pop_back();
  Value* subject = t.force(now.stack.back());
  now.stack.pop_back();
  auto answer = [&](Value* value) {
    t.frame().stack.push_back(value);
    return Flow::kGo;
  };
  if (!type->is_constant() || !PyType_Check(type->object)) return t.stop(BreakReason::k_raises, "a class pattern");
  std::vector<Value*> arguments{subject, type};
  static PyObject* isinstance = PyDict_GetItemString(standard_builtins(), "isinstance");
  Value* is_one = nullptr;
  bool handled = false;
  Flow flow = t.call_builtin(t.constant(isinstance), arguments, nullptr, &is_one, &handled);
  if (flow != Flow::kGo) return flow;
  if (!handled || !is_one->is_constant()) return t.stop(BreakReason::k_instruction, "a class pattern");
  if (is_one->object != Py_True) return answer(t.none());

  std::vector<Value*> found;
  std::vector<PyObject*> asked;
  if (positional > 0) {
    auto* matched = reinterpret_cast<PyTypeObject*>(type->object);
    if (!t.ensure_version(matched)) return t.stop(BreakReason::k_instruction, "a class pattern");
    PyObject* in_class = _PyType_Lookup(matched, interned.match_args);
    if (Py_TYPE(matched) != &PyType_Type) {
      PyTypeObject* meta = t.metaclass(matched);
      if (meta == nullptr || meta->tp_getattro != PyType_Type.tp_getattro || _PyType_Lookup(meta, interned.match_args))
        return t.stop(BreakReason::k_instruction, "a class pattern");
    }
    if (in_class == nullptr) {
      if ((matched->tp_flags & kMatchesItself) == 0 || positional > 1)
        return t.stop(BreakReason::k_raises, "too many positional patterns");
      found.push_back(subject);
    } else {
      if (!PyTuple_CheckExact(in_class) || positional > PyTuple_GET_SIZE(in_class))
        return t.stop(BreakReason::k_raises, "too many positional patterns");
      for (int i = 0; i < positional; ++i) asked.push_back(PyTuple_GET_ITEM(in_class, i));
    }
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names->object); ++i) asked.push_back(PyTuple_GET_ITEM(names->object, i));
  for (size_t i = 0; i < asked.size(); ++i) {
    if (!PyUnicode_CheckExact(asked[i])) return t.stop(BreakReason::k_raises, "a class pattern");
    t.keep(asked[i]);
    for (size_t k = 0; k < i; ++k)
      if (PyUnicode_Compare(asked[k], asked[i]) == 0)
        return t.stop(BreakReason::k_raises, "an attribute asked for twice");
    Value* value = nullptr;
    if (flow = attribute_or_none(t, subject, asked[i], &value); flow != Flow::kGo) return flow;
    if (value == nullptr) return answer(t.none());
    found.push_back(value);
  }
  return answer(t.tuple_of(std::move(found)));
}

static Flow match_keys(Tracer& t) {
  std::vector<Value*>& stack = t.frame().stack;
  Value* keys = stack.back() = t.force(stack.back());
  Value*& place = stack[stack.size() - 2];
  Value* subject = place = t.force(place);
  std::vector<Value*>* items;
  if (subject->kind != ValueKind::kDict || !t.list_items(keys, &items))
    return t.stop(BreakReason::k_instruction, "a mapping pattern");
  std::vector<Value*> found;
  Value* met = t.make(ValueKind::kDict);  // a key that stands twice raises
  Value* missing = t.make(ValueKind::kObject);
  for (size_t i = 0; i < items->size(); ++i) {
    PyObject* key;
    if (!t.key_of(t.item_at(keys, i), &key)) return t.stop(BreakReason::k_instruction, "a mapping pattern");
    if (t.dict_get(met, key) != nullptr) return t.stop(BreakReason::k_raises, "a key asked for twice");
    t.dict_put(met, key, t.none());
    std::vector<Value*> arguments{t.item_at(keys, i), missing};
    Value* value = nullptr;
    if (Flow flow = t.container_method(subject, interned.get_method, arguments, nullptr, &value); flow != Flow::kGo)
      return flow;
    if (value == missing) {
      t.frame().stack.push_back(t.none());
      return Flow::kGo;
    }
    found.push_back(value);
  }
  t.frame().stack.push_back(t.tuple_of(std::move(found)));
  return Flow::kGo;
}

Flow Tracer::match(Opcode opcode, int argument) {
  if (opcode == Opcode::k_MATCH_CLASS) return match_class(*this, argument);
  if (opcode == Opcode::k_MATCH_KEYS) return match_keys(*this);
  std::vector<Value*>& stack = frame().stack;
  Value* subject = stack.back() = force(stack.back());
  bool answer;
  unsigned long flag = opcode == Opcode::k_MATCH_MAPPING ? Py_TPFLAGS_MAPPING : Py_TPFLAGS_SEQUENCE;
  if (!has_flag(*this, subject, flag, &answer)) return stop(BreakReason::k_instruction, "a pattern of this object");
  frame().stack.push_back(constant(answer ? Py_True : Py_False));
  return Flow::kGo;
}

}  // namespace kintsugi
