// Machine code through our own verbs. asmjit is behind emit.cpp; guards and glue speak only what is declared here, so
// that another processor needs another emit.cpp. The emitter keeps the first error and goes quiet: callers check once,
// in finish(). One emitter a thread is reused, so that a small segment costs microseconds.
#pragma once
#include <cstddef>
#include <cstdint>

namespace kintsugi {

// Registers by role. The first group survives calls; the others do not. Arguments are also temporaries.
enum class Reg : uint8_t {
  kState,
  kValues,
  kStack,  // NativeState*, its values, the stack pointer
  kResult,
  kArgument0,
  kArgument1,
  kArgument2,
  kTemp0,
  kTemp1,
  kTemp2,
  kTemp3,
  kTemp4,
  kNone,
};
inline constexpr int kRegCount = static_cast<int>(Reg::kNone);
enum class FloatReg : uint8_t { kFloat0, kFloat1, kFloat2 };

struct Memory {
  Reg base = Reg::kNone;
  int32_t offset = 0;
  Reg index = Reg::kNone;  // bytes
};
inline Memory at(Reg base, int32_t offset = 0) { return {base, offset}; }
inline Memory at(Reg base, Reg index, int32_t offset = 0) { return {base, offset, index}; }

// After compare: signed order, except kBelow.. (unsigned, and what compare_float sets). kUnordered: a NaN was compared.
enum class Condition : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kBelow,
  kBelowEqual,
  kAbove,
  kAboveEqual,
  kOverflow,
  kUnordered,
  kOrdered,
};
Condition opposite(Condition condition);  // of the first ten

struct Label {
  uint32_t id = UINT32_MAX;
};

class CodeAllocator;
struct CodeSpan;

class Emitter {
 public:
  static Emitter& of_this_thread();

  void start();  // drops what was there
  Label new_label();
  void bind(Label label);
  size_t offset() const;  // bytes so far

  // Moves. The number in a name is the width in bits where it is not 64.
  void load(Reg to, Memory from);
  void load_32(Reg to, Memory from);  // zero-extended
  void load_signed_32(Reg to, Memory from);
  void load_address(Reg to, Memory of);
  void load_immediate(Reg to, int64_t value);
  void load_immediate(Reg to, const void* value) { load_immediate(to, reinterpret_cast<int64_t>(value)); }
  void store(Memory to, Reg from);
  void store_immediate(Memory to, int64_t value);  // overwrites kResult when the value is wide
  void store_immediate_32(Memory to, int32_t value);
  void move(Reg to, Reg from);
  void move_if(Condition condition, Reg to, Reg from);
  void set_if(Condition condition, Reg to);  // to = 0 or 1

  // Comparisons with wide immediates overwrite kResult.
  void compare(Reg a, Reg b);
  void compare(Reg a, Memory b);
  void compare(Reg a, int64_t value);
  void compare(Memory a, int64_t value);
  void compare(Memory a, const void* value) { compare(a, reinterpret_cast<int64_t>(value)); }
  void compare_32(Memory a, int32_t value);
  void compare_32(Reg a, int32_t value);
  void compare_32(Reg a, Memory b);
  void test(Reg a);  // against itself

  void jump(Label to);
  void jump_if(Condition condition, Label to);
  void call(const void* function);  // overwrites kResult before the call
  void call(Memory function);

  // Integers: a = a op b; the conditions of the result are set.
  void add(Reg a, Reg b);
  void add(Reg a, Memory b);
  void add(Reg a, int32_t value);
  void add(Memory a, int32_t value);
  void subtract(Reg a, Memory b);
  void subtract(Reg a, int32_t value);
  void multiply(Reg a, Reg b);
  void multiply(Reg a, Memory b);
  void negate(Reg a);
  void bit_and(Reg a, Reg b);
  void bit_and(Reg a, Memory b);
  void bit_and(Reg a, int32_t value);
  void bit_and_32(Reg a, uint32_t value);
  void bit_or(Reg a, Reg b);
  void bit_or(Reg a, Memory b);
  void bit_xor(Reg a, Reg b);
  void bit_xor(Reg a, Memory b);
  void shift_left(Reg a, int bits);
  // kResult = quotient toward zero, kArgument2 = remainder, of kResult and b (neither of those two).
  void divide(Reg b);

  // Doubles.
  void load_float(FloatReg to, Memory from);
  void store_float(Memory to, FloatReg from);
  void add_float(FloatReg a, Memory b);
  void subtract_float(FloatReg a, Memory b);
  void multiply_float(FloatReg a, Memory b);
  void divide_float(FloatReg a, FloatReg b);
  void compare_float(FloatReg a, FloatReg b);  // unsigned conditions; all of kBelow, kEqual, kUnordered for NaN
  void zero_float(FloatReg to);
  void convert_to_float(FloatReg to, Memory from);  // of an int64

  // The frame of a segment: keeps the registers that survive calls, and gives `bytes` of stack, 64-byte aligned, at
  // kStack. Argument 0 becomes kState, then kValues is loaded from there. leave_frame() undoes it and returns.
  void enter_frame(int32_t bytes, int32_t values_offset);
  void leave_frame(int32_t bytes);

  // Copies the code into the allocator's memory. False: an error was met while emitting (`error` says which), or there
  // is no memory.
  bool finish(CodeAllocator* allocator, const char* name, CodeSpan* span, size_t* bytes, const char** error);

 private:
  Emitter();
  ~Emitter();
  struct Impl;
  Impl* impl_;
};

}  // namespace kintsugi
