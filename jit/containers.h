// What the files of containers share: containers.cpp (items, membership, comparison, who has which method), lists.cpp,
// dicts.cpp, sets.cpp, collections.cpp; and what instructions and iterators ask of sets.
#pragma once
#include <string>
#include <vector>

#include "jit/tracer_core.h"

namespace kintsugi {

// An exception of this instruction, with Python's text.
Flow raise_here(Tracer& t, PyObject* type, std::string text);
Flow raise_with_repr(Tracer& t, PyObject* type, Value* value, const std::string& after);
Flow no_index(Tracer& t, Value* key, const char* text);  // a subscript that is out of range, or no int at all

bool index_of(Value* key, int64_t size, int64_t* index);  // false: no int, or out of range
// As slices read a bound: negative from the end, cut to what there is. False: no int that fits.
bool position_of(Tracer& t, Value* value, int64_t size, int64_t* position);
bool walks_over(Value* iterator, Value* container);
// Arguments by keyword go to their places among `names`; an optional one that is not given is null. False: do not bind.
bool place_keywords(std::vector<Value*>* arguments, PyObject* keywords, std::initializer_list<const char*> names);

Flow list_method(Tracer& t, Value* self, const std::string& name, std::vector<Value*>& arguments, Value** out);
Flow tuple_method(Tracer& t, Value* self, const std::string& name, std::vector<Value*>& arguments, Value** out);
Flow sort_list(Tracer& t, Value* self, Value* key, bool reverse);
Value* constant_slice(Tracer& t, Value* slice);
Flow set_slice(Tracer& t, Value* list, Value* slice, Value* value);
Flow delete_slice(Tracer& t, Value* list, Value* slice);
Flow repeat(Tracer& t, Value* sequence, Value* times, bool in_place, Value** out);

Flow dict_method(Tracer& t, Value* self, const std::string& name, std::vector<Value*>& arguments, PyObject* names,
                 Value** out);
bool modelled_dict(Tracer& t, Value* dict, PyObject* key);  // dict_get may be asked
Flow dict_update(Tracer& t, Value* dict, Value* other);     // from a dict, or from pairs
Flow dict_equal(Tracer& t, Value* left, Value* right, bool* equal);
Value* copy_of_dict(Tracer& t, Value* dict);  // null: its keys are not known
bool is_view(const Value* value);             // keys(), values(), items()

Flow make_set(Tracer& t, PyTypeObject* type, const std::vector<Value*>& items,
              Value** out);                                                // set(...), frozenset(...)
Flow build_set(Tracer& t, const std::vector<Value*>& items, Value** out);  // {...}
Flow set_method(Tracer& t, Value* self, const std::string& name, std::vector<Value*>& arguments, Value** out);
int64_t set_length(Tracer& t, Value* set);
bool set_elements(Tracer& t, Value* set, std::vector<Value*>* elements);  // in order; false: not known
Flow set_contains(Tracer& t, Value* set, Value* item, bool* found);
bool is_set(Value* value);
bool is_set_like(Value* value);  // or a view of keys or items
Flow set_compare(Tracer& t, int operation, Value* left, Value* right, Value** out);
Flow set_binary(Tracer& t, int operation, Value* left, Value* right, Value** out);

}  // namespace kintsugi
