# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Which solution does gradient descent find?
#
# One data point, two weights: fit $[\theta]_1+2[\theta]_2=2$. A whole line of weights does it without error. Run
# gradient descent, and it stops at one point of that line.
#
# **Which point, and can we say so before the first step?** Yes: it is the solution nearest to the start. From zero
# that is the solution of least norm. The step size, momentum and the order of the samples change the path and the
# speed; they do not change where it ends. **What breaks it**: multiply the gradient by a fixed matrix, and the end point
# moves, predictably. Let the matrix change during the run, as in Adam, and with more than one sample no formula in the
# data and the start gives the end. The symbol of this chapter is the start $\theta_0$.
#
# Drag a start, stretch and turn a matrix $P$ in front of the gradient: the arrow points to the end before the run
# begins. ($\theta_1,\theta_2$ in the picture are the two weights $[\theta]_1,[\theta]_2$.)
#
# <div class="ld-widget" data-widget="minimum-norm"></div>

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

import matplotlib.pyplot as plt
import torch
from scipy.optimize import brentq, minimize_scalar

from learning_dynamics import data, ensembles, figures, flows, runs, statistics
from learning_dynamics.figures import COLORS
from learning_dynamics.implicit_bias import linear_models as linear
from learning_dynamics.ledger import (
    Ledger,
    at_least,
    at_most,
    control,
    exponent,
    identity,
    inequality,
    ordering,
)
from learning_dynamics.rules import Adam, GradientDescent, HeavyBall, Nesterov

figures.use_style()
run = runs.Run("implicit_bias/minimum_norm", scale=SCALE, device=DEVICE, seed=SEED)
ledger = Ledger(run)
like = {"dtype": run.dtype, "device": run.device}


# %%
X, y = torch.tensor([[1.0, 2.0]], **like), torch.tensor([2.0], **like)
starts = torch.tensor([[0, 0], [-1.4, 0.2], [0.3, 2.1], [1, -0.5], [2.4, 0.9]], **like)
gradient = linear.least_squares_gradient(X, y)
predicted = linear.nearest_solution(X, y, starts)  # before the run
paths = ensembles.iterate(GradientDescent(0.35 / 5), gradient, starts, 100, record=range(101)).values

P = torch.diag(torch.tensor([3.0, 1.0], **like))
tilted_end = linear.nearest_solution(X, y, starts, P)
step_size = 0.35 / (X @ P @ X.T).item()
tilted = ensembles.iterate(
    GradientDescent(step_size), lambda theta, k: gradient(theta, k) @ P, starts, 300, record=range(301)
).values

starts, predicted, paths, tilted, tilted_end = (
    each.cpu() for each in (starts, predicted, paths, tilted, tilted_end)
)

# %% tags=["hide-input", "static-twin"] mystnb={"figure": {"caption": "**The end point is known before the first step.** Every point of the grey line fits the one sample. From five starts (squares) the arrows lead to the predicted ends (rings); the iterates (dots) arrive inside the rings. From the origin the end is the solution of least norm, where the circle touches the line. What breaks it: a preconditioner (dashed) tilts the path and moves the end.", "name": "fig-minimum-norm-line"}, "image": {"alt": "A plane with a slanted line of solutions. From five square starts, parallel arrows at right angles to the line end in rings on it, and dots fill the rings. A circle around the origin touches the line in the ring of the start at zero. A dashed path with another slope leaves the origin and meets the line elsewhere."}}
fig, ax = figures.subplots(size=(6.4, 4.6))
ax.plot([-2, 3], [2, -0.5], color=COLORS["grey"], marker="")
ax.annotate("all solutions", (-1.75, 1.9), rotation=-26.6, color=COLORS["dark grey"])
ax.add_patch(plt.Circle((0, 0), math.sqrt(0.8), fill=False, color=COLORS["light grey"], lw=1))
for i, (start, end) in enumerate(zip(starts, predicted, strict=True)):
    ax.annotate(
        "", end, start, arrowprops={"arrowstyle": "-|>", "color": COLORS["blue"], "shrinkA": 5, "shrinkB": 6}
    )
    names = ("start", "predicted end", "gradient descent") if i == 0 else (None, None, None)
    ax.scatter(*start, s=36, c=COLORS["black"], marker="s", label=names[0], zorder=3)
    ax.scatter(
        *end, s=130, facecolors="none", edgecolors=COLORS["blue"], linewidths=1.6, label=names[1], zorder=3
    )
    ax.scatter(*paths[1:, i].T, s=14, c=COLORS["vermillion"], label=names[2], zorder=4)
figures.line_control(ax, *tilted[:, 0].T, label="a preconditioner", marker="o", markersize=3, markevery=1)
ax.scatter(
    *tilted_end[0], s=130, facecolors="none", edgecolors=figures.CONTROL_COLOR, linewidths=1.6, zorder=3
)
ax.annotate("$X^+y$", predicted[0], (0.52, 0.86))
ax.set(xlim=(-2, 3), ylim=(-1, 2.6), aspect="equal", xlabel="$[\\theta]_1$", ylabel="$[\\theta]_2$")
ax.legend(loc="upper right")
plt.show()

# %% [markdown]
# This book follows one update, and asks what each of its symbols does:
#
# $$
# \begin{aligned}
# \theta_{k+1}=\theta_k&-\eta_k\,P_k\,(\nabla\mathcal L(\theta_k)+\xi_k)\\
# &+\beta_1(\theta_k-\theta_{k-1}).
# \end{aligned}
# $$
#
# $\eta_k$ is the step size, $P_k$ a matrix called preconditioner, $\xi_k$ the noise of the gradient, $\beta_1$ the
# momentum. (Nesterov's method and Adam are near relatives, not exactly of this form.) This chapter turns $\theta_0$,
# then every other symbol, to see which of them move the end point. After it you can
#
# - describe all solutions of an under-determined least-squares problem, and the one of least norm;
# - predict the end point of gradient descent, with momentum, samples in any order or a preconditioner, from a
#   formula;
# - say how many steps it takes to get there, and what you have if you stop early;
# - explain why a model with exactly as many features as samples can be the worst of all, and why more features repair
#   it.
#
# The source is section 9.1 of {cite}`ma2022lecture`. You need linear algebra and the quadratic of
# [Tools in ten minutes](../toolbox/tools_in_ten_minutes.ipynb).
#
# ## All solutions
#
# We have $n$ samples with $d$ features each, the rows $x_i^\top$ of a matrix $X$, and targets $y\in\mathbb R^n$. A
# linear model predicts $X\theta$. There are more weights than samples, $n<d$, and the rows are linearly independent.
#
# :::{admonition} The loss is a sum here
# :class: note
# As in the source, $\mathcal L(\theta)=\tfrac12\lVert X\theta-y\rVert^2$, without the factor $1/n$ of the rest of the
# book. Its gradient is $X^\top(X\theta-y)$. With the mean instead of the sum the step sizes of full gradients and the
# times below are to be multiplied by $n$, penalties divided by it; no end point changes. (Steps on single samples stay
# as they are, and so do Adam's, which divides the factor out.)
# :::
#
# :::{dropdown} The letters of the source
# | here | source, section 9.1 | meaning |
# |---|---|---|
# | $\theta$ | $\beta$ | weights |
# | $\theta_0$, $\theta_k$, $\theta_\infty$ | $\beta^0$, $\beta^t$, $\hat\beta$ | start, iterate, limit |
# | $X^+y$ | $\beta^*$ | solution of least Euclidean norm |
# | $\mathcal L$ | $\hat L$ | training loss |
# | $X$, $y$, $n$, $d$, $\eta$ | the same | rows of $X$ are samples |
# | $\Pi=X^+X$, $P$ | not used | projector on the row space, preconditioner |
# | $L$, $\mu$, $\kappa=L/\mu$ | not used | $\sigma_1(X)^2$, $\sigma_n(X)^2$ (the smallest nonzero curvature) |
# | $\lambda$ | not used | strength of a penalty, on this page only |
# :::
#
# The rows span an $n$-dimensional subspace of $\mathbb R^d$, the *row space*. A vector $\zeta$ at right angles to all
# rows is invisible to the data: $X\zeta=0$, so adding it to $\theta$ changes no prediction. That is all the freedom
# there is.
#
# Since the rows are independent, $XX^\top$ is invertible, and the matrix $X^+=X^\top(XX^\top)^{-1}$ satisfies
# $XX^+=I$. It is the pseudo-inverse of $X$. So $X^+y$ fits the data, and the loss can be zero.
#
# :::{prf:lemma} All global minimizers
# :label: regularization-lemma-9-1
# Let $X\in\mathbb R^{n\times d}$ have rank $n<d$. Then $\theta$ is a global minimizer of $\mathcal L$ if and only if
#
# $$\theta=X^+y+\zeta$$
#
# for some $\zeta$ orthogonal to every row of $X$.
# :::
#
# *The key step.* Any $\theta$ can be written as $X^+y+\zeta$; then $X\theta-y=X\zeta$, because $XX^+=I$. The loss is
# $\tfrac12\lVert X\zeta\rVert^2$.
#
# :::{dropdown} Proof
# 1. Given $\theta$, put $\zeta=\theta-X^+y$. Since $XX^+y=y$, we get $X\theta=y+X\zeta$ and
#    $\mathcal L(\theta)=\tfrac12\lVert X\zeta\rVert^2$.
# 2. Take $\zeta=0$: the loss is zero at $X^+y$. So the global minimizers are exactly the points where the loss is
#    zero.
# 3. By step 1 these are the points with $X\zeta=0$, which says that $\zeta$ is orthogonal to every row. $\square$
# :::
#
# The minimizers form an affine subspace of dimension $d-n$: the kernel of $X$, shifted by $X^+y$. Which of its points
# is special? $X^+y$ itself is a combination of the rows, hence orthogonal to every invisible $\zeta$. Pythagoras does
# the rest.
#
# :::{prf:corollary} The minimum-norm solution
# :label: regularization-cor-9-2
# Under the same assumptions $X^+y$ is the unique global minimizer of least Euclidean norm, and every minimizer
# satisfies
#
# $$\lVert X^+y+\zeta\rVert^2=\lVert X^+y\rVert^2+\lVert\zeta\rVert^2 .$$
# :::
#
# :::{dropdown} Proof
# 1. By {prf:ref}`regularization-lemma-9-1` a minimizer is $X^+y+\zeta$ with $X\zeta=0$.
# 2. The cross term is $\langle X^+y,\zeta\rangle=\langle(XX^\top)^{-1}y,X\zeta\rangle=0$, which gives the identity.
# 3. So the norm is at least $\lVert X^+y\rVert$, with equality only for $\zeta=0$. $\square$
# :::
#
# Both statements are put to the test on random problems with 20 samples and 60 weights. Each seed is one problem, and
# the seeds are one batch axis. We draw vectors $v$ at random and make them invisible by removing their row-space
# part, $\zeta=v-\Pi v$ with $\Pi=X^+X$. What breaks the lemma is to leave that part in.
#
# Each result on this page is checked by a computation like this one. A row or a card below it says what was measured and how large it was
# allowed to be ($\varepsilon=2^{-52}$ is the rounding error of 64-bit numbers); after "what breaks it" the same number follows for something
# wrong, the *control*, which has to fail; "at best" is the wrong value that comes nearest to passing. "Against at least 1" is a bound from below; "(at least 0.1)" after a
# difference is the lower end of its 99.9 % interval, and "claimed 1, not 1.2" says that a 99.9 % interval contains 1 and has to exclude 1.2.
# {doc}`How claims are checked <../../book/how_claims_are_checked>` explains the rest.

# %%
n, d = 20, 60
seeds = run.seeds(smoke=4, book=20, paper=100)


