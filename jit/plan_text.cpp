// The text form of a plan: one line a part, `word number key=value ...`, empty fields left out. %value #constant !exit
// @recipe. Strings are quoted. parse_plan() reads exactly what to_text() writes, and names the line that it cannot read.
//
//   plan "step@0" values=4 final=!0
//   constant #0 layout "f32[8]{1}"
//   guard slot dst=%0 imm=0
//   guard tensor_layout a=%0 constant=#0
//   step tensor_new dst=%1 constant=#0 on_fail=!1
//   exit !0 return result=@0 owned=%1
//   recipe @0 value value=%1
#include <algorithm>
#include <cerrno>
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
constexpr const char* kRuleNames[] = {"push", "discard", "truth", "not_truth"};
constexpr const char* kRecipeNames[] = {
    "value", "null", "constant", "box_int", "box_float", "box_bool", "tuple", "list", "dict", "set", "slice", "cell",
    "function", "bound_method", "instance", "range", "range_iterator", "sequence_iterator", "enumerate", "zip", "map",
    "reversed", "dict_view", "dict_iterator", "partial", "call_object"};
constexpr const char* kAccessNames[] = {"contiguous", "uniform", "strided"};
static_assert(std::size(kRecipeNames) == static_cast<size_t>(RecipeKind::kCallObject) + 1);

template <typename T>
concept Enum = std::is_enum_v<T>;

// ---- Writing -----------------------------------------------------------------------------------------------------------

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
  Writer& id(const char* sigil, int64_t id) { return word(sigil + std::to_string(id)); }
  Writer& text(const char* key, const std::string& value) { return word(key + ("=" + value)); }
  Writer& quoted_text(const char* key, const std::string& value) {
    return value.empty() ? *this : text(key, quoted(value));
  }
  Writer& number(const char* key, int64_t value, int64_t usual, const char* sigil = "") {
    return value == usual ? *this : text(key, sigil + std::to_string(value));
  }
  Writer& flag(const char* key, bool value, bool usual = false) { return number(key, value, usual); }
  template <typename List>
  Writer& list(const char* key, const List& values, const char* sigil = "") {
    if (std::empty(values)) return *this;
    std::string joined;
    for (auto value : values) joined += (joined.empty() ? "" : ",") + (sigil + std::to_string(value));
    return text(key, joined);
  }
  std::string take() { return text_ + '\n'; }

 private:
  std::string text_;
};

void write(Writer& out, const Attributes& attributes) {
  const Attributes usual;
  out.number("dims", attributes.dims, 0).flag("has_dim", attributes.has_dim).flag("keepdim", attributes.keepdim);
  out.number("dim", attributes.dim, 0);
  if (attributes.has_dtype) out.text("dtype_asked", info(attributes.dtype).short_name);
  const size_t rank = static_cast<size_t>(attributes.shape.rank);
  out.number("rank", attributes.shape.rank, 0);
  out.list("sizes", std::span(attributes.shape.sizes, rank)).list("strides", std::span(attributes.shape.strides, rank));
  if (attributes.start != usual.start || std::signbit(attributes.start)) out.text("start", number_text(attributes.start));
  if (attributes.step != usual.step) out.text("step", number_text(attributes.step));
  out.number("int_start", attributes.int_start, 0).number("int_step", attributes.int_step, 1);
  out.number("seed", static_cast<int64_t>(attributes.seed), 0).number("draw", static_cast<int64_t>(attributes.draw), 0);
}

void write_guards_and_steps(Writer& out, const Plan& plan) {
  for (const Guard& guard : plan.guards) {
    out.line("guard").word(kGuardNames[static_cast<int>(guard.kind)]);
    out.number("dst", guard.dst, kNoValue, "%").number("a", guard.a, kNoValue, "%").number("b", guard.b, kNoValue, "%");
    out.number("constant", guard.constant, kNoConstant, "#").number("imm", guard.imm, 0).number("source", guard.source, -1);
  }
  for (const Step& step : plan.steps) {
    out.line("step").word(kStepNames[static_cast<int>(step.kind)]);
    out.number("dst", step.dst, kNoValue, "%").number("a", step.a, kNoValue, "%").number("b", step.b, kNoValue, "%");
    out.number("c", step.c, kNoValue, "%").number("constant", step.constant, kNoConstant, "#").number("imm", step.imm, 0);
    out.number("index", step.index, -1).list("list", step.list, "%").number("on_fail", step.on_fail, kNoExit, "!");
  }
}

