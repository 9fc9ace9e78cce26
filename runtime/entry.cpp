#include "runtime/entry.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "jit/death.h"
#include "kernels/layout.h"
#include "runtime/observe.h"

namespace kintsugi {

namespace {

Py_ssize_t extra_index = -1;
uint64_t ticks = 0;

// Every live record, for reset() and eviction.
std::unordered_set<CodeRecord*>& records() {
  static auto* all = new std::unordered_set<CodeRecord*>;
  return *all;
}

// Entries that serve one backend or one isolated wrapper, by its number.
enum Owner { kBackends, kIsolations };
std::unordered_set<Entry*>& own_entries(Owner owner, int32_t number) {
  static auto* all = new std::unordered_map<int32_t, std::unordered_set<Entry*>>[2];
  return all[owner][number > 0 ? number : 0];
}

void drop_record(void* data) {  // the code object dies
  auto* record = static_cast<CodeRecord*>(data);
  if (record == nullptr) return;
  records().erase(record);
  for (auto& entry : record->entries) {
    own_entries(kBackends, entry->policy.backend).erase(entry.get());
    own_entries(kIsolations, entry->policy.isolation).erase(entry.get());
  }
  SavedError saved;
  for (auto& entry : record->entries)
    while (!entry->segments.empty()) retire(entry->segments.back());
  delete record;
}

// Code that nobody wants compiled for its own sake: the standard library and this package. Folders end with a slash.
std::string library_folder, package_folder;

std::string folder_of(const char* module) {
  Ref name(PyUnicode_FromString(module));
  Ref imported(name ? PyImport_GetModule(name.get()) : nullptr);
  Ref file(imported ? PyObject_GetAttrString(imported.get(), "__file__") : nullptr);
  const char* text = file ? PyUnicode_AsUTF8(file.get()) : nullptr;
  PyErr_Clear();  // frozen, or embedded: nothing to skip
  return text == nullptr ? "" : std::string(text, 0, std::string(text).rfind('/') + 1);
}

void mark_if_skipped(CodeRecord* record) {
  SavedError saved;
  const char* text = PyUnicode_AsUTF8(record->code->co_filename);
  PyErr_Clear();
  std::string name = text == nullptr ? "" : text;
  auto lies_in = [&](const std::string& folder) { return !folder.empty() && name.rfind(folder, 0) == 0; };
  if (lies_in(package_folder)) {
    record->skipped = true;
  } else {
    bool installed = name.find("/site-packages/") != std::string::npos;  // lies below the standard library
    record->library = name.empty() || name.rfind("<frozen", 0) == 0 || (!installed && lies_in(library_folder));
  }
}

// Something that a segment relies on.
void something_died(void* segment) { retire(static_cast<Segment*>(segment)); }

// Holds one binding.
void hold(Segment* segment, size_t index) {
  void* binding = segment->code->bindings[index];
  Hold& how = segment->holds[index];
  if (binding == nullptr || binding == segment->entry->record->code) how = Hold::kNone;  // it owns us
  // Two functions that inline each other would keep their code objects, and so each other's segments, for ever.
  if (how == Hold::kStrong && PyCode_Check(static_cast<PyObject*>(binding))) how = Hold::kWeak;
  if (how == Hold::kLayout) retain(static_cast<Layout*>(binding));
  if (how == Hold::kWeak || how == Hold::kPinned) {
    SavedError saved;
    if (segment->death == nullptr) segment->death = make_death_callback(&something_died, segment, /*quiet=*/true);
    PyObject* weak =
        segment->death == nullptr ? nullptr : PyWeakref_NewRef(static_cast<PyObject*>(binding), segment->death);
    if (weak != nullptr) {
      segment->weak.push_back(weak);
    } else {
      PyErr_Clear();
      how = how == Hold::kPinned ? Hold::kNone : Hold::kStrong;
    }
  }
  if (how == Hold::kStrong) Py_INCREF(static_cast<PyObject*>(binding));
}

}  // namespace

bool is_internal(PyCodeObject* code) {
  SavedError saved;
  const char* text = PyUnicode_AsUTF8(code->co_filename);
  PyErr_Clear();
  return text != nullptr && !package_folder.empty() && std::string(text).rfind(package_folder, 0) == 0;
}

bool init_entries() {
  extra_index = _PyEval_RequestCodeExtraIndex(drop_record);
  if (extra_index >= 0) {
    library_folder = folder_of("os");
    package_folder = folder_of("kintsugi");
    return true;
  }
  PyErr_SetString(PyExc_RuntimeError, "kintsugi: no extra slot is left on code objects; other tools took them all");
  return false;
}

CodeRecord* find_record(PyCodeObject* code) {
  void* record = nullptr;
  if (_PyCode_GetExtra(reinterpret_cast<PyObject*>(code), extra_index, &record) != 0) PyErr_Clear();
  return static_cast<CodeRecord*>(record);
}

CodeRecord* record_of(PyCodeObject* code) {
  CodeRecord* record = find_record(code);
  if (record != nullptr) return record;
  record = new CodeRecord;
  record->code = code;
  mark_if_skipped(record);
  if (_PyCode_SetExtra(reinterpret_cast<PyObject*>(code), extra_index, record) != 0) {
    delete record;
    return nullptr;
  }
  records().insert(record);
  return record;
}

Entry* entry_at(CodeRecord& record, int offset, PyObject* const* stack, int depth, Policy policy) {
  if (depth > kMaxEntryDepth) return nullptr;
  uint64_t nulls = 0;
  for (int i = 0; i < depth; ++i) nulls |= static_cast<uint64_t>(stack[i] == nullptr) << i;
  if (record.at.empty()) record.at.resize(static_cast<size_t>(unit_count(record.code)));
  Entry*& latest = record.at[static_cast<size_t>(offset)];
  for (Entry* entry = latest; entry != nullptr; entry = entry->next)
    if (entry->depth == depth && entry->nulls == nulls && entry->policy == policy) return entry;
  auto& entry = record.entries.emplace_back(std::make_unique<Entry>());
  entry->record = &record;
  entry->offset = offset;
  entry->depth = depth;
  entry->nulls = nulls;
  entry->policy = policy;
  entry->next = latest;
  if (policy.backend > 0) own_entries(kBackends, policy.backend).insert(entry.get());
  if (policy.isolation > 0) own_entries(kIsolations, policy.isolation).insert(entry.get());
  return latest = entry.get();
}

std::string to_text(CompileId id) { return std::to_string(id.frame) + "/" + std::to_string(id.attempt); }

static int32_t frames_numbered = 0;

static Entry& oldest_at(Entry& entry) {
  Entry* oldest = entry.record->at[static_cast<size_t>(entry.offset)];
  while (oldest->next != nullptr) oldest = oldest->next;
  return *oldest;
}

CompileId next_compile_id(Entry& entry) {
  const Entry& oldest = oldest_at(entry);
  return {oldest.frame_id < 0 ? frames_numbered : oldest.frame_id, oldest.compiles};
}

void note_compile_id(Entry& entry, CompileId id) {
  Entry& oldest = oldest_at(entry);
  if (oldest.frame_id < 0) oldest.frame_id = frames_numbered++;
  oldest.compiles = id.attempt + 1;
}

GuardOrigins origins_of(const TraceResult& traced) {
  GuardOrigins origins;
  std::vector<PyCodeObject*> seen;
  SavedError saved;
  for (const TracePlace& place : traced.places) {
    auto known = std::find(seen.begin(), seen.end(), place.code);
    auto code = static_cast<int32_t>(known - seen.begin());
    if (known == seen.end()) {
      PyObject* weak = PyWeakref_NewRef(reinterpret_cast<PyObject*>(place.code), nullptr);
      if (weak == nullptr) return PyErr_Clear(), origins;
      seen.push_back(place.code);
      origins.codes.push_back(weak);
    }
    origins.places.push_back({code, place.offset, place.caller});
  }
  origins.of_guard = traced.guard_places;
  return origins;
}

Segment* publish(Entry& entry, SegmentCode* code, std::vector<Hold> holds) {
  auto* segment = new Segment;
  segment->code = code;
  segment->entry = &entry;
  segment->holds = std::move(holds);
  segment->holds.resize(code->bindings.size(), Hold::kNone);
  for (size_t i = 0; i < segment->holds.size(); ++i) hold(segment, i);
  const Plan& plan = code->plan;
  for (const Step& step : plan.steps) {
    segment->kernels +=
        step.kind == StepKind::k_kernel || step.kind == StepKind::k_group || step.kind == StepKind::k_run_op;
    if (step.kind == StepKind::k_groups_ahead) segment->kernels -= step.imm - 1;  // in place of those that follow
  }
  PyCodeObject* python = entry.record->code;
  int parameters = python->co_argcount + python->co_kwonlyargcount + ((python->co_flags & CO_VARARGS) != 0) +
                   ((python->co_flags & CO_VARKEYWORDS) != 0);
  segment->reads_parameters_only = true;
  for (const Guard& guard : plan.guards)
    if ((guard.kind == GuardKind::k_slot || guard.kind == GuardKind::k_unbound) && guard.imm >= parameters)
      segment->reads_parameters_only = false;
  segment->returns = plan.breaks.empty() && plan.final_exit != kNoExit &&
                     plan.exits[static_cast<size_t>(plan.final_exit)].kind == ExitKind::kReturn;
  segment->last_run = next_tick();
  segment->generality = entry.memory.dynamic.size();
  entry.segments.push_back(segment);
  entry.first = segment;
  ++counters.segments;
  return segment;
}

static void detach(Segment* segment) {
  Entry* entry = segment->entry;
  auto& segments = entry->segments;
  segments.erase(std::find(segments.begin(), segments.end(), segment));
  if (entry->first == segment) entry->first = segments.empty() ? nullptr : segments.back();
  segment->entry = nullptr;
}

void retire(Segment* segment) {
  if (segment->entry == nullptr) return;
  detach(segment);
  if (segment->running == 0) free_retired(segment);
}

// Freeing runs code that may retire others: first all are out of everybody's reach. Those that run are freed as they
// end.
static void free_idle(std::vector<Segment*>* detached) {
  detached->erase(std::remove_if(detached->begin(), detached->end(), [](Segment* each) { return each->running != 0; }),
                  detached->end());
  for (Segment* segment : *detached) free_retired(segment);
}

void retire_all(std::vector<Segment*> segments) {
  for (Segment* segment : segments) detach(segment);
  free_idle(&segments);
}

void free_retired(Segment* segment) {
  ++foreign_runs;
  // A weakref may be dying right now, and dropping objects may run code: first nobody can find the segment any more.
  if (segment->death != nullptr) disarm(segment->death);
  for (PyObject* weak : segment->weak) Py_DECREF(weak);
  for (PyObject* weak : segment->origins.codes) Py_DECREF(weak);
  Py_XDECREF(segment->death);
  std::vector<void*> bindings = std::move(segment->code->bindings);
  std::vector<Hold> holds = std::move(segment->holds);
  free_segment(segment->code);
  delete segment;
  for (size_t i = 0; i < holds.size(); ++i) {
    if (holds[i] == Hold::kLayout) release(static_cast<Layout*>(bindings[i]));
    if (holds[i] == Hold::kStrong) Py_DECREF(static_cast<PyObject*>(bindings[i]));
  }
}

bool evict_oldest(const Segment* keep) {
  Segment* oldest = nullptr;
  for (CodeRecord* record : records())
    for (auto& entry : record->entries)
      for (Segment* segment : entry->segments)
        if (segment != keep && segment->running == 0 && (oldest == nullptr || segment->last_run < oldest->last_run))
          oldest = segment;
  if (oldest == nullptr) return false;
  ++counters.evictions;
  retire(oldest);
  return true;
}

// As if nothing had been compiled there.
static void forget(Entry* entry, std::vector<Segment*>* detached) {
  entry->memory = {};
  entry->limit_told = entry->beyond_help = entry->skipped = entry->suppressed = entry->seen = false;
  entry->examples.clear();
  entry->outdated = entry->forced_misses = entry->full_misses = entry->disturbed = 0;
  entry->frame_id = -1;
  entry->compiles = 0;
  entry->first = nullptr;
  for (Segment* segment : std::exchange(entry->segments, {})) {
    segment->entry = nullptr;
    detached->push_back(segment);
  }
}

void reset_entries() {
  frames_numbered = 0;
  std::vector<Segment*> all;
  for (CodeRecord* record : records()) {
    record->plain = false;
    record->fruitless_runs = record->wasted_runs = 0;
    record->plain_types.clear();
    for (auto& entry : record->entries) forget(entry.get(), &all);
  }
  free_idle(&all);
}

void retire_policy(int32_t backend, int32_t isolation) {
  std::vector<Segment*> all;
  if (backend > 0)
    for (Entry* entry : own_entries(kBackends, backend)) forget(entry, &all);
  if (isolation > 0)
    for (Entry* entry : own_entries(kIsolations, isolation)) forget(entry, &all);
  free_idle(&all);
}

// Segments that run are held by more than their entries.
int visit_segments(int32_t backend, visitproc visit, void* arg) {
  for (const Entry* entry : own_entries(kBackends, backend))
    for (const Segment* segment : entry->segments)
      for (size_t i = 0; i < segment->holds.size() && segment->running == 0; ++i)
        if (segment->holds[i] == Hold::kStrong) Py_VISIT(static_cast<PyObject*>(segment->code->bindings[i]));
  return 0;
}

uint64_t next_tick() { return ++ticks; }

}  // namespace kintsugi
