// A call's arguments by place and by name, as models of builtins ask for them.
#pragma once
#include <utility>
#include <vector>

#include "jit/value.h"

namespace kintsugi {

struct Given {
  std::vector<Value*> values;  // positional ones, then those of `names`
  size_t positional;
  PyObject* names;
  size_t used = 0;  // named ones that were asked for

  Given(std::vector<Value*> arguments, PyObject* names)
      : values(std::move(arguments)),
        positional(values.size() - (names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names)))),
        names(names) {}

  Value* named(const char* name) {  // null: not given
    for (size_t k = positional; k < values.size(); ++k) {
      PyObject* each = PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(k - positional));
      if (PyUnicode_CompareWithASCIIString(each, name) != 0) continue;
      ++used;
      return values[k];
    }
    return nullptr;
  }
  Value* parameter(size_t place, const char* name) { return place < positional ? values[place] : named(name); }
  bool all_named_used() const { return positional + used == values.size(); }
};

}  // namespace kintsugi
