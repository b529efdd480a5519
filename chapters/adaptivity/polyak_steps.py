# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Polyak steps: loss over squared gradient
#
# You are to fit a logistic regression and do not want to search for a step size. A run knows its loss and its gradient. If it also knows the least value that the loss can have, it can compute a step size from these:
# the *quotient* of the loss above its least value and the squared gradient. This is Polyak's step.
#
# **Can the step size set itself in this way, when each step sees one sample only?** On one condition: a single point must be best for every sample. Then the method, called SPS (*stochastic Polyak step*), converges. **What breaks it**: samples that
# disagree. In the figure two parabolas pull at one number. The steep one has its minimum at $1$, the flat one at $-1$, and at every step a coin (in the code a fixed sequence that behaves like one) decides which of them is used. Their mean, the loss to be minimized, has its minimum at one third, nearer to that of the
# steep one. The quotient of a parabola is large where it is flat. It makes up for the smaller slope, so both parabolas move the number by the same share of the way to their minimum, and the run settles half way between the two minima, however slowly its steps decrease. A method called DecSPS keeps the *smallest* quotient seen so far, and
# settles at the minimizer.
#
# Turn the curvature ratio below the figure. The minimizer moves; the dashed run does not.

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
import itertools
import math
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.optimize import brentq, root
from torch.nn.functional import softplus

from learning_dynamics import data, ensembles, figures, optimizers, results, rules, runs, statistics
from learning_dynamics.adaptivity.finite_sums import LogisticSum, QuadraticSum
from learning_dynamics.experiments.polyak_steps import notebook_comparison as notebook
from learning_dynamics.experiments.polyak_steps import step_size_comparison as comparison
from learning_dynamics.figures import COLORS
from learning_dynamics.ledger import Ledger, confident, control, identity, inequality, ordering

figures.use_style()
run = runs.Run("adaptivity/polyak_steps", scale=SCALE, device=DEVICE, seed=SEED)
ledger = Ledger(run)
like = {"dtype": run.dtype}  # small problems: on the CPU, whatever DEVICE says


# %%
def drawn(theta, k):  # loss and slope at θ of the parabola that is used in step k
    curvature, center = ((2.0, 1.0), (1.0, -1.0))[(0.6180339887498949 * k + 0.5) % 1 >= 0.5]
    return curvature / 2 * (theta - center) ** 2, curvature * (theta - center)


paths = {"SPS": [2.5], "DecSPS": [2.5]}
for name, path in paths.items():
    smallest = math.inf
    for k in range(400):
        loss, slope = drawn(path[-1], k)
        smallest = min(smallest, loss / slope**2)
        quotient = smallest if name == "DecSPS" else loss / slope**2
        path.append(path[-1] - quotient / math.sqrt(k + 1) * slope)

# %% tags=["hide-input", "static-twin"] mystnb={"figure": {"caption": "**The minimizer is at one third; the decreasing Polyak step stays around zero.** Top: two parabolas with curvatures 2 and 1, and their mean. Bottom: 400 steps, the same draws for both runs. DecSPS (blue) settles at the minimizer; what breaks it: SPS with a decreasing factor (dashed) divides the curvature away.", "name": "fig-polyak-steps-tug"}, "image": {"alt": "Top: two parabolas with minima at plus and minus one and their mean with a minimum at one third. Bottom: two noisy paths against the step number, one around the line at one third, a dashed one around zero."}}
fig, (top, bottom) = figures.subplots(2, 1, size=(6.0, 5.2))
x = torch.linspace(-2.2, 2.2, 201, **like)
top.plot(x, (x - 1) ** 2, color=COLORS["vermillion"], label="steep", marker="")
top.plot(x, (x + 1) ** 2 / 2, color=COLORS["green"], label="flat", marker="")
top.plot(x, (x - 1) ** 2 / 2 + (x + 1) ** 2 / 4, color=COLORS["black"], lw=3, label="mean", marker="")
top.set(xlabel="$\\theta$", ylabel="loss", ylim=(0, 5))
top.legend(ncol=3, loc="upper center", bbox_to_anchor=(0.57, 1))
bottom.axhline(1 / 3, color=COLORS["black"], lw=1)
bottom.plot(range(401), paths["DecSPS"], label="DecSPS", marker="")
figures.line_control(bottom, range(401), paths["SPS"], label="decreasing SPS")
bottom.annotate("minimizer", (330, 0.46))
bottom.set(xlabel="step $k$", ylabel="$\\theta_k$", ylim=(-0.8, 1.4))
bottom.legend()
plt.show()

# %% [markdown]
# <div class="ld-widget" data-widget="tug-of-war"></div>
#
# In the equation of the book, $\theta_{k+1}=\theta_k-\eta_kP_k(\nabla\mathcal L(\theta_k)+\xi_k)+\beta_1(\theta_k-\theta_{k-1})$, this chapter lets the step size $\eta_k$ depend on the loss and the gradient of the
# current batch. (The matrix $P_k$ is the identity, the momentum $\beta_1$ zero, and the noise $\xi_k$ comes from drawing batches.) After it you can
#
# - train with a Polyak step, and say what it needs to know;
# - prove that it converges if the samples agree, and compute where it goes if they do not;
# - prove that the decreasing version, DecSPS, converges without being told any constant of the problem;
# - say what DecSPS adapts to, and when a tuned step beats it.
#
# The source is sections 4.0 to 4.2 of {cite}`orvieto2023dynamics`, which tells the results of
# {cite}`loizou2021stochastic` and {cite}`orvieto2022dynamics`. Read
# {doc}`Tools in ten minutes <../toolbox/tools_in_ten_minutes>` first. The page runs in about a minute on one CPU core, in
# about ten seconds with `SCALE = "smoke"`.
#
# ## Use it in five lines
#
# The library's steps are PyTorch optimizers. They differ from `torch.optim.SGD` in one point: they must be told the
# loss. The cell fits a logistic regression to 569 tumours with 30 measurements each; its labels `signs` are $\pm1$, and a penalty (`ridge`) is part of the loss. Nothing was tuned: `lr=10` caps the first steps,
# and `lower_bound=0` says that no batch has a negative loss.

# %%
problem = comparison.shipped("breast-cancer")
theta = torch.nn.Parameter(torch.zeros(problem.inputs.shape[1], **like))
source = run.generator("first use")
draws = torch.randint(len(problem.signs), (500, 20), generator=source)

optimizer = optimizers.DecSPS([theta], lr=10.0, lower_bound=0.0)
for rows in draws:
    margins = problem.signs[rows] * (problem.inputs[rows] @ theta)
    penalty = problem.ridge / 2 * theta.square().sum()
    loss = softplus(-margins).mean() + penalty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step(loss=loss)
assert problem.oracle(theta[None])[0] - problem.minimum() < 0.01

# %% [markdown]
# ## The setting
#
# :::{prf:definition} The finite-sum problem
# :label: thesis-eq-88
# Given losses $\ell_1,\dots,\ell_n:\mathbb R^d\to\mathbb R$, each bounded below, minimize their mean
# $\mathcal L(\theta)=\frac1n\sum_i\ell_i(\theta)$. A batch $S$ of $b$ samples, drawn anew at every step and
# independently of the past, has the loss $\mathcal L_S=\frac1b\sum_{i\in S}\ell_i$ with infimum
# $\mathcal L_S^\star$. Stochastic gradient descent is
#
# $$\theta_{k+1}=\theta_k-\eta_k\nabla\mathcal L_{S_k}(\theta_k).$$
# :::
#
# We write $g_k=\nabla\mathcal L_{S_k}(\theta_k)$, $\theta^\star$ for a minimizer of $\mathcal L$, $\mathcal L^\star$
# for its value, $\ell_i^\star$ for the infimum of $\ell_i$.
#
# :::{dropdown} The letters of the source
# | here | source, chapter 4 | meaning |
# |---|---|---|
# | $\theta$, $\mathcal L$, $\ell_i$, $\mathcal L_S$ | $x$, $f$, $f_i$, $f_{\mathcal S}$ | parameters, losses |
# | $\eta_k$, $\eta_{\max}$, $c_k$ | $\gamma_k$, $\gamma_b$, $c_k$ | step size, cap (`lr`), divisor |
# | $b$ | $B$ | batch size |
# | $m_S$ (local) | $\ell_{\mathcal S}^*$ | the user's lower bound on $\mathcal L_S$ |
# | $\Delta_b$, $\hat\Delta_b$ (local) | $\sigma_B^2$, $\hat\sigma_B^2$ | price of not interpolating |
# | $\hat\Delta_{\max}$ (local) | $\hat\sigma_{B,\max}^2$ | its largest value over batches |
# | $\eta_{\min}$ (local) | $\alpha$ | least Polyak step |
# | $D$, $\tilde L$ | $D$, $\tilde L$ | largest distance from $\theta^\star$; $L$, or more |
# :::
#
# Two assumptions will be used, one for each side of a parabola.
#
# :::{prf:definition} Strongly convex
# :label: thesis-def-4-0-1
# A differentiable $\ell$ is $\mu$-*strongly convex*, $\mu>0$, if for all $\theta,\zeta$
#
# $$
# \begin{aligned}
# \ell(\theta)\ge\ell(\zeta)&+\langle\nabla\ell(\zeta),\theta-\zeta\rangle\\
# &+\tfrac\mu2\lVert\theta-\zeta\rVert^2,
# \end{aligned}
# $$
#
# and *convex* if this holds with $\mu=0$.
# :::
#
# :::{prf:definition} Smooth
# :label: thesis-def-4-0-2
# A differentiable $\ell$ is $L$-*smooth* if its gradient is Lipschitz,
# $\lVert\nabla\ell(\theta)-\nabla\ell(\zeta)\rVert\le L\lVert\theta-\zeta\rVert$. It follows that
#
# $$
# \begin{aligned}
# \ell(\theta)\le\ell(\zeta)&+\langle\nabla\ell(\zeta),\theta-\zeta\rangle\\
# &+\tfrac L2\lVert\theta-\zeta\rVert^2 .
# \end{aligned}
# $$
# :::
#
# (The inequality alone implies the Lipschitz bound only for convex $\ell$; the proofs below use
# the inequality. The page {chapter}`Flows and diffusions <toolbox/flows_and_diffusions>` proves this in {prf:ref}`thesis-prop-a-3-3`, and says in
# {prf:ref}`thesis-prop-a-3-1` and {prf:ref}`thesis-prop-a-3-7` in which other forms the two conditions can be written.)
#
# **Each side bounds the gradient by the height.** With $\ell^\star=\inf\ell$,
#
# $$
# \begin{aligned}
# 2\mu\,(\ell(\theta)-\ell^\star)&\le\lVert\nabla\ell(\theta)\rVert^2\\
# &\le2L\,(\ell(\theta)-\ell^\star).
# \end{aligned}
# $$ (eq-polyak-steps-sandwich)
#
# :::{dropdown} Proof
# 1. *Left.* Minimize both sides of the strong convexity inequality over $\theta$. The right side is least at
#    $\theta=\zeta-\nabla\ell(\zeta)/\mu$, where it equals $\ell(\zeta)-\lVert\nabla\ell(\zeta)\rVert^2/2\mu$. So
#    $\ell^\star\ge\ell(\zeta)-\lVert\nabla\ell(\zeta)\rVert^2/2\mu$.
# 2. *Right.* Put $\theta=\zeta-\nabla\ell(\zeta)/L$ into the smoothness inequality:
#    $\ell^\star\le\ell(\theta)\le\ell(\zeta)-\lVert\nabla\ell(\zeta)\rVert^2/2L$. No convexity is needed. $\square$
# :::
#
# ## The Polyak step
#
# Suppose for a moment that there is one loss only, convex, and that somebody told us its minimum. One step of size
# $\eta$ changes the squared distance to $\theta^\star$ by
# $-2\eta\langle\nabla\mathcal L,\theta-\theta^\star\rangle+\eta^2\lVert\nabla\mathcal L\rVert^2$, which convexity
# bounds by
#
# $$-2\eta\,(\mathcal L(\theta)-\mathcal L^\star)+\eta^2\lVert\nabla\mathcal L(\theta)\rVert^2 .$$
#
# This is least at $\eta=(\mathcal L-\mathcal L^\star)/\lVert\nabla\mathcal L\rVert^2$: Polyak's step
# {cite}`polyak1987introduction`. {cite:t}`loizou2021stochastic` take the numbers of the batch instead, with a divisor $c>0$ and a cap $\eta_{\max}$. The method is
# called SPS:
#
# $$\eta_k=\min\Bigl\{\frac{\mathcal L_{S_k}(\theta_k)-\mathcal L_{S_k}^\star}{c\,\lVert g_k\rVert^2},\ \eta_{\max}\Bigr\}.$$ (eq-polyak-steps-sps)
#
# If $g_k=0$ nothing moves. Dividing {eq}`eq-polyak-steps-sandwich` by the squared gradient shows what the quotient measures: an
# inverse curvature. **For $\mu_i$-strongly convex and $L_i$-smooth $\ell_i$, with $L=\max L_i$ and $\mu=\min\mu_i$,**
#
# $$
# \begin{aligned}
# \frac1{2L}\le\frac1{2L_i}&\le\frac{\ell_i(\theta)-\ell_i^\star}{\lVert\nabla\ell_i(\theta)\rVert^2}\\
# &\le\frac1{2\mu_i}\le\frac1{2\mu}.
# \end{aligned}
# $$ (eq-polyak-steps-quotient)
#
# The first line needs smoothness only.
#
# *By hand.* For the steep parabola of the first figure, $\ell=(\theta-1)^2$, at $\theta=2.5$: the loss is $2.25$, the gradient $3$, the quotient $2.25/9=\frac14$, which is $\frac1{2L}$ with $L=2$. One step of this size
# goes half the way to $1$. For the flat one, $\ell=\frac12(\theta+1)^2$, at the same point: $6.125/3.5^2=\frac12=\frac1{2\cdot1}$, and the step goes half the way to $-1$. The quotient is larger where the loss is flatter.
#
# By the first line of {eq}`eq-polyak-steps-quotient` the step is never smaller than
#
# $$\eta_{\min}=\min\Bigl\{\frac1{2cL},\eta_{\max}\Bigr\}$$
#
# although $L$ is used nowhere. The next two cells write out both updates of the first figure, SPS with $c$ replaced by $c_k=\sqrt{k+1}$, and DecSPS, which puts the smallest quotient so far in the place of the quotient (its definition follows in a later section), and compare them with the library's. An *oracle* is a function that returns loss and gradient; `tug` makes the one of the two parabolas.


# %%
centers = torch.tensor([1.0, -1.0], **like)


def tug(ratios, draws):  # ratios (grid); draws (steps, *runs): 0 for the steep parabola, 1 for the flat one
    curvature = torch.stack([ratios, torch.ones_like(ratios)])

    def oracle(theta, k):  # theta (*runs, grid, 1)
        drawn = draws[k]
        pull = curvature[drawn] * (theta[..., 0] - centers[drawn][..., None])
        return pull**2 / (2 * curvature[drawn]), pull[..., None]

    return oracle


def root_growth(k):
    return math.sqrt(k + 1)


decreasing_sps = rules.SPS(cap=math.inf, c=root_growth)
fixed_draws = ((torch.arange(400, **like) * 0.6180339887498949 + 0.5) % 1 >= 0.5).long()[:, None]


# %%
def step_by_hand(theta, loss, gradient, state, cap=10.0, method="DecSPS"):
    k, smallest = state
    quotient = loss / gradient.square().sum()  # the lower bound is zero
    if method == "SPS":
        eta = min(quotient / math.sqrt(k + 1), cap)
    else:
        smallest = min(quotient, smallest)
        eta = smallest / math.sqrt(k + 1)
    return theta - eta * gradient, (k + 1, smallest)


def ten_steps(method, rule, cap=10.0):  # largest difference between the library and the lines above
    oracle, by_hand, state = (
        tug(torch.tensor([3.0], **like), fixed_draws),
        torch.full((1, 1, 1), 2.5, **like),
        (0, cap),
    )
    library = ensembles.iterate(rule, oracle, by_hand, 10, [10]).last
    for k in range(10):
        loss, gradient = oracle(by_hand, k)
        by_hand, state = step_by_hand(by_hand, loss[0, 0], gradient, state, cap, method)
    return (library - by_hand).abs().max()


