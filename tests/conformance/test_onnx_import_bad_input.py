"""What the import refuses, and that no model makes it raise, hang or read what it should not."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from need import Need

Need.from_environment(os.environ)("onnx")

import onnx
from onnx import TensorProto, helper, numpy_helper, parser

from gristmill.onnx import Imported, ImportRefusal, Reason, import_model

HUGE = 2**60
SMALL = """
<ir_version: 10, opset_import: ["" : 18]>
small (float[batch, 8] x) => (float[batch, 2] y)
<float[8, 2] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, int64[1] axes = {-1}>
{
   s = Shape(x)
   h = MatMul(x, w)
   m = ReduceMean(h, axes)
   y = Sub(h, m)
}
"""


def refusals(model: Any, **named: Any) -> list[ImportRefusal]:
    found = import_model(model, **named)
    assert not isinstance(found, Imported)
    assert found
    assert all(isinstance(r.reason, Reason) and r.missing and str(r) for r in found)
    return found


def of(text: str, opset: int = 18) -> onnx.ModelProto:
    """A model of these nodes, from x: float[2, 3] to y."""
    head = f'<ir_version: 10, opset_import: ["" : {opset}]> it (float[2, 3] x) => '
    return parser.parse_model(head + text)


def one(
    op: str, operands: list[np.ndarray], outputs: int = 1, opset: int = 18, **attributes: Any
) -> onnx.ModelProto:
    """A model of one node of constants behind its input x, f32[2]."""
    names = [f"c{n}" for n in range(len(operands))]
    results = ["y", *[f"y{n}" for n in range(1, outputs)]]
    node = helper.make_node(op, ["x", *names], results, name="it", **attributes)
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "one",
        [tensor("x", TensorProto.FLOAT, [2])],
        [helper.make_value_info("y", helper.make_tensor_type_proto(TensorProto.FLOAT, None))],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in zip(names, operands, strict=True)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def test_everything_that_is_missing_is_told_in_one_pass() -> None:
    found = refusals(
        of(
            """(float[2, 3] y) {
            a = NonZero(x)
            [first] b = Det(x)
            c = Add(b, b)
            [second] d, e = Unique<axis = 0>(c)
            y = Neg(d)
        }"""
        )
    )
    assert found == [
        ("a", "NonZero", Reason.OPERATOR, "operator NonZero"),
        ("first", "Det", Reason.OPERATOR, "operator Det"),
        ("second", "Unique", Reason.OPERATOR, "operator Unique"),
    ]
    assert str(found[1]) == "Det first is refused (operator): operator Det"


def test_dimensions_that_are_not_bound_are_named() -> None:
    assert refusals(parser.parse_model(SMALL)) == [
        ("dimension 0 of input 'x'", "", Reason.DIMENSION, "a size for it: dims['batch']")
    ]
    found = refusals(parser.parse_model(SMALL), dims={"batch": 2, "btach": 3})
    assert found[0].node == "dims['btach']"
    assert refusals(parser.parse_model(SMALL), dims={"batch": -1})[0].reason is Reason.DIMENSION
    assert refusals(parser.parse_model(SMALL), dims={"batch": HUGE})[0].reason is Reason.MODEL


def test_a_dimension_without_a_name_is_bound_by_its_place() -> None:
    model = parser.parse_model(SMALL)
    model.graph.input[0].type.tensor_type.shape.dim[0].Clear()
    assert refusals(model)[0].missing == "a size for it: dims['x.0']"
    assert isinstance(import_model(model, dims={"x.0": 3}), Imported)


@pytest.mark.parametrize(
    ("node", "missing"),
    [
        ("y = If(c) <then_branch = g () => (float[2, 3] a) {a = Neg(x)}, else_branch = h () => "
         "(float[2, 3] b) {b = Abs(x)}>", "operator If"),
        ("y = Bogus(x)", "checker"),
        ("y = own.Gadget(x)", "opset_import|checker"),
    ],
)  # fmt: skip
def test_control_flow_and_operators_of_others_are_refused_by_name(node: str, missing: str) -> None:
    text = f"(float[2, 3] y) {{ c = Constant<value = bool {{1}}>() {node} }}"
    assert re.search(missing, refusals(of(text))[0].missing)


def test_strings_sequences_and_sparse_tensors_are_refused() -> None:
    tensor = helper.make_tensor_value_info
    node = helper.make_node("Identity", ["x"], ["y"])
    for value in (
        tensor("x", TensorProto.STRING, [2]),
        helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, [2]),
        tensor("x", TensorProto.COMPLEX64, [2]),
        helper.make_value_info("x", helper.make_tensor_type_proto(TensorProto.FLOAT, None)),
    ):
        graph = helper.make_graph([node], "g", [value], [helper.make_value_info("y", value.type)])
        assert refusals(helper.make_model(graph))[0].reason is Reason.TYPE


@pytest.mark.parametrize(
    ("graph", "what"),
    [
        ("(float[2, 3] y) { y = Add(x, z) z = Neg(y) }", "topologically"),
        ("(float[2, 3] y) { y = Add(x, nowhere) }", "nowhere|topologically"),
        ("(float[2, 3] y) { y = Neg(x) y = Abs(x) }", "SSA"),
        ("(float[2, 3] z) { y = Neg(x) }", "a node|output"),
        ("(float[3, 2] y) { y = Neg(x) }", "shape"),
        ("(int64[2, 3] y) { y = Neg(x) }", "i64"),
    ],
)
def test_what_is_no_model_is_refused(graph: str, what: str) -> None:
    found = refusals(of(graph))
    assert found[0].reason is Reason.MODEL
    assert re.search(what, found[0].missing + found[0].node)


@pytest.mark.parametrize("opset", [0, 999])
def test_an_opset_that_is_not_there_is_refused(opset: int) -> None:
    refusals(of("(float[2, 3] y) { y = Neg(x) }", opset))


@pytest.mark.parametrize(
    "model",
    [
        one("Expand", [np.array([HUGE, 2])]),
        one("Expand", [np.ones(40, np.int64)]),
        one("Tile", [np.array([HUGE])]),
        one("Tile", [np.array([-HUGE])]),
        one("Pad", [np.array([HUGE, HUGE])]),
        one("Pad", [np.array([0, HUGE])], mode="reflect"),
        one("Pad", [np.array([-HUGE, 0])]),
        one("Reshape", [np.array([HUGE, -1])]),
        one("Reshape", [np.array([-1, -1])]),
        one("Reshape", [np.array([-5])]),
        one("Unsqueeze", [np.array([0, 0])]),
        one("Slice", [np.array([0]), np.array([2]), np.array([HUGE])]),
        one("Slice", [np.array([0]), np.array([2]), np.array([0]), np.array([0])]),
        one("CenterCropPad", [np.array([2 * HUGE])]),
        one("TopK", [np.array([HUGE])], outputs=2),
        one("TopK", [np.array([0])], outputs=2),
        one("Split", [np.array([HUGE, 2 - HUGE])]),
        one("ReduceSum", [np.array([HUGE])]),
        one("Gather", [np.array([0])], axis=HUGE),
        one("Flatten", [], axis=HUGE),
        one("LRN", [], size=HUGE),
        one("DepthToSpace", [], blocksize=0),
        one("Transpose", [], perm=[HUGE]),
        one("GroupNormalization", [np.ones(1, np.float32)] * 2, opset=21, num_groups=0),
    ],
    ids=lambda model: model.graph.node[0].op_type,
)
def test_operands_that_fit_nothing_are_refused_at_once(model: onnx.ModelProto) -> None:
    start = time.process_time()
    found = refusals(model)
    assert time.process_time() - start < 2
    assert found[0].op == model.graph.node[0].op_type


@pytest.mark.parametrize("op", ["ConstantOfShape", "Range", "OneHot", "EyeLike"])
def test_what_is_large_is_made_by_nobody(op: str) -> None:
    """It is imported where a graph may hold it: no element is computed before a plan is made."""
    start = time.process_time()
    model = {
        "ConstantOfShape": of(
            f"(float[y] y) {{ c = Constant<value = int64[2] {{{HUGE // 4}, 1}}>()"
            " y = ConstantOfShape(c) }"
        ),
        "Range": of(
            "(int64[y] y) { a = Constant<value_int = 0>() b = Constant<value_int = 100000000000>()"
            " c = Constant<value_int = 1>() y = Range(a, b, c) }"
        ),
        "OneHot": of(
            "(float[y] y) { i = Constant<value_ints = [1, 2]>() d = Constant<value_int ="
            " 1000000000000>() v = Constant<value_floats = [0.0, 1.0]>() y = OneHot(i, d, v) }"
        ),
        "EyeLike": of(
            "(float[y] y) { c = Constant<value = int64[2] {1000000000, 100000000}>()"
            " d = ConstantOfShape(c) y = EyeLike(d) }"
        ),
    }[op]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert isinstance(import_model(model), Imported)
    assert time.process_time() - start < 2


def test_a_shape_that_no_tensor_has_is_refused() -> None:
    graph = "(float[y] y) { c = Constant<value = int64[2] {%d, 9}>() y = ConstantOfShape(c) }"
    for size in (HUGE, -3):
        found = refusals(of(graph % size))
        assert (found[0].op, found[0].reason) == ("ConstantOfShape", Reason.GRAPH)


def initialized(change: Callable[[TensorProto], None]) -> onnx.ModelProto:
    model = parser.parse_model(SMALL)
    change(model.graph.initializer[0])
    return model


def external(**entries: str) -> Callable[[TensorProto], None]:
    def change(tensor: TensorProto) -> None:
        tensor.ClearField("float_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)

    return change


def _dims(tensor: TensorProto) -> None:
    tensor.dims[:] = [HUGE, 4]


def _negative(tensor: TensorProto) -> None:
    tensor.dims[:] = [-8, -2]


def _short(tensor: TensorProto) -> None:
    tensor.ClearField("float_data")
    tensor.raw_data = b"1234"


def _kind(tensor: TensorProto) -> None:
    tensor.data_type = 999


@pytest.mark.parametrize("change", [_dims, _negative, _short, _kind])
def test_initializers_that_are_not_what_they_say_are_refused(
    change: Callable[[TensorProto], None],
) -> None:
    found = refusals(initialized(change), dims={"batch": 1})
    assert found[0].node in ("initializer 'w'", "model")


@pytest.mark.parametrize(
    "location",
    ["../outside", "/etc/passwd", "", "missing", ".", "link", "loop", "pipe", "sub/../../outside",
     "a\0b"],
)  # fmt: skip
def test_a_file_outside_of_the_folder_is_not_opened(location: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "sub").mkdir()
    (tmp_path / "outside").write_bytes(bytes(64))
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "loop").symlink_to(folder / "loop")
    os.mkfifo(folder / "pipe")
    model = initialized(external(location=location))
    (found,) = refusals(model, dims={"batch": 1}, folder=folder)
    assert (found.node, found.reason) == ("initializer 'w'", Reason.EXTERNAL)


@pytest.mark.parametrize(
    "entries",
    [
        {"offset": "4"},
        {"offset": "-4"},
        {"offset": str(HUGE)},
        {"length": "32"},
        {"length": "-1"},
        {"offset": "x"},
        {"length": "9" * 5000},
    ],
)
def test_a_part_of_a_file_that_is_not_there_is_refused(
    entries: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "data").write_bytes(bytes(64))
    model = initialized(external(location="data", **entries))
    (found,) = refusals(model, dims={"batch": 1}, folder=tmp_path)
    assert found.reason is Reason.EXTERNAL


def test_without_a_folder_no_file_is_opened() -> None:
    (found,) = refusals(initialized(external(location="data")), dims={"batch": 1})
    assert found.reason is Reason.EXTERNAL


def test_a_path_that_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "none", "a\0b"):
        assert refusals(path)[0].reason is Reason.MODEL


def test_functions_that_call_themselves_end() -> None:
    text = """
    <ir_version: 10, opset_import: ["" : 18, "own" : 1]>
    calls (float[3] x) => (float[3] y) { y = own.again(x) }
    <domain: "own", opset_import: ["" : 18, "own" : 1]>
    again (a) => (b) { b = own.again(a) }
    """
    found = refusals(parser.parse_model(text))
    assert "functions within" in found[0].missing or "checker" in found[0].missing


@pytest.mark.parametrize(
    ("attribute", "body", "missing"),
    [
        ("axis = 1.5", "b = Softmax<axis: int = @axis>(a)", "attribute axis"),
        ("other = 1", "b = Cast<to: int = @axis>(a)", "a missing attribute"),
        ("axis = 1", "b = Add(a, x)", "input 'x'"),
        ("axis = 1", "c = Neg(a)", "a node for output 'b'"),
    ],
)
def test_functions_that_are_called_wrongly_are_refused(
    attribute: str, body: str, missing: str
) -> None:
    text = f"""
    <ir_version: 10, opset_import: ["" : 18, "own" : 1]>
    calls (float[3, 2] x) => (float[3, 2] y) {{ y = own.it<{attribute}>(x) }}
    <domain: "own", opset_import: ["" : 18]>
    it <axis>(a) => (b) {{ {body} }}
    """
    found = refusals(parser.parse_model(text))
    assert re.search(missing, " ".join(map(str, found)))


def test_many_nodes_of_nobody_are_refused_in_time() -> None:
    model = of("(float[2, 3] y) { y = Neg(x) }")
    for n in range(20000):
        model.graph.node.append(helper.make_node("NonZero", ["x"], [f"n{n}"]))
    start = time.process_time()
    assert len(refusals(model)) == 20000
    assert time.process_time() - start < 10


def test_functions_that_double_end() -> None:
    """Each calls the one before twice: 2**30 nodes, written out."""
    head = """<ir_version: 10, opset_import: ["" : 18, "own" : 1]>
    calls (float[3] x) => (float[3] y) { y = own.f30(x) }
    """
    body = """<domain: "own", opset_import: ["" : 18, "own" : 1]>
    f%d (a) => (c) { b = %s(a) c = %s(b) }
    """
    texts = [body % (n, *[f"own.f{n - 1}" if n else "Neg"] * 2) for n in range(31)]
    start = time.process_time()
    refusals(parser.parse_model(head + "\n".join(texts)))
    assert time.process_time() - start < 5


def test_a_truncated_model_is_refused_wherever_it_ends() -> None:
    whole = parser.parse_model(SMALL).SerializeToString()
    assert isinstance(import_model(whole, dims={"batch": 2}), Imported)
    for end in range(len(whole)):
        import_model(whole[:end], dims={"batch": 2})


def test_a_changed_model_raises_nothing(rng: np.random.Generator) -> None:
    whole = parser.parse_model(SMALL).SerializeToString()
    refused = 0
    for _ in range(400):
        changed = bytearray(whole)
        for place in rng.integers(0, len(whole), rng.integers(1, 4)):
            changed[place] = rng.integers(0, 256)
        refused += not isinstance(import_model(bytes(changed), dims={"batch": 2}), Imported)
    assert refused > 100
