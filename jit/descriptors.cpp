// What an attribute found in a class means when it is looked at through an instance or the class: functions, methods,
// properties, slots, descriptors written in Python. And calls of what object and type themselves define.
#include "jit/container_types.h"
#include "jit/containers.h"
#include "runtime/frame.h"

#include <structmember.h>

namespace kintsugi {

static Value* method_of(Tracer& t, Value* function, Value* self) {
  Value* method = t.make(ValueKind::kMethod);
  method->items = {function, self};
  return method;
}

// A part of a classmethod or staticmethod; null: none.
static Ref part_of(PyObject* descriptor, PyObject* name) {
  Ref part(PyObject_GetAttr(descriptor, name));
  PyErr_Clear();
  if (part.get() == Py_None) part = Ref();
  return part;
}

static bool is_python_function(PyObject* object) {
  return Py_TYPE(object) == &PyFunction_Type || compiled_target(object) != nullptr;
}

// fget, fset or fdel, from where it lies: a class that derives from property may say something else of that name. Null:
// none.
static PyObject* part_of_property(PyObject* property, PyObject* name, int* offset) {
  PyObject* member = PyDict_GetItemWithError(PyProperty_Type.tp_dict, name);
  KN_CHECK(member != nullptr && Py_IS_TYPE(member, &PyMemberDescr_Type));
  *offset = static_cast<int>(reinterpret_cast<PyMemberDescrObject*>(member)->d_member->offset);
  PyObject* part = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(property) + *offset);
  return part == Py_None ? nullptr : part;
}

// The same as a value: __init__ gives a property other parts.
static Value* function_of_property(Tracer& t, PyObject* property, PyObject* part, int offset, const std::string& text,
                                   PyObject* name) {
  Value* self = t.wrap_bound(property, text, Hold::kPinned);
  std::string of_part = text + "." + text_of(name);
  bool is_loaded = self->is_real() && self->source >= 0;
  return is_loaded ? t.load_field(self, offset, part, of_part) : t.wrap_bound(part, of_part);
}

// A property, or a class of its kind that looks attributes up in the same way.
static bool is_property(PyTypeObject* kind, PyObject* how) {
  return kind == &PyProperty_Type ||
         (PyType_IsSubtype(kind, &PyProperty_Type) && inherits(kind, how, &PyProperty_Type));
}

// `__mro__`, `__name__` and the like of a class.
static Flow field_of_class(Tracer& t, PyObject* descriptor, Value* self, PyObject* name, Value** out) {
  PyTypeObject* type = as_class(self);
  std::string text = std::string(type->tp_name) + "." + text_of(name);
  auto same = [&](PyObject* other) { return PyUnicode_Compare(name, other) == 0; };
  if (t.is_made_class(type)) {  // the class's own fields are texts that its model has too
    *out = t.constant_owned(PyObject_GetAttr(self->object, name));
    PyErr_Clear();
    bool is_text = *out != nullptr && (PyUnicode_CheckExact((*out)->object) || (*out)->object == Py_None);
    return is_text ? Flow::kGo : t.stop(BreakReason::k_attribute, text);
  }
  auto load = [&](size_t offset) {
    PyObject* held = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(type) + offset);
    if (held == nullptr) return t.stop(BreakReason::k_attribute, text);
    ValueId id = t.bound_id(self->object);
    Guard& load = t.guard(GuardKind::k_field, t.source(text));
    load.a = id;
    load.imm = static_cast<int64_t>(offset);
    ValueId loaded = load.dst = t.new_value();
    *out = t.wrap(held, loaded, text);
    return Flow::kGo;
  };
  if (same(interned.mro)) return load(offsetof(PyTypeObject, tp_mro));
  if (same(interned.bases)) return load(offsetof(PyTypeObject, tp_bases));
  bool heap = is_heap_type(type);
  if (heap && same(interned.name)) return load(offsetof(PyHeapTypeObject, ht_name));
  if (heap && same(interned.qualname)) return load(offsetof(PyHeapTypeObject, ht_qualname));
  bool text_fact = same(interned.module) || (!heap && (same(interned.name) || same(interned.qualname)));
  if (same(interned.doc)) {  // by the class's own dict
    PyObject* own = heap ? PyDict_GetItemWithError(type->tp_dict, name) : nullptr;
    text_fact = own == nullptr ? !heap : PyUnicode_CheckExact(own) || own == Py_None;
  }
  if (!text_fact || Py_TYPE(descriptor) != &PyGetSetDescr_Type) return t.stop(BreakReason::k_attribute, text);
  *out = t.constant_owned(PyObject_GetAttr(self->object, name));
  if (*out != nullptr && !PyUnicode_CheckExact((*out)->object) && (*out)->object != Py_None) *out = nullptr;
  return *out != nullptr ? Flow::kGo : t.stop(BreakReason::k_attribute, text);
}

