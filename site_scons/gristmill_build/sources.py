"""Which files of kernels/ a kernel's module is made of: itself and what it imports, transitively.

Imports are read from the syntax tree. What is imported from outside of kernels/ is part of the
compiler (its digest is another input of the build step) or a library.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path

from .document import ConfigError

PACKAGE = "gristmill.kernels"


def module_sources(root: Path, module: str, faults: list[str] | None = None) -> tuple[str, ...]:
    """Paths within the project, the module's own file first, the others sorted.

    ConfigError where one is not Python; with `faults`, what is wrong is added to them, and such a
    file imports nothing.
    """
    found: set[str] = set()
    todo = [module]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        try:
            todo += imported_modules(root, f"kernels/{name}.py")
        except ConfigError as error:
            if faults is None:
                raise
            faults.append(str(error))
    others = sorted(f"kernels/{name}.py" for name in found - {module})
    return (f"kernels/{module}.py", *others)


@functools.cache
def imported_modules(root: Path, path: str) -> tuple[str, ...]:
    """The modules of kernels/ that one file imports. ConfigError where it is not Python."""
    try:
        tree = ast.parse((root / path).read_bytes())
    except SyntaxError as error:
        line = f":{error.lineno}" if error.lineno else ""  # a zero byte stands on none
        raise ConfigError(f"{path}{line}: {error.msg}") from None
    except (RecursionError, MemoryError):  # MemoryError: the parser's own bound
        raise ConfigError(f"{path}: nested deeper than Python parses") from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names.update(_from(node))
        elif isinstance(node, ast.Import):
            names.update(
                alias.name.removeprefix(PACKAGE + ".")
                for alias in node.names
                if alias.name.startswith(PACKAGE + ".")
            )
    return tuple(sorted(name for name in names if (root / f"kernels/{name}.py").is_file()))


def _from(node: ast.ImportFrom) -> list[str]:
    module = node.module or ""
    if node.level == 1:
        return [module.partition(".")[0]] if module else [alias.name for alias in node.names]
    if node.level == 0 and module == PACKAGE:
        return [alias.name for alias in node.names]
    if node.level == 0 and module.startswith(PACKAGE + "."):
        return [module.removeprefix(PACKAGE + ".").partition(".")[0]]
    return []
