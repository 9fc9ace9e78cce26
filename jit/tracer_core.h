// The tracer's state and verbs, shared by the files that follow instructions: tracer.cpp (loop, frames, exits),
// tracer_ops.cpp (one handler an instruction), wrap.cpp (objects -> values and guards), objects.cpp (attributes,
// classes), containers.cpp, numbers.cpp, tensors.cpp, calls.cpp, builtins.cpp. Nobody else includes it.
#pragma once
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "jit/bytecode.h"
#include "jit/graph.h"
#include "jit/names.h"
#include "jit/tensor_calls.h"
#include "jit/tracer.h"
#include "jit/value.h"

namespace kintsugi {

enum class Resumption : uint8_t {  // what resumed a generator
  kNext,                           // a call of next() or send()
  kForIter,                        // FOR_ITER
  kSend,                           // SEND
  kNow,                            // Tracer::next, inside another instruction
  kClose,                          // a call of close(): what it answers is thrown away
};

enum class Raising : uint8_t {  // how an exception comes to the instruction that raises it
  kNew,                         // what is handled becomes its context
  kPassing,                     // it comes out of something that was called
  kAgain,                       // as kPassing, without an entry of the traceback
  kThrown,                      // into a generator: what that handles becomes its context
};

struct TraceFrame {
  const Bytecode* bytecode;
  Value* function;
  Value* globals = nullptr;
  Value* names = nullptr;      // of a class statement's body: the dict in which it stores
  bool stores_once = false;    // and which refuses to have a name stored again
  std::vector<Value*> locals;  // localsplus
  std::vector<Value*> stack;
  std::vector<Value*> before;  // the stack when the present instruction began
  int32_t offset = 0;          // of the present instruction (of the KW_NAMES before a call): where a break resumes
  int32_t at = 0;              // of the present instruction itself
  int32_t next = 0;
  PyObject* keyword_names = nullptr;    // of KW_NAMES, for the next call
  ReturnRule rule = ReturnRule::kPush;  // what this frame's result becomes for its caller
  ConstantId refusal = kNoConstant;     // of an operator's method: the error that NotImplemented becomes
  std::map<int32_t, int> loop_turns;    // header offset -> back edges taken since the loop was entered
  int turns_done = 0;                   // back edges of inner loops that have ended
  int32_t number = 0;                   // no other frame of the trace has it
  int32_t position = 0;                 // unit of the instruction that raised last, or that RERAISE names
  bool root = false;
  bool hard = false;           // of a fullgraph wrapper, or LibraryCode::kWhole: a break in it is the call's
  Value* generator = nullptr;  // whose frame this is, once it has been made
  Resumption resumed = Resumption::kNext;
  Value* handled_outside = nullptr;  // Tracer::handled_ of those below
  Value* fallback = nullptr;         // of next()
  int32_t exhausted = -1;            // where the one that resumed it goes on when it has returned
};

// A tensor call as the program wrote it.
enum class CallForm : uint8_t {
  kFunction,
  kMethod,
  kBinary,
  kCompare,
  kUnary,
  kGetItem,
  kSetItem,
  kAttribute,
  kOpaque,
  kLeaf,  // of what an opaque call answered: `target` is the path to it
};
struct FormOfCall {
  CallForm kind = CallForm::kFunction;
  int operation = 0;           // by BINARY_OP's argument, Py_LT, Unary
  PyObject* target = nullptr;  // the function, or the name of the method or attribute; kept by the trace
};
struct GraphCall {
  FormOfCall form;
  std::vector<Value*> arguments;
  PyObject* names = nullptr;
  Value* out = nullptr;
  size_t first_record = 0, end_record = 0;
  void* code = nullptr;  // where
  int at = 0;
};

// What an opaque call is shown while it is compiled.
struct Shown {
  bool structured = false, trees = false;  // numbers are constants; instances of registered classes are flattened
  bool found_trees = false;                // there are some
  Ref objects;                             // a list
  std::vector<Value*> leaves;              // tensors, numbers, text, in order
  BreakReason reason{};                    // of what was refused
  std::string refused;
};
Ref registered_node(PyTypeObject* type);  // trees.cpp: NodeDef of kt.utils._pytree; null: none

struct ClassParts {  // what a metaclass is called with
  Value *name = nullptr, *names = nullptr;
  std::vector<Value*> bases, named;
  PyObject* keywords = nullptr;  // of `named`; null: none
};

// What an instruction's handler answers.
enum class Flow : uint8_t {
  kGo,     // done; go on
  kBreak,  // cannot be followed: `reason` and `context` are set; nothing was recorded for it
  kEnd,    // the trace's final exit is made
  kRaise,  // the instruction raises Tracer::raising_: see raise_builtin
};

class Tracer {
 public:
  Tracer(const TraceInput& input, TraceResult* result, int attempt);
  ~Tracer();
  Status run();

