"""Bad programs with operations of `cute_nvgpu`: what is said, and where."""

from __future__ import annotations

import pytest

from tests.kernels.cute_nvgpu_operations import (
    ANSWER,
    AT,
    ATOM,
    BARRIER,
    BYTES_A,
    BYTES_B,
    CHUNK,
    COLUMNS,
    EXAMPLES,
    FRAGMENTS,
    GROUPS,
    MATRIX_ATOMS,
    PAIR,
    PAIR_MMA,
    PAIRS,
    REDUCTIONS,
    SCALE,
    SCALED_TENSOR,
    SLOT,
    TCGEN05,
    TENSOR_MMA,
    TMA,
    WARPGROUP,
    WORDS,
    A,
    B,
    D,
    program,
    row,
)
from tests.kernels.cute_operations import INT, WARP
from tests.kernels.cute_operations import MMA as WARP_MMA
from tests.kernels.cute_rejections import check_accepted, check_rejected, identity
from tileiras.dialects.cute_nvgpu.dialect import OPERATIONS
from tileiras.errors import BytecodeError
from tileiras.ir_text import parse_text

UNIVERSAL = "!cute.mma_atom<universal, (1,1,1), f32, f32, f32>"
HALF_WORD = "!cute.ptr<i32, smem, align<8>>"
GLOBAL_BARRIER = "!cute.ptr<i64, gmem, align<8>>"
REPEATED_K = GROUPS.replace("(2,1,1):(1,0,0)", "(1,1,2):(0,0,1)")
DOUBLE_MMA = "!cute.tiled_mma<warp, (8,8,4), f64, f64, f64, (1,1,1):(0,0,0)>"
NO_BARRIER = "an mbarrier is an i64 in smem, found"
ROW_MAJOR = "!cute.tensor<f16, smem, align<1024>, (128,32):(32,1)>"
NO_BOX = "!cute.tensor<f16, smem, align<1024>, S<2,3,3> o 0 o (64,64):(64,1)>"
PADDED = "!cute.tensor<f16, smem, align<1024>, S<2,3,3> o 0 o (128,32):(64,1)>"
A_BF16, B_BF16 = A.replace("f16", "bf16"), B.replace("f16", "bf16")
FLAT, SHORT, DEEP = "0", "(0,0,0)", "(0,_)"


def _boxes(name: str, barrier: bool, more: list[str]) -> list[tuple[str, ...]]:
    """What every operation on a box rejects."""

    def bad(tensor: str, coordinate: str, message: str) -> tuple[str, ...]:
        given = [TMA, tensor, *([BARRIER] if barrier else []), coordinate, *more]
        return (*row(name, given, ""), message)

    return [
        bad(A.replace("smem", "gmem"), AT, "a box lies in smem, found gmem"),
        bad(A_BF16, AT, "elements bf16 face f16 of the box"),
        bad(ROW_MAJOR, AT, "has another swizzle than the box: S<2,3,3>"),
        bad(PADDED, AT, "is not compact, a box is"),
        bad(NO_BOX, AT, "is no box (32,128)"),
        bad(A, f"!cute.coord<{FLAT}>", "a box of 2 dims has a coordinate of 2 numbers"),
        bad(A, f"!cute.coord<{SHORT}>", "a box of 2 dims has a coordinate of 2 numbers"),
        bad(A, f"!cute.coord<{DEEP}>", "a box of 2 dims has a coordinate of 2 numbers"),
    ]


def _bad(
    name: str, operands: list[str], statics: str, message: str, result: str = ""
) -> tuple[str, ...]:
    return (*row(name, operands, result, statics), message)


