"""Parts of kernel bodies in text form that tests of several targets run."""

from __future__ import annotations

from gristmill.ir.dtypes import DType


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


# x: i32 buffer read, y: i32 buffer write; the sites of its asserts
FAULTS = """
    %2 = global_id {dim=0} : i32
    %3 = load %0, %2 : i32
    %4 = const 5 : i32
    %5 = lt %3, %4 : bool
    assert %5 {site=0}
    %6 = ge %3, %2 : bool
    assert %6 {site=1}
    store %1, %2, %3
    return"""
FAULT_SITES = 'site "below five"\nsite "not below its place"'

# x: i32 buffer read, y: i32 buffer readwrite: each invocation at three times its number
OUTSIDE = """
    %2 = global_id {dim=0} : i32
    %3 = const 3 : i32
    %4 = mul %2, %3 : i32
    %5 = load %0, %4 : i32
    store %1, %4, %5
    %6 = atomic %1, %4, %3 {kind="add"} : i32
    return"""

# x: i32 buffer read, y: i32 buffer write; 1024 invocations: y[i] is the sum of x
MANY_BARRIERS = f"""
    %2 = alloc {{name="tile"}} : workgroup<i32,1024>
    %3 = local_linear_id : i32
    %4 = load %0, %3 : i32
    store %2, %3, %4
    barrier
    {tree_sum("i32", 512, "%3", "%2", 5)}
    %18 = const 0 : i32
    %19 = load %2, %18 : i32
    store %1, %3, %19
    return"""

# x: i32 buffer readwrite, y: i32 buffer write: what the first invocation stored between barriers
AFTER_A_BARRIER = """
    %2 = local_id {dim=0} : i32
    %3 = const 0 : i32
    %4 = load %0, %3 : i32
    barrier
    %5 = eq %2, %3 : bool
    if %5 {
      %6 = const 7 : i32
      %7 = add %4, %6 : i32
      store %0, %3, %7
      yield
    } else {
      yield
    }
    barrier
    %8 = load %0, %3 : i32
    store %1, %2, %8
    return"""


def atomics_of_every_kind(t: DType, where: str) -> tuple[str, str]:
    """Parameters and body: 64 invocations update cells of `where`, "buffer" or "workgroup"."""
    kinds = ["add", "min", "max"] + ([] if t.is_float else ["and", "or", "xor"])
    target = "%1" if where == "buffer" else "%3"
    lines = [f'%3 = alloc {{name="cells"}} : workgroup<{t},8>', "%4 = local_id {dim=0} : i32"]
    lines += ["%5 = load %0, %4 : " + t.name, "%6 = const 8 : i32", "%7 = lt %4, %6 : bool"]
    first = f"%8 = load %1, %4 : {t}\nstore %3, %4, %8\n"
    last = f"%9 = load %3, %4 : {t}\nstore %1, %4, %9\n"
    if where == "workgroup":
        lines.append(f"if %7 {{\n{first}yield\n}} else {{\nyield\n}}\nbarrier")
    for n, kind in enumerate(kinds):
        lines.append(f"%{10 + 2 * n} = const {n} : i32")
        update = f'atomic {target}, %{10 + 2 * n}, %5 {{kind="{kind}"}} : {t}'
        lines.append(f"%{11 + 2 * n} = {update}")
    if where == "workgroup":
        lines.append(f"barrier\nif %7 {{\n{last}yield\n}} else {{\nyield\n}}")
    params = f"x: {t} buffer read, y: {t} buffer readwrite, z: {t} buffer read"
    return params, "\n".join([*lines, "return"])


def workgroup_bytes(size: int) -> str:
    """%0, a buffer of u8, goes through a workgroup array of `size` bytes."""
    return f"""
    %1 = alloc {{name="a"}} : workgroup<u8,{size}>
    %2 = local_linear_id : i32
    %3 = load %0, %2 : u8
    store %1, %2, %3
    barrier
    %4 = load %1, %2 : u8
    store %0, %2, %4
    return"""
