"""Arguments of a kernel for a problem of given sizes, as tuning and suites declare them.

An argument is a number, a grid expression of the sizes (`ir.abi.evaluate`), or {"shape": [such
expressions]}, and for a suite {"shape": ..., "fill": FILL}. Floats are normal, integers zeros; FILL
is `zeros`, `shuffled` (0, 1, 2, ... in random order), {"steps": N} (0, N, 2 N, ...),
{"repeat": [numbers]} (these again and again) or a number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import runtime
from ..ir.abi import evaluate
from ..ir.dtypes import DTYPES, DType
from ..kernels.family import empty, encode, normal
from ..store.manifest import Manifest, expression
from .errors import CommandError

Args = dict[str, Any]
FILLS = ("zeros", "shuffled")
COLD = 1 << 28  # bytes, of which no cache holds much
_COPIES = 64  # of arguments that rotate, at most: each is an upload
_MOST = 1 << 24  # elements that are drawn; more repeat them


def arguments(
    manifest: Manifest,
    sizes: Mapping[str, int],
    declared: Mapping[str, Any],
    rng: np.random.Generator,
    known: dict[Any, np.ndarray] | None = None,
) -> Args:
    """The arguments in the order of the parameters. CommandError where one is not declared. known:
    arrays that were made before for the same parameters and shapes are taken again."""
    found: Args = {}
    known = {} if known is None else known
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
        key = manifest.kernel, param.name, shape, str(whole.get("fill"))
        if key not in known:
            drawn = param.access != "write"
            known[key] = _filled(shape, t, whole.get("fill"), rng) if drawn else empty(shape, t)
        found[param.name] = known[key]
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


def size_of_first(manifest: Manifest) -> int:
    """Bytes of an element of the first buffer."""
    return next((DTYPES[p.dtype].bytes for p in manifest.params if p.kind != "scalar"), 0)


def uploaded(
    device: runtime.Device,
    manifest: Manifest,
    args: Args,
    placed: dict[int, runtime.Buffer] | None = None,
) -> list[Any]:
    """The arguments on a device, in order; placed: buffers by the id of their array."""
    types = {p.name: p.dtype for p in manifest.params}
    placed = {} if placed is None else placed
    found: list[Any] = []
    for name, value in args.items():
        if isinstance(value, np.ndarray):
            if id(value) not in placed:
                placed[id(value)] = device.upload(value, types[name])
            value = placed[id(value)]
        found.append(value)
    return found


def rotations(args: Args, rotating: Sequence[str]) -> int:
    """How many copies of some arguments no cache holds, 2 to 64; 1 where these have no bytes."""
    size = sum(args[name].nbytes for name in rotating)
    return min(_COPIES, max(2, math.ceil(COLD / size))) if size else 1


def rotated(
    device: runtime.Device,
    manifest: Manifest,
    args: Args,
    given: Sequence[Any],
    rotating: Sequence[str],
) -> list[list[Any]]:
    """The arguments `given`, which are `args` on the device, and the same with other copies of
    those of `rotating`. CommandError where these are no buffers."""
    types = {p.name: p.dtype for p in manifest.params if p.kind != "scalar"}
    for name in rotating:
        if name not in types:
            raise CommandError(f"{manifest.kernel}: {name} is no buffer, which could rotate")
    found = [list(given)]
    for _ in range(1, rotations(args, rotating)):
        fresh = {name: device.upload(args[name], types[name]) for name in rotating}
        found.append([fresh.get(name, v) for name, v in zip(args, given, strict=True)])
    return found


def _filled(shape: tuple[int, ...], t: DType, fill: Any, rng: np.random.Generator) -> np.ndarray:
    count = int(np.prod(shape, dtype=np.int64))
    if isinstance(fill, int | float):
        return np.full(shape, encode(np.array([fill]), t)[0])
    if isinstance(fill, Mapping) and "repeat" in fill:
        return encode(np.resize(np.array(fill["repeat"], float), count), t).reshape(shape)
    if isinstance(fill, Mapping):
        return encode(np.arange(count) * fill["steps"], t).reshape(shape)
    if fill == "shuffled":
        return encode(rng.permutation(count), t).reshape(shape)
    if fill == "zeros" or not t.is_float:
        return np.zeros(shape, t.storage)
    return np.resize(normal(rng, min(count, _MOST), t), shape)
