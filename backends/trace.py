"""From kernel source to kernel IR text: the pure function of the first build step.

`trace` executes the kernel's module from bytes that the caller read (and hashed), never from the
disk, so that what is named by a key is what was traced. The project's `kernels/` folder takes the
place of the package `gristmill.kernels`; whatever of it is not among the sources cannot be
imported, so a forgotten dependency is an error and not a stale result.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import linecache
import sys
import traceback
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

from ..ir.garbage import uncollected
from ..ir.lang.diagnostics import Diagnostic
from ..ir.text import print_with_locs

PACKAGE = "gristmill.kernels"

# Modules by the digest of their sources: kernels of one file are traced from one import.
_loaded: dict[tuple[str, str], types.ModuleType] = {}


class TraceError(Exception):
    """A specialization that cannot be traced: what was asked for and what there is."""


@uncollected()
def trace(
    sources: Mapping[str, bytes],
    module: str,
    kernel: str,
    specialization: str,
    constexprs: Mapping[str, Any],
) -> tuple[bytes, bytes]:
    """The IR text of one specialization, and the source location of each of its lines.

    sources: path within the project -> bytes, for the kernel's module and all it imports from
    `kernels/`. constexprs: values as YAML has them, device functions by name.
    The second result is JSON: {"LINE": [file, line, column], ...}; line 1 is the kernel's.

    Raises ir.lang.Diagnostic for wrong programs, TraceError for wrong requests.
    """
    loaded = load(sources, module)
    function: Any = getattr(loaded, kernel, None)
    if not _is_kernel(function):
        known = sorted(name for name, value in vars(loaded).items() if _is_kernel(value))
        raise TraceError(f"{loaded.__file__}: no kernel {kernel!r} (it has {', '.join(known)})")
    traced = function.trace(specialization, **constexprs)
    text, places = print_with_locs(traced)
    if (source := getattr(function, "source", None)) is not None:
        places = {1: source.loc(source.node), **places}
    locs = {str(line): [loc.file, loc.line, loc.column] for line, loc in places.items()}
    return text.encode(), json.dumps(locs, separators=(",", ":")).encode()


def load(sources: Mapping[str, bytes], module: str) -> types.ModuleType:
    """Execute `kernels/<module>.py` from its bytes; its imports from the same sources."""
    state = hashlib.sha256()
    for name in sorted(sources):
        state.update(b"%s %d\n" % (name.encode(), len(sources[name])) + sources[name])
    key = (state.hexdigest(), module)
    if key not in _loaded:
        try:
            with _kernels_from(sources):
                _loaded[key] = importlib.import_module(f"{PACKAGE}.{module}")
        except Diagnostic:
            raise
        except (Exception, SystemExit) as error:
            raise _import_error(error, sources) from error
    return _loaded[key]


def _import_error(error: BaseException, sources: Mapping[str, bytes]) -> TraceError:
    """What a file of kernels raises when it runs, with the last of its lines that led there."""
    places = [(f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        places.append((str(error.filename), error.lineno))
    file, line = next((p for p in reversed(places) if p[0] in sources), (next(iter(sources)), 1))
    text = f"{file}:{line}: {type(error).__name__}: {getattr(error, 'msg', None) or error}"
    if isinstance(error, NameError) and b"from __future__ import annotations" not in sources[file]:
        text += (
            "; begin the file with `from __future__ import annotations`, "
            "so that types may name constexprs"
        )
    return TraceError(text)


@contextmanager
def _kernels_from(sources: Mapping[str, bytes]) -> Iterator[None]:
    """Make the package of kernels consist of these sources; restore what was there before."""
    kept = {name: m for name, m in sys.modules.items() if _within_package(name)}
    finder = _Sources(sources)
    package = types.ModuleType(PACKAGE)
    package.__path__ = []
    _drop_package()
    sys.modules[PACKAGE] = package
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _drop_package()
        sys.modules.update(kept)


def _within_package(name: str) -> bool:
    return name == PACKAGE or name.startswith(PACKAGE + ".")


def _drop_package() -> None:
    for name in [name for name in sys.modules if _within_package(name)]:
        del sys.modules[name]


class _Sources(MetaPathFinder, Loader):
    def __init__(self, sources: Mapping[str, bytes]) -> None:
        self.files = {
            f"{PACKAGE}.{path.rsplit('/', 1)[-1].removesuffix('.py')}": path for path in sources
        }
        self.sources = sources

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname not in self.files:
            return None
        return ModuleSpec(fullname, self, origin=self.files[fullname])

    def exec_module(self, module: types.ModuleType) -> None:
        path = self.files[module.__name__]
        text = self.sources[path].decode()
        module.__file__ = path
        # What reads the source of a function must see the bytes that run, not those on disk.
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        exec(compile(text, path, "exec", dont_inherit=True), vars(module))


def _is_kernel(value: Any) -> bool:
    # An instance: a class that has such methods is no kernel.
    return not isinstance(value, type) and hasattr(value, "trace") and hasattr(value, "constexprs")
