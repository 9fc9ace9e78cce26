// Calls whose answer depends on what their arguments are worth, and on nothing else: methods of text and numbers, many
// builtins, math, operators beyond words, re. Of constants they are evaluated while tracing. Where a value is known
// only at run time the call is a step: it has no effect, so nothing needs to wait for it, and where it raises or
// answers another type than today, the program's own instruction is performed instead. Answers are words, or objects of
// a type that runs no user code ("pure objects").
#include <cmath>
#include <cstring>
#include <unordered_set>

#include "jit/tracer_core.h"
#include "runtime/frame.h"

#include <opcode.h>  // NB_ADD and the like

namespace kintsugi {

namespace {

constexpr size_t kMostBytes = 1 << 14;  // of arguments that are looked at while tracing
constexpr int64_t kLargestCount = 4096;
constexpr Py_ssize_t kMostItems = 64;  // of a tuple or list that a step answers

// Of a type that is made in C: a class of the program may give itself any name.
bool is_named(PyTypeObject* type, const char* name) {
  return PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) && std::strcmp(type->tp_name, name) == 0;
}

// Immutable, compares and prints by value, and all that it does is C.
bool is_pure_type(PyTypeObject* type) {
  return type == &PyLong_Type || type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyComplex_Type ||
         is_named(type, "re.Pattern") || is_named(type, "re.Match");
}

enum class Purity : uint8_t { kNo, kOfAtoms, kOfContainers };  // kOfContainers: reads lists, tuples and dicts of atoms

struct Table {
  std::unordered_map<PyObject*, Purity> callables;
  PyObject* operators[NB_INPLACE_XOR + 1] = {};
  PyObject* comparisons[6] = {};
  PyObject *get_item = nullptr, *contains = nullptr, *truth = nullptr, *format = nullptr, *length = nullptr;
  PyObject *negative = nullptr, *positive = nullptr, *invert = nullptr, *hash = nullptr, *attribute = nullptr;

