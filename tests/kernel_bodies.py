"""Parts of kernel bodies in text form that tests of several targets run."""

from __future__ import annotations


def tree_sum(element: str, half: int, lane: str, tile: str, first: int) -> str:
    """A sum by halves: tile[0] becomes that of the 2 * half cells of `tile`, a workgroup array.

    `lane` numbers the invocations. Values are numbered from `first` on; 13 of them.
    """
    v = [f"%{first + n}" for n in range(13)]
    return f"""
    {v[0]} = const {half} : i32
    {v[1]} = while {v[0]} : i32 cond({v[2]}: i32) {{
      {v[3]} = const 0 : i32
      {v[4]} = gt {v[2]}, {v[3]} : bool
      condition {v[4]}
    }} body({v[5]}: i32) {{
      {v[6]} = lt {lane}, {v[5]} : bool
      if {v[6]} {{
        {v[7]} = add {lane}, {v[5]} : i32
        {v[8]} = load {tile}, {v[7]} : {element}
        {v[9]} = load {tile}, {lane} : {element}
        {v[10]} = add {v[8]}, {v[9]} : {element}
        store {tile}, {lane}, {v[10]}
        yield
      }} else {{
        yield
      }}
      barrier
      {v[11]} = const 1 : i32
      {v[12]} = shr {v[5]}, {v[11]} : i32
      continue {v[12]}
    }}"""


def count_groups(element: str) -> str:
    """%0[g] += 1 and %1[g] = y of the invocation, where g is the group's number in x, y, z."""
    return f"""
    %2 = group_id {{dim=0}} : i32
    %3 = group_id {{dim=1}} : i32
    %4 = group_id {{dim=2}} : i32
    %5 = num_groups {{dim=0}} : i32
    %6 = num_groups {{dim=1}} : i32
    %7 = mul %4, %6 : i32
    %8 = add %7, %3 : i32
    %9 = mul %8, %5 : i32
    %10 = add %9, %2 : i32
    %11 = const 1 : {element}
    %12 = atomic %0, %10, %11 {{kind="add"}} : {element}
    %13 = global_id {{dim=1}} : i32
    store %1, %10, %13
    return"""
