// From objects to values: what a trace reads of the world at its entry, and the guards that say so. A guard is made
// when something is looked at, never before: an unread local, item or attribute costs nothing.
#include <cstring>

#include "jit/changing_classes.h"
#include "jit/containers.h"
#include "runtime/frame.h"

namespace kintsugi {

Guard& Tracer::guard(GuardKind kind, int32_t source) {
  constexpr size_t kMostAtOnce = 8192;  // guards that one instruction may need: a guard for each item of a long list
  if (plan().guards.size() - guards_before_ > kMostAtOnce && !frames_.empty())
    break_from_the_start(BreakReason::k_container, "it looks at too many objects");
  plan().guards.push_back(Guard{kind});
  plan().guards.back().source = source;
  result_->guard_places.push_back(present_place());
  return plan().guards.back();
}

// As an index into the result's places.
int32_t Tracer::present_place() {
  if (frames_.empty()) return -1;
  auto& places = result_->places;
  if (placed_ != instructions_ || placed_frames_ != frames_.size()) {
    size_t before = places.size() - placed_frames_;  // the frames of the latest place
    int32_t caller = -1;
    for (size_t i = 0; i < frames_.size(); ++i) {
      PyCodeObject* code = frames_[i].bytecode->code;
      bool kept = i < placed_frames_ && places[before + i].code == code;
      if (!kept && shared_.insert(code).second) keep(reinterpret_cast<PyObject*>(code));
      places.push_back({code, frames_[i].at, caller});
      caller = static_cast<int32_t>(places.size()) - 1;
    }
    placed_ = instructions_;
    placed_frames_ = frames_.size();
  }
  return static_cast<int32_t>(places.size()) - 1;
}

int32_t Tracer::source(const std::string& text) {
  auto [place, fresh] = source_ids_.try_emplace(text, static_cast<int32_t>(plan().sources.size()));
  if (fresh) plan().sources.push_back(text);
  return place->second;
}

std::string Tracer::source_text(const Value* value) {  // the table grows: no reference into it
  return value->source < 0 ? "<made here>" : plan().sources[value->source];
}

bool Tracer::is_dynamic_source(const std::string& text, bool number) {
  if (input_.policy.dynamic == 0) return false;
  if (input_.policy.dynamic == 1 && number) return true;
  return input_.policy.dynamic == 1 || input_.memory->dynamic.count(text) != 0;
}

std::string slot_text(PyCodeObject* code, int slot) {
  if (slot >= code->co_nlocalsplus) return "stack[" + std::to_string(slot - code->co_nlocalsplus) + "]";
  const char* name = PyUnicode_AsUTF8(slot_name(code, slot));
  PyErr_Clear();
  return name != nullptr ? name : "?";
}

// The object in an entry slot, without saying anything about it.
ValueId Tracer::slot_id(Value* lazy) {
  if (lazy->id != kNoValue) return lazy->id;
  Guard& load = guard(GuardKind::k_slot, source(slot_text(input_.code, lazy->slot)));
  load.imm = lazy->slot;
  return lazy->id = load.dst = new_value();
}

// A counter of CPython's own that must stay what it is.
void Tracer::guard_word(const std::string& text, const uint64_t* word) {
  auto [place, fresh] = text_ids_.try_emplace("word " + text, static_cast<ConstantId>(plan().constants.size()));
  if (!fresh) return;
  plan().constants.push_back({ConstantKind::kString, 0, 0, text});
  result_->bindings.push_back(const_cast<uint64_t*>(word));
  result_->holds.push_back(Hold::kNone);
  Guard& check = guard(GuardKind::k_state_word, source(text));
  check.constant = place->second;
  check.imm = static_cast<int32_t>(*word);
}

Value* Tracer::force(Value* value) {
  if (value->forwarded != nullptr) return value->forwarded;
  if (value->kind != ValueKind::kLazy) return value;
  ValueId id = slot_id(value);
  return value->forwarded = wrap(value->object, id, slot_text(input_.code, value->slot));
}

Value* Tracer::load_field(Value* owner, int offset, PyObject* object, const std::string& text) {
  ValueId owner_id = owner->id;
  Guard& load = guard(GuardKind::k_field, source(text));
  load.a = owner_id;
  load.imm = offset;
  ValueId id = load.dst = new_value();
  return wrap(object, id, text);
}

Value* Tracer::wrap_bound(PyObject* object, const std::string& text, Hold hold) {
  if (auto stands = stand_ins_.find(object); stands != stand_ins_.end()) {
    if (stands->second == nullptr) break_from_the_start(BreakReason::k_attribute, text);
    return stands->second;
  }
  PyTypeObject* type = Py_TYPE(object);
  bool is_part = type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type;  // made by type.__new__
  if (is_part && is_made_class(PyDescr_TYPE(object))) break_from_the_start(BreakReason::k_attribute, text);
  auto known = known_.find(object);
  auto [place, fresh] = checked_.try_emplace(object, kNoValue);
  if (fresh) {
    // What cannot change, and what the guards before this one pin, needs no load.
    if (known == known_.end() &&
        (type == &PyLong_Type || type == &PyFloat_Type || type == &PyUnicode_Type || type == &PyBool_Type ||
         object == Py_None || type == &PyBytes_Type || PyCFunction_Check(object) || type == &PyMethodDescr_Type ||
         type == &PyComplex_Type)) {
      checked_.erase(place);
      return constant(object);
    }
    ConstantId constant = constant_id(object, hold);
    Guard& load = guard(GuardKind::k_bound, source(text));
    load.constant = constant;
    place->second = load.dst = new_value();
  }
  // A value of the program that happened to be this object must be it.
  ValueId id = place->second;
  Value* value = wrap(object, id, text);
  if (known != known_.end()) checked_[object] = value->id;
  return value;
}

// What a guard compared by its worth: to the trace a constant, handed on as the object that came.
Value* Tracer::known_by_worth(PyObject* object, ValueId id) {
  keep(object);
  Value* value = make(ValueKind::kConstant);
  value->object = object;
  value->boxed = id;
  return value;
}

// Of a method that a builtin type bound to one of its objects: the type's own. Each access makes another bound one.
static PyObject* method_behind(PyObject* object) {
  if (!Py_IS_TYPE(object, &PyCFunction_Type)) return nullptr;
  PyObject* self = PyCFunction_GET_SELF(object);
  if (self == nullptr || PyModule_CheckExact(self) || PyType_Check(self)) return nullptr;
  PyMethodDef* row = reinterpret_cast<PyCFunctionObject*>(object)->m_ml;
  Ref name(PyUnicode_InternFromString(row->ml_name));
  PyObject* method = name ? _PyType_Lookup(Py_TYPE(self), name.get()) : nullptr;
  PyErr_Clear();
  if (method == nullptr || !Py_IS_TYPE(method, &PyMethodDescr_Type)) return nullptr;
  auto* descriptor = reinterpret_cast<PyMethodDescrObject*>(method);
  bool is_static = !PyType_HasFeature(descriptor->d_common.d_type, Py_TPFLAGS_HEAPTYPE);
  return descriptor->d_method == row && is_static ? method : nullptr;
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
    finalizers_ = finalizers_ || finalizes(value);
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
    return known_by_worth(object, id);
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
    return known_by_worth(object, id);
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
    return known_by_worth(object, id);
  }
  if (is_tensor(object)) {
    Value* value = made(ValueKind::kTensor);
    retain(as_tensor(object)->layout);
    value->layout = keep_layout(as_tensor(object)->layout);
    value->dynamic =
        value->layout->marked_dynamic != 0 || (value->layout->marked_static == 0 && is_dynamic_source(text, false));
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
  if (type == &PySet_Type || type == &PyFrozenSet_Type) {
    check_type();
    Value* value = made(ValueKind::kSet);
    value->type = type;
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
    return made(ValueKind::kConstant);  // shown as the object that it is
  }
  if (type == &PySlice_Type) {
    check_type();
    Value* value = made(ValueKind::kSlice);
    PySliceObject* slice = reinterpret_cast<PySliceObject*>(object);
    value->items.push_back(load_field(value, offsetof(PySliceObject, start), slice->start, text + ".start"));
    value->items.push_back(load_field(value, offsetof(PySliceObject, stop), slice->stop, text + ".stop"));
    value->items.push_back(load_field(value, offsetof(PySliceObject, step), slice->step, text + ".step"));
    return value;
  }
  if (PyObject* method = method_behind(object); method != nullptr) {
    check_type();
    PyMethodDef* row = reinterpret_cast<PyCFunctionObject*>(object)->m_ml;
    ConstantId constant = pointer_constant(row, std::string("the builtin method ") + row->ml_name);
    Guard& check = guard(GuardKind::k_pointer_field, from);
    check.a = id;
    check.imm = offsetof(PyCFunctionObject, m_ml);
    check.constant = constant;
    Value* value = made(ValueKind::kMethod);
    value->items = {this->constant(method), load_field(value, offsetof(PyCFunctionObject, m_self),
                                                       PyCFunction_GET_SELF(object), text + ".__self__")};
    return value;
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
  if (type == &PyListIter_Type || type == &PyTupleIter_Type || type == &PyEnum_Type || type == &PyZip_Type) {
    check_type();
    Value* value = made(ValueKind::kIterator);
    value->iterator = type == &PyEnum_Type  ? IteratorKind::kRealEnumerate
                      : type == &PyZip_Type ? IteratorKind::kRealZip
                                            : IteratorKind::kRealSequence;
    return value;
  }
  bool is_tuple = PyTuple_Check(object) && is_heap_type(type) && tuple_like(type) && type_version(type) != 0;
  Value* value = made(is_tuple ? ValueKind::kTuple : ValueKind::kObject);
  value->type = type;
  value->complete = is_tuple;
  uint32_t version = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) ? type_version(type) : 0;
  if (version != 0 && inherits_changing(type)) {
    check_type();
    if (versions_.count(type) == 0 && !guard_kept(type, from)) throw Restart{};
  } else if (version != 0) {
    ConstantId constant = constant_id(reinterpret_cast<PyObject*>(type), Hold::kWeak);
    Guard& check = guard(GuardKind::k_type_version, from);
    check.a = id;
    check.constant = constant;
    check.imm = version;
    versions_.emplace(type, 1);
  } else {
    check_type();
  }
  if (version != 0) {
    if (is_tuple) {
      value->items.resize(PyTuple_GET_SIZE(object));
      Guard& size = guard(GuardKind::k_tuple_size, from);
      size.a = id;
      size.imm = PyTuple_GET_SIZE(object);
    } else {
      real_mutables_.push_back(value);
    }
  }
  if (!is_tuple && (version != 0 || !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE))) add_content(*this, value);
  return value;
}