def problem(seed):  # samples, targets and one random vector
    source = run.generator("problem", seed=seed)
    return tuple(torch.randn(*shape, generator=source, dtype=run.dtype) for shape in ((n, d), (n,), (d,)))


X, y, random_start = (each.to(run.device) for each in ensembles.stack_over_seeds(problem, seeds))
least_norm = (torch.linalg.pinv(X) @ y[..., None]).squeeze(-1)  # by singular values, the reference below
sigma = torch.linalg.svdvals(X)
L, mu = sigma[:, :1] ** 2, sigma[:, -1:] ** 2
kappa = (L / mu).max().item()

v = torch.randn(50, len(seeds), d, generator=run.generator("directions"), dtype=run.dtype).to(run.device)
zeta = v - linear.project_row_space(X, v)
assert (zeta.norm(dim=-1) > 0.5 * v.norm(dim=-1)).all()  # two thirds of the dimensions are invisible


# %%
def misfit(theta):  # relative residual
    fit = (theta[..., None, :] @ X.mT).squeeze(-2)
    return (fit - y).norm(dim=-1) / (sigma[:, 0] * theta.norm(dim=-1))


def pythagoras(base, extra):
    whole = (base + extra).square().sum(-1)
    return (whole - base.square().sum(-1) - extra.square().sum(-1)) / whole


# %% tags=["hide-input"]
ledger.check(
    "regularization:lemma-9.1",
    "The global minimizers are X⁺y plus the vectors orthogonal to every row",
    measured=misfit(least_norm + zeta),
    criterion=identity("‖Xθ − y‖/(‖X‖‖θ‖)", condition=math.sqrt(kappa)),
    control=control("ζ keeps its row-space part", misfit(least_norm + v)),
    expected="holds",
    seeds=seeds,
    show="card",
)


ledger.check(
    "regularization:cor-9.2",
    "‖X⁺y + ζ‖² = ‖X⁺y‖² + ‖ζ‖², so X⁺y alone has the least norm",
    measured=pythagoras(least_norm, zeta),
    criterion=identity("(‖X⁺y + ζ‖² − ‖X⁺y‖² − ‖ζ‖²)/‖X⁺y + ζ‖²", condition=math.sqrt(kappa)),
    control=control("another solution in the place of X⁺y", pythagoras(least_norm + zeta[0], zeta[1:])),
    expected="holds",
    seeds=seeds,
    show="card",
)

# %% [markdown]
# The lemma's check tests its steps 1 to 3 in the direction from $\zeta$ to the loss, and its control the other
# direction: visible parts cost loss. The corollary's check tests step 2.
#
# ## From zero: the solution of least norm
#
# The update of this chapter, written out once:


# %%
def gradient_descent(X, y, eta, theta, steps):
    iterates = [theta]
    for _ in range(steps):
        residual = X @ theta - y
        theta = theta - eta * X.T @ residual
        iterates.append(theta)
    return torch.stack(iterates)


by_hand = gradient_descent(X[0], y[0], 1 / L[0], random_start[0], 50)
gradient = linear.least_squares_gradient(X[:1], y[:1])
library = ensembles.iterate(GradientDescent(1 / L[:1]), gradient, random_start[:1], 50, record=range(51))
assert torch.allclose(library.values[:, 0], by_hand, rtol=1e-12, atol=1e-12)

# %% [markdown]
# Look at the last line of the loop. Whatever the residual is, $X^\top$ turns it into a combination of the rows. A run
# that starts at zero is, at every step, a combination of the samples. Among all solutions only one is.
#
# :::{prf:theorem} Gradient descent from zero
# :label: regularization-thm-9-3
# Let $X\in\mathbb R^{n\times d}$ have rank $n<d$. If gradient descent on
# $\mathcal L(\theta)=\tfrac12\lVert X\theta-y\rVert^2$ starts at $\theta_0=0$ and converges to a point
# $\theta_\infty$ with $\mathcal L(\theta_\infty)=0$, then
#
# $$\theta_\infty=X^+y ,$$
#
# the solution of least norm. The step sizes $\eta_k$ are arbitrary, as long as the run converges.
# :::
#
# *Why one should expect it.* The loss can only pull along directions it can see. What it cannot see stays as it was,
# and at zero there was nothing.
#
# *The key step.* $\theta_\infty$ lies in the row space, so $\theta_\infty=X^\top w$. It fits, so $XX^\top w=y$. That
# system has one solution, $w=(XX^\top)^{-1}y$.
#
# :::{dropdown} Proof
# 1. *The iterates stay in the row space.* $\theta_0=0$ lies in it. If $\theta_k$ does, so does
#    $\theta_{k+1}=\theta_k-\eta_kX^\top(X\theta_k-y)$, because $X^\top$ times any vector is a combination of the
#    rows.
# 2. *So does the limit.* A subspace of $\mathbb R^d$ is closed. Hence $\theta_\infty=X^\top w$ for some
#    $w\in\mathbb R^n$.
# 3. *Only one interpolant lies there.* From $0=X\theta_\infty-y=XX^\top w-y$ follows $w=(XX^\top)^{-1}y$, and
#    $\theta_\infty=X^\top(XX^\top)^{-1}y=X^+y$. By {prf:ref}`regularization-cor-9-2` it has the least norm. $\square$
# :::
#
# The check runs three step rules on every problem: the short step $1/L$ with $L=\sigma_1(X)^2$, the long step
# $1.9/L$, and a step drawn anew each time between zero and the long one. It measures the distance of the last iterate
# from $X^+y$ (steps 2 and 3) and, along the whole way, the part outside the row space (step 1). What breaks it is a
# start other than zero.

# %%
steps = 3000
draws = torch.rand(steps, generator=run.generator("step sizes"), dtype=run.dtype)
multiples = torch.stack([torch.ones_like(draws), torch.full_like(draws, 1.9), 1.9 * draws]).to(run.device)


def three_rules(k):  # (3, seeds, 1)
    return multiples[:, k, None, None] / L


gradient = linear.least_squares_gradient(X, y)
zero = torch.zeros(3, len(seeds), d, **like)
kept = ensembles.log_spaced(steps)
from_zero = ensembles.iterate(GradientDescent(three_rules), gradient, zero, steps, record=kept)
from_random = ensembles.iterate(
    GradientDescent(three_rules), gradient, zero + random_start, steps, record=kept
)


def outside(theta):  # share of the iterates outside the row space, the worst along the way
    apart = theta - linear.project_row_space(X, theta)
    return (apart.norm(dim=-1) / theta.norm(dim=-1)).amax(0)


def distance(theta, target):
    return (theta - target).norm(dim=-1) / target.norm(dim=-1)


# %% tags=["hide-input"]
ledger.check(
    "regularization:thm-9.3",
    "Gradient descent from zero ends at X⁺y, and no iterate leaves the row space",
    measured=torch.stack([distance(from_zero.last, least_norm), outside(from_zero.values[1:])]),
    criterion=identity("‖θ_K − X⁺y‖/‖X⁺y‖ and ‖θ_k − Πθ_k‖/‖θ_k‖", condition=math.sqrt(kappa)),
    control=control(
        "a start drawn from N(0, I)",
        torch.stack([distance(from_random.last, least_norm), outside(from_random.values[1:])]),
    ),
    expected="holds",
    seeds=seeds,
    show="card",
)


# %%
def project_on_line(point):  # foot of the perpendicular on the line through (2, 0) along (2, -1)
    base, along = torch.tensor([2.0, 0.0]).double(), torch.tensor([2.0, -1.0]).double() / math.sqrt(5)
    return base + ((point - base) @ along)[:, None] * along


feet = project_on_line(starts)

# %% tags=["hide-input"]
ledger.check(
    "regularization:fig-9.1",
    "In the opening figure rings and runs are at the orthogonal projections of the starts",
    measured=torch.stack([paths[-1] - feet, predicted - feet, tilted[-1] - tilted_end]).norm(dim=-1),
    criterion=identity("‖θ_K − projection of θ₀‖, ‖ring − projection‖, ‖tilted θ_K − its ring‖", size=3.0),
    control=control(
        "a preconditioner in front of the gradient",
        torch.stack([tilted[-1] - feet, tilted_end - feet, paths[-1] - tilted_end]).norm(dim=-1),
    ),
    expected="reproduced",
    claim="experiment",
)

# %% [markdown]
# The code folded under such a card is the check itself: the numbers, a criterion, and a control that must fail the same
# criterion. **Cite** the card as `regularization:thm-9.3`, with the release of the book.
#
# The row is the source's figure 9.1, a sketch: our opening figure computes it. Here the source's section ends; the rest
# of this page goes beyond it.
#
# :::{admonition} Predict first
# :class: tip
# In the opening figure, start at $\theta_0=(3,0)$. Where does gradient descent end? Does it matter whether you take
# small or large steps?
# :::
#
# :::{dropdown} Answer
# The loss pulls along the only sample, $x=(1,2)$, and nowhere else. The run moves on the line $(3,0)+c\,(1,2)$ and
# meets the solutions where $3+5c=2$, at $c=-\tfrac15$: the end is $(2.8,-0.4)$, for every step size that converges.
# The component along $(2,-1)$ never changes.
# :::
#
# ## From anywhere: the start shifts it, a preconditioner tilts it
#
# The answer shows what the proof really used. It was not the zero; it was that all *increments* lie in the row space.
# Then the iterates stay in the shifted subspace $\theta_0+\text{row space}$, and that subspace meets the set of
# solutions in one point. The argument does not care how an increment came about:
#
# - A *stochastic gradient* is that of one sample, $x_i(x_i^\top\theta-[y]_i)$: a multiple of its row.
# - *Momentum* (the heavy ball) adds $\beta_1(\theta_k-\theta_{k-1})$, a share of the previous increment.
# - *Nesterov's method* extrapolates the gradient steps: $x_{k+1}=\theta_k-\eta\nabla\mathcal L(\theta_k)$, then
#   $\theta_{k+1}=x_{k+1}+\beta_1(x_{k+1}-x_k)$, with $x_0=\theta_0$.
# - A fixed *preconditioner* $P$ in front of the gradient changes the directions, from the rows to $P$ times the rows,
#   and nothing else.
#
# :::{prf:theorem} The nearest solution, in the norm of the preconditioner
# :label: regularization-beyond-preconditioned
# Let $X\in\mathbb R^{n\times d}$ have rank $n<d$, let $P$ be symmetric and positive definite, and let a sequence
# satisfy, for every $k$,
#
# $$\theta_{k+1}-\theta_k\;\in\;\{PX^\top w:\ w\in\mathbb R^n\} .$$
#
# If $\theta_k\to\theta_\infty$ and $X\theta_\infty=y$, then
#
# $$
# \begin{aligned}
# \theta_\infty&=\theta_0+PX^\top(XPX^\top)^{-1}(y-X\theta_0)\\
# &=\arg\min_{X\theta=y}\,R(\theta),\\
# R(\theta)&=(\theta-\theta_0)^\top P^{-1}(\theta-\theta_0).
# \end{aligned}
# $$ (eq-minimum-norm-nearest)
#
# For $P=I$ this is $\theta_\infty=X^+y+(I-\Pi)\theta_0$, the orthogonal projection of the start.
# :::
#
# The hypothesis holds, with any step sizes, for gradients of any samples in any order, and for heavy ball and
# Nesterov's method *started at rest*, $\theta_{-1}=\theta_0$. (A first velocity that the data cannot see would carry
# the run along.) Nobody wrote $R$ into the loss; that training minimizes it all the same is called the *implicit bias*
# of the method.
#
# *The key step.* The limit is $\theta_0+PX^\top w$. It fits, so $XPX^\top w=y-X\theta_0$, and $XPX^\top$ is
# invertible.
#
# :::{dropdown} Proof
# 1. *Same subspace.* By induction $\theta_k\in\theta_0+\{PX^\top w\}$, and this set is closed. So
#    $\theta_\infty=\theta_0+PX^\top w$.
# 2. *One point.* $XPX^\top$ is positive definite: $w^\top XPX^\top w=0$ gives $X^\top w=0$ and, as the rows are
#    independent, $w=0$. From $X\theta_\infty=y$ follows $w=(XPX^\top)^{-1}(y-X\theta_0)$, the first formula.
# 3. *It is the nearest.* Any other solution is $\theta_\infty+\zeta$ with $X\zeta=0$. The cross term
#    $(\theta_\infty-\theta_0)^\top P^{-1}\zeta=w^\top X\zeta$ is zero, so
#    $R(\theta_\infty+\zeta)=R(\theta_\infty)+\zeta^\top P^{-1}\zeta$.
# 4. *The methods.* Full gradients are $X^\top r$, those of one sample multiples of a row. From rest the first
#    increment contains no momentum; the later ones are sums of such vectors and of earlier increments, by induction.
#    With $P$ in front each of them lies in the stated set. $\square$
# :::
#
# Of the symbols of the book's update $\theta_0$ and $P$ are in the formula; $\eta_k$, $\beta_1$ and the noise of
# sampling are not. (Noise $\xi_k$ that points out of the row space would be another matter.)
#
# ### Six optimizers, five arrows
#
# Let us bet on it. Two samples and four weights leave a plane of solutions: every point of
# {numref}`fig-minimum-norm-bet` has zero loss. For five of six optimizers the theorem gives the end point, drawn before
# anything has run. For Adam {cite}`kingma2015adam`, whose $P_k$ is built from the gradients it meets, it says nothing.

