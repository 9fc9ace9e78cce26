// See codemem.h. Free blocks are kept by offset, to merge neighbours, and by size, for the best fit.
#include "jit/codemem.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#ifndef MADV_POPULATE_READ  // Linux 5.14
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace kintsugi {
namespace {

constexpr size_t kGranule = 64;  // a cache line: units do not share one
constexpr size_t kPage = 4096;
constexpr size_t kFaultStep = size_t{256} << 10;
// Predictors of jumps tell addresses apart by low bits only, by 24 on Sapphire Rapids: code that shares them with the
// evaluator's makes both mispredict at every turn. A warm call took 150 ns then in place of 46.
constexpr uintptr_t kAlike = uintptr_t{16} << 20;
constexpr uintptr_t kHotText = uintptr_t{3} << 20;  // before and behind an address of hot code
constexpr int kReadWrite = PROT_READ | PROT_WRITE;
constexpr int kReadExecute = PROT_READ | PROT_EXEC;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

int open_memory(size_t bytes) {
  int file = memfd_create("kintsugi-code", MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    close(file);
    return -1;
  }
  return file;
}

// The start of the largest gap between those texts, by what tells addresses apart.
uintptr_t clear_of(const std::vector<uintptr_t>& hot) {
  uintptr_t best = 0, most = 0;
  for (uintptr_t code : hot) {
    uintptr_t start = code + kHotText, room = kAlike;
    for (uintptr_t other : hot) {
      uintptr_t within = (start - (other - kHotText)) % kAlike;
      room = std::min(room, within < 2 * kHotText ? 0 : kAlike - within);
    }
    if (room > most) best = start, most = room;
  }
  return best;
}

// Address space for so many bytes at an address that is like `wanted`; null: none.
uint8_t* reserve_at(uintptr_t wanted, size_t bytes) {
  void* room = mmap(nullptr, bytes + kAlike, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return nullptr;
  size_t before = (wanted - reinterpret_cast<uintptr_t>(room)) % kAlike;
  uint8_t* start = static_cast<uint8_t*>(room) + before;
  if (before > 0) munmap(room, before);
  munmap(start + bytes, kAlike - before);
  return start;
}

uint8_t* map_view(void* where, size_t bytes, int protection, int file) {
  int flags = MAP_SHARED | (where != nullptr ? MAP_FIXED : 0);
  void* view = mmap(where, bytes, protection, flags, file, 0);
  return view == MAP_FAILED ? nullptr : static_cast<uint8_t*>(view);
}

}  // namespace

CodeMemory& code_memory() {
  static CodeMemory* memory = [] {
    static CodeMemory* made = new CodeMemory;
    pthread_atfork([] { made->before_fork(); }, [] { made->after_fork_in_parent(); },
                   [] { made->after_fork_in_child(); });
    return made;
  }();
  return *memory;
}

CodeMemory::CodeMemory(size_t reserve) : reserve_(round_up(reserve, kPage)), limit_(reserve_) {
  keep_clear_of(reinterpret_cast<const void*>(&code_memory));
}

CodeMemory::~CodeMemory() {
  if (write_ != nullptr) munmap(write_, reserve_);
  if (execute_ != nullptr) munmap(execute_, reserve_);
  if (file_ >= 0) close(file_);
}

void CodeMemory::keep_clear_of(const void* code) { hot_.push_back(round_up(reinterpret_cast<uintptr_t>(code), kPage)); }

void CodeMemory::refuse(const char* call) {
  refused_ = true;
  std::fprintf(stderr, "kintsugi: no executable memory (%s: %s); functions run as plain Python\n", call,
               std::strerror(errno));
}

bool CodeMemory::map() {
  if (refused_) return false;
  if (write_ != nullptr && execute_ != nullptr) return true;
  file_ = open_memory(reserve_);
  if (file_ < 0) return refuse("memfd_create"), false;
  write_ = map_view(nullptr, reserve_, kReadWrite, file_);
  if (write_ != nullptr) execute_ = map_view(reserve_at(clear_of(hot_), reserve_), reserve_, kReadExecute, file_);
  if (execute_ == nullptr) return refuse("mmap"), false;
  return true;
}

// Pages are reserved by fallocate first, so that touching them cannot kill the process when memory is short.
bool CodeMemory::fault_in(size_t end) {
  if (end <= faulted_end_) return true;
  size_t target = std::min(round_up(end, kFaultStep), reserve_);
  size_t bytes = target - faulted_end_;
  if (fallocate(file_, 0, static_cast<off_t>(faulted_end_), static_cast<off_t>(bytes)) != 0) return false;
  // Older kernels do not know these; pages then fault one by one.
  madvise(write_ + faulted_end_, bytes, MADV_POPULATE_WRITE);
  madvise(execute_ + faulted_end_, bytes, MADV_POPULATE_READ);
  faulted_end_ = target;
  return true;
}

void CodeMemory::insert_free(size_t offset, size_t bytes) {
  free_blocks_[offset] = bytes;
  free_by_size_.insert({bytes, offset});
}
void CodeMemory::erase_free(std::map<size_t, size_t>::iterator block) {
  free_by_size_.erase({block->second, block->first});
  free_blocks_.erase(block);
}

CodeSpan CodeMemory::allocate(size_t bytes, const char* name) {
  if (bytes == 0 || bytes > reserve_) return {};
  bytes = round_up(bytes, kGranule);
  std::lock_guard lock(mutex_);
  if (!map() || in_use_ + bytes > limit_) return {};
  size_t offset = 0;
  auto fit = free_by_size_.lower_bound({bytes, 0});
  if (fit != free_by_size_.end()) {
    auto [block_bytes, block_offset] = *fit;
    offset = block_offset;
    erase_free(free_blocks_.find(offset));
    if (block_bytes > bytes) insert_free(offset + bytes, block_bytes - bytes);
  } else {
    offset = used_end_;
    if (offset + bytes > limit_ || !fault_in(offset + bytes)) return {};
    used_end_ += bytes;
  }
  in_use_ += bytes;
  note_name(execute_ + offset, bytes, name);
  return {write_ + offset, execute_ + offset};
}

void CodeMemory::free(CodeSpan span, size_t bytes) {
  bytes = round_up(bytes, kGranule);
  std::lock_guard lock(mutex_);
  size_t offset = static_cast<size_t>(span.execute - execute_);
  in_use_ -= bytes;
  auto next = free_blocks_.lower_bound(offset);
  if (next != free_blocks_.end() && offset + bytes == next->first) {
    bytes += next->second;
    erase_free(next);
  }
  auto previous = free_blocks_.lower_bound(offset);
  if (previous != free_blocks_.begin() && (--previous)->first + previous->second == offset) {
    offset = previous->first;
    bytes += previous->second;
    erase_free(previous);
  }
  if (offset + bytes == used_end_) {
    used_end_ = offset;
  } else {
    insert_free(offset, bytes);
  }
}

void CodeMemory::set_limit(size_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = std::min(bytes, reserve_);
}

size_t CodeMemory::bytes_in_use() const {
  std::lock_guard lock(mutex_);
  return in_use_;
}

// The child shares the parent's pages, and each side would overwrite the other's code. So the child gets a copy, made
// before the fork: after it the parent runs on and writes. Replacing both views at their addresses keeps every code
// pointer and return address valid.
void CodeMemory::before_fork() {
  mutex_.lock();
  if (write_ != nullptr && execute_ != nullptr) copy_ = make_copy();
}

void CodeMemory::after_fork_in_parent() {
  if (copy_ >= 0) close(std::exchange(copy_, -1));
  mutex_.unlock();
}

void CodeMemory::after_fork_in_child() {
  if (write_ != nullptr && execute_ != nullptr && !take_copy()) {
    refuse("copying code for fork");
    freeze();
  }
  mutex_.unlock();
}

int CodeMemory::make_copy() const {
  int file = open_memory(reserve_);
  bool made = file >= 0 && (faulted_end_ == 0 || fallocate(file, 0, 0, static_cast<off_t>(faulted_end_)) == 0);
  for (size_t done = 0; made && done < used_end_;) {
    ssize_t wrote = pwrite(file, write_ + done, used_end_ - done, static_cast<off_t>(done));
    if (wrote > 0) done += static_cast<size_t>(wrote);
    made = wrote > 0 || (wrote < 0 && errno == EINTR);
  }
  if (made || file < 0) return file;
  close(file);
  return -1;
}

bool CodeMemory::take_copy() {
  if (copy_ < 0) return false;
  close(file_);
  file_ = std::exchange(copy_, -1);
  return map_view(write_, reserve_, kReadWrite, file_) != nullptr &&
         map_view(execute_, reserve_, kReadExecute, file_) != nullptr;
}

// The code that exists keeps running from private pages; nothing new is compiled.
void CodeMemory::freeze() {
  size_t bytes = round_up(std::max(used_end_, size_t{1}), kFaultStep);
  void* copy = mmap(nullptr, bytes, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return;
  std::memcpy(copy, execute_, used_end_);
  mprotect(copy, bytes, kReadExecute);
  mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, execute_);
}

// perf reads /tmp/perf-PID.map: address, size, name, in hexadecimal.
void CodeMemory::note_name(const void* address, size_t bytes, const char* name) {
  static const bool wanted = [] {
    const char* setting = std::getenv("KINTSUGI_PERF");
    return setting != nullptr && std::strcmp(setting, "1") == 0;
  }();
  if (!wanted) return;
  char path[64];
  std::snprintf(path, sizeof path, "/tmp/perf-%d.map", static_cast<int>(getpid()));
  if (FILE* file = std::fopen(path, "a")) {
    std::fprintf(file, "%zx %zx kintsugi:%s\n", reinterpret_cast<size_t>(address), bytes, name);
    std::fclose(file);
  }
}

}  // namespace kintsugi