// A dict that is looked at may be the one in which an instance keeps its attributes: a trace that changes one of the
// two is only for where it is not. Learnt in the entry's memory under this name.
static const char* const kOwnDict = "an object and its own dict";

static void keep_apart(Tracer& t, Value* object, Value* dict) {
  PyTypeObject* type = object->type;
  if (dict->owner == object) return;
  int64_t offset = has_managed_dict(object->object) ? kManagedDictOffset : type->tp_dictoffset;
  if (offset == 0 || object->source < 0 || dict->source < 0) return;
  PyObject* own = instance_dict_of(object->object);
  if (own == dict->object || (offset < 0 && !has_managed_dict(object->object))) {
    t.input_.memory->dynamic.insert(kOwnDict);
    throw Restart{};
  }
  Guard& guard = t.guard(own == nullptr ? GuardKind::k_null_field : GuardKind::k_field, object->source);
  guard.a = object->id;
  guard.imm = offset;
  if (own == nullptr) return;
  ValueId loaded = guard.dst = t.new_value();
  Guard& check = t.guard(GuardKind::k_distinct, object->source);
  check.a = loaded;
  check.b = dict->id;
}

void Tracer::mutate(Value* real) {
  if (real->mutated) return;
  bool has_attributes = real->kind == ValueKind::kDict || real->kind == ValueKind::kObject;
  if (has_attributes && real->source >= 0 && input_.memory->dynamic.count(kOwnDict) != 0)
    break_from_the_start(BreakReason::k_attribute, kOwnDict);
  real->mutated = true;
  mutated_.push_back(real);
}

// Two names of one object were found to be one (wrap); here, that a changed object is none of the others of its kind.
void Tracer::guard_distinct() {
  for (Value* changed : mutated_) {
    if (changed->source < 0) continue;
    for (Value* other : real_mutables_) {
      if (changed->kind == ValueKind::kDict && other->kind == ValueKind::kObject) keep_apart(*this, other, changed);
      if (changed->kind == ValueKind::kObject && other->kind == ValueKind::kDict) keep_apart(*this, changed, other);
      bool of_classes = changed->owner != nullptr || other->owner != nullptr;
      if (of_classes && changed->kind == other->kind &&
          type_of(changed->owner != nullptr ? changed->owner : changed) !=
              type_of(other->owner != nullptr ? other->owner : other))
        continue;
      if (other == changed || other->kind != changed->kind || (other->mutated && other < changed)) continue;
      if (other->kind == ValueKind::kObject && other->type != changed->type) continue;
      Guard& check = guard(GuardKind::k_distinct, changed->source);
      check.a = changed->id;
      check.b = other->id;
    }
  }
}

}  // namespace kintsugi