  Table() {
    PyObject* builtins = standard_builtins();
    for (const char* name : {"round", "divmod", "pow", "ord", "chr", "complex", "bin", "hex", "oct", "len", "hash",
                             "abs", "int", "float", "format"})
      if (PyObject* object = PyDict_GetItemString(builtins, name)) callables[object] = Purity::kOfAtoms;
    for (const char* name : {"str", "repr", "ascii", "bytes"})
      if (PyObject* object = PyDict_GetItemString(builtins, name)) callables[object] = Purity::kOfContainers;
    length = PyDict_GetItemString(builtins, "len");
    hash = PyDict_GetItemString(builtins, "hash");
    format = PyDict_GetItemString(builtins, "format");
    attribute = PyDict_GetItemString(builtins, "getattr");
    for (const char* module : {"math", "cmath"}) {
      Ref imported = import_module(module);
      if (!imported) {
        PyErr_Clear();
        continue;
      }
      PyObject *name, *value;
      Py_ssize_t position = 0;
      while (PyDict_Next(PyModule_GetDict(imported.get()), &position, &name, &value)) {
        const char* text = PyUnicode_AsUTF8(name);
        bool reads_list =
            std::strcmp(text, "fsum") == 0 || std::strcmp(text, "prod") == 0 || std::strcmp(text, "dist") == 0;
        if (PyCFunction_Check(value))
          callables[Py_NewRef(value)] = reads_list ? Purity::kOfContainers : Purity::kOfAtoms;
      }
    }
    Ref module = import_module("_operator");
    if (!module) {
      PyErr_Clear();
      return;
    }
    auto get = [&](const char* name) { return PyObject_GetAttrString(module.get(), name); };  // kept for good
    static constexpr const char* kOperators[] = {"add",  "and_",      "floordiv", "lshift",   "matmul",  "mul",  "mod",
                                                 "or_",  "pow",       "rshift",   "sub",      "truediv", "xor",  "iadd",
                                                 "iand", "ifloordiv", "ilshift",  "imatmul",  "imul",    "imod", "ior",
                                                 "ipow", "irshift",   "isub",     "itruediv", "ixor"};
    for (int i = 0; i <= NB_INPLACE_XOR; ++i) operators[i] = get(kOperators[i]);
    static constexpr const char* kComparisons[] = {"lt", "le", "eq", "ne", "gt", "ge"};
    for (int i = 0; i < 6; ++i) comparisons[i] = get(kComparisons[i]);
    get_item = get("getitem");
    contains = get("contains");
    truth = get("truth");
    negative = get("neg");
    positive = get("pos");
    invert = get("invert");
    PyErr_Clear();
  }
};

const Table& table() {
  static const Table* table = new Table;
  return *table;
}

const char* name_of(PyObject* callable) {
  const char* name = nullptr;
  if (PyCFunction_Check(callable)) name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  if (Py_TYPE(callable) == &PyMethodDescr_Type)
    name = reinterpret_cast<PyMethodDescrObject*>(callable)->d_method->ml_name;
  if (PyType_Check(callable)) name = reinterpret_cast<PyTypeObject*>(callable)->tp_name;
  if (PyFunction_Check(callable)) name = PyUnicode_AsUTF8(reinterpret_cast<PyFunctionObject*>(callable)->func_name);
  return name != nullptr ? name : "?";
}

bool is_any(const char* name, std::initializer_list<const char*> names) {
  for (const char* each : names)
    if (std::strcmp(name, each) == 0) return true;
  return false;
}

// re's functions are written in Python; what they remember of patterns is nobody's business.
bool is_pattern_function(PyObject* callable) {
  auto* function = reinterpret_cast<PyFunctionObject*>(callable);
  if (!is_any(name_of(callable),
              {"match", "fullmatch", "search", "sub", "subn", "split", "findall", "escape", "compile"}))
    return false;
  Ref module = finished_module("re");
  if (!module || function->func_globals != PyModule_GetDict(module.get())) return false;
  return PyDict_GetItem(function->func_globals, function->func_name) == callable;
}

Purity purity_of(PyObject* callable) {
  const Table& known = table();
  if (auto found = known.callables.find(callable); found != known.callables.end()) return found->second;
  if (PyCFunction_Check(callable)) {
    PyObject* self = reinterpret_cast<PyCFunctionObject*>(callable)->m_self;
    const char* name = name_of(callable);
    if (self == nullptr || !PyType_Check(self) ||
        PyType_HasFeature(reinterpret_cast<PyTypeObject*>(self), Py_TPFLAGS_HEAPTYPE))
      return Purity::kNo;
    bool of_number =
        self == reinterpret_cast<PyObject*>(&PyLong_Type) || self == reinterpret_cast<PyObject*>(&PyFloat_Type);
    bool of_bytes = self == reinterpret_cast<PyObject*>(&PyBytes_Type);
    if ((of_number || of_bytes) && is_any(name, {"from_bytes", "fromhex"})) return Purity::kOfContainers;
    return Purity::kNo;
  }
  if (Py_TYPE(callable) == &PyMethodDescr_Type) {
    auto* method = reinterpret_cast<PyMethodDescrObject*>(callable);
    PyTypeObject* owner = method->d_common.d_type;
    const char* name = method->d_method->ml_name;
    if (is_any(name,
               {"__reduce__", "__reduce_ex__", "__sizeof__", "__dir__", "__init_subclass__", "__class_getitem__"}))
      return Purity::kNo;
    if (owner == &PyUnicode_Type && is_any(name, {"join", "format", "format_map", "translate"}))
      return Purity::kOfContainers;
    if (owner == &PyBytes_Type && is_any(name, {"join"})) return Purity::kOfContainers;
    if (owner == &PyUnicode_Type || owner == &PyBytes_Type || owner == &PyLong_Type || owner == &PyFloat_Type ||
        owner == &PyComplex_Type || owner == &PyTuple_Type || owner == &PyFrozenSet_Type || owner == &PyRange_Type ||
        owner == &PySlice_Type)
      return Purity::kOfAtoms;
    if (is_named(owner, "re.Pattern") &&
        is_any(name, {"match", "fullmatch", "search", "sub", "subn", "split", "findall"}))
      return Purity::kOfAtoms;
    if (is_named(owner, "re.Match") && is_any(name, {"group", "groups", "groupdict", "start", "end", "span", "expand"}))
      return Purity::kOfAtoms;
    return Purity::kNo;
  }
  if (Py_TYPE(callable) == &PyWrapperDescr_Type) {  // int.__repr__
    PyTypeObject* owner = PyDescr_TYPE(callable);
    const char* name = reinterpret_cast<PyWrapperDescrObject*>(callable)->d_base->name;
    bool of_atoms = owner == &PyUnicode_Type || owner == &PyLong_Type || owner == &PyFloat_Type;
    return of_atoms && is_any(name, {"__repr__", "__str__"}) ? Purity::kOfAtoms : Purity::kNo;
  }
  if (Py_TYPE(callable) == &PyFunction_Type && is_pattern_function(callable)) return Purity::kOfAtoms;
  return Purity::kNo;
}

size_t weight_of(PyObject* object) {
  if (PyUnicode_Check(object)) return static_cast<size_t>(PyUnicode_GET_LENGTH(object));
  if (PyBytes_Check(object)) return static_cast<size_t>(PyBytes_GET_SIZE(object));
  if (PyLong_Check(object)) return _PyLong_NumBits(object) / 8;
  size_t sum = 8;
  if (PyTuple_Check(object))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) sum += weight_of(PyTuple_GET_ITEM(object, i));
  if (PyList_Check(object))
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i) sum += weight_of(PyList_GET_ITEM(object, i));
  return sum;
}

