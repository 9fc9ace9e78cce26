// Decoding, the switch over opcodes, and the instructions that are a few lines each. Longer ones are in step_call.cpp.
#include "runtime/step.h"

#include "runtime/step_parts.h"
#include "runtime/tensor.h"

namespace kintsugi {
namespace stepping {

Names names;

// ---- Names and locals ----------------------------------------------------------------------------------------------

static constexpr const char* kNoName = "name '%.200s' is not defined";
static constexpr const char* kNoLocal = "cannot access local variable '%s' where it is not associated with a value";
static constexpr const char* kNoFree =
    "cannot access free variable '%s' where it is not associated with a value in enclosing scope";

// A NameError also carries the name, for the suggestions of tracebacks.
void set_name_error(PyObject* type, const char* format, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return;
  PyErr_Format(type, format, text);
  if (type != PyExc_NameError) return;
  PyObject *kind, *value, *traceback;
  PyErr_Fetch(&kind, &value, &traceback);
  PyErr_NormalizeException(&kind, &value, &traceback);
  if (PyErr_GivenExceptionMatches(value, PyExc_NameError) &&
      reinterpret_cast<PyNameErrorObject*>(value)->name == nullptr && PyObject_SetAttr(value, names.name, name) < 0)
    PyErr_Clear();
  PyErr_Restore(kind, value, traceback);
}

static StepResult unbound(const Machine& m, bool is_cell) {
  bool is_free = is_cell && m.argument >= first_free_variable(m.code());
  set_name_error(is_free ? PyExc_NameError : PyExc_UnboundLocalError, is_free ? kNoFree : kNoLocal,
                 slot_name(m.code(), m.argument));
  return raised(m);
}

static StepResult load_fast(const Machine& m) {
  PyObject* value = m.slots()[m.argument];
  if (value == nullptr) return unbound(m, /*is_cell=*/false);
  m.push(Py_NewRef(value));
  return next(m);
}

static StepResult load_deref(const Machine& m) {
  PyObject* value = PyCell_GET(m.slots()[m.argument]);
  if (value == nullptr) return unbound(m, /*is_cell=*/true);
  m.push(Py_NewRef(value));
  return next(m);
}

static StepResult replace_cell(const Machine& m, PyObject* owned) {
  PyObject* cell = m.slots()[m.argument];
  PyObject* old = PyCell_GET(cell);
  PyCell_SET(cell, owned);
  Py_XDECREF(old);
  return next(m);
}

static StepResult copy_free_variables(const Machine& m) {
  PyObject* closure = closure_of(m.activation.function);
  PyObject** slots = m.slots() + first_free_variable(m.code());
  for (int i = 0; i < m.argument; ++i) slots[i] = Py_NewRef(PyTuple_GET_ITEM(closure, i));
  return next(m);
}

// A new reference, or null: with an exception, or without one when the namespace does not have it.
static PyObject* look_up(PyObject* namespace_, PyObject* name) {
  if (PyDict_CheckExact(namespace_)) return Py_XNewRef(PyDict_GetItemWithError(namespace_, name));
  PyObject* value = PyObject_GetItem(namespace_, name);
  if (value == nullptr && PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_Clear();
  return value;
}

static StepResult load_global(const Machine& m) {
  PyObject* name = m.name(m.argument >> 1);
  PyObject* value = look_up(m.globals(), name);
  if (value == nullptr && !PyErr_Occurred()) value = look_up(m.builtins(), name);
  if (value == nullptr) {
    if (!PyErr_Occurred()) set_name_error(PyExc_NameError, kNoName, name);
    return raised(m);
  }
  if (m.argument & 1) m.push(nullptr);
  m.push(value);
  return next(m);
}

static StepResult delete_global(const Machine& m) {
  PyObject* name = m.name(m.argument);
  if (PyDict_DelItem(m.globals(), name) == 0) return next(m);
  if (PyErr_ExceptionMatches(PyExc_KeyError)) set_name_error(PyExc_NameError, kNoName, name);
  return raised(m);
}

// ---- Operators -----------------------------------------------------------------------------------------------------

static PyObject* power(PyObject* a, PyObject* b) { return PyNumber_Power(a, b, Py_None); }
static PyObject* in_place_power(PyObject* a, PyObject* b) { return PyNumber_InPlacePower(a, b, Py_None); }

static PyObject* binary(int operation, PyObject* a, PyObject* b) {
  switch (operation) {
    case NB_ADD: return PyNumber_Add(a, b);
    case NB_AND: return PyNumber_And(a, b);
    case NB_FLOOR_DIVIDE: return PyNumber_FloorDivide(a, b);
    case NB_LSHIFT: return PyNumber_Lshift(a, b);
    case NB_MATRIX_MULTIPLY: return PyNumber_MatrixMultiply(a, b);
    case NB_MULTIPLY: return PyNumber_Multiply(a, b);
    case NB_REMAINDER: return PyNumber_Remainder(a, b);
    case NB_OR: return PyNumber_Or(a, b);
    case NB_POWER: return power(a, b);
    case NB_RSHIFT: return PyNumber_Rshift(a, b);
    case NB_SUBTRACT: return PyNumber_Subtract(a, b);
    case NB_TRUE_DIVIDE: return PyNumber_TrueDivide(a, b);
    case NB_XOR: return PyNumber_Xor(a, b);
    case NB_INPLACE_ADD: return PyNumber_InPlaceAdd(a, b);
    case NB_INPLACE_AND: return PyNumber_InPlaceAnd(a, b);
    case NB_INPLACE_FLOOR_DIVIDE: return PyNumber_InPlaceFloorDivide(a, b);
    case NB_INPLACE_LSHIFT: return PyNumber_InPlaceLshift(a, b);
    case NB_INPLACE_MATRIX_MULTIPLY: return PyNumber_InPlaceMatrixMultiply(a, b);
    case NB_INPLACE_MULTIPLY: return PyNumber_InPlaceMultiply(a, b);
    case NB_INPLACE_REMAINDER: return PyNumber_InPlaceRemainder(a, b);
    case NB_INPLACE_OR: return PyNumber_InPlaceOr(a, b);
    case NB_INPLACE_POWER: return in_place_power(a, b);
    case NB_INPLACE_RSHIFT: return PyNumber_InPlaceRshift(a, b);
    case NB_INPLACE_SUBTRACT: return PyNumber_InPlaceSubtract(a, b);
    case NB_INPLACE_TRUE_DIVIDE: return PyNumber_InPlaceTrueDivide(a, b);
    case NB_INPLACE_XOR: return PyNumber_InPlaceXor(a, b);
  }
  PyErr_Format(PyExc_SystemError, "BINARY_OP %d is not known", operation);
  return nullptr;
}

// A C truth value as a Python one; negative is an exception.
static PyObject* truth(int value) { return value < 0 ? nullptr : Py_NewRef(value ? Py_True : Py_False); }
static PyObject* negated(int value) { return value < 0 ? nullptr : Py_NewRef(value ? Py_False : Py_True); }

static StepResult format_value(const Machine& m) {
  bool has_spec = (m.argument & FVS_MASK) == FVS_HAVE_SPEC;
  PyObject* spec = has_spec ? m.peek() : nullptr;
  PyObject* value = m.peek(has_spec ? 1 : 0);
  PyObject* converted;
  switch (m.argument & FVC_MASK) {
    case FVC_NONE: converted = Py_NewRef(value); break;
    case FVC_STR: converted = PyObject_Str(value); break;
    case FVC_REPR: converted = PyObject_Repr(value); break;
    default: converted = PyObject_ASCII(value); break;
  }
  PyObject* result = converted;
  if (converted != nullptr && (has_spec || !PyUnicode_CheckExact(converted))) {
    result = PyObject_Format(converted, spec);
    Py_DECREF(converted);
  }
  return replace(m, has_spec ? 2 : 1, result);
}

// ---- Building and unpacking ----------------------------------------------------------------------------------------

// The topmost values move into a new tuple or list.
static StepResult build_sequence(const Machine& m, bool as_list) {
  int count = m.argument;
  PyObject* made = as_list ? PyList_New(count) : PyTuple_New(count);
  if (made == nullptr) return raised(m);
  PyObject** values = m.top(count);
  for (int i = 0; i < count; ++i) as_list ? PyList_SET_ITEM(made, i, values[i]) : PyTuple_SET_ITEM(made, i, values[i]);
  m.depth() -= count;
  m.push(made);
  return next(m);
}

static StepResult build_set(const Machine& m) {
  PyObject* made = PySet_New(nullptr);
  PyObject** values = m.top(m.argument);
  for (int i = 0; i < m.argument && made != nullptr; ++i)
    if (PySet_Add(made, values[i]) < 0) Py_CLEAR(made);
  return replace(m, m.argument, made);
}

static StepResult build_map(const Machine& m) {  // key, value, key, value, ...
  PyObject* made = PyDict_New();
  PyObject** values = m.top(2 * m.argument);
  for (int i = 0; i < m.argument && made != nullptr; ++i)
    if (PyDict_SetItem(made, values[2 * i], values[2 * i + 1]) < 0) Py_CLEAR(made);
  return replace(m, 2 * m.argument, made);
}

static StepResult build_const_key_map(const Machine& m) {  // value, value, ..., tuple of keys
  PyObject* made = PyDict_New();
  PyObject** values = m.top(m.argument + 1);
  PyObject* keys = values[m.argument];
  for (int i = 0; i < m.argument && made != nullptr; ++i)
    if (PyDict_SetItem(made, PyTuple_GET_ITEM(keys, i), values[i]) < 0) Py_CLEAR(made);
  return replace(m, m.argument + 1, made);
}

static StepResult list_extend(const Machine& m) {
  PyObject* iterable = m.peek();
  PyObject* list = m.peek(m.argument);
  PyObject* none = _PyList_Extend(reinterpret_cast<PyListObject*>(list), iterable);
  if (none == nullptr && PyErr_ExceptionMatches(PyExc_TypeError) && Py_TYPE(iterable)->tp_iter == nullptr &&
      !PySequence_Check(iterable))
    PyErr_Format(PyExc_TypeError, "Value after * must be an iterable, not %.200s", Py_TYPE(iterable)->tp_name);
  Py_XDECREF(none);
  return consume(m, 1, none == nullptr ? -1 : 0);
}

static StepResult dict_update(const Machine& m) {
  PyObject* update = m.peek();
  int status = PyDict_Update(m.peek(m.argument), update);
  if (status < 0 && PyErr_ExceptionMatches(PyExc_AttributeError))
    PyErr_Format(PyExc_TypeError, "'%.200s' object is not a mapping", Py_TYPE(update)->tp_name);
  return consume(m, 1, status);
}

// Items of `iterable` into stack places `values[0 .. before + after]`, first item last as on the stack. `after`
// negative: exactly `before` items; else a list of what lies between takes the place in the middle.
static bool unpack(PyObject* iterable, int before, int after, PyObject** values) {
  PyObject* iterator = PyObject_GetIter(iterable);
  if (iterator == nullptr) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) && Py_TYPE(iterable)->tp_iter == nullptr && !PySequence_Check(iterable))
      PyErr_Format(PyExc_TypeError, "cannot unpack non-iterable %.200s object", Py_TYPE(iterable)->tp_name);
    return false;
  }
  PyObject** end = values + before + (after < 0 ? 0 : after + 1);
  PyObject** place = end;
  auto fail = [&] {
    for (; place < end; ++place) Py_DECREF(*place);
    Py_DECREF(iterator);
    return false;
  };
  for (int i = 0; i < before; ++i) {
    PyObject* item = PyIter_Next(iterator);
    if (item == nullptr) {
      if (PyErr_Occurred()) return fail();
      const char* text = after < 0 ? "not enough values to unpack (expected %d, got %d)"
                                   : "not enough values to unpack (expected at least %d, got %d)";
      PyErr_Format(PyExc_ValueError, text, after < 0 ? before : before + after, i);
      return fail();
    }
    *--place = item;
  }
  if (after < 0) {
    PyObject* extra = PyIter_Next(iterator);
    if (extra != nullptr) {
      Py_DECREF(extra);
      PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %d)", before);
      return fail();
    }
    if (PyErr_Occurred()) return fail();
    Py_DECREF(iterator);
    return true;
  }
  PyObject* rest = PySequence_List(iterator);
  if (rest == nullptr) return fail();
  *--place = rest;
  Py_ssize_t count = PyList_GET_SIZE(rest);
  if (count < after) {
    PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %zd)", before + after,
                 before + count);
    return fail();
  }
  for (int i = after; i > 0; --i) *--place = Py_NewRef(PyList_GET_ITEM(rest, count - i));
  if (after > 0 && PyList_SetSlice(rest, count - after, count, nullptr) < 0) return fail();
  Py_DECREF(iterator);
  return true;
}

