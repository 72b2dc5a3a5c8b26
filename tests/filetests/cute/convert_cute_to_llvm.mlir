// RUN: cute-fold,convert-cute-to-llvm --emit=llvm-dialect
// A thread copies what is its own: an offset that depends on the thread's number.
// CHECK: llvm.func @copies(%arg0: i64, %arg1: i64)
// CHECK-NOT: cute
// CHECK: nvvm.read_sreg tid.x
// CHECK: llvm.load
// CHECK: llvm.store
cute.func @copies(%X: !cute.tensor<f32, gmem, align<16>, 128:1>, %Y: !cute.tensor<f32, gmem, align<16>, 128:1>) threads 32 {
  %tid = cute.thread_idx<0>()
  %atom = cute.static() -> !cute.copy_atom<universal, 128>
  %threads = cute.static() -> !cute.layout<32,1>
  %values = cute.static() -> !cute.layout<4,1>
  %copy = cute.make_tiled_copy(%atom, %threads, %values)
  %x = cute.partition_s(%copy, %X, %tid)
  %y = cute.partition_d(%copy, %Y, %tid)
  %r = cute.make_fragment_like(%x)
  cute.copy(%copy, %x, %r)
  cute.copy(%copy, %r, %y)
  cute.return
}
