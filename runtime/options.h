// Settings of the process: read once from the environment, changed later through kt._dynamo.config. No Python here: any
// room may ask.
#pragma once
#include <cstdint>
#include <string>

namespace kintsugi {

// One row a setting: KN_OPTION(type, name, default, "meaning"). kt._dynamo.config shows them all under these names.
#define KN_OPTIONS(KN_OPTION)                                                                                    \
  KN_OPTION(int, recompile_limit, 8, "segments at one entry; past it new variants run plain")                    \
  KN_OPTION(bool, exact_locals, false, "every frame shows all bound locals, dead ones too")                      \
  KN_OPTION(bool, verbose, false, "records show more than their short form")                                     \
  KN_OPTION(bool, fail_on_recompile_limit_hit, false, "the limit is an error: FailOnRecompileLimitHit")          \
  KN_OPTION(bool, error_on_recompile, false, "a second variant is an error: RecompileError")                     \
  KN_OPTION(bool, suppress_errors, false, "errors of backends and forbidden calls: the frame runs plain")        \
  KN_OPTION(bool, automatic_dynamic_shapes, true, "sizes that differ become inputs")                             \
  KN_OPTION(bool, assume_static_by_default, true, "sizes and numbers are constants at first")                    \
  KN_OPTION(bool, specialize_int, false, "ints are always constants")                                            \
  KN_OPTION(bool, specialize_float, false, "floats are always constants")                                        \
  KN_OPTION(bool, capture_scalar_outputs, false, "item() stays in the graph")                                    \
  KN_OPTION(bool, capture_dynamic_output_shape_ops, false, "custom operators whose sizes depend on data do too") \
  KN_OPTION(bool, nested_graph_breaks, true, "no effect: breaks in callees are always resumed there")            \
  KN_OPTION(bool, rewrite_assert_with_torch_assert, true, "no effect: assert on a tensor needs no break")        \
  KN_OPTION(bool, allow_unspec_int_on_nn_module, false, "no effect")                                             \
  KN_OPTION(bool, dont_skip_tracing, false, "no effect")                                                         \
  KN_OPTION(bool, disable, false, "compiled functions run plain")                                                \
  KN_OPTION(bool, strict, false, "an internal failure raises instead of running plain")                          \
  KN_OPTION(bool, break_everywhere, false, "stress: every instruction that can be called out is; no inlining")   \
  KN_OPTION(bool, miss_every_guard, false, "stress: each look-up misses, compiles and runs the new segment")     \
  KN_OPTION(bool, tiny_code_memory, false, "stress: 64 KB of code memory, oldest segments evicted")              \
  KN_OPTION(bool, no_fuse, false, "stress: one kernel an operation")                                             \
  KN_OPTION(bool, no_frameless, false, "stress: the frame is made before the first segment runs")

struct Options {
#define KN_OPTION(type, name, value, ...) type name = value;
  KN_OPTIONS(KN_OPTION)
#undef KN_OPTION
  uint32_t logs = 0;      // bits by LogKind, see log.h
  bool stanced = false;   // set_stance: force_eager, or a forced backend; the others matter where nothing fits
  bool indirect = false;  // a call may not go straight to a segment

  bool stressed() const { return break_everywhere || miss_every_guard || tiny_code_memory || no_fuse || no_frameless; }
};
extern Options options;

// KINTSUGI_STRICT=1, KINTSUGI_DISABLE=1, KINTSUGI_STRESS=name,..., KINTSUGI_LOGS=name,... Unknown names are reported on
// stderr, with the known ones, and skipped.
void read_environment();

// By name, for kt._dynamo.config. False: there is no such setting, or the value does not fit (*error says which).
bool set_option(const std::string& name, int64_t value, std::string* error);
bool get_option(const std::string& name, bool* value);  // false: none of True and False has this name
// After a change of what `indirect` is made of.
void update_indirect();
// "name,name" as in KINTSUGI_LOGS; replaces the set.
bool set_logs(const std::string& names, std::string* error);

}  // namespace kintsugi
