// The rows of dtypes.def as data, and promotion: the higher kind wins, within a kind the wider.
#include "kernels/dtype.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace kintsugi {

namespace {
constexpr DTypeInfo kInfo[] = {
#define KN_DTYPE(name, type, bytes, kind, short_name, numpy) {#name, bytes, DTypeKind::kind, short_name, numpy},
#include "kernels/dtypes.def"
};
static_assert(std::size(kInfo) == kDTypeCount);
}  // namespace

const DTypeInfo& info(DType dtype) { return kInfo[static_cast<int>(dtype)]; }

// Rows are sorted by kind, then width, so promotion is the later row. (torch has no exception to that among ours.)
DType promote(DType a, DType b) { return std::max(a, b); }

DType promote_number(DType tensor, DTypeKind number) {
  if (number <= info(tensor).kind) return tensor;
  return number == DTypeKind::kIntegerKind ? DType::k_int64 : DType::k_float32;
}

bool parse_dtype(const char* text, DType* out) {
  for (int i = 0; i < kDTypeCount; i++) {
    if (std::strcmp(text, kInfo[i].name) == 0 || std::strcmp(text, kInfo[i].short_name) == 0) {
      *out = static_cast<DType>(i);
      return true;
    }
  }
  return false;
}

}  // namespace kintsugi
