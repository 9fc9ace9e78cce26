// From records to steps. Element-wise nodes wait until something needs them: a consumer, an exit that shows them, or a
// write that could change what they read. Then all that wait go into as few kernels as their index spaces allow. Nodes
// are pure, so waiting is free; steps never move.
//
// Memory of known size is reserved before the first step: a shortage there leaves by the entry's own exit, before
// anything visible happened.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "jit/glue.h"
#include "jit/graph.h"
#include "jit/uses.h"

namespace kintsugi {

namespace {

bool same_space(const Layout* a, const Layout* b) {
  return a->rank == b->rank && std::equal(a->sizes, a->sizes + a->rank, b->sizes);
}
bool is_fusable_reduction(const Node& node) {
  if (node.dynamic || node.operands.size() != 1 || node.operands[0].is_number || node.operands[0].layout->count == 0)
    return false;
  switch (node.op) {
    case Op::k_sum:
    case Op::k_mean:
    case Op::k_amax:
    case Op::k_amin:
    case Op::k_any:
    case Op::k_all: return true;
    default: return false;
  }
}
bool changes_memory(StepKind kind) {
  return kind == StepKind::k_write || kind == StepKind::k_run_call || kind == StepKind::k_opaque_call;
}

Step make_step(StepKind kind) {
  Step step;
  step.kind = kind;
  return step;
}

int8_t operand_kind(const NodeOperand& operand) {
  if (!operand.is_number) return 0;
  return operand.dtype == DType::k_float64 ? 2 : operand.dtype == DType::k_int64 ? 1 : 3;
}

// A number for each value or node that has one. Keys are small and dense.
class Numbers {
 public:
  static constexpr int kNone = -1;
  int get(int32_t key) const {
    return static_cast<size_t>(key) < numbers_.size() ? numbers_[static_cast<size_t>(key)] : kNone;
  }
  bool has(int32_t key) const { return get(key) != kNone; }
  void set(int32_t key, int number) {
    if (key < 0) return;
    if (static_cast<size_t>(key) >= numbers_.size()) numbers_.resize(static_cast<size_t>(key) + 1, kNone);
    numbers_[static_cast<size_t>(key)] = number;
  }

 private:
  std::vector<int> numbers_;
};

// A number for a few nodes, for as long as it lives: in a table by node that outlives it, so that none is made each
// time.
class Places {
 public:
  explicit Places(std::vector<int>* table) : table_(*table) {}
  ~Places() {
    for (int node : set_) table_[static_cast<size_t>(node)] = Numbers::kNone;
  }
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;
  int get(int node) const { return node < 0 ? Numbers::kNone : table_[static_cast<size_t>(node)]; }
  void set(int node, int number) {
    table_[static_cast<size_t>(node)] = number;
    set_.push_back(node);
  }

 private:
  std::vector<int>& table_;
  std::vector<int> set_;
};

class Fuser {
 public:
  Fuser(Trace* trace, bool fuse) : trace_(*trace), plan_(trace->plan), fuse_(fuse), uses_(trace->plan) {}

  void run() {
    find_uses();
    std::vector<Step> body;
    body.swap(plan_.steps);
    for (size_t r = 0; r < trace_.records.size(); ++r) {
      now_ = static_cast<int>(r);
      Record& record = trace_.records[r];
      if (record.node >= 0)
        add_node(record.node);
      else
        add_step(record.step);
    }
    now_ = static_cast<int>(trace_.records.size());
    demand(uses_.of_exit(plan_.final_exit));
    if (fuse_) join_groups();
    steps_.insert(steps_.begin(), std::make_move_iterator(prologue_.begin()), std::make_move_iterator(prologue_.end()));
    plan_.steps = std::move(steps_);
    assign_owned(&plan_, &uses_, [this](const Step& step) { return unlocks(step); });
  }

 private:
  // ---- Uses ----

