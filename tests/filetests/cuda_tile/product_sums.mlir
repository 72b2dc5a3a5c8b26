// RUN: canonicalize --verify-each

cuda_tile.module @m {
  // CHECK-LABEL: entry @adds_to_what_a_loop_carries(
  entry @adds_to_what_a_loop_carries(%n: tile<i32>, %p: tile<ptr<f16>>) {
    %zero = constant <f32: 0.0> : tile<16x16xf32>
    %from = constant <i32: 0> : tile<i32>
    %step = constant <i32: 1> : tile<i32>
    %q = reshape %p : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %at = broadcast %q : tile<1x1xptr<f16>> -> tile<16x16xptr<f16>>
    // CHECK: iter_values(%[[ACC:.*]] =
    %sum = for %i in (%from to %n, step %step) : tile<i32> iter_values(%acc = %zero) -> (tile<16x16xf32>) {
      %a, %t = load_ptr_tko weak %at : tile<16x16xptr<f16>> -> tile<16x16xf16>, token
      // CHECK: %[[NEXT:.*]] = mmaf %{{.*}}, %{{.*}}, %[[ACC]]
      // CHECK-NEXT: continue %[[NEXT]]
      %d = mmaf %a, %a, %zero : tile<16x16xf16>, tile<16x16xf16>, tile<16x16xf32>
      %next = addf %acc, %d : tile<16x16xf32>
      continue %next : tile<16x16xf32>
    }
    print_tko "%f", %sum : tile<16x16xf32> -> token
    return
  }
}
// -----
cuda_tile.module @m {
  // CHECK-LABEL: entry @adds_integers_to_another_product(
  entry @adds_integers_to_another_product(%x: tile<i8>, %y: tile<i8>) {
    %zero = constant <i32: 0> : tile<16x16xi32>
    %v = reshape %x : tile<i8> -> tile<1x1xi8>
    %w = reshape %y : tile<i8> -> tile<1x1xi8>
    %a = broadcast %v : tile<1x1xi8> -> tile<16x16xi8>
    %b = broadcast %w : tile<1x1xi8> -> tile<16x16xi8>
    // CHECK: %[[FIRST:.*]] = mmai
    // CHECK: mmai %{{.*}}, %{{.*}}, %[[FIRST]]
    // CHECK-NOT: addi
    %d = mmai %a, %b, %zero signed signed : tile<16x16xi8>, tile<16x16xi8>, tile<16x16xi32>
    %e = mmai %b, %a, %zero signed signed : tile<16x16xi8>, tile<16x16xi8>, tile<16x16xi32>
    %sum = addi %d, %e : tile<16x16xi32>
    print_tko "%d", %sum : tile<16x16xi32> -> token
    return
  }
}
// -----
cuda_tile.module @m {
  // What all batches share has an eighth of their elements: it is negated before it is copied.
  // CHECK-LABEL: entry @subtracts_where_few_elements_are_negated(
  entry @subtracts_where_few_elements_are_negated() {
    %zero = constant <f32: 0.0> : tile<8x16x16xf32>
    %i = iota : tile<2048xi32>
    %j = iota : tile<256xi32>
    %f = itof %i signed : tile<2048xi32> -> tile<2048xf32>
    %g = itof %j signed : tile<256xi32> -> tile<256xf32>
    %x = reshape %f : tile<2048xf32> -> tile<8x16x16xf32>
    // CHECK: %[[MINUS:.*]] = negf %{{.*}} : tile<1x16x16xf32>
    // CHECK: %[[ALL:.*]] = broadcast %[[MINUS]]
    %w = reshape %g : tile<256xf32> -> tile<1x16x16xf32>
    %ws = broadcast %w : tile<1x16x16xf32> -> tile<8x16x16xf32>
    // CHECK: %[[FIRST:.*]] = mmaf
    // CHECK: mmaf %[[ALL]], %{{.*}}, %[[FIRST]]
    // CHECK-NOT: subf
    %d = mmaf %ws, %x, %zero : tile<8x16x16xf32>, tile<8x16x16xf32>, tile<8x16x16xf32>
    %e = mmaf %ws, %x, %zero : tile<8x16x16xf32>, tile<8x16x16xf32>, tile<8x16x16xf32>
    %r = subf %d, %e : tile<8x16x16xf32>
    print_tko "%f", %r : tile<8x16x16xf32> -> token
    return
  }
}
// -----
cuda_tile.module @m {
  // CHECK-LABEL: entry @leaves_large_operands_as_they_are(
  entry @leaves_large_operands_as_they_are() {
    %zero = constant <f32: 0.0> : tile<16x16xf32>
    %j = iota : tile<256xi32>
    %g = itof %j signed : tile<256xi32> -> tile<256xf32>
    %w = reshape %g : tile<256xf32> -> tile<16x16xf32>
    // CHECK-NOT: negf
    // CHECK: subf
    %d = mmaf %w, %w, %zero : tile<16x16xf32>, tile<16x16xf32>, tile<16x16xf32>
    %e = mmaf %w, %w, %zero : tile<16x16xf32>, tile<16x16xf32>, tile<16x16xf32>
    %r = subf %d, %e : tile<16x16xf32>
    print_tko "%f", %r : tile<16x16xf32> -> token
    return
  }
}
// -----
cuda_tile.module @m {
  // The sum is read twice; a tile that is no sum may come late; a product may add up cheaply.
  // CHECK-LABEL: entry @leaves_other_sums(
  entry @leaves_other_sums(%p: tile<ptr<f32>>) {
    %zero = constant <f32: 0.0> : tile<16x16xf32>
    %j = iota : tile<256xi32>
    %g = itof %j signed : tile<256xi32> -> tile<256xf32>
    %w = reshape %g : tile<256xf32> -> tile<16x16xf32>
    %q = reshape %p : tile<ptr<f32>> -> tile<1x1xptr<f32>>
    %at = broadcast %q : tile<1x1xptr<f32>> -> tile<16x16xptr<f32>>
    %x, %t = load_ptr_tko weak %at : tile<16x16xptr<f32>> -> tile<16x16xf32>, token
    // CHECK: addf
    %d = mmaf %w, %w, %zero : tile<16x16xf32>, tile<16x16xf32>, tile<16x16xf32>
    %r = addf %d, %x : tile<16x16xf32>
    // CHECK: addf
    %e = mmaf %w, %w, %zero : tile<16x16xf32>, tile<16x16xf32>, tile<16x16xf32>
    %s = addf %e, %e : tile<16x16xf32>
    // CHECK: addf
    %f8 = ftof %w rounding<nearest_even> : tile<16x16xf32> -> tile<16x16xf8E4M3FN>
    %h = mmaf %f8, %f8, %zero fast_acc : tile<16x16xf8E4M3FN>, tile<16x16xf8E4M3FN>, tile<16x16xf32>
    %k = mmaf %f8, %f8, %zero fast_acc : tile<16x16xf8E4M3FN>, tile<16x16xf8E4M3FN>, tile<16x16xf32>
    %u = addf %h, %k : tile<16x16xf32>
    print_tko "%f %f %f", %r, %s, %u : tile<16x16xf32>, tile<16x16xf32>, tile<16x16xf32> -> token
    return
  }
}
