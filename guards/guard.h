// Guards as data. A segment is valid for a call when its guard program runs through without a miss. check.cpp is the
// meaning (through the C API, names the guard that failed); compile.cpp is the same in native code; both read this.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace kintsugi {

enum class GuardKind : uint8_t {
#define KN_GUARD(name, ...) k_##name,
#include "guards/guards.def"
  kCount
};

using ValueId = int32_t;  // a value's number in one plan: index into the 8-byte words of NativeState::values
inline constexpr ValueId kNoValue = -1;
using ConstantId = int32_t;  // index into Plan::constants and Segment's bindings
inline constexpr ConstantId kNoConstant = -1;

struct Guard {
  GuardKind kind;
  ValueId dst = kNoValue;
  ValueId a = kNoValue;
  ValueId b = kNoValue;
  ConstantId constant = kNoConstant;
  int64_t imm = 0;
  int32_t source = -1;  // index into Plan::sources: the path in the user's words ("self.taps", "global gain")
  bool operator==(const Guard&) const = default;
};

enum class Compare : uint8_t { kLess, kLessEqual, kEqual, kNotEqual, kGreater, kGreaterEqual };

// A constant of a plan by value where it has one; `bind` entries are addresses that only the running process knows.
enum class ConstantKind : uint8_t {
  kInt, kFloat, kString,  // by value (text holds a string's UTF-8)
  kLayout,                // text form of kernels/layout.h
  kObject,                // any Python object: text describes it; the pointer is bindings[i]
  kPointer,               // not an object (a dict's keys, a state word): bindings[i]
};
struct Constant {
  ConstantKind kind = ConstantKind::kInt;
  int64_t i64 = 0;
  double f64 = 0;
  std::string text;
};

}  // namespace kintsugi
