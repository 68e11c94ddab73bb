"""One run of a command: the options that all commands share, where output goes, and how errors end it."""

from __future__ import annotations

import functools
import inspect
import json
import os
import shlex
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec

import typer

from evireform.cli.config import Configuration, find_file, load_settings, unknown_variables
from evireform.errors import EmbeddedServerError, EvireformError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from evireform.database import Database

INTERRUPTED = 130
BROKEN_PIPE = 1

_REPORT = (
    "This is a fault of evireform. Please report it with the command and what --debug prints "
    "(look through it for secrets first)."
)


class Session:
    """What a command is handed: its configuration, and the three places where it speaks.

    Data goes to standard output (`show`), notes and progress to standard error.
    """

    def __init__(self, *, flags: Mapping[str, str], config: Path | None, as_json: bool, debug: bool) -> None:
        self.flags = dict(flags)
        self.as_json = as_json
        self.debug = debug
        self._config = config

    def with_flags(self, flags: Mapping[str, str]) -> Session:
        """A session that speaks in the same places, with more settings."""
        return Session(
            flags={**self.flags, **flags}, config=self._config, as_json=self.as_json, debug=self.debug
        )

    @functools.cached_property
    def configuration(self) -> Configuration:
        """The settings of this run."""
        if unknown := unknown_variables(os.environ):
            self.note(f"there is no setting for {', '.join(unknown)}: docs/configuration.md lists them")
        return load_settings(self.flags, os.environ, find_file(Path.cwd(), self._config))

    @functools.cached_property
    def out(self) -> Console:
        """Standard output; wide where it is no terminal, so that tables in files are whole."""
        from rich.console import Console

        fixed = sys.stdout.isatty() or "COLUMNS" in os.environ
        return Console(file=sys.stdout, width=None if fixed else 120, highlight=False, emoji=False)

    @functools.cached_property
    def err(self) -> Console:
        """Standard error."""
        from rich.console import Console

        return Console(file=sys.stderr, highlight=False, emoji=False)

    def connect(self, *, standby: bool = True) -> Database:
        """Open the database; without its standby for a command that reads what it wrote."""
        url, home, settings = self.configuration.url, self.configuration.home, self.configuration.settings
        read_url = self.configuration.read_url if standby else ""
        with self.waiting("opening the database"):
            from evireform.database import connect

            return connect(url, read_url=read_url, home=home, settings=settings)

    def show(self, document: Mapping[str, Any], *renderables: RenderableType) -> None:
        """The result: as one JSON document, or drawn."""
        with writing():
            if self.as_json:
                write_json(document)
            else:
                for renderable in renderables:
                    self.out.print(renderable)

    def note(self, text: str) -> None:
        """Something worth knowing that is not data."""
        from rich.text import Text

        from evireform.cli.render import safe

        self.err.print(Text.assemble(("note: ", "dim"), safe(text)), soft_wrap=True)

    def note_language(self) -> None:
        """Say that the rules backend works where nobody chose it."""
        if self.configuration.rules_by_default:
            self.note("the language backend is `rules`, for no model is set (language.model)")

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Show on a terminal that something takes its time."""
        if not self.err.is_terminal:
            yield
            return
        with self.err.status(text):
            yield

    @contextmanager
    def progress(self, text: str, total: int | None = None) -> Iterator[Callable[[str, int, int], None]]:
        """A progress bar on a terminal, nothing elsewhere; told of stage, step and total (0: unknown)."""
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
        )

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.err, disable=not self.err.is_terminal) as bars:
            tasks = {text: bars.add_task(text, total=total)}

            def advance(stage: str, done: int, of: int) -> None:
                if stage not in tasks:
                    tasks[stage] = bars.add_task(stage, total=of or None)
                bars.update(tasks[stage], advance=done)
                if of:
                    bars.update(tasks[stage], total=of)

            yield advance


def program() -> str:
    """How this command line was started, for commands that are to be typed again."""
    started = Path(sys.argv[0])
    if started.name != "evireform":  # python -m evireform, or a program that calls it
        return f"{shlex.quote(sys.executable)} -m evireform"
    found = shutil.which(started.name)
    on_the_path = found is not None and Path(found).resolve() == started.resolve()
    return started.name if on_the_path else shlex.quote(str(started))


class _Unwritable(OSError):
    """Standard output cannot be written, for the disk is full or such."""


@contextmanager
def writing() -> Iterator[None]:
    """Where standard output is written: what goes wrong there is told from what goes wrong elsewhere."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as exc:
        raise _Unwritable(exc.errno, exc.strerror, "standard output") from exc


