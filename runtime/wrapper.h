// Objects that stand in for a Python function: what compile() and disable() return. They show the function's name,
// document, signature and attributes, bind as methods, copy to themselves and pickle by name. What a call does is up to
// each: call.cpp and control.cpp set `vectorcall`.
#pragma once
#include "runtime/python.h"

namespace kintsugi {

struct Wrapper {
  PyObject ob_base;
  vectorcallfunc vectorcall;
  PyObject* function;  // what it calls: a PyFunctionObject for compile(), any callable for disable()
  PyObject* original;  // what it stands in for, if that is another; `__wrapped__` may say anything
  PyObject* dict;
  PyObject* weakrefs;
};

// A type whose instances begin with a Wrapper and are `size` bytes, zeroed. `release` drops what the instance holds
// beyond the Wrapper; may be null. `rebuild` answers the call that makes such a wrapper again, for pickles of wrappers
// that are not found under their own name.
struct WrapperKind {
  const char* name;  // "kintsugi._runtime.CompiledFunction"
  int size;
  const char* document;
  const char* word;  // for repr: "compiled"
  void (*release)(Wrapper*);
  PyObject* (*rebuild)(Wrapper*);                      // the tuple that __reduce__ answers
  int (*visit)(Wrapper*, visitproc, void*) = nullptr;  // what the instance holds beyond the Wrapper; may be null
};
PyTypeObject* make_wrapper_type(const WrapperKind* kind);  // kind must live as long as the process

// A new wrapper around `function`, attributes copied. The caller fills in the rest. `original`: what it stands in for.
Wrapper* make_wrapper(PyTypeObject* type, PyObject* function, vectorcallfunc vectorcall, PyObject* original = nullptr);
PyObject* original_of(Wrapper* wrapper);  // borrowed

}  // namespace kintsugi