# %%
X4, y4 = torch.tensor([[3.0, 1, 0, 1], [0, 1, 2, -1]], **like), torch.tensor([2.0, 1.0], **like)
u = torch.tensor([0.0, -1, 1, 1], **like) / math.sqrt(3)  # an orthonormal basis of what X4 cannot see
w = torch.tensor([2.0, -3, 0, -3], **like) / math.sqrt(22)
P4 = torch.diag(torch.tensor([1.0, 8, 1, 4], **like))
origin = torch.zeros(4, **like)
bets = {  # name: start, and where it will end
    "gradient descent": origin,
    "gradient descent from θ₀": 0.6 * u + 0.3 * w,
    "heavy ball": -0.5 * u + 0.45 * w + X4[0] / 5,
    "one sample at a time": 0.25 * u - 0.55 * w - X4[1] / 3,
    "preconditioned": origin,
}
arrows = {
    name: linear.nearest_solution(X4, y4, start, P4 if name == "preconditioned" else None)
    for name, start in bets.items()
}
bets["Adam"] = origin  # no arrow


def plane(theta):  # coordinates in the plane of solutions
    return torch.stack([theta @ u, theta @ w], dim=-1).cpu()


# %% [markdown]
# :::{admonition} Predict first
# :class: tip
# The picture below shows only directions that the loss cannot see. What will the path of plain gradient descent look
# like in it? Of the heavy ball, which overshoots? Which runs will move at all?
# :::
#
# Now they run.

# %%
order = torch.randint(2, (4000,), generator=run.generator("order")).tolist()
everything = linear.least_squares_gradient(X4, y4)


def one_sample(theta, k):
    i = order[k]
    return X4[i] * (theta @ X4[i] - y4[i])[..., None]


L4 = torch.linalg.matrix_norm(X4, 2).item() ** 2
L4P = torch.linalg.eigvalsh(X4 @ P4 @ X4.T)[-1].item()
rules = {
    "gradient descent": (GradientDescent(1 / L4), everything),
    "gradient descent from θ₀": (GradientDescent(1.9 / L4), everything),
    "heavy ball": (HeavyBall(1 / L4, 0.9), everything),
    "one sample at a time": (GradientDescent(1 / L4), one_sample),
    "preconditioned": (GradientDescent(1 / L4P), lambda theta, k: everything(theta, k) @ P4),
    "Adam": (Adam(lambda k: 0.03 * 10 ** (-6 * k / 4000)), everything),
}
tracks = {
    name: ensembles.iterate(rule, slope, bets[name], 4000, record=range(4001)).values
    for name, (rule, slope) in rules.items()
}

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Five arrows, five hits.** The plane of all solutions of two equations in four unknowns. Rings: end points drawn from the formula before the run. Dots: where the runs ended. Full gradients, momentum and single samples leave no track at all, because this plane holds only what the loss cannot see; the preconditioner moves the end to where its formula says. What breaks it: Adam (dashed) moves through the plane, overshoots and turns back to an end (cross) that no formula announced. The row below gives the distances.", "name": "fig-minimum-norm-bet"}, "image": {"alt": "A plane with five rings, each with a dot in its middle. Four of them have no path. A line leads from the origin to the fifth ring. A dashed line, Adam, starts at the origin too and ends at a point without a ring."}}
fig, ax = figures.subplots(size=(6.0, 5.8))
for (name, track), color in zip(tracks.items(), figures.CYCLE, strict=True):
    path = plane(track)
    if name == "Adam":
        figures.line_control(ax, *path.T, label="Adam")
        ax.scatter(*path[-1], s=60, marker="X", color=figures.CONTROL_COLOR, zorder=3)
        continue
    ax.plot(*path.T, color=color, marker="")
    ax.scatter(*plane(arrows[name]), s=200, facecolors="none", edgecolors=color, linewidths=1.6)
    ax.scatter(*path[-1], s=30, color=color, label=name, zorder=3)
ax.annotate("ring: announced\ndot: where the run ended", (-0.45, -0.66), (-0.28, -0.72), fontsize=9)
ax.set(xlim=(-0.8, 0.9), ylim=(-0.85, 0.65), aspect="equal")
ax.set(xlabel="first direction that the loss cannot see", ylabel="second direction")
fig.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)
plt.show()

# %%
missed = {
    name: distance(track[-1], arrows.get(name, arrows["gradient descent"])) for name, track in tracks.items()
}

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-six-optimizers",
    "Five optimizers end where the formula said before they ran",
    measured=torch.stack([missed[name] for name in arrows]),
    criterion=identity("‖θ_K − announced end‖/‖announced end‖", size=4000 / 100 / (1 - 0.9)),
    control=control("Adam, with the arrow of gradient descent", missed["Adam"]),
    expected="holds",
)
ends = torch.stack([plane(track[-1]) for track in tracks.values()])
said = torch.stack([plane(arrows[name]) for name in arrows] + [torch.full_like(ends[0], torch.nan)])
columns = {"end_u": ends[:, 0], "end_w": ends[:, 1], "announced_u": said[:, 0], "announced_w": said[:, 1]}
figures.numbers(run, "fig-minimum-norm-bet", {"optimizer": torch.arange(6)} | columns, noise=1e-9)

# %% [markdown]
# :::{dropdown} Answer
# Plain gradient descent does not move: its increments lie in the row space, and the plane is orthogonal to it.
# Neither does the heavy ball, which overshoots only in directions that the loss sees, nor the run on single samples.
# The preconditioned run does move, since $PX^\top w$ has a part in the plane. So does Adam.
# :::
#
# That was one problem. On the 20-by-60 problems, from random starts, each method has a row of its own; the card below
# them tests the theorem with random preconditioners and momentum. What breaks it is a wrong formula that looks much the
# same, with $P^{-1}$ in place of $P$.
#
# :::{dropdown} The tolerance with momentum
# With momentum the last digit never settles: every step adds a rounding error, and momentum repeats it
# $1/(1-\beta_1)$ times. So these checks allow $1/(1-\beta_1)$ rounding errors per step.
# :::

# %%
single = torch.randint(n, (20_000, len(seeds)), generator=run.generator("rows")).to(run.device)
each = torch.arange(len(seeds), device=run.device)


def kaczmarz(theta, k):  # one sample a step, with the step size that fits it exactly
    x = X[each, single[k]]
    return x * (((theta * x).sum(-1) - y[each, single[k]]) / x.square().sum(-1))[:, None]


predicted = least_norm + random_start - linear.project_row_space(X, random_start)
methods = {
    "general-start": ("Gradient descent", GradientDescent(1 / L), gradient, 3000, 1),
    "heavy-ball": ("Heavy ball", HeavyBall(1 / L, 0.9), gradient, 3000, 300),
    "nesterov": ("Nesterov's method", Nesterov(1 / L, 0.9), gradient, 3000, 300),
    "kaczmarz": ("One sample at a time, each fitted exactly,", GradientDescent(1.0), kaczmarz, 20_000, 1),
}
ended = {
    name: ensembles.iterate(rule, slope, random_start, count, record=[count]).last
    for name, (_, rule, slope, count, _) in methods.items()
}

# %%
ball = before = point = arrived = random_start  # twenty steps of each by hand, from rest
for k in range(20):
    ball, before = ball - gradient(ball, k) / L + 0.9 * (ball - before), ball
    ahead = point - gradient(point, k) / L
    point, arrived = ahead + 0.9 * (ahead - arrived), ahead
for name, by_hand in (("heavy-ball", ball), ("nesterov", point)):
    library = ensembles.iterate(methods[name][1], gradient, random_start, 20).last
    assert torch.allclose(library, by_hand, rtol=1e-12, atol=1e-12)

# %% tags=["hide-input"]
for name, (title, _, _, _, drift) in methods.items():
    ledger.check(
        f"regularization:beyond-{name}",
        f"{title} from any start ends at X⁺y + (I − Π)θ₀",
        measured=distance(ended[name], predicted),
        criterion=identity("‖θ_K − prediction‖/‖prediction‖", condition=math.sqrt(kappa), size=drift),
        control=control("the prediction X⁺y, without the start", distance(ended[name], least_norm)),
        expected="holds",
        seeds=seeds,
    )

# %%
turn = torch.linalg.qr(torch.randn(len(seeds), d, d, generator=run.generator("turn"), dtype=run.dtype)).Q
stretch = 9.0 ** (torch.rand(len(seeds), 1, d, generator=run.generator("stretch"), dtype=run.dtype) - 0.5)
P = ((turn * stretch) @ turn.mT).to(run.device)  # random axes, eigenvalues from 1/3 to 3
spectrum = torch.linalg.eigvalsh(X @ P @ X.mT)
condition = (spectrum[:, -1] / spectrum[:, 0]).max().item()


def preconditioned(theta, k):
    return (P @ gradient(theta, k)[..., None]).squeeze(-1)


rule = HeavyBall(1 / spectrum[:, -1:], 0.9)
last = ensembles.iterate(rule, preconditioned, random_start, 4000, record=[4000]).last

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-preconditioned",
    "With P before the gradient the end is the solution nearest to the start in the norm of P⁻¹",
    measured=distance(last, linear.nearest_solution(X, y, random_start, P)),
    criterion=identity("‖θ_K − prediction‖/‖prediction‖", condition=math.sqrt(condition), size=400),
    control=control(
        "P⁻¹ in the place of P",
        distance(last, linear.nearest_solution(X, y, random_start, torch.linalg.inv(P))),
    ),
    expected="holds",
    seeds=seeds,
    show="card",
)

