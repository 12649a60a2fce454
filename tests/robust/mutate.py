"""Random damage to the source of kernels: what comes out is Python, and mostly no kernel.

    text = mutated(source, random.Random(seed))

Only what Python does not run by itself is changed: bodies of functions, their annotations, and the
lambdas of decorators; so a mutated file can be executed like any other.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import random
import warnings
from collections.abc import Callable

from robust.forms import ATTRIBUTES, CONSTANTS, EXPRESSIONS, NAMES, STATEMENTS

Function = ast.FunctionDef | ast.AsyncFunctionDef

LONGEST = 20_000  # characters of an expression or statement; forms may double it


def mutated(source: str, rng: random.Random) -> str:
    """The source with one to four random changes. SyntaxError or RecursionError where Python has
    no text for what came out."""
    tree = ast.parse(source)
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.decorator_list]
    pool = [copy.deepcopy(n) for f in functions for n in ast.walk(f) if isinstance(n, ast.expr)]
    for _ in range(rng.choice((1, 1, 2, 4))):
        with contextlib.suppress(IndexError):  # nothing of that kind is left to choose from
            rng.choice(_CHANGES)(rng.choice(functions), pool, rng)
    text = ast.unparse(ast.fix_missing_locations(tree))
    with warnings.catch_warnings(action="ignore"):
        compile(text, "<mutated>", "exec", dont_inherit=True)
    return text


def _places(function: Function, kind: type[ast.AST]) -> list[tuple[ast.AST, str, int | None]]:
    """Where nodes of a kind stand in what may be changed: the parent, its field, and which."""
    roots: list[ast.AST] = [*function.body, *_lambdas(function)]
    roots += [*function.args.args, *function.args.kwonlyargs]
    found: list[tuple[ast.AST, str, int | None]] = []
    if kind is ast.stmt:
        found += [(function, "body", n) for n in range(len(function.body))]
    for root in roots:
        for node in ast.walk(root):
            for field, value in ast.iter_fields(node):
                if isinstance(value, kind):
                    found.append((node, field, None))
                elif isinstance(value, list):
                    found += [(node, field, n) for n, v in enumerate(value) if isinstance(v, kind)]
    return found


def _lambdas(function: Function) -> list[ast.AST]:
    """The lambdas of the decorators, which Python makes but never calls."""
    calls = [d for d in function.decorator_list if isinstance(d, ast.Call)]
    return [k.value for d in calls for k in d.keywords if isinstance(k.value, ast.Lambda)]


def _get(place: tuple[ast.AST, str, int | None]) -> ast.AST:
    parent, field, n = place
    value = getattr(parent, field)
    return value if n is None else value[n]


def _put(place: tuple[ast.AST, str, int | None], *new: ast.AST) -> None:
    parent, field, n = place
    if n is None:
        setattr(parent, field, new[0])
    else:
        getattr(parent, field)[n : n + 1] = new


def _expression(function: Function, pool: list[ast.expr], rng: random.Random) -> None:
    """Another expression in the place of one: a constant, a name, or one from elsewhere."""
    place = rng.choice(_places(function, ast.expr))
    kind = rng.randrange(3)
    if kind == 0:
        new = ast.parse(rng.choice(CONSTANTS), mode="eval").body
    elif kind == 1:
        new = ast.parse(rng.choice(NAMES), mode="eval").body
    else:
        new = copy.deepcopy(rng.choice(pool))
    _put(place, new)


def _wrap(function: Function, pool: list[ast.expr], rng: random.Random) -> None:
    """An expression within another construct, at times many times over."""
    place = rng.choice(_places(function, ast.expr))
    text, other = ast.unparse(_get(place)), ast.unparse(rng.choice(pool))
    form = rng.choice(EXPRESSIONS)
    for _ in range(rng.choice((1, 1, 1, 1, 1, 2, 3, 90))):
        if len(text) < LONGEST:
            text = f"({form.format(text, other)})"
    _put(place, ast.parse(text, mode="eval").body)


def _statement(function: Function, pool: list[ast.expr], rng: random.Random) -> None:
    """A statement within another one, at times many times over."""
    place = rng.choice(_places(function, ast.stmt))
    text, other = ast.unparse(_get(place)), ast.unparse(rng.choice(pool))
    form = rng.choice(STATEMENTS)
    for _ in range(rng.choice((1, 1, 1, 1, 1, 2, 15))):
        if len(text) > LONGEST:
            break
        deeper = text.replace("\n", "\n    ")
        indented = form.replace("    {0}", f"    {deeper.replace('{', '{{').replace('}', '}}')}")
        indented = indented.replace("{0}", text.replace("{", "{{").replace("}", "}}"))
        text = indented.format(text, other)
    _put(place, *ast.parse(text).body)


def _shuffle(function: Function, pool: list[ast.expr], rng: random.Random) -> None:
    """Nodes dropped, doubled, and in each other's place."""
    kind = rng.choice((ast.stmt, ast.stmt, ast.expr))
    places = _places(function, kind)
    place, other = rng.choice(places), rng.choice(places)
    node = _get(place)
    match rng.randrange(3):
        case 0 if place[2] is not None:
            _put(place)
            if place[0] is function and not function.body:
                function.body.append(ast.Pass())
        case 1 if place[2] is not None:
            _put(place, node, copy.deepcopy(node))
        case _:
            _put(place, copy.deepcopy(_get(other)))


