/* Launches scale_rows on a GPU: two tile blocks of 64 columns, three rows of ones.
 *
 *   nvcc host.c -lcuda -o host && ./host k.cubin 1        prints "result 9"
 *
 * The number is that of threads in a block: 1, or all of them where the cubin is made with
 * --launch=explicit.
 */

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 3, COLUMNS = 128, TILE = 64 };

#define CHECK(call)                                           \
  do {                                                        \
    CUresult status = (call);                                 \
    if (status != CUDA_SUCCESS) {                             \
      fprintf(stderr, "%s failed: %d\n", #call, (int)status); \
      return 1;                                               \
    }                                                         \
  } while (0)

static const char *NAME = "scale_rows_Kt1_A2f32_1v4l0_2t1_p16_A1f32_1t1_p16_Si32_Sf32_I64";

int main(int argc, char **argv) {
  static float x[ROWS * COLUMNS], y[COLUMNS];
  CUdeviceptr on_gpu_x, on_gpu_y;
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction kernel;
  int rows = ROWS, columns = COLUMNS, one = 1, n = ROWS;
  float factor = 1.5f;
  if (argc != 3) {
    fprintf(stderr, "usage: %s CUBIN THREADS\n", argv[0]);
    return 1;
  }
  unsigned threads = (unsigned)atoi(argv[2]);
  for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = 1.0f;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuModuleLoad(&module, argv[1]));
  CHECK(cuModuleGetFunction(&kernel, module, NAME));
  CHECK(cuMemAlloc(&on_gpu_x, sizeof x));
  CHECK(cuMemAlloc(&on_gpu_y, sizeof y));
  CHECK(cuMemcpyHtoD(on_gpu_x, x, sizeof x));
  CHECK(cuMemsetD8(on_gpu_y, 0, sizeof y));
  void *arguments[] = {&on_gpu_x, &rows, &columns, &columns, &one,
                       &on_gpu_y, &columns, &one, &n, &factor};
  CHECK(cuLaunchKernel(kernel, COLUMNS / TILE, 1, 1, threads, 1, 1, 0, 0, arguments, 0));
  CHECK(cuCtxSynchronize());
  CHECK(cuMemcpyDtoH(y, on_gpu_y, sizeof y));
  printf("result %g\n", y[0]);
  return 0;
}
