"""Messages of errors that quote what anybody may have written."""

from __future__ import annotations

import pytest

from gristmill.runtime.errors import ArtifactCorrupt
from gristmill.store.distribution.errors import DistributionError
from gristmill.store.manifest import Manifest
from gristmill.store.message import message, short
from gristmill.store.pack.errors import PackError
from gristmill.store.schema import ManifestError
from gristmill.store.trust.errors import TrustError

LONG = "a" * 20_000


def test_a_text_is_cut_in_its_middle() -> None:
    assert short("abcdefghij", 10) == "abcdefghij"
    assert short("abcdefghijk", 9) == "abc...ijk"


def test_parts_that_fit_stand_as_they_are() -> None:
    assert message("odd", "file", "1", "2", "look") == "file: odd; expected 1, got 2; look"


@pytest.mark.parametrize("kind", [ArtifactCorrupt, PackError, DistributionError])
def test_a_message_is_bounded_and_the_parts_are_whole(kind: type[ArtifactCorrupt]) -> None:
    error = kind(LONG, where=f"{LONG}/end.so", expected=LONG, got=LONG, do="rebuild")
    assert len(str(error)) < 2000
    assert "/end.so: " in str(error)
    assert str(error).endswith("; rebuild")
    assert (error.what, error.expected) == (LONG, LONG)


def test_what_quotes_a_name_is_bounded_too() -> None:
    assert len(str(TrustError(LONG, LONG, "make a new one"))) < 2000
    for read in (Manifest.from_json, Manifest.from_dict):
        with pytest.raises(ManifestError) as caught:
            read("{", LONG)
        assert len(str(caught.value)) < 1000
