/* The rest of the double: queues and their packets, executables, agents and what they tell. */

/* queues */

static void fail(Queue *q, Status status) { /* with the lock, which the callback must not need */
  q->dead = 1;
  pthread_mutex_unlock(&lock);
  if (q->failed) q->failed(status, q, q->data);
  pthread_mutex_lock(&lock);
}
static Status run(Queue *q, const Packet *p) { /* without the lock */
  Executable *e = executables;
  while (e && p->object - (uint64_t)e->code.base >= e->code.span) e = e->next;
  if (!e || e->agent != q->agent) return fake_failed("no such kernel object"), BAD_CODE;
  uint32_t grid[3], block[3], items = 1;
  for (int i = 0; i < 3; i++) {
    block[i] = p->block[i], items *= block[i];
    if (!block[i] || !p->grid[i] || p->grid[i] % block[i])
      return fake_failed("not whole workgroups"), ARGUMENT;
    grid[i] = p->grid[i] / block[i];
  }
  if ((p->setup & 3) != 3 || items > 1024 || p->reserved || p->reserved2)
    return fake_failed("an odd packet"), FORMAT;
  const uint32_t *takes = (const uint32_t *)p->object; /* group and private bytes */
  if (p->group < takes[0] || p->private_bytes < takes[1])
    return fake_failed("a packet with less memory than its kernel takes"), FORMAT;
  pthread_mutex_lock(&lock);
  Memory *m = find((void *)p->kernarg, ((uint32_t *)p->object)[2]);
  int fine = m && m->pool == 0x103 && p->kernarg % 16 == 0 && m->reached & 1u << gpu_of(q->agent);
  pthread_mutex_unlock(&lock);
  if (!fine) return fake_failed("parameters outside of their memory"), 43;
  uint64_t at = p->object - (uint64_t)e->code.base;
  if (executor)
    return (Status)executor(p, e->code.elf, e->code.size, (uint64_t)e->code.base, at,
                            (uint32_t)gpu_of(q->agent));
  char name[256];
  const char *found = symbol(&e->code, NULL, &at);
  snprintf(name, sizeof name, "%.*s", found ? (int)strlen(found) - 3 : 0, found ? found : "");
  HostKernel kernel = host_kernels ? (HostKernel)dlsym(host_kernels, name) : NULL;
  if (!kernel) return fake_failed("no host function of the kernel's name"), BAD_CODE;
  kernel((void *)p->kernarg, grid, block);
  return OK;
}
static int dispatch(Queue *q, Packet *p) { /* with the lock; 0: the queue is beyond use */
  uint64_t start = now();
  if (due(HANG_AFTER)) {
    options[HANG_AFTER] = 1000000;
    while (!q->stop) pthread_cond_wait(&changed, &lock);
    return 0;
  }
  if (due(EVENT_AFTER)) {
    Event event = {(uint32_t)option(EVENT_KIND), q->agent, 0xdead000, 1};
    q->dead = 1;
    pthread_mutex_unlock(&lock);
    if (!handler || handler(&event, NULL)) note("nobody takes the event: the process would end");
    pthread_mutex_lock(&lock);
    return 0;
  }
  if (due(FAIL_AFTER)) return fail(q, (Status)option(FAIL_STATUS)), 0;
  pthread_mutex_unlock(&lock);
  if (option(SLOW)) usleep((useconds_t)option(SLOW));
  Status status = run(q, p);
  pthread_mutex_lock(&lock);
  dispatches++;
  if (status) return fail(q, status), 0;
  Signal *s = (Signal *)p->signal;
  if (s) {
    s->start = start, s->end = now(), s->profiled = q->profiled;
    count_down(s, (p->header >> 11 & 3) == 2);
  }
  return 1;
}
static int barrier(Queue *q, const Barrier *b) { /* with the lock */
  for (int i = 0; i < 5; i++)
    while (b->after[i] && ((Signal *)b->after[i])->value != 0)
      if (q->stop) return 0; else pthread_cond_wait(&changed, &lock);
  if (b->signal) count_down((Signal *)b->signal, (b->header >> 11 & 3) == 2);
  return 1;
}
static int type_of(Queue *q, uint64_t index) {
  if ((int64_t)index > q->rung) return 1;
  return __atomic_load_n(&q->base[index & (q->size - 1)].header, __ATOMIC_ACQUIRE) & 255;
}
static void *process(void *data) {
  Queue *q = data;
  pthread_mutex_lock(&lock);
  while (!q->stop) {
    int type = q->dead ? 1 : type_of(q, q->read);
    if (type == 1) { pthread_cond_wait(&changed, &lock); continue; }
    uint64_t end = q->read + 1;
    if (type == 2) /* and all that may run beside it */
      while (end - q->read < q->size && type_of(q, end) == 2 &&
             !(q->base[end & (q->size - 1)].header & 256)) end++;
    int alive = type == 2 || type == 3 ? 1 : (fail(q, FORMAT), 0);
    for (uint64_t i = end; alive && i-- > q->read;) {
      Packet *p = q->base + (i & (q->size - 1));
      alive = type == 2 ? dispatch(q, p) : barrier(q, (Barrier *)p);
    }
    if (!alive) continue;
    for (; q->read < end; q->read++) {
      memset(q->base + (q->read & (q->size - 1)), 0xEE, sizeof(Packet));
      q->base[q->read & (q->size - 1)].header = 1;
    }
    pthread_cond_broadcast(&changed);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}
API Status hsa_queue_create(Handle agent, uint32_t size, uint32_t type,
                            void (*failed)(Status, Queue *, void *), void *data,
                            uint32_t private_bytes, uint32_t group, Queue **out) {
  START;
  if (!size || size & (size - 1) || size > option(RING) || gpu_of(agent) < 0) return ARGUMENT;
  Queue *q = calloc(1, sizeof *q);
  Signal *bell = calloc(1, sizeof *bell);
  q->type = type, q->features = 1, q->size = size, q->agent = agent;
  q->read = q->write = 3 * (uint64_t)size / 2, q->rung = (int64_t)q->read - 1; /* as it may be */
  q->failed = failed, q->data = data, q->doorbell = (Handle)bell, bell->bell = q;
  q->base = aligned_alloc(64, 64ul * size);
  for (uint32_t i = 0; i < size; i++) q->base[i].header = 1;
  pthread_mutex_lock(&lock);
  q->next = queues, queues = q, counts[QUEUES]++;
  pthread_mutex_unlock(&lock);
  pthread_create(&q->thread, NULL, process, q);
  *out = q;
  return OK;
}
API Status hsa_queue_destroy(Queue *q) {
  START;
  pthread_mutex_lock(&lock);
  if (q->read < q->write) note("a queue is destroyed with %lu packets in it", q->write - q->read);
  q->stop = 1;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  pthread_join(q->thread, NULL);
  pthread_mutex_lock(&lock);
  Queue **at = &queues;
  while (*at != q) at = &(*at)->next;
  *at = q->next, counts[QUEUES]--;
  pthread_mutex_unlock(&lock);
  free(q->base), free(q);
  return OK;
}
API uint64_t hsa_queue_load_read_index_scacquire(const Queue *q) {
  return __atomic_load_n(&q->read, __ATOMIC_ACQUIRE);
}
API uint64_t hsa_queue_load_write_index_relaxed(const Queue *q) {
  return __atomic_load_n(&q->write, __ATOMIC_RELAXED);
}
API uint64_t hsa_queue_add_write_index_screlease(Queue *q, uint64_t n) {
  uint64_t at = __atomic_fetch_add(&q->write, n, __ATOMIC_ACQ_REL);
  if (at + n - __atomic_load_n(&q->read, __ATOMIC_ACQUIRE) > q->size)
    note("the ring of %u packets overflows", q->size);
  return at;
}
API Status hsa_amd_profiling_set_profiler_enabled(Queue *q, int enable) {
  START;
  q->profiled = enable;
  return OK;
}
API Status hsa_amd_profiling_get_dispatch_time(Handle agent, Handle signal, uint64_t *out) {
  START;
  Signal *s = (Signal *)signal;
  if (!s->profiled) return SIGNAL;
  out[0] = s->start, out[1] = s->end;
  return OK;
}
API Status hsa_amd_register_system_event_handler(Status (*f)(const Event *, void *), void *data) {
  START;
  if (handler) return ERROR;
  handler = f;
  return OK;
}

/* executables */

API Status hsa_code_object_reader_create_from_memory(const void *elf, size_t size, Handle *out) {
  START;
  Reader *r = malloc(sizeof *r);
  *r = (Reader){elf, size};
  *out = (Handle)r, counts[READERS]++;
  return OK;
}
API Status hsa_code_object_reader_destroy(Handle r) {
  START;
  free((void *)r), counts[READERS]--;
  return OK;
}
API Status hsa_executable_create_alt(int profile, int rounding, const char *o, Handle *out) {
  START;
  *out = (Handle)calloc(1, sizeof(Executable)), counts[EXECUTABLES]++;
  return OK;
}
API Status hsa_executable_load_agent_code_object(Handle h, Handle agent, Handle reader,
                                                 const char *o, Handle *out) {
  START;
  Executable *e = (Executable *)h;
  const Reader *r = (const Reader *)reader;
  int gpu = gpu_of(agent);
  if (gpu < 0) return AGENT;
  if (e->frozen) return FROZEN;
  if (option(FAIL_LOAD)) return (Status)option(FAIL_LOAD);
  const Elf64_Ehdr *head = header(r->elf, r->size);
  if (!head) return BAD_CODE;
  char names[256], *rest = names, *isa;
  int fits = 0;
  snprintf(names, sizeof names, "%s", isas[gpu]);
  while ((isa = strsep(&rest, ","))) fits |= runs(isa, head->e_flags);
  if (!fits) return INCOMPATIBLE;
  if (!place(r->elf, r->size, &e->code)) return BAD_CODE;
  pthread_mutex_lock(&lock);
  e->agent = agent, e->loaded = 1, e->next = executables, executables = e;
  pthread_mutex_unlock(&lock);
  return OK;
}
API Status hsa_executable_freeze(Handle h, const char *o) {
  START;
  Executable *e = (Executable *)h;
  return e->loaded ? e->frozen = 1, OK : EXECUTABLE;
}
API Status hsa_executable_destroy(Handle h) {
  START;
  pthread_mutex_lock(&lock);
  for (Executable **at = &executables; *at; at = &(*at)->next)
    if (*at == (Executable *)h) { *at = (*at)->next; break; }
  counts[EXECUTABLES]--;
  pthread_mutex_unlock(&lock);
  return OK;
}
API Status hsa_executable_get_symbol_by_name(Handle h, const char *name, const Handle *agent,
                                             Handle *out) {
  START;
  Executable *e = (Executable *)h;
  uint64_t at = 0;
  if (!e->frozen || !agent || *agent != e->agent) return EXECUTABLE;
  if (!symbol(&e->code, name, &at)) return NO_SYMBOL;
  Symbol *s = malloc(sizeof *s);
  *s = (Symbol){e, at};
  *out = (Handle)s;
  return OK;
}
API Status hsa_executable_symbol_get_info(Handle h, int which, void *out) {
  START;
  const Symbol *s = (const Symbol *)h;
  const uint32_t *descriptor = (const void *)(s->executable->code.base + s->at);
  switch (which) {
    case 22: *(uint64_t *)out = (uint64_t)descriptor; return OK;
    case 11: *(uint32_t *)out = descriptor[2]; return OK;
    case 13: *(uint32_t *)out = descriptor[0]; return OK;
    case 14: *(uint32_t *)out = descriptor[1]; return OK;
  }
  return ARGUMENT;
}

/* agents */

API Status hsa_init(void) { if (option(INIT)) return (Status)option(INIT); users++; return OK; }
API Status hsa_shut_down(void) { START; if (!--users) handler = NULL; return OK; }
API Status hsa_system_get_info(int which, void *out) {
  START;
  if (which < 2) return *(uint16_t *)out = (uint16_t)(1 + 14 * which), OK;
  if (which == 3) return *(uint64_t *)out = 100000000, OK;
  return ARGUMENT;
}
API Status hsa_iterate_agents(Status (*visit)(Handle, void *), void *data) {
  START;
  visit(CPU, data);
  for (long n = 0; n < option(GPU_COUNT); n++) visit((Handle)(GPUS + n), data);
  return OK;
}
static const char *isas_of(int gpu) { return isas[gpu][0] ? isas[gpu] : isas[0]; }
static const char *own_of(int gpu) { /* its own among them: the first that is not generic */
  const char *isa = isas_of(gpu);
  while (memmem(isa, strcspn(isa, ","), "generic", 7)) isa = strchr(isa, ',') + 1;
  return isa;
}
API Status hsa_agent_get_info(Handle agent, int which, void *out) {
  START;
  int gpu = gpu_of(agent), wide = gpu < 0 || !strncmp(own_of(gpu), "gfx9", 4);
  if (which == 17) return *(uint32_t *)out = gpu >= 0, OK;
  if (which == 0) {
    const char *name = gpu < 0 ? "Fake CPU" : own_of(gpu);
    return snprintf(out, 64, "%.*s", (int)strcspn(name, ":,"), name), OK;
  }
  if (which == 0xA009)
    return snprintf(out, 64, gpu < 0 ? "" : gpu ? "Fake Instinct %d" : "Fake Radeon", gpu), OK;
  if (gpu < 0 || (which >= 0xA015 && !option(TELLS))) return ARGUMENT;
  switch (which) {
    case 6: *(uint32_t *)out = wide ? 64 : 32; return OK;
    case 7: for (int i = 0; i < 3; i++) ((uint16_t *)out)[i] = 1024; return OK;
    case 8: *(uint32_t *)out = 1024; return OK;
    case 9: for (int i = 0; i < 3; i++) ((uint32_t *)out)[i] = 0xFFFFFFFF; return OK;
    case 13: *(uint32_t *)out = 64; return OK;
    case 14: *(uint32_t *)out = (uint32_t)option(RING); return OK;
    case 0xA002: *(uint32_t *)out = 96; return OK;
    case 0xA015: *(uint64_t *)out = (uint64_t)option(MEMORY) - used[gpu]; return OK;
    case 0xA113: *(uint64_t *)out = CPU; return OK;
    case 0xA114: memset(out, 0, 8); return OK;
  }
  return ARGUMENT;
}
API Status hsa_agent_iterate_isas(Handle agent, Status (*visit)(Handle, void *), void *data) {
  START;
  Handle n = 0;
  for (const char *c = isas_of(gpu_of(agent)); c; c = strchr(c, ',') ? strchr(c, ',') + 1 : NULL)
    visit(0x1000 + 16 * (Handle)gpu_of(agent) + n++, data);
  return OK;
}
API Status hsa_isa_get_info_alt(Handle isa, int which, void *out) {
  START;
  const char *at = isas_of((int)((isa - 0x1000) >> 4));
  for (Handle n = isa & 15; n; n--) at = strchr(at, ',') + 1;
  char name[128];
  snprintf(name, sizeof name, "amdgcn-amd-amdhsa--%.*s", (int)strcspn(at, ","), at);
  if (which == 0) *(uint32_t *)out = (uint32_t)strlen(name);
  else memcpy(out, name, strlen(name)); /* without a NUL, as told */
  return OK;
}
