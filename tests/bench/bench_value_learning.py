"""What a run of value learning costs in a batch and by itself, in one process; the authors report 15 to 20 s a run."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from learning_dynamics import runs
from learning_dynamics.experiments.value_learning import grid, models, problems, training
from timing import Row, one_thread, show

SEEDS, OFFSETS = 10, (0.0, 0.25, 0.5, 0.75, 1.0)
CELLS = (
    ("chain", "explicit", grid.BEST_EXPLICIT["chain"]),
    ("chain", "implicit", grid.BEST_IMPLICIT["chain"][2]),
    ("four_rooms", "explicit", grid.BEST_EXPLICIT["four_rooms"]),
    ("four_rooms", "implicit", grid.BEST_IMPLICIT["four_rooms"][2]),
)


def seconds_a_run(domain: str, kind: str, eta: float) -> tuple[float, float]:
    """Return the CPU time of one of the 50 runs of a batch, and of a run by itself, after checking that they agree."""
    run, seeds = runs.Run("parameterization/value_learning"), list(range(SEEDS))
    data = problems.problem(domain, run, seeds)
    start, drawn = (
        models.latent_start(run, seeds, data.weights),
        training.batches(run, seeds, data.states.shape[1]),
    )
    cells = grid.combinations([eta], [0.95], OFFSETS)
    begun = time.process_time()
    together = grid.run_grid(kind, data, start, drawn, cells, chunk=2).record.norm
    batched = (time.process_time() - begun) / (SEEDS * len(OFFSETS))
    alone = []
    begun = time.process_time()
    for seed in seeds[:2]:
        own = problems.problem(domain, run, [seed])
        own_start = models.latent_start(run, [seed], own.weights)
        for i in range(len(OFFSETS)):
            cell = grid.Grid(*(axis[i : i + 1] for axis in cells))
            own_drawn = drawn[:, seed : seed + 1]
            alone.append(grid.run_grid(kind, own, own_start, own_drawn, cell).record.norm[:, 0, 0])
    single = (time.process_time() - begun) / len(alone)
    expected = together[:, :, :2].permute(2, 1, 0).reshape(len(alone), -1)
    assert torch.allclose(torch.stack(alone), expected, rtol=1e-6)
    return batched, single


def rows() -> Iterator[Row]:
    """Yield the times of a run, on one core."""
    for domain, kind, eta in CELLS:
        with one_thread():
            batched, single = seconds_a_run(domain, kind, eta)
        label = f"value learning, {domain}, {kind}: a run of 300 steps in a batch, by itself, as the authors report"
        yield label, f"{1e3 * batched:.2g} ms, {1e3 * single:.2g} ms, 15 to 20 s"


if __name__ == "__main__":
    show(rows())
