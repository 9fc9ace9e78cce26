// A code object decoded once: instructions without caches and prefixes, the exception table, jump targets, liveness.
// Offsets are in code units (byte offset / 2), as `prev_instr` counts them. Hides CPython's version from the tracer.
// Reads the plain instructions, never the ones that the interpreter has specialised in place.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/python.h"

namespace kintsugi {

enum class Opcode : uint8_t {
#define KN_OPCODE(name, ...) k_##name,
#include "jit/opcodes.def"
  kCount  // also stands for a byte that is no instruction
};

struct Instruction {
  Opcode opcode;
  int32_t argument;     // EXTENDED_ARG folded in
  int32_t offset;       // of the first unit, its EXTENDED_ARG prefixes included
  int32_t unit;         // of the opcode unit itself (what lasti points at)
  int32_t next;         // offset of the following instruction (caches skipped)
  int32_t target = -1;  // of a jump
};

struct Handler {  // one row of the exception table
  int32_t start, end, target, depth;
  bool lasti;
};

enum class LibraryCode : uint8_t {
  kFollowed,   // like the program's own
  kWhole,      // to its end, or the call is the break
  kLeftAlone,  // never: it runs as it is
};

struct Bytecode {
  PyCodeObject* code;  // borrowed: lives with the code object
  std::vector<Instruction> instructions;
  std::vector<int32_t> index_at;  // by offset: index into instructions, -1 inside one
  std::vector<Handler> handlers;
  std::vector<uint8_t> is_loop_header;  // by instruction index: target of a backward jump
  // Locals (localsplus bits) that may be read at or after instruction i, handlers included. Row-major bit sets.
  std::vector<uint64_t> live;  // instruction_count * words
  int32_t words;
  bool calls_frame_readers;    // names locals, eval, exec, breakpoint, _getframe, ...: all locals stay live
  std::vector<int32_t> depth;  // values on the stack before each instruction, -1 where control never comes
  LibraryCode library = LibraryCode::kFollowed;
  const char* odd = nullptr;  // why no compiler makes such code; it must be left to the interpreter

  const Instruction& at(int32_t offset) const { return instructions[index_at[offset]]; }
  bool is_live(int32_t instruction_index, int local) const {
    return live[instruction_index * words + (local >> 6)] >> (local & 63) & 1;
  }
  const Handler* handler_at(int32_t offset) const;  // null if none; the table has no nested rows
};

// Decoded form of a code object, made at first use and dropped with it.
const Bytecode& bytecode_of(PyCodeObject* code);
// Whether control can only raise from here: straight on to a raise statement, no handler around it.
bool must_raise(const Bytecode& bytecode, int32_t instruction_index);
// The source line; -1: none.
int line_of(const Bytecode& bytecode, const Instruction& instruction);
// Values on the stack before the instruction at `offset`; -1 if control never comes there.
int stack_depth_at(const Bytecode& bytecode, int offset);
// Change of the stack's depth by an instruction, when it falls through or when it jumps.
int64_t stack_effect(Opcode opcode, int32_t argument, bool jumps);
// "12 LOAD_FAST 0 (x)" lines, for logs and tests.
std::string to_text(const Bytecode& bytecode);
const char* opcode_name(Opcode opcode);

}  // namespace kintsugi
