// Ways to memory: views of all kinds, gathers, atomics, parts of tiles.
#include <cuda_tile.h>

namespace ct = cuda::tiles;
using namespace ct::literals;

using Device = ct::thread_scope_constant<ct::thread_scope::device>;

// out = in transposed, for matrices of any size.
extern "C" __tile_global__ void transpose(const float *__restrict__ in, float *__restrict__ out,
                                          int rows, int columns) {
  ct::partition_view from{ct::tensor_span{in, ct::extents{rows, columns}}, ct::shape<64, 32>{}};
  ct::partition_view to{ct::tensor_span{out, ct::extents{columns, rows}}, ct::shape<32, 64>{}};
  const auto block = ct::bid();
  to.store_masked(ct::transpose(from.load_masked(block.y, block.x)), block.x, block.y);
}

// The same, where the layout of the result is told instead; three dims, the first is copied.
extern "C" __tile_global__ void permuted(const int *__restrict__ in, int *__restrict__ out,
                                         int planes, int rows, int columns) {
  ct::partition_view from{ct::tensor_span{in, ct::extents{planes, rows, columns}},
                          ct::shape<1, 16, 16>{}};
  ct::partition_view to{ct::tensor_span{out, ct::extents{planes, columns, rows}},
                        ct::shape<1, 16, 16>{}};
  const auto block = ct::bid();
  const auto tile = from.load_masked(block.z, block.y, block.x);
  to.store_masked(ct::permute(tile, ct::dimension_map{0_ic, 2_ic, 1_ic}), block.z, block.x,
                  block.y);
}

// Rows of a table that a list names.
extern "C" __tile_global__ void gather_rows(const float *__restrict__ table,
                                            const int *__restrict__ names,
                                            float *__restrict__ out, int rows, int columns,
                                            int count) {
  ct::gather_scatter_view from{ct::tensor_span{table, ct::extents{rows, columns}},
                               ct::shape<8, 64>{}, 0_ic};
  ct::partition_view list{ct::tensor_span{names, ct::extents{count}}, ct::shape<8>{}};
  ct::partition_view to{ct::tensor_span{out, ct::extents{count, columns}}, ct::shape<8, 64>{}};
  const int row = ct::bid().x, column = ct::bid().y;
  const auto named = ct::element_cast<unsigned>(list.load_masked(row));
  to.store_masked(from.load_masked(named, column * 64), row, column);
}

// Every window of four elements, two apart: a strided view of overlapping tiles.
extern "C" __tile_global__ void windows(const float *__restrict__ in, float *__restrict__ out,
                                        int n) {
  ct::strided_view from{ct::tensor_span{in, ct::extents{n}}, ct::shape<4>{},
                        ct::strides{2_ic}};
  ct::partition_view to{ct::tensor_span{out, ct::extents{n / 2}}, ct::shape<1>{}};
  const int block = ct::bid().x;
  to.store_masked(ct::sum(from.load_masked(block), 0_ic), block);
}

// How often each number from 0 to `bins` - 1 occurs; others are not counted.
extern "C" __tile_global__ void histogram(const int *numbers, int *counts, int n, int bins) {
  using Index = ct::tile<int, ct::shape<128>>;
  const auto at = static_cast<int>(ct::bid().x) * 128 + ct::iota<Index>();
  const auto number = ct::load_masked(numbers + at, at < n, -1);
  const auto counted = (number >= 0) & (number < bins);
  ct::atomic_add_masked(counts + number, ct::full<Index>(1), counted,
                        ct::memory_order_relaxed_t{}, Device{});
}

// A number that every tile block changes under a lock: total = 2 * total % 1000003 + 1.
extern "C" __tile_global__ void locked(int *lock, int *total) {
  while (ct::atomic_compare_exchange(lock, 0, 1, ct::memory_order_acquire_t{}, Device{}) != 0) {
  }
  *total = 2 * *total % 1000003 + 1;
  ct::atomic_xchg(lock, 0, ct::memory_order_release_t{}, Device{});
}

// The two halves of every tile change places.
extern "C" __tile_global__ void swap_halves(const short *__restrict__ in, short *__restrict__ out,
                                            int n) {
  ct::partition_view from{ct::tensor_span{in, ct::extents{n}}, ct::shape<64>{}};
  ct::partition_view to{ct::tensor_span{out, ct::extents{n}}, ct::shape<64>{}};
  const int block = ct::bid().x;
  const auto tile = from.load(block);
  const ct::shape<32> half{};
  const auto first = ct::extract(tile, half, 0), second = ct::extract(tile, half, 1);
  to.store(ct::cat(second, first, 0_ic), block);
}
