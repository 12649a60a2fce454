"""`gristmill devices`: what this machine can run kernels on, and what is missing."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from .. import runtime
from .table import table


def devices(long: bool, as_json: bool) -> int:
    """List every device that a driver finds, and each driver that finds none with the reason."""
    found = runtime.find_devices()
    if as_json:
        print(json.dumps([_plain(device) for device in found], indent=2, sort_keys=True))
        return 0
    rows = [["device", "what it is"]]
    rows += [[d.spec, d.description or f"none: {d.missing}"] for d in found]
    print(table(rows))
    if long:
        for device in found:
            if not device.missing:
                print(f"\n{device.spec}")
                print(_details(device.spec))
    return 0


def _plain(device: runtime.FoundDevice) -> dict[str, Any]:
    data = {"device": device.spec, "description": device.description, "missing": device.missing}
    if device.missing:
        return data
    try:
        with runtime.open_device(device.spec) as opened:
            capabilities = dataclasses.asdict(opened.capabilities)
    except runtime.GristmillError as error:
        return {**data, "missing": str(error)}
    capabilities["features"] = sorted(capabilities["features"])
    return {**data, "capabilities": capabilities}


def _details(spec: str) -> str:
    try:
        with runtime.open_device(spec) as device:
            has, report = device.capabilities, device.memory()
    except runtime.GristmillError as error:
        return f"  cannot be opened: {error}"
    limits = ", ".join(
        f"{field.name} {getattr(has.limits, field.name)}"
        for field in dataclasses.fields(has.limits)
    )
    estimated = " (estimated)" if report.estimated else ""
    rows = [
        ["  name", has.name],
        ["  driver", has.driver],
        ["  loads", ", ".join(has.targets) or "nothing"],
        ["  memory", f"{report.budget >> 20} of {report.total >> 20} MiB free{estimated}"],
        ["  subgroups", ", ".join(map(str, has.subgroup_sizes)) or "none"],
        ["  limits", limits],
        ["  features", ", ".join(sorted(has.features)) or "none"],
    ]
    return table(rows)
