// The iterators of itertools, filter and iter(f, sentinel): how calls make them, what comes next, and the recipes that
// make real ones in the same state. In the trace they are as lazy as in Python: nothing is taken ahead.
#include <algorithm>

#include "jit/given.h"
#include "jit/tracer_core.h"
#include "runtime/frame.h"

#include <opcode.h>  // NB_ADD

namespace kintsugi {

namespace {

using Next = Tracer::Next;
using Values = std::vector<Value*>;

constexpr size_t kLargestPool = 64;  // items that combinations and their like choose from in a trace

bool is_none(Value* value) { return value == nullptr || (value->is_constant() && value->object == Py_None); }

bool int_of(Value* value, int64_t* out) {
  if (value == nullptr || !value->is_constant() || !PyLong_CheckExact(value->object)) return false;
  int overflow;
  *out = PyLong_AsLongLongAndOverflow(value->object, &overflow);
  return overflow == 0 && *out < INT64_MAX / 4 && *out > INT64_MIN / 4;
}

// ---- Making --------------------------------------------------------------------------------------------------------

using Maker = Value* (*)(Tracer&, Given&);  // null: not followed

Value* part(Tracer& t, Given& given, size_t place, const char* name) {
  Value* value = given.parameter(place, name);
  return value == nullptr ? nullptr : t.iterate(value);
}

Value* make_chain(Tracer& t, Given& given) {
  return t.make_iterator(IteratorKind::kChain, {t.iterate(t.tuple_of(given.values)), nullptr});
}
Value* make_chain_from(Tracer& t, Given& given) {
  if (given.positional != 1) return nullptr;
  Value* source = t.iterate(given.values[0]);
  return source == nullptr ? nullptr : t.make_iterator(IteratorKind::kChain, {source, nullptr});
}
// items: iterator. index: taken so far; numbers[0]: the next to give; stop, step (stop -1: none).
Value* make_islice(Tracer& t, Given& given) {
  size_t n = given.positional;
  if (n < 2 || n > 4) return nullptr;
  int64_t start = 0, stop = -1, step = 1;
  Value *first = n > 2 ? given.values[1] : nullptr, *last = given.values[n > 2 ? 2 : 1];
  if (!is_none(first) && (!int_of(t.force(first), &start) || start < 0)) return nullptr;
  if (!is_none(t.force(last)) && (!int_of(t.force(last), &stop) || stop < 0)) return nullptr;
  if (n > 3 && !is_none(t.force(given.values[3])) && (!int_of(t.force(given.values[3]), &step) || step < 1))
    return nullptr;
  Value* inner = t.iterate(given.values[0]);
  if (inner == nullptr) return nullptr;
  Value* slice = t.make_iterator(IteratorKind::kIslice, {inner});
  slice->numbers = {start};
  slice->stop = stop;
  slice->step = step;
  return slice;
}
// items: iterators, fill value. stop: how many still have items.
Value* make_zip_longest(Tracer& t, Given& given) {
  Value* fill = given.named("fillvalue");
  Values parts;
  for (size_t i = 0; i < given.positional; ++i) {
    parts.push_back(t.iterate(given.values[i]));
    if (parts.back() == nullptr) return nullptr;
  }
  parts.push_back(fill == nullptr ? t.none() : fill);
  Value* made = t.make_iterator(IteratorKind::kZipLongest, std::move(parts));
  made->stop = static_cast<int64_t>(given.positional);
  return made;
}
Value* pool_of(Tracer& t, Value* iterable) {
  Values items;
  if (iterable == nullptr || !t.drain(iterable, &items) || items.size() > kLargestPool) return nullptr;
  return t.tuple_of(std::move(items));
}
// items: pools. numbers: the last result's indices, none before the first. stop: 1 at the end.
Value* make_product(Tracer& t, Given& given) {
  int64_t repeat = 1;
  if (Value* times = given.named("repeat"); times != nullptr && !int_of(t.force(times), &repeat)) return nullptr;
  if (repeat < 0 || repeat * static_cast<int64_t>(given.positional) > static_cast<int64_t>(kLargestPool))
    return nullptr;
  Values once, pools;
  for (size_t i = 0; i < given.positional; ++i) {
    once.push_back(pool_of(t, given.values[i]));
    if (once.back() == nullptr) return nullptr;
  }
  for (int64_t i = 0; i < repeat; ++i) pools.insert(pools.end(), once.begin(), once.end());
  return t.make_iterator(IteratorKind::kProduct, std::move(pools));
}
// items: pool. step: r. numbers: indices, of permutations then the cycles. index: results given. stop: 1 at the end.
Value* make_choice(Tracer& t, Given& given, IteratorKind kind) {
  Value *iterable = given.parameter(0, "iterable"), *count = given.parameter(1, "r");
  if (given.positional > 2 || iterable == nullptr) return nullptr;
  int64_t r = -1;
  bool by_default = kind == IteratorKind::kPermutations && (count == nullptr || is_none(t.force(count)));
  if (!by_default && (count == nullptr || !int_of(t.force(count), &r) || r < 0 || r > 64)) return nullptr;
  Value* pool = pool_of(t, iterable);
  if (pool == nullptr) return nullptr;
  int64_t n = static_cast<int64_t>(pool->items.size());
  if (by_default) r = n;
  Value* made = t.make_iterator(kind, {pool});
  made->step = r;
  bool replaced = kind == IteratorKind::kCombinationsReplaced;
  made->stop = replaced ? n == 0 && r > 0 : r > n;
  int64_t indices = kind == IteratorKind::kPermutations ? n : r;
  for (int64_t i = 0; i < indices; ++i) made->numbers.push_back(replaced ? 0 : i);
  if (kind == IteratorKind::kPermutations)
    for (int64_t i = 0; i < r; ++i) made->numbers.push_back(n - i);
  return made;
}
Value* make_permutations(Tracer& t, Given& given) { return make_choice(t, given, IteratorKind::kPermutations); }
Value* make_combinations(Tracer& t, Given& given) { return make_choice(t, given, IteratorKind::kCombinations); }
Value* make_combinations_replaced(Tracer& t, Given& given) {
  return make_choice(t, given, IteratorKind::kCombinationsReplaced);
}
// items: iterator, function or null, total or null, initial or null.
Value* make_accumulate(Tracer& t, Given& given) {
  Value *inner = part(t, given, 0, "iterable"), *function = given.parameter(1, "func"),
        *initial = given.named("initial");
  if (inner == nullptr || given.positional > 2) return nullptr;
  if (function != nullptr && is_none(t.force(function))) function = nullptr;
  if (initial != nullptr && is_none(t.force(initial))) initial = nullptr;
  return t.make_iterator(IteratorKind::kAccumulate, {inner, function, nullptr, initial});
}
// items: object. index: how often still, -1 without end.
Value* make_repeat(Tracer& t, Given& given) {
  Value *object = given.parameter(0, "object"), *times = given.parameter(1, "times");
  int64_t count = -1;
  if (object == nullptr || given.positional > 2 || (times != nullptr && !int_of(t.force(times), &count)))
    return nullptr;
  Value* made = t.make_iterator(IteratorKind::kRepeat, {object});
  made->index = times == nullptr ? -1 : std::max<int64_t>(count, 0);
  return made;
}
bool is_numeric_constant(Value* value) {
  return value->is_number() ||
         (value->is_constant() && (PyLong_CheckExact(value->object) || PyFloat_CheckExact(value->object)));
}
// items: what comes next, step.
Value* make_count(Tracer& t, Given& given) {
  Value *start = given.parameter(0, "start"), *step = given.parameter(1, "step");
  start = start == nullptr ? t.int_constant(0) : t.force(start);
  step = step == nullptr ? t.int_constant(1) : t.force(step);
  if (given.positional > 2 || !is_numeric_constant(start) || !is_numeric_constant(step)) return nullptr;
  return t.make_iterator(IteratorKind::kCount, {start, step});
}
// items: iterator (null once it has ended), list of what it gave. index: place in the list, then.
Value* make_cycle(Tracer& t, Given& given) {
  Value* inner = given.positional == 1 ? t.iterate(given.values[0]) : nullptr;
  return inner == nullptr ? nullptr : t.make_iterator(IteratorKind::kCycle, {inner, t.list_of({})});
}
template <IteratorKind kind>  // items: function, iterator. stop: 1 when takewhile ended, or dropwhile began
Value* make_with_function(Tracer& t, Given& given) {
  if (given.positional != 2) return nullptr;
  Value* inner = t.iterate(given.values[1]);
  return inner == nullptr ? nullptr : t.make_iterator(kind, {given.values[0], inner});
}
Value* make_compress(Tracer& t, Given& given) {
  Value* data = part(t, given, 0, "data");
  Value* selectors = data == nullptr || given.positional > 2 ? nullptr : part(t, given, 1, "selectors");
  return selectors == nullptr ? nullptr : t.make_iterator(IteratorKind::kCompress, {data, selectors});
}
Value* make_pairwise(Tracer& t, Given& given) {  // items: iterator, the item before or null
  Value* inner = given.positional == 1 ? t.iterate(given.values[0]) : nullptr;
  return inner == nullptr ? nullptr : t.make_iterator(IteratorKind::kPairwise, {inner, nullptr});
}
// items: iterator, key function, target key, present key, present value (null: none yet), the present group.
Value* make_groupby(Tracer& t, Given& given) {
  Value *inner = part(t, given, 0, "iterable"), *key = given.parameter(1, "key");
  if (inner == nullptr || given.positional > 2) return nullptr;
  if (key != nullptr && is_none(t.force(key))) key = nullptr;
  return t.make_iterator(IteratorKind::kGroupby, {inner, key, nullptr, nullptr, nullptr, nullptr});
}
// A tuple of iterators over one source, whose items: iterator, then what was taken from it. index: place there.
Value* make_tee(Tracer& t, Given& given) {
  int64_t count = 2;
  if (given.positional < 1 || given.positional > 2) return nullptr;
  if (given.positional == 2 && (!int_of(t.force(given.values[1]), &count) || count < 0 || count > 64)) return nullptr;
  if (count == 0) return t.tuple_of({});
  Value* inner = t.iterate(given.values[0]);
  if (inner == nullptr || (inner->kind == ValueKind::kIterator && inner->iterator == IteratorKind::kTee) ||
      inner->kind == ValueKind::kObject)  // __copy__ would be asked
    return nullptr;
  Value* source = t.make_iterator(IteratorKind::kTeeSource, {inner});
  Values tees;
  for (int64_t i = 0; i < count; ++i) tees.push_back(t.make_iterator(IteratorKind::kTee, {source}));
  return t.tuple_of(std::move(tees));
}

struct Row {
  const char* name;
  IteratorKind kind;
  Maker maker;
};
constexpr Row kRows[] = {
    {"chain", IteratorKind::kChain, make_chain},
    {"islice", IteratorKind::kIslice, make_islice},
    {"zip_longest", IteratorKind::kZipLongest, make_zip_longest},
    {"product", IteratorKind::kProduct, make_product},
    {"permutations", IteratorKind::kPermutations, make_permutations},
    {"combinations", IteratorKind::kCombinations, make_combinations},
    {"combinations_with_replacement", IteratorKind::kCombinationsReplaced, make_combinations_replaced},
    {"accumulate", IteratorKind::kAccumulate, make_accumulate},
    {"repeat", IteratorKind::kRepeat, make_repeat},
    {"count", IteratorKind::kCount, make_count},
    {"cycle", IteratorKind::kCycle, make_cycle},
    {"starmap", IteratorKind::kStarmap, make_with_function<IteratorKind::kStarmap>},
    {"takewhile", IteratorKind::kTakewhile, make_with_function<IteratorKind::kTakewhile>},
    {"dropwhile", IteratorKind::kDropwhile, make_with_function<IteratorKind::kDropwhile>},
    {"filterfalse", IteratorKind::kFilterFalse, make_with_function<IteratorKind::kFilterFalse>},
    {"compress", IteratorKind::kCompress, make_compress},
    {"pairwise", IteratorKind::kPairwise, make_pairwise},
    {"groupby", IteratorKind::kGroupby, make_groupby},
    {"tee", IteratorKind::kTee, make_tee},
};

struct Table {
  std::unordered_map<PyObject*, const Row*> rows;
  std::map<IteratorKind, PyObject*> types;
  Ref chain_from;  // the name
  Table() {
    Ref module = import_module("itertools");
    for (const Row& row : kRows) {
      PyObject* object = module ? PyObject_GetAttrString(module.get(), row.name) : nullptr;
      if (object == nullptr) continue;
      rows[object] = &row;
      types[row.kind] = object;
    }
    types[IteratorKind::kFilter] = reinterpret_cast<PyObject*>(&PyFilter_Type);
    PyErr_Clear();
  }
};
const Table& table() {
  static const Table* table = new Table;
  return *table;
}

}  // namespace

// A call of one of itertools; false: it is none of them. chain.from_iterable is a classmethod: see get_attribute.
bool Tracer::call_itertools(PyObject* callable, const Values& arguments, PyObject* names, Value** out, Flow* flow) {
  Given given(arguments, names);
  Maker maker = nullptr;
  const char* name = nullptr;
  if (PyCFunction_Check(callable)) {
    const char* method = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
    PyObject* self = PyCFunction_GET_SELF(callable);
    auto chain = table().types.find(IteratorKind::kChain);
    if (chain != table().types.end() && self == chain->second && std::string(method) == "from_iterable")
      maker = make_chain_from, name = "chain.from_iterable";
  }
  if (auto row = table().rows.find(callable); row != table().rows.end())
    maker = row->second->maker, name = row->second->name;
  if (callable == reinterpret_cast<PyObject*>(&PyFilter_Type))
    maker = make_with_function<IteratorKind::kFilter>, name = "filter";
  if (maker == nullptr) return false;
  *out = maker(*this, given);
  bool made = *out != nullptr && given.all_named_used();
  *flow = made ? Flow::kGo : ended_ ? Flow::kEnd : stop(BreakReason::k_iteration, name);
  return true;
}

// ---- next() --------------------------------------------------------------------------------------------------------

static Next call_for(Tracer& t, Value* function, Values arguments, Value** out) {
  return t.call_now(function, std::move(arguments), out) == Flow::kGo ? Next::kItem : Next::kUnknown;
}

// The truth of a predicate's answer; of None as a predicate, of the item itself.
static Next holds(Tracer& t, Value* predicate, Value* item) {
  predicate = t.force(predicate);
  bool plain = is_none(predicate) ||
               (predicate->is_constant() && predicate->object == reinterpret_cast<PyObject*>(&PyBool_Type));
  Value* answer = item;
  if (!plain && call_for(t, predicate, {item}, &answer) != Next::kItem) return Next::kUnknown;
  return t.truth_now(answer);
}

static Next next_choice(Value* it) {
  bool permutations = it->iterator == IteratorKind::kPermutations;
  int64_t n = static_cast<int64_t>(it->items[0]->items.size()), r = it->step;
  if (it->stop != 0) return Next::kEnd;
  if (it->index++ == 0) return Next::kItem;
  std::vector<int64_t>& at = it->numbers;
  if (permutations) {
    int64_t* cycles = at.data() + n;
    for (int64_t i = r - 1; i >= 0; --i) {
      if (--cycles[i] == 0) {
        std::rotate(at.begin() + i, at.begin() + i + 1, at.begin() + n);
        cycles[i] = n - i;
      } else {
        std::swap(at[i], at[n - cycles[i]]);
        return Next::kItem;
      }
    }
    it->stop = 1;
    return Next::kEnd;
  }
  bool replaced = it->iterator == IteratorKind::kCombinationsReplaced;
  int64_t i = r - 1;
  while (i >= 0 && at[i] == (replaced ? n - 1 : i + n - r)) --i;
  if (i < 0) {
    it->stop = 1;
    return Next::kEnd;
  }
  int64_t value = ++at[i];
  for (int64_t j = i + 1; j < r; ++j) at[j] = replaced ? value : at[j - 1] + 1;
  return Next::kItem;
}

static Next next_product(Value* it) {
  if (it->stop != 0) return Next::kEnd;
  std::vector<int64_t>& at = it->numbers;
  size_t pools = it->items.size();
  if (it->index++ == 0) {
    at.assign(pools, 0);
    for (Value* pool : it->items)
      if (pool->items.empty()) it->stop = 1;
    return it->stop != 0 ? Next::kEnd : Next::kItem;
  }
  for (size_t i = pools; i-- > 0;) {
    if (++at[i] < static_cast<int64_t>(it->items[i]->items.size())) return Next::kItem;
    at[i] = 0;
  }
  it->stop = 1;
  return Next::kEnd;
}

static Next next_of_group_source(Tracer& t, Value* by) {  // Modules/itertoolsmodule.c, groupby_step
  Value *item = nullptr, *key = nullptr;
  if (Next result = t.next(by->items[0], &item); result != Next::kItem) return result;
  key = item;
  if (by->items[1] != nullptr && call_for(t, by->items[1], {item}, &key) != Next::kItem) return Next::kUnknown;
  by->items[4] = item;
  by->items[3] = t.force(key);
  return Next::kItem;
}

static Next same_group(Tracer& t, Value* left, Value* right) {
  if (left == right && !left->is_number()) return Next::kItem;
  if (left->kind == ValueKind::kTensor || right->kind == ValueKind::kTensor) return Next::kUnknown;
  Value* same = nullptr;
  if (!t.rule_out_nan(left) || t.compare(Py_EQ, left, right, &same) != Flow::kGo || same == nullptr)
    return Next::kUnknown;
  return t.truth_now(same);
}

Next Tracer::next_of_itertools(Value* it, Value** out) {
  Values& parts = it->items;
  auto exhausted = [&] {
    Value* empty = make_iterator(IteratorKind::kSequence, {tuple_of({})});
    return empty;
  };
  switch (it->iterator) {
    case IteratorKind::kChain:
      for (;;) {
        if (parts[1] == nullptr) {
          Value* iterable = nullptr;
          if (Next result = next(parts[0], &iterable); result != Next::kItem) {
            if (result == Next::kEnd) parts[0] = exhausted();
            return result;
          }
          Value* active = iterate(iterable);
          if (active == nullptr) return Next::kUnknown;
          parts[1] = active;
        }
        if (Next result = next(parts[1], out); result != Next::kEnd) return result;
        parts[1] = nullptr;
      }
    case IteratorKind::kIslice: {
      Value* item = nullptr;
      auto take = [&] {
        Next result = next(parts[0], &item);
        if (result == Next::kItem) ++it->index;
        if (result == Next::kEnd) parts[0] = exhausted();
        return result;
      };
      if (it->numbers[0] - it->index > kLongestDrain) return Next::kUnknown;
      while (it->index < it->numbers[0])
        if (Next result = take(); result != Next::kItem) return result;
      if (it->stop >= 0 && it->index >= it->stop) {
        parts[0] = exhausted();
        return Next::kEnd;
      }
      if (Next result = take(); result != Next::kItem) return result;
      it->numbers[0] += it->step;
      if (it->stop >= 0 && it->numbers[0] > it->stop) it->numbers[0] = it->stop;
      *out = item;
      return Next::kItem;
    }
    case IteratorKind::kZipLongest: {
      if (it->stop == 0) return Next::kEnd;
      Values items;
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        Value* item = nullptr;
        Next result = parts[i] == nullptr ? Next::kEnd : next(parts[i], &item);
        if (result == Next::kUnknown) return result;
        if (result == Next::kEnd && parts[i] != nullptr) {
          parts[i] = nullptr;
          if (--it->stop == 0) return Next::kEnd;
        }
        items.push_back(result == Next::kItem ? item : parts.back());
      }
      *out = tuple_of(std::move(items));
      return Next::kItem;
    }
    case IteratorKind::kProduct: {
      if (Next result = next_product(it); result != Next::kItem) return result;
      Values items;
      for (size_t i = 0; i < parts.size(); ++i) items.push_back(parts[i]->items[static_cast<size_t>(it->numbers[i])]);
      *out = tuple_of(std::move(items));
      return Next::kItem;
    }
    case IteratorKind::kPermutations:
    case IteratorKind::kCombinations:
    case IteratorKind::kCombinationsReplaced: {
      if (Next result = next_choice(it); result != Next::kItem) return result;
      Values items;
      for (int64_t i = 0; i < it->step; ++i)
        items.push_back(parts[0]->items[static_cast<size_t>(it->numbers[static_cast<size_t>(i)])]);
      *out = tuple_of(std::move(items));
      return Next::kItem;
    }
    case IteratorKind::kAccumulate: {
      if (parts[3] != nullptr) {
        *out = parts[2] = std::exchange(parts[3], nullptr);
        return Next::kItem;
      }
      Value* item = nullptr;
      if (Next result = next(parts[0], &item); result != Next::kItem) return result;
      Value* total = item;
      if (parts[2] != nullptr) {
        Flow flow = parts[1] == nullptr ? binary(NB_ADD, force(parts[2]), force(item), &total)
                                        : call_now(parts[1], {parts[2], item}, &total);
        if (flow != Flow::kGo || total == nullptr) return Next::kUnknown;
      }
      *out = parts[2] = total;
      return Next::kItem;
    }
    case IteratorKind::kRepeat:
      if (it->index == 0) return Next::kEnd;
      if (it->index > 0) --it->index;
      *out = parts[0];
      return Next::kItem;
    case IteratorKind::kCount: {
      Value* after = nullptr;
      if (binary(NB_ADD, parts[0], parts[1], &after) != Flow::kGo || after == nullptr) return Next::kUnknown;
      *out = std::exchange(parts[0], after);
      return Next::kItem;
    }
    case IteratorKind::kCycle: {
      Value* saved = parts[1];
      if (parts[0] != nullptr) {
        Next result = next(parts[0], out);
        if (result == Next::kItem) {
          changing(saved);
          saved->items.push_back(*out);
        }
        if (result != Next::kEnd) return result;
        parts[0] = nullptr;
      }
      if (saved->items.empty()) return Next::kEnd;
      *out = saved->items[static_cast<size_t>(it->index)];
      it->index = (it->index + 1) % static_cast<int64_t>(saved->items.size());
      return Next::kItem;
    }
    case IteratorKind::kStarmap: {
      Value* item = nullptr;
      Values arguments;
      if (Next result = next(parts[1], &item); result != Next::kItem) return result;
      if (!drain(item, &arguments)) return Next::kUnknown;
      return call_for(*this, parts[0], std::move(arguments), out);
    }
    case IteratorKind::kTakewhile: {
      if (it->stop != 0) return Next::kEnd;
      if (Next result = next(parts[1], out); result != Next::kItem) return result;
      Value* answer = nullptr;
      if (call_for(*this, parts[0], {*out}, &answer) != Next::kItem) return Next::kUnknown;
      Next result = truth_now(answer);
      if (result == Next::kEnd) it->stop = 1;
      return result;
    }
    case IteratorKind::kDropwhile:
    case IteratorKind::kFilter:
    case IteratorKind::kFilterFalse: {
      bool drops = it->iterator == IteratorKind::kDropwhile;
      for (int64_t i = 0; i <= kLongestDrain; ++i) {
        if (Next result = next(parts[1], out); result != Next::kItem) return result;
        if (drops && it->stop != 0) return Next::kItem;
        Next result;
        if (drops) {  // has no short way for None
          Value* answer = nullptr;
          if (call_for(*this, parts[0], {*out}, &answer) != Next::kItem) return Next::kUnknown;
          result = truth_now(answer);
        } else {
          result = holds(*this, parts[0], *out);
        }
        if (result == Next::kUnknown) return result;
        if ((result == Next::kItem) != (it->iterator == IteratorKind::kFilter)) continue;
        if (drops) it->stop = 1;
        return Next::kItem;
      }
      return Next::kUnknown;
    }
    case IteratorKind::kCompress:
      for (int64_t i = 0; i <= kLongestDrain; ++i) {
        Value* selector = nullptr;
        if (Next result = next(parts[0], out); result != Next::kItem) return result;
        if (Next result = next(parts[1], &selector); result != Next::kItem) return result;
        if (Next result = truth_now(selector); result != Next::kEnd) return result;
      }
      return Next::kUnknown;
    case IteratorKind::kPairwise: {
      Value* item = nullptr;
      if (parts[0] == nullptr) return Next::kEnd;
      for (Value** into : {&parts[1], &item}) {
        if (into == &parts[1] && parts[1] != nullptr) continue;
        if (Next result = next(parts[0], into); result != Next::kItem) {
          if (result == Next::kEnd) parts[0] = parts[1] = nullptr;
          return result;
        }
      }
      *out = tuple_of({parts[1], item});
      parts[1] = item;
      return Next::kItem;
    }
    case IteratorKind::kGroupby: {
      parts[5] = nullptr;
      for (;;) {  // skip to the next group
        if (parts[3] != nullptr) {
          if (parts[2] == nullptr) break;
          Next same = same_group(*this, parts[2], parts[3]);
          if (same == Next::kUnknown) return same;
          if (same == Next::kEnd) break;
        }
        if (Next result = next_of_group_source(*this, it); result != Next::kItem) return result;
      }
      parts[2] = parts[3];
      parts[5] = make_iterator(IteratorKind::kGroup, {it, parts[2]});
      *out = tuple_of({parts[3], parts[5]});
      return Next::kItem;
    }
    case IteratorKind::kGroup: {
      Value* by = parts[0];
      changing(by);
      if (by->items[5] != it) return Next::kEnd;
      if (by->items[4] == nullptr)
        if (Next result = next_of_group_source(*this, by); result != Next::kItem) return result;
      if (Next same = same_group(*this, parts[1], by->items[3]); same != Next::kItem) return same;
      *out = std::exchange(by->items[4], nullptr);
      by->items[3] = nullptr;
      return Next::kItem;
    }
    case IteratorKind::kTee: {
      Value* source = parts[0];
      changing(source);
      if (it->index + 1 == static_cast<int64_t>(source->items.size())) {
        Value* item = nullptr;
        if (Next result = next(source->items[0], &item); result != Next::kItem) return result;
        source->items.push_back(item);
      }
      *out = source->items[static_cast<size_t>(++it->index)];
      return Next::kItem;
    }
    default: return Next::kUnknown;
  }
}

