"""canonicalize: what folds, what does not, and that meaning and locations stay."""

from __future__ import annotations

import pytest

from tests.kernels.cuda_tile_text import kernel
from tileiras.dialects.cuda_tile.text import parse_module, print_module
from tileiras.dialects.cuda_tile.verification import verify_module
from tileiras.passes.canonicalization import canonicalize

ARGUMENTS = "%x: tile<i32>, %y: tile<i32>, %c: tile<i1>, %f: tile<f32>, %p: tile<ptr<f32>>"


def canonical(body: str, sink: str = "%r : tile<i32>") -> str:
    """The canonical form of a body whose value `sink` is printed; the lines before that print.

    Arguments are called by their number: `%x` is `%arg0`, `%y` `%arg1`, `%c` `%arg2`, `%f` `%arg3`,
    `%p` `%arg4`. The print keeps the value alive.
    """
    value, type = sink.split(" : ", 1)
    text = f'{body}\n%done = print_tko "%i", {value} : {type} -> token'
    module = parse_module(kernel(text, ARGUMENTS))
    verify_module(module)
    canonicalize(module)
    verify_module(module)
    lines = [line.strip() for line in print_module(module).splitlines()[1:-2]]
    printed = lines.pop()
    assert "print_tko" in printed
    found = printed.split('"%i", ')[1].split(" : ")[0]
    return "\n".join([*lines, found])


