"""The command line: `apportion reproduce`, `apportion version`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

try:
    import typer
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
except ModuleNotFoundError as error:  # pragma: no cover
    sys.exit(f"The command line needs {error.name}: install apportion[cli].")

import apportion

app = typer.Typer(
    help="Learning with label proportions: a label for every row when only totals are known.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
talk = Console(stderr=True, highlight=False)


@app.callback()
def _several_commands() -> None:
    """Learning with label proportions: a label for every row when only totals are known."""


@app.command()
def version() -> None:
    """Print the version."""
    print(apportion.__version__)


@app.command()
def reproduce(
    quick: Annotated[
        bool, typer.Option("--quick", help="The smallest cells, few repetitions: about a minute.")
    ] = False,
    sphere: Annotated[
        Path | None,
        typer.Option(
            envvar="APPORTION_SPHERE",
            help="The folder of the SPHERE Challenge data, for Tables 3 and 4.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where results, tables and figures are kept.")] = Path(
        "reproduction"
    ),
    section: Annotated[
        list[str] | None, typer.Option(help="Only this section; may be given several times.")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Only this method; may be given several times.")
    ] = None,
    protocol: Annotated[
        list[str] | None, typer.Option(help="Only 'test bag' or only 'all rows'.")
    ] = None,
    repetitions: Annotated[int, typer.Option(min=1, help="Repetitions of every cell.")] = 25,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Trials side by side. [default: one a processor]")
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

    Results are kept trial by trial in OUT/results. An interrupted run goes on with the same
    command. Tables go to stdout and to OUT/tables.{txt,md,tex,csv}, figures to OUT/figures.
    """
    from apportion.experiments import METHODS, PROTOCOLS, SECTIONS, ResultStore, summarise
    from apportion.experiments import reproduce as paper

    _require("section", section, SECTIONS)
    _require("method", method, METHODS)
    _require("protocol", protocol, PROTOCOLS)
    _require("format", [form], ("text", "markdown", "latex", "csv"))
    wanted = [SECTIONS[key] for key in section or SECTIONS]
    ready = [one for one in wanted if sphere is not None or not one.needs_sphere]
    for left_out in [one for one in wanted if one not in ready]:
        talk.print(f"left out: {left_out.title}, which needs --sphere FOLDER")
    if len(ready) < len(wanted):
        talk.print(paper.WHERE_SPHERE_IS)
    if sphere is not None and any(one.needs_sphere for one in ready):
        paper.find_recordings(sphere)
    keys = method or list(METHODS)
    trials = (
        [trial for trial in paper.quick_plan(ready) if trial.method in keys]
        if quick
        else paper.plan(ready, keys, repetitions, protocol or PROTOCOLS)
    )
    store = ResultStore(out / "results")
    if not tables_only:
        _run(trials, paper.Poser(sphere, SECTIONS), store, jobs, retry_failed)
    rows = store.rows()
    tables, figures = paper.tables_of(rows), summarise(rows)
    paper.write_tables(tables, figures, out)
    drawn = paper.draw_figures(figures, out / "figures")
    print(paper.page(tables, figures, form, bold=sys.stdout.isatty()))
    talk.print(f"written: {out}/tables.txt, .md, .tex, .csv and {len(drawn)} figures")
    failed = [row for row in rows if row["status"] == "failed"]
    for row in failed[:5]:
        talk.print(
            f"failed: {row['section']} {row['n_rows']}{row['design']}, {row['protocol']}, "
            f"{row['method']}, repetition {row['repetition']}: {row['message']}"
        )
    if failed:
        talk.print(f"{len(failed)} trials failed; --retry-failed runs them once more.")
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
    from apportion.experiments.run import forecast, n_processes, nominal_seconds, remaining, run
    from apportion.experiments.trials import trial_of

    waiting = remaining(trials, store, retry_failed=retry_failed)
    done = len(set(trials)) - len(waiting)
    if not waiting:
        talk.print(f"all {done} trials have a result already")
        return
    seconds = forecast(waiting, n_processes(jobs))
    talk.print(
        f"{len(waiting)} trials to run, {done} have a result already; about {_span(seconds)} "
        f"with {n_processes(jobs)} side by side. Ctrl-C loses nothing: the same command goes on."
    )
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]} of {task.fields[of]}"),
        TimeRemainingColumn(compact=True),
        console=talk,
    )
    with bar:
        task = bar.add_task("trials", total=seconds, count=0, of=len(waiting))
        weight = seconds / sum(map(nominal_seconds, waiting))
        rows = run(waiting, pose, store, n_jobs=jobs, retry_failed=retry_failed)
        try:
            for count, row in enumerate(rows, start=1):
                bar.update(task, advance=weight * nominal_seconds(trial_of(row)), count=count)
        except KeyboardInterrupt:
            talk.print("interrupted: finished trials are kept; the same command goes on.")
            raise typer.Exit(130) from None


def _span(seconds: float) -> str:
    """Return a span of time in words."""
    if seconds < 90:
        return f"{max(round(seconds), 1)} seconds"
    if seconds < 5400:
        return f"{round(seconds / 60)} minutes"
    return f"{seconds / 3600:.1f} hours"


def main() -> None:
    """Run the command line; errors that a user can mend are one line on stderr."""
    try:
        app()
    except (FileNotFoundError, ModuleNotFoundError, ValueError, OSError) as error:
        sys.exit(f"apportion: {error}")
