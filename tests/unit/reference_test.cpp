// The reference against what its rows promise: the examples of ops.def, every op and dtype over every layout, the order
// of reductions, and what happens at the edges of the dtypes.
#include "kernels/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/unit/arrays.h"

namespace kintsugi {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Infers, allocates and runs.
Array run(Op op, const std::vector<OperandValue>& operands, const Attributes& attributes = {}) {
  std::vector<Operand> facts;
  for (const OperandValue& operand : operands) {
    Operand fact;
    fact.is_number = operand.is_number;
    fact.dtype = operand.is_number ? operand.number_dtype : operand.view.layout->dtype;
    if (!operand.is_number) fact.shape = shape_of(*operand.view.layout);
    facts.push_back(fact);
  }
  Result result{};
  OpError error;
  EXPECT_TRUE(infer(op, facts, attributes, &result, &error)) << error.text;
  Array out(result.dtype, result.shape);
  EXPECT_TRUE(run_reference(op, operands, attributes, out.view(), &error)) << info(op).name << ": " << error.text;
  return out;
}

// ---- The examples in ops.def: `name(arguments)` is `value`.

class Example {
 public:
  explicit Example(std::string text) : text_(std::move(text)), at_(text_.c_str()) {}
  // A literal: a number, True or False, or a (nested) list of them.
  Array literal() {
    values_.clear();
    floating_ = boolean_ = false;
    std::vector<int64_t> sizes;
    parse(&sizes, 0);
    Array array(boolean_ ? DType::k_bool : floating_ ? DType::k_float32 : DType::k_int32, sizes);
    array.fill(values_);
    return array;
  }
  bool take(const char* word) {
    while (*at_ == ' ') at_++;
    if (std::strncmp(at_, word, std::strlen(word)) != 0) return false;
    at_ += std::strlen(word);
    return true;
  }

