"""Functions and control flow of the `llvm` dialect. Block arguments stand for LLVM's phi nodes."""

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerType, StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    successor_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsolatedFromAbove, IsTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.llvm.vectors import IndicesAttr
from tileiras.dialects.operations import SegmentedOp


def _check_successor(name: str, block: Block, arguments: Sequence[SSAValue]) -> None:
    expected = [argument.type for argument in block.args]
    if [value.type for value in arguments] != expected:
        raise VerifyException(f"{name}: values passed do not match the successor's arguments")


@irdl_op_definition
class BrOp(IRDLOperation):
    """Jumps to a block. `no_unroll` on a back edge keeps LLVM and ptxas from unrolling."""

    name = "llvm.br"
    arguments = var_operand_def()
    no_unroll = opt_prop_def(UnitAttr)
    target = successor_def()
    traits = traits_def(IsTerminator())

    def verify_(self) -> None:
        """The values match the block's arguments."""
        _check_successor(self.name, self.target, self.arguments)


@irdl_op_definition
class CondBrOp(SegmentedOp):
    """Jumps to `then_block` if `condition` holds, else to `else_block`.

    `is_rare`: hardly ever to `then_block`, whose code LLVM puts out of the way.
    """

    name = "llvm.cond_br"
    condition = operand_def(IntegerType(1))
    then_arguments = var_operand_def()
    else_arguments = var_operand_def()
    no_unroll = opt_prop_def(UnitAttr)
    is_rare = opt_prop_def(UnitAttr)
    then_block = successor_def()
    else_block = successor_def()
    traits = traits_def(IsTerminator())

    def verify_(self) -> None:
        """The values match the blocks' arguments."""
        _check_successor(self.name, self.then_block, self.then_arguments)
        _check_successor(self.name, self.else_block, self.else_arguments)


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Ends the thread (kernels) or returns a value."""

    name = "llvm.return"
    value = opt_operand_def()
    traits = traits_def(IsTerminator())


@irdl_op_definition
class FuncOp(IRDLOperation):
    """A function; with `kernel` an entry whose block arguments are the launch parameters.

    `reqntid` threads per CTA, `cluster_dim` CTAs per cluster, `blocks_are_clusters` makes the
    launch grid count clusters (PTX ISA, `.blocksareclusters`), `min_ctas` CTAs per SM that must
    fit, `max_registers` per thread. `arg_attrs` holds LLVM parameter attributes as text, one per
    argument.
    """

    name = "llvm.func"
    sym_name = prop_def(StringAttr)
    kernel = opt_prop_def(UnitAttr)
    reqntid = opt_prop_def(IndicesAttr)
    cluster_dim = opt_prop_def(IndicesAttr)
    blocks_are_clusters = opt_prop_def(UnitAttr)
    min_ctas = opt_prop_def(IntAttr)
    max_registers = opt_prop_def(IntAttr)
    arg_attrs = opt_prop_def(ArrayAttr[StringAttr])
    body = region_def()
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    def verify_(self) -> None:
        """One attribute text per argument; launch dimensions have one to three parts."""
        entry = self.body.blocks.first
        attrs = self.arg_attrs
        if attrs is not None and entry is not None and len(attrs.data) != len(entry.args):
            raise VerifyException("llvm.func: arg_attrs does not have one entry per argument")
        for dims in (self.reqntid, self.cluster_dim):
            if dims is not None and not (1 <= len(dims.data) <= 3 and min(dims.data) >= 1):
                raise VerifyException(
                    "llvm.func: launch dimensions must be 1 to 3 positive numbers"
                )

    @staticmethod
    def make_kernel(
        name: str,
        arg_types: Sequence[Attribute],
        *,
        threads: int | None = None,
        cluster_dim: Sequence[int] | None = None,
        blocks_are_clusters: bool = False,
        min_ctas: int | None = None,
        max_registers: int | None = None,
        arg_attrs: Sequence[str] | None = None,
    ) -> "FuncOp":
        """A kernel with an empty entry block that has the parameters as arguments."""
        properties: dict[str, Attribute] = {"sym_name": StringAttr(name), "kernel": UnitAttr()}
        if threads is not None:
            properties["reqntid"] = IndicesAttr((threads,))
        if cluster_dim is not None:
            properties["cluster_dim"] = IndicesAttr(tuple(cluster_dim))
        if blocks_are_clusters:
            properties["blocks_are_clusters"] = UnitAttr()
        if min_ctas is not None:
            properties["min_ctas"] = IntAttr(min_ctas)
        if max_registers is not None:
            properties["max_registers"] = IntAttr(max_registers)
        if arg_attrs is not None:
            properties["arg_attrs"] = ArrayAttr([StringAttr(text) for text in arg_attrs])
        entry = Block(arg_types=tuple(arg_types))
        return FuncOp.create(properties=properties, regions=[Region([entry])])

    @property
    def entry(self) -> Block:
        """The entry block."""
        block = self.body.blocks.first
        if block is None:
            raise VerifyException(f"llvm.func @{self.sym_name.data} has no body")
        return block
