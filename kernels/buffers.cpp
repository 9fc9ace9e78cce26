// Tensor memory from mimalloc. One block holds the header, padded to a cache line, and the data behind it. Each thread
// keeps a few small blocks that it gave back, so that a call's result costs a few instructions, and the last few of
// middle size, since mimalloc gives a page back when its last block is freed: microseconds. The last few large
// blocks are kept for all: the first touch of fresh pages costs more than the arithmetic on them.
#include "kernels/buffers.h"

#include <mimalloc.h>
#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

namespace kintsugi {

namespace {

constexpr size_t kHeaderBytes = 64;  // is_reusable() knows it too
static_assert(sizeof(Buffer) <= kHeaderBytes);

// Under AddressSanitizer its own allocator, so that it sees accesses beyond a block.
#ifdef __SANITIZE_ADDRESS__
void* allocate_block(size_t bytes) { return std::aligned_alloc(64, (bytes + 63) & ~size_t{63}); }
void free_block(void* block) { std::free(block); }
constexpr size_t kKeepFrom = SIZE_MAX;
#else
// Whole cache lines: only their size classes have aligned blocks at hand.
void* allocate_block(size_t bytes) { return mi_malloc_aligned((bytes + 63) & ~size_t{63}, 64); }
void free_block(void* block) { mi_free(block); }
constexpr size_t kKeepFrom = 256 << 10;  // smaller blocks mimalloc reuses well by itself
#endif

// A counter that costs no locked instruction: each thread has a cell of its own, the threads beyond the last share it.
struct alignas(64) Cell {
  std::atomic<int64_t> value{0};
  std::atomic<bool> owned{false};
};
constexpr int kCells = 64, kShared = kCells - 1;
Cell cells[kCells];

// What a thread has at hand: its counter, and small blocks that it gave back, by size in cache lines.
constexpr size_t kLines = kKeepFrom == SIZE_MAX ? 1 : 18;  // header and a kilobyte; none under AddressSanitizer
constexpr int kAtRest = 16;
constexpr uint32_t kMiddle = 8;
struct ThreadMemory {
  int cell = -1;
  int8_t at_rest[kLines] = {};
  Buffer* blocks[kLines] = {};  // linked by owner
  Buffer* middle[kMiddle] = {};
  uint32_t next_middle = 0;  // goes when there is no place
  bool ended = false;        // keeps no more
};
[[gnu::tls_model("initial-exec")]] constinit thread_local ThreadMemory thread_memory;  // looked up without a call

// Gives it all back when the thread ends. What is released after that goes to mimalloc, and is counted as shared.
struct ThreadEnd {
  ~ThreadEnd() {
    ThreadMemory& memory = thread_memory;
    for (size_t lines = 0; lines < kLines; lines++) {
      memory.at_rest[lines] = kAtRest;
      while (Buffer* block = memory.blocks[lines]) {
        memory.blocks[lines] = static_cast<Buffer*>(block->owner);
        free_block(block);
      }
    }
    memory.ended = true;
    for (Buffer*& block : memory.middle)
      if (block) free_block(std::exchange(block, nullptr));
    if (memory.cell < kShared) cells[memory.cell].owned.store(false, std::memory_order_release);
    memory.cell = kShared;
  }
};

void start_thread(ThreadMemory& memory) {
  static thread_local ThreadEnd end;
  (void)&end;
  for (memory.cell = 0; memory.cell < kShared; memory.cell++) {
    if (!cells[memory.cell].owned.exchange(true, std::memory_order_acquire)) break;
  }
}

void count_live(ThreadMemory& memory, int64_t change) {
  if (memory.cell < 0) [[unlikely]]
    start_thread(memory);
  std::atomic<int64_t>& value = cells[memory.cell].value;
  if (memory.cell == kShared) {
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
// A fork waits until no thread is inside, so that the child finds the lock open.
[[maybe_unused]] const int kForkHandlers =
    pthread_atfork([] { kept_lock.lock(); }, [] { kept_lock.unlock(); }, [] { kept_lock.unlock(); });

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

size_t lines_of(size_t capacity) { return (capacity + 63) / 64; }

void keep_middle(ThreadMemory& memory, Buffer* buffer) {
  if (kLines == 1 || memory.ended) return free_block(buffer);
  for (Buffer*& place : memory.middle) {
    if (!place) {
      place = buffer;
      return;
    }
  }
  free_block(std::exchange(memory.middle[memory.next_middle++ % kMiddle], buffer));
}

Buffer* take_middle(ThreadMemory& memory, size_t lines) {
  for (Buffer*& block : memory.middle)
    if (block && lines_of(block->bytes + kHeaderBytes) == lines) return std::exchange(block, nullptr);
  return nullptr;
}

void destroy_small(Buffer* buffer) {
  ThreadMemory& memory = thread_memory;
  count_live(memory, -1);
  const size_t lines = lines_of(buffer->bytes + kHeaderBytes);
  if (lines >= kLines) return keep_middle(memory, buffer);
  if (memory.at_rest[lines] == kAtRest) return free_block(buffer);
  memory.at_rest[lines]++;
  buffer->owner = memory.blocks[lines];
  memory.blocks[lines] = buffer;
}

// owner holds the block's capacity.
void destroy_large(Buffer* buffer) {
  count_live(thread_memory, -1);
  size_t capacity = reinterpret_cast<size_t>(buffer->owner);
  if (!keep(buffer, capacity)) free_block(buffer);
}

void destroy_borrowed(Buffer* buffer) {
  // The lender's function is kept behind the header; it may read the header but not free it.
  auto destroy = *reinterpret_cast<void (**)(Buffer*)>(buffer + 1);
  count_live(thread_memory, -1);
  destroy(buffer);
  free_block(buffer);
}

Buffer* fill_header(void* block, char* data, size_t bytes, bool read_only, void (*destroy)(Buffer*), void* owner) {
  count_live(thread_memory, 1);
  return new (block) Buffer{1, data, bytes, read_only, destroy, owner};
}

}  // namespace

Buffer* allocate_buffer(size_t bytes) {
  if (bytes > PTRDIFF_MAX - kHeaderBytes) return nullptr;
  size_t capacity = bytes + kHeaderBytes;
  if (capacity < kKeepFrom) {
    ThreadMemory& memory = thread_memory;
    const size_t lines = lines_of(capacity);
    void* block = lines < kLines ? memory.blocks[lines] : take_middle(memory, lines);
    if (block && lines < kLines) {
      memory.blocks[lines] = static_cast<Buffer*>(memory.blocks[lines]->owner);
      memory.at_rest[lines]--;
    }
    if (!block) block = allocate_block(capacity);
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
