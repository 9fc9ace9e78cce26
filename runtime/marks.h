// What a program says of a callable (allow_in_graph, forbid_in_graph, ...), and the C functions by which it governs a
// trace from inside: graph_break, skip_frame, is_compiling, ... The tracer asks mark_of (jit/tracer.h).
#pragma once
#include "runtime/python.h"

namespace kintsugi {

// error_on_graph_break: of the process, read while tracing.
extern bool error_on_graph_break;

bool init_marks(PyObject* module);

}  // namespace kintsugi
