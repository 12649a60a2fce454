"""Whole models through the import, beside ONNX's reference: what a block of BERT, a perceptron and
models with open shapes come to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from need import Need

Need.from_environment(os.environ)("onnx")

import onnx
from onnx import TensorProto, helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

from gristmill.ir.graph import Graph, Origin
from gristmill.onnx import Imported, import_model
from onnx_import_cases import inputs_of, outputs_of, within_bounds

MLP = """
<ir_version: 8, opset_import: ["" : 18]>
mlp (float[batch, 8] x) => (float[batch, 4] y)
{
   h = MatMul(x, up)
   b = Add(h, bias)
   a = Relu(b)
   y = Gemm<transB = 1>(a, down, shift)
}
"""
OPEN = """
<ir_version: 8, opset_import: ["" : 18]>
open (float[batch, sequence, 12] x, int64[batch, sequence] token)
   => (float[batch, sequence, 12] y, float[sequence, sequence] mask)
{
   shape = Shape(x)
   zero = Constant<value_int = 0>()
   one = Constant<value_int = 1>()
   three = Constant<value_ints = [3]>()
   four = Constant<value_ints = [4]>()
   front = Constant<value_ints = [0]>()
   batch = Gather(shape, zero)
   length = Gather(shape, one)
   batch1 = Unsqueeze(batch, front)
   length1 = Unsqueeze(length, front)
   heads = Concat<axis = 0>(batch1, length1, three, four)
   apart = Reshape(x, heads)
   turned = Transpose<perm = [0, 2, 1, 3]>(apart)
   places = Range(zero, length, one)
   row = Unsqueeze(places, front)
   last = Constant<value_ints = [1]>()
   column = Unsqueeze(places, last)
   seen = LessOrEqual(row, column)
   never = Constant<value_float = -1000.0>()
   nothing = Constant<value_float = 0.0>()
   bias = Where(seen, nothing, never)
   square = Concat<axis = 0>(length1, length1)
   ones = ConstantOfShape<value = int64[1] {1}>(square)
   test = Constant<value_int = -1>()
   minus = Mul(ones, test)
   is_minus = Equal(square, front)
   target = Where(is_minus, last, square)
   mask = Expand(bias, target)
   keys = Transpose<perm = [0, 1, 3, 2]>(turned)
   scores = MatMul(turned, keys)
   masked = Add(scores, mask)
   weights = Softmax<axis = -1>(masked)
   mixed = MatMul(weights, turned)
   back = Transpose<perm = [0, 2, 1, 3]>(mixed)
   rest = Constant<value_ints = [-1]>()
   flat = Concat<axis = 0>(batch1, length1, rest)
   together = Reshape(back, flat)
   table = Gather(words, token)
   y = Add(together, table)
}
"""


def filled(text: str, rng: np.random.Generator, **shapes: tuple[int, ...]) -> onnx.ModelProto:
    """A model from its text, with normal weights."""
    model = parser.parse_model(text)
    for name, shape in shapes.items():
        array = rng.normal(size=shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def compared(model: onnx.ModelProto, given: dict[str, np.ndarray], **dims: int) -> Imported:
    """The import, after its outputs were held against the reference's."""
    found = import_model(model, dims=dims)
    assert isinstance(found, Imported), found
    weights = {t.name for t in model.graph.initializer}
    order = [v.name for v in model.graph.input if v.name not in weights]
    expected: Any = ReferenceEvaluator(model).run(None, given)
    within_bounds(found, inputs_of(found, model, [given[name] for name in order]), expected)
    return found


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def test_a_perceptron_is_products_and_its_weights_keep_their_names(
    rng: np.random.Generator,
) -> None:
    model = filled(MLP, rng, up=(8, 16), bias=(16,), down=(4, 16), shift=(4,))
    x = rng.normal(size=(3, 8)).astype(np.float32)
    found = compared(model, {"x": x}, batch=3)
    names = [source.name for source in found.graph.of(Origin.CONSTANT) if source.data is None]
    assert names == ["up", "bias", "down", "shift"] == list(found.weights)
    assert [op for op in operators(found.graph) if op in ("matmul", "linear")] == [
        "matmul",
        "linear",
    ]