  // ---- constants.cpp, tracer.cpp: values, constants, exits
  Value* make(ValueKind kind);
  Value* constant(PyObject* object);        // atoms, or objects that something guarded keeps alive
  Value* constant_owned(PyObject* stolen);  // keeps the new reference for the trace's length; null stays null
  Value* made_now(PyObject* stolen);        // what an operation on constants answered; null stays null
  Value* int_constant(int64_t value);
  Value* none() { return constant(Py_None); }
  Value* null() { return null_; }
  ValueId new_value() { return plan().value_count++; }
  ConstantId constant_id(PyObject* object, Hold hold);
  ValueId bound_id(PyObject* object);
  ConstantId pointer_constant(const void* pointer, const std::string& text);  // no object
  ConstantId string_constant(const std::string& text);
  ConstantId number_constant(const Constant& number);  // kInt or kFloat, by value
  ConstantId layout_constant(Layout* layout);
  Plan& plan() { return trace_.plan; }
  TraceFrame& frame() { return frames_.back(); }
  void keep(PyObject* object) { result_->kept.push_back(Ref::share(object)); }
  void expect_foreign_code();  // what is borrowed so far is kept: code of the program is about to run
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
  [[noreturn]] void restart_without(std::pair<void*, int> call) {
    restart_without(static_cast<PyObject*>(call.first), call.second);
  }
  // Code that is made while tracing is other code in the next attempt.
  bool learns_nothing() const { return attempt_ > 30; }
  void give_up_when_nothing_is_learnt();
  [[noreturn]] void restart_without(PyObject* code, int32_t offset);  // abandon: that call is not followed inside
  void restart_without_this_call();                                   // the call that the innermost frame came from
  Value* shown(Value* value);                                         // as the exit being made shows it
  [[noreturn]] void break_from_the_start(BreakReason reason, std::string context);
  Flow step_or_break(const Instruction& instruction);
  std::vector<std::string> user_stack() const;
  BreakRecord describe_break();  // reasons.cpp: of the present instruction, which breaks
  void note_instruction(const Instruction& instruction);
  bool drops_a_finaliser(const Instruction& instruction);  // drops.cpp
  bool unwinding_ends(size_t depth);
  bool outlives_its_call();
  void may_raise_here();  // the step to come
  void check_word(Value* number, int64_t expected, ExitId on_fail);

  // ---- wrap.cpp: objects reached from the entry become values; guards say so
  Value* force(Value* value);                                            // kLazy -> looked at
  Value* wrap(PyObject* object, ValueId id, const std::string& source);  // id: loaded by a guard step
  // Alive by what was guarded before: with kPinned as long as those guards hold.
  Value* wrap_bound(PyObject* object, const std::string& source, Hold hold = Hold::kWeak);
  Value* known_by_worth(PyObject* object, ValueId id);
  Guard& guard(GuardKind kind, int32_t source);
  int32_t present_place();
  int32_t source(const std::string& text);
  std::string source_text(const Value* value);
  Value* load_field(Value* owner, int offset, PyObject* object, const std::string& source);
  ValueId slot_id(Value* lazy);
  void guard_word(const std::string& text, const uint64_t* word);
  bool is_dynamic_source(const std::string& text, bool number);
  void mutate(Value* real);                  // notes a change: aliases must be known
  void changing(Value* value);               // before any change to what a value is known to hold
  bool finalizes(const Value* value) const;  // an object of before whose end runs code
  bool ends_here(Value* dropped);            // a name of such an object goes, and no other in the frames holds it
  void guard_distinct();                     // at the end: what was changed is no other object that was looked at

  // ---- tracer_ops.cpp
  Flow step(const Instruction& instruction);
  Flow jump_to(int32_t target, bool backward);
  Flow identity(Value* left, Value* right, bool invert, Value** out);  // is, is not
  Flow assert_tensor(Value* condition, int32_t target);
  Flow branch(Value* condition, bool jump_if, int32_t target, bool keep);
  // False: cannot be followed. *known false: *word, a kBool, kInt or kFloat, decides at run time; without `word` a
  // value whose class says so through a method is made known, and only a number itself is left to the caller.
  bool truth(Value* value, bool* known, bool* answer, Value** word = nullptr);

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
  bool item_of(Value* tensor, int as, Value** out);
  Value* tensor_value(Layout* stolen, ValueId id, bool dynamic);
  Value* size_of(Value* tensor, int dim);
  Flow tensor_iterate(Value* tensor, std::vector<Value*>* items);
  Flow refused_call(std::string context, bool has_words, const std::vector<Value*>& arguments);

