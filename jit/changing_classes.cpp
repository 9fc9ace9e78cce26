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

}  // namespace kintsugi
