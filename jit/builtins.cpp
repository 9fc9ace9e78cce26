// Models of Python's builtin functions, types and math: what a call of one means to values that the trace knows. One
// entry of the table below for each; what has no entry is a break at its call.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "jit/tracer_core.h"
#include "runtime/frame.h"

#include <opcode.h>  // NB_ADD and the like

namespace kintsugi {

namespace {

using Arguments_ = std::vector<Value*>;
using Model = Flow (*)(Tracer&, Arguments_&, Value**);

PyTypeObject* type_of(Value* value) {
  switch (value->kind) {
    case ValueKind::kConstant: return Py_TYPE(value->object);
    case ValueKind::kInt: return &PyLong_Type;
    case ValueKind::kFloat: return &PyFloat_Type;
    case ValueKind::kBool: return &PyBool_Type;
    case ValueKind::kTensor: return &TensorType;
    case ValueKind::kTuple: return value->type != nullptr ? value->type : &PyTuple_Type;
    case ValueKind::kList: return &PyList_Type;
    case ValueKind::kDict: return &PyDict_Type;
    case ValueKind::kSlice: return &PySlice_Type;
    case ValueKind::kRange: return &PyRange_Type;
    case ValueKind::kFunction: return &PyFunction_Type;
    case ValueKind::kMethod: return value->items[0]->kind == ValueKind::kFunction ? &PyMethod_Type : nullptr;
    case ValueKind::kObject: return value->type;
    default: return nullptr;
  }
}

bool is_int(Value* v) {
  return v->kind == ValueKind::kInt || (v->is_constant() && (PyLong_CheckExact(v->object) || PyBool_Check(v->object)));
}

// A keyword as text; "" for one that has no UTF-8 form, which is none that a builtin knows.
std::string keyword_at(PyObject* names, size_t index) {
  const char* text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(index)));
  if (text == nullptr) PyErr_Clear();
  return text == nullptr ? "" : text;
}

Flow do_len(Tracer& t, Arguments_& a, Value** out) {
  if (a.size() != 1) return t.stop(BreakReason::k_raises, "len");
  Value* v = a[0];
  if (v->kind == ValueKind::kTensor) {
    if (v->layout->rank == 0) return t.stop(BreakReason::k_raises, "len of a 0-d tensor");
    *out = t.size_of(v, 0);
    return Flow::kGo;
  }
  if (v->kind == ValueKind::kList && !v->complete && t.is_dynamic_source(t.source_text(v), false)) {
    Guard& load = t.guard(GuardKind::k_list_size, v->source);
    load.a = v->id;
    Value* size = t.make(ValueKind::kInt);
    size->int_hint = PyList_GET_SIZE(v->object);
    size->id = load.dst = t.new_value();
    if (v->items.empty()) {
      *out = size;
      return Flow::kGo;
    }
    return t.binary(NB_ADD, size, t.int_constant(static_cast<int64_t>(v->items.size())), out);
  }
  if (v->kind == ValueKind::kObject) {
    Ref name(PyUnicode_InternFromString("__len__"));
    if (v->is_real() && t.versions_.count(v->type) == 0) return t.stop(BreakReason::k_builtin, "len");
    Value* method = t.find_in_class(v->type, name.get());
    if (method == nullptr || method->kind != ValueKind::kFunction) return t.stop(BreakReason::k_builtin, "len");
    if (Flow flow = t.call_now(method, {v}, out); flow != Flow::kGo) return flow;
    return is_length_answer(*out) ? Flow::kGo : t.stop(BreakReason::k_builtin, "len");
  }
  int64_t items = t.length(v);
  if (items < 0 && v->kind == ValueKind::kIterator && !v->complete) items = t.length(v->items[0]);
  if (items < 0) return t.stop(BreakReason::k_builtin, "len");
  *out = t.int_constant(items);
  return Flow::kGo;
}

