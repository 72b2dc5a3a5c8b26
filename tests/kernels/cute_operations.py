"""An example of every row operation of the dialect: the operation, and the type that it infers.

An example is (operation, types of operands, type of the result, static parameters).
"""

from __future__ import annotations

GMEM = "!cute.tensor<f32, gmem, align<16>, (8,4):(1,8)>"
HALVES = "!cute.tensor<f16, rmem, align<16>, ((2,2,2),1,1):((1,2,4),0,0)>"
WARP = "!cute.mma_atom<warp, (16,8,16), f16, f16, f32>"
MMA = "!cute.tiled_mma<warp, (16,8,16), f16, f16, f32, (1,1,1):(0,0,0)>"
SCALED_MMA = (
    "!cute.tiled_mma<warp, (16,8,32), f8E4M3FN, f8E4M3FN, f32, f8E8M0FNU, 32, (1,1,1):(0,0,0)>"
)
SCALES = "!cute.tensor<f8E8M0FNU, rmem, align<16>, (1,1,4):(1,1,1)>"
COPY = "!cute.tiled_copy<universal, 32, (4,2):(2,1), (8)>"
SWIZZLED = "!cute.composed_layout<S<1,0,2> o 0 o (8,4):(1,8)>"


def layout(text: str) -> str:
    """The type of a layout."""
    shape, _, stride = text.partition(":")
    return f"!cute.layout<{shape},{stride}>"


def row(name: str, operands: list[str], result: str, statics: str = "") -> tuple[str, ...]:
    """The name, the operands' types, the result's type and the static parameters."""
    return name, "|".join(operands), result, statics


A, B = layout("(4,8):(8,1)"), layout("(2,2):(1,4)")
INT = "!cute.int<{}>".format

