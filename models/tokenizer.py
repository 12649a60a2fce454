"""Text to tokens and back.

    tokenizer = from_gguf(checkpoint.metadata)
    ids = tokenizer.encode("What is a quern?")
    stream = tokenizer.stream()
    for token in generated:
        print(stream.put(token), end="")
    print(stream.end())

Control tokens are found in a text only where `special=True` asks for them: what a user writes never
is one.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from . import byte_level, word_piece
from .errors import TokenizerError
from .vocabulary import Vocabulary


def from_gguf(metadata: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer of a GGUF file, of its metadata: byte-level BPE (`gpt2`) with one of the
    pre-tokenizers of `byte_level.PATTERNS`. TokenizerError for any other, by name."""
    _need_package()
    return Tokenizer(byte_level.vocabulary(metadata))


def from_bert(path: str | Path, *, lowercase: bool = True) -> Tokenizer:
    """The tokenizer of a BERT, of its vocab.txt or tokenizer.json. lowercase: of a vocab.txt,
    whether the model is uncased. TokenizerError where the file is neither."""
    _need_package()
    return Tokenizer(word_piece.vocabulary(Path(path), lowercase))


def _need_package() -> None:
    if find_spec("tokenizers") is None:
        raise ModuleNotFoundError(
            "text needs the package tokenizers: pip install 'gristmill[models]'", name="tokenizers"
        )


class Tokenizer:
    """A vocabulary at work. bos, eos, pad: ids, None where the model has none. stops: ids that end
    what a model says. Threads may share one."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._of = vocabulary
        self._any = {**vocabulary.user, **vocabulary.control}
        self._user_pattern = _pattern(vocabulary.user)
        self._any_pattern = _pattern(self._any)
        self._hidden = frozenset(vocabulary.control.values())
        self.bos, self.eos, self.pad = vocabulary.bos, vocabulary.eos, vocabulary.pad
        self.stops = vocabulary.stops

    def __len__(self) -> int:
        """How many tokens there are."""
        return len(self._of.pieces)

    def text_of(self, token: int) -> str:
        """The text of a token, control tokens included. TokenizerError for an id of none."""
        return self._piece(token).decode("utf-8", "replace")

    def control_tokens(self) -> tuple[str, ...]:
        """The texts of the control tokens."""
        return tuple(self._of.control)

    def encode(
        self, text: str, *, special: bool = False, frame: bool = True, guard: str = ""
    ) -> list[int]:
        """The ids of a text. special: whether control tokens are found in it. frame: whether the
        model's tokens for the start and end of a text are put round it. guard: a character that is
        taken out once control tokens were found, so that one which holds it is not found.

        TokenizerError for a text with a lone surrogate, or with a byte that no token has.
        """
        pattern = self._any_pattern if special else self._user_pattern
        found = list(self._of.before) if frame else []
        at = 0
        for match in pattern.finditer(text) if pattern else ():
            found += self._plain(text[at : match.start()], guard)
            found.append(self._any[match.group()])
            at = match.end()
        found += self._plain(text[at:], guard)
        if frame:
            found += self._of.after
        return found

    def decode(self, ids: Iterable[int], *, special: bool = False) -> str:
        """The text of ids; bytes that are no UTF-8 become U+FFFD. special: whether control tokens
        are written out. TokenizerError for an id of no token."""
        stream = self.stream(special=special)
        return "".join([stream.put(token) for token in ids]) + stream.end()

    def stream(self, *, special: bool = False) -> Stream:
        """A text that comes token by token."""
        return Stream(self, special)

    def bytes_of(self, token: int, *, first: bool, special: bool) -> bytes:
        """What a token adds to a text. first: whether nothing of the text came before. special:
        whether a control token is written out. TokenizerError for an id of no token."""
        piece = self._piece(token)
        if token in self._hidden and not special:
            return b""
        spaced = self._of.spaced and not first and token not in self._of.joined
        return b" " + piece if spaced else piece

    def _piece(self, token: int) -> bytes:
        if not 0 <= token < len(self._of.pieces):
            wanted = f"an id below {len(self._of.pieces)}"
            raise TokenizerError("token", wanted, str(token), "take ids of this vocabulary")
        return self._of.pieces[token]

    def _plain(self, text: str, guard: str) -> list[int]:
        text = text.replace(guard, "") if guard else text
        if not text:
            return []
        self._check(text)
        ids: list[int] = self._of.words.encode(text, add_special_tokens=False).ids
        return ids

    def _check(self, text: str) -> None:
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError as error:
            got = f"a lone surrogate at character {error.start}"
            raise TokenizerError("text", "Unicode", got, "decode it as UTF-16 first") from None
        unwritable = self._of.unwritable
        if len(data.translate(None, unwritable)) != len(data):
            at, letter = next(
                (i, c) for i, c in enumerate(text) if any(b in unwritable for b in c.encode())
            )
            raise TokenizerError(
                "text",
                "characters whose bytes the vocabulary has",
                f"U+{ord(letter):04X} at {at}",
                "leave it out; the model has never seen it",
            )


class Stream:
    """A text that comes token by token: what is given is whole characters, and together it is what
    `decode` gives for all."""

    def __init__(self, tokenizer: Tokenizer, special: bool) -> None:
        self._tokenizer, self._special = tokenizer, special
        self._start()

    def _start(self) -> None:
        self._first = True
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def put(self, token: int) -> str:
        """The characters that a token completes; maybe none. TokenizerError for an id of no
        token."""
        data = self._tokenizer.bytes_of(token, first=self._first, special=self._special)
        self._first = self._first and not data
        return self._decoder.decode(data)

    def end(self) -> str:
        """U+FFFD for a character that was never completed; then the stream may begin again."""
        rest = self._decoder.decode(b"", final=True)
        self._start()
        return rest


def _pattern(tokens: Iterable[str]) -> re.Pattern[str] | None:
    """Finds tokens in a text, the longest of those that begin at one place."""
    found = sorted(filter(None, tokens), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, found))) if found else None
