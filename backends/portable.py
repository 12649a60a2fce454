"""Whether a trace is the same whatever Python, numpy, C library and CPU execute its module.

The tracer reads kernels from their syntax and computes their constants exactly (`ir.lang`), so the
IR of a kernel depends on the host only through values of modules that the kernel names. From the
syntax alone, `host_reason` follows these names. They may be kernels and device functions, names of
the kernel language, and constants of literals by operations that are exact or correctly rounded
everywhere. Whatever else a kernel names, and a module that can change what another statement has
bound, is a reason: what is not shown to be portable costs another trace, never a wrong one. (It is
no guard against a module that hides what it does, such as by changing a library's own tables.)
"""

from __future__ import annotations

import ast
import builtins
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

PACKAGE = "gristmill.kernels"
LANGUAGE = ("ir.lang", "ir.dtypes")  # of the trace stage's digest
_NUMBERS = ("math", "numpy")
# What modules may import: nothing of it changes what kernels name.
_HARMLESS = frozenset(
    {"__future__", "typing", "collections", "collections.abc", "dataclasses", "enum"}
    | {"functools", "itertools", "operator", "ir.ops", "ir.ops.meaning", "ir.float8"}
)
# How code gets at names other than by their own; so do names between double underscores.
_HOSTILE = frozenset({"globals", "locals", "vars", "exec", "eval", "setattr", "delattr"})
_DUNDERS = frozenset({"__all__", "__doc__", "__name__", "__init__", "__post_init__"})
_LOOKED_AT = (
    *(ast.Name, ast.Attribute, ast.Subscript, ast.FunctionDef),
    *(ast.Global, ast.Import, ast.ImportFrom),
)
_EXACT = frozenset({"int", "float", "bool", "len", "min", "max", "abs", "tuple", "range"})
_EXACT_MATH = frozenset({"sqrt", "floor", "ceil", "trunc", "gcd", "lcm", "isqrt", "copysign"})
_CONSTANTS = frozenset({"pi", "e", "tau", "inf", "nan", "euler_gamma"})
_TYPES = frozenset(
    {"bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
    | {"float16", "float32", "float64"}
)

# A module of kernels/, a name in it, and whether another module asks for it.
Name = tuple[str, str, bool]


class _HostError(Exception):
    """What may depend on the host: `FILE:LINE: what`."""


# Sources that cannot be read are not portable; tracing says what is wrong with them.
_FAILURES = (_HostError, SyntaxError, ValueError, RecursionError, MemoryError)


def host_reason(
    sources: Mapping[str, bytes], module: str, kernel: str, constexprs: Mapping[str, Any]
) -> str:
    """Why a trace may differ between hosts, with its place; empty where it cannot.

    sources, module, kernel, constexprs: as of `backends.trace.trace`.
    """
    try:
        modules = {_stem(path): _module(path, data) for path, data in sources.items()}
        left: list[Name] = [(module, name, False) for name in (kernel, *_words(constexprs))]
        seen: set[Name] = set()
        while left:
            if (name := left.pop()) not in seen:
                seen.add(name)
                if name[0] not in modules:
                    raise _HostError(f"kernels/{name[0]}.py is not among the sources")
                left += modules[name[0]].names(*name[1:])
    except _FAILURES as reason:
        told = isinstance(reason, _HostError)
        return str(reason) if told else f"{type(reason).__name__}: {reason}"
    return ""


def _stem(path: str) -> str:
    return path.rsplit("/", 1)[-1].removesuffix(".py")


def _words(value: Any) -> Iterator[str]:
    """Every string of a constexpr: it may name a device function."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _words(item)


@functools.lru_cache(maxsize=256)
def _module(path: str, data: bytes) -> _Module:
    return _Module(path, ast.parse(data))


def _origin(node: ast.stmt) -> str:
    """The module of a `from ... import`: `.x` for a sibling, `.` for their package, `ir.x` within
    the project. Empty for any other statement."""
    if not isinstance(node, ast.ImportFrom):
        return ""
    name = node.module or ""
    if node.level > 2:
        return "?"
    if node.level == 1 or (node.level == 0 and f"{name}.".startswith(f"{PACKAGE}.")):
        return "." + (name if node.level else name.removeprefix(PACKAGE).lstrip("."))
    return name if node.level else name.removeprefix("gristmill.")


def _of_language(origin: str) -> bool:
    return any(origin == part or origin.startswith(f"{part}.") for part in LANGUAGE)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it, each before what it holds; ast.walk takes three times as long."""
    left: list[Any] = [node]
    while left:
        node = left.pop()
        yield node
        for value in vars(node).values():
            if isinstance(value, list):
                left += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                left.append(value)


def _bound(node: ast.AST) -> Iterator[str]:
    """The names that a statement binds in its own scope, more than once where it may."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
        outside: list[Any] = [*node.decorator_list]
        outside += [*node.bases, *node.keywords] if isinstance(node, ast.ClassDef) else [node.args]
    else:
        outside = [*ast.iter_child_nodes(node)]
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]
        for field in ("name", "rest"):  # of except clauses and patterns
            name = getattr(node, field, None)
            if isinstance(name, str) and not isinstance(node, ast.alias):
                yield name
    for child in outside:
        yield from _bound(child)


@dataclass(frozen=True, slots=True)
class _Binding:
    """A name of a module: the statement of its top level that binds it, and what to."""

    statement: ast.stmt
    real: str = ""  # what it is called in the module that it is imported from


class _Module:
    """One file of kernels/: what binds each name. _HostError where it may change what others do."""

    def __init__(self, path: str, tree: ast.Module) -> None:
        self.path, self.stem = path, _stem(path)
        self.stars = False  # whether it has all names of the kernel language
        self._bindings: dict[str, list[_Binding]] = {}
        self._known: dict[str, tuple[Name, ...]] = {}
        for statement in tree.body:
            for name in _bound(statement):
                self._bindings.setdefault(name, []).append(_Binding(statement))
            if isinstance(statement, ast.Import | ast.ImportFrom):
                for alias in statement.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    self._bindings[name][-1] = _Binding(statement, alias.name)
        for node in _walk(tree):
            if isinstance(node, _LOOKED_AT):
                self._look(node)

    def fail(self, node: ast.AST, what: str) -> _HostError:
        return _HostError(f"{self.path}:{getattr(node, 'lineno', 1)}: {what}")

    def _look(self, node: ast.AST) -> None:
        """Refuse what can change the bindings of this module or another one."""
        name = getattr(node, "id", None) or getattr(node, "attr", None) or ""
        if name in _HOSTILE or (name.startswith("__") and name not in _DUNDERS):
            raise self.fail(node, f"{name} can change what kernels see")
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                raise self.fail(node, f"the attribute {node.attr} is set")
            case ast.Subscript(value=ast.Name(id=base), ctx=ast.Store() | ast.Del()):
                if any(b.real for b in self._bindings.get(base, ())):
                    raise self.fail(node, f"{base}, which is imported, is changed")
            case ast.FunctionDef(name="__getattr__"):
                raise self.fail(node, "__getattr__ can change what kernels see")
            case ast.Global(names=names):
                for name in names:
                    self._bindings.setdefault(name, []).append(_Binding(node))
            case ast.Import(names=aliases):
                for alias in aliases:
                    self._imports(node, alias.name)
            case ast.ImportFrom(names=aliases):
                origin = _origin(node)
                self._imports(node, origin)
                if any(alias.name == "*" for alias in aliases):
                    if not _of_language(origin):
                        raise self.fail(node, f"all of {origin} is imported")
                    self.stars = True

    def _imports(self, node: ast.AST, origin: str) -> None:
        sibling = origin.startswith(".") and "." not in origin[1:]
        if not (sibling or origin in _HARMLESS or origin in _NUMBERS or _of_language(origin)):
            raise self.fail(node, f"{origin} is imported, which may do anything")

    def names(self, name: str, foreign: bool = False) -> tuple[Name, ...]:
        """What a name's value is made of. _HostError where that may depend on the host.

        foreign: it was asked for by another module, which must not mean a name of Python's own.
        """
        if name not in self._bindings and foreign and not self.stars:
            raise _HostError(f"{self.path}: {name} is bound by nothing that is seen")
        if name not in self._known:
            self._known[name] = tuple(dict.fromkeys(self._names(name)))
        return self._known[name]

    def _names(self, name: str) -> Iterator[Name]:
        bindings = self._bindings.get(name, [])
        if not bindings:
            return  # of the language, or Python's own: the tracer's table gives it a meaning
        statement = bindings[-1].statement
        if len(bindings) > 1:
            raise self.fail(statement, f"{name} is bound more than once")
        match statement:
            case ast.ImportFrom() if _of_language(_origin(statement)):
                return
            case ast.ImportFrom() if (origin := _origin(statement))[:1] == "." and origin != ".":
                yield origin[1:], bindings[0].real, True
            case ast.ImportFrom(module=module, level=0) if module in _NUMBERS:
                if bindings[0].real not in _CONSTANTS | _TYPES:
                    raise self.fail(statement, f"{name} is computed by the host's {module}")
            case ast.FunctionDef(decorator_list=[decorator]) if self._is_ours(decorator):
                yield from self._function(statement, decorator)
            case ast.Assign(targets=[ast.Name()], value=value):
                yield from self._constant(value)
            case ast.AnnAssign(target=ast.Name(), value=ast.expr() as value):
                yield from self._constant(value)
            case _:
                raise self.fail(statement, f"{name} is no constant, kernel or device function")

    def _is_ours(self, decorator: ast.expr) -> bool:
        """Whether a decorator is `kernel` or `device` of the kernel language."""
        base = decorator.func if isinstance(decorator, ast.Call) else decorator
        if not isinstance(base, ast.Name) or base.id not in ("kernel", "device"):
            return False
        match self._bindings.get(base.id, []):
            case []:
                return self.stars
            case [_Binding(ast.ImportFrom() as statement, real)]:
                return _of_language(_origin(statement)) and real == base.id
        return False

    def _function(self, function: ast.FunctionDef, decorator: ast.expr) -> Iterator[Name]:
        """What a kernel or device function names: its text is traced, never executed. Defaults of
        parameters and options that are no lambdas are."""
        arguments = function.args
        executed = [*arguments.defaults, *filter(None, arguments.kw_defaults)]
        traced: list[ast.AST] = [*function.body]
        for option in decorator.keywords if isinstance(decorator, ast.Call) else ():
            if isinstance(option.value, ast.Lambda):
                traced.append(option.value.body)
            else:
                executed.append(option.value)
        for value in executed:
            yield from self._constant(value)
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        traced += [a.annotation for a in every if a.annotation]
        own = {a.arg for a in every}
        for node in (n for part in function.body for n in _walk(part)):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                own.add(node.id)
            elif isinstance(node, ast.Global | ast.Nonlocal):
                raise self.fail(node, f"{function.name} reaches out of its function")
        for part in traced:
            yield from self._traced(part, own)

    def _traced(self, part: ast.AST, own: set[str]) -> Iterator[Name]:
        """Every name outside the function that traced code may look up. own: its own names."""
        inner = set()  # nodes that are looked at with the one around them
        for node in _walk(part):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if self._numbers(node.func.value):  # a function that the tracer knows
                    inner |= {id(node.func), id(node.func.value)}
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if id(node) not in inner and node.value.id not in own:
                    inner.add(id(node.value))
                    yield from self._attribute(node)
            elif isinstance(node, ast.Name) and id(node) not in inner and node.id not in own:
                yield self.stem, node.id, False
            elif node is part and isinstance(node, ast.Constant):  # an annotation in quotes
                yield self.stem, str(node.value), False

    def _numbers(self, node: ast.expr) -> str:
        """`math` or `numpy`, where an expression is that module."""
        match self._bindings.get(node.id, []) if isinstance(node, ast.Name) else []:
            case [_Binding(ast.Import(), real)] if real in _NUMBERS:
                return real
        return ""

    def _attribute(self, node: ast.Attribute) -> Iterator[Name]:
        """`math.pi`, `np.float32`, `sibling.name`; of what is no module, the thing itself."""
        assert isinstance(node.value, ast.Name)
        base = node.value.id
        if self._numbers(node.value):
            if node.attr not in _CONSTANTS | _TYPES:
                raise self.fail(node, f"{base}.{node.attr} is of the host")
            return
        match self._bindings.get(base, []):
            case [_Binding(ast.ImportFrom() as statement, real)] if _origin(statement) == ".":
                yield real, node.attr, True
            case [_Binding(ast.ImportFrom() as statement, "lang")] if _origin(statement) == "ir":
                return
            case _:
                yield self.stem, base, False

    def _constant(self, node: ast.expr) -> Iterator[Name]:
        """What an expression is made of that Python executes, and whose value no host changes."""
        parts: list[ast.expr]
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None):
                return
            case ast.Name(id=name):
                if name not in self._bindings and name not in _EXACT and hasattr(builtins, name):
                    raise self.fail(node, f"{name} is of the host")
                yield self.stem, name, False
                return
            case ast.Attribute(value=ast.Name()):
                yield from self._attribute(node)
                return
            case ast.Tuple(elts=parts) | ast.BoolOp(values=parts):
                pass
            case ast.UnaryOp(operand=operand):
                parts = [operand]
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                if not (_is_whole(left) and _is_whole(right)):
                    raise self.fail(node, "** of other than whole numbers calls the C library")
                parts = []
            case ast.BinOp(left=left, right=right):
                parts = [left, right]
            case ast.Compare(left=left, ops=ops, comparators=others):
                if any(isinstance(op, ast.Is | ast.IsNot) for op in ops):
                    raise self.fail(node, "which objects are one is up to the host")
                parts = [left, *others]
            case ast.IfExp(test=test, body=body, orelse=other):
                parts = [test, body, other]
            case ast.Subscript(value=value, slice=index):
                parts = [value, index]
            case ast.Call(func=function, args=parts, keywords=[]) if self._is_exact(function):
                pass
            case _:
                kind = type(node).__name__
                raise self.fail(node, f"what this {kind} gives may depend on the host")
        for part in parts:
            yield from self._constant(part)

    def _is_exact(self, function: ast.expr) -> bool:
        """Whether a function's result is exact or correctly rounded on any host."""
        match function:
            case ast.Attribute(value=base, attr=name):
                return self._numbers(base) == "math" and name in _EXACT_MATH
            case ast.Name(id=name):
                match self._bindings.get(name, []):
                    case []:
                        return name in _EXACT or (self.stars and not hasattr(builtins, name))
                    case [_Binding(ast.ImportFrom() as statement, real)]:
                        origin = _origin(statement)
                        return _of_language(origin) or (origin == "math" and real in _EXACT_MATH)
        return False


def _is_whole(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value >= 0
