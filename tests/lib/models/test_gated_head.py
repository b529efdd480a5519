"""The gated head against its formula written out, automatic differentiation and scipy's Khatri-Rao product."""

from __future__ import annotations

import pytest
import scipy.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd.functional import jacobian

from learning_dynamics.models import GatedHead

like = {"dtype": torch.float64}


def head_and_features(seed: int = 0, outputs: int = 2) -> tuple[GatedHead, torch.Tensor]:
    source = torch.Generator().manual_seed(seed)
    head = GatedHead(4, 3, outputs, sharpness=2.0, generator=source, dtype=torch.float64)
    return head, torch.randn(7, 4, generator=source, **like)


@given(st.integers(0, 50), st.integers(1, 3))
def test_forward_is_the_formula_and_freezing_changes_nothing(seed: int, outputs: int) -> None:
    head, e = head_and_features(seed, outputs)
    written = torch.stack(
        [
            sum(
                w * torch.sigmoid(2.0 * e @ v) * (e @ v)
                for w, v in zip(head.last[j], head.block[j], strict=True)
            )
            for j in range(outputs)
        ],
        1,
    )
    torch.testing.assert_close(head(e), written)
    head.freeze_gates()
    torch.testing.assert_close(head(e), written)
    with torch.no_grad():
        head.block.mul_(3.0)
    torch.testing.assert_close(head(e), 3 * written)


def test_jacobian_and_kernel_are_those_of_autograd() -> None:
    head, e = head_and_features()
    head.freeze_gates()

    def outputs(block: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(
            head, {"block": block, "last": head.last, "frozen": head.frozen}, (e,)
        )

    dense = jacobian(outputs, head.block.detach())  # (n, outputs, outputs, hidden, features)
    for j in range(2):
        torch.testing.assert_close(head.jacobian(e)[j], dense[:, j, j].flatten(1))
        assert dense[:, j, 1 - j].abs().max() == 0
        weighted = (head.gates(e)[j] * head.last[j]).detach().numpy()
        by_scipy = scipy.linalg.khatri_rao(weighted.T, e.numpy().T).T
        torch.testing.assert_close(head.jacobian(e)[j].detach(), torch.from_numpy(by_scipy))
    torch.testing.assert_close(head.kernel(e), head.jacobian(e) @ head.jacobian(e).mT)


def test_the_bound_is_one() -> None:
    head, e = head_and_features()
    exact = 2 / len(e) * torch.linalg.matrix_norm(head.jacobian(e), 2).max() ** 2
    rows = head.jacobian(e).square().sum(-1).amax(0).mean()
    torch.testing.assert_close(head.smoothness_bound(e, 2.0), 2 * rows)
    assert head.smoothness_bound(e, 2.0) >= exact


def test_sharpness_one_is_silu_and_state_travels() -> None:
    head = GatedHead(4, 3, generator=torch.Generator().manual_seed(1))
    e = torch.randn(5, 4, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(head(e)[:, 0], torch.nn.functional.silu(e @ head.block[0].T) @ head.last[0])
    head.freeze_gates()
    assert "frozen" in head.state_dict() and head.double().frozen.dtype == torch.float64


@pytest.mark.parametrize("arguments", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (1.5, 1, 1)])
def test_refusals(arguments: tuple) -> None:
    with pytest.raises(ValueError, match="allowed"):
        GatedHead(*arguments)
    with pytest.raises(ValueError, match="sharpness"):
        GatedHead(1, 1, sharpness=0.0)
    head, e = head_and_features()
    with pytest.raises(ValueError, match="curvature"):
        head.smoothness_bound(e, 0.0)
