// Instances of classes that kt.utils._pytree knows, among arguments and results of opaque calls: flattened by following
// the class's own function, shown as an instance over placeholders, built again from what the call answered.
#include "jit/tracer_core.h"
#include "runtime/frame.h"
#include "runtime/log.h"

namespace kintsugi {

namespace {

// NodeDef's fields.
constexpr Py_ssize_t kFlatten = 1, kUnflatten = 2, kIsConstant = 4;

// What leaves_of of kintsugi._opaque tells of one instance.
constexpr Py_ssize_t kChildren = 0, kContext = 1, kBuild = 2;

}  // namespace

Ref registered_node(PyTypeObject* type) {
  Ref module = import_module("kintsugi.utils._pytree");
  Ref node(module ? PyObject_CallMethod(module.get(), "node_of_class", "O", type) : nullptr);
  if (!node || node.get() == Py_None || !PyTuple_Check(node.get())) return forget_error(), Ref();
  return node;
}

// An object of the program's, not made in the trace; the guard says that it is this one.
bool Tracer::is_given_constant(Value* value) {
  if (value->is_constant()) return true;
  if (!value->is_real() || value->source < 0 || value->mutated || value->object == nullptr) return false;
  ConstantId object = constant_id(value->object, Hold::kWeak);
  Guard& same = guard(GuardKind::k_same, value->source);
  same.a = value->id;
  same.constant = object;
  return true;
}

// The object that a context is: atoms, classes, registered constants, and lists, tuples and dicts of them. Null: it has
// something else in it.
Ref Tracer::known_context(Value* value) {
  value = force(value);
  PyObject* folded;
  if (value->is_number()) value = specialise(value);
  if (fold(value, &folded)) return Ref::share(folded);
  if (value->is_constant()) return Ref::share(value->object);
  std::vector<Value*>* items;
  if (value->type == nullptr && (value->kind == ValueKind::kTuple || value->kind == ValueKind::kList)) {
    if (!list_items(value, &items)) return Ref();
    Ref list(PyList_New(0));
    for (size_t i = 0; list && i < items->size(); ++i) {
      Ref item = known_context(item_at(value, i));
      if (!item || PyList_Append(list.get(), item.get()) < 0) return Ref();
    }
    return value->kind == ValueKind::kList || !list ? std::move(list) : Ref(PyList_AsTuple(list.get()));
  }
  if (value->kind == ValueKind::kDict && value->type == nullptr && dict_complete(value)) {
    Ref dict(PyDict_New());
    for (auto& [key, item] : value->entries) {
      if (item == nullptr) continue;
      Ref part = known_context(item);
      if (!part || PyDict_SetItem(dict.get(), key, part.get()) < 0) return Ref();
    }
    return dict;
  }
  PyTypeObject* type = type_of(value);
  Ref node = type == nullptr ? Ref() : registered_node(type);
  bool constant = node && PyTuple_GET_ITEM(node.get(), kIsConstant) == Py_True && is_given_constant(value);
  return constant ? Ref::share(value->object) : Ref();
}

Ref Tracer::tree_placeholder(Value* value, PyObject* node, Shown* shown) {
  shown->found_trees = true;
  keep(node);
  std::string name = type_of(value)->tp_name;
  auto refuse = [&](BreakReason reason) {
    if (shown->refused.empty()) {
      shown->reason = reason;
      shown->refused = name;
    }
    return Ref();
  };
  if (PyTuple_GET_ITEM(node, kIsConstant) == Py_True) {
    if (!is_given_constant(value)) return refuse(BreakReason::k_constant_made_inside);
    return Ref::share(value->object);
  }
  Value* flat = nullptr;
  std::vector<Value*>*pair = nullptr, *children = nullptr;
  Flow flow = call_now(wrap_bound(PyTuple_GET_ITEM(node, kFlatten), name + ": flatten"), {value}, &flat);
  if (flow != Flow::kGo || (flat->kind != ValueKind::kTuple && flat->kind != ValueKind::kList) ||
      !list_items(flat, &pair) || pair->size() != 2)
    return refuse(BreakReason::k_nonstrict_context);
  Value* parts = force(item_at(flat, 0));
  std::vector<Value*> drained;
  bool sequence = parts->kind == ValueKind::kTuple || parts->kind == ValueKind::kList;
  if (sequence ? !list_items(parts, &children) : !drain(parts, &drained))
    return refuse(BreakReason::k_nonstrict_context);
  Ref list(PyList_New(0));
  size_t count = sequence ? children->size() : drained.size();
  for (size_t i = 0; list && i < count; ++i) {
    Ref item = placeholder(sequence ? item_at(parts, i) : drained[i], shown);
    if (!item || PyList_Append(list.get(), item.get()) < 0) return Ref();
  }
  Ref context = known_context(item_at(flat, 1));
  if (!list || !context) return refuse(BreakReason::k_nonstrict_context);
  expect_foreign_code();
  Ref built(PyObject_CallFunctionObjArgs(PyTuple_GET_ITEM(node, kUnflatten), list.get(), context.get(), nullptr));
  if (!built) {
    forget_error();
    return refuse(BreakReason::k_opaque_fails);
  }
  return built;
}

Value* Tracer::built_like(PyObject* example, std::vector<Value*>::const_iterator* leaf, PyObject* nodes,
                          Py_ssize_t* node, AnswerForm form) {
  PyObject* told = PyList_GET_ITEM(nodes, (*node)++);
  PyObject* build = PyTuple_GET_ITEM(told, kBuild);
  std::string name = Py_TYPE(example)->tp_name;
  if (build == Py_None) return force(wrap_bound(example, name));  // a constant
  PyObject* children = PyTuple_GET_ITEM(told, kChildren);
  std::vector<Value*> parts;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(children); ++i)
    parts.push_back(result_like(PyList_GET_ITEM(children, i), leaf, nodes, node, form));
  Value* made = nullptr;
  Value* context = wrap_bound(PyTuple_GET_ITEM(told, kContext), name + ": context");
  Flow flow = call_now(wrap_bound(build, name + ": unflatten"), {list_of(std::move(parts)), context}, &made);
  if (flow != Flow::kGo) break_from_the_start(BreakReason::k_nonstrict_output, name + ", whose making is not followed");
  return made;
}

}  // namespace kintsugi
