// The verbs of emit.h as x86-64 instructions, written byte by byte: an assembler for every instruction there is spent a
// quarter of the time of a compile, on one and a half dozen forms. Nothing is relocated: addresses are immediates, and
// jumps to labels stay inside one segment. One buffer a thread, emptied for each segment; the bytes are copied out.
#include "jit/emit.h"

#include <cstring>
#include <memory>
#include <vector>

#include "kernels/cpu.h"

namespace kintsugi {
namespace {

// Numbers of the processor's registers, by Reg.
constexpr uint8_t kNumbers[kRegCount] = {
    3, 5, 4,     // rbx, rbp, rsp: kState, kValues, kStack
    0, 7, 6, 2,  // rax, rdi, rsi, rdx: kResult, kArgument0..2
    1, 8, 9, 10, 11,
};
constexpr uint8_t kStackRegister = 4, kSavedStack = 12;
constexpr size_t kMostBytes = 64;  // of one verb

uint8_t number(Reg reg) { return kNumbers[static_cast<int>(reg)]; }
uint8_t number(FloatReg reg) { return static_cast<uint8_t>(reg); }

// As the low four bits of jcc, cmovcc and setcc.
uint8_t code_of(Condition condition) {
  switch (condition) {
    case Condition::kEqual: return 0x4;
    case Condition::kNotEqual: return 0x5;
    case Condition::kLess: return 0xC;
    case Condition::kLessEqual: return 0xE;
    case Condition::kGreater: return 0xF;
    case Condition::kGreaterEqual: return 0xD;
    case Condition::kBelow: return 0x2;
    case Condition::kBelowEqual: return 0x6;
    case Condition::kAbove: return 0x7;
    case Condition::kAboveEqual: return 0x3;
    case Condition::kOverflow: return 0x0;
    case Condition::kUnordered: return 0xA;
    case Condition::kOrdered: return 0xB;
  }
  return 0x4;
}

bool fits_8(int64_t value) { return value == static_cast<int8_t>(value); }
bool fits_32(int64_t value) { return value == static_cast<int32_t>(value); }

// Opcodes. Two bytes: 0F, then the low one.
enum Opcode : uint16_t {
  kLoad = 0x8B,
  kStore = 0x89,
  kLoadSigned32 = 0x63,
  kLoadAddress = 0x8D,
  kStoreImmediate = 0xC7,
  kImmediate8 = 0x83,  // with one of the operations below
  kImmediate32 = 0x81,
  kAdd = 0x03,
  kOr = 0x0B,
  kAnd = 0x23,
  kSubtract = 0x2B,
  kXor = 0x33,
  kCompare = 0x3B,
  kCompareMemory = 0x39,
  kTest = 0x85,
  kMultiply = 0x0FAF,
  kNegateOrDivide = 0xF7,
  kShift = 0xC1,
  kCall = 0xFF,
  kMoveIf = 0x0F40,
  kSetIf = 0x0F90,
  kZeroExtend8 = 0x0FB6,
  kLoadFloat = 0x0F10,
  kStoreFloat = 0x0F11,
  kConvertToFloat = 0x0F2A,
  kCompareFloat = 0x0F2E,
  kXorFloat = 0x0F57,
  kAddFloat = 0x0F58,
  kMultiplyFloat = 0x0F59,
  kSubtractFloat = 0x0F5C,
  kDivideFloat = 0x0F5E,
};
// The middle three bits of what follows kImmediate8 and kImmediate32.
enum Operation : uint8_t { kAddImmediate = 0, kAndImmediate = 4, kSubtractImmediate = 5, kCompareImmediate = 7 };
enum Width : uint8_t { k32 = 0, k64 = 8 };
constexpr uint8_t kNoPrefix = 0, kDouble = 0xF2, kDoubleOfCompare = 0x66;

}  // namespace

Condition opposite(Condition condition) {
  switch (condition) {
    case Condition::kEqual: return Condition::kNotEqual;
    case Condition::kNotEqual: return Condition::kEqual;
    case Condition::kLess: return Condition::kGreaterEqual;
    case Condition::kLessEqual: return Condition::kGreater;
    case Condition::kGreater: return Condition::kLessEqual;
    case Condition::kGreaterEqual: return Condition::kLess;
    case Condition::kBelow: return Condition::kAboveEqual;
    case Condition::kBelowEqual: return Condition::kAbove;
    case Condition::kAbove: return Condition::kBelowEqual;
    case Condition::kAboveEqual: return Condition::kBelow;
    default: return condition;
  }
}

struct Emitter::Impl {
  static constexpr uint32_t kUnbound = UINT32_MAX;
  struct Jump {
    uint32_t at;  // of the four bytes of its distance
    uint32_t label;
  };

