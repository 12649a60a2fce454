/* A test double of NVIDIA's driver library: libcuda.so.1 without a GPU.

   "Device" memory is host memory; a stream is a queue of operations that are done a few at a time,
   only when somebody asks for its state, so that whoever forgets to wait or reuses staging memory
   too early is found out every time. Nodes of a graph run in an order that only their edges hold
   together. Live objects are counted, misuse is noted, failures are injected by `fake_set`. */

#define _GNU_SOURCE
#include "fake_code.h"
#include <pthread.h>
#include <stdarg.h>

#define API __attribute__((visibility("default")))
typedef uint64_t Ptr;
enum { OK = 0, INVALID = 1, OOM = 2, NO_DEVICE = 100, IMAGE = 200, CONTEXT = 201, NO_BINARY = 209,
       BAD_PTX = 218, NEW_PTX = 222, HANDLE = 400, MISSING = 500, NOT_READY = 600,
       DESTROYED = 709 };

typedef struct Context { int users, sticky, device, made; } Context;
typedef struct Memory { Ptr base; size_t size; int freed; struct Memory *next; } Memory;
typedef struct Event { int recorded, done, parts; long stamp; } Event;
typedef struct Module { void *library; char *ptx; } Module;
typedef struct Function { HostKernel run; Signature signature; char name[128]; } Function;
typedef struct Launch { Function *function; uint32_t grid[3], block[3], shared;
                        void *params; } Launch;
typedef struct Node { int event, deps; struct Node **dep; Launch launch; Event *record;
                      int done; } Node;
typedef struct Graph { int nodes; Node **node; } Graph;
typedef struct Exec { int nodes; Node **node; Node **origin; } Exec;
typedef struct Op { int kind; Launch launch; Exec *exec; Event *event; Ptr to, from; size_t n;
                    uint32_t value; struct Op *next; } Op;
enum { KERNEL, GRAPH, RECORD, JOIN, WAIT, COPY_IN, COPY_OUT, SET, FREE };
typedef struct Stream { Op *first, *last; struct Stream *next; } Stream;
/* The members up to `extra` are the driver's CUDA_KERNEL_NODE_PARAMS. */
typedef struct { Function *func; uint32_t grid[3], block[3], shared; void **params, **extra;
                 void *kern, *ctx; } NodeParams;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Context contexts[8];
static __thread Context *stack[64];
static __thread int made[64]; /* which of a device's contexts it was, one after the other */
static __thread int depth;
static Memory *memories;
static Stream *streams, legacy;
static long counts[8], launches, clock_now;
enum { ALLOCATIONS, PINNED, STREAMS, EVENTS, MODULES, GRAPHS, EXECS, POOLS };
static char misuse[512];
static size_t used_bytes, reserved_bytes; /* of the pool; what it keeps others cannot have */
static long options[24];
/* what `fake_set` sets; *_AFTER count kernels from now, -1 is never */
enum { STEP, STICKY, STICKY_AFTER, HANG_AFTER, FAIL_ALLOC, FAIL_LOAD, MEMORY, POOLS_THERE, DRIVER,
       DEVICES, CAPABILITY, FAIL_LAUNCH, INIT, UNAVAILABLE, CAPTURING, FAIL_PINNED, BLOCKING };
static long option(int which) {
  static const long standard[] = {2, 0, -1, -1, 0, 0, 1L << 31, 1, 13000, 2, 90, 0, 0, 0, 0, 0, 0};
  return options[which] ? options[which] - 1000000 : standard[which];
}
API void fake_set(int which, long value) { options[which] = value + 1000000; }
API long fake_count(int which) { return counts[which]; }
API long fake_launches(void) { return launches; }
API int fake_depth(void) { return depth; }
API int fake_users(int device) { return contexts[device].users; }
API int fake_parameters(const char *ptx, const char *name, uint32_t *offset, uint32_t *size) {
  Signature s;
  if (!read_signature(ptx, name, &s)) return -1;
  memcpy(offset, s.offset, sizeof s.offset), memcpy(size, s.size, sizeof s.size);
  return s.params;
}
API const char *fake_misuse(void) { return misuse; }
API void fake_reset(void) {
  memset(options, 0, sizeof options);
  memset(counts, 0, sizeof counts);
  memset(contexts, 0, sizeof contexts);
  misuse[0] = 0, streams = NULL, launches = 0, used_bytes = reserved_bytes = 0, memories = NULL, depth = 0;
}

