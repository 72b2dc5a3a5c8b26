"""What the fact analysis finds out, one idea a test: the patterns that kernels are made of."""

from __future__ import annotations

from typing import Any

import pytest
from tile_programs import entry_of, int_tile
from xdsl.dialects.builtin import (
    IntAttr,
    IntegerAttr,
    NoneAttr,
    StringAttr,
    SymbolRefAttr,
    i32,
    i64,
)
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.analysis.facts import Facts, analyze_entry
from tileiras.analysis.lattice import MAX_DIVISOR, ValueFacts
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile import attributes as at
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import (
    DYNAMIC,
    PartitionViewType,
    PointerType,
    TensorViewType,
    TileType,
)

POINTER = TileType(PointerType(i32))
NONE = NoneAttr()


class Kernel:
    """A kernel with scalar arguments x, n: i32, wide: i64, flag: i1, p: a pointer to 4 bytes."""

    def __init__(self) -> None:
        self.types = [int_tile(32), int_tile(32), int_tile(64), int_tile(1), POINTER]
        self.block = Block(arg_types=self.types)
        self.x, self.n, self.wide, self.flag, self.p = self.block.args
        self.blocks = [self.block]

    def add(self, kind: Any, operands: Any, type_: TileType | None = None, **props: Any) -> Any:
        """Adds an operation; its result has the first operand's type if no other is given."""
        types = [type_ or operands[0].type]
        op = kind.create(operands=operands, properties=props, result_types=types)
        self.blocks[-1].add_op(op)
        return op.results[0]

    def constant(self, value: int, type_: TileType | None = None) -> SSAValue:
        """A splat."""
        type_ = type_ or int_tile(32)
        size = (type_.element_type.width.data + 7) // 8
        raw = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        return self.add(ct.ConstantOp, [], type_, value=DenseAttr(type_, raw))

    def tile(self, values: list[int]) -> SSAValue:
        """A rank-1 i32 constant."""
        type_ = int_tile(32, (len(values),))
        raw = b"".join(value.to_bytes(4, "little", signed=True) for value in values)
        return self.add(ct.ConstantOp, [], type_, value=DenseAttr(type_, raw))

    def iota(self, count: int, width: int = 32) -> SSAValue:
        """0, 1, .."""
        return self.add(ct.IotaOp, [], int_tile(width, (count,)))

    def splat(self, scalar: SSAValue, *shape: int) -> SSAValue:
        """A scalar in a larger shape."""
        element = scalar.type.element_type
        ones = self.add(ct.ReshapeOp, [scalar], TileType(element, (1,) * len(shape)))
        return self.add(ct.BroadcastOp, [ones], TileType(element, shape))

    def addi(self, left: SSAValue, right: SSAValue, flag: str = "NONE") -> SSAValue:
        """A sum."""
        overflow = at.IntegerOverflowAttr(at.IntegerOverflow[flag])
        return self.add(ct.AddIOp, [left, right], overflow=overflow)

    def muli(self, left: SSAValue, right: SSAValue) -> SSAValue:
        """A product."""
        overflow = at.IntegerOverflowAttr(at.IntegerOverflow.NONE)
        return self.add(ct.MulIOp, [left, right], overflow=overflow)

    def divi(self, left: SSAValue, right: SSAValue, rounding: str) -> SSAValue:
        """A signed quotient."""
        return self.add(
            ct.DivIOp,
            [left, right],
            signedness=at.SignednessAttr(at.Signedness.SIGNED),
            rounding=at.RoundingModeAttr(at.RoundingMode[rounding]),
        )

    def signed(self, kind: Any, *operands: SSAValue) -> SSAValue:
        """A signed operation of the operands' type."""
        return self.add(kind, operands, signedness=at.SignednessAttr(at.Signedness.SIGNED))

    def compare(self, predicate: str, left: SSAValue, right: SSAValue) -> SSAValue:
        """A signed comparison."""
        return self.add(
            ct.CmpIOp,
            [left, right],
            int_tile(1, left.type.shape),
            comparison_predicate=at.ComparisonPredicateAttr(at.ComparisonPredicate[predicate]),
            signedness=at.SignednessAttr(at.Signedness.SIGNED),
        )

    def extend(self, source: SSAValue) -> SSAValue:
        """Sign extension to i64."""
        signed = at.SignednessAttr(at.Signedness.SIGNED)
        return self.add(ct.ExtIOp, [source], int_tile(64, source.type.shape), signedness=signed)

    def divisible(self, value: SSAValue, divisor: int) -> SSAValue:
        """`assume div_by<divisor>`."""
        predicate = at.DivByAttr(IntAttr(divisor), NONE, NONE)
        return self.add(ct.AssumeOp, [value], predicate=predicate)

    def bounded(self, value: SSAValue, low: int | None, high: int | None) -> SSAValue:
        """`assume bounded<low, high>`."""
        ends = [NONE if end is None else IntAttr(end) for end in (low, high)]
        return self.add(ct.AssumeOp, [value], predicate=at.BoundedAttr(*ends))

    def offset(self, pointers: SSAValue, by: SSAValue) -> SSAValue:
        """Pointer arithmetic."""
        return self.add(ct.OffsetOp, [pointers, by])

    def run_of(self, count: int, step: int) -> SSAValue:
        """`x * step + iota(count)`, the elements that tile block x works on."""
        base = self.muli(self.x, self.constant(step))
        return self.addi(self.splat(base, count), self.iota(count))

    def facts(self) -> Facts:
        """The analysis of what was added so far."""
        self.block.add_op(ct.ReturnOp.create())
        return analyze_entry(entry_of(self.types, self.block))

    def of(self, value: SSAValue) -> ValueFacts:
        """The facts of one value."""
        return self.facts()[value]

    def loop(self, kind: Any, operands: list[SSAValue], inits: list[SSAValue]) -> Operation:
        """Opens a loop."""
        first = [operands[0].type] if operands else []
        block = Block(arg_types=[*first, *(init.type for init in inits)])
        op = kind.create(
            operands=[*operands, *inits],
            result_types=[init.type for init in inits],
            regions=[Region(block)],
        )
        self.blocks[-1].add_op(op)
        self.blocks.append(block)
        return op

    def end(self, kind: Any, *operands: SSAValue) -> None:
        """Closes a block."""
        self.blocks.pop().add_op(kind.create(operands=operands))


