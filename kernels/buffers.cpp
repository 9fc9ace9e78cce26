// Tensor memory from mimalloc. One block holds the header, padded to a cache line, and the data behind it. The last few
// large blocks given back are kept: the first touch of fresh pages costs more than the arithmetic on them.
#include "kernels/buffers.h"

#include <mimalloc.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>

namespace kintsugi {

namespace {

constexpr size_t kHeaderBytes = 64;
static_assert(sizeof(Buffer) <= kHeaderBytes);

// Under AddressSanitizer its own allocator, so that it sees accesses beyond a block.
#ifdef __SANITIZE_ADDRESS__
void* allocate_block(size_t bytes) { return std::aligned_alloc(64, (bytes + 63) & ~size_t{63}); }
void free_block(void* block) { std::free(block); }
constexpr size_t kKeepFrom = SIZE_MAX;
#else
void* allocate_block(size_t bytes) { return mi_malloc_aligned(bytes, 64); }
void free_block(void* block) { mi_free(block); }
constexpr size_t kKeepFrom = 256 << 10;  // smaller blocks mimalloc reuses well by itself
#endif

// A counter that costs no locked instruction: each thread has a cell of its own, the threads beyond the last share it.
struct alignas(64) Cell {
  std::atomic<int64_t> value{0};
  std::atomic<bool> owned{false};
};
constexpr int kCells = 64;
Cell cells[kCells];

struct CellOwner {
  int index = -1;
  ~CellOwner() {
    if (index >= 0 && index < kCells - 1) cells[index].owned.store(false, std::memory_order_release);
    index = -1;
  }
  int take() {
    for (index = 0; index < kCells - 1; index++) {
      if (!cells[index].owned.exchange(true, std::memory_order_acquire)) break;
    }
    return index;
  }
};

void count_live(int64_t change) {
  static thread_local CellOwner owner;
  int index = owner.index >= 0 ? owner.index : owner.take();
  std::atomic<int64_t>& value = cells[index].value;
  if (index == kCells - 1) {
    value.fetch_add(change, std::memory_order_relaxed);
  } else {
    value.store(value.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
  }
}

// Large blocks at rest. bytes is the block's capacity.
struct Kept {
  void* block = nullptr;
  size_t bytes = 0;
};
constexpr size_t kKeptBytes = 256 << 20;
Kept kept[8];
size_t kept_bytes = 0;
std::mutex kept_lock;

void* take_kept(size_t bytes, size_t* capacity) {
  std::lock_guard guard(kept_lock);
  for (Kept& entry : kept) {
    if (entry.block && entry.bytes >= bytes && entry.bytes <= bytes + bytes / 4) {
      *capacity = entry.bytes;
      kept_bytes -= entry.bytes;
      return std::exchange(entry.block, nullptr);
    }
  }
  return nullptr;
}

bool keep(void* block, size_t bytes) {
  std::lock_guard guard(kept_lock);
  if (kept_bytes + bytes > kKeptBytes) return false;
  for (Kept& entry : kept) {
    if (!entry.block) {
      entry = {block, bytes};
      kept_bytes += bytes;
      return true;
    }
  }
  return false;
}

void free_all_kept() {
  std::lock_guard guard(kept_lock);
  for (Kept& entry : kept) free_block(std::exchange(entry.block, nullptr));
  kept_bytes = 0;
}

void destroy_small(Buffer* buffer) {
  count_live(-1);
  free_block(buffer);
}

// owner holds the block's capacity.
void destroy_large(Buffer* buffer) {
  count_live(-1);
  size_t capacity = reinterpret_cast<size_t>(buffer->owner);
  if (!keep(buffer, capacity)) free_block(buffer);
}

void destroy_borrowed(Buffer* buffer) {
  // The lender's function is kept behind the header; it may read the header but not free it.
  auto destroy = *reinterpret_cast<void (**)(Buffer*)>(buffer + 1);
  count_live(-1);
  destroy(buffer);
  free_block(buffer);
}

Buffer* fill_header(void* block, char* data, size_t bytes, bool read_only, void (*destroy)(Buffer*), void* owner) {
  count_live(1);
  return new (block) Buffer{1, data, bytes, read_only, destroy, owner};
}

}  // namespace

Buffer* allocate_buffer(size_t bytes) {
  if (bytes > PTRDIFF_MAX - kHeaderBytes) return nullptr;
  size_t capacity = bytes + kHeaderBytes;
  if (capacity < kKeepFrom) {
    void* block = allocate_block(capacity);
    if (!block) return nullptr;
    return fill_header(block, static_cast<char*>(block) + kHeaderBytes, bytes, /*read_only=*/false, destroy_small,
                       nullptr);
  }
  void* block = take_kept(capacity, &capacity);
  if (!block) block = allocate_block(capacity);
  if (!block) {
    free_all_kept();
    block = allocate_block(capacity);
  }
  if (!block) return nullptr;
  return fill_header(block, static_cast<char*>(block) + kHeaderBytes, bytes, /*read_only=*/false, destroy_large,
                     reinterpret_cast<void*>(capacity));
}

Buffer* borrow_buffer(void* data, size_t bytes, bool read_only, void (*destroy)(Buffer*), void* owner) {
  void* block = allocate_block(sizeof(Buffer) + sizeof(destroy));
  if (!block) return nullptr;
  *reinterpret_cast<void (**)(Buffer*)>(static_cast<Buffer*>(block) + 1) = destroy;
  return fill_header(block, static_cast<char*>(data), bytes, read_only, destroy_borrowed, owner);
}

int64_t live_buffers() {
  int64_t count = 0;
  for (const Cell& cell : cells) count += cell.value.load(std::memory_order_relaxed);
  return count;
}

}  // namespace kintsugi
