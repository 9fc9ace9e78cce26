// The tracer: reads bytecode symbolically from one entry, with the real objects at hand, up to a return or a break, and
// answers a plan. It changes no object and runs no user code; giving up at any point is free. Called by
// runtime/compile.cpp with the interpreter's lock held and the collector held off.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "jit/glue.h"
#include "jit/plan.h"
#include "runtime/python.h"
#include "runtime/status.h"

namespace kintsugi {

// What governs a trace; filled by runtime/control.cpp and the stress switches.
struct TracePolicy {
  bool fullgraph = false;
  int dynamic = -1;          // -1: static first, then general; 0 never; 1 from the start
  bool inline_calls = true;  // false under break_everywhere
  bool break_everywhere = false;
  bool fuse = true;
  bool describe = false;      // somebody reads Plan::graph
  bool exact_locals = false;  // exits show dead locals too
  bool watched = false;       // who holds the frame sees its locals after the return
  int unroll_limit = 8;       // iterations of a loop in one trace; longer loops become entries at their header
  int instruction_limit = 20000;
};

// What an entry learnt from misses and abandoned traces; keys are Plan::sources texts and call sites.
struct EntryMemory {
  std::set<std::string> dynamic;                // sources whose value differed: numbers and sizes become inputs
  std::set<std::pair<void*, int>> not_inlined;  // (code object, offset) of calls that could not be continued inside
  // Instructions that had changed something when they turned out a break: they are one from the start.
  std::map<std::pair<void*, int>, std::pair<BreakReason, std::string>> not_followed;
};

enum class Hold : uint8_t { kNone, kStrong, kWeak, kLayout };  // how a segment holds a binding

struct TraceInput {
  PyFunctionObject* function;
  PyCodeObject* code;
  int offset;              // instruction index (code units)
  int depth;               // values on the stack
  PyObject* const* slots;  // localsplus then stack
  TracePolicy policy;
  EntryMemory* memory;
};

struct ReleaseLayout {
  void operator()(Layout* layout) const { release(layout); }
};
using KeptLayout = std::unique_ptr<Layout, ReleaseLayout>;

struct TraceResult {
  Plan plan;
  std::vector<void*> bindings;
  std::vector<Hold> holds;  // by ConstantId: how a segment is to hold the binding
  std::vector<GuardCache> caches;
  int tensor_ops = 0;            // tensor operations recorded
  bool reads_compiling = false;  // the trace read is_compiling(): never skip it as plain
  double trace_us = 0, fuse_us = 0;
  // All bindings, and whatever else the trace looked at, for as long as this exists.
  std::vector<Ref> kept;
  std::vector<KeptLayout> layouts;
};

// The function that a wrapper made by kt.compile stands for; null for anything else. runtime/call.cpp answers.
PyFunctionObject* compiled_target(Borrowed callable);
// Why a call of graph_break, opaque or a disabled function is a break; null for anything else. runtime/control.cpp
// answers. *context: the disabled function and the reason given for it.
const BreakReason* marked(Borrowed callable, std::string* context);

// Always answers a plan when the status is ok, if only one whose first exit is a break at the entry's own offset.
[[nodiscard]] Status trace(const TraceInput& input, TraceResult* result);

}  // namespace kintsugi
