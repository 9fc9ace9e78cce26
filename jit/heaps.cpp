// heapq's functions in C, on lists whose items are known while tracing: Modules/_heapqmodule.c has the order of
// comparisons. They work on a copy, so that a break in the middle has changed nothing.
#include <unordered_map>

#include "jit/containers.h"

namespace kintsugi {

namespace {

using Values = std::vector<Value*>;

constexpr size_t kLargestHeap = 256;

struct Heap {
  Tracer& t;
  Values items;
  bool largest_first;
  Flow flow = Flow::kGo;

  // False after a break too: see flow.
  bool precedes(Value* a, Value* b) {
    Value* answer = nullptr;
    bool known = false, truth = false;
    int before = t.instructions_;
    if (flow != Flow::kGo) return false;
    flow = t.compare(Py_LT, largest_first ? b : a, largest_first ? a : b, &answer);
    if (flow != Flow::kGo) return false;
    // Code of the program that ran could have looked at the heap; of words each order would be a variant.
    if (t.instructions_ != before || answer == nullptr || answer->kind == ValueKind::kTensor ||
        !t.truth(answer, &known, &truth) || !known) {
      flow = t.ended_ ? Flow::kEnd : t.stop(BreakReason::k_container, "heap items that are known only at run time");
      return false;
    }
    return truth;
  }
  void sift_down(size_t start, size_t at) {
    Value* item = items[at];
    while (at > start) {
      size_t parent = (at - 1) / 2;
      if (!precedes(item, items[parent])) return;
      std::swap(items[at], items[parent]);
      at = parent;
    }
  }
  void sift_up(size_t at) {
    size_t start = at;
    while (at < items.size() / 2 && flow == Flow::kGo) {
      size_t child = 2 * at + 1;
      if (child + 1 < items.size() && !precedes(items[child], items[child + 1])) ++child;
      std::swap(items[at], items[child]);
      at = child;
    }
    sift_down(start, at);
  }
};

enum class Act : uint8_t { kPush, kPop, kReplace, kPushPop, kHeapify };
struct Function {
  Act act;
  bool largest_first;
};

const std::unordered_map<PyObject*, Function>& functions() {
  static const auto* table = [] {
    static constexpr std::pair<const char*, Function> kRows[] = {
        {"heappush", {Act::kPush, false}},           {"heappop", {Act::kPop, false}},
        {"heapreplace", {Act::kReplace, false}},     {"heappushpop", {Act::kPushPop, false}},
        {"heapify", {Act::kHeapify, false}},         {"_heappop_max", {Act::kPop, true}},
        {"_heapreplace_max", {Act::kReplace, true}}, {"_heapify_max", {Act::kHeapify, true}}};
    auto* made = new std::unordered_map<PyObject*, Function>;
    Ref module = import_module("_heapq");
    for (auto& [name, function] : kRows)
      if (PyObject* object = module ? PyObject_GetAttrString(module.get(), name) : nullptr)  // kept for good
        made->emplace(object, function);
    PyErr_Clear();
    return made;
  }();
  return *table;
}

}  // namespace

Flow call_heap(Tracer& t, PyObject* callable, Values& arguments, PyObject* names, Value** out, bool* handled) {
  *handled = false;
  auto found = functions().find(callable);
  if (found == functions().end() || names != nullptr || arguments.empty()) return Flow::kGo;
  auto [act, largest_first] = found->second;
  bool takes_item = act == Act::kPush || act == Act::kReplace || act == Act::kPushPop;
  Value* list = t.force(arguments[0]);
  *handled = true;
  Values* items;
  if (arguments.size() != (takes_item ? 2u : 1u) || list->kind != ValueKind::kList || !t.list_items(list, &items) ||
      items->size() > kLargestHeap)
    return t.stop(BreakReason::k_builtin, "a heap");
  Heap heap{t, {}, largest_first};
  for (size_t i = 0; i < items->size(); ++i) {
    heap.items.push_back(t.item_at(list, i));
    if (list->is_real() && !t.input_.memory->dynamic.empty() && holds_numbers(t, heap.items.back()))
      return t.stop(BreakReason::k_container, "a heap of numbers that vary");
  }
  Value* item = takes_item ? t.force(arguments[1]) : nullptr;
  *out = act == Act::kPush || act == Act::kHeapify ? t.none() : nullptr;
  if (act == Act::kPushPop && (heap.items.empty() || !heap.precedes(heap.items[0], item))) {
    *out = item;
    return heap.flow;
  }
  if ((act == Act::kPop || act == Act::kReplace) && heap.items.empty())
    return raise_here(t, PyExc_IndexError, "index out of range");
  switch (act) {
    case Act::kPush:
      heap.items.push_back(item);
      heap.sift_down(0, heap.items.size() - 1);
      break;
    case Act::kPop: {
      Value* last = heap.items.back();
      heap.items.pop_back();
      *out = heap.items.empty() ? last : heap.items[0];
      if (heap.items.empty()) break;
      heap.items[0] = last;
      heap.sift_up(0);
      break;
    }
    case Act::kReplace:
    case Act::kPushPop:
      *out = heap.items[0];
      heap.items[0] = item;
      heap.sift_up(0);
      break;
    case Act::kHeapify:
      for (size_t i = heap.items.size() / 2; i-- > 0 && heap.flow == Flow::kGo;) heap.sift_up(i);
      break;
  }
  if (heap.flow == Flow::kGo && heap.items != list->items) replace_items(t, list, std::move(heap.items));
  return heap.flow;
}

}  // namespace kintsugi
