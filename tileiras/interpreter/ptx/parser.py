"""Reads PTX text into a syntax tree (PTX ISA, "Directives" and "Instruction operands")."""

from __future__ import annotations

import struct
from typing import Any, NoReturn

from tileiras.interpreter.ptx.errors import PtxSyntaxError
from tileiras.interpreter.ptx.syntax import (
    Address,
    Block,
    Function,
    Group,
    Immediate,
    Instruction,
    Label,
    Module,
    Name,
    Negated,
    Pair,
    Sum,
    TargetList,
    Variable,
    Vector,
)
from tileiras.interpreter.ptx.tokens import Token, tokenize

_LINKAGE = (".extern", ".visible", ".weak", ".common")
_SPACES = (".global", ".const", ".shared", ".local", ".param", ".reg", ".tex", ".tensor")
_VECTORS = {".v2": 2, ".v4": 4, ".v8": 8}
_LINE_DIRECTIVES = (".loc", ".file")
_FLAGS = (".unified", ".managed")
_FUNCTION_DIRECTIVES = (
    ".maxnreg",
    ".maxntid",
    ".reqntid",
    ".minnctapersm",
    ".maxnctapersm",
    ".noreturn",
    ".reqnctapercluster",
    ".explicitcluster",
    ".maxclusterrank",
    ".blocksareclusters",
    ".abi_preserve",
    ".abi_preserve_control",
    ".unique",
)


def parse_module(text: str) -> Module:
    """The syntax tree of a PTX file; PtxSyntaxError with the line of what cannot be read."""
    return _Parser(tokenize(text)).module()


