// Element types and torch's promotion among them. Rows: dtypes.def.
#pragma once
#include <cstddef>
#include <cstdint>

namespace kintsugi {

enum class DType : uint8_t {
#define KN_DTYPE(name, ...) k_##name,
#include "kernels/dtypes.def"
};

enum class DTypeKind : uint8_t { kBoolKind, kIntegerKind, kFloatingKind };

struct DTypeInfo {
  const char* name;  // "float32"
  size_t bytes;      // one element
  DTypeKind kind;
  const char* short_name;  // "f32", used by text forms
  const char* numpy;       // "<f4"
};

const DTypeInfo& info(DType dtype);
inline constexpr int kDTypeCount = 5;

// The dtype of a result of two tensors of these dtypes (torch's table restricted to ours).
DType promote(DType a, DType b);
// The dtype of a result of a tensor and a Python number of this kind: a number never widens within its kind.
DType promote_number(DType tensor, DTypeKind number);
// Parses "float32" or "f32"; false if unknown.
bool parse_dtype(const char* text, DType* out);

}  // namespace kintsugi
