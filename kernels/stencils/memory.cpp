// Loads, stores, tile slots and the loop around them. Names: kn__<family>__<access>__<dtype>__<position>.
// A tail works on count - i < kTile elements; lanes past the end are loaded as one and never stored.
#include <type_traits>

#include "kernels/stencils/stencil.h"
namespace kintsugi::stencil {

// Memory elements -> lanes and back. Any nonzero byte is true.
template <DType D, typename M>
KN_INLINE TileFor<D> widen(const M& memory) {
  if constexpr (D == DType::k_bool) {
    return __builtin_convertvector(memory != 0, TileFor<D>);
  } else {
    return memory;
  }
}
template <DType D>
KN_INLINE Tile<typename Lane<D>::Memory> narrow(const TileFor<D>& tile) {
  if constexpr (D == DType::k_bool) {
    return __builtin_convertvector(tile & 1, Tile<uint8_t>);
  } else {
    return tile;
  }
}

template <typename T>
KN_INLINE Tile<T> load_tile(const char* from) {
  Tile<T> tile;
  __builtin_memcpy(&tile, from, sizeof tile);
  return tile;
}
template <typename T>
KN_INLINE void store_tile(char* to, const Tile<T>& tile) {
  __builtin_memcpy(to, &tile, sizeof tile);
}

// n elements by halves, so that nothing past the end is touched.
template <int Bytes>
KN_INLINE void copy_part(char*& to, const char*& from, int64_t n_bytes) {
  if (n_bytes & Bytes) {
    __builtin_memcpy(to, from, Bytes);
    to += Bytes;
    from += Bytes;
  }
}
template <typename T>
KN_INLINE void copy_elements(char* to, const char* from, int64_t n) {
  const int64_t bytes = n * static_cast<int64_t>(sizeof(T));
  if constexpr (sizeof(T) * kTile > 32) copy_part<32>(to, from, bytes);
  if constexpr (sizeof(T) * kTile > 16) copy_part<16>(to, from, bytes);
  if constexpr (sizeof(T) * kTile > 8 && sizeof(T) <= 8) copy_part<8>(to, from, bytes);
  if constexpr (sizeof(T) <= 4) copy_part<4>(to, from, bytes);
  if constexpr (sizeof(T) <= 2) copy_part<2>(to, from, bytes);
  if constexpr (sizeof(T) <= 1) copy_part<1>(to, from, bytes);
}

#if KN_VECTOR == 64
// AVX-512 masks: one instruction a vector.
template <typename T>
KN_INLINE Tile<T> load_first(const char* from, int64_t n) {
  Tile<T> tile = 1;
  const uint32_t mask = ~(~uint64_t{0} << n);
  constexpr int kVectors = (sizeof tile + 63) / 64;
  if constexpr (sizeof tile == 16) {
    __m128i part = (__m128i)tile;
    return (Tile<T>)_mm_mask_loadu_epi8(part, mask, from);
  } else if constexpr (sizeof tile == 32) {
    __m256i part = (__m256i)tile;
    return (Tile<T>)_mm256_mask_loadu_epi8(part, mask, from);
  } else {
    __m512i part[kVectors];
    __builtin_memcpy(part, &tile, sizeof tile);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (sizeof(T) == 4) part[v] = _mm512_mask_loadu_epi32(part[v], mask >> 16 * v, from + 64 * v);
      if constexpr (sizeof(T) == 8) part[v] = _mm512_mask_loadu_epi64(part[v], mask >> 8 * v, from + 64 * v);
    }
    __builtin_memcpy(&tile, part, sizeof tile);
    return tile;
  }
}
template <typename T>
KN_INLINE void store_first(char* to, const Tile<T>& tile, int64_t n) {
  const uint32_t mask = ~(~uint64_t{0} << n);
  constexpr int kVectors = (sizeof tile + 63) / 64;
  if constexpr (sizeof tile == 16) {
    _mm_mask_storeu_epi8(to, mask, (__m128i)tile);
  } else if constexpr (sizeof tile == 32) {
    _mm256_mask_storeu_epi8(to, mask, (__m256i)tile);
  } else {
    __m512i part[kVectors];
    __builtin_memcpy(part, &tile, sizeof tile);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (sizeof(T) == 4) _mm512_mask_storeu_epi32(to + 64 * v, mask >> 16 * v, part[v]);
      if constexpr (sizeof(T) == 8) _mm512_mask_storeu_epi64(to + 64 * v, mask >> 8 * v, part[v]);
    }
  }
}
#elif KN_VECTOR == 32
// AVX masks: one instruction a vector.
template <typename T>
KN_INLINE Tile<T> load_first(const char* from, int64_t n) {
  if constexpr (sizeof(T) == 1) {
    Tile<T> tile = 1;
    copy_elements<T>(reinterpret_cast<char*>(&tile), from, n);
    return tile;
  } else {
    auto mask = first_lanes<T>(n);
    constexpr int kVectors = sizeof mask / 32;
    __m256i masks[kVectors], loaded[kVectors];
    __builtin_memcpy(masks, &mask, sizeof mask);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (sizeof(T) == 4)
        loaded[v] = _mm256_maskload_epi32(reinterpret_cast<const int*>(from + 32 * v), masks[v]);
      if constexpr (sizeof(T) == 8) {
        loaded[v] = _mm256_maskload_epi64(reinterpret_cast<const long long*>(from + 32 * v), masks[v]);
      }
    }
    Tile<T> tile;
    __builtin_memcpy(&tile, loaded, sizeof tile);
    return mask ? tile : Tile<T>(1);
  }
}
template <typename T>
KN_INLINE void store_first(char* to, const Tile<T>& tile, int64_t n) {
  if constexpr (sizeof(T) == 1) {
    copy_elements<T>(to, reinterpret_cast<const char*>(&tile), n);
  } else {
    auto mask = first_lanes<T>(n);
    constexpr int kVectors = sizeof mask / 32;
    __m256i masks[kVectors], values[kVectors];
    __builtin_memcpy(masks, &mask, sizeof mask);
    __builtin_memcpy(values, &tile, sizeof mask);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (sizeof(T) == 4) _mm256_maskstore_epi32(reinterpret_cast<int*>(to + 32 * v), masks[v], values[v]);
      if constexpr (sizeof(T) == 8) {
        _mm256_maskstore_epi64(reinterpret_cast<long long*>(to + 32 * v), masks[v], values[v]);
      }
    }
  }
}
#else
template <typename T>
KN_INLINE Tile<T> load_first(const char* from, int64_t n) {
  Tile<T> tile = 1;
  copy_elements<T>(reinterpret_cast<char*>(&tile), from, n);
  return tile;
}
template <typename T>
KN_INLINE void store_first(char* to, const Tile<T>& tile, int64_t n) {
  copy_elements<T>(to, reinterpret_cast<const char*>(&tile), n);
}
#endif

