// The table of interned layouts, their text form, and the view rules. The table is split into shards, each a small
// hash table under a spin lock: a look-up that hits costs one lock, one compare and one count.
#include "kernels/layout.h"

#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "kernels/ops.h"

namespace kintsugi {

namespace {

class SpinLock {
 public:
  void lock() {
    for (int spins = 0; taken_.exchange(true, std::memory_order_acquire); spins++) {
      if (spins > 100) std::this_thread::yield();  // the holder may have lost its processor
    }
  }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_{false};
};

struct alignas(64) Shard {
  SpinLock lock;
  size_t count = 0;
  std::vector<Layout*> buckets = std::vector<Layout*>(64);
};
constexpr int kShards = 16;

// Never destroyed: layouts are released by static objects of other files too. A fork waits until no thread is inside,
// so that the child finds every lock open.
Shard* make_shards();
Shard* shards() {
  static Shard* table = make_shards();
  return table;
}
Shard* make_shards() {
  auto unlock = [] {
    for (int i = 0; i < kShards; i++) shards()[i].lock.unlock();
  };
  auto lock = [] {
    for (int i = 0; i < kShards; i++) shards()[i].lock.lock();
  };
  pthread_atfork(lock, unlock, unlock);
  return new Shard[kShards];
}

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

Shard& shard_of(uint64_t hash) { return shards()[hash >> 60]; }
Layout** bucket_of(Shard& shard, uint64_t hash) { return &shard.buckets[hash & (shard.buckets.size() - 1)]; }

void grow(Shard& shard) {
  std::vector<Layout*> old(shard.buckets.size() * 2);
  old.swap(shard.buckets);
  for (Layout* layout : old) {
    while (layout) {
      Layout* next = layout->next;
      Layout** bucket = bucket_of(shard, layout->hash);
      layout->next = *bucket;
      *bucket = layout;
      layout = next;
    }
  }
}

// The facts that follow from sizes and strides.
void fill_facts(Layout* layout) {
  layout->count = 1;
  for (int d = 0; d < layout->rank; d++) layout->count *= layout->sizes[d];

  layout->contiguous = true;
  int64_t expected = 1;
  for (int d = layout->rank - 1; d >= 0; d--) {
    if (layout->sizes[d] != 1 && layout->strides[d] != expected && layout->count) layout->contiguous = false;
    expected *= layout->sizes[d];
  }

  layout->low = layout->high = 0;
  layout->overlaps_itself = false;
  if (!layout->count) return;
  int64_t steps[kMaxRank], reaches[kMaxRank];  // of the dims with more than one element, by rising step
  int used = 0;
  for (int d = 0; d < layout->rank; d++) {
    int64_t reach = (layout->sizes[d] - 1) * layout->strides[d];
    (reach < 0 ? layout->low : layout->high) += reach;
    if (layout->sizes[d] == 1) continue;
    int64_t step = std::abs(layout->strides[d]);
    int at = used++;
    for (; at > 0 && steps[at - 1] > step; at--) {
      steps[at] = steps[at - 1];
      reaches[at] = reaches[at - 1];
    }
    steps[at] = step;
    reaches[at] = std::abs(reach);
  }
  layout->high += 1;
  // Free of overlap if each step, from the smallest up, leaps over everything the smaller ones reach. (A few exotic
  // stride patterns that fail this have no overlap either; they are only treated with more care.)
  int64_t reach = 0;
  for (int i = 0; i < used; i++) {
    if (steps[i] <= reach) layout->overlaps_itself = true;
    reach += reaches[i];
  }
}

Layout* intern(DType dtype, int rank, const int64_t* sizes, const int64_t* strides, uint8_t dynamic = 0,
               uint8_t fixed = 0, uint8_t gradients = 0) {
  uint64_t hash = mix(static_cast<uint64_t>(dtype) + 1, rank);
  if ((dynamic | fixed | gradients) != 0) hash = mix(mix(mix(hash, dynamic), fixed), gradients);
  for (int d = 0; d < rank; d++) hash = mix(mix(hash, sizes[d]), strides[d]);
  size_t bytes = rank * sizeof(int64_t);

  Shard& shard = shard_of(hash);
  std::lock_guard guard(shard.lock);
  for (Layout* layout = *bucket_of(shard, hash); layout; layout = layout->next) {
    if (layout->hash == hash && layout->dtype == dtype && layout->rank == rank && layout->marked_dynamic == dynamic &&
        layout->marked_static == fixed && layout->gradients == gradients &&
        std::memcmp(layout->sizes, sizes, bytes) == 0 && std::memcmp(layout->strides, strides, bytes) == 0) {
      retain(layout);
      return layout;
    }
  }
  auto* layout = new Layout{};
  layout->references.store(1, std::memory_order_relaxed);
  layout->dtype = dtype;
  layout->rank = static_cast<uint8_t>(rank);
  std::copy_n(sizes, rank, layout->sizes);
  std::copy_n(strides, rank, layout->strides);
  layout->marked_dynamic = dynamic;
  layout->marked_static = fixed;
  layout->gradients = gradients;
  layout->hash = hash;
  fill_facts(layout);
  if (++shard.count > shard.buckets.size()) grow(shard);
  Layout** bucket = bucket_of(shard, hash);
  layout->next = *bucket;
  *bucket = layout;
  return layout;
}

}  // namespace

Layout* intern_layout(DType dtype, const Shape& shape, uint8_t gradients) {
  return intern(dtype, shape.rank, shape.sizes, shape.strides, 0, 0, gradients);
}

Layout* intern_marked(const Layout& layout, uint8_t dynamic, uint8_t fixed) {
  return intern(layout.dtype, layout.rank, layout.sizes, layout.strides, dynamic, fixed, layout.gradients);
}

Layout* intern_gradients(const Layout& layout, uint8_t gradients) {
  return intern(layout.dtype, layout.rank, layout.sizes, layout.strides, layout.marked_dynamic, layout.marked_static,
                gradients);
}

Layout* intern_contiguous(DType dtype, std::span<const int64_t> sizes) {
  int64_t strides[kMaxRank];
  int64_t stride = 1;
  for (int d = static_cast<int>(sizes.size()) - 1; d >= 0; d--) {
    strides[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
  return intern(dtype, static_cast<int>(sizes.size()), sizes.data(), strides);
}

// The last reference is given up under the lock, where intern() could still take a new one.
void release(Layout* layout) {
  int64_t references = layout->references.load(std::memory_order_relaxed);
  while (references > 1) {
    if (layout->references.compare_exchange_weak(references, references - 1, std::memory_order_release)) return;
  }
  Shard& shard = shard_of(layout->hash);
  std::lock_guard guard(shard.lock);
  if (layout->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  Layout** link = bucket_of(shard, layout->hash);
  while (*link != layout) link = &(*link)->next;
  *link = layout->next;
  shard.count--;
  delete layout;
}

size_t live_layouts() {
  size_t count = 0;
  for (int i = 0; i < kShards; i++) {
    std::lock_guard guard(shards()[i].lock);
    count += shards()[i].count;
  }
  return count;
}

Shape shape_of(const Layout& layout) {
  Shape shape;
  shape.rank = layout.rank;
  std::copy_n(layout.sizes, layout.rank, shape.sizes);
  std::copy_n(layout.strides, layout.rank, shape.strides);
  return shape;
}

void set_contiguous_strides(Shape* shape) {
  int64_t stride = 1;
  for (int d = shape->rank - 1; d >= 0; d--) {
    shape->strides[d] = stride;
    stride *= std::max<int64_t>(shape->sizes[d], 1);
  }
}

// ---- Text.

namespace {
std::string joined(const int64_t* values, int count, const char* separator) {
  std::string text;
  for (int i = 0; i < count; i++) text += (i ? separator : "") + std::to_string(values[i]);
  return text;
}

// "[1,2]" between the given brackets, moving *text past it.
bool parse_list(const char** text, char open, char close, int64_t* values, int* count) {
  const char* at = *text;
  *count = 0;
  if (*at++ != open) return false;
  while (*at != close) {
    if (*count == kMaxRank || (*count && *at++ != ',')) return false;
    char* end = nullptr;
    values[*count] = std::strtoll(at, &end, 10);
    if (end == at) return false;
    at = end;
    ++*count;
  }
  *text = at + 1;
  return true;
}

bool overflows(const int64_t* sizes, int rank) {
  int64_t count = 8;  // bytes of the widest element
  bool empty = false;
  for (int d = 0; d < rank; d++) empty |= sizes[d] == 0;
  if (empty) return false;
  for (int d = 0; d < rank; d++) {
    if (__builtin_mul_overflow(count, sizes[d], &count)) return true;
  }
  return false;
}

bool fail(OpError* error, ErrorKind kind, std::string text) {
  *error = {kind, std::move(text)};
  return false;
}

std::string sizes_of(const Shape& shape) { return sizes_text({shape.sizes, static_cast<size_t>(shape.rank)}); }

// A dimension, negative counting from the end.
bool normalise_dim(const Shape& shape, int* dim, OpError* error) {
  if (*dim < -shape.rank || *dim >= shape.rank) {
    return fail(error, ErrorKind::kIndex,
                "dimension " + std::to_string(*dim) + " is out of range for shape " + sizes_of(shape) + " of rank " +
                    std::to_string(shape.rank));
  }
  if (*dim < 0) *dim += shape.rank;
  return true;
}
}  // namespace

std::string sizes_text(std::span<const int64_t> sizes) {
  return "[" + joined(sizes.data(), static_cast<int>(sizes.size()), ", ") + "]";
}

std::string to_text(const Layout& layout) {
  return std::string(info(layout.dtype).short_name) + "[" + joined(layout.sizes, layout.rank, ",") + "]{" +
         joined(layout.strides, layout.rank, ",") + "}" +
         ((layout.marked_dynamic | layout.marked_static) == 0
              ? ""
              : "!" + std::to_string(layout.marked_dynamic) + "," + std::to_string(layout.marked_static)) +
         (layout.gradients == 0 ? "" : "^" + std::to_string(layout.gradients));
}

Layout* parse_layout(const std::string& text) {
  size_t bracket = text.find('[');
  if (bracket == std::string::npos) return nullptr;
  DType dtype;
  if (!parse_dtype(text.substr(0, bracket).c_str(), &dtype)) return nullptr;
  Shape shape;
  int strides = 0;
  const char* at = text.c_str() + bracket;
  if (!parse_list(&at, '[', ']', shape.sizes, &shape.rank) || !parse_list(&at, '{', '}', shape.strides, &strides) ||
      (*at && *at != '!' && *at != '^') || strides != shape.rank || overflows(shape.sizes, shape.rank)) {
    return nullptr;
  }
  for (int d = 0; d < shape.rank; d++) {
    if (shape.sizes[d] < 0) return nullptr;
  }
  int dynamic = 0, fixed = 0, gradients = 0, read = 0;
  auto in_range = [](int value, int most) { return value >= 0 && value <= most; };
  if (*at == '!') {
    if (std::sscanf(at, "!%d,%d%n", &dynamic, &fixed, &read) != 2 || !in_range(dynamic, 255) || !in_range(fixed, 255))
      return nullptr;
    at += read;
  }
  if (*at == '^') {
    if (std::sscanf(at, "^%d%n", &gradients, &read) != 1 || !in_range(gradients, kGradientBits)) return nullptr;
    at += read;
  }
  if (*at != 0) return nullptr;
  return intern(dtype, shape.rank, shape.sizes, shape.strides, static_cast<uint8_t>(dynamic),
                static_cast<uint8_t>(fixed), static_cast<uint8_t>(gradients));
}

// ---- View rules.

bool slice_dim(Shape* shape, int64_t* offset, int dim, int64_t start, int64_t stop, int64_t step, OpError* error) {
  if (!normalise_dim(*shape, &dim, error)) return false;
  if (step <= 0) {
    return fail(error, ErrorKind::kValue, "slice step must be positive, got " + std::to_string(step));
  }
  int64_t size = shape->sizes[dim];
  auto clamp = [size](int64_t index) { return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size); };
  start = clamp(start);
  stop = std::max(clamp(stop), start);
  int64_t span = stop - start;
  shape->sizes[dim] = span ? (span - 1) / step + 1 : 0;
  *offset += start * shape->strides[dim];
  // One element or none: its stride is never used, and step times stride could overflow.
  if (shape->sizes[dim] > 1) shape->strides[dim] *= step;
  return true;
}

bool select_dim(Shape* shape, int64_t* offset, int dim, int64_t index, OpError* error) {
  if (!normalise_dim(*shape, &dim, error)) return false;
  int64_t size = shape->sizes[dim];
  if (index < -size || index >= size) {
    return fail(error, ErrorKind::kIndex,
                "index " + std::to_string(index) + " is out of bounds for dimension " + std::to_string(dim) +
                    " with size " + std::to_string(size));
  }
  *offset += (index < 0 ? index + size : index) * shape->strides[dim];
  for (int d = dim; d + 1 < shape->rank; d++) {
    shape->sizes[d] = shape->sizes[d + 1];
    shape->strides[d] = shape->strides[d + 1];
  }
  shape->rank--;
  shape->sizes[shape->rank] = shape->strides[shape->rank] = 0;
  return true;
}

bool transpose_dims(Shape* shape, int a, int b, OpError* error) {
  if (shape->rank == 0 && (a == 0 || a == -1) && (b == 0 || b == -1)) return true;
  if (!normalise_dim(*shape, &a, error) || !normalise_dim(*shape, &b, error)) return false;
  std::swap(shape->sizes[a], shape->sizes[b]);
  std::swap(shape->strides[a], shape->strides[b]);
  return true;
}

bool expand_to(Shape* shape, std::span<const int64_t> sizes, OpError* error) {
  int rank = static_cast<int>(sizes.size());
  std::string both = "cannot expand shape " + sizes_of(*shape) + " to " + sizes_text(sizes) + ": ";
  if (rank < shape->rank) return fail(error, ErrorKind::kRuntime, both + "the target has fewer dimensions");
  if (rank > kMaxRank) {
    return fail(error, ErrorKind::kRuntime, both + "at most " + std::to_string(kMaxRank) + " dimensions are supported");
  }
  Shape result;
  result.rank = rank;
  for (int d = 0; d < rank; d++) {
    int from = d - (rank - shape->rank);
    int64_t size = from < 0 ? 1 : shape->sizes[from];
    int64_t wanted = sizes[d] == -1 && from >= 0 ? size : sizes[d];
    if (wanted < 0) {
      return fail(error, ErrorKind::kRuntime,
                  both + "size " + std::to_string(wanted) + " at dimension " + std::to_string(d) + " is not allowed");
    }
    if (size != wanted && size != 1) {
      return fail(error, ErrorKind::kRuntime,
                  both + "sizes " + std::to_string(size) + " and " + std::to_string(wanted) + " differ at dimension " +
                      std::to_string(d));
    }
    result.sizes[d] = wanted;
    result.strides[d] = size == wanted && from >= 0 ? shape->strides[from] : 0;
  }
  if (overflows(result.sizes, rank)) return fail(error, ErrorKind::kRuntime, both + "too many elements");
  *shape = result;
  return true;
}

namespace {
// Row-major walk of both shapes: each group of old dimensions that are evenly spaced is cut into new ones.
bool view_strides(const Shape& old, Shape* result) {
  int from = old.rank - 1, to = result->rank - 1;
  while (from >= 0 || to >= 0) {
    while (from >= 0 && old.sizes[from] == 1) from--;
    if (from < 0) {
      for (; to >= 0; to--) result->strides[to] = to + 1 < result->rank ? result->sizes[to + 1] : 1;
      break;
    }
    int64_t stride = old.strides[from], group = old.sizes[from--];
    int64_t filled = 1;
    for (; to >= 0 && (filled < group || result->sizes[to] == 1); to--) {
      // Join further old dimensions until the new size divides what is at hand.
      while (filled * result->sizes[to] > group || group % (filled * result->sizes[to])) {
        while (from >= 0 && old.sizes[from] == 1) from--;
        if (from < 0 || old.strides[from] != stride * group) return false;
        group *= old.sizes[from--];
      }
      result->strides[to] = stride * filled;
      filled *= result->sizes[to];
    }
  }
  return true;
}
}  // namespace

bool reshape_to(Shape* shape, std::span<const int64_t> sizes, bool* needs_copy, OpError* error) {
  std::string both = "cannot reshape " + sizes_of(*shape) + " to " + sizes_text(sizes) + ": ";
  if (sizes.size() > kMaxRank) {
    return fail(error, ErrorKind::kRuntime, both + "at most " + std::to_string(kMaxRank) + " dimensions are supported");
  }
  int64_t count = 1;
  for (int d = 0; d < shape->rank; d++) count *= shape->sizes[d];

  Shape result;
  result.rank = static_cast<int>(sizes.size());
  int inferred = -1;
  int64_t known = 1;
  for (int d = 0; d < result.rank; d++) {
    result.sizes[d] = sizes[d];
    if (sizes[d] == -1) {
      if (inferred >= 0) return fail(error, ErrorKind::kRuntime, both + "only one size can be -1");
      inferred = d;
    } else if (sizes[d] < 0) {
      return fail(error, ErrorKind::kRuntime, both + "size " + std::to_string(sizes[d]) + " is not allowed");
    } else if (__builtin_mul_overflow(known, sizes[d], &known)) {
      return fail(error, ErrorKind::kRuntime, both + "too many elements");
    }
  }
  if (inferred >= 0) {
    if (known == 0) return fail(error, ErrorKind::kRuntime, both + "-1 has no single meaning beside a size of 0");
    if (count % known) {
      return fail(error, ErrorKind::kRuntime,
                  both + std::to_string(count) + " elements are no multiple of " + std::to_string(known));
    }
    result.sizes[inferred] = count / known;
  } else if (known != count) {
    return fail(error, ErrorKind::kRuntime,
                both + std::to_string(count) + " elements against " + std::to_string(known));
  }

  set_contiguous_strides(&result);
  *needs_copy = count > 0 && !view_strides(*shape, &result);
  if (*needs_copy) set_contiguous_strides(&result);
  *shape = result;
  return true;
}

bool broadcast(const Shape& a, const Shape& b, Shape* out, OpError* error) {
  Shape result;
  result.rank = std::max(a.rank, b.rank);
  for (int back = 1; back <= result.rank; back++) {
    int64_t left = back <= a.rank ? a.sizes[a.rank - back] : 1;
    int64_t right = back <= b.rank ? b.sizes[b.rank - back] : 1;
    if (left != right && left != 1 && right != 1) {
      return fail(error, ErrorKind::kRuntime,
                  "shapes " + sizes_of(a) + " and " + sizes_of(b) + " cannot be broadcast together: sizes " +
                      std::to_string(left) + " and " + std::to_string(right) + " differ at dimension -" +
                      std::to_string(back));
    }
    result.sizes[result.rank - back] = left == 1 ? right : left;
  }
  if (overflows(result.sizes, result.rank)) {
    return fail(error, ErrorKind::kRuntime,
                "shapes " + sizes_of(a) + " and " + sizes_of(b) + " broadcast to too many elements");
  }
  set_contiguous_strides(&result);
  *out = result;
  return true;
}

}  // namespace kintsugi
