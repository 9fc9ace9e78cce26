// CPU kernels by copy-and-patch: a fused group (KernelSpec, plain data) becomes one piece of machine code made of
// stencils, cached by its text. Eager tensors run one-node groups, compiled functions fused ones: same bodies, same
// bits.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops.h"

namespace kintsugi {

// Where machine code goes. jit/codemem.h implements it; tests may use their own.
struct CodeSpan {
  uint8_t* write = nullptr;    // writable view
  uint8_t* execute = nullptr;  // the same bytes, executable view; null: no memory
};
class CodeAllocator {
 public:
  virtual ~CodeAllocator() = default;
  virtual CodeSpan allocate(size_t bytes, const char* name) = 0;  // 16-byte aligned
  virtual void free(CodeSpan span, size_t bytes) = 0;
};

// How an operand's elements lie along the innermost (flattened) loop.
enum class Access : uint8_t { kContiguous, kUniform /* one element for all */, kStrided };

struct KernelInput {
  bool is_number = false;  // a scalar in the argument block (int64 or double by dtype), else memory
  DType dtype = DType::k_float32;
  Access access = Access::kContiguous;
  bool operator==(const KernelInput&) const = default;
};
// One value. Operands index values: inputs first, then instructions in order.
struct KernelInstruction {
  Op op;          // element-wise op, or Op::k_convert
  DType dtype;    // of the result
  DType compute;  // operands have this dtype (where: operand 0 is bool)
  int16_t operands[3] = {-1, -1, -1};
  bool operator==(const KernelInstruction&) const = default;
};
struct KernelOutput {
  int16_t value = 0;
  Access access = Access::kContiguous;
  bool reduces = false;  // value is folded into one element per outer iteration
  Op reduction = Op::kCount;
  DType dtype = DType::k_float32;  // stored, or folded in
  bool operator==(const KernelOutput&) const = default;
};
struct KernelSpec {
  std::vector<KernelInput> inputs;
  std::vector<KernelInstruction> body;
  std::vector<KernelOutput> outputs;  // stores, or exactly one reduction
  bool operator==(const KernelSpec&) const = default;
};
std::string to_text(const KernelSpec& spec);
bool parse_kernel(const std::string& text, KernelSpec* out, std::string* error);

inline constexpr int kMaxKernelOperands = 16;  // inputs + outputs
// What kernel code reads: base register + fixed offsets. The caller fills it, on the stack.
struct alignas(64) KernelBlock {
  int64_t count;   // elements along the inner loop
  uint64_t fault;  // set to nonzero bits by a body (integer division by zero)
  union Slot {
    char* pointer;
    int64_t i64;
    double f64;
  } operand[kMaxKernelOperands];       // inputs, then outputs
  int64_t stride[kMaxKernelOperands];  // bytes, for Access::kStrided
  char* scratch;                       // kernel->scratch_bytes, 64-byte aligned; null if none
};
struct Kernel {
  void (*code)(KernelBlock*) = nullptr;  // a flat kernel: everything contiguous or uniform, no reduction
  KernelSpec spec;
  size_t code_bytes = 0;
  size_t scratch_bytes = 0;
  uint64_t runs = 0;
};
// Compiles or finds. Null: *error says why (out of code memory: ErrorKind::kMemory). Kernels are counted by their
// users.
Kernel* acquire_kernel(const KernelSpec& spec, OpError* error);
void release_kernel(Kernel* kernel);
void set_code_allocator(CodeAllocator* allocator);

// Memory operand as callers hold it.
struct TensorView {
  const Layout* layout;
  char* data;
};
// Runs a kernel over an n-dimensional index space of any strides: operands[i] is input i (tensor: view; number:
// ignored, taken from numbers[i]) followed by outputs. For a reduction kernel `reduced` are the dims folded. Returns
// the fault bits.
uint64_t run_kernel(const Kernel* kernel, const Shape& space, uint32_t reduced_dims,
                    std::span<const TensorView> operands, std::span<const KernelBlock::Slot> numbers);
// Fills accesses of spec for these operand layouts broadcast over space (collapsing dims where possible).
void choose_accesses(KernelSpec* spec, const Shape& space, uint32_t reduced_dims,
                     std::span<const Layout* const> layouts);

// Any op on real memory, as eager code runs it (one-node groups, reductions, products, creation, movement). out is
// allocated with the layout that infer() gave. numbers[i] holds operand i when it is a number. False: *error.
struct OperandValue {
  bool is_number = false;
  TensorView view{};
  DType number_dtype = DType::k_int64;
  KernelBlock::Slot number{};
};
bool run_op(Op op, std::span<const OperandValue> operands, const Attributes& attributes, TensorView out,
            OpError* error);
// out = in (converts dtype, any layouts, may overlap: behaves as if through a temporary).
bool copy_into(TensorView in, TensorView out, OpError* error);
bool views_overlap(TensorView a, TensorView b);  // address ranges meet

// The best of these that the CPU has, or the lower one that KINTSUGI_ISA names.
inline constexpr const char* kStencilSets[] = {"x86-64-v1", "x86-64-v3", "x86-64-v4"};
const char* stencil_set();

}  // namespace kintsugi
