"""Mandelbrot, a while loop per invocation, beside a scalar loop in C, both on two threads.

    python benchmarks/branchy.py

Needs `scons target=cpu kernel=mandelbrot` and a C compiler (`cc`). Prints both times and how many
times faster the vectors are; every count is compared.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import timing

from gristmill import runtime

SIZE, LIMIT = 1024, 256
C_SOURCE = """
void mandelbrot(int *y, int width, float left, float top, float step, int limit, int r0, int r1) {
  for (int r = r0; r < r1; r++)
    for (int c = 0; c < width; c++) {
      float px = left + c * step, py = top + r * step, zx = 0, zy = 0;
      int count = 0;
      while (count < limit && zx * zx + zy * zy <= 4.0f) {
        float x = zx * zx - zy * zy + px;
        zy = 2 * zx * zy + py;
        zx = x;
        count++;
      }
      y[r * width + c] = count;
    }
}
"""
BANDS = 32


def scalar_loop(folder: Path) -> ctypes.CDLL:
    source, library = folder / "scalar.c", folder / "scalar.so"
    source.write_text(C_SOURCE)
    flags = ["-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", str(library), str(source)], check=True)
    return ctypes.CDLL(str(library))


def main() -> int:
    left, top, step = -2.0, -1.25, 2.5 / SIZE
    with tempfile.TemporaryDirectory() as folder:
        function = scalar_loop(Path(folder)).mandelbrot
    expected = np.zeros((SIZE, SIZE), np.int32)
    floats = [ctypes.c_float(v) for v in (left, top, step)]
    address = ctypes.c_void_p(expected.ctypes.data)

    def bands(first: int) -> None:  # every other band: the halves of the picture differ in work
        height = SIZE // BANDS
        for r in range(first * height, SIZE, 2 * height):
            function(address, SIZE, *floats, LIMIT, r, r + height)

    def scalar() -> None:
        other = threading.Thread(target=bands, args=(1,))
        other.start()
        bands(0)
        other.join()

    bundle = runtime.open_bundle("artifacts")
    with runtime.open_device("cpu") as device:
        out = device.allocate((SIZE, SIZE), "i32")
        kernel = device.load(bundle, "mandelbrot", "f32")
        with device.record() as recording:
            recording.launch(kernel, out, SIZE, left, top, step, LIMIT)

        def vectors() -> None:
            recording.replay()
            device.synchronize()

        times = timing.race({"gristmill": vectors, "scalar loop": scalar})
        scalar()
        if not np.array_equal(out.numpy(), expected):
            print("the counts differ", file=sys.stderr)
            return 1
        print(f"target {kernel.manifest.target}")
        timing.report(f"mandelbrot {SIZE}", times)
    print(f"{times['scalar loop'] / times['gristmill']:.1f} times the scalar loop")
    return 0


if __name__ == "__main__":
    sys.exit(main())
