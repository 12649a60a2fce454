/* A test double of ROCm's HSA runtime: libhsa-runtime64 without a GPU.

   "Device" memory is host memory. Each queue has a thread that takes packets off its ring; copies
   are done by another one, later than they could be and the newest first. Packets that no barrier
   bit holds together run in reverse. So whoever forgets to wait, to order or to ring the bell is
   found out every time. Live objects are counted, misuse is noted, failures are injected by
   `fake_set`. Kernels run in a callback (`fakehsa_set_executor`), or as host functions of their
   names (`fake_kernels`). */

#define _GNU_SOURCE
#include "fake_objects.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
typedef uint32_t Status;
typedef uint64_t Handle;
enum { OK = 0, NO_POOL = 40, ERROR = 0x1000, ARGUMENT = 0x1001, AGENT = 0x1004, SIGNAL = 0x1006,
       QUEUE = 0x1007, RESOURCES = 0x1008, FORMAT = 0x1009, NOT_STARTED = 0x100b,
       INCOMPATIBLE = 0x100d, BAD_CODE = 0x1010, EXECUTABLE = 0x1011, FROZEN = 0x1012,
       NO_SYMBOL = 0x1013 };
enum { CPU = 1, GPUS = 0x10, MOST_GPUS = 8 };

typedef struct Signal { int64_t value; struct Queue *bell; int released, profiled, gone;
                        uint64_t start, end; } Signal;
typedef struct { uint16_t header, setup, block[3], reserved; uint32_t grid[3], private_bytes, group;
                 uint64_t object, kernarg, reserved2, signal; } Packet;
typedef struct { uint16_t header, reserved; uint32_t reserved1; uint64_t after[5], reserved2,
                 signal; } Barrier;
/* The first members are those of hsa_queue_t. */
typedef struct Queue { uint32_t type, features; Packet *base; Handle doorbell; uint32_t size, zero;
                       uint64_t id; uint64_t read, write; int64_t rung; int stop, dead, profiled;
                       Handle agent; void (*failed)(Status, struct Queue *, void *); void *data;
                       pthread_t thread; struct Queue *next; } Queue;
typedef struct Memory { uint8_t *base; uint64_t size; Handle pool; uint32_t reached; int freed;
                        struct Memory *next; } Memory;
typedef struct Copy { uint8_t *to, *from; Handle to_agent, from_agent; uint64_t size; Signal *after;
                      Signal *done; struct Copy *next; } Copy;
typedef struct Executable { Code code; Handle agent; int loaded, frozen; struct Executable *next;
                            } Executable;
typedef struct { const uint8_t *elf; uint64_t size; } Reader;
typedef struct { Executable *executable; uint64_t at; } Symbol;
typedef struct { uint32_t kind; Handle agent; uint64_t address; uint32_t reasons; } Event;
typedef int (*Executor)(const Packet *, const uint8_t *elf, uint64_t size, uint64_t base,
                        uint64_t descriptor, uint32_t gpu);
typedef void (*HostKernel)(const void *, const uint32_t *, const uint32_t *);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static Memory *memories;
static Queue *queues;
static Copy *copies;
static Executable *executables;
static Executor executor;
static void *host_kernels;
static Status (*handler)(const Event *, void *);
static char isas[MOST_GPUS][256] = {"gfx1100,gfx11-generic"};
static char misuse[512], failure[512];
static int users, copier;
static uint64_t used[MOST_GPUS];
static long dispatches, bells, counts[8], options[32];
enum { DEVICE_MEMORY, HOST_MEMORY, SIGNALS, QUEUES, EXECUTABLES, READERS };
/* What `fake_set` sets; *_AFTER count dispatches from now, -1 is never. */
enum { INIT, GPU_COUNT, RING, MEMORY, HANG_AFTER, FAIL_AFTER, FAIL_STATUS, EVENT_AFTER, EVENT_KIND,
       FAIL_ALLOC, FAIL_HOST, FAIL_LOAD, FAIL_COPY, TELLS, CALLS, SLOW };
