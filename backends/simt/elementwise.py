"""Elementwise ops: the code of one is made once for its types and filled in wherever it comes.

Kernels repeat few of them often, on vectors once per component: choosing the instructions costs
several times what writing them does.
"""

from __future__ import annotations

import re

from ...ir.core import Op, Value, types_of
from ...ir.dtypes import Type, element_of, lanes_of
from ..llvm.arithmetic import UnsupportedOpError
from ..llvm.parts import bitcast_parts
from ..llvm.types import Ty
from .lowering import Lowering

Key = tuple[str, tuple[Type, ...], Type, int | None]
_OPERAND = re.compile("\x01(\\d+)\x01")
_BY_CONSTANT = frozenset(("floordiv", "mod", "shl", "shr"))

# Text, names and declarations of ops, by what the emitter's code follows from and the op's key.
_MADE: dict[tuple[object, Key], tuple[str, int, dict[str, str]]] = {}
_MOST = 4096


def emit_elementwise(x: Lowering, op: Op) -> None:
    """Define the result of an op of `llvm.arithmetic.ELEMENTWISE`."""
    name, value = op.name, op.results[0]
    operands = op.operands
    types = types_of(operands)
    if name == "bitcast" and lanes_of(value.type) != lanes_of(types[0]):
        _reshape(x, op, value)
        return
    key = name, types, value.type, _known(x, op) if name in _BY_CONSTANT else None
    template = x.templates.get(key)
    if template is None:
        template = x.templates[key] = _known_template(x, op, key)
    text, names = template
    if len(operands) == 2:  # as most have
        words = [*x.parts(operands[0]), *x.parts(operands[1])]
    else:
        words = [part for v in operands for part in x.parts(v)]
    x.set(value, x.f.fill(text, names, words))


def _known(x: Lowering, op: Op) -> int | None:
    """What the code of an op depends on: a constant divisor, or 0 for a constant count of a shift
    that is less than the width."""
    known = x.constant(op.operands[1])
    if op.name in ("floordiv", "mod") or known is None:
        return known
    return 0 if 0 <= known < element_of(op.results[0].type).bits else None


def _reshape(x: Lowering, op: Op, value: Value) -> None:
    (operand,) = op.operands
    a, b = x.type_of(operand), Ty(element_of(value.type))
    x.set(value, bitcast_parts(x.f, a, b, x.parts(operand), lanes_of(value.type)))


def _known_template(x: Lowering, op: Op, key: Key) -> tuple[str, int]:
    """The code of an op, from another kernel if the code of that one follows from the same."""
    f, kept = x.f, (x.kind, key)
    made = _MADE.get(kept)
    if made is None:
        outside, f.declarations = f.declarations, {}
        try:
            made = *_template(x, op, key), f.declarations
        finally:
            f.declarations = outside
        if x.kind is not None and len(_MADE) < _MOST:
            _MADE[kept] = made
    text, names, declarations = made
    f.declarations.update(declarations)
    return text, names


def _template(x: Lowering, op: Op, key: Key) -> tuple[str, int]:
    """The code of an op, as `Function.fill` takes it."""
    name, types, result, divisor = key
    # What a select chooses has the type of the result; every other op that of its first operand.
    t = Ty(element_of(types[1 if name == "select" else 0]))
    operands: list[list[str]] = []
    for type_ in types:
        first = sum(map(len, operands))
        operands.append([f"\x01{first + n}\x01" for n in range(lanes_of(type_))])
    start = x.f.mark()
    found = []
    for n in range(lanes_of(result)):
        args = [parts[n if len(parts) > 1 else 0] for parts in operands]
        if name == "select":
            choice = f"select i1 {args[0]}, {t.text} {args[1]}, {t.text} {args[2]}"
            found.append(x.f.value(choice))
            continue
        try:
            dtypes = [element_of(type_) for type_ in types]
            found.append(x.arith.op(name, t, args, element_of(result), dtypes, divisor))
        except UnsupportedOpError as error:
            raise x.fail(op, str(error)) from error
    text, names = x.f.template(start, found)
    return _OPERAND.sub(lambda m: f"{{{names + int(m[1])}}}", text), names
