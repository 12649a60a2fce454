"""Parameters of GPU kernels as a struct format, for devices that fill blocks of them at launch."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Sequence

from ...ir.abi import gpu_layout, scalar_params
from ...ir.dtypes import DTYPES, Access
from ...ir.interface import Param
from ...store.manifest import Manifest
from ..errors import GristmillError, ManifestInvalid

_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
_NUMBERS = {"f16": "e", "f32": "f", "f64": "d"}


@contextlib.contextmanager
def manifest_of(where: str, device: str) -> Iterator[None]:
    """What is made from a manifest: one that does not say what it must is ManifestInvalid."""
    try:
        yield
    except GristmillError:
        raise
    except (KeyError, ValueError, TypeError) as error:
        raise ManifestInvalid(
            f"the manifest does not describe code for {device} ({type(error).__name__}: {error})",
            where=where,
            do="rebuild or fetch the bundle again",
        ) from error


def parameters(manifest: Manifest) -> list[Param]:
    """The parameters that a manifest lists; KeyError or ValueError for what is none."""
    return [
        Param(p.name, p.kind, DTYPES[p.dtype], Access(p.access), p.may_alias)
        for p in manifest.params
    ]


def parameter_format(
    params: Sequence[Param], faults: bool, barrier: bool = False, floats: bool = False
) -> str:
    """`ir.abi.gpu_layout` as a struct format, without tensor maps: pointers, scalars, counts, with
    fault sites the bitmap's address and the fault base, the counter of a barrier, the grid.

    floats: scalars of the float types that Python can pack are numbers, not bit patterns.
    """
    codes = _NUMBERS if floats else {}
    layout = gpu_layout(params, faults, barrier)
    fields = [(at, "Q") for at in (*layout.pointers, *layout.counts)]
    for at, param in zip(layout.scalars, scalar_params(params), strict=True):
        fields.append((at, codes.get(param.dtype.name, _CODES[param.dtype.bytes])))
    if layout.faults is not None and layout.fault_base is not None:
        fields += [(layout.faults, "Q"), (layout.fault_base, "I")]
    if layout.barrier is not None:
        fields.append((layout.barrier, "Q"))
    fields += [(layout.grid + 4 * n, "I") for n in range(3)]
    text, end = "<", 0
    for at, code in sorted(fields):
        text += f"{at - end}x{code}" if at > end else code
        end = at + struct.calcsize(f"<{code}")
    return text