 private:
  void parse(std::vector<int64_t>* sizes, size_t depth) {
    if (take("[")) {
      if (sizes->size() == depth) sizes->push_back(0);
      int64_t count = 0;
      for (; !take("]"); take(","), count++) parse(sizes, depth + 1);
      (*sizes)[depth] = count;
    } else if (take("True")) {
      boolean_ = true;
      values_.push_back(1);
    } else if (take("False")) {
      boolean_ = true;
      values_.push_back(0);
    } else {
      char* end = nullptr;
      take("");
      values_.push_back(std::strtod(at_, &end));
      ASSERT_NE(end, at_) << at_;
      for (; at_ < end; at_++) floating_ |= *at_ == '.' || *at_ == 'f';
    }
  }
  std::string text_;
  const char* at_;
  std::vector<double> values_;
  bool floating_ = false, boolean_ = false;
};

TEST(Examples, are_true) {
  int checked = 0;
  for (int i = 0; i < static_cast<int>(Op::kCount); i++) {
    const Op op = static_cast<Op>(i);
    const OpInfo& row = info(op);
    const std::string document = row.document;
    const size_t start = document.find('`' + std::string(row.name) + '(');
    const size_t is = document.find(")` is `");
    ASSERT_NE(start, std::string::npos) << row.name << " has no example";
    if (is == std::string::npos || row.op_class == OpClass::kCreation) continue;
    Example example(document.substr(start + 2 + std::strlen(row.name), is - start - 2 - std::strlen(row.name)) + ")");
    Attributes attributes;
    std::vector<Array> arrays;
    arrays.reserve(4);
    if (row.arity < 0) example.take("[");  // a list of operands
    while (!example.take(")") && !example.take("]")) {
      if (example.take("int32")) {
        attributes.dtype = DType::k_int32;
      } else {
        arrays.push_back(example.literal());
      }
      example.take(",");
    }
    if (row.op_class == OpClass::kScan && arrays.size() > 1) {  // along which dimension
      ASSERT_EQ(arrays.back().values()[0], 0) << row.name;
      arrays.pop_back();
    }
    std::vector<OperandValue> operands;
    for (Array& array : arrays) {
      const bool is_number = row.op_class == OpClass::kElementwise && array.layout().rank == 0;
      operands.push_back(is_number ? number(static_cast<int64_t>(array.values()[0])) : array.operand());
    }
    if (row.op_class == OpClass::kReduction) attributes.dims = (1u << arrays[0].layout().rank) - 1;
    Array want = Example(document.substr(is + 7)).literal();
    Array got = run(op, operands, attributes);
    ASSERT_EQ(got.layout().count, want.layout().count) << row.name;
    for (int64_t k = 0; k < got.layout().count; k++) {
      const double value = got.values()[k], wanted = want.values()[k];
      EXPECT_TRUE(value == wanted || std::abs(value - wanted) < 6e-5) << document << ": got " << value;
    }
    checked++;
  }
  EXPECT_GE(checked, 35);
}

// ---- Layouts.

// The shape [rows, columns] laid out in several ways; all hold the same values.
std::vector<Shape> layouts_of(int64_t rows, int64_t columns) {
  Shape plain = shape_with({rows, columns}), transposed = plain, gaps = plain, backward = plain;
  transposed.strides[0] = 1;
  transposed.strides[1] = std::max<int64_t>(rows, 1);
  gaps.strides[0] = 3 * columns + 1;
  gaps.strides[1] = 2;
  backward.strides[0] = -backward.strides[0];
  return {plain, transposed, gaps, backward};
}

TEST(Layouts, make_no_difference) {
  const std::vector<double> numbers = {3, -7, 0, 1, 2, 100, -1, 5, 4};
  for (int i = 0; i < static_cast<int>(Op::kCount); i++) {
    const Op op = static_cast<Op>(i);
    const OpInfo& row = info(op);
    if (row.arity < 1 || row.op_class == OpClass::kMatmul || op == Op::k_gather || row.op_class == OpClass::kScan)
      continue;
    for (int d = 0; d < kDTypeCount; d++) {
      const DType dtype = static_cast<DType>(d);
      const bool integers_only = row.dtype_rule == DTypeRule::kPromoteInteger;
      const bool no_bool =
          integers_only || row.dtype_rule == DTypeRule::kPromoteNumber || row.dtype_rule == DTypeRule::kMean;
      if (no_bool && dtype == DType::k_bool) continue;
      const bool no_floats = integers_only || row.dtype_rule == DTypeRule::kPromoteBits;
      if (no_floats && info(dtype).kind == DTypeKind::kFloatingKind) continue;
      if (row.dtype_rule == DTypeRule::kMean && info(dtype).kind != DTypeKind::kFloatingKind) continue;
      for (auto [rows, columns] : {std::pair<int64_t, int64_t>{3, 5}, {1, 1}, {70, 2}, {0, 3}}) {
        const bool needs_elements = row.identity != Identity::kZero && row.dtype_rule != DTypeRule::kLogical;
        if (rows == 0 && row.op_class == OpClass::kReduction && needs_elements) continue;
        std::vector<uint64_t> first;
        for (const Shape& shape : layouts_of(rows, columns)) {
          std::vector<Array> arrays;
          arrays.reserve(3);
          std::vector<OperandValue> operands;
          for (int k = 0; k < row.arity; k++) {
            const bool chooses = k == 0 && row.dtype_rule == DTypeRule::kChoose;
            Array& array = arrays.emplace_back(chooses ? DType::k_bool : dtype, shape);
            std::vector<double> values(numbers.begin() + k, numbers.end());
            if (row.may_raise && k == 1) std::replace(values.begin(), values.end(), 0.0, 9.0);
            array.fill(values);
            operands.push_back(array.operand());
          }
          Attributes attributes;
          attributes.dims = 1;
          attributes.has_dim = true;
          attributes.dtype = DType::k_int64;
          Array out = run(op, operands, attributes);
          if (first.empty()) first = out.bit_patterns();
          EXPECT_EQ(out.bit_patterns(), first) << row.name << " " << info(dtype).name;
        }
      }
    }
  }
}

TEST(Layouts, broadcasting_and_strided_results) {
  Array row(DType::k_int32, std::vector<int64_t>{1, 3}), column(DType::k_int32, std::vector<int64_t>{2, 1});
  row.fill({1, 2, 3});
  column.fill({10, 20});
  EXPECT_EQ(run(Op::k_add, {row.operand(), column.operand()}).values(), (std::vector<double>{11, 12, 13, 21, 22, 23}));
  EXPECT_EQ(run(Op::k_add, {row.operand(), number(int64_t{5})}).values(), (std::vector<double>{6, 7, 8}));
  Shape transposed = shape_with({2, 3});
  transposed.strides[0] = 1;
  transposed.strides[1] = 2;
  Array out(DType::k_int32, transposed);
  OpError error;
  const OperandValue operands[] = {row.operand(), column.operand()};
  ASSERT_TRUE(run_reference(Op::k_mul, operands, {}, out.view(), &error));
  EXPECT_EQ(out.values(), (std::vector<double>{10, 20, 30, 20, 40, 60}));
}

// ---- Edges.

template <typename T>
constexpr DType kDTypeOf = std::is_same_v<T, int32_t>   ? DType::k_int32
                           : std::is_same_v<T, int64_t> ? DType::k_int64
                           : std::is_same_v<T, float>   ? DType::k_float32
                                                        : DType::k_float64;

template <typename T>
void check_integers() {
  constexpr T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  const std::vector<T> interesting = {low, low + 1, -7, -2, -1, 1, 2, 3, 7, high - 1, high};
  std::vector<T> a, b;
  std::mt19937_64 random(3);
  for (T x : interesting) {
    for (T y : interesting) a.push_back(x), b.push_back(y);
  }
  for (int i = 0; i < 20000; i++) {
    a.push_back(static_cast<T>(random()));
    T divisor = static_cast<T>(random() >> (random() % 63));
    b.push_back(divisor ? divisor : 1);
  }
  Array left = Array::of(kDTypeOf<T>, a), right = Array::of(kDTypeOf<T>, b);
  Array quotient = run(Op::k_floor_divide, {left.operand(), right.operand()});
  Array rest = run(Op::k_remainder, {left.operand(), right.operand()});
  for (size_t i = 0; i < a.size(); i++) {
    const __int128 x = a[i], y = b[i];
    __int128 floor = x / y - (x % y != 0 && (x % y < 0) != (y < 0));
    EXPECT_EQ(quotient.data<T>()[i], static_cast<T>(floor)) << a[i] << " // " << b[i];
    EXPECT_EQ(rest.data<T>()[i], static_cast<T>(x - floor * y)) << a[i] << " % " << b[i];
  }
  Array ends = Array::of(kDTypeOf<T>, std::vector<T>{low, high});
  EXPECT_EQ(run(Op::k_neg, {ends.operand()}).template data<T>()[0], low);
  EXPECT_EQ(run(Op::k_abs, {ends.operand()}).template data<T>()[0], low);
  EXPECT_EQ(run(Op::k_add, {ends.operand(), number(int64_t{1})}).template data<T>()[1], low);
}
TEST(Edges, int32_division) { check_integers<int32_t>(); }
TEST(Edges, int64_division) { check_integers<int64_t>(); }

template <typename T>
void check_shifts() {
  constexpr T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  constexpr T width = sizeof(T) * 8;
  std::vector<T> a, b;
  for (T x : {low, T(low + 1), T(-6), T(-1), T(0), T(1), T(5), T(high - 1), high}) {
    for (T y = -3; y < width + 3; ++y) a.push_back(x), b.push_back(y);
    for (T y : {low, T(-width), T(2 * width), T(low + 1), high}) a.push_back(x), b.push_back(y);
  }
  Array values = Array::of(kDTypeOf<T>, a), counts = Array::of(kDTypeOf<T>, b);
  Array left = run(Op::k_bitwise_left_shift, {values.operand(), counts.operand()});
  Array right = run(Op::k_bitwise_right_shift, {values.operand(), counts.operand()});
  for (size_t i = 0; i < a.size(); i++) {
    const bool within = b[i] >= 0 && b[i] < width;
    const __int128 power = __int128{1} << (within ? b[i] : 0);
    EXPECT_EQ(left.data<T>()[i], within ? static_cast<T>(a[i] * power) : 0) << a[i] << " << " << b[i];
    const __int128 floor = a[i] / power - (a[i] % power < 0);
    EXPECT_EQ(right.data<T>()[i], within ? static_cast<T>(floor) : T(a[i] < 0 ? -1 : 0)) << a[i] << " >> " << b[i];
  }
}
TEST(Edges, int32_shifts) { check_shifts<int32_t>(); }
TEST(Edges, int64_shifts) { check_shifts<int64_t>(); }

TEST(Edges, integer_division_by_zero_is_an_error) {
  Array a = Array::of(DType::k_int32, std::vector<int32_t>{1, 2}),
        b = Array::of(DType::k_int32, std::vector<int32_t>{1, 0});
  for (Op op : {Op::k_floor_divide, Op::k_remainder}) {
    Array out(DType::k_int32, std::vector<int64_t>{2});
    OpError error;
    const OperandValue operands[] = {a.operand(), b.operand()};
    EXPECT_FALSE(run_reference(op, operands, {}, out.view(), &error));
    EXPECT_EQ(error.kind, ErrorKind::kZeroDivision);
  }
  EXPECT_EQ(run(Op::k_div, {a.operand(), b.operand()}).values(), (std::vector<double>{1, kInfinity}));
}

TEST(Edges, nan_and_signed_zero) {
  const float nan = std::nanf("");
  Array a = Array::of(DType::k_float32, std::vector<float>{nan, 1, nan, -0.f}),
        b = Array::of(DType::k_float32, std::vector<float>{1, nan, nan, 0.f});
  for (Op op : {Op::k_maximum, Op::k_minimum}) {
    std::vector<double> got = run(op, {a.operand(), b.operand()}).values();
    EXPECT_TRUE(std::isnan(got[0]) && std::isnan(got[1]) && std::isnan(got[2]) && got[3] == 0);
  }
  EXPECT_TRUE(std::isnan(run(Op::k_relu, {a.operand()}).values()[0]));
  EXPECT_EQ(run(Op::k_eq, {a.operand(), b.operand()}).values(), (std::vector<double>{0, 0, 0, 1}));
  EXPECT_EQ(run(Op::k_ne, {a.operand(), a.operand()}).values(), (std::vector<double>{1, 0, 1, 0}));
  EXPECT_EQ(run(Op::k_logical_not, {a.operand()}).values(), (std::vector<double>{0, 0, 0, 1}));
  Attributes all;
  all.dims = 1;
  EXPECT_TRUE(std::isnan(run(Op::k_amax, {b.operand()}, all).values()[0]));
  Array late = Array::of(DType::k_float32, std::vector<float>{1, 5, nan, 7, nan});
  EXPECT_EQ(run(Op::k_argmax, {late.operand()}).values()[0], 2);
  Array minus_zero = Array::of(DType::k_float32, std::vector<float>{-0.f});
  EXPECT_FALSE(std::signbit(run(Op::k_sum, {minus_zero.operand()}, all).values()[0]));
}

TEST(Edges, conversion) {
  const float nan = std::nanf("");
  Array floats = Array::of(DType::k_float32, std::vector<float>{1.9f, -1.9f, nan, 3e9f, -3e9f, 0.1f, -0.f});
  Attributes to;
  to.dtype = DType::k_int32;
  constexpr double low = -2147483648.0;
  EXPECT_EQ(run(Op::k_convert, {floats.operand()}, to).values(), (std::vector<double>{1, -1, low, low, low, 0, 0}));
  to.dtype = DType::k_bool;
  EXPECT_EQ(run(Op::k_convert, {floats.operand()}, to).values(), (std::vector<double>{1, 1, 1, 1, 1, 1, 0}));
  Array wide = Array::of(DType::k_int64, std::vector<int64_t>{(int64_t{1} << 32) + 5, -1});
  to.dtype = DType::k_int32;
  EXPECT_EQ(run(Op::k_convert, {wide.operand()}, to).values(), (std::vector<double>{5, -1}));
}

// ---- Reductions.

// The order of reference.h, spelled out once more for a flat float32 sum.
float sum_in_order(const std::vector<float>& values) {
  std::vector<float> blocks;
  for (size_t start = 0; start < std::max<size_t>(values.size(), 1); start += 4096) {
    float partials[16] = {};
    for (size_t i = start; i < std::min(start + 4096, values.size()); i++) partials[i % 16] += values[i];
    for (int apart : {8, 4, 2, 1}) {
      for (int j = 0; j < apart; j++) partials[j] += partials[j + apart];
    }
    blocks.push_back(partials[0]);
  }
  auto tree = [](auto&& self, const float* at, size_t count) -> float {
    if (count == 1) return *at;
    size_t half = 1;
    while (half * 2 < count) half *= 2;
    return self(self, at, half) + self(self, at + half, count - half);
  };
  return tree(tree, blocks.data(), blocks.size());
}

TEST(Reductions, order_is_a_function_of_the_logical_shape) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  Attributes all;
  for (int64_t count : {0, 1, 2, 15, 16, 17, 100, 4095, 4096, 4097, 10000, 16384, 50000}) {
    std::vector<float> values(count);
    for (float& value : values) value = normal(random);
    Array flat = Array::of(DType::k_float32, values);
    all.dims = 1;
    EXPECT_EQ(run(Op::k_sum, {flat.operand()}, all).data<float>()[0], sum_in_order(values)) << count;
    if (count % 5 || count == 0) continue;
    // The same elements as the middle dim of three, reduced together with the last one.
    Shape folded = shape_with({2, 5, count / 5});
    folded.strides[0] = 0;
    Array cube(DType::k_float32, folded);
    cube.fill(std::vector<double>(values.begin(), values.end()));
    all.dims = 6;
    Array sums = run(Op::k_sum, {cube.operand()}, all);
    EXPECT_EQ(sums.data<float>()[0], sum_in_order(values));
    EXPECT_EQ(sums.data<float>()[1], sum_in_order(values));
    Array mean = run(Op::k_mean, {cube.operand()}, all);
    EXPECT_EQ(mean.data<float>()[0], sum_in_order(values) / static_cast<float>(count));
  }
}