// What a getter answers is the attribute; while it runs the caller's stack holds what its AttributeError would name.
Flow Tracer::call_getter(Value* getter, std::vector<Value*> arguments, PyObject* name) {
  TraceFrame& now = frame();
  Value* object = looked_at_;
  if (object != nullptr && has_fallback_)  // its AttributeError would have __getattr__ called
    return stop(BreakReason::k_attribute, text_of(name));
  Opcode opcode = now.bytecode->at(now.at).opcode;
  if (object == nullptr || call_now_depth_ > 0)
    return inline_call(getter, std::move(arguments), nullptr, ReturnRule::kPush);
  // LOAD_METHOD asks the descriptor itself where nothing but that can be meant.
  PyTypeObject* type = type_of(object);
  if (opcode == Opcode::k_LOAD_METHOD && type != nullptr && type->tp_getattro == PyObject_GenericGetAttr)
    return inline_call(getter, std::move(arguments), nullptr, ReturnRule::kPush);
  size_t depth = now.stack.size();
  bool named = opcode != Opcode::k_LOAD_ATTR && opcode != Opcode::k_LOAD_METHOD;
  now.stack.push_back(object);
  if (named) now.stack.push_back(constant(name));
  Flow flow =
      inline_call(getter, std::move(arguments), nullptr, named ? ReturnRule::kNamedAttribute : ReturnRule::kAttribute);
  if (flow != Flow::kGo) now.stack.resize(depth);
  return flow;
}

