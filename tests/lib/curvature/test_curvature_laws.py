"""Output laws against torch's losses and distributions, automatic derivatives, and sums over all targets."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy import polynomial
from torch import Tensor, nn
from torch.distributions import Bernoulli as TorchBernoulli
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import Normal as TorchNormal
from torch.distributions import Poisson as TorchPoisson

from learning_dynamics.curvature import (
    Bernoulli,
    Categorical,
    HeteroscedasticGaussian,
    OutputLaw,
    Poisson,
    SquaredError,
)
from learning_dynamics.curvature.torch_losses import as_terms

laws = st.sampled_from([SquaredError(), Categorical(), Bernoulli(), Poisson(), HeteroscedasticGaussian()])

TORCH_LOSSES = {
    SquaredError: nn.MSELoss(),
    Categorical: nn.CrossEntropyLoss(),
    Bernoulli: nn.BCEWithLogitsLoss(),
    Poisson: nn.PoissonNLLLoss(),
    HeteroscedasticGaussian: nn.GaussianNLLLoss(),
}


def torch_loss(law: OutputLaw, outputs: Tensor, targets: Tensor) -> Tensor:
    """Torch's own mean loss, the independent reference."""
    if isinstance(law, HeteroscedasticGaussian):
        mean, log_variance = outputs.chunk(2, -1)
        return TORCH_LOSSES[type(law)](mean, targets, log_variance.exp())
    return TORCH_LOSSES[type(law)](outputs, targets)


def log_likelihood(law: OutputLaw, outputs: Tensor, targets: Tensor) -> Tensor:
    """Torch's own distributions."""
    match law:
        case SquaredError():
            return TorchNormal(outputs, 1.0).log_prob(targets).sum(-1)
        case Categorical():
            return TorchCategorical(logits=outputs).log_prob(targets)
        case Bernoulli():
            return TorchBernoulli(logits=outputs).log_prob(targets).sum(-1)
        case Poisson():
            return TorchPoisson(outputs.exp()).log_prob(targets).sum(-1)
    mean, log_variance = outputs.chunk(2, -1)
    return TorchNormal(mean, (log_variance / 2).exp()).log_prob(targets).sum(-1)


def example(law: OutputLaw, seed: int, n: int = 3, width: int = 4) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    outputs = torch.randn(n, width, generator=random, dtype=torch.float64)
    return outputs, law.sample(outputs, 1, random)[0]


@given(laws, st.integers(0, 10_000))
def test_the_loss_is_the_negative_log_likelihood_up_to_a_constant(law, seed):
    outputs, targets = example(law, seed)
    other = outputs.flip(-1)
    found = law.loss(outputs, targets) - law.loss(other, targets)
    expected = log_likelihood(law, other, targets) - log_likelihood(law, outputs, targets)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@given(laws, st.integers(0, 10_000))