Flow do_range(Tracer& t, Arguments_& a, Value** out) {
  if (a.empty() || a.size() > 3) return t.stop(BreakReason::k_raises, "range");
  bool folds = true;
  for (Value* v : a) {
    if (!is_int(v)) return t.stop(BreakReason::k_builtin, "range");
    folds = folds && v->is_constant();
  }
  if (folds) {
    Ref tuple(PyTuple_New(a.size()));
    for (size_t i = 0; tuple && i < a.size(); ++i) PyTuple_SET_ITEM(tuple.get(), i, Py_NewRef(a[i]->object));
    if (!tuple) return t.stop(BreakReason::k_raises, "range");
    *out = t.constant_owned(PyObject_CallObject(reinterpret_cast<PyObject*>(&PyRange_Type), tuple.get()));
    return *out != nullptr ? Flow::kGo : t.stop(BreakReason::k_raises, "range");
  }
  Value* step = a.size() == 3 ? a[2] : t.int_constant(1);
  if (!step->is_constant()) step = t.specialise(step);
  if (PyObject_IsTrue(step->object) == 0) return t.stop(BreakReason::k_raises, "range");
  *out = t.make(ValueKind::kRange);
  (*out)->items = {a.size() == 1 ? t.int_constant(0) : a[0], a.size() == 1 ? a[0] : a[1], step};
  return Flow::kGo;
}

Flow iterators_of(Tracer& t, Arguments_& a, size_t first, IteratorKind kind, Value** out) {
  Value* result = t.make(ValueKind::kIterator);
  result->iterator = kind;
  for (size_t i = 0; i < a.size(); ++i) {
    Value* part = i < first ? a[i] : t.iterate(a[i]);
    if (part == nullptr || (i >= first && !t.can_follow(part)))
      return t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_iteration, "an iterable that is not modelled");
    result->items.push_back(part);
  }
  *out = result;
  return Flow::kGo;
}
Flow do_zip(Tracer& t, Arguments_& a, Value** out) { return iterators_of(t, a, 0, IteratorKind::kZip, out); }
Flow do_map(Tracer& t, Arguments_& a, Value** out) {
  if (a.size() < 2) return t.stop(BreakReason::k_raises, "map");
  return iterators_of(t, a, 1, IteratorKind::kMap, out);
}
Flow do_enumerate(Tracer& t, Arguments_& a, Value** out) {
  if (a.empty() || a.size() > 2) return t.stop(BreakReason::k_raises, "enumerate");
  int64_t start = 0;
  if (a.size() == 2) {
    if (!a[1]->is_constant() || !PyLong_CheckExact(a[1]->object)) return t.stop(BreakReason::k_builtin, "enumerate");
    start = PyLong_AsLongLong(a[1]->object);
    // The count is an int64_t and must not reach its end.
    if (PyErr_Occurred() || start > INT64_MAX / 2) return t.stop(BreakReason::k_builtin, "enumerate");
    a.pop_back();
  }
  Flow flow = iterators_of(t, a, 0, IteratorKind::kEnumerate, out);
  if (flow == Flow::kGo) (*out)->index = start;
  return flow;
}
Flow do_reversed(Tracer& t, Arguments_& a, Value** out) {
  std::vector<Value*>* items;
  if (a.size() != 1 || !t.list_items(a[0], &items)) return t.stop(BreakReason::k_builtin, "reversed");
  *out = t.make(ValueKind::kIterator);
  (*out)->iterator = IteratorKind::kReversed;
  (*out)->items = {a[0]};
  (*out)->index = static_cast<int64_t>(items->size()) - 1;
  return Flow::kGo;
}
Flow do_iter(Tracer& t, Arguments_& a, Value** out) {
  *out = a.size() == 1 ? t.iterate(a[0]) : nullptr;
  return *out != nullptr ? Flow::kGo : t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_iteration, "iter");
}
Flow do_next(Tracer& t, Arguments_& a, Value** out) {
  if (a.empty() || a.size() > 2 || a[0]->kind != ValueKind::kIterator || !a[0]->complete)
    return t.stop(BreakReason::k_builtin, "next");
  if (a[0]->iterator == IteratorKind::kRealRange || !t.can_follow(a[0])) return t.stop(BreakReason::k_builtin, "next");
  switch (t.next(a[0], out)) {
    case Tracer::Next::kItem: return Flow::kGo;
    case Tracer::Next::kEnd:
      if (a.size() == 1) return t.stop(BreakReason::k_raises, "StopIteration");
      *out = a[1];
      return Flow::kGo;
    case Tracer::Next::kUnknown: break;
  }
  return t.stop(BreakReason::k_builtin, "next");
}

Flow do_tuple(Tracer& t, Arguments_& a, Value** out) {
  std::vector<Value*> items;
  if (a.size() > 1 || (a.size() == 1 && !t.drain(a[0], &items)))
    return t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_iteration, "tuple");
  *out = t.tuple_of(std::move(items));
  return Flow::kGo;
}
Flow do_list(Tracer& t, Arguments_& a, Value** out) {
  std::vector<Value*> items;
  if (a.size() > 1 || (a.size() == 1 && !t.drain(a[0], &items)))
    return t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_iteration, "list");
  *out = t.list_of(std::move(items));
  return Flow::kGo;
}

