"""SPIR-V for Vulkan compute, emitted directly from structured kernel IR."""
