// Why no segment of an entry fits a call, as users read it: the guard that failed, what it wanted and found, and where
// in the program its value had been looked at; by compile id, as torch numbers them. Called by compile.cpp.
#pragma once
#include <string>
#include <vector>

#include "guards/check.h"
#include "runtime/entry.h"
#include "runtime/exits.h"

namespace kintsugi {

// The first guard that does not hold; *values gets what the guards before it have loaded.
MissReport look_for_miss(const Segment& segment, const Activation& activation, std::vector<uint64_t>* values);
// "self.taps: expected a list of 3 items, found a list of 4 items"; empty when the segment fits.
std::string explain_miss(const Segment& segment, const Activation& activation);
// A line for each of the entry's segments, "- 0/1: what failed", with the line and the user stack of the guard.
// verbose: for each guard that failed.
std::string all_misses(const Entry& entry, const Activation& activation, bool verbose = false);
void log_recompile(const Entry& entry, const Activation& activation);

}  // namespace kintsugi
