"""A code object ready to execute: its image at a real address, its decoded instructions."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from . import counters, decode, elf, flow, gpr_index, hazards, races, registry
from .errors import CodeObjectError, EmulationError
from .state import Arch


class CodeObject:
    """One code object. Instructions are decoded once; closures are built when first executed."""

    def __init__(self, data: bytes) -> None:
        self.elf = elf.read(data)
        self.instructions = decode.disassemble(data)
        # The alignment of segments (4 KiB) holds at the real address too.
        raw = np.zeros(len(self.elf.image) + 4096, np.uint8)
        start = -raw.ctypes.data % 4096
        self.image: np.ndarray[Any, Any] = raw[start : start + len(self.elf.image)]
        self.image[:] = np.frombuffer(self.elf.image, np.uint8)
        self._programs: dict[int, Program] = {}

    @staticmethod
    def read(data: bytes) -> CodeObject:
        """The code object in `data`; the same bytes give the same object."""
        return _read(bytes(data))

    @property
    def processor(self) -> str:
        return self.elf.processor

    @property
    def base(self) -> int:
        """Real address of the image's address 0."""
        return int(self.image.ctypes.data)

    @property
    def kernels(self) -> list[str]:
        return sorted(name[:-3] for name in self.elf.symbols if name.endswith(".kd"))

    @property
    def functions(self) -> list[int]:
        """Addresses of instructions that have a name."""
        sections, linked = self.elf.sections, self.elf.type == elf.ET_DYN
        named = [s for s in self.elf.symbols.values() if s.section < len(sections)]
        code = [s for s in named if sections[s.section].flags & elf.SHF_EXECINSTR]
        found = {s.value + (0 if linked else sections[s.section].address) for s in code}
        return sorted(found & self.instructions.keys())

    def descriptor(self, kernel: str) -> elf.Descriptor:
        return elf.descriptor(self.elf, kernel)

    def program(self, lanes: int) -> Program:
        if lanes not in self._programs:
            arch = Arch(self.processor, elf.generation(self.processor), lanes)
            self._programs[lanes] = Program(self, arch)
        return self._programs[lanes]


@functools.lru_cache(maxsize=512)
def _read(data: bytes) -> CodeObject:
    return CodeObject(data)


class Program:
    """Steps by address, for one wave size."""

    def __init__(self, code: CodeObject, arch: Arch) -> None:
        self.code, self.arch = code, arch
        self.steps: dict[int, tuple[registry.Step, int]] = {}
        self._checked: set[int] = set()

    def check(self, entry: int, paired: bool = True) -> None:
        """Every path from `entry` waits where it has to; MissingWait. paired: see `Waits`."""
        if entry in self._checked:
            return
        instructions, entries = self.code.instructions, [entry]
        if any(i.mnemonic == "s_swappc_b64" for i in instructions.values()):
            entries += self.code.functions
        found = {at: instructions[at] for at in sorted(flow.reached(instructions, entries))}
        counters.Waits(self.arch, paired).run(found, entries)
        if self.arch.generation == 9:
            hazards.Hazards(self.arch).run(found, entries)
        self._checked.add(entry)

    @functools.cached_property
    def seeds(self) -> frozenset[int]:
        """See `races.seeds`."""
        return races.seeds(self.code.instructions, self.arch.generation)

    def step(self, address: int) -> tuple[registry.Step, int]:
        """(closure, address of the next instruction)."""
        found = self.code.instructions.get(address)
        if found is None:
            error: EmulationError = CodeObjectError("execution left the code")
            raise error.place("", f"{address:#x}")
        if found.mnemonic == gpr_index.START:
            made = gpr_index.sequence(self.code.instructions, found, self.arch)
        else:
            made = registry.build(found, self.arch), found.next
        self.steps[address] = made
        return made

    def where(self, address: int) -> str:
        found = self.code.instructions.get(address)
        return f"{address:#x}: {found.text if found else 'no instruction'}"
