"""What the build nodes do: actions that read their inputs once, ask the store, write atomically.

Every action takes its whole request from its sources: files, and one Value node in canonical JSON.
Its signature is a fixed word; what can change its result (the compiler's own sources, versions of
tools) stands in the Value, so that SCons and the store agree on what is up to date.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import SCons.Action
import SCons.Errors

from gristmill.backends.portable import host_reason
from gristmill.backends.stages import stage
from gristmill.store.bundle import Entry, site_places, write_bundle
from gristmill.store.files import WriteError, write_atomic
from gristmill.store.key import assemble_action, compile_action, trace_action
from gristmill.store.manifest import Manifest

from . import refusals
from .document import ConfigError
from .notes import noted
from .plan import Row
from .workshop import StepError, Workshop

OUTPUTS = ("artifact", "manifest")


class Step(SCons.Action.FunctionAction):
    """A Python action whose signature is a fixed word instead of its bytecode."""

    def __init__(self, function: Callable[..., None], signature: str, describe: Any) -> None:
        super().__init__(function, {"strfunction": describe})
        self.signature = signature

    def get_presig(self, target: Any, source: Any, env: Any) -> bytes:
        return self.signature.encode()


def guarded(verb: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A step of the build: tells what it did, or turns whatever it raises into one line for its
    node; the rest behind verbose=1."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def action(target: Any, source: Any, env: Any) -> None:
            shop: Workshop = env["WORKSHOP"]
            shop.begin()
            try:
                function(target, source, env)
            except Exception as error:
                shop.failed += 1
                if shop.verbose:
                    traceback.print_exception(error, file=sys.stderr)
                raise SCons.Errors.BuildError(node=target[0], errstr=one_line(error)) from None
            shop.end(verb, target)

        return action

    return decorate


def one_line(error: BaseException) -> str:
    """An error as one line that starts with its place, if it has one."""
    from gristmill.backends.compile import CompileError
    from gristmill.backends.trace import TraceError

    message = getattr(error, "message", None)
    if isinstance(error, CompileError):
        message = str(error)
    elif message and getattr(error, "file", None) and getattr(error, "line", None):
        column = getattr(error, "column", None)
        place = f"{error.file}:{error.line}" + (f":{column}" if column else "")  # type: ignore[attr-defined]
        message = f"{place}: {message}"
    elif not message and not isinstance(error, ConfigError | StepError | TraceError | WriteError):
        message = f"{type(error).__name__}: {error} (verbose=1 shows where)"
    return "; ".join(filter(None, map(str.strip, str(message or error).splitlines())))


@guarded("trace")
def trace(target: Any, source: Any, env: Any) -> None:
    """Kernel source and its imports, and a request -> .kir and .loc.json."""
    shop: Workshop = env["WORKSHOP"]
    request = json.loads(source[-1].get_contents())
    sources = {str(node): shop.read(node) for node in source[:-1]}
    why = host_reason(sources, *(request[word] for word in ("module", "kernel", "constexprs")))
    action = trace_action(
        sources,
        request["kernel"],
        {"name": request["specialization"], "constexprs": request["constexprs"]},
        request["compiler"],
        [*request["tools"], f"because of {why}"] if why else (),
    )

    def make() -> dict[str, bytes]:
        from gristmill.backends.compile import CompileError

        words = ("module", "kernel", "specialization", "constexprs")
        about = (f"{request['kernel']} {request['specialization']}", "kernel IR")
        try:
            ir, locs = shop.run(
                "gristmill.backends.trace:trace",
                sources,
                *(request[word] for word in words),
                subject=about,
            )
        except CompileError as error:  # the process ended, and with it what knew the place
            place = definition(sources, request["module"], request["kernel"])
            raise type(error)(error.kernel, error.target, error.message, place) from error
        return {"ir": ir, "locs": locs}

    try:
        outputs = shop.answer(action, ("ir", "locs"), "trace", make)
    except Exception as error:  # the class is imported where something is raised: that is dear
        from gristmill.ir.lang.diagnostics import Diagnostic

        places = shop.places.get(str(target[0]), {})
        if isinstance(error, Diagnostic) and places:
            place = places.get(error.constexpr) or places[""]
            error.message += f"; specialized by {place}"
        raise
    write_all(target, (outputs["ir"], outputs["locs"]))


def definition(sources: dict[str, bytes], module: str, kernel: str) -> Any:
    """Where a kernel is defined in its file, or the file's first line."""
    from gristmill.ir.core import Loc

    file = next((f for f in sources if Path(f).stem == module), f"kernels/{module}.py")
    found = re.search(rb"^(?:def )?%s\b" % re.escape(kernel).encode(), sources.get(file, b""), re.M)
    return Loc(file, sources[file].count(b"\n", 0, found.start()) + 1 if found else 1, 1)


@guarded("compile")
def compile_ir(target: Any, source: Any, env: Any) -> None:
    """A .kir and a request -> artifact and manifest.

    Where the request has a `source`, another target's artifact, that one is made first (or comes
    from the store) and then assembled.
    """
    shop: Workshop = env["WORKSHOP"]
    request = json.loads(source[-1].get_contents())
    ir = shop.read(source[0])
    locs = Path(source[0].get_abspath()).with_suffix(".loc.json")
    if "source" in request:
        refuse_missing_tools([request["assembler"]], request["target"])
        first = {**request["source"], "options": request["options"]}
        outputs = assembled(shop, ir, request, compiled(shop, ir, locs, first))
    else:
        outputs = refusals.or_refusal(lambda: compiled(shop, ir, locs, request))
    write_all(target, (outputs["artifact"], outputs["manifest"]))


