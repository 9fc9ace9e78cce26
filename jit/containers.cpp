// What all containers have in the trace: items, membership, comparison, methods. Virtual ones are only models; changing
// a real one is also a step, so that effects keep their order, and the model says what later reads see. Of a real one
// as much is guarded as was read. Lists and tuples are in lists.cpp, dicts in dicts.cpp.
#include "jit/containers.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/frame.h"

#include <opcode.h>  // NB_ADD and the like

namespace kintsugi {

Flow raise_here(Tracer& t, PyObject* type, std::string text) {
  std::string name = reinterpret_cast<PyTypeObject*>(type)->tp_name;
  return t.raise_text(type, text, name + ": " + text);
}

Flow raise_with_repr(Tracer& t, PyObject* type, Value* value, const std::string& after) {
  PyObject* object;
  Ref repr = t.fold(value, &object) ? quiet_repr(object) : Ref();
  const char* text = repr ? PyUnicode_AsUTF8(repr.get()) : nullptr;
  PyErr_Clear();
  if (text == nullptr && type == PyExc_KeyError) return t.raise_builtin(type, {value}, {}, "KeyError");
  if (text == nullptr) return t.stop(BreakReason::k_raises, after);
  if (type == PyExc_KeyError) return t.raise_builtin(type, {value}, {}, std::string("KeyError: ") + text);
  return raise_here(t, type, text + after);
}

Flow no_index(Tracer& t, Value* key, const char* text) {
  if (key->is_constant() && (PyLong_CheckExact(key->object) || PyBool_Check(key->object))) {
    Py_ssize_t fits = PyLong_AsSsize_t(key->object);
    bool huge = fits == -1 && PyErr_Occurred() != nullptr;
    PyErr_Clear();
    if (!huge) return raise_here(t, PyExc_IndexError, text);
  }
  if (key->kind == ValueKind::kTensor) return t.stop(BreakReason::k_index_by_tensor, "an item");
  return t.stop(BreakReason::k_raises, "index");
}

bool index_of(Value* key, int64_t size, int64_t* index) {
  if (!key->is_constant() || (!PyLong_CheckExact(key->object) && !PyBool_Check(key->object))) return false;
  int overflow;
  *index = PyLong_AsLongLongAndOverflow(key->object, &overflow);
  if (overflow != 0) return false;
  if (*index < 0) *index += size;
  return *index >= 0 && *index < size;
}

bool position_of(Tracer& t, Value* value, int64_t size, int64_t* position) {
  value = t.force(value);
  if (value->kind == ValueKind::kInt || value->kind == ValueKind::kBool) value = t.specialise(value);
  if (!value->is_constant() || (!PyLong_CheckExact(value->object) && !PyBool_Check(value->object))) return false;
  int overflow;
  *position = PyLong_AsLongLongAndOverflow(value->object, &overflow);
  if (overflow != 0) return false;
  if (*position < 0) *position = std::max<int64_t>(0, *position + size);
  *position = std::min(*position, size);
  return true;
}

bool walks_over(Value* iterator, Value* container) {
  std::vector<Value*> iterators{iterator};  // a group leads back to its groupby(), and one iterator may be part of many
  for (size_t i = 0; i < iterators.size(); ++i) {
    if (iterators[i]->kind != ValueKind::kIterator) continue;
    for (Value* part : iterators[i]->items) {
      if (part == nullptr) continue;
      if (part->forwarded != nullptr) part = part->forwarded;
      if (part == container) return true;
      if (std::find(iterators.begin(), iterators.end(), part) == iterators.end()) iterators.push_back(part);
    }
  }
  return false;
}

bool place_keywords(std::vector<Value*>* arguments, PyObject* keywords, std::initializer_list<const char*> names) {
  size_t named = keywords == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(keywords));
  size_t positional = arguments->size() - named;
  if (positional > names.size()) return false;
  std::vector<Value*> placed(names.size(), nullptr);
  std::copy_n(arguments->begin(), positional, placed.begin());
  for (size_t k = 0; k < named; ++k) {
    PyObject* keyword = PyTuple_GET_ITEM(keywords, static_cast<Py_ssize_t>(k));
    auto place = std::find_if(names.begin(), names.end(),
                              [&](const char* name) { return PyUnicode_CompareWithASCIIString(keyword, name) == 0; });
    if (place == names.end()) return false;
    Value*& slot = placed[static_cast<size_t>(place - names.begin())];
    if (slot != nullptr) return false;
    slot = (*arguments)[positional + k];
  }
  *arguments = std::move(placed);
  return true;
}

