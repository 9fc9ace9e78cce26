"""The rows of the tables of the control surface's behaviour, by section, and which tests cover them. A test file that takes its rows
from here cannot leave one out: `rows` compares, and test_semantics_rows.py looks for sections without tests."""
import pytest

ROWS = {
    "3 parameters": ["model", "fullgraph", "dynamic", "backend", "mode", "options", "name", "disable", "recompile_limit",
                     "isolate_recompiles"],
    "4.1 outcomes": ["resumed", "partial", "skipped"],
    "4.2 kinds": ["graph_break()", "call of a disabled function", "disallowed operator", "print, untraceable builtin",
                  "item(), no capture", "branch on a tensor", "skip_frame()", "step_unsupported()", "exception leaving the frame",
                  "forbidden callable, set_stance", "operation invalid for its inputs"],
    "4.2 contexts": ["straight code", "for/while loop", "try or handler or finally", "supported with", "foreign with", "callee",
                     "generator body", "cond branch", "strict setting", "fullgraph"],
    "6 flag": ["fullgraph True", "flag True", "flag False"],
    "8 marks": ["allow_in_graph", "disallow_in_graph", "forbid_in_graph"],
    "9 frame controls": ["graph_break", "skip_frame", "step_unsupported"],
    "12 is_compiling": ["plain eager", "traced code", "skipped frame", "disabled function", "code between two graphs",
                        "frame under force_eager", "frame run eagerly by another stance", "custom operator body at run time",
                        "the backend callable while it compiles", "export"],
    "13.1 stances": ["default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile",
                     "aot_eager_then_compile"],
    "18 guards": ["tensor", "numbers and atoms", "list, tuple, deque, range", "dict", "set", "object of a user class",
                  "function called", "global name", "closure cell", "Python module", "class used as value",
                  "module object of the runtime", "interpreter-wide state", "backend"],
    "18 not guarded": ["config values", "the stance", "error_on_graph_break", "fullgraph", "allow marks", "logging sets",
                       "results of assume_constant_result", "tensors' data", "builtins shadowed later"],
    "20 numbers": ["argument, item or attribute of an argument, closure cell, class attribute", "module-level name",
                   "attribute of a module object", "default argument of an inlined function"],
    "20 marks": ["mark_dynamic", "maybe_mark_dynamic", "mark_static", "mark_unbacked"],
    "23.1 explain": ["graphs", "graph_count", "graph_break_count", "break_reasons", "op_count", "ops_per_graph", "out_guards",
                     "compile_times"],
    "23.3 counters": ["frames", "graph_break", "unimplemented", "stats", "resumes"],
    "24 errors": ["TorchDynamoException", "Unsupported", "UserError", "TorchRuntimeError", "BackendCompilerFailed",
                  "InvalidBackend", "UncapturedHigherOrderOpError", "InternalTorchDynamoError", "RecompileError",
                  "FailOnRecompileLimitHit", "AssertionError", "RuntimeError", "ConstraintViolationError"],
    "25 settings": ["recompile_limit / cache_size_limit", "accumulated_recompile_limit", "fail_on_recompile_limit_hit",
                    "error_on_recompile", "nested_graph_breaks", "capture_scalar_outputs", "capture_dynamic_output_shape_ops",
                    "reorderable_logging_functions, ignore_logging_functions", "suppress_errors", "disable", "verbose",
                    "automatic_dynamic_shapes, assume_static_by_default", "specialize_int, specialize_float",
                    "allow_unspec_int_on_nn_module", "rewrite_assert_with_torch_assert", "allow_empty_graphs",
                    "side_effect_replay_policy"],
    "26 scopes": ["compile wrapper", "frame hook", "disable wrapper", "error_on_graph_break", "stance", "allow/disallow/forbid marks",
                  "config", "logging sets", "set_logs", "entries, skip marks, run-only marks", "eager_then_compile examples",
                  "compilation itself"],
    "26 ranks": [str(number) for number in range(1, 10)],
    "26 pairs": ["error_on_graph_break(False) outside, disable inside", "disable outside, error_on_graph_break(False) inside",
                 "error_on_graph_break(False) inside a cond branch", "disable of an allowed function",
                 "allow_in_graph of a disable wrapper", "disable of a forbidden function", "allow_in_graph on a forbidden function",
                 "forbidden, allowed or disallowed function as root", "disable of a nonstrict_trace wrapper",
                 "disabled function called inside a nonstrict_trace or allowed function", "fine inside a cond branch",
                 "print and other breaks inside a cond branch", "reorderable function inside a cond branch",
                 "disabled function in the reorderable or ignored set",
                 "is_compiling() in the body of an allowed or nonstrict_trace function",
                 "custom operator under force_eager, in disabled code, in eager code",
                 "fail_on_recompile with a disabled or skipped frame", "eager_on_recompile or force_eager with fullgraph",
                 "set_stance inside a disabled function called from compiled code",
                 "graph_break(), skip_frame(), step_unsupported() in disabled, opaque or eager code",
                 "compile wrapper called inside an operator body or a disabled function"],
    "27 quirks": ["skip mark hides valid entries", "fullgraph reuses broken entries", "unknown stance accepted",
                  "positional message of graph_break not shown", "pass-through graphs reach the backend",
                  "branch breaks counted as unimplemented", "eager_then_compile memory survives reset",
                  "skip_frame() in a foreign with becomes partial", "non-recursive disable may use an existing entry",
                  "shadowed builtins not guarded", "one record per level", "eager_on_recompile inside disable is run-only",
                  "log calls and operator bodies run before earlier Python effects",
                  "run-time exceptions in a graph bypass the function's own handlers"],
}
covered = {}


def rows(section, table):
    """Parametrises a test by the rows of a section; `table` maps each to what the test needs, or names some of them."""
    names = list(table)
    unknown = set(names) - set(ROWS[section])
    assert not unknown, f"section {section} has no rows {unknown}"
    covered.setdefault(section, set()).update(names)
    return pytest.mark.parametrize("row", names)


def row(section, name):
    """Says that a test covers one row."""
    rows(section, [name])
    return lambda test: test
