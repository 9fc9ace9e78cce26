// The door: every access to the interpreter frame, the thread state, dict keys, instances and functions that CPython
// does not promise to keep. Version tests and internal headers are here and nowhere else. A version that nobody
// reviewed stops the build: read its pycore_frame.h, pycore_dict.h and ceval.c, add what differs, and extend the test
// below.
#pragma once
#include "runtime/python.h"

#if PY_VERSION_HEX < 0x030b0000 || PY_VERSION_HEX >= 0x030c0000
#error "runtime/frame.h was reviewed for CPython 3.11 only"
#endif

#include <pthread.h>

#include <cstddef>
#include <cstdint>

// The internal headers want Py_BUILD_CORE; with it set only here, two names of the public headers stand in their way.
// C atomics do not compile as C++: the other spelling of the same structs does.
#pragma push_macro("HAVE_STD_ATOMIC")
#undef HAVE_STD_ATOMIC
#undef _PyGC_FINALIZED
#undef _PyObject_LookupSpecial
#define Py_BUILD_CORE 1
#include <internal/pycore_ceval.h>
#include <internal/pycore_code.h>
#include <internal/pycore_dict.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_object.h>
#include <internal/pycore_runtime.h>
#undef Py_BUILD_CORE
#pragma pop_macro("HAVE_STD_ATOMIC")

namespace kintsugi {

using Frame = _PyInterpreterFrame;

// ---- The thread ----------------------------------------------------------------------------------------------------

inline PyThreadState* this_thread() {
  return reinterpret_cast<PyThreadState*>(
      __atomic_load_n(&_PyRuntime.gilstate.tstate_current._value, __ATOMIC_RELAXED));
}
inline Frame* current_frame(PyThreadState* thread) { return thread->cframe->current_frame; }
inline void set_current_frame(PyThreadState* thread, Frame* frame) { thread->cframe->current_frame = frame; }

// A debugger, tracer or profiler watches this thread.
inline bool is_traced(PyThreadState* thread) { return thread->cframe->use_tracing != 0; }

inline Py_tracefunc& tracer_of(PyThreadState* thread) { return thread->c_tracefunc; }
inline Py_tracefunc& profiler_of(PyThreadState* thread) { return thread->c_profilefunc; }

// Something waits: a signal, a pending call, another thread that wants the lock, an asynchronous exception.
inline bool is_interrupted(PyThreadState* thread) {
  return __atomic_load_n(&thread->interp->ceval.eval_breaker._value, __ATOMIC_RELAXED) != 0;
}
inline bool lock_is_wanted(PyThreadState* thread) {
  return __atomic_load_n(&thread->interp->ceval.gil_drop_request._value, __ATOMIC_RELAXED) != 0;
}
inline PyObject* take_asynchronous_exception(PyThreadState* thread) {
  PyObject* exception = std::exchange(thread->async_exc, nullptr);
  if (exception != nullptr) thread->interp->ceval.pending.async_exc = 0;
  return exception;
}

inline bool enter_call(PyThreadState* thread) {  // false: RecursionError is set. As the evaluator does on entry.
  if (thread->recursion_remaining-- > 0) return true;
  if (_Py_CheckRecursiveCall(thread, "") == 0) return true;
  return false;  // the check has given the unit back
}
inline void leave_call(PyThreadState* thread) { ++thread->recursion_remaining; }
inline void enter_again(PyThreadState* thread) {
  --thread->recursion_remaining;
}  // what leave_call has just given back

// What sys.exc_info() tells of the running handler: an exception, None or null. Owned by the thread.
inline PyObject*& handled_exception(PyThreadState* thread) { return thread->exc_info->exc_value; }

// Automatic garbage collection: it runs finalisers, so any Python code, wherever an object is made. Answers what it
// was.
inline bool set_collector(PyThreadState* thread, bool on) {
  return std::exchange(thread->interp->gc.enabled, on ? 1 : 0) != 0;
}
class CollectorHeld {
 public:
  explicit CollectorHeld(PyThreadState* thread) : thread_(thread), was_on_(set_collector(thread, false)) {}
  ~CollectorHeld() {
    if (was_on_) set_collector(thread_, true);
  }
  CollectorHeld(const CollectorHeld&) = delete;
  CollectorHeld& operator=(const CollectorHeld&) = delete;

