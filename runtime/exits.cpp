#include "runtime/exits.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <optional>

#include "jit/container_types.h"
#include "runtime/hook.h"

namespace kintsugi {

namespace {

// See RecipeKind::kHanded: zip and its like call iter() on what they are given, which may be user code.
struct Handed {
  PyObject ob_base;
  PyObject* iterator;
};
void release_handed(PyObject* self) {
  Py_XDECREF(reinterpret_cast<Handed*>(self)->iterator);
  PyObject_Free(self);
}
PyObject* iterator_of_handed(PyObject* self) { return Py_NewRef(reinterpret_cast<Handed*>(self)->iterator); }

PyObject* hand_on(PyObject* iterator) {
  static PyTypeObject* type = [] {
    static PyTypeObject made = {PyVarObject_HEAD_INIT(nullptr, 0) "kintsugi._runtime.Handed"};
    made.tp_basicsize = sizeof(Handed);
    made.tp_flags = Py_TPFLAGS_DEFAULT;
    made.tp_dealloc = release_handed;
    made.tp_iter = iterator_of_handed;
    return PyType_Ready(&made) < 0 ? nullptr : &made;
  }();
  Handed* handed = type == nullptr ? nullptr : PyObject_New(Handed, type);
  if (handed == nullptr) return nullptr;
  handed->iterator = Py_NewRef(iterator);
  return &handed->ob_base;
}

// Builds the objects of one exit or step. One recipe is one object. Containers that can hold themselves (a cell whose
// function closes over it) are made empty first and filled when everything around them exists.
class Builder {
 public:
  // memo: one word a recipe.
  Builder(NativeState* state, PyObject** memo)
      : state_(state), plan_(state->segment->plan), bindings_(state->segment->bindings), memo_(memo) {
    std::fill_n(memo, plan_.recipes.size(), nullptr);
  }
  ~Builder() {
    for (size_t i = 0; i < plan_.recipes.size(); ++i) Py_XDECREF(memo_[i]);
  }

  // True with *out a new reference or null (unbound); false with an exception set.
  bool make(RecipeId id, PyObject** out) {
    *out = nullptr;
    PyObject* made = get(id);
    if ((made == nullptr && PyErr_Occurred()) || !fill_waiting()) return false;
    *out = Py_XNewRef(made);
    return true;
  }

 private:
  PyObject* object(ValueId value) { return reinterpret_cast<PyObject*>(state_->values[value]); }
  PyObject* constant(ConstantId id) { return static_cast<PyObject*>(bindings_[id]); }

  // Borrowed from the memo, the values or the bindings. Null: unbound, or an exception is set.
  PyObject* get(RecipeId id) {
    if (id < 0) return nullptr;
    const Recipe& recipe = plan_.recipes[id];
    switch (recipe.kind) {
      case RecipeKind::kNull: return nullptr;
      case RecipeKind::kValue: return object(recipe.value);
      case RecipeKind::kConstant: return constant(recipe.constant);
      default: break;
    }
    if (memo_[id] != nullptr) return memo_[id];
    PyObject* made = make_new(id, recipe);
    if (made == nullptr) return nullptr;
    if (memo_[id] != nullptr) {  // made meanwhile, as a part of itself
      Py_DECREF(made);
      return memo_[id];
    }
    return memo_[id] = made;
  }

  // A part that must exist.
  PyObject* part(const Recipe& recipe, size_t index) {
    PyObject* object = get(recipe.parts[index]);
    if (object == nullptr && !PyErr_Occurred())
      PyErr_Format(PyExc_SystemError, "part %zu of a recipe is unbound", index);
    return object;
  }