  // ---- graph_calls.cpp: the calls as a backend sees them
  Flow tensor_meaning_of(const ParsedCall& call, PyObject* callable, const std::vector<Value*>& arguments,
                         PyObject* names, bool has_words, Value** out);
  void note_call(size_t first_record, const std::vector<Value*>& arguments, PyObject* names, Value* out);
  Value* as_it_is(Value* value);
  bool belongs(const Step& step) const;
  bool place_graph(size_t* place, std::vector<ValueId>* outputs, std::pair<void*, int>* cut);
  void replace_by_call(PyObject* caller, const std::vector<Value*>& inputs, size_t place,
                       const std::vector<ValueId>& outputs);
  bool hand_to_backend();

  // ---- export_graph.cpp
  [[noreturn]] void refuse_export(Failure failure, std::string text);
  [[noreturn]] void refuse_check(ValueId id);
  [[noreturn]] void refuse_long_loop();
  [[noreturn]] void refuse_walk(Value* tensor);
  [[noreturn]] void refuse_result();
  bool tells_result() const;  // of an exported function
  void export_grad_mode(size_t first_record, int mode);
  void refuse_change();
  void export_assert(Value* condition);  // of an assert statement: a check in the graph
  void hand_to_export();

  // ---- pure.cpp: what depends on the values of atoms alone, now or as a step. out: a constant, a word, a pure object
  bool is_pure_object(const Value* value) const;  // text, a big int, a pattern, ... known only at run time
  bool is_atomic(Value* value);                   // a number, text or the like, known now or at run time
  PyObject* pure_argument(Value* value, bool containers, bool* runs, int depth);
  Flow pure_apply(PyObject* callable, std::vector<Value*> arguments, PyObject* names, bool containers, Value** out,
                  bool* handled);
  Flow pure_call(PyObject* callable, std::vector<Value*>& arguments, PyObject* names, Value** out, bool* handled);
  Flow pure_operator(int operation, Value* left, Value* right, Value** out);
  Flow pure_compare(int operation, Value* left, Value* right, Value** out);
  Flow pure_unary(int opcode, Value* operand, Value** out);
  Flow pure_item(Value* container, Value* key, Value** out);
  Flow pure_contains(Value* container, Value* item, Value** out);
  Flow pure_length(Value* value, Value** out);
  Flow pure_attribute(Value* object, PyObject* name, Value** out);
  Flow pure_format(Value* value, Value* spec, Value** out);
  Flow identity_number(Value* value, Value** out);  // id()
  Value* as_condition(Value* value);

  // ---- modules.cpp
  Flow module_call(PyObject* callable, std::vector<Value*>& arguments, PyObject* names, Value** out, bool* handled);

  // ---- formatting.cpp
  Flow text_value(Value* value, int conversion, Value** out);                 // 1 str(), 2 repr(), 3 ascii()
  Flow format_value(Value* value, int conversion, Value* spec, Value** out);  // spec null: none
  Flow join_text(std::vector<Value*> parts, Value** out);

  // ---- matching.cpp
  Flow match(Opcode opcode, int argument);

  // ---- imports.cpp
  Flow import_name(PyObject* name);
  Flow import_from(PyObject* name);
  void load_on_use(PyObject* module, PyObject* name);
  Flow local_names(Value** out);                     // locals()
  Value* cell_content(Value* cell, PyObject* name);  // null: it is empty

  // ---- objects.cpp. Reading and writing may push an inlined frame (a property): *out stays null then.
  Flow get_attribute(Value* object, PyObject* name, Value** out);
  Flow find_attribute(Value* object, PyObject* name, Value** out);
  Flow set_attribute(Value* object, PyObject* name, Value* value);                  // value null: deletes
  Flow attribute_now(Value* object, PyObject* name, Value** out);                   // within the present instruction
  Flow load_method(Value* object, PyObject* name, Value** function, Value** self);  // self null: plain callable
  bool has_attribute(Value* object, PyObject* name, bool* answer);
  bool ensure_version(PyTypeObject* type);      // guards the class; false: it has no version
  void guard_class(PyObject* object);           // of a class or a module: assigning its __class__ is no new version
  PyTypeObject* metaclass(PyTypeObject* type);  // the class's own class, guarded; null: it has no version
  void guard_name(PyTypeObject* type);          // which a text is to have: renaming a class is no new version
  PyTypeObject* python_class(const Value* value);
  Value* find_in_class(PyTypeObject* type, PyObject* name);  // as type look-up; under a version guard; null: absent
  Flow missing(const Value* object, PyObject* name);         // it has no such attribute
  Value* own_attribute(Value* object, PyObject* name);
  Value* slot_attribute(Value* object, PyObject* descriptor, PyObject* name);
  void note_attribute(Value* object, PyObject* name, Value* value);
  Flow generic_attribute(Value* object, PyObject* name, Value** out, bool* absent);
  Flow generic_set(Value* object, PyObject* name, Value* value);