static void note(const char *format, ...) {
  if (misuse[0]) return;
  va_list list;
  va_start(list, format);
  vsnprintf(misuse, sizeof misuse, format, list);
  va_end(list);
}

#define ENTER Context *here = depth ? stack[depth - 1] : NULL; pthread_mutex_lock(&lock); \
  int status = !here || !here->users ? CONTEXT : here->made != made[depth - 1] ? DESTROYED \
             : here->sticky; if (status) LEAVE
static __thread int capture_mode; /* 0: of everybody's captures, 2: of none */
/* What by its nature is in no stream: in the usual mode it ends every capture there is. */
#define UNSAFE(name) if (option(CAPTURING) && capture_mode != 2) note("%s ends a capture", name);

#define LEAVE { pthread_mutex_unlock(&lock); return status; }

/* A kernel of tests/ptx_model tells what is wrong with it: on a GPU its context would be lost. */
API void fake_kernel_failed(const char *text) {
  note("%s", text);
  contexts[0].sticky = 719;
}

/* memory */

static Memory *find(Ptr at, size_t n) {
  for (Memory *m = memories; m; m = m->next)
    if (!m->freed && at >= m->base && at + n <= m->base + m->size) return m;
  return NULL;
}

static int take(Ptr *out, size_t n) {
  if (option(FAIL_ALLOC) || used_bytes + n > (size_t)option(MEMORY)) return OOM;
  if (reserved_bytes < used_bytes + n) reserved_bytes = used_bytes + n;
  Memory *m = calloc(1, sizeof *m);
  m->base = (Ptr)aligned_alloc(512, (n + 511) / 512 * 512);
  memset((void *)m->base, 0xCD, n);
  m->size = n, m->next = memories, memories = m;
  used_bytes += n, counts[ALLOCATIONS]++;
  *out = m->base;
  return OK;
}

static void give(Ptr base) {
  for (Memory *m = memories; m; m = m->next)
    if (!m->freed && m->base == base) {
      m->freed = 1, used_bytes -= m->size, counts[ALLOCATIONS]--;
      memset((void *)base, 0xDD, m->size); /* never reused: a late access reads this */
      return;
    }
  note("memory %lx freed twice or never allocated", base);
}

/* execution */

static void run_launch(Launch *l) {
  launches++;
  long sticky = option(STICKY_AFTER), hang = option(HANG_AFTER);
  if (sticky == 0) { contexts[0].sticky = (int)option(STICKY); return; }
  if (sticky > 0) fake_set(STICKY_AFTER, sticky - 1);
  if (hang > 0) fake_set(HANG_AFTER, hang - 1);
  l->function->run(l->params, l->grid, l->block, l->shared);
}

static void run_graph(Exec *exec) {
  for (int i = 0; i < exec->nodes; i++) exec->node[i]->done = 0;
  for (int left = exec->nodes; left; left--) { /* the last node that is ready, not the first */
    int pick = -1;
    for (int i = 0; i < exec->nodes; i++) {
      int ready = !exec->node[i]->done;
      for (int d = 0; d < exec->node[i]->deps; d++)
        for (int j = 0; j < exec->nodes; j++)
          if (exec->origin[j] == exec->node[i]->dep[d] && !exec->node[j]->done) ready = 0;
      if (ready) pick = i;
    }
    Node *node = exec->node[pick];
    node->done = 1;
    if (node->event) node->record->recorded = node->record->done = 1,
                     node->record->stamp = clock_now += 1000;
    else run_launch(&node->launch);
  }
}

static int run(Op *op) {
  if ((op->kind == KERNEL || op->kind == GRAPH) && option(HANG_AFTER) == 0) return 0;
  if (op->kind == WAIT && op->event->recorded && !op->event->done) return 0;
  switch (op->kind) {
    case KERNEL: run_launch(&op->launch); free(op->launch.params); break;
    case GRAPH: run_graph(op->exec); break;
    case RECORD: op->event->done = 1, op->event->stamp = clock_now += 1000; break;
    case JOIN: if (!--op->event->parts) op->event->done = 1; break;
    case COPY_IN: case COPY_OUT: {
      Ptr device = op->kind == COPY_IN ? op->to : op->from;
      if (!find(device, op->n)) note("copy of %zu bytes outside of live memory", op->n);
      else memcpy((void *)op->to, (void *)op->from, op->n);
      break;
    }
    case SET:
      if (!find(op->to, 4 * op->n)) note("memset outside of live memory");
      else for (size_t i = 0; i < op->n; i++) ((uint32_t *)op->to)[i] = op->value;
      break;
    case FREE: give(op->to);
  }
  return 1;
}