  PyObject* tuple_of(const Recipe& recipe, size_t first) {
    Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(recipe.parts.size() - first)));
    for (size_t i = first; tuple && i < recipe.parts.size(); ++i) {
      PyObject* item = part(recipe, i);
      if (item == nullptr) return nullptr;
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i - first), Py_NewRef(item));
    }
    return tuple.release();
  }

  PyObject* call(PyObject* callable, const Recipe& recipe, size_t first) {
    Ref arguments(tuple_of(recipe, first));
    if (!arguments || !fill_waiting()) return nullptr;
    return PyObject_CallObject(callable, arguments.get());
  }

  // An iterator over part 0, moved to part 1.
  PyObject* positioned(PyObject* iterator_stolen, const Recipe& recipe) {
    Ref iterator(iterator_stolen);
    PyObject* index = iterator ? part(recipe, 1) : nullptr;
    if (index == nullptr) return nullptr;
    Ref none(PyObject_CallMethod(iterator.get(), "__setstate__", "O", index));
    return none ? iterator.release() : nullptr;
  }

  PyObject* make_new(RecipeId id, const Recipe& recipe);
  PyObject* make_function(const Recipe& recipe);
  PyObject* make_generator(RecipeId id, const Recipe& recipe);
  bool fill_generator(const Recipe& recipe, PyObject* generator);
  PyObject* make_partial(const Recipe& recipe);
  PyObject* make_traceback(const Recipe& recipe);
  PyObject* make_dict_walk(const Recipe& recipe);
  PyObject* make_container(const Recipe& recipe);
  PyObject* make_set_like(const Recipe& recipe);
  bool fill_container(const Recipe& recipe, PyObject* container);

  PyObject* later(RecipeId id, PyObject* empty) {
    if (empty != nullptr) waiting_.push_back(id);
    return empty;
  }
  bool fill_waiting() {
    while (!waiting_.empty()) {
      RecipeId id = waiting_.back();
      waiting_.pop_back();
      if (memo_[id] == nullptr) continue;
      if (!fill(plan_.recipes[id], memo_[id])) return false;
    }
    return true;
  }
  bool fill(const Recipe& recipe, PyObject* container);

  CollectorHeld held_{this_thread()};  // a finaliser could drop what values only borrow
  NativeState* state_;
  const Plan& plan_;
  const std::vector<void*>& bindings_;
  PyObject** memo_;
  std::vector<RecipeId> waiting_;
};

PyObject* Builder::make_new(RecipeId id, const Recipe& recipe) {
  auto word = [&] { return static_cast<int64_t>(state_->values[recipe.value]); };  // of others it is a number of theirs
  switch (recipe.kind) {
    case RecipeKind::kBoxInt: return PyLong_FromLongLong(word());
    case RecipeKind::kBoxBool: return PyBool_FromLong(word() != 0);
    case RecipeKind::kBoxFloat: {
      double number;
      int64_t bits = word();
      std::memcpy(&number, &bits, sizeof number);
      return PyFloat_FromDouble(number);
    }
    case RecipeKind::kTuple: return tuple_of(recipe, 0);
    case RecipeKind::kList: return later(id, PyList_New(0));
    case RecipeKind::kDict: return later(id, PyDict_New());
    case RecipeKind::kSet: return later(id, PySet_New(nullptr));
    case RecipeKind::kCell: return later(id, PyCell_New(nullptr));
    case RecipeKind::kInstance: {
      auto* type = reinterpret_cast<PyTypeObject*>(part(recipe, 0));
      Ref nothing(type == nullptr ? nullptr : PyTuple_New(0));
      return nothing ? later(id, PyBaseObject_Type.tp_new(type, nothing.get(), nullptr)) : nullptr;
    }
    case RecipeKind::kContainer: return later(id, make_container(recipe));
    case RecipeKind::kException: {
      auto* type = reinterpret_cast<PyTypeObject*>(part(recipe, 0));
      PyObject* arguments = type == nullptr ? nullptr : part(recipe, 1);
      bool is_group =
          type != nullptr && PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup));
      return arguments == nullptr || (is_group && !fill_waiting()) ? nullptr
                                                                   : later(id, type->tp_new(type, arguments, nullptr));
    }
    case RecipeKind::kTraceback: return make_traceback(recipe);
    case RecipeKind::kHandled: {
      PyObject* handled =
          recipe.value != 0 ? PyErr_GetHandledException() : Py_XNewRef(handled_exception(this_thread()));
      return handled != nullptr ? handled : Py_NewRef(Py_None);
    }
    case RecipeKind::kSlice: {
      PyObject *start = part(recipe, 0), *stop = start ? part(recipe, 1) : nullptr,
               *step = stop ? part(recipe, 2) : nullptr;
      return step == nullptr ? nullptr : PySlice_New(start, stop, step);
    }
    case RecipeKind::kFunction:
      return recipe.parts.size() > 7 ? later(id, make_function(recipe)) : make_function(recipe);
    case RecipeKind::kGenerator: return make_generator(id, recipe);
    case RecipeKind::kBoundMethod: {
      PyObject *function = part(recipe, 0), *self = function ? part(recipe, 1) : nullptr;
      if (self == nullptr) return nullptr;
      bool builtin = Py_TYPE(function) == &PyMethodDescr_Type || Py_TYPE(function) == &PyWrapperDescr_Type;
      PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(self));
      return builtin ? Py_TYPE(function)->tp_descr_get(function, self, type) : PyMethod_New(function, self);
    }
    case RecipeKind::kRange: return call(reinterpret_cast<PyObject*>(&PyRange_Type), recipe, 0);
    case RecipeKind::kRangeIterator: {
      Ref range(call(reinterpret_cast<PyObject*>(&PyRange_Type), recipe, 0));
      return range ? PyObject_GetIter(range.get()) : nullptr;
    }
    case RecipeKind::kSequenceIterator: {
      PyObject* sequence = part(recipe, 0);
      if (sequence == nullptr || !fill_waiting()) return nullptr;
      return positioned(PyObject_GetIter(sequence), recipe);
    }
    case RecipeKind::kReversed: {
      PyObject* sequence = part(recipe, 0);
      if (sequence == nullptr || !fill_waiting()) return nullptr;
      return positioned(PyObject_CallOneArg(reinterpret_cast<PyObject*>(&PyReversed_Type), sequence), recipe);
    }
    case RecipeKind::kEnumerate: return call(reinterpret_cast<PyObject*>(&PyEnum_Type), recipe, 0);
    case RecipeKind::kZip: return call(reinterpret_cast<PyObject*>(&PyZip_Type), recipe, 0);
    case RecipeKind::kMap: return call(reinterpret_cast<PyObject*>(&PyMap_Type), recipe, 0);
    case RecipeKind::kDictView:
    case RecipeKind::kDictIterator: return make_dict_walk(recipe);
    case RecipeKind::kPartial: return make_partial(recipe);
    case RecipeKind::kSetLike: return make_set_like(recipe);
    case RecipeKind::kCallObject: {
      PyObject* callable = part(recipe, 0);
      return callable == nullptr ? nullptr : call(callable, recipe, 1);
    }
    case RecipeKind::kHanded: {
      PyObject* iterator = part(recipe, 0);
      return iterator == nullptr ? nullptr : hand_on(iterator);
    }
    case RecipeKind::kWithState: {
      PyObject *iterator = part(recipe, 0), *state = iterator ? part(recipe, 1) : nullptr;
      if (state == nullptr || !fill_waiting()) return nullptr;
      Ref name(PyUnicode_InternFromString("__setstate__"));
      Ref none(name ? PyObject_CallMethodOneArg(iterator, name.get(), state) : nullptr);
      return none ? Py_NewRef(iterator) : nullptr;
    }
    case RecipeKind::kNull:
    case RecipeKind::kValue:
    case RecipeKind::kConstant: break;
  }
  PyErr_SetString(PyExc_SystemError, "a recipe has an unknown kind");
  return nullptr;
}

