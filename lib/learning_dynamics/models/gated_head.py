r"""Two last layers whose gates can be frozen, after which every output is linear in the hidden layer's weights.

Source: Kawaguchi, Zhang and Deng (2022), section 3.2.2, equations (16) and (18).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from learning_dynamics._internal.arguments import require_counts, require_input, require_number


class GatedHead(nn.Module):
    r"""Map features e to :math:`f_j = \sum_k w^{(j)}_k\, \mathrm{gate}(v_k \cdot e)\, (W^{(j)}_k \cdot e)`.

    The gate is the sigmoid of `sharpness` times its argument. Until `freeze_gates` the gate weights v are the block
    weights W themselves; afterwards they keep the value of that moment, and f is linear in W.

    Args:
        in_features: entries of the features e, the constant one included if there is one, >= 1.
        hidden: width of the hidden layer, >= 1.
        outputs: number of outputs; each has a block of hidden weights of its own. >= 1.
        sharpness: of the gate, > 0; with 1 the unit is the SiLU, for large values it tends to ReLU.
        generator: source of the weights, normal with variance one over a layer's inputs.
        dtype: floating point type of the weights.

    Attributes:
        block: hidden weights, `(outputs, hidden, in_features)`.
        last: output weights, `(outputs, hidden)`.
        frozen: gate weights after `freeze_gates`, of the shape of `block`, else None.

    Raises:
        ValueError: an argument is not as described.
    """

    frozen: Tensor | None

    def __init__(
        self,
        in_features: int,
        hidden: int,
        outputs: int = 1,
        *,
        sharpness: float = 1.0,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        require_counts(in_features=in_features, hidden=hidden, outputs=outputs)
        require_number("sharpness", sharpness, above=0)
        self.sharpness = float(sharpness)
        block = torch.randn(outputs, hidden, in_features, generator=generator, dtype=dtype)
        last = torch.randn(outputs, hidden, generator=generator, dtype=dtype)
        self.block = nn.Parameter(block / math.sqrt(in_features))
        self.last = nn.Parameter(last / math.sqrt(hidden))
        self.register_buffer("frozen", None)

    def freeze_gates(self) -> None:
        """Let the gates keep the block weights of this moment; the outputs do not change by it."""
        self.frozen = self.block.detach().clone()

    def gates(self, features: Tensor) -> Tensor:
        """Return the gates `(outputs, n, hidden)`.

        Args:
            features: `(n, in_features)`.

        Raises:
            ValueError: they are not of this shape, or not of the dtype of the weights.
        """
        require_input("features", features, self.block, None, self.block.shape[-1], batch=False)
        weights = self.block if self.frozen is None else self.frozen
        return torch.sigmoid(self.sharpness * torch.einsum("jkl,nl->jnk", weights, features))

    def forward(self, features: Tensor) -> Tensor:
        """Return the outputs `(n, outputs)`.

        Args:
            features: `(n, in_features)`.

        Raises:
            ValueError: they are not of this shape, or not of the dtype of the weights.
        """
        gates = self.gates(features)
        hidden = torch.einsum("jkl,nl->jnk", self.block, features)
        return torch.einsum("jk,jnk->nj", self.last, gates * hidden)

    def jacobian(self, features: Tensor) -> Tensor:
        r"""Return :math:`J_j`, the derivative of each output in its own block with the gates held.

        Lemma 6 of the source: with frozen gates the outputs are :math:`J_j\,\mathrm{vec}\,W^{(j)}`.

        Args:
            features: `(n, in_features)`.

        Returns:
            `(outputs, n, hidden * in_features)`, the columns in the order of `block[j].flatten()`.

        Raises:
            ValueError: the features are not of this shape, or not of the dtype of the weights.
        """
        weighted = self.gates(features) * self.last[:, None, :]
        return (weighted[..., None] * features[:, None, :]).flatten(-2)

    def kernel(self, features: Tensor) -> Tensor:
        r"""Return the block kernels :math:`\Theta_j = J_jJ_j^\top`, `(outputs, n, n)`, without forming J.

        Args:
            features: `(n, in_features)`.

        Raises:
            ValueError: they are not of this shape, or not of the dtype of the weights.
        """
        weighted = self.gates(features) * self.last[:, None, :]
        return (weighted @ weighted.mT) * (features @ features.mT)

    def smoothness_bound(self, features: Tensor, curvature: float) -> Tensor:
        r"""Return :math:`\hat L = \frac{L_\ell}{n}\sum_i \max_j \lVert (J_j)_i\rVert^2` of lemma 8, `()`.

        Args:
            features: `(n, in_features)`.
            curvature: :math:`L_\ell`, the Lipschitz constant of one sample's loss gradient, > 0.

        Raises:
            ValueError: the curvature is not positive and finite, or the features are not as described.
        """
        require_number("curvature", curvature, above=0)
        squared = (self.gates(features) * self.last[:, None, :]).square().sum(-1) * features.square().sum(-1)
        return curvature * squared.amax(0).mean()
