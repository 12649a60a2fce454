"""Each wrong program gets a message that says what was found, with a caret at the place."""

# ruff: noqa: E501  (tables of cases and kernel sources)

from __future__ import annotations

import pickle
from typing import Any

import pytest

from gristmill.ir.lang import Diagnostic, OutsideKernelError, global_id

# body, the text under the caret, a part of the message
CASES: dict[str, tuple[str, str, str]] = {
    "undeclared name": ("y[i] = lenght", "lenght", "undeclared name 'lenght'; did you mean 'length'?"),
    "type mismatch": ("y[i] = x[i] + n", "x[i] + n", "types f32 and i32; expected one type"),
    "stored type": ("y[i] = n", "y[i]", "expected f32 for an element of 'y', found i32; convert it"),
    "read-only buffer": ("x[i] = 1.0", "x[i]", "'x' is read-only"),
    "write-only buffer": ("y[i] = w[i]", "w[i]", "'w' is write-only"),
    "augmented write-only": ("w[i] += 1", "w[i]", "'w' is write-only"),
    "condition of int": ("if n:\n    y[i] = 1", "n:", "expected a bool as condition, found i32"),
    "float to int": ("m = n + 0.5", "n + 0.5", "found the float 0.5"),
    "literal range": ("m = i8(300)", "i8(300)", "300 does not fit i8 (-128 to 127)"),
    "literal range of operand": ("m = u8(n) + 256", "u8(n) + 256", "256 does not fit u8"),
    "index literal range": ("m = 1 << 40\ny[m] = 1", "y[m]", "does not fit i32"),
    "int division": ("m = n / 2", "n / 2", "'/' divides floats, found i32; use //"),
    "float shift": ("m = x[i] << 1", "x[i] << 1", "'<<' takes integers"),
    "float index": ("y[x[i]] = 1", "y[x[i]]", "an index is an integer, found f32"),
    "negative index": ("y[-1] = 1", "y[-1]", "index -1 is out of range"),
    "slice": ("m = x[1:2]", "x[1:2]", "slices are not supported"),
    "use before definition": ("y[i] = q\nq = 1", "q", "'q' is used before it is defined"),
    "one branch": (
        "if n > 0:\n    q = 1.0\ny[i] = q",
        "q",
        "used before it is defined: it has no value when the condition on line L1 does not hold",
    ),
    "other branch": (
        "if n > 0:\n    pass\nelse:\n    q = 1.0\ny[i] = q",
        "q",
        "no value when the condition on line L1 holds",
    ),
    "defined in a loop": ("for k in range(n):\n    q = k\ny[q] = 1", "q", "only inside the loop on line L1"),
    "defined in a case": ("match n:\n    case 0: q = 1\n    case _: pass\ny[q] = 1", "q", "no case matches"),
    "branch types": (
        "if n > 0:\n    q = x[i]\nelse:\n    q = n\ny[i] = f32(q)",
        "q",
        "f32 when the condition on line L1 holds, but i32 when",
    ),
    "loop types": (
        "q = n\nfor k in range(n):\n    q = x[k]\ny[q] = 1",
        "for",
        "'q' is i32 when the loop on line L2 starts and f32 when it goes round",
    ),
    "dynamic register index": ("r = registers(f32, 4)\ny[i] = r[n]", "r[n]", "use static_range"),
    "register range": ("r = registers(f32, 4)\ny[i] = r[4]", "r[4]", "index 4 is out of range (0 to 3)"),
    "array rank": ("r = private_array(f32, (2, 3))\ny[i] = r[1]", "r[1]", "takes 2 indices, found 1"),
    "array size": ("r = private_array(f32, n)", "private_array(f32, n)", "must be an int constant"),
    "huge shared": ("r = workgroup_array(f32, 1 << 20)", "workgroup_array", "exceeds 1048576 bytes"),
    "huge private": ("r = private_array(f32, 1 << 20)", "private_array", "exceeds 65536 bytes"),
    "try": ("try:\n    pass\nfinally:\n    pass", "try", "try is not supported in a kernel"),
    "raise": ("raise ValueError", "raise", "raise is not supported in a kernel; use assert"),
    "with": ("with x:\n    pass", "with", "with is not supported"),
    "lambda": ("f = lambda: 0", "lambda", "lambda is not supported in a kernel; decorate"),
    "list": ("f = [1, 2]", "[1, 2]", "a list is not supported in a kernel; use a tuple"),
    "list comprehension": ("f = [k for k in x]", "[k for", "a list comprehension is not supported"),
    "dict comprehension": ("f = {k: k for k in x}", "{k", "a dict comprehension is not supported"),
    "set comprehension": ("f = {k for k in x}", "{k", "a set comprehension is not supported"),
    "generator": ("f = sum(k for k in x)", "(k for", "a generator expression is not supported"),
    "dict": ("f = {}", "{}", "a dict is not supported"),
    "class": ("class A:\n    pass", "class", "class is not supported"),
    "inner function": ("def f():\n    pass", "def", "an inner function is not supported"),
    "import": ("import os", "import", "import is not supported"),
    "global": ("global GLOBAL", "global", "global is not supported"),
    "del": ("del n", "del", "del is not supported"),
    "yield": ("yield n", "yield", "yield is not supported"),
    "f-string": ("print(f'{n}')", "f'{n}'", "an f-string is not supported in a kernel; print takes"),
    "star call": ("y[i] = max(*x)", "*x", "expected a tuple after *"),
    "double star": ("y[i] = max(**n)", "n", "** arguments are not supported"),
    "while else": ("while n > 0:\n    pass\nelse:\n    n = 1", "n = 1", "while ... else"),
    "for else": ("for k in range(3):\n    pass\nelse:\n    n = 1", "n = 1", "for ... else"),
    "for over buffer": ("for k in x:\n    pass", "x:", "a for loop runs over range"),
    "range of float": ("for k in range(1.5):\n    pass", "1.5", "the bounds of a range are integers"),
    "step zero": ("for k in range(0, n, 0):\n    pass", "range(0, n, 0)", "the step of a range is 0"),
    "matrix product": ("f = x[i] @ x[i]", "x[i] @ x[i]", "the operator @ is not supported"),
    "complex": ("f = 1j", "1j", "a complex literal is not supported"),
    "return value": ("return n", "return", "a kernel returns nothing"),
    "attribute": ("f = x.sum", "x.sum", "the buffer 'x' of f32 has no attribute 'sum'"),
    "shape of a buffer": ("f = x.shape", "x.shape", "no attribute 'shape'; len(...) is how many"),
    "case of a name": ("y[i] = X[i]", "X", "undeclared name 'X'; did you mean 'x'?"),
    "module attribute": ("f = math.expp(1.0)", "math.expp", "module math has no 'expp'; did you mean 'exp'?"),
    "foreign function": ("f = sorted(n)", "sorted(n)", "builtins.sorted cannot be called in a kernel"),
    "wrong count": ("f = fma(x[i], 1.0)", "fma(", "missing a required argument: 'c'"),
    "device count": ("f = twice(n, n)", "twice(", "too many positional arguments"),
    "device type": ("f = typed(n)", "typed(", "expected f32 for argument 'a' of typed, found i32"),
    "recursion": ("f = forever(n)", "forever(a)", "forever calls itself; recursion is not supported"),
    "partial return": ("f = partial(n)", "def", "partial returns a value on some paths"),
    "math of int": ("f = math.exp(n)", "math.exp(n)", "exp takes floats, found i32; convert it, as in f32"),
    "int of value": ("f = int(x[i])", "int(x[i])", "name the type, as in i32(...)"),
    "dimension": ("f = global_id(3)", "global_id(3)", "a dimension is 0, 1 or 2, found 3"),
    "dynamic dimension": ("f = global_id(n)", "global_id(n)", "a dimension must be an int constant"),
    "static range": ("for k in static_range(n):\n    pass", "static_range(n)", "must be an int constant"),
    "static assert": ("static_assert(BLOCK == 1, 'one only')", "static_assert", "one only"),
    "dynamic static assert": ("static_assert(n == 1)", "static_assert(n", "must be known when"),
    "lanes": ("f = load_vector(x, i, 3)", "load_vector", "a vector has 2, 4 or 8 lanes, found 3"),
    "vector lane": ("f = f32x4(0.0)\ny[i] = f[4]", "f[4]", "lane 4 of f32x4"),
    "vector count": ("f = f32x4(x[i], x[i])", "f32x4(", "takes 1 or 4 values, found 2"),
    "vector mix": ("f = f32x4(0.0) + f32x2(0.0)", "f32x4(0.0) +", "types f32x4 and f32x2"),
    "rounding": ("f = convert(x[i], i32, rounding='up')", "convert(", "rounding is one of nearest"),
    "bitcast size": ("f = bitcast(x[i], u16)", "bitcast(", "32 bits to 16"),
    "fence scope": ("fence('grid')", "fence(", "the scope of a fence is 'workgroup' or 'device'"),
    "atomic on read-only": ("atomic_add(x, 0, 1.0)", "atomic_add", "'x' is read-only"),
    "atomic xor of float": ("atomic_xor(y, 0, 1.0)", "atomic_xor", "atomic xor takes integers"),
    "subgroup unsized": ("f = subgroup_add(n)", "subgroup_add(n)", "has the constexpr SUBGROUP"),
    "match on float": ("match x[i]:\n    case 0: pass", "x[i]", "match takes an integer, found f32"),
    "match on text": ("match n:\n    case 'a': pass", "'a'", "must be an int constant"),
    "match twice": ("match n:\n    case 1: pass\n    case 1: pass", "1: pass", "two cases match 1"),
    "match on class": ("match n:\n    case int(): pass", "int()", "a case matches integers"),
    "tuple count": ("a, b = 1, 2, 3", "a, b", "expected 2 values, found 3"),
    "constant error": ("f = 1 // 0", "1 // 0", "cannot compute this constant"),
    "great constant": ("f = 10 ** 100000", "10 ** 100000", "the constant is too great"),
    "unroll": (
        "for a in static_range(400):\n    for b in static_range(400):\n        y[a] = x[b]",
        "",
        "over 100000 operations",
    ),
}  # fmt: skip
HEAD = """
GLOBAL = 1
@device
def twice(a):
    return a * 2
@device
def forever(a): return forever(a)
@device
def typed(a: f32): return a
@device
def partial(a):
    if a > 0: return 1
@kernel(workgroup=lambda: BLOCK)
def k(x: Read[f32], y: ReadWrite[f32], w: Write[f32], n: i32, *, BLOCK: int = 64):
    i = global_id(0); length = len(x)
"""
FIRST = 21  # the line of the file at which the body begins


