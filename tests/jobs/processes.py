"""The command line in processes of their own that may be killed, and a server that counts what they ask."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from evireform import connect
from evireform.database import Database
from evireform.settings import EmbeddingSettings, LanguageSettings, Settings
from tests.doubles.scripted_language import split_sentences
from tests.doubles.scripted_openai import Request, ScriptedOpenAI

AT_ONCE = 8
MODEL = "interrupted"

NURSERY = """
import json, os, signal, sys
import evireform.cli.commands, evireform.database, evireform.embedded, openai, rich.progress
import evireform.embedding.openai, evireform.language.openai
signal.signal(signal.SIGINT, signal.default_int_handler)
for line in sys.stdin:
    given = json.loads(line)
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(given["output"], os.O_WRONLY | os.O_CREAT), 1)
        sys.argv = ["evireform", *given["arguments"]]
        evireform.cli.main()
        sys.exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Starts a command for each line that it reads, in a child that has the modules loaded already."""


@dataclass
class Served:
    """A scripted server that extracts sentences, each after a moment.

    Attributes:
        runs: The texts that it was asked about, in order, by run.
        answers: How many questions it answers before it keeps the others waiting.
        released: Ends the waiting.
    """

    openai: ScriptedOpenAI
    runs: list[list[str]] = field(default_factory=lambda: [[]])
    answers: int = 10**9
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def asked(self) -> int:
        return sum(map(len, self.runs))

    def answer(self, request: Request) -> dict[str, Any]:
        text = json.loads(request.messages[1]["content"])["text"]
        self.runs[-1].append(text)
        if self.asked > self.answers:
            self.released.wait(timeout=60)
        time.sleep(0.05)
        return {"propositions": [{"text": p.text, "entities": p.entities} for p in split_sentences(text)]}

    def settings(self) -> list[str]:
        values = {
            "language.backend": "openai", "language.model": MODEL, "language.base_url": self.openai.base_url,
            "language.concurrency": AT_ONCE, "embedding.backend": "openai", "embedding.model": "hash-64",
            "embedding.base_url": self.openai.base_url,
        }  # fmt: skip
        return [part for key, value in values.items() for part in ("--set", f"{key}={value}")]

    def connect(self, **where: Any) -> Database:
        """Open the database at a URL or of a home with these models."""
        settings = Settings(
            language=LanguageSettings(
                backend="openai", model=MODEL, base_url=self.openai.base_url, concurrency=AT_ONCE
            ),
            embedding=EmbeddingSettings(backend="openai", model="hash-64", base_url=self.openai.base_url),
        )
        return connect(**where, settings=settings)


class Nursery:
    """Runs commands one at a time, quickly."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def begin(self, *arguments: str, output: str = os.devnull) -> int:
        """Start a command; gives its process id."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps({"arguments": arguments, "output": output}) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self) -> int:
        """Wait for the command; gives its exit code, negative for a signal."""
        assert self.process.stdout
        return int(self.process.stdout.readline())

    def close(self) -> None:
        self.process.communicate()


def wait_until(true: Callable[[], bool], *, within_s: float = 30.0) -> None:
    """Wait for something that other threads or processes do; give up when they hang."""
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, f"waited {within_s:g} s in vain"
        time.sleep(0.002)


def kill(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
