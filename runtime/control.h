// What governs a trace, and the callables by which a program says so: graph_break, disable, opaque. compile.cpp asks
// what a trace may do; the tracer asks what they mean (marked).
#pragma once
#include <string>

#include "jit/tracer.h"
#include "runtime/entry.h"
#include "runtime/python.h"

namespace kintsugi {

TracePolicy trace_policy(const Policy& policy);

bool init_control(PyObject* module);

}  // namespace kintsugi