bool has_nan(PyObject* object) {
  if (PyComplex_CheckExact(object)) {
    Py_complex value = PyComplex_AsCComplex(object);
    return std::isnan(value.real) || std::isnan(value.imag);
  }
  if (PyTuple_Check(object))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      if (has_nan(PyTuple_GET_ITEM(object, i))) return true;
  return is_nan(object) || PyFrozenSet_Check(object);
}

// A width or precision that would make long text: five digits in a row.
bool has_long_number(PyObject* text) {
  if (!PyUnicode_Check(text)) return false;
  int digits = 0;
  for (Py_ssize_t i = 0; i < PyUnicode_GET_LENGTH(text); ++i) {
    digits = Py_UNICODE_ISDECIMAL(PyUnicode_READ_CHAR(text, i)) ? digits + 1 : 0;
    if (digits >= 5) return true;
  }
  return false;
}

// Nothing that takes long or grows large happens while tracing; what the program asks for stays the program's business.
bool is_small(PyObject* callable, const std::vector<PyObject*>& objects) {
  size_t weight = 0;
  for (PyObject* object : objects) weight += weight_of(object);
  if (weight > kMostBytes) return false;
  const char* name = name_of(callable);
  if (is_any(name, {"ljust",      "rjust", "center", "zfill", "expandtabs", "replace",  "translate", "format",
                    "format_map", "round", "comb",   "perm",  "factorial",  "to_bytes", "bytes",     "pow",
                    "lshift",     "mul",   "sub",    "subn",  "expand",     "mod",      "ldexp"})) {
    if (weight > 2000) return false;
    bool has_self = Py_TYPE(callable) == &PyMethodDescr_Type || std::strcmp(name, "round") == 0;
    bool is_operand = is_any(name, {"mul", "pow", "mod", "format", "sub"});
    bool is_template = is_any(name, {"format", "format_map", "mod", "expand", "sub", "subn"}) &&
                       (!PyCFunction_Check(callable) || std::strcmp(name, "format") != 0);
    for (size_t i = 0; i < objects.size(); ++i) {
      if ((i > 0 || is_template) && has_long_number(objects[i])) return false;
      if (is_operand || !PyLong_Check(objects[i]) || (has_self && i == 0)) continue;
      int overflow;
      int64_t number = PyLong_AsLongLongAndOverflow(objects[i], &overflow);
      if (overflow != 0 || number > kLargestCount || number < -kLargestCount) return false;
    }
  }
  if (is_any(name, {"pow", "lshift"}) && objects.size() == 2 && PyLong_Check(objects[1])) {
    int overflow;
    int64_t by = PyLong_AsLongLongAndOverflow(objects[1], &overflow);
    if (overflow != 0 || by > 1000 || by < -1000) return false;
    if (name[0] == 'p' && PyLong_Check(objects[0]) && _PyLong_NumBits(objects[0]) * std::llabs(by) > 16000)
      return false;
  }
  if (std::strcmp(name, "mul") == 0 && PyLong_Check(objects[0]) != PyLong_Check(objects[1]) &&
      !PyFloat_Check(objects[0]) && !PyFloat_Check(objects[1])) {  // repeated text
    PyObject* count = PyLong_Check(objects[0]) ? objects[0] : objects[1];
    if (_PyLong_NumBits(count) > 10) return false;
  }
  // Patterns that re warns of would warn while tracing.
  bool compiles = Py_TYPE(callable) == &PyFunction_Type && std::strcmp(name, "escape") != 0;
  if (compiles && !objects.empty()) {
    if (!PyUnicode_CheckExact(objects[0])) return is_named(Py_TYPE(objects[0]), "re.Pattern");
    const char* pattern = PyUnicode_AsUTF8(objects[0]);
    if (pattern == nullptr) return PyErr_Clear(), false;
    for (const char* odd : {"[[", "--", "&&", "~~", "||", "(?(", "\\N"})
      if (std::strstr(pattern, odd) != nullptr) return false;
  }
  return true;
}