// The callable itself, called on objects when the segment runs; its answer's value.
ValueId Tracer::run_call(PyObject* callable, const std::vector<Value*>& arguments, PyObject* names) {
  std::vector<ValueId> objects;
  for (Value* argument : arguments) objects.push_back(object_of(force(argument)));
  ConstantId called = constant_id(callable, is_atom(callable) ? Hold::kStrong : Hold::kWeak);
  ConstantId keywords = names == nullptr ? kNoConstant : constant_id(names, Hold::kStrong);
  if (!makes_class_) may_raise_here();
  ExitId exit = exit_here(ExitKind::kRaise);
  Step& step = record(StepKind::k_run_call);
  step.constant = called;
  step.imm = keywords;
  step.list = std::move(objects);
  step.on_fail = exit;
  return step.dst = new_value();
}

// A method of a real container, called as the program would; its answer's value.
ValueId Tracer::run_method(PyTypeObject* type, const char* name, const std::vector<Value*>& arguments) {
  PyObject* method = PyDict_GetItemString(type->tp_dict, name);
  KN_CHECK(method != nullptr);
  ValueId result = run_call(method, arguments);
  mutate(arguments[0]);
  return result;
}

Value* Tracer::tuple_of(std::vector<Value*> items, PyTypeObject* type) {
  if (items.empty() && type == nullptr) return constant_owned(PyTuple_New(0));  // there is one
  Value* value = make(ValueKind::kTuple);
  value->items = std::move(items);
  value->type = type;
  return value;
}
bool Tracer::is_exact_tuple(const Value* value) {
  return (value->kind == ValueKind::kTuple && value->type == nullptr) ||
         (value->is_constant() && PyTuple_CheckExact(value->object));
}
Value* Tracer::list_of(std::vector<Value*> items) {
  Value* value = make(ValueKind::kList);
  value->items = std::move(items);
  return value;
}

// ---- Sequences ------------------------------------------------------------------------------------------------------

bool Tracer::list_items(Value* value, std::vector<Value*>** items) {
  *items = &value->items;
  if (value->kind == ValueKind::kTuple) return true;
  if (value->kind == ValueKind::kList) {
    if (value->complete) return true;
    Py_ssize_t count = Py_SIZE(value->object);  // of a deque as well
    bool exact = value->owner == nullptr;
    ConstantId number = exact ? kNoConstant : number_constant({ConstantKind::kInt, count, 0, {}});
    Guard& check = guard(exact ? GuardKind::k_list_length : GuardKind::k_word_is, value->source);
    check.a = value->id;
    check.imm = exact ? count : static_cast<int64_t>(offsetof(PyVarObject, ob_size));
    check.constant = number;
    std::vector<Value*> appended = std::move(value->items);
    value->items.assign(count, nullptr);
    value->origins.clear();
    for (Py_ssize_t i = 0; i < count; ++i) value->origins.push_back(static_cast<int32_t>(i));
    for (Value* item : appended) {
      value->items.push_back(item);
      value->origins.push_back(-1);
    }
    value->complete = true;
    return true;
  }
  if (value->kind != ValueKind::kConstant || !PyTuple_Check(value->object)) return false;
  Py_ssize_t count = PyTuple_GET_SIZE(value->object);
  if (value->items.empty())
    for (Py_ssize_t i = 0; i < count; ++i) value->items.push_back(constant(PyTuple_GET_ITEM(value->object, i)));
  return true;
}

