// Attributes: where they are looked up, in CPython's own order. What a class holds is pinned by its version tag, what
// an instance holds by a guard on that attribute. What looking one up means is in descriptors.cpp.
#include "jit/arrays.h"
#include "jit/changing_classes.h"
#include "jit/containers.h"
#include "runtime/frame.h"

#include <structmember.h>

namespace kintsugi {

std::string text_of(PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) PyErr_Clear();
  return text != nullptr ? text : "?";
}

PyTypeObject* type_of(const Value* value) {
  switch (value->kind) {
    case ValueKind::kConstant: return Py_TYPE(value->object);
    case ValueKind::kInt: return &PyLong_Type;
    case ValueKind::kFloat: return &PyFloat_Type;
    case ValueKind::kBool: return &PyBool_Type;
    case ValueKind::kTensor: return &TensorType;
    case ValueKind::kTuple: return value->type != nullptr ? value->type : &PyTuple_Type;
    case ValueKind::kList: return &PyList_Type;
    case ValueKind::kDict: return &PyDict_Type;
    case ValueKind::kSet: return value->type;
    case ValueKind::kSlice: return &PySlice_Type;
    case ValueKind::kRange: return &PyRange_Type;
    case ValueKind::kFunction: return &PyFunction_Type;
    case ValueKind::kMethod: return value->items[0]->kind == ValueKind::kFunction ? &PyMethod_Type : nullptr;
    case ValueKind::kSuper: return &PySuper_Type;
    case ValueKind::kGenerator: return &PyGen_Type;
    case ValueKind::kUnion: return union_type();
    case ValueKind::kObject: return value->type;
    default: return nullptr;
  }
}

PyTypeObject* as_class(const Value* value) {
  bool is = value->is_constant() && PyType_Check(value->object);
  return is ? reinterpret_cast<PyTypeObject*>(value->object) : nullptr;
}

bool is_heap_type(PyTypeObject* type) { return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE); }

// Static types do not change; of others the version tag is guarded once.
bool Tracer::ensure_version(PyTypeObject* type) {
  if (!is_heap_type(type)) return true;
  if (versions_.count(type) != 0) return true;
  if (inherits_changing(type)) return guard_kept(type, source(std::string("class ") + type->tp_name));
  uint32_t version = type_version(type);
  if (version == 0) return false;
  ValueId id = bound_id(reinterpret_cast<PyObject*>(type));
  ConstantId constant = constant_id(reinterpret_cast<PyObject*>(type), Hold::kWeak);
  Guard& check = guard(GuardKind::k_class_version, source(std::string("class ") + type->tp_name));
  check.a = id;
  check.constant = constant;
  check.imm = version;
  versions_.emplace(type, 1);
  return true;
}

void Tracer::guard_class(PyObject* object) {
  if (!class_guarded_.insert(object).second) return;
  ValueId id = bound_id(object);
  ConstantId constant = constant_id(reinterpret_cast<PyObject*>(Py_TYPE(object)), Hold::kWeak);
  Guard& check = guard(GuardKind::k_type_is, source("the class of a " + std::string(Py_TYPE(object)->tp_name)));
  check.a = id;
  check.constant = constant;
}

PyTypeObject* Tracer::metaclass(PyTypeObject* type) {
  PyTypeObject* meta = Py_TYPE(type);
  if (!ensure_version(meta)) return nullptr;
  if (is_heap_type(meta) && !is_made_class(type)) guard_class(reinterpret_cast<PyObject*>(type));
  return meta;
}

void Tracer::guard_name(PyTypeObject* type) {
  if (!is_heap_type(type) || is_made_class(type) || !named_.insert(type).second) return;
  std::string text = std::string(type->tp_name) + ".__name__";
  ValueId owner = bound_id(reinterpret_cast<PyObject*>(type));
  ConstantId name = constant_id(reinterpret_cast<PyHeapTypeObject*>(type)->ht_name, Hold::kStrong);
  Guard& load = guard(GuardKind::k_field, source(text));
  load.a = owner;
  load.imm = offsetof(PyHeapTypeObject, ht_name);
  ValueId held = load.dst = new_value();
  Guard& check = guard(GuardKind::k_equal, source(text));
  check.a = held;
  check.constant = name;
}

// A class written in Python, known with all that it holds; null otherwise.
PyTypeObject* Tracer::python_class(const Value* value) {
  if (PyTypeObject* self = as_class(value)) return is_heap_type(Py_TYPE(self)) ? metaclass(self) : nullptr;
  PyTypeObject* type = is_pure_object(value) ? nullptr : type_of(value);
  return type != nullptr && is_heap_type(type) && ensure_version(type) ? type : nullptr;
}

