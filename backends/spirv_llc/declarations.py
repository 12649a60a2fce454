"""The global variables of a module: what drivers bind, built-in variables, arrays."""

from __future__ import annotations

from collections.abc import Sequence

from ..spirv.opcodes import Deco


class Declarations:
    """Lines of LLVM IR, and the metadata with the decorations. Names end in a dot: no kernel and
    nothing of LLVM's is called so."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.notes: list[str] = []
        self._known: set[str] = set()

    def decorated(self, name: str, kind: str, space: str, entries: Sequence[Sequence[int]]) -> str:
        """Declare a variable with decorations, each with its operands; its name."""
        if name not in self._known:
            self._known.add(name)
            first = len(self.notes)
            for entry in entries:
                self.notes.append(f"!{{{', '.join(f'i32 {n}' for n in entry)}}}")
            self.notes.append(f"!{{{', '.join(f'!{first + n}' for n in range(len(entries)))}}}")
            self.lines.append(
                f"@{name} = external hidden {space.removeprefix('ptr ')} global {kind}, "
                f"!spirv.Decorations !{len(self.notes) - 1}"
            )
        return f"@{name}"

    def block(
        self, name: str, items: str, space: str, binding: int, more: Sequence[int] = ()
    ) -> str:
        """Declare a block that is one array; its type, the type of a pointer to it and its name."""
        self.lines.append(f"%{name} = type {{ {items} }}")
        entries = [(Deco.DESCRIPTOR_SET, 0), (Deco.BINDING, binding), *((n,) for n in more)]
        return f"%{name}, {space} {self.decorated(name, f'%{name}', space, entries)}"

    def array(self, name: str, kind: str, space: str, start: str) -> str:
        """Declare an array; its type, the type of a pointer to it and its name."""
        self.lines.append(f"@{name} = internal {space.removeprefix('ptr ')} global {kind} {start}")
        return f"{kind}, {space} @{name}"

    def head(self) -> str:
        return "\n".join(self.lines)

    def tail(self) -> str:
        return "".join(f"!{n} = {note}\n" for n, note in enumerate(self.notes))