def test_arguments_are_unknown() -> None:
    k = Kernel()
    facts = k.facts()
    assert (facts[k.x].divisor, facts[k.x].lower, facts[k.x].upper) == (1, None, None)
    assert facts[k.p].divisor == 1


def test_assumptions_about_arguments() -> None:
    k = Kernel()
    x = k.bounded(k.divisible(k.x, 16), 0, 4096)
    p = k.divisible(k.p, 16)
    facts = k.facts()
    assert (facts[x].divisor, facts[x].lower, facts[x].upper) == (16, 0, 4096)
    assert facts[p].divisor == 16


def test_constants_know_everything() -> None:
    k = Kernel()
    zero, splat = k.constant(0), k.constant(-48, int_tile(32, (4, 8)))
    facts = k.facts()
    assert (facts[zero].constant, facts[zero].divisor) == (0, MAX_DIVISOR)
    assert facts[splat].constant == -48
    assert facts[splat].divisibility == (16, 16)
    assert facts[splat].constancy == (4, 8)


@pytest.mark.parametrize(
    ("values", "contiguity", "divisibility", "constancy"),
    [
        ([8, 9, 10, 11, 20, 21, 22, 23], 4, 4, 1),
        ([1, 2, 3, 4], 4, 1, 1),
        ([5, 5, 6, 6], 1, 1, 2),
        ([0, 1, 3, 4], 2, 1, 1),
        ([8, 16, 32, 24], 1, 8, 1),
    ],
)
def test_constant_tiles_are_inspected(
    values: list[int], contiguity: int, divisibility: int, constancy: int
) -> None:
    k = Kernel()
    facts = k.of(k.tile(values))
    assert facts.contiguity == (contiguity,)
    assert facts.divisibility == (divisibility,)
    assert facts.constancy == (constancy,)
    assert (facts.lower, facts.upper) == (min(values), max(values))


