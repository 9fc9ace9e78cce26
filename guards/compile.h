// Guards as native code: loads and checks in order, straight through when all hold. What does not hold leaves the
// segment; where only the fast form failed, a stub asks the slow reference first. What an earlier guard of the program
// has established is not checked again. Called by glue.
#pragma once
#include <cstddef>
#include <utility>
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

// Whether what is emitted from now on stores missed_guard. Tests ask for it; others ask the reference what missed.
void name_missed_guards(bool on);

class GuardCompiler {
 public:
  // used: by value, whether steps or exits look at it; empty: all. missed: where a guard leaves to that does not hold.
  // held: where the last one falls through to.
  GuardCompiler(Emitter& emitter, const GuardProgram& program, const GuardFrame& frame, std::vector<uint8_t> used,
                Label missed, Label held);
  void emit();
  void emit_stubs();                                               // out of line
  const std::vector<size_t>& offsets() const { return offsets_; }  // of each guard's code

 private:
  static constexpr int kPool = 6;
  // Not values of the plan, but held in registers as they are: the slots, the caches, an object's inline values.
  static constexpr ValueId kSlots = -2, kCaches = -3, kFirstInline = -4;
  static constexpr ValueId inline_values_of(ValueId object) { return kFirstInline - object; }
  struct Held {
    ValueId value = kNoValue;
    int used = 0;     // time of last use
    int slow_at = 0;  // of inline values: index of the stub taken when there are none
  };
  struct Miss {
    int guard;
    Label label;
  };
  struct Slow {
    int guard;
    Label label, resume;
    bool rest = false;      // later guards lean on the fast form: those are left to the reference too
    bool is_same = false;   // the guard after it was merged into this one
    ValueId reload[kPool];  // what the registers hold where the code goes on
  };
  // A dict that changed since: the value is read from where it lay.
  struct Place {
    int guard;
    Label label, resume, slow;
    Reg dict, result;  // result kNone: the guard after it was merged into this one
  };
  struct Lacking {  // a name that is not among the keys that a class's instances share
    const void* keys;
    ConstantId name;
    int slow_at;
  };

  void emit_guard(const Guard& guard);
  void type_must_be(Reg object, const void* type, Label otherwise);
  void next_item(const Guard& guard);
  void dict_must_be(ValueId dict, Label otherwise);
  void version_must_be(ConstantId type, int64_t version, Reg in);
  bool is_bound_to(ValueId value, const void* type) const;
  void load_field(const Guard& guard);
  void load_from_dict(const Guard& guard, Reg dict);
  void emit_place(const Place& place);
  void load_instance_value(const Guard& guard);
  void instance_must_lack(const Guard& guard);
  void version_must_hold(Reg version);
  Memory in_cache(size_t field);  // of the current guard
  bool merges_same();             // with the next guard
  void merged_holds(int guard);
  void must_be_expected(int guard, Reg value, Label otherwise);
  void emit_slow(const Slow& slow);
  void load_int(const Guard& guard);
  void int_must_equal(Reg object, int64_t value);

  Reg hold(ValueId value);  // the register that holds it, loaded if need be
  Reg hold_inline_values(ValueId object);
  Reg define(ValueId value);  // a register for it, to be written
  Reg take(ValueId value);
  void reload(ValueId value, Reg reg);
  void load_result(ValueId dst, Memory from);  // dst = word at `from`, kept in a register and in values
  void keep(ValueId value, Reg reg);
  Label miss();  // the current guard failed
  Label miss(int guard);
  Label slow();  // stub of the current guard: ask the slow reference
  void* binding(ConstantId constant) const;
  GuardCache& cache() { return program_.caches[static_cast<size_t>(current_)]; }

  Emitter& e_;
  const GuardProgram& program_;
  const GuardFrame& frame_;
  Held held_[kPool];
  int clock_ = 0;
  int current_ = 0;
  Label missed_, done_;
  Label miss_{}, slow_{};
  std::vector<Miss> misses_;
  std::vector<Slow> slows_;
  std::vector<Place> places_;
  std::vector<uint8_t> used_, dicts_;  // by value: looked at by more than one guard; known to be an exact dict
  std::vector<std::pair<ConstantId, int64_t>> versions_;  // of types that were checked
  std::vector<Lacking> lacking_;
  std::vector<size_t> offsets_;
};

}  // namespace kintsugi