static long option(int which) {
  static const long standard[] = {0, 1, 4096, 1L << 31, -1, -1, 0x1009, -1, 0, 0, 0, 0, 0, 1, 0, 0};
  return options[which] ? options[which] - 1000000 : standard[which];
}
static int due(int which) { /* with the lock; counts one dispatch */
  long left = option(which);
  if (left > 0) options[which] = left - 1 + 1000000;
  return left == 0;
}
static void note(const char *format, ...) {
  if (misuse[0]) return;
  va_list list;
  va_start(list, format);
  vsnprintf(misuse, sizeof misuse, format, list);
  va_end(list);
}

API void fake_set(int which, long value) {
  pthread_mutex_lock(&lock);
  options[which] = value + 1000000;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}
API long fake_count(int which) { return counts[which]; }
API long fake_dispatches(void) { return dispatches; }
API long fake_bells(void) { return bells; }
API int fake_users(void) { return users; }
API const char *fake_misuse(void) { return misuse; }
API const char *fake_failure(void) { return failure; }
API void fake_failed(const char *text) { snprintf(failure, sizeof failure, "%s", text); }
API void fake_kernels(const char *path) { host_kernels = dlopen(path, RTLD_NOW); }
/* names: what each GPU runs, by ','; one more GPU by ';' */
API void fakehsa_set_executor(Executor f, const char *names) {
  executor = f;
  memset(isas, 0, sizeof isas);
  for (int gpu = 0; gpu < MOST_GPUS && names; gpu++) {
    size_t n = strcspn(names, ";");
    snprintf(isas[gpu], sizeof isas[gpu], "%.*s", (int)n, names);
    names = names[n] ? names + n + 1 : NULL;
  }
}
API long fake_allocations(uint64_t (*out)[2], long room) { /* base and size; how many there are */
  long n = 0;
  pthread_mutex_lock(&lock);
  for (Memory *m = memories; m; m = m->next)
    if (!m->freed && n++ < room) out[n - 1][0] = (uint64_t)m->base, out[n - 1][1] = m->size;
  pthread_mutex_unlock(&lock);
  return n;
}
API void fake_reset(void) {
  pthread_mutex_lock(&lock);
  for (Queue *q = queues; q; q = q->next) q->stop = 1;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  for (Queue *q = queues; q; q = q->next) pthread_join(q->thread, NULL);
  pthread_mutex_lock(&lock);
  memset(options, 0, sizeof options), memset(counts, 0, sizeof counts);
  memset(used, 0, sizeof used);
  queues = NULL, memories = NULL, copies = NULL, executables = NULL, handler = NULL;
  users = 0, dispatches = bells = 0, misuse[0] = failure[0] = 0;
  pthread_mutex_unlock(&lock);
  fakehsa_set_executor(NULL, "gfx1100,gfx11-generic");
}

#define START if (!users) return NOT_STARTED; if (option(CALLS)) return (Status)option(CALLS)
static int gpu_of(Handle agent) {
  return agent >= GPUS && (long)(agent - GPUS) < option(GPU_COUNT) ? (int)(agent - GPUS) : -1;
}
static uint64_t now(void) { /* of a clock of 100 MHz */
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 100000000 + (uint64_t)t.tv_nsec / 10;
}

/* memory */

static Memory *find(const void *at, uint64_t n) {
  for (Memory *m = memories; m; m = m->next)
    if (!m->freed && (uint8_t *)at >= m->base && (uint8_t *)at + n <= m->base + m->size) return m;
  return NULL;
}
/* Pools: of the CPU 0x101 coarse, 0x102 fine, 0x103 for kernel parameters; of GPU n 0x200 + 16 n:
   1 workgroup memory, 2 fine, 3 coarse. */
