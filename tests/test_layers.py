"""The layers hold: who may import whom, how long a module may be, what prose must not say."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAX_LINES = 400

# folder -> (parts of the project, third-party packages at import, third-party packages inside
# functions). A part `ir.x` stands for the modules ir/x.py and ir/x/. The longest folder wins.
LAYERS: dict[str, tuple[set[str], set[str], set[str]]] = {
    "ir": ({"ir"}, {"numpy"}, set()),
    "store": ({"store"}, set(), {"obstore", "grpc", "google"}),
    "store/pack": ({"store"}, set(), {"zstandard"}),
    "store/trust": ({"store"}, set(), {"cryptography"}),
    "store/distribution": ({"store"}, set(), {"oras", "requests", "urllib3"}),
    "kernels": (
        {"kernels", "ir.lang", "ir.dtypes", "ir.float8", "ir.ops", "ir.quantized"},
        {"numpy"},
        set(),
    ),
    "backends": ({"backends", "ir", "store"}, {"numpy"}, {"llvmlite"}),
    "backends/llvm": ({"backends", "ir", "store"}, {"numpy", "llvmlite"}, set()),
    "backends/cpu": ({"backends", "ir", "store"}, {"numpy", "llvmlite"}, set()),
    "backends/farm": ({"backends", "store"}, set(), set()),
    "backends/farm/cluster": ({"backends", "store"}, set(), {"distributed"}),
    "runtime": (
        {"runtime", "store", "ir.dtypes", "ir.targets", "ir.abi", "ir.interface", "__version__"},
        {"numpy"},
        set(),
    ),
    "runtime/engine": ({"runtime", "ir.dtypes", "ir.targets", "ir.plan"}, {"numpy"}, set()),
    "planner": ({"planner", "ir", "kernels.movement", "kernels.rotary"}, {"numpy"}, set()),
    "runtime/devices/cpu": (
        {
            "runtime",
            "store",
            "ir.dtypes",
            "ir.targets",
            "ir.abi",
            "ir.interface",
            "ir.replay_abi",
        },
        {"numpy"},
        set(),
    ),
    "runtime/devices/vulkan": (
        {"runtime", "store", "ir.dtypes", "ir.targets", "ir.abi", "ir.interface"},
        {"numpy"},
        {"vulkan", "cffi"},
    ),
    "runtime/devices/wgpu": (
        {"runtime", "store", "ir.dtypes", "ir.targets", "ir.abi", "ir.interface"},
        {"numpy"},
        {"wgpu"},
    ),
    "runtime/devices/cuda": (
        {"runtime", "store", "ir.dtypes", "ir.targets", "ir.abi", "ir.interface"},
        {"numpy"},
        {"cuda"},
    ),
    "runtime/devices/interp": (
        {
            "runtime",
            "store",
            "ir.dtypes",
            "ir.targets",
            "ir.abi",
            "ir.interface",
            "ir.interp",
            "ir.parse",
        },
        {"numpy"},
        set(),
    ),
    "fuzz": ({"fuzz", "ir", "store", "backends", "runtime", "__version__"}, {"numpy"}, set()),
    "models": (
        {"models", "planner", "runtime", "ir"},
        {"numpy"},
        {"tokenizers", "jinja2"},
    ),
    "models/config": ({"models"}, set(), {"yaml"}),
    "onnx_backend": (
        {"onnx_backend", "runtime", "ir.dtypes", "kernels"},
        {"numpy", "onnx", "ml_dtypes"},
        set(),
    ),
    "onnx_backend/importer": (
        {"onnx_backend", "ir.dtypes", "ir.graph"},
        {"numpy", "onnx", "google"},
        set(),
    ),
    "cli": (
        {
            "cli",
            "ir",
            "store",
            "kernels",
            "backends",
            "planner",
            "runtime",
            "models",
            "fuzz",
            "__version__",
        },
        {"numpy"},
        {"yaml", "torch"},
    ),
}
TOP = {"ir", "store", "kernels", "backends", "planner", "runtime", "models", "fuzz", "cli"}
TOP |= {"onnx_backend"}
# By their import names. A folder `onnx` would hide the package of that name from all that runs in
# the checkout.
FOLDERS = {"onnx": "onnx_backend"}


def sources() -> list[Path]:
    return sorted(p for top in TOP for p in (ROOT / top).rglob("*.py") if p.is_file())


def all_python() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.py", "SConstruct"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode:  # an unpacked sdist
        return [*sources(), *(ROOT / "tests").rglob("*.py")]
    names = [n for n in listed.stdout.split() if not n.startswith("src/gristmill/")]
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def layer_of(module: str) -> tuple[set[str], set[str], set[str]]:
    """The row of the table for a path such as `runtime/devices/vulkan/memory.py`."""
    stem = module.removesuffix(".py")
    fitting = [row for row in LAYERS if stem == row or stem.startswith(row + "/")]
    return LAYERS[max(fitting, key=len)]


def imports(tree: ast.Module) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Every import with whether it runs inside a function; TYPE_CHECKING blocks do not count."""

    def visit(node: ast.AST, lazy: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import | ast.ImportFrom):
                yield child, lazy
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                for other in child.orelse:
                    yield from visit(other, lazy)
            else:
                inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from visit(child, lazy or inside)

    return visit(tree, False)


