"""CUDA's driver in C, whose one kernel adds two vectors: `cuda.h` and its library."""

from __future__ import annotations

DRIVER_HEADER = """
#pragma once
#include <stddef.h>
typedef int CUresult;
typedef unsigned long long CUdeviceptr;
typedef int CUdevice;
typedef struct context *CUcontext;
typedef struct module *CUmodule;
typedef struct function *CUfunction;
typedef struct stream *CUstream;
enum { CUDA_SUCCESS = 0 };
CUresult cuInit(unsigned);
CUresult cuDeviceGet(CUdevice *, int);
CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuModuleLoad(CUmodule *, const char *);
CUresult cuModuleGetFunction(CUfunction *, CUmodule, const char *);
CUresult cuMemAlloc(CUdeviceptr *, size_t);
CUresult cuMemcpyHtoD(CUdeviceptr, const void *, size_t);
CUresult cuMemcpyDtoH(void *, CUdeviceptr, size_t);
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, CUstream, void **, void **);
"""
DRIVER = """
#include "cuda.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
CUresult cuInit(unsigned flags) { return flags; }
CUresult cuDeviceGet(CUdevice *device, int number) { *device = number; return 0; }
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) { *c = 0; return d; }
CUresult cuCtxSetCurrent(CUcontext context) { return context != 0; }
CUresult cuModuleLoad(CUmodule *module, const char *path) {
  FILE *file = fopen(path, "rb");
  *module = 0;
  return file == 0 || fgetc(file) != 0x7f;
}
CUresult cuModuleGetFunction(CUfunction *f, CUmodule module, const char *name) {
  *f = 0;
  return module != 0 || strcmp(name, "vector_add") != 0;
}
CUresult cuMemAlloc(CUdeviceptr *p, size_t size) { *p = (CUdeviceptr)malloc(size); return 0; }
CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t size) {
  memcpy((void *)to, from, size);
  return 0;
}
CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t size) {
  memcpy(to, (void *)from, size);
  return 0;
}
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, CUstream stream, void **given,
                        void **extra) {
  float *a = *(float **)given[0], *b = *(float **)given[1], *c = *(float **)given[2];
  int n = *(int *)given[3];
  if (f || gx != 2 || gy != 1 || gz != 1 || bx * by * bz != BLOCK || shared || stream || extra)
    return 1;
  for (int i = 0; i < n; i++) c[i] = a[i] + b[i];
  return 0;
}
"""
