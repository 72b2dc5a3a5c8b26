// Softmax of every row of a matrix: a tile block reads a row once and keeps it in registers.
#include <cmath>
#include <cuda_tile.h>

#include "check.h"

namespace ct = cuda::tiles;
using namespace ct::literals;

// `WIDTH` is a power of two and at least the number of columns. Elements behind the end of a row
// read as minus infinity, so they change neither the largest element nor the sum.
template <int WIDTH>
__tile_global__ void softmax(const float *__restrict__ in, float *__restrict__ out, int rows,
                             int columns) {
  ct::partition_view in_rows{ct::tensor_span{in, ct::extents{rows, columns}},
                             ct::shape<1, WIDTH>{}};
  ct::partition_view out_rows{ct::tensor_span{out, ct::extents{rows, columns}},
                              ct::shape<1, WIDTH>{}};

  const int row = ct::bid().x;
  const auto x = in_rows.load_masked(ct::view_padding_negative_inf_t{}, row, 0);
  const auto powers = ct::exp(x - ct::reduce_max(x, 1_ic));
  out_rows.store_masked(powers / ct::sum(powers, 1_ic), row, 0);
}

int main() {
  const int rows = 777, columns = 1000;
  unsigned seed = 3;
  std::vector<float> in(rows * columns);
  for (auto &element : in) element = 8 * random_number(seed);
  DeviceArray device_in(in), device_out(std::vector<float>(in.size(), NAN));

  softmax<1024><<<rows, 1>>>(device_in.get(), device_out.get(), rows, columns);

  const auto out = device_out.download();
  double worst = 0;
  for (int row = 0; row < rows; ++row) {
    const float *x = &in[row * columns];
    double largest = -INFINITY, sum = 0;
    for (int i = 0; i < columns; ++i) largest = std::fmax(largest, x[i]);
    for (int i = 0; i < columns; ++i) sum += std::exp(x[i] - largest);
    for (int i = 0; i < columns; ++i) {
      const double error = std::fabs(out[row * columns + i] - std::exp(x[i] - largest) / sum);
      worst = error <= worst ? worst : error;
    }
  }
  return report("softmax", worst, 1e-6);
}
