/* What the parts of the model share.

   A block's threads are fibers of one host thread, in an order drawn from a seed. They change hands
   where a thread waits for others, and now and then before an access to memory, so that whatever
   relies on an order that the hardware does not promise comes to light. */

#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
#define WARP 32
#define MOST_CLUSTER 8 /* blocks that run together; any other number runs one after the other */
#define MOST_THREADS (1024 * MOST_CLUSTER)
#define MOST_OBJECTS 512

/* How a module describes itself; `entry.py` writes these as LLVM constants. */
enum { BUFFER, STATIC_SHARED, DYNAMIC_SHARED, FAULTS, COUNTER };
typedef struct {
  const char *name;
  uint32_t kind, writable, element, count; /* count: elements of an array, fault sites */
  uint64_t at, count_at;                   /* offsets in the parameters */
  char *address;                           /* of a workgroup array */
} Described;
typedef struct {
  const char *name, *sites; /* sites: the text of every op that may fail, a line each */
  void (*run)(const void *params);
  uint32_t workgroup[3], dynamic, objects, parameter_bytes, cluster;
  const Described *object;
} Descriptor;

/* The last accesses to a cell: epoch and thread of each kind, 0 where there is none. */
typedef struct { uint64_t write, read, atomic; } Cell;
typedef struct {
  const char *name;
  uintptr_t base;
  size_t bytes;
  uint32_t element;
  int writable, shared;
  uint32_t rank, first; /* of a workgroup array: whose, and its number in the first block */
  Cell *cells;
} Object;
enum { LOAD, STORE, ATOMIC };

enum { READY, AT_WARP, AT_BARRIER, DONE };
typedef struct Thread {
  void *context, *stack;
  uint32_t rank, linear, tid[3]; /* which block of the cluster, which thread of the block */
  int state;
  uint32_t site, mask, barrier; /* where it waits, with which lanes, at which barrier */
  void *given;                  /* what it brought to a warp's op */
  void *pending;                /* its asynchronous copies, see async.c */
} Thread;

extern Thread *now;             /* the running thread */
extern Thread threads[MOST_THREADS]; /* block after block */
extern uint32_t thread_count, cluster_size, block_size[3], grid_size[3]; /* threads of a block */
extern uint32_t block_id[3]; /* of the first block of a cluster, which goes on along x */
static inline uint32_t rank_now(void) { return now ? now->rank : 0; }
static inline Thread *own_threads(void) { return threads + rank_now() * thread_count; }
static inline uint32_t all_threads(void) { return thread_count * cluster_size; }
static inline uint32_t number_now(void) { return (uint32_t)(now - threads); }
extern const Descriptor *kernel;
extern Object objects[MOST_OBJECTS];
extern uint32_t object_count;
extern uint64_t epoch; /* differs between any two stretches of a block without a barrier */

/* fibers.c */
uint64_t draw(void);
void start_block(const void *params);
int run_block(void); /* whether all threads came to their end */
void pass(void);     /* let another thread go on; comes back when this one may */
void interrupt(void); /* the same, while this one could go on */
void wake(Thread *t);
void fail(uint32_t site, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

/* warp.c: the lanes of a mask meet at an op, and the last to come does the work of all of them.
   given: by lane, what each brought, results included. */
void clear_barriers(void);
void forget_copies(Thread *t); /* async.c */
void forget_mbarriers(void);   /* mbarrier.c */
void begin_bulk(uint32_t site, char *to, const char *barrier, char *data, uint32_t bytes);
void deliver_bulks(void);
void forget_bulk(uint32_t thread); /* bulk.c */
int bulk_pending(uint32_t thread);
void meet(uint32_t site, uint32_t mask, void *given, void (*work)(void **given, uint32_t mask));

/* memory.c */
void touch(const void *at, uint32_t object, uint32_t bytes, uint32_t align, int kind,
           uint32_t site);
#define ANY_OBJECT 0xFFFFFFFFu /* the object is found by the address */
void open_objects(const void *params, uint32_t dynamic);
void close_objects(void);
void spoil_shared(void);
const char *peer(const char *at, uint32_t rank, uint32_t site); /* the same place of another block */
void stop_race_watch(void);

/* matrix.c: the value of the 8-bit float that is byte n of a register */
double e4m3(uint32_t reg, int n);
double e5m2(uint32_t reg, int n);
