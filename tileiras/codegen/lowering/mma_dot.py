"""Matrix products by mma.sync: steps along K, each with its own fragments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.atoms.mma import MmaAtom, get_mma_atom
from tileiras.codegen.lowering.context import KernelLowering, LoweringRules
from tileiras.codegen.lowering.dot_operands import (
    FragmentSteps,
    RegisterOperand,
    SharedOperand,
    StagedOperand,
    register_count,
    unsigned,
)
from tileiras.codegen.lowering.scaled_words import (
    SignedOperand,
    any_negative,
    scale_words,
    with_signs,
)
from tileiras.codegen.lowering.scratch import aligned
from tileiras.codegen.lowering.stage_operands import is_in_stage, operand_shape, tile_of
from tileiras.codegen.lowering.types import element_type, register_type
from tileiras.codegen.target import Feature
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.mma import columns_of, in_columns, mma_operand_layout
from tileiras.dialects.layout.offsets import storage_bytes
from tileiras.dialects.layout.operands import placed_operand, plan_operand
from tileiras.dialects.layout.scales import ScaleWords
from tileiras.dialects.llvm.types import bit_width, scalar_of

_STEP_REGISTERS = 64
"""32-bit registers that the fragments of one step may take; fewer steps make shorter code."""
_STAGE_STEP_REGISTERS = 32
"""The same where operands are read in stages: there is to be room for several tile blocks."""

MmaProduct = tas.MmaDotOp | tas.MmaScaledDotOp
"""Products by mma.sync, without and with scales."""

AnyOperand = RegisterOperand | SharedOperand

_Key = tuple[SSAValue, int]
"""What tells operands apart: the value, and 0 where it is the left operand, 1 the right one."""


def lower_mma_dot(ctx: KernelLowering, op: MmaProduct) -> None:
    """Stages what is not in fragments, then multiplies step by step along K.

    Products next to each other that read a staged operand in common do so together.
    """
    if op.result in ctx.values:
        return
    atom = get_mma_atom(op.atom.data)
    layouts = _fragments(ctx, op, atom)
    products = _together(ctx, op, layouts)
    values = list(dict.fromkeys(key for product in products for key in _keys(product)))
    reps_k = operand_shape(ctx, op.lhs)[-1] // atom.depth
    parts = _parts(ctx, values, layouts, reps_k)
    steps = _divide(ctx, values, atom, layouts, reps_k, parts)
    columns = {place: column for column, place in _columns(ctx, op, atom).items()}
    if atom.parts:
        _multiply_in_parts(ctx, atom, products, values, steps, parts, columns)
        return
    operands: dict[_Key, AnyOperand] = {
        (value, which): _operand(ctx, value, steps[which], -1 - which, parts, columns)
        for value, which in values
    }
    staged = [operand for operand in operands.values() if isinstance(operand, StagedOperand)]
    sums = [ctx.value(product.acc) for product in products]
    scales = [_scales(ctx, product) for product in products]
    shape = ctx.layout(op.result.type).shape
    batches = shape[0] if len(shape) == 3 else 1
    per_part = steps[0].count // parts
    for part in range(parts):
        _stage(ctx, staged, part)
        for step in range(part * per_part, (part + 1) * per_part):
            read = {key: operand.fragments(step) for key, operand in operands.items()}
            for index, product in enumerate(products):
                fragments = [read[key] for key in _keys(product)]
                reps = 1 << steps[0].step_bits
                place = Part(batches, reps, step * reps, scales[index])
                sums[index] = _multiply(ctx, atom, fragments, sums[index], place)
    ctx.values.update(zip((product.result for product in products), sums, strict=True))


def _multiply_in_parts(
    ctx: KernelLowering,
    atom: MmaAtom,
    products: Sequence[MmaProduct],
    values: Sequence[_Key],
    steps: Sequence[FragmentSteps],
    parts: int,
    columns: dict[int, int],
) -> None:
    """The same where operands are multiplied in parts: each part is an operand of its own."""
    from tileiras.codegen.lowering.products_of_parts import ProductsOfParts, parts_of

    operands: dict[_Key, Sequence[AnyOperand]] = {}
    for value, which in values:
        if _is_in_fragments(ctx, (value, which), [step.layout for step in steps]):
            operands[value, which] = [RegisterOperand(ctx, ctx.value(value), steps[which])]
            continue
        operands[value, which] = [
            _operand(ctx, value, steps[which], -1 - which, parts, columns, part)
            for part in parts_of(ctx.b, ctx.value(value))
        ]
    staged = [of for each in operands.values() for of in each if isinstance(of, StagedOperand)]
    sums = ProductsOfParts(ctx, atom, products)
    reps, per_part = 1 << steps[0].step_bits, steps[0].count // parts
    for part in range(parts):
        _stage(ctx, staged, part)
        for step in range(part * per_part, (part + 1) * per_part):
            read = {
                key: sums.fragments([operand.fragments(step) for operand in each])
                for key, each in operands.items()
            }
            for product in products:
                left, right = (read[key] for key in _keys(product))
                sums.add(product, left, right, reps)
    ctx.values.update(zip((product.result for product in products), sums.totals(), strict=True))


@dataclass(frozen=True)
class Scales:
    """The words of scales of a product, and how many scales there are along K.

    `negative`: i1, whether any may be, where the instruction takes none that is.
    """

    words: tuple[SSAValue, SSAValue]
    blocks: int
    negative: SSAValue | None


@dataclass(frozen=True)
class Part:
    """What is multiplied at once: of all batches `reps_k` atoms along K from the `first` on."""

    batches: int
    reps_k: int
    first: int
    scales: Scales | None


def _scales(ctx: KernelLowering, op: MmaProduct) -> Scales | None:
    """The scales of a block-scaled product."""
    if not isinstance(op, tas.MmaScaledDotOp):
        return None
    blocks = ctx.layout(op.lhs_scale.type).shape[-1]
    words = [scale_words(ctx, ctx.value(v), blocks) for v in (op.lhs_scale, op.rhs_scale)]
    left, right = words
    scaling = get_mma_atom(op.atom.data).scaling
    is_unsigned = scaling is not None and scaling.type == "ue4m3"
    return Scales((left, right), blocks, any_negative(ctx, words) if is_unsigned else None)


def _keys(op: MmaProduct) -> list[_Key]:
    """The operands of a product; of one in parts without a sign, which parts take for nothing."""
    values = [op.lhs, op.rhs]
    if get_mma_atom(op.atom.data).parts:
        values = [unsigned(value) for value in values]
    return [(value, which) for which, value in enumerate(values)]


def _together(
    ctx: KernelLowering, first: MmaProduct, layouts: Sequence[LinearLayout]
) -> list[MmaProduct]:
    """A product and those right behind it that read an operand of it from shared memory too."""
    staged = {key: None for key in _keys(first) if not _is_in_fragments(ctx, key, layouts)}
    in_parts = bool(get_mma_atom(first.atom.data).parts)
    products, made = [first], [first.result]
    following = first.next_op
    while (
        isinstance(following, type(first))
        and following.properties == first.properties
        and following.result.type == first.result.type
        and any(key in staged for key in _keys(following))
        and not any(operand in made for operand in (following.lhs, following.rhs))
        and (following.acc not in made or (in_parts and following.acc.has_one_use()))
        and _bytes(ctx, [*products, following], layouts) <= ctx.scratch.limit
    ):
        products.append(following)
        made.append(following.result)
        following = following.next_op
    return products


def _bytes(
    ctx: KernelLowering, products: Sequence[MmaProduct], layouts: Sequence[LinearLayout]
) -> int:
    """Bytes of shared memory that all operands of products take at once."""
    values = dict.fromkeys(key for product in products for key in _keys(product))
    return sum(_staged_sizes(ctx, list(values), layouts))


def _staged_sizes(
    ctx: KernelLowering, values: Sequence[_Key], layouts: Sequence[LinearLayout]
) -> list[int]:
    """Bytes of each operand that lies neither in fragments nor where it is read."""
    return [
        aligned(layouts[which].size * bytes)
        for value, which in values
        for bytes in _stored_bytes(value)
        if not _is_in_fragments(ctx, (value, which), layouts)
        and value not in ctx.smem_tiles
        and not is_in_stage(value)
    ]


def _stored_bytes(value: SSAValue) -> Sequence[int]:
    """Bytes of an element in shared memory, of each of its parts where there are several."""
    return (2, 2, 2) if element_type(value.type) == f32 else (storage_bytes(_bits(value)),)


def _is_in_fragments(ctx: KernelLowering, key: _Key, layouts: Sequence[LinearLayout]) -> bool:
    """Whether an operand lies in the instruction's fragments, in registers."""
    value, which = key
    return not is_in_stage(value) and ctx.layout(value.type) == layouts[which]


