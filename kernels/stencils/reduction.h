// Argument reductions of bodies.h: an angle to quarter turns and a rest, and the exact remainder of a division. Each
// has a short path that serves nearly every argument, and a loop over single lanes in integers for the others, entered
// only if some lane needs it.
#pragma once
#include "kernels/stencils/lanes.h"

namespace kintsugi {

// The 192 bits of 2 / pi from bit `position` (0: first after the point; down to -64) on. The table is written by
// instructions: stencils cannot point to memory other than single constants.
KN_BODY void two_over_pi(int position, uint64_t window[3]) {
  uint64_t table[20];
  table[0] = 0;
  table[1] = 0xa2f9836e4e441529u;
  table[2] = 0xfc2757d1f534ddc0u;
  table[3] = 0xdb6295993c439041u;
  table[4] = 0xfe5163abdebbc561u;
  table[5] = 0xb7246e3a424dd2e0u;
  table[6] = 0x06492eea09d1921cu;
  table[7] = 0xfe1deb1cb129a73eu;
  table[8] = 0xe88235f52ebb4484u;
  table[9] = 0xe99c7026b45f7e41u;
  table[10] = 0x3991d639835339f4u;
  table[11] = 0x9c845f8bbdf9283bu;
  table[12] = 0x1ff897ffde05980fu;
  table[13] = 0xef2f118b5a0a6d1fu;
  table[14] = 0x6d367ecf27cb09b7u;
  table[15] = 0x4f463f669e5fea2du;
  table[16] = 0x7527bac7ebe5f17bu;
  table[17] = 0x3d0739f78a5292eau;
  table[18] = 0x6bfb5fb11f8d5d08u;
  table[19] = 0x56033046fc7b6babu;
  const int first = (position + 64) >> 6, shift = (position + 64) & 63;
  for (int i = 0; i < 3; i++) {
    window[i] = table[first + i] << shift | table[first + i + 1] >> 1 >> (63 - shift);
  }
}

// Any finite |x| >= 2^19: x = n pi/2 + high + low with |high| <= pi/4, n modulo 4 (Payne and Hanek).
KN_BODY void reduce_far(double x, int64_t* n, double* high, double* low) {
  const uint64_t word = bits<uint64_t>(x);
  const int exponent = static_cast<int>(word >> 52 & 0x7ff) - 1075;
  const uint64_t mantissa = (word & 0xfffffffffffffu) | 0x10000000000000u;
  // Bits of 2/pi worth 4 or more after the product do not count: x 2/pi = product 2^-190 modulo 4.
  uint64_t window[3];
  two_over_pi(exponent - 2, window);
  const unsigned __int128 last = (unsigned __int128)mantissa * window[2];
  const unsigned __int128 middle = (unsigned __int128)mantissa * window[1] + (uint64_t)(last >> 64);
  const uint64_t top = mantissa * window[0] + (uint64_t)(middle >> 64);
  const uint64_t second = (uint64_t)middle, third = (uint64_t)last;

  int64_t turns = (int64_t)((top >> 62) + (top >> 61 & 1));
  unsigned __int128 rest = (unsigned __int128)(top << 2 | second >> 62) << 64 | (second << 2 | third >> 62);
  bool negative = (int64_t)(rest >> 64) < 0;
  if (negative) rest = -rest;
  // rest 2^-128 is in [0, 1/2]. No double is so near a multiple of pi/2 that its upper half were zero.
  const int zeros = __builtin_clzll((uint64_t)(rest >> 64) | 1);
  const unsigned __int128 product = (unsigned __int128)(uint64_t)(rest << zeros >> 64) * 0xc90fdaa22168c235u;
  const uint64_t upper = (uint64_t)(product >> 64);  // pi/2 rest = upper 2^(-63 - zeros)
  const uint64_t kept = upper & ~uint64_t{0x7ff};
  const uint64_t left = (upper & 0x7ff) << 42 | (uint64_t)product >> 22;
  if (negative != (word >> 63 != 0)) {
    *high = -(double)(int64_t)(kept >> 11);
    *low = -(double)(int64_t)left;
  } else {
    *high = (double)(int64_t)(kept >> 11);
    *low = (double)(int64_t)left;
  }
  const double unit = bits<double>((uint64_t)(1023 - 52 - zeros) << 52);
  *high *= unit;
  *low *= unit * 0x1p-53;
  *n = word >> 63 ? -turns : turns;
}

// x = n pi/2 + high + low, |high| about pi/4 at most; n modulo 4 in its low bits. V has double lanes.
template <typename V>
KN_BODY void reduce_quarter_turns(const V& x, IntOf<V>* n, V* high, V* low) {
  const V whole = round_small<V>(x * 0x1.45f306dc9c883p-1, n);
  const V first = x - whole * 0x1.921fb544p+0;  // exact: 33 bits of pi/2 times 20 bits
  // The next 33 bits, and the 33 after them, subtracted with what rounding loses.
  const V second = whole * 0x1.0b4611a6p-34;
  const V a = first - second;
  const V a_back = first - a;
  const V a_lost = (first - (a + a_back)) + (a_back - second);
  const V third = whole * 0x1.3198a2ep-69;
  const V b = a - third;
  const V b_back = a - b;
  const V b_lost = (a - (b + b_back)) + (b_back - third);
  const V rest = (a_lost + b_lost) - whole * 0x1.b839a252049c1p-104;
  *high = b + rest;
  *low = (b - *high) + rest;

  const MaskOf<V> far = (magnitude(x) > 0x1p20) & (magnitude(x) < __builtin_inf());
  if (any_lane(far)) [[unlikely]] {
    double lanes[kLanesOf<V>], highs[kLanesOf<V>], lows[kLanesOf<V>];
    int64_t turns[kLanesOf<V>];
    __builtin_memcpy(lanes, &x, sizeof x);
    __builtin_memcpy(highs, high, sizeof x);
    __builtin_memcpy(lows, low, sizeof x);
    __builtin_memcpy(turns, n, sizeof x);
#pragma GCC unroll 1
    for (int i = 0; i < kLanesOf<V>; i++) {
      const double size = magnitude(lanes[i]);
      if (size > 0x1p20 && size < __builtin_inf()) reduce_far(lanes[i], &turns[i], &highs[i], &lows[i]);
    }
    __builtin_memcpy(high, highs, sizeof x);
    __builtin_memcpy(low, lows, sizeof x);
    __builtin_memcpy(n, turns, sizeof x);
  }
}

// Of sine and cosine of the rest, the one that quarter turn n calls for, with its sign.
template <typename V>
KN_BODY V by_quarter(const IntOf<V>& n, const V& sine, const V& cosine) {
  using I = IntOf<V>;
  constexpr int kTop = sizeof(ElementOf<V>) * 8 - 1;
  const V value = select<V>((n << kTop) < 0, cosine, sine);
  return bits<V>(bits<I>(value) ^ (n >> 1 << kTop));
}

// x mod y for finite x >= y > 0, in integers: long division, eleven bits a step.
KN_BODY double remainder_far(double x, double y) {
  const uint64_t x_bits = bits<uint64_t>(x), y_bits = bits<uint64_t>(y);
  const int x_field = static_cast<int>(x_bits >> 52), y_field = static_cast<int>(y_bits >> 52);
  const uint64_t fraction = 0xfffffffffffffu, hidden = fraction + 1;
  const uint64_t divisor = (y_bits & fraction) | (y_field ? hidden : 0);
  uint64_t rest = ((x_bits & fraction) | (x_field ? hidden : 0)) % divisor;
  const int exponent = y_field ? y_field : 1;
  int steps = (x_field ? x_field : 1) - exponent;
#pragma GCC unroll 1
  while (steps > 0) {
    const int step = steps < 11 ? steps : 11;
    rest = (rest << step) % divisor;
    steps -= step;
  }
  // rest 2^(exponent - 1075): the unit is a power of two, subnormal below field 1.
  const int unit = exponent - 1075 + 1023;
  return (double)(int64_t)rest * bits<double>(unit > 0 ? (uint64_t)unit << 52 : uint64_t{1} << (exponent - 1));
}

// C's fmod but for the sign of zero results, exact. The short path: n = trunc(x / y), x - n y.
template <typename V>
KN_BODY V truncated_remainder(const V& a, const V& b) {
  if constexpr (kIsSingle<V>) {
    return to<float>(truncated_remainder(to<double>(a), to<double>(b)));
  } else {
    using F = FloatFacts<V>;
    const V x = magnitude(a), y = magnitude(b);
    const V quotient = x / y;
    const V near = (quotient + F::kIntegral) - F::kIntegral;
    const V n = near - select<V>(near > quotient, splat<V>(1), splat<V>(0));
    // n y as an exact sum of two (Dekker); the difference is then exact as well.
    const V y_shifted = y * 0x1.0000002p27, n_shifted = n * 0x1.0000002p27;
    const V y_high = y_shifted - (y_shifted - y), n_high = n_shifted - (n_shifted - n);
    const V y_low = y - y_high, n_low = n - n_high;
    const V product = n * y;
    const V lost = ((n_high * y_high - product) + n_high * y_low + n_low * y_high) + n_low * y_low;
    const V rest = (x - product) - lost;
    V result = select<V>(rest < 0, rest + y, rest);  // the quotient had been rounded up to n

    const MaskOf<V> divides = (x >= y) & (y > 0) & (x < F::kInfinity);
    const MaskOf<V> quick = (quotient < 0x1p51) & (x < 0x1p900) & (y > 0x1p-900);
    const MaskOf<V> far = divides & not_body(quick);
    if (any_lane(far)) [[unlikely]] {
      double xs[kLanesOf<V>], ys[kLanesOf<V>], results[kLanesOf<V>];
      __builtin_memcpy(xs, &x, sizeof x);
      __builtin_memcpy(ys, &y, sizeof x);
      __builtin_memcpy(results, &result, sizeof x);
#pragma GCC unroll 1
      for (int i = 0; i < kLanesOf<V>; i++) {
        const bool slow = !(xs[i] / ys[i] < 0x1p51 && xs[i] < 0x1p900 && ys[i] > 0x1p-900);
        if (xs[i] >= ys[i] && ys[i] > 0 && xs[i] < F::kInfinity && slow) results[i] = remainder_far(xs[i], ys[i]);
      }
      __builtin_memcpy(&result, results, sizeof x);
    }
    // Smaller than the divisor: itself. Else 0 / 0, or infinity by anything: NaN.
    result = select<V>(x < y, x, select<V>(divides, result, splat<V>(F::kNaN)));
    return select<V>(a < 0, -result, result);
  }
}

}  // namespace kintsugi
