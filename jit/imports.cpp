// Import statements of modules that are loaded already, and locals().
#include "jit/tracer_core.h"
#include "runtime/frame.h"

#include <cstring>

namespace kintsugi {

void load_modules() {
  for (const char* name : {"weakref", "enum", "cmath", "_heapq"}) {
    bool loaded = PyDict_GetItemString(PyImport_GetModuleDict(), name) != nullptr;
    if (!loaded && !import_module(name)) PyErr_Clear();
  }
}

static Flow plain_import(Tracer& t) { return t.stop(BreakReason::k_import_name); }

// What our package loads when it is named first (_ON_USE of its __init__) is loaded now: plain code would have it.
void Tracer::load_on_use(PyObject* module, PyObject* name) {
  PyObject* ours = PyDict_GetItemString(PyImport_GetModuleDict(), "kintsugi");
  if (module != ours || ours == nullptr || !PyModule_CheckExact(ours)) return;
  PyObject* names = PyModule_GetDict(ours);
  PyObject* on_use = PyDict_GetItemString(names, "_ON_USE");
  if (on_use == nullptr || !PyDict_CheckExact(on_use) || PyDict_GetItemWithError(names, name) != nullptr) return;
  bool is_one = PyDict_GetItemWithError(on_use, name) != nullptr;
  PyObject *key, *defined;
  for (Py_ssize_t position = 0; !is_one && PyDict_Next(on_use, &position, &key, &defined);)
    is_one = PySequence_Contains(defined, name) > 0;
  if (is_one) {
    expect_foreign_code();
    Ref loaded(PyObject_GetAttr(ours, name));
  }
  PyErr_Clear();
}

// A module that sys.modules has, loaded to its end. The guard says that it still is that one.
static Value* loaded_module(Tracer& t, PyObject* name) {
  PyObject* modules = PyImport_GetModuleDict();
  if (modules == nullptr || !PyDict_CheckExact(modules)) return nullptr;
  PyObject* found = PyDict_GetItemWithError(modules, name);
  static PyObject* ours = PyUnicode_InternFromString("kintsugi.");
  if (PyObject* package = PyDict_GetItemString(modules, "kintsugi");
      found == nullptr && package != nullptr && PyUnicode_Tailmatch(name, ours, 0, PY_SSIZE_T_MAX, -1) > 0) {
    Ref rest(PyUnicode_Substring(name, PyUnicode_GET_LENGTH(ours), PY_SSIZE_T_MAX));
    if (rest) t.load_on_use(package, rest.get());
    found = PyDict_GetItemWithError(modules, name);
  }
  PyErr_Clear();
  if (found == nullptr || !finished_module(name)) return nullptr;
  Value* module = t.dict_get(t.wrap_bound(modules, "sys.modules"), name);
  return module == nullptr ? nullptr : t.force(module);
}

static Value* global_named(Tracer& t, PyObject* name) {
  TraceFrame& now = t.frame();
  if (now.globals == nullptr) {
    t.complete_function(now.function);
    now.globals = t.force(now.function->globals);
  }
  if (now.globals->kind != ValueKind::kDict) return nullptr;
  Value* value = t.dict_get(now.globals, name);
  return value == nullptr ? nullptr : t.force(value);
}

// Python/import.c: __import__ of builtins, name resolved against the package, then what sys.modules has.
Flow Tracer::import_name(PyObject* name) {
  std::vector<Value*>& stack = frame().stack;
  Value* names = force(stack.back());
  stack.pop_back();
  Value* level = force(stack.back());
  stack.pop_back();
  Value* builtins = builtins_dict(*this, frame());
  static PyObject* original = PyDict_GetItemString(standard_builtins(), "__import__");
  if (builtins == nullptr || builtins->kind != ValueKind::kDict) return plain_import(*this);
  Value* function = dict_get(builtins, interned.import);
  if (function == nullptr || !force(function)->is_constant() || force(function)->object != original)
    return plain_import(*this);
  if (!level->is_constant() || !PyLong_CheckExact(level->object) || !names->is_constant()) return plain_import(*this);
  long up = PyLong_AsLong(level->object);
  Ref whole = Ref::share(name);
  if (up > 0) {
    Value* package = global_named(*this, interned.package);
    Value* spec = global_named(*this, interned.spec);
    if (package == nullptr || spec == nullptr || !package->is_constant() || !PyUnicode_CheckExact(package->object))
      return plain_import(*this);
    if (!(spec->is_constant() && spec->object == Py_None)) {
      if (spec->object == nullptr) return plain_import(*this);
      Ref parent(PyObject_GetAttrString(spec->object, "parent"));
      PyErr_Clear();
      if (!parent || !PyUnicode_CheckExact(parent.get()) || PyUnicode_Compare(parent.get(), package->object) != 0)
        return plain_import(*this);
    }
    Ref base = Ref::share(package->object), dot(PyUnicode_FromString("."));
    for (long i = 1; i < up; ++i) {
      Py_ssize_t at = PyUnicode_FindChar(base.get(), '.', 0, PyUnicode_GET_LENGTH(base.get()), -1);
      if (at <= 0) return plain_import(*this);
      base = Ref(PyUnicode_Substring(base.get(), 0, at));
    }
    if (PyUnicode_GET_LENGTH(base.get()) == 0) return plain_import(*this);
    whole = std::move(base);
    if (PyUnicode_GET_LENGTH(name) > 0) whole = Ref(PyUnicode_FromFormat("%U.%U", whole.get(), name));
  }
  if (!whole) return plain_import(*this);
  keep(whole.get());
  Value* module = loaded_module(*this, whole.get());
  if (module == nullptr || !module->is_constant()) return plain_import(*this);
  bool takes_names = PyTuple_CheckExact(names->object) && PyTuple_GET_SIZE(names->object) > 0;
  if (!takes_names) {
    if (names->object != Py_None || up > 0) return plain_import(*this);
    Py_ssize_t dot = PyUnicode_FindChar(name, '.', 0, PyUnicode_GET_LENGTH(name), 1);
    if (dot > 0) {
      Ref top(PyUnicode_Substring(name, 0, dot));
      if (!top) return plain_import(*this);
      keep(top.get());
      module = loaded_module(*this, top.get());
      if (module == nullptr || !module->is_constant()) return plain_import(*this);
    }
  } else {  // a package would import what it lacks
    Value* dict = wrap_bound(PyModule_GetDict(module->object), "module " + text_of(whole.get()), Hold::kPinned);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names->object); ++i) {
      PyObject* each = PyTuple_GET_ITEM(names->object, i);
      if (!PyUnicode_CheckExact(each)) return plain_import(*this);
      load_on_use(module->object, each);
      if (dict_get(dict, each) == nullptr) return plain_import(*this);
    }
  }
  stack.push_back(module);
  return Flow::kGo;
}