def _fragments(ctx: KernelLowering, op: MmaProduct, atom: MmaAtom) -> list[LinearLayout]:
    """The fragment layouts of A and B, whose columns are in the order of those of the sum."""
    rows, warps = atom.layouts(), (op.warps_m.data, op.warps_n.data)
    left, right = (operand_shape(ctx, value) for value in (op.lhs, op.rhs))
    return [
        mma_operand_layout(rows.a, left, warps, "A"),
        in_columns(mma_operand_layout(rows.b, right, warps, "B"), _columns(ctx, op, atom)),
    ]


def _columns(ctx: KernelLowering, op: MmaProduct, atom: MmaAtom) -> dict[int, int]:
    """Which column of the tile each column of the instructions' is."""
    result, warps = ctx.layout(op.result.type), (op.warps_m.data, op.warps_n.data)
    columns = columns_of(mma_operand_layout(atom.layouts().c, result.shape, warps, "C"), result)
    if columns is None:
        raise ctx.contradiction("does not leave its sum as instructions do")
    return columns


def _parts(
    ctx: KernelLowering, values: Sequence[_Key], layouts: Sequence[LinearLayout], reps_k: int
) -> int:
    """Into how many parts of K the product falls so that the staged operands fit."""
    sizes = _staged_sizes(ctx, values, layouts)
    limit, parts = ctx.scratch.limit, 1
    while (needed := sum(aligned(size // parts) for size in sizes)) > limit:
        if parts == reps_k:
            raise ctx.too_large(needed, limit)
        parts *= 2
    return parts


def _element(value: SSAValue) -> Attribute:
    """The type of an element in registers."""
    return register_type(element_type(value.type))


def _bits(value: SSAValue) -> int:
    """Bits of an element in registers."""
    return bit_width(_element(value))


def _divide(
    ctx: KernelLowering,
    values: Sequence[_Key],
    atom: MmaAtom,
    layouts: Sequence[LinearLayout],
    reps_k: int,
    parts: int,
) -> list[FragmentSteps]:
    """How many atoms along K make a step, which lies in one part."""
    k_bits = reps_k.bit_length() - 1
    words = sum(layouts[which].in_size("register") * _bits(value) // 32 for value, which in values)
    step_bits = k_bits - (parts.bit_length() - 1)
    in_stages = all(value in ctx.smem_tiles or is_in_stage(value) for value, _ in values)
    most = _STAGE_STEP_REGISTERS if in_stages else _STEP_REGISTERS
    while step_bits and words >> (k_bits - step_bits) > most:
        step_bits -= 1
    elements = (atom.a_elements, atom.b_elements)
    return [
        FragmentSteps(layout, count.bit_length() - 1, k_bits, step_bits)
        for layout, count in zip(layouts, elements, strict=True)
    ]


def _operand(
    ctx: KernelLowering,
    value: SSAValue,
    steps: FragmentSteps,
    k_dim: int,
    parts: int,
    columns: dict[int, int],
    part: SSAValue | None = None,
) -> AnyOperand:
    """An operand as it is or where it is, or to be staged, or a `part` of it to be staged.

    In shared memory `columns` of a right operand, by their numbers, count as the instructions'.
    """
    element, there = _element(value), tile_of(ctx, value, k_dim + 2)
    if part is not None:
        element = scalar_of(part.type)

    def counted(layout: LinearLayout) -> LinearLayout:
        return layout if k_dim == -1 else in_columns(layout, columns)

    plain = replace(steps, layout=counted(steps.layout))
    if there is not None:
        tile = placed_operand(counted(there.layout), k_dim)
        return SharedOperand(ctx, element, plain, tile, region=there.region)
    source, registers = ctx.layout(value.type), ctx.value(value) if part is None else part
    if source == steps.layout:
        return RegisterOperand(ctx, registers, steps)
    source, steps = counted(source), plain
    has_loads, has_stores = (ctx.target.has(f) for f in (Feature.LDMATRIX, Feature.STMATRIX))
    bits = bit_width(element)
    tile = plan_operand(source, steps.layout, k_dim, bits, has_loads, parts, has_stores)
    return StagedOperand(ctx, element, steps, tile, parts, value=registers, source=source)


def _stage(ctx: KernelLowering, staged: Sequence[StagedOperand], part: int) -> None:
    """One part of every staged operand, in one region, then a barrier."""
    if not staged:
        return
    region = ctx.scratch.region(sum(aligned(operand.bytes) for operand in staged))
    offset = 0
    for operand in staged:
        operand.stage(ctx.b.gep(region, offset), part)
        offset += aligned(operand.bytes)
    ctx.b.barrier()


def _multiply(
    ctx: KernelLowering,
    atom: MmaAtom,
    fragments: Sequence[SSAValue],
    acc: SSAValue,
    part: Part,
) -> SSAValue:
    """One mma_tile op per batch."""
    scales = part.scales
    values = (*fragments, acc, *(scales.words if scales is not None else ()))
    counts = [register_count(value) // part.batches for value in values]
    reps_m = counts[0] // (atom.a_elements * part.reps_k)
    reps_n = counts[1] // (atom.b_elements * part.reps_k)
    reps = (reps_m, reps_n, part.reps_k)
    parts: list[SSAValue] = []
    for batch in range(part.batches):
        a, b, c, *words = (
            ctx.b.slice(value, batch * count, count)
            for value, count in zip(values, counts, strict=True)
        )
        if scales is None:
            parts.append(ctx.b.mma_tile(atom.name, a, b, c, reps))
            continue
        left, right = words
        if scales.negative is not None:
            both = (
                SignedOperand(a, left, ScaleWords("A", scales.blocks)),
                SignedOperand(b, right, ScaleWords("B", scales.blocks)),
            )
            a, b = with_signs(ctx, scales.negative, both, part.reps_k, part.first)
        parts.append(
            ctx.b.mma_scaled_tile(
                atom.name, (a, b, c), (left, right), reps, scales.blocks, part.first
            )
        )
    return ctx.b.concat(parts)


RULES: LoweringRules = {
    tas.MmaDotOp: lower_mma_dot,
    tas.MmaScaledDotOp: lower_mma_dot,
}
"""Products by class."""
