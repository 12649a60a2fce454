/* Products of matrices by a warp, and loads of their operands, in NVIDIA's layouts of fragments.

   Lane l is number t = l % 4 of group g = l / 4. With E elements in a 32-bit register, register r
   of A (16 x K) holds row g + 8 (r % 2), columns 4 E (r / 2) + t E ...; register r of B (K x 8)
   holds column g, rows 4 E r + t E ...; element i of C (16 x 8) is row g + 8 (i / 2), column
   2 t + i % 2. An A of 8 rows has the registers of even number only, and C elements 0 and 1. Sums of floats are truncated after each product, as hardware may do. */

#include "model.h"
#include <math.h>

typedef double (*Decode)(uint32_t reg, int element);
typedef struct {
  int elements, a_count, b_count; /* in a register; registers */
  int low;                        /* 8 rows instead of 16 */
  Decode a_value, b_value;
  uint32_t a[4], b[2];
  union { float f[4]; uint32_t i[4]; } c;
  int whole; /* integers */
} Product;

static double half(uint32_t reg, int n) {
  uint16_t bits = (uint16_t)(reg >> 16 * n);
  _Float16 value;
  memcpy(&value, &bits, 2);
  return value;
}
static double single(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
static double brain(uint32_t reg, int n) { return single(reg >> 16 * n << 16); }
static double tensor(uint32_t reg, int n) {
  (void)n;
  return single(reg & 0xFFFFE000u); /* tf32 has 10 bits of significand */
}
static double byte(uint32_t reg, int n) { return (uint8_t)(reg >> 8 * n); }
static double signed_byte(uint32_t reg, int n) { return (int8_t)(reg >> 8 * n); }

/* 8-bit floats: e4m3 has no infinity and one NaN; e5m2 is the upper half of an f16. */
double e4m3(uint32_t reg, int n) {
  int bits = (int)(reg >> 8 * n & 0xFF), exponent = bits >> 3 & 15, fraction = bits & 7;
  double size = exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);
  if ((bits & 0x7F) == 0x7F) size = (double)NAN;
  return bits & 0x80 ? -size : size;
}
double e5m2(uint32_t reg, int n) { return half((reg >> 8 * n & 0xFF) << 8, 0); }

static float truncated(double x) {
  float near = (float)x;
  return isfinite(near) && fabs((double)near) > fabs(x) ? nextafterf(near, 0) : near;
}

static void multiply(void **given, uint32_t mask) {
  static Product all[WARP];
  if (mask != 0xFFFFFFFFu) fail(0, "a product of matrices needs all lanes of a warp");
  for (int n = 0; n < WARP; n++) all[n] = *(Product *)given[n];
  int wide = all[0].elements, depth = all[0].b_count * 4 * wide;
  for (int lane = 0; lane < WARP; lane++) {
    Product *p = given[lane];
    for (int i = 0; i < (p->low ? 2 : 4); i++) {
      int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      for (int k = 0; k < depth; k++) {
        int part = k / (4 * wide), t = k % (4 * wide) / wide, n = k % wide;
        const Product *a = &all[row % 8 * 4 + t], *b = &all[column * 4 + t];
        double x = p->a_value(a->a[row / 8 + 2 * part], n) * p->b_value(b->b[part], n);
        if (p->whole) p->c.i[i] += (uint32_t)(int64_t)x;
        else p->c.f[i] = truncated((double)p->c.f[i] + x);
      }
    }
  }
}

static Product product(int elements, int depth, Decode a, Decode b) {
  int registers = depth / (4 * elements);
  return (Product){.elements = elements, .a_count = 2 * registers, .b_count = registers,
                   .a_value = a, .b_value = b};
}

#define EIGHT_BITS(x, y)                                                                       \
  API void nv_mma_m16n8k32_row_col_f32_##x##_##y##_f32(                                        \
      float *out, uint32_t site, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,           \
      uint32_t b0, uint32_t b1, float c0, float c1, float c2, float c3) {                      \
    Product p = product(4, 32, x, y);                                                          \
    uint32_t of_a[] = {a0, a1, a2, a3}, of_b[] = {b0, b1};                                     \
    float of_c[] = {c0, c1, c2, c3};                                                           \
    memcpy(p.a, of_a, 16), memcpy(p.b, of_b, 8), memcpy(p.c.f, of_c, 16);                      \
    meet(site, 0xFFFFFFFFu, &p, multiply);                                                     \
    memcpy(out, p.c.f, sizeof p.c.f);                                                          \
  }
EIGHT_BITS(e4m3, e4m3)
EIGHT_BITS(e4m3, e5m2)
EIGHT_BITS(e5m2, e4m3)
EIGHT_BITS(e5m2, e5m2)

