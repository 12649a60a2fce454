"""Random programs in Python: compiled as kernels they compute what Python computes.

A program is a function of two small integers, `program(a, b)`, with the helpers that it calls. It
goes through the tracer as a device function, and through Python as it stands.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator

NAMES = ("a", "b", "x", "y", "z")
CELLS = 8  # of the register array `c`


class Writer:
    """Writes one function of a and b: ifs, loops, early exits, calls, matches; small ints only."""

    def __init__(self, seed: str) -> None:
        self.r = random.Random(seed)
        self.lines: list[str] = []
        self.fresh = 0
        self.numbers: list[str] = []  # of the iterations of the unrolled loops around

    def atom(self) -> str:
        r = self.r
        if self.numbers and r.random() < 0.2:
            return r.choice([r.choice(self.numbers), self.cell()])
        return r.choice([*NAMES, str(r.randint(-9, 9))])

    def cell(self) -> str:
        """A cell of the register array, mostly that with the number of an unrolled iteration."""
        r = self.r
        known = str(r.randint(0, CELLS - 1))
        return (
            f"c[{r.choice([*self.numbers[-1:] * 4, known, f'{CELLS - 1} - {self.numbers[-1]}'])}]"
        )

    def expr(self, depth: int = 2) -> str:
        r = self.r
        if depth == 0 or r.random() < 0.3:
            return self.atom()
        kind = r.random()
        if kind < 0.6:
            return f"({self.expr(depth - 1)} {r.choice('+-')} {self.expr(depth - 1)})"
        if kind < 0.7:
            return f"({self.expr(depth - 1)} % {r.choice([3, 7, -5])})"
        if kind < 0.8:
            return f"({self.expr(depth - 1)} // {r.choice([2, 3, -4])})"
        if kind < 0.9:
            return f"({self.expr(depth - 1)} if {self.cond(1)} else {self.expr(depth - 1)})"
        return f"min({self.expr(depth - 1)}, {self.expr(depth - 1)})"

    def cond(self, depth: int = 1) -> str:
        r = self.r
        link = f"{self.expr(1)} {r.choice(['<', '<=', '==', '!=', '>', '>='])} {self.expr(1)}"
        if depth == 0 or r.random() < 0.5:
            return link
        kind = r.random()
        if kind < 0.3:
            return f"{self.atom()} < {self.atom()} <= {self.atom()}"
        if kind < 0.5:
            return f"not ({self.cond(depth - 1)})"
        return f"({self.cond(depth - 1)} {r.choice(['and', 'or'])} {self.cond(depth - 1)})"

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def block(self, depth: int, budget: int, loops: int) -> None:
        for _ in range(self.r.randint(1, 3)):
            self.statement(depth, budget, loops)

    def statement(self, depth: int, budget: int, loops: int) -> None:
        r = self.r
        kind = r.random() if budget > 0 else r.random() * 0.35
        if kind < 0.28:
            name = r.choice(NAMES)
            if self.numbers and r.random() < 0.4:
                self.put(depth, f"{self.cell()} = ({self.expr()}) % 101")
            elif r.random() < 0.3:
                self.put(depth, f"{name} {r.choice(['+=', '-='])} {self.expr(1)}")
                self.put(depth, f"{name} %= 1009")
            else:
                self.put(depth, f"{name} = ({self.expr()}) % 101")
        elif kind < 0.31 and loops:
            self.put(depth, f"if {self.cond()}:")
            self.put(depth + 1, r.choice(["break", "continue"]))
        elif kind < 0.35:
            self.put(depth, f"if {self.cond()}:")
            self.put(depth + 1, f"return {self.expr()}")
        elif kind < 0.6:
            self.put(depth, f"if {self.cond()}:")
            self.block(depth + 1, budget - 1, loops)
            if r.random() < 0.3:
                self.put(depth, f"elif {self.cond()}:")
                self.block(depth + 1, budget - 1, loops)
            if r.random() < 0.6:
                self.put(depth, "else:")
                self.block(depth + 1, budget - 1, loops)
        elif kind < 0.75:
            self.fresh += 1
            v = f"v{self.fresh}"
            ranges = [f"range({r.randint(0, 5)})", "range(a % 5)", "range(b % 7, -3, -2)",
                      "range(-3, x % 6, 2)", "range(5, 0, -1)", "range(a % 7, b % 7, x % 5 - 6)",
                      f"static_range({r.randint(0, 3)})"]  # fmt: skip
            unrolled = ["static_range(6)", "static_range(2, 8)", "static_range(7, 0, -2)"]
            chosen = r.choice(unrolled if r.random() < 0.25 else ranges)
            self.put(depth, f"for {v} in {chosen}:")
            name = r.choice(NAMES)
            self.put(depth + 1, f"{name} = ({name} + {v}) % 211")
            if chosen in unrolled:
                self.numbers.append(v)
            # An early exit ends what one iteration can say of the others.
            self.block(depth + 1, budget - 1, loops + 1 if chosen not in unrolled else 0)
            if chosen in unrolled:
                self.numbers.pop()
        elif kind < 0.87:
            self.fresh += 1
            v = f"n{self.fresh}"
            self.put(depth, f"{v} = {r.randint(0, 6)}")
            self.put(
                depth, f"while {v} > 0 and {self.cond(0)}:" if r.random() < 0.6 else "while True:"
            )
            self.put(depth + 1, f"{v} -= 1")
            self.put(depth + 1, f"if {v} < 0:")
            self.put(depth + 2, "break")
            self.block(depth + 1, budget - 1, loops + 1)
        elif kind < 0.94:
            self.put(depth, f"match ({self.expr(1)}) % 4:")
            cases = r.choice([["0", "1"], ["2"], ["0 | 3", "1"], ["0", "k if k > 1"]])
            for case in cases:
                self.put(depth + 1, f"case {case}:")
                self.block(depth + 2, budget - 1, loops)
            if r.random() < 0.5:
                self.put(depth + 1, "case _:")
                self.block(depth + 2, budget - 1, loops)
        else:
            self.put(depth, f"{r.choice(NAMES)} = helper({self.expr(1)}, {self.expr(1)})")

    def source(self) -> str:
        self.put(0, "def static_range(*n): return range(*n)")
        self.put(0, "def registers(element, n): return [0] * n")
        self.put(0, "i32 = int")
        self.put(0, "def helper(p, q):")
        self.put(1, "for j in range(4):")
        self.put(2, "if p > q + j:")
        self.put(3, "return p - j")
        self.put(1, "return q % 11")
        self.put(0, "def program(a, b):")
        self.put(1, f"c = registers(i32, {CELLS})")
        self.put(1, "x, y, z = 1, a - b, 0")
        self.block(1, 4, 0)
        self.block(1, 3, 0)
        cells = " + ".join(f"{n + 1} * c[{n}]" for n in range(CELLS))
        self.put(1, f"return x + 3 * y - z + a % 5 - b + {cells}")
        return "\n".join(self.lines) + "\n"


def source(seed: int, number: int) -> str:
    """Program `number` of a seed."""
    return Writer(f"{seed} {number}").source()


def variants(text: str) -> Iterator[str]:
    """Smaller programs: statements left out, and blocks in place of what holds them."""
    tree = ast.parse(text)
    count = len(list(_blocks(tree)))
    for n in range(count):
        size = len(list(_blocks(tree))[n])
        part = size
        while part:
            for first in range(0, size, part):
                less = copy.deepcopy(tree)
                block = list(_blocks(less))[n]
                block[first : first + part] = []
                block.extend([] if block else [ast.Pass()])
                yield ast.unparse(less)
            part //= 2
        for place in range(size):
            for field in ("body", "orelse"):
                less = copy.deepcopy(tree)
                block = list(_blocks(less))[n]
                inner = getattr(block[place], field, [])
                if inner and not isinstance(block[place], ast.FunctionDef):
                    block[place : place + 1] = inner
                    yield ast.unparse(less)


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements within functions, outer ones first."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module):
            continue
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            if isinstance(block, list) and block:
                yield block
