"""Models by their plans on a device: `python benchmarks/model_steps.py DEVICE --bundle DIR PLAN...`

Each PLAN is a plan's file, or FILE=CHECKPOINT for one with its own weights; the others get random
ones. Prints the time to load, to the first token of a prompt, tokens a second, what the host does
for each, and which kernels a step's device time goes to. A plan's decode entry is stepped without a
look at its tokens; the rate with a look at each stands beside it. Needs numpy and a driver.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from gristmill import runtime
from gristmill.ir.plan import Plan, Role
from gristmill.ir.plan.text import from_json
from gristmill.runtime.engine import Engine, Model

WARM_SECONDS = 0.3


class Random:
    """Small weights, the same for the same plan."""

    def __init__(self, plan: Plan) -> None:
        self.identity = f"random {plan.name}"
        self._storages = {s.name: s for s in plan.storages if s.role is Role.WEIGHT}

    def weight(self, name: str) -> np.ndarray:
        storage = self._storages[name]
        rng = np.random.default_rng(len(name))
        if storage.dtype.is_float and storage.dtype.bytes > 1:
            wide = rng.standard_normal(storage.shape, np.float32) * 0.05
            return wide.astype(storage.dtype.storage)
        bytes_ = rng.integers(0, 60, storage.shape)  # a half float of them is small
        return bytes_.astype(storage.dtype.storage)


def weights_of(plan: Plan, checkpoint: str) -> object:
    if not checkpoint:
        return Random(plan)
    from gristmill.models.checkpoints import open_checkpoint
    from gristmill.models.programs import CheckpointWeights

    return CheckpointWeights(open_checkpoint(checkpoint))


def first_token(model: Model, tokens: list[int]) -> float:
    """Seconds from a prompt to its token."""
    sizes = sorted(int(e.name[8:]) for e in model.plan.entries if e.name.startswith("prefill_"))
    size = next(n for n in sizes if n >= len(tokens))
    padded = np.zeros(size, np.int32)
    padded[: len(tokens)] = tokens
    begin = time.perf_counter()
    model.step(f"prefill_{size}", tokens=padded, count=np.array([len(tokens)], np.int32))
    model.read(f"prefill_{size}", "token")
    return time.perf_counter() - begin


def rates(model: Model, steps: int) -> tuple[float, float, float]:
    """Tokens a second unread and read, and the host's seconds of a step."""
    model.step("decode")
    model.read("decode", "token")
    device = model.engine.device
    begin = time.perf_counter()
    while time.perf_counter() - begin < WARM_SECONDS:
        model.step("decode")
        device.synchronize()
    model.reset()
    first_token(model, [1, 2, 3, 4])
    begin = time.perf_counter()
    for _ in range(steps):
        model.step("decode")
    host = time.perf_counter() - begin
    model.engine.wait()
    unread = time.perf_counter() - begin
    begin = time.perf_counter()
    for _ in range(steps):
        model.step("decode")
        model.read("decode", "token")
    return steps / unread, steps / (time.perf_counter() - begin), host / steps


def by_kernel(engine: Engine, plan: Plan, weights: object) -> list[tuple[str, int, float]]:
    """Kernel, launches and device seconds of one decode step, each launch waiting for the last."""
    model = engine.load(plan, weights)  # type: ignore[arg-type]
    model.timed = True
    first_token(model, [1, 2, 3, 4])
    for _ in range(5):
        model.step("decode")
    engine.wait()
    sums: dict[str, list[float]] = defaultdict(list)
    for _, kernel, seconds in model.times("decode"):
        sums[kernel].append(seconds)
    model.unload()
    return sorted(((k, len(v), sum(v)) for k, v in sums.items()), key=lambda row: -row[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device")
    parser.add_argument("plans", nargs="+")
    parser.add_argument("--bundle", default="artifacts")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--prompt", default="504,3575,282,4649,314", help="tokens")
    parser.add_argument("--tokens", type=int, default=64, help="to print, of plans with weights")
    given = parser.parse_args()
    begin = time.perf_counter()
    bundle = runtime.open_bundle(given.bundle)
    device = runtime.open_device(given.device)
    print(f"{device.capabilities.name}, {device.capabilities.driver}")
    print(f"bundle and device open in {time.perf_counter() - begin:.3f} s")
    engine = Engine(device, bundle)
    prompt = [int(word) for word in given.prompt.split(",")]
    for word in given.plans:
        path, _, checkpoint = word.partition("=")
        begin = time.perf_counter()
        plan = from_json(Path(path).read_bytes(), path)
        read = time.perf_counter() - begin
        weights = weights_of(plan, checkpoint)
        model = engine.load(plan, weights)  # type: ignore[arg-type]
        load = time.perf_counter() - begin
        first = first_token(model, prompt)
        print(f"\n## {plan.name}: plan read {read:.3f} s, loaded {load:.3f} s, then {first:.3f} s")
        print(f"to the first token; {model.memory()}")
        if checkpoint:
            out = []
            for _ in range(given.tokens):
                model.step("decode")
                out.append(int(model.read("decode", "token")[0]))
            print("tokens:", out)
        model.reset()
        first_token(model, prompt)
        fast, seen, host = rates(model, given.steps)
        print(f"{fast:.1f} tokens/s, {seen:.1f} with each read, host {host * 1e6:.1f} us a step")
        model.unload()
        try:
            rows = by_kernel(engine, plan, weights)
        except runtime.GristmillError as error:
            print(f"launches are not timed: {error}")
            continue
        print("| kernel | launches | us |\n|---|---|---|")
        for kernel, count, seconds in rows:
            print(f"| {kernel} | {count} | {seconds * 1e6:.1f} |")
        print(f"| all | {sum(r[1] for r in rows)} | {sum(r[2] for r in rows) * 1e6:.1f} |")


if __name__ == "__main__":
    main()
