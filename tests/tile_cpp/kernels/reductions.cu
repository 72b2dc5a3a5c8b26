// Reductions and scans, over rows that need more than one tile.
#include <cuda_tile.h>

namespace ct = cuda::tiles;
using namespace ct::literals;

// Of each row: sum, largest and smallest element, and where the largest one is.
extern "C" __tile_global__ void statistics(const float *__restrict__ in, float *__restrict__ out,
                                           int *__restrict__ places, int rows) {
  constexpr int WIDTH = 512;
  ct::partition_view from{ct::tensor_span{in, ct::extents{rows, 512_ic}}, ct::shape<4, WIDTH>{}};
  const auto tile = from.load_masked(static_cast<int>(ct::bid().x), 0);
  const auto lines = ct::reshape<ct::shape<4, 1>>(ct::iota<ct::tile<int, ct::shape<4>>>());
  const auto row = static_cast<int>(ct::bid().x) * 4 + lines;
  const auto mask = row < rows;
  ct::store_masked(out + 3 * row, ct::sum(tile, 1_ic), mask);
  ct::store_masked(out + 3 * row + 1, ct::reduce_max(tile, 1_ic), mask);
  ct::store_masked(out + 3 * row + 2, ct::reduce_min(tile, 1_ic), mask);
  ct::store_masked(places + row, ct::element_cast<int>(ct::max_element(tile, 1_ic)), mask);
}

// Running sums of each row, from its start and from its end.
extern "C" __tile_global__ void running_sums(const int *__restrict__ in, int *__restrict__ forward,
                                             int *__restrict__ backward, int rows) {
  const ct::shape<2, 128> tile_shape{};
  ct::partition_view from{ct::tensor_span{in, ct::extents{rows, 128_ic}}, tile_shape};
  ct::partition_view to{ct::tensor_span{forward, ct::extents{rows, 128_ic}}, tile_shape};
  ct::partition_view back{ct::tensor_span{backward, ct::extents{rows, 128_ic}}, tile_shape};
  const int block = ct::bid().x;
  const auto tile = from.load_masked(block, 0);
  to.store_masked(ct::partial_sum(tile, 1_ic), block, 0);
  back.store_masked(ct::partial_sum(tile, 1_ic, ct::scan_backward_t{}), block, 0);
}

// Layer normalisation of rows of any length, in three passes over a row.
extern "C" __tile_global__ void layer_norm(const float *__restrict__ in,
                                           const float *__restrict__ weight,
                                           float *__restrict__ out, int rows, int columns,
                                           float epsilon) {
  constexpr int WIDTH = 256;
  using Part = ct::tile<float, ct::shape<1, WIDTH>>;
  using Index = ct::tile<int, ct::shape<WIDTH>>;
  ct::partition_view from{ct::tensor_span{in, ct::extents{rows, columns}}, ct::shape<1, WIDTH>{}};
  ct::partition_view to{ct::tensor_span{out, ct::extents{rows, columns}}, ct::shape<1, WIDTH>{}};
  ct::partition_view weights{ct::tensor_span{weight, ct::extents{1_ic, columns}},
                             ct::shape<1, WIDTH>{}};
  const int row = ct::bid().x, parts = (columns + WIDTH - 1) / WIDTH;
  const auto inverse = 1.0f / static_cast<float>(columns);

  auto sums = ct::zeros<Part>();
  for (int part = 0; part < parts; ++part) sums = sums + from.load_masked(row, part);
  const auto mean = ct::sum(sums, 1_ic) * inverse;

  auto squares = ct::zeros<Part>();
  for (int part = 0; part < parts; ++part) {
    const auto column = part * WIDTH + ct::reshape<ct::shape<1, WIDTH>>(ct::iota<Index>());
    const auto x = from.load_masked(row, part);
    const auto centred = ct::select(column < columns, x - mean, ct::zeros<Part>());
    squares = squares + centred * centred;
  }
  const auto scale = ct::rsqrt(ct::sum(squares, 1_ic) * inverse + epsilon);

  for (int part = 0; part < parts; ++part) {
    const auto normal = (from.load_masked(row, part) - mean) * scale;
    to.store_masked(normal * weights.load_masked(0, part), row, part);
  }
}

// Whether all, and whether any, of 64 neighbouring elements are not zero.
extern "C" __tile_global__ void all_and_any(const unsigned char *in, int *out) {
  const int block = ct::bid().x;
  const auto tile = ct::load(in + block * 64 + ct::iota<ct::tile<int, ct::shape<64>>>()) != 0;
  const auto all = ct::element_cast<int>(ct::all_of(tile, 0_ic));
  const auto both = all + 2 * ct::element_cast<int>(ct::any_of(tile, 0_ic));
  ct::store(out + block + ct::zeros<ct::tile<int, ct::shape<1>>>(), both);
}
