"""Times the online path without models beside exact search in memory: ``python -m benchmarks --help``."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import environment

if TYPE_CHECKING:
    from benchmarks.compare import Breadth, Comparison
    from benchmarks.doubles import PreparedQuestion
    from evireform.database import Database
    from evireform.settings import SearchSettings

BREADTHS = (100, 150, 200, 300, 400, 600)
DATA = Path(os.environ.get("EVIREFORM_DATA", Path(__file__).parents[2] / "shared" / "data"))
REAL = "2wikimultihopqa"
_MB = 1e6


def main(module: str) -> None:
    """Run the benchmark, in a process that was started as ``python -m module``."""
    options = _arguments()
    environment.require(module)
    _start_up()

    import evireform
    from benchmarks import synthetic
    from evireform.embedded.server import default_home

    home = options.home or default_home().with_name("evireform-bench")
    settings = evireform.SearchSettings(ef_search=options.ef_search)
    with evireform.connect(home=home) as db:
        _describe(db, settings)
        compared = []
        for size in options.sizes:
            name = f"synthetic-{size}"
            if name not in {corpus.name for corpus in db.corpora()}:
                _say(f"building {name} …")
                start = time.perf_counter()
                synthetic.load(db.store, name, synthetic.SyntheticCorpus(propositions=size))
                _say(f"{name}: loaded and indexed in {time.perf_counter() - start:.0f} s")
            compared.append(_measure(db, home, name, None, settings, options.questions))
        if not options.real:
            _say(f"{REAL}: skipped, as asked")
        elif not (DATA / REAL / "corpus.jsonl").is_file():
            _say(f"{REAL}: skipped, because EVIREFORM_DATA does not name a folder that holds it")
        else:
            from benchmarks import real

            _say(f"{REAL}: ingesting what is missing …")
            name = real.ingest(db, DATA / REAL)
            prepared = real.prepare(db, name, DATA / REAL, count=options.questions)
            compared.append(_measure(db, home, name, prepared, settings, options.questions))
    print()
    print("\n".join(_table(compared)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--sizes",
        type=lambda text: [int(size) for size in text.split(",") if size],
        default=[10_000, 100_000],
        help="propositions of the synthetic corpora (10000,100000); 1000000 takes long and 8 GB of memory",
    )
    parser.add_argument("--home", type=Path, help="folder of the embedded server that keeps the corpora")
    parser.add_argument("--questions", type=int, default=100, help="questions a corpus (100)")
    parser.add_argument(
        "--ef-search", type=int, default=0, help="breadth of the HNSW search (0: evireform's default)"
    )
    parser.add_argument(
        "--real", action=argparse.BooleanOptionalAction, default=True, help=f"also measure {REAL}"
    )
    return parser.parse_args()


def _load() -> str:
    """Processes that wanted a core in the last minute: above the number of cores, times are inflated."""
    return f"{os.getloadavg()[0]:.1f}"


def _say(text: str) -> None:
    print(text, flush=True)


def _start_up() -> None:
    """How long a fresh interpreter takes to import the package, and to print the help."""
    commands = {
        "python -c 'pass'": "pass",
        "import evireform": "import evireform",
        "evireform --help": "import sys; sys.argv = ['evireform', '--help']; "
        "from evireform.cli import main; main()",
    }
    for name, code in commands.items():
        seconds = []
        for _ in range(7):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
            seconds.append(time.perf_counter() - start)
        _say(f"{name}: median {1000 * statistics.median(seconds):.0f} ms, best {1000 * min(seconds):.0f} ms")


def _describe(db: Database, settings: SearchSettings) -> None:
    import numpy as np

    from evireform.store.checks import server_facts
    from evireform.store.connection import EF_SEARCH

    with db.store.transaction(read_only=True) as tx:
        server = server_facts(tx, db.store.schema).version
        extension = tx.run("extension", {})[0][0]
    _say(f"machine: {environment.machine()}; load {_load()}")
    _say(f"Python {sys.version.split()[0]}, numpy {np.__version__}, {environment.linear_algebra()}")
    _say(f"PostgreSQL {server}, pgvector {extension}; ef_search {settings.ef_search or EF_SEARCH}")


def _measure(
    db: Database,
    home: Path,
    name: str,
    questions: Sequence[PreparedQuestion] | None,
    settings: SearchSettings,
    count: int,
) -> tuple[Comparison, tuple[int, int]]:
    """Everything about one corpus; without prepared questions they are synthetic."""
    from benchmarks import compare, resident, synthetic

    space, index = compare.open_index(db.store, name)
    if questions is None:
        with db.store.transaction(read_only=True, statement_timeout_s=0) as tx:
            wrong = synthetic.disagreements(tx, space.corpus_id)
        if any(wrong.values()):
            raise SystemExit(f"{name}: derived tables disagree with the mentions: {wrong}")
        questions = synthetic.questions(index.vectors, count)
    _say(f"\n{name}: {len(index.ids)} propositions, {len(questions)} questions; load {_load()}")
    print("\n".join(_breadths(compare.sweep(db.store, space, index, questions, settings, BREADTHS))))
    compared = compare.compare(db.store, name, space, index, questions, settings)
    stages = ", ".join(f"{stage} {ms:.1f}" for stage, ms in compared.stage_ms.items())
    _say(f"stages, median ms: {stages}; load {_load()}")
    return compared, resident.measure(home, name, questions)


def _breadths(measured: Sequence[Breadth]) -> list[str]:
    return [
        "| ef_search | recall@100 of candidates | ms | recall@2 of residual queries | ms for three |",
        "|---|---|---|---|---|",
        *(
            f"| {b.ef_search} | {b.candidates:.4f} | {b.candidates_ms:.1f} | {b.hits:.4f} | {b.hits_ms:.1f} |"
            for b in measured
        ),
    ]


def _table(compared: Sequence[tuple[Comparison, tuple[int, int]]]) -> list[str]:
    columns: list[tuple[str, Callable[[Comparison, tuple[int, int]], str]]] = [
        ("corpus", lambda c, _: c.corpus),
        ("propositions", lambda c, _: f"{c.propositions:,}"),
        ("largest degree", lambda c, _: f"{c.largest_degree:,}"),
        ("recall@100", lambda c, _: f"{c.recall:.3f}"),
        ("same ranking", lambda c, _: f"{c.agreement:.0%}"),
        ("by exact scan", lambda c, _: f"{c.exact_agreement:.0%}"),
        ("database, median / p95 ms", lambda c, _: f"{c.database.median_ms:.1f} / {c.database.p95_ms:.1f}"),
        ("with the log", lambda c, _: f"{c.logged.median_ms:.1f} / {c.logged.p95_ms:.1f}"),
        ("in memory", lambda c, _: f"{c.memory.median_ms:.1f} / {c.memory.p95_ms:.1f}"),
        ("database : memory", lambda c, _: f"{c.database.median_ms / c.memory.median_ms:.2f}"),
        ("statements", lambda c, _: f"{c.statements:.0f}"),
        ("rows read, median / most", lambda c, _: f"{c.rows_median:.0f} / {c.rows_max}"),
        ("peak of a search process, MB", lambda _, peak: f"{peak[0] / _MB:.0f} / {peak[1] / _MB:.0f}"),
        ("arrays in memory, MB", lambda c, _: f"{c.arrays_bytes / _MB:.0f}"),
    ]
    lines = [" | ".join(name for name, _ in columns), " | ".join("---" for _ in columns)]
    lines += [" | ".join(cell(c, peak) for _, cell in columns) for c, peak in compared]
    return [f"| {line} |" for line in lines]


if __name__ == "__main__":
    main("benchmarks.online")
