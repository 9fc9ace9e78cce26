// A code allocator for kernel tests: one writable and executable mapping, handed out front to back.
#pragma once
#include <sys/mman.h>

#include "kernels/cpu.h"

namespace kintsugi {

class TestCodeMemory : public CodeAllocator {
 public:
  explicit TestCodeMemory(size_t bytes) : bytes_(bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    base_ = memory == MAP_FAILED ? nullptr : static_cast<uint8_t*>(memory);
  }
  ~TestCodeMemory() override {
    if (base_ != nullptr) munmap(base_, bytes_);
  }
  CodeSpan allocate(size_t bytes, const char*) override {
    const size_t rounded = (bytes + 15) / 16 * 16;
    if (base_ == nullptr || used_ + rounded > bytes_) return {};
    uint8_t* start = base_ + used_;
    used_ += rounded;
    ++live;
    return {start, start};
  }
  void free(CodeSpan, size_t) override {
    if (--live == 0) used_ = 0;
  }
  int64_t live = 0;

 private:
  size_t bytes_, used_ = 0;
  uint8_t* base_;
};

}  // namespace kintsugi
