// How a class comes to be: class statements and calls of metaclasses. The metaclass's own code is followed; at its
// bottom is type.__new__, which calls __set_name__ of what the body holds and __init_subclass__ of the bases. A step
// makes the class without calling these, and they are followed then: the last one as a frame, the others within the
// instruction, which is a break from the start where what they do cannot be done once only.
#include <algorithm>

#include "jit/changing_classes.h"
#include "jit/containers.h"
#include "runtime/frame.h"

namespace kintsugi {

static bool is_named(PyObject* name, const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; }

// ---- type.__new__ that calls nobody ---------------------------------------------------------------------------------

static getattrofunc super_attribute = nullptr;

static PyObject* quiet_super_attribute(PyObject* self, PyObject* name) {
  if (PyUnicode_Compare(name, interned.init_subclass) == 0)
    return PyObject_GetAttr(reinterpret_cast<PyObject*>(&PyBaseObject_Type), name);
  return super_attribute(self, name);
}

static PyObject* abc_init() {
  static PyObject* const found = [] {
    Ref module = import_module("_abc");
    PyObject* function = module ? PyObject_GetAttrString(module.get(), "_abc_init") : nullptr;
    PyErr_Clear();
    return function;
  }();
  return found;
}

// (metaclass, name, bases, names, late, abstract): names in `late` get their values when the class exists. While
// type.__new__ runs nothing else can: the lock is held, the collector is off, no base has another metaclass that it
// would call, and super(), through which it would ask for __init_subclass__ (Objects/typeobject.c,
// type_new_init_subclass), answers object's.
static PyObject* make_bare_class(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  PyObject *late = count == 6 ? arguments[4] : nullptr, *names = count == 6 ? arguments[3] : nullptr;
  if (late == nullptr || !PyType_Check(arguments[0]) || !PyTuple_Check(late) || !PyDict_Check(names))
    return PyErr_BadInternalCall(), nullptr;
  auto* meta = reinterpret_cast<PyTypeObject*>(arguments[0]);
  if (!PyTuple_Check(arguments[2]) || _PyType_CalculateMetaclass(meta, arguments[2]) != meta)
    return PyErr_BadInternalCall(), nullptr;
  Ref copy(PyDict_Copy(names));
  for (Py_ssize_t i = 0; copy && i < PyTuple_GET_SIZE(late); ++i)
    if (PyDict_SetItem(copy.get(), PyTuple_GET_ITEM(late, i), Py_None) < 0) return nullptr;
  Ref all(copy ? PyTuple_Pack(3, arguments[1], arguments[2], copy.get()) : nullptr);
  if (!all) return nullptr;
  int collects = PyGC_Disable();
  super_attribute = PySuper_Type.tp_getattro;
  PySuper_Type.tp_getattro = quiet_super_attribute;
  Ref made(PyType_Type.tp_new(meta, all.get(), nullptr));
  PySuper_Type.tp_getattro = super_attribute;
  if (collects != 0) PyGC_Enable();
  for (Py_ssize_t i = 0; made && i < PyTuple_GET_SIZE(late); ++i) {
    PyObject *name = PyTuple_GET_ITEM(late, i), *value = PyDict_GetItemWithError(names, name);
    if (value == nullptr || PyType_Type.tp_setattro(made.get(), name, value) < 0) return nullptr;
  }
  if (made && arguments[5] == Py_True && !Ref(PyObject_CallOneArg(abc_init(), made.get()))) return nullptr;
  return made.release();
}

static PyObject* bare_class_maker() {
  static PyObject* const function = function_for_steps("make_class", make_bare_class);
  return function;
}

// ---- Metaclasses ----------------------------------------------------------------------------------------------------

// It derives from type, and leaves to it all but __new__, __init__, __prepare__ and how its classes are called.
static bool is_known_meta(Tracer& t, PyTypeObject* meta) {
  if (meta == &PyType_Type) return true;
  static PyObject* const mro = PyUnicode_InternFromString("mro");
  if (!PyType_IsSubtype(meta, &PyType_Type) || !is_heap_type(meta) || !t.ensure_version(meta)) return false;
  PyTypeObject* above = t.metaclass(meta);
  return meta->tp_finalize == nullptr && inherits(meta, mro, &PyType_Type) &&
         inherits(meta, interned.getattribute, &PyType_Type) && above != nullptr &&
         above->tp_call == PyType_Type.tp_call;
}

// As _PyType_CalculateMetaclass. Null: they are not known, or in conflict.
static PyTypeObject* metaclass_of(Tracer& t, PyTypeObject* winner, const std::vector<Value*>& bases) {
  if (!is_known_meta(t, winner)) return nullptr;
  for (Value* each : bases) {
    PyTypeObject* base = as_class(t.force(each));
    if (base == nullptr || !t.ensure_version(base)) return nullptr;
    PyTypeObject* meta = t.metaclass(base);
    if (meta == nullptr || !is_known_meta(t, meta)) return nullptr;
    if (PyType_IsSubtype(winner, meta)) continue;
    if (!PyType_IsSubtype(meta, winner)) return nullptr;
    winner = meta;
  }
  return winner;
}

static bool is_types_own(PyTypeObject* meta, PyObject* name) { return inherits(meta, name, &PyType_Type); }

static bool makes_abstract(PyTypeObject* meta) {  // ABCMeta.__new__
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(meta->tp_mro); ++i) {
    auto* each = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(meta->tp_mro, i));
    if (is_abstract_meta(each)) return inherits(meta, interned.new_, each);
  }
  return false;
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

