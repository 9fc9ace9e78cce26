// What every stencil file shares: tile types, the register file, the signature. A stencil is one extern "C" function
// that works on one tile and ends in a jump to kn_next; build_stencils.py cuts its machine code out of the object
// file, cpu.cpp copies it and fills the holes. Holes are extern symbols: their *address* is the number patched in.
//
// Compiled once per instruction set and group width. KN_WIDTH is the lane width in bits (32 or 64), KN_VECTOR the
// vector size in bytes (16 or 32). A stencil may call nothing; the extractor refuses any relocation it does not know.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/reference.h"
#include "kernels/stencils/bodies.h"

namespace kintsugi::stencil {

#define KN_INLINE static inline __attribute__((always_inline))

inline constexpr int kTile = 2 * KN_VECTOR * 8 / KN_WIDTH;  // elements that one pass works on
typedef float Register __attribute__((ext_vector_type(KN_VECTOR / 4)));

// A tile of T: two registers when T is as wide as the group, one when it is half as wide (32 bits in a 64-bit group).
template <typename T>
struct TileOf {
  typedef T type __attribute__((ext_vector_type(kTile)));
};
template <typename T>
using Tile = typename TileOf<T>::type;

#if KN_WIDTH == 32
using MaskLane = int32_t;
#else
using MaskLane = int64_t;
#endif

// C++ types of the dtypes: in memory, and as a lane in registers. Bool is a full mask of the group's lane width.
template <DType>
struct Lane;
template <>
struct Lane<DType::k_bool> {
  using Memory = uint8_t;
  using Type = MaskLane;
};
template <>
struct Lane<DType::k_int32> {
  using Memory = int32_t;
  using Type = int32_t;
};
template <>
struct Lane<DType::k_int64> {
  using Memory = int64_t;
  using Type = int64_t;
};
template <>
struct Lane<DType::k_float32> {
  using Memory = float;
  using Type = float;
};
template <>
struct Lane<DType::k_float64> {
  using Memory = double;
  using Type = double;
};
template <DType D>
using TileFor = Tile<typename Lane<D>::Type>;

// The four logical registers of two vectors each, as the calling convention passes them.
struct Registers {
  Register vector[8];
};
template <int K, DType D>
KN_INLINE TileFor<D> get(const Registers& registers) {
  TileFor<D> tile;
  __builtin_memcpy(&tile, &registers.vector[2 * K], sizeof tile);
  return tile;
}
template <int K, typename V>
KN_INLINE void put(Registers& registers, const V& tile) {
  static_assert(sizeof(V) <= 2 * KN_VECTOR);
  __builtin_memcpy(&registers.vector[2 * K], &tile, sizeof tile);
}

// lane < n, as a mask of V's width.
template <typename V>
KN_INLINE MaskOf<V> first_of(int64_t n) {
  MaskOf<V> iota;
#pragma unroll
  for (int lane = 0; lane < kLanesOf<V>; ++lane) iota[lane] = lane;
  return iota < static_cast<ElementOf<MaskOf<V>>>(n);
}
template <typename T>
KN_INLINE MaskOf<Tile<T>> first_lanes(int64_t n) {
  return first_of<Tile<T>>(n);
}

#define KN_PARAMETERS                                                                                               \
  KernelBlock *base, int64_t i, Register r0a, Register r0b, Register r1a, Register r1b, Register r2a, Register r2b, \
      Register r3a, Register r3b

extern "C" {
void kn_next(KN_PARAMETERS);  // the stencil that follows
void kn_loop(KN_PARAMETERS);  // first stencil of the main body
void kn_tail(KN_PARAMETERS);  // the test before the tail
// Numbers that patching supplies: byte offsets from the block, and of a tile slot or accumulator in scratch.
extern char kn_operand[], kn_stride[], kn_slot[];
}

// The address of a hole as a displacement: clang folds base + hole into one addressing mode.
#define KN_HOLE(symbol) reinterpret_cast<intptr_t>(symbol)
#define KN_OPERAND (*reinterpret_cast<KernelBlock::Slot*>(reinterpret_cast<char*>(base) + KN_HOLE(kn_operand)))
#define KN_STRIDE (*reinterpret_cast<int64_t*>(reinterpret_cast<char*>(base) + KN_HOLE(kn_stride)))
#define KN_SLOT (base->scratch + KN_HOLE(kn_slot))

#define KN_JUMP(target)                                                                                             \
  __attribute__((musttail)) return target(base, i, r.vector[0], r.vector[1], r.vector[2], r.vector[3], r.vector[4], \
                                          r.vector[5], r.vector[6], r.vector[7])
#define KN_STENCIL(name, ...)                              \
  extern "C" void name(KN_PARAMETERS) {                    \
    Registers r{{r0a, r0b, r1a, r1b, r2a, r2b, r3a, r3b}}; \
    __VA_ARGS__;                                           \
    KN_JUMP(kn_next);                                      \
  }
// One stencil per logical register that the result may land in.
#define KN_AT_EACH_POSITION(M, ...) M(0, __VA_ARGS__) M(1, __VA_ARGS__) M(2, __VA_ARGS__) M(3, __VA_ARGS__)

// The dtypes that a group of this width can hold.
#if KN_WIDTH == 32
#define KN_EACH_DTYPE(M, ...) M(bool, __VA_ARGS__) M(int32, __VA_ARGS__) M(float32, __VA_ARGS__)
#else
#define KN_EACH_DTYPE(M, ...) \
  M(bool, __VA_ARGS__) M(int32, __VA_ARGS__) M(float32, __VA_ARGS__) M(int64, __VA_ARGS__) M(float64, __VA_ARGS__)
#endif

}  // namespace kintsugi::stencil
