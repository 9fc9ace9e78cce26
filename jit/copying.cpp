// copy.deepcopy(), which remembers objects by their numbers, and copy.copy() of plain instances: known by their code,
// as long as no class has a say in it. What is copied is atoms, lists, tuples, dicts and plain instances made in the
// trace; of instances from before nothing says which attributes there are.
#include "jit/changing_classes.h"
#include "jit/containers.h"
#include "runtime/frame.h"

namespace kintsugi {

namespace {

// What nobody may have a say in, beside object itself.
const std::vector<PyObject*>& hooks() {
  static const std::vector<PyObject*>* const names = [] {
    auto* made = new std::vector<PyObject*>;
    for (const char* name : {"__copy__", "__deepcopy__", "__reduce_ex__", "__reduce__", "__getstate__", "__setstate__",
                             "__getnewargs_ex__", "__getnewargs__", "__getattr__", "__getattribute__", "__new__",
                             "__setattr__", "__class__", "__dict__"})
      if (PyObject* text = PyUnicode_InternFromString(name)) made->push_back(text);
    return made;
  }();
  return *names;
}

// Whether the table `name` of the module says nothing of the class, now and in later calls.
bool is_unlisted(Tracer& t, const char* module, const char* name, PyTypeObject* type) {
  Ref owner = finished_module(module), table(owner ? PyObject_GetAttrString(owner.get(), name) : nullptr);
  PyErr_Clear();
  if (!table || !PyDict_CheckExact(table.get())) return false;
  Value* rows = t.wrap_bound(table.get(), std::string(module) + "." + name);
  return rows->kind == ValueKind::kDict && !rows->mutated &&
         t.dict_get(rows, reinterpret_cast<PyObject*>(type)) == nullptr;
}

// `copiers`: the table of the copy module that is asked first.
bool is_plain_instance(Tracer& t, const Value* value, const char* copiers) {
  if (value->kind != ValueKind::kObject || !value->is_virtual() || value->exception != nullptr ||
      value->content != nullptr || !value->items.empty() || value->type == nullptr || !is_plain_class(value->type) ||
      t.is_made_class(value->type) || !t.ensure_version(value->type) || inherits_changing(value->type))
    return false;
  if (!Py_IS_TYPE(value->type, &PyType_Type)) return false;  // the class is asked for __copy__, and so its own class
  for (PyObject* name : hooks()) {
    PyObject *own = _PyType_Lookup(value->type, name), *inherited = _PyType_Lookup(&PyBaseObject_Type, name);
    bool is_dict = PyUnicode_Compare(name, interned.dict) == 0 && own != nullptr && Py_TYPE(own) == &PyGetSetDescr_Type;
    if (own != inherited && !is_dict) return false;
    for (auto& entry : value->entries)  // some are asked of the instance itself
      if (PyUnicode_Compare(entry.first, name) == 0) return false;
  }
  return is_unlisted(t, "copy", copiers, value->type) && is_unlisted(t, "copyreg", "dispatch_table", value->type);
}

bool is_atomic_throughout(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyTuple_Type) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      if (!is_atomic_throughout(PyTuple_GET_ITEM(object, i))) return false;
    return true;
  }
  return type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || type == &PyUnicode_Type ||
         type == &PyBytes_Type || type == &PyComplex_Type || type == &PyRange_Type || type == &PyCFunction_Type ||
         object == Py_None || object == Py_Ellipsis || object == Py_NotImplemented;
}

// What deepcopy() answers as it is.
bool is_its_own_copy(Tracer& t, Value* value) {
  if (value->is_number() || value->kind == ValueKind::kFunction || as_class(value) != nullptr) return true;
  if (t.is_pure_object(value))
    return value->type == &PyUnicode_Type || value->type == &PyLong_Type || value->type == &PyBytes_Type ||
           value->type == &PyComplex_Type;
  return value->is_constant() && is_atomic_throughout(value->object);
}

