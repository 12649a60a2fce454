"""Convolution of images, and of signals as images of one row, in the layout N x C x H x W.

y[n, f, p, q] = EPILOGUE(bias[f] + sum over c, r, s of w[f, c, r, s] * x[n, g * C + c, p * stride_h
- pad_top + r * dilation_h, q * stride_w - pad_left + s * dilation_w]), where w has C channels and g
is the group of filter f; x counts as zero outside, so that padding at the end is what y's size
makes of it. That is a product of the filters, as rows of C * kernel_h * kernel_w weights, and of
the windows of x as columns, which are gathered and never stored. `arguments` gives the scalars of a
convolution of arrays, with the checks that a kernel cannot make.

Specializations `depthwise_*` are the same kernel, for groups of few filters: one row at a time.
"""

from __future__ import annotations

from ..ir.lang import (
    DType,
    Function,
    Read,
    Write,
    barrier,
    bool_,
    ceil_div,
    convert,
    device,
    f32,
    fma,
    group_id,
    i32,
    kernel,
    local_id,
    registers,
    select,
    static_assert,
    static_range,
    u32,
    workgroup_array,
)
from .common import is_product
from .convolution_inputs import BOUND, arguments, inputs, reference
from .family import Family
from .matmul import identity, relu
from .tile_products import add_products

__all__ = ["FAMILIES", "arguments", "conv2d", "identity", "relu"]


NOWHERE = -(2**30)  # a row that is outside of x, whatever of a window is added


