"""The action key: the name of a build step's result, from everything that could change it.

The canonical form of an action is a list of fields, sorted by name, each written as

    NAME SP LENGTH LF BYTES LF

with NAME in ASCII and LENGTH the number of BYTES in decimal, behind the line
`gristmill action SCHEMA LF`. The key is the sha256 of that text in lower-case hexadecimal. Lengths
make the form unambiguous: no two different actions have the same text. Numbers, lists and
mappings within a field are JSON with sorted keys and without spaces.

No field holds a path, a time, a host name or a device index: equal inputs have equal keys on every
machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

SCHEMA = 2


def canonical(fields: Mapping[str, bytes], schema: int = SCHEMA) -> bytes:
    """The canonical form of an action. ValueError on a field name that is not a plain word."""
    parts = [b"gristmill action %d\n" % schema]
    for name in sorted(fields):
        if not name.isascii() or not name.isidentifier():
            raise ValueError(f"not a field name: {name!r} (expected an ASCII identifier)")
        parts.append(b"%s %d\n%s\n" % (name.encode(), len(fields[name]), fields[name]))
    return b"".join(parts)


def action_key(fields: Mapping[str, bytes], schema: int = SCHEMA) -> str:
    """The key of an action, 64 hexadecimal digits."""
    return hashlib.sha256(canonical(fields, schema)).hexdigest()


def encode(value: Any) -> bytes:
    """A JSON value in canonical form: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def trace_key(
    sources: Mapping[str, bytes],
    kernel: str,
    specialization: Mapping[str, Any],
    compiler: str,
    tools: Sequence[str],
) -> str:
    """The key of tracing one specialization.

    sources: the kernel's module and what it imports, by path within the project (the path stands
    in the result's source locations). compiler: digest of the trace stage's own sources. tools:
    versions of Python and numpy, which execute the module.
    """
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in sources.items()}
    return action_key(
        {
            "action": b"trace",
            "sources": encode(digests),
            "kernel": kernel.encode(),
            "specialization": encode(dict(specialization)),
            "compiler": compiler.encode(),
            "tools": encode(sorted(tools)),
        }
    )


def compile_key(
    ir: bytes,
    target: str,
    options: Mapping[str, Any],
    compiler: str,
    tools: Sequence[str],
) -> str:
    """The key of compiling kernel IR for a target.

    ir: the bytes of the IR text that is compiled. target: the full id; its suffixes name the
    features that it takes for granted. compiler: digest of the compiler's own sources for this
    backend. tools: versions of outside tools.
    """
    return action_key(
        {
            "action": b"compile",
            "ir": ir,
            "target": target.encode(),
            "options": encode(dict(options)),
            "compiler": compiler.encode(),
            "tools": encode(sorted(tools)),
        }
    )


def assemble_key(ptx: bytes, target: str, compiler: str, assembler: str) -> str:
    """The key of assembling a PTX text for a target.

    compiler: digest of the compiler's own sources for this backend. assembler: name and version.
    """
    return action_key(
        {
            "action": b"assemble",
            "ptx": hashlib.sha256(ptx).hexdigest().encode(),
            "target": target.encode(),
            "compiler": compiler.encode(),
            "assembler": assembler.encode(),
        }
    )
