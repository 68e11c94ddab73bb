"""Plots as SVG, readable without colour: lines differ in markers and dashes, bars in grey and hatching.

The same figures give the same bytes: no date, fixed names of the parts, text left to the reader's own font.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from evireform.evaluation.records import Difference, Plot, Series

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = "os^Dv<>P*X"
_DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
_GREYS = ("0.0", "0.35", "0.55")
_FILLS = ("0.25", "0.85", "0.55", "1.0")
_HATCHES = ("", "", "//", "\\\\", "xx", "--", "||", "++")
_WIDTH = 7.0
_STYLE: Any = {
    "text.parse_math": False,
    "svg.hashsalt": "evireform",
    "svg.fonttype": "none",
    "font.size": 9,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "hatch.linewidth": 0.6,
    "axes.formatter.useoffset": False,
}


def drawable() -> bool:
    """Whether the package that draws is installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return False
    return True


def draw(plot: Plot, *, image_format: str = "svg") -> bytes:
    """A plot as an image.

    Args:
        plot: Shares are drawn as percent.
        image_format: ``svg``, or ``png`` to look at.
    """
    with _figure(3.4) as (figure, axes):
        scale = 100.0 if plot.unit == "share" else 1.0
        if plot.kind == "bars":
            _bars(axes, plot.series, scale)
        else:
            _lines(axes, plot.series, scale)
            if plot.mark is not None:
                axes.axvline(plot.mark, color="0.7", linewidth=0.8, zorder=0)
        axes.set_xlabel(plot.x_label)
        axes.set_ylabel(_y_label(plot))
        _legend(figure, axes, len(plot.series))
        return _written(figure, image_format)


def draw_differences(differences: Sequence[Difference], *, image_format: str = "svg") -> bytes:
    """Paired differences with their intervals, one below the other; hollow where the interval holds zero.

    Args:
        differences: Of one measure, in the order in which they are drawn.
        image_format: ``svg``, or ``png`` to look at.
    """
    with _figure(1.0 + 0.28 * len(differences)) as (figure, axes):
        axes.axvline(0, color="0.6", linewidth=0.8, zorder=0)
        for row, item in enumerate(differences):
            low, middle, high = (100 * value for value in (item.low, item.difference, item.high))
            axes.errorbar(
                middle,
                row,
                xerr=[[max(0.0, middle - low)], [max(0.0, high - middle)]],
                fmt="o",
                color="black",
                markerfacecolor="black" if item.significant else "white",
                capsize=3,
                linewidth=1,
            )
        axes.set_yticks(range(len(differences)), [f"{d.method} − {d.against}" for d in differences])
        axes.set_ylim(len(differences) - 0.5, -0.5)
        axes.set_xlabel(f"difference of {measure_name(differences[0].measure)} in points, with 95 % interval")
        return _written(figure, image_format)


def alt_text(plot: Plot) -> str:
    """What a plot shows, in words: the ends of every line, or every bar of few."""
    scale = 100.0 if plot.unit == "share" else 1.0
    shape = "Lines" if plot.kind == "lines" else "Bars"
    parts = []
    for series in plot.series:
        points = [f"{_x(x)}: {scale * y:.4g}" for x, y in zip(series.x, series.y, strict=True)]
        if plot.kind == "lines" and len(points) > 2:
            points = [points[0], "…", points[-1]]
        parts.append(f"{measure_name(series.label)} ({', '.join(points)})")
    return f"{shape} of {_y_label(plot)} over {plot.x_label}. {'; '.join(parts)}."


def alt_text_of_differences(differences: Sequence[Difference]) -> str:
    """What a plot of paired differences shows, in words."""
    parts = [
        f"{d.method} against {d.against}: {100 * d.difference:+.2f} [{100 * d.low:.2f}, {100 * d.high:.2f}]"
        for d in differences
    ]
    name = measure_name(differences[0].measure)
    return f"Differences of {name} in points with their intervals. {'; '.join(parts)}."