// Parts: globals, defaults, keyword defaults, closure, annotations, qualified name; all but the first may be unbound.
PyObject* Builder::make_function(const Recipe& recipe) {
  PyObject* pieces[4];
  for (size_t i = 0; i < 4; ++i) {
    pieces[i] = get(recipe.parts[i + 1]);
    if (pieces[i] == nullptr && PyErr_Occurred()) return nullptr;
  }
  PyObject* globals = part(recipe, 0);
  PyObject* name =
      globals == nullptr || recipe.parts.size() < 6 ? nullptr : get(recipe.parts[5]);  // null: the code's own
  if (PyErr_Occurred()) return nullptr;
  PyObject* function = PyFunction_NewWithQualName(constant(recipe.constant), globals, name);
  if (function == nullptr) return nullptr;
  furnish(reinterpret_cast<PyFunctionObject*>(function), Py_XNewRef(pieces[0]), Py_XNewRef(pieces[1]),
          Py_XNewRef(pieces[3]), Py_XNewRef(pieces[2]));
  if (recipe.parts.size() < 7) return function;
  Ref made(function);
  if (recipe.parts.size() > 7) return made.release();  // the rest: see fill()
  PyObject* wrapped = part(recipe, 6);
  if (wrapped != nullptr && !fill_waiting()) return nullptr;  // its attributes are copied
  Ref module = wrapped ? import_module("functools") : Ref();
  Ref done(module ? PyObject_CallMethod(module.get(), "update_wrapper", "OO", function, wrapped) : nullptr);
  return done ? made.release() : nullptr;
}

