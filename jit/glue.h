// From a plan to native code: guards, then glue between kernels, then exits. The code calls nothing by name: helpers
// come from one table, so that a plan also runs where there is no Python (tests/unit/plan_test.cpp supplies its own
// table).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "guards/object_facts.h"
#include "jit/codemem.h"
#include "jit/plan.h"

namespace kintsugi {

struct NativeState;
using StepHelper = int (*)(NativeState*, const Step*);  // negative: leave through on_fail

struct HelperTable {
  StepHelper step[static_cast<int>(StepKind::kCount)];  // by kind; null for those that are native
  void* (*tensor_new)(const Layout*);                   // new reference, null with an exception set
  // A native guard did not hold: 1 it does hold after all, 0 it does not. Of ~guard: it and all after it.
  int (*guard_slow)(NativeState*, int guard);
  void (*release)(void* object);  // drop one reference
  // A kernel that moves more than kLargeKernelBytes: keep its buffers, release the lock, run_kernel_step(), take the
  // lock. Answers the fault bits. Null: run_kernel_step() is called directly.
  uint64_t (*run_large)(NativeState*, const Step*, KernelBlock*);
};
inline constexpr int64_t kLargeKernelBytes = 256 * 1024;
bool is_large(const KernelCall& call, int64_t elements);

// What emitted code runs over. The driver keeps it on its own stack.
struct NativeState {
  void* const* slots;  // PyObject*: read by guards; null entries are unbound
  void* function;      // PyFunctionObject*
  uint64_t* values;    // value_count words
  const HelperTable* helpers;
  const struct SegmentCode* segment;
  void* result;          // kReturn: an owned object when the result was moved out in native code. Null before the call
  int32_t missed_guard;  // index, when entry() answered kMissed; only if asked for (name_missed_guards)
};
inline constexpr int32_t kMissed = -1;

// A piece of a segment's code, for disassembly. Named only when somebody asks: emission has no time for text.
struct CodePart {
  enum class Kind : uint8_t { kEnter, kGuard, kBody, kStep, kExit, kStubs };
  uint32_t offset = 0;
  Kind kind = Kind::kEnter;
  int32_t index = 0;  // of the guard, step or exit
};

// The code of one segment. Owns its kernels and its code memory. `plan` and `bindings` stay valid beside it; emitted
// code points into plan.steps, caches and spaces.
struct SegmentCode {
  Plan plan;
  std::vector<void*> bindings;     // by ConstantId: objects, layouts, pointers; null where the constant is by value
  std::vector<GuardCache> caches;  // by guard index
  std::vector<Kernel*> kernels;    // by kernels index
  std::vector<Shape> spaces;       // by kernels index: the index space
  std::vector<CodePart> parts;     // in order of offset
  int32_t (*entry)(NativeState*) = nullptr;  // guards then body; answers an ExitId, or kMissed
  int32_t (*body)(NativeState*) =
      nullptr;  // after guards that were checked elsewhere: the values they load are filled in
  CodeSpan span;
  size_t code_bytes = 0;
};
inline GuardProgram guard_program(SegmentCode& code) {
  return {code.plan.guards, code.plan.constants, code.plan.sources, code.bindings, code.caches};
}
inline GuardInput guard_input(const NativeState& state) { return {state.slots, state.function, state.values}; }

// `caches` come from record_caches() of guards/check.h, run while the guards hold; empty: every dict guard is slow.
// Null with *error set when there is no code memory left or a kernel cannot be made (an ordered failure):
// ErrorKind::kMemory, or ErrorKind::kRuntime for a plan that is not legal.
//
// An exit of kind kReturn whose recipe is a value, a constant or a box of a truth leaves with NativeState::result
// holding a reference and all other owned values released. Every other exit leaves them to the driver.
SegmentCode* emit_segment(Plan plan, std::vector<void*> bindings, std::vector<GuardCache> caches, OpError* error);
// Takes what is given; on failure all of it is there again.
SegmentCode* emit_segment(Plan* plan, std::vector<void*>* bindings, std::vector<GuardCache>* caches, OpError* error);
void free_segment(SegmentCode* code);
std::string disassemble(const SegmentCode& code);  // through Zydis, each part named

// Runs kernels[step->index] with the values of step->list. block: as glue filled it for a flat kernel; null: not flat.
// Answers the fault bits.
uint64_t run_kernel_step(NativeState* state, const Step* step, KernelBlock* block);

}  // namespace kintsugi