@pytest.mark.parametrize(("batch", "sequence"), [(1, 5), (2, 1), (3, 7)])
def test_computed_shapes_are_constants_once_the_dimensions_are_bound(
    batch: int, sequence: int, rng: np.random.Generator
) -> None:
    model = filled(OPEN, rng, words=(10, 12))
    given = {
        "x": rng.normal(size=(batch, sequence, 12)).astype(np.float32),
        "token": rng.integers(0, 10, (batch, sequence)),
    }
    found = compared(model, given, batch=batch, sequence=sequence)
    assert not {"iota", "concat", "le"} & set(operators(found.graph))
    assert operators(found.graph).count("select") == 1  # of the tokens, which may be negative


class Block:
    """A block of BERT as exporters write it: norms and gelu in pieces."""

    def __init__(self, rng: np.random.Generator, width: int, heads: int, opset: int) -> None:
        self.rng, self.width, self.heads, self.opset = rng, width, heads, opset
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def op(self, name: str, *inputs: str, **attributes: Any) -> str:
        out = f"{name}{len(self.nodes)}"
        self.nodes.append(helper.make_node(name, inputs, [out], name=f"node_{out}", **attributes))
        return out

    def constant(self, value: Any) -> str:
        return self.op("Constant", value=numpy_helper.from_array(np.asarray(value)))

    def weight(self, *shape: int) -> str:
        name = f"weight{len(self.weights)}"
        array = self.rng.normal(size=shape).astype(np.float32) / np.float32(np.sqrt(shape[0]))
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def linear(self, x: str, rows: int, columns: int) -> str:
        return self.op(
            "Add", self.op("MatMul", x, self.weight(rows, columns)), self.weight(columns)
        )

    def axes(self, op: str, x: str, axes: list[int]) -> str:
        """The mean or another reduction, whose axes are an input from opset 18 on."""
        if self.opset < 18:
            return self.op(op, x, axes=axes)
        return self.op(op, x, self.constant(np.array(axes)))

    def norm(self, x: str) -> str:
        away = self.op("Sub", x, self.axes("ReduceMean", x, [-1]))
        square = self.op("Pow", away, self.constant(np.float32(2)))
        variance = self.op(
            "Add", self.axes("ReduceMean", square, [-1]), self.constant(np.float32(1e-5))
        )
        scaled = self.op("Div", away, self.op("Sqrt", variance))
        return self.op(
            "Add", self.op("Mul", scaled, self.weight(self.width)), self.weight(self.width)
        )

    def gelu(self, x: str) -> str:
        inside = self.op("Erf", self.op("Div", x, self.constant(np.float32(np.sqrt(2)))))
        both = self.op("Mul", x, self.op("Add", inside, self.constant(np.float32(1))))
        return self.op("Mul", both, self.constant(np.float32(0.5)))

    def split(self, x: str, order: list[int]) -> str:
        shape = self.constant(np.array([0, 0, self.heads, self.width // self.heads]))
        return self.op("Transpose", self.op("Reshape", x, shape), perm=order)

    def attention(self, x: str, mask: str) -> str:
        q, k, v = (self.linear(x, self.width, self.width) for _ in range(3))
        q, v = (self.split(t, [0, 2, 1, 3]) for t in (q, v))
        scores = self.op("MatMul", q, self.split(k, [0, 2, 3, 1]))
        scores = self.op("Div", scores, self.constant(np.float32(np.sqrt(self.width / self.heads))))
        weights = self.op("Softmax", self.op("Add", scores, mask), axis=-1)
        mixed = self.op("Transpose", self.op("MatMul", weights, v), perm=[0, 2, 1, 3])
        together = self.op("Reshape", mixed, self.constant(np.array([0, 0, self.width])))
        return self.linear(together, self.width, self.width)

    def model(self) -> onnx.ModelProto:
        wide = self.op("Cast", "mask", to=TensorProto.FLOAT)
        wide = self.op("Unsqueeze", wide, *self._at([1, 2])[0], **self._at([1, 2])[1])
        away = self.op("Sub", self.constant(np.float32(1)), wide)
        bias = self.op("Mul", away, self.constant(np.float32(-1e4)))
        x = self.norm(self.op("Add", "x", self.attention("x", bias)))
        hidden = self.gelu(self.linear(x, self.width, 4 * self.width))
        y = self.norm(self.op("Add", x, self.linear(hidden, 4 * self.width, self.width)))
        self.nodes.append(helper.make_node("Identity", [y], ["y"]))
        tensor = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "bert",
            [
                tensor("x", TensorProto.FLOAT, ["batch", "sequence", self.width]),
                tensor("mask", TensorProto.INT64, ["batch", "sequence"]),
            ],
            [tensor("y", TensorProto.FLOAT, ["batch", "sequence", self.width])],
            self.weights,
        )
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def _at(self, axes: list[int]) -> tuple[list[str], dict[str, Any]]:
        """Axes as an attribute or an input."""
        return ([], {"axes": axes}) if self.opset < 13 else ([self.constant(np.array(axes))], {})


@pytest.mark.parametrize("opset", [12, 17, 18, 22])
def test_a_block_of_bert_is_as_the_reference_has_it(opset: int, rng: np.random.Generator) -> None:
    model = Block(rng, 16, 4, opset).model()
    given = {
        "x": rng.normal(size=(2, 6, 16)).astype(np.float32),
        "mask": (rng.random((2, 6)) < 0.7).astype(np.int64),
    }
    found = compared(model, given, batch=2, sequence=6)
    assert len(found.weights) == len(model.graph.initializer)


def test_weights_of_a_file_are_mapped_and_not_read(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    model = filled(MLP, rng, up=(8, 16), bias=(16,), down=(4, 16), shift=(4,))
    inside = import_model(model, dims={"batch": 2})
    path = tmp_path / "mlp.onnx"
    onnx.save_model(model, path, save_as_external_data=True, location="mlp.data", size_threshold=0)
    found = import_model(path, dims={"batch": 2})
    assert isinstance(found, Imported)
    assert isinstance(inside, Imported)
    assert found.graph == inside.graph
    for name, array in found.weights.items():
        np.testing.assert_array_equal(array, inside.weights[name])
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        assert isinstance(root, np.memmap)


def test_a_function_of_the_model_is_written_out(rng: np.random.Generator) -> None:
    text = """
    <ir_version: 10, opset_import: ["" : 18, "own" : 1]>
    calls (float[3] x) => (float[3] y) { y = own.twice<by = 3.0>(x) }
    <domain: "own", opset_import: ["" : 18]>
    twice <by>(a) => (b) {
        c = Constant<value_float: float = @by>()
        d = Mul(a, c)
        b = Add(d, a)
    }
    """
    model = parser.parse_model(text)
    compared(model, {"x": rng.normal(size=3).astype(np.float32)})


def test_a_large_constant_is_a_weight_by_the_name_of_its_output(rng: np.random.Generator) -> None:
    array = rng.normal(size=(3, 2000)).astype(np.float32)
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> it (float[2, 3] x) => (float[2, 2000] y)'
        " { y = MatMul(x, table) }"
    )
    value = numpy_helper.from_array(array)
    model.graph.node.insert(0, helper.make_node("Constant", [], ["table"], value=value))
    found = compared(model, {"x": rng.normal(size=(2, 3)).astype(np.float32)})
    assert list(found.weights) == ["table"]


def test_operands_of_old_opsets_stand_at_their_axis(rng: np.random.Generator) -> None:
    """Before opset 7; ONNX's reference has later ones alone."""
    model = parser.parse_model(
        '<ir_version: 3, opset_import: ["" : 6]> it (float[2, 3, 4] x, float[3] b)'
        " => (float[2, 3, 4] y) { y = Add<axis = 1, broadcast = 1>(x, b) }"
    )
    found = import_model(model)
    assert isinstance(found, Imported)
    x, b = rng.normal(size=(2, 3, 4)).astype(np.float32), rng.normal(size=3).astype(np.float32)
    (y,) = outputs_of(found, inputs_of(found, model, [x, b]))
    np.testing.assert_array_equal(y, x + b[:, None])


def test_softmax_before_opset_13_is_over_all_axes_from_one_on(rng: np.random.Generator) -> None:
    text = (
        '<ir_version: 8, opset_import: ["" : OPSET]> it (float[2, 3, 4] x)'
        " => (float[2, 3, 4] y) { y = Softmax<axis = 1>(x) }"
    )
    x = rng.normal(size=(2, 3, 4)).astype(np.float32)
    for opset, axes in ((12, (1, 2)), (13, (1,))):
        model = parser.parse_model(text.replace("OPSET", str(opset)))
        found = import_model(model)
        assert isinstance(found, Imported)
        (y,) = outputs_of(found, inputs_of(found, model, [x]))
        raised = np.exp(x.astype(np.float64))
        np.testing.assert_allclose(y, raised / raised.sum(axes, keepdims=True), rtol=1e-6)
