// Interning and counting, the text form, and the view rules against brute force over all indices.
#include "kernels/layout.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>

#include "kernels/ops.h"

namespace kintsugi {
namespace {

Shape make(std::vector<int64_t> sizes, std::vector<int64_t> strides) {
  Shape shape;
  shape.rank = static_cast<int>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), shape.sizes);
  std::copy(strides.begin(), strides.end(), shape.strides);
  return shape;
}

// Element offsets in row-major order of the indices.
std::vector<int64_t> offsets(const Shape& shape, int64_t start = 0) {
  std::vector<int64_t> result = {start};
  for (int d = 0; d < shape.rank; d++) {
    std::vector<int64_t> next;
    for (int64_t base : result) {
      for (int64_t i = 0; i < shape.sizes[d]; i++) next.push_back(base + i * shape.strides[d]);
    }
    result = next;
  }
  return result;
}

TEST(Interning, one_address_for_equal_facts) {
  size_t before = live_layouts();
  Layout* a = intern_contiguous(DType::k_float32, std::vector<int64_t>{2, 3});
  Layout* b = intern_layout(DType::k_float32, make({2, 3}, {3, 1}));
  Layout* c = intern_layout(DType::k_float32, make({2, 3}, {1, 2}));
  Layout* d = intern_contiguous(DType::k_int32, std::vector<int64_t>{2, 3});
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  EXPECT_NE(a, d);
  EXPECT_EQ(live_layouts(), before + 3);
  for (Layout* layout : {a, b, c, d}) release(layout);
  EXPECT_EQ(live_layouts(), before);
}

