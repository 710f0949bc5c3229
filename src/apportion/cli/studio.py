"""`apportion studio`: a page on this machine to label a table, and to correct its labels."""

# ruff: noqa: RUF009  (`option` and `argument` return fields)

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from apportion.cli.console import print_out, with_exit_codes
from apportion.cli.options import argument, option, with_groups


@dataclass(kw_only=True)
class StudioOptions:
    """Where the studio keeps everything, and how it is reached."""

    folder: Path = argument(
        Path("apportion-studio"),
        "Where everything is kept: files, corrections, labels. It is new, empty, or made by the "
        "studio; what was done there is there again.",
        "FOLDER",
    )
    readings: Path | None = option(None, "Windows to copy into the folder first.", metavar="FILE")
    diary: Path | None = option(None, "Diary to copy into the folder first.", metavar="FILE")
    proportions: Path | None = option(
        None, "Table of the bags' totals to copy into the folder first.", metavar="FILE"
    )
    port: int = option(0, "Port of this machine; 0 = one that is free.", low=0, high=65535)
    no_browser: bool = option(False, "Do not open the page; its address is printed.")
    quiet: bool = option(False, "Print the address and nothing else.", "--quiet", "-q")


@with_exit_codes
@with_groups
def studio(options: StudioOptions) -> None:
    """Label rows on a page, correct labels there, and label again.

    The page is served on this machine only, at an address with a random token, until Ctrl-C. It
    runs what `apportion label` runs, and leaves labels.csv, report.html and settings.json in
    FOLDER. Needs the extra `studio` of apportion.
    """
    from apportion._io.file_kinds import require_file
    from apportion.cli.console import console

    try:
        from apportion.studio import serve
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"The studio needs {error.name}: install apportion[studio]."
        ) from None
    roles = ("readings", "diary", "proportions")
    inputs = {role: path for role in roles if (path := getattr(options, role)) is not None}
    for path in inputs.values():
        require_file(path)

    def announce(address: str) -> None:
        print_out(address)
        if not options.quiet:
            console.print(f"The studio keeps everything in {options.folder}. Ctrl-C stops it.")

    serve(
        options.folder,
        port=options.port,
        open_browser=not options.no_browser,
        announce=announce,
        inputs=inputs,
    )
