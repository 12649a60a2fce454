"""What the model finds in code that is wrong, and that its tables are those of the emitter."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable

import numpy as np
import pytest

from gristmill.backends.ptx import intrinsics
from gristmill.ir.core import Kernel
from kernel_text import kernel
from ptx_model import table
from ptx_model.host import Model, ModelError, runtime
from ptx_model.table import NotModelledError

REVERSED = """
    %2 = alloc {name="tile"} : workgroup<i32,64>
    %3 = local_id {dim=0} : i32
    %4 = load %0, %3 : i32
    store %2, %3, %4
    barrier
    %5 = const 63 : i32
    %6 = sub %5, %3 : i32
    %7 = load %2, %6 : i32
    store %1, %3, %7
    return"""
PARAMS = "x: i32 buffer read, y: i32 buffer readwrite"
SHUFFLED = """
    %2 = local_id {dim=0} : i32
    %3 = load %0, %2 : i32
    %4 = const 3 : i32
    %5 = subgroup_shuffle_xor %3, %4 : i32
    store %1, %2, %5
    return"""
BARRIER = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n"


@pytest.fixture(autouse=True)
def gcc(require: Callable[..., None]) -> None:
    require("gcc")


def run(k: Kernel, edit: Callable[[str], str] | None = None, seed: int = 0, **more: object) -> None:
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    Model(k, edit=edit).run([x, y], (1, 1, 1), seed=seed, **more)


def reversed_kernel() -> Kernel:
    return kernel(PARAMS, REVERSED, "64 1 1")


def shuffled_kernel() -> Kernel:
    return kernel(PARAMS, SHUFFLED, "64 1 1", "subgroup 32")


def replaced(old: str, new: str, count: int = 1) -> Callable[[str], str]:
    def edit(text: str) -> str:
        assert len(re.findall(old, text)) >= count, text
        return re.sub(old, new, text, count=count)

    return edit


def only_where(limit: int, op: str) -> Callable[[str], str]:
    """Only threads below `limit` come to an op."""

    def edit(text: str) -> str:
        found = re.search(rf"^  (%\d+ = )?{op}.*$", text, re.M)
        tid = re.search(r"(%\d+) = call range\(i32 0, 64\) i32 @llvm.nvvm.read.ptx.sreg.tid", text)
        assert found
        assert tid
        inside = f"  %few = icmp ult i32 {tid[1]}, {limit}\n  br i1 %few, label %in, label %past\n"
        after = "past:\n"
        if found[1]:
            name = found[1].split()[0]
            line = found[0].replace(name, "%part", 1)
            after += f"  {name} = phi i32 [ %part, %in ], [ 0, %start ]\n"
        else:
            line = found[0]
        body = text.replace(found[0], f"{inside}in:\n{line}\n  br label %past\n{after}", 1)
        # All of this is one block: the guard of folded grids is not needed here.
        return re.sub(r"  %\d+ = or i1 .*?\ngo\d+:\n", "", body, flags=re.S)

    return edit


def test_right_code_passes_in_every_order() -> None:
    for seed in range(20):
        run(reversed_kernel(), seed=seed)
        run(shuffled_kernel(), seed=seed)


def test_a_missing_barrier_is_a_race_or_a_read_of_nothing() -> None:
    for seed in range(20):
        with pytest.raises(ModelError, match=r"race on|nothing has written it"):
            run(reversed_kernel(), replaced(re.escape(BARRIER), ""), seed)


def test_a_barrier_that_not_all_reach_is_a_deadlock() -> None:
    body = REVERSED.replace("%7 = load %2, %6", "%7 = load %0, %6")
    with pytest.raises(ModelError, match=r"stuck(.|\n)*waits at call void @llvm.nvvm.barrier"):
        run(kernel(PARAMS, body, "64 1 1"), only_where(40, "call void @llvm.nvvm.barrier"))


def test_a_shuffle_without_all_its_lanes_is_reported() -> None:
    with pytest.raises(ModelError, match=r"lane \d+ is in the mask and has left|is stuck"):
        run(shuffled_kernel(), only_where(48, "call i32 @llvm.nvvm.shfl"))


def test_a_shuffle_from_a_lane_outside_its_mask_is_reported() -> None:
    def edit(text: str) -> str:
        return only_where(2, "call i32 @llvm.nvvm.shfl")(text).replace("i32 -1,", "i32 3,")

    with pytest.raises(ModelError, match=r"reads lane [23], which is not in the mask"):
        run(shuffled_kernel(), edit)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (r"(ptr addrspace\(1\) %buffer0, i64) %\d+", r"\1 256", "4 bytes at 256 of x, which has"),
        (r"(ptr addrspace\(1\) %buffer1, i64) %\d+", r"\1 -4", "4 bytes at -4 of y, which has"),
        (r"(ptr addrspace\(3\) @\w+, i64) %\d+", r"\1 256", "at 256 of test_shared0, which has"),
        (r"(ptr addrspace\(1\) %buffer1, i64) %\d+", r"\1 2", "is no multiple of 4"),
        (r"(store i32 %\d+, ptr addrspace\(3\) )%\d+", r"\1%buffer0", "declared as read"),
        (r"range\(i32 0, 64\)", "range(i32 0, 32)", "is not in its range"),
    ],
)
def test_accesses_and_promises_that_are_wrong_are_reported(
    old: str, new: str, message: str
) -> None:
    def edit(text: str) -> str:
        changed = re.sub(old, new, text)
        assert changed != text
        return changed

    with pytest.raises(ModelError, match=message):
        run(reversed_kernel(), edit)


def test_the_report_names_kernel_block_thread_and_op() -> None:
    with pytest.raises(ModelError) as caught:
        run(reversed_kernel(), replaced(r"(%buffer0, i64) %\d+", r"\1 256"))
    assert re.match(
        r"test: block \(0, 0, 0\), thread \d+: .*\n  at %\d+ = load i32, ptr ", str(caught.value)
    )


def test_a_private_array_has_bounds() -> None:
    body = """
    %2 = alloc {name="own"} : private<i32,4>
    %3 = local_id {dim=0} : i32
    %4 = load %0, %3 : i32
    store %2, %4, %4
    %5 = load %2, %3 : i32
    store %1, %3, %5
    return"""
    k = kernel(PARAMS, body, "64 1 1")
    with pytest.raises(ModelError, match=r"4 bytes at \d+ of a private array of 16"):
        run(k)


def test_a_launch_of_another_shape_is_refused() -> None:
    with pytest.raises(ModelError, match="32 threads along axis 0: the code is for 64"):
        run(reversed_kernel(), block=(32, 1, 1))
    with pytest.raises(ModelError, match="16 bytes of dynamic workgroup memory, not 0"):
        run(reversed_kernel(), dynamic=16)
    with pytest.raises(ModelError, match="a grid of 65536 along axis 1"):
        run(reversed_kernel(), launched=(1, 65536, 1))


def test_parameters_in_another_order_than_the_convention_are_found() -> None:
    k = kernel("a: i8 scalar, y: i32 buffer write", "return", "1 1 1")
    swapped = replaced(r"\((ptr [^,]*), (i8 \S+), ", r"(\2, \1, ")
    with pytest.raises(NotModelledError, match=r"while ir.abi has"):
        Model(k, edit=swapped)


def test_an_intrinsic_that_the_model_lacks_is_named() -> None:
    unknown = replaced(r"llvm\.nvvm\.shfl\.sync\.bfly", "llvm.nvvm.shfl.sync.odd", 2)
    with pytest.raises(NotModelledError, match=r"lacks .*llvm\.nvvm\.shfl\.sync\.odd"):
        Model(shuffled_kernel(), edit=unknown)


def test_the_model_has_the_intrinsics_of_the_emitter_and_no_forgotten_ones() -> None:
    assert set(table.NVVM) == set(intrinsics.NVVM)
    assert not set(table.AHEAD) & set(intrinsics.NVVM)


def test_every_modelled_intrinsic_is_a_function() -> None:
    lib = ctypes.CDLL(str(runtime()))
    for pattern in table.NVVM | table.AHEAD:
        for name in table.names(pattern):
            assert hasattr(lib, table.symbol(name)), name
