"""What the public suite adds to the language for its own tests.

`testing$func` is an entry that may take and return values of any type; operations of unregistered
dialects make values of any type. The compiler knows neither.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import FunctionType, StringAttr
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Attribute, Operation, Region
from xdsl.irdl import irdl_op_definition, var_operand_def, var_region_def, var_result_def
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.checks import fail
from tileiras.dialects.cuda_tile.text.lexer import unquoted
from tileiras.dialects.cuda_tile.text.op_parsers import OP_PARSERS
from tileiras.dialects.cuda_tile.text.parser import Parser
from tileiras.dialects.cuda_tile.tile_op import TileOp

FUNCTION = "testing$func"


class TestedFunction(ct.EntryOp):
    """An entry with the rules of a function."""

    def check_semantics(self) -> None:
        """One block; what is returned is what the type says."""
        if len(self.body.blocks) != 1:
            fail(self, "region with 1 blocks")
        last = self.body.blocks[0].last_op
        found = [value.type for value in last.operands] if last is not None else []
        if found != list(self.function_type.outputs.data):
            raise VerifyException("type of return operand doesn't match function result type")


class TestedReturn(ct.ReturnOp):
    """A return that may hand over values, where it stands in a function."""

    def check_arguments(self, expected: Sequence[Attribute], of: str) -> None:
        """As in an entry, if it stands in one; a function checks the types itself."""
        top = self.parent_op()
        while top is not None and not isinstance(top, ct.EntryOp):
            top = top.parent_op()
        if not isinstance(top, TestedFunction):
            super().check_arguments(expected, of)


@irdl_op_definition
class OpaqueOp(TileOp):
    """An operation of a dialect that nobody knows."""

    name = "cuda_tile.testing$opaque"
    args = var_operand_def()
    bodies = var_region_def()
    made = var_result_def()


class SuiteParser(Parser):
    """Reads the suite's programs."""

    def custom_operation(self) -> Operation:
        """The suite's function, or an operation of ours."""
        token = self.peek()
        mnemonic = token.text.removeprefix("cuda_tile.")
        if mnemonic == "return":
            self.take()
            return OP_PARSERS[TestedReturn.name][0](self, TestedReturn)
        if mnemonic != FUNCTION:
            return super().custom_operation()
        self.take()
        name = self.symbol("the name of a function")
        arguments = self.typed_arguments()
        types = [type for _, type in arguments]
        results: list[Attribute] = []
        if self.accept("->"):
            results = self.result_types()
        if self.accept("attributes"):
            self.dictionary()
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "function_type": FunctionType.from_lists(types, results),
        }
        body = self.region(arguments, ct.ReturnOp)
        return TestedFunction.create(properties=properties, regions=[body])

    def generic_operation(self) -> Operation:
        """An operation of ours, or an opaque one."""
        name = unquoted(self.peek().text)
        if name.startswith(("cuda_tile.", "builtin.")) and not name.endswith(FUNCTION):
            return super().generic_operation()
        self.take()
        uses = self.listed("(", ")", self.use)
        properties: dict[str, Attribute] = {}
        if self.accept("<"):
            properties = dict(self.dictionary().data)
            self.expect(">")
        regions: list[Region] = []
        if self.peek().text == "(":
            regions = self.listed("(", ")", self.generic_region)  # type: ignore[assignment]
        if self.peek().text == "{":
            properties |= self.dictionary().data
        self.expect(":")
        type = self.function_type()
        if name.endswith(FUNCTION):
            return TestedFunction.create(properties=properties, regions=regions)
        operands = self.check_types(uses, list(type.inputs.data))  # type: ignore[arg-type]
        return OpaqueOp.create(operands=operands, result_types=type.outputs.data, regions=regions)


def is_own(module: BuiltinModuleOp) -> bool:
    """Whether a program has nothing of the suite's own."""
    return not any(isinstance(op, TestedFunction | OpaqueOp) for op in module.walk())


def parse_piece(text: str) -> BuiltinModuleOp:
    """The program of a piece; raises ParseError."""
    parser = SuiteParser(text, "piece.mlir")
    parser.resolve_definitions()
    return parser.program()