  void find_uses() {
    for (size_t n = 0; n < trace_.nodes.size(); ++n) producer_.set(trace_.nodes[n].value, static_cast<int>(n));
    auto use = [&](ValueId value, int at, bool as_object) {
      if (!producer_.has(value)) return;
      last_use_.set(value, std::max(last_use_.get(value), at));
      if (as_object) object_use_.set(value, std::max(object_use_.get(value), at));
    };
    for (size_t r = 0; r < trace_.records.size(); ++r) {
      const Record& record = trace_.records[r];
      int at = static_cast<int>(r);
      if (record.node >= 0) {
        const Node& node = trace_.nodes[record.node];
        for (const NodeOperand& operand : node.operands) use(operand.value, at, !is_fusable(node) && !is_reduced(node));
        if (node.on_fail != kNoExit && !is_reduced(node)) {
          for (ValueId v : uses_.of_exit(node.on_fail)) use(v, at, true);
        }
      } else {
        for (ValueId v : uses_.of(record.step)) use(v, at, true);
      }
    }
    for (ValueId v : uses_.of_exit(plan_.final_exit)) use(v, static_cast<int>(trace_.records.size()), true);
    find_readers();
  }

  // The readers of node n: readers_[first_reader_[n]] up to first_reader_[n + 1].
  void find_readers() {
    const size_t count = trace_.nodes.size();
    waits_.assign(count, 0);
    group_places_.assign(count, Numbers::kNone);
    member_places_.assign(count, Numbers::kNone);
    marked_.assign(count, false);
    first_reader_.assign(count + 1, 0);
    auto each_edge = [&](auto act) {
      for (size_t n = 0; n < count; ++n)
        for (const NodeOperand& operand : trace_.nodes[n].operands)
          if (producer_.has(operand.value)) act(static_cast<size_t>(producer_.get(operand.value)), static_cast<int>(n));
    };
    each_edge([&](size_t node, int) { ++first_reader_[node + 1]; });
    for (size_t n = 0; n < count; ++n) first_reader_[n + 1] += first_reader_[n];
    readers_.resize(static_cast<size_t>(first_reader_[count]));
    std::vector<int> next = first_reader_;
    each_edge([&](size_t node, int reader) { readers_[static_cast<size_t>(next[node]++)] = reader; });
  }

  // ---- Placing
  // --------------------------------------------------------------------------------------------------------

  void add_node(int index) {
    Node& node = trace_.nodes[index];
    if (is_reduced(node)) return emit_reduction(node);
    if (node.on_fail != kNoExit) demand(uses_.of_exit(node.on_fail));
    if (is_fusable(node)) {
      if (node.dynamic || !fuse_ || node.may_raise) {
        std::vector<ValueId> operands;
        bool alone = node.dynamic || !fuse_;
        if (alone) {
          for (const NodeOperand& operand : node.operands) operands.push_back(operand.value);
          demand(operands);
        }
        wait(index);
        demand({node.value}, /*must=*/true);
        return;
      }
      if (last_use_.has(node.value)) wait(index);  // else nobody looks at it
      return;
    }
    std::vector<ValueId> operands;
    for (const NodeOperand& operand : node.operands) operands.push_back(operand.value);
    demand(operands);
    Step step = make_step(StepKind::k_run_op);
    OpCall call{node.op, node.attributes, {}};
    for (const NodeOperand& operand : node.operands) {
      call.operand_kinds.push_back(operand_kind(operand));
      step.list.push_back(operand_word(operand, DType::k_int64, /*exact_kind=*/true));
    }
    step.dst = node.value;
    step.index = static_cast<int32_t>(plan_.ops.size());
    step.on_fail = node.on_fail;
    plan_.ops.push_back(std::move(call));
    steps_.push_back(std::move(step));
  }

  void add_step(Step& step) {
    std::vector<ValueId> needed = uses_.of(step);
    demand(needed);
    if (changes_memory(step.kind)) {
      std::vector<ValueId> all;
      for (int index : pending_) all.push_back(trace_.nodes[index].value);
      demand(all);
    }
    steps_.push_back(std::move(step));
  }

  void wait(int index) {
    pending_.push_back(index);
    waits_[static_cast<size_t>(index)] = 1;
  }
  void stop_waiting(const std::vector<int>& nodes) {
    for (int index : nodes) waits_[static_cast<size_t>(index)] = 0;
    pending_.erase(std::remove_if(pending_.begin(), pending_.end(),
                                  [&](int index) { return waits_[static_cast<size_t>(index)] == 0; }),
                   pending_.end());
  }
  bool is_pending(ValueId value) const {
    return producer_.has(value) && waits_[static_cast<size_t>(producer_.get(value))] != 0;
  }

