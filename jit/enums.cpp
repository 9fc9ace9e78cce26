// Classes of enum.Enum made in the trace. The metaclass changes the class as it makes it, by code of the library alone
// where the body holds atoms, auto() and functions: so while tracing the library makes a model of it, in a step the
// class. Members of the model stand for those of the class, and so do the containers in which the class keeps them.
#include <algorithm>
#include <map>

#include "jit/containers.h"
#include "runtime/frame.h"

namespace kintsugi {

namespace {

struct EnumLibrary {
  PyObject *meta = nullptr, *automatic = nullptr, *nothing = nullptr;
  std::vector<PyObject*> bases;

  // The module is imported by who uses it, perhaps later.
  bool find() {
    Ref module = meta == nullptr ? finished_module("enum") : Ref();
    if (module) {
      bases.clear();  // of an import that had not come to its end
      for (const char* base : {"Enum", "Flag"})
        if (PyObject* found = PyObject_GetAttrString(module.get(), base)) bases.push_back(found);
      automatic = PyObject_GetAttrString(module.get(), "auto");
      nothing = PyObject_GetAttrString(module.get(), "_auto_null");
      bool good = bases.size() == 2 && automatic != nullptr && PyType_Check(automatic) && nothing != nullptr;
      if (good) meta = PyObject_GetAttrString(module.get(), "EnumType");
    }
    PyErr_Clear();
    return meta != nullptr;
  }
};

EnumLibrary& library() {
  static EnumLibrary* found = new EnumLibrary;
  return *found;
}

// (metaclass, name, bases, names), as a class statement would.
PyObject* make_enum(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 4 || !PyDict_Check(arguments[3])) return PyErr_BadInternalCall(), nullptr;
  Ref names(PyObject_CallMethod(arguments[0], "__prepare__", "OO", arguments[1], arguments[2]));
  PyObject *key, *value;
  for (Py_ssize_t at = 0; names && PyDict_Next(arguments[3], &at, &key, &value);)
    if (PyObject_SetItem(names.get(), key, value) < 0) return nullptr;
  return names ? PyObject_CallFunctionObjArgs(arguments[0], arguments[1], arguments[2], names.get(), nullptr) : nullptr;
}

PyObject* enum_maker() {
  static PyObject* const function = function_for_steps("make_enum", make_enum);
  return function;
}

bool is_one_of(PyObject* name, std::initializer_list<const char*> texts) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; });
}

// What the model's body holds in place of a value; null: not followed.
Ref content(Tracer& t, PyObject* name, Value* value, std::map<Value*, Ref>* automatic) {
  std::string text = text_of(name);
  bool free = text.rfind("_", 0) != 0 && !is_one_of(name, {"name", "value", "mro"});
  if (!free && !is_one_of(name, {"__module__", "__qualname__", "__doc__", "__str__", "__repr__"})) return Ref();
  PyObject* atom;
  if (t.fold(value, &atom)) {
    t.keep(atom);
    return Ref::share(atom);
  }
  if (is_automatic(value)) {
    Value* given = value->entries.size() == 1 ? t.force(value->entries[0].second) : nullptr;
    bool plain = given != nullptr && given->object == library().nothing && given->kind == ValueKind::kObject;
    if (!plain || value->serial <= t.instruction_serial_) return Ref();  // it is told its number for good
    Ref& made = (*automatic)[value];
    if (!made) made = Ref(PyObject_CallNoArgs(library().automatic));
    return Ref::share(made.get());
  }
  bool is_function = value->kind == ValueKind::kFunction && !value->is_real();
  return is_function || is_made_descriptor(value) ? t.stand_in_for(name, value) : Ref();
}

// The object of that name in the class, as the run finds it.
ValueId loaded(Tracer& t, Value* made, PyObject* name) {
  static PyObject* const get = PyDict_GetItemString(standard_builtins(), "getattr");
  return t.run_call(get, {made, t.constant(name)});
}

Value* member_value(Tracer& t, Value* made, PyObject* name, PyObject* member) {
  if (auto known = t.stand_ins_.find(member); known != t.stand_ins_.end()) return known->second;  // an alias
  Ref fields(PyObject_GetAttr(member, interned.dict));
  if (!fields || !PyDict_Check(fields.get())) throw Restart{};
  Value* value = t.make(ValueKind::kObject);
  value->type = Py_TYPE(member);
  value->object = member;
  PyObject *key, *field;
  for (Py_ssize_t at = 0; PyDict_Next(fields.get(), &at, &key, &field);) {
    t.keep(key);
    t.keep(field);
    t.note_attribute(value, key, field == made->object ? made : t.constant(field));
  }
  value->id = loaded(t, made, name);
  t.keep(member);
  return t.stand_ins_[member] = value;
}