// Whether the copy module still copies lists, tuples or dicts with its function of that name.
bool is_copied_by(Tracer& t, PyTypeObject* type, const char* name) {
  Ref module = finished_module("copy");
  if (!module) return false;
  Ref table(PyObject_GetAttrString(module.get(), "_deepcopy_dispatch"));
  Ref usual(PyObject_GetAttrString(module.get(), name));
  PyErr_Clear();
  if (!table || !PyDict_CheckExact(table.get()) || !usual || !PyFunction_Check(usual.get())) return false;
  Value* rows = t.wrap_bound(table.get(), "copy._deepcopy_dispatch");
  if (rows->kind != ValueKind::kDict || rows->mutated) return false;
  Value* found = t.dict_get(rows, reinterpret_cast<PyObject*>(type));
  if (found != nullptr) found = t.force(found);
  return found != nullptr && found->kind == ValueKind::kFunction &&
         found->code == code_of(reinterpret_cast<PyFunctionObject*>(usual.get()));
}

using Copies = std::unordered_map<const Value*, Value*>;

// Null: not modelled.
Value* deep_copy(Tracer& t, Value* value, Copies* copies) {
  value = t.force(value);
  if (auto known = copies->find(value); known != copies->end()) return known->second;
  Nesting nesting(t);
  if (nesting.is_much()) return nullptr;
  if (is_its_own_copy(t, value)) return value;
  std::vector<Value*>* items;
  if (value->kind == ValueKind::kList && value->owner == nullptr) {
    if (!t.list_items(value, &items) || !is_copied_by(t, &PyList_Type, "_deepcopy_list")) return nullptr;
    Value* made = (*copies)[value] = t.list_of({});
    for (size_t i = 0; i < items->size(); ++i) {
      Value* part = deep_copy(t, t.item_at(value, i), copies);
      if (part == nullptr) return nullptr;
      made->items.push_back(part);
    }
    return made;
  }
  if (t.is_exact_tuple(value)) {
    if (!t.list_items(value, &items) || !is_copied_by(t, &PyTuple_Type, "_deepcopy_tuple")) return nullptr;
    std::vector<Value*> parts;
    bool same = true;
    for (size_t i = 0; i < items->size(); ++i) {
      Value* item = t.item_at(value, i);
      parts.push_back(deep_copy(t, item, copies));
      if (parts.back() == nullptr) return nullptr;
      same = same && parts.back() == item;
    }
    if (auto known = copies->find(value); known != copies->end()) return known->second;
    return (*copies)[value] = same ? value : t.tuple_of(std::move(parts));
  }
  if (value->kind == ValueKind::kDict && value->owner == nullptr) {
    if (!t.dict_complete(value) || t.has_hashed_keys(value) || !is_copied_by(t, &PyDict_Type, "_deepcopy_dict"))
      return nullptr;
    Value* made = (*copies)[value] = t.make(ValueKind::kDict);
    for (size_t i = 0; i < value->entries.size(); ++i) {
      PyObject* key = value->entries[i].first;
      Value* item = t.dict_get(value, key);
      if (item == nullptr) continue;
      Value* part = is_its_own_copy(t, t.key_value(key)) ? deep_copy(t, item, copies) : nullptr;
      if (part == nullptr) return nullptr;
      t.dict_put(made, key, part);
    }
    return made;
  }
  if (!is_plain_instance(t, value, "_deepcopy_dispatch")) return nullptr;
  Value* made = (*copies)[value] = t.make(ValueKind::kObject);
  made->type = value->type;
  for (size_t i = 0; i < value->entries.size(); ++i) {
    auto [name, held] = value->entries[i];
    Value* part = held == nullptr ? nullptr : deep_copy(t, held, copies);
    if (held != nullptr && part == nullptr) return nullptr;
    if (part != nullptr) made->entries.emplace_back(name, part);
  }
  return made;
}

}  // namespace

// False: another function, or a copy that is not modelled: its call is followed as any other's.
bool call_copy(Tracer& t, Value* function, const std::vector<Value*>& arguments, PyObject* names, Value** out) {
  static PyCodeObject *deep = nullptr, *shallow = nullptr;
  if (names != nullptr || arguments.size() != 1 || function->code == nullptr) return false;
  if (is_code_of(function->code, "copy", "deepcopy", &deep)) {
    Copies copies;
    *out = deep_copy(t, arguments[0], &copies);
    return *out != nullptr;
  }
  Value* value = t.force(arguments[0]);
  if (!is_code_of(function->code, "copy", "copy", &shallow) || !is_plain_instance(t, value, "_copy_dispatch"))
    return false;
  *out = t.make(ValueKind::kObject);
  (*out)->type = value->type;
  for (auto& [name, held] : value->entries)
    if (held != nullptr) (*out)->entries.emplace_back(name, held);
  return true;
}

}  // namespace kintsugi