 private:
  PyThreadState* thread_;
  bool was_on_;
};

// Whether the collector knows the object; PyObject_GC_IsTracked without a call.
inline bool is_tracked(PyObject* object) { return _PyObject_GC_IS_TRACKED(object); }

// The C stack. Native calls use more of it than Python calls, so wrapper and hook look at what is left.
inline constexpr size_t kStackReserve = 256 * 1024;
struct StackBounds {
  uintptr_t low = 0, high = 0;
};
inline StackBounds find_stack_bounds() {
  StackBounds bounds{0, 1};  // unknown: nothing lies inside
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return bounds;
  void* low = nullptr;
  size_t size = 0, guard = 0;
  if (pthread_attr_getstack(&attributes, &low, &size) == 0 && pthread_attr_getguardsize(&attributes, &guard) == 0)
    bounds = {reinterpret_cast<uintptr_t>(low) + guard, reinterpret_cast<uintptr_t>(low) + size};
  pthread_attr_destroy(&attributes);
  return bounds;
}
inline size_t c_stack_left() {
  [[gnu::tls_model("initial-exec")]] static thread_local StackBounds bounds;
  if (bounds.high == 0) [[unlikely]]
    bounds = find_stack_bounds();
  uintptr_t here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (here < bounds.low || here >= bounds.high) return SIZE_MAX;  // a coroutine library's stack: nothing is known
  return here - bounds.low;
}

// ---- The hook word -------------------------------------------------------------------------------------------------

using Evaluator = _PyFrameEvalFunction;
inline Evaluator evaluator_of(PyInterpreterState* interpreter) {  // the default one included
  return interpreter->eval_frame == nullptr ? _PyEval_EvalFrameDefault : interpreter->eval_frame;
}
inline void set_evaluator(PyInterpreterState* interpreter, Evaluator evaluator) {
  _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluator);
}

inline PyObject* import_function(PyThreadState* thread) {
  return thread->interp->import_func;
}  // the one __import__ had

// ---- The frame -----------------------------------------------------------------------------------------------------
//   localsplus: | parameters, locals | cells | free variables | value stack ...
//                 0 ..                                          ^ co_nlocalsplus

inline PyCodeObject* code_of(const Frame* frame) { return frame->f_code; }
inline PyFunctionObject* function_of(const Frame* frame) { return frame->f_func; }
inline PyObject* globals_of(const Frame* frame) { return frame->f_globals; }
inline PyObject* builtins_of(const Frame* frame) { return frame->f_builtins; }
inline PyObject* namespace_of(const Frame* frame) { return frame->f_locals; }  // class and module bodies; else null
inline PyObject** slots_of(Frame* frame) { return frame->localsplus; }
inline Frame* caller_of(const Frame* frame) { return frame->previous; }
inline void set_caller(Frame* frame, Frame* caller) { frame->previous = caller; }
inline bool is_fresh(const Frame* frame) { return frame->prev_instr == _PyCode_CODE(frame->f_code) - 1; }
inline bool is_of_generator(const Frame* frame) { return frame->owner != FRAME_OWNED_BY_THREAD; }

inline int position_of(const Frame* frame) { return _PyInterpreterFrame_LASTI(frame); }  // in units; see set_running
inline bool is_incomplete(const Frame* frame) { return _PyFrame_IsIncomplete(const_cast<Frame*>(frame)); }

