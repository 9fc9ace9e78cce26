// Objects of classes that derive from dict, list, OrderedDict, defaultdict or deque. The object is a kObject like those
// of any class: attributes, methods in Python and overridden operators come first. What it holds as a container is its
// `content`, a dict or list that is never seen by itself; here is what the builtin methods do to it. deques.cpp has
// those of deque.
#include <algorithm>

#include "jit/container_types.h"
#include "jit/containers.h"
#include "runtime/frame.h"

#include <opcode.h>  // NB_ADD and the like
#include <structmember.h>

namespace kintsugi {

// ---- Classes --------------------------------------------------------------------------------------------------------

static PyTypeObject* of_collections(const char* name) {
  Ref module = import_module("_collections");
  PyObject* type = module ? PyObject_GetAttrString(module.get(), name) : nullptr;  // kept for good
  PyErr_Clear();
  return type != nullptr && PyType_Check(type) ? reinterpret_cast<PyTypeObject*>(type) : nullptr;
}
PyTypeObject* deque_type() {
  static PyTypeObject* const type = of_collections("deque");
  return type;
}
PyTypeObject* default_dict_type() {
  static PyTypeObject* const type = of_collections("defaultdict");
  return type;
}

bool is_container_type(PyTypeObject* type) {
  return type == &PyDict_Type || type == &PyList_Type || type == &PyODict_Type || type == deque_type() ||
         type == default_dict_type();
}

PyTypeObject* container_base(PyTypeObject* type) {
  if (type == &PyDict_Type || type == &PyList_Type || type->tp_mro == nullptr) return nullptr;
  PyTypeObject* base = nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* each = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (is_container_type(each)) {
      if (base == nullptr) base = each;
    } else if (each != &PyBaseObject_Type &&
               (!PyType_HasFeature(each, Py_TPFLAGS_HEAPTYPE) || each->tp_methods != nullptr)) {
      return nullptr;  // made in C
    }
  }
  bool plain = base != nullptr && type->tp_alloc == PyType_GenericAlloc && type->tp_itemsize == 0 &&
               type->tp_finalize == nullptr && type->tp_del == nullptr;
  return plain ? base : nullptr;
}

Value* content_of(Value* value) {
  if (value->kind == ValueKind::kDict || value->kind == ValueKind::kList) return value;
  return value->content;
}

static PyTypeObject* base_of(const Value* content) {
  if (content->owner != nullptr) return container_base(content->owner->type);
  return content->kind == ValueKind::kDict ? &PyDict_Type : &PyList_Type;
}
PyTypeObject* methods_of(const Value* content) {
  PyTypeObject* base = base_of(content);
  return base == default_dict_type() ? &PyDict_Type : base;
}
bool is_deque(const Value* content) { return content->owner != nullptr && base_of(content) == deque_type(); }
bool is_ordered_dict(const Value* content) { return content->owner != nullptr && base_of(content) == &PyODict_Type; }

void add_content(Tracer& t, Value* object) {
  PyTypeObject* base = container_base(object->type);
  if (base == nullptr) return;
  Value* content = t.make(PyType_IsSubtype(base, &PyDict_Type) ? ValueKind::kDict : ValueKind::kList);
  content->owner = object;
  content->stop = -1;  // a deque's greatest length
  object->content = content;
  if (!object->is_real()) return;
  content->object = object->object;
  content->id = object->id;
  content->source = object->source;
  content->complete = false;
  t.real_mutables_.push_back(content);
}

Value* new_container(Tracer& t, PyTypeObject* type) {
  Value* made = t.make(ValueKind::kObject);
  made->type = type;
  add_content(t, made);
  return made;
}

