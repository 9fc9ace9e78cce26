// One short handler an instruction. A handler takes its operands off the symbolic stack and pushes what the instruction
// leaves; or it answers stop(reason), and the loop puts the stack back and ends the trace with a break there.
#include "jit/containers.h"
#include "jit/loops.h"
#include "jit/names.h"
#include "runtime/frame.h"

namespace kintsugi {

namespace {
Value* pop(TraceFrame& frame) {
  Value* value = frame.stack.back();
  frame.stack.pop_back();
  return value;
}
std::vector<Value*> pop_many(TraceFrame& frame, size_t count) {
  std::vector<Value*> values(frame.stack.end() - count, frame.stack.end());
  frame.stack.resize(frame.stack.size() - count);
  return values;
}
}  // namespace

Flow Tracer::jump_to(int32_t target, bool backward) {
  TraceFrame& now = frame();
  now.next = target;
  if (!backward) return Flow::kGo;
  bool at_root = frames_.size() == 1;
  bool entered_here = at_root && target == input_.offset;
  if (!entered_here && ++now.loop_turns[target] < input_.policy.unroll_limit) return Flow::kGo;
  bool of_modules = !entered_here && !now.stack.empty() && walks_over_modules(now.stack.back());
  if (of_modules && now.loop_turns[target] < kMostModules) {
    instructions_ = std::max(0, instructions_ - kInstructionsATurn);
    return Flow::kGo;
  }
  if (input_.policy.exporting) refuse_long_loop();
  if (!at_root) restart_without_this_call();
  finish(exit_at(ExitKind::kNext, target, now.stack));
  return Flow::kEnd;
}

static bool is_bool(Value* value) { return value->is_constant() && PyBool_Check(value->object); }

bool is_length_answer(const Value* value) {
  if (!value->is_constant() || !PyLong_CheckExact(value->object)) return false;
  Py_ssize_t number = PyLong_AsSsize_t(value->object);
  PyErr_Clear();
  return number >= 0;
}

// False when the truth of value cannot be followed. A word leaves *known false and its hint in *answer.
bool Tracer::truth(Value* value, bool* known, bool* answer, Value** word) {
  if (Value* mapping = proxied(*this, value)) value = mapping;
  if (word != nullptr) *word = value;
  *known = true;
  if (value->content != nullptr || (python_class(value) != nullptr && value->kind != ValueKind::kTuple)) {
    for (PyObject* name : {interned.bool_, interned.len}) {
      Value* result = nullptr;
      if (call_special(value, name, {}, &result) != Flow::kGo) return false;
      if (result == nullptr) continue;
      // Python wants a bool of __bool__, and of __len__ a number that len() accepts.
      bool good = name == interned.len ? is_length_answer(result) : result->kind == ValueKind::kBool || is_bool(result);
      if (!good) return false;
      if (word == nullptr) result = specialise(result);
      return truth(result, known, answer, word);
    }
    *answer = true;
    return true;
  }
  switch (value->kind) {
    case ValueKind::kConstant: {
      PyObject* object = value->object;
      PyTypeObject* type = Py_TYPE(object);
      if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && !PyType_Check(object) && !PyModule_Check(object))
        return false;
      int truth = PyObject_IsTrue(object);
      if (truth < 0) return PyErr_Clear(), false;
      *answer = truth != 0;
      return true;
    }
    case ValueKind::kInt:
    case ValueKind::kBool:
      *known = false;
      *answer = value->int_hint != 0;
      return true;
    case ValueKind::kFloat:
      *known = false;
      *answer = value->float_hint != 0;
      return true;
    case ValueKind::kTuple:
    case ValueKind::kList:
    case ValueKind::kSet:
    case ValueKind::kDict: {
      int64_t items = length(value);
      if (items < 0) return false;
      *answer = items != 0;
      return true;
    }
    case ValueKind::kFunction:
    case ValueKind::kMethod:
    case ValueKind::kCell:
    case ValueKind::kIterator:
    case ValueKind::kPartial:
    case ValueKind::kGenerator:
    case ValueKind::kSlice: *answer = true; return true;
    case ValueKind::kObject: {
      if (value->type == &PyBaseObject_Type) return *answer = true;
      if (value->exception != nullptr && !value->is_real() && _PyType_Lookup(value->type, interned.bool_) == nullptr &&
          _PyType_Lookup(value->type, interned.len) == nullptr)
        return *answer = true;
      Value* result = is_pure_object(value) ? as_condition(value) : nullptr;
      if (result != nullptr && word == nullptr) result = specialise(result);
      return result != nullptr && truth(result, known, answer, word);
    }
    case ValueKind::kUnion: *answer = true; return true;
    default: return false;
  }
}

