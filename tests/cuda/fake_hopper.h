/* What Hopper brought to the driver: launches with attributes, tensor maps. Tensor maps have the
   form that tests/ptx_model reads. */

#include "../ptx_model/runtime/tensor_map.h"

static long cooperative_launches;
API long fake_cooperative(void) { return cooperative_launches; }

static int resident(Function *f, uint32_t threads, uint32_t shared) {
  int by_threads = 2048 / (int)threads, by_memory = shared ? 232448 / (int)shared : 32;
  (void)f;
  return by_threads < by_memory ? by_threads : by_memory;
}
API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, Function *f, int threads,
                                                    size_t shared) {
  ENTER
  *out = resident(f, (uint32_t)threads, (uint32_t)shared);
  LEAVE
}

typedef struct { int id, pad; union { int number; char room[64]; } value; } Attribute;
typedef struct { uint32_t grid[3], block[3], shared; void *stream; Attribute *attrs;
                 uint32_t attr_count; } LaunchConfig;
enum { COOPERATIVE = 2, PROGRAMMATIC = 6 };

API int cuLaunchKernelEx(const LaunchConfig *c, Function *f, void **params, void **extra) {
  ENTER
  if (option(FAIL_LAUNCH)) { status = (int)option(FAIL_LAUNCH); LEAVE }
  if (!grid_fits(c->grid[0], c->grid[1], c->grid[2])) { status = INVALID; LEAVE }
  for (uint32_t n = 0; n < c->attr_count; n++) {
    if (c->attrs[n].id != COOPERATIVE && c->attrs[n].id != PROGRAMMATIC)
      note("launch attribute %d", c->attrs[n].id);
    if (c->attrs[n].id != COOPERATIVE || !c->attrs[n].value.number) continue;
    uint32_t *b = (uint32_t *)c->block, groups = c->grid[0] * c->grid[1] * c->grid[2];
    if (groups > 132u * (uint32_t)resident(f, b[0] * b[1] * b[2], c->shared)) status = 720;
    cooperative_launches++;
  }
  if (!status)
    status = put(c->stream, (Op){.kind = KERNEL,
                                 .launch = packed(f, c->grid, c->block, c->shared, params)});
  LEAVE
}
API int cuGraphKernelNodeSetAttribute(Node *node, int id, const Attribute *value) {
  ENTER
  (void)node, (void)value;
  if (id != COOPERATIVE) note("node attribute %d", id);
  cooperative_launches++;
  LEAVE
}

typedef struct { unsigned char from_port, to_port, type, reserved[5]; } EdgeData;
static long early_edges;
API long fake_early(void) { return early_edges; }
API int cuGraphAddDependencies(Graph *g, Node *const *from, Node *const *to, const EdgeData *data,
                               size_t n) {
  ENTER
  (void)g;
  for (size_t i = 0; i < n; i++) {
    if (data && data[i].type == 1) {
      if (data[i].from_port != 1 || from[i]->event) status = INVALID;
      early_edges++;
    }
    to[i]->dep = realloc(to[i]->dep, sizeof *to[i]->dep * (size_t)(to[i]->deps + 1));
    to[i]->dep[to[i]->deps++] = from[i];
  }
  LEAVE
}

API int cuTensorMapEncodeTiled(TensorMap *out, int type, uint32_t rank, Ptr address,
                               const uint64_t *size, const uint64_t *stride, const uint32_t *box,
                               const uint32_t *steps, int interleave, int swizzle, int l2,
                               int fill) {
  static const uint16_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
  static const uint16_t spans[] = {0, 32, 64, 128};
  if (type < 0 || type > 9 || rank < 1 || rank > 5 || address % 16 || interleave || swizzle > 3)
    return INVALID;
  (void)l2, (void)fill;
  *out = (TensorMap){.magic = MAP_MAGIC, .address = address, .rank = (uint16_t)rank,
                     .bytes = bytes[type], .swizzle = spans[swizzle]};
  for (uint32_t d = 0; d < rank; d++) {
    if (!size[d] || size[d] >> 32 || !box[d] || box[d] > 256 || steps[d] != 1) return INVALID;
    if (d && (!stride[d - 1] || stride[d - 1] % 16)) return INVALID;
    out->size[d] = (uint32_t)size[d], out->box[d] = box[d];
    if (d) out->stride[d - 1] = stride[d - 1];
  }
  uint32_t row = box[0] * out->bytes;
  if (row % 16 || (out->swizzle && row > out->swizzle)) return INVALID;
  return OK;
}
