// Every float op against the same function in 113-bit precision (libquadmath), within the bound of its row; and its
// machine code against the reference, bit for bit, at the same arguments.
#include <gtest/gtest.h>
#include <quadmath.h>

#include <cmath>
#include <limits>
#include <random>

#include "kernels/reference.h"
#include "tests/unit/arrays.h"
#include "tests/unit/code_memory.h"

namespace kintsugi {
namespace {

using Quad = __float128;
constexpr int kPoints = 100'000;

// Errors in units of the last place of the exact value's binade. Infinities, zeros and NaN must be right as they are.
template <typename T>
double ulps(T got, Quad exact) {
  constexpr double kWrong = 1e30;
  constexpr int kDigits = std::numeric_limits<T>::digits;
  constexpr int kLowest = std::numeric_limits<T>::min_exponent - kDigits;
  if (isnanq(exact)) return std::isnan(got) ? 0 : kWrong;
  if (isinfq(exact)) return static_cast<Quad>(got) == exact ? 0 : kWrong;
  if (exact == 0) return got == 0 && std::signbit(got) == (signbitq(exact) != 0) ? 0 : kWrong;
  if (std::isnan(got) || std::signbit(got) != (signbitq(exact) != 0)) return kWrong;
  int exponent;
  frexpq(exact, &exponent);
  const Quad unit = ldexpq(1, std::max(exponent - kDigits, kLowest));
  // Infinity stands for the next power of two after the largest number, and for all beyond.
  const Quad beyond = ldexpq(1, std::numeric_limits<T>::max_exponent);
  const Quad value = fminq(fabsq(Quad{got}), beyond);
  return static_cast<double>(fabsq(value - fminq(fabsq(exact), beyond)) / unit);
}

// Arguments of every kind: a few special ones, then by turns any bit pattern, near multiples of pi/2, near one, of
// moderate size, huge, subnormal.
template <typename T>
std::vector<T> arguments(uint64_t seed) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {0,
                           -T(0),
                           1,
                           -1,
                           Limits::infinity(),
                           -Limits::infinity(),
                           Limits::quiet_NaN(),
                           Limits::denorm_min(),
                           -Limits::denorm_min(),
                           Limits::min(),
                           Limits::max(),
                           Limits::lowest(),
                           T(6381956970095103.0 * 0x1p797),  // nearest of all doubles to a multiple of pi/2
                           T(0x1.921fb54442d18p+0),
                           T(0x1.921fb54442d18p+1),
                           T(0x1.62e42fefa39efp+9),
                           T(88.7228394),
                           T(-103.97),
                           T(-745.13)};
  std::mt19937_64 random(seed);
  auto signed_unit = [&] { return std::ldexp(static_cast<double>(static_cast<int64_t>(random())), -63); };
  while (values.size() < kPoints) {
    uint64_t bits = random();
    T any;
    std::memcpy(&any, &bits, sizeof any);
    values.push_back(any);
    values.push_back(T(M_PI_2 * static_cast<double>(random() >> (random() % 50 + 12))));
    values.push_back(T(1 + std::ldexp(signed_unit(), -static_cast<int>(random() % 40))));
    values.push_back(T(signed_unit() * 8));
    values.push_back(T(signed_unit() * 800));
    values.push_back(Limits::max() * T(signed_unit()));
    values.push_back(Limits::min() * T(signed_unit()));
  }
  return values;
}

TestCodeMemory& code_memory() {
  static TestCodeMemory memory(size_t{1} << 20);
  return memory;
}

template <typename T>
constexpr DType kDTypeOf = sizeof(T) == 4 ? DType::k_float32 : DType::k_float64;

template <typename T>
std::vector<T> run(Op op, std::vector<std::vector<T>> operands) {
  set_code_allocator(&code_memory());
  std::vector<Array> arrays;
  arrays.reserve(operands.size());
  std::vector<OperandValue> values;
  for (auto& operand : operands) values.push_back(arrays.emplace_back(Array::of(kDTypeOf<T>, operand)).operand());
  Array out(kDTypeOf<T>, std::vector<int64_t>{static_cast<int64_t>(operands[0].size())});
  OpError error;
  EXPECT_TRUE(run_reference(op, values, {}, out.view(), &error)) << error.text;
  Array native(out);
  EXPECT_TRUE(run_op(op, values, {}, native.view(), &error)) << error.text;
  EXPECT_EQ(native.bit_patterns(), out.bit_patterns()) << info(op).name;
  return {out.data<T>(), out.data<T>() + operands[0].size()};
}

template <typename T>
double bound(Op op) {
  const double row = sizeof(T) == 4 ? info(op).max_ulp_f32 : info(op).max_ulp_f64;
  return row == 0 ? 0.5 : row;  // correctly rounded
}

template <typename T>
void check_unary(Op op, Quad (*exact)(Quad)) {
  const std::vector<T> a = arguments<T>(1);
  const std::vector<T> got = run<T>(op, {a});
  double worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < a.size(); i++) {
    const double error = ulps(got[i], exact(Quad{a[i]}));
    if (error > worst) worst = error, where = i;
  }
  EXPECT_LE(worst, bound<T>(op)) << info(op).name << " of " << a[where] << " is " << got[where];
}

