// Attributes, classes, instances. Look-up follows CPython's own order; what a class holds is pinned by its version tag,
// what an instance holds by a guard on that attribute.
#include "jit/tracer_core.h"
#include "runtime/frame.h"

#include <structmember.h>

namespace kintsugi {

static std::string text_of(PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) PyErr_Clear();
  return text != nullptr ? text : "?";
}

// Static types do not change; of others the version tag is guarded once.
bool Tracer::ensure_version(PyTypeObject* type) {
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return true;
  if (versions_.count(type) != 0) return true;
  uint32_t version = type_version(type);
  if (version == 0) return false;
  int32_t from = source(std::string("class ") + type->tp_name);
  ConstantId constant = constant_id(reinterpret_cast<PyObject*>(type), Hold::kWeak);
  Guard& load = guard(GuardKind::k_bound, from);
  load.constant = constant;
  ValueId id = load.dst = new_value();
  Guard& check = guard(GuardKind::k_class_version, from);
  check.a = id;
  check.constant = constant;
  check.imm = version;
  versions_.emplace(type, 1);
  return true;
}

Value* Tracer::find_in_class(PyTypeObject* type, PyObject* name) {
  if (!ensure_version(type)) return nullptr;
  PyObject* attribute = _PyType_Lookup(type, name);
  if (attribute == nullptr) return nullptr;
  return wrap_bound(attribute, std::string(type->tp_name) + "." + text_of(name));
}

static bool plain_getattr(PyTypeObject* type) { return type->tp_getattro == PyObject_GenericGetAttr; }

static Value* overlay(Value* object, PyObject* name, bool* present) {
  for (auto& [key, value] : object->entries) {
    if (key != name && PyUnicode_Compare(key, name) != 0) continue;
    *present = true;
    return value;
  }
  *present = false;
  return nullptr;
}

static void set_overlay(Value* object, PyObject* name, Value* value) {
  for (auto& [key, held] : object->entries) {
    if (key == name || PyUnicode_Compare(key, name) == 0) {
      held = value;
      return;
    }
  }
  object->entries.emplace_back(name, value);
}

// The attribute in the instance itself; null: it has none. Guards what it answers.
static Value* own_attribute(Tracer& t, Value* object, PyObject* name) {
  bool present;
  Value* value = overlay(object, name, &present);
  if (present || !object->is_real() || object->source < 0) return value;
  PyObject* real = object->object;
  std::string text = t.source_text(object) + "." + text_of(name);
  PyObject* found = nullptr;
  PyObject* dict = nullptr;
  if (PyDictValues* values = inline_values_of(real)) {
    ValuePlace place = find_in_instance(real, name);
    if (place.keys != nullptr) found = value_at(place, values);
  } else if ((dict = instance_dict_of(real)) != nullptr) {
    ValuePlace place = find_in_dict(dict, name);
    if (place.keys != nullptr) found = value_at(place, values_of(dict));
  }
  ConstantId constant = t.constant_id(name, Hold::kStrong);
  Guard& guard = t.guard(found != nullptr ? GuardKind::k_instance_value : GuardKind::k_instance_lacks, t.source(text));
  guard.a = object->id;
  guard.constant = constant;
  if (found == nullptr) {
    set_overlay(object, name, nullptr);
    return nullptr;
  }
  ValueId id = guard.dst = t.new_value();
  value = t.wrap(found, id, text);
  set_overlay(object, name, value);
  return value;
}

