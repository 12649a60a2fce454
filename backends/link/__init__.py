"""A strict ELF writer: one relocatable object of kernels in, one shared object out.

`link` needs no other linker, writes equal bytes for equal objects, and accepts only what kernels
consist of. Anything else in the object (an undefined symbol, writable data, an absolute address)
is a bug of the emitter and a `LinkError`.
"""

from .elf import LinkError
from .shared_object import link

__all__ = ["LinkError", "link"]