// A call that is part of the present instruction and comes to its end within it. What it changes is changed for good:
// see record() and exit_at().
Flow Tracer::as_part_of_statement(const std::function<Flow(Value**)>& operation, Value** out) {
  bool once = call_now_depth_ == statement_depth_;
  statement_depth_ += once;
  Flow flow = at_once(operation, out);
  statement_depth_ -= once;
  return flow;
}

// ---- What type.__new__ calls ----------------------------------------------------------------------------------------

static bool names_itself(Tracer& t, Value* value) {
  PyTypeObject* type = value->kind == ValueKind::kObject && value->content == nullptr ? value->type : nullptr;
  return type != nullptr && is_plain_class(type) && t.ensure_version(type) &&
         _PyType_Lookup(type, interned.set_name) != nullptr;
}

static Flow call_set_name(Tracer& t, Value* value, Value* made, PyObject* name) {
  Value* method = t.find_in_class(value->type, interned.set_name);
  if (method == nullptr || method->kind != ValueKind::kFunction)
    return t.stop(BreakReason::k_instruction, "a class with such a __set_name__");
  Value* ignored = nullptr;
  Flow flow = t.as_part_of_statement(
      [&](Value**) {
        return t.call(method, {value, made, t.constant(name)}, nullptr);
      },
      &ignored);
  if (flow == Flow::kRaise) t.break_from_the_start(BreakReason::k_raises, "__set_name__");
  return flow;
}

// super(made, made).__init_subclass__; *out null: object's.
static Flow find_init_subclass(Tracer& t, PyTypeObject* made, Value** out) {
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(made->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(made->tp_mro, i));
    PyObject* found =
        base->tp_dict == nullptr ? nullptr : PyDict_GetItemWithError(base->tp_dict, interned.init_subclass);
    if (found == nullptr) continue;
    if (base == &PyBaseObject_Type) return *out = nullptr, Flow::kGo;
    if (Py_TYPE(found) != &PyClassMethod_Type)
      return t.stop(BreakReason::k_instruction, "a class with such an __init_subclass__");
    return t.bind_descriptor(found, made, nullptr, interned.init_subclass, out);
  }
  return t.stop(BreakReason::k_internal, "a class statement");
}

