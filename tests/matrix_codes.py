"""Numbers of every type of AMD's matrix instructions as codes, packed in registers."""

from __future__ import annotations

import numpy as np

from amdgpu_emulator import narrow

BITS = {"f64": 64, "f32": 32, "xf32": 32, "f16": 16, "bf16": 16, "bf16_1k": 16}
BITS |= {"i8": 8, "fp8": 8, "bf8": 8}


def codes(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Small numbers that every sum of products keeps exact, as codes of a type."""
    whole = rng.integers(-3, 4, shape)
    if kind in ("i8", "iu8", "iu4"):
        return (whole & (15 if kind == "iu4" else 255)).astype(np.uint32)
    if kind == "f64":
        return whole.astype(np.float64).view(np.uint64)
    if kind in ("f32", "xf32"):
        return whole.astype(np.float32).view(np.uint32)
    if kind in ("fp8", "bf8"):
        return narrow.encode8(whole.astype(np.float32), narrow.float8(kind, False), False)
    half = whole.astype(np.float32)
    return narrow.to_f16(half) if kind == "f16" else narrow.to_bf16(half)


def value(code: np.ndarray, kind: str) -> np.ndarray:
    """f64 of codes, by other means than the module's."""
    if kind == "i8":
        return code.astype(np.uint8).view(np.int8).astype(np.float64)
    if kind in ("f64", "f32", "xf32"):
        return code.view(np.float64 if kind == "f64" else np.float32).astype(np.float64)
    if kind in ("fp8", "bf8"):
        return narrow.values(narrow.float8(kind, False))[code].astype(np.float64)
    if kind == "f16":
        return code.astype(np.uint16).view(np.float16).astype(np.float64)
    return (code.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def pack(items: np.ndarray, bits: int) -> np.ndarray:
    """[items, lanes] codes to uint32[registers, lanes]."""
    if bits == 64:
        return np.stack([items & 0xFFFFFFFF, items >> np.uint64(32)], 1).reshape(
            -1, items.shape[1]
        ).astype(np.uint32)  # fmt: skip
    each = 32 // bits
    parts = items.astype(np.uint32).reshape(-1, each, items.shape[1])
    return np.bitwise_or.reduce(
        parts << (bits * np.arange(each, dtype=np.uint32))[None, :, None], axis=1
    )