FOLDS: tuple[tuple[str, str, str], ...] = (
    ("%r = addi %x, %z : tile<i32>", "%r : tile<i32>", "%arg0"),
    ("%r = subi %x, %x : tile<i32>", "%r : tile<i32>", "0"),
    ("%r = muli %x, %one : tile<i32>", "%r : tile<i32>", "%arg0"),
    ("%r = muli %x, %z : tile<i32>", "%r : tile<i32>", "0"),
    ("%r = muli %seven, %minus : tile<i32>", "%r : tile<i32>", "-21"),
    ("%r = mulhii %minus, %minus : tile<i32>", "%r : tile<i32>", "-6"),
    ("%r = divi %minus, %two signed rounding<negative_inf> : tile<i32>", "%r : tile<i32>", "-2"),
    ("%r = divi %minus, %two signed : tile<i32>", "%r : tile<i32>", "-1"),
    ("%r = divi %seven, %two signed rounding<positive_inf> : tile<i32>", "%r : tile<i32>", "4"),
    ("%r = divi %minus, %two unsigned : tile<i32>", "%r : tile<i32>", "2147483646"),
    ("%r = divi %x, %one signed : tile<i32>", "%r : tile<i32>", "%arg0"),
    ("%r = remi %minus, %two signed : tile<i32>", "%r : tile<i32>", "-1"),
    ("%r = remi %x, %one signed : tile<i32>", "%r : tile<i32>", "0"),
    ("%r = andi %x, %x : tile<i32>", "%r : tile<i32>", "%arg0"),
    ("%r = andi %x, %ones : tile<i32>", "%r : tile<i32>", "%arg0"),
    ("%r = ori %x, %z : tile<i32>", "%r : tile<i32>", "%arg0"),
    ("%r = xori %x, %x : tile<i32>", "%r : tile<i32>", "0"),
    ("%r = shli %seven, %two : tile<i32>", "%r : tile<i32>", "28"),
    ("%r = shri %minus, %one signed : tile<i32>", "%r : tile<i32>", "-2"),
    ("%r = shri %minus, %one unsigned : tile<i32>", "%r : tile<i32>", "2147483646"),
    ("%r = maxi %minus, %seven unsigned : tile<i32>", "%r : tile<i32>", "-3"),
    ("%r = mini %minus, %seven signed : tile<i32>", "%r : tile<i32>", "-3"),
    ("%r = negi %seven : tile<i32>", "%r : tile<i32>", "-7"),
    ("%r = absi %minus : tile<i32>", "%r : tile<i32>", "3"),
    ("%r = cmpi less_than %x, %x, signed : tile<i32> -> tile<i1>", "%r : tile<i1>", "false"),
    (
        "%r = cmpi greater_than %minus, %two, unsigned : tile<i32> -> tile<i1>",
        "%r : tile<i1>",
        "true",
    ),
    ("%r = exti %minus signed : tile<i32> -> tile<i64>", "%r : tile<i64>", "-3"),
    ("%r = exti %minus unsigned : tile<i32> -> tile<i64>", "%r : tile<i64>", "4294967293"),
    (
        "%e = exti %x signed : tile<i32> -> tile<i64>\n%r = trunci %e : tile<i64> -> tile<i32>",
        "%r : tile<i32>",
        "%arg0",
    ),
    ("%r = trunci %big : tile<i64> -> tile<i32>", "%r : tile<i32>", "1"),
    ("%r = itof %minus signed : tile<i32> -> tile<f16>", "%r : tile<f16>", "-3.000000e+00"),
    ("%r = iota : tile<1xi32>", "%r : tile<1xi32>", "0"),
    ("%r = assume div_by<2>, %two : tile<i32>", "%r : tile<i32>", "2"),
    (
        "%r = reshape %seven : tile<i32> -> tile<1x1xi32>",
        "%r : tile<1x1xi32>",
        "7",
    ),
    (
        "%s = reshape %seven : tile<i32> -> tile<1xi32>\n"
        "%r = broadcast %s : tile<1xi32> -> tile<8xi32>",
        "%r : tile<8xi32>",
        "7",
    ),
    ("%r = select %c, %x, %x : tile<i1>, tile<i32>", "%r : tile<i32>", "%arg0"),
    ("%r = select %t, %x, %y : tile<i1>, tile<i32>", "%r : tile<i32>", "%arg0"),
    ("%r = select %c, %t, %n : tile<i1>, tile<i1>", "%r : tile<i1>", "%arg2"),
    (
        "%e = cmpi equal %x, %y, signed : tile<i32> -> tile<i1>\n"
        "%r = select %e, %x, %y : tile<i1>, tile<i32>",
        "%r : tile<i32>",
        "%arg1",
    ),
    (
        "%e = cmpi not_equal %x, %y, signed : tile<i32> -> tile<i1>\n"
        "%r = select %e, %x, %y : tile<i1>, tile<i32>",
        "%r : tile<i32>",
        "%arg0",
    ),
    ("%a = negf %f : tile<f32>\n%r = negf %a : tile<f32>", "%r : tile<f32>", "%arg3"),
    (
        "%i = ptr_to_int %p : tile<ptr<f32>> -> tile<i64>\n"
        "%r = int_to_ptr %i : tile<i64> -> tile<ptr<f32>>",
        "%r : tile<ptr<f32>>",
        "%arg4",
    ),
    (
        "%r = offset %p, %z : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>",
        "%r : tile<ptr<f32>>",
        "%arg4",
    ),
    ("%r = bitcast %seven : tile<i32> -> tile<f32>", "%r : tile<f32>", "9.809080e-45"),
)
"""Body, the value that is printed, and what it becomes: an argument, or a constant."""

CONSTANTS = "\n".join(
    f"%{name} = constant <{element}: {value}> : tile<{element}>"
    for name, element, value in (
        ("z", "i32", "0"),
        ("one", "i32", "1"),
        ("two", "i32", "2"),
        ("seven", "i32", "7"),
        ("minus", "i32", "-3"),
        ("ones", "i32", "-1"),
        ("big", "i64", "4294967297"),
        ("t", "i1", "true"),
        ("n", "i1", "false"),
    )
)


@pytest.mark.parametrize(("body", "sink", "expected"), FOLDS)
def test_folds(body: str, sink: str, expected: str) -> None:
    """To an argument, or to one constant; nothing else is left."""
    lines = canonical(f"{CONSTANTS}\n{body}", sink).splitlines()
    if expected.startswith("%"):
        assert lines == [expected]
        return
    assert len(lines) == 2
    assert f": {expected}> : {sink.split(' : ')[1]}" in lines[0]


KEEPS: tuple[tuple[str, str], ...] = (
    ("%r = addf %f, %zf : tile<f32>", "addf"),
    ("%r = mulf %f, %onef : tile<f32>", "mulf"),
    ("%r = subf %f, %f : tile<f32>", "subf"),
    ("%r = maxf %f, %f : tile<f32>", "maxf"),
)