Value* Tracer::find_in_class(PyTypeObject* type, PyObject* name) {
  if (!ensure_version(type)) return nullptr;
  PyObject* attribute = _PyType_Lookup(type, name);
  if (attribute == nullptr) return nullptr;
  return wrap_bound(attribute, std::string(type->tp_name) + "." + text_of(name), Hold::kPinned);
}

bool inherits(PyTypeObject* type, PyObject* name, PyTypeObject* base) {
  return _PyType_Lookup(type, name) == _PyType_Lookup(base, name);
}

Flow Tracer::missing(const Value* object, PyObject* name) {
  PyTypeObject* type = type_of(object);
  Opcode opcode = frame().bytecode->at(frame().at).opcode;
  bool known = object->kind == ValueKind::kObject || object->kind == ValueKind::kFunction;
  if (PyTypeObject* self = as_class(object);
      self != nullptr && (opcode == Opcode::k_LOAD_ATTR || opcode == Opcode::k_LOAD_METHOD)) {
    guard_name(self);
    if (Value* text =
            constant_owned(PyUnicode_FromFormat("type object '%.50s' has no attribute '%U'", self->tp_name, name)))
      return raise_builtin(PyExc_AttributeError, {text},
                           {{"name", constant(name)}, {"obj", const_cast<Value*>(object)}},
                           "an attribute that is not there");
  }
  bool plain =
      known && type != nullptr && type->tp_getattro == PyObject_GenericGetAttr && _PyType_Lookup(type, name) == nullptr;
  if (plain && (opcode == Opcode::k_LOAD_ATTR || opcode == Opcode::k_LOAD_METHOD)) {
    guard_name(type);
    Value* text = constant_owned(PyUnicode_FromFormat("'%.50s' object has no attribute '%U'", type->tp_name, name));
    if (text != nullptr)
      return raise_builtin(PyExc_AttributeError, {text},
                           {{"name", constant(name)}, {"obj", const_cast<Value*>(object)}},
                           "an attribute that is not there");
  }
  return stop(BreakReason::k_raises, std::string(type != nullptr ? type->tp_name : "an object") + "." + text_of(name));
}

// ---- What an instance holds -----------------------------------------------------------------------------------------

static std::pair<PyObject*, Value*>* overlay(Value* object, PyObject* name) {
  for (auto& entry : object->entries)
    if (entry.first == name || PyUnicode_Compare(entry.first, name) == 0) return &entry;
  return nullptr;
}

void Tracer::note_attribute(Value* object, PyObject* name, Value* value) {
  auto* entry = overlay(object, name);
  if (entry == nullptr) {
    if (value != nullptr || object->is_real()) object->entries.emplace_back(name, value);
  } else if (value == nullptr && !object->is_real()) {  // set again it would be the last
    object->entries.erase(object->entries.begin() + (entry - object->entries.data()));
  } else {
    entry->second = value;
  }
}

static bool has_dict(PyTypeObject* type) {
  return type->tp_dictoffset != 0 || PyType_HasFeature(type, Py_TPFLAGS_MANAGED_DICT);
}

// Keys in an instance's dict that are no str: looking a name up may call their __eq__.
static bool has_odd_names(const Value* object) {
  if (!object->is_real() || object->source < 0 || inline_values_of(object->object) != nullptr) return false;
  PyObject* dict = instance_dict_of(object->object);
  return dict != nullptr && !has_only_str_keys(dict);
}

Value* Tracer::own_attribute(Value* object, PyObject* name) {
  if (auto* entry = overlay(object, name)) return entry->second;
  PyTypeObject* type = type_of(object);
  if (!object->is_real() || object->source < 0 || !has_dict(type)) return nullptr;
  PyObject* real = object->object;
  std::string text = source_text(object) + "." + text_of(name);
  PyObject* found = nullptr;
  PyObject* dict = nullptr;
  if (PyDictValues* values = inline_values_of(real)) {
    ValuePlace place = find_in_instance(real, name);
    if (place.keys != nullptr) found = value_at(place, values);
  } else if ((dict = instance_dict_of(real)) != nullptr) {
    ValuePlace place = find_in_dict(dict, name);
    if (place.keys != nullptr) found = value_at(place, values_of(dict));
  }
  ConstantId constant = constant_id(name, Hold::kStrong);
  Guard& guard =
      this->guard(found != nullptr ? GuardKind::k_instance_value : GuardKind::k_instance_lacks, source(text));
  guard.a = object->id;
  guard.constant = constant;
  Value* value = nullptr;
  if (found != nullptr) {
    ValueId id = guard.dst = new_value();
    value = wrap(found, id, text);
  }
  note_attribute(object, name, value);
  return value;
}

