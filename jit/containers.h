// What the files of containers share: containers.cpp (items, membership, comparison, who has which method), lists.cpp,
// dicts.cpp, sets.cpp, collections.cpp; and what instructions and iterators ask of sets.
#pragma once
#include <string>
#include <vector>

#include "jit/container_types.h"
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

// Whether taking its items may run code of the program, which could look at who takes them.
bool walk_runs_code(Tracer& t, Value* iterable);
// The items of an iterable, each handed on before the next is taken.
Flow hand_on(Tracer& t, Value* iterable, Tracer::Asks asks, const char* what, const std::function<Flow(Value*)>& take);

Flow list_method(Tracer& t, Value* self, const std::string& name, std::vector<Value*>& arguments, Value** out);
Flow tuple_method(Tracer& t, Value* self, const std::string& name, std::vector<Value*>& arguments, Value** out);
bool holds_numbers(Tracer& t, Value* item);  // that are read from an object and decide an order
void replace_items(Tracer& t, Value* list, std::vector<Value*> items);  // all at once
Flow call_heap(Tracer& t, PyObject* callable, std::vector<Value*>& arguments, PyObject* names, Value** out,
               bool* handled);  // of heapq
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
Value* reversed_dict(Tracer& t, Value* walked);  // of a dict or a view; null: its keys are not known
bool same_dict_key(PyObject* a, PyObject* b);
// This value cannot be a key: a TypeError where Python says so, otherwise a break.
Flow no_key(Tracer& t, Value* key, const char* context);
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
Recipe set_recipe(Tracer& t, Value* set);
bool is_set_like(Value* value);  // or a view of keys or items
Flow set_compare(Tracer& t, int operation, Value* left, Value* right, Value** out);
Flow set_binary(Tracer& t, int operation, Value* left, Value* right, Value** out);
// hashed_keys.cpp: elements that hash in Python
bool has_hashed_elements(PyObject* mirror);
Flow find_element(Tracer& t, Value* set, Value* element, bool adds, PyObject** out);
Flow find_in_real_set(Tracer& t, Value* set, Value* element, bool* found);

// functools.cpp: of a partial object made here; null, false: another value, or not known.
PyTypeObject* partial_type(const Value* value);
bool partial_attribute(Tracer& t, Value* value, PyObject* name, Value** out);

// cached.cpp: whether it is the code of a module's function; the module may be imported later. `known` remembers it.
bool is_code_of(PyCodeObject* code, const char* module, const char* name, PyCodeObject** known);

// copying.cpp: copy.copy(), copy.deepcopy(); false: another function, or not modelled.
bool call_copy(Tracer& t, Value* function, const std::vector<Value*>& arguments, PyObject* names, Value** out);

// proxies.cpp: types.MappingProxyType. False, null: no such proxy, or one that is not modelled.
Value* proxied(Tracer& t, Value* value);               // the mapping
Value* proxy_of_class(Tracer& t, PyTypeObject* type);  // its __dict__
Flow make_proxy(Tracer& t, const std::vector<Value*>& arguments, PyObject* names);
bool proxy_item(Tracer& t, Value* proxy, Value* key, Value** out, Flow* flow);
bool proxy_contains(Tracer& t, Value* proxy, Value* key, Value** out, Flow* flow);
bool call_proxy(Tracer& t, PyObject* callable, std::vector<Value*>& arguments, PyObject* names, Value** out,
                Flow* flow);
bool proxy_recipe(Tracer& t, Value* value, Recipe* recipe);

// Objects of classes that derive from a builtin container: subclasses.cpp, deques.cpp.
Value* content_of(Value* value);  // what a list, a dict or such an object holds; null: another value
void add_content(Tracer& t, Value* object);
Value* new_container(Tracer& t, PyTypeObject* type);  // of its __new__
Flow make_container(Tracer& t, PyTypeObject* type, std::vector<Value*> arguments, PyObject* names, Value** out);
PyTypeObject* methods_of(const Value* content);  // the builtin type whose methods change it
bool is_deque(const Value* content);
bool is_ordered_dict(const Value* content);
bool know_maxlen(Tracer& t, Value* content);
Value* default_factory(Tracer& t, Value* self);
Value* merged_dict(Tracer& t, Value* other);  // what dict.update() reads of any kind of dict; null: by its keys()
bool walks_plainly(Tracer& t, Value* self);   // its __iter__ is the builtin one
Flow container_slot(Tracer& t, PyTypeObject* owner, const std::string& name, Value* self,
                    std::vector<Value*>& arguments, PyObject* names, Value** out);
Flow deque_slot(Tracer& t, const std::string& name, Value* self, std::vector<Value*>& arguments, PyObject* names,
                Value** out);
Flow call_subclass(Tracer& t, PyObject* callable, std::vector<Value*>& arguments, PyObject* names, Value** out,
                   bool* handled);
Flow compare_contents(Tracer& t, PyTypeObject* owner, int operation, Value* self, Value* other, Value** out);
Flow compare_containers(Tracer& t, int operation, Value* left, Value* right, Value** out, bool* handled);
Flow combine_containers(Tracer& t, int operation, Value* left, Value* right, Value** out, bool* handled);

bool is_callable(Tracer& t, Value* value);
bool is_cmp_key(const Value* value);  // an object that a key function of functools.cmp_to_key has made
Flow order_by_comparing(Tracer& t, const std::vector<Value*>& keys, bool reverse, std::vector<size_t>* order);
bool bind_functools(Tracer& t, Value* get, Value* descriptor, Value* self, PyObject* name, Value** out, Flow* flow);
// namedtuple(), and what @dataclass does with a class of the trace.
bool make_library_class(Tracer& t, PyObject* function, std::vector<Value*>& arguments, PyObject* names, Flow* flow);
bool is_typed_tuple(Tracer& t, const std::vector<Value*>& bases);  // typing.NamedTuple
Flow make_typed_tuple(Tracer& t, Value* name, Value* base, Value* names, Value** out);
bool makes_enum(Tracer& t, PyTypeObject* meta, const std::vector<Value*>& bases);  // enums.cpp
Flow make_enum_class(Tracer& t, PyTypeObject* meta, Value* name, const std::vector<Value*>& bases, Value* names,
                     Value* cell, Value** out);
bool is_automatic(const Value* value);
Ref field_of_model(Tracer& t, PyObject* name, Value* field);  // of dataclasses.field(); null: another value
// hash() of what says in Python how it hashes; *out null: of something else.
Flow hash_in_python(Tracer& t, Value* value, Value** out);
bool call_lru_cache(Tracer& t, Value* cache, std::vector<Value*>& arguments, PyObject* names, Flow* flow);
Flow call_dispatch(Tracer& t, Value* function, const std::vector<Value*>& arguments, PyObject* names, Value** out,
                   bool* handled);

}  // namespace kintsugi