def test_block_offset_plus_iota_is_one_aligned_run() -> None:
    k = Kernel()
    facts = k.of(k.run_of(128, 128))
    assert (facts.contiguity, facts.divisibility) == ((128,), (128,))


def test_unaligned_base_keeps_contiguity_without_divisor() -> None:
    k = Kernel()
    facts = k.of(k.addi(k.iota(64), k.splat(k.x, 64)))
    assert (facts.contiguity, facts.divisibility) == ((64,), (1,))


def test_pointers_count_runs_in_elements_and_divisors_in_bytes() -> None:
    k = Kernel()
    pointers = k.splat(k.divisible(k.p, 16), 128)
    facts = k.of(k.offset(pointers, k.extend(k.run_of(128, 128))))
    assert (facts.contiguity, facts.divisibility, facts.step) == ((128,), (16,), 4)
    assert facts.run_divisor(0, 2) == 8


def test_small_offsets_limit_the_alignment_of_pointers() -> None:
    k = Kernel()
    pointers = k.splat(k.divisible(k.p, 64), 8)
    facts = k.of(k.offset(pointers, k.run_of(8, 2)))
    assert facts.divisibility == (8,)


def test_offset_that_may_wrap_is_cut_to_aligned_runs() -> None:
    k = Kernel()
    unaligned = k.addi(k.iota(64), k.splat(k.divisible(k.x, 4), 64))
    facts = k.of(k.extend(unaligned))
    assert (facts.contiguity, facts.divisibility) == ((4,), (4,))


def test_bounds_show_that_an_extension_cannot_wrap() -> None:
    k = Kernel()
    bounded = k.bounded(k.addi(k.iota(64), k.splat(k.x, 64)), 0, None)
    facts = k.of(k.extend(bounded))
    assert facts.contiguity == (64,)


def test_rows_and_columns_of_a_row_major_matrix() -> None:
    k = Kernel()
    stride = k.divisible(k.n, 8)
    rows = k.add(ct.ReshapeOp, [k.iota(16)], int_tile(32, (16, 1)))
    rows = k.add(ct.BroadcastOp, [rows], int_tile(32, (16, 32)))
    columns = k.add(ct.ReshapeOp, [k.iota(32)], int_tile(32, (1, 32)))
    columns = k.add(ct.BroadcastOp, [columns], int_tile(32, (16, 32)))
    facts = k.of(k.addi(k.muli(rows, k.splat(stride, 16, 32)), columns))
    assert facts.contiguity == (1, 32)
    assert facts.divisibility == (1, 8)


def test_permute_and_extract_keep_runs() -> None:
    k = Kernel()
    grid = k.add(ct.ReshapeOp, [k.iota(64)], int_tile(32, (8, 8)))
    half = k.add(ct.ExtractOp, [grid, k.constant(0), k.constant(1)], int_tile(32, (8, 4)))
    facts = k.of(half)
    assert facts.contiguity == (1, 4)
    assert facts.divisibility == (1, 4)


def test_cat_keeps_the_runs_of_both() -> None:
    k = Kernel()
    both = k.add(
        ct.CatOp,
        [k.iota(8), k.tile([16, 17, 18, 19, 24, 25, 26, 27])],
        int_tile(32, (16,)),
        dim=IntegerAttr(0, i64),
    )
    facts = k.of(both)
    assert (facts.contiguity, facts.divisibility) == ((4,), (4,))
    assert (facts.lower, facts.upper) == (0, 27)


