// Callables made of others: functools.partial, wraps; operator's itemgetter, attrgetter, methodcaller; and what
// modules.cpp has not of operator's functions. call_functools is asked by calls.cpp.
#include <string>

#include "jit/containers.h"
#include "jit/given.h"
#include "jit/names.h"
#include "jit/tracer_core.h"
#include "runtime/frame.h"

#include <opcode.h>  // NB_ADD and the like
#include <structmember.h>

namespace kintsugi {

namespace {

using Values = std::vector<Value*>;

// ---- operator's functions ------------------------------------------------------------------------------------------

enum class Kind { kSetItem, kDeleteItem, kCall, kConcat };
struct Row {
  const char* name;
  Kind kind;
  int operation;
  size_t arguments;
};
constexpr Row kRows[] = {
    {"setitem", Kind::kSetItem, 0, 3},
    {"delitem", Kind::kDeleteItem, 0, 2},
    {"call", Kind::kCall, 0, 0},
    {"concat", Kind::kConcat, NB_ADD, 2},
};

struct Table {
  std::unordered_map<PyObject*, const Row*> operators;
  PyObject *partial = nullptr, *update_wrapper = nullptr, *absolute = nullptr;
  PyObject* cmp_to_key = nullptr;
  PyObject *item_getter = nullptr, *attribute_getter = nullptr, *method_caller = nullptr;
  int fn_offset = 0, args_offset = 0, keywords_offset = 0;
  Table() {
    Ref module = import_module("_operator");
    auto get = [](const Ref& from, const char* name) {
      return from ? PyObject_GetAttrString(from.get(), name) : nullptr;
    };
    for (const Row& row : kRows)
      if (PyObject* function = get(module, row.name)) operators[function] = &row;
    absolute = get(module, "abs");
    item_getter = get(module, "itemgetter");
    attribute_getter = get(module, "attrgetter");
    method_caller = get(module, "methodcaller");
    Ref functools = import_module("functools");
    partial = get(functools, "partial");
    update_wrapper = get(functools, "update_wrapper");
    cmp_to_key = get(functools, "cmp_to_key");
    auto offset = [&](const char* name) {
      Ref member(partial ? PyObject_GetAttrString(partial, name) : nullptr);
      if (!member || Py_TYPE(member.get()) != &PyMemberDescr_Type) return 0;
      return static_cast<int>(reinterpret_cast<PyMemberDescrObject*>(member.get())->d_member->offset);
    };
    fn_offset = offset("func");
    args_offset = offset("args");
    keywords_offset = offset("keywords");
    if (fn_offset == 0 || args_offset == 0 || keywords_offset == 0) partial = nullptr;
    PyErr_Clear();
  }
  bool is_getter(PyObject* type) const {
    return type == item_getter || type == attribute_getter || type == method_caller;
  }
};
const Table& table() {
  static const Table* table = new Table;
  return *table;
}

// The operator's result, now or from a frame that was pushed (then *out stays null).
Flow apply(Tracer& t, const Row& row, Values& a, Value** out) {
  size_t floor = t.frames_.size();
  auto change = [&](auto&& operation) {  // answers None
    t.frame().stack.push_back(t.none());
    Flow flow = operation();
    if (flow != Flow::kGo || t.frames_.size() > floor) return flow;
    t.frame().stack.pop_back();
    *out = t.none();
    return flow;
  };
  switch (row.kind) {
    case Kind::kConcat: {
      auto is_sequence = [](Value* v) {
        return v->kind == ValueKind::kList || v->kind == ValueKind::kTuple ||
               (v->is_constant() && (PyTuple_CheckExact(v->object) || PyUnicode_CheckExact(v->object)));
      };
      if (!is_sequence(a[0]) || !is_sequence(a[1])) return t.stop(BreakReason::k_builtin, row.name);
      return t.binary(row.operation, a[0], a[1], out);
    }
    case Kind::kSetItem: return change([&] { return t.set_item(a[0], a[1], a[2]); });
    case Kind::kDeleteItem: return change([&] { return t.delete_item(a[0], a[1]); });
    case Kind::kCall: return t.call_last(a[0], {a.begin() + 1, a.end()}, nullptr, out);
  }
  return Flow::kBreak;
}

}  // namespace

bool is_cmp_key(const Value* value) {
  return value->kind == ValueKind::kPartial && value->is_virtual() && value->items.size() == 3 &&
         value->items[0]->object == table().cmp_to_key;
}

bool is_callable(Tracer& t, Value* value) {
  switch (value->kind) {
    case ValueKind::kFunction:
    case ValueKind::kMethod:
    case ValueKind::kPartial: return true;
    case ValueKind::kConstant: return Py_TYPE(value->object)->tp_call != nullptr;
    case ValueKind::kObject: return t.python_method(value, interned.call) != nullptr;
    default: return false;
  }
}

namespace {

// ---- partial, itemgetter, attrgetter, methodcaller -----------------------------------------------------------------

// A virtual one. items: its class, then what the class was called with; entries: by keyword.
Flow make_virtual(Tracer& t, PyObject* type, Given& given, Value** out) {
  const char* name = reinterpret_cast<PyTypeObject*>(type)->tp_name;
  if (given.positional == 0) return t.stop(BreakReason::k_raises, name);
  Values items{t.constant(type)};
  std::vector<std::pair<PyObject*, Value*>> entries;
  size_t first = 0;
  Value* callable = t.force(given.values[0]);
  bool is_partial = type == table().partial;
  if (is_partial) {
    if (!is_callable(t, callable)) return t.stop(BreakReason::k_builtin, name);
    if (callable->kind == ValueKind::kPartial && callable->items[0]->object == type) {  // its parts are taken over
      if (callable->is_real()) return t.stop(BreakReason::k_builtin, name);
      items = callable->items;
      entries = callable->entries;
      first = 1;
    }
  } else if (type == table().attribute_getter || type == table().method_caller) {
    size_t names = type == table().method_caller ? 1 : given.positional;
    for (size_t i = 0; i < names; ++i) {
      Value* each = t.force(given.values[i]);
      if (!each->is_constant() || !PyUnicode_CheckExact(each->object)) return t.stop(BreakReason::k_builtin, name);
    }
  }
  if (given.names != nullptr && !is_partial && type != table().method_caller)
    return t.stop(BreakReason::k_raises, name);
  items.insert(items.end(), given.values.begin() + static_cast<long>(first),
               given.values.begin() + static_cast<long>(given.positional));
  for (size_t k = given.positional; k < given.values.size(); ++k) {
    PyObject* key = PyTuple_GET_ITEM(given.names, static_cast<Py_ssize_t>(k - given.positional));
    t.keep(key);
    bool known = false;
    for (auto& [old, value] : entries)
      if (PyUnicode_Compare(old, key) == 0) value = given.values[k], known = true;
    if (!known) entries.emplace_back(key, given.values[k]);
  }
  *out = t.make_iterator(IteratorKind::kUnknown, std::move(items));
  (*out)->kind = ValueKind::kPartial;
  (*out)->entries = std::move(entries);
  return Flow::kGo;
}

// The names of keywords as the tuple that calls take.
PyObject* names_of(Tracer& t, const std::vector<std::pair<PyObject*, Value*>>& entries) {
  if (entries.empty()) return nullptr;
  Ref names(PyTuple_New(static_cast<Py_ssize_t>(entries.size())));
  for (size_t i = 0; names && i < entries.size(); ++i)
    PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i), Py_NewRef(entries[i].first));
  if (names) t.keep(names.get());
  return names.get();
}

