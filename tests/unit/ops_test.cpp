// The shape and dtype rules: torch's promotion, every row over every dtype, and errors that name both sides.
#include "kernels/ops.h"

#include <gtest/gtest.h>

namespace kintsugi {
namespace {

constexpr DType kB = DType::k_bool, kI4 = DType::k_int32, kI8 = DType::k_int64, kF4 = DType::k_float32,
                kF8 = DType::k_float64;
constexpr DType kAll[] = {kB, kI4, kI8, kF4, kF8};

Operand tensor(DType dtype, std::vector<int64_t> sizes = {3}) {
  Operand operand;
  operand.dtype = dtype;
  operand.shape.rank = static_cast<int>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), operand.shape.sizes);
  set_contiguous_strides(&operand.shape);
  return operand;
}
Operand scalar(DType dtype) { return tensor(dtype, {}); }
Operand number(DType dtype) {
  Operand operand;
  operand.is_number = true;
  operand.dtype = dtype;
  return operand;
}
std::vector<int64_t> sizes_of(const Shape& shape) { return {shape.sizes, shape.sizes + shape.rank}; }

Result infer_fine(Op op, std::vector<Operand> operands, Attributes attributes = {}) {
  Result result{};
  OpError error;
  EXPECT_TRUE(infer(op, operands, attributes, &result, &error)) << info(op).name << ": " << error.text;
  return result;
}
OpError infer_error(Op op, std::vector<Operand> operands, Attributes attributes = {}) {
  Result result{};
  OpError error;
  EXPECT_FALSE(infer(op, operands, attributes, &result, &error)) << info(op).name;
  return error;
}

TEST(Promotion, numbers_and_scalars_do_not_widen_within_their_kind) {
  struct Case {
    Operand a, b;
    DType result;
  } cases[] = {
      {tensor(kI4), tensor(kI8), kI8}, {tensor(kI8), tensor(kF4), kF4}, {tensor(kF4), tensor(kF8), kF8},
      {tensor(kB), tensor(kI4), kI4},  {tensor(kI4), number(kI8), kI4}, {tensor(kI4), number(kF8), kF4},
      {tensor(kI8), number(kF8), kF4}, {tensor(kF4), number(kF8), kF4}, {tensor(kF8), number(kI8), kF8},
      {tensor(kB), number(kI8), kI8},  {tensor(kB), number(kB), kB},    {tensor(kB), number(kF8), kF4},
      {tensor(kI4), scalar(kI8), kI4}, {tensor(kF4), scalar(kF8), kF4}, {tensor(kI4), scalar(kF8), kF8},
      {tensor(kB), scalar(kI4), kI4},  {scalar(kI4), scalar(kI8), kI8}, {scalar(kI4), number(kI8), kI4},
      {scalar(kI4), number(kF8), kF4}, {scalar(kF8), number(kF8), kF8}, {number(kI8), number(kF8), kF4},
      {number(kI8), number(kI8), kI8}, {scalar(kF4), tensor(kF8), kF8}, {scalar(kI8), tensor(kB), kI8},
  };
  for (const Case& c : cases) {
    const Operand forward[] = {c.a, c.b}, backward[] = {c.b, c.a};
    EXPECT_EQ(result_dtype(forward), c.result);
    EXPECT_EQ(result_dtype(backward), c.result);
  }
  EXPECT_EQ(promote_number(kI4, DTypeKind::kIntegerKind), kI4);
  EXPECT_EQ(promote_number(kI8, DTypeKind::kFloatingKind), kF4);
  EXPECT_EQ(promote_number(kB, DTypeKind::kIntegerKind), kI8);
}