def diagnose(load: Any, body: str) -> Diagnostic:
    text = HEAD + "".join(f"    {line}\n" for line in body.split("\n"))
    with pytest.raises(Diagnostic) as caught:
        load(text).k.trace("test")
    return caught.value


@pytest.mark.parametrize("name", CASES)
def test_wrong_program_gets_a_caret(name: str, load: Any) -> None:
    body, under, message = CASES[name]
    found = diagnose(load, body)
    message = message.replace("line L1", f"line {FIRST}").replace("line L2", f"line {FIRST + 1}")
    assert message in found.message
    lines = str(found).splitlines()
    assert lines[0].startswith(f"{found.file}:{found.line}:{found.column}: error: ")
    assert found.file.startswith("kernels_")  # no absolute path
    caret = lines[2].index("^") - 4
    assert lines[1][4:] == found.text
    assert found.text[caret:].startswith(under)


def test_a_diagnostic_in_a_device_function_names_the_call(load: Any) -> None:
    found = diagnose(load, "f = twice(x)")
    assert "takes values or constants, found the buffer 'x' of f32" in found.message
    assert found.text.strip() == "return a * 2"
    assert "note: twice is called here" in str(found)


def test_a_diagnostic_in_a_library_function_points_at_the_call(load: Any) -> None:
    found = diagnose(load, "f = gcd(f32x2(1.0), f32x2(1.0))")
    assert found.text.strip().startswith("f = gcd")


