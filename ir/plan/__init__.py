"""What a planner makes of graphs for a device, and an engine runs: storages and launches."""

from .core import Entry, Launch, Plan, Port, Role, Scalar, Span, Storage

__all__ = ["Entry", "Launch", "Plan", "Port", "Role", "Scalar", "Span", "Storage"]