Flow do_isinstance(Tracer& t, Arguments_& a, Value** out) {
  if (a.size() != 2) return t.stop(BreakReason::k_raises, "isinstance");
  PyTypeObject* type = type_of(a[0]);
  std::vector<Value*> one{a[1]}, *classes = &one;
  if (a[1]->kind == ValueKind::kTuple || (a[1]->is_constant() && PyTuple_Check(a[1]->object)))
    t.list_items(a[1], &classes);
  if (type == nullptr) return t.stop(BreakReason::k_builtin, "isinstance");
  if (a[0]->kind == ValueKind::kObject && a[0]->is_real() && !t.ensure_version(type))
    return t.stop(BreakReason::k_builtin, "isinstance");
  bool answer = false;
  for (size_t i = 0; i < classes->size(); ++i) {
    Value* each = classes == &one ? a[1] : t.item_at(a[1], i);
    if (!each->is_constant() || !PyType_CheckExact(each->object)) return t.stop(BreakReason::k_builtin, "isinstance");
    answer = answer || PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(each->object));
  }
  *out = t.constant(answer ? Py_True : Py_False);
  return Flow::kGo;
}

Flow do_type(Tracer& t, Arguments_& a, Value** out) {
  PyTypeObject* type = a.size() == 1 ? type_of(a[0]) : nullptr;
  if (type == nullptr) return t.stop(BreakReason::k_builtin, "type");
  *out = t.constant(reinterpret_cast<PyObject*>(type));
  return Flow::kGo;
}

Flow extreme(Tracer& t, Arguments_& a, Value** out, bool greatest) {
  std::vector<Value*> items = a;
  if (a.size() == 1) {
    items.clear();
    if (!t.drain(a[0], &items)) return t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_builtin, "min or max");
  }
  if (items.empty()) return t.stop(BreakReason::k_raises, "min or max of nothing");
  Value* best = t.force(items[0]);
  for (size_t i = 1; i < items.size(); ++i) {
    Value *item = t.force(items[i]), *better = nullptr;
    bool known, answer;
    if (item->kind == ValueKind::kTensor || best->kind == ValueKind::kTensor)
      return t.stop(BreakReason::k_data_branch, "min or max of tensors");
    if (Flow flow = t.compare(greatest ? Py_GT : Py_LT, item, best, &better); flow != Flow::kGo) return flow;
    if (!t.truth(better, &known, &answer)) return t.stop(BreakReason::k_builtin, "min or max");
    if (!known) t.specialise(better);
    if (answer) best = item;
  }
  *out = best;
  return Flow::kGo;
}
Flow do_min(Tracer& t, Arguments_& a, Value** out) { return extreme(t, a, out, false); }
Flow do_max(Tracer& t, Arguments_& a, Value** out) { return extreme(t, a, out, true); }

Flow do_sum(Tracer& t, Arguments_& a, Value** out) {
  std::vector<Value*> items;
  if (a.empty() || a.size() > 2 || !t.drain(a[0], &items))
    return t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_builtin, "sum");
  Value* total = a.size() == 2 ? a[1] : t.int_constant(0);
  if (type_of(total) == &PyUnicode_Type || type_of(total) == &PyBytes_Type)
    return t.stop(BreakReason::k_raises, "sum of text");
  for (Value* item : items) {
    Value* next = nullptr;
    if (Flow flow = t.binary(NB_ADD, total, t.force(item), &next); flow != Flow::kGo) return flow;
    if (next == nullptr) return t.stop(BreakReason::k_builtin, "sum");
    total = next;
  }
  *out = total;
  return Flow::kGo;
}

