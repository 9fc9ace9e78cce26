#include "jit/changing_classes.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <vector>

#include "jit/tracer_core.h"
#include "runtime/frame.h"

namespace kintsugi {

namespace {

struct ChangingClass {
  Ref alive;  // a weak reference: another class may come to lie there
  std::vector<Ref> names;
  uint32_t* word = nullptr;
};

std::unordered_map<PyTypeObject*, ChangingClass>& classes() {
  static auto* all = new std::unordered_map<PyTypeObject*, ChangingClass>;
  return *all;
}

// Null: nothing is known of it.
ChangingClass* known(PyTypeObject* type) {
  if (classes().empty()) return nullptr;
  auto found = classes().find(type);
  if (found == classes().end()) return nullptr;
  if (PyWeakref_GetObject(found->second.alive.get()) == reinterpret_cast<PyObject*>(type)) return &found->second;
  classes().erase(found);
  return nullptr;
}

ChangingClass* known_from_now_on(PyTypeObject* type) {
  if (ChangingClass* found = known(type)) return found;
  Ref alive(PyWeakref_NewRef(reinterpret_cast<PyObject*>(type), nullptr));
  if (!alive) return PyErr_Clear(), nullptr;
  ChangingClass& made = classes()[type];
  made.alive = std::move(alive);
  return &made;
}

bool holds(const ChangingClass* known, PyObject* name) {
  return known != nullptr && std::any_of(known->names.begin(), known->names.end(), [&](const Ref& each) {
           return each.get() == name || PyUnicode_Compare(each.get(), name) == 0;
         });
}

template <class Test>
bool any_in_order(PyTypeObject* type, Test test) {
  if (classes().empty() || type->tp_mro == nullptr) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i)
    if (test(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i)))) return true;
  return false;
}

// Classes that derive from `type` and have a word, with their words.
std::vector<std::pair<PyTypeObject*, uint32_t*>> kept_below(PyTypeObject* type) {
  std::vector<std::pair<PyTypeObject*, uint32_t*>> found;
  for (auto each = classes().begin(); each != classes().end();) {
    if (PyWeakref_GetObject(each->second.alive.get()) == Py_None) {
      each = classes().erase(each);
      continue;
    }
    if (each->second.word != nullptr && PyType_IsSubtype(each->first, type))
      found.emplace_back(each->first, each->second.word);
    ++each;
  }
  return found;
}

// type.__setattr__, after which all words that were right are right. What the attribute held before ends last: its end
// may run code, which changes what it likes.
PyObject* set_class_attribute(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 3 || !PyType_Check(arguments[0])) return PyErr_BadInternalCall(), nullptr;
  auto* type = reinterpret_cast<PyTypeObject*>(arguments[0]);
  auto kept = kept_below(type);
  kept.erase(std::remove_if(kept.begin(), kept.end(),
                            [](const auto& each) { return type_version(each.first) != *each.second; }),
             kept.end());
  Ref before = Ref::share(PyDict_GetItemWithError(type->tp_dict, arguments[1]));
  if (PyType_Type.tp_setattro(arguments[0], arguments[1], arguments[2]) < 0) return nullptr;
  for (auto& [each, word] : kept) {
    uint32_t version = type_version(each);
    *word = version == 0 ? kNeverVersion : version;
  }
  return Py_NewRef(Py_None);
}

}  // namespace

bool is_changing(PyTypeObject* type, PyObject* name) { return holds(known(type), name); }

bool inherits_changing(PyTypeObject* type, PyObject* name) {
  return any_in_order(type, [&](PyTypeObject* each) { return is_changing(each, name); });
}

bool inherits_changing(PyTypeObject* type) {
  return any_in_order(type, [](PyTypeObject* each) {
    ChangingClass* found = known(each);
    return found != nullptr && !found->names.empty();
  });
}

void expect_changes(PyTypeObject* type, PyObject* name) {
  ChangingClass* changing = known_from_now_on(type);
  if (changing == nullptr || holds(changing, name)) return;
  changing->names.push_back(Ref::share(name));
  for (auto& [each, word] : kept_below(type)) {
    *word = kNeverVersion;
    known(each)->word = nullptr;
  }
}

const uint32_t* kept_version(PyTypeObject* type) {
  static auto* words = new std::deque<uint32_t>;  // segments hold on to them
  uint32_t version = type_version(type);
  ChangingClass* found = version == 0 ? nullptr : known_from_now_on(type);
  if (found == nullptr) return nullptr;
  if (found->word != nullptr && *found->word != version) {  // changed by others
    *found->word = kNeverVersion;
    found->word = nullptr;
  }
  if (found->word == nullptr) found->word = &words->emplace_back(version);
  return found->word;
}

PyObject* class_attribute_setter() {
  static PyObject* const function = function_for_steps("set_class_attribute", set_class_attribute);
  return function;
}

