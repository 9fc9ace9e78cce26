// The structures of the DLPack exchange protocol, versions 0 and 1, as its specification fixes them. Only what we use.
#pragma once
#include <cstdint>

namespace kintsugi {

struct DlpackDevice {
  int32_t type;  // 1: CPU
  int32_t id;
};
struct DlpackType {
  uint8_t code;  // DlpackCode
  uint8_t bits;
  uint16_t lanes;
};
enum DlpackCode : uint8_t { kDlpackInt = 0, kDlpackFloat = 2, kDlpackBool = 6 };

struct DlpackTensor {
  void* data;
  DlpackDevice device;
  int32_t rank;
  DlpackType type;
  int64_t* sizes;
  int64_t* strides;  // elements; null: row-major
  uint64_t byte_offset;
};
// In a capsule "dltensor".
struct DlpackManaged {
  DlpackTensor tensor;
  void* context;
  void (*destroy)(DlpackManaged*);
};
// In a capsule "dltensor_versioned".
struct DlpackVersioned {
  uint32_t major, minor;
  void* context;
  void (*destroy)(DlpackVersioned*);
  uint64_t flags;
  DlpackTensor tensor;
};
inline constexpr uint64_t kDlpackReadOnly = 1;
inline constexpr uint64_t kDlpackCopied = 2;

}  // namespace kintsugi