def test_diagnostics_cross_process_borders(load: Any) -> None:
    found = diagnose(load, "y[i] = lenght")
    assert str(pickle.loads(pickle.dumps(found))) == str(found)


def test_kernel_functions_outside_a_kernel_say_so() -> None:
    with pytest.raises(OutsideKernelError, match="only inside a function decorated"):
        global_id(0)


DIVERGENT = {
    "id": ("if i < 3:\n    barrier()", "barrier", "if i < 3:"),
    "loaded": ("if y[0] < 3.0:\n    barrier()", "barrier", "if y[0]"),
    "loop": ("for k in range(i):\n    barrier()", "barrier", "for k in"),
    "while": ("m = i\nwhile m > 0:\n    m -= 1\n    barrier()", "barrier", "while m"),
    "after return": ("if i < 3:\n    return\nbarrier()", "barrier", "if i < 3:"),
    "after break": (
        "for k in range(n):\n    barrier()\n    if i < k:\n        break", "barrier", "if i < k:"),
    "after continue": (
        "for k in range(n):\n    if i < k:\n        continue\n    barrier()", "barrier", "if i < k:"),
    "short circuit": ("if n > 0 and y[i] > 0.0:\n    barrier()", "barrier", "if n > 0"),
    "chosen": ("m = 1 if i > 2 else 2\nif m > 1:\n    barrier()", "barrier", "if m > 1"),
    "match": ("match i:\n    case 0:\n        barrier()", "barrier", "match i"),
    "exchanged": ("if atomic_add(y, 0, 1.0) > 0.0:\n    barrier()", "barrier", "if atomic_add"),
}  # fmt: skip