Flow any_all(Tracer& t, Arguments_& a, Value** out, bool stop_at) {
  Value* iterator = a.size() == 1 ? t.iterate(a[0]) : nullptr;
  if (iterator == nullptr || !t.can_follow(iterator) || t.remaining(iterator) > kLongestDrain)
    return t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_builtin, "any or all");
  for (Value* item = nullptr;;) {  // no further than the item that decides: an iterator stays there
    Tracer::Next step = t.next(iterator, &item);
    if (step == Tracer::Next::kEnd) break;
    if (step == Tracer::Next::kUnknown) return t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_builtin, "any or all");
    bool known, answer;
    item = t.force(item);
    if (item->kind == ValueKind::kTensor || !t.truth(item, &known, &answer))
      return t.stop(BreakReason::k_data_branch, "any or all");
    if (!known) t.specialise(item);
    if (answer == stop_at) {
      *out = t.constant(stop_at ? Py_True : Py_False);
      return Flow::kGo;
    }
  }
  *out = t.constant(stop_at ? Py_False : Py_True);
  return Flow::kGo;
}
Flow do_any(Tracer& t, Arguments_& a, Value** out) { return any_all(t, a, out, true); }
Flow do_all(Tracer& t, Arguments_& a, Value** out) { return any_all(t, a, out, false); }

Flow do_abs(Tracer& t, Arguments_& a, Value** out) {
  if (a.size() != 1) return t.stop(BreakReason::k_raises, "abs");
  if (a[0]->kind == ValueKind::kTensor) return t.tensor_unary(Unary::kAbsolute, a[0], out);
  PyObject* object;
  if (t.fold(a[0], &object)) {
    *out = t.constant_owned(PyNumber_Absolute(object));
    return *out != nullptr ? Flow::kGo : t.stop(BreakReason::k_raises, "abs");
  }
  if (a[0]->kind == ValueKind::kFloat) {
    Step& step = t.record(StepKind::k_float_abs);
    *out = t.make(ValueKind::kFloat);
    (*out)->float_hint = std::fabs(a[0]->float_hint);
    step.a = a[0]->id;
    step.dst = (*out)->id = t.new_value();
    return Flow::kGo;
  }
  if (a[0]->kind == ValueKind::kInt) {
    t.specialise(t.word_compare(Compare::kLess, a[0], t.int_constant(0)));
    if (a[0]->int_hint >= 0) {
      *out = a[0];
      return Flow::kGo;
    }
    return t.unary(static_cast<int>(Opcode::k_UNARY_NEGATIVE), a[0], out);
  }
  if (a[0]->kind == ValueKind::kObject && t.versions_.count(a[0]->type) != 0) {
    Ref name(PyUnicode_InternFromString("__abs__"));
    Value* method = t.find_in_class(a[0]->type, name.get());
    if (method != nullptr && method->kind == ValueKind::kFunction) return t.call_now(method, {a[0]}, out);
  }
  return t.stop(BreakReason::k_builtin, "abs");
}

Flow do_float(Tracer& t, Arguments_& a, Value** out) {
  PyObject* object;
  if (a.size() == 1 && a[0]->is_number()) {
    *out = t.as_float(a[0]);
    return Flow::kGo;
  }
  if (a.size() == 1 && a[0]->kind == ValueKind::kTensor) return t.stop(BreakReason::k_item, "float()");
  if (a.size() == 1 && t.fold(a[0], &object)) {
    *out = t.constant_owned(PyNumber_Float(object));
    return *out != nullptr ? Flow::kGo : t.stop(BreakReason::k_raises, "float");
  }
  return t.stop(BreakReason::k_builtin, "float");
}
Flow do_int(Tracer& t, Arguments_& a, Value** out) {
  PyObject* object;
  if (a.size() == 1 && a[0]->kind == ValueKind::kInt) {
    *out = a[0];
    return Flow::kGo;
  }
  if (a.size() == 1 && a[0]->kind == ValueKind::kTensor) return t.stop(BreakReason::k_item, "int()");
  if (a.size() == 1 && t.fold(a[0], &object)) {
    *out = t.constant_owned(PyNumber_Long(object));
    return *out != nullptr ? Flow::kGo : t.stop(BreakReason::k_raises, "int");
  }
  return t.stop(BreakReason::k_builtin, "int");
}
Flow do_bool(Tracer& t, Arguments_& a, Value** out) {
  bool known, answer;
  if (a.size() == 1 && a[0]->kind == ValueKind::kTensor) return t.stop(BreakReason::k_data_branch, "bool()");
  if (a.size() != 1 || !t.truth(a[0], &known, &answer))
    return t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_builtin, "bool");
  if (known) {
    *out = t.constant(answer ? Py_True : Py_False);
  } else if (a[0]->kind == ValueKind::kBool) {
    *out = a[0];
  } else {
    Value* zero = a[0]->kind == ValueKind::kFloat ? t.constant_owned(PyFloat_FromDouble(0)) : t.int_constant(0);
    *out = t.word_compare(Compare::kNotEqual, a[0], zero);
  }
  return Flow::kGo;
}