TEST(Interning, a_million_lengths_leave_nothing) {
  size_t before = live_layouts();
  for (int64_t n = 0; n < 1'000'000; n++) release(intern_contiguous(DType::k_float64, {&n, 1}));
  std::vector<Layout*> held;
  for (int64_t n = 0; n < 100'000; n++) held.push_back(intern_contiguous(DType::k_float64, {&n, 1}));
  EXPECT_EQ(live_layouts(), before + 100'000);
  for (Layout* layout : held) release(layout);
  EXPECT_EQ(live_layouts(), before);
}

TEST(Interning, many_threads) {
  size_t before = live_layouts();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([] {
      for (int64_t i = 0; i < 50'000; i++) {
        int64_t n = i % 7;
        Layout* layout = intern_contiguous(DType::k_bool, {&n, 1});
        retain(layout);
        EXPECT_EQ(layout->sizes[0], n);
        release(layout);
        release(layout);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(live_layouts(), before);
}

TEST(Facts, contiguous_overlap_and_reach) {
  struct Case {
    Shape shape;
    bool contiguous, overlaps;
    int64_t count, low, high;
  } cases[] = {
      {make({}, {}), true, false, 1, 0, 1},          {make({4}, {1}), true, false, 4, 0, 4},
      {make({2, 3}, {3, 1}), true, false, 6, 0, 6},  {make({3, 2}, {1, 3}), false, false, 6, 0, 6},
      {make({1, 3}, {77, 1}), true, false, 3, 0, 3}, {make({3}, {-1}), false, false, 3, -2, 1},
      {make({3, 4}, {0, 1}), false, true, 12, 0, 4}, {make({3, 4}, {2, 1}), false, true, 12, 0, 8},
      {make({0, 4}, {4, 1}), true, false, 0, 0, 0},  {make({2, 2}, {8, -2}), false, false, 4, -2, 9},
  };
  for (const Case& c : cases) {
    Layout* layout = intern_layout(DType::k_float32, c.shape);
    EXPECT_EQ(layout->contiguous, c.contiguous) << to_text(*layout);
    EXPECT_EQ(layout->overlaps_itself, c.overlaps) << to_text(*layout);
    EXPECT_EQ(layout->count, c.count) << to_text(*layout);
    EXPECT_EQ(layout->low, c.low) << to_text(*layout);
    EXPECT_EQ(layout->high, c.high) << to_text(*layout);
    release(layout);
  }
}

TEST(Text, round_trip_and_refusal) {
  for (const char* text : {"f32[2,3]{3,1}", "b8[]{}", "i64[5]{-2}", "f64[0,4]{4,1}"}) {
    Layout* layout = parse_layout(text);
    ASSERT_TRUE(layout) << text;
    EXPECT_EQ(to_text(*layout), text);
    release(layout);
  }
  for (const char* text : {"", "f32", "f16[2]{1}", "f32[2]{}", "f32[2}{1}", "f32[-2]{1}", "f32[2]{1}x", "f32[,]{,}",
                           "f32[1,1,1,1,1,1,1,1,1]{1,1,1,1,1,1,1,1,1}", "f32[4611686018427387904]{1}"}) {
    EXPECT_EQ(parse_layout(text), nullptr) << text;
  }
}

// Random views of a block; every rule must reach the elements that the definition names.
class Views : public testing::Test {
 protected:
  Shape random_shape() {
    Shape shape;
    shape.rank = static_cast<int>(random() % 4);
    int64_t stride = 1;
    std::vector<int> order;
    for (int d = 0; d < shape.rank; d++) order.insert(order.begin() + random() % (order.size() + 1), d);
    for (int d : order) {
      shape.sizes[d] = static_cast<int64_t>(random() % 5);
      if (random() % 3 == 0) stride *= 2;
      shape.strides[d] = random() % 8 == 0 ? -stride : stride;
      stride *= std::max<int64_t>(shape.sizes[d], 1);
    }
    return shape;
  }
  std::mt19937 random{11};
  OpError error;
};

TEST_F(Views, reshape_keeps_the_order_of_elements) {
  int views = 0;
  for (int round = 0; round < 20000; round++) {
    Shape shape = random_shape();
    std::vector<int64_t> before = offsets(shape);
    int64_t left = static_cast<int64_t>(before.size());
    std::vector<int64_t> sizes;
    while (sizes.size() < 3 && left > 0) {
      int64_t divisor = 1 + static_cast<int64_t>(random() % 6);
      if (left % divisor == 0) sizes.push_back(divisor), left /= divisor;
    }
    sizes.insert(sizes.begin() + random() % (sizes.size() + 1), random() % 2 && !before.empty() ? -1 : left);
    bool needs_copy = true;
    Shape result = shape;
    ASSERT_TRUE(reshape_to(&result, sizes, &needs_copy, &error)) << error.text;
    if (!needs_copy) {
      EXPECT_EQ(offsets(result), before);
      views += !before.empty();
    } else {
      // No view exists: elements next to each other in a new dimension are not evenly spaced.
      Shape contiguous = result;
      set_contiguous_strides(&contiguous);
      EXPECT_EQ(std::vector<int64_t>(result.strides, result.strides + result.rank),
                std::vector<int64_t>(contiguous.strides, contiguous.strides + contiguous.rank));
    }
  }
  EXPECT_GT(views, 5000);
}

TEST_F(Views, reshape_of_contiguous_is_contiguous) {
  for (auto [from, to] : std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>>{{{6}, {1, 6}},
                                                                                            {{6}, {6, 1}},
                                                                                            {{2, 3}, {3, 2}},
                                                                                            {{4, 1, 3}, {2, 6}},
                                                                                            {{}, {1, 1}},
                                                                                            {{1, 1}, {}},
                                                                                            {{0}, {3, 0}}}) {
    Layout* source = intern_contiguous(DType::k_float32, from);
    Layout* target = intern_contiguous(DType::k_float32, to);
    Shape shape = shape_of(*source);
    bool needs_copy = true;
    ASSERT_TRUE(reshape_to(&shape, to, &needs_copy, &error));
    EXPECT_FALSE(needs_copy);
    Layout* result = intern_layout(DType::k_float32, shape);
    EXPECT_EQ(result, target) << to_text(*result) << " " << to_text(*target);
    for (Layout* layout : {source, target, result}) release(layout);
  }
}

TEST_F(Views, slice_and_select_as_python) {
  for (int round = 0; round < 20000; round++) {
    Shape shape = random_shape();
    if (shape.rank == 0) continue;
    int dim = static_cast<int>(random() % shape.rank);
    int64_t size = shape.sizes[dim];
    int64_t start = static_cast<int64_t>(random() % 13) - 6, stop = static_cast<int64_t>(random() % 13) - 6;
    int64_t step = 1 + static_cast<int64_t>(random() % 3);
    auto position = [size](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + size : i, 0, size); };
    std::vector<int64_t> expected;
    Shape one = shape;
    one.sizes[dim] = 1;
    Shape result = shape;
    int64_t offset = 0;
    ASSERT_TRUE(slice_dim(&result, &offset, dim - (random() % 2 ? shape.rank : 0), start, stop, step, &error));
    int64_t taken = 0;
    for (int64_t i = position(start); i < position(stop); i += step) taken++;
    ASSERT_EQ(result.sizes[dim], taken);
    if (taken == 0) continue;
    for (int64_t k = 0; k < taken; k++) {  // each slab of the result is the slab of the source
      Shape slab = result;
      slab.sizes[dim] = 1;
      EXPECT_EQ(offsets(slab, offset + k * result.strides[dim]),
                offsets(one, (position(start) + k * step) * shape.strides[dim]));
    }
    int64_t at = 0;
    Shape selected = shape;
    ASSERT_TRUE(select_dim(&selected, &at, dim, position(start) - size, &error));
    EXPECT_EQ(selected.rank, shape.rank - 1);
    EXPECT_EQ(offsets(selected, at), offsets(one, position(start) * shape.strides[dim]));
  }
}

TEST_F(Views, transpose_and_expand) {
  Shape shape = make({2, 3}, {3, 1});
  ASSERT_TRUE(transpose_dims(&shape, 0, -1, &error));
  EXPECT_EQ(offsets(shape), (std::vector<int64_t>{0, 3, 1, 4, 2, 5}));
  shape = make({3, 1}, {1, 1});
  ASSERT_TRUE(expand_to(&shape, std::vector<int64_t>{2, -1, 2}, &error));
  EXPECT_EQ(offsets(shape), (std::vector<int64_t>{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}));
}

TEST_F(Views, errors_name_both_sides) {
  Shape shape = make({2, 3}, {3, 1});
  int64_t offset = 0;
  bool copy;
  auto expect = [&](bool fits, ErrorKind kind, const char* text) {
    EXPECT_FALSE(fits);
    EXPECT_EQ(error.kind, kind);
    EXPECT_EQ(error.text, text);
  };
  expect(select_dim(&shape, &offset, 0, 5, &error), ErrorKind::kIndex,
         "index 5 is out of bounds for dimension 0 with size 2");
  expect(select_dim(&shape, &offset, 2, 0, &error), ErrorKind::kIndex,
         "dimension 2 is out of range for shape [2, 3] of rank 2");
  expect(slice_dim(&shape, &offset, 0, 0, 2, -1, &error), ErrorKind::kValue, "slice step must be positive, got -1");
  expect(reshape_to(&shape, std::vector<int64_t>{4, 2}, &copy, &error), ErrorKind::kRuntime,
         "cannot reshape [2, 3] to [4, 2]: 6 elements against 8");
  expect(reshape_to(&shape, std::vector<int64_t>{-1, 4}, &copy, &error), ErrorKind::kRuntime,
         "cannot reshape [2, 3] to [-1, 4]: 6 elements are no multiple of 4");
  expect(expand_to(&shape, std::vector<int64_t>{2, 4}, &error), ErrorKind::kRuntime,
         "cannot expand shape [2, 3] to [2, 4]: sizes 3 and 4 differ at dimension 1");
  Shape out;
  expect(broadcast(shape, make({4}, {1}), &out, &error), ErrorKind::kRuntime,
         "shapes [2, 3] and [4] cannot be broadcast together: sizes 3 and 4 differ at dimension -1");
  EXPECT_EQ(offset, 0);
  EXPECT_EQ(offsets(shape).size(), 6u);
}

}  // namespace
}  // namespace kintsugi