@pytest.mark.parametrize("name", DIVERGENT)
def test_a_barrier_under_divergent_control_is_refused(name: str, load: Any) -> None:
    body, under, cause = DIVERGENT[name]
    found = diagnose(load, body)
    assert found.message.startswith("barrier under a condition that differs between invocations")
    assert found.text[found.column - 1 :].startswith(under)
    note = str(found).split("note: control diverges here\n")[1].splitlines()
    assert note[0].strip().startswith(cause)
    assert note[1].index("^") == note[0].index(cause.split(" ")[0])


UNIFORM = (
    "if n > 0:\n    barrier()",
    "if x[0] > 0.0:\n    barrier()",
    "if x[group_id(0)] > 0.0:\n    return\nbarrier()",
    "for k in range(n):\n    if k > 3:\n        break\n    barrier()",
    "m = n\nwhile m > 0:\n    m //= 2\n    barrier()",
    "if i < 3:\n    y[i] = 1\nbarrier()",
    "for k in range(i):\n    y[k] = 1\nbarrier()",
    "if i < 3:\n    m = 1\nelse:\n    m = 1\nif m > 0:\n    barrier()",
)


@pytest.mark.parametrize("body", UNIFORM)
def test_a_barrier_under_uniform_control_is_accepted(body: str, load: Any) -> None:
    text = HEAD + "".join(f"    {line}\n" for line in body.split("\n"))
    load(text).k.trace("test")


