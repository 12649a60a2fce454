"""The `gristmill` command.

Exit status: 0 all is well, 1 a check or comparison failed, 2 it could not be done (one line on
standard error says why).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from . import pack_words
from .errors import CANNOT, CommandError

_LONGEST = 20_000  # characters of an error's line
WORDS = ("king", "paris", "piano", "seven")  # that the demo looks up


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="gristmill", description="Look at artifacts and devices, check and measure kernels."
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    devices = commands.add_parser("devices", help="devices of this machine, and what is missing")
    devices.add_argument("--long", action="store_true", help="limits and features of each")
    devices.add_argument("--json", action="store_true", help="all of it as JSON")

    inspect = commands.add_parser("inspect", help="manifest and disassembly of an artifact")
    inspect.add_argument("path", help="an artifact, also in a pack, or a bundle")
    inspect.add_argument("--json", action="store_true", help="the manifest or index as JSON")

    explain = commands.add_parser("explain", help="what makes up the key of an artifact")
    explain.add_argument("first", metavar="ARTIFACT", help="an artifact, also in a pack, or a key")
    explain.add_argument("second", nargs="?", metavar="OTHER", help="which inputs differ from it")
    explain.add_argument("--cache", default="", metavar="URL", help="beside the local store")
    explain.add_argument("--json", action="store_true", help="the inputs or differences as JSON")

    fatbin = commands.add_parser("fatbin", help="a kernel's cubins and PTX as one file")
    fatbin.add_argument("kernel", help="the kernel")
    fatbin.add_argument("specialization", nargs="?", help="which one, where there are several")
    fatbin.add_argument("-o", "--output", required=True, metavar="FILE", help="the file to write")
    fatbin.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="TARGET",
        help="only this one, cubin-sm_90 or ptx-sm_80; may be given several times",
    )
    _bundle(fatbin)
    fatbin.add_argument("--json", action="store_true", help="how it is launched as JSON")

    check = commands.add_parser("check", help="run every kernel and judge it by its reference")
    check.add_argument(
        "device", nargs="?", default="cpu", help="cpu, cuda, hsa, vulkan, vulkan:NAME, wgpu, ..."
    )
    _bundle(check)
    _kernels(check)
    check.add_argument("--json", action="store_true", help="the results as JSON")
    check.add_argument("--seed", type=_natural, help="repeat the inputs of an earlier check")
    check.add_argument("--no-refusals", action="store_true", help="a refused kernel is a failure")
    check.add_argument(
        "--parity", action="store_true", help="small graphs of models in place of single kernels"
    )

    bench = commands.add_parser("bench", help="time kernels beside numpy, in one run")
    bench.add_argument(
        "device", nargs="?", help="cpu, cuda, hsa, vulkan, vulkan:NAME, wgpu, ... (cpu)"
    )
    bench.add_argument("--suite", metavar="NAME", help="the rows of configs/bench/NAME.yaml")
    bench.add_argument("--rounds", type=_positive, default=9, help="samples of a suite's rows")
    _bundle(bench)
    _kernels(bench)
    bench.add_argument("--json", action="store_true", help="the results as JSON")
    bench.add_argument("--seconds", type=_seconds, default=1.0, help="time for each row")

    tune = commands.add_parser("tune", help="measure what a bundle of scons tune=KERNEL offers")
    tune.add_argument("kernel", metavar="KERNEL[/SPECIALIZATION]", help="what to measure")
    tune.add_argument(
        "--device", default="cpu", help="cpu, cuda, hsa, vulkan, vulkan:NAME, wgpu, ..."
    )
    tune.add_argument(
        "--bundle", default="artifacts/tuning", help="a bundle: a folder, a pack, installed:NAME"
    )
    tune.add_argument(
        "--sizes",
        action="append",
        default=[],
        type=_sizes,
        metavar="NAME=N,...",
        help="a problem, in place of the declared ones; may be given several times",
    )
    tune.add_argument("--rounds", type=_positive, default=15, help="samples of each candidate")
    tune.add_argument(
        "--by",
        choices=("median", "minimum"),
        default="median",
        help="what counts of the samples; minimum on a machine that others keep busy",
    )
    tune.add_argument("-o", "--out", metavar="FILE", help="else configs/tuning/DEVICE.yaml")

    fuzz = commands.add_parser("fuzz", help="random programs on devices, judged by the oracle")
    fuzz.add_argument(
        "--device",
        action="append",
        default=[],
        metavar="DEVICE",
        help="only this one (cpu, vulkan:NAME, ... or scalar); may be given several times",
    )
    length = fuzz.add_mutually_exclusive_group()
    length.add_argument("--seconds", type=_seconds, help="how long (60)")
    length.add_argument("--programs", type=_natural, help="how many on each device")
    length.add_argument("--program", type=_natural, help="only the program of this number")
    length.add_argument("--replay", metavar="FILE", help="only the program of this file")
    fuzz.add_argument("--seed", type=_natural, help="repeat the programs of an earlier run")
    fuzz.add_argument(
        "--first", type=_natural, help="the first program's number, to go on with a seed (0)"
    )
    fuzz.add_argument("--json", action="store_true", help="the results as JSON")
    fuzz.add_argument("--out", default="fuzz-findings", metavar="DIR", help="for what fails")
    fuzz.add_argument(
        "--shrink", type=_seconds, default=60.0, help="seconds to make a finding small"
    )
    fuzz.add_argument("--jobs", type=_positive, help="devices at work at once")
    fuzz.add_argument("--timeout", type=_wait, default=120.0, help="seconds for one program")

    push = commands.add_parser("push", help="packs to an OCI registry")
    _registry(push)
    push.add_argument("packs", nargs="+", metavar="PACK", help="packs, of one target each")
    push.add_argument("--unsigned", action="store_true", help="also packs without a signature")

    pull = commands.add_parser("pull", help="packs from an OCI registry, verified")
    _registry(pull)
    pull.add_argument("-o", "--out", default="packs", metavar="DIR", help="where they go (packs)")
    pull.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="TARGET",
        help="only this one, ptx-sm_80 or all of ptx; may be given several times",
    )
    pull.add_argument(
        "--verify",
        choices=("require", "off"),
        default="require",
        help="whether a trusted key must have signed each pack (require)",
    )
    pull.add_argument(
        "--keys",
        action="append",
        default=[],
        metavar="PATH",
        help="a public key, or a folder of them (else those of GRISTMILL_TRUSTED_KEYS)",
    )

    pack_words.add(commands, _positive)

    _models(commands)
    demo = commands.add_parser("demo", help="nearest words in a real embedding table")
    demo.add_argument("words", nargs="*", default=WORDS, help="words to look up")
    demo.add_argument("--device", help="a device by name (else the best one)")
    demo.add_argument("--count", type=_natural, default=8, help="neighbours to show")
    _bundle(demo)
    return top


def _natural(word: str) -> int:
    """An int of at least 0."""
    if not word.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 0, got {word!r}")
    return int(word)


def _positive(word: str) -> int:
    """An int of at least 1."""
    if not word.isdecimal() or int(word) == 0:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {word!r}")
    return int(word)


def _sizes(word: str) -> dict[str, int]:
    """Sizes of a problem."""
    found = {}
    for part in word.split(","):
        name, sign, number = part.partition("=")
        if not (name.isidentifier() and sign and number.isdecimal()):
            raise argparse.ArgumentTypeError(f"expected NAME=NUMBER,..., got {word!r}")
        found[name] = int(number)
    return found


def _seconds(word: str) -> float:
    """A time that ends."""
    try:
        number = float(word)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 86400:
        raise argparse.ArgumentTypeError(f"expected 0 to 86400 seconds, got {word!r}")
    return number


def _wait(word: str) -> float:
    """A time that something may take."""
    number = _seconds(word)
    if not number:
        raise argparse.ArgumentTypeError("expected more than 0 seconds: nothing answers at once")
    return number


def _registry(command: argparse.ArgumentParser) -> None:
    command.add_argument("reference", metavar="REF", help="HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]")
    command.add_argument("--json", action="store_true", help="the result as JSON")
    command.add_argument("--plain-http", action="store_true", help="without TLS")
    command.add_argument(
        "--timeout", type=_wait, default=30.0, help="seconds without progress (30)"
    )


def _bundle(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--bundle", default="artifacts", help="a bundle: a folder, a pack, installed:NAME"
    )


def _kernels(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--kernel",
        action="append",
        default=[],
        metavar="KERNEL[/SPECIALIZATION]",
        help="only this kernel; may be given several times",
    )


def run(arguments: argparse.Namespace) -> int:
    """Carry out one command; only its own module is imported."""
    if arguments.command == "devices":
        from .devices import devices

        return devices(arguments.long, arguments.json)
    if arguments.command == "inspect":
        from .show import inspect

        return inspect(arguments.path, arguments.json)
    if arguments.command == "explain":
        from .explain import explain

        return explain(arguments.first, arguments.second, arguments.cache, arguments.json)
    if arguments.command == "fatbin":
        from .fatbin import fatbin

        return fatbin(arguments)
    if arguments.command == "check" and arguments.parity:
        from .parity import parity

        return parity(arguments)
    if arguments.command == "check":
        from .check import check

        return check(arguments)
    if arguments.command == "bench" and arguments.suite:
        from .bench_suite import bench_suite

        return bench_suite(arguments)
    if arguments.command == "bench":
        from .bench import bench

        return bench(arguments)
    if arguments.command == "tune":
        from .tune import tune

        return tune(arguments)
    if arguments.command == "fuzz":
        from .fuzz import fuzz

        return fuzz(arguments)
    if arguments.command in ("push", "pull"):
        from . import oci

        return oci.push(arguments) if arguments.command == "push" else oci.pull(arguments)
    if arguments.command == "pack":
        from .pack import pack

        return pack(arguments)
    if arguments.command == "key":
        from .key import key

        return key(arguments)
    if arguments.command == "reproduce":
        from .reproduce import reproduce

        return reproduce(arguments)
    if arguments.command in ("generate", "embed"):
        from . import models

        return (models.generate if arguments.command == "generate" else models.embed)(arguments)
    from .demo import demo

    return demo(arguments)


def _models(commands: Any) -> None:
    """The commands that run models."""
    generate = commands.add_parser("generate", help="an answer of a language model")
    generate.add_argument("prompt", help="the question")
    generate.add_argument("--model", default="smollm2", help="a planned model [smollm2]")
    generate.add_argument("--device", help="a device by name (else the best that has a plan)")
    generate.add_argument(
        "--tokens", type=_positive, default=256, help="most tokens to write [256]"
    )
    generate.add_argument("--raw", action="store_true", help="no chat: go on with the text")
    _bundle(generate)
    embed = commands.add_parser("embed", help="vectors of texts from an encoder")
    embed.add_argument("texts", nargs="+", help="one text or several")
    embed.add_argument("--model", default="minilm", help="a planned model [minilm]")
    embed.add_argument("--device", help="a device by name (else the best that has a plan)")
    embed.add_argument("--json", action="store_true", help="whole vectors, a line of JSON each")
    _bundle(embed)


def main(words: Sequence[str] | None = None) -> int:
    """Entry point; gives the exit status."""
    arguments = parser().parse_args(words)
    from ..runtime.errors import GristmillError
    from ..store.message import plain
    from ..store.pack.errors import PackError
    from ..store.schema import ManifestError
    from ..store.trust.errors import TrustError

    told = (CommandError, GristmillError, ManifestError, PackError, TrustError, OSError)
    try:
        status = run(arguments)
        print(end="", flush=True)  # which takes an output that the caller closed
        return status
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except told as error:
        line = plain(_line(error), _LONGEST)
        print(f"gristmill {arguments.command}: {line}", file=sys.stderr)
        return CANNOT
    except KeyboardInterrupt:
        return 130


def _line(error: Exception) -> str:
    return "; ".join(filter(None, map(str.strip, str(error).splitlines())))


if __name__ == "__main__":
    sys.exit(main())
