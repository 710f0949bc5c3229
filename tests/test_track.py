"""The figures that are kept of commits, and their picture."""

import json
import re
import warnings
from datetime import datetime

import pytest

from benchmarks import track

FILES = sorted(track.FOLDER.glob("*.json"))


def record(day, **figures):
    found = {kind: figures.get(kind, {}) for kind in track.KINDS}
    date = f"2024-01-{day:02}T12:00:00+00:00"
    return {"commit": f"{day:040x}", "date": date, "dirty": False, "figures": found}


def test_there_are_files_to_compare():
    assert len(FILES) >= 2
    assert len(track.records_in()) == len(FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_keep_to_the_schema(path):
    kept = json.loads(path.read_text(encoding="utf-8"))
    keys = {"commit", "date", "dirty", "measured", "versions", "machine", "figures"}
    assert kept.keys() == keys
    assert re.fullmatch("[0-9a-f]{40}", kept["commit"])
    assert datetime.fromisoformat(kept["date"]).tzinfo is not None
    assert kept["dirty"] is False
    assert kept["machine"].keys() == {"system", "architecture", "cores", "threads"}
    assert kept["versions"].keys() == {"python", *track.LIBRARIES}
    assert track.file_of(kept).name == path.name
    assert kept["figures"].keys() == track.KINDS.keys() == track.FIGURES.keys()
    for kind, figures in kept["figures"].items():
        assert figures
        assert figures.keys() <= track.FIGURES[kind].keys()
        assert all(0 < value <= (1 if kind == "accuracy" else 1e6) for value in figures.values())


def test_the_picture_has_every_figure_of_every_file(tmp_path):
    pytest.importorskip("matplotlib")
    for day, share in ((3, 0.7), (1, 0.5), (2, None)):
        one = record(day, accuracy={} if share is None else {"wine": share}, memory_mb={"fit": 9.0})
        track.file_of(one, tmp_path).write_text(json.dumps(one))
    records = track.records_in(tmp_path)
    assert [r["date"][8:10] for r in records] == ["01", "02", "03"]
    axes = track.plot(records, tmp_path / "all.svg").axes
    (line,) = axes[0].lines
    assert line.get_ydata()[[0, 2]].tolist() == [0.5, 0.7]
    assert line.get_ydata()[1] != line.get_ydata()[1]  # no figure, no point
    assert axes[2].lines[0].get_ydata().tolist() == [9.0] * 3
    assert len(axes[2].get_xticklabels()) == 3
    assert "2024-01-02" in (tmp_path / "all.svg").read_text()


def test_changes_that_belong_to_no_commit_are_refused_or_marked(monkeypatch):
    monkeypatch.setattr("sys.argv", ["track.py"])
    monkeypatch.setattr(track, "git", lambda *words: " M src/apportion/metrics.py")
    monkeypatch.setattr(track, "measured", lambda: pytest.fail("measured"))
    with pytest.raises(SystemExit, match=r"no commit(.|\n)*metrics\.py"):
        track.main()
    marked = {**record(1), "dirty": True}
    assert track.file_of(marked).name.endswith("-dirty.json")


def test_a_figure_that_the_code_cannot_give_is_left_out(monkeypatch, capsys):
    def old():
        raise TypeError("unexpected keyword")

    monkeypatch.setattr(track, "FIGURES", {"accuracy": {"new": old, "wine": lambda: 0.98765}})
    with warnings.catch_warnings():
        assert track.measured() == {"accuracy": {"wine": 0.9877}}
    assert "left out: unexpected keyword" in capsys.readouterr().out