API Status hsa_amd_agent_iterate_memory_pools(Handle agent, Status (*visit)(Handle, void *),
                                              void *d) {
  START;
  Handle first = agent == CPU ? 0x100 : 0x200 + 16 * (agent - GPUS);
  for (Handle n = 1; n <= 3; n++) visit(first + n, d);
  return OK;
}
API Status hsa_amd_memory_pool_get_info(Handle pool, int which, void *out) {
  START;
  int host = pool < 0x200, kind = (int)(pool & 15), group = !host && kind == 1;
  static const uint32_t of_host[] = {0, 4, 2, 3}, of_gpu[] = {0, 0, 2, 4};
  switch (which) {
    case 0: *(uint32_t *)out = group ? 3 : 0; return OK;
    case 1: *(uint32_t *)out = host ? of_host[kind] : of_gpu[kind]; return OK;
    case 2: *(size_t *)out = group ? 65536 : host ? 1ul << 36 : (size_t)option(MEMORY); return OK;
    case 5: *(uint8_t *)out = !group; return OK;
    case 16: *(size_t *)out = host ? 1ul << 36 : (size_t)option(MEMORY); return OK;
  }
  return ARGUMENT;
}
API Status hsa_amd_memory_pool_allocate(Handle pool, size_t n, uint32_t flags, void **out) {
  START;
  pthread_mutex_lock(&lock);
  int host = pool < 0x200, gpu = host ? 0 : (int)((pool - 0x200) >> 4);
  Status status = OK;
  if ((!host && (pool & 15) == 1) || !n) status = ARGUMENT;
  else if (option(host ? FAIL_HOST : FAIL_ALLOC)) status = RESOURCES;
  else if (!host && used[gpu] + n > (uint64_t)option(MEMORY)) status = RESOURCES;
  else {
    Memory *m = calloc(1, sizeof *m);
    m->size = n, m->pool = pool, m->reached = host ? 0 : 1u << gpu;
    m->base = memset(aligned_alloc(4096, (n + 4095) & ~4095ul), 0xCD, n);
    m->next = memories, memories = m;
    if (!host) used[gpu] += n;
    counts[host ? HOST_MEMORY : DEVICE_MEMORY]++;
    *out = m->base;
  }
  pthread_mutex_unlock(&lock);
  return status;
}
API Status hsa_amd_memory_pool_free(void *base) {
  START;
  pthread_mutex_lock(&lock);
  Memory *m = find(base, 1);
  if (!m || m->base != base) note("memory %p freed twice or never allocated", base);
  else {
    m->freed = 1, counts[m->pool < 0x200 ? HOST_MEMORY : DEVICE_MEMORY]--;
    if (m->pool >= 0x200) used[(m->pool - 0x200) >> 4] -= m->size;
    memset(m->base, 0xDD, m->size); /* never reused: a late access reads this */
  }
  pthread_mutex_unlock(&lock);
  return OK;
}
API Status hsa_amd_agents_allow_access(uint32_t n, const Handle *agents, const uint32_t *f,
                                       const void *at) {
  START;
  pthread_mutex_lock(&lock);
  Memory *m = find(at, 1);
  for (uint32_t i = 0; m && i < n; i++)
    if (gpu_of(agents[i]) >= 0) m->reached |= 1u << gpu_of(agents[i]);
  pthread_mutex_unlock(&lock);
  return m ? OK : ARGUMENT;
}

/* signals */

static void count_down(Signal *s, int released) { /* with the lock */
  if (s->gone) note("a signal that was destroyed is counted down");
  s->value--, s->released = released;
  pthread_cond_broadcast(&changed);
}
API Status hsa_signal_create(int64_t value, uint32_t n, const Handle *consumers, Handle *out) {
  START;
  Signal *s = calloc(1, sizeof *s);
  s->value = value, s->released = 1;
  *out = (Handle)s;
  __atomic_add_fetch(&counts[SIGNALS], 1, __ATOMIC_RELAXED);
  return OK;
}
API Status hsa_signal_destroy(Handle h) {
  START;
  Signal *s = (Signal *)h;
  if (s->gone) note("a signal is destroyed twice");
  s->gone = 1; /* never freed: a late use is found */
  __atomic_sub_fetch(&counts[SIGNALS], 1, __ATOMIC_RELAXED);
  return OK;
}
API int64_t hsa_signal_load_scacquire(Handle s) {
  return __atomic_load_n(&((Signal *)s)->value, __ATOMIC_ACQUIRE);
}
static void ring(Queue *q, int64_t index) { /* with the lock */
  Packet *first = q->base + ((uint64_t)(q->rung + 1) & (q->size - 1));
  bells++;
  if (index >= (int64_t)q->write) note("the bell rings for packet %ld of %lu", index, q->write);
  if ((first->header & 255) == 1)
    note("the bell rings before packet %ld is published", q->rung + 1);
  if ((first->header >> 9 & 3) != 2)
    note("packet %ld does not acquire what the host wrote", q->rung + 1);
  for (int64_t i = q->rung + 1; i <= index; i++) {
    uint16_t head = q->base[(uint64_t)i & (q->size - 1)].header;
    if (!(head >> 9 & 3) || !(head >> 11 & 3))
      note("packet %ld has no fence: others do not see what it wrote, or it what they did", i);
  }
  q->rung = index;
}
static void store(Handle h, int64_t value) {
  Signal *s = (Signal *)h;
  pthread_mutex_lock(&lock);
  if (s->bell) ring(s->bell, value); else s->value = value;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}