# %% [markdown]
# The card measures the end point, the formula of step 2. Step 3 is geometry and is tested with the library's
# `nearest_solution`, against random solutions.
#
# ### Why Adam has no arrow
#
# Adam divides an average $m$ of the gradients $g_k$ by the root of an average $v$ of their squares. Entry by entry,
# with $m_0=v_0=0$,
#
# $$
# \begin{aligned}
# m_{k+1}&=\beta_1m_k+(1-\beta_1)\,g_k,\\
# v_{k+1}&=\beta_2v_k+(1-\beta_2)\,g_k^2,\\
# \theta_{k+1}&=\theta_k-\eta_k\,\frac{m_{k+1}/(1-\beta_1^{k+1})}{\sqrt{v_{k+1}/(1-\beta_2^{k+1})}+\epsilon}.
# \end{aligned}
# $$
#
# Each step is $P_kX^\top w$ with a diagonal $P_k$ that changes with $k$. The increments no longer share one
# $n$-dimensional subspace, and step 1 of the proof fails. Nor can another formula in $X$, $y$ and $\theta_0$ replace
# it: the end depends on the step size.
#
# :::{dropdown} In hindsight there always is a fixed matrix
# Let $y\ne0$. Every solution $\theta$ is the end from zero for some $P$. Put $p=X^\top y$, so that
# $\langle p,\theta\rangle=\lVert y\rVert^2>0$, and
# $P=I-pp^\top/\lVert p\rVert^2+\theta\theta^\top/\lVert y\rVert^2$. It maps $p$ to $\theta$, so
# $XPX^\top y=X\theta=y$, and {eq}`eq-minimum-norm-nearest` gives $PX^\top y=\theta$. It is positive definite: $z^\top Pz$ is the squared distance of $z$ from
# the line of $p$ plus $(\theta^\top z)^2/\lVert y\rVert^2$; both vanish only for $z=0$. A $P$ chosen in hindsight says
# nothing.
# :::
#
# Adam runs from zero on every problem, with two step sizes that decay to $10^{-8}$, so that it does settle. It fits,
# up to that last step size; it ends far from $X^+y$, and far from where the other step size ends. The bounds for "far",
# a quarter and a twentieth of the norm, are a choice. What breaks both is to switch the division off: with
# $\epsilon=10^8$ and $\eta$ in proportion $P_k$ is all but fixed.

# %%
count = run.pick(smoke=2500, book=4000, paper=40_000)
size = torch.tensor([0.03, 0.1], **like)[:, None, None]
rule = Adam(lambda k: size * (1e-8 / size) ** (k / count))
adam = ensembles.iterate(rule, gradient, zero[:2], count, record=[count]).last
undivided = Adam(1e8 * torch.stack([1 / L, 1.9 / L]), epsilon=1e8)
calm = ensembles.iterate(undivided, gradient, zero[:2], count, record=[count]).last

# %%
short = ensembles.iterate(rule, gradient, zero[:2], 20).last
by_hand, mean, square = zero[:2], 0.0, 0.0  # the same twenty steps, from the formula
for k in range(20):
    g = gradient(by_hand, k)
    mean, square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g**2
    root = (square / (1 - 0.999 ** (k + 1))).sqrt() + 1e-8
    by_hand = by_hand - size * (1e-8 / size) ** (k / count) * mean / (1 - 0.9 ** (k + 1)) / root
assert torch.allclose(short, by_hand, rtol=1e-12, atol=1e-12)


def residual_in_steps(theta):  # against what one last step of 1e-8 in every weight can change
    return misfit(theta) * theta.norm(dim=-1) / (math.sqrt(d) * 1e-8)


# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-adam-interpolates",
    "Adam from zero fits the data, up to its last step size",
    measured=residual_in_steps(adam),
    criterion=at_most("‖Xθ_K − y‖/(‖X‖ √d η_K)", 1.0),
    control=control("Adam stopped after 20 steps", residual_in_steps(short)),
    expected="reproduced",
    claim="experiment",
    seeds=seeds,
)
ledger.check(
    "regularization:beyond-adam",
    "Adam from zero ends far from the solution of least norm",
    measured=distance(adam, least_norm),
    criterion=at_least("‖θ_K − X⁺y‖/‖X⁺y‖", 0.25),
    control=control("the division switched off", distance(calm, least_norm)),
    expected="reproduced",
    claim="experiment",
    seeds=seeds,
    show="card",
)
ledger.check(
    "regularization:beyond-adam-step-size",
    "The end point of Adam depends on its step size",
    measured=distance(adam[0], adam[1]),
    criterion=at_least("distance between two step sizes / ‖X⁺y‖", 0.05),
    control=control("the division switched off", distance(calm[0], calm[1])),
    expected="reproduced",
    claim="experiment",
    seeds=seeds,
)

# %%
pull = (y[..., None, :] @ X).squeeze(-2)  # X^T y
along_pull = pull[..., :, None] * pull[..., None, :] / pull.square().sum(-1)[..., None, None]
outer = adam[0][..., :, None] * adam[0][..., None, :] / (adam[0] * pull).sum(-1)[..., None, None]
hindsight = torch.eye(d, **like) - along_pull + outer  # positive definite, and maps X^T y to Adam's end

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-hindsight",
    "In hindsight a fixed P explains Adam's end",
    measured=torch.stack(
        [
            distance(linear.nearest_solution(X, y, zero[0], hindsight), adam[0]),
            distance((hindsight @ pull[..., None]).squeeze(-1), adam[0]),
        ]
    ),
    criterion=identity(
        "‖prediction − θ_K‖/‖θ_K‖, ‖Pp − θ_K‖/‖θ_K‖",
        condition=math.sqrt(kappa * torch.linalg.cond(hindsight).max().item()),
    ),
    control=control("P = I", distance(linear.nearest_solution(X, y, zero[0]), adam[0])),
    expected="holds",
    seeds=seeds,
)

# %% [markdown]
# That adaptive methods end at other interpolants, and at times at worse ones, is the observation of
# {cite}`wilson2017marginal`.
#
# ## How many steps it takes
#
# {prf:ref}`regularization-thm-9-3` assumes convergence. For least squares we can have it, with its exact rate. In the
# singular directions of $X$ the run comes apart: each is a quadratic of curvature $\sigma_i(X)^2$ by itself, and in
# those of curvature zero nothing moves.
#
# :::{prf:proposition} Rate
# :label: regularization-beyond-rate
# Let $X$ have rank $n$ and the singular value decomposition $\sum_{i=1}^n\sigma_i(X)\,u_iv_i^\top$, with orthonormal
# $u_i\in\mathbb R^n$ and orthonormal $v_i\in\mathbb R^d$. Put $L=\sigma_1(X)^2$, $\mu=\sigma_n(X)^2$. Gradient descent
# with constant step $\eta$ from any $\theta_0$ has errors $e_k=\theta_k-\theta_\infty$ from the projection
# $\theta_\infty=X^+y+(I-\Pi)\theta_0$ of its start, with
#
# $$
# \begin{aligned}
# \langle v_i,e_k\rangle&=(1-\eta\,\sigma_i(X)^2)^k\,\langle v_i,e_0\rangle,\\
# \lVert e_k\rVert&\le\rho^k\,\lVert e_0\rVert,\\
# \rho&=\max\bigl(|1-\eta L|,\,|1-\eta\mu|\bigr).
# \end{aligned}
# $$
#
# It converges to $\theta_\infty$ from every start if and only if $0<\eta<2/L$.
# :::
#
# So with $\kappa=L/\mu$ the short step $1/L$ loses a factor $e$ of the error about every $\kappa$ steps, and the best
# step $2/(L+\mu)$ about every $\kappa/2$. The smallest *nonzero* singular value sets the pace. That number will return
# when we count features.
#
# :::{dropdown} Proof
# 1. $X\theta_\infty=y$, so $e_{k+1}=(I-\eta X^\top X)\,e_k$.
# 2. $X^\top X v_i=\sigma_i(X)^2v_i$ gives the factor of direction $i$. The first error $e_0=\Pi\theta_0-X^+y$ lies in
#    the row space, the span of the $v_i$, and the others stay there.
# 3. In the orthonormal basis $v_1,\dots,v_n$ the largest factor bounds the norm. As $x\mapsto|1-\eta x|$ is convex,
#    its maximum over $[\mu,L]$ is at an end.
# 4. All factors lie in $(-1,1)$ exactly when $0<\eta<2/L$; otherwise the component along $v_1$ does not shrink.
#    $\square$
# :::

# %%
U, s, Vh = torch.linalg.svd(X, full_matrices=False)
record = [1, 5, 20, 60]
path = ensembles.iterate(GradientDescent(1 / L), gradient, zero[0], 60, record=record).values


def modes(theta):  # components of the error along v_1, ..., v_n
    return ((theta - least_norm)[..., None, :] @ Vh.mT).squeeze(-2)


def against(factor):
    power = torch.tensor(record, device=run.device)[:, None, None]
    return (modes(path) - factor**power * modes(zero[0])) / modes(zero[0]).abs().amax(-1, keepdim=True)


# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-rate",
    "Along each singular direction the error shrinks by its own factor 1 − ησᵢ²",
    measured=against(1 - s**2 / L),
    criterion=identity("⟨vᵢ, θ_k − θ_∞⟩ minus formula, relative", condition=kappa),
    control=control("the factor 1 − 2ησᵢ², in the slowest direction", against(1 - 2 * s**2 / L)[..., -1]),
    expected="holds",
    seeds=seeds,
)

# %%
step_sizes = torch.stack([0.5 / L, 1 / L, 2 / (L + mu), 1.99 / L])  # (4, seeds, 1)
errors = torch.stack([Vh[:, 0], Vh[:, -1], least_norm / least_norm.norm(dim=-1, keepdim=True)])
path = ensembles.iterate(  # (records, 3 starts, 4 steps, seeds, d)
    GradientDescent(step_sizes), gradient, least_norm + errors[:, None] + 0 * step_sizes, 60, record=record
).values
largest = (path - least_norm).norm(dim=-1).amax(1)
powers = torch.tensor(record, device=run.device)[:, None, None]
rho = torch.maximum((1 - step_sizes * L).abs(), (1 - step_sizes * mu).abs()).squeeze(-1)


def growth(factor):
    last = ensembles.iterate(GradientDescent(factor / L), gradient, zero[0], 400, record=[400]).last
    return distance(last, least_norm)


# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-rate-bound",
    "Four step sizes: the bound ρᵏ is the largest error, at θ_∞ + v₁ or θ_∞ + vₙ",
    measured=largest - rho**powers,
    criterion=identity("max ‖e_k‖ − ρᵏ over three starts with ‖e₀‖ = 1", condition=kappa),
    control=control(
        "ρ without its first term, the longest step",
        largest[:, -1] - (1 - step_sizes[-1] * mu).squeeze(-1) ** powers[:, 0],
    ),
    expected="holds",
    seeds=seeds,
)


ledger.check(
    "regularization:beyond-step-limit",
    "A step beyond 2/σ₁² drives the run away",
    measured=growth(2.05),
    criterion=at_least("‖θ₄₀₀ − θ_∞‖/‖θ₀ − θ_∞‖, step 2.05/σ₁²", 1.0),
    control=control("step 1.95/σ₁²", growth(1.95)),
    expected="holds",
    seeds=seeds,
)

# %% [markdown]
# One sample at a time has a rate as well. With $\lVert X\rVert_F^2=\sum_i\lVert x_i\rVert^2$, draw sample $i$ with
# probability $\lVert x_i\rVert^2/\lVert X\rVert_F^2$ and fit it exactly (the Kaczmarz method). In the mean this is
# gradient descent with step $1/\lVert X\rVert_F^2$, and the mean square shrinks at least as fast as that step's slowest
# factor (exactly so if the rows are orthonormal) {cite}`strohmer2009randomized`:
#
# $$
# \begin{aligned}
# \mathbb E\,e_k&=\bigl(I-X^\top X/\lVert X\rVert_F^2\bigr)^k\,e_0,\\
# \mathbb E\lVert e_k\rVert^2&\le\bigl(1-\mu/\lVert X\rVert_F^2\bigr)^k\,\lVert e_0\rVert^2 .
# \end{aligned}
# $$
#
# There is noise, and yet no noise floor: at a solution every sample is fitted, so the gradient of each is zero. That
# is particular to problems that can be interpolated. (The end-point check above and the figure below draw the samples
# uniformly; the end is the same, the rate need not be. The values that the two rows below have to exclude belong to a
# $\mu$ that is wrong by a tenth in the first, by a fifth in the second.)
#
# :::{dropdown} Proof
# 1. Fitting sample $i$ projects the error $e=e_k$ on the complement of $x_i$:
#    $e'=e-x_i\langle x_i,e\rangle/\lVert x_i\rVert^2$. Given the past, the mean over $i$ is
#    $e-X^\top Xe/\lVert X\rVert_F^2$; the mean over the past gives the first formula.
# 2. $\lVert e'\rVert^2=\lVert e\rVert^2-\langle x_i,e\rangle^2/\lVert x_i\rVert^2$, with mean
#    $\lVert e\rVert^2-\lVert Xe\rVert^2/\lVert X\rVert_F^2$, given the past.
# 3. $e_0=\Pi\theta_0-X^+y$ lies in the row space, and so does every $e$; there
#    $\lVert Xe\rVert\ge\sigma_n(X)\lVert e\rVert$. Repeat $k$ times. $\square$
# :::

