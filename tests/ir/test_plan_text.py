"""A text of a plan is a plan, or a PlanError: nothing else, whatever it holds."""

from __future__ import annotations

import base64
import copy
import json
import zlib
from typing import Any

import numpy as np
import pytest

from gristmill.ir.dtypes import f32, i32, u8
from gristmill.ir.plan import Entry, Launch, Plan, Port, Role, Span, Storage
from gristmill.ir.plan.text import PlanError, from_json, to_json

PLAN = Plan(
    "sample",
    "cpu",
    ("cpu-x86-64-v3",),
    (
        Storage(Role.INPUT, f32, 4),
        Storage(Role.WEIGHT, f32, 6, "w", (2, 3)),
        Storage(Role.LITERAL, i32, 2, data=bytes(range(8))),
        Storage(Role.STATE, f32, 4, "s"),
        Storage(Role.SCRATCH, u8, 256),
        Storage(Role.OUTPUT, f32, 4),
    ),
    (Launch("cast", "f32_f16", (Span(1, 0, 6, f32), Span(4, 8, 6, u8)), "load"),),
    (
        Entry(
            "step",
            (Port("x", Span(0, 0, 4, f32), (2, 2)),),
            (Port("y", Span(5, 0, 4, f32), (4,)),),
            (Launch("binary", "add_f32", (Span(0, 0, 4, f32), -1, 0.5, float("inf")), "y"),),
        ),
    ),
)
HOSTILE: tuple[Any, ...] = (
    None, True, -1, 0, 1 << 70, 0.5, 1e308, float("nan"), "", "f32", "nan", "0x1p+9999", "weight",
    [], [[]], {}, {"schema": 1}, [1, 2, 3], ["weight", "f32", 4, "", [], None], "é" * 50, [0] * 5,
)  # fmt: skip


def document() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(to_json(PLAN))
    return made


def refused(data: Any) -> str:
    with pytest.raises(PlanError) as caught:
        from_json(json.dumps(data), "plan.json")
    assert str(caught.value).startswith("plan.json: ")
    assert len(str(caught.value)) < 1000
    return str(caught.value)


def test_a_plan_changes_on_its_way_through_text() -> None:
    assert from_json(to_json(PLAN)) == PLAN
    assert to_json(from_json(to_json(PLAN))) == to_json(PLAN)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to each part."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    found = [path] if path else []
    if isinstance(data, dict | list):
        for key, value in items:
            found += (
                places(value, (*path, key)) if isinstance(value, dict | list) else [(*path, key)]
            )
    return found


def test_a_part_that_is_replaced_raises_something_else() -> None:
    for path in places(document()):
        for value in HOSTILE:
            data = document()
            part = data
            for key in path[:-1]:
                part = part[key]
            part[path[-1]] = copy.deepcopy(value)
            _read(json.dumps(data))


def test_a_part_that_is_missing_raises_something_else() -> None:
    for path in places(document()):
        data = document()
        part = data
        for key in path[:-1]:
            part = part[key]
        del part[path[-1]]
        _read(json.dumps(data))


def test_bytes_that_are_changed_raise_something_else(rng: np.random.Generator) -> None:
    text = to_json(PLAN).encode()
    for _ in range(3000):
        data = bytearray(text)
        for _ in range(rng.integers(1, 4)):
            at, what = int(rng.integers(len(data))), int(rng.integers(3))
            if what == 0:
                data[at] = int(rng.integers(256))
            elif what == 1:
                del data[at : at + int(rng.integers(1, 9))]
            else:
                data[at:at] = rng.choice([b"[", b"-", b"9" * 30, b"null", b'"', b"{}"])
        _read(bytes(data))


def _read(text: str | bytes) -> None:
    """A plan that is one, or a PlanError."""
    try:
        made = from_json(text)
    except PlanError:
        return
    assert to_json(from_json(to_json(made))) == to_json(made)  # a NaN is not equal to itself
    spans = [s for e in made.entries for x in e.launches for s in x.spans()]
    for span in spans:
        storage = made.storages[span.storage]
        assert span.start >= 0
        assert (span.start + span.count) * span.dtype.bytes <= storage.bytes


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        ("[" * 100000, "not JSON"),
        ("null", "expected the fields"),
        ("[]", "expected the fields"),
        ('{"schema": 2}', "schema 2"),
        ("9" * 5000, "not JSON|not a plan"),
    ],
)
def test_a_text_that_is_no_plan_is_read(text: str | bytes, what: str) -> None:
    with pytest.raises(PlanError, match=what):
        from_json(text)


def test_a_literal_that_unpacks_to_more_than_it_says_is_unpacked() -> None:
    data = document()
    bomb = base64.b64encode(zlib.compress(bytes(1 << 24), 9)).decode()
    data["storages"][2][5] = bomb
    assert "expected 8" in refused(data)
    data["storages"][2][2] = 1 << 40
    assert "a literal of" in refused(data)
    data["storages"][2][5] = "no base64"
    data["storages"][2][2] = 2
    assert "cannot be read" in refused(data)


def test_roles_spans_and_counts_that_cannot_be_are_read() -> None:
    for index, value, what in (
        (0, "literal", "a literal has data"),
        (0, "queen", "queen"),
        (1, "f33", "no element type"),
        (2, -1, "no size"),
        (4, [-3], "no size"),
    ):
        data = document()
        data["storages"][0][index] = value
        assert what in refused(data)
    for span in ([9, 0, 1, "f32"], [0, 1, 4, "f32"], [0, 0, 1 << 61, "f64"], [0, -1, 1, "f32"]):
        data = document()
        data["entries"][0]["launches"][0][3][0] = span
        refused(data)


def test_a_port_whose_shape_is_not_its_span_is_read() -> None:
    data = document()
    data["entries"][0]["inputs"][0][2] = [5]
    assert "port 'x'" in refused(data)


def test_entries_or_ports_of_one_name_are_read() -> None:
    data = document()
    data["entries"] *= 2
    assert "'step'" in refused(data)
    data = document()
    data["entries"][0]["inputs"] *= 2
    assert "'x'" in refused(data)
