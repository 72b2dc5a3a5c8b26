// c = a @ b for row-major f16 matrices of any size, summed up in f32.
#include <cmath>
#include <cuda_fp16.h>
#include <cuda_tile.h>

#include "check.h"

namespace ct = cuda::tiles;

constexpr int TILE_M = 128, TILE_N = 128, TILE_K = 64;

// A tile block computes TILE_M x TILE_N elements of c. Elements outside of a matrix read as zero.
__tile_global__ void matmul(const __half *__restrict__ a, const __half *__restrict__ b,
                            float *__restrict__ c, int m, int n, int k) {
  using Sum = ct::tile<float, ct::shape<TILE_M, TILE_N>>;
  using ct::literals::operator""_ic;
  // The matrices begin at multiples of 16 bytes, and so do their rows: wide copies are allowed.
  a = ct::assume_aligned(a, 16_ic);
  b = ct::assume_aligned(b, 16_ic);
  c = ct::assume_aligned(c, 16_ic);
  n = ct::assume_divisible(n, 8_ic);
  k = ct::assume_divisible(k, 8_ic);

  ct::partition_view a_tiles{ct::tensor_span{a, ct::extents{m, k}}, ct::shape<TILE_M, TILE_K>{}};
  ct::partition_view b_tiles{ct::tensor_span{b, ct::extents{k, n}}, ct::shape<TILE_K, TILE_N>{}};
  ct::partition_view c_tiles{ct::tensor_span{c, ct::extents{m, n}}, ct::shape<TILE_M, TILE_N>{}};

  const int row = ct::bid().y, column = ct::bid().x;
  auto sum = ct::zeros<Sum>();
  for (int step : ct::irange(0, (k + TILE_K - 1) / TILE_K)) {
    sum = ct::mma(a_tiles.load_masked(row, step), b_tiles.load_masked(step, column), sum);
  }
  c_tiles.store_masked(sum, row, column);
}

int main() {
  const int m = 1000, n = 520, k = 712;
  unsigned seed = 2;
  std::vector<__half> a(m * k), b(k * n);
  for (auto &element : a) element = __float2half(random_number(seed));
  for (auto &element : b) element = __float2half(random_number(seed));
  DeviceArray device_a(a), device_b(b);
  DeviceArray device_c(std::vector<float>(m * n, NAN));

  const dim3 blocks((n + TILE_N - 1) / TILE_N, (m + TILE_M - 1) / TILE_M);
  matmul<<<blocks, 1>>>(device_a.get(), device_b.get(), device_c.get(), m, n, k);

  const auto c = device_c.download();
  double worst = 0;
  for (int row = 0; row < m; ++row) {
    for (int column = 0; column < n; ++column) {
      double expected = 0;
      for (int i = 0; i < k; ++i) {
        expected += double(__half2float(a[row * k + i])) * __half2float(b[i * n + column]);
      }
      const double error = std::fabs(c[row * n + column] - expected);
      worst = error <= worst ? worst : error;
    }
  }
  return report("matmul", worst, 1e-3);  // 712 products of f32, each sum rounded
}