CLUSTERS: tuple[tuple[str, ...], ...] = (
    _bad("mbarrier_arrive", [BARRIER, INT(8)], "", "a cluster has CTAs 0 to 7, found 8"),
    _bad("mbarrier_try_wait", [BARRIER, INT(2)], "", "is 0 or 1, found 2", "!cute.bool<?>"),
    _bad("mbarrier_try_wait", [GLOBAL_BARRIER, INT(0)], "", NO_BARRIER, "!cute.bool<?>"),
    _bad("block_idx_in_cluster", [], "0", "has 1 static parameters, expected 0", INT("?")),
    *(
        _bad(name, [], "3", "axes are 0, 1 and 2, found 3", INT("?"))
        for name in ("block_in_cluster_idx", "block_in_cluster_dim", "cluster_idx", "cluster_dim")
    ),
    _bad("mapa", [GLOBAL_BARRIER, INT(0)], "", "smem of another CTA is mapped", GLOBAL_BARRIER),
    _bad("mapa", [BARRIER, INT(9)], "", "a cluster has CTAs 0 to 7, found 9", BARRIER),
    _bad("store_async", [A, PAIRS, BARRIER, INT(0)], "", "1, 2 or 4 words of 32 bits in rmem"),
    _bad("store_async", [WORDS, BARRIER, BARRIER, INT(0)], "", "words go to smem, found i64"),
    _bad("store_async", [WORDS, PAIRS, HALF_WORD, INT(0)], "", NO_BARRIER),
    _bad(
        "store_async",
        [WORDS, PAIRS.replace("<8>", "<4>"), BARRIER, INT(0)],
        "",
        "2 words go to an aligned place, found align 4",
    ),
    _bad("issue_clc_query", [SLOT, BARRIER], "", "an answer is 4 words of i32 in smem, aligned"),
    _bad("issue_clc_query", [ANSWER, GLOBAL_BARRIER], "", NO_BARRIER),
    _bad("issue_clc_query_multicast", [ANSWER, HALF_WORD], "", NO_BARRIER),
    _bad(
        "issue_clc_query_multicast",
        [ANSWER.replace("4:1", "4:2"), BARRIER],
        "",
        "1 answers of 4 words lie side by side, found 4:2",
    ),
    _bad("clc_response", [ANSWER.replace("i32", "f32")], "", "an answer is 4 words of i32 in smem"),
    _bad("warpgroup_reg_alloc", [], "264", "24 to 256 registers in steps of 8, found 264"),
    _bad("warpgroup_reg_dealloc", [], "36", "24 to 256 registers in steps of 8, found 36"),
)


def _scaled(place: int, other: str, message: str) -> tuple[str, ...]:
    """The product of fragments with one that is none of it."""
    kinds = [*FRAGMENTS[:place], other, *FRAGMENTS[place + 1 :]]
    return _bad("gemm_block_scaled", kinds, "", message)


BLOCK_SCALED: tuple[tuple[str, ...], ...] = (
    _scaled(0, WARP_MMA, "have no scales"),
    _scaled(0, SCALED_TENSOR, "expected an atom of kind warp, found tcgen05"),
    _scaled(3, SCALE.replace("f8E8M0FNU", "f8E5M2"), "operand SFA has elements f8E8M0FNU"),
    _scaled(5, SCALE.replace("(1,1,1):", "(2,1,1):"), "operand SFB of"),
    _scaled(3, SCALE.replace("(1,1,1):", "(1,2,1):"), "operand SFA has 2 atoms along M"),
    _scaled(5, SCALE.replace("rmem", "smem"), "operand SFB is in registers, found smem"),
    _bad("tcgen05_cp", [INT("?"), CHUNK.replace("(16,4)", "(4,128)")], "", "is not in chunks of"),
    _bad("tcgen05_cp", [INT("?"), CHUNK.replace("smem", "gmem")], "", "a plain matrix in smem"),
    _bad("tcgen05_cp", [INT("?"), CHUNK.replace("f8E8M0FNU", "i8")], "", "scales have 8 bits"),
    _bad(
        "tcgen05_mma_block_scaled",
        [TENSOR_MMA, INT("?"), INT(128), INT(132), A, B],
        "",
        "have no scales",
    ),
    _bad(
        "tcgen05_mma_block_scaled",
        [SCALED_TENSOR, INT("?"), INT(128), INT(132), BYTES_A, BYTES_A],
        "",
        "a product of 128 x 128, the atom is",
    ),
    _bad(
        "tcgen05_mma",
        [SCALED_TENSOR, INT("?"), BYTES_A, BYTES_B],
        "",
        "products with scales are 'cute_nvgpu.tcgen05_mma_block_scaled'",
    ),
    _bad(
        "make_warpgroup_mma_atom",
        [],
        "",
        "products of warpgroups have no scales",
        WARPGROUP.replace("f32>", "f32, f8E8M0FNU, 16>"),
    ),
)

