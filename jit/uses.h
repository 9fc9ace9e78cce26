// The values that a plan's steps and exits look at. Used by the fuser and where a backend's code takes the place of
// nodes.
#pragma once
#include <utility>
#include <vector>

#include "jit/plan.h"

namespace kintsugi {

// Each recipe that an exit names, in the order in which they are built.
template <class Visit>
void each_recipe(const Exit& exit, Visit&& visit) {
  if (exit.result >= 0) visit(exit.result);
  for (const FrameState& frame : exit.frames) {
    if (frame.function >= 0) visit(frame.function);
    if (frame.handled >= 0) visit(frame.handled);
    for (auto& [slot, recipe] : frame.slots) visit(recipe);
  }
  if (exit.handled >= 0) visit(exit.handled);
  for (const RaisedState& raised : exit.raised) {
    visit(raised.entry);
    if (raised.generator >= 0) visit(raised.generator);
  }
}

inline bool names_value(const Recipe& recipe) {
  return recipe.kind == RecipeKind::kValue || recipe.kind == RecipeKind::kBoxInt ||
         recipe.kind == RecipeKind::kBoxFloat || recipe.kind == RecipeKind::kBoxBool;
}

class Uses {
 public:
  explicit Uses(const Plan& plan) : plan_(plan) {}

  std::vector<ValueId> of(const Step& step) {
    std::vector<ValueId> out;
    for (ValueId value : {step.a, step.b, step.c})
      if (value != kNoValue) out.push_back(value);
    out.insert(out.end(), step.list.begin(), step.list.end());
    ++visit_;
    if (step.kind == StepKind::k_build) add_recipe(step.index, &out);
    if (step.on_fail != kNoExit) add_exit(step.on_fail, &out);
    return out;
  }
  std::vector<ValueId> of_exit(ExitId exit) {
    std::vector<ValueId> out;
    ++visit_;
    if (exit != kNoExit) add_exit(exit, &out);
    return out;
  }

 private:
  void add_recipe(RecipeId first, std::vector<ValueId>* out) {
    visited_.resize(plan_.recipes.size(), 0);
    waiting_.push_back(first);
    while (!waiting_.empty()) {
      auto id = static_cast<size_t>(waiting_.back());
      waiting_.pop_back();
      if (std::exchange(visited_[id], visit_) == visit_) continue;  // shared, or part of itself
      const Recipe& recipe = plan_.recipes[id];
      if (names_value(recipe)) out->push_back(recipe.value);
      waiting_.insert(waiting_.end(), recipe.parts.rbegin(), recipe.parts.rend());
    }
  }
  void add_exit(ExitId id, std::vector<ValueId>* out) {
    each_recipe(plan_.exits[static_cast<size_t>(id)], [&](RecipeId recipe) { add_recipe(recipe, out); });
  }

  const Plan& plan_;
  std::vector<int> visited_;  // by recipe: the visit that came by last
  int visit_ = 0;
  std::vector<RecipeId> waiting_;
};

}  // namespace kintsugi
