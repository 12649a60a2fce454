/* Barriers, and the ops at which the lanes of a warp meet. */

#include "model.h"

static Thread *of_warp(uint32_t lane) {
  return &own_threads()[now->linear / WARP * WARP + lane];
}
static int is_there(const Thread *t) { return t < own_threads() + thread_count; }

void meet(uint32_t site, uint32_t mask, void *given, void (*work)(void **given, uint32_t mask)) {
  Thread *me = now;
  void *all[WARP] = {0};
  if (!(mask >> me->linear % WARP & 1)) fail(site, "this lane is not in the mask %#x", mask);
  me->state = AT_WARP, me->site = site, me->mask = mask, me->given = given;
  int complete = 1;
  for (uint32_t lane = 0; lane < WARP; lane++) {
    if (!(mask >> lane & 1)) continue;
    Thread *t = of_warp(lane);
    if (!is_there(t)) fail(site, "the block has no lane %u of this warp", lane);
    if (t->state == DONE) fail(site, "lane %u is in the mask and has left", lane);
    if (t->state == AT_WARP && (t->site != site || t->mask != mask))
      fail(site, "lane %u waits at another op, or with another mask", lane);
    complete &= t->state == AT_WARP;
    all[lane] = t->given;
  }
  if (!complete) { pass(); return; }
  work(all, mask);
  me->state = READY;
  for (uint32_t lane = 0; lane < WARP; lane++)
    if (mask >> lane & 1 && of_warp(lane) != me) wake(of_warp(lane));
  if (draw() & 1) wake(me), pass();
}

#define BARRIERS 16
static uint32_t of_blocks[MOST_CLUSTER][BARRIERS], of_cluster, cluster_phase;
static uint32_t phases[MOST_THREADS]; /* of the cluster's barrier, when each thread arrived */
void clear_barriers(void) {
  memset(of_blocks, 0, sizeof of_blocks);
  of_cluster = 0;
}

/* count: how many threads the barrier is for. */
static void come(uint32_t site, uint32_t barrier, uint32_t count) {
  uint32_t *arrived = of_blocks[rank_now()];
  if (++arrived[barrier] > count)
    fail(site, "%u threads at a barrier for %u", arrived[barrier], count);
  if (arrived[barrier] < count) return;
  epoch++, arrived[barrier] = 0;
  Thread *own = own_threads();
  for (uint32_t n = 0; n < thread_count; n++)
    if (own[n].state == AT_BARRIER && own[n].barrier == barrier) wake(&own[n]);
}

/* All lanes of a warp come by the same instruction. */
static void arrive(uint32_t site, uint32_t barrier, uint32_t count) {
  if (barrier >= BARRIERS) fail(site, "there is no barrier %u", barrier);
  for (uint32_t lane = 0; lane < WARP; lane++) {
    const Thread *t = of_warp(lane);
    if (is_there(t) && t->state == AT_BARRIER && t->barrier == barrier &&
        t->site != site)
      fail(site, "thread %u of this warp waits at another barrier instruction", t->linear);
  }
  now->state = AT_BARRIER, now->site = site, now->barrier = barrier;
  come(site, barrier, count);
  pass();
}
API void nv_barrier_cta_sync_aligned_all(uint32_t site, uint32_t id) {
  arrive(site, id, thread_count);
}
API void nv_barrier_cta_sync_aligned_count(uint32_t site, uint32_t id, uint32_t count) {
  if (count % WARP) fail(site, "a barrier for %u threads: no multiple of %u", count, WARP);
  arrive(site, id, count);
}
API void nv_barrier_cta_arrive_aligned_count(uint32_t site, uint32_t id, uint32_t count) {
  if (count % WARP) fail(site, "a barrier for %u threads: no multiple of %u", count, WARP);
  if (id >= BARRIERS) fail(site, "there is no barrier %u", id);
  come(site, id, count);
}

/* The barrier of a cluster comes in two parts: who has arrived may go on until the wait. */
#define OF_CLUSTER (~0u - 1)
API void nv_barrier_cluster_arrive(uint32_t site) {
  (void)site;
  phases[number_now()] = cluster_phase;
  if (++of_cluster < all_threads()) return;
  of_cluster = 0, cluster_phase++, epoch++;
  for (uint32_t n = 0; n < all_threads(); n++)
    if (threads[n].state == AT_BARRIER && threads[n].barrier == OF_CLUSTER) wake(&threads[n]);
}
API void nv_barrier_cluster_wait(uint32_t site) {
  if (phases[number_now()] != cluster_phase) return;
  now->state = AT_BARRIER, now->site = site, now->barrier = OF_CLUSTER;
  pass();
}
API uint32_t nv_read_ptx_sreg_cluster_ctarank(void) { return now->rank; }

