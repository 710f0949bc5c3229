"""`python -m experiments`: the paper's tables and figures."""

from __future__ import annotations

import inspect
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from apportion.__main__ import run as run_command
from apportion._io.atomic_write import Outputs
from apportion._utils.signals import Stopped
from apportion.cli.console import console, print_out, with_exit_codes


@with_exit_codes
def reproduce(
    quick: Annotated[
        bool, typer.Option("--quick", help="The smallest cells, few repetitions: about a minute.")
    ] = False,
    sphere: Annotated[
        Path | None,
        typer.Option(
            envvar="APPORTION_SPHERE",
            help="The folder of the SPHERE Challenge data, for Tables 3 and 4.",
            readable=False,
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Where results, tables and figures are kept.", readable=False)
    ] = Path("reproduction"),
    section: Annotated[
        list[str] | None, typer.Option(help="Only this section; may be given several times.")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Only this method; may be given several times.")
    ] = None,
    protocol: Annotated[
        list[str] | None, typer.Option(help="Only 'test bag' or only 'all rows'.")
    ] = None,
    repetitions: Annotated[
        int | None, typer.Option(min=1, help="Repetitions of every cell. 25 if not given.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Trials side by side. One per processor if not given.")
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run trials that failed once more.")
    ] = False,
    tables_only: Annotated[
        bool, typer.Option("--tables-only", help="Run nothing; write what the results give.")
    ] = False,
    form: Annotated[
        str, typer.Option("--format", help="What is printed: text, markdown, latex or csv.")
    ] = "text",
) -> None:
    """Regenerate the paper's tables and figures, with the printed figures beside ours.

    Results are kept trial by trial in OUT/results. The same command continues an
    interrupted run. Tables go to stdout and to OUT/tables.{txt,md,tex,csv}, figures to OUT/figures.
    """
    from experiments import METHODS, PROTOCOLS, SECTIONS, ResultStore, current, summarize
    from experiments import reproduce as paper

    paper.require_extras()
    _require("section", section, SECTIONS)
    _require("method", method, METHODS)
    _require("protocol", protocol, PROTOCOLS)
    _require("format", [form], ("text", "markdown", "latex", "csv"))
    if quick and repetitions is not None:
        raise typer.BadParameter("--quick has its own number: leave out --repetitions.")
    wanted = [SECTIONS[key] for key in dict.fromkeys(section or SECTIONS)]
    methods = {key: METHODS[key] for key in METHODS if not method or key in method}
    protocols = protocol or PROTOCOLS
    store = ResultStore(out / "results")
    if not tables_only:
        ready = _ready(wanted, sphere, named=section is not None)
        trials = (
            paper.quick_plan(ready, list(methods), protocols)
            if quick
            else paper.plan(ready, list(methods), repetitions or 25, protocols)
        )
        if not trials:
            raise typer.BadParameter("These sections, methods and protocols have no trial.")
        _run(trials, paper.ProblemSource(sphere, SECTIONS), store, jobs, retry_failed)
    kept = store.rows()
    now = current(kept)
    if len(now) < len(kept):
        console.print(f"{len(kept) - len(now)} results of other code or data are kept, not counted")
    shown = {section.key: section for section in wanted}
    rows = [
        row
        for row in now
        if row["section"] in shown and row["method"] in methods and row["protocol"] in protocols
    ]
    if not rows:
        raise typer.BadParameter(f"{out} has no such result of the present code.")
    scores = summarize(rows)
    tables = paper.tables_of(rows, sections=shown)
    with Outputs(force=True) as outputs:
        paper.write_tables(tables, scores, out, outputs)
        drawn = paper.draw_figures(scores, out / "figures", outputs, sections=shown)
        bold = sys.stdout is not None and sys.stdout.isatty()
        print_out(paper.page(tables, scores, form, bold=bold))
    console.print(f"written: {out}/tables.txt, .md, .tex, .csv and {len(drawn)} figures")
    _report_failures(rows)


def _ready(wanted: list[Any], sphere: Path | None, named: bool) -> list[Any]:
    """Return the sections that can run; the others are named, or refused if they were asked for."""
    from apportion.datasets.sphere import WHERE_SPHERE_IS, find_recordings

    left_out = [section for section in wanted if section.needs_sphere]
    if sphere is not None:
        if left_out:
            find_recordings(sphere)
        return wanted
    if left_out and named:
        raise typer.BadParameter(f"{left_out[0].title} needs --sphere FOLDER. {WHERE_SPHERE_IS}")
    for section in left_out:
        console.print(f"left out: {section.title}, which needs --sphere FOLDER")
    if left_out:
        console.print(WHERE_SPHERE_IS)
    return [section for section in wanted if not section.needs_sphere]


def _report_failures(rows: list[Any]) -> None:
    """Name the first trials that failed, and end with exit code 1 if there are any."""
    from experiments.trials import trial_of

    failed = [row for row in rows if row["status"] == "failed"]
    for row in failed[:5]:
        trial = trial_of(row)
        console.print(
            f"failed: {trial.section} {trial.cell}, {trial.protocol}, {trial.method}, "
            f"repetition {trial.repetition}: {row['message']}"
        )
    if failed:
        console.print(f"{len(failed)} trials failed; --retry-failed runs them once more.")
        raise typer.Exit(1)


def _require(name: str, given: list[str] | None, allowed: Any) -> None:
    """Refuse an option's value that does not exist, and say which do."""
    for value in given or []:
        if value not in allowed:
            raise typer.BadParameter(
                f"{value!r} does not exist. Allowed: {', '.join(allowed)}.", param_hint=f"--{name}"
            )


def _run(trials: Any, pose: Any, store: Any, jobs: int | None, retry_failed: bool) -> None:
    """Run what is not done yet, with a forecast before and a bar with the time left meanwhile."""
    from experiments.runner import forecast, n_processes, nominal_seconds, remaining, run
    from experiments.trials import trial_of

    waiting = remaining(trials, pose, store, retry_failed=retry_failed)
    done = len(set(trials)) - len(waiting)
    if not waiting:
        console.print(f"all {done} trials have a result already")
        return
    seconds = forecast(waiting, n_processes(jobs))
    console.print(
        f"{len(waiting)} trials to run, {done} have a result already; about {_span(seconds)} "
        f"with {n_processes(jobs)} side by side. Ctrl-C loses nothing: the same command continues."
    )
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]} of {task.fields[of]}"),
        TimeRemainingColumn(compact=True),
        console=console,
    )
    with bar:
        task = bar.add_task("trials", total=seconds, count=0, of=len(waiting))
        weight = seconds / sum(map(nominal_seconds, waiting))
        rows = run(waiting, pose, store, n_jobs=jobs, retry_failed=retry_failed)
        try:
            for count, row in enumerate(rows, start=1):
                bar.update(task, advance=weight * nominal_seconds(trial_of(row)), count=count)
            bar.update(task, completed=seconds)
        except (KeyboardInterrupt, Stopped):
            console.print("finished trials are kept; the same command continues.")
            raise


def _span(seconds: float) -> str:
    """Return a span of time in words."""
    if seconds < 90:
        return f"{max(round(seconds), 2)} seconds"
    if seconds < 5400:
        return f"{round(seconds / 60)} minutes"
    return f"{seconds / 3600:.1f} hours"


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command(help=inspect.getdoc(reproduce))(reproduce)


def main() -> None:
    """Run the command line."""
    run_command(lambda: partial(app, prog_name="python -m experiments"))


if __name__ == "__main__":
    main()