void write_exits(Writer& out, const Plan& plan) {
  for (size_t i = 0; i < plan.exits.size(); ++i) {
    const Exit& exit = plan.exits[i];
    out.line("exit").id("!", static_cast<int64_t>(i)).word(kExitNames[static_cast<int>(exit.kind)]);
    out.number("result", exit.result, -1, "@").list("owned", exit.owned, "%").number("break", exit.break_index, -1);
    out.number("error", exit.error, kNoConstant, "#");
    for (const FrameState& frame : exit.frames) {
      out.line("  frame").number("code", frame.code, kNoConstant, "#").number("function", frame.function, -1, "@");
      out.number("offset", frame.offset, 0).number("depth", frame.depth, 0);
      if (frame.rule != ReturnRule::kPush) out.text("rule", kRuleNames[static_cast<int>(frame.rule)]);
      std::string slots;
      for (auto [slot, recipe] : frame.slots) {
        slots += (slots.empty() ? "" : ",") + std::to_string(slot) + ":@" + std::to_string(recipe);
      }
      if (!slots.empty()) out.text("slots", slots);
    }
  }
  for (size_t i = 0; i < plan.recipes.size(); ++i) {
    const Recipe& recipe = plan.recipes[i];
    out.line("recipe").id("@", static_cast<int64_t>(i)).word(kRecipeNames[static_cast<int>(recipe.kind)]);
    out.number("value", recipe.value, kNoValue, "%").number("constant", recipe.constant, kNoConstant, "#");
    out.list("parts", recipe.parts, "@");
  }
  for (const BreakRecord& record : plan.breaks) {
    out.line("break").word(kBreakNames[record.reason]).quoted_text("context", record.context);
    out.quoted_text("explanation", record.explanation);
    for (const std::string& place : record.stack) out.line("  at").word(quoted(place));
  }
}

void write_operations(Writer& out, const Plan& plan) {
  for (const KernelCall& call : plan.kernels) {
    out.line("kernel").quoted_text("space", call.space).number("reduced", call.reduced_dims, 0).flag("flat", call.flat, true);
    out.number("count", call.count, 0).list("kinds", call.operand_kinds).quoted_text("spec", to_text(call.spec));
  }
  for (const Group& group : plan.groups) {
    out.line("group").list("outputs", group.outputs);
    for (const KernelInput& input : group.inputs) {
      out.line("  input").text("dtype", info(input.dtype).short_name).flag("number", input.is_number);
      if (input.access != Access::kContiguous) out.text("access", kAccessNames[static_cast<int>(input.access)]);
    }
    for (const GroupNode& node : group.nodes) {
      out.line("  node").text("op", info(node.op).name).text("dtype", info(node.dtype).short_name);
      out.text("compute", info(node.compute).short_name).list("operands", node.operands);
      write(out, node.attributes);
    }
  }
  for (const OpCall& call : plan.ops) {
    out.line("op").text("op", info(call.op).name).list("kinds", call.operand_kinds);
    write(out, call.attributes);
  }
  for (const std::string& operation : plan.graph) out.line("graph").word(quoted(operation));
}

