// Python.h, and who owns a reference: Ref owns one, Borrowed does not. Every file that speaks to CPython's public API starts
// here; the private API is behind frame.h.
#pragma once
#include <Python.h>

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

}  // namespace kintsugi
