/* Every access to buffers and arrays: bounds, alignment, who may write, races, cells never written.

   A module calls `model_touch` before each access. Races are those that the kernel language knows:
   two threads of a block, no barrier in between, one of them writes, not both atomically. */

#include "model.h"

Object objects[MOST_OBJECTS];
uint32_t object_count;
uint64_t epoch = 1;
static uint64_t block_epoch; /* the first of this block */
static uint32_t countdown = 1, longest = 64;

#define MANY 0xFFFu /* in the place of a thread: several */

static uint64_t stamp(void) { return epoch << 12 | now->linear; }
static int foreign(uint64_t last) {
  return last >> 12 == epoch && (last & MANY) != now->linear;
}
static void share(uint64_t *last) { *last = foreign(*last) ? epoch << 12 | MANY : stamp(); }

static void race(const Object *o, uint64_t cell, uint64_t last, uint32_t site, const char *what) {
  char who[32] = "several threads have";
  if ((last & MANY) != MANY) snprintf(who, sizeof who, "thread %u has", (uint32_t)(last & MANY));
  fail(site, "race on %s[%lu]: %s %s it since the last barrier", o->name, (unsigned long)cell, who,
       what);
}

static void stamp_cells(Object *o, uintptr_t offset, uint32_t bytes, int kind, uint32_t site) {
  uint64_t last_cell = (offset + bytes - 1) / o->element;
  for (uint64_t n = offset / o->element; n <= last_cell; n++) {
    Cell *c = &o->cells[n];
    if (foreign(c->write)) race(o, n, c->write, site, "written");
    if (kind != ATOMIC && foreign(c->atomic)) race(o, n, c->atomic, site, "updated");
    if (kind != LOAD && foreign(c->read)) race(o, n, c->read, site, "read");
    if (kind == LOAD && o->shared && c->write >> 12 < block_epoch && c->atomic >> 12 < block_epoch)
      fail(site, "%s[%lu] is read, and nothing has written it", o->name, (unsigned long)n);
    if (kind == LOAD) share(&c->read);
    else if (kind == ATOMIC) share(&c->atomic);
    else c->write = stamp();
  }
}

static Object *find(uintptr_t at) {
  for (uint32_t n = 0; n < object_count; n++)
    if (at >= objects[n].base && at - objects[n].base < objects[n].bytes) return &objects[n];
  return NULL;
}

void touch(const void *pointer, uint32_t object, uint32_t bytes, uint32_t align, int kind,
           uint32_t site) {
  uintptr_t at = (uintptr_t)pointer;
  int any = object == ANY_OBJECT || (cluster_size > 1 && objects[object].shared);
  Object *o = any ? find(at) : &objects[object];
  if (!o) fail(site, "address %#lx is in no buffer and no array", (unsigned long)at);
  uintptr_t offset = at - o->base;
  if (at < o->base || offset + bytes > o->bytes)
    fail(site, "%u bytes at %ld of %s, which has %zu", bytes, (long)offset, o->name, o->bytes);
  if (at % align) fail(site, "%s: offset %ld is no multiple of %u", o->name, (long)offset, align);
  if (kind != LOAD && !o->writable) fail(site, "%s is written, but declared as read", o->name);
  if (o->cells) stamp_cells(o, offset, bytes, kind, site);
}

API void model_touch(const void *at, uint32_t object, uint32_t bytes, uint32_t align, uint32_t kind,
                     uint32_t site) {
  if (!--countdown) countdown = 1 + (uint32_t)(draw() % longest), interrupt();
  touch(at, object, bytes, align, (int)kind, site);
}

API void model_touch_private(const char *at, const char *array, uint64_t size, uint32_t bytes,
                             uint32_t align, uint32_t site) {
  if (at < array || (size_t)(at - array) + bytes > size)
    fail(site, "%u bytes at %ld of a private array of %lu", bytes, (long)(at - array),
         (unsigned long)size);
  if ((uintptr_t)at % align) fail(site, "a private array is accessed off a multiple of %u", align);
}

static uint64_t word(const char *params, uint64_t at, size_t bytes) {
  uint64_t value = 0;
  memcpy(&value, params + at, bytes);
  return value;
}

/* Workgroup arrays of further blocks: each block's in one piece, as the first block's lie. The
   low bits of an address, which are all that a product by warpgroups has, tell its arrays apart. */
