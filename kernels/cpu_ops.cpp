// Any op on real memory, as eager code runs it. Element-wise ops are one-node kernels found through a small table per
// thread; what has no kernel (creation, argmax) and what finds no code memory is done by the reference, with equal
// bits.
#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/buffers.h"
#include "kernels/cpu_products.h"
#include "kernels/cpu_walk.h"
#include "kernels/reference.h"

namespace kintsugi {
namespace {

constexpr int kMaxArity = 3;
using Slot = KernelBlock::Slot;

// A one-node group. key tells everything that its code depends on.
struct Node {
  Op op;
  DType compute;
  DType result;
  int arity = 0;
  KernelInput inputs[kMaxArity];
  Access output = Access::kContiguous;

  uint64_t key() const {
    uint64_t bits = uint64_t(op) << 8 | uint64_t(compute) << 4 | uint64_t(result);
    for (int n = 0; n < arity; ++n) {
      bits = bits << 8 | 0x80 | uint64_t{inputs[n].is_number} << 6 | uint64_t(inputs[n].access) << 4 |
             uint64_t(inputs[n].dtype);
    }
    return bits << 2 | uint64_t(output);
  }
  KernelSpec spec() const {
    KernelSpec spec;
    spec.inputs.assign(inputs, inputs + arity);
    KernelOutput stored{.value = 0, .access = output, .dtype = result};
    if (info(op).op_class == OpClass::kReduction) {
      stored.reduces = true;
      stored.reduction = op;
      stored.access = Access::kContiguous;
    } else if (op != Op::k_full) {  // full stores its number
      KernelInstruction instruction{.op = op, .dtype = result, .compute = compute};
      for (int n = 0; n < arity; ++n) instruction.operands[n] = static_cast<int16_t>(n);
      stored.value = static_cast<int16_t>(arity);
      spec.body.push_back(instruction);
    }
    spec.outputs.push_back(stored);
    return spec;
  }
};

// Kernels that this thread used lately. Each place holds a reference.
class NodeTable {
 public:
  ~NodeTable() { clear(); }
  const MachineKernel* find(const Node& node, OpError* error) {
    const uint64_t key = node.key();
    // A few places for each key, the latest first: operations that alternate must not put each other out.
    Place* places = &places_[(key * 0x9E3779B97F4A7C15u) >> (64 - kBits) << kWayBits];
    for (int way = 0; way < kWays; ++way) {
      if (places[way].key != key || places[way].kernel == nullptr) continue;
      if (way != 0) std::swap(places[0], places[way]);
      return static_cast<const MachineKernel*>(places[0].kernel);
    }
    Kernel* kernel = acquire_kernel(node.spec(), error);
    if (kernel == nullptr && error->kind == ErrorKind::kMemory) {  // what we hold may be all there is
      clear();
      kernel = acquire_kernel(node.spec(), error);
    }
    if (kernel == nullptr) return nullptr;
    if (places[kWays - 1].kernel != nullptr) release_kernel(places[kWays - 1].kernel);
    std::move_backward(places, places + kWays - 1, places + kWays);
    places[0] = {key, kernel};
    return static_cast<const MachineKernel*>(kernel);
  }

