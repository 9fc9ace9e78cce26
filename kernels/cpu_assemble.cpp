// Copy and patch: a KernelSpec becomes a list of stencils (registers by stack discipline), the list becomes code.
//
//   constants | entry | main body: load.. op.. store.. | next | tail test | the same body, tail loads and stores |
//   leave
//
// A value lives in one of four logical registers. Operand j of an op computed into register k is computed into k + j.
// What is used twice, or would need a fifth register, is computed once at register 0 and kept in a tile slot.
#include "kernels/cpu_assemble.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include "kernels/reference.h"

namespace kintsugi {
namespace {

constexpr int kRegisters = 4;
constexpr int kMaxBody = 4096;
constexpr int kMaxDepth = 64;  // of recursion over operands
constexpr int kKeys = static_cast<int>(Op::kCount);
constexpr uint16_t kNone = 0xFFFF;
constexpr uint16_t kNumberKey = 3, kSlotKey = 4;  // beside Access

// The rows of one stencil table, for direct look-up.
struct StencilIndex {
  const StencilTable* table = nullptr;
  uint16_t at[static_cast<int>(Family::kCount)][kKeys][kDTypeCount][kRegisters];

  explicit StencilIndex(const StencilTable& rows) : table(&rows) {
    std::memset(at, 0xFF, sizeof at);
    for (const StencilRow& row : rows.rows) {
      at[static_cast<int>(row.family)][row.key][row.dtype][row.position] = row.stencil;
    }
  }
  uint16_t find(Family family, int key, DType dtype, int position) const {
    return at[static_cast<int>(family)][key][static_cast<int>(dtype)][position];
  }
};

const StencilTable* find_table(const char* set, int width) {
  for (const StencilTable& table : stencil_tables()) {
    if (std::strcmp(table.set, set) == 0 && table.width == width) return &table;
  }
  std::abort();  // build_stencils.py writes every set in both widths
}
const StencilIndex& stencil_index(int width) {
  static const StencilIndex narrow(*find_table(stencil_set(), 32));
  static const StencilIndex wide(*find_table(stencil_set(), 64));
  return width == 32 ? narrow : wide;
}

// One stencil to copy, and the numbers for its holes.
struct Piece {
  uint16_t stencil;
  uint16_t tail_stencil;  // the same place in the tail
  int16_t operand;        // in KernelBlock
  int32_t slot;           // byte offset in scratch
};

struct Value {
  DType dtype;
  int uses = 0;   // left to be read
  int need = 1;   // registers to compute it
  int depth = 0;  // instructions on the longest way to an input or a kept value
  int slot = -1;  // byte offset, once kept
  bool keep = false;
};

class Assembler {
 public:
  Assembler(MachineKernel* kernel, OpError* error) : kernel_(kernel), spec_(kernel->spec), error_(error) {}
  bool run(CodeAllocator* allocator);

 private:
  void plan_values();
  void evaluate(int value, int k);
  void convert(DType from, DType to, int k);
  void keep(int value);
  void store_outputs();
  void emit(Family family, int key, DType dtype, int k, int operand, int slot);
  void emit_loop(LoopPart part) { emit(Family::k_loop, static_cast<int>(part), DType::k_bool, 0, 0, 0); }
  bool place(CodeAllocator* allocator);
  int take_slot();
  int inputs() const { return static_cast<int>(spec_.inputs.size()); }

