#include "jit/bytecode.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>

namespace kintsugi {
namespace {

enum class Path : uint8_t { kNext, kEnd, kForward, kBackward, kForwardIf, kBackwardIf };

enum class Operand : uint8_t { kNumber, kLocal, kCell, kName, kConstant };

struct OpcodeRow {
  const char* name;
  uint8_t number, caches;
  Operand operand;
  Path flow;
};

constexpr OpcodeRow kRows[] = {
#define KN_OPCODE(name, number, caches, operand, flow, ...) {#name, number, caches, Operand::k##operand, Path::k##flow},
#include "jit/opcodes.def"
    {"<unknown>", 0, 0, Operand::kNumber, Path::kEnd},
};
constexpr uint8_t kExtendedArgument = 144;

const OpcodeRow& row_of(Opcode opcode) { return kRows[static_cast<int>(opcode)]; }
bool jumps(Path flow) { return flow != Path::kNext && flow != Path::kEnd; }
bool jumps_back(Path flow) { return flow == Path::kBackward || flow == Path::kBackwardIf; }
bool falls_through(Path flow) { return flow == Path::kNext || flow == Path::kForwardIf || flow == Path::kBackwardIf; }

Opcode opcode_of_byte(uint8_t byte) {
  static const auto table = [] {
    std::vector<Opcode> opcodes(256, Opcode::kCount);
    for (int i = 0; i < static_cast<int>(Opcode::kCount); ++i) opcodes[kRows[i].number] = static_cast<Opcode>(i);
    return opcodes;
  }();
  return table[byte];
}

int32_t operand_index(const Instruction& instruction) {
  return instruction.opcode == Opcode::k_LOAD_GLOBAL ? instruction.argument >> 1 : instruction.argument;
}

bool operand_in_range(const PyCodeObject* code, const Instruction& instruction) {
  int32_t index = operand_index(instruction);
  switch (row_of(instruction.opcode).operand) {
    case Operand::kNumber: return instruction.argument >= 0;
    case Operand::kLocal:
    case Operand::kCell: return index >= 0 && index < code->co_nlocalsplus;
    case Operand::kName: return index >= 0 && index < PyTuple_GET_SIZE(code->co_names);
    case Operand::kConstant: return index >= 0 && index < PyTuple_GET_SIZE(code->co_consts);
  }
  return false;
}

void decode_instructions(Bytecode* bytecode) {
  Ref bytes(PyCode_GetCode(bytecode->code));
  KN_CHECK(bytes);
  const auto* units = reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(bytes.get()));
  auto count = static_cast<int32_t>(PyBytes_GET_SIZE(bytes.get()) / 2);
  bytecode->index_at.assign(count, -1);
  bytecode->instructions.reserve(static_cast<size_t>(count));
  for (int32_t offset = 0; offset < count;) {
    int32_t unit = offset;
    uint32_t argument = units[2 * unit + 1];
    while (units[2 * unit] == kExtendedArgument && unit + 1 < count) {
      ++unit;
      argument = argument << 8 | units[2 * unit + 1];
    }
    Opcode opcode = opcode_of_byte(units[2 * unit]);
    Instruction instruction{opcode, static_cast<int32_t>(argument), offset, unit, unit + 1 + row_of(opcode).caches};
    if (opcode == Opcode::kCount) {
      bytecode->odd = "a byte that is no instruction";
    } else if (!operand_in_range(bytecode->code, instruction)) {
      bytecode->odd = "an argument out of range";
    }
    if (jumps(row_of(opcode).flow)) {
      int64_t target = instruction.next + (jumps_back(row_of(opcode).flow) ? -int64_t{1} : 1) * instruction.argument;
      instruction.target = target >= 0 && target < count ? static_cast<int32_t>(target) : -1;
    }
    bytecode->index_at[offset] = static_cast<int32_t>(bytecode->instructions.size());
    bytecode->instructions.push_back(instruction);
    offset = instruction.next;
  }
  bytecode->is_loop_header.assign(bytecode->instructions.size(), 0);
  for (const Instruction& instruction : bytecode->instructions) {
    Path flow = row_of(instruction.opcode).flow;
    if (!jumps(flow)) continue;
    if (instruction.target < 0 || bytecode->index_at[instruction.target] < 0) {
      bytecode->odd = "a jump to no instruction";
    } else if (jumps_back(flow)) {
      bytecode->is_loop_header[bytecode->index_at[instruction.target]] = 1;
    }
  }
}

// co_exceptiontable: rows of four numbers (start, size, target, depth << 1 | lasti) in big-endian groups of six bits.
// Bit 6: more groups follow; bit 7: first byte of a row. CPython: Objects/exception_handling_notes.txt.
void decode_handlers(Bytecode* bytecode) {
  PyObject* table = bytecode->code->co_exceptiontable;
  if (!PyBytes_Check(table)) return;
  const auto* at = reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(table));
  const uint8_t* end = at + PyBytes_GET_SIZE(table);
  auto count = static_cast<int32_t>(bytecode->index_at.size());
  while (at < end) {
    int32_t row[4] = {};
    for (int32_t& number : row) {
      bool more = true;
      for (int group = 0; more && group < 5 && at < end; ++group, ++at) {
        number = static_cast<int32_t>(static_cast<uint32_t>(number) << 6 | (*at & 63u));
        more = *at & 64;
      }
    }
    int64_t handler_end = int64_t{row[0]} + row[1];
    if (row[0] < 0 || handler_end > count || row[2] < 0 || row[2] >= count || bytecode->index_at[row[2]] < 0) {
      bytecode->odd = "an exception table with a row out of range";
      return;
    }
    bytecode->handlers.push_back({row[0], static_cast<int32_t>(handler_end), row[2], row[3] >> 1, (row[3] & 1) != 0});
  }
}