Value* Tracer::item_at(Value* sequence, size_t index) {
  std::vector<Value*>* items;
  if (sequence->is_constant()) list_items(sequence, &items);
  Value*& item = sequence->items[index];
  if (item != nullptr) return item = force(item);
  bool is_list = sequence->kind == ValueKind::kList;
  int64_t origin = is_list ? sequence->origins[index] : static_cast<int64_t>(index);
  std::string text = source_text(sequence) + "[" + std::to_string(origin) + "]";
  bool in_deque = is_list && is_deque(sequence);
  Guard& load = guard(in_deque  ? GuardKind::k_deque_item
                      : is_list ? GuardKind::k_list_item
                                : GuardKind::k_tuple_item,
                      source(text));
  load.a = sequence->id;
  load.imm = origin;
  ValueId id = load.dst = new_value();
  Ref of_deque(in_deque ? item_of_deque(sequence->object, origin) : nullptr);  // which holds it
  if (in_deque && !of_deque) throw Restart{};
  PyObject* object = in_deque  ? of_deque.get()
                     : is_list ? PyList_GET_ITEM(sequence->object, origin)
                               : PyTuple_GET_ITEM(sequence->object, origin);
  Value* value = wrap(object, id, text);
  sequence->items[index] = value;
  return value;
}

int64_t Tracer::length(Value* value) {
  std::vector<Value*>* items;
  switch (value->kind) {
    case ValueKind::kTuple:
    case ValueKind::kList: return list_items(value, &items) ? static_cast<int64_t>(items->size()) : -1;
    case ValueKind::kDict: return dict_length(value);
    case ValueKind::kSet: return set_length(*this, value);
    case ValueKind::kConstant: {
      PyObject* object;
      if (!PyTuple_Check(value->object) && !fold(value, &object)) return -1;
      Py_ssize_t count = PyObject_Length(value->object);
      PyErr_Clear();
      return count;
    }
    default: return is_view(value) ? dict_length(value->items[0]) : -1;
  }
}

// ---- Items ----------------------------------------------------------------------------------------------------------

static Flow item_of_sequence(Tracer& t, Value* container, Value* key, Value** out) {
  PyObject *a, *b;
  std::vector<Value*>* items;
  if (container->is_constant() && t.fold(container, &a) && t.fold(key, &b)) {
    Ref result(PyObject_GetItem(a, b));
    if (!result) return t.raise_pending("index");
    *out = t.made_now(result.release());
    return Flow::kGo;
  }
  bool is_slice = key->kind == ValueKind::kSlice || (key->is_constant() && PySlice_Check(key->object));
  if (is_slice) {
    bool by_tensors = std::any_of(key->items.begin(), key->items.end(),
                                  [&](Value* part) { return t.force(part)->kind == ValueKind::kTensor; });
    key = constant_slice(t, key);
    if (key == nullptr)
      return by_tensors ? t.stop(BreakReason::k_index_by_tensor, "a slice")
                        : t.stop(BreakReason::k_container, "a slice by objects");
  }
  if (!t.list_items(container, &items)) {
    if (t.is_atomic(container)) return t.pure_item(container, key, out);
    if (container->is_constant() && PyType_Check(container->object))
      return t.stop(BreakReason::k_call, "a generic alias");
    if (is_slice && t.fold(container, &a)) {
      *out = t.made_now(PyObject_GetItem(a, key->object));
      return *out != nullptr ? Flow::kGo : t.raise_pending("slice");
    }
    return t.stop(BreakReason::k_container, "item of this object");
  }
  bool is_list = container->kind == ValueKind::kList;
  int64_t size = static_cast<int64_t>(items->size()), index;
  if (is_slice) {
    Py_ssize_t start, end, step;
    if (PySlice_Unpack(key->object, &start, &end, &step) < 0) return t.raise_pending("slice");
    Py_ssize_t count = PySlice_AdjustIndices(size, &start, &end, step);
    if (count == size && step == 1 && t.is_exact_tuple(container)) {
      *out = container;
      return Flow::kGo;
    }
    std::vector<Value*> part;
    for (Py_ssize_t i = 0; i < count; ++i) part.push_back(t.item_at(container, start + i * step));
    PyTypeObject* type = container->kind == ValueKind::kTuple ? container->type : nullptr;
    if (type != nullptr && is_heap_type(type)) type = nullptr;  // a slice of a namedtuple is a tuple
    *out = is_list ? t.list_of(std::move(part)) : t.tuple_of(std::move(part), type);
    return Flow::kGo;
  }
  if (key->is_number() && key->fresh && key->int_hint >= size) key->int_hint = 0;  // a guess
  if (key->is_number()) key = t.specialise(key);
  if (!index_of(key, size, &index))
    return no_index(t, key, is_list ? "list index out of range" : "tuple index out of range");
  *out = t.item_at(container, static_cast<size_t>(index));
  return Flow::kGo;
}

