/* wgmma: products by four warps, from tiles in workgroup memory with a swizzle of 128 bytes.

   A tile is described by 64 bits: bits 0-13 its address, 16-29 and 32-45 the leading and stride
   distances, all in units of 16 bytes; 62-63: 1 for this swizzle. Lane l of warp w of the group
   holds, of the sum, rows 16 w + l / 4 and 8 more, columns 8 j + 2 (l % 4) and 1 more. The product
   is computed where it is issued: who changes a tile before the wait is not found out. */

#include "model.h"
#include <math.h>

enum { F16, BF16, TF32, E4M3, E5M2, S8, U8 };
typedef struct {
  void *sum;
  const uint32_t *a_words; /* NULL: a is a tile */
  uint64_t a, b;
  uint32_t site, columns, kind, transposed, halves; /* the sum is of f16 */
} Product;

static const Object *array; /* that the tile at hand lies in */
static const char *tile(uint64_t description, uint32_t site) {
  if (description >> 62 != 1) fail(site, "a tile without the swizzle of 128 bytes");
  uintptr_t low = (description & 0x3FFF) << 4;
  for (uint32_t n = 0; n < object_count; n++) {
    uintptr_t away = (low - objects[n].base) & 0x3FFFF;
    if (!objects[n].shared || objects[n].rank != rank_now() || away >= objects[n].bytes) continue;
    array = &objects[n];
    return (char *)objects[n].base + away;
  }
  fail(site, "a tile outside of all arrays");
}

static const char *element(const char *start, uint64_t description, uint32_t row, uint32_t k,
                           uint32_t size, int transposed, uint32_t site) {
  uint64_t leading = (description >> 16 & 0x3FFF) << 4, stride = (description >> 32 & 0x3FFF) << 4;
  uintptr_t at = (uintptr_t)start;
  at += transposed ? row / 64 * leading + k / 8 * stride + k % 8 * 128 + row % 64 * size
                   : row / 8 * stride + row % 8 * 128 + k * size;
  at ^= (at >> 7 & 7) << 4;
  if (at < array->base || at + size > array->base + array->bytes)
    fail(site, "a tile that reaches beyond %s", array->name);
  return (const char *)at;
}

static double number(const char *at, uint32_t kind) {
  uint32_t bits = 0;
  float single;
  switch (kind) {
    case F16: { _Float16 h; memcpy(&h, at, 2); return (double)h; }
    case BF16: memcpy((char *)&bits + 2, at, 2); break;
    case TF32: memcpy(&bits, at, 4), bits &= 0xFFFFE000u; break;
    case E4M3: return e4m3(*(const uint8_t *)at, 0);
    case E5M2: return e5m2(*(const uint8_t *)at, 0);
    case S8: return *(const int8_t *)at;
    default: return *(const uint8_t *)at;
  }
  memcpy(&single, &bits, 4);
  return (double)single;
}

static float cut(double x) {
  float near = (float)x;
  return isfinite(near) && fabs((double)near) > fabs(x) ? nextafterf(near, 0) : near;
}

static void multiply(void **given, uint32_t mask) {
  static double left[16][32], right[256][32];
  const Product *p = given[0];
  if (mask != 0xFFFFFFFFu) fail(p->site, "a product needs all lanes of a warp");
  uint32_t size = p->kind == TF32 ? 4 : p->kind >= E4M3 ? 1 : 2, depth = 32 / size, per = 4 / size;
  uint32_t warp = now->linear / WARP % 4;
  for (int lane = 1; lane < WARP; lane++) {
    const Product *q = given[lane];
    if (q->a != p->a || q->b != p->b) fail(p->site, "lanes of a warp describe different tiles");
  }
  const char *b = tile(p->b, p->site);
  for (uint32_t n = 0; n < p->columns; n++)
    for (uint32_t k = 0; k < depth; k++)
      right[n][k] = number(element(b, p->b, n, k, size, (int)p->transposed, p->site), p->kind);
  const char *a = p->a_words ? NULL : tile(p->a, p->site);
  for (uint32_t r = 0; r < 16; r++)
    for (uint32_t k = 0; k < depth; k++) {
      if (a) {
        left[r][k] = number(element(a, p->a, 16 * warp + r, k, size, 0, p->site), p->kind);
        continue;
      }
      uint32_t half = k / (4 * per), word = r / 8 + 2 * half, t = k % (4 * per) / per;
      const Product *q = given[r % 8 * 4 + t];
      left[r][k] = number((const char *)&q->a_words[word] + k % per * size, p->kind);
    }
  for (uint32_t lane = 0; lane < WARP; lane++) {
    Product *q = given[lane];
    for (uint32_t i = 0; i < p->columns / 2; i++) {
      uint32_t row = lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
      if (p->kind >= S8) {
        int64_t total = ((int32_t *)q->sum)[i];
        for (uint32_t k = 0; k < depth; k++) total += (int64_t)(left[row][k] * right[column][k]);
        ((int32_t *)q->sum)[i] = (int32_t)total;
        continue;
      }
      float total = p->halves ? (float)((_Float16 *)q->sum)[i] : ((float *)q->sum)[i];
      for (uint32_t k = 0; k < depth; k++)
        total = cut((double)total + left[row][k] * right[column][k]);
      if (p->halves) ((_Float16 *)q->sum)[i] = (_Float16)total;
      else ((float *)q->sum)[i] = total;
    }
  }
}

API void model_wgmma(uint32_t site, void *sum, const uint32_t *a_words, uint64_t a, uint64_t b,
                     uint32_t columns, uint32_t kind, uint32_t transposed, uint32_t halves) {
  Product p = {sum, a_words, a, b, site, columns, kind, transposed, halves};
  if (thread_count % 128) fail(site, "%u threads are no whole warpgroups", thread_count);
  meet(site, 0xFFFFFFFFu, &p, multiply);
}

static void nothing(void **given, uint32_t mask) { (void)given, (void)mask; }
static void together(uint32_t site) { meet(site, 0xFFFFFFFFu, &site, nothing); }
API void nv_wgmma_fence_sync_aligned(uint32_t site) { together(site); }
API void nv_wgmma_commit_group_sync_aligned(uint32_t site) { together(site); }
API void nv_wgmma_wait_group_sync_aligned(uint32_t site, uint64_t left) {
  (void)left, together(site);
}
API void model_wgmma_wait(uint32_t site) { together(site); }
static void registers(uint32_t site, uint32_t count) {
  if (count % 8 || count < 24 || count > 256) fail(site, "%u registers", count);
  together(site);
}
API void nv_setmaxnreg_inc_sync_aligned_u32(uint32_t site, uint32_t count) {
  registers(site, count);
}
API void nv_setmaxnreg_dec_sync_aligned_u32(uint32_t site, uint32_t count) {
  registers(site, count);
}
