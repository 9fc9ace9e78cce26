#include "runtime/misses.h"

#include "kernels/layout.h"
#include "runtime/compile.h"
#include "runtime/log.h"
#include "runtime/observe.h"
#include "runtime/tensor.h"

namespace kintsugi {

MissReport look_for_miss(const Segment& segment, const Activation& activation, std::vector<uint64_t>* values) {
  values->assign(static_cast<size_t>(segment.code->plan.value_count) + 1, 0);
  GuardInput input{reinterpret_cast<void* const*>(activation.slots), activation.function, values->data()};
  return find_miss(guard_program(*segment.code), input);
}

std::string explain_miss(const Segment& segment, const Activation& activation) {
  std::vector<uint64_t> values;
  MissReport miss = look_for_miss(segment, activation, &values);
  return miss.guard < 0 ? "" : to_text(miss);
}

namespace {

// As users of torch read it: "tensor 'x' size mismatch at index 0. expected 4, actual 7".
std::string miss_text(const MissReport& miss, const SegmentCode& code, const std::vector<uint64_t>& values) {
  const Guard& guard = code.plan.guards[static_cast<size_t>(miss.guard)];
  if (guard.kind == GuardKind::k_tensor_layout) {
    auto* object = reinterpret_cast<PyObject*>(values[static_cast<size_t>(guard.a)]);
    const auto* wanted = static_cast<const Layout*>(code.bindings[static_cast<size_t>(guard.constant)]);
    if (object != nullptr && is_tensor(object) && wanted != nullptr) {
      const Layout* found = as_tensor(object)->layout;
      if (found->dtype == wanted->dtype && found->rank == wanted->rank)
        for (int d = 0; d < wanted->rank; ++d)
          if (found->sizes[d] != wanted->sizes[d])
            return "tensor '" + miss.source + "' size mismatch at index " + std::to_string(d) + ". expected " +
                   std::to_string(wanted->sizes[d]) + ", actual " + std::to_string(found->sizes[d]);
    }
  }
  return to_text(miss);
}

// Where the program looked at what the guard checks, root first. Code that has gone since leaves no line.
std::vector<std::string> stack_of(const GuardOrigins& origins, int guard) {
  std::vector<std::string> stack, internal;
  size_t index = static_cast<size_t>(guard);
  for (int32_t at = index < origins.of_guard.size() ? origins.of_guard[index] : -1; at >= 0;
       at = origins.places[static_cast<size_t>(at)].caller) {
    const GuardOrigins::Place& place = origins.places[static_cast<size_t>(at)];
    Ref code = Ref::share(PyWeakref_GetObject(origins.codes[static_cast<size_t>(place.code)]));
    if (!code || !PyCode_Check(code.get())) continue;
    auto* python = reinterpret_cast<PyCodeObject*>(code.get());
    auto& lines = is_internal(python) ? internal : stack;
    lines.insert(lines.begin(), place_text(python, place.offset));
  }
  return stack.empty() ? internal : stack;
}

std::string indented(const std::string& text, const std::string& by) {
  std::string result;
  for (size_t start = 0; start < text.size();) {
    size_t end = std::min(text.find('\n', start), text.size());
    result += "\n" + by + text.substr(start, end - start);
    start = end + 1;
  }
  return result;
}

}  // namespace

std::string all_misses(const Entry& entry, const Activation& activation, bool verbose) {
  struct Miss {
    std::string id, what;
    std::vector<std::string> stack;
  };
  std::vector<Miss> misses;  // first all: source lines are looked up with Python code, and segments may go meanwhile
  for (const Segment* segment : entry.segments) {
    std::vector<uint64_t> values;
    std::vector<MissReport> found{look_for_miss(*segment, activation, &values)};
    if (found[0].guard < 0) continue;
    if (verbose) {
      GuardInput input{reinterpret_cast<void* const*>(activation.slots), activation.function, values.data()};
      found = find_misses(guard_program(*segment->code), input);
    }
    for (const MissReport& miss : found)
      misses.push_back(
          {to_text(segment->id), miss_text(miss, *segment->code, values), stack_of(segment->origins, miss.guard)});
  }
  std::string text;
  for (const Miss& miss : misses) {
    text += "\n    - " + miss.id + ": " + miss.what;
    if (miss.stack.empty()) continue;
    std::string line = source_line(miss.stack.back());
    if (!line.empty()) text += "  # " + line;
    text += "\n      User stack trace:" + indented(stack_text(miss.stack), "      ");
  }
  return text;
}

void log_recompile(const Entry& entry, const Activation& activation) {
  for (LogKind kind : {LogKind::k_recompiles, LogKind::k_recompiles_verbose}) {
    if (!is_logged(kind) || entry.segments.empty()) continue;
    std::string misses = all_misses(entry, activation, /*verbose=*/kind == LogKind::k_recompiles_verbose);
    if (misses.empty()) continue;
    UserLine where = parse_line(place_text(entry.record->code, entry.offset));
    write_record(kind, "Recompiling function " + where.function + " in " + where.file + ":" +
                           std::to_string(where.line) + "\n  triggered by the following guard failure(s):" + misses);
  }
}

}  // namespace kintsugi