Flow call_partial(Tracer& t, Value* function, Values arguments, std::vector<std::pair<PyObject*, Value*>> entries,
                  const Given& given) {
  arguments.insert(arguments.end(), given.values.begin(), given.values.begin() + static_cast<long>(given.positional));
  for (size_t k = given.positional; k < given.values.size(); ++k) {
    PyObject* key = PyTuple_GET_ITEM(given.names, static_cast<Py_ssize_t>(k - given.positional));
    bool known = false;
    for (auto& [old, value] : entries)
      if (PyUnicode_Compare(old, key) == 0) value = given.values[k], known = true;
    if (!known) entries.emplace_back(key, given.values[k]);
  }
  for (auto& [key, value] : entries) arguments.push_back(value);
  return t.call(function, std::move(arguments), names_of(t, entries));
}

Flow get_path(Tracer& t, Value* object, PyObject* path, Value** out) {
  Ref dot(PyUnicode_FromString("."));
  Ref names(dot ? PyUnicode_Split(path, dot.get(), -1) : nullptr);
  if (!names) return t.stop(BreakReason::k_builtin, "attrgetter");
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i) {
    PyObject* name = Py_NewRef(PyList_GET_ITEM(names.get(), i));
    PyUnicode_InternInPlace(&name);
    Ref owned(name);
    t.keep(name);
    Value* owner = object;
    if (Flow flow = t.at_once([&](Value** found) { return t.get_attribute(owner, name, found); }, &object);
        flow != Flow::kGo)
      return flow;
    if (object == nullptr) return t.stop(BreakReason::k_builtin, "attrgetter");
  }
  *out = object;
  return Flow::kGo;
}

