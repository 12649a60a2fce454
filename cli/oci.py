"""`gristmill push` and `gristmill pull`: packs to and from an OCI registry."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from ..store.distribution.errors import DistributionError
from ..store.distribution.facts import facts
from ..store.distribution.oci import pull as pull_packs
from ..store.distribution.oci import push as push_packs
from ..store.distribution.reference import Reference
from ..store.distribution.registry import Registry
from ..store.pack.errors import PackError
from ..store.trust.errors import TrustError
from ..store.trust.keys import stated_keys, trusted_keys
from ..store.trust.signing import signature_file, verify_pack
from .errors import CommandError


def push(arguments: argparse.Namespace) -> int:
    """Upload packs with their signatures; prints the reference with its digest."""
    try:
        packs = [facts(Path(path)) for path in arguments.packs]
        unsigned = [str(p.path) for p in packs if not signature_file(p.path).is_file()]
        if unsigned and not arguments.unsigned:
            raise CommandError(
                f"{', '.join(unsigned)}: no signature; sign with gristmill pack sign, "
                "or say --unsigned: whoever pulls must then say --verify off"
            )
        reference = push_packs(_registry(arguments), packs)
    except (DistributionError, PackError, TrustError) as error:
        raise CommandError(str(error)) from error
    if arguments.json:
        print(json.dumps({"reference": str(reference), "targets": [p.target for p in packs]}))
    else:
        print(f"pushed {len(packs)} packs: {reference}")
    return 0


def pull(arguments: argparse.Namespace) -> int:
    """Fetch packs; each is verified before it gets to its place."""
    try:
        verify = _verifier(arguments.verify, arguments.keys)
        done = pull_packs(_registry(arguments), Path(arguments.out), arguments.target, verify)
    except (DistributionError, PackError, TrustError) as error:
        raise CommandError(str(error)) from error
    if arguments.json:
        found = {"reference": str(done.reference), "packs": [str(p) for p in done.packs]}
        print(json.dumps(found))
        return 0
    for path in done.packs:
        print(path)
    print(f"pulled {len(done.packs)} packs, {done.present} of them here already: {done.reference}")
    return 0


def _registry(arguments: argparse.Namespace) -> Registry:
    plain = True if arguments.plain_http else None
    return Registry(Reference.parse(arguments.reference), plain, arguments.timeout)


def _verifier(way: str, keys: list[str]) -> Callable[[Path], object]:
    """What holds a pack against the trusted keys; with `off`, what takes any."""
    if way == "off":
        return lambda path: None
    trusted = trusted_keys(keys or stated_keys())
    return lambda path: verify_pack(path, trusted)