  // These values must exist as objects now (those that some later record looks at).
  void demand(const std::vector<ValueId>& values, bool must = false) {
    bool any = false;
    for (ValueId value : values) any = any || is_pending(value);
    if (!any) return;
    std::vector<bool> wanted(trace_.nodes.size(), false);
    std::vector<int> work;
    for (ValueId value : values)
      if (is_pending(value)) work.push_back(producer_.get(value));
    for (size_t i = 0; i < work.size(); ++i) {
      if (wanted[work[i]]) continue;
      wanted[work[i]] = true;
      for (const NodeOperand& operand : trace_.nodes[work[i]].operands)
        if (is_pending(operand.value)) work.push_back(producer_.get(operand.value));
    }
    // Others that wait and run over the same space ride along: their operands are loaded anyway.
    std::vector<const Layout*> spaces;  // of what is wanted, each once
    auto is_among = [&](const Layout* layout) {
      return std::any_of(spaces.begin(), spaces.end(), [&](const Layout* each) { return same_space(each, layout); });
    };
    for (int index : work)
      if (!is_among(trace_.nodes[index].layout)) spaces.push_back(trace_.nodes[index].layout);
    std::vector<int> chosen;
    for (int index : pending_) {
      bool rides = fuse_ && !wanted[index] && is_among(trace_.nodes[index].layout);
      if (wanted[index] || (rides && operands_ready(index, wanted))) {
        wanted[index] = true;
        chosen.push_back(index);
      }
    }
    stop_waiting(chosen);
    emit_groups(chosen, must);
  }
  bool operands_ready(int index, const std::vector<bool>& wanted) {
    for (const NodeOperand& operand : trace_.nodes[index].operands)
      if (is_pending(operand.value) && !wanted[producer_.get(operand.value)]) return false;
    return true;
  }

  // In program order; a node joins the newest group of its space unless it needs something from a newer group.
  void emit_groups(const std::vector<int>& nodes, bool must) {
    std::vector<std::vector<int>> groups;
    Places group_of(&group_places_);
    for (int index : nodes) {
      const Node& node = trace_.nodes[index];
      size_t earliest = 0;
      for (const NodeOperand& operand : node.operands) {
        int of_operand = group_of.get(producer_.get(operand.value));
        if (of_operand == Numbers::kNone) continue;
        auto group = static_cast<size_t>(of_operand);
        bool same = same_space(trace_.nodes[groups[group][0]].layout, node.layout);
        earliest = std::max(earliest, group + (same ? 0 : 1));
      }
      size_t at = groups.size();
      if (fuse_ && !node.dynamic)
        for (size_t g = groups.size(); g > earliest; --g)
          if (same_space(trace_.nodes[groups[g - 1][0]].layout, node.layout)) {
            at = g - 1;
            break;
          }
      if (at == groups.size()) groups.emplace_back();
      groups[at].push_back(index);
      group_of.set(index, static_cast<int>(at));
    }
    for (std::vector<int>& group : groups) emit_group(group, must);
  }

  // Values of the group that something outside it needs, later or now.
  std::vector<int> outputs_of(const std::vector<int>& group, bool must) {
    std::vector<int> outputs;
    mark(group, true);
    for (int index : group) {
      const Node& node = trace_.nodes[index];
      bool needed = object_use_.has(node.value) && object_use_.get(node.value) >= now_;
      if (must && index == group.back()) needed = needed || last_use_.has(node.value) || node.may_raise;
      if (!needed) {
        // By a node that is not in the group: one that waits, or one that comes.
        if (last_use_.has(node.value)) needed = used_outside(index);
      }
      if (needed) outputs.push_back(index);
    }
    mark(group, false);
    return outputs;
  }
  // By a node that is not marked as one of the group's, now or later.
  bool used_outside(int index) {
    auto readers = readers_.begin() + first_reader_[static_cast<size_t>(index)];
    auto end = readers_.begin() + first_reader_[static_cast<size_t>(index) + 1];
    return std::any_of(readers, end,
                       [&](int reader) { return !marked_[static_cast<size_t>(reader)] && !done_.has(reader); });
  }
  void mark(const std::vector<int>& group, bool is_marked) {
    for (int index : group) marked_[static_cast<size_t>(index)] = is_marked;
  }

