/* Bulk and tensor copies from workgroup memory to buffers, tensor copies the other way, and what
   goes with them. A copy to a buffer is done at the wait that covers it and not before: whoever
   writes the workgroup array too early spoils it. */

#include "model.h"
#include "tensor_map.h"

typedef struct Out {
  struct Out *next;
  uint32_t group, site, bytes;
  const char *from;
  char *to;              /* of a plain copy */
  const TensorMap *map;  /* of a tensor copy */
  int32_t at[5];
} Out;
static uint32_t groups[MOST_THREADS];
static Out *outs[MOST_THREADS];

void forget_bulk(uint32_t thread) {
  groups[thread] = 0;
  for (Out *o = outs[thread], *next; o; o = next) next = o->next, free(o);
  outs[thread] = NULL;
}
int bulk_pending(uint32_t thread) { return outs[thread] != NULL; }

static const TensorMap *checked(const TensorMap *m, uint32_t rank, uint32_t site) {
  if ((uintptr_t)m % 64) fail(site, "a tensor map that is no multiple of 64");
  if (m->magic != MAP_MAGIC || m->rank != rank) fail(site, "no tensor map of %u dimensions", rank);
  return m;
}
static uint32_t box_bytes(const TensorMap *m) {
  uint32_t n = m->bytes;
  for (int d = 0; d < m->rank; d++) n *= m->box[d];
  return n;
}

/* One row of a box at a time: where it lies in the tensor, where in the tile. */
static void each_row(const TensorMap *m, const int32_t *at, char *tile, uint32_t site,
                     void (*move)(char *in_tile, char *in_tensor, uint32_t bytes, uint32_t site)) {
  uint32_t rows = 1, row_bytes = m->box[0] * m->bytes;
  for (int d = 1; d < m->rank; d++) rows *= m->box[d];
  for (uint32_t r = 0; r < rows; r++) {
    int inside = 1;
    uint64_t place = m->address;
    for (uint32_t d = 1, rest = r; d < m->rank; rest /= m->box[d], d++) {
      int64_t x = at[d] + (int64_t)(rest % m->box[d]);
      inside &= x >= 0 && x < m->size[d];
      place += (uint64_t)x * m->stride[d - 1];
    }
    for (uint32_t byte = 0; byte < row_bytes; byte += m->bytes) {
      int64_t x = at[0] + (int64_t)(byte / m->bytes);
      uintptr_t spot = (uintptr_t)tile + r * row_bytes + byte;
      if (m->swizzle) spot ^= (spot >> 7 & (m->swizzle / 16u - 1)) << 4;
      int here = inside && x >= 0 && x < m->size[0];
      move((char *)spot, here ? (char *)(place + (uint64_t)x * m->bytes) : NULL, m->bytes, site);
    }
  }
}

static char *snapshot;
static uintptr_t tile_start;
static void take(char *spot, char *from, uint32_t bytes, uint32_t site) {
  if (from) touch(from, ANY_OBJECT, bytes, bytes, LOAD, site);
  char *to = snapshot + ((uintptr_t)spot - tile_start);
  if (from) memcpy(to, from, bytes);
  else memset(to, 0, bytes);
}
static void put(char *spot, char *to, uint32_t bytes, uint32_t site) {
  touch(spot, ANY_OBJECT, bytes, bytes, LOAD, site);
  if (!to) return;
  touch(to, ANY_OBJECT, bytes, bytes, STORE, site);
  memcpy(to, spot, bytes);
}

/* What is copied to one workgroup or to all of the mask, to the same place in each, and told to the
   mbarrier at the same place. data: given away. */
static void begin_all(uint32_t site, char *to, const char *barrier, char *data, uint32_t bytes,
                      int several, uint32_t mask) {
  if (!several) {
    begin_bulk(site, to, barrier, data, bytes);
    return;
  }
  if (!mask || mask >> cluster_size) fail(site, "a copy to workgroups %#x of %u", mask, cluster_size);
  for (uint32_t rank = 0; rank < cluster_size; rank++) {
    if (!(mask >> rank & 1)) continue;
    char *there = (char *)(uintptr_t)peer(to, rank, site);
    touch(there, ANY_OBJECT, bytes, 16, STORE, site);
    begin_bulk(site, there, peer(barrier, rank, site), memcpy(malloc(bytes + 1), data, bytes),
               bytes);
  }
  free(data);
}

static void load_box(uint32_t site, char *to, const char *barrier, const TensorMap *map,
                     uint32_t rank, const int32_t *at, int several, uint32_t mask) {
  const TensorMap *m = checked(map, rank, site);
  uint32_t bytes = box_bytes(m), align = m->swizzle ? 1024 : 128;
  if ((uintptr_t)to % align) fail(site, "a tile that is no multiple of %u", align);
  touch(to, ANY_OBJECT, bytes, 16, STORE, site);
  snapshot = malloc(bytes), tile_start = (uintptr_t)to;
  each_row(m, at, to, site, take);
  begin_all(site, to, barrier, snapshot, bytes, several, mask);
}

