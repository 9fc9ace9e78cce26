// The verbs of emit.h on asmjit's x86 Assembler. One code holder a thread, emptied for each segment: what a segment
// needs is labels and bytes, so the bytes are copied out of asmjit's buffer and no relocation is left (addresses are
// immediates).
#include "jit/emit.h"

#include <asmjit/x86.h>

#include <cstring>

#include "kernels/cpu.h"

// asmjit's own definitions of these three live in an object that cannot go into a shared library (Debian, 2022-12).
ASMJIT_BEGIN_NAMESPACE
namespace DebugUtils {
const char* errorAsString(Error) noexcept { return "asmjit refused an instruction"; }
void debugOutput(const char*) noexcept {}
void assertionFailed(const char*, int, const char*) noexcept { __builtin_trap(); }
}  // namespace DebugUtils
ASMJIT_END_NAMESPACE

namespace kintsugi {
namespace x86 = asmjit::x86;
namespace {

const x86::Gp kGeneral[kRegCount] = {
    x86::rbx, x86::rbp, x86::rsp,            // kState, kValues, kStack
    x86::rax, x86::rdi, x86::rsi, x86::rdx,  // kResult, kArgument0..2
    x86::rcx, x86::r8,  x86::r9,  x86::r10, x86::r11,
};
const x86::Gp kSavedStack = x86::r12;

x86::Gp gp(Reg reg) { return kGeneral[static_cast<int>(reg)]; }
x86::Gp gp_32(Reg reg) { return gp(reg).r32(); }
x86::Xmm xmm(FloatReg reg) { return x86::xmm(static_cast<uint32_t>(reg)); }
x86::Mem mem(Memory memory, uint32_t bytes) {
  if (memory.index == Reg::kNone) return x86::ptr(gp(memory.base), memory.offset, bytes);
  return x86::ptr(gp(memory.base), gp(memory.index), 0, memory.offset, bytes);
}
x86::Mem word(Memory memory) { return mem(memory, 8); }
x86::Mem half(Memory memory) { return mem(memory, 4); }

x86::CondCode code_of(Condition condition) {
  switch (condition) {
    case Condition::kEqual: return x86::CondCode::kEqual;
    case Condition::kNotEqual: return x86::CondCode::kNotEqual;
    case Condition::kLess: return x86::CondCode::kSignedLT;
    case Condition::kLessEqual: return x86::CondCode::kSignedLE;
    case Condition::kGreater: return x86::CondCode::kSignedGT;
    case Condition::kGreaterEqual: return x86::CondCode::kSignedGE;
    case Condition::kBelow: return x86::CondCode::kUnsignedLT;
    case Condition::kBelowEqual: return x86::CondCode::kUnsignedLE;
    case Condition::kAbove: return x86::CondCode::kUnsignedGT;
    case Condition::kAboveEqual: return x86::CondCode::kUnsignedGE;
    case Condition::kOverflow: return x86::CondCode::kOverflow;
    case Condition::kUnordered: return x86::CondCode::kParityEven;
    case Condition::kOrdered: return x86::CondCode::kParityOdd;
  }
  return x86::CondCode::kEqual;
}

bool fits_32(int64_t value) { return value == static_cast<int32_t>(value); }

// Remembers the first error; a place for a breakpoint.
class FirstError : public asmjit::ErrorHandler {
 public:
  void handleError(asmjit::Error, const char* message, asmjit::BaseEmitter*) override {
    if (text == nullptr) text = asmjit::DebugUtils::errorAsString(0);
  }
  const char* text = nullptr;
};

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
  asmjit::CodeHolder holder;
  x86::Assembler assembler;
  FirstError error;
};
#define A impl_->assembler

Emitter::Emitter() : impl_(new Impl) {}
Emitter::~Emitter() { delete impl_; }
Emitter& Emitter::of_this_thread() {
  static thread_local Emitter emitter;
  return emitter;
}

void Emitter::start() {
  impl_->holder.reset();
  impl_->error.text = nullptr;
  impl_->holder.init(asmjit::Environment::host());
  impl_->holder.setErrorHandler(&impl_->error);
  impl_->holder.attach(&A);
}
Label Emitter::new_label() { return {A.newLabel().id()}; }
void Emitter::bind(Label label) { A.bind(asmjit::Label(label.id)); }
size_t Emitter::offset() const { return A.offset(); }

void Emitter::load(Reg to, Memory from) { A.mov(gp(to), word(from)); }
void Emitter::load_32(Reg to, Memory from) { A.mov(gp_32(to), half(from)); }
void Emitter::load_signed_32(Reg to, Memory from) { A.movsxd(gp(to), half(from)); }
void Emitter::load_address(Reg to, Memory of) { A.lea(gp(to), word(of)); }
void Emitter::load_immediate(Reg to, int64_t value) {
  if (value == static_cast<uint32_t>(value)) {
    A.mov(gp_32(to), value);  // clears the upper half
  } else {
    A.mov(gp(to), value);
  }
}
void Emitter::store(Memory to, Reg from) { A.mov(word(to), gp(from)); }
void Emitter::store_immediate(Memory to, int64_t value) {
  if (fits_32(value)) {
    A.mov(word(to), value);
  } else {
    load_immediate(Reg::kResult, value);
    store(to, Reg::kResult);
  }
}
void Emitter::store_immediate_32(Memory to, int32_t value) { A.mov(half(to), value); }
void Emitter::move(Reg to, Reg from) {
  if (to != from) A.mov(gp(to), gp(from));
}
void Emitter::move_if(Condition condition, Reg to, Reg from) { A.cmov(code_of(condition), gp(to), gp(from)); }
void Emitter::set_if(Condition condition, Reg to) {
  A.set(code_of(condition), gp(to).r8());
  A.movzx(gp_32(to), gp(to).r8());
}

void Emitter::compare(Reg a, Reg b) { A.cmp(gp(a), gp(b)); }
void Emitter::compare(Reg a, Memory b) { A.cmp(gp(a), word(b)); }
void Emitter::compare(Reg a, int64_t value) {
  if (fits_32(value)) {
    A.cmp(gp(a), value);
  } else {
    load_immediate(Reg::kResult, value);
    compare(a, Reg::kResult);
  }
}
void Emitter::compare(Memory a, int64_t value) {
  if (fits_32(value)) {
    A.cmp(word(a), value);
  } else {
    load_immediate(Reg::kResult, value);
    A.cmp(word(a), gp(Reg::kResult));
  }
}
void Emitter::compare_32(Memory a, int32_t value) { A.cmp(half(a), value); }
void Emitter::compare_32(Reg a, int32_t value) { A.cmp(gp_32(a), value); }
void Emitter::compare_32(Reg a, Memory b) { A.cmp(gp_32(a), half(b)); }
void Emitter::test(Reg a) { A.test(gp(a), gp(a)); }

void Emitter::jump(Label to) { A.jmp(asmjit::Label(to.id)); }
void Emitter::jump_if(Condition condition, Label to) { A.j(code_of(condition), asmjit::Label(to.id)); }
void Emitter::call(const void* function) {
  load_immediate(Reg::kResult, function);
  A.call(gp(Reg::kResult));
}
void Emitter::call(Memory function) { A.call(word(function)); }

void Emitter::add(Reg a, Reg b) { A.add(gp(a), gp(b)); }
void Emitter::add(Reg a, Memory b) { A.add(gp(a), word(b)); }
void Emitter::add(Reg a, int32_t value) { A.add(gp(a), value); }
void Emitter::add(Memory a, int32_t value) { A.add(word(a), value); }
void Emitter::subtract(Reg a, Memory b) { A.sub(gp(a), word(b)); }
void Emitter::subtract(Reg a, int32_t value) { A.sub(gp(a), value); }
void Emitter::multiply(Reg a, Reg b) { A.imul(gp(a), gp(b)); }
void Emitter::multiply(Reg a, Memory b) { A.imul(gp(a), word(b)); }
void Emitter::negate(Reg a) { A.neg(gp(a)); }
void Emitter::bit_and(Reg a, Reg b) { A.and_(gp(a), gp(b)); }
void Emitter::bit_and(Reg a, Memory b) { A.and_(gp(a), word(b)); }
void Emitter::bit_and(Reg a, int32_t value) { A.and_(gp(a), value); }
void Emitter::bit_and_32(Reg a, uint32_t value) { A.and_(gp_32(a), value); }
void Emitter::bit_or(Reg a, Reg b) { A.or_(gp(a), gp(b)); }
void Emitter::bit_or(Reg a, Memory b) { A.or_(gp(a), word(b)); }
void Emitter::bit_xor(Reg a, Reg b) { A.xor_(gp(a), gp(b)); }
void Emitter::bit_xor(Reg a, Memory b) { A.xor_(gp(a), word(b)); }
void Emitter::shift_left(Reg a, int bits) { A.shl(gp(a), bits); }
void Emitter::divide(Reg b) {
  A.cqo(x86::rdx, x86::rax);
  A.idiv(x86::rdx, x86::rax, gp(b));
}

void Emitter::load_float(FloatReg to, Memory from) { A.movsd(xmm(to), word(from)); }
void Emitter::store_float(Memory to, FloatReg from) { A.movsd(word(to), xmm(from)); }
void Emitter::add_float(FloatReg a, Memory b) { A.addsd(xmm(a), word(b)); }
void Emitter::subtract_float(FloatReg a, Memory b) { A.subsd(xmm(a), word(b)); }
void Emitter::multiply_float(FloatReg a, Memory b) { A.mulsd(xmm(a), word(b)); }
void Emitter::divide_float(FloatReg a, FloatReg b) { A.divsd(xmm(a), xmm(b)); }
void Emitter::compare_float(FloatReg a, FloatReg b) { A.ucomisd(xmm(a), xmm(b)); }
void Emitter::zero_float(FloatReg to) { A.xorps(xmm(to), xmm(to)); }
void Emitter::convert_to_float(FloatReg to, Memory from) {
  zero_float(to);  // no dependence on what was there
  A.cvtsi2sd(xmm(to), word(from));
}

void Emitter::enter_frame(int32_t bytes, int32_t values_offset) {
  A.push(gp(Reg::kState));
  A.push(gp(Reg::kValues));
  A.push(kSavedStack);  // three pushes: the stack is aligned for calls
  A.mov(gp(Reg::kState), gp(Reg::kArgument0));
  A.mov(gp(Reg::kValues), x86::ptr_64(gp(Reg::kState), values_offset));
  if (bytes > 0) {
    A.mov(kSavedStack, x86::rsp);
    A.sub(x86::rsp, bytes);
    A.and_(x86::rsp, -64);
  }
}
void Emitter::leave_frame(int32_t bytes) {
  if (bytes > 0) A.mov(x86::rsp, kSavedStack);
  A.pop(kSavedStack);
  A.pop(gp(Reg::kValues));
  A.pop(gp(Reg::kState));
  A.ret();
}

bool Emitter::finish(CodeAllocator* allocator, const char* name, CodeSpan* span, size_t* bytes, const char** error) {
  if (impl_->error.text != nullptr || impl_->holder.hasUnresolvedLinks()) {
    *error = impl_->error.text != nullptr ? impl_->error.text : "a label was never bound";
    return false;
  }
  const asmjit::CodeBuffer& buffer = impl_->holder.textSection()->buffer();
  *bytes = buffer.size();
  *span = allocator->allocate(*bytes, name);
  if (span->execute == nullptr) {
    *error = "out of code memory";
    return false;
  }
  std::memcpy(span->write, buffer.data(), *bytes);
  return true;
}
#undef A

}  // namespace kintsugi
