// Stencils of the rows of ops.def; build_stencils.py writes one macro call per (row, compute dtype, register).
#pragma once
#include <algorithm>
#include <type_traits>

#include "kernels/stencils/stencil.h"

namespace kintsugi::stencil {

// Masks come from comparisons in the operands' lane width; registers hold them in the group's.
template <typename Target, typename V>
KN_INLINE Target mask_to(const V& mask) {
  if constexpr (std::is_same_v<V, Target>) {
    return mask;
  } else {
    return __builtin_convertvector(mask, Target);
  }
}
// Lanes past the end do not count: what they hold may well be zero by now.
template <typename V>
KN_INLINE void report_zeros(KernelBlock* base, int64_t i, const V& divisor) {
  const auto zero = divisor == 0;
  if (any_lane(zero)) [[unlikely]] {
    const int64_t left = base->count - i;
    if (any_lane(zero & first_of<V>(left < kTile ? left : kTile))) base->fault |= 1;
  }
}
#define KN_NO_CHECK
#define KN_CHECK_ZERO report_zeros(base, i, b);

#define KN_TAKE(variable, k, dtype) const TileFor<DType::k_##dtype> variable = get<k, DType::k_##dtype>(r)
#define KN_OP1(k, name, dtype, check, ...) \
  KN_STENCIL(kn__op__##name##__##dtype##__##k, KN_TAKE(a, k, dtype); put<k, TileFor<DType::k_##dtype>>(r, __VA_ARGS__))
#define KN_OP2(k, name, dtype, check, ...)                                                     \
  KN_STENCIL(kn__op__##name##__##dtype##__##k, KN_TAKE(a, k, dtype); KN_TAKE(b, k + 1, dtype); \
             check put<k, TileFor<DType::k_##dtype>>(r, __VA_ARGS__))
#define KN_COMPARE(k, name, dtype, check, ...)                                                 \
  KN_STENCIL(kn__op__##name##__##dtype##__##k, KN_TAKE(a, k, dtype); KN_TAKE(b, k + 1, dtype); \
             put<k>(r, mask_to<TileFor<DType::k_bool>>(__VA_ARGS__)))
// a chooses: a bool beside operands of any dtype.
#define KN_CHOOSE(k, name, dtype, check, ...)                                                      \
  KN_STENCIL(kn__op__##name##__##dtype##__##k, KN_TAKE(b, k + 1, dtype); KN_TAKE(c, k + 2, dtype); \
             const auto a = mask_to<Tile<MaskFor<DType::k_##dtype>>>(get<k, DType::k_bool>(r));    \
             put<k>(r, __VA_ARGS__))

template <DType D>
using MaskFor = std::conditional_t<sizeof(typename Lane<D>::Type) == 4, int32_t, int64_t>;

#define KN_CONVERT(k, source, target)                  \
  KN_STENCIL(kn__convert__##source##__##target##__##k, \
             put<k>(r, convert_tile<DType::k_##source, DType::k_##target>(get<k, DType::k_##source>(r))))
template <DType From, DType To>
KN_INLINE TileFor<To> convert_tile(const TileFor<From>& a) {
  if constexpr (From == DType::k_bool) {
    return __builtin_convertvector(a & 1, TileFor<To>);
  } else if constexpr (To == DType::k_bool) {
    return mask_to<TileFor<To>>(a != 0);
  } else {
    return convert_body<TileFor<To>>(a);
  }
}

// A reduction folds element i into partial i mod 16; the 16 partials lie in scratch. A tile is at most 16 lanes of
// them, or two rows of 16 folded one after the other.
inline constexpr int kFoldLanes = std::min(kTile, kReductionPartials);
template <typename T>
using Partials = typename VectorOf<T, kFoldLanes>::Type;
template <typename T, typename F>
KN_INLINE void fold_tile(char* slot, int64_t i, const Tile<T>& tile, int64_t count, F fold) {
  using P = Partials<T>;
  const int64_t first = i & (kReductionPartials - kFoldLanes);  // i is a multiple of kTile
  auto* partial = reinterpret_cast<P*>(slot + first * int64_t{sizeof(T)});
  P rows[kTile / kFoldLanes];
  __builtin_memcpy(rows, &tile, sizeof tile);
#pragma unroll
  for (int row = 0; row < kTile / kFoldLanes; ++row) {
    const P folded = fold(*partial, rows[row]);
    if (count >= kTile) {
      *partial = folded;
    } else {
      *partial = first_of<P>(count - row * kFoldLanes) ? folded : *partial;
    }
  }
}
#define KN_FOLD_AS(family, count, name, dtype, ...)                                          \
  KN_STENCIL(kn__##family##__##name##__##dtype##__0, using T = Lane<DType::k_##dtype>::Type; \
             fold_tile<T>(KN_SLOT, i, get<0, DType::k_##dtype>(r), count,                    \
                          [](const Partials<T>& a, const Partials<T>& b) -> Partials<T> { return __VA_ARGS__; }))
#define KN_FOLD(name, dtype, ...)                     \
  KN_FOLD_AS(reduce, kTile, name, dtype, __VA_ARGS__) \
  KN_FOLD_AS(reduce_tail, base->count - i, name, dtype, __VA_ARGS__)

}  // namespace kintsugi::stencil
