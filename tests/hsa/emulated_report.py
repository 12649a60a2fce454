"""What `docs/results/amd-emulated.md` has of an architecture: everything that ships, run by
`gristmill check hsa` on the double with the emulator behind it.

    python tests/hsa/emulated_report.py gfx1100 [--seed 7]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
for folder in (TESTS, TESTS / "hsaco", TESTS.parent / "site_scons"):
    sys.path.insert(0, str(folder))

FACTS = ("vgprs", "agprs", "sgprs", "lds_bytes", "scratch_bytes")
HEAD = (
    "| kernel | cases | error / bound | VGPR | AGPR | SGPR | LDS | scratch | code |\n"
    + "|---" * 9
    + "|"
)


def run(folder: Path, arch: str, seed: int) -> tuple[dict[str, Any], dict[str, Any], int]:
    """The report of the check, the facts of each artifact, and the instructions of all waves."""
    import numpy as np

    from emulated_hsa import Emulated
    from fake_hsa import FakeRuntime, build
    from gristmill.cli.main import main as gristmill
    from gristmill.store.bundle import Entry, write_bundle
    from hsaco_tools import compiled, shipped

    fake = FakeRuntime(build(folder))
    os.environ["GRISTMILL_HSA_LIBRARY"] = fake.path
    emulated = Emulated(fake, np.random.default_rng(seed))
    fake.executor(emulated.run, arch)
    entries, facts = [], {}
    for n, (_, kernel) in enumerate(shipped(f"hsaco-{arch}")):
        blob, manifest = compiled(kernel, arch)
        (folder / f"{n}.hsaco").write_bytes(blob)
        entries.append(Entry(manifest, f"{n}.hsaco", (None,) * len(manifest.sites)))
        facts[f"{kernel.name} {kernel.specialization}"] = {**manifest.facts, "bytes": len(blob)}
    write_bundle(folder, entries)
    asked = ["check", "hsa", "--bundle", str(folder), "--json", "--seed", str(seed)]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        gristmill(asked)
    return json.loads(out.getvalue()), facts, emulated.instructions


def row(result: dict[str, Any], facts: dict[str, Any]) -> str:
    """A line of the table: the largest error of all cases over its bound."""
    name, bound = f"{result['kernel']} {result['specialization']}", result["bound"]
    share = result["status"]
    if share == "ok":
        share = f"{result['error'] / bound:.2f}" if bound else "exact"
    of = facts[name]
    cells = [name, str(result["cases"]), share, *(str(of[f]) for f in FACTS), str(of["bytes"])]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("arch")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report, facts, instructions = run(Path(folder), options.arch, options.seed)
    spilled = sum(f["vgpr_spills"] + f["sgpr_spills"] for f in facts.values())
    print(
        f"{report['counts']}, {spilled} registers spilled, {instructions} instructions of waves\n"
    )
    print(HEAD)
    for result in report["results"]:
        print(row(result, facts))


if __name__ == "__main__":
    main()
