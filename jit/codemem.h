// Executable memory: one arena that is mapped twice, so that no address is writable and executable at once. All
// segments and kernels live in it. Faulted in ahead in steps, since a fresh page costs more than a small segment.
// Thread-safe. When the system refuses such a mapping, one line says so and every allocation fails: callers then run
// plain.
//
//   memfd  |==== used ====|== faulted in ==|........ reserved ........|
//   write view    rw-  (copy and patch)          same bytes, other address
//   execute view  r-x  (run)
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "kernels/cpu.h"

namespace kintsugi {

class CodeMemory final : public CodeAllocator {
 public:
  static constexpr size_t kDefaultReserve = size_t{16} << 20;

  explicit CodeMemory(size_t reserve = kDefaultReserve);
  ~CodeMemory() override;
  CodeMemory(const CodeMemory&) = delete;
  CodeMemory& operator=(const CodeMemory&) = delete;

  CodeSpan allocate(size_t bytes, const char* name) override;  // execute == nullptr: full, or refused
  void free(CodeSpan span, size_t bytes) override;

  // Before the first allocation: the arena starts at an address that the processor does not take for this hot code's,
  // nor for our own.
  void keep_clear_of(const void* code);

  void set_limit(size_t bytes);  // how much may be in use; at most the reserve
  size_t limit() const { return limit_; }
  size_t bytes_in_use() const;
  bool refused() const { return refused_; }

  // Around fork: the child maps a copy of its own over both views. See code_memory().
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();

 private:
  bool map();
  bool fault_in(size_t end);
  int make_copy() const;  // a file; -1: none could be made
  bool take_copy();
  void freeze();
  void refuse(const char* call);
  void note_name(const void* address, size_t bytes, const char* name);
  void insert_free(size_t offset, size_t bytes);
  void erase_free(std::map<size_t, size_t>::iterator block);

  mutable std::mutex mutex_;
  const size_t reserve_;
  size_t limit_;
  int file_ = -1;
  int copy_ = -1;  // around fork: what the child maps
  uint8_t* write_ = nullptr;
  uint8_t* execute_ = nullptr;
  std::vector<uintptr_t> hot_;  // addresses that the arena keeps clear of
  bool refused_ = false;
  size_t used_end_ = 0;  // everything above was never given out
  size_t faulted_end_ = 0;
  size_t in_use_ = 0;
  std::map<size_t, size_t> free_blocks_;              // offset -> bytes, neighbours merged
  std::set<std::pair<size_t, size_t>> free_by_size_;  // (bytes, offset) of the same
};

// The arena of this process. Never destroyed: code may run until the process ends.
CodeMemory& code_memory();

}  // namespace kintsugi
