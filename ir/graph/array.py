"""A value of a graph in its author's hands: numpy's operators, methods and broadcasting.

`a == b` compares element by element, as with numpy; arrays are not hashed and have no truth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..dtypes import DType, f32
from .core import Tensor
from .places import caller
from .types import GraphTypeError, TensorType, find_dtype, shown, whole

if TYPE_CHECKING:
    from .builder import GraphBuilder

Number = bool | int | float
Axes = int | Iterable[int] | None


def mistake(what: str) -> GraphTypeError:
    """What an author's line may not say, with that line."""
    return GraphTypeError(what, caller())


class Array:
    """A tensor and the builder that it belongs to."""

    __slots__ = ("builder", "tensor")
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None  # numpy's arrays leave their operators to these

    def __init__(self, builder: GraphBuilder, tensor: Tensor) -> None:
        self.builder, self.tensor = builder, tensor

    @property
    def type(self) -> TensorType:
        return self.tensor.type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.type.shape

    @property
    def dtype(self) -> DType:
        return self.tensor.type.dtype

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def ndim(self) -> int:
        """The rank, as numpy calls it."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.tensor.type.size

    def __repr__(self) -> str:
        return f"<{self.tensor}: {self.type}>"

    def __bool__(self) -> bool:
        raise mistake("an array has no truth while its graph is built: use where(...)")

    def __iter__(self) -> Any:
        raise mistake("an array is not iterated over: take slices of it")

    # operators

    def __pos__(self) -> Array:
        return self

    def __neg__(self) -> Array:
        return self._op("neg", self)

    def __abs__(self) -> Array:
        return self._op("abs", self)

    def __invert__(self) -> Array:
        return self._op("not", self)

    def __add__(self, other: Array | Number) -> Array:
        return binary("add", self, other)

    def __radd__(self, other: Number) -> Array:
        return binary("add", other, self)

    def __sub__(self, other: Array | Number) -> Array:
        return binary("sub", self, other)

    def __rsub__(self, other: Number) -> Array:
        return binary("sub", other, self)

    def __mul__(self, other: Array | Number) -> Array:
        return binary("mul", self, other)

    def __rmul__(self, other: Number) -> Array:
        return binary("mul", other, self)

    def __truediv__(self, other: Array | Number) -> Array:
        return binary("div", self, other)

    def __rtruediv__(self, other: Number) -> Array:
        return binary("div", other, self)

    def __floordiv__(self, other: Array | Number) -> Array:
        return binary("floordiv", self, other)

    def __rfloordiv__(self, other: Number) -> Array:
        return binary("floordiv", other, self)

    def __mod__(self, other: Array | Number) -> Array:
        return binary("mod", self, other)

    def __rmod__(self, other: Number) -> Array:
        return binary("mod", other, self)

    def __pow__(self, other: Array | Number) -> Array:
        return binary("pow", self, other)

    def __rpow__(self, other: Number) -> Array:
        return binary("pow", other, self)

    def __and__(self, other: Array | Number) -> Array:
        return binary("and", self, other)

    def __rand__(self, other: Number) -> Array:
        return binary("and", other, self)

    def __or__(self, other: Array | Number) -> Array:
        return binary("or", self, other)

    def __ror__(self, other: Number) -> Array:
        return binary("or", other, self)

    def __xor__(self, other: Array | Number) -> Array:
        return binary("xor", self, other)

    def __rxor__(self, other: Number) -> Array:
        return binary("xor", other, self)

    def __lshift__(self, other: Array | Number) -> Array:
        return binary("shl", self, other)

    def __rlshift__(self, other: Number) -> Array:
        return binary("shl", other, self)

    def __rshift__(self, other: Array | Number) -> Array:
        return binary("shr", self, other)

    def __rrshift__(self, other: Number) -> Array:
        return binary("shr", other, self)

    def __lt__(self, other: Array | Number) -> Array:
        return binary("lt", self, other)

    def __le__(self, other: Array | Number) -> Array:
        return binary("le", self, other)

    def __gt__(self, other: Array | Number) -> Array:
        return binary("gt", self, other)

    def __ge__(self, other: Array | Number) -> Array:
        return binary("ge", self, other)

    def __eq__(self, other: Array | Number) -> Array:  # type: ignore[override]
        return binary("eq", self, other)

    def __ne__(self, other: Array | Number) -> Array:  # type: ignore[override]
        return binary("ne", self, other)

    def __matmul__(self, other: Array) -> Array:
        from .functions import matmul

        return matmul(self, other)

    def __rmatmul__(self, other: object) -> Array:
        raise mistake(f"{shown(other)} is no array of this graph: make a literal of it")

    # movement

    @property
    def T(self) -> Array:  # noqa: N802 - as numpy has it
        """The last two dimensions exchanged."""
        if self.rank < 2:
            raise mistake(f"{self.type} has no two dimensions to exchange")
        axes = list(range(self.rank))
        axes[-2:] = axes[:-3:-1]
        return self.transpose(*axes)

    def transpose(self, *axes: Any) -> Array:
        """Dimensions in another order, one after the other or as a tuple; without any, reversed."""
        order = _several(axes) or tuple(reversed(range(self.rank)))
        return self._op("transpose", self, axes=tuple(self._axis(axis) for axis in order))

    def reshape(self, *shape: Any) -> Array:
        """Sizes one after the other or as a tuple; one may be -1: what is left over."""
        return self._op("reshape", self, shape=_left_over(_several(shape), self.type))

    def broadcast_to(self, *shape: Any) -> Array:
        """Sizes one after the other or as a tuple."""
        sizes = _several(shape)
        return self if sizes == self.shape else self._op("broadcast", self, shape=sizes)

    def cast(self, dtype: DType | str) -> Array:
        """The values as another element type."""
        try:
            wanted = find_dtype(dtype)
        except GraphTypeError as error:
            raise mistake(error.what) from error
        return self if wanted == self.dtype else self._op("cast", self, dtype=wanted)

    astype = cast

    def __getitem__(self, key: Any) -> Array:
        """Integers, slices with positive steps, `...` and None, as numpy takes them."""
        from .slicing import take_slice

        return take_slice(self, key)

    # along dimensions

    def sum(self, axis: Axes = None, *, keepdims: bool = False) -> Array:
        return self._reduce("sum", axis, keepdims)

    def prod(self, axis: Axes = None, *, keepdims: bool = False) -> Array:
        return self._reduce("prod", axis, keepdims)

    def max(self, axis: Axes = None, *, keepdims: bool = False) -> Array:
        return self._reduce("max", axis, keepdims)

    def min(self, axis: Axes = None, *, keepdims: bool = False) -> Array:
        return self._reduce("min", axis, keepdims)

    def mean(self, axis: Axes = None, *, keepdims: bool = False) -> Array:
        """A sum over their number, of floats; of f16 and bf16 in f32, rounded once."""
        if not (self.dtype.is_float and self.dtype.computes):
            raise mistake(f"the mean of {self.type} is none of floats: cast it")
        wide = self.cast(f32) if self.dtype.bits < 32 else self
        total = wide._reduce("sum", axis, keepdims)
        count = self.type.size // max(total.type.size, 1)
        return (total / float(count)).cast(self.dtype)

    def argmax(self, axis: int) -> Array:
        return self._op("arg_reduce", self, kind="max", axis=self._axis(axis))

    def argmin(self, axis: int) -> Array:
        return self._op("arg_reduce", self, kind="min", axis=self._axis(axis))

    def cumsum(self, axis: int) -> Array:
        return self._op("cumulative", self, kind="sum", axis=self._axis(axis))

    # helpers

    def _op(self, name: str, *operands: Array, **attrs: Any) -> Array:
        return self.builder.op(name, *operands, **attrs)

    def _axis(self, axis: int) -> int:
        place = _index(axis, "an axis")
        if not -self.rank <= place < self.rank:
            raise mistake(f"axis {axis} of {self.type}, which has {self.rank} dimensions")
        return place % self.rank

    def _reduce(self, kind: str, axis: Axes, keepdims: bool) -> Array:
        named = range(self.rank) if axis is None else _several((axis,))
        axes = tuple(sorted(self._axis(n) for n in named))
        if len(set(axes)) < len(axes):
            raise mistake(f"axis {shown(axis)} names a dimension twice")
        if not axes:
            return self
        result = self._op("reduce", self, kind=kind, axes=axes)
        if not keepdims:
            return result
        return result.reshape(*(1 if n in axes else size for n, size in enumerate(self.shape)))


def _index(value: object, what: str) -> int:
    try:
        return whole(value, what)
    except GraphTypeError as error:
        raise mistake(error.what) from error


def _several(values: tuple[Any, ...]) -> tuple[int, ...]:
    """Integers one after the other, or as a tuple or list."""
    if len(values) == 1 and isinstance(values[0], (tuple, list)):
        values = tuple(values[0])
    return tuple(_index(value, "a size or an axis") for value in values)


def _left_over(shape: tuple[int, ...], t: TensorType) -> tuple[int, ...]:
    """A shape of which one number may be -1."""
    if shape.count(-1) != 1:
        return shape
    rest = math.prod(size for size in shape if size != -1)
    if rest <= 0 or t.size % rest:
        raise mistake(f"{t} does not go into shape {list(shape)}")
    return tuple(t.size // rest if size == -1 else size for size in shape)


def together(*values: Array | Number) -> list[Array]:
    """Arrays of one shape: numbers take the element type of the first array, and all are repeated
    to the common shape as numpy does. Raises GraphTypeError where there is none."""
    arrays = [value for value in values if isinstance(value, Array)]
    if not arrays:
        raise mistake("there is no array of a graph among these operands")
    first = arrays[0]
    made = [v if isinstance(v, Array) else first.builder.literal(v, first.dtype) for v in values]
    shape = common_shape([array.shape for array in made])
    return [array.broadcast_to(*shape) for array in made]


def common_shape(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that all of them repeat to."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            shown = " and ".join(str(list(shape)) for shape in shapes)
            raise mistake(f"shapes {shown} have no common one")
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def binary(name: str, a: Array | Number, b: Array | Number) -> Array:
    """An elementwise op of two operands."""
    first, second = together(a, b)
    return first.builder.op(name, first, second)
