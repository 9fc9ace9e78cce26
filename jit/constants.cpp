// The tracer's values for objects that are known while tracing, and the constants of the plan that stand for them.
#include "jit/tracer_core.h"
#include "runtime/frame.h"

namespace kintsugi {

#ifdef __SANITIZE_ADDRESS__
constexpr size_t kMostSpare = 0;  // or uses after the end would not show
#else
constexpr size_t kMostSpare = 8;
#endif
std::vector<std::unique_ptr<ValueArena::Block>>& ValueArena::spare() {
  static auto& blocks = *[] {
    auto* made = new std::vector<std::unique_ptr<Block>>;
    made->reserve(kMostSpare);  // giving one back takes no memory
    return made;
  }();
  return blocks;
}

Value& ValueArena::add() {
  if (size_ == blocks_.size() * kPerBlock) {
    if (spare().empty()) {
      blocks_.push_back(std::make_unique_for_overwrite<Block>());
    } else {
      blocks_.push_back(std::move(spare().back()));
      spare().pop_back();
    }
  }
  return *new (at(size_++)) Value;
}

ValueArena::~ValueArena() {
  for (size_t i = size_; i > 0; --i) at(i - 1)->~Value();
  while (!blocks_.empty() && spare().size() < kMostSpare) {
    spare().push_back(std::move(blocks_.back()));
    blocks_.pop_back();
  }
}

Value* Tracer::make(ValueKind kind) {
  Value& value = arena_.add();
  value.kind = kind;
  value.serial = static_cast<int32_t>(arena_.size());
  return &value;
}

Value* Tracer::constant(PyObject* object) {
  auto [place, fresh] = constants_.try_emplace(object, nullptr);
  if (fresh) {
    keep(object);
    place->second = make(ValueKind::kConstant);
    place->second->object = object;
  }
  return place->second;
}

Value* Tracer::constant_owned(PyObject* stolen) {
  if (stolen == nullptr) return nullptr;
  Value* value = constant(stolen);
  Py_DECREF(stolen);
  return value;
}

// A new tuple, frozenset or range is a new one in each run: it shows in `is`.
Value* Tracer::made_now(PyObject* stolen) {
  bool is_new = stolen != nullptr && Py_REFCNT(stolen) == 1;
  if (is_new && PyTuple_CheckExact(stolen) && PyTuple_GET_SIZE(stolen) > 0) {
    std::vector<Value*> items;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(stolen); ++i)
      items.push_back(made_now(std::exchange(PyTuple_GET_ITEM(stolen, i), nullptr)));
    Py_DECREF(stolen);
    return tuple_of(std::move(items));
  }
  Value* value = constant_owned(stolen);
  if (is_new && (PyFrozenSet_CheckExact(stolen) || PyRange_Check(stolen))) value->fresh = true;
  return value;
}

Value* Tracer::int_constant(int64_t value) { return constant_owned(PyLong_FromLongLong(value)); }

ConstantId Tracer::constant_id(PyObject* object, Hold hold) {
  auto [place, fresh] = constant_ids_.try_emplace(object, static_cast<ConstantId>(plan().constants.size()));
  if (!fresh) {
    Hold& held = result_->holds[place->second];
    if (held != Hold::kStrong && hold != Hold::kPinned) held = hold;
    return place->second;
  }
  keep(object);
  Constant constant{ConstantKind::kObject, 0, 0, std::string(Py_TYPE(object)->tp_name)};
  if (PyType_Check(object)) constant.text += std::string(" ") + reinterpret_cast<PyTypeObject*>(object)->tp_name;
  if (PyUnicode_CheckExact(object) || PyLong_CheckExact(object) || PyFloat_CheckExact(object)) {
    Ref text = quiet_repr(object);
    const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    if (utf8 != nullptr) constant.text += std::string(" ") + std::string(utf8).substr(0, 80);
    PyErr_Clear();
  }
  plan().constants.push_back(std::move(constant));
  result_->bindings.push_back(object);
  result_->holds.push_back(hold);
  return place->second;
}

ConstantId Tracer::pointer_constant(const void* pointer, const std::string& text) {
  plan().constants.push_back({ConstantKind::kPointer, 0, 0, text});
  result_->bindings.push_back(const_cast<void*>(pointer));
  result_->holds.push_back(Hold::kNone);
  return static_cast<ConstantId>(plan().constants.size()) - 1;
}

ConstantId Tracer::string_constant(const std::string& text) {
  auto [place, fresh] = text_ids_.try_emplace(text, static_cast<ConstantId>(plan().constants.size()));
  if (fresh) {
    plan().constants.push_back({ConstantKind::kString, 0, 0, text});
    result_->bindings.push_back(nullptr);
    result_->holds.push_back(Hold::kNone);
  }
  return place->second;
}

