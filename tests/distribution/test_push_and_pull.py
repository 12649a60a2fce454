"""The commands `gristmill push` and `gristmill pull`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gristmill.cli.main import main
from gristmill.store.trust.keys import new_key, write_key
from registries import Fake

from .conftest import Shop


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GRISTMILL_TRUSTED_KEYS", raising=False)
    monkeypatch.chdir(tmp_path)


def test_what_is_pushed_is_pulled(
    shop: Shop, fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packs = [str(pack.path) for pack in shop.packs()]
    write_key(tmp_path / "builder.pub", shop.key)
    reference = f"{fake.host}/kernels:v1"
    assert main(["push", reference, *packs, "--json"]) == 0
    pushed = json.loads(capsys.readouterr().out)
    assert pushed["targets"] == ["ptx-sm_80", "spirv-vulkan1.1"]
    pull = ["pull", reference, "-o", str(shop.here), "--target", "ptx"]
    assert main([*pull, "--keys", "builder.pub"]) == 0
    assert shop.there() == ["gristmill-ptx-sm_80.pack", "gristmill-ptx-sm_80.pack.sig"]
    assert pushed["reference"] in capsys.readouterr().out


def test_a_pull_without_keys_is_refused_before_anything_is_fetched(
    shop: Shop, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pull", f"{fake.host}/kernels:v1", "-o", str(shop.here)]) == 2
    assert "GRISTMILL_TRUSTED_KEYS" in capsys.readouterr().err
    assert fake.calls == []


def test_unsigned_packs_go_only_where_that_is_said(
    shop: Shop, fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack = shop.pack("ptx-sm_80").path
    pack.with_name(pack.name + ".sig").unlink()
    reference = f"{fake.host}/kernels:v1"
    assert main(["push", reference, str(pack)]) == 2
    assert "no signature; sign with" in capsys.readouterr().err
    assert main(["push", reference, str(pack), "--unsigned"]) == 0
    write_key(tmp_path / "builder.pub", new_key("builder", 1))
    pull = ["pull", reference, "-o", str(shop.here)]
    assert main([*pull, "--keys", str(tmp_path / "builder.pub")]) == 2
    assert "no signature" in capsys.readouterr().err
    assert shop.there() == []
    shop.here.mkdir(exist_ok=True)
    (shop.here / f"{pack.name}.sig").write_bytes(b"of the pack before")
    assert main([*pull, "--verify", "off"]) == 0
    assert shop.there() == [pack.name]


def test_a_damaged_pack_is_not_pushed(
    shop: Shop, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its table is right, so that it opens, and so is its signature; a blob is not."""
    path = shop.pack("ptx-sm_80").path
    data = bytearray(path.read_bytes())
    data[-64] ^= 1
    path.write_bytes(data)
    assert main(["push", f"{fake.host}/kernels:v1", str(path)]) == 2
    assert "wrong content" in capsys.readouterr().err
    assert fake.calls == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["push", "nonsense", "a.pack"], "no such file|cannot be read"),
        (["push", "127.0.0.1:1/k:v", "a.pack"], "a.pack"),
        (["pull", "nonsense", "--verify", "off"], "not a reference"),
        (["pull", "127.0.0.1:1/k:v", "--verify", "off"], "no whole answer"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    fake: Fake, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    line = capsys.readouterr().err
    assert line.startswith(f"gristmill {words[0]}: ")
    assert line.count("\n") == 1
    assert any(part in line.lower() for part in told.split("|"))
