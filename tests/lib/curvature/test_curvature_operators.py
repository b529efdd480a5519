"""Curvature operators against dense matrices made by torch.autograd, sample by sample, on random small networks."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from learning_dynamics import curvature


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)  # first weights of layers that no test draws itself


ACTIVATIONS = [nn.Tanh, nn.ReLU, nn.GELU, nn.Sigmoid]
LOSSES = [nn.MSELoss, nn.CrossEntropyLoss, nn.BCEWithLogitsLoss, nn.PoissonNLLLoss]


class Problem(NamedTuple):
    model: nn.Module
    loss: nn.Module
    inputs: Tensor
    targets: Tensor

    @property
    def weights(self) -> list[Tensor]:
        return [p for p in self.model.parameters() if p.requires_grad]


@st.composite
def problems(draw) -> Problem:
    """A fully connected network of random widths, depth, activation, biases, and loss."""
    widths = draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    random = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))
    layers = []
    for i, (fan_in, fan_out) in enumerate(zip(widths, widths[1:], strict=False)):
        layers += [draw(st.sampled_from(ACTIVATIONS))()] if i else []
        layers += [nn.Linear(fan_in, fan_out, bias=draw(st.booleans()))]
    model = nn.Sequential(*layers).double()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(generator=random)
    return with_data(model, draw(st.sampled_from(LOSSES))(), (widths[0],), random, draw(st.integers(1, 5)))


def with_data(model: nn.Module, loss: nn.Module, shape: tuple[int, ...], random, n: int) -> Problem:
    kind = next(model.parameters()).dtype
    inputs = torch.randn(n, *shape, generator=random, dtype=kind)
    outputs = model(inputs)
    if isinstance(loss, nn.CrossEntropyLoss):
        targets = torch.randint(outputs.shape[1], (n,), generator=random)
    else:
        targets = torch.rand(outputs.shape, generator=random, dtype=kind).round(decimals=1)
    return Problem(model, loss, inputs, targets)


# the slow twins: one sample, one output, one derivative at a time


def flat(derivatives) -> Tensor:
    return torch.cat([d.reshape(-1) for d in derivatives])


def dense_jacobian(problem: Problem) -> Tensor:
    """J `(n, d_y, d)`, by one call of torch.autograd.grad for each entry of the outputs."""
    outputs = problem.model(problem.inputs)
    rows = [flat(torch.autograd.grad(f, problem.weights, retain_graph=True)) for f in outputs.reshape(-1)]
    return torch.stack(rows).reshape(*outputs.shape, -1)


def dense_hessian(problem: Problem) -> Tensor:
    """The Hessian of torch's mean loss, by torch.autograd.grad of each entry of the gradient."""
    loss = problem.loss(problem.model(problem.inputs), problem.targets)
    gradient = flat(torch.autograd.grad(loss, problem.weights, create_graph=True))
    rows = []
    for entry in gradient:
        if not entry.requires_grad:
            rows.append(torch.zeros_like(gradient))
            continue
        row = torch.autograd.grad(
            entry, problem.weights, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        rows.append(flat(row))
    return torch.stack(rows).detach()


def dense_gauss_newton(problem: Problem) -> Tensor:
    """The mean of J_n^T H_n J_n with H_n from torch.autograd.functional.hessian of torch's loss."""
    terms = []
    outputs = problem.model(problem.inputs).detach()
    for J, f, y in zip(dense_jacobian(problem), outputs, problem.targets, strict=True):
        H = torch.autograd.functional.hessian(lambda f, y=y: problem.loss(f[None], y[None]), f)
        terms.append(J.T @ H @ J)
    return torch.stack(terms).mean(0)


def sample_gradients(problem: Problem) -> Tensor:
    """The gradients of torch's loss of each sample, `(n, d)`."""
    rows = []
    for x, y in zip(problem.inputs, problem.targets, strict=True):
        loss = problem.loss(problem.model(x[None]), y[None])
        rows.append(flat(torch.autograd.grad(loss, problem.weights)))
    return torch.stack(rows)


def close(found: Tensor, expected: Tensor) -> None:
    """Equal within 1000 eps times the largest entry (sums of some tens of products)."""
    size = float(expected.abs().max()) + 1e-30
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected, rtol=0, atol=1000 * torch.finfo(found.dtype).eps * size)


def twins(p: Problem, batch_size: int | None = None) -> list[tuple[curvature.SymmetricOperator, Tensor]]:
    arguments = (p.model, p.loss, p.inputs, p.targets)
    g = sample_gradients(p)
    return [
        (curvature.Hessian(*arguments, batch_size=batch_size), dense_hessian(p)),
        (curvature.GaussNewton(*arguments, batch_size=batch_size), dense_gauss_newton(p)),
        (curvature.Fisher(*arguments[:3], batch_size=batch_size), dense_gauss_newton(p)),
        (curvature.EmpiricalFisher(*arguments, batch_size=batch_size), g.T @ g / len(g)),
    ]