// An attribute found in a class, as it looks through an instance (self) or through the class (self null).
static Flow bind_attribute(Tracer& t, PyObject* attribute, PyTypeObject* type, Value* self, PyObject* name,
                           Value** out) {
  std::string text = std::string(type->tp_name) + "." + text_of(name);
  PyTypeObject* kind = Py_TYPE(attribute);
  if (kind == &PyFunction_Type || kind == &PyMethodDescr_Type || kind == &PyWrapperDescr_Type ||
      compiled_target(attribute) != nullptr) {
    Value* function = t.wrap_bound(attribute, text);
    if (self == nullptr) {
      *out = function;
      return Flow::kGo;
    }
    *out = t.make(ValueKind::kMethod);
    (*out)->items = {function, self};
    return Flow::kGo;
  }
  if (kind == &PyStaticMethod_Type || kind == &PyClassMethod_Type) {
    Ref function(PyObject_GetAttrString(attribute, "__func__"));
    if (!function || Py_TYPE(function.get()) != &PyFunction_Type) return t.stop(BreakReason::k_attribute, text);
    Value* value = t.wrap_bound(function.get(), text);
    if (kind == &PyStaticMethod_Type) {
      *out = value;
      return Flow::kGo;
    }
    *out = t.make(ValueKind::kMethod);
    (*out)->items = {value, t.constant(reinterpret_cast<PyObject*>(type))};
    return Flow::kGo;
  }
  if (kind->tp_descr_get != nullptr) return t.stop(BreakReason::k_attribute, text);
  *out = t.wrap_bound(attribute, text);
  return Flow::kGo;
}

static Flow object_attribute(Tracer& t, Value* object, PyObject* name, Value** out) {
  PyTypeObject* type = object->type;
  std::string text = std::string(type->tp_name) + "." + text_of(name);
  if (!plain_getattr(type) || (object->is_real() && object->source >= 0 && t.versions_.count(type) == 0)) {
    Ref hook(PyUnicode_InternFromString("__getattr__"));
    Ref own(PyUnicode_InternFromString("__getattribute__"));
    bool only_fallback = t.versions_.count(type) != 0 &&
                         _PyType_Lookup(type, own.get()) == _PyType_Lookup(&PyBaseObject_Type, own.get());
    if (!only_fallback) return t.stop(BreakReason::k_attribute, text);
  }
  if (!t.ensure_version(type)) return t.stop(BreakReason::k_attribute, text);
  PyObject* in_class = _PyType_Lookup(type, name);
  if (in_class != nullptr && Py_TYPE(in_class)->tp_descr_set != nullptr) {
    if (Py_TYPE(in_class) == &PyProperty_Type) {
      Ref getter(PyObject_GetAttrString(in_class, "fget"));
      if (!getter || Py_TYPE(getter.get()) != &PyFunction_Type) return t.stop(BreakReason::k_attribute, text);
      return t.inline_call(t.wrap_bound(getter.get(), text), {object}, nullptr, ReturnRule::kPush);
    }
    if (Py_TYPE(in_class) == &PyMemberDescr_Type) {  // a slot
      PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(in_class)->d_member;
      if (member->type != T_OBJECT_EX) return t.stop(BreakReason::k_attribute, text);
      bool present;
      Value* value = overlay(object, name, &present);
      if (!present && object->is_real() && object->source >= 0) {
        PyObject* held = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object->object) + member->offset);
        if (held == nullptr) return t.stop(BreakReason::k_raises, text);
        value =
            t.load_field(object, static_cast<int>(member->offset), held, t.source_text(object) + "." + text_of(name));
        set_overlay(object, name, value);
      }
      if (value == nullptr) return t.stop(BreakReason::k_raises, text);
      *out = t.force(value);
      return Flow::kGo;
    }
    return t.stop(BreakReason::k_attribute, text);
  }
  if (Value* own = own_attribute(t, object, name)) {
    *out = t.force(own);
    return Flow::kGo;
  }
  if (in_class == nullptr) {
    if (text_of(name) == "__class__") {
      *out = t.constant(reinterpret_cast<PyObject*>(type));
      return Flow::kGo;
    }
    Ref hook(PyUnicode_InternFromString("__getattr__"));
    Value* fallback = t.find_in_class(type, hook.get());
    if (fallback != nullptr && fallback->kind == ValueKind::kFunction)
      return t.inline_call(fallback, {object, t.constant(name)}, nullptr, ReturnRule::kPush);
    return t.stop(BreakReason::k_raises, text);
  }
  return bind_attribute(t, in_class, type, object, name, out);
}

