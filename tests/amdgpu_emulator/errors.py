"""What can go wrong in an emulated dispatch. Every error names the kernel and the instruction."""

from __future__ import annotations


class EmulationError(Exception):
    """The program did what no program may do, or what the emulator cannot execute."""

    kernel: str = ""
    where: str = ""

    def place(self, kernel: str, where: str) -> EmulationError:
        """The same error, with the kernel and the instruction that ran when it arose."""
        self.kernel, self.where = kernel, where
        return self

    def __str__(self) -> str:
        text = super().__str__()
        return f"kernel {self.kernel}: {text}, at {self.where}" if self.where else text


class CodeObjectError(EmulationError):
    """The bytes are no code object that the emulator can execute."""


class UnknownInstruction(EmulationError):  # noqa: N818 - the name is the interface's
    """An instruction, a modifier or an operand without semantics here. Nothing is guessed."""


class OutOfBounds(EmulationError):  # noqa: N818
    """An access outside every registered allocation, or a store to one that is read-only."""


class UnwrittenLds(EmulationError):  # noqa: N818
    """A read of workgroup memory that nothing has written."""


class LdsRace(EmulationError):  # noqa: N818
    """Two waves touch the same bytes of workgroup memory, one writes, and no barrier is between."""


class MissingWait(EmulationError):  # noqa: N818
    """An instruction touches a register, or a barrier is reached, before something that hardware
    does not wait for by itself is done."""


class Deadlock(EmulationError):  # noqa: N818
    """Waves of a workgroup wait at a barrier that the others do not reach."""


class RunawayError(EmulationError):
    """More instructions than the limit: a loop that does not end."""
