// Kernels of CUDA C++ for the PTX machine, compiled by nvcc: each uses something else.
#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

namespace groups = cooperative_groups;

// Shuffles within warps, then shared memory: the sum of a row for every block.
extern "C" __global__ void __launch_bounds__(256)
row_sums(const float* in, float* out, int columns) {
  __shared__ float parts[8];
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += in[blockIdx.x * columns + i];
  for (int step = 16; step; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < 8; i++) sum += parts[i];
    out[blockIdx.x] = sum;
  }
}

// Atomics on shared and on global memory.
extern "C" __global__ void __launch_bounds__(128)
histogram(const unsigned char* in, unsigned* out, int count) {
  __shared__ unsigned bins[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) bins[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    atomicAdd(&bins[in[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&out[i], bins[i]);
}

// Inclusive prefix sums of a block, by shuffles and a second scan over warps.
extern "C" __global__ void __launch_bounds__(256) prefix_sums(const int* in, int* out, int count) {
  __shared__ int ends[8];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int value = threadIdx.x < count ? in[threadIdx.x] : 0;
  for (int step = 1; step < 32; step *= 2) {
    int other = __shfl_up_sync(~0u, value, step);
    if (lane >= step) value += other;
  }
  if (lane == 31) ends[warp] = value;
  __syncthreads();
  for (int i = 0; i < warp; i++) value += ends[i];
  if (threadIdx.x < count) out[threadIdx.x] = value;
}

// Threads of a warp that leave a loop one after the other.
extern "C" __global__ void __launch_bounds__(128)
collatz(const unsigned* in, unsigned* out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  unsigned value = in[i], steps = 0;
  while (value > 1) {
    value = value % 2 ? 3 * value + 1 : value / 2;
    steps++;
  }
  out[i] = steps + __popc(__activemask()) * 0;
}

// Bitonic sort in shared memory.
extern "C" __global__ void __launch_bounds__(128) sort(const int* in, int* out, int count) {
  __shared__ int items[256];
  for (int i = threadIdx.x; i < 256; i += 128) items[i] = i < count ? in[i] : 0x7fffffff;
  __syncthreads();
  for (int size = 2; size <= 256; size *= 2)
    for (int step = size / 2; step; step /= 2) {
      int low = 2 * step * (threadIdx.x / step) + threadIdx.x % step, high = low + step;
      bool rises = (low & size) == 0;
      int a = items[low], b = items[high];
      if ((a > b) == rises) items[low] = b, items[high] = a;
      __syncthreads();
    }
  for (int i = threadIdx.x; i < count; i += 128) out[i] = items[i];
}

// Rows of 128, vectors of four, exponentials.
extern "C" __global__ void __launch_bounds__(128)
softmax(const float4* in, float4* out, int rows) {
  int row = blockIdx.x * 4 + threadIdx.x / 32;
  if (row >= rows) return;
  float4 x = in[row * 32 + threadIdx.x % 32];
  float top = fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w));
  for (int step = 16; step; step /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
  x.x = __expf(x.x - top), x.y = __expf(x.y - top), x.z = __expf(x.z - top);
  x.w = __expf(x.w - top);
  float sum = x.x + x.y + x.z + x.w;
  for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  out[row * 32 + threadIdx.x % 32] = make_float4(x.x / sum, x.y / sum, x.z / sum, x.w / sum);
}

// C = A @ B of f16 by mma.sync: 64x64 a block of four warps, cp.async in two stages, ldmatrix.
extern "C" __global__ void __launch_bounds__(128)
half_product(const __half* a, const __half* b, float* c, int n, int k) {
  __shared__ __align__(16) __half as[2][64][40];
  __shared__ __align__(16) __half bs[2][32][72];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int row = blockIdx.x * 64, column = blockIdx.y * 64;
  auto copy = [&](int stage, int at) {
    for (int i = threadIdx.x; i < 256; i += 128)
      __pipeline_memcpy_async(&as[stage][i / 4][i % 4 * 8],
                              &a[(row + i / 4) * k + at + i % 4 * 8], 16);
    for (int i = threadIdx.x; i < 256; i += 128)
      __pipeline_memcpy_async(&bs[stage][i / 8][i % 8 * 8],
                              &b[(at + i / 8) * n + column + i % 8 * 8], 16);
    __pipeline_commit();
  };
  float sums[8][4] = {};
  copy(0, 0);
  for (int at = 0, stage = 0; at < k; at += 32, stage ^= 1) {
    if (at + 32 < k) copy(stage ^ 1, at + 32);
    else __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    for (int step = 0; step < 32; step += 16) {
      unsigned x[4];
      unsigned where = __cvta_generic_to_shared(&as[stage][warp * 16 + lane % 16]
                                                  [step + lane / 16 * 8]);
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(where));
      for (int part = 0; part < 8; part++) {
        unsigned y[2];
        where = __cvta_generic_to_shared(&bs[stage][step + lane % 16][part * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                     : "=r"(y[0]), "=r"(y[1]) : "r"(where));
        float* d = sums[part];
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
      }
    }
    __syncthreads();
  }
  for (int part = 0; part < 8; part++)
    for (int half = 0; half < 2; half++) {
      int at = (row + warp * 16 + lane / 4 + 8 * half) * n + column + part * 8 + lane % 4 * 2;
      *reinterpret_cast<float2*>(&c[at]) =
          make_float2(sums[part][2 * half], sums[part][2 * half + 1]);
    }
}

// Two blocks of a cluster read each other's shared memory.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128)
cluster_sums(const int* in, int* out) {
  __shared__ int own[128];
  auto cluster = groups::this_cluster();
  own[threadIdx.x] = in[blockIdx.x * 128 + threadIdx.x];
  cluster.sync();
  int* other = cluster.map_shared_rank(own, cluster.block_rank() ^ 1);
  out[blockIdx.x * 128 + threadIdx.x] = own[threadIdx.x] + 3 * other[127 - threadIdx.x];
  cluster.sync();
}
