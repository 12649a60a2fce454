"""The file form of a plan: canonical JSON, read strictly.

{"schema": 1, "name", "device", "targets", "storages": [[role, dtype, count, name, shape,
 base64 of zlib or null]...], "strings": [...], "load": [launch...], "entries": [{"name",
 "inputs": [[name, span, shape]...], "outputs": the same, "launches": [launch...]}...]}
launch: [kernel, specialization, what, [argument...]], the first three as numbers of strings
argument: a span as [storage, start, count, dtype], an integer, or a float as its `hex()`
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..dtypes import DTYPES, DType
from .core import Entry, Launch, Plan, Port, Role, Scalar, Span, Storage

SCHEMA = 1
MOST_LITERAL_BYTES = 1 << 30
MOST_DIMENSIONS = 64


class PlanError(ValueError):
    """A text that is no plan: where, what is expected, what stands there."""


def to_json(plan: Plan) -> str:
    """Equal plans give equal texts."""
    strings: dict[str, int] = {}
    document = {
        "schema": SCHEMA,
        "name": plan.name,
        "device": plan.device,
        "targets": list(plan.targets),
        "storages": [_of_storage(s) for s in plan.storages],
        "load": [_of_launch(x, strings) for x in plan.load],
        "entries": [
            {
                "name": e.name,
                "inputs": [_of_port(p) for p in e.inputs],
                "outputs": [_of_port(p) for p in e.outputs],
                "launches": [_of_launch(x, strings) for x in e.launches],
            }
            for e in plan.entries
        ],
        "strings": list(strings),
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _of_storage(s: Storage) -> list[Any]:
    packed = None if s.data is None else base64.b64encode(zlib.compress(s.data, 6)).decode()
    return [s.role.value, str(s.dtype), s.count, s.name, list(s.shape), packed]


def _of_span(s: Span) -> list[Any]:
    return [s.storage, s.start, s.count, str(s.dtype)]


def _of_port(p: Port) -> list[Any]:
    return [p.name, _of_span(p.span), list(p.shape)]


def _of_launch(x: Launch, strings: dict[str, int]) -> list[Any]:
    words = [strings.setdefault(w, len(strings)) for w in (x.kernel, x.specialization, x.what)]
    return [*words, [_of_argument(a) for a in x.args]]


def _of_argument(a: Span | Scalar) -> Any:
    if isinstance(a, Span):
        return _of_span(a)
    return a.hex() if isinstance(a, float) else a


def from_json(text: str | bytes, where: str = "plan") -> Plan:
    """Read a plan whose spans all lie inside their storages. Raises PlanError."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlanError(f"{where}: not JSON ({error})") from error
    if not isinstance(data, dict):
        raise PlanError(f"{where}: expected the fields of a plan, got {data!r:.60}")
    try:
        return _Reader(where, data).plan()
    except (TypeError, KeyError, IndexError, ValueError, OverflowError) as error:
        if isinstance(error, PlanError):
            raise
        raise PlanError(f"{where}: not a plan ({type(error).__name__}: {error})") from error


