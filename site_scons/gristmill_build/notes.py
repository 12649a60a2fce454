"""What the index of a bundle says of a variant beside its manifest, as facts of it.

    tuned: [{device, matches, sizes}...]    measured to be the best there (`runtime.tuning`)
    cost: {operations, bytes}               grid expressions of the sizes, for the cost model
    tune: {point, sizes, arguments, rotating}
                                            of a bundle that is to be measured (`gristmill tune`);
                                            an argument: a number, a grid expression of the sizes,
                                            or {"shape": [such expressions]}

Manifests of artifacts know none of it: an artifact is the same whatever was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gristmill.store.manifest import Manifest

from .document import ConfigError, nearest
from .expressions import Expression

if TYPE_CHECKING:
    from .config import KernelRow
    from .constexprs import Constexprs
    from .tuned import Winner

Notes = dict[str, Any]  # as JSON, expressions as [text, place]


def of(row: KernelRow, point: Constexprs, winner: Winner | None, tuning: bool) -> Notes:
    """What is known of a variant before it is traced."""
    found: Notes = {}
    tune = row.tune
    if winner is not None and not tuning:
        found["tuned"] = list(winner.rows)
    if tune is not None and tune.cost:
        found["cost"] = {name: _said(item) for name, item in tune.cost.items()}
    if tune is not None and tuning:
        arguments = {name: _said(item) for name, item in tune.arguments.items()}
        sizes = list(tune.sizes)
        found["tune"] = {"point": point, "sizes": sizes, "arguments": arguments}
        found["tune"] |= {"rotating": list(tune.rotating), "place": tune.place}
    return found


def noted(manifest: Manifest, notes: Notes) -> Manifest:
    """A manifest with the facts of its notes. ConfigError where they do not fit the kernel."""
    params = {p.name for p in manifest.params}
    facts: dict[str, Any] = {}
    if "tuned" in notes:
        rows = [dict(row) for row in notes["tuned"]]
        for row in rows:
            _check_names(row["sizes"], params, row.pop("place"))
        facts["tuned"] = rows
    if "cost" in notes:
        facts["cost"] = {
            name: Expression(*item).of_sizes(manifest.constexprs, params)
            for name, item in notes["cost"].items()
        }
    if "tune" in notes:
        facts["tune"] = _tune(notes["tune"], manifest.constexprs, params)
    return replace(manifest, facts={**manifest.facts, **facts})


def _tune(tune: Notes, constexprs: Mapping[str, Any], params: set[str]) -> dict[str, Any]:
    arguments, sizes, place = tune["arguments"], tune["sizes"], tune["place"]
    for one in sizes:
        _check_names(one, params, place)
        if one.keys() != sizes[0].keys():
            raise ConfigError(f"{place}: tune.sizes name different parameters")
    known = {*arguments, *(sizes[0] if sizes else ())}
    if odd := sorted(known ^ params):
        raise ConfigError(
            f"{place}: tune.sizes and tune.arguments are to name each parameter; odd or missing: "
            f"{', '.join(odd)} (the kernel has {', '.join(sorted(params))})"
        )
    _check_names(tune["rotating"], params, place)
    names = set(sizes[0] if sizes else ())

    def made(item: Any) -> Any:
        return Expression(*item).of_sizes(constexprs, names)

    shaped = {
        name: {"shape": [made(part) for part in item["shape"]]}
        if isinstance(item, dict)
        else made(item)
        if isinstance(item, list)
        else item
        for name, item in arguments.items()
    }
    return {
        "point": tune["point"],
        "sizes": sizes,
        "arguments": shaped,
        "rotating": tune["rotating"],
    }


def _check_names(names: Iterable[str], params: set[str], place: str) -> None:
    for name in names:
        if name not in params:
            raise ConfigError(
                f"{place}: the kernel has no parameter {name!r}{nearest(name, params)}"
            )


def _said(item: Any) -> Any:
    if isinstance(item, tuple):
        return {"shape": [_said(part) for part in item]}
    return [item.text, item.place] if isinstance(item, Expression) else item
