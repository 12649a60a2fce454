"""The names of a pack's entries: paths below a folder once extracted, and words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

LONGEST = 255  # characters, of a part of a path and of a word


def bad_paths(paths: Sequence[str]) -> str:
    """Why some of the paths would lead out of a folder or are not names; empty if none would.

    A path is relative, its parts are parted by `/`; none is empty, `.` or `..`.
    """
    if not paths:
        return ""
    # One look at all of them: a pack of a thousand is opened in a millisecond.
    text = "/" + "/\n/".join(paths) + "/"
    if not text.replace("\n", "").isprintable():
        return "characters that cannot be printed"
    for trick in ("//", "/./", "/../", "\\", ":"):
        if trick in text:
            return f"{trick!r} in a path"
    if max(map(len, text.split("/")), default=0) > LONGEST:
        return f"a part of a path of more than {LONGEST} characters"
    if len(set(paths)) != len(paths):
        return "one path twice"
    return ""


def bad_words(words: Iterable[str]) -> str:
    """Why some names of kernels or specializations are none; empty if all are."""
    words = list(words)
    if not "".join(words).isprintable():
        return "characters that cannot be printed"
    if max(map(len, words), default=0) > LONGEST:
        return f"a name of more than {LONGEST} characters"
    if not all(words):
        return "an empty name"
    return ""


def folder_and_file(paths: Iterable[str]) -> str:
    """A path that is another one's folder, or empty: no file system takes both."""
    known = set(paths)
    for path in sorted(known):
        while path:
            path = path.rpartition("/")[0]
            if path in known:
                return path
    return ""
