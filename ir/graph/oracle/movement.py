"""Movement, places and random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import Node
from .precision import Array, Precision
from .rows import row

_WEYL = (0x9E3779B9, 0xBB67AE85)
_FACTORS = (0xD2511F53, 0xCD9E8D57)


def _tuple(node: Node, name: str) -> tuple[int, ...]:
    value: Any = node.attr(name)
    assert isinstance(value, tuple)
    return value


@row("broadcast")
def _broadcast(node: Node, operands: list[Array], precision: Precision) -> list[Array]:
    return [np.broadcast_to(operands[0], _tuple(node, "shape"))]


@row("reshape")
def _reshape(node: Node, operands: list[Array], precision: Precision) -> list[Array]:
    return [operands[0].reshape(_tuple(node, "shape"))]


@row("transpose")
def _transpose(node: Node, operands: list[Array], precision: Precision) -> list[Array]:
    return [operands[0].transpose(_tuple(node, "axes"))]


@row("slice")
def _slice(node: Node, operands: list[Array], precision: Precision) -> list[Array]:
    bounds = zip(*(_tuple(node, name) for name in ("start", "stop", "step")), strict=True)
    return [operands[0][tuple(slice(*bound) for bound in bounds)]]


@row("concat")
def _concat(node: Node, operands: list[Array], precision: Precision) -> list[Array]:
    axis = node.attr("axis")
    assert isinstance(axis, int)
    return [np.concatenate(operands, axis)]


@row("pad")
def _pad(node: Node, operands: list[Array], precision: Precision) -> list[Array]:
    x, fill = operands
    whole = np.full(node.results[0].type.shape, fill, x.dtype)
    low = _tuple(node, "low")
    whole[tuple(slice(n, n + size) for n, size in zip(low, x.shape, strict=True))] = x
    return [whole]


@row("iota")
def _iota(node: Node, operands: list[Array], precision: Precision) -> list[Array]:
    t, axis = node.results[0].type, node.attr("axis")
    assert isinstance(axis, int)
    column = [1] * t.rank
    column[axis] = t.shape[axis]
    kind = precision.type(t.dtype).storage
    if not t.size:
        return [np.zeros(t.shape, kind)]
    places = np.arange(t.shape[axis]).reshape(column)
    return [np.broadcast_to(places, t.shape).astype(kind)]


@row("random")
def _random(node: Node, operands: list[Array], precision: Precision) -> list[Array]:
    shape = node.results[0].type.shape
    rows, columns = int(np.prod(shape[:-1], dtype=np.int64)), shape[-1]
    quads = -(-columns // 4)
    state = [int(n) for n in operands[0]]
    c = [
        np.broadcast_to(np.arange(quads, dtype=np.uint64), (rows, quads)),
        np.broadcast_to(np.arange(rows, dtype=np.uint64)[:, None], (rows, quads)),
        *(np.full((rows, quads), n, np.uint64) for n in state[2:]),
    ]
    low = np.uint64(0xFFFFFFFF)
    for turn in range(10):
        k0, k1 = (np.uint64((state[n] + turn * _WEYL[n]) & 0xFFFFFFFF) for n in (0, 1))
        a, b = c[0] * np.uint64(_FACTORS[0]), c[2] * np.uint64(_FACTORS[1])
        thirty_two = np.uint64(32)
        c = [(b >> thirty_two) ^ c[1] ^ k0, b & low, (a >> thirty_two) ^ c[3] ^ k1, a & low]
    words = np.stack(c, -1).reshape(rows, -1)[:, :columns]
    return [words.astype(np.uint32).reshape(shape)]
