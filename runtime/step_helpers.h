// The helpers that emitted code calls: the rows of jit/steps.def that are not native, and guards' second look.
#pragma once
#include "jit/glue.h"

namespace kintsugi {

const HelperTable& helper_table();

}  // namespace kintsugi
