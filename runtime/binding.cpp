#include "runtime/binding.h"

#include <algorithm>

namespace kintsugi {

namespace {

bool are_equal(PyObject* a, PyObject* b) {
  return a == b || (PyUnicode_Check(a) && PyUnicode_Check(b) && PyUnicode_Compare(a, b) == 0);
}

// The slot of the parameter that may be given by keyword under this name; -1: none.
int slot_named(PyCodeObject* code, PyObject* name) {
  int end = code->co_argcount + code->co_kwonlyargcount;
  for (int i = code->co_posonlyargcount; i < end; ++i)
    if (slot_name(code, i) == name) return i;
  for (int i = code->co_posonlyargcount; i < end; ++i)
    if (are_equal(slot_name(code, i), name)) return i;
  return -1;
}

}  // namespace

bool bind_arguments(PyFunctionObject* function, PyObject* const* args, size_t count, PyObject* kwnames,
                    PyObject** slots) {
  PyCodeObject* code = code_of(function);
  int given = static_cast<int>(count);
  int positional = code->co_argcount, named_end = positional + code->co_kwonlyargcount;
  bool has_rest = (code->co_flags & CO_VARARGS) != 0, has_keywords = (code->co_flags & CO_VARKEYWORDS) != 0;
  if (given > positional && !has_rest) return false;
  for (int i = 0; i < std::min(given, positional); ++i) slots[i] = Py_NewRef(args[i]);
  if (has_rest) {
    int extra = std::max(given - positional, 0);
    PyObject* rest = slots[named_end] = PyTuple_New(extra);
    if (rest == nullptr) return PyErr_Clear(), false;
    for (int i = 0; i < extra; ++i) PyTuple_SET_ITEM(rest, i, Py_NewRef(args[positional + i]));
  }
  PyObject* keywords = nullptr;
  if (has_keywords) {
    keywords = slots[named_end + (has_rest ? 1 : 0)] = PyDict_New();
    if (keywords == nullptr) return PyErr_Clear(), false;
  }
  Py_ssize_t named = kwnames == nullptr ? 0 : PyTuple_GET_SIZE(kwnames);
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject *name = PyTuple_GET_ITEM(kwnames, i), *value = args[count + static_cast<size_t>(i)];
    if (!PyUnicode_CheckExact(name)) return false;
    int slot = slot_named(code, name);
    if (slot >= 0) {
      if (slots[slot] != nullptr) return false;  // given twice
      slots[slot] = Py_NewRef(value);
    } else if (keywords == nullptr || PyDict_SetItem(keywords, name, value) < 0) {
      return PyErr_Clear(), false;
    }
  }
  PyObject* defaults = defaults_of(function);
  int default_count = defaults == nullptr ? 0 : static_cast<int>(PyTuple_GET_SIZE(defaults));
  for (int i = 0; i < positional; ++i) {
    if (slots[i] != nullptr) continue;
    int number = i - (positional - default_count);
    if (number < 0) return false;
    slots[i] = Py_NewRef(PyTuple_GET_ITEM(defaults, number));
  }
  PyObject* keyword_defaults = keyword_defaults_of(function);
  for (int i = positional; i < named_end; ++i) {
    if (slots[i] != nullptr) continue;
    PyObject* value =
        keyword_defaults == nullptr ? nullptr : PyDict_GetItemWithError(keyword_defaults, slot_name(code, i));
    if (value == nullptr) return PyErr_Clear(), false;
    slots[i] = Py_NewRef(value);
  }
  return true;
}

}  // namespace kintsugi
