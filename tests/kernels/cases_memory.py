"""What verifies and what does not: memory, views, atomics, tokens."""

from __future__ import annotations

from tests.kernels.cuda_tile_text import PARTITION_VIEW, TENSOR_VIEW

PV, T, P = PARTITION_VIEW, "tile<4x8xf32>", "tile<8xptr<f32>>"
GATHER = f"gather_scatter_view<tile=(4x8), {TENSOR_VIEW}, sparse_dim=0>"
STRIDED = f"strided_view<tile=(4x8), traversal_strides=[2,8], {TENSOR_VIEW}>"
MULTICAST = "tensor_view<16xf32, strides=[1], #cuda_tile.ptr_attr<multicast>>"
MULTICAST_VIEW = f"partition_view<tile=(8), {MULTICAST}>"
MULTICAST_SETUP = (
    "%mi = constant <i64: 0> : tile<i64>\n"
    "%mp = int_to_ptr %mi : tile<i64> -> tile<ptr<f32, <multicast>>>\n"
    f"%mt = make_tensor_view %mp, shape = [16], strides = [1] : {MULTICAST}\n"
    f"%mv = make_partition_view %mt : {MULTICAST_VIEW}\n"
)

ACCEPTED: dict[str, tuple[str, ...]] = {
    "make_tensor_view": (
        "%0 = make_tensor_view %p_f32, shape = [4, %v_i32], strides = [%v_i32, 1] : "
        "tile<i32> -> tensor_view<4x?xf32, strides=[?,1]>",
        "%0 = make_tensor_view %p_f32 : tensor_view<f32>",
    ),
    "make_partition_view": (f"%0 = make_partition_view %tv : {PV}",),
    "make_strided_view": (f"%0 = make_strided_view %tv : {STRIDED}",),
    "make_gather_scatter_view": (f"%0 = make_gather_scatter_view %tv : {GATHER}",),
    "get_index_space_shape": (f"%0:2 = get_index_space_shape %pv : {PV} -> tile<i64>",),
    "get_tensor_shape": (f"%0:2 = get_tensor_shape %tv : {TENSOR_VIEW} -> tile<i32>",),
    "load_view_tko": (
        f"%0, %1 = load_view_tko weak %pv[%v_i32, %v_i32] token = %tok "
        f"optimization_hints = <sm_90 = {{latency = 2}}> inbounds = [true, false] : "
        f"{PV}, tile<i32> -> {T}, token",
        f"%g = make_gather_scatter_view %tv : {GATHER}\n"
        f"%0, %1 = load_view_tko acquire device %g[%v_4_i32, %v_i64] : "
        f"{GATHER}, tile<4xi32>, tile<i64> -> {T}, token",
    ),
    "store_view_tko": (
        f"%0 = store_view_tko release sys %v_4x8_f32, %pv[%v_i32, %v_i32] : "
        f"{T}, {PV}, tile<i32> -> token",
    ),
    "load_ptr_tko": (
        f"%0, %1 = load_ptr_tko weak %p_8_f32, %v_8_i1, %v_8_f32 token=%tok : "
        f"{P}, tile<8xi1>, tile<8xf32> -> tile<8xf32>, token",
        f"%0, %1 = load_ptr_tko relaxed device %p_8_f32, %v_8_f32 : "
        f"{P}, tile<8xf32> -> tile<8xf32>, token",
    ),
    "store_ptr_tko": (
        f"%0 = store_ptr_tko weak %p_8_f32, %v_8_f32, %v_8_i1 token=%tok : "
        f"{P}, tile<8xf32>, tile<8xi1> -> token",
    ),
    "make_token": ("%0 = make_token : token",),
    "join_tokens": ("%0 = join_tokens %tok, %tok : token",),
    "memory_fence_alias_tko": ("%0 = memory_fence_alias_tko %tok",),
    "gdc_launch_dependents_tko": ("%0 = gdc_launch_dependents_tko -> token",),
    "gdc_wait_tko": ("%0 = gdc_wait_tko token = %tok -> token",),
    "print_tko": (
        '%0 = print_tko "%d%% of %+5.2f\\0A", %v_i32, %v_8_f32 token=%tok : '
        "tile<i32>, tile<8xf32> -> token",
        '%0 = print_tko "plain" -> token',
    ),
    "assert": ('assert %v_8_i1, "must hold" : tile<8xi1>',),
    "atomic_cas_tko": (
        "%0, %1 = atomic_cas_tko acq_rel device %p_8_f32, %v_8_f32, %v_8_f32, %v_8_i1 "
        "token=%tok : "
        f"{P}, tile<8xf32>, tile<8xi1> -> tile<8xf32>, token",
    ),
    "atomic_rmw_tko": (
        "%0, %1 = atomic_rmw_tko relaxed tl_blk %p_8_f16, addf, %v_8_f16 : "
        "tile<8xptr<f16>>, tile<8xf16> -> tile<8xf16>, token",
        "%0, %1 = atomic_rmw_tko acquire sys %p_8_i64, umax, %v_8_i64, %v_8_i1 token=%tok : "
        "tile<8xptr<i64>>, tile<8xi64>, tile<8xi1> -> tile<8xi64>, token",
    ),
    "atomic_red_view_tko": (
        "%0 = atomic_red_view_tko relaxed device %pv[%v_i32, %v_i32], addf, "
        "%v_4x8_f32 token = %tok : "
        f"{T}, {PV}, tile<i32> -> token",
    ),
    "multimem_load_reduce_view_tko": (
        MULTICAST_SETUP + "%0, %1 = multimem_load_reduce_view_tko weak %mv[%v_i32] : "
        f"{MULTICAST_VIEW}, tile<i32> -> tile<8xf32>, token",
    ),
    "multimem_reduce_view_tko": (
        MULTICAST_SETUP + "%0 = multimem_reduce_view_tko relaxed device %mv, %v_8_f32[%v_i32] : "
        f"{MULTICAST_VIEW}, tile<8xf32>, tile<i32> -> token",
    ),
    "multimem_store_view_tko": (
        MULTICAST_SETUP + "%0 = multimem_store_view_tko weak %mv, %v_8_f32[%v_i32] token = %tok : "
        f"{MULTICAST_VIEW}, tile<8xf32>, tile<i32>, token -> token",
    ),
}

