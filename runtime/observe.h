// What the runtime tells about itself: counters, reasons, and the record of each compile for explain(). Counting is
// under the interpreter's lock; nothing here changes what a program does.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "jit/plan.h"
#include "runtime/python.h"

namespace kintsugi {

// One row a counter: KN_COUNTER(name, "meaning"). Shown as kt._dynamo.utils.counters['native'].
#define KN_COUNTERS(KN_COUNTER)                                                              \
  KN_COUNTER(frameless_calls, "calls answered before a frame existed")                       \
  KN_COUNTER(segments, "segments compiled")                                                  \
  KN_COUNTER(segment_runs, "segments run by the loop that drives a call, beyond first hits") \
  KN_COUNTER(kernels, "kernel steps of the segments that ran")                               \
  KN_COUNTER(call_outs, "instructions performed through the C API at a break")               \
  KN_COUNTER(hand_overs, "frames whose rest the default evaluator ran")                      \
  KN_COUNTER(fallbacks, "failures of ours after which a call ran plain")                     \
  KN_COUNTER(misses, "look-ups that no segment answered")                                    \
  KN_COUNTER(frames, "frames made real by a break")                                          \
  KN_COUNTER(captured_frames, "frames of callees that the hook brought in")                  \
  KN_COUNTER(plain_calls, "calls forwarded because nothing in them can be compiled")         \
  KN_COUNTER(steps_everywhere, "breaks that break_everywhere asked for")                     \
  KN_COUNTER(forced_misses, "look-ups that miss_every_guard turned into misses")             \
  KN_COUNTER(evictions, "segments dropped to make room")                                     \
  KN_COUNTER(unfused, "segments compiled without fusion")                                    \
  KN_COUNTER(early_frames, "frames that no_frameless made before the first segment")

struct Counters {
#define KN_COUNTER(name, ...) int64_t name = 0;
  KN_COUNTERS(KN_COUNTER)
#undef KN_COUNTER
};
extern Counters counters;
// How often our own work has run code of the program: handlers of records, finalisers of what segments held.
extern uint64_t foreign_runs;

// Reasons under a heading: "hand_over", "fallback", "graph_break", ... Text to number.
void count_reason(const char* heading, const std::string& text, int64_t times = 1);

struct UserLine {
  std::string file, function;
  int line = 0;
};
UserLine parse_line(const std::string& text);      // "file:line:function"; the file may hold colons
std::string source_line(const std::string& text);  // of "file:line:function", without blanks; empty: it cannot be had
// "file:line:function" lines with their source, as a traceback shows them.
std::string stack_text(const std::vector<std::string>& stack);

// The message of a break: type, explanation, hints, context, as users read it (spec/graph_breaks.md 2.1, items 1 to 6).
std::string message_of(const BreakRecord& record);
// The same with "from user code:" and the stack, as an error shows it.
std::string error_text(const BreakRecord& record);
// Counts the break, and writes the record that KINTSUGI_LOGS=graph_breaks asks for: below the frames that called what
// was compiled, outermost first; at the end the trace's last instructions, if there are any.
void log_break(const BreakRecord& record, const std::vector<std::string>& callers,
               const std::vector<std::string>& recent);
void forget_shown_breaks();  // the next record of each is in full

// One compile, as explain() and the logs show it.
struct CompileRecord {
  std::string function;  // "file:line:name@offset"
  std::vector<std::string> graph;
  int tensor_ops = 0;
  std::vector<std::string> guards;
  const BreakRecord* ended_by = nullptr;  // null: the function returned, or a loop header was reached
  double trace_us = 0, fuse_us = 0, emit_us = 0;
  size_t code_bytes = 0;  // of the segment and its kernels
};
void note_compile(const CompileRecord& record);
bool compiles_are_shown();  // explain() records, or a log wants more than breaks

extern uint64_t modules_loaded;  // by import_module(): other threads got their turn

bool init_observe(PyObject* module);

}  // namespace kintsugi