// Parts: see RecipeKind::kContainer.
void Tracer::container_recipe(Value* value, Recipe* recipe) {
  Value* content = shown(value->content);
  recipe->kind = RecipeKind::kContainer;
  auto part = [&](RecipeId id) { recipe->parts.push_back(id); };
  part(recipe_of(constant(reinterpret_cast<PyObject*>(value->type))));
  part(recipe_of(is_deque(value->content) && content->stop >= 0 ? int_constant(content->stop) : none()));
  for (Value* item : content->items) part(recipe_of(item));
  for (auto& [key, item] : content->entries) {
    if (item == nullptr) continue;
    part(recipe_of(key_value(key)));
    part(recipe_of(item));
  }
  recipe->value = static_cast<ValueId>(recipe->parts.size()) - 2;
  for (auto& [key, item] : value->entries) {
    if (item == nullptr) continue;
    part(recipe_of(constant(key)));
    part(recipe_of(item));
  }
}

// ---- Methods of dicts -----------------------------------------------------------------------------------------------

namespace {

using Values = std::vector<Value*>;

Flow answer(Tracer& t, bool truth, Value** out) {
  *out = t.constant(truth ? Py_True : Py_False);
  return Flow::kGo;
}
Flow no_model(Tracer& t, const Value* self, const std::string& name) {
  return t.stop(BreakReason::k_container, std::string(type_of(self)->tp_name) + "." + name);
}

// Whether the class has this method as one of the builtin containers defines it.
bool has_builtin(Tracer& t, PyTypeObject* type, PyObject* name) {
  if (!t.ensure_version(type)) return false;
  PyObject* found = _PyType_Lookup(type, name);
  if (found == nullptr || (Py_TYPE(found) != &PyWrapperDescr_Type && Py_TYPE(found) != &PyMethodDescr_Type))
    return false;
  return is_container_type(PyDescr_TYPE(found));
}

bool all_builtin(Tracer& t, Value* self, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    Ref text(PyUnicode_InternFromString(name));
    if (!text || !has_builtin(t, self->type, text.get())) return false;
  }
  return true;
}

PyObject* member_of(PyTypeObject* type, const char* name) {
  PyObject* member = PyDict_GetItemString(type->tp_dict, name);
  return member != nullptr && Py_TYPE(member) == &PyMemberDescr_Type ? member : nullptr;
}
PyObject* factory_name() {
  static PyObject* const name = PyUnicode_InternFromString("default_factory");
  return name;
}

// defaultdict.__missing__
Flow make_missing(Tracer& t, Value* self, Value* key, Value** out) {
  Value* factory = default_factory(t, self);
  if (factory == nullptr) return no_model(t, self, "__missing__");
  if (factory->is_constant() && factory->object == Py_None) return raise_with_repr(t, PyExc_KeyError, key, "");
  if (Flow flow = t.call_now(factory, {}, out); flow != Flow::kGo) return flow;
  if (*out == nullptr || !has_builtin(t, self->type, interned.setitem)) return no_model(t, self, "__missing__");
  return t.dict_set_item(self->content, key, *out);
}

Flow subscript(Tracer& t, Value* self, Value* key, Value** out) {
  Value* content = content_of(self);
  PyObject* object;
  if (!t.key_of(key, &object) || !modelled_dict(t, content, object)) return no_key(t, key, "dict key");
  *out = t.dict_get(content, object);
  if (*out != nullptr) return Flow::kGo;
  static PyObject* const missing = PyUnicode_InternFromString("__missing__");
  PyObject* method = self == content ? nullptr : _PyType_Lookup(self->type, missing);
  if (method == nullptr) return raise_with_repr(t, PyExc_KeyError, key, "");
  if (Py_TYPE(method) == &PyMethodDescr_Type && PyDescr_TYPE(method) == default_dict_type())
    return make_missing(t, self, key, out);
  Value* function = t.find_in_class(self->type, missing);
  if (function == nullptr || function->kind != ValueKind::kFunction) return no_model(t, self, "__missing__");
  return t.inline_call(function, {self, key}, nullptr, ReturnRule::kPush);
}

