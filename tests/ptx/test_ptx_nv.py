"""Hopper's own instructions: assembled, and run by the model."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gristmill.backends.compile import CompileError, Options, compile_kernel
from gristmill.backends.ptx.emit import emit, validate
from gristmill.ir import abi
from gristmill.ir.core import Kernel
from gristmill.ir.lang import *
from gristmill.kernels.family import DTYPES, compare
from gristmill.kernels.nv_matmul import FAMILIES, nv_matmul
from nv_kernels import (
    PRODUCTS,
    box_case,
    box_moved,
    bulk_case,
    bulk_turned,
    grid_sums,
    in_turns,
    passed_case,
    passed_on,
    product,
    product_case,
    shared_out,
    turns_case,
)
from ptx_model import host
from ptx_model.host import Model, ModelError
from ptx_model.table import NotModelledError
from ptx_tools import assembled

ARCH = "sm_90a"
ONE = (1, 1, 1)
F8 = {"T": "f8e4m3", "OUT": "bf16", "B_COLUMNS": True}
MATMULS: tuple[dict[str, Any], ...] = (
    {},
    {"T": "bf16", "OUT": "bf16", "B_COLUMNS": True},
    {"BN": 64, "GROUPS": 2, "STAGES": 2},
    {"BN": 128, "GROUPS": 1, "STAGES": 3, "EPILOGUE": "relu"},
    {"CLUSTER": 2},
    {"CLUSTER": 2, "B_COLUMNS": True, "GROUPS": 4},
    F8,
    {**F8, "CLUSTER": 2, "BN": 128},
)


def text_of(kernel: Kernel, arch: str = ARCH) -> str:
    """The PTX, checked against the kernel and assembled."""
    made = emit(kernel, arch, Options())
    validate(made.blob, arch, kernel)
    assembled(made.blob.decode(), arch)
    return made.blob.decode()


def check(kernel: Kernel, case: Any, rng: np.random.Generator, groups: int = 1) -> str:
    """The model gives the answer; the assembler takes the text."""
    args, expected = case
    Model(kernel, ARCH).run(args, (groups, 1, 1), seed=int(rng.integers(1 << 30)))
    for n, values in expected.items():
        assert (args[n] == values).all()
    return text_of(kernel)


@pytest.fixture(autouse=True)
def tools(require: Callable[..., None]) -> None:
    require("gcc")
    require("ptxas")


@pytest.mark.parametrize("t", ["f32", "u16"])
def test_bulk_copies(t: str, rng: np.random.Generator) -> None:
    text = check(bulk_turned.trace("s", T=t), bulk_case(rng, t), rng)
    for word in ("cp.async.bulk.shared::cluster.global", "cp.async.bulk.global.shared::cta"):
        assert word in text


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("swizzle", "wide"), [(0, 64), (32, 16), (64, 32), (128, 64)])
def test_boxes_move_and_what_lies_outside_is_zero(
    rank: int, swizzle: int, wide: int, rng: np.random.Generator
) -> None:
    traced = box_moved.trace("s", RANK=rank, SWIZZLE=swizzle, WIDE=wide)
    text = check(traced, box_case(rng, "f16", rank, 8, wide), rng)
    assert f"cp.async.bulk.tensor.{rank}d" in text


@pytest.mark.parametrize("constexprs", PRODUCTS, ids=str)
def test_products_of_warpgroups(constexprs: dict[str, Any], rng: np.random.Generator) -> None:
    case, _ = product_case(rng, constexprs)
    check(product.trace("s", **constexprs), case, rng)


def test_roles_and_named_barriers(rng: np.random.Generator) -> None:
    text = check(passed_on.trace("s"), passed_case(rng, 3), rng, 3)
    assert re.search(r"bar(rier)?(\.cta)?\.sync(\.aligned)?\s+1, 128", text)


def test_who_arrives_at_a_named_barrier_goes_on(rng: np.random.Generator) -> None:
    text = check(in_turns.trace("s"), turns_case(rng), rng)
    assert re.search(r"bar(rier)?(\.cta)?\.arrive(\.aligned)?\s+\d, 256", text)
    args, _ = turns_case(rng)
    with pytest.raises(ModelError, match="is stuck"):
        Model(in_turns.trace("s", LOST=True), ARCH).run(args, ONE)


def test_a_wait_that_nothing_ends_is_found(rng: np.random.Generator) -> None:
    args, _ = passed_case(rng, 1)
    with pytest.raises(ModelError, match="is stuck"):
        Model(passed_on.trace("s", LOST=True), ARCH).run(args, ONE)


@pytest.mark.parametrize("constexprs", MATMULS, ids=str)
def test_the_matrix_product_agrees_with_its_reference(
    constexprs: dict[str, Any], rng: np.random.Generator
) -> None:
    full = {name: default for name, (_, default) in nv_matmul.constexprs.items()} | constexprs
    traced = nv_matmul.trace("s", **constexprs)
    model = Model(traced, ARCH)
    (family,) = FAMILIES
    for args in family.inputs(rng, full):
        assert traced.grid is not None
        grid = (abi.evaluate(traced.grid[0], {}, {w: args[w] for w in "mnk"}), 1, 1)
        model.run(list(args.values()), grid, seed=int(rng.integers(1 << 30)))
        expected = family.reference(args, full)["c"]
        assert compare(args["c"], expected, DTYPES[str(full["OUT"])]).ok


def test_the_assembler_keeps_registers_and_does_not_serialise_products() -> None:
    """C7508 and C7510 to C7515 are what it says where it does."""
    from gristmill.backends.cubin.assembler import assemble

    for constexprs in ({}, {"B_COLUMNS": True}, {"CLUSTER": 2}, F8):
        made = emit(nv_matmul.trace("s", **constexprs), ARCH, Options())
        _, log = assemble(made.blob, ARCH)
        assert "0 bytes spill stores" in log
        assert not re.search(r"C75\d\d|warning", log), log


def test_a_store_that_is_not_waited_for_spoils_its_place(rng: np.random.Generator) -> None:
    def edit(text: str) -> str:
        return re.sub(r".*bulk\.wait\.group\.read\(i32 1\)\n", "", text)

    x, y = np.arange(640, dtype=np.float32), np.zeros(640, np.float32)
    right = (x.reshape(5, 128)[::-1] + 1).reshape(-1)
    Model(bulk_turned.trace("s"), ARCH).run([x, y, 5], ONE)
    assert (y == right).all()
    Model(bulk_turned.trace("s"), ARCH, edit=edit).run([x, y, 5], ONE)
    assert (y != right).any()


def test_other_assembly_is_refused_by_name() -> None:
    def edit(text: str) -> str:
        return text.replace("wgmma.mma_async.sync", "wgmma.mma_other.sync")

    with pytest.raises(NotModelledError, match=r"inline assembly: .*mma_other"):
        Model(product.trace("s"), ARCH, edit=edit)


# barriers of the grid: a process for each workgroup, on memory that they share


def run_together(kernel: Kernel, arrays: list[np.ndarray], groups: int) -> None:
    """All workgroups at once; arrays are changed in place."""
    made = host.build(Model(kernel, ARCH).prepared, ARCH)
    sizes = [-(-a.nbytes // 256) * 256 for a in arrays]
    room = np.frombuffer(mmap.mmap(-1, sum(sizes) + 256), np.uint8)
    views, at = [], 0
    for array, size in zip(arrays, sizes, strict=True):
        views.append(room[at : at + array.nbytes].view(array.dtype))
        views[-1][:] = array
        at += size
    addresses = [v.ctypes.data for v in views]
    packed = abi.gpu_bytes(
        kernel.params, False, addresses, [], [v.size for v in views], 0, 0, (groups, 1, 1),
        room.ctypes.data + at,
    )  # fmt: skip
    children = []
    for group in range(groups):
        child = os.fork()
        if not child:
            library, three = ctypes.CDLL(str(made)), ctypes.c_uint32 * 3
            host.functions().model_only(ctypes.c_uint64(group))
            entry = getattr(library, kernel.name)
            block = three(*kernel.workgroup)
            os._exit(entry(packed, three(groups, 1, 1), block, ctypes.c_uint32(0)))
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * groups
    for array, view in zip(arrays, views, strict=True):
        array[:] = view


def test_all_workgroups_wait_at_the_barrier_of_the_grid(rng: np.random.Generator) -> None:
    traced = grid_sums.trace("s")
    for groups in (1, 5):
        x = rng.integers(0, 100, 64 * groups).astype(np.int32)
        arrays = [x, np.zeros(groups, np.int32), np.zeros(groups, np.int32)]
        run_together(traced, arrays, groups)
        assert (arrays[2] == x.sum() * groups + groups * (groups - 1) // 2).all()
    for arch in ("sm_80", "sm_90"):
        made = emit(traced, arch, Options())
        assert made.requires == ("grid_barrier",)
        assert made.facts["grid_barrier"]
        validate(made.blob, arch, traced)
        assembled(made.blob.decode(), arch)


# what else there is


def test_clusters_and_dependent_launches_assemble() -> None:
    traced = shared_out.trace("s")
    made = emit(traced, "sm_90", Options())
    assert made.requires == ("nv_async", "nv_cluster", "nv_dependent_launch")
    assert made.facts["cluster"] == 2
    text = text_of(traced, "sm_90")
    for word in (
        ".version 8.0",
        "cluster.arrive",
        "griddepcontrol.wait",
        "griddepcontrol.launch_dependents",
        "multicast::cluster",
        "%cluster_ctarank",
        "mapa.shared::cluster",
    ):
        assert word in text
    assert re.search(r"\.(reqnctapercluster|explicitcluster)", text)


@pytest.mark.parametrize("size", [2, 4])
def test_a_cluster_shares_what_each_copies(size: int, rng: np.random.Generator) -> None:
    model = Model(shared_out.trace("s", CLUSTER=size), ARCH)
    for _ in range(5):  # orders of threads
        x, y = rng.integers(0, 1000, 1024).astype(np.int32), np.zeros(1024, np.int32)
        model.run([x, y], (8, 1, 1), seed=int(rng.integers(1 << 30)))
        parts = x.reshape(8, 128)[:, :64].reshape(8 // size, 64 * size)
        assert (y.reshape(8, 128) == parts[:, :128].repeat(size, axis=0)).all()


MEETING = "  call void @llvm.nvvm.barrier.cluster.arrive()\n"
MEETING += MEETING.replace("arrive", "wait")


def only_the_first(text: str) -> str:
    """The first block of a cluster alone comes to its last barrier."""
    before, after = text.rsplit(MEETING, 1)
    rank = "  %mine = call range(i32 0, 2) i32 @llvm.nvvm.read.ptx.sreg.cluster.ctarank()\n"
    rank += "  %first = icmp eq i32 %mine, 0\n  br i1 %first, label %meet, label %past\nmeet:\n"
    return f"{before}{rank}{MEETING}  br label %past\npast:\n{after}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        # The others' mbarriers are not there yet, or a block is gone that is still copied to.
        (lambda text: text.replace(MEETING, "", 1), "mbarrier that was not initialised|is stuck"),
        (lambda text: text.replace("= trunc i32 3 to i16", "= trunc i32 5 to i16"),
         "a copy to workgroups 0x5 of 2"),
        (lambda text: re.sub(r"(mapa.shared.cluster\(.*, i32) 1\)", r"\1 2)", text, count=1),
         "workgroup 2 of a cluster of 2"),
        (lambda text: re.sub(r"(arrive.scope.cta.space.cluster.*i32) 1\)", r"\1 3)", text, count=1),
         "3 arrive where"),
        (lambda text: re.sub(r"(expect.tx.*i32) 512\)", r"\1 768)", text, count=1), "is stuck"),
        (only_the_first, r"stuck(.|\n)*thread 0 of block 0 waits at .*cluster.wait"),
    ],
)  # fmt: skip
def test_what_is_wrong_between_the_blocks_of_a_cluster_is_found(
    change: Callable[[str], str], message: str
) -> None:
    def edit(text: str) -> str:
        changed = change(text)
        assert changed != text
        return changed

    model = Model(shared_out.trace("s"), ARCH, edit=edit)
    x, y = np.arange(512, dtype=np.int32), np.zeros(512, np.int32)

    def run() -> None:
        for seed in range(40):
            model.run([x, y], (4, 1, 1), seed=seed)

    with pytest.raises(ModelError, match=message):
        run()


def test_a_grid_that_is_no_multiple_of_the_cluster_is_refused() -> None:
    model = Model(shared_out.trace("s"), ARCH)
    x, y = np.arange(384, dtype=np.int32), np.zeros(384, np.int32)
    with pytest.raises(ModelError, match="a grid of 3 along x: no multiple of clusters of 2"):
        model.run([x, y], (3, 1, 1))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("ptx-sm_80", "nv_mbarrier_init needs nv_async: sm_90 and later have it"),
        ("ptx-sm_90", r"nv_wgmma\w* needs nv_warpgroup: sm_90a alone has it"),
        ("ptx-sm_100", "sm_90a alone has it"),
        ("cubin-sm_89", "sm_90 and later have it"),
        ("cpu-x86-64-v3", "nv_mbarrier_init needs nv_async, which this target does not have"),
        ("spirv-vulkan1.3", "needs nv_async, which this target does not have"),
    ],
)
def test_targets_without_them_refuse_at_the_line(target: str, message: str) -> None:
    with pytest.raises(CompileError, match=message) as caught:
        compile_kernel(str(product.trace("s")), target, Options())
    assert caught.value.loc is not None


def test_targets_without_a_barrier_of_the_grid_refuse_it() -> None:
    for target in ("cpu-x86-64-v3", "spirv-vulkan1.1"):
        with pytest.raises(CompileError, match="grid_barrier needs grid_barrier, which this"):
            compile_kernel(str(grid_sums.trace("s")), target, Options())
