"""What emitters of SIMT targets share: one invocation is one thread, control flow stays scalar.

A kernel becomes one LLVM function. `Lowering` is the state while it is written, and names what a
target supplies (its hooks); `ptx` and `hsaco` are subclasses with their intrinsics.
"""