// self null: through the class `type`. May push a frame: *out stays null.
Flow Tracer::bind_descriptor(PyObject* attribute, PyTypeObject* type, Value* self, PyObject* name, Value** out) {
  std::string text = std::string(type->tp_name) + "." + text_of(name);
  PyTypeObject* kind = Py_TYPE(attribute);
  if (is_python_function(attribute) || kind == &PyMethodDescr_Type || kind == &PyWrapperDescr_Type) {
    Value* function = wrap_bound(attribute, text, Hold::kPinned);
    *out = self == nullptr ? function : method_of(*this, function, self);
    return Flow::kGo;
  }
  Value* owner = constant(reinterpret_cast<PyObject*>(type));
  if (kind == &PyStaticMethod_Type || kind == &PyClassMethod_Type) {
    Ref function = part_of(attribute, interned.func);
    if (!function) return stop(BreakReason::k_attribute, text);
    if (kind == &PyStaticMethod_Type) {
      *out = wrap_bound(function.get(), text, Hold::kPinned);
      return Flow::kGo;
    }
    if (!is_python_function(function.get())) return stop(BreakReason::k_attribute, text);
    // Through an instance the class is the instance's, through a metaclass's instance that class itself.
    *out = method_of(*this, wrap_bound(function.get(), text, Hold::kPinned), owner);
    return Flow::kGo;
  }
  if (is_property(kind, interned.get)) {
    if (self == nullptr) {
      *out = wrap_bound(attribute, text, Hold::kPinned);
      return Flow::kGo;
    }
    int offset = 0;
    PyObject* getter = part_of_property(attribute, interned.fget, &offset);
    if (getter == nullptr) return missing(self, name);
    if (Py_TYPE(getter) != &PyFunction_Type) return stop(BreakReason::k_attribute, text);
    return call_getter(function_of_property(*this, attribute, getter, offset, text, interned.fget), {self}, name);
  }
  if (kind == &PyMemberDescr_Type && self != nullptr) {
    if (as_class(self) != nullptr) return field_of_class(*this, attribute, self, name, out);
    if (self->content != nullptr && PyDescr_TYPE(attribute) == default_dict_type()) {
      *out = default_factory(*this, self);
      return *out != nullptr ? Flow::kGo : stop(BreakReason::k_attribute, text);
    }
    int held = reinterpret_cast<PyMemberDescrObject*>(attribute)->d_member->type;
    bool of_partial = held == T_OBJECT && self->is_real() && std::string(type->tp_name) == "functools.partial";
    bool plain = self->kind == ValueKind::kObject && (held == T_OBJECT_EX || of_partial);
    if (!plain) return stop(BreakReason::k_attribute, text);
    *out = slot_attribute(self, attribute, name);
    return *out != nullptr ? Flow::kGo : missing(self, name);
  }
  if (kind == &PyGetSetDescr_Type && self != nullptr) {
    if (attribute == _PyType_Lookup(&PyBaseObject_Type, interned.class_)) {
      *out = constant(reinterpret_cast<PyObject*>(type_of(self)));
      return Flow::kGo;
    }
    if (self->content != nullptr && PyDescr_TYPE(attribute) == deque_type()) {  // maxlen
      if (!know_maxlen(*this, self->content)) return stop(BreakReason::k_attribute, text);
      *out = self->content->stop < 0 ? none() : int_constant(self->content->stop);
      return Flow::kGo;
    }
    return as_class(self) != nullptr ? field_of_class(*this, attribute, self, name, out)
                                     : stop(BreakReason::k_attribute, text);
  }
  if (self != nullptr && self->kind == ValueKind::kTuple && !is_heap_type(kind) &&
      std::string(kind->tp_name) == "_collections._tuplegetter") {
    Ref parts(PyObject_CallMethodNoArgs(attribute, interned.reduce));  // (its class, (index, document))
    Py_ssize_t index = -1;
    if (!parts || !PyArg_ParseTuple(parts.get(), "O(nO)", &kind, &index, &kind) || index < 0 ||
        index >= static_cast<Py_ssize_t>(self->items.size()))
      return stop(BreakReason::k_attribute, text);
    *out = item_at(self, static_cast<size_t>(index));
    return Flow::kGo;
  }
  if (kind == &PyClassMethodDescr_Type && self == nullptr && is_heap_type(type) &&
      PyDescr_TYPE(attribute) == &PyBaseObject_Type) {  // __init_subclass__
    *out = method_of(*this, constant(attribute), owner);
    return Flow::kGo;
  }
  if (kind == &PyClassMethodDescr_Type && self == nullptr && !is_heap_type(type)) {
    *out = constant_owned(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name));  // chain.from_iterable
    return *out != nullptr ? Flow::kGo : stop(BreakReason::k_attribute, text);
  }
  if (kind->tp_descr_get == nullptr) {
    bool may_become_one = PyType_Check(attribute) && metaclass(reinterpret_cast<PyTypeObject*>(attribute)) == nullptr;
    if (may_become_one) return stop(BreakReason::k_attribute, text);
    *out = wrap_bound(attribute, text, Hold::kPinned);
    return Flow::kGo;
  }
  if (PyType_Check(attribute) || !is_heap_type(kind) || !ensure_version(kind))
    return stop(BreakReason::k_attribute, text);
  Value* get = find_in_class(kind, interned.get);  // a descriptor written in Python
  if (get == nullptr || get->kind != ValueKind::kFunction) return stop(BreakReason::k_attribute, text);
  if (Flow flow; bind_functools(*this, get, wrap_bound(attribute, text, Hold::kPinned), self, name, out, &flow))
    return flow;
  return call_getter(get, {wrap_bound(attribute, text, Hold::kPinned), self == nullptr ? none() : self, owner}, name);
}