@pytest.mark.parametrize(("body", "kept"), KEEPS)
def test_leaves_float_arithmetic_alone(body: str, kept: str) -> None:
    """Rounding of -0, NaN payloads and flushing make these inexact."""
    constants = "%zf = constant <f32: 0.0> : tile<f32>\n%onef = constant <f32: 1.0> : tile<f32>\n"
    assert kept in canonical(constants + body, "%r : tile<f32>")


@pytest.mark.parametrize(
    "body",
    [
        "%r = divi %seven, %z signed : tile<i32>",
        "%r = remi %seven, %z unsigned : tile<i32>",
        "%r = divi %least, %ones signed : tile<i32>",
        "%r = shli %seven, %wide : tile<i32>",
    ],
)
def test_leaves_undefined_operations_alone(body: str) -> None:
    """There is no right answer to fold them to."""
    extra = (
        "\n%least = constant <i32: -2147483648> : tile<i32>"
        "\n%wide = constant <i32: 32> : tile<i32>\n"
    )
    assert body.split()[2] in canonical(CONSTANTS + extra + body)


def test_constants_go_to_the_right() -> None:
    """Of commutative operations; comparisons turn round."""
    assert "addi %arg0, %cst_7_i32" in canonical(f"{CONSTANTS}\n%r = addi %seven, %x : tile<i32>")
    compared = canonical(
        f"{CONSTANTS}\n%r = cmpi less_than %seven, %x, signed : tile<i32> -> tile<i1>",
        "%r : tile<i1>",
    )
    assert "cmpi greater_than %arg0, %cst_7_i32, signed" in compared


def test_adds_constants_of_a_chain() -> None:
    """But not where an overflow promise would be lost."""
    chain = "%a = addi %x, %seven{} : tile<i32>\n%r = addi %a, %two : tile<i32>"
    assert "addi %arg0, %cst_9_i32" in canonical(f"{CONSTANTS}\n{chain.format('')}")
    kept = canonical(f"{CONSTANTS}\n{chain.format(' overflow<no_signed_wrap>')}")
    assert "overflow<no_signed_wrap>" in kept


def test_product_of_an_addition_goes_to_the_left() -> None:
    """Where fuse-fma looks for it."""
    text = canonical("%m = mulf %f, %f : tile<f32>\n%r = addf %f, %m : tile<f32>", "%r : tile<f32>")
    assert "addf %0, %arg3" in text


def test_permutations_cancel() -> None:
    """A permutation and its inverse are nothing."""
    body = (
        "%i = iota : tile<8xi32>\n%a = reshape %i : tile<8xi32> -> tile<2x4xi32>\n"
        "%b = permute %a [1, 0] : tile<2x4xi32> -> tile<4x2xi32>\n"
        "%r = permute %b [1, 0] : tile<4x2xi32> -> tile<2x4xi32>"
    )
    assert canonical(body, "%r : tile<2x4xi32>").splitlines() == [
        "%0 = iota : tile<8xi32>",
        "%reshape = reshape %0 : tile<8xi32> -> tile<2x4xi32>",
        "%reshape",
    ]


def test_reshapes_and_broadcasts_merge() -> None:
    """Two in a row are one."""
    body = (
        "%a = reshape %x : tile<i32> -> tile<1xi32>\n"
        "%b = reshape %a : tile<1xi32> -> tile<1x1xi32>\n"
        "%d = broadcast %b : tile<1x1xi32> -> tile<4x1xi32>\n"
        "%r = broadcast %d : tile<4x1xi32> -> tile<4x8xi32>"
    )
    assert canonical(body, "%r : tile<4x8xi32>").splitlines() == [
        "%reshape = reshape %arg0 : tile<i32> -> tile<1x1xi32>",
        "%bcast = broadcast %reshape : tile<1x1xi32> -> tile<4x8xi32>",
        "%bcast",
    ]


def test_select_of_one_and_zero_is_an_extension() -> None:
    """And of false and true a negation."""
    widened = canonical(
        f"{CONSTANTS}\n%r = select %c, %one, %z : tile<i1>, tile<i32>",
    )
    assert "exti %arg2 unsigned : tile<i1> -> tile<i32>" in widened
    negated = canonical(
        f"{CONSTANTS}\n%r = select %c, %n, %t : tile<i1>, tile<i1>", "%r : tile<i1>"
    )
    assert "xori %arg2, %true" in negated


