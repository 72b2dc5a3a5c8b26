"""The operands of one call of inline PTX."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tileiras.codegen.llvmir.function_text import FunctionText
from tileiras.codegen.llvmir.print_llvm_ops import asm_call
from tileiras.codegen.llvmir.type_text import type_text

_LETTERS = {"i1": "b", "i16": "h", "i32": "r", "i64": "l"}


class AsmOperands:
    """Input operands of one inline assembly call; methods give the name to use in its text."""

    def __init__(self, text: FunctionText, outputs: int = 0):
        self.text = text
        self.args: list[tuple[str, str]] = []
        self.constraints: list[str] = []
        self._first = outputs

    def register(self, type: str, ref: str) -> str:
        """A scalar by LLVM type and value."""
        self.args.append((type, ref))
        self.constraints.append(_LETTERS.get(type, "l"))
        return f"${self._first + len(self.args) - 1}"

    def value(self, value: SSAValue) -> str:
        """A scalar value; pointers count as 64-bit."""
        return self.register(type_text(value.type), self.text.ref(value))

    def shared(self, pointer: SSAValue) -> str:
        """A shared memory pointer as the 32-bit address that the instructions take."""
        address = self.text.define(f"ptrtoint {self.text.typed(pointer)} to i32")
        return self.register("i32", address)

    def list(self, values: Sequence[SSAValue]) -> str:
        """Several scalars, separated by commas."""
        return ", ".join([self.value(value) for value in values])

    def guard(self, predicate: SSAValue | None) -> str:
        """The prefix of a predicated instruction."""
        return "" if predicate is None else f"@{self.value(predicate)} "

    def emit(self, template: str, flags: str = "s") -> None:
        """Adds the call; it has no result."""
        constraints = ",".join([*self.constraints, "~{memory}"])
        self.text.emit(asm_call(template, constraints, "void", self.args, flags))

    def define(self, template: str, outputs: Sequence[str], result: str, flags: str) -> str:
        """Adds the call; returns its result, of LLVM type `result`."""
        memory = ["~{memory}"] if "s" in flags else []
        constraints = ",".join([*outputs, *self.constraints, *memory])
        return self.text.define(asm_call(template, constraints, result, self.args, flags))


# mbarriers