// A data descriptor's __set__ and, value null, __delete__. May push a frame.
Flow Tracer::set_through(PyObject* attribute, Value* object, PyObject* name, Value* value) {
  std::string text = std::string(type_of(object)->tp_name) + "." + text_of(name);
  PyTypeObject* kind = Py_TYPE(attribute);
  std::vector<Value*> arguments{object};
  if (value != nullptr) arguments.push_back(value);
  if (is_property(kind, value != nullptr ? interned.set : interned.delete_)) {
    PyObject* part = value != nullptr ? interned.fset : interned.fdel;
    int offset = 0;
    PyObject* function = part_of_property(attribute, part, &offset);
    if (function == nullptr) return missing(object, name);
    if (Py_TYPE(function) != &PyFunction_Type) return stop(BreakReason::k_attribute, text);
    Value* setter = function_of_property(*this, attribute, function, offset, text, part);
    return inline_call(setter, std::move(arguments), nullptr, ReturnRule::kDiscard);
  }
  if (!is_heap_type(kind) || !ensure_version(kind)) return stop(BreakReason::k_attribute, text);
  Value* method = find_in_class(kind, value != nullptr ? interned.set : interned.delete_);
  if (method == nullptr) return missing(object, name);
  if (method->kind != ValueKind::kFunction) return stop(BreakReason::k_attribute, text);
  arguments.insert(arguments.begin(), wrap_bound(attribute, text, Hold::kPinned));
  return inline_call(method, std::move(arguments), nullptr, ReturnRule::kDiscard);
}

// ---- What object, type and tuple define themselves ------------------------------------------------------------------

static bool is_slot_of(PyObject* callable, PyTypeObject* type, PyObject* name) {
  return Py_TYPE(callable) == &PyWrapperDescr_Type && callable == PyDict_GetItemWithError(type->tp_dict, name);
}

// object.__new__ and tuple.__new__ are C functions bound to their class.
static PyTypeObject* new_of(PyObject* callable) {
  if (!PyCFunction_Check(callable)) return nullptr;
  PyObject* self = PyCFunction_GET_SELF(callable);
  if (self == nullptr || !PyType_Check(self)) return nullptr;
  return std::string(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name) == "__new__"
             ? reinterpret_cast<PyTypeObject*>(self)
             : nullptr;
}

static Flow call_new(Tracer& t, PyTypeObject* base, const std::vector<Value*>& arguments, PyObject* names,
                     Value** out) {
  PyTypeObject* type = arguments.empty() ? nullptr : as_class(t.force(arguments[0]));
  if (type == nullptr || !t.ensure_version(type) || !PyType_IsSubtype(type, base))
    return t.stop(BreakReason::k_call, "__new__");
  if (base == &PyType_Type) return t.call_type_new(arguments, names, out);
  if (base == &PyBaseObject_Type) return t.new_object(type, /*bare=*/arguments.size() == 1, out);
  if (is_container_type(base)) {
    *out = container_base(type) == nullptr || type->tp_new == nullptr ? nullptr : new_container(t, type);
    bool safe = *out != nullptr && container_base(type)->tp_new == base->tp_new;
    return safe ? Flow::kGo : t.stop(BreakReason::k_call, base->tp_name);
  }
  if (base != &PyTuple_Type || arguments.size() > 2 || names != nullptr || !is_heap_type(type) || !tuple_like(type))
    return t.stop(BreakReason::k_call, base->tp_name);
  std::vector<Value*> items;
  if (arguments.size() == 2 && !t.drain(t.force(arguments[1]), &items))
    return t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_iteration, "tuple");
  *out = t.tuple_of(std::move(items), type);
  return Flow::kGo;
}

// What a builtin that sets an attribute answers: None, below the frame of a setter that was pushed.
Flow Tracer::answer_none(size_t depth, Flow flow, Value** out) {
  if (flow != Flow::kGo) return flow;
  if (frames_.size() == depth)
    *out = none();
  else
    frames_[depth - 1].stack.push_back(none());
  return Flow::kGo;
}

