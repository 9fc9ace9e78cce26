// Machine code against the meaning: every op, dtype and layout bit for bit (any NaN equals any NaN), fused groups
// against the same ops one after the other, faults, texts. Runs with the stencil set that KINTSUGI_ISA names.
#include "kernels/cpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>

#include "kernels/reference.h"
#include "tests/unit/code_memory.h"

namespace kintsugi {
namespace {

using Random = std::mt19937_64;

TestCodeMemory& code_memory() {
  static TestCodeMemory memory(size_t{64} << 20);
  return memory;
}
class CpuTest : public testing::Test {
 protected:
  void SetUp() override { set_code_allocator(&code_memory()); }
};
using Cpu = CpuTest;

constexpr DType kDTypes[] = {DType::k_bool, DType::k_int32, DType::k_int64, DType::k_float32, DType::k_float64};

// Memory of a view's storage, with guard bytes that nothing may change.
class Tensor {
 public:
  Tensor(DType dtype, const Shape& shape) : layout_(intern_layout(dtype, shape)) {
    const size_t element = info(dtype).bytes;
    storage_.assign((layout_->high - layout_->low) * element + 2 * kGuard, char{0x5A});
    data_ = storage_.data() + kGuard - layout_->low * static_cast<int64_t>(element);
  }
  ~Tensor() { release(layout_); }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  TensorView view() const { return {layout_, const_cast<char*>(data_)}; }
  bool guards_hold() const {
    for (size_t n = 0; n < kGuard; ++n) {
      if (storage_[n] != 0x5A || storage_[storage_.size() - 1 - n] != 0x5A) return false;
    }
    return true;
  }
  char* element(int64_t index) const {
    int64_t offset = 0;
    for (int d = layout_->rank - 1; d >= 0; --d) {
      offset += index % layout_->sizes[d] * layout_->strides[d];
      index /= layout_->sizes[d];
    }
    return const_cast<char*>(data_) + offset * static_cast<int64_t>(info(layout_->dtype).bytes);
  }
  void fill(Random& random);