// Parts: function, offset of the next instruction, what it handles, then what the frame's slots hold.
PyObject* Builder::make_generator(RecipeId id, const Recipe& recipe) {
  PyObject *function = part(recipe, 0), *next = function ? part(recipe, 1) : nullptr;
  if (next == nullptr) return nullptr;
  if (!PyFunction_Check(function)) {
    PyErr_SetString(PyExc_SystemError, "a generator's function is none");
    return nullptr;
  }
  Ref made(new_generator(reinterpret_cast<PyFunctionObject*>(function),
                         static_cast<PyCodeObject*>(bindings_[recipe.constant])));
  if (!made) return nullptr;
  int offset = static_cast<int>(PyLong_AsLong(next));
  if (offset >= 0) return later(id, made.release());
  if (offset == kGeneratorFilledLater) set_suspended(made.get());  // a new one takes no value
  if (offset == kGeneratorFinished) {
    Ref none(PyObject_CallMethod(made.get(), "close", nullptr));
    if (!none) return nullptr;
  }
  return made.release();
}

bool Builder::fill_generator(const Recipe& recipe, PyObject* generator) {
  PyObject* next = part(recipe, 1);
  if (next == nullptr) return false;
  Frame* frame = frame_of_generator(generator);
  PyCodeObject* code = code_of(frame);
  int offset = static_cast<int>(PyLong_AsLong(next)), held = value_count(frame);
  int count = static_cast<int>(recipe.parts.size()) - 3;
  KN_CHECK(count <= local_slots(code) + stack_slots(code) && held <= count);
  for (int i = 0; i < count; ++i) {
    PyObject* object = get(recipe.parts[static_cast<size_t>(i) + 3]);
    if (object == nullptr && PyErr_Occurred()) return false;
    PyObject* old = std::exchange(slots_of(frame)[i], Py_XNewRef(object));
    if (i < held)
      Py_XDECREF(old);
    else
      set_value_count(frame, i + 1);
  }
  PyObject* handled = get(recipe.parts[2]);
  if (handled == nullptr && PyErr_Occurred()) return false;
  Py_XSETREF(handled_by_generator(generator), Py_XNewRef(handled));
  set_next(frame, offset);
  if (!is_generator_start(code, offset)) set_suspended(generator);
  return true;
}

// It gets its frame when that is there: Leaving::add_tracebacks.
PyObject* Builder::make_traceback(const Recipe& recipe) {
  PyObject* next = get(recipe.parts[0]);
  if (next == nullptr && PyErr_Occurred()) return nullptr;
  PyTracebackObject* made = PyObject_GC_New(PyTracebackObject, &PyTraceBack_Type);
  if (made == nullptr) return nullptr;
  made->tb_next = reinterpret_cast<PyTracebackObject*>(next == Py_None ? nullptr : Py_XNewRef(next));
  made->tb_frame = nullptr;
  made->tb_lasti = made->tb_lineno = 0;
  PyObject_GC_Track(made);
  return reinterpret_cast<PyObject*>(made);
}

PyObject* Builder::make_partial(const Recipe& recipe) {
  PyObject *function = part(recipe, 0), *rest = function ? part(recipe, 1) : nullptr;
  PyObject* keywords = rest ? part(recipe, 2) : nullptr;
  if (keywords == nullptr || !fill_waiting()) return nullptr;
  Ref module = import_module("functools");
  Ref type(module ? PyObject_GetAttrString(module.get(), "partial") : nullptr);
  Ref head(type ? PyTuple_Pack(1, function) : nullptr);
  Ref arguments(head ? PySequence_Concat(head.get(), rest) : nullptr);
  return arguments ? PyObject_Call(type.get(), arguments.get(), keywords) : nullptr;
}

// An empty one, by the __new__ of the builtin that its class derives from.
// Parts: the elements that have stand-ins of their hash in the constant, as they lie.
PyObject* Builder::make_set_like(const Recipe& recipe) {
  for (size_t i = 0; i < recipe.parts.size(); ++i)
    if (part(recipe, i) == nullptr) return nullptr;
  PyObject* set = clone_set(constant(recipe.constant), /*frozen=*/recipe.value != 0);
  if (set == nullptr || recipe.parts.empty()) return set;
  size_t next = 0;
  replace_keys(set, [&](PyObject* key) {
    bool stands = is_hashed_stand_in(key) && next < recipe.parts.size();
    return stands ? Py_NewRef(part(recipe, next++)) : nullptr;
  });
  return set;
}

PyObject* Builder::make_container(const Recipe& recipe) {
  auto* type = reinterpret_cast<PyTypeObject*>(part(recipe, 0));
  PyObject* most = type == nullptr ? nullptr : part(recipe, 1);
  PyTypeObject* base = most == nullptr ? nullptr : container_base(type);
  Ref nothing(base == nullptr ? nullptr : PyTuple_New(0));
  if (!nothing && !PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "a container's class has changed");
  Ref made(nothing ? base->tp_new(type, nothing.get(), nullptr) : nullptr);
  if (!made || most == Py_None) return made.release();
  Ref arguments(PyTuple_Pack(2, nothing.get(), most));
  return arguments && base->tp_init(made.get(), arguments.get(), nullptr) == 0 ? made.release() : nullptr;
}