static void step(Stream *s, long n) {
  while (n-- && s->first) {
    Op *op = s->first;
    if (!run(op)) return;
    if (!(s->first = op->next)) s->last = NULL;
    free(op);
  }
}

static void step_all(void) {
  step(&legacy, option(STEP));
  for (Stream *s = streams; s; s = s->next) step(s, option(STEP));
}

static Stream *known(void *handle) {
  if ((uintptr_t)handle <= 2) return &legacy;
  for (Stream *s = streams; s; s = s->next) if (s == handle) return s;
  note("unknown stream");
  return NULL;
}

static int put(void *handle, Op op) {
  Stream *s = known(handle);
  if (!s) return HANDLE;
  Op *held = malloc(sizeof *held);
  *held = op, held->next = NULL;
  if (s->last) s->last->next = held; else s->first = held;
  s->last = held;
  return OK;
}

static Launch packed(Function *f, const uint32_t *grid, const uint32_t *block, uint32_t shared,
                     void **params) {
  size_t room = (f->signature.bytes + 64) / 64 * 64; /* tensor maps lie at multiples of 64 */
  Launch l = {f, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared,
              memset(aligned_alloc(64, room), 0, room)};
  for (int i = 0; i < f->signature.params; i++)
    memcpy((char *)l.params + f->signature.offset[i], params[i], f->signature.size[i]);
  return l;
}

/* the driver's functions: start and devices */

API int cuInit(unsigned flags) { return (int)option(INIT); }
API int cuDriverGetVersion(int *out) { *out = (int)option(DRIVER); return OK; }
API int cuGetErrorName(int s, const char **out) {
  static __thread char text[32];
  snprintf(text, sizeof text, "FAKE_STATUS_%d", s);
  *out = text;
  return OK;
}
API int cuGetErrorString(int s, const char **out) { return cuGetErrorName(s, out); }
API int cuDeviceGetCount(int *out) { *out = (int)option(DEVICES); return OK; }
API int cuDeviceGet(int *out, int n) { *out = n; return n < option(DEVICES) ? OK : 101; }
API int cuDeviceGetName(char *out, int n, int device) {
  snprintf(out, (size_t)n, device ? "Fake H200 %d" : "Fake GPU %d", device);
  return OK;
}
API int cuDeviceTotalMem(size_t *out, int d) { *out = (size_t)option(MEMORY); return OK; }
API int cuDeviceGetAttribute(int *out, int which, int device) {
  switch (which) {
    case 1: case 2: case 3: *out = which == 3 ? 0 : 1024; break; /* threads: block, x (y) */
    case 4: *out = 64; break;
    case 5: *out = 2147483647; break;
    case 6: case 7: *out = 65535; break;
    case 8: *out = 49152; break;
    case 95: *out = 1; break; /* cooperative launches */
    case 97: *out = 232448; break; /* shared memory, opted in */
    case 10: *out = 32; break;
    case 16: *out = 132; break;
    case 75: *out = (int)option(CAPABILITY) / 10; break;
    case 76: *out = (int)option(CAPABILITY) % 10; break;
    case 115: *out = (int)option(POOLS_THERE); break;
    default: *out = 0;
  }
  if (which == 3) *out = 1024;
  return OK;
}

/* contexts */

API int cuDevicePrimaryCtxRetain(void **out, int device) {
  *out = &contexts[device], contexts[device].device = device;
  if (!contexts[device].users++) contexts[device].made++;
  if (option(UNAVAILABLE)) { contexts[device].users--; return 46; }
  return contexts[device].sticky;
}
API int cuDevicePrimaryCtxRelease(int device) {
  if (contexts[device].users-- < 1) note("primary context released too often");
  return OK;
}
API int cuCtxPushCurrent(Context *c) { made[depth] = c->made, stack[depth++] = c; return OK; }
API int cuCtxPopCurrent(Context **out) {
  if (!depth) return CONTEXT;
  *out = stack[--depth];
  return OK;
}
API int cuCtxGetCurrent(Context **out) { *out = depth ? stack[depth - 1] : NULL; return OK; }
API int cuCtxSetCurrent(Context *c) {
  if (!c) { if (depth) depth--; return OK; }
  if (!depth) depth = 1;
  stack[depth - 1] = c, made[depth - 1] = c->made;
  return OK;
}

/* streams and events */

