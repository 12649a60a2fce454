"""What `gristmill.onnx` refuses, what it calls wrong, and that it goes on after either."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gristmill import runtime

ONE = np.ones(3, np.float32)
IMAGE = np.ones((1, 1, 4, 4), np.float32)
FILTER = np.ones((1, 1, 2, 2), np.float32)


@pytest.fixture(scope="module")
def device() -> Iterator[runtime.Device]:
    with runtime.open_device("cpu") as opened:
        yield opened


@pytest.fixture
def run(
    require: Callable[..., None], device: runtime.Device, bundle: runtime.Bundle
) -> Callable[..., tuple[np.ndarray, ...]]:
    """`run("Add", [a, b], axis=1, opset=18, domain="")`: one node on the CPU."""
    require("onnx")
    require("cpu")

    def node(
        op: str,
        inputs: list[Any],
        outputs: int = 1,
        opset: int = 18,
        domain: str = "",
        **named: Any,
    ) -> tuple[np.ndarray, ...]:
        from onnx import helper

        from gristmill.onnx import GristmillBackend

        names = [f"x{n}" for n in range(len(inputs))]
        proto = helper.make_node(
            op, names, [f"y{n}" for n in range(outputs)], name="it", domain=domain, **named
        )
        return GristmillBackend.run_node(proto, inputs, device, bundle=bundle, opset_version=opset)

    return node


def refusal(call: Callable[[], object]) -> Any:
    from gristmill.onnx import NodeRefused

    with pytest.raises(NodeRefused) as found:
        call()
    return found.value.refusal


def test_the_runtime_and_the_command_leave_onnx_alone() -> None:
    code = "import sys, gristmill.runtime, gristmill.cli.main; print('onnx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_refusal_says_what_is_missing(run: Callable[..., Any], device: runtime.Device) -> None:
    wide = np.ones(3)
    found = refusal(lambda: run("Floor", [wide]))
    assert found == ("it", "Floor", ("f64",), device.name, "kernel unary floor_f64")
    assert "it: Floor(f64)" in str(found)


def test_an_operator_of_others_is_refused_before_it_runs(run: Callable[..., Any]) -> None:
    found = refusal(lambda: run("Gadget", [ONE], domain="org.example", opset=1))
    assert found.missing == "operator Gadget"


@pytest.mark.parametrize("opset", [0, 999])
def test_an_opset_that_is_not_there_is_an_error(run: Callable[..., Any], opset: int) -> None:
    from onnx.checker import ValidationError
    from onnx.onnx_cpp2py_export.shape_inference import InferenceError

    from gristmill.onnx import InvalidNode

    with pytest.raises((InvalidNode, ValidationError, InferenceError)):
        run("Relu", [ONE], opset=opset)


def test_after_a_refusal_the_machine_holds_nothing(
    device: runtime.Device, bundle: runtime.Bundle, require: Callable[..., None]
) -> None:
    require("onnx")
    from gristmill.onnx.machine import Machine
    from gristmill.onnx.refusal import Missing

    machine = Machine(device, bundle)
    x, y = machine.upload(ONE), machine.upload(5 * ONE)
    machine.launch("unary", "neg_f32", x, y)
    with pytest.raises(Missing):
        machine.launch("unary", "no such", x, y)
    machine.forget()
    machine.submit()
    assert machine.host(replace(y, value=None)).tolist() == [5, 5, 5]


@pytest.mark.parametrize(
    ("op", "inputs", "named"),
    [
        ("Add", [ONE, np.ones(2, np.float32)], {}),
        ("Reshape", [ONE, np.array([2, 2])], {}),
        ("Reshape", [ONE, np.array([-2, 3])], {}),
        ("Transpose", [ONE], {"perm": [0, 1]}),
        ("Concat", [ONE, ONE], {"axis": 3}),
        ("Split", [ONE, np.array([2, 2])], {"axis": 0}),
        ("MatMul", [np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)], {}),
        ("GatherND", [np.ones((2, 3), np.float32), np.array([[1, 3]])], {}),
        ("Expand", [ONE, np.array([2])], {}),
    ],
)
def test_what_does_not_fit_is_no_refusal(
    run: Callable[..., Any], op: str, inputs: list[np.ndarray], named: dict[str, Any]
) -> None:
    from onnx.checker import ValidationError
    from onnx.onnx_cpp2py_export.shape_inference import InferenceError

    from gristmill.onnx import InvalidNode

    with pytest.raises((InvalidNode, ValidationError, InferenceError)):
        run(op, inputs, **named)
    assert run("Neg", [ONE])[0].tolist() == [-1, -1, -1]


def test_an_index_outside_the_axis_is_a_fault_of_the_kernel(run: Callable[..., Any]) -> None:
    with pytest.raises(runtime.KernelFault, match="outside the axis"):
        run("Gather", [ONE, np.array([3])])


@pytest.mark.parametrize("index", [2**32, -(2**31) - 1])
def test_an_index_of_more_than_32_bits_is_refused(run: Callable[..., Any], index: int) -> None:
    """Its low word may be a row."""
    assert "64-bit index" in refusal(lambda: run("Gather", [ONE, np.array([index])])).missing


@pytest.mark.parametrize("value", [np.array(["a"]), np.array([b"a"], object)])
def test_strings_are_refused(run: Callable[..., Any], value: np.ndarray) -> None:
    assert refusal(lambda: run("Identity", [value.astype(object)])).missing == "element type object"


@pytest.mark.parametrize(
    ("op", "shapes", "expected"),
    [
        ("Add", [(0, 3), (1,)], (0, 3)),
        ("Relu", [(0,)], (0,)),
        ("MatMul", [(0, 2), (2, 3)], (0, 3)),
        ("Softmax", [(2, 0)], (2, 0)),
        ("Concat", [(0, 2), (3, 2)], (3, 2)),
        ("Transpose", [(0, 4)], (4, 0)),
    ],
)
def test_tensors_of_nothing(
    run: Callable[..., Any], op: str, shapes: list[tuple[int, ...]], expected: tuple[int, ...]
) -> None:
    named = {"axis": 0} if op == "Concat" else {}
    (y,) = run(op, [np.ones(shape, np.float32) for shape in shapes], **named)
    assert y.shape == expected


def test_a_sum_over_nothing_is_zero(run: Callable[..., Any]) -> None:
    (y,) = run("MatMul", [np.ones((2, 0), np.float32), np.ones((0, 3), np.float32)])
    assert y.tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(("op", "expected"), [("ReduceMin", True), ("ReduceMax", False)])
def test_all_and_any_of_no_bools(run: Callable[..., Any], op: str, expected: bool) -> None:
    (y,) = run(op, [np.ones((2, 0), bool), np.array([1])], opset=20)
    assert y.view(np.uint8).tolist() == [[expected], [expected]]


def model(shape: list[Any]) -> Any:
    from onnx import TensorProto, helper

    return helper.make_model(
        helper.make_graph(
            [helper.make_node("Neg", ["x"], ["y"])],
            "negate",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        ),
        opset_imports=[helper.make_opsetid("", 18)],
    )


def test_sizes_may_be_known_late(
    device: runtime.Device, bundle: runtime.Bundle, require: Callable[..., None]
) -> None:
    require("onnx")
    from gristmill.onnx import prepare

    prepared = prepare(model(["n", "m"]), device, bundle=bundle)
    for shape in ((2, 3), (1, 5)):
        (y,) = prepared.run({"x": np.ones(shape, np.float32)})
        assert (y == -1).all()
        assert y.shape == shape


@pytest.mark.parametrize(
    ("op", "inputs", "named"),
    [
        ("Concat", [ONE, ONE.astype(np.float16)], {"axis": 0}),
        ("Squeeze", [ONE, np.array([0])], {}),
        ("Unsqueeze", [ONE, np.array([0, 0])], {}),
        ("DepthToSpace", [np.ones((1, 7, 2, 2), np.float32)], {"blocksize": 2}),
        ("Add", [ONE, ONE.astype(np.float16)], {}),
        ("Where", [ONE > 0, ONE, ONE.astype(np.int32)], {}),
        ("BitwiseXor", [ONE, ONE], {}),
        ("Reciprocal", [ONE.astype(np.uint8)], {}),
        ("Range", [np.int64(0), np.int64(3), np.int64(0)], {}),
        ("Conv", [IMAGE, FILTER], {"kernel_shape": [3, 3]}),
        ("Conv", [IMAGE, FILTER], {"pads": [1, 1]}),
        ("Conv", [IMAGE, FILTER], {"pads": [-1, 0, 0, 0]}),
        ("Conv", [IMAGE, FILTER], {"strides": [0, 1]}),
        ("Conv", [IMAGE, FILTER], {"strides": [2, 2, 2]}),
        ("Conv", [IMAGE, FILTER], {"dilations": [0, 1]}),
        ("ConvTranspose", [IMAGE, FILTER], {"strides": [-1, 1]}),
        ("MaxPool", [IMAGE], {"kernel_shape": [2, 2], "strides": [1, 1, 1]}),
        ("AveragePool", [IMAGE], {"kernel_shape": [0, 2]}),
    ],
)
def test_types_and_sizes_that_do_not_fit_are_told_and_not_moved(
    run: Callable[..., Any], op: str, inputs: list[Any], named: dict[str, Any]
) -> None:
    from gristmill.onnx import InvalidNode

    with pytest.raises(InvalidNode, match=f"{op}.*expected"):
        run(op, inputs, **named)


@pytest.mark.parametrize("inputs", [[], [ONE, ONE], {"z": ONE}, [ONE.astype(np.float64)]])
def test_other_inputs_than_the_graph_has(
    device: runtime.Device, bundle: runtime.Bundle, require: Callable[..., None], inputs: Any
) -> None:
    require("onnx")
    from gristmill.onnx import InvalidNode, prepare

    with pytest.raises(InvalidNode):
        prepare(model([3]), device, bundle=bundle).run(inputs)


def test_constants_are_folded_and_inputs_are_not(
    device: runtime.Device, bundle: runtime.Bundle, require: Callable[..., None]
) -> None:
    """No kernel floors f64: what follows from the model alone needs none."""
    require("onnx")
    from onnx import TensorProto, helper, numpy_helper

    from gristmill.onnx import prepare

    value = numpy_helper.from_array(np.array([1.5, -1.5]))
    y = helper.make_tensor_value_info("y", TensorProto.DOUBLE, [2])
    x = helper.make_tensor_value_info("x", TensorProto.DOUBLE, [2])
    floor = helper.make_node("Floor", ["x"], ["y"])
    constant = helper.make_node("Constant", [], ["x"], value=value)
    opsets = [helper.make_opsetid("", 18)]
    fixed = helper.make_graph([constant, floor], "fixed", [], [y])
    given = helper.make_graph([floor], "given", [x], [y])
    one, other = (helper.make_model(g, opset_imports=opsets) for g in (fixed, given))
    assert prepare(one, device, bundle=bundle).run([])[0].tolist() == [1, -2]
    called = prepare(other, device, bundle=bundle)
    assert refusal(lambda: called.run([np.array([1.5, -1.5])])).op == "Floor"


def test_devices_by_name(require: Callable[..., None]) -> None:
    require("onnx")
    from gristmill.onnx import GristmillBackend

    assert GristmillBackend.supports_device("CPU")
    assert GristmillBackend.supports_device("cpu:0")
    assert not GristmillBackend.supports_device("no such")
    require("lavapipe")
    assert GristmillBackend.supports_device("vulkan")
    assert GristmillBackend.supports_device("Vulkan:0")
    assert not GristmillBackend.supports_device("vulkan:99")


def test_without_the_package_the_import_says_what_to_install(require: Callable[..., None]) -> None:
    require("onnx")
    code = "import sys; sys.modules['onnx'] = None\nimport importlib.util as u\n"
    code += "real = u.find_spec; u.find_spec = lambda n: None if n == 'onnx' else real(n)\n"
    done = subprocess.run(
        [sys.executable, "-c", code + "import gristmill.onnx"], capture_output=True, text=True
    )
    assert "pip install 'gristmill[onnx]'" in done.stderr
