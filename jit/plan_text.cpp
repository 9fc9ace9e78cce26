// The text form of a plan: one line a part, `word number key=value ...`, empty fields left out. %value #constant !exit
// @recipe. Strings are quoted. parse_plan() reads exactly what to_text() writes, and names the line that it cannot
// read.
//
//   plan "step@0" values=4 final=!0
//   constant #0 layout "f32[8]{1}"
//   guard slot dst=%0 imm=0
//   guard tensor_layout a=%0 constant=#0
//   step tensor_new dst=%1 constant=#0 on_fail=!1
//   exit !0 return result=@0 owned=%1
//   recipe @0 value value=%1
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "jit/plan.h"

namespace kintsugi {
namespace {

using Names = std::span<const char* const>;
constexpr const char* kGuardNames[] = {
#define KN_GUARD(name, ...) #name,
#include "guards/guards.def"
};
constexpr const char* kStepNames[] = {
#define KN_STEP(name, ...) #name,
#include "jit/steps.def"
};
constexpr const char* kBreakNames[] = {
#define KN_BREAK(name, ...) #name,
#include "runtime/breaks.def"
};
// In the order of the enumerators.
constexpr const char* kConstantNames[] = {"int", "float", "string", "layout", "object", "pointer"};
constexpr const char* kExitNames[] = {"return", "next", "step", "raise", "hand_over"};
constexpr const char* kRuleNames[] = {"push",     "discard", "init",    "attribute", "named_attribute",
                                      "iterator", "next",    "next_or", "class",     "resumed"};
constexpr const char* kRecipeNames[] = {
    "value",     "null",         "constant",  "box_int",  "box_float",      "box_bool",
    "tuple",     "list",         "dict",      "set",      "slice",          "cell",
    "function",  "bound_method", "instance",  "range",    "range_iterator", "sequence_iterator",
    "enumerate", "zip",          "map",       "reversed", "dict_view",      "dict_iterator",
    "partial",   "exception",    "traceback", "handled",  "generator",      "call_object",
    "handed",    "with_state",   "set_like",  "container"};
constexpr const char* kAccessNames[] = {"contiguous", "uniform", "strided"};
static_assert(std::size(kRecipeNames) == static_cast<size_t>(RecipeKind::kContainer) + 1);

template <typename T>
concept Enum = std::is_enum_v<T>;

// ---- Writing ------------------------------------------------------------------------------------

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\x%02x", static_cast<unsigned char>(c));
      out += code;
    } else {
      out += c;
    }
  }
  return out + '"';
}

// Enough digits to come back; a NaN with its bits.
std::string number_text(double value) {
  char text[40];
  if (std::isnan(value)) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    std::snprintf(text, sizeof text, "nan:%016llx", static_cast<unsigned long long>(bits));
  } else {
    std::snprintf(text, sizeof text, "%.17g", value);
  }
  return text;
}

class Writer {
 public:
  Writer& line(const char* word) {
    if (!text_.empty()) text_ += '\n';
    text_ += word;
    return *this;
  }
  Writer& word(const std::string& word) {
    text_ += ' ';
    text_ += word;
    return *this;
  }
  Writer& id(const char* sigil, size_t id) { return word(sigil + std::to_string(id)); }
  std::string take() { return text_ + '\n'; }