TEST(Reductions, of_nothing) {
  Array none(DType::k_float32, std::vector<int64_t>{0, 2});
  Attributes first;
  first.dims = 1;
  EXPECT_EQ(run(Op::k_sum, {none.operand()}, first).values(), (std::vector<double>{0, 0}));
  EXPECT_EQ(run(Op::k_all, {none.operand()}, first).values(), (std::vector<double>{1, 1}));
  EXPECT_EQ(run(Op::k_any, {none.operand()}, first).values(), (std::vector<double>{0, 0}));
  EXPECT_TRUE(std::isnan(run(Op::k_mean, {none.operand()}, first).values()[0]));
}

TEST(Reductions, keepdim_and_argmax_dim) {
  Array a(DType::k_int32, std::vector<int64_t>{2, 3});
  a.fill({1, 9, 3, 7, 5, 7});
  Attributes last;
  last.dims = 2;
  last.has_dim = last.keepdim = true;
  last.dim = 1;
  EXPECT_EQ(run(Op::k_sum, {a.operand()}, last).values(), (std::vector<double>{13, 19}));
  EXPECT_EQ(run(Op::k_argmax, {a.operand()}, last).values(), (std::vector<double>{1, 0}));
  last.dim = -2;
  EXPECT_EQ(run(Op::k_argmax, {a.operand()}, last).values(), (std::vector<double>{1, 0, 1}));
  EXPECT_EQ(run(Op::k_argmax, {a.operand()}).values(), (std::vector<double>{1}));
}

