// Reductions in the order that reference.h fixes: the machine code folds one block of elements into the partials, the
// rest (joining partials and blocks, dividing) is the reference's own code. One element of output at a time.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/cpu_walk.h"
#include "kernels/reference.h"

namespace kintsugi {
namespace {

constexpr int kMaxElement = 8;

// Copies rows of strided elements to contiguous memory, going on where the last call ended.
class Packer {
 public:
  Packer(const KernelSpec& spec, const Dims& dims) : spec_(spec), dims_(dims) {
    for (size_t n = 0; n < spec.inputs.size(); ++n) {
      bool varies = spec.inputs[n].access != Access::kUniform;
      for (int d = 0; d < dims.rank; ++d) varies |= dims.strides[d][n] != 0;
      if (spec.inputs[n].is_number || !varies) continue;
      buffers_[n].reset(new char[kReductionBlock * info(spec.inputs[n].dtype).bytes]);
    }
  }

  void start(char* const* pointers) {
    std::fill_n(at_, dims_.rank, 0);
    std::copy_n(pointers, spec_.inputs.size(), pointers_);
  }
  void next_block(int64_t count, KernelBlock* block) {
    const int last = dims_.rank - 1;
    for (int64_t done = 0; done < count;) {
      const int64_t run = std::min(count - done, dims_.sizes[last] - at_[last]);
      for (size_t n = 0; n < spec_.inputs.size(); ++n) {
        if (buffers_[n]) copy_run(n, done, run);
      }
      done += run;
      advance(run);
    }
    for (size_t n = 0; n < spec_.inputs.size(); ++n) {
      if (!buffers_[n]) continue;
      block->operand[n].pointer = buffers_[n].get();
      block->stride[n] = static_cast<int64_t>(info(spec_.inputs[n].dtype).bytes);
    }
  }

 private:
  template <typename T>
  static void copy_elements(char* to, const char* from, int64_t stride, int64_t count) {
    for (int64_t k = 0; k < count; ++k) std::memcpy(to + k * sizeof(T), from + k * stride, sizeof(T));
  }
  void copy_run(size_t n, int64_t done, int64_t run) {
    const int64_t stride = dims_.strides[dims_.rank - 1][n];
    const size_t bytes = info(spec_.inputs[n].dtype).bytes;
    char* to = buffers_[n].get() + done * bytes;
    if (bytes == 1) copy_elements<uint8_t>(to, pointers_[n], stride, run);
    if (bytes == 4) copy_elements<uint32_t>(to, pointers_[n], stride, run);
    if (bytes == 8) copy_elements<uint64_t>(to, pointers_[n], stride, run);
  }
  void advance(int64_t run) {
    for (int d = dims_.rank - 1; d >= 0; --d) {
      at_[d] += run;
      for (size_t n = 0; n < spec_.inputs.size(); ++n) pointers_[n] += dims_.strides[d][n] * run;
      if (at_[d] < dims_.sizes[d] || d == 0) return;
      for (size_t n = 0; n < spec_.inputs.size(); ++n) pointers_[n] -= dims_.strides[d][n] * at_[d];
      at_[d] = 0;
      run = 1;
    }
  }

  const KernelSpec& spec_;
  const Dims& dims_;
  std::unique_ptr<char[]> buffers_[kMaxKernelOperands];
  char* pointers_[kMaxKernelOperands];
  int64_t at_[kMaxRank + 1];
};

// The partials as they start, and as finish_partials() wants them: bools are masks of the lane width in scratch.
struct Partials {
  Op op;
  DType dtype;
  size_t lane_bytes;
  alignas(64) char start[kReductionPartials * kMaxElement];

