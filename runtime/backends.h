// Backends of compile(), by number: an entry's policy names the one its segments were compiled for. 0 is the default
// one, whose kernels are the segment's own. Isolated wrappers have numbers of their own, likewise. A number is given
// out again when nobody uses it any more, together with the entries that were made for it.
#pragma once
#include <cstdint>
#include <utility>

#include "runtime/python.h"

namespace kintsugi {

// The number of this object, one use more, which holds the object; 0 for None.
int32_t use_backend(PyObject* backend);
// One use less. The last one drops the segments that were compiled for it.
void drop_backend(int32_t number);
PyObject* backend_object(int32_t number);  // borrowed; null: it is gone
// What a use holds, for the collector: the object, and, if it is the only use, what the segments hold.
int visit_backend(int32_t number, visitproc visit, void* arg);

// A use for as long as a run goes on, whose wrapper or stance may change meanwhile.
class BackendUse {
 public:
  explicit BackendUse(int32_t number);
  ~BackendUse() { drop_backend(number_); }
  BackendUse(const BackendUse&) = delete;
  BackendUse& operator=(const BackendUse&) = delete;

 private:
  int32_t number_ = 0;
};

int32_t use_isolation();
void drop_isolation(int32_t number);

}  // namespace kintsugi