#define FOUR(type) type c0, type c1, type c2, type c3
#define FLOATS(name, elements, depth, decode, registers, ...)                                  \
  API void nv_mma_##name(float *out, uint32_t site, registers, FOUR(float)) {                  \
    Product p = product(elements, depth, decode, decode);                                      \
    uint32_t all[] = {__VA_ARGS__};                                                            \
    memcpy(p.a, all, 4 * (size_t)p.a_count);                                                   \
    memcpy(p.b, all + p.a_count, 4 * (size_t)p.b_count);                                       \
    p.c.f[0] = c0, p.c.f[1] = c1, p.c.f[2] = c2, p.c.f[3] = c3;                                \
    meet(site, 0xFFFFFFFFu, &p, multiply);                                                     \
    memcpy(out, p.c.f, sizeof p.c.f);                                                          \
  }
#define WHOLE(name, depth, a_decode, b_decode, registers, ...)                                 \
  API void nv_mma_##name(uint32_t *out, uint32_t site, registers, FOUR(uint32_t)) {            \
    Product p = product(4, depth, a_decode, b_decode);                                         \
    uint32_t all[] = {__VA_ARGS__};                                                            \
    memcpy(p.a, all, 4 * (size_t)p.a_count);                                                   \
    memcpy(p.b, all + p.a_count, 4 * (size_t)p.b_count);                                       \
    p.c.i[0] = c0, p.c.i[1] = c1, p.c.i[2] = c2, p.c.i[3] = c3, p.whole = 1;                   \
    meet(site, 0xFFFFFFFFu, &p, multiply);                                                     \
    memcpy(out, p.c.i, sizeof p.c.i);                                                          \
  }
#define SMALL uint32_t a0, uint32_t a1, uint32_t b0
#define LARGE uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1
FLOATS(m16n8k8_row_col_f32_f32, 2, 8, half, SMALL, a0, a1, b0)
FLOATS(m16n8k16_row_col_f32_f32, 2, 16, half, LARGE, a0, a1, a2, a3, b0, b1)
FLOATS(m16n8k8_row_col_bf16, 2, 8, brain, SMALL, a0, a1, b0)
FLOATS(m16n8k16_row_col_bf16, 2, 16, brain, LARGE, a0, a1, a2, a3, b0, b1)
FLOATS(m16n8k4_row_col_tf32, 1, 4, tensor, SMALL, a0, a1, b0)
FLOATS(m16n8k8_row_col_tf32, 1, 8, tensor, LARGE, a0, a1, a2, a3, b0, b1)
WHOLE(m16n8k16_row_col_s8, 16, signed_byte, signed_byte, SMALL, a0, a1, b0)
WHOLE(m16n8k16_row_col_u8, 16, byte, byte, SMALL, a0, a1, b0)
WHOLE(m16n8k16_row_col_s8_u8, 16, signed_byte, byte, SMALL, a0, a1, b0)
WHOLE(m16n8k16_row_col_u8_s8, 16, byte, signed_byte, SMALL, a0, a1, b0)
WHOLE(m16n8k32_row_col_s8, 32, signed_byte, signed_byte, LARGE, a0, a1, a2, a3, b0, b1)
WHOLE(m16n8k32_row_col_u8, 32, byte, byte, LARGE, a0, a1, a2, a3, b0, b1)
WHOLE(m16n8k32_row_col_s8_u8, 32, signed_byte, byte, LARGE, a0, a1, a2, a3, b0, b1)
WHOLE(m16n8k32_row_col_u8_s8, 32, byte, signed_byte, LARGE, a0, a1, a2, a3, b0, b1)

#define EIGHT_ROWS(name, a_decode, b_decode)                                                   \
  API void nv_mma_m8n8k16_row_col_##name(uint32_t *out, uint32_t site, uint32_t a0,            \
                                         uint32_t b0, uint32_t c0, uint32_t c1) {              \
    Product p = product(4, 16, a_decode, b_decode);                                            \
    p.a[0] = a0, p.b[0] = b0, p.c.i[0] = c0, p.c.i[1] = c1, p.whole = 1, p.low = 1;            \
    meet(site, 0xFFFFFFFFu, &p, multiply);                                                     \
    memcpy(out, p.c.i, 8);                                                                     \
  }
EIGHT_ROWS(s8, signed_byte, signed_byte)
EIGHT_ROWS(u8, byte, byte)
EIGHT_ROWS(s8_u8, signed_byte, byte)
EIGHT_ROWS(u8_s8, byte, signed_byte)

/* Sums in f16: as in f32, rounded once. */
static void halves(uint32_t *out, uint32_t site, Product p, const uint32_t *c) {
  for (int i = 0; i < 4; i++) p.c.f[i] = (float)half(c[i / 2], i % 2);
  meet(site, 0xFFFFFFFFu, &p, multiply);
  for (int i = 0; i < 4; i++) {
    _Float16 sum = (_Float16)p.c.f[i];
    memcpy((char *)out + 2 * i, &sum, 2);
  }
}
API void nv_mma_m16n8k16_row_col_f16_f16(uint32_t *out, uint32_t site, LARGE, uint32_t c0,
                                         uint32_t c1) {
  Product p = product(2, 16, half, half);
  uint32_t a[] = {a0, a1, a2, a3}, b[] = {b0, b1}, c[] = {c0, c1};
  memcpy(p.a, a, sizeof a), memcpy(p.b, b, sizeof b);
  halves(out, site, p, c);
}
API void nv_mma_m16n8k8_row_col_f16_f16(uint32_t *out, uint32_t site, SMALL, uint32_t c0,
                                        uint32_t c1) {
  Product p = product(2, 8, half, half);
  uint32_t c[] = {c0, c1};
  p.a[0] = a0, p.a[1] = a1, p.b[0] = b0;
  halves(out, site, p, c);
}