// Follows control from the start and from each handler that can be reached, counting the stack.
void compute_depths(Bytecode* bytecode) {
  bytecode->depth.assign(bytecode->instructions.size(), -1);
  std::vector<int32_t> pending;
  auto arrive = [&](int32_t index, int64_t depth) {
    if (index >= static_cast<int32_t>(bytecode->depth.size())) {
      bytecode->odd = "control runs past the end";
    } else if (depth < 0 || depth > bytecode->code->co_stacksize) {
      bytecode->odd = "the stack leaves its bounds";
    } else if (bytecode->depth[index] < 0) {
      bytecode->depth[index] = static_cast<int32_t>(depth);
      pending.push_back(index);
    } else if (bytecode->depth[index] != depth) {
      bytecode->odd = "two depths of the stack at one instruction";
    }
  };
  arrive(0, 0);
  while (!pending.empty() && !bytecode->odd) {
    int32_t index = pending.back();
    pending.pop_back();
    const Instruction& instruction = bytecode->instructions[index];
    int32_t depth = bytecode->depth[index];
    Path flow = row_of(instruction.opcode).flow;
    if (falls_through(flow)) {
      arrive(index + 1, depth + stack_effect(instruction.opcode, instruction.argument, /*jumps=*/false));
    }
    if (jumps(flow)) {
      arrive(bytecode->index_at[instruction.target],
             depth + stack_effect(instruction.opcode, instruction.argument, /*jumps=*/true));
    }
    if (const Handler* handler = bytecode->handler_at(instruction.unit)) {
      arrive(bytecode->index_at[handler->target], int64_t{handler->depth} + handler->lasti + 1);
    }
  }
}

class BitRow {
 public:
  explicit BitRow(uint64_t* words) : words_(words) {}
  void set(int bit) { words_[bit >> 6] |= uint64_t{1} << (bit & 63); }
  void clear(int bit) { words_[bit >> 6] &= ~(uint64_t{1} << (bit & 63)); }

 private:
  uint64_t* words_;
};

std::vector<PyObject*> interned_names(std::initializer_list<const char*> names) {
  std::vector<PyObject*> objects;
  for (const char* name : names) objects.push_back(PyUnicode_InternFromString(name));
  return objects;
}
// A code object's names are interned: Objects/codeobject.c, intern_strings.
bool names_any(const PyCodeObject* code, const std::vector<PyObject*>& names) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i)
    if (std::find(names.begin(), names.end(), PyTuple_GET_ITEM(code->co_names, i)) != names.end()) return true;
  return false;
}

