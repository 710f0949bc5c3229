"""A small folder of the form of the SPHERE Challenge, generated."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from apportion.datasets.sphere import (
    _DETECTORS,
    _RECEIVERS,
    _SIGHTS,
    ACTIVITIES,
    BASELINE_COLUMNS,
)

CAMERAS = ("hallway", "kitchen", "living_room")


def make_sphere_folder(
    root: Path,
    *,
    recordings: tuple[str, ...] = ("00001", "00002"),
    seconds: int = 120,
    columns: bool = True,
    video: bool = False,
    seed: int = 0,
) -> Path:
    """Write recordings in which walking shakes the wrist and nothing else does."""
    rng = np.random.default_rng(seed)
    for name in recordings:
        folder = root / "public_data" / "train" / name
        folder.mkdir(parents=True)
        shares = np.zeros((seconds, len(ACTIVITIES)))
        activity = rng.choice(["a_walk", "p_sit", "p_lie", "p_stand", "t_turn"], seconds // 10)
        activity[:2] = "a_walk", "p_sit"
        second = np.repeat([ACTIVITIES.index(one) for one in activity], 10)
        shares[np.arange(seconds), second] = 1.0
        shares[15, :] = 0.0
        shares[15, [ACTIVITIES.index("p_sit"), ACTIVITIES.index("a_walk")]] = 0.25, 0.75
        targets = [_line([k, k + 1, *shares[k]]) for k in range(seconds)]
        targets[3] = "3.0,4.0" + "," * len(ACTIVITIES)
        _table(folder / "targets.csv", ["start", "end", *ACTIVITIES], targets)

        time = np.arange(seconds * 20) / 20 + rng.uniform(0, 0.02, seconds * 20)
        shaking = np.where(np.repeat(second, 20) == ACTIVITIES.index("a_walk"), 0.5, 0.02)
        signal = np.array([0.0, 0.6, 0.8]) + shaking[:, None] * rng.normal(size=(len(time), 3))
        strength = np.where(rng.uniform(size=(len(time), 4)) < 0.3, np.nan, -80.0)
        strength += rng.integers(-9, 9, strength.shape)
        keep = (time < 50) | (time > 53.9)
        _table(
            folder / "acceleration.csv",
            ["t", *"xyz", *_RECEIVERS],
            [_line(row) for row in np.column_stack([time, signal, strength])[keep]],
        )
        start = rng.uniform(0, seconds - 5, 12)
        rooms = rng.choice(_DETECTORS, 12)
        _table(
            folder / "pir.csv",
            ["start", "end", "name", "index"],
            [f"{s:.3f},{s + 3:.3f},{room},0" for s, room in zip(start, rooms, strict=True)],
        )
        if video:
            for camera in CAMERAS:
                seen = np.arange(seconds * 5)[: 40 if camera == "kitchen" else 20] / 5
                place = np.full((len(seen), len(_SIGHTS)), float(CAMERAS.index(camera)))
                _table(
                    folder / f"video_{camera}.csv",
                    ["t", *_SIGHTS],
                    [_line(row) for row in np.column_stack([seen, place])],
                )
        if columns:
            table = np.abs(rng.normal(size=(seconds, len(BASELINE_COLUMNS))))
            table[rng.uniform(size=table.shape) < 0.5] = np.nan
            _table(folder / "columns.csv", BASELINE_COLUMNS, [_line(row) for row in table])
    return root


def _line(values) -> str:
    return ",".join("" if np.isnan(value) else repr(float(value)) for value in values)


def _table(path: Path, header, lines) -> None:
    path.write_text("\n".join([",".join(header), *lines]) + "\n")
