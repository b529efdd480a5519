"""SPS, DecSPS, NGN, AdaGrad-Norm: rules and torch optimizers against each other, a written-out loop, and their laws."""

from __future__ import annotations

import copy
import io
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from learning_dynamics import ensembles, optimizers, rules

seeds = st.integers(0, 10_000)
positive = st.floats(1e-3, 1e3)
STEPS = 25

# name: (rule, torch optimizer), with the same settings
PAIRS = {
    "sps": (
        lambda lr: rules.SPS(lr, c=0.7, lower_bound=0.01),
        lambda p, lr: optimizers.SPS(p, lr, c=0.7, lower_bound=0.01),
    ),
    "decsps": (
        lambda lr: rules.DecSPS(lr, c0=1.3, lower_bound=0.01),
        lambda p, lr: optimizers.DecSPS(p, lr, c0=1.3, lower_bound=0.01),
    ),
    "ngn": (lambda lr: rules.NGN(lr), lambda p, lr: optimizers.NGN(p, lr)),
    "ngn_momentum": (
        lambda lr: rules.NGN(lr, 0.8, lower_bound=0.01),
        lambda p, lr: optimizers.NGN(p, lr, 0.8, lower_bound=0.01),
    ),
    "adagrad_norm": (
        lambda lr: rules.AdaGradNorm(lr, b0=0.3),
        lambda p, lr: optimizers.AdaGradNorm(p, lr, b0=0.3),
    ),
}
both_forms = pytest.mark.parametrize(("make_rule", "make_optimizer"), PAIRS.values(), ids=PAIRS)
any_optimizer = pytest.mark.parametrize("make", [pair[1] for pair in PAIRS.values()], ids=PAIRS)
LOSS_OPTIMIZERS = (optimizers.SPS, optimizers.DecSPS, optimizers.NGN)


