"""The manifest: what an artifact is, next to its bytes.

A manifest is derived from the kernel IR text and the compiler alone, so equal inputs give equal
manifests. Its JSON form is canonical (sorted keys, no spaces), and reading is strict: an unknown
schema, a missing or unknown field or a wrong type is a `ManifestError`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from .message import LONG_PATH, short
from .schema import SCHEMA, ManifestError

KINDS = ("buffer", "slot", "scalar")
ACCESSES = ("read", "write", "readwrite")
OPERATIONS = ("add", "sub", "mul", "floordiv", "ceil_div", "min", "max")  # of grid expressions
DEPTH = 200  # the most that expressions, constexprs and facts are nested


@dataclass(frozen=True, slots=True)
class ParamInfo:
    """One kernel parameter: kind buffer, slot or scalar; dtype, access as in kernel IR."""

    name: str
    kind: str
    dtype: str
    access: str = "read"
    may_alias: bool = False


@dataclass(frozen=True, slots=True)
class Manifest:
    """One artifact.

    target: the full target id. entry: the symbol or entry point. requires: features
    (`ir.targets.FEATURES`) that a device must have. shared_bytes: workgroup memory.
    scratch_bytes: what a CPU worker passes as scratch. sites: messages of the fault sites, in
    order. grid: see `ir.abi.evaluate`; None where a launch must state it. key: the action key
    that made the artifact. sha256, size: of the artifact's bytes. facts: what a target adds
    (registers, spills, least driver; loop_turns, open_loops: see `ir.turns`).
    """

    kernel: str
    specialization: str
    target: str
    entry: str
    params: tuple[ParamInfo, ...]
    workgroup: tuple[int, int, int]
    index: str
    key: str
    sha256: str
    size: int
    subgroup: int | None = None
    shared_bytes: int = 0
    scratch_bytes: int = 0
    requires: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    grid: tuple[Any, Any, Any] | None = None
    constexprs: dict[str, Any] = field(default_factory=dict)
    checks: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    schema: int = SCHEMA

    def to_json(self) -> str:
        """The canonical text form."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str | bytes, where: str = "manifest") -> Manifest:
        """Read a manifest. ManifestError says what is wrong and `where` it stood."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ManifestError(f"{short(where, LONG_PATH)}: not JSON ({error})") from error
        return Manifest.from_dict(data, where)

    @staticmethod
    def from_dict(data: Any, where: str = "manifest") -> Manifest:
        """A manifest from decoded JSON; strict as `from_json`."""
        where = short(where, LONG_PATH)  # an index may name a file by any number of characters
        if not isinstance(data, dict):
            raise ManifestError(f"{where}: expected an object, got {type(data).__name__}")
        if data.get("schema") != SCHEMA:
            raise ManifestError(
                f"{where}: schema {data.get('schema')!r:.60}, but this version reads {SCHEMA}; "
                "rebuild the artifacts or install the matching gristmill"
            )
        names = {f.name for f in fields(Manifest)}
        if data.keys() != names:
            odd = sorted(data.keys() ^ names)
            raise ManifestError(f"{where}: missing or unknown fields: {', '.join(odd):.200}")
        data = dict(data)
        data["params"] = tuple(_param(p, where) for p in _typed(data, "params", list, where))
        for name, kind in (("workgroup", int), ("requires", str), ("sites", str)):
            data[name] = tuple(_typed(data, name, list, where))
            if not all(type(item) is kind for item in data[name]):
                raise ManifestError(f"{where}: field {name} must hold {kind.__name__} only")
        if data["grid"] is not None:
            data["grid"] = _expression("grid", _typed(data, "grid", list, where), where)
        for name in ("kernel", "specialization", "target", "entry", "index", "key", "sha256"):
            if not _typed(data, name, str, where).isprintable():
                raise _odd(where, name, "a symbol" if name == "entry" else "a word", data[name])
        for name in ("size", "shared_bytes", "scratch_bytes"):
            _typed(data, name, int, where)
        for name in ("constexprs", "facts"):
            _check_depth(name, _typed(data, name, dict, where), where)
        _typed(data, "checks", bool, where)
        if len(data["workgroup"]) != 3 or min(data["workgroup"]) < 1:
            raise ManifestError(f"{where}: workgroup must be three positive integers")
        if data["subgroup"] is not None:
            _typed(data, "subgroup", int, where)
        if data["index"] not in ("i32", "i64"):
            raise ManifestError(f"{where}: index must be i32 or i64, got {data['index']!r:.60}")
        if not data["entry"].isprintable() or not data["entry"]:
            raise _odd(where, "entry", "a symbol", data["entry"])
        for name in ("size", "shared_bytes", "scratch_bytes"):
            if data[name] < 0:
                raise _odd(where, name, "an integer of at least 0", data[name])
        if data["grid"] is not None and len(data["grid"]) != 3:
            raise ManifestError(f"{where}: grid must be null or three expressions")
        for value in data["grid"] or ():
            _check_expression("grid", value, data["params"], where)
        if (turns := data["facts"].get("loop_turns")) is not None:
            turns = _expression("loop_turns", turns, where)
            _check_expression("loop_turns", turns, data["params"], where, of_grid=True)
        dynamic, most = data["facts"].get("dynamic_shared_bytes", 0), data["shared_bytes"]
        if type(dynamic) is not int or not 0 <= dynamic <= most:
            wanted = f"an integer of 0 to {most}, the shared_bytes"
            raise _odd(where, "dynamic_shared_bytes", wanted, dynamic)
        return Manifest(**data)


def _typed(data: dict[str, Any], name: str, kind: type, where: str) -> Any:
    if not isinstance(data[name], kind) or (kind is int and isinstance(data[name], bool)):
        got = type(data[name]).__name__
        raise ManifestError(f"{where}: field {name} must be {kind.__name__}, got {got}")
    return data[name]


def _odd(where: str, name: str, expected: str, got: Any) -> ManifestError:
    return ManifestError(f"{where}: field {name}; expected {expected}, got {got!r:.60}")


def _expression(name: str, data: Any, where: str) -> Any:
    try:
        return expression(data)
    except RecursionError as error:
        raise ManifestError(f"{where}: field {name} is nested too deep") from error


def _check_depth(name: str, data: Any, where: str) -> None:
    """What is written out again or compared must not be nested deeper than that can be done."""
    left = [(data, 0)]
    while left:
        part, depth = left.pop()
        if depth > DEPTH:
            raise ManifestError(f"{where}: field {name} is nested deeper than {DEPTH}")
        if isinstance(part, dict | list):
            parts = part.values() if isinstance(part, dict) else part
            left += [(inner, depth + 1) for inner in parts]


def _check_expression(
    name: str, value: Any, params: tuple[ParamInfo, ...], where: str, of_grid: bool = False
) -> None:
    """ManifestError unless the value is a grid expression over these parameters; of_grid: it may
    hold the grid itself."""
    known = {("scalar" if p.kind == "scalar" else "count", p.name) for p in params}
    left = [(value, 0)]
    while left:
        part, depth = left.pop()
        if type(part) is int:
            continue
        whole = isinstance(part, tuple) and depth < DEPTH
        if whole and len(part) == 3 and part[0] in OPERATIONS:
            left += [(operand, depth + 1) for operand in part[1:]]
        elif of_grid and part in (("grid", 0), ("grid", 1), ("grid", 2)):
            continue
        elif not (whole and all(type(p) is str for p in part) and part in known):
            wanted = "an integer, a count or scalar of the parameters, or an operation on two"
            raise _odd(where, name, wanted, part)


def _param(data: Any, where: str) -> ParamInfo:
    names = {f.name for f in fields(ParamInfo)}
    if not isinstance(data, dict) or data.keys() != names:
        raise ManifestError(f"{where}: a parameter has the fields {', '.join(sorted(names))}")
    for name in ("name", "dtype"):
        _typed(data, name, str, where)
    _typed(data, "may_alias", bool, where)
    for name, known in (("kind", KINDS), ("access", ACCESSES)):
        if not isinstance(data[name], str) or data[name] not in known:
            words = ", ".join(known)
            got = f"{data[name]!r:.60}"
            raise ManifestError(f"{where}: {name} of a parameter is {got}, not of {words}")
    return ParamInfo(**data)


def expression(value: Any) -> Any:
    """An expression of `ir.abi.evaluate` as it was before JSON made lists of its tuples."""
    return tuple(expression(v) for v in value) if isinstance(value, list | tuple) else value
