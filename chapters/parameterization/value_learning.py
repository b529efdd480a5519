# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Value learning: where the gain of a latent model sits
#
# A warehouse robot has logged eighty walks, and you want to know what each place is worth before you let the robot
# choose its own way. Some places were never visited. What the fitted values say about them depends on how the values are stored.
#
# Here an agent walks through four rooms. We want to know, for each of 121 cells, what reward it can expect from there, and
# we fit these values to what eighty walks have earned. One learner stores a number for each cell. The other learns a
# small model of the world and reads the values off it. Both can express the same values, start from the same ones,
# and see the same data in the same order.
#
# **Is the second better, and where?** When every reward is raised by one, it is better by far, and nearly all of the
# difference sits in cells that no batch has ever touched. **What breaks the explanation "latent models are better"**:
# one extra number, a learned bias, gives the explicit learner the same map.

# %% tags=["colab", "remove-cell"]
# On Colab only: fetch the library of this book. It replaces nothing that is installed there.
import subprocess
import sys

if "google.colab" in sys.modules:
    address = "git+https://github.com/learning-dynamics/learning-dynamics"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", address], check=True)
    from learning_dynamics import colab

    colab.prepare()

# %% tags=["parameters", "remove-input"]
SCALE = "book"
DEVICE = "auto"
SEED = 0

# %% tags=["hide-input"]
import math
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.patches import Rectangle
from matplotlib.ticker import NullFormatter

from learning_dynamics import figures, results, runs, statistics
from learning_dynamics.experiments.value_learning import grid, models, problems, training
from learning_dynamics.figures import COLORS
from learning_dynamics.ledger import Ledger, at_most, between, confident, control, identity, ordering
from learning_dynamics.parameterization import fixed_points, mdp
from learning_dynamics.parameterization.mdp import mountain_car
from learning_dynamics.rules import Adam, GradientDescent

figures.use_style()
run = runs.Run("parameterization/value_learning", scale=SCALE, device=DEVICE, seed=SEED)
ledger = Ledger(run)
like = {"dtype": run.dtype}  # small matrices: on the CPU, whatever DEVICE says


def log_axis(ax, *ticks):
    ax.set_yscale("log")
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.yaxis.set_minor_formatter(NullFormatter())


# %% [markdown]
# Four maps of the rooms: what the data saw, and how far each of three learners is off.

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**The gain of the latent model sits in cells that no batch has touched, and a bias has it too.** Four rooms, every reward raised by one, 300 steps, one seed. Top left: how often a cell was drawn; black frames: never. Then the error of the value in each cell. What breaks it for the explicit learner: a cell that is never drawn keeps its start.", "name": "fig-value-learning-rooms"}, "image": {"alt": "Four maps of an eleven by eleven grid. In the first some cells have black frames, most of them walls and far corners. In the map of the explicit learner exactly the framed cells are dark; in the maps of the implicit learner and of the explicit learner with a bias nothing stands out."}}
# data, start and batches of every seed; the states 0 to 120 are cells, 121 is where a walk ends
seeds = run.seeds(smoke=3, book=20, paper=20)
rooms = problems.four_rooms_problem(run, seeds)
start = models.latent_start(run, seeds, rooms.weights)
drawn = training.batches(run, seeds, rooms.points)
offsets = torch.tensor([0.0, 0.5, 1.0], **like)
internal, implicit_step, explicit_step = 0.95, 1.0, 32.0
latent_rewards, logits = start.rewards[:, 0], start.logits[:, 0]
weights_at_start = fixed_points.reward_chain_value(latent_rewards, logits, internal)


def three(tensor):  # one copy for each offset
    return tensor.expand(3, *tensor.shape).clone()


def fit(model, data=rooms):
    return training.train(model, data, offsets, drawn)


def with_bias(data, scale):  # one more feature, constant over the cells
    table = torch.cat([data.table, scale * data.table.sum(-1, keepdim=True)], -1)
    return replace(data, table=table, evaluation=table)


def explicit(rule, extra=0, precondition=None):
    padded = torch.cat([weights_at_start, torch.zeros(len(seeds), extra, **like)], -1)
    return models.Explicit(three(padded), rule, precondition)


bias_scale, bias_step = math.sqrt(0.3), 8.0
trained = {
    "explicit": fit(explicit(GradientDescent(explicit_step))),
    "implicit": fit(models.Implicit(three(latent_rewards), three(logits), internal, implicit_step)),
    "explicit with a bias": fit(explicit(GradientDescent(bias_step), 1), with_bias(rooms, bias_scale)),
}
looked_at = rooms.states.gather(1, drawn.transpose(0, 1).flatten(1))
counts = torch.zeros(len(seeds), 122, dtype=torch.int64)
counts = counts.scatter_add(1, looked_at, torch.ones_like(looked_at))

fig, axes = figures.subplots(2, 2, size=(8.6, 7.6))
draws = axes[0, 0].imshow(counts[0, :121].reshape(11, 11), cmap="Greens", vmax=60)
fig.colorbar(draws, ax=axes[0, 0], shrink=0.8, label="times drawn")
axes[0, 0].set_title("data")
for ax, (name, record) in zip(axes.flat[1:], trained.items(), strict=True):
    error = record.last[2, 0, :121].abs().reshape(11, 11)
    shown = ax.imshow(error, cmap="magma_r", vmin=0, vmax=12)
    ax.set_title(name)
fig.colorbar(shown, ax=axes[:, 1], shrink=0.5, label="|predicted minus true value|")
for ax in axes.flat:
    for cell in torch.nonzero(counts[0, :121] == 0)[:, 0].tolist():
        corner = (cell % 11 - 0.5, cell // 11 - 0.5)
        ax.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=COLORS["black"], linewidth=1.4))
    ax.set(xticks=[0, 5, 10], yticks=[0, 5, 10])
    ax.grid(False)
plt.show()

# %% tags=["hide-input"]
of_one_seed = {name.replace(" ", "_"): record.last[2, 0, :121].abs() for name, record in trained.items()}
figures.numbers(
    run,
    "fig-value-learning-rooms",
    {"cell": torch.arange(121), "drawn": counts[0, :121], **of_one_seed},
    noise=1e-6,
)

# %% [markdown]
# A parameterization puts a matrix $P$ in front of the gradient; this chapter asks what that matrix does in three published
# experiments. After it you can
#
# - rebuild three published experiments from their released set-up, and say with a criterion whether they agree;
# - separate *faster* from *generalizes to what was not seen*, and tell which of the two a curve shows;
# - name the cheapest baseline that removes an effect, before believing in its cause.
#
# The source is section 4 and appendices C to F of {cite}`gehring2021implicit`. Read
# {chapter}`Implicit values <parameterization/implicit_values>` first; it has the theorems. The page runs in half a
# minute on one CPU core, in ten seconds with `SCALE = "smoke"`.
#
# ## Question and design
#
# A *policy*, a rule that picks actions, walks for some steps; such a walk is a *trajectory*, or an *episode* if it ends at a
# goal. The data are $n$ visited states $x_i$ and their *returns* $y_i$: the sum of the rewards that the walk earned from there on,
# the one $k$ steps ahead multiplied by $\gamma^k$. The value of a state is the expected return. With fixed
# features $\phi(x)$ the estimated values are linear, $f(x)=\phi(x)^\top\beta$. The **explicit** learner trains $\theta=\beta$. The **implicit**
# learner trains $\theta=(u,Z)$, the rewards and the logits (free numbers whose softmax is a probability) of a latent Markov chain on $d$ states, and uses its values
#
# $$
# \beta=A^{-1}u,\qquad A=I-\hat\gamma S_Z,
# $$ (eq-value-learning-model)
#
# where $S_Z$ is the row-wise softmax of $Z$ and $\hat\gamma$ the *internal discount*, which need not be the true
# $\gamma$. Since $A$ is always invertible, both reach every $\beta$. By the chain rule a gradient step of small size $\eta$ in $(u,Z)$ moves
# $\beta$ by $-\eta P\nabla_\beta\mathcal L$ with
#
# $$
# \begin{aligned}
# P&=A^{-1}\bigl(I+\hat\gamma^2\,\mathrm{diag}(q)\bigr)A^{-\top},\\
# q_k&=\textstyle\sum_j[S_Z]_{kj}^2\bigl(\beta_j-[S_Z\beta]_k\bigr)^2 .
# \end{aligned}
# $$
#
# As $\hat\gamma\to1$ one direction of $P$ takes over, the vector of ones $\mathbf 1$, with an eigenvalue of order
# $(1-\hat\gamma)^{-2}$. So an error common to all states should be removed quickly. To produce such an error, add a
# constant $c$, the *offset*, to every reward: where walks do not end, all values rise by $c/(1-\gamma)$ and nothing else changes.
#
# **By hand.** Two latent states, $Z=0$, so all entries of $S_Z$ are $\frac12$; $\hat\gamma=0.9$ and $u=(1,0)$. Then $A^{-1}$ has
# $5.5$ on the diagonal and $4.5$ beside it, and $\beta=(5.5,\,4.5)$. A data point on the first state alone gives the gradient
# $g=(1,0)$. Here $q=(\frac18,\frac18)$, so $Pg=1.10125\cdot(50.5,\,49.5)$: the second state, of which there is no datum, moves
# 98 % as far as the first. The explicit learner has $P=I$, and its second state stays.
#
# The model and one step of the implicit learner, written out; $a$ is what the backward solve returns.


# %%
def latent_values(u, Z, discount):  # the fixed point of beta = u + discount * S @ beta
    S = torch.softmax(Z, -1)
    A = torch.eye(len(u), dtype=u.dtype) - discount * S
    return torch.linalg.solve(A, u), S, A


def one_step(u, Z, gradient_at, discount, eta):
    beta, S, A = latent_values(u, Z, discount)
    a = torch.linalg.solve(A.T, gradient_at(beta))
    change = discount * a[:, None] * S * (beta - (S @ beta)[:, None])
    return u - eta * a, Z - eta * change


# %%
two_u, two_Z = torch.tensor([1.0, 0.0], **like), torch.zeros(2, 2, **like)  # the example by hand
tiny = 1e-7
moved = one_step(two_u, two_Z, lambda beta: torch.tensor([1.0, 0.0], **like), 0.9, tiny)
first, second = ((latent_values(*moved, 0.9)[0] - latent_values(two_u, two_Z, 0.9)[0]) / -tiny).tolist()
assert abs(first - 1.10125 * 50.5) < 1e-3 and abs(second - 1.10125 * 49.5) < 1e-3

# %% [markdown]
# The training loop is the same for both learners: draw a batch, take the gradient of its loss with respect to the values, and move
# the parameters. Change the learner, the offset, the discount or the step size below and run the cell again.


# %%
def batch_gradient(step, seed=0, offset=0.5):  # of one batch's loss
    index = drawn[step, seed]
    phi = rooms.table[rooms.states[seed, index]]
    y = rooms.returns[seed, index]
    # each reward of a return is raised by the offset: annuity = sum of gamma^k
    y = y + offset * rooms.annuities[seed, index]
    return lambda beta: phi.T @ (phi @ beta - y) / len(index)


def train_one(learner, eta, offset, discount=internal, seed=0):  # the residual after all batches
    u, Z = latent_rewards[seed], logits[seed]
    beta = latent_values(u, Z, internal)[0]
    for k in range(len(drawn)):
        gradient_at = batch_gradient(k, seed, offset)
        if learner == "implicit":
            u, Z = one_step(u, Z, gradient_at, discount, eta)
        else:
            beta = beta - eta * gradient_at(beta)
    if learner == "implicit":
        beta = latent_values(u, Z, discount)[0]
    return rooms.evaluation @ beta - (rooms.values + offset * rooms.value_annuities)


# %%
for learner, eta in (("explicit", explicit_step), ("implicit", implicit_step)):
    residual = train_one(learner, eta, offset=1.0)
    print(f"{learner}: norm of the residual {residual.norm():.1f}")
    assert torch.allclose(residual, trained[learner].last[2, 0], atol=1e-6)

