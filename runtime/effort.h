// Whether running natively is worth it: code without tensor operations that only goes from break to break is quicker in
// the evaluator. call.cpp asks, and hands such code back.
#pragma once
#include "runtime/entry.h"
#include "runtime/observe.h"

namespace kintsugi {

// What has run since it was made, callees included.
class Effort {
 public:
  bool is_free() const { return counters.kernels == kernels_ && breaks() == 0; }
  // No tensor operation, and few segments between breaks.
  bool wasted(int64_t least_breaks) const {
    return counters.kernels == kernels_ && breaks() >= least_breaks && 4 * breaks() >= counters.segment_runs - runs_;
  }

 private:
  static int64_t all_breaks() { return counters.call_outs + counters.frames; }
  int64_t breaks() const { return all_breaks() - breaks_; }
  int64_t kernels_ = counters.kernels, breaks_ = all_breaks(), runs_ = counters.segment_runs;
};

// A loop that only goes from break to break is left to the evaluator.
bool is_wasted_loop(const CodeRecord& record, const Policy& policy, const Effort& effort);

// Argument types for which this code turned out to hold nothing worth compiling.
bool is_plain_call(const CodeRecord& record, const Policy& policy, PyObject* const* args, size_t count);
// Another of the variants of its first entry was made: when none has a tensor operation or a break, further ones are
// not worth it.
void mark_if_plain(CodeRecord& record, const Policy& policy, const std::vector<Segment*>& variants,
                   PyObject* const* args, size_t count);
// After a call: when several, one after the other, only went from break to break, the next ones run plain.
void note_call(CodeRecord& record, const Policy& policy, int* wasted_calls, PyObject* const* args, size_t count,
               const Effort& effort);

// A run of a callee. After several complete ones its code is judged and may become plain; wanted: this one counts.
class JudgedRun {
 public:
  JudgedRun(CodeRecord& record, bool wanted);
  ~JudgedRun();
  JudgedRun(const JudgedRun&) = delete;
  JudgedRun& operator=(const JudgedRun&) = delete;

 private:
  CodeRecord& record_;
  Effort effort_;
  bool wanted_;
};

}  // namespace kintsugi
