/* The sample kernels as host functions, with the parameters that GPU kernels are given. */

#include <math.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))
typedef const uint32_t *Three;

static uint64_t threads(Three grid, Three block) {
  return (uint64_t)grid[0] * grid[1] * grid[2] * block[0] * block[1] * block[2];
}

typedef struct { const float *x; float *y; float a; int64_t nx, ny; uint32_t grid[3]; } Saxpy;
API void saxpy(const void *params, Three grid, Three block) {
  const Saxpy *p = params;
  for (uint64_t i = 0; i < threads(grid, block) && i < (uint64_t)p->ny; i++)
    p->y[i] += p->a * p->x[i];
}

typedef struct { int32_t *y; const int32_t *s; int64_t ny, ns; uint32_t grid[3]; } AddSlot;
API void add_slot(const void *params, Three grid, Three block) {
  const AddSlot *p = params;
  for (uint64_t i = 0; i < threads(grid, block) && i < (uint64_t)p->ny; i++) p->y[i] += *p->s;
}

typedef struct { const float *x; float *y; int64_t nx, ny; uint32_t *faults, base, grid[3]; } Root;
API void checked_root(const void *params, Three grid, Three block) {
  const Root *p = params;
  for (uint64_t i = 0; i < threads(grid, block) && i < (uint64_t)p->ny; i++) {
    uint32_t negative = p->base, large = p->base + 1;
    if (!(p->x[i] >= 0)) p->faults[negative / 32] |= 1u << negative % 32;
    if (!(p->x[i] < 100)) p->faults[large / 32] |= 1u << large % 32;
    p->y[i] = sqrtf(fmaxf(p->x[i], 0));
  }
}

typedef struct { int32_t *y, *z; int64_t ny, nz; uint32_t grid[3]; } GroupIds;
API void group_ids(const void *params, Three grid, Three block) {
  const GroupIds *p = params;
  uint64_t groups = (uint64_t)p->grid[0] * p->grid[1] * p->grid[2];
  for (uint64_t g = 0; g < (uint64_t)grid[0] * grid[1] * grid[2]; g++) {
    if (g >= groups || g >= (uint64_t)p->ny) continue;
    p->y[g] = (int32_t)g;
    p->z[g] = (int32_t)(p->grid[0] * 3 + p->grid[1]);
  }
}

typedef struct {
  int64_t *y; int8_t a; uint16_t b; uint8_t c; float d; int64_t e, ny; uint32_t grid[3];
} Scalars;
API void scalars(const void *params, Three grid, Three block) {
  const Scalars *p = params;
  for (uint64_t i = 0; i < threads(grid, block) && i < (uint64_t)p->ny; i++)
    p->y[i] = p->a + p->b + (p->c ? 1000000 : 0) + (int64_t)p->d + p->e;
}
