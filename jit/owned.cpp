// The last part of fuse(): which references a segment holds of its own. Each exit is told what it has to release; and
// what guards loaded, so only borrowed, is held from the first step on that may let it go.
#include <algorithm>
#include <set>
#include <unordered_map>
#include <vector>

#include "jit/graph.h"
#include "jit/uses.h"

namespace kintsugi {
namespace {

// A step that replaces what a container holds may drop the last reference to something a guard loaded from it.
bool may_drop(StepKind kind) {
  switch (kind) {
    case StepKind::k_list_set:
    case StepKind::k_list_delete:
    case StepKind::k_list_clear:
    case StepKind::k_dict_set:
    case StepKind::k_dict_delete:
    case StepKind::k_attribute_set:
    case StepKind::k_attribute_delete:
    case StepKind::k_global_set:
    case StepKind::k_cell_set:
    case StepKind::k_push_handled:
    case StepKind::k_set_handled:
    case StepKind::k_opaque_call:
    case StepKind::k_run_call: return true;
    default: return false;
  }
}

bool is_borrowed_load(GuardKind kind) {
  switch (kind) {  // slots and the function live as long as the call
    case GuardKind::k_field:
    case GuardKind::k_tuple_item:
    case GuardKind::k_list_item:
    case GuardKind::k_deque_item:
    case GuardKind::k_next_item:
    case GuardKind::k_dict_value:
    case GuardKind::k_instance_value:
    case GuardKind::k_type_of:
    case GuardKind::k_bound: return true;
    default: return false;
  }
}

bool makes_object(StepKind kind) {
  switch (kind) {
    case StepKind::k_tensor_new:
    case StepKind::k_group:
    case StepKind::k_run_op:
    case StepKind::k_run_call:
    case StepKind::k_pure_call:
    case StepKind::k_tensor_view:
    case StepKind::k_box_int:
    case StepKind::k_box_float:
    case StepKind::k_box_bool:
    case StepKind::k_build:
    case StepKind::k_push_handled:
    case StepKind::k_load_handled:
    case StepKind::k_list_next: return true;
    default: return false;
  }
}

void hold_loaded(Plan* plan, Uses* uses, const std::function<bool(const Step&)>& unlocks) {
  auto first = std::find_if(plan->steps.begin(), plan->steps.end(),
                            [&](const Step& step) { return may_drop(step.kind) || unlocks(step); });
  if (first == plan->steps.end()) return;
  std::set<ValueId> loaded;
  for (const Guard& guard : plan->guards)
    if (is_borrowed_load(guard.kind)) loaded.insert(guard.dst);
  if (loaded.empty()) return;
  std::set<ValueId> used;
  auto use = [&](const std::vector<ValueId>& values) {
    for (ValueId value : values)
      if (loaded.count(value) != 0) used.insert(value);
  };
  const bool keeps_its_own = unlocks(*first) && first->kind != StepKind::k_write;  // while other threads run
  for (auto step = first; step != plan->steps.end(); ++step) {
    bool only_exit = step->kind == StepKind::k_check || (step == first && keeps_its_own);  // a check reads a word
    use(only_exit ? uses->of_exit(step->on_fail) : uses->of(*step));
  }
  use(uses->of_exit(plan->final_exit));
  std::vector<Step> holds;
  for (ValueId value : used) {
    Step hold;
    hold.kind = StepKind::k_hold;
    hold.a = value;
    holds.push_back(std::move(hold));
  }
  plan->steps.insert(first, holds.begin(), holds.end());
}

}  // namespace

void assign_owned(Plan* plan, Uses* uses, const std::function<bool(const Step&)>& unlocks) {
  hold_loaded(plan, uses, unlocks);
  std::vector<ValueId> owned;
  std::unordered_map<ExitId, size_t> seen;
  for (Step& step : plan->steps) {
    if (step.on_fail != kNoExit) {
      auto [place, fresh] = seen.try_emplace(step.on_fail, owned.size());
      if (!fresh && place->second != owned.size()) {  // one exit, two moments: it needs a second copy
        plan->exits.push_back(plan->exits[step.on_fail]);
        step.on_fail = static_cast<ExitId>(plan->exits.size() - 1);
        seen.emplace(step.on_fail, owned.size());
      }
      plan->exits[step.on_fail].owned = owned;
    }
    if (makes_object(step.kind) && step.dst != kNoValue) owned.push_back(step.dst);
    if (step.kind == StepKind::k_opaque_call)
      for (int64_t i = 0; i < step.imm; ++i) owned.push_back(step.dst + static_cast<ValueId>(i));
    if (step.kind == StepKind::k_hold) owned.push_back(step.a);
  }
  if (plan->final_exit == kNoExit) return;
  if (seen.count(plan->final_exit) != 0) {
    plan->exits.push_back(plan->exits[plan->final_exit]);
    plan->final_exit = static_cast<ExitId>(plan->exits.size() - 1);
  }
  plan->exits[plan->final_exit].owned = owned;
}

}  // namespace kintsugi