static StepResult unpack_to_stack(const Machine& m, int before, int after) {
  PyObject* iterable = m.pop();
  bool done = unpack(iterable, before, after, m.stack + m.depth());
  if (done) m.depth() += before + (after < 0 ? 0 : after + 1);
  Py_DECREF(iterable);
  return done ? next(m) : raised(m);
}

// ---- Jumps and loops -----------------------------------------------------------------------------------------------

static StepResult jump(const Machine& m, int by) {
  if (by < 0) {
    PyThreadState* thread = this_thread();
    if (is_interrupted(thread) && serve_interrupts(thread) < 0) return raised(m);
  }
  return {Outcome::kJump, m.next + by};
}

static int truth_of(PyObject* value) {
  if (value == Py_True) return 1;
  if (value == Py_False) return 0;
  return PyObject_IsTrue(value);
}

static StepResult pop_jump_if(const Machine& m, bool wanted, int by) {
  int value = truth_of(m.peek());
  drop(m, 1);
  if (value < 0) return raised(m);
  return (value != 0) == wanted ? jump(m, by) : next(m);
}

static StepResult pop_jump_if_none(const Machine& m, bool wanted, int by) {
  bool is_none = m.peek() == Py_None;
  drop(m, 1);
  return is_none == wanted ? jump(m, by) : next(m);
}