static void nothing(void **given, uint32_t mask) { (void)given, (void)mask; }
API void nv_bar_warp_sync(uint32_t site, uint32_t mask) { meet(site, mask, &mask, nothing); }

/* shfl: result of a lane = value of lane j, or its own where j is outside of its segment */

typedef struct { uint32_t value, operand, clamp, mode, result, lane, site; } Shuffle;
enum { IDX, UP, DOWN, BFLY };

static void shuffle(void **given, uint32_t mask) {
  uint32_t values[WARP] = {0};
  for (int n = 0; n < WARP; n++) if (given[n]) values[n] = ((Shuffle *)given[n])->value;
  for (int n = 0; n < WARP; n++) {
    Shuffle *s = given[n];
    if (!s) continue;
    int segment = (int)(s->clamp >> 8 & 31), clamp = (int)(s->clamp & 31);
    int b = (int)(s->operand & 31);
    int low = n & segment, high = low | (clamp & ~segment);
    int j = s->mode == UP ? n - b : s->mode == DOWN ? n + b : s->mode == BFLY ? n ^ b
                                                                    : low | (b & ~segment);
    int inside = s->mode == UP ? j >= high : j <= high;
    if (!inside) j = n;
    if (!(mask >> j & 1)) fail(s->site, "lane %d reads lane %d, which is not in the mask", n, j);
    s->result = values[j];
  }
}
/* elect: one lane of the mask, any */
typedef struct { uint32_t lane; } Elected;
static void elect(void **given, uint32_t mask) {
  uint32_t lane;
  do lane = (uint32_t)(draw() % WARP); while (!(mask >> lane & 1));
  for (int n = 0; n < WARP; n++) if (given[n]) ((Elected *)given[n])->lane = lane;
}
typedef struct { uint32_t lane; uint8_t chosen; } Election;
API void nv_elect_sync(Election *out, uint32_t site, uint32_t mask) {
  Elected e = {0};
  meet(site, mask, &e, elect);
  *out = (Election){e.lane, now->linear % WARP == e.lane};
}

#define SHUFFLE(name, mode)                                                                    \
  API uint32_t nv_shfl_sync_##name##_i32(uint32_t site, uint32_t mask, uint32_t value,         \
                                         uint32_t operand, uint32_t clamp) {                   \
    Shuffle s = {value, operand, clamp, mode, 0, now->linear % WARP, site};                    \
    meet(site, mask, &s, shuffle);                                                             \
    return s.result;                                                                           \
  }                                                                                            \
  API float nv_shfl_sync_##name##_f32(uint32_t site, uint32_t mask, float value,               \
                                      uint32_t operand, uint32_t clamp) {                      \
    union { float real; uint32_t bits; } word = {value};                                       \
    word.bits = nv_shfl_sync_##name##_i32(site, mask, word.bits, operand, clamp);              \
    return word.real;                                                                          \
  }
SHUFFLE(idx, IDX)
SHUFFLE(up, UP)
SHUFFLE(down, DOWN)
SHUFFLE(bfly, BFLY)

/* votes and reductions: one result for all lanes of the mask */

typedef struct { uint32_t value, result; } One;
#define EACH(code)                                                                             \
  uint32_t total = 0;                                                                          \
  int first = 1;                                                                               \
  for (int n = 0; n < WARP; n++) {                                                             \
    if (!given[n]) continue;                                                                   \
    uint32_t v = ((One *)given[n])->value;                                                     \
    (void)v, (void)first;                                                                      \
    total = code;                                                                              \
    first = 0;                                                                                 \
  }                                                                                            \
  for (int n = 0; n < WARP; n++) if (given[n]) ((One *)given[n])->result = total;              \
  (void)mask;
#define TOGETHER(name, code)                                                                   \
  static void do_##name(void **given, uint32_t mask) { EACH(code) }                            \
  API uint32_t nv_##name(uint32_t site, ORDER) {                                               \
    One one = {value, 0};                                                                      \
    meet(site, mask, &one, do_##name);                                                         \
    return one.result;                                                                         \
  }
#define ORDER uint32_t value, uint32_t mask
TOGETHER(redux_sync_add, total + v)
TOGETHER(redux_sync_and, first ? v : total & v)
TOGETHER(redux_sync_or, total | v)
TOGETHER(redux_sync_xor, total ^ v)
TOGETHER(redux_sync_min, first || (int32_t)v < (int32_t)total ? v : total)
TOGETHER(redux_sync_max, first || (int32_t)v > (int32_t)total ? v : total)
TOGETHER(redux_sync_umin, first || v < total ? v : total)
TOGETHER(redux_sync_umax, first || v > total ? v : total)
#undef ORDER
#define ORDER uint32_t mask, uint32_t value
TOGETHER(vote_ballot_sync, total | (v ? 1u << n : 0))
TOGETHER(vote_any_sync, total | !!v)
TOGETHER(vote_all_sync, first ? !!v : total & !!v)