// assert of one element: it is read at run time, and where it is false the interpreter raises.
Flow Tracer::assert_tensor(Value* condition, int32_t target) {
  if ((condition->dynamic && condition->layout->rank > 0) || condition->layout->count != 1)
    return stop(BreakReason::k_data_branch, "a tensor's truth");
  TraceFrame& now = frame();
  if (input_.policy.exporting) {
    export_assert(condition);
    return jump_to(target, target <= now.at);
  }
  ExitId exit = exit_here(ExitKind::kStep);
  Step& read = record(StepKind::k_item);
  Value* holds = make(ValueKind::kBool);
  holds->int_hint = 1;
  read.a = condition->id;
  read.imm = 2;
  read.on_fail = exit;
  read.dst = holds->id = new_value();
  check_word(holds, 1, exit_at(ExitKind::kNext, now.next, now.stack));
  return jump_to(target, target <= now.at);
}

// A conditional jump. keep: the condition stays on the stack when it jumps (JUMP_IF_x_OR_POP).
Flow Tracer::branch(Value* condition, bool jump_if, int32_t target, bool keep) {
  condition = force(condition);
  bool known = true, answer = false;
  if (condition->kind == ValueKind::kTensor && jump_if && !keep && call_now_depth_ == 0)
    if (const Instruction& other = frame().bytecode->at(frame().next); other.opcode == Opcode::k_LOAD_ASSERTION_ERROR)
      return assert_tensor(condition, target);
  if (condition->kind == ValueKind::kTensor) return stop(BreakReason::k_data_branch, "a tensor's truth");
  Value* word = nullptr;
  if (!truth(condition, &known, &answer, &word))
    return ended_ ? Flow::kEnd : stop(BreakReason::k_object_branch, "the truth of an object that is not modelled");
  TraceFrame& now = frame();
  bool backward = target <= now.at;
  if (!known) {
    // The word decides at run time: this trace follows today's way, the other leaves through its own exit.
    if (word->kind == ValueKind::kFloat)
      word = word_compare(Compare::kNotEqual, word, constant_owned(PyFloat_FromDouble(0)));
    if (word->kind == ValueKind::kInt) word = word_compare(Compare::kNotEqual, word, int_constant(0));
    std::vector<Value*> other = now.stack;
    bool other_jumps = answer != jump_if;
    if (keep && other_jumps) other.push_back(condition);
    int32_t other_target = other_jumps ? target : now.next;
    ExitId exit = call_now_depth_ > 0 ? exit_here(ExitKind::kStep) : exit_at(ExitKind::kNext, other_target, other);
    check_word(word, answer ? 1 : 0, exit);
  }
  if (answer != jump_if) return Flow::kGo;
  if (keep) now.stack.push_back(condition);
  return jump_to(target, backward);
}

static Flow branch_none(Tracer& t, bool jump_if_none, int32_t target) {
  TraceFrame& now = t.frame();
  Value* value = t.force(pop(now));
  bool is_none = value->is_constant() && value->object == Py_None;
  if (is_none != jump_if_none) return Flow::kGo;
  return t.jump_to(target, target <= now.at);
}

Flow Tracer::identity(Value* left, Value* right, bool invert, Value** out) {
  bool same = false;
  if (Flow flow = same_object(left, right, &same); flow != Flow::kGo) return flow;
  *out = constant(same != invert ? Py_True : Py_False);
  return Flow::kGo;
}

constexpr int kUnrollNested = 4;  // turns of all inner loops together, in unroll limits

// The Python function that a virtual map calls; null: another callable, or not a map.
static Value* mapped_function(Tracer& t, Value* iterator) {
  if (iterator->kind != ValueKind::kIterator || iterator->iterator != IteratorKind::kMap || iterator->is_real())
    return nullptr;
  Value* function = t.force(iterator->items[0]);
  return function->kind == ValueKind::kFunction ? function : nullptr;
}

Flow Tracer::leave_loop(int32_t target) {
  // Small loops inside small loops unroll too, up to a number of turns in all.
  TraceFrame& now = frame();
  if (int& turns = now.loop_turns[now.at]; now.turns_done + turns < kUnrollNested * input_.policy.unroll_limit) {
    now.turns_done += turns;
    turns = 0;
  }
  pop(now);
  return jump_to(target, false);
}