static StepResult jump_or_pop(const Machine& m, bool wanted) {
  int value = truth_of(m.peek());
  if (value < 0) return raised(m);
  if ((value != 0) == wanted) return jump(m, m.argument);
  drop(m, 1);
  return next(m);
}

static StepResult for_iter(const Machine& m) {
  PyObject* iterator = m.peek();
  PyObject* item = Py_TYPE(iterator)->tp_iternext(iterator);
  if (item != nullptr) {
    m.push(item);
    return next(m);
  }
  if (PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return raised(m);
    PyErr_Clear();
  }
  drop(m, 1);
  return jump(m, m.argument);
}

// ---- The switch ----------------------------------------------------------------------------------------------------

static StepResult perform(Machine& m, int opcode) {
  switch (opcode) {
    case NOP:
    case CACHE: return next(m);
    case RESUME: return m.argument < 2 ? next_served(m) : next(m);

    case LOAD_FAST:
    case LOAD_CLOSURE: return load_fast(m);
    case STORE_FAST: store_slot(m.activation, m.argument, m.pop()); return next(m);
    case DELETE_FAST:
      if (m.slots()[m.argument] == nullptr) return unbound(m, /*is_cell=*/false);
      store_slot(m.activation, m.argument, nullptr);
      return next(m);
    case LOAD_CONST: m.push(Py_NewRef(PyTuple_GET_ITEM(m.code()->co_consts, m.argument))); return next(m);
    case LOAD_ASSERTION_ERROR: m.push(Py_NewRef(PyExc_AssertionError)); return next(m);
    case LOAD_GLOBAL: return load_global(m);
    case STORE_GLOBAL: return consume(m, 1, PyDict_SetItem(m.globals(), m.name(m.argument), m.peek()));
    case DELETE_GLOBAL: return delete_global(m);
    case MAKE_CELL: {
      PyObject* cell = PyCell_New(m.slots()[m.argument]);
      if (cell == nullptr) return raised(m);
      store_slot(m.activation, m.argument, cell);
      return next(m);
    }
    case COPY_FREE_VARS: return copy_free_variables(m);
    case LOAD_DEREF: return load_deref(m);
    case STORE_DEREF: return replace_cell(m, m.pop());
    case DELETE_DEREF:
      if (PyCell_GET(m.slots()[m.argument]) == nullptr) return unbound(m, /*is_cell=*/true);
      return replace_cell(m, nullptr);

    case POP_TOP: drop(m, 1); return next(m);
    case PUSH_NULL: m.push(nullptr); return next(m);
    case COPY: m.push(Py_XNewRef(m.peek(m.argument - 1))); return next(m);
    case SWAP: std::swap(m.top(1)[0], m.top(m.argument)[0]); return next(m);

    case UNARY_POSITIVE: return replace(m, 1, PyNumber_Positive(m.peek()));
    case UNARY_NEGATIVE: return replace(m, 1, PyNumber_Negative(m.peek()));
    case UNARY_INVERT: return replace(m, 1, PyNumber_Invert(m.peek()));
    case UNARY_NOT: return replace(m, 1, negated(PyObject_IsTrue(m.peek())));
    case BINARY_OP: return replace(m, 2, binary(m.argument, m.peek(1), m.peek()));
    case COMPARE_OP: return replace(m, 2, PyObject_RichCompare(m.peek(1), m.peek(), m.argument));
    case IS_OP: return replace(m, 2, truth((m.peek(1) == m.peek()) != (m.argument != 0)));
    case CONTAINS_OP: {
      int found = PySequence_Contains(m.peek(), m.peek(1));
      return replace(m, 2, m.argument ? negated(found) : truth(found));
    }
    case BINARY_SUBSCR: return replace(m, 2, PyObject_GetItem(m.peek(1), m.peek()));
    case STORE_SUBSCR: return consume(m, 3, PyObject_SetItem(m.peek(1), m.peek(), m.peek(2)));
    case DELETE_SUBSCR: return consume(m, 2, PyObject_DelItem(m.peek(1), m.peek()));
    case LOAD_ATTR: return replace(m, 1, PyObject_GetAttr(m.peek(), m.name(m.argument)));
    case STORE_ATTR: return consume(m, 2, PyObject_SetAttr(m.peek(), m.name(m.argument), m.peek(1)));
    case DELETE_ATTR: return consume(m, 1, PyObject_SetAttr(m.peek(), m.name(m.argument), nullptr));

    case BUILD_TUPLE: return build_sequence(m, /*as_list=*/false);
    case BUILD_LIST: return build_sequence(m, /*as_list=*/true);
    case BUILD_SET: return build_set(m);
    case BUILD_MAP: return build_map(m);
    case BUILD_CONST_KEY_MAP: return build_const_key_map(m);
    case BUILD_STRING: return replace(m, m.argument, _PyUnicode_JoinArray(names.empty, m.top(m.argument), m.argument));
    case BUILD_SLICE:
      return replace(m, m.argument,
                     PySlice_New(m.top(m.argument)[0], m.top(m.argument)[1], m.argument == 3 ? m.peek() : nullptr));
    case FORMAT_VALUE: return format_value(m);
    case LIST_TO_TUPLE: return replace(m, 1, PyList_AsTuple(m.peek()));
    case LIST_APPEND: return consume(m, 1, PyList_Append(m.peek(m.argument), m.peek()));
    case LIST_EXTEND: return list_extend(m);
    case SET_ADD: return consume(m, 1, PySet_Add(m.peek(m.argument), m.peek()));
    case SET_UPDATE: return consume(m, 1, _PySet_Update(m.peek(m.argument), m.peek()));
    case MAP_ADD: return consume(m, 2, PyDict_SetItem(m.peek(m.argument + 1), m.peek(1), m.peek()));
    case DICT_UPDATE: return dict_update(m);
    case DICT_MERGE: return dict_merge(m);
    case UNPACK_SEQUENCE: return unpack_to_stack(m, m.argument, /*after=*/-1);
    case UNPACK_EX: return unpack_to_stack(m, m.argument & 0xff, m.argument >> 8);

    case GET_ITER: return replace(m, 1, PyObject_GetIter(m.peek()));
    case FOR_ITER: return for_iter(m);
    case JUMP_FORWARD: return jump(m, m.argument);
    case JUMP_BACKWARD: return jump(m, -m.argument);
    case POP_JUMP_FORWARD_IF_TRUE: return pop_jump_if(m, true, m.argument);
    case POP_JUMP_FORWARD_IF_FALSE: return pop_jump_if(m, false, m.argument);
    case POP_JUMP_BACKWARD_IF_TRUE: return pop_jump_if(m, true, -m.argument);
    case POP_JUMP_BACKWARD_IF_FALSE: return pop_jump_if(m, false, -m.argument);
    case POP_JUMP_FORWARD_IF_NONE: return pop_jump_if_none(m, true, m.argument);
    case POP_JUMP_FORWARD_IF_NOT_NONE: return pop_jump_if_none(m, false, m.argument);
    case POP_JUMP_BACKWARD_IF_NONE: return pop_jump_if_none(m, true, -m.argument);
    case POP_JUMP_BACKWARD_IF_NOT_NONE: return pop_jump_if_none(m, false, -m.argument);
    case JUMP_IF_TRUE_OR_POP: return jump_or_pop(m, true);
    case JUMP_IF_FALSE_OR_POP: return jump_or_pop(m, false);
    case RETURN_VALUE: return {Outcome::kReturn, m.next, m.pop()};

    case GET_LEN: {
      Py_ssize_t length = PyObject_Length(m.peek());
      return push(m, length < 0 ? nullptr : PyLong_FromSsize_t(length));
    }
    case MATCH_MAPPING: return push(m, truth(PyType_HasFeature(Py_TYPE(m.peek()), Py_TPFLAGS_MAPPING)));
    case MATCH_SEQUENCE: return push(m, truth(PyType_HasFeature(Py_TYPE(m.peek()), Py_TPFLAGS_SEQUENCE)));
    case MATCH_KEYS: return match_keys(m);
    case MATCH_CLASS: return match_class(m);

    case CALL: return call(m);
    case CALL_FUNCTION_EX: return call_function_ex(m);
    case MAKE_FUNCTION: return make_function(m);
    case LOAD_METHOD: return load_method(m);
    case LOAD_BUILD_CLASS: return load_build_class(m);
    case IMPORT_NAME: return import_name(m);
    case IMPORT_FROM: return import_from(m);
    case BEFORE_WITH: return before_with(m);
    case RAISE_VARARGS: return raise_varargs(m);
    case RERAISE: return reraise(m);
    case PUSH_EXC_INFO: return push_handled(m);
    case POP_EXCEPT: return pop_handled(m);
    case CHECK_EXC_MATCH: return check_match(m);
    case WITH_EXCEPT_START: return call_exit(m);

    default: return {Outcome::kCannot, m.start};
  }
}