@given(problems(), st.sampled_from([None, 1, 2]))
def test_operators_are_their_dense_twins(problem, batch_size):
    for operator, matrix in twins(problem, batch_size):
        close(operator.dense(), matrix)
        close(operator @ matrix[:, 0], matrix @ matrix[:, 0])  # a vector
        close(operator @ matrix[:, :3], matrix @ matrix[:, :3])  # a block
        close(operator.T.dense(), matrix.T)
        close(operator.diagonal(), matrix.diagonal())
        close(operator.trace(), matrix.trace())


@given(problems())
def test_operators_are_symmetric_and_all_but_the_hessian_positive(problem):
    for operator, matrix in twins(problem):
        dense = operator.dense()
        close(dense, dense.T)
        if not isinstance(operator, curvature.Hessian):
            assert torch.linalg.eigvalsh(dense).min() >= -1e-12 * (1 + matrix.abs().max())


@given(problems(), st.sampled_from([None, 2]))
def test_jacobian_and_its_transpose(problem, batch_size):
    J = curvature.Jacobian(problem.model, problem.inputs, batch_size=batch_size)
    expected = dense_jacobian(problem).reshape(J.shape)
    close(J.dense(), expected)
    close(J.T.dense(), expected.T)
    close(J.T.T @ expected[0], expected @ expected[0])
    close(J @ J.T.dense(), expected @ expected.T)
    close(J.outputs, problem.model(problem.inputs).detach())


@given(problems())
def test_gradients(problem):
    arguments = (problem.model, problem.loss, problem.inputs, problem.targets)
    expected = sample_gradients(problem)
    close(curvature.per_sample_gradients(*arguments), expected)
    loss, gradient = curvature.loss_and_gradient(*arguments)
    close(gradient, expected.mean(0))
    close(loss, problem.loss(problem.model(problem.inputs), problem.targets).detach())


def network(dtype: torch.dtype = torch.float64, seed: int = 0, n: int = 6) -> Problem:
    random = torch.Generator().manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)).to(dtype)
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(generator=random)
    return with_data(model, nn.CrossEntropyLoss(), (3,), random, n)


def test_single_precision_stays_single():
    for operator, matrix in twins(network(torch.float32)):
        assert operator.dtype == torch.float32 and operator.device.type == "cpu"
        close(operator.dense(), matrix)
        assert operator.top_eigenvalues(2).dtype == torch.float32
        assert operator.solve(matrix[0], damping=1.0).x.dtype == torch.float32


def test_some_parameters_give_the_diagonal_block_of_their_layer():
    p = network()
    arguments = (p.model, p.loss, p.inputs, p.targets)
    for kind in (curvature.Hessian, curvature.GaussNewton):
        whole = kind(*arguments).dense()
        last = kind(*arguments, parameters=p.model[2].parameters()).dense()
        close(last, whole[16:, 16:])
        close(kind(*arguments, parameters=["2.weight", "2.bias"]).dense(), last)
        swapped = kind(*arguments, parameters=[p.model[2].bias, p.model[2].weight]).dense()
        close(swapped[:3, :3], whole[28:, 28:])
        close(kind(*arguments, parameters="0.bias").dense(), whole[12:16, 12:16])
    p.model[0].requires_grad_(False)
    close(
        curvature.Hessian(*arguments).dense(),
        curvature.Hessian(*arguments, parameters=["2.weight", "2.bias"]).dense(),
    )


def test_an_unused_parameter_has_a_zero_block():
    class Unused(nn.Module):
        def __init__(self, used: nn.Module):
            super().__init__()
            self.free = nn.Parameter(torch.ones(2, dtype=torch.float64))
            self.used = used

        def forward(self, x):
            return self.used(x)

    p = network()
    for kind in (curvature.Hessian, curvature.GaussNewton, curvature.EmpiricalFisher):
        found = kind(Unused(p.model), p.loss, p.inputs, p.targets).dense()
        assert not found[:2].any() and not found[:, :2].any()
        close(found[2:, 2:], kind(p.model, p.loss, p.inputs, p.targets).dense())


@pytest.mark.parametrize("shared", ["the module", "its tensors"])
def test_shared_parameters_count_once_and_the_model_stays_whole(shared):
    layer, other = nn.Linear(2, 2).double(), nn.Linear(2, 2).double()
    other.weight, other.bias = layer.weight, layer.bias
    model = nn.Sequential(layer, nn.Tanh(), layer if shared == "the module" else other)
    p = with_data(model, nn.MSELoss(), (2,), torch.Generator().manual_seed(0), 4)
    kept = list(p.weights)
    for operator, matrix in twins(p):
        assert operator.shape == (6, 6)
        close(operator.dense(), matrix)
    assert all(now is then for now, then in zip(p.weights, kept, strict=True))