  struct Inputs {
    std::vector<const NodeOperand*> operands;
    std::vector<DType> number_dtypes;
    int find(const NodeOperand& operand, DType compute) {
      for (size_t i = 0; i < operands.size(); ++i) {
        const NodeOperand& other = *operands[i];
        if (other.is_number != operand.is_number || other.value != operand.value) continue;
        if (!operand.is_number) return static_cast<int>(i);
        bool same = operand.value != kNoValue || (other.i64 == operand.i64 && memcmp(&other.f64, &operand.f64, 8) == 0);
        if (same && other.dtype == operand.dtype && number_dtypes[i] == compute) return static_cast<int>(i);
      }
      operands.push_back(&operand);
      number_dtypes.push_back(compute);
      return static_cast<int>(operands.size() - 1);
    }
  };

  static DType read_as(const Node& node, size_t operand) {
    return node.op == Op::k_where && operand == 0 ? DType::k_bool : node.compute;
  }

  // Operand numbers of a group's nodes: inputs first, then nodes. False: too many operands for one kernel.
  bool describe(const std::vector<int>& group, size_t outputs, Inputs* inputs, std::vector<KernelInstruction>* body) {
    Places inside(&member_places_);
    std::vector<std::array<int, 3>> refs;  // by operand: input i as i, node j as -1 - j
    for (size_t j = 0; j < group.size(); ++j) {
      const Node& node = trace_.nodes[group[j]];
      std::array<int, 3> mine{};
      for (size_t k = 0; k < node.operands.size() && k < mine.size(); ++k) {
        const NodeOperand& operand = node.operands[k];
        int member = inside.get(producer_.get(operand.value));
        mine[k] = member != Numbers::kNone ? -1 - member : inputs->find(operand, read_as(node, k));
      }
      if (inputs->operands.size() + outputs > kMaxKernelOperands) return false;
      refs.push_back(mine);
      inside.set(group[j], static_cast<int>(j));
    }
    for (size_t j = 0; j < group.size(); ++j) {
      const Node& node = trace_.nodes[group[j]];
      KernelInstruction instruction{node.op, node.layout->dtype, node.compute, {-1, -1, -1}};
      for (size_t k = 0; k < node.operands.size() && k < 3; ++k)
        instruction.operands[k] = static_cast<int16_t>(
            refs[j][k] >= 0 ? refs[j][k] : static_cast<int>(inputs->operands.size()) - 1 - refs[j][k]);
      body->push_back(instruction);
    }
    return true;
  }

  // So that it runs even if nobody looks at its result. Operands of unknown sizes may not fit each other.
  static bool can_raise(const Node& node) {
    auto is_sized = [](const NodeOperand& operand) { return !operand.is_number && operand.layout->rank > 0; };
    return node.may_raise || (node.dynamic && std::count_if(node.operands.begin(), node.operands.end(), is_sized) > 1);
  }

