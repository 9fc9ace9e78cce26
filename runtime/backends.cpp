#include "runtime/backends.h"

#include <unordered_map>
#include <vector>

#include "runtime/entry.h"

namespace kintsugi {

namespace {

struct Backend {
  PyObject* object;  // each use holds it
  int uses;
};
std::unordered_map<int32_t, Backend>& backends() {
  static auto* all = new std::unordered_map<int32_t, Backend>;
  return *all;
}

class Numbers {
 public:
  int32_t take() {
    if (free_.empty()) return ++last_;
    int32_t number = free_.back();
    free_.pop_back();
    return number;
  }
  void give_back(int32_t number) { free_.push_back(number); }

 private:
  int32_t last_ = 0;
  std::vector<int32_t> free_;
};
Numbers& backend_numbers() {
  static auto* numbers = new Numbers;
  return *numbers;
}
Numbers& isolation_numbers() {
  static auto* numbers = new Numbers;
  return *numbers;
}

}  // namespace

int32_t use_backend(PyObject* backend) {
  if (backend == nullptr || backend == Py_None) return 0;
  Py_INCREF(backend);
  for (auto& [number, each] : backends())
    if (each.object == backend) return ++each.uses, number;
  int32_t number = backend_numbers().take();
  backends()[number] = {backend, 1};
  return number;
}

BackendUse::BackendUse(int32_t number) {
  auto found = backends().find(number);
  if (found == backends().end()) return;
  number_ = number;
  ++found->second.uses;
  Py_INCREF(found->second.object);
}

void drop_backend(int32_t number) {
  if (number == 0) return;
  auto found = backends().find(number);
  if (found == backends().end()) return;
  PyObject* object = found->second.object;
  if (--found->second.uses == 0) {
    backends().erase(found);
    retire_policy(number, 0);  // runs code of the program, which may use backends
    backend_numbers().give_back(number);
  }
  Py_DECREF(object);
}

PyObject* backend_object(int32_t number) {
  auto found = backends().find(number);
  return found == backends().end() ? nullptr : found->second.object;
}

int visit_backend(int32_t number, visitproc visit, void* arg) {
  auto found = backends().find(number);
  if (found == backends().end()) return 0;
  Py_VISIT(found->second.object);
  return found->second.uses == 1 ? visit_segments(number, visit, arg) : 0;
}

int32_t use_isolation() { return isolation_numbers().take(); }

void drop_isolation(int32_t number) {
  if (number <= 0) return;
  retire_policy(0, number);
  isolation_numbers().give_back(number);
}

}  // namespace kintsugi
