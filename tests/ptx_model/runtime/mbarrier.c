/* Barriers that lie in workgroup memory, and bulk copies that tell them of their bytes.

   A phase is over when all arrivals and all bytes that were announced have come. A bulk copy is
   done when somebody begins to wait for its barrier, or when nobody else can go on; until then its
   destination holds a pattern.

   Such a kernel orders its accesses otherwise than by barriers of the whole block, which is what
   the watch for races knows: it ends with the first of these barriers. */

#include "model.h"

#define MOST (64 * MOST_CLUSTER)
typedef struct { const char *at; uint32_t count, pending, phase; int64_t bytes; } Barrier;
typedef struct { char *to, *data; uint32_t bytes, barrier; } Bulk; /* data: what it brings */
static Barrier barriers[MOST];
static Bulk bulks[MOST];
static uint32_t barrier_count, bulk_count;

void forget_mbarriers(void) {
  while (bulk_count) free(bulks[--bulk_count].data);
  barrier_count = 0;
}

static Barrier *find(const char *at, uint32_t site) {
  touch(at, ANY_OBJECT, 8, 8, ATOMIC, site);
  for (uint32_t n = 0; n < barrier_count; n++) if (barriers[n].at == at) return &barriers[n];
  fail(site, "an mbarrier that was not initialised");
}

/* End the phase where nothing is missing. */
static void settle(Barrier *b) {
  if (b->pending || b->bytes) return;
  b->phase ^= 1, b->pending = b->count;
  for (uint32_t n = 0; n < all_threads(); n++)
    if (threads[n].state == AT_BARRIER && threads[n].given == b) wake(&threads[n]);
}

static uint64_t arrived(Barrier *b, uint32_t site, uint32_t count, uint32_t bytes) {
  uint32_t before = b->phase;
  if (count > b->pending) fail(site, "%u arrive where %u are missing", count, b->pending);
  b->bytes += bytes, b->pending -= count;
  settle(b);
  return before;
}

API void nv_mbarrier_init_shared(uint32_t site, const char *at, uint32_t count) {
  stop_race_watch();
  touch(at, ANY_OBJECT, 8, 8, STORE, site);
  if (!count || count > 0xFFFFF) fail(site, "an mbarrier for %u arrivals", count);
  uint32_t n = 0;
  while (n < barrier_count && barriers[n].at != at) n++;
  if (n == MOST) fail(site, "more than %d mbarriers", MOST);
  if (n == barrier_count) barrier_count++;
  barriers[n] = (Barrier){at, count, count, 0, 0};
}
API void nv_mbarrier_inval_shared(uint32_t site, const char *at) { find(at, site)->at = NULL; }
API uint64_t nv_mbarrier_arrive_scope_cta_space_cta(uint32_t site, const char *at, uint32_t n) {
  return arrived(find(at, site), site, n, 0);
}
API uint64_t nv_mbarrier_arrive_expect_tx_scope_cta_space_cta(uint32_t site, const char *at,
                                                              uint32_t bytes) {
  return arrived(find(at, site), site, 1, bytes);
}

/* At another workgroup's, too: an address says which. */
API void nv_mbarrier_arrive_scope_cta_space_cluster(uint32_t site, const char *at, uint32_t n) {
  arrived(find(at, site), site, n, 0);
}

static void deliver(Barrier *b) {
  uint32_t number = (uint32_t)(b - barriers);
  for (uint32_t n = 0; n < bulk_count; n++) {
    if (bulks[n].barrier != number) continue;
    memcpy(bulks[n].to, bulks[n].data, bulks[n].bytes);
    b->bytes -= bulks[n].bytes;
    free(bulks[n].data);
    bulks[n--] = bulks[--bulk_count];
  }
  settle(b);
}
void deliver_bulks(void) {
  for (uint32_t n = 0; n < barrier_count; n++) deliver(&barriers[n]);
}

/* It may suspend the thread until the phase is over, and does: who waits for ever is found so. */
API uint32_t nv_mbarrier_try_wait_parity_scope_cta_space_cta(uint32_t site, const char *at,
                                                             uint32_t parity) {
  Barrier *b = find(at, site);
  if (b->phase != (parity & 1)) return 1;
  deliver(b);
  if (b->phase != (parity & 1)) return 1;
  now->state = AT_BARRIER, now->site = site, now->barrier = ~0u, now->given = b;
  pass();
  now->given = NULL;
  return 1;
}

/* A copy of `data`, which is given away, begins. */
void begin_bulk(uint32_t site, char *to, const char *barrier, char *data, uint32_t bytes) {
  Barrier *b = find(barrier, site);
  if (bulk_count == MOST) fail(site, "more than %d bulk copies at once", MOST);
  bulks[bulk_count++] = (Bulk){to, data, bytes, (uint32_t)(b - barriers)};
  memset(to, draw() & 1 ? 0xFF : 0x5A, bytes);
}

/* Memory is in order here. */
API void nv_fence_proxy_async_shared_cta(uint32_t site) { (void)site; }
API void nv_fence_mbarrier_init_release_cluster(uint32_t site) { (void)site; }