// `count` includes the locals: what CPython drops when the frame dies, and the evaluator's stack when it begins.
inline void set_value_count(Frame* frame, int count) { frame->stacktop = count; }
inline bool has_frame_object(const Frame* frame) { return frame->frame_obj != nullptr; }
inline bool is_frame_object_shared(const Frame* frame) {
  return frame->frame_obj != nullptr && Py_REFCNT(frame->frame_obj) > 1;
}
inline int value_count(const Frame* frame) { return frame->stacktop; }

// prev_instr is the unit before the next instruction; while an instruction runs, that is the instruction itself.
inline void set_running(Frame* frame, int unit) { frame->prev_instr = _PyCode_CODE(frame->f_code) + unit; }
inline void set_next(Frame* frame, int unit) { frame->prev_instr = _PyCode_CODE(frame->f_code) + unit - 1; }

// A generator that does not run.
inline Frame* frame_of_generator(PyObject* generator) {
  return reinterpret_cast<Frame*>(reinterpret_cast<PyGenObject*>(generator)->gi_iframe);
}
inline bool is_suspended(PyObject* generator) {  // or new
  return reinterpret_cast<PyGenObject*>(generator)->gi_frame_state < FRAME_EXECUTING;
}
inline void set_suspended(PyObject* generator) {  // at a yield; a new one is not
  reinterpret_cast<PyGenObject*>(generator)->gi_frame_state = FRAME_SUSPENDED;
}
inline PyObject*& handled_by_generator(PyObject* generator) {
  return reinterpret_cast<PyGenObject*>(generator)->gi_exc_state.exc_value;
}
// Resuming pushes what is sent, owned, on the frame's stack.
inline PyObject* take_sent(Frame* frame) { return frame->localsplus[--frame->stacktop]; }
inline void rename_generator(PyObject* generator, const PyFunctionObject* function) {
  auto* made = reinterpret_cast<PyGenObject*>(generator);
  Py_SETREF(made->gi_name, Py_NewRef(function->func_name));
  Py_SETREF(made->gi_qualname, Py_NewRef(function->func_qualname));
}

// ---- Code ----------------------------------------------------------------------------------------------------------

// The plain units: low byte opcode, high byte argument. The live ones are specialised in place. Offsets are the same.
// CPython keeps the bytes as long as the code object lives. Null with an exception set when memory is short.
inline const uint16_t* plain_units(PyCodeObject* code) {
  if (code->_co_code == nullptr) [[unlikely]] {
    PyObject* bytes = PyCode_GetCode(code);
    if (bytes == nullptr) return nullptr;
    Py_DECREF(bytes);  // code->_co_code holds another
  }
  return reinterpret_cast<const uint16_t*>(PyBytes_AS_STRING(code->_co_code));
}
// The instruction before this one is the one that makes a generator of its frame.
inline bool is_generator_start(PyCodeObject* code, int unit) {
  const uint16_t* units = plain_units(code);
  return units != nullptr && unit > 0 && (units[unit - 1] & 0xff) == 75 /* RETURN_GENERATOR */;
}
inline int unit_count(const PyCodeObject* code) { return static_cast<int>(Py_SIZE(code)); }

// An ordinary function: optimised locals, and neither a generator nor a coroutine.
inline bool is_ordinary(const PyCodeObject* code) {
  constexpr int kNot = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
  return (code->co_flags & (CO_OPTIMIZED | CO_NEWLOCALS | kNot)) == (CO_OPTIMIZED | CO_NEWLOCALS);
}
// A generator function, and no coroutine of any kind.
inline bool is_generator(const PyCodeObject* code) {
  constexpr int kKinds = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
  return (code->co_flags & (CO_OPTIMIZED | CO_NEWLOCALS | kKinds)) == (CO_OPTIMIZED | CO_NEWLOCALS | CO_GENERATOR);
}
inline int local_slots(const PyCodeObject* code) { return code->co_nlocalsplus; }
inline int stack_slots(const PyCodeObject* code) { return code->co_stacksize; }
inline int first_free_variable(const PyCodeObject* code) { return code->co_nlocals + code->co_nplaincellvars; }
inline PyObject* slot_name(const PyCodeObject* code, int slot) {
  return PyTuple_GET_ITEM(code->co_localsplusnames, slot);
}