class Net:
    """A small tanh network on random data, with one batch per step; float64."""

    def __init__(self, seed: int, dtype: torch.dtype = torch.float64):
        random = torch.Generator().manual_seed(seed)
        self.X = torch.randn(40, 3, generator=random, dtype=torch.float64).to(dtype)
        self.y = torch.sin(2 * self.X.sum(-1)) + 0.3
        self.batches = torch.randint(40, (STEPS, 8), generator=random)
        self.parameters = [
            nn.Parameter(torch.randn(shape, generator=random, dtype=torch.float64).to(dtype))
            for shape in ((5, 3), (5,), (5,), ())
        ]

    def loss(self, k: int, parameters: list[Tensor] | None = None) -> Tensor:
        W, b, v, shift = self.parameters if parameters is None else parameters
        rows = self.batches[k % STEPS]
        return ((torch.tanh(self.X[rows] @ W.T + b) @ v + shift - self.y[rows]) ** 2).mean()

    def vector(self) -> Tensor:
        return torch.cat([p.detach().reshape(-1) for p in self.parameters])

    def oracle(self, theta: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Loss and gradient of one run `theta (d)` by autograd."""
        theta = theta.detach().requires_grad_()
        shapes = [p.shape for p in self.parameters]
        pieces = theta.split([shape.numel() for shape in shapes])
        loss = self.loss(k, [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)])
        return loss.detach(), torch.autograd.grad(loss, theta)[0]


def train(net: Net, optimizer, steps: int = STEPS, start: int = 0, scheduler=None) -> tuple[Tensor, list]:
    """Return the iterates and the step sizes."""
    path, sizes = [net.vector()], []
    for k in range(start, start + steps):
        loss = net.loss(k)
        optimizer.zero_grad()
        loss.backward()
        assert optimizer.step(loss=loss) is loss
        if scheduler is not None:
            scheduler.step()
        path.append(net.vector())
        sizes.append(optimizer.param_groups[0]["step_size"])
    return torch.stack(path), sizes


# --- both forms, and a loop that writes the source's formulas out ---


@both_forms
@given(seeds, st.floats(0.02, 3.0))
def test_both_forms_agree_step_by_step(make_rule, make_optimizer, seed, lr):
    """Each step from the same point, so that rounding is not amplified by the path."""
    net, rule = Net(seed), make_rule(lr)
    optimizer, state = make_optimizer(net.parameters, lr), make_rule(lr).start(net.vector())
    for k in range(STEPS):
        theta = net.vector()
        loss, gradient = net.oracle(theta, k)
        moved, state = rule.step(theta, gradient, state, *([loss] if getattr(rule, "needs_loss", 0) else []))
        train(net, optimizer, 1, k)
        torch.testing.assert_close(net.vector(), moved, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(
            optimizer.param_groups[0]["step_size"], float(state.step_size), rtol=1e-12, atol=0
        )


def written_out(name: str, net: Net, lr: float) -> Tensor:
    """The algorithms as the sources print them, with Python numbers."""
    theta, previous, path = net.vector(), net.vector(), [net.vector()]
    c_before, eta_before, b = 1.3, lr, 0.3
    for k in range(STEPS):
        loss, gradient = net.oracle(theta, k)
        f, square = float(loss), sum(float(g) ** 2 for g in gradient)
        beta = 0.0
        if name == "sps":
            eta = min((f - 0.01) / (0.7 * square), lr)
        elif name == "decsps":
            c = 1.3 * math.sqrt(k + 1)
            eta = min((f - 0.01) / square, c_before * eta_before) / c
            c_before, eta_before = c, eta
        elif name == "ngn":
            eta = lr / (1 + lr / (2 * f) * square)
        elif name == "ngn_momentum":
            eta, beta = lr / (1 + lr / (2 * (f - 0.01)) * square), 0.8
        else:
            b = math.sqrt(b**2 + square)
            eta = lr / b
        theta, previous = theta - (1 - beta) * eta * gradient + beta * (theta - previous), theta
        path.append(theta)
    return torch.stack(path)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("lr", [0.05, 0.7])
def test_both_forms_are_the_written_out_loop(name, lr):
    make_rule, make_optimizer = PAIRS[name]
    expected = written_out(name, Net(1), lr)
    path, _ = train(net := Net(1), make_optimizer(net.parameters, lr))
    torch.testing.assert_close(path, expected, rtol=1e-9, atol=1e-9)
    run = ensembles.iterate(make_rule(lr), (net := Net(1)).oracle, net.vector(), STEPS, range(STEPS + 1))
    torch.testing.assert_close(run.values, expected, rtol=1e-9, atol=1e-9)


# --- laws ---


@given(positive, st.floats(0, 1e3), positive, st.floats(1e-3, 1e3))
def test_ngn_lies_between_zero_and_its_cap_and_twice_the_polyak_step(f, square, cap, scale):
    """The step is half the harmonic mean of the cap and 2f/|g|^2; and the loss may be measured in other units."""
    f, square = torch.tensor(f, dtype=torch.float64), torch.tensor(square, dtype=torch.float64)
    eta = rules.ngn_step_size(f, square, cap)
    rounding = 1 + 1e-12
    assert 0 <= eta <= cap * rounding
    assert eta <= 2 * rules.sps_step_size(f, square, math.inf) * rounding or square == 0
    assert eta >= min(cap, float(2 * f / square) if square else math.inf) / 2 / rounding
    # f -> s f is cap -> s cap with the step divided by s
    scaled = rules.ngn_step_size(scale * f, scale**2 * square, cap / scale)
    torch.testing.assert_close(scaled, eta / scale, rtol=1e-10, atol=0)


def test_ngn_is_zero_where_loss_and_gradient_underflow():
    tiny = torch.tensor(5e-324, dtype=torch.float64)
    assert rules.ngn_step_size(torch.zeros_like(tiny), tiny, 0.25) == 0
    assert rules.ngn_step_size(torch.zeros_like(tiny), torch.zeros_like(tiny), 0.25) == 0.25


@given(positive, st.floats(1e-3, 1e3), positive, st.floats(0.1, 10), st.floats(-2, 2))
def test_sps_is_capped_and_knows_only_the_gap(f, square, cap, c, shift):
    f, square = torch.tensor(f, dtype=torch.float64), torch.tensor(square, dtype=torch.float64)
    eta = rules.sps_step_size(f, square, cap, c)
    assert 0 < eta <= cap and eta <= f / (c * square) * (1 + 1e-12)
    assert eta == cap or torch.isclose(eta, f / (c * square), rtol=1e-12)
    torch.testing.assert_close(
        rules.sps_step_size(f + shift, square, cap, c, shift),
        eta,
        rtol=1e-11,
        atol=1e-14 / square.item(),
    )


@given(seeds, st.floats(0.1, 100), st.floats(0.2, 5))
def test_decsps_steps_fall_within_the_lemmas_bounds(seed, cap, c0):
    """min{1/(2 c_k L), c_0 cap/c_k} <= eta_k <= c_0 cap/c_k, and eta_k never grows (Lemma 4.2.1 of the thesis)."""
    random = torch.Generator().manual_seed(seed)
    curvature = 0.1 + 5 * torch.rand(12, generator=random, dtype=torch.float64)
    centre = torch.randn(12, 4, generator=random, dtype=torch.float64)
    rows = torch.randint(12, (60,), generator=random)

    def oracle(theta: Tensor, k: int):
        i = rows[k]
        away = theta - centre[i]
        return curvature[i] / 2 * away.square().sum(-1), curvature[i] * away

    rule = rules.DecSPS(cap, c0)
    run = ensembles.iterate(rule, oracle, centre[:3], 60, range(61), watch=lambda s: s.step_size)
    eta = run.watched[1:]
    c = c0 * torch.arange(1, 61, dtype=torch.float64).sqrt()[:, None]
    assert run.watched[0].isnan().all()
    assert (eta <= c0 * cap / c * (1 + 1e-12)).all()
    assert (eta >= (1 / (2 * c * curvature.max())).minimum(c0 * cap / c) * (1 - 1e-12)).all()
    assert (eta.diff(dim=0) <= 0).all()


def test_decsps_finds_the_minimizer_that_decreasing_sps_misses():
    """Two parabolas with curvatures 2 and 1 at +1 and -1: the minimizer is 1/3, SPS ends at 0."""
    random = torch.Generator().manual_seed(0)
    side = torch.randint(2, (4000, 32), generator=random)
    curvature, centre = torch.tensor([2.0, 1.0]).double(), torch.tensor([1.0, -1.0]).double()

    def oracle(theta: Tensor, k: int):
        a, away = curvature[side[k]], theta[..., 0] - centre[side[k]]
        return a / 2 * away**2, (a * away)[..., None]

    def end(rule) -> float:
        run = ensembles.iterate(rule, oracle, torch.ones(32, 1).double(), 4000, range(3000, 4001, 50))
        return float(run.values.mean())

    assert abs(end(rules.SPS(10.0, lambda k: (k + 1) ** 0.5))) < 0.05
    assert abs(end(rules.DecSPS()) - 1 / 3) < 0.05
    assert abs(end(rules.NGN(lambda k: 1 / (k + 1) ** 0.5)) - 1 / 3) < 0.05


def test_ngn_never_diverges_where_gradient_descent_does():
    sigma = torch.tensor([[0.1], [10.0], [1e4]], dtype=torch.float64)
    curvature = torch.tensor([1.0, 0.1], dtype=torch.float64)

    def oracle(theta: Tensor, k: int):
        return (curvature * theta**2).sum(-1) / 2, curvature * theta

    start = torch.ones(3, 2, dtype=torch.float64)
    ngn = ensembles.iterate(rules.NGN(sigma), oracle, start, 3000)
    gd = ensembles.iterate(rules.GradientDescent(sigma), oracle, start, 3000)
    assert not ngn.diverged.any() and (ngn.last.abs() < 1e-10).all()
    assert gd.diverged.tolist() == [False, True, True]


# --- hyper-parameters, states, edges of the rules ---


def test_every_hyperparameter_may_be_a_grid_or_a_schedule():
    low, high = 0.3, 0.9
    grid = torch.tensor([[low], [high]], dtype=torch.float64)
    for make in (
        lambda b: rules.SPS(b, b, b / 10),
        lambda b: rules.DecSPS(b, b, b / 10),
        lambda b: rules.NGN(b, b, b / 10),
        lambda b: rules.AdaGradNorm(b, b),
        lambda b: rules.AdaGrad(b, b),
        lambda b: rules.AMSGrad(b / 10, b, b, b),
        lambda b: rules.SPS(lambda k: b / (k + 1), lambda k: b * (k + 1), lambda k: b / (k + 10)),
        lambda b: rules.NGN(lambda k: b / (k + 1), 0.1, lambda k: b / (k + 10)),
        lambda b: rules.DecSPS(b, b, lambda k: b / (k + 10), lambda k: (k + 1) ** 0.3),
    ):
        together = ensembles.iterate(make(grid), pair, torch.ones(2, 3).double(), 12, range(13))
        alone = [ensembles.iterate(make(b), pair, torch.ones(3).double(), 12, range(13)) for b in (low, high)]
        torch.testing.assert_close(together.values, torch.stack([run.values for run in alone], 1))


def pair(theta: Tensor, k: int) -> tuple[Tensor, Tensor]:
    return torch.cosh(theta).sum(-1), torch.sinh(theta)


def test_float32_stays_float32_and_nothing_is_changed_in_place():
    grid = torch.tensor([[0.1], [0.2]], dtype=torch.float64)
    for rule in (
        rules.SPS(grid, grid, grid),
        rules.SPS(0.1),
        rules.DecSPS(grid, grid, grid),
        rules.DecSPS(),
        rules.NGN(grid, grid, grid),
        rules.NGN(0.1),
        rules.AdaGradNorm(grid, grid),
        rules.AdaGrad(grid, grid),
        rules.AMSGrad(grid, grid, grid, grid),
    ):
        theta, gradient, loss = torch.ones(2, 3), torch.full((2, 3), 0.5), torch.ones(2, dtype=torch.float64)
        state = rule.start(theta)
        for _ in range(2):
            moved, state = rule.step(
                theta, gradient, state, *([loss] if getattr(rule, "needs_loss", 0) else [])
            )
        assert moved.dtype == torch.float32 and moved.shape == theta.shape and state.step == 2
        assert theta.eq(1).all() and gradient.eq(0.5).all()
        if hasattr(state, "step_size"):
            assert state.step_size.shape == (2,) and state.step_size.dtype == torch.float32


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: rules.SPS(0.0), "cap = 0.0"),
        (lambda: rules.SPS(-1.0), "cap = -1.0"),
        (lambda: rules.SPS(math.nan), "cap = nan"),
        (lambda: rules.SPS("1"), "cap = '1'"),
        (lambda: rules.SPS(1.0, c=0), "c = 0"),
        (lambda: rules.SPS(1.0, c=math.inf), "c = inf"),
        (lambda: rules.SPS(1.0, lower_bound=-math.inf), "lower_bound = -inf"),
        (lambda: rules.SPS(torch.tensor([[1.0], [0.0]])), "cap = "),
        (lambda: rules.DecSPS(cap=0.0), "cap = 0.0"),
        (lambda: rules.DecSPS(cap=math.inf), "cap = inf"),
        (lambda: rules.DecSPS(c0=-1.0), "c0 = -1.0"),
        (lambda: rules.DecSPS(lower_bound=math.nan), "lower_bound = nan"),
        (lambda: rules.NGN(0.0), "cap = 0.0"),
        (lambda: rules.NGN(math.inf), "cap = inf"),
        (lambda: rules.NGN(1.0, 1.0), "momentum = 1.0"),
        (lambda: rules.NGN(1.0, lower_bound=math.inf), "lower_bound = inf"),
        (lambda: rules.AdaGradNorm(1.0, 0.0), "b0 = 0.0"),
        (lambda: rules.AdaGradNorm(-1.0), "step_size = -1.0"),
        (lambda: rules.AdaGrad(epsilon=-1.0), "epsilon = -1.0"),
        (lambda: rules.AMSGrad(beta2=1.0), "beta2 = 1.0"),
    ],
)
def test_bad_hyperparameters_of_a_rule_are_refused(make, name):
    with pytest.raises(ValueError, match=rf"{name}(.|\n)*allowed: "):
        make()


def test_one_value_per_coordinate_is_refused():
    for make in (rules.SPS, rules.DecSPS, rules.NGN):
        with pytest.raises(ValueError, match="has shape"):
            make(torch.tensor([0.1, 0.2]))


def test_a_zero_gradient_moves_nothing():
    """Run 0 stands at a minimum of value 0, run 1 at one above it, run 2 elsewhere."""
    loss, gradient = torch.tensor([0.0, 1.0, 1.0]), torch.tensor([[0.0], [0.0], [2.0]])
    theta = torch.ones(3, 1)
    for rule, reported in (
        (rules.SPS(5.0), 5.0),
        (rules.SPS(math.inf), 0.0),
        (rules.DecSPS(5.0), 5.0),
        (rules.NGN(5.0), 5.0),
    ):
        moved, state = rule.step(theta, gradient, rule.start(theta), loss)
        assert moved[:2].eq(1).all() and moved[2] < 1
        assert state.step_size[:2].eq(reported).all()
    _, state = (rule := rules.DecSPS(5.0)).step(theta, gradient, rule.start(theta), loss)
    assert state.smallest.tolist() == [math.inf, math.inf, 0.25]


def test_a_loss_below_its_bound_makes_no_step_and_nan_is_passed_on():
    loss, gradient, theta = torch.tensor([-1.0, math.nan, 1.0]), torch.ones(3, 1), torch.ones(3, 1)
    for rule in (rules.SPS(5.0), rules.DecSPS(5.0), rules.NGN(5.0)):
        moved, state = rule.step(theta, gradient, rule.start(theta), loss)
        assert moved[0] == 1 and state.step_size[0] == 0
        assert moved[1].isnan() and moved[2] < 1
        nan_gradient, _ = rule.step(theta, gradient * math.nan, rule.start(theta), loss)
        assert nan_gradient.isnan().all()


def test_a_loss_of_the_wrong_shape_is_refused():
    rule, theta = rules.NGN(1.0), torch.ones(2, 3)
    with pytest.raises(ValueError, match=r"loss has shape \(2, 1\); allowed: one per run, \(2,\)"):
        rule.step(theta, theta, rule.start(theta), torch.ones(2, 1))


# --- ensembles with a loss ---


def test_the_pair_from_batched_is_loss_and_gradient():
    random = torch.Generator().manual_seed(3)
    X, y = torch.randn(2, 4, 9, 3, generator=random), torch.randn(2, 4, 9, generator=random)
    theta = torch.randn(2, 4, 3, generator=random)

    def loss(theta: Tensor, X: Tensor, y: Tensor) -> Tensor:
        return ((X @ theta - y) ** 2).mean()

    values, gradient = ensembles.batched(loss, X, y, with_loss=True)(theta, 0)
    assert values.shape == (2, 4)
    torch.testing.assert_close(values, (((X @ theta[..., None])[..., 0] - y) ** 2).mean(-1))
    torch.testing.assert_close(gradient, ensembles.batched(loss, X, y)(theta, 0))


def test_a_plain_rule_ignores_the_loss_and_a_loss_rule_asks_for_it():
    theta = torch.ones(2, 3).double()
    with_loss = ensembles.iterate(rules.GradientDescent(0.1), pair, theta, 5).last
    bare = ensembles.iterate(rules.GradientDescent(0.1), lambda t, k: pair(t, k)[1], theta, 5).last
    assert with_loss.equal(bare)
    with pytest.raises(ValueError, match="gradient returned no loss; allowed for NGN: the pair"):
        ensembles.iterate(rules.NGN(0.1), lambda t, k: t, theta, 5)


def test_a_diverged_run_is_flagged_and_its_watched_values_are_infinite():
    def oracle(theta: Tensor, k: int):
        loss = theta.square().sum(-1)
        return torch.where(torch.tensor([k < 3, True]), loss, torch.nan), 2 * theta

    rule, start = rules.NGN(0.3), torch.ones(2, 1)
    run = ensembles.iterate(rule, oracle, start, 5, range(6), watch=lambda state: state.step_size)
    assert run.diverged.tolist() == [True, False]
    assert run.watched[4:, 0].isinf().all() and run.watched[1:, 1].isfinite().all()
    assert run.watched[1:4].isfinite().all()


def test_watch_must_keep_the_batch_axes_and_is_optional():
    start = torch.ones(2, 1)
    assert ensembles.iterate(rules.GradientDescent(0.1), lambda t, k: t, start, 2).watched is None
    with pytest.raises(ValueError, match="watch returned the shape"):
        ensembles.iterate(rules.NGN(0.3), pair, start, 2, watch=lambda s: s.step_size.mean())


@pytest.mark.parametrize("rule", [rules.NGN(0.5, 0.3), rules.GradientDescent(0.1)])
@pytest.mark.parametrize("weight", [None, lambda j: 1 / (j + 1) ** 0.5])
def test_averaged_is_the_mean_of_the_iterates(rule, weight):
    start = torch.tensor([[1.0, 2.0], [0.5, -1.0]], dtype=torch.float64)
    plain = ensembles.iterate(rule, pair, start, 12, range(13)).values
    averaged = rules.Averaged(rule, weight)
    run = ensembles.iterate(averaged, pair, start, 12, range(13), watch=lambda state: state.mean)
    assert run.values.equal(plain) and run.watched[0].equal(start)
    weights = torch.tensor([1.0 if weight is None else weight(j) for j in range(12)]).double()
    for k in range(1, 13):
        w = weights[:k] / weights[:k].sum()
        torch.testing.assert_close(run.watched[k], (w[:, None, None] * plain[:k]).sum(0))


# --- the rivals against torch ---


@given(seeds, st.floats(1e-4, 0.2), st.floats(0, 0.99), st.floats(0, 0.999), st.floats(1e-10, 1e-2))
def test_amsgrad_and_adagrad_are_torchs(seed, eta, beta1, beta2, epsilon):
    for rule, make in (
        (
            rules.AMSGrad(eta, beta1, beta2, epsilon),
            lambda p: torch.optim.Adam(p, lr=eta, betas=(beta1, beta2), eps=epsilon, amsgrad=True),
        ),
        (rules.AdaGrad(eta, epsilon), lambda p: torch.optim.Adagrad(p, lr=eta, eps=epsilon)),
    ):
        random = torch.Generator().manual_seed(seed)
        parameter = nn.Parameter(torch.randn(6, generator=random, dtype=torch.float64))
        theta, state, optimizer = (
            parameter.detach().clone(),
            rule.start(parameter.detach()),
            make([parameter]),
        )
        for _ in range(30):
            scale = torch.rand((), generator=random) ** 3  # gradients that shrink too: the maximum matters
            parameter.grad = scale * torch.randn(6, generator=random, dtype=torch.float64)
            theta, state = rule.step(theta, parameter.grad, state)
            optimizer.step()
            torch.testing.assert_close(theta, parameter.detach(), rtol=1e-12, atol=1e-12)


def test_defaults_of_the_rivals_are_torchs():
    assert rules.AMSGrad() is not None
    adam, adagrad = (
        make([nn.Parameter(torch.ones(1))]).defaults for make in (torch.optim.Adam, torch.optim.Adagrad)
    )
    rule = rules.AMSGrad()
    assert (rule.step_size, (rule.beta1, rule.beta2), rule.epsilon) == (
        adam["lr"],
        adam["betas"],
        adam["eps"],
    )
    rule = rules.AdaGrad()
    assert (rule.step_size, rule.epsilon) == (adagrad["lr"], adagrad["eps"])


# --- habits of a torch optimizer ---


@any_optimizer
def test_a_closure_is_the_same_as_the_loss(make):
    expected, _ = train(net := Net(2), make(net.parameters, 0.4))
    net = Net(2)
    optimizer = make(net.parameters, 0.4)
    for k in range(STEPS):

        def closure(k=k) -> Tensor:
            optimizer.zero_grad()
            loss = net.loss(k)
            loss.backward()
            return loss

        assert optimizer.step(closure) > 0
    assert net.vector().equal(expected[-1])


@any_optimizer
def test_a_run_goes_on_from_a_saved_state(make):
    expected, sizes = train(net := Net(3), make(net.parameters, 0.4))
    net = Net(3)
    train(net, first := make(net.parameters, 0.4), 10)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = make(net.parameters, 9.0)
    second.load_state_dict(torch.load(file, weights_only=True))
    assert second.state_dict()["param_groups"] == first.state_dict()["param_groups"]
    path, rest = train(net, second, STEPS - 10, 10)
    assert path.equal(expected[10:]) and rest == sizes[10:]
    third = copy.deepcopy(second)
    assert third.state_dict()["param_groups"] == second.state_dict()["param_groups"]


@any_optimizer
def test_groups_with_equal_settings_are_one_vector(make):
    expected, sizes = train(net := Net(4), make(net.parameters, 0.4))
    net = Net(4)
    groups = [{"params": net.parameters[:2]}, {"params": net.parameters[2:]}]
    path, in_groups = train(net, make(groups, 0.4))
    torch.testing.assert_close(path, expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(torch.tensor(in_groups), torch.tensor(sizes), rtol=1e-10, atol=0)


def test_groups_of_their_own():
    """|g|^2 = 1 + 4, loss 2; lr 1 and 3."""

    def after(make) -> list[float]:
        p, q = nn.Parameter(torch.zeros(1).double()), nn.Parameter(torch.zeros(1).double())
        optimizer = make([{"params": [p]}, {"params": [q], "lr": 3.0}])
        p.grad, q.grad = torch.tensor([1.0]).double(), torch.tensor([2.0]).double()
        optimizer.step(loss=2.0)
        sizes = [group["step_size"] for group in optimizer.param_groups]
        assert [-p.item(), -q.item() / 2] == pytest.approx(sizes, rel=1e-15)
        return sizes

    assert after(lambda g: optimizers.NGN(g, lr=1.0)) == pytest.approx([4 / 17, 12 / 17])
    assert after(lambda g: optimizers.SPS(g, lr=1.0, c=0.1)) == pytest.approx([1.0, 3.0])
    assert after(lambda g: optimizers.SPS(g, lr=1.0)) == pytest.approx([0.4, 0.4])
    assert after(lambda g: optimizers.DecSPS(g, lr=0.1)) == pytest.approx([0.1, 0.4])
    assert after(lambda g: optimizers.AdaGradNorm(g, lr=1.0, b0=2.0)) == pytest.approx([1 / 3, 1.0])


def test_ngn_with_groups_minimizes_its_model():
    """The step is the minimizer of (r + <grad r, p>)^2 + sum |p_g|^2 / (2 sigma_g), r = sqrt f."""
    f, sigma = 2.0, torch.tensor([1.0, 3.0]).double()
    gradient = torch.tensor([1.0, 2.0]).double()
    slope = gradient / (2 * f**0.5)
    p = torch.linalg.solve(2 * torch.outer(slope, slope) + torch.diag(1 / sigma), -2 * f**0.5 * slope)
    torch.testing.assert_close(p, -torch.tensor([4 / 17, 12 / 17]).double() * gradient)


@any_optimizer
def test_a_scheduler_acts_on_lr(make):
    """Half the largest step from step 10 on is what an optimizer made with it then does."""
    net = Net(5)
    optimizer = make(net.parameters, 0.02)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10, 0.5)
    path, sizes = train(net, optimizer, scheduler=scheduler)
    assert optimizer.param_groups[0]["lr"] == 0.005
    net = Net(5)
    other = make(net.parameters, 0.02)
    train(net, other, 10)
    other.param_groups[0]["lr"] = 0.01
    _, expected = train(net, other, 10, 10)
    assert expected == sizes[10:20] and sizes[9] != sizes[10]


@any_optimizer
def test_lr_zero_moves_nothing(make):
    net = Net(6)
    optimizer = make(net.parameters, 0.1)
    optimizer.param_groups[0]["lr"] = 0.0
    path, sizes = train(net, optimizer, 1)
    assert path[1].equal(path[0]) and sizes == [0.0]


def test_rules_follow_a_schedule_as_the_optimizers_do():
    for make_rule, make in ((rules.NGN, optimizers.NGN), (rules.SPS, optimizers.SPS)):
        net = Net(7)
        optimizer = make(net.parameters, 0.5)
        path, _ = train(
            net,
            optimizer,
            scheduler=torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: (k + 1) ** -0.5),
        )
        rule = make_rule(lambda k: 0.5 * (k + 1) ** -0.5)
        run = ensembles.iterate(rule, (net := Net(7)).oracle, net.vector(), STEPS, range(STEPS + 1))
        torch.testing.assert_close(run.values, path, rtol=1e-9, atol=1e-9)


@any_optimizer
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_narrow_parameters_stay_narrow(make, dtype):
    """The step size is that of the same gradients in float64, to the rounding of a float32 norm."""
    net = Net(8, dtype)
    optimizer = make(net.parameters, 0.1)
    loss = net.loss(0)
    loss.backward()
    wide = [nn.Parameter(p.detach().double()) for p in net.parameters]
    for p, narrow in zip(wide, net.parameters, strict=True):
        p.grad = narrow.grad.double()
    reference = make(wide, 0.1)
    optimizer.step(loss=loss)
    reference.step(loss=loss.item())
    assert all(p.dtype == dtype and p.isfinite().all() for p in net.parameters)
    size = reference.param_groups[0]["step_size"]
    assert optimizer.param_groups[0]["step_size"] == pytest.approx(size, rel=1e-5)
    for p, q in zip(net.parameters, wide, strict=True):
        torch.testing.assert_close(
            p.double(), q, rtol=2 * torch.finfo(dtype).eps, atol=torch.finfo(dtype).eps
        )


def test_parameters_of_several_dtypes_are_one_vector():
    p, q = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(3).double())
    optimizer = optimizers.NGN([p, q], lr=2.0)
    p.grad, q.grad = torch.ones(2), 2 * torch.ones(3).double()
    optimizer.step(loss=torch.tensor([7.0]))
    assert optimizer.param_groups[0]["step_size"] == pytest.approx(2 / (1 + 2 * 14 / 14), rel=1e-6)


@any_optimizer
def test_a_parameter_without_gradient_is_skipped(make):
    net = Net(9)
    idle = nn.Parameter(torch.ones(4).double())
    path, _ = train(net, make([*net.parameters, idle], 0.4))
    expected, _ = train(net := Net(9), make(net.parameters, 0.4))
    assert idle.eq(1).all() and path.equal(expected)
    lonely = make([idle], 0.4)
    lonely.step(loss=1.0)
    assert idle.eq(1).all()


@any_optimizer
def test_a_zero_gradient_moves_no_parameter(make):
    p = nn.Parameter(torch.ones(2))
    optimizer = make([p], 0.4)
    p.grad = torch.zeros(2)
    for loss in (0.01, 1.0):
        optimizer.step(loss=loss)
        assert p.eq(1).all() and math.isfinite(optimizer.param_groups[0]["step_size"])
    p.grad = torch.ones(2)
    optimizer.step(loss=1.0)  # a flat point at the bound (0.01 for two of them) has left nothing behind
    assert p.lt(1).all()


@any_optimizer
def test_what_is_refused_changes_nothing(make):
    net = Net(10)
    optimizer = make(net.parameters, 0.4)
    train(net, optimizer, 2)
    before, state = net.vector(), copy.deepcopy(optimizer.state_dict())
    for p in net.parameters:
        p.grad = torch.ones_like(p)
    bad_losses = [
        (math.nan, "loss = nan"),
        (math.inf, "loss = inf"),
        (-0.5, "loss = -0.5"),
        (None, "loss = None"),
    ]
    bad_losses.append((torch.ones(2), r"loss has shape \(2,\)"))
    for loss, message in bad_losses if optimizer.needs_loss else []:
        with pytest.raises(ValueError, match=f"{message}.*allowed: "):
            optimizer.step(loss=loss)
    with pytest.raises(ValueError, match="closure and loss are both given; allowed: one of them"):
        optimizer.step(lambda: 1.0, loss=1.0)
    net.parameters[1].grad[0] = math.nan
    with pytest.raises(ValueError, match="gradient has norm nan; allowed: finite"):
        optimizer.step(loss=1.0)
    net.parameters[1].grad = torch.ones(5).double().to_sparse()
    with pytest.raises(ValueError, match="gradient has layout torch.sparse_coo; allowed: dense"):
        optimizer.step(loss=1.0)
    assert net.vector().equal(before)
    now = optimizer.state_dict()
    assert now["param_groups"] == state["param_groups"]
    assert now["state"].get("whole vector") == state["state"].get("whole vector")


@any_optimizer
def test_complex_and_integer_parameters_are_refused(make):
    for dtype in (torch.complex64, torch.int64):
        bad = torch.ones(2, dtype=dtype)
        with pytest.raises(ValueError, match=f"dtype {dtype}; allowed: real floating point"):
            make([bad], 0.4)
        optimizer = make([nn.Parameter(torch.ones(2))], 0.4)
        with pytest.raises(ValueError, match=f"dtype {dtype}"):
            optimizer.add_param_group({"params": [bad]})
        assert len(optimizer.param_groups) == 1


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        *[(kind, {"lr": 0.0}, "lr = 0.0") for kind in (*LOSS_OPTIMIZERS, optimizers.AdaGradNorm)],
        *[(kind, {"lr": math.nan}, "lr = nan") for kind in LOSS_OPTIMIZERS],
        *[(kind, {"lr": "1"}, "lr = '1'") for kind in LOSS_OPTIMIZERS],
        *[(kind, {"lower_bound": -math.inf}, "lower_bound = -inf") for kind in LOSS_OPTIMIZERS],
        (optimizers.SPS, {"c": 0.0}, "c = 0.0"),
        (optimizers.DecSPS, {"c0": -1}, "c0 = -1"),
        (optimizers.NGN, {"momentum": 1.0}, "momentum = 1.0"),
        (optimizers.AdaGradNorm, {"b0": 0.0}, "b0 = 0.0"),
    ],
)
def test_bad_hyperparameters_of_an_optimizer_are_refused(kind, options, message):
    p, q = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    with pytest.raises(ValueError, match=f"{message}; allowed: a finite number"):
        kind([p], **options)
    with pytest.raises(ValueError, match=f"{message}; allowed: a finite number"):
        kind([{"params": [p]}, {"params": [q], **options}])


def test_what_belongs_to_the_whole_vector_is_the_same_in_all_groups():
    p, q = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    for kind, name in ((optimizers.NGN, "lower_bound"), (optimizers.AdaGradNorm, "b0")):
        with pytest.raises(ValueError, match=f"{name} = 0.5 in one group; allowed: the same in all"):
            kind([{"params": [p]}, {"params": [q], name: 0.5}])


def test_a_loss_at_its_bound_may_round_below_it():
    p = nn.Parameter(torch.zeros(1))
    optimizer = optimizers.SPS([p], lr=1.0, lower_bound=0.7)
    p.grad = torch.ones(1)
    optimizer.step(loss=torch.tensor(0.7) - 1e-7)
    assert p == 0 and optimizer.param_groups[0]["step_size"] == 0
    with pytest.raises(ValueError, match="lower_bound = 0.7"):
        optimizer.step(loss=0.69)


def test_a_gradient_scaler_hands_the_loss_on():
    net = Net(11, torch.float32)
    expected, _ = train(net, optimizers.NGN(net.parameters, 0.4), 1)
    net = Net(11, torch.float32)
    optimizer, scaler = optimizers.NGN(net.parameters, 0.4), torch.amp.GradScaler("cpu", init_scale=1024.0)
    loss = net.loss(0)
    scaler.scale(loss).backward()
    scaler.step(optimizer, loss=loss)
    torch.testing.assert_close(net.vector(), expected[1], rtol=1e-6, atol=1e-7)
