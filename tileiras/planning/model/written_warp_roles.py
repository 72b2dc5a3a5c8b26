"""The roles of warps as attributes beside the operations that they run, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr, TensorType, UnitAttr
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import IntTupleAttr
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileas.encoding import LayoutEncodingAttr
from tileiras.dialects.nv_tileas.warp_roles import (
    APART,
    AWAITS_FIRST,
    CONSUMER,
    ENTRY,
    FOR_PEER,
    KEPT_MAPS,
    MULTICAST,
    NAMES,
    PRODUCER,
    PRODUCT,
    PROLOGUE_FILLS,
    ROLES,
    STARTS_OTHERS,
    STORE,
    TILE_ORDER,
    UNIFORM_WITH,
    WARP_ROLES,
    PrologueFillAttr,
    RoleAttr,
    RolesAttr,
    WarpRolesAttr,
    role_attribute,
    roles_attribute,
)
from tileiras.errors import CompileError
from tileiras.planning.clusters import Multicast, place_in_rows
from tileiras.planning.layouts.written import contradiction
from tileiras.planning.model.checked_warp_roles import check_against_plan
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.model.warp_roles import RoleProgram, WarpRoles
from tileiras.planning.model.written_products import read_products, write_products
from tileiras.planning.operands.tma import OperandLoad
from tileiras.planning.schedule.prologue import (
    PrologueFill,
    loop_over_tiles,
    serves_others,
    tiles_around,
)
from tileiras.planning.tile_scheduler.longest_tile_first import written_order
from tileiras.planning.warp_roles.producer_layouts import ProducerLayouts
from tileiras.planning.warp_roles.producer_slice import ProducerSlice, SlicedAccess, needed_values

FLAGS = ("by_bytes", "hurried", "if_taken", "at_start", "first_tile")
"""What prologue fills may be said to be, in the order of `PrologueFill`."""
_Structured = aa.ForOp | aa.LoopOp | aa.IfOp


# Writing ---------------------------------------------------------------------------------------


def write_warp_roles(func: aa.FuncOp, plan: RolePlan, roles: WarpRoles) -> None:
    """Puts the roles into the attributes of a function and its operations; older ones go."""
    erase_warp_roles(func)
    warps = {CONSUMER: plan.shape.consumer_warps}
    warps |= {role: program.layouts.warps for role, program in roles.programs.items()}
    func.attributes[WARP_ROLES] = WarpRolesAttr.of(**warps)
    if roles.tile_order is not None:
        func.attributes[TILE_ORDER] = IntTupleAttr(roles.tile_order)
    if roles.keeps_maps:
        func.attributes[KEPT_MAPS] = UnitAttr()
    if roles.late_start is not None:
        awaits, starts = roles.late_start
        awaits.attributes[AWAITS_FIRST] = UnitAttr()
        starts.attributes[STARTS_OTHERS] = UnitAttr()
    for op in func.body.walk():
        if found := _written(op, roles):
            op.attributes[ROLES] = roles_attribute(tuple(found))
        elif op in roles.elsewhere:
            op.attributes[ROLES] = roles_attribute(())
    for value in roles.multicast.ranked:
        if isinstance(value.owner, Operation):
            value.owner.attributes[FOR_PEER] = UnitAttr()
    for load, ranked in roles.multicast.loads.items():
        if isinstance(load, aa.TiledLoadOp):
            numbers = [n for n, index in enumerate(load.indices) if index in ranked]
            load.attributes[MULTICAST] = IntTupleAttr(numbers)
            if load in roles.multicast.apart:
                load.attributes[APART] = IntAttr(roles.multicast.apart[load])
    for pipeline in plan.pipelines:
        for load in pipeline.loads:
            if load in roles.uniform:
                place = pipeline.content(load).index(roles.uniform[load])
                load.attributes[UNIFORM_WITH] = IntAttr(place)
    _write_fills(roles.fills)
    write_products(roles)


def erase_warp_roles(func: aa.FuncOp) -> None:
    """Takes the attributes of roles away."""
    for op in func.walk():
        for name in NAMES:
            op.attributes.pop(name, None)


def _written(op: Operation, roles: WarpRoles) -> list[RoleAttr]:
    """The roles of an operation; none if it is the consumers' alone, or nobody's."""
    found = [_role(op, role, of) for role, of in roles.programs.items() if of.kept.keeps(op)]
    if op in roles.exit:
        found.insert(0, role_attribute(ENTRY))
    if found and op not in roles.elsewhere:
        found.append(role_attribute(CONSUMER))
    return found


def _role(op: Operation, role: str, program: RoleProgram) -> RoleAttr:
    """What a role needs of an operation that it runs."""
    if not isinstance(op, _Structured):
        layouts = program.layouts.of(op.results[0]) if op.results else []
        return role_attribute(role, layouts=tuple(layouts), access=program.accesses.get(op))
    arguments, results = carried_arguments(op), op.results
    return role_attribute(
        role,
        tuple(n for n, value in enumerate(arguments) if program.kept.carries(value)),
        tuple(n for n, value in enumerate(results) if program.kept.carries(value)),
        tuple(_layouts(program, arguments)),
        tuple(_layouts(program, results)),
    )


def carried_arguments(op: _Structured) -> Sequence[SSAValue]:
    """What a loop hands on from iteration to iteration; nothing of a branch."""
    if isinstance(op, aa.IfOp):
        return ()
    return op.body.block.args[1:] if isinstance(op, aa.ForOp) else op.body.block.args


def _layouts(program: RoleProgram, values: Iterable[SSAValue]) -> Iterator[LinearLayout]:
    """The layouts of the tensors that control flow carries."""
    for value in values:
        if program.kept.carries(value) and isinstance(value.type, TensorType):
            yield program.layouts.carried(value)


def _write_fills(fills: Sequence[PrologueFill]) -> None:
    """Says where consumers fill stages."""
    by_place: dict[Operation, list[PrologueFillAttr]] = {}
    for fill in fills:
        values = {"pipeline": fill.pipeline}
        if fill.stages is not None:
            values["stages"] = fill.stages
        values |= {name: 1 for name in FLAGS if getattr(fill, name)}
        by_place.setdefault(fill.before, []).append(PrologueFillAttr.of(**values))
    for before, found in by_place.items():
        before.attributes[PROLOGUE_FILLS] = ArrayAttr(found)


# Reading ---------------------------------------------------------------------------------------


def read_warp_roles(func: aa.FuncOp, plan: RolePlan, asked_by: str) -> WarpRoles:
    """The roles in the attributes of a planned function.

    Raises CompileError where there are none, and where a role lacks what it would have to run.
    """
    written = func.attributes.get(WARP_ROLES)
    if not isinstance(written, WarpRolesAttr):
        raise CompileError(
            f"kernel '{func.sym_name.data}' has no warp roles: {asked_by} comes after "
            "tileas-assign-warp-roles",
            place_of(func),
        )
    accesses: dict[str, Sequence[SlicedAccess]] = {
        PRODUCER: [load for pipeline in plan.pipelines for load in pipeline.loads],
        STORE: plan.stores,
        PRODUCT: [planned.dot for planned in plan.dots.values()],
    }
    programs = {
        role: RoleProgram(ProducerSlice(of), ProducerLayouts(written.integer(role)))
        for role, of in accesses.items()
        if written.has(role)
    }
    roles = WarpRoles(
        programs,
        Multicast(func.cluster_size, place_in_rows(func)),
        tuple(_read_fills(func, plan)),
        _read_uniform(plan),
        tuple(op for op in func.body.block.ops if _runs(op, ENTRY)),
        {},
        written_order(func),
        KEPT_MAPS in func.attributes,
        _read_late_start(func),
    )
    for op in func.body.walk():
        _read_roles(op, roles)
        _read_multicast(op, roles.multicast)
    for role, program in programs.items():
        _check(role, program)
    _check_fills(roles.fills, plan)
    read_products(func, plan, roles)
    check_against_plan(func, written, plan, roles)
    return roles


def _read_late_start(func: aa.FuncOp) -> tuple[Operation, Operation] | None:
    """The product that awaits the first warpgroup, and what that comes to."""
    awaits = [op for op in func.body.walk() if AWAITS_FIRST in op.attributes]
    starts = [op for op in func.body.walk() if STARTS_OTHERS in op.attributes]
    if not awaits and not starts:
        return None
    if len(awaits) != 1 or len(starts) != 1:
        counts = f"{len(awaits)} '{AWAITS_FIRST}' and {len(starts)} '{STARTS_OTHERS}'"
        raise contradiction(func, f"has {counts}, expected one of each")
    [product], [start] = awaits, starts
    if not isinstance(product, aa.ProductOp):
        raise contradiction(product, f"is no product with '{AWAITS_FIRST}'")
    if start is not product and not isinstance(start, aa.ForOp):
        raise contradiction(start, f"is no product or loop with '{STARTS_OTHERS}'")
    return product, start


def _roles_of(op: Operation) -> Sequence[RoleAttr] | None:
    """The roles beside an operation; None where it is the consumers' alone."""
    found = op.attributes.get(ROLES)
    if found is None:
        return None
    if not isinstance(found, RolesAttr):
        raise contradiction(op, f"has '{ROLES}' that are no roles")
    return found.roles.data