static int cache_units(int opcode) {
  switch (opcode) {
    case BINARY_SUBSCR: return INLINE_CACHE_ENTRIES_BINARY_SUBSCR;
    case STORE_SUBSCR: return INLINE_CACHE_ENTRIES_STORE_SUBSCR;
    case UNPACK_SEQUENCE: return INLINE_CACHE_ENTRIES_UNPACK_SEQUENCE;
    case STORE_ATTR: return INLINE_CACHE_ENTRIES_STORE_ATTR;
    case LOAD_ATTR: return INLINE_CACHE_ENTRIES_LOAD_ATTR;
    case COMPARE_OP: return INLINE_CACHE_ENTRIES_COMPARE_OP;
    case LOAD_GLOBAL: return INLINE_CACHE_ENTRIES_LOAD_GLOBAL;
    case BINARY_OP: return INLINE_CACHE_ENTRIES_BINARY_OP;
    case LOAD_METHOD: return INLINE_CACHE_ENTRIES_LOAD_METHOD;
    case PRECALL: return INLINE_CACHE_ENTRIES_PRECALL;
    case CALL: return INLINE_CACHE_ENTRIES_CALL;
    default: return 0;
  }
}

struct Decoded {
  int opcode, argument, unit, next;
  int kwnames = -1;  // constant number
};
static Decoded decode(const uint16_t* units, int offset) {
  Decoded decoded{};
  int prefix = 0;
  for (int unit = offset;; ++unit) {
    int opcode = units[unit] & 0xff;
    int argument = prefix << 8 | units[unit] >> 8;
    prefix = 0;
    if (opcode == EXTENDED_ARG) {
      prefix = argument;
    } else if (opcode == KW_NAMES) {
      decoded.kwnames = argument;
    } else if (opcode == PRECALL) {
      unit += INLINE_CACHE_ENTRIES_PRECALL;
    } else {
      decoded.opcode = opcode;
      decoded.argument = argument;
      decoded.unit = unit;
      decoded.next = unit + 1 + cache_units(opcode);
      return decoded;
    }
  }
}

}  // namespace stepping