class _Parser:
    """A recursive-descent parser over the list of tokens."""

    def __init__(self, tokens: list[Token]):
        self.tokens = tokens
        self.at = 0

    # Tokens -----------------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def take(self) -> Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def accept(self, text: str) -> bool:
        if self.tokens[self.at].text != text or self.tokens[self.at].kind == "string":
            return False
        self.at += 1
        return True

    def expect(self, text: str) -> Token:
        if self.token.text != text:
            self.fail(f"'{text}'")
        return self.take()

    def fail(self, wanted: str) -> NoReturn:
        found = self.token.text or "the end of the text"
        raise PtxSyntaxError(f"found '{found}', expected {wanted}", self.token.line)

    def name(self) -> str:
        if self.token.kind != "name":
            self.fail("a name")
        return self.take().text

    def integer(self) -> int:
        value = self.constant()
        if not isinstance(value, int):
            self.fail("an integer")
        return value

    # Module -----------------------------------------------------------------------------------

    def module(self) -> Module:
        result = Module()
        while self.token.kind != "end":
            self.top_level(result)
        if not result.version:
            raise PtxSyntaxError("no .version directive: this is not PTX", 1)
        return result

    def top_level(self, module: Module) -> None:
        token = self.token
        match token.text:
            case ".version":
                self.take()
                module.version = self.take().text
            case ".target":
                self.take()
                module.target = self.name()
                while self.accept(","):
                    self.name()
            case ".address_size":
                self.take()
                if self.integer() != 64:
                    raise PtxSyntaxError("only addresses of 64 bits are supported", token.line)
            case ".section":
                self.skip_section()
            case ".pragma" | ".alias":
                self.skip_statement()
            case text if text in _LINE_DIRECTIVES:
                self.skip_line()
            case ";":
                self.take()
            case _:
                self.declaration(module)

    def declaration(self, module: Module) -> None:
        is_extern = False
        while self.token.text in _LINKAGE:
            is_extern |= self.take().text == ".extern"
        if self.token.text in (".entry", ".func"):
            function = self.function()
            known = module.functions.get(function.name)
            if known is None or known.body is None:
                module.functions[function.name] = function
            return
        for variable in self.variables(is_extern):
            module.variables[variable.name] = variable

    def skip_section(self) -> None:
        self.take()
        while not self.accept("{"):
            self.take()
        while not self.accept("}"):
            if self.token.kind == "end":
                self.fail("'}'")
            self.take()

    def skip_statement(self) -> None:
        while not self.accept(";"):
            if self.token.kind == "end":
                self.fail("';'")
            self.take()

    def skip_line(self) -> None:
        line = self.token.line
        while self.token.line == line and self.token.kind != "end":
            self.take()

    # Functions --------------------------------------------------------------------------------

    def function(self) -> Function:
        line = self.token.line
        is_entry = self.take().text == ".entry"
        while self.token.text in (".attribute",):
            self.take()
            self.group_tokens()
        results = self.parameters() if self.token.text == "(" else ()
        function = Function(self.name(), is_entry, line, results)
        if self.token.text == "(":
            function.parameters = self.parameters()
        while self.token.kind == "directive":
            directive = self.take().text
            if directive == ".pragma":
                self.skip_statement()
                continue
            if directive in _LINE_DIRECTIVES:
                self.at -= 1
                self.skip_line()
                continue
            if directive not in _FUNCTION_DIRECTIVES:
                raise PtxSyntaxError(f"unknown directive '{directive}'", line)
            function.directives[directive] = self.numbers()
        if not self.accept(";"):
            function.body = self.block()
        return function

    def group_tokens(self) -> None:
        self.expect("(")
        while not self.accept(")"):
            self.take()

    def numbers(self) -> tuple[int, ...]:
        if self.token.kind != "integer":
            return ()
        found = [self.integer()]
        while self.accept(","):
            found.append(self.integer())
        return tuple(found)

    def parameters(self) -> tuple[Variable, ...]:
        self.expect("(")
        found: list[Variable] = []
        while not self.accept(")"):
            if self.token.text == "." or self.token.kind == "end":
                self.fail("a parameter")
            found.extend(self.variables(False, ends=False))
            self.accept(",")
        return tuple(found)

    def block(self) -> Block:
        self.expect("{")
        result = Block()
        while not self.accept("}"):
            if self.token.kind == "end":
                self.fail("'}'")
            self.statement(result)
        return result

    def statement(self, block: Block) -> None:
        token = self.token
        if token.kind == "directive":
            self.directive(block)
        elif token.text == "{":
            block.statements.append(self.block())
        elif token.text == ";":
            self.take()
        elif token.kind == "name" and self.tokens[self.at + 1].text == ":":
            self.label(block)
        else:
            block.statements.append(self.instruction())

    def label(self, block: Block) -> None:
        token = self.take()
        self.expect(":")
        match self.token.text:
            case ".branchtargets" | ".calltargets":
                self.take()
                targets = [self.name()]
                while self.accept(","):
                    targets.append(self.name())
                self.expect(";")
                block.statements.append(TargetList(token.text, tuple(targets), token.line))
            case ".callprototype":
                self.skip_statement()
            case _:
                block.statements.append(Label(token.text, token.line))

    def directive(self, block: Block) -> None:
        text = self.token.text
        if text in _LINE_DIRECTIVES:
            self.skip_line()
        elif text in (".pragma", ".noreturn"):
            self.skip_statement()
        elif text == ".section":
            self.skip_section()
        else:
            is_extern = self.accept(".extern")
            block.statements.extend(self.variables(is_extern))

    # Variables --------------------------------------------------------------------------------

    def variables(self, is_extern: bool, ends: bool = True) -> list[Variable]:
        line, space = self.token.line, self.take().text
        if space not in _SPACES:
            raise PtxSyntaxError(f"unknown directive '{space}'", line)
        align, vector, type_ = 0, 1, ""
        while self.token.kind == "directive":
            text = self.take().text
            if text == ".align":
                align = self.integer()
            elif text == ".attribute":
                self.group_tokens()
            elif text in _VECTORS:
                vector = _VECTORS[text]
            elif text == ".ptr":
                self.pointer_attributes()
            elif text not in _FLAGS:
                type_ = text.removeprefix(".")
        found = [self.declarator(space, align, vector, type_, is_extern)]
        while ends and self.accept(","):
            found.append(self.declarator(space, align, vector, type_, is_extern))
        if ends:
            self.expect(";")
        return [variable for group in found for variable in group]

    def pointer_attributes(self) -> None:
        while self.token.kind == "directive":
            if self.take().text == ".align":
                self.integer()

    def declarator(
        self, space: str, align: int, vector: int, type_: str, is_extern: bool
    ) -> list[Variable]:
        line, name = self.token.line, self.name()
        common: dict[str, Any] = {"align": align, "vector": vector, "is_extern": is_extern}
        space = space.removeprefix(".")
        if self.accept("<"):
            count = self.integer()
            self.expect(">")
            return [Variable(space, type_, f"{name}{i}", line, **common) for i in range(count)]
        shape: list[int] = []
        is_array = False
        while self.accept("["):
            is_array = True
            shape.append(0 if self.token.text == "]" else self.integer())
            self.expect("]")
        initial = self.initializer() if self.accept("=") else None
        return [
            Variable(
                space,
                type_,
                name,
                line,
                shape=tuple(shape),
                is_array=is_array,
                initial=initial,
                **common,
            )
        ]

    def initializer(self) -> Any:
        if not self.accept("{"):
            return self.initial_value()
        items = []
        while not self.accept("}"):
            items.append(self.initializer())
            self.accept(",")
        return items

    def initial_value(self) -> Any:
        """A number, or the address of a variable: `name`, `name+4`, `generic(name)+4`."""
        if self.token.kind != "name":
            return self.constant_operand()
        name = self.name()
        if name == "generic":
            self.expect("(")
            name = self.name()
            self.expect(")")
        return Sum(Name(name), self.offset())

    # Instructions -----------------------------------------------------------------------------

    def instruction(self) -> Instruction:
        line = self.token.line
        guard, is_negated = None, False
        if self.token.text in ("@", "@!"):
            is_negated = self.take().text == "@!" or self.accept("!")
            guard = Name(self.name())
        opcode, *modifiers = self.name().split(".")
        operands: list[Any] = []
        while not self.accept(";"):
            operands.append(self.operand())
            if self.token.text != ";":
                self.expect(",")
        return Instruction(opcode, tuple(modifiers), tuple(operands), line, guard, is_negated)

    def operand(self) -> Any:
        match self.token.text:
            case "{":
                return Vector(self.items("{", "}"))
            case "(":
                if self.is_parenthesised_number():
                    return self.constant_operand()
                return Group(self.items("(", ")"))
            case "[":
                return self.address()
            case "!":
                self.take()
                return Negated(Name(self.name()))
        if self.token.kind != "name":
            return self.constant_operand()
        name = self.named()
        if self.accept("|"):
            return Pair(name, Name(self.name()))
        if self.token.text in ("+", "-"):
            return Sum(name, self.offset())
        return name

    def is_parenthesised_number(self) -> bool:
        return self.tokens[self.at + 1].kind in ("integer", "float") or self.tokens[
            self.at + 1
        ].text in ("-", "(")

    def named(self) -> Name:
        text = self.name()
        if self.token.text != "[":
            return Name(text)
        self.take()
        index = self.integer()
        self.expect("]")
        return Name(text, index)

    def items(self, opening: str, closing: str) -> tuple[Any, ...]:
        self.expect(opening)
        found = []
        while not self.accept(closing):
            found.append(self.operand())
            if self.token.text != closing:
                self.expect(",")
        return tuple(found)

    def address(self) -> Address:
        self.expect("[")
        if self.token.kind == "name":
            base: Any = self.named()
            offset = self.offset()
        else:
            base, offset = None, self.integer()
        rest = []
        while self.accept(","):
            rest.append(self.operand())
        self.expect("]")
        return Address(base, offset, tuple(rest))

    def offset(self) -> int:
        """What follows a name: `+4`, `-4`, `+-4`, or nothing."""
        total = 0
        while self.token.text in ("+", "-"):
            sign = 1 if self.take().text == "+" else -1
            total += sign * self.unary_int()
        return total

    def unary_int(self) -> int:
        value = self.unary()
        if not isinstance(value, int):
            self.fail("an integer")
        return value

    # Constant expressions ---------------------------------------------------------------------

    def constant_operand(self) -> Immediate:
        token = self.token
        if token.kind == "bits":
            self.take()
            return _pattern_literal(token.text)
        return Immediate(self.constant())

    def constant(self) -> int | float:
        value = self.term()
        while self.token.text in ("+", "-"):
            value = value + self.term() if self.take().text == "+" else value - self.term()
        return value

    def term(self) -> int | float:
        value = self.unary()
        while self.accept("*"):
            value *= self.unary()
        return value

    def unary(self) -> int | float:
        if self.accept("-"):
            return -self.unary()
        if self.accept("+"):
            return self.unary()
        if self.accept("~"):
            value = self.unary()
            return ~value if isinstance(value, int) else value
        if self.accept("("):
            value = self.constant()
            self.expect(")")
            return value
        token = self.token
        match token.kind:
            case "integer":
                self.take()
                return _integer(token.text)
            case "float":
                self.take()
                return float(token.text)
            case "bits":
                self.take()
                return _pattern_literal(token.text).value
        return self.fail("an operand")


def _integer(text: str) -> int:
    text = text.rstrip("U").lower()
    if text.startswith(("0x", "0b")):
        return int(text, 0)
    return int(text, 8) if text.startswith("0") and text.strip("0") else int(text)


def _pattern_literal(text: str) -> Immediate:
    digits = text[2:]
    pattern = int(digits, 16)
    if len(digits) == 8:
        return Immediate(struct.unpack("<f", struct.pack("<I", pattern))[0], 32, pattern)
    return Immediate(struct.unpack("<d", struct.pack("<Q", pattern))[0], 64, pattern)
