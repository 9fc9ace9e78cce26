// The tracer's state and verbs, shared by the files that follow instructions: tracer.cpp (loop, frames, exits),
// tracer_ops.cpp (one handler an instruction), wrap.cpp (objects -> values and guards), objects.cpp (attributes,
// classes), containers.cpp, numbers.cpp, tensors.cpp, calls.cpp, builtins.cpp. Nobody else includes it.
#pragma once
#include <deque>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "jit/bytecode.h"
#include "jit/graph.h"
#include "jit/tensor_calls.h"
#include "jit/tracer.h"
#include "jit/value.h"

namespace kintsugi {

struct TraceFrame {
  const Bytecode* bytecode;
  Value* function;
  Value* globals = nullptr;
  std::vector<Value*> locals;  // localsplus
  std::vector<Value*> stack;
  std::vector<Value*> before;  // the stack when the present instruction began
  int32_t offset = 0;          // of the present instruction (of the KW_NAMES before a call): where a break resumes
  int32_t at = 0;              // of the present instruction itself
  int32_t next = 0;
  PyObject* keyword_names = nullptr;    // of KW_NAMES, for the next call
  ReturnRule rule = ReturnRule::kPush;  // what this frame's result becomes for its caller
  std::map<int32_t, int> loop_turns;    // header offset -> back edges taken since the loop was entered
  int turns_done = 0;                   // back edges of inner loops that have ended
  bool root = false;
  bool answers_now = false;  // its result goes to call_now, not to the caller's stack
};

// What an instruction's handler answers.
enum class Flow : uint8_t {
  kGo,     // done; go on
  kBreak,  // cannot be followed: `reason` and `context` are set; nothing was recorded for it
  kEnd,    // the trace's final exit is made
};

class Tracer {
 public:
  Tracer(const TraceInput& input, TraceResult* result);
  Status run();

  // ---- tracer.cpp: values, constants, exits
  Value* make(ValueKind kind);
  Value* constant(PyObject* object);        // atoms, or objects that something guarded keeps alive
  Value* constant_owned(PyObject* stolen);  // keeps the new reference for the trace's length; null stays null
  Value* int_constant(int64_t value);
  Value* none() { return constant(Py_None); }
  Value* null() { return null_; }
  ValueId new_value() { return plan().value_count++; }
  ConstantId constant_id(PyObject* object, Hold hold);
  ConstantId string_constant(const std::string& text);
  ConstantId number_constant(const Constant& number);  // kInt or kFloat, by value
  ConstantId layout_constant(Layout* layout);
  Plan& plan() { return trace_.plan; }
  TraceFrame& frame() { return frames_.back(); }
  void keep(PyObject* object) { result_->kept.push_back(Ref::share(object)); }
  Layout* keep_layout(Layout* stolen) {
    result_->layouts.emplace_back(stolen);
    return stolen;
  }

  Step& record(StepKind kind);      // appended
  ExitId exit_here(ExitKind kind);  // state before the present instruction
  ExitId exit_at(ExitKind kind, int32_t offset, const std::vector<Value*>& stack);  // innermost frame elsewhere
  RecipeId recipe_of(Value* value);
  ValueId object_of(Value* value);  // the object at run time: boxes or builds when there is none
  ConstantId message(const std::string& text) { return string_constant(text); }
  Flow stop(BreakReason reason, std::string context = {});
  [[noreturn]] void restart_without(PyObject* code, int32_t offset);  // abandon: that call is not followed inside
  void restart_without_this_call();                                   // the call that the innermost frame came from
  [[noreturn]] void break_from_the_start(BreakReason reason, std::string context);
  Flow step_or_break(const Instruction& instruction);
  void check_word(Value* number, int64_t expected, ExitId on_fail);

