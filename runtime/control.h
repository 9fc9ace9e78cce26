// What governs a trace, and `disable`. compile.cpp asks what a trace may do; marks.cpp asks what a disabled function
// means.
#pragma once
#include <string>

#include "jit/tracer.h"
#include "runtime/entry.h"
#include "runtime/python.h"

namespace kintsugi {

TracePolicy trace_policy(const Policy& policy);

enum class Stance : uint8_t {
  kDefault,
  kForceEager,
  kEagerOnRecompile,
  kFailOnRecompile,
  kEagerThenCompile,
  kAotEagerThenCompile,
};
// Of the process; read where a wrapper is entered.
struct StanceSetting {
  Stance stance = Stance::kDefault;
  int32_t backend = 0;  // forced; 0: none
};
extern StanceSetting stance_setting;

// Of the wrapper that this thread is in: what frames captured below it are compiled under.
struct Governing {
  Policy policy;
  Stance stance = Stance::kDefault;
  int recompile_limit = 0;  // 0: the setting
};
const Governing& governing();
class GoverningScope {
 public:
  explicit GoverningScope(const Governing& now);
  ~GoverningScope();
  GoverningScope(const GoverningScope&) = delete;
  GoverningScope& operator=(const GoverningScope&) = delete;

 private:
  Governing before_;
};

bool is_disabled(Borrowed callable);
bool disabled_mark(Borrowed callable, Mark* mark);  // false: it is none

bool init_control(PyObject* module);

}  // namespace kintsugi
