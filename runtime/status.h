// Outcome of something that may be declined: a row of breaks.def with particulars, or ok. Expected failures travel as
// Status and end in running the interpreter; the user's exceptions travel as Python exceptions; our bugs are KN_CHECK.
#pragma once
#include <string>
#include <utility>

namespace kintsugi {

enum class BreakReason : int {
#define KN_BREAK(name, ...) k_##name,
#include "runtime/breaks.def"
  kCount
};

struct BreakRow {
  const char* type;  // the short fixed phrase users search for
  const char* explanation;
  const char* hints;  // one per line
};
const BreakRow& row(BreakReason reason);

struct [[nodiscard]] Status {
  bool ok = true;
  BreakReason reason{};
  std::string context;
  static Status success() { return {}; }
  static Status decline(BreakReason reason, std::string context) { return {false, reason, std::move(context)}; }
};

}  // namespace kintsugi