template <typename T>
KN_INLINE Tile<T> gather(const char* from, int64_t stride) {
  Tile<T> tile;
#pragma unroll
  for (int lane = 0; lane < kTile; ++lane) {
    T element;
    __builtin_memcpy(&element, from + lane * stride, sizeof element);
    tile[lane] = element;
  }
  return tile;
}
template <typename T>
KN_INLINE Tile<T> gather_first(const char* from, int64_t stride, int64_t n) {
  Tile<T> tile = 1;
  T* to = reinterpret_cast<T*>(&tile);
#pragma nounroll
  for (int64_t lane = 0; lane < n; ++lane, from += stride) __builtin_memcpy(to + lane, from, sizeof(T));
  return tile;
}
template <typename T>
KN_INLINE void scatter(char* to, int64_t stride, const Tile<T>& tile) {
#pragma unroll
  for (int lane = 0; lane < kTile; ++lane) {
    T element = tile[lane];
    __builtin_memcpy(to + lane * stride, &element, sizeof element);
  }
}
template <typename T>
KN_INLINE void scatter_first(char* to, int64_t stride, const Tile<T>& tile, int64_t n) {
  const T* from = reinterpret_cast<const T*>(&tile);
#pragma nounroll
  for (int64_t lane = 0; lane < n; ++lane, to += stride) __builtin_memcpy(to, from + lane, sizeof(T));
}

// A number in the block is int64 or double; a bool number is an int64 that is nonzero.
template <DType D>
KN_INLINE TileFor<D> number(const KernelBlock::Slot& slot) {
  if constexpr (D == DType::k_bool) {
    return TileFor<D>(slot.i64 != 0 ? -1 : 0);
  } else if constexpr (D == DType::k_float32 || D == DType::k_float64) {
    return TileFor<D>(static_cast<typename Lane<D>::Type>(slot.f64));
  } else {
    return TileFor<D>(static_cast<typename Lane<D>::Type>(slot.i64));
  }
}

