// What the result, or the exception, of a callee that was continued on its own becomes for its caller (see ReturnRule).
#pragma once
#include <string>

#include "jit/plan.h"
#include "runtime/resume.h"

namespace kintsugi {

// A callee raised: the pending exception as its caller has it.
void apply_rule_to_error(Activation& activation, ReturnRule rule, int offset);
// False: an exception is set. refusal: see FrameState. Takes the result.
bool apply_rule(Activation& activation, ReturnRule rule, const std::string& refusal, PyObject* result_stolen);

}  // namespace kintsugi
