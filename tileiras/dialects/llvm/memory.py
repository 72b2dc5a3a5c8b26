"""Memory of the `llvm` dialect: loads, stores, byte-offset address arithmetic, fences, globals."""

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, Data
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.llvm.types import (
    ADDRESS_SPACES,
    PointerType,
    is_integer,
    is_pointer,
    lanes_of,
)

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

FENCE_ORDERINGS = ("acquire", "release", "acq_rel", "seq_cst")
FENCE_SCOPES = ("", "block", "device", "cluster")
"""LLVM sync scopes; the empty one is the whole system."""


@irdl_attr_definition
class BytesAttr(Data[bytes]):
    """Raw bytes, printed in hexadecimal."""

    name = "llvm.bytes"

    @classmethod
    def parse_parameter(cls, parser: "AttrParser") -> bytes:
        """Parses `<"00ff">`."""
        with parser.in_angle_brackets():
            return bytes.fromhex(parser.parse_str_literal())

    def print_parameter(self, printer: "Printer") -> None:
        """Prints `<"00ff">`."""
        printer.print_string(f'<"{self.data.hex()}">')


MAX_ALIGN = 1 << 32
"""LLVM's largest alignment."""
MAX_BYTES = 1 << 48
"""More than any GPU's memory; LLVM computes with sizes in 64 bits."""


def _check_align(name: str, align: int) -> None:
    if not 1 <= align <= MAX_ALIGN or align & (align - 1):
        raise VerifyException(f"{name}: alignment {align}, expected a power of two up to 2^32")


def _check_size(name: str, size: int) -> None:
    if not 0 <= size <= MAX_BYTES:
        raise VerifyException(f"{name}: size {size}, expected 0 to 2^48 bytes")


@irdl_op_definition
class LoadOp(IRDLOperation):
    """`result = *pointer`, `align` in bytes.

    `invariant`: nobody writes this memory during the kernel, so that `ld.global.nc` is legal.
    """

    name = "llvm.load"
    pointer = operand_def(PointerType)
    align = prop_def(IntAttr)
    volatile = opt_prop_def(UnitAttr)
    invariant = opt_prop_def(UnitAttr)
    result = result_def()
    traits = traits_def(MemoryReadEffect())

    def verify_(self) -> None:
        """The alignment is a power of two."""
        _check_align(self.name, self.align.data)


@irdl_op_definition
class StoreOp(IRDLOperation):
    """`*pointer = value`, `align` in bytes."""

    name = "llvm.store"
    value = operand_def()
    pointer = operand_def(PointerType)
    align = prop_def(IntAttr)
    volatile = opt_prop_def(UnitAttr)
    traits = traits_def(MemoryWriteEffect())

    def verify_(self) -> None:
        """The alignment is a power of two."""
        _check_align(self.name, self.align.data)


@irdl_op_definition
class GEPOp(IRDLOperation):
    """`result[i] = base[i] + offset[i]` in bytes; a scalar side is broadcast over a vector one."""

    name = "llvm.getelementptr"
    base = operand_def()
    offset = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """Pointer(s) plus integer(s) give pointer(s)."""
        base, offset, result = self.base.type, self.offset.type, self.result.type
        if not (is_pointer(base) and is_integer(offset) and is_pointer(result)):
            raise VerifyException(f"{self.name}: {base} plus {offset}")
        lanes = lanes_of(base) if lanes_of(base) is not None else lanes_of(offset)
        if lanes_of(result) != lanes or lanes_of(offset) not in (None, lanes):
            raise VerifyException(f"{self.name}: lanes of {base}, {offset} and {result} differ")


@irdl_op_definition
class AllocaOp(IRDLOperation):
    """Address of `size` bytes of this thread's local memory, as a generic pointer.

    Must stand in the entry block, so that the memory is reserved once.
    """

    name = "llvm.alloca"
    size = prop_def(IntAttr)
    align = prop_def(IntAttr)
    result = result_def(PointerType)

    def verify_(self) -> None:
        """The alignment is a power of two."""
        _check_align(self.name, self.align.data)
        _check_size(self.name, self.size.data)


@irdl_op_definition
class DebugValueOp(IRDLOperation):
    """Stores the value of a variable of the source to its own place in local memory.

    `element` is the type of a value or of a vector's lanes as the source has it, such as `bf16` or
    `ptr<f32>`; `parameter` the number of the kernel's parameter from 1, or 0. Without `-g` it is
    nothing.
    """

    name = "llvm.debug_value"
    value = operand_def()
    variable = prop_def(StringAttr)
    element = prop_def(StringAttr)
    parameter = prop_def(IntAttr)
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class FenceOp(IRDLOperation):
    """A memory fence at a sync scope ("" system, "device", "cluster", "block")."""

    name = "llvm.fence"
    ordering = prop_def(StringAttr)
    scope = prop_def(StringAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        """Known ordering and scope."""
        if self.ordering.data not in FENCE_ORDERINGS or self.scope.data not in FENCE_SCOPES:
            raise VerifyException(f"llvm.fence: {self.ordering.data} at '{self.scope.data}'")


@irdl_op_definition
class GlobalOp(IRDLOperation):
    """A module-level byte array.

    Address space 3 is shared memory: `external` makes it the dynamically sized block (size 0). With
    `initializer` the bytes are given (global and constant memory), else they are undefined. The
    host finds a `visible` one by its name.
    """

    name = "llvm.global"
    sym_name = prop_def(StringAttr)
    size = prop_def(IntAttr)
    space = prop_def(IntAttr)
    align = prop_def(IntAttr)
    initializer = opt_prop_def(BytesAttr)
    external = opt_prop_def(UnitAttr)
    constant = opt_prop_def(UnitAttr)
    visible = opt_prop_def(UnitAttr)
    traits = traits_def(SymbolOpInterface())

    def verify_(self) -> None:
        """Size, alignment and initializer agree."""
        _check_align(self.name, self.align.data)
        _check_size(self.name, self.size.data)
        if self.space.data not in ADDRESS_SPACES:
            raise VerifyException(f"{self.name}: address space {self.space.data} is unknown")
        if self.initializer is not None and len(self.initializer.data) != self.size.data:
            raise VerifyException("llvm.global: the initializer does not have `size` bytes")
        if self.initializer is not None and self.space.data == 3:
            raise VerifyException("llvm.global: shared memory cannot have an initializer")

    @staticmethod
    def make(
        name: str,
        size: int,
        address_space: int,
        align: int,
        initializer: bytes | None = None,
        external: bool = False,
        constant: bool = False,
        visible: bool = False,
    ) -> "GlobalOp":
        """A global of `size` bytes aligned to `align` bytes."""
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "size": IntAttr(size),
            "space": IntAttr(address_space),
            "align": IntAttr(align),
        }
        if initializer is not None:
            properties["initializer"] = BytesAttr(initializer)
        if external:
            properties["external"] = UnitAttr()
        if constant:
            properties["constant"] = UnitAttr()
        if visible:
            properties["visible"] = UnitAttr()
        return GlobalOp.create(properties=properties)
