"""What readers of manifests know before they read one: the schema, and what an odd one raises.

Apart from `manifest`, so that opening a bundle, which reads none yet, imports next to nothing.
"""

from __future__ import annotations

SCHEMA = 1


class ManifestError(ValueError):
    """A manifest that this version cannot use: what it holds and what was expected."""