template <typename T>
void check_binary(Op op, Quad (*exact)(Quad, Quad)) {
  std::vector<T> a = arguments<T>(2), b = arguments<T>(3);
  // Every pair of special values, and neighbours.
  for (size_t i = 0; i < 19 * 19; i++) a[1000 + i] = a[i / 19], b[1000 + i] = b[i % 19];
  for (size_t i = 2000; i < 20000; i += 3) b[i] = a[i] * T(1 + 0x1p-20 * static_cast<double>(i % 64));
  const std::vector<T> got = run<T>(op, {a, b});
  double worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < a.size(); i++) {
    const double error = ulps(got[i], exact(Quad{a[i]}, Quad{b[i]}));
    if (error > worst) worst = error, where = i;
  }
  EXPECT_LE(worst, bound<T>(op)) << info(op).name << " of " << a[where] << ", " << b[where] << " is " << got[where];
}

struct UnaryCase {
  Op op;
  Quad (*exact)(Quad);
};
struct BinaryCase {
  Op op;
  Quad (*exact)(Quad, Quad);
};
const UnaryCase kUnary[] = {
    {Op::k_sqrt, sqrtq},   {Op::k_exp, expq},   {Op::k_log, logq},     {Op::k_sin, sinq},
    {Op::k_cos, cosq},     {Op::k_tanh, tanhq}, {Op::k_abs, fabsq},    {Op::k_neg, [](Quad a) { return -a; }},
    {Op::k_floor, floorq}, {Op::k_ceil, ceilq}, {Op::k_trunc, truncq}, {Op::k_round, rintq},
};
const BinaryCase kBinary[] = {
    {Op::k_add, [](Quad a, Quad b) { return a + b; }},
    {Op::k_sub, [](Quad a, Quad b) { return a - b; }},
    {Op::k_mul, [](Quad a, Quad b) { return a * b; }},
    {Op::k_div, [](Quad a, Quad b) { return a / b; }},
    {Op::k_atan2, atan2q},
    {Op::k_pow, powq},
};

class Unary : public testing::TestWithParam<UnaryCase> {};
TEST_P(Unary, float32_within_bound) { check_unary<float>(GetParam().op, GetParam().exact); }
TEST_P(Unary, float64_within_bound) { check_unary<double>(GetParam().op, GetParam().exact); }
class Binary : public testing::TestWithParam<BinaryCase> {};
TEST_P(Binary, float32_within_bound) { check_binary<float>(GetParam().op, GetParam().exact); }
TEST_P(Binary, float64_within_bound) { check_binary<double>(GetParam().op, GetParam().exact); }
auto name_of = [](const auto& test) { return std::string(info(test.param.op).name); };
INSTANTIATE_TEST_SUITE_P(Math, Unary, testing::ValuesIn(kUnary), name_of);
INSTANTIATE_TEST_SUITE_P(Math, Binary, testing::ValuesIn(kBinary), name_of);