// The items of a dict in a new one of the same class, as copy() of OrderedDict and defaultdict make it.
Flow copy_exactly(Tracer& t, Value* self, Value** out) {
  if (is_heap_type(self->type)) return no_model(t, self, "copy");  // its class is called
  Value* copy = copy_of_dict(t, self->content);
  if (copy == nullptr) return no_model(t, self, "copy");
  Value* made = new_container(t, self->type);
  made->content->entries = copy->entries;
  if (self->type == default_dict_type()) {
    Value* factory = default_factory(t, self);
    if (factory == nullptr) return no_model(t, self, "copy");
    t.note_attribute(made, factory_name(), factory);
  }
  *out = made;
  return Flow::kGo;
}

Flow move_to_end(Tracer& t, Value* self, Values& a, Value** out) {
  Value* content = self->content;
  bool known = true, last = true;
  PyObject* key;
  if (a.empty() || a[0] == nullptr || (a[1] != nullptr && (!t.truth(t.force(a[1]), &known, &last) || !known)))
    return no_model(t, self, "move_to_end");
  if (content->iterated > 0 || !t.key_of(a[0], &key) || !modelled_dict(t, content, key))
    return no_key(t, a[0], "move_to_end");
  if (t.dict_get(content, key) == nullptr) return raise_with_repr(t, PyExc_KeyError, a[0], "");
  if (!t.dict_complete(content)) return no_model(t, self, "move_to_end");
  t.changing(content);
  if (content->is_real())
    t.run_method(&PyODict_Type, "move_to_end", {content, a[0], t.constant(last ? Py_True : Py_False)});
  auto place = std::find_if(content->entries.begin(), content->entries.end(),
                            [&](auto& entry) { return same_dict_key(entry.first, key); });
  if (place == content->entries.end()) throw Restart{};
  auto entry = *place;
  content->entries.erase(place);
  content->entries.insert(last ? content->entries.end() : content->entries.begin(), entry);
  *out = t.none();
  return Flow::kGo;
}

Flow pop_ordered(Tracer& t, Value* self, Values& a, Value** out) {
  Value* content = self->content;
  bool known = true, last = true;
  if (a[0] != nullptr && (!t.truth(t.force(a[0]), &known, &last) || !known)) return no_model(t, self, "popitem");
  if (!t.dict_complete(content)) return no_model(t, self, "popitem");
  if (content->entries.empty()) return t.raise_text(PyExc_KeyError, "dictionary is empty", "KeyError");
  PyObject* key = last ? content->entries.back().first : content->entries.front().first;
  Value* value = t.dict_get(content, key);
  *out = t.tuple_of({t.key_value(key), value});
  return t.dict_delete_item(content, t.key_value(key));
}

// An OrderedDict takes items over by its own __setitem__, from another kind of dict by keys() and __getitem__.
bool is_read_plainly(Tracer& t, Value* self, Value* other) {
  if (!has_builtin(t, self->type, interned.setitem)) return false;
  return other->content == nullptr || all_builtin(t, other, {"__iter__", "keys", "__getitem__"});
}

Flow init_dict(Tracer& t, Value* self, Values& a, PyObject* names, Value** out) {
  Value *content = content_of(self), *ignored = nullptr;
  if (content->is_real()) return no_model(t, self, "__init__");
  if (base_of(content) == default_dict_type()) {
    size_t positional = a.size() - (names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names)));
    Value* factory = positional == 0 ? t.none() : t.force(a[0]);
    if (!is_callable(t, factory) && !(factory->is_constant() && factory->object == Py_None))
      return no_model(t, self, "__init__");
    if (positional > 0) a.erase(a.begin());
    t.changing(self);
    t.note_attribute(self, factory_name(), factory);
  }
  if (base_of(content) == &PyODict_Type && !is_read_plainly(t, self, a.empty() ? self : t.force(a[0])))
    return no_model(t, self, "__init__");
  *out = t.none();
  return dict_method(t, content, "update", a, names, &ignored);
}

