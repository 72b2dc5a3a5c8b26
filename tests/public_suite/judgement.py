"""What this compiler says of a piece of the public suite, beside what the suite says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tests.public_suite.dialect import is_own, parse_piece
from tests.public_suite.pieces import Fact, Piece
from tileiras.bytecode.reader import read_module
from tileiras.bytecode.writer import write_module
from tileiras.codegen.target import TARGET_NAMES
from tileiras.dialects.cuda_tile.hints import check_hints
from tileiras.dialects.cuda_tile.text import parse_module, print_module
from tileiras.dialects.cuda_tile.verification import verify_module
from tileiras.errors import TileirasError

EXPLAINED = {
    "Bytecode/operationsTest.mlir:1": "entries with tokens as parameters, which NVIDIA's own "
    "compiler refuses",
    "Dialect/CudaTile/invalid.mlir:2051": "f32 to f64 takes all roundings since version 13.4",
    "Dialect/CudaTile/debuginfo_update_symbol_names_fail.mlir:1": "a valid program; the pass of "
    "the suite that fails on it renames symbols",
}
"""Pieces on which the suite and this compiler differ, and why."""


class Agreement(Enum):
    """How near an error of ours is to a fact of the suite."""

    WORDS = "same words"
    PLACE = "same place, other words"
    OTHER = "another place or reason"


@dataclass(frozen=True)
class Judgement:
    """The errors of a piece; none if it is accepted."""

    piece: Piece
    errors: tuple[TileirasError, ...]

    def agreement(self, fact: Fact) -> Agreement:
        """How the errors agree with a fact."""
        if any(fact.words in error.render_alone() for error in self.errors):
            return Agreement.WORDS
        lines = {error.location.line for error in self.errors if error.location is not None}
        return Agreement.PLACE if fact.line in lines else Agreement.OTHER


def judge(piece: Piece) -> Judgement:
    """Parses, verifies and, where the piece is about it, writes as bytecode."""
    try:
        module = (parse_module if piece.to_bytecode else parse_piece)(piece.text)
        verify_module(module)
        if piece.strict_hints:
            check_hints(module, TARGET_NAMES)
        if piece.to_bytecode:
            write_module(module)
    except TileirasError as error:
        return Judgement(piece, tuple(error.every_mistake()))
    return Judgement(piece, ())


def round_trip(piece: Piece) -> tuple[str, str]:
    """The program as text, and as text once more after being read from it and from bytecode."""
    module = parse_piece(piece.text)
    generic = "generic" in piece.name
    first = print_module(module, generic=generic)
    again = print_module(parse_piece(first), generic=generic)
    modules = list(module.body.block.ops)
    if is_own(module) and len(modules) == 1:
        from_bytecode = print_module(read_module(write_module(parse_module(piece.text), (13, 5))))
        again_from_bytecode = print_module(
            read_module(write_module(parse_module(from_bytecode), (13, 5)))
        )
        assert from_bytecode == again_from_bytecode
    return first, again