// Whether it asks a codec or a handler of errors that may be the program's own.
bool asks_a_codec(PyObject* callable, const std::vector<PyObject*>& objects) {
  bool is_type = callable == reinterpret_cast<PyObject*>(&PyUnicode_Type) ||
                 callable == reinterpret_cast<PyObject*>(&PyBytes_Type);
  if (!is_type && !is_any(name_of(callable), {"encode", "decode"})) return false;
  for (size_t i = 1; i < objects.size(); ++i) {
    const char* text = PyUnicode_Check(objects[i]) ? PyUnicode_AsUTF8(objects[i]) : "strict";
    if (text == nullptr) return PyErr_Clear(), true;
    if (!is_any(text, {"utf-8", "utf8", "UTF-8", "ascii", "latin-1", "latin1", "iso-8859-1", "utf-16", "utf-32",
                       "strict", "ignore", "replace", "surrogateescape", "backslashreplace", "xmlcharrefreplace"}))
      return true;
  }
  return false;
}

bool has_long_int(PyObject* object) {
  constexpr size_t kBits = 2100;  // 640 digits may always be written: sys.int_info.str_digits_check_threshold
  if (PyLong_Check(object)) return _PyLong_NumBits(object) > kBits;
  PyObject *key, *item;
  for (Py_ssize_t at = 0; PyDict_Check(object) && PyDict_Next(object, &at, &key, &item);)
    if (has_long_int(key) || has_long_int(item)) return true;
  for (Py_ssize_t i = 0; PyTuple_Check(object) && i < PyTuple_GET_SIZE(object); ++i)
    if (has_long_int(PyTuple_GET_ITEM(object, i))) return true;
  for (Py_ssize_t i = 0; PyList_Check(object) && i < PyList_GET_SIZE(object); ++i)
    if (has_long_int(PyList_GET_ITEM(object, i))) return true;
  return false;
}

// Whether the answer depends on sys.set_int_max_str_digits() or on the locale, which are others in a later call.
bool depends_on_settings(PyObject* callable, const std::vector<PyObject*>& objects) {
  const char* name = name_of(callable);
  bool writes = is_any(name, {"str", "repr", "ascii", "format", "format_map", "mod", "?"});
  bool reads = std::strcmp(name, "int") == 0;
  for (PyObject* object : objects) {
    if (writes && has_long_int(object)) return true;
    bool is_text = PyUnicode_Check(object) || PyBytes_Check(object);
    if (reads && is_text && PyObject_Length(object) > 640) return true;
  }
  if (!is_any(name, {"format", "format_map"})) return false;
  bool is_builtin = PyCFunction_Check(callable);
  PyObject* spec = is_builtin ? (objects.size() > 1 ? objects[1] : nullptr) : objects.empty() ? nullptr : objects[0];
  const char* text = spec != nullptr && PyUnicode_Check(spec) ? PyUnicode_AsUTF8(spec) : "";
  if (text == nullptr) return PyErr_Clear(), true;
  size_t length = std::strlen(text);
  return is_builtin ? length > 0 && text[length - 1] == 'n' : std::strstr(text, "n}") != nullptr;
}

bool is_atom_throughout(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyTuple_Type) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      if (!is_atom_throughout(PyTuple_GET_ITEM(object, i))) return false;
    return true;
  }
  return type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || type == &PyUnicode_Type ||
         type == &PyBytes_Type || type == &PyComplex_Type || type == &PyRange_Type || object == Py_None;
}