static Flow for_iter(Tracer& t, const Instruction& in) {
  TraceFrame& now = t.frame();
  Value* iterator = t.force(now.stack.back());
  now.stack.back() = iterator;
  int64_t left = t.remaining(iterator);
  bool at_root = t.frames_.size() == 1;
  bool by_words =
      iterator->kind == ValueKind::kIterator && iterator->iterator == IteratorKind::kRange && !iterator->items.empty();
  if (by_words && t.input_.policy.exporting) t.refuse_long_loop();
  if (by_words && !at_root) t.restart_without_this_call();
  bool long_one = left > t.input_.policy.unroll_limit && !(left < kMostModules && walks_over_modules(iterator));
  if (at_root && (long_one || by_words) && now.loop_turns[in.offset] == 0 &&
      now.bytecode->is_loop_header[now.bytecode->index_at[in.offset]] && in.offset != t.input_.offset) {
    t.finish(t.exit_at(ExitKind::kNext, in.offset, now.stack));
    return Flow::kEnd;
  }
  if (t.acted_ && Tracer::is_real_walk(iterator) && iterator->iterator != IteratorKind::kRealRange && at_root &&
      in.offset != t.input_.offset) {  // guards of a new entry look at what comes
    t.finish(t.exit_at(ExitKind::kNext, in.offset, now.stack));
    return Flow::kEnd;
  }
  if (iterator->kind == ValueKind::kGenerator)
    return t.resume(iterator, t.none(), Resumption::kForIter, nullptr, in.target);
  Value* item = nullptr;
  if (Value* method = t.python_method(iterator, interned.next))
    return t.inline_call(method, {iterator}, nullptr, ReturnRule::kNext);
  Tracer::Next found;
  if (Value* function = mapped_function(t, iterator)) {  // its call is the last act, as __next__ is
    std::vector<Value*> arguments;
    found = t.next_of_parts(iterator, 1, &arguments);
    if (found == Tracer::Next::kItem) return t.inline_call(function, std::move(arguments), nullptr, ReturnRule::kNext);
  } else {
    found = t.next(iterator, &item);
  }
  switch (found) {
    case Tracer::Next::kItem: t.frame().stack.push_back(item); return Flow::kGo;
    case Tracer::Next::kEnd: return t.leave_loop(in.target);
    case Tracer::Next::kUnknown: break;
  }
  if (at_root && Tracer::is_builtin_iterator(iterator)) {
    t.finish(t.exit_here(ExitKind::kStep));  // the interpreter takes one item, or finds the end: no break
    return Flow::kEnd;
  }
  return t.pass_on("an iterator that is not modelled");
}

// Up to `count` items of what is unpacked. False: not followed, or an error came out of it.
static bool take(Tracer& t, Value* iterator, size_t count, std::vector<Value*>* items) {
  if (iterator == nullptr) return false;
  while (items->size() < count) {
    Value* item = nullptr;
    Tracer::Next found = t.next(iterator, &item);
    if (found == Tracer::Next::kUnknown) return false;
    if (found == Tracer::Next::kEnd) break;
    items->push_back(item);
  }
  return true;
}

static Flow unpack(Tracer& t, int count) {
  TraceFrame& now = t.frame();
  Value* value = t.force(pop(now));
  std::vector<Value*> items;
  if (value->kind == ValueKind::kTensor) {
    if (Flow flow = t.tensor_iterate(value, &items); flow != Flow::kGo) return flow;
  } else if (!take(t, t.iterate(value), static_cast<size_t>(count) + 1, &items)) {
    return t.pass_on("unpacking");
  }
  int got = static_cast<int>(items.size());
  if (got < count)
    return t.raise_text(
        PyExc_ValueError,
        "not enough values to unpack (expected " + std::to_string(count) + ", got " + std::to_string(got) + ")",
        "unpacking a different number of values");
  if (got > count)
    return t.raise_text(PyExc_ValueError, "too many values to unpack (expected " + std::to_string(count) + ")",
                        "unpacking a different number of values");
  for (int i = count - 1; i >= 0; --i) t.frame().stack.push_back(items[i]);
  return Flow::kGo;
}

static Flow unpack_ex(Tracer& t, int argument) {
  size_t before = argument & 0xff, after = argument >> 8;
  std::vector<Value*> items;
  Value* iterator = t.iterate(pop(t.frame()));
  if (!take(t, iterator, before, &items)) return t.pass_on("unpacking");
  // The rest is made a list of, which asks for an iterator once more.
  if (items.size() == before && !t.drain(iterator, &items, Tracer::Asks::kHint)) return t.pass_on("unpacking");
  if (items.size() < before + after)
    return t.raise_text(PyExc_ValueError,
                        "not enough values to unpack (expected at least " + std::to_string(before + after) + ", got " +
                            std::to_string(items.size()) + ")",
                        "not enough values to unpack");
  std::vector<Value*>& stack = t.frame().stack;
  for (size_t i = items.size(); i > items.size() - after; --i) stack.push_back(items[i - 1]);
  stack.push_back(t.list_of({items.begin() + before, items.end() - after}));
  for (size_t i = before; i > 0; --i) stack.push_back(items[i - 1]);
  return Flow::kGo;
}

