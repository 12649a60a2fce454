"""The text form of kernel IR: `print_kernel` and `parse_kernel` are inverse to each other.

    kernel saxpy f32
    param x: f32 buffer read
    param a: f32 scalar
    workgroup 256 1 1
    index i32
    body(%x.0: buffer<f32,read>, %a.1: f32) {
      %i.2 = global_id {dim=0} : i32
      %3 = count %x.0 : i32
      %4 = lt %i.2, %3 : bool
      if %4 {
        ...
        yield
      } else {
        yield
      }
      return
    }

Optional header lines: `subgroup N`, `fast FLAG...`, `constexpr NAME=VALUE` and `site "message"`
(one each), `grid X Y Z` (expressions of `ir.abi.evaluate` as nested lists). Regions
follow their op in braces, joined by a word (`else`, `body`, `case`); region arguments stand before
the brace. The text holds no source location: `line_locs` gives them apart, by line, so that an
edit which moves code without changing it leaves the text alone.
"""

from __future__ import annotations

import json
import math

from .core import Attr, Kernel, Loc, Op, Param, Region, Value, const_value
from .dtypes import Type
from .garbage import uncollected
from .parse import JOINTS, ParseError, parse_kernel

__all__ = ["ParseError", "line_locs", "parse_kernel", "print_kernel", "print_with_locs"]


@uncollected()
def print_kernel(kernel: Kernel) -> str:
    """The text form of a kernel."""
    return print_with_locs(kernel)[0]


@uncollected()
def print_with_locs(kernel: Kernel) -> tuple[str, dict[int, Loc]]:
    """The text form, and the source location of the op on each of its lines (1-based)."""
    printer = _Printer()
    printer.kernel(kernel)
    return "\n".join(printer.lines) + "\n", printer.locs


def line_locs(kernel: Kernel) -> dict[int, Loc]:
    """The source location of the op on each line (1-based) of the text form."""
    return print_with_locs(kernel)[1]


def value_name(value: Value) -> str:
    return f"%{value.hint}.{value.id}" if value.hint else f"%{value.id}"


def _declare(value: Value) -> str:
    return f"{value_name(value)}: {value.type}"


def _attr(value: Attr) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(_attr(v) for v in value) + "]"
    return json.dumps(value) if isinstance(value, str) else str(value)


def _param(param: Param) -> str:
    words = [f"param {param.name}: {param.dtype} {param.kind}"]
    if param.kind == "buffer":
        words.append(param.access.value)
    if param.may_alias:
        words.append("may_alias")
    return " ".join(words)


class _Printer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.locs: dict[int, Loc] = {}
        self.types: dict[Type, str] = {}  # those printed, by themselves

    def kernel(self, kernel: Kernel) -> None:
        self.line(f"kernel {kernel.name} {kernel.specialization}")
        for param in kernel.params:
            self.line(_param(param))
        self.line("workgroup {} {} {}".format(*kernel.workgroup))
        self.line(f"index {kernel.index}")
        if kernel.subgroup is not None:
            self.line(f"subgroup {kernel.subgroup}")
        if kernel.fast:
            self.line("fast " + " ".join(kernel.fast))
        for name, value in kernel.constexprs:
            self.line(f"constexpr {name}={_attr(value)}")
        if kernel.grid is not None:
            self.line("grid " + " ".join(map(_attr, kernel.grid)))
        for site in kernel.sites:
            self.line(f"site {json.dumps(site)}")
        self.line("body(" + ", ".join(map(_declare, kernel.body.args)) + ") {")
        self.region(kernel.body, "  ")
        self.line("}")

    def line(self, text: str) -> None:
        self.lines.append(text)

    def type(self, type_: Type) -> str:
        known = self.types[type_] = str(type_)
        return known

    def region(self, region: Region, pad: str) -> None:
        lines, locs, types = self.lines, self.locs, self.types
        for op in region.ops:
            text = op.name
            if text == "const":
                text = f"const {_literal(op)}"
            else:
                operands = op.operands
                if len(operands) == 2:  # as most have
                    a, b = operands
                    text = f"{text} {value_name(a)}, {value_name(b)}"
                elif operands:
                    text = f"{text} {', '.join(map(value_name, operands))}"
                if op.attrs:
                    text += " {" + ", ".join([f"{k}={_attr(v)}" for k, v in op.attrs]) + "}"
            results = op.results
            if len(results) == 1:  # the usual case
                (v,) = results
                name = f"%{v.hint}.{v.id}" if v.hint else f"%{v.id}"
                text = f"{name} = {text} : {types.get(v.type) or self.type(v.type)}"
            elif results:
                names = list(map(value_name, results))
                text = f"{', '.join(names)} = {text} : {', '.join([str(v.type) for v in results])}"
            if op.loc is not None:
                locs[len(lines) + 1] = op.loc
            if op.regions:
                self.regions(op, text, pad)
            else:
                lines.append(pad + text)

    def regions(self, op: Op, text: str, pad: str) -> None:
        """The lines of an op that owns regions. text: what stands before the first."""
        joints = JOINTS.get(op.name) or ("case",) * (len(op.regions) - 1) + ("default",)
        for joint, region in zip(joints, op.regions, strict=True):
            self.line(f"{pad}{text}{_region_head(joint, region)}")
            self.region(region, pad + "  ")
            text = "}"
        self.line(pad + "}")


def _region_head(joint: str, region: Region) -> str:
    head = f" {joint}" if joint else ""
    if region.args:
        head += "(" + ", ".join(map(_declare, region.args)) + ")"
    return head + " {"


def _literal(op: Op) -> str:
    value = const_value(op)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if math.isnan(value):
            return f"nan:{op.attr('bits'):#x}"
        return repr(value)
    return str(value)