def test_a_formula_in_place_of_a_module():
    theta = torch.tensor([0.5, -1.0, 0.3], dtype=torch.float64)
    x = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None]
    y = torch.sin(3 * x)
    law = curvature.SquaredError()

    def f(theta: Tensor, x: Tensor) -> Tensor:  # one input; a result without axes counts as one output
        return theta[0] * torch.tanh(theta[1] * x[0] + theta[2])

    def loss(theta: Tensor) -> Tensor:
        return 0.5 * (theta[0] * torch.tanh(theta[1] * x + theta[2]) - y).square().mean()

    H = curvature.Hessian((f, theta), law, x, y)
    close(H.dense(), torch.autograd.functional.hessian(loss, theta))
    J = curvature.Jacobian((f, theta), x)
    close(
        J.dense(), torch.autograd.functional.jacobian(lambda t: torch.stack([f(t, x_n) for x_n in x]), theta)
    )
    G = curvature.GaussNewton((f, theta), law, x, y[:, 0])
    close(G.dense(), J.dense().T @ J.dense() / 5)
    assert repr(G) == "GaussNewton(3 x 3, torch.float64, cpu)"


def test_a_linear_model_has_a_hessian_and_a_constant_one_none():
    theta, x, law = torch.tensor([2.0]), torch.tensor([[1.0], [3.0]]), curvature.SquaredError()
    close(curvature.Hessian((lambda t, x: t * x, theta), law, x, x).dense(), torch.tensor([[5.0]]))
    for kind in (curvature.Hessian, curvature.GaussNewton):
        assert not kind((lambda t, x: x, theta), law, x, x).dense().any()


def test_operators_stand_where_they_were_made():
    p = network()
    before = [(operator, operator.dense()) for operator, _ in twins(p)]
    lazy = curvature.GaussNewton(p.model, p.loss, p.inputs, p.targets, batch_size=2)
    first = curvature.Hessian(p.model, p.loss, p.inputs, p.targets, parameters=["0.weight"], batch_size=2)
    before_first = first.dense()  # the other parameters are constants, and copies too
    with torch.no_grad():
        for weight in p.weights:
            weight.add_(1.0)
    for operator, matrix in before:
        assert torch.equal(operator.dense(), matrix)
    close(lazy.dense(), before[1][1])
    assert torch.equal(first.dense(), before_first)
    assert all(weight.grad is None for weight in p.weights)


def test_monte_carlo_fisher_has_the_exact_one_as_its_mean_and_the_empirical_one_has_not():
    p, samples = network(), 4000
    law = curvature.Categorical()
    v = torch.linspace(-1, 1, 31, dtype=torch.float64)
    exact = curvature.Fisher(p.model, law, p.inputs)
    drawn = curvature.Fisher(
        p.model, law, p.inputs, samples=samples, generator=torch.Generator().manual_seed(0)
    )
    probabilities = exact.outputs.softmax(-1)
    squares = []  # (v^T g)^2 for every sample and class: their variance is known, not estimated
    for label in range(3):
        targets = torch.full((len(p.inputs),), label)
        squares.append((sample_gradients(p._replace(targets=targets)) @ v).square())
    squares = torch.stack(squares, 1)
    mean = (probabilities * squares).sum(1)
    variance = (probabilities * (squares - mean[:, None]).square()).sum(1)
    interval = 3.29 * float((variance.sum() / len(mean) ** 2 / samples).sqrt())  # 99.9 %
    close(v @ (exact @ v), mean.mean())
    assert abs(float(v @ (drawn @ v) - mean.mean())) <= interval
    empirical = curvature.EmpiricalFisher(p.model, law, p.inputs, p.targets)
    assert abs(float(v @ (empirical @ v) - mean.mean())) > 3 * interval


def test_monte_carlo_fisher_is_the_second_moment_of_the_gradients_at_the_drawn_targets():
    p, law = network(), curvature.Categorical()
    drawn = curvature.Fisher(p.model, law, p.inputs, samples=2, generator=torch.Generator().manual_seed(5))
    targets = law.sample(p.model(p.inputs), 2, torch.Generator().manual_seed(5))
    g = torch.cat([sample_gradients(p._replace(targets=y)) for y in targets])
    close(drawn.dense(), g.T @ g / len(g))


def test_one_sample_fisher_has_the_rank_of_the_samples_and_is_a_fixed_matrix():
    p = network(n=4)
    one = curvature.Fisher(p.model, p.loss, p.inputs, samples=1, generator=torch.Generator().manual_seed(3))
    again = curvature.Fisher(p.model, p.loss, p.inputs, samples=1, generator=torch.Generator().manual_seed(3))
    assert torch.linalg.matrix_rank(one.dense()) <= 4
    assert torch.equal(one.dense(), one.dense()) and torch.equal(one.dense(), again.dense())