def _runs(op: Operation, word: str) -> bool:
    """Whether a role runs an operation, as written."""
    return any(role.word == word for role in _roles_of(op) or ())


def _read_roles(op: Operation, roles: WarpRoles) -> None:
    """Notes who runs an operation."""
    found = _roles_of(op)
    if found is None:
        return
    if all(role.word != CONSUMER for role in found):
        roles.elsewhere[op] = None
    for role in found:
        if role.word in (CONSUMER, ENTRY):
            continue
        if role.word not in roles.programs:
            raise contradiction(op, f"has a role that the kernel has not: {role.word}")
        _read_role(op, role, roles.programs[role.word])


def _read_role(op: Operation, role: RoleAttr, program: RoleProgram) -> None:
    """Notes what a role needs of an operation."""
    program.kept.ops[op] = None
    for access in role.access:
        program.accesses[op] = access
    if not isinstance(op, _Structured):
        # Of what the role is for (a copy, a product) it has no result.
        if op not in program.kept.loads:
            program.kept.values.update(dict.fromkeys(op.results))
        for layout in role.layouts:
            _read_layout(op, op.results[0] if op.results else None, layout, program)
        return
    carried = (
        (carried_arguments(op), role.arguments, role.argument_layouts),
        (op.results, role.results, role.layouts),
    )
    for values, numbers, layouts in carried:
        if any(number >= len(values) for number in numbers.data):
            raise contradiction(op, f"carries less than its '{ROLES}' say")
        taken = [values[number] for number in numbers.data]
        program.kept.values.update(dict.fromkeys(taken))
        tensors = [value for value in taken if isinstance(value.type, TensorType)]
        if len(tensors) != len(layouts):
            raise contradiction(op, f"has '{ROLES}' with {len(layouts)} layouts of carried tensors")
        for value, layout in zip(tensors, layouts, strict=True):
            _read_layout(op, value, layout, program)


