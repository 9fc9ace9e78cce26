// Kernels alone, without guards, glue or Python: what is left when everything around them is free. Names are
// kernel/elements; assemble and find: how long a kernel takes to be made, or found again. `python -m kintsugi bench`
// takes kernel_ns from mul_add/8; docs/stencils.md has a table of the rest.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstdlib>
#include <vector>

#include "kernels/cpu.h"

namespace kintsugi {
namespace {

// One block of memory, handed out from the front.
class BenchCode : public CodeAllocator {
 public:
  CodeSpan allocate(size_t bytes, const char*) override {
    constexpr size_t kBytes = 1 << 20;
    if (!memory_) {
      void* mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (mapped == MAP_FAILED) return {};
      memory_ = static_cast<uint8_t*>(mapped);
    }
    if (used_ + bytes > kBytes) return {};
    CodeSpan span{memory_ + used_, memory_ + used_};
    used_ += (bytes + 15) / 16 * 16;
    return span;
  }
  void free(CodeSpan span, size_t bytes) override {  // the one that was handed out last
    if (span.write + (bytes + 15) / 16 * 16 == memory_ + used_) used_ = static_cast<size_t>(span.write - memory_);
  }

 private:
  uint8_t* memory_ = nullptr;
  size_t used_ = 0;
};

KernelInstruction f32(Op op, int16_t a, int16_t b = -1) { return {op, DType::k_float32, DType::k_float32, {a, b, -1}}; }

KernelSpec elementwise(int inputs, std::vector<KernelInstruction> body) {
  KernelSpec spec;
  spec.inputs.resize(inputs);
  spec.body = std::move(body);
  spec.outputs.resize(1);
  spec.outputs[0].value = static_cast<int16_t>(inputs + spec.body.size() - 1);
  return spec;
}

KernelSpec sum_spec() {
  KernelSpec spec;
  spec.inputs.resize(1);
  spec.outputs.resize(1);
  spec.outputs[0].reduces = true;
  spec.outputs[0].reduction = Op::k_sum;
  return spec;
}

void run(benchmark::State& state, const KernelSpec& spec) {
  OpError error;
  Kernel* kernel = acquire_kernel(spec, &error);
  if (!kernel) return state.SkipWithError("no kernel");
  int64_t count = state.range(0);
  bool reduces = spec.outputs[0].reduces;
  Layout* layout = intern_contiguous(DType::k_float32, std::vector<int64_t>{count});
  Layout* scalar = intern_contiguous(DType::k_float32, std::vector<int64_t>{});
  std::vector<std::vector<float>> memory(spec.inputs.size() + 1, std::vector<float>(count, 0.75f));
  void* scratch = kernel->scratch_bytes ? std::aligned_alloc(64, (kernel->scratch_bytes + 63) / 64 * 64) : nullptr;
  if (kernel->code && !reduces) {
    KernelBlock block{};
    block.count = count;
    block.scratch = static_cast<char*>(scratch);
    for (size_t i = 0; i < memory.size(); ++i) block.operand[i].pointer = reinterpret_cast<char*>(memory[i].data());
    for (auto _ : state) {
      kernel->code(&block);
      benchmark::ClobberMemory();
    }
  } else {
    std::vector<TensorView> views;
    for (auto& operand : memory) views.push_back({layout, reinterpret_cast<char*>(operand.data())});
    if (reduces) views.back().layout = scalar;
    std::vector<KernelBlock::Slot> numbers(views.size());
    Shape space = shape_of(*layout);
    for (auto _ : state) {
      run_kernel(kernel, space, reduces ? 1 : 0, views, numbers);
      benchmark::ClobberMemory();
    }
  }
  std::free(scratch);
  state.SetItemsProcessed(state.iterations() * count);
  release(layout);
  release(scalar);
  release_kernel(kernel);
}

// (a*b - c + d) * e: made of stencils each time, or found in the cache.
void assemble(benchmark::State& state, bool anew) {
  const KernelSpec spec =
      elementwise(5, {f32(Op::k_mul, 0, 1), f32(Op::k_sub, 5, 2), f32(Op::k_add, 6, 3), f32(Op::k_mul, 7, 4)});
  OpError error;
  Kernel* kept = anew ? nullptr : acquire_kernel(spec, &error);
  for (auto _ : state) {
    Kernel* kernel = acquire_kernel(spec, &error);
    if (!kernel) return state.SkipWithError("no kernel");
    release_kernel(kernel);
  }
  if (kept) release_kernel(kept);
}

void register_all() {
  const struct {
    const char* name;
    KernelSpec spec;
  } kernels[] = {
      {"add", elementwise(2, {f32(Op::k_add, 0, 1)})},
      {"mul_add", elementwise(2, {f32(Op::k_mul, 0, 1), f32(Op::k_add, 2, 0)})},
      {"exp", elementwise(1, {f32(Op::k_exp, 0)})},
      {"sin", elementwise(1, {f32(Op::k_sin, 0)})},
      {"tanh", elementwise(1, {f32(Op::k_tanh, 0)})},
      {"sum", sum_spec()},
  };
  for (const auto& kernel : kernels) {
    benchmark::RegisterBenchmark(kernel.name, [spec = kernel.spec](benchmark::State& state) { run(state, spec); })
        ->Arg(8)
        ->Arg(1000)
        ->Arg(10'000)
        ->Arg(100'000);
  }
  benchmark::RegisterBenchmark("assemble", [](benchmark::State& state) { assemble(state, /*anew=*/true); });
  benchmark::RegisterBenchmark("find", [](benchmark::State& state) { assemble(state, /*anew=*/false); });
}

}  // namespace
}  // namespace kintsugi

int main(int argc, char** argv) {
  static kintsugi::BenchCode code;
  kintsugi::set_code_allocator(&code);
  kintsugi::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
