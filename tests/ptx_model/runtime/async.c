/* Asynchronous copies into workgroup memory: done at the wait that covers them and not before,
   while the destination holds a pattern. Whoever reads too early finds it, and what is written
   there in between is lost. */

#include "model.h"

typedef struct Copy {
  char *to;
  const char *from;
  uint32_t bytes, given, group;
  struct Copy *next;
} Copy;
static uint32_t groups[MOST_THREADS]; /* committed so far, by thread */

void forget_copies(Thread *t) {
  groups[t - threads] = 0;
  for (Copy *c = t->pending, *next; c; c = next) next = c->next, free(c);
  t->pending = NULL;
}

static void begin_copy(uint32_t site, char *to, const char *from, uint32_t bytes, uint32_t given) {
  if (given > bytes) fail(site, "%u bytes are copied into %u", given, bytes);
  touch(to, ANY_OBJECT, bytes, bytes, STORE, site);
  if (given) touch(from, ANY_OBJECT, given, bytes, LOAD, site);
  Copy *c = malloc(sizeof *c), **end = (Copy **)&now->pending;
  *c = (Copy){to, from, bytes, given, groups[number_now()], NULL};
  while (*end) end = &(*end)->next;
  *end = c;
  memset(to, draw() & 1 ? 0xFF : 0x5A, bytes);
}

static void finish_copies(uint32_t before_group) {
  Copy *c;
  while ((c = now->pending) && c->group < before_group) {
    memset(c->to, 0, c->bytes);
    memcpy(c->to, c->from, c->given);
    now->pending = c->next;
    free(c);
  }
}

#define COPY(level, bytes)                                                                     \
  API void nv_cp_async_##level##_shared_global_##bytes(uint32_t site, char *to,                \
                                                       const char *from) {                     \
    begin_copy(site, to, from, bytes, bytes);                                                  \
  }                                                                                            \
  API void nv_cp_async_##level##_shared_global_##bytes##_s(uint32_t site, char *to,            \
                                                           const char *from, uint32_t given) { \
    begin_copy(site, to, from, bytes, given);                                                  \
  }
COPY(ca, 4)
COPY(ca, 8)
COPY(ca, 16)
COPY(cg, 16)
API void nv_cp_async_commit_group(uint32_t site) { (void)site, groups[number_now()]++; }
API void nv_cp_async_wait_group(uint32_t site, uint32_t left) {
  (void)site;
  uint32_t all = groups[number_now()];
  finish_copies(all > left ? all - left : 0);
}
API void nv_cp_async_wait_all(uint32_t site) { (void)site, finish_copies(~0u); }
