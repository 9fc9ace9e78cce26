// Calls in the trace: which callable it is, binding of arguments, inlining, results.
#include "jit/containers.h"
#include "jit/exceptions.h"
#include "runtime/frame.h"

namespace kintsugi {

constexpr size_t kInlineDepth = 24;            // frames in one trace
constexpr size_t kInlineDepthOfExports = 100;  // which have no other way
constexpr int kRecursionDepth = 4;             // activations of one code object in one trace

// A real function's parts become known when they are needed; each is guarded for itself.
void Tracer::complete_function(Value* function) {
  if (function->complete) return;
  function->complete = true;
  PyFunctionObject* real = reinterpret_cast<PyFunctionObject*>(function->object);
  std::string text = source_text(function);
  function->globals =
      load_field(function, offsetof(PyFunctionObject, func_globals), globals_of(real), text + ".__globals__");
  if (PyObject* closure = closure_of(real); closure != nullptr)
    function->closure = load_field(function, offsetof(PyFunctionObject, func_closure), closure, text + ".__closure__");
}

static Value* default_of(Tracer& t, Value* function, int index,
                         int count) {  // of positional parameter `index` of `count`
  if (function->defaults == nullptr && function->object != nullptr) {
    PyObject* defaults = defaults_of(reinterpret_cast<PyFunctionObject*>(function->object));
    if (defaults == nullptr) return nullptr;
    function->defaults = t.load_field(function, offsetof(PyFunctionObject, func_defaults), defaults,
                                      t.source_text(function) + ".__defaults__");
  }
  if (function->defaults == nullptr) return nullptr;
  Value* defaults = t.force(function->defaults);
  std::vector<Value*>* items;
  if (!t.list_items(defaults, &items)) return nullptr;
  int64_t at = index - (count - static_cast<int64_t>(items->size()));
  return at < 0 ? nullptr : t.item_at(defaults, static_cast<size_t>(at));
}

static Value* keyword_default_of(Tracer& t, Value* function, PyObject* name) {
  if (function->keyword_defaults == nullptr && function->object != nullptr) {
    PyObject* defaults = keyword_defaults_of(reinterpret_cast<PyFunctionObject*>(function->object));
    if (defaults == nullptr) return nullptr;
    function->keyword_defaults = t.load_field(function, offsetof(PyFunctionObject, func_kwdefaults), defaults,
                                              t.source_text(function) + ".__kwdefaults__");
  }
  if (function->keyword_defaults == nullptr) return nullptr;
  Value* defaults = t.force(function->keyword_defaults);
  return defaults->kind == ValueKind::kDict ? t.dict_get(defaults, name) : nullptr;
}

// Python's binding of arguments to parameters. False: it does not bind; the real call will say so.
bool Tracer::bind(Value* function, const std::vector<Value*>& arguments, PyObject* names, std::vector<Value*>* locals) {
  PyCodeObject* code = function->code;
  int positional = code->co_argcount, keyword_only = code->co_kwonlyargcount, total = positional + keyword_only;
  bool rest = code->co_flags & CO_VARARGS, rest_names = code->co_flags & CO_VARKEYWORDS;
  locals->assign(code->co_nlocalsplus, null());
  size_t keywords = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  size_t given = arguments.size() - keywords;
  for (size_t i = 0; i < given && i < static_cast<size_t>(positional); ++i) (*locals)[i] = arguments[i];
  if (given > static_cast<size_t>(positional) && !rest) return false;
  if (rest) {
    std::vector<Value*> others;
    for (size_t i = positional; i < given; ++i) others.push_back(arguments[i]);
    (*locals)[total] = tuple_of(std::move(others));
  }
  Value* extra = nullptr;
  if (rest_names) (*locals)[total + (rest ? 1 : 0)] = extra = make(ValueKind::kDict);
  for (size_t k = 0; k < keywords; ++k) {
    PyObject* name = PyTuple_GET_ITEM(names, k);
    int found = -1;
    for (int i = code->co_posonlyargcount; i < total && found < 0; ++i)
      if (slot_name(code, i) == name || PyUnicode_Compare(slot_name(code, i), name) == 0) found = i;
    if (found >= 0) {
      if ((*locals)[found]->kind != ValueKind::kNull) return false;
      (*locals)[found] = arguments[given + k];
    } else if (extra != nullptr) {
      dict_put(extra, name, arguments[given + k]);
    } else {
      return false;
    }
  }
  for (int i = 0; i < total; ++i) {
    if ((*locals)[i]->kind != ValueKind::kNull) continue;
    Value* value = i < positional ? default_of(*this, function, i, positional)
                                  : keyword_default_of(*this, function, slot_name(code, i));
    if (value == nullptr) return false;
    (*locals)[i] = value;
  }
  return true;
}

bool Tracer::has_room_for(PyCodeObject* code) const {
  if (input_.policy.exporting) return frames_.size() < kInlineDepthOfExports;
  int same = 0;
  for (const TraceFrame& each : frames_) same += each.bytecode->code == code;
  return same < kRecursionDepth && frames_.size() < kInlineDepth;
}

// The function's code without its body: what is left is how arguments bind.
static Ref bodiless(PyCodeObject* code) {
  Ref nothing(Py_CompileString("None", "", Py_eval_input)), arguments(PyTuple_New(0)), named(PyDict_New());
  if (!nothing || !arguments || !named) return Ref();
  auto put = [&](const char* name, PyObject* stolen) {
    Ref value(stolen);
    return value && PyDict_SetItemString(named.get(), name, value.get()) == 0;
  };
  for (const char* name : {"co_code", "co_consts", "co_exceptiontable", "co_stacksize", "co_linetable"})
    if (!put(name, PyObject_GetAttrString(nothing.get(), name))) return Ref();
  int flags = code->co_flags & ~(CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);
  if (!put("co_flags", PyLong_FromLong(flags)) || !put("co_cellvars", PyTuple_New(0)) ||
      !put("co_freevars", PyTuple_New(0)))
    return Ref();
  Ref replace(PyObject_GetAttrString(reinterpret_cast<PyObject*>(code), "replace"));
  return Ref(replace ? PyObject_Call(replace.get(), arguments.get(), named.get()) : nullptr);
}

// The TypeError of a call that does not bind, as such a function says it.
static Flow refuse_binding(Tracer& t, Value* function, const std::vector<Value*>& arguments, PyObject* names,
                           const std::string& text) {
  Value* qualname = nullptr;
  auto unknown = [&] {
    PyErr_Clear();
    return t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_call_binding, text);
  };
  if (t.attribute_now(function, interned.qualname, &qualname) != Flow::kGo || qualname == nullptr) return unknown();
  PyObject* name;
  Ref code = t.fold(t.force(qualname), &name) && PyUnicode_CheckExact(name) ? bodiless(function->code) : Ref();
  Ref globals(PyDict_New());
  Ref stub(code && globals ? PyFunction_NewWithQualName(code.get(), globals.get(), name) : nullptr);
  if (!stub) return unknown();
  Value *defaults = function->defaults, *keyword_defaults = function->keyword_defaults;
  if (function->is_real() && (t.attribute_now(function, interned.defaults, &defaults) != Flow::kGo ||
                              t.attribute_now(function, interned.kwdefaults, &keyword_defaults) != Flow::kGo))
    return unknown();
  auto is_given = [&](Value*& value) {
    if (value != nullptr) value = t.force(value);
    return value != nullptr && !(value->is_constant() && value->object == Py_None);
  };
  if (is_given(defaults)) {
    int64_t count = t.length(defaults);
    Ref values(count < 0 ? nullptr : PyTuple_New(count));
    for (int64_t i = 0; values && i < count; ++i) PyTuple_SET_ITEM(values.get(), i, Py_NewRef(Py_None));
    if (!values || PyFunction_SetDefaults(stub.get(), values.get()) < 0) return unknown();
  }
  if (is_given(keyword_defaults)) {
    Ref values(PyDict_New());
    if (!values || keyword_defaults->kind != ValueKind::kDict || !t.dict_complete(keyword_defaults)) return unknown();
    for (auto& [key, value] : keyword_defaults->entries)
      if ((value != nullptr || keyword_defaults->is_real()) && PyDict_SetItem(values.get(), key, Py_None) < 0)
        return unknown();
    if (PyFunction_SetKwDefaults(stub.get(), values.get()) < 0) return unknown();
  }
  std::vector<PyObject*> given(arguments.size() + 1, Py_None);
  size_t named = names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names));
  Ref result(PyObject_Vectorcall(stub.get(), given.data(), arguments.size() - named, names));
  if (result || !PyErr_ExceptionMatches(PyExc_TypeError)) return unknown();
  return t.raise_pending(text);
}