// type.__new__(meta, name, bases, names, **named). `last`: nothing follows it in the instruction; then *out stays null
// where __init_subclass__ is a frame to come, below which the class is pushed.
Flow Tracer::make_class(PyTypeObject* meta, const ClassParts& parts, bool last, Value** out) {
  Value* names = parts.names;
  if (!parts.name->is_constant() || !PyUnicode_CheckExact(parts.name->object) || names->kind != ValueKind::kDict)
    return stop(BreakReason::k_instruction, "a class of such a name");
  bool is_abstract = makes_abstract(meta);
  if (names->is_real() || dict_get(names, interned.module) == nullptr) {  // of the frame that calls: it may not exist
    names = copy_of_dict(*this, names);
    Value* module = names == nullptr ? nullptr : dict_get(names, interned.module);
    if (names != nullptr && module == nullptr) module = module_name();
    if (module == nullptr) return stop(BreakReason::k_instruction, "a class of such names");
    dict_put(names, interned.module, module);
  }
  Ref held(PyDict_New()), types(PyTuple_New(static_cast<Py_ssize_t>(parts.bases.size())));
  if (!held || !types) throw Restart{};
  for (size_t i = 0; i < parts.bases.size(); ++i)
    PyTuple_SET_ITEM(types.get(), static_cast<Py_ssize_t>(i), Py_NewRef(force(parts.bases[i])->object));
  Value* cell = nullptr;
  std::vector<std::pair<PyObject*, Value*>> named_later;
  for (auto& [key, value] : names->entries) {
    if (value == nullptr) continue;
    Value* each = force(value);
    if (!PyUnicode_CheckExact(key)) return stop(BreakReason::k_instruction, "a class with names that are no text");
    if (is_named(key, "__classcell__")) {
      cell = each;
      if (cell->kind != ValueKind::kCell) return stop(BreakReason::k_raises, "a class statement");
      continue;
    }
    if (is_abstract && may_be_abstract(*this, each))
      return stop(BreakReason::k_instruction, "an abstract class with such a " + text_of(key));
    Ref stand_in = stand_in_for(key, each);
    if (!stand_in) return stop(BreakReason::k_instruction, "a class with such a " + text_of(key));
    if (PyDict_SetItem(held.get(), key, stand_in.get()) < 0) throw Restart{};
    if (names_itself(*this, each)) named_later.emplace_back(key, each);
  }
  Ref late(PyTuple_New(static_cast<Py_ssize_t>(named_later.size())));
  for (size_t i = 0; late && i < named_later.size(); ++i)
    PyTuple_SET_ITEM(late.get(), static_cast<Py_ssize_t>(i), Py_NewRef(named_later[i].first));
  PyObject* maker = bare_class_maker();
  if (!late || maker == nullptr) throw Restart{};
  Ref model(PyObject_CallFunctionObjArgs(maker, reinterpret_cast<PyObject*>(meta), parts.name->object, types.get(),
                                         held.get(), late.get(), Py_False, nullptr));
  if (!model) return stop(BreakReason::k_raises, "a class statement");
  keep(model.get());
  auto* type = reinterpret_cast<PyTypeObject*>(model.get());
  Value* told = nullptr;
  if (Flow flow = find_init_subclass(*this, type, &told); flow != Flow::kGo) return flow;
  if (told == nullptr && !parts.named.empty()) return stop(BreakReason::k_raises, "a class statement with keywords");
  auto become_abstract = [&] {
    if (!Ref(PyObject_CallOneArg(abc_init(), model.get()))) throw Restart{};
  };
  bool later = is_abstract && (told != nullptr || !named_later.empty());  // ABCMeta looks at what these made of it
  if (is_abstract && !later) become_abstract();
  // Made once more where the instruction is performed once more: nobody knows the first one.
  makes_inner_class_ = call_now_depth_ > 0 || !named_later.empty() || !last || later;
  makes_class_ = true;
  ValueId id = run_call(maker, {constant(reinterpret_cast<PyObject*>(meta)), parts.name, tuple_of(parts.bases), names,
                                constant(late.get()), constant(is_abstract && !later ? Py_True : Py_False)});
  makes_class_ = makes_inner_class_ = false;
  keep(late.get());
  Value* made = made_class(model.get(), id);
  if (cell != nullptr) {
    changing(cell);
    cell->items = {made};
    cell->complete = true;
  }
  for (auto& [key, value] : named_later)
    if (Flow flow = call_set_name(*this, value, made, key); flow != Flow::kGo) return flow;
  auto finish = [&] {
    if (later) {
      become_abstract();
      makes_class_ = true;
      run_call(abc_init(), {made});
      makes_class_ = false;
    }
    return *out = made, Flow::kGo;
  };
  if (told == nullptr) return finish();
  if (told->kind != ValueKind::kMethod || force(told->items[0])->kind != ValueKind::kFunction)
    return stop(BreakReason::k_instruction, "a class with such an __init_subclass__");
  std::vector<Value*> arguments{told->items[1]};
  arguments.insert(arguments.end(), parts.named.begin(), parts.named.end());
  if (last && !later) {
    frame().stack.push_back(made);
    return inline_call(force(told->items[0]), std::move(arguments), parts.keywords, ReturnRule::kDiscard);
  }
  Value* ignored = nullptr;
  *out = made;
  Flow flow = as_part_of_statement([&](Value**) { return call(told->items[0], std::move(arguments), parts.keywords); },
                                   &ignored);
  return flow == Flow::kGo ? finish() : flow;
}

