"""The tables of docs/NUMERICS.md, from the code: `python tests/numerics_page.py` renews them.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`, as in docs/LANGUAGE.md. Formulas
are those that the references evaluate (`kernels.family.Bound`); what can be reproduced follows from
the operations of each specialization (`kernel_facts`).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

from gristmill.kernels import Family, families
from gristmill.kernels.family import Bound, gamma, least, rounding, u
from kernel_facts import CLASSES, configuration, reproducible, specializations
from language_page import BLOCK

PAGE = Path(__file__).parents[1] / "docs/NUMERICS.md"


def _classes() -> str:
    rows = [f"| `{name}` | {said} |" for name, said in CLASSES.items()]
    return "\n".join(["| | |", "|---|---|", *rows]) + "\n"


def _functions() -> str:
    rows = []
    for function in (u, gamma, least, rounding):
        names = ", ".join(inspect.signature(function).parameters)
        said = " ".join((function.__doc__ or "").split())
        rows.append(f"| `{function.__name__}({names})` | {said} |")
    return "\n".join(["| | |", "|---|---|", *rows]) + "\n"


def _bound(case: str, bound: Bound) -> Iterator[str]:
    yield f"- {case or 'bound'}: `{bound.formula}`"
    for name, said in bound.terms.items():
        yield f"  - `{name}`: {said}"


def _classed(kernel: str) -> str:
    """`fixed` i32; `order` f32, ...: the specializations of each class."""
    found: dict[str, list[str]] = {}
    for spec in specializations(kernel):
        found.setdefault(reproducible(spec), []).append(spec.name)
    if len(found) == 1:
        return f"`{next(iter(found))}`"
    return "; ".join(f"`{name}`: {', '.join(specs)}" for name, specs in found.items())


def fast(kernel: str) -> list[str]:
    """Targets for which a specialization has a variant that is computed less exactly than
    written."""
    row = configuration().kernels[kernel]
    places = [*row.own.values(), row.variants]
    variants = [(target, v) for place in places for target, vs in place.items() for v in vs]
    found = {target for target, variant in variants if variant.get("FAST")}
    return sorted(found | {"all" for spec in specializations(kernel) if spec.kernel.fast})


def _family(name: str, family: Family) -> Iterator[str]:
    yield f"### {name}"
    yield ""
    yield f"- {family.numerics}; {_classed(name)}"
    for case, bound in family.bounds.items():
        yield from _bound(case, bound)
    if not family.bounds:
        yield "- bound: 0"
    if family.special:
        yield f"- {family.special}"
    if targets := fast(name):
        yield f"- FAST variants: {', '.join(targets)}"
    yield ""


def _kernels() -> str:
    lines = [line for name, family in sorted(families().items()) for line in _family(name, family)]
    return "\n" + "\n".join(lines)


def tables() -> dict[str, str]:
    """Every table by name."""
    return {"classes": _classes(), "functions": _functions(), "kernels": _kernels()}


def renewed(page: str) -> str:
    """The page with its tables as the code has them. KeyError for a table of another name."""
    found = tables()
    return BLOCK.sub(lambda block: block[1] + found[block[2]] + block[4], page)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