def test_gradient_and_hessian_are_the_derivatives_of_torchs_loss(law, seed):
    outputs, targets = example(law, seed, n=1)
    found = as_terms(TORCH_LOSSES[type(law)], outputs, targets)
    scale = found.scale
    assert found.law == law and found.weights is None and found.divisor == 1
    loss = lambda f: torch_loss(law, f[None], targets)  # noqa: E731
    gradient = torch.func.grad(loss)(outputs[0])
    hessian = torch.autograd.functional.hessian(loss, outputs[0])
    torch.testing.assert_close(scale * law.gradient(outputs, targets)[0], gradient, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(scale * law.hessian(outputs, targets)[0], hessian, rtol=1e-12, atol=1e-12)


def all_targets(law: OutputLaw, outputs: Tensor) -> tuple[Tensor, Tensor]:
    """Every target of one output `(d_y)` with its probability: exact, or to rounding (counts, Gauss-Hermite)."""
    width = len(outputs)
    if isinstance(law, Categorical):
        return torch.arange(width), outputs.softmax(-1)
    if isinstance(law, Bernoulli | Poisson):
        values = torch.arange(2.0 if isinstance(law, Bernoulli) else 80.0, dtype=torch.float64)
        targets = torch.cartesian_prod(*[values] * width)
        return targets, log_likelihood(law, outputs.expand(len(targets), -1), targets).exp()
    nodes, weights = (torch.from_numpy(a) for a in polynomial.hermite_e.hermegauss(12))
    mean, deviation = outputs, torch.ones_like(outputs)
    if isinstance(law, HeteroscedasticGaussian):
        mean, deviation = outputs.chunk(2)[0], (outputs.chunk(2)[1] / 2).exp()
    grid = torch.cartesian_prod(*[nodes] * len(mean)).reshape(-1, len(mean))
    chances = torch.cartesian_prod(*[weights / math.sqrt(2 * math.pi)] * len(mean)).reshape(-1, len(mean))
    return mean + deviation * grid, chances.prod(-1)


@given(laws, st.integers(0, 10_000))
def test_fisher_is_the_mean_over_all_targets_of_outer_products_and_of_hessians(law, seed):
    outputs = example(law, seed, n=1, width=2)[0]
    targets, p = all_targets(law, outputs[0])
    torch.testing.assert_close(p.sum(), torch.ones((), dtype=torch.float64), rtol=1e-10, atol=0)
    scores = law.gradient(outputs.expand(len(p), -1), targets)
    hessians = law.hessian(outputs.expand(len(p), -1), targets)
    fisher = law.fisher(outputs)[0]
    torch.testing.assert_close(torch.einsum("t,ti,tj->ij", p, scores, scores), fisher, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(torch.einsum("t,tij->ij", p, hessians), fisher, rtol=1e-9, atol=1e-9)
    assert torch.linalg.eigvalsh(fisher).min() > -1e-12


@pytest.mark.parametrize("law", TORCH_LOSSES, ids=lambda law: law.__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_of_sampled_targets_have_mean_zero_and_covariance_fisher(law, dtype):
    law, samples = law(), 40_000
    outputs = torch.tensor([[0.3, -0.5], [1.0, 0.2]], dtype=dtype)
    random = torch.Generator().manual_seed(0)
    targets = law.sample(outputs, samples, random)
    scores = law.gradient(outputs.expand(samples, -1, -1), targets)
    assert scores.dtype == dtype
    fisher = law.fisher(outputs)
    deviation = (torch.diagonal(fisher, dim1=-2, dim2=-1) / samples).sqrt()
    assert (scores.mean(0).abs() <= 3.9 * deviation).all()  # four means: 99.9 % together needs 3.66
    products = scores[..., :, None] * scores[..., None, :]
    assert ((products.mean(0) - fisher).abs() <= 4.5 * products.std(0) / samples**0.5 + 1e-6).all()


def test_the_hessian_of_the_heteroscedastic_law_has_a_negative_eigenvalue():
    law = HeteroscedasticGaussian()
    outputs, targets = torch.zeros(1, 2), torch.ones(1, 1)
    assert torch.linalg.eigvalsh(law.hessian(outputs, targets))[0, 0] < -0.1


def test_targets_without_the_last_axis_are_taken_where_its_length_is_one():
    outputs, targets = torch.randn(5, 1), torch.rand(5)
    for law in (SquaredError(), Bernoulli(), Poisson()):
        assert law.loss(outputs, targets).shape == (5,)
        torch.testing.assert_close(law.loss(outputs, targets), law.loss(outputs, targets[:, None]))


def test_soft_targets_of_the_categorical_law():
    outputs, targets = torch.randn(5, 3), torch.rand(5, 3).softmax(-1)
    expected = nn.CrossEntropyLoss()(outputs, targets)
    torch.testing.assert_close(Categorical().loss(outputs, targets).mean(), expected)
    classes = torch.tensor([0, 2, 1, 1, 0])
    hard = nn.functional.one_hot(classes, 3).float()
    torch.testing.assert_close(
        Categorical().gradient(outputs, classes), Categorical().gradient(outputs, hard)
    )


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (nn.CrossEntropyLoss(reduction="none"), "reduction = 'none'"),
        (nn.PoissonNLLLoss(log_input=False), "log_input = False"),
        (nn.L1Loss(), "law is a L1Loss"),
        ("mse", "law is a str"),
    ],
)
def test_losses_without_a_law_are_refused(loss, message):
    with pytest.raises(ValueError, match=message) as error:
        as_terms(loss, torch.zeros(2, 3), torch.zeros(2, 3))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("law", "targets", "message"),
    [
        (SquaredError(), torch.zeros(2), "shape"),
        (SquaredError(), torch.zeros(3, 2), "shape"),
        (SquaredError(), torch.full((2, 4), math.nan), "NaN"),
        (SquaredError(), [1.0], "list"),
        (SquaredError(), torch.zeros(2, 4, dtype=torch.complex64), "complex"),
        (Categorical(), torch.tensor([0, 4]), "classes from 0 to 4; allowed: 0 to 3"),
        (Categorical(), torch.tensor([0, -100]), "from -100"),
        (Categorical(), torch.tensor([0.0, 1.0]), "shape"),
        (Categorical(), torch.ones(2, 4), "probability"),
        (Categorical(), torch.ones(2, 4, dtype=torch.int64), "class indices"),
        (Categorical(), [0, 1], "list"),
        (Bernoulli(), torch.full((2, 4), 1.5), "reach from 1.5"),
        (Poisson(), torch.full((2, 4), -1.0), "reach from -1"),
        (HeteroscedasticGaussian(), torch.zeros(2, 4), "shape"),
    ],
)
def test_wrong_targets_are_refused(law, targets, message):
    with pytest.raises(ValueError, match=message) as error:
        law.checked(torch.zeros(2, 4), targets)
    assert "\n" not in str(error.value)


def test_other_wrong_arguments():
    random = torch.Generator()
    for samples in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="samples = "):
            SquaredError().sample(torch.zeros(2, 3), samples, random)
    with pytest.raises(ValueError, match="generator is a NoneType"):
        SquaredError().sample(torch.zeros(2, 3), 1, None)
    with pytest.raises(ValueError, match="width 3"):
        HeteroscedasticGaussian().fisher(torch.zeros(2, 3))
    assert repr(Poisson()) == "Poisson()" and len({Poisson(), Poisson(), Bernoulli()}) == 2
