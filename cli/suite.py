"""Suites of measurements: configs/bench/NAME.yaml.

about: what it is                   # for readers
device: cuda                        # where the command names none
rows:
  - kernel: saxpy                   # or launches: [{kernel, specialization, arguments, when}...]
    name: saxpy of much             # else the first launch's kernel and specialization
    specialization: f32             # or several: a row each
    sizes: {x: 268435456}           # names for expressions, parameters among them; or several
    arguments: {y: x, a: 2.0}       # all other parameters, see `problem`; {of: NAME} is that
                                    # argument of an earlier launch of the row
    best_of: {splits: [1, 2, 4]}    # further sizes, of which the fastest count
    where: splits <= 2              # those of them that make sense
    bytes: 3 * size * x             # else each buffer once, twice where it is read and written;
                                    # size: bytes of an element of the first one
    operations: 2 * x               # where these are the measure
    rotating: [x]                   # parameters of the first launch of which there are as many
                                    # copies as no cache holds; launches, and peers, take turns
    against: [copy, torch.softmax]  # what it is held against (`peers`); the fastest counts
    bound: 0.95                     # time of that over the kernel's, at least
    mean: 1.0                       # the least geometric mean of these over the row's sizes
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..store.expressions import LARGEST, Expression
from .errors import CommandError
from .peers import PEERS
from .problem import FILLS
from .suite_parts import (
    computed,
    entries,
    expression,
    fail,
    integer,
    keys,
    plain,
    positive,
    shown,
    size,
    sizes,
    text,
    texts,
)
from .suite_parts import shape as shape_of

FOLDER = "configs/bench"
_ONE = {"kernel", "specialization", "arguments"}
_ROW = _ONE | {"sizes", "launches", "best_of", "where", "bytes", "operations", "rotating"}
_ROW |= {"against", "bound", "mean", "name"}
_LAUNCH = _ONE | {"when"}
_WIDEST = 8  # bytes of an element


@dataclass(frozen=True)
class Launch:
    """A kernel with its arguments, which are of the sizes; when: whether it is launched."""

    kernel: str
    specialization: str
    arguments: Mapping[str, Any]
    when: Expression | None = None


@dataclass(frozen=True)
class Row:
    """A measurement. best_of: sizes that are tried; none in plain rows. mean: a bound for those of
    the same `where` and specialization together. name: in the table."""

    where: str
    launches: tuple[Launch, ...]
    sizes: Mapping[str, int]
    best_of: tuple[Mapping[str, int], ...] = ({},)
    bytes: Expression | None = None
    operations: Expression | None = None
    against: tuple[str, ...] = ()
    bound: float | None = None
    rotating: tuple[str, ...] = ()
    mean: float | None = None
    name: str = ""


@dataclass(frozen=True)
class Suite:
    """A suite: the device that it is for, and its rows."""

    name: str
    device: str
    rows: tuple[Row, ...] = field(default=())


def load(name: str) -> Suite:
    """A suite by its name, or by a path to its file. CommandError on what it does not hold."""
    path = _file(name)
    try:
        import yaml
    except ImportError as error:
        raise CommandError("suites need PyYAML: pip install pyyaml") from error
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CommandError(f"{path}: not YAML: {error}") from error
    keys(str(path), data, {"about", "device", "rows"})
    if not isinstance(data.get("rows"), list) or not data["rows"]:
        fail(str(path), f"a suite has a list of rows, got {shown(data.get('rows'))}")
    device = text(f"{path}: device", data.get("device", "cpu"))
    rows = [r for n, row in enumerate(data["rows"]) for r in _rows(f"{path}: row {n + 1}", row)]
    for row in rows:
        _computable(row)
    return Suite(path.stem, device, tuple(rows))


def _file(name: str) -> Path:
    """The file of a suite: of this folder's project, else of the checkout that this is part of."""
    if name.endswith(".yaml"):
        return Path(name)
    folders = [Path(FOLDER), Path(__file__).resolve().parents[1] / FOLDER]
    for folder in folders:
        if (folder / f"{name}.yaml").is_file():
            return folder / f"{name}.yaml"
    have = sorted({path.stem for folder in folders for path in folder.glob("*.yaml")})
    raise CommandError(f"no suite {name!r} (there are {', '.join(have) or 'none'})")


def _rows(where: str, row: Any) -> Iterator[Row]:
    """The rows that one of the file stands for: one for each specialization and sizes."""
    keys(where, row, _ROW)

    def stated(key: str, read: Any, absent: Any = None) -> Any:
        return read(f"{where}: {key}", row[key]) if key in row else absent

    common = Row(
        where,
        (),
        {},
        bytes=stated("bytes", expression),
        operations=stated("operations", expression),
        against=stated("against", texts, ()),
        bound=stated("bound", positive),
        rotating=stated("rotating", texts, ()),
        mean=stated("mean", positive),
        name=stated("name", text, ""),
    )
    for name in common.against:
        if name not in PEERS:
            fail(where, f"unknown peer {name!r} (known: {', '.join(PEERS)})")
    rule = stated("where", expression)
    for launches in _works(where, row):
        name = common.name or f"{launches[0].kernel} {launches[0].specialization}"
        for one in sizes(where, row.get("sizes")):
            best = tuple(_tried(where, row, rule, one))
            yield replace(common, launches=launches, sizes=one, best_of=best, name=name)


