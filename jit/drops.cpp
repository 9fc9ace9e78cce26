// Instructions that would drop the last reference to something whose end runs Python code: a finaliser, the callback of
// a weak reference, the finally of a generator. A segment drops later than the interpreter, and what such code changes
// a trace does not know, so those instructions are breaks. Asked before each instruction is followed.
#include <algorithm>

#include "jit/container_types.h"
#include "jit/death.h"
#include "jit/tracer_core.h"
#include "runtime/frame.h"

#include <structmember.h>

namespace kintsugi {

namespace {

constexpr int kDepth = 3;              // containers in containers
constexpr Py_ssize_t kMostItems = 64;  // looked at in each

bool end_runs_code(PyObject* object, int depth);

bool any_runs_code(PyObject* const* items, Py_ssize_t count, int depth) {
  for (Py_ssize_t i = 0; i < std::min(count, kMostItems); ++i)
    if (items[i] != nullptr && end_runs_code(items[i], depth)) return true;
  return false;
}

bool dict_runs_code(PyObject* dict, int depth) {
  PyObject *key, *value;
  Py_ssize_t seen = 0;
  for (Py_ssize_t at = 0; seen++ < kMostItems && PyDict_Next(dict, &at, &key, &value);)
    if (end_runs_code(value, depth) || end_runs_code(key, depth)) return true;
  return false;
}

bool has_callback(PyObject* object) {
  if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) return false;
  auto* each = reinterpret_cast<PyWeakReference*>(*PyObject_GET_WEAKREFS_LISTPTR(object));
  for (; each != nullptr; each = each->wr_next)
    if (each->wr_callback != nullptr && !is_quiet_callback(each->wr_callback)) return true;
  return false;
}

// What objects of C hold, as their class shows it to the collector: exceptions, sets, iterators, bound methods.
bool referents_run_code(PyObject* object, int depth) {
  struct Search {
    int depth;
    Py_ssize_t seen;
    bool found;
  } search{depth, 0, false};
  auto visit = [](PyObject* each, void* argument) {
    auto* now = static_cast<Search*>(argument);
    now->found = each != nullptr && end_runs_code(each, now->depth);
    return now->found || ++now->seen >= kMostItems ? 1 : 0;
  };
  traverseproc traverse = Py_TYPE(object)->tp_traverse;
  if (traverse != nullptr) traverse(object, visit, &search);
  return search.found;
}

// Whether the end of `object`, if this reference is the last, may run Python code. Not seen: beyond the bounds above.
bool end_runs_code(PyObject* object, int depth) {
  PyTypeObject* type = Py_TYPE(object);
  if (!PyType_IS_GC(type) && !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && !PyType_SUPPORTS_WEAKREFS(type))
    return false;
  if (PyType_Check(object) || type == &PyModule_Type || type == &PyCode_Type) return false;
  if (has_callback(object)) return true;
  if (type == &PyFunction_Type) return false;
  if (type->tp_finalize != nullptr || type->tp_del != nullptr) {
    if (!PyGen_CheckExact(object) || runs_code_when_closed(object)) return true;
    Frame* frame = frame_of_generator(object);  // a delegate is among what its frame holds
    return depth < kDepth && is_suspended(object) && any_runs_code(slots_of(frame), value_count(frame), depth + 1);
  }
  if (depth >= kDepth) return false;
  if (PyExceptionInstance_Check(object)) return referents_run_code(object, depth + 1);
  if (type == &PyTuple_Type)
    return any_runs_code(PySequence_Fast_ITEMS(object), PySequence_Fast_GET_SIZE(object), depth + 1);
  if (PyDict_Check(object) && dict_runs_code(object, depth + 1)) return true;
  if (PyList_Check(object) && any_runs_code(PySequence_Fast_ITEMS(object), PyList_GET_SIZE(object), depth + 1))
    return true;
  if (type == deque_type() || PyType_IsSubtype(type, deque_type())) {
    for (Py_ssize_t i = 0; i < std::min(Py_SIZE(object), kMostItems); ++i)
      if (Ref item(item_of_deque(object, i)); item && end_runs_code(item.get(), depth + 1)) return true;
    PyErr_Clear();
  }
  if (type == &PyCell_Type) return PyCell_GET(object) != nullptr && end_runs_code(PyCell_GET(object), depth + 1);
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
    bool looked_at = PyDict_CheckExact(object) || PyList_CheckExact(object) || type == deque_type();
    return !looked_at && PyType_IS_GC(type) && referents_run_code(object, depth + 1);
  }
  if (PyDictValues* values = inline_values_of(object)) {
    PyDictKeysObject* keys = shared_keys_of(type);
    return keys != nullptr && any_runs_code(items_of(values), entry_count_of(keys), depth + 1);
  }
  PyObject* dict = instance_dict_of(object);
  return dict != nullptr && dict_runs_code(dict, depth + 1);
}