Flow Tracer::inline_call(Value* function, std::vector<Value*> arguments, PyObject* names, ReturnRule rule) {
  TraceFrame& caller = frame();
  PyObject* name = function->code->co_qualname;
  std::string text = PyUnicode_AsUTF8(name) != nullptr ? PyUnicode_AsUTF8(name) : "?";
  PyErr_Clear();
  if (function->is_real() && function->object != nullptr) {
    Mark mark = mark_of(function->object);
    if (mark.kind == MarkKind::kForbidden) return fail(Failure::kForbidden, forbidden_text(function->object));
    if (mark.kind == MarkKind::kBreak) return stop(mark.reason, mark.context);
  }
  if (!input_.policy.inline_calls) return stop(BreakReason::k_not_inlined, text);
  if (bytecode_of(function->code).library == LibraryCode::kLeftAlone) return stop(BreakReason::k_not_inlined, text);
  if (!is_ordinary(function->code) && !is_generator(function->code)) return stop(BreakReason::k_generator, text);
  if (auto known = input_.memory->not_inlined.find({caller.bytecode->code, caller.at});
      known != input_.memory->not_inlined.end()) {
    leaf_strict_ = known->second;
    return stop(BreakReason::k_not_inlined, text);
  }
  if (!has_room_for(function->code)) return stop(BreakReason::k_not_inlined, text + " (depth)");
  std::vector<Value*> locals;
  if (!bind(function, arguments, names, &locals))
    return is_handled(as_type(PyExc_TypeError), frames_.size())
               ? refuse_binding(*this, function, arguments, names, text)
               : stop(BreakReason::k_call_binding, text);
  const Bytecode& bytecode = bytecode_of(function->code);
  frames_.emplace_back();
  TraceFrame& callee = frames_.back();
  callee.bytecode = &bytecode;
  callee.function = function;
  callee.locals = std::move(locals);
  callee.rule = rule;
  callee.number = ++frame_count_;
  callee.hard = bytecode.library == LibraryCode::kWhole;
  return Flow::kGo;
}

