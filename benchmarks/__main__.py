"""``python -m benchmarks``: see `benchmarks.online`."""

from benchmarks.online import main

main("benchmarks")