// The object at run time behind a value, as far as one is known now.
PyObject* real_object(const Value* value) {
  if (value == nullptr) return nullptr;
  if (value->forwarded != nullptr) value = value->forwarded;
  return value->kind == ValueKind::kLazy || value->is_real() ? value->object : nullptr;
}

bool runs_code(PyObject* object) { return object != nullptr && end_runs_code(object, 0); }

// A virtual container ends with the instruction; what exists in it may end with it.
bool value_runs_code(const Value* value, int depth = 0) {
  if (value == nullptr) return false;
  if (value->forwarded != nullptr) value = value->forwarded;
  if (PyObject* object = real_object(value)) return end_runs_code(object, depth);
  if (depth >= kDepth) return false;
  if (!value->is_virtual() || value->kind == ValueKind::kFunction) return false;
  Py_ssize_t seen = 0;
  for (const Value* item : value->items)
    if (seen++ < kMostItems && value_runs_code(item, depth + 1)) return true;
  for (const auto& [key, item] : value->entries)
    if (seen++ < kMostItems && (value_runs_code(item, depth + 1) || end_runs_code(key, depth + 1))) return true;
  if (value->mirror != nullptr && end_runs_code(value->mirror, depth)) return true;
  return value->content != nullptr && value_runs_code(value->content, depth);
}

PyObject* key_object(const Value* key) {
  if (key->forwarded != nullptr) key = key->forwarded;
  return key->is_constant() || key->kind == ValueKind::kLazy ? key->object : nullptr;
}

bool is_same_key(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b)) return PyUnicode_Compare(a, b) == 0;
  return PyLong_CheckExact(a) && PyLong_CheckExact(b) && PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}

// What the trace knows to be there. False: it has not looked.
bool is_modelled(const std::vector<std::pair<PyObject*, Value*>>& entries, PyObject* key, bool* ends) {
  for (const auto& [each, value] : entries) {
    if (!is_same_key(each, key)) continue;
    *ends = value_runs_code(value);
    return true;
  }
  return false;
}

const Value* what_it_is(const Value* value) { return value->forwarded != nullptr ? value->forwarded : value; }

bool item_runs_code(const Value* container, const Value* key) {
  container = what_it_is(container);
  if (container->content != nullptr) container = container->content;
  PyObject *object = real_object(container), *at = key_object(key);
  bool ends = false;
  if (at == nullptr) return false;
  if (container->kind == ValueKind::kDict && is_modelled(container->entries, at, &ends)) return ends;
  Py_ssize_t index = PyLong_CheckExact(at) ? PyLong_AsSsize_t(at) : 0;
  PyErr_Clear();
  if (container->kind == ValueKind::kList && container->complete && PyLong_CheckExact(at)) {
    auto size = static_cast<Py_ssize_t>(container->items.size());
    if (index < 0) index += size;
    if (index < 0 || index >= size) return false;
    if (const Value* item = container->items[static_cast<size_t>(index)]) return value_runs_code(item);
  }
  if (object == nullptr) return false;
  if (PyDict_Check(object)) {
    PyObject *each, *value;  // equal texts and ints only: no user code
    if (has_only_str_keys(object)) {
      value = PyUnicode_CheckExact(at) ? PyDict_GetItemWithError(object, at) : nullptr;
      PyErr_Clear();
      return runs_code(value);
    }
    for (Py_ssize_t i = 0; PyDict_Next(object, &i, &each, &value);)
      if (is_same_key(each, at)) return runs_code(value);
    return false;
  }
  if (!PyLong_CheckExact(at)) return false;
  if (PyType_IsSubtype(Py_TYPE(object), deque_type())) return runs_code(object);
  if (!PyList_Check(object)) return false;
  if (index < 0) index += PyList_GET_SIZE(object);
  return index >= 0 && index < PyList_GET_SIZE(object) && runs_code(PyList_GET_ITEM(object, index));
}

bool attribute_runs_code(const Value* value, PyObject* name) {
  PyObject* object = real_object(value);
  bool ends = false;
  value = what_it_is(value);
  if (value->kind == ValueKind::kObject && is_modelled(value->entries, name, &ends)) return ends;
  if (object == nullptr || !PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE) || PyType_Check(object))
    return false;
  PyObject* in_class = _PyType_Lookup(Py_TYPE(object), name);
  if (in_class != nullptr && Py_TYPE(in_class) == &PyMemberDescr_Type) {
    PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(in_class)->d_member;
    return member->type == T_OBJECT_EX &&
           runs_code(*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + member->offset));
  }
  if (PyDictValues* values = inline_values_of(object)) {
    ValuePlace place = find_in_instance(object, name);
    return place.keys != nullptr && runs_code(value_at(place, values));
  }
  PyObject* dict = instance_dict_of(object);
  if (dict == nullptr) return false;
  ValuePlace place = find_in_dict(dict, name);
  return place.keys != nullptr && runs_code(value_at(place, values_of(dict)));
}

}  // namespace

