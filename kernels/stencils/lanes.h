// One way to write arithmetic for a C++ scalar (gcc or clang: the reference) and for a clang vector of any length (the
// stencils). Comparisons of vectors give integer lanes of all ones or zeros, of scalars bool; `&`, `|`, `^` and
// select() work on both. Everything here is exact and calls nothing. Compile with -ffp-contract=off and -fwrapv.
#pragma once
#include <cstdint>
#include <type_traits>

#if defined(__clang__) && defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kintsugi {

#define KN_BODY static inline __attribute__((always_inline))

template <typename V>
inline constexpr bool kIsScalar = std::is_arithmetic_v<V>;

template <typename V, bool = kIsScalar<V>>
struct LaneFacts {
  using Element = V;
  static constexpr int kCount = 1;
  template <typename E>
  using With = E;
  using Mask = bool;
};

#ifdef __clang__
template <typename E, int kLanes>
struct VectorOf {
  typedef E Type __attribute__((ext_vector_type(kLanes)));
};
template <typename V>
struct LaneFacts<V, false> {
  using Element = std::remove_cvref_t<decltype(V{}[0])>;
  static constexpr int kCount = sizeof(V) / sizeof(Element);
  template <typename E>
  using With = typename VectorOf<E, kCount>::Type;
  using Mask = With<std::conditional_t<sizeof(Element) == 4, int32_t, int64_t>>;
};
#endif

template <typename V>
using ElementOf = typename LaneFacts<V>::Element;
template <typename V>
inline constexpr int kLanesOf = LaneFacts<V>::kCount;
template <typename V, typename E>
using WithElement = typename LaneFacts<V>::template With<E>;  // as many lanes of E
template <typename V>
using MaskOf = typename LaneFacts<V>::Mask;
// Integers of the same width.
template <typename V>
using IntOf = WithElement<V, std::conditional_t<sizeof(ElementOf<V>) == 4, int32_t, int64_t>>;
template <typename V>
using UintOf = WithElement<V, std::conditional_t<sizeof(ElementOf<V>) == 4, uint32_t, uint64_t>>;
template <typename V>
inline constexpr bool kIsFloating = std::is_floating_point_v<ElementOf<V>>;
template <typename V>
inline constexpr bool kIsSingle = std::is_same_v<ElementOf<V>, float>;

template <typename V>
KN_BODY V splat(ElementOf<V> value) {
  return (V)value;
}

template <typename To, typename From>
KN_BODY To bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

// Element by element; of floats to integers only within range (convert_body has the rest).
template <typename E, typename V>
KN_BODY WithElement<V, E> to(const V& from) {
  if constexpr (kIsScalar<V>) {
    return static_cast<E>(from);
  } else {
    return __builtin_convertvector(from, WithElement<V, E>);
  }
}

template <typename V>
KN_BODY V select(MaskOf<V> mask, const V& a, const V& b) {
  return mask ? a : b;
}

template <typename M>
KN_BODY M not_body(const M& mask) {
  if constexpr (kIsScalar<M>) {
    return !mask;
  } else {
    return ~mask;
  }
}

#if defined(__clang__) && defined(__x86_64__)
// In pieces as wide as the machine has; F takes and returns __m128 (or 256) of floats or doubles.
#ifdef __AVX__
inline constexpr int kPieceBytes = 32;
#else
inline constexpr int kPieceBytes = 16;
#endif
#endif

// Whether any lane is true.
template <typename M>
KN_BODY bool any_lane(const M& mask) {
  if constexpr (kIsScalar<M>) {
    return mask;
  } else {
#if defined(__clang__) && defined(__x86_64__)
    int any = 0;
#ifdef __AVX512DQ__
    if constexpr (sizeof(M) % 64 == 0) {  // a comparison's own mask registers, without a way through vectors
      __m512i piece[sizeof(M) / 64];
      __builtin_memcpy(piece, &mask, sizeof mask);
      for (__m512i part : piece) {
        any |= sizeof(ElementOf<M>) == 4 ? _mm512_movepi32_mask(part) : _mm512_movepi64_mask(part);
      }
      return any;
    }
#endif
    if constexpr (sizeof(M) % kPieceBytes == 0) {
#ifdef __AVX__
      __m256 piece[sizeof(M) / kPieceBytes];
      __builtin_memcpy(piece, &mask, sizeof mask);
      for (__m256 part : piece) any |= _mm256_movemask_ps(part);
#else
      __m128 piece[sizeof(M) / kPieceBytes];
      __builtin_memcpy(piece, &mask, sizeof mask);
      for (__m128 part : piece) any |= _mm_movemask_ps(part);
#endif
    } else {
      for (int lane = 0; lane < kLanesOf<M>; lane++) any |= mask[lane] != 0;
    }
    return any;
#endif
  }
}