REMAINDER = """
%d = constant <i32: {divisor}> : tile<i32>
%q = remi %x, %d {sign} : tile<i32>
%below = cmpi less_than %q, %z, signed : tile<i32> -> tile<i1>
%unequal = cmpi not_equal %q, %z, signed : tile<i32> -> tile<i1>
%moves = andi %below, %unequal : tile<i1>
%moved = addi %q, {added} : tile<i32>
%r = select %moves, %moved, %q : tile<i1>, tile<i32>
"""


def remainder(divisor: int, sign: str = "signed", added: str = "%d") -> str:
    """The canonical form of a remainder with the sign of the divisor, as clients write it."""
    return canonical(CONSTANTS + REMAINDER.format(divisor=divisor, sign=sign, added=added))


@pytest.mark.parametrize("divisor", [2, 16, 1 << 30])
def test_remainder_by_a_power_of_two_is_a_mask(divisor: int) -> None:
    """Whatever the sign of the number."""
    text = remainder(divisor)
    assert f"<i32: {divisor - 1}>" in text
    assert "andi %arg0, " in text and "remi" not in text and "select" not in text


@pytest.mark.parametrize(
    ("divisor", "sign", "added"),
    [(12, "signed", "%d"), (-16, "signed", "%d"), (16, "unsigned", "%d"), (16, "signed", "%two")],
)
def test_other_remainders_stay(divisor: int, sign: str, added: str) -> None:
    """Only one question is asked less."""
    text = remainder(divisor, sign, added)
    assert "remi %arg0, " in text and "select" in text and "andi" not in text


def test_a_sign_is_asked_for_once() -> None:
    """In either order; not of two numbers."""
    asked = "%a = cmpi less_than %x, %z, signed : tile<i32> -> tile<i1>\n"
    other = "%b = cmpi not_equal {}, %z, signed : tile<i32> -> tile<i1>\n"
    for pair in ("%a, %b", "%b, %a"):
        both = f"{CONSTANTS}\n{asked}{{}}%r = andi {pair} : tile<i1>"
        assert "andi" not in canonical(both.format(other.format("%x")), "%r : tile<i1>")
        assert "andi" in canonical(both.format(other.format("%y")), "%r : tile<i1>")


@pytest.mark.parametrize("sign", ["signed", "unsigned"])
def test_widened_condition_compared_with_zero_is_the_condition(sign: str) -> None:
    """Or its negation."""
    wide = f"%w = exti %c {sign} : tile<i1> -> tile<i32>\n%z = constant <i32: 0> : tile<i32>\n"
    question = "%r = cmpi {}, signed : tile<i32> -> tile<i1>"
    assert canonical(wide + question.format("not_equal %w, %z"), "%r : tile<i1>") == "%arg2"
    assert canonical(wide + question.format("not_equal %z, %w"), "%r : tile<i1>") == "%arg2"
    negated = canonical(wide + question.format("equal %w, %z"), "%r : tile<i1>")
    assert "xori %arg2, %true" in negated and "cmpi" not in negated


def test_other_comparisons_of_widened_values_stay() -> None:
    """With other numbers, by order, and of what is no condition."""
    wide = (
        "%w = exti %c unsigned : tile<i1> -> tile<i32>\n%z = constant <i32: 0> : tile<i32>\n"
        "%two = constant <i32: 2> : tile<i32>\n%l = exti %x signed : tile<i32> -> tile<i64>\n"
        "%zl = constant <i64: 0> : tile<i64>\n"
    )
    for question in (
        "cmpi not_equal %w, %two, signed : tile<i32> -> tile<i1>",
        "cmpi greater_than %w, %z, signed : tile<i32> -> tile<i1>",
        "cmpi not_equal %l, %zl, signed : tile<i64> -> tile<i1>",
    ):
        assert "cmpi" in canonical(f"{wide}%r = {question}", "%r : tile<i1>")


