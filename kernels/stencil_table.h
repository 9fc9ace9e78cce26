// What build_stencils.py writes and cpu.cpp reads: machine code of every stencil, its holes, and which stencil serves
// which (family, key, dtype, position). One table per instruction set and group width.
#pragma once
#include <cstdint>
#include <span>

#include "kernels/ops.h"

namespace kintsugi {

enum class HoleSymbol : uint8_t {
  kNext,      // the stencil copied behind this one
  kLoop,      // first stencil of the main body
  kTail,      // the test before the tail
  kOperand,   // offset of KernelBlock::operand[n]
  kStride,    // offset of KernelBlock::stride[n]
  kSlot,      // offset in scratch
  kConstant,  // the kernel's copy of a constant
};
struct StencilHole {
  uint16_t offset;  // in the stencil's code, four bytes
  HoleSymbol symbol;
  uint8_t relative;  // to its own address
  int32_t addend;
  uint16_t constant;
};
struct Stencil {
  uint32_t code;  // offset in StencilTable::code
  uint16_t bytes;
  uint32_t hole;
  uint16_t holes;
};
enum class Family : uint8_t {
  k_op,       // key: Op, dtype: compute
  k_convert,  // key: source dtype, dtype: target
  k_load,     // key: Access, or 3 for a number
  k_load_tail,
  k_store,
  k_store_tail,
  k_slot_load,  // key: 4
  k_slot_store,
  k_reduce,  // key: Op, folds register 0 into the accumulator in scratch
  k_reduce_tail,
  k_loop,  // key: LoopPart
  kCount,
};
enum class LoopPart : uint8_t { k_entry, k_next, k_tail_test, k_leave };
struct StencilRow {
  Family family;
  uint16_t key;
  uint8_t dtype;
  uint8_t position;  // logical register
  uint16_t stencil;
};
inline constexpr int kMaxConstantAlign = 64;
struct StencilConstant {
  uint32_t offset;
  uint16_t bytes;
  uint16_t align;
};
struct StencilTable {
  const char* set;
  int width;       // bits of a lane
  int tile;        // elements
  int tile_bytes;  // of a value as wide as the group
  const uint8_t* code;
  const StencilHole* holes;
  std::span<const Stencil> stencils;
  std::span<const StencilRow> rows;
  const uint8_t* data;
  std::span<const StencilConstant> constants;
};
std::span<const StencilTable> stencil_tables();

}  // namespace kintsugi
