"""gristmill: kernels written once in Python, compiled ahead of time for every device."""

__version__ = "0.1.0"
