"""Which variables a function may still read at each point: backward analysis of the AST.

Only live variables are carried by loops and merged after branches, so that a name may be reused
for values of another type once its old value is no longer wanted.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

Names = frozenset[str]
NONE: Names = frozenset()
Calls = tuple[tuple[str, ast.Call], ...]  # what is called, by name, and the call


def stored(*nodes: ast.AST) -> Names:
    """Names that the nodes assign."""
    found: set[str] = set()
    for root in nodes:
        for node in ast.walk(root):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
                found.add(node.name)
    return frozenset(found)


def loaded(*nodes: ast.AST | None) -> Names:
    """Names that the nodes read."""
    return frozenset(
        node.id
        for root in nodes
        if root is not None
        for node in ast.walk(root)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    )


def indexed(*nodes: ast.AST) -> Names:
    """Names of which the nodes assign an element."""
    return frozenset(
        node.value.id
        for root in nodes
        for node in ast.walk(root)
        if isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
    )


def calls(*nodes: ast.AST) -> Calls:
    """Calls of what has a plain name, with names among the arguments."""
    return tuple(
        (node.func.id, node)
        for root in nodes
        for node in ast.walk(root)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and any(isinstance(a, ast.Name) for a in (*node.args, *(k.value for k in node.keywords)))
    )


@dataclass(frozen=True)
class Repetition:
    """The text of a loop. plain: its iterations end where it ends, and leave its variable alone.
    assigned: names. numbered: names of which it takes the element with the number of the iteration;
    computed: those of which it takes one that it computes of the number.
    """

    plain: bool
    assigned: Names
    numbered: Names
    computed: Names


_ELSEWHERE = (ast.Break, ast.Continue, ast.Return, ast.Match)  # where control may go


def repetition(loop: ast.For) -> Repetition:
    """Look at the text of a loop."""
    variable = loop.target.id if isinstance(loop.target, ast.Name) else ""
    inner = [node for part in loop.body for node in ast.walk(part)]
    numbered, computed = set(), set()
    for node in inner:
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            if isinstance(node.slice, ast.Name) and node.slice.id == variable:
                numbered.add(node.value.id)
            elif variable in loaded(node.slice):
                computed.add(node.value.id)
    assigned = stored(*loop.body)
    stays = not any(isinstance(node, _ELSEWHERE) for node in inner)
    plain = stays and variable not in {"", *assigned}
    return Repetition(plain, assigned, frozenset(numbered), frozenset(computed))


class Liveness:
    """What a function's statements do with its names.

    after[id(stmt)]: names live behind a statement. Of loops, by id: head, the names live at the
    head; assigned, those that the loop assigns; indexed, those of which it assigns an element;
    calls, what it calls with names; returning, the loops that hold a return.
    """

    def __init__(self, function: ast.FunctionDef) -> None:
        self.after: dict[int, Names] = {}
        self.head: dict[int, Names] = {}
        self.assigned: dict[int, Names] = {}
        self.indexed: dict[int, Names] = {}
        self.calls: dict[int, Calls] = {}
        self.returning: set[int] = set()
        self._behind: dict[int, Names] = {}  # names live behind a loop, when it was looked at
        self._block(function.body, NONE, NONE, NONE)

    def _block(self, body: Sequence[ast.stmt], out: Names, brk: Names, cont: Names) -> Names:
        for statement in reversed(body):
            self.after[id(statement)] = out
            out = self._statement(statement, out, brk, cont)
        return out

    def _statement(self, node: ast.stmt, out: Names, brk: Names, cont: Names) -> Names:
        if isinstance(node, ast.Return):
            return loaded(node.value)
        if isinstance(node, ast.Break):
            return brk
        if isinstance(node, ast.Continue):
            return cont
        if isinstance(node, ast.If):
            arms = (self._block(b, out, brk, cont) for b in (node.body, node.orelse))
            return loaded(node.test).union(*arms)
        if isinstance(node, ast.Match):
            arms = (self._case(c, out, brk, cont) for c in node.cases)
            return loaded(node.subject).union(out, *arms)
        if isinstance(node, ast.While):
            return self._loop(node, out, loaded(node.test), NONE)
        if isinstance(node, ast.For):
            return self._loop(node, out, NONE, stored(node.target)) | loaded(node.iter)
        if isinstance(node, ast.AugAssign):
            reads = loaded(node.target, node.value)
            target = node.target
            return out | reads | ({target.id} if isinstance(target, ast.Name) else NONE)
        if isinstance(node, ast.Assign):
            return (out - stored(*node.targets)) | loaded(node)
        if isinstance(node, ast.AnnAssign):
            return (out - stored(node.target)) | loaded(node.value, node.target)
        return out | loaded(node)

    def _case(self, case: ast.match_case, out: Names, brk: Names, cont: Names) -> Names:
        return self._block(case.body, out, brk, cont) | loaded(case.guard, case.pattern)

    def _loop(self, node: ast.While | ast.For, out: Names, test: Names, target: Names) -> Names:
        # A loop within others is looked at for each of their turns, mostly with the same outcome.
        if self._behind.get(id(node)) == out:
            return self.head[id(node)]
        self._behind[id(node)] = out
        head = self.head.get(id(node), NONE) | out | test
        while True:
            body = self._block(node.body, head, out, head) - target
            if body <= head:
                break
            head |= body
        self.head[id(node)] = head
        self.assigned[id(node)] = stored(node)
        self.indexed[id(node)] = indexed(node)
        self.calls[id(node)] = calls(node)
        if any(isinstance(n, ast.Return) for s in node.body for n in ast.walk(s)):
            self.returning.add(id(node))
        self._block(node.orelse, out, NONE, NONE)
        return head
