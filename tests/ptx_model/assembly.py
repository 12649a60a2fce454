"""The inline assembly of the emitter: products by warpgroups and the waits for them.

Each statement becomes a function in LLVM IR that calls the model; what is not one of these forms is
refused by name.
"""

from __future__ import annotations

import re

from .table import NotModelledError

_LINE = re.compile(r'(%\S+) = call (\{.*?\}) asm sideeffect "(.*?)", "(.*?)"\((.*)\) convergent')
_WGMMA = re.compile(
    r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(\d+)\.(f32|f16|s32)\.(\w+)\.\4 \{(.*?)\}, "
    r"(?:\$(\d+)|\{(.*?)\}), \$(\d+), ([01])((?:, [01])*);"
)
_BEGINS = re.compile(r"wgmma\.mma_async[^{]*\{[^}]*\}, (?:\$\d+|\{[^}]*\}), \$\d+, 0")
_WAIT = re.compile(r"wgmma\.wait_group\.sync\.aligned \d;")
_KINDS = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8")
_DEPTHS = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}
_NOTHING = (
    'asm sideeffect "", "~{memory}"()'  # what it keeps in order, the host's LLVM does as well
)
_HALVES = ("f16", "e4m3", "e5m2")  # whose sums may be f16
_HEAD = (
    "declare void @model_wgmma(i32, ptr, ptr, i64, i64, i32, i32, i32, i32) convergent nounwind",
    "declare void @model_wgmma_wait(i32) convergent nounwind",
)


class Assembly:
    """The statements of a module."""

    def __init__(self) -> None:
        self.functions: list[str] = []

    def text(self) -> list[str]:
        """Definitions of the functions in their place."""
        return [*_HEAD, *self.functions] if self.functions else []

    def rewritten(self, line: str, site: int) -> str:
        """A call in the place of a statement. NotModelledError."""
        if line.endswith(_NOTHING):
            return line
        found = _LINE.search(line)
        if found is None:
            raise NotModelledError(f"inline assembly: {line.strip()}")
        result, group, text, constraints, arguments = found.groups()
        name = f"@model.asm{len(self.functions)}"
        types = [argument.split()[0] for argument in arguments.split(", ")]
        letters = constraints.split(",")
        count = sum(c.startswith("=") for c in letters)
        tied = [c for c in letters if c.isdigit()]
        own = 0 if letters[0].startswith("=&") else count
        if letters[-1] != "~{memory}" or tied != list(map(str, range(own))):
            raise NotModelledError(f"constraints of inline assembly: {constraints}")
        self.functions.append(self._function(name, group, text, types, count))
        return f"  {result} = call {group} {name}(i32 {site}, {arguments})"

    def _function(self, name: str, group: str, text: str, types: list[str], count: int) -> str:
        """Arguments are the inputs, then the `count` registers of the sum, unless the statement
        begins it; $n is one of those for n < count and an input beyond."""
        begins = bool(_BEGINS.match(text))
        inputs, t = len(types) - count * (not begins), group.strip("{ }").split(",")[0]
        params = ", ".join(f"{ty} %a{n}" for n, ty in enumerate(types))
        body = [f"  %sum = alloca [{count} x {t}], align 16", "  %words = alloca [4 x i32]"]
        for n in range(count):
            body.append(f"  %p{n} = getelementptr {t}, ptr %sum, i64 {n}")
            first = "zeroinitializer" if begins else f"%a{inputs + n}"
            body.append(f"  store {t} {first}, ptr %p{n}")
        if _WAIT.fullmatch(text):
            body.append("  call void @model_wgmma_wait(i32 %site)")
        else:
            steps = list(_WGMMA.finditer(text))
            if " ".join(step[0] for step in steps) != text:
                raise NotModelledError(f"inline assembly: {text}")
            for n, step in enumerate(steps):
                body += self._step(n, step, count, begins and n == 0)
        whole = "poison"
        for n in range(count):
            body.append(f"  %l{n} = load {t}, ptr %p{n}")
            body.append(f"  %g{n} = insertvalue {group} {whole}, {t} %l{n}, {n}")
            whole = f"%g{n}"
        body.append(f"  ret {group} {whole}")
        head = f"define internal {group} {name}(i32 %site, {params}) convergent nounwind {{"
        return "\n".join([head, *body, "}"])

    def _step(self, n: int, step: re.Match[str], count: int, begins: bool) -> list[str]:
        columns, depth, total, kind, sums, a, words, b, added, flags = step.groups()
        own = ", ".join(f"${n}" for n in range(count))
        per = 2 if total == "f16" else 1  # elements of a register
        odd = sums != own or int(columns) != 2 * count * per or int(depth) != _DEPTHS.get(kind, 0)
        odd |= (per == 2 and kind not in _HALVES) or begins != (added == "0")
        wide = kind in ("f16", "bf16")
        known = ("",) if total == "s32" else (", 1, 1",)
        if wide:
            more = ("0", "1") if words else ("0, 0", "0, 1")
            known = tuple(f"{known[0]}, {m}" for m in more)
        if odd or kind not in _KINDS or flags not in known:
            raise NotModelledError(f"inline assembly: {step[0]}")
        lines, pointer, left = [], "null", "0"
        if words:
            for k, word in enumerate(words.split(", ")):
                lines.append(f"  %w{n}.{k} = getelementptr i32, ptr %words, i64 {k}")
                lines.append(f"  store i32 %a{int(word[1:]) - count}, ptr %w{n}.{k}")
            pointer = "%words"
        else:
            left = f"%a{int(a) - count}"
        right = f"%a{int(b) - count}"
        transposed = int(wide and flags.endswith("1"))
        place = f"i32 {columns}, i32 {_KINDS.index(kind)}, i32 {transposed}, i32 {per - 1}"
        call = f"i32 %site, ptr %sum, ptr {pointer}, i64 {left}, i64 {right}, {place}"
        return [*lines, f"  call void @model_wgmma({call})"]
