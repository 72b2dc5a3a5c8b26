// y := alpha * x + y, 512 elements a CTA. Parameters: x, its size, y, its size, alpha.
// tileiras saxpy.mlir --gpu-name sm_90 -o saxpy.cubin
cute.func @saxpy(%x: !cute.tensor<f32, gmem, align<16>, (?{div=512}):(1)>,
                 %y: !cute.tensor<f32, gmem, align<16>, (?{div=512}):(1)>,
                 %alpha: f32) threads 128 {
  %tid = cute.thread_idx<0>()
  %bid = cute.block_idx<0>()
  %atom = cute.static() -> !cute.copy_atom<universal, 128>
  %threads = cute.static() -> !cute.layout<128,1>
  %values = cute.static() -> !cute.layout<4,1>
  %copy = cute.make_tiled_copy(%atom, %threads, %values)
  %tile = cute.static() -> !cute.tile<[512:1]>
  %block = cute.make_coord(%bid) -> !cute.coord<(?)>
  %bx = cute.local_tile(%x, %tile, %block)
  %by = cute.local_tile(%y, %tile, %block)
  %tx = cute.partition_s(%copy, %bx, %tid)
  %ty = cute.partition_d(%copy, %by, %tid)
  %rx = cute.make_fragment_like(%tx)
  %ry = cute.make_fragment_like(%ty)
  cute.copy(%copy, %tx, %rx)
  cute.copy(%copy, %ty, %ry)
  %one = cute.constant 1.0 : f32
  cute.axpby(%alpha, %rx, %one, %ry)
  cute.copy(%copy, %ry, %ty)
  cute.return
}
