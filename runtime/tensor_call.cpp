// From a Python call to its meaning and back: binding arguments to a row's parameters, the tables that Python sees,
// finding the row behind a callable, and executing a parsed call.
#include <array>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>

#include "runtime/grad_mode.h"
#include "runtime/tensor_rows.h"

namespace kintsugi {

// A row's parameters, read from their text.
struct Signature {
  PyObject* names[kMaxParameters] = {};  // interned
  int count = 0;
  int positional = 0;  // parameters that a position can fill
  int rest = -1;       // index of "*name"
  uint32_t required = 0;
};

namespace {

std::string spelled(const FunctionRow& row) { return std::string(row.name) + "(" + row.parameters + ")"; }

bool wrong_call(const FunctionRow& row, const std::string& what) {
  PyErr_Format(PyExc_TypeError, "%s(): %s; it is %s", row.name, what.c_str(), spelled(row).c_str());
  return false;
}

const Signature* parse_signature(const std::string& text) {
  static std::deque<Signature> all;
  Signature& signature = all.emplace_back();
  bool keyword_only = false;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find(", ", at), text.size());
    std::string word = text.substr(at, end - at);
    at = end + 2;
    if (word == "*") {
      keyword_only = true;
      continue;
    }
    int index = signature.count++;
    if (word[0] == '*') {
      signature.rest = index;
      keyword_only = true;
      word.erase(0, 1);
    } else if (!keyword_only) {
      signature.positional = index + 1;
    }
    size_t equals = word.find('=');
    if (equals == std::string::npos && signature.rest != index) signature.required |= 1u << index;
    signature.names[index] = PyUnicode_InternFromString(word.substr(0, equals).c_str());
    if (signature.names[index] == nullptr) return nullptr;
  }
  return &signature;
}

bool bind_keyword(const FunctionRow& row, Borrowed name, Borrowed value, Arguments* out) {
  const Signature& signature = *row.signature;
  for (int i = 0; i < signature.count; ++i) {
    // Keyword names of calls are interned nearly always.
    if (signature.names[i] != name && PyUnicode_Compare(signature.names[i], name) != 0) continue;
    if (out->values[i] != nullptr || (i == signature.rest && out->rest_count > 0)) {
      return wrong_call(row, std::string(PyUnicode_AsUTF8(name)) + " was given twice");
    }
    out->values[i] = value;
    out->positions[i] = -1;
    return true;
  }
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return false;
  return wrong_call(row, std::string("there is no parameter ") + text);
}

// arguments are those after self; self is null for functions.
bool bind(const FunctionRow& row, Borrowed self, PyObject* const* arguments, size_t positional, Borrowed keyword_names,
          Arguments* out) {
  const Signature& signature = *row.signature;
  out->row = &row;
  int at = 0;
  int shift = 0;
  if (self != nullptr) {
    out->values[0] = self;
    at = shift = 1;
  }
  size_t taken = 0;
  for (; at < signature.positional && taken < positional; ++at, ++taken) {
    out->values[at] = arguments[taken];
    out->positions[at] = static_cast<int8_t>(taken + shift);
  }
  if (taken < positional) {
    if (signature.rest < 0) return wrong_call(row, std::to_string(positional + shift) + " arguments are too many");
    out->rest = arguments + taken;
    out->rest_count = positional - taken;
  }
  Py_ssize_t keywords = keyword_names == nullptr ? 0 : PyTuple_GET_SIZE(keyword_names);
  for (Py_ssize_t i = 0; i < keywords; ++i) {
    if (!bind_keyword(row, PyTuple_GET_ITEM(keyword_names, i), arguments[positional + i], out)) return false;
  }
  for (int i = 0; i < signature.count; ++i) {
    bool required = (signature.required >> i & 1) != 0;
    if (required && out->values[i] == nullptr) {
      return wrong_call(row, std::string("argument ") + PyUnicode_AsUTF8(signature.names[i]) + " is missing");
    }
    if (!required && out->values[i] == Py_None) out->values[i] = nullptr;  // as torch: None is "not given"
  }
  return true;
}

bool parse_bound(ParsedCall* call) {
  const FunctionRow& row = *call->arguments.row;
  call->kind = row.kind;
  call->op = row.op;
  return row.parse == nullptr || row.parse(call);
}

PyObject* call_row(const FunctionRow& row, PyObject* self, PyObject* const* arguments, size_t positional,
                   PyObject* keyword_names) {
  if (row.parse == nullptr && row.run != nullptr) {
    Arguments bound;
    return bind(row, self, arguments, positional, keyword_names, &bound) ? row.run(bound) : nullptr;
  }
  ParsedCall call;
  if (!bind(row, self, arguments, positional, keyword_names, &call.arguments) || !parse_bound(&call)) return nullptr;
  return execute(call);
}

// ---- The tables -----------------------------------------------------------------------------------------------------

// Filled once by init_rows and never changed: Python's method lists and the tracer keep addresses into them.
struct Tables {
  std::vector<FunctionRow> methods, functions, attributes;
  std::vector<PyMethodDef> method_list, function_list;
  std::vector<PyGetSetDef> attribute_list;
  std::deque<std::string> texts;

