"""ONNX's backend interface over the runtime: a graph's nodes, one after the other, on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

from ..runtime import Bundle, find_devices, open_bundle, open_device
from ..runtime.device import Device
from .folding import foldable, folded
from .machine import Machine
from .node import Node, attributes_of
from .refusal import InvalidNode, Missing, NodeRefused, Refusal
from .registry import operators
from .schema import check_types
from .tensor import Tensor, name_of_type

_DOMAINS = {"ai.onnx": ""}


class Prepared(BackendRep):
    """A model on a device. `run` takes the graph's inputs in their order, or by name."""

    def __init__(self, model: onnx.ModelProto, machine: Machine) -> None:
        self.model, self.machine = model, machine
        graph = model.graph
        self.versions = {_DOMAINS.get(o.domain, o.domain): o.version for o in model.opset_import}
        self._check()
        self.constants = {
            t.name: machine.fixed(onnx.numpy_helper.to_array(t)) for t in graph.initializer
        }
        self.inputs = [v.name for v in graph.input if v.name not in self.constants]
        self.declared = {v.name: v.type.tensor_type.elem_type for v in graph.input}

    def _check(self) -> None:
        """NodeRefused, InvalidNode or the checker's own error, before anything is uploaded."""
        graph = self.model.graph
        newest = onnx.defs.onnx_opset_version()
        if self.versions.get("", newest) > newest:
            raise InvalidNode(
                "an opset that this release of onnx does not know",
                where=f"graph {graph.name}",
                expected=f"at most {newest}",
                got=str(self.versions[""]),
            )
        for proto in graph.node:
            self._known(proto)
        if graph.output and graph.output[0].HasField("type"):
            onnx.checker.check_model(self.model)
        else:  # one node, of which no shape is stated
            context = onnx.checker.C.CheckerContext()
            context.ir_version, context.opset_imports = self.model.ir_version, self.versions
            onnx.checker.check_node(graph.node[0], context)

    def _known(self, proto: onnx.NodeProto) -> None:
        """NodeRefused before anything runs, for an operator that nothing here computes."""
        domain = _DOMAINS.get(proto.domain, proto.domain)
        if (domain, proto.op_type) not in operators():
            raise self._refused(proto, (), f"operator {proto.op_type}")
        if domain not in self.versions:
            raise InvalidNode(
                f"operators of {domain or 'ai.onnx'} without an opset",
                where=f"node {proto.name or '(unnamed)'} ({proto.op_type})",
                expected=f"opset_import of {domain or 'ai.onnx'}",
                got=", ".join(map(str, self.versions)) or "none",
            )

    def _refused(
        self, proto: onnx.NodeProto, inputs: tuple[Tensor | None, ...], missing: str
    ) -> NodeRefused:
        dtypes = tuple("-" if t is None else t.dtype for t in inputs)
        device = self.machine.device.name
        return NodeRefused(Refusal(proto.name, proto.op_type, dtypes, device, missing))

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        """The graph's outputs as arrays (bf16 and 8-bit floats as those of ml_dtypes).

        Raises NodeRefused, InvalidNode, and what the runtime raises.
        """
        values = dict(self.constants)
        for name, array in self._named(inputs).items():
            values[name] = self._taken(name, array)
        for proto in self.model.graph.node:
            values |= self._step(proto, values)
        return tuple(self.machine.host(values[v.name]) for v in self.model.graph.output)

    def _named(self, inputs: Any) -> dict[str, Any]:
        """The inputs by name. InvalidNode: there are others, or some are missing."""
        row = isinstance(inputs, list | tuple)
        given = dict(zip(self.inputs, inputs, strict=False)) if row else dict(inputs)
        if len(inputs) != len(self.inputs) or set(given) != set(self.inputs):
            raise InvalidNode(
                "other inputs than the graph has",
                where=f"graph {self.model.graph.name}",
                expected=", ".join(self.inputs) or "none",
                got=f"{len(inputs)} inputs" if row else ", ".join(given),
            )
        return given

    def _taken(self, name: str, array: Any) -> Tensor:
        """An input on the device, of the type that the graph says."""
        first = self.model.graph.node[0] if self.model.graph.node else onnx.NodeProto()
        if not isinstance(array, np.ndarray | np.generic):
            raise self._refused(first, (), f"inputs of {type(array).__name__}")
        try:
            tensor = self.machine.upload(np.asarray(array))
            declared = self.declared.get(name)
            if declared and name_of_type(declared) != tensor.dtype:
                raise InvalidNode(
                    f"input {name} of another type",
                    where=f"graph {self.model.graph.name}",
                    expected=name_of_type(declared),
                    got=tensor.dtype,
                )
        except Missing as missing:
            raise self._refused(first, (), missing.what) from None
        return tensor

    def _step(self, proto: onnx.NodeProto, values: dict[str, Tensor]) -> dict[str, Tensor]:
        """One node: its outputs by name."""
        domain = _DOMAINS.get(proto.domain, proto.domain)
        inputs = tuple(values[name] if name else None for name in proto.input)
        if foldable(proto, inputs) and (found := folded(proto, inputs, self.versions)) is not None:
            names = [name for name in proto.output if name]
            return {n: self.machine.fixed(a) for n, a in zip(names, found, strict=True)}
        version = self.versions[domain]
        check_types(proto, version, inputs)
        attributes = attributes_of(proto, version)
        node = Node(
            proto.name, proto.op_type, domain, version, attributes, inputs, tuple(proto.output)
        )
        try:
            made = operators()[domain, proto.op_type](self.machine, node)
        except Missing as missing:
            self.machine.forget()
            raise self._refused(proto, inputs, missing.what) from None
        except (ValueError, IndexError, ZeroDivisionError, InvalidNode) as error:  # of shapes
            self.machine.forget()
            if isinstance(error, InvalidNode):
                raise
            shapes = ", ".join("-" if t is None else str(t.shape) for t in inputs)
            raise InvalidNode(
                f"{proto.op_type}: {error}",
                where=f"node {proto.name or '(unnamed)'}",
                expected="attributes and shapes that fit the operator",
                got=f"inputs of {shapes}",
            ) from error
        self.machine.submit()
        outputs = made if isinstance(made, tuple) else (made,)
        wanted = [(name, n) for n, name in enumerate(proto.output) if name]
        return {name: found for name, n in wanted if (found := outputs[n]) is not None}