  std::unique_ptr<uint8_t[]> buffer;
  size_t capacity = 0;
  uint8_t* next = nullptr;  // where the next byte goes
  uint8_t* end = nullptr;
  std::vector<uint32_t> labels;  // offsets
  std::vector<Jump> jumps;       // forward ones

  size_t offset() const { return static_cast<size_t>(next - buffer.get()); }
  void make_room() {
    if (static_cast<size_t>(end - next) >= kMostBytes) return;
    const size_t used = offset();
    capacity = capacity == 0 ? 16 * 1024 : 2 * capacity;
    std::unique_ptr<uint8_t[]> larger(new uint8_t[capacity]);
    if (used > 0) std::memcpy(larger.get(), buffer.get(), used);
    buffer = std::move(larger);
    next = buffer.get() + used;
    end = buffer.get() + capacity;
  }

  void byte(uint8_t value) { *next++ = value; }
  template <class T>
  void bytes(T value) {
    std::memcpy(next, &value, sizeof value);
    next += sizeof value;
  }

  // prefix, REX, opcode. `rex`: W, R, X, B bits; `force` where a byte register is meant.
  void begin(uint8_t prefix, uint8_t rex, uint16_t opcode, bool force = false) {
    make_room();
    if (prefix != 0) byte(prefix);
    if (rex != 0 || force) byte(0x40 | rex);
    if (opcode > 0xFF) byte(0x0F);
    byte(static_cast<uint8_t>(opcode));
  }
  void registers(uint8_t prefix, Width width, uint16_t opcode, uint8_t reg, uint8_t other, bool force = false) {
    begin(prefix, static_cast<uint8_t>(width | (reg >> 3) << 2 | other >> 3), opcode, force);
    byte(static_cast<uint8_t>(0xC0 | (reg & 7) << 3 | (other & 7)));
  }
  void memory(uint8_t prefix, Width width, uint16_t opcode, uint8_t reg, Memory at) {
    const uint8_t base = number(at.base);
    const bool indexed = at.index != Reg::kNone;
    const uint8_t index = indexed ? number(at.index) : 4;  // 4: there is none
    begin(prefix, static_cast<uint8_t>(width | (reg >> 3) << 2 | (indexed ? (index >> 3) << 1 : 0) | base >> 3),
          opcode);
    // rbp as a base without an offset would mean something else, and so would rsp without the byte for an index.
    const uint8_t mode = at.offset == 0 && (base & 7) != 5 ? 0x00 : fits_8(at.offset) ? 0x40 : 0x80;
    const bool has_index_byte = indexed || (base & 7) == kStackRegister;
    byte(static_cast<uint8_t>(mode | (reg & 7) << 3 | (has_index_byte ? 4 : base & 7)));
    if (has_index_byte) byte(static_cast<uint8_t>((index & 7) << 3 | (base & 7)));
    if (mode == 0x40) byte(static_cast<uint8_t>(at.offset));
    if (mode == 0x80) bytes(at.offset);
  }
  void general(uint16_t opcode, Reg a, Reg b, Width width = k64) {
    registers(kNoPrefix, width, opcode, number(a), number(b));
  }
  void general(uint16_t opcode, Reg a, Memory b, Width width = k64) { memory(kNoPrefix, width, opcode, number(a), b); }
  void immediate(Operation operation, Reg a, int32_t value, Width width = k64) {
    registers(kNoPrefix, width, fits_8(value) ? kImmediate8 : kImmediate32, operation, number(a));
    fits_8(value) ? byte(static_cast<uint8_t>(value)) : bytes(value);
  }
  void immediate(Operation operation, Memory a, int32_t value, Width width = k64) {
    memory(kNoPrefix, width, fits_8(value) ? kImmediate8 : kImmediate32, operation, a);
    fits_8(value) ? byte(static_cast<uint8_t>(value)) : bytes(value);
  }
  void floats(uint16_t opcode, FloatReg a, FloatReg b, uint8_t prefix = kDouble) {
    registers(prefix, k32, opcode, number(a), number(b));
  }
  void floats(uint16_t opcode, FloatReg a, Memory b) { memory(kDouble, k32, opcode, number(a), b); }
  void push(uint8_t reg) {
    make_room();
    if (reg >= 8) byte(0x41);
    byte(0x50 | (reg & 7));
  }
  void pop(uint8_t reg) {
    make_room();
    if (reg >= 8) byte(0x41);
    byte(0x58 | (reg & 7));
  }
  // near: opcode of the form with one byte of distance; far: of the one with four, after 0F where that is meant.
  void jump(uint8_t near, uint16_t far, Label to) {
    make_room();
    const uint32_t target = labels[to.id];
    if (target != kUnbound) {
      const int64_t distance = static_cast<int64_t>(target) - static_cast<int64_t>(offset()) - 2;
      if (fits_8(distance)) {
        byte(near);
        return byte(static_cast<uint8_t>(distance));
      }
    }
    if (far > 0xFF) byte(0x0F);
    byte(static_cast<uint8_t>(far));
    if (target == kUnbound) jumps.push_back({static_cast<uint32_t>(offset()), to.id});
    bytes(target == kUnbound ? 0 : static_cast<int32_t>(target) - static_cast<int32_t>(offset()) - 4);
  }
};
#define A (*impl_)

Emitter::Emitter() : impl_(new Impl) {}
Emitter::~Emitter() { delete impl_; }
Emitter& Emitter::of_this_thread() {
  static thread_local Emitter emitter;
  return emitter;
}

void Emitter::start() {
  A.next = A.buffer.get();
  A.labels.clear();
  A.jumps.clear();
}
Label Emitter::new_label() {
  A.labels.push_back(Impl::kUnbound);
  return {static_cast<uint32_t>(A.labels.size() - 1)};
}
void Emitter::bind(Label label) { A.labels[label.id] = static_cast<uint32_t>(A.offset()); }
size_t Emitter::offset() const { return A.offset(); }

void Emitter::load(Reg to, Memory from) { A.general(kLoad, to, from); }
void Emitter::load_32(Reg to, Memory from) { A.general(kLoad, to, from, k32); }
void Emitter::load_signed_32(Reg to, Memory from) { A.general(kLoadSigned32, to, from); }
void Emitter::load_address(Reg to, Memory of) { A.general(kLoadAddress, to, of); }
void Emitter::load_immediate(Reg to, int64_t value) {
  const uint8_t reg = number(to);
  A.make_room();
  if (value == static_cast<uint32_t>(value)) {  // clears the upper half
    if (reg >= 8) A.byte(0x41);
    A.byte(0xB8 | (reg & 7));
    A.bytes(static_cast<uint32_t>(value));
  } else if (fits_32(value)) {
    A.registers(kNoPrefix, k64, kStoreImmediate, 0, reg);
    A.bytes(static_cast<int32_t>(value));
  } else {
    A.byte(reg >= 8 ? 0x49 : 0x48);
    A.byte(0xB8 | (reg & 7));
    A.bytes(value);
  }
}
void Emitter::store(Memory to, Reg from) { A.general(kStore, from, to); }
void Emitter::store_immediate(Memory to, int64_t value) {
  if (fits_32(value)) {
    A.memory(kNoPrefix, k64, kStoreImmediate, 0, to);
    A.bytes(static_cast<int32_t>(value));
  } else {
    load_immediate(Reg::kResult, value);
    store(to, Reg::kResult);
  }
}
void Emitter::store_immediate_32(Memory to, int32_t value) {
  A.memory(kNoPrefix, k32, kStoreImmediate, 0, to);
  A.bytes(value);
}
void Emitter::move(Reg to, Reg from) {
  if (to != from) A.general(kLoad, to, from);
}
void Emitter::move_if(Condition condition, Reg to, Reg from) {
  A.general(static_cast<uint16_t>(kMoveIf | code_of(condition)), to, from);
}
void Emitter::set_if(Condition condition, Reg to) {
  const uint8_t reg = number(to);
  const bool force = reg >= 4;  // without a REX these would be ah to bh
  A.registers(kNoPrefix, k32, static_cast<uint16_t>(kSetIf | code_of(condition)), 0, reg, force);
  A.registers(kNoPrefix, k32, kZeroExtend8, reg, reg, force);
}

void Emitter::compare(Reg a, Reg b) { A.general(kCompare, a, b); }
void Emitter::compare(Reg a, Memory b) { A.general(kCompare, a, b); }
void Emitter::compare(Reg a, int64_t value) {
  if (fits_32(value)) {
    A.immediate(kCompareImmediate, a, static_cast<int32_t>(value));
  } else {
    load_immediate(Reg::kResult, value);
    compare(a, Reg::kResult);
  }
}
void Emitter::compare(Memory a, int64_t value) {
  if (fits_32(value)) {
    A.immediate(kCompareImmediate, a, static_cast<int32_t>(value));
  } else {
    load_immediate(Reg::kResult, value);
    A.general(kCompareMemory, Reg::kResult, a);
  }
}
void Emitter::compare_32(Memory a, int32_t value) { A.immediate(kCompareImmediate, a, value, k32); }
void Emitter::compare_32(Reg a, int32_t value) { A.immediate(kCompareImmediate, a, value, k32); }
void Emitter::compare_32(Reg a, Memory b) { A.general(kCompare, a, b, k32); }
void Emitter::test(Reg a) { A.general(kTest, a, a); }

void Emitter::jump(Label to) { A.jump(0xEB, 0xE9, to); }
void Emitter::jump_if(Condition condition, Label to) {
  A.jump(0x70 | code_of(condition), static_cast<uint16_t>(0x0F80 | code_of(condition)), to);
}
void Emitter::call(const void* function) {
  load_immediate(Reg::kResult, function);
  A.registers(kNoPrefix, k32, kCall, 2, number(Reg::kResult));
}
void Emitter::call(Memory function) { A.memory(kNoPrefix, k32, kCall, 2, function); }

void Emitter::add(Reg a, Reg b) { A.general(kAdd, a, b); }
void Emitter::add(Reg a, Memory b) { A.general(kAdd, a, b); }
void Emitter::add(Reg a, int32_t value) { A.immediate(kAddImmediate, a, value); }
void Emitter::add(Memory a, int32_t value) { A.immediate(kAddImmediate, a, value); }
void Emitter::subtract(Reg a, Memory b) { A.general(kSubtract, a, b); }
void Emitter::subtract(Reg a, int32_t value) { A.immediate(kSubtractImmediate, a, value); }
void Emitter::multiply(Reg a, Reg b) { A.general(kMultiply, a, b); }
void Emitter::multiply(Reg a, Memory b) { A.general(kMultiply, a, b); }
void Emitter::negate(Reg a) { A.registers(kNoPrefix, k64, kNegateOrDivide, 3, number(a)); }
void Emitter::bit_and(Reg a, Reg b) { A.general(kAnd, a, b); }
void Emitter::bit_and(Reg a, Memory b) { A.general(kAnd, a, b); }
void Emitter::bit_and(Reg a, int32_t value) { A.immediate(kAndImmediate, a, value); }
void Emitter::bit_and_32(Reg a, uint32_t value) { A.immediate(kAndImmediate, a, static_cast<int32_t>(value), k32); }
void Emitter::bit_or(Reg a, Reg b) { A.general(kOr, a, b); }
void Emitter::bit_or(Reg a, Memory b) { A.general(kOr, a, b); }
void Emitter::bit_xor(Reg a, Reg b) { A.general(kXor, a, b); }
void Emitter::bit_xor(Reg a, Memory b) { A.general(kXor, a, b); }
void Emitter::shift_left(Reg a, int bits) {
  A.registers(kNoPrefix, k64, kShift, 4, number(a));
  A.byte(static_cast<uint8_t>(bits));
}
void Emitter::divide(Reg b) {
  A.make_room();
  A.byte(0x48);  // cqo
  A.byte(0x99);
  A.registers(kNoPrefix, k64, kNegateOrDivide, 7, number(b));
}

void Emitter::load_float(FloatReg to, Memory from) { A.floats(kLoadFloat, to, from); }
void Emitter::store_float(Memory to, FloatReg from) { A.floats(kStoreFloat, from, to); }
void Emitter::add_float(FloatReg a, Memory b) { A.floats(kAddFloat, a, b); }
void Emitter::subtract_float(FloatReg a, Memory b) { A.floats(kSubtractFloat, a, b); }
void Emitter::multiply_float(FloatReg a, Memory b) { A.floats(kMultiplyFloat, a, b); }
void Emitter::divide_float(FloatReg a, FloatReg b) { A.floats(kDivideFloat, a, b); }
void Emitter::compare_float(FloatReg a, FloatReg b) { A.floats(kCompareFloat, a, b, kDoubleOfCompare); }
void Emitter::zero_float(FloatReg to) { A.floats(kXorFloat, to, to, kNoPrefix); }
void Emitter::convert_to_float(FloatReg to, Memory from) {
  zero_float(to);  // no dependence on what was there
  A.memory(kDouble, k64, kConvertToFloat, number(to), from);
}

void Emitter::enter_frame(int32_t bytes, int32_t values_offset) {
  A.push(number(Reg::kState));
  A.push(number(Reg::kValues));
  A.push(kSavedStack);  // three pushes: the stack is aligned for calls
  move(Reg::kState, Reg::kArgument0);
  load(Reg::kValues, at(Reg::kState, values_offset));
  if (bytes > 0) {
    A.registers(kNoPrefix, k64, kLoad, kSavedStack, kStackRegister);
    subtract(Reg::kStack, bytes);
    bit_and(Reg::kStack, -64);
  }
}
void Emitter::leave_frame(int32_t bytes) {
  if (bytes > 0) A.registers(kNoPrefix, k64, kLoad, kStackRegister, kSavedStack);
  A.pop(kSavedStack);
  A.pop(number(Reg::kValues));
  A.pop(number(Reg::kState));
  A.byte(0xC3);
}

bool Emitter::finish(CodeAllocator* allocator, const char* name, CodeSpan* span, size_t* bytes, const char** error) {
  for (const Impl::Jump& jump : A.jumps) {
    const uint32_t target = A.labels[jump.label];
    if (target == Impl::kUnbound) {
      *error = "a label was never bound";
      return false;
    }
    const int32_t distance = static_cast<int32_t>(target) - static_cast<int32_t>(jump.at) - 4;
    std::memcpy(A.buffer.get() + jump.at, &distance, sizeof distance);
  }
  *bytes = A.offset();
  *span = allocator->allocate(*bytes, name);
  if (span->execute == nullptr) {
    *error = "out of code memory";
    return false;
  }
  std::memcpy(span->write, A.buffer.get(), *bytes);
  return true;
}
#undef A

}  // namespace kintsugi
