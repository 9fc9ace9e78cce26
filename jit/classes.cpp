// Classes made in the trace: class statements, type() with three arguments, and the descriptors that their bodies make.
// The body is followed. A step makes the class, as Python's own call of the metaclass does; while tracing a model of it
// is made here, of stand-ins for what only exists at run time, and the tracer asks the model what it asks of any class.
// The model never leaves the trace: wherever the class has to exist it is what the step has made.
#include <cstring>

#include "jit/containers.h"
#include "jit/exceptions.h"
#include "runtime/frame.h"

namespace kintsugi {

// A model is known to its bases (__subclasses__) for as long as it lives; as it holds itself, the collector would be
// the one to end it. What the collector does is done here.
Tracer::~Tracer() {
  for (PyTypeObject* model : made_classes_) PyType_Type.tp_clear(reinterpret_cast<PyObject*>(model));
}

bool Tracer::is_made_class(PyTypeObject* type) const {
  return std::find(made_classes_.begin(), made_classes_.end(), type) != made_classes_.end();
}

// ---- Stand-ins ------------------------------------------------------------------------------------------------------

static bool is_named(PyObject* name, const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; }

static bool is_special(PyObject* name) {
  std::string text = text_of(name);
  return text.size() > 4 && text.rfind("__", 0) == 0 && text.compare(text.size() - 2, 2, "__") == 0;
}

static bool is_descriptor_type(PyTypeObject* type) {
  return type == &PyStaticMethod_Type || type == &PyClassMethod_Type || type == &PyProperty_Type;
}
bool is_made_descriptor(const Value* value) {
  return value->kind == ValueKind::kObject && value->is_virtual() && is_descriptor_type(value->type);
}

// What the model holds in place of a value; null: the class is not followed.
Ref Tracer::stand_in_for(PyObject* name, Value* value) {
  PyObject* object;
  value = force(value);
  if (fold(value, &object)) {
    stand_ins_.emplace(object, value);  // a tuple may be the trace's alone
    return Ref::share(object);
  }
  if (value->is_constant()) {
    PyTypeObject* type = Py_TYPE(value->object);  // a metaclass may want to know its name
    bool told = !ensure_version(type) || _PyType_Lookup(type, interned.set_name) != nullptr;
    return told ? Ref() : Ref::share(value->object);
  }
  Ref made;
  if (value->kind == ValueKind::kFunction) {
    if (value->wrapped != nullptr && (value->wrapped->object != nullptr || !value->wrapped->entries.empty()))
      return Ref();  // functools.wraps copies what it has
    if (value->is_real() && value->object != nullptr) return Ref::share(value->object);
    Ref globals(PyDict_New());
    made = Ref(globals ? PyFunction_New(reinterpret_cast<PyObject*>(value->code), globals.get()) : nullptr);
    for (auto& [key, item] : value->entries)
      if (!fold(force(item), &object))
        return Ref();
      else if (made && PyObject_SetAttr(made.get(), key, object) < 0)
        throw Restart{};
  } else if (is_made_descriptor(value)) {
    Ref parts(PyTuple_New(static_cast<Py_ssize_t>(value->items.size())));
    for (size_t i = 0; parts && i < value->items.size(); ++i) {
      Ref part = stand_in_for(name, value->items[i]);
      if (!part) return Ref();
      PyTuple_SET_ITEM(parts.get(), static_cast<Py_ssize_t>(i), part.release());
    }
    made = Ref(parts ? PyObject_CallObject(reinterpret_cast<PyObject*>(value->type), parts.get()) : nullptr);
  } else if (made = field_of_model(*this, name, value); made) {
  } else if (is_named(name, "__slots__")) {
    bool runs = false;
    object = pure_argument(value, /*containers=*/true, &runs, 0);
    if (object != nullptr) stand_ins_.emplace(object, value);
    return object == nullptr || runs ? Ref() : Ref::share(object);
  } else if (PyTypeObject* own = value->kind == ValueKind::kObject && value->content == nullptr ? value->type : nullptr;
             own != nullptr && value->exception == nullptr && is_plain_class(own) && ensure_version(own)) {
    if (is_special(name)) return Ref();
    made = Ref(PyType_GenericAlloc(own, 0));  // what its class says of descriptors holds for it
  } else {
    PyTypeObject* type = type_of(value);
    bool known = type != nullptr && ensure_version(type) && type->tp_descr_get == nullptr &&
                 type->tp_descr_set == nullptr && _PyType_Lookup(type, interned.set_name) == nullptr;
    if (!known || (is_special(name) && !is_named(name, "__annotations__"))) return Ref();
    made = Ref(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  }
  if (!made) throw Restart{};
  keep(made.get());
  stand_ins_.emplace(made.get(), value);
  return made;
}

// ---- Descriptors ----------------------------------------------------------------------------------------------------

// staticmethod(f), classmethod(f), property(get, set, delete), and a property's setter and its like.
Flow Tracer::make_descriptor(PyObject* callable, std::vector<Value*>& arguments, PyObject* names, Value** out,
                             bool* handled) {
  if (names != nullptr || arguments.empty()) return Flow::kGo;
  auto is_function = [&](Value* value) { return force(value)->kind == ValueKind::kFunction; };
  auto* type = reinterpret_cast<PyTypeObject*>(callable);
  std::vector<Value*> parts;
  if (Py_TYPE(callable) == &PyMethodDescr_Type &&
      reinterpret_cast<PyDescrObject*>(callable)->d_type == &PyProperty_Type) {
    Value* self = force(arguments[0]);
    const char* name = reinterpret_cast<PyMethodDescrObject*>(callable)->d_method->ml_name;
    int index = std::strcmp(name, "getter") == 0    ? 0
                : std::strcmp(name, "setter") == 0  ? 1
                : std::strcmp(name, "deleter") == 0 ? 2
                                                    : -1;
    if (!is_made_descriptor(self) || index < 0 || arguments.size() != 2 || !is_function(arguments[1])) return Flow::kGo;
    type = &PyProperty_Type;
    parts = self->items;
    parts[static_cast<size_t>(index)] = force(arguments[1]);
  } else if (type == &PyProperty_Type && arguments.size() <= 3) {
    for (Value* argument : arguments) parts.push_back(force(argument));
    parts.resize(3, none());
    for (Value* part : parts)
      if (part->kind != ValueKind::kFunction && part != none()) return Flow::kGo;
  } else if ((type == &PyStaticMethod_Type || type == &PyClassMethod_Type) && arguments.size() == 1 &&
             is_function(arguments[0])) {
    parts = {force(arguments[0])};
  } else {
    return Flow::kGo;
  }
  *handled = true;
  *out = make(ValueKind::kObject);
  (*out)->type = type;
  (*out)->items = std::move(parts);
  return Flow::kGo;
}

// ---- Classes --------------------------------------------------------------------------------------------------------

// The class exists now. `model` tells what it is like.
Value* Tracer::made_class(PyObject* model, ValueId id) {
  auto* type = reinterpret_cast<PyTypeObject*>(model);
  Value* made = constant(model);
  made->id = id;
  known_[model] = key_values_[model] = made;
  checked_[model] = id;
  versions_.emplace(type, 1);
  made_classes_.push_back(type);
  return made;
}

// type(name, bases, names)
Flow Tracer::call_type_of_three(std::vector<Value*>& arguments, Value** out) {
  Value *bases = force(arguments[1]), *names = force(arguments[2]);
  std::vector<Value*>* items;
  if (!is_exact_tuple(bases) || !list_items(bases, &items) || names->kind != ValueKind::kDict)
    return stop(BreakReason::k_builtin, "type");
  std::vector<Value*> types;
  for (size_t i = 0; i < items->size(); ++i) types.push_back(item_at(bases, i));
  Value* copy = copy_of_dict(*this, names);
  if (copy == nullptr || dict_get(copy, interned.classcell) != nullptr) return stop(BreakReason::k_builtin, "type");
  return call_metaclass(&PyType_Type, {force(arguments[0]), tuple_of(std::move(types)), copy}, nullptr, nullptr, out);
}

// __name__ of the present frame's globals; null: not plain text.
Value* Tracer::module_name() {
  TraceFrame& now = frame();
  if (now.globals == nullptr) {
    complete_function(now.function);
    now.globals = force(now.function->globals);
  }
  Value* name = now.globals->kind == ValueKind::kDict ? dict_get(now.globals, interned.name) : nullptr;
  if (name != nullptr) name = force(name);
  return name != nullptr && name->is_constant() && PyUnicode_CheckExact(name->object) ? name : nullptr;
}

// ---- Instructions of a class's body ---------------------------------------------------------------------------------

static Flow no_such_name(Tracer& t, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return t.stop(BreakReason::k_raises, "name is not defined");
  Value* words = t.constant_owned(PyUnicode_FromFormat("name '%.200s' is not defined", text));
  return t.raise_builtin(PyExc_NameError, {words}, {{"name", t.constant(name)}}, "name is not defined");
}

Flow Tracer::class_step(const Instruction& in) {
  TraceFrame& now = frame();
  Value* names = now.names;
  if (in.opcode == Opcode::k_LOAD_BUILD_CLASS) {
    complete_function(now.function);
    Value* builtins = builtins_dict(*this, now);
    Value* build =
        builtins == nullptr || builtins->kind != ValueKind::kDict ? nullptr : dict_get(builtins, interned.build_class);
    if (build == nullptr) return stop(BreakReason::k_instruction, opcode_name(in.opcode));
    now.stack.push_back(build);
    return Flow::kGo;
  }
  if (names == nullptr) return stop(BreakReason::k_instruction, opcode_name(in.opcode));
  PyObject* code_names = now.bytecode->code->co_names;
  switch (in.opcode) {
    case Opcode::k_LOAD_NAME: {
      PyObject* name = PyTuple_GET_ITEM(code_names, in.argument);
      Value* value = dict_get(names, name);
      if (value == nullptr) return load_global(*this, name, /*push_null=*/false);
      if (is_automatic(value)) return stop(BreakReason::k_instruction, "an auto() in the body of an enum");
      now.stack.push_back(value);
      return Flow::kGo;
    }
    case Opcode::k_STORE_NAME: {
      if (now.stores_once && dict_get(names, PyTuple_GET_ITEM(code_names, in.argument)) != nullptr)
        return stop(BreakReason::k_instruction, "a name stored again in the body of an enum");
      dict_put(names, PyTuple_GET_ITEM(code_names, in.argument), now.stack.back());
      now.stack.pop_back();
      return Flow::kGo;
    }
    case Opcode::k_DELETE_NAME: {
      if (now.stores_once) return stop(BreakReason::k_instruction, "a deletion in the body of an enum");
      PyObject* name = PyTuple_GET_ITEM(code_names, in.argument);
      if (dict_get(names, name) == nullptr) return no_such_name(*this, name);
      return dict_delete_item(names, constant(name));
    }
    case Opcode::k_SETUP_ANNOTATIONS:
      if (dict_get(names, interned.annotations) == nullptr)
        dict_put(names, interned.annotations, make(ValueKind::kDict));
      return Flow::kGo;
    case Opcode::k_LOAD_CLASSDEREF: {
      PyObject* name = slot_name(now.bytecode->code, in.argument);
      Value* value = dict_get(names, name);
      if (value == nullptr) {
        Value* cell = now.locals[static_cast<size_t>(in.argument)] =
            force(now.locals[static_cast<size_t>(in.argument)]);
        value = cell->kind == ValueKind::kCell ? cell_content(cell, name) : nullptr;
      }
      if (value == nullptr) return stop(BreakReason::k_unbound);
      now.stack.push_back(value);
      return Flow::kGo;
    }
    default: return stop(BreakReason::k_instruction, opcode_name(in.opcode));
  }
}

}  // namespace kintsugi
