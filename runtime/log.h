// Records on stderr, by kind: KINTSUGI_LOGS=graph_breaks,recompiles,... No Python here: any room may write one.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/options.h"

namespace kintsugi {

// One row a kind: KN_LOG(name, "what its records say").
#define KN_LOGS(KN_LOG)                                                 \
  KN_LOG(graph_breaks, "each break: reason, hints, user stack")         \
  KN_LOG(recompiles, "why no segment fitted: guard, old and new value") \
  KN_LOG(recompiles_verbose, "the same, with every guard that failed")  \
  KN_LOG(guards, "the guards of each new segment")                      \
  KN_LOG(graph, "the tensor operations of each new segment")            \
  KN_LOG(plan, "the steps and exits of each new segment, as text")      \
  KN_LOG(asm, "the machine code of each new segment, each part named")

enum class LogKind : uint8_t {
#define KN_LOG(name, ...) k_##name,
  KN_LOGS(KN_LOG)
#undef KN_LOG
      kCount
};
const char* name_of(LogKind kind);
inline bool is_logged(LogKind kind) { return options.logs >> static_cast<int>(kind) & 1; }

// One record: "[kintsugi graph_breaks 0/1] first line", further lines indented. Written at once, whole.
void write_record(LogKind kind, const std::string& text);
// What this thread's records are about until the end of the scope: a compile, as "0/1".
class RecordScope {
 public:
  explicit RecordScope(std::string compile_id);
  ~RecordScope();
  RecordScope(const RecordScope&) = delete;
  RecordScope& operator=(const RecordScope&) = delete;
  static const std::string& current();  // empty: none

 private:
  std::string before_;
};
// Where records go instead of stderr; null: nowhere else. observe.cpp sets it for kt._logging.set_logs.
extern void (*record_sink)(LogKind kind, const std::string& text);
// For what everybody should see: "kintsugi: text", once a process for each text.
void warn_once(const std::string& text);

// Drops the pending exception of something that is not needed. An interrupt is raised in this thread, where Python
// looks for what others have sent to it; no handler of signals runs again.
void forget_error();

}  // namespace kintsugi