BAD: tuple[tuple[str, ...], ...] = (
    *CLUSTERS,
    *BLOCK_SCALED,
    _bad("make_universal_copy_atom", [], "24", "universal moves 8, 16, 32, 64, 128 bits"),
    _bad("make_universal_copy_atom", [], "", "has 0 static parameters, expected 1"),
    _bad("make_cp_async_atom", [], "16", "cp_async moves 32, 64, 128 bits for a thread, found 16"),
    *(
        _bad(f"make_{kind}_atom", [], "3", f"{kind} moves 1, 2 or 4 matrices, found 3")
        for kind in MATRIX_ATOMS
    ),
    _bad("make_warp_mma_atom", [], "", "expected an atom of kind warp, found warpgroup", WARPGROUP),
    _bad(
        "make_warp_mma_atom",
        [],
        "",
        "tile dims must be powers of two",
        WARP.replace("(16,8,16)", "(17,8,16)"),
    ),
    _bad("make_warp_mma_atom", [], "", "result is !cute.int<8>, expected !cute.mma_atom", INT(8)),
    _bad("make_warpgroup_mma_atom", [], "", "expected an atom of kind warpgroup, found warp", WARP),
    _bad(
        "make_warpgroup_mma_atom",
        [],
        "",
        "is no atom of 64 rows and 8 to 256 columns",
        WARPGROUP.replace("(64,64,16)", "(64,264,16)"),
    ),
    _bad("make_tcgen05_mma_atom", [], "", "expected an atom of kind tcgen05", UNIVERSAL),
    _bad(
        "make_tcgen05_mma_atom",
        [],
        "",
        "is no atom of 128 rows and 8 to 256 columns",
        TCGEN05.replace("(128,", "(64,"),
    ),
    _bad("atom_get_value", [GROUPS], "1", "an MMA atom has fields 0 to 0, found 1"),
    _bad("atom_get_value", [WARP], "0", "expected !cute.tiled_mma"),
    _bad("atom_set_value", [GROUPS, INT(1)], "2", "an MMA atom has fields 0 to 0, found 2"),
    _bad("atom_set_value", [GROUPS, INT(2)], "0", "accumulate is 0 or 1, found 2"),
    _bad(
        "make_tiled_copy_a",
        [ATOM("ldmatrix", 128), DOUBLE_MMA],
        "",
        "ldmatrix moves elements of 16 bits, found f64",
    ),
    _bad(
        "make_tiled_copy_b",
        [ATOM("ldmatrix", 32), WARP_MMA],
        "",
        "a thread holds 4 values of B, ldmatrix moves 2",
    ),
    _bad(
        "make_tiled_copy_c",
        [ATOM("stmatrix", 128), WARP_MMA],
        "",
        "stmatrix moves elements of 16 bits, found f32",
    ),
    _bad("make_tiled_copy_a", [ATOM("universal", 32), GROUPS], "", "are in no registers"),
    *(
        _bad(name, [], "", "has 1 results, expected 0", INT(1))
        for name in (
            "mbarrier_init_fence",
            "fence_proxy_async",
            "sync_warp",
            "cp_async_commit_group",
            "tma_store_commit",
            "warpgroup_arrive",
            "warpgroup_commit_batch",
            "tcgen05_fence_before",
            "tcgen05_fence_after",
            "cluster_arrive",
            "cluster_arrive_relaxed",
            "cluster_wait",
        )
    ),
    *(
        _bad(name, [INT(1)], "", "has 1 operands, expected 0")
        for name in ("warp_idx", "lane_idx", "elect_sync", "sync_warp")
    ),
    *(
        _bad(name, [*operands], statics, f"{NO_BARRIER} {found}")
        for name, statics, more in (
            ("mbarrier_init", "1", []),
            ("mbarrier_arrive", "", []),
            ("mbarrier_arrive_and_expect_tx", "16", []),
            ("mbarrier_wait", "", [INT(0)]),
            ("mbarrier_arrive_copies", "", []),
            ("tcgen05_commit", "", []),
        )
        for operands, found in (
            ((HALF_WORD, *more), "i32 in smem"),
            ((GLOBAL_BARRIER, *more), "i64 in gmem"),
        )
    ),
    _bad("mbarrier_init", [BARRIER], "0", "a barrier counts 1 to 1048575, found 0"),
    _bad("mbarrier_arrive_and_expect_tx", [BARRIER], "1048576", "a barrier counts 1 to 1048575"),
    _bad("mbarrier_wait", [BARRIER, INT(2)], "", "the parity of a phase is 0 or 1, found 2"),
    *(
        _bad(name, [], "8", "a wait leaves 0 to 7 groups, found 8")
        for name in (
            "cp_async_wait_group",
            "tma_store_wait",
            "tma_store_wait_read",
            "warpgroup_wait",
        )
    ),
    _bad("make_exec_tma", [A], "", "expected !cute_nvgpu.tma_atom"),
    _bad("prefetch_tma_desc", [A], "", "expected !cute_nvgpu.tma_atom"),
    *_boxes("tma_load", True, []),
    _bad("tma_load", [TMA, A, HALF_WORD, AT], "", f"{NO_BARRIER} i32 in smem"),
    *_boxes("tma_load_multicast", True, [INT(3)]),
    _bad("tma_load_multicast", [TMA, A, GLOBAL_BARRIER, AT, INT(3)], "", NO_BARRIER),
    _bad("tma_load_multicast", [TMA, A, BARRIER, AT, INT(0)], "", "a mask of CTAs has 16 bits"),
    _bad("tma_load_multicast", [TMA, A, BARRIER, AT, INT(65536)], "", "a mask of CTAs has 16 bits"),
    *_boxes("tma_store", False, []),
    *(bad for kind in REDUCTIONS for bad in _boxes(f"tma_reduce_{kind}", False, [])),
    _bad("warpgroup_mma", [TENSOR_MMA, D, A, B], "", "expected an atom of kind warpgroup, found"),
    _bad("warpgroup_mma", [GROUPS, D, A_BF16, B], "", "operand A is bf16, expected f16"),
    _bad("warpgroup_mma", [GROUPS, D, A, B_BF16], "", "operand B is bf16, expected f16"),
    _bad("warpgroup_mma", [GROUPS, D, A.replace("smem", "gmem"), B], "", "is a matrix in smem"),
    _bad("warpgroup_mma", [GROUPS, D, COLUMNS, B], "", "operand A is f32, expected f16"),
    _bad(
        "warpgroup_mma",
        [GROUPS, D, "!cute.tensor<f16, smem, align<1024>, (128,16):(16,1)>", B],
        "",
        "A has 16 elements along K, B has 32",
    ),
    _bad("warpgroup_mma", [GROUPS, D, B, B], "", "M is 64, expected a multiple of 128"),
    _bad("warpgroup_mma", [REPEATED_K, D, A, B], "", "atoms are not repeated along K"),
    _bad(
        "warpgroup_mma",
        [GROUPS, D.replace("f32", "f16"), A, B],
        "",
        "the accumulator is f16 in rmem, expected f32 in rmem",
    ),
    _bad(
        "warpgroup_mma",
        [GROUPS, D.replace("rmem", "smem"), A, B],
        "",
        "the accumulator is f32 in smem, expected f32 in rmem",
    ),
    _bad(
        "warpgroup_mma",
        [GROUPS, D, A, A],
        "",
        "the accumulator has modes [32, 1, 1], expected [32, 1, 2]",
    ),
    _bad("tmem_alloc", [SLOT], "48", "48 columns, expected a power of two, 32 to 512"),
    _bad("tmem_alloc", [SLOT], "1024", "1024 columns, expected a power of two, 32 to 512"),
    _bad("tmem_alloc", [COLUMNS], "64", "the address arrives in an i32 in smem"),
    _bad("tmem_address", [COLUMNS], "", "the address is in an i32 in smem", INT("?")),
    _bad("tmem_dealloc", [INT("?")], "16", "16 columns, expected a power of two, 32 to 512"),
    _bad("tcgen05_mma", [GROUPS, INT("?"), A, B], "", "expected an atom of kind tcgen05, found"),
    _bad("tcgen05_mma", [TENSOR_MMA, INT("?"), B, B], "", "M is 64, expected a multiple of 128"),
    _bad("tcgen05_mma", [TENSOR_MMA, INT("?"), A, A], "", "a product of 128 x 128, the atom is"),
    _bad("tmem_alloc", [SLOT], "64,3", "a group has 1 or 2 CTAs, found 3"),
    _bad("tmem_dealloc", [INT("?")], "64,4", "a group has 1 or 2 CTAs, found 4"),
    _bad("tcgen05_commit", [BARRIER], "3", "a group has 1 or 2 CTAs, found 3"),
    _bad("tcgen05_commit_multicast", [BARRIER, INT(0)], "2", "a mask of CTAs has 16 bits"),
    _bad("tcgen05_commit_multicast", [HALF_WORD, INT(1)], "", f"{NO_BARRIER} i32 in smem"),
    _bad("tcgen05_cp", [INT("?"), CHUNK], "5", "a group has 1 or 2 CTAs, found 5"),
    _bad("tma_load", [TMA, A, BARRIER, AT], "3", "a box is for a CTA or one of a pair: 1 or 2"),
    _bad("tcgen05_mma", [PAIR_MMA, INT("?"), B, B], "", "M is 128, expected a multiple of 256"),
    _bad("tcgen05_mma", [PAIR_MMA, INT("?"), A, A], "", "a product of 256 x 256, the atom is"),
    _bad(
        "make_tcgen05_mma_atom",
        [],
        "",
        "is no atom of 128 or 256 rows and 16 to 256 columns",
        PAIR.replace("(256,", "(64,"),
    ),
    _bad("tcgen05_store", [SLOT, INT("?")], "", "tensor memory is stored from f32 in rmem"),
    _bad(
        "tcgen05_store",
        [COLUMNS.replace("32:1", "24:1"), INT("?")],
        "",
        "a store takes 1 to 128 columns, a power of two, found 24",
    ),
    _bad("tcgen05_load", [INT("?"), SLOT], "", "tensor memory is loaded to f32 in rmem"),
    _bad(
        "tcgen05_load",
        [INT("?"), COLUMNS.replace("32:1", "48:1")],
        "",
        "a load gives 1 to 128 columns, a power of two, found 48",
    ),
)
"""(operation, operands' types, result's type, static parameters, message)."""

