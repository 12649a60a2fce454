"""Chat templates: messages to the text that a model was trained on.

A template is a program in the checkpoint, of Jinja2. It runs in the package's sandbox, where it
sees nothing of Python and changes nothing; a loop of it may still be long, so take checkpoints from
where they are trusted not to waste time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn

from .errors import ChatTemplateError

if TYPE_CHECKING:
    import jinja2
    import jinja2.sandbox

    from .tokenizer import Tokenizer

Message = Mapping[str, Any]

# Characters of text that a template may write, so that one which does not end is stopped.
MAX_TEXT = 1 << 24

# Noncharacters of Unicode, for use within a program; one that no message has breaks the texts of
# control tokens in messages up.
_GUARDS = [chr(code) for code in range(0xFDD0, 0xFDF0)]


def from_gguf(metadata: Mapping[str, Any], tokenizer: Tokenizer) -> ChatTemplate:
    """The chat template of a GGUF file. ChatTemplateError where it has none, or none of Jinja2."""
    source = metadata.get("tokenizer.chat_template")
    if not isinstance(source, str):
        got = "nothing" if source is None else type(source).__name__
        _refuse("tokenizer.chat_template", got, "give the model whole texts instead of messages")
    return ChatTemplate(source, tokenizer)


class ChatTemplate:
    """A template and the tokenizer of its model. source: the text of the template."""

    def __init__(self, source: str, tokenizer: Tokenizer) -> None:
        self.source = source
        self._tokenizer = tokenizer
        self._template = _compiled(source)

    def render(
        self, messages: Sequence[Message], *, add_generation_prompt: bool = True, **extra: Any
    ) -> str:
        """The text of messages, each {"role": ..., "content": ...}. add_generation_prompt: whether
        it ends where the model's answer begins. extra: what else a template may read, as `tools`.

        ChatTemplateError where the template fails, or refuses the messages.
        """
        tokens = {"bos_token": self._tokenizer.bos, "eos_token": self._tokenizer.eos}
        texts = {n: "" if t is None else self._tokenizer.text_of(t) for n, t in tokens.items()}
        given = {**extra, "messages": messages, "add_generation_prompt": add_generation_prompt}
        written, size = [], 0
        try:
            for part in self._template.generate(**texts, **given):
                written.append(part)
                size += len(part)
                if size > MAX_TEXT:
                    _refuse("the chat template", f"writes over {MAX_TEXT} characters", _OTHER)
        except ChatTemplateError:
            raise
        # A template is a program of others: it may raise anything.
        except Exception as error:
            got = f"{type(error).__name__}: {error}"
            raise ChatTemplateError("the chat template", got, "check roles and contents") from error
        return "".join(written)

    def encode(
        self, messages: Sequence[Message], *, add_generation_prompt: bool = True, **extra: Any
    ) -> list[int]:
        """The ids of what `render` gives. Control tokens come from the template alone: what reads
        like one in a message, or in `extra`, is text.

        ChatTemplateError as of `render`, TokenizerError as of `Tokenizer.encode`.
        """
        guard = _guard((messages, extra))
        tokens = [t for t in self._tokenizer.control_tokens() if t]
        safe, more = _broken((messages, extra), sorted(tokens, key=len, reverse=True), guard)
        text = self.render(safe, add_generation_prompt=add_generation_prompt, **more)
        return self._tokenizer.encode(text, special=True, frame=False, guard=guard)


_OTHER = "take another template"


def _compiled(source: str) -> jinja2.Template:
    if find_spec("jinja2") is None:
        raise ModuleNotFoundError(
            "chat templates need the package jinja2: pip install 'gristmill[models]'", name="jinja2"
        )
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    try:
        return environment.from_string(source)
    except jinja2.TemplateError as error:
        line = getattr(error, "lineno", "?")
        got = f"line {line}: {type(error).__name__}: {error}"
        raise ChatTemplateError("the chat template", got, _OTHER) from error
    except (RecursionError, MemoryError, SyntaxError, ValueError, OverflowError) as error:
        # Nested deeper than Python's own compiler takes, or with numbers that it does not take.
        got = f"{type(error).__name__}: {error}"
        raise ChatTemplateError("the chat template", got, _OTHER) from error


def _to_json(value: Any, indent: int | None = None) -> str:
    """JSON as templates are written for: letters as they are, nothing escaped for HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise(message: str) -> NoReturn:
    _refuse("the messages", f"refused by the chat template: {message}", "change the messages")


def _guard(values: Any) -> str:
    """A noncharacter that no string among the values has."""
    texts = list(_texts(values))
    for guard in _GUARDS:
        if not any(guard in text for text in texts):
            return guard
    got = "hold every noncharacter from U+FDD0 to U+FDEF"
    _refuse("the messages", got, "leave them out: they are no text")


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, held in value.items():
            yield from (*_texts(key), *_texts(held))
    elif isinstance(value, list | tuple):
        for held in value:
            yield from _texts(held)
    elif value is not None and not isinstance(value, bool | int | float):
        _refuse("the messages", f"hold a {type(value).__name__}", "give what JSON can hold")


def _broken(value: Any, tokens: Sequence[str], guard: str) -> Any:
    """The value with a guard in each text of a control token, behind its first character."""
    if isinstance(value, str):
        for token in tokens:
            if len(token) == 1 and token in value:
                got = f"hold {token!r}, which the model has as a control token"
                _refuse("the messages", got, "leave it out")
            while token in value:  # again, where a token begins with its own end
                value = value.replace(token, token[0] + guard + token[1:])
        return value
    if isinstance(value, Mapping):
        return {_broken(k, tokens, guard): _broken(v, tokens, guard) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_broken(held, tokens, guard) for held in value]
    return value


def _refuse(what: str, got: str, hint: str) -> NoReturn:
    raise ChatTemplateError(what, got, hint)