// ---- Products, creation, movement.

TEST(Products, all_ranks) {
  Array vector(DType::k_int32, std::vector<int64_t>{2}), matrix(DType::k_int32, std::vector<int64_t>{2, 2}),
      batch(DType::k_int32, std::vector<int64_t>{3, 1, 2, 2});
  vector.fill({1, 10});
  matrix.fill({1, 2, 3, 4});
  batch.fill({1, 0, 0, 1, 0, 1, 1, 0, 2, 0, 0, 2});
  EXPECT_EQ(run(Op::k_matmul, {vector.operand(), vector.operand()}).values(), (std::vector<double>{101}));
  EXPECT_EQ(run(Op::k_matmul, {matrix.operand(), vector.operand()}).values(), (std::vector<double>{21, 43}));
  EXPECT_EQ(run(Op::k_matmul, {vector.operand(), matrix.operand()}).values(), (std::vector<double>{31, 42}));
  EXPECT_EQ(run(Op::k_matmul, {batch.operand(), matrix.operand()}).values(),
            (std::vector<double>{1, 2, 3, 4, 3, 4, 1, 2, 2, 4, 6, 8}));
  EXPECT_EQ(run(Op::k_matmul, {batch.operand(), vector.operand()}).values(),
            (std::vector<double>{1, 10, 10, 1, 2, 20}));
  EXPECT_EQ(run(Op::k_matmul, {vector.operand(), batch.operand()}).values(),
            (std::vector<double>{1, 10, 10, 1, 2, 20}));
}

