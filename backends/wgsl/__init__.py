"""WGSL: the kernels as text for WebGPU, in browsers and through wgpu."""