// dict | dict and the like; the other side is any kind of dict.
Flow unite(Tracer& t, Value* left, Value* right, bool in_place, Value** out) {
  Value *a = content_of(left), *b = content_of(right);
  auto is_dict = [](Value* content) { return content != nullptr && content->kind == ValueKind::kDict; };
  if (!is_dict(a)) return t.stop(BreakReason::k_container, "union of dicts");
  bool ordered = base_of(a) == &PyODict_Type;
  if (ordered && !is_read_plainly(t, left, right)) return t.stop(BreakReason::k_container, "union of dicts");
  if (in_place) {
    *out = left;
    return dict_update(t, a, right);
  }
  if (!is_dict(b)) return t.stop(BreakReason::k_container, "union of dicts");
  PyTypeObject* base = base_of(a);
  if (base == &PyODict_Type || base_of(b) == &PyODict_Type || base == default_dict_type() ||
      base_of(b) == default_dict_type()) {
    if (left == a || (base != base_of(b) && right != b)) return t.stop(BreakReason::k_container, "union of dicts");
    if (Flow flow = copy_exactly(t, left, out); flow != Flow::kGo) return flow;
    return dict_update(t, (*out)->content, right);
  }
  *out = merged_dict(t, left) != nullptr ? copy_of_dict(t, a) : nullptr;
  if (*out == nullptr) return t.stop(BreakReason::k_container, "union of dicts");
  return dict_update(t, *out, right);
}

Flow dict_slot(Tracer& t, PyTypeObject* owner, const std::string& name, Value* self, Values& a, PyObject* names,
               Value** out) {
  Value* content = content_of(self);
  size_t given = a.size();
  *out = t.none();
  if (owner == &PyDict_Type && is_ordered_dict(content)) {  // behind its order's back
    for (const char* reader : {"__getitem__", "__contains__", "__len__", "get"})
      if (name == reader) owner = &PyODict_Type;
    if (owner == &PyDict_Type) return no_model(t, self, name);
  }
  if (name == "__init__") return init_dict(t, self, a, names, out);
  if (owner == &PyODict_Type) {
    if (self->type != &PyODict_Type && (name == "pop" || name == "popitem" || name == "setdefault" ||
                                        name == "update" || name == "clear" || name == "move_to_end"))
      return no_model(t, self, name);  // asks the class's own methods
    if (name == "move_to_end")
      return place_keywords(&a, names, {"key", "last"}) ? move_to_end(t, self, a, out) : no_model(t, self, name);
    if (name == "popitem")
      return place_keywords(&a, names, {"last"}) ? pop_ordered(t, self, a, out) : no_model(t, self, name);
    if (names != nullptr && (name == "pop" || name == "setdefault")) {
      if (!place_keywords(&a, names, {"key", "default"}) || a[0] == nullptr) return no_model(t, self, name);
      if (a[1] == nullptr) a.pop_back();
      names = nullptr;
      given = a.size();
    }
  }
  if (name == "update" && owner == &PyODict_Type && given == 1 && !is_read_plainly(t, self, t.force(a[0])))
    return no_model(t, self, name);
  if (name == "update") return dict_method(t, content, name, a, names, out);
  if (names != nullptr && PyTuple_GET_SIZE(names) > 0) return no_model(t, self, name);
  if (name == "__getitem__" && given == 1) return subscript(t, self, t.force(a[0]), out);
  if (name == "__setitem__" && given == 2) return t.dict_set_item(content, t.force(a[0]), a[1]);
  if (name == "__delitem__" && given == 1) return t.dict_delete_item(content, t.force(a[0]));
  if (name == "__missing__" && given == 1 && owner == default_dict_type())
    return make_missing(t, self, t.force(a[0]), out);
  if (name == "__contains__" && given == 1) {
    bool found = false;
    if (Flow flow = t.dict_contains(content, t.force(a[0]), &found); flow != Flow::kGo) return flow;
    return answer(t, found, out);
  }
  if (name == "__len__" && given == 0) {
    int64_t length = t.length(content);
    if (length < 0) return no_model(t, self, name);
    *out = t.int_constant(length);
    return Flow::kGo;
  }
  if ((name == "__iter__" || name == "__reversed__") && given == 0) {
    *out = name == "__iter__" ? t.iterate(content) : reversed_dict(t, content);
    return *out != nullptr ? Flow::kGo : no_model(t, self, name);
  }
  if ((name == "__eq__" || name == "__ne__") && given == 1)
    return compare_contents(t, owner, name == "__eq__" ? Py_EQ : Py_NE, self, t.force(a[0]), out);
  if ((name == "__or__" || name == "__ior__") && given == 1) {
    Value* other = t.force(a[0]);
    return unite(t, self, other, name == "__ior__", out);
  }
  if ((name == "copy" || name == "__copy__") && given == 0 && owner != &PyDict_Type) return copy_exactly(t, self, out);
  if (name.rfind("__", 0) == 0 || (name == "copy" && merged_dict(t, self) == nullptr)) return no_model(t, self, name);
  return dict_method(t, content, name, a, names, out);
}