bool Builder::fill_container(const Recipe& recipe, PyObject* container) {
  const auto& parts = recipe.parts;
  size_t last = 2 + static_cast<size_t>(recipe.value);
  PyTypeObject* base = container_base(Py_TYPE(container));
  bool is_dict = PyType_IsSubtype(base, &PyDict_Type);
  for (size_t i = 2; i + 1 < parts.size() || i < last; i += i < last && !is_dict ? 1 : 2) {
    bool paired = i >= last || is_dict;
    PyObject *first = part(recipe, i), *second = first && paired ? part(recipe, i + 1) : nullptr;
    if (first == nullptr || (paired && second == nullptr)) return false;
    int failed = 0;
    if (i >= last)
      failed = PyObject_GenericSetAttr(container, first, second);
    else if (base == &PyODict_Type)
      failed = PyODict_SetItem(container, first, second);
    else if (is_dict)
      failed = PyDict_SetItem(container, first, second);
    else if (base == &PyList_Type)
      failed = PyList_Append(container, first);
    else
      failed =
          !Ref(PyObject_CallFunctionObjArgs(PyDict_GetItemString(base->tp_dict, "append"), container, first, nullptr));
    if (failed != 0) return false;
  }
  return true;
}

// keys(), values() or items() of a dict, or an iterator over it that has given some items already.
PyObject* Builder::make_dict_walk(const Recipe& recipe) {
  static constexpr const char* kMethods[] = {"keys", "values", "items", "__iter__"};
  PyObject* dict = part(recipe, 0);
  if (dict == nullptr || !fill_waiting()) return nullptr;
  bool reversed = recipe.value >= kReversedWalk;
  PyTypeObject* base = container_base(Py_TYPE(dict));  // a class may have its own method of that name
  Ref name(PyUnicode_InternFromString(kMethods[recipe.value - (reversed ? kReversedWalk : 0)]));
  PyObject* method = name ? _PyType_Lookup(base != nullptr ? base : Py_TYPE(dict), name.get()) : nullptr;
  Ref view(method ? PyObject_CallOneArg(method, dict) : nullptr);
  if (view && reversed) view = Ref(PyObject_CallMethod(view.get(), "__reversed__", nullptr));
  if (!view || recipe.kind == RecipeKind::kDictView) return view.release();
  PyObject* taken = part(recipe, 1);
  Py_ssize_t count = taken == nullptr ? -1 : PyLong_AsSsize_t(taken);
  if (count < 0) return nullptr;
  Ref iterator(PyObject_GetIter(view.get()));
  for (; iterator && count > 0; --count) {
    Ref item(PyIter_Next(iterator.get()));
    if (!item) break;
  }
  return PyErr_Occurred() ? nullptr : iterator.release();
}

