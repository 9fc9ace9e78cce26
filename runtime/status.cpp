#include "runtime/status.h"

namespace kintsugi {

const BreakRow& row(BreakReason reason) {
  static constexpr BreakRow kRows[] = {
#define KN_BREAK(name, type, explanation, hints) {type, explanation, hints},
#include "runtime/breaks.def"
  };
  return kRows[static_cast<int>(reason)];
}

}  // namespace kintsugi