// ---- In the trace ---------------------------------------------------------------------------------------------------

bool Tracer::guard_kept(PyTypeObject* type, int32_t source) {
  const uint32_t* word = kept_version(type);
  if (word == nullptr) return false;
  ValueId id = bound_id(reinterpret_cast<PyObject*>(type));
  ConstantId constant = pointer_constant(word, std::string("class ") + type->tp_name);
  Guard& check = guard(GuardKind::k_class_kept, source);
  check.a = id;
  check.constant = constant;
  versions_.emplace(type, 1);
  return true;
}

Value* Tracer::dict_of_class(PyTypeObject* type) {
  Value*& dict = class_dicts_[type];
  if (dict == nullptr) {
    PyObject* self = reinterpret_cast<PyObject*>(type);
    std::string text = std::string(type->tp_name) + ".__dict__";
    ValueId owner = bound_id(self);
    Guard& load = guard(GuardKind::k_field, source(text));
    load.a = owner;
    load.imm = offsetof(PyTypeObject, tp_dict);
    ValueId id = load.dst = new_value();
    dict = wrap(type->tp_dict, id, text);
  }
  return dict;
}

// False: no class stores to an attribute of that name, and the class's version pins what it is. Else what it is now, a
// value in a class that is stored to or something fixed that comes before it, or null both.
bool Tracer::find_changing(PyTypeObject* type, PyObject* name, Value** changing, PyObject** fixed) {
  if (!inherits_changing(type, name)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* each = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (is_changing(each, name)) {
      if (Value* value = dict_get(dict_of_class(each), name)) return *changing = force(value), true;
    } else if (PyObject* found = PyDict_GetItemWithError(each->tp_dict, name)) {
      return *fixed = found, true;
    }
  }
  return true;
}

bool Tracer::is_plain_content(Value* value) {
  PyTypeObject* type = type_of(value);
  if (type == nullptr || value->kind == ValueKind::kFunction || value->kind == ValueKind::kMethod) return false;
  return ensure_version(type) && type->tp_descr_get == nullptr && type->tp_descr_set == nullptr;
}

Flow Tracer::set_through_metaclass(Value* object, PyObject* name, Value* value) {
  PyTypeObject* meta = metaclass(as_class(object));
  if (meta == nullptr) return stop(BreakReason::k_attribute, "store to " + text_of(name));
  PyObject* hook = value != nullptr ? interned.setattr : interned.delattr;
  if (inherits(meta, hook, &PyType_Type)) return set_class_attribute(object, name, value);
  Value* own = find_in_class(meta, hook);
  if (own == nullptr || own->kind != ValueKind::kFunction)
    return stop(BreakReason::k_attribute, "store to " + text_of(name));
  std::vector<Value*> arguments{object, constant(name)};
  if (value != nullptr) arguments.push_back(value);
  return inline_call(own, std::move(arguments), nullptr, ReturnRule::kDiscard);
}

// As type.__setattr__, or type.__delattr__.
Flow Tracer::set_class_attribute(Value* object, PyObject* name, Value* value) {
  if (is_made_class(as_class(object))) return set_made_attribute(object, name, value);
  PyTypeObject *type = as_class(object), *meta = metaclass(type);
  std::string text = "store to " + std::string(type->tp_name) + "." + text_of(name);
  auto refused = [&] { return stop(BreakReason::k_attribute, text); };
  bool has_plain_dict = PyDict_CheckExact(type->tp_dict);  // those of ctypes do not
  if (!is_heap_type(type) || PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) || meta == nullptr || !has_plain_dict ||
      PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException)))
    return refused();
  PyObject *in_meta = _PyType_Lookup(meta, name), *held = PyDict_GetItemWithError(type->tp_dict, name);
  bool plain = value != nullptr && PyUnicode_CheckExact(name) && text_of(name).rfind("__", 0) != 0 &&
               (in_meta == nullptr || Py_TYPE(in_meta)->tp_descr_set == nullptr) &&
               (held == nullptr || (Py_TYPE(held)->tp_descr_get == nullptr && Py_TYPE(held)->tp_descr_set == nullptr));
  if (!plain || !is_plain_content(value)) return refused();
  if (!is_changing(type, name)) {
    Ref interned_name = Ref::share(name);
    PyObject* own = interned_name.release();
    PyUnicode_InternInPlace(&own);
    expect_changes(type, Ref(own).get());
    throw Restart{};
  }
  if (!ensure_version(type)) return refused();
  Value *dict = dict_of_class(type), *before = dict_get(dict, name);
  if (before != nullptr && (finalizes(before) || !is_plain_content(before))) return refused();
  if (input_.policy.exporting) refuse_change();
  if (input_.policy.pure) throw Impure{user_stack()};
  run_call(class_attribute_setter(), {object, constant(name), value});
  dict_put(dict, name, value);
  return Flow::kGo;
}

}  // namespace kintsugi
