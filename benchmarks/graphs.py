"""The benchmark operations as ONNX models and as MLIR for IREE, for the peers in the same run."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper


def _model(
    nodes: list[onnx.NodeProto], inputs: dict[str, tuple[int, ...]], out: tuple[int, ...]
) -> bytes:
    graph = helper.make_graph(
        nodes,
        "bench",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, out)],
    )
    opsets = [helper.make_opsetid("", 23)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def onnx_matmul(n: int) -> bytes:
    return _model(
        [helper.make_node("MatMul", ["a", "b"], ["y"])], {"a": (n, n), "b": (n, n)}, (n, n)
    )


def onnx_softmax(n: int) -> bytes:
    return _model([helper.make_node("Softmax", ["x"], ["y"], axis=-1)], {"x": (n, n)}, (n, n))


def onnx_rmsnorm(n: int) -> bytes:
    node = helper.make_node("RMSNormalization", ["x", "w"], ["y"], axis=-1, epsilon=1e-5)
    return _model([node], {"x": (n, n), "w": (n,)}, (n, n))


def onnx_sum(n: int) -> bytes:
    return _model([helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)], {"x": (n,)}, ())


def mlir_matmul(n: int) -> str:
    t = f"tensor<{n}x{n}xf32>"
    return f"""
func.func @main(%a: {t}, %b: {t}) -> {t} {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : {t}
  %init = linalg.fill ins(%zero : f32) outs(%empty : {t}) -> {t}
  %y = linalg.matmul ins(%a, %b : {t}, {t}) outs(%init : {t}) -> {t}
  return %y : {t}
}}"""


def mlir_softmax(n: int) -> str:
    t = f"tensor<{n}x{n}xf32>"
    return f"""
func.func @main(%x: {t}) -> {t} {{
  %empty = tensor.empty() : {t}
  %y = linalg.softmax dimension(1) ins(%x : {t}) outs(%empty : {t}) -> {t}
  return %y : {t}
}}"""


def mlir_rmsnorm(n: int) -> str:
    t, r = f"tensor<{n}x{n}xf32>", f"tensor<{n}xf32>"
    row, full = "affine_map<(i, j) -> (i)>", "affine_map<(i, j) -> (i, j)>"
    column = "affine_map<(i, j) -> (j)>"
    return f"""
func.func @main(%x: {t}, %w: {r}) -> {t} {{
  %zero = arith.constant 0.0 : f32
  %count = arith.constant {float(n)} : f32
  %eps = arith.constant 1.0e-05 : f32
  %rows = tensor.empty() : {r}
  %init = linalg.fill ins(%zero : f32) outs(%rows : {r}) -> {r}
  %sums = linalg.generic {{
    indexing_maps = [{full}, {row}], iterator_types = ["parallel", "reduction"]}}
    ins(%x : {t}) outs(%init : {r}) {{
  ^bb0(%v: f32, %s: f32):
    %sq = arith.mulf %v, %v : f32
    %sum = arith.addf %s, %sq : f32
    linalg.yield %sum : f32
  }} -> {r}
  %empty = tensor.empty() : {t}
  %y = linalg.generic {{
    indexing_maps = [{full}, {row}, {column}, {full}],
    iterator_types = ["parallel", "parallel"]}}
    ins(%x, %sums, %w : {t}, {r}, {r}) outs(%empty : {t}) {{
  ^bb0(%v: f32, %s: f32, %g: f32, %o: f32):
    %mean = arith.divf %s, %count : f32
    %shifted = arith.addf %mean, %eps : f32
    %scale = math.rsqrt %shifted : f32
    %scaled = arith.mulf %v, %scale : f32
    %out = arith.mulf %scaled, %g : f32
    linalg.yield %out : f32
  }} -> {t}
  return %y : {t}
}}"""


def mlir_sum(n: int) -> str:
    return f"""
func.func @main(%x: tensor<{n}xf32>) -> tensor<f32> {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<f32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<f32>) -> tensor<f32>
  %y = linalg.generic {{
    indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>],
    iterator_types = ["reduction"]}}
    ins(%x : tensor<{n}xf32>) outs(%init : tensor<f32>) {{
  ^bb0(%v: f32, %s: f32):
    %sum = arith.addf %s, %v : f32
    linalg.yield %sum : f32
  }} -> tensor<f32>
  return %y : tensor<f32>
}}"""


def inputs(operation: str, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The arrays that an operation takes, by name, in order."""

    def array(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32)

    return {
        "matmul": lambda: {"a": array(n, n), "b": array(n, n)},
        "softmax": lambda: {"x": array(n, n)},
        "rmsnorm": lambda: {"x": array(n, n), "w": array(n)},
        "sum": lambda: {"x": rng.random(n, np.float32)},
    }[operation]()
