r"""Laws of the targets given a model's outputs: the losses whose curvature is known in closed form.

A law is a density :math:`p(y \mid f)` of the target y given the output f. Its loss is the negative logarithm, up to
a constant that does not depend on f; `hessian` is :math:`H_{out} = \nabla_f^2 \ell(f, y)`, `fisher` is
:math:`F_{out} = E_{y \sim p(\cdot \mid f)}[\nabla_f \ell \nabla_f \ell^\top] = E[H_{out}]`.

Outputs have the shape `(..., d_y)` with any leading axes, and results keep dtype and device of the outputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor
from torch.nn.functional import softplus

from learning_dynamics._internal.arguments import require_count, require_finite, require_generator


class OutputLaw(ABC):
    """What every law answers. Laws have no state; two of one class are equal."""

    targets_in_words = "floating point of the outputs' shape"

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the negative log-likelihood up to a constant, `(...)`.

        Args:
            outputs: `(..., d_y)`.
            targets: `(...)` or `(..., d_y)`, as the law takes them.

        Raises:
            ValueError: the targets have another shape or dtype than the law takes, or lie on another device.
        """

    @abstractmethod
    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the gradient of the loss with respect to the outputs, `(..., d_y)`.

        Args:
            outputs: `(..., d_y)`.
            targets: `(...)` or `(..., d_y)`, as the law takes them.

        Raises:
            ValueError: the targets have another shape or dtype than the law takes, or lie on another device.
        """

    @abstractmethod
    def hessian(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return H_out, `(..., d_y, d_y)`.

        Args:
            outputs: `(..., d_y)`.
            targets: `(...)` or `(..., d_y)`, as the law takes them.

        Raises:
            ValueError: the targets have another shape or dtype than the law takes, or lie on another device.
        """

    @abstractmethod
    def fisher(self, outputs: Tensor) -> Tensor:
        """Return F_out, `(..., d_y, d_y)`.

        Args:
            outputs: `(..., d_y)`.
        """

    @abstractmethod
    def _draw(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """Return one target for each output, on the generator's device, where the outputs already are."""

    def sample(self, outputs: Tensor, samples: int, generator: torch.Generator | None) -> Tensor:
        """Draw targets from the law.

        Args:
            outputs: `(..., d_y)`.
            samples: how many for each output, >= 1.
            generator: where they are drawn from, on its own device; the result is on the outputs' device.

        Returns:
            `(samples, *targets)` where `(*targets)` is the shape that `loss` takes.

        Raises:
            ValueError: `samples` is below 1, or there is no generator.
        """
        _require_outputs(outputs)
        require_count("samples", samples)
        generator = require_generator(generator)
        there = outputs.detach().to(generator.device)
        return self._draw(there.expand(samples, *outputs.shape), generator).to(outputs.device)

    def checked(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the targets in the outputs' dtype and shape, after checking their values.

        Args:
            outputs: `(..., d_y)`.
            targets: `(...)` or `(..., d_y)`, as the law takes them.

        Raises:
            ValueError: wrong shape, dtype, device, values outside the law's support, or not finite.
        """
        targets = self._shaped(outputs, targets)
        require_finite("targets", targets)
        return targets

    def _width(self, outputs: Tensor) -> int:
        return outputs.shape[-1]

    def _shaped(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return targets of shape `(..., width)` in the outputs' dtype; `(...)` is taken where width is one."""
        if not isinstance(targets, Tensor):
            raise ValueError(f"targets is a {type(targets).__name__}; allowed: {self.targets_in_words}")
        _require_outputs(outputs)
        shape = (*outputs.shape[:-1], self._width(outputs))
        if shape[-1] == 1 and targets.shape == shape[:-1]:
            targets = targets[..., None]
        if targets.shape != shape or targets.is_complex():
            raise _wrong_targets(targets, f"{self.targets_in_words}, here {shape}")
        if targets.device != outputs.device:
            raise ValueError(f"targets is on {targets.device}; allowed: the outputs' {outputs.device}")
        return targets.detach().to(outputs.dtype)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Natural(OutputLaw):
    """An exponential family whose outputs are its natural parameters.

    The gradient is the mean of the law minus the target. The Hessian is the covariance of the target: it does not
    depend on the target at hand, so that both curvatures are the same.
    """

    @abstractmethod
    def _mean(self, outputs: Tensor) -> Tensor:
        """Return E y, `(..., d_y)`."""

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return E y - y."""
        return self._mean(outputs) - self._shaped(outputs, targets)

    def hessian(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the covariance of y, as `fisher`."""
        return self.fisher(outputs)


class SquaredError(_Natural):
    r"""Gaussian with unit variance: :math:`\ell = \frac12 \lVert f - y \rVert^2`, both curvatures the identity.

    Targets `(..., d_y)`; `(...)` where d_y = 1.
    """

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return half the squared distance."""
        return 0.5 * (outputs - self._shaped(outputs, targets)).square().sum(-1)

    def _mean(self, outputs: Tensor) -> Tensor:
        return outputs

    def fisher(self, outputs: Tensor) -> Tensor:
        """Return the identity."""
        _require_outputs(outputs)
        return torch.diag_embed(torch.ones_like(outputs))

    def _draw(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        return outputs + _normal(outputs, generator)


class Categorical(_Natural):
    r"""One of d_y classes, softmax in the loss: :math:`\ell = -\sum_c y_c \ln p_c`, :math:`p = softmax(f)`.

    Both curvatures are diag(p) - p p^T. Targets: class indices `(...)` of an integer dtype, or probability vectors
    `(..., d_y)`.
    """

    targets_in_words = "class indices (...) or probability vectors (..., d_y)"

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the cross-entropy."""
        return -(self._shaped(outputs, targets) * outputs.log_softmax(-1)).sum(-1)

    def _mean(self, outputs: Tensor) -> Tensor:
        return outputs.softmax(-1)

    def fisher(self, outputs: Tensor) -> Tensor:
        """Return diag(p) - p p^T."""
        _require_outputs(outputs)
        p = self._mean(outputs)
        return torch.diag_embed(p) - p[..., :, None] * p[..., None, :]

    def checked(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the targets as probability vectors, after checking that they are some."""
        targets = super().checked(outputs, targets)
        if (targets < 0).any() or not torch.allclose(targets.sum(-1), targets.new_ones(()), atol=1e-4):
            raise ValueError("targets are not probability vectors; allowed: entries >= 0 that sum to one")
        return targets

    def _require_classes(self, targets: Tensor, outputs: Tensor) -> None:
        """Refuse class indices that are none; under vmap, where no number can be looked at, they give NaN."""
        classes = outputs.shape[-1]
        if torch._C._functorch.is_functorch_wrapped_tensor(targets):
            return
        if targets.numel() and ((targets < 0).any() or (targets >= classes).any()):
            low, high = int(targets.min()), int(targets.max())
            raise ValueError(f"targets are classes from {low} to {high}; allowed: 0 to {classes - 1}")

    def _shaped(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if _integer(targets) and targets.shape == outputs.shape[:-1]:
            self._require_classes(targets, outputs)
            targets = _one_hot(targets, outputs)
        elif not (isinstance(targets, Tensor) and targets.is_floating_point()):
            raise _wrong_targets(targets, self.targets_in_words)
        return super()._shaped(outputs, targets)

    def _draw(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        p = self._mean(outputs).reshape(-1, outputs.shape[-1])
        return torch.multinomial(p, 1, generator=generator).reshape(outputs.shape[:-1])


class Bernoulli(_Natural):
    r"""d_y independent yes-or-no targets from logits: :math:`\ell = \sum_c \ln(1 + e^{f_c}) - y_c f_c`.

    Both curvatures are diag(p (1 - p)). Targets in [0, 1], `(..., d_y)`; `(...)` where d_y = 1.
    """

    targets_in_words = "numbers in [0, 1] of the outputs' shape"

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the sum of the binary cross-entropies."""
        y = self._shaped(outputs, targets)
        return (softplus(outputs) - y * outputs).sum(-1)

    def _mean(self, outputs: Tensor) -> Tensor:
        return outputs.sigmoid()

    def fisher(self, outputs: Tensor) -> Tensor:
        """Return diag(p (1 - p))."""
        _require_outputs(outputs)
        return torch.diag_embed(outputs.sigmoid() * (-outputs).sigmoid())

    def checked(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the targets in the outputs' dtype, after checking that they lie in [0, 1]."""
        targets = super().checked(outputs, targets)
        if (targets < 0).any() or (targets > 1).any():
            raise ValueError(f"targets reach {_range(targets)}; allowed: {self.targets_in_words}")
        return targets

    def _draw(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        return torch.bernoulli(self._mean(outputs), generator=generator)


class Poisson(_Natural):
    r"""d_y independent counts from log rates: :math:`\ell = \sum_c e^{f_c} - y_c f_c`.

    Both curvatures are diag(e^f). Targets >= 0, `(..., d_y)`; `(...)` where d_y = 1.
    """

    targets_in_words = "numbers >= 0 of the outputs' shape"

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the sum of e^f - y f."""
        y = self._shaped(outputs, targets)
        return (outputs.exp() - y * outputs).sum(-1)

    def _mean(self, outputs: Tensor) -> Tensor:
        return outputs.exp()

    def fisher(self, outputs: Tensor) -> Tensor:
        """Return diag(e^f)."""
        _require_outputs(outputs)
        return torch.diag_embed(self._mean(outputs))

    def checked(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the targets in the outputs' dtype, after checking that none is negative."""
        targets = super().checked(outputs, targets)
        if (targets < 0).any():
            raise ValueError(f"targets reach {_range(targets)}; allowed: {self.targets_in_words}")
        return targets

    def _draw(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        return torch.poisson(self._mean(outputs), generator=generator)


class HeteroscedasticGaussian(OutputLaw):
    r"""m independent Gaussians whose outputs are the means and the logarithms of the variances, d_y = 2 m.

    With f = (mean, s) and r = y - mean, :math:`\ell = \sum_c \frac12 (s_c + r_c^2 e^{-s_c})`. These are no natural
    parameters, and the curvatures differ: F_out is diag(e^{-s}, 1/2), while H_out depends on the targets and has a
    negative eigenvalue in each component whose residual is not zero. Targets `(..., m)`; `(...)` where m = 1.
    """

    targets_in_words = "floating point (..., d_y / 2)"

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the sum of (s + r^2 e^{-s}) / 2."""
        residual, log_variance = self._parts(outputs, targets)
        return 0.5 * (log_variance + residual.square() * (-log_variance).exp()).sum(-1)

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return (-r e^{-s}, (1 - r^2 e^{-s}) / 2)."""
        residual, log_variance = self._parts(outputs, targets)
        precision = (-log_variance).exp()
        return torch.cat([-residual * precision, 0.5 * (1 - residual.square() * precision)], -1)

    def hessian(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the matrix with blocks diag(e^{-s}), diag(r e^{-s}) and diag(r^2 e^{-s} / 2)."""
        residual, log_variance = self._parts(outputs, targets)
        precision = (-log_variance).exp()
        upper = torch.cat([torch.diag_embed(precision), torch.diag_embed(residual * precision)], -1)
        lower = [torch.diag_embed(residual * precision), torch.diag_embed(residual.square() * precision / 2)]
        return torch.cat([upper, torch.cat(lower, -1)], -2)

    def fisher(self, outputs: Tensor) -> Tensor:
        """Return diag(e^{-s}, 1/2)."""
        _require_outputs(outputs)
        precision = (-outputs[..., self._width(outputs) :]).exp()
        return torch.diag_embed(torch.cat([precision, torch.full_like(precision, 0.5)], -1))

    def _draw(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        mean, log_variance = outputs.split(self._width(outputs), -1)
        return mean + (log_variance / 2).exp() * _normal(mean, generator)

    def _width(self, outputs: Tensor) -> int:
        if outputs.shape[-1] % 2:
            raise ValueError(f"outputs have width {outputs.shape[-1]}; allowed: even (means, log variances)")
        return outputs.shape[-1] // 2

    def _parts(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        targets = self._shaped(outputs, targets)
        mean, log_variance = outputs.split(self._width(outputs), -1)
        return targets - mean, log_variance


def _require_outputs(outputs: Tensor) -> None:
    """Raise unless outputs are real floating point `(..., d_y)`; no number is looked at."""
    if not outputs.is_floating_point() or outputs.ndim == 0 or outputs.shape[-1] == 0:
        raise ValueError(
            f"outputs has dtype {outputs.dtype} and shape {tuple(outputs.shape)}; "
            "allowed: real floating point, (..., d_y)"
        )


def _integer(targets: object) -> bool:
    return isinstance(targets, Tensor) and targets.dtype in (
        torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64
    )  # fmt: skip


def _one_hot(classes: Tensor, outputs: Tensor) -> Tensor:
    """Return one-hot rows in the outputs' dtype; written as a comparison, which works under vmap."""
    count = outputs.shape[-1]
    rows = (classes[..., None] == torch.arange(count, device=classes.device)).to(outputs.dtype)
    return torch.where(((classes >= 0) & (classes < count))[..., None], rows, torch.nan)


def _normal(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device)


def _range(targets: Tensor) -> str:
    return f"from {float(targets.min()):g} to {float(targets.max()):g}"


def _wrong_targets(targets: object, allowed: str) -> ValueError:
    if not isinstance(targets, Tensor):
        return ValueError(f"targets is a {type(targets).__name__}; allowed: {allowed}")
    return ValueError(f"targets is {targets.dtype} of shape {tuple(targets.shape)}; allowed: {allowed}")