bool Builder::fill(const Recipe& recipe, PyObject* container) {
  const auto& parts = recipe.parts;
  switch (recipe.kind) {
    case RecipeKind::kException: {
      PyObject *cause = get(parts[2]), *context = cause || !PyErr_Occurred() ? get(parts[3]) : nullptr;
      if (PyErr_Occurred()) return false;
      if (cause != nullptr) PyException_SetCause(container, Py_NewRef(cause));
      if (context != nullptr && context != Py_None) PyException_SetContext(container, Py_NewRef(context));
      reinterpret_cast<PyBaseExceptionObject*>(container)->suppress_context = recipe.value != 0;
      PyObject* traceback = get(parts[4]);
      if (traceback == nullptr ? PyErr_Occurred() != nullptr : PyException_SetTraceback(container, traceback) != 0)
        return false;
      for (size_t i = 5; i + 1 < parts.size(); i += 2) {
        PyObject *key = part(recipe, i), *value = key ? part(recipe, i + 1) : nullptr;
        if (value == nullptr || PyObject_GenericSetAttr(container, key, value) != 0) return false;
      }
      return true;
    }
    case RecipeKind::kFunction: {
      PyObject *name = part(recipe, 7), *value = name ? part(recipe, 8) : nullptr;
      return value != nullptr && PyObject_SetAttr(container, name, value) == 0;
    }
    case RecipeKind::kGenerator: return fill_generator(recipe, container);
    case RecipeKind::kContainer: return fill_container(recipe, container);
    case RecipeKind::kCell: {
      PyObject* content = parts.empty() ? nullptr : get(parts[0]);
      if (content == nullptr && PyErr_Occurred()) return false;
      return PyCell_Set(container, content) == 0;
    }
    case RecipeKind::kList:
    case RecipeKind::kSet:
      for (size_t i = 0; i < parts.size(); ++i) {
        PyObject* item = part(recipe, i);
        if (item == nullptr) return false;
        int failed = recipe.kind == RecipeKind::kList ? PyList_Append(container, item) : PySet_Add(container, item);
        if (failed != 0) return false;
      }
      return true;
    case RecipeKind::kDict:
      for (size_t i = 0; recipe.value == kWithHashes && i + 2 < parts.size(); i += 3) {
        PyObject *key = part(recipe, i), *value = key ? part(recipe, i + 1) : nullptr;
        PyObject* hash = value ? part(recipe, i + 2) : nullptr;
        if (hash == nullptr) return false;
        int failed = hash == Py_None ? PyDict_SetItem(container, key, value)
                                     : _PyDict_SetItem_KnownHash(container, key, value, PyLong_AsSsize_t(hash));
        if (failed != 0) return false;
      }
      if (recipe.value == kWithHashes) return true;
      [[fallthrough]];
    case RecipeKind::kInstance:
      for (size_t i = recipe.kind == RecipeKind::kInstance ? 1 : 0; i + 1 < parts.size(); i += 2) {
        PyObject *key = part(recipe, i), *value = key ? part(recipe, i + 1) : nullptr;
        if (value == nullptr) return false;
        int failed = recipe.kind == RecipeKind::kDict ? PyDict_SetItem(container, key, value)
                                                      : PyObject_GenericSetAttr(container, key, value);
        if (failed != 0) return false;
      }
      return true;
    default: return true;
  }
}

// What a Builder remembers, on the caller's stack if it is not much. Null: there is no memory.
using LargeMemo = std::unique_ptr<PyObject*[]>;
constexpr size_t kMostOnStack = 2048;
#define KN_MEMO(plan, large)                                                            \
  ((plan).recipes.size() <= kMostOnStack                                                \
       ? static_cast<PyObject**>(alloca((plan).recipes.size() * sizeof(PyObject*) + 1)) \
       : ((large).reset(new (std::nothrow) PyObject*[(plan).recipes.size()]), (large).get()))

}  // namespace

void raise_from_text(const std::string& text) {
  size_t colon = text.find(": ");
  std::string name = text.substr(0, colon);
  Ref builtins = import_module("builtins");
  Ref type(builtins ? PyObject_GetAttrString(builtins.get(), name.c_str()) : nullptr);
  if (type && colon != std::string::npos)
    PyErr_SetString(type.get(), text.c_str() + colon + 2);
  else if (!PyErr_Occurred())
    PyErr_SetString(PyExc_SystemError, text.c_str());
}

static void fill_entry(PyObject* entry, PyObject* frame_stolen, int unit) {
  auto* traceback = reinterpret_cast<PyTracebackObject*>(entry);
  auto* frame = reinterpret_cast<PyFrameObject*>(frame_stolen);
  Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  traceback->tb_lasti = unit * static_cast<int>(sizeof(uint16_t));
  traceback->tb_lineno = PyCode_Addr2Line(reinterpret_cast<PyCodeObject*>(code.get()), traceback->tb_lasti);
  Py_XSETREF(traceback->tb_frame, frame);
}

