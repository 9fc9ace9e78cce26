// See check.h. Atoms are what a segment may hold by value: None, bool, int, float, complex, str, bytes, Ellipsis and
// tuples of them, all of exact type. They are compared without a look at user code, and floats by their bits.
#include "guards/check.h"

#include <cstddef>
#include <cstring>
#include <set>

#include "guards/object_facts.h"
#include "kernels/layout.h"
#include "runtime/frame.h"
#include "runtime/tensor_layout.h"

#include <structmember.h>

namespace kintsugi {
namespace {

bool same_atom(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyFloat_CheckExact(a)) {
    const double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
    return std::memcmp(&x, &y, sizeof x) == 0;
  }
  if (PyComplex_CheckExact(a)) {
    const Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
    return std::memcmp(&x, &y, sizeof x) == 0;
  }
  if (PyTuple_CheckExact(a)) {
    if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i) {
      if (!same_atom(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
    }
    return true;
  }
  if (!PyLong_CheckExact(a) && !PyUnicode_CheckExact(a) && !PyBytes_CheckExact(a)) return false;
  const int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

bool is_atom(PyObject* object) {
  return object == Py_None || PyBool_Check(object) || PyLong_CheckExact(object) || PyFloat_CheckExact(object) ||
         PyUnicode_CheckExact(object) || PyBytes_CheckExact(object) || PyComplex_CheckExact(object) ||
         PyRange_Check(object);
}

// Whether Python could call two objects equal that same_atom() tells apart: True is 1, and user code may say anything.
bool may_be_equal(PyObject* a, PyObject* b) {
  enum Family { kNumber, kTuple, kOther, kUser };
  if (compares_by_identity(a) || compares_by_identity(b)) return a == b;
  auto is_plain = [](PyObject* object) {  // a member of an Enum hashes by its name, and compares by identity
    return Py_TYPE(object)->tp_richcompare == PyBaseObject_Type.tp_richcompare;
  };
  auto family = [](PyObject* object) {
    if (PyLong_CheckExact(object) || PyBool_Check(object) || PyFloat_CheckExact(object) ||
        PyComplex_CheckExact(object)) {
      return kNumber;
    }
    if (PyTuple_CheckExact(object)) return kTuple;
    return PyUnicode_CheckExact(object) || PyBytes_CheckExact(object) || object == Py_None ? kOther : kUser;
  };
  const Family x = family(a), y = family(b);
  if ((is_plain(a) && y != kUser) || (is_plain(b) && x != kUser) || (is_plain(a) && is_plain(b))) return a == b;
  if (x == kUser || y == kUser) return true;
  if (x != y || x == kOther) return same_atom(a, b);
  if (x == kNumber) return PyObject_RichCompareBool(a, b, Py_EQ) == 1;  // numbers of exact types: cannot fail
  if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i) {
    if (!may_be_equal(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
  }
  return true;
}

// A member of an Enum.
bool hashes_in_python(PyObject* key) {
  PyTypeObject* type = Py_TYPE(key);
  return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && type->tp_hash != PyBaseObject_Type.tp_hash;
}

// Guard::imm: see kOfHash.
bool is_under(Py_hash_t hash, int64_t imm) { return (imm & kOfHash) == 0 || imm_of_hash(hash) == (imm & ~int64_t{1}); }

// The value of an atom as key, borrowed; null when it is not there. *unknown: a key is in the way that could be equal.
PyObject* look_up(PyObject* dict, PyObject* key, bool* unknown, int64_t imm = 0) {
  if (has_only_str_keys(dict)) {
    PyObject* value = PyUnicode_CheckExact(key) ? PyDict_GetItemWithError(dict, key) : nullptr;
    if (PyErr_Occurred()) PyErr_Clear();
    return value;
  }
  PyObject* found = nullptr;
  Py_hash_t hash = 0;
  if (hashes_in_python(key)) {  // the dict knows what it answered
    PyObject *candidate, *value;
    bool held = false;
    for (Py_ssize_t at = 0; !held && _PyDict_Next(dict, &at, &candidate, &value, &hash);) {
      held = candidate == key;
      *unknown = *unknown || may_be_equal(candidate, key);
    }
    if (!held || !is_under(hash, imm)) return nullptr;
    *unknown = false;
  } else {
    hash = PyObject_Hash(key);
  }
  entries_of_hash(dict, hash, [&](PyObject* candidate, PyObject* value) {
    if (candidate == key || same_atom(candidate, key)) found = value;
    if (found == nullptr && may_be_equal(candidate, key)) *unknown = true;
    return found != nullptr;
  });
  return found;
}

// Whether the set has the atom or lacks it, as `present` says. False too when a key is in the way that could be equal.
bool has_key(PyObject* set, PyObject* key, int64_t imm) {
  const bool present = (imm & 1) != 0;
  if (!PyAnySet_CheckExact(set)) return false;
  bool found = false, unknown = false;
  Py_hash_t hash = 0;
  if (hashes_in_python(key)) {  // the set knows what it answered
    PyObject* candidate;
    bool held = false;
    for (Py_ssize_t at = 0; !held && _PySet_NextEntry(set, &at, &candidate, &hash);) {
      held = candidate == key;
      unknown = unknown || may_be_equal(candidate, key);
    }
    if (!held) return !present && !unknown;
    if (!is_under(hash, imm)) return false;
    unknown = false;
  } else {
    hash = PyObject_Hash(key);
  }
  if (hash == -1) return PyErr_Clear(), false;
  keys_of_hash(set, hash, [&](PyObject* candidate) {
    const bool same = candidate == key || same_atom(candidate, key);
    found = found || same;
    unknown = unknown || (!same && may_be_equal(candidate, key));  // it may be asked before the key is found
    return false;
  });
  return !unknown && found == present;
}

bool int_word(PyObject* object, int64_t* out) {
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  *out = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0;
}

bool compares(int64_t a, int64_t b, Compare how) {
  switch (how) {
    case Compare::kLess: return a < b;
    case Compare::kLessEqual: return a <= b;
    case Compare::kEqual: return a == b;
    case Compare::kNotEqual: return a != b;
    case Compare::kGreater: return a > b;
    case Compare::kGreaterEqual: return a >= b;
  }
  return false;
}

// start, stop and step of an exact range: attributes of a builtin type.
bool same_range(PyObject* a, PyObject* b) {
  if (!PyRange_Check(a) || Py_TYPE(a) != Py_TYPE(b)) return false;
  for (const char* part : {"start", "stop", "step"}) {
    Ref x(PyObject_GetAttrString(a, part)), y(PyObject_GetAttrString(b, part));
    if (!x || !y) return PyErr_Clear(), false;
    if (!same_atom(x.get(), y.get())) return false;
  }
  return true;
}

class Checker {
 public:
  Checker(const GuardProgram& program, const GuardInput& input, bool choose_form)
      : program_(program), input_(input), choose_form_(choose_form) {}
  bool check(int number);
  void describe(int number, MissReport* report);

 private:
  PyObject* object(ValueId value) const { return reinterpret_cast<PyObject*>(input_.values[value]); }
  PyObject* binding(const Guard& guard) const {
    return guard.constant == kNoConstant ? nullptr : static_cast<PyObject*>(program_.bindings[guard.constant]);
  }
  PyObject* slot(const Guard& guard) const { return static_cast<PyObject*>(input_.slots[guard.imm]); }
  bool load(const Guard& guard, const void* pointer) {
    return load_word(guard, reinterpret_cast<uint64_t>(pointer)) && pointer != nullptr;
  }
  bool load_word(const Guard& guard, uint64_t word) {
    if (guard.dst != kNoValue) input_.values[guard.dst] = word;
    return true;
  }
  static bool is_dict(PyObject* object, const Guard& guard) {
    return guard.imm == 0 || (guard.imm & kOfHash) != 0 ? PyDict_CheckExact(object) : PyDict_Check(object);
  }
  bool check_tensor(const Guard& guard);
  bool dict_has_keys(PyObject* dict, PyObject* names);
  bool ordered_dict_has_keys(PyObject* dict, PyObject* names);

  void note_place(GuardCache* cache, GuardCache::Form form, const ValuePlace& place, PyObject* key,
                  int32_t dict_offset);
  PyObject* find_in(PyObject* dict, const Guard& guard, GuardCache* cache, int32_t dict_offset, bool* unknown);
  PyObject* find_attribute(PyObject* object, const Guard& guard, GuardCache* cache, bool* unknown);
  bool lacks_attribute(PyObject* object, const Guard& guard, GuardCache* cache);
  void note_version(GuardCache* cache, GuardCache::Form form, uint64_t version, int32_t dict_offset);

  std::string expected_text(const Guard& guard);
  std::string found_text(const Guard& guard);

  const GuardProgram& program_;
  const GuardInput& input_;
  const bool choose_form_;  // the segment is not emitted yet
};

bool Checker::check(int number) {
  const Guard& guard = program_.guards[static_cast<size_t>(number)];
  GuardCache* cache = &program_.caches[static_cast<size_t>(number)];
  PyObject* a = guard.a == kNoValue ? nullptr : object(guard.a);
  const char* fields = reinterpret_cast<const char*>(a);
  bool unknown = false;
  int64_t word = 0;
  switch (guard.kind) {
    case GuardKind::k_slot: return load(guard, slot(guard));
    case GuardKind::k_function: return load(guard, input_.function);
    case GuardKind::k_field: return load(guard, *reinterpret_cast<void* const*>(fields + guard.imm));
    case GuardKind::k_tuple_item: return load(guard, PyTuple_GET_ITEM(a, guard.imm));
    case GuardKind::k_list_item: return load(guard, PyList_GET_ITEM(a, guard.imm));
    case GuardKind::k_next_item: return load(guard, item_of_sequence_iterator(a, guard.imm));
    case GuardKind::k_next_none: return item_of_sequence_iterator(a, guard.imm) == nullptr;
    case GuardKind::k_dict_value:
      return is_dict(a, guard) && load(guard, find_in(a, guard, cache, /*dict_offset=*/0, &unknown));
    case GuardKind::k_instance_value: return load(guard, find_attribute(a, guard, cache, &unknown));
    case GuardKind::k_bound: return load(guard, binding(guard));
    case GuardKind::k_type_of: return load(guard, Py_TYPE(a));
    case GuardKind::k_unbound: return slot(guard) == nullptr;
    case GuardKind::k_same: return a == binding(guard);
    case GuardKind::k_type_is: return Py_TYPE(a) == reinterpret_cast<PyTypeObject*>(binding(guard));
    case GuardKind::k_type_version:
    case GuardKind::k_class_version: {
      PyObject* type = guard.kind == GuardKind::k_type_version ? reinterpret_cast<PyObject*>(Py_TYPE(a)) : a;
      return type == binding(guard) && guard.imm != 0 &&
             reinterpret_cast<PyTypeObject*>(type)->tp_version_tag == static_cast<uint32_t>(guard.imm);
    }
    case GuardKind::k_class_kept:
      return reinterpret_cast<PyTypeObject*>(a)->tp_version_tag == *reinterpret_cast<const uint32_t*>(binding(guard));
    case GuardKind::k_identical: return a == object(guard.b);
    case GuardKind::k_distinct: return a != object(guard.b);
    case GuardKind::k_int_equal: return int_word(a, &word) && word == program_.constants[guard.constant].i64;
    case GuardKind::k_float_equal: {
      if (!PyFloat_CheckExact(a)) return false;
      const double value = PyFloat_AS_DOUBLE(a);
      return std::memcmp(&value, &program_.constants[guard.constant].f64, sizeof value) == 0;
    }
    case GuardKind::k_equal: return binding(guard) != nullptr && same_atom(a, binding(guard));
    case GuardKind::k_int_value: return int_word(a, &word) && load_word(guard, static_cast<uint64_t>(word));
    case GuardKind::k_float_value: {
      if (!PyFloat_CheckExact(a)) return false;
      const double value = PyFloat_AS_DOUBLE(a);
      uint64_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      return load_word(guard, bits);
    }
    case GuardKind::k_tuple_length: return PyTuple_CheckExact(a) && PyTuple_GET_SIZE(a) == guard.imm;
    case GuardKind::k_tuple_size: return PyTuple_Check(a) && PyTuple_GET_SIZE(a) == guard.imm;
    case GuardKind::k_list_length: return PyList_CheckExact(a) && PyList_GET_SIZE(a) == guard.imm;
    case GuardKind::k_list_size:
      return PyList_CheckExact(a) && load_word(guard, static_cast<uint64_t>(PyList_GET_SIZE(a)));
    case GuardKind::k_dict_length: return PyDict_CheckExact(a) && PyDict_GET_SIZE(a) == guard.imm;
    case GuardKind::k_dict_keys:
      if (!is_dict(a, guard)) return false;
      if (guard.imm == kOfOrderedDict) return ordered_dict_has_keys(a, binding(guard));
      if (!dict_has_keys(a, binding(guard))) return false;
      note_version(cache, GuardCache::Form::kDict, version_of_dict(a), /*dict_offset=*/0);
      return true;
    case GuardKind::k_dict_lacks:
      if (!is_dict(a, guard) || look_up(a, binding(guard), &unknown) != nullptr || unknown) return false;
      note_version(cache, GuardCache::Form::kDict, version_of_dict(a), /*dict_offset=*/0);
      return true;
    case GuardKind::k_set_equal: return PyAnySet_CheckExact(a) && have_same_table(a, binding(guard), same_atom);
    case GuardKind::k_set_has: return has_key(a, binding(guard), guard.imm);
    case GuardKind::k_word_is:
      std::memcpy(&word, fields + guard.imm, sizeof word);
      return word == program_.constants[guard.constant].i64;
    case GuardKind::k_deque_item: {
      Ref item(item_of_deque(a, guard.imm));  // the deque holds it
      if (!item) PyErr_Clear();
      return load(guard, item.get());
    }
    case GuardKind::k_instance_lacks: return lacks_attribute(a, guard, cache);
    case GuardKind::k_null_field: return *reinterpret_cast<void* const*>(fields + guard.imm) == nullptr;
    case GuardKind::k_pointer_field: return *reinterpret_cast<void* const*>(fields + guard.imm) == binding(guard);
    case GuardKind::k_cell_empty: return PyCell_Check(a) && PyCell_GET(a) == nullptr;
    case GuardKind::k_tensor_layout:
    case GuardKind::k_tensor_class: return check_tensor(guard);
    case GuardKind::k_range_equal: return binding(guard) != nullptr && same_range(a, binding(guard));
    case GuardKind::k_int_compare:
      return compares(static_cast<int64_t>(input_.values[guard.a]), static_cast<int64_t>(input_.values[guard.b]),
                      static_cast<Compare>(guard.imm));
    case GuardKind::k_state_word:
      return *reinterpret_cast<const int32_t*>(binding(guard)) == static_cast<int32_t>(guard.imm);
    case GuardKind::k_grad_mode: return object_facts().grad_mode() == guard.imm;
    case GuardKind::kCount: break;
  }
  return false;
}

bool Checker::check_tensor(const Guard& guard) {
  PyObject* a = object(guard.a);
  if (Py_TYPE(a) != object_facts().tensor_type) return false;
  const Layout* layout = reinterpret_cast<const TensorObject*>(a)->layout;
  const Layout* wanted = reinterpret_cast<const Layout*>(binding(guard));
  if (guard.kind == GuardKind::k_tensor_layout) return layout == wanted;
  return layout->dtype == wanted->dtype && layout->rank == wanted->rank && layout->contiguous == wanted->contiguous &&
         layout->gradients == wanted->gradients;
}

bool Checker::dict_has_keys(PyObject* dict, PyObject* names) {
  if (PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(names)) return false;
  PyObject *key, *value;
  Py_ssize_t at = 0;
  for (Py_ssize_t i = 0; PyDict_Next(dict, &at, &key, &value); ++i) {
    if (!same_atom(key, PyTuple_GET_ITEM(names, i))) return false;
  }
  return true;
}

bool Checker::ordered_dict_has_keys(PyObject* dict, PyObject* names) {
  if (!PyODict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(names)) return false;
  PyObject *each, *value;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &each, &value);)  // the walk hashes each key
    if (!is_atom(each) && each != Py_Ellipsis) return false;
  Ref walk(PyODict_Type.tp_iter(dict));
  bool same = static_cast<bool>(walk);
  for (Py_ssize_t i = 0; same && i < PyTuple_GET_SIZE(names); ++i) {
    Ref key(PyIter_Next(walk.get()));
    same = key && same_atom(key.get(), PyTuple_GET_ITEM(names, i));
  }
  if (PyErr_Occurred()) PyErr_Clear();
  return same;
}

// ---- Places -------------------------------------------------------------------------------------

// The name must be the very object that native code compares.
void Checker::note_place(GuardCache* cache, GuardCache::Form form, const ValuePlace& place, PyObject* key,
                         int32_t dict_offset) {
  if (place.keys == nullptr || (!choose_form_ && (cache->form != form || cache->dict_offset != dict_offset))) return;
  if (key_at(place.keys, place.index) != key) return;
  const ValuePlace in_keys = find_key(place.keys, key, /*in_values=*/false);
  cache->form = form;
  cache->dict_offset = dict_offset;
  cache->keys = place.keys;
  cache->name_offset = in_keys.entry_offset - static_cast<int32_t>(sizeof(PyObject*));
  if (place.in_values) cache->value_offset = place.entry_offset;
  std::memcpy(&cache->geometry, reinterpret_cast<const char*>(place.keys) + kKeysGeometryOffset,
              sizeof cache->geometry);
  cache->geometry &= kKeysGeometryMask;
}

void Checker::note_version(GuardCache* cache, GuardCache::Form form, uint64_t version, int32_t dict_offset) {
  if (!choose_form_ && (cache->form != form || cache->dict_offset != dict_offset)) return;
  cache->form = form;
  cache->dict_offset = dict_offset;
  cache->version = version;
}

PyObject* Checker::find_in(PyObject* dict, const Guard& guard, GuardCache* cache, int32_t dict_offset, bool* unknown) {
  PyObject* key = binding(guard);
  const int64_t imm = guard.kind == GuardKind::k_dict_value ? guard.imm : 0;
  PyObject* value = look_up(dict, key, unknown, imm);
  if (*unknown) return nullptr;
  if (value == nullptr || (imm & kOfHash) != 0) return value;  // native code asks for no hash: it stays slow
  const auto form = values_of(dict) != nullptr ? GuardCache::Form::kSplitDict : GuardCache::Form::kDict;
  if (has_only_str_keys(dict)) {
    if (choose_form_ || cache->form == form) note_place(cache, form, find_in_dict(dict, key), key, dict_offset);
  } else {  // another table at this address may have a key in the way: by the version alone
    if (choose_form_) cache->form = form, cache->dict_offset = dict_offset;
    cache->keys = nullptr;
  }
  cache->version = cache->expected == nullptr || cache->expected == value ? version_of_dict(dict) : 0;
  cache->value = value;
  return value;
}

// Bytes from the object to the pointer to its dict; 0: there is none at a fixed place.
int32_t dict_offset_of(PyObject* object) {
  if (has_managed_dict(object)) return kManagedDictOffset;
  const Py_ssize_t offset = Py_TYPE(object)->tp_dictoffset;
  return offset > 0 ? static_cast<int32_t>(offset) : 0;
}

PyObject* Checker::find_attribute(PyObject* object, const Guard& guard, GuardCache* cache, bool* unknown) {
  PyObject* name = binding(guard);
  if (PyDictValues* values = inline_values_of(object)) {
    const ValuePlace place = find_in_instance(object, name);
    if (place.keys == nullptr) return nullptr;
    note_place(cache, GuardCache::Form::kInlineValues, place, name, /*dict_offset=*/0);
    return value_at(place, values);
  }
  PyObject* dict = instance_dict_of(object);
  return dict == nullptr ? nullptr : find_in(dict, guard, cache, dict_offset_of(object), unknown);
}

bool Checker::lacks_attribute(PyObject* object, const Guard& guard, GuardCache* cache) {
  PyObject* name = binding(guard);
  if (PyDictValues* values = inline_values_of(object)) {
    const PyDictKeysObject* keys = shared_keys_of(Py_TYPE(object));
    const ValuePlace place = find_in_instance(object, name);
    if (place.keys != nullptr && value_at(place, values) != nullptr) return false;
    if (choose_form_) cache->value_offset = place.keys != nullptr ? place.entry_offset : -1;
    if (choose_form_) cache->keys = keys;
    // Native code that was made for a name not among the shared keys counts them; once it is among them, it stays slow.
    if (place.keys == nullptr || choose_form_) {
      note_version(cache, GuardCache::Form::kInlineValues, static_cast<uint64_t>(entry_count_of(keys)),
                   /*dict_offset=*/0);
    }
    return true;
  }
  PyObject* dict = instance_dict_of(object);
  if (dict == nullptr) return true;
  bool unknown = false;
  if (look_up(dict, name, &unknown) != nullptr || unknown) return false;
  note_version(cache, GuardCache::Form::kDict, version_of_dict(dict), dict_offset_of(object));
  return true;
}

// ---- Text ---------------------------------------------------------------------------------------

std::string text_of(PyObject* object);

// A dict's keys, or a tuple of them.
std::string keys_text(PyObject* keys) {
  Ref list(PyDict_Check(keys) ? PyDict_Keys(keys) : PySequence_List(keys));  // not by an __iter__ of its class
  if (!list) return PyErr_Clear(), "?";
  std::string text;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
    if (i == 8) return text + ", ...";
    text += (i > 0 ? ", " : "") + text_of(PyList_GET_ITEM(list.get(), i));
  }
  return text.empty() ? "none" : text;
}

// Of an object, without its own repr unless it is an atom.
std::string text_of(PyObject* object) {
  if (object == nullptr) return "nothing";
  const std::string type = Py_TYPE(object)->tp_name;
  if (is_atom(object)) {
    Ref text = quiet_repr(object);
    const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    if (utf8 == nullptr) return PyErr_Clear(), "an object of type " + type;
    const std::string whole = utf8;
    if (whole.size() <= 80) return whole;
    size_t end = 80;  // not inside a character
    while (end > 0 && (static_cast<unsigned char>(whole[end]) & 0xC0) == 0x80) --end;
    return whole.substr(0, end) + "...";
  }
  if (Py_TYPE(object) == object_facts().tensor_type) {
    return "a tensor " + to_text(*reinterpret_cast<TensorObject*>(object)->layout);
  }
  if (PyList_CheckExact(object)) return "a list of " + std::to_string(PyList_GET_SIZE(object)) + " items";
  if (PyTuple_CheckExact(object)) return "a tuple of " + std::to_string(PyTuple_GET_SIZE(object)) + " items";
  if (PyDict_CheckExact(object)) return "a dict of " + std::to_string(PyDict_GET_SIZE(object)) + " items";
  if (PyType_Check(object)) return std::string("class ") + reinterpret_cast<PyTypeObject*>(object)->tp_name;
  return "an object of type " + type;
}

static std::string mode_text(int mode) { return mode == 0 ? "grad mode" : mode == 1 ? "no_grad" : "inference_mode"; }

std::string Checker::expected_text(const Guard& guard) {
  const Constant* constant = guard.constant == kNoConstant ? nullptr : &program_.constants[guard.constant];
  auto constant_text = [&]() -> std::string {
    switch (constant->kind) {
      case ConstantKind::kInt: return std::to_string(constant->i64);
      case ConstantKind::kFloat: return text_of(Ref(PyFloat_FromDouble(constant->f64)).get());
      case ConstantKind::kString: return text_of(binding(guard));
      case ConstantKind::kObject:
        if (binding(guard) == nullptr) return constant->text;
        return constant->text.empty() || is_atom(binding(guard)) ? text_of(binding(guard)) : constant->text;
      default: return constant->text;
    }
  };
  const std::string number = std::to_string(guard.imm);
  switch (guard.kind) {
    case GuardKind::k_slot:
    case GuardKind::k_field:
    case GuardKind::k_function:
    case GuardKind::k_tuple_item:
    case GuardKind::k_list_item:
    case GuardKind::k_deque_item:
    case GuardKind::k_next_item:
    case GuardKind::k_bound:
    case GuardKind::k_type_of: return "a value";
    case GuardKind::k_dict_value: return "a value of key " + constant_text();
    case GuardKind::k_instance_value: return "attribute " + constant_text();
    case GuardKind::k_unbound: return "no value";
    case GuardKind::k_next_none: return "no more than " + number + " items";
    case GuardKind::k_same: return "the same " + constant_text();
    case GuardKind::k_type_is: return "an object of " + text_of(binding(guard));
    case GuardKind::k_type_version: return "an object of " + text_of(binding(guard)) + ", unchanged";
    case GuardKind::k_class_version: return text_of(binding(guard)) + ", unchanged";
    case GuardKind::k_class_kept: return constant->text + ", unchanged but for its attributes that are stored to";
    case GuardKind::k_identical: return "the same object twice";
    case GuardKind::k_distinct: return "two objects";
    case GuardKind::k_int_equal:
    case GuardKind::k_float_equal:
    case GuardKind::k_equal:
    case GuardKind::k_range_equal: return constant_text();
    case GuardKind::k_int_value: return "an int of 64 bits";
    case GuardKind::k_float_value: return "a float";
    case GuardKind::k_tuple_length: return "a tuple of " + number + " items";
    case GuardKind::k_tuple_size: return "a tuple of " + number + " items";
    case GuardKind::k_list_length: return "a list of " + number + " items";
    case GuardKind::k_list_size: return "a list";
    case GuardKind::k_dict_length: return "a dict of " + number + " items";
    case GuardKind::k_dict_keys: return "a dict with the keys " + keys_text(binding(guard));
    case GuardKind::k_dict_lacks: return "a dict without key " + constant_text();
    case GuardKind::k_set_equal: return "a set of the keys " + keys_text(binding(guard)) + " in this order";
    case GuardKind::k_set_has: return ((guard.imm & 1) != 0 ? "a set with " : "a set without ") + constant_text();
    case GuardKind::k_word_is: return "one with " + constant_text();
    case GuardKind::k_instance_lacks: return "no attribute " + constant_text();
    case GuardKind::k_null_field: return "nothing";
    case GuardKind::k_pointer_field: return constant_text();
    case GuardKind::k_cell_empty: return "an empty cell";
    case GuardKind::k_tensor_layout: return "a tensor " + to_text(*reinterpret_cast<const Layout*>(binding(guard)));
    case GuardKind::k_tensor_class: {
      const Layout* layout = reinterpret_cast<const Layout*>(binding(guard));
      return std::string("a ") + (layout->contiguous ? "contiguous" : "strided") + " tensor of " +
             info(layout->dtype).name + " and rank " + std::to_string(layout->rank);
    }
    case GuardKind::k_int_compare: {
      static constexpr const char* kSigns[] = {"<", "<=", "==", "!=", ">", ">="};
      return std::string("a number ") + kSigns[guard.imm] + " " +
             std::to_string(static_cast<int64_t>(input_.values[guard.b]));
    }
    case GuardKind::k_state_word: return constant->text + " " + number;
    case GuardKind::k_grad_mode: return mode_text(static_cast<int>(guard.imm));
    case GuardKind::kCount: break;
  }
  return {};
}

std::string Checker::found_text(const Guard& guard) {
  switch (guard.kind) {
    case GuardKind::k_slot:
    case GuardKind::k_unbound: return text_of(slot(guard));
    case GuardKind::k_function:
    case GuardKind::k_bound:
    case GuardKind::k_field: return "nothing";
    case GuardKind::k_int_compare: return std::to_string(static_cast<int64_t>(input_.values[guard.a]));
    case GuardKind::k_state_word: return std::to_string(*reinterpret_cast<const int32_t*>(binding(guard)));
    case GuardKind::k_grad_mode: return mode_text(object_facts().grad_mode());
    case GuardKind::k_type_version:
    case GuardKind::k_class_version: {
      PyObject* type = guard.kind == GuardKind::k_type_version ? reinterpret_cast<PyObject*>(Py_TYPE(object(guard.a)))
                                                               : object(guard.a);
      return type == binding(guard) ? "its class was changed" : text_of(object(guard.a));
    }
    case GuardKind::k_class_kept: return "the class was changed";
    case GuardKind::k_dict_value: return PyDict_CheckExact(object(guard.a)) ? "no such key" : text_of(object(guard.a));
    case GuardKind::k_instance_value: return "no such attribute";
    case GuardKind::k_dict_keys:
      if (!PyDict_CheckExact(object(guard.a))) return text_of(object(guard.a));
      return "a dict with the keys " + keys_text(object(guard.a));
    case GuardKind::k_dict_lacks: {
      if (!PyDict_CheckExact(object(guard.a))) return text_of(object(guard.a));
      bool unknown = false;
      PyObject* value = look_up(object(guard.a), binding(guard), &unknown);
      return value == nullptr ? "a dict with keys that compare in their own way" : "the value " + text_of(value);
    }
    case GuardKind::k_instance_lacks: {
      bool unknown = false;
      GuardCache nowhere;
      return "the attribute, " + text_of(find_attribute(object(guard.a), guard, &nowhere, &unknown));
    }
    case GuardKind::k_set_equal:
      return PyAnySet_CheckExact(object(guard.a)) ? "a set of the keys " + keys_text(object(guard.a))
                                                  : text_of(object(guard.a));
    case GuardKind::k_word_is: {
      int64_t word;
      std::memcpy(&word, reinterpret_cast<const char*>(object(guard.a)) + guard.imm, sizeof word);
      return std::to_string(word);
    }
    case GuardKind::k_identical: return "two objects";
    case GuardKind::k_distinct: return "the same object twice";
    default: return text_of(object(guard.a));
  }
}

void Checker::describe(int number, MissReport* report) {
  static constexpr const char* kNames[] = {
#define KN_GUARD(name, ...) #name,
#include "guards/guards.def"
  };
  const Guard& guard = program_.guards[static_cast<size_t>(number)];
  report->guard = number;
  report->kind = kNames[static_cast<int>(guard.kind)];
  if (guard.source >= 0) report->source = program_.sources[static_cast<size_t>(guard.source)];
  report->expected = expected_text(guard);
  report->found = found_text(guard);
}

}  // namespace

