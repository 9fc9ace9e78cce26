// Which builtin container a class derives from, all the way by Python classes alone. Asked by the tracer and by who
// builds such objects.
#pragma once
#include "runtime/python.h"

namespace kintsugi {

PyTypeObject* deque_type();
PyTypeObject* default_dict_type();

// dict, list, collections.OrderedDict, defaultdict or deque; null: none of them, or something else is in between. Of
// dict and list themselves null too: values have kinds of their own for those.
PyTypeObject* container_base(PyTypeObject* type);
// The same where `type` is one of the five.
bool is_container_type(PyTypeObject* type);

bool is_hashed_stand_in(PyObject* key);  // of an element that hashes in Python: hashed_keys.cpp

}  // namespace kintsugi
