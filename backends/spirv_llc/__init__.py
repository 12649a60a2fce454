"""SPIR-V by way of LLVM: a second opinion on the modules of `backends.spirv`.

The emitter that PTX and HSACO share (`backends.simt`) writes LLVM IR with Vulkan's address spaces
and intrinsics, `llc` makes a module of it, and known errors of LLVM are corrected in the binary.
It shares neither instructions nor control flow with the direct emitter, and keeps its calling
convention, so that the same device runs both. LLVM does not take every kernel: what ends without a
valid module is refused.
"""
