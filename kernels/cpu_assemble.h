// Between cpu.cpp (cache), cpu_launch.cpp (running) and cpu_assemble.cpp (code): a kernel with what its users do not
// see.
#pragma once
#include <atomic>

#include "kernels/cpu.h"
#include "kernels/stencil_table.h"

namespace kintsugi {

struct MachineKernel : Kernel {
  std::atomic<int64_t> users{1};
  uint64_t hash = 0;
  CodeAllocator* allocator = nullptr;  // that gave span
  CodeSpan span;
  size_t span_bytes = 0;
  size_t lane_bytes = 0;  // of a value as wide as the group, and of a bool
  // The loop over count elements, of any kernel. A reduction folds into kReductionPartials partials at the start of
  // scratch.
  void (*inner)(KernelBlock*) = nullptr;
};

// Whether spec is well formed; *error says what is not.
bool check_kernel(const KernelSpec& spec, OpError* error);
// Fills everything of kernel from kernel->spec, which is well formed. kMemory when the allocator has no room.
bool assemble(MachineKernel* kernel, CodeAllocator* allocator, OpError* error);

}  // namespace kintsugi