// An answer that is evaluated: atoms as they are, new lists and dicts as models. Null: something else.
Value* answer_value(Tracer& t, PyObject* object) {
  bool is_new_tuple = PyTuple_CheckExact(object) && PyTuple_GET_SIZE(object) > 0 && Py_REFCNT(object) == 1;
  if (is_atom_throughout(object) && !is_new_tuple) {
    bool is_new_range = PyRange_Check(object) && Py_REFCNT(object) == 1;
    Value* value = t.constant(object);
    value->fresh = value->fresh || is_new_range;
    return value;
  }
  std::vector<Value*> items;
  bool is_list = PyList_CheckExact(object);
  if (!is_list && !PyTuple_CheckExact(object)) return nullptr;
  Py_ssize_t count = is_list ? PyList_GET_SIZE(object) : PyTuple_GET_SIZE(object);
  for (Py_ssize_t i = 0; i < count; ++i) {
    items.push_back(answer_value(t, is_list ? PyList_GET_ITEM(object, i) : PyTuple_GET_ITEM(object, i)));
    if (items.back() == nullptr) return nullptr;
  }
  return is_list ? t.list_of(std::move(items)) : t.tuple_of(std::move(items));
}

// The step, and what its answer is: of the type of today's, which the step that follows checks.
Value* run_step(Tracer& t, PyObject* callable, const std::vector<Value*>& arguments, PyObject* names, PyObject* today) {
  std::vector<ValueId> objects;
  for (Value* argument : arguments) objects.push_back(t.object_of(argument));
  ConstantId called = t.constant_id(callable, is_atom(callable) ? Hold::kStrong : Hold::kWeak);
  ConstantId keywords = names == nullptr ? kNoConstant : t.constant_id(names, Hold::kStrong);
  ExitId exit = t.exit_here(ExitKind::kStep);
  Step& step = t.record(StepKind::k_pure_call);
  step.constant = called;
  step.imm = keywords;
  step.list = std::move(objects);
  step.on_fail = exit;
  ValueId id = step.dst = t.new_value();

  t.keep(today);
  PyTypeObject* type = Py_TYPE(today);
  int overflow = 0;
  int64_t whole = PyLong_Check(today) ? PyLong_AsLongLongAndOverflow(today, &overflow) : 0;
  bool is_word = type == &PyFloat_Type || type == &PyBool_Type || (type == &PyLong_Type && overflow == 0);
  if (is_word) {
    Value* value = t.make(type == &PyFloat_Type  ? ValueKind::kFloat
                          : type == &PyBool_Type ? ValueKind::kBool
                                                 : ValueKind::kInt);
    value->int_hint = whole;
    if (type == &PyFloat_Type) value->float_hint = PyFloat_AS_DOUBLE(today);
    Step& unbox = t.record(StepKind::k_unbox);
    unbox.a = value->boxed = id;
    unbox.imm = type == &PyFloat_Type ? 1 : type == &PyBool_Type ? 2 : 0;
    unbox.on_fail = exit;
    unbox.dst = value->id = t.new_value();
    return value;
  }
  ConstantId type_id = t.constant_id(reinterpret_cast<PyObject*>(type),
                                     PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) ? Hold::kWeak : Hold::kStrong);
  Step& check = t.record(StepKind::k_type_check);
  check.a = id;
  check.constant = type_id;
  check.on_fail = exit;
  if (today == Py_None) return t.none();
  Value* value = t.make(ValueKind::kObject);
  value->type = type;
  value->object = today;
  value->id = id;
  if (is_pure_type(type)) return value;
  // A tuple or list: as many items as today, each for itself.
  if (type != &PyTuple_Type && type != &PyList_Type) return nullptr;
  Py_ssize_t count = PyObject_Length(today);
  if (count > kMostItems) return nullptr;
  Ref size(PyLong_FromSsize_t(count));
  Value* length = run_step(t, table().length, {value}, nullptr, size.get());
  if (length == nullptr) return nullptr;
  t.specialise(length);
  std::vector<Value*> items;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Ref item(PySequence_GetItem(today, i));
    items.push_back(run_step(t, table().get_item, {value, t.int_constant(i)}, nullptr, item.get()));
    if (items.back() == nullptr) return nullptr;
  }
  return type == &PyList_Type ? t.list_of(std::move(items)) : t.tuple_of(std::move(items));
}

}  // namespace