// A method of the object's class, written in Python; null: none that can be followed.
static Value* own_method(Tracer& t, Value* object, PyObject* name) {
  Value* method = nullptr;
  if (object->kind == ValueKind::kTuple || t.find_special(object, name, &method) != Tracer::Special::kPython)
    return nullptr;
  return method->kind == ValueKind::kFunction ? method : nullptr;
}

Flow Tracer::get_item(Value* container, Value* key, Value** out) {
  size_t depth = frames_.size();
  if (Value* method = own_method(*this, container, interned.getitem))
    return inline_call(method, {container, key}, nullptr, ReturnRule::kPush);
  if (container->content != nullptr) {
    Flow flow = container_special(container, interned.getitem, {key}, out);
    if (flow != Flow::kGo || *out != nullptr || frames_.size() > depth) return flow;
  }
  bool is_sequence = container->kind == ValueKind::kTuple || container->kind == ValueKind::kList ||
                     (container->is_constant() && as_class(container) == nullptr);
  bool may_be_index = key->kind == ValueKind::kTensor
                          ? is_sequence
                          : key->kind == ValueKind::kObject && container->kind != ValueKind::kDict &&
                                container->kind != ValueKind::kTensor;
  if (may_be_index)
    if (Value* index = as_index(key)) key = index;
  switch (container->kind) {
    case ValueKind::kTensor: return tensor_get_item(container, key, out);
    case ValueKind::kDict: return dict_item(container, key, out);
    case ValueKind::kTuple:
    case ValueKind::kList:
    case ValueKind::kConstant: return item_of_sequence(*this, container, key, out);
    case ValueKind::kObject:
      if (is_pure_object(container)) return pure_item(container, key, out);
      if (Flow flow; proxy_item(*this, container, key, out, &flow)) return flow;
      break;
    default: break;
  }
  return stop(BreakReason::k_container, "item of this object");
}

Flow Tracer::set_item(Value* container, Value* key, Value* value) {
  if (Value* method = own_method(*this, container, interned.setitem))
    return inline_call(method, {container, key, value}, nullptr, ReturnRule::kDiscard);
  Value* ignored = nullptr;
  if (container->content != nullptr) return container_special(container, interned.setitem, {key, value}, &ignored);
  if ((key->kind == ValueKind::kObject || key->kind == ValueKind::kTensor) && container->kind == ValueKind::kList)
    if (Value* index = as_index(key)) key = index;
  switch (container->kind) {
    case ValueKind::kTensor: return tensor_set_item(container, key, value);
    case ValueKind::kDict: return dict_set_item(container, key, value);
    case ValueKind::kList: {
      if (key->kind == ValueKind::kSlice || (key->is_constant() && PySlice_Check(key->object)))
        return set_slice(*this, container, key, value);
      std::vector<Value*>* items;
      int64_t index;
      if (key->is_number()) key = specialise(key);
      if (!key->is_constant() || !list_items(container, &items)) break;
      if (!index_of(key, static_cast<int64_t>(items->size()), &index))
        return no_index(*this, key, "list assignment index out of range");
      changing(container);
      if (container->is_real()) {
        ValueId held = object_of(value);
        ExitId exit = exit_here(ExitKind::kRaise);
        Step& step = record(StepKind::k_list_set);
        step.a = container->id;
        step.b = held;
        step.imm = index;
        step.on_fail = exit;
        mutate(container);
        if (!container->origins.empty()) container->origins[index] = -1;
      }
      container->items[index] = value;
      return Flow::kGo;
    }
    default: break;
  }
  return stop(BreakReason::k_container, "item assignment");
}

