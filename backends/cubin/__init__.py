"""From PTX to machine code for one NVIDIA architecture, ahead of time and without a GPU."""