bool holds_frame(const Value* value, int32_t frame, int depth) {
  if (value == nullptr || depth >= kDepth) return false;
  if (value->forwarded != nullptr) value = value->forwarded;
  if (!value->is_virtual()) return false;
  if (value->exception != nullptr)
    for (const Value* entry = value->exception->traceback; entry != nullptr; entry = entry->items[0])
      if (entry->frame_number == frame) return true;
  if (value->type == &PyTraceBack_Type && value->frame_number == frame) return true;
  for (const Value* item : value->items)
    if (holds_frame(item, frame, depth + 1)) return true;
  for (const auto& [key, item] : value->entries)
    if (holds_frame(item, frame, depth + 1)) return true;
  return false;
}

// A local holds an exception whose traceback holds this frame: all locals stay until the collector comes. It shows
// where the end of one runs code.
bool Tracer::outlives_its_call() {
  const TraceFrame& now = frame();
  if (exceptions_.empty()) return false;
  auto holds = [&](const Value* local) { return holds_frame(local, now.number); };
  return std::any_of(now.locals.begin(), now.locals.end(), holds) &&
         std::any_of(now.locals.begin(), now.locals.end(), [](const Value* local) { return value_runs_code(local); });
}

bool Tracer::drops_a_finaliser(const Instruction& in) {
  TraceFrame& now = frame();
  auto top = [&](size_t below) -> Value* {
    return below < now.stack.size() ? now.stack[now.stack.size() - 1 - below] : nullptr;
  };
  auto name = [&] { return PyTuple_GET_ITEM(now.bytecode->code->co_names, in.argument); };
  switch (in.opcode) {
    case Opcode::k_STORE_FAST:
    case Opcode::k_DELETE_FAST: return value_runs_code(now.locals[static_cast<size_t>(in.argument)]);
    case Opcode::k_POP_TOP: return value_runs_code(top(0));
    case Opcode::k_STORE_DEREF: {
      const Value* cell = what_it_is(now.locals[static_cast<size_t>(in.argument)]);
      if (cell->kind == ValueKind::kCell && cell->complete) return value_runs_code(cell);
      PyObject* object = real_object(cell);
      return object != nullptr && PyCell_Check(object) && runs_code(PyCell_GET(object));
    }
    case Opcode::k_STORE_GLOBAL: {
      PyObject* globals = globals_of(reinterpret_cast<PyFunctionObject*>(input_.function));
      PyObject* held = now.root && has_only_str_keys(globals) ? PyDict_GetItemWithError(globals, name()) : nullptr;
      PyErr_Clear();
      return runs_code(held);
    }
    case Opcode::k_STORE_SUBSCR:
    case Opcode::k_DELETE_SUBSCR: return now.stack.size() >= 2 && item_runs_code(top(1), top(0));
    case Opcode::k_STORE_ATTR:
    case Opcode::k_DELETE_ATTR: return top(0) != nullptr && attribute_runs_code(top(0), name());
    case Opcode::k_RETURN_VALUE: {  // of an inlined callee: its locals end here
      if (now.root) return false;
      auto is_elsewhere = [&](const Value* value) {
        if (top(0) == value) return true;
        for (size_t i = 0; i + 1 < frames_.size(); ++i)
          for (const auto* values : {&frames_[i].locals, &frames_[i].stack})
            if (std::find(values->begin(), values->end(), value) != values->end()) return true;
        return false;
      };
      for (const Value* local : now.locals)
        if (runs_code(real_object(local)) && !is_elsewhere(local)) restart_without_this_call();
      return false;
    }
    default: return false;
  }
}

// An exception takes away what lies on the stack above `depth`, before its handler runs. What is named too stays.
bool Tracer::unwinding_ends(size_t depth) {
  const TraceFrame& now = frame();
  auto is_same = [](const Value* a, const Value* b) {
    return a == b || (real_object(a) != nullptr && real_object(a) == real_object(b));
  };
  auto is_named = [&](const Value* value) {
    for (const TraceFrame& each : frames_) {
      auto is_it = [&](const Value* other) { return is_same(value, other); };
      auto last = &each == &now ? each.stack.begin() + static_cast<std::ptrdiff_t>(depth) : each.stack.end();
      if (std::any_of(each.locals.begin(), each.locals.end(), is_it) || std::any_of(each.stack.begin(), last, is_it))
        return true;
    }
    return false;
  };
  return std::any_of(now.stack.begin() + static_cast<std::ptrdiff_t>(depth), now.stack.end(),
                     [&](const Value* value) { return value_runs_code(value) && !is_named(value); });
}

bool Tracer::finalizes(const Value* value) const {
  if (value->object == nullptr || (value->kind != ValueKind::kLazy && !value->is_real())) return false;
  PyTypeObject* type = Py_TYPE(value->object);
  return type->tp_finalize != nullptr || type->tp_del != nullptr;
}

bool Tracer::ends_here(Value* dropped) {
  if (!finalizes(dropped)) return false;
  for (const TraceFrame& frame : frames_)
    for (const auto* values : {&frame.locals, &frame.stack})
      for (const Value* value : *values)
        if (value != nullptr && value->object == dropped->object) return false;
  return true;
}

}  // namespace kintsugi
