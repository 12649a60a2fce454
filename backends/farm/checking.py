"""Whether outputs that came from elsewhere can be those of an action."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ...store.key import Action
from ...store.manifest import Manifest
from ...store.schema import ManifestError
from .errors import WrongResultError

NAMES = {"compile": {"artifact", "manifest"}, "assemble": {"artifact", "facts"}}


def check_outputs(action: Action, outputs: Any) -> dict[str, bytes]:
    """The outputs, which have the names, the key, the target and the digest of the action's result.
    WrongResultError. (That their bytes are right, only compiling again can tell.)"""
    kind = action.fields["action"].decode()
    names = NAMES[kind]
    found = set(outputs) if isinstance(outputs, Mapping) else type(outputs).__name__
    if found != names or not all(type(data) is bytes for data in outputs.values()):
        raise WrongResultError(f"expected outputs {sorted(names)}, got {found!r:.200}")
    try:
        if kind == "assemble":
            json.loads(outputs["facts"])
        else:
            _check_manifest(action, Manifest.from_json(outputs["manifest"]), outputs["artifact"])
    except (ValueError, ManifestError) as error:
        raise WrongResultError(str(error)) from None
    return dict(outputs)


def _check_manifest(action: Action, manifest: Manifest, artifact: bytes) -> None:
    expected = {
        "key": action.key,
        "target": action.fields["target"].decode(),
        "sha256": hashlib.sha256(artifact).hexdigest(),
        "size": len(artifact),
    }
    for name, value in expected.items():
        if (found := getattr(manifest, name)) != value:
            raise WrongResultError(f"expected {name} {value} of a manifest, got {found!r:.80}")
