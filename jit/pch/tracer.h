// What each file of the tracer includes, parsed once (see kernels/pch/standard.h).
#include "jit/tracer_core.h"
#include "kernels/pch/standard.h"