static Flow class_attribute(Tracer& t, PyTypeObject* type, PyObject* name, Value** out) {
  std::string text = std::string(type->tp_name) + "." + text_of(name);
  PyTypeObject* meta = Py_TYPE(type);
  if (!t.ensure_version(type)) return t.stop(BreakReason::k_attribute, text);
  if (meta != &PyType_Type) {  // an Enum or an abstract class: what the class has comes before its class's __getattr__
    Ref getattribute(PyUnicode_InternFromString("__getattribute__"));
    if (!t.ensure_version(meta) ||
        _PyType_Lookup(meta, getattribute.get()) != _PyType_Lookup(&PyType_Type, getattribute.get()))
      return t.stop(BreakReason::k_attribute, text);
  }
  PyObject* in_meta = _PyType_Lookup(meta, name);
  if (in_meta != nullptr && Py_TYPE(in_meta)->tp_descr_set != nullptr) {
    std::string plain = text_of(name);
    if (plain != "__name__" && plain != "__qualname__" && plain != "__module__")
      return t.stop(BreakReason::k_attribute, text);
    *out = t.constant_owned(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name));
    return *out != nullptr ? Flow::kGo : t.stop(BreakReason::k_attribute, text);
  }
  PyObject* attribute = _PyType_Lookup(type, name);
  if (attribute == nullptr) return t.stop(BreakReason::k_attribute, text);
  return bind_attribute(t, attribute, type, nullptr, name, out);
}

static Flow module_attribute(Tracer& t, Value* module, PyObject* name, Value** out) {
  if (Py_TYPE(module->object)->tp_getattro != PyModule_Type.tp_getattro)
    return t.stop(BreakReason::k_attribute, "a module of its own class");
  PyObject* dict = PyModule_GetDict(module->object);
  Value* names = t.wrap_bound(
      dict, std::string("module ") + (PyModule_GetName(module->object) ? PyModule_GetName(module->object) : "?"));
  PyErr_Clear();
  *out = t.dict_get(names, name);
  return *out != nullptr ? Flow::kGo : t.stop(BreakReason::k_attribute, text_of(name));
}

static Flow super_attribute(Tracer& t, Value* super, PyObject* name, Value** out) {
  PyTypeObject* after = reinterpret_cast<PyTypeObject*>(super->items[0]->object);
  Value* self = super->items[1];
  PyTypeObject* type = self->kind == ValueKind::kObject ? self->type : nullptr;
  if (type == nullptr || !t.ensure_version(type)) return t.stop(BreakReason::k_attribute, "super");
  PyObject* mro = type->tp_mro;
  Py_ssize_t i = 0, n = PyTuple_GET_SIZE(mro);
  while (i < n && PyTuple_GET_ITEM(mro, i) != reinterpret_cast<PyObject*>(after)) ++i;
  for (++i; i < n; ++i) {
    PyTypeObject* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    PyObject* found = base->tp_dict == nullptr ? nullptr : PyDict_GetItemWithError(base->tp_dict, name);
    if (found == nullptr) continue;
    if (Py_TYPE(found) == &PyProperty_Type) {
      Ref getter(PyObject_GetAttrString(found, "fget"));
      if (!getter || Py_TYPE(getter.get()) != &PyFunction_Type) return t.stop(BreakReason::k_attribute, "super");
      return t.inline_call(t.wrap_bound(getter.get(), text_of(name)), {self}, nullptr, ReturnRule::kPush);
    }
    return bind_attribute(t, found, base, self, name, out);
  }
  return t.stop(BreakReason::k_raises, "super has no such attribute");
}

// The builtin type behind a modelled container or atom.
static PyTypeObject* builtin_type(Value* value) {
  switch (value->kind) {
    case ValueKind::kTuple: return value->type != nullptr ? value->type : &PyTuple_Type;
    case ValueKind::kList: return &PyList_Type;
    case ValueKind::kDict: return &PyDict_Type;
    case ValueKind::kSlice: return &PySlice_Type;
    case ValueKind::kConstant: return Py_TYPE(value->object);
    default: return nullptr;
  }
}