# %%
chains = run.pick(smoke=4000, book=4000, paper=40_000)
slow = mu[0, 0] / X[0].square().sum()
count = round(1 / slow.item())  # after so many steps the mean error is 1/e of the first


def sampled_rows(X, y, count, stream):  # the chains from zero, after half the steps and all
    weights = X.square().sum(-1)  # squared norms of the samples
    rows = torch.multinomial(weights.cpu(), chains * count, True, generator=run.generator(stream))
    rows = rows.reshape(count, chains).to(run.device)

    def fit_one(theta, k):  # (chains, d)
        x = X[rows[k]]
        return x * (((theta * x).sum(-1) - y[rows[k]]) / weights[rows[k]])[:, None]

    start = torch.zeros(chains, d, **like)
    return ensembles.iterate(GradientDescent(1.0), fit_one, start, count, record=[count // 2, count]).values


last_v = Vh[0, -1]  # v_n, the solution if y = X v_n
error = sampled_rows(X[0], X[0] @ last_v, count, "kaczmarz") - last_v
half, whole = -(error @ last_v)
first = Vh[0].T @ y[0]  # the solution if the rows are orthonormal: v_1, ..., v_n
ratio = (sampled_rows(Vh[0], y[0], n, "orthonormal")[-1] - first).square().sum(-1) / first.square().sum()

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-kaczmarz-mean",
    "Sampled rows: along vₙ the mean error shrinks by 1 − σₙ²/‖X‖²_F a step",
    measured=statistics.mean_interval(whole),
    criterion=exponent(
        "mean of ⟨vₙ, θ_k − θ_∞⟩/⟨vₙ, θ₀ − θ_∞⟩",
        (1 - slow.item()) ** count,
        neighbours=[(1 - 1.1 * slow.item()) ** count],
    ),
    control=control("the same chains after half as many steps", statistics.mean_interval(half)),
    expected="holds",
)
assert error[-1].square().sum(-1).mean() <= (1 - slow) ** count
ledger.check(
    "regularization:beyond-kaczmarz-rate",
    "Orthonormal rows attain the bound (1 − σₙ²/‖X‖²_F)ᵏ of the mean squared error",
    measured=statistics.mean_interval(ratio / (1 - 1 / n) ** n),
    criterion=exponent(
        "mean of ‖e_k‖²/(bound ‖e₀‖²)", 1.0, neighbours=[((1 - f / n) / (1 - 1 / n)) ** n for f in (0.8, 1.2)]
    ),
    control=control("2σₙ² in the place of σₙ²", statistics.mean_interval(ratio / (1 - 2 / n) ** n)),
    expected="holds",
)

# %% [markdown]
# Momentum replaces $\kappa$ by $\sqrt\kappa$ {cite}`polyak1964some,nesterov1983method`. At curvature $h$ the errors of
# the heavy ball shrink like powers of the roots of $x^2-(1+\beta_1-\eta h)\,x+\beta_1$, of modulus $\sqrt{\beta_1}$ as
# long as $(1-\sqrt{\beta_1})^2\le\eta h\le(1+\sqrt{\beta_1})^2$. With equality at $h=\mu$ and $h=L$ this gives
# $\eta=4/(\sqrt L+\sqrt\mu)^2$ and $\beta_1=q^2$, $q=(\sqrt L-\sqrt\mu)/(\sqrt L+\sqrt\mu)$. (There the two roots are
# equal, and the error along $v_1$ and $v_n$ is of the order $k\,q^k$.) Nesterov takes $\eta=1/L$, $\beta_1=q$.

# %%
horizon = 500
passes = torch.arange(0, horizon + 1, 10)
q = (L.sqrt() - mu.sqrt()) / (L.sqrt() + mu.sqrt())
contenders = {
    "gradient descent, 1/L": (GradientDescent(1 / L), gradient, 1),
    "gradient descent, 2/(L+μ)": (GradientDescent(2 / (L + mu)), gradient, 1),
    "heavy ball": (HeavyBall(4 / (L.sqrt() + mu.sqrt()) ** 2, q**2), gradient, 1),
    "Nesterov": (Nesterov(1 / L, q), gradient, 1),
    "one sample at a time": (GradientDescent(1.0), kaczmarz, n),
    "Adam": (Adam(lambda k: 0.03 * 10 ** (-6 * k / horizon)), gradient, 1),
}
errors = {}
for name, (rule, slope, cost) in contenders.items():
    path = ensembles.iterate(rule, slope, zero[0], horizon * cost, record=(passes * cost).tolist()).values
    errors[name] = distance(path, least_norm).T  # (seeds, points)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Speed differs, the end does not.** Distance to the solution of least norm on the random problems (lines: geometric means over seeds, bands: 95 % intervals); a pass is one use of all samples. Gradient descent at two step sizes, both kinds of momentum and single samples all reach rounding level (where Nesterov's momentum goes on adding rounding errors). The dotted line is the rate $(1-\\mu/L)^k$ of the step $1/L$. What breaks it: Adam (dashed) keeps its distance.", "name": "fig-minimum-norm-errors"}, "image": {"alt": "Distance to the least-norm solution on a logarithmic axis against passes over the data. Five straight falling lines of different slope level off near ten to the minus fifteen; a dotted line runs parallel to the slowest. A dashed line for Adam stays flat near one half."}}
fig, ax = figures.subplots(size=(6.0, 5.2))
for name, samples in errors.items():
    if name == "Adam":
        figures.line_control(ax, passes, samples.log().mean(0).exp(), label="Adam")
    else:
        figures.band(ax, passes, samples.clamp(min=1e-17), label=name, geometric=True)
slowest = (1 - mu / L).squeeze(-1).log().mean().exp().item()
ax.plot(passes, slowest**passes, ":", color=COLORS["ink"], marker="", label="(1 − μ/L)ᵏ")
ax.set(
    yscale="log",
    ylim=(1e-16, 5),
    xlabel="passes over the data",
    ylabel="$\\|\\theta_k-X^+y\\|\\,/\\,\\|X^+y\\|$",
)
fig.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)
plt.show()

# %% tags=["hide-input"]
means = {
    f"optimizer_{i}": samples.clamp(min=1e-15).log().mean(0).exp()
    for i, samples in enumerate(errors.values())
}
figures.numbers(run, "fig-minimum-norm-errors", {"passes": passes} | means, rtol=1e-2, noise=1e-13)

# %% [markdown]
# ## Stop early, and it is ridge regression
#
# Nobody runs to the end. What do we have after a while? Take the flow $\dot\theta=-\nabla\mathcal L(\theta)$, which exists for all times by {prf:ref}`thesis-thm-a-1-2`
# ({chapter}`Flows and diffusions <toolbox/flows_and_diffusions>`), since the gradient is linear in $\theta$, from
# zero. After time $t$ (about $k=t/\eta$ steps) the direction with singular value $\sigma_i(X)$ has covered the share
# $1-e^{-t\sigma_i(X)^2}$ of its way to $X^+y$. Large directions are finished, small ones have hardly begun.
#
# Ridge regression adds a penalty to the loss: $\theta^{\mathrm{ridge}}_\lambda$ minimizes
# $\mathcal L(\theta)+\tfrac\lambda2\lVert\theta\rVert^2$, so $(X^\top X+\lambda I)\,\theta=X^\top y$. In the basis $v_i$
# each direction gets the share $\sigma_i(X)^2/(\sigma_i(X)^2+\lambda)$ of its way. With $\lambda=1/t$ and
# $s=t\sigma_i(X)^2$ the two shares are $1-e^{-s}$ and $s/(1+s)$: nearly the same curve. Stopping is a penalty, and time
# is the inverse of its strength {cite}`suggala2018connecting,ali2019continuous`.
#
# :::{prf:proposition} Early stopping and ridge
# :label: regularization-beyond-early-stopping
# Let $1+c=\max_{s>0}(1-e^{-s})(1+s)/s$, a number between $1.2984$ and $1.2985$. For every $X$, every $y$ and every
# $t>0$
#
# $$\lVert\theta(t)-\theta^{\mathrm{ridge}}_{1/t}\rVert\le c\,\lVert\theta^{\mathrm{ridge}}_{1/t}\rVert .$$
#
# If moreover $y=X\theta^\star+\varepsilon$ with $\mathbb E\,\varepsilon=0$ and $\mathrm{Cov}(\varepsilon)=\sigma^2I$,
# then for every $\theta^\star$, with $(1+c)^2<1.69$,
#
# $$\mathbb E\lVert\theta(t)-\theta^\star\rVert^2\le(1+c)^2\;\mathbb E\lVert\theta^{\mathrm{ridge}}_{1/t}-\theta^\star\rVert^2 .$$
# :::
#
# *The key step.* $e^{s}\ge1+s$ says that the flow has covered at least as much as ridge in every direction; $c$ says
# by how much more.
#
# :::{dropdown} Proof
# 1. In the basis $v_i$ the two vectors are $a_i(1-e^{-s_i})$ and $a_is_i/(1+s_i)$ with $s_i=t\sigma_i(X)^2$ and
#    $a_i=\langle u_i,y\rangle/\sigma_i(X)$. Their ratio lies in $[1,1+c]$: the lower end is $e^{-s}\le1/(1+s)$, the
#    upper one the definition of $c$. (The ratio tends to 1 for $s\to0$ and $s\to\infty$.)
# 2. So each component of the difference is at most $c$ times that of ridge. Sum the squares: the first claim.
# 3. Now $\langle u_i,y\rangle=\sigma_i(X)\langle v_i,\theta^\star\rangle+\langle u_i,\varepsilon\rangle$. So the error of
#    an estimator with shares $h_i$ is, in direction $v_i$, bias squared $(1-h_i)^2\langle v_i,\theta^\star\rangle^2$
#    plus variance $\sigma^2h_i^2/\sigma_i(X)^2$; the invisible part of $\theta^\star$ is missed by both.
# 4. The bias of the flow is no larger, $e^{-s}\le1/(1+s)$. Its variance is at most $(1+c)^2$ times as large.
#    $\square$
# :::
#
# For the checks the problems get singular values that fall like $1/i$. The flow is exact (an eigenvalue
# decomposition); nothing is discretized. Ridge comes from its own linear system.


# %%
def excess(s):  # share of the flow over the share of ridge, minus one
    return -math.expm1(-s) * (1 + s) / s - 1


best = minimize_scalar(lambda s: -excess(s), bounds=(0.5, 5), method="bounded", options={"xatol": 1e-12})
c = excess(best.x)
assert 1.2984 < 1 + c < 1.2985 and (1 + c) ** 2 < 1.69

decay = 1 / torch.arange(1, n + 1, **like)
design = U * decay @ Vh  # singular values 1, 1/2, ..., 1/n
times = torch.logspace(-1, 5, 61, **like)