  Partials(const MachineKernel& kernel) : op(kernel.spec.outputs[0].reduction), dtype(kernel.spec.outputs[0].dtype) {
    const bool is_bool = dtype == DType::k_bool;
    lane_bytes = is_bool ? kernel.lane_bytes : info(dtype).bytes;
    uint64_t identity = 0;
    write_identity(op, dtype, &identity);
    if (is_bool && identity != 0) identity = ~uint64_t{0};
    if (lane_bytes == sizeof(uint32_t)) {
      std::fill_n(reinterpret_cast<uint32_t*>(start), kReductionPartials, static_cast<uint32_t>(identity));
    } else {
      std::fill_n(reinterpret_cast<uint64_t*>(start), kReductionPartials, identity);
    }
  }
  void reset(char* partials) const { std::memcpy(partials, start, kReductionPartials * lane_bytes); }
  void finish(char* partials, char* element) const {
    if (dtype == DType::k_bool) {
      for (int n = 0; n < kReductionPartials; ++n) partials[n] = partials[n * lane_bytes] & 1;
    }
    finish_partials(op, dtype, partials);
    std::memcpy(element, partials, info(dtype).bytes);
  }
};

// Elements in order, each moved into the place of partial 0 for its call.
void fold_one_by_one(const MachineKernel& kernel, int64_t count, size_t lane_bytes, KernelBlock* block) {
  block->count = 1;
  for (int64_t k = 0; k < count; ++k) {
    char* partial = block->scratch + k % kReductionPartials * lane_bytes;
    std::swap_ranges(partial, partial + (k % kReductionPartials ? lane_bytes : 0), block->scratch);
    kernel.inner(block);
    std::swap_ranges(partial, partial + (k % kReductionPartials ? lane_bytes : 0), block->scratch);
    for (size_t n = 0; n < kernel.spec.inputs.size(); ++n) {
      if (!kernel.spec.inputs[n].is_number) block->operand[n].pointer += block->stride[n];
    }
  }
}

}  // namespace

uint64_t run_reduction(const MachineKernel& kernel, const Walk& walk, KernelBlock* block, char** pointers) {
  const KernelSpec& spec = kernel.spec;
  const size_t inputs = spec.inputs.size();
  const Dims& folded = walk.folded;
  const int last = folded.rank - 1;
  const Partials partials(kernel);
  const size_t bytes = info(partials.dtype).bytes;
  const bool packs = folded.rank > 1;
  std::unique_ptr<Packer> packer(packs ? new Packer(spec, folded) : nullptr);

  int64_t count = 1;
  for (int d = 0; d < folded.rank; ++d) count *= folded.sizes[d];
  const int64_t block_count = std::max<int64_t>(1, (count + kReductionBlock - 1) / kReductionBlock);
  char one_block[kMaxElement];
  std::unique_ptr<char[]> many_blocks(block_count > 1 ? new char[block_count * bytes] : nullptr);
  char* const blocks = block_count > 1 ? many_blocks.get() : one_block;

  Odometer odometer(walk.kept, /*inner=*/0);
  do {
    if (packs) packer->start(pointers);
    for (size_t n = 0; n < inputs; ++n) {
      if (!spec.inputs[n].is_number) block->operand[n].pointer = pointers[n];
      block->stride[n] = folded.strides[last][n];
    }
    for (int64_t b = 0; b < block_count; ++b) {
      partials.reset(block->scratch);
      const int64_t in_block = std::min(kReductionBlock, count - b * kReductionBlock);
      block->count = in_block;
      if (packs) {
        packer->next_block(in_block, block);
      } else if (b > 0 && !walk.one_by_one) {
        for (size_t n = 0; n < inputs; ++n) {
          if (!spec.inputs[n].is_number) block->operand[n].pointer += kReductionBlock * block->stride[n];
        }
      }
      if (walk.one_by_one) {
        fold_one_by_one(kernel, in_block, partials.lane_bytes, block);
      } else {
        kernel.inner(block);
      }
      partials.finish(block->scratch, blocks + b * bytes);
    }
    if (block_count > 1) combine_blocks(partials.op, partials.dtype, blocks, block_count);
    if (partials.op == Op::k_mean) divide_by_count(partials.dtype, blocks, count);
    std::memcpy(pointers[walk.operands - 1], blocks, bytes);
  } while (odometer.next(pointers, walk.operands));
  return block->fault;
}

}  // namespace kintsugi
