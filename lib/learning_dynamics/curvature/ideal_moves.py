r"""What each sample asks of its output, and how much loss that would save.

With the score :math:`s = -\nabla_f \ell` of a sample, the quadratic model of its loss along an output move u is
:math:`\frac12 u^\top F_{out} u - s^\top u`. It is least at the ideal move :math:`F_{out}^+ s`, by
:math:`-\frac12 s^\top F_{out}^+ s`. The natural gradient step is the weighted least-squares fit of
:math:`J\delta` to all ideal moves at once (Martens 2020, sec. 13).
"""

from __future__ import annotations

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import require_finite
from learning_dynamics.curvature.output_laws import Categorical, OutputLaw


def ideal_moves(law: OutputLaw, outputs: Tensor, targets: Tensor) -> Tensor:
    r"""Return :math:`F_{out}^+ s` of every sample, the output move that its own quadratic model asks for.

    For `Categorical` the closed form :math:`y_c / p_c`, less its mean over the classes: a shift of all logits changes
    nothing, and the pseudo-inverse takes the representative whose entries sum to zero.

    Source: Martens (2020), sec. 13; the closed form: diag(p) u - p p^T u = y - p for u = y / p.

    Args:
        law: the output law, with the score s = -gradient and F_out = `fisher`.
        outputs: `(..., d_y)`, finite.
        targets: `(...)` or `(..., d_y)`, as the law takes them.

    Returns:
        `(..., d_y)`.

    Raises:
        ValueError: outputs are not finite, or the targets are not as the law takes them.
    """
    require_finite("outputs", outputs)
    targets = law.checked(outputs, targets)
    if isinstance(law, Categorical):
        move = targets * (-outputs.log_softmax(-1)).exp()
        return move - move.mean(-1, keepdim=True)
    inverse = torch.linalg.pinv(law.fisher(outputs), hermitian=True)
    return -(inverse @ law.gradient(outputs, targets)[..., None])[..., 0]


def improvement_bound(law: OutputLaw, outputs: Tensor, targets: Tensor) -> Tensor:
    r"""Return :math:`-\frac{1}{2n} \sum_i s_i^\top F_{out}^+ s_i`: no step is promised a lower loss by the model.

    For every step delta, :math:`M(\delta) - \mathcal L(\theta)` of the quadratic model with the Fisher matrix of the
    same samples is at least this number; it is reached if all ideal moves can be made at once. For class labels it
    is :math:`-\frac{1}{2n} \sum_i (1/p_{y_i} - 1)`.

    Source: Martens (2020), sec. 13.

    Args:
        law: the output law.
        outputs: `(..., d_y)`, finite; the mean is over all leading axes.
        targets: `(...)` or `(..., d_y)`, as the law takes them.

    Returns:
        A number `()`, <= 0.

    Raises:
        ValueError: as `ideal_moves`.
    """
    moves = ideal_moves(law, outputs, targets)
    if moves.numel() == 0:
        raise ValueError(f"outputs has shape {tuple(outputs.shape)}; allowed: at least one sample")
    return (law.gradient(outputs, law.checked(outputs, targets)) * moves).sum(-1).mean() / 2