  // Fields; see fields() below.
  template <typename T>
  void number(const char* key, const T& value, T usual, const char* sigil = "") {
    if (value != usual) field(key, sigil + std::to_string(value));
  }
  void number(const char* key, double value, double usual, const char* = "") {
    if (value != usual || std::signbit(value) != std::signbit(usual)) field(key, number_text(value));
  }
  void count(const char* key, int value, int) { number(key, value, 0); }
  void text(const char* key, const std::string& value) {
    if (!value.empty()) field(key, quoted(value));
  }
  template <Enum E>
  void name(const char* key, Names names, const E& value, E usual) {
    if (value != usual) field(key, names[static_cast<size_t>(value)]);
  }
  void dtype(const char* key, const DType& dtype) { field(key, info(dtype).short_name); }
  void op(const char* key, const Op& op) { field(key, info(op).name); }
  template <typename List>
  void list(const char* key, const List& values, const char* sigil = "") {
    std::string joined;
    for (const auto& value : values) joined += (joined.empty() ? "" : ",") + item(value, sigil);
    if (!joined.empty()) field(key, joined);
  }
  template <typename T>
  void array(const char* key, const T* values, int count, int) {
    list(key, std::span(values, static_cast<size_t>(count)));
  }
  void spec(const KernelSpec& spec) { text("spec", to_text(spec)); }

 private:
  void field(const char* key, const std::string& value) { word(key + ("=" + value)); }
  template <typename T>
  static std::string item(const T& value, const char* sigil) {
    return sigil + std::to_string(value);
  }
  static std::string item(const std::pair<int32_t, RecipeId>& slot, const char*) {
    return std::to_string(slot.first) + ":@" + std::to_string(slot.second);
  }

  std::string text_;
};

// ---- Reading ------------------------------------------------------------------------------------

// One line as words (without key) and fields. The first thing that does not fit is kept in `error`.
class Line {
 public:
  Line(std::string_view text, std::string* error) : error_(error) { split(text); }

  bool empty() const { return words_.empty() && fields_.empty(); }
  std::string word(const char* what) {
    if (next_word_ < words_.size()) return words_[next_word_++];
    fail("expected " + std::string(what));
    return {};
  }
  template <typename E>
  E choose(Names names, const std::string& text, const char* what) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (text == names[i]) return static_cast<E>(i);
    }
    fail("\"" + text + "\" is no " + what);
    return static_cast<E>(0);
  }

  // Fields; see fields() below.
  template <typename T>
  void number(const char* key, T& out, T, const char* = "") {
    if (const std::string* text = find(key)) out = fitting<T>(*text);
  }
  void count(const char* key, int& out, int most) {
    number(key, out, 0);
    if (out < 0 || out > most) fail(std::string(key) + " is not within 0 and " + std::to_string(most));
  }
  void number(const char* key, bool& out, bool, const char* = "") {
    if (const std::string* text = find(key)) out = flag(*text);
  }
  void number(const char* key, double& out, double, const char* = "") {
    if (const std::string* text = find(key)) out = floating(*text);
  }
  void text(const char* key, std::string& out) {
    if (const std::string* text = find(key)) out = *text;
  }
  template <Enum E>
  void name(const char* key, Names names, E& out, E) {
    if (const std::string* text = find(key)) out = choose<E>(names, *text, key);
  }
  void dtype(const char* key, DType& out) {
    const std::string* text = find(key);
    if (text != nullptr && !parse_dtype(text->c_str(), &out)) fail("\"" + *text + "\" is no dtype");
  }
  void op(const char* key, Op& out) {
    const std::string* text = find(key);
    if (text != nullptr && !parse_op(text->c_str(), &out)) fail("\"" + *text + "\" is no operation");
  }
  template <typename T>
  void list(const char* key, std::vector<T>& out, const char* = "") {
    for (std::string_view part : split_list(find(key))) out.push_back(item(part, static_cast<T*>(nullptr)));
  }
  template <typename T>
  void array(const char* key, T* out, int, int room) {
    int i = 0;
    for (std::string_view part : split_list(find(key))) {
      if (i == room) return fail(std::string(key) + " has more than " + std::to_string(room) + " items");
      out[i++] = fitting<T>(part);
    }
  }
  void spec(KernelSpec& out) {
    std::string kernel, error;
    text("spec", kernel);
    if (!parse_kernel(kernel, &out, &error)) fail("kernel: " + error);
  }

  template <typename T>
  T fitting(std::string_view text) {
    if (!text.empty() && std::strchr("%#!@", text[0]) != nullptr) text.remove_prefix(1);
    T value{};
    auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (fault != std::errc() || end != text.data() + text.size()) {
      fail("\"" + std::string(text) + "\" is no integer of " + std::to_string(8 * sizeof(T)) + " bits");
    }
    return value;
  }
  bool flag(std::string_view text) {
    if (text != "0" && text != "1") fail("\"" + std::string(text) + "\" is neither 0 nor 1");
    return text == "1";
  }
  double floating(const std::string& text) {
    if (text.starts_with("nan:")) {
      uint64_t bits = std::strtoull(text.c_str() + 4, nullptr, 16);
      double value;
      std::memcpy(&value, &bits, sizeof value);
      return value;
    }
    char* end = nullptr;
    double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != 0) fail("\"" + text + "\" is no number");
    return value;
  }
  // What is left over was misspelt.
  void finish() {
    for (const Field& field : fields_) {
      if (!field.read) fail("unknown field \"" + field.key + "\"");
    }
  }
  void fail(const std::string& text) {
    if (error_->empty()) *error_ = text;
  }

 private:
  struct Field {
    std::string key, value;
    bool read = false;
  };

  template <typename T>
  T item(std::string_view text, T*) {
    return fitting<T>(text);
  }
  std::pair<int32_t, RecipeId> item(std::string_view text, std::pair<int32_t, RecipeId>*) {
    size_t colon = text.find(':');
    if (colon == std::string_view::npos)
      return fail("a slot is slot:@recipe, not " + std::string(text)), std::pair(0, 0);
    return {fitting<int32_t>(text.substr(0, colon)), fitting<RecipeId>(text.substr(colon + 1))};
  }
  void split(std::string_view text);
  std::string unquote(std::string_view text, size_t* position);
  const std::string* find(const char* key) {
    for (Field& field : fields_) {
      if (field.key != key) continue;
      field.read = true;
      return &field.value;
    }
    return nullptr;
  }
  static std::vector<std::string_view> split_list(const std::string* text) {
    std::vector<std::string_view> parts;
    if (text == nullptr) return parts;
    for (size_t start = 0; start <= text->size();) {
      size_t comma = std::min(text->find(',', start), text->size());
      parts.push_back(std::string_view(*text).substr(start, comma - start));
      start = comma + 1;
    }
    return parts;
  }

  std::string* error_;
  std::vector<std::string> words_;
  size_t next_word_ = 0;
  std::vector<Field> fields_;
};