// ---- Calls of metaclasses -------------------------------------------------------------------------------------------

// Of arguments (name, bases, names, **keywords); false: they are others.
bool Tracer::class_parts(const std::vector<Value*>& arguments, PyObject* keywords, ClassParts* parts) {
  size_t named = keywords == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(keywords));
  if (arguments.size() != 3 + named) return false;
  Value* bases = force(arguments[1]);
  std::vector<Value*>* items;
  if (!is_exact_tuple(bases)) return false;
  if (bases->is_constant()) {
    if (PyTuple_GET_SIZE(bases->object) != 0) return false;
  } else if (list_items(bases, &items)) {
    for (size_t i = 0; i < items->size(); ++i) parts->bases.push_back(item_at(bases, i));
  }
  parts->name = force(arguments[0]);
  parts->names = force(arguments[2]);
  parts->named.assign(arguments.begin() + 3, arguments.end());
  parts->keywords = named == 0 ? nullptr : keywords;
  return true;
}

// meta(name, bases, names, **keywords). `cell`: of the class statement's body, or null.
Flow Tracer::call_metaclass(PyTypeObject* meta, const std::vector<Value*>& arguments, PyObject* keywords, Value* cell,
                            Value** out) {
  auto refused = [&] { return stop(BreakReason::k_instruction, "a class whose making runs code"); };
  ClassParts parts;
  if (!class_parts(arguments, keywords, &parts) || !is_known_meta(*this, meta)) return refused();
  if (meta != &PyType_Type && !is_types_own(Py_TYPE(meta), interned.call)) return refused();
  PyObject *new_found = _PyType_Lookup(meta, interned.new_), *init_found = _PyType_Lookup(meta, interned.init);
  Value *maker = nullptr, *init = nullptr;
  if (!is_types_own(meta, interned.init)) {
    if (init_found == nullptr || Py_TYPE(init_found) != &PyFunction_Type) return refused();
    init = find_in_class(meta, interned.init);
  }
  Value* made = nullptr;
  if (is_types_own(meta, interned.new_) || makes_abstract(meta)) {
    PyTypeObject* winner = metaclass_of(*this, meta, parts.bases);
    if (winner != meta) return refused();
    if (Flow flow = make_class(meta, parts, /*last=*/init == nullptr, &made); flow != Flow::kGo || init == nullptr)
      return *out = made, flow;
  } else {
    if (new_found == nullptr || Py_TYPE(new_found) != &PyStaticMethod_Type) return refused();
    if (Flow flow = bind_descriptor(new_found, meta, nullptr, interned.new_, &maker); flow != Flow::kGo) return flow;
    if (maker->kind != ValueKind::kFunction) return refused();
    std::vector<Value*> all{constant(reinterpret_cast<PyObject*>(meta))};
    all.insert(all.end(), arguments.begin(), arguments.end());
    if (init == nullptr) {
      if (cell == nullptr) return inline_call(maker, std::move(all), keywords, ReturnRule::kPush);
      frame().stack.insert(frame().stack.end(), {parts.name, cell});
      return inline_call(maker, std::move(all), keywords, ReturnRule::kClass);
    }
    Flow flow = as_part_of_statement([&](Value**) { return call(maker, std::move(all), keywords); }, &made);
    if (flow == Flow::kRaise) break_from_the_start(BreakReason::k_raises, "__new__ of a metaclass");
    if (flow != Flow::kGo) return flow;
    PyTypeObject* type = made == nullptr ? nullptr : as_class(made);
    if (type == nullptr || !PyType_IsSubtype(Py_TYPE(type), meta) || Py_TYPE(type) != meta || !is_cell_of(cell, made))
      break_from_the_start(BreakReason::k_instruction, "a class statement that makes something else");
  }
  std::vector<Value*> all{made};
  all.insert(all.end(), arguments.begin(), arguments.end());
  frame().stack.push_back(made);
  return inline_call(init, std::move(all), keywords, ReturnRule::kInit);
}