// A generator that waits inside a block with a handler: closing it runs that.
inline bool runs_code_when_closed(PyObject* generator) {
  auto* self = reinterpret_cast<PyGenObject*>(generator);
  return self->gi_frame_state == FRAME_SUSPENDED && PyBytes_GET_SIZE(self->gi_code->co_exceptiontable) > 0;
}

// ---- Functions -----------------------------------------------------------------------------------------------------

inline PyCodeObject* code_of(const PyFunctionObject* function) {
  return reinterpret_cast<PyCodeObject*>(function->func_code);
}
inline PyObject* globals_of(const PyFunctionObject* function) { return function->func_globals; }
inline PyObject* builtins_of(const PyFunctionObject* function) { return function->func_builtins; }
inline PyObject* closure_of(const PyFunctionObject* function) { return function->func_closure; }
inline PyObject* defaults_of(const PyFunctionObject* function) { return function->func_defaults; }
inline PyObject* keyword_defaults_of(const PyFunctionObject* function) { return function->func_kwdefaults; }

// The pieces that MAKE_FUNCTION puts on a new function; each may be null and is taken over.
inline void furnish(PyFunctionObject* function, PyObject* defaults, PyObject* keyword_defaults, PyObject* annotations,
                    PyObject* closure) {
  if (defaults != nullptr) function->func_defaults = defaults;
  if (keyword_defaults != nullptr) function->func_kwdefaults = keyword_defaults;
  if (annotations != nullptr) function->func_annotations = annotations;
  if (closure != nullptr) function->func_closure = closure;
}

// ---- Types, dicts, instances ---------------------------------------------------------------------------------------

// Changes whenever the type or a base changes. 0: none could be had.
inline uint32_t type_version(PyTypeObject* type) {
  static PyObject* any_name = PyUnicode_InternFromString("__class__");
  if (!PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG)) _PyType_Lookup(type, any_name);  // a look-up assigns one
  return PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
}

inline bool has_managed_dict(PyObject* object) { return PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_MANAGED_DICT); }

// A new reference; null with an exception. As deque itself reads: its classes may have a __getitem__ of their own.
inline PyObject* item_of_deque(PyObject* deque, Py_ssize_t index) {
  PyTypeObject* type = Py_TYPE(deque);
  while (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && type->tp_base != nullptr) type = type->tp_base;
  return type->tp_as_sequence->sq_item(deque, index);
}

inline constexpr int kInlineValuesOffset = -4 * static_cast<int>(sizeof(PyObject*));  // PyDictValues*, from the object
inline constexpr int kManagedDictOffset = -3 * static_cast<int>(sizeof(PyObject*));   // PyObject*, from the object
inline PyDictValues* inline_values_of(PyObject* object) {
  return has_managed_dict(object) ? *_PyObject_ValuesPointer(object) : nullptr;
}
inline PyObject* const* items_of(const PyDictValues* values) { return values->values; }
inline PyObject* instance_dict_of(PyObject* object) {  // borrowed; null when there is none (yet)
  if (has_managed_dict(object)) return *_PyObject_ManagedDictPointer(object);
  PyObject** place = _PyObject_GetDictPtr(object);
  return place == nullptr ? nullptr : *place;
}
inline PyDictKeysObject* shared_keys_of(PyTypeObject* type) {
  return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) ? reinterpret_cast<PyHeapTypeObject*>(type)->ht_cached_keys
                                                      : nullptr;
}

