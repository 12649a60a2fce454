"""Digests of the compiler's own sources, by stage: an edited compiler makes new keys.

A stage lists the files and folders whose code can change its output; a test holds the list against
the imports. Tracing and each backend are stages of their own, so that an edit in one emitter leaves
the others' artifacts alone.
"""

from __future__ import annotations

from pathlib import Path

from .key import Action, compiler_action

PACKAGE = Path(__file__).parent.parent

_CORE = (
    "ir/*.py",
    "ir/ops/**/*.py",
    "backends/compile.py",
    "backends/stages.py",
    "backends/steps.py",
    "store/manifest.py",
    "store/message.py",
    "store/schema.py",
)
_LOWERED = (*_CORE, "ir/passes/**/*.py", "ir/maths/**/*.py")
_SIMT = (*_LOWERED, "backends/llvm/**/*.py", "backends/simt/**/*.py")
_FACTS = ("backends/usage.py", "backends/ordering.py")
_HIDDEN = (*_FACTS, "backends/zeros.py", "backends/divisors.py", "backends/folds.py")
_PTX = (*_SIMT, "backends/ptx/**/*.py")

STAGES: dict[str, tuple[str, ...]] = {
    "trace": (
        "ir/*.py",
        "ir/ops/**/*.py",
        "ir/lang/**/*.py",
        "ir/quantized/**/*.py",
        "backends/trace.py",
    ),
    "interp": (*_CORE, "backends/interp/**/*.py"),
    "spirv": (*_LOWERED, *_HIDDEN, "backends/spirv/**/*.py"),
    "spirv_llc": (
        *_SIMT,
        *_FACTS,
        "backends/spirv/__init__.py",
        "backends/spirv/module.py",
        "backends/spirv/opcodes.py",
        "backends/spirv/validate.py",
        "backends/spirv_llc/**/*.py",
    ),
    "wgsl": (*_LOWERED, *_HIDDEN, "backends/wgsl/**/*.py"),
    "cpu": (
        *_LOWERED,
        "backends/llvm/**/*.py",
        "backends/cpu/**/*.py",
        "backends/link/**/*.py",
    ),
    "ptx": _PTX,
    "cubin": (*_PTX, "backends/cubin/**/*.py"),
    "hsaco": (
        *_SIMT,
        "backends/ordering.py",
        "backends/hsaco/**/*.py",
        "backends/link/**/*.py",
        "store/messagepack.py",
    ),
}


def stage_files(stage: str, package: Path = PACKAGE) -> list[Path]:
    """The source files of a stage, sorted. KeyError names no stage of this version."""
    found = {path for pattern in STAGES[stage] for path in package.glob(pattern)}
    return sorted(path for path in found if path.is_file())


def stage_action(stage: str, package: Path = PACKAGE) -> Action:
    """The sources of a stage, by name and content; its key is the digest of the stage."""
    files = {p.relative_to(package).as_posix(): p for p in stage_files(stage, package)}
    return compiler_action(stage, {name: path.read_bytes() for name, path in files.items()})


def stage_digest(stage: str, package: Path = PACKAGE) -> str:
    """The digest of a stage's sources, in hexadecimal."""
    return stage_action(stage, package).key


def stage_stamp(stage: str, package: Path = PACKAGE) -> tuple[tuple[str, int, int, int], ...]:
    """Path, date, size and inode of a stage's sources: equal stamps, untouched files."""
    stats = [(path, path.stat()) for path in stage_files(stage, package)]
    return tuple((str(path), s.st_mtime_ns, s.st_size, s.st_ino) for path, s in stats)