StepResult step(Activation& activation, int offset) {
  const uint16_t* units = plain_units(activation.code);
  if (units == nullptr) return {Outcome::kRaised, offset};
  stepping::Decoded decoded = stepping::decode(units, offset);
  set_position(activation, decoded.unit);
  stepping::Machine machine{activation, activation.stack(), offset, decoded.argument, decoded.next};
  if (decoded.kwnames >= 0) machine.kwnames = PyTuple_GET_ITEM(activation.code->co_consts, decoded.kwnames);
  return calling_python([&] { return stepping::perform(machine, decoded.opcode); });
}

int serve_interrupts(PyThreadState* thread) {
  if (Py_MakePendingCalls() < 0) return -1;  // signals, then pending calls; on the main thread only
  PyObject* asynchronous = take_asynchronous_exception(thread);
  if (lock_is_wanted(thread) || asynchronous != nullptr) {
    // Taking the lock back also makes CPython compute the eval breaker anew.
    calling_python([] { PyEval_RestoreThread(PyEval_SaveThread()); });
  }
  if (asynchronous == nullptr) return 0;
  PyErr_SetNone(asynchronous);
  Py_DECREF(asynchronous);
  return -1;
}

// ---- needs_frame ---------------------------------------------------------------------------------------------------

// Nothing that is done with such a value, dropping it included, runs Python code.
static bool is_inert(PyObject* value) {
  if (value == nullptr || value == Py_None || PyBool_Check(value)) return true;
  return PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyUnicode_CheckExact(value) || is_tensor(value);
}

