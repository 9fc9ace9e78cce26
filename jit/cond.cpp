// kt.cond: a Python predicate picks a branch, which is followed. A tensor's: both branches are compiled on
// placeholders, complete and without effects; one call that is not looked into chooses.
#include "jit/tracer_core.h"
#include "runtime/frame.h"

namespace kintsugi {

// A function as it is, or one made of the trace's code with placeholders for what it captured.
Ref Tracer::example_function(Value* function) {
  if (function->kind == ValueKind::kFunction && function->is_real() && function->object != nullptr)
    return Ref::share(function->object);
  if (function->kind != ValueKind::kFunction)
    return function->object != nullptr && PyCallable_Check(function->object) ? Ref::share(function->object) : Ref();
  Value* globals = function->globals == nullptr ? nullptr : force(function->globals);
  if (globals == nullptr || globals->object == nullptr || !PyDict_Check(globals->object)) return Ref();
  Ref made(PyFunction_New(reinterpret_cast<PyObject*>(function->code), globals->object));
  auto example = [&](Value* content) {
    Shown plain;
    Ref shown = content == nullptr ? Ref() : placeholder(content, &plain);
    if (!shown && content != nullptr) shown = example_function(force(content));
    if (!shown && content != nullptr && force(content)->object != nullptr) shown = Ref::share(force(content)->object);
    return shown;
  };
  std::vector<Value*>* items = nullptr;
  auto examples = [&](Value* sequence, auto wrap) {
    if (!made || !list_items(force(sequence), &items)) return Ref();
    Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(items->size())));
    for (size_t i = 0; tuple && i < items->size(); ++i) {
      Ref shown = wrap(item_at(force(sequence), i));
      if (!shown) return Ref();
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), shown.release());
    }
    return tuple;
  };
  if (function->closure != nullptr) {
    Ref closure = examples(function->closure, [&](Value* cell) {
      Ref shown = example(cell_content(cell, interned.call));
      return shown ? Ref(PyCell_New(shown.get())) : Ref();
    });
    if (!closure || PyFunction_SetClosure(made.get(), closure.get()) < 0) return Ref();
  }
  if (function->defaults != nullptr) {
    Ref defaults = examples(function->defaults, example);
    if (!defaults || PyFunction_SetDefaults(made.get(), defaults.get()) < 0) return Ref();
  }
  if (function->keyword_defaults != nullptr) {
    Value* given = force(function->keyword_defaults);
    Ref defaults(PyDict_New());
    if (given->kind != ValueKind::kDict || !dict_complete(given)) return Ref();
    for (auto& [key, item] : given->entries) {
      Ref shown = item == nullptr ? Ref() : example(item);
      if (!defaults || !shown || PyDict_SetItem(defaults.get(), key, shown.get()) < 0) return Ref();
    }
    if (!made || PyFunction_SetKwDefaults(made.get(), defaults.get()) < 0) return Ref();
  }
  return made;
}

static PyObject* called_cond(bool in_export) {
  static PyObject* functions[2] = {};
  PyObject*& function = functions[in_export];
  if (function == nullptr) {
    Ref module = import_module("kintsugi._opaque");
    function = module ? PyObject_GetAttrString(module.get(), in_export ? "exported_cond" : "cond") : nullptr;
  }
  return function;
}

// A predicate of Python picks a branch, which is followed. A tensor's: both branches are compiled on placeholders, one
// call chooses.
Flow Tracer::call_cond(std::vector<Value*>& arguments, PyObject* names) {
  static constexpr const char* kNames[] = {"pred", "true_fn", "false_fn", "operands"};
  Value* given[4] = {};
  size_t named = names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names)),
         positional = arguments.size() - named;
  if (positional > 4) return fail(Failure::kUncaptured, "kt.cond: improper args/kwargs");
  for (size_t i = 0; i < positional; ++i) given[i] = force(arguments[i]);
  for (size_t k = 0; k < named; ++k)
    for (size_t i = 0; i < 4; ++i)
      if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(k)), kNames[i]) == 0)
        given[i] = force(arguments[positional + k]);
  if (given[0] == nullptr || given[1] == nullptr || given[2] == nullptr)
    return fail(Failure::kUncaptured, "kt.cond: improper args/kwargs: pred, true_fn and false_fn are wanted");
  Value* operands = given[3] != nullptr ? given[3] : tuple_of({});
  std::vector<Value*>* items = nullptr;
  if ((operands->kind != ValueKind::kTuple && operands->kind != ValueKind::kList) || !list_items(operands, &items))
    return fail(Failure::kUncaptured, "kt.cond: improper operands: a tuple or list is wanted");
  std::vector<Value*> passed;
  for (size_t i = 0; i < items->size(); ++i) passed.push_back(item_at(operands, i));
  if (given[0]->kind != ValueKind::kTensor) {
    Value* known = given[0]->is_number() ? specialise(given[0]) : given[0];
    bool number = known->is_constant() && (PyBool_Check(known->object) || PyLong_CheckExact(known->object) ||
                                           PyFloat_CheckExact(known->object));
    if (!number) return fail(Failure::kUncaptured, "kt.cond: improper predicate: a bool or a tensor of one is wanted");
    expect_foreign_code();
    if (PyErr_WarnEx(PyExc_UserWarning,
                     "kt.cond specializes: its predicate is a Python constant, so that one branch only is compiled",
                     1) < 0)
      return fail(Failure::kPending, "a warning");
    return call(given[PyObject_IsTrue(known->object) ? 1 : 2], std::move(passed), nullptr);
  }
  if (given[0]->layout->dtype != DType::k_bool || (given[0]->dynamic && given[0]->layout->rank > 0) ||
      given[0]->layout->count != 1)
    return fail(Failure::kUncaptured, "kt.cond: improper predicate: a tensor of one bool is wanted");
  Shown shown;
  shown.trees = true;
  shown.objects = Ref(PyList_New(0));
  std::vector<Value*> all = {given[0], given[1], given[2]};
  all.insert(all.end(), passed.begin(), passed.end());
  for (size_t i = 0; i < all.size(); ++i) {
    Ref stand = i == 1 || i == 2 ? example_function(all[i]) : placeholder(all[i], &shown);
    if (!stand)
      return fail(Failure::kUncaptured,
                  i < 3 ? "HOP: non-callable variable" : "kt.cond: improper operands contents: " + shown.refused);
    if (i == 1 || i == 2) shown.leaves.push_back(all[i]);
    if (PyList_Append(shown.objects.get(), stand.get()) < 0) return stop(BreakReason::k_internal, "memory");
  }
  return call_shown(called_cond(input_.policy.in_export), "trace_cond", AnswerForm::kBranch, all, nullptr, shown);
}

}  // namespace kintsugi
