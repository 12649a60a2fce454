"""From kernel IR to PTX through LLVM: one invocation is one thread."""