def test_mask_is_constant_where_run_and_limit_are_aligned() -> None:
    k = Kernel()
    limit = k.splat(k.divisible(k.n, 16), 128)
    assert k.of(k.compare("LESS_THAN", k.run_of(128, 128), limit)).constancy == (16,)


def test_mask_against_an_unaligned_limit_may_change_anywhere() -> None:
    k = Kernel()
    limit = k.splat(k.n, 128)
    assert k.of(k.compare("LESS_THAN", k.run_of(128, 128), limit)).constancy == (1,)


@pytest.mark.parametrize(
    ("predicate", "constant", "constancy"),
    [
        ("GREATER_THAN_OR_EQUAL", 0, 128),
        ("LESS_THAN", 1024, 128),
        ("LESS_THAN", 1025, 1),
        ("LESS_THAN_OR_EQUAL", 1023, 128),
        ("LESS_THAN_OR_EQUAL", 1024, 1),
        ("GREATER_THAN", 15, 16),
        ("EQUAL", 1024, 1),
    ],
)
def test_mask_against_a_constant(predicate: str, constant: int, constancy: int) -> None:
    k = Kernel()
    limit = k.constant(constant, int_tile(32, (128,)))
    assert k.of(k.compare(predicate, k.run_of(128, 128), limit)).constancy == (constancy,)


def test_and_of_masks_changes_where_either_does() -> None:
    k = Kernel()
    run = k.run_of(128, 128)
    low = k.compare("GREATER_THAN_OR_EQUAL", run, k.constant(0, run.type))
    high = k.compare("LESS_THAN", run, k.splat(k.divisible(k.n, 32), 128))
    assert k.of(k.add(ct.AndIOp, [low, high])).constancy == (32,)


def test_bounds_decide_comparisons() -> None:
    k = Kernel()
    small = k.bounded(k.x, 0, 9)
    yes, no = (
        k.compare("LESS_THAN", small, k.constant(10)),
        k.compare("EQUAL", small, k.constant(-1)),
    )
    facts = k.facts()
    assert (facts[yes].constant, facts[no].constant) == (1, 0)


def test_quotient_of_an_aligned_run_is_constant_in_it() -> None:
    k = Kernel()
    width = k.splat(k.bounded(k.divisible(k.n, 16), 1, None), 64)
    down, zero = (k.divi(k.run_of(64, 64), width, r) for r in ("NEGATIVE_INF", "ZERO"))
    up = k.divi(k.run_of(64, 64), width, "POSITIVE_INF")
    facts = k.facts()
    assert facts[down].constancy == (16,)
    assert facts[zero].constancy == (1,)  # rounds up below zero
    assert facts[up].constancy == (1,)


def test_remainder_of_an_aligned_run_is_a_run() -> None:
    k = Kernel()
    run = k.bounded(k.run_of(64, 64), 0, None)
    facts = k.of(k.signed(ct.RemIOp, run, k.splat(k.divisible(k.n, 16), 64)))
    assert (facts.contiguity, facts.divisibility) == ((16,), (16,))


def test_sum_that_may_wrap_has_no_bounds() -> None:
    k = Kernel()
    free, promised = k.addi(k.x, k.constant(8)), k.addi(k.x, k.constant(8), "NO_SIGNED_WRAP")
    facts = k.facts()
    assert (facts[free].lower, facts[free].upper) == (None, None)
    assert facts[promised].lower == -(2**31) + 8


def test_truncation_drops_divisors_and_bounds_that_it_breaks() -> None:
    k = Kernel()
    overflow = at.IntegerOverflowAttr(at.IntegerOverflow.NONE)
    value = k.bounded(k.divisible(k.x, 1024), 0, 4096)
    facts = k.of(k.add(ct.TruncIOp, [value], int_tile(8), overflow=overflow))
    assert (facts.lower, facts.upper, facts.divisor) == (None, None, 256)