ConstantId Tracer::number_constant(const Constant& number) {
  std::string key = std::string("number ") + std::to_string(static_cast<int>(number.kind)) +
                    std::to_string(number.i64) + " " +
                    std::string(reinterpret_cast<const char*>(&number.f64), sizeof number.f64);
  auto [place, fresh] = text_ids_.try_emplace(key, static_cast<ConstantId>(plan().constants.size()));
  if (fresh) {
    plan().constants.push_back(number);
    result_->bindings.push_back(nullptr);
    result_->holds.push_back(Hold::kNone);
  }
  return place->second;
}

ConstantId Tracer::layout_constant(Layout* layout) {
  std::string text = to_text(*layout);
  auto [place, fresh] = text_ids_.try_emplace("layout " + text, static_cast<ConstantId>(plan().constants.size()));
  if (fresh) {
    plan().constants.push_back({ConstantKind::kLayout, 0, 0, text});
    retain(layout);
    keep_layout(layout);
    result_->bindings.push_back(layout);
    result_->holds.push_back(Hold::kLayout);
  }
  return place->second;
}

// An object that is a compile-time fact may be held strongly only when it cannot keep the user's objects alive.
bool is_atom(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (object == Py_None || object == Py_Ellipsis || object == Py_NotImplemented) return true;
  if (type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || type == &PyUnicode_Type ||
      type == &PyBytes_Type || type == &PyComplex_Type || type == &PyCode_Type || type == &PyRange_Type ||
      type == &PySlice_Type)
    return true;
  // Of an imported module or of a class; others may go with an object of the program's.
  if (type == &PyCFunction_Type) {
    PyObject* self = PyCFunction_GET_SELF(object);
    if (self == nullptr || PyType_Check(self)) return self != nullptr && is_atom(self);
    if (!PyModule_CheckExact(self)) return false;
    PyObject *names = PyModule_GetDict(self), *module = PyDict_GetItemWithError(names, interned.name);
    const char* name = reinterpret_cast<PyCFunctionObject*>(object)->m_ml->ml_name;
    return module != nullptr && PyUnicode_CheckExact(module) &&
           PyDict_GetItem(PyImport_GetModuleDict(), module) == self && PyDict_GetItemString(names, name) == object;
  }
  if (type == &PyMethodDescr_Type || type == &PyClassMethodDescr_Type || type == &PyWrapperDescr_Type)
    return is_atom(reinterpret_cast<PyObject*>(reinterpret_cast<PyDescrObject*>(object)->d_type));
  // Constants of code objects, and shapes: atoms all through.
  if (PyTuple_Check(object) || type == &PyFrozenSet_Type) return true;
  if (PyType_Check(object)) return !PyType_HasFeature(reinterpret_cast<PyTypeObject*>(object), Py_TPFLAGS_HEAPTYPE);
  return !PyType_IS_GC(type);
}

// A class's, so that it counts as an atom.
PyObject* function_for_steps(const char* name, _PyCFunctionFast function) {
  auto* row = new PyMethodDef{name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)),
                              METH_FASTCALL, nullptr};
  return PyCFunction_New(row, reinterpret_cast<PyObject*>(&PyType_Type));
}

// A constant that a segment holds weakly, as a value: a guard loads it once.
ValueId Tracer::bound_id(PyObject* object) {
  auto [place, fresh] = checked_.try_emplace(object, kNoValue);
  if (!fresh) return place->second;
  std::string text = PyType_Check(object) ? std::string("class ") + reinterpret_cast<PyTypeObject*>(object)->tp_name
                                          : std::string("a ") + Py_TYPE(object)->tp_name;
  ConstantId constant = constant_id(object, Hold::kWeak);
  Guard& load = guard(GuardKind::k_bound, source(text));
  load.constant = constant;
  return place->second = load.dst = new_value();
}

// Recipe `id`, the last one if it has no parts, becomes this. One of what is there already serves all exits: each shows
// every local, and a list of a thousand tensors in each of a thousand exits would be a million recipes.
RecipeId Tracer::settle_recipe(Value* value, RecipeId id, Recipe recipe) {
  std::vector<RecipeId>* settled = recipe.kind == RecipeKind::kValue      ? &value_recipes_
                                   : recipe.kind == RecipeKind::kConstant ? &constant_recipes_
                                                                          : nullptr;
  std::vector<Recipe>& recipes = plan().recipes;
  if (settled != nullptr && static_cast<size_t>(id) + 1 == recipes.size()) {
    auto place = static_cast<size_t>(recipe.kind == RecipeKind::kValue ? recipe.value : recipe.constant);
    if (place >= settled->size()) settled->resize(place + 1, -1);
    RecipeId& known = (*settled)[place];
    if (known >= 0) {
      recipes.pop_back();
      return recipes_[value] = known;
    }
    known = id;
  }
  recipes[static_cast<size_t>(id)] = std::move(recipe);
  return id;
}

}  // namespace kintsugi