def measure_name(measure: str) -> str:
    """A measure as tables and plots head it.

    >>> measure_name("recall@5"), measure_name("chain@10"), measure_name("em")
    ('R@5', 'Chain@10', 'EM')
    """
    short = {"recall": "R", "chain": "Chain", "hit": "Hit", "f1": "F1", "em": "EM"}
    name, at, k = measure.partition("@")
    return f"{short.get(name, name)}{at}{k}"


def _x(value: float | str) -> str:
    return measure_name(value) if isinstance(value, str) else f"{value:g}"


def _y_label(plot: Plot) -> str:
    return f"{plot.y_label}, %" if plot.unit == "share" else plot.y_label


@contextmanager
def _figure(height: float) -> Iterator[tuple[Figure, Axes]]:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        yield figure, figure.add_subplot()


def _written(figure: Figure, image_format: str) -> bytes:
    stream = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if image_format == "svg" else {"Software": None}
    figure.savefig(stream, format=image_format, metadata=metadata, dpi=150)
    return stream.getvalue()


def _lines(axes: Axes, many: Sequence[Series], scale: float) -> None:
    # Several lines that share names instead of numbers on the x axis must agree on their places.
    names = list(dict.fromkeys(_x(x) for series in many for x in series.x if isinstance(x, str)))
    for number, series in enumerate(many):
        x = [names.index(_x(value)) if isinstance(value, str) else value for value in series.x]
        y = [scale * value for value in series.y]
        axes.errorbar(
            x,
            y,
            yerr=_errors(series, scale),
            marker=_MARKERS[number % len(_MARKERS)],
            linestyle=_DASHES[number % len(_DASHES)],
            color=_GREYS[number % len(_GREYS)],
            markerfacecolor="white" if number % 2 else _GREYS[number % len(_GREYS)],
            markersize=5,
            linewidth=1.2,
            capsize=2,
            label=measure_name(series.label),
        )
    if names:
        axes.set_xticks(range(len(names)), names)
    elif len(ticks := sorted({x for series in many for x in series.x})) <= 8:
        axes.set_xticks(ticks, [_x(tick) for tick in ticks])
    axes.grid(axis="y", color="0.9", linewidth=0.6)


def _bars(axes: Axes, many: Sequence[Series], scale: float) -> None:
    names = list(dict.fromkeys(_x(value) for series in many for value in series.x))
    width = 0.8 / len(many)
    for number, series in enumerate(many):
        places = [names.index(_x(value)) + (number - (len(many) - 1) / 2) * width for value in series.x]
        bars = axes.bar(
            places,
            [scale * value for value in series.y],
            width,
            yerr=_errors(series, scale),
            capsize=2,
            color=_FILLS[number % len(_FILLS)],
            hatch=_HATCHES[number % len(_HATCHES)],
            edgecolor="black",
            linewidth=0.6,
            label=measure_name(series.label),
        )
        if len(names) * len(many) <= 16:
            axes.bar_label(bars, fmt="%.3g", fontsize=6.5, padding=1)
    long = max(map(len, names), default=0) > 14 or len(names) > 8
    if long:
        axes.set_xticks(range(len(names)), names, rotation=20, ha="right", rotation_mode="anchor")
    else:
        axes.set_xticks(range(len(names)), names)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))


def _errors(series: Series, scale: float) -> list[list[float]] | None:
    if not series.low:
        return None
    below = [scale * max(0.0, y - low) for y, low in zip(series.y, series.low, strict=True)]
    above = [scale * max(0.0, high - y) for y, high in zip(series.y, series.high, strict=True)]
    return [below, above]


def _legend(figure: Figure, axes: Axes, count: int) -> None:
    if count > 1:
        figure.legend(
            *axes.get_legend_handles_labels(),
            loc="outside upper left",
            ncols=min(count, math.ceil(count / math.ceil(count / 4))),
            fontsize=8,
        )