# %% [markdown]
# These are the runs of the maps at the top. Counted in is the absorbing state, which a walk enters after the goal and never leaves ({prf:ref}`implicit-def-four-rooms`); the maps leave it out.
# The library does the same for a whole grid of step sizes, discounts, offsets and seeds at once, with one
# factorization of $A$ for both solves. It must give the same iterates, and automatic differentiation the same gradient.

# %%
u, Z = latent_rewards[0], logits[0]
start_of = u[None, None].clone(), Z[None, None].clone()
model = models.Implicit(*start_of, internal, implicit_step)
for step in range(20):
    u, Z = one_step(u, Z, batch_gradient(step), internal, implicit_step)
    model.step(batch_gradient(step)(model.weights()[0, 0])[None, None])
assert torch.allclose(model.u[0, 0], u) and torch.allclose(model.Z[0, 0], Z)

u = latent_rewards[0].clone().requires_grad_()
Z = logits[0].clone().requires_grad_()
beta = fixed_points.reward_chain_value(u, Z, internal)
beta.backward(batch_gradient(0)(beta.detach()))
moved = one_step(u.detach(), Z.detach(), batch_gradient(0), internal, 1.0)
assert torch.allclose(u.detach() - u.grad, moved[0])
assert torch.allclose(Z.detach() - Z.grad, moved[1])

# %% [markdown]
# :::{admonition} Two normalizations
# :class: note
# A batch of $b$ data points has the loss $\frac1b\sum\frac12r_i^2$, as everywhere in this book. (The theorems of the
# source use the sum over all data for the full loss.) Final errors are reported as the source does: the Euclidean
# norm of the residual over an evaluation set, not its mean.
# :::
#
# :::{dropdown} The letters of the source
# | here | source | meaning |
# |---|---|---|
# | $\beta$ | $\theta$, $\hat\theta$ | weights of the features: values of the states |
# | $u$, $Z$, $S_Z$ | $w$, $F$, $\sigma(F)$ | latent rewards, logits, transition matrix |
# | $\gamma$, $\hat\gamma$ | $\gamma$, $\eta$ | true and internal discount |
# | $\eta$ | $\alpha$ | step size |
# | $b$ | $k$ | batch size |
# | $c$ | reward offset | |
# | $r$ | residual on the evaluation set | predicted minus true values |
# :::
#
# ### Three domains
#
# The text of the paper leaves much open, and where it does not, the released code sometimes differs. We follow the code,
# since the figures come from it; {ref}`a later section <sec-value-learning-described>` shows what the text would give. With the
# code come the logs of the authors' runs; what we call *released* numbers are means over them.
#
# :::{prf:definition} Chain
# :label: implicit-def-chain-mdp
# States $0,\dots,9$ in a row and a transient state $10$; $\gamma=0.9$, one-hot features (the state $i$ has the $i$-th unit vector). The right action leads one state
# on, from 9 back to 0 with reward 10. The wrong action leads to state 10. From there both actions lead to 0; the wrong one pays 1. The policy
# takes the right action, or with probability $0.1$ any of the two. Data: the first states, uniformly random, of 50 trajectories of 100 steps, with
# their returns.
# :::
#
# :::{prf:definition} Four rooms
# :label: implicit-def-four-rooms
# A grid of $11\times11$ cells, 17 of them walls, which one can leave but not enter, and an absorbing state; $\gamma=0.9$.
# With probability $\frac13$ one of the other three moves is made. Any action in the goal $(7,1)$ pays 1 and leads to the absorbing state, where
# only the offset is paid. Features are one-hot over the cells, zero in the absorbing state, so that no learner can fit its value $c/(1-\gamma)$. The policy takes the best action under the optimal
# values, or with probability $0.1$ any action. Data: all states of 80 trajectories of 80 steps from uniformly random starts, each with
# the return of the rest of its trajectory.
# :::
#
# :::{prf:definition} Mountain car
# :label: implicit-def-mountain-car
# A car with position in $[-1.2,0.6]$ and velocity in $[-0.07,0.07]$ must reach position $0.5$; every step costs 1, the last one
# nothing; $\gamma=0.99$. A push $a\in\{-1,0,1\}$ changes the velocity by $0.001a-0.0025\cos(3\,\text{position})$. Starts are at
# rest, uniform in $[-0.6,-0.4]$. The policy pushes back if the velocity is negative and forward if not, so forward at rest, or
# with probability $0.1$ at random. Features: 400 Gaussian
# bumps on a $20\times20$ grid, of width a tenth of each range, normalized to sum one. Data: all states of 10 episodes of at most 200 steps;
# evaluation on 1000 fresh steps against their own returns.
# :::
#
# All runs: SGD without momentum, 300 steps, batches of 25 drawn with replacement, 20 seeds. At the start row $k$ of $Z$ is
# $\log(p+2e_k)$ with a random distribution $p$ (drawn from Dirichlet's law) and the unit vector $e_k$, so that a latent state keeps itself with
# probability two thirds or more, and $u\sim0.1\,\mathcal N(0,1)$. The explicit learner starts at the implicit weights of the same seed. Each combination of the following is run, 31,680 runs in all.
#
# :::{prf:definition} The grid of step sizes and internal discounts
# :label: implicit-table-1
# Internal discounts $\hat\gamma\in\{.8,.9,.95,.975\}$, offsets $c\in\{0,0.1,\dots,1\}$, and the step sizes
#
# | $\log_2\eta$ | explicit | implicit |
# |---|---|---|
# | chain | $-2,\dots,3$ | $-8,\dots,-3$ |
# | four rooms | $2,\dots,7$ | $-3,\dots,2$ |
# | mountain car | $2,\dots,7$ | $-3,\dots,2$ |
#
# Batches hold 25 data points. The source finds the implicit values by at most 5000 sweeps $\beta\leftarrow u+\hat\gamma S_Z\beta$, to a tolerance of $10^{-6}$,
# and the gradient with GMRES, an iterative solver.
# :::
#
# Our runs use neither tolerance: they solve both systems exactly, by a factorization of $A$; only in mountain car, where the systems are 400 by 400, by sweeps
# down to rounding. All 31,680 runs are computed, as *kept results*: computed once, each by a command that its file names, and
# shipped with the book, so that the figures below only read them. The step sizes called *best* or *marked* are those that the released
# code marks in its figures. Here is how a kept result is made again, and a slice of each domain's computed anew.


# %%
def kept(name):
    return results.load(run.chapter, name)


def recompute(domain, best, cells, seeds):  # runs of a domain at internal discount .95
    data = problems.problem(domain, run, seeds)
    begin = models.latent_start(run, seeds, data.weights)
    indices = training.batches(run, seeds, data.points)
    return grid.run_grid("implicit", data, begin, indices, grid.combinations([best], [0.95], cells))


