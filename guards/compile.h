// Guards as native code: loads and checks in order, straight through when all hold. What does not hold leaves to a stub
// that notes the guard's number; where only the fast form failed, a stub asks the slow reference first. Called by glue.
#pragma once
#include <cstddef>
#include <vector>

#include "guards/guard.h"
#include "jit/emit.h"

namespace kintsugi {

inline Memory value_at(ValueId value) { return at(Reg::kValues, value * 8); }
inline Condition condition_of(Compare compare) {
  switch (compare) {
    case Compare::kLess: return Condition::kLess;
    case Compare::kLessEqual: return Condition::kLessEqual;
    case Compare::kEqual: return Condition::kEqual;
    case Compare::kNotEqual: return Condition::kNotEqual;
    case Compare::kGreater: return Condition::kGreater;
    case Compare::kGreaterEqual: return Condition::kGreaterEqual;
  }
  return Condition::kEqual;
}

// Where the running code finds things, as byte offsets from Reg::kState; guard_slow from the helper table.
struct GuardFrame {
  int32_t slots, function, missed_guard, helpers, guard_slow;
};

class GuardCompiler {
 public:
  GuardCompiler(Emitter& emitter, const GuardProgram& program, const GuardFrame& frame);
  void emit();                    // falls through when every guard holds
  void emit_stubs(Label missed);  // out of line; they end at `missed` with missed_guard stored
  const std::vector<size_t>& offsets() const { return offsets_; }  // of each guard's code

 private:
  static constexpr int kPool = 6;
  static constexpr ValueId kSlots = -2;
  struct Held {
    ValueId value = kNoValue;
    int used = 0;  // time of last use
  };
  struct Stub {
    int guard;
    Label label, resume, miss;
    ValueId reload[kPool];  // what the registers hold where the code goes on
  };

  // A dict that changed since: the value is read from where it lay.
  struct Place {
    int guard;
    Label label, resume, slow;
    Reg dict, result;
  };

  void emit_guard(const Guard& guard);
  void type_must_be(Reg object, const void* type, Label otherwise);
  void next_item(const Guard& guard);
  void load_from_dict(const Guard& guard, Reg dict);
  void emit_place(const Place& place);
  void load_instance_value(const Guard& guard);
  void instance_must_lack(const Guard& guard);
  void version_must_hold();
  void load_int(const Guard& guard);
  void int_must_equal(Reg object, int64_t value);

  Reg hold(ValueId value);    // the register that holds it, loaded if need be
  Reg define(ValueId value);  // a register for it, to be written
  Reg take(ValueId value);
  void reload(ValueId value, Reg reg);
  void load_result(ValueId dst, Memory from);  // dst = word at `from`, kept in a register and in values
  void keep(ValueId value, Reg reg);
  Label miss();  // stub of the current guard: it failed
  Label slow();  // stub of the current guard: ask the slow reference
  void* binding(ConstantId constant) const;
  GuardCache& cache() { return program_.caches[static_cast<size_t>(current_)]; }

  Emitter& e_;
  const GuardProgram& program_;
  const GuardFrame& frame_;
  Held held_[kPool];
  int clock_ = 0;
  int current_ = 0;
  Label miss_{}, slow_{};
  std::vector<Stub> misses_, slows_;
  std::vector<Place> places_;
  std::vector<size_t> offsets_;
};

}  // namespace kintsugi
