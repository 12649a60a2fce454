"""Random texts of the kinds that tokenizers get wrong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_SPACES = (" ", "  ", "\n", "\t", "\r\n", "   ", "\u00a0", "\u3000", "\u2003", "\n\n ")
_EMOJI = "😀👨‍👩‍👧🇩🇪❤️🤷🏽"
_WORDS = (
    "don't",
    "I'LL",
    "we've",
    "hello",
    "World",
    "def f(x):",
    "ﬁ",
    "Ⅷ",
    "²½",
    "٣٤",
    " the",
    "é",
)


def letters(rng: np.random.Generator, low: int, high: int, count: int) -> str:
    """Characters of a range of code points, without surrogates."""
    codes = rng.integers(low, high, count).tolist()
    return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)


def text(rng: np.random.Generator, special: Sequence[str], top: int = 0x110000) -> str:
    """A text of up to 11 pieces: control tokens, numbers, spaces, emoji, letters below `top`."""
    return "".join(_piece(rng, special, top) for _ in range(int(rng.integers(1, 12))))


def _piece(rng: np.random.Generator, special: Sequence[str], top: int) -> str:
    match int(rng.integers(9)):
        case 0:
            return special[int(rng.integers(len(special)))]
        case 1:
            return str(int(rng.integers(10 ** int(rng.integers(1, 9)))))
        case 2:
            return _SPACES[int(rng.integers(len(_SPACES)))] * int(rng.integers(1, 4))
        case 3:
            return _EMOJI[int(rng.integers(len(_EMOJI)))]
        case 4:
            return letters(rng, 0x20, 0x3000, int(rng.integers(1, 6)))
        case 5:
            return letters(rng, 0x20, top, 3)
        case 6:
            return _WORDS[int(rng.integers(len(_WORDS)))]
        case 7:
            return "".join(rng.choice(list("abcdefghij -_'.,!?<|>/"), 8).tolist())
        case _:
            return letters(rng, 0x4E00, 0x9FFF, 3)
