"""Compile actions on a cluster of machines: `farm.Farm`, a pool whose workers are Dask's.

`cluster` is the only module that imports `distributed`, and only where a farm is asked for.
"""
