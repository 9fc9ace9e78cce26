// A segment's code as text, each guard, step and exit named. For KINTSUGI_LOGS=asm and for tests; Zydis reads the
// bytes.
#include <Zydis/Zydis.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "jit/glue.h"

namespace kintsugi {
namespace {

constexpr const char* kGuardNames[] = {
#define KN_GUARD(name, ...) #name,
#include "guards/guards.def"
};
constexpr const char* kStepNames[] = {
#define KN_STEP(name, ...) #name,
#include "jit/steps.def"
};

std::string name_of(const CodePart& part, const Plan& plan) {
  const size_t index = static_cast<size_t>(part.index);
  const std::string number = std::to_string(part.index);
  switch (part.kind) {
    case CodePart::Kind::kEnter: return plan.name;
    case CodePart::Kind::kBody: return plan.name + ", guards checked elsewhere";
    case CodePart::Kind::kStubs: return "guards that did not hold";
    case CodePart::Kind::kExit: return "exit " + number;
    case CodePart::Kind::kStep: return "step " + number + " " + kStepNames[static_cast<int>(plan.steps[index].kind)];
    case CodePart::Kind::kGuard: {
      const Guard& guard = plan.guards[index];
      std::string name = "guard " + number + " " + kGuardNames[static_cast<int>(guard.kind)];
      return guard.source < 0 ? name : name + " of " + plan.sources[static_cast<size_t>(guard.source)];
    }
  }
  return {};
}

}  // namespace

std::string disassemble(const SegmentCode& code) {
  std::vector<CodePart> parts = code.parts;
  std::stable_sort(parts.begin(), parts.end(),
                   [](const CodePart& a, const CodePart& b) { return a.offset < b.offset; });
  std::string out;
  size_t next_part = 0;
  for (size_t offset = 0; offset < code.code_bytes;) {
    for (; next_part < parts.size() && parts[next_part].offset <= offset; ++next_part) {
      out += name_of(parts[next_part], code.plan) + ":\n";
    }
    ZydisDisassembledInstruction instruction;
    const uint8_t* bytes = code.span.execute + offset;
    char line[160];
    if (!ZYAN_SUCCESS(ZydisDisassembleIntel(ZYDIS_MACHINE_MODE_LONG_64, reinterpret_cast<ZyanU64>(bytes), bytes,
                                            code.code_bytes - offset, &instruction))) {
      std::snprintf(line, sizeof line, "  %5zx  (no instruction)\n", offset);
      return out + line;
    }
    std::snprintf(line, sizeof line, "  %5zx  %s\n", offset, instruction.text);
    out += line;
    offset += instruction.info.length;
  }
  return out;
}

}  // namespace kintsugi