  // ---- changing_classes.cpp
  bool guard_kept(PyTypeObject* type, int32_t source);
  bool find_changing(PyTypeObject* type, PyObject* name, Value** changing, PyObject** fixed);
  bool is_plain_content(Value* value);  // nothing happens where it is found in a class
  Value* dict_of_class(PyTypeObject* type);
  Flow set_through_metaclass(Value* object, PyObject* name, Value* value);
  Flow set_class_attribute(Value* object, PyObject* name, Value* value);

  // ---- descriptors.cpp
  Flow bind_descriptor(PyObject* attribute, PyTypeObject* type, Value* self, PyObject* name, Value** out);
  Flow call_getter(Value* getter, std::vector<Value*> arguments, PyObject* name);
  Flow set_through(PyObject* attribute, Value* object, PyObject* name, Value* value);
  Flow call_slot(PyObject* callable, std::vector<Value*>& arguments, PyObject* names, Value** out, bool* handled);
  Flow answer_none(size_t depth, Flow flow, Value** out);

  // ---- construct.cpp
  Flow construct(PyTypeObject* type, std::vector<Value*> arguments, PyObject* names);
  Flow call_type(PyTypeObject* type, std::vector<Value*> arguments, PyObject* names);
  Flow new_object(PyTypeObject* type, bool bare, Value** out);
  Flow is_of_class(Value* value, PyTypeObject* sub, Value* classes, bool* answer);
  Value* union_of(Value* left, Value* right);

  // ---- classes.cpp: classes made in the trace
  bool is_made_class(PyTypeObject* type) const;
  Ref stand_in_for(PyObject* name, Value* value);
  Flow make_descriptor(PyObject* callable, std::vector<Value*>& arguments, PyObject* names, Value** out, bool* handled);
  Value* made_class(PyObject* model, ValueId id);
  Flow call_type_of_three(std::vector<Value*>& arguments, Value** out);
  Value* module_name();
  // metaclasses.cpp
  Flow make_class(PyTypeObject* meta, const ClassParts& parts, bool last, Value** out);
  bool class_parts(const std::vector<Value*>& arguments, PyObject* keywords, ClassParts* parts);
  Flow call_metaclass(PyTypeObject* meta, const std::vector<Value*>& arguments, PyObject* keywords, Value* cell,
                      Value** out);
  Flow call_type_new(const std::vector<Value*>& arguments, PyObject* keywords, Value** out);
  Flow build_class(std::vector<Value*>& arguments, PyObject* names, Value** out);
  Flow set_made_attribute(Value* made, PyObject* name, Value* value);
  bool is_cell_of(Value* cell, Value* made);
  Flow as_part_of_statement(const std::function<Flow(Value**)>& operation, Value** out);
  Flow class_step(const Instruction& instruction);

  // ---- operators.cpp
  enum class Special { kNone, kPython, kBuiltin, kOther };
  Special find_special(Value* self, PyObject* name, Value** function);
  Flow call_special(Value* self, PyObject* name, std::vector<Value*> arguments, Value** out);  // *out null: no such
  Value* plain_atom(Value* value, std::initializer_list<PyObject*> names);
  Flow object_binary(int operation, Value* left, Value* right, bool frames_welcome, Value** out);
  Flow object_compare(int operation, Value* self, Value* other, Value** out);
  Flow half_compare(int operation, Value* self, Value* other, Value** out);
  Flow compare_objects(int operation, Value* left, Value* right, Value** out);
  Value* as_index(Value* key);  // through __index__; null: it has none that can be followed

  // ---- calls.cpp
  Flow call(Value* callable, std::vector<Value*> arguments,
            PyObject* names);                   // result is pushed, now or by a later return
  bool has_room_for(PyCodeObject* code) const;  // one more frame
  Flow inline_call(Value* function, std::vector<Value*> arguments, PyObject* names, ReturnRule rule);
  bool bind(Value* function, const std::vector<Value*>& arguments, PyObject* names, std::vector<Value*>* locals);
  Flow return_value(Value* value);
  void complete_function(Value* function);  // real functions: code, globals, defaults, closure become known
  // Calls to the end inside the present instruction and answers the result (callbacks of builtins, operators).
  Flow call_now(Value* callable, std::vector<Value*> arguments, Value** out, PyObject* names = nullptr);
  // The same of anything that answers in *out, on the stack, or by a frame that it pushes.
  Flow at_once(const std::function<Flow(Value**)>& operation, Value** out);
  // As a builtin does that takes exceptions of the type itself: *taken, and nothing is left of it.
  Flow at_once_taking(PyObject* type, const std::function<Flow(Value**)>& operation, Value** out, bool* taken);
  // A builtin's last act is this call: its result, by `rule`, is the builtin's. *out stays null where a frame will push
  // it.
  Flow call_last(Value* callable, std::vector<Value*> arguments, PyObject* names, Value** out,
                 ReturnRule rule = ReturnRule::kPush);

