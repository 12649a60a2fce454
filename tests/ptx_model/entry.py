"""The entry of a module: what the model is told of it, and how packed parameters become arguments.

    int NAME(const void *params, const uint32_t grid[3], const uint32_t block[3], uint32_t dynamic)

`params` are laid out as `ir.abi.gpu_layout` says; dynamic is the launch's dynamic workgroup memory.
0, or 1 where the model found something wrong.
"""

from __future__ import annotations

from gristmill.ir import abi
from gristmill.ir.core import Kernel
from gristmill.ir.dtypes import Access
from gristmill.ir.extensions import cluster, gpu_layout

from .retarget import MAP, Retargeted, size_of
from .table import NotModelledError

_DESCRIBED = "{ ptr, i32, i32, i32, i32, i64, i64, ptr }"
_BUFFER, _STATIC, _DYNAMIC, _FAULTS, _COUNTER = range(5)


def _string(name: str, text: str) -> str:
    data = text.encode() + b"\0"
    body = "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in data)
    return f'{name} = private constant [{len(data)} x i8] c"{body}"'


def _objects(kernel: Kernel, made: Retargeted) -> list[tuple[str, str]]:
    """Name and description of what the kernel may access, in the order of `Rewriter.objects`."""
    layout = gpu_layout(kernel)
    found = []
    memory = zip(abi.memory_params(kernel.params), layout.pointers, layout.counts, strict=True)
    for param, at, count in memory:
        writable, element = int(param.access is not Access.READ), param.dtype.bytes
        row = f"i32 {_BUFFER}, i32 {writable}, i32 {element}, i32 0"
        found.append((param.name, f"{row}, i64 {at}, i64 {count}, ptr null"))
    if layout.faults is not None:
        row = f"i32 {_FAULTS}, i32 1, i32 4, i32 {len(kernel.sites)}"
        row = f"{row}, i64 {layout.faults}, i64 {layout.fault_base}, ptr null"
        found.append(("the fault bitmap", row))
    if layout.barrier is not None:
        row = f"i32 {_COUNTER}, i32 1, i32 4, i32 1, i64 {layout.barrier}, i64 0, ptr null"
        found.append(("the counter of the grid", row))
    for array in made.arrays:
        kind = _STATIC if array.count else _DYNAMIC
        row = f"i32 {kind}, i32 1, i32 {array.element}, i32 {array.count}, i64 0, i64 0"
        found.append((array.symbol[1:], f"{row}, ptr {array.symbol}"))
    return found


def entry_text(kernel: Kernel, made: Retargeted, dynamic: int) -> str:
    """LLVM IR of the entry."""
    objects = _objects(kernel, made)
    strings = [_string("@model.name", made.entry), _string("@model.sites", "\n".join(made.sites))]
    strings += [_string(f"@model.object{n}", name) for n, (name, _) in enumerate(objects)]
    rows = ", ".join(
        f"{_DESCRIBED} {{ ptr @model.object{n}, {row} }}" for n, (_, row) in enumerate(objects)
    )
    x, y, z = kernel.workgroup
    size = gpu_layout(kernel).size
    described = "{ ptr, ptr, ptr, [3 x i32], i32, i32, i32, i32, ptr }"
    return "\n".join(
        [
            *strings,
            f"@model.objects = private constant [{len(objects)} x {_DESCRIBED}] [{rows}]",
            f"@model.descriptor = private constant {described} {{ ptr @model.name, "
            f"ptr @model.sites, ptr @model.unpack, [3 x i32] [i32 {x}, i32 {y}, i32 {z}], "
            f"i32 {dynamic}, i32 {len(objects)}, i32 {size}, i32 {cluster(kernel)}, "
            "ptr @model.objects }",
            "declare i32 @model_launch(ptr, ptr, ptr, ptr, i32)",
            f"define i32 @{made.entry}(ptr %params, ptr %grid, ptr %block, i32 %dynamic) {{",
            "  %r = call i32 @model_launch(ptr @model.descriptor, ptr %params, ptr %grid, "
            "ptr %block, i32 %dynamic)",
            "  ret i32 %r",
            "}",
            _unpack(kernel, made),
        ]
    )


def _offsets(kernel: Kernel, made: Retargeted) -> list[int]:
    """Where each parameter of the emitted function lies; it has to be where the ABI puts it."""
    layout = gpu_layout(kernel)
    scalars = [p.dtype.bytes for p in abi.scalar_params(kernel.params)]
    wanted = [(at, 8) for at in layout.pointers]
    wanted += zip(layout.scalars, scalars, strict=True)
    wanted += [(at, 8) for at in layout.counts]
    if layout.faults is not None and layout.fault_base is not None:
        wanted += [(layout.faults, 8), (layout.fault_base, 4)]
    if layout.barrier is not None:
        wanted.append((layout.barrier, 8))
    wanted += [(layout.grid + 4 * n, 4) for n in range(3)]
    wanted += [(at, abi.MAP_BYTES) for at in layout.maps]
    found, at = [], 0
    for type_, _ in made.params:
        size = size_of(type_)
        unit = abi.MAP_ALIGN if type_ == MAP else size
        at = -(-at // unit) * unit
        found.append((at, size))
        at += size
    if found != wanted:
        raise NotModelledError(f"parameters (offset, size) {found}, while ir.abi has {wanted}")
    return [at for at, _ in found]


def _unpack(kernel: Kernel, made: Retargeted) -> str:
    lines, arguments = [], []
    for n, (offset, (type_, _)) in enumerate(zip(_offsets(kernel, made), made.params, strict=True)):
        lines.append(f"  %p{n} = getelementptr i8, ptr %params, i64 {offset}")
        if type_ == MAP:
            arguments.append(f"ptr %p{n}")
            continue
        lines.append(f"  %x{n} = load {type_}, ptr %p{n}, align 1")
        arguments.append(f"{type_} %x{n}")
    call = f"  call void @model.kernel({', '.join(arguments)})"
    return "\n".join(["define void @model.unpack(ptr %params) {", *lines, call, "  ret void", "}"])
