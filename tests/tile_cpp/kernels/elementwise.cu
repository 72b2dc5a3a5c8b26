// Arithmetic of scalars and tiles: types, conversions, mathematical functions, templates.
#include <cuda_fp16.h>
#include <cuda_tile.h>

namespace ct = cuda::tiles;
using namespace ct::literals;

using Index = ct::tile<int, ct::shape<256>>;

// The elements of this block's part of an array.
__tile__ Index part() { return static_cast<int>(ct::bid().x) * 256 + ct::iota<Index>(); }

// out = factor * in + bias, with every part of the program a template.
template <typename Element, int WIDTH>
__tile_global__ void scale(const Element *in, Element *out, float factor, float bias, int n) {
  using Positions = ct::tile<int, ct::shape<WIDTH>>;
  const auto at = static_cast<int>(ct::bid().x) * WIDTH + ct::iota<Positions>();
  const auto mask = at < n;
  const auto x = ct::element_cast<float>(ct::load_masked(in + at, mask));
  ct::store_masked(out + at, ct::element_cast<Element>(factor * x + bias), mask);
}
template __tile_global__ void scale<float, 512>(const float *, float *, float, float, int);
template __tile_global__ void scale<__half, 1024>(const __half *, __half *, float, float, int);

// The tanh form of GELU.
extern "C" __tile_global__ void gelu(const float *in, float *out, int n) {
  const auto at = part();
  const auto x = ct::load_masked(in + at, at < n);
  const auto inner = 0.7978845608f * (x + 0.044715f * x * x * x);
  ct::store_masked(out + at, 0.5f * x * (1.0f + ct::tanh(inner)), at < n);
}

// One number per element that depends on all of these functions.
extern "C" __tile_global__ void functions(const float *in, double *out, int n) {
  const auto at = part();
  const auto x = ct::load_masked(in + at, at < n, 1.0f);
  const auto positive = ct::abs(x) + 0.5f;
  auto sum = ct::sin(x) + 2.0f * ct::cos(x) + ct::exp(x) + ct::exp2(x) + ct::log(positive);
  sum = sum + ct::log2(positive) + ct::sqrt(positive) + ct::rsqrt(positive) + ct::floor(x);
  sum = sum + ct::ceil(x) + ct::pow(positive, 1.5f) + ct::atan2(x, positive);
  const auto wide = ct::element_cast<double>(sum) * 2.0 - ct::element_cast<double>(x);
  ct::store_masked(out + at, wide, at < n);
}

// Integers of several widths: division, remainder, shifts, bits, comparison, choice.
extern "C" __tile_global__ void integers(const int *a, const int *b, long long *out, int n) {
  const auto at = part();
  const auto mask = at < n;
  const auto x = ct::load_masked(a + at, mask), y = ct::load_masked(b + at, mask, 1);
  const auto bits = (x & y) ^ (x | 0xff) ^ (~y << 3) ^ (x >> 2);
  const auto quotient = x / y + x % y;
  const auto wide = ct::element_cast<long long>(x) * ct::element_cast<long long>(y);
  const auto chosen = ct::select(x < y, ct::element_cast<long long>(bits),
                                 ct::element_cast<long long>(quotient));
  const auto narrow = ct::element_cast<long long>(ct::element_cast<signed char>(x));
  ct::store_masked(out + at, wide + chosen + narrow, mask);
}

// Collatz steps of one number per tile block: control flow of scalars, with both ways out.
extern "C" __tile_global__ void collatz(const int *numbers, int *steps, int limit) {
  const int block = ct::bid().x;
  int number = numbers[block];
  if (number < 1) {
    steps[block] = -1;
    return;
  }
  int count = 0;
  while (number != 1) {
    if (count == limit) break;
    number = number % 2 == 0 ? number / 2 : 3 * number + 1;
    ++count;
  }
  steps[block] = count;
}
