#!/bin/bash
# Builds the wheel and runs it where there is nothing but an interpreter: a fresh environment without pip, no PATH, no
# PYTHONPATH. usage: check_wheel.sh PYTHON BUILD_FOLDER [STENCILS] (from the root; PYTHON has meson-python).
# STENCILS: the stencils.cpp of a build of the same sources.
set -euo pipefail
python=$1 folder=$(mkdir -p "$2" && cd "$2" && pwd)

rm -rf "$folder/empty" "$folder"/*.whl
PATH=$(dirname "$python"):$PATH "$python" -m pip -q wheel . --no-deps --no-build-isolation --wheel-dir "$folder" \
  --config-settings=build-dir="$folder/meson" --config-settings=setup-args=-Dstencils="${3:-}"
"$python" -m venv --without-pip "$folder/empty"
"$python" -m pip -q --python "$folder/empty/bin/python" install --no-deps --no-index "$folder"/*.whl

# Everything the shared objects ask for is the C and C++ runtime or lies beside them.
package=$(echo "$folder"/empty/lib/python*/site-packages/kintsugi)
own=$(cd "$package" && ls)
for needed in $(readelf -d "$package"/*.so* | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u); do
  case $needed in
    libc.so.6 | libm.so.6 | libdl.so.2 | libpthread.so.0 | ld-linux-x86-64.so.2 | libstdc++.so.6 | libgcc_s.so.1) ;;
    *) grep -qxF "$needed" <<<"$own" || { echo "the wheel needs $needed and does not carry it"; exit 1; } ;;
  esac
done

cd "$folder"
env -i PATH= KINTSUGI_STRICT=1 "$folder/empty/bin/python" -I - <<'TEXT'
import sys

import kintsugi as kt


def step(a, b):
    return (a * b + a).sum()


a, b = kt.tensor([1.0, 2.0, 3.0]), kt.tensor([4.0, 5.0, 6.0])
fast = kt.compile(step)
assert [fast(a, b).item() for _ in range(3)] == [38.0] * 3
assert kt._dynamo.utils.counters["native"]["segments"] > 0, "nothing was compiled"
assert "numpy" not in sys.modules
for line in open("/proc/self/maps"):
    path = line.split()[-1]
    assert not ("libmimalloc" in path or "libZydis" in path) or path.startswith(sys.prefix), path
TEXT
echo "check: 1 passed, 0 failed"