Flow Tracer::delete_item(Value* container, Value* key) {
  if (Value* method = own_method(*this, container, interned.delitem))
    return inline_call(method, {container, key}, nullptr, ReturnRule::kDiscard);
  Value* ignored = nullptr;
  if (container->content != nullptr) return container_special(container, interned.delitem, {key}, &ignored);
  if ((key->kind == ValueKind::kObject || key->kind == ValueKind::kTensor) && container->kind == ValueKind::kList)
    if (Value* index = as_index(key)) key = index;
  switch (container->kind) {
    case ValueKind::kDict: return dict_delete_item(container, key);
    case ValueKind::kList: {
      if (key->kind == ValueKind::kSlice || (key->is_constant() && PySlice_Check(key->object)))
        return delete_slice(*this, container, key);
      std::vector<Value*>* items;
      int64_t index;
      if (key->is_number()) key = specialise(key);
      if (!key->is_constant() || !list_items(container, &items)) break;
      if (!index_of(key, static_cast<int64_t>(items->size()), &index))
        return no_index(*this, key, "list assignment index out of range");
      std::vector<Value*> arguments{key};
      return list_method(*this, container, "pop", arguments, &ignored);
    }
    default: break;
  }
  return stop(BreakReason::k_container, "item deletion");
}

// ---- Identity, equality, membership ---------------------------------------------------------------------------------

// Atoms other than singletons: two equal ones may be one object or two.
static bool known_by_value(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == &PyLong_Type || type == &PyFloat_Type || type == &PyUnicode_Type || type == &PyBytes_Type ||
         type == &PyComplex_Type || type == &PyTuple_Type || type == &PyFrozenSet_Type || type == &PyRange_Type ||
         type == &PySlice_Type;
}

// Whether both are one object, in every call that the guards let pass.
Flow Tracer::same_object(Value* left, Value* right, bool* answer) {
  *answer = left == right;
  if (left->fresh || right->fresh || (*answer && left->is_constant() && left->is_real())) return Flow::kGo;
  if (!*answer && is_pure_object(left) && is_pure_object(right) && left->type == right->type)
    return stop_for_identity(BreakReason::k_instruction, "identity of equal values", {left, right});
  auto is_truth = [](Value* value) {
    return value->kind == ValueKind::kBool || (value->is_constant() && PyBool_Check(value->object));
  };
  if (is_truth(left) && is_truth(right)) {  // there are two of them
    left = specialise(left);
    right = specialise(right);
  }
  if (left->is_number() || right->is_number()) {
    bool other_is_number_like = left->is_number() && right->is_number();
    Value* constant = left->is_constant() ? left : right;
    if (other_is_number_like || (constant->is_constant() && known_by_value(constant->object)))
      return stop_for_identity(BreakReason::k_instruction, "identity of numbers", {left, right});
    *answer = false;
  } else if (left->is_constant() && right->is_constant()) {
    // Guards say what such objects are worth, not which ones they are.
    bool alike = known_by_value(left->object) && Py_TYPE(left->object) == Py_TYPE(right->object);
    if (alike && (*answer || PyObject_RichCompareBool(left->object, right->object, Py_EQ) != 0))
      return stop_for_identity(BreakReason::k_instruction, "identity of equal values", {left, right});
    *answer = left->object == right->object;
  } else if (left->is_constant() || right->is_constant()) {
    PyObject* constant = left->is_constant() ? left->object : right->object;
    Value* other = left->is_constant() ? right : left;
    if (known_by_value(constant) && other->object != nullptr && Py_TYPE(other->object) == Py_TYPE(constant))
      return stop_for_identity(BreakReason::k_instruction, "identity of equal values", {left, right});
  }
  if (!*answer && left->is_real() && right->is_real() && left->source >= 0 && right->source >= 0 &&
      left->kind == right->kind) {
    Guard& check = guard(GuardKind::k_distinct, left->source);
    check.a = left->id;
    check.b = right->id;
  } else if (!*answer && left->is_real() && right->is_real() && (left->source < 0) != (right->source < 0)) {
    // One was made here: it is new, unless a call that answers its argument made it.
    if (left->kind == ValueKind::kObject || left->kind == ValueKind::kTensor) {
      if (left->kind == right->kind && (left->node < 0 && right->node < 0))
        return stop(BreakReason::k_instruction, "identity of objects made by calls");
    }
  }
  return Flow::kGo;
}

