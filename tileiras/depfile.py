"""Dependency files: the rule that tells make and ninja what an output was made from."""

from __future__ import annotations

from collections.abc import Sequence


def make_rule(output: str, inputs: Sequence[str]) -> str:
    """The rule `output: inputs`, with the characters escaped that make and ninja would read.

    stdin (`-`) is no file and left out.
    """
    named = [_escaped(path) for path in inputs if path != "-"]
    return " \\\n  ".join([f"{_escaped(output)}:", *named]) + "\n"


def _escaped(path: str) -> str:
    """A path as a word of a rule."""
    escapes = {" ": "\\ ", "#": "\\#", "$": "$$"}
    return "".join(escapes.get(character, character) for character in path)
