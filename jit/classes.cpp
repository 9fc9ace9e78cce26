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

// ---- Class statements -----------------------------------------------------------------------------------------------

// type, ABCMeta, or one that derives from type and leaves to it how a class is made.
static bool is_plain_meta(Tracer& t, PyTypeObject* meta) {
  if (meta == &PyType_Type) return true;
  if (!t.ensure_version(meta)) return false;
  if (is_abstract_meta(meta)) return true;
  static PyObject *const prepare = PyUnicode_InternFromString("__prepare__"), *const mro =
                                                                                  PyUnicode_InternFromString("mro");
  return is_heap_type(meta) && meta->tp_new == PyType_Type.tp_new && meta->tp_init == PyType_Type.tp_init &&
         meta->tp_finalize == nullptr && inherits(meta, prepare, &PyType_Type) && inherits(meta, mro, &PyType_Type) &&
         inherits(meta, interned.getattribute, &PyType_Type) && Py_TYPE(meta)->tp_call == PyType_Type.tp_call;
}

// Null: it, or what the class derives from, has a word in how a class is made. `given`: metaclass=, or null.
static PyTypeObject* metaclass_of(Tracer& t, const std::vector<Value*>& bases, Value* given) {
  PyTypeObject* winner = given == nullptr ? &PyType_Type : as_class(t.force(given));
  if (winner == nullptr || !PyType_IsSubtype(winner, &PyType_Type) || !is_plain_meta(t, winner)) return nullptr;
  for (Value* each : bases) {
    PyTypeObject* base = as_class(t.force(each));
    if (base == nullptr || !t.ensure_version(base)) return nullptr;
    PyTypeObject* meta = Py_TYPE(base);
    if (!is_plain_meta(t, meta) || !inherits(base, interned.init_subclass, &PyBaseObject_Type)) return nullptr;
    if (PyType_IsSubtype(winner, meta)) continue;
    if (!PyType_IsSubtype(meta, winner)) return nullptr;
    winner = meta;
  }
  return winner;
}

// Whether the value may have an __isabstractmethod__, which ABCMeta asks for, other than one that its stand-in has.
static bool may_be_abstract(Tracer& t, Value* value) {
  value = t.force(value);
  if (is_made_descriptor(value))
    return std::any_of(value->items.begin(), value->items.end(), [&](Value* part) { return may_be_abstract(t, part); });
  if (PyTypeObject* type = as_class(value))
    return Py_TYPE(type) != &PyType_Type || !t.ensure_version(type) ||
           _PyType_Lookup(type, interned.isabstract) != nullptr;
  switch (value->kind) {
    case ValueKind::kConstant: return !is_atom(value->object);
    case ValueKind::kFunction: return value->is_real();
    case ValueKind::kObject:
    case ValueKind::kMethod:
    case ValueKind::kPartial:
    case ValueKind::kSuper: return true;
    default: return false;
  }
}

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

// metaclass(name, bases, names), where no code of the program has a part in it.
Flow Tracer::make_class(Value* name, std::vector<Value*> bases, Value* given_meta, Value* names, Value* cell,
                        Value** out) {
  PyTypeObject* meta = metaclass_of(*this, bases, given_meta);
  if (meta == nullptr || !name->is_constant() || !PyUnicode_CheckExact(name->object))
    return stop(BreakReason::k_instruction, "a class whose making runs code");
  Ref held(PyDict_New()), types(PyTuple_New(static_cast<Py_ssize_t>(bases.size())));
  if (!held || !types) throw Restart{};
  for (size_t i = 0; i < bases.size(); ++i)
    PyTuple_SET_ITEM(types.get(), static_cast<Py_ssize_t>(i), Py_NewRef(force(bases[i])->object));
  for (auto& [key, value] : names->entries) {
    if (value == nullptr) continue;
    if (!PyUnicode_CheckExact(key)) return stop(BreakReason::k_instruction, "a class with names that are no text");
    if (is_named(key, "__classcell__")) continue;
    if (is_abstract_meta(meta) && may_be_abstract(*this, value))
      return stop(BreakReason::k_instruction, "an abstract class with such a " + text_of(key));
    Ref stand_in = stand_in_for(key, value);
    if (!stand_in) return stop(BreakReason::k_instruction, "a class with such a " + text_of(key));
    if (PyDict_SetItem(held.get(), key, stand_in.get()) < 0) throw Restart{};
  }
  Ref model(
      PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(meta), name->object, types.get(), held.get(), nullptr));
  if (!model) return stop(BreakReason::k_raises, "a class statement");
  keep(model.get());
  // Made once more where the instruction is performed once more: nobody knows the first one.
  makes_inner_class_ = call_now_depth_ > 0;
  ValueId id = run_call(reinterpret_cast<PyObject*>(meta), {name, tuple_of(std::move(bases)), names});
  makes_inner_class_ = false;
  *out = made_class(model.get(), id);
  if (cell != nullptr) {
    changing(cell);
    cell->items = {*out};
    cell->complete = true;
  }
  return Flow::kGo;
}