Flow do_getattr(Tracer& t, Arguments_& a, Value** out) {
  if (a.size() < 2 || a.size() > 3 || !a[1]->is_constant() || !PyUnicode_CheckExact(a[1]->object))
    return t.stop(BreakReason::k_builtin, "getattr");
  if (a.size() == 3) {
    bool present;
    if (!t.has_attribute(a[0], a[1]->object, &present)) return t.stop(BreakReason::k_builtin, "getattr");
    if (!present) {
      *out = a[2];
      return Flow::kGo;
    }
  }
  return t.get_attribute(a[0], a[1]->object, out);
}
Flow do_hasattr(Tracer& t, Arguments_& a, Value** out) {
  bool present;
  if (a.size() != 2 || !a[1]->is_constant() || !PyUnicode_CheckExact(a[1]->object) ||
      !t.has_attribute(a[0], a[1]->object, &present))
    return t.stop(BreakReason::k_builtin, "hasattr");
  *out = t.constant(present ? Py_True : Py_False);
  return Flow::kGo;
}
Flow do_setattr(Tracer& t, Arguments_& a, Value** out) {
  if (a.size() != 3 || !a[1]->is_constant() || !PyUnicode_CheckExact(a[1]->object))
    return t.stop(BreakReason::k_builtin, "setattr");
  size_t depth = t.frames_.size();
  Flow flow = t.set_attribute(a[0], a[1]->object, a[2]);
  if (flow == Flow::kGo && t.frames_.size() != depth) return t.stop(BreakReason::k_builtin, "setattr of a property");
  *out = t.none();
  return flow;
}
Flow do_callable(Tracer& t, Arguments_& a, Value** out) {
  PyTypeObject* type = a.size() == 1 ? type_of(a[0]) : nullptr;
  if (type == nullptr || (a[0]->kind == ValueKind::kObject && !t.ensure_version(type)))
    return t.stop(BreakReason::k_builtin, "callable");
  *out = t.constant(type->tp_call != nullptr ? Py_True : Py_False);
  return Flow::kGo;
}
Flow do_slice(Tracer& t, Arguments_& a, Value** out) {
  if (a.empty() || a.size() > 3) return t.stop(BreakReason::k_raises, "slice");
  std::vector<Value*> parts = a.size() == 1 ? std::vector<Value*>{t.none(), a[0]} : a;
  if (parts.size() == 2) parts.push_back(t.none());
  bool folds = true;
  for (Value* part : parts) folds = folds && part->is_constant();
  if (folds) {
    *out = t.constant_owned(PySlice_New(parts[0]->object, parts[1]->object, parts[2]->object));
    return Flow::kGo;
  }
  *out = t.make(ValueKind::kSlice);
  (*out)->items = std::move(parts);
  return Flow::kGo;
}

Flow do_super(Tracer& t, Arguments_& a, Value** out) {
  Value *type = nullptr, *self = nullptr;
  if (a.size() == 2) {
    type = a[0];
    self = a[1];
  } else if (a.empty() && t.frame().bytecode->code->co_argcount > 0) {
    TraceFrame& now = t.frame();
    PyCodeObject* code = now.bytecode->code;
    for (int i = 0; i < code->co_nlocalsplus; ++i) {
      const char* name = PyUnicode_AsUTF8(slot_name(code, i));
      if (name == nullptr || strcmp(name, "__class__") != 0) continue;
      Value* cell = now.locals[i] = t.force(now.locals[i]);
      if (cell->kind != ValueKind::kCell) break;
      if (!cell->complete) {
        PyObject* content = PyCell_GET(cell->object);
        if (content == nullptr) break;
        cell->items = {t.load_field(cell, offsetof(PyCellObject, ob_ref), content, "cell __class__")};
        cell->complete = true;
      }
      if (!cell->items.empty()) type = t.force(cell->items[0]);
    }
    self = t.force(now.locals[0]);
    if (self->kind == ValueKind::kCell && !self->items.empty()) self = t.force(self->items[0]);
  }
  if (type == nullptr || !type->is_constant() || !PyType_Check(type->object) || self->kind != ValueKind::kObject)
    return t.stop(BreakReason::k_builtin, "super");
  *out = t.make(ValueKind::kSuper);
  (*out)->items = {type, self};
  return Flow::kGo;
}