def named(module: str, node: ast.Import | ast.ImportFrom) -> list[str]:
    """The dotted names an import asks for; those of the project start with `gristmill.`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not node.level:
        return [node.module or ""]
    package = ["gristmill", *module.split("/")[:-1]]
    base = package[: len(package) - (node.level - 1)]
    if node.module:
        return [".".join([*base, node.module])]
    return [".".join([*base, alias.name]) for alias in node.names]


def faults(module: str, text: str) -> list[str]:
    """What one module imports against the table."""
    parts, eager, lazily = layer_of(module)
    found = []
    for node, lazy in imports(ast.parse(text)):
        for name in named(module, node):
            words = name.split(".")
            place = f"{module}:{node.lineno}: imports {name}"
            if words[0] != "gristmill":
                known = words[0] in sys.stdlib_module_names | eager
                if words[0] in TOP:
                    found.append(f"{place}: absolute, write it relatively")
                elif not known and not (lazy and words[0] in lazily):
                    found.append(f"{place}: only {sorted(eager)}, in functions {sorted(lazily)}")
            elif not getattr(node, "level", 0):
                found.append(f"{place}: absolute, write it relatively")
            elif len(words) > 1 and not allowed(words[1:], parts):
                found.append(f"{place}: not among {sorted(parts)}")
    return found


def allowed(words: list[str], parts: set[str]) -> bool:
    return any(words[: len(part.split("."))] == part.split(".") for part in parts)


@pytest.mark.parametrize("top", sorted(TOP))
def test_imports_follow_the_table(top: str) -> None:
    found = []
    for path in sources():
        module = path.relative_to(ROOT).as_posix()
        if module.split("/")[0] == top:
            found += faults(module, path.read_text())
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("ir/core.py", "from ..store import manifest"),
        ("ir/core.py", "def f():\n    from ..backends.compile import Options"),
        ("ir/core.py", "import llvmlite"),
        ("runtime/bundle.py", "from ..ir.lang import kernel"),
        ("runtime/bundle.py", "def f():\n    import yaml"),
        ("runtime/devices/cpu.py", "import vulkan"),
        ("runtime/devices/vulkan.py", "import vulkan"),
        ("store/key.py", "import numpy"),
        ("store/key.py", "from gristmill.store import manifest"),
        ("kernels/softmax.py", "from ir.lang import kernel"),
    ],
)
def test_a_forbidden_import_is_found(module: str, text: str) -> None:
    assert faults(module, text)


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("runtime/devices/vulkan.py", "def f():\n    import vulkan"),
        ("runtime/devices/interp.py", "def f():\n    from ...ir.interp import run"),
        ("runtime/bundle.py", "from ..ir.dtypes import f32\nfrom ..store import key"),
        ("ir/core.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import llvmlite"),
    ],
)
def test_an_allowed_import_is_left_alone(module: str, text: str) -> None:
    assert not faults(module, text)


def test_the_page_names_what_kernels_may_import() -> None:
    page = (ROOT / "docs/ARCHITECTURE.md").read_text()
    (row,) = re.findall(r"^\| `kernels/` \|.*\|(.*)\|$", page, re.MULTILINE)
    parts, packages, _ = LAYERS["kernels"]
    named = {name.strip(" `") for name in row.split(",")}
    assert named == parts - {"kernels"} | packages


def test_no_module_is_longer_than_a_reader_can_hold() -> None:
    long = {
        path.relative_to(ROOT).as_posix(): count
        for path in all_python()
        if (count := len(path.read_text().splitlines())) > MAX_LINES
    }
    assert not long, f"modules over {MAX_LINES} lines; find the concept that wants its own: {long}"


# Assembled, so that this file does not hold what it forbids.
HOUSEKEEPING = re.compile(
    r"issue\s" + r"#?\d|\bTO" + r"DO\b|\bFIX" + r"ME\b|\bHA" + r"CK\b|\bX" + r"XX\b|coding\ssession"
    r"|sub" + r"agent|as an\sAI\b"
)


def test_the_code_speaks_of_the_project_not_of_its_making() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in all_python()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if HOUSEKEEPING.search(line)
    ]
    assert not found, "\n" + "\n".join(found)


def test_the_links_of_the_package_point_at_the_folders() -> None:
    for link in (ROOT / "src/gristmill").iterdir():
        if link.is_symlink():
            assert link.readlink() == Path("../..") / FOLDERS.get(link.name, link.name)
            assert link.is_dir()
