// Read-only views of mappings, types.MappingProxyType: each asks the mapping, which is the value's only item. That of a
// class's __dict__ has the class instead.
#include "jit/changing_classes.h"
#include "jit/containers.h"
#include "runtime/frame.h"

namespace kintsugi {

namespace {

bool is_proxy(const Value* value) { return value->kind == ValueKind::kObject && value->type == &PyDictProxy_Type; }

// What the class itself holds under the name; false: not known. Absent: null.
bool in_class(Tracer& t, Value* proxy, Value* key, Value** found) {
  PyTypeObject* type = as_class(proxy->items[0]);
  PyObject* name;
  if (type == nullptr || type->tp_dict == nullptr || !t.fold(key, &name) || !PyUnicode_CheckExact(name)) return false;
  if (inherits_changing(type, name)) return false;
  PyObject* held = PyDict_GetItemWithError(type->tp_dict, name);
  PyErr_Clear();
  // What type.__new__ has put there is the model's own, and ends with the trace.
  if (held != nullptr && t.is_made_class(type) && t.stand_ins_.count(held) == 0 && !is_atom(held)) return false;
  // A type that has instances knows where their dict and weak references are; such a part is of no use elsewhere.
  *found =
      held == nullptr ? nullptr : t.wrap_bound(held, std::string(type->tp_name) + "." + text_of(name), Hold::kPinned);
  return true;
}

}  // namespace

// The mapping; null: the value is no such proxy, or its mapping is not modelled.
Value* proxied(Tracer& t, Value* value) {
  if (!is_proxy(value)) return nullptr;
  if (value->items.empty()) {
    if (!value->is_real() || value->source < 0) return nullptr;
    PyObject* mapping = *reinterpret_cast<PyObject**>(value->object + 1);  // Objects/descrobject.c: it comes first
    value->items = {t.load_field(value, sizeof(PyObject), mapping, t.source_text(value) + "(...)")};
  }
  Value* mapping = t.force(value->items[0]);
  return as_class(mapping) == nullptr && content_of(mapping) != nullptr ? mapping : nullptr;
}

// type.__dict__; the class's version is guarded.
Value* proxy_of_class(Tracer& t, PyTypeObject* type) {
  Value* proxy = t.make(ValueKind::kObject);
  proxy->type = &PyDictProxy_Type;
  proxy->items = {t.constant(reinterpret_cast<PyObject*>(type))};
  return proxy;
}

Flow make_proxy(Tracer& t, const std::vector<Value*>& arguments, PyObject* names) {
  Value* mapping = arguments.size() == 1 && names == nullptr ? t.force(arguments[0]) : nullptr;
  Value* content = mapping == nullptr ? nullptr : content_of(mapping);
  if (content == nullptr || content->kind != ValueKind::kDict) return t.stop(BreakReason::k_call, "mappingproxy");
  Value* proxy = t.make(ValueKind::kObject);
  proxy->type = &PyDictProxy_Type;
  proxy->items = {mapping};
  t.frame().stack.push_back(proxy);
  return Flow::kGo;
}

bool proxy_item(Tracer& t, Value* proxy, Value* key, Value** out, Flow* flow) {
  if (!is_proxy(proxy)) return false;
  if (Value* mapping = proxied(t, proxy)) {
    *flow = t.get_item(mapping, key, out);
    return true;
  }
  if (proxy->items.empty() || !in_class(t, proxy, key, out)) return false;
  *flow = *out != nullptr ? Flow::kGo : t.raise_builtin(PyExc_KeyError, {key}, {}, "a key that is not there");
  return true;
}

bool proxy_contains(Tracer& t, Value* proxy, Value* key, Value** out, Flow* flow) {
  if (!is_proxy(proxy)) return false;
  *flow = Flow::kGo;
  if (Value* mapping = proxied(t, proxy)) {
    *flow = t.contains(mapping, key, out);
    return true;
  }
  Value* found = nullptr;
  if (proxy->items.empty() || !in_class(t, proxy, key, &found)) return false;
  *out = t.constant(found != nullptr ? Py_True : Py_False);
  return true;
}

// A method of the proxy's type, called with it: the mapping's own of that name.
bool call_proxy(Tracer& t, PyObject* callable, std::vector<Value*>& arguments, PyObject* names, Value** out,
                Flow* flow) {
  if (Py_TYPE(callable) != &PyMethodDescr_Type || PyDescr_TYPE(callable) != &PyDictProxy_Type || arguments.empty())
    return false;
  auto* method = reinterpret_cast<PyMethodDescrObject*>(callable);
  Value* proxy = t.force(arguments[0]);
  std::string name = method->d_method->ml_name;
  if (!is_proxy(proxy)) return false;
  std::vector<Value*> rest(arguments.begin() + 1, arguments.end());
  bool gets = name == "get" && names == nullptr && !rest.empty() && rest.size() <= 2;
  if (names != nullptr || (name == "get" && !gets)) return false;
  if (Value* mapping = proxied(t, proxy)) {
    Value* bound = nullptr;
    if (gets && rest.size() == 1)
      rest.push_back(t.none());  // Objects/descrobject.c: whatever the mapping's own default
    *flow = t.attribute_now(mapping, PyDescr_NAME(callable), &bound);
    if (*flow == Flow::kGo) *flow = t.call_last(bound, std::move(rest), nullptr, out);
    return true;
  }
  if (!gets || proxy->items.empty() || !in_class(t, proxy, t.force(rest[0]), out)) return false;
  if (*out == nullptr) *out = rest.size() == 2 ? rest[1] : t.none();
  *flow = Flow::kGo;
  return true;
}

bool proxy_recipe(Tracer& t, Value* value, Recipe* recipe) {
  if (!is_proxy(value)) return false;
  recipe->kind = RecipeKind::kCallObject;
  auto part = [&](PyObject* object) { recipe->parts.push_back(t.recipe_of(t.constant(object))); };
  if (as_class(value->items[0]) == nullptr) {
    part(reinterpret_cast<PyObject*>(&PyDictProxy_Type));
  } else {
    PyObject* descriptor = PyDict_GetItemWithError(PyType_Type.tp_dict, interned.dict);
    if (descriptor == nullptr) throw Restart{};
    part(PyDict_GetItemString(Py_TYPE(descriptor)->tp_dict, "__get__"));
    part(descriptor);
  }
  recipe->parts.push_back(t.recipe_of(value->items[0]));
  return true;
}

}  // namespace kintsugi
