"""How to launch the kernels of a compiled module, as plain data and as JSON.

Clients of Tile IR launch every kernel with one thread per block and let the compiler choose. Only
what was compiled with `--launch=explicit`, and clusters that CuTe text names, must
be launched with `block` of more threads; a wrong number makes the launch fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from tileiras.dialects.cuda_tile.structure import EntryOp
from tileiras.dialects.cuda_tile.types import PointerType as TilePointerType
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.dialects.llvm.constants import AddressOfOp
from tileiras.dialects.llvm.control import FuncOp
from tileiras.dialects.llvm.memory import GlobalOp
from tileiras.dialects.llvm.types import SHARED, bit_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute

    from tileiras.codegen.target import GpuTarget


@dataclass(frozen=True)
class KernelParameter:
    """One launch parameter: its type and its place in the parameter buffer, in bytes."""

    name: str
    type: str
    size: int
    offset: int


@dataclass(frozen=True)
class KernelLaunch:
    """What a launcher must know about one kernel.

    `launch` is one of `options.LAUNCHES`, `block` the block size to launch with.
    `threads_per_block` are the threads of a CTA, `cluster_size` the CTAs that are launched for a
    tile block. `registers` is what ptxas gave a thread, None before ptxas ran.
    """

    name: str
    target: str
    threads_per_block: int
    cluster_size: int
    launch: str
    block: tuple[int, int, int]
    shared_memory_bytes: int
    parameters: tuple[KernelParameter, ...]
    registers: int | None = None


SourceTypes = Mapping[str, tuple[str, ...]]
"""Entry name -> its parameters' types as the program wrote them, such as `ptr<f32>`."""


def source_types(module: ModuleOp) -> SourceTypes:
    """The parameters' types of every entry of a module of stage cuda_tile; empty for later stages.

    Lowered code passes pointers as integers, so this must be asked before the first pass.
    """
    return {
        op.sym_name.data: tuple(_element_text(kind) for kind in op.function_type.inputs.data)
        for op in module.walk()
        if isinstance(op, EntryOp)
    }


def _element_text(kind: Attribute) -> str:
    """A scalar tile's element type as text."""
    element = kind.element_type if isinstance(kind, TileType) else kind
    return f"ptr<{element.pointee}>" if isinstance(element, TilePointerType) else str(element)


def _parameters(
    types: Sequence[Attribute], shown: Sequence[str] | None
) -> tuple[KernelParameter, ...]:
    """The parameters of these types, each aligned to its own size (PTX ISA, `.param` space).

    `shown` is what to call the types; parameters beyond it keep the names of the lowered types.
    """
    placed: list[KernelParameter] = []
    offset = 0
    for number, kind in enumerate(types):
        size = max(1, bit_width(kind) // 8)
        offset = -(-offset // size) * size
        text = shown[number] if shown and number < len(shown) else str(kind)
        placed.append(KernelParameter(f"arg{number}", text, size, offset))
        offset += size
    return tuple(placed)


def _shared_bytes(kernel: FuncOp, shared: dict[str, GlobalOp]) -> int:
    """Bytes of the module's shared arrays that the kernel names, each aligned in turn."""
    names = dict.fromkeys(
        op.global_name.data for op in kernel.walk() if isinstance(op, AddressOfOp)
    )
    end = 0
    for name in names:
        if (array := shared.get(name)) is not None:
            align = array.align.data
            end = -(-end // align) * align + array.size.data
    return end


def _product(numbers: Iterable[int]) -> int:
    """The product of the numbers, 1 for none."""
    result = 1
    for number in numbers:
        result *= number
    return result


def describe_kernels(
    module: ModuleOp, target: GpuTarget, shown: SourceTypes, launch: str
) -> tuple[KernelLaunch, ...]:
    """The kernels of a module of stage llvm-dialect, in order.

    `launch` is what was asked for: a kernel of clusters is launched as one, whatever that is.
    """
    shared = {
        op.sym_name.data: op
        for op in module.ops
        if isinstance(op, GlobalOp) and op.space.data == SHARED
    }
    return tuple(
        _describe(op, target, shown.get(op.sym_name.data), launch, _shared_bytes(op, shared))
        for op in module.ops
        if isinstance(op, FuncOp) and op.kernel is not None
    )


def _describe(
    kernel: FuncOp, target: GpuTarget, shown: Sequence[str] | None, launch: str, shared_bytes: int
) -> KernelLaunch:
    """One kernel."""
    threads = _product(kernel.reqntid.data if kernel.reqntid else ())
    if kernel.blocks_are_clusters is not None:
        launch = "cluster"
    elif kernel.reqntid is None or kernel.cluster_dim is not None:
        launch = "explicit"
    return KernelLaunch(
        name=kernel.sym_name.data,
        target=target.name,
        threads_per_block=threads,
        cluster_size=_product(kernel.cluster_dim.data if kernel.cluster_dim else ()),
        launch=launch,
        block=(threads if launch == "explicit" else 1, 1, 1),
        shared_memory_bytes=shared_bytes,
        parameters=_parameters(kernel.entry.arg_types, shown),
    )


def to_json(kernels: Iterable[KernelLaunch]) -> str:
    """The kernels as a JSON document: `{"kernels": [...]}`."""
    import json

    return json.dumps({"kernels": [asdict(kernel) for kernel in kernels]}, indent=2) + "\n"