  void emit_group(const std::vector<int>& group, bool must) {
    std::vector<int> outputs = outputs_of(group, must);
    bool raises = std::any_of(group.begin(), group.end(), [&](int index) { return can_raise(trace_.nodes[index]); });
    if (outputs.empty() && !raises) return mark_done(group);
    if (outputs.empty()) outputs.push_back(group.back());
    const Node& first = trace_.nodes[group[0]];
    Inputs inputs;
    std::vector<KernelInstruction> body;
    if (first.dynamic) return emit_dynamic(group, outputs);
    if (!describe(group, outputs.size(), &inputs, &body)) {
      size_t half = group.size() / 2;
      emit_group({group.begin(), group.begin() + half}, false);
      emit_group({group.begin() + half, group.end()}, must);
      return;
    }
    KernelCall call;
    Step step = make_step(StepKind::k_kernel);
    std::vector<const Layout*> layouts;
    add_inputs(inputs, &call, &step, &layouts);
    call.spec.body = std::move(body);
    bool flat = true;
    for (const Layout* layout : layouts)
      flat =
          flat && (layout == nullptr || layout->count == 1 || (layout->contiguous && same_space(layout, first.layout)));
    for (int index : outputs) {
      Node& node = trace_.nodes[index];
      auto place = std::find(group.begin(), group.end(), index) - group.begin();
      KernelOutput output;
      output.value = static_cast<int16_t>(inputs.operands.size() + place);
      output.dtype = node.layout->dtype;
      call.spec.outputs.push_back(output);
      call.operand_kinds.push_back(0);
      layouts.push_back(node.layout);
      step.list.push_back(node.value);
      reserve(node);
    }
    set_space(&call, first.layout);
    call.flat = flat;
    call.count = first.layout->count;
    if (flat) {
      for (size_t i = 0; i < call.spec.inputs.size(); ++i)
        if (layouts[i] != nullptr && layouts[i]->count == 1 && first.layout->count != 1)
          call.spec.inputs[i].access = Access::kUniform;
    } else {
      choose_accesses(&call.spec, shape_of(*first.layout), 0, layouts);
    }
    for (int index : group)
      if (trace_.nodes[index].may_raise) step.on_fail = trace_.nodes[index].on_fail;
    step.index = static_cast<int32_t>(plan_.kernels.size());
    plan_.kernels.push_back(std::move(call));
    steps_.push_back(std::move(step));
    mark_done(group);
  }

  // A kernel, which cannot fail once its memory is reserved: its exit is for those that run alone.
  bool is_reduced(const Node& node) const { return fuse_ && is_fusable_reduction(node); }

  void emit_reduction(Node& node) {
    // The chain that only feeds this reduction; what others need too is computed first.
    std::vector<int> chain, work;
    std::vector<ValueId> first;
    bool shared = !is_pending(node.operands[0].value);
    if (!shared) work.push_back(producer_.get(node.operands[0].value));
    for (size_t i = 0; i < work.size(); ++i) {
      Node& each = trace_.nodes[work[i]];
      bool joins = same_space(each.layout, node.operands[0].layout);
      if (!joins) {
        first.push_back(each.value);
        continue;
      }
      if (marked_[static_cast<size_t>(work[i])]) continue;
      marked_[static_cast<size_t>(work[i])] = true;
      chain.push_back(work[i]);
      for (const NodeOperand& operand : each.operands)
        if (is_pending(operand.value)) work.push_back(producer_.get(operand.value));
    }
    std::sort(chain.begin(), chain.end());
    // A value of the chain with another reader must exist: then the chain is not the reduction's alone.
    chain.push_back(static_cast<int>(&node - trace_.nodes.data()));
    mark(chain, true);
    for (int index : chain)
      shared = shared || (index != chain.back() && (object_use_.has(trace_.nodes[index].value) || used_outside(index)));
    mark(chain, false);
    chain.pop_back();
    Inputs inputs;
    std::vector<KernelInstruction> body;
    if (shared || !describe(chain, 1, &inputs, &body)) {
      object_use_.set(node.operands[0].value, now_);
      demand({node.operands[0].value});
      body.clear();
      inputs = Inputs{};
      chain.clear();
      inputs.find(node.operands[0], node.operands[0].dtype);
    } else {
      demand(first);
      stop_waiting(chain);
    }
    const Layout* space = node.operands[0].layout;
    KernelCall call;
    Step step = make_step(StepKind::k_kernel);
    std::vector<const Layout*> layouts;
    add_inputs(inputs, &call, &step, &layouts);
    call.spec.body = std::move(body);
    KernelOutput output;
    output.value = static_cast<int16_t>(inputs.operands.size() + chain.size() - 1);
    output.reduces = true;
    output.reduction = node.op;
    output.dtype = node.layout->dtype;
    call.spec.outputs.push_back(output);
    call.operand_kinds.push_back(0);
    layouts.push_back(node.layout);
    step.list.push_back(node.value);
    reserve(node);
    set_space(&call, space);
    call.flat = false;
    call.count = space->count;
    call.reduced_dims = folded_dims(node.op, space->rank, node.attributes);
    choose_accesses(&call.spec, shape_of(*space), call.reduced_dims, layouts);
    step.index = static_cast<int32_t>(plan_.kernels.size());
    plan_.kernels.push_back(std::move(call));
    steps_.push_back(std::move(step));
    mark_done(chain);
    done_.set(static_cast<int>(&node - trace_.nodes.data()), 1);
  }

