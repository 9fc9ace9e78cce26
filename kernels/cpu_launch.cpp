// Runs kernels over index spaces of any strides: the machine code takes the innermost dim, the rest is walked here.
#include <algorithm>
#include <cstring>

#include "kernels/cpu_walk.h"

namespace kintsugi {
namespace {

// Appends a dim, or merges it into the last one when every operand steps over both evenly.
void append_dim(Dims* dims, int64_t size, const int64_t* strides, int operands) {
  if (dims->rank > 0) {
    const int last = dims->rank - 1;
    bool even = true;
    for (int n = 0; n < operands; ++n) even &= dims->strides[last][n] == strides[n] * size;
    if (even) {
      dims->sizes[last] *= size;
      std::copy_n(strides, operands, dims->strides[last]);
      return;
    }
  }
  dims->sizes[dims->rank] = size;
  std::copy_n(strides, operands, dims->strides[dims->rank]);
  ++dims->rank;
}

void ensure_inner(Dims* dims, int operands) {
  if (dims->rank > 0) return;
  dims->rank = 1;
  dims->sizes[0] = 1;
  std::fill_n(dims->strides[0], operands, 0);
}

}  // namespace

Walk make_walk(bool reduces, const Shape& space, uint32_t reduced_dims, std::span<const Layout* const> layouts) {
  Walk walk;
  walk.operands = static_cast<int>(std::min<size_t>(layouts.size(), kMaxKernelOperands));
  int64_t sizes[kMaxRank], strides[kMaxRank][kMaxKernelOperands];
  int order[kMaxRank], rank = 0;
  for (int d = 0; d < space.rank; ++d) {
    const bool folds = reduces && (reduced_dims >> d & 1) != 0;
    if (space.sizes[d] == 0 && !folds) walk.empty = true;
    sizes[d] = space.sizes[d];
    if (sizes[d] == 1) continue;
    order[rank++] = d;
    for (int n = 0; n < walk.operands; ++n) {
      strides[d][n] = 0;
      if (layouts[n] == nullptr) continue;
      const Layout& layout = *layouts[n];
      int own = d - (space.rank - layout.rank);
      if (reduces && n == walk.operands - 1 && layout.rank != space.rank) {
        own = d - __builtin_popcount(reduced_dims & ((1u << d) - 1));
        if (folds) own = -1;
      }
      if (own < 0 || layout.sizes[own] == 1) continue;
      strides[d][n] = layout.strides[own] * static_cast<int64_t>(info(layout.dtype).bytes);
    }
  }
  if (!reduces) {
    // Any order gives the same result, the output's own is the fastest. Insertion sort: stable, few dims.
    const int output = walk.operands - 1;
    for (int n = 1; n < rank; ++n) {
      for (int m = n; m > 0 && std::abs(strides[order[m]][output]) > std::abs(strides[order[m - 1]][output]); --m) {
        std::swap(order[m], order[m - 1]);
      }
    }
  }
  for (int n = 0; n < rank; ++n) {
    const int d = order[n];
    const bool folds = reduces && (reduced_dims >> d & 1) != 0;
    append_dim(folds ? &walk.folded : &walk.kept, sizes[d], strides[d], walk.operands);
  }
  ensure_inner(reduces ? &walk.folded : &walk.kept, walk.operands);
  return walk;
}

Access access_of(int64_t stride, int64_t size, DType dtype) {
  if (size <= 1 || stride == static_cast<int64_t>(info(dtype).bytes)) return Access::kContiguous;
  return stride == 0 ? Access::kUniform : Access::kStrided;
}

// A strided kernel takes any stride. An input folded over several dims is packed first (cpu_reduce.cpp), which makes it
// contiguous: a uniform one must then be uniform over all of them.
bool accesses_fit(const KernelSpec& spec, const Walk& walk) {
  const bool reduces = spec.outputs[0].reduces;
  const Dims& dims = walk.inner_dims(reduces);
  const int last = dims.rank - 1;
  for (int n = 0; n < walk.operands; ++n) {
    const bool is_input = n < static_cast<int>(spec.inputs.size());
    if (is_input && spec.inputs[n].is_number) continue;
    if (!is_input && reduces) continue;
    const int output = n - static_cast<int>(spec.inputs.size());
    const Access access = is_input ? spec.inputs[n].access : spec.outputs[output].access;
    const DType dtype = is_input ? spec.inputs[n].dtype : spec.outputs[output].dtype;
    if (access == Access::kStrided || dims.sizes[last] <= 1) continue;
    if (access == Access::kContiguous && reduces && dims.rank > 1) continue;
    if (access != access_of(dims.strides[last][n], dims.sizes[last], dtype)) return false;
    if (access == Access::kUniform && reduces) {
      for (int d = 0; d < last; ++d) {
        if (dims.strides[d][n] != 0) return false;
      }
    }
  }
  return true;
}

void choose_accesses(KernelSpec* spec, const Shape& space, uint32_t reduced_dims,
                     std::span<const Layout* const> layouts) {
  const bool reduces = spec->outputs[0].reduces;
  const Walk walk = make_walk(reduces, space, reduced_dims, layouts);
  const Dims& dims = walk.inner_dims(reduces);
  const int last = dims.rank - 1;
  for (int n = 0; n < walk.operands; ++n) {
    const int output = n - static_cast<int>(spec->inputs.size());
    if (output >= 0) {
      if (reduces) continue;
      Access access = access_of(dims.strides[last][n], dims.sizes[last], spec->outputs[output].dtype);
      spec->outputs[output].access = access == Access::kUniform ? Access::kStrided : access;
      continue;
    }
    KernelInput& input = spec->inputs[n];
    if (input.is_number) continue;
    input.access = access_of(dims.strides[last][n], dims.sizes[last], input.dtype);
    if (reduces && dims.rank > 1) {  // packed, unless it is one element throughout
      bool uniform = true;
      for (int d = 0; d < dims.rank; ++d) uniform &= dims.strides[d][n] == 0;
      input.access = uniform ? Access::kUniform : Access::kContiguous;
    }
  }
}

uint64_t run_elementwise(const MachineKernel& kernel, const Walk& walk, KernelBlock* block, char** pointers) {
  const int last = walk.kept.rank - 1;
  block->count = walk.kept.sizes[last];
  for (int n = 0; n < walk.operands; ++n) block->stride[n] = walk.kept.strides[last][n];
  Odometer odometer(walk.kept, /*inner=*/1);
  const size_t inputs = kernel.spec.inputs.size();
  do {
    for (int n = 0; n < walk.operands; ++n) {
      if (static_cast<size_t>(n) >= inputs || !kernel.spec.inputs[n].is_number) block->operand[n].pointer = pointers[n];
    }
    kernel.inner(block);
  } while (odometer.next(pointers, walk.operands));
  return block->fault;
}

uint64_t run_kernel(const Kernel* base, const Shape& space, uint32_t reduced_dims, std::span<const TensorView> operands,
                    std::span<const KernelBlock::Slot> numbers) {
  const auto& kernel = *static_cast<const MachineKernel*>(base);
  const KernelSpec& spec = kernel.spec;
  const bool reduces = spec.outputs[0].reduces;
  const Layout* layouts[kMaxKernelOperands];
  char* pointers[kMaxKernelOperands];
  KernelBlock block;
  block.fault = 0;
  for (size_t n = 0; n < operands.size(); ++n) {
    const bool is_number = n < spec.inputs.size() && spec.inputs[n].is_number;
    layouts[n] = is_number ? nullptr : operands[n].layout;
    pointers[n] = is_number ? nullptr : operands[n].data;
    if (is_number) block.operand[n] = numbers[n];
  }
  Walk walk = make_walk(reduces, space, reduced_dims, {layouts, operands.size()});
  if (walk.empty) return 0;
  if (!accesses_fit(spec, walk)) {
    // Made for other layouts: run its sibling for these. Without room for one, element by element.
    KernelSpec fitting = spec;
    choose_accesses(&fitting, space, reduced_dims, {layouts, operands.size()});
    OpError error;
    if (Kernel* sibling = acquire_kernel(fitting, &error)) {
      const uint64_t fault = run_kernel(sibling, space, reduced_dims, operands, numbers);
      release_kernel(sibling);
      return fault;
    }
    walk.one_by_one = true;
    if (!reduces) {
      walk.kept.sizes[walk.kept.rank] = 1;
      std::fill_n(walk.kept.strides[walk.kept.rank++], walk.operands, 0);
    }
  }
  Scratch scratch(kernel.scratch_bytes);
  block.scratch = scratch.get();
  return reduces ? run_reduction(kernel, walk, &block, pointers) : run_elementwise(kernel, walk, &block, pointers);
}

}  // namespace kintsugi
