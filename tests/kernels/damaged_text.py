"""Damages IR text as people and programs do: by tokens, lines and blocks, not by bytes."""

from __future__ import annotations

import random
import re

_TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|[%#@!^]?[\w$.]+|->|//[^\n]*|[ \t\n]+|.', re.ASCII | re.DOTALL
)
_WORDS = {
    "number": re.compile(r"[0-9]+(?:\.[0-9]*)?\Z"),
    "value": re.compile(r"%[\w$.]+\Z"),
    "name": re.compile(r"[!#@^]?[A-Za-z_][\w$.]*\Z"),
    "string": re.compile(r'"'),
}
EXTREMES = (
    *("0", "-1", "1.0", "255", "65536", "2147483648", "4294967296", "9223372036854775807"),
    *("-9223372036854775808", "18446744073709551616", "9" * 30, "7" * 5000, "1.0e400", "0x7C00"),
    *("0xFFFFFFFFFFFFFFFFF", "1.0e-99999", "?", "true", "1e999999999", "3.0e" + "9" * 12),
)
STRINGS = (
    '"',
    '""',
    '"\\00"',
    '"\\FF\\FE"',
    '"a b-c."',
    '"' + "x" * 300 + '"',
    '"%d %s %"',
    '"\\q"',
)
TYPES = (
    *("i1", "i4", "i8", "i128", "i99999", "i" + "9" * 5000, "f16", "bf16", "tf32", "f64", "token"),
    *("f8E4M3FN", "f4E2M1FN", "index", "none", "tile<f32>", "tile<0xi32>", "tile<3xi32>"),
    *("tile<1073741824xi8>", "tile<2x2x2x2x2x2x2x2xf32>", "tile<ptr<ptr<f32>>>", "ptr<f32>"),
    *("tensor_view<f32>", "tensor_view<?x?xf32, strides=[?,1]>", "tuple<i32>", "vector<4xf32>"),
)
_SHAPED = re.compile(
    r"[0-9]+(?:x[0-9]+)*(?:x[a-z][A-Za-z0-9]*)?\Z|(?:[if][0-9]+|bf16|tf32|f8E\w+)\Z"
)
_ELEMENTS = ("i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "tf32", "f8E4M3FN", "i4")
BRACKETS = "()[]{}<>"


def tokens_of(text: str) -> list[str]:
    """The text as tokens and white space; joined they are the text again."""
    return _TOKEN.findall(text)


def damaged(text: str, rng: random.Random) -> str:
    """The text with one to four damages."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        text = rng.choice(_DAMAGES)(text, rng)
    return text


def _pick(tokens: list[str], rng: random.Random, kind: str) -> int | None:
    """The index of a token of some kind."""
    found = [i for i, token in enumerate(tokens) if _WORDS[kind].match(token)]
    return rng.choice(found) if found else None


def _change_token(text: str, rng: random.Random) -> str:
    """A token becomes another of its kind, from the text or from what is hard."""
    tokens = tokens_of(text)
    kind = rng.choice(tuple(_WORDS))
    at = _pick(tokens, rng, kind)
    if at is None:
        return text
    hard = {"number": EXTREMES, "string": STRINGS, "name": TYPES, "value": ()}[kind]
    other = _pick(tokens, rng, kind)
    same = () if other is None else (tokens[other],)
    tokens[at] = rng.choice((*hard, *same * max(1, len(hard))))
    return "".join(tokens)


def _change_everywhere(text: str, rng: random.Random) -> str:
    """A number or an element type becomes another wherever it stands: programs of other shapes."""
    tokens = tokens_of(text)
    found = sorted({token for token in tokens if _SHAPED.match(token)})
    if not found:
        return text
    old = rng.choice(found)
    if number := re.match(r"(?:\d+x)*(\d+)", old):
        new = old.replace(number[1], rng.choice(("0", "1", "2", "3", "4", "32", "256", "4096")))
    else:
        new = rng.choice(_ELEMENTS)
    if rng.random() < 0.5:
        return "".join(new if token == old else token for token in tokens)
    return text.replace(
        number[1] if number else old, new if not number else str(2 ** rng.randrange(14))
    )


def _drop_token(text: str, rng: random.Random) -> str:
    tokens = tokens_of(text)
    at = rng.randrange(len(tokens)) if tokens else 0
    del tokens[at : at + rng.choice((1, 1, 2, 5))]
    return "".join(tokens)


def _repeat_token(text: str, rng: random.Random) -> str:
    tokens = tokens_of(text)
    if tokens:
        at = rng.randrange(len(tokens))
        tokens[at] *= rng.choice((2, 2, 3, 700))
    return "".join(tokens)


def _insert_token(text: str, rng: random.Random) -> str:
    tokens = tokens_of(text)
    new = rng.choice((*BRACKETS, *EXTREMES, *STRINGS, *TYPES, "^bb0:", "loc(", "//", "#x", "%0#9"))
    tokens.insert(rng.randrange(len(tokens) + 1), new)
    return "".join(tokens)


def _swap_tokens(text: str, rng: random.Random) -> str:
    tokens = tokens_of(text)
    if len(tokens) > 1:
        a, b = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        tokens[a], tokens[b] = tokens[b], tokens[a]
    return "".join(tokens)


def _move_lines(text: str, rng: random.Random) -> str:
    """Lines are dropped, doubled, or moved."""
    lines = text.split("\n")
    at, size = rng.randrange(len(lines)), rng.choice((1, 1, 2, 4))
    piece = lines[at : at + size]
    if rng.random() < 0.6:
        del lines[at : at + size]
    if rng.random() < 0.6:
        to = rng.randrange(len(lines) + 1)
        lines[to:to] = piece
    return "\n".join(lines)


def _nest(text: str, rng: random.Random) -> str:
    """Part of the text inside many brackets."""
    tokens = tokens_of(text)
    if not tokens:
        return text
    at = rng.randrange(len(tokens))
    opening, closing = rng.choice(
        (("(", ")"), ("[", "]"), ("{", "}"), ("tile<", ">"), ("{a = ", "}"))
    )
    depth = rng.choice((1, 3, 40, 3000))
    tokens[at] = opening * depth + tokens[at] + closing * rng.choice((depth, depth, 0))
    return "".join(tokens)


def _cut(text: str, rng: random.Random) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _change_character(text: str, rng: random.Random) -> str:
    if not text:
        return text
    at = rng.randrange(len(text))
    return text[:at] + rng.choice("\x00\x0b\r\"\\é²\U0001f600%'`~;&") + text[at + 1 :]


_DAMAGES = (
    *(_change_everywhere, _change_everywhere, _change_everywhere),
    *(_change_token, _change_token, _change_token, _drop_token, _repeat_token, _insert_token),
    *(_swap_tokens, _move_lines, _nest, _cut, _change_character),
)