// Result and compute dtype of every element-wise row for one dtype of all its operands.
TEST(Rules, every_row_and_dtype) {
  for (int i = 0; i < static_cast<int>(Op::kCount); i++) {
    const Op op = static_cast<Op>(i);
    const OpInfo& row = info(op);
    Op parsed;
    EXPECT_TRUE(parse_op(row.name, &parsed) && parsed == op);
    if (row.op_class != OpClass::kElementwise) continue;
    for (DType dtype : kAll) {
      std::vector<Operand> operands(row.arity, tensor(dtype));
      if (row.dtype_rule == DTypeRule::kChoose) operands[0] = tensor(kB);
      if (row.dtype_rule == DTypeRule::kPromoteNumber && dtype == kB) {
        EXPECT_NE(infer_error(op, operands).text.find("not defined for bool"), std::string::npos);
        continue;
      }
      const bool floating = dtype == kF4 || dtype == kF8;
      if ((row.dtype_rule == DTypeRule::kPromoteBits && floating) ||
          (row.dtype_rule == DTypeRule::kPromoteInteger && (floating || dtype == kB))) {
        EXPECT_EQ(infer_error(op, operands).text, std::string(row.name) + " is not defined for " + info(dtype).name +
                                                      "; convert to an integer dtype first");
        continue;
      }
      Attributes attributes;
      attributes.dtype = kF8;
      const Result result = infer_fine(op, operands, attributes);
      DType expected = dtype, compute = dtype;
      if (row.dtype_rule == DTypeRule::kPromoteFloat && !floating) expected = compute = kF4;
      if (row.dtype_rule == DTypeRule::kCompare) expected = kB;
      if (row.dtype_rule == DTypeRule::kLogical) expected = compute = kB;
      if (row.dtype_rule == DTypeRule::kConvert) expected = kF8;
      EXPECT_EQ(result.dtype, expected) << row.name << " " << info(dtype).name;
      EXPECT_EQ(result.compute, compute) << row.name << " " << info(dtype).name;
      EXPECT_EQ(sizes_of(result.shape), (std::vector<int64_t>{3}));
    }
  }
}