API void hsa_signal_store_screlease(Handle s, int64_t value) { store(s, value); }
API void hsa_signal_store_relaxed(Handle s, int64_t value) {
  if (((Signal *)s)->bell) note("the bell rings without a release");
  store(s, value);
}
static int holds(int64_t value, int condition, int64_t with) {
  switch (condition) {
    case 0: return value == with;
    case 1: return value != with;
    case 2: return value < with;
  }
  return value >= with;
}
API int64_t hsa_signal_wait_scacquire(Handle h, int condition, int64_t with, uint64_t ticks,
                                      int hint) {
  Signal *s = (Signal *)h;
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  uint64_t ns = (uint64_t)end.tv_nsec + ticks * 10 % 1000000000;
  end.tv_sec += (time_t)(ticks / 100000000 + ns / 1000000000);
  end.tv_nsec = (long)(ns % 1000000000);
  pthread_mutex_lock(&lock);
  while (!holds(s->value, condition, with) && !pthread_cond_timedwait(&changed, &lock, &end));
  int64_t value = s->value;
  if (holds(value, condition, with) && !s->released)
    note("the host waits for what is not released to it");
  pthread_mutex_unlock(&lock);
  return value;
}

/* copies */

static void *copy_all(void *unused) {
  pthread_mutex_lock(&lock);
  for (;;) {
    Copy **pick = NULL;
    for (Copy **c = &copies; *c && !pick; c = &(*c)->next) /* newest first */
      if (!(*c)->after || (*c)->after->value == 0) pick = c;
    if (!pick) { pthread_cond_wait(&changed, &lock); continue; }
    Copy *c = *pick;
    *pick = c->next;
    pthread_mutex_unlock(&lock);
    usleep(50);
    pthread_mutex_lock(&lock);
    Memory *to = find(c->to, c->size), *from = find(c->from, c->size);
    Handle gpu = gpu_of(c->to_agent) >= 0 ? c->to_agent : c->from_agent;
    uint32_t reach = gpu_of(gpu) < 0 ? 0 : 1u << gpu_of(gpu);
    if (!to || !from) note("a copy of %lu bytes outside of live memory", c->size);
    else if (!(to->reached & from->reached & reach))
      note("a copy of memory that the GPU does not reach");
    else if (option(FAIL_COPY)) { c->done->value = -1; pthread_cond_broadcast(&changed); continue; }
    else memcpy(c->to, c->from, c->size);
    count_down(c->done, 1);
    free(c);
  }
  return NULL;
}
API Status hsa_amd_memory_async_copy(void *to, Handle to_agent, const void *from, Handle from_agent,
                                     size_t n, uint32_t waits, const Handle *after, Handle done) {
  START;
  if (waits > 1 || !done || !n) return ARGUMENT;
  pthread_mutex_lock(&lock);
  Copy *c = malloc(sizeof *c);
  *c = (Copy){to, (uint8_t *)from, to_agent, from_agent, n, waits ? (Signal *)after[0] : NULL,
              (Signal *)done, copies};
  copies = c;
  if (!copier) { pthread_t thread; copier = 1; pthread_create(&thread, NULL, copy_all, NULL); }
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return OK;
}
#include "fake_queues.h"