Flow do_sorted(Tracer& t, Arguments_& a, Value* key, bool reverse, Value** out) {
  std::vector<Value*> items;
  if (a.size() != 1 || !t.drain(a[0], &items)) return t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_builtin, "sorted");
  // Python's own sort, of positions by key: its order also where keys have none (NaN).
  Ref keys(PyList_New(0)), order(PyList_New(0));
  if (!keys || !order) return t.stop(BreakReason::k_builtin, "sorted");
  for (size_t i = 0; i < items.size(); ++i) {
    Value* by = t.force(items[i]);
    if (key != nullptr && !(key->is_constant() && key->object == Py_None)) {
      if (Flow flow = t.call_now(key, {by}, &by); flow != Flow::kGo) return flow;
    }
    PyObject* object;
    if (!t.fold(by, &object)) return t.stop(BreakReason::k_builtin, "sorted by keys that are known only at run time");
    Ref position(PyLong_FromSize_t(i));
    if (!position || PyList_Append(keys.get(), object) < 0 || PyList_Append(order.get(), position.get()) < 0)
      return t.stop(BreakReason::k_builtin, "sorted");
  }
  Ref sort(PyObject_GetAttrString(order.get(), "sort")), none(PyTuple_New(0));
  Ref key_at(PyObject_GetAttrString(keys.get(), "__getitem__"));
  Ref how(key_at ? Py_BuildValue("{s:O,s:O}", "key", key_at.get(), "reverse", reverse ? Py_True : Py_False) : nullptr);
  Ref done(sort && none && how ? PyObject_Call(sort.get(), none.get(), how.get()) : nullptr);
  if (!done) return t.stop(BreakReason::k_raises, "sorted");
  std::vector<Value*> sorted;
  for (size_t i = 0; i < items.size(); ++i)
    sorted.push_back(items[PyLong_AsSize_t(PyList_GET_ITEM(order.get(), static_cast<Py_ssize_t>(i)))]);
  *out = t.list_of(std::move(sorted));
  return Flow::kGo;
}

struct Table {
  std::unordered_map<PyObject*, Model> models;
  std::unordered_map<PyObject*, FloatFunction> math;
  std::unordered_map<PyObject*, bool> pure;  // answers from its arguments alone
  PyObject *sorted = nullptr, *dict = nullptr;

  Table() {
    PyObject* builtins = PyEval_GetBuiltins();
    auto add = [&](const char* name, Model model) {
      if (PyObject* object = PyDict_GetItemString(builtins, name)) models[object] = model;
    };
    add("len", do_len);
    add("range", do_range);
    add("zip", do_zip);
    add("map", do_map);
    add("enumerate", do_enumerate);
    add("reversed", do_reversed);
    add("iter", do_iter);
    add("next", do_next);
    add("tuple", do_tuple);
    add("list", do_list);
    add("isinstance", do_isinstance);
    add("type", do_type);
    add("min", do_min);
    add("max", do_max);
    add("sum", do_sum);
    add("any", do_any);
    add("all", do_all);
    add("abs", do_abs);
    add("float", do_float);
    add("int", do_int);
    add("bool", do_bool);
    add("getattr", do_getattr);
    add("hasattr", do_hasattr);
    add("setattr", do_setattr);
    add("callable", do_callable);
    add("slice", do_slice);
    add("super", do_super);
    sorted = PyDict_GetItemString(builtins, "sorted");
    dict = PyDict_GetItemString(builtins, "dict");
    for (const char* name :
         {"round", "divmod", "pow", "ord", "chr", "str", "repr", "complex", "bin", "hex", "oct", "len", "hash"})
      if (PyObject* object = PyDict_GetItemString(builtins, name)) pure[object] = true;
    Ref module(PyImport_ImportModule("math"));
    if (!module) {
      PyErr_Clear();
      return;
    }
    static constexpr std::pair<const char*, FloatFunction> kMath[] = {
        {"sin", FloatFunction::kSin},           {"cos", FloatFunction::kCos},        {"tan", FloatFunction::kTan},
        {"asin", FloatFunction::kAsin},         {"acos", FloatFunction::kAcos},      {"atan", FloatFunction::kAtan},
        {"atan2", FloatFunction::kAtan2},       {"sinh", FloatFunction::kSinh},      {"cosh", FloatFunction::kCosh},
        {"tanh", FloatFunction::kTanh},         {"exp", FloatFunction::kExp},        {"log", FloatFunction::kLog},
        {"log2", FloatFunction::kLog2},         {"log10", FloatFunction::kLog10},    {"sqrt", FloatFunction::kSqrt},
        {"copysign", FloatFunction::kCopysign}, {"fmod", FloatFunction::kFmod},      {"pow", FloatFunction::kPow},
        {"radians", FloatFunction::kRadians},   {"degrees", FloatFunction::kDegrees}};
    PyObject* names = PyModule_GetDict(module.get());
    for (auto& [name, function] : kMath)
      if (PyObject* object = PyDict_GetItemString(names, name)) math[object] = function;
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(names, &position, &key, &value))
      if (PyCFunction_Check(value)) pure[Py_NewRef(value)] = true;
  }
};

