"""The header of a kernel: names, sizes, parameters. Part of `verify`."""

from __future__ import annotations

import re

from .core import Kernel, Loc, Param, Value
from .dtypes import Access, DType, MemType, Space, Type, element_of, u32, unsigned
from .verify_attrs import check_grid

FAST = ("approximate", "contract", "reassociate")
_NAME = re.compile(r"[A-Za-z_]\w*")
_WORD = re.compile(r"[\w.+-]+")
_SHOWN = 1000  # characters of a message


class VerifyError(Exception):
    """A kernel that is malformed: which, what is wrong, and the source place if it is known.

    cause: the second place that the message speaks of (where control diverges).
    """

    def __init__(
        self, kernel: str, message: str, loc: Loc | None = None, cause: Loc | None = None
    ) -> None:
        if len(message) > _SHOWN:
            message = f"{message[:_SHOWN]}..."
        place = f"{loc}: " if loc else ""
        also = f" (control diverges at {cause})" if cause else ""
        super().__init__(f"{place}kernel {kernel:.200}: {message}{also}")
        self.kernel, self.message, self.loc, self.cause = kernel, message, loc, cause

    def __reduce__(self) -> tuple[type[VerifyError], tuple[object, ...]]:
        return VerifyError, (self.kernel, self.message, self.loc, self.cause)


class HeaderChecker:
    """Checks everything but the ops."""

    def __init__(self, kernel: Kernel) -> None:
        self.k = kernel

    def require(self, condition: bool, message: str) -> None:
        if not condition:
            raise VerifyError(str(self.k.name), message)

    def header(self) -> None:
        k = self.k
        self.require(bool(_NAME.fullmatch(k.name)), f"{k.name!r} is no name of a kernel")
        self.require(
            bool(_WORD.fullmatch(k.specialization)),
            f"{k.specialization!r} is no name of a specialization",
        )
        whole = len(k.workgroup) == 3 and all(type(n) is int and n > 0 for n in k.workgroup)
        self.require(whole, f"a workgroup has three positive sizes, found {k.workgroup}")
        self.require(str(k.index) in ("i32", "i64"), f"the index type is i32 or i64, not {k.index}")
        self.require(
            list(k.fast) == sorted(set(k.fast) & set(FAST)),
            f"fast is a sorted subset of {FAST}, found {k.fast}",
        )
        self.require(all(isinstance(s, str) for s in k.sites), "fault sites are messages")
        if k.subgroup is not None:
            power = (
                type(k.subgroup) is int and k.subgroup > 0 and k.subgroup & (k.subgroup - 1) == 0
            )
            self.require(power, f"the subgroup size is a power of two, found {k.subgroup}")
        if k.grid is not None:
            good = len(k.grid) == 3 and all(check_grid(k, e) for e in k.grid)
            self.require(good, f"the grid is not three expressions over the parameters: {k.grid}")

    def param(self, param: Param, value: Value) -> None:
        self.require(bool(_NAME.fullmatch(param.name)), f"{param.name!r} is no name of a parameter")
        names = [p.name for p in self.k.params]
        self.require(names.count(param.name) == 1, f"two parameters are called {param.name}")
        kinds = ("buffer", "slot", "scalar")
        self.require(param.kind in kinds, f"parameter {param.name} is of kind {param.kind!r}")
        self.require(isinstance(param.dtype, DType), f"parameter {param.name} has no scalar type")
        expected: Type = param.dtype
        if param.is_memory:
            access = param.access if param.kind == "buffer" else Access.READ
            expected = MemType(Space.BUFFER, param.dtype, None, access)
            if _is_stored_as(param, value.type):
                expected = value.type
        self.require(
            value.type == expected,
            f"parameter {param.name} is {expected}, but its value is {value.type}",
        )


def _is_stored_as(param: Param, found: Type) -> bool:
    """Whether a buffer is seen as unsigned integers of its width or as words, as legalization
    leaves it where a target has no such type or access; a store of a part of a word is an atomic,
    hence readwrite."""
    if not isinstance(found, MemType) or found.space is not Space.BUFFER:
        return False
    if element_of(found) == u32 and param.dtype.bits < 32:
        return found.access in (Access.READWRITE, param.access)
    return element_of(found) == unsigned(param.dtype) and found.access is param.access