// ---- Methods of lists -----------------------------------------------------------------------------------------------

Flow list_slot(Tracer& t, const std::string& name, Value* self, Values& a, PyObject* names, Value** out) {
  Value* content = content_of(self);
  size_t given = a.size();
  *out = t.none();
  bool named = names != nullptr && PyTuple_GET_SIZE(names) > 0;
  if (name == "sort" || (!named && name.rfind("__", 0) != 0)) {
    Ref text(PyUnicode_InternFromString(name.c_str()));
    if (!text) throw Restart{};
    return t.container_method(content, text.get(), a, names, out);
  }
  if (named) return no_model(t, self, name);
  if (name == "__init__" && given <= 1) {
    Values items;
    if (content->is_real() || (given == 1 && !t.drain(a[0], &items, Tracer::Asks::kHint)))
      return t.ended_ ? Flow::kEnd : no_model(t, self, name);
    t.changing(content);
    content->items = std::move(items);
    return Flow::kGo;
  }
  if (given == 0 && (name == "__iter__" || name == "__len__")) {
    if (name == "__iter__")
      *out = t.iterate(content);
    else if (int64_t length = t.length(content); length >= 0)
      *out = t.int_constant(length);
    return Flow::kGo;
  }
  if (name == "__reversed__" && given == 0) {
    int64_t size = t.length(content);
    *out = t.make_iterator(IteratorKind::kReversed, {content});
    (*out)->index = size - 1;
    return Flow::kGo;
  }
  if (given == 2 && name == "__setitem__") return t.set_item(content, t.force(a[0]), a[1]);
  if (given != 1) return no_model(t, self, name);
  Value* other = t.force(a[0]);
  if (name == "__getitem__") return t.get_item(content, other, out);
  if (name == "__delitem__") return t.delete_item(content, other);
  if (name == "__contains__") return t.contains(content, other, out);
  for (int operation = 0; operation < 6; ++operation)
    if (PyUnicode_CompareWithASCIIString(interned.compare[operation], name.c_str()) == 0)
      return compare_contents(t, &PyList_Type, operation, self, other, out);
  static constexpr std::pair<const char*, int> kOperators[] = {{"__add__", NB_ADD},
                                                               {"__iadd__", NB_INPLACE_ADD},
                                                               {"__mul__", NB_MULTIPLY},
                                                               {"__rmul__", NB_MULTIPLY},
                                                               {"__imul__", NB_INPLACE_MULTIPLY}};
  for (auto& [text, operation] : kOperators) {
    if (name != text) continue;
    bool handled = false;
    Value* right = operation == NB_ADD && content_of(other) != nullptr ? content_of(other) : other;
    if (operation == NB_ADD && (right->kind != ValueKind::kList || is_deque(right))) return no_model(t, self, name);
    Flow flow = t.container_binary(operation, content, right, out, &handled);
    if (flow == Flow::kGo && !handled) return no_model(t, self, name);
    if (*out == content) *out = self;
    return flow;
  }
  return no_model(t, self, name);
}

}  // namespace