def _read_layout(
    op: Operation, value: SSAValue | None, layout: LayoutEncodingAttr, program: RoleProgram
) -> None:
    """Notes a layout of a tensor."""
    type = value.type if value is not None else None
    shape = type.get_shape() if isinstance(type, TensorType) else None
    if (
        value is None
        or layout.data.shape != shape
        or layout.data.in_size("warp") != program.layouts.warps
    ):
        raise contradiction(op, f"has in its '{ROLES}' a layout of other sizes or warps")
    program.layouts.add(value, layout.data)


def _check(role: str, program: RoleProgram) -> None:
    """Whether all that a role runs has operands, and stands in what the role runs."""
    for op in program.kept.ops:
        parent = op.parent_op()
        if not isinstance(parent, aa.FuncOp) and parent not in program.kept.ops:
            raise contradiction(op, f"has the role {role}, what is around it has not")
        for value in needed_values(op, program.kept):
            if not _is_known(value, program.kept):
                raise contradiction(op, f"has the role {role}, what makes its operands has not")


def _is_known(value: SSAValue, kept: ProducerSlice) -> bool:
    """Whether a role has a value. Everyone has the kernel's arguments and numbers of iterations."""
    if kept.carries(value) or not isinstance(value, BlockArgument):
        return kept.carries(value)
    parent = value.owner.parent_op()
    return isinstance(parent, aa.FuncOp) or (isinstance(parent, aa.ForOp) and value.index == 0)