int check_guard(const GuardProgram& program, const GuardInput& input, int guard) {
  Checker checker(program, input, /*choose_form=*/false);
  if (guard >= 0) return checker.check(guard) ? 1 : 0;
  for (int i = ~guard; i < static_cast<int>(program.guards.size()); ++i)
    if (!checker.check(i)) return 0;
  return 1;
}

int record_caches(const GuardProgram& program, const GuardInput& input) {
  Checker checker(program, input, /*choose_form=*/true);
  for (int i = 0; i < static_cast<int>(program.guards.size()); ++i) {
    if (!checker.check(i)) return i;
  }
  return -1;
}

MissReport find_miss(const GuardProgram& program, const GuardInput& input) {
  MissReport report;
  Checker checker(program, input, /*choose_form=*/false);
  for (int i = 0; i < static_cast<int>(program.guards.size()); ++i) {
    if (checker.check(i)) continue;
    checker.describe(i, &report);
    break;
  }
  return report;
}

std::vector<MissReport> find_misses(const GuardProgram& program, const GuardInput& input) {
  std::vector<MissReport> reports;
  std::set<ValueId> unknown;  // what guards after these take for granted
  bool classes_hold = true;   // what a segment is bound to may live by a class's being as it was
  Checker checker(program, input, /*choose_form=*/false);
  for (int i = 0; i < static_cast<int>(program.guards.size()); ++i) {
    const Guard& guard = program.guards[static_cast<size_t>(i)];
    bool looks = unknown.count(guard.a) == 0 && unknown.count(guard.b) == 0;
    if (guard.kind == GuardKind::k_bound && !classes_hold) looks = false;
    if (looks && checker.check(i)) continue;
    if (guard.kind == GuardKind::k_type_version || guard.kind == GuardKind::k_class_version ||
        guard.kind == GuardKind::k_class_kept)
      classes_hold = false;
    if (looks) checker.describe(i, &reports.emplace_back());
    for (ValueId value : {guard.dst, guard.a, guard.b})
      if (value != kNoValue) unknown.insert(value);
  }
  return reports;
}