def write_json(document: Mapping[str, Any]) -> None:
    """One JSON document on standard output."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    text = json.dumps(document, indent=2, ensure_ascii=encoding != "utf8", default=str)
    sys.stdout.write(text + "\n")


def _open_session(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
    database_url: Annotated[
        str | None,
        typer.Option(
            help="postgresql://user@host/database, with pgvector; without one the embedded server.",
            show_default=False,
            rich_help_panel="Settings",
        ),
    ] = None,
    read_url: Annotated[
        str | None,
        typer.Option(
            help="A hot standby of that server, to answer searches.",
            show_default=False,
            rich_help_panel="Settings",
        ),
    ] = None,
    home: Annotated[
        str | None,
        typer.Option(help="Folder of the embedded server.", show_default=False, rich_help_panel="Settings"),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(help="Schema of the tables.", show_default=False, rich_help_panel="Settings"),
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option(
            help="Whose corpora are meant; else the only tenant of the role.",
            show_default=False,
            rich_help_panel="Settings",
        ),
    ] = None,
    as_role: Annotated[
        str | None,
        typer.Option(
            help="Database role to work as, which the login role may take.",
            show_default=False,
            rich_help_panel="Settings",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Settings file; else the nearest evireform.toml.",
            show_default=False,
            rich_help_panel="Settings",
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any setting, such as search.alpha=0.4 or language.model=NAME; may be repeated.",
            show_default=False,
            rich_help_panel="Settings",
        ),
    ] = None,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where an error came from.", rich_help_panel="Settings")
    ] = False,
) -> Session:
    flags = {
        "database_url": database_url,
        "read_url": read_url,
        "home": home,
        "schema": schema,
        "tenant": tenant,
        "role": as_role,
    }
    session = Session(
        flags={key: value for key, value in flags.items() if value is not None},
        config=config,
        as_json=as_json,
        debug=debug,
    )
    for assignment in assignments or ():
        key, equals, value = assignment.partition("=")
        key = key.strip()
        if not equals:
            raise typer.BadParameter(f"{assignment!r} is not KEY=VALUE", param_hint="--set")
        if flags.get(key) is not None:
            raise typer.BadParameter(f"{key} is given by its own option already", param_hint="--set")
        session.flags[key] = value
    return session


Given = ParamSpec("Given")


def takes_session(
    *, without: tuple[str, ...] = ()
) -> Callable[[Callable[Concatenate[Session, Given], None]], Callable[..., None]]:
    """Give a command the shared options, and hand it the `Session` made from them as its first argument.

    Args:
        without: Shared options that the command does not take.
    """

    def decorate(command: Callable[Concatenate[Session, Given], None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
        shared = [
            parameter
            for parameter in inspect.signature(_open_session, eval_str=True).parameters.values()
            if parameter.name not in without
        ]

        def run(**given: Any) -> None:
            session = _open_session(**{p.name: given.pop(p.name) for p in shared})
            with _ending_well(session):
                command(session, **given)  # type: ignore[call-arg]

        everything = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own, *shared)]
        run.__name__ = command.__name__
        run.__doc__ = command.__doc__
        run.__module__ = command.__module__
        run.__annotations__ = {p.name: p.annotation for p in everything}
        run.__signature__ = inspect.Signature(everything)  # type: ignore[attr-defined]
        return run

    return decorate


@contextmanager
def _ending_well(session: Session) -> Iterator[None]:
    """Turn what a command raises into a message and an exit code."""
    try:
        yield
        with writing():
            sys.stdout.flush()
    except KeyboardInterrupt:
        _say(session, "interrupted; what was written stays", style="yellow", label="")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        close_stdout()
        raise typer.Exit(BROKEN_PIPE) from None
    except EvireformError as exc:
        _report(session, exc)
        raise typer.Exit(exc.exit_code) from exc
    except typer.Exit:
        sys.stdout.flush()
        raise
    except Exception as exc:
        _report(session, exc)
        raise typer.Exit(1) from exc
    finally:
        try:
            sys.stdout.flush()
        except OSError:  # a full disk: said already, and the interpreter would trip over it again
            close_stdout()


def close_stdout() -> None:
    """Let what is still in the buffer go nowhere: nobody reads it any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(session: Session, exc: Exception) -> None:
    log = exc.log if isinstance(exc, EmbeddedServerError) else ""
    expected = True
    if isinstance(exc, EvireformError):
        message = str(exc)
    elif isinstance(exc, OSError) and exc.strerror:
        message = f"{exc.filename}: {exc.strerror}" if exc.filename else exc.strerror
    else:
        message, expected = _unexpected(exc), False
    _say(session, message, style="bold red", label="error: ")
    if not expected:
        _say(session, _REPORT, style="", label="")
    if session.debug:
        _say(session, "".join(traceback.format_exception(exc)) + log, style="", label="")
    elif log:
        _say(session, "--debug shows the end of the server's log", style="", label="")
    if session.as_json and not isinstance(exc, _Unwritable):
        write_json({"error": {"type": type(exc).__name__, "message": message, **_facts(exc, session.debug)}})


def _unexpected(exc: Exception) -> str:
    """Kind and place, but not the message, which may quote anything."""
    frames = traceback.extract_tb(exc.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"unexpected {type(exc).__name__}{place}"


def _facts(exc: Exception, debug: bool) -> dict[str, Any]:
    """What an error of ours knows beyond its message; the server's log only when asked for."""
    if not isinstance(exc, EvireformError):
        return {}
    return {name: value for name, value in vars(exc).items() if value and (debug or name != "log")}


def _say(session: Session, message: str, *, style: str, label: str) -> None:
    from rich.text import Text

    from evireform.cli.render import safe

    lines = [Text(line[: len(line) - len(line.lstrip())]).append(safe(line)) for line in message.splitlines()]
    text = Text("\n").join(lines)
    session.err.print(Text.assemble((label, style), text), soft_wrap=True)
