// Interned tensor layouts: (dtype, sizes, strides) has one address while anyone uses it, so that comparing two
// layouts, and guarding one, is a pointer compare. Counted: a layout leaves the table with its last user.
#pragma once
#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "kernels/dtype.h"

namespace kintsugi {

inline constexpr int kMaxRank = 8;

// sizes and strides without a table entry: what view rules work on. Strides are in elements.
struct Shape {
  int rank = 0;
  int64_t sizes[kMaxRank] = {};
  int64_t strides[kMaxRank] = {};
};

struct Layout {
  std::atomic<int64_t> references;
  DType dtype;
  uint8_t rank;
  bool contiguous;       // row-major without gaps (sizes of 1 may have any stride)
  uint8_t gradients;     // Gradients: what the tensor is to differentiation; the same memory under another address
  bool overlaps_itself;  // two indices reach one element (a stride of 0 with a size above 1, or the like)
  int64_t count;         // elements
  int64_t low, high;     // lowest and one past the highest element offset reached from data (0, 0 when empty)
  int64_t sizes[kMaxRank];
  int64_t strides[kMaxRank];  // elements, not bytes
  // Dimensions, bit by bit, that the user has marked on a tensor: the same memory under another address, so that what
  // was compiled for unmarked tensors does not take it. Results and views are never marked.
  uint8_t marked_dynamic, marked_static;
  uint64_t hash;
  Layout* next;  // of the same bucket; the table's own
};

// Bits of Layout::gradients. They are part of the layout, so that the one compare of a tensor's guard tells them.
enum Gradients : uint8_t {
  kRequiresGrad = 1,
  kComputed = 2,  // by an operation: no leaf
  kLeafView = 4,  // of the memory of a leaf
  kParameter = 8,
  kGradientBits = 15,
};

// One more reference to the one layout with these facts. Thread-safe.
Layout* intern_layout(DType dtype, const Shape& shape, uint8_t gradients = 0);
Layout* intern_marked(const Layout& layout, uint8_t dynamic, uint8_t fixed);
Layout* intern_gradients(const Layout& layout, uint8_t gradients);
Layout* intern_contiguous(DType dtype, std::span<const int64_t> sizes);
inline void retain(Layout* layout) { layout->references.fetch_add(1, std::memory_order_relaxed); }
void release(Layout* layout);
size_t live_layouts();  // table size, for tests

Shape shape_of(const Layout& layout);
void set_contiguous_strides(Shape* shape);
// "f32[2,3]{3,1}", marked "f32[2,3]{3,1}!1,0", with gradients "f32[2,3]{3,1}^1"; parse is its inverse and returns null
// on bad text.
std::string to_text(const Layout& layout);
std::string sizes_text(std::span<const int64_t> sizes);  // "[2, 3]", as error texts say it
Layout* parse_layout(const std::string& text);

// View rules. Each changes shape in place and adds to *offset (elements). They return false and set *error when the
// arguments do not fit; the text names both sides.
struct OpError;
bool slice_dim(Shape*, int64_t* offset, int dim, int64_t start, int64_t stop, int64_t step, OpError*);
bool select_dim(Shape*, int64_t* offset, int dim, int64_t index, OpError*);  // integer index, negative from the end
bool transpose_dims(Shape*, int a, int b, OpError*);
bool expand_to(Shape*, std::span<const int64_t> sizes, OpError*);  // -1 keeps a size
// Reshape without a copy; *needs_copy says that no view exists. One size may be -1.
bool reshape_to(Shape*, std::span<const int64_t> sizes, bool* needs_copy, OpError*);
bool broadcast(const Shape& a, const Shape& b, Shape* out, OpError*);  // sizes only

}  // namespace kintsugi
