// The slow reference of guards, through the C API: what a guard means, and which one failed. It never runs user code:
// it looks at exact builtin types, identities and places only. Called with the lock held.
#pragma once
#include <string>

#include "guards/guard.h"

namespace kintsugi {

// Fills object_facts() for this interpreter. Once, before anything is emitted; tensor_type is runtime's.
void learn_object_facts(const void* tensor_type);

// 1: guard number `guard` holds; a load has filled its value, and the place was written down in caches. 0: it does not.
// Of ~guard: it and all after it.
int check_guard(const GuardProgram& program, const GuardInput& input, int guard);

// Runs the whole program while it is known to hold, so that caches get the places that native code looks at first.
// Answers the first guard that does not hold, or -1.
int record_caches(const GuardProgram& program, const GuardInput& input);

struct MissReport {
  int guard = -1;      // -1: everything holds
  std::string source;  // the path in the user's words
  std::string kind;    // row of guards.def
  std::string expected, found;
};
MissReport find_miss(const GuardProgram& program, const GuardInput& input);
// All that do not hold, but for those that look at values of which an earlier one does not.
std::vector<MissReport> find_misses(const GuardProgram& program, const GuardInput& input);
// "self.taps: expected a list of 3 items, found a list of 4 items"
std::string to_text(const MissReport& report);

}  // namespace kintsugi
