// out[i] = a[i] + b[i]: a tile block adds 1024 neighbouring elements.
#include <cmath>
#include <cuda_tile.h>

#include "check.h"

namespace ct = cuda::tiles;
using namespace ct::literals;

constexpr std::size_t BLOCK = 1024;

// The last tile may reach behind the arrays: what lies there is neither read nor written.
__tile_global__ void vector_add(const float *__restrict__ a, const float *__restrict__ b,
                                float *__restrict__ out, std::size_t n) {
  const auto tile_shape = ct::shape<BLOCK>{};
  ct::partition_view a_tiles{ct::tensor_span{a, ct::extents{n}}, tile_shape};
  ct::partition_view b_tiles{ct::tensor_span{b, ct::extents{n}}, tile_shape};
  ct::partition_view out_tiles{ct::tensor_span{out, ct::extents{n}}, tile_shape};

  const auto block = ct::bid().x;
  out_tiles.store_masked(a_tiles.load_masked(block) + b_tiles.load_masked(block), block);
}

int main() {
  const std::size_t n = 1000003;
  unsigned seed = 1;
  std::vector<float> a(n), b(n);
  for (std::size_t i = 0; i < n; ++i) {
    a[i] = random_number(seed);
    b[i] = random_number(seed);
  }
  DeviceArray device_a(a), device_b(b), device_out(std::vector<float>(n, NAN));

  // The grid counts tile blocks; a tile block is always one "thread" for the launch.
  const unsigned blocks = (n + BLOCK - 1) / BLOCK;
  vector_add<<<blocks, 1>>>(device_a.get(), device_b.get(), device_out.get(), n);

  const auto out = device_out.download();
  double worst = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double error = std::fabs(out[i] - (a[i] + b[i]));
    worst = error <= worst ? worst : error;
  }
  return report("vector_add", worst, 0);
}
