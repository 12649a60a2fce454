"""What can be said on the command line, as NAME=VALUE words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from gristmill.backends.hsaco.processors import parse_target
from gristmill.backends.limits import DEADLINE
from gristmill.backends.llvm.machine import ROUTES
from gristmill.store.opening import MODES as CACHE_MODES
from gristmill.store.pack.codecs import CODECS

from .config import Config, KernelRow, TargetRow, meant
from .document import nearest

TUNING = "artifacts/tuning"  # where tune= builds: beside the bundle that ships
CODEGENS = ("direct", "llc")  # what makes SPIR-V
_DAY = 86_400  # seconds
_SWITCH = {"on": True, "1": True, "off": False, "0": False}


class UsageError(Exception):
    """A command line that asks for what does not exist: what, and the nearest right thing."""


@dataclass(frozen=True)
class Option:
    """An option's allowed form and what it does."""

    values: str
    about: str
    default: str = ""


OPTIONS: dict[str, Option] = {
    "target": Option(
        "TARGET,... | BACKEND,... | all", "targets to build for (else the default ones)"
    ),
    "arch": Option("ARCH,...", "architectures within the targets, also those built on request"),
    "kernel": Option("KERNEL,...", "kernels to build (else all)"),
    "tune": Option(
        "KERNEL,...", "all points of what these kernels declare to be tuned (docs/TUNING.md)"
    ),
    "model": Option("MODEL,...", "models of configs/models to plan for the targets"),
    "checks": Option("on | off", "check every access against its bounds", "off"),
    "toolchain": Option("llvmlite | llc | clang", "how LLVM is reached (else as configured)"),
    "spirv_codegen": Option(
        "direct | llc", "how SPIR-V is made; by LLVM's llc as a second opinion", "direct"
    ),
    "deadline": Option("SECONDS", "how long one kernel may compile", f"{DEADLINE:g}"),
    "codec": Option("deflate | zstd | none", "how `scons pack` compresses", "deflate"),
    "out": Option("FOLDER", "where artifacts go", "artifacts"),
    "cache": Option(
        "FOLDER | URL", "a cache that builds share: s3, gs, az, file, grpc (else $GRISTMILL_CACHE)"
    ),
    "cache_mode": Option(
        " | ".join(CACHE_MODES), "what is done with it (else $GRISTMILL_CACHE_MODE, or readwrite)"
    ),
    "farm": Option("tcp://HOST:PORT", "a Dask cluster that compiles (docs/FARM.md)"),
    "verbose": Option("1 | 0", "show tracebacks and carets for failures", "0"),
    "words": Option("WORD,...", "what `scons demo` looks up", "king,paris,piano,seven"),
    "device": Option("DEVICE", "where `scons demo` runs (else the best device)", ""),
    "tests": Option("ARGUMENTS", "what `scons test` hands to pytest (else tests/)", ""),
}


@dataclass(frozen=True)
class Choice:
    """A command line, understood. faults: what is wrong with the kernels of it that cannot be
    built, by name."""

    targets: tuple[TargetRow, ...]
    kernels: tuple[KernelRow, ...]
    faults: dict[str, str]
    everything: bool  # neither targets nor kernels are named
    models: tuple[str, ...]  # to plan
    tune: bool  # not the variants to ship, but all that can be measured
    checks: bool
    llvm: str
    spirv_codegen: str
    deadline: float
    codec: str
    out: str
    cache: str
    cache_mode: str
    farm: str
    verbose: bool
    words: str
    device: str
    tests: str


def choose(arguments: Mapping[str, str], config: Config) -> Choice:
    """What the NAME=VALUE words of a command line ask for. UsageError names what is wrong."""
    for name in arguments:
        if name not in OPTIONS:
            raise UsageError(f"unknown option {name!r}{nearest(name, OPTIONS)}")
    for name in ("target", "arch", "kernel", "tune", "model", "out"):
        if name in arguments and not _words(arguments[name]):
            raise UsageError(f"{name}= names nothing; leave it out, or give {OPTIONS[name].values}")
    said = {name: arguments.get(name, option.default) for name, option in OPTIONS.items()}
    targets = _targets(said["target"], said["arch"], config.targets)
    if said["kernel"] and said["tune"]:
        raise UsageError(f"tune={said['tune']} names the kernels; leave kernel= out")
    names = _kernels(said["kernel"] or said["tune"], config)
    kernels = tuple(config.kernels[name] for name in names if name in config.kernels)
    _matched(kernels, targets, bool(said["kernel"]))
    if said["tune"]:
        _tunable(kernels, targets)
    return Choice(
        targets,
        kernels,
        {name: config.faults[name] for name in names if name in config.faults},
        not (said["target"] or said["arch"] or said["kernel"] or said["tune"]),
        tuple(_words(said["model"])),
        bool(said["tune"]),
        _switch("checks", said["checks"]),
        _word("toolchain", said["toolchain"] or config.llvm, ROUTES),
        _word("spirv_codegen", said["spirv_codegen"], CODEGENS),
        _seconds("deadline", said["deadline"]),
        _word("codec", said["codec"], tuple(CODECS)),
        arguments.get("out") or (TUNING if said["tune"] else said["out"]),
        said["cache"],
        said["cache_mode"] and _word("cache_mode", said["cache_mode"], CACHE_MODES),
        said["farm"],
        _switch("verbose", said["verbose"]),
        said["words"],
        said["device"],
        said["tests"],
    )