def test_select_is_constant_where_condition_and_arms_are() -> None:
    k = Kernel()
    run = k.run_of(128, 128)
    mask = k.compare("LESS_THAN", run, k.splat(k.divisible(k.n, 8), 128))
    facts = k.of(k.add(ct.SelectOp, [mask, run, k.constant(0, run.type)], run.type))
    assert facts.contiguity == (1,)
    other = Kernel()
    run = other.run_of(128, 128)
    mask = other.compare("LESS_THAN", run, other.splat(other.divisible(other.n, 8), 128))
    shifted = other.addi(run, other.constant(1024, run.type))
    assert other.of(other.add(ct.SelectOp, [mask, run, shifted], run.type)).contiguity == (8,)


def test_groups_promised_by_div_by_every_along() -> None:
    k = Kernel()
    value = k.splat(k.x, 4, 16)
    predicate = at.DivByAttr(IntAttr(4), IntAttr(8), IntAttr(1))
    facts = k.of(k.add(ct.AssumeOp, [value], predicate=predicate))
    assert facts.contiguity == (1, 8)
    assert facts.divisibility[1] == 4


def test_groups_of_odd_size_give_only_the_runs_that_fit_in_them() -> None:
    k = Kernel()
    predicate = at.DivByAttr(IntAttr(64), IntAttr(12), IntAttr(0))
    facts = k.of(k.add(ct.AssumeOp, [k.splat(k.x, 16)], predicate=predicate))
    assert (facts.contiguity, facts.divisibility) == ((4,), (4,))


def test_shifted_run_is_constant_only_if_aligned() -> None:
    k = Kernel()
    aligned, unaligned = k.run_of(64, 16), k.run_of(64, 2)
    four = k.constant(4, aligned.type)
    facts_of = [k.signed(ct.ShRIOp, run, four) for run in (aligned, unaligned)]
    facts = k.facts()
    assert [facts[value].constancy for value in facts_of] == [(16,), (2,)]


def test_masking_low_bits_makes_steps_and_masking_high_bits_runs() -> None:
    k = Kernel()
    run = k.run_of(64, 64)
    steps = k.add(ct.AndIOp, [run, k.constant(-8, run.type)])
    runs = k.add(ct.AndIOp, [run, k.constant(7, run.type)])
    again = k.add(ct.OrIOp, [steps, runs])
    facts = k.facts()
    assert (facts[steps].constancy, facts[steps].divisor) == ((8,), 8)
    assert (facts[runs].contiguity, facts[runs].upper) == ((8,), 7)
    assert facts[again].contiguity == (8,)


def test_same_elements_promises_constancy() -> None:
    k = Kernel()
    predicate = at.SameElementsAttr(at.IntTupleAttr((8,)))
    facts = k.of(k.add(ct.AssumeOp, [k.run_of(64, 1)], predicate=predicate))
    assert facts.constancy == (8,)


def test_induction_variable_of_a_counted_loop() -> None:
    k = Kernel()
    bounds = [k.constant(0), k.bounded(k.n, None, 100), k.constant(16)]
    op = k.loop(ct.ForOp, bounds, [])
    k.end(ct.ContinueOp)
    facts = k.of(op.regions[0].blocks[0].args[0])
    assert (facts.divisor, facts.lower, facts.upper) == (16, 0, 96)


def test_carried_pointer_keeps_the_alignment_of_its_step() -> None:
    k = Kernel()
    start = k.divisible(k.p, 64)
    op = k.loop(ct.ForOp, [k.constant(0), k.n, k.constant(1)], [start])
    carried = op.regions[0].blocks[0].args[1]
    k.end(ct.ContinueOp, k.offset(carried, k.constant(4)))
    facts = k.facts()
    assert facts[carried].divisor == 16
    assert facts[op.results[0]].divisor == 16


