/* A launch: cluster after cluster, in an order drawn from the seed; a block alone is one. */

#define _GNU_SOURCE
#include "model.h"
#include <dlfcn.h>
#include <setjmp.h>

const Descriptor *kernel;
uint32_t cluster_size = 1, block_size[3], grid_size[3], block_id[3];
extern jmp_buf before_blocks;
const char *model_error(void);

static void check(const uint32_t *grid, const uint32_t *block, uint32_t dynamic) {
  static const uint32_t limits[] = {2147483647, 65535, 65535};
  for (int d = 0; d < 3; d++) {
    if (!grid[d] || grid[d] > limits[d]) fail(0, "a grid of %u along axis %d", grid[d], d);
    if (!d && grid[0] % cluster_size)
      fail(0, "a grid of %u along x: no multiple of clusters of %u", grid[0], cluster_size);
    if (block[d] != kernel->workgroup[d])
      fail(0, "%u threads along axis %d: the code is for %u", block[d], d, kernel->workgroup[d]);
  }
  if (dynamic != kernel->dynamic)
    fail(0, "%u bytes of dynamic workgroup memory, not %u", dynamic, kernel->dynamic);
}

/* A step that visits all of `total` places: it has no factor in common with it. */
static uint64_t step_through(uint64_t total) {
  for (;;) {
    uint64_t step = 1 + draw() % total, a = step, b = total;
    while (b) {
      uint64_t rest = a % b;
      a = b, b = rest;
    }
    if (a == 1) return step;
  }
}

static uint64_t only = ~0ull; /* the one workgroup that this process runs; all of them */
API void model_only(uint64_t group) { only = group; }

static int run_grid(const void *params) {
  uint64_t x = grid_size[0] / cluster_size, y = grid_size[1], total = x * y * grid_size[2];
  uint64_t step = step_through(total), at = draw() % total;
  for (uint64_t n = 0; n < total; n++, at = (at + step) % total) {
    block_id[0] = (uint32_t)(at % x) * cluster_size, block_id[1] = (uint32_t)(at / x % y);
    block_id[2] = (uint32_t)(at / x / y);
    if (only != ~0ull && at != only / cluster_size) continue;
    spoil_shared();
    start_block(params);
    if (!run_block()) return 0;
  }
  return 1;
}

/* 0, or 1 where `model_error` tells what went wrong. A test double of the driver that is in this
   process is told as well. */
API int model_launch(const Descriptor *descriptor, const void *params, const uint32_t *grid,
                     const uint32_t *block, uint32_t dynamic) {
  kernel = descriptor, now = NULL, object_count = 0;
  memset(block_id, 0, sizeof block_id);
  memcpy(grid_size, grid, sizeof grid_size), memcpy(block_size, block, sizeof block_size);
  thread_count = block[0] * block[1] * block[2], cluster_size = kernel->cluster;
  volatile int good = 0;
  if (!setjmp(before_blocks)) {
    check(grid, block, dynamic);
    open_objects(params, dynamic);
    good = run_grid(params);
  }
  close_objects();
  void (*tell)(const char *) = (void (*)(const char *))dlsym(RTLD_DEFAULT, "fake_kernel_failed");
  if (!good && tell) tell(model_error());
  return !good;
}