Value* default_factory(Tracer& t, Value* self) {
  PyObject* member = member_of(default_dict_type(), "default_factory");
  if (member == nullptr) return nullptr;
  Value* factory = t.slot_attribute(self, member, factory_name());
  return factory == nullptr ? t.none() : t.force(factory);
}

// What the builtin type `owner` defines under this name, done to an object of it or of a class that derives from it.
Flow container_slot(Tracer& t, PyTypeObject* owner, const std::string& name, Value* self, Values& a, PyObject* names,
                    Value** out) {
  if (owner == deque_type()) return deque_slot(t, name, self, a, names, out);
  if (owner == &PyList_Type) return list_slot(t, name, self, a, names, out);
  return dict_slot(t, owner, name, self, a, names, out);
}

// What an operator or a builtin does to such an object, where its class has not its own: *out stays null without a
// break where it has no such method.
Flow Tracer::container_special(Value* self, PyObject* name, std::vector<Value*> arguments, Value** out) {
  *out = nullptr;
  if (!ensure_version(self->type)) return stop(BreakReason::k_method, text_of(name));
  PyObject* found = _PyType_Lookup(self->type, name);
  if (found == nullptr) return Flow::kGo;
  if (!has_builtin(*this, self->type, name)) return stop(BreakReason::k_method, text_of(name));
  return container_slot(*this, PyDescr_TYPE(found), text_of(name), self, arguments, nullptr, out);
}

bool walks_plainly(Tracer& t, Value* self) { return has_builtin(t, self->type, interned.iter); }

// What may be read of any kind of dict as PyDict_Merge does: the dict behind it; null: it is asked for keys().
Value* merged_dict(Tracer& t, Value* other) {
  if (Value* mapping = proxied(t, other)) other = mapping;
  if (other->kind == ValueKind::kDict) return other;
  Value* content = other->content;
  if (content == nullptr || content->kind != ValueKind::kDict || !t.ensure_version(other->type)) return nullptr;
  if (!is_ordered_dict(content)) return walks_plainly(t, other) ? content : nullptr;
  return all_builtin(t, other, {"__iter__", "keys", "__getitem__"}) ? content : nullptr;
}

// ---- Comparison -----------------------------------------------------------------------------------------------------

// self.__eq__(other) and its kin as `owner` defines them; Py_NotImplemented where it does not know the other.
Flow compare_contents(Tracer& t, PyTypeObject* owner, int operation, Value* self, Value* other, Value** out) {
  Value *a = content_of(self), *b = content_of(other);
  bool equality = operation == Py_EQ || operation == Py_NE;
  bool knows = b != nullptr && b->kind == a->kind && (!is_deque(a) ? !is_deque(b) : is_deque(b));
  if (!knows) {
    if (other->kind == ValueKind::kObject && b == nullptr && !is_heap_type(other->type) && other->is_real())
      return t.stop(BreakReason::k_container, "comparing containers");
    *out = t.constant(Py_NotImplemented);
    return Flow::kGo;
  }
  if (a->kind == ValueKind::kDict && !equality) {
    *out = t.constant(Py_NotImplemented);
    return Flow::kGo;
  }
  if (is_deque(a) && !(walks_plainly(t, self) && walks_plainly(t, other))) return no_model(t, self, "comparison");
  bool handled = false, ordered = owner == &PyODict_Type && is_ordered_dict(a) && is_ordered_dict(b);
  if (ordered && !(t.dict_complete(a) && t.dict_complete(b)))
    return t.stop(BreakReason::k_container, "comparing containers");
  if (Flow flow = t.container_compare(operation, a, b, out, &handled); flow != Flow::kGo || !handled)
    return flow != Flow::kGo ? flow : t.stop(BreakReason::k_container, "comparing containers");
  if (!ordered) return Flow::kGo;
  bool equal = ((*out)->object == Py_True) == (operation == Py_EQ);
  for (size_t i = 0; equal && i < a->entries.size(); ++i)
    equal = i < b->entries.size() && same_dict_key(a->entries[i].first, b->entries[i].first);
  return answer(t, equal == (operation == Py_EQ), out);
}