assert ten_steps("DecSPS", rules.DecSPS(cap=10.0)) < 1e-14
assert ten_steps("SPS", rules.SPS(cap=10.0, c=root_growth)) < 1e-14

# %% [markdown]
# ### If the samples agree
#
# :::{prf:definition} Interpolation
# :label: thesis-def-4-1-1
# The problem is *interpolated* if some minimizer $\theta^\star$ of $\mathcal L$ minimizes every $\ell_i$. In general,
# the price of not interpolating at batch size $b$ is
#
# $$\Delta_b=\mathbb E_S[\mathcal L_S(\theta^\star)-\mathcal L_S^\star]\ge0 .$$
# :::
#
# It is zero for an interpolated problem, and **it never grows with the batch size**, if batches are drawn without
# repetition.
#
# :::{dropdown} Proof
# $\mathcal L_S(\theta)$ is the mean over $i\in S$ of the losses $\mathcal L_{S\setminus i}(\theta)$ of the batches with
# one sample less. The minimum of a mean is at least the mean of the minima,
# $\mathcal L_S^\star\ge\frac1b\sum_{i\in S}\mathcal L_{S\setminus i}^\star$. Average over $S$: each batch of size
# $b-1$ is equally likely, so $\mathbb E\mathcal L_S^\star$ does not decrease with $b$, while
# $\mathbb E\mathcal L_S(\theta^\star)=\mathcal L^\star$ stays. $\square$
# :::
#
# :::{prf:theorem} SPS converges to a ball {cite}`loizou2021stochastic`
# :label: thesis-thm-4-1-1
# Let every $\ell_i$ be convex and $L_i$-smooth, $L=\max L_i$. With $c=1$ the mean iterate
# $\bar\theta_K=\frac1K\sum_{k<K}\theta_k$ of SPS satisfies
#
# $$
# \begin{aligned}
# \mathbb E[\mathcal L(\bar\theta_K)-\mathcal L^\star]\le\ &\frac{\lVert\theta_0-\theta^\star\rVert^2}{\eta_{\min}K}\\
# &+\frac{2\eta_{\max}\Delta_b}{\eta_{\min}}.
# \end{aligned}
# $$
#
# If moreover the mean $\mathcal L$ is $\mu$-strongly convex, then, for every $c\ge\frac12$,
#
# $$
# \begin{aligned}
# \mathbb E\lVert\theta_k-\theta^\star\rVert^2\le\ &(1-\mu\eta_{\min})^k\lVert\theta_0-\theta^\star\rVert^2\\
# &+\frac{2\eta_{\max}\Delta_b}{\mu\,\eta_{\min}}.
# \end{aligned}
# $$
# :::
#
# *Why one should expect it.* For an interpolated problem the second terms vanish, and what remains is the rate of gradient descent
# with a step of order $1/L$ (or the cap, if it is shorter), which the method has found by itself. Otherwise each step aims at the minimum of its batch and not at that of the mean. The second term, called the *floor*, is what remains of this error however many steps are taken.
#
# *The key step.* By its definition the step satisfies $\eta_k^2\lVert g_k\rVert^2\le\frac{\eta_k}c(\mathcal L_{S_k}(\theta_k)-\mathcal L_{S_k}^\star)$. The squared length of a step, which is hard to control, is thus bounded by a height above a minimum, and convexity bounds
# the inner product by heights as well.
#
# :::{dropdown} Proof
# Write $e_k=\lVert\theta_k-\theta^\star\rVert$, $h_k=\mathcal L_{S_k}(\theta_k)-\mathcal L_{S_k}^\star\ge0$ and
# $\delta_k=\mathcal L_{S_k}(\theta^\star)-\mathcal L_{S_k}^\star\ge0$; $\mathbb E\delta_k=\Delta_b$.
#
# 1. *Expansion.* $e_{k+1}^2-e_k^2$ is
#    $-2\eta_k\langle g_k,\theta_k-\theta^\star\rangle+\eta_k^2\lVert g_k\rVert^2$, and $\eta_k\lVert g_k\rVert^2\le h_k/c$ by {eq}`eq-polyak-steps-sps`.
# 2. *Convexity.* $\langle g_k,\theta_k-\theta^\star\rangle$ is at least
#    $\mathcal L_{S_k}(\theta_k)-\mathcal L_{S_k}(\theta^\star)=h_k-\delta_k$.
#    With $c=1$ the change $e_{k+1}^2-e_k^2$ is at most $-2\eta_k(h_k-\delta_k)+\eta_kh_k$, which is
#    $-\eta_kh_k+2\eta_k\delta_k$.
# 3. *Both ends of the step.* $\eta_{\min}\le\eta_k\le\eta_{\max}$ by {eq}`eq-polyak-steps-quotient`, which holds for a batch as well, since a mean of $L$-smooth losses is $L$-smooth, and
#    $h_k,\delta_k\ge0$. So the change is at most $-\eta_{\min}h_k+2\eta_{\max}\delta_k$.
# 4. *Expectation.* $S_k$ is independent of $\theta_k$, so
#    $\mathbb Eh_k=\mathbb E\mathcal L(\theta_k)-\mathcal L^\star+\Delta_b$. Sum over $k<K$, divide by $\eta_{\min}K$:
#
#    $$
#    \begin{aligned}
#    \frac1K\sum_{k<K}&\mathbb E\mathcal L(\theta_k)-\mathcal L^\star+\Delta_b\\
#    &\le\frac{\mathbb E[e_0^2-e_K^2]}{\eta_{\min}K}+\frac{2\eta_{\max}\Delta_b}{\eta_{\min}} .
#    \end{aligned}
#    $$
#
#    Drop $e_K^2$ and the $\Delta_b$ on the left, and use $\mathcal L(\bar\theta_K)\le\frac1K\sum\mathcal L(\theta_k)$.
# 5. *Strongly convex.* Keep what convexity drops: with the gap of the tangent,
#    $B_k=\mathcal L_{S_k}(\theta^\star)-\mathcal L_{S_k}(\theta_k)-\langle g_k,\theta^\star-\theta_k\rangle\ge0$ (the Bregman divergence), $\langle g_k,\theta_k-\theta^\star\rangle=h_k-\delta_k+B_k$. As $c\ge\frac12$, $\eta_k^2\lVert g_k\rVert^2\le2\eta_kh_k$, and the change
#    $e_{k+1}^2-e_k^2$ is at most $-2\eta_kB_k+2\eta_k\delta_k\le-2\eta_{\min}B_k+2\eta_{\max}\delta_k$. Only now take the expectation given $\theta_k$: the mean of $B_k$ over the batches is the same gap for $\mathcal L$, at least $\frac\mu2e_k^2$. So
#    $\mathbb Ee_{k+1}^2\le(1-\mu\eta_{\min})\,\mathbb Ee_k^2+2\eta_{\max}\Delta_b$; sum the geometric series. $\square$
# :::
#
# In the second half only the mean has to be strongly convex. The samples can be, for instance, three valleys in the plane, each flat along its own line; this example is among the checks.
#
# Each result on this page is checked by a computation. The row or card below it says what was measured, what it was allowed to be, and the same number for something wrong (the *control*), which has to fail. "267 values, worst 0 against at least 0, up to rounding. What breaks it: … (-0.019 at best)" means:
# 267 differences that may not be negative are not; with a slightly stronger bound they are negative, and the one nearest to passing is $-0.019$. A row "A exceeds B by x (at least y)" gives the mean difference x over the seeds and the lower end y of its 99.9 % interval; $\varepsilon$ in "100 ε" is the rounding unit of the number type, $2.2\cdot10^{-16}$ in double precision. {doc}`How claims are checked <../../book/how_claims_are_checked>` explains the words.
#
# An expectation over random batches can be checked without statistics if the runs are short: three losses and seven
# steps make $3^7$ sequences of draws, all equally likely, and all of them are run at once. For the first bound the check takes the line displayed in step 4 of the proof, which implies it. A bound that is far above every run would tell little, so the check
# contains problems on which the bounds are attained:
#
# - step 4 by round parabolas (Hessian a multiple of the identity) of one curvature, in the first step from $\theta^\star$, with the cap $1/2L$ (`at_rest`);
# - the floor of the second bound by the same parabolas at every step, with $c=\frac12$ and the cap $1/L$ (`arrived`);
# - its rate by parabolas of the curvatures $L$ and nearly zero with one common minimum (`agreeing`).
#
# The control changes a constant by a twentieth on these problems; the bound then fails.

# %%
count, length = 3, run.pick(smoke=5, book=7, paper=8)
sequences = torch.tensor(list(itertools.product(range(count), repeat=length)))[..., None]  # (3^7, steps, 1)


def random_quadratics(stream, n, d, agree=False):
    source = run.generator(stream)
    root_of = torch.randn(n, d, d, generator=source, dtype=run.dtype)
    points = torch.randn(1 if agree else n, d, generator=source, dtype=run.dtype).expand(n, d)
    return QuadraticSum(root_of @ root_of.mT + 0.3 * torch.eye(d, **like), points)


def batches(problem, rows):  # loss and gradient of the batch of step k
    return lambda theta, k: problem.oracle(theta, rows[k])


def every_sequence(problem, rule, start):  # start (grid, d); all sequences as a batch
    oracle = batches(problem, sequences.transpose(0, 1))
    begin = start.expand(len(sequences), *start.shape)
    found = ensembles.iterate(
        rule, oracle, begin, length, range(length + 1), watch=lambda state: state.step_size
    )
    return found.values, found.watched[1:]  # iterates (K + 1, sequences, grid, d), step sizes


# %%
three = random_quadratics("three", count, 2)
best, best_batch = three.minimizer(), three.minimum(torch.arange(count)[:, None])
around = torch.tensor([[2.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]], **like)
equal = QuadraticSum(2 * torch.eye(2, **like).expand(3, 2, 2), around)  # one curvature, minimizer 0
lines = torch.tensor([[1.0, 0.0], [0.6, 0.8], [-0.6, 1.2]], **like)
valleys = QuadraticSum(lines[:, :, None] * lines[:, None, :], around)  # each flat along one line
# logistic losses without a ridge (not separable): convex, not strongly, and each has the infimum 0
overlap = LogisticSum(
    torch.tensor([[1.0, 1.0], [1.0, -0.5], [1.0, 2.0]], **like), torch.tensor([-1.0, 1.0, 1.0], **like), 0.0
)
nothing, step_number = torch.zeros(count, **like), torch.arange(1, length + 1, **like)[:, None]


def mean_gaps(problem, path):  # expected gap before each step, (K, grid)
    return problem.oracle(path[:-1])[0].mean(1) - problem.oracle(problem.minimizer()[None])[0]


# %%
def sps_terms(problem, own, start, caps, c=1.0, floor=1.0, least=1.0):  # the last two for the controls
    star = problem.minimizer()
    price = problem.oracle(star[None])[0] - own.mean()  # Δ_b
    rule = rules.SPS(caps, c=c, lower_bound=lambda k: own[sequences[:, k, 0]][:, None, None])
    path, _ = every_sequence(problem, rule, star + start)
    away = (path - star).square().sum(-1).mean(1)  # 𝔼‖θ_k − θ⋆‖²
    eta_min = least * torch.minimum(1 / (2 * c * problem.smoothness.max()), caps[:, 0])
    return path, away, price, eta_min, floor * 2 * caps[:, 0] * price / eta_min


def mean_slack(problem, *setting, **factors):  # right minus left side of step 4
    path, away, price, eta_min, error = sps_terms(problem, *setting, **factors)
    average = mean_gaps(problem, path).cumsum(0) / step_number
    return (away[0] - away[1:]) / (eta_min * step_number) + error - price - average


def distance_slack(problem, *setting, **factors):  # right minus left side of the second bound
    _, away, _, eta_min, error = sps_terms(problem, *setting, **factors)
    mu = torch.linalg.eigvalsh(problem.curvatures.mean(0))[0]  # of the mean loss
    return (1 - mu * eta_min) ** step_number * away[0] + error / mu - away[1:]


# %%
starts = torch.tensor([[0.0, 0.0], [1.0, 1.0], [-2.0, 0.0], [0.0, 0.0]], **like)
caps = torch.tensor([[0.05], [0.3], [1.0], [5.0]], **like)


def at_rest(**factors):  # step 4 where it is attained: the first step from the minimizer, cap 1/2L
    return mean_slack(equal, nothing, 0 * starts[:1], 5 * caps[:1], **factors)[0]


def arrived(**factors):  # the floor of the second bound where it is attained: c = 1/2, cap 1/L
    return distance_slack(equal, nothing, starts[1:2], 10 * caps[:1], c=0.5, **factors)


def agreeing(**factors):  # its rate where it is attained: curvatures L and nearly 0, one common minimum
    curvatures = torch.tensor([2.0, 1e-6, 1e-6], **like)[:, None, None] * torch.eye(2, **like)
    mixed = QuadraticSum(curvatures, 0 * around)
    return distance_slack(mixed, nothing, starts[1:2], 20 * caps[:1], c=0.5, **factors)


slacks = [
    mean_slack(three, best_batch, starts, caps),
    *(distance_slack(three, best_batch, starts, caps, c=c) for c in (0.5, 1.0, 2.0)),
    mean_slack(valleys, nothing, starts, caps),
    *(distance_slack(valleys, nothing, starts, caps, c=c) for c in (0.5, 1.0, 2.0)),
    mean_slack(overlap, nothing, starts[:3], 10 * caps[:3]),
    mean_slack(equal, nothing, starts[1:2], caps[:1] / 50),  # steps so short that e_K is nearly e_0
    at_rest(),
    arrived(),
    agreeing(),
]

# %% tags=["hide-input"]
ledger.check(
    "thesis:thm-4.1.1",
    "The exact expectation over all sequences obeys both halves, also where they are attained",
    measured=torch.cat([slack.flatten() for slack in slacks]),
    criterion=inequality("right minus left side of step 4, and of the second bound", size=10.0),
    control=control(
        "floor a twentieth lower, or least step a twentieth longer, where the bounds are attained",
        torch.cat(
            [at_rest(floor=0.95), at_rest(least=1.05), arrived(floor=0.95)[-1], agreeing(least=1.05)[-1]]
        ),
    ),
    expected="holds",
    show="card",
)

# %%
# one step on round parabolas, c = 1/2 and c = 1
curved = torch.logspace(-1, 1, 9, **like)
straight = QuadraticSum(
    curved[:, None, None] * torch.eye(3, **like),
    torch.randn(9, 3, generator=run.generator("straight"), dtype=run.dtype),
)
each = torch.arange(9)[:, None]


def one_step(c):  # distance to the minimum of the sample after one step from zero, relative
    rule = rules.SPS(cap=1e6, c=c)
    theta0 = torch.zeros(9, 1, 3, **like)
    moved = ensembles.iterate(rule, lambda theta, k: straight.oracle(theta, each), theta0, 1, [1]).last[:, 0]
    return (moved - straight.centers).norm(dim=-1) / straight.centers.norm(dim=-1)


# %%
# eight quadratics in three dimensions: heights, gradients, quotients at fifty points
wide = random_quadratics("wide", 8, 3)
several = torch.randn(8, 50, 3, generator=run.generator("points"), dtype=run.dtype) * 3
height, slope = wide.oracle(several, torch.arange(8)[:, None])
square, L_i, mu_i = slope.square().sum(-1), wide.smoothness[:, None], wide.strong_convexity[:, None]
quotient = height / square


# %%
optimum = wide.minimizer()
value = wide.oracle(optimum[None])[0]
subsets = [torch.tensor(list(itertools.combinations(range(8), size))) for size in range(1, 9)]


def prices(batches):
    return torch.stack(
        [
            (wide.oracle(optimum.expand(len(rows), 1, 3), rows)[0][:, 0] - wide.minimum(rows)).mean()
            for rows in batches
        ]
    )


chains = torch.stack(
    [
        prices([torch.tensor(order[:size])[None] for size in range(1, 9)])
        for order in itertools.islice(itertools.permutations(range(8)), 0, 40320, 1000)
    ]
)