template <typename V>
KN_BODY V square_root(const V& x) {
  if constexpr (std::is_same_v<V, float>) {
    return __builtin_sqrtf(x);
  } else if constexpr (std::is_same_v<V, double>) {
    return __builtin_sqrt(x);
  } else {
#if defined(__clang__) && defined(__x86_64__)
    V result;
    if constexpr (sizeof(V) % 32 == 0 && kPieceBytes == 32) {
#ifdef __AVX__
      using Piece = std::conditional_t<kIsSingle<V>, __m256, __m256d>;
      Piece pieces[sizeof(V) / 32];
      __builtin_memcpy(pieces, &x, sizeof x);
      for (Piece& piece : pieces) {
        if constexpr (kIsSingle<V>) {
          piece = _mm256_sqrt_ps(piece);
        } else {
          piece = _mm256_sqrt_pd(piece);
        }
      }
      __builtin_memcpy(&result, pieces, sizeof x);
#endif
    } else {
      static_assert(sizeof(V) % 16 == 0);
      using Piece = std::conditional_t<kIsSingle<V>, __m128, __m128d>;
      Piece pieces[sizeof(V) / 16];
      __builtin_memcpy(pieces, &x, sizeof x);
      for (Piece& piece : pieces) {
        if constexpr (kIsSingle<V>) {
          piece = _mm_sqrt_ps(piece);
        } else {
          piece = _mm_sqrt_pd(piece);
        }
      }
      __builtin_memcpy(&result, pieces, sizeof x);
    }
    return result;
#endif
  }
}

// a < b ? a : b, of floats; so b where one is NaN. One instruction, of which clang would make two where the result is
// looked at as an integer too.
template <typename V>
KN_BODY V lesser(const V& a, const V& b) {
  static_assert(kIsSingle<V>);
#if defined(__clang__) && defined(__x86_64__)
  if constexpr (!kIsScalar<V>) {
#if defined(__AVX512F__)
    using Piece = __m512;
    auto least = [](Piece x, Piece y) { return _mm512_min_ps(x, y); };
#elif defined(__AVX__)
    using Piece = __m256;
    auto least = [](Piece x, Piece y) { return _mm256_min_ps(x, y); };
#else
    using Piece = __m128;
    auto least = [](Piece x, Piece y) { return _mm_min_ps(x, y); };
#endif
    static_assert(sizeof(V) % sizeof(Piece) == 0);
    Piece left[sizeof(V) / sizeof(Piece)], right[sizeof(V) / sizeof(Piece)];
    __builtin_memcpy(left, &a, sizeof a);
    __builtin_memcpy(right, &b, sizeof b);
    for (size_t i = 0; i < sizeof(V) / sizeof(Piece); ++i) left[i] = least(left[i], right[i]);
    return bits<V>(left);
  }
#endif
  return select<V>(a < b, a, b);
}