Flow Tracer::get_attribute(Value* object, PyObject* name, Value** out) {
  switch (object->kind) {
    case ValueKind::kTensor: return tensor_attribute(object, name, out);
    case ValueKind::kObject: return object_attribute(*this, object, name, out);
    case ValueKind::kSuper: return super_attribute(*this, object, name, out);
    case ValueKind::kMethod: {
      std::string text = text_of(name);
      if (text == "__self__" || text == "__func__") {
        *out = object->items[text == "__self__" ? 1 : 0];
        return Flow::kGo;
      }
      break;
    }
    case ValueKind::kSlice: {
      std::string text = text_of(name);
      int index = text == "start" ? 0 : text == "stop" ? 1 : text == "step" ? 2 : -1;
      if (index >= 0) {
        *out = object->items[index];
        return Flow::kGo;
      }
      break;
    }
    case ValueKind::kConstant:
      if (PyModule_Check(object->object)) return module_attribute(*this, object, name, out);
      if (PyType_Check(object->object))
        return class_attribute(*this, reinterpret_cast<PyTypeObject*>(object->object), name, out);
      break;
    default: break;
  }
  PyTypeObject* type = builtin_type(object);
  if (type == nullptr || PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE))
    return stop(BreakReason::k_attribute, text_of(name));
  PyObject* attribute = _PyType_Lookup(type, name);
  if (attribute == nullptr) return stop(BreakReason::k_raises, text_of(name));
  if (Py_TYPE(attribute) == &PyMethodDescr_Type) {
    *out = make(ValueKind::kMethod);
    (*out)->items = {constant(attribute), object};
    return Flow::kGo;
  }
  PyObject* atom;  // (2.5).real, dtype.itemsize: facts of immutable objects
  bool immutable = fold(object, &atom) ||
                   (object->is_constant() && plain_getattr(type) && type->tp_dictoffset == 0 && !PyType_IS_GC(type));
  if (object->is_constant() && immutable) {
    Ref value(PyObject_GetAttr(object->object, name));
    if (value) {
      Value* result = constant(value.get());
      if (fold(result, &atom)) {
        *out = result;
        return Flow::kGo;
      }
    }
  }
  return stop(BreakReason::k_attribute, text_of(name));
}

bool Tracer::has_attribute(Value* object, PyObject* name, bool* answer) {
  if (object->kind == ValueKind::kTensor) {
    if (_PyType_Lookup(&TensorType, name) == nullptr) return false;
    *answer = true;
    return true;
  }
  if (object->kind != ValueKind::kObject || !plain_getattr(object->type) || !ensure_version(object->type)) return false;
  PyObject* in_class = _PyType_Lookup(object->type, name);
  if (in_class != nullptr && Py_TYPE(in_class)->tp_descr_set != nullptr) return false;
  *answer = in_class != nullptr || own_attribute(*this, object, name) != nullptr;
  return true;
}

Flow Tracer::load_method(Value* object, PyObject* name, Value** function, Value** self) {
  if (object->kind == ValueKind::kObject || object->kind == ValueKind::kSuper) {
    // A property or __getattr__ pushes its result itself: the NULL below it comes first.
    size_t depth = frames_.size();
    frame().stack.push_back(null());
    TraceFrame& now = frame();
    Value* value = nullptr;
    Flow flow = get_attribute(object, name, &value);
    if (flow != Flow::kGo) return flow;
    if (value == nullptr) return frames_.size() == depth ? stop(BreakReason::k_attribute) : Flow::kGo;
    now.stack.pop_back();
    if (value->kind == ValueKind::kMethod && value->is_virtual()) {
      *function = value->items[0];
      *self = value->items[1];
    } else {
      *function = value;
    }
    return Flow::kGo;
  }
  Value* value = nullptr;
  Flow flow = get_attribute(object, name, &value);
  if (flow != Flow::kGo) return flow;
  if (value->kind == ValueKind::kMethod && value->is_virtual()) {
    *function = value->items[0];
    *self = value->items[1];
  } else {
    *function = value;
  }
  return Flow::kGo;
}