// Python's own definition of the two, over libm's exact fmod.
template <typename T>
T python_remainder(T a, T b) {
  T rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(T(0), b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}
template <typename T>
T python_floor_divide(T a, T b) {
  if (b == 0) return a / b;
  const T rest = std::fmod(a, b);
  T whole = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) whole -= 1;
  if (whole == 0) return std::copysign(T(0), a / b);
  T floor = std::floor(whole);
  return whole - floor > T(0.5) ? floor + 1 : floor;
}

template <typename T>
void check_division() {
  std::vector<T> a = arguments<T>(4), b = arguments<T>(5);
  for (size_t i = 0; i < 19 * 19; i++) a[1000 + i] = a[i / 19], b[1000 + i] = b[i % 19];
  std::mt19937_64 random(6);
  for (size_t i = 2000; i < 60000; i += 2) {  // whole and nearly whole quotients
    b[i] = T(static_cast<double>(random() % 1000) / 100 - 5);
    a[i] = b[i] * T(static_cast<double>(random() % 100000) - 50000);
    if (i % 4) a[i] = std::nextafter(a[i], T(0));
  }
  const std::vector<T> rest = run<T>(Op::k_remainder, {a, b}), quotient = run<T>(Op::k_floor_divide, {a, b});
  auto same = [](T got, T want) {
    return (std::isnan(got) && std::isnan(want)) || (got == want && std::signbit(got) == std::signbit(want));
  };
  for (size_t i = 0; i < a.size(); i++) {
    const T want_rest = python_remainder(a[i], b[i]), want = python_floor_divide(a[i], b[i]);
    ASSERT_TRUE(same(rest[i], want_rest)) << a[i] << " % " << b[i] << " is " << rest[i] << ", not " << want_rest;
    ASSERT_TRUE(same(quotient[i], want)) << a[i] << " // " << b[i] << " is " << quotient[i] << ", not " << want;
  }
}
TEST(Division, float32_as_python) { check_division<float>(); }
TEST(Division, float64_as_python) { check_division<double>(); }

// Moments of the draws, and that they depend on seed, draw and index only.
TEST(Random, uniform_and_normal) {
  Attributes attributes;
  attributes.seed = 7;
  for (DType dtype : {DType::k_float32, DType::k_float64}) {
    attributes.dtype = dtype;
    Array uniform(dtype, std::vector<int64_t>{kPoints}), normal(dtype, std::vector<int64_t>{kPoints});
    OpError error;
    ASSERT_TRUE(run_reference(Op::k_rand, {}, attributes, uniform.view(), &error));
    ASSERT_TRUE(run_reference(Op::k_randn, {}, attributes, normal.view(), &error));
    double mean = 0, square = 0, sum = 0;
    for (double u : uniform.values()) {
      ASSERT_GE(u, 0);
      ASSERT_LT(u, 1);
      sum += u;
    }
    for (double x : normal.values()) mean += x, square += x * x;
    EXPECT_NEAR(sum / kPoints, 0.5, 0.005);
    EXPECT_NEAR(mean / kPoints, 0, 0.015);
    EXPECT_NEAR(square / kPoints, 1, 0.02);
    Array few(dtype, std::vector<int64_t>{3, 5});
    ASSERT_TRUE(run_reference(Op::k_rand, {}, attributes, few.view(), &error));
    const std::vector<double> all = uniform.values(), first = few.values();
    EXPECT_TRUE(std::equal(first.begin(), first.end(), all.begin()));
  }
}

}  // namespace
}  // namespace kintsugi