// table[index % 16] in each lane, of floats.
template <typename V>
KN_BODY V look_up(const float (&table)[16], const IntOf<V>& index) {
  static_assert(kIsSingle<V>);
  if constexpr (kIsScalar<V>) {
    return table[index & 15];
  } else {
#if defined(__AVX512F__)
    if constexpr (sizeof(V) % 64 == 0) {
      __m512 entries, pieces[sizeof(V) / 64];
      __m512i indices[sizeof(V) / 64];
      __builtin_memcpy(&entries, table, sizeof entries);
      __builtin_memcpy(indices, &index, sizeof index);
      for (size_t i = 0; i < sizeof(V) / 64; ++i) pieces[i] = _mm512_permutexvar_ps(indices[i], entries);
      return bits<V>(pieces);
    }
#elif defined(__AVX2__)
    if constexpr (sizeof(V) % 32 == 0) {
      __m256 low, high, pieces[sizeof(V) / 32];
      __m256i indices[sizeof(V) / 32];
      __builtin_memcpy(&low, table, sizeof low);
      __builtin_memcpy(&high, table + 8, sizeof high);
      __builtin_memcpy(indices, &index, sizeof index);
      for (size_t i = 0; i < sizeof(V) / 32; ++i) {
        const __m256 is_high = _mm256_castsi256_ps(_mm256_slli_epi32(indices[i], 28));
        pieces[i] = _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, indices[i]),
                                     _mm256_permutevar8x32_ps(high, indices[i]), is_high);
      }
      return bits<V>(pieces);
    }
#endif
#if defined(__x86_64__)
    const float* entries;  // in the kernel's own copy of the table, which lies before its code
    asm("lea %1, %0" : "=r"(entries) : "m"(table));
    V result;
#pragma unroll
    for (int lane = 0; lane < kLanesOf<V>; ++lane) result[lane] = entries[index[lane] & 15];
    return result;
#endif
  }
}

// ---- Floating-point lanes as bits.

template <typename V>
struct FloatFacts {
  static constexpr bool kSingle = kIsSingle<V>;
  using UintElement = ElementOf<UintOf<V>>;
  static constexpr int kMantissaBits = kSingle ? 23 : 52;
  static constexpr int kBias = kSingle ? 127 : 1023;
  static constexpr UintElement kSign = UintElement{1} << (sizeof(UintElement) * 8 - 1);
  static constexpr ElementOf<V> kInfinity = static_cast<ElementOf<V>>(__builtin_inf());
  static constexpr ElementOf<V> kNaN = static_cast<ElementOf<V>>(__builtin_nan(""));
  static constexpr ElementOf<V> kSmallestNormal = kSingle ? 0x1p-126 : 0x1p-1022;
  static constexpr ElementOf<V> kIntegral = kSingle ? 0x1p23 : 0x1p52;     // from here on all values are whole
  static constexpr ElementOf<V> kShifter = kSingle ? 0x1.8p23 : 0x1.8p52;  // x + kShifter rounds x to whole
};

template <typename V>
KN_BODY V magnitude(const V& x) {
  using U = UintOf<V>;
  return bits<V>(bits<U>(x) & ~FloatFacts<V>::kSign);
}

// The magnitude of x (which must not be negative) with the sign of y.
template <typename V>
KN_BODY V with_sign(const V& x, const V& y) {
  using U = UintOf<V>;
  return bits<V>(bits<U>(x) | (bits<U>(y) & FloatFacts<V>::kSign));
}

// 2^n where that is a normal number.
template <typename V>
KN_BODY V power_of_two(const IntOf<V>& n) {
  return bits<V>((n + FloatFacts<V>::kBias) << FloatFacts<V>::kMantissaBits);
}

// Nearest whole number to x, as a float and as an integer. |x| < 2^(mantissa bits - 2).
template <typename V>
KN_BODY V round_small(const V& x, IntOf<V>* whole) {
  using I = IntOf<V>;
  const V shifted = x + FloatFacts<V>::kShifter;
  *whole = bits<I>(shifted) - bits<I>(splat<V>(FloatFacts<V>::kShifter));
  return shifted - FloatFacts<V>::kShifter;
}

// A small integer as a float.
template <typename V>
KN_BODY V from_small(const IntOf<V>& n) {
  using I = IntOf<V>;
  return bits<V>(n + bits<I>(splat<V>(FloatFacts<V>::kShifter))) - FloatFacts<V>::kShifter;
}

// c0 + x * (c1 + x * (...))
template <typename V>
KN_BODY V polynomial(const V&, double c) {
  return splat<V>(static_cast<ElementOf<V>>(c));
}
template <typename V, typename... Coefficients>
KN_BODY V polynomial(const V& x, double c, Coefficients... higher) {
  return static_cast<ElementOf<V>>(c) + x * polynomial(x, higher...);
}

}  // namespace kintsugi
