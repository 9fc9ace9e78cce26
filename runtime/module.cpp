// The extension module kintsugi._runtime: each subject adds its part.
#include "guards/check.h"
#include "jit/codemem.h"
#include "jit/tracer.h"
#include "runtime/call.h"
#include "runtime/grad_mode.h"
#include "runtime/python.h"
#include "runtime/step.h"
#include "runtime/tensor.h"

namespace {

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "kintsugi._runtime", "The native part of kintsugi.", -1};

}  // namespace

PyMODINIT_FUNC PyInit__runtime() {
  kintsugi::code_memory().keep_clear_of(reinterpret_cast<const void*>(&_PyEval_EvalFrameDefault));
  kintsugi::set_code_allocator(&kintsugi::code_memory());
  kintsugi::learn_object_facts(&kintsugi::TensorType);
  kintsugi::Ref module(PyModule_Create(&definition));
  if (!module || !kintsugi::init_tensor(module.get()) || !kintsugi::init_grad_mode(module.get()) ||
      !kintsugi::init_frames(module.get()) || !kintsugi::init_call(module.get())) {
    return nullptr;
  }
  kintsugi::load_modules();
  return module.release();
}