const Table& table() {
  static const Table* table = new Table;
  return *table;
}

bool is_atom_result(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || type == &PyUnicode_Type ||
         type == &PyBytes_Type || type == &PyComplex_Type || type == &PyTuple_Type || object == Py_None;
}

// A pure function of atoms is evaluated now. Nothing is pushed when it raises: the real call will.
Flow fold_call(Tracer& t, PyObject* callable, const Arguments_& a, PyObject* names, Value** out, bool* handled) {
  std::vector<PyObject*> objects;
  for (Value* v : a) {
    PyObject* object;
    if (!t.fold(v, &object)) return Flow::kGo;
    if (PyLong_Check(object) && _PyLong_NumBits(object) > 4096) return Flow::kGo;
    objects.push_back(object);
  }
  size_t keywords = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  Ref result(PyObject_Vectorcall(callable, objects.data(), objects.size() - keywords, names));
  *handled = true;
  if (!result) return t.stop(BreakReason::k_raises, "a builtin");
  if (PyList_CheckExact(result.get())) {  // str.split
    std::vector<Value*> items;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(result.get()); ++i)
      items.push_back(t.constant(PyList_GET_ITEM(result.get(), i)));
    *out = t.list_of(std::move(items));
    return Flow::kGo;
  }
  if (!is_atom_result(result.get())) return t.stop(BreakReason::k_builtin, "a builtin");
  *out = t.constant(result.get());
  return Flow::kGo;
}

}  // namespace

