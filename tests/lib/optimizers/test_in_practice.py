"""SPS, DecSPS, NGN, AdaGradNorm as a training script uses them: processes, clipping, decay, states, compiled code."""

from __future__ import annotations

import copy
import math
import os
import pickle
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict as sharded
from torch.nn.parallel import DistributedDataParallel

from learning_dynamics import optimizers, rules

MAKE: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sps": lambda p, **more: optimizers.SPS(p, 0.5, **more),
    "decsps": lambda p, **more: optimizers.DecSPS(p, 2.0, **more),
    "ngn": lambda p, **more: optimizers.NGN(p, 0.5, **more),
    "ngn_momentum": lambda p, **more: optimizers.NGN(p, 0.5, 0.8, **more),
    "adagrad_norm": lambda p, **more: optimizers.AdaGradNorm(p, 0.5, **more),
}
any_optimizer = pytest.mark.parametrize("name", MAKE)
with_a_loss = pytest.mark.parametrize("name", [name for name in MAKE if name != "adagrad_norm"])


def network(seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[nn.Sequential, Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1)).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=random) / 2)
    x = torch.randn(64, 4, generator=random).to(dtype)
    return model, x, torch.sin(x.sum(-1, keepdim=True)) + 0.2


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return (model(x) - y).square().mean()


def vector(model: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()


def train(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor, steps: int) -> None:
    for k in range(steps):
        rows = torch.arange(8 * k, 8 * k + 8) % len(x)
        loss = loss_of(model, x[rows], y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step(loss)


# --- several processes ---


class Branches(nn.Module):
    """A body and three heads; a pass uses one of the first two, so that parameters are without a gradient."""

    def __init__(self) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(3)
        self.body = nn.Sequential(nn.Linear(4, 6), nn.Tanh())
        self.heads = nn.ModuleList(nn.Linear(6, 1) for _ in range(3))
        self.double()
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=random) / 2)

    def forward(self, x: Tensor, head: int) -> Tensor:
        return self.heads[head](self.body(x))


def branch_loss(model: nn.Module, x: Tensor, y: Tensor, rank: int, k: int) -> Tensor:
    """Return the loss of a rank's batch; in every third step the second head is used by neither rank."""
    rows = torch.arange(8 * k, 8 * k + 8) % 32 + 32 * rank
    return (model(x[rows], rank if k % 3 else 0) - y[rows]).square().mean()


def replicas(rank: int, folder: str, average: bool) -> None:
    """Train each optimizer for 50 steps on this rank's half of the data and write what it ends with."""
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group(
        "gloo", f"file://{folder}/meeting", rank=rank, world_size=2, timeout=timedelta(seconds=60)
    )
    ends = {}
    for name, make in MAKE.items():
        model, x, y = network()
        wrapped = DistributedDataParallel(model)
        more = {} if name == "adagrad_norm" else {"average_loss": average}
        optimizer = make(wrapped.parameters(), **more)
        half = slice(rank * 32, (rank + 1) * 32)
        train(wrapped, optimizer, x[half], y[half], 50)
        ends[name] = vector(model)
        if average:
            branches = Branches()
            wrapped = DistributedDataParallel(branches, find_unused_parameters=True)
            optimizer = make(wrapped.parameters())
            for k in range(30):
                loss = branch_loss(wrapped, x, y, rank, k)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step(loss)
            ends[f"{name}, branches"] = vector(branches)
    torch.save(ends, Path(folder) / f"{rank}.pt")
    dist.barrier()  # a process that ends before the other has read its last message leaves it waiting
    # An orderly end hangs now and then: torch's group waits for its thread while it holds the lock of Python's
    # interpreter, which the thread wants in order to let go of its last message (pytorch/pytorch, issue 56297).
    os._exit(0)


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, list[dict[str, Tensor]]]:
    found = {}
    for average in (True, False):
        folder = tmp_path_factory.mktemp("ranks")
        ranks = torch.multiprocessing.spawn(replicas, (str(folder), average), nprocs=2, join=False)
        until = time.monotonic() + 180
        while not ranks.join(timeout=1):
            if time.monotonic() > until:
                for each in ranks.processes:
                    each.kill()
                pytest.fail("two processes did not end within 180 s")
        found[average] = [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]
    return found


