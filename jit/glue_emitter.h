// Between glue.cpp (frame, guards, exits) and glue_steps.cpp (one short function a step): the state of one emission.
#pragma once
#include <cstddef>
#include <vector>

#include "jit/emit.h"
#include "jit/glue.h"

namespace kintsugi {

class GlueEmitter {
 public:
  explicit GlueEmitter(SegmentCode* code);
  bool emit(OpError* error);

 private:
  void emit_exit(ExitId exit);
  bool emit_fast_return(const Exit& exit);
  void release_value(ValueId value);
  void release_argument();  // drops the reference in kArgument0

  // glue_steps.cpp
  void emit_step(const Step& step);
  void emit_tensor_new(const Step& step);
  void emit_kernel(const Step& step);
  void fill_block(const Step& step, const KernelCall& call, const Kernel& kernel);
  void emit_size(const Step& step);
  void emit_int_arithmetic(const Step& step);
  void emit_division(const Step& step);
  void emit_int_to_float(const Step& step);
  void emit_float_arithmetic(const Step& step);
  void emit_float_division(const Step& step);
  void emit_float_sign(const Step& step);
  void emit_float_compare(const Step& step);
  void emit_box_bool(ValueId truth);  // kResult = a new reference
  void emit_range_next(const Step& step);
  void emit_attribute_set(const Step& step);
  void call_step_helper(const Step& step);

  void note(CodePart::Kind kind, size_t index);
  Label exit_label(ExitId exit);
  Label fail(const Step& step) { return exit_label(step.on_fail); }
  bool calls_directly(const KernelCall& call, const Kernel& kernel) const;
  void load_helper(Reg to) { e_.load(to, at(Reg::kState, offsetof(NativeState, helpers))); }

  Emitter& e_;
  SegmentCode* code_;
  const Plan& plan_;
  int32_t frame_bytes_ = 0;  // KernelBlock and scratch, when kernels are called directly
  std::vector<Label> exits_;
  std::vector<int32_t> class_guards_;  // by value: the type_version guard of it; -1: none. Filled when first asked for
};

}  // namespace kintsugi
