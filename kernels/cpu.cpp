// Kernels by their text form: read, write, find or assemble, release. Also which stencil set this process uses.
#include "kernels/cpu.h"

#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <sstream>
#include <unordered_map>

#include "kernels/cpu_assemble.h"

namespace kintsugi {
namespace {

const char* const kAccessNames[] = {"contiguous", "uniform", "strided"};
constexpr const char* kNumberName = "number";

// The best set that this CPU has; KINTSUGI_ISA asks for a lower one.
const char* choose_set() {
  int best = 0;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) best = 1;
  if (best == 1 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd")) {
    best = 2;
  }
  const char* wanted = std::getenv("KINTSUGI_ISA");
  for (int n = 0; wanted != nullptr && n < best; ++n) {
    if (std::strcmp(wanted, kStencilSets[n]) == 0) return kStencilSets[n];
  }
  return kStencilSets[best];
}

struct KernelCache {
  std::mutex mutex;
  std::unordered_multimap<uint64_t, MachineKernel*> kernels;
  CodeAllocator* allocator = nullptr;
};
KernelCache& cache() {
  // Outlives every user. A fork waits until no other thread is inside, so that the child finds it whole.
  static KernelCache* const instance = [] {
    auto* made = new KernelCache;
    pthread_atfork([] { cache().mutex.lock(); }, [] { cache().mutex.unlock(); }, [] { cache().mutex.unlock(); });
    return made;
  }();
  return *instance;
}

uint64_t hash_of(const KernelSpec& spec) {
  uint64_t hash = 1469598103934665603u;
  auto add = [&](uint64_t word) { hash = (hash ^ word) * 0x9E3779B97F4A7C15u, hash ^= hash >> 29; };
  for (const KernelInput& input : spec.inputs) {
    add(uint64_t{input.is_number} << 16 | uint64_t(input.dtype) << 8 | uint64_t(input.access));
  }
  for (const KernelInstruction& instruction : spec.body) {
    add(uint64_t(instruction.op) << 16 | uint64_t(instruction.dtype) << 8 | uint64_t(instruction.compute));
    for (int16_t operand : instruction.operands) add(static_cast<uint16_t>(operand));
  }
  for (const KernelOutput& output : spec.outputs) {
    add(uint64_t(static_cast<uint16_t>(output.value)) << 40 | uint64_t{output.reduces} << 32 |
        uint64_t(output.reduction) << 16 | uint64_t(output.dtype) << 8 | uint64_t(output.access));
  }
  return hash;
}

template <size_t N>
bool find_name(const char* const (&names)[N], const std::string& text, Access* out) {
  for (size_t n = 0; n < N; ++n) {
    if (text == names[n]) {
      *out = static_cast<Access>(n);
      return true;
    }
  }
  return false;
}
// "v12" -> 12
bool parse_value(const std::string& text, int16_t* out) {
  if (text.size() < 2 || text.size() > 5 || text[0] != 'v') return false;
  for (size_t n = 1; n < text.size(); ++n) {
    if (text[n] < '0' || text[n] > '9') return false;
  }
  *out = static_cast<int16_t>(std::atoi(text.c_str() + 1));
  return true;
}

}  // namespace

const char* stencil_set() {
  static const char* const set = choose_set();
  return set;
}

void set_code_allocator(CodeAllocator* allocator) {
  std::lock_guard lock(cache().mutex);
  cache().allocator = allocator;
}

// One clause an input, instruction and output:
//   in f32 contiguous; in f64 number; v2 = convert f64 f32 v1; v3 = mul f32 f32 v0 v2; out v3 contiguous f32
// An instruction names its compute dtype, then its result's. A reduction is `out v3 sum f32`.
std::string to_text(const KernelSpec& spec) {
  std::string text;
  for (const KernelInput& input : spec.inputs) {
    const char* access = input.is_number ? kNumberName : kAccessNames[static_cast<int>(input.access)];
    text += std::string("in ") + info(input.dtype).short_name + " " + access + "; ";
  }
  size_t value = spec.inputs.size();
  for (const KernelInstruction& instruction : spec.body) {
    text += "v" + std::to_string(value++) + " = " + info(instruction.op).name + " " +
            info(instruction.compute).short_name + " " + info(instruction.dtype).short_name;
    for (int16_t operand : instruction.operands) {
      if (operand >= 0) text += " v" + std::to_string(operand);
    }
    text += "; ";
  }
  for (const KernelOutput& output : spec.outputs) {
    const char* how = output.reduces ? info(output.reduction).name : kAccessNames[static_cast<int>(output.access)];
    text += "out v" + std::to_string(output.value) + " " + how + " " + info(output.dtype).short_name + "; ";
  }
  text.resize(text.empty() ? 0 : text.size() - 2);
  return text;
}

