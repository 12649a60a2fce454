"""Code of elementwise ops that is made once and filled in is what is written op by op."""

from __future__ import annotations

from gristmill.backends.llvm.text import Function


def written(f: Function, a: str, b: str) -> list[str]:
    """Two instructions, a struct and an operand that is a result."""
    sum_ = f.value(f"add i32 {a}, {b}")
    both = f.value(f"call {{ i32, i1 }} @both(i32 {sum_}, i32 7)")
    return [both, b, "0"]


def test_a_template_gives_the_lines_that_are_written_each_time() -> None:
    plain, filled = Function("k", []), Function("k", [])
    for f in (plain, filled):
        f.value("load i32, ptr null")
    start = filled.mark()
    text, names = filled.template(start, written(filled, "<a>", "<b>"))
    assert names == 2
    text = text.replace("<a>", "{2}").replace("<b>", "{3}")
    for a, b in (("%0", "5"), ("%x", "%1")):
        assert filled.fill(text, names, [a, b]) == written(plain, a, b)
    assert filled.text() == plain.text()


def test_a_template_without_instructions_adds_none() -> None:
    f = Function("k", [])
    before = f.text()
    text, names = f.template(f.mark(), ["<a>"])
    assert f.fill(text.replace("<a>", "{0}"), names, ["%x"]) == ["%x"]
    assert f.text() == before
