"""hoist-views: a view that does not change in a loop is made in front of it."""

from __future__ import annotations

from tests.kernels.cuda_tile_text import kernel
from tileiras.dialects.cuda_tile.text import parse_module, print_module
from tileiras.dialects.cuda_tile.verification import verify_module
from tileiras.driver import compile_module
from tileiras.ir_pass import CompileContext
from tileiras.options import CompileOptions
from tileiras.passes.cuda_tile.hoist_views import HoistViewsPass, hoist_views
from tileiras.remarks import RemarkCollector

ARGUMENTS = "%p: tile<ptr<f32>>, %n: tile<i32>, %m: tile<i32>, %c: tile<i1>"
TENSOR = "tensor_view<?xf32, strides=[1]>"
TILES = f"partition_view<tile=(16), {TENSOR}>"
VIEW = (
    "%v = make_tensor_view %p, shape = [{size}], strides = [1] : tile<i32> -> " + TENSOR + "\n"
    "%t = make_partition_view %v : " + TILES + "\n"
    "%x, %token = load_view_tko weak %t[{index}] : " + TILES + ", tile<i32> -> tile<16xf32>, token"
)
ZERO = "%zero = constant <i32: 0> : tile<i32>\n%one = constant <i32: 1> : tile<i32>\n"
INNER = "for %j in (%zero to %m, step %one) : tile<i32> {{\n{body}\ncontinue\n}}"
LOOP = ZERO + INNER.replace("%j", "%i")


def hoisted(body: str) -> list[str]:
    """The operations after the pass, one a line."""
    module = parse_module(kernel(body, ARGUMENTS))
    verify_module(module)
    hoist_views(module)
    verify_module(module)
    return [line.strip() for line in print_module(module).splitlines()[1:-2]]


def where(lines: list[str], mnemonic: str, begin: str = "for") -> str:
    """Whether an operation stands before a loop or a branch, or inside of it."""
    start = next(i for i, line in enumerate(lines) if f"{begin} " in f"{line} ")
    place = next(i for i, line in enumerate(lines) if f" {mnemonic} " in f" {line} ")
    return "before" if place < start else "inside"


def test_moves_views_and_the_arithmetic_of_their_sizes() -> None:
    """What loads through the view stays."""
    size = "%s = muli %n, %one : tile<i32>\n"
    lines = hoisted(LOOP.format(body=size + VIEW.format(size="%s", index="%i")))
    moved = ("muli", "make_tensor_view", "make_partition_view")
    assert [where(lines, op) for op in moved] == ["before"] * 3
    assert where(lines, "load_view_tko") == "inside"


def test_leaves_other_arithmetic_where_it_is() -> None:
    """Only views have a use for standing there; values of the loop would take registers."""
    other = '%s = addi %n, %one : tile<i32>\n%print = print_tko "%d", %s : tile<i32> -> token\n'
    lines = hoisted(LOOP.format(body=other + VIEW.format(size="%n", index="%i")))
    assert where(lines, "addi") == "inside"
    assert where(lines, "make_tensor_view") == "before"


def test_moves_views_out_of_all_loops() -> None:
    """From the innermost one."""
    body = INNER.format(body=VIEW.format(size="%n", index="%j"))
    assert where(hoisted(LOOP.format(body=body)), "make_tensor_view") == "before"


def test_leaves_views_in_the_loop_that_computes_their_size() -> None:
    """They move out of the inner loop only."""
    view = "%s = addi %i, %one : tile<i32>\n" + VIEW.format(size="%s", index="%j")
    lines = hoisted(LOOP.format(body=INNER.format(body=view)))
    assert where(lines, "make_tensor_view") == "inside"
    start = [i for i, line in enumerate(lines) if "for " in line]
    place = next(i for i, line in enumerate(lines) if "make_tensor_view" in line)
    assert start[0] < place < start[1]


def test_leaves_views_of_what_the_loop_carries() -> None:
    """Or counts."""
    lines = hoisted(LOOP.format(body=VIEW.format(size="%i", index="%zero")))
    assert where(lines, "make_tensor_view") == "inside"


def test_leaves_views_whose_size_must_not_be_computed_early() -> None:
    """A division by zero that never took place must not."""
    size = "%s = divi %n, %m signed : tile<i32>\n"
    lines = hoisted(LOOP.format(body=size + VIEW.format(size="%s", index="%i")))
    assert (where(lines, "divi"), where(lines, "make_tensor_view")) == ("inside", "inside")


def test_leaves_views_in_branches() -> None:
    """A kernel need not pay for what it may not use."""
    branch = f"if %c {{\n{VIEW.format(size='%n', index='%i')}\n}}"
    lines = hoisted(LOOP.format(body=branch))
    assert where(lines, "make_tensor_view", "if") == "inside"