// What a slot holds; null: nothing.
Value* Tracer::slot_attribute(Value* object, PyObject* descriptor, PyObject* name) {
  if (auto* entry = overlay(object, name)) return entry->second == nullptr ? nullptr : force(entry->second);
  if (!object->is_real() || object->source < 0) return nullptr;
  auto offset = static_cast<int>(reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member->offset);
  PyObject* held = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object->object) + offset);
  std::string text = source_text(object) + "." + text_of(name);
  Value* value = nullptr;
  if (held != nullptr) {
    value = load_field(object, offset, held, text);
  } else {
    Guard& guard = this->guard(GuardKind::k_null_field, source(text));
    guard.a = object->id;
    guard.imm = offset;
  }
  note_attribute(object, name, value);
  return value;
}

// ---- Reading --------------------------------------------------------------------------------------------------------

// A data descriptor for reading: one that can only be set gives way to the instance.
static bool is_data(PyTypeObject* kind) { return kind->tp_descr_get != nullptr && kind->tp_descr_set != nullptr; }

// As object.__getattribute__: data descriptors of the class, the instance, the rest of the class. *out stays null
// without a break when it has no such attribute (*absent), or when a frame was pushed.
Flow Tracer::generic_attribute(Value* object, PyObject* name, Value** out, bool* absent) {
  PyTypeObject* type = type_of(object);
  *absent = false;
  if (has_odd_names(object) || !ensure_version(type)) return stop(BreakReason::k_attribute, type->tp_name);
  Value* changing = nullptr;
  PyObject* in_class = nullptr;
  if (!find_changing(type, name, &changing, &in_class)) in_class = _PyType_Lookup(type, name);
  if (changing != nullptr && !is_plain_content(changing)) return stop(BreakReason::k_attribute, text_of(name));
  bool data = in_class != nullptr && is_data(Py_TYPE(in_class));
  if (in_class != nullptr && is_heap_type(Py_TYPE(in_class)) && !PyType_Check(in_class))  // whether it stays one
    wrap_bound(in_class, std::string(type->tp_name) + "." + text_of(name), Hold::kPinned);
  if (data) return bind_descriptor(in_class, type, object, name, out);
  if (Value* own = own_attribute(object, name)) {
    *out = force(own);
    return Flow::kGo;
  }
  if (changing != nullptr) return *out = changing, Flow::kGo;
  if (in_class != nullptr) return bind_descriptor(in_class, type, object, name, out);
  *absent = true;
  return Flow::kGo;
}

static Flow object_attribute(Tracer& t, Value* object, PyObject* name, Value** out) {
  PyTypeObject* type = type_of(object);
  std::string text = std::string(type->tp_name) + "." + text_of(name);
  bool generic = type->tp_getattro == PyObject_GenericGetAttr;
  if (!generic && t.python_class(object) == nullptr) return t.stop(BreakReason::k_attribute, text);
  if (object->is_real() && object->source >= 0 && is_heap_type(type) && t.versions_.count(type) == 0)
    return t.stop(BreakReason::k_attribute, text);
  Value* fallback = generic ? nullptr : t.find_in_class(type, interned.getattr);
  t.has_fallback_ = fallback != nullptr;
  if (!generic && !inherits(type, interned.getattribute, &PyBaseObject_Type)) {
    Value* own = t.find_in_class(type, interned.getattribute);
    if (own == nullptr || own->kind != ValueKind::kFunction || fallback != nullptr)
      return t.stop(BreakReason::k_attribute, text);
    return t.call_getter(own, {object, t.constant(name)}, name);
  }
  bool absent = false;
  if (Flow flow = t.generic_attribute(object, name, out, &absent); flow != Flow::kGo || !absent) return flow;
  if (fallback == nullptr) return t.missing(object, name);
  if (fallback->kind != ValueKind::kFunction) return t.stop(BreakReason::k_attribute, text);
  t.has_fallback_ = false;
  return t.call_getter(fallback, {object, t.constant(name)}, name);
}

