// One call of a compiled function from start to end. Read call.cpp first: it is the walk that docs/walk.md follows.
#pragma once
#include "runtime/entry.h"
#include "runtime/python.h"

namespace kintsugi {

bool init_call(PyObject* module);

}  // namespace kintsugi
