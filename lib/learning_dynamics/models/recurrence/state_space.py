"""Continuous-time diagonal state spaces and how they become recurrences."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from learning_dynamics._internal.arguments import (
    require_broadcast,
    require_choice,
    require_counts,
    require_numbers,
)
from learning_dynamics.models.recurrence.diagonal import DiagonalRecurrence
from learning_dynamics.models.recurrence.linear import Method
from learning_dynamics.models.recurrence.precision import lifted

Discretization = Literal["zoh", "bilinear", "euler"]


def s4d_lin(states: int, *, dtype: torch.dtype = torch.complex128) -> Tensor:
    r"""Return the rates :math:`\tilde a_n=-\frac12+i\pi n`, n = 0, ..., N - 1 (S4D-Lin; Gu, Gupta, Goel and Ré 2022).

    Args:
        states: N >= 1.
        dtype: a complex dtype.

    Returns:
        `(N)`, complex.

    Raises:
        ValueError: `states` is less than 1.
    """
    require_counts(states=states)
    n = torch.arange(states, dtype=torch.float64)
    return torch.complex(torch.full_like(n, -0.5), math.pi * n).to(dtype)


def s4d_inv(states: int, *, dtype: torch.dtype = torch.complex128) -> Tensor:
    r"""Return the rates :math:`\tilde a_n=-\frac12+i\frac N\pi(\frac N{2n+1}-1)`, S4D-Inv.

    n = 0, ..., N - 1 (Gu, Gupta, Goel and Ré 2022).
    A real state of size N has N/2 conjugate pairs, which are `s4d_inv(N)[: N // 2]`: from n = N/2 on the imaginary
    parts are negative, and pair with no rate before them.

    Args:
        states: N >= 1.
        dtype: a complex dtype.

    Returns:
        `(N)`, complex.

    Raises:
        ValueError: `states` is less than 1.
    """
    require_counts(states=states)
    n = torch.arange(states, dtype=torch.float64)
    return torch.complex(torch.full_like(n, -0.5), states / math.pi * (states / (2 * n + 1) - 1)).to(dtype)


def discretize(rates: Tensor, step: float | Tensor, method: Discretization = "zoh") -> tuple[Tensor, Tensor]:
    r"""Turn :math:`\dot x=\tilde a x+b u` into :math:`x_j=\lambda x_{j-1}+g\,b u_j` and return lambda and g.

    - `zoh`: :math:`\lambda=e^{\Delta\tilde a},\ g=(\lambda-1)/\tilde a`; exact when u is constant between samples
      (Orvieto 2023, eq. 122).
    - `bilinear`: :math:`\lambda=\frac{1+\Delta\tilde a/2}{1-\Delta\tilde a/2}` and
      :math:`g=\frac{\Delta}{1-\Delta\tilde a/2}`.
    - `euler`: :math:`\lambda=e^{\Delta\tilde a},\ g=\Delta`: exponential for the state, Euler for the input.

    Args:
        rates: the rates, `(*batch, N)`, real or complex.
        step: the time step Delta > 0, a number or a tensor that broadcasts against `rates`.
        method: `zoh`, `bilinear` or `euler`.

    Returns:
        lambda and g, `(*batch, N)` each, in the dtype of `rates`. At rate 0, `zoh` takes its limit g = Delta.

    Raises:
        ValueError: an unknown method, integers for rates, or a step that is not positive or does not fit the rates.
    """
    require_choice("method", method, ("zoh", "bilinear", "euler"))
    if not (rates.is_floating_point() or rates.is_complex()):
        raise ValueError(f"rates have dtype {rates.dtype}; allowed: a real or complex floating point dtype")
    delta = require_numbers("step", step, rates.real)
    require_broadcast("step", delta, rates.shape)
    if not bool((delta > 0).all()):
        raise ValueError(f"step = {float(delta.min()):g}; allowed: positive")
    return _discretized(rates, delta, method)


def _discretized(rates: Tensor, delta: Tensor, method: Discretization) -> tuple[Tensor, Tensor]:
    """Do the arithmetic of `discretize` without looking at values, so that it runs under vmap."""
    if method == "bilinear":
        return (1 + delta * rates / 2) / (1 - delta * rates / 2), delta / (1 - delta * rates / 2)
    eigenvalues = torch.exp(delta * rates)
    if method == "euler":
        return eigenvalues, delta.to(rates.dtype).expand(eigenvalues.shape)
    z = delta * rates
    small = z.detach().abs() < 1e-4  # the quotient's derivative cancels there; the series is exact to 1e-18
    safe = torch.where(small, torch.ones_like(rates), rates)
    near = torch.where(small, z, torch.zeros_like(z))
    series = delta * (1 + near / 2 * (1 + near / 3 * (1 + near / 4)))
    return eigenvalues, torch.where(small, series, _expm1(z) / safe)


def _expm1(z: Tensor) -> Tensor:
    """Return e^z - 1 without cancellation near 0, for complex z too."""
    if not z.is_complex():
        return torch.expm1(z)
    half = torch.sin(z.imag / 2)
    grown = torch.expm1(z.real)
    return torch.complex(grown * torch.cos(z.imag) - 2 * half * half, torch.exp(z.real) * torch.sin(z.imag))


class DiagonalStateSpace(DiagonalRecurrence):
    r"""A diagonal state-space layer (S4D, Gu et al. 2022, in the many-inputs form of S5, Smith et al. 2023).

    Trained are the log-rate :math:`\log(-\mathrm{Re}\,\tilde a)`, the frequency :math:`\mathrm{Im}\,\tilde a`, the
    logarithm of the time step, B, C and D; eigenvalues and gains come from `discretize`. The real part stays
    negative, so the layer is stable for every value of its parameters.

    Args:
        width: width of inputs and outputs, >= 1.
        states: number N of complex states, >= 1.
        rates: where the rates start: `lin` (`s4d_lin`) or `inv` (`s4d_inv`).
        discretization: `zoh`, `bilinear` or `euler`.
        steps: smallest and largest initial time step; each state draws its own, log-uniformly.
        tied: one time step for eigenvalue and input gain; with False the gain trains one of its own.
        bidirectional, method, generator: see `DiagonalRecurrence`.

    Raises:
        ValueError: a size, choice or time step out of range.
    """

    def __init__(
        self,
        width: int,
        states: int,
        *,
        rates: Literal["lin", "inv"] = "lin",
        discretization: Discretization = "zoh",
        steps: tuple[float, float] = (1e-3, 1e-1),
        tied: bool = True,
        bidirectional: bool = False,
        method: Method = "auto",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(width, states, bidirectional=bidirectional, method=method, generator=generator)
        require_choice("rates", rates, ("lin", "inv"))
        require_choice("discretization", discretization, ("zoh", "bilinear", "euler"))
        if not 0 < steps[0] <= steps[1]:
            raise ValueError(f"steps = {steps}; allowed: 0 < smallest <= largest")
        start = (s4d_lin if rates == "lin" else s4d_inv)(states)
        spread = torch.rand(states, generator=generator, dtype=torch.float64)
        log_step = math.log(steps[0]) + spread * math.log(steps[1] / steps[0])
        real = torch.get_default_dtype()
        self.discretization: Discretization = discretization
        self.log_decay = nn.Parameter((-start.real).log().to(real))
        self.frequency = nn.Parameter(start.imag.to(real))
        self.log_step = nn.Parameter(log_step.to(real))
        self.log_input_step = None if tied else nn.Parameter(log_step.to(real))

    def rates(self) -> Tensor:
        """Return the continuous-time rates `(N,)`, complex, with negative real parts."""
        return torch.complex(-lifted(self.log_decay).exp(), lifted(self.frequency))

    def eigenvalues(self) -> Tensor:
        """Return lambda `(N,)`."""
        return _discretized(self.rates(), lifted(self.log_step).exp(), self.discretization)[0]

    def gain(self) -> Tensor | None:
        """Return g `(N,)`, complex; None stands for ones."""
        log_step = self.log_step if self.log_input_step is None else self.log_input_step
        return _discretized(self.rates(), lifted(log_step).exp(), self.discretization)[1]

    def recurrent_parameters(self) -> list[nn.Parameter]:
        """Return rates, time steps and B."""
        chosen = [self.log_decay, self.frequency, self.log_step, self.B]
        return chosen if self.log_input_step is None else [*chosen, self.log_input_step]
