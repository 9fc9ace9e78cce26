// Models of Python's builtin functions, types and math: what a call of one means to values that the trace knows. One
// entry of the table below for each; what has no entry is a break at its call.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "jit/arrays.h"
#include "jit/containers.h"
#include "jit/exceptions.h"
#include "runtime/frame.h"

#include <opcode.h>  // NB_ADD and the like

namespace kintsugi {

namespace {

using Arguments_ = std::vector<Value*>;
using Model = Flow (*)(Tracer&, Arguments_&, Value**);

// What no model below knows: a call of atoms, perhaps.
Flow pure_or_stop(Tracer& t, const char* name, Arguments_& a, Value** out) {
  bool handled = false;
  PyObject* callable = PyDict_GetItemString(standard_builtins(), name);
  Flow flow = callable == nullptr ? Flow::kGo : t.pure_call(callable, a, nullptr, out, &handled);
  return flow != Flow::kGo || handled ? flow : t.stop(BreakReason::k_builtin, name);
}

bool is_int(Value* v) {
  return v->kind == ValueKind::kInt || (v->is_constant() && (PyLong_CheckExact(v->object) || PyBool_Check(v->object)));
}

Flow do_len(Tracer& t, Arguments_& a, Value** out) {
  if (a.size() != 1) return t.stop(BreakReason::k_raises, "len");
  Value* v = a[0];
  if (Value* mapping = proxied(t, v)) v = mapping;
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
  if (t.is_pure_object(v)) return t.pure_length(v, out);
  if (v->kind == ValueKind::kObject || as_class(v) != nullptr) {
    if (Flow flow = t.call_special(v, interned.len, {}, out); flow != Flow::kGo) return flow;
    if (*out == nullptr) return t.stop(BreakReason::k_raises, "len");
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
    *out = t.made_now(PyObject_CallObject(reinterpret_cast<PyObject*>(&PyRange_Type), tuple.get()));
    return *out != nullptr ? Flow::kGo : t.stop(BreakReason::k_raises, "range");
  }
  Value* step = a.size() == 3 ? a[2] : t.int_constant(1);
  if (!step->is_constant()) step = t.specialise(step);
  if (PyObject_IsTrue(step->object) == 0) return t.stop(BreakReason::k_raises, "range");
  *out = t.make(ValueKind::kRange);
  (*out)->items = {a.size() == 1 ? t.int_constant(0) : a[0], a.size() == 1 ? a[0] : a[1], step};
  return Flow::kGo;
}

Flow do_isinstance(Tracer& t, Arguments_& a, Value** out) {
  if (a.size() != 2) return t.stop(BreakReason::k_raises, "isinstance");
  bool answer = false;
  if (Flow flow = t.is_of_class(a[0], nullptr, a[1], &answer); flow != Flow::kGo) return flow;
  *out = t.constant(answer ? Py_True : Py_False);
  return Flow::kGo;
}
Flow do_issubclass(Tracer& t, Arguments_& a, Value** out) {
  PyTypeObject* type = a.size() == 2 ? as_class(a[0]) : nullptr;
  bool answer = false;
  if (type == nullptr) return t.stop(BreakReason::k_builtin, "issubclass");
  if (Flow flow = t.is_of_class(a[0], type, a[1], &answer); flow != Flow::kGo) return flow;
  *out = t.constant(answer ? Py_True : Py_False);
  return Flow::kGo;
}

Flow do_type(Tracer& t, Arguments_& a, Value** out) {
  if (a.size() == 3) return t.call_type_of_three(a, out);
  PyTypeObject* type = a.size() == 1 ? type_of(a[0]) : nullptr;
  if (type == nullptr && a.size() == 1) type = partial_type(a[0]);
  if (type == nullptr) return t.stop(BreakReason::k_builtin, "type");
  *out = t.constant(reinterpret_cast<PyObject*>(type));
  return Flow::kGo;
}

Flow do_abs(Tracer& t, Arguments_& a, Value** out) {
  if (a.size() != 1) return t.stop(BreakReason::k_raises, "abs");
  if (a[0]->kind == ValueKind::kTensor) return t.tensor_unary(Unary::kAbsolute, a[0], out);
  PyObject* object;
  if (t.fold(a[0], &object)) {
    *out = t.constant_owned(PyNumber_Absolute(object));
    return *out != nullptr ? Flow::kGo : t.raise_pending("abs");
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
  if (Value* atom = t.plain_atom(a[0], {interned.abs})) {
    *out = t.constant_owned(PyNumber_Absolute(atom->object));
    return *out != nullptr ? Flow::kGo : t.stop(BreakReason::k_raises, "abs");
  }
  if (a[0]->kind == ValueKind::kObject) {
    Flow flow = t.call_special(a[0], interned.abs, {}, out);
    if (flow != Flow::kGo || *out != nullptr) return flow;
  }
  return pure_or_stop(t, "abs", a, out);
}

// float() or int() of an object: through the methods, in order; they must answer the very type.
Flow number_of(Tracer& t, Value* self, std::initializer_list<PyObject*> methods, PyTypeObject* type, Value** out) {
  bool is_float = type == &PyFloat_Type;
  if (Value* atom = t.plain_atom(self, {*methods.begin()})) {
    *out = t.constant_owned(is_float ? PyNumber_Float(atom->object) : PyNumber_Long(atom->object));
    return *out != nullptr ? Flow::kGo : t.stop(BreakReason::k_raises, "a number");
  }
  if (self->kind != ValueKind::kObject) return t.stop(BreakReason::k_builtin, "a number");
  for (PyObject* name : methods) {
    if (Flow flow = t.call_special(self, name, {}, out); flow != Flow::kGo) return flow;
    if (*out == nullptr) continue;
    if (name == interned.index && is_float && (*out)->is_constant() && PyLong_CheckExact((*out)->object))
      *out = t.constant_owned(PyNumber_Float((*out)->object));
    bool good = *out != nullptr && ((*out)->kind == (is_float ? ValueKind::kFloat : ValueKind::kInt) ||
                                    ((*out)->is_constant() && Py_TYPE((*out)->object) == type));
    return good ? Flow::kGo : t.stop(BreakReason::k_builtin, "a number");
  }
  return t.stop(BreakReason::k_builtin, "a number");
}

Flow do_float(Tracer& t, Arguments_& a, Value** out) {
  PyObject* object;
  if (a.size() == 1 && a[0]->is_number()) {
    *out = t.as_float(a[0]);
    return Flow::kGo;
  }
  if (a.size() == 1 && a[0]->kind == ValueKind::kTensor)
    return t.item_of(a[0], 1, out) ? Flow::kGo : t.stop(BreakReason::k_item, "float()");
  if (a.size() == 1 && t.fold(a[0], &object)) {
    *out = t.constant_owned(PyNumber_Float(object));
    return *out != nullptr ? Flow::kGo : t.raise_pending("float");
  }
  if (a.size() == 1 && a[0]->kind == ValueKind::kObject && !t.is_pure_object(a[0]))
    return number_of(t, a[0], {interned.float_, interned.index}, &PyFloat_Type, out);
  return pure_or_stop(t, "float", a, out);
}
Flow do_int(Tracer& t, Arguments_& a, Value** out) {
  if (a.size() == 1 && a[0]->kind == ValueKind::kInt) {
    *out = a[0];
    return Flow::kGo;
  }
  if (a.size() == 1 && a[0]->kind == ValueKind::kTensor)
    return t.item_of(a[0], 0, out) ? Flow::kGo : t.stop(BreakReason::k_item, "int()");
  if (a.size() == 1 && a[0]->kind == ValueKind::kObject && !t.is_pure_object(a[0]))
    return number_of(t, a[0], {interned.int_, interned.index}, &PyLong_Type, out);
  if (a.size() == 1 && a[0]->kind == ValueKind::kBool) return t.binary(NB_ADD, a[0], t.int_constant(0), out);
  return pure_or_stop(t, "int", a, out);
}
Flow do_str(Tracer& t, Arguments_& a, Value** out) {
  return a.size() == 1 ? t.text_value(a[0], 1, out) : pure_or_stop(t, "str", a, out);
}
Flow do_repr(Tracer& t, Arguments_& a, Value** out) {
  return a.size() == 1 ? t.text_value(a[0], 2, out) : t.stop(BreakReason::k_raises, "repr");
}
Flow do_ascii(Tracer& t, Arguments_& a, Value** out) {
  return a.size() == 1 ? t.text_value(a[0], 3, out) : t.stop(BreakReason::k_raises, "ascii");
}
Flow do_format(Tracer& t, Arguments_& a, Value** out) {
  if (a.empty() || a.size() > 2) return t.stop(BreakReason::k_raises, "format");
  return t.format_value(a[0], 0, a.size() == 2 ? a[1] : nullptr, out);
}
// Of what stays one object: an atom may be another one each time.
Flow do_id(Tracer& t, Arguments_& a, Value** out) {
  Value* v = a.size() == 1 ? a[0] : nullptr;
  bool lasts =
      v != nullptr && (v->kind == ValueKind::kTensor || v->kind == ValueKind::kList || v->kind == ValueKind::kDict ||
                       v->kind == ValueKind::kFunction || (v->kind == ValueKind::kObject && !t.is_pure_object(v)));
  if (!lasts) return t.stop(BreakReason::k_builtin, "id");
  return t.identity_number(v, out);
}
Flow do_locals(Tracer& t, Arguments_& a, Value** out) {
  return a.empty() ? t.local_names(out) : t.stop(BreakReason::k_raises, "locals");
}
Flow do_bool(Tracer& t, Arguments_& a, Value** out) {
  bool known, answer;
  if (a.empty()) return *out = t.constant(Py_False), Flow::kGo;
  if (a.size() == 1 && a[0]->kind == ValueKind::kTensor) return t.stop(BreakReason::k_data_branch, "bool()");
  if (a.size() != 1 || !t.truth(a[0], &known, &answer, &a[0]))
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

Flow do_hash(Tracer& t, Arguments_& a, Value** out) {
  if (a.size() == 1)
    if (Flow flow = hash_in_python(t, a[0], out); flow != Flow::kGo || *out != nullptr) return flow;
  if (a.size() == 1 && a[0]->is_constant() && PyFrozenSet_CheckExact(a[0]->object)) {
    *out = t.constant_owned(PyLong_FromSsize_t(PyObject_Hash(a[0]->object)));
    return Flow::kGo;
  }
  return pure_or_stop(t, "hash", a, out);
}

bool is_name(Value* value) { return value->is_constant() && PyUnicode_CheckExact(value->object); }

Flow do_getattr(Tracer& t, Arguments_& a, Value** out) {
  if (a.size() < 2 || a.size() > 3 || !is_name(a[1])) return t.stop(BreakReason::k_builtin, "getattr");
  if (a.size() == 2) return t.get_attribute(a[0], a[1]->object, out);
  bool present;
  if (t.has_attribute(a[0], a[1]->object, &present) && !present) {
    *out = a[2];
    return Flow::kGo;
  }
  bool missing;
  Flow flow = t.at_once_taking(
      PyExc_AttributeError, [&](Value** value) { return t.get_attribute(a[0], a[1]->object, value); }, out, &missing);
  if (missing) *out = a[2];
  return flow;
}
Flow do_hasattr(Tracer& t, Arguments_& a, Value** out) {
  if (a.size() != 2 || !is_name(a[1])) return t.stop(BreakReason::k_builtin, "hasattr");
  bool present;
  if (!t.has_attribute(a[0], a[1]->object, &present)) {
    Value* value = nullptr;
    bool missing;
    Flow flow = t.at_once_taking(
        PyExc_AttributeError, [&](Value** held) { return t.get_attribute(a[0], a[1]->object, held); }, &value,
        &missing);
    if (flow != Flow::kGo) return flow;
    present = !missing;
  }
  *out = t.constant(present ? Py_True : Py_False);
  return Flow::kGo;
}
Flow do_setattr(Tracer& t, Arguments_& a, Value** out) {
  if (a.size() != 3 || !is_name(a[1])) return t.stop(BreakReason::k_builtin, "setattr");
  size_t depth = t.frames_.size();
  return t.answer_none(depth, t.set_attribute(a[0], a[1]->object, a[2]), out);
}
Flow do_delattr(Tracer& t, Arguments_& a, Value** out) {
  if (a.size() != 2 || !is_name(a[1])) return t.stop(BreakReason::k_builtin, "delattr");
  size_t depth = t.frames_.size();
  return t.answer_none(depth, t.set_attribute(a[0], a[1]->object, nullptr), out);
}
Flow do_callable(Tracer& t, Arguments_& a, Value** out) {
  PyTypeObject* type = a.size() == 1 ? type_of(a[0]) : nullptr;
  if (type == nullptr && a.size() == 1) type = partial_type(a[0]);
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
  PyTypeObject* after = type == nullptr ? nullptr : as_class(type);
  if (after == nullptr) return t.stop(BreakReason::k_builtin, "super");
  PyTypeObject* of =
      as_class(self) != nullptr && PyType_IsSubtype(as_class(self), after) ? as_class(self) : type_of(self);
  if (of == nullptr || !t.ensure_version(of) || !PyType_IsSubtype(of, after) || self->kind == ValueKind::kTensor)
    return t.stop(BreakReason::k_builtin, "super");
  *out = t.make(ValueKind::kSuper);
  (*out)->items = {type, self};
  return Flow::kGo;
}

struct Table {
  std::unordered_map<PyObject*, Model> models;
  std::unordered_map<PyObject*, FloatFunction> math;
  PyObject* build_class = nullptr;

  Table() {
    PyObject* builtins = standard_builtins();
    auto add = [&](const char* name, Model model) {
      if (PyObject* object = PyDict_GetItemString(builtins, name)) models[object] = model;
    };
    build_class = PyDict_GetItemString(builtins, "__build_class__");
    add("len", do_len);
    add("range", do_range);
    add("isinstance", do_isinstance);
    add("type", do_type);
    add("abs", do_abs);
    add("float", do_float);
    add("int", do_int);
    add("bool", do_bool);
    add("getattr", do_getattr);
    add("hasattr", do_hasattr);
    add("setattr", do_setattr);
    add("delattr", do_delattr);
    add("issubclass", do_issubclass);
    add("callable", do_callable);
    add("slice", do_slice);
    add("super", do_super);
    add("str", do_str);
    add("repr", do_repr);
    add("ascii", do_ascii);
    add("format", do_format);
    add("locals", do_locals);
    add("id", do_id);
    add("hash", do_hash);
    Ref module = import_module("math");
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
  }
};

const Table& table() {
  static const Table* table = new Table;
  return *table;
}

// Null for what is no method of generators.
const char* generator_method_name(PyObject* object) {
  if (Py_TYPE(object) == &PyMethodDescr_Type) {
    auto* method = reinterpret_cast<PyMethodDescrObject*>(object);
    return method->d_common.d_type == &PyGen_Type ? method->d_method->ml_name : nullptr;
  }
  if (Py_TYPE(object) != &PyWrapperDescr_Type) return nullptr;
  auto* slot = reinterpret_cast<PyWrapperDescrObject*>(object);
  return slot->d_common.d_type == &PyGen_Type ? slot->d_base->name : nullptr;
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
  Flow flow = Flow::kGo;
  if (object == known.build_class) return *handled = true, build_class(arguments, names, out);
  if (call_array(*this, object, arguments, names, out, &flow)) return *handled = true, flow;
  if (call_proxy(*this, object, arguments, names, out, &flow)) return *handled = true, flow;
  if (flow = make_descriptor(object, arguments, names, out, handled); *handled) return flow;
  if (call_iterators(object, arguments, names, out, &flow) || call_functools(object, arguments, names, out, &flow)) {
    *handled = true;
    return flow;
  }
  if (Flow flow = call_container(object, arguments, names, out, handled); *handled || flow != Flow::kGo) return flow;
  if (keywords > 0 && PyType_Check(object)) {  // int("ff", base=16), str(b"a", encoding="ascii")
    flow = pure_call(object, arguments, names, out, handled);
    if (*handled || flow != Flow::kGo) return flow;
  }
  static PyObject* const repr = PyDict_GetItemString(standard_builtins(), "repr");
  bool is_text = object == repr || object == reinterpret_cast<PyObject*>(&PyUnicode_Type);
  if (is_text && keywords == 0 && arguments.size() == 1 && arguments[0]->exception != nullptr &&
      !arguments[0]->is_real()) {
    *handled = true;
    return exception_text(arguments[0], object == repr, nullptr, out);
  }
  if (auto model = known.models.find(object); model != known.models.end()) {
    if (keywords != 0) return Flow::kGo;
    *handled = true;
    return model->second(*this, arguments, out);
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
  if (keywords == 0 && !arguments.empty() && arguments[0]->kind == ValueKind::kGenerator)
    if (const char* name = generator_method_name(object)) {
      *handled = true;
      Value* self = arguments[0];
      std::vector<Value*> rest(arguments.begin() + 1, arguments.end());
      return generator_method(self, name, rest, out);
    }
  flow = call_heap(*this, object, arguments, names, out, handled);
  if (*handled || flow != Flow::kGo) return flow;
  flow = module_call(object, arguments, names, out, handled);
  if (*handled || flow != Flow::kGo) return flow;
  return pure_call(object, arguments, names, out, handled);
}

}  // namespace kintsugi
