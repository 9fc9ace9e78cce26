// A plan: one segment before emission, as plain data. Guards, then steps in program order, then exits. No Python
// objects and no raw pointers are in it: constants are by value or named, and bound to addresses in a parallel array
// when it is emitted. It has a text form that round-trips (plan_text.cpp). The tracer and fuse.cpp make it, glue.cpp
// emits it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "guards/guard.h"
#include "kernels/cpu.h"

namespace kintsugi {

enum class StepKind : uint8_t {
#define KN_STEP(name, ...) k_##name,
#include "jit/steps.def"
  kCount
};

// The functions of float_math, by Step::imm. Results are those of Python's math module and operators, bit for bit;
// where Python raises, the step leaves.
enum class FloatFunction : int64_t {
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kAtan2,
  kSinh,
  kCosh,
  kTanh,
  kExp,
  kLog,
  kLog2,
  kLog10,
  kSqrt,
  kCopysign,
  kFmod,
  kHypot,
  kPow,
  kFloorDivide,
  kRemainder,
  kRadians,
  kDegrees,
};

using ExitId = int32_t;
inline constexpr ExitId kNoExit = -1;
using RecipeId = int32_t;

struct Step {
  StepKind kind;
  ValueId dst = kNoValue, a = kNoValue, b = kNoValue, c = kNoValue;
  ConstantId constant = kNoConstant;
  int64_t imm = 0;
  int32_t index = -1;  // kernels, groups, ops, calls or recipes
  ExitId on_fail = kNoExit;
  std::vector<ValueId> list;
};

// How to build an object when it must exist. Recipes form a graph; one recipe is one object per exit or build step, so
// identity is kept. A value that is an object already is kValue.
enum class RecipeKind : uint8_t {
  kValue,     // the object in value `value` (one more reference)
  kNull,      // the NULL that calls leave on the stack; also an unbound local
  kConstant,  // the object bindings[constant]
  kBoxInt,
  kBoxFloat,
  kBoxBool,  // from the unboxed word `value`
  kTuple,
  kList,
  kDict,      // parts: key, value, ...; value kWithHashes: key, value, hash or None, ...
  kSet,       // parts
  kSlice,     // parts: start, stop, step
  kCell,      // part 0: contents, or none when empty
  kFunction,  // constant: code; parts: globals, defaults|null, kwdefaults|null, closure|null, annotations|null,
              // qualname, and, if any, the function that update_wrapper() is given, or null, an attribute's name, value
  kBoundMethod,       // parts: function, self
  kInstance,          // parts: class, then attribute name, value, ...; made by object.__new__, no __init__
  kRange,             // parts: start, stop, step
  kRangeIterator,     // parts: current, stop, step
  kSequenceIterator,  // parts: sequence, index (list or tuple iterator at a position)
  kEnumerate,         // parts: iterator, count
  kZip,               // parts: iterators
  kMap,               // parts: function, iterators
  kReversed,          // parts: sequence, index
  kDictView,          // parts: dict; value: 0 keys(), 1 values(), 2 items()
  kDictIterator,      // parts: dict, items taken; value: as kDictView, 3 a set's, plus kReversedWalk
  kPartial,           // parts: function, args tuple, kwargs dict
  kException,   // parts: class, args, cause|null, context|null, traceback|null, then attribute name, value, ...; value:
                // 1 suppresses its context
  kTraceback,   // one entry; part 0: the next or null. See RaisedState
  kHandled,     // what the thread handles, or None; value: 1 the topmost there is, 0 its own
  kGenerator,   // constant: code; parts: function, offset of the next instruction (or one of below), what it handles or
                // null, locals, stack
  kCallObject,  // calls object part 0 with the other parts: only builtin types whose construction runs no user code
  kHanded,      // an object whose iter() answers part 0 as it is: a part of iterators that ask for iter()
  kWithState,   // part 0, a new iterator, after its __setstate__(part 1)
  kSetLike,     // constant: a frozenset, copied table and all; value: 0 a set, 1 a frozenset; parts: see make_set_like
  kContainer,   // an object of a class that derives from dict, list or deque, made by the builtin's __new__. parts:
                // class, greatest length (deque) or None, `value` parts of content (items, or key, value, ...), then
                // attribute name, value, ...
};
struct Recipe {
  RecipeKind kind = RecipeKind::kNull;
  ValueId value = kNoValue;
  ConstantId constant = kNoConstant;
  std::vector<RecipeId> parts;
  bool operator==(const Recipe&) const = default;
};

inline constexpr int kReversedWalk = 4;
inline constexpr int kWithHashes = 1;

// Of a generator's recipe, in place of the next instruction.
inline constexpr int kGeneratorFilledLater = -1;  // its frame is in the exit, and is taken when it is resumed
inline constexpr int kGeneratorFinished = -2;

// What the result of a callee that is continued on its own becomes for its caller (see FrameState).
enum class ReturnRule : uint8_t {
  kPush,     // the value
  kDiscard,  // nothing: what the instruction leaves is on the stack already (a setter)
  kInit,     // the same for __init__, which must answer None
  // The value in place of the object on top, whose attribute it is; an AttributeError gets to know of that object and
  // of the instruction's name. kNamedAttribute: in place of object and name.
  kAttribute,
  kNamedAttribute,
  kIterator,  // the value, which must be an iterator: __iter__
  kNext,      // the value, above the iterator; StopIteration ends the loop: __next__ of a FOR_ITER
  kNextOr,    // the value, in place of the default on top of the stack; StopIteration leaves that: next(it, default)
  kClass,     // the value in place of name and cell of a class statement: a class must be what the cell holds
  kResumed,   // the frame inside is a generator's: the instruction is performed as a whole and resumes it
};

// One frame at an exit: slots that change, as (slot, recipe). Slots not named keep what they hold (root frame only; in
// an inlined frame every slot that is not named is unbound). Stack slots follow the locals: slot = co_nlocalsplus +
// depth.
struct FrameState {
  ConstantId code = kNoConstant;  // the code object
  RecipeId function = -1;         // inlined frames: recipe of the function object; of a resumed one: the generator
  int32_t offset = 0;             // instruction (byte offset / 2): see ExitKind
  int32_t depth = 0;              // values on the stack
  ReturnRule rule = ReturnRule::kPush;  // of the frame inside this one
  ConstantId refusal = kNoConstant;     // "TypeError: text" (string): the result must not be NotImplemented
  RecipeId handled = -1;                // of a resumed one: what it handles
  std::vector<std::pair<int32_t, RecipeId>> slots;
};

// An entry of a traceback gets its frame: one of the exit's, or that of a generator which waits.
struct RaisedState {
  RecipeId entry = -1;
  int32_t frame = 0;        // index into Exit::frames
  RecipeId generator = -1;  // in its place
  int32_t unit = 0;         // of the instruction
};

enum class ExitKind : uint8_t {
  kReturn,  // the root frame returns recipe `result`
  kNext,    // go on at the innermost frame's offset (loop header, side exit): state is complete before that instruction
  // Steps inside a builtin's callback leave through kStep or kNext of the builtin's call: a pending exception is
  // dropped there, since performing the call again raises it again.
  kStep,      // a break: perform the instruction at the innermost offset through the C API, then go on after it
  kRaise,     // an exception is set, at the innermost offset
  kHandOver,  // the default evaluator runs the rest from the innermost offset
};
struct Exit {
  ExitKind kind = ExitKind::kReturn;
  RecipeId result = -1;
  std::vector<FrameState> frames;  // root first; empty for kReturn
  RecipeId handled = -1;           // what the thread handles from here on; -1: what it does
  std::vector<RaisedState> raised;
  std::vector<ValueId> owned;  // objects the values own here; the exit releases what it does not hand on
  int32_t break_index =
      -1;  // kStep, kHandOver at a break: index into breaks; -1: an exit taken only when a check fails
  ConstantId error =
      kNoConstant;  // kRaise after check/kernel fault: "ZeroDivisionError: text" (string); none: already set
};

// Why capture ended: a row of runtime/breaks.def with this program's particulars.
struct BreakRecord {
  int32_t reason = 0;  // row number
  std::string context;
  std::string explanation;         // row's text with particulars, empty: the row's own
  std::string instruction;         // that broke, "CALL"; "_KW" behind it: with keywords
  std::vector<std::string> stack;  // "file:line:function", root first
};

// A fused group whose sizes are known only at run time: nodes in order, so that it can also run one by one.
struct GroupNode {
  Op op;
  DType dtype, compute;
  int16_t operands[3] = {-1, -1, -1};  // inputs first, then nodes
  Attributes attributes;
};
struct Group {
  std::vector<KernelInput> inputs;
  std::vector<GroupNode> nodes;
  std::vector<int16_t> outputs;  // operand numbers
};
struct OpCall {  // for run_op
  Op op;
  Attributes attributes;
  std::vector<int8_t> operand_kinds;  // of list: 0 tensor, 1 int word, 2 float word, 3 bool word
};
struct KernelCall {  // for kernel: static layouts
  KernelSpec spec;
  std::string space;  // layout text of the index space
  uint32_t reduced_dims = 0;
  bool flat = true;  // one inner loop over `count` elements: glue calls the code directly
  int64_t count = 0;
  std::vector<int8_t> operand_kinds;  // as above, outputs last
};

struct Plan {
  std::string name;  // for perf and dumps: "step@0"
  int32_t value_count = 0;
  std::vector<Constant> constants;
  std::vector<std::string> sources;
  std::vector<Guard> guards;
  std::vector<Step> steps;
  ExitId final_exit = kNoExit;  // reached after the last step
  std::vector<Exit> exits;
  std::vector<Recipe> recipes;
  std::vector<BreakRecord> breaks;
  std::vector<KernelCall> kernels;
  std::vector<Group> groups;
  std::vector<OpCall> ops;
  std::vector<std::string> graph;  // the tensor operations as text lines, for explain and logs
};

std::string to_text(const Plan& plan);
bool parse_plan(const std::string& text, Plan* out, std::string* error);
// Checks that every value is defined before use, indices are in range, exits complete. Empty when legal.
std::string verify(const Plan& plan);

}  // namespace kintsugi
