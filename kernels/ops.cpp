// The shape and dtype rules, one short function for each class of op.
#include "kernels/ops.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace kintsugi {

namespace {

constexpr OpInfo kInfo[] = {
#define KN_OP(name, op_class, arity, dtype_rule, identity, may_raise, ulp_f32, ulp_f64, expression, on_bool, document) \
  {#name,       OpClass::op_class, arity,   DTypeRule::dtype_rule, Identity::identity, may_raise, ulp_f32, ulp_f64,    \
   #expression, #on_bool,          document},
#include "kernels/ops.def"
};
static_assert(std::size(kInfo) == static_cast<size_t>(Op::kCount));

bool fail(OpError* error, ErrorKind kind, std::string text) {
  *error = {kind, std::move(text)};
  return false;
}

std::string sizes_of(const Shape& shape) { return sizes_text({shape.sizes, static_cast<size_t>(shape.rank)}); }
std::string name_of(DType dtype) { return info(dtype).name; }
bool is_floating(DType dtype) { return info(dtype).kind == DTypeKind::kFloatingKind; }

// Sets result's compute and dtype from the promoted dtype of the operands.
bool apply_dtype_rule(Op op, DType promoted, const Attributes& attributes, Result* result, OpError* error) {
  std::string name = info(op).name;
  DType wanted = attributes.has_dtype ? attributes.dtype : promoted;
  result->compute = result->dtype = promoted;
  switch (info(op).dtype_rule) {
    case DTypeRule::kPromote:
    case DTypeRule::kSame:
    case DTypeRule::kChoose: return true;
    case DTypeRule::kPromoteNumber:
    case DTypeRule::kSameBoth:
      if (promoted == DType::k_bool) {
        return fail(error, ErrorKind::kRuntime,
                    name + " is not defined for bool; convert to int32 or another number dtype first");
      }
      return true;
    case DTypeRule::kPromoteBits:
    case DTypeRule::kPromoteInteger:
      if (is_floating(promoted) || (promoted == DType::k_bool && info(op).dtype_rule == DTypeRule::kPromoteInteger)) {
        return fail(error, ErrorKind::kRuntime,
                    name + " is not defined for " + name_of(promoted) + "; convert to an integer dtype first");
      }
      return true;
    case DTypeRule::kPromoteFloat:
      if (!is_floating(promoted)) result->compute = result->dtype = DType::k_float32;
      return true;
    case DTypeRule::kCompare: result->dtype = DType::k_bool; return true;
    case DTypeRule::kLogical: result->compute = result->dtype = DType::k_bool; return true;
    case DTypeRule::kConvert: result->dtype = attributes.dtype; return true;
    case DTypeRule::kSum:
      if (!attributes.has_dtype && !is_floating(promoted)) wanted = DType::k_int64;
      result->compute = result->dtype = wanted;
      return true;
    case DTypeRule::kMean:
      if (!is_floating(wanted)) {
        return fail(error, ErrorKind::kRuntime,
                    "mean needs a floating dtype, got " + name_of(wanted) + "; pass dtype=float32 or convert first");
      }
      result->compute = result->dtype = wanted;
      return true;
    case DTypeRule::kIndex: result->dtype = DType::k_int64; return true;
    case DTypeRule::kGivenFloat:
      if (!is_floating(attributes.dtype)) {
        return fail(error, ErrorKind::kRuntime, name + " needs a floating dtype, got " + name_of(attributes.dtype));
      }
      [[fallthrough]];
    case DTypeRule::kGiven: result->compute = result->dtype = attributes.dtype; return true;
  }
  return true;
}

bool infer_elementwise(Op op, std::span<const Operand> operands, const Attributes& attributes, Result* result,
                       OpError* error) {
  for (const Operand& operand : operands) {
    if (!broadcast(result->shape, operand.shape, &result->shape, error)) {
      error->text = std::string(info(op).name) + ": " + error->text;
      return false;
    }
  }
  bool chooses = info(op).dtype_rule == DTypeRule::kChoose;
  if (chooses && operands[0].dtype != DType::k_bool) {
    return fail(error, ErrorKind::kRuntime,
                "where needs a bool condition, got " + name_of(operands[0].dtype) + "; compare or convert it first");
  }
  return apply_dtype_rule(op, result_dtype(chooses ? operands.subspan(1) : operands), attributes, result, error);
}

bool infer_reduction(Op op, const Operand& operand, const Attributes& attributes, Result* result, OpError* error) {
  std::string name = info(op).name;
  const Shape& shape = operand.shape;
  uint32_t allowed = (1u << shape.rank) - 1;
  if (info(op).dtype_rule == DTypeRule::kIndex) {
    // A scalar has a dimension 0 as far as dim= goes.
    int limit = std::max(shape.rank, 1);
    if (attributes.has_dim && (attributes.dim < -limit || attributes.dim >= limit)) {
      return fail(error, ErrorKind::kIndex,
                  name + ": dimension " + std::to_string(attributes.dim) + " is out of range for shape " +
                      sizes_of(shape) + " of rank " + std::to_string(shape.rank));
    }
  } else if (attributes.dims & ~allowed) {
    return fail(error, ErrorKind::kIndex,
                name + ": dimension " + std::to_string(31 - __builtin_clz(attributes.dims & ~allowed)) +
                    " is out of range for shape " + sizes_of(shape) + " of rank " + std::to_string(shape.rank));
  }

  uint32_t folded = folded_dims(op, shape.rank, attributes);
  bool needs_elements = info(op).identity != Identity::kZero && info(op).dtype_rule != DTypeRule::kLogical;
  bool has_results = true, folds_nothing = false;
  for (int d = 0; d < shape.rank; d++) {
    bool folds = folded >> d & 1;
    if (!folds || attributes.keepdim) result->shape.sizes[result->shape.rank++] = folds ? 1 : shape.sizes[d];
    if (folds) {
      folds_nothing |= shape.sizes[d] == 0;
    } else {
      has_results &= shape.sizes[d] != 0;
    }
  }
  if (needs_elements && folds_nothing && has_results) {
    return fail(error, ErrorKind::kIndex,
                name + " of no elements: shape " + sizes_of(shape) + " has size 0 where it is reduced");
  }
  set_contiguous_strides(&result->shape);
  return apply_dtype_rule(op, operand.dtype, attributes, result, error);
}

// torch's rule: 1-D operands are a row on the left and a column on the right, and that dimension is dropped again.
bool infer_matmul(std::span<const Operand> operands, const Attributes& attributes, Result* result, OpError* error) {
  const Shape &a = operands[0].shape, &b = operands[1].shape;
  auto both = [&] { return "matmul: shapes " + sizes_of(a) + " and " + sizes_of(b); };
  if (a.rank == 0 || b.rank == 0) {
    return fail(error, ErrorKind::kRuntime, both() + ": both must have at least one dimension");
  }
  if (operands[0].dtype != operands[1].dtype) {
    return fail(error, ErrorKind::kRuntime,
                "matmul: dtypes " + name_of(operands[0].dtype) + " and " + name_of(operands[1].dtype) +
                    " differ; convert one of them");
  }
  int64_t inner_a = a.sizes[a.rank - 1];
  int64_t inner_b = b.sizes[b.rank > 1 ? b.rank - 2 : 0];
  if (inner_a != inner_b) {
    return fail(error, ErrorKind::kRuntime,
                both() + " cannot be multiplied: sizes " + std::to_string(inner_a) + " and " + std::to_string(inner_b) +
                    " differ");
  }
  Shape left = a, right = b;
  left.rank = std::max(a.rank - 2, 0);
  right.rank = std::max(b.rank - 2, 0);
  Shape& shape = result->shape;
  if (!broadcast(left, right, &shape, error)) {
    return fail(error, ErrorKind::kRuntime, both() + ": the leading " + error->text);
  }
  if (a.rank > 1) shape.sizes[shape.rank++] = a.sizes[a.rank - 2];
  if (b.rank > 1) shape.sizes[shape.rank++] = b.sizes[b.rank - 1];
  Shape none;
  if (!broadcast(shape, none, &shape, error)) {  // sets strides, and refuses too many elements
    return fail(error, ErrorKind::kRuntime, both() + ": too many elements");
  }
  return apply_dtype_rule(Op::k_matmul, operands[0].dtype, attributes, result, error);
}

bool infer_creation(Op op, const Attributes& attributes, Result* result, OpError* error) {
  std::string name = info(op).name;
  const Shape& shape = attributes.shape;
  for (int d = 0; d < shape.rank; d++) {
    if (shape.sizes[d] < 0) {
      return fail(error, ErrorKind::kRuntime, name + ": shape " + sizes_of(shape) + " has a negative size");
    }
  }
  Shape none;
  if (!broadcast(shape, none, &result->shape, error)) {
    return fail(error, ErrorKind::kRuntime, name + ": shape " + sizes_of(shape) + " has too many elements");
  }
  return apply_dtype_rule(op, attributes.dtype, attributes, result, error);
}

// As in torch, cat passes over 1-D operands without elements.
bool infer_joined(Op op, std::span<const Operand> operands, const Attributes& attributes, Result* result,
                  OpError* error) {
  std::string name = info(op).name;
  bool stacks = op == Op::k_stack;
  if (operands.empty()) return fail(error, ErrorKind::kRuntime, name + " needs at least one tensor");
  const Operand* first = &operands[0];
  if (!stacks) {
    for (const Operand& operand : operands) {
      if (operand.shape.rank == 0) {
        return fail(error, ErrorKind::kRuntime, "cat: a tensor of shape [] has no dimension to join along; use stack");
      }
      if (is_skipped_by_cat(first->shape)) first = &operand;
    }
  }
  int rank = first->shape.rank + stacks;
  int dim = attributes.dim < 0 ? attributes.dim + rank : attributes.dim;
  if (dim < 0 || dim >= rank) {
    return fail(error, ErrorKind::kIndex,
                name + ": dimension " + std::to_string(attributes.dim) + " is out of range for shape " +
                    sizes_of(first->shape));
  }
  if (rank > kMaxRank) {
    return fail(error, ErrorKind::kRuntime,
                name + ": at most " + std::to_string(kMaxRank) + " dimensions are supported");
  }
  int64_t joined = 0;
  for (const Operand& operand : operands) {
    if (!stacks && is_skipped_by_cat(operand.shape)) continue;
    bool fits = operand.shape.rank == first->shape.rank;
    for (int d = 0; fits && d < operand.shape.rank; d++) {
      fits = operand.shape.sizes[d] == first->shape.sizes[d] || (!stacks && d == dim);
    }
    if (!fits) {
      return fail(error, ErrorKind::kRuntime,
                  name + ": shapes " + sizes_of(first->shape) + " and " + sizes_of(operand.shape) + " differ" +
                      (stacks ? "" : " outside dimension " + std::to_string(dim)));
    }
    if (__builtin_add_overflow(joined, stacks ? 1 : operand.shape.sizes[dim], &joined)) {
      return fail(error, ErrorKind::kRuntime, name + ": too many elements");
    }
  }
  Shape& shape = result->shape;
  shape = first->shape;
  if (stacks) {
    for (int d = rank - 1; d > dim; d--) shape.sizes[d] = shape.sizes[d - 1];
    shape.rank = rank;
  }
  shape.sizes[dim] = joined;
  Shape none;
  if (!broadcast(shape, none, &shape, error)) {
    return fail(error, ErrorKind::kRuntime, name + ": too many elements");
  }
  DType dtype = operands[0].dtype;
  for (const Operand& operand : operands) dtype = promote(dtype, operand.dtype);
  return apply_dtype_rule(op, dtype, attributes, result, error);
}

// Every size of the index within the source's, but along the dimension.
bool infer_gather(std::span<const Operand> operands, const Attributes& attributes, Result* result, OpError* error) {
  const Shape &source = operands[0].shape, &index = operands[1].shape;
  if (info(operands[1].dtype).kind != DTypeKind::kIntegerKind) {
    return fail(error, ErrorKind::kRuntime,
                "gather: the index has dtype " + name_of(operands[1].dtype) + ", not int64");
  }
  if (std::max(source.rank, 1) != std::max(index.rank, 1)) {
    return fail(error, ErrorKind::kRuntime,
                "gather: the index has shape " + sizes_of(index) + ", the source " + sizes_of(source) +
                    ": they must have as many dimensions");
  }
  for (int d = 0; d < index.rank && d < source.rank; d++) {
    if (d == attributes.dim || index.sizes[d] <= source.sizes[d]) continue;
    return fail(error, ErrorKind::kRuntime,
                "gather: the index of shape " + sizes_of(index) + " is larger than the source of shape " +
                    sizes_of(source) + " outside dimension " + std::to_string(attributes.dim));
  }
  result->shape = index;
  set_contiguous_strides(&result->shape);
  return apply_dtype_rule(Op::k_gather, operands[0].dtype, attributes, result, error);
}

bool infer_scan(Op op, const Operand& operand, const Attributes& attributes, Result* result, OpError* error) {
  const int limit = std::max(operand.shape.rank, 1);
  if (attributes.dim < -limit || attributes.dim >= limit) {
    return fail(error, ErrorKind::kIndex,
                std::string(info(op).name) + ": dimension " + std::to_string(attributes.dim) +
                    " is out of range for shape " + sizes_of(operand.shape));
  }
  result->shape = operand.shape;
  set_contiguous_strides(&result->shape);
  return apply_dtype_rule(op, operand.dtype, attributes, result, error);
}

// An index for each dimension that attributes.dims names, in order; all of one shape, which takes the dimensions'
// place: theirs where they are neighbours, else the front.
bool infer_index(std::span<const Operand> operands, const Attributes& attributes, Result* result, OpError* error) {
  const Shape& source = operands[0].shape;
  Shape numbers, none;
  for (const Operand& index : operands.subspan(1)) {
    if (info(index.dtype).kind != DTypeKind::kIntegerKind) {
      return fail(error, ErrorKind::kIndex,
                  "index: a tensor used as an index has integers or bools, not " + name_of(index.dtype));
    }
    if (!broadcast(numbers, index.shape, &numbers, error)) {
      return fail(error, ErrorKind::kIndex, "index: indices of different sizes: " + error->text);
    }
  }
  const uint32_t dims = attributes.dims;
  if (dims == 0 || source.rank == 0 || dims >> source.rank != 0 ||
      static_cast<size_t>(__builtin_popcount(dims)) != operands.size() - 1) {
    return fail(error, ErrorKind::kIndex, "index: too many indices for shape " + sizes_of(source));
  }
  const int first = __builtin_ctz(dims);
  const bool neighbours = ((dims >> first) & ((dims >> first) + 1)) == 0;
  Shape& shape = result->shape;
  if (numbers.rank + source.rank - __builtin_popcount(dims) > kMaxRank) {
    return fail(error, ErrorKind::kRuntime, "index: at most " + std::to_string(kMaxRank) + " dimensions are supported");
  }
  auto place = [&] {
    for (int d = 0; d < numbers.rank; d++) shape.sizes[shape.rank++] = numbers.sizes[d];
  };
  if (!neighbours) place();
  for (int d = 0; d < source.rank; d++) {
    if (neighbours && d == first) place();
    if ((dims >> d & 1) == 0) shape.sizes[shape.rank++] = source.sizes[d];
  }
  if (!broadcast(shape, none, &shape, error)) return fail(error, ErrorKind::kRuntime, "index: too many elements");
  return apply_dtype_rule(Op::k_index, operands[0].dtype, attributes, result, error);
}

}  // namespace

const OpInfo& info(Op op) { return kInfo[static_cast<int>(op)]; }

bool parse_op(const char* name, Op* out) {
  for (size_t i = 0; i < std::size(kInfo); i++) {
    if (std::strcmp(name, kInfo[i].name) == 0) {
      *out = static_cast<Op>(i);
      return true;
    }
  }
  return false;
}

bool is_skipped_by_cat(const Shape& shape) { return shape.rank == 1 && shape.sizes[0] == 0; }

// Tensors with dimensions decide; 0-dim tensors, then numbers, count only where they are of a higher kind.
DType result_dtype(std::span<const Operand> operands) {
  enum { kDimensioned, kScalar, kNumber, kClasses };
  DType dtypes[kClasses];
  bool present[kClasses] = {};
  for (const Operand& operand : operands) {
    int which = operand.is_number ? kNumber : operand.shape.rank == 0 ? kScalar : kDimensioned;
    DType dtype = operand.dtype;
    if (operand.is_number && dtype == DType::k_float64) dtype = DType::k_float32;  // the default floating dtype
    dtypes[which] = present[which] ? promote(dtypes[which], dtype) : dtype;
    present[which] = true;
  }
  DType result = DType::k_bool;
  bool any = false;
  for (int which = kNumber; which >= kDimensioned; which--) {
    if (!present[which]) continue;
    bool lower_kind_wins = any && info(result).kind > info(dtypes[which]).kind;
    if (!lower_kind_wins) result = dtypes[which];
    any = true;
  }
  return result;
}

uint32_t folded_dims(Op op, int rank, const Attributes& attributes) {
  uint32_t all = (1u << rank) - 1;
  if (info(op).dtype_rule != DTypeRule::kIndex) return attributes.dims & all;
  if (!attributes.has_dim) return all;
  return (1u << (attributes.dim < 0 ? attributes.dim + std::max(rank, 1) : attributes.dim)) & all;
}

namespace {
template <class T>
void write_identity_as(Identity identity, void* element) {
  using Limits = std::numeric_limits<T>;
  T value = 0;
  if (identity == Identity::kLowest) value = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  if (identity == Identity::kHighest) value = Limits::has_infinity ? Limits::infinity() : Limits::max();
  std::memcpy(element, &value, sizeof value);
}
}  // namespace

void write_identity(Op op, DType compute, void* element) {
#define KN_DTYPE(name, type, ...) \
  if (compute == DType::k_##name) write_identity_as<type>(info(op).identity, element);
#include "kernels/dtypes.def"
}

bool infer(Op op, std::span<const Operand> operands, const Attributes& attributes, Result* result, OpError* error) {
  const OpInfo& row = info(op);
  if (row.arity >= 0 && operands.size() != static_cast<size_t>(row.arity)) {
    return fail(error, ErrorKind::kType,
                std::string(row.name) + " takes " + std::to_string(row.arity) + " operands, got " +
                    std::to_string(operands.size()));
  }
  if (row.op_class != OpClass::kElementwise) {
    for (const Operand& operand : operands) {
      if (operand.is_number) {
        return fail(error, ErrorKind::kType,
                    std::string(row.name) + " needs tensors, got a Python number of kind " + name_of(operand.dtype));
      }
    }
  }
  Result fresh{};
  bool fits = false;
  switch (row.op_class) {
    case OpClass::kElementwise: fits = infer_elementwise(op, operands, attributes, &fresh, error); break;
    case OpClass::kReduction: fits = infer_reduction(op, operands[0], attributes, &fresh, error); break;
    case OpClass::kMatmul: fits = infer_matmul(operands, attributes, &fresh, error); break;
    case OpClass::kCreation: fits = infer_creation(op, attributes, &fresh, error); break;
    case OpClass::kMovement:
      fits = op == Op::k_copy     ? infer_elementwise(op, operands, attributes, &fresh, error)
             : op == Op::k_gather ? infer_gather(operands, attributes, &fresh, error)
             : op == Op::k_index  ? infer_index(operands, attributes, &fresh, error)
                                  : infer_joined(op, operands, attributes, &fresh, error);
      break;
    case OpClass::kScan: fits = infer_scan(op, operands[0], attributes, &fresh, error); break;
  }
  if (fits) *result = fresh;
  return fits;
}

}  // namespace kintsugi
