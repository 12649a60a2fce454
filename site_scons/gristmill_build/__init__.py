"""The build's own code: reading configuration, planning nodes, carrying them out, reporting."""
