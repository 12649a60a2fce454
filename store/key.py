"""The action key: the name of a build step's result, from everything that could change it.

The canonical form of an action is a list of fields, sorted by name, each written as

    NAME SP LENGTH LF BYTES LF

with NAME in ASCII and LENGTH the number of BYTES in decimal, behind the line
`gristmill action SCHEMA LF`. The key is the sha256 of that text in lower-case hexadecimal. Lengths
make the form unambiguous: no two different actions have the same text. Numbers, lists and
mappings within a field are JSON with sorted keys and without spaces; what is large stands as its
sha256 in hexadecimal. So the text is short, and stores keep it as the content that its key names:
`store.explain` reads it.

No field holds a path, a time, a host name or a device index: equal inputs have equal keys on every
machine. (The names of sources are those within the project.)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

SCHEMA = 3


@dataclass(frozen=True)
class Action:
    """A step of a build by all that can change its result. fields: bytes by name."""

    fields: Mapping[str, bytes]

    @cached_property
    def text(self) -> bytes:
        """The canonical form. ValueError on a field name that is not a plain word."""
        return canonical(self.fields)

    @cached_property
    def key(self) -> str:
        """64 hexadecimal digits."""
        return _sha256(self.text)


def canonical(fields: Mapping[str, bytes], schema: int = SCHEMA) -> bytes:
    """The canonical form of an action. ValueError on a field name that is not a plain word."""
    parts = [b"gristmill action %d\n" % schema]
    for name in sorted(fields):
        if not name.isascii() or not name.isidentifier():
            raise ValueError(f"not a field name: {name!r} (expected an ASCII identifier)")
        parts.append(b"%s %d\n%s\n" % (name.encode(), len(fields[name]), fields[name]))
    return b"".join(parts)


def parsed(text: bytes) -> Action:
    """The action of a canonical form. ValueError says where the text is none of this version."""
    head, _, rest = text.partition(b"\n")
    if head != b"gristmill action %d" % SCHEMA:
        raise ValueError(
            f"not the text of an action of schema {SCHEMA}: it begins with {head[:60]!r}"
        )
    fields, at = {}, 0
    while at < len(rest):
        line, newline, _ = rest[at:].partition(b"\n")
        name, _, length = line.partition(b" ")
        start = at + len(line) + 1
        if not (newline and name.isascii() and length.isdigit()):
            raise ValueError(f"no field at byte {at} of an action")
        end = start + int(length)
        if rest[end : end + 1] != b"\n":
            raise ValueError(f"field {name.decode()} of an action does not end at byte {end}")
        fields[name.decode()], at = rest[start:end], end + 1
    action = Action(fields)
    if action.text != text:
        raise ValueError("the fields of an action do not stand in their order")
    return action


def encode(value: Any) -> bytes:
    """A JSON value in canonical form: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def compiler_action(stage: str, sources: Mapping[str, bytes]) -> Action:
    """The compiler of a stage: its key is what the fields `compiler` of other actions hold.

    sources: its files, by path within the package.
    """
    return Action(
        {
            "action": b"compiler",
            "stage": stage.encode(),
            "sources": encode({name: _sha256(data) for name, data in sources.items()}),
        }
    )


def trace_action(
    sources: Mapping[str, bytes],
    kernel: str,
    specialization: Mapping[str, Any],
    compiler: str,
    tools: Sequence[str],
) -> Action:
    """Tracing one specialization.

    sources: the kernel's module and what it imports, by path within the project (the path stands
    in the result's source locations). compiler: key of the trace stage's own sources. tools:
    versions of what executes the module, where the result may depend on them.
    """
    return Action(
        {
            "action": b"trace",
            "sources": encode({name: _sha256(data) for name, data in sources.items()}),
            "kernel": kernel.encode(),
            "specialization": encode(dict(specialization)),
            "compiler": compiler.encode(),
            "tools": encode(sorted(tools)),
        }
    )


def compile_action(
    ir: bytes,
    target: str,
    options: Mapping[str, Any],
    compiler: str,
    tools: Sequence[str],
) -> Action:
    """Compiling kernel IR for a target.

    ir: the bytes of the IR text that is compiled. target: the full id; its suffixes name the
    features that it takes for granted. compiler: key of the compiler's own sources for this
    backend. tools: versions of outside tools.
    """
    return Action(
        {
            "action": b"compile",
            "ir": _sha256(ir).encode(),
            "target": target.encode(),
            "options": encode(dict(options)),
            "compiler": compiler.encode(),
            "tools": encode(sorted(tools)),
        }
    )


def assemble_action(ptx: bytes, target: str, compiler: str, assembler: str) -> Action:
    """Assembling a PTX text for a target.

    compiler: key of the compiler's own sources for this backend. assembler: name and version.
    """
    return Action(
        {
            "action": b"assemble",
            "ptx": _sha256(ptx).encode(),
            "target": target.encode(),
            "compiler": compiler.encode(),
            "assembler": assembler.encode(),
        }
    )


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