MATMUL = """
    cuda_tile.module @m {{
      entry @matmul(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %pc: tile<ptr<f32>>, %n: tile<i32>) {{
        %a = assume div_by<16>, %pa : tile<ptr<f16>>
        %b = assume div_by<16>, %pb : tile<ptr<f16>>
        %s = assume div_by<8>, %n : tile<i32>
        %bx, %by, %bz = get_tile_block_id : tile<i32>
        %zero = constant <i32: 0> : tile<i32>
        %one = constant <i32: 1> : tile<i32>
        %init = constant <f32: 0.0> : tile<128x128xf32>
        {before}
        %sum = for %k in (%zero to %n, step %one) : tile<i32>
               iter_values(%acc = %init) -> (tile<128x128xf32>) {{
          {inside}
          %x, %t0 = load_view_tko weak %ap[%bx, %k] : {view}, tile<i32> -> tile<128x64xf16>, token
          %y, %t1 = load_view_tko weak %bp[%by, %k] : {view}, tile<i32> -> tile<128x64xf16>, token
          %z = permute %y [1, 0] : tile<128x64xf16> -> tile<64x128xf16>
          %p = mmaf %x, %z, %acc : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
          continue %p : tile<128x128xf32>
        }}
        %cv = make_tensor_view %pc, shape = [%s, %s], strides = [%s, 1]
            : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
        %cp = make_partition_view %cv
            : partition_view<tile=(128x128), tensor_view<?x?xf32, strides=[?,1]>>
        %t = store_view_tko weak %sum, %cp[%bx, %by] : tile<128x128xf32>,
            partition_view<tile=(128x128), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
        return
      }}
    }}
"""
WHILE = (
    ZERO + "%r = loop iter_values(%i = %zero) : tile<i32> -> tile<i32> {{\n"
    "%goes = cmpi less_than %i, %m, signed : tile<i32> -> tile<i1>\n"
    "if %goes {{\n{body}\n%j = addi %i, %one : tile<i32>\ncontinue %j : tile<i32>\n}}\n"
    "break %i : tile<i32>\n}}"
)


def test_moves_views_out_of_loops_with_a_condition() -> None:
    """What goes on stands in a branch there."""
    lines = hoisted(WHILE.format(body=VIEW.format(size="%n", index="%i")))
    assert where(lines, "make_partition_view", "loop") == "before"
    assert where(lines, "load_view_tko", "loop") == "inside"


def test_leaves_views_of_what_a_loop_with_a_condition_carries() -> None:
    """Or of what it computes before the condition."""
    lines = hoisted(WHILE.format(body=VIEW.format(size="%i", index="%i")))
    assert where(lines, "make_tensor_view", "loop") == "inside"


def test_leaves_views_in_other_branches_of_a_loop_with_a_condition() -> None:
    """Those that do not go on, and those in the branch that does."""
    branch = f"if %c {{{{\n{VIEW.format(size='%n', index='%i')}\n}}}}"
    lines = hoisted(WHILE.format(body=branch.format()))
    assert where(lines, "make_tensor_view", "loop") == "inside"


OPERAND = "tensor_view<?x?xf16, strides=[?,1]>"
OPERAND_TILES = f"partition_view<tile=(128x64), padding_value = zero, {OPERAND}>"
OPERAND_VIEWS = "\n".join(
    f"%{name}v = make_tensor_view %{name}, shape = [%s, %s], strides = [%s, 1]"
    f" : tile<i32> -> {OPERAND}\n%{name}p = make_partition_view %{name}v : {OPERAND_TILES}"
    for name in "ab"
)


def test_operands_come_by_tma_wherever_their_views_are_made() -> None:
    """A view in the loop of a product costs nothing: the code is the same."""
    made = []
    for place in ("before", "inside"):
        views = {"before": "", "inside": "", place: OPERAND_VIEWS}
        source = MATMUL.format(view=OPERAND_TILES, **views).encode()
        options = CompileOptions(gpu_name="sm_90", emit="ptx")
        made.append(compile_module(source, options).output.decode())
    assert "cp.async.bulk.tensor.2d.shared" in made[0] and "wgmma" in made[0]
    assert made[0] == made[1]


def test_leaves_kernels_without_products() -> None:
    module = parse_module(kernel(LOOP.format(body=VIEW.format(size="%n", index="%i")), ARGUMENTS))
    before = print_module(module)
    HoistViewsPass().apply(CompileContext(None, CompileOptions(), RemarkCollector()), module)
    assert print_module(module) == before