  // ---- marks.cpp
  bool call_marked(Value* callable, std::vector<Value*>& arguments, PyObject* names, Flow* flow);
  bool call_log(Value* callable, std::vector<Value*>& arguments, PyObject* names, Flow* flow);
  Flow fail(Failure failure, std::string text);
  Flow end_without_plan();  // the break at hand: no plan
  Flow follow_mark(const Mark& mark, Value* callable, std::vector<Value*>& arguments, PyObject* names);
  Flow set_strict(std::vector<Value*>& arguments);
  Flow set_grad(std::vector<Value*>& arguments);
  void guard_grad_mode();  // the one at the entry; what the trace sets is known
  Flow swap_option(PyObject* function, std::vector<Value*>& arguments, PyObject* names);
  Flow call_opaque(PyObject* function, AnswerForm form, std::vector<Value*>& arguments, PyObject* names);
  Flow constant_result(PyObject* function, std::vector<Value*>& arguments, PyObject* names);
  Ref placeholder(Value* value, Shown* shown);
  Value* result_like(PyObject* example, std::vector<Value*>::const_iterator* leaf, PyObject* nodes, Py_ssize_t* node,
                     AnswerForm form);
  Flow call_shown(PyObject* function, const char* helper, AnswerForm form, std::vector<Value*>& arguments,
                  PyObject* names, const Shown& shown);
  Flow call_for_effect(PyObject* function, const std::vector<Value*>& arguments, PyObject* names, int checked_from);
  Flow call_cond(std::vector<Value*>& arguments, PyObject* names);
  Ref example_function(Value* function);
  // trees.cpp: instances of classes that kt.utils._pytree knows
  Ref tree_placeholder(Value* value, PyObject* node, Shown* shown);
  Ref known_context(Value* value);
  bool is_given_constant(Value* value);
  Value* built_like(PyObject* example, std::vector<Value*>::const_iterator* leaf, PyObject* nodes, Py_ssize_t* node,
                    AnswerForm form);
  Flow leave_skipped();  // skip_frame, step_unsupported

  // ---- exceptions.cpp
  // The present instruction raises. To be answered at once: a handler in the trace is gone on with, otherwise it is a
  // break with this context, where it really raises. Texts and fields must be Python's.
  Flow raise_builtin(PyObject* type, std::vector<Value*> arguments,
                     std::initializer_list<std::pair<const char*, Value*>> fields = {}, std::string context = "raises");
  Flow raise_text(PyObject* type, const std::string& text, std::string context = "raises");
  Flow raise_pending(std::string context);  // the error that is set: of a pure function of atoms, called here
  Flow raise_unbound(int local);
  Flow raise_value(Value* exception, std::string context, Raising how = Raising::kNew);
  bool is_handled(PyTypeObject* type, size_t frames) const;  // whether one of the outermost frames goes on after it
  Flow follow_raise(size_t floor);
  Flow exception_step(const Instruction& instruction);
  Flow exception_of(Value* thing, Value** out);
  Value* new_exception(PyTypeObject* type, std::vector<Value*> arguments);
  Flow construct_exception(PyTypeObject* type, std::vector<Value*>& arguments, PyObject* names, bool* handled);
  Flow call_exception_slot(PyObject* callable, const std::vector<Value*>& arguments, PyObject* names, Value** out,
                           bool* handled);
  Flow exception_attribute(Value* exception, PyObject* name, Value** out, bool* handled);
  Flow set_exception_attribute(Value* exception, PyObject* name, Value* value, bool* handled);
  Flow exception_text(Value* exception, bool repr, void* slot, Value** out);
  // exception_groups.cpp
  Flow construct_group(PyTypeObject* type, std::vector<Value*>& arguments, PyObject* names);
  Flow group_method(PyObject* callable, const std::vector<Value*>& arguments, PyObject* names, Value** out,
                    bool* handled);
  Flow group_step(const Instruction& instruction);
  Value* thread_handled(bool topmost);
  Value* topmost_handled();
  void take_context(Value* exception);  // what is handled becomes its context
  Flow set_traceback(Value* exception, Value* traceback);
  Flow known_handled(Value* handled, Value** out);  // as an object: an exception of the trace or None
  Flow exception_info(Value** out);                 // sys.exc_info()
  void keep_thread_handled();
  [[noreturn]] void break_at_raise(const TracedException& exception);
  Recipe exception_recipe(Value* exception, RecipeId id);
  void tell_raised(Exit* exit, size_t visible);
  void refuse_raised();