  const char* keep(std::string text) { return texts.emplace_back(std::move(text)).c_str(); }
};
Tables tables;

// CPython gives a C method no word of its own, so each row has an entry function that knows its index.
constexpr size_t kMaxRows = 192;
using EntryFunction = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);

template <size_t index>
PyObject* method_entry(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keyword_names) {
  return call_row(tables.methods[index], self, arguments, static_cast<size_t>(count), keyword_names);
}
template <size_t index>
PyObject* function_entry(PyObject*, PyObject* const* arguments, Py_ssize_t count, PyObject* keyword_names) {
  return call_row(tables.functions[index], nullptr, arguments, static_cast<size_t>(count), keyword_names);
}
template <size_t... indices>
constexpr std::array<EntryFunction, kMaxRows> method_entries(std::index_sequence<indices...>) {
  return {method_entry<indices>...};
}
template <size_t... indices>
constexpr std::array<EntryFunction, kMaxRows> function_entries(std::index_sequence<indices...>) {
  return {function_entry<indices>...};
}

PyObject* read_attribute(PyObject* self, void* closure) {
  const FunctionRow& row = *static_cast<const FunctionRow*>(closure);
  ParsedCall call;
  call.arguments.row = &row;
  call.arguments.values[0] = self;
  if (row.parse == nullptr && row.run != nullptr) return row.run(call.arguments);
  return parse_bound(&call) ? execute(call) : nullptr;
}

// Element-wise ops, reductions and products: kt.name, Tensor.name, and Tensor.name_ for those whose result fits.
void add_op_rows() {
  static const char* const kOperands[] = {"", "self", "self, other", "self, other, third"};
  for (int i = 0; i < static_cast<int>(Op::kCount); ++i) {
    Op op = static_cast<Op>(i);
    const OpInfo& facts = info(op);
    if (op == Op::k_convert) continue;  // spelled to(), float(), ...
    FunctionRow row = {facts.name, "", CallKind::kOp, parse_elementwise, nullptr, facts.document, op};
    if (facts.op_class == OpClass::kReduction) {
      row.parse = parse_reduction;
      row.parameters = "self, dim=None, keepdim=False, *, dtype=None";
    } else if (op == Op::k_where) {
      row.parameters = "condition, input, other";
      tables.functions.push_back(row);
      continue;
    } else if (facts.op_class == OpClass::kElementwise || facts.op_class == OpClass::kMatmul) {
      row.parameters = kOperands[facts.arity];
      if (op == Op::k_pow) {
        row.parameters = "self, exponent";
        row.parse = parse_power;
      }
    } else {
      continue;
    }
    tables.methods.push_back(row);
    row.parameters = tables.keep("input" + std::string(row.parameters + 4));
    tables.functions.push_back(row);
    if (facts.op_class == OpClass::kElementwise) {
      row.name = tables.keep(std::string(facts.name) + "_");
      row.parameters = kOperands[facts.arity];
      row.parse = parse_in_place;
      row.kind = CallKind::kInPlace;
      tables.methods.push_back(row);
    }
  }
}

template <size_t count>
bool fill_method_list(std::vector<FunctionRow>& rows, const std::array<EntryFunction, count>& entries, bool methods,
                      std::vector<PyMethodDef>* list) {
  if (rows.size() > count) {
    PyErr_Format(PyExc_SystemError, "kMaxRows is %zu, there are %zu rows", count, rows.size());
    return false;
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    FunctionRow& row = rows[i];
    row.signature = parse_signature(row.parameters);
    if (row.signature == nullptr) return false;
    std::string shown = row.parameters;
    if (methods) shown.insert(0, "$");
    const char* document = tables.keep(std::string(row.name) + "(" + shown + ")\n--\n\n" + row.document);
    PyCFunction function = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(entries[i]));
    list->push_back({row.name, function, METH_FASTCALL | METH_KEYWORDS, document});
  }
  list->push_back({});
  return true;
}

}  // namespace

bool init_rows(Borrowed module) {
  if (!tables.methods.empty()) return PyModule_AddFunctions(module, tables.function_list.data()) == 0;
  add_op_rows();
  for (const FunctionRow& row : method_rows()) tables.methods.push_back(row);
  for (const FunctionRow& row : gradient_method_rows()) tables.methods.push_back(row);
  for (const FunctionRow& row : function_rows()) tables.functions.push_back(row);
  for (const FunctionRow& row : function_form_rows()) tables.functions.push_back(row);
  for (const FunctionRow& row : gradient_function_rows()) tables.functions.push_back(row);
  for (const FunctionRow& row : attribute_rows()) tables.attributes.push_back(row);
  for (const FunctionRow& row : gradient_attribute_rows()) tables.attributes.push_back(row);
  constexpr auto kMethods = method_entries(std::make_index_sequence<kMaxRows>());
  constexpr auto kFunctions = function_entries(std::make_index_sequence<kMaxRows>());
  if (!fill_method_list(tables.methods, kMethods, /*methods=*/true, &tables.method_list)) return false;
  if (!fill_method_list(tables.functions, kFunctions, /*methods=*/false, &tables.function_list)) return false;
  for (FunctionRow& row : tables.attributes) {
    row.signature = parse_signature(row.parameters);
    if (row.signature == nullptr) return false;
    tables.attribute_list.push_back({row.name, read_attribute, gradient_setter(row.name), row.document, &row});
  }
  tables.attribute_list.push_back({"__dict__", get_attribute_dict, set_attribute_dict, nullptr, nullptr});
  tables.attribute_list.push_back({});
  return PyModule_AddFunctions(module, tables.function_list.data()) == 0;
}

