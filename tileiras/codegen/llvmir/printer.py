"""Prints a module of `llvm` and `nvvm` ops as LLVM IR text for the NVPTX backend.

One linear walk with a table of rules, no intermediate objects: Python's share of code generation is
about two microseconds per line. The text is a pure function of the module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tileiras.codegen.llvmir.debug_info import Metadata
from tileiras.codegen.llvmir.function_text import FunctionText
from tileiras.codegen.llvmir.print_llvm_ops import LLVM_RULES
from tileiras.codegen.llvmir.print_nvvm_ops import nvvm_rule, required_feature
from tileiras.codegen.llvmir.symbols import check_symbol
from tileiras.codegen.llvmir.type_text import string_text, symbol_text, type_text
from tileiras.codegen.target import Feature, GpuTarget
from tileiras.dialects.cuda_tile.debug_info import (
    InlineFrame,
    enclosing_subprogram,
    inline_frames,
    source_location,
)
from tileiras.dialects.llvm.control import BrOp, CondBrOp, FuncOp, ReturnOp
from tileiras.dialects.llvm.memory import DebugValueOp, GlobalOp
from tileiras.errors import InternalError, SourceLocation
from tileiras.options import CompileOptions

if TYPE_CHECKING:
    from tileiras.codegen.llvmir.debug_variables import DebugVariables

TRIPLE = "nvptx64-nvidia-cuda"
DATA_LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
"""Without it i64 is aligned to 4 bytes and 8-byte accesses are split."""

_WHERE = "LLVM IR printer"

_ATTRIBUTE_GROUPS = (
    "attributes #1 = { nounwind memory(none) }",
    "attributes #2 = { convergent nounwind memory(none) }",
    "attributes #3 = { nounwind }",
    "attributes #4 = { convergent nounwind }",
)
"""Of inline assembly: pure, warp-wide pure, with side effects, warp-wide with side effects."""


def print_module(
    module: ModuleOp, target: GpuTarget | None = None, options: CompileOptions | None = None
) -> str:
    """The LLVM IR text of all globals and functions in `module`.

    With `options.line_info` (or debugging) op locations become `.loc` directives. Raises
    InternalError for an op or type that has no LLVM form, or that `target` does not have.
    """
    line_info = options is not None and (options.line_info or options.device_debug)
    is_full = options is not None and options.device_debug
    return _ModuleText(target, line_info, is_full).print(module)


class _ModuleText:
    """What is shared by the functions of one module."""

    def __init__(self, target: GpuTarget | None, line_info: bool, is_full: bool = False):
        self.target = target
        self.line_info = line_info
        self.is_full = is_full
        self.metadata = Metadata(is_full)
        self.declarations: dict[str, str] = {}

    def declare(self, name: str, line: str) -> None:
        """Records a declaration; two with different signatures are our own mistake."""
        if self.declarations.setdefault(name, line) != line:
            raise InternalError(f"{name} is declared twice differently", where=_WHERE)

    def print(self, module: ModuleOp) -> str:
        """The whole module."""
        body: list[str] = []
        for op in module.ops:
            match op:
                case GlobalOp():
                    body.append(_global_text(op))
                case FuncOp():
                    body += _FunctionPrinter(self, op).print()
                case _:
                    raise InternalError(f"'{op.name}' at module level", where=_WHERE)
        for op in module.ops:
            if isinstance(op, GlobalOp | FuncOp):
                check_symbol(op, self.declarations)
        head = [f'target datalayout = "{DATA_LAYOUT}"', f'target triple = "{TRIPLE}"', ""]
        declarations = [self.declarations[name] for name in sorted(self.declarations)]
        tail = [*declarations, *_ATTRIBUTE_GROUPS, *self.metadata.lines()]
        return "\n".join([*head, *body, *tail]) + "\n"


def _global_text(op: GlobalOp) -> str:
    """A module-level byte array."""
    name, size = symbol_text(op.sym_name.data), op.size.data
    space = f"addrspace({op.space.data}) " if op.space.data else ""
    kind = "constant" if op.constant is not None else "global"
    tail = f", align {op.align.data}"
    if op.external is not None:
        return f"{name} = external {space}{kind} [{size} x i8]{tail}"
    if op.initializer is not None:
        value = f"c{string_text(op.initializer.data)}"
    else:
        value = "undef" if op.space.data == 3 else "zeroinitializer"
    linkage = "" if op.visible is not None else "internal "
    return f"{name} = {linkage}{space}{kind} [{size} x i8] {value}{tail}"


class _FunctionPrinter:
    """Prints one function."""

    def __init__(self, module: _ModuleText, func: FuncOp):
        self.module = module
        self.func = func
        target = module.target
        in_lanes = target is not None and target.has(Feature.F32X2)
        self.text = FunctionText(module.declare, in_lanes)
        self._subprogram: int | None = None
        self._home: SourceLocation | None = None
        self._variables: DebugVariables | None = None

    def print(self) -> list[str]:
        """The function's lines, with an empty one at the end."""
        if self.module.line_info:
            self._start_debug_info()
        header = self._header()
        for block in _reverse_post_order(self.func.entry):
            self.text.start_block(block, is_entry=block is self.func.entry)
            if self._variables is not None and block is self.func.entry:
                self._variables.reserve(self.func, self.text)
            for op in block.ops:
                self._print_op(op)
        self.text.finish_phis()
        return [header, *self.text.lines, "}", ""]

    def _header(self) -> str:
        func, text = self.func, self.text
        attrs = func.arg_attrs.data if func.arg_attrs is not None else ()
        params: list[str] = []
        for index, argument in enumerate(func.entry.args):
            ref = text.fresh()
            text.bind(argument, ref)
            extra = f" {attrs[index].data}" if attrs and attrs[index].data else ""
            params.append(f"{type_text(argument.type)}{extra} {ref}")
        convention = "ptx_kernel " if func.kernel is not None else ""
        debug = "" if self._subprogram is None else f" !dbg !{self._subprogram}"
        name = symbol_text(func.sym_name.data)
        attributes = " ".join(["nounwind", *_launch_attributes(func)])
        return f"define {convention}void {name}({', '.join(params)}) {attributes}{debug} {{"

    def _start_debug_info(self) -> None:
        home = source_location(self.func.location)
        if home is None:
            found = (source_location(op.location) for op in self.func.walk())
            home = next((position for position in found if position is not None), None)
        if home is not None:
            self._home = home
            symbol = self.func.sym_name.data
            name = _source_name(self.func) if self.module.is_full else None
            self._subprogram = self.module.metadata.subprogram(name or symbol, home, symbol)
            if self.module.is_full:
                from tileiras.codegen.llvmir.debug_variables import DebugVariables

                metadata = self.module.metadata
                self._variables = DebugVariables(metadata, self._subprogram, home.filename)

    def _debug_suffix(self, op: Operation) -> str:
        if self._subprogram is None or self._home is None:
            return ""
        frames = list(inline_frames(op.location)) or [InlineFrame(self._home, None)]
        metadata, home = self.module.metadata, self._home.filename
        return f", !dbg !{metadata.place(self._subprogram, home, frames)}"

    def _print_op(self, op: Operation) -> None:
        text = self.text
        text.suffix = self._debug_suffix(op)
        rule = LLVM_RULES.get(type(op)) or nvvm_rule(type(op))
        if rule is not None:
            self._check_target(op)
            rule(text, op)
            return
        match op:
            case BrOp():
                self._edge(op.target, op.arguments)
                hint = self._loop_hint(op.no_unroll is not None)
                text.emit(f"br label %{text.label_of(op.target)}{hint}")
            case CondBrOp():
                self._print_cond_br(op)
            case DebugValueOp():
                if self._variables is not None:
                    self._variables.store(op, text)
            case ReturnOp():
                text.emit("ret void")
            case _:
                raise InternalError(f"'{op.name}' has no LLVM form", where=_WHERE)

    def _check_target(self, op: Operation) -> None:
        """LLVM would end the process on what the target does not have."""
        target = self.module.target
        feature = required_feature(op)
        if target is not None and feature is not None and not target.has(feature):
            raise InternalError(
                f"'{op.name}' needs feature {feature.value}, which {target.name} lacks",
                source_location(op.location),
                _WHERE,
            )

    def _loop_hint(self, wanted: bool) -> str:
        return f", !llvm.loop !{self.module.metadata.no_unroll_loop()}" if wanted else ""

    def _edge(self, target: Block, arguments: Sequence[SSAValue]) -> None:
        self.text.add_edge(target, arguments)

    def _print_cond_br(self, op: CondBrOp) -> None:
        text = self.text
        hint = self._loop_hint(op.no_unroll is not None)
        if op.is_rare is not None:
            hint += f", !prof !{self.module.metadata.rare_branch()}"
        condition = text.ref(op.condition)
        if op.then_block is op.else_block:
            # One phi entry per predecessor: choose the values here.
            pairs = list(zip(op.then_arguments, op.else_arguments, strict=True))
            text.add_selecting_edge(op.then_block, condition, pairs)
            text.emit(f"br label %{text.label_of(op.then_block)}{hint}")
            return
        self._edge(op.then_block, op.then_arguments)
        self._edge(op.else_block, op.else_arguments)
        then_label, else_label = text.label_of(op.then_block), text.label_of(op.else_block)
        text.emit(f"br i1 {condition}, label %{then_label}, label %{else_label}{hint}")


