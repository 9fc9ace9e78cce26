// The tensor object's C struct, on the floor: emitted code, guards and glue read these fields by offset. Plain data;
// nothing here calls the Python API. What one may do with a tensor is in tensor.h.
#pragma once
#include <Python.h>

#include "kernels/buffers.h"
#include "kernels/layout.h"

namespace kintsugi {

// layout and buffer are counted references, fixed for the object's life. data is the address of element [0, ..., 0],
// inside buffer. A stand-in (see tensor.h) has a layout but neither data nor buffer.
struct TensorObject {
  PyObject ob_base;
  Layout* layout;
  char* data;
  Buffer* buffer;
  PyObject* weakrefs;
  PyObject* dict;  // null until an attribute is set; the collector tracks the object from then on
};

}  // namespace kintsugi