def test_select_on_a_negation_swaps_its_arms() -> None:
    """So that the negation is dead."""
    text = canonical(
        f"{CONSTANTS}\n%k = xori %c, %t : tile<i1>\n%r = select %k, %x, %y : tile<i1>, tile<i32>"
    )
    assert text.splitlines()[0] == "%0 = select %arg2, %arg1, %arg0 : tile<i1>, tile<i32>"


def test_dead_code_goes_and_effects_stay() -> None:
    """Pure chains vanish; stores, prints and asserts do not."""
    text = (
        "%i = iota : tile<8xi32>\n%j = negi %i : tile<8xi32>\n"
        'assert %c, "holds" : tile<i1>\n'
        "%l, %t = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token"
    )
    lines = canonical(text, "%x : tile<i32>").splitlines()
    assert [line.split()[0] for line in lines] == ["assert", "%result,", "%arg0"]


def test_known_condition_takes_a_branch() -> None:
    """Its values replace the results."""
    body = (
        f"{CONSTANTS}\n%r = if %t -> (tile<i32>) {{\n%a = negi %x : tile<i32>\n"
        "yield %a : tile<i32>\n} else {\nyield %y : tile<i32>\n}"
    )
    assert canonical(body).splitlines() == ["%0 = negi %arg0 : tile<i32>", "%0"]


def test_branch_that_breaks_ends_its_block() -> None:
    """What followed the if never ran."""
    body = (
        f"{CONSTANTS}\n%r = loop : tile<i32> {{\nif %t {{\nbreak %x : tile<i32>\n}}\n"
        'assert %c, "never" : tile<i1>\ncontinue\n}'
    )
    lines = canonical(body).splitlines()
    assert "break %arg0 : tile<i32>" in lines
    assert not any("assert" in line for line in lines)


def test_unused_results_of_an_if_go() -> None:
    """And what only they needed."""
    body = (
        "%q:2 = if %c -> (tile<i32>, tile<i32>) {\n%a = negi %x : tile<i32>\n"
        "yield %a, %x : tile<i32>, tile<i32>\n} else {\nyield %x, %y : tile<i32>, tile<i32>\n}\n"
        "%r = negi %q#1 : tile<i32>"
    )
    text = canonical(body)
    assert text.count("negi") == 1
    assert "if %arg2 -> (tile<i32>) {" in text


def test_negated_condition_swaps_the_branches() -> None:
    """And an else that does nothing goes."""
    body = (
        f"{CONSTANTS}\n%k = xori %c, %t : tile<i1>\n"
        'if %k {\n} else {\nassert %c, "a" : tile<i1>\n}'
    )
    lines = canonical(body, "%x : tile<i32>").splitlines()
    assert lines == ["if %arg2 {", 'assert %arg2, "a" : tile<i1>', "}", "%arg0"]


LOOP = (
    "%r = for %i in (%{} to %{}, step %{}) : tile<i32> "
    "iter_values(%s = %x) -> (tile<i32>) {{\n{}\n}}"
)
BODY = "%a = addi %s, %i : tile<i32>\ncontinue %a : tile<i32>"


def test_loop_that_never_runs_gives_its_initial_values() -> None:
    """The bounds are known and the range is empty."""
    assert canonical(f"{CONSTANTS}\n{LOOP.format('two', 'one', 'one', BODY)}") == "%arg0"


def test_loop_that_runs_once_is_its_body() -> None:
    """With the lower bound for the induction variable."""
    text = canonical(f"{CONSTANTS}\n{LOOP.format('two', 'seven', 'seven', BODY)}")
    assert text.splitlines()[-2:] == ["%0 = addi %arg0, %cst_2_i32 : tile<i32>", "%0"]


@pytest.mark.parametrize(
    ("bounds", "body"),
    [
        (("one", "seven", "two"), BODY),
        (("one", "seven", "z"), BODY),
        (("one", "seven", "minus"), BODY),
        (("one", "x", "two"), BODY),
        (
            ("two", "seven", "seven"),
            f"if %c {{\ncontinue %s : tile<i32>\n}}\n{BODY}",
        ),
    ],
    ids=["runs-often", "step-zero", "step-negative", "unknown-bound", "continues-early"],
)
def test_other_loops_stay(bounds: tuple[str, str, str], body: str) -> None:
    """Trip counts that are not known to be one, and bodies that leave early."""
    assert "for %loopIdx" in canonical(f"{CONSTANTS}\n{LOOP.format(*bounds, body)}")