  // ---- builtins.cpp
  Flow call_builtin(Value* callable, std::vector<Value*>& arguments, PyObject* names, Value** out, bool* handled);

  // ---- generators.cpp
  Flow make_generator();  // RETURN_GENERATOR
  Flow resume(Value* generator, Value* sent, Resumption how, Value* fallback = nullptr, int32_t exhausted = -1);
  Flow yield_value(Value* value);
  Flow finish_generator(Value* result);
  Flow send_on(Value* sent, int32_t exhausted);  // SEND
  Flow throw_into(Value* generator, Value* exception, Resumption how, int32_t exhausted = -1);
  Flow close_generator(Value* generator);
  TraceFrame& push_generator(Value* generator, Resumption how, int32_t exhausted);
  void leave_generator(GeneratorStage stage);  // its frame goes
  Flow generator_method(Value* generator, const char* name, std::vector<Value*>& arguments, Value** out);
  void guard_no_generator_is_dropped();
  void generator_recipe(Value* generator, Recipe* recipe);

  // ---- containers.cpp, lists.cpp, dicts.cpp
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
  // *handled false: not of containers.
  Flow call_container(PyObject* callable, std::vector<Value*>& arguments, PyObject* names, Value** out, bool* handled);
  Flow container_binary(int operation, Value* left, Value* right, Value** out, bool* handled);
  Flow container_compare(int operation, Value* left, Value* right, Value** out, bool* handled);
  Flow container_special(Value* self, PyObject* name, std::vector<Value*> arguments, Value** out);
  void container_recipe(Value* value, Recipe* recipe);
  bool deque_walk_recipe(Value* iterator, Recipe* recipe);
  Flow same_object(Value* left, Value* right, bool* answer);
  Flow same_item(Value* left, Value* right, bool* same);  // as containers compare: identity first, then ==
  Flow sort_items(std::vector<Value*>* items, Value* key, bool reverse);
  ValueId run_call(PyObject* callable, const std::vector<Value*>& arguments, PyObject* names = nullptr);
  ValueId run_method(PyTypeObject* type, const char* name, const std::vector<Value*>& arguments);
  Flow dict_item(Value* dict, Value* key, Value** out);
  Flow dict_set_item(Value* dict, Value* key, Value* value);
  Flow dict_delete_item(Value* dict, Value* key);
  Flow dict_contains(Value* container, Value* item, bool* found);  // of a dict or a view
  int64_t dict_length(Value* dict);
  bool has_hashed_keys(const Value* dict) const;  // hashed_keys.cpp
  Flow find_key(Value* dict, Value* key, PyObject** out, const char* context, bool inserts = false);
  void hashed_dict_recipe(Value* dict, Recipe* recipe);
  bool key_of(Value* key, PyObject** out);  // an atom, or what stands for an object that hashes by identity
  Value* key_value(PyObject* key);          // of a key that key_of answered
  void keys_are_apart(PyObject* a, PyObject* b);
  bool is_instance(Value* value);  // an object whose class is known, all through
  // A method of the class of an object, where it is written in Python; null otherwise.
  Value* python_method(Value* object, PyObject* name);

  // ---- iteration.cpp
  bool is_iterator(Value* value);
  Value* iterate(Value* value);              // an iterator; null: cannot be followed
  Flow get_iter(Value* value, Value** out);  // the same as an instruction's last act
  enum class Next { kItem, kEnd, kUnknown };
  Next next(Value* iterator, Value** out);
  Next next_of_parts(Value* iterator, size_t first, std::vector<Value*>* items);
  static bool is_real_walk(const Value* iterator);  // a real iterator that guards look into
  static bool is_builtin_iterator(const Value* iterator);
  Next peek_real(Value* iterator, Value** out);  // its next item, as it is at the entry
  void advance_real(Value* iterator, Value* item, ExitId exit);
  ExitId end_of_walk(Value* iterator);                     // where it is exhausted
  int64_t remaining(Value* iterator);                      // items left if known, else -1
  enum class Asks { kNothing, kHint };                     // what the walker asks of an object first, for room
  bool drain(Value* iterable, std::vector<Value*>* items,  // all items of something finite
             Asks asks = Asks::kNothing);
  bool ask_length(Value* iterable, bool hint);
  int64_t sequence_length(Value* sequence);  // of what kSequence iterators walk; -1: not modelled
  Value* sequence_item(Value* sequence, int64_t index);
  Value* make_iterator(IteratorKind kind, std::vector<Value*> items);
  // Known truth of what a callback answered; kUnknown: not followed. kItem: true, kEnd: false.
  Next truth_now(Value* value);
  Flow stop_iteration(const char* what);  // after Next::kUnknown
  Flow pass_on(const char* what);         // the same where what came out of the iterator goes on out of the instruction
  Next call_for_item(Value* callable, std::vector<Value*> arguments, Value** out);  // StopIteration is the end
  Flow contains_by_walk(Value* container, Value* item, Value** out);