// Builtins that no container is equal to, and that say so themselves.
static bool is_foreign_to_containers(Tracer& t, Value* value) {
  PyObject* atom;
  return value->is_number() || t.is_pure_object(value) || value->kind == ValueKind::kFunction ||
         value->kind == ValueKind::kSet || t.is_exact_tuple(value) || (t.fold(value, &atom) && !PyTuple_Check(atom));
}

// left == right and the like where one is such an object; *handled stays false where a class has a say of its own.
Flow compare_containers(Tracer& t, int operation, Value* left, Value* right, Value** out, bool* handled) {
  static constexpr int kSwapped[] = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};
  *handled = false;
  if (left->content == nullptr && right->content == nullptr) return Flow::kGo;
  Value *a = content_of(left), *b = content_of(right);
  Value* other = a == nullptr ? left : b == nullptr ? right : nullptr;
  if (other != nullptr && (operation > Py_NE || operation < Py_EQ || !is_foreign_to_containers(t, other)))
    return Flow::kGo;
  for (Value* side : {left, right})
    for (int each : {operation, kSwapped[operation]})
      if (side->content != nullptr && !has_builtin(t, side->type, interned.compare[each])) return Flow::kGo;
  *handled = true;
  if (other != nullptr) return answer(t, operation == Py_NE, out);
  PyTypeObject *left_type = type_of(left), *right_type = type_of(right);
  bool reversed = left_type != right_type && PyType_IsSubtype(right_type, left_type);
  for (int turn = 0; turn < 2; ++turn) {
    bool from_right = reversed != (turn == 1);
    Value* self = from_right ? right : left;
    other = from_right ? left : right;
    int asked = from_right ? kSwapped[operation] : operation;
    PyObject* found = _PyType_Lookup(type_of(self), interned.compare[asked]);
    Flow flow = compare_contents(t, PyDescr_TYPE(found), asked, self, other, out);
    if (flow != Flow::kGo || !((*out)->is_constant() && (*out)->object == Py_NotImplemented)) return flow;
  }
  if (operation != Py_EQ && operation != Py_NE) return t.stop(BreakReason::k_raises, "containers without an order");
  return t.identity(left, right, operation == Py_NE, out);
}

// left + right and the like of builtin methods alone; *handled stays false where a class has a say of its own.
Flow combine_containers(Tracer& t, int operation, Value* left, Value* right, Value** out, bool* handled) {
  bool in_place = operation >= NB_INPLACE_ADD;
  int plain = in_place ? operation - NB_INPLACE_ADD : operation;
  *handled = false;
  if (left->content == nullptr && right->content == nullptr) return Flow::kGo;
  for (Value* side : {left, right}) {
    if (side->content == nullptr) continue;
    if (!t.ensure_version(side->type)) return Flow::kGo;
    for (PyObject* name : {interned.binary[plain], interned.reflected[plain], interned.in_place[plain]}) {
      PyObject* found = _PyType_Lookup(side->type, name);
      if (found != nullptr && !has_builtin(t, side->type, name)) return Flow::kGo;
    }
  }
  PyObject* name = in_place ? interned.in_place[plain] : interned.binary[plain];
  PyObject* found = left->content == nullptr ? nullptr : _PyType_Lookup(left->type, name);
  if (found == nullptr && in_place) {
    name = interned.binary[plain];
    found = left->content == nullptr ? nullptr : _PyType_Lookup(left->type, name);
  }
  bool same_kind = content_of(right) == nullptr || right->content == nullptr || right->type == left->type;
  if (found == nullptr || !same_kind) return Flow::kGo;
  *handled = true;
  std::vector<Value*> arguments{right};
  return container_slot(t, PyDescr_TYPE(found), text_of(name), left, arguments, nullptr, out);
}

