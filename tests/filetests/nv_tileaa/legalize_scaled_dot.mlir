// RUN: tileaa-legalize-scaled-dot --gpu-name=sm_120
// packs_f4_along_k
// CHECK: nv_tileaa.reshape %a : tensor<16x64xf4E2M1FN> -> tensor<1024xf4E2M1FN>
// CHECK-NEXT: nv_tileaa.pack
// CHECK-NEXT: nv_tileaa.reshape {{.*}} -> tensor<16x32xi8>
// CHECK-NEXT: nv_tileaa.permute %b {{.1, 0.}}
// CHECK: nv_tileaa.pack
// CHECK: nv_tileaa.permute {{.*}} -> tensor<32x8xi8>
// CHECK-NEXT: nv_tileaa.dot_scaled {{.*}} {packed}
builtin.module {
  nv_tileaa.func @nvf4(%a: tensor<16x64xf4E2M1FN>, %sa: tensor<16x4xf8E4M3FN>, %b: tensor<64x8xf4E2M1FN>, %sb: tensor<4x8xf8E4M3FN>, %c: tensor<16x8xf32>) {
    %d = nv_tileaa.dot_scaled %a by %sa, %b by %sb, %c : tensor<16x64xf4E2M1FN>, tensor<16x4xf8E4M3FN>, tensor<64x8xf4E2M1FN>, tensor<4x8xf8E4M3FN> -> tensor<16x8xf32>
    nv_tileaa.return
  }
}
// -----
// keeps_what_the_target_multiplies
// CHECK-NOT: nv_tileaa.fp_to_fp
// CHECK: nv_tileaa.dot_scaled %a by %sa, %b by %sb, %c : tensor<16x64xf8E4M3FN>
builtin.module {
  nv_tileaa.func @mxf8(%a: tensor<16x64xf8E4M3FN>, %sa: tensor<16x2xf8E8M0FNU>, %b: tensor<64x8xf8E4M3FN>, %sb: tensor<2x8xf8E8M0FNU>, %c: tensor<16x8xf32>) {
    %d = nv_tileaa.dot_scaled %a by %sa, %b by %sb, %c : tensor<16x64xf8E4M3FN>, tensor<16x2xf8E8M0FNU>, tensor<64x8xf8E4M3FN>, tensor<2x8xf8E8M0FNU> -> tensor<16x8xf32>
    nv_tileaa.return
  }
}
// -----
// takes_bytes_that_were_unpacked_as_they_were
// CHECK-NOT: nv_tileaa.unpack
// CHECK-NOT: nv_tileaa.pack
// CHECK: [[B:%.*]] = nv_tileaa.permute %b {{.1, 0.}} : tensor<8x32xi8> -> tensor<32x8xi8>
// CHECK-NEXT: nv_tileaa.dot_scaled %a by %sa, [[B]] by %sb, %c {packed}
builtin.module {
  nv_tileaa.func @bytes(%a: tensor<16x32xi8>, %sa: tensor<16x4xf8E4M3FN>, %b: tensor<8x32xi8>, %sb: tensor<4x8xf8E4M3FN>, %c: tensor<16x8xf32>) {
    %af = nv_tileaa.reshape %a : tensor<16x32xi8> -> tensor<512xi8>
    %au = nv_tileaa.unpack %af : tensor<512xi8> -> tensor<1024xf4E2M1FN>
    %a4 = nv_tileaa.reshape %au : tensor<1024xf4E2M1FN> -> tensor<16x64xf4E2M1FN>
    %bf = nv_tileaa.reshape %b : tensor<8x32xi8> -> tensor<256xi8>
    %bu = nv_tileaa.unpack %bf : tensor<256xi8> -> tensor<512xf4E2M1FN>
    %bt = nv_tileaa.reshape %bu : tensor<512xf4E2M1FN> -> tensor<8x64xf4E2M1FN>
    %b4 = nv_tileaa.permute %bt [1, 0] : tensor<8x64xf4E2M1FN> -> tensor<64x8xf4E2M1FN>
    %d = nv_tileaa.dot_scaled %a4 by %sa, %b4 by %sb, %c : tensor<16x64xf4E2M1FN>, tensor<16x4xf8E4M3FN>, tensor<64x8xf4E2M1FN>, tensor<4x8xf8E4M3FN> -> tensor<16x8xf32>
    nv_tileaa.return
  }
}
// -----
// multiplies_scales_in_where_a_block_has_16_and_scales_are_ue8m0
// CHECK-NOT: nv_tileaa.dot_scaled
// CHECK: nv_tileaa.mulf
// CHECK: nv_tileaa.dot {{.*}} tensor<16x64xbf16>, tensor<64x8xbf16> -> tensor<16x8xf32>
builtin.module {
  nv_tileaa.func @blocks_of_16(%a: tensor<16x64xf4E2M1FN>, %sa: tensor<16x4xf8E8M0FNU>, %b: tensor<64x8xf4E2M1FN>, %sb: tensor<4x8xf8E8M0FNU>, %c: tensor<16x8xf32>) {
    %d = nv_tileaa.dot_scaled %a by %sa, %b by %sb, %c : tensor<16x64xf4E2M1FN>, tensor<16x4xf8E8M0FNU>, tensor<64x8xf4E2M1FN>, tensor<4x8xf8E8M0FNU> -> tensor<16x8xf32>
    nv_tileaa.return
  }
}
// -----
// rejects_a_scale_too_many
builtin.module {
  nv_tileaa.func @scales(%a: tensor<16x64xf8E4M3FN>, %sa: tensor<16x4xf8E8M0FNU>, %b: tensor<64x8xf8E4M3FN>, %sb: tensor<4x8xf8E8M0FNU>, %c: tensor<16x8xf32>) {
    // expected-error@+1 {{64 of them for 4 scales of f8E8M0FNU, expected a block of 32}}
    %d = nv_tileaa.dot_scaled %a by %sa, %b by %sb, %c : tensor<16x64xf8E4M3FN>, tensor<16x4xf8E8M0FNU>, tensor<64x8xf8E4M3FN>, tensor<4x8xf8E8M0FNU> -> tensor<16x8xf32>
    nv_tileaa.return
  }
}
// -----
// rejects_scales_of_another_shape
builtin.module {
  nv_tileaa.func @shapes(%a: tensor<16x64xf8E4M3FN>, %sa: tensor<16x2xf8E8M0FNU>, %b: tensor<64x8xf8E4M3FN>, %sb: tensor<8x2xf8E8M0FNU>, %c: tensor<16x8xf32>) {
    // expected-error@+1 {{rhs_scale has shape [8, 2], expected [2, 8]}}
    %d = nv_tileaa.dot_scaled %a by %sa, %b by %sb, %c : tensor<16x64xf8E4M3FN>, tensor<16x2xf8E8M0FNU>, tensor<64x8xf8E4M3FN>, tensor<8x2xf8E8M0FNU> -> tensor<16x8xf32>
    nv_tileaa.return
  }
}
// -----
// rejects_scales_of_two_types
builtin.module {
  nv_tileaa.func @types(%a: tensor<16x64xf8E4M3FN>, %sa: tensor<16x2xf8E8M0FNU>, %b: tensor<64x8xf8E4M3FN>, %sb: tensor<2x8xf8E4M3FN>, %c: tensor<16x8xf32>) {
    // expected-error@+1 {{scales have different element types, expected one}}
    %d = nv_tileaa.dot_scaled %a by %sa, %b by %sb, %c : tensor<16x64xf8E4M3FN>, tensor<16x2xf8E8M0FNU>, tensor<64x8xf8E4M3FN>, tensor<2x8xf8E4M3FN> -> tensor<16x8xf32>
    nv_tileaa.return
  }
}
// -----
// rejects_packed_operands_that_are_no_bytes
builtin.module {
  nv_tileaa.func @packed(%a: tensor<16x64xf8E4M3FN>, %sa: tensor<16x2xf8E8M0FNU>, %b: tensor<64x8xf8E4M3FN>, %sb: tensor<2x8xf8E8M0FNU>, %c: tensor<16x8xf32>) {
    // expected-error@+1 {{lhs has type tensor<16x64xf8E4M3FN>, expected i8 in a packed product}}
    %d = nv_tileaa.dot_scaled %a by %sa, %b by %sb, %c {packed} : tensor<16x64xf8E4M3FN>, tensor<16x2xf8E8M0FNU>, tensor<64x8xf8E4M3FN>, tensor<2x8xf8E8M0FNU> -> tensor<16x8xf32>
    nv_tileaa.return
  }
}
// -----
// rejects_an_accumulator_that_is_not_f32
builtin.module {
  nv_tileaa.func @sums(%a: tensor<16x64xf8E4M3FN>, %sa: tensor<16x2xf8E8M0FNU>, %b: tensor<64x8xf8E4M3FN>, %sb: tensor<2x8xf8E8M0FNU>, %c: tensor<16x8xf16>) {
    // expected-error@+1 {{acc tensor<16x8xf16> gives tensor<16x8xf16>, expected f32}}
    %d = nv_tileaa.dot_scaled %a by %sa, %b by %sb, %c : tensor<16x64xf8E4M3FN>, tensor<16x2xf8E8M0FNU>, tensor<64x8xf8E4M3FN>, tensor<2x8xf8E8M0FNU> -> tensor<16x8xf16>
    nv_tileaa.return
  }
}
