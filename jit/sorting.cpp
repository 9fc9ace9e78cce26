// Sorting by keys that compare in Python: list.sort itself runs, over stand-ins whose < is followed in the trace, so
// that the comparisons are those that it makes, in its order. functools.cmp_to_key's keys are among them.
#include "jit/containers.h"

namespace kintsugi {

namespace {

struct Sorting {
  Tracer& t;
  Flow flow = Flow::kGo;
  bool restarts = false;
};
struct Key {
  PyObject ob_base;
  Sorting* sorting;
  Value* value;
};

bool precedes(Tracer& t, Value* left, Value* right, Flow* flow) {
  Value* answer = nullptr;
  bool known = false, truth = false;
  if (is_cmp_key(left) && is_cmp_key(right) && left->items[1] == right->items[1]) {
    Value* result = nullptr;
    *flow = t.call_now(left->items[1], {left->items[2], right->items[2]}, &result);
    if (*flow == Flow::kGo) *flow = t.compare(Py_LT, result, t.int_constant(0), &answer);
  } else {
    *flow = t.compare(Py_LT, left, right, &answer);
  }
  if (*flow != Flow::kGo) return false;
  if (answer == nullptr || answer->kind == ValueKind::kTensor || !t.truth(t.force(answer), &known, &truth) || !known)
    *flow = t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_sort_keys, "sorting by keys that are known only at run time");
  return truth;
}

PyObject* compare_keys(PyObject* left, PyObject* right, int operation) {
  auto *a = reinterpret_cast<Key*>(left), *b = reinterpret_cast<Key*>(right);
  if (operation != Py_LT || Py_TYPE(left) != Py_TYPE(right)) Py_RETURN_NOTIMPLEMENTED;
  Sorting& sorting = *a->sorting;
  bool answer = false;
  try {
    if (sorting.flow == Flow::kGo) answer = precedes(sorting.t, a->value, b->value, &sorting.flow);
  } catch (const Restart&) {
    sorting.restarts = true;
    sorting.flow = Flow::kBreak;
  }
  PyErr_Clear();
  if (sorting.flow == Flow::kGo) return PyBool_FromLong(answer);
  PyErr_SetString(PyExc_RuntimeError, "the trace ends here");
  return nullptr;
}

PyTypeObject* key_type() {
  static PyTypeObject* type = [] {
    static PyTypeObject made = {PyVarObject_HEAD_INIT(nullptr, 0) "kintsugi._runtime.SortKey"};
    made.tp_basicsize = sizeof(Key);
    made.tp_flags = Py_TPFLAGS_DEFAULT;
    made.tp_dealloc = reinterpret_cast<destructor>(PyObject_Free);
    made.tp_richcompare = compare_keys;
    made.tp_hash = PyObject_HashNotImplemented;
    return PyType_Ready(&made) < 0 ? nullptr : &made;
  }();
  return type;
}

}  // namespace

// Of at least two keys. No order where comparing raises: what a list is left as then is not modelled.
Flow order_by_comparing(Tracer& t, const std::vector<Value*>& keys, bool reverse, std::vector<size_t>* order) {
  Sorting sorting{t};
  auto failed = [&] { return t.stop(BreakReason::k_container, "sorting"); };
  Ref list(key_type() == nullptr ? nullptr : PyList_New(0)), order_list(PyList_New(0));
  if (!list || !order_list) return failed();
  for (size_t i = 0; i < keys.size(); ++i) {
    Ref key(reinterpret_cast<PyObject*>(PyObject_New(Key, key_type()))), position(PyLong_FromSize_t(i));
    if (!key || !position) return failed();
    *reinterpret_cast<Sorting**>(reinterpret_cast<char*>(key.get()) + offsetof(Key, sorting)) = &sorting;
    reinterpret_cast<Key*>(key.get())->value = keys[i];
    if (PyList_Append(list.get(), key.get()) < 0 || PyList_Append(order_list.get(), position.get()) < 0)
      return failed();
  }
  Ref sort(PyObject_GetAttrString(order_list.get(), "sort")), none(PyTuple_New(0));
  Ref key_at(PyObject_GetAttrString(list.get(), "__getitem__"));
  Ref how(key_at ? Py_BuildValue("{s:O,s:O}", "key", key_at.get(), "reverse", reverse ? Py_True : Py_False) : nullptr);
  Ref done(sort && none && how ? PyObject_Call(sort.get(), none.get(), how.get()) : nullptr);
  PyErr_Clear();
  if (sorting.restarts) throw Restart{};
  if (sorting.flow == Flow::kEnd || sorting.flow == Flow::kBreak) return sorting.flow;
  if (!done) return t.stop(BreakReason::k_raises, "sorting");
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(order_list.get()); ++i)
    order->push_back(PyLong_AsSize_t(PyList_GET_ITEM(order_list.get(), i)));
  return Flow::kGo;
}

}  // namespace kintsugi