// ---- Real ones in the same state -----------------------------------------------------------------------------------

RecipeId Tracer::iterable_recipe(Value* iterator) {
  iterator = force(iterator);
  RecipeId inner = recipe_of(iterator);
  if (iterator->kind != ValueKind::kObject) return inner;
  Recipe handed;
  handed.kind = RecipeKind::kHanded;
  handed.parts = {inner};
  return add_recipe(std::move(handed));
}

void Tracer::iterator_recipe(Value* it, Recipe* recipe) {
  const Values& parts = it->items;
  auto no_recipe = [&] {
    input_.memory->not_followed[{it->made_in, it->made_at}] = {BreakReason::k_iteration, "an iterator that is left"};
    throw Restart{};
  };
  auto type = table().types.find(it->iterator);
  if (type == table().types.end() && it->iterator != IteratorKind::kSentinel) no_recipe();
  auto constant_part = [&](PyObject* object) { return recipe_of(constant(object)); };
  auto empty = [&] { return constant_part(constant_owned(PyTuple_New(0))->object); };
  recipe->kind = RecipeKind::kCallObject;
  std::vector<RecipeId>& call = recipe->parts;
  if (type != table().types.end()) call.push_back(constant_part(type->second));
  auto or_empty = [&](Value* part) { return part == nullptr ? empty() : iterable_recipe(part); };
  auto number = [&](int64_t value) { return recipe_of(int_constant(value)); };
  auto with_state = [&](RecipeId state) {
    Recipe made = std::move(*recipe);
    *recipe = {RecipeKind::kWithState, kNoValue, kNoConstant, {}};
    recipe->parts = {add_recipe(std::move(made)), state};
  };
  auto tuple_recipe = [&](std::vector<RecipeId> items) {
    return add_recipe({RecipeKind::kTuple, kNoValue, kNoConstant, std::move(items)});
  };
  auto numbers = [&](size_t first, size_t last) {
    std::vector<RecipeId> items;
    for (size_t i = first; i < last; ++i) items.push_back(number(it->numbers[i]));
    return tuple_recipe(std::move(items));
  };
  switch (it->iterator) {
    case IteratorKind::kSentinel:
      if (it->stop != 0) no_recipe();
      call.push_back(constant_part(PyDict_GetItemString(standard_builtins(), "iter")));
      call.push_back(recipe_of(parts[0]));
      call.push_back(recipe_of(parts[1]));
      break;
    case IteratorKind::kChain: {
      std::vector<RecipeId> state{iterable_recipe(parts[0])};
      if (force(parts[0])->kind == ValueKind::kObject) state[0] = recipe_of(parts[0]);
      if (parts[1] != nullptr) state.push_back(recipe_of(parts[1]));
      with_state(tuple_recipe(std::move(state)));
      break;
    }
    case IteratorKind::kIslice:
      call.push_back(iterable_recipe(parts[0]));
      call.push_back(number(std::max<int64_t>(0, it->numbers[0] - it->index)));
      call.push_back(it->stop < 0 ? recipe_of(none()) : number(std::max<int64_t>(0, it->stop - it->index)));
      call.push_back(number(it->step));
      break;
    case IteratorKind::kZipLongest:
      for (size_t i = 0; i + 1 < parts.size(); ++i) call.push_back(or_empty(parts[i]));
      with_state(recipe_of(parts.back()));
      break;
    case IteratorKind::kProduct:
      if (it->stop != 0) {
        call.push_back(empty());
        break;
      }
      for (Value* pool : parts) call.push_back(recipe_of(pool));
      if (it->index > 0) with_state(numbers(0, it->numbers.size()));
      break;
    case IteratorKind::kPermutations:
    case IteratorKind::kCombinations:
    case IteratorKind::kCombinationsReplaced: {
      bool permutations = it->iterator == IteratorKind::kPermutations;
      if (it->stop != 0) {
        call.push_back(empty());
        call.push_back(number(std::max<int64_t>(1, it->step)));
        break;
      }
      call.push_back(recipe_of(parts[0]));
      call.push_back(number(it->step));
      if (it->index == 0) break;
      size_t n = parts[0]->items.size();
      if (permutations)
        with_state(tuple_recipe({numbers(0, n), numbers(n, it->numbers.size())}));
      else
        with_state(numbers(0, it->numbers.size()));
      break;
    }
    case IteratorKind::kAccumulate: {
      RecipeId source = iterable_recipe(parts[0]);
      if (parts[3] != nullptr) {  // the initial value comes first
        Value* chained =
            make_iterator(IteratorKind::kChain,
                          {make_iterator(IteratorKind::kSequence, {tuple_of({tuple_of({parts[3]})})}), nullptr});
        Value* rest =
            make_iterator(IteratorKind::kChain, {make_iterator(IteratorKind::kSequence, {tuple_of({})}), parts[0]});
        chained->items[0]->items[0]->items.push_back(rest);
        source = recipe_of(chained);
      }
      call.push_back(source);
      call.push_back(parts[1] == nullptr ? recipe_of(none()) : recipe_of(parts[1]));
      if (parts[2] != nullptr) with_state(recipe_of(parts[2]));
      break;
    }
    case IteratorKind::kRepeat:
      call.push_back(recipe_of(parts[0]));
      if (it->index >= 0) call.push_back(number(it->index));
      break;
    case IteratorKind::kCount:
      call.push_back(recipe_of(parts[0]));
      call.push_back(recipe_of(parts[1]));
      break;
    case IteratorKind::kCycle: {
      Value* source = parts[0];
      bool whole = source == nullptr;
      if (whole) {
        source = make_iterator(IteratorKind::kSequence, {parts[1]});
        source->index = it->index;
      }
      call.push_back(iterable_recipe(source));
      with_state(tuple_recipe({recipe_of(parts[1]), recipe_of(constant(whole ? Py_True : Py_False))}));
      break;
    }
    case IteratorKind::kStarmap:
    case IteratorKind::kFilter:
    case IteratorKind::kFilterFalse:
    case IteratorKind::kTakewhile:
    case IteratorKind::kDropwhile:
      call.push_back(recipe_of(parts[0]));
      call.push_back(iterable_recipe(parts[1]));
      if (it->stop != 0) with_state(recipe_of(constant(Py_True)));
      break;
    case IteratorKind::kCompress:
      call.push_back(iterable_recipe(parts[0]));
      call.push_back(iterable_recipe(parts[1]));
      break;
    case IteratorKind::kPairwise:
      if (parts[1] == nullptr) {
        call.push_back(or_empty(parts[0]));
        break;
      } else {  // it has no state to set: it begins once more, one item earlier
        Value* rest =
            make_iterator(IteratorKind::kChain, {make_iterator(IteratorKind::kSequence, {tuple_of({})}), parts[0]});
        Value* both = tuple_of({rest});
        Value* active = make_iterator(IteratorKind::kSequence, {tuple_of({parts[1]})});
        call.push_back(
            recipe_of(make_iterator(IteratorKind::kChain, {make_iterator(IteratorKind::kSequence, {both}), active})));
        break;
      }
    default: no_recipe();
  }
}

}  // namespace kintsugi
