// Matrix products on the tensor core, and what is built of them.
#include <cuda_fp16.h>
#include <cuda_tile.h>

namespace ct = cuda::tiles;
using namespace ct::literals;

using Device = ct::thread_scope_constant<ct::thread_scope::device>;

// c = a @ b, tiles given out in rounds to as many tile blocks as there are.
extern "C" [[using cutile : hint(900, occupancy = 1)]] __tile_global__ void
persistent_matmul(const __half *__restrict__ a, const __half *__restrict__ b,
                  __half *__restrict__ c, int m, int n, int k) {
  a = ct::assume_aligned(a, 16_ic);
  b = ct::assume_aligned(b, 16_ic);
  c = ct::assume_aligned(c, 16_ic);
  n = ct::assume_divisible(n, 8_ic);
  k = ct::assume_divisible(k, 8_ic);
  ct::partition_view a_tiles{ct::tensor_span{a, ct::extents{m, k}}, ct::shape<128, 64>{}};
  ct::partition_view b_tiles{ct::tensor_span{b, ct::extents{k, n}}, ct::shape<64, 128>{}};
  ct::partition_view c_tiles{ct::tensor_span{c, ct::extents{m, n}}, ct::shape<128, 128>{}};
  const int columns = (n + 127) / 128, tiles = columns * ((m + 127) / 128);
  for (int tile = ct::bid().x; tile < tiles; tile += static_cast<int>(ct::num_blocks().x)) {
    const int row = tile / columns, column = tile % columns;
    auto sum = ct::zeros<ct::tile<float, ct::shape<128, 128>>>();
    for (int step : ct::irange(0, (k + 63) / 64)) {
      sum = ct::mma(a_tiles.load_masked(row, step), b_tiles.load_masked(step, column), sum);
    }
    c_tiles.store_masked(ct::element_cast<__half>(sum), row, column);
  }
}

// Part of the sums of c = a @ b, added to what is there: blocks along z share K.
extern "C" __tile_global__ void split_k(const __half *__restrict__ a, const __half *__restrict__ b,
                                        float *__restrict__ c, int m, int n, int k) {
  ct::partition_view a_tiles{ct::tensor_span{a, ct::extents{m, k}}, ct::shape<64, 32>{}};
  ct::partition_view b_tiles{ct::tensor_span{b, ct::extents{k, n}}, ct::shape<32, 64>{}};
  ct::partition_view c_tiles{ct::tensor_span{c, ct::extents{m, n}}, ct::shape<64, 64>{}};
  const auto block = ct::bid();
  auto sum = ct::zeros<ct::tile<float, ct::shape<64, 64>>>();
  for (int step = block.z; step < (k + 31) / 32; step += static_cast<int>(ct::num_blocks().z)) {
    sum = ct::mma(a_tiles.load_masked(block.x, step), b_tiles.load_masked(step, block.y), sum);
  }
  c_tiles.atomic_add_masked(sum, ct::memory_order_relaxed_t{}, Device{}, block.x, block.y);
}

// Batches of products of bytes, exact. nvcc does not count the loop: its bound is computed in it.
extern "C" __tile_global__ void bytes_matmul(const signed char *__restrict__ a,
                                             const signed char *__restrict__ b,
                                             int *__restrict__ c, int batches, int m, int n,
                                             int k) {
  const ct::shape<1, 64, 64> tile_shape{};
  ct::partition_view a_tiles{ct::tensor_span{a, ct::extents{batches, m, k}}, tile_shape};
  ct::partition_view b_tiles{ct::tensor_span{b, ct::extents{batches, k, n}}, tile_shape};
  ct::partition_view c_tiles{ct::tensor_span{c, ct::extents{batches, m, n}}, tile_shape};
  const auto block = ct::bid();
  auto sum = ct::zeros<ct::tile<int, ct::shape<1, 64, 64>>>();
  for (int step = 0; step < (k + 63) / 64; ++step) {
    sum = ct::mma(a_tiles.load_masked(block.z, block.x, step),
                  b_tiles.load_masked(block.z, step, block.y), sum);
  }
  c_tiles.store_masked(sum, block.z, block.x, block.y);
}

// Attention of 64 queries a tile block: softmax(q @ k^T * scale) @ v, row by row, never stored.
extern "C" __tile_global__ void attention(const __half *__restrict__ q,
                                          const __half *__restrict__ k,
                                          const __half *__restrict__ v, __half *__restrict__ out,
                                          int queries, int keys, float scale) {
  constexpr int DEPTH = 64;
  q = ct::assume_aligned(q, 16_ic);
  k = ct::assume_aligned(k, 16_ic);
  v = ct::assume_aligned(v, 16_ic);
  out = ct::assume_aligned(out, 16_ic);
  const ct::shape<64, DEPTH> tile_shape{};
  ct::partition_view q_tiles{ct::tensor_span{q, ct::extents{queries, 64_ic}}, tile_shape};
  ct::partition_view k_tiles{ct::tensor_span{k, ct::extents{keys, 64_ic}}, tile_shape};
  ct::partition_view v_tiles{ct::tensor_span{v, ct::extents{keys, 64_ic}}, tile_shape};
  ct::partition_view out_tiles{ct::tensor_span{out, ct::extents{queries, 64_ic}}, tile_shape};

  using Scores = ct::tile<float, ct::shape<64, 64>>;
  using Column = ct::tile<float, ct::shape<64, 1>>;
  using Keys = ct::tile<int, ct::shape<64>>;
  const int block = ct::bid().x;
  const auto query = q_tiles.load_masked(block, 0);
  auto largest = ct::full<Column>(-1e30f);
  auto total = ct::zeros<Column>();
  auto sum = ct::zeros<Scores>();
  const int steps = (keys + 63) / 64;
  for (int step = 0; step < steps; ++step) {
    auto scores = ct::mma(query, ct::transpose(k_tiles.load_masked(step, 0)), ct::zeros<Scores>());
    const auto key = step * 64 + ct::reshape<ct::shape<1, 64>>(ct::iota<Keys>());
    scores = ct::select(key < keys, scores * scale, ct::full<Scores>(-1e30f));
    const auto now = ct::max(largest, ct::reduce_max(scores, 1_ic));
    const auto powers = ct::exp(scores - now);
    const auto shrunk = ct::exp(largest - now);
    total = total * shrunk + ct::sum(powers, 1_ic);
    sum = ct::mma(ct::element_cast<__half>(powers), v_tiles.load_masked(step, 0), sum * shrunk);
    largest = now;
  }
  out_tiles.store_masked(ct::element_cast<__half>(sum / total), block, 0);
}
