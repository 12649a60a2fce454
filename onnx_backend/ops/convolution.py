"""Convolution and pooling of signals and images; a signal is an image of one row."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...kernels.convolution_inputs import Geometry, around, each_axis, geometry
from ..layout import full, joined, moved, permuted, place
from ..machine import Machine
from ..node import Node
from ..pieces import binary, cast, reduced, scaled, unary
from ..refusal import InvalidNode, Missing
from ..registry import op
from ..tensor import Tensor
from .matmul import EXACT
from .quantization import rounded


def _stated(node: Node, kernel: Sequence[int]) -> None:
    """InvalidNode where kernel_shape contradicts the filters."""
    stated = node.attribute("kernel_shape")
    if stated and list(stated) != list(kernel):
        raise InvalidNode(
            f"{node.op} with filters of another shape",
            where=f"node {node.name or '(unnamed)'}",
            expected=str(stated),
            got=str(kernel),
        )


def windows(node: Node, shape: Sequence[int], kernel: Sequence[int]) -> Geometry:
    """From the attributes of a convolution or a pooling. Missing: more than two axes of pixels;
    ValueError: attributes that make no windows."""
    axes = len(shape)
    if axes not in (1, 2):
        raise Missing(f"a kernel for {node.op} over {axes} axes")
    _stated(node, kernel)
    strides, dilations = (node.attribute(name) or 1 for name in ("strides", "dilations"))
    pads = node.attribute("pads") or ()
    auto = node.attribute("auto_pad", "NOTSET")
    if auto == "VALID":
        pads = ()
    elif auto != "NOTSET":
        rows = (each_axis(v, axes, node.op)[2 - axes :] for v in (kernel, strides, dilations))
        more = [
            max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
            for n, k, s, d in zip(shape, *rows, strict=True)
        ]
        less = _lesser(more, auto)
        pads = [*less, *(a - b for a, b in zip(more, less, strict=True))]
    return geometry(shape, kernel, strides, pads, dilations, bool(node.attribute("ceil_mode", 0)))


def _lesser(total: Sequence[int], auto: str) -> list[int]:
    """What of a padding stands before each axis."""
    return [n // 2 if auto == "SAME_UPPER" else n - n // 2 for n in total]


def convolved(
    m: Machine, x: Tensor, w: Tensor, bias: Tensor | None, how: Geometry, groups: int
) -> Tensor:
    """x, [images, channels, ...], by filters w, [filters, channels / groups, ...]."""
    filters, channels = w.shape[0], x.shape[1]
    if w.shape[1] * groups != channels or filters % groups:
        raise InvalidNode("filters that do not fit the channels", expected=f"of {channels}")
    if bias is not None and bias.shape != (filters,):
        raise InvalidNode(f"a bias of shape {bias.shape}", expected=f"one for each of {filters}")
    spec = x.dtype
    if spec not in ("f32", "f16", "bf16"):
        raise Missing(f"kernel conv2d {spec}")
    if groups == channels and groups == filters and m.has("conv2d", f"depthwise_{spec}"):
        spec = f"depthwise_{spec}"
    y = m.empty((x.shape[0], filters, *how.out), x.dtype)
    shift = m.empty((0,), x.dtype) if bias is None else bias
    m.launch(
        "conv2d", spec, x, w, shift, y, channels, *how.size, filters, *how.window, *how.out, groups,
        *how.strides, *how.before, *how.dilations,
    )  # fmt: skip
    return y


def _shaped(y: Tensor, rank: int) -> Tensor:
    """Without the row that stands for a signal."""
    return y.reshaped(*y.shape[:2], y.shape[3]) if rank == 3 else y


@op("Conv")
def convolution(m: Machine, node: Node) -> Tensor:
    """Products accumulate in f32."""
    x, w = node[0], node[1]
    how = windows(node, x.shape[2:], list(w.shape[2:]))
    return _shaped(convolved(m, x, w, node.get(2), how, node.attribute("group")), x.rank)


@op("CausalConvWithState")
def causal(m: Machine, node: Node) -> tuple[Tensor, Tensor]:
    """Each channel by a filter of its own over what came before; the end of that is the state."""
    x, w, past = node[0], node[1], node.get(3)
    reach = w.shape[2] - 1
    before = full(m, (*x.shape[:2], reach), 0, x.dtype) if past is None else past
    whole = joined(m, [before, x], 2)
    length = whole.shape[2]
    how = geometry((length,), (w.shape[2],), 1, (), 1)
    y = _shaped(convolved(m, whole, w, node.get(2), how, x.shape[1]), 3)
    if node.attribute("activation", "none") in ("silu", "swish"):
        y = unary(m, "silu", y)
    return y, moved(m, whole, lambda v: v[:, :, length - reach :])


@op("ConvTranspose")
def transposed(m: Machine, node: Node) -> Tensor:
    """As the convolution of x, with zeros between its pixels, by the filters turned around."""
    x, w, groups = node[0], node[1], node.attribute("group")
    axes = x.rank - 2
    if axes not in (1, 2):
        raise Missing(f"a kernel for {node.op} over {axes} axes")
    _stated(node, w.shape[2:])
    size = [1] * (2 - axes) + list(x.shape[2:])
    kernel = each_axis(w.shape[2:], axes, "a window")
    stride = each_axis(node.attribute("strides") or 1, axes, "strides")
    dilation = each_axis(node.attribute("dilations") or 1, axes, "dilations")
    span = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    low, out = _transposed_sizes(node, axes, size, stride, span)
    apart = [(n - 1) * s + 1 for n, s in zip(size, stride, strict=True)]
    wide = full(m, (*x.shape[:2], *apart), 0, x.dtype)
    images = x.reshaped(*x.shape[:2], *size)
    if wide.size == images.size:
        wide = images
    else:
        place(m, images, wide, lambda v: v[:, :, :: stride[0], :: stride[1]])
    inner = w.reshaped(groups, w.shape[0] // groups, w.shape[1], *kernel)
    turned = moved(
        m, permuted(m, inner, (0, 2, 1, 3, 4)), lambda v: v[:, :, :, ::-1, ::-1]
    ).reshaped(groups * w.shape[1], w.shape[0] // groups, *kernel)
    before = [k - 1 - n for k, n in zip(span, low, strict=True)]
    how = Geometry(apart, kernel, out, [1, 1], before, [0, 0], dilation)
    return _shaped(convolved(m, wide, turned, node.get(2), how, groups), x.rank)


def _transposed_sizes(
    node: Node, axes: int, size: Sequence[int], stride: Sequence[int], span: Sequence[int]
) -> tuple[list[int], list[int]]:
    """The padding before, and the size of the result, of a transposed convolution."""
    flat = 2 - axes
    extra = [0] * flat + list(node.attribute("output_padding") or [0] * axes)
    low, high = around(node.attribute("pads") or (), axes)
    whole = [s * (n - 1) + e + k for s, n, e, k in zip(stride, size, extra, span, strict=True)]
    auto, wanted = node.attribute("auto_pad", "NOTSET"), node.attribute("output_shape")
    if wanted or auto in ("SAME_UPPER", "SAME_LOWER"):
        goal = [n * s for n, s in zip(size, stride, strict=True)]
        if wanted:
            goal = [1] * flat + list(wanted)[-axes:]
        return _lesser([max(a - b, 0) for a, b in zip(whole, goal, strict=True)], auto), goal
    return low, [n - a - b for n, a, b in zip(whole, low, high, strict=True)]


def _integers(m: Machine, node: Node, x: Tensor, w: Tensor, zeros: list[Tensor | None]) -> Tensor:
    """The convolution of 8-bit integers less their zero points, as f32 that are exact."""
    if math.prod(w.shape[1:]) * 255 * 255 >= EXACT:
        raise Missing("kernel for a convolution of integers of more than 258 terms")
    parts = []
    for t, zero in zip((x, w), zeros, strict=True):
        whole = cast(m, t, "i32")
        if zero is not None:
            point = cast(m, zero, "i32")
            point = point.reshaped(point.size, *[1] * (t.rank - 1)) if point.size > 1 else point
            whole = binary(m, "sub", whole, point)
        parts.append(cast(m, whole, "f32"))
    how = windows(node, x.shape[2:], list(w.shape[2:]))
    return _shaped(convolved(m, parts[0], parts[1], None, how, node.attribute("group")), x.rank)


@op("ConvInteger")
def integer_convolution(m: Machine, node: Node) -> Tensor:
    """i32 of 8-bit integers."""
    return cast(m, _integers(m, node, node[0], node[1], [node.get(2), node.get(3)]), "i32")


@op("QLinearConv")
def quantized_convolution(m: Machine, node: Node) -> Tensor:
    """Exact integer sums in f32, scaled, rounded and limited."""
    x, w, zero, bias = node[0], node[3], node[7], node.get(8)
    total = _integers(m, node, x, w, [node.get(2), node.get(5)])
    column = (-1, *[1] * (x.rank - 2))
    if bias is not None:
        total = binary(m, "add", total, cast(m, bias, "f32").reshaped(bias.size, *column[1:]))
    scale = node[4]
    scale = scale.reshaped(scale.size, *column[1:]) if scale.size > 1 else scale.reshaped()
    factor = binary(m, "div", binary(m, "mul", node[1].reshaped(), scale), node[6].reshaped())
    return rounded(m, binary(m, "mul", total, factor), zero.reshaped(), zero.dtype)


def pooled(m: Machine, x: Tensor, name: str, how: Geometry, count_pads: int) -> Tensor:
    """max or mean of every window of every plane."""
    if x.dtype not in ("f32", "f16"):
        raise Missing(f"kernel pool2d {name}_{x.dtype}")
    y = m.empty((*x.shape[:2], *how.out), x.dtype)
    m.launch(
        "pool2d", f"{name}_{x.dtype}", x, y, *how.size, *how.window, *how.out, *how.strides,
        *how.before, *how.after, *how.dilations, count_pads,
    )  # fmt: skip
    return _shaped(y, x.rank)


@op("MaxPool")
def max_pool(m: Machine, node: Node) -> Tensor:
    """Of bytes as f32, which hold them."""
    x = node[0]
    if node.wants(1):
        raise Missing("kernel for a MaxPool with indices")
    how = windows(node, x.shape[2:], node.attribute("kernel_shape"))
    if x.dtype in ("i8", "u8"):
        wide = cast(m, cast(m, x, "i32"), "f32")
        return cast(m, cast(m, pooled(m, wide, "max", how, 0), "i32"), x.dtype)
    return pooled(m, x, "max", how, 0)


@op("AveragePool")
def average_pool(m: Machine, node: Node) -> Tensor:
    """Over what lies inside, or within the padding as well."""
    how = windows(node, node[0].shape[2:], node.attribute("kernel_shape"))
    return pooled(m, node[0], "mean", how, int(node.attribute("count_include_pad", 0)))


@op("LpPool")
def lp_pool(m: Machine, node: Node) -> Tensor:
    """The p-th root of the sum of p-th powers, by means over whole windows."""
    x, p = node[0], node.attribute("p")
    how = windows(node, x.shape[2:], node.attribute("kernel_shape"))
    for n, a, b, k, s, d, o in zip(
        how.size,
        how.before,
        how.after,
        how.window,
        how.strides,
        how.dilations,
        how.out,
        strict=True,
    ):
        if (o - 1) * s + d * (k - 1) + 1 > n + a + b:
            raise Missing("kernel for an LpPool whose last window is cut off")
    exponent = m.constant(p, x.dtype)
    powers = binary(m, "pow", unary(m, "abs", x), exponent)
    total = scaled(m, pooled(m, powers, "mean", how, 1), math.prod(how.window))
    return binary(m, "pow", total, m.constant(1 / p, x.dtype))


@op("GlobalAveragePool", "GlobalMaxPool")
def global_pool(m: Machine, node: Node) -> Tensor:
    """A reduction over all pixels."""
    x = node[0]
    name = "max" if node.op == "GlobalMaxPool" else "mean"
    return reduced(m, name, x, list(range(2, x.rank)), True)
