"""Graphs of tensor ops: what a model computes, before a target is known.

`builder` and `functions` are the author's side, `core` the graph, `table` the ops; `text` and
`parse` write and read it, `verify` checks it, `decompose` replaces composites, `oracle` evaluates.
"""

from . import elementwise as elementwise
from . import indexing as indexing
from . import movement as movement
from . import products as products
from . import reductions as reductions
from .builder import GraphBuilder
from .core import Attr, Commit, Graph, Node, Origin, Output, Source, Tensor
from .places import Loc
from .table import OPS, GraphOp, infer
from .types import GraphTypeError, TensorType, parse_tensor_type

from . import composites as composites  # isort: skip - they are made of all the rest

__all__ = [
    "OPS",
    "Attr",
    "Commit",
    "Graph",
    "GraphBuilder",
    "GraphOp",
    "GraphTypeError",
    "Loc",
    "Node",
    "Origin",
    "Output",
    "Source",
    "Tensor",
    "TensorType",
    "infer",
    "parse_tensor_type",
]
