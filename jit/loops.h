// Which loops unroll whatever their length.
#pragma once
#include "jit/value.h"

namespace kintsugi {

inline constexpr int kMostModules = 2048;       // turns of such a loop
inline constexpr int kInstructionsATurn = 400;  // that do not count against the limit of a trace

// A loop over modules or parameters in a row: each turn is other code, so that an entry at its header would serve one
// of them alone.
bool walks_over_modules(const Value* iterator, int depth = 0);

}  // namespace kintsugi
