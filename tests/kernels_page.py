"""The lists of docs/KERNELS.md, from the code: `python tests/kernels_page.py` renews them.

A list stands between `<!-- table: NAME -->` and `<!-- end -->`, as in docs/LANGUAGE.md.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gristmill.ir.core import walk
from gristmill.ir.dtypes import MemType, Space
from gristmill.ir.lang import KernelFunction
from kernel_facts import Specialization, configuration, specializations
from language_page import BLOCK

PAGE = Path(__file__).parents[1] / "docs/KERNELS.md"


def _short(value: Any) -> str:
    if isinstance(value, str):
        return value.rpartition(":")[2] or '""'
    return str(getattr(value, "name", value))


def _signature(function: KernelFunction) -> Iterator[str]:
    """The parameters as the source has them, and the constexprs with their defaults."""
    arguments = function.source.node.args
    plain = [f"{a.arg}: {ast.unparse(a.annotation)}" for a in arguments.args if a.annotation]
    yield f"- arguments: {', '.join(f'`{text}`' for text in plain)}"
    defaults = [
        f"`{name}" + ("`" if default is inspect.Parameter.empty else f" = {_short(default)}`")
        for name, (_, default) in function.constexprs.items()
    ]
    yield f"- constexprs: {', '.join(defaults)}"


def _specialization(spec: Specialization) -> str:
    row = configuration().kernels[spec.family.name]
    said = ", ".join(f"{n} {_short(v)}" for n, v in row.specializations[spec.name].items())
    return f"`{spec.name}`" + (f" ({said})" if said else "")


def _memory(spec: Specialization) -> int:
    """Bytes of workgroup memory."""
    types = [v.type for op in walk(spec.kernel.body) if op.name == "alloc" for v in op.results]
    shared = [t for t in types if isinstance(t, MemType) and t.space is Space.WORKGROUP]
    return sum(t.element.bytes * (t.count or 0) for t in shared)


def _targets(kernel: str) -> str:
    rows = configuration()
    row = rows.kernels[kernel]
    if row.targets is not None:
        return ", ".join(row.targets)
    return "all"


def _limits(specs: tuple[Specialization, ...]) -> str:
    first = specs[0].kernel
    index = {str(spec.kernel.index) for spec in specs}
    x, y, z = first.workgroup
    found = [f"{x * y * z} invocations a workgroup"]
    if most := max(map(_memory, specs)):
        found.append(f"up to {most:,} bytes of workgroup memory")
    if "i32" in index:
        found.append("up to 2**31 - 1 elements a buffer")
    if any(spec.kernel.subgroup for spec in specs):
        found.append("subgroups")
    faults = {site for spec in specs for site in spec.kernel.sites}
    text = f"- without variants: {', '.join(found)}"
    if faults:
        text += "\n- faults: " + "; ".join(sorted(f.partition(": ")[2] for f in faults))
    return text


def _kernel(name: str) -> Iterator[str]:
    specs = specializations(name)
    function = specs[0].family.kernel
    yield f"### {name}"
    yield ""
    yield inspect.cleandoc(function.__doc__ or "")
    yield ""
    yield f"- source: [{function.file}](../{function.file}), `configs/kernels/{name}.yaml`"
    yield from _signature(function)
    yield f"- specializations: {', '.join(map(_specialization, specs))}"
    yield f"- targets: {_targets(name)}"
    yield _limits(specs)
    yield ""


def tables() -> dict[str, str]:
    """Every list by name."""
    names = sorted(configuration().kernels)
    links = ", ".join(f"[{name}](#{name})" for name in names) + "\n"
    lines = "\n".join(line for name in names for line in _kernel(name))
    return {"index": links, "kernels": f"\n{lines}\n"}


def renewed(page: str) -> str:
    """The page with its lists as the code has them. KeyError for a list of another name."""
    found = tables()
    return BLOCK.sub(lambda block: block[1] + found[block[2]] + block[4], page)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