static void later(Out o) {
  o.group = groups[number_now()];
  Out *kept = malloc(sizeof o), **end = &outs[number_now()];
  *kept = o;
  while (*end) end = &(*end)->next;
  *end = kept;
}

static void finish(uint32_t before_group) {
  Out **first = &outs[number_now()];
  for (Out *o; (o = *first) && o->group < before_group; *first = o->next, free(o)) {
    if (o->map) {
      each_row(o->map, o->at, (char *)(uintptr_t)o->from, o->site, put);
      continue;
    }
    touch(o->from, ANY_OBJECT, o->bytes, 16, LOAD, o->site);
    touch(o->to, ANY_OBJECT, o->bytes, 16, STORE, o->site);
    memcpy(o->to, o->from, o->bytes);
  }
}
static void wait_for(uint32_t left) {
  uint32_t all = groups[number_now()];
  finish(all > left ? all - left : 0);
}

API void nv_cp_async_bulk_commit_group(uint32_t site) { (void)site, groups[number_now()]++; }
API void nv_cp_async_bulk_wait_group(uint32_t site, uint32_t left) { (void)site, wait_for(left); }
API void nv_cp_async_bulk_wait_group_read(uint32_t site, uint32_t left) {
  (void)site, wait_for(left);
}
API void nv_cp_async_bulk_shared_cta_to_global(uint32_t site, char *to, const char *from,
                                               uint32_t bytes, uint64_t hint, uint8_t hinted) {
  (void)hint, (void)hinted;
  if (bytes % 16) fail(site, "a bulk copy of %u bytes: no multiple of 16", bytes);
  later((Out){.site = site, .bytes = bytes, .from = from, .to = to});
}
API void nv_cp_async_bulk_global_to_shared_cluster(uint32_t site, char *to, const char *barrier,
                                                   const char *from, uint32_t bytes, uint16_t mask,
                                                   uint64_t hint, uint8_t several,
                                                   uint8_t hinted) {
  (void)hint, (void)hinted;
  if (bytes % 16) fail(site, "a bulk copy of %u bytes: no multiple of 16", bytes);
  touch(to, ANY_OBJECT, bytes, 16, STORE, site), touch(from, ANY_OBJECT, bytes, 16, LOAD, site);
  char *data = malloc(bytes + 1);
  memcpy(data, from, bytes);
  begin_all(site, to, barrier, data, bytes, several, mask);
}

#define TILE(rank, coordinates, ...)                                                           \
  API void nv_cp_async_bulk_tensor_g2s_tile_##rank##d(                                         \
      uint32_t site, char *to, const char *barrier, const TensorMap *map, coordinates,         \
      uint16_t mask, uint64_t hint, uint8_t several, uint8_t hinted, uint32_t cta_group) {     \
    (void)hint, (void)hinted, (void)cta_group;                                                 \
    load_box(site, to, barrier, map, rank, (int32_t[]){__VA_ARGS__}, several, mask);           \
  }                                                                                            \
  API void nv_cp_async_bulk_tensor_s2g_tile_##rank##d(uint32_t site, const char *from,         \
                                                      const TensorMap *map, coordinates,       \
                                                      uint64_t hint, uint8_t hinted) {         \
    (void)hint, (void)hinted;                                                                  \
    const TensorMap *m = checked(map, rank, site);                                             \
    if ((uintptr_t)from % (m->swizzle ? 1024 : 128)) fail(site, "a tile off its alignment");   \
    Out o = {.site = site, .from = from, .map = m};                                            \
    memcpy(o.at, (int32_t[]){__VA_ARGS__}, 4 * rank);                                          \
    later(o);                                                                                  \
  }                                                                                            \
  API void nv_cp_async_bulk_tensor_prefetch_tile_##rank##d(                                    \
      uint32_t site, const TensorMap *map, coordinates, uint64_t hint, uint8_t hinted) {       \
    (void)hint, (void)hinted;                                                                  \
    const int32_t at[] = {__VA_ARGS__}; /* anywhere */                                         \
    (void)at, (void)checked(map, rank, site);                                                  \
  }
#define C1 int32_t a
#define C2 C1, int32_t b
#define C3 C2, int32_t c
#define C4 C3, int32_t d
#define C5 C4, int32_t e
TILE(1, C1, a)
TILE(2, C2, a, b)
TILE(3, C3, a, b, c)
TILE(4, C4, a, b, c, d)
TILE(5, C5, a, b, c, d, e)

API void nv_griddepcontrol_wait(uint32_t site) { (void)site; }
API void nv_griddepcontrol_launch_dependents(uint32_t site) { (void)site; }

/* The same place in another workgroup of the cluster, and an arrival there. */
API const char *nv_mapa_shared_cluster(uint32_t site, const char *at, uint32_t rank) {
  return peer(at, rank, site);
}
