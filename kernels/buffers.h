// Tensor memory: one counted block, 64-byte aligned, from mimalloc or borrowed from somebody else. Small blocks keep
// header and data in one allocation. Counting is atomic: buffers are held across released locks.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kintsugi {

struct Buffer {
  std::atomic<int64_t> references;
  char* data;
  size_t bytes;
  bool read_only;
  void (*destroy)(Buffer*);  // frees header and data
  void* owner;               // for borrowed memory: whatever destroy needs
};

Buffer* allocate_buffer(size_t bytes);  // null when out of memory; contents undefined
// destroy gives the memory back to its owner, once; the header is freed after it. Null when out of memory.
Buffer* borrow_buffer(void* data, size_t bytes, bool read_only, void (*destroy)(Buffer*), void* owner);
inline void retain(Buffer* buffer) { buffer->references.fetch_add(1, std::memory_order_relaxed); }
inline void release(Buffer* buffer) {
  // The only holder needs no locked instruction: nobody is left who could take a reference meanwhile.
  if (buffer->references.load(std::memory_order_acquire) == 1 ||
      buffer->references.fetch_sub(1, std::memory_order_acq_rel) == 1)
    buffer->destroy(buffer);
}
// A small block that nobody else holds: its holder may keep it and use it again as it is. Never under AddressSanitizer,
// which is to see accesses to what was given up.
inline bool is_reusable(const Buffer* buffer) {
#ifdef __SANITIZE_ADDRESS__
  return false;
#else
  constexpr size_t kHeaderBytes = 64, kMostBytes = 1024;
  return buffer->references.load(std::memory_order_acquire) == 1 && buffer->bytes <= kMostBytes &&
         buffer->data == reinterpret_cast<const char*>(buffer) + kHeaderBytes;
#endif
}
int64_t live_buffers();  // for tests

}  // namespace kintsugi