Flow Tracer::return_value(Value* value) {
  if (frame().generator != nullptr) return finish_generator(value);
  if (frames_.size() == 1) {
    recipes_.clear();
    Exit exit;
    exit.kind = ExitKind::kReturn;
    if (handled_ != nullptr) return stop(BreakReason::k_internal, "a return inside of a handler");
    if (frame().at != input_.offset && (input_.policy.watched || outlives_its_call())) {
      shows_dead_locals_ = true;  // into the frame, then from an entry of its own
      finish(exit_here(ExitKind::kNext));
      shows_dead_locals_ = false;
      return Flow::kEnd;
    }
    exit.result = recipe_of(value);
    refuse_raised();
    guard_no_generator_is_dropped();
    plan().exits.push_back(std::move(exit));
    plan().final_exit = static_cast<ExitId>(plan().exits.size() - 1);
    ended_ = true;
    return Flow::kEnd;
  }
  ReturnRule rule = frame().rule;
  if (frame().refusal != kNoConstant && force(value)->is_constant() && force(value)->object == Py_NotImplemented)
    restart_without_this_call();
  if (rule == ReturnRule::kInit) {
    Value* result = force(value);
    if (!result->is_constant() || result->object != Py_None)
      return stop(BreakReason::k_raises, "__init__ returns a value");
  }
  if (rule == ReturnRule::kClass && !is_cell_of(frames_[frames_.size() - 2].stack.back(), force(value)))
    return stop(BreakReason::k_raises, "a class statement that makes something else");
  if (rule == ReturnRule::kIterator && !is_iterator(force(value)))
    return stop(BreakReason::k_raises, "iter() of an object returns no iterator");
  frames_.pop_back();
  std::vector<Value*>& stack = frame().stack;
  if (rule == ReturnRule::kNextOr || rule == ReturnRule::kAttribute) stack.pop_back();
  if (rule == ReturnRule::kNamedAttribute || rule == ReturnRule::kClass) stack.resize(stack.size() - 2);
  if (rule != ReturnRule::kInit && rule != ReturnRule::kDiscard) stack.push_back(value);
  return Flow::kGo;
}

