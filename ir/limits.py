"""How much one program may ask of the compiler: beyond it, a typed error and no long wait.

Each limit lies far above what useful kernels need. What is counted is the program's own, never
seconds, so that a program is refused on every machine or on none; a build's deadline for one
compile (`backends.pool`) stands behind them all.
"""

from __future__ import annotations

# What is traced.
MAX_OPS = 100_000  # operations of one kernel
MAX_WORK = 500_000  # operations traced in all, with those traced twice to learn types
MAX_STEPS = 1_000_000  # statements and expressions traced, also those that leave no operation
MAX_DEPTH = 100  # statements with bodies within one another, and device functions' bodies
MAX_EXPRESSION = 4 * MAX_DEPTH  # expressions within one another
MAX_INLINE = 60  # device functions within one another
MAX_PARAMS = 256  # parameters of a kernel, each buffer of a `Buffers` counted
MAX_NAME = 200  # bytes of a name, which is also part of file names

# What is computed while tracing.
MAX_BITS = 4096  # of an int
MAX_ITEMS = 65_536  # of a tuple, its tuples' items counted; characters of a string

# Arrays.
MAX_SHARED = 1 << 20  # bytes of workgroup memory: more than any device has
MAX_PRIVATE = 1 << 16  # bytes of all private arrays
MAX_ARRAYS = 1024  # workgroup and private arrays
MAX_REGISTERS = 4096  # cells of one register array
MAX_INVOCATIONS = 1024 * 1024  # of a workgroup

# What is compiled.
MAX_ARTIFACT = 64 << 20  # bytes of an artifact

# For the page of the language: what is limited, and how far.
TABLE: tuple[tuple[str, int], ...] = (
    ("operations of a kernel, its static loops unrolled", MAX_OPS),
    ("operations traced, with those traced twice to learn types", MAX_WORK),
    ("statements and expressions traced, repeated ones each time", MAX_STEPS),
    ("statements with bodies within one another", MAX_DEPTH),
    ("expressions within one another", MAX_EXPRESSION),
    ("device functions that call one another", MAX_INLINE),
    ("parameters of a kernel, each buffer of a `Buffers` counted", MAX_PARAMS),
    ("bytes of a name", MAX_NAME),
    ("bits of an int constant", MAX_BITS),
    ("items of a tuple with those of tuples within it; characters of a string", MAX_ITEMS),
    ("bytes of workgroup memory", MAX_SHARED),
    ("bytes of private arrays", MAX_PRIVATE),
    ("workgroup and private arrays", MAX_ARRAYS),
    ("cells of a register array", MAX_REGISTERS),
    ("invocations of a workgroup", MAX_INVOCATIONS),
    ("bytes of an artifact", MAX_ARTIFACT),
)
