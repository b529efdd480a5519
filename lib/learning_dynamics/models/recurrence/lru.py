"""The linear recurrent unit: a diagonal complex recurrence with a stable parameterization."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from learning_dynamics._internal.arguments import require_choice, require_counts
from learning_dynamics.models.recurrence.diagonal import DiagonalRecurrence
from learning_dynamics.models.recurrence.linear import Method
from learning_dynamics.models.recurrence.precision import lifted

Eigenvalues = Literal["cartesian", "exponential", "stable"]
Normalizer = Literal["trained", "recomputed", "none"]


def ring_eigenvalues(
    states: int,
    r_min: float = 0.0,
    r_max: float = 1.0,
    max_phase: float = 2 * math.pi,
    *,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Draw -log|lambda| and arg lambda for lambda uniform on the sector of a ring (Orvieto 2023, Lemma 5.3.1).

    .. math:: \nu=-\tfrac12\log\bigl(a(r_{\max}^2-r_{\min}^2)+r_{\min}^2\bigr),\qquad\vartheta=\vartheta_{\max}\,b

    with a and b uniform on (0, 1), kept 1e-7 away from both ends, so that 0 < nu is finite. Multiply phases by a random
    sign where conjugates are wanted too.

    Args:
        states: number of eigenvalues, >= 1.
        r_min: inner radius, 0 <= r_min <= r_max.
        r_max: outer radius, at most 1.
        max_phase: largest phase, in (0, 2 pi].
        generator: source of randomness on the CPU.

    Returns:
        nu and phase, `(states,)` float64 each; lambda = exp(-nu + i phase).

    Raises:
        ValueError: a radius or phase outside its range, or no states.
    """
    require_counts(states=states)
    if not 0 <= r_min <= r_max <= 1 or r_max == 0:
        raise ValueError(f"r_min, r_max = {r_min}, {r_max}; allowed: 0 <= r_min <= r_max <= 1 and r_max > 0")
    if not 0 < max_phase <= 2 * math.pi:
        raise ValueError(f"max_phase = {max_phase}; allowed: above 0, at most 2 pi")
    a, b = torch.rand(2, states, generator=generator, dtype=torch.float64).clamp(1e-7, 1 - 1e-7)
    square = a * (r_max**2 - r_min**2) + r_min**2
    return -0.5 * square.log().clamp(max=-1e-14), max_phase * b


def input_normalizer(eigenvalues: Tensor) -> Tensor:
    r"""Return :math:`\gamma=\sqrt{1-|\lambda|^2}` `(*batch, N)` (Orvieto 2023, eq. 129).

    With gamma in front of white input the states have the input's variance. On and outside the circle it is 0, with
    gradient 0. Where |lambda| is nearer to 1 than its rounding, take nu = -log|lambda| and :math:`\sqrt{1-e^{-2\nu}}`,
    as `LinearRecurrentUnit` does.

    Args:
        eigenvalues: `(*batch, N)`, inside the unit circle.
    """
    return _root(1 - lifted(eigenvalues).abs() ** 2).to(eigenvalues.real.dtype)


def _root(square: Tensor) -> Tensor:
    """Return the square root where positive; else 0, with gradient 0. NaN stays NaN."""
    outside = square <= 0
    return torch.where(outside, torch.zeros_like(square), torch.where(outside, 1.0, square).sqrt())


class LinearRecurrentUnit(DiagonalRecurrence):
    r"""A linear recurrent unit (LRU; Orvieto et al. 2023; Orvieto 2023, section 5.3).

    .. math:: x_j=\lambda\odot x_{j-1}+\gamma\odot(B u_j),\qquad y_j=\mathrm{Re}(C x_j)+D\odot u_j

    The eigenvalues are trained in one of three charts: `stable` :math:`\lambda=\exp(-e^{a}+i e^{c})`, inside the unit
    circle for every real a; `exponential` :math:`\lambda=\exp(-a+i c)`; `cartesian` :math:`\lambda=a+i c`. The start
    is uniform on a ring.

    Args:
        width: width of inputs and outputs, >= 1.
        states: number N of complex states, >= 1.
        r_min, r_max, max_phase: the ring sector of the start, see `ring_eigenvalues`.
        eigenvalues: the chart: `stable`, `exponential` or `cartesian`.
        normalizer: gamma is `trained` from `input_normalizer` on, `recomputed` at every call, or 1 (`none`).
        bidirectional, method, generator: see `DiagonalRecurrence`.

    Raises:
        ValueError: a size, radius, chart or method out of range; in `forward`, an empty or ill-shaped sequence.
    """

    def __init__(
        self,
        width: int,
        states: int,
        *,
        r_min: float = 0.0,
        r_max: float = 1.0,
        max_phase: float = 2 * math.pi,
        eigenvalues: Eigenvalues = "stable",
        normalizer: Normalizer = "trained",
        bidirectional: bool = False,
        method: Method = "auto",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(width, states, bidirectional=bidirectional, method=method, generator=generator)
        require_choice("eigenvalues", eigenvalues, ("cartesian", "exponential", "stable"))
        require_choice("normalizer", normalizer, ("trained", "recomputed", "none"))
        self.chart, self.normalizer = eigenvalues, normalizer
        nu, phase = ring_eigenvalues(states, r_min, r_max, max_phase, generator=generator)
        radius = torch.exp(-nu)
        first, second = {
            "stable": (nu.log(), phase.log()),
            "exponential": (nu, phase),
            "cartesian": (radius * phase.cos(), radius * phase.sin()),
        }[eigenvalues]
        real = torch.get_default_dtype()
        self.first, self.second = nn.Parameter(first.to(real)), nn.Parameter(second.to(real))
        log_gamma = 0.5 * torch.log(-torch.expm1(-2 * nu))
        self.log_gamma = nn.Parameter(log_gamma.to(real)) if normalizer == "trained" else None

    def eigenvalues(self) -> Tensor:
        """Return lambda `(N,)`, complex."""
        if self.chart == "cartesian":
            return torch.complex(lifted(self.first), lifted(self.second))
        phase = lifted(self.second).exp() if self.chart == "stable" else lifted(self.second)
        return torch.polar(torch.exp(-self._nu()), phase)

    def _nu(self) -> Tensor:
        """Return -log|lambda| in the charts that hold it."""
        return lifted(self.first).exp() if self.chart == "stable" else lifted(self.first)

    def gain(self) -> Tensor | None:
        """Return gamma `(N,)`, or None without normalization."""
        if self.log_gamma is not None:
            return lifted(self.log_gamma).exp()
        if self.normalizer == "none":
            return None
        if self.chart == "cartesian":
            return input_normalizer(self.eigenvalues())
        return _root(-torch.expm1(-2 * self._nu()))  # exact where |lambda| rounds to 1

    def recurrent_parameters(self) -> list[nn.Parameter]:
        """Return what the source trains at a smaller rate and without decay: eigenvalues, B and gamma."""
        chosen = [self.first, self.second, self.B]
        return chosen if self.log_gamma is None else [*chosen, self.log_gamma]