bool Leaving::build(NativeState* state, ExitId id) {
  segment_ = state->segment;
  const Plan& plan = segment_->plan;
  exit_ = &plan.exits[static_cast<size_t>(id)];
  if (state->result != nullptr) {  // native code has moved it out and released the rest
    result_ = static_cast<PyObject*>(std::exchange(state->result, nullptr));
    return true;
  }
  // Where the instruction is performed again after a check that failed, it raises anew: nothing is built meanwhile with
  // an exception pending.
  if (exit_->error == kNoConstant) PyErr_Fetch(&error_type_, &error_value_, &error_traceback_);
  size_t wanted = 0;
  for (const FrameState& frame : exit_->frames) wanted += 1 + frame.slots.size();
  wanted += exit_->raised.size() + exit_->frames.size() + 1;
  if (wanted > kInlineObjects) objects_ = static_cast<PyObject**>(PyMem_Malloc(wanted * sizeof(PyObject*)));
  bool good = objects_ != nullptr;
  if (!good) {
    objects_ = inline_objects_;
    PyErr_NoMemory();
  } else {
    LargeMemo large;
    PyObject** memo = KN_MEMO(plan, large);
    std::optional<Builder> builder;  // most exits hand on what is there
    auto make = [&](RecipeId id, PyObject** out) {
      RecipeKind kind = id < 0 ? RecipeKind::kNull : plan.recipes[static_cast<size_t>(id)].kind;
      switch (kind) {
        case RecipeKind::kNull: *out = nullptr; return true;
        case RecipeKind::kValue:
          *out = Py_XNewRef(reinterpret_cast<PyObject*>(state->values[plan.recipes[static_cast<size_t>(id)].value]));
          return true;
        case RecipeKind::kConstant:
          *out = Py_XNewRef(static_cast<PyObject*>(
              segment_->bindings[static_cast<size_t>(plan.recipes[static_cast<size_t>(id)].constant)]));
          return true;
        default:
          if (memo == nullptr) return PyErr_NoMemory(), false;
          if (!builder) builder.emplace(state, memo);
          return builder->make(id, out);
      }
    };
    auto enter_generator = [&](const RaisedState& raised, auto& make) {
      PyObject *entry = nullptr, *generator = nullptr;
      bool made = make(raised.entry, &entry) && make(raised.generator, &generator);
      PyObject* frame = made ? PyObject_GetAttrString(generator, "gi_frame") : nullptr;
      if (frame != nullptr) fill_entry(entry, frame, raised.unit);
      Py_XDECREF(entry);
      Py_XDECREF(generator);
      return frame != nullptr;
    };
    auto add = [&](RecipeId id) {
      if (good) good = make(id, &objects_[object_count_]);
      if (good) ++object_count_;
    };
    if (exit_->kind == ExitKind::kReturn) {
      good = make(exit_->result, &result_);
    } else {
      for (const FrameState& frame : exit_->frames) {
        add(frame.function);
        for (const auto& [slot, recipe] : frame.slots) add(recipe);
      }
      extra_ = object_count_;
      add(exit_->handled);
      for (size_t i = 1; i < exit_->frames.size(); ++i) add(exit_->frames[i].handled);
      size_t others = object_count_;
      for (const RaisedState& raised : exit_->raised) add(raised.entry);
      entry_count_ = object_count_ - others;
      for (const RaisedState& raised : exit_->raised)
        if (good && raised.generator >= 0) good = enter_generator(raised, make);
    }
  }
  if (good && exit_->error != kNoConstant) raise_from_text(plan.constants[static_cast<size_t>(exit_->error)].text);
  if (PyErr_Occurred()) {
    drop_error();
    PyErr_Fetch(&error_type_, &error_value_, &error_traceback_);
  }
  for (ValueId value : exit_->owned) Py_XDECREF(reinterpret_cast<PyObject*>(state->values[value]));
  return good;
}

// An entry of a traceback whose frame could not be made: it names the frame that is left.
static void complete_entry(PyObject* object) {
  if (object == nullptr) return;
  auto* entry = reinterpret_cast<PyTracebackObject*>(object);
  if (entry->tb_frame != nullptr) return;
  SavedError saved;
  PyFrameObject* frame = PyThreadState_GetFrame(this_thread());
  if (frame != nullptr)
    fill_entry(object, reinterpret_cast<PyObject*>(frame), std::max(PyFrame_GetLasti(frame), 0) / 2);
}

void Leaving::drop() {
  for (size_t i = object_count_ - std::exchange(entry_count_, 0); i < object_count_; ++i) complete_entry(objects_[i]);
  for (size_t i = 0; i < object_count_; ++i) Py_XDECREF(objects_[i]);
  object_count_ = 0;
  if (objects_ != inline_objects_) PyMem_Free(objects_);
  objects_ = inline_objects_;
  Py_CLEAR(result_);
  drop_error();
}

void Leaving::drop_error() {
  Py_CLEAR(error_type_);
  Py_CLEAR(error_value_);
  Py_CLEAR(error_traceback_);
}

void Leaving::restore_error() {
  PyErr_Restore(std::exchange(error_type_, nullptr), std::exchange(error_value_, nullptr),
                std::exchange(error_traceback_, nullptr));
}

// The context that an exception raised by native code would have, had the thread handled what the trace did.
void Leaving::chain_error(PyObject* handled) {
  if (error_type_ == nullptr) return;
  PyErr_NormalizeException(&error_type_, &error_value_, &error_traceback_);
  PyObject* last = error_value_;
  for (PyObject* context; (context = PyException_GetContext(last)) != nullptr; last = context) {
    Py_DECREF(context);  // the exception keeps it
    if (context == handled || context == error_value_) return;
    Ref outer(PyErr_GetHandledException());
    if (context == outer.get()) break;
  }
  if (last != handled) PyException_SetContext(last, Py_NewRef(handled));
}