  MachineKernel* kernel_;
  const KernelSpec& spec_;
  OpError* error_;
  const StencilIndex* index_ = nullptr;
  std::vector<Value> values_;
  std::vector<int> free_slots_;
  std::vector<Piece> pieces_;  // of the body
  int scratch_ = 0;
  bool failed_ = false;
};

bool is_wide(DType dtype) { return info(dtype).bytes == 8; }

int group_width(const KernelSpec& spec) {
  bool wide = false;
  for (const KernelInput& input : spec.inputs) wide |= is_wide(input.dtype);
  for (const KernelInstruction& instruction : spec.body)
    wide |= is_wide(instruction.dtype) || is_wide(instruction.compute);
  for (const KernelOutput& output : spec.outputs) wide |= is_wide(output.dtype);
  return wide ? 64 : 32;
}

// Dtype in which operand j of an instruction is needed: `where` chooses by a bool.
DType operand_dtype(const KernelInstruction& instruction, int j) {
  return instruction.op == Op::k_where && j == 0 ? DType::k_bool : instruction.compute;
}

void Assembler::emit(Family family, int key, DType dtype, int k, int operand, int slot) {
  const uint16_t stencil = index_->find(family, key, dtype, k);
  uint16_t tail = stencil;
  if (family == Family::k_load || family == Family::k_store || family == Family::k_reduce) {
    tail = index_->find(static_cast<Family>(static_cast<int>(family) + 1), key, dtype, k);
    if (tail == kNone) tail = stencil;  // uniform loads and numbers read no further in the main body either
  }
  if (stencil == kNone) {
    if (!failed_) {
      const bool is_op = family == Family::k_op || family == Family::k_reduce;
      *error_ = {ErrorKind::kType, std::string("no kernel of ") +
                                       (is_op ? info(static_cast<Op>(key)).name : "this access") + " for dtype " +
                                       info(dtype).name};
    }
    failed_ = true;
    return;
  }
  pieces_.push_back({stencil, tail, static_cast<int16_t>(operand), slot});
}

int Assembler::take_slot() {
  if (!free_slots_.empty()) {
    const int slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }
  scratch_ += index_->table->tile_bytes;
  return scratch_ - index_->table->tile_bytes;
}

// Uses of live values, registers needed, and which values go to slots.
void Assembler::plan_values() {
  values_.reserve(spec_.inputs.size() + spec_.body.size());
  pieces_.reserve(3 * values_.capacity());
  for (const KernelInput& input : spec_.inputs) values_.push_back({.dtype = input.dtype});
  for (const KernelInstruction& instruction : spec_.body) values_.push_back({.dtype = instruction.dtype});
  for (const KernelOutput& output : spec_.outputs) ++values_[output.value].uses;
  for (int v = static_cast<int>(values_.size()) - 1; v >= inputs(); --v) {
    if (values_[v].uses == 0) continue;  // dead
    for (int16_t operand : spec_.body[v - inputs()].operands) {
      if (operand >= 0) ++values_[operand].uses;
    }
  }
  for (size_t v = inputs(); v < values_.size(); ++v) values_[v].keep = values_[v].uses > 1;
  if (spec_.outputs.size() > 1) {  // all loads come before the first store: an output may be one of the inputs
    for (const KernelOutput& output : spec_.outputs) values_[output.value].keep = true;
  }
  for (size_t v = inputs(); v < values_.size(); ++v) {
    const KernelInstruction& instruction = spec_.body[v - inputs()];
    auto operand = [&](int j) -> Value& { return values_[instruction.operands[j]]; };
    for (;;) {
      int needs_most = 0, deepest = 0;
      values_[v].need = 1;
      values_[v].depth = 0;
      for (int j = 0; j < 3 && instruction.operands[j] >= 0; ++j) {
        const int need = (operand(j).keep ? 1 : operand(j).need) + j;
        const int depth = (operand(j).keep ? 0 : operand(j).depth) + 1;
        if (need > values_[v].need) values_[v].need = need, needs_most = j;
        if (depth > values_[v].depth) values_[v].depth = depth, deepest = j;
      }
      if (values_[v].need > kRegisters) {
        operand(needs_most).keep = true;
      } else if (values_[v].depth > kMaxDepth) {
        operand(deepest).keep = true;
      } else {
        break;
      }
    }
  }
}

void Assembler::convert(DType from, DType to, int k) {
  if (from != to) emit(Family::k_convert, static_cast<int>(from), to, k, 0, 0);
}

void Assembler::evaluate(int v, int k) {
  Value& value = values_[v];
  if (value.slot >= 0) {
    const bool still_there = k == 0 && !pieces_.empty() && pieces_.back().slot == value.slot &&
                             pieces_.back().stencil == index_->find(Family::k_slot_store, kSlotKey, value.dtype, 0);
    if (!still_there) emit(Family::k_slot_load, kSlotKey, value.dtype, k, 0, value.slot);
    if (--value.uses == 0) free_slots_.push_back(value.slot);
    return;
  }
  if (v < inputs()) {
    const KernelInput& input = spec_.inputs[v];
    emit(Family::k_load, input.is_number ? kNumberKey : static_cast<int>(input.access), input.dtype, k, v, 0);
    return;
  }
  const KernelInstruction& instruction = spec_.body[v - inputs()];
  for (int j = 0; j < 3 && instruction.operands[j] >= 0; ++j) {
    const int operand = instruction.operands[j];
    evaluate(operand, k + j);
    if (instruction.op != Op::k_convert) convert(values_[operand].dtype, operand_dtype(instruction, j), k + j);
  }
  if (instruction.op == Op::k_convert) {
    convert(values_[instruction.operands[0]].dtype, instruction.dtype, k);
  } else {
    emit(Family::k_op, static_cast<int>(instruction.op), instruction.compute, k, 0, 0);
  }
}

void Assembler::keep(int v) {
  evaluate(v, 0);
  values_[v].slot = take_slot();
  emit(Family::k_slot_store, kSlotKey, values_[v].dtype, 0, 0, values_[v].slot);
}

void Assembler::store_outputs() {
  for (size_t n = 0; n < spec_.outputs.size(); ++n) {
    const KernelOutput& output = spec_.outputs[n];
    evaluate(output.value, 0);
    convert(values_[output.value].dtype, output.dtype, 0);
    if (output.reduces) {
      emit(Family::k_reduce, static_cast<int>(output.reduction), output.dtype, 0, 0, /*slot=*/0);
    } else {
      emit(Family::k_store, static_cast<int>(output.access), output.dtype, 0, inputs() + static_cast<int>(n), 0);
    }
  }
}

// Copies 16 bytes at a time; both sides have room for the rest of the last block.
void copy_code(uint8_t* to, const uint8_t* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 16) std::memcpy(to + at, from + at, 16);
}

bool Assembler::place(CodeAllocator* allocator) {
  const StencilTable& table = *index_->table;
  auto loop_part = [&](LoopPart part) {
    return index_->find(Family::k_loop, static_cast<int>(part), DType::k_bool, 0);
  };
  const Piece entry{loop_part(LoopPart::k_entry), 0, 0, 0}, next{loop_part(LoopPart::k_next), 0, 0, 0};
  const Piece tail_test{loop_part(LoopPart::k_tail_test), 0, 0, 0}, leave{loop_part(LoopPart::k_leave), 0, 0, 0};

  std::vector<Piece> all;
  all.reserve(2 * pieces_.size() + 4);
  all.push_back(entry);
  all.insert(all.end(), pieces_.begin(), pieces_.end());
  all.push_back(next);
  const size_t tail_at = all.size();
  all.push_back(tail_test);
  for (Piece piece : pieces_) {
    piece.stencil = piece.tail_stencil;
    all.push_back(piece);
  }
  all.push_back(leave);

  // Each constant once, largest alignment first so that no gaps appear.
  struct Placed {
    uint16_t constant;
    uint32_t offset;
  };
  std::vector<Placed> constants;
  constants.reserve(16);
  size_t code_bytes = 0;
  for (const Piece& piece : all) {
    const Stencil& stencil = table.stencils[piece.stencil];
    code_bytes += stencil.bytes;
    for (int h = 0; h < stencil.holes; ++h) {
      const StencilHole& hole = table.holes[stencil.hole + h];
      if (hole.symbol != HoleSymbol::kConstant) continue;
      bool known = false;
      for (const Placed& placed : constants) known |= placed.constant == hole.constant;
      if (!known) constants.push_back({hole.constant, 0});
    }
  }
  size_t data_bytes = 0;
  for (int align = kMaxConstantAlign; align >= 4; align /= 2) {
    for (Placed& placed : constants) {
      const StencilConstant& constant = table.constants[placed.constant];
      if (constant.align != align) continue;
      placed.offset = static_cast<uint32_t>(data_bytes);
      data_bytes += (constant.bytes + align - 1) / align * align;
    }
  }
  // The loop head starts a 32-byte block; constants are aligned as clang assumed. Spans are 16-byte aligned only.
  const size_t entry_bytes = table.stencils[entry.stencil].bytes;
  const size_t head = (data_bytes + entry_bytes + 31) / 32 * 32;
  const size_t total = head - entry_bytes + code_bytes;
  kernel_->span_bytes =
      (total + kMaxConstantAlign - 16 + 16 + 15) / 16 * 16;  // alignment, and the rest of copy_code's last block
  kernel_->allocator = allocator;
  kernel_->span = allocator->allocate(kernel_->span_bytes, "kintsugi_kernel");
  if (kernel_->span.execute == nullptr) {
    *error_ = {ErrorKind::kMemory, "out of code memory for a kernel of " + std::to_string(total) + " bytes"};
    return false;
  }
  const size_t shift = -reinterpret_cast<uintptr_t>(kernel_->span.execute) % kMaxConstantAlign;
  uint8_t* const write = kernel_->span.write + shift;
  uint8_t* const execute = kernel_->span.execute + shift;
  for (const Placed& placed : constants) {
    const StencilConstant& constant = table.constants[placed.constant];
    std::memcpy(write + placed.offset, table.data + constant.offset, constant.bytes);
  }

  size_t tail_offset = head - entry_bytes;
  for (size_t n = 0; n < tail_at; ++n) tail_offset += table.stencils[all[n].stencil].bytes;
  size_t at = head - entry_bytes;
  for (const Piece& piece : all) {
    const Stencil& stencil = table.stencils[piece.stencil];
    copy_code(write + at, table.code + stencil.code, stencil.bytes);
    for (int h = 0; h < stencil.holes; ++h) {
      const StencilHole& hole = table.holes[stencil.hole + h];
      size_t target = 0;
      switch (hole.symbol) {
        case HoleSymbol::kNext: target = at + stencil.bytes; break;
        case HoleSymbol::kLoop: target = head; break;
        case HoleSymbol::kTail: target = tail_offset; break;
        case HoleSymbol::kOperand: target = offsetof(KernelBlock, operand) + sizeof(int64_t) * piece.operand; break;
        case HoleSymbol::kStride: target = offsetof(KernelBlock, stride) + sizeof(int64_t) * piece.operand; break;
        case HoleSymbol::kSlot: target = piece.slot; break;
        case HoleSymbol::kConstant:
          for (const Placed& placed : constants) {
            if (placed.constant == hole.constant) target = placed.offset;
          }
          break;
      }
      const size_t place = hole.relative ? at + hole.offset : 0;
      const auto patch = static_cast<int32_t>(static_cast<int64_t>(target) + hole.addend - static_cast<int64_t>(place));
      std::memcpy(write + at + hole.offset, &patch, sizeof patch);
    }
    at += stencil.bytes;
  }
  kernel_->code_bytes = total;
  kernel_->inner = reinterpret_cast<void (*)(KernelBlock*)>(execute + head - entry_bytes);
  return true;
}

bool Assembler::run(CodeAllocator* allocator) {
  index_ = &stencil_index(group_width(spec_));
  if (spec_.outputs[0].reduces) scratch_ = kReductionPartials * index_->table->width / 8;  // slots follow
  plan_values();
  for (size_t v = 0; v < values_.size(); ++v) {
    if (values_[v].keep && values_[v].uses > 0) keep(static_cast<int>(v));
  }
  store_outputs();
  if (failed_ || !place(allocator)) return false;
  kernel_->scratch_bytes = scratch_;
  kernel_->lane_bytes = index_->table->width / 8;
  bool flat = !spec_.outputs[0].reduces;
  for (const KernelInput& input : spec_.inputs) flat &= input.is_number || input.access != Access::kStrided;
  for (const KernelOutput& output : spec_.outputs) flat &= output.access == Access::kContiguous;
  kernel_->code = flat ? kernel_->inner : nullptr;
  return true;
}

}  // namespace

