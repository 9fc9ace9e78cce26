#include "runtime/backends.h"

#include <unordered_map>

#include "runtime/entry.h"

namespace kintsugi {

namespace {

struct Backend {
  PyObject* object;  // owned
  int uses;
};
std::unordered_map<int32_t, Backend>& backends() {
  static auto* all = new std::unordered_map<int32_t, Backend>;
  return *all;
}
int32_t last_number = 0;

}  // namespace

int32_t use_backend(PyObject* backend) {
  if (backend == nullptr || backend == Py_None) return 0;
  for (auto& [number, each] : backends())
    if (each.object == backend) return ++each.uses, number;
  backends()[++last_number] = {Py_NewRef(backend), 1};
  return last_number;
}

void drop_backend(int32_t number) {
  auto found = backends().find(number);
  if (found == backends().end() || --found->second.uses > 0) return;
  PyObject* object = found->second.object;
  backends().erase(found);
  retire_backend(number);
  Py_DECREF(object);
}

PyObject* backend_object(int32_t number) {
  auto found = backends().find(number);
  return found == backends().end() ? nullptr : found->second.object;
}

}  // namespace kintsugi
