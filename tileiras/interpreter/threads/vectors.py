"""Constants, and vectors put together and taken apart."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from tileiras.dialects.llvm import constants, vectors
from tileiras.interpreter.threads.state import Lockstep, Rule
from tileiras.interpreter.threads.values import POISON, Value, masked, same_everywhere


def _constant(run: Lockstep, op: constants.ConstantOp) -> Value:
    result = same_everywhere(run.count, 0, op.result.type)
    result[...] = np.array(op.bits.data, np.uint64)
    return result


def _pattern(pattern: int) -> Rule:
    def rule(run: Lockstep, op: Operation) -> Value:
        return same_everywhere(run.count, pattern, op.results[0].type)

    return rule


def _address_of(run: Lockstep, op: constants.AddressOfOp) -> Value:
    place = run.cta.launch.globals[op.global_name.data]
    return same_everywhere(run.count, place, op.result.type)


def _extract(run: Lockstep, op: vectors.ExtractElementOp) -> Value:
    vector, index = run.operands(op.operands)
    return vector[run.rows, index.astype(np.int64)]


def _insert(run: Lockstep, op: vectors.InsertElementOp) -> Value:
    vector, value, index = run.operands(op.operands)
    result = vector.copy()
    result[run.rows, index.astype(np.int64)] = value
    return result


def _shuffle(run: Lockstep, op: vectors.ShuffleVectorOp) -> Value:
    both = np.concatenate(run.operands(op.operands), axis=1)
    indices = np.array(op.indices.data)
    result = both[:, np.maximum(indices, 0)]
    result[:, indices < 0] = masked(np.uint64(POISON), op.result.type)
    return result


RULES: dict[type[Operation], Rule] = {
    constants.ConstantOp: _constant,
    constants.PoisonOp: _pattern(POISON),
    constants.UndefOp: _pattern(POISON),
    constants.ZeroOp: _pattern(0),
    constants.AddressOfOp: _address_of,
    vectors.ExtractElementOp: _extract,
    vectors.InsertElementOp: _insert,
    vectors.ShuffleVectorOp: _shuffle,
}
"""Operations that make vectors or take them apart."""