 private:
  static constexpr int kBits = 7, kWayBits = 2, kWays = 1 << kWayBits, kPlaces = kWays << kBits;
  struct Place {
    uint64_t key = 0;
    Kernel* kernel = nullptr;
  };
  void clear() {
    for (int i = 0; i < kPlaces; ++i) {
      Place& place = places_[i];
      if (place.kernel != nullptr) release_kernel(place.kernel);
      place = {};
    }
  }
  std::unique_ptr<Place[]> places_ = std::make_unique<Place[]>(kPlaces);  // thread-local room in a library is scarce
};
thread_local NodeTable node_table;

bool is_floating(DType dtype) { return info(dtype).kind == DTypeKind::kFloatingKind; }

// A number in the form that kernels of dtype read: double for floating ones, else int64.
Slot number_for(const OperandValue& operand, DType dtype) {
  Slot slot = operand.number;
  const bool is_double = is_floating(operand.number_dtype);
  if (is_floating(dtype) && !is_double) slot.f64 = static_cast<double>(operand.number.i64);
  if (!is_floating(dtype) && is_double) slot.i64 = static_cast<int64_t>(operand.number.f64);
  if (dtype == DType::k_bool && is_double) slot.i64 = operand.number.f64 != 0;
  return slot;
}

DType compute_dtype(Op op, std::span<const OperandValue> operands, DType result) {
  switch (info(op).dtype_rule) {
    case DTypeRule::kLogical: return DType::k_bool;
    case DTypeRule::kConvert: return operands[0].is_number ? operands[0].number_dtype : operands[0].view.layout->dtype;
    case DTypeRule::kCompare: break;
    default: return result;
  }
  Operand facts[kMaxArity];
  for (size_t n = 0; n < operands.size(); ++n) {
    facts[n].is_number = operands[n].is_number;
    facts[n].dtype = operands[n].is_number ? operands[n].number_dtype : operands[n].view.layout->dtype;
    if (!operands[n].is_number) facts[n].shape.rank = operands[n].view.layout->rank;  // sizes do not matter
  }
  return result_dtype({facts, operands.size()});
}

bool same_place(TensorView a, TensorView b) { return a.data == b.data && a.layout == b.layout; }

// All of one size and row major: one loop over all elements.
bool is_flat(std::span<const OperandValue> operands, TensorView out) {
  const Layout& result = *out.layout;
  if (!result.contiguous) return false;
  for (const OperandValue& operand : operands) {
    if (operand.is_number || operand.view.layout == &result) continue;
    const Layout& layout = *operand.view.layout;
    if (!layout.contiguous || layout.rank != result.rank) return false;
    if (!std::equal(layout.sizes, layout.sizes + layout.rank, result.sizes)) return false;
  }
  return true;
}

bool division_error(OpError* error) {
  *error = {ErrorKind::kZeroDivision, "integer division or modulo by zero"};
  return false;
}

bool run_elementwise_op(Op op, std::span<const OperandValue> operands, TensorView out, OpError* error) {
  if (out.layout->count == 0) return true;
  Node node{.op = op, .compute = compute_dtype(op, operands, out.layout->dtype), .result = out.layout->dtype};
  node.arity = static_cast<int>(operands.size());
  KernelBlock block;
  block.fault = 0;
  char* pointers[kMaxArity + 1];
  const Layout* layouts[kMaxArity + 1];
  for (int n = 0; n < node.arity; ++n) {
    KernelInput& input = node.inputs[n];
    input.is_number = operands[n].is_number;
    if (input.is_number) {
      input.dtype = op == Op::k_where && n == 0 ? DType::k_bool : node.compute;
      block.operand[n] = number_for(operands[n], input.dtype);
      layouts[n] = nullptr;
      pointers[n] = nullptr;
    } else {
      input.dtype = operands[n].view.layout->dtype;
      layouts[n] = operands[n].view.layout;
      pointers[n] = block.operand[n].pointer = operands[n].view.data;
    }
  }
  layouts[node.arity] = out.layout;
  pointers[node.arity] = block.operand[node.arity].pointer = out.data;

  Walk walk;
  const bool flat = is_flat(operands, out);
  if (flat) {
    block.count = out.layout->count;
  } else {
    walk = make_walk(/*reduces=*/false, shape_of(*out.layout), 0, {layouts, static_cast<size_t>(node.arity) + 1});
    const int last = walk.kept.rank - 1;
    for (int n = 0; n < node.arity; ++n) {
      if (layouts[n] == nullptr) continue;
      node.inputs[n].access = access_of(walk.kept.strides[last][n], walk.kept.sizes[last], node.inputs[n].dtype);
    }
    node.output = access_of(walk.kept.strides[last][node.arity], walk.kept.sizes[last], node.result);
    if (node.output == Access::kUniform) node.output = Access::kStrided;
  }
  const MachineKernel* kernel = node_table.find(node, error);
  if (kernel == nullptr) return false;
  Scratch scratch(kernel->scratch_bytes);
  block.scratch = scratch.get();
  if (flat) {
    kernel->inner(&block);
  } else {
    run_elementwise(*kernel, walk, &block, pointers);
  }
  return block.fault == 0 || division_error(error);
}

bool run_reduction_op(Op op, const OperandValue& operand, const Attributes& attributes, TensorView out,
                      OpError* error) {
  if (operand.is_number || op == Op::k_argmax || op == Op::k_argmin)
    return run_reference(op, {&operand, 1}, attributes, out, error);
  const DType compute = out.layout->dtype;
  const Layout& layout = *operand.view.layout;
  const Layout* layouts[2] = {&layout, out.layout};
  char* pointers[2] = {operand.view.data, out.data};
  const Walk walk = make_walk(/*reduces=*/true, shape_of(layout), folded_dims(op, layout.rank, attributes), layouts);
  if (walk.empty) return true;
  Node node{.op = op, .compute = compute, .result = compute, .arity = 1};
  const int last = walk.folded.rank - 1;
  node.inputs[0].dtype = layout.dtype;
  if (last == 0) node.inputs[0].access = access_of(walk.folded.strides[0][0], walk.folded.sizes[0], layout.dtype);
  const MachineKernel* kernel = node_table.find(node, error);
  if (kernel == nullptr) return false;
  KernelBlock block;
  block.fault = 0;
  Scratch scratch(kernel->scratch_bytes);
  block.scratch = scratch.get();
  run_reduction(*kernel, walk, &block, pointers);
  return true;
}

// The part of out that one operand of cat or stack fills, then a copy into it.
bool join(Op op, std::span<const OperandValue> operands, const Attributes& attributes, TensorView out, OpError* error) {
  const int rank = out.layout->rank;
  const int dim = attributes.dim < 0 ? attributes.dim + rank : attributes.dim;
  int64_t at = 0;
  for (const OperandValue& operand : operands) {
    if (operand.is_number) return run_reference(op, operands, attributes, out, error);
    Shape part = shape_of(*out.layout);
    int64_t offset = 0;
    bool valid = true;
    if (op == Op::k_stack) {
      valid = select_dim(&part, &offset, dim, at++, error);
    } else {
      const Shape shape = shape_of(*operand.view.layout);
      if (is_skipped_by_cat(shape)) continue;
      valid = slice_dim(&part, &offset, dim, at, at + shape.sizes[dim], 1, error);
      at += shape.sizes[dim];
    }
    if (!valid) return false;
    Layout* layout = intern_layout(out.layout->dtype, part);
    const TensorView target{layout, out.data + offset * static_cast<int64_t>(info(out.layout->dtype).bytes)};
    const bool copied = copy_into(operand.view, target, error);
    release(layout);
    if (!copied) return false;
  }
  return true;
}

// One value everywhere: a kernel that stores its number.
bool fill(const Attributes& attributes, TensorView out, OpError* error) {
  OperandValue value{.is_number = true};
  const bool floating = is_floating(out.layout->dtype);
  value.number_dtype = floating ? DType::k_float64 : DType::k_int64;
  if (floating) {
    value.number.f64 = attributes.start;
  } else {
    value.number.i64 = attributes.int_start;
  }
  return run_elementwise_op(Op::k_full, {&value, 1}, out, error);
}

bool dispatch(Op op, std::span<const OperandValue> operands, const Attributes& attributes, TensorView out,
              OpError* error) {
  switch (info(op).op_class) {
    case OpClass::kElementwise: return run_elementwise_op(op, operands, out, error);
    case OpClass::kReduction: return run_reduction_op(op, operands[0], attributes, out, error);
    case OpClass::kMatmul: return run_matmul(operands[0].view, operands[1].view, out, error);
    case OpClass::kCreation:
      if (op == Op::k_full) return fill(attributes, out, error);
      return run_reference(op, operands, attributes, out, error);
    case OpClass::kMovement:
      if (op == Op::k_copy) return copy_into(operands[0].view, out, error);
      if (op == Op::k_gather || op == Op::k_index) return run_reference(op, operands, attributes, out, error);
      return join(op, operands, attributes, out, error);
    case OpClass::kScan: return run_reference(op, operands, attributes, out, error);
  }
  return false;
}

// Fresh row-major memory like view.
struct Temporary {
  Layout* layout;
  Buffer* buffer;
  explicit Temporary(TensorView like)
      : layout(intern_contiguous(like.layout->dtype, {like.layout->sizes, size_t{like.layout->rank}})),
        buffer(allocate_buffer(layout->count * info(layout->dtype).bytes)) {}
  ~Temporary() {
    if (buffer != nullptr) release(buffer);
    release(layout);
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  TensorView view() const { return {layout, buffer->data}; }
};
bool no_memory(TensorView out, OpError* error) {
  const size_t bytes = out.layout->count * info(out.layout->dtype).bytes;
  *error = {ErrorKind::kMemory, "out of memory for a temporary of " + std::to_string(bytes) + " bytes"};
  return false;
}

}  // namespace

bool run_op(Op op, std::span<const OperandValue> operands, const Attributes& attributes, TensorView out,
            OpError* error) {
  // out may be an operand (element by element is then safe, unless a fault must leave it as it was), or share memory in
  // another way (never safe).
  bool overlaps = false, needs_temporary = false;
  for (const OperandValue& operand : operands) {
    if (operand.is_number || !views_overlap(operand.view, out)) continue;
    const bool in_place = info(op).op_class == OpClass::kElementwise && same_place(operand.view, out) &&
                          !(info(op).may_raise && !is_floating(out.layout->dtype)) && !out.layout->overlaps_itself;
    overlaps = true;
    needs_temporary |= !in_place && op != Op::k_copy;
  }
  OpError problem;
  if (!needs_temporary) {
    if (dispatch(op, operands, attributes, out, &problem)) return true;
    const bool no_code = problem.kind == ErrorKind::kMemory;
    if (no_code && !overlaps) return run_reference(op, operands, attributes, out, error);
    if (!no_code) {
      *error = std::move(problem);
      return false;
    }
  }
  const Temporary temporary(out);
  if (temporary.buffer == nullptr) return no_memory(out, error);
  return run_op(op, operands, attributes, temporary.view(), error) && copy_into(temporary.view(), out, error);
}

bool copy_into(TensorView in, TensorView out, OpError* error) {
  if (out.layout->count == 0) return true;
  if (in.layout == out.layout && in.layout->contiguous) {
    std::memmove(out.data, in.data, out.layout->count * info(out.layout->dtype).bytes);
    return true;
  }
  if (views_overlap(in, out)) {
    if (same_place(in, out)) return true;
    const Temporary temporary(in);
    if (temporary.buffer == nullptr) return no_memory(in, error);
    return copy_into(in, temporary.view(), error) && copy_into(temporary.view(), out, error);
  }
  const OperandValue operand{.view = in};
  OpError problem;
  if (run_elementwise_op(Op::k_convert, {&operand, 1}, out, &problem)) return true;
  if (problem.kind == ErrorKind::kMemory) {
    Attributes attributes;
    attributes.has_dtype = true;
    attributes.dtype = out.layout->dtype;
    return run_reference(Op::k_convert, {&operand, 1}, attributes, out, error);
  }
  *error = std::move(problem);
  return false;
}

bool views_overlap(TensorView a, TensorView b) {
  if (a.layout->count == 0 || b.layout->count == 0) return false;
  auto range = [](TensorView view, const char** low, const char** high) {
    const auto bytes = static_cast<int64_t>(info(view.layout->dtype).bytes);
    *low = view.data + view.layout->low * bytes;
    *high = view.data + view.layout->high * bytes;
  };
  const char *low_a, *high_a, *low_b, *high_b;
  range(a, &low_a, &high_a);
  range(b, &low_b, &high_b);
  return low_a < high_b && low_b < high_a;
}

}  // namespace kintsugi