#define ROOM (1u << 18)
static char *rooms[MOST_CLUSTER];
static void open_peers(void) {
  uintptr_t low = UINTPTR_MAX, high = 0;
  uint32_t own = object_count;
  for (uint32_t n = 0; n < own; n++) {
    Object *o = &objects[n];
    o->first = n;
    if (!o->shared) continue;
    if (o->base < low) low = o->base;
    if (o->base + o->bytes > high) high = o->base + o->bytes;
  }
  if (low > high) return;
  low -= low % 1024;
  if (high - low > ROOM) fail(0, "workgroup arrays that lie %zu bytes apart", (size_t)(high - low));
  for (uint32_t rank = 1; rank < cluster_size; rank++) {
    rooms[rank] = aligned_alloc(ROOM, ROOM);
    for (uint32_t n = 0; n < own; n++) {
      if (!objects[n].shared) continue;
      if (object_count == MOST_OBJECTS) fail(0, "more than %d arrays", MOST_OBJECTS);
      Object *o = &objects[object_count++];
      *o = objects[n], o->rank = rank;
      o->base = (uintptr_t)rooms[rank] + (objects[n].base - low);
    }
  }
}

void open_objects(const void *params, uint32_t dynamic) {
  object_count = kernel->objects;
  for (uint32_t n = 0; n < object_count; n++) {
    const Described *d = &kernel->object[n];
    Object *o = &objects[n];
    *o = (Object){.name = d->name, .element = d->element, .writable = (int)d->writable};
    o->shared = d->kind == STATIC_SHARED || d->kind == DYNAMIC_SHARED;
    o->base = o->shared ? (uintptr_t)d->address : word(params, d->at, 8);
    o->bytes = (size_t)d->count * d->element;
    if (d->kind == BUFFER) o->bytes = word(params, d->count_at, 8) * d->element;
    if (d->kind == DYNAMIC_SHARED) o->bytes = dynamic;
    if (d->kind == COUNTER) o->bytes = 4;
    if (d->kind == BUFFER && o->base % 16) fail(0, "buffer %s is no multiple of 16", o->name);
    if (d->kind == FAULTS) { /* only the words with bits of this kernel */
      uint64_t base = word(params, d->count_at, 4), last = base + d->count - 1;
      o->base += base / 32 * 4, o->bytes = (last / 32 - base / 32 + 1) * 4;
    }
    if (d->kind != FAULTS && d->kind != COUNTER && o->writable && thread_count > 1 &&
        cluster_size == 1) /* blocks of a cluster order themselves by more than barriers */
      o->cells = calloc(o->bytes / o->element + 1, sizeof *o->cells);
  }
  open_peers();
}

/* Where a workgroup array of the running block lies. number: of the object in the first block. */
static Object *of_block(uint32_t number, uint32_t rank) {
  for (uint32_t n = 0; n < object_count; n++)
    if (objects[n].shared && objects[n].first == number && objects[n].rank == rank)
      return &objects[n];
  return NULL;
}
API char *model_array(uint32_t number) { return (char *)of_block(number, now->rank)->base; }
const char *peer(const char *at, uint32_t rank, uint32_t site) {
  Object *here = find((uintptr_t)at);
  if (!here || !here->shared) fail(site, "an address outside of workgroup memory");
  if (rank >= cluster_size) fail(site, "workgroup %u of a cluster of %u", rank, cluster_size);
  return (char *)of_block(here->first, rank)->base + ((uintptr_t)at - here->base);
}

void close_objects(void) {
  for (uint32_t rank = 0; rank < MOST_CLUSTER; rank++) free(rooms[rank]), rooms[rank] = NULL;
  for (uint32_t n = 0; n < object_count; n++) free(objects[n].cells);
}

void stop_race_watch(void) {
  for (uint32_t n = 0; n < object_count; n++) free(objects[n].cells), objects[n].cells = NULL;
}

void spoil_shared(void) {
  block_epoch = ++epoch, longest = 2u << draw() % 12, countdown = 1;
  for (uint32_t n = 0; n < object_count; n++)
    if (objects[n].shared)
      memset((void *)objects[n].base, draw() & 1 ? 0xFF : 0x5A, objects[n].bytes);
}