bool check_kernel(const KernelSpec& spec, OpError* error) {
  auto fail = [&](const std::string& text) {
    *error = {ErrorKind::kValue, "malformed kernel: " + text};
    return false;
  };
  const size_t inputs = spec.inputs.size();
  if (spec.outputs.empty()) return fail("no output");
  if (inputs + spec.outputs.size() > kMaxKernelOperands) {
    return fail(std::to_string(inputs + spec.outputs.size()) + " operands, at most " +
                std::to_string(kMaxKernelOperands));
  }
  if (spec.body.size() > kMaxBody) return fail("more than " + std::to_string(kMaxBody) + " instructions");
  for (size_t n = 0; n < spec.body.size(); ++n) {
    const KernelInstruction& instruction = spec.body[n];
    const OpInfo& row = info(instruction.op);
    if (row.op_class != OpClass::kElementwise) return fail(std::string(row.name) + " is not element-wise");
    for (int j = 0; j < 3; ++j) {
      const int operand = instruction.operands[j];
      const bool valid = j < row.arity ? operand >= 0 && operand < static_cast<int>(inputs + n) : operand == -1;
      if (!valid)
        return fail(std::string(row.name) + " has operand " + std::to_string(operand) + " at " + std::to_string(j));
    }
  }
  for (const KernelOutput& output : spec.outputs) {
    if (output.value < 0 || output.value >= static_cast<int>(inputs + spec.body.size()))
      return fail("output of no value");
    if (output.reduces && spec.outputs.size() > 1) return fail("a reduction must be the only output");
    if (output.reduces && info(output.reduction).op_class != OpClass::kReduction) return fail("no such reduction");
    if (!output.reduces && output.access == Access::kUniform) return fail("an output cannot be uniform");
  }
  return true;
}

bool assemble(MachineKernel* kernel, CodeAllocator* allocator, OpError* error) {
  return Assembler(kernel, error).run(allocator);
}

}  // namespace kintsugi
