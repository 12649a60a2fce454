"""Blocks that reach every corner of a format, and kernels compiled for a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gristmill import runtime
from gristmill.backends.compile import Options, compile_kernel
from gristmill.ir.core import Kernel
from gristmill.ir.quantized import BLOCKS, BlockFormat
from gristmill.ir.text import print_kernel
from gristmill.kernels.dequantize import dequantize
from gristmill.kernels.nv_quantized_gemv import nv_quantized_gemv
from gristmill.kernels.quantized_gemv import quantized_gemv
from gristmill.kernels.quantized_inputs import format_name
from gristmill.kernels.quantized_sizes import DECODERS
from gristmill.store.bundle import Entry, write_bundle

TARGETS = {"interp": "interp-kir", "cpu": "cpu-x86-64-v2", "vulkan": "spirv-vulkan1.1"}
KERNELS = {k.name: k for k in (dequantize, quantized_gemv, nv_quantized_gemv)}
BY_NAME = {d.name: d for d in DECODERS}


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Bit for bit, but for what a NaN carries."""
    nan = np.isnan(a) & np.isnan(b)
    return a.shape == b.shape and bool(((a.view(np.uint32) == b.view(np.uint32)) | nan).all())


def extremes(form: BlockFormat) -> np.ndarray:
    """Blocks whose f16 fields are zeros, denormals, the greatest, infinities and NaNs, and whose
    other bytes are all zeros, all ones and random."""
    rng = np.random.default_rng(7)
    halves = np.array(
        [0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE01]
    )
    blocks = []
    for pattern in halves.astype("<u2"):
        for fill in (0, 255, None):
            block = rng.integers(0, 256, form.bytes, np.uint8)
            if fill is not None:
                block[:] = fill
            for f in form.fields:
                if f.name in ("d", "dmin", "m"):
                    block[f.offset : f.offset + 2] = np.array([pattern]).view(np.uint8)
            blocks.append(block)
    if form.name == "mxfp4":
        for e in range(256):
            blocks.append(np.concatenate([[e], np.arange(16) * 17]).astype(np.uint8))
    return np.array(blocks)


def traced(kernel: str, decoder: str, **constexprs: Any) -> Kernel:
    """A kernel for a decoder, whose parts are as its format lays them out."""
    form, planes = format_name({"FORMAT": BY_NAME[decoder]})
    parts: dict[str, Any] = {"PARTS": 2}
    if form in BLOCKS and not planes:
        parts = {"W": BLOCKS[form].word}
    return KERNELS[kernel].trace("s", FORMAT=BY_NAME[decoder], **{**parts, **constexprs})


def loaded(device: runtime.Device, kernel: Kernel, folder: Path) -> Any:
    """The kernel as the device runs it."""
    target = TARGETS[device.name.partition(":")[0].partition(" ")[0]]
    blob, manifest = compile_kernel(print_kernel(kernel), target, Options())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "k").write_bytes(blob)
    write_bundle(folder, [Entry(manifest, "k")])
    return device.load(runtime.open_bundle(folder), kernel.name)