Flow Tracer::call_builtin(Value* callable, std::vector<Value*>& arguments, PyObject* names, Value** out,
                          bool* handled) {
  *handled = false;
  if (!callable->is_constant()) return Flow::kGo;
  PyObject* object = callable->object;
  for (Value*& argument : arguments) argument = force(argument);
  const Table& known = table();
  size_t keywords = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  if (object == known.sorted) {
    Value* key = nullptr;
    bool reverse = false;
    for (size_t k = 0; k < keywords; ++k) {
      std::string name = keyword_at(names, k);
      Value* value = arguments[arguments.size() - keywords + k];
      bool is_known, answer;
      if (name == "key")
        key = value;
      else if (name == "reverse" && truth(value, &is_known, &answer) && is_known)
        reverse = answer;
      else
        return stop(BreakReason::k_builtin, "sorted");
    }
    arguments.resize(arguments.size() - keywords);
    *handled = true;
    return do_sorted(*this, arguments, key, reverse, out);
  }
  if (object == known.dict) {
    *handled = true;
    size_t positional = arguments.size() - keywords;
    Value* dict = make(ValueKind::kDict);
    if (positional > 1) return stop(BreakReason::k_raises, "dict");
    if (positional == 1) {
      Value* other = arguments[0];
      if (other->kind != ValueKind::kDict || !dict_complete(other)) return stop(BreakReason::k_builtin, "dict");
      for (size_t i = 0; i < other->entries.size(); ++i)
        dict_put(dict, other->entries[i].first, dict_get(other, other->entries[i].first));
    }
    for (size_t k = 0; k < keywords; ++k) dict_put(dict, PyTuple_GET_ITEM(names, k), arguments[positional + k]);
    *out = dict;
    return Flow::kGo;
  }
  // min and max take key=; enumerate takes start=.
  if (auto model = known.models.find(object); model != known.models.end()) {
    std::string name = keywords == 0 ? "" : keyword_at(names, 0);
    if (keywords == 1 && model->second == do_enumerate && arguments.size() == 2 && name == "start") keywords = 0;
    if (keywords == 0) {
      *handled = true;
      return model->second(*this, arguments, out);
    }
    bool extremes = model->second == do_min || model->second == do_max;
    if (keywords == 1 && extremes && name == "key") {
      *handled = true;
      Value* key = arguments.back();
      arguments.pop_back();
      std::vector<Value*> items = arguments;
      if (arguments.size() == 1) {
        items.clear();
        if (!drain(arguments[0], &items)) return ended_ ? Flow::kEnd : stop(BreakReason::k_builtin, "min or max");
      }
      if (items.empty()) return stop(BreakReason::k_raises, "min or max of nothing");
      Value *best = nullptr, *best_key = nullptr;
      for (Value* item : items) {
        Value *by = nullptr, *better = nullptr;
        bool is_known, answer = true;
        if (Flow flow = call_now(key, {force(item)}, &by); flow != Flow::kGo) return flow;
        if (best != nullptr) {
          if (by->kind == ValueKind::kTensor) return stop(BreakReason::k_data_branch, "min or max by a tensor key");
          if (Flow flow = compare(model->second == do_max ? Py_GT : Py_LT, by, best_key, &better); flow != Flow::kGo)
            return flow;
          if (!truth(better, &is_known, &answer)) return stop(BreakReason::k_builtin, "min or max");
          if (!is_known) specialise(better);
        }
        if (answer) best = force(item), best_key = by;
      }
      *out = best;
      return Flow::kGo;
    }
    return Flow::kGo;
  }
  if (auto math = known.math.find(object);
      math != known.math.end() && keywords == 0 && !arguments.empty() && arguments.size() <= 2) {
    bool word = false, numeric = true;
    for (Value* v : arguments) {
      word = word || v->is_number();
      numeric = numeric && (v->is_number() ||
                            (v->is_constant() && (PyFloat_CheckExact(v->object) || PyLong_CheckExact(v->object))));
    }
    bool binary_function = math->second == FloatFunction::kAtan2 || math->second == FloatFunction::kCopysign ||
                           math->second == FloatFunction::kFmod || math->second == FloatFunction::kPow;
    if (word && numeric && arguments.size() == (binary_function ? 2u : 1u)) {
      *handled = true;
      // Today's answer, for the hints of what follows; where it raises, the real call does.
      std::vector<PyObject*> hints;
      bool ignored = false;
      for (Value* v : arguments) hints.push_back(stand_in(v, &ignored));
      Ref hint(PyObject_Vectorcall(object, hints.data(), hints.size(), nullptr));
      if (!hint || !PyFloat_CheckExact(hint.get())) return stop(BreakReason::k_raises, "math");
      Value* a = as_float(arguments[0]);
      Value* b = arguments.size() == 2 ? as_float(arguments[1]) : nullptr;
      ExitId exit = exit_here(ExitKind::kStep);
      Step& step = record(StepKind::k_float_math);
      *out = make(ValueKind::kFloat);
      (*out)->float_hint = PyFloat_AS_DOUBLE(hint.get());
      step.a = a->id;
      step.b = b == nullptr ? kNoValue : b->id;
      step.imm = static_cast<int64_t>(math->second);
      step.on_fail = exit;
      step.dst = (*out)->id = new_value();
      return Flow::kGo;
    }
  }
  if (known.pure.count(object) != 0) return fold_call(*this, object, arguments, names, out, handled);
  if (Py_TYPE(object) == &PyMethodDescr_Type && !arguments.empty()) {
    PyMethodDescrObject* method = reinterpret_cast<PyMethodDescrObject*>(object);
    PyTypeObject* owner = method->d_common.d_type;
    if (owner == &PyList_Type || owner == &PyDict_Type) {
      Value* self = arguments[0];
      bool matches = self->kind == (owner == &PyList_Type ? ValueKind::kList : ValueKind::kDict);
      if (!matches) return stop(BreakReason::k_method, method->d_method->ml_name);
      std::vector<Value*> rest(arguments.begin() + 1, arguments.end());
      *handled = true;
      return container_method(self, method->d_common.d_name, rest, names, out);
    }
    if (owner == &PyUnicode_Type || owner == &PyBytes_Type || owner == &PyLong_Type || owner == &PyFloat_Type ||
        owner == &PyTuple_Type) {
      std::string name = method->d_method->ml_name;
      bool long_result = name == "ljust" || name == "rjust" || name == "center" || name == "zfill";
      if (!long_result) return fold_call(*this, object, arguments, names, out, handled);
    }
  }
  return Flow::kGo;
}

}  // namespace kintsugi
