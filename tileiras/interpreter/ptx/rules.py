"""The table from mnemonics to the rules that decode them, filled by the rule files."""

from __future__ import annotations

from collections.abc import Callable

from tileiras.interpreter.ptx.decoding import Decoder, Execute, Step, slots_of
from tileiras.interpreter.ptx.errors import PtxSyntaxError
from tileiras.interpreter.ptx.program import Kernel, Ready

Rule = Callable[[Decoder], Execute]

RULES: dict[str, Rule] = {}
"""Rules by opcode, or by opcode and first modifiers where families share an opcode."""

MAX_KEY_PARTS = 5


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers a rule for mnemonics such as `add` or `cp.async.bulk.tensor`."""

    def register(function: Rule) -> Rule:
        for name in names:
            if name in RULES:
                raise ValueError(f"two rules for {name}")
            RULES[name] = function
        return function

    return register


def find_rule(ready: Ready) -> tuple[str, Rule]:
    """The rule of an instruction under the longest key that its mnemonic begins with."""
    parts = [ready.source.opcode, *ready.source.modifiers]
    for length in range(min(len(parts), MAX_KEY_PARTS), 0, -1):
        key = ".".join(parts[:length])
        if key in RULES:
            return key, RULES[key]
    message = f"unknown instruction '{ready.source.text}'"
    raise PtxSyntaxError(message, ready.line)


def decode(kernel: Kernel) -> list[Step]:
    """All instructions of a kernel, decoded; PtxSyntaxError for one that is unknown."""
    return [_decode_one(kernel, ready) for ready in kernel.instructions]


def _decode_one(kernel: Kernel, ready: Ready) -> Step:
    key, decode_rule = find_rule(ready)
    decoder = Decoder(kernel, ready)
    del decoder.modifiers[: key.count(".")]
    try:
        run = decode_rule(decoder)
    except (IndexError, AttributeError):
        decoder.error("missing or malformed operands")
    decoder.done()
    return Step(
        run,
        ready.line,
        None if ready.guard is None else ready.guard.slot,
        ready.source.is_guard_negated,
        decoder.is_control,
        decoder.meets,
        decoder.members,
        slots_of(ready.operands),
        ready.source.text,
        decoder.is_accumulating,
        tuple(decoder.written),
    )
