// NumPy arrays over tensors of the trace: arrays.cpp. False: none of those, or not modelled.
#pragma once
#include "jit/tracer_core.h"

namespace kintsugi {

bool make_array(Tracer& t, PyObject* callable, const std::vector<Value*>& arguments, Value** out);  // x.numpy()
bool array_attribute(Tracer& t, Value* array, PyObject* name, Value** out);
bool call_array(Tracer& t, PyObject* callable, const std::vector<Value*>& arguments, PyObject* names, Value** out,
                Flow* flow);
// The only element of a tensor of known sizes as a word: as k_item says, or, `as` negative, by its dtype.
Value* read_item(Tracer& t, Value* tensor, int as);

}  // namespace kintsugi