bool parse_kernel(const std::string& text, KernelSpec* out, std::string* error) {
  KernelSpec spec;
  std::stringstream clauses(text);
  std::string clause;
  auto fail = [&](const char* what) {
    *error = std::string("kernel text: ") + what + " in '" + clause + "'";
    return false;
  };
  while (std::getline(clauses, clause, ';')) {
    std::stringstream stream(clause);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    if (words.empty()) continue;
    if (words[0] == "in") {
      KernelInput input;
      if (words.size() != 3 || !parse_dtype(words[1].c_str(), &input.dtype)) return fail("expected 'in DTYPE ACCESS'");
      input.is_number = words[2] == kNumberName;
      if (!input.is_number && !find_name(kAccessNames, words[2], &input.access)) return fail("unknown access");
      if (!spec.body.empty() || !spec.outputs.empty()) return fail("an input after the first instruction");
      spec.inputs.push_back(input);
    } else if (words[0] == "out") {
      KernelOutput output;
      if (words.size() != 4 || !parse_value(words[1], &output.value) || !parse_dtype(words[3].c_str(), &output.dtype)) {
        return fail("expected 'out vN ACCESS-OR-REDUCTION DTYPE'");
      }
      if (!find_name(kAccessNames, words[2], &output.access)) {
        if (!parse_op(words[2].c_str(), &output.reduction)) return fail("unknown reduction");
        output.reduces = true;
      }
      spec.outputs.push_back(output);
    } else {
      KernelInstruction instruction{};
      int16_t number = -1;
      if (words.size() < 5 || words.size() > 8 || !parse_value(words[0], &number) || words[1] != "=" ||
          !parse_op(words[2].c_str(), &instruction.op) || !parse_dtype(words[3].c_str(), &instruction.compute) ||
          !parse_dtype(words[4].c_str(), &instruction.dtype)) {
        return fail("expected 'vN = OP COMPUTE RESULT vA ..'");
      }
      if (number != static_cast<int>(spec.inputs.size() + spec.body.size())) return fail("value out of order");
      for (size_t n = 5; n < words.size(); ++n) {
        if (!parse_value(words[n], &instruction.operands[n - 5])) return fail("bad operand");
      }
      spec.body.push_back(instruction);
    }
  }
  OpError problem;
  if (!check_kernel(spec, &problem)) {
    *error = problem.text;
    return false;
  }
  *out = std::move(spec);
  return true;
}

Kernel* acquire_kernel(const KernelSpec& spec, OpError* error) {
  KernelCache& known = cache();
  const uint64_t hash = hash_of(spec);
  std::lock_guard lock(known.mutex);
  auto [first, last] = known.kernels.equal_range(hash);
  for (auto found = first; found != last; ++found) {
    if (found->second->spec == spec) {
      found->second->users.fetch_add(1, std::memory_order_relaxed);
      return found->second;
    }
  }
  if (!check_kernel(spec, error)) return nullptr;
  if (known.allocator == nullptr) {
    *error = {ErrorKind::kMemory, "no code memory: set_code_allocator() was not called"};
    return nullptr;
  }
  auto kernel = std::make_unique<MachineKernel>();
  kernel->spec = spec;
  kernel->hash = hash;
  if (!assemble(kernel.get(), known.allocator, error)) return nullptr;
  known.kernels.emplace(hash, kernel.get());
  return kernel.release();
}

void release_kernel(Kernel* base) {
  auto* kernel = static_cast<MachineKernel*>(base);
  KernelCache& known = cache();
  std::lock_guard lock(known.mutex);  // so that nobody finds it while it goes
  if (kernel->users.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  auto [first, last] = known.kernels.equal_range(kernel->hash);
  for (auto found = first; found != last; ++found) {
    if (found->second == kernel) {
      known.kernels.erase(found);
      break;
    }
  }
  kernel->allocator->free(kernel->span, kernel->span_bytes);
  delete kernel;
}

}  // namespace kintsugi
