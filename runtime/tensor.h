// The Python tensor object over kernels' layout and buffer, and the one table of what its functions and methods mean.
// Eager calls and the tracer share the table: parse_call() says what a call means from layouts and Python arguments
// alone, execute() does it. The tracer calls only the first, with stand-ins for tensors that do not exist yet.
#pragma once
#include <span>
#include <vector>

#include "jit/tensor_calls.h"

namespace kintsugi {

// ---- The object -----------------------------------------------------------------------------------------------------

inline TensorView view_of(const TensorObject* tensor) { return {tensor->layout, tensor->data}; }

// Makers return a new reference, or null with an exception set.
PyObject* make_tensor(Layout* layout /*stolen*/, Buffer* buffer /*stolen*/, char* data);  // releases both on failure
PyObject* new_tensor(Layout* layout);                                                     // contents undefined
PyObject* make_view(const TensorObject* base, const Shape& shape, int64_t offset);        // offset in elements

// ---- Running ops ----------------------------------------------------------------------------------------------------

// The one eager way: shape rule, memory, kernel. Null with an exception.
PyObject* apply_op(Op op, PyObject* const* operands, size_t count, const Attributes& attributes);
// Writes value (tensor or number, converted and broadcast) into a part of tensor. Exact under overlap. False:
// exception, and nothing was written.
bool store_into(const TensorObject* tensor, const Shape& shape, int64_t offset, Borrowed value);
bool store_whole(const TensorObject* tensor, Borrowed value);  // into all of it

// False with an exception: memory that is read-only, or elements that share a location.
bool check_writable(const TensorObject* tensor, const Shape& part);

// What rand and randn draw from: one draw a call, whatever its size.
struct RandomStream {
  uint64_t seed;
  uint64_t draw;
};
extern RandomStream random_stream;

bool init_tensor(Borrowed module);

}  // namespace kintsugi