def _source_name(func: FuncOp) -> str | None:
    """What the source calls a kernel, where its location says so."""
    frame = next(inline_frames(func.location), None)
    scope = frame.scope if frame is not None else None
    function = enclosing_subprogram(scope) if scope is not None else None
    return function.sub_name.data if function is not None else None


def _launch_attributes(func: FuncOp) -> list[str]:
    """NVVM function attributes of a kernel."""
    pairs: list[tuple[str, str]] = []
    if func.reqntid is not None:
        pairs.append(("nvvm.reqntid", ",".join(map(str, func.reqntid.data))))
    if func.cluster_dim is not None:
        pairs.append(("nvvm.cluster_dim", ",".join(map(str, func.cluster_dim.data))))
    if func.min_ctas is not None:
        pairs.append(("nvvm.minctasm", str(func.min_ctas.data)))
    if func.max_registers is not None:
        pairs.append(("nvvm.maxnreg", str(func.max_registers.data)))
    texts = [f'"{name}"="{value}"' for name, value in pairs]
    return texts + (['"nvvm.blocksareclusters"'] if func.blocks_are_clusters is not None else [])


def _reverse_post_order(entry: Block) -> list[Block]:
    """Reachable blocks, each after all that dominate it (numbering needs definitions first)."""
    order: list[Block] = []
    seen = {entry}
    stack = [(entry, 0)]
    while stack:
        block, index = stack.pop()
        successors = cast(Operation, block.last_op).successors if block.last_op else ()
        # Visiting the last successor first puts the first one directly behind its predecessor.
        if index == len(successors):
            order.append(block)
            continue
        stack.append((block, index + 1))
        target = successors[len(successors) - 1 - index]
        if target not in seen:
            seen.add(target)
            stack.append((target, 0))
    return order[::-1]
