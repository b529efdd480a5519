"""Stochastic gradients of the square loss whose labels are perturbed anew at every step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import (
    require_broadcast,
    require_choice,
    require_count,
    require_generator,
    require_numbers,
    require_tensors,
)
from learning_dynamics.ensembles import Gradient

Predict = Callable[[Tensor], Tensor]
"""`predict(theta)`: the outputs on all n samples, `(*batch, n)` from `theta (*batch, d)`."""


def label_noise_gradient(
    predict: Predict,
    y: Tensor,
    sigma: float | Tensor,
    generator: torch.Generator,
    *,
    batch_size: int | None = None,
    noise: Literal["signs", "normal"] = "normal",
    pullback: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Gradient:
    r"""Return a gradient for `ensembles.iterate`: every chain of the batch draws samples and label noise of its own.

    .. math:: g_k=\frac1b\sum_{i\in B_k}\bigl(f_i(\theta)-y_i-\xi_i\bigr)\,\nabla f_i(\theta),\qquad
        \mathbb E\,\xi_i^2=\sigma^2

    The batch is drawn with replacement, and a sample that is drawn twice gets a new label each time; without a batch
    size all n samples are used, each once.

    Source: Blanc et al. (2020); Damian, Ma and Lee (2021).

    Args:
        predict: `predict(theta) -> (*batch, n)`.
        y: `(n,)`, or `(*batch, n)` where it broadcasts against the outputs without enlarging them.
        sigma: standard deviation of the label noise, >= 0; a number or a tensor `(*batch, 1)`.
        generator: a generator on the CPU.
        batch_size: b >= 1; all samples if left out.
        noise: +sigma or -sigma with equal probability, or normal.
        pullback: `pullback(theta, e)`, the sum of e_i times the gradient of f_i, `(*batch, d)` from `e (*batch, n)`;
            by automatic differentiation if left out (chains must not interact in `predict`).

    Returns:
        `gradient(theta, k)`, `(*batch, d)`.

    Raises:
        ValueError: y is not real floating point, sigma is negative, there is no generator, the batch size
            is less than 1, or the kind of noise is unknown.
    """
    require_tensors(y=(y, "*batch n"), finite=True)
    require_generator(generator)
    scale = require_numbers("sigma", sigma, y)
    if not bool(((scale >= 0) & scale.isfinite()).all()):
        raise ValueError(f"sigma = {scale.tolist()}; allowed: finite, >= 0")
    if batch_size is not None:
        require_count("batch_size", batch_size)
    require_choice("noise", noise, ("signs", "normal"))

    def gradient(theta: Tensor, k: int) -> Tensor:
        if not theta.is_floating_point() or theta.ndim == 0:
            raise ValueError(
                f"theta has dtype {theta.dtype} and shape {tuple(theta.shape)}; allowed: real, (*batch, d)"
            )
        outputs = predict(theta)
        require_broadcast("sigma", scale, outputs.shape)
        if y.shape[-1] != outputs.shape[-1] or y.ndim > outputs.ndim:
            raise ValueError(
                f"y has shape {tuple(y.shape)}; allowed: (n,) or (*batch, n) as the outputs, {tuple(outputs.shape)}"
            )
        residual = outputs - y
        if batch_size is None:
            perturbed = residual - sigma * _draw(residual.shape, residual, noise, generator)
            error = perturbed / residual.shape[-1]
        else:  # one noise a place in the batch, not a sample: a sample drawn twice has two labels
            shape = (*residual.shape[:-1], batch_size)
            rows = torch.randint(residual.shape[-1], shape, generator=generator, device=generator.device)
            rows = rows.to(residual.device)
            drawn = residual.gather(-1, rows) - sigma * _draw(shape, residual, noise, generator)
            error = torch.zeros_like(residual).scatter_add_(-1, rows, drawn / batch_size)
        return _by_autograd(predict, theta, error) if pullback is None else pullback(theta, error)

    return gradient


def _draw(shape: Sequence[int], like: Tensor, noise: str, generator: torch.Generator) -> Tensor:
    where = generator.device
    if noise == "normal":
        return torch.randn(*shape, generator=generator, dtype=like.dtype, device=where).to(like.device)
    return (2 * torch.randint(2, tuple(shape), generator=generator, device=where) - 1).to(like)


def _by_autograd(predict: Predict, theta: Tensor, error: Tensor) -> Tensor:
    with torch.inference_mode(False), torch.enable_grad():
        leaf = theta.detach().clone().requires_grad_()
        error = error.clone() if error.is_inference() else error
        (pulled,) = torch.autograd.grad((predict(leaf) * error.detach()).sum(), leaf)
    return pulled