// Inside the present instruction: a builtin's callback, a comparison's method. A break in it makes the whole
// instruction the break, so nothing may have been changed on the way (record() and changing() see to it).
Flow Tracer::at_once(const std::function<Flow(Value**)>& operation, Value** out) {
  if (call_now_depth_++ == 0) {
    call_now_frames_ = static_cast<int>(frames_.size());
    handled_before_call_now_ = handled_;
  }
  size_t floor = frames_.size(), depth = frame().stack.size();
  *out = nullptr;
  Flow flow = operation(out);
  if (flow == Flow::kRaise && frames_.size() > floor) flow = follow_raise(floor);  // thrown into a generator
  if (flow == Flow::kGo && frames_.size() > floor) flow = run_loop(floor);
  --call_now_depth_;
  if (flow != Flow::kGo) {
    if (frames_.size() == floor) frame().stack.resize(depth);
    return flow;
  }
  if (frame().stack.size() > depth) {
    *out = frame().stack.back();
    frame().stack.pop_back();
  }
  if (*out != nullptr) *out = force(*out);
  return Flow::kGo;
}

Flow Tracer::call_now(Value* callable, std::vector<Value*> arguments, Value** out, PyObject* names) {
  callable = force(callable);
  if (callable->kind == ValueKind::kMethod && callable->items[0]->is_constant()) {
    arguments.insert(arguments.begin(), callable->items[1]);
    callable = callable->items[0];
  }
  bool resumes = callable->is_constant() && Py_TYPE(callable->object) == &PyMethodDescr_Type &&
                 reinterpret_cast<PyDescrObject*>(callable->object)->d_type == &PyGen_Type;
  bool of_subclass = !arguments.empty() && force(arguments[0])->content != nullptr;  // its methods may be asked
  if (!resumes && !of_subclass && callable->is_constant() &&
      Py_TYPE(callable->object) == &PyMethodDescr_Type) {  // calls no code of the program
    bool handled = false;
    Flow flow = call_builtin(callable, arguments, names, out, &handled);
    return flow == Flow::kGo && (!handled || *out == nullptr) ? stop(BreakReason::k_call, "a callback") : flow;
  }
  Flow flow = at_once([&](Value**) { return call(callable, std::move(arguments), names); }, out);
  return flow == Flow::kGo && *out == nullptr ? stop(BreakReason::k_call, "a callback") : flow;
}

Flow Tracer::call_last(Value* callable, std::vector<Value*> arguments, PyObject* names, Value** out, ReturnRule rule) {
  callable = force(callable);
  if (callable->kind == ValueKind::kMethod) {
    arguments.insert(arguments.begin(), callable->items[1]);
    callable = force(callable->items[0]);
  }
  if (callable->kind == ValueKind::kFunction) return inline_call(callable, std::move(arguments), names, rule);
  size_t floor = frames_.size(), depth = frame().stack.size();
  Flow flow = call(callable, std::move(arguments), names);
  if (flow != Flow::kGo || frames_.size() > floor) return flow;  // a frame's own rule is kPush: see its callers
  *out = frame().stack.back();
  frame().stack.resize(depth);
  return Flow::kGo;
}

