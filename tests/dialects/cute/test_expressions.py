"""Texts of the algebra: what they stand for, and the errors of those that stand for nothing."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.dialects.cute.layout_strategies import ANY, QUICKLY
from tileiras.dialects.cute.algebra import AlgebraError, Layout
from tileiras.dialects.cute.algebra.expressions import evaluate, layout_of_text, value_text


@QUICKLY
@given(ANY)
def test_the_text_of_a_layout_is_read_back(layout: Layout) -> None:
    """Whatever its nesting."""
    assert evaluate(str(layout)) == layout


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("(8,(2,4)):(4,(1,16))", "(8,(2,4)):(4,(1,16))"),
        ("size((8,(2,4)):(4,(1,16)))", "64"),
        ("cosize((8,(2,4)):(4,(1,16)))", "78"),
        ("depth((8,(2,4)):(4,(1,16)))", "2"),
        ("compact((2,(3,4)))", "(2,(3,4)):(1,(2,6))"),
        ("row_major((2,(3,4)))", "(2,(3,4)):(12,(4,1))"),
        ("coalesce((2,(1,6)):(1,(6,2)))", "12:1"),
        ("coalesce((4,?):(1,4))", "?{div=4}:1"),
        ("coalesce((M,N):(1,M))", "M*N:1"),
        ("coalesce((?,?):(1,?))", "(?,?):(1,?)"),
        ("composition(20:2, (5,4):(4,1))", "(5,4):(8,2)"),
        ("composition((10,2):(16,4), (5,4):(1,5))", "(5,(2,2)):(16,(80,4))"),
        ("composition(?:M, (4,8):(8,1))", "(4,8):(8*M,M)"),
        ("composition((12,(4,8)):(59,(13,1)), [3:4;8:2])", "(3,(2,4)):(236,(26,1))"),
        ("complement((2,2):(1,6), 24)", "(3,2):(2,12)"),
        ("right_inverse((4,8):(8,1))", "(8,4):(4,1)"),
        ("right_inverse((2,4):(0,1))", "4:2"),
        ("left_inverse((4,8):(1,8))", "(4,2,8):(1,32,4)"),
        ("logical_divide((4,2,3):(2,1,8), 4:2)", "((2,2),(2,3)):((4,1),(2,8))"),
        ("zipped_divide((8,6):(6,1), [4;3])", "((4,3),(2,2)):((6,1),(24,3))"),
        ("tiled_divide((8,6):(6,1), [4;3])", "((4,3),2,2):((6,1),24,3)"),
        ("flat_divide((8,6):(6,1), [4;3])", "(4,3,2,2):(6,1,24,3)"),
        ("blocked_product((2,5):(5,1), (3,4):(1,3))", "(6,(5,4)):(5,(1,30))"),
        ("raked_product((2,5):(5,1), (3,4):(1,3))", "((3,2),(4,5)):((10,5),(30,1))"),
        ("(128,64):(1@0,1@1)", "(128,64):(1@0,1@1)"),
        ("crd2idx((3,(1,2)), (4,(2,3)):(1@0,(1@0@1,1@1@1)))", "3@0+1@0@1+2@1@1"),
        ("slice((_,1), (4,8):(8,1))", "(4):(8)"),
        ("select((2,3,4):(1,2,6), 2, 0)", "(4,2):(6,1)"),
        ("group((2,3,4):(1,2,6), 0, 2)", "((2,3),4):((1,2),6)"),
        ("recast((8,4):(1,8), 16, 32)", "(4,4):(1,4)"),
        ("upcast((4,?):(1,?{div=4}), 4)", "(1,?):(1,?)"),
        ("idx2crd(23, (4,(2,3)))", "(3,(1,2))"),
        ("S<3,4,3> o 0 o (8,64):(64,1)", "S<3,4,3> o 0 o (8,64):(64,1)"),
        ("composition(S<1,0,2> o (8,4):(1,8), [4;2])", "S<1,0,2> o 0 o (4,2):(1,8)"),
        ("tv_layout((4,8):(8,1), (2,1):(1,1))", "((8,4),2):((8,2),1)"),
        ("[4:1;_;8]", "[4:1;_;8]"),
    ],
)
def test_value(text: str, result: str) -> None:
    """Examples, many of them from CUTLASS's documentation."""
    assert value_text(evaluate(text)) == result


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(8,4):(1", "expected ',', found the end of"),
        ("(8,4):(1,(2,3))", r"shape \(8,4\) and stride \(1,\(2,3\)\) are not congruent"),
        ("(8,-4):(1,2)", "an extent must be positive, found -4"),
        ("8:1 9", "expected the end at column 5, found '9'"),
        ("8:1 %", "unexpected '%' at column 5"),
        ("frob(8:1)", "unknown function 'frob', expected one of size, cosize"),
        ("size(8:1, 3)", r"size does not take \(8:1, 3\)"),
        ("S<3,4,2>", "needs bits and base from 0 on, and a shift of at least bits"),
        ("3 o 4 o 8:1", "a composed layout is a swizzle or layout, an offset and a layout"),
        ("S<1,0,1> o 2:1 o 8:1", "an offset is an integer, found 2:1"),
        ("composition((4,6):(1,8), 3:3)", "neither of the stride 3 and the extent 4 divides"),
        ("composition((4,6):(1,8), 6:1)", "the extent 6 is no multiple of 4, the steps of 1"),
        (
            "composition((2,4):(4,1), (2,2):(1,1))",
            "its modes together step 2 far in the extent 2 and carry into the next",
        ),
        ("composition((2,4):(4,1), 2:-1)", "2:-1 steps backwards"),
        ("composition(8:1, 2:1@0)", "2:1@0 gives coordinates, no indices"),
        ("composition((?,4):(4,1), 2:1)", "an extent of .* before its last must be static"),
        ("complement((2,2):(2,3), 24)", "2:3 does not begin at a multiple of 4, where 2:2 ends"),
        ("complement(2:-1, 24)", "has a negative stride, it has no complement"),
        ("left_inverse((2,4):(0,1))", "several coordinates have one index"),
        ("cosize(4:-1)", "has a negative stride, its indices have no cosize"),
        ("upcast(6:1, 4)", "6:1 holds no whole groups of 4 elements"),
        ("upcast(4:3, 4)", "4:3 cannot be seen in groups of 4 elements"),
        ("upcast(4:?, 4)", r"\? is not known to be divisible by 4"),
        ("downcast(4:2, 2)", "has no mode of stride 1 that takes in 2 parts"),
        ("recast(8:1, 8, 12)", "elements of 8 bits are no elements of 12 bits"),
        ("crd2idx((1,2), 8:1)", r"coordinate \(1,2\) does not fit shape 8"),
        ("crd2idx(3, (?,8):(1,?))", "an extent before the last of .* must be static"),
        ("composition((4,8):(1,4), [2;2;2])", "a tiler of 3 modes does not fit"),
        ("zipped_divide((4,8):(1,4), [2;2;2])", "a tiler of 3 modes does not fit"),
        ("coalesce((4,8):(1,4), (1,1,1))", "has more modes than"),
        ("group((4,8):(1,4), 1, 3)", "modes 1 to 3 of .* do not exist or are none"),
        ("select((4,8):(1,4), 2)", "has no mode 2, its rank is 2"),
        ("tv_layout(4:0, 2:1)", "are not numbered from 0 on, each once"),
        ("size(" * 70 + "8:1" + ")" * 70, "nested at most 64 deep"),
    ],
)
def test_error(text: str, message: str) -> None:
    """Each says what was found and why it does not do."""
    with pytest.raises(AlgebraError, match=message):
        evaluate(text)


def test_a_shape_alone_is_a_compact_layout_where_one_is_needed() -> None:
    """And anything else is not."""
    assert layout_of_text("(2,3)") == Layout((2, 3), (1, 2))
    with pytest.raises(AlgebraError, match="expected a layout, found 'S<1,0,1>'"):
        layout_of_text("S<1,0,1>")
