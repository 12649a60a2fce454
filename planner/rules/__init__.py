"""How nodes become launches: of each op the rules in the order in which they are tried.

A rule plans a node through a `Lowering`, and gives the views of its results or raises Missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...ir.graph.core import Node
from ..lowering import Lowering
from ..view import View
from . import attention, copies, elementwise, indexing, normalization, products, reductions

Rule = Callable[[Lowering, Node], tuple[View, ...]]

RULES: Mapping[str, tuple[Rule, ...]] = {
    **copies.RULES,
    **elementwise.RULES,
    **reductions.RULES,
    **indexing.RULES,
    **products.RULES,
    **normalization.RULES,
    **attention.RULES,
}