bool needs_frame(PyCodeObject* code, int offset, PyObject* const* slots, int depth) {
  const uint16_t* units = plain_units(code);
  if (units == nullptr) return true;
  stepping::Decoded decoded = stepping::decode(units, offset);
  PyObject* const* stack = slots + local_slots(code);
  auto are_inert = [&](int count) {
    for (int i = 1; i <= count; ++i)
      if (!is_inert(stack[depth - i])) return false;
    return true;
  };
  switch (decoded.opcode) {
    case RESUME:
    case JUMP_BACKWARD: return is_interrupted(this_thread());
    case MAKE_CELL:
    case COPY_FREE_VARS:
    case NOP:
    case LOAD_FAST:
    case LOAD_CONST:
    case LOAD_CLOSURE:
    case LOAD_DEREF:
    case LOAD_ASSERTION_ERROR:
    case PUSH_NULL:
    case COPY:
    case SWAP:
    case BUILD_TUPLE:
    case BUILD_LIST:
    case JUMP_FORWARD:
    case RETURN_VALUE: return false;
    case STORE_FAST:
    case DELETE_FAST: return !is_inert(slots[decoded.argument]);
    case POP_TOP:
    case UNARY_NOT:
    case UNARY_NEGATIVE:
    case UNARY_POSITIVE:
    case UNARY_INVERT:
    case POP_JUMP_FORWARD_IF_TRUE:
    case POP_JUMP_FORWARD_IF_FALSE:
    case POP_JUMP_FORWARD_IF_NONE:
    case POP_JUMP_FORWARD_IF_NOT_NONE:
    case JUMP_IF_TRUE_OR_POP:
    case JUMP_IF_FALSE_OR_POP: return !are_inert(1);
    case BINARY_OP:
    case COMPARE_OP:
    case IS_OP: return !are_inert(2);
    case LOAD_ATTR:
    case LOAD_METHOD: return !is_tensor(stack[depth - 1]);
    case CALL: {  // a tensor's own method on inert arguments: item() and its kind
      if (depth < decoded.argument + 2 || !are_inert(decoded.argument)) return true;
      PyObject* method = stack[depth - decoded.argument - 2];
      PyObject* self = stack[depth - decoded.argument - 1];
      return method == nullptr || !PyObject_TypeCheck(method, &PyMethodDescr_Type) || !is_tensor(self) ||
             reinterpret_cast<PyDescrObject*>(method)->d_type != &TensorType;
    }
    default: return true;
  }
}

bool init_step() {
  if (stepping::names.empty != nullptr) return true;
  auto intern = [](const char* text) { return PyUnicode_InternFromString(text); };
  stepping::names = {intern("__enter__"),  intern("__exit__"),       intern("__build_class__"),
                     intern("__import__"), intern("name"),           intern("__spec__"),
                     intern("get"),        intern("__match_args__"), intern("")};
  return !PyErr_Occurred();
}

}  // namespace kintsugi
