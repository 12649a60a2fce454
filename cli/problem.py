"""Arguments of a kernel for a problem of given sizes, as tuning and suites declare them.

An argument is a number, a grid expression of the sizes (`ir.abi.evaluate`), or {"shape": [such
expressions]}, and for a suite {"shape": ..., "fill": FILL}. Floats are normal, integers zeros; FILL
is `zeros`, `steps` (0, 1, 2, ...), `shuffled` (those in random order) or a number, all over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import runtime
from ..ir.abi import evaluate
from ..ir.dtypes import DTYPES, DType
from ..kernels.family import empty, encode, normal
from ..store.manifest import Manifest, expression
from .errors import CommandError

Args = dict[str, Any]
FILLS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "zeros": lambda rng, count: np.zeros(count),
    "steps": lambda rng, count: np.arange(count),
    "shuffled": lambda rng, count: rng.permutation(count),
}
_MOST = 1 << 24  # elements that are drawn; more repeat them


def arguments(
    manifest: Manifest,
    sizes: Mapping[str, int],
    declared: Mapping[str, Any],
    rng: np.random.Generator,
) -> Args:
    """The arguments in the order of the parameters. CommandError where one is not declared."""
    found: Args = {}
    for param in manifest.params:
        stated = declared.get(param.name, sizes.get(param.name))
        where = f"{manifest.kernel}: argument {param.name}"
        if stated is None:
            raise CommandError(f"{where} is not given by sizes nor arguments")
        if param.kind == "scalar":
            found[param.name] = (
                stated if isinstance(stated, float) else number(stated, sizes, where)
            )
            continue
        whole = stated if isinstance(stated, dict) else {"shape": [stated]}
        shape = tuple(number(part, sizes, where) for part in whole["shape"])
        t = DTYPES[param.dtype]
        drawn = param.access != "write"
        found[param.name] = _filled(shape, t, whole.get("fill"), rng) if drawn else empty(shape, t)
    return found


def number(value: Any, sizes: Mapping[str, int], where: str) -> int:
    """An integer, or what an expression of the sizes is worth."""
    try:
        return evaluate(expression(value), sizes, sizes)
    except (ValueError, TypeError, LookupError, ZeroDivisionError) as error:
        raise CommandError(f"{where} cannot be computed of {dict(sizes)}: {error}") from error


def moved(manifest: Manifest, args: Args) -> int:
    """Bytes that a launch reads and writes if it does so once with all of each buffer."""
    return sum(
        args[p.name].nbytes * (2 if p.access == "readwrite" else 1)
        for p in manifest.params
        if p.kind != "scalar"
    )


def uploaded(device: runtime.Device, manifest: Manifest, args: Args) -> list[Any]:
    """The arguments on a device, in order."""
    types = {p.name: p.dtype for p in manifest.params}
    return [
        device.upload(v, types[name]) if isinstance(v, np.ndarray) else v
        for name, v in args.items()
    ]


def _filled(shape: tuple[int, ...], t: DType, fill: Any, rng: np.random.Generator) -> np.ndarray:
    count = int(np.prod(shape, dtype=np.int64))
    if isinstance(fill, int | float):
        return np.full(shape, encode(np.array([fill]), t)[0])
    if fill is not None:
        return encode(FILLS[fill](rng, count), t).reshape(shape)
    if not t.is_float:
        return np.zeros(shape, t.storage)
    return np.resize(normal(rng, min(count, _MOST), t), shape)
