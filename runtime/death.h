// Callbacks of weak references. Each is an object of its own type, called through its vectorcall: CPython counts calls
// of builtin functions as recursion and refuses them at the limit, also to the collector, and what died there would go
// unnoticed.
#pragma once
#include "runtime/python.h"

namespace kintsugi {

using DeathAction = void (*)(void* context);

// A new callback; null with an exception. Once it is disarmed it does nothing any more.
PyObject* make_death_callback(DeathAction action, void* context);
void disarm(PyObject* callback);
bool is_death_callback(PyObject* object, DeathAction action);

// What segments do when something that they are bound to has died.
void segment_lost_something(void* segment);

}  // namespace kintsugi