def flow_and_ridge(targets, strength):  # (times, ..., seeds, d) each; ridge with lambda = strength / t
    pull = (targets[..., None, :] @ design).squeeze(-2)
    flow = flows.linear_flow(design.mT @ design, pull, torch.zeros(d, **like), times)
    penalties = (strength / times)[:, None]
    return flow, linear.ridge_solution(design, targets, penalties)


flow, ridge = flow_and_ridge(y, 1.0)
_, twice = flow_and_ridge(y, 2.0)
s = times[:, None] * decay**2  # (times, n), t sigma_i^2
flow_share, ridge_share = 1 - torch.exp(-s), s / (1 + s)
goal = (U.mT @ y[..., None]).squeeze(-1) / decay  # the end a_i in every direction


# %%
def uncovered(theta, share):  # components along v_i against share a_i, in units of the whole way
    return ((theta[..., None, :] @ Vh.mT).squeeze(-2) - share[:, None] * goal) / goal.norm(dim=-1)[:, None]


def worst_gap(strength):  # one sample, at the time where the shares differ most
    x, worst = X[0, :1], best.x / X[0, 0].square().sum()
    pull = y[0, 0] * x[0]
    stopped = flows.linear_flow(x.mT @ x, pull, 0 * pull, worst[None])[0]
    return distance(stopped, linear.ridge_solution(x, y[0, :1], strength / worst)) - c


some = slice(20, 40)  # times at which every direction is under way
gaps, covered = distance(flow, ridge).amax(0), (uncovered(flow, flow_share), uncovered(ridge, ridge_share))
swapped = (uncovered(flow, ridge_share)[some], uncovered(ridge, flow_share)[some])

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-early-stopping",
    "Flow and ridge, λ = 1/t, cover their shares; one sample has the gap c, none more",
    measured=torch.cat([each.flatten() for each in (*covered, (gaps - c).clamp(min=0), worst_gap(1.0))]),
    criterion=identity(
        "⟨vᵢ, θ(t)⟩ − shareᵢ aᵢ relative to ‖X⁺y‖; gap − c", condition=(decay[0] / decay[-1]).item() ** 2
    ),
    control=control(
        "the shares exchanged, and λ = 2/t",
        torch.cat([each.flatten() for each in (*swapped, distance(flow, twice).amax(0) - c, worst_gap(2.0))]),
    ),
    expected="holds",
    seeds=seeds,
)

# %%
unit = torch.eye(n, **like).expand(len(seeds), n, n)  # estimators are linear in y: feed them e_1, ..., e_n
pull = design.movedim(1, 0)  # design^T e_j for every j, (n, seeds, d)
flow_map = flows.linear_flow(design.mT @ design, pull, torch.zeros(d, **like), times).movedim(1, -1)
ridge_map = linear.ridge_solution(design, unit, (1 / times)[:, None])  # both (times, seeds, d, n)
truth = linear.project_row_space(design, random_start)
truth = truth / truth.norm(dim=-1, keepdim=True)
noise_level = 0.02


def risk(estimator):  # exact: bias squared plus variance
    bias = (estimator @ (design @ truth[..., None])).squeeze(-1) - truth
    return bias.square().sum(-1) + noise_level**2 * estimator.square().sum((-2, -1))


flow_risk, ridge_risk = risk(flow_map), risk(ridge_map)


# %%
def by_direction(share):  # step 3 of the proof: bias squared plus variance, summed over the directions
    bias = (1 - share)[:, None] * (Vh @ truth[..., None]).squeeze(-1)
    return bias.square().sum(-1) + (noise_level * share / decay).square().sum(-1)[:, None]


excess_risk = (flow_risk / ridge_risk).amax(0) - (1 + c) ** 2
assert (flow_risk[-1] > (1 + c) ** 2 * ridge_risk.amin(0)).all()  # never stopping
closed = by_direction(flow_share), by_direction(ridge_share)

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-early-stopping-risk",
    "Expected errors are bias² plus variance; the flow's is below (1 + c)² times that of ridge",
    measured=torch.cat(
        [flow_risk / closed[0] - 1, ridge_risk / closed[1] - 1, excess_risk[None].clamp(min=0)]
    ),
    criterion=identity(
        "E‖θ(t) − θ⋆‖²/(bias² + variance) − 1; excess over (1 + c)²",
        condition=(decay[0] / decay[-1]).item() ** 2,
    ),
    control=control(
        "the shares exchanged", torch.cat([flow_risk / closed[1] - 1, ridge_risk / closed[0] - 1])[10:50]
    ),
    expected="holds",
    seeds=seeds,
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Stopping at time t is almost ridge with λ = 1/t.** Top: one problem in its first and third singular directions. The flow (filled) and ridge (open, at the same times t) leave zero together and end at the solution of least norm; at equal t ridge is never ahead of the flow. Bottom: expected squared error (means over problems, bands: 95 %). What breaks it: never stopping (dashed) fits the noise.", "name": "fig-minimum-norm-early"}, "image": {"alt": "Top, two curves from the origin to a common end point, both bending upwards, ridge inside the flow; markers on both. Bottom, two similar U-shaped curves of expected error against time on a logarithmic axis; their right ends rise to a dashed horizontal line."}}
fig, (left, right) = figures.subplots(2, 1, size=(5.8, 6.6))
first, third = Vh[0, 0], Vh[0, 2]
full = (torch.linalg.pinv(design[:1]) @ y[:1, :, None]).squeeze()


def seen(theta):
    return (
        torch.stack([theta @ first, theta @ third], -1) / torch.stack([full @ first, full @ third])
    ).T.cpu()


assert (seen(ridge[:, 0]) <= seen(flow[:, 0]) + 1e-12).all()  # never ahead
left.plot(*seen(flow[:, 0]), marker="", label="gradient flow")
left.plot(*seen(ridge[:, 0]), "--", color=COLORS["vermillion"], marker="", label="ridge")
left.scatter(*seen(flow[::3, 0]), s=24, color=COLORS["blue"], zorder=3)
left.scatter(
    *seen(ridge[::3, 0]), s=24, facecolors=COLORS["white"], edgecolors=COLORS["vermillion"], zorder=3
)
left.set(xlabel="direction 1, share of the way", ylabel="direction 3, share of the way")
left.legend(loc="upper left")
figures.band(right, times, flow_risk.T, label="gradient flow, stopped at t", marker="")
figures.band(right, times, ridge_risk.T, label="ridge, λ = 1/t", marker="")
never = torch.full_like(times, flow_risk[-1].mean().item())
figures.line_control(right, times, never, label="never stopping")
right.set(xscale="log", ylim=(0, 1.7), xlabel="time t", ylabel="expected squared error")
right.legend(loc="upper left")
plt.show()

# %% tags=["hide-input"]
figures.numbers(
    run,
    "fig-minimum-norm-early",
    {"time": times, "flow": flow_risk.mean(1), "ridge": ridge_risk.mean(1)},
    rtol=1e-4,
)

# %% [markdown]
# So stopping is a penalty in disguise. Whatever the truth is, and for every stopping time fixed beforehand, the
# expected squared error is at most 1.69 times that of ridge with the matching $\lambda$. Never stopping is matched only
# with no penalty at all; on these problems it costs more than 1.69 times the error of the best ridge.
#
# ## Another geometry, another solution
#
# The start and $P$ were the only knobs so far, and both keep the norm quadratic. A third one changes the kind of
# norm. *Mirror descent* takes the gradient step not on $\theta$ but on $z=\nabla\Psi(\theta)$, for a strictly convex
# potential $\Psi$:
#
# $$\nabla\Psi(\theta_{k+1})=\nabla\Psi(\theta_k)-\eta\,X^\top(X\theta_k-y).$$
#
# Now it is $z$ whose increments lie in the row space. The argument goes through word for word
# {cite}`gunasekar2018characterizing`.
#
# :::{prf:proposition} Mirror descent
# :label: regularization-beyond-mirror
# Let $\Psi$ be differentiable and strictly convex on $\mathbb R^d$. If mirror descent converges to a point
# $\theta_\infty$ with $X\theta_\infty=y$, then
#
# $$\theta_\infty=\arg\min_{X\theta=y}\;\Psi(\theta)-\langle\nabla\Psi(\theta_0),\theta\rangle .$$
#
# From a start with $\nabla\Psi(\theta_0)=0$ it is the solution of least $\Psi$.
# :::
#
# :::{dropdown} Proof
# 1. All increments of $\nabla\Psi(\theta_k)$ are in the row space, and $\nabla\Psi$ is continuous (a differentiable
#    convex function has a continuous gradient). So $\nabla\Psi(\theta_\infty)-\nabla\Psi(\theta_0)=X^\top w$.
# 2. Let $X\theta=y$ and $\zeta=\theta-\theta_\infty$. By strict convexity
#    $\Psi(\theta)>\Psi(\theta_\infty)+\langle\nabla\Psi(\theta_\infty),\zeta\rangle$ unless $\zeta=0$, and
#    $\langle\nabla\Psi(\theta_\infty),\zeta\rangle=\langle\nabla\Psi(\theta_0),\zeta\rangle$, since $w^\top X\zeta=0$.
# 3. Subtract $\langle\nabla\Psi(\theta_0),\theta\rangle$ on both sides: the objective is larger at $\theta$ than at
#    $\theta_\infty$. $\square$
# :::
#
# We try three potentials. $\tfrac12\sum_i[\theta]_i^2$ is gradient descent. The fourth powers,
# $\tfrac14\sum_i[\theta]_i^4$, dislike large entries. The third,
#
# $$
# \begin{aligned}
# \Psi(\theta)=\sum_i\Bigl(&[\theta]_i\operatorname{arcsinh}\frac{[\theta]_i}{2\alpha^2}\\
# &-\sqrt{[\theta]_i^2+4\alpha^4}+2\alpha^2\Bigr)
# \end{aligned}
# $$
#
# with a small $\alpha$, behaves like the sum of absolute values; its gradient is
# $\operatorname{arcsinh}(\theta/2\alpha^2)$. It will return in the next chapter, where plain gradient descent on the
# weights of a small network, started at scale $\alpha$, produces it without being asked to.

# %%
a = 2 * 0.1**2  # 2 alpha^2
potentials = {  # value, gradient, inverse of the gradient; each acts entry by entry
    "½ Σ θ²": (lambda t: t**2 / 2, lambda t: t, lambda z: z),
    "¼ Σ θ⁴": (lambda t: t**4 / 4, lambda t: t**3, lambda z: z.sign() * z.abs() ** (1 / 3)),
    "arcsinh": (
        lambda t: t * torch.asinh(t / a) - (t**2 + a**2).sqrt() + a,
        lambda t: torch.asinh(t / a),
        lambda z: a * torch.sinh(z),
    ),
}


def mirror_descent(X, y, potential, eta, steps, theta=0.0):
    _, to_mirror, from_mirror = potentials[potential]
    z = to_mirror(torch.zeros(*X.shape[:-2], X.shape[-1], **like) + theta)
    slope, path = linear.least_squares_gradient(X, y), []
    for k in range(steps):
        path.append(from_mirror(z))
        z = z - eta * slope(path[-1], k)
    return torch.stack(path)


# %% [markdown]
# In the opening example the prediction needs no optimizer: along the line $\theta=(0.4,0.8)+b\,(2,-1)$ the derivative
# of the proposition's objective vanishes at a root of a function of one variable. On problems of 5 samples
# and 40 weights we test, for the third potential, the certificate of the proof: $X\theta_\infty=y$, and
# $\nabla\Psi(\theta_\infty)$ has no part outside the row space. What breaks it is to ask for the certificate of
# another potential.

# %%
line_X, line_y = torch.tensor([[1.0, 2.0]], **like), torch.tensor([2.0], **like)
middle, along = torch.tensor([0.4, 0.8], **like), torch.tensor([2.0, -1.0], **like)