// As type.__getattribute__: data descriptors of the metaclass, the class, the rest of the metaclass.
static Flow class_attribute(Tracer& t, PyTypeObject* type, PyObject* name, Value** out) {
  std::string text = std::string(type->tp_name) + "." + text_of(name);
  PyTypeObject* meta = t.metaclass(type);
  Value* self = t.constant(reinterpret_cast<PyObject*>(type));
  if (!t.ensure_version(type) || meta == nullptr) return t.stop(BreakReason::k_attribute, text);
  if (!inherits(meta, interned.getattribute, &PyType_Type)) return t.stop(BreakReason::k_attribute, text);
  t.has_fallback_ = _PyType_Lookup(meta, interned.getattr) != nullptr;
  PyObject* in_meta = _PyType_Lookup(meta, name);
  bool is_dict = in_meta != nullptr && PyUnicode_Compare(name, interned.dict) == 0;
  if (is_dict && inherits(meta, name, &PyType_Type)) return *out = proxy_of_class(t, type), Flow::kGo;
  if (in_meta != nullptr && is_data(Py_TYPE(in_meta))) return t.bind_descriptor(in_meta, meta, self, name, out);
  Value* changing = nullptr;
  PyObject* attribute = nullptr;
  if (!t.find_changing(type, name, &changing, &attribute)) attribute = _PyType_Lookup(type, name);
  if (changing != nullptr)
    return t.is_plain_content(changing) ? (*out = changing, Flow::kGo) : t.stop(BreakReason::k_attribute, text);
  if (attribute != nullptr) return t.bind_descriptor(attribute, type, nullptr, name, out);
  if (in_meta != nullptr) return t.bind_descriptor(in_meta, meta, self, name, out);
  Value* fallback = meta == &PyType_Type ? nullptr : t.find_in_class(meta, interned.getattr);
  if (fallback == nullptr) return t.missing(self, name);
  if (fallback->kind != ValueKind::kFunction) return t.stop(BreakReason::k_attribute, text);
  t.has_fallback_ = false;
  return t.call_getter(fallback, {self, t.constant(name)}, name);
}

static Flow module_attribute(Tracer& t, Value* module, PyObject* name, Value** out) {
  if (Py_TYPE(module->object)->tp_getattro != PyModule_Type.tp_getattro)
    return t.stop(BreakReason::k_attribute, "a module of its own class");
  t.guard_class(module->object);
  t.load_on_use(module->object, name);
  PyObject* dict = PyModule_GetDict(module->object);
  Value* names = t.wrap_bound(
      dict, std::string("module ") + (PyModule_GetName(module->object) ? PyModule_GetName(module->object) : "?"),
      Hold::kPinned);
  PyErr_Clear();
  *out = t.dict_get(names, name);
  return *out != nullptr ? Flow::kGo : t.stop(BreakReason::k_attribute, text_of(name));
}

// func_annotations: a dict, or what MAKE_FUNCTION was given, (name, value, ...), which whoever looks first makes one
// of. Only the library's own code gets a dict that is not the function's: it takes no more than its items.
static Flow annotations_of(Tracer& t, Value* function, Value* held, Value** out) {
  if (held != nullptr && held->kind == ValueKind::kDict) return *out = held, Flow::kGo;
  bool known = held == nullptr || t.is_exact_tuple(held);
  if (!known || t.frame().bytecode->library != LibraryCode::kWhole)
    return t.stop(BreakReason::k_attribute, "__annotations__");
  *out = t.make(ValueKind::kDict);
  for (int64_t i = 0; held != nullptr && i + 1 < t.length(held); i += 2) {
    Value* key = t.item_at(held, static_cast<size_t>(i));
    if (!key->is_constant()) return t.stop(BreakReason::k_attribute, "__annotations__");
    t.dict_put(*out, key->object, t.item_at(held, static_cast<size_t>(i) + 1));
  }
  return Flow::kGo;
}

// Of a function that the trace has made; false: no such field.
static bool field_of_made(Tracer& t, Value* function, PyObject* name, Value** out, Flow* flow) {
  auto same = [&](PyObject* other) { return name == other || PyUnicode_Compare(name, other) == 0; };
  auto given = [&](Value* value) { return *out = value != nullptr ? t.force(value) : t.none(), true; };
  *flow = Flow::kGo;
  if (same(interned.code)) return given(t.constant(reinterpret_cast<PyObject*>(function->code)));
  if (same(interned.defaults)) return given(function->defaults);
  if (same(interned.kwdefaults)) return given(function->keyword_defaults);
  if (same(interned.closure)) return given(function->closure);
  if (same(interned.globals)) return given(function->globals);
  if (!same(interned.annotations)) return false;
  *flow = annotations_of(t, function, function->annotations == nullptr ? nullptr : t.force(function->annotations), out);
  return true;
}