def _works(where: str, row: Mapping[str, Any]) -> Iterator[tuple[Launch, ...]]:
    """The launches of a row; of a row of one kernel, for each specialization."""
    if "launches" in row:
        found = entries(f"{where}: launches", row["launches"])
        if beside := sorted(_ONE & row.keys()):
            fail(where, f"{beside[0]} beside launches; it belongs into one of them")
        yield tuple(_launch(where, launch) for launch in found)
        return
    one = {name: row[name] for name in _ONE & row.keys()}
    if "specialization" not in one:
        fail(where, "a row has launches, or a kernel and its specialization; got neither")
    for name in entries(f"{where}: specialization", one["specialization"]):
        yield (_launch(where, {**one, "specialization": name}),)


def _tried(
    where: str, row: Mapping[str, Any], rule: Expression | None, beside: Mapping[str, int]
) -> Iterator[dict[str, int]]:
    """The further sizes that make sense beside some."""
    found: list[dict[str, int]] = [{}]
    if "best_of" in row:
        best_of = row["best_of"]
        if not isinstance(best_of, dict) or len(best_of) != 1:
            fail(where, f"best_of names one size with a list of values, got {shown(best_of)}")
        ((name, values),) = best_of.items()
        text(f"{where}: best_of", name)
        found = [{name: value} for value in entries(f"{where}: best_of", values)]
        for one in found:
            if not size(one[name]):
                expected = f"expected an integer of 0 to {LARGEST}"
                fail(f"{where}: best_of", f"{expected}, got {shown(one)}")
    kept = [one for one in found if rule is None or computed(where, rule, {**beside, **one})]
    if not kept:
        fail(where, f"nothing of best_of meets {rule.text if rule else ''!r} for {dict(beside)}")
    yield from kept


def _launch(where: str, launch: Any) -> Launch:
    if isinstance(launch, dict) and not {"kernel", "specialization"} <= launch.keys():
        fail(where, f"a launch has a kernel and a specialization, got {shown(launch)}")
    keys(where, launch, _LAUNCH)
    kernel = text(f"{where}: kernel", launch["kernel"])
    specialization = text(f"{where}: specialization", launch["specialization"])
    given = launch.get("arguments", {})
    if not isinstance(given, dict):
        fail(where, f"arguments are a mapping of parameters, got {shown(given)}")
    if odd := [name for name in given if not isinstance(name, str)]:
        fail(f"{where}: arguments", f"expected names as keys, got {shown(odd[0])}")
    arguments = {name: _argument(f"{where}, {name}", value) for name, value in given.items()}
    when = expression(f"{where}: when", launch["when"]) if "when" in launch else None
    return Launch(kernel, specialization, arguments, when)


def _argument(where: str, value: Any) -> Any:
    """A float; an expression; a list of these; or {of: NAME}, {shape: ..., fill: ...}."""
    if isinstance(value, float):
        return value
    if isinstance(value, list):
        return {"shape": _shape(where, value)}
    if not isinstance(value, dict):
        return expression(where, value)
    if value.keys() == {"of"}:
        return {"of": text(f"{where}: of", value["of"])}
    keys(where, value, {"shape", "fill"})
    return {"shape": _shape(where, value.get("shape", 1)), "fill": _fill(where, value.get("fill"))}


def _shape(where: str, value: Any) -> list[Expression]:
    place = f"{where}: shape"
    return [expression(place, part) for part in entries(place, value)]


def _fill(where: str, fill: Any) -> Any:
    """As `problem` has it, with expressions for integers."""
    match fill:
        case dict() if fill.keys() == {"repeat"}:
            numbers = entries(f"{where}: repeat", fill["repeat"])
            if not all(map(plain, numbers)):
                fail(f"{where}: repeat", f"expected numbers, got {shown(numbers)}")
            return {"repeat": numbers}
        case dict() if fill.keys() == {"steps"}:
            return {"steps": expression(f"{where}: steps", fill["steps"])}
        case str() if fill not in FILLS:
            return expression(f"{where}: fill", fill)
        case None | str():
            return fill
    if not plain(fill):
        known = f"{', '.join(FILLS)}, {{repeat: numbers}}, {{steps: N}}, a number or an expression"
        fail(f"{where}: fill", f"expected {known}, got {shown(fill)}")
    return fill


def stated(where: str, value: Any, names: Mapping[str, int]) -> Any:
    """An argument of a launch, as `problem` takes it, for some sizes."""
    if isinstance(value, Expression):
        return integer(where, value, names)
    if not isinstance(value, dict) or "shape" not in value:
        return value
    fill = value.get("fill")
    if isinstance(fill, Expression):
        fill = integer(where, fill, names)
    if isinstance(fill, dict) and "steps" in fill:
        fill = {"steps": integer(where, fill["steps"], names)}
    return {"shape": shape_of(where, value["shape"], names), "fill": fill}


def _computable(row: Row) -> None:
    """CommandError where something of a row cannot be computed for one of its sizes."""
    for further in row.best_of:
        names = {**row.sizes, **further}
        launched = [x for x in row.launches if x.when is None or computed(row.where, x.when, names)]
        if not launched:
            fail(row.where, f"no launch takes place for {names}; `when` leaves all out")
        for launch in launched:
            for name, value in launch.arguments.items():
                stated(f"{row.where}, {name}", value, names)
        if row.bytes:
            integer(f"{row.where}: bytes", row.bytes, {**names, "size": _WIDEST}, 0)
        if row.operations:
            integer(f"{row.where}: operations", row.operations, names, 0)
