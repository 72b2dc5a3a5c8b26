"""Reads cuda_tile programs as text: the custom form, the generic form, or both mixed.

A file holds entries and globals, or a `cuda_tile.module` around them, or a `builtin.module` around
that. Every operation gets its `loc(..)`, or else the place in the text where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    FileLineColLoc,
    FunctionType,
    IntAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import SymbolVisibility, SymbolVisibilityAttr
from tileiras.dialects.cuda_tile.text.generic_parser import GenericParser
from tileiras.dialects.cuda_tile.text.lexer import Token
from tileiras.dialects.cuda_tile.text.memory_parsers import MEMORY_PARSERS
from tileiras.dialects.cuda_tile.text.op_parsers import OP_PARSERS
from tileiras.dialects.cuda_tile.text.printer import PRODUCER_COMMENT, UNNAMED_MODULE
from tileiras.dialects.cuda_tile.text.recovery import TooManyMistakes
from tileiras.suggestions import did_you_mean

OTHER_NAMES = {"fpowf": "pow", "print": "print_tko"}
"""Mnemonics of other versions of the text form."""


def parse_module(text: str, filename: str = "<stdin>") -> BuiltinModuleOp:
    """The program of a text; raises ParseError, which says where the text is wrong."""
    parser = Parser(text, filename)
    parser.resolve_definitions()
    return parser.program()


class Parser(GenericParser):
    """Parses whole programs."""

    def __init__(self, text: str, filename: str):
        super().__init__(text, filename)
        self._stray_at: dict[Operation, Token] = {}
        self.implicit: set[Operation | None] = set()
        """Terminators that the text leaves out; they stand where their region's operation does."""

    # Top level -------------------------------------------------------------------------------

    def program(self) -> BuiltinModuleOp:
        """Everything up to the end of the text."""
        read = Block()
        strays: list[Operation] = []
        with suppress(TooManyMistakes):
            while self.next_start() < len(self.text):
                self.add_operation(read, lambda: self._top_level(strays), self.is_mnemonic)
            self._check_strays(strays)
        self.raise_mistakes()
        top = Block()
        loose = Block()
        for op in list(read.ops):
            op.detach()
            match op:
                case BuiltinModuleOp():
                    for inner in list(op.body.block.ops):
                        inner.detach()
                        top.add_op(inner)
                case ct.ModuleOp():
                    top.add_op(op)
                case _:
                    loose.add_op(op)
        if loose.first_op is not None or top.first_op is None:
            if top.first_op is not None:
                self.fail("entries and globals stand beside a module, expected all inside it")
            properties: dict[str, Attribute] = {"sym_name": StringAttr(UNNAMED_MODULE)}
            if self.text.startswith(PRODUCER_COMMENT):
                producer = self.text.split("\n", 1)[0].removeprefix(PRODUCER_COMMENT)
                properties["producer"] = StringAttr(producer)
            top.add_op(ct.ModuleOp.create(properties=properties, regions=[Region(loose)]))
        return BuiltinModuleOp(Region(top))

    def _top_level(self, strays: list[Operation]) -> Operation:
        """One operation that may stand outside of entries; all others are kept as strays."""
        while self.peek().kind == "hash":
            self.skip_definition()
        if self.peek().kind == "end":
            return BuiltinModuleOp([])
        start = self.peek()
        op = self.operation()
        if not isinstance(op, BuiltinModuleOp | ct.ModuleOp | ct.EntryOp | ct.GlobalOp):
            self._stray_at[op] = start
            strays.append(op)
        return op

    def _check_strays(self, strays: list[Operation]) -> None:
        """Tells what is wrong with operations outside of entries, besides their standing there."""
        from tileiras.dialects.cuda_tile.verification import mistakes_of

        for op in strays:
            start = self._stray_at[op]
            op.detach()
            for found in mistakes_of(op):
                mistake = self.error_at(found.message, start.start)
                mistake.location = found.location or mistake.location
                self.record(mistake)
            text = f"found {start.shown}, expected a module, an entry or a global"
            self.record(self.error_at(text, start.start))

    def operation(self) -> Operation:
        """One operation with its results and location."""
        start = self.peek()
        groups = self.result_groups()
        token = self.peek()
        if token.kind == "string":
            op = self.generic_operation()
        else:
            op = self.custom_operation()
        op.location = self.trailing_location(start)  # type: ignore[assignment]
        for region in op.regions:
            last = region.first_block.last_op if region.first_block is not None else None
            if last is not None and last in self.implicit:
                last.location = op.location
        self.bind_results(op, groups)
        return op

    def trailing_location(self, start: Token) -> Attribute:
        """`loc(..)`, or the place of the operation in the text."""
        loc = self.optional_location()
        if loc is not None:
            return loc
        place = self.place(start.start)
        return FileLineColLoc(
            StringAttr(place.filename), IntAttr(place.line), IntAttr(place.column)
        )

    def custom_operation(self) -> Operation:
        """An operation in its custom form, with or without `cuda_tile.`."""
        token = self.expect_kind("word", "an operation")
        if token.text in ("module", "builtin.module"):
            return self.builtin_module()
        mnemonic = token.text.removeprefix("cuda_tile.")
        name = f"cuda_tile.{OTHER_NAMES.get(mnemonic, mnemonic)}"
        row = OP_PARSERS.get(name) or MEMORY_PARSERS.get(name)
        if row is not None:
            return row[0](self, row[1])
        with_region = _REGION_PARSERS.get(name)
        if with_region is None:
            label = did_you_mean(mnemonic, _mnemonics())
            self.fail(f"unknown operation {token.shown}", token, label)
        return with_region(self)

    def builtin_module(self) -> BuiltinModuleOp:
        """`module { .. }`."""
        if self.peek().kind == "symbol":
            self.take()
        if self.accept("attributes"):
            self.dictionary()
        return BuiltinModuleOp(self.region(()))

    def _trailing_dictionary(self, op: Operation) -> Operation:
        """The attributes that may follow the regions of an `if`, `for` or `loop`."""
        if self.peek().text == "{":
            op.attributes |= self.dictionary().data
        return op

    # Regions ---------------------------------------------------------------------------------

    def region(
        self,
        arguments: Sequence[tuple[Token, Attribute]],
        implicit: type[Operation] | None = None,
    ) -> Region:
        """`{ .. }` with block arguments that were named before it.

        `implicit` is the terminator that an unterminated block gets.
        """
        opening = self.expect("{")
        self.open_region(opening)
        block = Block(arg_types=[type for _, type in arguments])
        for (token, _), argument in zip(arguments, block.args):
            self.define(token.text, (argument,), token)
        while self.peek().text != "}":
            if self.peek().kind == "end":
                unclosed = ("this '{' is not closed", opening)
                self.fail("found the end of the text, expected '}'", related=unclosed)
            self.add_operation(block, self.operation, self.is_mnemonic)
        self.take()
        self.close_region()
        if implicit is not None and not isinstance(block.last_op, _TERMINATORS):
            terminator = implicit.create()
            self.implicit.add(terminator)
            block.add_op(terminator)
        return Region(block)

    def bindings(self) -> tuple[list[Token], list[SSAValue], list[Any]]:
        """`(%a = %b, ..)`: names, values and how they were named."""

        def binding() -> Any:
            token = self.expect_kind("value", "the name of an argument")
            self.expect("=")
            return token, self.use()

        pairs: list[Any] = self.listed("(", ")", binding)
        return [pair[0] for pair in pairs], [pair[1].value for pair in pairs], [p[1] for p in pairs]

    # Operations with regions -----------------------------------------------------------------

    def module(self) -> Operation:
        """`module @name attributes {producer = ".."} { .. }`."""
        properties: dict[str, Attribute] = {"sym_name": StringAttr(self.symbol("a name"))}
        if self.accept("attributes"):
            producer = self.dictionary().data.get("producer")
            if producer is not None:
                properties["producer"] = producer
        return ct.ModuleOp.create(properties=properties, regions=[self.region(())])

    def entry(self) -> Operation:
        """`entry @name(%a: T) optimization_hints=<..> { .. }`."""
        name = self.symbol("the name of an entry")
        arguments = self.typed_arguments()
        types = [type for _, type in arguments]
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "function_type": FunctionType.from_lists(types, []),
        }
        if self.accept("optimization_hints"):
            self.expect("=")
            properties["optimization_hints"] = self.hints()
        body = self.region(arguments, ct.ReturnOp)
        return ct.EntryOp.create(properties=properties, regions=[body])

    def global_(self) -> Operation:
        """`global private constant @name alignment = 16 <i32: 1> : tile<4xi32>`."""
        visibility = SymbolVisibility.PUBLIC
        properties: dict[str, Attribute] = {}
        while self.peek().kind == "word":
            word = self.choice(("public", "private", "constant"), "a kind of global")
            if word == "constant":
                properties["constant"] = UnitAttr()
            else:
                visibility = SymbolVisibility(word)
        properties["symbol_visibility"] = SymbolVisibilityAttr(visibility)
        properties["sym_name"] = StringAttr(self.symbol("the name of a global"))
        alignment = 0
        if self.accept("alignment"):
            self.expect("=")
            alignment = self.integer("an alignment")
        properties["alignment"] = IntegerAttr(alignment, i64)
        properties["value"] = self.dense()
        return ct.GlobalOp.create(properties=properties)

    def if_(self) -> Operation:
        """`if %c -> (T) { .. } else { .. }`."""
        condition = self.use()
        types = self.result_types() if self.accept("->") else []
        implicit = None if types else ct.YieldOp
        regions = [self.region((), implicit), Region()]
        if self.accept("else"):
            regions[1] = self.region((), implicit)
        op = ct.IfOp.create(operands=[condition.value], result_types=types, regions=regions)
        return self._trailing_dictionary(op)

    def for_(self) -> Operation:
        """`for %i in (%a to %b, step %c) : T iter_values(%x = %y) -> (T) { .. }`."""
        properties: dict[str, Attribute] = {}
        if self.accept("unsigned"):
            properties["unsignedCmp"] = UnitAttr()
        induction = self.expect_kind("value", "the name of the induction variable")
        self.expect("in")
        self.expect("(")
        bounds = [self.use()]
        self.expect("to")
        bounds.append(self.use())
        self.expect(",")
        self.expect("step")
        bounds.append(self.use())
        self.expect(")")
        operands, type = self.uniform(bounds)
        arguments = [(induction, type)]
        results: list[Attribute] = []
        if self.accept("iter_values"):
            names, values, uses = self.bindings()
            self.expect("->")
            results = self.result_types()
            self.check_types(uses, results)
            arguments.extend(zip(names, results))
            operands.extend(values)
        body = self.region(arguments, None if results else ct.ContinueOp)
        op = ct.ForOp.create(
            operands=operands, result_types=results, properties=properties, regions=[body]
        )
        return self._trailing_dictionary(op)

    def loop(self) -> Operation:
        """`loop iter_values(%x = %y) : T -> T { .. }`, or `loop : T { .. }`."""
        names: list[Token] = []
        values: list[SSAValue] = []
        uses: list[Any] = []
        if self.accept("iter_values"):
            names, values, uses = self.bindings()
        initial: list[Attribute] = []
        results: list[Attribute] = []
        if self.accept(":"):
            if names:
                initial = self.types()
                self.check_types(uses, initial)
                if self.accept("->"):
                    results = self.types()
            else:
                self.accept("->")
                results = self.types()
        implicit = None if initial else ct.ContinueOp
        body = self.region(list(zip(names, initial)), implicit)
        op = ct.LoopOp.create(operands=values, result_types=results, regions=[body])
        return self._trailing_dictionary(op)

    def folding(self, cls: Any) -> Operation:
        """`reduce %a dim=0 identities=[0 : i32] : T -> T (%x: T, %y: T) { .. }`."""
        uses = self.uses()
        self.expect("dim")
        self.expect("=")
        properties: dict[str, Attribute] = {"dim": IntegerAttr(self.integer("a dim"), i32)}
        if cls is ct.ScanOp:
            self.expect("reverse")
            self.expect("=")
            reverse = self.choice(("true", "false"), "a direction") == "true"
            properties["reverse"] = IntegerAttr(int(reverse), i1)
        self.expect("identities")
        self.expect("=")
        properties["identities"] = ArrayAttr(self.listed("[", "]", self.typed_number))  # type: ignore[arg-type]
        operands = self.typed(uses)
        self.expect("->")
        results = self.types()
        body = self.region(self.typed_arguments())
        return cls.create(
            operands=operands, result_types=results, properties=properties, regions=[body]
        )


def _mnemonics() -> list[str]:
    """Every word that begins an operation."""
    names = (*OP_PARSERS, *MEMORY_PARSERS, *_REGION_PARSERS)
    return [*(name.removeprefix("cuda_tile.") for name in names), *OTHER_NAMES]


_TERMINATORS = ct.BreakOp | ct.ContinueOp | ct.YieldOp | ct.ReturnOp
_REGION_PARSERS: dict[str, Callable[[Parser], Operation]] = {
    "cuda_tile.module": Parser.module,
    "cuda_tile.entry": Parser.entry,
    "cuda_tile.global": Parser.global_,
    "cuda_tile.if": Parser.if_,
    "cuda_tile.for": Parser.for_,
    "cuda_tile.loop": Parser.loop,
    "cuda_tile.reduce": lambda parser: parser.folding(ct.ReduceOp),
    "cuda_tile.scan": lambda parser: parser.folding(ct.ScanOp),
}
