#include "runtime/log.h"

#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

namespace kintsugi {

const char* name_of(LogKind kind) {
  static constexpr const char* kNames[] = {
#define KN_LOG(name, ...) #name,
      KN_LOGS(KN_LOG)
#undef KN_LOG
  };
  return kNames[static_cast<int>(kind)];
}

void (*record_sink)(LogKind kind, const std::string& text) = nullptr;

static thread_local std::string about;
RecordScope::RecordScope(std::string compile_id) : before_(std::exchange(about, std::move(compile_id))) {}
RecordScope::~RecordScope() { about = std::move(before_); }
const std::string& RecordScope::current() { return about; }

void write_record(LogKind kind, const std::string& text) {
  if (record_sink != nullptr) return record_sink(kind, text);
  std::string record = std::string("[kintsugi ") + name_of(kind) + (about.empty() ? "" : " " + about) + "] ";
  for (size_t i = 0; i < text.size(); ++i) {
    record += text[i];
    if (text[i] == '\n' && i + 1 < text.size()) record += "  ";
  }
  if (record.back() != '\n') record += '\n';
  std::fwrite(record.data(), 1, record.size(), stderr);
}

void warn_once(const std::string& text) {
  static std::mutex lock;
  static std::set<std::string> seen;
  {
    std::lock_guard guard(lock);
    if (!seen.insert(text).second) return;
  }
  std::fprintf(stderr, "kintsugi: %s\n", text.c_str());
}

}  // namespace kintsugi
