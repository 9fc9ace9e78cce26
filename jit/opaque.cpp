// Calls that are not looked into: the function runs once on placeholders to know its answer's form and sizes; a step
// calls it. Marked functions, custom operators and the branches of cond end here; kintsugi._opaque has the other half.
#include "jit/tracer_core.h"
#include "runtime/frame.h"

namespace kintsugi {

// What the function is shown while it is compiled: a tensor of ones for a tensor. Null: `shown->refused`, or an
// exception.
Ref Tracer::placeholder(Value* value, Shown* shown) {
  value = force(value);
  if (shown->structured && value->is_number()) value = specialise(value);
  Nesting nesting(*this);
  if (nesting.is_much()) {
    shown->refused = "a deep container";
    return Ref();
  }
  std::vector<Value*>* items;
  switch (value->kind) {
    case ValueKind::kTensor: {
      shown->leaves.push_back(value);
      Shape shape = shape_of(*value->layout);
      Ref sizes(PyTuple_New(shape.rank));
      for (int d = 0; sizes && d < shape.rank; ++d)
        PyTuple_SET_ITEM(sizes.get(), d, PyLong_FromLongLong(shape.sizes[d]));
      Ref module = import_module("kintsugi._opaque");
      return Ref(module && sizes ? PyObject_CallMethod(module.get(), "placeholder", "Osi", sizes.get(),
                                                       info(value->layout->dtype).name, int{value->layout->gradients})
                                 : nullptr);
    }
    case ValueKind::kInt: shown->leaves.push_back(value); return Ref(PyLong_FromLongLong(value->int_hint));
    case ValueKind::kBool: shown->leaves.push_back(value); return Ref(PyBool_FromLong(value->int_hint));
    case ValueKind::kFloat: shown->leaves.push_back(value); return Ref(PyFloat_FromDouble(value->float_hint));
    case ValueKind::kTuple:
    case ValueKind::kList: {
      if (value->type != nullptr || !list_items(value, &items)) break;
      Ref list(PyList_New(0));
      for (size_t i = 0; list && i < items->size(); ++i) {
        Ref item = placeholder(item_at(value, i), shown);
        if (!item || PyList_Append(list.get(), item.get()) < 0) return Ref();
      }
      return value->kind == ValueKind::kList || !list ? std::move(list) : Ref(PyList_AsTuple(list.get()));
    }
    case ValueKind::kDict: {
      if (value->type != nullptr || !dict_complete(value)) break;
      Ref dict(PyDict_New());
      for (size_t i = 0; dict && i < value->entries.size(); ++i) {
        PyObject* key = value->entries[i].first;
        Value* item = dict_get(value, key);
        if (item == nullptr) continue;
        Ref part = placeholder(item, shown);
        if (!part || PyDict_SetItem(dict.get(), key, part.get()) < 0) return Ref();
      }
      return dict;
    }
    case ValueKind::kConstant: {
      PyTypeObject* type = Py_TYPE(value->object);
      bool plain = value->object == Py_None || type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type ||
                   type == &PyUnicode_Type || std::string(type->tp_name).rfind("kintsugi.", 0) == 0;
      if (!plain) break;
      shown->leaves.push_back(value);
      return Ref::share(value->object);
    }
    default: break;
  }
  PyTypeObject* type = type_of(value);
  if (shown->trees && type != nullptr)
    if (Ref node = registered_node(type); node) return tree_placeholder(value, node.get(), shown);
  shown->refused = type != nullptr ? type->tp_name : "an object that is not modelled";
  return Ref();
}

// The values of a result, built like the example. `leaf`: the tensors and floats in it, in order; `nodes`, from *node
// on: the instances of registered classes.
Value* Tracer::result_like(PyObject* example, std::vector<Value*>::const_iterator* leaf, PyObject* nodes,
                           Py_ssize_t* node, AnswerForm form) {
  if (is_tensor(example) || (form != AnswerForm::kTree && PyFloat_CheckExact(example)) ||
      (form == AnswerForm::kBranch && PyLong_CheckExact(example)))
    return *(*leaf)++;
  auto sequence = [&](PyObject* parts) {
    std::vector<Value*> items;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(parts); ++i)
      items.push_back(result_like(PySequence_Fast_GET_ITEM(parts, i), leaf, nodes, node, form));
    return items;
  };
  if (PyTuple_CheckExact(example) || PyList_CheckExact(example))
    return PyTuple_CheckExact(example) ? tuple_of(sequence(example)) : list_of(sequence(example));
  if (PyDict_CheckExact(example)) {
    Value* dict = make(ValueKind::kDict);
    PyObject *key, *item;
    for (Py_ssize_t at = 0; PyDict_Next(example, &at, &key, &item);)
      dict_put(dict, key, result_like(item, leaf, nodes, node, form));
    return dict;
  }
  if (example == Py_None || PyBool_Check(example) || PyLong_CheckExact(example) || PyFloat_CheckExact(example) ||
      PyUnicode_CheckExact(example))
    return constant(example);
  return built_like(example, leaf, nodes, node, form);
}

// The function runs once on placeholders: what it answers tells the layouts. At run time it is called as it is, capture
// off, and its answer has to be of the same structure (python/kintsugi/_opaque.py).
Flow Tracer::call_opaque(PyObject* function, AnswerForm form, std::vector<Value*>& arguments, PyObject* names) {
  bool structured = form != AnswerForm::kFlat;
  Shown shown;
  shown.structured = shown.trees = structured;
  shown.reason = structured ? BreakReason::k_nonstrict_input : BreakReason::k_graph_arguments;
  shown.objects = Ref(PyList_New(0));
  for (Value*& argument : arguments) {
    argument = force(argument);
    if (structured && argument->is_number()) argument = specialise(argument);
    Ref stand = placeholder(argument, &shown);
    if (!stand) return stop(shown.refused.empty() ? BreakReason::k_internal : shown.reason, shown.refused);
    if (PyList_Append(shown.objects.get(), stand.get()) < 0) return stop(BreakReason::k_internal, "memory");
  }
  return call_shown(function, "trace_call", form, arguments, names, shown);
}