API int cuStreamCreate(Stream **out, unsigned flags) {
  ENTER UNSAFE("cuStreamCreate")
  if (flags != 1) note("a stream that waits for the legacy stream");
  *out = calloc(1, sizeof **out), (*out)->next = streams, streams = *out, counts[STREAMS]++;
  LEAVE
}
API int cuStreamDestroy(Stream *s) {
  ENTER
  if (known(s) && s->first) note("stream destroyed with work pending");
  for (Stream **at = &streams; *at; at = &(*at)->next)
    if (*at == s) { *at = s->next, counts[STREAMS]--; break; }
  LEAVE
}
API int cuStreamQuery(Stream *s) {
  ENTER UNSAFE("cuStreamQuery")
  s = known(s);
  int pending = s->first != NULL;
  step_all();
  status = here->sticky ? here->sticky : pending ? NOT_READY : OK;
  LEAVE
}
API int cuStreamGetFlags(Stream *s, unsigned *out) { *out = (uintptr_t)s > 2; return OK; }
API int cuThreadExchangeStreamCaptureMode(int *mode) {
  int before = capture_mode;
  capture_mode = *mode, *mode = before;
  return OK;
}
API int cuStreamIsCapturing(Stream *s, int *out) {
  ENTER
  *out = s && (long)(uintptr_t)s == option(CAPTURING);
  if ((uintptr_t)s <= 1 && option(CAPTURING) && option(BLOCKING)) status = 906;
  LEAVE
}
API int cuStreamSynchronize(Stream *s) { note("an unbounded wait"); return INVALID; }
API int cuCtxSynchronize(void) { note("a wait for everybody's work"); return INVALID; }
API int cuStreamWaitEvent(void *s, Event *e, unsigned flags) {
  ENTER
  status = put(s, (Op){.kind = WAIT, .event = e});
  LEAVE
}
API int cuEventCreate(Event **out, unsigned flags) {
  ENTER UNSAFE("cuEventCreate")
  *out = calloc(1, sizeof **out), counts[EVENTS]++;
  LEAVE
}
API int cuEventDestroy(Event *e) { ENTER counts[EVENTS]--; LEAVE } /* kept: ops may refer to it */
API int cuEventRecord(Event *e, void *s) {
  ENTER
  if ((uintptr_t)s <= 1 && option(CAPTURING) && option(BLOCKING))
    note("the legacy stream is drawn into a capture, which ends");
  e->recorded = 1, e->done = 0;
  status = put(s, (Op){.kind = RECORD, .event = e});
  LEAVE
}
API int cuCtxRecordEvent(Context *c, Event *e) { /* after what every stream holds */
  ENTER
  if (option(CAPTURING)) { note("cuCtxRecordEvent ends a capture"); status = 900; LEAVE }
  if (option(DRIVER) < 12050) { status = MISSING; LEAVE }
  e->recorded = 1, e->done = 0, e->parts = 1;
  put(NULL, (Op){.kind = JOIN, .event = e});
  for (Stream *s = streams; s; s = s->next, e->parts++) put(s, (Op){.kind = JOIN, .event = e});
  LEAVE
}
API int cuEventQuery(Event *e) {
  ENTER UNSAFE("cuEventQuery")
  int done = !e->recorded || e->done;
  step_all();
  status = here->sticky ? here->sticky : done ? OK : NOT_READY;
  LEAVE
}
API int cuEventElapsedTime(float *out, Event *a, Event *b) {
  ENTER
  if (!a->done || !b->done) status = NOT_READY;
  *out = (float)(b->stamp - a->stamp) * 1e-3f;
  LEAVE
}

/* memory */