// Locals that are never dead: cells, free variables, and the first argument where super() without arguments reads it.
std::vector<uint64_t> always_live(const Bytecode& bytecode) {
  const PyCodeObject* code = bytecode.code;
  std::vector<uint64_t> row(bytecode.words, 0);
  BitRow bits(row.data());
  for (const Instruction& instruction : bytecode.instructions) {
    if (row_of(instruction.opcode).operand == Operand::kCell) bits.set(instruction.argument);
  }
  for (int i = 0; i < code->co_nfreevars; ++i) bits.set(code->co_nlocalsplus - 1 - i);
  static const std::vector<PyObject*> super = interned_names({"super"});
  if (names_any(code, super) && code->co_nlocalsplus > 0) bits.set(0);
  if (bytecode.calls_frame_readers) {
    for (int i = 0; i < code->co_nlocalsplus; ++i) bits.set(i);
  }
  return row;
}

// Backward over the instructions until nothing changes: live before = uses, or live after unless it is written here, or
// live in the handler that an exception here reaches.
void compute_liveness(Bytecode* bytecode) {
  auto count = static_cast<int32_t>(bytecode->instructions.size());
  int32_t words = bytecode->words;
  const std::vector<uint64_t> always = always_live(*bytecode);
  bytecode->live.assign(static_cast<size_t>(count) * words, 0);
  std::vector<uint64_t> row(words);
  bool goes_back = false;  // otherwise one pass sees it all
  for (const Instruction& instruction : bytecode->instructions)
    goes_back = goes_back || jumps_back(row_of(instruction.opcode).flow);
  for (const Handler& handler : bytecode->handlers) goes_back = goes_back || handler.target < handler.end;
  for (bool changed = true; changed;) {
    changed = false;
    for (int32_t index = count - 1; index >= 0; --index) {
      const Instruction& instruction = bytecode->instructions[index];
      Path flow = row_of(instruction.opcode).flow;
      if (words == 1 && flow == Path::kNext && index + 1 < count && bytecode->handlers.empty()) {  // nearly all
        uint64_t before = bytecode->live[index + 1];
        if (instruction.opcode == Opcode::k_STORE_FAST) before &= ~(uint64_t{1} << instruction.argument);
        if (instruction.opcode == Opcode::k_LOAD_FAST || instruction.opcode == Opcode::k_DELETE_FAST)
          before |= uint64_t{1} << instruction.argument;
        before |= always[0];
        changed = changed || (goes_back && bytecode->live[index] != before);
        bytecode->live[index] = before;
        continue;
      }
      auto join = [&](int32_t other) {
        for (int32_t word = 0; word < words; ++word) row[word] |= bytecode->live[other * words + word];
      };
      row = always;
      if (falls_through(flow) && index + 1 < count) join(index + 1);  // code that is never reached may run past the end
      if (jumps(flow)) join(bytecode->index_at[instruction.target]);
      BitRow bits(row.data());
      if (instruction.opcode == Opcode::k_STORE_FAST) bits.clear(instruction.argument);
      if (const Handler* handler = bytecode->handler_at(instruction.unit)) join(bytecode->index_at[handler->target]);
      if (instruction.opcode == Opcode::k_LOAD_FAST || instruction.opcode == Opcode::k_DELETE_FAST) {
        bits.set(instruction.argument);
      }
      for (int32_t word = 0; word < words; ++word) row[word] |= always[word];
      uint64_t* live = &bytecode->live[index * words];
      if (std::memcmp(live, row.data(), words * sizeof(uint64_t)) != 0) {
        std::memcpy(live, row.data(), words * sizeof(uint64_t));
        changed = goes_back;
      }
    }
  }
}

// Standard modules that look at frames, keep locks and caches, compile text or serve the outside world: following them
// makes hundreds of segments and no kernel. docs/decisions.md has the reasons.
constexpr const char* kLeftAlone[] = {
    "argparse",    "ast",       "asyncio",     "bdb",        "cProfile",  "codeop",      "concurrent",
    "ctypes",      "dis",       "doctest",     "email",      "encodings", "gettext",     "http",
    "importlib",   "inspect",   "json",        "linecache",  "locale",    "logging",     "multiprocessing",
    "pdb",         "pickle",    "pickletools", "pprint",     "profile",   "pstats",      "random",
    "re",          "secrets",   "selectors",   "shutil",     "signal",    "site",        "socket",
    "sre_compile", "sre_parse", "ssl",         "subprocess", "symtable",  "sysconfig",   "tempfile",
    "threading",   "timeit",    "tokenize",    "trace",      "traceback", "tracemalloc", "unittest",
    "urllib",      "uuid",      "warnings",    "xml",        "zipfile"};

