"""What running one program on one target showed."""

from __future__ import annotations

import re
from dataclasses import dataclass

# kind -> what of it; only `ok` and `refused` are good
KINDS = {
    "ok": "the target gave what it must",
    "refused": "the target cannot run the program, and said so by type",
    "mismatch": "an output or a fault differs",
    "invalid": "what was compiled is no valid artifact, or the driver does not take it",
    "crash": "the target's process, or what compiles for it, ended",
    "hang": "the target's process did not answer in time",
    "error": "compiling or running raised what is no refusal",
    "unsound": "the program itself is wrong: the oracle reports a mistake in it",
}
GOOD = frozenset({"ok", "refused"})


@dataclass(frozen=True)
class Outcome:
    """kind: see KINDS. rule: which sort of it (of a mismatch: bits, ulp or faults). text: the
    first thing that was wrong, or why it was refused."""

    kind: str
    rule: str = ""
    text: str = ""

    @property
    def good(self) -> bool:
        return self.kind in GOOD

    @property
    def sort(self) -> tuple[str, str]:
        """What stays the same while a program is made smaller."""
        return self.kind, self.rule

    def __str__(self) -> str:
        head = f"{self.kind} ({self.rule})" if self.rule else self.kind
        return f"{head}: {self.text}" if self.text else head


def rule_of(error: BaseException) -> str:
    """An exception without what changes from program to program: its type and its first words."""
    words = re.sub(r"%?\w*\d\w*", "#", str(error).strip().split("\n")[0])
    return f"{type(error).__name__}: {words[:80]}"