def compiled(shop: Workshop, ir: bytes, locs: Path, request: dict[str, Any]) -> dict[str, bytes]:
    """The outputs of compiling kernel IR for a target, from the store or made now."""
    refuse_missing_tools(request["tools"], request["target"])
    action = compile_action(
        ir, request["target"], request["options"], request["compiler"], request["tools"]
    )

    def make() -> dict[str, bytes]:
        from gristmill.backends.compile import CompileError
        from gristmill.backends.steps import source_error

        step = "gristmill.backends.steps:compile_step"
        work = (ir.decode(), request["target"], request["options"], action.key)
        about = (subject(ir), request["target"])
        try:
            outputs: dict[str, bytes] = shop.run(step, *work, subject=about, action=action)
        except CompileError as error:
            raise source_error(error, locs.read_bytes()) from error
        return outputs

    return shop.answer(action, OUTPUTS, stage(request["target"], request["options"]), make)


def subject(ir: bytes) -> str:
    """Kernel and specialization of kernel IR."""
    return " ".join(ir.split(b"\n", 1)[0].decode().split()[1:])


def assembled(
    shop: Workshop, ir: bytes, request: dict[str, Any], first: dict[str, bytes]
) -> dict[str, bytes]:
    """The outputs of assembling the artifact `first`, from the store or made now.

    Only the text is assembled: whatever else its manifest says, equal texts share the result.
    """
    from gristmill.backends.steps import relabelled

    backend, _, arch = request["target"].partition("-")
    text = first["artifact"]
    action = assemble_action(text, request["target"], request["compiler"], request["assembler"])

    def make() -> dict[str, bytes]:
        step = f"gristmill.backends.{backend}.emit:assemble_step"
        about = (subject(ir), request["target"])
        outputs: dict[str, bytes] = shop.run(step, text, arch, subject=about, action=action)
        return outputs

    outputs = shop.answer(action, ("artifact", "facts"), backend, make)
    manifest = relabelled(first["manifest"], request["target"], action.key, **outputs)
    return {"artifact": outputs["artifact"], "manifest": manifest}


@guarded("replay")
def replay(target: Any, source: Any, env: Any) -> None:
    """A request -> a target's replay loop and its manifest."""
    shop: Workshop = env["WORKSHOP"]
    request = json.loads(source[0].get_contents())
    refuse_missing_tools(request["tools"], request["target"])
    options = request["options"]
    action = compile_action(
        b"replay loop", request["target"], options, request["compiler"], request["tools"]
    )
    backend, _, arch = request["target"].partition("-")

    def make() -> dict[str, bytes]:
        step = f"gristmill.backends.{backend}.replay:replay_artifact"
        about = ("gristmill.replay", request["target"])
        blob, manifest = shop.run(step, arch, action.key, *options.values(), subject=about)
        return {"artifact": blob, "manifest": manifest.to_json().encode()}

    outputs = shop.answer(action, OUTPUTS, backend, make)
    write_all(target, (outputs["artifact"], outputs["manifest"]))


def refuse_missing_tools(tools: list[str], target: str) -> None:
    for tool in tools:
        name, _, version = tool.partition(" ")
        if tool == "assembler missing":
            raise StepError(
                f"{target} needs an assembler: ptxas, or pip install 'gristmill[cubin]'"
            )
        if tool in ("llc missing", "clang missing"):
            raise StepError(f"{target}: {missing_llvm(target, name)}")
        if version == "missing":
            raise StepError(
                f"{target} needs the Python package {name}: pip install 'gristmill[build]'"
            )


def missing_llvm(target: str, route: str) -> str:
    """What toolchain=llc, toolchain=clang or spirv_codegen=llc lacks on this machine."""
    from gristmill.backends.llvm import external
    from gristmill.backends.spirv_llc import llc

    try:
        if target.startswith("spirv-"):
            return llc.program()[0]
        return " and ".join(path for path, _ in external.programs(route).values())
    except external.LlvmError as error:
        return str(error)


@guarded("bundle")
def bundle(target: Any, source: Any, env: Any) -> None:
    """All artifacts with their manifests, and the list of them -> bundle.json."""
    env["WORKSHOP"].made()
    rows = json.loads(source[-1].get_contents())
    made, refused = refusals.sort_out(rows, env.GetOption("keep_going"))
    out = Path(target[0].get_abspath()).parent
    write_bundle(out, [entry(row, out) for row in made])
    refusals.tell(refused, rows)


def entry(row: Row, out: Path) -> Entry:
    """An artifact of a bundle in the folder `out`: its file, its manifest, its places if any."""
    artifact, manifest_path, locs, *said = row
    manifest = Manifest.from_json(Path(manifest_path).read_bytes(), manifest_path)
    for notes in said:
        manifest = noted(manifest, notes)
    check_artifact(Path(artifact), manifest)
    places = site_places(manifest, Path(locs).read_bytes()) if locs and manifest.sites else ()
    return Entry(manifest, os.path.relpath(artifact, out).replace(os.sep, "/"), places)


def check_artifact(path: Path, manifest: Manifest) -> None:
    """An artifact that was damaged after it was built must not get into a bundle."""
    import hashlib

    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != manifest.sha256:
        raise StepError(
            f"{path} was changed after it was built (sha256 {digest}, its manifest says "
            f"{manifest.sha256}); delete it and run scons again"
        )


def write_all(targets: Any, contents: tuple[bytes, ...]) -> None:
    """Write all outputs of a node, or leave none of them."""
    written: list[str] = []
    try:
        for node, data in zip(targets, contents, strict=True):
            path = node.get_abspath()
            write_atomic(path, data)
            written.append(path)
    except BaseException:
        for path in written:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        raise