/* ldmatrix: lanes 8 m ... 8 m + 7 bring the rows of matrix m, 8 elements of 16 bits each */

typedef struct { const char *row; uint32_t site, out[4]; int matrices, transposed; } Load;

static void load(void **given, uint32_t mask) {
  (void)mask;
  Thread *me = now;
  const Load *first = given[0];
  for (int n = 0; n < 8 * first->matrices; n++) {
    const Load *l = given[n];
    for (int other = 0; other < 2; other++) { /* read for several lanes */
      now = &own_threads()[me->linear / WARP * WARP + (uint32_t)(n ^ other)];
      touch(l->row, ANY_OBJECT, 16, 16, LOAD, l->site);
    }
  }
  now = me;
  for (int lane = 0; lane < WARP; lane++)
    for (int m = 0; m < first->matrices; m++) {
      uint16_t part[2];
      for (int n = 0; n < 2; n++) {
        int row = lane / 4, column = lane % 4 * 2 + n;
        if (first->transposed) row = column, column = lane / 4;
        memcpy(&part[n], ((Load *)given[8 * m + row])->row + 2 * column, 2);
      }
      memcpy(&((Load *)given[lane])->out[m], part, 4);
    }
}

static Load loaded(uint32_t site, const char *row, int matrices, int transposed) {
  Load l = {row, site, {0}, matrices, transposed};
  meet(site, 0xFFFFFFFFu, &l, load);
  return l;
}
#define LDMATRIX(count, word, transposed)                                                      \
  API void nv_ldmatrix_sync_aligned_m8n8_x##count##word##_b16_p3(uint32_t *out, uint32_t site, \
                                                                 const char *row) {            \
    Load l = loaded(site, row, count, transposed);                                             \
    memcpy(out, l.out, 4 * count);                                                             \
  }
LDMATRIX(2, , 0)
LDMATRIX(4, , 0)
LDMATRIX(2, _trans, 1)
LDMATRIX(4, _trans, 1)
API uint32_t nv_ldmatrix_sync_aligned_m8n8_x1_b16_p3(uint32_t site, const char *row) {
  return loaded(site, row, 1, 0).out[0];
}
API uint32_t nv_ldmatrix_sync_aligned_m8n8_x1_trans_b16_p3(uint32_t site, const char *row) {
  return loaded(site, row, 1, 1).out[0];
}

/* stmatrix: the reverse; the lanes of a matrix bring the places of its rows */

typedef struct { char *row; uint32_t site, in[4]; int matrices, transposed; } Store;

static void keep(void **given, uint32_t mask) {
  (void)mask;
  Thread *me = now;
  const Store *first = given[0];
  for (int n = 0; n < 8 * first->matrices; n++) {
    const Store *s = given[n];
    now = &own_threads()[me->linear / WARP * WARP + (uint32_t)n];
    touch(s->row, ANY_OBJECT, 16, 16, STORE, s->site);
  }
  now = me;
  for (int lane = 0; lane < WARP; lane++)
    for (int m = 0; m < first->matrices; m++)
      for (int n = 0; n < 2; n++) {
        int row = lane / 4, column = lane % 4 * 2 + n;
        if (first->transposed) row = column, column = lane / 4;
        uint16_t part = (uint16_t)(((Store *)given[lane])->in[m] >> 16 * n);
        memcpy(((Store *)given[8 * m + row])->row + 2 * column, &part, 2);
      }
}

static void stored(uint32_t site, char *row, int matrices, int transposed, const uint32_t *in) {
  Store s = {row, site, {0}, matrices, transposed};
  memcpy(s.in, in, 4 * (size_t)matrices);
  meet(site, 0xFFFFFFFFu, &s, keep);
}
#define STMATRIX(word, transposed)                                                             \
  API void nv_stmatrix_sync_aligned_m8n8_x1##word##_b16_p3(uint32_t site, char *row,           \
                                                           uint32_t a) {                       \
    stored(site, row, 1, transposed, &a);                                                      \
  }                                                                                            \
  API void nv_stmatrix_sync_aligned_m8n8_x2##word##_b16_p3(uint32_t site, char *row,           \
                                                           uint32_t a, uint32_t b) {           \
    stored(site, row, 2, transposed, (uint32_t[]){a, b});                                      \
  }                                                                                            \
  API void nv_stmatrix_sync_aligned_m8n8_x4##word##_b16_p3(                                    \
      uint32_t site, char *row, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {              \
    stored(site, row, 4, transposed, (uint32_t[]){a, b, c, d});                                \
  }
STMATRIX(, 0)
STMATRIX(_trans, 1)
