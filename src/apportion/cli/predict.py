"""`apportion predict`: labels for new rows from a saved model."""

# ruff: noqa: RUF009  (`option` and `argument` return fields)

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from apportion.cli.console import OPTIONS, print_notes, print_out, stages, with_exit_codes
from apportion.cli.options import REQUIRED, OutputOptions, argument, option, with_groups


@dataclass(kw_only=True)
class PredictOptions:
    """A model, and new rows."""

    model: Path = argument(REQUIRED, "A model saved by 'apportion label --model'.", "MODEL")
    readings: Path = argument(
        REQUIRED, "New rows: a CSV (also .csv.gz), Parquet, .xlsx or ARFF file.", "READINGS"
    )
    id: str | None = option(None, "Column of row ids.", metavar="COLUMN")
    encoding: str | None = option(
        None, "Encoding of a text file that is not UTF-8.", metavar="NAME"
    )


@with_exit_codes
@with_groups
def predict(new: PredictOptions, out: OutputOptions) -> None:
    """Label the new rows of READINGS by the fitted rows of MODEL.

    The fitted rows that resemble a new row make its label. New rows have no totals: every one takes
    its most likely class. A model that was saved with --labels-only knows its own rows again, by
    their ids, and no others.
    """
    from apportion._io.atomic_write import Outputs
    from apportion.cli.calls import check_files, check_output, write_labeled
    from apportion.labeling._summary import as_json
    from apportion.labeling.predict import predict_table

    check_output(out)
    check_files(out.output, inputs=[new.model, new.readings], force=out.force)
    with stages(out.quiet):
        labeled = predict_table(
            new.model,
            new.readings,
            id=new.id,
            abstain_below=out.abstain_below,
            all_columns=out.all_columns,
            encoding=new.encoding,
        )
    print_notes(labeled.notes, out.quiet)
    with Outputs(force=out.force) as outputs:
        written = write_labeled(labeled, out.output, outputs)
        if out.json:
            print_out(as_json(labeled.summary, OPTIONS))
    print_notes(written, out.quiet)
