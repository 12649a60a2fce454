"""`gristmill generate` and `gristmill embed`: models from their plans, nothing compiled."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .. import runtime
from ..ir.plan.text import PlanError
from ..models import plans
from ..models.checkpoints import open_checkpoint
from ..models.errors import (
    ChatTemplateError,
    CheckpointError,
    ModelError,
    TokenizerError,
    UnknownArchitectureError,
)
from ..models.programs import CheckpointWeights
from ..runtime.engine import Engine
from .demo import HARDWARE
from .errors import CommandError

if TYPE_CHECKING:
    from ..ir.plan import Plan
    from ..models.checkpoints import Checkpoint
    from ..models.plans import Description
    from ..runtime.engine import Model

_BEST_FIRST = ("cuda", "hsa", "vulkan", "cpu")
_TOLD = (
    ChatTemplateError,
    CheckpointError,
    ModelError,
    ModuleNotFoundError,
    PlanError,
    TokenizerError,
    UnknownArchitectureError,
)


def generate(arguments: argparse.Namespace) -> int:
    """The command: an answer as it is made, and on standard error how fast that was."""
    with _told(), _loaded(arguments, "llama") as (model, description, checkpoint):
        from ..models import chat, tokenizer
        from ..models.generation import Generator

        if not arguments.prompt:
            raise CommandError("the prompt is empty: ask something")
        words = tokenizer.from_gguf(checkpoint.metadata)
        if arguments.raw:
            prompt = words.encode(arguments.prompt)
        else:
            message = {"role": "user", "content": arguments.prompt}
            prompt = chat.from_gguf(checkpoint.metadata, words).encode([message])
        generator = Generator(model, description.context)
        begin = time.perf_counter()
        first = generator.prompt(prompt)
        read = time.perf_counter()
        stream, count = words.stream(), 0
        for token in generator.answer(first, words.stops, arguments.tokens):
            count += 1
            print(stream.put(token), end="", flush=True)
        print(stream.end())
        if generator.length >= description.context:
            print(f"the context of {description.context} tokens is full", file=sys.stderr)
        elif count == arguments.tokens:
            print(f"cut after {count} tokens (--tokens)", file=sys.stderr)
        spent = time.perf_counter() - read
        device = model.engine.device.capabilities
        print(
            f"{device.device} ({device.name}): {len(prompt)} tokens read in "
            f"{read - begin:.2f} s, {count} written in {spent:.2f} s "
            f"({count / max(spent, 1e-9):.1f} tokens/s)",
            file=sys.stderr,
        )
    return 0


def embed(arguments: argparse.Namespace) -> int:
    """The command: the vector of each text, a line of JSON each; of several the cosines too."""
    with _told(), _loaded(arguments, "bert") as (model, _, checkpoint):
        from ..models import tokenizer
        from ..models.embedding import Embedder

        words = tokenizer.from_bert(checkpoint.path.with_name("vocab.txt"))
        if not all(arguments.texts):
            raise CommandError(f"text {arguments.texts.index('') + 1} is empty")
        embedder = Embedder(model)
        vectors = embedder.embed([words.encode(text) for text in arguments.texts])
        if arguments.json:
            for text, vector in zip(arguments.texts, vectors, strict=True):
                print(json.dumps({"text": text, "embedding": [float(v) for v in vector]}))
            return 0
        for text, vector in zip(arguments.texts, vectors, strict=True):
            print(
                f"{text!r}: {len(vector)} numbers, {', '.join(f'{v:.4f}' for v in vector[:4])}, ..."
            )
        for n, a in enumerate(arguments.texts):
            for m in range(n + 1, len(arguments.texts)):
                print(f"{vectors[n] @ vectors[m]:.4f}  {a!r} and {arguments.texts[m]!r}")
    return 0


@contextmanager
def _told() -> Iterator[None]:
    """What a user can mend is a line, not a traceback."""
    try:
        yield
    except _TOLD as error:
        raise CommandError(str(error)) from error


@contextmanager
def _loaded(
    arguments: argparse.Namespace, family: str
) -> Iterator[tuple[Model, Description, Checkpoint]]:
    """The model on the device that is named, or on the best one that it has a plan for."""
    if not plans.names(Path(arguments.bundle)):
        raise plans.no_plans(Path(arguments.bundle), arguments.model)
    bundle = runtime.open_bundle(arguments.bundle)
    device, plan, description = _device(Path(arguments.bundle), arguments.model, arguments.device)
    with device:
        if description.family != family:
            other = {"llama": "generate", "bert": "embed"}[description.family]
            raise CommandError(
                f"model {description.name} is a {description.family}; this takes a {family}:"
                f" use gristmill {other}, or another --model"
            )
        checkpoint = open_checkpoint(description.checkpoint.locate())
        model = Engine(device, bundle).load(plan, CheckpointWeights(checkpoint))
        try:
            yield model, description, checkpoint
        finally:
            model.unload()


def _device(
    bundle: Path, name: str, wanted: str | None
) -> tuple[runtime.Device, Plan, Description]:
    missing: Exception | None = None
    for spec in (wanted,) if wanted else _BEST_FIRST:
        try:
            device = runtime.open_device(spec)
        except runtime.NoDevice:
            if wanted:
                raise
            continue
        kind = str(device.capabilities.facts.get("type"))
        try:
            if not wanted and spec == "vulkan" and kind not in HARDWARE:
                raise ModelError("vulkan", "a driver of hardware", kind)
            return device, *plans.find(bundle, name, device.capabilities)
        except PlanError:
            device.close()
            raise
        except ModelError as error:
            device.close()
            missing = error
    assert missing is not None, "the cpu is always there"
    raise missing
