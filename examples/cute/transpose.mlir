// B := A transposed, 32 x 32, through shared memory whose swizzle keeps columns free of bank
// conflicts. Parameters: A, B.
cute.func @transpose(%A: !cute.tensor<f32, gmem, align<16>, (32,32):(32,1)>, %B: !cute.tensor<f32, gmem, align<16>, (32,32):(32,1)>) threads 32 {
  %tid = cute.thread_idx<0>()
  %S = cute.alloc() -> !cute.tensor<f32, smem, align<128>, S<5,0,5> o 0 o (32,32):(32,1)>
  %rows = cute.make_coord(%tid) -> !cute.coord<(_,?)>
  %a = cute.slice(%rows, %A)
  %s = cute.slice(%rows, %S)
  %word = cute.static() -> !cute.copy_atom<universal, 32>
  cute.copy(%word, %a, %s)
  cute.sync_threads()
  %T = cute.select<1,0>(%S)
  %t = cute.slice(%rows, %T)
  %b = cute.slice(%rows, %B)
  cute.copy(%word, %t, %b)
  cute.return
}
