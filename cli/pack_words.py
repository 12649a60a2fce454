"""The words of `gristmill pack`, `gristmill key` and `gristmill reproduce`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

CODECS = ("deflate", "zstd", "none")


def add(commands: Any, positive: Callable[[str], int]) -> None:
    """Add the three commands. positive: reads a number of at least 1."""
    pack = commands.add_parser("pack", help="list, verify, extract, merge and sign packs")
    jobs = pack.add_subparsers(dest="job", required=True, metavar="JOB")
    _packs(jobs.add_parser("list", help="what packs hold"))

    verify = jobs.add_parser("verify", help="check every byte of packs, and their signatures")
    _packs(verify)
    _keys(verify)

    extract = jobs.add_parser("extract", help="the bundle of packs as a folder of files")
    _packs(extract)
    extract.add_argument("-o", "--output", required=True, metavar="DIR", help="a folder, empty")
    extract.add_argument(
        "--kernel",
        action="append",
        default=[],
        metavar="KERNEL[/SPECIALIZATION]",
        help="only this kernel; may be given several times",
    )
    _keys(extract)

    merge = jobs.add_parser("merge", help="the entries of several packs in one")
    _packs(merge)
    merge.add_argument("-o", "--output", required=True, metavar="FILE", help="the pack to write")
    merge.add_argument("--codec", choices=CODECS, default="deflate", help="how it is compressed")

    sign = jobs.add_parser("sign", help="sign packs with their provenance records")
    _packs(sign)
    sign.add_argument("--key", required=True, metavar="FILE", help="a private key")

    key = commands.add_parser("key", help="make and show keys for signing packs")
    acts = key.add_subparsers(dest="job", required=True, metavar="JOB")
    new = acts.add_parser("new", help="make a key: NAME.key for its owner, NAME.pub to hand out")
    new.add_argument("name", help="whose it is; also the name of the files")
    new.add_argument("--days", type=positive, default=365, help="how long it is valid (365)")
    new.add_argument("-o", "--output", default=".", metavar="DIR", help="where the files go")
    show = acts.add_parser("show", help="name, identity and time of keys")
    show.add_argument("files", nargs="+", metavar="FILE", help="a public or a private key")
    for command in (new, show):
        command.add_argument("--json", action="store_true", help="all of it as JSON")

    reproduce = commands.add_parser(
        "reproduce", help="build a pack's artifacts again from source, and compare"
    )
    reproduce.add_argument("pack", help="the pack")
    reproduce.add_argument("--source", metavar="DIR", help="the checkout to build from (this one)")
    reproduce.add_argument("--jobs", type=positive, help="how many compile at once")
    reproduce.add_argument("--json", action="store_true", help="the results as JSON")


def _packs(command: argparse.ArgumentParser) -> None:
    command.add_argument("packs", nargs="+", metavar="PACK", help="a pack")
    command.add_argument("--json", action="store_true", help="all of it as JSON")


def _keys(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--keys",
        action="append",
        default=[],
        metavar="PATH",
        help="require a signature by one of these: a public key or a folder of .pub files "
        "(else those of GRISTMILL_TRUSTED_KEYS); may be given several times",
    )
