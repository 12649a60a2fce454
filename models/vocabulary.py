"""What a tokenizer is made of, whatever its kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tokenizers


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A vocabulary.

    words: ids of a text without control tokens. pieces: the bytes of each token, by id. control:
    ids of control tokens by their text. user: ids of the tokens that are found in any text before
    words are. before, after: what a text is framed by. stops: ids that end what a model says.
    unwritable: bytes of UTF-8 that no token has. spaced: tokens are words, joined by spaces, but
    for those in `joined`, which continue one.
    """

    words: tokenizers.Tokenizer
    pieces: tuple[bytes, ...]
    control: Mapping[str, int]
    user: Mapping[str, int]
    before: tuple[int, ...]
    after: tuple[int, ...]
    bos: int | None
    eos: int | None
    stops: frozenset[int]
    pad: int | None
    unwritable: bytes = b""
    spaced: bool = False
    joined: frozenset[int] = frozenset()
