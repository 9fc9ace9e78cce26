// Builtins that make iterators or walk through what they give: iter, next, zip, map, enumerate, reversed, list, tuple,
// sorted, min, max, sum, any, all, functools.reduce. Items are taken one by one, in Python's order with what is done to
// each. call_iterators is asked by builtins.cpp.
#include <algorithm>

#include "jit/containers.h"
#include "jit/exceptions.h"
#include "jit/given.h"
#include "jit/names.h"
#include "jit/tracer_core.h"
#include "runtime/frame.h"

#include <opcode.h>  // NB_ADD

namespace kintsugi {

namespace {

using Next = Tracer::Next;
using Values = std::vector<Value*>;
using Model = Flow (*)(Tracer&, Given&, Value**);

bool is_none(Value* value) { return value->is_constant() && value->object == Py_None; }

// ---- Making iterators ----------------------------------------------------------------------------------------------

Flow do_iter(Tracer& t, Given& given, Value** out) {
  if (given.values.size() == 1 && given.positional == 1) return t.get_iter(given.values[0], out);
  if (given.positional != 2 || given.names != nullptr) return t.stop(BreakReason::k_raises, "iter");
  Value* callable = t.force(given.values[0]);
  bool calls = callable->kind == ValueKind::kFunction || callable->kind == ValueKind::kMethod ||
               (callable->is_constant() && Py_TYPE(callable->object)->tp_call != nullptr) ||
               t.python_method(callable, interned.call) != nullptr;
  if (!calls) return t.stop(BreakReason::k_builtin, "iter");
  *out = t.make_iterator(IteratorKind::kSentinel, {callable, given.values[1]});
  return Flow::kGo;
}

Flow do_next(Tracer& t, Given& given, Value** out) {
  if (given.positional == 0 || given.positional > 2 || given.names != nullptr)
    return t.stop(BreakReason::k_raises, "next");
  bool has_default = given.positional == 2;
  Value* iterator = t.force(given.values[0]);
  if (!t.is_iterator(iterator)) return t.stop(BreakReason::k_builtin, "next");
  if (iterator->kind == ValueKind::kGenerator && (iterator->is_real() || iterator->stage != GeneratorStage::kFinished))
    return t.resume(iterator, t.none(), Resumption::kNext, has_default ? given.values[1] : nullptr);
  if (Value* method = t.python_method(iterator, interned.next)) {
    if (has_default) t.frame().stack.push_back(given.values[1]);
    return t.inline_call(method, {iterator}, nullptr, has_default ? ReturnRule::kNextOr : ReturnRule::kPush);
  }
  switch (t.next(iterator, out)) {
    case Next::kItem: return Flow::kGo;
    case Next::kEnd:
      if (!has_default) return t.raise_builtin(PyExc_StopIteration, {}, {}, "StopIteration");
      *out = given.values[1];
      return Flow::kGo;
    case Next::kUnknown: break;
  }
  return t.pass_on("next");
}

Flow make_parts(Tracer& t, Given& given, size_t first, IteratorKind kind, Value** out) {
  Values parts;
  for (size_t i = 0; i < given.positional; ++i) {
    parts.push_back(i < first ? given.values[i] : t.iterate(given.values[i]));
    if (parts.back() == nullptr) return t.stop_iteration("an iterable that is not modelled");
  }
  *out = t.make_iterator(kind, std::move(parts));
  return Flow::kGo;
}
Flow do_zip(Tracer& t, Given& given, Value** out) {
  Value* strict = given.named("strict");
  Next is_strict = Next::kEnd;
  if (strict != nullptr) {
    if (!t.force(strict)->is_constant()) return t.stop(BreakReason::k_builtin, "zip");
    is_strict = t.truth_now(strict);
  }
  if (is_strict == Next::kUnknown) return t.stop_iteration("zip");
  Flow flow = make_parts(t, given, 0, IteratorKind::kZip, out);
  if (flow == Flow::kGo) (*out)->stop = is_strict == Next::kItem;
  return flow;
}
Flow do_map(Tracer& t, Given& given, Value** out) {
  if (given.positional < 2) return t.stop(BreakReason::k_raises, "map");
  return make_parts(t, given, 1, IteratorKind::kMap, out);
}
Flow do_enumerate(Tracer& t, Given& given, Value** out) {
  Value *iterable = given.parameter(0, "iterable"), *first = given.parameter(1, "start");
  if (iterable == nullptr || given.positional > 2) return t.stop(BreakReason::k_raises, "enumerate");
  int64_t start = 0;
  if (first != nullptr) {
    first = t.force(first);
    int overflow = 0;
    bool known = first->is_constant() && PyLong_CheckExact(first->object);
    if (known) start = PyLong_AsLongLongAndOverflow(first->object, &overflow);
    // The count is an int64_t and must not reach its end.
    if (!known || overflow != 0 || start > INT64_MAX / 2) return t.stop(BreakReason::k_builtin, "enumerate");
  }
  Value* inner = t.iterate(iterable);
  if (inner == nullptr) return t.stop_iteration("enumerate");
  *out = t.make_iterator(IteratorKind::kEnumerate, {inner});
  (*out)->index = start;
  return Flow::kGo;
}

Flow do_reversed(Tracer& t, Given& given, Value** out) {
  if (given.positional != 1 || given.names != nullptr) return t.stop(BreakReason::k_raises, "reversed");
  Value* sequence = t.force(given.values[0]);
  if (sequence->is_constant() && PyRange_Check(sequence->object)) {
    Ref iterator(PyObject_CallMethod(sequence->object, "__reversed__", nullptr));
    Value* forward = t.iterate(sequence);
    if (!iterator || forward == nullptr) return t.stop(BreakReason::k_builtin, "reversed");
    int64_t count = t.remaining(forward);
    *out = t.make_iterator(IteratorKind::kRange, {});
    (*out)->index = forward->index + (count - 1) * forward->step;
    (*out)->step = -forward->step;
    (*out)->stop = forward->index - forward->step;
    return Flow::kGo;
  }
  if (sequence->kind == ValueKind::kDict || is_view(sequence)) {
    *out = reversed_dict(t, sequence);
    return *out != nullptr ? Flow::kGo : t.stop(BreakReason::k_builtin, "reversed");
  }
  if (sequence->content != nullptr && t.python_method(sequence, interned.reversed) == nullptr) {
    Flow flow = t.container_special(sequence, interned.reversed, {}, out);
    return flow != Flow::kGo || *out != nullptr ? flow : t.stop(BreakReason::k_builtin, "reversed");
  }
  if (Value* method = t.python_method(sequence, interned.reversed))
    return t.inline_call(method, {sequence}, nullptr, ReturnRule::kPush);
  if (sequence->kind == ValueKind::kObject) {
    Value *size = nullptr, *length = t.python_method(sequence, interned.len);
    if (length == nullptr || t.python_method(sequence, interned.getitem) == nullptr ||
        PyType_HasFeature(sequence->type, Py_TPFLAGS_DICT_SUBCLASS) ||
        _PyType_Lookup(sequence->type, interned.reversed) != nullptr)
      return t.stop(BreakReason::k_builtin, "reversed");
    if (Flow flow = t.call_now(length, {sequence}, &size); flow != Flow::kGo) return flow;
    if (!is_length_answer(size)) return t.stop(BreakReason::k_builtin, "reversed");
    *out = t.make_iterator(IteratorKind::kReversed, {sequence});
    (*out)->index = PyLong_AsLongLong(size->object) - 1;
    return Flow::kGo;
  }
  bool walks = sequence->kind == ValueKind::kTuple || sequence->kind == ValueKind::kList || sequence->is_constant();
  int64_t size = walks ? t.sequence_length(sequence) : -1;
  if (size < 0) return t.stop(BreakReason::k_builtin, "reversed");
  *out = t.make_iterator(IteratorKind::kReversed, {sequence});
  (*out)->index = size - 1;
  return Flow::kGo;
}

// ---- Walking through ----------------------------------------------------------------------------------------------

// Takes items of an iterable one by one to `each`, which answers whether it wants more. kGo: it ended, or had enough.
template <class Each>
Flow walk(Tracer& t, Value* iterable, const char* what, Each&& each) {
  Value* iterator = t.iterate(iterable);
  if (iterator == nullptr || t.remaining(iterator) > kLongestDrain) return t.stop_iteration(what);
  for (int64_t i = 0; i <= kLongestDrain; ++i) {
    Value* item = nullptr;
    Next result = t.next(iterator, &item);
    if (result == Next::kUnknown) return t.pass_on(what);
    if (result == Next::kEnd) return Flow::kGo;
    bool more = true;
    if (Flow flow = each(t.force(item), &more); flow != Flow::kGo) return flow;
    if (!more) return Flow::kGo;
  }
  return t.stop(BreakReason::k_iteration, what);
}

Flow do_tuple(Tracer& t, Given& given, Value** out) {
  Values items;
  if (given.values.size() > 1 || given.names != nullptr) return t.stop(BreakReason::k_raises, "tuple");
  if (given.positional == 1) {
    Value* from = t.force(given.values[0]);
    if (t.is_exact_tuple(from)) {
      *out = from;
      return Flow::kGo;
    }
    if (!t.drain(from, &items, Tracer::Asks::kHint)) return t.pass_on("tuple");
  }
  *out = t.tuple_of(std::move(items));
  return Flow::kGo;
}
Flow do_list(Tracer& t, Given& given, Value** out) {
  Values items;
  if (given.values.size() > 1 || given.names != nullptr) return t.stop(BreakReason::k_raises, "list");
  if (given.positional == 1 && !t.drain(given.values[0], &items, Tracer::Asks::kHint)) return t.pass_on("list");
  *out = t.list_of(std::move(items));
  return Flow::kGo;
}

Flow do_sorted(Tracer& t, Given& given, Value** out) {
  Value *key = given.named("key"), *reversed = given.named("reverse");
  if (given.positional != 1) return t.stop(BreakReason::k_raises, "sorted");
  bool reverse = false, known = true;
  if (reversed != nullptr) {
    reversed = t.force(reversed);
    bool is_int = reversed->is_constant() && (PyBool_Check(reversed->object) || PyLong_CheckExact(reversed->object));
    if (!is_int || !t.truth(reversed, &known, &reverse)) return t.stop(BreakReason::k_builtin, "sorted");
  }
  Values items;
  if (!t.drain(given.values[0], &items, Tracer::Asks::kHint)) return t.pass_on("sorted");
  // Python's own sort, of positions by key: its order also where keys have none (NaN).
  Ref keys(PyList_New(0)), order(PyList_New(0));
  if (!keys || !order) return t.stop(BreakReason::k_builtin, "sorted");
  Values all;
  PyObject* object;
  bool folds = true;
  for (Value* item : items) {
    Value* by = t.force(item);
    if (key != nullptr && !is_none(t.force(key)))
      if (Flow flow = t.call_now(key, {by}, &by); flow != Flow::kGo) return flow;
    if (by->is_number() && items.size() > 1) by = t.specialise(by);
    all.push_back(t.force(by));
    folds = folds && t.fold(all.back(), &object);
  }
  if (!folds && items.size() > 1) {
    std::vector<size_t> places;
    Values in_order;
    if (Flow flow = order_by_comparing(t, all, reverse, &places); flow != Flow::kGo) return flow;
    for (size_t place : places) in_order.push_back(items[place]);
    *out = t.list_of(std::move(in_order));
    return Flow::kGo;
  }
  for (size_t i = 0; i < items.size(); ++i) {
    if (items.size() < 2) break;  // nothing is compared
    t.fold(all[i], &object);
    Ref position(PyLong_FromSize_t(i));
    if (!position || PyList_Append(keys.get(), object) < 0 || PyList_Append(order.get(), position.get()) < 0)
      return t.stop(BreakReason::k_builtin, "sorted");
  }
  Ref sort(PyObject_GetAttr(order.get(), interned.sort)), none(PyTuple_New(0));
  Ref key_at(PyObject_GetAttr(keys.get(), interned.getitem));
  Ref how(key_at ? Py_BuildValue("{s:O,s:O}", "key", key_at.get(), "reverse", reverse ? Py_True : Py_False) : nullptr);
  Ref done(sort && none && how ? PyObject_Call(sort.get(), none.get(), how.get()) : nullptr);
  if (!done) return t.raise_pending("sorted");
  Values sorted;
  if (items.size() == 1) sorted = items;
  for (size_t i = 0; i < items.size() && items.size() > 1; ++i)
    sorted.push_back(items[PyLong_AsSize_t(PyList_GET_ITEM(order.get(), static_cast<Py_ssize_t>(i)))]);
  *out = t.list_of(std::move(sorted));
  return Flow::kGo;
}

Flow extreme(Tracer& t, Given& given, Value** out, bool greatest) {
  Value *key = given.named("key"), *otherwise = given.named("default");
  if (given.positional == 0 || (given.positional > 1 && otherwise != nullptr))
    return t.stop(BreakReason::k_raises, "min or max");
  if (key != nullptr && is_none(t.force(key))) key = nullptr;
  Value *best = nullptr, *best_key = nullptr;
  auto each = [&](Value* item, bool*) {
    Value *by = item, *better = nullptr;
    if (key != nullptr)
      if (Flow flow = t.call_now(key, {item}, &by); flow != Flow::kGo) return flow;
    by = t.force(by);
    if (best != nullptr) {
      if (by->kind == ValueKind::kTensor || best_key->kind == ValueKind::kTensor)
        return t.stop(BreakReason::k_data_branch, "min or max of tensors");
      Flow flow = t.compare(greatest ? Py_GT : Py_LT, by, best_key, &better);
      if (flow != Flow::kGo) return flow;
      if (better == nullptr) return t.stop(BreakReason::k_builtin, "min or max");
      Next answer = t.truth_now(better);
      if (answer == Next::kUnknown) return t.stop_iteration("min or max");
      if (answer == Next::kEnd) return Flow::kGo;
    }
    best = item;
    best_key = by;
    return Flow::kGo;
  };
  Value* items = given.positional == 1
                     ? given.values[0]
                     : t.tuple_of({given.values.begin(), given.values.begin() + static_cast<long>(given.positional)});
  if (Flow flow = walk(t, items, "min or max", each); flow != Flow::kGo) return flow;
  if (best == nullptr) best = otherwise;
  if (best == nullptr)
    return t.raise_text(PyExc_ValueError, std::string(greatest ? "max" : "min") + "() arg is an empty sequence",
                        "min or max of nothing");
  *out = best;
  return Flow::kGo;
}
Flow do_min(Tracer& t, Given& given, Value** out) { return extreme(t, given, out, false); }
Flow do_max(Tracer& t, Given& given, Value** out) { return extreme(t, given, out, true); }

Flow do_sum(Tracer& t, Given& given, Value** out) {
  Value* start = given.parameter(1, "start");
  if (given.positional == 0 || given.positional > 2) return t.stop(BreakReason::k_raises, "sum");
  Value* total = start == nullptr ? t.int_constant(0) : t.force(start);
  if (total->is_constant() &&
      (PyUnicode_Check(total->object) || PyBytes_Check(total->object) || PyByteArray_Check(total->object)))
    return t.stop(BreakReason::k_raises, "sum of text");
  auto add = [&](Value* item, bool*) {
    Value* next = nullptr;
    if (Flow flow = t.binary(NB_ADD, total, item, &next); flow != Flow::kGo) return flow;
    if (next == nullptr) return t.stop(BreakReason::k_builtin, "sum");
    total = t.force(next);
    return Flow::kGo;
  };
  if (Flow flow = walk(t, given.values[0], "sum", add); flow != Flow::kGo) return flow;
  *out = total;
  return Flow::kGo;
}

Flow any_all(Tracer& t, Given& given, Value** out, Next stop_at) {
  if (given.positional != 1 || given.names != nullptr) return t.stop(BreakReason::k_raises, "any or all");
  bool stopped = false;
  auto look = [&](Value* item, bool* more) {  // no further than the item that decides: an iterator stays there
    Next truth = t.truth_now(item);
    if (truth == Next::kUnknown) return t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_data_branch, "any or all");
    *more = !(stopped = truth == stop_at);
    return Flow::kGo;
  };
  if (Flow flow = walk(t, given.values[0], "any or all", look); flow != Flow::kGo) return flow;
  *out = t.constant(stopped == (stop_at == Next::kItem) ? Py_True : Py_False);
  return Flow::kGo;
}
Flow do_any(Tracer& t, Given& given, Value** out) { return any_all(t, given, out, Next::kItem); }
Flow do_all(Tracer& t, Given& given, Value** out) { return any_all(t, given, out, Next::kEnd); }

Flow do_reduce(Tracer& t, Given& given, Value** out) {
  if (given.positional < 2 || given.positional > 3 || given.names != nullptr)
    return t.stop(BreakReason::k_raises, "reduce");
  Value* total = given.positional == 3 ? given.values[2] : nullptr;
  auto add = [&](Value* item, bool*) {
    if (total == nullptr) {
      total = item;
      return Flow::kGo;
    }
    return t.call_now(given.values[0], {total, item}, &total);
  };
  if (Flow flow = walk(t, given.values[1], "reduce", add); flow != Flow::kGo) return flow;
  if (total == nullptr) return t.stop(BreakReason::k_raises, "reduce of nothing");
  *out = total;
  return Flow::kGo;
}

struct Row {
  const char* name;
  Model model;
};
constexpr Row kBuiltins[] = {
    {"iter", do_iter}, {"next", do_next},   {"zip", do_zip},       {"map", do_map}, {"enumerate", do_enumerate},
    {"list", do_list}, {"tuple", do_tuple}, {"sorted", do_sorted}, {"min", do_min}, {"reversed", do_reversed},
    {"max", do_max},   {"sum", do_sum},     {"any", do_any},       {"all", do_all},
};

const std::unordered_map<PyObject*, Model>& models() {
  static const auto* models = [] {
    auto* made = new std::unordered_map<PyObject*, Model>;
    for (const Row& row : kBuiltins)
      if (PyObject* object = PyDict_GetItemString(standard_builtins(), row.name)) (*made)[object] = row.model;
    Ref module = import_module("functools");
    if (PyObject* reduce = module ? PyObject_GetAttrString(module.get(), "reduce") : nullptr)
      (*made)[reduce] = do_reduce;
    PyErr_Clear();
    return made;
  }();
  return *models;
}

}  // namespace

