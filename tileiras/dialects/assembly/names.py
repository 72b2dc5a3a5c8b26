"""Names of values: the user's own where debug information has them, else of what makes them."""

from __future__ import annotations

from xdsl.dialects.builtin import CallSiteLoc, FusedLoc, IntegerType, NameLoc
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.dialects.assembly.constants import bits_text, element_type_of, unpacked
from tileiras.dialects.cuda_tile.debug_info import DICallSiteLoc
from tileiras.dialects.llvm.constants import ConstantOp as BitsConstantOp
from tileiras.dialects.nv_tileaa.control_flow import ForOp
from tileiras.dialects.nv_tileaa.tensors import ConstantOp

RESULT_NAMES: dict[str, tuple[str, ...]] = {
    "nv_tileaa.make_memref": ("memref",),
    "nv_tileaa.block_tile": ("view",),
    "nv_tileaa.create_mem_token": ("token",),
    "nv_tileaa.join_mem_tokens": ("token",),
    "nv_tileaa.tiled_load": ("tile", "token"),
    "nv_tileas.tiled_load": ("tile", "token"),
    "nv_tileaa.load": ("value", "token"),
    "nv_tileas.load": ("value", "token"),
    "nv_tileaa.read_stage": ("tile", "token"),
    "nv_tileas.read_stage": ("tile", "token"),
    "nv_tileaa.atomic_rmw": ("old", "token"),
    "nv_tileaa.atomic_cas": ("old", "token"),
    "nv_tileaa.tiled_store": ("token",),
    "nv_tileas.tiled_store": ("token",),
    "nv_tileaa.store": ("token",),
    "nv_tileas.store": ("token",),
    "nv_tileaa.circular_buffer": ("buffer",),
    "nv_tileas.alloc_tensor": ("buffer",),
    "nv_tileas.async.pipeline.create_pipeline": ("pipeline",),
    "nv_tileas.async.pipeline.create_store_pipeline": ("pipeline",),
    "nv_tileas.make_tiled_tma_desc": ("desc",),
    "nvvm.elect": ("leader",),
}
"""Names of results by operation; all others have numbers."""

AXES = "xyz"


def base_names(op: Operation) -> tuple[str, ...]:
    """Names for the results of an operation, one each or one for all; none for numbered ones."""
    results = op.results
    hints = {result.name_hint for result in results}
    if None not in hints:
        if len(hints) == 1 and len(results) > 1:
            return (results[0].name_hint or "",)
        return tuple(result.name_hint or "" for result in results)
    if (name := user_name(op.location)) is not None:
        return (name,)
    if isinstance(op, ConstantOp | BitsConstantOp):
        return (_constant_name(op),)
    if op.name in ("nv_tileaa.get_program_id", "nv_tileaa.get_num_programs"):
        kind = "pid" if op.name.endswith("id") else "grid"
        axis = getattr(op.properties.get("axis"), "value", None)
        number = axis.data if axis is not None else 0
        return (f"{kind}_{AXES[number]}",) if 0 <= number < len(AXES) else (kind,)
    names = RESULT_NAMES.get(op.name, ())
    return names if len(names) == len(results) else ()


def _constant_name(op: ConstantOp | BitsConstantOp) -> str:
    """`c128_i32`, `true`, `cst` for floats and tensors."""
    type = op.result.type
    element = element_type_of(type)
    if element is not type or not isinstance(element, IntegerType):
        return "cst"
    if isinstance(op, BitsConstantOp):
        bits = op.bits.data[0]
    else:
        bits = unpacked(op.value.raw.data, element)[0]
    text = bits_text(bits, element)
    if element.width.data == 1:
        return text
    return f"c{text}_i{element.width.data}"


def plain_name(name: str) -> str:
    """A name as values may have it, without a number at its end."""
    plain = "".join(
        char if char.isascii() and (char.isalnum() or char in "_$") else "_" for char in name
    )
    if not plain or plain[0].isdigit():
        plain = f"_{plain}"
    return SSAValue.extract_valid_name(plain) or "_"


class ValueNames:
    """The names of the values of one function (or of what else stands at the top)."""

    def __init__(self) -> None:
        self.names: dict[SSAValue, str] = {}
        self.groups: set[Operation] = set()
        self._taken: dict[str, int] = {}
        self._number = 0
        self._arguments = 0

    def name_all(self, op: Operation) -> None:
        """Names the results of an operation and all values in it, in the order of the text."""
        self._name_results(op)
        for region in op.regions:
            self._name_region(op, region)

    def _name_region(self, op: Operation, region: Region) -> None:
        for block in region.blocks:
            self._name_arguments(op, block)
            for inner in block.ops:
                self.name_all(inner)

    def _name_arguments(self, op: Operation, block: Block) -> None:
        for index, argument in enumerate(block.args):
            base = argument.name_hint or user_name(argument.location)
            if base is None and isinstance(op, ForOp) and index == 0:
                base = "iv"
            if base is None:
                base = f"arg{self._arguments}"
                self._arguments += 1
            self.names[argument] = self._unique(base)

    def _name_results(self, op: Operation) -> None:
        if not op.results:
            return
        bases = base_names(op)
        if len(bases) == len(op.results) and bases:
            for result, base in zip(op.results, bases, strict=True):
                self.names[result] = self._unique(base)
            return
        name = self._unique(bases[0]) if bases else str(self._number)
        self._number += not bases
        if len(op.results) > 1:
            self.groups.add(op)
        for index, result in enumerate(op.results):
            self.names[result] = f"{name}#{index}" if len(op.results) > 1 else name

    def _unique(self, base: str) -> str:
        count = self._taken.get(base, 0)
        self._taken[base] = count + 1
        return f"{base}_{count}" if count else base

    def use(self, value: SSAValue) -> str:
        """A value where it is used: `%view`, `%4#1`."""
        return f"%{self.names.get(value, '<unknown>')}"

    def results(self, op: Operation) -> str:
        """What stands left of an operation: `%tile, %token = `, `%4:2 = `, or nothing."""
        if not op.results:
            return ""
        if op in self.groups:
            name = self.names[op.results[0]].partition("#")[0]
            return f"%{name}:{len(op.results)} = "
        return ", ".join(f"%{self.names[result]}" for result in op.results) + " = "


def user_name(location: Attribute) -> str | None:
    """What the user called the value, where its location says so."""
    match location:
        case NameLoc():
            return plain_name(location.desc.data)
        case FusedLoc():
            names = (user_name(part) for part in getattr(location.locations, "data", ()))
            return next((name for name in names if name is not None), None)
        case CallSiteLoc() | DICallSiteLoc():
            return user_name(location.callee)
        case _:
            return None
