"""What damaged kernels are made with: `{0}` is what is replaced, `{1}` something else."""

from __future__ import annotations

CONSTANTS = (
    *("0", "1", "-1", "2", "3", "31", "64", "255", "-129", "1 << 31", "1 << 64", "10**30"),
    *("0x" + "f" * 6000, "1e308", "1e999", "-1e999 * 0", "-0.0", "1e-320", "0.1", "True", "False"),
    *("None", "...", "''", "'f32'", "'%0999999999d'", "b'a'", "1j", "()", "(1,)", "(1, (2, 3))"),
    *("10**10**10", "'a' * 10**10", "10**10 * (1,)", "1 << (1 << 40)", "(1 << 4000) * (1 << 4000)"),
)
NAMES = (
    *("f32", "f64", "i8", "u64", "bf16", "f16", "bool_", "f32x4", "f8e4m3", "vec", "fragment"),
    *("barrier", "fence", "grid_barrier", "subgroup_add", "subgroup_ballot", "atomic_add", "print"),
    *("registers", "private_array", "workgroup_array", "load_vector", "store_vector", "shuffle"),
    *("bitcast", "convert", "select", "static_range", "static_assert", "range", "len", "min"),
    *("abs", "int", "float", "bool", "str", "tuple", "round", "divmod", "pow", "sum", "zip", "map"),
    *("open", "exit", "eval", "object", "type", "globals", "__import__", "input", "Exception"),
    *("nv", "math", "np", "mma", "row_add", "copy_async", "breakpoint", "nowhere", "Read", "Write"),
    *("slot", "Buffers", "Function", "DType", "kernel", "device", "atan2", "ldexp", "gcd", "dot4"),
)
ATTRIBUTES = ("x", "w", "dtype", "shape", "bits", "max", "__class__", "__dict__", "sin", "pi", "T")
EXPRESSIONS = tuple(
    """
lambda: {0} ; (yield {0}) ; (yield from {0}) ; (await {0}) ; [{0} for n in {1}]
{{{0} for n in {1}}} ; {{{0}: {1}}} ; {{{0}}} ; [{0}, {1}] ; f'{{{0}}}' ; f'{{{0}!r:>9}}'
(walrus := {0}) ; ({0}, *{1}) ; {0}[{1}] ; {0}[{1}:{0}] ; {0}[::{1}] ; {0}({1}) ; {0}(*{1})
{0}(**{1}) ; {0}(key={1}) ; not {0} ; -{0} ; ~{0} ; +{0} ; {0} @ {1} ; {0} if {1} else {0}
{0} and {1} ; {0} or {1} ; {0} < {1} < {0} ; {0} is {1} ; {0} in {1} ; {0} not in ({1}, {0})
{0} ** {1} ; {0} << {1} ; {0} // {1} ; {0} % {1} ; ({0}, {1}) ; (({0}, {1}), {0}) ; {0} == {1}
max({0}, {1}) ; min(({0}, {1})) ; f32({0}) ; i32({0}) ; bool_({0}) ; f32x4({0})
convert({0}, {1}) ; bitcast({0}, {1}) ; select({0}, {1}, {0}) ; abs({0}) ; round({0}) ; int({0})
float({0}) ; len({0}) ; math.exp({0}) ; math.gcd({0}, {1}) ; np.arctan2({0}, {1}) ; np.sin({0})
clamp({0}, {1}, {0}) ; {0} != {1} ; {0} & {1} ; {0} ^ {1} ; {0} / {1} ; {0}.x ; ({0}).dtype
registers(f32, {0})
""".replace("\n", " ; ")
    .strip(" ;")
    .split(" ; ")
)
STATEMENTS = tuple(
    """
try:
    {0}
except ValueError:
    pass

with open('x'):
    {0}

class C:
    {0}

def inner():
    {0}

global g
{0}

nonlocal g
{0}

del {1}
{0}

import os
{0}

from os import path
{0}

raise {1}
{0}

while {1}:
    {0}

if {1}:
    {0}

if {1}:
    {0}
else:
    {0}

for n in range({1}):
    {0}

for n in {1}:
    {0}

for n in static_range({1}):
    {0}

for n, m in {1}:
    {0}

{0}
break

{0}
continue

for n in range(1, {1}, -1):
    {0}
    break
else:
    pass

return {1}
{0}

{0}
return

match {1}:
    case 1 | 2:
        {0}
    case n if n < 3:
        pass
    case _:
        {0}

match {1}:
    case [a, *b]:
        {0}
    case {{'a': 1}}:
        pass
    case int():
        pass

assert {1}, {1}
{0}

a = b = {1}
{0}

a, b = {1}
{0}

a: f32 = {1}
{0}

a: f32
{0}

{1}[{1}] = {1}
{0}

{1}.a = {1}
{0}

a += {1}
{0}

a, *b = {1}
{0}

print({1}, 'x')
{0}

if a := {1}:
    {0}

while (a := {1}):
    {0}

async def f():
    {0}

static_assert({1})
{0}

for a in static_range(10**9):
    pass
{0}

for a in static_range(300):
    for b in static_range(300):
        {0}

x = 1
for a in static_range(80):
    x = x * 3 + x * x
{0}

x = ()
for a in static_range(80):
    x = (x, x)
{0}
""".strip().split("\n\n")
)
