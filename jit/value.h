// What the tracer knows of one Python value: its kind, where it came from, and, when no object exists yet, what it
// would be made of (its recipe). Values live in the tracer's arena for the length of one trace; identity is pointer
// identity.
#pragma once
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
  kSlice,
  kRange,
  kCell,
  kFunction,  // a Python function
  kMethod,    // items: function, self
  kObject,    // an instance of a class written in Python, virtual or real; or a real object that is not modelled
  kIterator,
  kSuper,  // items: class (constant), self
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
  kRealRange,
  kUnknown
};

struct Value {
  ValueKind kind = ValueKind::kNull;
  int32_t serial = 0;        // order of making
  ValueId id = kNoValue;     // the object, when one exists at run time; of numbers: the unboxed word
  ValueId boxed = kNoValue;  // of numbers: the object, when one exists
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
  PyTypeObject* type = nullptr;  // kObject: its class; kTuple: a tuple type with the same constructor (Size), else null
  bool complete = true;          // items or entries are all there is; of real lists and dicts: false until asked for;
                                 // of dict iterators: false for the view itself
  bool mutated = false;          // a real object that this trace changed
  int iterated = 0;              // iterators that may stand in this dict: its keys must not change unnoticed
  std::vector<Value*> items;  // null: real, not yet looked at. Of a real list that is not complete: what was appended
  std::vector<int32_t> origins;  // real lists: entry-time index of each item, -1 if stored since
  std::vector<std::pair<PyObject*, Value*>>
      entries;  // kDict: key (atom) -> value; kObject: attribute -> value. null: absent
  // kFunction
  PyCodeObject* code = nullptr;
  Value* globals = nullptr;
  Value* defaults = nullptr;  // tuple, or null; for real functions looked up when needed
  Value* keyword_defaults = nullptr;
  Value* closure = nullptr;
  Value* annotations = nullptr;
  Value* qualname = nullptr;
  // kIterator
  IteratorKind iterator = IteratorKind::kUnknown;
  int64_t index = 0;           // position; of enumerate: the count
  int64_t step = 1, stop = 0;  // ranges

  bool is_number() const { return kind == ValueKind::kInt || kind == ValueKind::kFloat || kind == ValueKind::kBool; }
  bool is_constant() const { return kind == ValueKind::kConstant; }
  bool is_real() const { return id != kNoValue && !is_number(); }  // an object exists at run time
  bool is_virtual() const { return !is_real() && !is_number() && !is_constant(); }
};

}  // namespace kintsugi
