// The code arena: writable and executable apart, reuse of freed memory, limits, refusal, fork.
#include "jit/codemem.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace kintsugi {
namespace {

// mov eax, number; ret
void write_function(const CodeSpan& span, int32_t number) {
  span.write[0] = 0xB8;
  std::memcpy(span.write + 1, &number, sizeof number);
  span.write[5] = 0xC3;
}
int run(const CodeSpan& span) { return reinterpret_cast<int (*)()>(span.execute)(); }

TEST(CodeMemory, RunsWhatWasWritten) {
  CodeMemory memory(1 << 20);
  CodeSpan a = memory.allocate(6, "a"), b = memory.allocate(100, "b");
  ASSERT_NE(a.execute, nullptr);
  EXPECT_NE(a.execute, a.write);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.execute) % 16, 0u);
  write_function(a, 7);
  write_function(b, 8);
  EXPECT_EQ(run(a), 7);
  EXPECT_EQ(run(b), 8);
  write_function(a, 9);
  EXPECT_EQ(run(a), 9);
}

TEST(CodeMemory, NeverWritableAndExecutable) {
  CodeMemory memory(1 << 20);
  memory.allocate(6, "a");
  FILE* maps = std::fopen("/proc/self/maps", "r");
  char line[512];
  int views = 0;
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    const std::string text = line;
    if (text.find("kintsugi-code") == std::string::npos) continue;
    ++views;
    EXPECT_TRUE(text.find(" rw-") != std::string::npos || text.find(" r-x") != std::string::npos) << text;
  }
  std::fclose(maps);
  EXPECT_EQ(views, 2);
}

// By the low 24 bits, which are all that some processors tell jumps apart by.
TEST(CodeMemory, StartsClearOfHotCode) {
  constexpr uintptr_t kAlike = 1 << 24, kMargin = 2 << 20;
  const uintptr_t ours = reinterpret_cast<uintptr_t>(&code_memory);
  for (uintptr_t apart = 0; apart < kAlike; apart += 1 << 20) {
    CodeMemory memory(1 << 20);
    memory.keep_clear_of(reinterpret_cast<const void*>(ours + apart));
    const CodeSpan span = memory.allocate(6, "a");
    const uintptr_t start = reinterpret_cast<uintptr_t>(span.execute);
    for (uintptr_t hot : {ours, ours + apart}) {
      EXPECT_GE((start - hot) % kAlike, kMargin) << apart;
      EXPECT_GE((hot - start) % kAlike, kMargin) << apart;
    }
    write_function(span, 7);
    EXPECT_EQ(run(span), 7);
  }
}

TEST(CodeMemory, FreedNeighboursMerge) {
  CodeMemory memory(1 << 20);
  std::vector<CodeSpan> spans;
  for (int i = 0; i < 8; ++i) spans.push_back(memory.allocate(128, "unit"));
  EXPECT_EQ(memory.bytes_in_use(), 8u * 128);
  for (int i : {2, 4, 3}) memory.free(spans[static_cast<size_t>(i)], 128);
  EXPECT_EQ(memory.bytes_in_use(), 5u * 128);
  EXPECT_EQ(memory.allocate(3 * 128, "merged").execute, spans[2].execute);
  memory.free(spans[7], 128);  // the last one: the end moves back
  memory.free(spans[6], 128);
  EXPECT_EQ(memory.allocate(1000, "end").execute, spans[6].execute);
}

TEST(CodeMemory, BestFitAndRemainder) {
  CodeMemory memory(1 << 20);
  CodeSpan big = memory.allocate(1024, "big"), wall = memory.allocate(64, "wall"),
           small = memory.allocate(128, "small");
  memory.allocate(64, "wall");
  memory.free(big, 1024);
  memory.free(small, 128);
  EXPECT_EQ(memory.allocate(100, "fits").execute, small.execute);
  EXPECT_EQ(memory.allocate(100, "first part").execute, big.execute);
  EXPECT_EQ(memory.allocate(800, "rest").execute, big.execute + 128);
  EXPECT_NE(wall.execute, nullptr);
}

TEST(CodeMemory, LimitIsAnOrderedFailure) {
  CodeMemory memory(1 << 20);
  memory.set_limit(64 << 10);
  std::vector<CodeSpan> spans;
  for (;;) {
    CodeSpan span = memory.allocate(1000, "unit");
    if (span.execute == nullptr) break;
    spans.push_back(span);
  }
  EXPECT_EQ(spans.size(), 64u);
  memory.free(spans[10], 1000);
  EXPECT_EQ(memory.allocate(1000, "unit").execute, spans[10].execute);
  EXPECT_EQ(memory.allocate(1 << 21, "too large").execute, nullptr);
  EXPECT_EQ(memory.allocate(0, "nothing").execute, nullptr);
  EXPECT_FALSE(memory.refused());
}

TEST(CodeMemory, RefusalIsSaidOnce) {
  testing::internal::CaptureStderr();
  CodeMemory memory(size_t{1} << 62);
  EXPECT_EQ(memory.allocate(6, "a").execute, nullptr);
  EXPECT_EQ(memory.allocate(6, "a").execute, nullptr);
  EXPECT_TRUE(memory.refused());
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("kintsugi: no executable memory ("), 0u) << said;
  EXPECT_EQ(said.find('\n'), said.size() - 1);
}

TEST(CodeMemory, ForkGivesEachSideItsOwn) {
  CodeSpan parents = code_memory().allocate(6, "parent");
  write_function(parents, 1);
  const size_t in_use = code_memory().bytes_in_use();
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      bool good = run(parents) == 1 && code_memory().bytes_in_use() == in_use;
      write_function(parents, 2);  // the child frees it and compiles something else there
      CodeSpan mine = code_memory().allocate(6, "child");
      write_function(mine, 3);
      good = good && run(parents) == 2 && run(mine) == 3;
      usleep(1000);
      _exit(good && run(mine) == 3 ? 0 : 1);
    }
    CodeSpan mine = code_memory().allocate(6, "parent too");
    write_function(mine, 4);
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(run(parents), 1);
    EXPECT_EQ(run(mine), 4);
    code_memory().free(mine, 6);
  }
  code_memory().free(parents, 6);
}

TEST(CodeMemory, ManyThreads) {
  CodeMemory memory(4 << 20);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&memory, t] {
      std::vector<CodeSpan> spans(32);
      for (int i = 0; i < 2000; ++i) {
        CodeSpan& span = spans[static_cast<size_t>(i) % spans.size()];
        if (span.execute != nullptr) {
          EXPECT_EQ(run(span), t * 100);
          memory.free(span, 6);
        }
        span = memory.allocate(6, "unit");
        write_function(span, t * 100);
      }
      for (CodeSpan& span : spans) memory.free(span, 6);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory.bytes_in_use(), 0u);
}

}  // namespace
}  // namespace kintsugi