class _Reader:
    def __init__(self, where: str, data: dict[str, Any]) -> None:
        self.where, self.data = where, data
        if data.get("schema") != SCHEMA:
            got = repr(data.get("schema"))[:40]
            raise PlanError(f"{where}: schema {got}, but this version reads {SCHEMA}; plan again")
        known = {"schema", "name", "device", "targets", "storages", "load", "entries", "strings"}
        self.same(set(data), known, "fields")
        self.strings: list[str] = [self.kind(s, str) for s in self.listed(data["strings"])]
        self.storages: tuple[Storage, ...] = ()

    def same(self, got: Any, expected: Any, what: str) -> None:
        if got != expected:
            raise PlanError(f"{self.where}: {what} are {got!r:.200}, expected {expected!r:.200}")

    def kind(self, value: Any, kind: type) -> Any:
        if type(value) is not kind:
            raise PlanError(f"{self.where}: expected {kind.__name__}, got {value!r:.60}")
        return value

    def listed(self, value: Any) -> list[Any]:
        items: list[Any] = self.kind(value, list)
        return items

    def size(self, value: Any) -> int:
        number: int = self.kind(value, int)
        if not 0 <= number < 1 << 62:
            raise PlanError(f"{self.where}: {number!r:.60} is no size")
        return number

    def sizes(self, value: Any) -> tuple[int, ...]:
        numbers = self.listed(value)
        if len(numbers) > MOST_DIMENSIONS:
            raise PlanError(f"{self.where}: {len(numbers)} dimensions, of {MOST_DIMENSIONS}")
        return tuple(self.size(n) for n in numbers)

    def filled(self, shape: tuple[int, ...], count: int, what: str) -> None:
        if math.prod(shape) != count:
            raise PlanError(f"{self.where}: {what} has {count} elements, and shape {list(shape)}")

    def named(self, names: Sequence[str], what: str) -> None:
        for name, count in Counter(names).items():
            if count > 1:
                raise PlanError(f"{self.where}: {what} {name!r:.60} is there {count} times")

    def dtype(self, value: Any) -> DType:
        if value not in DTYPES:
            raise PlanError(f"{self.where}: {value!r:.60} is no element type")
        return DTYPES[value]

    def plan(self) -> Plan:
        data = self.data
        self.storages = tuple(self.storage(s) for s in self.listed(data["storages"]))
        return Plan(
            self.kind(data["name"], str),
            self.kind(data["device"], str),
            tuple(self.kind(t, str) for t in self.listed(data["targets"])),
            self.storages,
            self.launches(data["load"]),
            self.entries(self.listed(data["entries"])),
        )

    def entries(self, rows: list[Any]) -> tuple[Entry, ...]:
        made = tuple(self.entry(row) for row in rows)
        self.named([entry.name for entry in made], "entry")
        return made

    def storage(self, row: Any) -> Storage:
        role, dtype, count, name, shape, packed = self.listed(row)
        made = Storage(
            Role(role), self.dtype(dtype), self.size(count), self.kind(name, str), self.sizes(shape)
        )
        if (packed is None) == (made.role is Role.LITERAL):
            raise PlanError(f"{self.where}: a literal has data, and nothing else has")
        if made.role is Role.WEIGHT:
            self.filled(made.shape, made.count, f"weight {made.name!r:.60}")
        if packed is None:
            return made
        data = self.unpacked(self.kind(packed, str), made.bytes)
        return Storage(made.role, made.dtype, made.count, made.name, made.shape, data)

    def unpacked(self, packed: str, size: int) -> bytes:
        if size > MOST_LITERAL_BYTES:
            raise PlanError(f"{self.where}: a literal of {size} bytes, of {MOST_LITERAL_BYTES}")
        try:
            stream = zlib.decompressobj()
            data = stream.decompress(base64.b64decode(packed, validate=True), size + 1)
        except (zlib.error, binascii.Error) as error:
            raise PlanError(f"{self.where}: a literal cannot be read: {error}") from error
        if len(data) != size:
            raise PlanError(f"{self.where}: a literal has {len(data)} bytes, expected {size}")
        return data

    def span(self, row: Any) -> Span:
        storage, start, count, dtype = self.listed(row)
        made = Span(self.size(storage), self.size(start), self.size(count), self.dtype(dtype))
        if made.storage >= len(self.storages):
            raise PlanError(f"{self.where}: storage {made.storage} of {len(self.storages)}")
        room = self.storages[made.storage].bytes
        end = (made.start + made.count) * made.dtype.bytes
        if end > room:
            raise PlanError(f"{self.where}: a span ends at byte {end} of a storage of {room}")
        return made

    def port(self, row: Any) -> Port:
        name, span, shape = self.listed(row)
        made = Port(self.kind(name, str), self.span(span), self.sizes(shape))
        self.filled(made.shape, made.span.count, f"port {made.name!r:.60}")
        return made

    def launches(self, rows: Any) -> tuple[Launch, ...]:
        return tuple(self.launch(row) for row in self.listed(rows))

    def launch(self, row: Any) -> Launch:
        *words, args = self.listed(row)
        kernel, specialization, what = (self.strings[self.size(w)] for w in words)
        return Launch(
            kernel, specialization, tuple(self.argument(a) for a in self.listed(args)), what
        )

    def argument(self, value: Any) -> Span | Scalar:
        if isinstance(value, list):
            return self.span(value)
        if isinstance(value, str):
            return float.fromhex(value)
        number: int = self.kind(value, int)
        return number

    def entry(self, row: Any) -> Entry:
        self.same(set(row), {"name", "inputs", "outputs", "launches"}, "fields of an entry")
        ports = [tuple(self.port(p) for p in self.listed(row[k])) for k in ("inputs", "outputs")]
        for some in ports:
            self.named([port.name for port in some], "port")
        return Entry(
            self.kind(row["name"], str), ports[0], ports[1], self.launches(row["launches"])
        )
