"""What may come of a program, however wrong: run in a worker process, with a deadline."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Mapping
from typing import Any

from gristmill.backends.compile import CompileError, Options, compile_kernel
from gristmill.backends.steps import compile_step
from gristmill.backends.trace import TraceError, trace
from gristmill.ir.lang import Diagnostic
from gristmill.ir.parse import ParseError
from gristmill.ir.recursion import deep
from gristmill.ir.text import parse_kernel, print_kernel
from gristmill.ir.verify import VerifyError, verify

LONGEST = 4000  # characters of an error that somebody reads


def judge_source(
    sources: Mapping[str, bytes],
    module: str,
    kernel: str,
    constexprs: Mapping[str, Any],
) -> tuple[str, str]:
    """Trace a kernel: ("ok" | "Diagnostic" | "TraceError" | "finding", what was wrong)."""
    try:
        text, _ = trace(sources, module, kernel, "fuzz", constexprs)
    except Diagnostic as error:
        lines = sources.get(error.file, b"").decode().splitlines()
        if not 1 <= error.line <= len(lines) or len(str(error)) > LONGEST or not error.message:
            return "finding", f"Diagnostic without a good place or message: {error!s:.2000}"
        return "Diagnostic", error.message
    except TraceError as error:
        if len(str(error)) > LONGEST or not re.match(r"kernels/\w+\.py", str(error)):
            return "finding", f"TraceError without a good place: {error!s:.2000}"
        return "TraceError", str(error)
    except BaseException as error:  # any other type is what this looks for
        return "finding", "".join(traceback.format_exception(error))[-3000:]
    return _traced(text.decode())


def _traced(text: str) -> tuple[str, str]:
    """A kernel that was traced must verify and survive its text form."""
    try:
        kernel = parse_kernel(text)
        verify(kernel)
        if print_kernel(kernel) != text:
            return "finding", "printing what was read gives another text"
    except Exception as error:  # as above
        return "finding", "".join(traceback.format_exception(error))[-3000:]
    return "ok", ""


def judge_compiled(
    sources: Mapping[str, bytes],
    module: str,
    kernel: str,
    constexprs: Mapping[str, Any],
    target: str,
    checks: bool,
) -> tuple[str, str]:
    """Trace a kernel and compile it: ("ok" | "refused" | "finding" | what `judge_source` says)."""
    verdict, why = judge_source(sources, module, kernel, constexprs)
    if verdict != "ok":
        return verdict, why
    text = trace(sources, module, kernel, "fuzz", constexprs)[0].decode()
    try:
        compile_step(text, target, {"checks": checks}, "key")
    except CompileError as error:
        odd = re.search("LLVM refuses|spirv-val|assertion|malformed", error.message)
        return ("finding" if odd else "refused"), error.message
    except BaseException as error:  # as above
        return "finding", "".join(traceback.format_exception(error))[-3000:]
    return "ok", ""


def judge_texts(texts: list[str]) -> list[tuple[str, str]]:
    """Read kernels from text: ("ok" | "VerifyError" | "ParseError" | "finding", why) of each."""
    return [_judge_text(text) for text in texts]


def _judge_text(text: str) -> tuple[str, str]:
    try:
        kernel = parse_kernel(text)
        printed = print_kernel(kernel)
        with deep():
            equal = parse_kernel(printed) == kernel
        if not equal:
            return "finding", "reading what was printed gives another kernel"
        verify(kernel)
    except (ParseError, VerifyError) as error:
        if len(str(error)) > LONGEST:
            return "finding", f"an error of {len(str(error))} characters"
        return type(error).__name__, str(error)
    except BaseException as error:  # any other type is what this looks for
        return "finding", "".join(traceback.format_exception(error))[-3000:]
    return "ok", ""


def seconds_to_compile(text: str, target: str) -> float:
    """Processor time that a compile takes."""
    start = time.process_time()
    compile_kernel(text, target, Options())
    return time.process_time() - start