  // ---- itertools.cpp
  Next next_of_itertools(Value* iterator, Value** out);
  void iterator_recipe(Value* iterator, Recipe* recipe);
  RecipeId iterable_recipe(Value* iterator);  // iter() of what it makes runs no code
  bool call_itertools(PyObject* callable, const std::vector<Value*>& arguments, PyObject* names, Value** out,
                      Flow* flow);

  // ---- functools.cpp
  bool call_functools(PyObject* callable, std::vector<Value*>& arguments, PyObject* names, Value** out, Flow* flow);
  bool call_made_of_others(Value* callable, const std::vector<Value*>& arguments, PyObject* names, Flow* flow);
  bool wrap_function(Value* function, std::vector<Value*>& arguments, PyObject* names, Flow* flow);
  void partial_recipe(Value* value, Recipe* recipe);

  // ---- iterators.cpp
  bool call_iterators(PyObject* callable, const std::vector<Value*>& arguments, PyObject* names, Value** out,
                      Flow* flow);

  Next next_of_generator(Value* generator, Value** out);
  Flow leave_loop(int32_t target);  // of FOR_ITER
  Value* tuple_of(std::vector<Value*> items, PyTypeObject* type = nullptr);
  static bool is_exact_tuple(const Value* value);
  Value* list_of(std::vector<Value*> items);

  Flow run_loop(size_t floor);
  void finish(ExitId exit);
  RecipeId add_recipe(Recipe recipe);
  RecipeId settle_recipe(Value* value, RecipeId id, Recipe recipe);
  void build_parts(Value* value);