Flow Tracer::import_from(PyObject* name) {
  std::vector<Value*>& stack = frame().stack;
  Value* module = stack.back() = force(stack.back());
  Value* out = nullptr;
  if (!module->is_constant() || !PyModule_CheckExact(module->object)) return plain_import(*this);
  if (get_attribute(module, name, &out) != Flow::kGo || out == nullptr) return plain_import(*this);
  frame().stack.push_back(out);
  return Flow::kGo;
}

// ---- locals() ------------------------------------------------------------------------------------------------------

// Python answers the same dict at every call in a frame: followed where the frame has one such call, made once.
static bool asks_once(const Bytecode& bytecode, int32_t at) {
  int calls = 0;
  PyObject* names = bytecode.code->co_names;
  for (const Instruction& instruction : bytecode.instructions) {
    if (instruction.target >= 0 && instruction.target <= at && instruction.offset >= at) return false;  // in a loop
    if (instruction.opcode != Opcode::k_LOAD_GLOBAL) continue;
    const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, instruction.argument >> 1));
    if (name == nullptr) return PyErr_Clear(), false;
    calls += std::strcmp(name, "locals") == 0;
    for (const char* other : {"vars", "dir", "eval", "exec", "breakpoint", "sys", "inspect", "pdb"})
      if (std::strcmp(name, other) == 0) return false;
  }
  return calls == 1;
}

Flow Tracer::local_names(Value** out) {
  TraceFrame& now = frame();
  PyCodeObject* code = now.bytecode->code;
  constexpr int kFunction = CO_OPTIMIZED | CO_NEWLOCALS;
  if (call_now_depth_ > 0 || (code->co_flags & kFunction) != kFunction || !asks_once(*now.bytecode, now.at))
    return stop(BreakReason::k_builtin, "locals");
  Value* dict = make(ValueKind::kDict);
  for (int i = 0; i < code->co_nlocalsplus; ++i) {
    Value* value = now.locals[i] = force(now.locals[i]);
    if (value->kind == ValueKind::kNull) continue;
    unsigned char kind = static_cast<unsigned char>(PyBytes_AS_STRING(code->co_localspluskinds)[i]);
    if (kind & (CO_FAST_CELL | CO_FAST_FREE)) {
      if (value->kind == ValueKind::kCell && (value = cell_content(value, slot_name(code, i))) == nullptr) continue;
    }
    dict_put(dict, slot_name(code, i), value);
  }
  *out = dict;
  return Flow::kGo;
}

// What a cell holds; null: nothing.
Value* Tracer::cell_content(Value* cell, PyObject* name) {
  if (!cell->complete) {  // a real cell, not looked at yet
    PyObject* content = PyCell_GET(cell->object);
    if (content == nullptr) {
      Guard& check = guard(GuardKind::k_cell_empty, cell->source);
      check.a = cell->id;
    } else {
      cell->items = {load_field(cell, offsetof(PyCellObject, ob_ref), content, "cell " + text_of(name))};
    }
    cell->complete = true;
  }
  return cell->items.empty() ? nullptr : cell->items[0] == nullptr ? nullptr : force(cell->items[0]);
}

}  // namespace kintsugi