 private:
  static constexpr size_t kGuard = 64;
  Layout* layout_;
  std::vector<char> storage_;
  char* data_;
};

template <typename T>
T draw_float(Random& random) {
  const T special[] = {T(0),
                       T(-0.0),
                       T(1),
                       T(-1),
                       T(0.5),
                       T(-3),
                       std::numeric_limits<T>::infinity(),
                       -std::numeric_limits<T>::infinity(),
                       std::numeric_limits<T>::quiet_NaN(),
                       std::numeric_limits<T>::denorm_min(),
                       std::numeric_limits<T>::max(),
                       T(1e6),
                       T(2147483648.0)};
  if (random() % 4 == 0) return special[random() % std::size(special)];
  return static_cast<T>((static_cast<double>(random() % 2000001) - 1e6) / 1e5);
}
template <typename T>
T draw_int(Random& random) {
  const T special[] = {0, 1, -1, 2, -7, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
  if (random() % 4 == 0) return special[random() % std::size(special)];
  return static_cast<T>(random() % 41) - 20;
}
void draw(Random& random, DType dtype, void* to) {
  auto put = [&](auto value) { std::memcpy(to, &value, sizeof value); };
  switch (dtype) {
    case DType::k_bool: return put(static_cast<uint8_t>(random() & 1));
    case DType::k_int32: return put(draw_int<int32_t>(random));
    case DType::k_int64: return put(draw_int<int64_t>(random));
    case DType::k_float32: return put(draw_float<float>(random));
    case DType::k_float64: return put(draw_float<double>(random));
  }
}
void Tensor::fill(Random& random) {
  for (int64_t n = 0; n < layout_->count; ++n) draw(random, layout_->dtype, element(n));
}

bool is_nan(DType dtype, const char* element) {
  float narrow;
  double wide;
  if (dtype == DType::k_float32) return std::memcpy(&narrow, element, 4), std::isnan(narrow);
  if (dtype == DType::k_float64) return std::memcpy(&wide, element, 8), std::isnan(wide);
  return false;
}
std::string text_of(DType dtype, const char* element) {
  char text[64];
  int64_t whole = 0;
  double real = 0;
  float narrow = 0;
  const size_t bytes = info(dtype).bytes;
  if (dtype == DType::k_float32) std::memcpy(&narrow, element, 4), real = narrow;
  if (dtype == DType::k_float64) std::memcpy(&real, element, 8);
  std::memcpy(&whole, element, bytes);
  std::snprintf(text, sizeof text, "%.17g (%llx)", real, static_cast<unsigned long long>(whole));
  return text;
}
testing::AssertionResult same_bits(const Tensor& got, const Tensor& want) {
  const DType dtype = want.view().layout->dtype;
  for (int64_t n = 0; n < want.view().layout->count; ++n) {
    const char *a = got.element(n), *b = want.element(n);
    if (std::memcmp(a, b, info(dtype).bytes) == 0 || (is_nan(dtype, a) && is_nan(dtype, b))) continue;
    return testing::AssertionFailure() << "element " << n << ": " << text_of(dtype, a) << ", meant "
                                       << text_of(dtype, b);
  }
  if (!got.guards_hold()) return testing::AssertionFailure() << "wrote outside of the output";
  return testing::AssertionSuccess();
}

Shape shape(std::initializer_list<int64_t> sizes) {
  Shape result;
  for (int64_t size : sizes) result.sizes[result.rank++] = size;
  set_contiguous_strides(&result);
  return result;
}
// The layouts of the table: sizes stay, strides vary.
enum class Form { kContiguous, kTransposed, kBroadcast, kSliced, kReversed };
constexpr Form kForms[] = {Form::kContiguous, Form::kTransposed, Form::kBroadcast, Form::kSliced, Form::kReversed};
Shape in_form(Shape sizes, Form form) {
  set_contiguous_strides(&sizes);
  if (form == Form::kTransposed) {
    int64_t stride = 1;
    for (int d = 0; d < sizes.rank; ++d) {
      sizes.strides[d] = stride;
      stride *= std::max<int64_t>(1, sizes.sizes[d]);
    }
  }
  if (form == Form::kBroadcast && sizes.rank > 0) sizes.strides[sizes.rank == 1 ? 0 : sizes.rank - 2] = 0;
  for (int d = 0; d < sizes.rank; ++d) {
    if (form == Form::kSliced) sizes.strides[d] *= 3;
    if (form == Form::kReversed) sizes.strides[d] *= -1;
  }
  return sizes;
}

// Runs op both ways over these operands and compares; the operands' shapes broadcast. False: the rule refuses it.
bool compare(Op op, const std::vector<OperandValue>& operands, const Attributes& attributes, Form out_form) {
  std::vector<Operand> facts(operands.size());
  for (size_t n = 0; n < operands.size(); ++n) {
    facts[n].is_number = operands[n].is_number;
    facts[n].dtype = operands[n].is_number ? operands[n].number_dtype : operands[n].view.layout->dtype;
    if (!operands[n].is_number) facts[n].shape = shape_of(*operands[n].view.layout);
  }
  Result result;
  OpError error, error_meant;
  if (!infer(op, facts, attributes, &result, &error)) return false;
  const Tensor got(result.dtype, in_form(result.shape, out_form)), want(result.dtype, result.shape);
  const bool done = run_op(op, operands, attributes, got.view(), &error);
  const bool done_meant = run_reference(op, operands, attributes, want.view(), &error_meant);
  EXPECT_EQ(done, done_meant) << info(op).name << " " << error.text << " / " << error_meant.text;
  if (!done || !done_meant) {
    EXPECT_EQ(error.kind, error_meant.kind) << error.text << " / " << error_meant.text;
    return true;
  }
  EXPECT_TRUE(same_bits(got, want)) << info(op).name << " of " << info(facts[0].dtype).name << " "
                                    << (operands[0].is_number ? "number" : to_text(*operands[0].view.layout));
  return true;
}

OperandValue number_operand(Random& random, DType dtype) {
  OperandValue operand{.is_number = true, .number_dtype = dtype};
  if (dtype == DType::k_float64) {
    operand.number.f64 = draw_float<double>(random);
  } else {
    operand.number.i64 = dtype == DType::k_bool ? static_cast<int64_t>(random() & 1) : draw_int<int32_t>(random);
  }
  return operand;
}

void compare_elementwise(Op op, DType dtype, const Shape& sizes, Form form, Form second_form, Random& random) {
  const int arity = info(op).arity;
  std::vector<std::unique_ptr<Tensor>> tensors;
  std::vector<OperandValue> operands;
  for (int n = 0; n < arity; ++n) {
    const DType own = info(op).dtype_rule == DTypeRule::kChoose && n == 0 ? DType::k_bool : dtype;
    tensors.push_back(std::make_unique<Tensor>(own, in_form(sizes, n == 1 ? second_form : form)));
    tensors.back()->fill(random);
    // Most integer divisions should succeed.
    if (info(op).may_raise && n == 1 && random() % 8 != 0) {
      for (int64_t k = 0; k < tensors.back()->view().layout->count; ++k) {
        char* element = tensors.back()->element(k);
        if (std::all_of(element, element + info(own).bytes, [](char byte) { return byte == 0; })) *element = 3;
      }
    }
    operands.push_back({.view = tensors.back()->view()});
  }
  Attributes attributes;
  if (op == Op::k_convert) {
    for (DType target : kDTypes) {
      attributes.has_dtype = true;
      attributes.dtype = target;
      compare(op, operands, attributes, second_form == Form::kBroadcast ? Form::kContiguous : second_form);
    }
    return;
  }
  compare(op, operands, attributes, Form::kContiguous);
  if (form != Form::kBroadcast) compare(op, operands, attributes, form);
  if (arity == 3) {
    for (DType kind : {DType::k_bool, DType::k_int64, DType::k_float64}) {
      compare(op, {operands[0], number_operand(random, kind), operands[2]}, attributes, Form::kContiguous);
      compare(op, {operands[0], operands[1], number_operand(random, kind)}, attributes, Form::kContiguous);
      compare(op, {number_operand(random, DType::k_bool), operands[1], operands[2]}, attributes, Form::kContiguous);
    }
  }
  if (arity == 2) {  // with a number on either side
    for (DType kind : {DType::k_bool, DType::k_int64, DType::k_float64}) {
      const OperandValue number = number_operand(random, kind);
      compare(op, {operands[0], number}, attributes, Form::kContiguous);
      compare(op, {number, operands[1]}, attributes, Form::kContiguous);
    }
  }
}

template <typename F>
void for_each_op(OpClass op_class, F visit) {
  for (int n = 0; n < static_cast<int>(Op::kCount); ++n) {
    if (info(static_cast<Op>(n)).op_class == op_class) visit(static_cast<Op>(n));
  }
}

TEST_F(Cpu, EveryElementwiseOpAtEveryLength) {
  Random random(1);
  for_each_op(OpClass::kElementwise, [&](Op op) {
    for (DType dtype : kDTypes) {
      for (int64_t length = 0; length <= 70; ++length) {
        compare_elementwise(op, dtype, shape({length}), Form::kContiguous, Form::kContiguous, random);
      }
    }
  });
}

TEST_F(Cpu, EveryElementwiseOpInEveryLayout) {
  Random random(2);
  const Shape shapes[] = {shape({}), shape({19}), shape({5, 7}), shape({16, 33}), shape({3, 1, 18}), shape({0, 4})};
  for_each_op(OpClass::kElementwise, [&](Op op) {
    for (DType dtype : kDTypes) {
      for (const Shape& sizes : shapes) {
        for (Form form : kForms) {
          for (Form second : kForms) compare_elementwise(op, dtype, sizes, form, second, random);
        }
      }
    }
  });
}

TEST_F(Cpu, OperandsOfDifferentShapesAndDTypes) {
  Random random(3);
  const Shape pairs[][2] = {{shape({4, 5}), shape({5})},         {shape({4, 1}), shape({1, 9})},
                            {shape({2, 3, 20}), shape({3, 1})},  {shape({}), shape({33})},
                            {shape({17}), shape({1})},           {shape({1, 1}), shape({6, 6})},
                            {shape({3, 1, 2}), shape({1, 4, 1})}};
  for_each_op(OpClass::kElementwise, [&](Op op) {
    if (info(op).arity != 2) return;
    for (DType left : kDTypes) {
      for (DType right : kDTypes) {
        for (const auto& pair : pairs) {
          Tensor a(left, pair[0]), b(right, pair[1]);
          a.fill(random);
          b.fill(random);
          compare(op, {{.view = a.view()}, {.view = b.view()}}, {}, Form::kContiguous);
          compare(op, {{.view = b.view()}, {.view = a.view()}}, {}, Form::kTransposed);
        }
      }
    }
  });
}

TEST_F(Cpu, EveryReduction) {
  Random random(4);
  std::vector<Shape> shapes = {shape({}),        shape({4, 6}),    shape({3, 5, 7}), shape({2, 40, 3}),
                               shape({0}),       shape({0, 3}),    shape({3, 0}),    shape({5000}),
                               shape({2, 9000}), shape({130, 70}), shape({1, 16, 1})};
  for (int64_t length = 1; length <= 70; ++length) shapes.push_back(shape({length}));
  for_each_op(OpClass::kReduction, [&](Op op) {
    for (DType dtype : kDTypes) {
      for (const Shape& sizes : shapes) {
        for (Form form : kForms) {
          Tensor tensor(dtype, in_form(sizes, form));
          tensor.fill(random);
          Attributes attributes;
          for (uint32_t dims = 0; dims < 1u << sizes.rank; ++dims) {
            attributes.dims = dims;
            attributes.has_dim = dims != 0;
            attributes.dim = dims != 0 ? __builtin_ctz(dims) : 0;
            if (op == Op::k_argmax && __builtin_popcount(dims) > 1) continue;
            attributes.keepdim = random() & 1;
            compare(op, {{.view = tensor.view()}}, attributes, form == Form::kBroadcast ? Form::kContiguous : form);
          }
        }
      }
    }
  });
}

TEST_F(Cpu, SmallMatrixProducts) {
  Random random(5);
  for (DType dtype : kDTypes) {
    for (int64_t m = 1; m <= 8; ++m) {
      for (int64_t k = 0; k <= 8; ++k) {
        for (int64_t n = 1; n <= 8; n += 1 + (random() & 1)) {
          const Form form = kForms[random() % 5], second = kForms[random() % 5];
          Tensor a(dtype, in_form(shape({m, k}), form)), b(dtype, in_form(shape({k, n}), second));
          a.fill(random);
          b.fill(random);
          compare(Op::k_matmul, {{.view = a.view()}, {.view = b.view()}}, {}, Form::kContiguous);
        }
      }
    }
    const Shape pairs[][2] = {{shape({3}), shape({3})},
                              {shape({4, 3}), shape({3})},
                              {shape({3}), shape({3, 5})},
                              {shape({2, 4, 3}), shape({3, 2})},
                              {shape({2, 1, 4, 3}), shape({5, 3, 2})}};
    for (const auto& pair : pairs) {
      Tensor a(dtype, pair[0]), b(dtype, pair[1]);
      a.fill(random);
      b.fill(random);
      compare(Op::k_matmul, {{.view = a.view()}, {.view = b.view()}}, {}, Form::kContiguous);
    }
  }
}

TEST_F(Cpu, LargeMatrixProductsAreClose) {
  Random random(6);
  for (int64_t size : {9, 20, 33}) {
    for (Form form : {Form::kContiguous, Form::kTransposed, Form::kSliced, Form::kReversed}) {
      Tensor a(DType::k_float64, in_form(shape({size, size + 2}), form)), b(DType::k_float64, shape({size + 2, 12}));
      for (const Tensor* tensor : {&a, &b}) {
        for (int64_t n = 0; n < tensor->view().layout->count; ++n) {
          const double value = static_cast<double>(random() % 200) - 100;
          std::memcpy(tensor->element(n), &value, 8);
        }
      }
      compare(Op::k_matmul, {{.view = a.view()}, {.view = b.view()}}, {}, Form::kContiguous);  // whole numbers: exact
      compare(Op::k_matmul, {{.view = a.view()}, {.view = b.view()}}, {}, Form::kTransposed);
    }
  }
}

TEST_F(Cpu, CreationAndMovement) {
  Random random(7);
  for (DType dtype : kDTypes) {
    Attributes attributes;
    attributes.has_dtype = true;
    attributes.dtype = dtype;
    attributes.shape = shape({37});
    attributes.start = 2.5;
    attributes.int_start = dtype == DType::k_bool ? 1 : -4;
    compare(Op::k_full, {}, attributes, Form::kContiguous);
    compare(Op::k_full, {}, attributes, Form::kSliced);
    Tensor a(dtype, in_form(shape({3, 4}), Form::kTransposed)), b(dtype, shape({2, 4})), c(dtype, shape({3, 4}));
    for (Tensor* tensor : {&a, &b, &c}) tensor->fill(random);
    compare(Op::k_cat, {{.view = a.view()}, {.view = b.view()}, {.view = c.view()}}, {}, Form::kContiguous);
    for (int dim : {0, 1, 2, -1}) {
      Attributes at;
      at.dim = dim;
      compare(Op::k_stack, {{.view = a.view()}, {.view = c.view()}}, at, Form::kContiguous);
    }
    compare(Op::k_copy, {{.view = a.view()}}, {}, Form::kContiguous);
  }
}

// ---- Fused groups.

// The same instructions one after the other, each result in row-major memory of its own.
void run_steps(const KernelSpec& spec, const Shape& sizes, const std::vector<TensorView>& inputs,
               const std::vector<KernelBlock::Slot>& numbers, std::vector<std::unique_ptr<Tensor>>* values) {
  OpError error;
  for (size_t n = 0; n < spec.inputs.size(); ++n) {
    values->push_back(std::make_unique<Tensor>(spec.inputs[n].dtype, sizes));
    Tensor& value = *values->back();
    if (spec.inputs[n].is_number) {
      const bool floating = info(spec.inputs[n].dtype).kind == DTypeKind::kFloatingKind;
      Attributes attributes{.has_dtype = true, .dtype = spec.inputs[n].dtype};
      attributes.shape = sizes;
      if (floating) attributes.start = numbers[n].f64;
      if (!floating) attributes.int_start = numbers[n].i64;
      ASSERT_TRUE(run_reference(Op::k_full, {}, attributes, value.view(), &error)) << error.text;
    } else {
      ASSERT_TRUE(copy_into(inputs[n], value.view(), &error)) << error.text;
    }
  }
  for (const KernelInstruction& instruction : spec.body) {
    auto value = std::make_unique<Tensor>(instruction.dtype, sizes);
    std::vector<OperandValue> operands;
    for (int j = 0; j < info(instruction.op).arity; ++j) {
      operands.push_back({.view = (*values)[instruction.operands[j]]->view()});
    }
    Attributes attributes{.has_dtype = true, .dtype = instruction.dtype};
    ASSERT_TRUE(run_reference(instruction.op, operands, attributes, value->view(), &error)) << error.text;
    values->push_back(std::move(value));
  }
}

KernelSpec random_group(Random& random) {
  KernelSpec spec;
  std::vector<DType> dtypes;
  const bool narrow = random() & 1;
  const int inputs = 1 + random() % 5, instructions = 1 + random() % 24;
  for (int n = 0; n < inputs; ++n) {
    DType dtype = kDTypes[random() % 5];
    if (narrow && info(dtype).bytes == 8) dtype = DType::k_float32;
    spec.inputs.push_back({.is_number = random() % 5 == 0, .dtype = dtype});
    dtypes.push_back(dtype);
  }
  while (static_cast<int>(spec.body.size()) < instructions) {
    const Op op = static_cast<Op>(random() % static_cast<int>(Op::kCount));
    const OpInfo& row = info(op);
    if (row.op_class != OpClass::kElementwise || row.may_raise) continue;
    KernelInstruction instruction{.op = op};
    Operand facts[3];
    for (int j = 0; j < row.arity; ++j) {
      // Mostly late values, so that groups are deep; sometimes any, so that values are shared.
      const size_t back = random() % 2 ? random() % std::min<size_t>(3, dtypes.size()) : random() % dtypes.size();
      instruction.operands[j] = static_cast<int16_t>(dtypes.size() - 1 - back);
      facts[j].dtype = dtypes[instruction.operands[j]];
      facts[j].shape = shape({1});
    }
    Attributes attributes;
    attributes.has_dtype = op == Op::k_convert;
    attributes.dtype = kDTypes[narrow ? random() % 2 : random() % 5];
    Result result;
    OpError error;
    if (!infer(op, {facts, static_cast<size_t>(row.arity)}, attributes, &result, &error)) continue;
    instruction.dtype = result.dtype;
    instruction.compute = result.compute;
    dtypes.push_back(result.dtype);
    spec.body.push_back(instruction);
  }
  const auto last = static_cast<int16_t>(dtypes.size() - 1);
  if (random() % 3 == 0) {
    const Op folds[] = {Op::k_sum, Op::k_amax, Op::k_amin, Op::k_any, Op::k_all, Op::k_mean};
    const Op op = folds[random() % 6];
    Operand facts{.dtype = dtypes[last], .shape = shape({1})};
    Result result;
    OpError error;
    if (infer(op, {&facts, 1}, {}, &result, &error)) {
      spec.outputs.push_back({.value = last, .reduces = true, .reduction = op, .dtype = result.compute});
      return spec;
    }
  }
  for (int n = 0, outputs = 1 + random() % 3; n < outputs; ++n) {
    const auto value = static_cast<int16_t>(n == 0 ? last : random() % dtypes.size());
    spec.outputs.push_back({.value = value, .dtype = dtypes[value]});
  }
  return spec;
}

void compare_group(KernelSpec spec, const Shape& sizes, Random& random) {
  std::vector<std::unique_ptr<Tensor>> storage, values;
  std::vector<TensorView> operands;
  std::vector<KernelBlock::Slot> numbers(spec.inputs.size());
  std::vector<const Layout*> layouts;
  for (size_t n = 0; n < spec.inputs.size(); ++n) {
    if (spec.inputs[n].is_number) {
      const bool floating = info(spec.inputs[n].dtype).kind == DTypeKind::kFloatingKind;
      const OperandValue number = number_operand(random, floating ? DType::k_float64 : DType::k_int64);
      numbers[n] = number.number;
      if (spec.inputs[n].dtype == DType::k_bool) numbers[n].i64 &= 1;
      operands.push_back({});
      layouts.push_back(nullptr);
      continue;
    }
    storage.push_back(std::make_unique<Tensor>(spec.inputs[n].dtype, in_form(sizes, kForms[random() % 5])));
    storage.back()->fill(random);
    operands.push_back(storage.back()->view());
    layouts.push_back(operands.back().layout);
  }
  run_steps(spec, sizes, operands, numbers, &values);

  const bool reduces = spec.outputs[0].reduces;
  const uint32_t dims = reduces && sizes.rank > 0 ? 1 + random() % ((1u << sizes.rank) - 1) : 0;
  std::vector<std::unique_ptr<Tensor>> got, want;
  Shape folded = sizes;
  for (int d = 0; d < sizes.rank; ++d) {
    if (dims >> d & 1) folded.sizes[d] = 1;
  }
  for (const KernelOutput& output : spec.outputs) {
    got.push_back(
        std::make_unique<Tensor>(output.dtype, in_form(folded, random() & 1 ? Form::kContiguous : Form::kSliced)));
    want.push_back(std::make_unique<Tensor>(output.dtype, in_form(folded, Form::kContiguous)));
    operands.push_back(got.back()->view());
    layouts.push_back(operands.back().layout);
    OpError error;
    const OperandValue value{.view = values[output.value]->view()};
    if (reduces) {
      Attributes attributes{.dims = dims, .has_dim = true, .keepdim = true};
      ASSERT_TRUE(run_reference(output.reduction, {&value, 1}, attributes, want.back()->view(), &error)) << error.text;
    } else {
      ASSERT_TRUE(run_reference(Op::k_convert, {&value, 1}, {.has_dtype = true, .dtype = output.dtype},
                                want.back()->view(), &error))
          << error.text;
    }
  }
  if (random() % 4 != 0) choose_accesses(&spec, sizes, dims, layouts);  // else run_kernel has to find its own
  OpError error;
  Kernel* kernel = acquire_kernel(spec, &error);
  ASSERT_NE(kernel, nullptr) << error.text << "\n" << to_text(spec);
  run_kernel(kernel, sizes, dims, operands, numbers);
  release_kernel(kernel);
  for (size_t n = 0; n < got.size(); ++n) EXPECT_TRUE(same_bits(*got[n], *want[n])) << to_text(spec);
}

TEST_F(Cpu, RandomGroupsEqualTheirSteps) {
  Random random(8);
  const Shape shapes[] = {shape({}),     shape({1}),     shape({7}),        shape({16}),     shape({45}),
                          shape({3, 5}), shape({17, 4}), shape({2, 3, 19}), shape({40, 40}), shape({0, 3})};
  for (int round = 0; round < 3000 && !HasFailure(); ++round) {
    const KernelSpec spec = random_group(random);
    const Shape& sizes = shapes[random() % std::size(shapes)];
    if (spec.outputs[0].reduces && sizes.rank == 2 && sizes.sizes[0] == 0) continue;  // may have no result
    compare_group(spec, sizes, random);
    KernelSpec again;
    std::string error;
    ASSERT_TRUE(parse_kernel(to_text(spec), &again, &error)) << error;
    EXPECT_EQ(again, spec);
  }
  EXPECT_GT(code_memory().live, 0);  // eager kernels stay in their table
}

TEST_F(Cpu, LongChainsAndWideTrees) {
  // A chain of additions nested to the left, to the right, and a balanced tree; 1000 instructions each.
  for (int form = 0; form < 3; ++form) {
    KernelSpec spec;
    spec.inputs.push_back({.dtype = DType::k_float32});
    spec.inputs.push_back({.dtype = DType::k_float32});
    for (int n = 0; n < 1000; ++n) {
      KernelInstruction add{.op = Op::k_sub, .dtype = DType::k_float32, .compute = DType::k_float32};
      const auto last = static_cast<int16_t>(n + 1);
      add.operands[0] = form == 0 ? last : form == 1 ? 0 : static_cast<int16_t>(std::max(0, n - 31));
      add.operands[1] = form == 0 ? 0 : form == 1 ? last : static_cast<int16_t>(std::max(0, n - 30));
      spec.body.push_back(add);
    }
    spec.outputs.push_back({.value = 1001, .dtype = DType::k_float32});
    Random random(form);
    compare_group(spec, shape({37}), random);
  }
}

TEST_F(Cpu, GroupTooLongOrMalformedIsRefused) {
  KernelSpec spec;
  std::string error;
  for (const char* text :
       {"", "in f32 contiguous", "out v0 contiguous f32",
        "in f32 contiguous; v1 = add f32 f32 v0; out v1 contiguous f32",
        "in f32 contiguous; v1 = exp f32 f32 v1; out v1 contiguous f32", "in f33 contiguous; out v0 contiguous f32",
        "in f32 contiguous; v1 = sum f32 f32 v0; out v1 contiguous f32", "in f32 contiguous; out v0 uniform f32",
        "in f32 contiguous; v2 = exp f32 f32 v0; out v2 contiguous f32", "in f32 contiguous; out v0 exp f32"}) {
    EXPECT_FALSE(parse_kernel(text, &spec, &error)) << text;
    EXPECT_FALSE(error.empty());
  }
  OpError problem;
  ASSERT_TRUE(parse_kernel("in i32 contiguous; v1 = exp i32 i32 v0; out v1 contiguous i32", &spec, &error)) << error;
  EXPECT_EQ(acquire_kernel(spec, &problem), nullptr);
  EXPECT_EQ(problem.kind, ErrorKind::kType) << problem.text;
}

// ---- Faults, aliasing, memory.

TEST_F(Cpu, DivisionByZeroIsReportedForLanesThatExist) {
  // a // (b - c): lanes past the end hold one each, so the divisor is zero there.
  for (const char* dtype : {"i32", "i64"}) {
    const std::string d = dtype;
    KernelSpec spec;
    std::string error;
    ASSERT_TRUE(parse_kernel("in " + d + " contiguous; in " + d + " contiguous; in " + d + " contiguous; v3 = sub " +
                                 d + " " + d + " v1 v2; v4 = floor_divide " + d + " " + d +
                                 " v0 v3; out v4 contiguous " + d,
                             &spec, &error))
        << error;
    const DType type = spec.inputs[0].dtype;
    OpError problem;
    Kernel* kernel = acquire_kernel(spec, &problem);
    ASSERT_NE(kernel, nullptr) << problem.text;
    for (int64_t length = 1; length <= 40; ++length) {
      Tensor a(type, shape({length})), b(type, shape({length})), c(type, shape({length})), out(type, shape({length}));
      for (int64_t n = 0; n < length; ++n) {
        int64_t values[] = {n, 9, 3};
        std::memcpy(a.element(n), &values[0], info(type).bytes);
        std::memcpy(b.element(n), &values[1], info(type).bytes);
        std::memcpy(c.element(n), &values[2], info(type).bytes);
      }
      const TensorView views[] = {a.view(), b.view(), c.view(), out.view()};
      KernelBlock::Slot numbers[4] = {};
      EXPECT_EQ(run_kernel(kernel, shape({length}), 0, views, numbers), 0u) << length;
      std::memcpy(c.element(length - 1), b.element(0), info(type).bytes);
      EXPECT_NE(run_kernel(kernel, shape({length}), 0, views, numbers), 0u) << length;
    }
    release_kernel(kernel);
  }
}

TEST_F(Cpu, InPlaceDivisionByZeroLeavesTheTensor) {
  Random random(9);
  Tensor a(DType::k_int32, shape({20})), b(DType::k_int32, shape({20})), before(DType::k_int32, shape({20}));
  a.fill(random);
  OpError error;
  ASSERT_TRUE(copy_into(a.view(), before.view(), &error));
  for (int64_t n = 0; n < 20; ++n) {
    const int32_t value = n == 18 ? 0 : 2;
    std::memcpy(b.element(n), &value, 4);
  }
  const OperandValue operands[] = {{.view = a.view()}, {.view = b.view()}};
  EXPECT_FALSE(run_op(Op::k_floor_divide, operands, {}, a.view(), &error));
  EXPECT_EQ(error.kind, ErrorKind::kZeroDivision);
  EXPECT_TRUE(same_bits(a, before));
}

TEST_F(Cpu, OverlappingViewsActAsThroughATemporary) {
  Random random(10);
  for (int64_t step : {-3, -1, 1, 2, 17}) {
    Tensor storage(DType::k_float32, shape({120})), copy(DType::k_float32, shape({120}));
    storage.fill(random);
    OpError error;
    ASSERT_TRUE(copy_into(storage.view(), copy.view(), &error));
    Layout* layout = intern_contiguous(DType::k_float32, std::array<int64_t, 1>{60});
    auto at = [&](const Tensor& tensor, int64_t n) { return TensorView{layout, tensor.element(n)}; };
    const OperandValue operands[] = {{.view = at(storage, 20)}, {.view = at(storage, 20 + step)}};
    const OperandValue apart[] = {{.view = at(copy, 20)}, {.view = at(copy, 20 + step)}};
    Tensor want(DType::k_float32, shape({60})), moved(DType::k_float32, shape({60}));
    ASSERT_TRUE(run_reference(Op::k_add, apart, {}, want.view(), &error));
    ASSERT_TRUE(run_op(Op::k_add, operands, {}, at(storage, 20), &error));
    ASSERT_TRUE(copy_into(at(storage, 20), moved.view(), &error));
    EXPECT_TRUE(same_bits(moved, want)) << step;
    EXPECT_TRUE(views_overlap(at(storage, 0), at(storage, 59)));
    EXPECT_FALSE(views_overlap(at(storage, 0), at(storage, 60)));
    release(layout);
  }
}

TEST_F(Cpu, WithoutCodeMemoryTheReferenceRuns) {
  TestCodeMemory tiny(512);
  set_code_allocator(&tiny);
  KernelSpec spec;
  std::string error;
  ASSERT_TRUE(parse_kernel("in f64 contiguous; v1 = sin f64 f64 v0; v2 = tanh f64 f64 v1; out v2 contiguous f64", &spec,
                           &error));
  OpError problem;
  EXPECT_EQ(acquire_kernel(spec, &problem), nullptr);
  EXPECT_EQ(problem.kind, ErrorKind::kMemory);
  Random random(11);
  for (DType dtype : kDTypes) {
    for (Form form : kForms) {
      Tensor a(dtype, in_form(shape({5, 9}), form)), b(dtype, shape({5, 9}));
      a.fill(random);
      b.fill(random);
      for_each_op(OpClass::kElementwise, [&](Op op) {
        if (info(op).arity == 2)
          compare(op, {{.view = a.view()}, {.view = b.view()}}, {}, form == Form::kBroadcast ? Form::kSliced : form);
      });
      for_each_op(OpClass::kReduction,
                  [&](Op op) { compare(op, {{.view = a.view()}}, {.dims = 3}, Form::kContiguous); });
      Tensor want(dtype, shape({5, 9}));
      const OperandValue operands[] = {{.view = b.view()}, {.view = a.view()}};
      ASSERT_TRUE(run_reference(Op::k_mul, operands, {}, want.view(), &problem));
      ASSERT_TRUE(run_op(Op::k_mul, operands, {}, b.view(), &problem));  // in place
      EXPECT_TRUE(same_bits(b, want));
    }
  }
}

}  // namespace
}  // namespace kintsugi