Flow Tracer::set_attribute(Value* object, PyObject* name, Value* value) {
  if (object->kind != ValueKind::kObject) return stop(BreakReason::k_attribute, "store to " + text_of(name));
  PyTypeObject* type = object->type;
  std::string text = std::string(type->tp_name) + "." + text_of(name);
  bool versioned = object->is_virtual() || versions_.count(type) != 0;
  if (!versioned || type->tp_setattro != PyObject_GenericSetAttr || !ensure_version(type))
    return stop(BreakReason::k_attribute, text);
  PyObject* in_class = _PyType_Lookup(type, name);
  if (in_class != nullptr && Py_TYPE(in_class)->tp_descr_set != nullptr) {
    if (Py_TYPE(in_class) == &PyProperty_Type) {
      Ref setter(PyObject_GetAttrString(in_class, "fset"));
      if (!setter || Py_TYPE(setter.get()) != &PyFunction_Type) return stop(BreakReason::k_attribute, text);
      return inline_call(wrap_bound(setter.get(), text), {object, value}, nullptr, ReturnRule::kDiscard);
    }
    if (Py_TYPE(in_class) != &PyMemberDescr_Type ||
        reinterpret_cast<PyMemberDescrObject*>(in_class)->d_member->type != T_OBJECT_EX)
      return stop(BreakReason::k_attribute, text);
  } else if (type->tp_dictoffset == 0 && !PyType_HasFeature(type, Py_TPFLAGS_MANAGED_DICT)) {
    return stop(BreakReason::k_raises, text);
  }
  changing(object);
  if (object->is_real()) {
    ValueId held = object_of(value);
    ConstantId constant = constant_id(name, Hold::kStrong);
    ExitId exit = exit_here(ExitKind::kRaise);
    Step& store = record(StepKind::k_attribute_set);
    store.a = object->id;
    store.b = held;
    store.constant = constant;
    store.on_fail = exit;
    mutate(object);
  }
  set_overlay(object, name, value);
  return Flow::kGo;
}

// Instances may stay virtual when their class, all through, is made of Python and object alone.
static bool is_plain_class(PyTypeObject* type) {
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || PyType_HasFeature(type, Py_TPFLAGS_IS_ABSTRACT)) return false;
  if (Py_TYPE(type) != &PyType_Type || type->tp_new != PyBaseObject_Type.tp_new || type->tp_finalize != nullptr ||
      type->tp_del != nullptr)
    return false;
  PyObject* mro = type->tp_mro;
  for (Py_ssize_t i = 0; i + 1 < PyTuple_GET_SIZE(mro); ++i)
    if (!PyType_HasFeature(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i)), Py_TPFLAGS_HEAPTYPE))
      return false;
  return true;
}

Flow Tracer::construct(PyTypeObject* type, std::vector<Value*> arguments, PyObject* names) {
  if (!is_plain_class(type) || !ensure_version(type)) return stop(BreakReason::k_call, type->tp_name);
  Ref name(PyUnicode_InternFromString("__init__"));
  PyObject* in_class = _PyType_Lookup(type, name.get());
  Value* instance = make(ValueKind::kObject);
  instance->type = type;
  if (in_class == nullptr || Py_TYPE(in_class) == &PyWrapperDescr_Type) {
    if (!arguments.empty()) return stop(BreakReason::k_raises, "object() takes no arguments");
    frame().stack.push_back(instance);
    return Flow::kGo;
  }
  if (Py_TYPE(in_class) != &PyFunction_Type) return stop(BreakReason::k_call, type->tp_name);
  Value* function = wrap_bound(in_class, std::string(type->tp_name) + ".__init__");
  arguments.insert(arguments.begin(), instance);
  frame().stack.push_back(instance);
  return inline_call(function, std::move(arguments), names, ReturnRule::kInit);
}

}  // namespace kintsugi
