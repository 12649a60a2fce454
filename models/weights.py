"""Weights of a checkpoint in a graph: constants by their names, plain or packed."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.dtypes import DTYPES
from ..ir.graph import GraphBuilder
from ..ir.graph.array import Array
from ..ir.graph.composites.linear import linear, quantized_linear
from ..ir.graph.functions import apply, concat, take
from ..ir.quantized import BLOCKS
from .errors import ModelError

PLAIN = ("f32", "f16", "bf16")


class Weights:
    """The constants of a graph, each entered once. forms: what each weight is in the checkpoint, an
    element type (f32, f16, bf16) or a block format (`ir.quantized`). Raises ModelError for a weight
    that is not there, or whose form or columns do not fit."""

    def __init__(self, g: GraphBuilder, forms: Mapping[str, str]) -> None:
        self._g, self._forms = g, forms
        self._made: dict[str, Array] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._forms

    @property
    def unused(self) -> list[str]:
        """Weights of the checkpoint that the graph has not asked for."""
        return sorted(set(self._forms) - set(self._made))

    def plain(self, name: str, *shape: int) -> Array:
        """A weight that is not packed."""
        form = self._form(name)
        if form not in PLAIN:
            expected = f"one of {', '.join(PLAIN)}"
            raise ModelError(f"weight {name!r}", expected, f"the block format {form}")
        return self._constant(name, form, shape)

    def linear(self, x: Array, name: str, outputs: int) -> Array:
        """x[rows, inputs] times NAME.weight[outputs, inputs], plus NAME.bias[outputs] if there is
        one."""
        weight, bias = f"{name}.weight", f"{name}.bias"
        terms = [self.plain(bias, outputs)] if bias in self else []
        inputs, form = x.shape[-1], self._form(weight)
        if form not in BLOCKS:
            plain: Array = linear(x, self.plain(weight, outputs, inputs), *terms)
            return plain
        packed = self._packed(weight, outputs, inputs)
        found: Array = quantized_linear(x, packed, *terms, format=form)
        return found

    def joined(self, x: Array, parts: Mapping[str, int]) -> Array:
        """What `linear` gives for each NAME: outputs of `parts`, side by side, [rows, all outputs];
        by one product where the weights are of one form. Exact: each output is made as before."""
        forms = {self._form(f"{name}.weight") for name in parts}
        biases = [f"{name}.bias" for name in parts]
        there = [bias in self for bias in biases]
        if len(forms) > 1 or any(there) != all(there):
            return concat([self.linear(x, name, n) for name, n in parts.items()], 1)
        (form,), inputs = forms, x.shape[-1]
        load = self._packed if form in BLOCKS else self.plain
        weight = concat([load(f"{name}.weight", n, inputs) for name, n in parts.items()])
        outputs = parts.values()
        terms = (
            [self.plain(b, n) for b, n in zip(biases, outputs, strict=True)] if all(there) else []
        )
        both = [concat(terms)] if terms else []
        if form in BLOCKS:
            packed: Array = quantized_linear(x, weight, *both, format=form)
            return packed
        plain: Array = linear(x, weight, *both)
        return plain

    def rows(self, name: str, places: Array, rows: int, columns: int, dtype: str) -> Array:
        """Rows of a table [rows, columns] as a type: those that `places`, i32[n], counts."""
        form = self._form(name)
        if form not in BLOCKS:
            return take(self.plain(name, rows, columns), places).cast(dtype)
        found = take(self._packed(name, rows, columns), places)
        return apply("dequantize", found, format=form, dtype=DTYPES["f32"]).cast(dtype)

    def _form(self, name: str) -> str:
        form = self._forms.get(name)
        if form is None:
            raise ModelError(f"weight {name!r}", "it in the checkpoint", "none of this name")
        if form not in BLOCKS and form not in PLAIN:
            known = ", ".join((*PLAIN, *BLOCKS))
            raise ModelError(f"weight {name!r}", f"one of {known}", repr(form))
        return form

    def _packed(self, name: str, rows: int, columns: int) -> Array:
        form = BLOCKS[self._form(name)]
        if columns % form.block:
            expected = f"columns in whole blocks of {form.block} ({form.name})"
            raise ModelError(f"weight {name!r}", expected, f"{columns}")
        return self._constant(name, "u8", (rows, columns // form.block * form.bytes))

    def _constant(self, name: str, dtype: str, shape: tuple[int, ...]) -> Array:
        if name not in self._made:
            self._made[name] = self._g.constant(name, dtype, shape)
        return self._made[name]
