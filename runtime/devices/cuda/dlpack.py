"""DLPack capsules: made of device memory for other libraries, and taken from them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple

from ....ir.dtypes import DTYPES, DType
from ...errors import ArgumentError

CUDA, CUDA_MANAGED = 2, 13
_KINDS = {"i": 0, "u": 1, "f": 2, "bf": 4, "bool": 6}
_FLOAT8 = {"f8e4m3": 10, "f8e5m2": 12}
_READ_ONLY = 1
MAJOR = 1  # of the versions whose form is known
PLAIN, USED_PLAIN = b"dltensor", b"used_dltensor"
VERSIONED, USED_VERSIONED = b"dltensor_versioned", b"used_dltensor_versioned"


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", ctypes.POINTER(c_int64)),
        ("strides", ctypes.POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p))


class _ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    )


class Taken(NamedTuple):
    """A tensor of another library. strides: in elements, None for C order. let_go: to be called
    when nobody uses the memory any more."""

    address: int
    device_type: int
    device_id: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: DType
    read_only: bool
    let_go: Callable[[], None]


_python = ctypes.pythonapi
_new = _python.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [c_void_p, ctypes.c_char_p, c_void_p]
_is_valid = _python.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [c_void_p, ctypes.c_char_p]
_pointer = _python.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c_void_p, [c_void_p, ctypes.c_char_p]
_rename = _python.PyCapsule_SetName
_rename.restype, _rename.argtypes = ctypes.c_int, [c_void_p, ctypes.c_char_p]


class _Given(NamedTuple):
    """What a capsule refers to, and what is called once it does not any more."""

    managed: _Managed
    sizes: Any
    keep: Any
    done: Callable[[], None] | None


# By the address of their struct, until its deleter is called.
_given: dict[int, _Given] = {}


def kept() -> list[Any]:
    """What live capsules and their takers keep."""
    return [given.keep for given in list(_given.values())]


def _taker_is_done(address: int) -> None:
    given = _given.pop(address, None)
    if given is not None and given.done is not None:
        given.done()


def _capsule_ends(capsule: int) -> None:
    if _is_valid(capsule, PLAIN):  # nobody took it
        _taker_is_done(_pointer(capsule, PLAIN))


# For C, and as long as the process lives: takers may be done at any time.
_delete = _Deleter(_taker_is_done)
_destroy = ctypes.PYFUNCTYPE(None, c_void_p)(_capsule_ends)


def dtype_code(dtype: DType) -> tuple[int, int]:
    """DLPack's type code and bits."""
    kind = _FLOAT8.get(dtype.name) or _KINDS[dtype.name.rstrip("0123456789")]
    return kind, 8 if dtype.is_bool else dtype.bits


def give(
    address: int,
    device_id: int,
    shape: tuple[int, ...],
    dtype: DType,
    keep: Any,
    done: Callable[[], None] | None = None,
) -> Any:
    """A capsule of C-ordered device memory, which holds `keep` until its taker is done: then `done`
    is called, in any thread."""
    managed = _Managed()
    tensor = managed.tensor
    sizes = (c_int64 * max(1, len(shape)))(*shape)
    tensor.data, tensor.device_type, tensor.device_id = address, CUDA, device_id
    tensor.ndim, tensor.lanes = len(shape), 1
    tensor.code, tensor.bits = dtype_code(dtype)
    tensor.shape = ctypes.cast(sizes, ctypes.POINTER(c_int64))
    managed.deleter = ctypes.cast(_delete, c_void_p)
    at = ctypes.addressof(managed)
    _given[at] = _Given(managed, sizes, keep, done)
    return _new(at, PLAIN, ctypes.cast(_destroy, c_void_p))


def take(capsule: Any, where: str) -> Taken:
    """What a capsule holds; the capsule is used up. ArgumentError on what is not understood."""
    at = id(capsule)
    if _is_valid(at, VERSIONED):
        address = _pointer(at, VERSIONED)
        versioned = _ManagedVersioned.from_address(address)
        if versioned.major > MAJOR:  # of what follows only the deleter is where it was
            got = f"version {versioned.major}.{versioned.minor}"
            _rename(at, USED_VERSIONED)
            if versioned.deleter:
                _Deleter(versioned.deleter)(address)
            raise ArgumentError(
                "a DLPack capsule of another version",
                where=where,
                expected=f"at most version {MAJOR}",
                got=got,
            )
        tensor, deleter = versioned.tensor, versioned.deleter
        read_only = bool(versioned.flags & _READ_ONLY)
        used = USED_VERSIONED
    elif _is_valid(at, PLAIN):
        address = _pointer(at, PLAIN)
        plain = _Managed.from_address(address)
        tensor, deleter, read_only, used = plain.tensor, plain.deleter, False, USED_PLAIN
    else:
        raise ArgumentError("no DLPack capsule, or one that was used", where=where)
    dtype = _dtype(tensor, where)
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    _rename(at, used)

    def let_go() -> None:
        if deleter:
            _Deleter(deleter)(address)

    return Taken(
        (tensor.data or 0) + tensor.byte_offset,
        tensor.device_type,
        tensor.device_id,
        shape,
        strides,
        dtype,
        read_only,
        let_go,
    )


def _dtype(tensor: _Tensor, where: str) -> DType:
    for dtype in DTYPES.values():
        if dtype_code(dtype) == (tensor.code, tensor.bits) and tensor.lanes == 1:
            return dtype
    raise ArgumentError(
        f"DLPack type {tensor.code} of {tensor.bits} bits, {tensor.lanes} lanes",
        where=where,
        expected=f"one of {', '.join(DTYPES)}",
    )