def least_potential(potential, start=0 * middle):  # on the line of solutions
    to_mirror = potentials[potential][1]
    slope = lambda b: ((to_mirror(middle + b * along) - to_mirror(start)) @ along).item()  # noqa: E731
    return middle + brentq(slope, -0.5, 0.5, xtol=1e-15, rtol=1e-14) * along


announced = {name: least_potential(name) for name in potentials}
mirrored = {name: mirror_descent(line_X, line_y, name, 0.05, 3000) for name in potentials}
hits = {name: distance(mirrored[name][-1], target) for name, target in announced.items()}
misses = {name: distance(mirrored[name][-1], announced["½ Σ θ²"]) for name in ("arcsinh", "¼ Σ θ⁴")}
for value, to_mirror, from_mirror in potentials.values():  # value, gradient and inverse belong together
    slope = torch.func.grad(lambda t, value=value: value(t).sum())(along)
    assert torch.allclose(to_mirror(along), slope, rtol=1e-12)
    assert torch.allclose(from_mirror(slope), along, rtol=1e-12)
other_start = torch.tensor([-0.6, 0.2], **like)
other_end = least_potential("arcsinh", other_start)
elsewhere = mirror_descent(line_X, line_y, "arcsinh", 0.05, 3000, other_start)
hits["another start"] = distance(elsewhere[-1], other_end)
misses["another start"] = distance(elsewhere[-1], announced["arcsinh"])

# %%
small_X, small_y = X[:, :5, :40] / math.sqrt(40), y[:, :5]


def certificate(theta, potential):
    z = potentials[potential][1](theta)
    outside = z - linear.project_row_space(small_X, z)
    return outside.norm(dim=-1) / z.norm(dim=-1)


plain, entropic = (mirror_descent(small_X, small_y, name, 0.3, 10_000)[-1] for name in ("½ Σ θ²", "arcsinh"))
unfit = ((entropic[..., None, :] @ small_X.mT).squeeze(-2) - small_y).norm(dim=-1) / small_y.norm(dim=-1)

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-mirror",
    "Mirror descent ends at the least Ψ − ⟨∇Ψ(θ₀), θ⟩, from zero at the least Ψ",
    measured=torch.cat([torch.stack([*hits.values()]), certificate(entropic, "arcsinh"), unfit]),
    criterion=identity(
        "distance from the announced end; ‖(I − Π)∇Ψ(θ_∞)‖/‖∇Ψ(θ_∞)‖; ‖Xθ_∞ − y‖/‖y‖",
        condition=torch.linalg.cond(small_X).max().item() * torch.asinh(entropic / a).abs().max().item(),
    ),
    control=control(
        "the end points and certificates of another potential or start",
        torch.cat(
            [torch.stack([*misses.values()]), certificate(plain, "arcsinh"), certificate(entropic, "½ Σ θ²")]
        ),
    ),
    expected="holds",
    seeds=seeds,
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Three potentials, three end points.** On the solutions of $[\\theta]_1+2[\\theta]_2=2$ each run of mirror descent (line) ends where a level set of its own potential touches the line of solutions (ring, found beforehand): a circle, a rounded square, nearly a diamond. The last one is close to the sparse solution (0, 1). What breaks it: the arcsinh run started elsewhere (dashed) does not end at the least potential, but in the ring that the proposition gives for its start.", "name": "fig-minimum-norm-mirror"}, "image": {"alt": "A line of solutions in the plane and three closed curves around the origin that touch it: a circle, a square with round corners and a diamond with slightly curved sides. Three paths from the origin end at the three touching points; a dashed path from another start ends elsewhere on the line."}}
fig, ax = figures.subplots(size=(5.8, 5.8))
grid = torch.linspace(-1.3, 1.5, 281, dtype=run.dtype)
across, up = torch.meshgrid(grid, grid, indexing="xy")
ax.plot([-1.2, 1.5], [1.6, 0.25], color=COLORS["grey"], marker="")
for name, color in zip(potentials, figures.CYCLE, strict=False):
    value, end = potentials[name][0], announced[name].cpu()
    ax.contour(
        grid, grid, value(across) + value(up), levels=[value(end).sum().item()], colors=color, linewidths=0.8
    )
    ax.plot(*mirrored[name].T.cpu(), color=color, marker="", label=name)
    ax.scatter(*end, s=130, facecolors="none", edgecolors=color, linewidths=1.6)
figures.line_control(ax, *elsewhere.T.cpu(), label="another start")
ax.scatter(*other_end.cpu(), s=130, facecolors="none", edgecolors=figures.CONTROL_COLOR, linewidths=1.6)
ax.set(xlim=(-1.2, 1.5), ylim=(-1.1, 1.4), aspect="equal", xlabel="$[\\theta]_1$", ylabel="$[\\theta]_2$")
fig.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)
plt.show()

# %% [markdown]
# ## Digits: a hundred images, a thousand features
#
# Now real data. The features are the hidden layer of a network whose first layer is random and stays so
# {cite}`rahimi2007random`: $d$ features $\max(0,w_j^\top x)$ with $w_j\sim N(0,I)$ of an MNIST image $x$, scaled to
# length one and centred. Ten outputs, one a digit, are ten least-squares problems with the same $X$, so they are a
# batch axis.
#
# With more features than images, gradient descent from zero must agree with the two standard routines that return a
# least-norm solution. The rate tells us how long to run.

# %%
digits = data.load("mnist-10k")
shuffle = torch.randperm(len(digits), generator=run.generator("images"))
images = digits.inputs.reshape(len(digits), -1)[shuffle].to(**like)
labels = digits.targets[shuffle].to(run.device)
images = images / images.norm(dim=-1, keepdim=True)
images = images - images[:8000].mean(0)
onehot = torch.nn.functional.one_hot(labels, 10).to(run.dtype) - 0.1

n_images, n_features = run.pick(smoke=(30, 300), book=(100, 1000), paper=(200, 8000))
source = run.generator("weights")
W = torch.randn(n_features, 784, generator=source, dtype=run.dtype).to(run.device)
features, goal = linear.random_features(images[:n_images], W), onehot[:n_images]
sizes = torch.linalg.svdvals(features) ** 2
top, bottom = sizes[0].item(), sizes[-1].item()
pace = (top - bottom) / (top + bottom)  # the rate of the best step size
count = math.ceil(math.log(1e-14) / math.log(pace))

slope = linear.least_squares_gradient(features, goal.T)
start = torch.randn(10, n_features, generator=source, dtype=run.dtype).to(run.device) / math.sqrt(n_features)
rule = GradientDescent(2 / (top + bottom))
both = torch.stack([torch.zeros_like(start), start])
descended, shifted = ensembles.iterate(rule, slope, both, count, record=[count]).last.mT
by_pinv = torch.linalg.pinv(features) @ goal
by_lstsq = torch.linalg.lstsq(features.cpu(), goal.cpu(), driver="gelsd").solution.to(run.device)


def apart(one, two):
    return (one - two).norm() / two.norm()


# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-random-features",
    "On digits gradient descent from zero, lstsq and the pseudo-inverse agree",
    measured=torch.stack([apart(descended, by_pinv), apart(by_lstsq, by_pinv), apart(descended, by_lstsq)]),
    criterion=identity("‖difference‖/‖X⁺Y‖", condition=math.sqrt(top / bottom)),
    control=control("gradient descent from a random start", apart(shifted, by_pinv)),
    expected="holds",
    show="card",
)

# %% [markdown]
# The run took as many steps as the rate predicts for fourteen digits, and that was a comfortable case: ten times more
# features than images.
#
# ### As many features as images
#
# :::{admonition} Predict first
# :class: tip
# Fix 300 training images and let the number of features $d$ grow from nine to eight times 300; always take the
# least-squares solution of least norm. From $d=300$ on it fits every training image. How does the error on new images
# at $d=300$ compare with that at the best $d$ below 300, and with that at $d=2400$?
# :::

# %%
n_train, draws_of_data = run.pick(smoke=(80, 3), book=(300, 10), paper=(1000, 20))
ratios = [0.03, 0.07, 0.13, 0.2, 0.27, 0.4, 0.53, 0.67, 0.8, 0.9, 0.95]  # below the threshold
ratios += [1, 1.05, 1.1, 1.2, 1.4, 1.7, 2, 2.7, 4, 8]
widths = [round(ratio * n_train) for ratio in ratios]
descent_seeds = run.seeds(smoke=draws_of_data, book=draws_of_data, paper=draws_of_data)


def drawn(seed):  # first layer and training images; fewer features are the first rows of the same W
    source = run.generator("double descent", seed=seed)
    chosen = torch.randperm(8000, generator=source)[:n_train]
    return torch.randn(widths[-1], 784, generator=source, dtype=run.dtype), chosen


first_layer, chosen = (each.to(run.device) for each in ensembles.stack_over_seeds(drawn, descent_seeds))
train = linear.random_features(images[chosen], first_layer)  # (seeds, images, features)
new = torch.arange(len(images) - 1000, len(images), device=run.device)
assert not torch.isin(new, chosen).any()
test = linear.random_features(images[new], first_layer)


def test_error(theta):  # theta (seeds, d, 10): share of wrong digits
    guess = (test[..., : theta.shape[-2]] @ theta).argmax(-1)
    return (guess != labels[new]).to(run.dtype).mean(-1)


# %%
table, before = [], torch.zeros(len(descent_seeds), 1, 10, **like)
for width in widths:
    part, goal = train[..., :width], onehot[chosen]
    theta = linear.min_norm_solution(part, goal)
    sizes = torch.linalg.svdvals(part)
    step = 1 / sizes[:, 0] ** 2
    early = linear.stopped_gradient_descent(part, goal, step, 300)
    errors = [test_error(theta), test_error(early)]
    norm, unfit = theta.norm(dim=(-2, -1)), (part @ theta - goal).norm(dim=(-2, -1))
    padded = (part[..., : before.shape[-2]] @ before - goal).norm(dim=(-2, -1))  # zeros for the new ones
    table.append([*errors, norm, unfit, padded, sizes[:, 0], sizes[:, -1]])
    before = theta
solved, stopped, norms, unfit, padded, largest, smallest = (
    torch.stack(each, dim=1).cpu() for each in zip(*table, strict=True)
)

# %%
at = widths.index(n_train)  # the threshold, as many features as images


def three_errors(errors):
    best_below = int(solved.mean(0)[:at].argmin())  # the control is judged at the same three d
    return {"d = 8n": errors[:, -1], "best d < n": errors[:, best_below], "d = n": errors[:, at]}


# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-double-descent",
    "Test error is worst at d = n, and far above n lower than at the best d below n",
    measured=three_errors(solved),
    criterion=ordering("test error of the least-norm solution", ["d = 8n", "best d < n", "d = n"]),
    control=control("gradient descent stopped after 300 steps", three_errors(stopped)),
    expected="reproduced",
    claim="experiment",
    seeds=descent_seeds,
    needs="book",
    show="card",
)
ledger.check(
    "regularization:beyond-norm-monotone",
    "From d = n on, more features never raise the norm of the interpolant",
    measured=1 - norms[:, at + 1 :] / norms[:, at:-1],
    criterion=inequality("1 − ‖X⁺Y‖ at the next d / ‖X⁺Y‖ at this d, d ≥ n"),
    control=control("below n", 1 - norms[:, 1:at] / norms[:, : at - 1]),
    expected="holds",
    seeds=descent_seeds,
    rtol=1e-4,
)

# %% tags=["hide-input"]
lengths = (largest / smallest) ** 2  # kappa
unfit, padded = (each / onehot[chosen].norm(dim=(-2, -1)).cpu()[:, None] for each in (unfit, padded))
ridge = 0.01 * largest[:, at, None] ** 2  # a penalty, and what it makes of the lengths
ridged = (largest**2 + ridge) / (smallest**2 + ridge)


