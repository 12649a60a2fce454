"""Text from a language model: a prompt by buckets, then token after token on the device."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .errors import ModelError
from .programs import DECODE

if TYPE_CHECKING:
    from ..runtime.engine import Model

PREFILL = "prefill_"


class Generator:
    """One sequence on a loaded model. It goes on where it is: `reset` begins anew."""

    def __init__(self, model: Model, context: int) -> None:
        """context: tokens that prompt and answer may have together."""
        self.model, self.context = model, context
        entries = (e.name for e in model.plan.entries)
        self.buckets = sorted(
            int(n.removeprefix(PREFILL)) for n in entries if n.startswith(PREFILL)
        )
        self.length = 0

    def reset(self) -> None:
        """Forget the sequence."""
        self.model.reset()
        self.length = 0

    def prompt(self, tokens: Sequence[int]) -> int:
        """Read tokens behind what is there; gives the one that follows. Raises ModelError for a
        prompt of nothing, or beyond the context, after which nothing has happened."""
        if not tokens or self.length + len(tokens) > self.context:
            room = self.context - self.length
            hint = "shorten it, or reset the sequence" if tokens else "say something"
            raise ModelError("prompt", f"1 to {room} tokens", str(len(tokens)), hint)
        entry, at = "", 0
        while at < len(tokens):
            size = next((b for b in self.buckets if b >= len(tokens) - at), self.buckets[-1])
            entry = f"{PREFILL}{size}"
            part = np.asarray(tokens[at : at + size], np.int32)
            padded = np.zeros(size, np.int32)
            padded[: part.size] = part
            self.model.step(entry, tokens=padded, count=np.array([part.size], np.int32))
            at += part.size
        self.length += len(tokens)
        return int(self.model.read(entry, "token")[0])

    def answer(self, first: int, stop: Collection[int], most: int) -> Iterator[int]:
        """Tokens from `first` on, up to one of `stop`, which is not given, `most` of them, or the
        end of the context. The next token is chosen on the device, so that its step is on its way
        while the caller has the one before."""
        token = first
        for count in range(most):
            if token in stop:
                return
            more = count + 1 < most and self.length < self.context
            if more:
                self.model.step(DECODE)
                self.length += 1
            yield token
            if not more:
                return
            token = int(self.model.read(DECODE, "token")[0])
