"""The tables of docs/LANGUAGE.md, from the code: `python tests/language_page.py` renews them.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from pathlib import Path

from gristmill.ir.lang.surface import TABLE, VECTORS
from gristmill.ir.limits import TABLE as LIMITS
from gristmill.ir.ops import ROWS

PAGE = Path(__file__).parents[1] / "docs/LANGUAGE.md"
BLOCK = re.compile(r"(<!-- table: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)

_IDS = (
    *("global_id", "local_id", "group_id", "num_groups", "workgroup_size", "local_linear_id"),
    *("subgroup_id", "subgroup_lane", "num_subgroups", "subgroup_size"),
)
_MEMORY = (
    *("workgroup_array", "private_array", "registers", "load_vector", "store_vector"),
    *("barrier", "grid_barrier", "fence"),
)
_COPIES = ("copy_async", "copy_commit", "copy_wait")
_FRAGMENTS = (
    *("fragment_load", "fragment_store", "mma", "row_add", "row_min", "row_max"),
    *("fragment_row", "fragment_column"),
)
_VALUES = ("convert", "bitcast", "select", "shuffle", "ceil_div", "clamp")
_TRACING = ("static_range", "static_assert")
_INTEGERS = ("popcount", "clz", "ctz", "reverse_bits", "mul_high", "dot4")


def call(name: str) -> str:
    """A function's name and parameters."""
    signature = TABLE[name].signature
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return f"{name}{inspect.Signature(plain)}"


def _rows(names: Iterable[str]) -> str:
    lines = ["| call | gives |", "|---|---|"]
    for name in names:
        said = " ".join((TABLE[name].__doc__ or "").split()).replace("|", " or ")
        lines.append(f"| `{call(name)}` | {said} |")
    return "\n".join(lines) + "\n"


def _bounds(names: Iterable[str]) -> str:
    lines = ["| call | f32 | f64 |", "|---|---|---|"]
    for name in names:
        row = ROWS[name]
        lines.append(f"| `{call(name)}` | {row.ulp:g} | {row.ulp64 or row.ulp:g} |")
    return "\n".join(lines) + "\n"


def _limits() -> str:
    lines = ["| what | at most |", "|---|---|"]
    return "\n".join([*lines, *(f"| {what} | {most:,} |" for what, most in LIMITS)]) + "\n"


def tables() -> dict[str, str]:
    """Every table by name. Each function of the language is in one of them."""
    atomics = [n for n in TABLE if n.startswith("atomic_")]
    subgroups = [n for n in TABLE if n.startswith("subgroup_") and n not in _IDS]
    hopper = [n for n in TABLE if n.startswith("nv.")]
    taken = {
        *hopper,
        *_IDS,
        *_MEMORY,
        *_COPIES,
        *_FRAGMENTS,
        *_VALUES,
        *_TRACING,
        *_INTEGERS,
        *atomics,
        *subgroups,
    }
    left = [n for n in TABLE if n not in taken]
    bounded = [n for n in left if n in ROWS and ROWS[n].ulp is not None]
    exact = [n for n in left if n in ROWS and n not in bounded]
    composed = [n for n in left if n not in ROWS]
    return {
        "vectors": ", ".join(f"`{name}`" for name in VECTORS) + "\n",
        "ids": _rows(_IDS),
        "memory": _rows(_MEMORY),
        "atomics": _rows(atomics),
        "subgroups": _rows(subgroups),
        "copies": _rows(_COPIES),
        "fragments": _rows(_FRAGMENTS),
        "hopper": _rows(hopper),
        "values": _rows(_VALUES),
        "tracing": _rows(_TRACING),
        "integers": _rows(_INTEGERS),
        "exact": _rows(exact),
        "maths": _bounds(bounded),
        "composed": _rows(composed),
        "limits": _limits(),
    }


def renewed(page: str) -> str:
    """The page with its tables as the code has them. KeyError for a table of another name."""
    found = tables()
    return BLOCK.sub(lambda block: block[1] + found[block[2]] + block[4], page)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
