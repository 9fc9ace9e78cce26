// What exceptions.cpp (raising and handling) and exception_objects.cpp (making and looking at them) share of an
// exception that exists only in the trace.
#pragma once
#include "jit/tracer_core.h"

namespace kintsugi {

enum Part : size_t { kArgs, kCause, kContext, kPartCount };  // Value::items of an exception

inline PyTypeObject* as_type(PyObject* object) { return reinterpret_cast<PyTypeObject*>(object); }
inline bool is_traced_exception(const Value* value) { return value->exception != nullptr && !value->is_real(); }
inline bool is_traced_traceback(const Value* value) { return value->type == &PyTraceBack_Type && value->is_virtual(); }

void changing_exception(Tracer& t, Value* exception);  // as changing(), for its TracedException too
bool is_modelled(PyTypeObject* type);  // made by BaseException.__new__, with fields that init_exception knows
void set_field(Value* exception, const char* name, Value* value);
Value* field_of_exception(const Value* exception, const char* name);  // null: none, or unset
// tp_init of an exception class, as `init` (what a class's __init__ wraps) does it. False: not followed.
bool init_exception(Tracer& t, void* init, Value* self, const std::vector<Value*>& arguments, PyObject* names);

// Once a callback has answered `flow`: exceptions of `type` are for the builtin that called it and for no handler, so
// that the real one has to run.
void refuse_taken(Tracer& t, Flow flow, PyObject* type, const char* builtin);

bool is_group_type(PyTypeObject* type);       // exception_groups.cpp
bool is_field_of_group(PyObject* attribute);  // that __new__ sets

}  // namespace kintsugi