def help_text(config: Config) -> str:
    """What `scons --help` shows (`scons -H`: the options of SCons itself)."""
    lines = ["", "scons [OPTION=VALUE...] [JOB...]", "", "Jobs:"]
    lines += [f"  {name:<10}{about}" for name, about in JOBS.items()]
    lines += ["", "Options:"]
    for name, option in OPTIONS.items():
        default = f" [{option.default}]" if option.default else ""
        lines.append(f"  {name}={option.values}{default}")
        lines.append(f"            {option.about}")
    lines += ["", "Targets (* built by default):"]
    width = max(map(len, config.targets)) + 2
    for row in config.targets.values():
        lines.append(f"  {'*' if row.default else ' '} {row.name:<{width}}{row.about}")
    lines += ["", "Kernels:", *_columns(sorted(config.kernels)), ""]
    return "\n".join(lines)


JOBS: dict[str, str] = {
    "(none)": "every kernel for every default target, and the bundle of what was selected",
    "pack": "a pack for every target, in OUT/packs",
    "wheels": "the packs as Python wheels, one for each backend, in OUT/wheels",
    "web": "a page that runs the kernels in a browser, in OUT/web",
    "demo": "nearest words in a real embedding table (words=king,paris)",
    "test": "lint, types and all tests but the long ones",
    "fuzz": "the long tests: hours",
    "lint": "lint and types",
    "-c": "remove what was built; the store keeps it",
}


def _columns(words: list[str], width: int = 76) -> list[str]:
    lines, line = [], " "
    for word in words:
        if len(line) + len(word) + 1 > width:
            lines.append(line)
            line = " "
        line += f" {word}"
    return [*lines, line]


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[,\s]+", text) if word]


def _targets(target: str, arch: str, rows: Mapping[str, TargetRow]) -> tuple[TargetRow, ...]:
    archs = _words(arch)
    backends = {row.backend for row in rows.values()}
    words = _words(target) or ["default"]
    rows = {**rows, **_with_settings(words, archs, rows)}
    for name in words:
        if name not in rows and name not in backends and name not in ("all", "default"):
            raise UsageError(f"unknown target={name}{meant(name, {*rows, *backends, 'all'})}")
    known = {
        row.arch
        for row in rows.values()
        if {"all", "default", row.backend} & {rows[w].backend if w in rows else w for w in words}
    }
    for name in archs:
        if name not in known:
            raise UsageError(f"unknown architecture arch={name}{nearest(name, known)}")
    found: dict[str, TargetRow] = {}
    for name in words:
        if name in rows:
            picked = [rows[name]]
        else:
            picked = [
                row
                for row in rows.values()
                if name in ("all", "default", row.backend)
                and (row.arch in archs if archs else name == "all" or _usual(row, name))
            ]
        if archs and name not in ("all", "default"):
            picked = _of_archs(name, picked, archs, arch)
        found |= {row.name: row for row in picked}
    chosen = tuple(row for row in found.values() if not archs or row.arch in archs)
    if not chosen:
        raise UsageError(f"no target matches target={target or 'default'} arch={arch}")
    return chosen


def _with_settings(
    words: list[str], archs: list[str], rows: Mapping[str, TargetRow]
) -> dict[str, TargetRow]:
    """The targets of those words whose architecture says its settings: `hsaco-gfx90a:xnack-`."""
    found = {}
    for name in [*words, *(f"hsaco-{arch}" for arch in archs)]:
        plain = rows.get(name.partition(":")[0])
        if plain is None or plain.name == name or plain.backend != "hsaco":
            continue
        try:
            parse_target(name.partition("-")[2])
        except ValueError as error:
            raise UsageError(f"unknown target={name}: {error}") from error
        found[name] = TargetRow(name, about=plain.about)
    return found


def _of_archs(name: str, picked: list[TargetRow], archs: list[str], arch: str) -> list[TargetRow]:
    """What arch= leaves of a target or backend that is named; UsageError where that is nothing."""
    left = [row for row in picked if row.arch in archs]
    if not left:
        raise UsageError(
            f"arch={arch} leaves nothing of target={name}; name each target in full, or add the "
            f"architecture of {name}"
        )
    return left


def _matched(kernels: tuple[KernelRow, ...], targets: tuple[TargetRow, ...], named: bool) -> None:
    """Refuses kernels that no target of the choice builds: those asked for by name, or all."""
    idle = [row for row in kernels if not any(map(row.builds_for, targets))]
    if idle and (named or len(idle) == len(kernels)):
        row = idle[0]
        chosen = ", ".join(target.name for target in targets)
        only = ", ".join(row.targets or ())
        other = (row.targets or ("",))[0]
        hint = f"; name one of them: target={other}" if other else ""
        raise UsageError(f"{row.kernel} is built only for {only}, not for {chosen}{hint}")


def _tunable(kernels: tuple[KernelRow, ...], targets: tuple[TargetRow, ...]) -> None:
    """Refuses kernels that declare nothing to be tuned for any of the targets."""
    for row in kernels:
        if not any(row.points(name, t) for name in row.specializations for t in targets):
            chosen = ", ".join(target.name for target in targets)
            raise UsageError(f"tune={row.kernel}: {row.file} declares no space for {chosen}")


def _usual(row: TargetRow, name: str) -> bool:
    """Whether a row is built where `name`, a backend or `default`, names no architecture."""
    return row.default if name == "default" else row.baseline


def _kernels(text: str, config: Config) -> list[str]:
    known = {**config.kernels, **config.faults}
    names = _words(text) or list(known)
    for name in names:
        if name not in known:
            raise UsageError(f"unknown kernel={name}{nearest(name, known)}")
    return names


def _word(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise UsageError(f"unknown value {name}={value}{nearest(value, known)}")
    return value


def _seconds(name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= _DAY:
        raise UsageError(f"{name}={value} is no time; expected seconds, over 0 and up to {_DAY}")
    return seconds


def _switch(name: str, value: str) -> bool:
    if value not in _SWITCH:
        raise UsageError(f"unknown value {name}={value}{nearest(value, _SWITCH)}")
    return _SWITCH[value]