TYPES: tuple[tuple[str, str], ...] = (
    ("f16, (32,8,8,8,8,8), 64", "a box has 1 to 5 dims"),
    ("f16, (32,257), 64", "a box has extents 1 to 256"),
    ("f16, (0,8), 64", "a box has extents 1 to 256"),
    ("f16, (32,128), 48", "a swizzle row has 0, 32, 64 or 128 bytes, found 48"),
    ("f16, (64,128), 64", "a row of 128 bytes is no multiple of 16 or longer than the swizzle"),
    ("f16, (4,128), 64", "a row of 8 bytes is no multiple of 16"),
    ("f17, (64,128), 64", "'f17' is no element"),
    ("f16, (64,128)", "expected 'element, (box), bytes'"),
    ("f16, 64, 128", "expected 'element, (box), bytes'"),
    ("f6E2M3FN_unpacksmem, (64,128), 128", "have rows of 128 elements and a swizzle row of 128"),
    ("f16, (64,?), 128", "expected 'element, (box), bytes'"),
)
"""Parameters of `!cute_nvgpu.tma_atom`, and what is wrong with them."""


@pytest.mark.parametrize("bad", BAD, ids=identity)
def test_says_what_is_wrong_and_where(bad: tuple[str, ...]) -> None:
    """The message names the operation, and the place is its line."""
    check_rejected(program(*bad[:4]), bad[0], bad[4])


@pytest.mark.parametrize("good", EXAMPLES, ids=identity)
def test_accepts_the_example(good: tuple[str, ...]) -> None:
    """In the same kernel; its text says the same again."""
    check_accepted(program(*good), good[0])


def test_every_operation_is_rejected_somehow() -> None:
    """None is accepted whatever it gets."""
    assert {op.name for op in OPERATIONS} == {bad[0] for bad in BAD}


@pytest.mark.parametrize(("parameters", "message"), TYPES)
def test_boxes_that_tma_does_not_move(parameters: str, message: str) -> None:
    """The type says so where it is read."""
    good = f"cute.func @k(%t: {TMA}) threads 32 {{\ncute.return\n}}"
    parse_text(good)
    with pytest.raises(BytecodeError) as raised:
        parse_text(good.replace(TMA, f"!cute_nvgpu.tma_atom<{parameters}>"))
    assert message in raised.value.message
    assert raised.value.location is not None
    assert raised.value.location.line == 1
