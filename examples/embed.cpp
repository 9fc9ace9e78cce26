// A C++ host with Python inside: compiles one function and calls it 10^6 times at a fixed rate from a thread of its
// own. Prints the median and the worst time of a call, and the worst delay of a tick.
//   g++ -O2 -std=c++20 examples/embed.cpp $(python3.11-config --includes --embed --ldflags) -lpthread -o embed
//   PYTHONPATH=build/default/python ./embed [calls a second]
#include <Python.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

constexpr int kCalls = 1'000'000;
constexpr const char* kSource = R"py(
import kintsugi as kt

@kt.compile
def control(state, target):
    error = target - state
    return state + error * 0.125 + kt.tanh(error) * 0.0625

state, target = kt.zeros(6), kt.ones(6)
)py";

static long now() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

static void control_loop(PyObject* control, PyObject* state, PyObject* target, long period) {
  PyGILState_STATE lock = PyGILState_Ensure();
  std::vector<long> took(kCalls);
  long worst_delay = 0, tick = now();
  for (int i = 0; i < kCalls && !PyErr_Occurred(); ++i, tick += period) {
    while (now() < tick) continue;  // a control thread with a core to itself spins; the others would sleep here
    long start = now();
    PyObject* arguments[] = {state, target};
    PyObject* next = PyObject_Vectorcall(control, arguments, 2, nullptr);
    if (next != nullptr) Py_SETREF(state, next);
    took[i] = now() - start;
    worst_delay = std::max(worst_delay, start - tick);
  }
  if (PyErr_Occurred()) PyErr_Print();
  PyObject_Print(state, stdout, 0);
  Py_DECREF(state);
  PyGILState_Release(lock);
  std::sort(took.begin(), took.end());
  std::printf("\nmedian %ld ns, worst %ld ns, latest tick %ld ns late\n", took[kCalls / 2], took.back(), worst_delay);
}

int main(int argc, char** argv) {
  long period = 1'000'000'000 / (argc > 1 ? std::max(1, std::atoi(argv[1])) : 100'000);
  Py_Initialize();
  if (PyRun_SimpleString(kSource) != 0) return 1;
  PyObject* names = PyModule_GetDict(PyImport_AddModule("__main__"));
  PyObject *control = PyDict_GetItemString(names, "control"), *target = PyDict_GetItemString(names, "target");
  PyObject* state = Py_NewRef(PyDict_GetItemString(names, "state"));
  PyThreadState* main_thread = PyEval_SaveThread();
  std::thread(control_loop, control, state, target, period).join();
  PyEval_RestoreThread(main_thread);
  return Py_FinalizeEx();
}