TEST(Rules, broadcasting) {
  const Result result = infer_fine(Op::k_where, {tensor(kB, {2, 1}), tensor(kI4, {3}), number(kF8)});
  EXPECT_EQ(sizes_of(result.shape), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(result.dtype, kF4);
  EXPECT_EQ(sizes_of(infer_fine(Op::k_add, {tensor(kF4, {0, 1}), tensor(kF4, {4})}).shape),
            (std::vector<int64_t>{0, 4}));
}

TEST(Rules, reductions) {
  Attributes all, first;
  all.dims = 3;
  first.dims = 1;
  first.keepdim = true;
  const Operand ints = tensor(kI4, {2, 3}), floats = tensor(kF4, {2, 3}), bools = tensor(kB, {2, 3});
  EXPECT_EQ(infer_fine(Op::k_sum, {ints}, all).dtype, kI8);
  EXPECT_EQ(infer_fine(Op::k_sum, {bools}, all).compute, kI8);
  EXPECT_EQ(infer_fine(Op::k_sum, {floats}, all).dtype, kF4);
  EXPECT_EQ(infer_fine(Op::k_amax, {bools}, all).dtype, kB);
  EXPECT_EQ(infer_fine(Op::k_any, {floats}, all).compute, kB);
  EXPECT_EQ(sizes_of(infer_fine(Op::k_sum, {ints}, all).shape), (std::vector<int64_t>{}));
  EXPECT_EQ(sizes_of(infer_fine(Op::k_sum, {ints}, first).shape), (std::vector<int64_t>{1, 3}));
  Attributes wide = all;
  wide.has_dtype = true;
  wide.dtype = kF8;
  EXPECT_EQ(infer_fine(Op::k_mean, {ints}, wide).dtype, kF8);

  Attributes last;
  last.has_dim = true;
  last.dim = -1;
  const Result index = infer_fine(Op::k_argmax, {floats}, last);
  EXPECT_EQ(index.dtype, kI8);
  EXPECT_EQ(index.compute, kF4);
  EXPECT_EQ(sizes_of(index.shape), (std::vector<int64_t>{2}));
  EXPECT_EQ(sizes_of(infer_fine(Op::k_argmax, {floats}).shape), (std::vector<int64_t>{}));
  EXPECT_EQ(sizes_of(infer_fine(Op::k_sum, {tensor(kF4, {0, 3})}, first).shape), (std::vector<int64_t>{1, 3}));

  EXPECT_EQ(infer_error(Op::k_mean, {ints}, all).text,
            "mean needs a floating dtype, got int32; pass dtype=float32 or convert first");
  EXPECT_EQ(infer_error(Op::k_amax, {tensor(kF4, {0, 3})}, first).text,
            "amax of no elements: shape [0, 3] has size 0 where it is reduced");
  Attributes beyond;
  beyond.dims = 4;
  EXPECT_EQ(infer_error(Op::k_sum, {ints}, beyond).text, "sum: dimension 2 is out of range for shape [2, 3] of rank 2");
  last.dim = 2;
  EXPECT_EQ(infer_error(Op::k_argmax, {ints}, last).kind, ErrorKind::kIndex);
}

TEST(Rules, products) {
  struct Case {
    std::vector<int64_t> a, b, result;
  } cases[] = {
      {{3}, {3}, {}},
      {{2, 3}, {3}, {2}},
      {{3}, {3, 4}, {4}},
      {{2, 3}, {3, 4}, {2, 4}},
      {{5, 2, 3}, {3, 4}, {5, 2, 4}},
      {{5, 1, 2, 3}, {7, 3, 4}, {5, 7, 2, 4}},
      {{2, 0}, {0, 4}, {2, 4}},
      {{3}, {5, 3, 4}, {5, 4}},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(sizes_of(infer_fine(Op::k_matmul, {tensor(kF4, c.a), tensor(kF4, c.b)}).shape), c.result);
  }
  EXPECT_EQ(infer_error(Op::k_matmul, {tensor(kF4, {2, 3}), tensor(kF4, {4, 5})}).text,
            "matmul: shapes [2, 3] and [4, 5] cannot be multiplied: sizes 3 and 4 differ");
  EXPECT_EQ(infer_error(Op::k_matmul, {tensor(kF4, {2, 3}), tensor(kF8, {3, 5})}).text,
            "matmul: dtypes float32 and float64 differ; convert one of them");
  EXPECT_EQ(infer_error(Op::k_matmul, {tensor(kF4, {2, 3}), scalar(kF4)}).text,
            "matmul: shapes [2, 3] and []: both must have at least one dimension");
  EXPECT_EQ(infer_error(Op::k_matmul, {tensor(kF4, {2, 2, 3}), tensor(kF4, {3, 3, 2})}).text,
            "matmul: shapes [2, 2, 3] and [3, 3, 2]: the leading shapes [2] and [3] cannot be broadcast together: "
            "sizes 2 and 3 differ at dimension -1");
  EXPECT_EQ(infer_error(Op::k_matmul, {tensor(kF4, {2, 3}), number(kF8)}).kind, ErrorKind::kType);
}

TEST(Rules, creation_and_movement) {
  Attributes attributes;
  attributes.shape = tensor(kF4, {2, 3}).shape;
  attributes.dtype = kI4;
  EXPECT_EQ(infer_fine(Op::k_full, {}, attributes).dtype, kI4);
  EXPECT_EQ(infer_error(Op::k_rand, {}, attributes).text, "rand needs a floating dtype, got int32");
  attributes.shape.sizes[0] = -1;
  EXPECT_EQ(infer_error(Op::k_full, {}, attributes).text, "full: shape [-1, 3] has a negative size");
  attributes.shape.sizes[0] = attributes.shape.sizes[1] = int64_t{1} << 40;
  EXPECT_NE(infer_error(Op::k_full, {}, attributes).text.find("too many elements"), std::string::npos);

  Attributes dim;
  dim.dim = -1;
  EXPECT_EQ(sizes_of(infer_fine(Op::k_cat, {tensor(kF4, {2, 3}), tensor(kI8, {2, 4})}, dim).shape),
            (std::vector<int64_t>{2, 7}));
  EXPECT_EQ(sizes_of(infer_fine(Op::k_cat, {tensor(kF4, {0}), tensor(kF4, {2, 4})}, dim).shape),
            (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(infer_fine(Op::k_stack, {tensor(kI4), tensor(kF4)}, dim).dtype, kF4);
  EXPECT_EQ(sizes_of(infer_fine(Op::k_stack, {tensor(kF4), tensor(kF4)}, dim).shape), (std::vector<int64_t>{3, 2}));
  dim.dim = 0;
  EXPECT_EQ(infer_error(Op::k_cat, {tensor(kF4, {2, 3}), tensor(kF4, {2, 4})}, dim).text,
            "cat: shapes [2, 3] and [2, 4] differ outside dimension 0");
  EXPECT_EQ(infer_error(Op::k_stack, {tensor(kF4, {2}), tensor(kF4, {3})}, dim).text,
            "stack: shapes [2] and [3] differ");
  EXPECT_EQ(infer_error(Op::k_cat, {}, dim).text, "cat needs at least one tensor");
  EXPECT_EQ(sizes_of(infer_fine(Op::k_gather, {tensor(kF4, {2, 3}), tensor(kI8, {5, 2})}, dim).shape),
            (std::vector<int64_t>{5, 2}));
  EXPECT_EQ(infer_error(Op::k_gather, {tensor(kF4, {2, 3}), tensor(kI8, {2, 4})}, dim).text,
            "gather: the index of shape [2, 4] is larger than the source of shape [2, 3] outside dimension 0");
  EXPECT_EQ(infer_error(Op::k_gather, {tensor(kF4, {2}), tensor(kF4, {2})}, dim).text,
            "gather: the index has dtype float32, not int64");
}

TEST(Rules, indices_and_scans) {
  Attributes how;
  how.dims = 0b101;  // apart: the front
  EXPECT_EQ(
      sizes_of(infer_fine(Op::k_index, {tensor(kF4, {2, 3, 4}), tensor(kI8, {5, 1}), tensor(kI4, {6})}, how).shape),
      (std::vector<int64_t>{5, 6, 3}));
  how.dims = 0b110;  // neighbours: their place
  EXPECT_EQ(
      sizes_of(infer_fine(Op::k_index, {tensor(kF4, {2, 3, 4}), tensor(kI8, {5, 1}), tensor(kI8, {6})}, how).shape),
      (std::vector<int64_t>{2, 5, 6}));
  EXPECT_EQ(infer_error(Op::k_index, {tensor(kF4, {2, 3, 4}), tensor(kI8, {2}), tensor(kI8, {3})}, how).kind,
            ErrorKind::kIndex);
  how.dims = 0b100;
  EXPECT_EQ(infer_error(Op::k_index, {tensor(kF4, {2, 3}), tensor(kI8, {2})}, how).text,
            "index: too many indices for shape [2, 3]");
  EXPECT_EQ(infer_error(Op::k_index, {tensor(kF4, {2, 3, 4}), tensor(kF4, {2})}, how).text,
            "index: a tensor used as an index has integers or bools, not float32");
  how.dim = -1;
  EXPECT_EQ(infer_fine(Op::k_cumsum, {tensor(DType::k_bool, {2, 3})}, how).dtype, kI8);
  EXPECT_EQ(infer_fine(Op::k_argsort, {tensor(kF4, {2, 3})}, how).dtype, kI8);
  how.dim = 2;
  EXPECT_EQ(infer_error(Op::k_cumsum, {tensor(kF4, {2, 3})}, how).text,
            "cumsum: dimension 2 is out of range for shape [2, 3]");
}

TEST(Rules, element_wise_errors) {
  EXPECT_EQ(infer_error(Op::k_add, {tensor(kF4, {2, 3}), tensor(kF4, {4})}).text,
            "add: shapes [2, 3] and [4] cannot be broadcast together: sizes 3 and 4 differ at dimension -1");
  EXPECT_EQ(infer_error(Op::k_where, {tensor(kI4), tensor(kF4), tensor(kF4)}).text,
            "where needs a bool condition, got int32; compare or convert it first");
  EXPECT_EQ(infer_error(Op::k_add, {tensor(kF4)}).text, "add takes 2 operands, got 1");
}

}  // namespace
}  // namespace kintsugi
