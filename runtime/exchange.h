// Tensor memory shared with others: Python's buffer protocol, NumPy arrays and DLPack, in both directions. NumPy is
// imported only when somebody asks for an array.
#pragma once
#include "runtime/tensor.h"

namespace kintsugi {

// Slots of the buffer protocol.
int export_buffer(PyObject* self, Py_buffer* view, int flags);
void release_exported_buffer(PyObject* self, Py_buffer* view);

// A new tensor with a copy of any object that offers a buffer of one of our dtypes; strides may be negative.
PyObject* copy_buffer(Borrowed source);

PyObject* from_numpy(const Arguments& arguments);   // shares memory; refuses negative strides
PyObject* to_numpy(const Arguments& arguments);     // shares memory
PyObject* from_dlpack(const Arguments& arguments);  // shares memory
PyObject* to_dlpack(const Arguments& arguments);    // shares memory
PyObject* dlpack_device(const Arguments& arguments);

}  // namespace kintsugi
