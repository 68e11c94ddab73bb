"""A fresh process that only searches, and says how much memory it took at most.

``python -m benchmarks.resident HOME CORPUS FILE`` reads prepared questions (our own pickle) from the file and
prints two numbers of bytes as JSON: after the first search, and after all of them.
"""

from __future__ import annotations

import json
import pickle
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.doubles import PreparedQuestion


def measure(home: Path, corpus_name: str, questions: Sequence[PreparedQuestion]) -> tuple[int, int]:
    """Peak resident bytes of a process of its own after one search and after all of them."""
    with tempfile.NamedTemporaryFile() as file:
        pickle.dump(list(questions), file)
        file.flush()
        command = [sys.executable, "-m", "benchmarks.resident", str(home), corpus_name, file.name]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    first, last = json.loads(printed)
    return first, last


def _peak_bytes() -> int:
    """The high-water mark of this program alone; ``ru_maxrss`` would count the process that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = (line.split() for line in status.read_text().splitlines())
        return next(int(fields[1]) * 1024 for fields in lines if fields[0] == "VmHWM:")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main(home: Path, corpus_name: str, file: Path) -> None:
    import evireform
    from benchmarks.doubles import doors
    from evireform.retrieval.pipeline import search
    from evireform.store import corpora

    questions: list[PreparedQuestion] = pickle.loads(file.read_bytes())
    with evireform.connect(home=home) as db:
        with db.store.transaction(read_only=True) as tx:
            corpus = corpora.get_corpus(tx, corpus_name)
            space = corpora.active_space(tx, corpus.corpus_id, "proposition")
        encoder, language = doors(questions, space)
        peaks = []
        for question in questions:
            search(
                db.store, corpus_name, [question.text],
                encoder=encoder, language=language, settings=evireform.SearchSettings(),
            )  # fmt: skip
            peaks.append(_peak_bytes())
    print(json.dumps([peaks[0], peaks[-1]]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
