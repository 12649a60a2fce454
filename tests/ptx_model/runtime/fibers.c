/* Threads of a block as fibers: stacks, switching, who runs next, and what went wrong. */

#include "model.h"
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <time.h>

#define STACK (256u << 10)
#define PATIENCE 60 /* seconds for a block */

Thread *now, threads[MOST_THREADS];
uint32_t thread_count;
static Thread *ready[MOST_THREADS];
static uint32_t ready_count, done_count;
static void *outside;
static int failed, order;
static char message[4096];
static uint64_t state = 0x9E3779B97F4A7C15u;
static time_t started;

API const char *model_error(void) { return message; }
API void model_seed(uint64_t seed) { state = seed * 2 + 1; }

uint64_t draw(void) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state >> 11;
}

#if defined(__x86_64__)
/* Keep the registers that a call preserves on the old stack, take those of the new one. */
__attribute__((naked, noinline)) static void change(void **old __attribute__((unused)),
                                                    void *fresh __attribute__((unused))) {
  __asm__("pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
          "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
          "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret\n");
}
static void *fresh_context(char *stack, void (*begin)(void)) {
  void **top = (void **)(stack + STACK) - 1; /* entered as by a call: 8 bytes off 16 */
  *--top = (void *)begin;
  for (int n = 0; n < 6; n++) *--top = NULL;
  return top;
}
#else
#include <ucontext.h>
static void change(void **old, void *fresh) {
  ucontext_t here;
  *old = &here;
  swapcontext(&here, fresh);
}
static void *fresh_context(char *stack, void (*begin)(void)) {
  ucontext_t *made = (ucontext_t *)stack; /* at the low end, which nothing reaches */
  getcontext(made);
  made->uc_stack.ss_sp = stack + sizeof *made, made->uc_stack.ss_size = STACK - sizeof *made;
  makecontext(made, begin, 0);
  return made;
}
#endif

static const char *site_text(uint32_t site) {
  static char line[512];
  const char *at = kernel->sites;
  while (site-- && at) at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
  if (!at) return "";
  size_t length = strcspn(at, "\n");
  snprintf(line, sizeof line, "%.*s", (int)length, at);
  return line;
}

jmp_buf before_blocks; /* where a launch that is wrong as such ends */

static const void *parameters;
static void begin(void) {
  kernel->run(parameters);
  now->state = DONE, done_count++;
  if (now->pending) fail(0, "left with asynchronous copies that it has not waited for");
  if (bulk_pending(number_now())) fail(0, "left with bulk copies that it has not waited for");
  pass();
  __builtin_unreachable();
}

void start_block(const void *params) {
  clear_barriers(), forget_mbarriers();
  parameters = params, ready_count = done_count = 0, failed = 0;
  order = (int)(draw() % 3), started = time(NULL);
  for (uint32_t n = 0; n < all_threads(); n++) {
    Thread *t = &threads[n];
    if (!t->stack) {
      t->stack = mmap(NULL, STACK + 4096, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (t->stack == MAP_FAILED) abort();
      mprotect(t->stack, 4096, PROT_NONE);
      t->stack = (char *)t->stack + 4096;
    }
    forget_copies(t), forget_bulk(n);
    uint32_t linear = n % thread_count;
    *t = (Thread){.stack = t->stack, .linear = linear, .rank = n / thread_count};
    t->tid[0] = linear % block_size[0], t->tid[1] = linear / block_size[0] % block_size[1];
    t->tid[2] = linear / block_size[0] / block_size[1];
    t->context = fresh_context(t->stack, begin);
    wake(t);
  }
}

void wake(Thread *t) { t->state = READY, ready[ready_count++] = t; }

static const char *where(const Thread *t) {
  static char text[640];
  static const char *const doing[] = {"can go on", "waits for its warp at", "waits at", "has left"};
  char block[24] = "";
  if (cluster_size > 1) snprintf(block, sizeof block, " of block %u", t->rank);
  snprintf(text, sizeof text, "thread %u%s %s %s", t->linear, block, doing[t->state],
           t->state == AT_WARP || t->state == AT_BARRIER ? site_text(t->site) : "");
  return text;
}

static void say(const char *format, ...) {
  size_t used = strlen(message);
  va_list list;
  va_start(list, format);
  vsnprintf(message + used, sizeof message - used, format, list);
  va_end(list);
}

static _Noreturn void deadlock(void) {
  message[0] = 0;
  say("%s: block (%u, %u, %u) is stuck", kernel->name, block_id[0], block_id[1], block_id[2]);
  const Thread *last = NULL;
  for (uint32_t n = 0; n < all_threads(); n++) { /* the first of each row of alike threads */
    const Thread *t = &threads[n];
    if (!last || t->rank != last->rank || t->state != last->state || t->site != last->site) say("\n  %s", where(t));
    last = t;
  }
  failed = 1;
  change(&now->context, outside);
  abort();
}

void fail(uint32_t site, const char *format, ...) {
  char what[1024];
  va_list list;
  va_start(list, format);
  vsnprintf(what, sizeof what, format, list);
  va_end(list);
  message[0] = 0;
  say("%s: block (%u, %u, %u)", kernel->name, block_id[0] + rank_now(), block_id[1], block_id[2]);
  if (now) say(", thread %u", now->linear);
  say(": %s", what);
  if (now && *site_text(site)) say("\n  at %s", site_text(site));
  failed = 1;
  if (now) change(&now->context, outside);
  longjmp(before_blocks, 1);
}

/* The next thread: any, the latest to be ready, or the earliest. */
static Thread *next(void) {
  uint32_t pick = order == 0 ? (uint32_t)(draw() % ready_count) : order == 1 ? ready_count - 1 : 0;
  Thread *t = ready[pick];
  if (order == 2) memmove(ready, ready + 1, --ready_count * sizeof *ready);
  else ready[pick] = ready[--ready_count];
  return t;
}

void pass(void) {
  Thread *me = now;
  if (done_count == all_threads()) change(&me->context, outside);
  if (!ready_count) deliver_bulks(); /* what they wait for may be on its way */
  if (!ready_count) deadlock();
  now = next();
  if (now != me) change(&me->context, now->context);
}

/* Let others go on while this thread could, too. */
void interrupt(void) {
  if (!ready_count) return;
  if (time(NULL) - started > PATIENCE) fail(0, "the block takes longer than %d s", PATIENCE);
  uint32_t pick = (uint32_t)(draw() % ready_count);
  Thread *me = now;
  now = ready[pick], ready[pick] = me;
  change(&me->context, now->context);
}

int run_block(void) {
  now = next();
  change(&outside, now->context);
  now = NULL;
  return !failed;
}
