// RUN: cute-fold
// A layout that is computed from numbers is a layout; what only led to it is gone.
// CHECK: cute.func @folds
// CHECK-NOT: make_layout
// CHECK-NOT: logical_divide
// CHECK: %parts = cute.static() : () -> !cute.layout<((32,1),(8,4)),((32,0),(1,8))>
// CHECK-NEXT: cute.make_tensor(%p, %parts)
cute.func @folds(%p: !cute.ptr<f32, gmem, align<16>>) threads 32 {
  %tid = cute.thread_idx<0>()
  %shape = cute.static() -> !cute.shape<(32,32)>
  %stride = cute.static() -> !cute.stride<(32,1)>
  %whole = cute.make_layout(%shape, %stride)
  %tile = cute.static() -> !cute.tile<[32:1;8:1]>
  %parts = cute.logical_divide(%whole, %tile)
  %size = cute.size(%parts)
  %X = cute.make_tensor(%p, %parts)
  %at = cute.make_coord(%tid) -> !cute.coord<(?,(0,0))>
  %one = cute.constant 1.0 : f32
  cute.store(%one, %X, %at)
  cute.return
}
// -----
// What depends on the thread stays, and so does what acts.
// CHECK: cute.thread_idx
// CHECK: cute.sync_threads
// CHECK: cute.store
cute.func @stays(%Y: !cute.tensor<f32, gmem, align<16>, 32:1>) threads 32 {
  %tid = cute.thread_idx<0>() : () -> !cute.int<?>
  %one = cute.constant 1.0 : f32
  cute.sync_threads() : () -> ()
  cute.store(%one, %Y, %tid) : (f32, !cute.tensor<f32, gmem, align<16>, 32:1>, !cute.int<?>) -> ()
  cute.return
}