def test_growing_value_loses_its_upper_bound() -> None:
    k = Kernel()
    op = k.loop(ct.ForOp, [k.constant(0), k.n, k.constant(1)], [k.constant(32)])
    carried = op.regions[0].blocks[0].args[1]
    k.end(ct.ContinueOp, k.addi(carried, k.constant(8), "NO_SIGNED_WRAP"))
    facts = k.facts()
    assert (facts[carried].divisor, facts[carried].lower, facts[carried].upper) == (8, 32, None)


def test_results_join_the_ways_out() -> None:
    k = Kernel()
    regions: list[Region] = []
    for value in (48, 32):
        k.blocks.append(Block())
        regions.append(Region(k.blocks[-1]))
        k.end(ct.YieldOp, k.constant(value))
    op = ct.IfOp.create(operands=[k.flag], regions=regions, result_types=[int_tile(32)])
    k.block.add_op(op)
    facts = k.of(op.results[0])
    assert (facts.divisor, facts.lower, facts.upper) == (16, 32, 48)


def test_result_of_a_loop_is_what_break_passes() -> None:
    k = Kernel()
    op = k.loop(ct.LoopOp, [], [k.constant(5)])
    k.blocks.append(Block())
    then = Region(k.blocks[-1])
    k.end(ct.BreakOp, k.constant(24))
    k.blocks[-1].add_op(ct.IfOp.create(operands=[k.flag], regions=[then, Region()]))
    k.end(ct.ContinueOp, k.constant(7))
    assert k.of(op.results[0]).constant == 24


def test_tile_block_ids_are_not_negative() -> None:
    k = Kernel()
    op = ct.GetTileBlockIdOp.create(result_types=[int_tile(32)] * 3)
    k.block.add_op(op)
    facts = k.of(op.results[2])
    assert (facts.lower, facts.upper) == (0, (1 << 24) - 2)


def test_views_know_alignment_and_index_space() -> None:
    k = Kernel()
    element = POINTER.element_type.pointee
    view_type = TensorViewType(element, (DYNAMIC, 100), (100, 1))
    view = ct.MakeTensorViewOp.build(
        operands=[k.divisible(k.p, 16), [k.bounded(k.n, 1, 64)], []], result_types=[view_type]
    )
    tiles = ct.MakePartitionViewOp.create(
        operands=[view.result], result_types=[PartitionViewType((16, 32), view_type, (1, 0))]
    )
    space = ct.GetIndexSpaceShapeOp.create(operands=[tiles.result], result_types=[int_tile(32)] * 2)
    for op in (view, tiles, space):
        k.block.add_op(op)
    facts = k.facts()
    assert facts[tiles.result].divisor == 16
    assert facts[space.results[0]].constant == 7
    assert (facts[space.results[1]].lower, facts[space.results[1]].upper) == (1, 2)


def test_address_of_a_global_has_its_alignment() -> None:
    k = Kernel()
    op = ct.GetGlobalOp.create(properties={"name": SymbolRefAttr("table")}, result_types=[POINTER])
    k.block.add_op(op)
    facts = k.facts()  # without a module around, the global is not there
    assert facts[op.result].divisor == 1
    entry = op.parent_op()
    assert entry is not None
    for alignment, divisor in ((0, 4), (64, 64)):
        global_ = ct.GlobalOp.create(
            properties={
                "sym_name": StringAttr("table"),
                "value": DenseAttr(int_tile(32, (4,)), bytes(4)),
                "alignment": IntegerAttr(alignment, i64),
                "symbol_visibility": at.SymbolVisibilityAttr(at.SymbolVisibility.PUBLIC),
            }
        )
        ct.ModuleOp.create(
            properties={"sym_name": StringAttr("m")},
            regions=[Region(Block([global_, entry]))],
        )
        assert analyze_entry(entry)[op.result].divisor == divisor
        entry.detach()