# %% tags=["hide-input"]
ledger.check(
    "thesis:alg-sps-max",
    "On a round parabola of any curvature SPS with c = ½ reaches the minimum in one step",
    measured=one_step(0.5),
    criterion=identity("‖θ₁ − z‖/‖z‖"),
    control=control("c = 1", one_step(1.0)),
    expected="holds",
)
ledger.check(
    "thesis:lemma-4.0.1",
    "Strongly convex: the squared gradient is at least 2μ times the height",
    measured=square - 2 * mu_i * height,
    criterion=inequality("‖∇ℓ‖² − 2μ(ℓ − ℓ⋆)", size=square.max().item()),
    control=control("θ⁴, which is not strongly convex, with μ = 1, near zero", 16 * 0.1**6 - 2 * 0.1**4),
    expected="holds",
)
ledger.check(
    "thesis:lemma-4.0.2",
    "Smooth: the squared gradient is at most 2L times the height",
    measured=2 * L_i * height - square,
    criterion=inequality("2L(ℓ − ℓ⋆) − ‖∇ℓ‖²", size=square.max().item()),
    control=control("|θ|^{3/2}, which is not smooth, with L = 1, near zero", 2 * 1e-3**1.5 - 2.25e-3),
    expected="holds",
)
ledger.check(
    "thesis:lemma-4.1.1",
    "The Polyak quotient lies between 1/(2L_i) and 1/(2μ_i)",
    measured=torch.minimum(quotient - 1 / (2 * L_i), 1 / (2 * mu_i) - quotient),
    criterion=inequality("(ℓ − ℓ⋆)/‖∇ℓ‖² inside [1/(2L_i), 1/(2μ_i)]", size=quotient.max().item()),
    control=control("without the factor ½", torch.minimum(quotient - 1 / L_i, 1 / mu_i - quotient).min()),
    expected="holds",
)
ledger.check(
    "thesis:eq-97",
    "The price of not interpolating never grows with the batch size",
    measured=-prices(subsets).diff(),
    criterion=inequality("Δ_b − Δ_{b+1}, over all batches", size=prices(subsets)[0].item()),
    control=control("one nested chain of batches in place of the average", (-chains.diff()).min()),
    expected="holds",
)

# %% [markdown]
# ## Two problems
#
# SPS has two problems, and a third one with decreasing steps.
#
# **The batch's minimum is unknown.** For an over-parameterized network $\mathcal L_S^\star$ is zero, or nearly. As soon as a
# penalty is added it is not. For the logistic loss with ridge $\rho$ and *one* sample $x$ it is the solution of a scalar
# equation: the minimizer is a multiple of $x$, and its margin $t$ (the label times the inner product with $x$) solves $t\,(1+e^t)=\lVert x\rVert^2/\rho$. For larger batches one would have to minimize numerically at every step.
#
# **A larger $c$ cannot remove the floor.** In {prf:ref}`thesis-thm-4-1-1` the floors are $2\Delta_b$ (for $c=1$) and $2\Delta_b/\mu$ (for every $c\ge\frac12$), times
# $\eta_{\max}/\eta_{\min}=\max\{1,2cL\eta_{\max}\}\ge1$. So the second *bound* never falls below $2\Delta_b/\mu$, whatever the cap and
# $c$. Is this only the bound? For two parabolas $\ell_1=\frac{a_1}2(\theta-1)^2$ and $\ell_2=\frac{a_2}2(\theta+1)^2$, drawn with probability one half each, one can compute the truth. Their mean is least at $\theta^\star=\frac{a_1-a_2}{a_1+a_2}$. As long as the cap never acts, an SPS step goes the share $w=\frac1{2c}\le1$ of the way to $\pm1$, so that in the long run $\theta$ has mean $0$ and variance $\frac w{2-w}$, and the
# mean loss stays above its minimum by
#
# $$\frac{a_1+a_2}4\Bigl({\theta^\star}^2+\frac w{2-w}\Bigr)\ \ge\ \frac{a_1+a_2}4\,{\theta^\star}^2 .$$ (eq-polyak-steps-floor)
#
# No $c$ removes the first term. A small *cap* does: below $\frac1{2cL}$ it always acts, SPS is then gradient descent with the constant step $\eta_{\max}$, and its error is of order $\eta_{\max}$. So the source's sentence, that SPS cannot come arbitrarily near to the minimizer, is right as long as the cap does not act, and wrong for small caps. The row below runs four values of $c$ without a cap; its control is the cap $0.001$.

# %%
twenty = torch.randint(len(problem.signs), (12, 20), generator=run.generator("twenty"))
scalar = []
for square_norm in problem.inputs.square().sum(-1).tolist():
    t = brentq(lambda t: t * (1 + math.exp(t)) - square_norm / problem.ridge, 0, 30, xtol=1e-15)  # noqa: B023
    scalar.append(math.log1p(math.exp(-t)) + problem.ridge * t**2 / (2 * square_norm))
scalar = torch.tensor(scalar, **like)


def formula_error(rows):
    return (scalar[rows].mean(-1) - problem.minimum(rows)).abs()


# %%
floor_steps, floor_runs = (
    run.pick(smoke=500, book=6000, paper=20_000),
    run.pick(smoke=10, book=60, paper=200),
)
floor_draws = torch.randint(2, (floor_steps, floor_runs), generator=run.generator("floor"))
removable = 3 / 4 * (1 / 3) ** 2  # (a_1 + a_2)/4 · θ⋆² for the curvatures 2 and 1


