"""Target records and mma atoms: consistent data, clear errors."""

from __future__ import annotations

import pytest

from tileiras.codegen.atoms.mma import MMA_ATOMS, MmaAtom, get_mma_atom
from tileiras.codegen.target import TARGET_NAMES, Feature, get_target
from tileiras.dialects.layout.tmem import TMEM_COLUMNS
from tileiras.errors import InternalError, TargetError


@pytest.mark.parametrize("name", TARGET_NAMES)
def test_records_are_consistent(name: str) -> None:
    target = get_target(name)
    assert target.ptx_target.startswith(name)
    assert target.static_shared_limit <= target.shared_memory_per_block
    assert target.shared_memory_per_block < target.shared_memory_per_sm
    assert target.has(Feature.MMA_SYNC) and target.has(Feature.CP_ASYNC)


def test_each_matrix_unit_is_where_it_belongs() -> None:
    def having(feature: Feature) -> list[str]:
        return [name for name in TARGET_NAMES if get_target(name).has(feature)]

    assert having(Feature.WGMMA) == ["sm_90"]
    assert having(Feature.TCGEN05) == ["sm_100", "sm_103", "sm_107", "sm_110"]
    assert having(Feature.BLOCK_SCALED_MMA) == ["sm_120", "sm_121"]
    assert "sm_88" not in having(Feature.FP8_MMA) and "sm_89" in having(Feature.FP8_MMA)
    emulated = set(having(Feature.FP8_MMA)) - set(having(Feature.FP8_MMA_NATIVE))
    assert emulated == {"sm_90"}
    assert "sm_89" not in having(Feature.TMA) and "sm_90" in having(Feature.TMA)


def test_tensor_memory_is_where_tcgen05_is() -> None:
    for name in TARGET_NAMES:
        target = get_target(name)
        size = (128, TMEM_COLUMNS) if target.has(Feature.TCGEN05) else (0, 0)
        assert (target.tmem_lanes, target.tmem_columns) == size


def test_features_can_be_taken_away_by_name() -> None:
    target = get_target("sm_90").without(["wgmma", Feature.TMA])
    assert not target.has(Feature.WGMMA) and not target.has(Feature.TMA)
    assert target.has(Feature.STMATRIX)
    assert get_target("sm_90").has(Feature.WGMMA)


def test_unknown_feature_is_reported_with_the_known_ones() -> None:
    with pytest.raises(TargetError, match="unknown feature 'warp-drive'.*mma-sync"):
        get_target("sm_90").without(["warp-drive"])


def test_unknown_target_is_reported_with_the_known_ones() -> None:
    with pytest.raises(TargetError, match="unknown GPU target 'sm_70'.*sm_80.*sm_121"):
        get_target("sm_70")


@pytest.mark.parametrize("name", TARGET_NAMES)
def test_llvm_compiles_for_the_target_itself_or_an_older_one_of_its_family(name: str) -> None:
    target = get_target(name)
    if target.llvm_processor == target.ptx_target:
        assert target.llvm_ptx_version == target.ptx_version == 90
        return
    stand_in = target.llvm_processor.rstrip("a")
    assert TARGET_NAMES.index(stand_in) < TARGET_NAMES.index(name)
    assert get_target(stand_in).features <= target.features
    assert target.llvm_ptx_version < target.ptx_version


def test_only_sm_107_is_newer_than_llvm() -> None:
    targets = [get_target(name) for name in TARGET_NAMES]
    newer = [target for target in targets if target.llvm_processor != target.ptx_target]
    assert [(t.name, t.ptx_target, t.llvm_processor) for t in newer] == [
        ("sm_107", "sm_107a", "sm_103a")
    ]
    assert [t.ptxas_release for t in newer] == [(13, 5)]


@pytest.mark.parametrize("name", MMA_ATOMS)
def test_atoms_agree_with_their_layouts(name: str) -> None:
    atom = get_mma_atom(name)
    layouts = atom.layouts()
    assert layouts.shape == (atom.m, atom.n, atom.depth)
    counts = (atom.a_elements, atom.b_elements, atom.c_elements)
    assert counts == tuple(layouts.operand(which).in_size("register") for which in "ABC")


def test_an_atom_that_does_not_fill_registers_is_refused() -> None:
    with pytest.raises(InternalError, match="do not fill registers"):
        MmaAtom(8, 4, 4, "f32", "s8", "s8", Feature.MMA_SYNC)


def test_an_unknown_atom_is_an_internal_error() -> None:
    with pytest.raises(InternalError, match="no mma.sync atom 'm1n1k1'"):
        get_mma_atom("m1n1k1")
