// Arrays for kernel tests: owned memory under a layout, filled and read as doubles or exact integers.
#pragma once
#include <cstring>
#include <vector>

#include "kernels/cpu.h"

namespace kintsugi {

inline Shape shape_with(std::vector<int64_t> sizes) {
  Shape shape;
  shape.rank = static_cast<int>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), shape.sizes);
  set_contiguous_strides(&shape);
  return shape;
}

class Array {
 public:
  Array(DType dtype, const Shape& shape) : layout_(intern_layout(dtype, shape)) {
    first_ = -layout_->low;
    memory_.resize((layout_->high - layout_->low) * info(dtype).bytes + 1);
  }
  Array(DType dtype, std::vector<int64_t> sizes) : Array(dtype, shape_with(std::move(sizes))) {}
  template <typename T>
  static Array of(DType dtype, const std::vector<T>& values) {
    Array array(dtype, std::vector<int64_t>{static_cast<int64_t>(values.size())});
    if (!values.empty()) std::memcpy(array.memory_.data(), values.data(), values.size() * sizeof(T));
    return array;
  }
  Array(const Array& other) : layout_(other.layout_), memory_(other.memory_), first_(other.first_) { retain(layout_); }
  Array& operator=(const Array&) = delete;
  ~Array() { release(layout_); }

  const Layout& layout() const { return *layout_; }
  TensorView view() { return {layout_, memory_.data() + first_ * static_cast<int64_t>(info(layout_->dtype).bytes)}; }
  OperandValue operand() { return {.is_number = false, .view = view()}; }
  template <typename T>
  T* data() {
    return reinterpret_cast<T*>(view().data);
  }

  // Elements in row-major order.
  std::vector<char*> elements() {
    std::vector<char*> result;
    int64_t index[kMaxRank] = {};
    for (int64_t n = 0; n < layout_->count; n++) {
      int64_t offset = 0;
      for (int d = 0; d < layout_->rank; d++) offset += index[d] * layout_->strides[d];
      result.push_back(view().data + offset * static_cast<int64_t>(info(layout_->dtype).bytes));
      for (int d = layout_->rank - 1; d >= 0 && ++index[d] == layout_->sizes[d]; d--) index[d] = 0;
    }
    return result;
  }
  std::vector<double> values() {
    std::vector<double> result;
    for (char* at : elements()) result.push_back(read(at));
    return result;
  }
  void fill(const std::vector<double>& values) {
    std::vector<char*> at = elements();
    for (size_t i = 0; i < at.size(); i++) write(at[i], values[i % values.size()]);
  }
  // One bit pattern for every NaN.
  std::vector<uint64_t> bit_patterns() {
    std::vector<uint64_t> result;
    for (char* at : elements()) {
      uint64_t bits = 0;
      std::memcpy(&bits, at, info(layout_->dtype).bytes);
      double value = read(at);
      result.push_back(value != value ? ~uint64_t{0} : bits);
    }
    return result;
  }

 private:
  double read(const char* at) const {
#define KN_DTYPE(name, type, ...) \
  if (layout_->dtype == DType::k_##name) return static_cast<double>(*reinterpret_cast<const type*>(at));
#include "kernels/dtypes.def"
    return 0;
  }
  void write(char* at, double value) {
#define KN_DTYPE(name, type, ...) \
  if (layout_->dtype == DType::k_##name) *reinterpret_cast<type*>(at) = static_cast<type>(value);
#include "kernels/dtypes.def"
  }
  Layout* layout_;
  std::vector<char> memory_;
  int64_t first_;
};

inline OperandValue number(double value) {
  OperandValue operand{.is_number = true};
  operand.number_dtype = DType::k_float64;
  operand.number.f64 = value;
  return operand;
}
inline OperandValue number(int64_t value) {
  OperandValue operand{.is_number = true};
  operand.number_dtype = DType::k_int64;
  operand.number.i64 = value;
  return operand;
}

}  // namespace kintsugi
