# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Implicit values
#
# Reinforcement learning spends most of its data on *values*: how much reward follows from a state. Some agents learn them as a table or a linear function, others learn a small model of the world and plan in it. Does this detour help or hurt the learning itself?
#
# Two models estimate the values of twelve states. The *explicit* one stores twelve numbers. The *implicit* one
# stores a small world, with a reward for each state and the chances of moving between them, and computes the values
# that this world implies. Both express the same values, start from the same ones and see the same data.
#
# **Do the two models learn in the same way?** No. A small step of gradient descent on the implicit model is a step of the explicit one
# multiplied by a matrix $P$ that can be written down: one direction, *all values up or down together*, is
# amplified by at least $(1-\hat\gamma)^{-2}$, where $\hat\gamma<1$ is the discount inside the small world. **What
# breaks it**: errors whose signs and sizes vary too much have
# little to do with that direction, and the explicit model wins; and in a world that falls into two halves
# a second direction is amplified as well.
#
# Below is $P$. Move this *internal discount* $\hat\gamma$ and the mixing between the two halves.
#
# <div class="ld-widget" data-widget="preconditioner"></div>

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
from itertools import combinations

import matplotlib.pyplot as plt
import torch
from torch.func import jacrev, jvp

from learning_dynamics import ensembles, figures, flows, runs, statistics
from learning_dynamics.figures import COLORS
from learning_dynamics.ledger import Ledger, at_least, at_most, control, exponent, identity, inequality
from learning_dynamics.parameterization import fixed_points
from learning_dynamics.rules import GradientDescent

figures.use_style()
run = runs.Run("parameterization/implicit_values", scale=SCALE, device=DEVICE, seed=SEED)
ledger = Ledger(run)
like = {"dtype": run.dtype}  # small problems: on the CPU, whatever DEVICE says


