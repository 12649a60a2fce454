"""Kernels that spirv_codegen=llc has no module for: what LLVM's SPIR-V backend does not take.

Such a kernel is an error of the build, but one that is told at its end with all the others, since
the route is a second opinion on the kernels that it takes. In place of the artifact lies an empty
file, and the manifest says why.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from .plan import Row
from .workshop import StepError

_WORD = "refused"


def or_refusal(make: Callable[[], dict[str, bytes]]) -> dict[str, bytes]:
    """What `make` gives, or the refusal that it raises, as outputs."""
    try:
        return make()
    except Exception as error:  # its class is imported where something is raised: that is dear
        from gristmill.backends.spirv_llc.errors import RouteError

        # One for want of time is none of the kernel: it must not stand until something is edited.
        if not isinstance(error, RouteError) or error.stage == "timeout":
            raise
        return {"artifact": b"", "manifest": json.dumps({_WORD: str(error)}).encode()}


def sort_out(rows: list[Row], keep_going: bool) -> tuple[list[Row], list[str]]:
    """The rows with an artifact, and what the others say. StepError if there are any, unless the
    build is to keep going."""
    found, refused = [], []
    for row in rows:
        manifest = json.loads(Path(row[1]).read_bytes())
        if _WORD in manifest:
            refused.append(f"{row[0]}: {manifest[_WORD]}")
        else:
            found.append(row)
    if refused and not keep_going:
        count = _count(refused, rows)
        raise StepError(f"{count}; with -k the bundle holds the others; {refused[0]}")
    return found, refused


def tell(refused: list[str], rows: list[Row]) -> None:
    """Lists what was refused, once the bundle of the others is there. StepError if anything was."""
    if refused:
        sys.stdout.write("".join(f"{text}\n" for text in refused))
        raise StepError(f"{_count(refused, rows)}; the bundle holds the others")


def _count(refused: list[str], rows: list[Row]) -> str:
    return f"spirv_codegen=llc has no module for {len(refused)} of {len(rows)} artifacts"
