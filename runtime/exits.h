// The way out of native code: values become objects, objects become slots. The plan says how (recipes, frame states);
// here it is carried out. All objects of an exit are built before the first slot changes, so that a failure changes
// nothing. Called by call.cpp at exits and by step_helpers.cpp for the step `build`.
#pragma once
#include <string>

#include "jit/glue.h"
#include "runtime/python.h"
#include "runtime/resume.h"

namespace kintsugi {

// What an exit hands on. Owns every object in it until taken.
class Leaving {
 public:
  Leaving() = default;
  ~Leaving() { drop(); }
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;

  // Builds everything that `exit` names and releases the values it owns. A pending exception (kRaise) is kept aside.
  // False: building failed, the exception is kept aside likewise, and the slots are as they were.
  bool build(NativeState* state, ExitId exit);

  const Exit* exit() const { return exit_; }
  const FrameState& frame(size_t index) const { return exit_->frames[index]; }
  size_t frame_count() const { return exit_->frames.size(); }
  PyCodeObject* code(size_t index) const;   // borrowed from the segment
  PyObject* take_callee(size_t index);      // an inlined frame's function, or a resumed one's generator; once
  std::string refusal(size_t index) const;  // see FrameState; empty: none
  PyObject* take_result() { return std::exchange(result_, nullptr); }

  // Makes frame `index` hold what the exit says. Root: slots that are not named keep what they hold. An inlined frame:
  // they become unbound. The stack gets the exit's depth. Old contents go last.
  void write_slots(size_t index, Activation& activation);

  // What the trace handled becomes what the thread handles in frame `index`, the root or a generator's. Once, before
  // anything can look at it.
  void hand_on_handled(size_t index, PyThreadState* thread);
  // Entries of tracebacks get frame `index`, made real.
  bool was_raised_in(size_t index) const;
  void add_tracebacks(size_t index, Activation& activation);

  void restore_error();  // the exception becomes the thread's pending one
  // Of an instruction that was to be performed again: it is not what this raised.
  bool was_interrupted() const { return is_of_a_handler(error_type_); }

 private:
  void drop();
  void drop_error();
  void chain_error(PyObject* handled);
  PyObject** objects_of(size_t index);

  const Exit* exit_ = nullptr;
  const SegmentCode* segment_ = nullptr;
  PyObject* result_ = nullptr;
  PyObject *error_type_ = nullptr, *error_value_ = nullptr, *error_traceback_ = nullptr;
  // By frame, root first: the function object (null for the root), then one object a named slot. Null: unbound.
  static constexpr size_t kInlineObjects = 40;
  PyObject* inline_objects_[kInlineObjects];
  PyObject** objects_ = inline_objects_;
  size_t object_count_ = 0;
  size_t extra_ = 0;        // then: what each frame handles, and one entry of a traceback each of Exit::raised
  size_t entry_count_ = 0;  // of these entries; they are the last
};

void raise_from_text(const std::string& text);  // "ZeroDivisionError: text" becomes the pending exception

// The object of one recipe: a new reference, or null with an exception set.
PyObject* build_recipe(NativeState* state, RecipeId recipe);

}  // namespace kintsugi
