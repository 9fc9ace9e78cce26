// Guards as data. A segment is valid for a call when its guard program runs through without a miss. check.cpp is the
// meaning (through the C API, names the guard that failed); compile.cpp is the same in native code; both read this.
#pragma once
#include <cstdint>
#include <span>
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

// Guard::imm of a dict's value, keys or lacks; 0: of an exact dict.
inline constexpr int64_t kOfCheckedClass = 1;  // of a class that derives from dict, checked by an earlier guard
inline constexpr int64_t kOfOrderedDict = 2;   // the same; its order is not the dict's

// Guard::imm of a dict's value and of a set that has, where the key hashes in Python: it was put there under this hash,
// or the lookup may miss it. Of the set: beside 1.
inline constexpr int64_t kOfHash = 4;
inline int64_t imm_of_hash(int64_t hash) { return static_cast<int64_t>(static_cast<uint64_t>(hash) << 3) | kOfHash; }

enum class Compare : uint8_t { kLess, kLessEqual, kEqual, kNotEqual, kGreater, kGreaterEqual };

// A constant of a plan by value where it has one; `bind` entries are addresses that only the running process knows.
enum class ConstantKind : uint8_t {
  kInt,
  kFloat,
  kString,   // by value (text holds a string's UTF-8)
  kLayout,   // text form of kernels/layout.h
  kObject,   // any Python object: text describes it; the pointer is bindings[i]. Strings that guards
             // compare have their interned object in bindings[i] too
  kPointer,  // not an object (a dict's keys, a state word): bindings[i]
};
struct Constant {
  ConstantKind kind = ConstantKind::kInt;
  int64_t i64 = 0;
  double f64 = 0;
  std::string text;
};

// Where a dict or attribute guard found its value last. Native code compares this and reads the value at once; when it
// does not fit any more, the slow reference looks the name up, and writes down the new place. `form` is fixed when the
// segment is emitted: what is reached another way later stays slow, and right.
struct GuardCache {
  enum class Form : uint8_t {
    kNone,          // always slow
    kDict,          // a combined table: the value is in the keys object, after the name
    kSplitDict,     // a split table: the value is in the dict's array of values
    kInlineValues,  // 3.11: the instance's own array of values, without a dict
  };
  const void* keys = nullptr;      // the keys object
  uint64_t version = 0;            // of the whole dict, or entries in shared keys (instance_lacks)
  const void* value = nullptr;     // in the dict as long as it has that version (dict_value, instance_value); borrowed
  const void* expected = nullptr;  // not null: a version is written down only where the value was this object
  const void* name = nullptr;      // of native code: the key
  int32_t name_offset = 0;         // bytes from the keys object to the entry's name
  int32_t value_offset = -1;       // bytes from the array of values to the value
  uint32_t geometry = 0;           // of the keys object: with it the same, name_offset lies inside
  int32_t dict_offset = 0;         // bytes from the object to its dict pointer; 0: the object is the dict
  Form form = Form::kNone;
};

// A guard program with what it refers to, and what it runs over. Both are views of a segment and of the driver's state.
struct GuardProgram {
  std::span<const Guard> guards;
  std::span<const Constant> constants;
  std::span<const std::string> sources;
  std::span<void* const> bindings;  // by ConstantId
  std::span<GuardCache> caches;     // by guard
};
struct GuardInput {
  void* const* slots;  // PyObject*: null entries are unbound
  void* function;      // PyFunctionObject*
  uint64_t* values;    // loads go here
};

}  // namespace kintsugi
