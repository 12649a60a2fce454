"""Which traces do not depend on what executes the kernel's module (`backends.portable`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from gristmill.backends import portable
from gristmill.backends.portable import host_reason
from gristmill.backends.trace import trace
from gristmill_build import config, sources

ROOT = Path(__file__).parents[2]

KERNEL = """\
from __future__ import annotations
import math
import numpy as np
from ..ir.lang import *
from . import common
from .common import HALF, twice
{top}

@kernel(workgroup=lambda: BLOCK)
def k(x: ReadWrite[f32], *, BLOCK: int = 64, F: Function = twice, N: tuple = ()):
    i = global_id(0)
    x[i] = {value}
"""
COMMON = """\
from __future__ import annotations
from ..ir.lang import *
HALF = 1 / 2

@device
def twice(a):
    return 2 * a
"""


def written(top: str = "", value: str = "1.0", common: str = COMMON) -> dict[str, bytes]:
    """The sources of a kernel that stores a value, after statements of its module."""
    text = KERNEL.replace("{top}", top).replace("{value}", value)
    return {"kernels/k.py": text.encode(), "kernels/common.py": common.encode()}


def reason(sources: dict[str, bytes], **constexprs: object) -> str:
    return host_reason(sources, "k", "k", constexprs)


def test_no_trace_of_the_kernels_here_depends_on_the_host() -> None:
    settings = config.load(ROOT)
    for row in settings.kernels.values():
        found = {p: (ROOT / p).read_bytes() for p in sources.module_sources(ROOT, row.module)}
        for name, constexprs in row.specializations.items():
            why = host_reason(found, row.module, row.kernel, dict(constexprs))
            assert not why, (row.kernel, name)


@pytest.mark.parametrize(
    ("top", "value"),
    [
        ("", "twice(x[i]) + HALF"),
        ("", "common.twice(x[i]) * common.HALF"),
        ("", "F(x[i])"),
        ("", "math.exp(1.5) + np.sqrt(x[i]) + math.pi + np.float32(x[i])"),
        ("A = (3, -1.5, True, 'a', None)", "A[0]"),
        ("A: float = 2**10 / 3 if HALF < 1 and 1 else 7 % 4", "A"),
        ("A = min(int(2.5), abs(-3), len((1, 2))) << 2", "A"),
        ("A = math.sqrt(2.0) * math.floor(2.5) + math.pi", "A"),
        ("from math import pi, sqrt\nA = sqrt(2.0)", "A * pi"),
        ("from numpy import float32 as T", "T(x[i])"),
        ("A = vec(f32, 4)", "x[i]"),
        ("x = np.exp(1.5)", "x[i]"),
        ("A = None is None", "x[i]"),  # of no concern: no kernel names it
        ("A = np.exp(1.5)\ndef host(a):\n    return np.exp(a) + A", "x[i]"),
        ("class C:\n    size: int = len('a')\nTABLE = {}\nTABLE['a'] = np.exp(1)", "x[i]"),
        ("def i(): return np.exp(1.5)", "f32(i)"),  # within the kernel, the kernel's own
        ("from gristmill.ir.lang import exp as e\nfrom gristmill.kernels.common import HALF as H",
         "e(x[i]) + H"),
        ("@device\ndef f(a, scale=HALF * 3):\n    return a * scale", "f(x[i])"),
        ("@device\ndef f(a: 'f32'):\n    return a", "f(x[i])"),
    ],
)  # fmt: skip
def test_what_every_host_computes_alike(top: str, value: str) -> None:
    found = written(top, value)
    assert not reason(found)
    trace(found, "k", "k", "s", {})


@pytest.mark.parametrize(
    ("top", "value", "said"),
    [
        ("A = np.exp(1.5)", "A", "k.py:7: what this Call gives"),
        ("A = math.exp(1.5)", "A", "k.py:7: what this Call gives"),
        ("A = np.sqrt(2.0)", "A", "what this Call gives"),
        ("import numpy as math\nA = math.sqrt(2.0)", "A", "what this Call gives"),
        ("A = sum((0.1, 0.2, 0.3))", "A", "what this Call gives"),  # other bits since Python 3.12
        ("A = len(np.__version__)", "A", "__version__ can change what kernels see"),
        ("A = HALF ** 0.5", "A", "** of other than whole numbers"),
        ("A = 2 ** -1", "A", "** of other than whole numbers"),
        ("A = 2.5 ** 2", "A", "** of other than whole numbers"),
        ("A = HALF ** 2", "A", "** of other than whole numbers"),
        ("A = 2 ** int(HALF)", "A", "** of other than whole numbers"),
        ("A = 1j", "A", "what this Constant gives"),
        ("from math import exp\nA = exp(1.5)", "A", "what this Call gives"),
        ("A = -np.exp(1)", "A", "this Call"),
        ("A = 1 + np.exp(1)", "A", "this Call"),
        ("A = (1, np.exp(1))", "A[0]", "this Call"),
        ("A = 0 or np.exp(1)", "A", "this Call"),
        ("A = 1 < np.exp(1)", "1.0 if A else 2.0", "this Call"),
        ("A = 1 if HALF else np.exp(1)", "A", "this Call"),
        ("A = 1 if np.exp(1) else 2", "A", "this Call"),
        ("A = np.exp((1, 2))[0]", "A", "this Call"),
        ("A = (1.0, 2.0)[int(np.exp(0))]", "A", "this Call"),
        ("A = max(1, np.exp(1))", "A", "this Call"),
        ("A = max(1, 2, key=np.exp)", "A", "this Call"),
        ("A = 257 is 256 + 1", "1.0 if A else 2.0", "which objects are one"),
        ("A = [1, 2]", "A[0]", "what this List gives"),
        ("A = f'{HALF}'", "x[i] if A == 'a' else 1.0", "what this JoinedStr gives"),
        ("A = math", "A.pi", "math is no constant"),
        ("A = __debug__", "1.0 if A else 2.0", "__debug__ can change"),
        ("A = print", "x[i] if A == 'a' else 1.0", "print is of the host"),
        ("A = np.newaxis", "x[i] if A == None else 1.0", "np.newaxis is of the host"),
        ("A = 1.0\nA = 2.0", "A", "k.py:8: A is bound more than once"),
        ("A = 1.0\nA += 2.0", "A", "A is bound more than once"),
        ("A = 1.0\nfor A in (1.0, 2.0): pass", "A", "A is bound more than once"),
        ("A = 1.0\ndef f():\n    global A\n    A = np.exp(1)", "A", "A is bound more than once"),
        ("A = 1.0\nmatch {}:\n    case {**A}: pass", "A", "A is bound more than once"),
        ("A = 1.0\nB = (A := 2.0)", "A", "A is bound more than once"),
        ("try:\n    A = 1.0\nexcept ImportError:\n    pass", "A", "A is no constant"),
        ("if HALF < 1:\n    from math import pi as A", "A", "A is no constant"),
        ("if HALF < 1:\n    import numpy as n", "n.pi", "n is no constant"),
        ("def A(): return 1.0", "A", "A is no constant"),
        ("class A: pass", "x[i] if A == 1 else 1.0", "A is no constant"),
        ("A: float", "A", "A is no constant"),
        ("A, B = 1.0, 2.0", "A", "A is no constant"),
        ("from math import exp as A", "A(x[i])", "A is computed by the host's math"),
        ("from numpy import MAXDIMS as A", "A", "A is computed by the host's numpy"),
        ("A = 1", "np.iinfo", "np.iinfo is of the host"),
        ("import collections.abc as c", "c.x", "c is no constant"),
        ("from functools import math as m", "m.x", "m is no constant"),
        ("from dataclasses import MISSING as A", "A", "A is no constant"),
        ("@device\ndef f(a, scale=np.exp(1.5)):\n    return a * scale", "f(x[i])", "this Call"),
        ("@device\ndef f(a, *, scale=np.exp(1.5)):\n    return a * scale", "f(x[i])", "this Call"),
        ("A = np.exp(1.5)\n@kernel(grid=lambda: A)\ndef q(): pass", "q", "this Call"),
        ("@kernel(fast=np.exp(1.5))\ndef q(): pass", "q", "this Call"),
        ("@device\ndef f(a):\n    global HALF\n    return a", "f(x[i])", "reaches out of its"),
        ("A = np.exp(1.5)\n@device\ndef f(a: A):\n    return a", "f(x[i])", "this Call"),
        ("A = np.exp(1.5)\n@device\ndef f(a: 'A'):\n    return a", "f(x[i])", "this Call"),
        ("import functools\n@functools.cache\n@device\ndef f(a): return a", "f(x[i])", "f is no"),
        ("import functools\n@functools.cache\ndef f(a): return a", "f(x[i])", "f is no constant"),
        ("def device(f): return f\n@device\ndef f(a): return a", "f(x[i])", "f is no constant"),
        ("from .common import twice as device\n@device\ndef f(a): return a", "f(x[i])", "f is no"),
        ("import os", "x[i]", "k.py:7: os is imported, which may do anything"),
        ("from ..runtime import y", "x[i]", "runtime is imported"),
        ("from ... import y", "x[i]", "? is imported"),
        ("def f():\n    import os", "x[i]", "k.py:8: os is imported"),
        ("from math import *", "x[i]", "all of math is imported"),
        ("from .common import *", "x[i]", "all of .common is imported"),
        ("exec('HALF = 3')", "x[i]", "exec can change what kernels see"),
        ("globals()['HALF'] = 3", "x[i]", "globals can change what kernels see"),
        ("object.__setattr__(f32, 'bits', 3)", "x[i]", "__setattr__ can change"),
        ("def __getattr__(name): return 1", "x[i]", "__getattr__ can change"),
        ("math.pi = 3", "x[i]", "the attribute pi is set"),
        ("del math.pi", "x[i]", "the attribute pi is set"),
        ("from ..ir.dtypes import DTYPES\nDTYPES['f32'] = 1", "x[i]", "DTYPES, which is imported"),
        ("from .common import absent", "absent", "common.py: absent is bound by nothing"),
        ("", "common.absent", "common.py: absent is bound by nothing"),
        ("from .other import A", "A", "kernels/other.py is not among the sources"),
        ("A = (1", "A", "SyntaxError"),
    ],
)  # fmt: skip
def test_what_may_differ_between_hosts_is_named(top: str, value: str, said: str) -> None:
    plain = COMMON.replace("import *", "import device")
    assert said in reason(written(top, value, plain))


def test_what_a_constexpr_names_is_followed() -> None:
    found = written("A = np.exp(1.5)\n@device\ndef f(a):\n    return a * A")
    assert not reason(found)
    for given in ({"F": "f"}, {"N": [1, ["f"]]}, {"N": {"a": "f"}}):
        assert reason(found, **given).startswith("kernels/k.py:7: what this Call gives")


def test_a_sibling_that_changes_what_others_do_is_named() -> None:
    assert "common.py:9: the attribute pi is set" in reason(
        written(common=f"{COMMON}import math\nmath.pi = 3\n")
    )


def test_a_decorator_that_is_not_the_languages() -> None:
    text = "from .common import device\n@device\ndef k(a): pass\n"
    found = {"kernels/k.py": text.encode(), "kernels/common.py": COMMON.encode()}
    assert "k is no constant" in host_reason(found, "k", "k", {})
    assert "k is no constant" in host_reason({"kernels/k.py": text[26:].encode()}, "k", "k", {})


def test_what_stands_at_module_level_is_seen_whatever_holds_it() -> None:
    """Every kind of statement that binds a name, within every one that may hold it."""
    binds = [
        "A = 1", "A += 1", "A: int = 1", "del A", "import A", "from B import A", "def A(): 1",
        "class A: 1", "class B((A := E)): 1", "class B(x=(A := E)): 1", "def f(x=(A := E)): 1",
        "for A in B: 1", "with B as A: 1", "(A := 1)", "[0 for A in B]", "try: 1\nexcept E as A: 1",
        "match B:\n case A: 1", "match B:\n case [*A]: 1", "match B:\n case {**A}: 1",
        "match B:\n case 1 as A: 1",
    ]  # fmt: skip
    for text in binds:
        inner = text.replace("\n", "\n ")
        held = (text, f"if B:\n {inner}", f"while B:\n {inner}", f"with B:\n {inner}")
        for whole in (*held, f"try:\n {inner}\nfinally: 1"):
            (statement,) = portable.ast.parse(whole).body
            assert "A" in portable._bound(statement), whole