// Where a value lies: `entry_offset` bytes from the keys object or, when `in_values`, from the array of values that the
// dict or the instance points to. `keys` is null when the name is not there. Only identical and equal exact str keys,
// and identical others, are found.
struct ValuePlace {
  const PyDictKeysObject* keys = nullptr;
  int32_t index = -1;
  int32_t entry_offset = -1;
  bool in_values = false;
};
inline PyObject* key_at(const PyDictKeysObject* keys, Py_ssize_t index) {
  return DK_IS_UNICODE(keys) ? DK_UNICODE_ENTRIES(keys)[index].me_key : DK_ENTRIES(keys)[index].me_key;
}
// -1: not there. Names are interned, nearly all: the object itself is looked for first.
inline Py_ssize_t index_of_key(const PyDictKeysObject* keys, PyObject* key) {
  for (Py_ssize_t i = 0; i < keys->dk_nentries; ++i)
    if (key_at(keys, i) == key) return i;
  if (!PyUnicode_CheckExact(key)) return -1;
  Py_hash_t hash = PyObject_Hash(key);  // every key in a dict has computed its own
  for (Py_ssize_t i = 0; i < keys->dk_nentries; ++i) {
    PyObject* candidate = key_at(keys, i);
    if (candidate != nullptr && PyUnicode_CheckExact(candidate) &&
        reinterpret_cast<PyASCIIObject*>(candidate)->hash == hash && PyUnicode_Compare(candidate, key) == 0)
      return i;
  }
  return -1;
}
inline ValuePlace find_key(const PyDictKeysObject* keys, PyObject* key, bool in_values) {
  Py_ssize_t i = index_of_key(keys, key);
  if (i < 0) return {};
  const char* base = reinterpret_cast<const char*>(keys);
  const void* value = DK_IS_UNICODE(keys) ? static_cast<const void*>(&DK_UNICODE_ENTRIES(keys)[i].me_value)
                                          : static_cast<const void*>(&DK_ENTRIES(keys)[i].me_value);
  ptrdiff_t offset = in_values ? i * static_cast<ptrdiff_t>(sizeof(PyObject*)) : static_cast<const char*>(value) - base;
  return {keys, static_cast<int32_t>(i), static_cast<int32_t>(offset), in_values};
}
inline PyDictKeysObject* keys_of(PyObject* dict) { return reinterpret_cast<PyDictObject*>(dict)->ma_keys; }
inline PyDictValues* values_of(PyObject* dict) { return reinterpret_cast<PyDictObject*>(dict)->ma_values; }
// The entries of the hash in a dict, until `stop` says so: probing as Objects/dictobject.c does. (Of a split dict the
// values are elsewhere.)
template <typename Stop>
void entries_of_hash(PyObject* dict, Py_hash_t hash, Stop stop) {
  constexpr int64_t kEmpty = -1;  // kDummy, -2, goes on
  constexpr int kPerturbShift = 5;
  PyDictKeysObject* keys = keys_of(dict);
  auto index_at = [&](size_t slot) -> int64_t {
    if (keys->dk_log2_size < 8) return reinterpret_cast<const int8_t*>(keys->dk_indices)[slot];
    if (keys->dk_log2_size < 16) return reinterpret_cast<const int16_t*>(keys->dk_indices)[slot];
    if (keys->dk_log2_size < 32) return reinterpret_cast<const int32_t*>(keys->dk_indices)[slot];
    return reinterpret_cast<const int64_t*>(keys->dk_indices)[slot];
  };
  const size_t mask = static_cast<size_t>(DK_SIZE(keys)) - 1;
  size_t perturb = static_cast<size_t>(hash), slot = perturb & mask;
  for (int64_t index; (index = index_at(slot)) != kEmpty; slot = (slot * 5 + perturb + 1) & mask) {
    if (index >= 0) {
      if (DK_IS_UNICODE(keys)) {
        const PyDictUnicodeEntry& entry = DK_UNICODE_ENTRIES(keys)[index];
        if (reinterpret_cast<PyASCIIObject*>(entry.me_key)->hash == hash && stop(entry.me_key, entry.me_value)) return;
      } else {
        const PyDictKeyEntry& entry = DK_ENTRIES(keys)[index];
        if (entry.me_hash == hash && stop(entry.me_key, entry.me_value)) return;
      }
    }
    perturb >>= kPerturbShift;
  }
}
inline ValuePlace find_in_dict(PyObject* dict, PyObject* key) {
  return find_key(keys_of(dict), key, /*in_values=*/values_of(dict) != nullptr);
}
inline ValuePlace find_in_instance(PyObject* object, PyObject* name) {  // inline values only; see instance_dict_of
  PyDictKeysObject* keys = shared_keys_of(Py_TYPE(object));
  if (inline_values_of(object) == nullptr || keys == nullptr) return {};
  return find_key(keys, name, /*in_values=*/true);
}
inline PyObject* value_at(const ValuePlace& place, const PyDictValues* values) {  // borrowed; null when unset
  const char* base =
      place.in_values ? reinterpret_cast<const char*>(values) : reinterpret_cast<const char*>(place.keys);
  return *reinterpret_cast<PyObject* const*>(base + place.entry_offset);
}