API int cuMemGetInfo(size_t *free_, size_t *total) {
  ENTER UNSAFE("cuMemGetInfo")
  *total = (size_t)option(MEMORY), *free_ = *total - reserved_bytes;
  LEAVE
}
API int cuMemAlloc(Ptr *out, size_t n) { ENTER UNSAFE("cuMemAlloc") status = take(out, n); LEAVE }
API int cuMemFree(Ptr p) { ENTER UNSAFE("cuMemFree") give(p); LEAVE }
API int cuMemPoolCreate(void **out, const int *props) { /* type, handles, location: type, id */
  ENTER
  if (props[0] != 1 || props[1] || props[2] != 1 || props[3] != here->device)
    note("pool of another kind or device");
  *out = malloc(8), counts[POOLS]++;
  LEAVE
}
API int cuMemPoolDestroy(void *p) { ENTER UNSAFE("cuMemPoolDestroy") counts[POOLS]--; LEAVE }
API int cuMemPoolSetAttribute(void *p, int which, const uint64_t *value) {
  if (which != 4 || *value != 1u << 30) note("release threshold %lu", *value);
  return OK;
}
API int cuMemPoolGetAttribute(void *p, int which, uint64_t *value) {
  *value = which == 5 ? reserved_bytes : used_bytes; /* 7: in use */
  return OK;
}
API int cuMemPoolTrimTo(void *p, size_t keep) {
  UNSAFE("cuMemPoolTrimTo")
  if (reserved_bytes > keep) reserved_bytes = keep > used_bytes ? keep : used_bytes;
  return OK;
}
API int cuMemAllocFromPoolAsync(Ptr *out, size_t n, void *pool, void *s) {
  ENTER
  status = take(out, n);
  LEAVE
}
API int cuMemFreeAsync(Ptr p, void *s) { ENTER status = put(s, (Op){.kind = FREE, .to = p}); LEAVE }
API int cuMemHostAlloc(void **out, size_t n, unsigned flags) {
  ENTER UNSAFE("cuMemHostAlloc")
  if (option(FAIL_PINNED)) status = OOM;
  else *out = malloc(n), counts[PINNED]++;
  LEAVE
}
API int cuMemFreeHost(void *p) { ENTER UNSAFE("cuMemFreeHost") free(p), counts[PINNED]--; LEAVE }
API int cuMemcpyHtoDAsync(Ptr to, const void *from, size_t n, void *s) {
  ENTER
  status = put(s, (Op){.kind = COPY_IN, .to = to, .from = (Ptr)from, .n = n});
  LEAVE
}
API int cuMemcpyDtoHAsync(void *to, Ptr from, size_t n, void *s) {
  ENTER
  status = put(s, (Op){.kind = COPY_OUT, .to = (Ptr)to, .from = from, .n = n});
  LEAVE
}
API int cuMemsetD32Async(Ptr to, unsigned value, size_t n, void *s) {
  ENTER
  status = put(s, (Op){.kind = SET, .to = to, .value = value, .n = n});
  LEAVE
}

API int cuPointerGetAttribute(void *out, int which, Ptr at) {
  ENTER
  if (!find(at, 1)) status = INVALID;
  else if (which == 9) *(int *)out = 0; /* the device's ordinal */
  LEAVE
}

/* code */

static int load(Module **out, const char *image, char *log, size_t room) {
  const char *ptx = image;
  if (option(FAIL_LOAD)) {
    if (log) snprintf(log, room, "ptxas fake, line 7; error: unexpected token");
    return (int)option(FAIL_LOAD);
  }
  if (!memcmp(image, "\x7f" "ELF", 4)) {
    long made = atol(strchr(image, '_') + 1), has = option(CAPABILITY);
    if (made / 10 != has / 10 || made > has) return NO_BINARY;
    ptx = strchr(image, ';') + 1;
  }
  void *library = host_library(image, strlen(image));
  if (!strstr(ptx, ".entry")) return BAD_PTX;
  *out = calloc(1, sizeof **out);
  (*out)->library = library, (*out)->ptx = strdup(ptx), counts[MODULES]++;
  return OK;
}
API int cuModuleLoadData(Module **out, const void *image) {
  ENTER UNSAFE("cuModuleLoadData")
  status = load(out, image, NULL, 0);
  LEAVE
}
API int cuModuleLoadDataEx(Module **out, const void *image, unsigned n, int *option_, void **v) {
  ENTER UNSAFE("cuModuleLoadDataEx")
  char *log = NULL;
  size_t room = 0;
  for (unsigned i = 0; i < n; i++) {
    if (option_[i] == 5) log = v[i];
    if (option_[i] == 6) room = (size_t)v[i];
  }
  status = load(out, image, log, room);
  LEAVE
}
API int cuModuleUnload(Module *m) { ENTER UNSAFE("cuModuleUnload") counts[MODULES]--; LEAVE }
API int cuModuleGetFunction(Function **out, Module *m, const char *name) {
  ENTER
  Function *f = calloc(1, sizeof *f);
  snprintf(f->name, sizeof f->name, "%s", name);
  if (m->library) *(void **)&f->run = dlsym(m->library, name);
  if (!f->run || !read_signature(m->ptx, name, &f->signature)) status = MISSING;
  *out = f;
  LEAVE
}
API int cuFuncGetParamInfo(Function *f, size_t n, size_t *offset, size_t *size) {
  if (n >= (size_t)f->signature.params) return INVALID;
  *offset = f->signature.offset[n], *size = f->signature.size[n];
  return OK;
}
API int cuFuncLoad(Function *f) { return OK; }
API int cuFuncSetAttribute(Function *f, int which, int value) {
  return which == 8 && value > 232448 ? INVALID : OK;
}
static int grid_fits(unsigned x, unsigned y, unsigned z) {
  return x && y && z && x < 1u << 31 && y < 1u << 16 && z < 1u << 16;
}
API int cuLaunchKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                       unsigned bz, unsigned shared, void *s, void **params, void **extra) {
  ENTER
  if (option(FAIL_LAUNCH)) { status = (int)option(FAIL_LAUNCH); LEAVE }
  if (!grid_fits(gx, gy, gz)) { status = INVALID; LEAVE }
  Launch l = packed(f, (uint32_t[]){gx, gy, gz}, (uint32_t[]){bx, by, bz}, shared, params);
  status = put(s, (Op){.kind = KERNEL, .launch = l});
  LEAVE
}

