/* The 128 bytes of a tensor map as the model reads them and the driver's double writes them; the
   real ones are the driver's secret. Dimension 0 is the contiguous one. */

#pragma once
#include <stdint.h>

#define MAP_MAGIC 0x70616d2d65706174ull
typedef struct {
  uint64_t magic, address;
  uint64_t stride[4]; /* bytes */
  uint32_t size[5], box[5];
  uint16_t rank, bytes, swizzle, unused;
  uint64_t padding[4];
} TensorMap;
_Static_assert(sizeof(TensorMap) == 128, "a tensor map");
