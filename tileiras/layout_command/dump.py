"""The layouts that a dump has: of tensors, of tiles in memory, of values of CuTe's dialects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue

from tileiras.dialects.assembly.aliases import collect_aliases
from tileiras.dialects.assembly.layout_listing import Named, named_values
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.linear import shared_from_linear
from tileiras.dialects.cute.algebra.swizzles import AnyLayout, ComposedLayout
from tileiras.dialects.cute.tiled import OPERANDS, atom_layout, operand_shape
from tileiras.dialects.cute.types import CuteType
from tileiras.dialects.cute.values import MmaAtom, Tensor, TiledCopy, TiledMma, element_bits
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.types import TiledViewType
from tileiras.dialects.nv_tileas.cute_layouts import decomposed, smem_bits, tmem_layout
from tileiras.dialects.nv_tileas.encoding import LayoutEncodingAttr, layout_of
from tileiras.dialects.nv_tileas.memdesc import MemDescType
from tileiras.dialects.nv_tileas.memory import ConvertLayoutOp
from tileiras.dialects.nv_tileas.ways import ThroughSmemAttr
from tileiras.errors import UsageError

REGISTERS, SMEM, TMEM, OTHER = "registers", "smem", "tmem", "layout"
"""What a layout places: elements in threads, in shared or tensor memory, or something else."""
WITH_LAYOUTS = ("nv_tileaa", "nv_tileas", "cute")
"""Stages whose programs say where elements lie."""


@dataclass(frozen=True)
class Access:
    """How registers of a layout reach a tile in shared memory; `vector` in elements, 0: widest."""

    who: str
    layout: LinearLayout
    vector: int = 0


@dataclass(frozen=True)
class Entry:
    """A layout of a dump: whose it is, and by which words it is asked for.

    `bits` are those of an element in memory. `linear` are the bits of a layout of registers, or
    {offset} -> coordinates; `layout` what CuTe calls it, `tile` that of a (thread, value) layout.
    """

    function: str
    title: str
    words: tuple[str, ...]
    kind: str
    bits: int = 0
    linear: LinearLayout | None = None
    layout: AnyLayout | None = None
    tile: tuple[int, ...] = ()
    accesses: tuple[Access, ...] = ()

    @property
    def place(self) -> tuple[object, ...]:
        """What two entries have in common that are drawn alike."""
        return self.kind, self.bits if self.kind == SMEM else 0, self.linear, self.layout, self.tile

    def parts(self) -> list[tuple[str, str]]:
        """What it is, in CuTe's notation."""
        if self.kind == REGISTERS and self.linear is not None:
            return decomposed(self.linear)
        name = "tv" if self.kind == REGISTERS else self.kind
        if self.layout is not None:
            return [(name, str(self.layout))]
        return [(name, str(self.linear))]


def entries(module: ModuleOp) -> list[Entry]:
    """All layouts of a module, in the order of its text.

    UsageError for a module whose stage has none.
    """
    from tileiras.stages import stage_of

    stage = stage_of(module).name
    if stage not in WITH_LAYOUTS:
        raise UsageError(
            f"a program of stage {stage} has no layouts, expected one of stage "
            f"{', '.join(WITH_LAYOUTS[:-1])} or {WITH_LAYOUTS[-1]} "
            "(tileiras --emit=nv_tileas, --dump-dir)"
        )
    tops = list(module.body.block.ops)
    if stage == "cute":
        return [entry for func in tops for entry in _of_cute(func)]
    aliases = collect_aliases(tops)
    return [entry for func in tops for entry in _of_tiles(func, aliases)]


