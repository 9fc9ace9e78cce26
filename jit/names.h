// The interned names that the tracer looks up, made once at import.
#pragma once
#include "runtime/python.h"

namespace kintsugi {

// KN_NAME(member, text)
#define KN_NAMES(KN_NAME)                     \
  KN_NAME(abs, "__abs__")                     \
  KN_NAME(annotations, "__annotations__")     \
  KN_NAME(append, "append")                   \
  KN_NAME(args, "args")                       \
  KN_NAME(bases, "__bases__")                 \
  KN_NAME(bool_, "__bool__")                  \
  KN_NAME(build_class, "__build_class__")     \
  KN_NAME(builtins, "__builtins__")           \
  KN_NAME(call, "__call__")                   \
  KN_NAME(class_, "__class__")                \
  KN_NAME(classcell, "__classcell__")         \
  KN_NAME(closure, "__closure__")             \
  KN_NAME(code, "__code__")                   \
  KN_NAME(complex, "__complex__")             \
  KN_NAME(contains, "__contains__")           \
  KN_NAME(defaults, "__defaults__")           \
  KN_NAME(delattr, "__delattr__")             \
  KN_NAME(delete_, "__delete__")              \
  KN_NAME(delitem, "__delitem__")             \
  KN_NAME(dict, "__dict__")                   \
  KN_NAME(divmod, "__divmod__")               \
  KN_NAME(doc, "__doc__")                     \
  KN_NAME(enter, "__enter__")                 \
  KN_NAME(exit, "__exit__")                   \
  KN_NAME(extend, "extend")                   \
  KN_NAME(fdel, "fdel")                       \
  KN_NAME(fget, "fget")                       \
  KN_NAME(float_, "__float__")                \
  KN_NAME(format, "__format__")               \
  KN_NAME(fset, "fset")                       \
  KN_NAME(func, "__func__")                   \
  KN_NAME(get, "__get__")                     \
  KN_NAME(getattr, "__getattr__")             \
  KN_NAME(getattribute, "__getattribute__")   \
  KN_NAME(get_method, "get")                  \
  KN_NAME(getitem, "__getitem__")             \
  KN_NAME(globals, "__globals__")             \
  KN_NAME(hash, "__hash__")                   \
  KN_NAME(import, "__import__")               \
  KN_NAME(index, "__index__")                 \
  KN_NAME(init, "__init__")                   \
  KN_NAME(init_subclass, "__init_subclass__") \
  KN_NAME(instancecheck, "__instancecheck__") \
  KN_NAME(int_, "__int__")                    \
  KN_NAME(invert, "__invert__")               \
  KN_NAME(isabstract, "__isabstractmethod__") \
  KN_NAME(iter, "__iter__")                   \
  KN_NAME(kwdefaults, "__kwdefaults__")       \
  KN_NAME(len, "__len__")                     \
  KN_NAME(length_hint, "__length_hint__")     \
  KN_NAME(match_args, "__match_args__")       \
  KN_NAME(module, "__module__")               \
  KN_NAME(mro, "__mro__")                     \
  KN_NAME(name, "__name__")                   \
  KN_NAME(neg, "__neg__")                     \
  KN_NAME(new_, "__new__")                    \
  KN_NAME(next, "__next__")                   \
  KN_NAME(package, "__package__")             \
  KN_NAME(pop, "pop")                         \
  KN_NAME(pos, "__pos__")                     \
  KN_NAME(qualname, "__qualname__")           \
  KN_NAME(rdivmod, "__rdivmod__")             \
  KN_NAME(reduce, "__reduce__")               \
  KN_NAME(repr, "__repr__")                   \
  KN_NAME(reversed, "__reversed__")           \
  KN_NAME(round, "__round__")                 \
  KN_NAME(self, "__self__")                   \
  KN_NAME(set, "__set__")                     \
  KN_NAME(set_name, "__set_name__")           \
  KN_NAME(spec, "__spec__")                   \
  KN_NAME(setattr, "__setattr__")             \
  KN_NAME(setitem, "__setitem__")             \
  KN_NAME(sort, "sort")                       \
  KN_NAME(start, "start")                     \
  KN_NAME(step, "step")                       \
  KN_NAME(stop, "stop")                       \
  KN_NAME(str, "__str__")                     \
  KN_NAME(subclasses, "__subclasses__")       \
  KN_NAME(subclasshook, "__subclasshook__")   \
  KN_NAME(subclasscheck, "__subclasscheck__") \
  KN_NAME(update, "update")                   \
  KN_NAME(wrapped, "__wrapped__")

struct Names {
#define KN_NAME(member, text) PyObject* member;
  KN_NAMES(KN_NAME)
#undef KN_NAME
  // By NB_ADD and its kin (opcode.h), "__add__"; compare by Py_LT and its kin.
  PyObject *binary[13], *reflected[13], *in_place[13], *compare[6];
};
extern Names interned;

bool make_names();  // false: an exception is set

}  // namespace kintsugi
