"""Random programs, judged on every device: what `gristmill fuzz` runs."""
