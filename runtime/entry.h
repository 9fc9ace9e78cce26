// What a code object owns: its entries, each with the segments compiled so far. The record hangs in the code object's
// extra slot and dies with it. Segments are immutable once published; one that retires is unlinked at once and freed
// when no activation is inside it. Everything here is under the interpreter's lock. Used by call.cpp and compile.cpp.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "jit/glue.h"
#include "jit/tracer.h"
#include "runtime/frame.h"

namespace kintsugi {

struct Entry;

// "0/1" in records: the second compile at the first place where anything was compiled.
struct CompileId {
  int32_t frame = 0, attempt = 0;
};
std::string to_text(CompileId id);

// Where in the program the guards of a segment come from: what the trace was at as it made each of them.
struct GuardOrigins {
  struct Place {
    int32_t code, offset;
    int32_t caller;  // index of another place; -1: the root
  };
  std::vector<PyObject*> codes;  // weak references, owned
  std::vector<Place> places;
  std::vector<int32_t> of_guard;  // by guard; -1: of none
};
GuardOrigins origins_of(const TraceResult& traced);

struct Segment {
  SegmentCode* code = nullptr;  // owned
  Entry* entry = nullptr;       // null once retired
  std::vector<Hold> holds;      // by ConstantId: what this segment holds of code->bindings
  std::vector<PyObject*> weak;  // weakrefs whose death retires the segment
  PyObject* death = nullptr;    // their callback
  int32_t running = 0;          // activations inside its code or reading its exits
  int32_t kernels = 0;          // kernel steps of one run
  int32_t tensor_ops = 0;
  size_t generality = 0;               // sources that were inputs when it was compiled
  bool reads_parameters_only = false;  // its guards need no slot beyond the parameters
  bool returns = false;                // its last exit is the function's return, and nothing in it breaks
  CompileId id;
  GuardOrigins origins;
  uint64_t last_run = 0;  // tick of compile or latest look-up that went past the first segment
};

// What a segment was compiled under beside its guards: wrappers with different settings do not share segments.
struct Policy {
  bool fullgraph = false;
  int8_t dynamic = -1;
  bool watched = false;   // the frame's object is held by others, a traceback most likely: they see its locals
  int32_t backend = 0;    // see backends.h
  int32_t isolation = 0;  // of the wrapper that keeps segments of its own, or one of Isolation
  bool operator==(const Policy&) const = default;
};

enum Isolation : int32_t {
  kFirstTry = -1,        // what a first call is compiled to: see set_stance
  kPure = -2,            // a branch of cond
  kExport = -3,          // one graph that stands alone is wanted
  kExportedBranch = -4,  // a branch of cond in it
};

struct CodeRecord;

// What a slot held at a call that ran plain, for the stances that compile at the second one.
struct Example {
  int32_t slot;
  PyTypeObject* type;  // borrowed: int, float or the tensor type
  int64_t whole = 0;
  double real = 0;
  KeptLayout layout;
};

// A dispatch point. The address stays valid as long as the code object lives, also over reset().
struct Entry {
  CodeRecord* record = nullptr;
  int32_t offset = 0;
  int32_t depth = 0;   // values on the stack
  uint64_t nulls = 0;  // bit d: stack slot d is NULL
  Policy policy;
  Entry* next = nullptr;           // another one at the same offset
  Segment* first = nullptr;        // tried first: the latest hit
  std::vector<Segment*> segments;  // in order of compilation; holds `first` too
  EntryMemory memory;
  int32_t outdated = 0;       // segments retired because a class changed
  int32_t forced_misses = 0;  // that miss_every_guard asked for
  int32_t disturbed = 0;      // traces that came to nothing, since a backend changed what their guards look at
  int32_t full_misses = 0;    // with all its segments there, from which nothing was learnt
  int32_t frame_id = -1, compiles = 0;  // of all entries at the offset; kept in the oldest
  bool limit_told = false;
  bool beyond_help = false;  // tracing failed for a reason that will not go away
  bool skipped = false;      // skip_frame() was met
  bool suppressed = false;   // suppress_errors has hidden an error: plain while it is on
  bool seen = false;         // a first call was remembered
  std::vector<Example> examples;
};

struct CodeRecord {
  PyCodeObject* code = nullptr;  // borrowed: it owns us
  std::vector<std::unique_ptr<Entry>> entries;
  std::vector<Entry*> at;      // by offset: the latest entry there
  bool skipped = false;        // never compiled when the hook offers it: this package, what was marked so
  bool library = false;        // likewise, but for capture_everything: the standard library
  bool plain = false;          // frames that the hook offers run plain: see effort.h
  int32_t fruitless_runs = 0;  // complete captured runs since the code was judged
  int32_t wasted_runs = 0;     // of these, those that only went from break to break
  int32_t running = 0;         // captured runs that have not ended
  bool deep = false;           // many of them were inside each other
  std::vector<std::vector<PyTypeObject*>> plain_types;  // argument types for which calls are only forwarded
};

inline constexpr int kMaxEntryDepth = 64;  // deeper stacks are not compiled

bool init_entries();
// Null with an exception set only when memory is short. `find` never makes one.
CodeRecord* find_record(PyCodeObject* code);
CodeRecord* record_of(PyCodeObject* code);
// Null when the stack is too deep for an entry.
Entry* entry_at(CodeRecord& record, int offset, PyObject* const* stack, int depth, Policy policy);

// Of the entry's next compile. Noted: it takes place.
CompileId next_compile_id(Entry& entry);
void note_compile_id(Entry& entry, CompileId id);

// Takes what trace() answered and the code made from it. Holds bindings as `holds` says.
Segment* publish(Entry& entry, SegmentCode* code, std::vector<Hold> holds);
void retire(Segment* segment);
void retire_all(std::vector<Segment*> segments);  // safe with code that freeing them runs
// Fast-path brackets around native code and around reading its exits.
inline void pin(Segment* segment) { ++segment->running; }
void free_retired(Segment* segment);
inline void unpin(Segment* segment) {
  if (--segment->running == 0 && segment->entry == nullptr) [[unlikely]]
    free_retired(segment);
}

// Retires the segment that ran longest ago, of all code objects; never `keep`. False: there is none.
bool evict_oldest(const Segment* keep);
// Drops every segment, mark and memory.
void reset_entries();
// Drops what was compiled for a backend or for an isolated wrapper; 0: not asked for. Their entries stay for the next
// one of this number.
void retire_policy(int32_t backend, int32_t isolation);
int visit_segments(int32_t backend, visitproc visit, void* arg);  // what those hold, for the collector
uint64_t next_tick();

}  // namespace kintsugi