std::string to_text(const MissReport& report) {
  if (report.guard < 0) return "every guard holds";
  return (report.source.empty() ? report.kind : report.source) + ": expected " + report.expected + ", found " +
         report.found;
}

// Of a class without a __setattr__ of its own.
static AttributePlace attribute_place(const void* type_object, const void* name_object) {
  auto* type = static_cast<PyTypeObject*>(const_cast<void*>(type_object));
  auto* name = static_cast<PyObject*>(const_cast<void*>(name_object));
  if (type == nullptr || name == nullptr || !PyUnicode_CheckExact(name)) return {};
  PyObject* in_class = _PyType_Lookup(type, name);
  if (in_class != nullptr && Py_TYPE(in_class)->tp_descr_set != nullptr) {
    if (Py_TYPE(in_class) != &PyMemberDescr_Type) return {};
    const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(in_class)->d_member;
    if (member->type != T_OBJECT_EX || (member->flags & READONLY) != 0) return {};
    return {AttributePlace::Form::kSlot, static_cast<int32_t>(member->offset)};
  }
  const PyDictKeysObject* keys = PyType_HasFeature(type, Py_TPFLAGS_MANAGED_DICT) ? shared_keys_of(type) : nullptr;
  const ValuePlace place = keys != nullptr ? find_key(keys, name, /*in_values=*/true) : ValuePlace{};
  if (place.keys == nullptr) return {};
  return {AttributePlace::Form::kInlineValues, place.entry_offset};
}