  void emit_dynamic(const std::vector<int>& group, const std::vector<int>& outputs) {
    Group dynamic;
    Step step = make_step(StepKind::k_group);
    Inputs inputs;
    std::vector<KernelInstruction> body;
    describe(group, outputs.size(), &inputs, &body);
    for (size_t i = 0; i < inputs.operands.size(); ++i) {
      const NodeOperand& operand = *inputs.operands[i];
      dynamic.inputs.push_back({operand.is_number, operand.dtype, Access::kContiguous});
      step.list.push_back(operand_word(operand, operand.dtype, /*exact_kind=*/true));
    }
    for (size_t j = 0; j < group.size(); ++j) {
      const Node& node = trace_.nodes[group[j]];
      GroupNode each{node.op, node.layout->dtype, node.compute, {-1, -1, -1}, node.attributes};
      std::copy(std::begin(body[j].operands), std::end(body[j].operands), each.operands);
      dynamic.nodes.push_back(std::move(each));
    }
    step.dst = trace_.nodes[outputs[0]].value;
    dynamic.outputs.push_back(static_cast<int16_t>(
        inputs.operands.size() + (std::find(group.begin(), group.end(), outputs[0]) - group.begin())));
    step.on_fail = trace_.nodes[group[0]].on_fail;
    step.index = static_cast<int32_t>(plan_.groups.size());
    plan_.groups.push_back(std::move(dynamic));
    steps_.push_back(std::move(step));
    mark_done(group);
  }

  // Large kernels run without the lock: see run_large, run_unlocked and copy_unlocked.
  bool unlocks(const Step& step) const {
    switch (step.kind) {
      case StepKind::k_kernel: {
        const KernelCall& call = plan_.kernels[static_cast<size_t>(step.index)];
        return is_large(call, call.count);
      }
      case StepKind::k_run_op: {
        const Node& node = node_of(step);
        auto bytes_of = [](const Layout& layout) {
          return std::min(layout.count, kLargeKernelBytes + 1) * static_cast<int64_t>(info(layout.dtype).bytes);
        };
        int64_t bytes = bytes_of(*node.layout);
        for (const NodeOperand& operand : node.operands)
          if (!operand.is_number) bytes += bytes_of(*operand.layout);
        return node.dynamic || bytes > kLargeKernelBytes;
      }
      case StepKind::k_group:
      case StepKind::k_groups_ahead:
      case StepKind::k_write: return true;
      default: return false;
    }
  }

  // ---- Groups of unknown sizes
  // Each is a step of its own, since each may raise at its instruction. Where several follow one another, a step ahead
  // of them runs them all as one kernel, if the sizes turn out to be equal: then none can raise.

  const Node& node_of(const Step& step) const { return trace_.nodes[static_cast<size_t>(producer_.get(step.dst))]; }

  bool may_join(const Step& step) const {
    if (step.kind != StepKind::k_group) return false;
    const Node& node = node_of(step);
    if (node.may_raise || node.layout->rank == 0) return false;
    return std::all_of(node.operands.begin(), node.operands.end(), [&](const NodeOperand& operand) {
      return operand.is_number || operand.layout->rank == 0 || operand.layout->rank == node.layout->rank;
    });
  }

  void join_groups() {
    if (std::adjacent_find(steps_.begin(), steps_.end(),
                           [&](const Step& a, const Step& b) { return may_join(a) && may_join(b); }) == steps_.end())
      return;
    std::vector<Step> before;
    before.swap(steps_);
    Numbers last;  // by value: the last of these steps that looks at it, or that its exit shows it
    for (size_t i = 0; i < before.size(); ++i)
      for (ValueId value : uses_.of(before[i])) last.set(value, static_cast<int>(i));
    for (ValueId value : uses_.of_exit(plan_.final_exit)) last.set(value, static_cast<int>(before.size()));
    size_t run = 0;  // the end of those that follow one another
    for (size_t at = 0, end = 0; at < before.size(); at = end) {
      if (run <= at) {
        run = at;
        while (run < before.size() && may_join(before[run]) &&
               node_of(before[run]).layout->rank == node_of(before[at]).layout->rank)
          ++run;
      }
      end = std::max(at + 1, reach(before, at, run, last));
      const bool joined = end > at + 1;
      if (joined) steps_.push_back(joined_ahead(before, at, end, last));
      const ValueId ran = joined ? steps_.back().dst : kNoValue;
      for (size_t i = at; i < end; ++i) {
        if (joined) before[i].c = ran;
        steps_.push_back(std::move(before[i]));
      }
    }
  }

