// Makes one new segment at an entry: learn from the misses, trace, emit, publish, tell the logs. Nothing is visible to
// the program until the segment runs. Called by call.cpp when no segment of the entry fits.
#pragma once
#include "runtime/entry.h"
#include "runtime/exits.h"

namespace kintsugi {

// Null: there will be no segment this time, run plain; or, with an exception set, the call ends with it (a break under
// fullgraph, a failure of ours under KINTSUGI_STRICT). The segment comes pinned, and may have been retired already.
Segment* compile_segment(Entry& entry, const Activation& activation);

// For the stances that compile at the second call: notes what this first one holds. False: it is not the first.
bool remember(Entry& entry, const Activation& activation);

// Raises kt._dynamo.exc.<name>.
void raise_error(const char* name, const std::string& text);

// Of a generator function under fullgraph; answers null.
PyObject* refuse_generator(PyCodeObject* code);

// A failure of ours before anything visible happened: counted, told once. True: an exception is set (strict).
bool internal_failure(const std::string& what);

// "file:line:name" of an instruction.
std::string place_text(PyCodeObject* code, int offset);

}  // namespace kintsugi