# %%
def two_groups(mixing, d=12):  # row-stochastic: stay in the group, uniformly, or change it
    half = torch.ones(d // 2, d // 2, **like) / (d // 2)
    own, other = (1 - mixing) * half, mixing * half
    return torch.cat([torch.cat([own, other], -1), torch.cat([other, own], -1)], -2)


def heat(mixing, discount=0.9):  # P for twelve states, all values equal
    inverse = torch.linalg.inv(torch.eye(12, **like) - discount * two_groups(mixing))
    return inverse @ inverse.T


library = fixed_points.weight_space_preconditioner(two_groups(0.01).log(), torch.zeros(12, **like), 0.9)
assert torch.allclose(heat(0.01), library.matrix, rtol=1e-12)

# %% tags=["hide-input", "static-twin"] mystnb={"figure": {"caption": "**The matrix before the gradient is nearly of rank one.** Entries of $P$ for twelve states in two groups, over the largest one; internal discount 0.9. Top: the states mix perfectly, and $P$ is a constant plus the identity: one direction, all ones, is amplified a hundredfold. What breaks it, bottom: one step in a hundred changes the group, the bright block splits in two, and the difference of the groups is amplified almost as much.", "name": "fig-implicit-values-heat"}, "image": {"alt": "Two square heat maps. The upper one is uniformly bright with a slightly brighter diagonal. The lower one has two bright blocks on the diagonal and two dark ones beside it."}}
fig, axes = figures.subplots(2, 1, size=(4.6, 7.4))
for ax, mixing in zip(axes, (0.5, 0.01), strict=True):
    P = heat(mixing)
    picture = ax.imshow(P / P.max(), vmin=0, vmax=1, extent=(0.5, 12.5, 12.5, 0.5))
    ax.set(title=f"chance of changing the group {mixing:g}", xlabel="state $j$", ylabel="state $i$")
    ax.set(xticks=[1, 7, 12], yticks=[1, 7, 12])
    ax.grid(False)
fig.colorbar(picture, ax=axes, label="$P_{ij}/\\max P$", shrink=0.6)
plt.show()

# %% [markdown]
# Write $\beta$ for the estimated values, $\mathcal L(\beta)$ for a loss, and let $\beta=g(\theta)$ be a function of the parameters $\theta$ that are
# trained, with the Jacobian $J$. By the chain rule gradient flow in $\theta$ moves $\beta$ by $-JJ^\top\nabla_\beta\mathcal L$. Here $g$ is the solution of an equation, and still $JJ^\top$ is
# a product of three matrices that can be written down. After this chapter you can
#
# - differentiate the solution of a fixed-point equation without differentiating the solver, and say what unrolling
#   the solver gets wrong;
# - write down $P$, bound it from below, and conclude that the non-convex problem has no bad ends;
# - say which part of an error an implicit model removes fast, by which factor, and when it loses.
#
# The source is sections 2 and 3 and appendices A and B of {cite}`gehring2021implicit`; its experiments are repeated in
# {chapter}`Value learning <parameterization/value_learning>`. Read
# {doc}`Tools in ten minutes <../toolbox/tools_in_ten_minutes>` first. The page runs in half a minute on one CPU
# core, in a few seconds with `SCALE = "smoke"`.
#
# ## Two ways to write the same values
#
# A *Markov reward process* moves from state to state with probabilities $T(s'\mid s)$ and pays $R_k$ at step $k$.
# With a discount $\gamma\in[0,1)$ the *value* of a state is what is to come:
#
# $$
# \begin{aligned}
# V(s)&=\mathbb E\Bigl[\sum_{k\ge0}\gamma^kR_k\,\Big|\,s_0=s\Bigr]\\
# &=\mathbb E\bigl[R_0+\gamma V(s_1)\,\big|\,s_0=s\bigr].
# \end{aligned}
# $$ (eq-implicit-values-bellman)
#
# A linear estimate is $\hat V(s)=\phi(s)^\top\beta$ with features $\phi(s)\in\mathbb R^d$. If the features are
# *one-hot* (the $i$-th state has the $i$-th unit vector), $\beta$ is a table of values. The explicit model trains
# $\beta$. The implicit model trains $\theta=(u,Z)$: latent rewards $u\in\mathbb R^d$ and logits
# $Z\in\mathbb R^{d\times d}$, whose row softmax $S_Z$ is a matrix of transition probabilities. Its weights are the
# values of that latent chain under an *internal* discount $\hat\gamma\in[0,1)$:
#
# $$
# \begin{aligned}
# \beta&=u+\hat\gamma S_Z\beta,\qquad\text{so}\\
# \beta&=A^{-1}u,\qquad A=I-\hat\gamma S_Z .
# \end{aligned}
# $$ (eq-implicit-values-chain)
#
# The latent states are the features, not the world's states; nothing forces $S_Z$ to resemble $T$, or $\hat\gamma$
# to equal $\gamma$. As $\hat\gamma\lVert S_Z\rVert_\infty=\hat\gamma<1$ (largest row sum), $A$ is invertible. And
# every $\beta$ can be reached, with any logits: put $u=A\beta$. The two models express the same functions.
#
# The data are $n$ pairs of features $x_i$ and targets $y_i$, for instance sums of observed rewards. The $x_i$
# are the rows of $X\in\mathbb R^{n\times d}$, and $r=X\beta-y$ is the *residual*.
#
# :::{prf:definition} Squared loss and its gradient in the weights
# :label: implicit-eq-3
# $$
# \begin{aligned}
# \mathcal L(\beta)&=\tfrac12\sum_{i=1}^nr_i^2,\\
# h&=\nabla_\beta\mathcal L=X^\top r=\sum_{i=1}^nr_ix_i .
# \end{aligned}
# $$
# With one-hot features and every state once, $X=I$ and $h=r$.
# :::
#
# :::{prf:definition} Batches
# :label: implicit-def-minibatch
# A batch $B$ of size $b$ is drawn uniformly without replacement. Its loss is the *mean*
# $\frac1{2b}\sum_{i\in B}r_i^2$, with the gradient $h_B=\frac1b\sum_{i\in B}r_ix_i$ in the weights, so that
# $\mathbb E\,h_B=h/n$.
# :::
#
# :::{admonition} The full loss is a sum, the batch loss a mean
# :class: note
# As in the source. A step $\eta$ on batches corresponds to a step $\eta/n$ on the full loss. In this chapter $h$, $w$
# and the constants $c$, $c_v$ are local letters.
# :::
#
# :::{dropdown} The letters of the source
# | here | source | meaning |
# |---|---|---|
# | $\beta$ | $\theta$, $\hat\theta$ | weights, explicit and implicit |
# | $u$, $Z$ | $w$, $F$ | latent rewards, logits |
# | $\theta$ | $\psi$ | the two together |
# | $S_Z$ | $\sigma(F)$ | transitions |
# | $A$, $P$, $D$ | the same | $I-\hat\gamma S_Z$, preconditioner, the diagonal matrix inside it |
# | $\hat\gamma$, $\gamma$ | $\eta$, $\gamma$ | internal and true discount |
# | $\eta$, $b$ | $\alpha$, $k$ | step size, batch size |
# | $d$, $n$ | $k$ (in proofs $n$), $n$ | features, samples |
# | $X$ (rows), $XX^\top$ | $X^\top$, $X^\top X$ | features |
# | $h$, $h^\parallel$ | $\mathbf r$, $r^\parallel$ | gradient in the weights, its mean entry |
# | $v$, $M$ | $\mathbf v$, $M$ | stationary law, remainder of $S_Z$ |
# | $c$, $c_v$ (local) | $c$, written out | least eigenvalue bound, leading coefficient |
# :::
#
# **By hand.** Two states, $Z=0$, so that $S_Z$ has all entries $\frac12$, and $\hat\gamma=0.9$. Then $A=\begin{pmatrix}.55&-.45\\-.45&.55\end{pmatrix}$ and $A^{-1}=\begin{pmatrix}5.5&4.5\\4.5&5.5\end{pmatrix}$. The latent rewards $u=(1,0)$ give the values $(5.5,4.5)$: a reward in one state is felt in both. A step that asks
# for one unit more in both values, $h=(-1,-1)$, gives $A^{-\top}h=(-10,-10)$, so both rewards rise by $10\eta$ and with them both values by $100\eta$, where the explicit model moves by $\eta$. If one value is to rise and the other to fall, $h=(-1,1)$, then $A^{-\top}h=h$, and the rewards move the values by $\eta$, as in the explicit model. (The logits move too; they add ten per cent in either case.)
#
# ### The step
#
# One step of the implicit model on a batch, written out: solve for the values, solve once more with the transposed
# matrix, update. The next section derives the last two lines.


# %%
def step(u, Z, X, y, eta, discount):  # a batch: X (b, d), y (b,)
    S = Z.softmax(-1)
    A = torch.eye(len(u), **like) - discount * S
    beta = torch.linalg.solve(A, u)
    h = X.T @ (X @ beta - y) / len(y)
    w = torch.linalg.solve(A.T, h)
    pull = w[:, None] * S * (beta - (S @ beta)[:, None])
    return u - eta * w, Z - eta * discount * pull


# %% [markdown]
# The library's `fixed_points.reward_chain_value` carries its own backward pass and works on batches of chains.
# Descending its loss must give the same iterates.
#
# Each result on this page is checked by a computation. A card or a row below it such as "12 values, worst 6e-16 against 2e-13" says what was measured and what it was allowed to be ("against at least 0" is a bound from below); after "what breaks it" the same number follows for something wrong (the *control*), which has to fail, and "at best" is the wrong value that comes nearest to passing.
# {doc}`How claims are checked <../../book/how_claims_are_checked>` explains the words.


# %%
d, n, b = 5, 8, 3
seeds = run.seeds(smoke=3, book=8, paper=20)


def problem(seed):  # non-negative features and residuals of one sign, as when all values are underestimated
    source = run.generator("problem", seed=seed)
    X = 2 * torch.rand(n, d, generator=source, dtype=run.dtype) / math.sqrt(d)
    beta = torch.randn(d, generator=source, dtype=run.dtype)
    Z = torch.randn(d, d, generator=source, dtype=run.dtype)
    y = X @ beta - 0.5 - torch.rand(n, generator=source, dtype=run.dtype)
    return X, y, beta, Z


X, y, beta, Z = ensembles.stack_over_seeds(problem, seeds)


def latent_rewards(beta, Z, discount):  # the u whose values are beta
    return beta - discount * (Z.softmax(-1) @ beta[..., None])[..., 0]


def pull_back(u, Z, h, discount):  # gradient in (u, Z) from the gradient h in the weights
    u, Z = u.detach().requires_grad_(), Z.detach().requires_grad_()
    return torch.autograd.grad(fixed_points.reward_chain_value(u, Z, discount), (u, Z), h)


def pack(u, Z):
    return torch.cat([u, Z.flatten(-2)], -1)


# %%
def unpack(theta, d):
    return theta[..., :d], theta[..., d:].unflatten(-1, (d, d))


def residual(beta, X, y):
    return (X @ beta[..., None])[..., 0] - y


def weight_gradient(beta, X, y):  # h = X^T r, batched
    return (X.mT @ residual(beta, X, y)[..., None])[..., 0]


def latent_gradient(X, y, discount):  # of the full loss, in theta = (u, Z)
    def gradient(theta, k):
        u, Z = unpack(theta, X.shape[-1])
        h = weight_gradient(fixed_points.reward_chain_value(u, Z, discount), X, y)
        return pack(*pull_back(u, Z, h, discount))

    return gradient


# %%
u = latent_rewards(beta, Z, 0.9)
by_hand = u[0], Z[0]
for _ in range(30):  # the whole data set as the batch: 1/n of the sum
    by_hand = step(*by_hand, X[0], y[0], 0.001, 0.9)
rule, gradient = GradientDescent(0.001 / n), latent_gradient(X, y, 0.9)
start = pack(u, Z)
library = ensembles.iterate(rule, gradient, start, 30, record=[30]).last
assert torch.allclose(library[0], pack(*by_hand), rtol=1e-10, atol=1e-12)

# %% [markdown]
# The next figure shows what the step does. Two states, $X=I$, both values start at zero, both targets are near one. The explicit model goes
# straight to the target. The implicit one first moves along the diagonal, which raises both values together, and then turns.

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Same start, same functions, two paths.** Two values under gradient flow from zero towards targets near one; dots at equal times, circles are levels of the loss. The explicit model walks straight; the implicit one, internal discount 0.8, first moves both values together and has almost arrived when the explicit one has made its first steps. What breaks it (dashed): targets of opposite sign, for which little is gained.", "name": "fig-implicit-values-paths"}, "image": {"alt": "A plane of two values with circular level lines around a target near (1, 1.3). A straight solid path with many dots from the origin, and a second path that jumps along the diagonal with few dots and then bends to the target. Two dashed paths lead to a point of opposite signs."}}
pair = torch.tensor([[1.0, 1.35], [1.0, -0.8]], **like)
moments = torch.arange(0, 5.01, 0.1)
plain = pair[:, None, :] * (1 - torch.exp(-moments.to(run.dtype)))[:, None]
field = latent_gradient(torch.eye(2, **like).expand(2, 2, 2), pair, 0.8)
walked = flows.gradient_flow(lambda theta, t: -field(theta, 0), torch.zeros(2, 6, **like), moments.tolist())
curved = fixed_points.reward_chain_value(*unpack(walked.values, 2), 0.8)  # (times, targets, 2)

fig, ax = figures.subplots(size=(5.4, 5.2))
for radius in (0.25, 0.5, 0.75):
    ax.add_patch(plt.Circle(pair[0].tolist(), radius, fill=False, color=COLORS["light grey"]))
ax.plot(*plain[0].T, label="explicit", markevery=2)
ax.plot(*curved[:, 0].T, label="implicit", markevery=2)
figures.line_control(ax, *curved[:, 1].T, label="targets of opposite sign")
ax.plot(*plain[1].T, ":", color=figures.CONTROL_COLOR, marker="")
ax.plot(*pair[0], "*", color=COLORS["black"], markersize=12)
ax.set(xlabel="$\\beta_1$", ylabel="$\\beta_2$", aspect="equal", ylim=(-1.0, 2.75), xlim=(-0.9, 1.9))
ax.legend(loc="upper left", fontsize=8)
plt.show()

# %% [markdown]
# ## Differentiating a solution, not a solver
#
# How does $\beta$ change with $u$ and $Z$? Change them a little in {eq}`eq-implicit-values-chain`:
# $d\beta=du+\hat\gamma\,dS_Z\,\beta+\hat\gamma S_Z\,d\beta$, hence
#
# $$A\,d\beta=du+\hat\gamma\,dS_Z\,\beta .$$ (eq-implicit-values-differential)
#
# The equation does not mention how $\beta$ was found. This is the *implicit function theorem*; one linear solve gives the gradient.
# For a loss with gradient $h$ in the weights, let $w=A^{-\top}h$. Then
#
# $$
# \begin{aligned}
# \nabla_u\mathcal L&=w,\\
# [\nabla_Z\mathcal L]_{kj}&=\hat\gamma\,w_k\,[S_Z]_{kj}\bigl(\beta_j-[S_Z\beta]_k\bigr),
# \end{aligned}
# $$ (eq-implicit-values-gradient)
#
# the last lines of `step`. The factor in brackets says that logits matter only where values differ: in
# a world in which every state is worth the same it makes no difference where one goes.
#
# *Value iteration networks* and their relatives {cite}`tamar2016value` do something else. They run $K$ sweeps
# $\beta_{k+1}=u+\hat\gamma S_Z\beta_k$ and differentiate through the sweeps. The source remarks that this agrees
# with the implicit gradient only asymptotically. How far off is it for finite $K$?
#
# :::{admonition} Predict first
# :class: tip
# Start the sweeps at the *exact* values, stop after one, $\hat\gamma=0.95$. The value is exact. By how much is the
# gradient wrong?
# :::
#
# :::{prf:proposition} Unrolling forgets the distant future
# :label: implicit-claim-unrolled-gradient
# Let $h$ be the gradient in the weights, $w=A^{-\top}h$, and $w_K$ the gradient in $u$ of $K$ unrolled sweeps, from
# whatever start that is held fixed. Then
#
# $$
# \begin{aligned}
# w-w_K&=\hat\gamma^K(S_Z^\top)^Kw,\\
# \lVert w-w_K\rVert_1&\le\hat\gamma^K\lVert w\rVert_1,
# \end{aligned}
# $$
#
# with equality if no entry of $h$ is negative or none is positive.
# :::
#
# *The key step.* $K$ sweeps are the first $K$ terms of the series $A^{-1}=\sum_k\hat\gamma^kS_Z^k$.
#
# :::{dropdown} Proof
# 1. From a start $\beta_0$ that does not depend on $u$, $\beta_K=\sum_{k<K}\hat\gamma^kS_Z^ku+\hat\gamma^KS_Z^K\beta_0$. Its
#    derivative in $u$, transposed and applied to $h$, is $w_K=\sum_{k<K}\hat\gamma^k(S_Z^\top)^kh$.
# 2. $w=\sum_{k\ge0}\hat\gamma^k(S_Z^\top)^kh$, so the rest is $\hat\gamma^K(S_Z^\top)^K\sum_k\hat\gamma^k(S_Z^\top)^kh$.
# 3. The columns of $S_Z^\top$ are distributions, so it does not increase the sum of absolute values, and keeps it
#    where all entries have one sign. If $h$ has one sign, so has $w$. $\square$
# :::
#
# When *one* value is asked for, $h$ is a multiple of a unit vector, and the relative error in the norm $\lVert\cdot\rVert_1$ is exactly
# $\hat\gamma^K$. The check differentiates the sum of $\beta_i^2/2$ at values of one sign, from the exact start, as long as
# $\hat\gamma^K>10^{-4}$, above rounding. What
# fails is the law of one sweep more.

# %%
discounts = torch.tensor([0.8, 0.9, 0.95], **like)
sweeps = run.pick(smoke=[1, 5, 20], book=[1, 2, 5, 10, 20, 40, 80], paper=[1, 2, 5, 10, 20, 40, 80])
chains = (len(seeds), len(discounts))
many_Z = Z[:, None].expand(*chains, d, d)
positive = beta.abs()[:, None].expand(*chains, d)  # values of one sign
rewards = latent_rewards(positive, many_Z, discounts[:, None])


def gradients(value, h):  # in u and Z, from the gradient h in the weights
    u, Z = rewards.clone().requires_grad_(), many_Z.clone().requires_grad_()
    return torch.autograd.grad(value(u, Z), (u, Z), h)


exact_u, exact_Z = gradients(lambda u, Z: fixed_points.reward_chain_value(u, Z, discounts), positive)
error_u, error_Z = [], []
for K in sweeps:
    short_u, short_Z = gradients(
        lambda u, Z, K=K: fixed_points.unrolled_value(u, Z, discounts, K, start=positive), positive
    )
    error_u.append((short_u - exact_u).abs().sum(-1) / exact_u.abs().sum(-1))
    error_Z.append((short_Z - exact_Z).norm(dim=(-2, -1)) / exact_Z.norm(dim=(-2, -1)))
error_u, error_Z = torch.stack(error_u), torch.stack(error_Z)  # (sweeps, seeds, discounts)
law = discounts ** torch.tensor(sweeps, **like)[:, None, None]

# %%
kept = (law > 1e-4).expand_as(error_u)

# %% tags=["hide-input"]
ledger.check(
    "implicit:claim-unrolled-gradient",
    "K unrolled sweeps miss γ̂^K of the gradient in the rewards, also from the exact start",
    measured=(error_u / law - 1)[kept],
    criterion=identity("‖w − w_K‖₁/(γ̂^K ‖w‖₁) − 1", condition=1e4 * 40),
    control=control("the law of one sweep more, γ̂^{K+1}", (error_u / law / discounts - 1)[kept]),
    expected="holds",
    seeds=seeds,
    show="card",
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**A solver that has converged still has a wrong gradient.** Relative error of the gradient after unrolled sweeps that start at the exact values; lines are the powers $\\hat\\gamma^K$, dots the measured error for the rewards, crosses for the logits. What breaks it (dashed): to judge the gradient by the value, whose error from this start is zero to rounding.", "name": "fig-implicit-values-unrolled"}, "image": {"alt": "Three straight falling lines on a logarithmic axis with dots exactly on them and crosses nearby, for three discounts. A dashed line lies flat near the bottom, at rounding level."}}
fig, ax = figures.subplots(size=(6.0, 4.2))
fine = torch.linspace(0, max(sweeps), 100)
for i, discount in enumerate(discounts.tolist()):
    (line,) = ax.plot(fine, discount**fine, marker="", label=f"$\\hat\\gamma={discount:g}$")
    ax.plot(sweeps, error_u[:, 0, i], "o", color=line.get_color())
    ax.plot(sweeps, error_Z[:, 0, i], "x", color=line.get_color())
figures.line_control(ax, sweeps, torch.full((len(sweeps),), 1e-16), label="error of the value")
ax.set(yscale="log", xlabel="sweeps $K$", ylabel="relative error of the gradient", ylim=(1e-17, 3))
ax.legend(fontsize=8, loc="center right")
plt.show()

# %% [markdown]
# :::{dropdown} Answer
# By 95 per cent if one value is asked for. A sweep from the exact values reproduces them, but as far as the derivative is concerned, the start is a
# constant: only the first reward enters. So a converged solver can still have a wrong gradient.
# :::
#
# Twenty sweeps at $\hat\gamma=0.95$ then lose a third of the gradient. That is not always harm: a cheap wrong gradient can
# still descend {cite}`fung2022jfb`. But it is another algorithm.
#
# ## The matrix in front of the gradient
#
# Both models follow the slope of the same loss, each in its own variables.
#
# :::{prf:theorem} Implicit flow is explicit flow with a preconditioner
# :label: implicit-thm-1
# Let $0\le\hat\gamma<1$. Gradient flow of $\mathcal L(\beta(u,Z))$ in $(u,Z)$ moves the weights by
#
# $$
# \begin{aligned}
# \dot\beta&=-P\,\nabla_\beta\mathcal L(\beta),\\
# P&=A^{-1}\bigl(I+\hat\gamma^2D\bigr)A^{-\top},
# \end{aligned}
# $$
#
# while the explicit model has $\dot\beta=-\nabla_\beta\mathcal L(\beta)$. Here $D$ is diagonal with
#
# $$D_{kk}=\sum_j[S_Z]_{kj}^2\bigl(\beta_j-[S_Z\beta]_k\bigr)^2 .$$
#
# For all $u$ and $Z$ the least eigenvalue of $P$ is at least
#
# $$c=\frac1{(1+\hat\gamma\sqrt d)^2}>0 .$$
# :::
#
# *Why one should expect it.* $P=JJ^\top$ holds for every parameterization. What is special is that $J$ is $A^{-1}$
# times something simple, and that a softmax can never make $A$ large.
#
# *The key step.* The logits of row $k$ act on row $k$ of {eq}`eq-implicit-values-differential` alone. So
# $J=A^{-1}[\,I,\ \hat\gamma B\,]$ with $BB^\top$ diagonal, and $JJ^\top=A^{-1}(I+\hat\gamma^2BB^\top)A^{-\top}$.
#
# :::{dropdown} Proof
# 1. *Softmax.* $\partial[S_Z]_{kj}/\partial Z_{kl}=[S_Z]_{kj}(1_{j=l}-[S_Z]_{kl})$, and the logits of other rows do
#    not matter.
# 2. *Jacobian.* Hence $[dS_Z\,\beta]_k=\sum_l[S_Z]_{kl}(\beta_l-[S_Z\beta]_k)\,dZ_{kl}$. By
#    {eq}`eq-implicit-values-differential`, $J=A^{-1}[I,\hat\gamma B]$, where row $k$ of $B$ is non-zero only in the
#    columns of $Z_{k1},\dots,Z_{kd}$. Two rows of $B$ share no column, so $BB^\top=D$.
# 3. *Flow.* $\dot\theta=-J^\top\nabla_\beta\mathcal L$ and $\dot\beta=J\dot\theta$.
# 4. *Constant.* $P\succeq A^{-1}A^{-\top}$ (the difference has no negative eigenvalue), whose least eigenvalue is $\lVert A\rVert^{-2}$. For a row-stochastic
#    matrix $\lVert S_Z\rVert^2\le\lVert S_Z\rVert_1\lVert S_Z\rVert_\infty\le d\cdot1$, so
#    $\lVert A\rVert\le1+\hat\gamma\sqrt d$. $\square$
# :::
#
# The source shows that *some* positive constant exists, by a limiting argument; step 4 gives one. It
# is the softmax that makes it uniform: with free numbers in place of $S_Z$, $\lVert A\rVert$ has no bound. Nor can $\sqrt d$ be
# dropped, as a chain shows in which all states lead to one.
#
# The check integrates gradient flow in $(u,Z)$ and compares, along the way, the velocity of $\beta$, computed by
# forward differentiation (the derivative along one given direction) of a plain linear solve, with $-P\nabla_\beta\mathcal L$.

# %%
flow_seeds = run.seeds(smoke=3, book=9, paper=30)
flow_discount, m, horizon = 0.8, 4, 40.0


def flow_problem(seed):  # logits from nearly uniform to nearly deterministic
    source = run.generator("flow", seed=seed)
    X = torch.randn(12, m, generator=source, dtype=run.dtype) / 2
    Z = (0.1, 1.0, 5.0)[seed % 3] * torch.randn(m, m, generator=source, dtype=run.dtype)
    start = torch.randn(m, generator=source, dtype=run.dtype)
    y = torch.randn(12, generator=source, dtype=run.dtype)
    return X, y, latent_rewards(start, Z, flow_discount), Z


fX, fy, fu, fZ = ensembles.stack_over_seeds(flow_problem, flow_seeds)
slope = latent_gradient(fX, fy, flow_discount)
times = torch.linspace(0, horizon, 41).tolist()
path = flows.gradient_flow(
    lambda theta, t: -slope(theta, 0), pack(fu, fZ), times, rtol=1e-8, atol=1e-10, method="LSODA"
)
assert path.success


def by_solver(u, Z, discount=flow_discount):  # a plain linear solve, differentiable in every mode
    A = torch.eye(u.shape[-1], **like) - discount * Z.softmax(-1)
    return torch.linalg.solve(A, u[..., None])[..., 0]


# %%
early = path.values[:4]  # (times, runs, m + m^2)
state, velocity = unpack(early, m), unpack(-slope(early, 0), m)
flow_beta, moved = jvp(by_solver, state, velocity)
flow_h = weight_gradient(flow_beta, fX, fy)
pieces = fixed_points.weight_space_preconditioner(state[1], flow_beta, flow_discount)


def mismatch(P):  # relative distance of the velocity from -P h
    return (moved + (P @ flow_h[..., None])[..., 0]).norm(dim=-1) / moved.norm(dim=-1)


# %% tags=["hide-input"]
ledger.check(
    "implicit:thm-1",
    "Along gradient flow in (u, Z) the weights move by −P times their gradient",
    measured=mismatch(pieces.matrix),
    criterion=identity("‖β̇ + P∇L‖/‖β̇‖", condition=1e4),
    control=control("without D", mismatch(pieces.inverse @ pieces.inverse.mT)),
    expected="holds",
    seeds=flow_seeds,
    show="card",
)

# %%
trials = run.pick(smoke=100, book=600, paper=2000)


def eigenvalue_ratio(d, scale, discount, bound, trials=trials):
    source = run.generator(f"eigenvalues {d} {scale}")
    value = torch.randn(trials, d, generator=source, dtype=run.dtype)
    logits = scale * torch.randn(trials, d, d, generator=source, dtype=run.dtype)
    if scale == 0:
        logits[..., 0] = 50.0
    P = fixed_points.weight_space_preconditioner(logits, value, discount).matrix
    return torch.linalg.eigvalsh(P)[:, 0] / bound(discount, d)


grid = [(d, scale, g) for d in (2, 8, 25) for scale in (0.01, 1.0, 30.0) for g in (0.5, 0.9, 0.99)]
floor = torch.cat([eigenvalue_ratio(*point, fixed_points.least_eigenvalue_bound) for point in grid])
sinks = torch.cat([eigenvalue_ratio(k, 0, 0.99, fixed_points.least_eigenvalue_bound, 3) for k in (25, 100)])

# %% tags=["hide-input"]
ledger.check(
    "implicit:beyond-explicit-constant",
    "The least eigenvalue of P is never below (1 + γ̂√d)⁻², for logits of any size",
    measured=torch.cat([floor, sinks]) - 1,
    criterion=inequality("λ_d(P)/c − 1"),
    control=control(
        "without √d, where all states lead to one",
        torch.cat([eigenvalue_ratio(k, 0, 0.99, lambda g, d: (1 + g) ** -2, 3) for k in (25, 100)]) - 1,
    ),
    expected="holds",
)

# %% [markdown]
# **Cite this result** as the anchor `implicit-thm-1` of this page, with the release of the book.
#
# ## No bad ends
#
# $\beta=A^{-1}u$ is not linear in $(u,Z)$, and the loss is not convex there: on random pairs of parameters the
# midpoint sometimes has more loss than the mean of the ends (a row below). Yet gradient flow always ends at the least loss.
#
# **A point where the gradient in $(u,Z)$ vanishes is a global minimum.** Already the gradient in the rewards vanishes only with the gradient in the weights, because $A$ is invertible and bounded:
#
# $$
# \begin{aligned}
# \lVert\nabla_\theta\mathcal L\rVert\ge\lVert\nabla_u\mathcal L\rVert&=\lVert A^{-\top}\nabla_\beta\mathcal L\rVert\\
# &\ge\frac{\lVert\nabla_\beta\mathcal L\rVert}{1+\hat\gamma\sqrt d},
# \end{aligned}
# $$ (eq-implicit-values-stationary)
#
# and $\mathcal L$ is convex in $\beta$. But a flow could still slow down for ever or run off to infinity, since logits may
# grow without bound. The next statement excludes it. It uses the *Polyak-Łojasiewicz* (PL) inequality, which says that the
# squared gradient is at least a multiple of the excess loss. Let $\mathcal L^\star$ be the least loss and
# $\mu$ the smallest non-zero eigenvalue of $X^\top X$.
#
# :::{prf:corollary} Global convergence, with a rate
# :label: implicit-cor-1
# From every start $(u_0,Z_0)$ gradient flow exists for all times and converges, to a global minimum, with
#
# $$
# \begin{aligned}
# \mathcal L(t)-\mathcal L^\star&\le e^{-2c\mu t}\,\bigl(\mathcal L(0)-\mathcal L^\star\bigr),\\
# \int_0^\infty\lVert\dot\theta\rVert\,dt&\le\sqrt{\frac{2\,(\mathcal L(0)-\mathcal L^\star)}{c\,\mu}} .
# \end{aligned}
# $$
#
# If $X^\top X$ is invertible, $\beta$ tends to the one minimizer, from everywhere.
# :::
#
# *The key step.* In $(u,Z)$ the PL inequality of least squares still holds, with an additional factor $c$, and PL
# bounds not only the loss but the length of the path.
#
# :::{dropdown} Proof
# 1. *Least squares.* $\nabla_\beta\mathcal L=X^\top X(\beta-\beta^\star)$ for any minimizer $\beta^\star$, and
#    $\mathcal L-\mathcal L^\star=\frac12\lVert X(\beta-\beta^\star)\rVert^2$, so
#    $\lVert\nabla_\beta\mathcal L\rVert^2\ge2\mu(\mathcal L-\mathcal L^\star)$.
# 2. *In the parameters.* $\lVert\nabla_\theta\mathcal L\rVert^2=h^\top Ph$ with $h=\nabla_\beta\mathcal L$, and
#    $h^\top Ph\ge c\lVert h\rVert^2$ by {prf:ref}`implicit-thm-1`. So
#    $\lVert\nabla_\theta\mathcal L\rVert^2\ge2c\mu(\mathcal L-\mathcal L^\star)$.
# 3. *Rate.* $\mathcal L-\mathcal L^\star$ has the derivative $-\lVert\nabla_\theta\mathcal L\rVert^2$, at most
#    $-2c\mu(\mathcal L-\mathcal L^\star)$.
# 4. *Length.* The root $\rho=\sqrt{\mathcal L-\mathcal L^\star}$ has $-\dot\rho=\lVert\dot\theta\rVert^2/2\rho$, and
#    $\lVert\dot\theta\rVert=\lVert\nabla_\theta\mathcal L\rVert\ge\sqrt{2c\mu}\,\rho$ by step 2. Hence
#    $-\dot\rho\ge\sqrt{c\mu/2}\,\lVert\dot\theta\rVert$. Integrate from 0. (If the minimum is reached at a finite time, the path rests there.)
# 5. *Existence and limit.* The field is smooth in $\theta$, so that there is exactly one path
#    ({prf:ref}`thesis-thm-a-1-1`). A path of finite length stays in a bounded set, so it exists for ever and converges; by step 3 its limit has the loss $\mathcal L^\star$. $\square$
# :::
#
# The explicit flow obeys the same bounds with $c=1$. Can the implicit one be slower? It can. Take a chain of
# sixteen states that all lead to the first, an error in the slowest direction of its $P$, and data that are
# weakest there. $D$ is zero, the logits rest, and the rate is exactly $2\mu/\lVert A\rVert^2$ with
# $\lVert A\rVert\approx3.3$, where $1+\hat\gamma\sqrt d=4.2$; the explicit flow has $2\mu$. On this *sink* a constant
# $2c$ in the place of $c$ fails in both lines.

# %%
sink_Z = torch.zeros(16, 16, **like)
sink_Z[:, 0] = 40.0  # all states lead to the first
sink_P = fixed_points.weight_space_preconditioner(sink_Z, torch.zeros(16, **like), flow_discount).matrix
slow = torch.linalg.eigh(sink_P).eigenvectors[:, 0]
sink_X = math.sqrt(6) * torch.eye(16, **like) + (math.sqrt(2) - math.sqrt(6)) * torch.outer(slow, slow)
sink_field = latent_gradient(sink_X, -sink_X @ slow, flow_discount)
sink_times = torch.linspace(0, 20, 21).tolist()
sink_path = flows.gradient_flow(
    lambda theta, t: -sink_field(theta, 0),
    pack(torch.zeros(16, **like), sink_Z),
    sink_times,
    rtol=1e-8,
    atol=1e-10,
    method="LSODA",
)
assert sink_path.success


def measured_flow(values, times, X, y):  # excess loss over its start, 2 mu t, length over sqrt(2 excess/mu)
    losses = 0.5 * residual(by_solver(*unpack(values, X.shape[-1])), X, y).square().sum(-1)
    best = torch.linalg.lstsq(X, y[..., None]).solution[..., 0]
    excess = losses - 0.5 * residual(best, X, y).square().sum(-1)
    mu = torch.linalg.eigvalsh(X.mT @ X)[..., 0]
    clock = torch.tensor(times, **like).reshape(-1, *[1] * mu.ndim) * 2 * mu
    length = values.diff(dim=0).norm(dim=-1).sum(0)  # of the polygon, not longer than the path
    return excess / excess[0], clock, length / (2 * excess[0] / mu).sqrt()


# %%
def margins(excess, clock, length, c):  # of the rate until the bound is e^-8, and of the length
    rate = 1 - excess * torch.exp(c * clock)
    return torch.cat([rate[1:][(c * clock < 8)[1:]], (1 - length * math.sqrt(c)).reshape(-1)])


excess, clock, length = measured_flow(path.values, times, fX, fy)
sink = measured_flow(sink_path.values, sink_times, sink_X, -sink_X @ slow)
c, sink_c = (fixed_points.least_eigenvalue_bound(flow_discount, k) for k in (m, 16))

# %% tags=["hide-input"]
ledger.check(
    "implicit:cor-1",
    "The excess loss falls at least at the rate 2cμ, along a path of bounded length",
    measured=torch.cat([margins(excess, clock, length, c), margins(*sink, sink_c)]),
    criterion=inequality("1 − excess loss/its bound, 1 − length/its bound"),
    control=control("2c in the place of c, on the sink", margins(*sink, 2 * sink_c)),
    expected="holds",
    seeds=flow_seeds,
    rtol=1e-4,
    show="card",
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Every run ends at the least loss, at least as fast as promised.** Excess loss of gradient flow in rewards and logits, from starts with nearly uniform to nearly deterministic transitions, against time in units of the rate; the black line is the bound. The sink (blue) comes near it, and is slower than the explicit flow may be (dotted). What breaks it: a constant twice as large (dashed), which the sink does not keep.", "name": "fig-implicit-values-rate"}, "image": {"alt": "Falling curves on a logarithmic axis, all below a straight black line. Most are steep; a blue one lies between the black line and a dashed line of twice its slope; a dotted line is steeper still."}}
fig, ax = figures.subplots(size=(6.0, 4.0))
ax.plot(c * clock, excess.clamp_min(1e-12), color=COLORS["light grey"], lw=1, marker="")
ax.plot(sink_c * sink[1], sink[0], color=COLORS["blue"], lw=2, marker="", label="sink")
span = torch.linspace(0, 10, 50)
ax.plot(span, torch.exp(-span), color=COLORS["black"], marker="", label="bound $e^{-2c\\mu t}$")
ax.plot(
    span,
    torch.exp(-span / sink_c),
    ":",
    color=COLORS["middle grey"],
    marker="",
    label="explicit bound, $c=1$",
)
figures.line_control(ax, span, torch.exp(-2 * span), label="$2c$ in the place of $c$")
ax.set(
    yscale="log", ylim=(1e-9, 2), xlim=(0, 8), xlabel="$2c\\mu t$", ylabel="excess loss / excess at the start"
)
ax.legend(fontsize=8)
plt.show()

# %% [markdown]
# ## Small steps and random batches
#
# Finite steps agree with the flow to first order. Write $\Delta\beta$ for the change of the weights in one step.
#
# **One step is a preconditioned step up to $\eta^2$**, for the full loss and for every batch:
#
# $$\Delta\beta=-\eta\,P\,h_B+O(\eta^2).$$ (eq-implicit-values-step)
#
# :::{prf:lemma} One step
# :label: implicit-lemma-1
# For fixed $(u,Z)$, $\hat\gamma$ and any subset $B$ of the data, gradient descent with step $\eta$ on the batch loss
# changes the weights by {eq}`eq-implicit-values-step`. The explicit model has $\Delta\beta=-\eta h_B$ exactly.
# :::
#
# :::{dropdown} Proof
# $\beta$ is a smooth function of $(u,Z)$, and the step is $-\eta J^\top h_B$. By Taylor,
# $\Delta\beta=-\eta JJ^\top h_B+O(\eta^2)$. The second-order term does not vanish in general: it contains
# $\hat\gamma A^{-1}dS_Z\,d\beta$, and so grows like a power of $1/(1-\hat\gamma)$. $\square$
# :::
#
# With batches one asks for expectations.
#
# :::{prf:theorem} Expected decrease, explicit
# :label: implicit-thm-2
# $$
# \begin{aligned}
# \mathbb E[\Delta\mathcal L]&=-\frac\eta n\lVert h\rVert^2+\frac{\eta^2}2\,\mathbb E\lVert Xh_B\rVert^2\\
# &\ge-\frac{2\eta}n\lVert XX^\top\rVert\,\mathcal L .
# \end{aligned}
# $$
# :::
#
# :::{dropdown} Proof
# The loss is a quadratic: $\Delta\mathcal L=\langle h,\Delta\beta\rangle+\frac12\lVert X\Delta\beta\rVert^2$ with
# $\Delta\beta=-\eta h_B$; take expectations. And $\lVert h\rVert^2=\lVert X^\top r\rVert^2$ is at most
# $\lVert XX^\top\rVert\,\lVert r\rVert^2=2\lVert XX^\top\rVert\,\mathcal L$. $\square$
# :::
#
# The lower bound limits the speed: with $\lVert XX^\top\rVert=O(1)$ and $\eta=O(1)$ no step takes off, in expectation, more than a share of
# order $1/n$. In the tabular case (one-hot features, every state once) $\mathbb E\,r_{k+1}=(1-\eta/n)\,r_k$: it takes of the order of $n$ steps, since a state is in one batch out of
# $n/b$ on average, and each visit corrects only the share $\eta/b$ of its error. For the implicit model $P$ enters.
#
# :::{prf:theorem} Expected decrease, implicit
# :label: implicit-thm-3
# For fixed $(u,Z)$ and $\hat\gamma$, as $\eta\to0$,
#
# $$\mathbb E[\Delta\mathcal L]=-\frac\eta n\,h^\top P\,h+O(\eta^2).$$
# :::
#
# *The key step.* {eq}`eq-implicit-values-step` is linear in $h_B$, and $\mathbb E\,h_B=h/n$.
#
# :::{dropdown} Proof
# $\Delta\mathcal L=\langle h,\Delta\beta\rangle+\frac12\lVert X\Delta\beta\rVert^2$ with $\Delta\beta=-\eta Ph_B+O(\eta^2)$ by
# {prf:ref}`implicit-lemma-1`. The second term is $O(\eta^2)$; the expectation of the first is
# $-\frac\eta nh^\top Ph+O(\eta^2)$, as there are finitely many batches. $\square$
# :::
#
# Expectations over batches need no sampling here: with $n=8$ and $b=3$ there are 56 batches, and we take the mean
# over all of them, each with its full non-linear update of $(u,Z)$.


# %%
def all_batches(n, b):  # (C, b)
    return torch.tensor(list(combinations(range(n), b)))


batches = all_batches(n, b)
discount = 0.8
shares = residual(beta, X, y)[..., None] * X  # r_i x_i, (seeds, n, d)
h = shares.sum(1)  # (seeds, d)
h_B = shares[:, batches].mean(2)  # (seeds, C, d)
u = latent_rewards(beta, Z, discount)
P = fixed_points.weight_space_preconditioner(Z, beta, discount)
etas = torch.logspace(-5, -3, 5, **like)
wide_u = u[:, None].expand_as(h_B)
wide_Z = Z[:, None].expand(*h_B.shape, d)
down_u, down_Z = pull_back(wide_u, wide_Z, h_B, discount)


# %%
def change(eta):  # of the weights, every batch; eta broadcasts in front
    next_u = wide_u - eta[..., None] * down_u
    next_Z = wide_Z - eta[..., None, None] * down_Z
    moved = fixed_points.reward_chain_value(next_u, next_Z, discount)
    return moved - beta[:, None]


delta = change(etas[:, None, None])  # (etas, seeds, C, d)
rise = (delta * h[:, None]).sum(-1) + 0.5 * (delta @ X.mT).square().sum(-1)


def first_order(matrix):  # the rest of the expected decrease, of the step
    form = ((matrix @ h[..., None])[..., 0] * h).sum(-1)  # h^T P h
    loss_rest = rise.mean(-1) + etas[:, None] / n * form
    step_rest = delta + etas[:, None, None, None] * (h_B @ matrix)
    return loss_rest.abs(), step_rest.norm(dim=-1)


full, bare = P.matrix, P.inverse @ P.inverse.mT


# %%
def typical(values):  # geometric mean over seeds and batches: one curve
    return values.log().flatten(1).mean(1).exp()


# %% tags=["hide-input"]
ledger.check(
    "implicit:thm-3",
    "The expected loss change is −(η/n) hᵀPh, up to η²: mean over all batches",
    measured=statistics.log_log_slope(etas, typical(first_order(full)[0])),
    criterion=exponent("p of |E ΔL + (η/n) hᵀPh| ~ η^p", 2.0, neighbours=(1.0, 3.0)),
    control=control("P without D", lambda: statistics.log_log_slope(etas, typical(first_order(bare)[0]))),
    expected="holds",
    seeds=seeds,
    rtol=1e-4,
    show="card",
)
ledger.check(
    "implicit:lemma-1",
    "One step on any batch moves the weights by −ηPh_B, up to η²",
    measured=statistics.log_log_slope(etas, typical(first_order(full)[1])),
    criterion=exponent("p of ‖Δβ + ηPh_B‖ ~ η^p", 2.0, neighbours=(1.0, 3.0)),
    control=control("P without D", lambda: statistics.log_log_slope(etas, typical(first_order(bare)[1]))),
    expected="holds",
    seeds=seeds,
)


# %%
def pair_sum(V, n, b):  # E |mean of b of the n vectors V_i|^2, by inclusion probabilities
    own, all_together = V.square().sum((-2, -1)), V.sum(-2).square().sum(-1)
    return (own * (n - b) / (n - 1) + all_together * (b - 1) / (n - 1)) / (n * b)


def explicit_gap(h_B, eta=0.3):
    moved = -eta * h_B
    rise = (moved * h[:, None]).sum(-1) + 0.5 * (moved @ X.mT).square().sum(-1)
    closed = -eta / n * h.square().sum(-1) + 0.5 * eta**2 * pair_sum(shares @ X.mT, n, b)
    return (rise.mean(-1) - closed) / (eta / n * h.square().sum(-1))


def limit_gap(k):  # first-order decrease over its bound, residual along the k-th singular direction
    left, size, _ = torch.linalg.svd(X, full_matrices=False)
    slope = (X.mT @ left[..., k : k + 1]).square().sum((-2, -1))
    return slope / size[..., 0] ** 2 - 1


# %% tags=["hide-input"]
ledger.check(
    "implicit:thm-2",
    "Explicit: E ΔL = −(η/n)‖h‖² + (η²/2) E‖Xh_B‖², and ‖h‖² = 2‖XXᵀ‖L in the top direction",
    measured=torch.cat([explicit_gap(h_B), limit_gap(0)]),
    criterion=identity("relative difference of the two sides", condition=10),
    control=control(
        "batches that all contain the first sample, the second direction",
        torch.cat([explicit_gap(h_B[:, (batches == 0).any(1)]), limit_gap(1)]),
    ),
    expected="holds",
    seeds=seeds,
)

# %% [markdown]
# ## Why the direction of ones
#
# The matrix $P$ is built from $A^{-1}$, whose entries are discounted counts of visits, $[A^{-1}]_{ij}=\sum_k\hat\gamma^k[S_Z^k]_{ij}$.
# For $\hat\gamma$ near one the future is long, and a chain that mixes forgets where it started. All rows of $A^{-1}$
# look alike; a reward anywhere is felt everywhere.
#
# To make this exact, note that all entries of $S_Z$ are positive. By the theorem of Perron the eigenvalue 1, with the
# eigenvector $\mathbf 1$ of ones, is simple, and all others are smaller in modulus. Let $v$ be the *stationary law*, the
# distribution with $v^\top S_Z=v^\top$. **Split off the stationary part**:
#
# $$
# \begin{aligned}
# S_Z&=\mathbf 1v^\top+M,\\
# M\mathbf 1&=0,\qquad v^\top M=0,\\
# A^{-1}&=\frac{\hat\gamma}{1-\hat\gamma}\,\mathbf 1v^\top+(I-\hat\gamma M)^{-1}.
# \end{aligned}
# $$ (eq-implicit-values-perron)
#
# The powers of $\mathbf 1v^\top$ and $M$ do not interact, because their products vanish. The second term stays bounded as $\hat\gamma\to1$,
# so that $A^{-1}x=\mathbf 1\,(v^\top x)/(1-\hat\gamma)+O(1)$, and
#
# $$
# \begin{aligned}
# P&=\frac{c_v}{(1-\hat\gamma)^2}\,\mathbf 1\mathbf 1^\top+O\Bigl(\frac1{1-\hat\gamma}\Bigr),\\
# c_v&=v^\top(I+\hat\gamma^2D)\,v .
# \end{aligned}
# $$ (eq-implicit-values-leading)
#
# The bright square of {numref}`fig-implicit-values-heat` is $\mathbf 1\mathbf 1^\top$. The constant $c_v$ deserves
# a look: it is at least $\lVert v\rVert^2\ge1/d$, and equals $1/d$ for a uniform $v$ and equal values. It comes near one, or
# above, only if the chain spends most of its time in few states or its values differ much, so that $D$ is large. The section on "$n$ times faster" needs this. One bound needs no limit: as
# $A\mathbf 1=(1-\hat\gamma)\mathbf 1$, Cauchy and Schwarz give
# $\mathbf 1^\top P\mathbf 1\ge\lVert A^{-\top}\mathbf 1\rVert^2\ge d\,(1-\hat\gamma)^{-2}$ for every chain.
#
# :::{prf:theorem} The common error falls fast
# :label: implicit-thm-4
# Write $h=h^\parallel\mathbf 1+h^\perp$ with $h^\parallel=\mathbf 1^\top h/d$. For fixed $(\beta,Z)$, one batch step of the
# implicit model changes the common part by
#
# $$
# \begin{aligned}
# \mathbb E[\Delta h^\parallel]=&-\frac{\eta\,h^\parallel}{(1-\hat\gamma)^2}\;c_v\,\frac{\lVert X\mathbf 1\rVert^2}n\\
# &+\eta\,O\bigl((1-\hat\gamma)^{-1}\bigr)\\
# &+\eta^2\,O\bigl((1-\hat\gamma)^{-3}\bigr)+o(\eta^2)
# \end{aligned}
# $$
#
# with $o(\eta^2)$ for each $\hat\gamma$ and the other orders as $\hat\gamma\to1$. If $\lVert X\mathbf 1\rVert^2\ge a\,n$, the leading rate is at least $\eta\,a/(d\,(1-\hat\gamma)^2)$.
# :::
#
# *The key step.* To first order $\mathbb E[\Delta h]=-\frac\eta nX^\top XP\,h$. Replace $P$ by its leading term and take the mean of the entries:
# $\mathbf 1^\top X^\top X\mathbf 1=\lVert X\mathbf 1\rVert^2$ and $\mathbf 1^\top h=d\,h^\parallel$.
#
# :::{dropdown} Proof
# 1. *Perron.* $(\mathbf 1v^\top)^2=\mathbf 1v^\top$ and $\mathbf 1v^\top M=M\mathbf 1v^\top=0$, so
#    $S_Z^k=\mathbf 1v^\top+M^k$ for $k\ge1$. Sum the geometric series; it converges because the eigenvalues of $M$ are those of $S_Z$
#    other than 1, and a zero.
# 2. *Leading term.* $(I-\hat\gamma M)^{-1}$ is continuous on $[0,1]$ in $\hat\gamma$, hence bounded. Insert into $P$ and collect powers.
# 3. *First order.* $\Delta h=X^\top X\Delta\beta$, {prf:ref}`implicit-lemma-1` and $\mathbb E\,h_B=h/n$ give
#    $\mathbb E[\Delta h]=-\frac\eta nX^\top XPh+O(\eta^2)$. Multiply by $\mathbf 1^\top/d$; the error of step 2 contributes
#    $\eta\,O(1/(1-\hat\gamma))$.
# 4. *Second order.* The second derivative of $\beta=A^{-1}u$ along $(\dot u,\dot Z)=-J^\top h_B$ is
#    $2\hat\gamma A^{-1}\dot S\,\dot\beta+\hat\gamma A^{-1}\ddot S\,\beta$. Each row of $\dot S$ and $\ddot S$ sums to zero, so
#    the part of $\dot\beta$ along $\mathbf 1$, of size $(1-\hat\gamma)^{-2}$, is annihilated, and the rest is $O(1/(1-\hat\gamma))$. $\dot S=O(1/(1-\hat\gamma))$ and
#    $\ddot S=O(1/(1-\hat\gamma)^{2})$, since $w=A^{-\top}h_B=O(1/(1-\hat\gamma))$. With $A^{-1}=O(1/(1-\hat\gamma))$ both terms are
#    $O((1-\hat\gamma)^{-3})$.
# 5. *Last claim.* $c_v\ge\lVert v\rVert^2\ge(\mathbf 1^\top v)^2/d=1/d$ by Cauchy and Schwarz. $\square$
# :::
#
# The check computes the derivative of the true expected change at $\eta=0$ by forward differentiation (the derivative along one given direction) through all 56 updates,
# without using the formula for $P$, and follows it as $\hat\gamma\to1$. What fails is a coefficient that ignores where the chain dwells.

# %%
gaps = torch.logspace(-2, -4, 5, **like)
near_one = (1 - gaps)[:, None]  # (gaps, seeds) discounts
gap = gaps[:, None]
uniform = torch.full((d,), 1 / d, **like)
far_u = latent_rewards(beta.expand(len(gaps), *beta.shape), Z, near_one[..., None])  # (gaps, seeds, d)
far = fixed_points.weight_space_preconditioner(Z, beta, near_one)
v = fixed_points.stationary_distribution(Z.softmax(-1))
c_v = (v**2 * (1 + near_one[..., None] ** 2 * far.spread)).sum(-1)
wide = (len(gaps), *h_B.shape)
far_chains = (
    far_u[:, :, None].repeat(1, 1, len(batches), 1),
    Z[:, None].repeat(len(gaps), 1, len(batches), 1, 1),
)
far_down = pull_back(*far_chains, h_B.expand(wide), near_one[..., None])


def far_value(u, Z):
    A = torch.eye(d, **like) - near_one[..., None, None, None] * Z.softmax(-1)
    return torch.linalg.solve(A, u[..., None])[..., 0]


_, first = jvp(far_value, far_chains, tuple(-g for g in far_down))  # derivative in eta at 0, every batch
ones_X = X.sum(-1)  # X 1
exact_rate = (first.mean(2)[..., None, :] @ X.mT)[..., 0, :].mul(ones_X).sum(-1) / d
common = h.mean(-1)


# %%
def leading_error(coefficient):  # relative error of the leading term, (gaps, seeds)
    lead = -common * coefficient / gap**2 * ones_X.square().sum(-1) / n
    return (lead / exact_rate - 1).abs()


# %% tags=["hide-input"]
ledger.check(
    "implicit:thm-4",
    "The common error falls at the rate h∥ c_v ‖X1‖²/(n(1 − γ̂)²), up to a factor 1 + O(1 − γ̂)",
    measured=statistics.log_log_slope(gaps, typical(leading_error(c_v))),
    criterion=exponent("p of |leading/exact − 1| ~ (1 − γ̂)^p", 1.0, neighbours=(0.0, 2.0)),
    control=control(
        "1/d in the place of c_v",
        lambda: statistics.log_log_slope(gaps, typical(leading_error(torch.full_like(c_v, 1 / d)))),
    ),
    expected="holds",
    rtol=1e-4,  # the smallest errors are differences of nearly equal numbers
    seeds=seeds,
    show="card",
)


# %%
def second_order(value, chains, towards):  # derivative of the expected common part in eta, twice, at 0
    _, second = jvp(lambda *chain: jvp(value, chain, towards)[1], chains, towards)
    return ((second.mean(2)[..., None, :] @ X.mT)[..., 0, :] * ones_X).sum(-1).abs() / d


def free_value(u, S):  # the same chain, its transition numbers trained without a softmax
    A = torch.eye(d, **like) - near_one[..., None, None, None] * S
    return torch.linalg.solve(A, u[..., None])[..., 0]


free_pull = near_one[..., None, None, None] * far_down[0][..., None] * beta[:, None, None, :]
free_chains = (far_chains[0], far_chains[1].softmax(-1))

# %% tags=["hide-input"]
ledger.check(
    "implicit:beyond-second-order",
    "The second-order term of the common error grows like (1 − γ̂)⁻³",
    measured=statistics.log_log_slope(
        gaps, typical(second_order(far_value, far_chains, tuple(-g for g in far_down)))
    ),
    criterion=exponent("p of |d²E h∥/dη²| ~ (1 − γ̂)^p", -3.0, neighbours=(-4.0, -2.0)),
    control=control(
        "transition numbers in the place of logits",
        lambda: statistics.log_log_slope(
            gaps, typical(second_order(free_value, free_chains, (-far_down[0], -free_pull)))
        ),
    ),
    expected="holds",
    seeds=seeds,
)

# %%
lead_matrix = torch.ones(d, d, **like)


def on_direction(P, direction):  # (1 - discount)^2 x^T P x / |x|^2 - 1
    return gap**2 * (P @ direction @ direction) / direction.square().sum() - 1


equal = torch.ones(d, **like)
uniform_P = fixed_points.weight_space_preconditioner(torch.zeros(d, d, **like), equal, near_one)
exactly = on_direction(uniform_P.matrix, equal)

# %% tags=["hide-input"]
ledger.check(
    "implicit:beyond-ones-floor",
    "Every chain amplifies the ones at least (1 − γ̂)⁻² times; the uniform one, at equal values, exactly",
    measured=torch.cat([on_direction(far.matrix, equal), exactly, -exactly], -1),
    criterion=inequality("(1 − γ̂)² 1ᵀP1/d − 1", size=2 / gaps.min().item()),
    control=control(
        "a direction of mean zero, the uniform chain",
        on_direction(uniform_P.matrix, torch.tensor([1.0, -1.0] + [0.0] * (d - 2), **like)),
    ),
    expected="holds",
    seeds=seeds,
)


# %%
def matrix_rest(coefficient):
    return torch.linalg.matrix_norm(far.matrix - (coefficient / gap**2)[..., None, None] * lead_matrix, 2)


def inverse_rest(law):
    return torch.linalg.matrix_norm(far.inverse - law[:, None, :].expand(-1, d, -1) / gap[..., None, None], 2)


S = Z.softmax(-1)
M = S - v[:, None, :]
bounded = torch.linalg.inv(torch.eye(d, **like) - near_one[..., None, None] * M)


def perron_gap(law, rest):
    rank_one = (near_one / gap)[..., None, None] * law[:, None, :].expand(-1, d, -1)
    return torch.linalg.matrix_norm(far.inverse - rank_one - rest, 2) * gap


# %% tags=["hide-input"]
ledger.check(
    "implicit:claim-perron",
    "A⁻¹ = γ̂/(1 − γ̂) 1vᵀ + (I − γ̂M)⁻¹",
    measured=perron_gap(v, bounded),
    criterion=identity("(1 − γ̂)‖difference of the two sides‖", condition=2 / gaps.min().item(), size=d),
    control=control("the uniform law in the place of v", perron_gap(uniform.expand_as(v), bounded)),
    expected="holds",
    seeds=seeds,
)
ledger.check(
    "implicit:eq-5",
    "A⁻¹ − 1vᵀ/(1 − γ̂) stays bounded as γ̂ → 1",
    measured=statistics.log_log_slope(gaps, typical(inverse_rest(v))),
    criterion=exponent("p of ‖A⁻¹ − 1vᵀ/(1 − γ̂)‖ ~ (1 − γ̂)^p", 0.0, neighbours=(-1.0, 1.0)),
    control=control(
        "the uniform law in the place of v",
        lambda: statistics.log_log_slope(gaps, typical(inverse_rest(uniform.expand_as(v)))),
    ),
    expected="holds",
    seeds=seeds,
)
ledger.check(
    "implicit:claim-preconditioner-expansion",
    "P − c_v 11ᵀ/(1 − γ̂)² is of order 1/(1 − γ̂)",
    measured=statistics.log_log_slope(gaps, typical(matrix_rest(c_v))),
    criterion=exponent("p of ‖P − c_v 11ᵀ/(1 − γ̂)²‖ ~ (1 − γ̂)^p", -1.0, neighbours=(-2.0, 0.0)),
    control=control(
        "1/d in the place of c_v",
        lambda: statistics.log_log_slope(gaps, typical(matrix_rest(torch.full_like(c_v, 1 / d)))),
    ),
    expected="holds",
    seeds=seeds,
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**All remainders have the stated order.** Geometric means over problems and batches. Top: what is left of one step and of the expected loss change after subtracting the first-order term falls like the square of the step size. Bottom: relative error of the leading terms as the internal discount tends to one; it falls in proportion. What breaks it (dashed): $P$ without $D$ above, $1/d$ in the place of $c_v$ below.", "name": "fig-implicit-values-remainders"}, "image": {"alt": "Two panels with logarithmic axes. Top, two parallel lines of slope two and a dashed one of slope one. Bottom, three parallel lines of slope one and a flat dashed line."}}
fig, (top, bottom) = figures.subplots(2, 1, size=(5.8, 6.6))
loss_rest, step_rest = first_order(full)
top.plot(etas, typical(loss_rest), label="expected loss")
top.plot(etas, typical(step_rest), label="one step")
figures.line_control(top, etas, typical(first_order(bare)[1]), label="one step, without $D$")
top.set(xscale="log", yscale="log", xlabel="step size $\\eta$", ylabel="remainder")
spectral = torch.linalg.matrix_norm(far.matrix, 2)
bottom.plot(gaps, typical(matrix_rest(c_v) / spectral), label="$P$")
bottom.plot(gaps, typical(inverse_rest(v) * gap), label="$A^{-1}$")
bottom.plot(gaps, typical(leading_error(c_v)), label="common error")
flat_coefficient = torch.full_like(c_v, 1 / d)
figures.line_control(bottom, gaps, typical(leading_error(flat_coefficient)), label="$1/d$ for $c_v$")
bottom.set(xscale="log", yscale="log", xlabel="$1-\\hat\\gamma$", ylabel="relative error")
for ax in (top, bottom):
    ax.legend(fontsize=8)
plt.show()

# %% tags=["hide-input"]
figures.numbers(
    run,
    "fig-implicit-values-remainders",
    {
        "step_size": etas,
        "loss_remainder": typical(loss_rest),
        "step_remainder": typical(step_rest),
        "one_minus_discount": gaps,
        "common_error": typical(leading_error(c_v)),
    },
    rtol=1e-3,
)

# %% [markdown]
# ### When the chain does not mix
#
# "As $\hat\gamma\to1$" hides a comparison: $1-\hat\gamma$ must be small against the *spectral gap* of the chain, here the least distance $|1-\lambda|$ between $1$ and another eigenvalue $\lambda$ of $S_Z$. Take the
# two groups of the first picture, in which one changes the group with probability $\varepsilon$. With $\beta=0$ everything is in closed form.
#
# :::{prf:proposition} Two groups, two fast directions
# :label: implicit-beyond-two-groups
# Let $d$ be even, $[S_Z]_{ij}=2(1-\varepsilon)/d$ within and $2\varepsilon/d$ between two groups of size $d/2$, and all values equal. Then $P$
# has the eigenvalues
#
# $$
# \begin{aligned}
# &\frac1{(1-\hat\gamma)^2},\qquad\frac1{\bigl(1-\hat\gamma(1-2\varepsilon)\bigr)^2},\\
# &1,\dots,1 ,
# \end{aligned}
# $$
#
# with the eigenvectors $\mathbf 1$, $\pm1$ by group, and everything orthogonal to both.
# :::
#
# :::{dropdown} Proof
# $S_Z$ is symmetric with the eigenvalues $1$, $1-2\varepsilon$ and $0$ on these spaces. Equal values give $D=0$, so
# $P=(I-\hat\gamma S_Z)^{-2}$. $\square$
# :::
#
# With $\varepsilon=0.01$ and $\hat\gamma=0.9$ the two are $100$ and $1/0.118^2\approx72$: "all values up" and "this
# group up, that group down" are nearly equally easy. At $\varepsilon$ near one the chain alternates between the groups (it is nearly *periodic*), and the second direction is not amplified but divided by about four. In general each slowly mixing direction
# is fast to learn, which is no defect: values in a world of two rooms *do* differ by room. But formula
# {eq}`eq-implicit-values-leading` is then of no use until $1-\hat\gamma\ll2\varepsilon$.

# %%
mixings = torch.tensor([0.5, 0.1, 0.01, 0.001], **like)
group_gaps = torch.logspace(-0.5, -4, 36, **like)
groups = torch.stack([two_groups(e.item()) for e in mixings])  # (mixings, 12, 12)
group_P = fixed_points.weight_space_preconditioner(
    groups[:, None].expand(-1, len(group_gaps), -1, -1).log(), torch.zeros(4, 36, 12, **like), 1 - group_gaps
).matrix
sign = torch.cat([torch.ones(6, **like), -torch.ones(6, **like)])
first_value = group_gaps**-2
second_value = (1 - (1 - group_gaps) * (1 - 2 * mixings[:, None])) ** -2
rank_one = first_value[:, None, None] * torch.ones(12, 12, **like) / 12


def closed_form(second):
    other = (second[..., None, None] - 1) * torch.outer(sign, sign) / 12
    return torch.eye(12, **like) + rank_one - torch.ones(12, 12, **like) / 12 + other


def apart(matrix):
    return torch.linalg.matrix_norm(group_P - matrix, 2) / first_value


# %% tags=["hide-input"]
ledger.check(
    "implicit:beyond-two-groups",
    "Two groups: P has the eigenvalues (1 − γ̂)⁻², (1 − γ̂(1 − 2ε))⁻² and 1",
    measured=apart(closed_form(second_value)),
    criterion=identity("‖P − closed form‖/‖P‖", condition=2 / group_gaps.min().item()),
    control=control(
        "1 for the second eigenvalue, ε < 1/2", apart(closed_form(torch.ones_like(second_value)))[1:]
    ),
    expected="holds",
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**The rank-one picture holds only where $1-\\hat\\gamma$ is small against the spectral gap of the chain.** Relative error of the leading term for two groups and several chances of changing the group. The error becomes small only to the left of the dots, where $1-\\hat\\gamma$ equals the spectral gap $2\\varepsilon$. What breaks it (dashed): one change in a thousand steps.", "name": "fig-implicit-values-groups"}, "image": {"alt": "Rising curves on logarithmic axes from small errors at the left to near one at the right. The fewer the changes of group, the farther left the curve has to go before it falls; a dashed curve stays near one over most of the axis."}}
fig, ax = figures.subplots(size=(6.0, 4.0))
lead_error = apart(rank_one)
for i, mixing in enumerate(mixings.tolist()[:-1]):
    ax.plot(group_gaps, lead_error[i], marker="", label=f"$\\varepsilon={mixing:g}$")
    if mixing < 0.5:
        nearest = (group_gaps / (2 * mixing)).log().abs().argmin()
        ax.plot(group_gaps[nearest], lead_error[i, nearest], "o", color=COLORS["black"])
figures.line_control(ax, group_gaps, lead_error[-1], label="$\\varepsilon=0.001$")
ax.set(xscale="log", yscale="log", xlabel="$1-\\hat\\gamma$", ylabel="relative error of the leading term")
ax.legend(fontsize=8)
plt.show()

# %% [markdown]
# ## What "$n$ times faster" means
#
# The source reads its results as follows: where the common error dominates, the implicit model converges roughly $n$ times
# faster, a rate of $(1-\hat\gamma)^{-2}$ against $1/n$. Two readings have to be kept apart.
#
# (implicit-claim-n-fold-speed)=
# **At a common step size the factor is $n\,c_v/(1-\hat\gamma)^2$.** Tabular, $X=I$: the common error falls at the rate
# $\eta c_v/(1-\hat\gamma)^2$ against $\eta/n$. For an untrained chain, $Z=0$ and equal values, $v$ is uniform, $c_v=1/n$ (here $d=n$), and the factor is
# $(1-\hat\gamma)^{-2}$ for *every* $n$. The factor does not grow with $n$; at equal values a chain must first come to spend most of its time in few states before $n$ enters. And a common step size is not a fair race: for a large
# $\hat\gamma$ it is the implicit model that becomes unstable first, as $\lVert P\rVert$ grows in the same way.
#
# **Each at its own best step, for one step.** Let a model's step move $\beta$ by $-\eta Ph_B$ with a fixed $P$, and
# choose $\eta$ to make the expected loss after it least.
#
# :::{prf:proposition} The fair one-step race
# :label: implicit-beyond-fair-race
# Let $X=I$. The best expected relative decrease of the loss in one step is
#
# $$
# \begin{aligned}
# \rho(P)&=\max_\eta\frac{-\mathbb E[\Delta\mathcal L]}{\mathcal L}\\
# &=\cos^2\angle(h,Ph)\;\frac{\lVert\mathbb E\,Ph_B\rVert^2}{\mathbb E\lVert Ph_B\rVert^2} .
# \end{aligned}
# $$
#
# For the explicit model it is $b/n$. For the implicit one at $Z=0$ and $\beta$ constant it depends on the residual only through
# $\nu=\frac1n\sum_i(r_i/\bar r-1)^2$, the squared relative spread of its entries around their mean $\bar r\neq0$, and as $\hat\gamma\to1$ it tends to
#
# $$\rho=\frac1{(1+\nu)\bigl(1+\frac{n-b}{n-1}\,\frac\nu b\bigr)} .$$
# :::
#
# *The key step.* The expected loss is a parabola in $\eta$; its best value is the square of the slope over the curvature.
#
# :::{dropdown} Proof
# 1. $\mathbb E[\Delta\mathcal L]=-\frac\eta nh^\top Ph+\frac{\eta^2}2\mathbb E\lVert Ph_B\rVert^2$. The least value is
#    $-(h^\top Ph)^2/(2n^2\,\mathbb E\lVert Ph_B\rVert^2)$. Divide by $\mathcal L=\frac12\lVert h\rVert^2$ and insert
#    $\mathbb E\,Ph_B=Ph/n$.
# 2. *Explicit.* The cosine is one, and the ratio of moments is $n/b$ by {prf:ref}`implicit-cor-2` below.
# 3. *Implicit.* At $Z=0$, $S_Z=\mathbf 1\mathbf 1^\top/n$ and $D=0$, so $P=I+\chi\mathbf 1\mathbf 1^\top/n$ with
#    $\chi=(1-\hat\gamma)^{-2}-1$. With $\bar r=1$ (scale does not matter): $h^\top Ph=n(1+\nu+\chi)$, $\lVert Ph\rVert^2=n((1+\chi)^2+\nu)$, and
#    $\lVert Pe_i\rVert^2=1+(2\chi+\chi^2)/n$ for every unit vector $e_i$. All depends on $\nu$ alone. Let $\chi\to\infty$: the squared cosine becomes $1/(1+\nu)$, and the ratio of
#    moments $1+\frac{n-b}{n-1}\frac\nu b$ by {prf:ref}`implicit-thm-5`. $\square$
# :::
#
# With a flat residual, $\nu=0$, the implicit model removes all of the error in one step, and the explicit one $b/n$ of it: *here* is the factor of order $n$.
# For one sample a step, $b=1$, it is $n$ itself. A row below the check puts the two readings side by side: it fits $p$ in gain $\sim n^p$ to each, and asks whether
# the interval that spans both has $p=1$ in it and $p=0$ not. It has both: one reading holds and the other does not, and the row says *partly*. With an internal discount of zero, the control, the implicit model is the explicit one, and
# gains nothing at any $n$ in either reading. The check runs the race with the matrices, at $\hat\gamma=0.999$, and compares it with $b/n$ and with
# $\rho$; by step 3 the relative difference is at most $2\nu(1-\hat\gamma)^2+n(1-\hat\gamma)^4$, to first order, which is below $2\cdot10^{-5}$ there.
# At $\beta=0$, $Z=0$ the logits do not move at all, by {eq}`eq-implicit-values-gradient`, so the race is exact for the real model.
#
# :::{admonition} Predict first
# :class: tip
# Ten states, batches of five, and a residual whose entries spread three times as much as their mean. Who wins?
# :::


# %%
def race(P, shares, b):  # shares: the vectors r_i x_i, (..., n, d)
    h, moved = shares.sum(-2), shares @ P  # P is symmetric
    n = shares.shape[-2]
    progress = (h * moved.sum(-2) / n).sum(-1) ** 2  # slope in eta, squared
    return progress / pair_sum(moved, n, b) / h.square().sum(-1)


def fresh_chain(n, discount):  # no logits yet, all values zero
    u, Z = torch.zeros(n, **like), torch.zeros(n, n, **like)
    return fixed_points.weight_space_preconditioner(Z, u, discount)


many = [10, 30, 100, 300]


def common_gain(n, discount=0.9):  # rate along 1 at a common step size, implicit over explicit
    ones = torch.ones(n, **like)
    return ones @ fresh_chain(n, discount).matrix @ ones / n


# %%
def spread_residual(n, spread):  # mean one, standard deviation exactly as asked
    z = torch.randn(n, generator=run.generator(f"residual {n}"), dtype=run.dtype)
    z = (z - z.mean()) / (z - z.mean()).square().mean().sqrt()
    return 1 + torch.as_tensor(spread, **like)[..., None] * z


def implicit_progress(n, b, spread, discount=0.9):
    return race(fresh_chain(n, discount).matrix, torch.diag_embed(spread_residual(n, spread)), b)


sizes = run.pick(smoke=[10, 100], book=[10, 100, 400], paper=[10, 100, 400])
race_spreads = torch.tensor([0.0, 0.1, 1.0, 3.0], **like)


def limit_progress(nu, n, b):  # ρ
    return 1 / ((1 + nu) * (1 + (n - b) / (n - 1) * nu / b))


def race_gaps(spreads, nu):  # of both models from the formulas, relative
    gaps = []
    for k in sizes:
        for batch in (1, 5):
            won = implicit_progress(k, batch, spreads, 0.999) / limit_progress(nu, k, batch)
            plain = race(torch.eye(k, **like), torch.diag_embed(spread_residual(k, spreads)), batch)
            gaps += [won - 1, plain * k / batch - 1]
    return gaps


# %% tags=["hide-input"]
ledger.check(
    "implicit:beyond-fair-race",
    "Each model at its best step: explicit b/n, implicit ρ, which is 1 for a flat residual",
    measured=torch.stack(race_gaps(race_spreads, race_spreads**2)).abs(),
    criterion=at_most("|progress/formula − 1|", 2e-5),
    control=control(
        "ρ = 1 for a residual that spreads three times its mean",
        torch.stack(race_gaps(race_spreads[3:], torch.zeros(1, **like))[::2]).abs(),
    ),
    expected="holds",
    show="card",
)


# %%
def common_step(rate):  # advantage along 1 at one step size, over a claimed one
    rates = []
    for k in sizes:
        ones = torch.ones(k, **like)
        rates.append((ones @ fresh_chain(k, 0.9).matrix @ ones) / k / rate(k))
    return torch.stack(rates) - 1


def tuned_gain(
    n, discount=0.999
):  # one sample a step, flat residual, each at its own best step: progress over 1/n
    return n * race(fresh_chain(n, discount).matrix, torch.eye(n, **like), 1)


# the interval of p in gain ~ n^p that spans all readings; the estimate is that of the first
def both_readings(*gains):
    slopes = [statistics.log_log_slope(many, gain) for gain in gains]
    low, high = min(slope.low for slope in slopes), max(slope.high for slope in slopes)
    return replace(slopes[0], low=low, high=high)


common_gains = torch.stack([common_gain(k) for k in many])
tuned_gains = torch.stack([tuned_gain(k) for k in many])
undiscounted = [torch.stack([gain(k, discount=0.0) for k in many]) for gain in (common_gain, tuned_gain)]
assert torch.allclose(torch.stack(undiscounted), torch.ones(2, len(many), **like))  # the explicit model

# %% tags=["hide-input"]
ledger.check(
    "implicit:beyond-common-step",
    "At a common step an untrained chain gains (1 − γ̂)⁻² at every n, not n times that",
    measured=common_step(lambda k: 0.1**-2),
    criterion=identity("gain along 1/(1 − γ̂)⁻² − 1", condition=200),
    control=control("n(1 − γ̂)⁻²", common_step(lambda k: k * 0.1**-2)),
    expected="holds",
)
ledger.check(
    "implicit:claim-n-fold-speed",
    "A flat error falls n times faster than in the explicit model, at a common and at each one's best step",
    measured=both_readings(common_gains, tuned_gains),
    criterion=exponent(
        "p of the gain ~ n^p, spanning both readings, untrained chain", 1.0, neighbours=(0.0, 2.0)
    ),
    control=control("an internal discount of zero, in both readings", both_readings(*undiscounted)),
    expected="partly",
    claim="experiment",
    reason="It depends on the reading. At a common step an untrained chain gains (1 − γ̂)⁻² at every n, p = 0, since c_v = 1/n "
    "cancels the factor n. With one sample a step and each model at its own best step the gain is n, p = 1, for one step.",
)

# %% [markdown]
# To be sure that the formula describes the model and not its linearization, the best step is taken for real: all
# batches, the update of $u$ *and* $Z$, the loss afterwards.

# %%
small_n, small_b = 10, 5
small = all_batches(small_n, small_b)
spreads = torch.tensor([0.03, 0.1, 0.3, 1.0, 3.0], **like)
drawn = spread_residual(small_n, spreads)  # (spreads, n)
pulls = torch.zeros(len(spreads), len(small), small_n, **like)
pulls.scatter_(-1, small.expand(len(spreads), -1, -1), 1.0)
pulls = pulls * drawn[:, None] / small_b  # h_B for every batch
start_u, start_Z = torch.zeros_like(pulls), torch.zeros(*pulls.shape, small_n, **like)
latent_u, latent_Z = pull_back(start_u, start_Z, pulls, 0.9)
P_small = fresh_chain(small_n, 0.9).matrix
slopes = (drawn * (drawn @ P_small)).sum(-1) / small_n
best = slopes / pair_sum(torch.diag_embed(drawn) @ P_small, small_n, small_b)
after = fixed_points.reward_chain_value(
    start_u - best[:, None, None] * latent_u, start_Z - best[:, None, None, None] * latent_Z, 0.9
)
enumerated = 1 - (drawn[:, None] + after).square().sum(-1).mean(1) / drawn.square().sum(-1)
nus = spreads**2


def progress_formula(nu, n, b, chi, replacement=False):  # the proof's step 3, before the limit
    own = (1 + (2 * chi + chi**2) / n) * (1 + nu)  # mean of the squared |P e_i r_i|
    common = (1 + chi) ** 2 + nu  # |P h|^2 / n
    moment = (own * (n - b) + common * (b - 1)) / ((n - 1) * b)
    if replacement:
        moment = own / b + (1 - 1 / b) * common / n
    return (1 + nu + chi) ** 2 / (n * (1 + nu) * moment)


# %% tags=["hide-input"]
ledger.check(
    "implicit:beyond-race-formula",
    "The best step of the real model, over all batches, makes the progress of the formula",
    measured=enumerated / progress_formula(nus, small_n, small_b, 99.0) - 1,
    criterion=identity("progress enumerated/formula − 1", condition=1e4),
    control=control(
        "batches drawn with replacement",
        enumerated / progress_formula(nus, small_n, small_b, 99.0, replacement=True) - 1,
    ),
    expected="holds",
)

# %%
counts = torch.logspace(4, 10, 7, **like)
low, high = torch.full_like(counts, 1e-3), torch.full_like(counts, 1e4)
for _ in range(60):  # bisection for the spread of a draw, in the formula just checked
    middle = (low * high).sqrt()
    ahead = limit_progress(middle**2, counts, 5) > 5 / counts
    low, high = torch.where(ahead, middle, low), torch.where(ahead, high, middle)


def from_fourth_root(spread):
    return statistics.log_log_slope(counts, (spread / counts**0.25 - 1).abs())


# %% tags=["hide-input"]
ledger.check(
    "implicit:beyond-race-crossover",
    "The implicit model wins until the spread √ν is n^{1/4}, up to a factor 1 + O(n^{−1/2})",
    measured=from_fourth_root(low),
    criterion=exponent("p of |spread at a draw/n^{1/4} − 1| ~ n^p", -0.5, neighbours=(-1.0, 0.0)),
    control=control("without the batch factor", lambda: from_fourth_root((counts / 5 - 1).sqrt())),
    expected="holds",
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Who wins depends on one number, the spread of the residual.** Share of the loss that one step removes in expectation, each model at its best step size, batches of five, untrained chain, discount 0.9. Top: a hundred states; the implicit model wins from a flat residual up to a spread of about three. Bottom: ten states; dots are the real model over all batches. What breaks it: beyond the crossing the explicit model (dashed) wins, for ten states already near a spread of one.", "name": "fig-implicit-values-race"}, "image": {"alt": "Two panels. In each a curve starts near one for small spreads and falls steeply, crossing a flat dashed line: far to the right in the upper panel, near one in the lower, where dots lie on the curve."}}
fig, axes = figures.subplots(2, 1, size=(5.8, 6.4), sharex=True)
dial = torch.logspace(-2, 1.3, 80, **like)
for ax, states in zip(axes, (100, 10), strict=True):
    ax.plot(dial, progress_formula(dial**2, states, 5, 99.0), marker="", label="implicit")
    role = "what breaks it"
    figures.line_control(ax, dial, torch.full_like(dial, 5 / states), label="explicit wins below", role=role)
    ax.set(xscale="log", ylabel="share of the loss", title=f"{states} states", ylim=(0, 1.05))
axes[1].plot(spreads, enumerated, "o", label="all batches, real step")
axes[1].set(xlabel="relative spread $\\sqrt{\\nu}$ of the residual")
for ax in axes:
    ax.legend(fontsize=8)
plt.show()

# %% tags=["hide-input"]
figures.numbers(
    run,
    "fig-implicit-values-race",
    {
        "spread": dial,
        "implicit_100": progress_formula(dial**2, 100, 5, 99.0),
        "implicit_10": progress_formula(dial**2, 10, 5, 99.0),
    },
)

# %% [markdown]
# :::{dropdown} Answer
# The explicit model, by far: it removes half of the loss, whatever the residual. The implicit one spends its step on
# the common part, which is a tenth of the squared error here, and pays for it with noise.
# :::
#
# **The crossing.** Set the limit equal to $b/n$: $(1+\nu)(1+\frac{n-b}{n-1}\frac\nu b)=n/b$. For many states the solution is $\nu\approx\sqrt n$, so the implicit model
# wins as long as the spread $\sqrt\nu$ is below about $n^{1/4}$. For a hundred states it is nearly three times the mean; for ten states and
# batches of five it is hardly one.
#
# So the source's reading is right, and conditional: *one* step, a residual nearly constant, the step size tuned. After that
# step the common part is gone, what remains has mean near zero, and the advantage is gone with it. If the residuals sum to zero from the start, then $h^\parallel=0$ (here $X=I$ and $h=r$), and there is nothing to amplify: then the tuned step has to be small because of $\lVert P\rVert$, and all other directions become slow.
#
# Two more sentences of the source belong here. **A larger $\hat\gamma$ accentuates the effect**: at fixed $\beta$, $Z$ and
# $\eta$ the common rate grows like $(1-\hat\gamma)^{-2}$. At the largest stable step, two over the largest eigenvalue of $P$, it does not grow,
# since that step falls as $(1-\hat\gamma)^2$. **Residuals of equal sign and size favour the implicit model.** As $\hat\gamma\to1$ all $Px_i$ become
# multiples of $\mathbf 1$, for *every* chain that mixes, and $\rho$ is the limit there too. Residuals within a factor of three of each other have $\nu\le\frac13$
# ({prf:ref}`implicit-cor-3`), so with $n=30$ and $b=3$ the implicit model makes at least $6.8$ times the progress in the limit. In chains with random logits and
# values it makes more than six times at $\hat\gamma=0.99$, and loses if the residuals are shifted to mean zero.


# %%
def common_rate(discount, step=lambda P: 1.0):  # first-order rate along 1 at fixed beta and Z, tabular
    P = fixed_points.weight_space_preconditioner(Z, beta, discount).matrix
    return P.mean(-1).sum(-1) * step(P)


def stable(P):  # the largest stable step of the linearized full-batch model
    return 2 / torch.linalg.eigvalsh(P)[..., -1]


def growth(step=lambda P: 1.0):
    return statistics.log_log_slope(gaps, typical(common_rate(near_one, step)))


# %% tags=["hide-input"]
ledger.check(
    "implicit:claim-larger-eta",
    "At one step size the common rate grows like (1 − γ̂)⁻²",
    measured=growth(),
    criterion=exponent("p of the common rate ~ (1 − γ̂)^p", -2.0, neighbours=(-3.0, -1.0)),
    control=control("each at its largest stable step", lambda: growth(stable)),
    expected="holds",
    seeds=seeds,
)


# %%
def balanced_problem(seed):
    source = run.generator("balanced", seed=seed)
    draw = torch.rand(30, generator=source, dtype=run.dtype)
    value = torch.randn(30, generator=source, dtype=run.dtype)
    return 1 + 2 * draw, value, torch.randn(30, 30, generator=source, dtype=run.dtype)


same_sign, values, logits = ensembles.stack_over_seeds(balanced_problem, seeds)
trained = fixed_points.weight_space_preconditioner(logits, values, 0.99).matrix
centred = same_sign - same_sign.mean(-1, keepdim=True)

# %% tags=["hide-input"]
ledger.check(
    "implicit:claim-balanced-residuals",
    "Residuals of one sign within a factor of three: the implicit model makes more progress than the explicit one",
    measured=race(trained, torch.diag_embed(same_sign), 3) / (3 / 30),
    criterion=at_least("implicit progress/explicit progress", 1.0),
    control=control(
        "the same residuals shifted to mean zero", race(trained, torch.diag_embed(centred), 3) * 10
    ),
    expected="reproduced",
    claim="experiment",
    seeds=seeds,
)

# %% [markdown]
# ## How noisy is a step?
#
# The race contained a ratio of moments. By itself it says how much of a step is signal: one for a step without
# noise, large for a step that is mostly noise. Its form is that of any mean of a sample.
#
# :::{prf:theorem} Second moment over squared mean
# :label: implicit-thm-5
# A batch of $b$ out of $n$ moves the weights by $-\eta$ times the mean of vectors $V_i$, $i\in B$. If $\sum_iV_i\ne0$,
#
# $$
# \begin{aligned}
# \frac{\mathbb E\lVert\Delta\beta\rVert^2}{\lVert\mathbb E\Delta\beta\rVert^2}&=\frac{n(b-1)}{b(n-1)}+\frac{n(n-b)}{b(n-1)}\,q\\
# &=1+\frac{n-b}{n-1}\,\frac{nq-1}b,\\
# q&=\frac{\sum_i\lVert V_i\rVert^2}{\lVert\sum_iV_i\rVert^2}.
# \end{aligned}
# $$
#
# 1. Explicit: $V_i=r_ix_i$, exactly.
# 2. Implicit, to first order in $\eta$: $V_i=r_iPx_i$; for fixed $(\beta,Z)$ and $\mathbf 1^\top h\ne0$, as $\hat\gamma\to1$,
#    $q=\sum_is_i^2/\bigl(\sum_is_i\bigr)^2+O(1-\hat\gamma)$ with the numbers $s_i=\langle\mathbf 1,r_ix_i\rangle$.
# :::
#
# *The key step.* A sample is in the batch with probability $b/n$, two are with probability $\frac{b(b-1)}{n(n-1)}$. Near $\hat\gamma=1$ all
# $V_i$ are multiples of $\mathbf 1$, and numbers of one sign do not cancel.
#
# :::{dropdown} Proof
# 1. $\mathbb E\lVert\sum_BV_i\rVert^2$ is $\frac bn\sum\lVert V_i\rVert^2$ from $i=j$, plus
#    $\frac{b(b-1)}{n(n-1)}\bigl(\lVert\sum V_i\rVert^2-\sum\lVert V_i\rVert^2\bigr)$ from pairs $i\ne j$. And
#    $\mathbb E\sum_BV_i=\frac bn\sum V_i$. Divide.
# 2. The second form is the first rearranged: $\frac{n(b-1)}{b(n-1)}=1-\frac{n-b}{b(n-1)}$.
# 3. By {eq}`eq-implicit-values-leading` $(1-\hat\gamma)^2V_i=c_v\mathbf 1\langle\mathbf 1,r_ix_i\rangle+O(1-\hat\gamma)$; the factor
#    $c_v^2d$ cancels in $q$, and the denominator does not vanish as $\mathbf 1^\top h\ne0$. $\square$
# :::
#
# The source calls the ratio "variance over squared mean"; the variance itself gives this ratio minus one.

# %%
moved_shares = shares @ far.matrix  # (gaps, seeds, n, d)


def moment_ratio(V, b):  # the theorem's formula
    n = V.shape[-2]
    q = V.square().sum((-2, -1)) / V.sum(-2).square().sum(-1)
    return 1 + (n - b) / (n - 1) * (n * q - 1) / b


def enumerated_ratio(V, batches):  # mean over all batches
    means = V[..., batches, :].mean(-2)
    return means.square().sum(-1).mean(-1) / means.mean(-2).square().sum(-1)


seen = enumerated_ratio(moved_shares, batches)
ones_part = shares.sum(-1, keepdim=True)  # <1, r_i x_i>

# %% tags=["hide-input"]
ledger.check(
    "implicit:thm-5",
    "Implicit: the moment ratio tends to that of the numbers ⟨1, r_i x_i⟩, up to 1 − γ̂",
    measured=statistics.log_log_slope(gaps, typical((seen - moment_ratio(ones_part, b)).abs())),
    criterion=exponent("p of |ratio − limit| ~ (1 − γ̂)^p", 1.0, neighbours=(0.0, 2.0)),
    control=control(
        "the explicit ratio as the limit",
        lambda: statistics.log_log_slope(gaps, typical((seen - moment_ratio(shares, b)).abs())),
    ),
    expected="holds",
    seeds=seeds,
    show="card",
)


# %%
def with_replacement(V, b):
    n = V.shape[-2]
    q = V.square().sum((-2, -1)) / V.sum(-2).square().sum(-1)
    return 1 + (n * q - 1) / b


both = torch.cat([moved_shares, shares[None]])  # implicit at every discount, and explicit

# %% tags=["hide-input"]
ledger.check(
    "implicit:beyond-exact-ratio",
    "Explicit, and implicit at every discount: the ratio is the formula with V_i = r_i P x_i",
    measured=enumerated_ratio(both, batches) / moment_ratio(both, b) - 1,
    criterion=identity("ratio over all batches/formula − 1", condition=10),
    control=control(
        "sampling with replacement", enumerated_ratio(both, batches) / with_replacement(both, b) - 1
    ),
    expected="holds",
    seeds=seeds,
)

# %% [markdown]
# :::{prf:corollary} Explicit, tabular
# :label: implicit-cor-2
# If the features are one-hot and every state appears exactly once (the source does not say this; without it the ratio depends on the residual), the explicit ratio is $n/b$, whatever the residual.
# :::
#
# :::{dropdown} Proof
# $V_i=r_ie_i$ are orthogonal, so $q=1$, and $1+\frac{(n-b)(n-1)}{(n-1)\,b}=\frac nb$. $\square$
# :::
#
# Once each: with repeated states the ratio in general differs from $n/b$. Trajectories repeat states, and so do the data of the next chapter.
#
# :::{prf:corollary} Implicit, tabular, residuals of one sign
# :label: implicit-cor-3
# Let each state appear once and $0<r_{\min}\le r_i\le r_{\max}$ with $\kappa=r_{\max}/r_{\min}$. As $\hat\gamma\to1$ the implicit ratio is at most, up to $O(1-\hat\gamma)$,
#
# $$1+\frac{(\kappa-1)^2}{4\,\kappa\,b}\;\le\;1+\frac{\kappa^2}b .$$
# :::
#
# *The key step.* The ratio minus one is $\frac{n-b}{(n-1)b}$ times the squared relative spread $\nu$ of the residual: a spread is bounded by the range.
#
# :::{dropdown} Proof
# 1. With $V_i\to r_i\mathbf 1$, $nq-1=\nu$.
# 2. Sum $(r_{\max}-r_i)(r_i-r_{\min})\ge0$ over $i$ and divide by $n$: with the mean $\bar r$ and $a=r_{\min}$,
#    $\frac1n\sum r_i^2\le(1+\kappa)a\bar r-\kappa a^2$.
# 3. Divide by $\bar r^2$ and put $z=a/\bar r$: $1+\nu\le(1+\kappa)z-\kappa z^2\le(1+\kappa)^2/4\kappa$. Hence
#    $\nu\le(\kappa-1)^2/4\kappa\le\kappa^2$, the last because $\kappa\ge1$. $\square$
# :::
#
# The right-hand bound is the source's, with its constant made explicit. The left one cannot be improved uniformly in $n$: if one residual in
# $\kappa+1$ is $\kappa$ and the others are one, only the factor $\frac{n-b}{n-1}$ is missing. **A balanced residual makes the noise independent of $n$**, where the explicit model has $n/b$.


# %%
def one_hot_ratio(r, b, P=None):
    V = torch.diag_embed(r)
    return moment_ratio(V if P is None else V @ P, b)


draws = run.pick(smoke=200, book=2000, paper=20000)
source = run.generator("ratios")
spans = torch.exp(3 * torch.rand(draws, 1, generator=source, dtype=run.dtype))
r = 1 + (spans - 1) * torch.rand(draws, 20, generator=source, dtype=run.dtype)
kappa = r.amax(-1) / r.amin(-1)
limit_ratio = moment_ratio(r[..., None], 4)
mixed = torch.ones(20, **like)
mixed[:9] = -1.0


def spread_bounds(kappa, ratio, b):  # both inequalities of the corollary, right side minus left
    sharp = 1 + (kappa - 1) ** 2 / (4 * kappa * b)
    return torch.stack([sharp - ratio, 1 + kappa**2 / b - sharp])


# %% tags=["hide-input"]
ledger.check(
    "implicit:cor-3",
    "Residuals of one sign: ratio ≤ 1 + (κ − 1)²/(4κb) ≤ 1 + κ²/b in the limit",
    measured=spread_bounds(kappa, limit_ratio, 4),
    criterion=inequality("right side − left side"),
    control=control(
        "residuals of size one and mixed signs",
        spread_bounds(torch.ones(()), moment_ratio(mixed[:, None], 4), 4)[0],
    ),
    expected="holds",
)


# %%
def two_valued(n, kappa):  # one in kappa + 1 residuals is kappa, the others are one
    return torch.cat([torch.full((n // (kappa + 1),), float(kappa)), torch.ones(n * kappa // (kappa + 1))])


def reached_bound(factor):  # excess of the worst case over (n-b)/(n-1) (kappa-1)^2/(factor kappa b), relative
    excess = [moment_ratio(two_valued(60, k).to(run.dtype)[:, None], 4) - 1 for k in (2, 3, 4)]
    bounds = [56 / 59 * (k - 1) ** 2 / (factor * k * 4) for k in (2, 3, 4)]
    return torch.stack(excess) / torch.tensor(bounds, **like) - 1


# %% tags=["hide-input"]
ledger.check(
    "implicit:beyond-sharp-spread",
    "Two values reach the sharper bound, up to the factor (n − b)/(n − 1)",
    measured=reached_bound(4),
    criterion=identity("(ratio − 1)/((n − b)(κ − 1)²/(4κb(n − 1))) − 1", condition=100),
    control=control("5 in the place of 4", reached_bound(5)),
    expected="holds",
)

# %%
once = torch.randn(6, 12, generator=source, dtype=run.dtype)
twice = (
    torch.diag_embed(torch.ones(6, **like)).repeat(2, 1)[None]
    * (1 + once[:, :6].abs()).repeat(1, 2)[..., None]
)

# %% tags=["hide-input"]
ledger.check(
    "implicit:cor-2",
    "Explicit, each state once (a hypothesis that we add: repeated states break it): the ratio is n/b",
    measured=enumerated_ratio(torch.diag_embed(once), all_batches(12, 3)) / 4 - 1,
    criterion=identity("ratio/(n/b) − 1", condition=10),
    control=control("six states, each twice", enumerated_ratio(twice, all_batches(12, 3)) / 4 - 1),
    expected="holds",
)

# %%
lengths = run.pick(smoke=[12, 30], book=[12, 30, 99], paper=[12, 99, 399])
two_to_one = [1 + torch.rand(k, generator=source, dtype=run.dtype) for k in lengths]
two_to_one += [two_valued(k, 2).to(run.dtype) for k in lengths]

# %% tags=["hide-input"]
ledger.check(
    "implicit:claim-variance-advantage",
    "Residuals within a factor of two: one bound on the implicit ratio for all n",
    measured=torch.stack([one_hot_ratio(r, 2, fresh_chain(len(r), 0.99).matrix) for r in two_to_one]),
    criterion=at_most("ratio for b = κ = 2", 1 + 1 / 16, bound_symbols="1 + (κ − 1)²/(4κb)"),
    control=control("the explicit ratio", torch.stack([one_hot_ratio(r, 2) for r in two_to_one])),
    expected="holds",
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Balanced residuals make quiet steps.** Second moment over squared mean of one update for twelve states, by enumeration of all batches of each size. The explicit model has $n/b$ whatever the residual; the implicit one (discount 0.99, untrained chain) stays near one if the residuals lie within a factor of two. What breaks it (dashed): residuals of equal size and mixed signs.", "name": "fig-implicit-values-ratio"}, "image": {"alt": "Three curves against batch size on a logarithmic axis. The explicit one falls from twelve to one, the implicit one lies just above one throughout, and a dashed one starts above both and falls to one only for the full batch."}}
twelve = torch.linspace(1, 2, 12, **like)
signs = torch.ones(12, **like)
signs[:5] = -1.0
P_twelve = fresh_chain(12, 0.99).matrix
batch_sizes = list(range(1, 13))


def by_size(V):
    return [enumerated_ratio(V, all_batches(12, size)).item() for size in batch_sizes]


fig, ax = figures.subplots(size=(6.0, 3.9))
ax.plot(batch_sizes, by_size(torch.diag_embed(twelve)), label="explicit")
ax.plot(batch_sizes, by_size(torch.diag_embed(twelve) @ P_twelve), label="implicit")
figures.line_control(
    ax, batch_sizes, by_size(torch.diag_embed(signs) @ P_twelve), label="mixed signs, implicit"
)
ax.set(yscale="log", xlabel="batch size $b$", ylabel="second moment / squared mean")
ax.legend(fontsize=8)
plt.show()

# %% [markdown]
# ## Where the data are silent
#
# {prf:ref}`implicit-cor-1` says that the loss reaches its minimum, not *which* minimizer is found if there are many. Let half of twelve states never be
# visited, and let all true values be one. The explicit model leaves the unvisited values at their start, zero, for ever. The implicit model
# moves all states along $\mathbf 1$: at the start the unvisited ones follow at the speed
# $a/(1+a)$ of the others, $a=\frac12\bigl((1-\hat\gamma)^{-2}-1\bigr)$, which is $0.98$ for $\hat\gamma=0.9$. (At the start $P=I+\frac{2a}{12}\mathbf 1\mathbf 1^\top$, and six of the twelve entries of $h$ are $-1$, the others zero: the visited values move by $1+a$, the others by $a$.) They end almost
# where they should, although no datum mentions them (the check asks for errors below a tenth). This is not speed
# but *generalization*. How much of the gain in experiments it explains is a question of
# {chapter}`Value learning <parameterization/value_learning>`.

# %%
visited = torch.eye(12, **like)[:6]
targets = torch.ones(6, **like)


def filled_in(discount):  # all twelve values at the end of gradient flow from zero
    silent, start = latent_gradient(visited, targets, discount), torch.zeros(12 + 144, **like)
    ended = flows.gradient_flow(
        lambda theta, t: -silent(theta, 0), start, [0.0, 20.0], rtol=1e-8, atol=1e-10, method="LSODA"
    )
    return fixed_points.reward_chain_value(*unpack(ended.values[-1], 12), discount)


learned = filled_in(0.9)
short_sighted = torch.stack([filled_in(0.0), filled_in(0.3)])  # discount zero is the explicit model

# %% tags=["hide-input"]
ledger.check(
    "implicit:beyond-unvisited",
    "All values one, half of the states unvisited: the implicit model fills them in",
    measured=(learned - 1).abs(),
    criterion=at_most("|β_i − 1|, all states", 0.1),
    control=control(
        "internal discounts 0 (the explicit model) and .3, unvisited states", (short_sighted - 1).abs()[:, 6:]
    ),
    expected="reproduced",
    rtol=1e-4,
    claim="experiment",
)

# %% [markdown]
# ## Checks behind this page
#
# Definitions and formulas used on the way, each checked as one row.

# %% tags=["hide-input"]
T = Z[0].softmax(-1)
R = beta[0]
long_run = torch.linalg.solve(torch.eye(d, **like) - 0.9 * T, R)
powers = torch.stack([torch.linalg.matrix_power(T, k) @ R for k in range(400)])


def return_gap(first):  # discounted sum of expected rewards, the first one discounted `first` times
    return ((0.9 ** torch.arange(first, 400 + first, **like)) @ powers - long_run) / long_run.abs().max()


ledger.check(
    "implicit:eq-1",
    "The sum of discounted expected rewards solves the one-step recursion",
    measured=return_gap(0),
    criterion=identity("Σγ^k T^k R − (I − γT)⁻¹R, relative", condition=20),
    control=control("the first reward already discounted", return_gap(1).abs().max()),
    expected="holds",
)


def reached(discount, mistaken=0.0):
    u = latent_rewards(beta, Z, discount + mistaken)
    return (fixed_points.reward_chain_value(u, Z, discount) - beta).abs().amax(-1) / beta.abs().amax(-1)


ledger.check(
    "implicit:claim-onto-reparameterization",
    "u = Aβ reaches any weights β with any logits",
    measured=reached(0.9),
    criterion=identity("‖A⁻¹(Aβ) − β‖/‖β‖", condition=20),
    control=control("u for another discount", reached(0.9, 0.05)),
    expected="holds",
    seeds=seeds,
)
exact = fixed_points.reward_chain_value(u, Z, discount)
swept = torch.stack([fixed_points.unrolled_value(u, Z, discount, K, start=exact + 1) for K in range(1, 21)])
decay = discount ** torch.arange(1, 21, **like)[:, None, None]
ledger.check(
    "implicit:eq-2",
    "A sweep shrinks a common error of the values by exactly γ̂",
    measured=(swept - exact) / decay - 1,
    criterion=identity("(β_K − β)/γ̂^K − 1, from β_0 = β + 1", condition=1e3, size=10),
    control=control("one sweep more", (swept - exact) / (discount * decay) - 1),
    expected="holds",
    seeds=seeds,
)

# %% [markdown]
# In the next rows $G_k=\mathrm{diag}(s)-ss^\top$ is the Jacobian of row $k$ of the softmax, with $s$ the row $k$ of $S_Z$.

# %% tags=["hide-input"]
far_off = fixed_points.reward_chain_value(u, Z, 0.95)


def solver_gradients(h, transpose=True):  # autograd through the linear solve against one solve of ours
    one, two = u.clone().requires_grad_(), Z.clone().requires_grad_()
    reference = torch.autograd.grad(by_solver(one, two, 0.95), (one, two), h)
    A = torch.eye(d, **like) - 0.95 * Z.softmax(-1)
    w = torch.linalg.solve(A.mT if transpose else A, h[..., None])
    pull = 0.95 * w * Z.softmax(-1) * (far_off[:, None] - Z.softmax(-1) @ far_off[..., None])
    return torch.stack(
        [
            (w[..., 0] - reference[0]).norm() / reference[0].norm(),
            (pull - reference[1]).norm() / reference[1].norm(),
        ]
    )


ledger.check(
    "implicit:claim-implicit-differentiation",
    "One transposed solve gives the gradients in u and Z that autograd finds through the solver",
    measured=solver_gradients(h),
    criterion=identity("relative difference of the gradients", condition=40),
    control=control("A in the place of its transpose", solver_gradients(h, transpose=False)),
    expected="holds",
    seeds=seeds,
)
G = jacrev(lambda z: z.softmax(-1))(Z[0, 0])  # d S_kj / d Z_kl
s = Z[0, 0].softmax(-1)
direction = torch.randn(d, d, generator=run.generator("direction"), dtype=run.dtype)


def transposed_inverse(Z):
    return torch.linalg.inv(torch.eye(d, **like) - discount * Z.softmax(-1))


_, inverse_moves = jvp(transposed_inverse, (Z[0],), (direction,))
softmax_moves = S[0] * (direction - (S[0] * direction).sum(-1, keepdim=True))
inverse = P.inverse[0]


def formula_gaps(factor):
    jacobian = torch.diag(s) - torch.outer(s, s) * factor
    moved = factor * discount * inverse @ softmax_moves @ inverse
    spread = torch.stack([(G @ beta[0]).square().sum() - P.spread[0, 0] * factor])
    return torch.stack([(G - jacobian).abs().max(), (inverse_moves - moved).abs().max(), spread.abs().max()])


ledger.check(
    "implicit:claim-gradient-formulas",
    "Derivative of the softmax, of A⁻¹, and D_kk = ‖G_k β‖², against automatic differentiation",
    measured=formula_gaps(1.0),
    criterion=identity("largest difference", condition=100, size=10),
    control=control("one more factor γ̂", formula_gaps(discount)),
    expected="holds",
)

# %% [markdown]
# Latent rewards and logits may also be computed from the input, $(u,Z)=G_\psi(x)$, by a network with parameters $\psi$. Then every input has its own chain, and the
# estimate is $\langle x,\beta\rangle$ with the solution $\beta$ of that chain. By the chain rule its gradient in $\psi$ is the transposed Jacobian of $G_\psi$ times the
# gradient {eq}`eq-implicit-values-gradient` in $u$ and $Z$.

# %% tags=["hide-input"]
net = torch.randn(3, 3 * (d + d * d), generator=run.generator("net"), dtype=run.dtype) / 3
seen_input = torch.randn(3, generator=run.generator("input"), dtype=run.dtype)


def latent_model(net):  # rewards and logits that depend on the input
    u, Z = unpack(torch.tanh(seen_input @ net).unflatten(0, (3, d + d * d)).mean(0), d)
    return u, Z


def estimate(net):
    return X[0, 0] @ fixed_points.reward_chain_value(*latent_model(net), 0.9)


chain_rule = jacrev(lambda net: pack(*latent_model(net)))(net)  # (d + d^2, 3, ...)
latent = pack(*pull_back(*latent_model(net), X[0, 0], 0.9))
slope_net = torch.func.grad(estimate)(net)
ledger.check(
    "implicit:claim-state-dependent-model",
    "Rewards and logits computed from the input: the gradient is theirs times the Jacobian of that network",
    measured=torch.einsum("k,kij->ij", latent, chain_rule) - slope_net,
    criterion=identity("difference of the gradients", condition=40, size=10),
    control=control(
        "the rewards' part alone",
        (torch.einsum("k,kij->ij", latent[:d], chain_rule[:d]) - slope_net).abs().max(),
    ),
    expected="holds",
)

# %% tags=["hide-input"]
pairs = run.pick(smoke=200, book=2000, paper=20000)
source = run.generator("midpoints")
ends = torch.randn(2, pairs, d + d * d, generator=source, dtype=run.dtype)


def excess_at_midpoint(values):  # loss at the middle minus mean of the ends, where positive
    losses = [0.5 * residual(value, X[0], y[0]).square().sum(-1) for value in values]
    return losses[2] - (losses[0] + losses[1]) / 2


implicit_ends = [fixed_points.reward_chain_value(*unpack(e, d), 0.9) for e in (*ends, ends.mean(0))]
explicit_ends = [e[:, :d] for e in (*ends, ends.mean(0))]
ledger.check(
    "implicit:claim-nonconvex",
    "In (u, Z) some midpoints have more loss than the mean of the ends",
    measured=excess_at_midpoint(implicit_ends).max(),
    criterion=at_least("largest excess of the midpoint", 1e-6),
    control=control("the loss in β", excess_at_midpoint(explicit_ends).max().clamp_min(0)),
    expected="holds",
)
wild = torch.randn(pairs, d, d, generator=source, dtype=run.dtype)


def slope_ratio(S, power=0.5):  # least |gradient in u| (1 + discount d^power) / |gradient in beta|
    k = S.shape[-1]
    A = torch.eye(k, **like) - 0.9 * S
    worst = torch.linalg.svd(A).Vh[..., 0, :]  # the gradient in beta that A^-T shortens most
    return torch.linalg.solve(A.mT, worst[..., None])[..., 0].norm(dim=-1) * (1 + 0.9 * k**power)


one_sink = [torch.eye(k, **like)[:1].expand(k, k) for k in (25, 100)]  # all states lead to the first


def sink_ratio(power):
    return torch.stack([slope_ratio(S, power) for S in one_sink]) - 1


ledger.check(
    "implicit:claim-stationary-global",
    "The gradient in the rewards is at least 1/(1 + γ̂√d) of the gradient in the weights",
    measured=torch.cat([slope_ratio((5 * wild).softmax(-1)) - 1, sink_ratio(0.5)]),
    criterion=inequality("(1 + γ̂√d)‖∇_u L‖/‖∇_β L‖ − 1"),
    control=control("d^{1/4} in the place of √d, where all states lead to one", sink_ratio(0.25)),
    expected="holds",
)

# %% tags=["hide-input"]
table = torch.randn(n, generator=run.generator("table"), dtype=run.dtype)
masks = torch.zeros(len(batches), n, **like).scatter_(-1, batches, 1.0)


def mean_after(scale, eta=0.4):  # mean over all batches of r after a tabular explicit step
    return (table - eta / b * masks * table).mean(0) - (1 - eta / scale) * table


ledger.check(
    "implicit:claim-explicit-rate",
    "Tabular explicit: E r_{k+1} = (1 − η/n) r_k, over all batches",
    measured=mean_after(n),
    criterion=identity("difference of the two sides", size=10),
    control=control("b in the place of n", mean_after(b)),
    expected="holds",
)
wide_X = torch.randn(200, 12, 4, generator=source, dtype=run.dtype)


def dimension_margin(d):  # ‖XXᵀ‖ d − ‖X1‖²
    return torch.linalg.matrix_norm(wide_X, 2) ** 2 * d - wide_X.sum(-1).square().sum(-1)


aligned = torch.ones(12, 4, **like)
ledger.check(
    "implicit:assumption-1",
    "‖X1‖² ≤ d‖XXᵀ‖: the assumption on the features needs d of the order of n",
    measured=dimension_margin(4),
    criterion=inequality("d‖XXᵀ‖ − ‖X1‖²", size=100),
    control=control("3 in the place of d = 4, equal rows", 3 * 48.0 - aligned.sum(-1).square().sum()),
    expected="holds",
)

# %% tags=["hide-input"]
rows = batches[5]
plain_step = beta[0] - 0.1 * X[0, rows].T @ (X[0, rows] @ beta[0] - y[0, rows]) / b


def batch_loss(beta, rows=rows):
    return 0.5 * (X[0, rows] @ beta - y[0, rows]).square().mean()


ledger.check(
    "implicit:alg-explicit-sgd",
    "The explicit batch step is a gradient step on the batch loss",
    measured=plain_step - (beta[0] - 0.1 * torch.func.grad(batch_loss)(beta[0])),
    criterion=identity("difference of the two steps", size=10),
    control=control(
        "the loss of another batch",
        (plain_step - (beta[0] - 0.1 * torch.func.grad(batch_loss)(beta[0], batches[6]))).abs().max(),
    ),
    expected="holds",
)
stepped = pack(*step(u[0], Z[0], X[0, rows], y[0, rows], 0.1, discount))


def latent_step(rows):
    def loss(theta):
        return batch_loss(by_solver(*unpack(theta, d), discount), rows)

    theta = pack(u[0], Z[0])
    return theta - 0.1 * torch.func.grad(loss)(theta)


ledger.check(
    "implicit:alg-implicit-sgd",
    "The implicit batch step is a gradient step on the batch loss in (u, Z)",
    measured=stepped - latent_step(rows),
    criterion=identity("difference of the two steps", condition=20, size=10),
    control=control("the loss of another batch", (stepped - latent_step(batches[6])).abs().max()),
    expected="holds",
)

# %% [markdown]
# :::{prf:assumption} Assumption on the features, in the source
# :label: implicit-assumption-1
# For some constants, $\lVert x_i\rVert=O(1)$, $\lVert XX^\top\rVert=O(1)$, and $\lVert X\mathbf 1\rVert^2$ is at least of the order of $n$.
# :::
#
# As $\lVert X\mathbf 1\rVert^2\le d\,\lVert XX^\top\rVert$, it asks for at least about as many features as samples.
# Every state once, $X=I$, satisfies it. Long trajectories through few states do not.
#
# ## For the practitioner
#
# - **Learn values through a latent chain when most errors have one sign**: values that start at zero while all rewards are positive, a reward that has just been discovered or moved, states that the data never visit. When signs vary (a value estimate that is nearly right already, targets centred to mean zero) the explicit model is as good or better.
# - **Raise $\hat\gamma$ and lower the step together.** The largest stable step falls like $(1-\hat\gamma)^2$; at that step the common error does not fall faster, and all other directions become slower.
# - **Try the simple remedies first**: an explicit model with one more constant feature (a learned bias), or residuals that are centred, also remove the common error ({chapter}`Value learning <parameterization/value_learning>` compares them).
# - **Differentiate the solution by one transposed solve.** If you must iterate, $K$ sweeps lose $\hat\gamma^K$ of the gradient, and a run of sweeps may stop when the last change times $\hat\gamma/(1-\hat\gamma)$ is below the accuracy you need. The dense solve costs of the order of $d^3$ operations and $d^2$ numbers of memory; with sweeps only products with $S_Z$ are needed.
# - **Where it fails**: $\hat\gamma=1$ ($A$ is singular), chains that mix slowly against $1-\hat\gamma$, where several directions are amplified, and residuals that sum to zero.
#
# ## Exercises
#
# :::{exercise} Two states by hand
# :label: ex-implicit-values-hand
# Let $d=2$, $Z=0$, $\beta=(a,-a)$. Compute $D$, $A^{-1}$ and $P$. For which $a$ is the *difference* of the two values
# learned faster than their sum at $\hat\gamma=0.5$?
# :::
#
# :::{solution} ex-implicit-values-hand
# :class: dropdown
# $S_Z\beta=0$ and $D_{kk}=2\cdot\frac14a^2=a^2/2$, so $I+\hat\gamma^2D=(1+\hat\gamma^2a^2/2)I$. $A^{-1}$ has the eigenvalue
# $1/(1-\hat\gamma)$ on $(1,1)$ and $1$ on $(1,-1)$, hence $P$ has $(1+\hat\gamma^2a^2/2)$ times $(1-\hat\gamma)^{-2}$ and $1$. The factor is common to both: for no $a$.
# :::
#
# :::{exercise} Predict the sweeps
# :label: ex-implicit-values-sweeps
# How many sweeps does unrolling need at $\hat\gamma=0.99$ for a gradient in the rewards that is right to one per cent, if one value is fitted?
# :::
#
# :::{solution} ex-implicit-values-sweeps
# :class: dropdown
# $0.99^K\le0.01$, so $K\ge\ln100/(-\ln0.99)=458.2$: 459 sweeps, from whatever start.
# :::
#
# :::{exercise} Change one line
# :label: ex-implicit-values-line
# In the race, replace the untrained chain by one whose states all lead to the first: `Z[:, 0] = 40`. At a common step size, by which factor does
# the rate along $\mathbf 1$ for $h=\mathbf 1$ now exceed the explicit one at $n=10$, $\hat\gamma=0.9$? (Expected: 829; the leading term says 1000.)
# :::
#
# :::{solution-start} ex-implicit-values-line
# :class: dropdown
# :::
#
# $A^{-\top}\mathbf 1=\mathbf 1+90\,e_1$, so $\mathbf 1^\top P\mathbf 1/10=(91^2+9)/10=829$. Now $v=e_1$ and $c_v=1$: the chain
# dwells in one state, and the $n$-fold gain at a common step is real.

# %% tags=["hide-cell"]
sink_Z = torch.zeros(10, 10, **like)
sink_Z[:, 0] = 40.0
sink = fixed_points.weight_space_preconditioner(sink_Z, torch.zeros(10, **like), 0.9).matrix
assert torch.allclose(sink.sum() / 10, torch.tensor(829.0, **like))

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Break a proof
# :label: ex-implicit-values-proof
# Replace the softmax by $S_{kj}=Z_{kj}^2/\sum_lZ_{kl}^2$. Which steps of the proofs of {prf:ref}`implicit-thm-1` and {prf:ref}`implicit-cor-1` survive?
# :::
#
# :::{solution} ex-implicit-values-proof
# :class: dropdown
# The rows are still distributions, so $A$, the bound $\lVert A\rVert\le1+\hat\gamma\sqrt d$ and, since the logits still act row by
# row, $P=A^{-1}(I+\hat\gamma^2D)A^{-\top}$ with another $D\ge0$ survive. What needs a word is existence: $S$ is not defined where
# a row of $Z$ vanishes. But $S$ does not change when a row is scaled, so the gradient is orthogonal to the row, and
# along the flow its norm stays constant. Nothing breaks.
# :::
#
# :::{exercise} Open
# :label: ex-implicit-values-open
# The common part is gone after a few steps. Find a schedule for $\hat\gamma$ (and $\eta$) that keeps the advantage of {numref}`fig-implicit-values-race` for
# later directions. Known: {prf:ref}`implicit-beyond-two-groups` says which directions a chain amplifies, and $Z$ is trained as well; the source leaves the choice of
# $\hat\gamma$ open.
# :::
#
# ## What to remember
#
# 1. Values defined by an equation are differentiated by one transposed linear solve. $K$ unrolled sweeps miss $\hat\gamma^K$ of the gradient, even from the exact start.
# 2. Implicit gradient flow is explicit flow with $P=A^{-1}(I+\hat\gamma^2D)A^{-\top}$, and $P$ is at least $(1+\hat\gamma\sqrt d)^{-2}$.
# 3. Therefore gradient flow in $(u,Z)$ converges to a global minimum from every start, at a rate, along a path of finite length.
# 4. Near $\hat\gamma=1$, $P$ is $c_v(1-\hat\gamma)^{-2}\mathbf 1\mathbf 1^\top$, if the chain mixes: common errors vanish first, with little noise.
# 5. "$n$ times faster" is one step, tuned, on a flat residual. The dial is the spread of the residual, the crossing near $n^{1/4}$.
#
# **Further reading.** {cite}`tamar2016value` is the value iteration network. {cite}`bai2019deep` train through fixed points of whole networks, {cite}`fung2022jfb`
# drop the inverse. {cite}`grimm2020value` ask which models have the right values. {cite}`jacot2018neural` is $JJ^\top$ for wide networks,
# {cite}`karimi2016linear` the PL inequality. {chapter}`Value learning <parameterization/value_learning>` puts this page to the test.
#
# ## The ledger of this chapter

# %% tags=["remove-input"]
ledger.table()