def test_gauss_newton_is_not_the_fisher_for_the_heteroscedastic_law():
    random = torch.Generator().manual_seed(0)
    model = nn.Linear(2, 4).double()
    x, y = torch.randn(6, 2, generator=random).double(), torch.randn(6, 2, generator=random).double()
    law = curvature.HeteroscedasticGaussian()
    G, F = curvature.GaussNewton(model, law, x, y), curvature.Fisher(model, law, x)
    assert torch.linalg.eigvalsh(G.dense()).min() < -1e-3
    assert torch.linalg.eigvalsh(F.dense()).min() > -1e-12
    close(G.diagonal(), G.dense().diagonal())
    mean_loss = nn.GaussianNLLLoss()
    expected = torch.autograd.functional.hessian(
        lambda W: mean_loss((x @ W[:, :2] + model.bias[:2]), y, (x @ W[:, 2:] + model.bias[2:]).exp()),
        model.weight.detach().T.contiguous(),
    )  # a linear model: its Gauss-Newton matrix is its Hessian
    found = curvature.GaussNewton(model, mean_loss, x, y, parameters=["weight"]).dense()
    close(found, expected.permute(1, 0, 3, 2).reshape(8, 8))


def test_hutchinsons_estimates_lie_in_their_intervals():
    p, samples = network(), 4000
    G = curvature.GaussNewton(p.model, p.loss, p.inputs, p.targets)
    dense = G.dense()
    off = dense - torch.diag(dense.diagonal())
    deviation = (off.square().sum(1) / samples).sqrt()
    found = G.diagonal(samples, torch.Generator().manual_seed(0))
    assert ((found - dense.diagonal()).abs() <= 4.2 * deviation).all()  # 31 entries, 99.9 % together
    spread = float((2 * off.square().sum() / samples).sqrt())
    assert abs(float(G.trace(samples, torch.Generator().manual_seed(1)) - dense.trace())) <= 3.29 * spread


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.read = nn.Embedding(5, 4), nn.Linear(4, 2)
        self.mix = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x):
        h = self.tokens(x)
        return self.read((h + self.mix(h, h, h, need_weights=False)[0]).mean(1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.read = nn.GRU(2, 3, batch_first=True), nn.Linear(3, 2)

    def forward(self, x):
        return self.read(self.cell(x)[0][:, -1])


@pytest.mark.parametrize("kind", ["convolution", "attention", "recurrent"])
def test_other_modules(kind):
    random = torch.Generator().manual_seed(0)
    targets = torch.tensor([0, 1, 1])
    inputs = torch.randn(3, 1, 5, 5, generator=random).double()
    filters = [nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*filters, nn.Flatten(), nn.Linear(8, 2))
    if kind == "attention":
        model, inputs = Attention(), torch.randint(5, (3, 4), generator=random)
    if kind == "recurrent":
        model, inputs = Recurrent(), torch.randn(3, 4, 2, generator=random).double()
    p = Problem(model.double().eval(), nn.CrossEntropyLoss(), inputs, targets)
    g = sample_gradients(p)
    close(curvature.per_sample_gradients(p.model, p.loss, inputs, targets), g)
    G = curvature.GaussNewton(p.model, p.loss, inputs, targets)
    close(
        G.dense(),
        dense_gauss_newton(p) if kind != "attention" else curvature.Fisher(p.model, p.loss, inputs).dense(),
    )
    close(G.diagonal(), G.dense().diagonal())
    H = curvature.Hessian(p.model, p.loss, inputs, targets)
    v = torch.ones(H.shape[0], dtype=torch.float64)
    step = 1e-5
    moved = []
    for sign in (1, -1):
        with torch.no_grad():
            for weight in p.weights:
                weight.add_(sign * step)
        moved.append(curvature.loss_and_gradient(p.model, p.loss, inputs, targets)[1])
        with torch.no_grad():
            for weight in p.weights:
                weight.sub_(sign * step)
    torch.testing.assert_close(H @ v, (moved[0] - moved[1]) / (2 * step), rtol=1e-4, atol=1e-7)


def test_against_curvlinops():
    curvlinops = pytest.importorskip("curvlinops")
    p = network(torch.float32)
    loader = [(p.inputs, p.targets)]
    for ours, theirs in (
        (curvature.Hessian, curvlinops.HessianLinearOperator),
        (curvature.GaussNewton, curvlinops.GGNLinearOperator),
        (curvature.EmpiricalFisher, curvlinops.EFLinearOperator),
    ):
        A = ours(p.model, p.loss, p.inputs, p.targets)
        close(A.dense(), theirs(p.model, p.loss, p.weights, loader) @ torch.eye(A.shape[0]))