// What native guards read of a dict, as byte offsets. Two keys objects of the same geometry (size, width of an index,
// kind of entries) have their entries at the same places.
inline constexpr int kDictUsedOffset = offsetof(PyDictObject, ma_used);
inline constexpr int kDictVersionOffset = offsetof(PyDictObject, ma_version_tag);
inline constexpr int kDictKeysOffset = offsetof(PyDictObject, ma_keys);
inline constexpr int kDictValuesOffset = offsetof(PyDictObject, ma_values);
inline constexpr int kKeysGeometryOffset = offsetof(PyDictKeysObject, dk_log2_size);
inline constexpr uint32_t kKeysGeometryMask = 0xFFFFFF;
inline constexpr int kKeysEntryCountOffset = offsetof(PyDictKeysObject, dk_nentries);
inline bool has_only_str_keys(PyObject* dict) { return DK_IS_UNICODE(keys_of(dict)); }
inline uint64_t version_of_dict(PyObject* dict) { return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag; }
inline Py_ssize_t entry_count_of(const PyDictKeysObject* keys) { return keys->dk_nentries; }

// ---- Sets ----------------------------------------------------------------------------------------------------------

inline bool is_entry(const setentry& entry) { return entry.key != nullptr && entry.hash != -1; }  // -1: deleted

// A set of the type with the very table of `like`: the same order, now and after further changes. Null with an
// exception set when memory is short.
inline PyObject* clone_set(PyObject* like, bool frozen) {
  auto* from = reinterpret_cast<PySetObject*>(like);
  PyObject* clone = frozen ? PyFrozenSet_New(nullptr) : PySet_New(nullptr);
  if (clone == nullptr) return nullptr;
  auto* to = reinterpret_cast<PySetObject*>(clone);
  if (from->table != from->smalltable) {
    auto* table = static_cast<setentry*>(PyMem_Malloc(static_cast<size_t>(from->mask + 1) * sizeof(setentry)));
    if (table == nullptr) {
      Py_DECREF(clone);
      return PyErr_NoMemory();
    }
    to->table = table;
  }
  for (Py_ssize_t i = 0; i <= from->mask; ++i) {
    to->table[i] = from->table[i];
    if (is_entry(from->table[i])) Py_INCREF(from->table[i].key);
  }
  to->mask = from->mask;
  to->fill = from->fill;
  to->used = from->used;
  to->finger = from->finger;
  return clone;
}

// Keys of a set as it lies, each in place of another of the same hash: `other` answers a new reference.
template <typename Other>
void replace_keys(PyObject* set, Other other) {
  auto* in = reinterpret_cast<PySetObject*>(set);
  for (Py_ssize_t i = 0; i <= in->mask; ++i) {
    if (!is_entry(in->table[i])) continue;
    PyObject* key = other(in->table[i].key);
    if (key != nullptr) Py_SETREF(in->table[i].key, key);
  }
}