TEST(Creation, and_movement) {
  Attributes attributes;
  attributes.shape = shape_with({2, 3});
  attributes.dtype = DType::k_int64;
  attributes.int_start = 4;
  attributes.int_step = -2;
  EXPECT_EQ(run(Op::k_full, {}, attributes).values(), (std::vector<double>{4, 4, 4, 4, 4, 4}));
  EXPECT_EQ(run(Op::k_arange, {}, attributes).values(), (std::vector<double>{4, 2, 0, -2, -4, -6}));
  attributes.dtype = DType::k_float32;
  EXPECT_EQ(run(Op::k_eye, {}, attributes).values(), (std::vector<double>{1, 0, 0, 0, 1, 0}));

  Array a(DType::k_int32, std::vector<int64_t>{2, 1}), b(DType::k_float32, std::vector<int64_t>{2, 2}),
      none(DType::k_float32, std::vector<int64_t>{0});
  a.fill({1, 2});
  b.fill({3, 4, 5, 6});
  Attributes last;
  last.dim = -1;
  EXPECT_EQ(run(Op::k_cat, {a.operand(), none.operand(), b.operand()}, last).values(),
            (std::vector<double>{1, 3, 4, 2, 5, 6}));
  EXPECT_EQ(run(Op::k_stack, {b.operand(), b.operand()}, last).values(), (std::vector<double>{3, 3, 4, 4, 5, 5, 6, 6}));
}

