// What the tracer knows of one Python value: its kind, where it came from, and, when no object exists yet, what it
// would be made of (its recipe). Values live in the tracer's arena for the length of one trace; identity is pointer
// identity.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "jit/plan.h"
#include "runtime/python.h"

namespace kintsugi {

enum class ValueKind : uint8_t {
  kNull,      // the NULL that calls leave on the stack; an unbound local
  kLazy,      // an entry slot that nobody has looked at: no guard yet
  kConstant,  // one known object: an atom, or something whose identity is guarded
  kInt,
  kFloat,
  kBool,  // a number whose value is known only at run time: an unboxed word
  kTensor,
  kTuple,
  kList,
  kDict,  // exact builtin types; virtual or real
  kSet,   // a set or a frozenset; see sets.cpp
  kSlice,
  kRange,
  kCell,
  kFunction,  // a Python function
  kMethod,    // items: function, self
  kObject,    // an instance of a class written in Python, virtual or real; or a real object that is not modelled;
              // or one entry of a traceback, see exceptions.cpp
  kIterator,
  kSuper,      // items: class (constant), self
  kUnion,      // X | Y of classes; items: the classes
  kHandled,    // what the thread handles: its own (`complete` false) or the topmost there is; of the runtime only
  kPartial,    // items: class, what it was called with; entries: by keyword. See functools.cpp
  kGenerator,  // of a function written in Python; items: its locals
};

enum class IteratorKind : uint8_t {
  kSequence /* over items of a tuple or list */,
  kRange,
  kEnumerate,
  kZip,
  kMap,
  kReversed,
  kDictKeys,
  kDictValues,
  kDictItems,
  kSet,  // items: a set, read from index on
  kRealRange,
  kRealSequence,   // a list's or tuple's; index of these: items taken in this trace
  kRealEnumerate,  // items: iterator
  kRealZip,        // items: iterators
  kItems,          // items: an object with __getitem__, read from index on
  kSentinel,       // items: callable, sentinel; stop: 1 when exhausted
  kFilter,         // items: function, iterator
  // itertools; see itertools.cpp for what each holds
  kFilterFalse,
  kChain,
  kIslice,
  kZipLongest,
  kProduct,
  kPermutations,
  kCombinations,
  kCombinationsReplaced,
  kAccumulate,
  kRepeat,
  kCount,
  kCycle,
  kStarmap,
  kTakewhile,
  kDropwhile,
  kCompress,
  kPairwise,
  kGroupby,
  kGroup,
  kTeeSource,
  kTee,
  kUnknown
};

struct Value;

// An exception that exists only in the trace.
struct TracedException {
  bool suppress_context = false;
  PyCodeObject* code = nullptr;  // where it was raised first; null: never
  int32_t offset = 0;
  Value* traceback = nullptr;  // its outermost entry; null: none
};

// What a generator that was made in the trace is at. The frame of one that runs is among the tracer's frames.
enum class GeneratorStage : uint8_t { kCreated, kSuspended, kRunning, kFinished };

struct Value {
  ValueKind kind = ValueKind::kNull;
  int32_t serial = 0;        // order of making
  ValueId id = kNoValue;     // the object, when one exists at run time; of numbers: the unboxed word
  ValueId boxed = kNoValue;  // of numbers, and of constants known by their worth: the object, when one exists
  PyObject* object =
      nullptr;          // what it is in this call: the constant, the real object, or a stand-in. Kept by the tracer
  int32_t source = -1;  // path, into Plan::sources; -1: made in the trace
  int32_t slot = -1;    // kLazy
  Value* forwarded = nullptr;  // kLazy that was looked at: what it is
  int64_t int_hint = 0;        // kInt, kBool: the value in this call
  double float_hint = 0;
  // kTensor. `layout` is exact, or, when `dynamic`, right only in dtype and rank.
  Layout* layout = nullptr;
  bool dynamic = false;
  int32_t node = -1;  // graph node that computes it; -1: exists already
  // Containers and other compounds. Virtual ones have no id.
  TracedException* exception = nullptr;  // kObject, then items: args, cause, context (null: None)
  PyTypeObject* type = nullptr;  // kObject: its class; kTuple: a tuple type with the same constructor (Size), else null
  bool complete = true;          // items or entries are all there is; of real lists and dicts: false until asked for;
                                 // of dict iterators: false for the view itself
  bool fresh = false;            // kConstant: made here, one object more in each run (a frozenset, a range)
  bool mutated = false;          // a real object that this trace changed
  int iterated = 0;              // iterators that may stand in this dict: its keys must not change unnoticed
  std::vector<Value*> items;  // null: real, not yet looked at. Of a real list that is not complete: what was appended
  std::vector<int32_t> origins;  // real lists: entry-time index of each item, -1 if stored since
  std::vector<std::pair<PyObject*, Value*>>
      entries;               // kDict: key (atom) -> value; kObject: attribute -> value. null: absent
  Value* content = nullptr;  // kObject of a class that derives from a builtin container: what it holds; subclasses.cpp
  Value* owner = nullptr;    // of such a content: the object
  // kSet
  PyObject* mirror = nullptr;  // a real set of its keys, which other values may share: null: not known
  bool unordered = false;      // an element's hash is its address
  // kFunction
  PyCodeObject* code = nullptr;
  Value* globals = nullptr;
  Value* defaults = nullptr;  // tuple, or null; for real functions looked up when needed
  Value* keyword_defaults = nullptr;
  Value* closure = nullptr;
  Value* annotations = nullptr;
  Value* qualname = nullptr;
  Value* wrapped = nullptr;  // made here, then updated as functools.wraps does from this function
  // kIterator
  IteratorKind iterator = IteratorKind::kUnknown;
  int64_t index = 0;             // position; of enumerate: the count
  int64_t step = 1, stop = 0;    // ranges; zip: stop = 1 when strict
  std::vector<int64_t> numbers;  // of itertools
  PyObject* made_in = nullptr;   // code object and offset of the call that made it, where no recipe may be had
  int32_t made_at = 0;
  // kGenerator: the frame that waits, beside items, globals and code
  GeneratorStage stage = GeneratorStage::kCreated;
  Value* function = nullptr;
  std::vector<Value*> stack;
  int32_t at = -1, next = -1;               // the yield where it stands; the instruction after it
  std::pair<void*, int> maker{nullptr, 0};  // the call that made it
  int32_t frame_number = 0;                 // TraceFrame::number of its frame; also an entry of a traceback's
  Value* handled = nullptr;                 // what it handles while it waits; null: nothing

