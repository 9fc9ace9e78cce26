#include "jit/names.h"

#include <string>

namespace kintsugi {

Names interned;

bool make_names() {
  bool good = true;
  auto intern = [&](const std::string& text) {
    PyObject* name = good ? PyUnicode_InternFromString(text.c_str()) : nullptr;
    good = name != nullptr;
    return name;
  };
#define KN_NAME(member, text) interned.member = intern(text);
  KN_NAMES(KN_NAME)
#undef KN_NAME
  static const char* const kOperators[] = {"add", "and", "floordiv", "lshift", "matmul",  "mul", "mod",
                                           "or",  "pow", "rshift",   "sub",    "truediv", "xor"};
  for (int i = 0; i < 13; ++i) {
    std::string name = kOperators[i];
    interned.binary[i] = intern("__" + name + "__");
    interned.reflected[i] = intern("__r" + name + "__");
    interned.in_place[i] = intern("__i" + name + "__");
  }
  static const char* const kComparisons[] = {"__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"};
  for (int i = 0; i < 6; ++i) interned.compare[i] = intern(kComparisons[i]);
  return good;
}

}  // namespace kintsugi