Flow Tracer::call(Value* callable, std::vector<Value*> arguments, PyObject* names) {
  callable = force(callable);
  if (Flow flow; call_marked(callable, arguments, names, &flow)) return flow;
  switch (callable->kind) {
    case ValueKind::kFunction: {
      if (Flow flow; wrap_function(callable, arguments, names, &flow)) return flow;
      if (Flow flow; make_library_class(*this, callable->object, arguments, names, &flow)) return flow;
      Value* implementation = nullptr;
      bool dispatches = false;
      if (Flow flow = call_dispatch(*this, callable, arguments, names, &implementation, &dispatches); dispatches) {
        if (flow == Flow::kGo) frame().stack.push_back(implementation);
        return flow;
      }
      if (callable->source >= 0) {  // of re: written in Python, known by what it answers
        Value* out = nullptr;
        bool handled = false;
        Flow flow = pure_call(callable->object, arguments, names, &out, &handled);
        if (handled || flow != Flow::kGo) {
          if (flow == Flow::kGo) frame().stack.push_back(out);
          return flow;
        }
      }
      return inline_call(callable, std::move(arguments), names, ReturnRule::kPush);
    }
    case ValueKind::kMethod: {
      arguments.insert(arguments.begin(), callable->items[1]);
      return call(callable->items[0], std::move(arguments), names);
    }
    case ValueKind::kObject: {
      if (Flow flow; call_made_of_others(callable, arguments, names, &flow)) return flow;
      if (Flow flow; call_lru_cache(*this, callable, arguments, names, &flow)) return flow;
      if (callable->source >= 0)
        if (bool hard = false; PyFunctionObject* target = compiled_target(
                                   callable->object, &hard)) {  // a wrapper met in a trace is its function
          ConstantId wrapper = constant_id(callable->object, Hold::kWeak);
          Guard& same = guard(GuardKind::k_same, callable->source);
          same.a = callable->id;
          same.constant = wrapper;
          size_t depth = frames_.size();
          Flow flow =
              call(wrap_bound(reinterpret_cast<PyObject*>(target), source_text(callable)), std::move(arguments), names);
          if (frames_.size() > depth) frame().hard = hard;
          return flow;
        }
      Value* method = nullptr;
      if (find_special(callable, interned.call, &method) != Special::kPython)
        return stop(BreakReason::k_call, callable->type->tp_name);
      arguments.insert(arguments.begin(), callable);
      return call(method, std::move(arguments), names);
    }
    case ValueKind::kConstant: {
      PyObject* object = callable->object;
      if (const FunctionRow* row = find_row(object)) {
        called_ = object;
        Value* out = nullptr;
        Flow flow = tensor_call(row, arguments, names, &out);
        if (flow == Flow::kGo) frame().stack.push_back(out == nullptr ? none() : out);
        return flow;
      }
      Value* out = nullptr;
      bool handled = false;
      Flow flow = call_builtin(callable, arguments, names, &out, &handled);
      if (handled || flow != Flow::kGo) {
        if (flow == Flow::kGo && out != nullptr) frame().stack.push_back(out);
        return flow;
      }
      flow = call_exception_slot(object, arguments, names, &out, &handled);
      if (!handled && flow == Flow::kGo) flow = call_slot(object, arguments, names, &out, &handled);
      if (handled || flow != Flow::kGo) {
        if (flow == Flow::kGo && out != nullptr) frame().stack.push_back(out);
        return flow;
      }
      if (PyType_Check(object)) return construct(reinterpret_cast<PyTypeObject*>(object), std::move(arguments), names);
      std::string text = Py_TYPE(object)->tp_name;
      if (PyCFunction_Check(object)) text = reinterpret_cast<PyCFunctionObject*>(object)->m_ml->ml_name;
      return stop(BreakReason::k_builtin, text);
    }
    case ValueKind::kPartial: {
      Flow flow;
      call_made_of_others(callable, arguments, names, &flow);
      return flow;
    }
    default: return stop(BreakReason::k_call, "an object that is not modelled");
  }
}

}  // namespace kintsugi