// What a function object holds in its own fields, and in its dict. *out stays null where it has no such attribute.
static Flow look_in_function(Tracer& t, Value* function, PyObject* name, Value** out) {
  if (function->wrapped != nullptr) return t.stop(BreakReason::k_attribute, "of a function that wraps another");
  static const struct {
    PyObject* Names::*name;
    size_t offset;
  } kFields[] = {{&Names::name, offsetof(PyFunctionObject, func_name)},
                 {&Names::qualname, offsetof(PyFunctionObject, func_qualname)},
                 {&Names::code, offsetof(PyFunctionObject, func_code)},
                 {&Names::defaults, offsetof(PyFunctionObject, func_defaults)},
                 {&Names::kwdefaults, offsetof(PyFunctionObject, func_kwdefaults)},
                 {&Names::closure, offsetof(PyFunctionObject, func_closure)},
                 {&Names::globals, offsetof(PyFunctionObject, func_globals)},
                 {&Names::module, offsetof(PyFunctionObject, func_module)},
                 {&Names::doc, offsetof(PyFunctionObject, func_doc)}};
  auto same = [&](PyObject* other) { return name == other || PyUnicode_Compare(name, other) == 0; };
  if (function->object == nullptr || function->id == kNoValue) {
    if (same(interned.name) || same(interned.qualname)) {
      if (function->qualname != nullptr) return t.stop(BreakReason::k_attribute, text_of(name));
      *out = t.constant(same(interned.name) ? function->code->co_name : function->code->co_qualname);
      return Flow::kGo;
    }
    if (same(interned.doc)) {  // as PyFunction_New
      PyObject* constants = function->code->co_consts;
      PyObject* first = PyTuple_GET_SIZE(constants) > 0 ? PyTuple_GET_ITEM(constants, 0) : Py_None;
      return *out = t.constant(PyUnicode_Check(first) ? first : Py_None), Flow::kGo;
    }
    for (const auto& [key, value] : function->entries)  // see set_attribute
      if (same(key)) return *out = value, Flow::kGo;
    if (Flow flow; field_of_made(t, function, name, out, &flow)) return flow;
    bool lacks = _PyType_Lookup(&PyFunction_Type, name) == nullptr;
    return lacks ? Flow::kGo : t.stop(BreakReason::k_attribute, text_of(name));
  }
  auto field = [&](size_t offset, Value** value) {
    PyObject* held = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(function->object) + offset);
    std::string text = t.source_text(function) + "." + text_of(name);
    if (held != nullptr) {
      *value = t.load_field(function, static_cast<int>(offset), held, text);
      return;
    }
    Guard& guard = t.guard(GuardKind::k_null_field, t.source(text));
    guard.a = function->id;
    guard.imm = static_cast<int64_t>(offset);
    *value = nullptr;
  };
  for (const auto& each : kFields) {
    if (!same(interned.*each.name)) continue;
    field(each.offset, out);
    if (*out == nullptr) *out = t.none();
    return Flow::kGo;
  }
  if (same(interned.annotations)) {
    Value* held = nullptr;
    field(offsetof(PyFunctionObject, func_annotations), &held);
    return annotations_of(t, function, held, out);
  }
  if (_PyType_Lookup(&PyFunction_Type, name) != nullptr) return t.stop(BreakReason::k_attribute, text_of(name));
  Value* dict = nullptr;
  field(offsetof(PyFunctionObject, func_dict), &dict);
  if (dict != nullptr && dict->kind != ValueKind::kDict) return t.stop(BreakReason::k_attribute, text_of(name));
  *out = dict == nullptr ? nullptr : t.dict_get(dict, name);
  return Flow::kGo;
}

static Flow function_attribute(Tracer& t, Value* function, PyObject* name, Value** out) {
  Flow flow = look_in_function(t, function, name, out);
  return flow != Flow::kGo || *out != nullptr ? flow : t.missing(function, name);
}

static Flow super_attribute(Tracer& t, Value* super, PyObject* name, Value** out) {
  PyTypeObject* after = reinterpret_cast<PyTypeObject*>(super->items[0]->object);
  Value* self = super->items[1];
  bool of_class = as_class(self) != nullptr && PyType_IsSubtype(as_class(self), after);
  PyTypeObject* type = of_class ? as_class(self) : type_of(self);
  if (type == nullptr || !t.ensure_version(type) || name == interned.class_ ||
      PyUnicode_Compare(name, interned.class_) == 0 || inherits_changing(type, name))
    return t.stop(BreakReason::k_attribute, "super");
  PyObject* mro = type->tp_mro;
  Py_ssize_t i = 0, n = PyTuple_GET_SIZE(mro);
  while (i < n && PyTuple_GET_ITEM(mro, i) != reinterpret_cast<PyObject*>(after)) ++i;
  for (++i; i < n; ++i) {
    PyTypeObject* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    PyObject* found = base->tp_dict == nullptr ? nullptr : PyDict_GetItemWithError(base->tp_dict, name);
    PyErr_Clear();
    if (found != nullptr) return t.bind_descriptor(found, type, of_class ? nullptr : self, name, out);
  }
  return t.stop(BreakReason::k_attribute, "super has no such attribute");
}

