"""Structured control flow: every way out of every construct."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_text import agree, disassembly, emitted, kernel
from vulkan_driver import Driver

PARAMS = "x: i32 buffer read, y: i32 buffer write"
HEAD = """
        %2 = local_id {dim=0} : i32
        %3 = load %0, %2 : i32
        %4 = const 0 : i32
        %5 = const 10 : i32
        %6 = const 1 : i32
        %7 = const 3 : i32
"""

BODIES = {
    "break inside a switch inside a loop": """
        %10 = for %4, %5, %4 : i32 body(%11: i32, %12: i32) {
          %13 = add %3, %11 : i32
          %14 = and %13, %7 : i32
          %15 = switch %14 {cases=[0, 2]} : i32 case {
            %16 = add %12, %5 : i32
            break %16
          } case {
            %17 = shl %12, %6 : i32
            continue %17
          } default {
            %18 = add %12, %13 : i32
            yield %18
          }
          continue %15
        }
        store %1, %2, %10
        return""",
    "early return from nested loops": """
        for %4, %5 body(%11: i32) {
          for %4, %5 body(%12: i32) {
            %13 = mul %11, %12 : i32
            %14 = eq %13, %3 : bool
            if %14 {
              %15 = add %13, %5 : i32
              store %1, %2, %15
              return
            } else {
              yield
            }
            continue
          }
          continue
        }
        store %1, %2, %4
        return""",
    "both arms leave": """
        %8 = lt %3, %5 : bool
        if %8 {
          store %1, %2, %6
          return
        } else {
          store %1, %2, %7
          return
        }
        return""",
    "a loop that never comes round": """
        %10 = for %4, %5, %4 : i32 body(%11: i32, %12: i32) {
          %13 = add %12, %3 : i32
          break %13
        }
        store %1, %2, %10
        return""",
    "a while with control flow in its condition": """
        %10, %11 = while %3, %4 : i32, i32 cond(%12: i32, %13: i32) {
          %14 = gt %12, %6 : bool
          %15 = if %14 : bool {
            %16 = lt %13, %5 : bool
            yield %16
          } else {
            %17 = const false : bool
            yield %17
          }
          condition %15
        } body(%18: i32, %19: i32) {
          %20 = and %18, %6 : i32
          %21 = eq %20, %4 : bool
          if %21 {
            %22 = shr %18, %6 : i32
            %23 = add %19, %6 : i32
            continue %22, %23
          } else {
            yield
          }
          %24 = eq %18, %5 : bool
          if %24 {
            break %4, %5
          } else {
            yield
          }
          %25 = sub %18, %6 : i32
          continue %25, %19
        }
        %26 = add %10, %11 : i32
        store %1, %2, %26
        return""",
    "carried values change places": """
        %10, %11 = for %4, %5, %3, %6 : i32, i32 body(%12: i32, %13: i32, %14: i32) {
          continue %14, %13
        }
        %15 = sub %10, %11 : i32
        store %1, %2, %15
        return""",
    "a loop without iterations": """
        %10 = for %5, %4, %3 : i32 body(%11: i32, %12: i32) {
          continue %4
        }
        store %1, %2, %10
        return""",
    "a switch with one empty case after another": """
        %8 = and %3, %7 : i32
        switch %8 {cases=[0, 1, 3]} case {
          yield
        } case {
          yield
        } case {
          store %1, %2, %3
          return
        } default {
          yield
        }
        store %1, %2, %8
        return""",
    "a switch in a switch in a while": """
        %10 = while %4 : i32 cond(%11: i32) {
          %12 = lt %11, %5 : bool
          condition %12
        } body(%13: i32) {
          %14 = and %3, %7 : i32
          switch %14 {cases=[1]} case {
            %15 = and %13, %7 : i32
            switch %15 {cases=[2]} case {
              %16 = add %13, %5 : i32
              break %16
            } default {
              yield
            }
            yield
          } default {
            yield
          }
          %17 = add %13, %6 : i32
          continue %17
        }
        store %1, %2, %10
        return""",
}


@pytest.mark.parametrize("name", list(BODIES))
def test_every_way_out(driver: Driver, name: str, rng: np.random.Generator) -> None:
    k = kernel(PARAMS, HEAD + BODIES[name])
    x = rng.integers(-3, 30, 32).astype(np.int32)
    agree(driver, k, [x, np.full(32, -1, np.int32)])


@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "i64", "u64", "u32"])
def test_a_switch_on_every_width(driver: Driver, dtype: str, rng: np.random.Generator) -> None:
    least = -2 if dtype.startswith("i") else 9
    k = kernel(
        f"x: {dtype} buffer read, y: i32 buffer write",
        f"""
        %2 = local_id {{dim=0}} : i32
        %3 = load %0, %2 : {dtype}
        %4 = const 7 : i32
        %5 = switch %3 {{cases=[{least}, 1]}} : i32 case {{
          yield %4
        }} case {{
          yield %2
        }} default {{
          %6 = const -1 : i32
          yield %6
        }}
        store %1, %2, %5
        return""",
    )
    size = int(dtype[1:]) // 8
    kind = ("int" if dtype.startswith("i") else "uint") + str(8 * size)
    x = rng.choice(np.array([least, 0, 1, 2], kind), 32)
    agree(driver, k, [x, np.zeros(32, np.int32)])


def test_unsigned_loops_reach_beyond_the_signed_range(driver: Driver) -> None:
    k = kernel(
        "y: u32 buffer readwrite",
        """
        %1 = local_id {dim=0} : i32
        %2 = const 2147483640 : u32
        %3 = const 2147483660 : u32
        %4 = const 0 : u32
        %5 = for %2, %3, %4 : u32 body(%6: u32, %7: u32) {
          %8 = const 1 : u32
          %9 = add %7, %8 : u32
          continue %9
        }
        store %0, %1, %5
        return""",
    )
    results = agree(driver, k, [np.zeros(32, np.uint32)])
    assert results is not None
    assert (results[0] == 20).all()


@pytest.mark.parametrize("name", list(BODIES))
def test_state_travels_through_variables(name: str) -> None:
    """NVIDIA's compiler crashes on some programs that use OpPhi."""
    assert "OpPhi" not in disassembly(emitted(kernel(PARAMS, HEAD + BODIES[name])))


def test_the_static_number_of_iterations_is_a_fact() -> None:
    once = kernel(PARAMS, HEAD + BODIES["early return from nested loops"])
    assert emitted(once).facts == {"loop_turns": 10 * (1 + 10 + 1), "open_loops": 0}
