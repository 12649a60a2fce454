"""The configuration: targets, toolchain and the specializations of every kernel."""

from __future__ import annotations

import difflib
import importlib.metadata
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gristmill.backends.llvm.machine import ROUTES
from gristmill.ir.targets import BACKENDS, Target, UnknownTargetError

from .constexprs import MADE_FROM, Constexprs, Variants, constexprs, places
from .document import ConfigError, Node, nearest, read
from .spaces import Tune, tune_of
from .tuned import Winner, Winners
from .tuned import load as measured

SUFFIXES = {
    **{"interp": ".kir", "cpu": ".so", "spirv": ".spv", "wgsl": ".wgsl"},
    **{"ptx": ".ptx", "cubin": ".cubin", "hsaco": ".hsaco"},
}
# What a device is called -> the backends whose artifacts it loads.
LOADS = {
    **dict.fromkeys(("cuda", "nvidia"), ("ptx", "cubin")),
    **dict.fromkeys(("hsa", "amd"), ("hsaco",)),
    **dict.fromkeys(("wgpu", "webgpu"), ("wgsl",)),
    "vulkan": ("spirv",),
}
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def path_name(name: str) -> str:
    """A target's or family's name as part of a path: `hsaco-gfx90a:xnack-` lies in
    `hsaco-gfx90a.xnack-`, since a colon is no part of a file name everywhere."""
    return name.replace(":", ".").replace("*", "")


@dataclass(frozen=True)
class TargetRow:
    """A target that can be built for.

    default: built when no target is named. baseline: built when its backend is named alone.
    """

    name: str
    default: bool = False
    baseline: bool = False
    about: str = ""

    @property
    def backend(self) -> str:
        return self.name.partition("-")[0]

    @property
    def arch(self) -> str:
        return self.name.partition("-")[2]

    @property
    def suffix(self) -> str:
        return SUFFIXES[self.backend]

    @property
    def folder(self) -> str:
        """Where its artifacts lie within the output."""
        return path_name(self.name)


@dataclass(frozen=True)
class KernelRow:
    """A kernel's configuration: `module` in kernels/, specializations, variants; what is declared
    to be tuned, and the winners of what was measured.

    Variants belong to a backend, to a family of its targets (`hsaco-gfx9*`: names that begin so) or
    to one target, which then has those alone; those of one specialization (`own`) go before those
    of all.
    """

    kernel: str
    module: str
    file: str
    specializations: dict[str, Constexprs]
    variants: Variants = field(default_factory=dict)
    own: dict[str, Variants] = field(default_factory=dict)
    targets: tuple[str, ...] | None = None
    tune: Tune | None = None
    winners: Winners = field(default_factory=dict)

    def variants_for(
        self, specialization: str, target: TargetRow
    ) -> tuple[str, tuple[Constexprs, ...]]:
        """Whose variants a target has (its own or its backend's), and those variants."""
        for backend in (target.backend, MADE_FROM.get(target.backend, target.backend)):
            own = self.own.get(specialization, {})
            for where in places(f"{backend}-{target.arch}", {*own, *self.variants}):
                for variants in (own, self.variants):
                    if where in variants:
                        return where, variants[where]
        return target.backend, (Constexprs(),)

    def points(self, specialization: str, target: TargetRow) -> tuple[Constexprs, ...]:
        """The points of the space that is declared for a target."""
        tune = self.tune
        return tune.points(specialization, target.backend, target.arch) if tune else ()

    def winners_for(self, specialization: str, target: TargetRow) -> tuple[Winner, ...]:
        """The variants that won on devices of a target, declared ones among them."""
        return self.winners.get((specialization, target.name), ())

    def builds_for(self, target: TargetRow) -> bool:
        return self.targets is None or bool({target.backend, target.name} & set(self.targets))


@dataclass(frozen=True)
class Config:
    """Everything under configs/. `tools`: versions of outside packages, by backend. `llvm`: how
    LLVM is reached where the command line does not say it. `faults`: what is wrong with the files
    of kernels that cannot be used, by the name that the kernel has or seems to have."""

    targets: dict[str, TargetRow]
    kernels: dict[str, KernelRow]
    tools: dict[str, tuple[str, ...]]
    llvm: str = ROUTES[0]
    faults: dict[str, str] = field(default_factory=dict)


def load(root: Path, keep_going: bool = False) -> Config:
    """Read the configuration of the project in `root`. ConfigError says what is wrong where.

    keep_going: a wrong file of one kernel is no error but one of the `faults`.
    """
    targets = _targets(read(root / "configs/targets.yaml", "configs/targets.yaml"))
    toolchain = read(root / "configs/toolchain.yaml", "configs/toolchain.yaml").mapping(
        ["backends", "accepts", "llvm"], ["backends"]
    )
    tools = _tools(toolchain)
    kernels: dict[str, KernelRow] = {}
    faults: dict[str, str] = {}
    for path in sorted((root / "configs/kernels").glob("*.yaml")):
        name = path.relative_to(root).as_posix()
        try:
            row = _kernel(read(path, name), path.stem, targets, root)
            if row.kernel in kernels:
                first = kernels[row.kernel].file
                raise ConfigError(f"{name}: kernel {row.kernel!r} is configured in {first} already")
        except ConfigError as error:
            if not keep_going:
                raise
            faults[path.stem] = str(error)
        else:
            kernels[row.kernel] = row
    if not kernels and not faults:
        raise ConfigError("configs/kernels: no kernel is configured (expected *.yaml files)")
    kernels = measured(root, kernels, targets, faults)
    llvm = toolchain["llvm"].choice(ROUTES) if "llvm" in toolchain else ROUTES[0]
    return Config(targets, kernels, tools, llvm, faults)