/* graphs */

API int cuGraphCreate(Graph **out, unsigned flags) {
  ENTER
  *out = calloc(1, sizeof **out), counts[GRAPHS]++;
  LEAVE
}
static Node *add(Graph *g, Node *const *deps, size_t n, Node content) {
  Node *node = malloc(sizeof *node);
  *node = content, node->deps = (int)n, node->dep = malloc(sizeof *deps * (n + 1));
  for (size_t i = 0; i < n; i++) node->dep[i] = deps[i];
  g->node = realloc(g->node, sizeof *g->node * (size_t)(g->nodes + 1));
  return g->node[g->nodes++] = node;
}
API int cuGraphAddKernelNode(Node **out, Graph *g, Node *const *deps, size_t n,
                             const NodeParams *p) {
  ENTER
  Launch l = packed(p->func, p->grid, p->block, p->shared, p->params);
  *out = add(g, deps, n, (Node){.launch = l});
  LEAVE
}
API int cuGraphAddEventRecordNode(Node **out, Graph *g, Node *const *deps, size_t n, Event *e) {
  ENTER
  *out = add(g, deps, n, (Node){.event = 1, .record = e});
  LEAVE
}
API int cuGraphInstantiateWithFlags(Exec **out, Graph *g, unsigned long long flags) {
  ENTER UNSAFE("cuGraphInstantiateWithFlags")
  Exec *exec = *out = calloc(1, sizeof *exec);
  exec->nodes = g->nodes, exec->origin = g->node;
  exec->node = malloc(sizeof *exec->node * (size_t)(g->nodes + 1));
  for (int i = 0; i < g->nodes; i++) {
    exec->node[i] = malloc(sizeof(Node));
    *exec->node[i] = *g->node[i];
  }
  counts[EXECS]++;
  LEAVE
}
API int cuGraphGetRootNodes(Graph *g, Node **out, size_t *n) {
  size_t found = 0;
  for (int i = 0; i < g->nodes; i++)
    if (!g->node[i]->deps) {
      if (out) out[found] = g->node[i];
      found++;
    }
  *n = found;
  return OK;
}
API int cuGraphUpload(Exec *e, void *s) { ENTER LEAVE }
API int cuGraphLaunch(Exec *e, void *s) {
  ENTER
  status = put(s, (Op){.kind = GRAPH, .exec = e});
  LEAVE
}
API int cuGraphExecKernelNodeSetParams(Exec *e, Node *node, const NodeParams *p) {
  ENTER
  status = INVALID;
  for (int i = 0; i < e->nodes; i++)
    if (e->origin[i] == node)
      e->node[i]->launch = packed(p->func, p->grid, p->block, p->shared, p->params), status = OK;
  LEAVE
}
#include "fake_hopper.h"
API int cuGraphExecDestroy(Exec *e) { ENTER counts[EXECS]--; LEAVE } /* pending launches go on */
API int cuGraphDestroy(Graph *g) { ENTER counts[GRAPHS]--; LEAVE }

API int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags, int *found) {
  static void *self;
  Dl_info info;
  if (!self && dladdr((void *)cuInit, &info)) self = dlopen(info.dli_fname, RTLD_NOW);
  *out = strcmp(name, "cuGetProcAddress") ? dlsym(self, name) : (void *)cuGetProcAddress_v2;
  if (found) *found = *out ? 0 : 1;
  return *out ? OK : MISSING;
}