def late_excess(rule):  # ℒ − ℒ⋆, mean over the second half of each run, in units of the above
    begin = torch.full((floor_runs, 1, 1), 2.5, **like)
    oracle = tug(torch.tensor([2.0], **like), floor_draws)
    late = range(floor_steps // 2, floor_steps + 1)
    path = ensembles.iterate(rule, oracle, begin, floor_steps, late).values[..., 0, 0]
    return 3 / 4 * (path - 1 / 3).square().mean(0) / removable


by_c = torch.stack([late_excess(rules.SPS(cap=math.inf, c=c)) for c in (0.5, 1.0, 3.0, 10.0)])
by_formula = 1 + torch.tensor([w / (2 - w) for w in (1.0, 0.5, 1 / 6, 0.05)], **like) / (1 / 3) ** 2
assert torch.allclose(by_c.mean(1), by_formula, rtol=run.pick(smoke=0.5, book=0.1, paper=0.1))

# %% tags=["hide-input"]
ledger.check(
    "thesis:claim-problem-1",
    "For a single sample the minimum of the ridge-penalized logistic loss is a scalar equation",
    measured=formula_error(twenty[:, :1]),
    criterion=identity("scalar formula − minimum found by Newton's method", condition=10.0),
    control=control("batches of twenty", formula_error(twenty)),
    expected="holds",
)
ledger.check(
    "thesis:claim-problem-2",
    "As long as the cap does not act, no divisor c removes the floor of SPS",
    measured=by_c.amin(0),
    criterion=confident("the least, over four values of c, of late excess over (a₁ + a₂)θ⋆²/4", at_least=1.0),
    control=control("c = 1 and the cap 0.001, which always acts", late_excess(rules.SPS(cap=1e-3, c=1.0))),
    expected="holds",
    needs="book",
)

# %% [markdown]
# ### Where a decreasing step goes
#
# Replace $c$ by a sequence $c_k$ that grows, so that the step decreases. For ordinary steps this makes the noise die out. What does it do for SPS? Take the same two parabolas.
#
# :::{prf:proposition} The Polyak step does not see the curvature
# :label: thesis-claim-sps-bias
# For $\ell_1,\ell_2$ above, SPS with the divisors $c_k\ge\frac12$ and a cap so large that it never acts satisfies, with
# $w_k=1/2c_k$,
#
# $$
# \begin{aligned}
# \mathbb E\,\theta_{k+1}&=(1-w_k)\,\mathbb E\,\theta_k,\\
# \mathbb E\,\theta_{k+1}^2&=(1-w_k)^2\,\mathbb E\,\theta_k^2+w_k^2,
# \end{aligned}
# $$
#
# whatever $a_1,a_2>0$ are. If $w_k\to0$ and $\sum w_k=\infty$, then $\theta_k\to0$ in mean square, while the
# minimizer is $\theta^\star=(a_1-a_2)/(a_1+a_2)$.
# :::
#
# *The key step.* The quotient is $1/2a_i$, and the gradient is $a_i$ times the distance to the minimum of $\ell_i$. In their product $a_i$ cancels: every step goes
# the share $w_k$ of the way to $\pm1$.
#
# :::{dropdown} Proof
# 1. $\ell_i/\lVert\nabla\ell_i\rVert^2=1/2a_i$, so $\eta_k\nabla\ell_i(\theta_k)=w_k(\theta_k\mp1)$ and
#    $\theta_{k+1}=(1-w_k)\theta_k\pm w_k$, with a fair sign that is independent of $\theta_k$.
# 2. Take the mean, and the mean of the square; the cross term has mean zero.
# 3. Let $s_k=\mathbb E\theta_k^2$; then $s_{k+1}\le(1-w_k)s_k+w_k^2$ as $0<w_k\le1$. Given $\epsilon>0$, once $w_k\le\epsilon$ this is
#    $s_{k+1}-\epsilon\le(1-w_k)(s_k-\epsilon)$, and the product of the $1-w_k$ tends to zero. So
#    $\limsup s_k\le\epsilon$. $\square$
# :::

# %%
twelve = run.pick(smoke=8, book=12, paper=14)
every_flip = itertools.product(range(2), repeat=twelve)
flips = torch.tensor(list(every_flip)).T  # (steps, 2^12)
ratios = torch.tensor([1.0, 2.0, 5.0], **like)


# exact mean and mean square over all sequences, (2, K + 1, ratios)
def moments(rule):
    begin = torch.full((flips.shape[1], 3, 1), 2.5, **like)
    oracle, recorded = tug(ratios, flips), range(twelve + 1)
    path = ensembles.iterate(rule, oracle, begin, twelve, recorded)
    theta = path.values[..., 0]
    return torch.stack([theta.mean(1), theta.square().mean(1)])


law = [torch.tensor([2.5, 2.5**2], **like)]
for k in range(twelve):
    w = 1 / (2 * root_growth(k))
    mean, square = law[-1]
    law.append(torch.stack([(1 - w) * mean, (1 - w) ** 2 * square + w**2]))
law = torch.stack(law).T[..., None]

# %% tags=["hide-input"]
ledger.check(
    "thesis:claim-sps-bias",
    "Mean and mean square of decreasing SPS obey recursions without the curvatures",
    measured=moments(decreasing_sps) - law,
    criterion=identity("𝔼θ_k and 𝔼θ_k² minus the recursions, all sequences", size=10.0),
    control=control(
        "DecSPS at curvature ratio 5, last step",
        (moments(rules.DecSPS()) - law)[:, -1, 2],
    ),
    expected="holds",
    show="card",
)

# %% [markdown]
# :::{admonition} Predict first
# :class: tip
# In two dimensions the parabolas become bowls with different axes. Each Polyak step is still
# $\eta_k\nabla\ell_i=w_k\cdot\bigl(2\,\ell_i/\lVert\nabla\ell_i\rVert^2\bigr)\nabla\ell_i$. At which point will decreasing SPS settle:
# half way between the two minima?
# :::
#
# :::{dropdown} Answer
# Half way if both bowls are round, or if the line between their minima is an axis of both. In general it can only rest where the mean step vanishes, at a solution $\theta^\circ$ of
#
# $$\sum_i\frac{\ell_i(\theta)-\ell_i^\star}{\lVert\nabla\ell_i(\theta)\rVert^2}\,\nabla\ell_i(\theta)=0 .$$ (eq-polyak-steps-address)
#
# (The factor $1/c_k$ is common to all terms and drops out.) The square in the next figure is this point, computed before the run.
# :::


# %%
def bowls(agree):
    cosine, sine = math.cos(0.5), math.sin(0.5)
    turn = torch.tensor([[cosine, -sine], [sine, cosine]], **like)
    steep = torch.diag(torch.tensor([6.0, 1.0], **like))
    flat = turn @ torch.diag(torch.tensor([0.4, 1.5], **like)) @ turn.T
    other = [1.0, 0.0] if agree else [-1.0, 0.5]
    points = torch.tensor([[1.0, 0.0], other], **like)
    return QuadraticSum(torch.stack([steep, flat]), points)


# the left side of the equation above, for the bowls that disagree
def mean_step(point):
    theta = torch.as_tensor(point, **like).expand(2, 1, 2)
    loss, gradient = bowls(False).oracle(theta, torch.arange(2)[:, None])
    quotient = loss / gradient.square().sum(-1)
    return (quotient[..., None] * gradient).sum((0, 1)).numpy()


address = torch.as_tensor(root(mean_step, [0.0, 0.2], tol=1e-13).x, **like)
assert (address - bowls(False).minimizer()).norm() > 0.3


# %%
steps_2d, runs_2d = run.pick(smoke=300, book=10_000, paper=30_000), run.pick(smoke=8, book=60, paper=200)
coin = torch.randint(2, (steps_2d, runs_2d, 1), generator=run.generator("coin"))
rules_2d = {"DecSPS": rules.DecSPS(), "SPS": decreasing_sps}
settled, wandered = {}, {}
for agree in (False, True):
    for name, rule in rules_2d.items():
        late = rules.Averaged(rule, weight=lambda k: (k + 1.0) ** 3)  # counts late iterates most
        begin = torch.tensor([[1.5, 1.5]], **like).expand(runs_2d, 1, 2)
        found = ensembles.iterate(
            late, batches(bowls(agree), coin), begin, steps_2d, watch=lambda state: state.mean
        )
        settled[name, agree], wandered[name, agree] = found.watched[-1, :, 0], found.values[:, 0, 0]


def off(name, agree):  # distance of the mean iterate from the minimizer, one value a seed
    return (settled[name, agree] - bowls(agree).minimizer()).norm(dim=-1)


# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Decreasing SPS goes to a computed wrong point (square); DecSPS goes to the minimizer (star).** Contours of the mean of two bowls whose minima (dots) differ (left) or coincide (right). Where they coincide both find the star. What breaks it: samples that disagree, left.", "name": "fig-polyak-steps-bowls"}, "image": {"alt": "Two contour plots. Left: a blue path ends at a star, a dashed grey path ends at a square away from it, two dots mark the minima of the single bowls. Right: both paths end at the star, on the common minimum."}}
fig, axes = figures.subplots(1, 2, size=(6.2, 3.6), sharey=True)
grid = torch.linspace(-1.5, 2.0, 101, **like)
plane = torch.stack(torch.meshgrid(grid, grid, indexing="xy"), -1)
for ax, agree in zip(axes, (False, True), strict=True):
    pair = bowls(agree)
    height = pair.oracle(plane.reshape(-1, 2))[0].reshape(101, 101)
    ax.contour(
        grid,
        grid,
        height - height.min(),
        levels=[0.05, 0.2, 0.5, 1, 2, 4],
        colors=COLORS["light grey"],
        linewidths=0.8,
    )
    ax.plot(*wandered["DecSPS", agree].T, marker="", lw=1, label="DecSPS")
    figures.line_control(ax, *wandered["SPS", agree].T, role="decreasing SPS")
    ax.plot(*pair.centers.T, "o", color=COLORS["black"], ls="")
    ax.plot(*pair.minimizer(), "*", color=COLORS["vermillion"], markersize=16, ls="")
    if not agree:
        ax.plot(*address, "s", color=COLORS["maroon"], markersize=9, ls="")
    ax.set(
        xlabel="$[\\theta]_1$",
        title="minima coincide" if agree else "minima differ",
        xlim=(-1.5, 2),
        ylim=(-1, 2),
    )
axes[0].set_ylabel("$[\\theta]_2$")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", fontsize=8, ncols=2)
plt.show()

# %% [markdown]
# The row below compares the two methods where the minima differ: the *late average* of a run, with weights $(k+1)^3$ for the iterates, must lie nearer to the minimizer for DecSPS than for SPS. Where
# the minima coincide SPS has no bias, and the order must not be found. The card uses a bound of ours, fixed before the run: late averages within $0.1$ (a twentieth of the
# distance between the two minima) of the points announced, the minimizer for DecSPS and $\theta^\circ$ for SPS, which is more than $0.3$ away from it.

# %% tags=["hide-input"]
ledger.check(
    "thesis:fig-32",
    "Where the minima differ DecSPS ends nearer to the minimizer than decreasing SPS",
    measured={name: off(name, False) for name in ("DecSPS", "SPS")},
    criterion=ordering("distance of the late average from θ⋆", ["DecSPS", "SPS"]),
    control=control("minima that coincide", {name: off(name, True) for name in ("DecSPS", "SPS")}),
    expected="reproduced",
    claim="experiment",
    needs="book",
)
ledger.check(
    "thesis:beyond-polyak-bias-address",
    "Decreasing SPS settles where the mean Polyak step vanishes, DecSPS at the minimizer",
    measured=torch.maximum((settled["SPS", False] - address).norm(dim=-1), off("DecSPS", False)),
    criterion=confident("distances of the late averages from θ° and from θ⋆, the larger", at_most=0.1),
    control=control(
        "half way between the minima in the place of θ°",
        (settled["SPS", False] - bowls(False).centers.mean(0)).norm(dim=-1),
    ),
    expected="reproduced",
    claim="experiment",
    needs="book",
    show="card",
)

# %% [markdown]
# ## DecSPS: keep the smallest quotient
#
# The bias comes from a step that is large exactly when the batch is flat. {cite:t}`orvieto2022dynamics` take that freedom away:
# the step may fall, never rise. Let $c_k>0$ be non-decreasing, and let $m_S\le\mathcal L_S^\star$ be any lower bounds that the user knows. Starting from $c_{-1}=c_0$ and $\eta_{-1}=\eta_{\max}$, DecSPS takes
#
# $$
# \begin{aligned}
# q_k&=\frac{\mathcal L_{S_k}(\theta_k)-m_{S_k}}{\lVert g_k\rVert^2},\\
# \eta_k&=\frac1{c_k}\min\{q_k,\,c_{k-1}\eta_{k-1}\}\\
# &=\frac1{c_k}\min\Bigl\{\min_{j\le k}q_j,\,c_0\eta_{\max}\Bigr\}.
# \end{aligned}
# $$ (eq-polyak-steps-decsps)
#
# The last line, which follows by unrolling the one above it, is the one to remember: $c_k\eta_k$ is a *running minimum* of the quotients. The first problem is gone as well, since zero is a lower bound for most losses. The price of not interpolating becomes
# $\hat\Delta_b=\mathcal L^\star-\mathbb E\,m_S\ge\Delta_b$.
#
# :::{prf:lemma} The step decreases between two known curves
# :label: thesis-lemma-4-2-1
# Let every $\ell_i$ be $L_i$-smooth, $L=\max L_i$, and $c_k$ positive and non-decreasing. Then
# $\eta_k\le\eta_{k-1}$ and
#
# $$\min\Bigl\{\frac1{2L},c_0\eta_{\max}\Bigr\}\le c_k\eta_k\le c_0\eta_{\max} .$$
# :::
#
# :::{dropdown} Proof
# 1. $c_k\eta_k\le c_{k-1}\eta_{k-1}\le\dots\le c_0\eta_{\max}$, and $\eta_k\le(c_{k-1}/c_k)\,\eta_{k-1}\le\eta_{k-1}$.
# 2. As $m_S\le\mathcal L_S^\star$ and $\mathcal L_S$ is $L$-smooth, every quotient is at least $1/2L$ by
#    {eq}`eq-polyak-steps-sandwich`. So is their minimum, unless the cap is smaller. $\square$
# :::
#
# The check lets the batch size, the cap and the divisor vary; the control is SPS with the same divisor.


# %%
def record_all(problem, rule, rows, start):  # every iterate and step size
    steps = len(rows)
    found = ensembles.iterate(
        rule, batches(problem, rows), start, steps, range(steps + 1), watch=lambda state: state.step_size
    )
    return found.values, found.watched[1:]


growths = {"constant": lambda k: 1.0, "root": root_growth, "faster": lambda k: (k + 1.0) ** 0.8}

# %%
walk_steps, walks = run.pick(smoke=60, book=400, paper=1000), 12
walk_caps = torch.tensor([0.02, 0.5, 10.0, 1000.0], **like)
walk_rows = {
    b: torch.randint(8, (walk_steps, walks, b), generator=run.generator(f"walk {b}")) for b in (1, 3)
}
walk_start = torch.full((walks, len(walk_caps), 3), 2.0, **like)
walked = {
    (name, b): record_all(wide, rules.DecSPS(walk_caps[:, None], growth=c), walk_rows[b], walk_start)
    for name, c in growths.items()
    for b in (1, 3)
}
plain_walk = record_all(wide, rules.SPS(walk_caps[:, None], c=root_growth), walk_rows[1], walk_start)

# %%
L_wide = wide.smoothness.max()


def lemma_slack(steps_taken, growth):  # the three inequalities, relative to the cap
    c = torch.tensor([growth(k) for k in range(walk_steps)], **like)[:, None, None]
    product = c * steps_taken / walk_caps
    floor = torch.minimum(1 / (2 * L_wide), walk_caps) / walk_caps
    fall = -steps_taken.diff(dim=0) / walk_caps
    return torch.cat([(product - floor).flatten(), (1 - product).flatten(), fall.flatten()])


# %% tags=["hide-input"]
ledger.check(
    "thesis:lemma-4.2.1",
    "Every DecSPS step lies between the two curves and below the step before it",
    measured=torch.cat([lemma_slack(taken, growths[name]) for (name, _), (_, taken) in walked.items()]),
    criterion=inequality("c_kη_k − min{1/2L, c₀η_max}, c₀η_max − c_kη_k, η_{k−1} − η_k, over η_max"),
    control=control("SPS with the same divisor, worst", lemma_slack(plain_walk[1], root_growth).min()),
    expected="holds",
    show="card",
)

# %% [markdown]
# :::{prf:theorem} DecSPS converges to the minimizer
# :label: thesis-thm-4-2-1
# Let every $\ell_i$ be convex and $L_i$-smooth, $c_k\ge1$ non-decreasing. Put
# $\tilde L=\max\{L,\frac1{2c_0\eta_{\max}}\}$, and let $D=\max_{k<K}\lVert\theta_k-\theta^\star\rVert$ be the largest distance that the run reaches, a random number. Then
#
# $$
# \begin{aligned}
# \mathbb E[\mathcal L(\bar\theta_K)-\mathcal L^\star]\le\ &\frac{2c_{K-1}\tilde L\,\mathbb E D^2}K\\
# &+\frac1K\sum_{k<K}\frac{\hat\Delta_b}{c_k}.
# \end{aligned}
# $$
#
# :::
#
# :::{prf:corollary} The rate
# :label: thesis-cor-4-2-1
# With $c_k=\sqrt{k+1}$ the right side is at most $(2\tilde L\,\mathbb ED^2+2\hat\Delta_b)/\sqrt K$.
# :::
#
# *Why one should expect it.* The floor of SPS was $\Delta_b$ times a quotient of two step sizes. Here the proof divides by the step size
# first, and what is left of the floor is $\hat\Delta_b/c_k$, which vanishes as $c_k$ grows. No constant of the problem enters the
# method.
#
# *The key step.* Divide the expansion of the squared distance by $\eta_k$ **before** summing over $k$. The distances then appear with the
# coefficients $1/\eta_{k+1}-1/\eta_k$, and these are not negative because the step never rises. For SPS they may be, and the
# proof fails there.
#
# :::{dropdown} Proof
# Write $e_k=\lVert\theta_k-\theta^\star\rVert$, $u_k=\mathcal L_{S_k}(\theta_k)-\mathcal L_{S_k}(\theta^\star)$ and
# $\hat\delta_k=\mathcal L_{S_k}(\theta^\star)-m_{S_k}\ge0$.
#
# 1. *Fundamental inequality.* By {eq}`eq-polyak-steps-decsps`, $\eta_k\lVert g_k\rVert^2\le\frac1{c_k}(u_k+\hat\delta_k)$.
# 2. *Expansion and convexity.*
#    $e_{k+1}^2\le e_k^2-2\eta_ku_k+\frac{\eta_k}{c_k}(u_k+\hat\delta_k)$.
# 3. *Divide by $\eta_k$.*
#    $(2-\frac1{c_k})u_k\le\frac1{\eta_k}(e_k^2-e_{k+1}^2)+\frac1{c_k}\hat\delta_k$.
#    (It is tempting to replace the left side by $u_k$ at once, as $2-\frac1{c_k}\ge1$. But $u_k$ may be negative for a single batch;
#    in expectation it is not, and step 6 does it there.)
# 4. *Telescope.* Sum by parts. As $1/\eta_{k+1}\ge1/\eta_k$, the distances contribute at most
#    $D^2\bigl[\frac1{\eta_0}+\sum(\frac1{\eta_{k+1}}-\frac1{\eta_k})\bigr]-\frac{e_K^2}{\eta_{K-1}}$, where $k$ runs to $K-2$. The
#    bracket is $1/\eta_{K-1}$.
# 5. *Lower bound on the step.* By {prf:ref}`thesis-lemma-4-2-1`, $1/\eta_{K-1}\le2c_{K-1}\tilde L$.
# 6. *Expectation.* $\mathbb E[u_k\mid\theta_k]=\mathcal L(\theta_k)-\mathcal L^\star\ge0$ and $2-\frac1{c_k}\ge1$; also
#    $\mathbb E\hat\delta_k=\hat\Delta_b$. So
#
#    $$
#    \begin{aligned}
#    \sum_{k<K}&\mathbb E[\mathcal L(\theta_k)-\mathcal L^\star]+\mathbb E\frac{e_K^2}{\eta_{K-1}}\\
#    &\le2c_{K-1}\tilde L\,\mathbb ED^2+\sum_{k<K}\frac{\hat\Delta_b}{c_k} .
#    \end{aligned}
#    $$
#
#    Drop the term in $e_K$, divide by $K$ and use convexity for the mean iterate.
# 7. *Corollary.* $c_{K-1}=\sqrt K$ and $\sum_{k<K}\frac1{\sqrt{k+1}}\le2\sqrt K$. $\square$
# :::
#
# If the problem is interpolated and $m_S=\mathcal L_S^\star$,
# constant $c_k=1$ gives the rate $1/K$. The check again takes exact expectations over all sequences, of the line displayed in step 6. Two of its problems come close to the bound: the first step from $\theta^\star$, where the second term is needed, and
# a start far away with so large a divisor that a step hardly moves, where the first term is.


# %%
def theorem_sum(c, tilde, square, price):  # K times the right side, for K = 1, 2, ...; c (K, ...)
    return 2 * c * tilde * square + price * (1 / c).cumsum(0)


def theorem_slack(problem, start, scale, growth, lower, first=1.0, second=1.0):
    """Right minus left side of step 6; first and second multiply the two terms, for the control."""
    rule = rules.DecSPS(
        thm_caps[:, None],
        c0=scale,
        growth=growth,
        lower_bound=lambda k: lower[sequences[:, k, 0]][:, None, None],
    )
    star = problem.minimizer()
    path, taken = every_sequence(problem, rule, (star + start).expand(3, 2))
    away = (path - star).square().sum(-1)
    square = away[:-1].cummax(0).values.mean(1)  # mean of D^2, (K, caps)
    c = scale * torch.tensor([growth(k) for k in range(length)], **like)[:, None]
    tilde = torch.maximum(problem.smoothness.max(), 1 / (2 * scale * growth(0) * thm_caps))
    price = problem.oracle(star[None])[0] - lower.mean()
    left = mean_gaps(problem, path).cumsum(0) + (away[1:] / taken).mean(1)
    return theorem_sum(c, tilde, first * square, second * price) - left


# %%
thm_caps = torch.tensor([0.05, 1.0, 10.0], **like)
lowered = best_batch - torch.tensor([0.0, 0.5, 1.0], **like)  # bounds m_i below the minima
near, off_center = starts[0], starts[1]


def constants(**factors):  # where the first term is nearly needed, and where the second is
    far = theorem_slack(equal, off_center, 100.0, growths["constant"], nothing, **factors)[0]
    at_star = theorem_slack(three, near, 1.0, root_growth, best_batch, **factors)
    return far, at_star[0, 2:]  # the cap of 10 exceeds every quotient


# %% tags=["hide-input"]
ledger.check(
    "thesis:thm-4.2.1",
    "The exact expectation over all sequences obeys the bound, also where it is attained",
    measured=torch.stack(
        [
            theorem_slack(three, start, 1.0, growth, lower)
            for start in starts[:3]
            for growth in growths.values()
            for lower in (best_batch, lowered)
        ]
        + [theorem_slack(equal, off_center, 100.0, growths["constant"], nothing)]
    ),
    criterion=inequality("right minus left side of step 6", size=10.0),
    control=control(
        "first or second term a twentieth smaller where it is needed; a divisor of 1/100",
        torch.cat(
            [
                constants(first=0.95)[0],
                constants(second=0.95)[1],
                theorem_slack(three, near, 0.01, growths["constant"], best_batch)[-1, 2:],
            ]
        ),
    ),
    expected="holds",
    show="card",
)

# %% [markdown]
# Now a long run, on two parabolas of curvature ratio five. The bound of the corollary falls like
# $1/\sqrt K$. SPS stays at its wrong point, so its gap must cross the bound.
#
# The rows below this figure also test three remarks of the source, which explain the design of DecSPS. **The error of a Polyak step is of first order in the
# step**: it comes from the inner product $\eta_k\langle g_k,\theta_k-\theta^\star\rangle$, because $\eta_k$ and $g_k$ come from the same
# batch, and not from $\eta_k^2\lVert g_k\rVert^2$. So the usual conditions $\sum\eta_k=\infty$, $\sum\eta_k^2<\infty$
# do not help. **The sum over the distances needs a step that never rises.** **The floor does not contain the cap**, in contrast to
# {prf:ref}`thesis-thm-4-1-1`, at the price of $D^2$ in the first term.

# %%
long_steps, long_runs = (
    run.pick(smoke=1000, book=10_000, paper=100_000),
    run.pick(smoke=10, book=100, paper=400),
)
long_draws = torch.randint(2, (long_steps, long_runs), generator=run.generator("long"))
five = torch.tensor([5.0], **like)
theta_star, L_five, mu_five = 2 / 3, 5.0, 1.0


# %%
def rate(tilde, square, price, steps):  # right side of the corollary
    return (2 * tilde * square + 2 * price) / torch.as_tensor(steps, **like).sqrt()


long_rules = {"DecSPS": rules.DecSPS(cap=0.1), "SPS": rules.SPS(cap=0.1, c=root_growth)}
marks = ensembles.log_spaced(long_steps, per_decade=10)[1:]
gaps, reached = {}, {}
for name, rule in long_rules.items():
    found = ensembles.iterate(
        rules.Averaged(rule),
        tug(five, long_draws),
        torch.full((long_runs, 1, 1), theta_star + 1, **like),
        long_steps,
        record=marks,
        watch=lambda state: state.mean,
    )
    gaps[name] = 3 / 2 * (found.watched[:, :, 0, 0] - theta_star) ** 2  # the mean curvature is 3
    reached[name] = (found.values[:, :, 0, 0] - theta_star).square()
loss_at_star = torch.tensor([5 / 2 * (1 / 3) ** 2, 1 / 2 * (5 / 3) ** 2], **like)
price_mean, price_max = loss_at_star.mean(), loss_at_star.max()
# no iterate leaves the interval from -1 to the start, so D is at most its distance 5/3
rate_bound = rate(L_five, (5 / 3) ** 2, price_mean, marks)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**DecSPS stays below its bound and falls faster; SPS crosses it.** Gap of the mean iterate for two parabolas of curvature ratio 5, mean over seeds with 95 % band. Black: the bound of the corollary. What breaks it: SPS with the same divisor and cap (dashed) keeps the gap of its wrong point.", "name": "fig-polyak-steps-rate"}, "image": {"alt": "Log-log plot of gap against the number of steps. A blue curve with a band falls steadily below a black line; a dashed line turns flat and crosses the black line from below."}}
fig, ax = figures.subplots()
figures.band(ax, marks, gaps["DecSPS"].T, label="DecSPS", geometric=False)
ax.plot(marks, rate_bound, color=COLORS["black"], marker="", label="bound, $\\propto1/\\sqrt{K}$")
figures.line_control(ax, marks, gaps["SPS"].mean(1), label="SPS, decreasing")
ax.set(
    xscale="log",
    yscale="log",
    xlabel="steps $K$",
    ylabel="$\\mathcal{L}(\\bar{\\theta}_K)-\\mathcal{L}^\\star$",
)
ax.legend()
plt.show()

# %%
# theorem against corollary, and the coefficients 1/η_{k+1} − 1/η_k of the proof
late_slope = statistics.log_log_slope(marks[len(marks) // 2 :], gaps["DecSPS"].mean(1)[len(marks) // 2 :])
assert late_slope.estimate < -0.6 or run.scale == "smoke"
root_count = torch.arange(1, 1_000_001, **like)


def over_theorem(share=1.0):  # corollary over theorem, minus 1, for each term alone and for both; (K, 3)
    squares, prices = torch.tensor([25 / 9, 0.0, 25 / 9], **like), torch.tensor([0.0, 1.0, 1.0], **like)
    by_theorem = theorem_sum(root_count.sqrt()[:, None], L_five, squares, price_mean * prices)
    by_corollary = root_count[:, None] * rate(L_five, squares, price_mean * prices, root_count[:, None])
    return share * by_corollary / by_theorem - 1


def below(gap, bound):  # 1 - upper end of the interval of the mean gap, over the bound
    return (1 - statistics.mean_interval(gap, 0.999).high / bound).reshape(1)


# %%
def increments(steps_taken):  # coefficients of the telescope, relative to the last
    return (1 / steps_taken).diff(dim=0) * steps_taken[-1]


between = torch.tensor([0.05, 0.15, 0.3], **like)[:, None]  # between SPS's point 0 and the minimizer 1/3
divisor = torch.tensor([1.0, 10.0, 100.0, 1000.0], **like)
slopes = torch.stack([2 * (between - 1), between + 1])  # of the two parabolas, curvature ratio 2
heights = torch.stack([(between - 1) ** 2, (between + 1) ** 2 / 2])


def inner_product(eta):  # c times the mean of eta <g, theta - theta*>, over its predicted value
    return (divisor * eta * slopes * (between - 1 / 3)).mean(0) / (between * (between - 1 / 3) / 2) - 1


paths_by_cap = walked["root", 1][0]


def same_path(index):
    return (paths_by_cap[:, :, index] - paths_by_cap[:, :, 3]).abs().amax((0, -1))


# %% tags=["hide-input"]
figures.numbers(
    run,
    "fig-polyak-steps-rate",
    {"steps": marks, "decsps": gaps["DecSPS"].mean(1), "sps": gaps["SPS"].mean(1), "bound": rate_bound},
)
ledger.check(
    "thesis:cor-4.2.1",
    "The bound of order 1/√K is never below the theorem's, and the gap of the long run is below it",
    measured=torch.cat([over_theorem().flatten(), below(gaps["DecSPS"][-1], rate_bound[-1])]),
    criterion=inequality("corollary/theorem − 1 up to K = 10⁶; 1 − (L(θ̄_K) − L⋆)/bound"),
    control=control(
        "a bound one per cent lower, K = 10⁶; SPS with the same divisor and cap",
        torch.cat([over_theorem(0.99)[-1], 1 - gaps["SPS"][-1] / rate_bound[-1]]),
    ),
    expected="holds",
    needs="book",
)
ledger.check(
    "thesis:remark-d.1.2",
    "The coefficients of the telescope are not negative for DecSPS",
    measured=torch.stack([increments(taken).min() for _, taken in walked.values()]),
    criterion=inequality("1/η_{k+1} − 1/η_k, over 1/η_K"),
    control=control("SPS with a decreasing factor, worst", increments(plain_walk[1]).min()),
    expected="holds",
)
ledger.check(
    "thesis:remark-d.1.1",
    "Between the two points the mean SPS step moves away from the minimizer, in proportion to 1/c",
    measured=inner_product(heights / slopes**2 / divisor),
    criterion=identity("c 𝔼⟨ηg, θ − θ⋆⟩/[½θ(θ − θ⋆)] − 1, negative product", size=10.0),
    control=control("a step that does not look at the draw", inner_product(1 / (4 * divisor))),
    expected="holds",
)
ledger.check(
    "thesis:remark-d.1.3",
    "A cap above the first quotient has no influence on the path",
    measured=same_path(2),
    criterion=identity("‖θ_k(cap 10) − θ_k(cap 1000)‖", size=10.0),
    control=control("a cap of 0.02", same_path(0).min()),
    expected="holds",
)

# %% [markdown]
# :::{prf:remark} Bounded iterates are the usual assumption
# :label: thesis-remark-4-2-1
# The theorem is empty if $\mathbb ED^2$ is not bounded. Results for AdaGrad and its relatives assume the same, or bounded
# gradients {cite}`duchi2011adaptive,ward2019adagrad`. One can enforce it, by projecting every iterate onto a large ball. The next section
# proves it where every loss is strongly convex.
# :::
#
# **The dimension appears nowhere.** Coordinate-wise AdaGrad divides each coordinate $j$ by $\bigl(\sum_k[g_k]_j^2\bigr)^{1/2}$, and in its bounds the factor in front of $D^2$ is the sum of these divisors, which can be $\sqrt d$ times the root of the summed squared norms. For DecSPS the factor is
# $1/\eta_{K-1}\le2c_{K-1}\tilde L$, a number that a rotation into more coordinates does not change. The row below puts one problem with three parameters into $3$ to $3000$ dimensions by a random rotation and computes both factors along the runs.
# (SGD with a constant step has a factor without dimension, too, but that step must be known.)

# %%
dimensions = (3, 30, 300, 3000)


def inside(d):  # the problem with three parameters, rotated into d dimensions
    lift = torch.linalg.qr(torch.randn(d, 3, generator=run.generator("lift"), **like)).Q

    def oracle(theta, k):
        loss, gradient = wide.oracle(theta @ lift, walk_rows[1][k])
        return loss, gradient @ lift.T

    return oracle, torch.full((walks, 1, 3), 2.0, **like) @ lift.T


def last_state(rule, d, watch):
    oracle, begin = inside(d)
    return ensembles.iterate(rule, oracle, begin, walk_steps, [walk_steps], watch=watch).watched[-1]


def adagrad_factor(state):  # trace of the preconditioner over the root of the summed squared norms
    squares = state.sum_of_squares
    return squares.sqrt().sum(-1) / squares.sum(-1).sqrt()


decsps_factors = torch.stack(
    [1 / last_state(rules.DecSPS(), d, lambda state: state.step_size) for d in dimensions]
)
adagrad_factors = torch.stack([last_state(rules.AdaGrad(0.5), d, adagrad_factor) for d in dimensions])

# %% tags=["hide-input"]
ledger.check(
    "thesis:remark-4.2.2",
    "The factor 1/η_{K−1} of DecSPS is the same in 3, 30, 300 and 3000 dimensions",
    measured=decsps_factors[1:] / decsps_factors[0] - 1,
    criterion=identity("1/η_{K−1} in d dimensions over the same in three, minus 1", size=100.0),
    control=control(
        "sum of AdaGrad's divisors over the root of the summed squares",
        adagrad_factors[1:] / adagrad_factors[0] - 1,
    ),
    expected="holds",
)

# %% [markdown]
# ## Why the iterates stay bounded
#
# :::{prf:proposition} The iterates of DecSPS stay in a ball
# :label: thesis-prop-4-2-1
# Let every $\ell_i$ be $\mu_i$-strongly convex and $L_i$-smooth, $\mu=\min\mu_i$, $L=\max L_i$, $c_k=\sqrt{k+1}$, and
# $\hat\Delta_{\max}=\max_S[\mathcal L_S(\theta^\star)-m_S]$. For every sequence of batches and all $k$,
#
# $$
# \begin{aligned}
# \lVert\theta_k-\theta^\star\rVert^2&\le D_{\max}^2,\\
# D_{\max}^2&=\max\bigl\{\lVert\theta_0-\theta^\star\rVert^2,B\bigr\},\\
# B&=\frac{2\eta_{\max}\hat\Delta_{\max}}{\min\{\mu/2L,\,\mu\eta_{\max}\}}.
# \end{aligned}
# $$
# :::
#
# *Why one should expect it.* In each step strong convexity reduces the squared distance by at least the share $\mu\eta_k$, and a batch that disagrees increases it by at most
# $2\eta_k\hat\Delta_{\max}$. Both shrink like $1/\sqrt{k+1}$, so the distance at which they balance stays the same.
#
# *The key step.* The distance obeys a linear recursion with coefficients $1-a/\sqrt{k+1}$ and $b/\sqrt{k+1}$. Such a
# sequence never exceeds the larger of its start and $b/a$.
#
# :::{prf:lemma} A recursion that does not grow
# :label: thesis-lemma-d-1-1
# Let $z_{k+1}=(1-\frac a{\sqrt{k+1}})z_k+\frac b{\sqrt{k+1}}$ with $z_0>0$, $0<a\le1$ and $b>0$. Then
# $z_k\le\max\{z_0,b/a\}$ for all $k$.
# :::
#
# :::{dropdown} Proof of lemma and proposition
# 1. *Lemma.* As $0\le a/\sqrt{k+1}\le1$, $z_{k+1}$ is a weighted mean of $z_k$ and $b/a$ with weights that are not negative.
#    So it is at most the larger of the two; induct. (The same with $\le$ in the recursion.)
# 2. *One step.* Expansion and the fundamental inequality as in the proof of {prf:ref}`thesis-thm-4-2-1`, and strong
#    convexity of $\mathcal L_{S_k}$ at $\theta_k$, give with $h_k=\mathcal L_{S_k}(\theta_k)-m_{S_k}\ge0$
#
#    $$
#    \begin{aligned}
#    e_{k+1}^2\le{}&(1-\mu\eta_k)e_k^2\\
#    &-\bigl(2-\tfrac1{c_k}\bigr)\eta_kh_k+2\eta_k\hat\delta_k .
#    \end{aligned}
#    $$
#
# 3. *Drop the middle term*, which is not positive as $c_k\ge1$, and use $\hat\delta_k\le\hat\Delta_{\max}$.
# 4. *Both sides of the step.* $c_0=1$, so by {prf:ref}`thesis-lemma-4-2-1`
#    $\min\{\frac1{2L},\eta_{\max}\}\le\sqrt{k+1}\,\eta_k\le\eta_{\max}$. With $a=\min\{\frac\mu{2L},\mu\eta_{\max}\}$ and
#    $b=2\eta_{\max}\hat\Delta_{\max}$ the squared distance obeys the lemma's recursion with $\le$, and
#    $a\le\frac12$ because $\mu\le L$. $\square$
# 5. *A smaller ball.* Step 4 bounds the same $\eta_k$ from below in one place and from above in the other. Keep it as it is: if
#    $\mu\eta_k\le1$, steps 2 and 3 make $e_{k+1}^2$ at most a weighted mean of $e_k^2$ and $2\hat\Delta_{\max}/\mu$, else at most
#    $2\eta_{\max}\hat\Delta_{\max}$. So $B$ may be replaced by
#    $B'=2\hat\Delta_{\max}\max\{\frac1\mu,\eta_{\max}\}$. If $m_S=\mathcal L_S^\star$, then $\eta_k\le1/2\mu$ unless $g_k=0$, and $2\hat\Delta_{\max}/\mu$ will do.
# :::
#
# The proposition speaks of *every* sequence, so the check lets an adversary choose: at each step it takes the sample that
# leads farthest away. The check uses the smaller ball of step 5, with $B'$ in place of $B$, because runs can fill it: on round parabolas the adversary draws the farthest minimum for ever, and in the limit the iterates reach the boundary.
# (For caps above $1/\mu$ with a lower bound $m_S$ that is too low, the runs that we tried fill about two fifths of the squared radius only.)


# %%
# largest squared distance that a greedy adversary reaches
def adversary(problem, cap, theta, steps):
    star, n = problem.minimizer(), len(problem.centers)
    everyone = torch.arange(n)[:, None]
    far, smallest = (theta - star).square().sum(), cap
    for k in range(steps):
        loss, gradient = problem.oracle(theta.expand(n, 1, -1), everyone)
        loss, gradient = loss[:, 0], gradient[:, 0]
        low = torch.minimum(loss / gradient.square().sum(-1), smallest)
        options = theta - low[:, None] / root_growth(k) * gradient
        chosen = (options - star).square().sum(-1).argmax()
        theta, smallest = options[chosen], low[chosen]
        far = torch.maximum(far, (theta - star).square().sum())
    return far


# squared radius with B' in the place of B; the lower bound is zero
def guaranteed(problem, cap, theta, share=1.0):
    star, n = problem.minimizer(), len(problem.centers)
    at_star = problem.oracle(star.expand(n, 1, -1), torch.arange(n)[:, None])
    worst = at_star[0].max()
    balance = 2 * worst * max(1 / problem.strong_convexity.min(), cap)
    return share * torch.maximum((theta - star).square().sum(), balance)


# %%
round_ones = QuadraticSum(
    2 * torch.eye(2, **like).expand(4, 2, 2), torch.tensor([[3, 0], [-1, 1], [-1, -1], [0, 0]], **like)
)
floors = (torch.zeros(4, **like), torch.ones(4, **like))  # the bound zero is exact, or one too low
cases = [
    (replace(random_quadratics(f"adversary {i}", 4, 2), floors=floors[i % 2]), torch.tensor(cap, **like), 0.5)
    for i in range(run.pick(smoke=2, book=4, paper=10))
    for cap in (0.1, 1.0, 10.0)
]
lone = QuadraticSum(torch.eye(2, **like)[None], torch.zeros(1, 2, **like), torch.ones(1, **like))
cases.append((lone, torch.tensor(10.0, **like), 0.23))  # a first step far too long, by the low bound
cases += [(round_ones, torch.tensor(cap, **like), 0.1) for cap in (0.2, 0.25, 0.5)]  # 1/2L = 0.25, 1/μ = 0.5
greedy_steps = run.pick(smoke=100, book=400, paper=4000)
realized = torch.stack([adversary(q, cap, q.minimizer() + shift, greedy_steps) for q, cap, shift in cases])
allowed = torch.stack([guaranteed(q, cap, q.minimizer() + shift) for q, cap, shift in cases])
tight = realized[-3:]

# %%
a_values = torch.tensor([0.05, 0.3, 0.7, 1.0], **like)


def recursion(a, b, z, steps=200):  # all z_k, (steps + 1, *shape)
    path = [z]
    for k in range(steps):
        path.append((1 - a / root_growth(k)) * path[-1] + b / root_growth(k))
    return torch.stack(path)


sequence = recursion(a_values, 0.3, torch.tensor([0.2, 1.0, 4.0], **like)[:, None].expand(3, 4))
ceiling = torch.maximum(sequence[0], 0.3 / a_values)
too_fast = recursion(torch.tensor([2.5, 3.0], **like), 0.1, torch.ones(2, **like))
a_random, b_random, z_random = (
    torch.rand(3, 300, generator=run.generator("recursion"), dtype=run.dtype) + 1e-3
)
a_random = a_random.clamp(max=1.0)
top_of_all = torch.maximum(z_random, b_random / a_random)

# %% tags=["hide-input"]
ledger.check(
    "thesis:prop-4.2.1",
    "No adversary leaves the guaranteed ball, nor the smaller one",
    measured=1 - realized / allowed,
    criterion=inequality("1 − max ‖θ_k − θ⋆‖²/squared radius, with B′ in the place of B"),
    control=control(
        "a squared radius one per cent smaller, round parabolas",
        1 - tight / torch.stack([guaranteed(q, cap, q.minimizer(), 0.99) for q, cap, _ in cases[-3:]]),
    ),
    expected="holds",
    show="card",
)
ledger.check(
    "thesis:lemma-d.1.1",
    "The recursion never exceeds the larger of its start and b/a",
    measured=1 - recursion(a_random, b_random, z_random).amax(0) / top_of_all,
    criterion=inequality("1 − max z_k/max{z₀, b/a}", size=10.0),
    control=control("a > 1", 1 - too_fast.amax(0)),
    expected="holds",
)

# %% [markdown]
# {numref}`fig-polyak-steps-bounded` shows sequences of the lemma and, for each problem, how much of the guaranteed ball the adversary fills.

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Neither the recursion nor an adversary passes its bound, and both attain it.** Top: the sequences of the lemma (solid) never pass the larger of start and $b/a$ (dotted); what breaks it: $a=3$ (dashed) overshoots. Bottom: squared distance that a greedy adversary reaches, over the squared radius with $B'$, for random problems and three caps each; the last three bars are round parabolas.", "name": "fig-polyak-steps-bounded"}, "image": {"alt": "Top: curves against the step number that fall or rise towards dotted horizontal lines, and a dashed curve that swings above its start. Bottom: bars on a log scale, all below one, the last three reaching one."}}
fig, (top, bottom) = figures.subplots(2, 1, size=(6.0, 6.0))
for start_index, a_index in ((0, 0), (2, 1), (1, 3)):
    (line,) = top.plot(
        range(201), sequence[:, start_index, a_index], marker="", label=f"$a={a_values[a_index]:g}$"
    )
    top.axhline(ceiling[start_index, a_index], color=line.get_color(), ls=":")
figures.line_control(top, range(201), too_fast[:, 1], label="$a=3$")
top.set(xlabel="step $k$", ylabel="$z_k$", xscale="symlog", xlim=(0, 200))
top.legend(fontsize=8, ncol=2)
bars = [COLORS["blue"]] * (len(cases) - 3) + [COLORS["vermillion"]] * 3
bottom.bar(range(1, len(cases) + 1), realized / allowed, color=bars)
bottom.axhline(1, color=COLORS["black"], ls=":")
bottom.set(yscale="log", xlabel="problem and cap", ylabel="realized / guaranteed")
plt.show()

# %% [markdown]
# With $D\le D_{\max}$ the corollary needs no further assumption.
#
# :::{prf:theorem} DecSPS without bounded iterates
# :label: thesis-thm-4-2-2
# Under the assumptions of {prf:ref}`thesis-prop-4-2-1`,
# $\mathbb E[\mathcal L(\bar\theta_K)-\mathcal L^\star]\le(2\tilde LD_{\max}^2+2\hat\Delta_b)/\sqrt K$.
# :::
#
# :::{prf:remark} Slower than strong convexity allows
# :label: thesis-remark-4-2-3
# For strongly convex losses the optimal rate is $1/K$. It is reached by steps that use $\mu$; for adaptive methods that
# know neither $\mu$ nor $L$ and assume no bounded domain, the source leaves it open. The measured gap in
# {numref}`fig-polyak-steps-rate` falls faster than the bound.
# :::
#
# **Plain stochastic descent has to be tuned first.** With $\eta_k=\eta/\sqrt{k+1}$ and $\eta$ far too large, the first
# hundreds of steps multiply the distance until it overflows. DecSPS stays in its ball whatever the cap. The check tries caps up to $10^4$ on the parabolas of ratio five, where the lower bound zero is exact and the ball is the same for every cap. One of the runs draws the flat parabola for ever and fills the ball, so that $D$ in the theorem is as large as the ball allows.

# %%
wild_caps = torch.tensor([0.1, 1.0, 10.0, 1e4], **like)
wild_draws = long_draws[: run.pick(smoke=1000, book=1000, paper=1000), :20].clone()
wild_draws[:, -1] = 1  # one run that draws the flat parabola for ever
ball = torch.maximum(torch.tensor(1.0, **like), 2 * price_max / mu_five)


def farthest(rule, count):  # largest squared distance over the run, (runs, grid)
    begin = torch.full((wild_draws.shape[1], count, 1), theta_star + 1, **like)
    path = ensembles.iterate(
        rule, tug(five.expand(count), wild_draws), begin, len(wild_draws), range(len(wild_draws) + 1)
    ).values[..., 0]
    return (path - theta_star).square().amax(0)


wild = farthest(rules.DecSPS(wild_caps[:, None]), 4)
filled = rate(L_five, wild[-1], price_mean, long_steps)  # the corollary with D of the run that fills the ball
guarantee = rate(L_five, ball, price_mean, long_steps)

# %% tags=["hide-input"]
ledger.check(
    "thesis:remark-4.2.4",
    "DecSPS stays in its ball for every cap",
    measured=1 - wild / ball,
    criterion=inequality("1 − max ‖θ_k − θ⋆‖²/squared radius"),
    control=control(
        "stochastic gradient descent with η = 10; a squared radius one fiftieth smaller",
        torch.cat(
            [
                1 - farthest(rules.GradientDescent(lambda k: 10.0 / root_growth(k)), 1)[:, 0] / ball,
                1 - wild[-1] / (0.98 * ball),
            ]
        ),
    ),
    expected="holds",
)
ledger.check(
    "thesis:thm-4.2.2",
    "With the guaranteed distance the bound exceeds the corollary's; the long run's gap is below it",
    measured=torch.cat([guarantee / filled - 1, below(gaps["DecSPS"][-1], guarantee)]),
    criterion=inequality("bound with D_max/bound with D − 1; 1 − (L(θ̄_K) − L⋆)/bound with D_max"),
    control=control(
        "a squared radius one fiftieth smaller; SPS with the same divisor and cap",
        torch.cat(
            [
                rate(L_five, 0.98 * ball, price_mean, long_steps) / filled - 1,
                1 - gaps["SPS"][-1] / guarantee,
            ]
        ),
    ),
    expected="holds",
    needs="book",
)

# %% [markdown]
# ## Against tuned rivals
#
# What does DecSPS gain on data? The source compares it on logistic regression with a ridge: the sets a1a (binary features of adults, from the LIBSVM collection; ridge $0.01$) and breast cancer (ridge $0.1$). DecSPS uses $c_0=1$, $\eta_{\max}=10$, $c_k=\sqrt{k+1}$ and the lower bound zero, untuned. Each rival gets the best of
# **nine** step sizes, chosen by its mean *gap* (mean loss above its minimum) at the end:
#
# - SGD with $\eta/\sqrt{k+1}$;
# - AdaGrad-Norm {cite}`ward2019adagrad`, one step $\eta/b_{k+1}$ for all coordinates with $b_{k+1}^2=b_k^2+\lVert g_k\rVert^2$ and $b_0=0.1$, so that the gradient of the step counts in its own divisor (the authors' published code leaves the very first gradient out);
# - Adam {cite}`kingma2015adam` with constant $\eta$, and AMSGrad {cite}`reddi2018convergence`, Adam with a running maximum in the divisor, with $\eta/\sqrt{k+1}$; both with $\beta_1=0$ as in the source.
#
# Batch size, number of steps, grids and start are not given there. For the figures on breast cancer we take them from the authors' public notebooks ([aorvieto/DecSPS](https://github.com/aorvieto/DecSPS)). For the others we took batches of 20 and 3,000 steps, with the mean of the gap at ten late
# steps as the gap at the end. The start turned out to decide the ranking, so we ran *two*: zero, and a standard normal vector, called *far*. The verdicts are taken from zero, the usual start for a convex loss. **We chose it after we had seen both.**
#
# First on the sets that ship with the library, computed live: the Wisconsin breast cancer data with 30 inputs, and for a1a
# the digits, those above 4 against the others.

# %%
rival_seeds = run.seeds(smoke=4, book=12, paper=20)
rival_steps = run.pick(smoke=200, book=3000, paper=3000)
live = {
    name: comparison.compare(comparison.shipped(name), rival_seeds, rival_steps)
    for name in ("digits", "breast-cancer")
}
true_files = {
    (name, start): results.load("adaptivity/polyak_steps", f"{name}-{start}").arrays
    for name in ("a1a", "breast-cancer")
    for start in ("zero", "far")
}
named = {
    "decsps": "DecSPS",
    "sgd": "SGD",
    "adagrad_norm": "AdaGrad-Norm",
    "adam": "Adam",
    "amsgrad": "AMSGrad",
}
inks = {
    method: COLORS[name]
    for method, name in zip(named, ("blue", "dark grey", "vermillion", "green", "purple"), strict=True)
}


# %%
def draw_gaps(ax, arrays):
    for method, title in named.items():
        gap = np.asarray(arrays[f"{method}_gap"])[1:]
        at = np.asarray(arrays["record"])[1:]
        figures.band(ax, at, gap.T, label=title, color=inks[method], geometric=True)
    ax.set(xscale="log", yscale="log")


def log_shares(name):  # ln(gap of DecSPS/gap of the best SGD step) at the end, one value a seed
    arrays = live[name]
    tuned = arrays["sgd_final"][:, arrays["sgd_best"]]
    return (arrays["decsps_final"][:, 0] / tuned).log()


# %% tags=["hide-input"] mystnb={"figure": {"caption": "**The shipped sets: untuned DecSPS keeps up on one and not on the other.** Training loss above its minimum from zero, best of nine step sizes for every rival; geometric mean over twelve seeds with 95 % interval. The control for every method is SGD with the smallest step of its grid (dashed).", "name": "fig-polyak-steps-shipped"}, "image": {"alt": "Two stacked log-log panels of the gap against the step number with five curves and bands each. On digits DecSPS ends above the others; on breast cancer it ends among the lowest."}}
fig, axes = figures.subplots(2, 1, size=(6.0, 6.6))
for ax, (name, arrays) in zip(axes, live.items(), strict=True):
    draw_gaps(ax, arrays)
    ends = np.asarray(arrays["sgd_final"]).mean(0)
    figures.line_control(
        ax, [rival_steps / 10, rival_steps], [ends[0], ends[0]], label="SGD, $\\eta=0.01$, end"
    )
    ax.set(title=name, ylabel="$\\mathcal{L}(\\theta_k)-\\mathcal{L}^\\star$")
axes[1].set_xlabel("step $k$")
axes[0].legend(fontsize=8, ncol=2)
plt.show()

# %% [markdown]
# On breast cancer DecSPS ends among the best. On the digits it ends several times above tuned SGD; the row tests this.

# %% tags=["hide-input"]
ledger.check(
    "thesis:beyond-polyak-shipped",
    "Digits, from zero: untuned DecSPS ends above twice the gap of the best of nine SGD steps",
    measured=log_shares("digits"),
    criterion=confident("ln(gap of DecSPS/gap of tuned SGD) (ln 2)", at_least=math.log(2)),
    control=control("breast cancer", log_shares("breast-cancer")),
    expected="reproduced",
    claim="experiment",
    seeds=rival_seeds,
    needs="book",
    rtol=1e-3,
)

# %% [markdown]
# ### In the set-up of the authors' notebooks
#
# For breast cancer the notebooks have scikit-learn's 30 standardized inputs without an intercept, the loss $\frac1n\sum_i\frac12\ln(1+e^{-y_ix_i^\top\theta})+\frac{0.1}2\lVert\theta\rVert^2$, 59,319 steps and one normal start; batches of 5 against AdaGrad-Norm, of 20 against AMSGrad, without repetition. Their targets are $0$ and $1$, although
# the loss is made for $\pm1$: a sample with the target $0$ adds only a constant. We ran their targets, and for AdaGrad-Norm $\pm1$ as well, with 20 seeds and nine step sizes around the best ones, by `python -m learning_dynamics.experiments.polyak_steps.notebook_comparison`. The results are kept; the page recomputes the first thousand steps of two seeds.
# The verdicts are taken from the notebooks' own targets.

# %%
twenty_seeds = list(range(20))
notebooks = {
    setup: results.load("adaptivity/polyak_steps", f"notebook-{setup}").arrays for setup in notebook.SETUPS
}
recorded = [int(k) for k in notebooks["amsgrad"]["record"] if k <= (100 if run.scale == "smoke" else 1000)]
for setup, method in (("adagrad-norm", "decsps"), ("amsgrad", "amsgrad")):  # recomputed here
    place = int(notebooks[setup][f"{method}_best"])
    again = notebook.run_method(setup, method, [0, 1], recorded[-1], recorded, place=place)
    kept_gap = notebooks[setup][f"{method}_gap"][: len(recorded), :2]
    results.agree({"gap": kept_gap}, {"gap": again["gap"]}, rtol=1e-6)


# %%
def notebook_end(setup, method, setting=None):  # gap at the end, one value a seed
    arrays = notebooks[setup]
    setting = int(arrays[f"{method}_best"]) if setting is None else setting
    return arrays[f"{method}_final"][:, setting]


def both_ends(setup, rival, c0=None):  # DecSPS with its default or another c₀, and the rival at its best step
    mine = notebook_end(setup, "decsps") if c0 is None else notebook_end(setup, "decsps_c0", c0)
    return {"DecSPS": mine, f"tuned {rival}": notebook_end(setup, rival.lower().replace("-", "_"))}


def default_lead(setup, default=2):  # ln(gap at the best other c₀/gap at the default), one value a seed
    ends = notebooks[setup]["decsps_c0_final"]
    others = np.delete(ends, default, axis=1)
    return np.log(others[:, others.mean(0).argmin()] / ends[:, default])


by_cap = notebooks["adagrad-norm"]["decsps_cap_final"]  # caps 0.1, 1, 10, 100, 1000
assert np.allclose(by_cap[:, 3:], by_cap[:, 2:3], rtol=1e-6, atol=0)
assert (by_cap[:, :2].mean(0) > by_cap[:, 2].mean()).all()


# %%
def gap_by_divisor(name, values=(0.25, 0.5, 1.0, 2.0, 4.0)):  # shipped set from zero, mean over seeds
    loss = comparison.shipped(name)
    n, d = loss.inputs.shape
    drawn = torch.randint(n, (rival_steps, len(rival_seeds), 20), generator=run.generator(name))
    found = ensembles.iterate(
        rules.DecSPS(c0=torch.tensor(values, **like)[:, None]),
        batches(loss, drawn),
        torch.zeros(len(rival_seeds), len(values), d, **like),
        rival_steps,
        comparison.records(rival_steps),
        lambda theta: loss.oracle(theta)[0],
    )
    return comparison.final(found.values - loss.minimum()).mean(0)


by_divisor = {name: gap_by_divisor(name) for name in live}


# %% tags=["hide-input"] mystnb={"figure": {"caption": "**In the authors' set-up untuned DecSPS ends below AdaGrad-Norm at every step size, and above AMSGrad at its best.** Breast cancer. Left: AdaGrad-Norm, batches of 5. Right: AMSGrad, batches of 20. Gap at the end against the rival's step size, mean and 95 % interval over 20 seeds; blue: DecSPS with its defaults. Kept results. What breaks DecSPS: another $c_0$ (dashed).", "name": "fig-polyak-steps-notebook"}, "image": {"alt": "Two log-log panels. In each a V-shaped curve of the rival, a horizontal blue line near its lowest point and a dashed line far above."}}
fig, panels = figures.subplots(1, 2, size=(8.4, 3.9), sharey=True)
cases_36 = (("adagrad-norm", "adagrad_norm", -1, "$c_0=4$"), ("amsgrad", "amsgrad", 0, "$c_0=1/4$"))
for ax, (setup, method, place, other) in zip(panels, cases_36, strict=True):
    arrays = notebooks[setup]
    grid = arrays[f"{method}_grid"]
    figures.band(ax, grid, arrays[f"{method}_final"], label=named[method], color=inks[method], geometric=True)
    ours = np.repeat(notebook_end(setup, "decsps")[:, None], 2, axis=1)
    figures.band(ax, [grid[0], grid[-1]], ours, label="DecSPS, untuned", color=inks["decsps"], geometric=True)
    worst = notebook_end(setup, "decsps_c0", place).mean()
    figures.line_control(ax, [grid[0], grid[-1]], [worst, worst], label=f"DecSPS, {other}")
    ax.set(xscale="log", yscale="log", xlabel="$\\eta$ of the rival", title=f"against {named[method]}")
    ax.legend(fontsize=8)
panels[0].set(ylabel="gap after 59,319 steps")
plt.show()

# %% [markdown]
# The rows compare the ends seed by seed. The control is DecSPS itself with another $c_0$, which divides every step.


# %% tags=["hide-input"]
def rival_row(id, setup, rival, place, c0, **verdict):
    return (
        id,
        f"Breast cancer, authors' set-up: untuned DecSPS ends below {rival} at the best of nine steps",
        both_ends(setup, rival),
        control(f"DecSPS with c₀ = {c0}", both_ends(setup, rival, place)),
        {"criterion": ordering("gap at the end", ["DecSPS", f"tuned {rival}"])} | verdict,
    )


ledger.check_each(
    rival_row("thesis:fig-34", "adagrad-norm", "AdaGrad-Norm", 3, "2", expected="reproduced", show="card"),
    rival_row(
        "thesis:fig-36",
        "amsgrad",
        "AMSGrad",
        0,
        "1/4",
        expected="not reproduced",
        reason="AMSGrad with the step size 0.03 ends at half the gap of DecSPS, in all 20 seeds. The best of the "
        "notebook's own step sizes, 0.1, ends above DecSPS: the finer grid decides.",
    ),
    (
        "thesis:claim-decsps-defaults",
        "c₀ = 1 ends lowest of five values in both of the notebooks' set-ups",
        np.minimum(default_lead("adagrad-norm"), default_lead("amsgrad")),
        control(
            "c₀ = 1/4 in the place of 1",
            np.minimum(default_lead("adagrad-norm", 0), default_lead("amsgrad", 0)),
        ),
        {
            "criterion": confident(
                "ln(gap at the best other c₀/gap at c₀ = 1), the smaller of two set-ups", at_least=0.0
            ),
            "expected": "not reproduced",
            "reason": "With batches of 5 c₀ = 1 is the best of five values; with batches of 20 c₀ = 4 ends almost five "
            "times lower.",
        },
    ),
    claim="experiment",
    seeds=twenty_seeds,
)

# %% [markdown]
# With the targets $\pm1$ DecSPS is ahead of AdaGrad-Norm in the mean and in 18 of 20 seeds, but the 99.9 % interval of the difference contains zero; $c_0=1$ and $c_0=\frac12$ tie there.
# A larger cap than $10$ changes nothing at all, since the first quotients are smaller. **The first hyper-parameter, $c_0$, divides every step**, as the step size of SGD multiplies it, and it matters, in no direction that is
# known beforehand: with batches of 5 the value $2$ ends hundreds of times higher than $1$, with batches of 20 the value $4$ ends four to five times lower, and on the digits $c_0=\frac14$ ends about seven times lower (table below).
#
# The source says that $c_0=1$ with the cap $10$ "yields consistent result", and does not say what it compares. The row above takes the strong reading, that $c_0=1$ is the best value in both set-ups; it is false for batches of 20. A weaker reading came to our mind only after we had seen these runs:
# of the five values $c_0=1$ has the least *worst case* over the two set-ups, the larger of the two values of $\ln(\text{gap}/\text{least gap of the five }c_0)$. On these runs it is true, which proves nothing. So we fixed this reading, and then tested it on two sets that had no part in its choice: diabetes (is the target above its median?) and
# the digits (above 4?), with the loss, the inputs and the two batch sizes of the notebooks, new seeds, and 10,000 steps.

# %%
fresh_seeds = [2000 + s for s in run.seeds(smoke=4, book=20, paper=20)]
fresh_steps = run.pick(smoke=100, book=10_000, paper=10_000)
divisors = torch.tensor([0.25, 0.5, 1.0, 2.0, 4.0], **like)[:, None]


def fresh_ends(name):  # ln(gap at the end) for batches of 5 and of 20, (2, seeds, five c₀)
    shipped = data.load(name)
    targets = torch.as_tensor(shipped.targets, **like)
    inputs = torch.as_tensor(shipped.inputs, **like).reshape(len(targets), -1)
    inputs = inputs[:, inputs.std(0) > 0]
    inputs = (inputs - inputs.mean(0)) / inputs.std(0, correction=0)
    border = targets.median() if name == "diabetes" else 4
    loss = notebook.NotebookLoss(inputs, (targets > border).to(inputs))
    begin = torch.as_tensor(np.random.RandomState(10).randn(inputs.shape[1]), **like)
    begin, marks, ends = begin.expand(len(fresh_seeds), 5, -1), comparison.records(fresh_steps), []
    for size in (5, 20):
        rows = notebook.minibatches(len(targets), size, fresh_steps, fresh_seeds)
        found = ensembles.iterate(
            rules.DecSPS(c0=divisors),
            batches(loss, rows),
            begin,
            fresh_steps,
            marks,
            lambda th: loss.oracle(th)[0],
        )
        ends.append(comparison.final(found.values - loss.minimum()).log().numpy())
    return np.stack(ends)


# %%
def worst_case_lead(ends, default=2):  # worst case at the best other c₀ minus that at the default, one a seed
    worst = (ends - ends.min(-1, keepdims=True)).max(0)  # (seeds, five c₀)
    others = np.delete(worst, default, axis=1)
    return others[:, others.mean(0).argmin()] - worst[:, default]


first_ends = np.log([notebooks[setup]["decsps_c0_final"] for setup in ("adagrad-norm", "amsgrad")])
assert statistics.mean_interval(torch.as_tensor(worst_case_lead(first_ends))).low > 0  # where we found it
fresh = [fresh_ends(name) for name in ("diabetes", "digits")]

# %% tags=["hide-input"]
ledger.check(
    "thesis:beyond-decsps-worst-case",
    "Two new sets: of five values of c₀ the value 1 has the least worst case over batches of 5 and of 20",
    measured=np.minimum(*(worst_case_lead(ends) for ends in fresh)),
    criterion=confident(
        "worst case of ln(gap/least gap) at the best other c₀, minus the same at c₀ = 1, the smaller of two sets",
        at_least=0.0,
    ),
    control=control("c₀ = 1/4 in the place of 1", np.minimum(*(worst_case_lead(ends, 0) for ends in fresh))),
    expected="not reproduced",
    claim="experiment",
    seeds=fresh_seeds,
    needs="book",
    rtol=1e-3,
    reason="On diabetes the gap falls as c₀ grows with both batch sizes, and c₀ = 4 has the least worst case; on the "
    "digits c₀ = 1/2 has the least in the mean, without a clear difference.",
)

# %% [markdown]
# The weaker reading is false on the new sets, too: on diabetes the largest value, $c_0=4$, ends lowest in the mean with both batch sizes. What is left of the source's sentence is that a larger cap has no influence. None of the five values of $c_0$ is the best on all sets.
#
# ### The true files
#
# The LIBSVM files cannot be shipped with the book. They were run once by
# `python -m learning_dynamics.experiments.polyak_steps.step_size_comparison --files FOLDER`, the same code as for the shipped sets with 20 seeds, and the curves are kept. So
# this page does not compute any part of {numref}`fig-polyak-steps-true`, {numref}`fig-polyak-steps-step-sizes` and their rows again.

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**The start decides the ranking.** The true LIBSVM files, 20 seeds, geometric mean with 95 % interval, kept results. From zero (left) untuned DecSPS ends close to the tuned rivals. From the far start (right) it is far behind on a1a, and ahead of AdaGrad-Norm, Adam and AMSGrad on breast cancer. What breaks it is a small ridge together with a far start.", "name": "fig-polyak-steps-true"}, "image": {"alt": "Four log-log panels. Left: five bunched curves on each set. Upper right: the blue DecSPS curve stays far above the others. Lower right: it lies with SGD below the other three."}}
fig, axes = figures.subplots(2, 2, size=(6.4, 6.0), sharey="row", sharex=True)
for (name, start), ax in zip(true_files, axes.flat, strict=True):
    draw_gaps(ax, true_files[name, start])
    ax.set_title(f"{name}, {start}")
for ax in axes[:, 0]:
    ax.set_ylabel("$\\mathcal{L}(\\theta_k)-\\mathcal{L}^\\star$")
for ax in axes[1]:
    ax.set_xlabel("step $k$")
axes[0, 0].legend(fontsize=8)
plt.show()


# %%
def end(name, start, method):  # gap at the end, one value a seed, at the rival's best step size
    arrays = true_files[name, start]
    return arrays[f"{method}_final"][:, int(arrays[f"{method}_best"])]


def shares(name, start, method):
    return end(name, start, "decsps") / end(name, start, method)


def pair(name, start, method):
    return {"DecSPS": end(name, start, "decsps"), f"tuned {named[method]}": end(name, start, method)}


def worst_sgd(name, method):  # the largest step of SGD in the place of DecSPS
    broken = true_files[name, "zero"]["sgd_final"][:, -1]
    return pair(name, "zero", method) | {"DecSPS": broken}


three_rivals = np.stack([end("breast-cancer", "far", m) for m in ("adagrad_norm", "adam", "amsgrad")])

# %% tags=["hide-input"]
figures.numbers(
    run,
    "fig-polyak-steps-true",
    {"step": true_files["a1a", "zero"]["record"]}
    | {
        f"{name.replace('-', '_')}_{start}_{method}": np.exp(np.log(arrays[f"{method}_gap"]).mean(1))
        for (name, start), arrays in true_files.items()
        for method in named
    },
)
ledger.check(
    "thesis:fig-33",
    "a1a, from zero: untuned DecSPS ends no higher than SGD at the best of nine steps",
    measured=np.log(shares("a1a", "zero", "sgd")),
    criterion=confident("ln(gap of DecSPS/gap of tuned SGD)", at_most=0.0),
    control=control("the far start", np.log(shares("a1a", "far", "sgd"))),
    expected="not reproduced",
    claim="experiment",
    seeds=twenty_seeds,
    reason="The source says competitively, without a number. DecSPS ends 1.4 times higher in the geometric mean, "
    "interval 1.01 to 2.08, and higher in nineteen of twenty seeds; from the far start twenty times higher.",
)
ledger.check(
    "thesis:fig-35",
    "a1a, from zero: untuned DecSPS ends below Adam at the best of nine steps",
    measured=pair("a1a", "zero", "adam"),
    criterion=ordering("gap at the end", ["DecSPS", "tuned Adam"]),
    control=control("SGD with the largest step of its grid as DecSPS", worst_sgd("a1a", "adam")),
    expected="partly",
    claim="experiment",
    seeds=twenty_seeds,
    reason="From zero DecSPS is ahead in the mean, with an interval that contains zero; from the far start Adam is ahead.",
)

# %% [markdown]
# Of its figure 33 (a1a, against SGD) the source says that DecSPS performs "competitively", without a number. The row asks whether DecSPS ends no higher. From zero it ends higher in nineteen of twenty seeds, by a factor of 1.4 in the
# geometric mean, which one may still call competitive. The far start changes the picture on both sets: on a1a DecSPS falls far behind SGD and behind Adam, on breast cancer it ends ahead of AdaGrad-Norm, Adam and AMSGrad:

# %% tags=["hide-input"]
ledger.check(
    "thesis:beyond-polyak-far-cancer",
    "Breast cancer, far start: untuned DecSPS ends below tuned AdaGrad-Norm, Adam and AMSGrad",
    measured={"DecSPS": end("breast-cancer", "far", "decsps"), "best of the three": three_rivals.min(0)},
    criterion=ordering("gap at the end", ["DecSPS", "best of the three"]),
    control=control(
        "a1a, far start",
        {
            "DecSPS": end("a1a", "far", "decsps"),
            "best of the three": np.stack(
                [end("a1a", "far", m) for m in ("adagrad_norm", "adam", "amsgrad")]
            ).min(0),
        },
    ),
    expected="reproduced",
    claim="experiment",
    seeds=twenty_seeds,
)
ledger.check(
    "thesis:beyond-polyak-far-a1a",
    "a1a, far start: the gap of untuned DecSPS is at least ten times that of the best SGD step",
    measured=shares("a1a", "far", "sgd"),
    criterion=confident("gap of DecSPS/gap of tuned SGD", at_least=10.0),
    control=control("from zero", shares("a1a", "zero", "sgd")),
    expected="reproduced",
    claim="experiment",
    seeds=twenty_seeds,
    show="card",
)

# %% [markdown]
# All ratios in one table, the other kind of targets and other values of $c_0$ included:

# %% tags=["hide-input"]
figures.comparison(
    [
        (
            f"{name}, {named[method]}, {start} (figure {figure})",
            "competitive" if method == "sgd" else "below 1",
            np.asarray(shares(name, start, method).mean()),
            None if method == "sgd" else bool(shares(name, start, method).mean() < 1),
        )
        for figure, name, method in ((33, "a1a", "sgd"), (35, "a1a", "adam"))
        for start in ("zero", "far")
    ]
    + [
        (
            f"breast cancer, notebook {setup}, {named[method]} (figure {figure})",
            "below 1",
            notebook_end(setup, "decsps").mean() / notebook_end(setup, method).mean(),
            bool(notebook_end(setup, "decsps").mean() < notebook_end(setup, method).mean()),
        )
        for figure, method, setups in (
            (34, "adagrad_norm", ("adagrad-norm", "adagrad-norm-signs")),
            (36, "amsgrad", ("amsgrad",)),
        )
        for setup in setups
    ]
    + [
        (
            f"{name}, shipped: gap at c₀ = 1 over the least of five c₀ (defaults)",
            "1",
            gap[2] / gap.min(),
            None,
        )
        for name, gap in by_divisor.items()
    ],
    criterion="mean ratio of DecSPS's gap to the tuned rival's over 20 seeds: below 1; for SGD the source has no "
    "number (intervals in the rows above)",
    run=run,
    name="rivals",
)

# %% [markdown]
# ### What the step does
#
# :::{admonition} Predict first
# :class: tip
# On breast cancer, from zero: how often does the running minimum of DecSPS change in 3,000 steps?
# :::
#
# :::{dropdown} Answer
# Never, in any of the twenty runs on the true file. At zero every loss is $\ln2$ and every gradient is large, and the first quotient
# stays the smallest. From then on DecSPS *is* SGD with the step $Q/\sqrt{k+1}$, where $Q$ is that quotient.
# :::
#
# Why is DecSPS behind on a1a from the far start? In directions where only the ridge $\rho$ curves the loss, the part of the start that is left after $K$ steps is about
# $e^{-\rho\sum\eta_k}$. With $\eta_k=Q/\sqrt{k+1}$, where $Q$ is now the running minimum of the quotients, the sum is about $2Q\sqrt K$, which is $110\,Q$ for $K=3000$; it must be well above
# $1/\rho=100$. The running minimum $Q$ ends below one in the mean, and the best step of SGD is more than three times larger. $Q$ is a safe
# estimate of $1/2L$ for the *worst* batch, and the step that is best on the average is longer.

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**After its minimum has settled, DecSPS falls like every other schedule.** Step sizes from zero on the true files, mean with 95 % interval. Kept results. On a1a the running minimum is still being lowered after 3,000 steps; on breast cancer the DecSPS line is straight from the first step on, with slope $-1/2$. What breaks the rule is Adam (dotted, median over the coordinates), whose steps do not follow the schedule.", "name": "fig-polyak-steps-step-sizes"}, "image": {"alt": "Two stacked log-log panels of step size against step number. DecSPS, SGD and AdaGrad-Norm fall along nearly parallel lines; a dotted line for Adam does not follow them."}}
fig, axes = figures.subplots(2, 1, size=(6.0, 6.0))
for ax, name in zip(axes, ("a1a", "breast-cancer"), strict=True):
    arrays = true_files[name, "zero"]
    at = arrays["record"][1:]
    for method in ("decsps", "adagrad_norm", "adam"):
        look = ":" if method == "adam" else "-"
        figures.band(ax, at, arrays[f"{method}_step"].T, label=named[method], color=inks[method], ls=look)
    tuned = comparison.METHODS["sgd"].grid[int(arrays["sgd_best"])].item()
    ax.plot(at, tuned / np.sqrt(at), color=inks["sgd"], marker="", label="SGD, tuned")
    ax.set(xscale="log", yscale="log", title=name, ylabel="$\\eta_k$")
axes[1].set_xlabel("step $k$")
axes[0].legend(fontsize=8, ncol=2)
plt.show()

# %% [markdown]
# The source reads from its curves that $\eta_k$ falls *faster* than $1/\sqrt k$. On a1a that is what we see too, for as long as
# the running minimum is still falling. It cannot last: by {prf:ref}`thesis-lemma-4-2-1`,
# $\eta_k\ge\min\{\frac1{2L},\eta_{\max}\}/\sqrt{k+1}$. The first row asks for a fitted slope below that of $1/\sqrt k$; AdaGrad-Norm, whose steps fall more slowly, is the control.

# %%
far = true_files["a1a", "far"]
far_minimum = (far["decsps_step"][-1] * np.sqrt(far["record"][-1])).mean()
assert far_minimum < 1 and comparison.METHODS["sgd"].grid[int(far["sgd_best"])] > 3 * far_minimum
assert all(0 < arrays[f"{m}_best"] < 8 for arrays in true_files.values() for m in named if m != "decsps")


def fitted_slopes(name, method="decsps"):
    arrays = true_files[name, "zero"]
    steps_taken = arrays[f"{method}_step"]
    at = arrays["record"][1:]
    return [statistics.log_log_slope(at, steps_taken[:, i]).estimate for i in range(steps_taken.shape[1])]


def minimum_kept(name):  # c_k eta_k over its first value, minus one
    arrays = true_files[name, "zero"]
    product = arrays["decsps_step"] * np.sqrt(arrays["record"][1:])[:, None]
    return product / product[0] - 1


# %% tags=["hide-input"]
ledger.check(
    "thesis:claim-decsps-step-decay",
    "a1a, 3,000 steps from zero: the DecSPS step falls faster than 1/√k, for a while",
    measured=fitted_slopes("a1a"),
    criterion=confident("fitted slope of ln η_k against ln k", at_most=-0.5),
    control=control("AdaGrad-Norm on the same draws", fitted_slopes("a1a", "adagrad_norm")),
    expected="reproduced",
    claim="experiment",
    seeds=twenty_seeds,
)
ledger.check(
    "thesis:beyond-polyak-adapts-once",
    "Breast cancer from zero: the first quotient stays the smallest in all 3,000 steps of all runs",
    measured=minimum_kept("breast-cancer"),
    criterion=identity("c_kη_k/c_0η_0 − 1"),
    control=control("a1a, the run that changes most", np.abs(minimum_kept("a1a")[-1]).max()),
    expected="reproduced",
    claim="experiment",
    seeds=twenty_seeds,
)

# %% [markdown]
# ### On data it has not seen
#
# Training loss is not what a practitioner wants to know. We take the two shipped sets, split them at random into a half for training, a quarter to choose the step size and a quarter to test, and put beside untuned DecSPS what it would replace: SGD with $\eta/\sqrt{k+1}$, SGD with a *schedule* (linear warm-up
# over the first tenth, then a half cosine down to zero), Adam with its usual $\beta_1=0.9$, and coordinate-wise AdaGrad. Every rival uses the step size with the best accuracy on the second part. 2,000 steps from zero; a seed decides split and batches, and all methods share them.
#
# The question was fixed before the first of these runs: *is untuned DecSPS at most one percentage point of test accuracy behind the best tuned rival, on both sets?*

# %%
contest_seeds = list(range(1000, 1000 + run.pick(smoke=4, book=40, paper=40)))  # the same for every SEED
contest_steps = run.pick(smoke=100, book=2000, paper=2000)
half_decades = 10 ** torch.arange(-2.0, 2.01, 0.5, **like)[:, None]


def scheduled(peak):  # linear warm-up, then half a cosine
    def eta(k):
        fall = (1 + math.cos(math.pi * k / contest_steps)) / 2
        return peak * min(1.0, (k + 1) / (contest_steps / 10)) * fall

    return rules.GradientDescent(eta)


contest = {
    "DecSPS": rules.DecSPS(cap=torch.tensor([[10.0]], **like)),
    "SGD": rules.GradientDescent(comparison.decreasing(half_decades)),
    "SGD with a schedule": scheduled(half_decades),
    "Adam": rules.Adam(half_decades / 100),
    "AdaGrad": rules.AdaGrad(half_decades / 10),
}


# %%
def split_and_train(name, seeds):  # accuracy on the second and on the third part, (settings, seeds) each
    loss = comparison.shipped(name)
    n, d = loss.inputs.shape
    generators = [run.generator(name, seed=s) for s in seeds]
    orders = torch.stack([torch.randperm(n, generator=g) for g in generators])
    fit, *judges = orders.split([n // 2, n // 4, n - n // 2 - n // 4], 1)
    drawn = torch.stack([torch.randint(n // 2, (contest_steps, 20), generator=g) for g in generators], 1)
    found = {}
    for method, rule in contest.items():
        settings = 1 if method == "DecSPS" else len(half_decades)
        begin = torch.zeros(len(seeds), settings, d, **like)
        oracle = batches(loss, fit.expand(contest_steps, -1, -1).gather(2, drawn))
        theta = ensembles.iterate(rule, oracle, begin, contest_steps, [contest_steps]).last
        margins = [loss.signs[part][..., None] * (loss.inputs[part] @ theta.mT) for part in judges]
        found[method] = [(margin > 0).double().mean(1).T for margin in margins]
    return found


# %%
def at_chosen(found):  # test accuracy of each method at the setting that validation chose, (seeds)
    return {method: test[held.mean(1).argmax()] for method, (held, test) in found.items()}


# test accuracy of the rival with the best validation accuracy, and of SGD with its smallest step, minus DecSPS's
def leads(found):
    rivals = [method for method in contest if method != "DecSPS"]
    best, tested = max(rivals, key=lambda method: found[method][0].mean(1).max()), at_chosen(found)
    return tested[best] - tested["DecSPS"], found["SGD"][1][0] - tested["DecSPS"]


judged = {name: split_and_train(name, contest_seeds) for name in ("digits", "breast-cancer")}
tested = {name: at_chosen(found) for name, found in judged.items()}
ahead, unlearned = leads(judged["digits"])
new_seeds = [3000 + s for s in run.seeds(smoke=4, book=40, paper=40)]  # for a question asked after these runs
ahead_again, unlearned_again = leads(split_and_train("digits", new_seeds))

# %% tags=["hide-input"]
ledger.check_each(
    (
        "thesis:beyond-polyak-test-accuracy",
        "First question, as its negation: on the digits DecSPS is more than one point behind the best rival",
        ahead,
        control("SGD with its smallest step as the rival", unlearned),
        {
            "criterion": confident("test accuracy of the rival − that of DecSPS", at_least=0.01),
            "expected": "partly",
            "reason": "Undecided. The mean is 1.2 points, but its interval, from 0.8 to 1.7, contains one point; on "
            "breast cancer no difference is shown.",
        },
    ),
    (
        "thesis:beyond-polyak-digits-accuracy",
        "Second question, forty new seeds: on the digits the best tuned rival is ahead of untuned DecSPS",
        ahead_again,
        control("SGD with its smallest step as the rival", unlearned_again),
        {
            "criterion": confident("test accuracy of the rival − that of DecSPS", at_least=0.0),
            "expected": "reproduced",
            "seeds": new_seeds,
        },
    ),
    claim="experiment",
    seeds=contest_seeds,
    needs="book",
    rtol=0.1,
)
figures.comparison(
    [
        (
            f"{name}: test accuracy of DecSPS minus {method}, points (99.9 % interval)",
            "not compared",
            [100 * interval.low, 100 * interval.high],
            None,
        )
        for name, shares_of in tested.items()
        for method in contest
        if method != "DecSPS"
        for interval in [statistics.mean_interval(shares_of["DecSPS"] - shares_of[method])]
    ],
    criterion="an advantage is shown where the interval lies above zero",
    run=run,
    name="test-accuracy",
    rtol=0.5,
    noise=0.5,
)

# %% [markdown]
# The first row shows that the question is not decided: with twenty seeds, our first number, the mean on the digits fell below one point with some seeds and above it with others, and with forty the interval still contains it. The second row asks a weaker question: is the best tuned rival ahead at all on the digits? Since it was chosen *after* these runs, it is put to forty new seeds. It is ahead, by about one point. The table lists the difference to each rival on both sets
# (the source has no such comparison, hence *not compared* in the table). On the digits all four rivals are ahead in the mean; on breast cancer no difference is shown. **No advantage of DecSPS is shown over any rival on either set.** The digits are the set on which
# its training loss stays high, too ({numref}`fig-polyak-steps-shipped`): the smallest quotient keeps the step short.
#
# ## For the practitioner
#
# - **Use DecSPS for convex problems with a lower bound you know**: logistic regression, least squares, with a penalty inside the loss. Give `lower_bound=0` and leave the rest.
# - **Use plain SPS only if one model fits every sample.** Otherwise it settles at the wrong point, and no decreasing factor helps.
# - **Look at the step**: if $\eta_k\sqrt{k+1}$ stands still from the start, DecSPS has become a schedule whose step was chosen once, by the worst batch. If you can afford to tune one number, a tuned step can win by much.
# - **When not to use it.** The loss can be negative, or its minimum is not known even roughly: a bound far too low lengthens the step, a bound too high stops the run. Single batches can
#   have a tiny loss with a large gradient (kinks): DecSPS never forgets the smallest quotient. There is momentum, or
#   weight decay outside the loss: the theory does not cover them.
#
# ## Exercises
#
# :::{exercise} By hand
# :label: ex-polyak-steps-by-hand
# The coin of the first figure shows the steep parabola with probability $p$. Where does decreasing SPS settle, where is
# the minimizer, and for which curvatures do they agree?
# :::
#
# :::{solution} ex-polyak-steps-by-hand
# :class: dropdown
# The mean step is $w_k(\theta-p+(1-p))$, so SPS settles at $2p-1$, the mean of the two minima. The minimizer solves
# $pa_1(\theta-1)+(1-p)a_2(\theta+1)=0$: $\theta^\star=\frac{pa_1-(1-p)a_2}{pa_1+(1-p)a_2}$. They agree for $a_1=a_2$, and only then if $0<p<1$.
# :::
#
# :::{exercise} Predict a number
# :label: ex-polyak-steps-gap
# Curvatures 9 and 1, a fair coin. How much loss does decreasing SPS leave on the table for ever?
# :::
#
# :::{solution-start} ex-polyak-steps-gap
# :class: dropdown
# :::
#
# The mean loss is $\frac94(\theta-1)^2+\frac14(\theta+1)^2$. At SPS's point $0$ it is $2.5$, at the minimizer $0.8$ it is
# $0.09+0.81=0.9$. So $1.6$.

# %% tags=["hide-cell"]
nine = QuadraticSum(torch.tensor([[[9.0]], [[1.0]]], **like), centers[:, None])
assert abs(nine.oracle(torch.zeros(1, 1, **like))[0].item() - nine.minimum().item() - 1.6) < 1e-12

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Change one line
# :label: ex-polyak-steps-lower-bound
# Tell DecSPS that the losses of the first figure are at least 1, which is false: `rules.DecSPS(lower_bound=1.0)`. Run 400 steps
# with the fixed draws. Expected: the step size at the end is exactly 0, and $\theta$ is not near the minimizer. Why?
# :::
#
# :::{solution-start} ex-polyak-steps-lower-bound
# :class: dropdown
# :::
#
# As soon as one batch has a loss below the claimed bound, its quotient counts as zero, and the running minimum keeps it for
# ever. A lower bound may be too low; it must never be too high. (A loss that stands *at* its bound, to rounding, is another matter:
# such a batch is fitted, its quotient is rounding, and the library leaves it out of the minimum.)

# %% tags=["hide-cell"]
stuck = ensembles.iterate(
    rules.DecSPS(lower_bound=1.0),
    tug(torch.tensor([2.0], **like), fixed_draws),
    torch.full((1, 1, 1), 2.5, **like),
    400,
    [400],
    watch=lambda state: state.step_size,
)
assert stuck.watched.item() == 0 and abs(stuck.last.item() - 1 / 3) > 0.3

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Break the proof
# :label: ex-polyak-steps-divisor
# Somebody is impatient and takes $c_k=k+1$, as one does for strongly convex losses. What does {prf:ref}`thesis-thm-4-2-1` still give?
# :::
#
# :::{solution} ex-polyak-steps-divisor
# :class: dropdown
# The first term becomes $2\tilde L\,\mathbb ED^2$, which does not fall with $K$ at all; the second is at most
# $\hat\Delta_b(1+\ln K)/K$, since $\sum_{k\le K}1/k\le1+\ln K$. The step now falls too fast: the run may stop before it
# arrives. With $c_k=(k+1)^q$ the two terms have the orders $K^{q-1}$ and $K^{-q}$ ($0<q<1$), and $q=\frac12$ balances them.
# :::
#
# :::{exercise} Open
# :label: ex-polyak-steps-forget
# DecSPS never forgets its worst batch. Design a step that does, and prove that it converges. Known:
# {cite:t}`jiang2023adaptive` divide by the root of the *summed* heights in place of $\sqrt{k+1}$ (AdaSPS), which gives both the
# fast rate under interpolation and the rate $1/\sqrt K$ without it, again with a step that never rises. With a quantile of
# recent quotients in the place of the minimum the step may rise, and step 4 of our proof fails.
# :::
#
# ## What to remember
#
# 1. Loss above its minimum over squared gradient is an inverse curvature, never below $1/2L$. As a step it needs no constant.
# 2. If one point is best for all samples, SPS converges like gradient descent with a step of order $1/L$. If not, it divides
#    the curvature away and, with a decreasing step, settles where the mean Polyak step vanishes, which can be computed.
# 3. DecSPS keeps the smallest quotient. The step then never rises, and as long as the iterates stay bounded
#    the gap falls like $1/\sqrt K$. No constant of the problem is needed.
# 4. For strongly convex losses its iterates stay in a known ball, whatever the order of the batches.
# 5. In practice it finds one number, a safe step for the worst batch, and then decays it. In the authors' set-up on breast cancer that beats tuned AdaGrad-Norm
#    in training loss, not tuned AMSGrad; SGD with a tuned step ends about five times lower on the digits, and about twenty times lower on a1a from a far start.
#
# **Further reading.** {cite}`polyak1987introduction` has the deterministic step. {cite}`loizou2021stochastic` and
# {cite}`orvieto2022dynamics` are the papers behind this chapter, {cite}`jiang2023adaptive` a successor. The next chapter,
# {chapter}`Gauss-Newton steps <adaptivity/gauss_newton_steps>`, derives a step from the same two numbers that may rise again.
#
# ## Checks behind this page


# %%
def torch_path(make):  # the torch optimizer on the shipped set, parameters after every tenth step
    parameter = torch.nn.Parameter(torch.zeros(problem.inputs.shape[1], **like))
    optimizer, seen = make([parameter]), []
    for rows in draws[:200]:
        optimizer.zero_grad()
        loss = problem.oracle(parameter[None], rows)[0].sum()
        loss.backward()
        optimizer.step(loss=loss)
        seen.append(parameter.detach().clone())
    return torch.stack(seen)[9::10]


def formula_path(remember=True):  # the first line of the definition, written out
    theta, product, seen = torch.zeros(problem.inputs.shape[1], **like), 10.0, []
    for k, rows in enumerate(draws[:200]):
        loss, gradient = problem.oracle(theta[None], rows)
        quotient = (loss / gradient.square().sum()).item()
        product = min(quotient, product) if remember else quotient
        theta = theta - product / math.sqrt(k + 1) * gradient[0]
        seen.append(theta)
    return torch.stack(seen)[9::10]


by_torch = torch_path(lambda parameters: optimizers.DecSPS(parameters, lr=10.0))
half_ceiling = torch.maximum(sequence[0], 0.15 / a_values)

# %% tags=["hide-input"]
ledger.check(
    "thesis:alg-decsps",
    "The torch optimizer takes the steps of the definition",
    measured=(by_torch - formula_path()).norm(dim=-1) / by_torch.norm(dim=-1),
    criterion=identity("‖θ_k(torch) − θ_k(formula)‖/‖θ_k‖", condition=100.0),
    control=control(
        "without the running minimum, after 200 steps", (by_torch - formula_path(False))[-1].norm()
    ),
    expected="holds",
)
ledger.check(
    "thesis:fig-70",
    "Redrawn: no sequence of the figure's grid passes the larger of start and b/a",
    measured=1 - sequence.amax(0) / ceiling,
    criterion=inequality("1 − max z_k/max{z₀, b/a}", size=10.0),
    control=control(
        "half of b in the bound, the largest excess", (1 - sequence.amax(0) / half_ceiling).min()
    ),
    expected="reproduced",
    claim="experiment",
)

# %% tags=["remove-input"]
ledger.table()