  // ---- wrap.cpp: objects reached from the entry become values; guards say so
  Value* force(Value* value);                                            // kLazy -> looked at
  Value* wrap(PyObject* object, ValueId id, const std::string& source);  // id: loaded by a guard step
  Value* wrap_bound(PyObject* object, const std::string& source);        // alive by what was guarded before
  Guard& guard(GuardKind kind, int32_t source);
  int32_t source(const std::string& text);
  const std::string& source_text(const Value* value);
  Value* load_field(Value* owner, int offset, PyObject* object, const std::string& source);
  ValueId slot_id(Value* lazy);
  bool is_dynamic_source(const std::string& text, bool number);
  void mutate(Value* real);     // notes a change: aliases must be known
  void changing(Value* value);  // before any change to what a value is known to hold
  void guard_distinct();        // at the end: what was changed is no other object that was looked at

  // ---- tracer_ops.cpp
  Flow step(const Instruction& instruction);
  Flow jump_to(int32_t target, bool backward);
  Flow branch(Value* condition, bool jump_if, int32_t target, bool keep);
  bool truth(Value* value, bool* known,
             bool* answer);  // false: cannot be followed; known false: a kBool, kInt or kFloat word

  // ---- numbers.cpp
  bool fold(Value* value, PyObject** object);  // the object of a constant atom (tuples of atoms are built)
  Flow binary(int operation, Value* left, Value* right, Value** out);
  Flow compare(int operation, Value* left, Value* right, Value** out);
  Flow unary(int opcode, Value* operand, Value** out);
  Value* specialise(Value* number);  // a word becomes a constant: checked
  Value* word_compare(Compare how, Value* left, Value* right);
  Value* as_float(Value* number);
  Value* word(Value* number);  // constant int or float -> word
  // A break at what depends on which objects these atoms are: guards say only what they are worth.
  Flow stop_for_identity(BreakReason reason, std::string context, std::initializer_list<Value*> atoms);
  bool rule_out_nan(Value* number);  // containers compare by identity first; false: it is one

  // ---- tensors.cpp
  Flow tensor_call(const FunctionRow* row, const std::vector<Value*>& arguments, PyObject* names, Value** out);
  Flow tensor_binary(int operation, Value* left, Value* right, Value** out);
  Flow tensor_compare(int operation, Value* left, Value* right, Value** out);
  Flow tensor_unary(Unary operation, Value* operand, Value** out);
  Flow tensor_get_item(Value* tensor, Value* key, Value** out);
  Flow tensor_set_item(Value* tensor, Value* key, Value* value);
  Flow tensor_attribute(Value* tensor, PyObject* name, Value** out);
  PyObject* stand_in(Value* value, bool* has_words);  // what parse_call sees of a value; borrowed, null: nothing
  Flow tensor_meaning(const ParsedCall& call, PyObject* callable, const std::vector<Value*>& arguments, PyObject* names,
                      bool has_words, Value** out);
  Flow tensor_run(PyObject* callable, const std::vector<Value*>& arguments, PyObject* names, Layout* layout,
                  Value** out);
  Value* tensor_value(Layout* stolen, ValueId id, bool dynamic);
  Value* size_of(Value* tensor, int dim);
  Flow tensor_iterate(Value* tensor, std::vector<Value*>* items);

  // ---- objects.cpp
  Flow get_attribute(Value* object, PyObject* name,
                     Value** out);  // may push an inlined frame (property): *out stays null
  Flow set_attribute(Value* object, PyObject* name, Value* value);
  Flow load_method(Value* object, PyObject* name, Value** function, Value** self);  // self null: plain callable
  bool ensure_version(PyTypeObject* type);                   // guards the class; false: it has no version
  Value* find_in_class(PyTypeObject* type, PyObject* name);  // as type look-up; under a version guard; null: absent
  bool has_attribute(Value* object, PyObject* name, bool* answer);
  Flow construct(PyTypeObject* type, std::vector<Value*> arguments, PyObject* names);

  // ---- calls.cpp
  Flow call(Value* callable, std::vector<Value*> arguments,
            PyObject* names);  // result is pushed, now or by a later return
  Flow inline_call(Value* function, std::vector<Value*> arguments, PyObject* names, ReturnRule rule);
  bool bind(Value* function, const std::vector<Value*>& arguments, PyObject* names, std::vector<Value*>* locals);
  Flow return_value(Value* value);
  void complete_function(Value* function);  // real functions: code, globals, defaults, closure become known
  // Runs a function to its end inside the present instruction and answers its result (callbacks of builtins).
  Flow call_now(Value* callable, std::vector<Value*> arguments, Value** out);