void Line::split(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (text[at] == ' ') {
      ++at;
    } else if (text[at] == '"') {
      words_.push_back(unquote(text, &at));
    } else {
      size_t start = at;
      while (at < text.size() && text[at] != ' ' && text[at] != '=') ++at;
      std::string word(text.substr(start, at - start));
      if (at == text.size() || text[at] == ' ') {
        words_.push_back(word);
        continue;
      }
      ++at;
      start = at;
      if (at < text.size() && text[at] == '"') {
        fields_.push_back({word, unquote(text, &at)});
      } else {
        while (at < text.size() && text[at] != ' ') ++at;
        fields_.push_back({word, std::string(text.substr(start, at - start))});
      }
    }
  }
}

std::string Line::unquote(std::string_view text, size_t* position) {
  std::string out;
  size_t at = *position + 1;
  for (; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] != '\\' || at + 1 == text.size()) {
      out += text[at];
    } else if (text[++at] == 'n') {
      out += '\n';
    } else if (text[at] == 'x' && at + 2 < text.size()) {
      out += static_cast<char>(std::strtol(std::string(text.substr(at + 1, 2)).c_str(), nullptr, 16));
      at += 2;
    } else {
      out += text[at];
    }
  }
  if (at >= text.size()) fail("a string has no closing quote");
  *position = at + 1;
  return out;
}

// ---- What each part has -------------------------------------------------------------------------
// One list of fields for both directions: F is Writer with const parts, or Line. Fields at their usual value are left
// out.