// (2).real, m.string, slice(3).stop: what an immutable object says of itself.
static Flow atom_attribute(Tracer& t, Value* object, PyObject* attribute, PyObject* name, Value** out) {
  std::string text = text_of(name);
  bool is_word = object->kind == ValueKind::kInt || object->kind == ValueKind::kFloat;
  if (is_word && (text == "real" || text == "numerator")) return *out = object, Flow::kGo;
  if (object->kind == ValueKind::kRange) {
    int index = text == "start" ? 0 : text == "stop" ? 1 : text == "step" ? 2 : -1;
    return index >= 0 ? (*out = object->items[index], Flow::kGo) : t.stop(BreakReason::k_attribute, text);
  }
  PyTypeObject* kind = Py_TYPE(attribute);
  if (kind != &PyGetSetDescr_Type && kind != &PyMemberDescr_Type) return t.stop(BreakReason::k_attribute, text);
  return t.pure_attribute(object, name, out);
}

Flow Tracer::attribute_now(Value* object, PyObject* name, Value** out) {
  return at_once([&](Value** answer) { return get_attribute(object, name, answer); }, out);
}

Flow Tracer::get_attribute(Value* object, PyObject* name, Value** out) {
  looked_at_ = object;
  has_fallback_ = false;
  Flow flow = find_attribute(object, name, out);
  looked_at_ = nullptr;
  return flow;
}

