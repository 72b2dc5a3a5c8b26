"""Roles of warps as attributes: what is written is what was decided, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.utils.exceptions import VerifyException

from tests.kernels.assigned import BORDER, LAST, TARGET, assigned, first, plan_of, read, run
from tests.kernels.planned import ALIKE, SPECIALISED, kernel_of
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import IntTupleAttr
from tileiras.dialects.layout.blocked import blocked
from tileiras.dialects.nv_tileas.warp_roles import (
    MULTICAST,
    NAMES,
    PRODUCER,
    PROLOGUE_FILLS,
    ROLES,
    STORE,
    TILE_ORDER,
    UNIFORM_WITH,
    WARP_ROLES,
    PrologueFillAttr,
    RolesAttr,
    WarpRolesAttr,
    role_attribute,
    roles_attribute,
)
from tileiras.errors import BytecodeError, CompileError
from tileiras.ir_text import parse_text
from tileiras.planning.model.cta import CtaPlan
from tileiras.planning.model.written import write_plan
from tileiras.planning.model.written_warp_roles import (
    carried_arguments,
    erase_warp_roles,
)
from tileiras.planning.operands.tma import rounds_to_tf32
from tileiras.planning.warp_roles.assignment import assign_roles
from tileiras.stages import print_stage


@pytest.mark.parametrize("name", SPECIALISED)
def test_roles_are_read_as_they_were_decided(name: str) -> None:
    func = kernel_of(assigned(SPECIALISED[name]()))
    decided, found = assign_roles(func, plan_of(func)), read(func)
    assert list(found.programs) == list(decided.programs)
    assert found.multicast.loads == decided.multicast.loads
    assert set(found.multicast.ranked) == set(decided.multicast.ranked)
    assert found.uniform == decided.uniform and found.fills == decided.fills
    assert found.exit == decided.exit and found.tile_order == decided.tile_order
    assert set(found.elsewhere) == set(decided.elsewhere)
    for role, program in decided.programs.items():
        again = found.programs[role]
        assert set(again.kept.ops) == set(program.kept.ops)
        assert again.accesses == program.accesses
        assert again.layouts.warps == program.layouts.warps
        for op in program.kept.ops:
            loops = isinstance(op, aa.ForOp | aa.LoopOp | aa.IfOp)
            carried = [*carried_arguments(op), *op.results] if loops else []
            assert [again.kept.carries(v) for v in carried] == [
                program.kept.carries(v) for v in carried
            ]
            for value in [*carried, *op.results]:
                assert again.layouts.of(value) == program.layouts.of(value)


@pytest.mark.parametrize("name", SPECIALISED)
def test_roles_survive_text_and_a_second_run(name: str) -> None:
    module = assigned(SPECIALISED[name]())
    text = print_stage(module)
    again = parse_text(text, "roles.mlir")
    assert print_stage(again) == text == run(module, LAST)
    assert '"nv_tileaa' not in text  # nothing falls back to generic form
    assert run(again, BORDER) == run(module, BORDER)


@pytest.mark.parametrize("name", ALIKE)
def test_kernels_whose_warps_all_do_the_same_have_no_roles(name: str) -> None:
    func = kernel_of(assigned(ALIKE[name]()))
    assert not any(set(op.attributes) & set(NAMES) for op in func.walk())


def test_conversion_leaves_no_roles() -> None:
    text = run(assigned(SPECIALISED["stores by a warp"]()), BORDER)
    assert "agent_switch" in text and "nv_tileas.role" not in text


def test_roles_go_when_a_kernel_is_planned_without_them() -> None:
    module = assigned(SPECIALISED["gemm"]())
    write_plan(kernel_of(module), CtaPlan(4, TARGET))
    assert "nv_tileas.role" not in run(module, LAST)


def test_conversion_without_roles_is_refused() -> None:
    module = assigned(SPECIALISED["gemm"]())
    erase_warp_roles(kernel_of(module))
    with pytest.raises(CompileError, match="has no warp roles: .* tileas-assign-warp-roles"):
        run(module, BORDER)


FEW_WARPS = blocked((64,), (0,), 1, 2)
SPOILED: dict[str, tuple[Callable[[aa.FuncOp], object], str]] = {
    "an operand": (
        lambda f: [op.attributes.pop(ROLES, 0) for op in f.walk() if isinstance(op, aa.ConstantOp)],
        "op has the role producer, what makes its operands has not",
    ),
    "a loop": (
        lambda f: first(f, aa.ForOp).pop(ROLES),
        "has the role producer, what is around it has not",
    ),
    "another role": (
        lambda f: first(f, aa.ForOp).update({ROLES: roles_attribute((role_attribute(STORE),))}),
        "'for' op has a role that the kernel has not: store",
    ),
    "no roles": (
        lambda f: first(f, aa.ForOp).update({ROLES: IntAttr(1)}),
        "'for' op has 'roles' that are no roles",
    ),
    "values": (
        lambda f: first(f, aa.ForOp).update(
            {ROLES: roles_attribute((role_attribute(PRODUCER, (9,)),))}
        ),
        "'for' op carries less than its 'roles' say",
    ),
    "a carried tensor": (
        lambda f: first(f, aa.ForOp).update(
            {ROLES: roles_attribute((role_attribute(PRODUCER, (0,)),))}
        ),
        "'for' op has 'roles' with 0 layouts of carried tensors",
    ),
    "a layout": (
        lambda f: first(f, aa.GetProgramIdOp).update(
            {ROLES: roles_attribute((role_attribute(PRODUCER, layouts=(FEW_WARPS,)),))}
        ),
        "'get_program_id' op has in its 'roles' a layout of other sizes or warps",
    ),
    "an index": (
        lambda f: first(f, aa.TiledLoadOp).update({MULTICAST: IntTupleAttr((7,))}),
        "'tiled_load' op has fewer indices than 'multicast' says",
    ),
    "an earlier load": (
        lambda f: first(f, aa.TiledLoadOp).update({UNIFORM_WITH: IntAttr(1)}),
        "'tiled_load' op has 'uniform_with' of no earlier load",
    ),
    "a pipeline": (
        lambda f: first(f, aa.ForOp).update(
            {PROLOGUE_FILLS: ArrayAttr([PrologueFillAttr.of(pipeline=5)])}
        ),
        "'for' op has 'prologue_fills' of no pipeline",
    ),
    "an order": (
        lambda f: f.attributes.update({TILE_ORDER: IntTupleAttr((1, 2))}),
        "'func' op has a 'longest_tile_first' that is no axis, direction and group",
    ),
    "an axis": (
        lambda f: f.attributes.update({TILE_ORDER: IntTupleAttr((9, 9, 9))}),
        r"'func' op has a 'longest_tile_first' of \[9, 9, 9\], its loops ask for none",
    ),
    "a store of nobody": (
        lambda f: first(f, aa.TiledStoreOp).update({ROLES: roles_attribute(())}),
        "'tiled_store' op has roles without consumer, which has to run it",
    ),
    "a product of nobody": (
        lambda f: first(f, aa.DotOp).update({ROLES: roles_attribute(())}),
        "'dot' op has roles without consumer, which has to run it",
    ),
    "a load of nobody": (
        lambda f: first(f, aa.TiledLoadOp).update({ROLES: roles_attribute(())}),
        "'tiled_load' op has roles without consumer, which has to run it",
    ),
    "a consumer's operand": (
        lambda f: first(f, aa.GetProgramIdOp).update(
            {ROLES: roles_attribute((role_attribute(PRODUCER),))}
        ),
        "'get_program_id' op has roles without consumer, which has to run it",
    ),
    "a copy without the producer": (
        lambda f: first(f, aa.TiledLoadOp).pop(ROLES),
        "'tiled_load' op has not the role producer, which is planned for it",
    ),
    "an end without the producer": (
        lambda f: first(f, aa.ReturnOp).pop(ROLES),
        "'return' op has not the role producer, whose program ends there",
    ),
    "a store before the roles": (
        lambda f: first(f, aa.TiledStoreOp).update(
            {ROLES: roles_attribute((role_attribute("entry"),))}
        ),
        "'tiled_store' op has the role entry, but does not decide an early exit",
    ),
    "warps of the producer": (
        lambda f: f.attributes.update({WARP_ROLES: WarpRolesAttr.of(consumer=8, producer=3)}),
        "'func' op has in 'warp_roles' 3 warps of role producer, its plan asks for 1",
    ),
    "warps of the consumers": (
        lambda f: f.attributes.update({WARP_ROLES: WarpRolesAttr.of(consumer=64, producer=1)}),
        "'func' op has in 'warp_roles' 64 warps of role consumer, its plan asks for",
    ),
}


@pytest.mark.parametrize("what", SPOILED)
def test_roles_that_contradict_the_program_are_refused_where_they_stand(what: str) -> None:
    change, message = SPOILED[what]
    module = assigned(SPECIALISED["gemm"]())
    change(kernel_of(module))
    with pytest.raises(CompileError, match=message):
        read(kernel_of(module))


def without_role(func: aa.FuncOp, role: str) -> None:
    """Takes a role away from a kernel and all its operations."""
    for op in func.walk():
        roles = op.attributes.get(ROLES)
        if isinstance(roles, RolesAttr):
            left = tuple(own for own in roles.roles if own.role.data != role)
            op.attributes[ROLES] = roles_attribute(left)
    warps = {name: number for name, number in warps_of(func).items() if name != role}
    func.attributes[WARP_ROLES] = WarpRolesAttr.of(**warps)


def warps_of(func: aa.FuncOp) -> dict[str, int]:
    """The roles of a kernel with the number of their warps."""
    written = func.attributes[WARP_ROLES]
    assert isinstance(written, WarpRolesAttr)
    return {name: written.integer(name) for name, _ in written.data}


def with_store_role(func: aa.FuncOp) -> None:
    """Gives a kernel a warp that runs nothing but its ends."""
    func.attributes[WARP_ROLES] = WarpRolesAttr.of(**warps_of(func), store=1)
    for op in func.walk():
        if isinstance(op, aa.ReturnOp):
            both = tuple(map(role_attribute, (PRODUCER, "consumer", STORE)))
            op.attributes[ROLES] = roles_attribute(both)


def read_by_consumers(func: aa.FuncOp) -> None:
    """Puts an operation that reads what products read through in front of a product."""
    rounded = next(op for op in func.walk() if rounds_to_tf32(op))
    value = rounded.results[0]
    block = rounded.parent_block()
    assert block is not None
    block.insert_op_after(aa.NegFOp.create(operands=[value], result_types=[value.type]), rounded)


def decides_nothing(func: aa.FuncOp) -> None:
    """Lets warps compute the condition of an early exit when they have roles."""
    entry = [op for op in func.walk() if "entry" in str(op.attributes.get(ROLES, ""))]
    both = tuple(map(role_attribute, (PRODUCER, "consumer")))
    entry[0].attributes[ROLES] = roles_attribute(both)


OTHERS: dict[str, tuple[str, Callable[[aa.FuncOp], object], str]] = {
    "no store warp": (
        "stores by a warp",
        lambda f: without_role(f, STORE),
        "'func' op has 'warp_roles' against its plan, which asks for store",
    ),
    "a store warp": (
        "gemm",
        with_store_role,
        "'func' op has 'warp_roles' against its plan, which has not store",
    ),
    "a rounding by consumers": (
        "transposed words",
        lambda f: [op.attributes.pop(ROLES, 0) for op in f.walk() if rounds_to_tf32(op)],
        "'fp_to_fp' op has the role consumer, which does not run it",
    ),
    "an operand of nobody": (
        "transposed words",
        read_by_consumers,
        "'negf' op has the role consumer, what makes its operands has not",
    ),
    "a condition of some warps": (
        "two small tiles",
        decides_nothing,
        "op decides an early exit, but has not the role entry",
    ),
    "no order": (
        "causal softmax",
        lambda f: f.attributes.pop(TILE_ORDER),
        r"'func' op has no 'longest_tile_first', its loops ask for \[0, 1, 8\]",
    ),
    "the shortest first": (
        "causal softmax",
        lambda f: f.attributes.update({TILE_ORDER: IntTupleAttr((0, 0, 8))}),
        r"has a 'longest_tile_first' of \[0, 0, 8\], its loops ask for \[0, 1, 8\]",
    ),
    "groups of another size": (
        "causal softmax",
        lambda f: f.attributes.update({TILE_ORDER: IntTupleAttr((0, 1, 4))}),
        r"has a 'longest_tile_first' of \[0, 1, 4\], its loops ask for \[0, 1, 8\]",
    ),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_the_plan_asks_for_is_compared_with_what_is_written(what: str) -> None:
    name, change, message = OTHERS[what]
    module = assigned(SPECIALISED[name]())
    assert read(kernel_of(module))
    change(kernel_of(module))
    with pytest.raises(CompileError, match=message):
        read(kernel_of(module))


def test_gathered_pipelines_have_no_prologue_fill() -> None:
    func = kernel_of(assigned(SPECIALISED["gather"]()))
    first(func, aa.ForOp)[PROLOGUE_FILLS] = ArrayAttr([PrologueFillAttr.of(pipeline=0)])
    with pytest.raises(CompileError, match="'prologue_fills' of a pipeline that is gathered"):
        read(func)


def test_attributes_know_what_they_may_say() -> None:
    with pytest.raises(VerifyException, match="role chief, expected one of entry, consumer"):
        role_attribute("chief")
    with pytest.raises(VerifyException, match=r"arguments of a role are \[1, 0\], expected rising"):
        role_attribute(PRODUCER, (1, 0))
    with pytest.raises(VerifyException, match="layouts of arguments that it does not carry"):
        role_attribute(PRODUCER, argument_layouts=(FEW_WARPS,))
    with pytest.raises(VerifyException, match="roles store, store, expected each once"):
        roles_attribute((role_attribute(STORE), role_attribute(STORE)))
    with pytest.raises(VerifyException, match="expected consumer, producer"):
        WarpRolesAttr.of(consumer=8)


def test_text_of_a_role_with_an_unknown_part_is_refused() -> None:
    text = print_stage(assigned(SPECIALISED["gemm"]()))
    spoiled = text.replace("roles<producer, consumer>", "roles<producer(weight = [1])>", 1)
    with pytest.raises(BytecodeError, match="'weight' of a role, expected one of"):
        parse_text(spoiled, "roles.mlir")
