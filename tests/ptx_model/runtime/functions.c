/* Special registers, and functions of one thread. */

#include "model.h"
#include <float.h>
#include <math.h>

#define AXES(name, from)                                                                       \
  API uint32_t nv_read_ptx_sreg_##name##_x(void) { return from[0]; }                           \
  API uint32_t nv_read_ptx_sreg_##name##_y(void) { return from[1]; }                           \
  API uint32_t nv_read_ptx_sreg_##name##_z(void) { return from[2]; }
static const uint32_t *own_block(void) {
  static uint32_t place[3];
  place[0] = block_id[0] + now->rank, place[1] = block_id[1], place[2] = block_id[2];
  return place;
}
AXES(tid, now->tid)
AXES(ctaid, own_block())
AXES(nctaid, grid_size)
AXES(ntid, block_size)
API uint32_t nv_read_ptx_sreg_laneid(void) { return now->linear % WARP; }

/* A register is as its range promises. */
API uint32_t model_within(uint32_t value, uint32_t low, uint32_t high, uint32_t site) {
  if (value < low || value >= high) fail(site, "%u is not in its range", value);
  return value;
}

#define DP4A(sa, sb, a_type, b_type)                                                           \
  API uint32_t nv_idp4a_##sa##_##sb(uint32_t a, uint32_t b, uint32_t c) {                      \
    for (int n = 0; n < 4; n++) c += (uint32_t)((a_type)(a >> 8 * n) * (b_type)(b >> 8 * n));  \
    return c;                                                                                  \
  }
DP4A(s, s, int8_t, int8_t)
DP4A(s, u, int8_t, uint8_t)
DP4A(u, s, uint8_t, int8_t)
DP4A(u, u, uint8_t, uint8_t)

/* f32 with 11 significant bits, ties away from zero */
API uint32_t nv_f2tf32_rna(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  if ((bits & 0x7F800000u) == 0x7F800000u) return bits;
  return (bits + 0x1000u) & 0xFFFFE000u;
}

/* Two f32 as a pair, the upper one first. */
API uint32_t nv_ff2f16x2_rn(float high, float low) {
  _Float16 pair[2] = {(_Float16)low, (_Float16)high};
  uint32_t bits;
  memcpy(&bits, pair, 4);
  return bits;
}
static uint32_t as_bf16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  if (x != x) return 0x7FFF;
  return (bits + 0x7FFFu + (bits >> 16 & 1)) >> 16;
}
API uint32_t nv_ff2bf16x2_rn(float high, float low) {
  return as_bf16(high) << 16 | as_bf16(low);
}

/* f32 denormals are zero to approximate functions. */
static float flushed(float x) { return fabsf(x) < FLT_MIN ? copysignf(0, x) : x; }

API float nv_ex2_approx_ftz_f(float x) { return flushed((float)exp2(flushed(x))); }
API float nv_lg2_approx_ftz_f(float x) { return flushed((float)log2(flushed(x))); }
API float nv_sin_approx_ftz_f(float x) { return flushed((float)sin(flushed(x))); }
API float nv_cos_approx_ftz_f(float x) { return flushed((float)cos(flushed(x))); }
API float nv_rsqrt_approx_ftz_f(float x) { return flushed((float)(1 / sqrt(flushed(x)))); }

/* What the host's code generator would round twice, or call from a library that may lack it. */
API uint16_t model_fma_f16(uint16_t a, uint16_t b, uint16_t c) {
  _Float16 x, y, z;
  memcpy(&x, &a, 2), memcpy(&y, &b, 2), memcpy(&z, &c, 2);
  _Float16 r = (_Float16)((__float128)x * (__float128)y + (__float128)z);
  memcpy(&a, &r, 2);
  return a;
}

API uint16_t nv_fma_rn_f16(uint16_t a, uint16_t b, uint16_t c) { return model_fma_f16(a, b, c); }

/* Bytes of b:a by four bits each, of which the highest one would spread a sign: none has it here. */
API uint32_t nv_prmt(uint32_t a, uint32_t b, uint32_t chosen) {
  uint64_t both = (uint64_t)b << 32 | a;
  uint32_t found = 0;
  for (int n = 0; n < 4; n++) found |= (uint32_t)(uint8_t)(both >> 8 * (chosen >> 4 * n & 7)) << 8 * n;
  return found;
}

API uint32_t nv_fma_rn_f16x2(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t low = model_fma_f16((uint16_t)a, (uint16_t)b, (uint16_t)c);
  return low | (uint32_t)model_fma_f16((uint16_t)(a >> 16), (uint16_t)(b >> 16), (uint16_t)(c >> 16)) << 16;
}

/* f32 to bf16, whose ABI is that of _Float16: the bits in a vector register. */
API _Float16 __truncsfbf2(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  uint16_t high = (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  if (x != x) high = 0x7FFF; /* the NaN of cvt.rn.bf16.f32 */
  _Float16 r;
  memcpy(&r, &high, 2);
  return r;
}