def test_tokens_that_wait_for_nothing_are_not_two_tiles() -> None:
    """And each token once."""
    body = (
        "%a = make_token : token\n"
        "%l, %t = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token\n"
        "%j = join_tokens %a, %t, %t : token\n"
        "%s = store_ptr_tko weak %p, %l token=%j : tile<ptr<f32>>, tile<f32> -> token"
    )
    text = canonical(body, "%x : tile<i32>")
    assert "join_tokens" not in text
    assert "token=%result_token" in text


def test_known_sizes_of_a_tensor() -> None:
    """From the type, or from the operands of its maker where their type is the asked one."""
    body = (
        "%v = make_tensor_view %p, shape = [4, %x], strides = [%x, 1] : "
        "tile<i32> -> tensor_view<4x?xf32, strides=[?,1]>\n"
        "%s:2 = get_tensor_shape %v : tensor_view<4x?xf32, strides=[?,1]> -> tile<i32>\n"
        "%r = muli %s#0, %s#1 : tile<i32>"
    )
    lines = canonical(body).splitlines()
    assert lines[-2:] == ["%0 = muli %arg0, %cst_4_i32 : tile<i32>", "%0"]


def test_locations_of_folded_operations_stay() -> None:
    """A new constant is where the operation was."""
    text = (
        "entry @k() {\n  %a = constant <i32: 2> : tile<i32>\n"
        '  %b = addi %a, %a : tile<i32> loc("user.py":3:4)\n'
        '  %t = print_tko "%i", %b : tile<i32> -> token\n}\n'
    )
    module = parse_module(text)
    canonicalize(module)
    assert '#loc1 = loc("user.py":3:4)' in print_module(module, debug_info=True).replace(
        "#loc2", "#loc1"
    )
    constant = list(module.walk())[3]
    assert constant.name == "cuda_tile.constant"
    assert str(constant.location) == 'loc("user.py":3:4)'


@pytest.mark.parametrize(
    ("power", "type", "products"),
    [
        ("fpowi %f, %two : tile<f32>, tile<i32>", "f32", 1),
        ("fpowi %f, %three : tile<f32>, tile<i32>", "f32", 2),
        ("fpowi %f, %four : tile<f32>, tile<i32>", "f32", 2),
        ("pow %f, %twof : tile<f32>", "f32", 1),
        ("fpowi %h, %two : tile<f16>, tile<i32>", "f16", 1),
    ],
)
def test_small_power_is_a_product(power: str, type: str, products: int) -> None:
    """Of as few factors as it takes."""
    text = canonical(f"{POWERS}\n%r = {power}", f"%r : tile<{type}>")
    assert text.count("mulf") == products
    assert "pow" not in text


@pytest.mark.parametrize(
    ("power", "type"),
    [
        ("fpowi %f, %minus : tile<f32>, tile<i32>", "f32"),
        ("fpowi %f, %x : tile<f32>, tile<i32>", "f32"),
        ("fpowi %h, %three : tile<f16>, tile<i32>", "f16"),
        ("pow %f, %half : tile<f32>", "f32"),
        ("pow %f, %f : tile<f32>", "f32"),
    ],
)
def test_other_powers_stay(power: str, type: str) -> None:
    """Unknown, broken, negative ones; and f16, of which each product would be rounded."""
    text = canonical(f"{POWERS}\n%r = {power}", f"%r : tile<{type}>")
    assert "pow" in text
    assert "mulf" not in text


POWERS = "\n".join(
    (
        *(
            f"%{name} = constant <{element}: {value}> : tile<{element}>"
            for name, element, value in (
                ("two", "i32", "2"),
                ("three", "i32", "3"),
                ("four", "i32", "4"),
                ("minus", "i32", "-2"),
                ("twof", "f32", "2.0"),
                ("half", "f32", "0.5"),
            )
        ),
        "%h = ftof %f : tile<f32> -> tile<f16>",
    )
)
