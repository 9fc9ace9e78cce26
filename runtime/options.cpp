#include "runtime/options.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>

#include "kernels/cpu.h"
#include "runtime/log.h"

namespace kintsugi {

Options options;

namespace {

constexpr const char* kStressNames = "break_everywhere, miss_every_guard, tiny_code_memory, no_fuse, no_frameless";

bool is_stress_name(const std::string& name) {
  for (const char* known : {"break_everywhere", "miss_every_guard", "tiny_code_memory", "no_fuse", "no_frameless"})
    if (name == known) return true;
  return false;
}

std::string log_names() {
  std::string names;
#define KN_LOG(name, ...) names += names.empty() ? #name : ", " #name;
  KN_LOGS(KN_LOG)
#undef KN_LOG
  return names;
}

// Calls use(name) for each item of a list with commas; blanks around items are dropped.
void each_name(const std::string& list, const std::function<void(const std::string&)>& use) {
  size_t start = 0;
  while (start <= list.size()) {
    size_t comma = list.find(',', start);
    if (comma == std::string::npos) comma = list.size();
    size_t first = list.find_first_not_of(" \t", start);
    size_t last = list.find_last_not_of(" \t", comma == 0 ? 0 : comma - 1);
    if (first < comma && last != std::string::npos && last >= first) use(list.substr(first, last - first + 1));
    start = comma + 1;
  }
}

bool is_set(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr && *text != '\0' && std::strcmp(text, "0") != 0;
}

}  // namespace

void read_environment() {
  options.strict = is_set("KINTSUGI_STRICT");
  options.disable = is_set("KINTSUGI_DISABLE") || is_set("TORCHDYNAMO_DISABLE");
  options.capture_scalar_outputs =
      is_set("KINTSUGI_CAPTURE_SCALAR_OUTPUTS") || is_set("TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS");
  update_indirect();
  if (const char* text = std::getenv("KINTSUGI_STRESS")) {
    each_name(text, [](const std::string& name) {
      std::string error;
      if (is_stress_name(name))
        (void)set_option(name, 1, &error);
      else
        warn_once("KINTSUGI_STRESS: no switch is called '" + name + "'; there are " + kStressNames);
    });
  }
  if (const char* text = std::getenv("KINTSUGI_ISA"); text != nullptr && *text != '\0') {
    auto same = [text](const char* set) { return std::strcmp(set, text) == 0; };
    if (std::none_of(std::begin(kStencilSets), std::end(kStencilSets), same)) {
      std::string names;
      for (const char* set : kStencilSets) names += std::string(names.empty() ? "" : ", ") + set;
      warn_once("KINTSUGI_ISA: no instruction set is called '" + std::string(text) + "'; there are " + names);
    }
  }
  if (const char* text = std::getenv("KINTSUGI_LOGS")) {
    std::string error;
    if (!set_logs(text, &error)) warn_once("KINTSUGI_LOGS: " + error);
  }
}

void update_indirect() {
  options.indirect = options.miss_every_guard || options.no_frameless || options.disable || options.stanced;
}

bool get_option(const std::string& name, bool* value) {
#define KN_OPTION(type, option, ...)        \
  if constexpr (std::is_same_v<type, bool>) \
    if (name == #option) return *value = options.option, true;
  KN_OPTIONS(KN_OPTION)
#undef KN_OPTION
  return false;
}

bool set_option(const std::string& name, int64_t value, std::string* error) {
  if (name == "recompile_limit" && (value < 1 || value > 1000)) {
    *error = "recompile_limit must lie between 1 and 1000, not " + std::to_string(value);
    return false;
  }
#define KN_OPTION(type, option, ...)           \
  if (name == #option) {                       \
    options.option = static_cast<type>(value); \
    update_indirect();                         \
    return true;                               \
  }
  KN_OPTIONS(KN_OPTION)
#undef KN_OPTION
  *error = "there is no setting '" + name + "'";
  return false;
}

bool set_logs(const std::string& names, std::string* error) {
  uint32_t logs = 0;
  bool known = true;
  each_name(names, [&](const std::string& name) {
    bool found = false;
#define KN_LOG(kind, ...)                              \
  if (name == #kind) {                                 \
    logs |= 1u << static_cast<int>(LogKind::k_##kind); \
    found = true;                                      \
  }
    KN_LOGS(KN_LOG)
#undef KN_LOG
    if (found) return;
    known = false;
    *error = "no record is called '" + name + "'; there are " + log_names();
  });
  options.logs = logs;
  return known;
}

}  // namespace kintsugi
