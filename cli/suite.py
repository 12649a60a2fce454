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
from typing import Any, NoReturn

from ..store.expressions import Expression, ExpressionError
from .errors import CommandError
from .peers import PEERS
from .problem import FILLS

FOLDER = "configs/bench"
_ROW = {"kernel", "specialization", "sizes", "arguments", "launches", "best_of", "where", "bytes"}
_ROW |= {"operations", "rotating", "against", "bound", "mean", "name"}
_LAUNCH = {"kernel", "specialization", "arguments", "when"}


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
    _keys(str(path), data, {"about", "device", "rows"})
    if not isinstance(data.get("rows"), list) or not data["rows"]:
        raise CommandError(f"{path}: a suite has a list of rows")
    rows = [r for n, row in enumerate(data["rows"]) for r in _rows(f"{path}: row {n + 1}", row)]
    return Suite(path.stem, str(data.get("device", "cpu")), tuple(rows))


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
    _keys(where, row, _ROW)
    against = _list(row.get("against", []))
    for name in against:
        if name not in PEERS:
            _fail(where, f"unknown peer {name!r} (known: {', '.join(PEERS)})")
    common = Row(
        where,
        (),
        {},
        bytes=_expression(where, row.get("bytes")),
        operations=_expression(where, row.get("operations")),
        against=tuple(against),
        bound=row.get("bound"),
        rotating=tuple(_list(row.get("rotating", []))),
        mean=row.get("mean"),
    )
    if "launches" in row:
        works = [tuple(_launch(where, launch) for launch in _list(row["launches"]))]
    else:
        one = {name: row[name] for name in ("kernel", "arguments") if name in row}
        named = _list(row.get("specialization"))
        works = [(_launch(where, {**one, "specialization": name}),) for name in named]
    for launches in works:
        for sizes in _sizes(where, row.get("sizes")):
            best = tuple(_tried(where, row, sizes))
            name = str(row.get("name") or f"{launches[0].kernel} {launches[0].specialization}")
            yield replace(common, launches=launches, sizes=sizes, best_of=best, name=name)


def _tried(
    where: str, row: Mapping[str, Any], sizes: Mapping[str, int]
) -> Iterator[dict[str, int]]:
    """The further sizes that make sense beside some."""
    rule = _expression(where, row.get("where"))
    best_of = row.get("best_of", {})
    if not isinstance(best_of, dict) or len(best_of) > 1:
        _fail(where, "best_of names one size with a list of values")
    found = [{name: v} for name, values in best_of.items() for v in _list(values)] or [{}]
    kept = [one for one in found if rule is None or computed(where, rule, {**sizes, **one})]
    if not kept:
        _fail(where, f"nothing of best_of meets {rule.text if rule else ''!r} for {dict(sizes)}")
    yield from kept


def _launch(where: str, launch: Any) -> Launch:
    _keys(where, launch, _LAUNCH)
    kernel, specialization = launch.get("kernel"), launch.get("specialization")
    if not isinstance(kernel, str) or not isinstance(specialization, str):
        _fail(where, "a launch has a kernel and a specialization")
    stated = launch.get("arguments", {})
    if not isinstance(stated, dict):
        _fail(where, "arguments are a mapping of parameters")
    arguments = {name: _argument(f"{where}, {name}", value) for name, value in stated.items()}
    return Launch(kernel, specialization, arguments, _expression(where, launch.get("when")))


def _argument(where: str, value: Any) -> Any:
    """A float; an expression; a list of these; or {of: NAME}, {shape: ..., fill: ...}."""
    if isinstance(value, float):
        return value
    if isinstance(value, list):
        return {"shape": [_expression(where, part) for part in value]}
    if not isinstance(value, dict):
        return _expression(where, value)
    if value.keys() == {"of"}:
        return value
    _keys(where, value, {"shape", "fill"})
    fill = value.get("fill")
    if isinstance(fill, dict) and "repeat" in fill:
        _keys(where, fill, {"repeat"})
        if not all(type(v) in (int, float) for v in _list(fill["repeat"])):
            _fail(where, f"repeat is a list of numbers, not {fill['repeat']!r:.60}")
    elif isinstance(fill, dict):
        _keys(where, fill, {"steps"})
        fill = {"steps": _expression(where, fill.get("steps", 1))}
    elif isinstance(fill, str) and fill not in FILLS:
        fill = _expression(where, fill)
    return {"shape": [_expression(where, p) for p in _list(value.get("shape", 1))], "fill": fill}


def _sizes(where: str, value: Any) -> list[dict[str, int]]:
    found = _list(value)
    for sizes in found:
        whole = isinstance(sizes, dict) and all(type(v) is int and v >= 0 for v in sizes.values())
        if not whole:
            _fail(where, f"sizes are names with integers of at least 0, not {sizes!r:.60}")
    return found


def computed(where: str, expression: Expression, names: Mapping[str, Any]) -> Any:
    """What an expression is worth; CommandError with its place."""
    try:
        return expression.value(names)
    except ExpressionError as error:
        return _fail(where, str(error))


def _expression(where: str, value: Any) -> Expression | None:
    try:
        return None if value is None else Expression(str(value))
    except ExpressionError as error:
        return _fail(where, str(error))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _keys(where: str, data: Any, known: set[str]) -> None:
    if not isinstance(data, dict):
        _fail(where, f"expected a mapping, got {type(data).__name__}")
    if odd := [str(key) for key in data if key not in known]:
        _fail(where, f"unknown key {odd[0]!r} (known: {', '.join(sorted(known))})")


def _fail(where: str, message: str) -> NoReturn:
    raise CommandError(f"{where}: {message}")
