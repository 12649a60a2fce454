"""Vocabularies of byte-level byte pair encoding, from the metadata of a GGUF file.

Every byte has a printable letter, and tokens are strings of such letters: GPT-2's table. Text is
cut into words by the pattern of its pre-tokenizer, then pairs of a word are joined in the order of
the merges.

Sources: "Language Models are Unsupervised Multitask Learners" (GPT-2) and its encoder.py for the
table of bytes; the keys `tokenizer.ggml.*` of ggml's docs/gguf.md; the patterns are those that the
models' own tokenizer.json have.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from .errors import TokenizerError
from .vocabulary import Vocabulary

if TYPE_CHECKING:
    import tokenizers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# Patterns by the name of a pre-tokenizer: each cuts what the one before it left.
PATTERNS: dict[str, tuple[str, ...]] = {
    "gpt-2": (GPT2,),
    "smollm": (r"\p{N}", GPT2),
    "llama-bpe": (_LLAMA3,),
    "qwen2": (_LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}"),),
}
# Where a word that is a token is that token, whatever the merges would make of it.
_WHOLE_WORDS = ("llama-bpe",)
# Where a text begins with `bos` although the file does not say so.
_BOS = ("llama-bpe",)

# Types of tokens.
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4
_UNKNOWN, _UNUSED, _BYTE = 2, 5, 6

_KEY = "tokenizer.ggml."


@lru_cache(1)
def letters() -> dict[int, str]:
    """The letter of each byte: its own where that is printable, else the next from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {b: chr(256 + i) for i, b in enumerate(rest)}


def vocabulary(metadata: Mapping[str, Any]) -> Vocabulary:
    """The vocabulary of a GGUF file. TokenizerError where it has none, or one of another kind."""
    _known(metadata, "model", ("gpt2",))
    pre = _known(metadata, "pre", tuple(PATTERNS))
    if _flag(metadata, "add_space_prefix", False):
        _refuse("add_space_prefix", "false", "true", "a space before a text is not put here")
    tokens = _strings(metadata, "tokens")
    ids = {token: i for i, token in enumerate(tokens)}
    if len(ids) != len(tokens):
        twice = next(t for i, t in enumerate(tokens) if ids[t] != i)
        _refuse("tokens", "each token once", repr(twice), "a text could mean either")
    kinds = _kinds(metadata, len(tokens))
    whole = {t: i for i, t in enumerate(tokens) if kinds[i] in (CONTROL, _UNKNOWN)}
    user = {t: i for i, t in enumerate(tokens) if kinds[i] == USER_DEFINED}
    parts = {t: i for i, t in enumerate(tokens) if kinds[i] in (NORMAL, USER_DEFINED)}
    named = {name: _id(metadata, name, len(tokens)) for name in ("bos", "eos", "eot", "padding")}
    return Vocabulary(
        words=_words(parts, _merges(metadata, parts), pre),
        pieces=tuple(_piece(t, kinds[i] == NORMAL) for i, t in enumerate(tokens)),
        control=whole,
        user=user,
        before=_frame(metadata, named, "bos", pre in _BOS),
        after=_frame(metadata, named, "eos", False),
        bos=named["bos"],
        eos=named["eos"],
        stops=frozenset(i for i in (named["eos"], named["eot"]) if i is not None),
        pad=named["padding"],
        unwritable=bytes(b for b, letter in letters().items() if letter not in parts),
    )


def _words(ids: dict[str, int], merges: list[tuple[str, str]], pre: str) -> tokenizers.Tokenizer:
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    model = models.BPE(vocab=ids, merges=merges, ignore_merges=pre in _WHOLE_WORDS)
    made = Tokenizer(model)
    cuts: list[pre_tokenizers.PreTokenizer] = [
        pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in PATTERNS[pre]
    ]
    cuts.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    made.pre_tokenizer = pre_tokenizers.Sequence(cuts)
    return made


def _piece(token: str, normal: bool) -> bytes:
    """The bytes of a token: by letters where it is an ordinary one, else as it is written."""
    if normal:
        try:
            return token.translate(_bytes()).encode("latin-1")
        except UnicodeEncodeError:
            pass  # a letter of no byte: written as it is
    return token.encode("utf-8")


@lru_cache(1)
def _bytes() -> dict[int, int]:
    return {ord(letter): byte for byte, letter in letters().items()}


def _merges(metadata: Mapping[str, Any], ids: dict[str, int]) -> list[tuple[str, str]]:
    found = []
    for number, merge in enumerate(_strings(metadata, "merges")):
        left, _, right = merge.partition(" ")
        if left not in ids or right not in ids or left + right not in ids:
            wanted = "two tokens and a space between, which are a token together"
            _refuse(f"merges[{number}]", wanted, repr(merge))
        found.append((left, right))
    return found


def _kinds(metadata: Mapping[str, Any], count: int) -> list[int]:
    kinds = metadata.get(_KEY + "token_type")
    if not isinstance(kinds, np.ndarray) or kinds.dtype.kind not in "iu" or len(kinds) != count:
        _refuse("token_type", f"{count} integers", _told(kinds))
    found: list[int] = kinds.tolist()
    allowed = (NORMAL, _UNKNOWN, CONTROL, USER_DEFINED, _UNUSED)
    other = [kind for kind in found if kind not in allowed]
    if other:
        told = "a byte token" if other[0] == _BYTE else str(other[0])
        _refuse("token_type", f"types among {allowed}", told)
    return found


def _strings(metadata: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = metadata.get(_KEY + name)
    if not isinstance(found, tuple) or not all(isinstance(s, str) for s in found):
        _refuse(name, "an array of strings", _told(found))
    return found


def _known(metadata: Mapping[str, Any], name: str, known: tuple[str, ...]) -> str:
    found = metadata.get(_KEY + name)
    if not isinstance(found, str) or found not in known:
        told = repr(found) if isinstance(found, str) else _told(found)
        _refuse(name, " or ".join(known), told, "this kind of vocabulary is not read here")
    return found


def _flag(metadata: Mapping[str, Any], name: str, default: bool) -> bool:
    found = metadata.get(_KEY + name, default)
    if not isinstance(found, bool):
        _refuse(name, "true or false", _told(found))
    return found


def _id(metadata: Mapping[str, Any], name: str, count: int) -> int | None:
    found = metadata.get(f"{_KEY}{name}_token_id")
    if found is None:
        return None
    if type(found) is not int or not 0 <= found < count:
        _refuse(f"{name}_token_id", f"an id below {count}", _told(found))
    return found


def _frame(
    metadata: Mapping[str, Any], ids: Mapping[str, int | None], name: str, default: bool
) -> tuple[int, ...]:
    if not _flag(metadata, f"add_{name}_token", default):
        return ()
    found = ids[name]
    if found is None:
        _refuse(f"{name}_token_id", f"an id, as add_{name}_token is true", "none")
    return (found,)


def _told(found: object) -> str:
    if found is None:
        return "nothing"
    if isinstance(found, int | float):
        return str(found)
    size = f" of {len(found)}" if isinstance(found, tuple | np.ndarray) else ""
    return f"{type(found).__name__}{size}"


def _refuse(name: str, expected: str, got: str, hint: str = "convert the model again") -> NoReturn:
    raise TokenizerError(_KEY + name, expected, got, hint)