Flow Tracer::find_attribute(Value* object, PyObject* name, Value** out) {
  switch (object->kind) {
    case ValueKind::kTensor:
      if (name == interned.class_) return *out = constant(reinterpret_cast<PyObject*>(&TensorType)), Flow::kGo;
      return tensor_attribute(object, name, out);
    case ValueKind::kObject: {
      bool handled = false;
      if (is_pure_object(object)) break;
      if (array_attribute(*this, object, name, out)) return Flow::kGo;
      Flow flow = exception_attribute(object, name, out, &handled);
      return handled ? flow : object_attribute(*this, object, name, out);
    }
    case ValueKind::kSuper: return super_attribute(*this, object, name, out);
    case ValueKind::kFunction: return function_attribute(*this, object, name, out);
    case ValueKind::kTuple:
      if (object->type != nullptr && is_heap_type(object->type)) return object_attribute(*this, object, name, out);
      break;
    case ValueKind::kMethod: {
      std::string text = text_of(name);
      if (text == "__self__" || (text == "__func__" && object->items[0]->kind == ValueKind::kFunction)) {
        *out = object->items[text == "__self__" ? 1 : 0];
        return Flow::kGo;
      }
      // A bound method shows its function's attributes, after its own.
      if (object->items[0]->kind == ValueKind::kFunction &&
          (_PyType_Lookup(&PyMethod_Type, name) == nullptr || text == "__doc__"))
        return function_attribute(*this, object->items[0], name, out);
      break;
    }
    case ValueKind::kPartial:
      if (partial_attribute(*this, object, name, out)) return Flow::kGo;
      if (PyTypeObject* type = partial_type(object); type != nullptr && _PyType_Lookup(type, name) == nullptr) {
        Value* text = constant_owned(PyUnicode_FromFormat("'%.50s' object has no attribute '%U'", type->tp_name, name));
        return raise_builtin(PyExc_AttributeError, {text}, {{"name", constant(name)}, {"obj", object}},
                             "an attribute that is not there");
      }
      break;
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
  PyTypeObject* type = type_of(object);
  if (type == nullptr || (is_heap_type(type) && !is_pure_object(object)))
    return stop(BreakReason::k_attribute, text_of(name));
  PyObject* attribute = _PyType_Lookup(type, name);
  if (attribute == nullptr) return missing(object, name);
  if (Py_TYPE(attribute) == &PyGetSetDescr_Type && inherits(type, name, &PyBaseObject_Type) &&
      PyUnicode_Compare(name, interned.class_) == 0) {
    *out = constant(reinterpret_cast<PyObject*>(type));
    return Flow::kGo;
  }
  if (Py_TYPE(attribute) == &PyMethodDescr_Type || Py_TYPE(attribute) == &PyWrapperDescr_Type) {
    *out = make(ValueKind::kMethod);
    (*out)->items = {constant(attribute), object};
    return Flow::kGo;
  }
  if (object->kind == ValueKind::kRange || is_atomic(object) ||
      (object->is_constant() && PySlice_Check(object->object)))
    return atom_attribute(*this, object, attribute, name, out);
  PyObject* atom;  // (2.5).real, dtype.itemsize: facts of immutable objects
  bool immutable = fold(object, &atom) || (object->is_constant() && type->tp_getattro == PyObject_GenericGetAttr &&
                                           type->tp_dictoffset == 0 && !PyType_IS_GC(type));
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

// Whether it has the attribute, when no code has to run to know. False: code would decide.
// False: its class, or a __getattr__ of the module, has a say.
static bool module_has(Tracer& t, Value* module, PyObject* name, bool* answer) {
  if (!PyModule_CheckExact(module->object) || _PyType_Lookup(&PyModule_Type, name) != nullptr) return false;
  t.guard_class(module->object);
  Value* names = t.wrap_bound(PyModule_GetDict(module->object), "module", Hold::kPinned);
  if (names->kind != ValueKind::kDict) return false;
  *answer = t.dict_get(names, name) != nullptr;
  return *answer || t.dict_get(names, interned.getattr) == nullptr;
}

bool Tracer::has_attribute(Value* object, PyObject* name, bool* answer) {
  PyTypeObject* type = type_of(object);
  if (PyTypeObject* partial = partial_type(object)) {
    *answer = _PyType_Lookup(partial, name) != nullptr;
    return true;
  }
  if (type == nullptr) return false;
  *answer = true;
  if (object->kind == ValueKind::kTensor) return _PyType_Lookup(&TensorType, name) != nullptr;
  if (object->kind == ValueKind::kFunction) {
    Value* held = nullptr;
    if (_PyType_Lookup(&PyFunction_Type, name) != nullptr) return true;  // its getters answer
    if (look_in_function(*this, object, name, &held) != Flow::kGo) return false;
    *answer = held != nullptr;
    return true;
  }
  if (object->kind == ValueKind::kMethod || object->kind == ValueKind::kSuper) return false;
  if (PyTypeObject* self = as_class(object)) {
    PyTypeObject* meta = metaclass(self);
    if (!ensure_version(self) || meta == nullptr || inherits_changing(self, name) ||
        !inherits(meta, interned.getattribute, &PyType_Type))
      return false;
    PyObject *in_meta = _PyType_Lookup(meta, name), *found = _PyType_Lookup(self, name);
    if (in_meta == nullptr && found == nullptr) {
      *answer = false;
      return _PyType_Lookup(meta, interned.getattr) == nullptr;
    }
    PyTypeObject* kind = Py_TYPE(found != nullptr ? found : in_meta);
    return in_meta == nullptr && (kind->tp_descr_get == nullptr || kind == &PyFunction_Type);
  }
  if (object->is_constant() && PyModule_Check(object->object)) return module_has(*this, object, name, answer);
  if (!is_heap_type(type)) {
    PyObject* found = _PyType_Lookup(type, name);
    if (type->tp_getattro != PyObject_GenericGetAttr || has_dict(type)) return false;
    *answer = found != nullptr;
    return found == nullptr || Py_TYPE(found) == &PyMethodDescr_Type || Py_TYPE(found) == &PyWrapperDescr_Type;
  }
  bool plain =
      type->tp_getattro == PyObject_GenericGetAttr || inherits(type, interned.getattribute, &PyBaseObject_Type);
  if ((object->kind != ValueKind::kObject && object->kind != ValueKind::kTuple) || !ensure_version(type) ||
      inherits_changing(type, name) || !plain)
    return false;
  PyObject* in_class = _PyType_Lookup(type, name);
  PyTypeObject* kind = in_class == nullptr ? nullptr : Py_TYPE(in_class);
  if (in_class != nullptr && is_heap_type(kind) && !PyType_Check(in_class))
    wrap_bound(in_class, std::string(type->tp_name) + "." + text_of(name), Hold::kPinned);
  if (has_odd_names(object)) return false;
  if (kind != nullptr && is_data(kind)) {
    if (kind != &PyMemberDescr_Type || reinterpret_cast<PyMemberDescrObject*>(in_class)->d_member->type != T_OBJECT_EX)
      return false;
    *answer = slot_attribute(object, in_class, name) != nullptr;
  } else if (own_attribute(object, name) == nullptr) {
    *answer = in_class != nullptr;
    if (kind != nullptr && kind->tp_descr_get != nullptr && kind != &PyFunction_Type && kind != &PyStaticMethod_Type &&
        kind != &PyMethodDescr_Type && kind != &PyWrapperDescr_Type)
      return false;
  }
  return *answer || _PyType_Lookup(type, interned.getattr) == nullptr;
}

Flow Tracer::load_method(Value* object, PyObject* name, Value** function, Value** self) {
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

// ---- Writing --------------------------------------------------------------------------------------------------------

// As object.__setattr__ and, value null, object.__delattr__. May push the frame of a setter.
Flow Tracer::generic_set(Value* object, PyObject* name, Value* value) {
  PyTypeObject* type = type_of(object);
  std::string text = std::string(type->tp_name) + "." + text_of(name);
  if (object->kind != ValueKind::kObject || python_class(object) == nullptr || has_odd_names(object))
    return stop(BreakReason::k_attribute, text);
  Value* stored = nullptr;
  PyObject* in_class = nullptr;
  if (!find_changing(type, name, &stored, &in_class)) in_class = _PyType_Lookup(type, name);
  if (stored != nullptr && !is_plain_content(stored)) return stop(BreakReason::k_attribute, text);
  PyTypeObject* kind = in_class == nullptr ? nullptr : Py_TYPE(in_class);
  if (in_class != nullptr && is_heap_type(kind) && !PyType_Check(in_class)) wrap_bound(in_class, text, Hold::kPinned);
  bool is_slot = false;
  if (kind != nullptr && kind->tp_descr_set != nullptr) {
    is_slot =
        kind == &PyMemberDescr_Type && reinterpret_cast<PyMemberDescrObject*>(in_class)->d_member->type == T_OBJECT_EX;
    if (!is_slot) return set_through(in_class, object, name, value);
  } else if (!has_dict(type)) {
    return missing(object, name);
  }
  if (value == nullptr) {  // what is not there cannot be deleted
    Value* held = is_slot ? slot_attribute(object, in_class, name) : own_attribute(object, name);
    if (held == nullptr && is_slot) return missing(object, name);
    if (held == nullptr) {
      guard_name(type);
      return raise_text(
          PyExc_AttributeError,
          "'" + std::string(type->tp_name).substr(0, 100) + "' object has no attribute '" + text_of(name) + "'",
          "an attribute that is not there");
    }
  }
  changing(object);
  if (object->is_real()) {
    ValueId held = value == nullptr ? kNoValue : object_of(value);
    ConstantId constant = constant_id(name, Hold::kStrong);
    ExitId exit = exit_here(ExitKind::kRaise);
    Step& store = record(value == nullptr ? StepKind::k_attribute_delete : StepKind::k_attribute_set);
    store.a = object->id;
    store.b = held;
    store.constant = constant;
    store.on_fail = exit;
    mutate(object);
  }
  note_attribute(object, name, value);
  return Flow::kGo;
}

// The attributes that a function made here may have: one of them.
static bool is_noted(PyObject* name) {
  return PyUnicode_Compare(name, interned.wrapped) == 0 || PyUnicode_Compare(name, interned.isabstract) == 0;
}

Flow Tracer::set_attribute(Value* object, PyObject* name, Value* value) {
  bool handled = false;
  if (value != nullptr)
    if (Flow flow = set_exception_attribute(object, name, value, &handled); handled) return flow;
  // Of a function made here. Other attributes functools.wraps would copy.
  if (object->kind == ValueKind::kFunction && object->is_virtual() && object->object == nullptr && value != nullptr &&
      object->wrapped == nullptr && is_noted(name) &&
      (object->entries.empty() || PyUnicode_Compare(object->entries[0].first, name) == 0)) {
    changing(object);
    object->entries = {{name, value}};
    return Flow::kGo;
  }
  if (as_class(object) != nullptr) return set_through_metaclass(object, name, value);
  PyTypeObject* type = type_of(object);
  if (type == nullptr || object->kind != ValueKind::kObject || python_class(object) == nullptr)
    return stop(BreakReason::k_attribute, "store to " + text_of(name));
  PyObject* hook = value != nullptr ? interned.setattr : interned.delattr;
  if (type->tp_setattro == PyObject_GenericSetAttr || inherits(type, hook, &PyBaseObject_Type))
    return generic_set(object, name, value);
  Value* own = find_in_class(type, hook);
  if (own == nullptr || own->kind != ValueKind::kFunction)
    return stop(BreakReason::k_attribute, std::string(type->tp_name) + "." + text_of(name));
  std::vector<Value*> arguments{object, constant(name)};
  if (value != nullptr) arguments.push_back(value);
  return inline_call(own, std::move(arguments), nullptr, ReturnRule::kDiscard);
}

}  // namespace kintsugi
