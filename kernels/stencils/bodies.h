// The bodies of element-wise ops that are more than an operator: what the expressions of ops.def call. Each is written
// once, for a scalar and for a vector (lanes.h), without calls, FMA or reassociation, so that the reference, all
// stencil sets and every tail give the same bits. A branch is taken only to skip work whose result no lane would
// select. Bounds of error: the rows of ops.def; measured by tests/unit/math_test.cpp.
#pragma once
#include "kernels/stencils/lanes.h"
#include "kernels/stencils/reduction.h"

namespace kintsugi {

// ---- Whole numbers, choice.

template <typename V>
KN_BODY V abs_body(const V& a) {
  if constexpr (kIsFloating<V>) {
    return magnitude(a);
  } else {
    return select<V>(a < 0, -a, a);
  }
}

template <typename V>
KN_BODY V sqrt_body(const V& a) {
  return square_root(a);
}

template <typename V>
KN_BODY V relu_body(const V& a) {
  return select<V>(a < 0, splat<V>(0), a);
}

// a != a only for NaN; a NaN in b is taken because no comparison with it holds.
template <typename V>
KN_BODY V maximum_body(const V& a, const V& b) {
  return select<V>((a > b) | (a != a), a, b);
}
template <typename V>
KN_BODY V minimum_body(const V& a, const V& b) {
  return select<V>((a < b) | (a != a), a, b);
}

// To (a scalar or vector type) from a; numbers only. A float outside the integer's range, and NaN, give the smallest
// integer, as the instruction does.
template <typename To, typename V>
KN_BODY To convert_body(const V& a) {
  using E = ElementOf<To>;
  if constexpr (kIsFloating<V> && !kIsFloating<To>) {
    constexpr ElementOf<V> lowest = sizeof(E) == 4 ? -0x1p31 : -0x1p63;
    return to<E>(select<V>((a >= lowest) & (a < -lowest), a, splat<V>(lowest)));
  } else {
    return to<E>(a);
  }
}

// The nearest whole number, the even one of two.
template <typename V>
KN_BODY V round_body(const V& a) {
  if constexpr (!kIsFloating<V>) {
    return a;
  } else {
    using F = FloatFacts<V>;
    const V size = magnitude(a);
    const V nearest = (size + F::kIntegral) - F::kIntegral;
    return select<V>(size < F::kIntegral, with_sign(nearest, a), a);
  }
}

template <typename V>
KN_BODY V trunc_body(const V& a) {
  if constexpr (!kIsFloating<V>) {
    return a;
  } else {
    using F = FloatFacts<V>;
    const V size = magnitude(a);
    const V nearest = (size + F::kIntegral) - F::kIntegral;
    const V below = nearest - select<V>(nearest > size, splat<V>(1), splat<V>(0));
    return select<V>(size < F::kIntegral, with_sign(below, a), a);
  }
}

template <typename V>
KN_BODY V floor_body(const V& a) {
  const V whole = trunc_body(a);
  return whole - select<V>(whole > a, splat<V>(1), splat<V>(0));
}

template <typename V>
KN_BODY V ceil_body(const V& a) {
  return -floor_body<V>(-a);
}

// ---- Division. Integers: b = 0 is reported by the kernel, its lanes give 0 here.

template <typename V>
KN_BODY V truncated_quotient(const V& a, const V& b) {
  if constexpr (sizeof(ElementOf<V>) == 4) {
    // Exact: |a / b| misses a whole number by 1 / |b| at least, far more than the rounding of the quotient.
    return to<int32_t>(to<double>(a) / to<double>(b));
  } else {
    return a / b;
  }
}

template <typename V>
KN_BODY V integer_floor_divide(const V& a, const V& b) {
  const V safe = select<V>((b == 0) | (b == -1), splat<V>(1), b);
  const V quotient = truncated_quotient(a, safe);
  const V rest = a - quotient * safe;
  const V floor = quotient - select<V>((rest != 0) & ((rest ^ safe) < 0), splat<V>(1), splat<V>(0));
  return select<V>(b == 0, splat<V>(0), select<V>(b == -1, -a, floor));
}

// Python's %: the exact remainder of the truncated quotient, moved to the divisor's sign.
template <typename V>
KN_BODY V remainder_body(const V& a, const V& b) {
  if constexpr (kIsFloating<V>) {
    const V rest = truncated_remainder(a, b);
    const V moved = select<V>((rest < 0) ^ (b < 0), rest + b, rest);
    return select<V>(rest == 0, with_sign(splat<V>(0), b), moved);
  } else {
    return select<V>(b == 0, splat<V>(0), a - integer_floor_divide(a, b) * b);
  }
}

// Python's //: from the exact remainder, not from the rounded quotient.
template <typename V>
KN_BODY V floor_divide_body(const V& a, const V& b) {
  if constexpr (kIsFloating<V>) {
    const V rest = truncated_remainder(a, b);
    const V whole = (a - rest) / b;  // nearly whole
    const V lowered = whole - select<V>((rest != 0) & ((rest < 0) ^ (b < 0)), splat<V>(1), splat<V>(0));
    const V floor = floor_body(lowered);
    const V nearest = floor + select<V>(lowered - floor > ElementOf<V>(0.5), splat<V>(1), splat<V>(0));
    const V quotient = a / b;
    const V signed_zero = with_sign(splat<V>(0), quotient);
    return select<V>(b == 0, quotient, select<V>(lowered == 0, signed_zero, nearest));
  } else {
    return integer_floor_divide(a, b);
  }
}

// ---- Shifts. A count below zero or beyond the width moves every bit out.

template <typename V>
KN_BODY V left_shift_body(const V& a, const V& b) {
  constexpr ElementOf<V> last = sizeof(ElementOf<V>) * 8 - 1;
  return select<V>((b & ~last) == 0, a << (b & last), splat<V>(0));
}
template <typename V>
KN_BODY V right_shift_body(const V& a, const V& b) {
  constexpr ElementOf<V> last = sizeof(ElementOf<V>) * 8 - 1;
  return a >> select<V>((b & ~last) == 0, b, splat<V>(last));
}

// ---- Exponential and logarithm.

// x + extra = n ln 2 + r, |r| about 0.35 at most: gives n, the leading part of r, and e^r - 1 without it. Good for |x|
// up to twice the range of exp; extra is far below a unit in the last place of one.
template <typename V>
KN_BODY V exp_parts(const V& x, const V& extra, IntOf<V>* n, V* leading) {
  using E = ElementOf<V>;
  constexpr bool kSingle = kIsSingle<V>;
  const V whole = round_small<V>(x * E(0x1.71547652b82fep+0), n);
  const V high = x - whole * E(kSingle ? 0x1.62e4p-1 : 0x1.62e42fee00000p-1);  // exact: few bits times few bits
  const V low = whole * E(kSingle ? 0x1.7f7d1cf79abcap-20 : 0x1.a39ef35793c76p-33) - extra;
  const V r = high - low;
  V q;
  if constexpr (kSingle) {
    q = polynomial(r, 0.5, 0x1.5554d8p-3, 0x1.555516p-5, 0x1.12106cp-7, 0x1.6d1606p-10);
  } else {
    q = polynomial(r, 0.5, 0x1.5555555555556p-3, 0x1.5555555553b6cp-5, 0x1.1111111110918p-7, 0x1.6c16c1794e1dcp-10,
                   0x1.a01a01a83ba17p-13, 0x1.a019b621f9d08p-16, 0x1.71de0be2b5e96p-19, 0x1.2894f52583578p-22,
                   0x1.af3ce42b12b24p-26);
  }
  *leading = high;
  return r * r * q - low;
}

// x = n ln 2 + r: n and e^r - 1.
template <typename V>
KN_BODY V exp_reduced(const V& x, IntOf<V>* n) {
  V leading;
  const V rest = exp_parts(x, splat<V>(0), n, &leading);
  return leading + rest;
}

template <typename V>
KN_BODY V exp_body(const V& a) {
  using I = IntOf<V>;
  using U = UintOf<V>;
  using E = ElementOf<V>;
  constexpr bool kSingle = kIsSingle<V>;
  constexpr E highest = kSingle ? 89 : 710, lowest = kSingle ? -105 : -746;
  I n;
  if (any_lane(not_body(magnitude(a) < E(kSingle ? 87 : 708)))) [[unlikely]] {
    // 2^n in two factors, for results beyond both ends of the normal range.
    const V x = select<V>(a > highest, splat<V>(highest), select<V>(a < lowest, splat<V>(lowest), a));
    const V mantissa = 1 + exp_reduced(x, &n);
    const I half = bits<I>(bits<U>(n + 2048) >> 1) - 1024;  // n / 2 without a signed shift
    return mantissa * power_of_two<V>(half) * power_of_two<V>(n - half);
  }
  const V mantissa = 1 + exp_reduced(a, &n);
  return bits<V>(bits<I>(mantissa) + (n << FloatFacts<V>::kMantissaBits));
}

// x = 2^k m with m near 1; with s = (m - 1) / (m + 1), log m = 2s + s^3 R(s^2).
template <typename V>
KN_BODY V log_body(const V& a) {
  using F = FloatFacts<V>;
  using I = IntOf<V>;
  using U = UintOf<V>;
  using E = ElementOf<V>;
  const MaskOf<V> subnormal = a < F::kSmallestNormal;
  const V x = select<V>(subnormal, a * E(0x1p54), a);
  // Moved so that the exponent field changes at sqrt(1/2) instead of at 1.
  constexpr auto root = static_cast<ElementOf<U>>(F::kSingle ? 0x3f3504f3 : 0x3fe6a09e667f3bcd);
  constexpr auto one = static_cast<ElementOf<U>>(F::kSingle ? 0x3f800000 : 0x3ff0000000000000);
  const U moved = bits<U>(x) + (one - root);
  const I exponent = bits<I>(moved >> F::kMantissaBits) - F::kBias;
  const V k = from_small<V>(exponent) - select<V>(subnormal, splat<V>(54), splat<V>(0));
  const V m = bits<V>((moved & ((ElementOf<U>(1) << F::kMantissaBits) - 1)) + root);

  const V f = m - 1;
  const V s = f / (2 + f);
  const V z = s * s;
  V r;
  if constexpr (F::kSingle) {
    r = z * polynomial(z, 0x1.555556p-1, 0x1.9999fp-2, 0x1.245a08p-2, 0x1.de4738p-3);
  } else {
    r = z * polynomial(z, 0x1.5555555555558p-1, 0x1.99999999949d0p-2, 0x1.2492492eefe17p-2, 0x1.c71c61a40ddfbp-3,
                       0x1.74630f3e18fa7p-3, 0x1.39f2bba043e06p-3, 0x1.2be6c99b32a48p-3);
  }
  // 2s = f - s f and s f = f^2 / 2 - s f^2 / 2 keep the leading term exact.
  const V half_square = E(0.5) * f * f;
  const V low = k * E(F::kSingle ? 0x1.7f7d1cf79abcap-20 : 0x1.a39ef35793c76p-33);
  const V tail = half_square - (s * (half_square + r) + low);
  const V result = k * E(F::kSingle ? 0x1.62e4p-1 : 0x1.62e42fee00000p-1) - (tail - f);
  return select<V>(a == 0, splat<V>(-F::kInfinity),
                   select<V>(a < 0, splat<V>(F::kNaN), select<V>(a < F::kInfinity, result, a)));
}

// ---- Powers.

// A sum of two, the second at most half a unit in the last place of the first.
template <typename V>
struct Pair {
  V high, low;
};
// |a| >= |b|
template <typename V>
KN_BODY Pair<V> sum_of(const V& a, const V& b) {
  const V high = a + b;
  return {high, b - (high - a)};
}
// The exact product, of what is far from both ends of the range.
template <typename V>
KN_BODY Pair<V> product_of(const V& a, const V& b) {
  using U = UintOf<V>;
  constexpr auto upper = static_cast<ElementOf<U>>(0xfffffffff8000000);
  const V a_high = bits<V>(bits<U>(a) & upper), b_high = bits<V>(bits<U>(b) & upper);
  const V a_low = a - a_high, b_low = b - b_high;
  const V high = a * b;
  return {high, a_low * b_low - (((high - a_high * b_high) - a_low * b_high) - a_high * b_low)};
}
template <typename V>
KN_BODY Pair<V> product_of(const Pair<V>& a, const Pair<V>& b) {
  const Pair<V> leading = product_of(a.high, b.high);
  return sum_of<V>(leading.high, leading.low + (a.high * b.low + a.low * b.high));
}

// The logarithm of a positive number, of double precision, to about 64 bits: 2 (s + s^3 / 3 + s^5 / 5 ...) with
// s = (m - 1) / (m + 1).
template <typename V>
KN_BODY Pair<V> log_pair(const V& a) {
  using F = FloatFacts<V>;
  using I = IntOf<V>;
  using U = UintOf<V>;
  const MaskOf<V> subnormal = a < F::kSmallestNormal;
  const V x = select<V>(subnormal, a * 0x1p54, a);
  constexpr uint64_t root = 0x3fe6a09e667f3bcd, one = 0x3ff0000000000000;  // as in log_body
  const U moved = bits<U>(x) + static_cast<ElementOf<U>>(one - root);
  const I exponent = bits<I>(moved >> F::kMantissaBits) - F::kBias;
  const V k = from_small<V>(exponent) - select<V>(subnormal, splat<V>(54), splat<V>(0));
  const V m = bits<V>((moved & ((ElementOf<U>(1) << F::kMantissaBits) - 1)) + static_cast<ElementOf<U>>(root));

  const V f = m - 1;
  const Pair<V> divisor = sum_of<V>(splat<V>(2), f);
  const V quotient = f / divisor.high;
  const Pair<V> back = product_of(quotient, divisor.high);
  const V rest = ((f - back.high) - back.low) - quotient * divisor.low;
  const Pair<V> s = sum_of<V>(quotient, rest / divisor.high);
  const Pair<V> z = product_of(s, s);
  const V r = polynomial(z.high, 0x1.999999999999ap-3, 0x1.2492492492492p-3, 0x1.c71c71c71c71cp-4, 0x1.745d1745d1746p-4,
                         0x1.3b13b13b13b14p-4, 0x1.1111111111111p-4, 0x1.e1e1e1e1e1e1ep-5, 0x1.af286bca1af28p-5,
                         0x1.8618618618618p-5, 0x1.642c8590b2164p-5);
  const Pair<V> third = sum_of<V>(splat<V>(0x1.5555555555555p-2), z.high * r);
  const Pair<V> factor = {third.high, third.low + (z.low * r + 0x1.5555555555555p-56)};
  const Pair<V> tail = product_of(product_of(s, z), factor);
  const Pair<V> half = sum_of<V>(s.high, tail.high);
  const V half_low = half.low + (s.low + tail.low);
  const V high = k * 0x1.62e42fee00000p-1, low = k * 0x1.a39ef35793c76p-33;  // high: exact
  const V larger = select<V>(k == 0, 2 * half.high, high), smaller = select<V>(k == 0, splat<V>(0), 2 * half.high);
  const Pair<V> sum = sum_of(larger, smaller);
  return sum_of<V>(sum.high, sum.low + (2 * half_low + low));
}

// a to the power b in double precision, as C's pow. Of single precision are the operands: then a plain logarithm is
// exact enough.
template <bool kSingleOperands, typename V>
KN_BODY V pow_double(const V& a, const V& b) {
  using I = IntOf<V>;
  using U = UintOf<V>;
  constexpr double infinity = __builtin_inf();
  const V size = magnitude(a);
  const MaskOf<V> unbounded = (size == 0) | (size == infinity);
  const V x = select<V>(unbounded | (size != size), splat<V>(1), size);
  // A power beyond this is beyond every number, unless of one.
  constexpr double far = 0x1p65;
  const V limited = select<V>(b > far, splat<V>(far), select<V>(b < -far, splat<V>(-far), b));
  Pair<V> y;
  if constexpr (kSingleOperands) {
    y = {limited * log_body(x), splat<V>(0)};
  } else {
    const Pair<V> logarithm = log_pair(x);
    y = product_of(limited, logarithm.high);
    y.low = y.low + limited * logarithm.low;
  }
  const MaskOf<V> outside = magnitude(y.high) > 1000;
  const V clamped = select<V>(outside, with_sign(splat<V>(1000), y.high), y.high);
  const V extra = select<V>(outside, splat<V>(0), y.low);
  I n;
  V leading;
  const V rest = exp_parts(clamped, extra, &n, &leading);
  const Pair<V> mantissa = sum_of<V>(splat<V>(1), leading);
  const I half = bits<I>(bits<U>(n + 4096) >> 1) - 2048;  // n / 2 without a signed shift
  V power = (mantissa.high + (mantissa.low + rest)) * power_of_two<V>(half) * power_of_two<V>(n - half);

  const MaskOf<V> grows = (size > 1) ^ (b < 0);
  power = select<V>(unbounded, select<V>(grows, splat<V>(infinity), splat<V>(0)), power);
  const MaskOf<V> whole = floor_body(b) == b;
  const V halved = b * 0.5;
  const MaskOf<V> odd = whole & (floor_body(halved) != halved);
  const MaskOf<V> negative = bits<I>(a) < 0;
  power = select<V>(odd & negative, -power, power);
  const MaskOf<V> invalid = (a < 0) & not_body(whole) & not_body(unbounded);
  power = select<V>(invalid, splat<V>(FloatFacts<V>::kNaN), power);
  power = select<V>((a != a) | (b != b), a + b, power);
  power = select<V>((b == 0) | (a == 1), splat<V>(1), power);
  return power;
}

// x * x and square roots are themselves, however a program says them. Integers: negative powers are 0 but of 1 and -1.
template <typename V>
KN_BODY V pow_body(const V& a, const V& b) {
  if constexpr (!kIsFloating<V>) {
    const MaskOf<V> negative = b < 0;
    V result = splat<V>(1), base = a, left = select<V>(negative, splat<V>(0), b);
    while (any_lane(left > 0)) {
      result = select<V>((left & 1) != 0, result * base, result);
      base = base * base;
      left = left >> 1;
    }
    const V inverse = select<V>(a == 1, splat<V>(1),
                                select<V>(a == -1, select<V>((b & 1) != 0, splat<V>(-1), splat<V>(1)), splat<V>(0)));
    return select<V>(negative, inverse, result);
  } else {
    V power;
    if constexpr (kIsSingle<V>) {
      power = to<float>(pow_double<true>(to<double>(a), to<double>(b)));
    } else {
      power = pow_double<false>(a, b);
    }
    return select<V>(b == 2, a * a, select<V>(b == ElementOf<V>(0.5), square_root(a), power));
  }
}

// ---- Trigonometry. float64: reduction to [-pi/4, pi/4] is in reduction.h.

// Sine (shift 0) or cosine (shift 1) of a.
template <int kShift, typename V>
KN_BODY V sine_or_cosine_double(const V& a) {
  IntOf<V> n;
  V r, low;
  reduce_quarter_turns(a, &n, &r, &low);
  const V z = r * r;
  // sin(r + low) = r + (r^3 P + low (1 - z / 2)); cos(r + low) = 1 - z / 2 + (z^2 Q - r low), the rounding of
  // 1 - z / 2 added back.
  const V cube = z * r;
  const V p = polynomial(z, 0x1.1111111110b6cp-7, -0x1.a01a019e73325p-13, 0x1.71de3781495ffp-19, -0x1.ae5ff4f957b14p-26,
                         0x1.5e0333e3ccba1p-33);
  const V sine = r - ((z * (0.5 * low - cube * p) - low) - cube * -0x1.5555555555555p-3);
  const V q = polynomial(z, 0x1.5555555555555p-5, -0x1.6c16c16c16944p-10, 0x1.a01a019f4671dp-16, -0x1.27e4fa0d3726cp-22,
                         0x1.1eeb5de1e2b95p-29, -0x1.9075bb669682cp-37);
  const V half = 0.5 * z;
  const V leading = 1 - half;
  const V cosine = leading + (((1 - leading) - half) + (z * z * q - r * low));
  const V result = by_quarter<V>(n + kShift, sine, cosine);
  return kShift == 0 ? select<V>(a == 0, a, result) : result;  // keeps -0.0
}

// float32 in its own lanes up to 400: |a| = n pi/2 + r + low, with pi/2 in three parts, so that n times each of the
// first two is exact. Beyond in float64 lanes.
template <int kShift, typename V>
KN_BODY V sine_or_cosine(const V& a) {
  if constexpr (!kIsSingle<V>) {
    return sine_or_cosine_double<kShift>(a);
  } else {
    using U = UintOf<V>;
    const V x = magnitude(a);
    IntOf<V> n;
    const V whole = round_small<V>(x * 0x1.45f306p-1f, &n);
    const V first = x - whole * 0x1.921ep+0f;
    const V second = whole * 0x1.b544p-16f;
    const V r = first - second;
    const V low = ((first - r) - second) - whole * 0x1.0b4612p-34f;
    const V z = r * r;
    const V p = polynomial(z, -0x1.555552p-3, 0x1.110c1p-7, -0x1.9abc2cp-13);
    const V q = polynomial(z, 0x1.555554p-5, -0x1.6c12bep-10, 0x1.9bcdc6p-16);
    const V sine = r + (z * r * p + low);
    const V half = 0.5f * z;
    const V leading = 1 - half;
    const V cosine = leading + (((1 - leading) - half) + (z * z * q - r * low));
    const V value = by_quarter<V>(n + kShift, sine, cosine);
    const V near = kShift == 0 ? bits<V>(bits<U>(value) ^ (bits<U>(a) & FloatFacts<V>::kSign)) : value;
    const MaskOf<V> far = not_body(x < 400);
    if (any_lane(far)) [[unlikely]] {
      return select<V>(far, to<float>(sine_or_cosine_double<kShift>(to<double>(a))), near);
    }
    return near;
  }
}

template <typename V>
KN_BODY V sin_body(const V& a) {
  return sine_or_cosine<0>(a);
}
template <typename V>
KN_BODY V cos_body(const V& a) {
  return sine_or_cosine<1>(a);
}

// ---- Inverse tangent and hyperbolic tangent.

// The smaller over the larger coordinate, reduced by a further pi/4 where it is above tan(pi/8): every angle is a
// multiple of pi/4 plus or minus the inverse tangent of at most 0.415.
template <typename V>
KN_BODY V atan2_double(const V& y, const V& x) {
  constexpr double infinity = __builtin_inf();
  V ay = magnitude(y), ax = magnitude(x);
  const MaskOf<V> steep = ay > ax;
  V large = select<V>(steep, ay, ax), small = select<V>(steep, ax, ay);
  const MaskOf<V> unbounded = large == infinity;
  small = select<V>(unbounded, select<V>(small == infinity, splat<V>(1), splat<V>(0)), small);
  large = select<V>(unbounded | (large == 0), splat<V>(1), large);
  const V scale = select<V>(large > 0x1p1000, splat<V>(0x1p-4), splat<V>(1));  // so that the sum is finite
  small = small * scale;
  large = large * scale;

  const MaskOf<V> diagonal = small > 0x1.a827999fcef32p-2 * large;
  const V t = select<V>(diagonal, small - large, small) / select<V>(diagonal, small + large, large);
  const V z = t * t;
  const V p = polynomial(z, -0x1.5555555555555p-2, 0x1.999999999933dp-3, -0x1.24924924355d5p-3, 0x1.c71c7184c32bfp-4,
                         -0x1.745d0b153ffadp-4, 0x1.3b126143b5cbcp-4, -0x1.10fa5ee9ab25cp-4, 0x1.dfe49b2919c4ep-5,
                         -0x1.a090d1950d2b4p-5, 0x1.41495cefb6c73p-5, -0x1.39f38ad451ea7p-6);
  const V tail = t * z * p;

  // angle = base +- (t + tail), base in units of pi/4.
  V base = select<V>(diagonal, splat<V>(1), splat<V>(0));
  const MaskOf<V> left = bits<IntOf<V>>(x) < 0;
  base = select<V>(steep, 2 - base, base);
  base = select<V>(left, 4 - base, base);
  const V sign = select<V>(steep, splat<V>(-1), splat<V>(1)) * select<V>(left, splat<V>(-1), splat<V>(1));
  const V high = base * 0x1.921fb54442d18p-1, low = base * 0x1.1a62633145c07p-55;  // exact for base 0 to 4
  const V turned = sign * t;
  const V leading = high + turned;
  const V error = turned - (leading - high);  // |high| >= |turned| or high = 0
  const V angle = leading + (error + (sign * tail + low));
  const V plain = select<V>(base == 0, t + tail, angle);
  const V signed_angle = with_sign(plain, y);
  return select<V>((x != x) | (y != y), x + y, signed_angle);
}

template <typename V>
KN_BODY V atan2_body(const V& y, const V& x) {
  if constexpr (kIsSingle<V>) {
    return to<float>(atan2_double(to<double>(y), to<double>(x)));
  } else {
    return atan2_double(y, x);
  }
}

// Of single precision: a polynomial in the distance from the centre of one of 16 intervals. The upper bits of
// x + kTanhShift tell which: 1/8 wide near zero, wider as tanh becomes flat. The centres are numbers whose tanh is
// nearly a float (in the two intervals where degree 5 is just enough, the best polynomial's value). From kTanhEnd on
// the result rounds to one.
inline constexpr float kTanhShift = 0.625f;
inline constexpr float kTanhCentre[16] = {0x1.9dbe6ap0f,  0x1.105bd8p1f,  0x1.511f0ap1f,  0x1.8f50d8p1f,  0x1.ef90e2p1f,
                                          0x1.36fcp2f,    0x1.78936p2f,   0x1.b8bf2p2f,   0x1.08b438p3f,  0,
                                          0x1.7e1d34p-3f, 0x1.411efap-2f, 0x1.fcae14p-2f, 0x1.7e3e9ap-1f, 0x1.00d666p0f,
                                          0x1.3f200ep0f};
inline constexpr float kTanhCoefficients[6][16] = {
    {0x1.d91f96p-1f, 0x1.f1adap-1f, 0x1.fabf38p-1f, 0x1.fe018p-1f, 0x1.ff8e5cp-1f, 0x1.fff03ap-1f, 0x1.fffdf8p-1f,
     0x1.ffffbap-1f, 0x1.fffffcp-1f, 0, 0x1.79bdaep-3f, 0x1.36fe22p-2f, 0x1.d697d2p-2f, 0x1.44258ep-1f, 0x1.86a34ep-1f,
     0x1.b1d446p-1f},
    {0x1.2b3494p-3f, 0x1.c3e314p-5f, 0x1.4e7894p-6f, 0x1.fd8174p-8f, 0x1.c65b76p-10f, 0x1.f8b6f6p-13f, 0x1.0402fap-15f,
     0x1.18042cp-18f, 0x1.18e3eap-22f, 0x1p0f, 0x1.ee94fep-1f, 0x1.d0c672p-1f, 0x1.93ddc6p-1f, 0x1.32c876p-1f,
     0x1.abea06p-2f, 0x1.20d03cp-2f},
    {-0x1.14816cp-3f, -0x1.b73d42p-5f, -0x1.4b059ep-6f, -0x1.fb7cecp-8f, -0x1.c53e92p-10f, -0x1.f80d92p-13f,
     -0x1.03acdep-15f, -0x1.17a7e6p-18f, -0x1.895e1cp-22f, 0x1.506214p-22f, -0x1.6ce3bap-3f, -0x1.1a4eb6p-2f,
     -0x1.73331ap-2f, -0x1.8472acp-2f, -0x1.467c42p-2f, -0x1.e97084p-3f},
    {0x1.378354p-4f, 0x1.14566ep-5f, 0x1.b03a4ep-7f, 0x1.4fb9d8p-8f, 0x1.2dccc8p-10f, 0x1.506daep-13f, 0x1.59e312p-16f,
     0x1.746916p-19f, 0x1.4b7904p-23f, -0x1.555b2ep-2f, -0x1.2811c4p-2f, -0x1.c03bcp-3f, -0x1.8aa974p-4f, 0x1.4b317p-5f,
     0x1.a9d91ep-4f, 0x1.bc52a2p-4f},
    {-0x1.97937p-6f, -0x1.ea525ep-7f, -0x1.a1e8d4p-8f, -0x1.4dec24p-9f, -0x1.3c11eep-11f, -0x1.5fe142p-14f,
     -0x1.6b0036p-17f, -0x1.86f23ap-20f, 0x1.2011cep-25f, 0x1.ef7738p-12f, 0x1.cc59dcp-4f, 0x1.4382bp-3f,
     0x1.4ff812p-3f, 0x1.9cf036p-4f, 0x1.c05984p-6f, -0x1.86d45p-7f},
    {0x1.230c64p-10f, 0x1.23b7ep-8f, 0x1.353c14p-9f, 0x1.ffa688p-11f, 0x1.f13428p-13f, 0x1.106ecap-15f, 0x1.27841p-18f,
     0x1.400994p-21f, 0x1.57145p-24f, 0x1.0a36dep-3f, 0x1.8c029ap-4f, 0x1.79ecacp-5f, -0x1.9d28p-6f, -0x1.03b674p-4f,
     -0x1.7abb52p-5f, -0x1.3cc44ep-6f}};
inline constexpr float kTanhEnd = 9.1f;

// Of double precision: a polynomial near zero, else 1 - 2 / (e^(2x) + 1).
template <typename V>
KN_BODY V tanh_body(const V& a) {
  const V size = magnitude(a);
  if constexpr (kIsSingle<V>) {
    const V x = lesser(splat<V>(kTanhEnd), size);
    const IntOf<V> part = bits<IntOf<V>>(x + kTanhShift) >> 21;
    const V t = x - look_up<V>(kTanhCentre, part);
    V sum = look_up<V>(kTanhCoefficients[5], part);
#pragma GCC unroll 5
    for (int i = 4; i >= 0; --i) sum = sum * t + look_up<V>(kTanhCoefficients[i], part);
    return with_sign(sum, a);
  } else {
    constexpr double kOneFrom = 22;  // from here on the result rounds to one
    const V x = select<V>(size > kOneFrom, splat<V>(kOneFrom), size);
    IntOf<V> n;
    const V fraction = exp_reduced<V>(x + x, &n);
    const V scale = power_of_two<V>(n);
    const V far = 1 - 2 / (scale * fraction + (scale + 1));
    const V z = x * x;
    const V p =
        polynomial(z, -0x1.5555555555555p-2, 0x1.11111111110a8p-3, -0x1.ba1ba1ba0f126p-5, 0x1.664f487e0a749p-6,
                   -0x1.226e3473dce5cp-7, 0x1.d6d39ae3905e2p-9, -0x1.7d9f6f23e8682p-10, 0x1.3526e9ed54da1p-11,
                   -0x1.f243823c8c981p-13, 0x1.8445870f6fe41p-14, -0x1.05bbdae896297p-15, 0x1.b33642a122cddp-18);
    const V near = x + x * z * p;
    return with_sign(select<V>(x < 0.625, near, far), a);
  }
}

// ---- Random numbers: Philox 4x32-10, a function of (seed, draw, index of the element).

struct RandomWords {
  uint32_t word[4];
};
KN_BODY RandomWords random_words(uint64_t seed, uint64_t draw, uint64_t index) {
  uint32_t counter[4] = {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), static_cast<uint32_t>(draw),
                         static_cast<uint32_t>(draw >> 32)};
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; round++) {
    const uint64_t a = uint64_t{0xd2511f53} * counter[0], b = uint64_t{0xcd9e8d57} * counter[2];
    const uint32_t next[4] = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
                              static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    for (int i = 0; i < 4; i++) counter[i] = next[i];
    key[0] += 0x9e3779b9;
    key[1] += 0xbb67ae85;
  }
  return {{counter[0], counter[1], counter[2], counter[3]}};
}

// Uniform in [0, 1): 24 or 53 bits of the words from `first` on.
template <typename T>
KN_BODY T uniform(const RandomWords& words, int first) {
  if constexpr (sizeof(T) == 4) {
    return static_cast<T>(words.word[first] >> 8) * T(0x1p-24);
  } else {
    return static_cast<T>(((uint64_t{words.word[first]} << 32) | words.word[first + 1]) >> 11) * T(0x1p-53);
  }
}

// Box and Muller's transform of two uniform numbers, the first in (0, 1].
template <typename T>
KN_BODY T normal(const RandomWords& words) {
  const T radius = sqrt_body(T(-2) * log_body(T(1) - uniform<T>(words, 0)));
  return radius * cos_body(T(0x1.921fb54442d18p+2) * uniform<T>(words, 2));
}

}  // namespace kintsugi
