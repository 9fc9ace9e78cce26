// The tensor operations of one trace, functional, beside the ordered records of everything else. The tracer appends;
// fuse.cpp turns it into a plan's steps: groups of element-wise nodes become kernels, placed where the first consumer
// needs them.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "jit/plan.h"

namespace kintsugi {

class Uses;

struct NodeOperand {
  ValueId value = kNoValue;  // tensor or unboxed word; kNoValue: the constant below
  bool is_number = false;
  DType dtype = DType::k_float32;  // of the tensor; bool, int64 or float64 for numbers
  int64_t i64 = 0;                 // constant number, bool and int
  double f64 = 0;                  // constant number, float
  Layout* layout = nullptr;        // of a tensor; held by the trace
  bool dynamic = false;
};

struct Node {
  Op op;
  ValueId value;  // of the result
  std::vector<NodeOperand> operands;
  Attributes attributes;
  DType compute;
  Layout* layout;  // of the result; when dynamic right in dtype and rank only
  bool dynamic = false;
  bool may_raise = false;  // integer division: a fault leaves through on_fail
  ExitId on_fail = kNoExit;
};

struct Record {       // in program order
  int32_t node = -1;  // or:
  Step step;
};

struct Trace {
  Plan plan;  // everything but steps and kernels
  std::vector<Node> nodes;
  std::vector<Record> records;
  ExitId entry_exit = kNoExit;  // before anything happened: the interpreter runs it all
};

// Has a place in a fused kernel: the others run by themselves, as eager code does, and leave through on_fail.
bool is_fusable(const Node& node);
std::string to_text(const Node& node);
// Fills plan.steps, kernels, groups and ops from the records. `fuse` false: one node, one kernel.
void fuse(Trace* trace, bool fuse);
// Its last part, in owned.cpp. unlocks: steps that may let other threads run.
void assign_owned(Plan* plan, Uses* uses, const std::function<bool(const Step&)>& unlocks);

}  // namespace kintsugi