#define MEMORY(dtype) Lane<DType::k_##dtype>::Memory
#define AT_INDEX (KN_OPERAND.pointer + i * static_cast<int64_t>(sizeof(T)))
#define LOADS(k, dtype)                                                                                              \
  KN_STENCIL(kn__load__contiguous__##dtype##__##k, using T = MEMORY(dtype);                                          \
             put<k>(r, widen<DType::k_##dtype>(load_tile<T>(AT_INDEX))))                                             \
  KN_STENCIL(kn__load_tail__contiguous__##dtype##__##k, using T = MEMORY(dtype);                                     \
             put<k>(r, widen<DType::k_##dtype>(load_first<T>(AT_INDEX, base->count - i))))                           \
  KN_STENCIL(                                                                                                        \
      kn__load__uniform__##dtype##__##k, using T = MEMORY(dtype); T element;                                         \
      __builtin_memcpy(&element, KN_OPERAND.pointer, sizeof element);                                                \
      if constexpr (DType::k_##dtype == DType::k_bool) {                                                             \
        put<k>(r, TileFor<DType::k_bool>(element != 0 ? -1 : 0));                                                    \
      } else { put<k>(r, Tile<T>(element)); })                                                                       \
  KN_STENCIL(kn__load__number__##dtype##__##k, put<k>(r, number<DType::k_##dtype>(KN_OPERAND)))                      \
  KN_STENCIL(kn__load__strided__##dtype##__##k, using T = MEMORY(dtype); int64_t stride = KN_STRIDE;                 \
             put<k>(r, widen<DType::k_##dtype>(gather<T>(KN_OPERAND.pointer + i * stride, stride))))                 \
  KN_STENCIL(                                                                                                        \
      kn__load_tail__strided__##dtype##__##k, using T = MEMORY(dtype); int64_t stride = KN_STRIDE;                   \
      put<k>(r, widen<DType::k_##dtype>(gather_first<T>(KN_OPERAND.pointer + i * stride, stride, base->count - i)))) \
  KN_STENCIL(kn__slot_load__slot__##dtype##__##k, put<k>(r, load_tile<Lane<DType::k_##dtype>::Type>(KN_SLOT)))
#define LOADS_OF(dtype, ...) KN_AT_EACH_POSITION(LOADS, dtype)
KN_EACH_DTYPE(LOADS_OF)

// Stores take register 0.
#define STORES(dtype, ...)                                                                                        \
  KN_STENCIL(kn__store__contiguous__##dtype##__0, using T = MEMORY(dtype);                                        \
             store_tile<T>(AT_INDEX, narrow<DType::k_##dtype>(get<0, DType::k_##dtype>(r))))                      \
  KN_STENCIL(kn__store_tail__contiguous__##dtype##__0, using T = MEMORY(dtype);                                   \
             store_first<T>(AT_INDEX, narrow<DType::k_##dtype>(get<0, DType::k_##dtype>(r)), base->count - i))    \
  KN_STENCIL(kn__store__strided__##dtype##__0, using T = MEMORY(dtype); int64_t stride = KN_STRIDE; scatter<T>(   \
                 KN_OPERAND.pointer + i * stride, stride, narrow<DType::k_##dtype>(get<0, DType::k_##dtype>(r)))) \
  KN_STENCIL(kn__store_tail__strided__##dtype##__0, using T = MEMORY(dtype); int64_t stride = KN_STRIDE;          \
             scatter_first<T>(KN_OPERAND.pointer + i * stride, stride,                                            \
                              narrow<DType::k_##dtype>(get<0, DType::k_##dtype>(r)), base->count - i))            \
  KN_STENCIL(kn__slot_store__slot__##dtype##__0,                                                                  \
             store_tile<Lane<DType::k_##dtype>::Type>(KN_SLOT, get<0, DType::k_##dtype>(r)))
KN_EACH_DTYPE(STORES)

// The loop: entry, main body, next, tail_test, tail body, leave.
extern "C" void kn__loop__entry__none__0(KN_PARAMETERS) {
  Registers r{{r0a, r0b, r1a, r1b, r2a, r2b, r3a, r3b}};
  i = 0;
  if (base->count < kTile) KN_JUMP(kn_tail);
  KN_JUMP(kn_next);
}
extern "C" void kn__loop__next__none__0(KN_PARAMETERS) {
  Registers r{{r0a, r0b, r1a, r1b, r2a, r2b, r3a, r3b}};
  i += kTile;
  if (base->count - i >= kTile) KN_JUMP(kn_loop);
  KN_JUMP(kn_next);
}
#if KN_VECTOR >= 32
#define KN_LEAVE _mm256_zeroupper()
#else
#define KN_LEAVE
#endif
extern "C" void kn__loop__tail_test__none__0(KN_PARAMETERS) {
  Registers r{{r0a, r0b, r1a, r1b, r2a, r2b, r3a, r3b}};
  if (i < base->count) KN_JUMP(kn_next);
  KN_LEAVE;
}
extern "C" void kn__loop__leave__none__0(KN_PARAMETERS) { KN_LEAVE; }

}  // namespace kintsugi::stencil
