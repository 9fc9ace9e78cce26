// The index space of one launch: which dims are walked outside, which one the machine code runs over.
#pragma once
#include "kernels/cpu_assemble.h"

namespace kintsugi {

// A list of dims, outermost first, with every operand's stride in bytes.
struct Dims {
  int rank = 0;
  int64_t sizes[kMaxRank + 1];
  int64_t strides[kMaxRank + 1][kMaxKernelOperands];
};
struct Walk {
  int operands = 0;
  bool empty = false;       // no result at all
  bool one_by_one = false;  // the kernel's accesses do not fit: every element is a call of its own
  Dims kept;                // of an element-wise kernel the last one is the inner loop
  Dims folded;              // of a reduction, in row-major order; the last one is the inner loop
  const Dims& inner_dims(bool reduces) const { return reduces ? folded : kept; }
};
// Dims of size 1 are left out, neighbours that all operands cross evenly are merged. layouts: inputs (null for
// numbers), then outputs; a reduction's output may have its folded dims as 1 or not at all. There is always an inner
// dim, of size 1 if need be.
Walk make_walk(bool reduces, const Shape& space, uint32_t reduced_dims, std::span<const Layout* const> layouts);

// The access that a stride along the inner dim means.
Access access_of(int64_t stride, int64_t size, DType dtype);
bool accesses_fit(const KernelSpec& spec, const Walk& walk);

// Advances pointers over all of dims but the last `inner` ones; false after the last step.
struct Odometer {
  const Dims& dims;
  int outer;
  int64_t at[kMaxRank + 1] = {};
  Odometer(const Dims& all, int inner) : dims(all), outer(all.rank - inner) {}
  bool next(char** pointers, int operands) {
    for (int d = outer - 1; d >= 0; --d) {
      if (++at[d] < dims.sizes[d]) {
        for (int n = 0; n < operands; ++n) pointers[n] += dims.strides[d][n];
        return true;
      }
      for (int n = 0; n < operands; ++n) pointers[n] -= dims.strides[d][n] * (dims.sizes[d] - 1);
      at[d] = 0;
    }
    return false;
  }
};

// Memory for a kernel's tile slots: on the stack up to a size, else from the heap.
class Scratch {
 public:
  explicit Scratch(size_t bytes) : heap_(bytes > sizeof stack_ ? new (std::align_val_t{64}) char[bytes] : nullptr) {}
  ~Scratch() { ::operator delete[](heap_, std::align_val_t{64}); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  char* get() { return heap_ != nullptr ? heap_ : stack_; }

 private:
  alignas(64) char stack_[2048];
  char* heap_;
};

uint64_t run_elementwise(const MachineKernel& kernel, const Walk& walk, KernelBlock* block, char** pointers);
uint64_t run_reduction(const MachineKernel& kernel, const Walk& walk, KernelBlock* block, char** pointers);

}  // namespace kintsugi