SIGNATURES = {
    "no type": ("x", "", "parameter 'x' needs a type"),
    "wrong type": ("x: int", "", "int is not the type of a parameter"),
    "buffer of vectors": (
        "x: Read[f32x4]",
        "",
        "a buffer holds scalars of a type such as f32, found the type f32x4; read vectors with load_vector",
    ),
    "buffer of Python's": ("x: Read[float]", "", "of a type such as f32, found float"),
    "no kind": ("x: i32, *, A=1", "", "constexpr 'A' needs a kind"),
    "wrong kind": ("x: i32, *, A: list = 1", "", "the kind of a constexpr is one of"),
    "default": ("x: i32 = 3", "", "a launch argument has no default"),
    "star": ("*x: i32", "", "*x is not supported"),
    "no value": ("x: i32, *, A: int", "", "constexpr 'A' of kernel k has no value"),
    "kind of value": ("x: i32, *, A: int = 1.5", "", "constexpr 'A' must be of kind int"),
    "no such type": (
        "x: i32, *, A: DType = 'fp8'",
        "",
        "constexpr 'A' must be of kind DType, found the str 'fp8'; expected one of bool, i8",
    ),
    "subgroup": ("x: i32, *, SUBGROUP: int = 24", "", "SUBGROUP is a power of two"),
    "index": ("x: i32, *, INDEX: DType = f32", "", "INDEX is i32 or i64"),
    "workgroup": ("x: i32", "workgroup=lambda: (0, 1)", "a workgroup has positive sizes"),
    "workgroup value": ("x: i32", "workgroup=lambda: x", "must be known when the kernel is traced"),
    "workgroup dimensions": (
        "x: i32",
        "workgroup=lambda: (1, 1, 1, 1)",
        "1 to 3 dimensions, found 4",
    ),
    "grid": ("x: i32", "grid=lambda: x * 1.5", "a grid size must be an int constant"),
    "grid call": ("x: i32", "grid=lambda: abs(x)", "a grid is made of len(buffer)"),
    "fast": ("x: i32", "fast=('wild',)", "fast knows approximate, contract, reassociate"),
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_wrong_signatures_are_refused(name: str, load: Any) -> None:
    params, option, message = SIGNATURES[name]
    with pytest.raises(Diagnostic) as caught:
        load(f"@kernel({option})\ndef k({params}):\n    pass\n").k.trace("test")
    assert message in caught.value.message


def test_unknown_constexpr_suggests_the_nearest(load: Any) -> None:
    module = load("@kernel()\ndef k(x: i32, *, BLOCK: int = 1):\n    pass\n")
    with pytest.raises(Diagnostic, match=r"no constexpr 'BLOKC'.*did you mean 'BLOCK'"):
        module.k.trace("test", BLOKC=2)


def test_deep_nesting_is_a_diagnostic(load: Any) -> None:
    lines = [f"{'  ' * n}    if n > {n}:" for n in range(90)]
    text = "\n".join(["    m = n", *lines, "  " * 90 + "    y[0] = 1.0"])
    load(HEAD + text + "\n").k.trace("test")
    deep = "twice(" * 150 + "n" + ")" * 150
    load(HEAD + f"    m = {deep}\n").k.trace("test")
    chain = " + ".join(["n"] * 700)
    with pytest.raises(Diagnostic, match="nest"):
        load(HEAD + f"    m = {chain}\n").k.trace("test")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("@device\nasync def f(x):\n    return x\n", "is a plain def, found async def"),
        ("@kernel()\nasync def f(x: i32):\n    pass\n", "is a plain def, found async def"),
        ("f = device(lambda x: x)\n", "is a plain def, found lambda"),
    ],
)
def test_functions_that_are_no_plain_def(source: str, message: str, load: Any) -> None:
    with pytest.raises(Diagnostic, match=message) as caught:
        load(source)
    assert caught.value.line > 5


@pytest.mark.parametrize("what", ["int", "len", "f", "f32", "3", "object()"])
def test_what_is_no_function_is_told_so(what: str, load: Any) -> None:
    with pytest.raises(TypeError, match="a kernel or device function is a function, not"):
        load(f"@device\ndef f(x):\n    return x\n\ng = device({what})\n")


def test_constexprs_that_hold_themselves_are_refused(load: Any) -> None:
    module = load("@kernel()\ndef k(x: i32, *, SIZES: tuple = ()):\n    pass\n")
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(Diagnostic, match="nests too deeply"):
        module.k.trace("test", SIZES=endless)