// Where a function's builtins are; null: not in a dict. A function made in the trace finds them as MAKE_FUNCTION does.
Value* builtins_dict(Tracer& t, TraceFrame& now) {
  if (now.function->object != nullptr) {
    PyObject* builtins = builtins_of(reinterpret_cast<PyFunctionObject*>(now.function->object));
    if (builtins == nullptr || !PyDict_CheckExact(builtins)) return nullptr;
    return t.load_field(now.function, offsetof(PyFunctionObject, func_builtins), builtins, "builtins");
  }
  if (now.globals == nullptr) {
    t.complete_function(now.function);
    now.globals = t.force(now.function->globals);
  }
  if (now.globals->kind != ValueKind::kDict) return nullptr;
  Value* builtins = t.dict_get(now.globals, interned.builtins);
  if (builtins == nullptr) return nullptr;
  builtins = t.force(builtins);
  if (builtins->is_constant() && PyModule_CheckExact(builtins->object))
    return t.wrap_bound(PyModule_GetDict(builtins->object), "builtins");
  return builtins;
}

Flow load_global(Tracer& t, PyObject* name, bool push_null) {
  TraceFrame& now = t.frame();
  if (now.globals == nullptr) {
    t.complete_function(now.function);
    now.globals = t.force(now.function->globals);
  }
  if (now.globals->kind != ValueKind::kDict) return t.stop(BreakReason::k_instruction, "globals are not a dict");
  Value* value = t.dict_get(now.globals, name);
  if (value == nullptr) {
    Value* dict = builtins_dict(t, now);
    if (dict == nullptr || dict->kind != ValueKind::kDict)
      return t.stop(BreakReason::k_instruction, "builtins are not a dict");
    value = t.dict_get(dict, name);
    if (value == nullptr) {
      const char* text = PyUnicode_AsUTF8(name);
      if (text == nullptr) return t.stop(BreakReason::k_raises, "name is not defined");
      Value* words = t.constant_owned(PyUnicode_FromFormat("name '%.200s' is not defined", text));
      return t.raise_builtin(PyExc_NameError, {words}, {{"name", t.constant(name)}}, "name is not defined");
    }
  }
  if (push_null) now.stack.push_back(t.null());
  now.stack.push_back(value);
  return Flow::kGo;
}

static Flow make_function(Tracer& t, int flags) {
  TraceFrame& now = t.frame();
  Value* code = pop(now);
  Value* function = t.make(ValueKind::kFunction);
  if (flags & 8) function->closure = pop(now);
  if (flags & 4) function->annotations = pop(now);
  if (flags & 2) function->keyword_defaults = pop(now);
  if (flags & 1) function->defaults = pop(now);
  function->code = reinterpret_cast<PyCodeObject*>(code->object);
  t.complete_function(now.function);
  if (now.globals == nullptr) now.globals = t.force(now.function->globals);
  function->globals = now.globals;
  now.stack.push_back(function);
  return Flow::kGo;
}

static Flow before_with(Tracer& t) {
  TraceFrame& now = t.frame();
  Value* manager = t.force(pop(now));
  Value *enter = nullptr, *leave = nullptr;
  if (t.find_special(manager, interned.enter, &enter) != Tracer::Special::kPython ||
      t.find_special(manager, interned.exit, &leave) != Tracer::Special::kPython ||
      enter->kind != ValueKind::kFunction || leave->kind != ValueKind::kFunction)
    return t.stop(BreakReason::k_context_manager, "one that is not written in Python");
  Value* method = t.make(ValueKind::kMethod);
  method->items = {leave, manager};
  now.stack.push_back(method);
  return t.inline_call(enter, {manager}, nullptr, ReturnRule::kPush);
}

static Flow call_function_ex(Tracer& t, bool with_keywords) {
  TraceFrame& now = t.frame();
  Value* keywords = with_keywords ? t.force(pop(now)) : nullptr;
  Value* positional = t.force(pop(now));
  Value* callable = t.force(pop(now));
  pop(now);  // NULL
  std::vector<Value*> arguments;
  if (!t.drain(positional, &arguments, Tracer::Asks::kHint))
    return t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_variadic, "f(*x) of an unknown x");
  Ref names;
  if (keywords != nullptr) {
    if (keywords->kind != ValueKind::kDict || !t.dict_complete(keywords))
      return t.stop(BreakReason::k_variadic, "f(**x) of an unknown x");
    std::vector<PyObject*> keys;
    for (auto& [key, value] : keywords->entries) {
      if (value == nullptr && !keywords->is_real()) continue;
      if (!PyUnicode_CheckExact(key)) return t.stop(BreakReason::k_variadic, "keywords must be strings");
      Value* item = t.dict_get(keywords, key);
      if (item == nullptr) continue;
      keys.push_back(key);
      arguments.push_back(item);
    }
    names = Ref(PyTuple_New(keys.size()));
    for (size_t i = 0; i < keys.size(); ++i) PyTuple_SET_ITEM(names.get(), i, Py_NewRef(keys[i]));
    t.keep(names.get());
    if (keys.empty()) names = Ref();
  }
  return t.call(callable, std::move(arguments), names.get());
}