// As containers compare: identity first, then ==.
Flow Tracer::same_item(Value* left, Value* right, bool* same) {
  left = force(left);
  right = force(right);
  auto may_be_nan = [](Value* v) { return v->kind == ValueKind::kFloat || (v->is_constant() && is_nan(v->object)); };
  *same = left == right;
  if (*same && !may_be_nan(left)) return Flow::kGo;
  if (may_be_nan(left) && may_be_nan(right)) {
    bool left_is = !rule_out_nan(left), right_is = !rule_out_nan(right);
    if ((left_is && right_is) || (left_is && !left->is_constant()) || (right_is && !right->is_constant()))
      return stop_for_identity(BreakReason::k_container, "comparing NaN in a container", {left, right});
  }
  if (left->kind == ValueKind::kTensor && right->kind == ValueKind::kTensor)
    return stop(BreakReason::k_compare_tensors, "comparing tensors in a container");
  if (python_class(left) != nullptr || python_class(right) != nullptr) {
    if (Flow flow = same_object(left, right, same); flow != Flow::kGo || *same) return flow;
  }
  Value* equal = nullptr;
  bool known;
  if (Flow flow = compare(Py_EQ, left, right, &equal); flow != Flow::kGo) return flow;
  equal = force(equal);
  if (equal->kind == ValueKind::kTensor || !truth(equal, &known, same))
    return ended_ ? Flow::kEnd : stop(BreakReason::k_container, "comparing items");
  if (!known) specialise(equal);
  return Flow::kGo;
}

Flow Tracer::contains(Value* container, Value* item, Value** out) {
  PyObject *a, *b;
  auto answer = [&](bool truth_of) {
    *out = constant(truth_of ? Py_True : Py_False);
    return Flow::kGo;
  };
  if (fold(container, &a) && fold(item, &b) && !is_nan(b)) {
    int found = PySequence_Contains(a, b);
    if (found < 0) return raise_pending("in");
    return answer(found != 0);
  }
  bool in_text =
      is_pure_object(container) ||
      (container->is_constant() && (PyUnicode_CheckExact(container->object) || PyBytes_CheckExact(container->object)));
  if (in_text && is_atomic(item)) return pure_contains(container, item, out);
  if (container->kind == ValueKind::kDict || is_view(container)) {
    bool found = false;
    if (Flow flow = dict_contains(container, item, &found); flow != Flow::kGo) return flow;
    return answer(found);
  }
  if (is_set(container)) {
    bool found = false;
    if (Flow flow = set_contains(*this, container, item, &found); flow != Flow::kGo) return flow;
    return answer(found);
  }
  std::vector<Value*>* items;
  if (list_items(container, &items)) {
    for (size_t i = 0; i < container->items.size(); ++i) {
      bool same = false;
      if (Flow flow = same_item(item_at(container, i), item, &same); flow != Flow::kGo) return flow;
      if (same) return answer(true);
    }
    return answer(false);
  }
  if (Flow flow; proxy_contains(*this, container, item, out, &flow)) return flow;
  if (Value* method = own_method(*this, container, interned.contains)) {
    Value* result = nullptr;
    bool known, truth_of;
    if (Flow flow = call_now(method, {container, item}, &result); flow != Flow::kGo) return flow;
    if (truth(result, &known, &truth_of) && known) return answer(truth_of);
    return stop(BreakReason::k_container, "in");
  }
  if (container->content != nullptr) {
    Flow flow = container_special(container, interned.contains, {item}, out);
    if (flow != Flow::kGo || *out != nullptr) return flow;
  }
  return contains_by_walk(container, item, out);
}

// ---- Operators ------------------------------------------------------------------------------------------------------

