"""What was measured: configs/tuning/*.yaml, as `gristmill tune` writes them.

    device: cpu                  # how the device is opened
    name: AMD EPYC               # what it calls itself
    matches: ["AMD EPYC*"]       # names of the devices that this holds for (else the name alone)
    kernels:
      - kernel: gemv
        specialization: f32
        target: cpu-x86-64-v4
        date: 2026-11-30
        driver: ...
        command: gristmill tune gemv --device cpu
        shapes:
          - sizes: {y: 4096, cols: 4096}
            winner: {BLOCK: 16, SUBGROUP: 16}   # a point of the space, or a declared variant
            measured:
              - {constexprs: {BLOCK: 16, SUBGROUP: 16}, ms: 1.25, spread: 0.02}

A build takes in the winners of its targets; all else is what they were chosen by.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .constexprs import Constexprs, constexprs
from .document import Node, read
from .spaces import sizes_of, unknown_value

if TYPE_CHECKING:
    from .config import KernelRow, TargetRow

FOLDER = "configs/tuning"
# How a device is opened -> the backends whose artifacts it loads.
DEVICES = {
    **{"cpu": ("cpu",), "interp": ("interp",), "vulkan": ("spirv",), "wgpu": ("wgsl",)},
    **{"cuda": ("ptx", "cubin"), "hsa": ("hsaco",)},
}
Row = dict[str, Any]  # as the index has it: device, matches, sizes; and place, of the entry here
_KERNEL = ("kernel", "specialization", "target", "shapes")
_TOLD = ("date", "driver", "command", "checked", "excluded")  # for readers


@dataclass(frozen=True)
class Winner:
    """A variant that won somewhere: its constexprs, and the devices and sizes."""

    constexprs: Constexprs
    rows: tuple[Row, ...]


Winners = dict[tuple[str, str], tuple[Winner, ...]]  # by specialization and target


def load(
    root: Path,
    kernels: Mapping[str, KernelRow],
    targets: Mapping[str, TargetRow],
    faults: Mapping[str, str],
) -> dict[str, KernelRow]:
    """The kernels with what was measured for them. ConfigError on what does not fit them; what is
    measured for a kernel of `faults` is left out."""
    found: dict[str, Winners] = {}
    for path in sorted((root / FOLDER).glob("*.yaml")):
        document = read(path, path.relative_to(root).as_posix())
        keys = document.mapping(["device", "name", "matches", "kernels"], ["device", "name"])
        row = _device(keys)
        for node in keys["kernels"].sequence() if "kernels" in keys else ():
            _kernel(node, row, kernels, targets, faults, found)
    return {
        name: replace(row, winners=found[name]) if name in found else row
        for name, row in kernels.items()
    }


def _device(keys: dict[str, Node]) -> Row:
    device, name = keys["device"].choice(DEVICES), keys["name"].text()
    if "matches" not in keys:
        return {"device": device, "matches": [_literal(name)]}
    matches = keys["matches"].sequence()
    patterns = [item.text() for item in matches]
    if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
        keys["matches"].fail(f"none of these patterns matches {name!r}, which was measured")
    return {"device": device, "matches": patterns}


def _literal(name: str) -> str:
    """The pattern of one name."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def _kernel(
    node: Node,
    row: Row,
    kernels: Mapping[str, KernelRow],
    targets: Mapping[str, TargetRow],
    faults: Mapping[str, str],
    found: dict[str, Winners],
) -> None:
    keys = node.mapping([*_KERNEL, *_TOLD], _KERNEL)
    name = keys["kernel"].text()
    if name in faults:
        return
    kernel = kernels[keys["kernel"].choice(kernels)]
    specialization = keys["specialization"].choice(kernel.specializations)
    target = targets[keys["target"].choice(targets)]
    if target.backend not in DEVICES[row["device"]]:
        loads = " and ".join(DEVICES[row["device"]])
        keys["target"].fail(f"{row['device']} devices load {loads}, not {target.name}")
    known = [
        *kernel.variants_for(specialization, target)[1],
        *kernel.points(specialization, target),
    ]
    winners = found.setdefault(kernel.kernel, {})
    place = specialization, target.name
    for shape in keys["shapes"].sequence():
        winner, sizes = _shape(shape, known)
        won = {**row, "sizes": sizes, "place": shape.place}
        winners[place] = _with(winners.get(place, ()), winner, won)


def _shape(node: Node, known: list[Constexprs]) -> tuple[Constexprs, dict[str, int]]:
    keys = node.mapping(["sizes", "winner", "measured"], ["sizes", "winner"])
    entries = keys["winner"].mapping()
    winner = constexprs(keys["winner"], entries)
    if winner not in known:
        odd = unknown_value(winner, known)
        name = next((n for n in entries if repr(n) in odd or odd.startswith(f"{n}:")), "")
        entries.get(name, keys["winner"]).fail(f"{odd}; tune again, or remove the entry")
    return winner, sizes_of(keys["sizes"])


def _with(winners: tuple[Winner, ...], winner: Constexprs, row: Row) -> tuple[Winner, ...]:
    for n, known in enumerate(winners):
        if known.constexprs == winner:
            return (*winners[:n], replace(known, rows=(*known.rows, row)), *winners[n + 1 :])
    return (*winners, Winner(winner, (row,)))
