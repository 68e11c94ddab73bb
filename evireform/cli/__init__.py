"""The command line. Heavy modules are imported inside the commands, so that ``--help`` answers at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from evireform.cli import commands, entity, generation, space, tenant
from evireform.cli.answer import answer
from evireform.cli.compare import compare
from evireform.cli.cost import cost
from evireform.cli.demo import demo
from evireform.cli.doctor import doctor
from evireform.cli.evaluate import evaluate
from evireform.cli.exporting import export, import_
from evireform.cli.index import index
from evireform.cli.psql import psql
from evireform.cli.retry import retry
from evireform.cli.session import BROKEN_PIPE, INTERRUPTED, close_stdout, write_json
from evireform.cli.verify import verify
from evireform.cli.worker import worker
from evireform.version import __version__


class _Helpful:
    """A command whose help shows a switch by its name alone: it takes no value that could have a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class _Command(_Helpful, TyperCommand):
    pass


class _Group(_Helpful, TyperGroup):
    pass


@contextmanager
def _said_in_json(wanted: bool) -> Iterator[None]:
    """Write what is wrong with the arguments as JSON too; the parser says it on standard error, and exits."""
    try:
        yield
    except Exception as exc:
        message = getattr(exc, "format_message", None)  # the errors of the parser; typer has no name for them
        if wanted and message is not None:
            write_json({"error": {"type": type(exc).__name__, "message": message()}})
        raise


class _Root(_Group):
    """The command that all others are below: what is wrong with their arguments comes up through it."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **options: Any) -> Any:
        as_json = "--json" in args
        with _said_in_json(as_json):
            context = super().make_context(info_name, args, *more, **options)
        context.meta[__name__] = as_json
        return context

    def invoke(self, ctx: Any) -> Any:
        with _said_in_json(ctx.meta[__name__]):
            return super().invoke(ctx)


app = typer.Typer(
    cls=_Root,
    name="evireform",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Multi-hop passage retrieval in PostgreSQL. Begin with `evireform demo`.",
)
for command in (
    commands.init,
    commands.ingest,
    worker,
    retry,
    commands.search,
    answer,
    commands.delete,
    commands.status,
    evaluate,
    compare,
    cost,
    doctor,
    index,
    verify,
    demo,
):
    app.command(cls=_Command)(command)
app.command(cls=_Command)(export)
app.command(name="import", cls=_Command)(import_)
app.command(cls=_Command, context_settings={"ignore_unknown_options": True})(psql)

of_entities = typer.Typer(cls=_Group, no_args_is_help=True, help="See, merge and split entities.")
for command in (entity.show, entity.merge, entity.split, entity.log, entity.suggest):
    of_entities.command(cls=_Command)(command)
app.add_typer(of_entities, name="entity")

of_generations = typer.Typer(
    cls=_Group, no_args_is_help=True, help="Extract a corpus anew beside the old one, compare, and switch."
)
for command in (generation.start, generation.status, generation.compare, generation.switch, generation.drop):
    of_generations.command(cls=_Command)(command)
app.add_typer(of_generations, name="generation")

of_spaces = typer.Typer(
    cls=_Group, no_args_is_help=True, help="Embed a corpus with another model beside the old one, and switch."
)
for command in (space.show, space.build, space.switch, space.drop):
    of_spaces.command(cls=_Command)(command)
app.add_typer(of_spaces, name="space")

of_tenants = typer.Typer(
    cls=_Group, no_args_is_help=True, help="Share a database among tenants that do not see each other."
)
for command in (tenant.create, tenant.grant, tenant.revoke, tenant.share, tenant.delete):
    of_tenants.command(cls=_Command)(command)
of_tenants.command("list", cls=_Command)(tenant.list_)
app.add_typer(of_tenants, name="tenant")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line, and end the process with its exit code."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        # Whatever is opened next would get its number, and the results.
        sys.exit("error: standard output is closed: there is nowhere to write the result to")
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        app(prog_name="evireform")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        close_stdout()
        sys.exit(BROKEN_PIPE)
