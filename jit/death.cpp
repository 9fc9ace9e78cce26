#include "jit/death.h"

#include <cstddef>

namespace kintsugi {

namespace {

struct DeathCallback {
  PyObject ob_base;
  vectorcallfunc vectorcall;
  DeathAction action;
  void* context;
  bool quiet;
};

PyObject* call(PyObject* self, PyObject* const*, size_t, PyObject*) {
  auto* callback = reinterpret_cast<DeathCallback*>(self);
  if (callback->context != nullptr) callback->action(callback->context);
  Py_RETURN_NONE;
}
void release(PyObject* self) { PyObject_Free(self); }

PyTypeObject* type() {
  static PyTypeObject* ready = [] {
    static PyTypeObject made = {PyVarObject_HEAD_INIT(nullptr, 0) "kintsugi._runtime.DeathCallback"};
    made.tp_basicsize = sizeof(DeathCallback);
    made.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    made.tp_vectorcall_offset = offsetof(DeathCallback, vectorcall);
    made.tp_call = PyVectorcall_Call;
    made.tp_dealloc = release;
    return PyType_Ready(&made) < 0 ? nullptr : &made;
  }();
  return ready;
}

}  // namespace

PyObject* make_death_callback(DeathAction action, void* context, bool quiet) {
  auto* made = type() == nullptr ? nullptr : PyObject_New(DeathCallback, type());
  if (made == nullptr) return nullptr;
  made->vectorcall = call;
  made->action = action;
  made->context = context;
  made->quiet = quiet;
  return &made->ob_base;
}

void disarm(PyObject* callback) { reinterpret_cast<DeathCallback*>(callback)->context = nullptr; }

bool is_quiet_callback(PyObject* object) {
  return Py_IS_TYPE(object, type()) && reinterpret_cast<DeathCallback*>(object)->quiet;
}

}  // namespace kintsugi