// parts: what the getter was made of.
Flow call_made_getter(Tracer& t, PyObject* type, const Values& parts,
                      const std::vector<std::pair<PyObject*, Value*>>& entries, const Given& given) {
  if (given.positional != 1 || given.names != nullptr) return t.stop(BreakReason::k_raises, "a getter");
  Value *object = t.force(given.values[0]), *out = nullptr;
  if (type == table().method_caller) {
    PyObject* name = t.force(parts[0])->object;
    Value* method = nullptr;
    Flow flow = t.at_once([&](Value** found) { return t.get_attribute(object, name, found); }, &method);
    if (flow != Flow::kGo) return flow;
    Values arguments(parts.begin() + 1, parts.end());
    for (auto& [key, value] : entries) arguments.push_back(value);
    return t.call(method, std::move(arguments), names_of(t, entries));
  }
  Values results;
  for (Value* each : parts) {
    Value *result = nullptr, *key = t.force(each);
    Flow flow = type == table().item_getter
                    ? t.at_once([&](Value** found) { return t.get_item(object, key, found); }, &result)
                    : get_path(t, object, key->object, &result);
    if (flow != Flow::kGo) return flow;
    if (result == nullptr) return t.stop(BreakReason::k_builtin, "a getter");
    results.push_back(result);
  }
  out = parts.size() == 1 ? results[0] : t.tuple_of(std::move(results));
  t.frame().stack.push_back(out);
  return Flow::kGo;
}

