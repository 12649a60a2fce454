"""All fixtures."""

from __future__ import annotations

from .blocks import BLOCKS
from .composites import COMPOSITES
from .fixture import Fixture
from .primitives import PRIMITIVES

FIXTURES: tuple[Fixture, ...] = (*PRIMITIVES, *COMPOSITES, *BLOCKS)