class GristmillBackend(Backend):
    """The interface that `onnx.backend.test` and other users of ONNX's backends expect.

    A device is named as the runtime names it ("cpu", "vulkan:1"), in any case of letters; ONNX's
    own "CPU" and "CUDA:0" are among them.
    """

    @classmethod
    def prepare(
        cls,
        model: onnx.ModelProto,
        device: str | Device = "cpu",
        bundle: Bundle | str | None = None,
        **_: Any,
    ) -> Prepared:
        """A model on a device: an open one, or one by name, which stays open as long as the model
        is. bundle: its kernels; without one, those of the installed wheels.

        Raises NodeRefused, InvalidNode, NoDevice, BundleError.
        """
        opened = open_device(device.lower()) if isinstance(device, str) else device
        if not isinstance(bundle, Bundle):
            bundle = open_bundle(bundle) if bundle else open_bundle()
        return Prepared(model, Machine(opened, bundle))

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str | Device = "cpu",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **named: Any,
    ) -> tuple[Any, ...]:
        """One node on arrays; `opset_version` and `bundle` as in `prepare`."""
        version = int(named.pop("opset_version", onnx.defs.onnx_opset_version()))
        names = [name for name in node.input if name]
        model = onnx.helper.make_model(
            onnx.helper.make_graph(
                [node],
                "node",
                [_described(n, a) for n, a in zip(names, inputs, strict=True)],
                [onnx.helper.make_empty_tensor_value_info(n) for n in node.output if n],
            ),
            opset_imports=[onnx.helper.make_opsetid(node.domain, version)],
        )
        del outputs_info  # what the node gives follows from what it gets
        return cls.prepare(model, device, **named).run(list(inputs))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether such a device is here: one of a kind, or by its number."""
        name = device.lower()
        here = {f.spec for f in find_devices() if f.missing is None or not f.missing}
        kinds = {spec.partition(":")[0] for spec in here}
        return name in here | kinds or name.partition(":")[0] in here


def _described(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    number = onnx.helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype)
    return onnx.helper.make_tensor_value_info(name, number, np.asarray(array).shape)


def prepare(model: onnx.ModelProto, device: str | Device = "cpu", **named: Any) -> Prepared:
    """As `GristmillBackend.prepare`."""
    return GristmillBackend.prepare(model, device, **named)