// __build_class__(body, name, *bases). The body runs within the instruction, on names of its own.
Flow Tracer::build_class(std::vector<Value*>& arguments, PyObject* names, Value** out) {
  Value* body = arguments.size() < 2 ? nullptr : force(arguments[0]);
  bool has_meta = names != nullptr && PyTuple_GET_SIZE(names) == 1 && is_named(PyTuple_GET_ITEM(names, 0), "metaclass");
  bool plain =
      body != nullptr && (names == nullptr || has_meta) && body->kind == ValueKind::kFunction && !body->is_real();
  if (!plain) return stop(BreakReason::k_instruction, "a class statement with keywords");
  const Bytecode& bytecode = bytecode_of(body->code);
  TraceFrame& caller = frame();
  auto known = input_.memory->not_inlined.find({caller.bytecode->code, caller.at});
  if (known != input_.memory->not_inlined.end()) leaf_strict_ = known->second;
  bool followed = known == input_.memory->not_inlined.end() && !bytecode.calls_frame_readers &&
                  bytecode.odd == nullptr && input_.policy.inline_calls && has_room_for(body->code);
  if (!followed) return stop(BreakReason::k_instruction, "a class statement");
  Value* meta = has_meta ? arguments.back() : nullptr;
  std::vector<Value*> bases(arguments.begin() + 2, arguments.end() - (has_meta ? 1 : 0));
  bool typed = !has_meta && is_typed_tuple(*this, bases);
  if (!typed && metaclass_of(*this, bases, meta) == nullptr)
    return stop(BreakReason::k_instruction, "a class whose making runs code");
  Value *space = make(ValueKind::kDict), *cell = nullptr;
  auto enter = [&](Value**) {
    frames_.emplace_back();
    TraceFrame& callee = frames_.back();
    callee.bytecode = &bytecode;
    callee.function = body;
    callee.names = space;
    callee.locals.assign(static_cast<size_t>(body->code->co_nlocalsplus), null());
    callee.number = ++frame_count_;
    return Flow::kGo;
  };
  if (Flow flow = at_once(enter, &cell); flow != Flow::kGo) return flow;
  if (cell == nullptr) return stop(BreakReason::k_internal, "a class statement");
  if (typed && cell->kind == ValueKind::kCell) return stop(BreakReason::k_instruction, "a named tuple with super()");
  if (typed) return make_typed_tuple(*this, force(arguments[1]), force(bases[0]), space, out);
  return make_class(force(arguments[1]), std::move(bases), meta, space, cell->kind == ValueKind::kCell ? cell : nullptr,
                    out);
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
  if (dict_get(copy, interned.module) == nullptr) {  // of the frame that calls, which there may be none of then
    Value* module = module_name();
    if (module == nullptr) return stop(BreakReason::k_builtin, "type");
    dict_put(copy, interned.module, module);
  }
  return make_class(force(arguments[0]), std::move(types), nullptr, copy, nullptr, out);
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
      now.stack.push_back(value);
      return Flow::kGo;
    }
    case Opcode::k_STORE_NAME: {
      dict_put(names, PyTuple_GET_ITEM(code_names, in.argument), now.stack.back());
      now.stack.pop_back();
      return Flow::kGo;
    }
    case Opcode::k_DELETE_NAME: {
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