bool Tracer::is_pure_object(const Value* value) const {
  return value->kind == ValueKind::kObject && value->is_real() && value->object != nullptr && is_pure_type(value->type);
}

// A number, text or the like, known now or at run time.
bool Tracer::is_atomic(Value* value) {
  PyObject* object;
  return value->is_number() || is_pure_object(value) || fold(value, &object);
}

// What a pure call would see of a value now; *runs: a part of it is known only at run time. Null: not pure.
PyObject* Tracer::pure_argument(Value* value, bool containers, bool* runs, int depth) {
  PyObject* object;
  value = force(value);
  if (fold(value, &object)) return object;
  if (value->is_constant() && PySlice_Check(value->object)) return value->object;
  if (value->is_number()) {
    *runs = true;
    return stand_in(value, runs);
  }
  if (is_pure_object(value)) {
    *runs = true;
    return value->object;
  }
  if (value->kind == ValueKind::kSlice) {
    for (Value* part : value->items)
      if (!is_atomic(force(part))) return nullptr;
    return stand_in(value, runs);
  }
  if (!containers || depth > 8) return nullptr;
  Ref copy;
  if ((value->kind == ValueKind::kTuple && value->type == nullptr) || value->kind == ValueKind::kList) {
    std::vector<Value*>* items;
    if (!list_items(value, &items)) return nullptr;
    copy = Ref(value->kind == ValueKind::kList ? PyList_New(0) : PyTuple_New(static_cast<Py_ssize_t>(items->size())));
    for (size_t i = 0; copy && i < items->size(); ++i) {
      PyObject* part = pure_argument(item_at(value, i), true, runs, depth + 1);
      if (part == nullptr) return nullptr;
      if (value->kind == ValueKind::kTuple)
        PyTuple_SET_ITEM(copy.get(), static_cast<Py_ssize_t>(i), Py_NewRef(part));
      else if (PyList_Append(copy.get(), part) < 0)
        return PyErr_Clear(), nullptr;
    }
  } else if (value->kind == ValueKind::kDict && dict_complete(value)) {
    copy = Ref(PyDict_New());
    for (size_t i = 0; copy && i < value->entries.size(); ++i) {
      PyObject* key = value->entries[i].first;
      Value* item = dict_get(value, key);
      if (item == nullptr) continue;
      PyObject* part = is_atom_throughout(key) ? pure_argument(item, true, runs, depth + 1) : nullptr;
      if (part == nullptr || PyDict_SetItem(copy.get(), key, part) < 0) return PyErr_Clear(), nullptr;
    }
  } else {
    return nullptr;
  }
  if (!copy) return PyErr_Clear(), nullptr;
  keep(copy.get());
  return copy.get();
}

Flow Tracer::pure_apply(PyObject* callable, std::vector<Value*> arguments, PyObject* names, bool containers,
                        Value** out, bool* handled) {
  *handled = false;
  std::vector<PyObject*> objects;
  bool runs = false;
  for (Value*& argument : arguments) {
    argument = force(argument);
    objects.push_back(pure_argument(argument, containers, &runs, 0));
    if (objects.back() == nullptr) return Flow::kGo;
    if (callable == table().hash && has_nan(objects.back())) return Flow::kGo;  // by identity
  }
  if (!is_small(callable, objects) || asks_a_codec(callable, objects)) return Flow::kGo;
  if (!runs && depends_on_settings(callable, objects)) return Flow::kGo;
  size_t keywords = names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names));
  *handled = true;
  if (Py_IS_TYPE(callable, &PyFunction_Type)) expect_foreign_code();  // of re: other threads and signals get their turn
  Ref today(PyObject_Vectorcall(callable, objects.data(), objects.size() - keywords, names));
  if (!today) {
    bool stops = runs && !is_of_a_handler(PyErr_Occurred());
    return stops ? stop(BreakReason::k_raises, name_of(callable)) : raise_pending(name_of(callable));
  }
  if (!runs && !is_pure_type(Py_TYPE(today.get())))
    if (Value* value = answer_value(*this, today.get())) return *out = value, Flow::kGo;
  if (!runs && is_atom_throughout(today.get())) return *out = made_now(today.release()), Flow::kGo;
  *out = run_step(*this, callable, arguments, names, today.get());
  return *out != nullptr ? Flow::kGo : stop(BreakReason::k_builtin, name_of(callable));
}

