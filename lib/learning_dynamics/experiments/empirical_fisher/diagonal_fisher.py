"""Steps preconditioned by the diagonal of the empirical Fisher, with any exponent, damping and memory.

    python -m learning_dynamics.experiments.empirical_fisher.diagonal_fisher --seed 1

makes the kept result of the chapter: medians of long runs on the one-dimensional loss. Source of the family: Martens
(2020), "New Insights and Perspectives on the Natural Gradient Method", sections 11.1 to 11.3, Eq. (10).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from learning_dynamics import ensembles
from learning_dynamics._internal.arguments import require_real, require_tensors
from learning_dynamics.experiments.command import Call, Experiment, Option, Scaled
from learning_dynamics.rules import DiagonalFisher
from learning_dynamics.rules.hyperparameters import require_positive
from learning_dynamics.runs import Run

CHAPTER = "curvature/empirical_fisher"
EXPONENTS = (0.3, 0.4, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
SCHEDULES = ((0.1, 0.0), (0.1, 0.5), (0.3, 1.0))  # (c, a): step size c (k + 1)^-a
GROUPS, STARTS, STEPS = 10, 200, 100_000


def two_cycle(step_size: Tensor | float, exponent: Tensor | float, damping: Tensor | float = 0.0) -> Tensor:
    r"""Return c with :math:`c \mapsto -c \mapsto c` under the step on the loss :math:`\theta^2/2` without memory.

    .. math:: c = \sqrt{\max\{(\eta/2)^{1/q} - \lambda,\ 0\}}

    Args:
        step_size: eta > 0, any shape.
        exponent: q > 0, broadcasts with it.
        damping: lambda >= 0, broadcasts with them.

    Returns:
        c, of the common shape.

    Raises:
        ValueError: a step size or an exponent is not positive, or a damping is negative.
    """
    for name, given in (("step_size", step_size), ("exponent", exponent), ("damping", damping)):
        require_real(name, given)
    eta, q, damped = (torch.as_tensor(each, dtype=torch.float64) for each in (step_size, exponent, damping))
    for name, value in (("step_size", eta), ("exponent", q)):
        if not (value > 0).all():
            raise ValueError(f"{name} = {value.min().item()}; allowed: > 0")
    if not (damped >= 0).all():
        raise ValueError(f"damping = {damped.min().item()}; allowed: >= 0")
    return ((eta / 2) ** (1 / q) - damped).clamp(min=0).sqrt()


def cauchy_scales(start: float, step_sizes: Tensor) -> Tensor:
    r"""Return the scales of the Cauchy laws of the iterates for exponent 1 on the loss :math:`\theta^2/2`.

    If :math:`\theta_0` has the Cauchy law of scale s_0, then :math:`\theta_k` has the one of scale s_k, and
    s_k is the median of :math:`|\theta_k|`:

    .. math:: s_{k+1} = s_k + \eta_k / s_k

    Source: f(z) = z - eta/z maps the upper half plane into itself, and such functions keep Cauchy laws (Letac 1977).

    Args:
        start: s_0 > 0.
        step_sizes: `(K,)`, eta_k >= 0.

    Returns:
        `(K + 1,)`, float64.

    Raises:
        ValueError: the start is not positive, or a step size is negative.
    """
    require_positive("start", start)
    require_tensors(empty=True, step_sizes=(step_sizes, "K"))
    if step_sizes.ndim != 1 or not (step_sizes >= 0).all():
        raise ValueError(f"step_sizes of shape {tuple(step_sizes.shape)}; allowed: (K,), all >= 0")
    scales = [float(start)]
    for eta in step_sizes.tolist():
        scales.append(scales[-1] + eta / scales[-1])
    return torch.tensor(scales, dtype=torch.float64)


def power_schedule(scale: Tensor | float, power: Tensor | float) -> Callable[[int], Tensor | float]:
    """Return the schedule k -> scale (k + 1)^-power, k = 0, 1, ...

    Args:
        scale: a number or a tensor `(*batch, 1)`.
        power: a number or a tensor `(*batch, 1)`.

    Raises:
        ValueError: one of them is complex.
    """
    require_real("scale", scale)
    require_real("power", power)
    return lambda k: scale * (k + 1.0) ** -power


def scalar_medians(
    run: Run, exponents: Sequence[float], schedules: Sequence[tuple[float, float]], steps: int
) -> tuple[Tensor, Tensor]:
    """Return medians of |theta_k| over groups of normal starts, on the loss theta^2 / 2 without memory.

    Args:
        run: gives the device and the starts.
        exponents: the values of q.
        schedules: pairs (c, a) of the step sizes c (k + 1)^-a.
        steps: number of steps, >= 1.

    Returns:
        The recorded step numbers `(R,)` and the medians `(schedules, exponents, groups, R)`.
    """
    theta = torch.randn(GROUPS, STARTS, generator=run.generator("long runs"), dtype=run.dtype).to(run.device)
    c, a = torch.tensor(schedules, dtype=run.dtype, device=theta.device).T[:, :, None, None, None, None]
    q = torch.tensor(exponents, dtype=run.dtype, device=theta.device)[:, None, None, None]
    rule = DiagonalFisher(power_schedule(c, a), exponent=q)
    begin = theta[..., None].expand(len(schedules), len(exponents), GROUPS, STARTS, 1)
    found = ensembles.iterate(
        rule, lambda theta, k: theta, begin, steps, ensembles.log_spaced(steps, per_decade=10)
    )
    return found.steps, found.values.squeeze(-1).abs().median(-1).values.movedim(0, -1)


def compute(call: Call) -> dict[str, Tensor]:
    """Return the medians of long runs, in float32, and what they belong to."""
    steps, medians = scalar_medians(call.run, EXPONENTS, SCHEDULES, call.options.steps)
    return {
        "steps": steps,
        "medians": medians.float(),
        "exponents": torch.tensor(EXPONENTS, dtype=torch.float64),
        "schedules": torch.tensor(SCHEDULES, dtype=torch.float64),
    }


EXPERIMENT = Experiment(
    chapter=CHAPTER,
    name=lambda options: "long-runs",
    compute=compute,
    options=(Option("--steps", "number of steps", Scaled(100, STEPS, STEPS)),),
    rtol=0.3,
    kept=("--seed 1",),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and keep; see `learning_dynamics.experiments.command`."""
    return EXPERIMENT.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
