"""A kernel made ready to run: names resolved, scopes and calls gone, one flat list.

Functions that a kernel calls are copied into it at each call, with registers of their own. So
recursion and indirect calls are errors; the parameters of a call are the caller's variables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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
from tileiras.interpreter.ptx.types import TYPES, PtxType

MAX_CALL_DEPTH = 32
"""Calls within calls before recursion is assumed."""

SHARED_START = 1024
"""Where a CTA's variables begin in shared memory: the system keeps the first KiB."""

LOCAL_START = 16
"""Where a thread's variables begin in local memory, so that no variable has address 0."""


@dataclass(frozen=True)
class Reg:
    """A register of the kernel: its place in the register file."""

    slot: int
    type: PtxType


@dataclass(frozen=True)
class Special:
    """A special register, such as `%tid.x`."""

    name: str


@dataclass(frozen=True)
class Sym:
    """The address of a variable in its state space, plus `offset` bytes.

    `address` is final for shared, local and parameter variables; None for variables of the
    module, which the machine places.
    """

    space: str
    name: str
    address: int | None
    offset: int = 0


@dataclass(frozen=True)
class Sink:
    """`_`: a result that nobody wants, or an operand that is absent."""


@dataclass
class Target:
    """A place to branch to, an index into the list of instructions."""

    name: str
    index: int = -1


@dataclass(frozen=True)
class Targets:
    """A `.branchtargets` list."""

    targets: tuple[Target, ...]


@dataclass
class Ready:
    """An instruction with resolved operands."""

    source: Instruction
    operands: tuple[Any, ...]
    guard: Reg | None

    @property
    def line(self) -> int:
        """The line of the PTX text."""
        return self.source.line


@dataclass
class Kernel:
    """A kernel ready to run. Sizes are in bytes; `parameters` are (variable, offset) pairs."""

    name: str
    target: str
    instructions: list[Ready] = field(default_factory=list)
    registers: list[PtxType] = field(default_factory=list)
    parameters: list[tuple[Variable, int]] = field(default_factory=list)
    parameter_bytes: int = 0
    shared_bytes: int = SHARED_START
    dynamic_shared_at: int = SHARED_START
    local_bytes: int = LOCAL_START
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    module_variables: dict[str, Variable] = field(default_factory=dict)


def size_of(variable: Variable) -> int:
    """Bytes that a variable takes, 0 for an array without a size."""
    count = variable.vector
    for extent in variable.shape:
        count *= extent
    return (
        count
        * _type_of(variable).bytes
        * (2 if variable.type == "b128" else 1)
        // (2 if variable.type == "b128" else 1)
    )


def align_of(variable: Variable) -> int:
    """Bytes that its address is a multiple of."""
    return variable.align or _type_of(variable).bytes * variable.vector


def _type_of(variable: Variable) -> PtxType:
    found = TYPES.get(variable.type)
    if found is None:
        raise PtxSyntaxError(f"unknown type '.{variable.type}'", variable.line)
    return found