template <typename Part, typename Type>
concept Is = std::is_same_v<std::remove_const_t<Part>, Type>;

template <typename F, Is<Guard> Part>
void fields(F& f, Part& guard) {
  f.number("dst", guard.dst, kNoValue, "%");
  f.number("a", guard.a, kNoValue, "%");
  f.number("b", guard.b, kNoValue, "%");
  f.number("constant", guard.constant, kNoConstant, "#");
  f.number("imm", guard.imm, int64_t{0});
  f.number("source", guard.source, -1);
}

template <typename F, Is<Step> Part>
void fields(F& f, Part& step) {
  f.number("dst", step.dst, kNoValue, "%");
  f.number("a", step.a, kNoValue, "%");
  f.number("b", step.b, kNoValue, "%");
  f.number("c", step.c, kNoValue, "%");
  f.number("constant", step.constant, kNoConstant, "#");
  f.number("imm", step.imm, int64_t{0});
  f.number("index", step.index, -1);
  f.list("list", step.list, "%");
  f.number("on_fail", step.on_fail, kNoExit, "!");
}

template <typename F, Is<Exit> Part>
void fields(F& f, Part& exit) {
  f.number("result", exit.result, -1, "@");
  f.number("handled", exit.handled, -1, "@");
  f.list("owned", exit.owned, "%");
  f.number("break", exit.break_index, -1);
  f.number("error", exit.error, kNoConstant, "#");
}

template <typename F, Is<RaisedState> Part>
void fields(F& f, Part& raised) {
  f.number("entry", raised.entry, -1, "@");
  f.number("frame", raised.frame, -1);
  f.number("generator", raised.generator, -1, "@");
  f.number("unit", raised.unit, -1);
}

template <typename F, Is<FrameState> Part>
void fields(F& f, Part& frame) {
  f.number("code", frame.code, kNoConstant, "#");
  f.number("function", frame.function, -1, "@");
  f.number("offset", frame.offset, 0);
  f.number("depth", frame.depth, 0);
  f.name("rule", kRuleNames, frame.rule, ReturnRule::kPush);
  f.number("refusal", frame.refusal, kNoConstant, "#");
  f.number("handled", frame.handled, -1, "@");
  f.list("slots", frame.slots);
}

template <typename F, Is<Recipe> Part>
void fields(F& f, Part& recipe) {
  f.number("value", recipe.value, kNoValue, "%");
  f.number("constant", recipe.constant, kNoConstant, "#");
  f.list("parts", recipe.parts, "@");
}

template <typename F, Is<BreakRecord> Part>
void fields(F& f, Part& record) {
  f.text("context", record.context);
  f.text("explanation", record.explanation);
  f.text("instruction", record.instruction);
}

template <typename F, Is<KernelCall> Part>
void fields(F& f, Part& call) {
  f.text("space", call.space);
  f.number("reduced", call.reduced_dims, 0u);
  f.number("flat", call.flat, true);
  f.number("count", call.count, int64_t{0});
  f.list("kinds", call.operand_kinds);
  f.spec(call.spec);
}

template <typename F, Is<Attributes> Part>
void fields(F& f, Part& attributes) {
  f.number("dims", attributes.dims, 0u);
  f.number("has_dim", attributes.has_dim, false);
  f.number("keepdim", attributes.keepdim, false);
  f.number("dim", attributes.dim, 0);
  f.number("has_dtype", attributes.has_dtype, false);
  if (attributes.has_dtype) f.dtype("dtype_asked", attributes.dtype);
  f.count("rank", attributes.shape.rank, kMaxRank);
  f.array("sizes", attributes.shape.sizes, attributes.shape.rank, kMaxRank);
  f.array("strides", attributes.shape.strides, attributes.shape.rank, kMaxRank);
  f.number("start", attributes.start, 0.0);
  f.number("step", attributes.step, 1.0);
  f.number("int_start", attributes.int_start, int64_t{0});
  f.number("int_step", attributes.int_step, int64_t{1});
  f.number("seed", attributes.seed, uint64_t{0});
  f.number("draw", attributes.draw, uint64_t{0});
}