Flow Tracer::step(const Instruction& in) {
  TraceFrame& now = frame();
  std::vector<Value*>& stack = now.stack;
  int argument = in.argument;
  auto name_at = [&](int index) { return PyTuple_GET_ITEM(now.bytecode->code->co_names, index); };
  auto push = [&](Value* value) {
    if (value == nullptr) return stop(BreakReason::k_raises, "an object that could not be made");
    frame().stack.push_back(value);
    return Flow::kGo;
  };
  auto pushed = [&](Flow flow, Value* value) {  // null without a break: an inlined call will push it
    if (flow == Flow::kGo && value != nullptr) frame().stack.push_back(value);
    return flow;
  };
  Value* out = nullptr;

  switch (in.opcode) {
    case Opcode::k_NOP:
    case Opcode::k_RESUME:
    case Opcode::k_PRECALL: return Flow::kGo;
    case Opcode::k_POP_TOP: {
      Value* dropped = pop(now);
      return ends_here(dropped) ? stop(BreakReason::k_instruction, "an object with a finalizer ends") : Flow::kGo;
    }
    case Opcode::k_PUSH_NULL: return push(null());
    case Opcode::k_COPY: return push(stack[stack.size() - argument]);
    case Opcode::k_SWAP: std::swap(stack[stack.size() - argument], stack.back()); return Flow::kGo;

    case Opcode::k_LOAD_CONST: {
      PyObject* object = PyTuple_GET_ITEM(now.bytecode->code->co_consts, argument);
      return push(constant(object));
    }
    case Opcode::k_LOAD_FAST: {
      Value* value = now.locals[argument];
      if (value->kind == ValueKind::kNull) return raise_unbound(argument);
      return push(value->forwarded != nullptr ? value->forwarded : value);
    }
    case Opcode::k_STORE_FAST:
    case Opcode::k_DELETE_FAST: {
      bool deletes = in.opcode == Opcode::k_DELETE_FAST;
      if (deletes && now.locals[argument]->kind == ValueKind::kNull) return raise_unbound(argument);
      Value* old = std::exchange(now.locals[argument], deletes ? null() : pop(now));
      if (!ends_here(old)) return Flow::kGo;
      now.locals[argument] = old;
      return stop(BreakReason::k_instruction, "an object with a finalizer ends");
    }
    case Opcode::k_LOAD_GLOBAL: return load_global(*this, name_at(argument >> 1), argument & 1);
    case Opcode::k_STORE_GLOBAL: {
      if (now.globals == nullptr) {
        complete_function(now.function);
        now.globals = force(now.function->globals);
      }
      if (now.globals->kind != ValueKind::kDict) return stop(BreakReason::k_instruction, "globals are not a dict");
      Value* value = force(pop(now));
      ValueId object = object_of(value);
      Step& store = record(StepKind::k_global_set);
      store.a = now.globals->id;
      store.b = object;
      size_t at = trace_.records.size() - 1;
      ConstantId name = constant_id(name_at(argument), Hold::kStrong);
      ExitId exit = exit_here(ExitKind::kRaise);
      trace_.records[at].step.constant = name;
      trace_.records[at].step.on_fail = exit;
      mutate(now.globals);
      dict_put(now.globals, name_at(argument), value);
      return Flow::kGo;
    }

    case Opcode::k_MAKE_CELL: {
      Value* cell = make(ValueKind::kCell);
      Value* content = now.locals[argument];
      if (content->kind != ValueKind::kNull) cell->items.push_back(content);
      now.locals[argument] = cell;
      return Flow::kGo;
    }
    case Opcode::k_COPY_FREE_VARS: {
      complete_function(now.function);
      Value* closure = now.function->closure == nullptr ? nullptr : force(now.function->closure);
      if (closure == nullptr || closure->kind != ValueKind::kTuple) return stop(BreakReason::k_internal, "no closure");
      int first = now.bytecode->code->co_nlocalsplus - argument;
      for (int i = 0; i < argument; ++i) now.locals[first + i] = item_at(closure, i);
      return Flow::kGo;
    }
    case Opcode::k_LOAD_CLOSURE: return push(force(now.locals[argument]));
    case Opcode::k_LOAD_DEREF: {
      Value* cell = now.locals[argument] = force(now.locals[argument]);
      if (cell->kind != ValueKind::kCell) return stop(BreakReason::k_internal, "no cell");
      Value* content = cell_content(cell, slot_name(now.bytecode->code, argument));
      return content == nullptr ? stop(BreakReason::k_unbound) : push(content);
    }
    case Opcode::k_STORE_DEREF: {
      Value* cell = now.locals[argument] = force(now.locals[argument]);
      if (cell->kind != ValueKind::kCell) return stop(BreakReason::k_internal, "no cell");
      Value* value = pop(now);
      if (cell->is_real()) {
        ValueId object = object_of(value);
        Step& store = record(StepKind::k_cell_set);
        store.a = cell->id;
        store.b = object;
        size_t at = trace_.records.size() - 1;
        ExitId exit = exit_here(ExitKind::kRaise);
        trace_.records[at].step.on_fail = exit;
        mutate(cell);
      }
      changing(cell);
      cell->items = {value};
      cell->complete = true;
      return Flow::kGo;
    }

    case Opcode::k_DELETE_DEREF: {
      Value* cell = now.locals[argument] = force(now.locals[argument]);
      if (cell->kind != ValueKind::kCell) return stop(BreakReason::k_internal, "no cell");
      if (cell_content(cell, slot_name(now.bytecode->code, argument)) == nullptr) return stop(BreakReason::k_unbound);
      changing(cell);
      if (cell->is_real()) {
        ExitId exit = exit_here(ExitKind::kRaise);
        Step& store = record(StepKind::k_cell_set);
        store.a = cell->id;
        store.on_fail = exit;
        mutate(cell);
      }
      cell->items.clear();
      cell->complete = true;
      return Flow::kGo;
    }

    case Opcode::k_UNARY_POSITIVE:
    case Opcode::k_UNARY_NEGATIVE:
    case Opcode::k_UNARY_INVERT:
    case Opcode::k_UNARY_NOT: {
      Value* operand = force(pop(now));
      Flow flow = unary(static_cast<int>(in.opcode), operand, &out);
      return pushed(flow, out);
    }
    case Opcode::k_BINARY_OP: {
      Value* right = force(pop(now));
      Value* left = force(pop(now));
      frames_welcome_ = true;
      Flow flow = binary(argument, left, right, &out);
      return pushed(flow, out);
    }
    case Opcode::k_COMPARE_OP: {
      Value* right = force(pop(now));
      Value* left = force(pop(now));
      Flow flow = compare(argument, left, right, &out);
      return pushed(flow, out);
    }
    case Opcode::k_IS_OP: {
      Value* right = force(pop(now));
      Value* left = force(pop(now));
      Flow flow = identity(left, right, argument != 0, &out);
      return pushed(flow, out);
    }
    case Opcode::k_CONTAINS_OP: {
      Value* container = force(pop(now));
      Value* item = force(pop(now));
      Flow flow = contains(container, item, &out);
      if (flow == Flow::kGo && argument != 0) {
        bool known, answer;
        if (!truth(out, &known, &answer)) return stop(BreakReason::k_container, "not in");
        out = known ? constant(answer ? Py_False : Py_True) : word_compare(Compare::kEqual, out, int_constant(0));
      }
      return pushed(flow, out);
    }
    case Opcode::k_BINARY_SUBSCR: {
      Value* key = force(pop(now));
      Value* container = force(pop(now));
      Flow flow = get_item(container, key, &out);
      return pushed(flow, out);
    }
    case Opcode::k_STORE_SUBSCR: {
      Value* key = force(pop(now));
      Value* container = force(pop(now));
      Value* value = force(pop(now));
      return set_item(container, key, value);
    }
    case Opcode::k_DELETE_SUBSCR: {
      Value* key = force(pop(now));
      Value* container = force(pop(now));
      return delete_item(container, key);
    }

    case Opcode::k_JUMP_FORWARD: return jump_to(in.target, false);
    case Opcode::k_JUMP_BACKWARD:
    case Opcode::k_JUMP_BACKWARD_NO_INTERRUPT: return jump_to(in.target, true);
    case Opcode::k_POP_JUMP_FORWARD_IF_TRUE:
    case Opcode::k_POP_JUMP_BACKWARD_IF_TRUE: return branch(pop(now), true, in.target, false);
    case Opcode::k_POP_JUMP_FORWARD_IF_FALSE:
    case Opcode::k_POP_JUMP_BACKWARD_IF_FALSE: return branch(pop(now), false, in.target, false);
    case Opcode::k_POP_JUMP_FORWARD_IF_NONE:
    case Opcode::k_POP_JUMP_BACKWARD_IF_NONE: return branch_none(*this, true, in.target);
    case Opcode::k_POP_JUMP_FORWARD_IF_NOT_NONE:
    case Opcode::k_POP_JUMP_BACKWARD_IF_NOT_NONE: return branch_none(*this, false, in.target);
    case Opcode::k_JUMP_IF_TRUE_OR_POP: return branch(pop(now), true, in.target, true);
    case Opcode::k_JUMP_IF_FALSE_OR_POP: return branch(pop(now), false, in.target, true);

    case Opcode::k_FOR_ITER: return for_iter(*this, in);
    case Opcode::k_UNPACK_SEQUENCE: return unpack(*this, argument);
    case Opcode::k_UNPACK_EX: return unpack_ex(*this, argument);
    case Opcode::k_GET_LEN: {
      int64_t items = length(force(stack.back()));
      if (items < 0) return stop(BreakReason::k_container, "length");
      return push(int_constant(items));
    }

    case Opcode::k_BUILD_TUPLE: return push(tuple_of(pop_many(now, argument)));
    case Opcode::k_BUILD_LIST: return push(list_of(pop_many(now, argument)));
    case Opcode::k_BUILD_SLICE: {
      Value* slice = make(ValueKind::kSlice);
      slice->items = pop_many(now, argument);
      for (Value*& part : slice->items) part = force(part);
      if (slice->items.size() == 2) slice->items.push_back(none());
      bool folds = true;
      for (Value* part : slice->items) folds = folds && part->is_constant();
      if (folds)
        return push(
            constant_owned(PySlice_New(slice->items[0]->object, slice->items[1]->object, slice->items[2]->object)));
      return push(slice);
    }
    case Opcode::k_BUILD_SET: {
      std::vector<Value*> items = pop_many(now, argument);
      Flow flow = build_set(*this, items, &out);
      return pushed(flow, out);
    }
    case Opcode::k_SET_ADD:
    case Opcode::k_SET_UPDATE: {
      std::vector<Value*> arguments{force(pop(now))};
      Value* set = force(stack[stack.size() - argument]);
      if (set->kind != ValueKind::kSet) return stop(BreakReason::k_container, "a set");
      return set_method(*this, set, in.opcode == Opcode::k_SET_ADD ? "add" : "update", arguments, &out);
    }
    case Opcode::k_BUILD_MAP:
    case Opcode::k_BUILD_CONST_KEY_MAP: {
      Value* dict = make(ValueKind::kDict);
      std::vector<Value*> keys, values;
      if (in.opcode == Opcode::k_BUILD_MAP) {
        std::vector<Value*> all = pop_many(now, 2 * argument);
        for (size_t i = 0; i < all.size(); i += 2) keys.push_back(all[i]), values.push_back(all[i + 1]);
      } else {
        Value* names = pop(now);
        values = pop_many(now, argument);
        for (int i = 0; i < argument; ++i) keys.push_back(constant(PyTuple_GET_ITEM(names->object, i)));
      }
      for (size_t i = 0; i < keys.size(); ++i) {
        if (Flow flow = dict_set_item(dict, force(keys[i]), values[i]); flow != Flow::kGo) return flow;
      }
      return push(dict);
    }
    case Opcode::k_LIST_APPEND: {
      Value* item = pop(now);
      Value* list = stack[stack.size() - argument] = force(stack[stack.size() - argument]);
      std::vector<Value*> arguments{item};
      return container_method(list, interned.append, arguments, nullptr, &out);
    }
    case Opcode::k_LIST_EXTEND: {
      Value* items = pop(now);
      Value* list = stack[stack.size() - argument] = force(stack[stack.size() - argument]);
      std::vector<Value*> arguments{items};
      return container_method(list, interned.extend, arguments, nullptr, &out);
    }
    case Opcode::k_MAP_ADD: {
      Value* value = pop(now);
      Value* key = force(pop(now));
      Value* dict = stack[stack.size() - argument] = force(stack[stack.size() - argument]);
      return set_item(dict, key, value);
    }
    case Opcode::k_DICT_UPDATE: {
      Value* other = force(pop(now));
      std::vector<Value*> arguments{other};
      if (merged_dict(*this, other) == nullptr)
        return stop(BreakReason::k_container, "merging a dict that is not modelled");
      return container_method(stack[stack.size() - argument], interned.update, arguments, nullptr, &out);
    }
    case Opcode::k_DICT_MERGE: {
      Value* other = force(pop(now));
      Value* dict = force(stack[stack.size() - argument]);
      other = merged_dict(*this, other);
      if (other == nullptr || !dict_complete(other) || dict->is_real() || dict->kind != ValueKind::kDict)
        return stop(BreakReason::k_container, "merging a dict that is not modelled");
      for (size_t i = 0; i < other->entries.size(); ++i) {
        PyObject* key = other->entries[i].first;
        Value* value = dict_get(other, key);
        if (value == nullptr) continue;
        if (!PyUnicode_CheckExact(key)) return stop(BreakReason::k_raises, "keywords must be strings");
        if (dict_get(dict, key) != nullptr) return stop(BreakReason::k_raises, "keyword given twice");
        dict_put(dict, key, value);
      }
      return Flow::kGo;
    }
    case Opcode::k_LIST_TO_TUPLE: {
      Value* list = force(pop(now));
      std::vector<Value*>* items;
      if (!list_items(list, &items)) return stop(BreakReason::k_container, "list to tuple");
      std::vector<Value*> copy;
      for (size_t i = 0; i < items->size(); ++i) copy.push_back(item_at(list, i));
      return push(tuple_of(std::move(copy)));
    }
    case Opcode::k_FORMAT_VALUE: {
      Value* spec = argument & 4 ? force(pop(now)) : nullptr;
      Value* value = force(pop(now));
      if (value->exception != nullptr && !value->is_real() && spec == nullptr && (argument & 3) < 3) {
        Flow flow = exception_text(value, (argument & 3) == 2, nullptr, &out);
        return pushed(flow, out);
      }
      Flow flow = format_value(value, argument & 3, spec, &out);
      return pushed(flow, out);
    }
    case Opcode::k_BUILD_STRING: {
      Flow flow = join_text(pop_many(now, argument), &out);
      return pushed(flow, out);
    }

    case Opcode::k_LOAD_ATTR: {
      Value* object = force(pop(now));
      Flow flow = get_attribute(object, name_at(argument), &out);
      return pushed(flow, out);
    }
    case Opcode::k_STORE_ATTR: {
      Value* object = force(pop(now));
      Value* value = force(pop(now));
      return set_attribute(object, name_at(argument), value);
    }
    case Opcode::k_DELETE_ATTR: return set_attribute(force(pop(now)), name_at(argument), nullptr);
    case Opcode::k_LOAD_METHOD: {
      Value* object = force(pop(now));
      Value *function = nullptr, *self = nullptr;
      Flow flow = load_method(object, name_at(argument), &function, &self);
      if (flow != Flow::kGo || function == nullptr) return flow;
      if (self != nullptr) {
        push(function);
        return push(self);
      }
      push(null());
      return push(function);
    }
    case Opcode::k_KW_NAMES:
      now.keyword_names = PyTuple_GET_ITEM(now.bytecode->code->co_consts, argument);
      return Flow::kGo;
    case Opcode::k_CALL: {
      PyObject* names = std::exchange(now.keyword_names, nullptr);
      std::vector<Value*> arguments = pop_many(now, argument);
      Value* second = pop(now);
      Value* first = pop(now);
      Value* callable = force(second);
      if (first->kind != ValueKind::kNull) {
        callable = force(first);
        arguments.insert(arguments.begin(), second);
      }
      return call(callable, std::move(arguments), names);
    }
    case Opcode::k_CALL_FUNCTION_EX: return call_function_ex(*this, argument & 1);
    case Opcode::k_MAKE_FUNCTION: return make_function(*this, argument);
    case Opcode::k_BEFORE_WITH: return before_with(*this);
    case Opcode::k_RETURN_VALUE: return return_value(pop(now));
    case Opcode::k_RETURN_GENERATOR: return make_generator();
    case Opcode::k_YIELD_VALUE: return yield_value(pop(now));
    case Opcode::k_SEND: return send_on(pop(now), in.target);
    case Opcode::k_GET_YIELD_FROM_ITER:
    case Opcode::k_GET_ITER: {
      Flow flow = get_iter(pop(now), &out);
      return pushed(flow, out);
    }
    case Opcode::k_LOAD_ASSERTION_ERROR: return push(constant(PyExc_AssertionError));
    case Opcode::k_RAISE_VARARGS:
    case Opcode::k_RERAISE:
    case Opcode::k_PUSH_EXC_INFO:
    case Opcode::k_POP_EXCEPT:
    case Opcode::k_CHECK_EXC_MATCH:
    case Opcode::k_CHECK_EG_MATCH:
    case Opcode::k_PREP_RERAISE_STAR:
    case Opcode::k_WITH_EXCEPT_START: return exception_step(in);
    case Opcode::k_IMPORT_NAME: return import_name(name_at(argument));
    case Opcode::k_IMPORT_FROM: return import_from(name_at(argument));
    case Opcode::k_MATCH_SEQUENCE:
    case Opcode::k_MATCH_MAPPING:
    case Opcode::k_MATCH_KEYS:
    case Opcode::k_MATCH_CLASS: return match(in.opcode, argument);
    case Opcode::k_LOAD_BUILD_CLASS:
    case Opcode::k_LOAD_NAME:
    case Opcode::k_STORE_NAME:
    case Opcode::k_DELETE_NAME:
    case Opcode::k_SETUP_ANNOTATIONS:
    case Opcode::k_LOAD_CLASSDEREF: return class_step(in);
    default: return stop(BreakReason::k_instruction, opcode_name(in.opcode));
  }
}

}  // namespace kintsugi
