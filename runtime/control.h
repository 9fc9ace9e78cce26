// What governs a trace, and the callables by which a program says so: graph_break, disable, opaque. The tracer asks
// here what a callable is; call.cpp asks what a trace may do.
#pragma once
#include <string>

#include "jit/tracer.h"
#include "runtime/entry.h"
#include "runtime/python.h"

namespace kintsugi {

TracePolicy trace_policy(const Policy& policy);

// kt._dynamo.graph_break: a break that the program asks for. Called as it is, it does nothing.
bool is_graph_break(Borrowed callable);
// kt._dynamo.testing.opaque: a C function without a model.
bool is_opaque(Borrowed callable);

// The function behind kt.compiler.disable's wrapper; null for anything else. The reason given, or null.
Borrowed disabled_target(Borrowed callable, Borrowed* reason = nullptr);
bool is_disabled_recursively(Borrowed callable);  // of a disabled one

bool init_control(PyObject* module);

}  // namespace kintsugi
