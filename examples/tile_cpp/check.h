// What the examples' host code shares: device memory that frees itself, and one line of result.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

// Ends the program where a call of the runtime failed.
inline void check(cudaError_t status, const char *what) {
  if (status == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(status));
  std::exit(2);
}

// A device copy of a host vector.
template <typename T> class DeviceArray {
public:
  explicit DeviceArray(const std::vector<T> &host) : size_(host.size() * sizeof(T)) {
    check(cudaMalloc(&data_, size_), "cudaMalloc");
    check(cudaMemcpy(data_, host.data(), size_, cudaMemcpyHostToDevice), "copy to the device");
  }
  DeviceArray(const DeviceArray &) = delete;
  DeviceArray &operator=(const DeviceArray &) = delete;
  ~DeviceArray() { cudaFree(data_); }

  T *get() const { return static_cast<T *>(data_); }

  // Waits for the kernels in flight and copies back.
  std::vector<T> download() const {
    std::vector<T> host(size_ / sizeof(T));
    check(cudaGetLastError(), "launch");
    check(cudaMemcpy(host.data(), data_, size_, cudaMemcpyDeviceToHost), "copy to the host");
    return host;
  }

private:
  std::size_t size_;
  void *data_ = nullptr;
};

// A number in [-1, 1), the same on every machine.
inline float random_number(unsigned &state) {
  state = state * 1664525u + 1013904223u;
  return static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
}

// Prints how far the result is off; the exit status of the program.
inline int report(const char *name, double worst, double bound) {
  const bool good = worst <= bound;  // false for a NaN
  const char *verdict = good ? "ok" : "WRONG";
  std::printf("%s: largest error %.3g, allowed %.3g: %s\n", name, worst, bound, verdict);
  return good ? 0 : 1;
}
