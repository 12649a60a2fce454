/* Modules of the test double: PTX whose kernels are functions of a host library.

   A module is resolved to FAKE_CUDA_CODE/<sha256 of its bytes>.so, and its entry NAME to
   void NAME(const void *params, const uint32_t grid[3], const uint32_t block[3], uint32_t shared)
   with the bytes of dynamic workgroup memory last, which it may leave out. The sizes of the
   parameters are read from the PTX's own `.entry`, as the driver does. A cubin of the double is
   the bytes "\x7f" "ELF", `sm_XX;`, and such PTX. */

#include <ctype.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*HostKernel)(const void *, const uint32_t *, const uint32_t *, uint32_t);

#define MAX_PARAMS 512

typedef struct {
  int params;
  uint32_t offset[MAX_PARAMS], size[MAX_PARAMS], bytes;
} Signature;

static uint32_t rotated(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void sha256(const unsigned char *data, size_t n, char hex[65]) {
  static const uint32_t k[64] = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
      0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
      0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
      0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
      0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
      0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
      0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
      0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
      0xc67178f2};
  uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  size_t total = (n + 9 + 63) / 64 * 64;
  unsigned char *text = calloc(total, 1);
  memcpy(text, data, n);
  text[n] = 0x80;
  for (int i = 0; i < 8; i++) text[total - 1 - i] = (unsigned char)((uint64_t)n * 8 >> 8 * i);
  for (size_t at = 0; at < total; at += 64) {
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
      w[i] = (uint32_t)text[at + 4 * i] << 24 | text[at + 4 * i + 1] << 16 |
             text[at + 4 * i + 2] << 8 | text[at + 4 * i + 3];
    for (int i = 16; i < 64; i++)
      w[i] = w[i - 16] + w[i - 7] +
             (rotated(w[i - 15], 7) ^ rotated(w[i - 15], 18) ^ w[i - 15] >> 3) +
             (rotated(w[i - 2], 17) ^ rotated(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 64; i++) {
      uint32_t s1 = rotated(v[4], 6) ^ rotated(v[4], 11) ^ rotated(v[4], 25);
      uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
      uint32_t s0 = rotated(v[0], 2) ^ rotated(v[0], 13) ^ rotated(v[0], 22);
      uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
      memmove(v + 1, v, 7 * sizeof *v);
      v[0] = t1 + t2;
      v[4] += t1;
    }
    for (int i = 0; i < 8; i++) h[i] += v[i];
  }
  free(text);
  for (int i = 0; i < 8; i++) sprintf(hex + 8 * i, "%08x", h[i]);
}

/* The parameters of `.entry NAME(...)`, laid out as PTX does; 0 where there is no such entry. */
static int read_signature(const char *ptx, const char *name, Signature *out) {
  const char *at = ptx;
  size_t length = strlen(name);
  memset(out, 0, sizeof *out);
  while ((at = strstr(at, ".entry"))) {
    at += 6;
    while (isspace((unsigned char)*at)) at++;
    if (!strncmp(at, name, length) && !isalnum((unsigned char)at[length]) && at[length] != '_')
      break;
  }
  if (!at) return 0;
  const char *end = at + length;
  while (isspace((unsigned char)*end)) end++;
  if (*end != '(') return 1; /* no parameters at all */
  const char *close = strchr(end, ')');
  for (at = end; (at = strstr(at, ".param")) && at < close;) {
    at += 6;
    const char *comma = at;
    while (*comma != ',' && comma < close) comma++;
    uint32_t size = 0, align = 0, count = 1;
    const char *pointer = strstr(at, ".ptr");
    for (const char *p = at; p < comma; p++) {
      if (*p == '[') count = (uint32_t)atoi(p + 1);
      if (*p != '.') continue;
      if (!strncmp(p, ".align", 6) && (!pointer || pointer > comma)) align = (uint32_t)atoi(p + 6);
      if (strchr("busf", p[1]) && isdigit((unsigned char)p[2]) && !size)
        size = (uint32_t)atoi(p + 2) / 8;
    }
    if (!align) align = size ? size : 1;
    size *= count;
    uint32_t offset = (out->bytes + align - 1) / align * align;
    out->offset[out->params] = offset;
    out->size[out->params++] = size;
    out->bytes = offset + size;
    at = comma;
  }
  return 1;
}

/* The host library of a module's bytes, or NULL. */
static void *host_library(const void *bytes, size_t n) {
  char hex[65], path[4096];
  const char *folder = getenv("FAKE_CUDA_CODE");
  sha256(bytes, n, hex);
  snprintf(path, sizeof path, "%s/%s.so", folder ? folder : ".", hex);
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}
