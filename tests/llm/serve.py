"""Serve a model file over the OpenAI protocol on loopback until standard input ends.

Runs in the environment that `tests.llm.kit` makes, so it imports nothing of evireform. The first line of
standard output is the address.
"""

import os
import sys

import xllamacpp

WINDOW_TOKENS = 8_192
"""Two of the longest requests of a trial would fit; the memory for it is taken at once."""

ANSWER_TOKENS = 1_024
"""Four times what the longest passage of a trial takes. A small model may repeat itself without end."""


def main(model: str, name: str) -> None:
    """Serve one request at a time; half of the machine is left to everything else."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = model
    parameters.model_alias = {name}
    parameters.n_ctx = WINDOW_TOKENS
    parameters.n_predict = ANSWER_TOKENS
    parameters.n_parallel = 1
    threads = max(1, (os.cpu_count() or 2) // 2)
    parameters.cpuparams.n_threads = threads
    parameters.cpuparams_batch.n_threads = threads
    parameters.cache_ram_mib = 512
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
