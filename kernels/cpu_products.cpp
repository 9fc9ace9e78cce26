// Sizes up to 8 x 8 x 8 are copied into padded local arrays and multiplied row by row, the sum in order of k: the same
// bits on every CPU. Above that a product is one call of sgemm or dgemm per matrix, on one thread.
#include "kernels/cpu_products.h"

#include <cblas.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>

namespace kintsugi {
namespace {

constexpr int kSmall = 8;

// One matrix, strides in elements.
template <typename T>
struct Matrix {
  T* data;
  int64_t rows, columns, row_stride, column_stride;
};

// Integers wrap.
template <typename T>
using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

// b has at most kRows rows; with exactly as many the loop over them unrolls.
template <typename T, int kColumns, int kRows>
void multiply_small(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& out) {
  using U = Wrapping<T>;
  typedef U Row __attribute__((vector_size(kColumns * sizeof(U))));
  Row right[kRows];
  for (int64_t k = 0; k < b.rows; ++k) {
    const T* row = b.data + k * b.row_stride;
    Row values{};
    if (b.column_stride == 1 && b.columns == kColumns) {
      std::memcpy(&values, row, sizeof values);
    } else {
      for (int64_t n = 0; n < b.columns; ++n) values[n] = static_cast<U>(row[n * b.column_stride]);
    }
    right[k] = values;
  }
  for (int64_t m = 0; m < a.rows; ++m) {
    const T* left = a.data + m * a.row_stride;
    Row sum{};
    if (b.rows == kRows) {
      for (int k = 0; k < kRows; ++k) sum += static_cast<U>(left[k * a.column_stride]) * right[k];
    } else {
      for (int64_t k = 0; k < b.rows; ++k) sum += static_cast<U>(left[k * a.column_stride]) * right[k];
    }
    T* row = out.data + m * out.row_stride;
    if (out.column_stride == 1 && out.columns == kColumns) {
      std::memcpy(row, &sum, sizeof sum);
    } else {
      for (int64_t n = 0; n < out.columns; ++n) row[n * out.column_stride] = static_cast<T>(sum[n]);
    }
  }
}

template <typename T>
void multiply_plain(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& out) {
  using U = Wrapping<T>;
  for (int64_t m = 0; m < a.rows; ++m) {
    T* row = out.data + m * out.row_stride;
    for (int64_t n = 0; n < b.columns; ++n) row[n * out.column_stride] = 0;
    for (int64_t k = 0; k < b.rows; ++k) {
      const U left = static_cast<U>(a.data[m * a.row_stride + k * a.column_stride]);
      for (int64_t n = 0; n < b.columns; ++n) {
        T& element = row[n * out.column_stride];
        element = static_cast<T>(static_cast<U>(element) +
                                 left * static_cast<U>(b.data[k * b.row_stride + n * b.column_stride]));
      }
    }
  }
}

// A matrix as BLAS takes it: row major or transposed row major; anything else is copied first.
template <typename T>
struct BlasOperand {
  CBLAS_TRANSPOSE transpose = CblasNoTrans;
  const T* data;
  int64_t leading;
  std::unique_ptr<T[]> copy;

