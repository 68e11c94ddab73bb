"""``python -m tests.llm.record``: run the trial with the real model and keep its answers for `make test`.

Embeddings are those of the hash encoder, which are the same on every machine, so that the same candidates are
offered when the answers are played back.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import threading
import urllib.request
from pathlib import Path

import evireform
from evireform.language.prompts import load_all
from tests.doubles.recorded import RECORDED, Answer, key_of, write
from tests.doubles.scripted_openai import Reply, Request, ScriptedOpenAI
from tests.llm import kit, trial
from tests.llm.report import report


class Recorder:
    """Hands requests on to a real server and keeps its answers.

    Args:
        base_url: The real server.
        folder: Where an answer is kept until the recording is whole, so that an interrupted one goes on
            where it was. The whole request counts here, also the prompt.
    """

    def __init__(self, base_url: str, folder: Path) -> None:
        self._base_url = base_url
        self._folder = folder
        self._lock = threading.Lock()
        self.answers: dict[str, Answer] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def reply(self, request: Request) -> Reply:
        # In the order in which it came: a server has the model write the fields in the order of the schema.
        body = json.dumps({**request.body, "stream": False}).encode()
        kept = self._folder / f"{hashlib.sha256(body).hexdigest()[:32]}.json"
        if not kept.exists():
            partial = kept.with_suffix(".part")
            partial.write_bytes(self._send(body))
            partial.rename(kept)
        response = json.loads(kept.read_bytes())
        answer = Answer(
            purpose=request.purpose,
            key=key_of(request),
            content=response["choices"][0]["message"]["content"],
            finish_reason=response["choices"][0]["finish_reason"],
            tokens_in=response["usage"]["prompt_tokens"],
            tokens_out=response["usage"]["completion_tokens"],
        )
        with self._lock:
            self.answers[answer.key] = answer
        print(f"{answer.purpose}: {answer.tokens_in} + {answer.tokens_out} tokens", file=sys.stderr)
        return answer.reply()

    def _send(self, body: bytes) -> bytes:
        request = urllib.request.Request(
            f"{self._base_url}/chat/completions", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=trial.LANGUAGE.timeout_s) as response:
            content: bytes = response.read()
        return content


def main() -> None:
    os.environ.setdefault("OPENAI_API_KEY", "none")
    try:
        with kit.serving() as base_url:
            record(base_url)
    except kit.Unavailable as error:
        sys.exit(f"nothing was recorded: {error}")


def record(base_url: str) -> None:
    """Run the trial through a server that hands every chat on to this one, and write the recording."""
    recorder = Recorder(base_url, kit.folder() / "recorded")
    with tempfile.TemporaryDirectory(prefix="evireform-record-") as home, ScriptedOpenAI() as server:
        Path(home).chmod(0o755)
        for prompt in load_all():
            server.on(prompt.purpose, recorder.reply)
        settings = trial.recorded_settings(server.base_url)
        with evireform.connect(home=Path(home), settings=settings) as database:
            done = trial.run(database)
    write(RECORDED, list(recorder.answers.values()))
    print(report(done))


if __name__ == "__main__":
    main()
