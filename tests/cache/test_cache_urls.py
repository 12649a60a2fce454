"""The URL and the settings of a cache: misspelt, with passwords in them, without a home."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gristmill.cli.main import main
from gristmill.store.interface import StoreError
from gristmill.store.local import LocalStore, default_root
from gristmill.store.objects import ObjectStore
from gristmill.store.opening import open_remote, open_store
from need import Need


@pytest.fixture(autouse=True)
def needs_packages(require: Need, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("obstore")
    require("grpc")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_REGION", "us-east-1")


@pytest.mark.parametrize(
    "url", ["s3:/bucket/x", "s3:bucket", "s3//bucket/x", "S3:bucket", "grpc:host:80", "http:x"]
)
def test_a_url_without_its_slashes_becomes_no_folder(url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"is no cache; expected \w+://"):
        open_remote(url, {})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_may_have_any_other_name(tmp_path: Path) -> None:
    for name in ("s3", "a:b", "x@y", "what?", "~"):
        assert isinstance(open_remote(f"./{name}", {}), LocalStore)
    found = open_remote("~/cache", {})
    assert isinstance(found, LocalStore)
    assert found.root == Path.home() / "cache"


@pytest.mark.parametrize(
    "url",
    [
        "https://user:hunter2@host/x",
        "https://host/x?token=hunter2",
        "s3://user:hunter2@bucket/x",
        "s3://user:hunter2/more@bucket/x",
        "s3://bucket/x?sig=hunter2",
        "s3://bucket/x#hunter2",
        "s3:user:hunter2@bucket",
        "grpc://user:hunter2@host:1/main",
        "grpc://hunter2@host:1/main",
        "grpcs://host:1/main?token=hunter2",
        "abfss://user:hunter2@account/x",
        "az://container/x?sv=1&sig=hunter2",
    ],
)
def test_a_password_in_a_url_is_refused_and_never_shown(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(StoreError) as caught:
        open_remote(url, {})
    assert "hunter2" not in str(caught.value)
    assert main(["explain", "0" * 64, "--cache", url]) == 2
    assert "hunter2" not in capsys.readouterr().err


def test_a_password_in_the_address_of_a_server_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://user:hunter2@127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    warnings: list[str] = []
    store = open_store("s3://bucket/x", "read", tmp_path, {}, warnings.append)
    assert store.get("0" * 64) is None
    assert len(warnings) == 1
    assert "127.0.0.1:9" in warnings[0]
    assert "hunter2" not in warnings[0] + json.dumps(store.report())  # type: ignore[attr-defined]


def test_blanks_and_capitals_do_not_matter(tmp_path: Path) -> None:
    assert isinstance(open_remote("S3://bucket/x", {}), ObjectStore)
    assert isinstance(open_store("  ", "readwrite", tmp_path, {}), LocalStore)
    assert isinstance(open_store(" s3://bucket/x\n", " off ", tmp_path, {}), LocalStore)


@pytest.mark.parametrize("time", ["1e308", "1e10", "86401", "inf", "nan", "0", "-1", "9" * 5000])
@pytest.mark.parametrize("url", ["s3://bucket/x", "grpc://127.0.0.1:9/main"])
def test_a_time_that_no_request_takes_is_told(url: str, time: str) -> None:
    with pytest.raises(StoreError, match=r"GRISTMILL_CACHE_TIMEOUT=.{1,60} is no time"):
        open_remote(url, {"GRISTMILL_CACHE_TIMEOUT": time})


def test_an_address_that_is_none_is_told() -> None:
    for url in ("grpc://[::1/x", "grpc://h:70000/x", "grpc://:80/x"):
        with pytest.raises(StoreError, match="grpc"):
            open_remote(url, {})


def test_a_user_without_a_home_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", none)
    monkeypatch.setattr(Path, "home", none)
    monkeypatch.delenv("GRISTMILL_STORE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with pytest.raises(StoreError, match="no such home folder; set GRISTMILL_STORE"):
        open_store(environment={})
    assert main(["explain", "0" * 64]) == 2
    assert "home folder" in capsys.readouterr().err


def test_empty_variables_say_nothing() -> None:
    empty = dict.fromkeys(
        ["GRISTMILL_STORE", "XDG_CACHE_HOME", "GRISTMILL_CACHE_TIMEOUT", "GRISTMILL_CACHE_TOKEN"],
        "",
    )
    assert default_root(empty) == Path.home() / ".cache/gristmill/store"
    assert default_root({"GRISTMILL_STORE": "~/s"}) == Path.home() / "s"
    open_remote("grpc://cache.example:80/main", empty).close()


def test_a_cache_that_is_not_there_is_told_by_explain(capsys: pytest.CaptureFixture[str]) -> None:
    """Else it would seem to lack the key."""
    assert main(["explain", "0" * 64, "--cache", "grpc://127.0.0.1:9/main"]) == 2
    assert "grpc://127.0.0.1:9/main" in capsys.readouterr().err