  // The end of the longest stretch from `at` up to `run` that fits one kernel.
  size_t reach(const std::vector<Step>& steps, size_t at, size_t run, const Numbers& last) {
    size_t best = at;
    Inputs inputs;
    Places inside(&member_places_);
    std::vector<size_t> ending(run - at + 1);  // by step, how many of the values so far it is the last to look at
    size_t outputs = 0;                        // of them, those that later steps look at
    for (size_t i = at; i < run; ++i) {
      const int index = producer_.get(steps[i].dst);
      const Node& node = trace_.nodes[static_cast<size_t>(index)];
      for (size_t k = 0; k < node.operands.size(); ++k)
        if (inside.get(producer_.get(node.operands[k].value)) == Numbers::kNone)
          inputs.find(node.operands[k], read_as(node, k));
      inside.set(index, static_cast<int>(i - at));
      outputs -= ending[i - at];
      if (const int looked_at = last.get(node.value); looked_at > static_cast<int>(i)) {
        ++outputs;
        ++ending[std::min(static_cast<size_t>(looked_at), run) - at];
      }
      if (inputs.operands.size() + ending.back() > kMaxKernelOperands) break;  // and so would all that are longer
      if (outputs > 0 && inputs.operands.size() + outputs <= kMaxKernelOperands) best = i + 1;
    }
    return best;
  }

  Step joined_ahead(const std::vector<Step>& steps, size_t at, size_t end, const Numbers& last) {
    Step ahead = make_step(StepKind::k_groups_ahead);
    KernelCall call;
    std::vector<int> nodes;
    for (size_t i = at; i < end; ++i) {
      if (last.get(steps[i].dst) >= static_cast<int>(end)) {
        KernelOutput output;
        output.value = static_cast<int16_t>(nodes.size());
        output.dtype = node_of(steps[i]).layout->dtype;
        call.spec.outputs.push_back(output);
      }
      nodes.push_back(producer_.get(steps[i].dst));
    }
    Inputs inputs;
    describe(nodes, call.spec.outputs.size(), &inputs, &call.spec.body);  // it fits: see reach()
    std::vector<const Layout*> layouts;
    add_inputs(inputs, &call, &ahead, &layouts);
    for (size_t i = 0; i < layouts.size(); ++i)
      if (layouts[i] != nullptr && layouts[i]->rank == 0) call.spec.inputs[i].access = Access::kUniform;
    for (KernelOutput& output : call.spec.outputs) {
      output.value = static_cast<int16_t>(output.value + static_cast<int>(inputs.operands.size()));
      call.operand_kinds.push_back(0);
    }
    set_space(&call, node_of(steps[at]).layout);  // today's
    call.count = node_of(steps[at]).layout->count;
    ahead.imm = static_cast<int64_t>(end - at);
    ahead.dst = plan_.value_count++;
    ahead.index = static_cast<int32_t>(plan_.kernels.size());
    plan_.kernels.push_back(std::move(call));
    return ahead;
  }

  void mark_done(const std::vector<int>& group) {
    for (int index : group) done_.set(index, 1);
  }

  void add_inputs(Inputs& inputs, KernelCall* call, Step* step, std::vector<const Layout*>* layouts) {
    for (size_t i = 0; i < inputs.operands.size(); ++i) {
      const NodeOperand& operand = *inputs.operands[i];
      KernelInput input;
      input.is_number = operand.is_number;
      input.dtype = operand.is_number ? inputs.number_dtypes[i] : operand.dtype;
      call->spec.inputs.push_back(input);
      bool constant = operand.is_number && operand.value == kNoValue;
      bool floating = info(input.dtype).kind == DTypeKind::kFloatingKind;
      call->operand_kinds.push_back(constant ? (floating ? 2 : 1) : operand_kind(operand));
      layouts->push_back(operand.is_number ? nullptr : operand.layout);
      step->list.push_back(operand_word(operand, input.dtype, /*exact_kind=*/false));
    }
  }

