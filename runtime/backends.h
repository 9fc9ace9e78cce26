// Backends of compile(), by number: an entry's policy names the one its segments were compiled for. 0 is the default
// one, whose kernels are the segment's own. A number is given out once; its object lives as long as a wrapper uses it.
#pragma once
#include <cstdint>

#include "runtime/python.h"

namespace kintsugi {

// The number of this object, one use more; 0 for None.
int32_t use_backend(PyObject* backend);
// One use less. The last one drops the object and the segments that were compiled for it.
void drop_backend(int32_t number);
PyObject* backend_object(int32_t number);  // borrowed; null: it is gone

}  // namespace kintsugi