  // ---- builtins.cpp
  Flow call_builtin(Value* callable, std::vector<Value*>& arguments, PyObject* names, Value** out, bool* handled);

  // ---- containers.cpp
  bool list_items(Value* value,
                  std::vector<Value*>** items);   // tuple or list, all items known (not necessarily looked at)
  Value* item_at(Value* sequence, size_t index);  // looked at
  int64_t length(Value* value);                   // of modelled containers; -1 otherwise
  Flow get_item(Value* container, Value* key, Value** out);
  Flow set_item(Value* container, Value* key, Value* value);
  Flow delete_item(Value* container, Value* key);
  Flow contains(Value* container, Value* item, Value** out);
  Value* dict_get(Value* dict, PyObject* key);  // null: absent (guarded)
  void dict_put(Value* dict, PyObject* key, Value* value);
  bool dict_complete(Value* dict);  // all keys known, guarded
  Flow container_method(Value* self, PyObject* name, std::vector<Value*>& arguments, PyObject* names, Value** out);
  Value* iterate(Value* value);  // an iterator; null: cannot be followed
  enum class Next { kItem, kEnd, kUnknown };
  Next next(Value* iterator, Value** out);
  int64_t remaining(Value* iterator);                       // items left if known, else -1
  bool can_follow(Value* iterator);                         // next() will not answer kUnknown
  bool drain(Value* iterable, std::vector<Value*>* items);  // all items of something finite
  Value* tuple_of(std::vector<Value*> items);
  Value* list_of(std::vector<Value*> items);
  bool key_of(Value* key, PyObject** out);  // atoms that hash and compare by value

  Flow run_loop(size_t floor);
  void finish(ExitId exit);
  RecipeId add_recipe(Recipe recipe);
  void build_parts(Value* value);

  const TraceInput& input_;
  TraceResult* result_;
  Trace trace_;
  std::deque<Value> arena_;
  std::deque<TraceFrame> frames_;
  std::vector<Value*> initial_;  // the entry's slots, as they were given
  Value* null_;
  std::unordered_map<PyObject*, Value*> known_;  // real objects that were looked at
  std::unordered_map<PyObject*, Value*> constants_;
  std::unordered_map<PyObject*, ValueId> checked_;  // constants that a segment holds weakly: where a guard loaded them
  std::unordered_map<PyObject*, ConstantId> constant_ids_;
  std::unordered_map<std::string, ConstantId> text_ids_;
  std::map<std::string, int32_t> source_ids_;
  std::unordered_map<Value*, RecipeId> recipes_;  // within one exit
  std::set<Value*> building_;                     // see build_parts
  std::vector<Value*> mutated_;
  std::vector<Value*> real_mutables_;
  std::unordered_map<PyTypeObject*, int> versions_;  // classes whose version is guarded
  ValueId function_id_ = kNoValue;
  BreakReason reason_{};
  std::string context_;
  int instructions_ = 0;
  int call_now_depth_ = 0;       // builtins whose callbacks are being followed
  int call_now_frames_ = 0;      // frames up to the outermost such builtin's call
  int32_t call_now_serial_ = 0;  // values older than this existed before it
  int tensor_calls_ = 0;
  PyObject* called_ = nullptr;  // the callable whose row tensor_call follows
  Value* returned_ = nullptr;   // what call_now's callee answered
  bool ended_ = false;
  // A break and a side exit perform the present instruction once more, so it must not have changed anything: no effect
  // recorded, no value that is older than it moved on. Of a builtin's callbacks the builtin's call is the instruction.
  bool changed_ = false;
  bool shows_dead_locals_ = false;  // the exit being made is one where an exception leaves
  int32_t instruction_serial_ = 0;
};

inline constexpr int64_t kLongestDrain = 4096;  // items that one instruction walks through in a trace

bool is_nan(PyObject* object);
bool is_length_answer(const Value* value);  // what __len__ may answer: a known number that len() accepts

// Thrown inside the tracer only, caught by trace(): the memory has changed, begin again.
struct Restart {};

}  // namespace kintsugi