REJECTED: tuple[tuple[str, str, str], ...] = (
    (
        "make_tensor_view",
        "%0 = make_tensor_view %p_f32, shape = [4], strides = [1] : "
        "tensor_view<4xf16, strides=[1]>",
        "base points to f32, expected f16",
    ),
    (
        "make_tensor_view",
        "%0 = make_tensor_view %p_8_f32, shape = [4], strides = [1] : "
        "tensor_view<4xf32, strides=[1]>",
        "operand #0 must be 0D tile of Pointer type values, but got '!cuda_tile.tile<8xptr<f32>>'",
    ),
    (
        "make_partition_view",
        "%t = make_tensor_view %p_f32, shape = [4], strides = [1] : "
        "tensor_view<4xf32, strides=[1]>\n"
        "%0 = make_partition_view %t : partition_view<tile=(2), tensor_view<8xf32, strides=[1]>>",
        "'!cuda_tile.tensor_view<8xf32, strides=[1]>' vs '!cuda_tile.tensor_view<4xf32",
    ),
    (
        "make_strided_view",
        f"%0 = make_strided_view %tv : {PV}",
        "expected a strided_view",
    ),
    (
        "make_gather_scatter_view",
        f"%0 = make_gather_scatter_view %tv : {STRIDED}",
        "expected a gather_scatter_view",
    ),
    (
        "get_index_space_shape",
        f"%0:2 = get_index_space_shape %pv : {PV} -> tile<f32>",
        "result #0 must be 0D tile of i1 or i8 or i16 or i32 or i64 values",
    ),
    (
        "get_tensor_shape",
        f"%0:2 = get_tensor_shape %tv : {TENSOR_VIEW} -> tile<2xi32>",
        "result #0 must be 0D tile of i1 or i8 or i16 or i32 or i64 values",
    ),
    (
        "load_view_tko",
        f"%0, %1 = load_view_tko weak %pv[%v_i32] : {PV}, tile<i32> -> {T}, token",
        "has 1 indices, expected 2 (the rank of the view)",
    ),
    (
        "load_view_tko",
        f"%0, %1 = load_view_tko weak %pv[%v_i32, %v_i64] : {PV}, tile<i32>, tile<i64> "
        f"-> {T}, token",
        "index 1 has type tile<i64>, expected tile<i32>",
    ),
    (
        "load_view_tko",
        f"%0, %1 = load_view_tko weak device %pv[%v_i32, %v_i32] : {PV}, tile<i32> -> {T}, token",
        "has memory scope device with ordering weak, expected no scope",
    ),
    (
        "load_view_tko",
        f"%0, %1 = load_view_tko release device %pv[%v_i32, %v_i32] : {PV}, tile<i32> "
        f"-> {T}, token",
        "has memory ordering release, expected weak, relaxed or acquire",
    ),
    (
        "load_view_tko",
        f"%0, %1 = load_view_tko weak %pv[%v_i32, %v_i32] : {PV}, tile<i32> -> "
        "tile<4x4xf32>, token",
        "result has type tile<4x4xf32>, expected tile<4x8xf32> (the tile of the view)",
    ),
    (
        "load_view_tko",
        f"%0, %1 = load_view_tko weak %pv[%v_i32, %v_i32] inbounds = [true] : "
        f"{PV}, tile<i32> -> {T}, token",
        "inbounds has 1 elements, expected 2 (the rank of the view)",
    ),
    (
        "store_view_tko",
        f"%0 = store_view_tko acquire sys %v_4x8_f32, %pv[%v_i32, %v_i32] : "
        f"{T}, {PV}, tile<i32> -> token",
        "has memory ordering acquire, expected weak, relaxed or release",
    ),
    (
        "load_ptr_tko",
        f"%0, %1 = load_ptr_tko relaxed %p_8_f32 : {P} -> tile<8xf32>, token",
        "has no memory scope with ordering relaxed, expected one",
    ),
    (
        "load_ptr_tko",
        f"%0, %1 = load_ptr_tko weak %p_8_f32 : {P} -> tile<8xf16>, token",
        "source points to f32, expected f16",
    ),
    (
        "load_ptr_tko",
        f"%0, %1 = load_ptr_tko weak %p_8_f32, %v_4_i1 : {P}, tile<4xi1> -> tile<8xf32>, token",
        "failed to verify that all of {mask, pointers} have same shape, but got [4] and [8]",
    ),
    (
        "store_ptr_tko",
        f"%0 = store_ptr_tko weak %p_8_f32, %v_4_f32 : {P}, tile<4xf32> -> token",
        "failed to verify that all of {destination, value} have same shape, but got [8] and [4]",
    ),
    ("make_token", "%0 = make_token : tile<i32>", "result #0 must be cuda tile token type"),
    ("join_tokens", "%0 = join_tokens %tok : token", "has 1 operands, expected at least 2"),
    (
        "memory_fence_alias_tko",
        "%0 = memory_fence_alias_tko %v_i32",
        "operand #0 must be cuda tile token type, but got '!cuda_tile.tile<i32>'",
    ),
    (
        "gdc_launch_dependents_tko",
        "%0 = gdc_launch_dependents_tko -> tile<i32>",
        "result #0 must be cuda tile token type, but got '!cuda_tile.tile<i32>'",
    ),
    (
        "gdc_wait_tko",
        "%0 = gdc_wait_tko token = %v_i32 -> token",
        "operand #0 must be cuda tile token type, but got '!cuda_tile.tile<i32>'",
    ),
    (
        "print_tko",
        '%0 = print_tko "100%" -> token',
        "format '100%' ends inside a conversion",
    ),
    (
        "load_view_tko",
        MULTICAST_SETUP + "%0, %1 = load_view_tko weak %mv[%v_i32] : "
        f"{MULTICAST_VIEW}, tile<i32> -> tile<8xf32>, token",
        "view has ptr_attr multicast, expected unicast or none",
    ),
    (
        "load_ptr_tko",
        MULTICAST_SETUP + "%0, %1 = load_ptr_tko weak %mp : "
        "tile<ptr<f32, <multicast>>> -> tile<f32>, token",
        "source has ptr_attr multicast, expected unicast or none",
    ),
    (
        "store_ptr_tko",
        MULTICAST_SETUP + "%0 = store_ptr_tko weak %mp, %v_f32 : "
        "tile<ptr<f32, <multicast>>>, tile<f32> -> token",
        "destination has ptr_attr multicast, expected unicast or none",
    ),
    (
        "atomic_rmw_tko",
        MULTICAST_SETUP + "%0, %1 = atomic_rmw_tko relaxed device %mp, addf, %v_f32 : "
        "tile<ptr<f32, <multicast>>>, tile<f32> -> tile<f32>, token",
        "pointers has ptr_attr multicast, expected unicast or none",
    ),
    (
        "make_tensor_view",
        "%0 = make_tensor_view %p_f32, shape = [4], strides = [1] : "
        "tensor_view<4xf32, strides=[1], #cuda_tile.ptr_attr<none>>",
        "base has ptr_attr absent, expected none (as the tensor_view)",
    ),
    (
        "print_tko",
        '%0 = print_tko "%d %d%%", %v_i32 : tile<i32> -> token',
        "has 1 operands, expected 2 (the format's)",
    ),
    (
        "assert",
        'assert %v_8_i32, "must hold" : tile<8xi32>',
        "operand #0 must be tile of i1 values, but got '!cuda_tile.tile<8xi32>'",
    ),
    (
        "atomic_cas_tko",
        "%0, %1 = atomic_cas_tko relaxed device %p_8_i16, %v_8_i16, %v_8_i16 : "
        "tile<8xptr<i16>>, tile<8xi16> -> tile<8xi16>, token",
        "operand #1 must be tile of i32 or i64 or f32 or f64 values",
    ),
    (
        "atomic_rmw_tko",
        f"%0, %1 = atomic_rmw_tko relaxed device %p_8_f32, add, %v_8_f32 : "
        f"{P}, tile<8xf32> -> tile<8xf32>, token",
        "has element type f32, expected i32 or i64 for mode add",
    ),
    (
        "atomic_rmw_tko",
        "%0, %1 = atomic_rmw_tko weak device %p_8_i32, add, %v_8_i32 : "
        "tile<8xptr<i32>>, tile<8xi32> -> tile<8xi32>, token",
        "has memory ordering weak, expected relaxed, acquire, release or acq_rel",
    ),
    (
        "atomic_red_view_tko",
        f"%0 = atomic_red_view_tko relaxed sys %pv[%v_i32, %v_i32], addf, %v_4x8_f32 : "
        f"{T}, {PV}, tile<i32> -> token",
        "has memory scope sys, expected tl_blk or device",
    ),
    (
        "atomic_red_view_tko",
        f"%0 = atomic_red_view_tko acq_rel device %pv[%v_i32, %v_i32], addf, %v_4x8_f32 : "
        f"{T}, {PV}, tile<i32> -> token",
        "has memory ordering acq_rel, expected relaxed",
    ),
    (
        "multimem_load_reduce_view_tko",
        f"%0, %1 = multimem_load_reduce_view_tko weak %pv[%v_i32, %v_i32] : "
        f"{PV}, tile<i32> -> {T}, token",
        "view has ptr_attr none, expected multicast",
    ),
    (
        "multimem_reduce_view_tko",
        MULTICAST_SETUP + "%0 = multimem_reduce_view_tko acquire device %mv, %v_8_f32[%v_i32] : "
        f"{MULTICAST_VIEW}, tile<8xf32>, tile<i32> -> token",
        "has memory ordering acquire, expected relaxed or release",
    ),
    (
        "multimem_reduce_view_tko",
        MULTICAST_SETUP + "%0 = multimem_reduce_view_tko relaxed device %mv, %v_8_f32[%v_i32] "
        "attributes {reduction = #cuda_tile.multimem_reduction_kind<max>} : "
        f"{MULTICAST_VIEW}, tile<8xf32>, tile<i32> -> token",
        "has element type f32, expected i32 or i64 for max",
    ),
    (
        "multimem_load_reduce_view_tko",
        MULTICAST_SETUP + "%0, %1 = multimem_load_reduce_view_tko weak %mv[%v_i32] "
        "attributes {reduction = #cuda_tile.multimem_reduction_kind<min>} : "
        f"{MULTICAST_VIEW}, tile<i32> -> tile<8xf32>, token",
        "has element type f32, expected i32 or i64 or f16 or bf16 for min",
    ),
    (
        "multimem_store_view_tko",
        MULTICAST_SETUP + "%0 = multimem_store_view_tko weak %mv, %v_4_f32[%v_i32] : "
        f"{MULTICAST_VIEW}, tile<4xf32>, tile<i32> -> token",
        "tile has type tile<4xf32>, expected tile<8xf32> (the tile of the view)",
    ),
)
