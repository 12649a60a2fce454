/* Conversions of 8-bit floats: a pair as f16, and f32 rounded to nearest even without going beyond
   the greatest value, the first one to the upper byte. */

#include "model.h"
#include <math.h>

static uint32_t halves(double low, double high) {
  _Float16 pair[2] = {(_Float16)low, (_Float16)high};
  uint32_t word;
  memcpy(&word, pair, 4);
  return word;
}
API uint32_t nv_e4m3x2_to_f16x2_rn(uint16_t x) { return halves(e4m3(x, 0), e4m3(x, 1)); }
API uint32_t nv_e5m2x2_to_f16x2_rn(uint16_t x) { return halves(e5m2(x, 0), e5m2(x, 1)); }

typedef double (*Value)(uint32_t reg, int element);
static uint32_t nearest(float x, Value value, uint32_t greatest) {
  if (isnan(x)) return 0x7F;
  uint32_t best = 0, sign = signbit(x) ? 0x80 : 0;
  double size = fmin(fabs((double)x), value(greatest, 0));
  for (uint32_t n = 1; n <= greatest; n++) {
    double old = fabs(size - value(best, 0)), gap = fabs(size - value(n, 0));
    if (gap < old || (gap <= old && n % 2 == 0)) best = n;
  }
  return sign | best;
}
API uint16_t nv_ff_to_e4m3x2_rn(float high, float low) {
  return (uint16_t)(nearest(high, e4m3, 0x7E) << 8 | nearest(low, e4m3, 0x7E));
}
API uint16_t nv_ff_to_e5m2x2_rn(float high, float low) {
  return (uint16_t)(nearest(high, e5m2, 0x7B) << 8 | nearest(low, e5m2, 0x7B));
}