// Entry by entry, dummies too; `same` compares two keys of one hash without running user code.
template <typename Same>
bool have_same_table(PyObject* a, PyObject* b, Same same) {
  auto *x = reinterpret_cast<PySetObject*>(a), *y = reinterpret_cast<PySetObject*>(b);
  if (x->used != y->used || x->fill != y->fill || x->mask != y->mask || x->finger != y->finger) return false;
  for (Py_ssize_t i = 0; i <= x->mask; ++i) {
    const setentry &left = x->table[i], &right = y->table[i];
    if (left.hash != right.hash || (left.key == nullptr) != (right.key == nullptr)) return false;
    if (is_entry(left) && !same(left.key, right.key)) return false;
  }
  return true;
}

// Keys of the hash, until `stop` says so. Linear: the order of probing is set.c's own business.
template <typename Stop>
void keys_of_hash(PyObject* set, Py_hash_t hash, Stop stop) {
  auto* from = reinterpret_cast<PySetObject*>(set);
  for (Py_ssize_t i = 0; i <= from->mask; ++i)
    if (from->table[i].hash == hash && is_entry(from->table[i]) && stop(from->table[i].key)) return;
}

// ---- functools.lru_cache: Modules/_functoolsmodule.c of 3.11 --------------------------------------------------------

struct LruLink {  // what the dict of a bounded cache holds
  PyObject_HEAD LruLink *previous, *next;
  Py_hash_t hash;
  PyObject *key, *result;
};
struct LruCache {
  LruLink root;
  void* wrapper;
  int typed;
  PyObject* cache;  // dict: key -> answer, or its link
  Py_ssize_t hits;
  PyObject* function;
  Py_ssize_t maxsize, misses;
  PyObject* kwd_mark;  // between arguments and keywords in a key
  PyTypeObject* link_type;
  PyObject *info_type, *dict, *weak_references;
};
inline bool is_cache_type(PyTypeObject* type) {
  return type->tp_basicsize == sizeof(LruCache) && type->tp_dictoffset == offsetof(LruCache, dict);
}

// Counts registrations of abstract classes: Modules/_abc.c, the module's state. Null: it has none.
inline const uint64_t* abc_counter(PyObject* module) {
  struct State {
    PyTypeObject* data_type;
    unsigned long long counter;
  };
  auto* state = static_cast<const State*>(PyModule_GetState(module));
  static_assert(sizeof(uint64_t) == sizeof state->counter);
  return state == nullptr ? nullptr : reinterpret_cast<const uint64_t*>(&state->counter);
}

// Iterators as Objects/listobject.c, tupleobject.c, enumobject.c and Python/bltinmodule.c lay them out, in no header.
struct SequenceIterator {  // of a list or tuple
  PyObject ob_base;
  Py_ssize_t index;
  PyObject* sequence;  // null once exhausted
};
struct EnumerateIterator {
  PyObject ob_base;
  Py_ssize_t count;
  PyObject* iterator;
};
struct ZipIterator {
  PyObject ob_base;
  Py_ssize_t size;
  PyObject* iterators;  // a tuple
};
// The item that comes `ahead` after what a list or tuple iterator stands at, borrowed; null: there is none.
inline PyObject* item_of_sequence_iterator(PyObject* iterator, Py_ssize_t ahead) {
  auto* it = reinterpret_cast<SequenceIterator*>(iterator);
  if (it->sequence == nullptr || it->index + ahead >= Py_SIZE(it->sequence)) return nullptr;
  return PySequence_Fast_GET_ITEM(it->sequence, it->index + ahead);
}
// The next one, and the iterator moved on. Null, and nothing moved: there is none.
inline PyObject* next_of_sequence_iterator(PyObject* iterator) {
  PyObject* item = item_of_sequence_iterator(iterator, 0);
  if (item != nullptr) ++reinterpret_cast<SequenceIterator*>(iterator)->index;
  return item;
}

}  // namespace kintsugi