Flow Tracer::call_shown(PyObject* function, const char* helper, AnswerForm form, std::vector<Value*>& arguments,
                        PyObject* names, const Shown& shown) {
  Ref module = import_module("kintsugi._opaque");
  if (!module) return stop(BreakReason::k_internal, "kintsugi._opaque");
  bool dynamic = false;
  for (Value* leaf : shown.leaves) dynamic = dynamic || (leaf->kind == ValueKind::kTensor && leaf->dynamic);
  expect_foreign_code();
  Ref traced;
  {
    CompilingScope compiling;
    GradModeScope mode(grad_mode_);
    traced = Ref(PyObject_CallMethod(module.get(), helper, "OOOiii", function, shown.objects.get(),
                                     names == nullptr ? Py_None : names, static_cast<int>(form), dynamic,
                                     shown.found_trees));
  }
  if (!traced) {
    if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) return fail(Failure::kPending, "interrupted");
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    Ref kind(type), object(value), entries(traceback);
    auto is = [&](const char* name) {
      Ref ours(PyObject_GetAttrString(module.get(), name));
      return ours.get() == kind.get();
    };
    Ref text(object ? PyObject_Str(object.get()) : nullptr);
    const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    std::string what = utf8 != nullptr ? utf8 : "?";
    PyErr_Clear();
    if (is("NoFakeRule")) return fail(Failure::kRuntime, what);
    if (is("Forbidden")) return fail(Failure::kForbidden, what);
    if (is("Uncaptured")) return fail(Failure::kUncaptured, what);
    if (is("Unrepresentable"))
      return stop(form == AnswerForm::kFlat ? BreakReason::k_graph_result : BreakReason::k_nonstrict_output, what);
    return stop(BreakReason::k_opaque_fails,
                std::string(reinterpret_cast<PyTypeObject*>(kind.get())->tp_name) + ": " + what);
  }
  PyObject* caller = PyTuple_GET_ITEM(traced.get(), 0);
  PyObject* example = PyTuple_GET_ITEM(traced.get(), 1);
  PyObject* leaves = PyTuple_GET_ITEM(traced.get(), 2);
  PyObject* nodes = PyTuple_GET_ITEM(traced.get(), 4);
  if (PyTuple_GET_ITEM(traced.get(), 5) == Py_True) {
    if (!input_.policy.capture_shapes) return stop(BreakReason::k_dynamic_shape, qualified_name(function));
    dynamic = true;
  }
  keep(traced.get());
  keep(function);
  std::vector<ValueId> objects;
  size_t first = trace_.records.size();
  for (Value* argument : arguments) objects.push_back(object_of(argument));
  ConstantId called = constant_id(caller, Hold::kStrong);
  may_raise_here();
  ExitId exit = exit_here(ExitKind::kRaise);
  size_t at = trace_.records.size();
  Step& step = record(StepKind::k_opaque_call);
  step.constant = called;
  step.list = std::move(objects);
  step.on_fail = exit;
  step.imm = PyTuple_GET_SIZE(leaves);
  std::vector<Value*> parts;
  std::vector<std::pair<Value*, ValueId>> numbers;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(leaves); ++i) {
    PyObject* leaf = PyTuple_GET_ITEM(leaves, i);
    ValueId id = new_value();
    if (i == 0) trace_.records[at].step.dst = id;
    if (is_tensor(leaf)) {
      Layout* layout = as_tensor(leaf)->layout;
      retain(layout);
      parts.push_back(tensor_value(layout, id, dynamic));
    } else {
      bool whole = PyLong_Check(leaf);
      Value* number = make(whole ? ValueKind::kInt : ValueKind::kFloat);
      if (whole) number->int_hint = PyLong_AsLongLong(leaf);
      if (!whole) number->float_hint = PyFloat_AS_DOUBLE(leaf);
      number->boxed = id;
      parts.push_back(number);
      numbers.emplace_back(number, id);
    }
  }
  for (auto& [number, id] : numbers) {  // cannot fail: the caller has looked
    Step& unbox = record(StepKind::k_unbox);
    unbox.a = id;
    unbox.imm = number->kind == ValueKind::kFloat ? 1 : 0;
    unbox.on_fail = exit;
    unbox.dst = number->id = new_value();
  }
  ++tensor_calls_;
  guard_grad_mode();
  Value* whole = parts.size() == 1 && is_tensor(example) ? parts[0] : make(ValueKind::kTuple);
  form_ = {CallForm::kOpaque, 0, shown.found_trees ? PyTuple_GET_ITEM(traced.get(), 6) : function};
  if (shown.found_trees)
    note_call(first, shown.leaves, nullptr, whole);
  else
    note_call(first, arguments, names, whole);
  PyObject* paths = PyTuple_GET_ITEM(traced.get(), 3);
  for (size_t i = 0; i < parts.size() && whole != parts[0]; ++i) {
    form_ = {CallForm::kLeaf, 0, PyTuple_GET_ITEM(paths, i)};
    note_call(trace_.records.size(), {whole}, nullptr, parts[i]);
  }
  auto leaf = parts.cbegin();
  Py_ssize_t node = 0;
  frame().stack.push_back(result_like(example, &leaf, nodes, &node, form));
  return Flow::kGo;
}

}  // namespace kintsugi