static bool is_tuple(Value* v) {
  return v->kind == ValueKind::kTuple ||
         (v->is_constant() && PyTuple_Check(v->object) &&
          (PyTuple_CheckExact(v->object) || strcmp(Py_TYPE(v->object)->tp_name, "kintsugi.Size") == 0));
}

// Types whose == knows only its own kind; two of different families are unequal without a look inside.
enum class Family { kUnknown, kNone, kNumber, kText, kBytes, kTuple, kList, kDict, kSet };
static Family family_of(Value* v) {
  switch (v->kind) {
    case ValueKind::kInt:
    case ValueKind::kFloat:
    case ValueKind::kBool: return Family::kNumber;
    case ValueKind::kTuple: return Family::kTuple;
    case ValueKind::kList: return Family::kList;
    case ValueKind::kDict: return Family::kDict;
    case ValueKind::kSet: return Family::kSet;
    case ValueKind::kConstant: {
      PyTypeObject* type = Py_TYPE(v->object);
      if (v->object == Py_None) return Family::kNone;
      if (type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || type == &PyComplex_Type)
        return Family::kNumber;
      if (type == &PyUnicode_Type) return Family::kText;
      if (type == &PyBytes_Type) return Family::kBytes;
      if (type == &PyFrozenSet_Type) return Family::kSet;
      return is_tuple(v) ? Family::kTuple : Family::kUnknown;
    }
    default: return is_set_like(v) ? Family::kSet : Family::kUnknown;
  }
}

static Flow compare_sequences(Tracer& t, int operation, Value* left, Value* right, Value** out) {
  bool equality = operation == Py_EQ || operation == Py_NE;
  std::vector<Value*>*x, *y;
  auto answer = [&](bool truth) {
    *out = t.constant(truth ? Py_True : Py_False);
    return Flow::kGo;
  };
  if (!t.list_items(left, &x) || !t.list_items(right, &y)) return t.stop(BreakReason::k_container, "comparison");
  if (equality && x->size() != y->size()) return answer(operation == Py_NE);
  for (size_t i = 0; i < std::min(x->size(), y->size()); ++i) {
    Value *p = t.item_at(left, i), *q = t.item_at(right, i);
    bool same = false;
    if (Flow flow = t.same_item(p, q, &same); flow != Flow::kGo) return flow;
    if (same) continue;
    if (equality) return answer(operation == Py_NE);
    return t.compare(operation, p, q, out);  // the first items that differ decide
  }
  if (equality) return answer(operation == Py_EQ);
  return t.compare(operation, t.int_constant(static_cast<int64_t>(x->size())),
                   t.int_constant(static_cast<int64_t>(y->size())), out);
}

Flow Tracer::container_compare(int operation, Value* left, Value* right, Value** out, bool* handled) {
  bool equality = operation == Py_EQ || operation == Py_NE;
  if (Flow flow = compare_containers(*this, operation, left, right, out, handled); *handled || flow != Flow::kGo)
    return flow;
  Family a = family_of(left), b = family_of(right);
  *handled = true;
  if (equality && a != b && a != Family::kUnknown && b != Family::kUnknown) {
    *out = constant(operation == Py_NE ? Py_True : Py_False);
    return Flow::kGo;
  }
  if (a == b && (a == Family::kList || a == Family::kTuple)) {
    if (compare_depth_ > 50) return stop(BreakReason::k_container, "comparing containers within containers");
    ++compare_depth_;
    Flow flow = compare_sequences(*this, operation, left, right, out);
    --compare_depth_;
    return flow;
  }
  if (equality && a == Family::kDict && b == Family::kDict) {
    if (compare_depth_ > 50) return stop(BreakReason::k_container, "comparing containers within containers");
    bool equal = false;
    ++compare_depth_;
    Flow flow = dict_equal(*this, left, right, &equal);
    --compare_depth_;
    *out = constant(equal == (operation == Py_EQ) ? Py_True : Py_False);
    return flow;
  }
  if (a == Family::kSet && b == Family::kSet) return set_compare(*this, operation, left, right, out);
  *handled = false;
  return Flow::kGo;
}

