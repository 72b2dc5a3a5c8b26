/* Adds two vectors on the GPU, by the kernel of examples/vector_add.mlir.
 *
 *   tileiras vector_add.mlir --gpu-name=sm_90 --emit-launch-info=k.json -o k.cubin
 *   python -m tileiras.c_launcher k.json -o vector_add.h
 *   cc main.c -I. -lcuda -o main && ./main k.cubin
 */

#include "vector_add.h"

#include <stdio.h>

enum { COUNT = 1500, TILE = 1024 };

#define CHECK(call)                                         \
  do {                                                      \
    CUresult status = (call);                               \
    if (status != CUDA_SUCCESS) {                           \
      fprintf(stderr, "%s failed: %d\n", #call, (int)status); \
      return 1;                                             \
    }                                                       \
  } while (0)

int main(int argc, char **argv) {
  static float a[COUNT], b[COUNT], sums[COUNT];
  CUdeviceptr memory[3];
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction kernel;
  if (argc != 2) {
    fprintf(stderr, "usage: %s CUBIN\n", argv[0]);
    return 1;
  }
  for (int i = 0; i < COUNT; i++) {
    a[i] = (float)i;
    b[i] = 1.0f;
  }
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuModuleLoad(&module, argv[1]));
  CHECK(cuModuleGetFunction(&kernel, module, "vector_add"));
  for (int i = 0; i < 3; i++) CHECK(cuMemAlloc(&memory[i], sizeof a));
  CHECK(cuMemcpyHtoD(memory[0], a, sizeof a));
  CHECK(cuMemcpyHtoD(memory[1], b, sizeof b));
  CHECK(vector_add(kernel, (COUNT + TILE - 1) / TILE, 1, 1, 0, memory[0], memory[1], memory[2],
                   COUNT));
  CHECK(cuMemcpyDtoH(sums, memory[2], sizeof sums));
  for (int i = 0; i < COUNT; i++) {
    if (sums[i] != a[i] + b[i]) {
      fprintf(stderr, "element %d is %g\n", i, sums[i]);
      return 1;
    }
  }
  printf("%d sums are right\n", COUNT);
  return 0;
}
