// Allocation, counting, reuse of large blocks, borrowed memory.
#include "kernels/buffers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <thread>
#include <vector>

namespace kintsugi {
namespace {

TEST(Buffers, aligned_writable_and_counted) {
  const int64_t before = live_buffers();
  std::vector<Buffer*> held;
  for (size_t bytes : {0, 1, 12, 64, 1000, 4096, 100'000, 1 << 20, 5 << 20}) {
    Buffer* buffer = allocate_buffer(bytes);
    ASSERT_NE(buffer, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data) % 64, 0u);
    EXPECT_EQ(buffer->bytes, bytes);
    EXPECT_FALSE(buffer->read_only);
    std::memset(buffer->data, 0x77, bytes);
    held.push_back(buffer);
  }
  EXPECT_EQ(live_buffers(), before + static_cast<int64_t>(held.size()));
  for (Buffer* buffer : held) {
    retain(buffer);
    release(buffer);
    release(buffer);
  }
  EXPECT_EQ(live_buffers(), before);
}

TEST(Buffers, too_large_is_null) {
  EXPECT_EQ(allocate_buffer(std::numeric_limits<size_t>::max()), nullptr);
  EXPECT_EQ(allocate_buffer(size_t{1} << 62), nullptr);
}

TEST(Buffers, borrowed_memory_goes_back_once) {
  const int64_t before = live_buffers();
  static int returned;
  returned = 0;
  char memory[8];
  int token = 0;
  auto give_back = [](Buffer* buffer) {
    returned++;
    *static_cast<int*>(buffer->owner) = 5;
  };
  Buffer* buffer = borrow_buffer(memory, sizeof memory, /*read_only=*/true, give_back, &token);
  EXPECT_EQ(buffer->data, memory);
  EXPECT_TRUE(buffer->read_only);
  retain(buffer);
  release(buffer);
  EXPECT_EQ(returned, 0);
  release(buffer);
  EXPECT_EQ(returned, 1);
  EXPECT_EQ(token, 5);
  EXPECT_EQ(live_buffers(), before);
}

TEST(Buffers, freed_by_another_thread) {
  const int64_t before = live_buffers();
  std::vector<Buffer*> made(2000);
  for (int round = 0; round < 80; round++) {  // more threads than counters
    std::thread maker([&] {
      for (Buffer*& buffer : made) buffer = allocate_buffer(100);
    });
    maker.join();
    std::thread taker([&] {
      for (Buffer* buffer : made) release(buffer);
    });
    taker.join();
  }
  EXPECT_EQ(live_buffers(), before);
}

}  // namespace
}  // namespace kintsugi