bool Tracer::call_iterators(PyObject* callable, const Values& arguments, PyObject* names, Value** out, Flow* flow) {
  auto model = models().find(callable);
  if (model == models().end()) return call_itertools(callable, arguments, names, out, flow);
  Given given(arguments, names);
  *flow = model->second(*this, given, out);
  if (*flow == Flow::kGo && !given.all_named_used()) *flow = stop(BreakReason::k_raises, "a keyword of a builtin");
  return true;
}

// Whether an object's own __len__ and __length_hint__, which list() and its like ask for room, answer what they must.
bool Tracer::ask_length(Value* iterable, bool hint) {
  if (iterable->kind == ValueKind::kIterator && iterable->iterator == IteratorKind::kItems && hint)
    return ask_length(iterable->items[0], /*hint=*/false);
  PyTypeObject* self = as_class(iterable);
  if (self == nullptr && !is_instance(iterable)) return true;
  PyTypeObject* type = self != nullptr ? metaclass(self) : iterable->type;
  if (type == nullptr) return false;
  const PySequenceMethods* methods = type->tp_as_sequence;
  Value* size = nullptr;
  if (methods != nullptr && methods->sq_length != nullptr) {
    Value* method = python_method(iterable, interned.len);
    if (method == nullptr && iterable->content != nullptr)
      return container_special(iterable, interned.len, {}, &size) == Flow::kGo;
    if (method == nullptr) return false;
    Flow flow = call_now(method, {iterable}, &size);
    refuse_taken(*this, flow, PyExc_TypeError, "__len__");
    return flow == Flow::kGo && is_length_answer(size);
  }
  if (!hint || _PyType_Lookup(type, interned.length_hint) == nullptr) return true;
  Value* method = python_method(iterable, interned.length_hint);
  if (method == nullptr) return false;
  Flow flow = call_now(method, {iterable}, &size);
  refuse_taken(*this, flow, PyExc_TypeError, "__length_hint__");
  if (flow != Flow::kGo) return false;
  return is_length_answer(size) || (size->is_constant() && size->object == Py_NotImplemented);
}

}  // namespace kintsugi
