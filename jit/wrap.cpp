// From objects to values: what a trace reads of the world at its entry, and the guards that say so. A guard is made
// when something is looked at, never before: an unread local, item or attribute costs nothing.
#include <cstring>

#include "jit/tracer_core.h"
#include "runtime/frame.h"

namespace kintsugi {

Guard& Tracer::guard(GuardKind kind, int32_t source) {
  plan().guards.push_back(Guard{kind});
  plan().guards.back().source = source;
  return plan().guards.back();
}

int32_t Tracer::source(const std::string& text) {
  auto [place, fresh] = source_ids_.try_emplace(text, static_cast<int32_t>(plan().sources.size()));
  if (fresh) plan().sources.push_back(text);
  return place->second;
}

const std::string& Tracer::source_text(const Value* value) {
  static const std::string made = "<made here>";
  return value->source < 0 ? made : plan().sources[value->source];
}

bool Tracer::is_dynamic_source(const std::string& text, bool number) {
  if (input_.policy.dynamic == 0) return false;
  if (input_.policy.dynamic == 1 && number) return true;
  return input_.policy.dynamic == 1 || input_.memory->dynamic.count(text) != 0;
}

static std::string slot_text(const TraceInput& input, int slot) {
  if (slot >= input.code->co_nlocalsplus) return "stack[" + std::to_string(slot - input.code->co_nlocalsplus) + "]";
  const char* name = PyUnicode_AsUTF8(slot_name(input.code, slot));
  PyErr_Clear();
  return name != nullptr ? name : "?";
}

// The object in an entry slot, without saying anything about it.
ValueId Tracer::slot_id(Value* lazy) {
  if (lazy->id != kNoValue) return lazy->id;
  Guard& load = guard(GuardKind::k_slot, source(slot_text(input_, lazy->slot)));
  load.imm = lazy->slot;
  return lazy->id = load.dst = new_value();
}

Value* Tracer::force(Value* value) {
  if (value->forwarded != nullptr) return value->forwarded;
  if (value->kind != ValueKind::kLazy) return value;
  ValueId id = slot_id(value);
  return value->forwarded = wrap(value->object, id, slot_text(input_, value->slot));
}

Value* Tracer::load_field(Value* owner, int offset, PyObject* object, const std::string& text) {
  ValueId owner_id = owner->id;
  Guard& load = guard(GuardKind::k_field, source(text));
  load.a = owner_id;
  load.imm = offset;
  ValueId id = load.dst = new_value();
  return wrap(object, id, text);
}

Value* Tracer::wrap_bound(PyObject* object, const std::string& text) {
  auto found = known_.find(object);
  if (found != known_.end()) return found->second;
  PyTypeObject* type = Py_TYPE(object);
  // What cannot change, and what the guards before this one pin, needs no load.
  if (type == &PyLong_Type || type == &PyFloat_Type || type == &PyUnicode_Type || type == &PyBool_Type ||
      object == Py_None || type == &PyBytes_Type || PyCFunction_Check(object) || type == &PyMethodDescr_Type ||
      type == &PyComplex_Type)
    return constant(object);
  Guard& load = guard(GuardKind::k_bound, source(text));
  ValueId id = load.dst = new_value();
  ConstantId constant = constant_id(object, Hold::kWeak);
  plan().guards.back().constant = constant;
  return wrap(object, id, text);
}

Value* Tracer::wrap(PyObject* object, ValueId id, const std::string& text) {
  int32_t from = source(text);
  PyTypeObject* type = Py_TYPE(object);
  auto known = known_.find(object);
  if (known != known_.end()) {
    if (known->second->id != id) {
      Guard& same = guard(GuardKind::k_identical, from);
      same.a = id;
      same.b = known->second->id;
    }
    return known->second;
  }
  auto made = [&](ValueKind kind) {
    Value* value = make(kind);
    value->object = object;
    value->id = id;
    value->source = from;
    keep(object);
    known_.emplace(object, value);
    return value;
  };
  auto check_type = [&] {
    ConstantId constant = constant_id(reinterpret_cast<PyObject*>(type), Hold::kWeak);
    Guard& check = guard(GuardKind::k_type_is, from);
    check.a = id;
    check.constant = constant;
  };
  auto check_same = [&](Hold hold) {
    ConstantId constant = constant_id(object, hold);
    Guard& check = guard(GuardKind::k_same, from);
    check.a = id;
    check.constant = constant;
    if (hold == Hold::kWeak) checked_.emplace(object, id);
    return this->constant(object);
  };

  if (object == Py_None || type == &PyBool_Type || object == Py_Ellipsis || object == Py_NotImplemented)
    return check_same(Hold::kStrong);
  if (type == &PyLong_Type) {
    int overflow = 0;
    int64_t number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow == 0 && is_dynamic_source(text, true)) {
      Guard& load = guard(GuardKind::k_int_value, from);
      load.a = id;
      Value* value = make(ValueKind::kInt);
      value->id = load.dst = new_value();
      value->boxed = id;
      value->int_hint = number;
      value->source = from;
      return value;
    }
    ConstantId constant =
        overflow == 0 ? number_constant({ConstantKind::kInt, number, 0, {}}) : constant_id(object, Hold::kStrong);
    Guard& check = guard(overflow == 0 ? GuardKind::k_int_equal : GuardKind::k_equal, from);
    check.a = id;
    check.constant = constant;
    return this->constant(object);
  }
  if (type == &PyFloat_Type) {
    double number = PyFloat_AS_DOUBLE(object);
    if (is_dynamic_source(text, true)) {
      Guard& load = guard(GuardKind::k_float_value, from);
      load.a = id;
      Value* value = make(ValueKind::kFloat);
      value->id = load.dst = new_value();
      value->boxed = id;
      value->float_hint = number;
      value->source = from;
      return value;
    }
    ConstantId constant = number_constant({ConstantKind::kFloat, 0, number, {}});
    Guard& check = guard(GuardKind::k_float_equal, from);
    check.a = id;
    check.constant = constant;
    return this->constant(object);
  }
  if (type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyComplex_Type) {
    if (input_.memory->dynamic.count(text) != 0) {  // text that varies: an object like others, not a constant
      check_type();
      Value* value = made(ValueKind::kObject);
      value->type = type;
      return value;
    }
    ConstantId constant = constant_id(object, Hold::kStrong);
    Guard& check = guard(GuardKind::k_equal, from);
    check.a = id;
    check.constant = constant;
    return this->constant(object);
  }
  if (is_tensor(object)) {
    Value* value = made(ValueKind::kTensor);
    retain(as_tensor(object)->layout);
    value->layout = keep_layout(as_tensor(object)->layout);
    value->dynamic = is_dynamic_source(text, false);
    ConstantId constant = layout_constant(value->layout);
    Guard& check = guard(value->dynamic ? GuardKind::k_tensor_class : GuardKind::k_tensor_layout, from);
    check.a = id;
    check.constant = constant;
    return value;
  }
  if (type == &PyTuple_Type) {
    Value* value = made(ValueKind::kTuple);
    value->items.resize(PyTuple_GET_SIZE(object));
    Guard& check = guard(GuardKind::k_tuple_length, from);
    check.a = id;
    check.imm = PyTuple_GET_SIZE(object);
    return value;
  }
  if (type == &PyList_Type) {
    check_type();
    Value* value = made(ValueKind::kList);
    value->complete = false;
    real_mutables_.push_back(value);
    return value;
  }
  if (type == &PyDict_Type) {
    check_type();
    Value* value = made(ValueKind::kDict);
    value->complete = false;
    real_mutables_.push_back(value);
    return value;
  }
  if (type == &PyFunction_Type) {
    check_type();
    Value* value = made(ValueKind::kFunction);
    value->complete = false;
    value->code = code_of(reinterpret_cast<PyFunctionObject*>(object));
    ValueId code_id = new_value();
    Guard& load = guard(GuardKind::k_field, source(text + ".__code__"));
    load.a = id;
    load.imm = offsetof(PyFunctionObject, func_code);
    load.dst = code_id;
    ConstantId constant = constant_id(reinterpret_cast<PyObject*>(value->code), Hold::kStrong);
    Guard& check = guard(GuardKind::k_same, source(text + ".__code__"));
    check.a = code_id;
    check.constant = constant;
    return value;
  }
  if (type == &PyMethod_Type) {
    check_type();
    Value* value = made(ValueKind::kMethod);
    value->items.push_back(
        load_field(value, offsetof(PyMethodObject, im_func), PyMethod_GET_FUNCTION(object), text + ".__func__"));
    value->items.push_back(
        load_field(value, offsetof(PyMethodObject, im_self), PyMethod_GET_SELF(object), text + ".__self__"));
    return value;
  }
  if (type == &PyCell_Type) {
    check_type();
    Value* value = made(ValueKind::kCell);
    value->complete = false;
    real_mutables_.push_back(value);
    return value;
  }
  if (type == &PyRange_Type) {
    ConstantId constant = constant_id(object, Hold::kStrong);
    Guard& check = guard(GuardKind::k_range_equal, from);
    check.a = id;
    check.constant = constant;
    return this->constant(object);
  }
  if (PyType_Check(object) || PyModule_CheckExact(object) || PyCFunction_Check(object) || type == &PyMethodDescr_Type ||
      type == &PyWrapperDescr_Type || type == &PyCode_Type)
    return check_same(Hold::kWeak);
  // Our own singletons (dtypes, devices): no state beyond which one it is.
  if (std::strncmp(type->tp_name, "kintsugi.", 9) == 0 && !PyType_IS_GC(type) &&
      !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE))
    return check_same(Hold::kStrong);
  if (type == &PyRangeIter_Type) {
    check_type();
    Value* value = made(ValueKind::kIterator);
    value->iterator = IteratorKind::kRealRange;
    return value;
  }
  Value* value = made(ValueKind::kObject);
  value->type = type;
  value->complete = false;
  uint32_t version = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) ? type_version(type) : 0;
  if (version != 0) {
    ConstantId constant = constant_id(reinterpret_cast<PyObject*>(type), Hold::kWeak);
    Guard& check = guard(GuardKind::k_type_version, from);
    check.a = id;
    check.constant = constant;
    check.imm = version;
    versions_.emplace(type, 1);
    real_mutables_.push_back(value);
  } else {
    check_type();
  }
  return value;
}

void Tracer::mutate(Value* real) {
  if (real->mutated) return;
  real->mutated = true;
  mutated_.push_back(real);
}

// Two names of one object were found to be one (wrap); here, that a changed object is none of the others of its kind.
void Tracer::guard_distinct() {
  for (Value* changed : mutated_) {
    if (changed->source < 0) continue;
    for (Value* other : real_mutables_) {
      if (other == changed || other->kind != changed->kind || (other->mutated && other < changed)) continue;
      if (other->kind == ValueKind::kObject && other->type != changed->type) continue;
      Guard& check = guard(GuardKind::k_distinct, changed->source);
      check.a = changed->id;
      check.b = other->id;
    }
  }
}

}  // namespace kintsugi