Flow Tracer::pure_call(PyObject* callable, std::vector<Value*>& arguments, PyObject* names, Value** out,
                       bool* handled) {
  *handled = false;
  Purity purity = purity_of(callable);
  if (purity == Purity::kNo) return Flow::kGo;
  if (Py_TYPE(callable) == &PyMethodDescr_Type) {  // of the very type: what a subclass overrides is not looked at
    PyTypeObject* owner = reinterpret_cast<PyMethodDescrObject*>(callable)->d_common.d_type;
    bool ignored = false;
    PyObject* self = arguments.empty() ? nullptr : pure_argument(arguments[0], false, &ignored, 0);
    if (self == nullptr || !PyType_IsSubtype(Py_TYPE(self), owner)) return Flow::kGo;
  }
  return pure_apply(callable, arguments, names, purity == Purity::kOfContainers, out, handled);
}

static Flow apply(Tracer& t, PyObject* callable, std::vector<Value*> arguments, bool containers, BreakReason reason,
                  const char* what, Value** out) {
  bool handled = false;
  if (callable == nullptr) return t.stop(reason, what);
  Flow flow = t.pure_apply(callable, std::move(arguments), nullptr, containers, out, &handled);
  return flow != Flow::kGo || handled ? flow : t.stop(reason, what);
}

Flow Tracer::pure_operator(int operation, Value* left, Value* right, Value** out) {
  return apply(*this, table().operators[operation], {left, right}, operation % NB_INPLACE_ADD == NB_REMAINDER,
               BreakReason::k_instruction, "an operator of these objects", out);
}
Flow Tracer::pure_compare(int operation, Value* left, Value* right, Value** out) {
  return apply(*this, table().comparisons[operation], {left, right}, false, BreakReason::k_instruction,
               "a comparison of these objects", out);
}
Flow Tracer::pure_unary(int opcode, Value* operand, Value** out) {
  Opcode op = static_cast<Opcode>(opcode);
  PyObject* callable = op == Opcode::k_UNARY_NEGATIVE   ? table().negative
                       : op == Opcode::k_UNARY_POSITIVE ? table().positive
                                                        : table().invert;
  return apply(*this, callable, {operand}, false, BreakReason::k_instruction, "a unary operator of this object", out);
}
Flow Tracer::pure_item(Value* container, Value* key, Value** out) {
  return apply(*this, table().get_item, {container, key}, false, BreakReason::k_container, "item of this object", out);
}
Flow Tracer::pure_contains(Value* container, Value* item, Value** out) {
  return apply(*this, table().contains, {container, item}, false, BreakReason::k_container, "in", out);
}
Flow Tracer::pure_length(Value* value, Value** out) {
  return apply(*this, table().length, {value}, false, BreakReason::k_builtin, "len", out);
}
Flow Tracer::pure_attribute(Value* object, PyObject* name, Value** out) {
  return apply(*this, table().attribute, {object, constant(name)}, false, BreakReason::k_attribute, "of this object",
               out);
}
Flow Tracer::pure_format(Value* value, Value* spec, Value** out) {
  return apply(*this, table().format, {value, spec}, true, BreakReason::k_instruction, "formatting", out);
}

Flow Tracer::identity_number(Value* value, Value** out) {
  static PyObject* id = PyDict_GetItemString(standard_builtins(), "id");
  Ref today(value->object != nullptr ? PyLong_FromVoidPtr(value->object) : PyLong_FromVoidPtr(value));
  if (id == nullptr || !today) return stop(BreakReason::k_builtin, "id");
  *out = run_step(*this, id, {value}, nullptr, today.get());
  return *out != nullptr ? Flow::kGo : stop(BreakReason::k_builtin, "id");
}

// A pure object's truth as a word; others as they are. Null: a break.
Value* Tracer::as_condition(Value* value) {
  if (!is_pure_object(value)) return value;
  Value* out = nullptr;
  Flow flow = apply(*this, table().truth, {value}, false, BreakReason::k_data_branch, "the truth of this object", &out);
  return flow == Flow::kGo ? out : nullptr;
}

}  // namespace kintsugi
