// Classes whose attributes compiled code stores to. Each store gives the class, and all that derive from it, another
// version tag, so segments do not compare the tag with what they saw but with a word for the class that the store keeps
// up to date: it says that nothing has changed but attributes of these names. What those are, segments ask the class's
// dict. Learnt while tracing, never forgotten as long as the class lives. Under the lock.
#pragma once
#include <cstdint>

#include "runtime/python.h"

namespace kintsugi {

inline constexpr uint32_t kNeverVersion = 0xFFFFFFFF;  // of a word that no class will match again

bool is_changing(PyTypeObject* type, PyObject* name);        // the attribute in its own dict
bool inherits_changing(PyTypeObject* type, PyObject* name);  // one of that name, of its own or of what it derives from
bool inherits_changing(PyTypeObject* type);                  // any
void expect_changes(PyTypeObject* type, PyObject* name);     // segments that took it for fixed are outdated
const uint32_t* kept_version(PyTypeObject* type);            // its word; null: it has no version
PyObject* class_attribute_setter();                          // the function (class, name, value) that keeps words

}  // namespace kintsugi