  bool is_number() const { return kind == ValueKind::kInt || kind == ValueKind::kFloat || kind == ValueKind::kBool; }
  bool is_constant() const { return kind == ValueKind::kConstant; }
  bool has_origins() const { return id != kNoValue && source >= 0; }  // a real list's items may be from the entry
  bool is_real() const { return id != kNoValue && !is_number(); }     // an object exists at run time
  bool is_virtual() const { return !is_real() && !is_number() && !is_constant(); }
};

// The values of one trace, in blocks that later traces take over. Under the lock, as tracing is.
class ValueArena {
 public:
  ValueArena() = default;
  ValueArena(const ValueArena&) = delete;
  ValueArena& operator=(const ValueArena&) = delete;
  ~ValueArena();
  Value& add();
  size_t size() const { return size_; }
  Value& operator[](size_t index) { return *at(index); }

  template <class T>
  struct Iterator {
    const ValueArena* arena;
    size_t index;
    T& operator*() const { return *arena->at(index); }
    Iterator& operator++() { return ++index, *this; }
    bool operator!=(const Iterator& other) const { return index != other.index; }
  };
  Iterator<Value> begin() { return {this, 0}; }
  Iterator<Value> end() { return {this, size_}; }
  Iterator<const Value> begin() const { return {this, 0}; }
  Iterator<const Value> end() const { return {this, size_}; }

 private:
  static constexpr size_t kPerBlock = 16;
  struct Block {
    alignas(Value) unsigned char bytes[kPerBlock * sizeof(Value)];
  };
  static std::vector<std::unique_ptr<Block>>& spare();
  Value* at(size_t index) const {
    return reinterpret_cast<Value*>(blocks_[index / kPerBlock]->bytes) + index % kPerBlock;
  }

  std::vector<std::unique_ptr<Block>> blocks_;
  size_t size_ = 0;
};

}  // namespace kintsugi
