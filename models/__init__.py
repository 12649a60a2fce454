"""Families of models as graphs, and what describes a model: its checkpoint, sizes and types."""