EXAMPLES: tuple[tuple[str, ...], ...] = (
    row("static", [], INT(8)),
    row("to_int", ["i32"], INT("?")),
    row("assume", ["i32"], INT("?{div=8}")),
    row("make_shape", ["i32"], "!cute.shape<(?,(4,2))>"),
    row("make_stride", [INT("?")], "!cute.stride<(1,?)>"),
    row("make_coord", ["i32"], "!cute.coord<(?,_)>"),
    row("make_int_tuple", ["i32"], "!cute.shape<(?,2)>"),
    row("make_tile", [], "!cute.tile<[128:1;_;8]>"),
    row("make_layout", ["!cute.shape<(4,8)>"], layout("(4,8):(1,4)")),
    row("make_layout", ["!cute.shape<(?,8)>", "!cute.stride<(8,1)>"], layout("(?,8):(8,1)")),
    row("make_ordered_layout", ["!cute.shape<(4,8)>", "!cute.coord<(1,0)>"], A),
    row("make_layout_like", [layout("(4,8):(100,1)")], A),
    row(
        "make_identity_layout", ["!cute.shape<(4,(2,8))>"], layout("(4,(2,8)):(1@0,(1@0@1,1@1@1))")
    ),
    row("make_tv_layout", [layout("4:1"), layout("2:1")], layout("(4,2):(2,1)")),
    row("make_swizzle", [], "!cute.swizzle<S<3,4,3>>", "3,4,3"),
    row(
        "make_composed_layout",
        ["!cute.swizzle<S<1,0,2>>", INT(0), layout("(8,4):(1,8)")],
        SWIZZLED,
    ),
    row("make_tensor", ["!cute.ptr<f32, gmem, align<16>>", layout("(8,4):(1,8)")], GMEM),
    row("alloc", [], "!cute.tensor<f32, smem, align<128>, (8,4):(1,8)>"),
    row("make_fragment_like", [GMEM], GMEM.replace("gmem", "rmem")),
    row("recast_ptr", ["!cute.ptr<f32, gmem, align<16>>"], "!cute.ptr<f16, gmem, align<16>>"),
    row("recast_tensor", [GMEM], "!cute.tensor<f16, gmem, align<16>, (16,4):(1,16)>"),
    row("assume_align", ["!cute.ptr<f32, gmem, align<4>>"], "!cute.ptr<f32, gmem, align<16>>"),
    row(
        "add_offset", ["!cute.ptr<f32, gmem, align<16>>", INT(2)], "!cute.ptr<f32, gmem, align<8>>"
    ),
    row("size", [A], INT(32)),
    row("size_at", ["!cute.shape<(4,(2,8))>"], INT(16), "1"),
    row("cosize", [layout("(4,2):(1,10)")], INT(14)),
    row("rank", ["!cute.shape<(4,(2,8))>"], INT(2)),
    row("depth", ["!cute.shape<(4,(2,8))>"], INT(2)),
    row("get_shape", [GMEM], "!cute.shape<(8,4)>"),
    row("get_stride", [A], "!cute.stride<(8,1)>"),
    row("get_layout", [GMEM], layout("(8,4):(1,8)")),
    row("get_iter", [GMEM], "!cute.ptr<f32, gmem, align<16>>"),
    row("get_outer", [SWIZZLED], layout("(8,4):(1,8)")),
    row("get_offset", [SWIZZLED], INT(0)),
    row("get_leaf", ["!cute.shape<(4,(2,8))>"], INT(2), "1,0"),
    row("shape_at", [layout("(4,(2,8)):(1,(4,8))")], "!cute.shape<(2,8)>", "1"),
    row("stride_at", [layout("(4,(2,8)):(1,(4,8))")], "!cute.stride<(4,8)>", "1"),
    row("layout_at", [A], layout("8:1"), "1"),
    row("congruent", ["!cute.shape<(4,8)>", "!cute.shape<(4,(2,4))>"], "!cute.bool<false>"),
    row("weakly_congruent", ["!cute.shape<(4,8)>", "!cute.shape<(4,(2,4))>"], "!cute.bool<true>"),
    row("compatible", [INT(24), "!cute.shape<(4,6)>"], "!cute.bool<true>"),
    row("equal", [A, A], "!cute.bool<true>"),
    row("equal", [INT("?"), INT("?")], "!cute.bool<?>"),
    row("elem_less", ["!cute.coord<(1,9)>", "!cute.shape<(4,8)>"], "!cute.bool<false>"),
    row("is_static", ["!cute.shape<(4,?)>"], "!cute.bool<false>"),
    row("tuple_add", ["!cute.coord<(1,2)>", "!cute.coord<(3,4)>"], "!cute.coord<(4,6)>"),
    row("tuple_sub", ["!cute.coord<(3,4)>", "!cute.coord<(1,2)>"], "!cute.coord<(2,2)>"),
    row("tuple_mul", [INT("?{div=4}"), INT(6)], INT("?{div=24}")),
    row("tuple_div", [INT(9), INT(2)], INT(4)),
    row("tuple_mod", [INT("?{div=8}"), INT(4)], INT(0)),
    row("ceil_div", [INT(9), INT(2)], INT(5)),
    row("tuple_min", [INT(9), INT(2)], INT(2)),
    row("tuple_max", [INT(9), INT(2)], INT(9)),
    row("shape_div", ["!cute.shape<(4,3)>", INT(2)], "!cute.shape<(2,3)>"),
    row("bank_conflicts", [layout("(32,1):(32,0)"), layout("1024:1")], INT(32), "32,1"),
    row("vector_width", [layout("(32,4):(4,1)"), layout("128:1")], INT(4), "32"),
    row("crd2idx", ["!cute.coord<(1,2)>", A], INT(10)),
    row("crd2idx", ["!cute.coord<(?,0)>", A], INT("?{div=8}")),
    row("crd2idx", ["!cute.coord<(1,1)>", SWIZZLED], INT(9)),
    row("idx2crd", [INT(5), "!cute.shape<(4,8)>"], "!cute.coord<(1,1)>"),
    row("idx2crd", ["i32", "!cute.shape<(1,8)>"], "!cute.coord<(0,?)>"),
    row("crd2crd", [INT(5), "!cute.shape<32>", "!cute.shape<(4,8)>"], "!cute.coord<(1,1)>"),
    row("slice", ["!cute.coord<(_,1)>", GMEM], "!cute.tensor<f32, gmem, align<16>, (8):(1)>"),
    row("dice", ["!cute.coord<(_,1)>", A], layout("(8):(1)")),
    row(
        "domain_offset",
        ["!cute.coord<(1,0)>", GMEM],
        "!cute.tensor<f32, gmem, align<4>, (8,4):(1,8)>",
    ),
    row("apply_swizzle", ["!cute.swizzle<S<1,0,2>>", INT(4)], INT(5)),
    row("coalesce", [layout("(2,(1,6)):(1,(6,2))")], layout("12:1")),
    row("filter", [layout("(4,8):(0,1)")], layout("8:1")),
    row("filter_zeros", [layout("(4,8):(0,1)")], layout("(1,8):(0,1)")),
    row("composition", [layout("20:2"), "!cute.tile<(5,4):(4,1)>"], layout("(5,4):(8,2)")),
    row("complement", [B, INT(24)], layout("(2,3):(2,8)")),
    row("left_inverse", [A], layout("(8,4):(4,1)")),
    row("right_inverse", [A], layout("(8,4):(4,1)")),
    row("recast_layout", [layout("8:1")], layout("4:1"), "16,32"),
    row("upcast", [layout("8:1")], layout("2:1"), "4"),
    row("downcast", [layout("8:1")], layout("32:1"), "4"),
    row("group_modes", [layout("(2,3,4):(1,2,6)")], layout("((2,3),4):((1,2),6)"), "0,2"),
    row("flatten", [layout("(4,(2,8)):(1,(4,8))")], layout("(4,2,8):(1,4,8)")),
    row("append", [A, layout("3:32")], layout("(4,8,3):(8,1,32)")),
    row("prepend", [A, layout("3:32")], layout("(3,4,8):(32,8,1)")),
    row("select", [A], layout("(8,4):(1,8)"), "1,0"),
    row("take", [layout("(2,3,4):(1,2,6)")], layout("(3,4):(2,6)"), "1,3"),
    row("with_shape", [layout("32:1"), "!cute.shape<(4,8)>"], layout("(4,8):(1,4)")),
    row("logical_product", [layout("2:1"), layout("4:1")], layout("(2,4):(1,2)")),
    row("zipped_product", [layout("2:1"), layout("4:1")], layout("(2,4):(1,2)")),
    row("tiled_product", [layout("2:1"), layout("4:1")], layout("(2,4):(1,2)")),
    row("flat_product", [layout("2:1"), layout("4:1")], layout("(2,4):(1,2)")),
    row("blocked_product", [layout("2:1"), layout("4:1")], layout("(8):(1)")),
    row("raked_product", [layout("2:1"), layout("4:1")], layout("((4,2)):((2,1))")),
    row("logical_divide", [layout("16:1"), layout("4:2")], layout("(4,(2,2)):(2,(1,8))")),
    row("zipped_divide", [A, "!cute.tile<[2:1;4:1]>"], layout("((2,4),(2,2)):((8,1),(16,4))")),
    row("tiled_divide", [A, "!cute.tile<[2:1;4:1]>"], layout("((2,4),2,2):((8,1),16,4)")),
    row("flat_divide", [A, "!cute.tile<[2:1;4:1]>"], layout("(2,4,2,2):(8,1,16,4)")),
    row("local_tile", [A, "!cute.tile<[2:1;4:1]>", "!cute.coord<(1,0)>"], layout("(2,4):(8,1)")),
    row(
        "inner_partition", [A, "!cute.tile<[2:1;4:1]>", "!cute.coord<(1,0)>"], layout("(2,4):(8,1)")
    ),
    row(
        "outer_partition",
        [A, "!cute.tile<[2:1;4:1]>", "!cute.coord<(1,0)>"],
        layout("(2,2):(16,4)"),
    ),
    row(
        "local_partition",
        [GMEM, layout("(4,2):(1,4)"), INT("?")],
        "!cute.tensor<f32, gmem, align<4>, (2,2):(4,16)>",
    ),
    row(
        "tv_partition",
        [GMEM, layout("(4,8):(8,1)"), INT(1)],
        "!cute.tensor<f32, gmem, align<16>, 8:1>",
    ),
    row(
        "make_tiled_copy",
        ["!cute.copy_atom<universal, 32>", layout("4:1"), layout("2:1")],
        "!cute.tiled_copy<universal, 32, (4,2):(2,1), (8)>",
    ),
    row(
        "make_tiled_copy_tv",
        ["!cute.copy_atom<universal, 32>", layout("(4,2):(2,1)"), "!cute.shape<8>"],
        COPY,
    ),
    row("partition_s", [COPY, GMEM, INT(1)], "!cute.tensor<f32, gmem, align<8>, (2,1,4):(1,0,8)>"),
    row(
        "partition_d", [COPY, GMEM, INT("?")], "!cute.tensor<f32, gmem, align<8>, (2,1,4):(1,0,8)>"
    ),
    row(
        "retile",
        [COPY, GMEM.replace("gmem", "rmem")],
        "!cute.tensor<f32, rmem, align<16>, (2,16):(1,2)>",
    ),
    row("copy_tile", [COPY], "!cute.shape<(8)>"),
    row("make_tiled_mma", [WARP, layout("(1,1,1):(0,0,0)")], MMA),
    row("mma_tile", [MMA], "!cute.shape<(16,8,16)>"),
    row(
        "partition_a",
        [MMA, layout("(16,16):(16,1)"), INT("?")],
        layout("((2,2,2),1,1):((1,128,8),0,0)"),
    ),
    row("partition_b", [MMA, layout("(8,16):(16,1)"), INT(3)], layout("((2,2),1,1):((1,8),0,0)")),
    row("partition_c", [MMA, layout("(16,8):(8,1)"), INT(3)], layout("((2,2),1,1):((1,64),0,0)")),
    row("make_fragment_a", [MMA, HALVES.replace("rmem", "smem")], HALVES.replace("0,0", "8,8")),
    row(
        "make_fragment_b",
        [MMA, "!cute.tensor<f16, smem, align<16>, ((2,2),1,1):((1,8),0,0)>"],
        "!cute.tensor<f16, rmem, align<16>, ((2,2),1,1):((1,2),4,4)>",
    ),
    row(
        "partition_sfa",
        [SCALED_MMA, layout("(16,4):(4,1)"), INT(5)],
        layout("(1,1,4):(64,0,1)"),
    ),
    row(
        "partition_sfb",
        [SCALED_MMA, layout("(8,4):(4,1)"), INT(5)],
        layout("(1,1,4):(32,0,1)"),
    ),
    row("make_fragment_sfa", [SCALED_MMA, SCALES.replace("rmem", "gmem")], SCALES),
    row("make_fragment_sfb", [SCALED_MMA, SCALES.replace("rmem", "gmem")], SCALES),
    row(
        "make_fragment_c",
        [MMA, "!cute.tensor<f32, gmem, align<16>, ((2,2),1,1):((1,64),0,0)>"],
        "!cute.tensor<f32, rmem, align<16>, ((2,2),1,1):((1,2),4,4)>",
    ),
    row("copy", ["!cute.copy_atom<universal, 128>", GMEM, GMEM], ""),
    row("copy_if", ["!cute.copy_atom<universal, 32>", GMEM.replace("f32", "i1"), GMEM, GMEM], ""),
    row("fill", [GMEM, "f32"], ""),
    row("clear", [GMEM], ""),
    row("axpby", ["f32", GMEM, "f32", GMEM], ""),
    row("add", [GMEM, GMEM, GMEM], ""),
    row("mul", [GMEM, GMEM, GMEM], ""),
    row("cast", [GMEM, GMEM.replace("f32", "f16")], ""),
    row(
        "gemm",
        [
            MMA,
            "!cute.tensor<f32, rmem, align<16>, ((2,2),1,1):((1,2),4,4)>",
            "!cute.tensor<f16, rmem, align<16>, ((2,2,2),1,1):((1,2,4),8,8)>",
            "!cute.tensor<f16, rmem, align<16>, ((2,2),1,1):((1,2),4,4)>",
            "!cute.tensor<f32, rmem, align<16>, ((2,2),1,1):((1,2),4,4)>",
        ],
        "",
    ),
    row("store", ["f32", GMEM, "!cute.coord<(1,2)>"], ""),
    row("thread_idx", [], INT("?"), "0"),
    row("block_idx", [], INT("?"), "1"),
    row("grid_dim", [], INT("?"), "2"),
    row("sync_threads", [], ""),
)
"""(operation, operands' types, result's type, static parameters)."""
