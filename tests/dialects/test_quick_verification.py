"""Tables of definitions take what xDSL takes, and xDSL says what is wrong with the rest."""

from collections.abc import Callable, Iterator
from pathlib import Path

from xdsl.dialects.builtin import DenseArrayBase, StringAttr, i32
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.irdl import IRDLOperation, OpDef
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.quick_verification import verify_alone
from tileiras.driver import compile_module, read_source
from tileiras.options import CompileOptions

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
PROGRAMS = ("traced_add.mlir", "matmul.mlir", "experts.mlir")
STAGES = ("cuda_tile", "nv_tileaa", "nv_tileas", "llvm-dialect")

Change = Callable[[Operation], None]


def instances() -> Iterator[IRDLOperation]:
    """One operation of each class that the examples have in any stage, least operands first."""
    met: dict[tuple[type, int, int], None] = {}
    for program in PROGRAMS:
        source = (EXAMPLES / program).read_bytes()
        for stage in STAGES:
            options = CompileOptions(gpu_name="sm_90", emit=stage)
            text = compile_module(source, options, program).output
            for op in list(read_source(text, program).walk()):
                kind = (type(op), len(op.operands), len(op.properties))
                if isinstance(op, IRDLOperation) and kind not in met:
                    met[kind] = None
                    yield op


def changes(op: Operation) -> Iterator[tuple[str, Change]]:
    """What may be wrong with an operation; a change may also leave it right."""
    yield "as it is", lambda op: None
    sizes = DenseArrayBase.from_list(i32, [1, -1, 1])
    none = DenseArrayBase.from_list(i32, [0] * 7)
    for name in op.properties:
        yield f"without {name}", lambda op, name=name: op.properties.__delitem__(name)
        yield f"word for {name}", lambda op, name=name: set_property(op, name, StringAttr("word"))
        yield f"sizes for {name}", lambda op, name=name: set_property(op, name, sizes)
        yield f"no sizes for {name}", lambda op, name=name: set_property(op, name, none)
    yield "new property", lambda op: set_property(op, "nobody knows", StringAttr("word"))
    yield "attribute", lambda op: op.attributes.update(free=StringAttr("word"))
    yield "region", lambda op: op.add_region(Region())
    yield "two blocks", lambda op: op.add_region(Region([Block(), Block()]))
    if op.regions:
        yield "no region", lambda op: op.detach_region(0) and None
        yield "another block", lambda op: op.regions[0].add_block(Block())
    for number in range(len(op.operands)):
        yield f"without operand {number}", lambda op, number=number: leave_out(op, number)
    if op.results:
        yield "no results", lambda op: setattr(op, "results", type(op.results)(()))
    if op.operands:
        yield "an operand more", lambda op: set_operands(op, 1)
        yield "many operands more", lambda op: set_operands(op, 9)


def set_property(op: Operation, name: str, value: Attribute) -> None:
    op.properties[name] = value


def leave_out(op: Operation, number: int) -> None:
    op.operands = [value for place, value in enumerate(op.operands) if place != number]


def set_operands(op: Operation, more: int) -> None:
    op.operands = [*op.operands, *[op.operands[0]] * more]


def verdict(verify: Callable[[Operation], None], op: Operation) -> str:
    try:
        verify(op)
    except VerifyException as error:
        return str(error) or "wrong"
    return ""


def test_tables_and_definitions_say_the_same() -> None:
    taken = refused = tables = 0
    for op in instances():
        verify_alone(op)
        definition = op.get_irdl_definition()
        tables += "verify" in vars(definition)
        for what, change in changes(op):
            other = op.clone()
            change(other)
            expected = verdict(lambda op, all=definition: OpDef.verify(all, op), other)
            found = verdict(definition.verify, other)
            assert found == expected, (op.name, what)
            taken += not expected
            refused += bool(expected)
    assert tables > 90
    assert taken > 150
    assert refused > 500