Flow Tracer::container_binary(int operation, Value* left, Value* right, Value** out, bool* handled) {
  bool in_place = operation >= NB_INPLACE_ADD;
  int plain = in_place ? operation - NB_INPLACE_ADD : operation;
  if (Flow flow = combine_containers(*this, operation, left, right, out, handled); *handled || flow != Flow::kGo)
    return flow;
  auto is_list = [](Value* v) { return v->kind == ValueKind::kList; };
  auto is_int = [](Value* v) {
    return v->kind == ValueKind::kInt || v->kind == ValueKind::kBool ||
           (v->is_constant() && (PyLong_CheckExact(v->object) || PyBool_Check(v->object)));
  };
  *handled = true;
  if (plain == NB_ADD && in_place && is_list(left)) {
    std::vector<Value*> arguments{right};
    Value* ignored = nullptr;
    *out = left;
    return list_method(*this, left, "extend", arguments, &ignored);
  }
  if (plain == NB_ADD && ((is_list(left) && is_list(right)) || (is_tuple(left) && is_tuple(right)))) {
    std::vector<Value*> items, *known;
    if (is_exact_tuple(left) && is_exact_tuple(right) && (length(left) == 0 || length(right) == 0)) {
      *out = length(left) == 0 ? right : left;
      return Flow::kGo;
    }
    for (Value* each : {left, right}) {
      if (!list_items(each, &known)) return stop(BreakReason::k_container, "concatenation");
      for (size_t i = 0; i < known->size(); ++i) items.push_back(item_at(each, i));
    }
    *out = is_list(left) ? list_of(std::move(items)) : tuple_of(std::move(items));
    return Flow::kGo;
  }
  if (plain == NB_MULTIPLY) {
    if ((is_list(left) || is_tuple(left)) && is_int(right)) return repeat(*this, left, right, in_place, out);
    if ((is_list(right) || is_tuple(right)) && is_int(left)) return repeat(*this, right, left, false, out);
  }
  if (plain == NB_OR && left->kind == ValueKind::kDict) {
    if (in_place) {
      *out = left;
      return dict_update(*this, left, right);
    }
    if (right->kind == ValueKind::kDict) {
      *out = copy_of_dict(*this, left);
      if (*out == nullptr) return stop(BreakReason::k_container, "union of dicts");
      return dict_update(*this, *out, right);
    }
  }
  if ((plain == NB_OR || plain == NB_AND || plain == NB_XOR || plain == NB_SUBTRACT) && is_set_like(left) &&
      is_set_like(right))
    return set_binary(*this, operation, left, right, out);
  *handled = false;
  return Flow::kGo;
}

// ---- Methods --------------------------------------------------------------------------------------------------------

Flow Tracer::container_method(Value* self, PyObject* name, std::vector<Value*>& arguments, PyObject* names,
                              Value** out) {
  std::string text = PyUnicode_AsUTF8(name);
  self = force(self);
  for (Value*& argument : arguments) argument = force(argument);
  if (self->kind == ValueKind::kDict) return dict_method(*this, self, text, arguments, names, out);
  if (self->kind == ValueKind::kList && text == "sort" && names != nullptr) {
    if (static_cast<size_t>(PyTuple_GET_SIZE(names)) != arguments.size() ||
        !place_keywords(&arguments, names, {"key", "reverse"}))
      return stop(BreakReason::k_raises, "arguments of sort");
    Value* reverse = arguments[1] == nullptr ? int_constant(0) : specialise(arguments[1]);
    if (!reverse->is_constant() || !PyLong_Check(reverse->object)) return stop(BreakReason::k_raises, "sort");
    *out = none();
    return sort_list(*this, self, arguments[0], PyObject_IsTrue(reverse->object) != 0);
  }
  if (names != nullptr && PyTuple_GET_SIZE(names) > 0) return stop(BreakReason::k_raises, text + " with keywords");
  if (self->kind == ValueKind::kList) return list_method(*this, self, text, arguments, out);
  if (is_tuple(self)) return tuple_method(*this, self, text, arguments, out);
  if (is_set(self)) return set_method(*this, self, text, arguments, out);
  return stop(BreakReason::k_container, text);
}

}  // namespace kintsugi
