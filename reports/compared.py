"""What a comparison of two runs says, as plain text for a terminal; not how it is found."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping

from oasis_bench.analysis.comparison import PRECISIONS, RESULTS, Line, RunComparison
from oasis_bench.reports.text import aligned, clip, p_text, plural, seconds_text
from oasis_bench.store.parts import parts_of
from oasis_bench.store.run_file import RunRecord
from oasis_bench.system.plain_text import printable

WIDTH, LABEL_WIDTH, REASON_WIDTH = 110, 24, 100
HEADER = [
    *("classes", "learner", "measure", "n", "OLD", "NEW"),
    *("change", "95 % interval", "p, Holm", "verdict"),
]
MEASURES = {"fit_seconds": "fit, s", "fit_cpu_seconds": "CPU, s", "fit_peak_bytes": "peak, MiB"}


def comparison_text(comparison: RunComparison, runs: Mapping[str, RunRecord]) -> str:
    """Write a comparison: what was compared, a line for each measure, notes and a sum.

    Parameters
    ----------
    comparison : RunComparison
    runs : dict of str to RunRecord
        The two runs, by the names that the text has for them.
    """
    text = [printable(told) for name, run in runs.items() for told in _origin(name, run)]
    if comparison.lines:
        rows = [HEADER, *(_cells(line) for line in comparison.lines)]
        text += ["", *aligned(rows, left=(1, 2, len(HEADER) - 1)), ""]
    notes = [*comparison.notes, *(_legend(comparison.tolerance) if comparison.lines else ())]
    for note in notes:
        text += textwrap.wrap(printable(note), WIDTH, subsequent_indent="  ")
    return "\n".join([*text, _sum(comparison)])


def _origin(name: str, run: RunRecord) -> Iterator[str]:
    """Say where and when a run, or each run that it was merged from, was made."""
    for part in parts_of(run, ""):
        where = part.info.get("provenance", {})
        yield ", ".join(
            [
                f"{name} ({part.name})" if part.name else name,
                plural(len(part.trial_ids), "trial"),
                f"started {part.info['started']}",
                f"commit {where.get('commit') or 'unknown'}",
                f"processor {where.get('processor') or 'unknown'}",
            ]
        )


def _cells(line: Line) -> list[str]:
    start = [line.subset, line.learner, MEASURES.get(line.measure, line.measure)]
    start = [clip(printable(text), LABEL_WIDTH) for text in start]
    if line.measure == RESULTS:
        values = [f"{line.old:.0f}", f"{line.new:.0f}", f"{line.change:+.0f}"]
        pattern = ""
    elif line.measure in PRECISIONS:
        values = [f"{line.old:.4f}", f"{line.new:.4f}", f"{line.change:+.4f}"]
        pattern = "[{:+.4f}, {:+.4f}]"
    else:
        old, new = (_cost(line.measure, end) for end in (line.old, line.new))
        values = [old, new, f"x{line.change:.2f}"]
        pattern = "[{:.2f}, {:.2f}]"
    interval = "" if math.isnan(line.low) else pattern.format(line.low, line.high)
    p_value = "" if math.isnan(line.p_value) else p_text(line.p_value)
    reason = f": {clip(printable(line.reason), REASON_WIDTH)}" if line.reason else ""
    return [*start, str(line.n), *values, interval, p_value, f"{line.verdict}{reason}"]


def _cost(measure: str, value: float) -> str:
    return f"{value / 2**20:,.1f}" if measure == "fit_peak_bytes" else seconds_text(value)


def _legend(tolerance: float) -> Iterator[str]:
    yield (
        "n partitions. Precision: means, NEW - OLD, interval corrected for partitions that share "
        "images (Nadeau & Bengio 2003)."
    )
    yield (
        "fit, CPU, peak: geometric means, NEW / OLD, paired t-interval of the logarithm; less than "
        f"1 ms or 1 MiB counts as that. A change of up to {100 * tolerance:g} %, 1 ms or 1 MiB is "
        "within tolerance. Seconds leave out fits that waited for a core."
    )
    yield (
        "Each interval is of its line alone. The verdict goes by p, Holm, corrected for the number "
        "of lines that have it, at level 0.05: where nothing changed, at most 1 comparison in 20 "
        "finds anything worse or better by chance."
    )


def _sum(comparison: RunComparison) -> str:
    count = comparison.count
    if not comparison.lines:
        return "nothing could be compared"
    lines = plural(len(comparison.lines), "line")
    of_all = f"{lines}, {count('better')} better, {count('not judged')} not judged"
    if not comparison.n_judged:
        return f"nothing could be judged: {of_all}: take at least 2 partitions"
    if count("worse"):
        return f"{count('worse')} worse beyond noise: of {of_all}"
    return f"nothing got worse beyond noise: {of_all}"
