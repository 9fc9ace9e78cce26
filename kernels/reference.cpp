// See reference.h. Each row's expression becomes a function template over the element types; a walk over the index
// space calls it for one element at a time.
#include "kernels/reference.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/stencils/bodies.h"

namespace kintsugi {

namespace {

// ---- Rows as functions.

template <Op kOp>
struct Row;
#define KN_OP(name, op_class, arity, rule, identity, raises, ulp_f32, ulp_f64, expression, bool_expression, document) \
  template <>                                                                                                         \
  struct Row<Op::k_##name> {                                                                                          \
    static constexpr OpClass kClass = OpClass::op_class;                                                              \
    static constexpr int kArity = arity;                                                                              \
    static constexpr DTypeRule kRule = DTypeRule::rule;                                                               \
    static constexpr bool kRaises = raises;                                                                           \
    template <typename A, typename T>                                                                                 \
    static auto on_numbers([[maybe_unused]] A a, [[maybe_unused]] T b, [[maybe_unused]] T c) {                        \
      return expression;                                                                                              \
    }                                                                                                                 \
    static auto on_bools([[maybe_unused]] bool a, [[maybe_unused]] bool b, [[maybe_unused]] bool c) {                 \
      return bool_expression;                                                                                         \
    }                                                                                                                 \
  };
#include "kernels/ops.def"

constexpr bool computes_numbers(DTypeRule rule, bool floating) {
  switch (rule) {
    case DTypeRule::kLogical: return false;
    case DTypeRule::kPromoteBits:
    case DTypeRule::kPromoteInteger: return !floating;
    case DTypeRule::kPromoteFloat:
    case DTypeRule::kMean: return floating;
    default: return true;
  }
}

// Whether the row has an expression for compute dtype T. (An empty one makes a function that returns void.)
template <Op kOp, typename T>
constexpr bool has_expression() {
  using R = Row<kOp>;
  if constexpr (std::is_same_v<T, bool>) {
    return !std::is_void_v<decltype(R::on_bools(false, false, false))>;
  } else if constexpr (computes_numbers(R::kRule, std::is_floating_point_v<T>)) {
    using A = std::conditional_t<R::kRule == DTypeRule::kChoose, bool, T>;
    return !std::is_void_v<decltype(R::on_numbers(A{}, T{}, T{}))>;
  } else {
    return false;
  }
}

// A comparison gives bool, everything else T again.
template <Op kOp, typename T, typename A>
auto apply(A a, T b, T c) {
  if constexpr (std::is_same_v<T, bool>) {
    return static_cast<bool>(Row<kOp>::on_bools(a, b, c));
  } else {
    return Row<kOp>::on_numbers(a, b, c);
  }
}

template <Op kOp, typename T>
T fold(T partial, T element) {
  return apply<kOp, T>(partial, element, T{});
}

// ---- Types from dtypes, ops from numbers.

template <typename F>
decltype(auto) with_type(DType dtype, F&& f) {
#define KN_DTYPE(name, type, ...) \
  if (dtype == DType::k_##name) return f(type{});
#include "kernels/dtypes.def"
  __builtin_unreachable();
}

template <Op kOp>
using OpConstant = std::integral_constant<Op, kOp>;
template <typename F>
void with_op(Op op, F&& f) {
#define KN_OP(name, ...) \
  if (op == Op::k_##name) return f(OpConstant<Op::k_##name>{});
#include "kernels/ops.def"
}

template <typename T>
T load(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <>
bool load<bool>(const void* at) {
  return *static_cast<const uint8_t*>(at) != 0;
}
template <typename T>
void store(void* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

template <typename To, typename From>
To convert(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != 0;
  } else if constexpr (std::is_same_v<From, bool>) {
    return value ? 1 : 0;
  } else {
    return convert_body<To>(value);
  }
}

template <typename T>
[[gnu::noinline]] T load_as(DType dtype, const void* at) {
  return with_type(dtype, [at]<typename From>(From) { return convert<T>(load<From>(at)); });
}
template <typename T>
void store_as(DType dtype, void* at, T value) {
  with_type(dtype, [at, value]<typename To>(To) { store<To>(at, convert<To>(value)); });
}

// A number is a double for floating dtypes, as kernels take it.
template <typename T>
[[gnu::noinline]] T number_as(const OperandValue& operand) {
  if (info(operand.number_dtype).kind == DTypeKind::kFloatingKind) return convert<T>(operand.number.f64);
  if constexpr (std::is_floating_point_v<T>) return convert<T>(static_cast<double>(operand.number.i64));
  return convert<T>(operand.number.i64);
}

// ---- Walks.

// All indices of some sizes in row-major order, and where each operand's element lies.
class Walk {
 public:
  Walk(const Shape& space, size_t operands) : space_(space), strides_(operands), at_(operands) {}
  // The operand's dims meet the last dims of the space; sizes of 1 repeat.
  void place(size_t operand, TensorView view) {
    int lead = space_.rank - view.layout->rank;
    const int64_t bytes = static_cast<int64_t>(info(view.layout->dtype).bytes);
    for (int d = 0; d < view.layout->rank; d++) {
      bool repeats = view.layout->sizes[d] == 1 && space_.sizes[lead + d] != 1;
      strides_[operand].bytes[lead + d] = repeats ? 0 : view.layout->strides[d] * bytes;
    }
    at_[operand] = view.data;
  }
  char* at(size_t operand) const { return at_[operand]; }

  template <typename F>
  void each(F&& f) {
    for (int d = 0; d < space_.rank; d++) {
      if (space_.sizes[d] == 0) return;
    }
    int64_t index[kMaxRank] = {};
    for (;;) {
      f();
      int d = space_.rank - 1;
      for (; d >= 0; d--) {
        index[d]++;
        move(d, 1);
        if (index[d] < space_.sizes[d]) break;
        move(d, -index[d]);
        index[d] = 0;
      }
      if (d < 0) return;
    }
  }

 private:
  void move(int d, int64_t steps) {
    for (size_t operand = 0; operand < at_.size(); operand++) at_[operand] += steps * strides_[operand].bytes[d];
  }
  struct Strides {
    int64_t bytes[kMaxRank] = {};
  };
  Shape space_;
  std::vector<Strides> strides_;
  std::vector<char*> at_;
};

// The dims of the set, with strides in bytes.
Shape part_of(const Layout& layout, uint32_t dims) {
  Shape part;
  for (int d = 0; d < layout.rank; d++) {
    if (!(dims >> d & 1)) continue;
    part.sizes[part.rank] = layout.sizes[d];
    part.strides[part.rank++] = layout.strides[d] * static_cast<int64_t>(info(layout.dtype).bytes);
  }
  return part;
}
// Calls f with the byte offset of every index of a part.
template <typename F>
void each_offset(const Shape& part, F&& f) {
  int64_t index[kMaxRank] = {}, offset = 0;
  for (int d = 0; d < part.rank; d++) {
    if (part.sizes[d] == 0) return;
  }
  for (;;) {
    f(offset);
    int d = part.rank - 1;
    for (; d >= 0; d--) {
      offset += part.strides[d];
      if (++index[d] < part.sizes[d]) break;
      offset -= part.strides[d] * index[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

// ---- Classes of op.

struct Elements {
  std::span<const OperandValue> operands;
  Walk walk;  // the operands, then the result
  bool divides_by_zero = false;

  template <typename T>
  T operand(size_t i) const {
    if (i >= operands.size()) return T{};
    if (operands[i].is_number) return number_as<T>(operands[i]);
    return load_as<T>(operands[i].view.layout->dtype, walk.at(i));
  }
};

// The only part that there is for each op and type.
template <Op kOp, typename T>
void one_element(Elements* elements) {
  using A = std::conditional_t<Row<kOp>::kRule == DTypeRule::kChoose, bool, T>;
  const A a = elements->operand<A>(0);
  const T b = elements->operand<T>(1);
  const T c = elements->operand<T>(2);
  if (Row<kOp>::kRaises && std::is_integral_v<T> && b == 0) elements->divides_by_zero = true;
  using R = decltype(apply<kOp, T>(a, b, c));
  store<R>(elements->walk.at(elements->operands.size()), apply<kOp, T>(a, b, c));
}

bool elementwise(void (*one)(Elements*), std::span<const OperandValue> operands, TensorView out, OpError* error) {
  const size_t count = operands.size();
  Elements elements{operands, Walk(shape_of(*out.layout), count + 1)};
  for (size_t i = 0; i < count; i++) {
    if (!operands[i].is_number) elements.walk.place(i, operands[i].view);
  }
  elements.walk.place(count, out);
  elements.walk.each([&] { one(&elements); });
  if (elements.divides_by_zero) *error = {ErrorKind::kZeroDivision, "integer division or modulo by zero"};
  return !elements.divides_by_zero;
}

bool convert_elements(const OperandValue& operand, TensorView out) {
  Walk walk(shape_of(*out.layout), 2);
  if (!operand.is_number) walk.place(0, operand.view);
  walk.place(1, out);
  with_type(out.layout->dtype, [&]<typename T>(T) {
    walk.each([&] {
      store<T>(walk.at(1),
               operand.is_number ? number_as<T>(operand) : load_as<T>(operand.view.layout->dtype, walk.at(0)));
    });
  });
  return true;
}

template <typename T>
bool is_nan(T value) {
  return value != value;
}

template <typename T>
int64_t index_of_extreme(bool greatest, const char* data, const Shape& part) {
  int64_t best = -1, i = 0;
  T best_value{};
  each_offset(part, [&](int64_t offset) {
    const T value = load<T>(data + offset);
    if (best < 0 || (!is_nan(best_value) && (is_nan(value) || (greatest ? value > best_value : value < best_value)))) {
      best = i;
      best_value = value;
    }
    i++;
  });
  return best;
}

// All elements of one result, in the order that reference.h lays down.
template <typename T>
void reduce_one(Op op, DType from, DType compute, const char* data, const Shape& part, char* element) {
  T identity;
  write_identity(op, compute, &identity);
  T partials[kReductionPartials];
  std::vector<uint8_t> blocks;
  auto reset = [&] { std::fill_n(partials, kReductionPartials, identity); };
  auto finish_block = [&] {
    finish_partials(op, compute, partials);
    const auto* bytes = reinterpret_cast<const uint8_t*>(partials);
    blocks.insert(blocks.end(), bytes, bytes + sizeof(T));
  };
  reset();
  int64_t i = 0;
  with_op(op, [&](auto constant) {
    if constexpr (Row<constant()>::kClass == OpClass::kReduction && has_expression<constant(), T>()) {
      each_offset(part, [&](int64_t offset) {
        if (i > 0 && i % kReductionBlock == 0) {
          finish_block();
          reset();
        }
        T& partial = partials[i++ % kReductionPartials];
        partial = fold<constant(), T>(partial, load_as<T>(from, data + offset));
      });
    }
  });
  finish_block();
  combine_blocks(op, compute, blocks.data(), static_cast<int64_t>(blocks.size() / sizeof(T)));
  if (op == Op::k_mean) divide_by_count(compute, blocks.data(), i);
  std::memcpy(element, blocks.data(), sizeof(T));
}

bool reduce(Op op, TensorView in, const Attributes& attributes, DType compute, TensorView out) {
  const uint32_t folded = folded_dims(op, in.layout->rank, attributes);
  const Shape inner = part_of(*in.layout, folded);
  const Shape outer = part_of(*in.layout, ~folded);
  // Results are in the row-major order of the kept dims, whether or not out keeps the others as size 1.
  std::vector<char*> targets;
  Walk results(shape_of(*out.layout), 1);
  results.place(0, out);
  results.each([&] { targets.push_back(results.at(0)); });
  size_t next = 0;
  with_type(compute, [&]<typename T>(T) {
    each_offset(outer, [&](int64_t offset) {
      char* target = targets[next++];
      if (info(op).dtype_rule == DTypeRule::kIndex) {
        store<int64_t>(target, index_of_extreme<T>(op == Op::k_argmax, in.data + offset, inner));
      } else {
        reduce_one<T>(op, in.layout->dtype, compute, in.data + offset, inner, target);
      }
    });
  });
  return true;
}

// Terms added in order of the inner index, each product and sum rounded in the operands' dtype.
template <typename T>
void multiply(TensorView a, TensorView b, TensorView out) {
  const Layout &left = *a.layout, &right = *b.layout;
  const bool row = left.rank == 1, column = right.rank == 1;
  const int64_t size = static_cast<int64_t>(sizeof(T));
  const int64_t inner = left.sizes[left.rank - 1];
  const int64_t left_step = left.strides[left.rank - 1] * size;
  const int64_t right_step = right.strides[column ? 0 : right.rank - 2] * size;
  const int64_t row_step = row ? 0 : left.strides[left.rank - 2] * size;
  const int64_t column_step = column ? 0 : right.strides[right.rank - 1] * size;
  const int batch = out.layout->rank - !row - !column;

  int64_t index[kMaxRank] = {};
  Walk walk(shape_of(*out.layout), 1);
  walk.place(0, out);
  // Offset of the batch that index names in an operand with `matrix` trailing dims.
  auto batch_offset = [&](const Layout& layout, int matrix) {
    int64_t offset = 0;
    const int own = layout.rank - matrix;
    for (int d = 0; d < own; d++) {
      if (layout.sizes[d] != 1) offset += index[batch - own + d] * layout.strides[d] * size;
    }
    return offset;
  };
  walk.each([&] {
    const int64_t i = row ? 0 : index[batch], j = column ? 0 : index[batch + !row];
    const char* left_at = a.data + batch_offset(left, row ? 1 : 2) + i * row_step;
    const char* right_at = b.data + batch_offset(right, column ? 1 : 2) + j * column_step;
    T sum = 0;
    for (int64_t k = 0; k < inner; k++) sum += load<T>(left_at + k * left_step) * load<T>(right_at + k * right_step);
    store<T>(walk.at(0), sum);
    for (int d = out.layout->rank - 1; d >= 0; d--) {
      if (++index[d] < out.layout->sizes[d]) break;
      index[d] = 0;
    }
  });
}

bool create(Op op, const Attributes& attributes, TensorView out) {
  const DType dtype = out.layout->dtype;
  const bool floating = info(dtype).kind == DTypeKind::kFloatingKind;
  const int64_t columns = out.layout->rank ? out.layout->sizes[out.layout->rank - 1] : 1;
  Walk walk(shape_of(*out.layout), 1);
  walk.place(0, out);
  int64_t i = 0;
  auto each = [&](auto value) {
    walk.each([&] {
      store_as(dtype, walk.at(0), value());
      i++;
    });
    return true;
  };
  switch (op) {
    case Op::k_full:
      return floating ? each([&] { return attributes.start; }) : each([&] { return attributes.int_start; });
    case Op::k_arange:
      return floating ? each([&] { return attributes.start + static_cast<double>(i) * attributes.step; })
                      : each([&] { return attributes.int_start + i * attributes.int_step; });
    case Op::k_eye: return each([&] { return int64_t{i / columns == i % columns}; });
    case Op::k_rand:
    case Op::k_randn: {
      auto draw = [&]<typename T>(T) {
        return each([&] {
          const RandomWords words = random_words(attributes.seed, attributes.draw, static_cast<uint64_t>(i));
          return op == Op::k_rand ? uniform<T>(words, 0) : normal<T>(words);
        });
      };
      return dtype == DType::k_float32 ? draw(float{}) : draw(double{});
    }
    default: return false;
  }
}

// cat and stack: each operand fills its own part of out.
bool join(Op op, std::span<const OperandValue> operands, const Attributes& attributes, TensorView out, OpError* error) {
  const int rank = out.layout->rank;
  const int dim = attributes.dim < 0 ? attributes.dim + rank : attributes.dim;
  const int64_t bytes = static_cast<int64_t>(info(out.layout->dtype).bytes);
  int64_t at = 0;
  for (const OperandValue& operand : operands) {
    Shape shape = shape_of(*out.layout);
    int64_t offset = 0;
    if (op == Op::k_stack) {
      if (!select_dim(&shape, &offset, dim, at++, error)) return false;
    } else {
      if (is_skipped_by_cat(shape_of(*operand.view.layout))) continue;
      const int64_t size = operand.view.layout->sizes[dim];
      if (!slice_dim(&shape, &offset, dim, at, at + size, 1, error)) return false;
      at += size;
    }
    Layout* layout = intern_layout(out.layout->dtype, shape);
    convert_elements(operand, {layout, out.data + offset * bytes});
    release(layout);
  }
  return true;
}

template <typename Index>
bool gather(TensorView source, TensorView index, int dim, TensorView out, OpError* error) {
  const Layout &from = *source.layout, &numbers = *index.layout, &to = *out.layout;
  const size_t bytes = info(from.dtype).bytes;
  const int64_t size = from.rank == 0 ? 1 : from.sizes[dim], stride = from.rank == 0 ? 0 : from.strides[dim];
  int64_t at[kMaxRank] = {};
  for (int64_t n = 0; n < numbers.count; n++) {
    int64_t place = 0, read = 0, written = 0;
    for (int d = 0; d < numbers.rank; d++) {
      if (d != dim && d < from.rank) place += at[d] * from.strides[d];
      read += at[d] * numbers.strides[d];
      written += at[d] * to.strides[d];
    }
    const int64_t number = load<Index>(index.data + read * static_cast<int64_t>(sizeof(Index)));
    if (number < 0 || number >= size) {
      *error = {ErrorKind::kIndex, "index " + std::to_string(number) + " is out of bounds for dimension " +
                                       std::to_string(dim) + " with size " + std::to_string(size)};
      return false;
    }
    std::memcpy(out.data + written * static_cast<int64_t>(bytes),
                source.data + (place + number * stride) * static_cast<int64_t>(bytes), bytes);
    for (int d = numbers.rank - 1; d >= 0 && ++at[d] == numbers.sizes[d]; d--) at[d] = 0;
  }
  return true;
}

// Elements beyond the numbers of each index; out is in the order that infer_index() lays down.
bool take(std::span<const OperandValue> operands, uint32_t dims, TensorView out, OpError* error) {
  const TensorView source = operands[0].view;
  const Layout &from = *source.layout, &to = *out.layout;
  const size_t bytes = info(from.dtype).bytes;
  const int count = static_cast<int>(operands.size()) - 1, first = __builtin_ctz(dims);
  const bool neighbours = ((dims >> first) & ((dims >> first) + 1)) == 0;
  const int rank = to.rank - (from.rank - count);  // of the indices, broadcast
  const int where = neighbours ? first : 0;        // their first dimension in out
  int64_t at[kMaxRank] = {};
  for (int64_t n = 0; n < to.count; n++) {
    int64_t place = 0, written = 0;
    int index = 0, kept = 0;
    for (int d = 0; d < to.rank; d++) written += at[d] * to.strides[d];
    for (int d = 0; d < from.rank; d++) {
      if ((dims >> d & 1) == 0) {
        const int of_out = neighbours && kept < first ? kept : kept + rank;
        place += at[of_out] * from.strides[d];
        kept++;
        continue;
      }
      const TensorView numbers = operands[++index].view;
      const Layout& layout = *numbers.layout;
      int64_t read = 0;
      for (int i = 0; i < layout.rank; i++)
        if (layout.sizes[i] != 1) read += at[where + rank - layout.rank + i] * layout.strides[i];
      int64_t number = layout.dtype == DType::k_int32 ? load<int32_t>(numbers.data + read * 4)
                                                      : load<int64_t>(numbers.data + read * 8);
      if (number < -from.sizes[d] || number >= from.sizes[d]) {
        *error = {ErrorKind::kIndex, "index " + std::to_string(number) + " is out of bounds for dimension " +
                                         std::to_string(d) + " with size " + std::to_string(from.sizes[d])};
        return false;
      }
      if (number < 0) number += from.sizes[d];
      place += number * from.strides[d];
    }
    std::memcpy(out.data + written * static_cast<int64_t>(bytes), source.data + place * static_cast<int64_t>(bytes),
                bytes);
    for (int d = to.rank - 1; d >= 0 && ++at[d] == to.sizes[d]; d--) at[d] = 0;
  }
  return true;
}

template <typename T>
bool comes_before(T a, T b) {  // NaN last
  return is_nan(b) ? !is_nan(a) : a < b;
}

// One line after the other: running sums, or the numbers of its elements in order.
template <typename T>
void scan(Op op, TensorView in, int dim, bool descends, TensorView out) {
  const Layout &from = *in.layout, &to = *out.layout;
  const int64_t size = from.rank == 0 ? 1 : from.sizes[dim];
  const int64_t step = from.rank == 0 ? 0 : from.strides[dim], to_step = to.rank == 0 ? 0 : to.strides[dim];
  const int64_t bytes = static_cast<int64_t>(info(from.dtype).bytes);
  std::vector<int64_t> order(static_cast<size_t>(size));
  if (from.count == 0) return;
  int64_t at[kMaxRank] = {};
  for (int64_t line = 0; line < from.count / size; line++) {
    int64_t read = 0, written = 0;
    for (int d = 0; d < from.rank; d++) {
      read += at[d] * from.strides[d];
      written += at[d] * to.strides[d];
    }
    auto element = [&](int64_t i) { return load_as<T>(from.dtype, in.data + (read + i * step) * bytes); };
    if (op == Op::k_cumsum) {
      T sum{};
      for (int64_t i = 0; i < size; i++) {
        if constexpr (std::is_same_v<T, bool>) {
          sum = i == 0 ? element(i) : sum || element(i);
        } else {
          sum = i == 0 ? element(i) : static_cast<T>(sum + element(i));
        }
        store<T>(out.data + (written + i * to_step) * static_cast<int64_t>(sizeof(T)), sum);
      }
    } else {
      for (int64_t i = 0; i < size; i++) order[static_cast<size_t>(i)] = i;
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return descends ? comes_before(element(b), element(a)) : comes_before(element(a), element(b));
      });
      for (int64_t i = 0; i < size; i++)
        store<int64_t>(out.data + (written + i * to_step) * 8, order[static_cast<size_t>(i)]);
    }
    for (int d = from.rank - 1; d >= 0; d--) {
      if (d == dim) continue;
      if (++at[d] != from.sizes[d]) break;
      at[d] = 0;
    }
  }
}

// What infer() says of these operands must be what out was made for.
bool check(Op op, std::span<const OperandValue> operands, const Attributes& attributes, TensorView out, Result* result,
           OpError* error) {
  std::vector<Operand> facts(operands.size());
  for (size_t i = 0; i < operands.size(); i++) {
    facts[i].is_number = operands[i].is_number;
    facts[i].dtype = operands[i].is_number ? operands[i].number_dtype : operands[i].view.layout->dtype;
    if (!operands[i].is_number) facts[i].shape = shape_of(*operands[i].view.layout);
  }
  // Conversion and creation give whatever out is.
  Attributes wanted = attributes;
  if (op == Op::k_convert || info(op).op_class == OpClass::kCreation) wanted.dtype = out.layout->dtype;
  if (info(op).op_class == OpClass::kCreation) wanted.shape = shape_of(*out.layout);
  if (!infer(op, facts, wanted, result, error)) return false;
  const Layout& layout = *out.layout;
  const bool fits = result->dtype == layout.dtype && result->shape.rank == layout.rank &&
                    std::equal(layout.sizes, layout.sizes + layout.rank, result->shape.sizes);
  if (!fits) {
    *error = {ErrorKind::kRuntime, std::string(info(op).name) + ": the result has dtype " + info(result->dtype).name +
                                       " and shape " +
                                       sizes_text({result->shape.sizes, static_cast<size_t>(result->shape.rank)}) +
                                       ", out has layout " + to_text(layout)};
  }
  return fits;
}

}  // namespace

bool run_reference(Op op, std::span<const OperandValue> operands, const Attributes& attributes, TensorView out,
                   OpError* error) {
  Result result;
  if (!check(op, operands, attributes, out, &result, error)) return false;
  switch (info(op).op_class) {
    case OpClass::kElementwise: {
      if (op == Op::k_convert) return convert_elements(operands[0], out);
      bool fine = false;
      with_op(op, [&](auto constant) {
        if constexpr (Row<constant()>::kClass == OpClass::kElementwise) {
          with_type(result.compute, [&]<typename T>(T) {
            if constexpr (has_expression<constant(), T>())
              fine = elementwise(one_element<constant(), T>, operands, out, error);
          });
        }
      });
      return fine;
    }
    case OpClass::kReduction: return reduce(op, operands[0].view, attributes, result.compute, out);
    case OpClass::kMatmul:
      with_type(result.compute, [&]<typename T>(T) {
        if constexpr (!std::is_same_v<T, bool>) multiply<T>(operands[0].view, operands[1].view, out);
      });
      return true;
    case OpClass::kCreation: return create(op, attributes, out);
    case OpClass::kMovement:
      if (op == Op::k_gather) {
        const TensorView index = operands[1].view;
        return index.layout->dtype == DType::k_int32
                   ? gather<int32_t>(operands[0].view, index, attributes.dim, out, error)
                   : gather<int64_t>(operands[0].view, index, attributes.dim, out, error);
      }
      if (op == Op::k_index) return take(operands, attributes.dims, out, error);
      return op == Op::k_copy ? convert_elements(operands[0], out) : join(op, operands, attributes, out, error);
    case OpClass::kScan: {
      const int rank = out.layout->rank;
      const int dim = rank == 0 ? 0 : attributes.dim < 0 ? attributes.dim + rank : attributes.dim;
      with_type(result.compute,
                [&]<typename T>(T) { scan<T>(op, operands[0].view, dim, attributes.int_step < 0, out); });
      return true;
    }
  }
  return false;
}

void finish_partials(Op op, DType compute, void* partials) {
  with_op(op, [&](auto constant) {
    with_type(compute, [&]<typename T>(T) {
      if constexpr (Row<constant()>::kClass == OpClass::kReduction && has_expression<constant(), T>()) {
        T* elements = static_cast<T*>(partials);
        for (int apart = kReductionPartials / 2; apart > 0; apart /= 2) {
          for (int j = 0; j < apart; j++) elements[j] = fold<constant(), T>(elements[j], elements[j + apart]);
        }
      }
    });
  });
}

namespace {
template <Op kOp, typename T>
T combine(const T* blocks, int64_t count) {
  if (count == 1) return blocks[0];
  const auto half = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count)) / 2);
  return fold<kOp, T>(combine<kOp, T>(blocks, half), combine<kOp, T>(blocks + half, count - half));
}
}  // namespace

void combine_blocks(Op op, DType compute, void* blocks, int64_t count) {
  with_op(op, [&](auto constant) {
    with_type(compute, [&]<typename T>(T) {
      if constexpr (Row<constant()>::kClass == OpClass::kReduction && has_expression<constant(), T>()) {
        T* elements = static_cast<T*>(blocks);
        elements[0] = combine<constant(), T>(elements, count);
      }
    });
  });
}

void divide_by_count(DType compute, void* sum, int64_t count) {
  with_type(compute, [&]<typename T>(T) {
    if constexpr (std::is_floating_point_v<T>) store<T>(sum, load<T>(sum) / static_cast<T>(count));
  });
}

void convert_element(DType from, const void* source, DType to, void* target) {
  with_type(to, [&]<typename T>(T) { store<T>(target, load_as<T>(from, source)); });
}

}  // namespace kintsugi
