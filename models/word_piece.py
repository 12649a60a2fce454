"""Vocabularies of WordPiece: BERT's, from its vocab.txt or tokenizer.json.

Sources: "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding" and its
tokenization.py; the fields of tokenizer.json as the package `tokenizers` writes them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from .errors import TokenizerError
from .vocabulary import Vocabulary

if TYPE_CHECKING:
    import tokenizers

UNKNOWN, CLS, SEP, PAD, MASK = "[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"
_CONTINUES = "##"


def vocabulary(path: Path, lowercase: bool) -> Vocabulary:
    """The vocabulary of a vocab.txt (a token a line; lowercase: whether the model is uncased) or of
    a tokenizer.json, which says that itself. TokenizerError where it is neither."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        _refuse(path, "", "a file of UTF-8", str(error))
    if path.suffix != ".json":
        return _of_lines(path, text, lowercase)
    return _of_json(path, text)


def _of_lines(path: Path, text: str, lowercase: bool) -> Vocabulary:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    lines = text.removesuffix("\n").split("\n")
    ids = {line.removesuffix("\r"): number for number, line in enumerate(lines)}
    if len(ids) != len(lines):
        _refuse(path, "", "each token once", f"{len(lines)} lines of {len(ids)} tokens")
    control = _control(path, ids)
    words = Tokenizer(models.WordPiece(ids, unk_token=UNKNOWN, max_input_chars_per_word=100))
    words.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return _made(words, ids, control)


def _of_json(path: Path, text: str) -> Vocabulary:

    try:
        told = json.loads(text)
        model = told["model"]
        kind, prefix, unknown = (
            model["type"],
            model["continuing_subword_prefix"],
            model["unk_token"],
        )
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        _refuse(path, "", "the JSON of a tokenizer with a model", f"{type(error).__name__} {error}")
    if (kind, prefix, unknown) != ("WordPiece", _CONTINUES, UNKNOWN):
        got = f"{kind!r} with {prefix!r} and {unknown!r}"
        _refuse(path, "model", f"WordPiece with {_CONTINUES!r} and {UNKNOWN!r}", got)
    words = _parsed(path, text)
    words.no_truncation()
    words.no_padding()
    # Control tokens in a text are text; those that are meant are looked for before.
    words.encode_special_tokens = True
    ids = words.get_vocab(with_added_tokens=True)
    if sorted(ids.values()) != list(range(len(ids))):
        _refuse(path, "model.vocab", f"ids from 0 to {len(ids) - 1}", "others")
    return _made(words, ids, _control(path, ids))


def _parsed(path: Path, text: str) -> tokenizers.Tokenizer:
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_str(text)
    except Exception as error:  # the package raises nothing more special
        _refuse(path, "", "a tokenizer.json that `tokenizers` reads", str(error))


def _control(path: Path, ids: dict[str, int]) -> dict[str, int]:
    named = (UNKNOWN, CLS, SEP, PAD, MASK)
    missing = [token for token in named if token not in ids]
    if missing:
        _refuse(path, "", f"the tokens {', '.join(named)}", f"none of {', '.join(missing)}")
    return {token: ids[token] for token in named}


def _made(words: tokenizers.Tokenizer, ids: dict[str, int], control: dict[str, int]) -> Vocabulary:
    ordered = sorted(ids, key=ids.__getitem__)
    joined = {i for token, i in ids.items() if token.startswith(_CONTINUES)} - {ids.get("##", -1)}
    pieces = [t.removeprefix(_CONTINUES) if ids[t] in joined else t for t in ordered]
    return Vocabulary(
        words=words,
        pieces=tuple(piece.encode("utf-8") for piece in pieces),
        control=control,
        user={},
        before=(control[CLS],),
        after=(control[SEP],),
        bos=control[CLS],
        eos=control[SEP],
        stops=frozenset({control[SEP]}),
        pad=control[PAD],
        spaced=True,
        joined=frozenset(joined),
    )


def _refuse(path: Path, part: str, expected: str, got: str) -> NoReturn:
    where = f"{path}: {part}" if part else str(path)
    raise TokenizerError(where, expected, got, "take the file that came with the model")
