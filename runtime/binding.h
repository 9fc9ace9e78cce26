// Arguments of a call into the parameter slots of a code object, as CPython binds them. Used by call.cpp when a call is
// not simply one positional argument a parameter.
#pragma once
#include "runtime/frame.h"

namespace kintsugi {

// Fills slots[0 .. parameters) with owned references; the slots must be null before. False: the call does not bind or
// memory is short; no exception is set, what was filled in stays for the caller to drop, and the function itself raises
// the right error.
bool bind_arguments(PyFunctionObject* function, PyObject* const* args, size_t count, PyObject* kwnames,
                    PyObject** slots);

}  // namespace kintsugi