// Whether the statement's cell holds the class, as it has to in the end.
bool Tracer::is_cell_of(Value* cell, Value* made) {
  if (cell == nullptr || as_class(made) == nullptr) return true;
  return !cell->items.empty() && cell->items[0] != nullptr && force(cell->items[0]) == made;
}

// type.__new__(meta, name, bases, names, **keywords), called by a metaclass.
Flow Tracer::call_type_new(const std::vector<Value*>& arguments, PyObject* keywords, Value** out) {
  ClassParts parts;
  PyTypeObject* meta = as_class(force(arguments[0]));
  bool known = class_parts({arguments.begin() + 1, arguments.end()}, keywords, &parts);
  if (!known || metaclass_of(*this, meta, parts.bases) != meta) return stop(BreakReason::k_call, "type.__new__");
  return make_class(meta, parts, /*last=*/true, out);
}

// ---- Class statements -----------------------------------------------------------------------------------------------

// The dict in which the body stores: what __prepare__ answers. Null in *out: not known.
static Flow prepare_names(Tracer& t, PyTypeObject* meta, std::vector<Value*> arguments, PyObject* keywords,
                          Value** out) {
  static PyObject* const prepare = PyUnicode_InternFromString("__prepare__");
  if (is_types_own(meta, prepare)) return *out = t.make(ValueKind::kDict), Flow::kGo;
  Value *function = nullptr, *answer = nullptr;
  auto find = [&](Value** found) {
    return t.get_attribute(t.constant(reinterpret_cast<PyObject*>(meta)), prepare, found);
  };
  if (Flow flow = t.as_part_of_statement(find, &function); flow != Flow::kGo) return flow;
  auto call = [&](Value**) { return t.call(function, std::move(arguments), keywords); };
  Flow flow = function == nullptr ? Flow::kGo : t.as_part_of_statement(call, &answer);
  if (flow == Flow::kRaise) t.break_from_the_start(BreakReason::k_raises, "__prepare__");
  // No older one: the body's stores into it are not undone.
  bool good = answer != nullptr && answer->kind == ValueKind::kDict && answer->is_virtual() &&
              answer->owner == nullptr && answer->serial > t.instruction_serial_;
  *out = good ? answer : nullptr;
  return flow;
}