// Members, and where the class keeps them.
void describe(Tracer& t, Value* made) {
  auto* model = reinterpret_cast<PyTypeObject*>(made->object);
  auto held = [&](const char* name, PyObject** key) {
    Ref text(PyUnicode_InternFromString(name));
    t.keep(text.get());
    *key = text.get();
    return PyDict_GetItemWithError(model->tp_dict, text.get());
  };
  PyObject *key, *item, *name;
  for (const char* each : {"_member_map_", "_value2member_map_"}) {
    PyObject* map = held(each, &name);
    if (map == nullptr || !PyDict_CheckExact(map)) throw Restart{};
    Value* members = t.make(ValueKind::kDict);
    for (Py_ssize_t at = 0; PyDict_Next(map, &at, &key, &item);) {
      t.keep(key);
      t.dict_put(members, key, member_value(t, made, key, item));
    }
    members->id = loaded(t, made, name);
    t.stand_ins_[map] = members;
  }
  for (const char* each : {"_member_names_", "_unhashable_values_"}) {
    PyObject* list = held(each, &name);
    if (list == nullptr || !PyList_CheckExact(list)) continue;
    std::vector<Value*> items;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
      t.keep(PyList_GET_ITEM(list, i));
      items.push_back(t.constant(PyList_GET_ITEM(list, i)));
    }
    Value* value = t.list_of(std::move(items));
    value->id = loaded(t, made, name);
    t.stand_ins_[list] = value;
  }
  // All else is what the bases have too, or an atom, or of the model alone: a break where it is asked for.
  for (Py_ssize_t at = 0; PyDict_Next(model->tp_dict, &at, &key, &item);) {
    PyObject* inherited = _PyType_Lookup(model->tp_base, key);
    Ref bare;
    if (inherited != nullptr && Py_TYPE(inherited) == &PyStaticMethod_Type)
      bare = Ref(PyObject_GetAttr(inherited, interned.func));
    bool shared =
        item == inherited || item == bare.get() || is_atom(item) || (PyType_Check(item) && item != made->object);
    if (!shared && t.stand_ins_.count(item) == 0) t.stand_ins_[item] = nullptr;
  }
}

}  // namespace

// An auto() whose value nobody has asked for.
bool is_automatic(const Value* value) {
  return value->kind == ValueKind::kObject && value->is_virtual() && value->type != nullptr &&
         reinterpret_cast<PyObject*>(value->type) == library().automatic;
}

// Whether a class statement with these bases makes an enum that is followed.
bool makes_enum(Tracer& t, PyTypeObject* meta, const std::vector<Value*>& bases) {
  if (bases.size() != 1 || !PyType_IsSubtype(meta, &PyType_Type) || meta == &PyType_Type || !library().find())
    return false;
  const std::vector<PyObject*>& known = library().bases;
  return reinterpret_cast<PyObject*>(meta) == library().meta &&
         std::find(known.begin(), known.end(), t.force(bases[0])->object) != known.end();
}

// The metaclass's call, after the body of the class.
Flow make_enum_class(Tracer& t, PyTypeObject* meta, Value* name, const std::vector<Value*>& bases, Value* names,
                     Value* cell, Value** out) {
  auto refused = [&](const std::string& what) {
    PyErr_Clear();
    return t.stop(BreakReason::k_instruction, "an enum with " + what);
  };
  if (!name->is_constant() || !PyUnicode_CheckExact(name->object)) return refused("such a name");
  Ref held(PyDict_New()), types(PyTuple_Pack(1, t.force(bases[0])->object));
  if (!held || !types || enum_maker() == nullptr) throw Restart{};
  std::map<Value*, Ref> automatic;
  for (auto& [key, value] : names->entries) {
    if (value == nullptr || PyUnicode_CompareWithASCIIString(key, "__classcell__") == 0) continue;
    Ref stands = content(t, key, t.force(value), &automatic);
    if (!stands) return refused("such a " + text_of(key));
    if (PyDict_SetItem(held.get(), key, stands.get()) < 0) throw Restart{};
  }
  PyObject* self = reinterpret_cast<PyObject*>(meta);
  t.expect_foreign_code();  // other threads get a turn in the library's code, and handlers of signals
  Ref model(PyObject_CallFunctionObjArgs(enum_maker(), self, name->object, types.get(), held.get(), nullptr));
  if (!model && is_of_a_handler(PyErr_Occurred())) return t.fail(Failure::kPending, "interrupted");
  if (!model || !PyType_Check(model.get())) return refused("an error");
  t.keep(model.get());
  t.makes_class_ = true;
  t.makes_inner_class_ = t.call_now_depth_ > 0;
  ValueId id = t.run_call(enum_maker(), {t.constant(self), name, t.tuple_of(bases), names});
  *out = t.made_class(model.get(), id);
  if (cell != nullptr) {
    t.changing(cell);
    cell->items = {*out};
    cell->complete = true;
  }
  for (auto& [value, told] : automatic) {
    Ref number(PyObject_GetAttrString(told.get(), "value"));
    if (!number) throw Restart{};
    t.keep(number.get());
    value->entries[0].second = t.constant(number.get());
  }
  describe(t, *out);
  t.makes_class_ = t.makes_inner_class_ = false;
  return Flow::kGo;
}

}  // namespace kintsugi
