r"""A classifier with one layer of tanh neurons, small enough to train many of them at once.

The logits of an input x are :math:`V^\top\tanh(W^\top x+b)+c`, and the loss is the mean cross-entropy. The gradient and
the trace of the Hessian are written out, for any number of networks at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from learning_dynamics._internal.arguments import (
    require_counts,
    require_finite,
    require_generator,
    require_input,
    require_number,
    require_symbols,
)


@dataclass(frozen=True, eq=False)
class TanhClassifier:
    r"""The mean cross-entropy of a network with one hidden layer of tanh neurons on given samples.

    Several sets of samples, such as one minibatch for each run, are leading axes; runs on them are further axes in
    front. The parameters are flat, `theta (*runs, *sets, size)`: first W `(d_x, width)`, then the biases b, then V
    `(width, outputs)`, then the biases c, so that they fit `ensembles.iterate`.

    Args:
        inputs: `(*sets, n, d_x)`, rows are samples.
        classes: `(*sets, n)`, integers from 0 to outputs - 1.
        width: number of hidden neurons, >= 1.
        outputs: number of classes, >= 1.

    Raises:
        ValueError: an argument is not as described.
    """

    inputs: Tensor
    classes: Tensor
    width: int
    outputs: int

    def __post_init__(self) -> None:
        """Check the arguments."""
        require_counts(width=self.width, outputs=self.outputs)
        require_input("inputs", self.inputs, self.inputs, None, None)
        if not self.inputs.is_floating_point():
            raise ValueError(f"inputs has dtype {self.inputs.dtype}; allowed: real floating point")
        require_finite("inputs", self.inputs)
        require_symbols("classes", self.classes, None)
        if self.classes.shape != self.inputs.shape[:-1] or self.classes.device != self.inputs.device:
            raise ValueError(
                f"classes has shape {tuple(self.classes.shape)} on {self.classes.device}; allowed: "
                f"{tuple(self.inputs.shape[:-1])} on {self.inputs.device}"
            )
        if (
            self.classes.numel()
            and not 0 <= int(self.classes.min()) <= int(self.classes.max()) < self.outputs
        ):
            raise ValueError(f"classes has entries outside 0 to {self.outputs - 1}; allowed: those classes")

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Return how many entries of the flat parameters are W, b, V and c."""
        return self.inputs.shape[-1] * self.width, self.width, self.width * self.outputs, self.outputs

    def parts(self, theta: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return W `(*runs, d_x, width)`, b, V `(*runs, width, outputs)` and c, views of the flat parameters.

        Args:
            theta: `(*runs, size)`, the parameters.

        Returns:
            The two matrices and the two vectors of biases, `(*runs, width)` and `(*runs, outputs)`.

        Raises:
            ValueError: the last axis, the dtype or the device is not that of the network.
        """
        require_input("theta", theta, self.inputs, sum(self.sizes))
        W, b, V, c = theta.split(self.sizes, -1)
        return W.unflatten(-1, (-1, self.width)), b, V.unflatten(-1, (self.width, -1)), c

    def logits(self, theta: Tensor, inputs: Tensor | None = None) -> Tensor:
        """Return the logits, of the classifier's own samples or of others.

        Args:
            theta: `(*runs, *sets, size)`, the parameters.
            inputs: `(*sets, samples, d_x)`; its own if left out.

        Returns:
            `(*runs, *sets, samples, outputs)`.

        Raises:
            ValueError: see `parts`; the inputs have another last axis, dtype or device, or sets that do not end the
                leading axes of the parameters.
        """
        x = self.inputs if inputs is None else inputs
        require_input("inputs", x, self.inputs, None, self.inputs.shape[-1])
        hidden, V, c = self._hidden(theta, x)
        return hidden @ V + c[..., None, :]

    def loss(self, theta: Tensor) -> Tensor:
        """Return the mean cross-entropy.

        Args:
            theta: `(*runs, *sets, size)`, the parameters.

        Returns:
            `(*runs, *sets)`.

        Raises:
            ValueError: see `logits`.
        """
        return -(self._targets() * self.logits(theta).log_softmax(-1)).sum(-1).mean(-1)

    def gradient(self, theta: Tensor) -> Tensor:
        r"""Return the gradient, by one pass backwards from the errors :math:`p-y` of the probabilities.

        Args:
            theta: `(*runs, *sets, size)`, the parameters.

        Returns:
            `(*runs, *sets, size)`, flat like the parameters.

        Raises:
            ValueError: see `logits`.
        """
        hidden, p, V = self._forward(theta)
        error = (p - self._targets()) / self.inputs.shape[-2]
        back = error @ V.mT * (1 - hidden.square())
        first, second = self.inputs.mT @ back, hidden.mT @ error
        return torch.cat([first.flatten(-2), back.sum(-2), second.flatten(-2), error.sum(-2)], -1)

    def trace(self, theta: Tensor) -> Tensor:
        r"""Return the trace of the Hessian, exactly.

        With :math:`s_j` the input of neuron j and :math:`h_j=\tanh s_j`, a sample adds
        :math:`(1+\lVert h\rVert^2)\sum_cp_c(1-p_c)` for the second layer, and
        :math:`(1+\lVert x\rVert^2)\sum_j\partial^2\ell/\partial s_j^2` for the first, where
        :math:`\partial^2\ell/\partial s_j^2=\mathrm{Var}_p(V_{j\cdot})(1-h_j^2)^2-2h_j(1-h_j^2)(V(p-y))_j`.

        Args:
            theta: `(*runs, *sets, size)`, the parameters.

        Returns:
            `(*runs, *sets)`.

        Raises:
            ValueError: see `logits`.
        """
        hidden, p, V = self._forward(theta)
        slope = 1 - hidden.square()
        spread = p @ V.square().mT - (p @ V.mT).square()  # variance of the weights of a neuron under p
        bend = spread * slope.square() - 2 * hidden * slope * ((p - self._targets()) @ V.mT)
        first = (1 + self.inputs.square().sum(-1)) * bend.sum(-1)
        second = (1 + hidden.square().sum(-1)) * (p * (1 - p)).sum(-1)
        return (first + second).mean(-1)

    def start(self, generators: Sequence[torch.Generator], gain: float = 1.0) -> Tensor:
        r"""Return random parameters, one network a generator: normal weights, biases zero.

        Args:
            generators: sources of the weights, at least one, on the device of the inputs.
            gain: the weights of a layer have the standard deviation gain over the root of its number of inputs.

        Returns:
            `(len(generators), size)`.

        Raises:
            ValueError: there is no generator, or the gain is not positive and finite.
        """
        if not generators:
            raise ValueError("generators = (); allowed: at least one")
        require_number("gain", gain, above=0)
        first, b, second, c = self.sizes
        found = []
        for generator in generators:
            require_generator(generator)
            W, V = (self.inputs.new_empty(size).normal_(generator=generator) for size in (first, second))
            W, V = gain / math.sqrt(self.inputs.shape[-1]) * W, gain / math.sqrt(self.width) * V
            found.append(torch.cat([W, W.new_zeros(b), V, V.new_zeros(c)]))
        return torch.stack(found)

    def _targets(self) -> Tensor:
        """The classes as rows of zeros and a one, `(*sets, n, outputs)`."""
        return one_hot(self.classes.long(), self.outputs).to(self.inputs.dtype)

    def _hidden(self, theta: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The hidden layer for these inputs, V and c."""
        W, b, V, c = self.parts(theta)
        sets = x.shape[:-2]
        if theta.shape[max(theta.ndim - 1 - len(sets), 0) : -1] != sets:
            raise ValueError(
                f"theta has shape {tuple(theta.shape)}; allowed: (*runs, *{tuple(sets)}, {theta.shape[-1]})"
            )
        return torch.tanh(x @ W + b[..., None, :]), V, c

    def _forward(self, theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The hidden layer, the probabilities and V."""
        hidden, V, c = self._hidden(theta, self.inputs)
        return hidden, (hidden @ V + c[..., None, :]).softmax(-1), V