// The same for a real one. False: it is of no such class.
bool call_real(Tracer& t, Value* callable, const Given& given, Flow* flow) {
  PyObject* type = reinterpret_cast<PyObject*>(callable->type);
  if (callable->source < 0) return false;
  std::string text = t.source_text(callable);
  std::vector<std::pair<PyObject*, Value*>> entries;
  if (type == table().partial) {
    auto field = [&](int offset) {
      return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(callable->object) + offset);
    };
    PyObject *fn = field(table().fn_offset), *args = field(table().args_offset), *kw = field(table().keywords_offset);
    if (fn == nullptr || args == nullptr || kw == nullptr || !PyTuple_CheckExact(args) || !PyDict_CheckExact(kw))
      return false;
    Value* function = t.load_field(callable, table().fn_offset, fn, text + ".func");
    Value* first = t.load_field(callable, table().args_offset, args, text + ".args");
    Value* keywords = t.load_field(callable, table().keywords_offset, kw, text + ".keywords");
    Values arguments;
    for (int64_t i = 0; i < t.length(first); ++i) arguments.push_back(t.item_at(first, static_cast<size_t>(i)));
    if (!t.dict_complete(keywords)) {
      *flow = t.stop(BreakReason::k_call, "a partial object");
      return true;
    }
    for (size_t i = 0; i < keywords->entries.size(); ++i) {
      PyObject* key = keywords->entries[i].first;
      if (!PyUnicode_CheckExact(key)) return false;
      entries.emplace_back(key, t.dict_get(keywords, key));
    }
    *flow = call_partial(t, function, std::move(arguments), std::move(entries), given);
    return true;
  }
  if (!table().is_getter(type)) return false;
  // They never change: which one it is says all.
  Ref reduced(PyObject_CallMethod(callable->object, "__reduce__", nullptr));
  if (!reduced || PyTuple_GET_SIZE(reduced.get()) != 2 || PyTuple_GET_ITEM(reduced.get(), 0) != type)
    return PyErr_Clear(), false;
  PyObject* args = PyTuple_GET_ITEM(reduced.get(), 1);
  Values parts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    PyObject* ignored;
    parts.push_back(t.constant(PyTuple_GET_ITEM(args, i)));
    if (!t.fold(parts.back(), &ignored)) return false;
  }
  ConstantId getter = t.constant_id(callable->object, Hold::kWeak);
  Guard& same = t.guard(GuardKind::k_same, callable->source);
  same.a = callable->id;
  same.constant = getter;
  *flow = call_made_getter(t, type, parts, {}, given);
  return true;
}

}  // namespace

// The call of a partial object or getter, virtual or real; its result is pushed. False: it is neither.
bool Tracer::call_made_of_others(Value* callable, const Values& arguments, PyObject* names, Flow* flow) {
  Given given(arguments, names);
  if (callable->kind == ValueKind::kObject) return call_real(*this, callable, given, flow);
  if (callable->kind != ValueKind::kPartial) return false;
  PyObject* type = callable->items[0]->object;
  if (type == table().cmp_to_key) {  // items: the function, its comparison, and of a key the object
    if (callable->items.size() != 2 || !given.all_named_used() || given.positional != 1)
      return *flow = stop(BreakReason::k_call, "a key of cmp_to_key"), true;
    Value* key = make_iterator(IteratorKind::kUnknown, {callable->items[0], callable->items[1], given.values[0]});
    key->kind = ValueKind::kPartial;
    frame().stack.push_back(key);
    *flow = Flow::kGo;
    return true;
  }
  Values parts(callable->items.begin() + 1, callable->items.end());
  if (type == table().partial)
    *flow = call_partial(*this, parts[0], {parts.begin() + 1, parts.end()}, callable->entries, given);
  else
    *flow = call_made_getter(*this, type, parts, callable->entries, given);
  return true;
}

PyTypeObject* partial_type(const Value* value) {
  bool is = value->kind == ValueKind::kPartial && value->is_virtual() && value->stop != 1 &&
            value->items[0]->object == table().partial;
  return is ? reinterpret_cast<PyTypeObject*>(table().partial) : nullptr;
}

bool partial_attribute(Tracer& t, Value* value, PyObject* name, Value** out) {
  if (partial_type(value) == nullptr) return false;
  std::string text = text_of(name);
  if (text == "func") return *out = t.force(value->items[1]), true;
  // These are made anew, as only who reads their items does not notice.
  if (t.frame().bytecode->library != LibraryCode::kWhole) return false;
  if (text == "args") return *out = t.tuple_of({value->items.begin() + 2, value->items.end()}), true;
  if (text != "keywords") return false;
  *out = t.make(ValueKind::kDict);
  for (auto& [key, item] : value->entries) t.dict_put(*out, key, item);
  return true;
}

