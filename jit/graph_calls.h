// What the two that tell Python of a trace's calls share: graph_calls.cpp (backends) and export_graph.cpp (export).
#pragma once
#include <functional>
#include <map>
#include <vector>

#include "jit/tracer_core.h"

namespace kintsugi {

// Numbers of values as Python sees them, in the order in which calls name them.
struct GraphNumbers {
  std::map<Value*, int> of;
  std::vector<Value*> inputs;
  // A number that steps compute, as an object with Refs; empty: it is an input of the graph.
  std::function<Ref(Value*)> computed;
  std::function<Ref(Value*)> function;  // likewise of a function that the trace makes
};

PyObject* graph_module();   // kintsugi.fx
Ref graph_ref(int number);  // a Ref of it
// An argument of a call: a Ref(number), or the object itself with Refs inside.
Ref argument_object(Tracer& t, Value* value, GraphNumbers* numbers);
// What kintsugi.fx.build takes for a call. *number: of what it answers, or -1.
Ref call_row(Tracer& t, const GraphCall& call, GraphNumbers* numbers, int* number);

}  // namespace kintsugi
