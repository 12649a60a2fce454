"""A device with a bundle: tensors come and go, launches are collected and submitted together.

A node's kernels are all found before the first of them is launched, so that a refusal leaves
nothing half done.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..ir.dtypes import DTYPES
from ..runtime import Bundle, Refused
from ..runtime.device import Device
from ..runtime.launch import LoadedKernel
from .refusal import Missing
from .tensor import ARRAYS, Tensor, name_of


class Machine:
    """What ops are made of: kernels by name, and tensors."""

    def __init__(self, device: Device, bundle: Bundle) -> None:
        self.device, self.bundle = device, bundle
        self._pending: list[tuple[LoadedKernel, tuple[Any, ...], dict[str, Any]]] = []
        self._loaded: dict[tuple[str, str], LoadedKernel] = {}
        self._names = {kernel: frozenset(names) for kernel, names in bundle.kernels().items()}

    def has(self, kernel: str, specialization: str) -> bool:
        """Whether the bundle holds it, for whatever device."""
        return specialization in self._names.get(kernel, ())

    def upload(self, array: np.ndarray) -> Tensor:
        """An array of the host, which stays known there. Missing: of a type kernels have not."""
        name = name_of(array.dtype)
        stored = np.ascontiguousarray(array).view(DTYPES[name].storage).reshape(array.shape)
        return Tensor(self.device.upload(stored, name), array.shape, name, array)

    def fixed(self, array: np.ndarray) -> Tensor:
        """A constant of the model, or what follows from shapes."""
        return replace(self.upload(array), fixed=True)

    def constant(self, value: Any, dtype: str) -> Tensor:
        """A scalar."""
        return self.upload(np.asarray(value).astype(ARRAYS[dtype]))

    def empty(self, shape: Sequence[int], dtype: str) -> Tensor:
        """A tensor that is still to be written."""
        sizes = tuple(int(n) for n in shape)
        return Tensor(self.device.allocate((math.prod(sizes),), dtype), sizes, dtype)

    def launch(self, kernel: str, specialization: str, *args: Any, **named: Any) -> None:
        """Add a launch; tensors stand for their buffers. Missing: no kernel for this device."""
        self._pending.append(
            (
                self._load(kernel, specialization),
                tuple(a.buffer if isinstance(a, Tensor) else a for a in args),
                {n: a.buffer if isinstance(a, Tensor) else a for n, a in named.items()},
            )
        )

    def _load(self, kernel: str, specialization: str) -> LoadedKernel:
        key = kernel, specialization
        if key not in self._loaded:
            if not self.has(kernel, specialization):
                raise Missing(f"kernel {kernel} {specialization}")
            try:
                self._loaded[key] = self.device.load(self.bundle, kernel, specialization)
            except Refused as refused:
                raise Missing(f"a device for kernel {kernel} {specialization}") from refused
        return self._loaded[key]

    def submit(self) -> None:
        """Launch what was collected."""
        pending, self._pending = self._pending, []
        for kernel, args, named in pending:
            self.device.launch(kernel, *args, **named)

    def forget(self) -> None:
        """Drop what was collected: the node is refused."""
        self._pending.clear()

    def host(self, tensor: Tensor) -> np.ndarray:
        """The elements: what is known on the host at once, else by a wait for the device."""
        if tensor.value is not None:
            return tensor.value
        self.submit()
        flat = self.device.download(tensor.buffer).reshape(-1)[: tensor.size]
        return flat.view(ARRAYS[tensor.dtype]).reshape(tensor.shape)