// A call of one of functools or operator; false: it is none of them.
bool Tracer::call_functools(PyObject* callable, Values& arguments, PyObject* names, Value** out, Flow* flow) {
  if (callable == table().partial || table().is_getter(callable)) {
    Given given(arguments, names);
    *flow = make_virtual(*this, callable, given, out);
    return true;
  }
  if (callable == table().cmp_to_key) {
    Given given(arguments, names);
    Value* compare = given.parameter(0, "mycmp");
    if (compare == nullptr || given.values.size() != 1) return *flow = stop(BreakReason::k_raises, "cmp_to_key"), true;
    *out = make_iterator(IteratorKind::kUnknown, {constant(callable), force(compare)});
    (*out)->kind = ValueKind::kPartial;
    *flow = Flow::kGo;
    return true;
  }
  if (callable == table().absolute) {
    bool handled = false;
    *flow = call_builtin(constant(PyDict_GetItemString(standard_builtins(), "abs")), arguments, names, out, &handled);
    return handled || *flow != Flow::kGo;
  }
  auto row = table().operators.find(callable);
  if (row == table().operators.end()) return false;
  bool fits = row->second->kind == Kind::kCall ? !arguments.empty() : arguments.size() == row->second->arguments;
  *flow = fits && names == nullptr ? apply(*this, *row->second, arguments, out)
                                   : stop(BreakReason::k_raises, row->second->name);
  return true;
}

// functools.update_wrapper(wrapper, wrapped) of a function made in the trace: its recipe remembers.
bool Tracer::wrap_function(Value* function, Values& arguments, PyObject* names, Flow* flow) {
  if (function->object == nullptr || function->object != table().update_wrapper) return false;
  Given given(arguments, names);
  Value *wrapper = given.parameter(0, "wrapper"), *wrapped = given.parameter(1, "wrapped");
  if (wrapper == nullptr || wrapped == nullptr) return false;
  wrapper = force(wrapper);
  wrapped = force(wrapped);
  auto is_default = [&](Value* value, const char* name) {
    if (value == nullptr) return true;
    Ref module = import_module("functools");
    Ref expected(module ? PyObject_GetAttrString(module.get(), name) : nullptr);
    PyErr_Clear();
    value = force(value);
    if (value->object == nullptr || value->object != expected.get()) return false;
    if (!value->is_real() || value->source < 0) return value->is_constant();
    ConstantId constant = constant_id(value->object, Hold::kWeak);
    Guard& same = guard(GuardKind::k_same, value->source);
    same.a = value->id;
    same.constant = constant;
    return true;
  };
  bool plain = is_default(given.parameter(2, "assigned"), "WRAPPER_ASSIGNMENTS") &&
               is_default(given.parameter(3, "updated"), "WRAPPER_UPDATES") && given.all_named_used();
  if (!plain || wrapper->kind != ValueKind::kFunction || wrapper->is_real() || wrapper->wrapped != nullptr ||
      wrapped->kind != ValueKind::kFunction)
    return false;
  changing(wrapper);
  wrapper->wrapped = wrapped;
  frame().stack.push_back(wrapper);
  *flow = Flow::kGo;
  return true;
}

// The recipe of a virtual partial object or getter.
void Tracer::partial_recipe(Value* value, Recipe* recipe) {
  auto keywords = [&] {
    Recipe dict;
    dict.kind = RecipeKind::kDict;
    for (auto& [key, item] : value->entries) {
      dict.parts.push_back(recipe_of(constant(key)));
      dict.parts.push_back(recipe_of(item));
    }
    return add_recipe(std::move(dict));
  };
  if (value->stop != 0 || is_cmp_key(value)) {  // one with attributes of its own, or made by a call of a call
    input_.memory->not_followed[{value->made_in, value->made_at}] = {BreakReason::k_builtin, "functools"};
    throw Restart{};
  }
  if (value->items[0]->object == table().partial) {
    recipe->kind = RecipeKind::kPartial;
    recipe->parts = {recipe_of(value->items[1]), recipe_of(tuple_of({value->items.begin() + 2, value->items.end()})),
                     keywords()};
    return;
  }
  if (!value->entries.empty()) {  // a methodcaller with keywords
    input_.memory->not_followed[{value->made_in, value->made_at}] = {BreakReason::k_builtin, "methodcaller"};
    throw Restart{};
  }
  recipe->kind = RecipeKind::kCallObject;
  for (Value* item : value->items) recipe->parts.push_back(recipe_of(item));
}

}  // namespace kintsugi