def over_others(at_each):  # at d = n, over the largest at another d
    return at_each[:, at] / torch.cat([at_each[:, :at], at_each[:, at + 1 :]], dim=1).amax(1)


ledger.check(
    "regularization:beyond-fits-from-threshold",
    "From d = n on every training image is fitted, and stays so with zeros for new features",
    measured=torch.cat([unfit[:, at:], padded[:, at + 1 :]], dim=1),
    criterion=identity("‖XΘ − Y‖/‖Y‖, d ≥ n", condition=lengths[:, at:].max().sqrt().item()),
    control=control("below n", torch.cat([unfit[:, :at], padded[:, : at + 1]], dim=1)),
    expected="holds",
    seeds=descent_seeds,
    rtol=1e-4,
)
ledger.check(
    "regularization:beyond-condition-peak",
    "κ, the length of a run, is largest at d = n",
    measured=over_others(lengths),
    criterion=at_least("κ at d = n / largest κ at another d", 1.0),
    control=control("a ridge penalty of a hundredth of σ₁² at d = n", over_others(ridged)),
    expected="reproduced",
    claim="experiment",
    seeds=descent_seeds,
    needs="book",
    rtol=1e-4,
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**As many features as images is the worst choice, and more features repair it.** Random features of MNIST, 300 training images (means over draws of images and features, bands: 95 %). Top: the least-squares solution of least norm fits all training images from d = n on (vertical line); there its error on new images peaks, and far to the right it is lower than anywhere on the left. Without the effect: gradient descent stopped after 300 steps (dashed) knows no peak. Bottom: the norm of the solution and the inverse of the smallest singular value peak where the error does.", "name": "fig-minimum-norm-double-descent"}, "image": {"alt": "Two panels over the number of features on a logarithmic axis. Top: the test error falls, rises to a sharp peak near ninety percent where the number of features equals the number of images, and falls again to its lowest value; a dashed curve falls throughout. Bottom: the norm of the solution and the inverse smallest singular value have a sharp peak at the same place and decrease to its right."}}
fig, (top_panel, bottom_panel) = figures.subplots(2, 1, size=(6.6, 5.6), sharex=True)
figures.band(top_panel, widths, 100 * solved, label="least norm, lstsq")
stop = {"label": "stop after 300 steps", "role": "without the effect"}
figures.line_control(top_panel, widths, 100 * stopped.mean(0), **stop)
top_panel.axhline(90, color=COLORS["middle grey"], linestyle=":", label="guessing")
top_panel.set(ylabel="test error, %", ylim=(0, 100))
top_panel.legend(loc="lower left")
figures.band(
    bottom_panel, widths, norms, label="norm of the solution", geometric=True, color=COLORS["vermillion"]
)
figures.band(
    bottom_panel,
    widths,
    1 / smallest,
    label="1 / smallest singular value",
    geometric=True,
    color=COLORS["green"],
)
bottom_panel.set(xscale="log", yscale="log", xlabel="number of features d")
bottom_panel.legend(loc="upper left")
for panel in (top_panel, bottom_panel):
    panel.axvline(n_train, color=COLORS["grey"], lw=1, zorder=0)
plt.show()

# %% tags=["hide-input"]
figures.numbers(
    run,
    "fig-minimum-norm-double-descent",
    {
        "features": widths,
        "test_error": solved.mean(0),
        "test_error_stopped": stopped.mean(0),
        "norm": norms.log().mean(0).exp(),
        "smallest_singular_value": smallest.log().mean(0).exp(),
    },
    rtol=2e-2,
)

# %% [markdown]
# :::{dropdown} Answer
# At $d=300$ it is worse than at the best $d$ below; at $d=2400$ it is better than at both. The curve is called double descent
# {cite}`belkin2019reconciling`; for linear models it has been computed {cite}`hastie2022surprises`.
# :::
#
# Three facts explain it. At $d=n$ there is one interpolant, no choice at all, and the smallest singular value of a
# square random matrix is close to zero (here it is measured; for Gaussian entries see {cite}`edelman1988eigenvalues`):
# the solution needs a huge norm to fit the last bit of the data. With $d>n$ least norm has a choice: pad the old
# solution with a zero for the new feature, it still fits, so the new least norm is at most the old one. And by
# {prf:ref}`regularization-beyond-rate` a run needs about $\kappa$ steps to reach the solution, which explodes at $d=n$:
# **gradient descent stopped after 300 steps does not see the peak** (the control). The peak belongs to the limit.
#
# What this does not show: that a small norm *causes* a small test error. The norm explains the peak; how low the
# curve ends depends on whether the digits are well described by small weights on these features
# {cite}`bartlett2020benign`.
#
# ## Exercises
#
# :::{exercise} By hand
# :label: ex-minimum-norm-by-hand
# For $X=[1,2]$, $y=2$ and $P=\mathrm{diag}(4,1)$, find where preconditioned gradient descent ends from $(0,0)$ and
# from $(3,0)$. For which diagonal $P$ does the run from zero end at $(\tfrac23,\tfrac23)$?
# :::
#
# :::{solution} ex-minimum-norm-by-hand
# :class: dropdown
# $PX^\top=(4,2)$ and $XPX^\top=8$. From zero: $(4,2)\cdot\tfrac28=(1,\tfrac12)$. From $(3,0)$ what is missing,
# $y-X\theta_0$, is $-1$, so the end is $(3,0)-\tfrac18(4,2)=(2.5,-0.25)$. For $P=\mathrm{diag}(p,1)$ the direction is
# $(p,2)$; it is parallel to $(1,1)$ for $p=2$, and so for every multiple of $\mathrm{diag}(2,1)$.
# :::
#
# :::{exercise} Predict a number
# :label: ex-minimum-norm-adam
# With a *single* sample, Adam does have an arrow. Take $X=[1,2]$, $y=2$, $\epsilon=0$ and the start $(0,0)$. Where
# does it end? Why does the argument fail for two samples?
# :::
#
# :::{solution-start} ex-minimum-norm-adam
# :class: dropdown
# :::
#
# All gradients are multiples $r_kx$ of the one sample. Coordinate $i$ of Adam's first moment is $x_i$ times an
# average of the $r_k$, coordinate $i$ of the root of the second moment is $|x_i|$ times another one. The ratio is
# $\mathrm{sign}(x_i)$ times a number that is the same for all $i$ with $x_i\ne0$: the run moves along
# $\mathrm{sign}(x)=(1,1)$. If it converges to a solution, as here, that is
# $(\tfrac23,\tfrac23)$, the solution whose largest entry is smallest. With two samples $r_k\in\mathbb R^2$
# changes direction, so coordinate $i$ of $X^\top r_k$ is no longer a fixed number times a common scalar.

# %% tags=["hide-cell"]
rule = Adam(lambda k: 0.03 * 10 ** (-6 * k / 3000), epsilon=0.0)
slope = linear.least_squares_gradient(line_X, line_y)
end = ensembles.iterate(rule, slope, torch.zeros(2, **like), 3000, record=[3000]).last
assert torch.allclose(end, torch.tensor([2 / 3, 2 / 3], **like), atol=1e-6)

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Change one line
# :label: ex-minimum-norm-steps
# How many steps does gradient descent need on the problems of this page until its error is $10^{-10}$ of the first?
# Count them for $\eta=1/L$, then change the step to $2/(L+\mu)$. Expected: the ratio of the two counts is
# $\ln(1-\tfrac1\kappa)/\ln\tfrac{\kappa-1}{\kappa+1}$ to within five percent in the median over the problems, a
# little more than one half.
# :::
#
# :::{solution-start} ex-minimum-norm-steps
# :class: dropdown
# :::


# %% tags=["hide-cell"]
def steps_needed(step_size, limit=2000):
    path = ensembles.iterate(
        GradientDescent(step_size), gradient, zero[0], limit, record=range(limit + 1)
    ).values
    return (distance(path, least_norm) > 1e-10).sum(0)


ratio = steps_needed(2 / (L + mu)) / steps_needed(1 / L)
condition_number = (L / mu).squeeze(-1)
expected = (1 - 1 / condition_number).log() / ((condition_number - 1) / (condition_number + 1)).log()
assert abs((ratio / expected).median().item() - 1) < 0.05 and (expected > 0.5).all()

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Break the proof
# :label: ex-minimum-norm-decay
# Add weight decay: $\theta_{k+1}=\theta_k-\eta\,(\nabla\mathcal L(\theta_k)+\lambda\theta_k)$ with
# $0<\eta<2/(L+\lambda)$. Which steps of the proof
# of {prf:ref}`regularization-beyond-preconditioned` break for a start with a part outside the row space, and which one
# also for $\theta_0=0$? Where does the run end, and how long does it remember its start?
# :::
#
# :::{solution-start} ex-minimum-norm-decay
# :class: dropdown
# :::
#
# Outside the row space step 1 breaks: the increment $-\eta\lambda\theta_k$ has a part there. That part obeys
# $\zeta_{k+1}=(1-\eta\lambda)\zeta_k$, so the start is forgotten at the rate $1-\eta\lambda$, however slowly. Step 2
# breaks for every start, $\theta_0=0$ too: the limit is the ridge solution, which does not fit the data. As
# $\lambda\to0$ after $k\to\infty$, every start leads to $X^+y$.

# %% tags=["hide-cell"]
decay_strength = 0.1
step_size = 1 / (L + decay_strength)
decayed = ensembles.iterate(
    GradientDescent(step_size),
    lambda theta, k: gradient(theta, k) + decay_strength * theta,
    random_start,
    1000,
    record=[1000],
).last
ridge_end = linear.ridge_solution(X, y, decay_strength)
invisible = (random_start - linear.project_row_space(X, random_start)) * (
    1 - step_size * decay_strength
) ** 1000
assert torch.allclose(decayed, ridge_end + invisible, atol=1e-8)

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Open
# :label: ex-minimum-norm-open
# Describe the end point of Adam on least squares with $n\ge2$ samples. Measured above: the end depends on the step
# size, so a formula in $X$, $y$ and $\theta_0$ alone will not do. Already for steepest descent in a norm that is not
# quadratic the limit depends on the step sizes, and no potential describes it in general
# {cite}`gunasekar2018characterizing`. Does the end converge as the step size tends to zero with $\beta_1,\beta_2$
# fixed? Try sign descent first.
# :::
#
# ## What to remember
#
# 1. The solutions of an under-determined least-squares problem are $X^+y$ plus what the data cannot see.
# 2. Increments in the row space never change the invisible part: gradient descent ends at the solution nearest to its
#    start, from zero at the one of least norm.
# 3. Of the book's update only $\theta_0$ and a fixed $P$ move the end point; $\eta$, $\beta_1$ and the order of
#    samples set the speed. A changing $P_k$, as in Adam, voids the prediction.
# 4. The pace is set by the smallest nonzero singular value; stopping at time $t$ is ridge with $\lambda=1/t$, up to a
#    factor.
# 5. Test error peaks at $d=n$ because the only interpolant there has a huge norm; beyond, least norm has a choice and
#    uses it.
#
# **Further reading.** {cite}`zhang2017understanding` made the question urgent: networks that can fit random labels
# generalize nevertheless. {cite}`gunasekar2018characterizing` treat mirror descent, momentum and steepest descent in
# one frame. {cite}`ali2019continuous` have the sharp comparison with ridge, {cite}`hastie2022surprises` the theory of
# the second descent, {cite}`bartlett2020benign` when interpolating noise is harmless. The next chapter replaces
# $\theta$ by $u\odot u-v\odot v$ and asks the question of this one again.
#
# ## Checks behind this page

# %% tags=["remove-input"]
ledger.table()
