"""Random programs, lowered and run thread by thread, against the interpreter; needs no GPU.

More of them: `RANDOM_PROGRAMS=1000:3000 pytest tests/interpreter/threads/test_random_programs.py`.
"""

from __future__ import annotations

import os

import pytest

from tests.kernels.exact_program import differences
from tests.kernels.lowered import lower_to_llvm, run_lowered
from tests.kernels.random_programs import make_program
from tileiras.dialects import cuda_tile as ct
from tileiras.interpreter import run_entry
from tileiras.stages import verify_module

FIRST, LAST = map(int, os.environ.get("RANDOM_PROGRAMS", "0:60").split(":"))
TARGETS = ("sm_90", "sm_80", "sm_120")


@pytest.mark.parametrize("seed", range(FIRST, LAST))
def test_lowered_program_computes_what_the_interpreter_computes(seed: int):
    program = make_program(seed)
    verify_module(program.kernel.module)
    wanted, found = program.arguments(), program.arguments()
    run_entry(program.kernel.module, "kernel", wanted, program.grid)
    lowered = lower_to_llvm(program.kernel.module.clone(), TARGETS[seed % len(TARGETS)])
    run_lowered(lowered, found, program.grid)
    assert differences(program, found, wanted) == []


def test_seed_determines_the_program():
    assert str(make_program(5).kernel.module) == str(make_program(5).kernel.module)
    assert str(make_program(5).kernel.module) != str(make_program(6).kernel.module)


def test_wrong_lowering_is_noticed():
    """Programs whose every `maxf` becomes a `minf` behind the interpreter's back."""
    noticed = 0
    for seed in range(40):
        program = make_program(seed)
        wanted, found = program.arguments(), program.arguments()
        run_entry(program.kernel.module, "kernel", wanted, program.grid)
        for op in [op for op in program.kernel.module.walk() if isinstance(op, ct.MaxFOp)]:
            swapped = ct.MinFOp.build(operands=op.operands, result_types=[op.result.type])
            assert op.parent is not None
            op.parent.insert_op_before(swapped, op)
            op.result.replace_all_uses_with(swapped.result)
            op.detach()
        run_entry(program.kernel.module, "kernel", found, program.grid)
        noticed += bool(differences(program, found, wanted))
    assert noticed >= 5