template <typename F, Is<KernelInput> Part>
void fields(F& f, Part& input) {
  f.dtype("dtype", input.dtype);
  f.number("number", input.is_number, false);
  f.name("access", kAccessNames, input.access, Access::kContiguous);
}

template <typename F, Is<GroupNode> Part>
void fields(F& f, Part& node) {
  constexpr int kOperands = std::size(decltype(GroupNode::operands){});
  f.op("op", node.op);
  f.dtype("dtype", node.dtype);
  f.dtype("compute", node.compute);
  f.array("operands", node.operands, kOperands, kOperands);
  fields(f, node.attributes);
}

template <typename F, Is<OpCall> Part>
void fields(F& f, Part& call) {
  f.op("op", call.op);
  f.list("kinds", call.operand_kinds);
  fields(f, call.attributes);
}

// ---- Lines --------------------------------------------------------------------------------------

void write_constant(Writer& out, const Constant& constant) {
  out.word(kConstantNames[static_cast<int>(constant.kind)]);
  switch (constant.kind) {
    case ConstantKind::kInt: out.word(std::to_string(constant.i64)); break;
    case ConstantKind::kFloat: out.word(number_text(constant.f64)); break;
    default: out.word(quoted(constant.text)); break;
  }
}

Constant read_constant(Line& line) {
  Constant constant;
  constant.kind = line.choose<ConstantKind>(kConstantNames, line.word("a constant's kind"), "kind of constant");
  const std::string value = line.word("the constant's value");
  if (constant.kind == ConstantKind::kInt) {
    constant.i64 = line.fitting<int64_t>(value);
  } else if (constant.kind == ConstantKind::kFloat) {
    constant.f64 = line.floating(value);
  } else {
    constant.text = value;
  }
  return constant;
}

// "word kind fields": guards and steps by kind, exits, recipes and breaks with a name each.
template <typename Part>
void write_named(Writer& out, Names names, int kind, const Part& part) {
  out.word(names[static_cast<size_t>(kind)]);
  fields(out, part);
}
template <typename Kind, typename Part>
void read_named(Line& line, Names names, const char* what, Kind* kind, Part* part) {
  *kind = line.choose<Kind>(names, line.word(what), what);
  fields(line, *part);
}

void read_line(Line& line, Plan* plan) {
  const std::string what = line.word("a line's first word");
  auto number = [&](size_t expected) {  // the parts' numbers are for readers: they must be in order
    if (line.fitting<size_t>(line.word("a number")) != expected) {
      line.fail("expected number " + std::to_string(expected));
    }
  };
  if (what == "plan") {
    plan->name = line.word("the plan's name");
    line.number("values", plan->value_count, 0);
    line.number("final", plan->final_exit, kNoExit);
  } else if (what == "constant") {
    number(plan->constants.size());
    plan->constants.push_back(read_constant(line));
  } else if (what == "source") {
    number(plan->sources.size());
    plan->sources.push_back(line.word("a source"));
  } else if (what == "guard") {
    Guard& guard = plan->guards.emplace_back();
    read_named(line, kGuardNames, "kind of guard", &guard.kind, &guard);
  } else if (what == "step") {
    Step& step = plan->steps.emplace_back();
    read_named(line, kStepNames, "kind of step", &step.kind, &step);
  } else if (what == "exit") {
    number(plan->exits.size());
    Exit& exit = plan->exits.emplace_back();
    read_named(line, kExitNames, "kind of exit", &exit.kind, &exit);
  } else if (what == "frame" && !plan->exits.empty()) {
    fields(line, plan->exits.back().frames.emplace_back());
  } else if (what == "raised" && !plan->exits.empty()) {
    fields(line, plan->exits.back().raised.emplace_back());
  } else if (what == "recipe") {
    number(plan->recipes.size());
    Recipe& recipe = plan->recipes.emplace_back();
    read_named(line, kRecipeNames, "kind of recipe", &recipe.kind, &recipe);
  } else if (what == "break") {
    BreakRecord& record = plan->breaks.emplace_back();
    read_named(line, kBreakNames, "reason to break", &record.reason, &record);
  } else if (what == "at" && !plan->breaks.empty()) {
    plan->breaks.back().stack.push_back(line.word("a place"));
  } else if (what == "kernel") {
    fields(line, plan->kernels.emplace_back());
  } else if (what == "group") {
    line.list("outputs", plan->groups.emplace_back().outputs);
  } else if (what == "input" && !plan->groups.empty()) {
    fields(line, plan->groups.back().inputs.emplace_back());
  } else if (what == "node" && !plan->groups.empty()) {
    fields(line, plan->groups.back().nodes.emplace_back());
  } else if (what == "op") {
    fields(line, plan->ops.emplace_back());
  } else if (what == "graph") {
    plan->graph.push_back(line.word("an operation"));
  } else {
    line.fail("\"" + what + "\" begins no line of a plan here");
  }
  line.finish();
}

}  // namespace

