"""`gristmill fatbin`: a kernel's cubins and PTX as one file, for programs of other people.

The file is what `cuModuleLoadFatBinary` and `cuModuleLoadData` take: the driver picks the image for
its device. NVIDIA's `fatbinary` joins the images; this project's own runtime needs no such file, as
bundles hold the artifacts apart, each with its manifest.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

from .. import runtime
from ..ir.abi import gpu_layout, gpu_places
from ..ir.dtypes import DTYPES, Access
from ..ir.interface import Param
from ..store.manifest import Manifest
from .errors import CommandError
from .show import written
from .table import table

KINDS = {"cubin": "elf", "ptx": "ptx"}  # backend -> fatbinary's word for its artifacts
# Facts by which a launch differs.
_LAUNCH = ("dynamic_shared_bytes", "cluster", "grid_barrier", "dependent_launch", "tensor_maps")
_SECONDS = 60


def fatbin(arguments: Namespace) -> int:
    """Write the file and tell what is in it. CommandError, and what reading a bundle raises."""
    bundle = runtime.open_bundle(arguments.bundle)
    kernel = arguments.kernel
    specialization = arguments.specialization or bundle.specialization(kernel)
    images = chosen(bundle.artifacts(kernel, specialization), arguments.target)
    launch = common_launch([image.manifest for image in images])
    blob = joined(images)
    Path(arguments.output).write_bytes(blob)
    rows = [[image.manifest.target, str(image.manifest.size)] for image in images]
    if arguments.json:
        told = {"targets": [row[0] for row in rows], "size": len(blob), **launch}
        print(json.dumps(told, indent=2))
        return 0
    print(table([["image", "bytes"], *rows], right=(1,)))
    print()
    print(table([[name.replace("_", " "), _told(value)] for name, value in launch.items()]))
    print(f"{arguments.output}: {len(blob)} bytes")
    return 0


def chosen(artifacts: tuple[runtime.Artifact, ...], wanted: list[str]) -> list[runtime.Artifact]:
    """The first variant of every target that NVIDIA's devices load, or of the wanted ones."""
    found: dict[str, runtime.Artifact] = {}
    for artifact in artifacts:
        found.setdefault(artifact.manifest.target, artifact)
    loads = [t for t in found if t.partition("-")[0] in KINDS]
    name = f"{artifacts[0].manifest.kernel} {artifacts[0].manifest.specialization}"
    if not loads:
        raise CommandError(
            f"{name} has no cubin and no PTX in the bundle, only {', '.join(found)}; build them "
            "with scons target=ptx,cubin"
        )
    for target in wanted:
        if target not in loads:
            raise CommandError(f"{name} has no {target}; the bundle has {', '.join(loads)}")
    return [found[target] for target in loads if not wanted or target in wanted]


def common_launch(manifests: list[Manifest]) -> dict[str, Any]:
    """How the kernel is launched, whichever image the driver picks. CommandError where that
    depends on the image: whoever loads the file could not know it."""
    first, *others = manifests
    launch = _launch(first)
    for other in others:
        for name, value in _launch(other).items():
            if value != launch[name]:
                raise CommandError(
                    f"{first.target} and {other.target} are launched in different ways: "
                    f"{name.replace('_', ' ')} {_told(launch[name])} and {_told(value)}; "
                    "join those that agree, with --target for each"
                )
    return launch


def _launch(manifest: Manifest) -> dict[str, Any]:
    facts = manifest.facts
    params = [
        Param(p.name, p.kind, DTYPES[p.dtype], Access(p.access), p.may_alias)
        for p in manifest.params
    ]
    barrier, maps = bool(facts.get("grid_barrier")), len(facts.get("tensor_maps", ()))
    layout = gpu_layout(params, bool(manifest.sites), barrier, maps)
    return {
        "entry": manifest.entry,
        "workgroup": list(manifest.workgroup),
        "grid": list(map(written, manifest.grid or ())),
        "parameters": [f"{p.name}: {p.dtype} {p.kind}" for p in manifest.params],
        "parameter_bytes": layout.size,
        "parameter_places": list(map(list, gpu_places(params, layout))),
        "fault_sites": len(manifest.sites),
        **{name: facts.get(name, 0) for name in _LAUNCH},
    }


def _told(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def joined(images: list[runtime.Artifact]) -> bytes:
    """The images in one file. CommandError where the tool is missing or refuses."""
    program = nvidia_program("fatbinary")
    if program is None:
        raise CommandError(
            "joining needs NVIDIA's fatbinary: pip install 'gristmill[cubin]', or put it on PATH"
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = [str(program), "--64", f"--create={folder / 'out'}"]
        for number, image in enumerate(images):
            backend, _, arch = image.manifest.target.partition("-")
            file = folder / str(number)
            file.write_bytes(image.read())
            sm = arch.removeprefix("sm_")
            words.append(f"--image3=kind={KINDS[backend]},sm={sm},file={file}")
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CommandError(f"{program} does not run: {error}") from error
        if done.returncode or not (folder / "out").exists():
            said = (done.stderr or done.stdout).replace(f"{folder}/", "").strip() or "nothing"
            raise CommandError(f"{program} refuses the images (status {done.returncode}): {said}")
        return (folder / "out").read_bytes()


def nvidia_program(name: str) -> Path | None:
    """A program of NVIDIA's packages, else one on PATH."""
    spec = importlib.util.find_spec("nvidia")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    found = [p for place in places for p in sorted(Path(place).glob(f"*/bin/{name}"))]
    if not found and (on_path := shutil.which(name)):
        return Path(on_path)
    return found[-1] if found else None