kept_seeds = list(range(run.pick(smoke=2, book=20, paper=20)))
slices = (  # kept result, its discount, its step, its offsets, the same computed again
    ("chain_implicit", 2, 2, [0, 5, 10], recompute("chain", 2.0**-6, [0.0, 0.5, 1.0], kept_seeds)),
    ("four_rooms_implicit_part_3", 0, 3, [5], recompute("four_rooms", 1.0, [0.5], kept_seeds)),
)
picked = [step // training.EVERY for step in training.KEPT_STEPS]
car_again = recompute("mountain_car", 0.125, [1.0], [0])  # in double precision; it is kept in single
car_kept = {"norm": kept("mountain_car_implicit_part_3")["norm"][:, 0, 0, 10:, :1]}
results.agree(car_kept, {"norm": car_again.record.norm[picked].float()}, rtol=1e-2)
for name, k, step, columns, new in slices:
    old = {
        key: kept(name)[key][..., k, step, columns, : len(kept_seeds)] for key in ("norm", "ratio", "bound")
    }
    results.agree(old, {"norm": new.record.norm[picked].float()}, rtol=1e-4)
    results.agree(old, {"ratio": new.ratio.float(), "bound": new.bound.float()}, rtol=1e-3)

# %% [markdown]
# ```bash
# python -m learning_dynamics.experiments.value_learning.sweep four_rooms implicit --part 3/4
# ```
#
# ## What an offset does at the start
#
# Split the residual $r$ on the evaluation set into its component along the ones, $\bar r\sqrt e$ with the mean $\bar r$
# over the $e$ states, and the rest. Raising every reward by $c$ raises all true values by $c/(1-\gamma)$, so the
# first component moves by $-c\sqrt e/(1-\gamma)$ and the rest does not move at all. Where episodes end, states
# near the goal gain less, and both move: in mountain car, and in four rooms if the walk is made to end at the goal.
#
# For mountain car we know the released components only at offset 0 and the internal discount 0.95, so its panel has crosses only there.


# %%
def split(residual):
    along = residual.mean(-1) * math.sqrt(residual.shape[-1])
    rest = (residual - residual.mean(-1, keepdim=True)).norm(dim=-1)
    return along, rest


def at_the_start(domain, **options):  # components (offsets, seeds), untrained
    data = problems.problem(domain, run, kept_seeds, **options)
    begin = models.latent_start(run, kept_seeds, data.weights)
    u, Z = begin.rewards[:, 0], begin.logits[:, 0]
    beta = fixed_points.reward_chain_value(u, Z, 0.95)
    predicted = (data.evaluation @ beta[..., None])[..., 0]
    c = torch.tensor(grid.OFFSETS, **like)
    truth = data.values + c[:, None, None] * data.value_annuities
    if domain in tabular and not options:  # through Bellman's equation
        process, policy = tabular[domain]
        truth = process.values(policy, c)[:, None]
    return split(predicted - truth)


rooms_process = mdp.four_rooms()
tabular = {
    "chain": (mdp.chain(), mdp.chain_policy()),
    "four_rooms": (rooms_process, mdp.four_rooms_policy(rooms_process)),
}
components = {domain: at_the_start(domain) for domain in problems.DOMAINS}
components["terminal goal"] = at_the_start("four_rooms", described=True)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**An offset moves the ones component and nothing else, where episodes do not end.** Residual before training, split; 20 seeds, bands as in all figures: 95 % intervals of the mean. Crosses: the released values. What breaks it: in mountain car episodes end, the rest shrinks too, and the offset that makes the ones component small makes everything small.", "name": "fig-value-learning-start"}, "image": {"alt": "Three panels. In the first two the ones component rises along a straight line and the rest is flat, with crosses on both. In the third both fall from above a thousand almost to zero."}}
released_start = {  # along the ones at offsets 0, 0.5, 1; the rest
    "chain": ([24.52, 41.10, 57.69], 9.97),
    "four_rooms": ([3.95, 59.09, 114.32], 3.81),
    "mountain_car": ([1375.6], 677.7),
}
fig, axes = figures.subplots(2, 2, size=(8.6, 6.2))
for ax, domain in zip(axes.flat, problems.DOMAINS, strict=False):
    along, rest = components[domain]
    for values, name in ((along.abs(), "along the ones"), (rest, "the rest")):
        figures.band(ax, grid.OFFSETS, values.T, label=name)
    ones, other = released_start[domain]
    at = [0, 0.5, 1][: len(ones)]
    ax.plot(at, ones, "x", at, [other] * len(at), "x", color=COLORS["black"], markersize=8)
    ax.set(title=domain.replace("_", " "), xlabel="offset $c$", ylabel="norm of the residual")
axes[0, 0].legend()
axes[1, 1].axis("off")
plt.show()


# %%
def beyond_the_shift(domain, discount):  # what the offset moves beyond c √e/(1-γ), relative
    along, rest = components[domain]
    c = torch.tensor(grid.OFFSETS, **like)[:, None]
    e = {"chain": 11, "four_rooms": 122, "mountain_car": 1000, "terminal goal": 121}[domain]
    moved = along - along[0] + c * math.sqrt(e) / (1 - discount)
    size = math.sqrt(e) / (1 - discount)
    return torch.stack([moved / size, (rest - rest[0]) / size])


def from_released(later):  # differences at offsets 0, .5 (ours larger by later tenths), in standard errors
    apart = []
    for domain, (ones, other) in released_start.items():
        at = [later, 5 + later][: len(ones)]
        along, rest = (values[at] for values in components[domain])
        pairs = [(along.abs(), torch.tensor(ones[:2], **like))] + ([] if later else [(rest, other)])
        for ours, theirs in pairs:
            apart.append((ours.mean(-1) - theirs).abs() / (ours.std(-1) * math.sqrt(2 / len(kept_seeds))))
    return torch.cat(apart)


# %% [markdown]
# How to read a card or row: one that says "27 values, worst 2.1 against 3; what breaks it: ... (4 at best)" means that each of 27 measured numbers had to
# stay below 3, that the largest was 2.1, and that the same measurement with the effect removed or exchanged gave no number below 4, so the check could fail.
# "(At least ...)" after a difference of means is the lower end of its 99.9 % interval, which must be positive.

# %% tags=["hide-input"]
ledger.check(
    "implicit:fig-1",
    "The offset moves the ones component by c√e/(1 − γ), and the rest not at all",
    measured=torch.cat([beyond_the_shift("chain", 0.9), beyond_the_shift("four_rooms", 0.9)]),
    criterion=identity("change of both components beyond the shift, relative to it", size=10),
    control=control(
        "where episodes end: four rooms with a terminal goal, mountain car",
        torch.cat(
            [
                beyond_the_shift(domain, gamma)[:, -1].abs().amax(-1)
                for domain, gamma in (("terminal goal", 0.9), ("mountain_car", 0.99))
            ]
        ),
    ),
    expected="reproduced",
    claim="experiment",
    show="card",
    seeds=kept_seeds,
)
ledger.check(
    "implicit:beyond-released-start",
    "Three domains: both components before training agree with the released ones, at offsets 0 and 0.5",
    measured=from_released(0),
    criterion=at_most("|mean here − mean released| / standard error (spreads taken as equal)", 3.0),
    control=control("ours at offsets larger by a tenth", from_released(1)),
    expected="reproduced",
    claim="experiment",
    needs="book",
    seeds=kept_seeds,
)

# %% [markdown]
# ## What training leaves, and the released numbers
#
# **Predict first.** In four rooms the offset 1 puts the residual norm of the explicit learner at 113 before training. How much
# is left after 300 steps at the best step size: nothing, a tenth, or nearly half?

# %%
four_parts = [kept(f"four_rooms_implicit_part_{k}") for k in range(1, 5)]
car_parts = [kept(f"mountain_car_implicit_part_{k}") for k in range(1, 5)]
finals = {  # (discounts, step sizes, offsets, seeds), after 300 steps
    ("chain", "explicit"): kept("chain_explicit")["norm"][-1],
    ("chain", "implicit"): kept("chain_implicit")["norm"][-1],
    ("four_rooms", "explicit"): kept("four_rooms_explicit")["norm"][-1],
    ("four_rooms", "implicit"): np.concatenate([part["norm"][-1] for part in four_parts]),
    ("mountain_car", "explicit"): kept("mountain_car_explicit")["norm"][-1],
    ("mountain_car", "implicit"): np.concatenate([part["norm"][-1] for part in car_parts]),
}
marked = {  # position on the grid of the step sizes that the source marks as best
    ("chain", "explicit"): [1] * 4,
    ("chain", "implicit"): [3, 2, 2, 1],
    ("four_rooms", "explicit"): [3] * 4,
    ("four_rooms", "implicit"): [5, 4, 3, 1],
    ("mountain_car", "explicit"): [5] * 4,
    ("mountain_car", "implicit"): [5, 4, 3, 1],
}
names = {0: ".8", 1: ".9", 2: ".95", 3: ".975"}


def best(domain, kind, discount=2):  # (offsets, seeds) at the marked step size
    return finals[domain, kind][discount, marked[domain, kind][discount]]


# %% tags=["hide-input"] mystnb={"figure": {"caption": "**In four rooms the explicit residual follows the offset, the implicit one at 0.95 stays near what no learner can remove.** Residual after 300 steps at the step sizes marked best, 20 seeds; crosses with bars: released mean and standard error. Grey: the floor of the absorbing state, which has no features. What breaks the pattern: the chain, where our twenty seeds have seen every state, and mountain car, where both learners fall together (of the released numbers only that of the explicit learner at offset 0 is drawn there).", "name": "fig-value-learning-offsets"}, "image": {"alt": "Three panels of final residual against offset. Chain: curves close together, the released crosses of the explicit learner rise. Four rooms: the explicit line rises to almost fifty, implicit curves to about ten along a grey floor. Mountain car: falling curves that nearly coincide."}}
released = {  # mean and standard deviation at offsets 0, .5, 1
    ("chain", "explicit", 2): ([4.86, 5.98, 7.18], [2.01, 3.86, 5.91]),
    ("chain", "implicit", 0): ([4.07, 4.12, 4.23], [0.95, 1.17, 1.37]),
    ("chain", "implicit", 1): ([4.04, 4.07, 4.12], [0.95, 1.00, 1.07]),
    ("chain", "implicit", 2): ([4.15, 4.16, 4.18], [1.04, 1.06, 1.09]),
    ("chain", "implicit", 3): ([5.08, 5.09, 5.10], [1.79, 1.80, 1.81]),
    ("four_rooms", "explicit", 2): ([2.69, 24.50, 47.45], [0.51, 2.24, 4.15]),
    ("four_rooms", "implicit", 0): ([1.56, 7.11, 13.18], [0.13, 0.49, 1.65]),
    ("four_rooms", "implicit", 2): ([1.81, 5.39, 10.33], [0.21, 0.14, 0.20]),
    ("four_rooms", "implicit", 3): ([2.45, 5.58, 10.33], [0.27, 0.11, 0.06]),
    ("mountain_car", "explicit", 2): ([358], [163]),
}
fig, axes = figures.subplots(2, 2, size=(8.6, 6.4))
plotted = {}
for ax, domain in zip(axes.flat, problems.DOMAINS, strict=False):
    for kind, discount, color in (
        ("explicit", 2, COLORS["vermillion"]),
        ("implicit", 2, COLORS["blue"]),
        ("implicit", 0, COLORS["green"]),
    ):
        label = kind if kind == "explicit" else f"implicit, $\\hat\\gamma={names[discount]}$"
        column = f"{domain}_{kind}{names[discount][1:] if kind == 'implicit' else ''}"
        curve = best(domain, kind, discount)
        plotted[column] = figures.band(ax, grid.OFFSETS, curve.T, label=label, color=color).line
        mean, spread = released.get((domain, kind, discount), ([], []))
        at = [0, 0.5, 1][: len(mean)]
        ax.errorbar(at, mean, np.array(spread) / math.sqrt(20), fmt="x", color=color, capsize=3)
    ax.set(title=domain.replace("_", " "), xlabel="offset $c$", ylabel="final residual")
axes[0, 1].plot(
    grid.OFFSETS,
    10 * np.array(grid.OFFSETS),
    color=COLORS["middle grey"],
    marker="",
    label="absorbing state",
)
axes[0, 1].legend(fontsize=8)
axes[1, 1].axis("off")
plt.show()

# %% tags=["hide-input"]
in_car = {name: line for name, line in plotted.items() if name.startswith("mountain_car")}
elsewhere = {name: line for name, line in plotted.items() if name not in in_car}
figures.numbers(run, "fig-value-learning-offsets", figures.columns("offset", elsewhere), rtol=1e-3)
figures.numbers(run, "fig-value-learning-offsets-car", figures.columns("offset", in_car), rtol=2e-2)
assert abs(best("four_rooms", "explicit")[10].mean() - 48) < 0.5
assert abs(kept("four_rooms_explicit")["norm"][0, 2, 3, 10].mean() - 113) < 0.5

# %% [markdown]
# :::{dropdown} Answer
# Nearly half, 48 of 113. No step size repairs it: the next section shows why it cannot.
# :::
#
# The authors' run and ours share no random number. Two means over 20 seeds agree if they differ by at most three standard
# errors of their difference. What breaks it: in four rooms, our explicit learner held against the released implicit one, and the
# other way round. The table shows mean $\pm$ standard deviation over the 20 released seeds at the offsets 0 and 1; the nine numbers at offset 0.5 are tested too. In the chain such an exchange passes, for the released spread is so large that 20 seeds cannot tell the two
# learners apart; there the test rests on the set-up of the paper's text, which fails it.

# %%
described = {
    (domain, kind): kept(f"{domain}_{kind}_described_3_offsets_part_3")["norm"][-1][0]
    for domain in ("chain", "four_rooms")
    for kind in ("explicit", "implicit")
}  # (step sizes, offsets, seeds) at the internal discount .95


def standard_errors(samples, mean, spread):  # |difference of means| in standard errors, an offset each
    error = np.sqrt(samples.var(-1, ddof=1) / 20 + np.array(spread) ** 2 / 20)
    return np.abs(samples.mean(-1) - np.array(mean)) / error


apart = {
    key: standard_errors(best(*key)[[0, 5, 10]][: len(mean)], mean, spread)
    for key, (mean, spread) in released.items()
}
exchanged = [
    standard_errors(best("four_rooms", ours)[[0, 5, 10]], *released["four_rooms", theirs, 2])
    for ours, theirs in (("explicit", "implicit"), ("implicit", "explicit"))
]
as_the_text = [
    standard_errors(described["chain", kind][k], *released["chain", kind, 2])[:1]
    for kind, k in (("explicit", 1), ("implicit", 2))
]

# %% tags=["hide-input"]
rows = [
    (
        f"{key[0].replace('_', ' ')}, {key[1]}"
        + (f" γ̂ = {names[key[2]]}" if key[1] == "implicit" else "")
        + f", c = {c}",
        f"{mean[i]:.2f} ± {spread[i]:.2f}",
        best(*key)[5 * i].mean(),
        bool(apart[key][i] <= 3),
    )
    for key, (mean, spread) in released.items()
    for i, c in ((0, 0), (2, 1))
    if i < len(mean)
]
figures.comparison(
    rows,
    "means over 20 seeds differ by at most 3 standard errors of the difference",
    run=run,
    name="released-residuals",
    rtol=1e-3,
)
ledger.check(
    "implicit:fig-2",
    "Final residuals of three domains agree with the released ones in 28 of 28 combinations of domain, learner and offset",
    measured=np.concatenate(list(apart.values())),
    criterion=at_most("|mean here − mean released| / standard error", 3.0),
    control=control(
        "four rooms with the learners exchanged; the chain as the text describes it, offset 0",
        np.concatenate([*exchanged, *as_the_text]),
    ),
    expected="reproduced",
    claim="experiment",
    show="card",
    seeds=range(20),
    rtol=1e-3,
)

# %% [markdown]
# ## Where the gain sits
#
# Why is so much left? Explicit one-hot weights move only when their own cell is drawn. A cell that no
# batch contains ends where it began, whatever the step size, while its true value has moved by $c/(1-\gamma)$. With
# $300\times25$ draws, three quarters of them spent in the absorbing state, about one cell in six is never touched:
# half of them wall cells, which no walk enters, the others far from the goal. With $c=1$ each of $m$ such cells is off by about ten, which makes a
# norm of $10\sqrt m$: 46 if $m=21$. That is nearly the whole curve.
#
# The next figure sorts the cells by how often they were drawn.

# %%
groups = {
    "never": counts == 0,
    "1 to 3": (counts > 0) & (counts < 4),
    "4 to 15": (counts > 3) & (counts < 16),
    "16 or more": counts > 15,
}
cells_only = torch.arange(122) < 121
untouched = (counts[:, :121] == 0).double()
assert abs(counts[:, 121].double().mean() / 7500 - 0.75) < 0.05
assert abs(untouched.mean() - 1 / 6) < 0.05


def group_norm(name, chosen, offset=2):  # norm of the final residual over some cells, (seeds,)
    return torch.where(chosen & cells_only, trained[name].last[offset], 0.0).norm(dim=-1)


# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Nearly all that separates the learners is how they treat cells that were never drawn.** Norm of the final residual over the cells of each group, four rooms, offset 1, mean and 95 % interval over 20 seeds. What breaks the difference: a few draws. From four on what is left is the noise of a large step.", "name": "fig-value-learning-groups"}, "image": {"alt": "Bars in four groups. In the group never drawn the explicit bar is more than ten times as high as the two others; from four draws on all three are of one size."}}
fig, ax = figures.subplots()
for i, (name, color) in enumerate(
    zip(trained, (COLORS["vermillion"], COLORS["blue"], COLORS["green"]), strict=True)
):
    samples = torch.stack([group_norm(name, chosen) for chosen in groups.values()])
    spread = samples.std(-1) * 2.09 / math.sqrt(len(seeds))  # 95 % interval with 19 degrees of freedom
    ax.bar(
        np.arange(4) + 0.27 * (i - 1), samples.mean(-1), 0.25, yerr=spread, capsize=2, label=name, color=color
    )
ax.set(xlabel="times drawn in 300 steps", ylabel="norm of the residual")
log_axis(ax, 0.5, 1, 2, 5, 10, 20, 50)
ax.set_xticks(range(4), groups)
ax.legend()
plt.show()


# %%
def share_of_undrawn(name):  # of the squared residual over the cells
    return group_norm(name, groups["never"]) ** 2 / group_norm(name, counts >= 0) ** 2


# %% tags=["hide-input"]
ledger.check(
    "implicit:beyond-undrawn-cells",
    "At c = 1 cells never drawn hold nine tenths of the explicit learner's squared error",
    measured=share_of_undrawn("explicit"),
    criterion=confident("share of cells never drawn in ‖r‖² over the cells", at_least=0.9),
    control=control("the implicit learner", share_of_undrawn("implicit")),
    expected="reproduced",
    claim="experiment",
    show="card",
    needs="book",
    seeds=seeds,
)

# %% [markdown]
# So the curve of four rooms is not about speed. The implicit learner does not reach the same solution sooner; it reaches
# another one, because each step of it moves *all* values, through the rank-one part of $P$. That is generalization, or
# inductive bias: values of unseen states follow the common level of the seen ones.
#
# The chain tells the same story by accident. It has 50 data points on 11 states, so with probability
# $1-11(10/11)^{50}$, up to a small correction, every state is among them. In about one seed of eleven one is missing. For such
# a seed the explicit residual grows by nearly ten per unit of offset; for all others it hardly grows (by 0.04).

# %%
many = [seed + 1000 for seed in run.seeds(smoke=150, book=400, paper=400)]
chain = problems.chain_problem(run, many)
chain_start = models.latent_start(run, many, 11)
chain_drawn = training.batches(run, many, 50)
chain_runs = {
    kind: grid.run_grid(
        kind, chain, chain_start, chain_drawn, grid.combinations([step], [0.95], [0.0, 1.0])
    ).record.norm[-1]
    for kind, step in (("explicit", 0.5), ("implicit", 2.0**-6))
}
missing = ~chain.visited.all(-1)
rise = {kind: final[1] - final[0] for kind, final in chain_runs.items()}

# %% tags=["hide-input"]
ledger.check(
    "implicit:beyond-chain-lottery",
    "Chain: only seeds that miss a state feel the offset, by eight or more per unit",
    measured=rise["explicit"][missing],
    criterion=confident("rise of the explicit residual from c = 0 to c = 1", at_least=8.0),
    control=control("seeds that saw every state", rise["explicit"][~missing]),
    expected="reproduced",
    claim="experiment",
    needs="book",
    seeds=many,
)

# %% [markdown]
# This is also how the released numbers for the chain read: a mean that rises by 2.3 while its standard deviation
# triples (2.01 to 5.91) is what about five such seeds of twenty would give (two are expected), not a trend of all. Our twenty seeds happen to have none.
#
# ## One learned bias
#
# If the common level is what matters, teach it directly. Append to every cell's one-hot vector one more feature of constant
# size $s$; nothing else changes, and in particular nothing about latent chains. The released code has this feature as an option,
# which is off in all its released runs.
#
# :::{prf:proposition} A bias is a rank-one preconditioner
# :label: implicit-beyond-bias-is-rank-one
# Let $f(x)=\phi(x)^\top(\theta+s\,\kappa\,\mathbf 1)$, and let SGD with step size $\eta$ train $\theta$ and the bias weight
# $\kappa$ on any losses of $f$. Then the effective weights $\beta=\theta+s\,\kappa\,\mathbf 1$ follow SGD with
#
# $$\beta_{k+1}=\beta_k-\eta\,(I+s^2\mathbf 1\mathbf 1^\top)\,\nabla_\beta\mathcal L_k(\beta_k).$$
# :::
#
# *Why one should expect it.* The Jacobian of $\beta$ with respect to $(\theta,\kappa)$ is $J=[I,\ s\mathbf 1]$, and
# $JJ^\top=I+s^2\mathbf 1\mathbf 1^\top$. The map is linear, so this holds for steps of any size, not only small ones.
#
# :::{dropdown} Proof
# 1. By the chain rule $\nabla_\theta\mathcal L=\nabla_\beta\mathcal L=:g$ and $\partial\mathcal L/\partial\kappa=s\,\mathbf 1^\top g$.
# 2. One step gives $\theta-\eta g$ and $\kappa-\eta s\,\mathbf 1^\top g$.
# 3. Hence $\beta$ becomes $\beta-\eta g-\eta s^2\mathbf 1\mathbf 1^\top g$. $\square$
# :::
#
# For comparison, the leading term of the implicit $P$ is $c_v(1-\hat\gamma)^{-2}\mathbf 1\mathbf 1^\top$ with
# $c_v=v^\top(I+\hat\gamma^2\,\mathrm{diag}(q))v\ge\frac1d$, $v$ the stationary law of $S_Z$ (the long-run share of time in each latent state). So a bias imitates it if its step times $s^2$ is
# of the size of $\eta c_v(1-\hat\gamma)^{-2}$. Below it is $8\cdot0.3=2.4$ (step 8, $s^2=0.3$); the implicit learner, with $\eta=1$, $\hat\gamma=0.95$ and $d=121$, has $400/121\approx3.3$ if $c_v=1/d$.
#
# **Predict first.** Which of these also close the gap: subtracting the mean target from all targets (*centring*) and adding it back at the end; Adam?

# %%
has_features = rooms.states < 121
targets = rooms.returns + offsets[:, None, None] * rooms.annuities
level = (targets * has_features).sum(-1) / has_features.sum(-1)  # (offsets, seeds): mean target


def cells_norm(last):  # norm of the residual over the cells, (offsets, seeds)
    return last[..., :121].norm(dim=-1)


def centred(step):
    ends = []
    for i in range(3):
        shifted = replace(
            rooms,
            returns=targets[i] - level[i][:, None],
            annuities=torch.zeros_like(rooms.annuities),
        )
        model = models.Explicit(weights_at_start[None].clone(), GradientDescent(step))
        training.train(model, shifted, torch.zeros(1, **like), drawn)
        ends.append(model.weights()[0] + level[i][:, None] - rooms.values[:121] - 10 * offsets[i])
    return torch.stack(ends)


# %%
def outer(gradient):  # (I + s² 1 1ᵀ) g
    return gradient + bias_scale**2 * gradient.sum(-1, keepdim=True)


ranked = fit(explicit(GradientDescent(bias_step), precondition=outer))
adam = torch.stack([cells_norm(fit(explicit(Adam(step))).last) for step in (0.03, 0.1, 0.3, 1.0)])
best_adam = adam.mean(-1).argmin(0)  # the best step size of each offset
baselines = {
    "explicit": cells_norm(trained["explicit"].last),
    "Adam": torch.stack([adam[best_adam[i], i] for i in range(3)]),
    "centred targets": cells_norm(centred(explicit_step)),
    "bias": cells_norm(trained["explicit with a bias"].last),
    "rank-one $P$": cells_norm(ranked.last),
    "implicit": cells_norm(trained["implicit"].last),
}

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**A bias, a rank-one preconditioner and centred targets do what the latent model does; Adam does not.** Four rooms, residual over the 121 cells after 300 steps against the offset, 20 seeds. Bias and rank-one matrix coincide. What breaks it: Adam, whose preconditioner is diagonal, cannot move a cell that was not drawn.", "name": "fig-value-learning-baselines"}, "image": {"alt": "Residual on a logarithmic axis at three offsets. Explicit and Adam rise steeply; centred targets, bias, rank-one and implicit stay near two to three."}}
fig, ax = figures.subplots(size=(6.4, 4.2))
for name, samples in baselines.items():
    if name == "Adam":
        figures.line_control(ax, offsets, samples.mean(-1), label=name)
    else:
        figures.band(ax, offsets, samples.T, label=name)
ax.set(xlabel="offset $c$", ylabel="final residual over the cells")
log_axis(ax, 2, 5, 10, 20, 50)
ax.legend(fontsize=8)
plt.show()

# %% tags=["hide-input"]
figures.numbers(
    run,
    "fig-value-learning-baselines",
    {"offset": offsets, **{name.split()[0].replace("-", "_"): v.mean(-1) for name, v in baselines.items()}},
)

# %%
worse = {name: (v / baselines["implicit"]).mean(0) for name, v in baselines.items()}


def with_wrong_size():  # s in the place of s squared, against the bias, both at half the step
    half = GradientDescent(bias_step / 2)
    wrong = fit(explicit(half, precondition=lambda g: g + bias_scale * g.sum(-1, keepdim=True)))
    return wrong.norm[-1] / fit(explicit(half, 1), with_bias(rooms, bias_scale)).norm[-1] - 1


# %% tags=["hide-input"]
ledger.check(
    "implicit:beyond-bias-closes-gap",
    "An explicit learner with one bias is within a tenth of the implicit one",
    measured=worse["bias"],
    criterion=confident("‖r‖ with a bias / ‖r‖ implicit, cells, mean over offsets", at_most=1.1),
    control=control("without the bias", worse["explicit"]),
    expected="reproduced",
    claim="experiment",
    show="card",
    needs="book",
    seeds=seeds,
)
ledger.check(
    "implicit:beyond-adam-does-not",
    "With an offset, Adam with tuned steps leaves at least three times the implicit residual",
    measured=(baselines["Adam"] / baselines["implicit"])[1:].amin(0),
    criterion=confident("‖r‖ Adam / ‖r‖ implicit at c = 0.5 and 1, the smaller", at_least=3.0),
    control=control("centred targets", (baselines["centred targets"] / baselines["implicit"])[1:].amin(0)),
    expected="reproduced",
    claim="experiment",
    needs="book",
    seeds=seeds,
)
ledger.check(
    "implicit:beyond-bias-is-rank-one",
    "SGD with a bias of size s is SGD with I + s²11ᵀ in front of the gradient",
    measured=(ranked.norm - trained["explicit with a bias"].norm) / ranked.norm,
    criterion=identity("relative difference of ‖r‖ along training", condition=300, size=10),
    control=control(
        "s in the place of s², both at half the step",
        with_wrong_size,
    ),
    expected="holds",
    seeds=seeds,
)

# %% [markdown]
# :::{dropdown} Answer
# Centring does, Adam does not. Centring is a bias set once, by hand, from the data; it is not available when targets
# are bootstrapped (made from the learner's own values) and their level is not known in advance, which is the source's argument for the implicit model, and equally
# one for a learned bias. Adam divides each coordinate by its own scale. A coordinate without gradient stays.
# :::
#
# The bias was tuned on these seeds, as the steps of the others were; run with another `SEED`, the page meets fresh ones. What is left for the
# latent model after this baseline is small here, at offset zero included. This does not say that latent models
# are useless; it says that *these experiments* do not separate them from a bias.
#
# ## The internal discount
#
# The larger $\hat\gamma$, the more $P$ favours the ones, so the residual should feel the offset less. Behind the leading term of $P$ comes one of the form $(1-\hat\gamma)^{-1}(h\mathbf 1^\top+\mathbf 1h^\top)$ with a bounded vector $h$,
# so a single undrawn cell runs ahead of the common level or lags behind it by a share of the order of $1-\hat\gamma$. For random logits, as at the start, the entries of $h$ nearly cancel in the mean over many undrawn cells, and what is left of the lag there is mainly of the order of $(1-\hat\gamma)^2$. The source reads its figure in three sentences: the residual is
# less sensitive to the offset for a larger $\hat\gamma$; in the chain the least sensitive $\hat\gamma$ is not the best one; and the best need not
# be the true discount. The first is tested in four rooms, over the whole evaluation set as in the source: the rise of the residual from $c=0$ to
# $c=1$ gets smaller with each larger $\hat\gamma$. (Over the 121 cells alone it falls much faster, since the absorbing state leaves every learner a floor that rises by ten with $c$.) In
# the chain none of our twenty seeds feels the offset, and in mountain car $\hat\gamma$ makes little difference. And the same
# factor $(1-\hat\gamma)^{-2}$ limits the step size.

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**A larger internal discount buys insensitivity and pays with step size.** Final residual against the internal discount (on an axis of $\\ln\\frac{\\hat\\gamma}{1-\\hat\\gamma}$), one curve an offset. Left: step size tuned for each discount as the source marks it; three domains. Right: one step size for all, the largest at which none diverges. Vertical line: the true discount. What breaks the rule of thumb 'use the true discount': in four rooms the smallest residual lies to its left at offset 0, and to its right at offset 1.", "name": "fig-value-learning-discount"}, "image": {"alt": "Five panels: chain, four rooms, mountain car from above, tuned left and, but for mountain car, untuned right. Curves for three offsets against the internal discount. In four rooms they come closer to each other to the right; in mountain car they are flat and far apart."}}
discounts = np.array(grid.INTERNAL_DISCOUNTS)
logit = np.log(discounts / (1 - discounts))
fig, axes = figures.subplots(3, 2, size=(8.6, 9.6))
for i, c in ((0, 0), (5, 0.5), (10, 1)):
    tuned = np.stack([best("mountain_car", "implicit", k)[i] for k in range(4)], -1)
    figures.band(axes[2, 0], logit, tuned, label=f"$c={c}$")
log_axis(axes[2, 0], 10, 20, 50, 100, 200, 500)
axes[2, 0].set(title="mountain car, tuned step", ylabel="final residual")
axes[2, 1].axis("off")
for row, domain in enumerate(("chain", "four_rooms")):
    common = int(np.flatnonzero(np.isfinite(finals[domain, "implicit"]).all((0, 2, 3)))[-1])
    for i, c in ((0, 0), (5, 0.5), (10, 1)):
        tuned = np.stack([best(domain, "implicit", k)[i] for k in range(4)], -1)
        figures.band(axes[row, 0], logit, tuned, label=f"$c={c}$")
        untuned = finals[domain, "implicit"][:, common, i].T
        figures.band(axes[row, 1], logit, untuned, label=f"$c={c}$")
    step = grid.IMPLICIT_STEPS[domain][common]
    axes[row, 0].set(title=f"{domain.replace('_', ' ')}, tuned step", ylabel="final residual")
    axes[row, 1].set(title=f"$\\eta=2^{{{int(math.log2(step))}}}$ for all")
for ax in axes.flat[:5]:
    truth = math.log(99) if ax is axes[2, 0] else math.log(9)
    ax.axvline(truth, color=COLORS["middle grey"], linestyle=":")
    ax.set_xticks([*logit, math.log(99)][: 5 if ax is axes[2, 0] else 4])
    ax.set_xticklabels([".8", ".9", ".95", ".975", ".99"][: len(ax.get_xticks())])
    ax.set_xlabel("internal discount $\\hat\\gamma$")
axes[0, 0].legend()
plt.show()


# %%
def rise_with_offset(ends):  # of the final residual (offsets, seeds), from c = 0 to c = 1
    return ends[-1] - ends[0]


def rises(domain):  # at the marked step of each internal discount
    return {names[k]: rise_with_offset(best(domain, "implicit", k)) for k in range(4)}


fresh = {  # the chain on many fresh seeds: the marked steps of .9 and .975, offsets 0 and 1, (offsets, seeds)
    names[k]: grid.run_grid(
        "implicit",
        chain,
        chain_start,
        chain_drawn,
        grid.combinations([step], [grid.INTERNAL_DISCOUNTS[k]], [0.0, 1.0]),
    ).record.norm[-1]
    for k, step in ((1, 2.0**-6), (3, 2.0**-7))
}
on_average = {name: ends.mean(0) for name, ends in fresh.items()}
sensitivity = {name: rise_with_offset(ends) for name, ends in fresh.items()}
car_gap = best("mountain_car", "implicit")[0] - best("mountain_car", "explicit")[0]  # offset 0, discount .95
assert abs(car_gap.mean()) < 3 * car_gap.std(ddof=1) / math.sqrt(20)
rooms_at_one = {names[k]: best("four_rooms", "implicit", k)[10].mean() for k in range(4)}
assert rooms_at_one[".95"] < rooms_at_one[".9"]  # four rooms, c = 1: the best is not the true discount

# %% tags=["hide-input"]
ledger.check(
    "implicit:fig-3",
    "Four rooms: the rise with the offset gets smaller with each larger γ̂",
    measured=rises("four_rooms"),
    criterion=ordering("rise of the final residual from c = 0 to c = 1", [".975", ".95", ".9", ".8"]),
    control=control("the chain, where no seed misses a state", rises("chain")),
    expected="reproduced",
    claim="experiment",
    show="card",
    seeds=range(20),
    rtol=1e-3,
)
ledger.check(
    "implicit:claim-best-eta",
    "Chain: the least sensitive discount, .975, is not the best: .9 ends lower",
    measured=on_average,
    criterion=ordering("final residual at the marked step, mean over c = 0 and 1", [".9", ".975"]),
    control=control("the rise with the offset, in which .975 is ahead", sensitivity),
    expected="reproduced",
    claim="experiment",
    needs="book",
    seeds=many,
)

# %% [markdown]
# The chain of the second row has 400 fresh seeds, with which a difference of one seed in eleven is seen. Its control is the sensitivity itself: there .975 is
# ahead of .9, so the order is the other way round. Two reservations. The step marked at .975 is not the best one of the
# grid in our runs; at the best one the two discounts are closer. And not everything in this figure is learning: a larger $\hat\gamma$ makes larger
# random values at the start, and undrawn cells keep part of them, so that in four rooms at $c=0$ the *explicit* learners that start from the weights of .8
# also end below those that start from the weights of .9. What is not a matter of the start is that .95 beats the true discount .9 in four rooms where the offset is one.
#
# How fast does the largest usable step fall? $P$'s leading eigenvalue is $d\,c_v(1-\hat\gamma)^{-2}$, and SGD stays stable
# only if step times curvature stays below two. So each halving of $1-\hat\gamma$ should divide the largest usable step by four. On the chain, with
# steps a factor $\sqrt2$ apart, it does.

# %%
near_one = [0.9, 0.95, 0.975, 0.9875]
few = run.seeds(smoke=2, book=8, paper=20)


def final_residuals(kind, steps):  # chain, no offset; (steps x discounts, seeds)
    return grid.run_grid(
        kind,
        problems.chain_problem(run, few),
        models.latent_start(run, few, 11),
        training.batches(run, few, 50),
        grid.combinations(steps, near_one, [0.0]),
        chunk=16,
    ).record.norm[-1]


def exponent_of_the_largest(sweep, steps):  # a step is usable if every seed ends below three times 10
    usable = (sweep < 30).all(-1).reshape(len(steps), 4)
    largest = torch.tensor([steps[int(torch.nonzero(usable[:, k])[-1])] for k in range(4)])
    return statistics.log_log_slope(1 - torch.tensor(near_one), largest).estimate


finer = [2.0 ** (i / 2) for i in range(-20, -3)]
falls = exponent_of_the_largest(final_residuals("implicit", finer), finer)
wider = [2.0 ** (i / 2) for i in range(-4, 12)]
falls_explicit = exponent_of_the_largest(final_residuals("explicit", wider), wider)

# %% tags=["hide-input"]
# each largest step is known within a factor √2: four points, a factor 2 apart, leave ± 0.2
ledger.check(
    "implicit:beyond-stable-step",
    "The largest usable step of the implicit learner falls like (1 − γ̂)²",
    measured=falls,
    criterion=between("the exponent of the largest step in 1 − γ̂", 1.8, 2.2),
    control=control("the explicit learner from the same starts", falls_explicit),
    expected="reproduced",
    claim="experiment",
    needs="book",
    seeds=few,
)

# %% [markdown]
# Hence a caution about speed: at a *tuned* step the rate along the ones no longer grows with $\hat\gamma$; all other
# directions merely become slower. This is one reason why .975, though it is the least sensitive, need not be the best; how much of the
# difference in the chain it explains, no run on this page measures.
#
# ## All sweeps
#
# Appendix D of the source shows every step size, with the best one marked; here they are in one figure. The source prints no numbers, so its
# mark is what can be tested: does any other step of the grid end lower, averaged over the offsets, by more than three standard errors of the
# difference? (The same seeds are trained with every step, so the differences are paired. A step at which a run diverges is not lower.)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Every sweep of the source, one action.** Final residual against the step size, mean of 20 seeds, all on log axes; a curve ends where a run diverges. Explicit: one curve an offset (0, 0.5, 1, darker is larger). Implicit: one curve an internal discount, at offset 1. Circles: the steps marked best. What breaks a run: a step beyond a limit that falls by a factor of four with each halving of one minus the discount, or, for the explicit learner, one cell drawn too often in one batch.", "name": "fig-value-learning-sweeps"}, "image": {"alt": "Six panels: chain, four rooms, mountain car in rows, explicit left and implicit right. Explicit curves are nearly flat and end; implicit curves for larger discounts end further left."}}
fig, axes = figures.subplots(3, 2, size=(8.6, 9.6))
sweep_ticks = {
    "chain": [(4.5, 5, 6), (4, 5, 6, 8)],
    "four_rooms": [(2, 5, 10, 20, 50), (10, 15, 20, 30)],
    "mountain_car": [(10, 20, 50, 100, 200, 500), (5, 10, 20)],
}
for row, domain in enumerate(problems.DOMAINS):
    left, right = axes[row]
    explicit_finals = finals[domain, "explicit"][2]
    for column, shade in zip(range(3), (COLORS["grey"], COLORS["middle grey"], COLORS["black"]), strict=True):
        means = explicit_finals[:, 5 * column].mean(-1)
        left.plot(grid.EXPLICIT_STEPS[domain], means, color=shade)
        chosen = grid.EXPLICIT_STEPS[domain].index(grid.BEST_EXPLICIT[domain])
        left.plot(grid.BEST_EXPLICIT[domain], means[chosen], "o", ms=11, mfc="none", color=shade)
    left.set(title=f"{domain.replace('_', ' ')}, explicit", ylabel="final residual")
    for k in range(4):
        taken, curve = grid.IMPLICIT_STEPS[domain], finals[domain, "implicit"][k, :, 10]
        chosen = marked[domain, "implicit"][k]
        look = {"color": figures.CYCLE[k], "label": f"$\\hat\\gamma={names[k]}$"}
        right.plot(taken, curve.mean(-1), **look)
        right.plot(taken[chosen], curve[chosen].mean(), "o", ms=11, mfc="none", color=figures.CYCLE[k])
    right.set(title=f"{domain.replace('_', ' ')}, implicit, $c=1$")
    for ax in (left, right):
        ax.set(xlabel="step size $\\eta$")
        ax.set_xscale("log", base=2)
    for ax, ticks in zip((left, right), sweep_ticks[domain], strict=True):
        log_axis(ax, *ticks)
axes[0, 1].legend(fontsize=8)
plt.show()


# %%
# residual at a step minus that at each other step, mean over offsets, in standard errors
def behind(domain, kind, discount, step):
    means = finals[domain, kind][discount].mean(1)  # (step sizes, seeds)
    others = [k for k in range(len(means)) if k != step and np.isfinite(means[k]).all()]
    gaps = means[step] - means[others]
    return gaps.mean(-1) / (gaps.std(-1, ddof=1) / math.sqrt(20))


sweeps = [  # id, title, domain, learner; a wrong mark: its discount and step
    ("fig-4", "Chain, explicit", "chain", "explicit", 2, 5),
    ("fig-5", "Four rooms, explicit", "four_rooms", "explicit", 2, 0),
    ("fig-6", "Mountain car, explicit", "mountain_car", "explicit", 2, 0),
    ("fig-7", "Chain, implicit", "chain", "implicit", 0, 0),
    ("fig-8", "Four rooms, implicit", "four_rooms", "implicit", 0, 0),
    ("fig-9", "Mountain car, implicit", "mountain_car", "implicit", 0, 0),
]
at_marked = {
    id: np.concatenate([behind(domain, kind, k, marked[domain, kind][k]) for k in range(4)])
    for id, _, domain, kind, *_ in sweeps
}

# %% tags=["hide-input"]
for id, title, domain, kind, discount, wrong in sweeps:
    ledger.check(
        f"implicit:{id}",
        f"{title}: at four discounts no step of the grid ends lower than the one marked best",
        measured=at_marked[id],
        criterion=at_most(
            "(residual at the marked step − at another) / standard error of the difference", 3.0, signed=True
        ),
        control=control(
            f"the {'largest' if wrong else 'smallest'} step marked, against the marked one",
            behind(domain, kind, discount, wrong).max(),
        ),
        expected="reproduced",
        claim="experiment",
        seeds=range(20),
        rtol=2e-2,
    )

# %% [markdown]
# The top of the explicit grid in four rooms diverges, and so does a growing part of the implicit grid as
# $\hat\gamma\to1$; in mountain car, at the two largest discounts, nearly all runs from twice the marked step on. The released choices stand up. In the chain at $\hat\gamma=.95$ and $.975$ a smaller step
# has a lower mean than the marked one, by less than two standard errors.
#
# ## Four latent actions
#
# The general latent model has actions: $\beta=\max_a(u_a+\hat\gamma S_{Z_a}\beta)$, entry by entry. The source remarks that
# this changes little, since the gradient is that of the chain which the greedy actions make, with zero for all rows not chosen.
#
# :::{prf:proposition} Only the greedy rows move
# :label: implicit-claim-greedy-jacobian
# Let $\beta$ solve the equation above and let the maximum in each entry be attained by one action only. Then $\beta$
# is differentiable in $(u,Z)$. Its derivative with respect to the greedy rows is that of the chain made of them, and
# zero with respect to all others.
# :::
#
# :::{dropdown} Proof
# 1. The right side is a contraction in $\beta$ with factor $\hat\gamma$ in the largest entry, so $\beta$ is unique and continuous in $(u,Z)$.
# 2. The gaps between the greedy and the other actions are positive and continuous; in a neighbourhood the greedy actions
#    stay the same.
# 3. There $\beta$ solves the linear equation of the greedy chain, and every other row is absent from it. $\square$
# :::
#
# What changes more than the gradient is the start: the largest of four random rewards is on average above a single one, and the values begin
# higher by a common amount. At offset 1 this helps the explicit learner in the cells whose values it cannot move.


# %%
def greedy_gradient(seed):  # difference to central differences, relative to the largest entry
    source = run.generator("actions", seed=seed)
    u = torch.randn(4, 6, generator=source, **like)
    Z = torch.randn(4, 6, 6, generator=source, **like)
    gradient = torch.randn(6, generator=source, **like)
    model = models.ImplicitActions(u[None, None].clone(), Z[None, None].clone(), 0.9, 1.0)
    model.weights()
    model.step(gradient[None, None])
    formula = torch.cat([(u - model.u[0, 0]).flatten(), (Z - model.Z[0, 0]).flatten()])

    def value(flat):
        moved = torch.softmax(flat[..., 24:].reshape(-1, 4, 6, 6), -1)
        return mdp.policy_iteration(moved, flat[..., :24].reshape(-1, 4, 6), 0.9).values @ gradient

    flat, h = torch.cat([u.flatten(), Z.flatten()]), 1e-5
    shifts = h * torch.eye(len(flat), **like)
    differences = (value(flat + shifts) - value(flat - shifts)) / (2 * h)
    everything = torch.autograd.functional.jacobian(  # as if the first action were greedy everywhere
        lambda x: fixed_points.reward_chain_value(x[:6], x[24:60].reshape(6, 6), 0.9) @ gradient, flat
    )
    size = differences.abs().max()
    return (formula - differences).abs().max() / size, (everything - differences).abs().max() / size


# %%
both = torch.tensor([greedy_gradient(seed) for seed in run.seeds(smoke=2, book=8, paper=20)], **like)

# %% tags=["hide-input"]
ledger.check(
    "implicit:claim-greedy-jacobian",
    "With several actions the gradient is that of the greedy chain, zero on other rows",
    measured=both[:, 0],
    criterion=at_most("|formula − central difference| / largest entry", 1e-6),
    control=control("the chain of the first action", both[:, 1]),
    expected="holds",
    noise=1e-6,
)

# %%
four = {  # final residual with four actions: (discounts, step sizes, offsets, seeds)
    (domain, "explicit"): kept(f"{domain}_explicit_4_actions")["norm"][-1] for domain in problems.DOMAINS
}
four["chain", "implicit"] = kept("chain_implicit_4_actions")["norm"][-1]
four["mountain_car", "implicit"] = np.concatenate(
    [kept(f"mountain_car_implicit_4_actions_part_{k}")["norm"][-1] for k in range(1, 5)]
)  # at the marked step of each discount, three offsets:
four["four_rooms", "implicit"] = kept("four_rooms_implicit_4_actions_best_3_offsets")["norm"][-1]


def at_the_mark(ends, domain, kind):  # (discounts, 1, three offsets, seeds)
    if ends.shape[1] == 1:
        return ends
    return np.stack([ends[k, marked[domain, kind][k]][None, ::5] for k in range(4)])


def over_one_action(domain, kind):  # ratio of the mean residuals (discounts, three offsets)
    both = [at_the_mark(ends, domain, kind).mean(-1) for ends in (four[domain, kind], finals[domain, kind])]
    return (both[0] / both[1])[:, 0]


ratios = {domain: over_one_action(domain, "implicit") for domain in problems.DOMAINS}
explicit_ratio = {domain: over_one_action(domain, "explicit")[2] for domain in problems.DOMAINS}
far_apart = np.abs(np.log(np.stack(list(ratios.values())))) > math.log(1.4)
assert not far_apart.any()

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Four latent actions change little.** Above: final residual with four actions over that with one, at the steps marked best, 20 seeds; dashed: explicit learners that start at the weights of a four-action model. The grey strip is a factor of 1.4, and all implicit ratios lie in it. Below: the final residual of the implicit learner on the full grids of the chain and of mountain car, four actions solid, one dotted, colours as above; a curve ends where a run diverges, and at small steps the higher start of four actions still shows. What breaks 'explicit panels are the same': in four rooms cells that are never drawn keep the higher start.", "name": "fig-value-learning-actions"}, "image": {"alt": "Ratios near one for the implicit learner in three domains at four discounts; the explicit ratio in four rooms is far above one at offset zero and below one at offset one. Below, solid and dotted curves of residual against step have like shapes and end at the same steps; in mountain car some solid ones lie higher at small steps."}}
fig, grid_of_axes = figures.subplots(2, 3, size=(9.6, 6.8))
axes, below = grid_of_axes
for ax, domain in zip(axes, problems.DOMAINS, strict=True):
    ax.axhspan(1 / 1.4, 1.4, color=COLORS["pale grey"])
    for k in range(4):
        ax.plot([0, 0.5, 1], ratios[domain][k], label=f"implicit, $\\hat\\gamma={names[k]}$")
    figures.line_control(ax, [0, 0.5, 1], explicit_ratio[domain], label="explicit")
    ax.set(title=domain.replace("_", " "), xlabel="offset $c$")
    log_axis(ax, 0.7, 1, 1.4, 2, 3)
    ax.set_ylim(0.55, 4)
axes[0].set_ylabel("four actions / one action")
axes[0].legend(fontsize=8)
for ax, domain in zip(below[[0, 2]], ("chain", "mountain_car"), strict=True):
    for k in range(4):
        for ends, look in ((finals[domain, "implicit"], ":"), (four[domain, "implicit"], "-")):
            ax.plot(grid.IMPLICIT_STEPS[domain], ends[k, :, 5].mean(-1), look, color=figures.CYCLE[k])
    ax.set(xlabel="step size $\\eta$", title=f"{domain.replace('_', ' ')}, $c=0.5$")
    ax.set_xscale("log", base=2)
log_axis(below[0], *sweep_ticks["chain"][1])
log_axis(below[2], 150, 200, 300)
below[0].set_ylabel("final residual")
below[1].text(0.5, 0.5, "solid: four actions\ndotted: one action", ha="center", fontsize=9)
below[1].axis("off")
plt.show()

# %% [markdown]
# The source says that with four actions "the same trends" are seen as with one. Here a trend is a straight line in one seed: of the logarithm of the residual
# in the offset, at a step and a discount; or in the logarithm of the step, over all steps at which no run diverged, at an offset and a discount. With one action and with four, the mean slope over the
# seeds is divided by its standard error. A trend has turned around if the two have different signs and both are more than three standard errors from zero, so what is measured is the smaller of the two, without its sign, where
# the signs differ, and zero where they agree. A slope that only changes its size passes. The control is the panel of one action of another domain. In four rooms
# the implicit learner with four actions is run at the marked step of each discount only, at three offsets. No trend turns around in five of the six panels. In the sixth, four rooms
# with the explicit learner, which has no actions and differs by its start only, two of sixty do.


# %%
def trend(values, at):  # (points, seeds); slope of ln(values): mean over its standard error
    finite = np.isfinite(values).all(-1)
    slopes = np.polyfit(np.asarray(at)[finite], np.log(values[finite]), 1)[0]
    return slopes.mean() / (slopes.std(ddof=1) / math.sqrt(20))


def trends_of(ends, usable):  # of all lines in the offset and in the step
    c, found = np.linspace(0, 1, ends.shape[2]), []
    for at_discount, fits in zip(ends, usable, strict=True):
        steps = np.flatnonzero(fits)  # positions on the grid, whose steps are powers of two
        found += [trend(at_discount[k], c) for k in steps]
        found += [trend(at_discount[steps, i], steps) for i in range(len(c)) if len(steps) > 1]
    return np.array(found)


def turned(domain, kind, other=None):  # four actions of a domain against one action of it, or of another
    ends, one = four[domain, kind], finals[other or domain, kind]
    one = one if ends.shape[1] > 1 else at_the_mark(one, other or domain, kind)
    usable = np.isfinite(ends).all((2, 3)) & np.isfinite(one).all((2, 3))
    before, after = trends_of(one, usable), trends_of(ends, usable)
    return np.where(before * after < 0, np.minimum(np.abs(before), np.abs(after)), 0.0)


# %%
same_as_with_one = {  # id: title, domain, learner; a domain with other trends
    "fig-10": ("Chain, explicit", "chain", "explicit", "mountain_car"),
    "fig-11": ("Four rooms, explicit", "four_rooms", "explicit", "mountain_car"),
    "fig-12": ("Mountain car, explicit", "mountain_car", "explicit", "four_rooms"),
    "fig-13": ("Chain, implicit", "chain", "implicit", "four_rooms"),
    "fig-14": ("Four rooms, implicit", "four_rooms", "implicit", "mountain_car"),
    "fig-15": ("Mountain car, implicit", "mountain_car", "implicit", "four_rooms"),
}
turnings = {id: turned(domain, kind) for id, (_, domain, kind, _) in same_as_with_one.items()}
four_runs = {  # four rooms, discount .95, marked step, (offsets, seeds)
    "implicit": four["four_rooms", "implicit"][2, 0],
    "explicit": four["four_rooms", "explicit"][2, marked["four_rooms", "explicit"][2]],
}
rise_of_four = {kind: rise_with_offset(ends) for kind, ends in four_runs.items()}
assert explicit_ratio["four_rooms"][0] > 2 and explicit_ratio["four_rooms"][2] < 1
for id, found in turnings.items():
    print(f"{same_as_with_one[id][0]}: {(found > 3).sum()} of {len(found)} trends turned")

# %% tags=["hide-input"]
turned_in_rooms = (
    "Two of 60 trends turn, both in the step size, at γ̂ = .9, c = .1 and γ̂ = .95, c = .2, where the higher start of four actions is "
    "near the values: over a factor eight of the step the residual falls by a fifth with one action and rises by about a tenth with four."
)
for id, (title, domain, kind, other) in same_as_with_one.items():
    ledger.check(
        f"implicit:{id}",
        f"{title}: with four actions the same trends as with one",
        measured=turnings[id],
        criterion=at_most("the smaller |mean slope|/standard error where the two signs differ", 3.0),
        control=control(
            f"one action in {other.replace('_', ' ')} in its place, the worst",
            turned(domain, kind, other).max(),
        ),
        expected="not reproduced" if id == "fig-11" else "reproduced",
        reason=turned_in_rooms if id == "fig-11" else None,
        claim="experiment",
        seeds=range(20),
        rtol=2e-2,
    )
ledger.check(
    "implicit:claim-four-actions-similar",
    "Four rooms: with four actions too the implicit learner feels the offset least",
    measured=rise_of_four,
    criterion=ordering("rise of the final residual, four actions", ["implicit", "explicit"]),
    control=control(
        "explicit against explicit: the start of one action in the implicit learner's place",
        rise_of_four | {"implicit": rise_with_offset(best("four_rooms", "explicit"))},
    ),
    expected="reproduced",
    claim="experiment",
    seeds=range(20),
    rtol=1e-2,
)

# %% [markdown]
# (sec-value-learning-described)=
# ## Released and described
#
# A reader who builds the experiment from the text alone would build another one.
#
# | | the text | the released set-up |
# |---|---|---|
# | chain, reward of the wrong action | on the way to state 10 | in state 10 |
# | chain, data | all states of the trajectories | first states only |
# | four rooms, slips | the agent stays | one of the other moves |
# | four rooms, goal | terminal | an absorbing state, counted in the evaluation |
# | batches | without replacement | with replacement |
# | absorbing state in the data | no | yes, most of it |
#
# The last row matters most for the step size. With terminal episodes a batch holds 25 cells and not some six, and each
# cell is drawn more often than its step allows at $2^5$.

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**What the described set-up would give.** Residual after 300 steps, internal discount 0.95, each at its best step of the grid, 20 seeds. Chain: both learners rise alike, since the last states of each walk have returns that are cut short. Four rooms: without an absorbing state the values no longer rise by a common amount, and the implicit learner feels the offset too, less than the explicit one. What breaks the released step sizes: without the absorbing state in the data the steps marked best diverge.", "name": "fig-value-learning-described"}, "image": {"alt": "Two panels of final residual against offset, chain and four rooms; solid lines for the released, dotted for the described set-up. In the chain the described curves rise together. In four rooms the explicit curves rise together and the implicit ones stay below."}}
fig, axes = figures.subplots(1, 2)
for ax, domain in zip(axes, ("chain", "four_rooms"), strict=True):
    for kind, color in (("explicit", COLORS["vermillion"]), ("implicit", COLORS["blue"])):
        tried = described[domain, kind]
        own = tried[int(tried.mean((1, 2)).argmin())]
        figures.band(
            ax, [0, 0.5, 1], best(domain, kind)[[0, 5, 10]].T, label=f"{kind}, released", color=color
        )
        figures.band(ax, [0, 0.5, 1], own.T, label=f"{kind}, described", color=color, ls=":")
    ax.set(title=domain.replace("_", " "), xlabel="offset $c$")
log_axis(axes[0], 2, 3, 4, 5, 6)
log_axis(axes[1], 2, 5, 10, 20, 50)
axes[0].set_ylabel("final residual")
axes[0].legend(fontsize=8)
plt.show()

# %%
assert np.isinf(described["four_rooms", "explicit"][3]).any()  # the steps marked best
assert np.isinf(described["four_rooms", "implicit"][3]).any()


# the rise of the explicit residual, less three times that of the implicit one, each at its best step
def rise_apart(domain):
    explicit, implicit = (described[domain, kind] for kind in ("explicit", "implicit"))
    rises = [rise_with_offset(each[int(each.mean((1, 2)).argmin())]) for each in (explicit, implicit)]
    return rises[0] - 3 * rises[1]


# %% tags=["hide-input"]
ledger.check(
    "implicit:beyond-described-protocol",
    "Four rooms as described: the explicit residual rises three times as much as the implicit",
    measured=rise_apart("four_rooms"),
    criterion=confident("rise of the explicit minus three times that of the implicit residual", at_least=1.0),
    control=control("the chain as described, which misses few states", rise_apart("chain")),
    expected="reproduced",
    claim="experiment",
    seeds=range(20),
    rtol=1e-3,
)

# %% [markdown]
# ## Mountain car
#
# In mountain car the offset does the opposite of what it does elsewhere: it *removes* the common level. At $c=0$ every step
# costs one; at $c=1$ a step is free and the goal pays one. The source notes that these are the two usual ways of writing
# a shortest-path problem. They rank states alike: with $T$ steps to the goal,
#
# $$
# \begin{aligned}
# V_0&=-\frac{1-\gamma^{T-1}}{1-\gamma},\\
# V_1&=\gamma^{T-1}=1+(1-\gamma)V_0 .
# \end{aligned}
# $$
#
# For a random $T$ take expectations; the relation is affine and stays.

# %%
drive = mountain_car.episodes(40, 400, run.generator("drive"))
reward_0 = torch.where(drive.active, drive.rewards, 0.0)
reward_1 = torch.where(drive.active, drive.rewards + 1, 0.0)
value_0, value_1 = (mdp.discounted_returns(reward, 0.99) for reward in (reward_0, reward_1))
arrives = ~drive.active[:, -1]
relation = torch.where(drive.active, value_1 - (1 + 0.01 * value_0), 0.0)
short = drive._replace(active=drive.active[:, :60], rewards=drive.rewards[:, :60])
cut_0 = mdp.discounted_returns(torch.where(short.active, short.rewards, 0.0), 0.99)
cut_1 = mdp.discounted_returns(torch.where(short.active, short.rewards + 1, 0.0), 0.99)

# %% tags=["hide-input"]
ledger.check(
    "implicit:claim-shortest-path-offset",
    "Offsets 0 and 1 are the two shortest-path conventions, related by V₁ = 1 + (1 − γ)V₀",
    measured=relation[arrives],
    criterion=identity("V₁ − 1 − (1 − γ)V₀ along episodes that arrive", size=10),
    control=control("episodes cut off after 60 steps", (cut_1 - 1 - 0.01 * cut_0).abs().amin(-1)),
    expected="holds",
)

# %% [markdown]
# The residual falls with $c$ because everything falls, noise included, and the two learners end near each other
# ({numref}`fig-value-learning-offsets`). Radial features overlap: a step at one state moves its neighbours, so the explicit
# learner already generalizes, and there are no cells that are never touched. This agrees with the explanation above; it is no proof of it.
# In the released runs the implicit learners, at the internal discounts other than 0.95, end 6 to 12 % below the explicit one at offset 0. Ours end 2 to 4 % below it there, and 6 % at 0.95, differences
# that 20 seeds do not tell from zero. (At the internal discount 0.95 and offset 0 the released mean itself is not a number, because a run
# there diverged. None of ours did.)

# %%
car_best = np.stack([best("mountain_car", "implicit", k).mean(-1) for k in range(4)])[:, [0, 5, 10]]
car_ratio = car_best / best("mountain_car", "explicit").mean(-1)[[0, 5, 10]]
early = np.concatenate([part["norm"][1] for part in car_parts])  # after 10 steps
early_explicit = kept("mountain_car_explicit")["norm"][1, 2, 5].mean(-1)[[0, 5, 10]]
early_ratio = early[3, 1].mean(-1)[[0, 5, 10]] / early_explicit

# %% tags=["hide-input"]
ledger.check(
    "implicit:beyond-mountain-car-alike",
    "Mountain car, four internal discounts: the two learners end within a factor 1.2 of each other",
    measured=np.abs(np.log(car_ratio)),
    criterion=at_most("|ln(mean residual implicit / explicit)|, three offsets", math.log(1.2)),
    control=control("after 10 of the 300 steps, γ̂ = .975", np.abs(np.log(early_ratio))),
    expected="reproduced",
    claim="experiment",
    seeds=range(20),
    rtol=2e-2,
)

# %% [markdown]
# ## The noise of an update
#
# How much of an update is signal and how much is noise of the batch? Appendix F of the source plots, at the end of training, the *moment ratio* $\rho=\mathbb E\lVert\Delta\beta\rVert^2/\lVert\mathbb E\Delta\beta\rVert^2$
# of one update and the bound $1+\frac1b(r_{\max}/r_{\min})^2$ on it; it calls the result inconclusive. Here $r_i=f(x_i)-y_i$ is the residual of the $i$-th of the $n$ data points, $r_{\max}$ and $r_{\min}$ are the largest and the smallest $|r_i|$, and the bound holds, as $\hat\gamma\to1$ and up to a constant factor, for the implicit learner if all $r_i$ have one sign. With
# batches drawn with replacement and $V_i=r_iP\phi(x_i)$ one has exactly, to first order in the step,
#
# $$\rho=\frac1b\Bigl(\frac{n\sum_i\lVert V_i\rVert^2}{\lVert\sum_iV_i\rVert^2}+b-1\Bigr).$$
#
# The source reads its two figures so: the bound does not vary much with the offset, no strong trend is expected or seen in the ratio, and for the explicit learner
# the ratio is constant. (The last is true, with the value $(n+b-1)/b$, for one-hot features if no two data points share a state; here many do.) To test this, a straight line in $c$ is fitted to $\ln\rho$, and to the logarithm of the bound, in each seed. There is a trend if the mean slope over
# the seeds is more than three standard errors from zero; this is stricter than "no strong trend", for it does not ask how large the slope is. (In four rooms at $c=0$ the explicit learner's bound is infinite, since the residual of the absorbing state is zero; this offset is left out there.)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**In the chain the noise of an update at the end of training does not feel the offset; in four rooms it does.** Chain, median over 20 seeds. Left: moment ratio; right: the right side of its bound, which needs residuals of one sign and has lost its premise by then. What breaks the constancy of the explicit ratio: four rooms (dashed), where the ratio rises fivefold.", "name": "fig-value-learning-noise"}, "image": {"alt": "Left: flat lines for explicit and implicit learners in the chain, a dashed line that rises fivefold for four rooms. Right: nearly flat lines."}}
chain_kept = {kind: kept(f"chain_{kind}") for kind in ("explicit", "implicit")}
fig, axes = figures.subplots(1, 2)
for ax, name in zip(axes, ("ratio", "bound"), strict=True):
    for kind, discount in (("explicit", 2), ("implicit", 0), ("implicit", 2)):
        values = chain_kept[kind][name][discount, marked["chain", kind][discount]]
        label = kind if kind == "explicit" else f"implicit, $\\hat\\gamma={names[discount]}$"
        ax.plot(grid.OFFSETS, np.median(values, -1), label=label)
    ax.set(xlabel="offset $c$")
log_axis(axes[0], 10, 20, 50)
log_axis(axes[1], 10, 20, 50, 100, 200, 500)
rooms_ratio = np.median(kept("four_rooms_explicit")["ratio"][2, 3], -1)
figures.line_control(axes[0], grid.OFFSETS, rooms_ratio, label="four rooms")
axes[0].set_ylabel("moment ratio $\\rho$")
axes[1].set_ylabel("right side of the bound")
axes[0].legend(fontsize=8, loc="lower right", bbox_to_anchor=(1, 0.1))
plt.show()


# %%
def noise_trends(name, domain, kind):  # of "ratio" or "bound", at the marked step of each discount
    split = kind == "implicit" and domain != "chain"
    parts = [f"_part_{k}" for k in range(1, 5)] if split else [""]
    ends = np.concatenate([kept(f"{domain}_{kind}{part}")[name] for part in parts])
    return [trend(ends[k, marked[domain, kind][k]], grid.OFFSETS) for k in range(4)]


trends_at_end = {
    name: {
        (domain, kind): np.abs(noise_trends(name, domain, kind))
        for domain in problems.DOMAINS
        for kind in ("explicit", "implicit")
    }
    for name in ("ratio", "bound")
}
for name, found in trends_at_end.items():
    for (domain, kind), panels in found.items():
        print(f"{name}, {domain.replace('_', ' ')}, {kind}: at most {panels.max():.1f} standard errors")

# %%
twenty = list(range(20))
at_first = grid.run_grid(  # one vanishing step
    "implicit",
    problems.chain_problem(run, twenty),
    models.latent_start(run, twenty, 11),
    training.batches(run, twenty, 50, steps=1),
    grid.combinations([1e-9], [0.95], [0.0, 1.0]),
)
untrained = {"ratio": at_first.ratio.numpy(), "bound": at_first.bound.numpy()}
assert 4 < rooms_ratio.max() / rooms_ratio.min() < 7  # four rooms, explicit: not constant

# %% tags=["hide-input"]
for id, name, statement, reason in (
    (
        "fig-17",
        "ratio",
        "At the end of training the moment ratio shows no trend in the offset, three domains",
        "In the chain there is none, for both learners, and none for the explicit one in mountain car. In four rooms the "
        "explicit ratio rises fivefold, and implicit ratios rise in four rooms at .8 and in mountain car.",
    ),
    (
        "fig-16",
        "bound",
        "At the end of training the bound on the ratio shows no trend in the offset, three domains",
        "None is seen in the chain, in mountain car and for the implicit learner in four rooms, but one small residual makes "
        "the bound huge and the test weak. For the explicit learner in four rooms the bound rises.",
    ),
):
    ledger.check(
        f"implicit:{id}",
        statement,
        measured=np.concatenate(list(trends_at_end[name].values())),
        criterion=at_most("|mean slope of the logarithm in c| / standard error, four discounts", 3.0),
        control=control("chain, implicit, before training", abs(trend(untrained[name], [0.0, 1.0]))),
        expected="not reproduced",
        claim="experiment",
        needs="book",
        reason=reason,
        seeds=range(20),
        rtol=1e-2,
    )

# %% [markdown]
# So the source's reading holds in the chain and fails in four rooms, where the explicit ratio rises about fivefold with the offset; in mountain car it fails for the implicit ratio only.
# "No trend" of the bound is a weak finding everywhere: one residual near zero makes it huge, so a change by a factor between 2 and 17 from $c=0$ to $c=1$, depending on the panel, is still within three standard errors.
#
# The plots are inconclusive because they are taken at the end, where signs are mixed. At the start all residuals have one
# sign once the offset is large enough, it makes them more equal, and ratio and bound fall; this fall is the control of the two rows.
#
# ## What this does not show
#
# - **Not a speed-up.** The curves of four rooms compare where two learners end on cells they did not see.
#   {chapter}`Implicit values <parameterization/implicit_values>` has a race on seen states that does test speed.
# - **Not latent models at large.** The model here is one chain with free logits. Nothing depends on the state, so nothing can be
#   shared between states but a level.
# - **Not run time.** The authors report 15 to 20 s a run for both learners. That is the time of whole programs, mostly start-up and compilation, on their
#   machines; nothing that is run here can confirm or contradict it, so the row below says what it would take. Of the computation alone one can say what it
#   does: an implicit step solves a system with the matrix $A$ for every start, and an explicit step adds.
# - **Not reinforcement learning with bootstrapped targets.** All targets are returns that walks have really earned (Monte Carlo returns).

# %% tags=["hide-input"]
ledger.out_of_reach(
    "implicit:exp-runtime",
    "A run takes 15 to 20 s with either learner, and the implicit one a few seconds more",
    needs="the authors' program on their machines, since the times are of whole processes, start-up and compilation included",
    command="python -m learning_dynamics.experiments.value_learning.sweep four_rooms implicit --part 1/4",
    stand_in="the .json of each kept sweep names the seconds of its computation, for both learners",
)

# %% [markdown]
# ## For the practitioner
#
# - **Before you credit a latent model, add a bias.** One constant feature with a step of its own costs a line. If it closes the gap, the
#   gain was the common level. Centring the targets does the same where their mean is known.
# - **Report errors on seen and unseen states apart.** A single norm hides whether a learner is slow or whether it never receives a gradient.
#   Adam, or a larger step, does not help a coordinate without one.
# - **If you learn values through a latent chain**, choose $\hat\gamma$ with the step size: with every halving of $1-\hat\gamma$ divide the
#   largest step by four, and tune anew.
# - **When it fails**: unseen states whose values lie far from the common level are pulled the wrong way. Where features overlap, as in mountain
#   car, the explicit learner already generalizes and there is little to win.
#
# ## Exercises
#
# :::{exercise} By hand
# :label: ex-value-learning-undrawn
# A one-hot explicit learner leaves $m$ of $d$ cells undrawn and fits the others exactly. All true values rise by
# $c/(1-\gamma)$. How does the residual norm depend on $c$? For which offset is it smallest, if the values without offset average
# $\bar V$ over the undrawn cells and training starts at zero?
# :::
#
# :::{solution} ex-value-learning-undrawn
# :class: dropdown
# The residual lives on the undrawn cells and is $-(V_i+c/(1-\gamma))$ there. Its square is
# $\sum(V_i-\bar V)^2+m(\bar V+c/(1-\gamma))^2$: a hyperbola in $c$ with asymptotic slope $\sqrt m/(1-\gamma)$ and minimum
# at $c=-(1-\gamma)\bar V$. The step size does not occur.
# :::
#
# :::{exercise} Predict a number
# :label: ex-value-learning-missing
# With what probability do 50 uniform draws from 11 states miss at least one? Predict the standard deviation over seeds of the explicit
# residual on the chain at $c=1$, if a seed that misses a state ends at about 17.7 and any other at about 4.3.
# :::
#
# :::{solution-start} ex-value-learning-missing
# :class: dropdown
# :::
#
# By inclusion and exclusion the probability is $p=\sum_{j\ge1}(-1)^{j+1}\binom{11}j(1-\frac j{11})^{50}$, about $0.091$. The mixture
# alone gives $13.4\sqrt{p(1-p)}\approx3.9$; the rest comes from the spread inside the groups.

# %% tags=["hide-cell"]
with_miss, without = (chain_runs["explicit"][1][which].mean() for which in (missing, ~missing))
assert abs(with_miss - 17.7) < 1 and abs(without - 4.3) < 0.4
missed = sum((-1) ** (j + 1) * math.comb(11, j) * (1 - j / 11) ** 50 for j in range(1, 11))
assert abs(missed - 0.092) < 0.001
assert abs(13.4 * math.sqrt(missed * (1 - missed)) - 3.9) < 0.05

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Change one line
# :label: ex-value-learning-absorbing
# Give the bias to the absorbing state too: append the feature $s$ to every row of the table, that of the absorbing state
# included, and use the step 4. The floor of 10 at $c=1$ is gone. Expected: the residual over the *whole* evaluation set hardly changes,
# by less than a quarter. Why?
# :::
#
# :::{solution-start} ex-value-learning-absorbing
# :class: dropdown
# :::
#
# Most of the data now lie where the bias is seen and nothing else is. Their returns are cut short by the end of the walk:
# with $L$ steps to go the target is $(1-\gamma^L)/(1-\gamma)$ and not $1/(1-\gamma)$. The bias fits their mean, which is too low by
# more than one, and takes all cells along that were never drawn. One state with a large error has become many with a small one.

# %% tags=["hide-cell"]
table = torch.cat([rooms.table, bias_scale * torch.ones(122, 1, **like)], -1)
everywhere = fit(explicit(GradientDescent(4.0), 1), replace(rooms, table=table, evaluation=table))
before = trained["explicit with a bias"].norm[-1, 2].mean()
assert abs(everywhere.norm[-1, 2].mean() / before - 1) < run.pick(smoke=1.0, book=0.25, paper=0.25)

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Break the proof
# :label: ex-value-learning-momentum
# {prf:ref}`implicit-beyond-bias-is-rank-one` is stated for SGD. Does it hold for heavy-ball momentum? For Adam?
# :::
#
# :::{solution} ex-value-learning-momentum
# :class: dropdown
# Heavy ball: yes. The increment of $\beta$ is $J$ applied to the increment of $(\theta,\kappa)$, which is a linear recursion
# in past gradients $J^\top g_j$ with scalar coefficients, so $JJ^\top$ comes out in front of each. Adam: no. It divides the bias
# and each weight by their own running scale, so what multiplies $g$ is $J\,\mathrm{diag}(\cdot)J^\top$: still a bias,
# but of a size that changes, and the two parts no longer have the ratio $s^2$.
# :::
#
# :::{exercise} Open
# :label: ex-value-learning-td
# Replace the returns by bootstrapped targets, $R+\gamma f(x')$. Does the implicit learner keep its advantage in four rooms, and does a
# bias have it too? Known: the source leaves it open. With exact expectations and one-hot features, temporal differences
# contract with factor $\gamma$ along the ones, the slowest direction, so the common level is what takes longest; a
# rank-one preconditioner along it is a known remedy for policy evaluation {cite}`bertsekas1995generic`. With function approximation, convergence is not guaranteed
# {cite}`baird1995residual`, and a large $P$ along one direction can hurt.
# :::
#
# ## What to remember
#
# 1. Read a final-error curve twice: did the learner get there late, or can it not get there at all?
# 2. In four rooms nine tenths of the explicit learner's squared error are cells that no batch has touched. No step size helps;
#    anything that moves all values together does.
# 3. A bias of size $s$ is the preconditioner $I+s^2\mathbf 1\mathbf 1^\top$, exactly. It closes the gap.
# 4. A larger internal discount makes the offset matter less and the usable step smaller, like $(1-\hat\gamma)^2$.
# 5. With 20 seeds and 50 data points, a few seeds can make a trend. Look at the standard deviation.
#
# **Further reading.** {cite}`tamar2016value` introduced value iteration networks; {cite}`sutton1999between` the four rooms.
# {cite}`grimm2020value` ask which latent models have the right values. {cite}`nikishin2022control` train models through implicit
# differentiation for control. {cite}`hasselt2016learning` normalize targets while they are learned, a bias and a scale in one.
#
# ## Checks behind this page
#
# The exact values against walks, and the kept results against this machine.

# %%
process, policy = mdp.chain(), mdp.chain_policy()
walks = run.pick(smoke=2000, book=4000, paper=20_000)
walked = mdp.rollouts(process, policy, torch.arange(11).repeat_interleave(walks), 150, run.generator("walks"))
earned = mdp.discounted_returns(walked.rewards, 0.9)[:, 0].reshape(11, walks)
errors = earned.std(-1) / math.sqrt(walks)
wrong = mdp.chain(pays_on_the_way=True).values(policy)
old = kept("four_rooms_implicit_part_3")["norm"][-1, 0, 3, :, : len(kept_seeds)]  # (offsets, seeds)
again = new.record.norm[-1, 0].numpy()

# %% tags=["hide-input"]
ledger.check(
    "implicit:beyond-exact-values",
    "Chain: the exact values are the means of the returns",
    measured=(earned.mean(-1) - process.values(policy)).abs() / errors,
    criterion=at_most("|mean return − value| / standard error, 11 states", 4.5),
    control=control("the reward 1 paid on the way", ((earned.mean(-1) - wrong).abs() / errors).amax()),
    expected="holds",
)
ledger.check(
    "implicit:beyond-kept-slice",
    "A slice of the kept results, computed again, agrees",
    measured=np.abs(again / old[5] - 1),
    criterion=at_most("relative difference of the final residual, four rooms, c = 0.5", 1e-4),
    control=control("the neighbouring offset", np.abs(again / old[6] - 1)),
    expected="holds",
    seeds=kept_seeds,
    noise=1e-4,
)

# %% tags=["remove-input"]
ledger.table()