def _operators(function: Function, pool: list[ast.expr], rng: random.Random) -> None:
    """Other operators, names of attributes and of arguments."""
    nodes = [n for s in function.body for n in ast.walk(s)]
    rng.shuffle(nodes)
    for node in nodes:
        if isinstance(node, ast.BinOp | ast.AugAssign):
            node.op = rng.choice(_BINARY)()
        elif isinstance(node, ast.Compare):
            node.ops[rng.randrange(len(node.ops))] = rng.choice(_COMPARE)()
        elif isinstance(node, ast.UnaryOp):
            node.op = rng.choice((ast.Not, ast.USub, ast.Invert, ast.UAdd))()
        elif isinstance(node, ast.Attribute):
            node.attr = rng.choice(ATTRIBUTES)
        elif isinstance(node, ast.Call) and node.args:
            last = node.args.pop()
            node.keywords.append(ast.keyword(rng.choice(("stop", "index", "value", None)), last))
        else:
            continue
        return


_BINARY = tuple(ast.operator.__subclasses__())
_COMPARE = tuple(ast.cmpop.__subclasses__())


def _signature(function: Function, pool: list[ast.expr], rng: random.Random) -> None:
    """Other parameters: without annotation, with star, twice as many, with long names."""
    arguments = function.args
    match rng.randrange(6):
        case 0:
            arguments.vararg = ast.arg("rest")
        case 1:
            arguments.kwarg = ast.arg("rest")
        case 2 if arguments.args:
            rng.choice(arguments.args).annotation = None
        case 3:
            arguments.args += [ast.arg(f"p{n}", ast.Name("f32")) for n in range(400)]
            arguments.defaults = []
        case 4 if arguments.kwonlyargs:
            rng.choice(arguments.kwonlyargs).annotation = ast.Name(rng.choice(NAMES))
        case _ if arguments.args:
            rng.choice(arguments.args).arg = rng.choice(("v" * 5000, "größe", "main", "T"))


def _parameter_type(function: Function, pool: list[ast.expr], rng: random.Random) -> None:
    """Another annotation of a parameter."""
    texts = ("Read[{0}]", "Buffers[Read[f32], {0}]", "slot[{0}]", "ReadWrite[f32, {0}]", "{0}")
    if function.args.args:
        text = rng.choice(texts).format(rng.choice((*CONSTANTS, *NAMES)))
        rng.choice(function.args.args).annotation = ast.parse(text, mode="eval").body


def _decorators(function: Function, pool: list[ast.expr], rng: random.Random) -> None:
    """Decorated twice, or with other sizes."""
    lambdas = _lambdas(function)
    if lambdas and rng.randrange(4):
        new = rng.choice((*CONSTANTS, "(-1, 1, 1)", "(1 << 20, 1 << 20)", "len(x)", "()", "f32"))
        rng.choice(lambdas).body = ast.parse(new, mode="eval").body  # type: ignore[attr-defined]
    else:
        function.decorator_list.append(copy.deepcopy(rng.choice(function.decorator_list)))


_CHANGES: tuple[Callable[[Function, list[ast.expr], random.Random], None], ...] = (
    *(_expression, _expression, _expression, _wrap, _wrap, _statement, _statement, _shuffle),
    *(_shuffle, _operators, _operators, _signature, _parameter_type, _decorators),
)