TEST(Movement, gather) {
  Array source(DType::k_float32, std::vector<int64_t>{2, 2}), index(DType::k_int64, std::vector<int64_t>{1, 2});
  source.fill({3, 4, 5, 6});
  index.fill({1, 0});
  Attributes rows;
  EXPECT_EQ(run(Op::k_gather, {source.operand(), index.operand()}, rows).values(), (std::vector<double>{5, 4}));
  Array columns(DType::k_int32, std::vector<int64_t>{2, 1});
  columns.fill({1, 0});
  rows.dim = 1;
  EXPECT_EQ(run(Op::k_gather, {source.operand(), columns.operand()}, rows).values(), (std::vector<double>{4, 5}));
  index.fill({0, 2});
  Array out(DType::k_float32, std::vector<int64_t>{1, 2});
  OpError error;
  rows.dim = 0;
  const std::vector<OperandValue> operands = {source.operand(), index.operand()};
  EXPECT_FALSE(run_reference(Op::k_gather, operands, rows, out.view(), &error));
  EXPECT_EQ(error.text, "index 2 is out of bounds for dimension 0 with size 2");
}

TEST(Movement, index) {
  Array source(DType::k_int32, std::vector<int64_t>{2, 3}), rows(DType::k_int64, std::vector<int64_t>{2, 1}),
      columns(DType::k_int32, std::vector<int64_t>{2});
  source.fill({1, 2, 3, 4, 5, 6});
  rows.fill({-1, 0});
  columns.fill({2, 0});
  Attributes how;
  how.dims = 0b11;
  EXPECT_EQ(run(Op::k_index, {source.operand(), rows.operand(), columns.operand()}, how).values(),
            (std::vector<double>{6, 4, 3, 1}));
  how.dims = 0b10;
  EXPECT_EQ(run(Op::k_index, {source.operand(), columns.operand()}, how).values(), (std::vector<double>{3, 1, 6, 4}));
  columns.fill({0, -4});
  Array out(DType::k_int32, std::vector<int64_t>{2, 2});
  OpError error;
  const std::vector<OperandValue> operands = {source.operand(), columns.operand()};
  EXPECT_FALSE(run_reference(Op::k_index, operands, how, out.view(), &error));
  EXPECT_EQ(error.text, "index -4 is out of bounds for dimension 1 with size 3");
}

TEST(Scans, along_each_dimension) {
  Array source(DType::k_float32, std::vector<int64_t>{2, 3});
  source.fill({3, 1, 2, 0, 5, 4});
  Attributes how;
  EXPECT_EQ(run(Op::k_cumsum, {source.operand()}, how).values(), (std::vector<double>{3, 1, 2, 3, 6, 6}));
  EXPECT_EQ(run(Op::k_argsort, {source.operand()}, how).values(), (std::vector<double>{1, 0, 0, 0, 1, 1}));
  how.dim = -1;
  EXPECT_EQ(run(Op::k_cumsum, {source.operand()}, how).values(), (std::vector<double>{3, 4, 6, 0, 5, 9}));
  how.int_step = -1;
  EXPECT_EQ(run(Op::k_argsort, {source.operand()}, how).values(), (std::vector<double>{0, 2, 1, 1, 2, 0}));
}

TEST(Errors, out_that_does_not_fit) {
  Array a(DType::k_float32, std::vector<int64_t>{2}), out(DType::k_float64, std::vector<int64_t>{2});
  OpError error;
  const OperandValue operands[] = {a.operand(), a.operand()};
  EXPECT_FALSE(run_reference(Op::k_add, operands, {}, out.view(), &error));
  EXPECT_EQ(error.text, "add: the result has dtype float32 and shape [2], out has layout f64[2]{1}");
}

}  // namespace
}  // namespace kintsugi