  // The value that holds an operand; constant numbers get a word, once each, in the form that kernels of dtype read.
  ValueId operand_word(const NodeOperand& operand, DType dtype, bool exact_kind) {
    if (operand.value != kNoValue) return operand.value;
    bool source_floats = operand.dtype == DType::k_float64;
    bool floats = exact_kind ? source_floats : info(dtype).kind == DTypeKind::kFloatingKind;
    int64_t bits;
    if (floats) {
      double number = source_floats ? operand.f64 : static_cast<double>(operand.i64);
      memcpy(&bits, &number, sizeof bits);
    } else {
      bits = source_floats ? static_cast<int64_t>(operand.f64) : operand.i64;
    }
    auto [place, fresh] = words_.try_emplace({floats, bits}, kNoValue);
    if (fresh) {
      Step step = make_step(floats ? StepKind::k_float_const : StepKind::k_int_const);
      step.imm = bits;
      step.dst = place->second = plan_.value_count++;
      prologue_.push_back(std::move(step));
    }
    return place->second;
  }

  void reserve(const Node& node) {
    Step step = make_step(StepKind::k_tensor_new);
    step.dst = node.value;
    step.constant = layout_constant(node.layout);
    step.on_fail = trace_.entry_exit;
    prologue_.push_back(std::move(step));
  }
  ConstantId layout_constant(const Layout* layout) {
    auto [place, fresh] = layouts_.try_emplace(layout, kNoConstant);
    if (fresh) place->second = find_layout_constant(layout);
    return place->second;
  }
  ConstantId find_layout_constant(const Layout* layout) {
    std::string text = to_text(*layout);
    for (size_t i = 0; i < plan_.constants.size(); ++i)
      if (plan_.constants[i].kind == ConstantKind::kLayout && plan_.constants[i].text == text)
        return static_cast<ConstantId>(i);
    plan_.constants.push_back({ConstantKind::kLayout, 0, 0, text});
    return static_cast<ConstantId>(plan_.constants.size() - 1);
  }
  void set_space(KernelCall* call, const Layout* layout) {
    Shape shape = shape_of(*layout);
    set_contiguous_strides(&shape);
    Layout* space = intern_layout(layout->dtype, shape);
    call->space = to_text(*space);
    release(space);
  }

  Trace& trace_;
  Plan& plan_;
  bool fuse_;
  int now_ = 0;
  Uses uses_;
  std::vector<Step> prologue_, steps_;
  std::vector<int> pending_;
  std::vector<uint8_t> waits_;   // by node: in pending_
  std::vector<uint8_t> marked_;  // by node: of the group that is looked at
  std::vector<int> first_reader_, readers_;
  Numbers producer_, last_use_, object_use_;       // by value
  Numbers done_;                                   // by node
  std::vector<int> group_places_, member_places_;  // by node: see Places
  std::map<std::pair<bool, int64_t>, ValueId> words_;
  std::unordered_map<const Layout*, ConstantId> layouts_;
};

}  // namespace

bool is_fusable(const Node& node) {
  if (info(node.op).op_class != OpClass::kElementwise) return false;
  // The truth of a number has no kernel form: rare enough to run as eager code does.
  for (const NodeOperand& operand : node.operands)
    if (operand.is_number && node.compute == DType::k_bool) return false;
  return node.layout->count > 0;
}

std::string to_text(const Node& node) {
  std::string text = "v" + std::to_string(node.value) + " = " + info(node.op).name + "(";
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const NodeOperand& operand = node.operands[i];
    if (i > 0) text += ", ";
    if (operand.value != kNoValue)
      text += "v" + std::to_string(operand.value);
    else if (operand.dtype == DType::k_float64)
      text += std::to_string(operand.f64);
    else
      text += std::to_string(operand.i64);
  }
  return text + ") " + to_text(*node.layout) + (node.dynamic ? " dynamic" : "");
}

void fuse(Trace* trace, bool fuse) { Fuser(trace, fuse).run(); }

}  // namespace kintsugi