std::string to_text(const Plan& plan) {
  Writer out;
  out.line("plan").word(quoted(plan.name));
  out.number("values", plan.value_count, 0);
  out.number("final", plan.final_exit, kNoExit, "!");
  for (size_t i = 0; i < plan.constants.size(); ++i) write_constant(out.line("constant").id("#", i), plan.constants[i]);
  for (size_t i = 0; i < plan.sources.size(); ++i) out.line("source").id("", i).word(quoted(plan.sources[i]));
  for (const Guard& guard : plan.guards)
    write_named(out.line("guard"), kGuardNames, static_cast<int>(guard.kind), guard);
  for (const Step& step : plan.steps) write_named(out.line("step"), kStepNames, static_cast<int>(step.kind), step);
  for (size_t i = 0; i < plan.exits.size(); ++i) {
    const Exit& exit = plan.exits[i];
    write_named(out.line("exit").id("!", i), kExitNames, static_cast<int>(exit.kind), exit);
    for (const FrameState& frame : exit.frames) fields(out.line("  frame"), frame);
    for (const RaisedState& raised : exit.raised) fields(out.line("  raised"), raised);
  }
  for (size_t i = 0; i < plan.recipes.size(); ++i) {
    const Recipe& recipe = plan.recipes[i];
    write_named(out.line("recipe").id("@", i), kRecipeNames, static_cast<int>(recipe.kind), recipe);
  }
  for (const BreakRecord& record : plan.breaks) {
    write_named(out.line("break"), kBreakNames, record.reason, record);
    for (const std::string& place : record.stack) out.line("  at").word(quoted(place));
  }
  for (const KernelCall& call : plan.kernels) fields(out.line("kernel"), call);
  for (const Group& group : plan.groups) {
    out.line("group").list("outputs", group.outputs);
    for (const KernelInput& input : group.inputs) fields(out.line("  input"), input);
    for (const GroupNode& node : group.nodes) fields(out.line("  node"), node);
  }
  for (const OpCall& call : plan.ops) fields(out.line("op"), call);
  for (const std::string& operation : plan.graph) out.line("graph").word(quoted(operation));
  return out.take();
}

bool parse_plan(const std::string& text, Plan* out, std::string* error) {
  *out = Plan{};
  error->clear();
  std::string_view rest = text;
  for (int number = 1; !rest.empty(); ++number) {
    size_t end = std::min(rest.find('\n'), rest.size());
    Line line(rest.substr(0, end), error);
    if (!line.empty()) read_line(line, out);
    if (!error->empty()) {
      *error = "line " + std::to_string(number) + ": " + *error;
      return false;
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return true;
}

}  // namespace kintsugi