@device
def quotient(a, b):
    """a // b of numbers that are not negative, which is shorter than that of any."""
    return i32(u32(a) // u32(b))


@device
def split(at, axes):
    """`at`, not negative, as (the rest, a row, a column) of axes (rows, columns)."""
    above = u32(at) // u32(axes[1])
    first = above // u32(axes[0])
    return i32(first), i32(above - first * u32(axes[0])), at - i32(above) * axes[1]


@device
def moved(place, far, kernel_h, kernel_w):
    """The element of a filter (channel, row, column) that lies `far` behind another; each part of
    `far` is less than its axis is long."""
    c, r, s = place
    far_c, far_r, far_s = far
    s += far_s
    more = s >= kernel_w
    s = select(more, s - kernel_w, s)
    r += far_r + select(more, i32(1), i32(0))
    more = r >= kernel_h
    r = select(more, r - kernel_h, r)
    return c + far_c + select(more, i32(1), i32(0)), r, s


@device
def offset_of(place, sizes, dilations):
    """How far an element of a window lies from where the window begins: rows, columns, elements of
    x; and whether it is one."""
    c, r, s = place
    down = r * dilations[0]
    along = s * dilations[1]
    return down, along, (c * sizes[1] + down) * sizes[2] + along, c < sizes[0]


@device
def element(x, offset, begin, start, sizes, run, consecutive, FLAT):
    """x at an offset in the window that begins at row and column `begin`, as f32; zero outside.

    start: where the window begins in x. FLAT: where `consecutive`, which is the same for a whole
    row of neighbours, `start` is `run`, which a compiler knows to be consecutive.
    """
    down, along, shift, inside = offset
    inside = inside and u32(begin[0] + down) < u32(sizes[1])
    inside = inside and u32(begin[1] + along) < u32(sizes[2])
    if FLAT:
        found = x.dtype(0)
        if consecutive:
            if inside:
                found = x[run + shift]
        elif inside:
            found = x[start + shift]
        return convert(found, f32)
    return select(inside, convert(x[select(inside, start + shift, 0)], f32), f32(0))


@device
def image_of(first, lx, pixels, TX, FLAT):
    """The image of pixel first + lx, counted through all images. FLAT: as of `pixel_of`."""
    if FLAT:
        near = quotient(first, pixels)
        if pixels >= TX:
            return near + select(first + lx - near * pixels >= pixels, i32(1), i32(0))
    return quotient(first + lx, pixels)


@device
def pixel_of(first, lx, out, TX, FLAT):
    """(image, row, column) of pixel first + lx, counted through all images. FLAT: where rows are
    long, only `first` is divided, which is the same for all of TX neighbours."""
    if not FLAT:
        return split(first + lx, out)
    image, row, column = split(first, out)
    if out[1] >= TX:
        column += lx
        more = column >= out[1]
        column = select(more, column - out[1], column)
        row = select(more, row + 1, row)
        more = row >= out[0]
        row = select(more, row - out[0], row)
        image = select(more, image + 1, image)
    else:
        image, row, column = split(first + lx, out)
    return image, row, column


@device
def window_of(first, lx, count, group, sizes, out, strides, pads, TX, FLAT):
    """Of output pixel first + lx, counted through all images: where its window begins, as (row,
    column), and as an index of x; the same, if the windows of TX neighbours begin at consecutive
    elements; and whether they do. All rows of a pixel behind the last one lie outside."""
    image, row, column = pixel_of(first, lx, out, TX, FLAT)
    row = select(first + lx < count, row * strides[0] - pads[0], NOWHERE)
    column = column * strides[1] - pads[1]
    plane = sizes[1] * sizes[2]
    each = sizes[3] * plane
    start = image * each + group * sizes[0] * plane + row * sizes[2] + column
    if not FLAT:
        return (row, column), start, start, False
    pixels = out[0] * out[1]
    near = quotient(first, pixels)
    run = near * (each - pixels) + group * sizes[0] * plane + first - pads[0] * sizes[2] - pads[1]
    consecutive = strides[0] == 1 and strides[1] == 1 and out[1] == sizes[2]
    consecutive = consecutive and first + TX <= (near + 1) * pixels
    return (row, column), start, run + lx, consecutive


@device
def finish(y, bias, acc, first, end, left, lx, filters, pixels, EPILOGUE, T, TX, TM, TN, FLAT):
    """Write the results of filters `first` ... and of every TX-th pixel from `left` on."""
    starts = registers(i32, TN, 0)
    inside = registers(bool_, TN, False)
    count = quotient(i32(len(y)), filters)
    for j in static_range(TN):
        at = left + j * TX + lx
        starts[j] = at + image_of(left + j * TX, lx, pixels, TX, FLAT) * (pixels * (filters - 1))
        inside[j] = at < count
    for i in static_range(TM):
        if first + i < end:
            shift = f32(0)
            if len(bias) > 0:
                shift = convert(bias[first + i], f32)
            for j in static_range(TN):
                if inside[j]:
                    value = convert(EPILOGUE(acc[i, j] + shift), T)
                    y[starts[j] + (first + i) * pixels] = value


@device
def fill_rows(tile, w, top, k0, end, depth, HEIGHT, TK, STAGE, TX, TY):
    """tile = weights k0 ... of filters top ..., zero outside of those before `end` and `depth`."""
    for at in range(local_id(1) * TX + local_id(0), HEIGHT * TK, TX * TY):
        row = at // TK
        col = at % TK
        inside = top + row < end and k0 + col < depth
        value = convert(w[select(inside, (top + row) * depth + k0 + col, 0)], STAGE)
        tile[row, col] = select(inside, value, convert(0, STAGE))


@device
def staged(x, w, bias, y, rows, depth, filters, sizes, out, window, strides, pads, dilations,
           T, STAGE, EPILOGUE, STAGE_A, TX, TY, TM, TN, TK, DEEP, FLAT):  # fmt: skip
    """Tiles of windows, and of filters where STAGE_A, go through workgroup memory in steps of TK.

    rows: filters of a group; depth: weights of a filter; sizes: channels of a group, height, width
    and channels of x. A row of neighbours copies what one weight meets in neighbouring windows.
    """
    tile_b = workgroup_array(STAGE, (TK, TX * TN))
    lx = local_id(0)
    ly = local_id(1)
    group = group_id(2)
    top = group * rows + group_id(0) * (TY * TM)
    end = (group + 1) * rows
    left = group_id(1) * (TX * TN)
    first = top + ly * TM
    acc = registers(f32, (TM, TN), 0)
    starts = registers(i32, TM, 0)
    if STAGE_A:
        tile_a = workgroup_array(STAGE, (TY * TM, TK))
    else:
        for i in static_range(TM):
            starts[i] = min(first + i, end - 1) * depth
    down = TY // TN
    row = ly // TN
    column = ly % TN * TX + lx
    count = quotient(i32(len(y)), filters)
    near = left + ly % TN * TX
    begin, start, run, flat = window_of(near, lx, count, group, sizes, out, strides, pads, TX, FLAT)
    place = split(row, window)
    far = split(i32(down), window)
    for k0 in range(0, max(depth, 1), TK):
        if STAGE_A and depth > 0:
            fill_rows(tile_a, w, top, k0, end, depth, TY * TM, TK, STAGE, TX, TY)
        deep = min(TK, ceil_div(depth - k0, DEEP) * DEEP)
        for step in range(ceil_div(deep, down)):
            offset = offset_of(place, sizes, dilations)
            found = element(x, offset, begin, start, sizes, run, flat, FLAT)
            tile_b[row + step * down, column] = convert(found, STAGE)
            place = moved(place, far, window[0], window[1])
        barrier()
        if not STAGE_A:
            deep = deep if first < end else 0  # subgroups below the last row rest
        weights = tile_a if STAGE_A else w
        add_products(acc, weights, tile_b, starts, k0, deep, STAGE_A, TX, TM, TN, DEEP)
        if k0 + TK >= depth:
            pixels = out[0] * out[1]
            finish(
                y, bias, acc, first, end, left, lx, filters, pixels, EPILOGUE, T, TX, TM, TN, FLAT
            )
        barrier()


@device
def direct(x, w, bias, y, rows, depth, filters, sizes, out, window, strides, pads, dilations,
           T, EPILOGUE, TX, TY, TM, TN, FLAT):  # fmt: skip
    """As `staged`, straight from the buffers."""
    group = group_id(2)
    end = (group + 1) * rows
    first = group * rows + (group_id(0) * TY + local_id(1)) * TM
    lx = local_id(0)
    left = group_id(1) * (TX * TN)
    count = quotient(i32(len(y)), filters)
    acc = registers(f32, (TM, TN), 0)
    starts = registers(i32, TM, 0)
    begin_h = registers(i32, TN, 0)
    begin_w = registers(i32, TN, 0)
    begins = registers(i32, TN, 0)
    runs = registers(i32, TN, 0)
    flat = registers(bool_, TN, False)
    for i in static_range(TM):
        starts[i] = min(first + i, end - 1) * depth
    for j in static_range(TN):
        near = left + j * TX
        begin, begins[j], runs[j], flat[j] = window_of(
            near, lx, count, group, sizes, out, strides, pads, TX, FLAT
        )
        begin_h[j], begin_w[j] = begin
    place = (i32(0), i32(0), i32(0))
    far = split(i32(1), window)
    for k in range(depth if left + lx < count and first < end else 0):
        weights = registers(f32, TM, 0)
        for i in static_range(TM):
            weights[i] = convert(w[starts[i] + k], f32)
        offset = offset_of(place, sizes, dilations)
        for j in static_range(TN):
            begin = (begin_h[j], begin_w[j])
            found = element(x, offset, begin, begins[j], sizes, runs[j], flat[j], FLAT)
            for i in static_range(TM):
                acc[i, j] = fma(weights[i], found, acc[i, j])
        place = moved(place, far, window[0], window[1])
    pixels = out[0] * out[1]
    finish(y, bias, acc, first, end, left, lx, filters, pixels, EPILOGUE, T, TX, TM, TN, FLAT)


@kernel(
    workgroup=lambda: (TX, TY, 1),
    grid=lambda: (
        ceil_div(filters // max(groups, 1), TY * TM),
        ceil_div(len(y) // max(filters, 1), TX * TN),
        max(groups, 1),
    ),
)
def conv2d(
    x: Read[T],
    w: Read[T],
    bias: Read[T],
    y: Write[T],
    channels: i32,
    height: i32,
    width: i32,
    filters: i32,
    kernel_h: i32,
    kernel_w: i32,
    out_h: i32,
    out_w: i32,
    groups: i32,
    stride_h: i32,
    stride_w: i32,
    pad_top: i32,
    pad_left: i32,
    dilation_h: i32,
    dilation_w: i32,
    *,
    T: DType = f32,
    STAGE: DType = f32,
    EPILOGUE: Function = identity,
    STAGED: bool = True,
    STAGE_A: bool = True,
    TX: int = 16,
    TY: int = 16,
    TM: int = 4,
    TN: int = 4,
    TK: int = 32,
    DEEP: int = 1,
    FLAT: bool = False,
    SUBGROUP: int = 1,
):
    """y = EPILOGUE(x convolved with w + bias): see the module.

    x is images x channels x height x width; w filters x channels / groups x kernel_h x kernel_w;
    bias has an element for each filter, or none at all; y is images x filters x out_h x out_w.
    Products accumulate in f32, along a filter in the order of its weights, by fma; the bias is
    added and the result rounded to T once. A workgroup makes TY*TM filters x TX*TN pixels. STAGED,
    STAGE, STAGE_A and DEEP: as of `matmul`.
    """
    static_assert(DEEP == 1 or (STAGE_A and TK % DEEP == 0), "DEEP divides TK, with STAGE_A")
    own = quotient(channels, max(groups, 1))
    rows = quotient(filters, max(groups, 1))
    depth = own * kernel_h * kernel_w
    pixels = filters * out_h * out_w
    images = quotient(i32(len(y)), pixels)
    shared = own * groups == channels and rows * groups == filters
    assert shared, "conv2d: groups that do not share channels and filters evenly"
    sized = is_product(len(y), (images, filters, out_h, out_w))
    sized = sized and is_product(len(x), (images, channels, height, width))
    assert sized, "conv2d: x or y of another size than its shape"
    weighted = is_product(len(w), (filters, own, kernel_h, kernel_w))
    weighted = weighted and (len(bias) == 0 or i32(len(bias)) == filters)
    assert weighted, "conv2d: w or bias of another size than its shape"
    spread = min(min(stride_h, stride_w), min(dilation_h, dilation_w)) > 0
    assert spread, "conv2d: a stride or a dilation that is not positive"
    sound = shared and sized and weighted and spread
    rows = select(sound, rows, 0)  # y stays as it is
    depth = select(sound and len(x) > 0, depth, 0)
    sizes = (own, height, width, channels)
    out = (out_h, out_w)
    window = (kernel_h, kernel_w)
    strides = (stride_h, stride_w)
    pads = (pad_top, pad_left)
    dilations = (dilation_h, dilation_w)
    if STAGED:
        static_assert(TY % TN == 0 and TK % (TY // TN) == 0, "TY / TN divides TK")
        staged(x, w, bias, y, rows, depth, filters, sizes, out, window, strides, pads, dilations,
               T, STAGE, EPILOGUE, STAGE_A, TX, TY, TM, TN, TK, DEEP, FLAT)  # fmt: skip
    else:
        direct(x, w, bias, y, rows, depth, filters, sizes, out, window, strides, pads, dilations,
               T, EPILOGUE, TX, TY, TM, TN, FLAT)  # fmt: skip


FAMILIES = (
    Family(
        conv2d,
        inputs,
        reference,
        "f32 accumulation in the order of weights; rounded once",
        {"": BOUND},
        "relu makes 0 of a NaN",
    ),
)
