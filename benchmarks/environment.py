"""A process that measures fairly: one thread of linear algebra, with the kernel that suits the processor."""

from __future__ import annotations

import os
import platform
import sys
from importlib import import_module
from pathlib import Path

_SLOW = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
"""Each pins OpenBLAS to a kernel or a block size that another machine was tuned for; both must go."""

_SINGLE = {
    f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "NUMEXPR", "VECLIB_MAXIMUM")
}


def measuring(environment: dict[str, str]) -> dict[str, str]:
    """The environment to measure in: without the pins, with one thread.

    >>> measuring({"OPENBLAS_CORETYPE": "Haswell", "HOME": "/h"})["HOME"]
    '/h'
    >>> "OPENBLAS_CORETYPE" in measuring({"OPENBLAS_CORETYPE": "Haswell"})
    False
    """
    return {name: value for name, value in environment.items() if name not in _SLOW} | _SINGLE


def require(module: str) -> None:
    """Start this process anew as ``python -m module`` where its environment is another than `measuring`'s.

    OpenBLAS reads its variables when numpy is imported, so this must run before that.
    """
    wanted = measuring(dict(os.environ))
    if wanted == dict(os.environ):
        return
    if "numpy" in sys.modules:
        raise RuntimeError("numpy is imported already: its threads and kernel cannot be chosen any more")
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]], wanted)


def linear_algebra() -> str:
    """Library, version, kernel and threads that numpy multiplies matrices with."""
    import numpy as np

    np.ones((2, 2)) @ np.ones((2, 2))
    try:
        threadpool_info = import_module("threadpoolctl").threadpool_info
    except ModuleNotFoundError:
        return "linear algebra unknown (threadpoolctl is not installed)"
    found = [
        f"{pool['internal_api']} {pool['version']}, kernel {pool.get('architecture', 'unknown')}, "
        f"{pool['num_threads']} thread{'s' if pool['num_threads'] != 1 else ''}"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]
    return "; ".join(dict.fromkeys(found)) or "unknown"


def machine() -> str:
    """Processor and cores, without the name of the machine."""
    model = platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        named = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = named[0].partition(":")[2].strip() if named else model
    return f"{model}, {os.cpu_count()} cores, {platform.system()}"