// What inspect says of callables: it reads fields of functions and makes objects.
bool is_of_signatures(PyCodeObject* code) {
  const char* text = PyUnicode_AsUTF8(code->co_qualname);
  if (text == nullptr) return PyErr_Clear(), false;
  std::string name = text;
  for (const char* reads_text : {"_signature_from_builtin", "_signature_fromstr", "_signature_strip"})
    if (name.rfind(reads_text, 0) == 0) return false;
  for (const char* start : {"_signature_", "Signature.", "Parameter.", "BoundArguments.", "_ParameterKind."})
    if (name.rfind(start, 0) == 0) return true;
  for (const char* whole :
       {"signature", "unwrap", "unwrap.<locals>._is_wrapper", "get_annotations", "isfunction", "ismethod", "isclass",
        "isbuiltin", "isroutine", "ismethoddescriptor", "isdatadescriptor", "isgeneratorfunction", "_has_code_flag"})
    if (name == whole) return true;
  return false;
}

// Whether a library's function is followed, and if so, to its end or not at all.
LibraryCode library_code(PyCodeObject* code) {
  const char* text = PyUnicode_AsUTF8(code->co_filename);
  if (text == nullptr) return PyErr_Clear(), LibraryCode::kFollowed;
  std::string file = text;
  if (file.rfind("<frozen importlib", 0) == 0) return LibraryCode::kLeftAlone;
  static const std::string folder = [] {
    Ref module = import_module("os");
    Ref path(module ? PyObject_GetAttrString(module.get(), "__file__") : nullptr);
    const char* text = path ? PyUnicode_AsUTF8(path.get()) : nullptr;
    PyErr_Clear();  // frozen or embedded
    std::string found = text == nullptr ? "" : text;
    return found.substr(0, found.rfind('/') + 1);
  }();
  if (folder.empty() || file.rfind(folder, 0) != 0) return LibraryCode::kFollowed;
  std::string module = file.substr(folder.size());
  module = module.substr(0, module.find_first_of("/."));
  if (module == "copy") {  // deepcopy remembers objects by their numbers
    const char* name = PyUnicode_AsUTF8(code->co_name);
    bool follows = name == nullptr || std::strcmp(name, "copy") == 0 || std::strcmp(name, "_copy_immutable") == 0;
    return follows ? LibraryCode::kFollowed : LibraryCode::kLeftAlone;
  }
  if (module == "inspect" && is_of_signatures(code)) return LibraryCode::kWhole;
  bool left =
      std::any_of(std::begin(kLeftAlone), std::end(kLeftAlone), [&](const char* each) { return module == each; });
  return left ? LibraryCode::kLeftAlone : LibraryCode::kFollowed;
}

Bytecode* decode(PyCodeObject* code) {
  auto bytecode = std::make_unique<Bytecode>();
  bytecode->code = code;
  bytecode->words = std::max(1, (code->co_nlocalsplus + 63) / 64);
  // Through these a frame's locals are read from outside its bytecode.
  static const std::vector<PyObject*> readers =
      interned_names({"locals", "vars", "dir", "eval", "exec", "breakpoint", "set_trace", "_getframe", "currentframe",
                      "_current_frames", "inspect", "pdb", "f_locals"});
  bytecode->calls_frame_readers = names_any(code, readers);
  bytecode->library = library_code(code);
  decode_instructions(bytecode.get());
  decode_handlers(bytecode.get());
  if (!bytecode->odd) compute_depths(bytecode.get());
  if (bytecode->odd) {  // nothing may be concluded from it
    bytecode->depth.assign(bytecode->instructions.size(), -1);
    bytecode->live.assign(bytecode->instructions.size() * bytecode->words, ~uint64_t{0});
  } else {
    compute_liveness(bytecode.get());
  }
  return bytecode.release();
}

void drop(void* bytecode) { delete static_cast<Bytecode*>(bytecode); }

