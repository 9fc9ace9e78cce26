// Flags that differentiation would need: which tensors require gradients, and whether this thread's results do. Kept,
// propagated and guarded; derivatives are not there yet.
#pragma once
#include "jit/tensor_calls.h"
#include "runtime/tensor_rows.h"

namespace kintsugi {

// Methods and attributes: requires_grad_, backward, is_leaf, grad, ...
std::span<const FunctionRow> gradient_method_rows();
std::span<const FunctionRow> gradient_function_rows();
std::span<const FunctionRow> gradient_attribute_rows();
setter gradient_setter(const char* attribute);  // null: it cannot be set

void set_gradients(PyObject* tensor, uint8_t gradients);
// Writing in place into a tensor, or into a part of it: RuntimeError for leaves that require gradients.
bool check_gradients_in_place(const TensorObject* target, bool part);
// What was written makes the target require gradients.
void take_gradients(TensorObject* target, const CallOperand* operands, size_t count);

bool init_grad_mode(PyObject* module);

}  // namespace kintsugi