def _read_multicast(op: Operation, multicast: Multicast) -> None:
    """Notes what the CTAs of a cluster share, and what is computed for the other one."""
    if FOR_PEER in op.attributes and op.results:
        multicast.ranked[op.results[0]] = None
    shared = op.attributes.get(MULTICAST)
    if isinstance(shared, IntTupleAttr) and isinstance(op, aa.TiledLoadOp):
        if any(number >= len(op.indices) for number in shared.data):
            raise contradiction(op, f"has fewer indices than '{MULTICAST}' says")
        multicast.loads[op] = tuple(op.indices[number] for number in shared.data)
        if isinstance(apart := op.attributes.get(APART), IntAttr):
            multicast.apart[op] = apart.data


def _read_uniform(plan: RolePlan) -> dict[OperandLoad, OperandLoad]:
    """The loads that may bring the tile of another one."""
    found: dict[OperandLoad, OperandLoad] = {}
    for pipeline in plan.pipelines:
        for load in pipeline.loads:
            place, content = load.attributes.get(UNIFORM_WITH), pipeline.content(load)
            if isinstance(place, IntAttr):
                if place.data >= content.index(load):
                    raise contradiction(load, f"has '{UNIFORM_WITH}' of no earlier load")
                found[load] = content[place.data]
    return found


def _read_fills(func: aa.FuncOp, plan: RolePlan) -> Iterator[PrologueFill]:
    """The stages that consumers fill."""
    for op in func.body.walk():
        found = op.attributes.get(PROLOGUE_FILLS)
        for fill in found.data if isinstance(found, ArrayAttr) else ():
            yield _read_fill(op, fill, plan)


def _read_fill(op: Operation, fill: Attribute, plan: RolePlan) -> PrologueFill:
    """One pipeline that consumers begin to fill."""
    if not isinstance(fill, PrologueFillAttr) or fill.integer("pipeline") >= len(plan.pipelines):
        raise contradiction(op, f"has '{PROLOGUE_FILLS}' of no pipeline")
    number = fill.integer("pipeline")
    content = plan.pipelines[number].contents[0]
    loads = tuple(load for load in content if isinstance(load, aa.TiledLoadOp))
    if len(loads) != len(content):
        raise contradiction(op, f"has '{PROLOGUE_FILLS}' of a pipeline that is gathered")
    flags = [bool(fill.integer(flag)) for flag in FLAGS]
    return PrologueFill(op, number, loads, fill.optional_integer("stages"), *flags)


def _check_fills(fills: Sequence[PrologueFill], plan: RolePlan) -> None:
    """Whether fills before a branch whose stages others need, too, depend on it, and no others."""
    for fill in fills:
        if fill.if_taken and not isinstance(fill.before, aa.IfOp):
            raise contradiction(fill.before, f"has '{PROLOGUE_FILLS}' if_taken, and is no branch")
        if fill.at_start and (
            not isinstance(fill.before, aa.ForOp) or loop_over_tiles(fill.before) is None
        ):
            said = f"'{PROLOGUE_FILLS}' at_start, and no loop over tiles in front"
            raise contradiction(fill.before, f"has {said}")
        if fill.first_tile and tiles_around(fill.before) is None:
            said = f"'{PROLOGUE_FILLS}' first_tile, and no loop over tiles around"
            raise contradiction(fill.before, f"has {said}")
        if serves_others(fill, fills, plan) and not fill.if_taken:
            said = f"'{PROLOGUE_FILLS}' of stages that others need, too, without if_taken"
            raise contradiction(fill.before, f"has {said}")
