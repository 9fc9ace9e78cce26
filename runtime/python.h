// Python.h, and who owns a reference: Ref owns one, Borrowed does not. Every file that speaks to CPython's public API
// starts here; the private API is behind frame.h.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace kintsugi {

// A reference somebody else keeps alive for the length of the call.
using Borrowed = PyObject*;

// One owned reference, dropped at the end of scope.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* stolen) : object_(stolen) {}
  Ref(Ref&& other) noexcept : object_(other.release()) {}
  Ref& operator=(Ref&& other) noexcept {
    // The old object goes last: its finaliser may run any code.
    PyObject* old = object_;
    object_ = other.release();
    Py_XDECREF(old);
    return *this;
  }
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  ~Ref() { Py_XDECREF(object_); }

  static Ref share(Borrowed object) {
    Py_XINCREF(object);
    return Ref(object);
  }
  Borrowed get() const { return object_; }
  [[nodiscard]] PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// Keeps the pending Python exception aside while other Python code runs; puts it back at the end of the scope.
class SavedError {
 public:
  SavedError() { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~SavedError() { PyErr_Restore(type_, value_, traceback_); }
  SavedError(const SavedError&) = delete;
  SavedError& operator=(const SavedError&) = delete;

 private:
  PyObject *type_, *value_, *traceback_;
};

// A bug of ours. Whoever stands between us and emitted code or the C API catches it.
struct InternalError : std::logic_error {
  using std::logic_error::logic_error;
};
[[noreturn, gnu::cold]] inline void check_failed(const char* condition, const char* file, int line) {
  throw InternalError(std::string(file) + ":" + std::to_string(line) + ": " + condition + " does not hold");
}
#define KN_CHECK(condition) \
  (__builtin_expect(!!(condition), 1) ? (void)0 : ::kintsugi::check_failed(#condition, __FILE__, __LINE__))

// Whether an error of this class that came out of the standard library's code for atoms was raised by a handler of a
// signal that ran meanwhile: of itself that code raises builtins, and re its own.
inline bool is_of_a_handler(Borrowed type) {
  if (type == nullptr) return false;
  if (!PyErr_GivenExceptionMatches(type, PyExc_Exception) || PyErr_GivenExceptionMatches(type, PyExc_OSError))
    return true;
  if (!PyType_Check(type) || !PyType_HasFeature(reinterpret_cast<PyTypeObject*>(type), Py_TPFLAGS_HEAPTYPE))
    return false;
  PyObject* module = PyDict_GetItemString(reinterpret_cast<PyTypeObject*>(type)->tp_dict, "__module__");
  return module == nullptr || !PyUnicode_Check(module) || PyUnicode_CompareWithASCIIString(module, "re") != 0;
}

// A module that is loaded to its end; null: there is none. No code runs, and nobody waits for another thread.
Ref finished_module(PyObject* name);
Ref finished_module(const char* name);
// Whatever the globals of the frame that runs: their __builtins__ may be the program's own, and empty. observe.cpp
Ref import_module(const char* name);
inline Borrowed standard_builtins() {
  static PyObject* const names = PyModule_GetDict(PyImport_AddModule("builtins"));
  return names;
}

// repr() for a text of ours. PyObject_Repr() calls handlers of signals: amid tracing, and what they raise would be
// lost.
inline Ref quiet_repr(Borrowed object) {
  int overflow = 0;
  long long number = PyLong_CheckExact(object) ? PyLong_AsLongLongAndOverflow(object, &overflow) : 0;
  if (PyLong_CheckExact(object) && overflow == 0) return Ref(PyUnicode_FromFormat("%lld", number));
  return Ref(Py_TYPE(object)->tp_repr(object));
}

// Equal only to itself, whatever the other object's class says of others: classes, modules, plain instances.
inline bool compares_by_identity(PyObject* object) {
  return Py_TYPE(object)->tp_richcompare == PyBaseObject_Type.tp_richcompare &&
         Py_TYPE(object)->tp_hash == PyBaseObject_Type.tp_hash;
}

}  // namespace kintsugi
