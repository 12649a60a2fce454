"""What a farm judges without a cluster: identities, tools, results and parcels."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from farm_cluster import work
from gristmill.backends.compile import CompileLimitError
from gristmill.backends.farm import identity, parcels, worker
from gristmill.backends.farm.checking import check_outputs
from gristmill.backends.farm.errors import WrongResultError
from gristmill.backends.farm.farm import Farm
from gristmill.backends.steps import compile_step
from gristmill.store.interface import CacheError
from gristmill.store.key import assemble_action, compile_action
from gristmill.store.local import LocalStore
from gristmill.store.manifest import Manifest
from need import Need


def test_what_differs_between_two_machines_is_named() -> None:
    ours = identity.identity()
    assert not identity.difference(dict(ours), ours)
    assert identity.difference({**ours, "llvmlite": "0"}, ours).startswith("its llvmlite is 0, her")
    assert "its farm is missing" in identity.difference({}, ours)
    assert identity.difference({}, ours).endswith(f"and {len(ours) - 3} more")
    assert "does not say who it is: None" in identity.difference(None, ours)


def test_what_a_machine_lacks_for_an_action_is_named() -> None:
    compiler = identity.identity()["compiler (ptx)"]
    llvmlite = f"llvmlite {identity.identity()['llvmlite']}"
    lack = identity.lack
    assert not lack(compile_action(b"", "ptx-sm_80", {}, compiler, [llvmlite]))
    assert "no llvmlite 0.1" in lack(
        compile_action(b"", "ptx-sm_80", {}, compiler, ["llvmlite 0.1"])
    )
    assert "the digest 0000" in lack(compile_action(b"", "ptx-sm_80", {}, "0" * 64, []))
    assert "no ptxas 1.0" in lack(assemble_action(b"", "cubin-sm_80", compiler, "ptxas 1.0"))


def test_a_machine_that_fails_is_refused_and_the_cluster_is_not_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    action = compile_action(b"", "ptx-sm_80", {}, identity.identity()["compiler (ptx)"], [])
    monkeypatch.setattr(worker, "_known", full)
    job = worker.Job(action.text, "compile_step", ("here", b""), "", 10.0)
    kind, why = worker.done(job)
    assert kind == "refused"
    assert why == "its machine fails: OSError: [Errno 28] No space left on device"


def test_tools_that_are_no_packages_are_found_as_keys_name_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from gristmill.backends.cubin import assembler
    from gristmill.backends.llvm import external

    monkeypatch.setattr(assembler, "identity", lambda: "ptxas 13.3")
    monkeypatch.setattr(external, "identity", lambda route: f"opt 22.1 {route} 22.1")
    identity._has.cache_clear()
    assert identity._has("ptxas 13.3")
    assert identity._has("opt 22.1 clang 22.1")
    assert not identity._has("opt 22.1 gcc 22.1")
    identity._has.cache_clear()


@pytest.mark.parametrize("field", ["key", "target", "sha256", "size"])
def test_a_manifest_of_something_else_is_no_result(field: str) -> None:
    action, args = work(1)
    outputs = compile_step(*args)
    assert check_outputs(action, outputs) == outputs
    manifest = Manifest.from_json(outputs["manifest"])
    other = {"key": "1" * 64, "target": "interp-second", "sha256": "1" * 64, "size": 3}[field]
    wrong = dataclasses.replace(manifest, **{field: other})
    with pytest.raises(WrongResultError, match=f"expected {field} "):
        check_outputs(action, {**outputs, "manifest": wrong.to_json().encode()})


@pytest.mark.parametrize(
    "outputs",
    [None, [], {}, {"artifact": b""}, {"artifact": b"", "manifest": "{}"},
     {"artifact": b"", "manifest": b"["}, {"artifact": b"", "facts": b"{}"}],
)  # fmt: skip
def test_what_has_not_the_form_of_a_result_is_none(outputs: object) -> None:
    with pytest.raises(WrongResultError):
        check_outputs(work(1)[0], outputs)


def test_facts_of_an_assembler_are_json() -> None:
    action = assemble_action(b"", "cubin-sm_80", "0" * 64, "ptxas 1")
    assert check_outputs(action, {"artifact": b"", "facts": b"{}"})
    with pytest.raises(WrongResultError):
        check_outputs(action, {"artifact": b"", "facts": b"{"})


def test_an_audit_that_this_machine_cannot_make_blames_nobody(require: Need) -> None:
    require("distributed")
    action, args = work(1)
    refusals: list[str] = []

    def late() -> None:
        raise CompileLimitError("k", "interp-kir", "not done in time")

    with Farm("tcp://127.0.0.1:9", 1, warn=refusals.append) as farm:
        with pytest.raises(CompileLimitError):
            farm._judged("worker", action, ("here", compile_step(*args)), late)
        assert not farm.refused
    assert not refusals


class Broken(LocalStore):
    """A cache that takes and gives nothing."""

    def put(self, *_: object, **__: object) -> None:
        raise CacheError("broken")

    def get(self, key: str) -> None:
        raise CacheError("broken")


def test_parcels_of_any_size_arrive(tmp_path: Path) -> None:
    cache = LocalStore(tmp_path / "cache")
    large = bytes(parcels.INLINE + 1)
    for value in (b"small", large):
        for kept in (None, cache, Broken(tmp_path / "broken")):
            parcel = parcels.packed((value,), kept)
            assert parcel[0] == ("cache" if value is large and kept is cache else "here")
            assert parcels.unpacked(parcel, kept) == (value,)
            sent = parcels.sent("0" * 64, {"artifact": value}, kept)
            assert sent[0] == parcel[0]
            assert parcels.received("0" * 64, sent, kept) == {"artifact": value}


def test_a_parcel_that_is_gone_or_another_one_is_told(tmp_path: Path) -> None:
    cache = LocalStore(tmp_path / "cache")
    large = bytes(parcels.INLINE + 1)
    arguments = parcels.packed((large,), cache)
    outputs = parcels.sent("0" * 64, {"artifact": large}, cache)
    for kept in (None, LocalStore(tmp_path / "empty"), Broken(tmp_path / "broken")):
        with pytest.raises(parcels.ParcelError):
            parcels.unpacked(arguments, kept)
        with pytest.raises(parcels.ParcelError):
            parcels.received("0" * 64, outputs, kept)
    cache.put(str(arguments[1]), {"data": b"other"})
    cache.put(str(outputs[1]), {"artifact": b"other"})
    with pytest.raises(parcels.ParcelError, match="other content"):
        parcels.unpacked(arguments, cache)
    with pytest.raises(parcels.ParcelError, match="other content"):
        parcels.received("0" * 64, outputs, cache)


def test_a_cache_is_shared_where_both_ends_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GRISTMILL_CACHE", raising=False)
    parcels.shared_cache.cache_clear()
    assert parcels.shared_cache(str(tmp_path)) is None
    monkeypatch.setenv("GRISTMILL_CACHE", str(tmp_path))
    parcels.shared_cache.cache_clear()
    assert parcels.shared_cache(str(tmp_path)) is not None
    assert parcels.shared_cache("") is None
    assert parcels.shared_cache("/other") is None
    parcels.shared_cache.cache_clear()