// ---- Making them ----------------------------------------------------------------------------------------------------

// A call of OrderedDict, defaultdict or deque.
Flow make_container(Tracer& t, PyTypeObject* type, Values arguments, PyObject* names, Value** out) {
  Value *made = new_container(t, type), *ignored = nullptr;
  if (made->content == nullptr) return t.stop(BreakReason::k_call, type->tp_name);
  if (Flow flow = container_slot(t, type, "__init__", made, arguments, names, &ignored); flow != Flow::kGo) return flow;
  *out = made;
  return Flow::kGo;
}

// collections._count_elements(mapping, iterable), where the mapping's get and __setitem__ are those of dict.
static Flow count_elements(Tracer& t, Values& a, Value** out) {
  Value *mapping = t.force(a[0]), *content = content_of(mapping);
  bool plain = content != nullptr && content->kind == ValueKind::kDict && !is_ordered_dict(content) &&
               (mapping == content || all_builtin(t, mapping, {"get", "__setitem__"}));
  if (!plain || walks_over(t.force(a[1]), content)) return t.stop(BreakReason::k_builtin, "_count_elements");
  *out = t.none();
  return hand_on(t, a[1], Tracer::Asks::kNothing, "_count_elements", [&](Value* item) {
    PyObject* key;
    item = t.force(item);
    if (!t.key_of(item, &key) || !modelled_dict(t, content, key)) return no_key(t, item, "_count_elements");
    Value *held = t.dict_get(content, key), *next = nullptr;
    if (held == nullptr) held = t.int_constant(0);
    if (Flow flow = t.binary(NB_ADD, held, t.int_constant(1), &next); flow != Flow::kGo) return flow;
    if (next == nullptr) return t.stop(BreakReason::k_builtin, "_count_elements");
    return t.dict_set_item(content, item, next);
  });
}

// Calls of builtin methods through their type, of the containers' classes, and of what serves them.
Flow call_subclass(Tracer& t, PyObject* callable, Values& arguments, PyObject* names, Value** out, bool* handled) {
  static PyObject* const counts = [] {
    Ref module = import_module("_collections");
    PyObject* found = module ? PyObject_GetAttrString(module.get(), "_count_elements") : nullptr;  // kept for good
    PyErr_Clear();
    return found;
  }();
  *handled = true;
  if (callable == counts && arguments.size() == 2 && names == nullptr) return count_elements(t, arguments, out);
  if (PyType_Check(callable)) {
    auto* type = reinterpret_cast<PyTypeObject*>(callable);
    if (type != &PyDict_Type && type != &PyList_Type && is_container_type(type))
      return make_container(t, type, arguments, names, out);
  }
  bool is_method = Py_TYPE(callable) == &PyMethodDescr_Type || Py_TYPE(callable) == &PyWrapperDescr_Type;
  if (is_method && !arguments.empty() && is_container_type(PyDescr_TYPE(callable))) {
    Value* self = t.force(arguments[0]);
    PyTypeObject *owner = PyDescr_TYPE(callable), *type = type_of(self);
    bool exact = self->kind != ValueKind::kObject && Py_TYPE(callable) == &PyMethodDescr_Type;
    if (content_of(self) != nullptr && !exact && PyType_IsSubtype(type, owner)) {
      if (!t.ensure_version(type)) return t.stop(BreakReason::k_method, type->tp_name);
      Values rest(arguments.begin() + 1, arguments.end());
      return container_slot(t, owner, text_of(PyDescr_NAME(callable)), self, rest, names, out);
    }
  }
  *handled = false;
  return Flow::kGo;
}

}  // namespace kintsugi
