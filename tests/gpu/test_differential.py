"""Random programs beside NVIDIA's compiler: what travels to the GPU, and how results are judged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ml_dtypes")

from tests.gpu.differential.cases import (  # noqa: E402
    Array,
    Case,
    canonical,
    digest,
    flushed,
    ulps_between,
)
from tests.gpu.differential.launches import launches  # noqa: E402
from tests.gpu.differential.prepare import make_case, prepare  # noqa: E402
from tests.gpu.differential.programs import (  # noqa: E402
    OPERATIONS_LEFT_OUT,
    make_wide_program,
)
from tests.gpu.differential.slices import slices  # noqa: E402
from tileiras.bytecode.opcodes import OPERATIONS  # noqa: E402
from tileiras.driver import verify_input  # noqa: E402
from tileiras.interpreter import memory_access, run_entry  # noqa: E402
from tileiras.interpreter.state import TileView  # noqa: E402
from tileiras.interpreter.views import TileAccess, index_space, tile_access  # noqa: E402


def test_programs_have_every_operation_but_those_left_out() -> None:
    seen: set[str] = set()
    for seed in range(160):
        program = make_wide_program(seed)
        verify_input(program.kernel.module, from_bytecode=False)
        seen |= {op.name.removeprefix("cuda_tile.") for op in program.kernel.module.walk()}
    known = {row.cls.name.removeprefix("cuda_tile.") for row in OPERATIONS}
    assert known - seen == OPERATIONS_LEFT_OUT.keys()


def test_programs_stay_in_the_index_spaces_of_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies outside is undefined: two compilers may differ there, and NVIDIA's does."""
    outside: list[str] = []

    def checked(view: TileView, indices: Sequence[Any], inbounds: Sequence[int] = ()) -> TileAccess:
        for index, size in zip(indices, index_space(view), strict=True):
            if np.any(np.asarray(index) < 0) or np.any(np.asarray(index) >= size):
                outside.append(f"p{seed}: {index} of {size}")
        return tile_access(view, indices, inbounds)

    monkeypatch.setattr(memory_access, "tile_access", checked)
    for seed in range(120):
        program = make_wide_program(seed)
        run_entry(program.kernel.module, "kernel", program.arguments(), program.grid)
    assert outside == []


@pytest.mark.parametrize("seed", range(0, 60, 6))
def test_case_makes_the_same_arguments_and_agrees_with_itself(seed: int) -> None:
    program = make_wide_program(seed)
    case = Case.from_json(json.loads(json.dumps(make_case(program).to_json())))
    arguments, wanted = case.arguments(), program.arguments()
    for one, other in zip(arguments, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    run_entry(program.kernel.module, "kernel", wanted, program.grid)
    assert case.differences(wanted) == []


def test_other_bit_in_an_output_is_a_difference() -> None:
    program = make_wide_program(3)
    case = make_case(program)
    found = program.arguments()
    run_entry(program.kernel.module, "kernel", found, program.grid)
    found[-1] = found[-1] ^ found[-1].dtype.type(1 << (8 * found[-1].itemsize - 2))
    assert case.differences(found)


def test_nans_and_zeros_are_alike_and_nothing_else() -> None:
    bits = np.array([0x7FC00000, 0xFFC00001, 0, 0x80000000, 0x3F800000], np.uint32)
    same = canonical(bits, "f32")
    assert same[0] == same[1]
    assert same[2] == same[3] == 0
    assert digest(bits[:1], "f32") == digest(bits[1:2], "f32") != digest(bits[4:], "f32")
    assert digest(bits[:1], "i32") != digest(bits[1:2], "i32")
    small = np.array([0x7F, 0xFF, 0x7E], np.uint8)
    assert list(canonical(small, "f8E4M3FN")) == [0xFF, 0xFF, 0x7E]


def test_distance_counts_numbers_of_the_format() -> None:
    got = np.array([0x3F800001, 0x80000001, 0x7FC00000, 0x7FC00000], np.uint32)
    want = np.array([0x3F800000, 0x00000001, 0x7FFFFFFF, 0x3F800000], np.uint32)
    assert list(ulps_between(got, want, "f32")) == [1, 2, 0, np.inf]


def test_output_with_a_bound_may_be_so_far_away() -> None:
    want = np.array([0x3F800000], np.uint32)
    array = Array("f32", 1, is_output=True, ulps=2.5)
    case = Case("k", 0, (1, 1, 1), [array], [want.tobytes().hex()])
    assert case.differences([want + np.uint32(2)]) == []
    (text,) = case.differences([want + np.uint32(3)])
    assert "3 ulps, expected 2.5, at 0: 0x3f800003 instead of 0x3f800000" in text


def test_subnormal_numbers_are_zeros_only_where_an_atomic_wrote() -> None:
    bits = np.array([1, 0x80000001, 0x00800000], np.uint32)
    assert list(flushed(bits)) == [0, 0, 0x00800000]
    wanted = [digest(flushed(bits), "f32")]
    for flushes in (True, False):
        array = Array("f32", 3, is_output=True, flushes=flushes)
        case = Case("k", 0, (1, 1, 1), [array], wanted)
        assert bool(case.differences([bits])) != flushes


def test_prepared_folder_has_a_launch_for_every_program(tmp_path: Path) -> None:
    assert prepare(tmp_path, 40, 2, 1, "") == 0
    found = list(launches(tmp_path))
    assert [launch.case.name for launch in found] == ["p40", "p41"]
    assert all(launch.cubin.read_bytes()[:4] == b"\x7fELF" for launch in found)


def test_cubin_of_its_own_counts_more_than_that_of_the_group(tmp_path: Path) -> None:
    cases = [make_case(make_wide_program(seed)).to_json() for seed in (0, 1)]
    (tmp_path / "g00000.json").write_text(json.dumps({"cases": cases}))
    for name in ("g00000.theirs.cubin", "g00000.theirs.p1.cubin", "g00000.ours.p0.cubin"):
        (tmp_path / name).write_bytes(b"")
    found = [(launch.case.name, launch.cubin.name) for launch in launches(tmp_path)]
    assert found == [
        ("p0", "g00000.ours.p0.cubin"),
        ("p0", "g00000.theirs.cubin"),
        ("p1", "g00000.theirs.p1.cubin"),
    ]


@pytest.mark.parametrize(("seed", "output"), [(870, 3), (2169, 3), (1367, 5), (192, 4)])
def test_slices_compute_the_output_of_their_program(seed: int, output: int) -> None:
    """The first one from the same inputs; the others are smaller programs that are right, too."""
    whole = make_case(make_wide_program(seed))
    found = [(name, program, make_case(program, name)) for name, program in slices(seed, output)]
    first = found[0][2]
    assert (first.name, first.wanted[output]) == (f"p{seed}_o{output}", whole.wanted[output])
    assert first.arrays == whole.arrays
    untouched = [n for n in range(len(whole.wanted)) if n != output]
    assert any(first.wanted[n] != whole.wanted[n] for n in untouched)  # they are not written
    assert len(found) > 1
    for name, program, case in found[1:]:
        verify_input(program.kernel.module, from_bytecode=False)
        assert name.startswith(f"p{seed}_o{output}_")
        assert len(case.arrays) == len(whole.arrays) + 1


def test_slices_are_smaller_than_their_program() -> None:
    whole = len(list(make_wide_program(870).kernel.block.ops))
    assert max(len(list(program.kernel.block.ops)) for _, program in slices(870, 3)) < whole / 2
