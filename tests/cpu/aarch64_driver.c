// driver KERNEL.so ENTRY JOB OUT: loads an artifact, runs a job over all workgroups and writes the buffers.
// JOB: words, buffers, groups, scratch bytes; the argument words; per buffer: word to point to it, bytes, data.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void kernel(const uint64_t *, uint32_t, uint32_t, void *);

static void get(void *to, size_t n, FILE *f) { if (n && fread(to, 1, n, f) != n) exit(3); }

int main(int argc, char **argv) {
    uint64_t head[4], place[2];
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) { fprintf(stderr, "%s\n", dlerror()); return 2; }
    kernel *run = (kernel *)dlsym(library, argv[2]);
    FILE *job = fopen(argv[3], "rb"), *out = fopen(argv[4], "wb");
    get(head, sizeof head, job);
    uint64_t *words = malloc(8 * head[0]);
    get(words, 8 * head[0], job);
    void **data = malloc(8 * head[1]);
    uint64_t *sizes = malloc(8 * head[1]);
    for (uint64_t i = 0; i < head[1]; i++) {
        get(place, sizeof place, job);
        sizes[i] = place[1];
        data[i] = aligned_alloc(256, (place[1] + 256) / 256 * 256);
        get(data[i], place[1], job);
        words[place[0]] = (uint64_t)data[i];
    }
    run(words, 0, head[2], aligned_alloc(64, (head[3] + 64) / 64 * 64));
    for (uint64_t i = 0; i < head[1]; i++) fwrite(data[i], 1, sizes[i], out);
    return fclose(out);
}