// __build_class__(body, name, *bases, metaclass=..., **keywords). The body runs within the instruction, on names of its
// own.
Flow Tracer::build_class(std::vector<Value*>& arguments, PyObject* names, Value** out) {
  size_t named = names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names));
  size_t positional = arguments.size() - named;
  Value* body = positional < 2 ? nullptr : force(arguments[0]);
  if (body == nullptr || body->kind != ValueKind::kFunction || body->is_real())
    return stop(BreakReason::k_instruction, "a class statement");
  const Bytecode& bytecode = bytecode_of(body->code);
  TraceFrame& caller = frame();
  auto known = input_.memory->not_inlined.find({caller.bytecode->code, caller.at});
  if (known != input_.memory->not_inlined.end()) leaf_strict_ = known->second;
  bool followed = known == input_.memory->not_inlined.end() && !bytecode.calls_frame_readers &&
                  bytecode.odd == nullptr && input_.policy.inline_calls && has_room_for(body->code);
  if (!followed) return stop(BreakReason::k_instruction, "a class statement");
  std::vector<Value*> bases(arguments.begin() + 2, arguments.begin() + static_cast<std::ptrdiff_t>(positional));
  bool typed = named == 0 && is_typed_tuple(*this, bases);
  PyTypeObject* meta = &PyType_Type;
  std::vector<Value*> rest;
  Ref keywords(PyTuple_New(0));
  for (size_t i = 0; i < named; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(i));
    Value* value = force(arguments[positional + i]);
    if (is_named(name, "metaclass")) {
      meta = as_class(value);
      continue;
    }
    rest.push_back(value);
    Ref one(PyTuple_Pack(1, name));
    keywords = Ref(one && keywords ? PySequence_Concat(keywords.get(), one.get()) : nullptr);
  }
  if (!keywords) throw Restart{};
  keep(keywords.get());
  PyObject* given = rest.empty() ? nullptr : keywords.get();
  bool is_enum = false;
  Value *space = make(ValueKind::kDict), *cell = nullptr;
  std::vector<Value*> all{force(arguments[1])};
  if (!typed) {
    if (meta != nullptr) meta = metaclass_of(*this, meta, bases);
    if (meta == nullptr) return stop(BreakReason::k_instruction, "a class whose making runs code");
    all.push_back(tuple_of(bases));
    std::vector<Value*> asked = all;
    asked.insert(asked.end(), rest.begin(), rest.end());
    is_enum = rest.empty() && makes_enum(*this, meta, bases);
    if (Flow flow = is_enum ? Flow::kGo : prepare_names(*this, meta, std::move(asked), given, &space);
        flow != Flow::kGo)
      return flow;
    if (space == nullptr) return stop(BreakReason::k_instruction, "a class whose making runs code");
  }
  auto enter = [&](Value**) {
    frames_.emplace_back();
    TraceFrame& callee = frames_.back();
    callee.bytecode = &bytecode;
    callee.function = body;
    callee.names = space;
    callee.stores_once = is_enum;
    callee.locals.assign(static_cast<size_t>(body->code->co_nlocalsplus), null());
    callee.number = ++frame_count_;
    return Flow::kGo;
  };
  if (Flow flow = as_part_of_statement(enter, &cell); flow != Flow::kGo) return flow;
  if (cell == nullptr) return stop(BreakReason::k_internal, "a class statement");
  if (cell->kind != ValueKind::kCell) cell = nullptr;
  if (typed && cell != nullptr) return stop(BreakReason::k_instruction, "a named tuple with super()");
  if (typed) return make_typed_tuple(*this, force(arguments[1]), force(bases[0]), space, out);
  if (is_enum) return make_enum_class(*this, meta, force(arguments[1]), bases, space, cell, out);
  all.push_back(space);
  all.insert(all.end(), rest.begin(), rest.end());
  return call_metaclass(meta, all, given, cell, out);
}

// ---- Attributes of classes made here --------------------------------------------------------------------------------

// type.__setattr__ of the class and of its model. value null: deletes.
Flow Tracer::set_made_attribute(Value* made, PyObject* name, Value* value) {
  PyTypeObject *model = as_class(made), *meta = Py_TYPE(model);
  std::string text = "store to " + std::string(model->tp_name) + "." + text_of(name);
  PyObject* in_meta = _PyType_Lookup(meta, name);
  if (!is_known_meta(*this, meta) ||
      (in_meta != nullptr && Py_TYPE(in_meta)->tp_descr_set != nullptr && !is_named(name, "__doc__")))
    return stop(BreakReason::k_attribute, text);
  Ref stand_in;
  if (value != nullptr) {
    static PyObject* const abstract = PyUnicode_InternFromString("__abstractmethods__");
    bool awaits_abc = makes_abstract(meta) && PyDict_GetItemWithError(model->tp_dict, abstract) == nullptr;
    if (awaits_abc && may_be_abstract(*this, value)) return stop(BreakReason::k_attribute, text);
    stand_in = stand_in_for(name, value);
    if (!stand_in) return stop(BreakReason::k_attribute, text);
  } else if (PyDict_GetItemWithError(model->tp_dict, name) == nullptr) {
    return stop(BreakReason::k_raises, text);
  }
  std::vector<Value*> arguments{made, constant(name)};
  if (value != nullptr) arguments.push_back(value);
  makes_class_ = true;
  run_call(value != nullptr ? class_attribute_setter() : PyDict_GetItemWithError(PyType_Type.tp_dict, interned.delattr),
           arguments);
  makes_class_ = false;
  if (PyType_Type.tp_setattro(made->object, name, stand_in.get()) < 0) return stop(BreakReason::k_raises, text);
  return Flow::kGo;
}

}  // namespace kintsugi