PyMethodDef* tensor_method_list() { return tables.method_list.data(); }
PyGetSetDef* tensor_attribute_list() { return tables.attribute_list.data(); }

const FunctionRow* find_row(Borrowed callable) {
  auto at = [](const std::vector<PyMethodDef>& list, const std::vector<FunctionRow>& rows,
               const PyMethodDef* method) -> const FunctionRow* {
    std::less<const PyMethodDef*> before;
    if (before(method, list.data()) || !before(method, list.data() + rows.size())) return nullptr;
    return &rows[static_cast<size_t>(method - list.data())];
  };
  if (PyCFunction_Check(callable)) {
    const PyMethodDef* method = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml;
    const FunctionRow* row = at(tables.function_list, tables.functions, method);
    return row != nullptr ? row : at(tables.method_list, tables.methods, method);
  }
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type)) {
    return at(tables.method_list, tables.methods, reinterpret_cast<PyMethodDescrObject*>(callable)->d_method);
  }
  if (Py_IS_TYPE(callable, &PyGetSetDescr_Type)) {
    const PyGetSetDef* attribute = reinterpret_cast<PyGetSetDescrObject*>(callable)->d_getset;
    return attribute->get == read_attribute ? static_cast<const FunctionRow*>(attribute->closure) : nullptr;
  }
  return nullptr;
}

bool parse_call(const FunctionRow& row, PyObject* const* arguments, size_t positional, Borrowed keyword_names,
                ParsedCall* out) {
  return bind(row, nullptr, arguments, positional, keyword_names, &out->arguments) && parse_bound(out);
}

// ---- Executing ------------------------------------------------------------------------------------------------------

namespace {

PyObject* execute_op(const ParsedCall& call) {
  std::span<const CallOperand> operands = call.all_operands();
  PyObject* few[3];
  std::vector<PyObject*> many;
  PyObject** objects = few;
  if (operands.size() > 3) {
    many.resize(operands.size());
    objects = many.data();
  }
  for (size_t i = 0; i < operands.size(); ++i) objects[i] = operands[i].object;
  Attributes attributes = call.attributes;
  if (call.op == Op::k_rand || call.op == Op::k_randn) {
    attributes.seed = random_stream.seed;
    attributes.draw = random_stream.draw++;
  }
  PyObject* result = apply_op(call.op, objects, operands.size(), attributes);
  if (result != nullptr && call.requires_grad) set_gradients(result, kRequiresGrad);
  return result;
}

PyObject* execute_in_place(const ParsedCall& call) {
  TensorObject* target = as_tensor(call.target);
  if (call.op == Op::kCount) {
    if (!check_gradients_in_place(target, call.offset != 0 || target->layout->rank != call.shape.rank) ||
        !store_into(target, call.shape, call.offset, call.operands[0].object))
      return nullptr;
  } else if (!check_gradients_in_place(target, false)) {
    return nullptr;
  } else if (!check_writable(target, call.shape)) {
    return nullptr;
  } else {
    PyObject* operands[2] = {call.operands[0].object, call.operands[1].object};
    if (!apply_plain_into(call.op, operands, static_cast<size_t>(call.operand_count), target)) return nullptr;
  }
  take_gradients(target, call.operands, static_cast<size_t>(call.operand_count));
  return Py_NewRef(call.target);
}

PyObject* execute_view(const ParsedCall& call) {
  PyObject* base = call.operands[0].object;
  if (!call.copies) {
    PyObject* view = make_view(as_tensor(base), call.shape, call.offset);
    if (view != nullptr && call.gradients >= 0) set_gradients(view, static_cast<uint8_t>(call.gradients));
    return view;
  }
  Ref copy(apply_op(Op::k_copy, &base, 1, Attributes()));
  return copy ? make_view(as_tensor(copy.get()), call.shape, /*offset=*/0) : nullptr;
}

}  // namespace

PyObject* execute(const ParsedCall& call) {
  switch (call.kind) {
    case CallKind::kOp: return execute_op(call);
    case CallKind::kInPlace: return execute_in_place(call);
    case CallKind::kView: return execute_view(call);
    case CallKind::kIdentity: return Py_NewRef(call.operands[0].object);
    case CallKind::kScalarRead:
    case CallKind::kMetadata:
    case CallKind::kOther: break;
  }
  return call.arguments.row->run(call.arguments);
}

}  // namespace kintsugi
