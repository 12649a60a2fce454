"""`@kernel` and `@device`."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from ..core import Kernel
from ..dtypes import DType, FragmentType, Type, VectorType
from .diagnostics import Diagnostic
from .liveness import NONE, Names, calls, indexed
from .parameters import Parameters
from .scope import Scope
from .source import Source, read_source
from .surface import OutsideKernelError

_TYPES = (DType, VectorType, FragmentType)
FAST = ("approximate", "contract", "reassociate")


class DeviceFunction:
    """A function that kernels call; inlined where it is called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.source: Source = read_source(function)
        self.name = function.__name__
        self.__name__ = self.name
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.scope = Scope(function)
        self.signature = inspect.signature(function).replace(
            return_annotation=inspect.Signature.empty
        )
        parameters = self.signature.parameters.values()
        for p in parameters:
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                _refuse(self.source, self.source.node, f"*{p.name} is not supported in a kernel")
        annotated = {p.name: self._type(p.annotation) for p in parameters}
        # A parameter annotated with a type accepts only that type.
        self.types: dict[str, Type] = {
            name: t for name, t in annotated.items() if isinstance(t, _TYPES)
        }
        self.signature = self.signature.replace(
            parameters=[p.replace(annotation=p.empty) for p in parameters]
        )
        self.parameters = Parameters(self.signature)

    @functools.cached_property
    def written(self) -> Names:
        """Parameters of which the function assigns an element, or has another one assign it."""
        self.__dict__["written"] = NONE  # for one that calls itself, which tracing refuses
        body = self.source.node.body
        found = set(indexed(*body))
        for name, call in calls(*body):
            if function := device_function(self.scope.lookup, name):
                found |= function.writes(call)
        return frozenset(found.intersection(self.signature.parameters))

    def writes(self, call: ast.Call) -> Names:
        """Names among the arguments of a call of which this function assigns an element."""
        given = dict(zip(self.signature.parameters, call.args, strict=False))
        given |= {k.arg: k.value for k in call.keywords if k.arg is not None}
        names = (given[name] for name in self.written if name in given)
        return frozenset(name.id for name in names if isinstance(name, ast.Name))

    def _type(self, annotation: Any) -> Any:
        """The type that a parameter is annotated with; anything else is documentation."""
        if isinstance(annotation, str):
            try:
                return self.scope.lookup(annotation)
            except KeyError:
                return None
        return annotation

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise OutsideKernelError(f"{self.name}() is a device function; only kernels call it")

    def __repr__(self) -> str:
        return f"<device function {self.name}>"


def device_function(lookup: Callable[[str], Any], name: str) -> DeviceFunction | None:
    """The device function of that name, if it is one."""
    try:
        found = lookup(name)
    except KeyError:
        return None
    return found if isinstance(found, DeviceFunction) else None


class KernelFunction:
    """A kernel as its author wrote it: `trace` specializes it to kernel IR.

    name, file: of the source. constexprs: name -> (kind, default); `inspect.Parameter.empty` where
    a specialization must give the value.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        from .signature import read_constexprs

        self.source: Source = read_source(function)
        self.name = function.__name__
        self.__name__ = self.name
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.scope = Scope(function)
        fast = options.get("fast", ())
        self.fast = None if callable(fast) else fast_flags(self.source, self.source.node, fast)
        self.options = _option_nodes(self.source)
        self.constexprs = read_constexprs(self, function)

    @property
    def file(self) -> str:
        return self.source.file

    def trace(self, specialization: str, /, **constexprs: Any) -> Kernel:
        """The kernel IR of one specialization, renumbered and verified.

        Raises Diagnostic for what the source or the constexprs get wrong.
        """
        from .specialize import specialize

        return specialize(self, specialization, constexprs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise OutsideKernelError(
            f"{self.name}() is a kernel; build it, then launch it through gristmill.runtime"
        )

    def __repr__(self) -> str:
        return f"<kernel {self.name} of {self.file}>"


def kernel(
    *,
    workgroup: Any = (1, 1, 1),
    grid: Any = None,
    fast: Iterable[str] | Callable[[], Iterable[str]] = (),
) -> Callable[[Callable[..., Any]], KernelFunction]:
    """Make a function into a kernel.

    workgroup: a lambda giving the invocations per workgroup from constexprs, one to three ints.
    grid: a lambda giving the workgroups from lengths of buffers, scalars and constexprs.
    fast: what numerics may give up, of "contract", "reassociate", "approximate"; or a lambda that
    gives it from constexprs.
    The lambdas are read from the source and never called.
    """
    if callable(workgroup) and not inspect.isfunction(workgroup):
        raise TypeError("write @kernel(workgroup=lambda: ...), with its parentheses")

    def decorate(function: Callable[..., Any]) -> KernelFunction:
        return KernelFunction(function, {"workgroup": workgroup, "grid": grid, "fast": fast})

    return decorate


def device(function: Callable[..., Any]) -> DeviceFunction:
    """Make a function callable from kernels and usable as a constexpr of kind Function."""
    return DeviceFunction(function)


def fast_flags(source: Source, node: ast.AST, flags: object) -> tuple[str, ...]:
    """The flags that a kernel declares, sorted. Diagnostic for one that is not known."""
    found = tuple(flags) if isinstance(flags, Iterable) and not isinstance(flags, str) else (flags,)
    for flag in found:
        if flag not in FAST:
            _refuse(source, node, f"fast knows {', '.join(FAST)}, not {flag!r}")
    return tuple(sorted(set(map(str, found))))


def _option_nodes(source: Source) -> dict[str, ast.expr]:
    """The expressions of the options as the decorator states them."""
    found: dict[str, ast.expr] = {}
    for decorator in source.node.decorator_list:
        if isinstance(decorator, ast.Call):
            for keyword in decorator.keywords:
                if keyword.arg in ("workgroup", "grid", "fast"):
                    value = keyword.value
                    found[keyword.arg] = value.body if isinstance(value, ast.Lambda) else value
    return found


def _refuse(source: Source, node: ast.AST, message: str, constexpr: str = "") -> NoReturn:
    loc = source.loc(node)
    width = source.width(node)
    raise Diagnostic(message, loc, source.text(loc.line), width, constexpr=constexpr)
