"""A program, graphs by the names of their entries, to a plan for a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..ir.graph.core import Graph, Origin
from ..ir.plan import Entry, Launch, Plan, Port, Role
from ..ir.targets import Capabilities
from .kernels import Kernels
from .lowering import Lowering
from .memory import Layout, laid_out
from .pool import Pool
from .refusal import Refusal
from .rules.copies import copied
from .view import View


def plan(
    name: str, program: Mapping[str, Graph], capabilities: Capabilities, kernels: Kernels
) -> Plan | tuple[Refusal, ...]:
    """The plan of a program, whose entries share weights and states by their names; or all that
    the device or the kernels at hand lack for it. ValueError: entries differ in what they share."""
    pool = Pool()
    drafts = [_entry(entry, graph, pool, capabilities, kernels) for entry, graph in program.items()]
    refusals = tuple(refusal for _, lowering in drafts for refusal in lowering.refusals)
    if refusals:
        return refusals
    kept = {p.span.storage for draft, _ in drafts for p in (*draft.inputs, *draft.outputs)}
    kept |= {n for n, s in enumerate(pool.storages) if s.role is Role.STATE}
    layout = laid_out(pool.storages, pool.load, [d.launches for d, _ in drafts], kept)
    return Plan(
        name,
        capabilities.device,
        capabilities.targets,
        layout.storages,
        tuple(map(layout.launch, pool.load)),
        tuple(_moved(draft, layout) for draft, _ in drafts),
    )


def _entry(
    name: str, graph: Graph, pool: Pool, capabilities: Capabilities, kernels: Kernels
) -> tuple[Entry, Lowering]:
    lowering = Lowering(pool, kernels, capabilities)
    lowering.graph(graph)
    if lowering.refusals:
        return Entry(name, (), (), ()), lowering
    inputs = tuple(
        Port(s.name, lowering.view(s.tensor).span, s.tensor.type.shape)
        for s in graph.sources
        if s.origin in (Origin.INPUT, Origin.SLOT)
    )
    outputs = _outputs(graph, lowering)
    _commits(graph, lowering)
    launches: tuple[Launch, ...] = tuple(lowering.launches)
    return Entry(name, inputs, outputs, launches), lowering


def _outputs(graph: Graph, lowering: Lowering) -> tuple[Port, ...]:
    """Each output in memory of its own: what a launch has just made there, or a copy."""
    pool, ports, taken = lowering.pool, [], set[int]()
    for output in graph.outputs:
        view = lowering.view(output.tensor)
        storage = pool.storages[view.storage]
        if storage.role is Role.SCRATCH and view.storage not in taken:
            pool.storages[view.storage] = replace(storage, role=Role.OUTPUT)
        elif storage.role is not Role.OUTPUT or view.storage in taken:
            view = copied(lowering, view, pool.add(Role.OUTPUT, view.type))
        taken.add(view.storage)
        ports.append(Port(output.name, view.span, view.shape))
    return tuple(ports)


def _commits(graph: Graph, lowering: Lowering) -> None:
    """Values that are not in their state's memory already are copied there, those that lie in
    another state's by way of scratch."""
    moves: list[tuple[View, View]] = []
    for commit in graph.commits:
        state, value = lowering.view(commit.state), lowering.view(commit.value)
        if value == state:
            continue
        if lowering.pool.storages[value.storage].role is Role.STATE:
            value = copied(lowering, value, lowering.make(value.type))
        moves.append((value, state))
    for value, state in moves:
        copied(lowering, value, state)


def _moved(draft: Entry, layout: Layout) -> Entry:
    ports = [
        tuple(Port(p.name, layout.span(p.span), p.shape) for p in some)
        for some in (draft.inputs, draft.outputs)
    ]
    return Entry(draft.name, ports[0], ports[1], tuple(map(layout.launch, draft.launches)))