// *handled stays false for what is none of these.
Flow Tracer::call_slot(PyObject* callable, std::vector<Value*>& arguments, PyObject* names, Value** out,
                       bool* handled) {
  *handled = true;
  if (Py_TYPE(callable) == &PyClassMethodDescr_Type && PyDescr_TYPE(callable) == &PyBaseObject_Type &&
      PyUnicode_Compare(PyDescr_NAME(callable), interned.init_subclass) == 0) {
    if (arguments.size() != 1 || names != nullptr) return stop(BreakReason::k_raises, "object.__init_subclass__");
    return *out = none(), Flow::kGo;
  }
  if (PyTypeObject* base = new_of(callable)) return call_new(*this, base, arguments, names, out);
  if (is_slot_of(callable, &PyType_Type, interned.init)) {  // does nothing
    size_t named = names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names));
    bool good = arguments.size() == 4 + named && as_class(force(arguments[0])) != nullptr;
    return good ? (*out = none(), Flow::kGo) : stop(BreakReason::k_raises, "type.__init__");
  }
  if (Py_TYPE(callable) != &PyWrapperDescr_Type || names != nullptr || arguments.empty())
    return *handled = false, Flow::kGo;
  for (Value*& argument : arguments) argument = force(argument);
  Value* self = arguments[0];
  PyTypeObject* type = type_of(self);
  auto is = [&](PyObject* name) { return is_slot_of(callable, &PyBaseObject_Type, name); };
  auto attribute_name = [&] { return arguments[1]->is_constant() && PyUnicode_CheckExact(arguments[1]->object); };
  if (is_slot_of(callable, &PyType_Type, interned.call)) {
    PyTypeObject* made = as_class(self);
    if (made == nullptr) return stop(BreakReason::k_call, "type.__call__");
    arguments.erase(arguments.begin());
    return call_type(made, std::move(arguments), names);
  }
  bool stores = is_slot_of(callable, &PyType_Type, interned.setattr) && arguments.size() == 3;
  bool deletes = is_slot_of(callable, &PyType_Type, interned.delattr) && arguments.size() == 2;
  if ((stores || deletes) && as_class(self) != nullptr && attribute_name())
    return answer_none(frames_.size(), set_class_attribute(self, arguments[1]->object, stores ? arguments[2] : nullptr),
                       out);
  if (type == nullptr || !ensure_version(type)) return *handled = false, Flow::kGo;
  if (is(interned.init)) {
    // Further arguments are refused unless __new__ took them: Objects/typeobject.c, object_init.
    bool excess = arguments.size() > 1 &&
                  (type->tp_init != PyBaseObject_Type.tp_init || type->tp_new == PyBaseObject_Type.tp_new);
    if (excess || as_class(self) != nullptr) return stop(BreakReason::k_raises, "object.__init__");
    *out = none();
    return Flow::kGo;
  }
  if (is(interned.setattr) && arguments.size() == 3 && attribute_name() && self->kind == ValueKind::kObject) {
    size_t depth = frames_.size();
    return answer_none(depth, generic_set(self, arguments[1]->object, arguments[2]), out);
  }
  if (is(interned.delattr) && arguments.size() == 2 && attribute_name() && self->kind == ValueKind::kObject) {
    size_t depth = frames_.size();
    return answer_none(depth, generic_set(self, arguments[1]->object, nullptr), out);
  }
  if (is(interned.getattribute) && arguments.size() == 2 && attribute_name() &&
      (self->kind == ValueKind::kObject || self->kind == ValueKind::kTuple)) {
    bool absent = false;
    if (Flow flow = generic_attribute(self, arguments[1]->object, out, &absent); flow != Flow::kGo) return flow;
    return absent ? missing(self, arguments[1]->object) : Flow::kGo;
  }
  for (int operation : {Py_EQ, Py_NE}) {
    if (!is(interned.compare[operation]) || arguments.size() != 2) continue;
    Flow flow = object_compare(operation, self, arguments[1], out);
    if (flow == Flow::kGo && *out == nullptr) *out = constant(Py_NotImplemented);
    return flow;
  }
  *handled = false;
  return Flow::kGo;
}

}  // namespace kintsugi
