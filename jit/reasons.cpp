// What a break says to users: from why the tracer stopped, and what the instruction is about, to the row of breaks.def
// and its particulars. Asked once, when the break is recorded.
#include <algorithm>

#include "jit/tracer_core.h"
#include "runtime/options.h"

namespace kintsugi {

namespace {

// As far as the trace has looked: no guard comes of it.
Value* seen(Value* value) { return value->forwarded != nullptr ? value->forwarded : value; }

std::string type_name(Value* value) {
  value = seen(value);
  if (value->object != nullptr && is_tensor(value->object)) return "Tensor";
  if (value->type != nullptr) return value->type->tp_name;
  switch (value->kind) {
    case ValueKind::kInt: return "int";
    case ValueKind::kFloat: return "float";
    case ValueKind::kBool: return "bool";
    case ValueKind::kTensor: return "Tensor";
    case ValueKind::kTuple: return "tuple";
    case ValueKind::kList: return "list";
    case ValueKind::kDict: return "dict";
    case ValueKind::kSet: return "set";
    case ValueKind::kSlice: return "slice";
    case ValueKind::kRange: return "range";
    case ValueKind::kFunction: return "function";
    case ValueKind::kMethod: return "method";
    case ValueKind::kGenerator: return "generator";
    default: return value->object != nullptr ? Py_TYPE(value->object)->tp_name : "object";
  }
}

struct Called {
  Value* callable = nullptr;
  std::vector<Value*> arguments;
};
// Of CALL, from the stack before it.
Called called_by(const Instruction& instruction, const std::vector<Value*>& stack) {
  Called result;
  auto count = static_cast<size_t>(instruction.argument) + 2;
  if (instruction.opcode != Opcode::k_CALL || stack.size() < count) return result;
  size_t first = stack.size() - count;
  bool is_method = stack[first]->kind != ValueKind::kNull;
  result.callable = seen(stack[is_method ? first : first + 1]);
  result.arguments.assign(stack.begin() + static_cast<ptrdiff_t>(first) + (is_method ? 1 : 2), stack.end());
  if (result.callable->kind == ValueKind::kMethod && result.callable->items.size() == 2) {
    result.arguments.insert(result.arguments.begin(), result.callable->items[1]);
    result.callable = seen(result.callable->items[0]);
  }
  return result;
}

std::string text_attribute(PyObject* object, const char* name) {
  Ref value(PyObject_GetAttrString(object, name));
  const char* text = value && PyUnicode_Check(value.get()) ? PyUnicode_AsUTF8(value.get()) : nullptr;
  std::string result = text == nullptr ? "" : text;
  PyErr_Clear();
  return result;
}

// Of functions implemented in C: "time.time"; empty: one of the builtins.
std::string extension_function(PyObject* object) {
  if (Py_TYPE(object) != &PyCFunction_Type && Py_TYPE(object) != &PyMethodDescr_Type) return {};
  std::string name = text_attribute(object, "__qualname__");
  if (Py_TYPE(object) == &PyMethodDescr_Type)
    return reinterpret_cast<PyDescrObject*>(object)->d_type->tp_name + ("." + name);
  Borrowed builtins = standard_builtins();
  if (builtins != nullptr && PyDict_GetItemString(builtins, name.c_str()) == object) return {};
  std::string module = text_attribute(object, "__module__");
  return module.empty() ? name : module + "." + name;
}

bool is_of_module(Value* function, const char* module, const char* qualified_start) {
  if (function->kind != ValueKind::kFunction || function->object == nullptr) return false;
  std::string name = text_attribute(function->object, "__qualname__");
  return text_attribute(function->object, "__module__") == module && name.rfind(qualified_start, 0) == 0;
}

}  // namespace

// The operations that made a tensor, what they need first, then a line each: "%2 = gt(%1, 0)".
static std::string how_computed(const Tracer& t, Value* tensor) {
  std::vector<std::string> lines;
  std::map<ValueId, std::string> names;
  constexpr size_t kMost = 16;  // lines, and how far back
  std::function<std::string(ValueId, size_t)> name_of = [&](ValueId id, size_t depth) -> std::string {
    if (auto known = names.find(id); known != names.end()) return known->second;
    for (const Node& node : t.trace_.nodes) {
      if (node.value != id) continue;
      std::string line = std::string(info(node.op).name) + "(";
      for (const NodeOperand& operand : node.operands) {
        if (&operand != &node.operands[0]) line += ", ";
        if (operand.value != kNoValue)
          line += lines.size() < kMost && depth < kMost ? name_of(operand.value, depth + 1) : "...";
        else
          line += operand.dtype == DType::k_float64 ? std::to_string(operand.f64) : std::to_string(operand.i64);
      }
      names[id] = "%" + std::to_string(lines.size() + 1);
      lines.push_back(names[id] + " = " + line + ")");
      return names[id];
    }
    for (const Guard& guard : t.trace_.plan.guards)
      if (guard.dst == id && guard.source >= 0) return t.trace_.plan.sources[static_cast<size_t>(guard.source)];
    return "...";
  };
  std::string last = name_of(tensor->id, 0), text;
  for (const std::string& line : lines) text += "\n" + line;
  return text.empty() ? "\n" + last : text;
}

// A better row than the one that the tracer stopped with, where the instruction tells.
static BreakReason refined(BreakReason reason, const Called& call, const Instruction& instruction,
                           const std::vector<Value*>& stack, std::string* context) {
  switch (instruction.opcode) {
    case Opcode::k_BEFORE_WITH:
      if (reason != BreakReason::k_context_manager && reason != BreakReason::k_attribute &&
          reason != BreakReason::k_builtin && reason != BreakReason::k_method)
        return reason;
      if (!stack.empty()) *context = type_name(stack.back());
      return BreakReason::k_context_manager;
    case Opcode::k_STORE_ATTR:
      if (reason != BreakReason::k_attribute || stack.empty() || seen(stack.back())->kind != ValueKind::kTensor)
        return reason;
      return *context == "store to data"            ? BreakReason::k_tensor_data
             : *context == "store to requires_grad" ? BreakReason::k_set_requires_grad
                                                    : BreakReason::k_tensor_attribute;
    default: break;
  }
  Value* callable = call.callable;
  if (callable == nullptr || callable->object == nullptr) return reason;
  Value* first = call.arguments.empty() ? nullptr : seen(call.arguments[0]);
  if (reason == BreakReason::k_not_inlined && is_of_module(callable, "logging", "Logger."))
    return BreakReason::k_logger;
  if (reason == BreakReason::k_not_inlined && is_of_module(callable, "copy", "deepcopy"))
    return first != nullptr && first->kind == ValueKind::kTensor ? BreakReason::k_deepcopy_tensor
                                                                 : BreakReason::k_deepcopy;
  if (reason == BreakReason::k_method && first != nullptr && first->kind == ValueKind::kTensor) {
    if (*context == "backward") return BreakReason::k_backward;
    bool floats = info(first->layout->dtype).kind == DTypeKind::kFloatingKind;
    if (*context == "tolist" && floats) return BreakReason::k_tolist;
  }
  if (reason == BreakReason::k_instruction && PyCFunction_Check(callable->object) &&
      text_attribute(callable->object, "__name__") == "__build_class__")
    return BreakReason::k_class_statement;
  if (reason != BreakReason::k_builtin) return reason;
  std::string name = extension_function(callable->object);
  if (name.empty()) return reason;
  *context = name;
  return Py_TYPE(callable->object) == &PyMethodDescr_Type ? BreakReason::k_method : BreakReason::k_opaque;
}

BreakRecord Tracer::describe_break() {
  const TraceFrame& now = frame();
  const Instruction& instruction = now.bytecode->at(now.at);
  Called call = called_by(instruction, now.before);
  BreakRecord record;
  record.context = context_;
  record.instruction = opcode_name(instruction.opcode);
  if (now.offset != now.at) record.instruction += "_KW";
  BreakReason reason = refined(reason_, call, instruction, now.before, &record.context);
  record.reason = static_cast<int32_t>(reason);
  if (reason == BreakReason::k_builtin || reason == BreakReason::k_opaque || reason == BreakReason::k_method) {
    std::string types;
    for (Value* argument : call.arguments) types += (types.empty() ? "" : ", ") + type_name(argument);
    if (call.callable != nullptr) record.context += " with (" + types + ")";
  }
  if (reason == BreakReason::k_data_branch && !now.before.empty())
    if (Value* condition = seen(now.before.back()); condition->kind == ValueKind::kTensor)
      record.context += ", computed as" + how_computed(*this, condition);
  record.stack = user_stack();
  return record;
}

// For records in full: where the trace has been.
void Tracer::note_instruction(const Instruction& instruction) {
  constexpr size_t kMost = 20;
  if (result_->recent.size() == kMost) result_->recent.erase(result_->recent.begin());
  result_->recent.push_back(user_stack().back() + ": " + opcode_name(instruction.opcode) + " " +
                            std::to_string(instruction.argument));
}

}  // namespace kintsugi
