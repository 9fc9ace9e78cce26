#include "runtime/effort.h"

#include "runtime/options.h"

namespace kintsugi {

static bool records_tensors(const CodeRecord& record) {
  for (const auto& entry : record.entries)
    for (const Segment* segment : entry->segments)
      if (segment->tensor_ops > 0) return true;
  return false;
}

// Nothing but segments from entry to return or to a break, without a tensor operation.
static bool only_returns(const CodeRecord& record) {
  for (const auto& entry : record.entries)
    for (const Segment* segment : entry->segments)
      if (segment->tensor_ops > 0 || (!segment->returns && segment->code->plan.breaks.empty())) return false;
  return true;
}

bool is_wasted_loop(const CodeRecord& record, const Policy& policy, const Effort& effort) {
  constexpr int64_t kWastedBreaks = 256;
  return !options.stressed() && policy == Policy{} && effort.wasted(kWastedBreaks) && !records_tensors(record);
}

// ---- Calls from outside --------------------------------------------------------------------------------------------

bool is_plain_call(const CodeRecord& record, const Policy& policy, PyObject* const* args, size_t count) {
  if (policy != Policy{}) return false;
  for (const auto& types : record.plain_types) {
    if (types.size() != count) continue;
    bool same = true;
    for (size_t i = 0; i < count && same; ++i) same = Py_TYPE(args[i]) == types[i];
    if (same) return true;
  }
  return false;
}

static void mark_plain(CodeRecord& record, PyObject* const* args, size_t count) {
  constexpr size_t kMostMarks = 8;
  if (record.plain_types.size() >= kMostMarks) return;
  auto& types = record.plain_types.emplace_back();
  for (size_t i = 0; i < count; ++i) types.push_back(Py_TYPE(args[i]));
}

void mark_if_plain(CodeRecord& record, const Policy& policy, const std::vector<Segment*>& variants,
                   PyObject* const* args, size_t count) {
  constexpr size_t kVariants = 3;
  if (policy != Policy{} || options.stressed() || variants.size() < kVariants) return;
  for (const auto& entry : record.entries)
    for (const Segment* segment : entry->segments)
      if (segment->tensor_ops > 0 || !segment->returns) return;
  mark_plain(record, args, count);
}

void note_call(CodeRecord& record, const Policy& policy, int* wasted_calls, PyObject* const* args, size_t count,
               const Effort& effort) {
  constexpr int kWastedCalls = 24;
  if (policy != Policy{} || options.stressed() || effort.is_free()) return;
  if (!effort.wasted(1)) {
    *wasted_calls = 0;
    return;
  }
  if (++*wasted_calls < kWastedCalls) return;
  *wasted_calls = 0;
  if (records_tensors(record)) return;
  mark_plain(record, args, count);
  // A call tries the first segment before it looks at the types.
  for (const auto& entry : record.entries)
    if (entry->offset == 0 && entry->policy == Policy{}) entry->first = nullptr;
}

// ---- Callees -------------------------------------------------------------------------------------------------------

// Deep recursion stays with us: in the evaluator it may overrun the C stack, here it raises RecursionError.
JudgedRun::JudgedRun(CodeRecord& record, bool wanted) : record_(record), wanted_(wanted && !options.stressed()) {
  constexpr int kDeep = 100;
  if (++record.running > kDeep) record.deep = true;
}

JudgedRun::~JudgedRun() {
  constexpr int kFruitlessRuns = 8;  // before the code is judged
  --record_.running;
  if (!wanted_ || record_.deep) return;
  record_.wasted_runs += effort_.wasted(1);
  if (++record_.fruitless_runs < kFruitlessRuns) return;
  bool wasted = record_.wasted_runs == kFruitlessRuns && !records_tensors(record_);
  record_.plain = wasted || only_returns(record_);
  record_.fruitless_runs = record_.wasted_runs = 0;
}

}  // namespace kintsugi