  explicit BlasOperand(const Matrix<const T>& from) : data(from.data) {
    if (from.column_stride == 1 && from.row_stride >= std::max<int64_t>(1, from.columns)) {
      leading = from.row_stride;
    } else if (from.row_stride == 1 && from.column_stride >= std::max<int64_t>(1, from.rows)) {
      transpose = CblasTrans;
      leading = from.column_stride;
    } else {
      copy.reset(new T[from.rows * from.columns]);
      for (int64_t m = 0; m < from.rows; ++m) {
        for (int64_t n = 0; n < from.columns; ++n) {
          copy[m * from.columns + n] = from.data[m * from.row_stride + n * from.column_stride];
        }
      }
      data = copy.get();
      leading = std::max<int64_t>(1, from.columns);
    }
  }
};

template <typename T>
void multiply_blas(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& out) {
  static const bool single_thread = (openblas_set_num_threads(1), true);
  (void)single_thread;
  const BlasOperand<T> left(a), right(b);
  const bool direct = out.column_stride == 1 && out.row_stride >= out.columns;
  std::unique_ptr<T[]> copy(direct ? nullptr : new T[out.rows * out.columns]);
  T* target = direct ? out.data : copy.get();
  const auto m = static_cast<blasint>(out.rows), n = static_cast<blasint>(out.columns),
             k = static_cast<blasint>(a.columns);
  const auto lda = static_cast<blasint>(left.leading), ldb = static_cast<blasint>(right.leading);
  const auto ldc = static_cast<blasint>(direct ? out.row_stride : out.columns);
  if constexpr (std::is_same_v<T, float>) {
    cblas_sgemm(CblasRowMajor, left.transpose, right.transpose, m, n, k, 1.0f, left.data, lda, right.data, ldb, 0.0f,
                target, ldc);
  } else {
    cblas_dgemm(CblasRowMajor, left.transpose, right.transpose, m, n, k, 1.0, left.data, lda, right.data, ldb, 0.0,
                target, ldc);
  }
  if (direct) return;
  for (int64_t row = 0; row < out.rows; ++row) {
    for (int64_t column = 0; column < out.columns; ++column) {
      out.data[row * out.row_stride + column * out.column_stride] = target[row * out.columns + column];
    }
  }
}

template <typename T>
void multiply(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& out) {
  if (out.rows == 0 || out.columns == 0) return;
  if (out.rows <= kSmall && out.columns <= kSmall && a.columns <= kSmall) {
    if (out.columns <= 4 && a.columns <= 4) return multiply_small<T, 4, 4>(a, b, out);
    return multiply_small<T, kSmall, kSmall>(a, b, out);
  }
  if constexpr (std::is_floating_point_v<T>) {
    constexpr int64_t kMost = std::numeric_limits<blasint>::max();
    const int64_t largest = std::max({out.rows, out.columns, a.columns, a.row_stride, a.column_stride, b.row_stride,
                                      b.column_stride, out.row_stride});
    if (a.columns > 0 && largest <= kMost) return multiply_blas<T>(a, b, out);
  }
  multiply_plain<T>(a, b, out);
}

// The last two dims of an operand as a matrix; dims before them are the batch.
template <typename T>
Matrix<T> matrix_of(TensorView view, bool is_left) {
  const Layout& layout = *view.layout;
  auto* data = reinterpret_cast<T*>(view.data);
  const int last = layout.rank - 1;
  if (layout.rank == 1) {
    if (is_left) return {data, 1, layout.sizes[0], layout.sizes[0], layout.strides[0]};
    return {data, layout.sizes[0], 1, layout.strides[0], 1};
  }
  return {data, layout.sizes[last - 1], layout.sizes[last], layout.strides[last - 1], layout.strides[last]};
}

template <typename T>
void multiply_batches(TensorView a, TensorView b, TensorView out) {
  Matrix<const T> left = matrix_of<const T>(a, /*is_left=*/true), right = matrix_of<const T>(b, /*is_left=*/false);
  const bool row = a.layout->rank == 1, column = b.layout->rank == 1;
  const Layout& result = *out.layout;
  const int batch = result.rank - (row ? 0 : 1) - (column ? 0 : 1);
  // A stride of a dropped dim is never used but by BLAS as a leading dimension.
  Matrix<T> target{reinterpret_cast<T*>(out.data), left.rows, right.columns, right.columns, 1};
  if (!column) target.column_stride = result.strides[result.rank - 1];
  if (!row) target.row_stride = result.strides[batch];

  if (batch == 0) return multiply<T>(left, right, target);

  int64_t total = 1, sizes[kMaxRank] = {}, steps[kMaxRank][3] = {};
  for (int d = 0; d < batch; ++d) {
    sizes[d] = result.sizes[d];
    total *= sizes[d];
    steps[d][2] = result.strides[d];
    const Layout* const operands[2] = {a.layout, b.layout};
    for (int n = 0; n < 2; ++n) {
      const int own = d - (batch - (operands[n]->rank - 2));
      if (own >= 0 && operands[n]->sizes[own] != 1) steps[d][n] = operands[n]->strides[own];
    }
  }
  for (int64_t n = 0; n < total; ++n) {
    int64_t rest = n, offsets[3] = {};
    for (int d = batch - 1; d >= 0; --d) {
      const int64_t at = rest % sizes[d];
      rest /= sizes[d];
      for (int k = 0; k < 3; ++k) offsets[k] += at * steps[d][k];
    }
    Matrix<const T> one_left = left, one_right = right;
    Matrix<T> one_target = target;
    one_left.data += offsets[0];
    one_right.data += offsets[1];
    one_target.data += offsets[2];
    multiply<T>(one_left, one_right, one_target);
  }
}

}  // namespace

bool run_matmul(TensorView a, TensorView b, TensorView out, OpError* error) {
  switch (out.layout->dtype) {
    case DType::k_float32: multiply_batches<float>(a, b, out); return true;
    case DType::k_float64: multiply_batches<double>(a, b, out); return true;
    case DType::k_int32: multiply_batches<int32_t>(a, b, out); return true;
    case DType::k_int64: multiply_batches<int64_t>(a, b, out); return true;
    case DType::k_bool: break;
  }
  *error = {ErrorKind::kRuntime, "matmul: no product of bools; convert them first"};
  return false;
}

}  // namespace kintsugi