void learn_object_facts(const void* tensor_type) {
  ObjectFacts facts;
  facts.attribute_place = &attribute_place;
  facts.references_offset = offsetof(PyObject, ob_refcnt);
  facts.type_offset = offsetof(PyObject, ob_type);
  facts.size_offset = offsetof(PyVarObject, ob_size);
  facts.list_items_offset = offsetof(PyListObject, ob_item);
  facts.tuple_items_offset = offsetof(PyTupleObject, ob_item);
  facts.iterator_index_offset = offsetof(SequenceIterator, index);
  facts.iterator_sequence_offset = offsetof(SequenceIterator, sequence);
  facts.float_value_offset = offsetof(PyFloatObject, ob_fval);
  facts.int_size_offset = offsetof(PyVarObject, ob_size);
  facts.int_digits_offset = offsetof(PyLongObject, ob_digit);
  facts.cell_contents_offset = offsetof(PyCellObject, ob_ref);
  facts.type_version_offset = offsetof(PyTypeObject, tp_version_tag);
  facts.dict_keys_offset = kDictKeysOffset;
  facts.dict_values_offset = kDictValuesOffset;
  facts.dict_used_offset = kDictUsedOffset;
  facts.dict_version_offset = kDictVersionOffset;
  facts.keys_geometry_offset = kKeysGeometryOffset;
  facts.keys_geometry_mask = kKeysGeometryMask;
  facts.keys_entries_offset = kKeysEntryCountOffset;
  facts.inline_values_offset = kInlineValuesOffset;
  facts.tensor_layout_offset = offsetof(TensorObject, layout);
  facts.tensor_data_offset = offsetof(TensorObject, data);
  facts.tensor_type = tensor_type;
  facts.int_type = &PyLong_Type;
  facts.float_type = &PyFloat_Type;
  facts.list_type = &PyList_Type;
  facts.tuple_type = &PyTuple_Type;
  facts.dict_type = &PyDict_Type;
  facts.function_type = &PyFunction_Type;
  facts.range_iterator_type = &PyRangeIter_Type;
  facts.list_iterator_type = &PyListIter_Type;
  facts.true_object = Py_True;
  facts.false_object = Py_False;
  facts.none_object = Py_None;
  set_object_facts(facts);
}

}  // namespace kintsugi