def selected(found: Iterable[Entry], word: str) -> list[Entry]:
    """Those that a word asks for: `%tile`, `tile`, `nv_tileas.mma_dot`, `mma_dot`, `#mma0`.

    `@kernel:word` asks in one function only. UsageError where there is none.
    """
    from tileiras.suggestions import did_you_mean

    found = list(found)
    function, colon, name = word.rpartition(":")
    inside = [one for one in found if not colon or one.function == function.lstrip("@")]
    chosen = [one for one in inside if name in one.words]
    if chosen:
        return chosen
    known = list(dict.fromkeys(each for one in found for each in one.words))
    label = did_you_mean(name, sorted(known))
    raise UsageError(f"nothing that has a layout is called '{word}'", label=label)


def _symbol(func: Operation) -> str:
    symbol = func.properties.get("sym_name") or func.attributes.get("sym_name")
    return symbol.data if isinstance(symbol, StringAttr) else ""


def _words(named: Named, *more: str) -> tuple[str, ...]:
    """The words that ask for a value."""
    result = named.name.removeprefix("%")
    of = (named.op.name, named.op.name.partition(".")[2]) if _made(named) else ()
    return (named.name, result, result.partition("#")[0], *of, *more)


def _made(named: Named) -> bool:
    return named.value.owner is named.op


# Tile programs --------------------------------------------------------------------------------


def _of_tiles(func: Operation, aliases: dict[Attribute, str]) -> Iterator[Entry]:
    """Layouts of values, then those beside the operation that makes them."""
    function = _symbol(func)
    values = list(named_values(func))
    names = {named.value: named.name for named in values}
    done: dict[Operation, None] = {}
    made = {named.op for named in values if _made(named)}
    for named in values:
        entry = _of_value(named, aliases)
        if entry is not None:
            yield replace(entry, function=function)
        if named.op not in done and _made(named):
            done[named.op] = None
            words = _words(named)
            for beside in _beside(named.op, str(named).partition(" : ")[0], words, names):
                yield replace(beside, function=function)
    for op in func.walk():
        if op not in made:
            words = (op.name, op.name.partition(".")[2])
            for beside in _beside(op, op.name, words, names):
                yield replace(beside, function=function)


def _of_value(named: Named, aliases: dict[Attribute, str]) -> Entry | None:
    """The layout of a value's type."""
    type, title = named.value.type, str(named)
    layout = layout_of(type)
    if layout is not None and isinstance(type, TensorType):
        alias = aliases.get(LayoutEncodingAttr(layout), "")
        shown = f"{title}, {alias}" if alias else title
        bits = _bits(type)
        words = _words(named, alias) if alias else _words(named)
        return Entry("", shown, words, REGISTERS, bits, layout, tile=layout.shape)
    if not isinstance(type, MemDescType):
        return None
    alias = aliases.get(type, "")
    words = _words(named, alias) if alias else _words(named)
    title = f"{title}, {alias}" if alias else title
    bits = storage_bits(type.element_type)
    if type.shared_linear is not None:
        return _memory(title, words, bits, type.shared_linear, ())
    in_smem = smem_bits(type)
    if in_smem is not None:
        return Entry("", title, words, SMEM, bits, in_smem, shared_from_linear(in_smem), type.shape)
    in_tmem = tmem_layout(type)
    if in_tmem is None:
        return None
    return Entry("", title, words, TMEM, bits, None, in_tmem, type.shape)


def _bits(type: Attribute) -> int:
    """Bits of an element of a tensor or view; 0 of what has none."""
    if isinstance(type, TensorType):
        return storage_bits(type.element_type)
    if isinstance(type, TiledViewType):
        return storage_bits(type.memref.element_type)
    return 0