  const TraceInput& input_;
  TraceResult* result_;
  const int attempt_;  // at this trace
  Trace trace_;
  ValueArena arena_;
  std::set<void*> shared_;        // see expect_foreign_code
  int nesting_ = 0, nested_ = 0;  // see Nesting
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
  // Of what is there already, by value and by constant: for all exits.
  std::vector<RecipeId> value_recipes_, constant_recipes_;
  std::set<Value*> building_;  // see build_parts
  std::unordered_map<Value*, PyObject*> identity_keys_;
  std::unordered_map<PyObject*, Value*> key_values_;
  std::unordered_map<PyObject*, Py_hash_t> hashed_keys_;  // of these: what hashes in Python
  std::unordered_map<Value*, PyObject*> hashed_stand_ins_;
  std::vector<PyTypeObject*> made_classes_;          // models of classes made here: see classes.cpp
  bool makes_class_ = false;                         // the step to come does, or changes such a class
  bool makes_inner_class_ = false;                   // a step makes a class that nobody else knows
  std::unordered_map<PyObject*, Value*> stand_ins_;  // what they hold; null: not modelled
  std::set<std::pair<Value*, Value*>> apart_;        // keys that a guard tells apart
  int compare_depth_ = 0;                            // containers within containers
  std::vector<Value*> mutated_;
  std::vector<Value*> real_mutables_;
  std::unordered_map<PyTypeObject*, int> versions_;  // classes whose version is guarded
  std::set<PyObject*> class_guarded_;                // see guard_class
  std::set<PyTypeObject*> named_;                    // see guard_name
  std::unordered_map<PyTypeObject*, Value*> class_dicts_;
  ValueId function_id_ = kNoValue;
  BreakReason reason_{};
  std::string context_;
  std::vector<GraphCall> calls_;  // for a backend
  FormOfCall form_;               // of the call at hand
  bool strict_;                   // error_on_graph_break at the present instruction
  int grad_mode_;                 // at the present instruction
  bool grad_mode_guarded_ = false;
  bool reads_gradients_ = false;                // the flags of some tensor
  bool capture_scalars_;                        // item() stays in the graph, at the present instruction
  std::map<std::string, bool> region_options_;  // settings that were changed in the trace
  int leaf_strict_ = -1;              // what it was where a callee broke, for whose sake the present call is a break
  std::set<const Value*> nonstrict_;  // partial objects that stand for what nonstrict_trace makes
  int instructions_ = 0;
  Value* looked_at_ = nullptr;   // whose attribute the instruction asks for
  bool has_fallback_ = false;    // and whether its class has a __getattr__
  bool frames_welcome_ = false;  // what follows is an instruction: an operator's method may be a frame of its own
  int call_now_depth_ = 0;       // builtins whose callbacks are being followed
  int statement_depth_ = 0;      // how many of them, the outermost ones, are parts of class statements
  int call_now_frames_ = 0;      // frames up to the outermost such builtin's call
  int tensor_calls_ = 0;
  PyObject* called_ = nullptr;  // the callable whose row tensor_call follows
  bool ended_ = false;
  Status fault_ = Status::success();  // what a check of the tracer on itself found
  std::deque<TracedException> exceptions_;
  int32_t frame_count_ = 0;
  Value* raising_ = nullptr;  // with Flow::kRaise
  Raising how_raising_ = Raising::kNew;
  bool handled_was_set_ = false;        // by a step of this trace: what the thread handles
  std::vector<PyTypeObject*> awaited_;  // exceptions that builtins inside the present instruction take themselves
  // An exception of the trace that the innermost generator handles, or, outside of any, the root; null: nothing, there
  // what the thread handles.
  Value* handled_ = nullptr;
  Value* handled_before_call_now_ = nullptr;
  Value* thread_handled_[2] = {};                             // see thread_handled
  std::vector<std::pair<Value*, RecipeId>> exit_tracebacks_;  // entries in the recipes of the exit being made
  // A break and a side exit perform the present instruction once more, so no effect may have been recorded in it, and
  // virtual values that it changed are shown as they were before. Of a builtin's callbacks the builtin's call is the
  // instruction.
  bool changed_ = false;
  bool acted_ = false;  // an effect was recorded: what guards read at the entry may have changed
  std::unordered_map<Value*, Value> before_;
  bool shows_before_ = false;       // the exit being made performs the instruction once more
  bool finalizers_ = false;         // some object that was met finalizes
  bool exiting_ = false;            // an exit is being made
  std::vector<Value*> generators_;  // made in this trace
  bool shows_dead_locals_ = false;  // the exit being made is one where an exception leaves
  int32_t instruction_serial_ = 0;
  int placed_ = -1;                                // the instruction, by number, and
  size_t placed_frames_ = 0;                       // the frames that the latest of the result's places is of
  size_t guards_before_ = 0, records_before_ = 0;  // the present instruction
};

inline constexpr int64_t kLongestDrain = 4096;  // items that one instruction walks through in a trace

bool ends_with_effects(const Value& generator);  // it waits where a handler would run if it was dropped
bool holds_frame(const Value* value, int32_t frame, int depth = 0);  // an exception that was raised in it
bool is_atom(PyObject* object);                                      // constants.cpp: a segment may hold it strongly
PyObject* function_for_steps(const char* name, _PyCFunctionFast function);  // a new one, which is an atom
bool is_left_to_the_frame(BreakReason reason);  // not the instruction, the frame is what runs plain
bool is_nan(PyObject* object);
PyTypeObject* type_of(const Value* value);   // the class of what it stands for; null: not known
PyTypeObject* as_class(const Value* value);  // a class; null: it is none
PyTypeObject* union_type();                  // of int | str
bool is_heap_type(PyTypeObject* type);
bool is_plain_class(PyTypeObject* type);  // made of Python and object alone
bool tuple_like(PyTypeObject* type);
bool inherits(PyTypeObject* type, PyObject* name, PyTypeObject* base);  // the attribute is that of base
std::string text_of(PyObject* name);
std::string qualified_name(PyObject* callable);
std::string forbidden_text(PyObject* callable);
Value* builtins_dict(Tracer& t, TraceFrame& frame);  // null: not in a dict
Flow load_global(Tracer& t, PyObject* name, bool push_null);
bool is_made_descriptor(const Value* value);  // a property, staticmethod or classmethod made here
bool is_abstract_meta(PyTypeObject* type);    // ABCMeta
bool is_length_answer(const Value* value);    // what __len__ may answer: a known number that len() accepts

// Thrown inside the tracer only, caught by trace(): the memory has changed, begin again.
struct Restart {};
// Of a walk down containers, which may hold themselves, or one another many times over.
class Nesting {
 public:
  explicit Nesting(Tracer& tracer) : tracer_(tracer) {
    if (tracer_.nesting_++ == 0) tracer_.nested_ = 0;
    ++tracer_.nested_;
  }
  ~Nesting() { --tracer_.nesting_; }
  bool is_deep() const { return tracer_.nesting_ > 64; }
  bool is_much() const { return is_deep() || tracer_.nested_ > 10000; }

 private:
  Tracer& tracer_;
};

struct Impure {  // a branch of cond would change something outside
  std::vector<std::string> stack;
  bool input = false;  // one of its operands
};
struct NotExported {
  BreakRecord record;
};

}  // namespace kintsugi