def _aligned(value: int, align: int) -> int:
    return -(-value // align) * align


def link(module: Module, name: str) -> Kernel:
    """The kernel `name` of a module; PtxSyntaxError for names that nothing declares."""
    function = module.functions.get(name)
    if function is None or not function.is_entry or function.body is None:
        known = ", ".join(n for n, f in module.functions.items() if f.is_entry)
        raise PtxSyntaxError(f"no kernel '{name}'; the file has: {known}")
    return _Linker(module, function).kernel


class _Scope:
    """Names of a `{ }` block."""

    def __init__(self, parent: _Scope | None):
        self.parent = parent
        self.names: dict[str, Any] = {}

    def find(self, name: str) -> Any:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None


class _Linker:
    """Walks the blocks of a kernel and of what it calls."""

    def __init__(self, module: Module, function: Function):
        self.module = module
        self.kernel = Kernel(function.name, module.target, directives=function.directives)
        self.dynamic: list[Variable] = []
        self.shared: dict[str, Sym] = {}
        self.depth = 0
        top = _Scope(None)
        for variable in function.parameters:
            at = _aligned(self.kernel.parameter_bytes, align_of(variable))
            self.kernel.parameters.append((variable, at))
            self.kernel.parameter_bytes = at + size_of(variable)
            top.names[variable.name] = Sym("param", variable.name, at)
        assert function.body is not None
        self.block(function.body, top, None)
        self._place_dynamic()

    # Blocks -----------------------------------------------------------------------------------

    def block(self, block: Block, parent: _Scope, exit_: Target | None) -> None:
        """Adds a block's instructions; `ret` goes to `exit_` inside of a called function."""
        scope = _Scope(parent)
        for statement in block.statements:
            if isinstance(statement, Label):
                if statement.name in scope.names:
                    message = f"label '{statement.name}' is defined twice"
                    raise PtxSyntaxError(message, statement.line)
                scope.names[statement.name] = Target(statement.name)
        for statement in block.statements:
            match statement:
                case Variable():
                    scope.names[statement.name] = self.declare(statement)
                case Label():
                    scope.names[statement.name].index = len(self.kernel.instructions)
                case TargetList():
                    targets = (
                        self.label(name, scope, statement.line) for name in statement.targets
                    )
                    scope.names[statement.name] = Targets(tuple(targets))
                case Block():
                    self.block(statement, scope, exit_)
                case Instruction(opcode="call"):
                    self.call(statement, scope)
                case Instruction(opcode="ret") if exit_ is not None:
                    guard = self.guard(statement, scope)
                    jump = Instruction(
                        "bra",
                        (),
                        statement.operands,
                        statement.line,
                        statement.guard,
                        statement.is_guard_negated,
                    )
                    self.kernel.instructions.append(Ready(jump, (exit_,), guard))
                case Instruction():
                    operands = tuple(
                        self.operand(item, scope, statement) for item in statement.operands
                    )
                    guard = self.guard(statement, scope)
                    self.kernel.instructions.append(Ready(statement, operands, guard))

    def label(self, name: str, scope: _Scope, line: int) -> Target:
        found = scope.find(name)
        if not isinstance(found, Target):
            raise PtxSyntaxError(f"no label '{name}'", line)
        return found

    def guard(self, instruction: Instruction, scope: _Scope) -> Reg | None:
        if instruction.guard is None:
            return None
        found = scope.find(instruction.guard.text)
        if not isinstance(found, Reg) or found.type.name != "pred":
            message = f"'{instruction.guard.text}' is no predicate"
            raise PtxSyntaxError(message, instruction.line)
        return found

    def declare(self, variable: Variable) -> Any:
        match variable.space:
            case "reg":
                return self.register(variable)
            case "local" | "param":
                return self.local(variable)
            case "shared":
                return self.place_shared(variable, f"{variable.name} {variable.line}")
        self.kernel.module_variables[f"{variable.name} {variable.line}"] = variable
        return Sym(variable.space, f"{variable.name} {variable.line}", None)

    def register(self, variable: Variable) -> Any:
        type_ = _type_of(variable)
        regs = []
        for _ in range(variable.vector):
            self.kernel.registers.append(type_)
            regs.append(Reg(len(self.kernel.registers) - 1, type_))
        return regs[0] if variable.vector == 1 else Vector(tuple(regs))

    def local(self, variable: Variable) -> Sym:
        at = _aligned(self.kernel.local_bytes, align_of(variable))
        self.kernel.local_bytes = at + size_of(variable)
        return Sym("local", variable.name, at)

    def place_shared(self, variable: Variable, key: str) -> Sym:
        if key in self.shared:
            return self.shared[key]
        if variable.is_extern or (variable.is_array and not size_of(variable)):
            self.dynamic.append(variable)
            self.shared[key] = Sym("dynamic", key, None)
            return self.shared[key]
        at = _aligned(self.kernel.shared_bytes, align_of(variable))
        self.kernel.shared_bytes = at + size_of(variable)
        self.shared[key] = Sym("shared", variable.name, at)
        return self.shared[key]

    def _place_dynamic(self) -> None:
        """Dynamic shared memory begins behind everything else, as aligned as its variables ask."""
        align = max([align_of(variable) for variable in self.dynamic], default=16)
        self.kernel.dynamic_shared_at = _aligned(self.kernel.shared_bytes, align)

    # Calls ------------------------------------------------------------------------------------

    def call(self, instruction: Instruction, scope: _Scope) -> None:
        groups = [item for item in instruction.operands if isinstance(item, Group)]
        names = [item for item in instruction.operands if isinstance(item, Name)]
        if not names:
            raise PtxSyntaxError("a call of nothing", instruction.line)
        callee = self.module.functions.get(names[0].text)
        if callee is None:
            message = f"'{names[0].text}' is no function of the file (indirect calls are not run)"
            raise PtxSyntaxError(message, instruction.line)
        first = instruction.operands[0]
        results = first.items if isinstance(first, Group) else ()
        arguments = groups[-1].items if groups and groups[-1] is not first else ()
        if callee.body is None:
            self.external(instruction, callee, results, arguments, scope)
            return
        if self.depth >= MAX_CALL_DEPTH:
            message = f"calls are nested over {MAX_CALL_DEPTH} deep: recursion is not run"
            raise PtxSyntaxError(message, instruction.line)
        self._inline(instruction, callee, results, arguments, scope)

    def external(
        self,
        instruction: Instruction,
        callee: Function,
        results: tuple[Any, ...],
        arguments: tuple[Any, ...],
        scope: _Scope,
    ) -> None:
        """A call of a system function, such as `vprintf`: a rule of the machine does it."""
        operands = tuple(self.operand(item, scope, instruction) for item in (*results, *arguments))
        made = Instruction(
            "call",
            (callee.name,),
            instruction.operands,
            instruction.line,
            instruction.guard,
            instruction.is_guard_negated,
        )
        self.kernel.instructions.append(Ready(made, operands, self.guard(instruction, scope)))

    def _inline(
        self,
        instruction: Instruction,
        callee: Function,
        results: tuple[Any, ...],
        arguments: tuple[Any, ...],
        scope: _Scope,
    ) -> None:
        given, wanted = (*results, *arguments), (*callee.results, *callee.parameters)
        if len(given) != len(wanted):
            message = f"'{callee.name}' takes {len(wanted)} operands, found {len(given)}"
            raise PtxSyntaxError(message, instruction.line)
        inner = _Scope(None)
        for item, variable in zip(given, wanted):
            inner.names[variable.name] = self.operand(item, scope, instruction)
        end = Target(f"end of {callee.name}")
        guard = self.guard(instruction, scope)
        if guard is not None:
            skip = Instruction(
                "bra", (), (), instruction.line, instruction.guard, not instruction.is_guard_negated
            )
            self.kernel.instructions.append(Ready(skip, (end,), guard))
        self.depth += 1
        assert callee.body is not None
        self.block(callee.body, inner, end)
        self.depth -= 1
        end.index = len(self.kernel.instructions)

    # Operands ---------------------------------------------------------------------------------

    def operand(self, item: Any, scope: _Scope, instruction: Instruction) -> Any:
        match item:
            case Immediate():
                return item
            case Name():
                return self.name(item, scope, instruction)
            case Negated(name=name):
                return Negated(self.name(name, scope, instruction))
            case Pair(first=first, second=second):
                return Pair(*(self.operand(i, scope, instruction) for i in (first, second)))
            case Sum(name=name, offset=offset):
                found = self.name(name, scope, instruction)
                if not isinstance(found, Sym):
                    raise PtxSyntaxError(f"'{name.text}' is no variable", instruction.line)
                return Sym(found.space, found.name, found.address, found.offset + offset)
            case Vector(items=items) | Group(items=items):
                return Vector(tuple(self.operand(i, scope, instruction) for i in items))
            case Address(base=base, offset=offset, rest=rest):
                found = None if base is None else self.name(base, scope, instruction)
                others = tuple(self.operand(i, scope, instruction) for i in rest)
                return Address(found, offset, others)
        raise PtxSyntaxError(f"an operand of no kind: {item}", instruction.line)

    def name(self, name: Name, scope: _Scope, instruction: Instruction) -> Any:
        text = name.text
        if text == "_":
            return Sink()
        found = scope.find(text)
        if found is None:
            found = self.outer(text, instruction)
        if name.index is not None:
            if not isinstance(found, Sym):
                raise PtxSyntaxError(f"'{text}' is no array", instruction.line)
            found = Sym(found.space, found.name, found.address, found.offset + name.index)
        return found

    def outer(self, text: str, instruction: Instruction) -> Any:
        """A name of the module, a component of a vector register, or a special register."""
        variable = self.module.variables.get(text)
        if variable is not None and variable.space == "shared":
            return self.place_shared(variable, text)
        if variable is not None:
            self.kernel.module_variables[text] = variable
            return Sym(variable.space, text, None)
        if text in ("WARP_SZ",):
            return Immediate(32)
        if text.startswith("%"):
            return Special(text[1:])
        raise PtxSyntaxError(f"'{text}' is declared nowhere", instruction.line)
