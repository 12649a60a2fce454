"""Tensor maps: how the bulk copy engine finds its way in a buffer, encoded at launch.

The manifest says how each is made of the arguments (`ir.extensions.TensorMap`); the driver encodes
it to 128 bytes. A launch with the arguments of an earlier one takes what that one made.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from ....ir.abi import MAP_BYTES, evaluate
from ....ir.dtypes import DTYPES
from ....store.manifest import expression
from ...errors import ArgumentError, DriverError
from .api import Api

ROW_ALIGN = 16  # bytes
_MOST_EXTENT, _MOST_STRIDE = 1 << 32, 1 << 40
_KEPT = 64  # encoded forms of a map
_NAMES = {
    **{"f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "f64": "FLOAT64"},
    **{"i32": "INT32", "u32": "UINT32", "i64": "INT64", "u64": "UINT64"},
    **{"f8e4m3": "UINT8", "f8e5m2": "UINT8"},
    **{"i16": "UINT16", "u16": "UINT16", "i8": "UINT8", "u8": "UINT8", "bool": "UINT8"},
}
_SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}


class MapEncoder:
    """One tensor map of a kernel. fact: as the manifest has it; where: for messages."""

    def __init__(self, api: Api, fact: Mapping[str, Any], where: str) -> None:
        drv = self._drv = api.drv
        self._api, self._where = api, where
        self.buffer = str(fact["buffer"])
        dtype = DTYPES[str(fact["element"])]
        self._bytes = dtype.bytes
        self._shape, self._strides = expression(fact["shape"]), expression(fact["strides"])
        self._box = [drv.cuuint32_t(int(n)) for n in reversed(fact["box"])]
        self._ones = [drv.cuuint32_t(1)] * len(self._box)
        kinds, swizzles = drv.CUtensorMapDataType, drv.CUtensorMapSwizzle
        self._kind = getattr(kinds, f"CU_TENSOR_MAP_DATA_TYPE_{_NAMES[dtype.name]}")
        name = _SWIZZLES[int(fact["swizzle"])]
        self._swizzle = getattr(swizzles, f"CU_TENSOR_MAP_SWIZZLE_{name}")
        self._made: dict[tuple[int, ...], bytes] = {}

    def encode(
        self,
        address: int,
        elements: int,
        counts: Mapping[str, int],
        scalars: Mapping[str, int],
    ) -> bytes:
        """The map of a buffer at `address` with so many elements. ArgumentError."""
        shape = tuple(evaluate(e, counts, scalars) for e in self._shape)
        strides = tuple(evaluate(e, counts, scalars) for e in self._strides)
        key = (address, *shape, *strides)
        made = self._made.get(key)
        if made is None or elements <= self._last(shape, strides):
            self._check(shape, strides, elements)
            made = self._encoded(address, shape, strides)
            if len(self._made) >= _KEPT:
                self._made.clear()
            self._made[key] = made
        return made

    def _last(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
        return sum((n - 1) * s for n, s in zip(shape, (*strides, 1), strict=True))

    def _check(self, shape: tuple[int, ...], strides: tuple[int, ...], elements: int) -> None:
        where = f"{self._where}, tensor map of {self.buffer}"
        if not all(1 <= n <= _MOST_EXTENT for n in shape):
            raise ArgumentError(
                "an extent that no tensor has",
                where=where,
                expected=f"1 to {_MOST_EXTENT} elements along each dimension",
                got=str(shape),
            )
        for n in strides:
            if n * self._bytes % ROW_ALIGN or not 0 < n * self._bytes < _MOST_STRIDE:
                raise ArgumentError(
                    "misaligned rows",
                    where=where,
                    expected=f"strides that are multiples of {ROW_ALIGN} bytes",
                    got=f"{n} elements of {self._bytes} bytes",
                    do="pad the rows",
                )
        if self._last(shape, strides) >= elements:
            raise ArgumentError(
                "the tensor is greater than its buffer",
                where=where,
                expected=f"at most {elements} elements",
                got=f"shape {shape}, strides {strides}",
            )

    def _encoded(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
        drv, wide = self._drv, self._drv.cuuint64_t
        status, made = drv.cuTensorMapEncodeTiled(
            self._kind,
            len(shape),
            address,
            [wide(n) for n in reversed(shape)],
            [wide(n * self._bytes) for n in reversed(strides)],
            self._box,
            self._ones,
            drv.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            self._swizzle,
            drv.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            drv.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        if status:
            error = self._api.error(status, "cuTensorMapEncodeTiled", self._where)
            if isinstance(error, DriverError):
                raise ArgumentError(
                    "the driver does not encode the tensor map",
                    where=f"{self._where}, tensor map of {self.buffer}",
                    got=f"address {address:#x}, shape {shape}, strides {strides}: {error.what}",
                )
            raise error
        return ctypes.string_at(int(made.getPtr()), MAP_BYTES)