def _beside(
    op: Operation, title: str, words: tuple[str, ...], names: dict[SSAValue, str]
) -> Iterator[Entry]:
    """Layouts that an operation names, and the staging of one that goes through shared memory."""
    values = [*op.results, *op.operands]
    bits = next((found for value in values if (found := _bits(value.type))), 0)
    held = [
        Access(names.get(value, "?"), layout)
        for value in values
        if (layout := layout_of(value.type)) is not None
    ]
    if isinstance(op, ConvertLayoutOp):
        source, target = layout_of(op.source.type), layout_of(op.result.type)
        if isinstance(op.by, ThroughSmemAttr) and source and target:
            accesses = (
                Access(f"stored from {names.get(op.source, '?')}", source, op.by.store.data),
                Access(f"loaded to {names.get(op.result, '?')}", target, op.by.load.data),
            )
            shared = op.by.layout.data
            yield _memory(f"{title} through shared memory", words, bits, shared, accesses)
        return
    own = [
        (name, layout)
        for name, attribute in (*op.properties.items(), *op.attributes.items())
        for layout in _layouts_in(attribute)
    ]
    types = [operand.type for operand in op.operands if isinstance(operand.type, MemDescType)]
    own += [("shared", type.shared_linear) for type in types if type.shared_linear is not None]
    held += [Access(name, layout) for name, layout in own if layout.in_dims != ("offset",)]
    for number, (name, layout) in enumerate(own):
        which = name if sum(name == other for other, _ in own) == 1 else f"{name} {number}"
        if layout.in_dims == ("offset",):
            accesses = tuple(one for one in held if one.layout.shape == layout.shape)
            yield _memory(f"{title} {which}", words, bits, layout, accesses)
        else:
            shown = f"{title} {which}"
            yield Entry("", shown, words, REGISTERS, bits, layout, tile=layout.shape)


def _memory(
    title: str,
    words: tuple[str, ...],
    bits: int,
    linear: LinearLayout,
    accesses: tuple[Access, ...],
) -> Entry:
    try:
        layout = shared_from_linear(linear)
    except AlgebraError:
        layout = None
    return Entry("", title, words, SMEM, bits, linear, layout, linear.shape, accesses)


def _layouts_in(attribute: Attribute) -> Iterator[LinearLayout]:
    """The layouts that an attribute holds; those of types are not its own."""
    match attribute:
        case LayoutEncodingAttr():
            yield attribute.data
        case ArrayAttr():
            for each in attribute.data:
                yield from _layouts_in(each)
        case TensorType() | MemDescType():
            return
        case ParametrizedAttribute():
            for each in attribute.parameters:
                yield from _layouts_in(each)
        case _:
            return


# Programs in CuTe's dialects ------------------------------------------------------------------


def _of_cute(func: Operation) -> Iterator[Entry]:
    """The values of a program that have a layout, tiled products with one for each operand."""
    function, count = _symbol(func), 0
    for op in func.walk():
        arguments = [arg for region in op.regions for block in region.blocks for arg in block.args]
        for value in (*op.results, *arguments):
            name = f"%{value.name_hint}" if value.name_hint else f"%{count}"
            count += not value.name_hint
            if not isinstance(value.type, CuteType):
                continue
            named = Named(value, name, op)
            for entry in _of_cute_value(named, value.type.data):
                yield replace(entry, function=function)


def _of_cute_value(named: Named, value: object) -> Iterator[Entry]:
    title, words = str(named), _words(named)
    match value:
        case Layout() | ComposedLayout():
            yield Entry("", title, words, OTHER, layout=value)
        case Tensor(engine, layout):
            bits = element_bits(engine.element)
            kind = SMEM if engine.space == SMEM else OTHER
            yield Entry("", title, words, kind, bits, layout=layout)
        case TiledCopy(_, layout, tile):
            yield Entry("", title, words, REGISTERS, layout=layout, tile=tile)
        case MmaAtom():
            yield from _of_atom(title, words, value)
        case TiledMma(atom, _):
            yield from _of_atom(f"{title}, of an atom", words, atom)
        case _:
            return


def _of_atom(title: str, words: tuple[str, ...], atom: MmaAtom) -> Iterator[Entry]:
    """The fragments of an atom: of operands that are in registers."""
    for which in OPERANDS:
        try:
            layout = atom_layout(atom, which)
        except AlgebraError:
            continue
        shape = operand_shape(atom, which)
        yield Entry("", f"{title}, {which}", words, REGISTERS, layout=layout, tile=shape)