def _targets(document: Node) -> dict[str, TargetRow]:
    found = {}
    for name, node in document.mapping(["targets"], ["targets"])["targets"].mapping().items():
        try:
            target = Target.parse(name)
        except UnknownTargetError as error:
            node.fail(str(error))
        if target.backend not in SUFFIXES:
            node.fail(f"backend {target.backend!r} does not build here{nearest('', SUFFIXES)}")
        row = node.mapping(["default", "baseline", "about"])
        default, baseline = (
            word in row and row[word].boolean() for word in ("default", "baseline")
        )
        about = row["about"].text() if "about" in row else ""
        found[name] = TargetRow(name, default, default or baseline, about)
    return found


def _tools(keys: dict[str, Node]) -> dict[str, tuple[str, ...]]:
    """Checks the toolchain and gives `package version` for each backend."""
    accepts = keys["accepts"].mapping() if "accepts" in keys else {}
    found = {}
    for backend, node in keys["backends"].mapping(BACKENDS).items():
        found[backend] = tuple(_tool(package, accepts) for package in node.sequence())
    return found


def _tool(package: Node, accepts: dict[str, Node]) -> str:
    name = package.text()
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return f"{name} missing"  # refused where a backend needs it, not where nothing does
    if name in accepts and not (version + ".").startswith(accepts[name].text() + "."):
        accepts[name].fail(
            f"{name} {version} is installed, but this version builds with {accepts[name].text()}.x "
            f"(pip install '{name}=={accepts[name].text()}.*')"
        )
    return f"{name} {version}"


def _kernel(document: Node, stem: str, targets: dict[str, TargetRow], root: Path) -> KernelRow:
    keys = document.mapping(
        ["kernel", "module", "specializations", "variants", "targets", "tune"], ["specializations"]
    )
    kernel = _word(keys["kernel"]) if "kernel" in keys else stem
    module = _word(keys["module"]) if "module" in keys else stem
    if not (root / f"kernels/{module}.py").is_file():
        modules = [p.stem for p in (root / "kernels").glob("*.py") if p.stem != "__init__"]
        keys.get("module", document).fail(
            f"there is no kernels/{module}.py{nearest(module, modules)}"
        )
    specializations, own = _specializations(keys["specializations"], targets)
    return KernelRow(
        kernel,
        module,
        document.file,
        specializations,
        _variants(keys["variants"], targets) if "variants" in keys else {},
        own,
        _restriction(keys["targets"], targets) if "targets" in keys else None,
        _tune(keys["tune"], specializations, targets) if "tune" in keys else None,
    )


def _tune(node: Node, specializations: Iterable[str], targets: dict[str, TargetRow]) -> Tune:
    spaces = node.mapping().get("spaces")
    names = spaces.mapping() if spaces else {}
    known = [*SUFFIXES, *targets, *(name for name in names if _is_family(name, targets))]
    for name, space in names.items():
        if name not in known:
            space.fail(f"unknown target or backend {name!r}{meant(name, known)}")
    return tune_of(node, specializations)


def _specializations(
    node: Node, targets: dict[str, TargetRow]
) -> tuple[dict[str, Constexprs], dict[str, Variants]]:
    found, own = {}, {}
    for name, value in node.mapping().items():
        if not _WORD.fullmatch(name):
            node.fail(f"{name!r} is not a name (letters, digits and _)")
        entries = value.mapping()
        if (variants := entries.pop("variants", None)) is not None:
            own[name] = _variants(variants, targets)
        found[name] = constexprs(value, entries)
    if not found:
        node.fail("a kernel needs at least one specialization")
    return found, own


def meant(name: str, known: Iterable[str]) -> str:
    """The nearest right thing for an unknown target or backend: what the device that it names, or
    nearly names, loads."""
    known = set(known)
    near = difflib.get_close_matches(name, {*known, *LOADS}, 1, 0.6)
    backends = LOADS.get(near[0], ()) if near else ()
    loads = [repr(backend) for backend in backends if backend in known]
    if not loads:
        return nearest(name, known)
    build = "build" if len(loads) > 1 else "builds"
    return f"; {near[0]} devices load what {' and '.join(loads)} {build}{nearest('', known)}"


def _variants(node: Node, targets: dict[str, TargetRow]) -> Variants:
    found, families = {}, [k for k in node.mapping() if _is_family(k, targets)]
    known = [*SUFFIXES, *targets, *families]
    for where, variants in node.mapping().items():
        if where not in known:
            variants.fail(f"unknown target or backend {where!r}{meant(where, known)}")
        found[where] = tuple(constexprs(node, node.mapping()) for node in variants.sequence())
        if not found[where]:
            variants.fail("an empty list would build nothing; write [{}] for the plain kernel")
    return found


def _is_family(key: str, targets: dict[str, TargetRow]) -> bool:
    return key.endswith("*") and any(name.startswith(key[:-1]) for name in targets)


def _restriction(node: Node, targets: dict[str, TargetRow]) -> tuple[str, ...]:
    known = {*targets, *(row.backend for row in targets.values())}
    return tuple(item.choice(known) for item in node.sequence())


def _word(node: Node) -> str:
    text = node.text()
    if not _WORD.fullmatch(text):
        node.fail(f"{text!r} is not a name (letters, digits and _)")
    return text