// ---- Reading -----------------------------------------------------------------------------------------------------------

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
  bool has(const char* key) { return find(key) != nullptr; }

  void read(const char* key, std::string* out) {
    if (const std::string* text = find(key)) *out = *text;
  }
  template <typename T>
    requires std::is_integral_v<T>
  void read(const char* key, T* out) {
    if (const std::string* text = find(key)) *out = static_cast<T>(integer(*text));
  }
  void read(const char* key, double* out) {
    if (const std::string* text = find(key)) *out = floating(*text);
  }
  void read(const char* key, DType* out) {
    const std::string* text = find(key);
    if (text != nullptr && !parse_dtype(text->c_str(), out)) fail("\"" + *text + "\" is no dtype");
  }
  void read(const char* key, Op* out) {
    const std::string* text = find(key);
    if (text != nullptr && !parse_op(text->c_str(), out)) fail("\"" + *text + "\" is no operation");
  }
  template <Enum E>
  void read(const char* key, Names names, E* out) {
    if (const std::string* text = find(key)) *out = choose<E>(names, *text, key);
  }
  template <typename T>
  void read(const char* key, std::vector<T>* out) {
    const std::string* text = find(key);
    for (std::string_view part : split_list(text)) out->push_back(static_cast<T>(integer(part)));
  }
  void read(const char* key, std::vector<std::pair<int32_t, RecipeId>>* out) {
    for (std::string_view part : split_list(find(key))) {
      size_t colon = part.find(':');
      if (colon == std::string_view::npos) return fail("a slot is slot:@recipe, not " + std::string(part));
      out->emplace_back(static_cast<int32_t>(integer(part.substr(0, colon))),
                        static_cast<RecipeId>(integer(part.substr(colon + 1))));
    }
  }
  template <typename T>
  void read_array(const char* key, T* out, size_t room) {
    size_t i = 0;
    for (std::string_view part : split_list(find(key))) {
      if (i == room) return fail(std::string(key) + " has more than " + std::to_string(room) + " items");
      out[i++] = static_cast<T>(integer(part));
    }
  }

  template <typename E>
  E choose(Names names, const std::string& text, const char* what) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (text == names[i]) return static_cast<E>(i);
    }
    fail("\"" + text + "\" is no " + what);
    return static_cast<E>(0);
  }
  int64_t integer(std::string_view text) {
    if (!text.empty() && std::strchr("%#!@", text[0]) != nullptr) text.remove_prefix(1);
    char* end = nullptr;
    std::string copy(text);
    errno = 0;
    int64_t value = std::strtoll(copy.c_str(), &end, 10);
    if (copy.empty() || *end != 0 || errno != 0) fail("\"" + copy + "\" is no integer of 64 bits");
    return value;
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

void read(Line& line, Attributes* out) {
  line.read("dims", &out->dims);
  line.read("has_dim", &out->has_dim);
  line.read("keepdim", &out->keepdim);
  line.read("dim", &out->dim);
  out->has_dtype = line.has("dtype_asked");
  line.read("dtype_asked", &out->dtype);
  line.read("rank", &out->shape.rank);
  line.read_array("sizes", out->shape.sizes, kMaxRank);
  line.read_array("strides", out->shape.strides, kMaxRank);
  if (out->shape.rank < 0 || out->shape.rank > kMaxRank) line.fail("rank is not within 0 to 8");
  line.read("start", &out->start);
  line.read("step", &out->step);
  line.read("int_start", &out->int_start);
  line.read("int_step", &out->int_step);
  line.read("seed", &out->seed);
  line.read("draw", &out->draw);
}

Constant read_constant(Line& line) {
  Constant constant;
  constant.kind = line.choose<ConstantKind>(kConstantNames, line.word("a constant's kind"), "kind of constant");
  const std::string value = line.word("the constant's value");
  if (constant.kind == ConstantKind::kInt) {
    constant.i64 = line.integer(value);
  } else if (constant.kind == ConstantKind::kFloat) {
    constant.f64 = line.floating(value);
  } else {
    constant.text = value;
  }
  return constant;
}

Guard read_guard(Line& line) {
  Guard guard{line.choose<GuardKind>(kGuardNames, line.word("a guard's kind"), "kind of guard")};
  line.read("dst", &guard.dst);
  line.read("a", &guard.a);
  line.read("b", &guard.b);
  line.read("constant", &guard.constant);
  line.read("imm", &guard.imm);
  line.read("source", &guard.source);
  return guard;
}

Step read_step(Line& line) {
  Step step{};
  step.kind = line.choose<StepKind>(kStepNames, line.word("a step's kind"), "kind of step");
  line.read("dst", &step.dst);
  line.read("a", &step.a);
  line.read("b", &step.b);
  line.read("c", &step.c);
  line.read("constant", &step.constant);
  line.read("imm", &step.imm);
  line.read("index", &step.index);
  line.read("list", &step.list);
  line.read("on_fail", &step.on_fail);
  return step;
}

Exit read_exit(Line& line) {
  Exit exit;
  exit.kind = line.choose<ExitKind>(kExitNames, line.word("an exit's kind"), "kind of exit");
  line.read("result", &exit.result);
  line.read("owned", &exit.owned);
  line.read("break", &exit.break_index);
  line.read("error", &exit.error);
  return exit;
}

FrameState read_frame(Line& line) {
  FrameState frame;
  line.read("code", &frame.code);
  line.read("function", &frame.function);
  line.read("offset", &frame.offset);
  line.read("depth", &frame.depth);
  line.read("rule", kRuleNames, &frame.rule);
  line.read("slots", &frame.slots);
  return frame;
}

Recipe read_recipe(Line& line) {
  Recipe recipe;
  recipe.kind = line.choose<RecipeKind>(kRecipeNames, line.word("a recipe's kind"), "kind of recipe");
  line.read("value", &recipe.value);
  line.read("constant", &recipe.constant);
  line.read("parts", &recipe.parts);
  return recipe;
}

KernelCall read_kernel(Line& line) {
  KernelCall call;
  std::string spec, error;
  line.read("space", &call.space);
  line.read("reduced", &call.reduced_dims);
  line.read("flat", &call.flat);
  line.read("count", &call.count);
  line.read("kinds", &call.operand_kinds);
  line.read("spec", &spec);
  if (!parse_kernel(spec, &call.spec, &error)) line.fail("kernel: " + error);
  return call;
}

void read_line(Line& line, Plan* plan) {
  const std::string what = line.word("a line's first word");
  auto number = [&](size_t expected) {  // the parts' numbers are for readers: they must be in order
    if (line.integer(line.word("a number")) != static_cast<int64_t>(expected)) {
      line.fail("expected number " + std::to_string(expected));
    }
  };
  if (what == "plan") {
    plan->name = line.word("the plan's name");
    line.read("values", &plan->value_count);
    line.read("final", &plan->final_exit);
  } else if (what == "constant") {
    number(plan->constants.size());
    plan->constants.push_back(read_constant(line));
  } else if (what == "source") {
    number(plan->sources.size());
    plan->sources.push_back(line.word("a source"));
  } else if (what == "guard") {
    plan->guards.push_back(read_guard(line));
  } else if (what == "step") {
    plan->steps.push_back(read_step(line));
  } else if (what == "exit") {
    number(plan->exits.size());
    plan->exits.push_back(read_exit(line));
  } else if (what == "frame" && !plan->exits.empty()) {
    plan->exits.back().frames.push_back(read_frame(line));
  } else if (what == "recipe") {
    number(plan->recipes.size());
    plan->recipes.push_back(read_recipe(line));
  } else if (what == "break") {
    BreakRecord record;
    record.reason = static_cast<int32_t>(line.choose<int>(kBreakNames, line.word("a reason"), "reason to break"));
    line.read("context", &record.context);
    line.read("explanation", &record.explanation);
    plan->breaks.push_back(record);
  } else if (what == "at" && !plan->breaks.empty()) {
    plan->breaks.back().stack.push_back(line.word("a place"));
  } else if (what == "kernel") {
    plan->kernels.push_back(read_kernel(line));
  } else if (what == "group") {
    line.read("outputs", &plan->groups.emplace_back().outputs);
  } else if (what == "input" && !plan->groups.empty()) {
    KernelInput& input = plan->groups.back().inputs.emplace_back();
    line.read("dtype", &input.dtype);
    line.read("number", &input.is_number);
    line.read("access", kAccessNames, &input.access);
  } else if (what == "node" && !plan->groups.empty()) {
    GroupNode& node = plan->groups.back().nodes.emplace_back();
    line.read("op", &node.op);
    line.read("dtype", &node.dtype);
    line.read("compute", &node.compute);
    line.read_array("operands", node.operands, std::size(node.operands));
    read(line, &node.attributes);
  } else if (what == "op") {
    OpCall& call = plan->ops.emplace_back();
    line.read("op", &call.op);
    line.read("kinds", &call.operand_kinds);
    read(line, &call.attributes);
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
  out.line("plan").word(quoted(plan.name)).number("values", plan.value_count, 0).number("final", plan.final_exit, kNoExit, "!");
  for (size_t i = 0; i < plan.constants.size(); ++i) {
    const Constant& constant = plan.constants[i];
    out.line("constant").id("#", static_cast<int64_t>(i)).word(kConstantNames[static_cast<int>(constant.kind)]);
    switch (constant.kind) {
      case ConstantKind::kInt: out.word(std::to_string(constant.i64)); break;
      case ConstantKind::kFloat: out.word(number_text(constant.f64)); break;
      default: out.word(quoted(constant.text)); break;
    }
  }
  for (size_t i = 0; i < plan.sources.size(); ++i) {
    out.line("source").id("", static_cast<int64_t>(i)).word(quoted(plan.sources[i]));
  }
  write_guards_and_steps(out, plan);
  write_exits(out, plan);
  write_operations(out, plan);
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
