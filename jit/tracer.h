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
  bool strict = false;       // error_on_graph_break, as it is when the trace begins
  int dynamic = -1;          // -1: static first, then general; 0 never; 1 from the start
  bool inline_calls = true;  // false under break_everywhere
  bool break_everywhere = false;
  bool fuse = true;
  bool capture_scalars = false;  // item() stays in the graph
  bool capture_shapes = false;   // and operators whose result's sizes depend on data
  bool pure = false;             // a branch of cond: changes outside are errors
  bool exporting = false;        // one graph that stands alone is wanted: see export_graph.cpp
  bool in_export = false;        // that, or a branch of cond in it
  bool describe = false;         // somebody reads Plan::graph
  bool exact_locals = false;     // exits show dead locals too
  bool watched = false;          // who holds the frame sees its locals after the return
  int unroll_limit = 8;          // iterations of a loop in one trace; longer loops become entries at their header
  int instruction_limit = 20000;
};

// What an entry learnt from misses and abandoned traces; keys are Plan::sources texts and call sites.
struct EntryMemory {
  std::set<std::string> dynamic;  // sources whose value differed: numbers and sizes become inputs
  // (code object, offset) of calls that could not be continued inside; the value: error_on_graph_break where they
  // broke.
  std::map<std::pair<void*, int>, bool> not_inlined;
  std::set<std::pair<void*, int>> cuts;  // where a trace ends, so that a backend's graph can stand in one place
  // Instructions that had changed something when they turned out a break: they are one from the start.
  std::map<std::pair<void*, int>, std::pair<BreakReason, std::string>> not_followed;
};

// How a segment holds a binding. kWeak: strongly if its type takes no weak references. kPinned: not at all then; a
// guard on what holds it (a class's version, a module) comes before every use.
enum class Hold : uint8_t { kNone, kStrong, kWeak, kLayout, kPinned };

// An error that the trace itself raises, whatever the policy says of breaks.
enum class Failure : uint8_t {
  kNone,
  kForbidden,   // AssertionError
  kRuntime,     // TorchRuntimeError
  kUncaptured,  // UncapturedHigherOrderOpError
  kUser,        // UserError
  kConstraint,  // ConstraintViolationError
  kPending,     // the exception that is set
};

struct TraceInput {
  PyFunctionObject* function;
  PyCodeObject* code;
  int offset;              // instruction index (code units)
  int depth;               // values on the stack
  PyObject* const* slots;  // localsplus then stack
  TracePolicy policy;
  EntryMemory* memory;
  PyObject* backend = nullptr;  // borrowed; null: the default one
};

struct ReleaseLayout {
  void operator()(Layout* layout) const { release(layout); }
};
using KeptLayout = std::unique_ptr<Layout, ReleaseLayout>;

// What a trace was at: an instruction, in a frame that the place `caller` called; -1: in the root.
struct TracePlace {
  PyCodeObject* code;
  int32_t offset, caller;
};

struct TraceResult {
  Plan plan;
  std::vector<void*> bindings;
  std::vector<Hold> holds;  // by ConstantId: how a segment is to hold the binding
  std::vector<GuardCache> caches;
  std::vector<TracePlace> places;
  std::vector<int32_t> guard_places;  // where each guard was made; -1: of no instruction
  int tensor_ops = 0;                 // tensor operations recorded
  int calls = 0;                      // tensor calls as the program wrote them
  bool reads_compiling = false;       // the trace read is_compiling(): never skip it as plain
  bool strict_break = false;          // the last exit's break happened under error_on_graph_break(True)
  bool skips_frame = false;           // skip_frame(): no plan; plan.breaks[0] says where
  Failure failure = Failure::kNone;   // no plan; plan.breaks[0] says where, and its context what
  std::vector<std::string> recent;    // the last instructions, where records are in full
  double trace_us = 0, fuse_us = 0;
  // All bindings, and whatever else the trace looked at, for as long as this exists.
  std::vector<Ref> kept;
  bool ran_foreign_code = false;  // of a backend, a rule or a marked function: it may have changed what guards look at
  std::vector<KeptLayout> layouts;
};

std::string slot_text(PyCodeObject* code, int slot);  // as EntryMemory::dynamic names it

// The function that a wrapper made by kt.compile stands for; null for anything else. runtime/call.cpp answers.
PyFunctionObject* compiled_target(Borrowed callable, bool* fullgraph = nullptr);

// What a program, or this package, has said of a callable: by identity. runtime/marks.cpp answers.
enum class MarkKind : uint8_t {
  kNone,
  kBreak,           // its call is a break: `reason`, `context`
  kForbidden,       // its call is an error
  kAnswer,          // its call answers `object`: True or False
  kIsExporting,     // its call answers whether an export is being traced
  kSetGrad,         // sets the grad mode and answers what it was
  kReadGrad,        // answers something of it
  kSetStrict,       // sets error_on_graph_break and answers what it was
  kOpaque,          // one call, not looked into: allow_in_graph
  kNonstrict,       // the same, for structured arguments and results: nonstrict_trace
  kMakesNonstrict,  // nonstrict_trace itself
  kConstantResult,  // called once, while tracing
  kSubstituted,     // `object` is traced in its place
  kPrinted,         // runs at its place, whatever it is given; answers None
  kCond,            // cond of _higher_order_ops
  kWithoutEffect,   // does nothing in a trace: mark_static
  kSwapOption,      // changes a setting for a region
};
// What the answer of a call that is not looked into may be made of. kintsugi._opaque gets them from _driver.
enum class AnswerForm : int {
  kFlat,    // tensors and floats, which vary, in tuples and lists; other numbers are refused
  kTree,    // any tree; its numbers are constants: nonstrict_trace
  kBranch,  // any tree; its numbers vary: cond
};
struct Mark {
  MarkKind kind = MarkKind::kNone;
  BreakReason reason{};
  std::string context;
  PyObject* object = nullptr;  // borrowed
};
Mark mark_of(Borrowed callable);
// Whether the program lets its call be left out, or made without a break (config's logging sets). self: of a method.
enum class LogRole : uint8_t { kNone, kIgnored, kReorderable };
LogRole log_role(Borrowed callable, Borrowed self);
bool any_log_roles();
// Another callable that guards would take for this one (same code, same class) has a mark: only identity tells.
bool marks_look_alike(Borrowed callable);
// While this lives, is_compiling() is true in plain code.
struct CompilingScope {
  CompilingScope();
  ~CompilingScope();
};
// Of this package: not part of a user's stack.
bool is_internal(PyCodeObject* code);

// What tables of the tracer are made from. With our own module, since the child of a fork would wait for ever for a
// module that another thread was loading; and before a trace, lest a program dropped one: an import within would let
// other threads change what is looked at, and wait for a table that is being made.
void load_modules();
// Always answers a plan when the status is ok, if only one whose first exit is a break at the entry's own offset.
[[nodiscard]] Status trace(const TraceInput& input, TraceResult* result);

}  // namespace kintsugi
