// Callbacks of weak references. Each is an object of its own type, called through its vectorcall: CPython counts calls
// of builtin functions as recursion and refuses them at the limit, also to the collector, and what died there would go
// unnoticed.
#pragma once
#include "runtime/python.h"

namespace kintsugi {

using DeathAction = void (*)(void* context);

// A new callback; null with an exception. quiet: the action runs no code of the program's.
PyObject* make_death_callback(DeathAction action, void* context, bool quiet);
void disarm(PyObject* callback);  // it does nothing any more
bool is_quiet_callback(PyObject* object);

}  // namespace kintsugi