void Leaving::hand_on_handled(size_t index, PyThreadState* thread) {
  if ((index == 0 ? exit_->handled : exit_->frames[index].handled) < 0) return;
  PyObject*& handled = objects_[extra_ + index];
  bool topmost = true;
  for (size_t i = index + 1; i < exit_->frames.size(); ++i) topmost = topmost && exit_->frames[i].handled < 0;
  if (exit_->kind == ExitKind::kRaise && topmost) chain_error(handled);
  std::swap(handled_exception(thread), handled);
}

bool Leaving::was_raised_in(size_t index) const {
  for (const RaisedState& raised : exit_->raised)
    if (raised.generator < 0 && raised.frame == static_cast<int32_t>(index)) return true;
  return false;
}

void Leaving::add_tracebacks(size_t index, Activation& activation) {
  for (size_t i = 0; i < exit_->raised.size(); ++i) {
    const RaisedState& raised = exit_->raised[i];
    if (raised.generator >= 0 || raised.frame != static_cast<int32_t>(index)) continue;
    set_running(activation.frame, raised.unit);  // before that it does not count as a frame
    PyFrameObject* frame = PyThreadState_GetFrame(activation.thread);
    if (frame == nullptr) return PyErr_Clear();
    fill_entry(objects_[extra_ + exit_->frames.size() + i], reinterpret_cast<PyObject*>(frame), raised.unit);
  }
}

PyObject** Leaving::objects_of(size_t index) {
  size_t first = 0;
  for (size_t i = 0; i < index; ++i) first += 1 + exit_->frames[i].slots.size();
  return objects_ + first;
}

std::string Leaving::refusal(size_t index) const {
  ConstantId text = exit_->frames[index].refusal;
  return text == kNoConstant ? std::string() : segment_->plan.constants[static_cast<size_t>(text)].text;
}
PyCodeObject* Leaving::code(size_t index) const {
  return static_cast<PyCodeObject*>(segment_->bindings[static_cast<size_t>(exit_->frames[index].code)]);
}
PyObject* Leaving::take_callee(size_t index) { return std::exchange(objects_of(index)[0], nullptr); }

void Leaving::write_slots(size_t index, Activation& activation) {
  const FrameState& state = exit_->frames[index];
  PyObject** fresh = objects_of(index) + 1;
  int locals = local_slots(activation.code);
  int old_depth = activation.depth;
  // Afterwards fresh[i] holds what slot i held.
  for (size_t i = 0; i < state.slots.size(); ++i) {
    int slot = state.slots[i].first;
    bool is_new = slot >= locals + old_depth;
    fresh[i] = std::exchange(activation.slots[slot], fresh[i]);
    if (is_new) fresh[i] = nullptr;  // above the old stack: the word was nothing
  }
  auto is_named = [&](int slot) {
    for (const auto& named : state.slots)
      if (named.first == slot) return true;
    return false;
  };
  // What is left over: the stack above the new depth, and in an inlined frame its placeholders.
  PyObject** left = static_cast<PyObject**>(alloca((static_cast<size_t>(locals + old_depth) + 1) * sizeof(PyObject*)));
  int left_count = 0;
  for (int slot = index > 0 ? 0 : locals + state.depth; slot < locals + old_depth; ++slot)
    if (slot >= locals + state.depth || !is_named(slot))
      left[left_count++] = std::exchange(activation.slots[slot], nullptr);
  activation.depth = state.depth;
  for (size_t i = 0; i < state.slots.size(); ++i) Py_XDECREF(std::exchange(fresh[i], nullptr));
  for (int i = 0; i < left_count; ++i) Py_XDECREF(left[i]);
}

PyObject* build_recipe(NativeState* state, RecipeId recipe) {
  const Recipe& wanted = state->segment->plan.recipes[static_cast<size_t>(recipe)];
  if (wanted.kind == RecipeKind::kConstant)  // nothing to build, so nothing to remember
    return Py_NewRef(static_cast<PyObject*>(state->segment->bindings[static_cast<size_t>(wanted.constant)]));
  LargeMemo large;
  PyObject** memo = KN_MEMO(state->segment->plan, large);
  if (memo == nullptr) return PyErr_NoMemory();
  Builder builder(state, memo);
  PyObject* object = nullptr;
  if (!builder.make(recipe, &object)) return nullptr;
  if (object == nullptr) PyErr_SetString(PyExc_SystemError, "a recipe that must give an object gives none");
  return object;
}

}  // namespace kintsugi