@any_optimizer
def test_replicas_stay_equal(ends: dict[bool, list[dict[str, Tensor]]], name: str) -> None:
    first, second = (rank[name] for rank in ends[True])
    assert torch.equal(first, second) and first.isfinite().all()


@with_a_loss
def test_replicas_part_without_the_average(ends: dict[bool, list[dict[str, Tensor]]], name: str) -> None:
    first, second = (rank[name] for rank in ends[False])
    assert (first - second).norm() / first.norm() > 1e-3


@any_optimizer
def test_two_processes_are_one_with_both_halves(ends: dict[bool, list[dict[str, Tensor]]], name: str) -> None:
    model, x, y = network()
    optimizer = MAKE[name](model.parameters())
    for k in range(50):
        rows = torch.arange(8 * k, 8 * k + 8) % 32
        rows = torch.cat([rows, rows + 32])
        loss = loss_of(model, x[rows], y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step(loss)
    torch.testing.assert_close(ends[True][0][name], vector(model), rtol=1e-6, atol=1e-8)


@any_optimizer
def test_parameters_that_a_process_does_not_use(ends: dict[bool, list[dict[str, Tensor]]], name: str) -> None:
    first, second = (rank[f"{name}, branches"] for rank in ends[True])
    assert torch.equal(first, second)
    (_, x, y), model = network(), Branches()
    optimizer = MAKE[name](model.parameters())
    for k in range(30):
        loss = (branch_loss(model, x, y, 0, k) + branch_loss(model, x, y, 1, k)) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step(loss)
    torch.testing.assert_close(first, vector(model), rtol=1e-6, atol=1e-8)
    assert torch.equal(vector(model.heads[2]), vector(Branches().heads[2]))


def test_a_shard_is_refused() -> None:
    class Shard(nn.Parameter):
        __module__ = "torch.distributed.tensor"

    with pytest.raises(ValueError, match="params has a Shard, a shard; allowed: whole parameters"):
        optimizers.NGN([Shard(torch.ones(2))])


# --- clipping, accumulation, scaling ---


@with_a_loss
def test_a_clipped_gradient_moves_by_the_step_of_the_whole_one(name: str) -> None:
    """The step size is that of the pair before clipping; the clipped gradient is what moves."""
    model, x, y = network()
    plain = copy.deepcopy(model)
    loss = loss_of(model, x, y) * 50
    loss.backward()
    unclipped = [p.grad.clone() for p in model.parameters()]
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    start, optimizer = vector(model), MAKE[name](model.parameters())
    optimizer.step(loss, gradient_norm=norm)
    for p, g in zip(plain.parameters(), unclipped, strict=True):
        p.grad = g
    reference = MAKE[name](plain.parameters())
    reference.step(loss)
    expected = (vector(plain) - start) * 0.1 / norm
    torch.testing.assert_close(vector(model) - start, expected, rtol=1e-4, atol=1e-12)
    sizes = [each.param_groups[0]["step_size"] for each in (optimizer, reference)]
    assert sizes[0] == pytest.approx(sizes[1], rel=1e-4) and norm > 1


def test_the_step_of_a_clipped_gradient_is_too_long_without_its_norm() -> None:
    moved = []
    for given in (True, False):
        model, x, y = network()
        loss = loss_of(model, x, y) * 50
        loss.backward()
        start, norm = vector(model), nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        more = {"gradient_norm": norm} if given else {}
        optimizers.SPS(model.parameters(), 1e6).step(loss, **more)
        moved.append((vector(model) - start).norm())
    assert moved[1] > 100 * moved[0]


@pytest.mark.parametrize("norm", [0.5, -1.0, math.nan, math.inf])
def test_a_norm_that_is_not_of_the_gradients_is_refused(norm: float) -> None:
    parameter = nn.Parameter(torch.zeros(2))
    parameter.grad = torch.ones(2)
    with pytest.raises(ValueError, match="gradient_norm = .*; allowed: finite, at least the norm"):
        optimizers.SPS([parameter]).step(1.0, gradient_norm=norm)
    assert parameter.eq(0).all()


@any_optimizer
def test_accumulated_batches_are_one_batch_with_the_mean_of_the_losses(name: str) -> None:
    model, x, y = network()
    whole = copy.deepcopy(model)
    one, other = MAKE[name](whole.parameters()), MAKE[name](model.parameters())
    for _ in range(5):
        one.zero_grad()
        loss = loss_of(whole, x, y)
        loss.backward()
        one.step(loss)
        other.zero_grad()
        total = 0.0
        for rows in torch.arange(64).split(16):
            part = loss_of(model, x[rows], y[rows]) / 4
            part.backward()
            total += part.detach()
        other.step(total)
    torch.testing.assert_close(vector(model), vector(whole), rtol=1e-9, atol=1e-11)


@any_optimizer
def test_a_scaler_with_clipping(name: str) -> None:
    model, x, y = network(dtype=torch.float32)
    plain = copy.deepcopy(model)
    scaler, scaled, other = (
        torch.amp.GradScaler("cpu", init_scale=2.0**14),
        MAKE[name](model.parameters()),
        MAKE[name](plain.parameters()),
    )
    for _ in range(5):
        loss = loss_of(model, x, y)
        scaled.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(scaled)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        scaler.step(scaled, loss=loss, gradient_norm=norm)
        scaler.update()
        other.zero_grad()
        loss = loss_of(plain, x, y)
        loss.backward()
        other.step(loss, gradient_norm=nn.utils.clip_grad_norm_(plain.parameters(), 0.3))
    torch.testing.assert_close(vector(model), vector(plain), rtol=1e-5, atol=1e-6)


# --- weight decay ---


@any_optimizer
def test_weight_decay_is_the_penalty_written_out(name: str) -> None:
    model, x, y = network()
    penalized = copy.deepcopy(model)
    optimizer = MAKE[name](model.parameters(), weight_decay=0.3)
    other = MAKE[name](penalized.parameters())
    for _ in range(10):
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        optimizer.step(loss)
        other.zero_grad()
        loss = loss_of(penalized, x, y) + 0.15 * sum(p.square().sum() for p in penalized.parameters())
        loss.backward()
        other.step(loss)
    torch.testing.assert_close(vector(model), vector(penalized), rtol=1e-9, atol=1e-11)


@with_a_loss
def test_weight_decay_and_clipping_together(name: str) -> None:
    """The step size is that of the whole penalized pair; the clipped gradient and the penalty's are what moves."""
    model, x, y = network()
    whole = copy.deepcopy(model)
    loss = loss_of(model, x, y) * 50
    loss.backward()
    start, norm = vector(model), nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    clipped = torch.cat([p.grad.flatten() for p in model.parameters()])
    optimizer, other = MAKE[name](model.parameters(), weight_decay=0.3), MAKE[name](whole.parameters())
    optimizer.step(loss, gradient_norm=norm)
    loss = loss_of(whole, x, y) * 50 + 0.15 * sum(p.square().sum() for p in whole.parameters())
    loss.backward()
    other.step(loss)
    size = other.param_groups[0]["step_size"]
    assert optimizer.param_groups[0]["step_size"] == pytest.approx(size, rel=1e-5)
    share = 0.2 if name == "ngn_momentum" else 1.0
    torch.testing.assert_close(
        vector(model), start - share * size * (clipped + 0.3 * start), rtol=1e-5, atol=1e-9
    )


@any_optimizer
def test_decoupled_decay_shrinks_and_leaves_the_step_size(name: str) -> None:
    model, x, y = network()
    plain = copy.deepcopy(model)
    optimizer = MAKE[name](model.parameters(), weight_decay=0.3, decoupled_weight_decay=True)
    other = MAKE[name](plain.parameters())
    start = vector(model)
    for each, net in ((optimizer, model), (other, plain)):
        loss = loss_of(net, x, y)
        loss.backward()
        each.step(loss)
    size = other.param_groups[0]["step_size"]
    assert optimizer.param_groups[0]["step_size"] == size > 0
    torch.testing.assert_close(vector(model), vector(plain) - 0.3 * size * start, rtol=1e-12, atol=1e-14)


def test_coupled_decay_is_torchs() -> None:
    """With b0 so large that it never moves AdaGrad-Norm is SGD."""
    model, x, y = network()
    other = copy.deepcopy(model)
    train(model, optimizers.AdaGradNorm(model.parameters(), 1e7, 1e8, weight_decay=0.2), x, y, 10)
    sgd = torch.optim.SGD(other.parameters(), 0.1, weight_decay=0.2)
    for k in range(10):
        rows = torch.arange(8 * k, 8 * k + 8) % len(x)
        sgd.zero_grad()
        loss_of(other, x[rows], y[rows]).backward()
        sgd.step()
    torch.testing.assert_close(vector(model), vector(other), rtol=1e-9, atol=1e-12)


def test_groups_have_their_own_decay_and_unknown_keys_are_refused() -> None:
    p, q = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    optimizer = optimizers.NGN(
        [{"params": [p], "weight_decay": 0.5, "name": "body"}, {"params": [q]}], lr=0.1
    )
    p.grad = q.grad = torch.zeros(2)
    optimizer.step(1.0)
    assert p.lt(1).all() and q.eq(1).all()
    for key in ("betas", "weightdecay", "nesterov"):
        with pytest.raises(ValueError, match=f"parameter group has {key}; allowed: .*weight_decay"):
            optimizers.NGN([{"params": [p], key: 0.5}])
    with pytest.raises(ValueError, match=r"weight_decay = -0.5; allowed: a finite number >= 0"):
        optimizers.SPS([p], weight_decay=-0.5)
    with pytest.raises(ValueError, match="decoupled_weight_decay = 1; allowed: True, False"):
        optimizers.SPS([p], decoupled_weight_decay=1)


# --- states ---


@any_optimizer
def test_a_state_goes_through_the_distributed_checkpoint(name: str) -> None:
    model, x, y = network()
    optimizer = MAKE[name](model.parameters())
    train(model, optimizer, x, y, 7)
    state = copy.deepcopy(sharded.get_optimizer_state_dict(model, optimizer))
    fresh = copy.deepcopy(model)
    again = MAKE[name](fresh.parameters())
    sharded.set_optimizer_state_dict(fresh, again, state)
    for k in range(4):
        rows = slice(8 * k, 8 * k + 8)
        for net, each in ((model, optimizer), (fresh, again)):
            each.zero_grad()
            loss = loss_of(net, x[rows], y[rows])
            loss.backward()
            each.step(loss)
    assert vector(model).equal(vector(fresh))
    flat = sharded.get_optimizer_state_dict(
        model, optimizer, options=sharded.StateDictOptions(flatten_optimizer_state_dict=True)
    )
    assert all(isinstance(key, str) for key in flat)


@any_optimizer
def test_what_is_remembered_stands_under_each_parameter(name: str) -> None:
    model, x, y = network()
    optimizer = MAKE[name](model.parameters())
    train(model, optimizer, x, y, 3)
    state = optimizer.state_dict()["state"]
    assert set(state) == (set() if name in ("sps", "ngn") else {0, 1, 2, 3})
    extra = nn.Parameter(torch.zeros(2).double())
    optimizer.add_param_group({"params": [extra]})
    extra.grad = torch.zeros(2).double()
    optimizer.step(1.0)
    numbers = [
        {key: value for key, value in entry.items() if not isinstance(value, Tensor)}
        for entry in optimizer.state_dict()["state"].values()
    ]
    assert all(entry == numbers[0] for entry in numbers)


@any_optimizer
def test_the_state_of_another_optimizer_is_refused_by_name(name: str) -> None:
    model, x, y = network()
    for make, names in (
        (lambda p: torch.optim.Adam(p), "exp_avg, exp_avg_sq, step"),
        (lambda p: torch.optim.SGD(p, momentum=0.9), "momentum_buffer"),
    ):
        foreign = make(model.parameters())
        loss_of(model, x, y).backward()
        foreign.step()
        with pytest.raises(ValueError, match=f"state has .*{names.split(', ')[0]}.*; allowed for "):
            MAKE[name](model.parameters()).load_state_dict(foreign.state_dict())
    plain = torch.optim.SGD(model.parameters(), 0.1).state_dict()
    with pytest.raises(ValueError, match="a group of the state lacks .*; allowed: a state of "):
        MAKE[name](model.parameters()).load_state_dict(plain)


@any_optimizer
def test_a_copy_goes_its_own_way(name: str) -> None:
    model, x, y = network()
    optimizer = MAKE[name](model.parameters())
    train(model, optimizer, x, y, 3)
    pair = copy.deepcopy((model, optimizer))
    train(model, optimizer, x, y, 5)
    assert not vector(pair[0]).equal(vector(model))
    train(*pair, x, y, 5)
    assert vector(pair[0]).equal(vector(model))


@with_a_loss
def test_copies_average_over_processes_only_where_the_original_does(name: str) -> None:
    alone = MAKE[name](network()[0].parameters(), average_loss=False)
    assert not copy.deepcopy(alone).average_loss
    assert not pickle.loads(pickle.dumps(alone)).average_loss
    alone.load_state_dict(MAKE[name](network()[0].parameters()).state_dict())
    assert not alone.average_loss


def test_momentum_goes_on_from_the_last_step_after_steps_without_it() -> None:
    model, x, y = network()
    optimizer = optimizers.NGN(model.parameters(), 0.5, 0.8)
    train(model, optimizer, x, y, 3)
    optimizer.param_groups[0]["momentum"] = 0.0
    before = vector(model)
    train(model, optimizer, x, y, 1)
    last = vector(model) - before
    optimizer.param_groups[0]["momentum"] = 0.8
    optimizer.zero_grad()
    loss = loss_of(model, x, y)
    loss.backward()
    g = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
    before = vector(model)
    optimizer.step(loss)
    eta = 0.5 / (1 + 0.5 / (2 * loss.item()) * float(g @ g))
    torch.testing.assert_close(vector(model) - before, 0.8 * last - 0.2 * eta * g, rtol=1e-10, atol=1e-13)


@any_optimizer
def test_a_parameter_comes_once(name: str) -> None:
    p = nn.Parameter(torch.ones(2))
    with (
        pytest.warns(UserWarning, match="duplicate"),
        pytest.raises(ValueError, match="params has a parameter twice"),
    ):
        MAKE[name]([p, p])


# --- the call ---


@any_optimizer
@pytest.mark.parametrize("lr", [-1.0, math.nan, math.inf, torch.tensor(0.1)])
def test_an_lr_that_a_schedule_spoilt_moves_nothing(name: str, lr: float) -> None:
    model, x, y = network()
    optimizer = MAKE[name](model.parameters())
    before = vector(model)
    optimizer.param_groups[0]["lr"] = lr
    with pytest.raises(ValueError, match="lr = .*; allowed: a finite number >= 0"):
        train(model, optimizer, x, y, 1)
    assert vector(model).equal(before)


@with_a_loss
@pytest.mark.parametrize("loss", ["0.5", True, 1j, torch.tensor(1j), torch.tensor(True), torch.ones(2)])
def test_a_loss_that_is_no_number_is_refused(name: str, loss: object) -> None:
    model, x, y = network()
    loss_of(model, x, y).backward()
    before = vector(model)
    with pytest.raises(ValueError, match="loss .*; allowed: "):
        MAKE[name](model.parameters()).step(loss=loss)
    assert vector(model).equal(before)


@with_a_loss
def test_the_loss_may_come_first_or_by_name(name: str) -> None:
    ends = []
    for call in (lambda o, v: o.step(v), lambda o, v: o.step(loss=v), lambda o, v: o.step(v.item())):
        model, x, y = network()
        optimizer = MAKE[name](model.parameters())
        loss = loss_of(model, x, y)
        loss.backward()
        call(optimizer, loss)
        ends.append(vector(model))
    assert ends[0].equal(ends[1]) and ends[0].equal(ends[2])


@any_optimizer
def test_a_compiled_step_is_the_step(name: str) -> None:
    model, x, y = network()
    plain = copy.deepcopy(model)
    compiled, eager = MAKE[name](model.parameters()), MAKE[name](plain.parameters())
    step = torch.compile(lambda loss: compiled.step(loss), backend="eager")
    for _ in range(3):
        compiled.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        step(loss.detach())
        eager.zero_grad()
        loss = loss_of(plain, x, y)
        loss.backward()
        eager.step(loss)
    assert vector(model).equal(vector(plain))


# --- numbers at the edge ---


def test_decsps_survives_a_fitted_batch() -> None:
    """The batch's loss has underflowed to 0, its gradient has not: nothing can be learned of the ratio from it."""
    parameter = nn.Parameter(torch.ones(1).double())
    optimizer, rule = optimizers.DecSPS([parameter]), rules.DecSPS()
    theta, state = torch.ones(1, 1).double(), rule.start(torch.ones(1, 1).double())
    for loss, gradient in ((0.5, 1.0), (0.0, 3e-18), (0.5, 1.0)):
        before = parameter.item()
        parameter.grad = torch.tensor([gradient]).double()
        optimizer.step(loss)
        theta, state = rule.step(
            theta, torch.tensor([[gradient]]).double(), state, torch.tensor([loss]).double()
        )
        assert theta.item() == pytest.approx(parameter.item(), rel=1e-15)
        assert (parameter.item() < before) == (loss > 0)
    assert optimizer.param_groups[0]["step_size"] == pytest.approx(0.5 / math.sqrt(3))


def test_decsps_survives_a_batch_fitted_to_rounding_of_its_bound() -> None:
    parameter = nn.Parameter(torch.ones(1))
    optimizer = optimizers.DecSPS([parameter], lower_bound=0.7)
    for loss, gradient in ((1.2, 1.0), (0.7, 3e-4), (1.2, 1.0)):
        parameter.grad = torch.tensor([gradient])
        optimizer.step(torch.tensor(loss))
    assert optimizer.param_groups[0]["step_size"] == pytest.approx(0.5 / math.sqrt(3), rel=1e-6)


@any_optimizer
def test_a_gradient_whose_square_overflows_in_float32(name: str) -> None:
    """The step is the one that float64 takes."""
    sizes = []
    for dtype in (torch.float32, torch.float64):
        parameter = nn.Parameter(torch.zeros(3, dtype=dtype))
        parameter.grad = torch.tensor([3e20, -4e20, 0.0], dtype=dtype)
        optimizer = MAKE[name]([parameter])
        optimizer.step(1e30)
        sizes.append(optimizer.param_groups[0]["step_size"])
        assert parameter.isfinite().all() and parameter[0] < 0
    assert sizes[0] == pytest.approx(sizes[1], rel=1e-6)


def test_a_square_beyond_float64_is_refused() -> None:
    parameter = nn.Parameter(torch.zeros(1).double())
    parameter.grad = torch.tensor([1e200], dtype=torch.float64)
    with pytest.raises(ValueError, match="gradient has norm 1e\\+200; allowed: finite, with a finite square"):
        optimizers.AdaGradNorm([parameter]).step()


@pytest.mark.parametrize(
    "rule",
    [
        rules.SPS(1.0),
        rules.DecSPS(1.0),
        rules.NGN(1.0),
        rules.AdaGradNorm(1.0),
        rules.Adam(),
        rules.AMSGrad(),
        rules.AdaGrad(),
        rules.RMSprop(),
        rules.DiagonalFisher(0.1, damping=1e-3),
    ],
    ids=lambda rule: type(rule).__name__,
)
def test_a_rule_shows_an_overflowing_square_as_diverged(rule: rules.Rule) -> None:
    """Infinite, it would make a step of size 0 for ever: a run that stands still and looks converged."""
    theta, gradient = torch.ones(2, 2), torch.tensor([[1e20, 1.0], [1.0, 1.0]])
    more = [torch.ones(2)] if getattr(rule, "needs_loss", False) else []
    moved, _ = rule.step(theta, gradient, rule.start(theta), *more)
    assert moved[0].isnan().any() and moved[1].isfinite().all() and moved[1].ne(1).all()


def test_a_loss_a_little_below_zero_counts_as_zero() -> None:
    parameter = nn.Parameter(torch.zeros(1))
    parameter.grad = torch.ones(1)
    optimizer = optimizers.SPS([parameter])
    optimizer.step(torch.tensor(-3e-8))
    assert parameter == 0 and optimizer.param_groups[0]["step_size"] == 0
    with pytest.raises(ValueError, match="loss = -0.01; allowed: finite, >= lower_bound = 0.0"):
        optimizer.step(-0.01)