std::string operand_text(const Bytecode& bytecode, const Instruction& instruction) {
  if (instruction.target >= 0) return "to " + std::to_string(instruction.target);
  auto* code = reinterpret_cast<PyObject*>(bytecode.code);
  int32_t index = operand_index(instruction);
  Ref owner;
  switch (row_of(instruction.opcode).operand) {
    case Operand::kNumber: return "";
    case Operand::kLocal:
    case Operand::kCell: owner = Ref::share(bytecode.code->co_localsplusnames); break;
    case Operand::kName: owner = Ref(PyObject_GetAttrString(code, "co_names")); break;
    case Operand::kConstant: owner = Ref(PyObject_GetAttrString(code, "co_consts")); break;
  }
  if (!owner || index < 0 || index >= PyTuple_GET_SIZE(owner.get())) return "?";
  Borrowed item = PyTuple_GET_ITEM(owner.get(), index);
  Ref text(PyUnicode_Check(item) && owner.get() != bytecode.code->co_consts ? Ref::share(item).release()
                                                                            : PyObject_Repr(item));
  const char* characters = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (!characters) PyErr_Clear();
  return characters ? characters : "?";
}

}  // namespace

const Handler* Bytecode::handler_at(int32_t offset) const {
  for (const Handler& handler : handlers) {
    if (handler.start <= offset && offset < handler.end) return &handler;
  }
  return nullptr;
}

const Bytecode& bytecode_of(PyCodeObject* code) {
  // CPython drops what a code object's extra slot holds with the code object.
  static const Py_ssize_t slot = _PyEval_RequestCodeExtraIndex(drop);
  KN_CHECK(slot >= 0);
  auto* owner = reinterpret_cast<PyObject*>(code);
  void* found = nullptr;
  if (_PyCode_GetExtra(owner, slot, &found) == 0 && found) return *static_cast<Bytecode*>(found);
  SavedError saved;
  std::unique_ptr<Bytecode> bytecode(decode(code));
  KN_CHECK(_PyCode_SetExtra(owner, slot, bytecode.get()) == 0);
  return *bytecode.release();
}

int line_of(const Bytecode& bytecode, const Instruction& instruction) {
  return PyCode_Addr2Line(bytecode.code, instruction.unit * 2);
}

bool must_raise(const Bytecode& bytecode, int32_t instruction_index) {
  for (size_t i = static_cast<size_t>(instruction_index); i < bytecode.instructions.size(); ++i) {
    const Instruction& instruction = bytecode.instructions[i];
    if (bytecode.handler_at(instruction.unit) != nullptr) return false;
    if (instruction.opcode == Opcode::k_RAISE_VARARGS) return true;
    if (row_of(instruction.opcode).flow != Path::kNext) return false;
  }
  return false;
}

int stack_depth_at(const Bytecode& bytecode, int offset) {
  bool known = offset >= 0 && offset < static_cast<int>(bytecode.index_at.size()) && bytecode.index_at[offset] >= 0;
  return known ? bytecode.depth[bytecode.index_at[offset]] : -1;
}

int64_t stack_effect(Opcode opcode, int32_t argument, bool jumps) {
  [[maybe_unused]] int64_t n = argument;
#define KN_OPCODE(name, number, caches, operand, flow, pops, pushes, jump_pushes, ...) \
  if (opcode == Opcode::k_##name) return (jumps ? (jump_pushes) : (pushes)) - (pops);
#include "jit/opcodes.def"
  return 0;
}

const char* opcode_name(Opcode opcode) { return row_of(opcode).name; }

std::string to_text(const Bytecode& bytecode) {
  std::string text;
  for (const Instruction& instruction : bytecode.instructions) {
    text += std::to_string(instruction.offset) + " " + opcode_name(instruction.opcode) + " " +
            std::to_string(instruction.argument);
    std::string operand = operand_text(bytecode, instruction);
    text += operand.empty() ? "\n" : " (" + operand + ")\n";
  }
  for (const Handler& handler : bytecode.handlers) {
    text += "handler of " + std::to_string(handler.start) + " to " + std::to_string(handler.end) + ": " +
            std::to_string(handler.target) + ", depth " + std::to_string(handler.depth) +
            (handler.lasti ? ", lasti\n" : "\n");
  }
  return text;
}

}  // namespace kintsugi
