# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Momentum and two digits
#
# You train with the step size $0.01$ and the momentum $0.9$, and you read a proof about a ball that rolls down the loss
# with friction. The proof is about a curve, your run jumps. In the figure the two start at the same point, at rest, and
# end in different minima.
#
# **When may one replace training with momentum by the rolling ball?** Positions and velocities together: some true run of
# the method, from a start a little beside, stays close to the curve all the way, at a distance proportional to the step
# in time; and a ball with a slightly smaller mass stays closer still, from the same start. **What breaks it**: little
# friction, flat directions, and a comparison from the same start near a saddle.

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

from learning_dynamics import figures, results, rules, runs, statistics
from learning_dynamics.ensembles import iterate
from learning_dynamics.experiments.momentum_shadowing import two_digits
from learning_dynamics.flows import modified_field, sampled_flow
from learning_dynamics.ledger import (
    Ledger,
    at_least,
    at_most,
    between,
    confident,
    control,
    correction,
    exponent,
    identity,
    inequality,
)
from learning_dynamics.momentum.shadowing import (
    adapted_norm,
    hyperbolic_splitting,
    least_squares_shadow,
    linear_shadow,
    pseudo_orbit_error,
)

figures.use_style()
run = runs.Run("momentum/momentum_shadowing", scale=SCALE, device=DEVICE, seed=SEED)
ledger = Ledger(run)
like = {"dtype": run.dtype}  # small problems: on the CPU, whatever DEVICE says
plain = {"marker": ""}


# %%
def two_basins(theta):  # gradient of (θ_1² - 1)²/4 + 3 θ_2²/2 + θ_1 θ_2
    first, second = theta.unbind(-1)
    return torch.stack([first**3 - first + second, 3 * second + first], -1)


def step(z, gradient, h, a):  # heavy ball from z = (θ, v): time step h, friction a
    theta, v = z.chunk(2, -1)
    v = v - h * (a * v + gradient(theta))
    return torch.cat([theta + h * v, v], -1)


def orbit(z, gradient, h, a, K):
    path = [z]
    for _ in range(K):
        path.append(step(path[-1], gradient, h, a))
    return torch.stack(path)


def flow(z, gradient, h, a, K, mass=1.0):  # the rolling ball, seen once every time h
    def field(z):
        theta, v = z.chunk(2, -1)
        return torch.cat([v, -(a * v + gradient(theta)) / mass], -1)

    return sampled_flow(field, z, h, K, rtol=1e-10, atol=1e-12)


def gap(one, other):  # distance of the positions
    return (one - other).chunk(2, -1)[0].norm(dim=-1)


# %%
start, h, a, K = torch.tensor([2.085, 1.5, 0, 0], **like), 0.1, 1.0, 240
curve = flow(start, two_basins, h, a, K)
same_start = orbit(start, two_basins, h, a, K)
shadow = least_squares_shadow(lambda z: step(z, two_basins, h, a), curve)
assert shadow.converged and shadow.residuals[-1] < 1e-12
shift = shadow.orbit[0] - start

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Same start, other minimum; another start, the same path.** Left: a loss with minima at $(\\pm1.155,\\mp.385)$ and a saddle (cross). The rolling ball (black) and heavy ball with $h=0.1$, friction $1$ (step size $.01$, momentum $.9$) start at rest in $(2.085,1.5)$. What breaks the comparison (dashed): from the same start, heavy ball ends in the other minimum. A true run of heavy ball from a start moved by $.04$, with some velocity (blue), follows the ball. Right: distance of the positions.", "name": "fig-momentum-shadowing-basins"}, "image": {"alt": "Left: contour lines of two valleys; a black curve and blue points swing together into one valley, dashed points end in the other. Right: the dashed distance rises to 2.7 and stays there, the blue one stays below 0.13 and falls."}}
fig, (left, right) = figures.subplots(1, 2, size=(8.6, 3.9))
across, up = torch.linspace(-2.0, 2.4, 81, **like), torch.linspace(-1.4, 1.8, 81, **like)
one, two = torch.meshgrid(across, up, indexing="xy")
surface = (one**2 - 1) ** 2 / 4 + 1.5 * two**2 + one * two
levels = [-0.5, -0.3, -0.1, 0.0, 0.3, 1, 2, 4, 7]
left.contour(one, two, surface, levels=levels, colors=figures.COLORS["light grey"])
left.plot(*curve[:, :2].T, color=figures.COLORS["black"], **plain, label="rolling ball")
left.plot(
    *shadow.orbit[:, :2].T,
    "o",
    ms=3,
    color=figures.COLORS["blue"],
    label="heavy ball, start moved",
    markevery=1,
)
figures.line_control(left, *same_start[:, :2].T, label="same start")
left.plot(0, 0, "x", color=figures.COLORS["vermillion"])
left.set(xlabel=r"$\theta_1$", ylabel=r"$\theta_2$", ylim=(-1.4, 1.8))
left.legend(fontsize=8, loc="upper left", frameon=True, framealpha=0.9, edgecolor="none")
right.plot(gap(shadow.orbit, curve), color=figures.COLORS["blue"], **plain)
figures.line_control(right, range(K + 1), gap(same_start, curve))
right.set(xlabel="step $k$", ylabel="distance to the ball", yscale="log", ylim=(1e-5, 5))
plt.show()

# %% [markdown]
# In the equation of the book, $\theta_{k+1}=\theta_k$ $-\,\eta_kP_k(\nabla\mathcal L(\theta_k)+\xi_k)$
# $+\,\beta_1(\theta_k-\theta_{k-1})$, this chapter keeps $\beta_1>0$, with one step size, the full gradient and $P_k=I$.
# After it you can
#
# - translate a step size and a momentum into a time step and a friction, and back;
# - say how wrong one step is, and why the answer has $1/a$ in it, where $a$ is the friction;
# - say why the argument that works for gradient descent stops here, and which norm repairs it for quadratics;
# - find the differential equation that a run with momentum follows ten times better than the usual one.
#
# The source is section 2.4 of {cite}`orvieto2023dynamics` from heavy ball on, with appendix B.2.4; the two basins of momentum and the equation of higher order go beyond it. Read
# {chapter}`Shadowing <momentum/shadowing>` first: the theorems for gradient descent are proved there. Two of its words in
# short: a *pseudo-orbit* is a sequence that obeys the method up to a small error in each step, and its *shadow* is a true
# run of the method, from a start of its own, that stays near it. The page runs in about half a minute on one CPU core, in about ten seconds with `SCALE = "smoke"`;
# three kept results took four minutes more.
#
# ## A clock for momentum
#
# A ball of mass one at the position $\theta(t)$ rolls on the loss with friction $a>0$:
# $\ddot\theta+a\dot\theta+\nabla\mathcal L(\theta)=0$. With the velocity $v=\dot\theta$ this is an equation for the *phase
# point* $z=(\theta,v)$,
#
# $$
# \begin{aligned}
# \dot\theta&=v,\\
# \dot v&=-a\,v-\nabla\mathcal L(\theta) .
# \end{aligned}
# $$ (eq-momentum-shadowing-flow)
#
# Its solution is the *flow of heavy ball*. A numerical method for it moves the velocity first and uses the new velocity to
# move the position (the *semi-implicit* Euler method).
#
# :::{prf:definition} Heavy ball in phase space
# :label: thesis-eq-hb-phase-space
# With the time step $h>0$ and the friction $a\ge0$, from $v_0=0$,
#
# $$
# \begin{aligned}
# v_{k+1}&=v_k-h\,\bigl(a\,v_k+\nabla\mathcal L(\theta_k)\bigr),\\
# \theta_{k+1}&=\theta_k+h\,v_{k+1} .
# \end{aligned}
# $$ (eq-momentum-shadowing-step)
#
# Write $\Psi$ for the map $(\theta_k,v_k)\mapsto(\theta_{k+1},v_{k+1})$. Its positions are the iterates of heavy ball,
# $\theta_{k+1}=\theta_k+\beta_1(\theta_k-\theta_{k-1})-\eta\nabla\mathcal L(\theta_k)$ from $\theta_{-1}=\theta_0$, with
# $\eta=h^2$ and $\beta_1=1-ah$.
# :::
#
# (Insert $v_k=(\theta_k-\theta_{k-1})/h$ into the second line.) Read from right to left, this is the translation: whoever
# trains with $\eta$ and $\beta_1$ runs a clock that advances by $h=\sqrt\eta$ in each step, against the friction
# $a=(1-\beta_1)/\sqrt\eta$.
#
# | step size $\eta$ | momentum $\beta_1$ | time step $h$ | friction $a$ |
# |---|---|---|---|
# | $0.001$ | $0.9$ | $0.032$ | $3.16$ |
# | $0.01$ | $0.9$ | $0.1$ | $1$ |
# | $0.1$ | $0.9$ | $0.32$ | $0.32$ |
# | $0.1$ | $0.99$ | $0.32$ | $0.032$ |
# | $1$ | $0.7$ | $1$ | $0.3$ (the digits below) |
#
# Gradient descent with the same $\eta$ advances the clock of *its* flow by $\eta$ only. A comparison of the two methods
# at the same $h$ therefore gives gradient descent the larger step size, $h$ against $h^2$, whenever $h<1$; at $h=1$ the two step
# sizes agree.
#
# *By hand.* $\mathcal L=\frac12\theta^2$, $h=\frac12$, $a=1$, so $\eta=\frac14$ and $\beta_1=\frac12$. From $\theta_0=2$ at
# rest: $v_1=-1$, $\theta_1=1.5$; then $v_2=-1-\frac12(-1+1.5)=-1.25$, $\theta_2=0.875$. Heavy ball says the same:
# $1.5+\frac12(1.5-2)-\frac14\cdot1.5=0.875$. The ball of {eq}`eq-momentum-shadowing-flow` is at $1.791$ and $1.319$ at
# these times. It is late by $0.29$ and $0.44$, and we shall see why.
#
# :::{dropdown} The letters of the source
# | here | source, section 2.4 | meaning |
# |---|---|---|
# | $\mathcal L$, $\theta$, $v$ | $f$; $z$ or $q$; $v$ or $p$ | loss, position, velocity |
# | $h$, $a$ | $h$, $\alpha$ | time step, friction (viscosity) |
# | $\eta$, $\beta_1$ | $\eta$, $\beta$ | step size $h^2$, momentum $1-ah$ |
# | $\Psi$; $z_k$; $\hat z_k$ | $\Psi^{\mathrm{HB}}_{\alpha,h}$; $x_k$; $y_k$ | one step; its orbit; the sampled flow |
# | $\Gamma$, $L$, $\mu$ | $\ell$, $L$, $\mu$ | bound on the gradient; smoothness; strong convexity |
# | $\delta$, $\varepsilon$ | $\delta$, $\epsilon$ | one-step error, shadowing radius |
# | $c$ (local) | $\lambda$ | one curvature, an eigenvalue of $H$ |
# | $q$ (local) | $q$ | an eigenvalue of one step |
# | $\lambda$, $x_i$, $y_i=\pm1$ | $\lambda$, $a_i$, $l_i$ | weight decay; image; label |
# :::

# %%
half = torch.tensor([2.0, 0.0], **like)
assert orbit(half, lambda theta: theta, 0.5, 1.0, 2)[:, 0].tolist() == [2.0, 1.5, 0.875]
assert abs(flow(half, lambda theta: theta, 0.5, 1.0, 2)[1:, 0] - torch.tensor([1.791, 1.319])).max() < 1e-3


def recursion(theta, gradient, eta, beta1, K):  # heavy ball as it is usually written
    path = [theta, theta]
    for _ in range(K):
        here, before = path[-1], path[-2]
        path.append(here + beta1 * (here - before) - eta * gradient(here))
    return torch.stack(path[1:])


first = orbit(start, two_basins, 0.1, 0.7, 60)
second = recursion(start[:2], two_basins, 0.01, 0.93, 60)
printed = recursion(start[:2], two_basins, 0.01, -0.93, 60)
library = iterate(
    rules.HeavyBallPhase(0.1, 0.7), lambda theta, k: two_basins(theta), start[:2], 60, range(61)
)
assert torch.equal(library.values, first[:, :2])

# %% [markdown]
# Each result on this page is checked by a computation, whose outcome stands in a row or a card below it: what was
# measured, what it was allowed to be, and the same number for something wrong, which has to fail; "at best" is the wrong value that comes
# nearest to passing. Some rows measure a margin, one minus value over bound: "worst 0.2 against at least 0" says that the least margin was 0.2.
# "Claimed 1, not 0 or 2" says that a 99.9 % interval contains 1 and excludes 0 and 2.
# {doc}`How claims are checked <../../book/how_claims_are_checked>` explains the rest.

# %% tags=["hide-input"]
ledger.check(
    "thesis:eq-hb-phase-space",
    "Positions of the phase-space step are the iterates of heavy ball, η = h², β₁ = 1 − ah",
    measured=(first[:, :2] - second)[2:],
    criterion=identity("difference of the positions", condition=1e2),
    control=control("minus in front of β₁", (first[:, :2] - printed)[2:]),
    expected="holds",
)

# %% [markdown]
# ## How wrong is one step?
#
# Sample the flow once every $h$: $\hat z_k=z(kh)$. The step $\Psi$ does not lead exactly from $\hat z_k$ to
# $\hat z_{k+1}$, and the largest error of one step is what {chapter}`Shadowing <momentum/shadowing>` calls $\delta$. For
# gradient descent it is $\frac12L\Gamma h^2$ ({prf:ref}`thesis-prop-2-4-2`). Two assumptions are made from here on: $\mathcal L$ is twice
# continuously differentiable with a Hessian $H$ of norm at most $L$ ($L$-smooth), and $\lVert\nabla\mathcal L\rVert\le\Gamma$ along the flow. The second holds
# whenever the set $\{\mathcal L\le\mathcal L(\theta_0)\}$ is bounded, because a ball that starts at rest never rises above
# its start: $\frac{d}{dt}\bigl(\mathcal L(\theta)+\frac12\lVert v\rVert^2\bigr)=-a\lVert v\rVert^2\le0$.
#
# A step uses a straight line where the flow bends. Its error is therefore governed by the second derivative
# of what it moves: $\ddot\theta$ for the position and $\ddot v=\dddot\theta$ for the velocity. How large can they get?
#
# **Predict first.** A ball rolls down a long slope of steepness $\Gamma$ with friction $a$ and then through a valley floor.
# Where is the *third* derivative of its position large, and how does that depend on $a$?
#
# :::{dropdown} Answer
# On the floor. The ball arrives with the limiting speed $\Gamma/a$, and the gradient turns from $\Gamma$ to $-\Gamma$ as
# fast as the ball passes: at the rate $H\dot\theta$, up to $L\Gamma/a$. Little friction makes the ball fast and the third derivative large.
# :::
#
# :::{prf:lemma} Speed, acceleration and jerk of the rolling ball
# :label: thesis-lemma-b-2-1
# From rest, for all $t\ge0$,
#
# $$
# \begin{aligned}
# \lVert\dot\theta(t)\rVert&\le\frac\Gamma a,\qquad \lVert\ddot\theta(t)\rVert\le2\Gamma,\\
# \lVert\dddot\theta(t)\rVert&\le2a\Gamma+\frac{L\Gamma}a .
# \end{aligned}
# $$ (eq-momentum-shadowing-jerk)
# :::
#
# *The key step.* $\frac{d}{dt}\nabla\mathcal L(\theta(t))=H(\theta)\,\dot\theta$: the velocity appears here, and with it the
# bound $\Gamma/a$.
#
# :::{dropdown} Proof
# 1. $\frac{d}{dt}(e^{at}v)=-e^{at}\nabla\mathcal L$ and $v(0)=0$ give $v(t)=-\int_0^te^{-a(t-s)}\nabla\mathcal L(\theta(s))\,ds$,
#    so $\lVert v\rVert\le\Gamma(1-e^{-at})/a$.
# 2. $\lVert\dot v\rVert\le a\lVert v\rVert+\lVert\nabla\mathcal L\rVert\le2\Gamma$.
# 3. $\ddot v=-a\dot v-H\,v$, so $\lVert\ddot v\rVert\le2a\Gamma+L\,\Gamma/a$. This is the key step. $\square$
# :::
#
# :::{prf:proposition} The sampled flow of heavy ball is a pseudo-orbit
# :label: thesis-prop-2-4-5
# Along the flow from rest, $\lVert\hat z_{k+1}-\Psi(\hat z_k)\rVert\le\delta$ with
#
# $$
# \delta=\Gamma\Bigl[(1+h)\Bigl(a+\frac L{2a}\Bigr)+1\Bigr]h^2 .
# $$ (eq-momentum-shadowing-delta)
# :::
#
# *Why one should expect it.* The velocity of $\Psi$ is off by a second-order remainder, which is large where the jerk is. The position
# inherits this error, multiplied by $h$, and adds a remainder of its own.
#
# :::{dropdown} Proof
# Let $(\theta,v)=\hat z_k$ and $(\theta^+,v^+)=\hat z_{k+1}$. Taylor's theorem forwards for the velocity,
# $v^+=v-h(av+\nabla\mathcal L(\theta))+R_v$ with $\lVert R_v\rVert\le\frac{h^2}2\sup\lVert\ddot v\rVert\le h^2\Gamma(a+\frac L{2a})$,
# and backwards for the position, $\theta=\theta^+-hv^++R_\theta$ with
# $\lVert R_\theta\rVert\le\frac{h^2}2\sup\lVert\ddot\theta\rVert\le h^2\Gamma$. The step $\Psi$ has the velocity $v^+-R_v$ and the
# position $\theta+h(v^+-R_v)=\theta^++R_\theta-hR_v$. The two components of the error are thus at most $\lVert R_v\rVert$ and
# $\lVert R_\theta\rVert+h\lVert R_v\rVert$; add them. $\square$
# :::
#
# **Cite this result** as the anchor `thesis-prop-2-4-5` of this page, with the release of the book.
#
# **Why the third derivative knows the speed.** The source differentiates $\nabla\mathcal L$ along the path with
# the *acceleration* in the place of the velocity, and so has $2(a+L)\Gamma$ for the jerk and $\Gamma(a+1+L)h^2$ for the
# step. The velocity bound $\Gamma/a$ enters the third derivative, so the constant must contain $L\Gamma/a$; this matters
# for a friction below about $\frac12$. The loss $\sqrt{1+\theta^2}$ (a parabola in the middle, straight slopes of
# steepness $\Gamma=1$, $L=1$) shows it: the ball starts far up the slope, at $8/a^2$, and we look until the time
# $20/a$, with $h=.01$.


# %%
def straight_slopes(theta):  # gradient of √(1 + θ²): L = Γ = 1
    return theta / (1 + theta**2).sqrt()


def largest(a, h=0.01):  # speed, acceleration, jerk, one-step error
    z = flow(torch.tensor([8 / a**2, 0.0], **like), straight_slopes, h, a, round(20 / (a * h)))
    theta, v = z.T
    acceleration = -a * v - straight_slopes(theta)
    jerk = -a * acceleration - v / (1 + theta**2) ** 1.5
    errors = pseudo_orbit_error(lambda z: step(z, straight_slopes, h, a), z)
    return torch.stack([each.abs().max() for each in (v, acceleration, jerk, errors)])


frictions = torch.tensor(
    run.pick(
        smoke=[0.2, 1.0], book=[0.1, 0.2, 0.3, 0.5, 1.0, 2.0], paper=[0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0]
    ),
    **like,
)
speed, acceleration, jerk, one_step = torch.stack([largest(a.item()) for a in frictions], 1)
jerk_bound, jerk_printed = 2 * frictions + 1 / frictions, 2 * (frictions + 1)
delta = (1.01 * (frictions + 1 / (2 * frictions)) + 1) * 0.01**2
delta_printed = (frictions + 2) * 0.01**2

# %% tags=["hide-input"]
assert run.scale == "smoke" or torch.allclose(
    jerk[:3], torch.tensor([9.802, 4.624, 2.806], **like), rtol=1e-3
)
low = frictions < 0.25
ledger.check(
    "thesis:lemma-b.2.1",
    "Speed ≤ Γ/a, acceleration ≤ 2Γ, jerk ≤ 2aΓ + LΓ/a along the flow from rest",
    measured=torch.cat([1 - speed * frictions, 1 - acceleration / 2, 1 - jerk / jerk_bound]),
    criterion=inequality("1 − largest value/bound"),
    control=control("jerk, printed bound, a ≤ 0.2", 1 - (jerk / jerk_printed)[low]),
    expected="corrected",
    correction=correction(
        printed="‖p̈‖ ≤ 2(α + L)ℓ", right="‖p̈‖ ≤ 2αℓ + Lℓ/α, with the velocity bound ℓ/α", evidence="refereed"
    ),
)
ledger.check(
    "thesis:prop-2.4.5",
    "One step of heavy ball misses its sampled flow by at most Γ[(1 + h)(a + L/2a) + 1]h²",
    measured=1 - one_step / delta,
    criterion=inequality("1 − largest one-step error/δ"),
    control=control("printed δ, a ≤ 0.2", 1 - (one_step / delta_printed)[low]),
    expected="corrected",
    correction=correction(
        printed="δ = ℓ(α + 1 + L)h²", right="δ = ℓ[(1 + h)(α + L/(2α)) + 1]h²", evidence="refereed"
    ),
    show="card",
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Little friction, large error.** The loss $\\sqrt{1+\\theta^2}$, a ball from $8/a^2$ at rest, $h=.01$. Left: largest third derivative against the friction $a$, with the bound of the lemma. Right: largest error of one step, with the bound of the proposition. What breaks it (dashed): the printed bounds, which stay finite as $a\\to0$ and are exceeded.", "name": "fig-momentum-shadowing-delta"}, "image": {"alt": "Two panels against friction on logarithmic axes. Measured points rise to the left along the solid bound above them; a dashed flat bound is crossed near friction 0.3 on the left and 0.2 on the right."}}
fig, (left, right) = figures.subplots(1, 2, size=(8.6, 3.7))
grid = torch.logspace(math.log10(0.08), math.log10(2.2), 60, **like)
left.loglog(frictions, jerk, "o", label="measured", color=figures.COLORS["blue"])
left.loglog(grid, 2 * grid + 1 / grid, color=figures.COLORS["black"], **plain, label=r"$2a\Gamma+L\Gamma/a$")
figures.line_control(left, grid, 2 * (grid + 1), label=r"$2(a+L)\Gamma$")
left.set(xlabel="friction $a$", ylabel="jerk")
right.loglog(frictions, one_step, "o", label="measured", color=figures.COLORS["blue"])
right.loglog(
    grid, (1.01 * (grid + 0.5 / grid) + 1) * 1e-4, color=figures.COLORS["black"], **plain, label=r"$\delta$"
)
figures.line_control(right, grid, (grid + 2) * 1e-4, label=r"$\Gamma(a+1+L)h^2$")
right.set(xlabel="friction $a$", ylabel="error of one step")
for ax in (left, right):
    ax.legend(fontsize=8.5)
plt.show()

# %% [markdown]
# At the friction of the digits below, $a=.3$, the printed jerk bound is exceeded ($2.81$ against $2.60$) while the printed
# $\delta$ still stands. What to take along is the factor $1/a$: with $\beta_1=.99$ at $\eta=.1$, in the table
# above, $\delta$ is six times as large as with $\beta_1=.9$ (for $L=1$).
#
# What the two checks cannot see: the jerk comes within $4\,\%$ of its bound at $a=.1$ and the one-step error within $20\,\%$, so they decide
# that the terms $L/a$ and $L/2a$ are needed, but they would not notice a smaller constant in front of $a$, or the missing term $1$ or factor $1+h$ of $\delta$. These rest on the proof.
#
# ## Why the proof for gradient descent stops here
#
# For gradient descent on a $\mu$-strongly convex loss a step brings any two points together, by the factor
# $1-h\mu$. Errors of the past shrink, and their sum stays below $\delta/(h\mu)$. That is the whole proof ({prf:ref}`thesis-thm-2-4-3`). For heavy
# ball the contraction fails.
#
# :::{prf:proposition} A step of heavy ball stretches
# :label: thesis-claim-hb-not-contracting
# On a quadratic the step acts on each eigenvector of $H$, with eigenvalue $c$, as
#
# $$
# A(c)=\begin{pmatrix}1-h^2c&\beta_1h\\-hc&\beta_1\end{pmatrix}
# $$ (eq-momentum-shadowing-matrix)
#
# on (position, velocity). For $0\le\beta_1<1$, $\lVert A(c)\rVert>1$ in the Euclidean norm if and only if
# $(1-c)^2+h^2c^2>1-\beta_1^2$. For fixed friction the right side is $ah(2-ah)$; hence for every $c\ne1$
# all small time steps stretch some distance.
# :::
#
# *The key step.* For a $2\times2$ matrix
# $(1-\sigma_1^2)(1-\sigma_2^2)=1-\lVert A\rVert_F^2+(\det A)^2$, where $\sigma_1\ge\sigma_2$ are the singular values and $\lVert A\rVert_F^2$ is the sum of
# the squared entries.
#
# :::{dropdown} Proof
# $\det A=\beta_1<1$, so $\sigma_2<1$ and the sign of the product is the sign of $1-\sigma_1$. Insert
# $\lVert A\rVert_F^2=(1-h^2c)^2+\beta_1^2h^2+h^2c^2+\beta_1^2$: the product is $-h^2\bigl((1-c)^2+h^2c^2+\beta_1^2-1\bigr)$. $\square$
# :::
#
# At $h=.2$, $a=1$ and $c=.1$ a step stretches some distance by the factor $1.023$, although both eigenvalues of $A$ have a modulus of at most $.978$.
# A picture of it: a ball that swings through a valley turns height into speed. Two balls, one displaced and one not, are
# close in height and then far apart in speed. The distance in phase space does not shrink at each moment although the
# motion as a whole dies out. (If velocities are measured in another unit, another curvature takes the place of $c=1$; no unit suits two different
# curvatures at all small time steps.) On average the motion does shrink, and this is the next theorem: powers of $A$ are governed by its
# eigenvalues. A map is *hyperbolic* if none of its eigenvalues has modulus one; then each direction either
# shrinks or grows in the long run.
#
# :::{prf:theorem} Heavy ball on a quadratic is hyperbolic
# :label: thesis-thm-b-2-4
# Let $\mathcal L$ be a quadratic whose Hessian has no eigenvalue zero and norm $L$. If $h\le\sqrt{2/L}$ and
# $\beta_1=1-ah\in(0,1)$, or $h<\sqrt{2/L}$ and $\beta_1=0$, no eigenvalue of $\Psi$ lies on the unit circle. The
# eigenvalues of $A(c)$ are the roots of
#
# $$
# q^2-(1+\beta_1-h^2c)\,q+\beta_1=0 .
# $$ (eq-momentum-shadowing-roots)
# :::
#
# *The key step.* Complex roots have the modulus $\sqrt{\beta_1}$. A real root on the circle is $1$ or $-1$; inserted, $q=1$ asks
# for $h^2c=0$ and $q=-1$ for $h^2c=2(1+\beta_1)$.
#
# :::{dropdown} Proof
# 1. $\det(A(c)-qI)$ is the left side of {eq}`eq-momentum-shadowing-roots`: the trace is $1-h^2c+\beta_1$ and the determinant
#    $\beta_1$.
# 2. If the roots are not real, they are conjugate and their product is $\beta_1$, so $\lvert q\rvert^2=\beta_1<1$.
# 3. $q=1$ gives $h^2c=0$, excluded. $q=-1$ gives $h^2c=2(1+\beta_1)$, while $h^2c\le h^2L\le2$. This is less than
#    $2(1+\beta_1)$ if $\beta_1>0$; for $\beta_1=0$ it needs $h^2L<2$. $\square$
# :::
#
# The second case is a refinement of the source, which admits $\beta_1=0$ together with $h=\sqrt{2/L}$. There
# heavy ball is gradient descent with the step size $2/L$, and the direction of the largest curvature jumps between $\theta$ and $-\theta$
# for ever.


# %%
def matrix(c, h, beta1):  # one step on (position, velocity)
    c, h, beta1 = torch.broadcast_tensors(*(torch.as_tensor(each, **like) for each in (c, h, beta1)))
    rows = [torch.stack([1 - h**2 * c, beta1 * h], -1), torch.stack([-h * c, beta1], -1)]
    return torch.stack(rows, -2)


def distance_to_circle(c, h, beta1):
    return (torch.linalg.eigvals(matrix(c, h, beta1)).abs() - 1).abs().amin(-1)


small_steps = torch.tensor([0.4, 0.2, 0.1, 0.05], **like)
curvatures = torch.linspace(0.1, 1, 19, **like)[:, None]
stretch = torch.linalg.matrix_norm(matrix(curvatures, small_steps, 1 - small_steps), 2)  # a = 1
shrink = (1 - small_steps * curvatures).abs()  # gradient descent
left_side = (1 - curvatures) ** 2 + small_steps**2 * curvatures**2
assert torch.equal(stretch > 1, left_side > small_steps * (2 - small_steps))
sample_step = step(torch.tensor([0.6, -0.4], **like), lambda theta: 0.1 * theta, 0.2, 1.0)
assert torch.allclose(sample_step, matrix(0.1, 0.2, 0.8) @ torch.tensor([0.6, -0.4], **like))

# %%
sizes = torch.cat([-torch.logspace(-2, 0, 9, **like), torch.logspace(-2, 0, 9, **like)])[
    :, None, None
]  # L = 1
time_steps = torch.linspace(0.05, math.sqrt(2), 28, **like)[:, None]
momenta = torch.linspace(0.02, 0.98, 25, **like)
from_circle = distance_to_circle(sizes, time_steps, momenta)
q = torch.linalg.eigvals(matrix(sizes, time_steps, momenta))
middle = (1 + momenta - time_steps**2 * sizes)[..., None]
assert (q**2 - middle * q + momenta[:, None]).abs().max() < 1e-12
assert ((q.abs() < 1).sum(-1) == torch.where(sizes > 0, 2, 1)).all()  # both shrink, or one grows
without_momentum = distance_to_circle(sizes, time_steps[:-1], 0.0)
edges = torch.cat([torch.zeros(1, **like), momenta])  # one step size too far: h²L = 2(1 + β₁), L = 1
too_far = distance_to_circle(1.0, (2 * (1 + edges)).sqrt(), edges)

# %% tags=["hide-input"]
ledger.check(
    "thesis:claim-hb-not-contracting",
    "Friction 1, curvatures from 0.1 to 1: at every h some distance grows in one step",
    measured=stretch.amax(0),
    criterion=at_least("largest ‖A(c)‖, h = 0.4, 0.2, 0.1, 0.05", 1.0),
    control=control("gradient descent, |1 − hc|", shrink.amax(0)),
    expected="holds",
)
ledger.check(
    "thesis:thm-b.2.4",
    "No eigenvalue on the circle: 12 600 quadratics with momentum, 486 without",
    measured=torch.cat([from_circle.flatten(), without_momentum.flatten()]),
    criterion=at_least("distance of the roots to the unit circle", 1.5e-6, bound_symbols="100 √ε"),
    control=control("h = √(2(1 + β₁)/L), β₁ = 0 (the printed edge) to 0.98", too_far),
    expected="corrected",
    correction=correction(
        printed="h ≤ √(2/L) and β ∈ [0, 1)",
        right="h ≤ √(2/L) and β ∈ (0, 1), or h < √(2/L) and β = 0",
        evidence="refereed",
    ),
    show="card",
)

# %% [markdown]
# (The bound is not zero because the two roots of {eq}`eq-momentum-shadowing-roots` may coincide, where rounding moves them by
# $\sqrt\varepsilon$, $\varepsilon=2.2\cdot10^{-16}$. The control takes $h^2L=2(1+\beta_1)$; with $\beta_1=0$ this is the step size that the source admits.)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**A step may stretch although the motion dies out.** Left: roots of one step for $\\beta_1=.7$ as $h^2c$ runs from $-1$ to $2(1+\\beta_1)$ (colours), with the unit circle; they meet it only at $h^2c=0$ and at the right end (vermillion). Right: norm of $k$ steps for $c=.1$, $h=.2$, $a=1$, in the Euclidean norm and in an adapted one. What breaks it (dashed): no friction.", "name": "fig-momentum-shadowing-roots"}, "image": {"alt": "Left: points on a smaller circle and on the real axis, crossing the unit circle at plus one and minus one only. Right: the Euclidean norm first rises above one and then falls; the adapted norm falls from the start; the dashed line oscillates without decay."}}
fig, (left, right) = figures.subplots(1, 2, size=(8.6, 4.0))
products = torch.linspace(-1, 3.4, 221, **like)
roots = torch.linalg.eigvals(matrix(products, 1.0, 0.7))
turn = torch.linspace(0, 2 * math.pi, 200, **like)
left.plot(turn.cos(), turn.sin(), color=figures.COLORS["light grey"], **plain)
left.scatter(roots.real, roots.imag, c=products[:, None].expand(-1, 2), s=7, marker="o")
left.plot([1, -1], [0, 0], "o", ms=7, mfc="none", color=figures.COLORS["vermillion"])
left.set(aspect="equal", xlabel="real part of $q$", ylabel="imaginary part")
one = matrix(0.1, 0.2, 0.8)
root_P = torch.linalg.cholesky(adapted_norm(one).matrix).mT
powers = [torch.linalg.matrix_power(one, k) for k in range(61)]
right.plot([torch.linalg.matrix_norm(A, 2) for A in powers], **plain, label="Euclidean norm")
adapted = [torch.linalg.matrix_norm(root_P @ A @ root_P.inverse(), 2) for A in powers]
right.plot(adapted, **plain, label="adapted norm")
free = [torch.linalg.matrix_norm(torch.linalg.matrix_power(matrix(0.1, 0.2, 1.0), k), 2) for k in range(61)]
figures.line_control(right, range(61), free, label="no friction")
right.set(xlabel="steps $k$", ylabel=r"$\Vert A^k\Vert$", yscale="log")
right.legend(fontsize=8)
plt.show()

# %% [markdown]
# ### A norm in which it shrinks
#
# Where all eigenvalues lie inside the circle, the sum $P=\sum_{j\ge0}(A^j)^\top A^j$ converges, and in the *adapted norm*
# $\lVert u\rVert_P=\sqrt{u^\top Pu}$ every step does shrink, at least by the factor $\rho=\sqrt{1-1/\lambda_1(P)}$: one step removes the first term of the sum, so that
# $\lVert Au\rVert_P^2=\lVert u\rVert_P^2-\lVert u\rVert^2$, and $\lVert u\rVert^2\ge\lVert u\rVert_P^2/\lambda_1(P)$. With directions of negative curvature, phase
# space splits into the part $E_s$ where powers of $A$ shrink and the part $E_u$ where powers of $A^{-1}$ do. Each has its adapted norm.
#
# :::{prf:theorem} Heavy ball shadows its flow on quadratics
# :label: thesis-claim-hb-quadratic-shadowing
# Under the assumptions of {prf:ref}`thesis-thm-b-2-4` let $\rho_s,\rho_u<1$ be the factors by which $A$ shrinks $E_s$ and
# $A^{-1}$ shrinks $E_u$ in their adapted norms, and let $\delta_s,\delta_u$ bound the components of the one-step errors of the
# sampled flow in these norms up to step $K$. There is a true orbit of heavy ball within
#
# $$
# \varepsilon_s=\frac{\delta_s}{1-\rho_s},\qquad\varepsilon_u=\frac{\rho_u\,\delta_u}{1-\rho_u}
# $$ (eq-momentum-shadowing-radius)
#
# of the sampled flow up to step $K$, component by component. With $\delta_s$ and $\delta_u$ given, neither radius depends on $K$.
# :::
#
# *The key step.* The gap obeys $u_{k+1}=Au_k-e_k$ with the one-step errors $e_k$. Run it forwards from $u_0=0$ in $E_s$ and *backwards* from $u_K=0$ in
# $E_u$; both directions shrink.
#
# :::{dropdown} Proof
# 1. $\hat z_{k+1}=A\hat z_k+e_k$ and $z_{k+1}=Az_k$ give the recursion for $u_k=z_k-\hat z_k$ (the minimizer is at zero). $A$ maps
#    $E_s$ and $E_u$ into themselves, so the components of $u$ and $e$ obey it separately.
# 2. In $E_s$, with $u_0=0$: $\lVert u_{k+1}\rVert\le\rho_s\lVert u_k\rVert+\delta_s$, hence $\lVert u_k\rVert\le\delta_s(1+\rho_s+\dots)\le\varepsilon_s$.
# 3. In $E_u$, with $u_K=0$: $u_k=A^{-1}(u_{k+1}+e_k)$, so $\lVert u_k\rVert\le\rho_u(\lVert u_{k+1}\rVert+\delta_u)$, hence
#    $\lVert u_k\rVert\le\varepsilon_u$.
# 4. $z_k=\hat z_k+u_k$ is an orbit: both components satisfy $z_{k+1}=Az_k$. $\square$
# :::
#
# On a bowl the errors of the flow die out, so that one $\delta_s$ serves for ever; on a saddle the flow leaves, its gradients grow, and the statement is
# about the run up to the step where they are still bounded. The source adds that a perturbed quadratic can be treated in the same way, without details; this is not checked here.
#
# The check takes a saddle with the curvatures $1$, $.1$ and $-.3$, friction $1$, the time $30$ and four time steps, with the exact flow
# from the matrix exponential. The control is the orbit from the same start, which the unstable direction carries away. Along the flow the gaps stay well below the radii. The second radius
# is nevertheless the smallest possible where $E_u$ has one dimension, as here: the proof uses only that the one-step errors are bounded, and a sequence whose error is the same in every step along the unstable direction
# comes within $10^{-4}$ of it (last cell below). The first radius is not known to be attained, and the check would not notice if it were half as large.


# %%
def linear_maps(H, h, a):  # one step of heavy ball, and its flow over the time h
    one, zero, beta1 = torch.eye(len(H), **like), torch.zeros_like(H), 1 - a * h
    A = torch.cat([torch.cat([one - h**2 * H, beta1 * h * one], 1), torch.cat([-h * H, beta1 * one], 1)])
    field = torch.cat([torch.cat([zero, one], 1), torch.cat([-H, -a * one], 1)])
    return A, torch.linalg.matrix_exp(h * field)


def sample(matrix, z, K):
    path = [z]
    for _ in range(K):
        path.append(matrix @ path[-1])
    return torch.stack(path)


def size(u, P):  # largest adapted norm along a sequence
    return torch.einsum("ki,ij,kj->k", u, P, u).sqrt().max()


def radii(A, sampled, orbit):  # (gap/radius in E_s, gap/radius in E_u)
    split = hyperbolic_splitting(A)
    coordinates = torch.linalg.inv(torch.cat([split.stable, split.unstable], 1)).mT
    errors, gaps = (sampled[1:] - sampled[:-1] @ A.mT) @ coordinates, (orbit - sampled) @ coordinates
    s = split.stable.shape[1]
    P, rho = adapted_norm(split.on_stable)
    inside = size(gaps[:, :s], P) * (1 - rho) / size(errors[:, :s], P)
    P, rho = adapted_norm(split.on_unstable.inverse())
    outside = size(gaps[:, s:], P) * (1 - rho) / (rho * size(errors[:, s:], P))
    return torch.stack([inside, outside])


# %%
H = torch.diag(torch.tensor([1.0, 0.1, -0.3], **like))
corner, inside, same = torch.tensor([1.0, 1.0, 0.01, 0, 0, 0], **like), [], []
for h in small_steps.tolist():
    A, over_h = linear_maps(H, h, 1.0)
    sampled = sample(over_h, corner, round(30 / h))
    inside.append(radii(A, sampled, linear_shadow(A, sampled)))
    same.append(radii(A, sampled, sample(A, corner, round(30 / h)))[1])
assert torch.allclose(sampled[1], flow(corner, lambda theta: H @ theta, h, 1.0, 1)[1], atol=1e-8)
assert torch.allclose(A @ sampled[1], step(sampled[1], lambda theta: H @ theta, h, 1.0))

A, pseudo = linear_maps(H, 0.2, 1.0)[0], [torch.zeros(6, **like)]
for _ in range(200):  # the same error in every step
    pseudo.append(A @ pseudo[-1] + 1e-3 * hyperbolic_splitting(A).unstable[:, 0])
constant = radii(A, torch.stack(pseudo), linear_shadow(A, torch.stack(pseudo)))[1]
assert 1 - 1e-4 < constant < 1

# %% tags=["hide-input"]
ledger.check(
    "thesis:claim-hb-quadratic-shadowing",
    "On a saddle a true orbit stays within the radii for the time 30, h = 0.4 to 0.05",
    measured=torch.stack(inside),
    criterion=at_most("largest gap/radius, in E_s and in E_u", 1.0),
    control=control("the orbit from the same start, in E_u", torch.stack(same)),
    expected="holds",
)

# %% [markdown]
# The radii are valid but loose: on the bowl (a quadratic with positive curvatures) of the next figure with $h=.2$ they allow a distance of $7.1$ (in the adapted norm, which is not below the Euclidean one), where
# $.085$ is measured. What they prove is the form of the answer, a distance of order $h$ that does not grow with time.
#
# **The source's figure for the bowl.** The curvatures are $.1$ and $1$, the friction is $1$, the start is $(1,1)$ at rest (the source does not print its Hessian and
# start), and the flow is exact.


# %%
def bowl_gaps(h, a, T=120.0, corrected=False):  # distance of the positions, heavy ball and its flow
    bowl, K = torch.diag(torch.tensor([0.1, 1.0], **like)), round(T / h)
    mass = 1 - a * h / 2 if corrected else 1.0
    v = -h / 2 * bowl.diagonal() if corrected else torch.zeros(2, **like)
    _, over_h = linear_maps(bowl / mass, h, a / mass)
    begin = torch.ones(2, **like)
    steps = sample(linear_maps(bowl, h, a)[0], torch.cat([begin, 0 * v]), K)
    return gap(steps, sample(over_h, torch.cat([begin, v]), K))


halved = [bowl_gaps(h, 1.0) for h in small_steps.tolist()]
peaks = torch.stack([each.max() for each in halved])
ends = torch.stack([each[-1] / each.max() for each in halved])
frictionless = [bowl_gaps(h, 0.0) for h in small_steps.tolist()]
second_order = torch.stack([bowl_gaps(h, 1.0, corrected=True).max() for h in small_steps.tolist()])

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**On a bowl the error comes and goes.** Curvatures $.1$ and $1$, friction $1$, start $(1,1)$ at rest. Left: the flow and heavy ball with $h=.2$. Right: distance of the positions against time for $h=.4,.2,.1,.05$; each halving of $h$ halves it. Dotted: the radius $hL\\Gamma/2\\mu$ that holds for gradient descent at $h=.2$. What breaks the decay (dashed): no friction, $h=.2$.", "name": "fig-momentum-shadowing-bowl"}, "image": {"alt": "Left: a curve and points beside it spiral into the origin. Right: four humps, each half as high as the one before, that decay to zero; a dashed line keeps oscillating at a growing height."}}
fig, (left, right) = figures.subplots(1, 2, size=(8.6, 3.9))
bowl = torch.diag(torch.tensor([0.1, 1.0], **like))
A, over_h = linear_maps(bowl, 0.2, 1.0)
corner = torch.tensor([1.0, 1.0, 0, 0], **like)
left.plot(*sample(over_h, corner, 200)[:, :2].T, **plain, color=figures.COLORS["black"], label="flow")
left.plot(
    *sample(A, corner, 200)[:, :2].T, "o", ms=3, markevery=1, color=figures.COLORS["blue"], label="heavy ball"
)
left.set(xlabel=r"$\theta_1$", ylabel=r"$\theta_2$")
left.legend()
for h, values in zip(small_steps.tolist(), halved, strict=True):
    right.plot(h * torch.arange(len(values)), values, **plain, label=f"$h={h:g}$")
figures.line_control(right, 0.2 * torch.arange(len(frictionless[1])), frictionless[1], label="no friction")
right.axhline(
    0.2 * (bowl @ torch.ones(2, **like)).norm() / 0.2, color=figures.COLORS["middle grey"], ls=":", marker=""
)
right.set(xlabel="time $kh$", ylabel="distance of the positions", yscale="log", xlim=(0, 60), ylim=(1e-4, 60))
right.legend(fontsize=8, ncol=2, loc="upper right")
plt.show()

# %% tags=["hide-input"]
P, rho = adapted_norm(A)
defect = sample(over_h, corner, 300)[1:] - sample(over_h, corner, 300)[:-1] @ A.mT
loose = torch.einsum("ki,ij,kj->k", defect, P, defect).sqrt().max() / (1 - rho)
assert abs(loose - 7.1) < 0.05 and abs(peaks[1] - 0.085) < 1e-3
ledger.check(
    "thesis:fig-16",
    "Heavy ball on a bowl: the distance to its flow decays and halves with h",
    measured=torch.cat([ends, (peaks[:-1] / peaks[1:] / 2 - 1).abs()]),
    criterion=at_most("distance at the end/largest; |largest(h)/(2 largest(h/2)) − 1|", 0.1),
    control=control(
        "no friction; for the halving, the corrected flow of below",
        torch.cat(
            [
                torch.stack([each[-100:].max() / each.max() for each in frictionless]),
                (second_order[:-1] / second_order[1:] / 2 - 1).abs(),
            ]
        ),
    ),
    expected="reproduced",
    claim="experiment",
)

# %% [markdown]
# ### Two basins again
#
# Beyond quadratics the source has no theorem for heavy ball, and leaves it to experiments. The first figure is one: the shadow was found by Newton's method
# on all steps at once (`least_squares_shadow`; {chapter}`Shadowing <momentum/shadowing>` explains it). What happens there as $h\to0$?
#
# **Predict first.** Take $h$ smaller and smaller, and each time a start between the two places where the flow and where heavy ball change
# basin. Does the gap from the same start vanish? Does the gap of the shadow?
#
# :::{dropdown} Answer
# From the same start it stays at $2.69$, the distance of the two minima and a little more: such starts only become rarer. The gap of the shadow
# halves with $h$.
# :::


# %%
def boundary(ends, low=2.0, high=2.15):  # where in θ_1 the basin changes, start (θ_1, 1.5) at rest
    for _ in range(3):
        grid = torch.linspace(low, high, 33, **like)
        z = torch.stack([grid, torch.full_like(grid, 1.5), 0 * grid, 0 * grid], -1)
        side = ends(z)[:, 0].sign()
        where = int((side[1:] != side[:-1]).nonzero()[0])
        low, high = grid[where].item(), grid[where + 1].item()
    return (low + high) / 2


least = run.pick(smoke=0.025, book=0.0125, paper=0.0125)
basin_steps = [8 * least, 4 * least, 2 * least, least]
of_flow, same_gaps, shadow_gaps = boundary(lambda z: flow(z, two_basins, 40.0, 1.0, 1)[-1]), [], []
for h in basin_steps:
    of_steps = boundary(lambda z, h=h: orbit(z, two_basins, h, 1.0, round(40 / h))[-1])
    begin = torch.tensor([(of_flow + of_steps) / 2, 1.5, 0, 0], **like)
    curve = flow(begin, two_basins, h, 1.0, round(24 / h))
    near = least_squares_shadow(lambda z, h=h: step(z, two_basins, h, 1.0), curve)
    assert near.converged
    same_gaps.append(gap(orbit(begin, two_basins, h, 1.0, round(24 / h)), curve).max())
    shadow_gaps.append(gap(near.orbit, curve).max())
same_gaps, shadow_gaps = torch.stack(same_gaps), torch.stack(shadow_gaps)

# %% tags=["hide-input"]
ledger.check(
    "thesis:beyond-two-basins-momentum",
    "Where flow and heavy ball end in different minima, a true orbit stays within O(h) of the flow",
    measured=statistics.log_log_slope(basin_steps, shadow_gaps),
    criterion=exponent("exponent of the largest gap in h", 1, neighbours=(0, 2)),
    control=control("the orbit from the same start", statistics.log_log_slope(basin_steps, same_gaps)),
    expected="holds",
    show="card",
)

# %% [markdown]
# The shadow of the first figure does not start at rest. Its velocity at the start is $(.11,.23)$, uphill, and this is a hint.
#
# ## Half a step and a little mass
#
# Where does the first-order error come from? In heavy ball the velocity is $v_k=(\theta_k-\theta_{k-1})/h$. This is not the velocity at the time
# $kh$ but, to second order, the one half a step earlier. Two things follow. A start at rest, $\theta_{-1}=\theta_0$, means that the ball was at rest at the time
# $-\frac h2$, and at the time $0$ it already moves with the velocity $-\frac h2\nabla\mathcal L(\theta_0)$. And the friction acts on this older
# velocity: $a\,v_k\approx a\,\dot\theta-\frac{ah}2\ddot\theta$, which takes $\frac{ah}2$ off the mass.
#
# :::{prf:theorem} Heavy ball follows a lighter ball to second order
# :label: thesis-beyond-second-order-flow
# Let $\mathcal L$ be three times continuously differentiable, with a bounded Hessian (or let the paths below stay in one bounded set). Let $\tilde\theta$ solve
#
# $$
# \begin{aligned}
# \Bigl(1-\frac{ah}2\Bigr)\ddot{\tilde\theta}+a\,\dot{\tilde\theta}+\nabla\mathcal L(\tilde\theta)&=0,\\
# \tilde\theta(0)=\theta_0,\qquad\dot{\tilde\theta}(0)&=-\frac h2\nabla\mathcal L(\theta_0).
# \end{aligned}
# $$ (eq-momentum-shadowing-corrected)
#
# Then for every $T$ there is a constant, the same for all $h<\frac1a$, with $\lVert\theta_k-\tilde\theta(kh)\rVert\le\mathrm{const}\cdot h^2$ for $kh\le T$. The mass is
# $1-\frac{ah}2=\frac{1+\beta_1}2$.
# :::
#
# *The key step.* $\tilde\theta(t+h)-2\tilde\theta(t)+\tilde\theta(t-h)=h^2\ddot{\tilde\theta}+O(h^4)$ and
# $\tilde\theta(t)-\tilde\theta(t-h)=h\dot{\tilde\theta}-\frac{h^2}2\ddot{\tilde\theta}+O(h^3)$.
#
# :::{dropdown} Proof
# 1. The gradient is twice continuously differentiable, so $\tilde\theta$ has four derivatives, bounded on $[-h,T]$ uniformly in $h$ because the mass is at least $\frac12$. Heavy ball reads
#
#    $$
#    \begin{aligned}
#    &\theta_{k+1}-2\theta_k+\theta_{k-1}\\
#    &\quad+ah(\theta_k-\theta_{k-1})\\
#    &\quad+h^2\nabla\mathcal L(\theta_k)=0 .
#    \end{aligned}
#    $$
#
#    Insert $\tilde\theta(kh)$. By the key step the left side becomes $h^2$ times the left side of {eq}`eq-momentum-shadowing-corrected`, which is zero, plus
#    $O(h^4)$.
# 2. The starts: $\tilde\theta(0)-\tilde\theta(-h)=h\dot{\tilde\theta}(0)-\frac{h^2}2\ddot{\tilde\theta}(0)+O(h^3)$. With
#    $\ddot{\tilde\theta}(0)=-\nabla\mathcal L(\theta_0)+O(h)$ and the chosen velocity this is $O(h^3)$, and $\theta_0-\theta_{-1}=0$.
# 3. Let $w_k=(u_k-u_{k-1})/h$ for the gap $u_k=\theta_k-\tilde\theta(kh)$. By 1, $w_{k+1}=(1-ah)w_k+O(h)\lVert u_k\rVert+O(h^3)$, and $u_{k+1}=u_k+hw_{k+1}$, with $u_0=0$ and
#    $w_0=O(h^2)$ by 2. Summing over at most $T/h$ steps (Gronwall's inequality) gives $u,w=O(h^2)$. $\square$
# :::
#
# Divided by its mass this is, to first order in $h$, $\ddot\theta+a(1+\frac{ah}2)\dot\theta+(1+\frac{ah}2)\nabla\mathcal L=0$. The factor in front of the gradient
# is the one that {cite:t}`shi2022understanding` found in their high-resolution equation of heavy ball; {cite:t}`kovachki2021continuous` treat modified equations of momentum methods in general. The correction costs nothing: no Hessian-vector
# product, unlike the one for gradient descent in {chapter}`Shadowing <momentum/shadowing>`. In the example by hand, the lighter ball (mass $.75$, velocity $-.5$ at the start) is at $1.564$ and $.971$,
# where heavy ball is at $1.5$ and $.875$ and the ball of mass one at $1.791$ and $1.319$.

# %%
side, a = torch.tensor([-0.5, 1.0, 0, 0], **like), 0.7
order_steps = basin_steps
variants = {"mass one, at rest": (0, 0), "only the start": (1, 0), "only the mass": (0, 1), "both": (1, 1)}
order_gaps = {name: [] for name in variants}
for h in order_steps:
    steps = orbit(side, two_basins, h, a, round(10 / h))
    for name, (pushed, lighter) in variants.items():
        begin = side - pushed * h / 2 * torch.cat([torch.zeros(2, **like), two_basins(side[:2])])
        curve = flow(begin, two_basins, h, a, round(10 / h), mass=1 - lighter * a * h / 2)
        order_gaps[name].append(gap(steps, curve).max())
order_gaps = {name: torch.stack(values) for name, values in order_gaps.items()}
slope_of = {name: statistics.log_log_slope(order_steps, values) for name, values in order_gaps.items()}

# %% tags=["hide-input"]
light = flow(torch.tensor([2.0, -0.5], **like), lambda theta: theta, 0.5, 1.0, 2, mass=0.75)[1:, 0]
assert abs(light - torch.tensor([1.564, 0.971])).max() < 1e-3
ledger.check(
    "thesis:beyond-second-order-flow",
    "Heavy ball follows the lighter ball with a push to second order in h, two basins, time 10",
    measured=slope_of["both"],
    criterion=exponent("exponent of the largest gap in h", 2, neighbours=(1, 3)),
    control=control("only the mass changed", slope_of["only the mass"]),
    expected="holds",
    show="card",
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Mass and start together buy an order.** Left: largest distance up to the time $10$ of heavy ball from four flows, the loss with two basins, start $(-.5,1)$, friction $.7$; slopes $1,1,1,2$. What breaks it: only one of the two changes. Right: heavy ball from the start of the first figure, friction $1$, with two time steps, at the same start as the flow: distance to the lighter ball (solid), to the ball of mass one (dashed).", "name": "fig-momentum-shadowing-order"}, "image": {"alt": "Left: four lines on logarithmic axes, one twice as steep as the others and lowest. Right: solid curves end near zero, dashed ones at 2.7."}}
fig, (left, right) = figures.subplots(1, 2, size=(8.6, 3.9))
for name, values in order_gaps.items():
    left.loglog(order_steps, values, label=name, ls="-" if name == "both" else "--")
left.set(xlabel="time step $h$", ylabel="largest distance")
left.set_xticks(order_steps, [f"{h:g}" for h in order_steps])
left.minorticks_off()
left.legend(fontsize=8)
for h, color in ((0.1, "blue"), (0.05, "vermillion")):
    steps = orbit(start, two_basins, h, 1.0, round(24 / h))
    push = start - h / 2 * torch.cat([torch.zeros(2, **like), two_basins(start[:2])])
    times = h * torch.arange(len(steps))
    lighter = gap(steps, flow(push, two_basins, h, 1.0, len(steps) - 1, mass=1 - h / 2))
    right.plot(times, lighter, **plain, color=figures.COLORS[color], label=f"$h={h:g}$, lighter ball")
    heavy = gap(steps, flow(start, two_basins, h, 1.0, len(steps) - 1))
    figures.line_control(
        right, times, heavy, label=f"$h={h:g}$", role="mass one", color=figures.COLORS[color]
    )
right.set(xlabel="time $kh$", ylabel="distance", yscale="log", ylim=(1e-6, 5))
right.legend(fontsize=7.5, loc="lower left")
plt.show()

# %% [markdown]
# The right panel returns to the first figure. With $h=.05$ heavy ball, started like the flow, follows the lighter ball with the push into the right
# basin, within $.08$; the ball of mass one ends in the other one. With a start closer to the boundary every flow would lose the run: the theorem is about a fixed time.
#
# **Cite this result** as the anchor `thesis-beyond-second-order-flow` of this page, with the release of the book.
#
# ## Two digits
#
# Does any of this matter for a loss made of data? The source trains one linear unit to tell threes from fives in MNIST, with the sigmoid
# loss and weight decay,
#
# $$
# \begin{aligned}
# \mathcal L(\theta)&=\frac1n\sum_{i=1}^n\frac1{1+e^{\,y_i\theta^\top x_i}}\\
# &\quad+\frac\lambda2\lVert\theta\rVert^2 ,
# \end{aligned}
# $$ (eq-momentum-shadowing-digits)
#
# and the full gradient. The sigmoid loss bends both ways, so no theorem of this page or of the source covers it; what the experiment asks is whether the *form* of the theorems survives: a gap that is
# proportional to $h$ and does not grow with the number of steps.
#
# | setting | here | source |
# |---|---|---|
# | images | the $1{,}895$ threes and fives among the $10{,}000$ shipped; pixels in $[0,1]$, a one appended, $d=785$ | $n=10{,}000$ |
# | time step, friction | $h=1$, $a=.3$: $\eta=1$, $\beta_1=.7$; gradient descent with $\eta=1$ | the same |
# | weight decay $\lambda$ | $.005$ and $.0005$ | $.005$ and a smaller one, not printed |
# | start | normal, standard deviation $.3$, $12$ seeds | "random", $5$ runs |
# | flows | Runge and Kutta's method of order 4, step $.1$ | the same |
# | steps | $250$ | until convergence |
#
# **Predict first.** Which method stays nearer to its own flow, and by what factor? Which is nearer at the end of training?
#
# :::{dropdown} Answer
# Gradient descent stays nearer, by a factor of about five in the largest gap. At the end it is the other way round for the larger weight decay: heavy ball has arrived
# at the minimizer, where flow and method agree.
# :::
#
# The gap is measured in percent of the norm of the flow. All the code is in the next four cells; the kept result ran it with more seeds and steps, and three seeds
# are computed again here.

# %%
rows = two_digits.signed_images()  # (1895, 785): y_i x_i


def slope(theta, decay=0.005):  # gradient of the sigmoid loss with weight decay
    wrong = torch.sigmoid(-theta @ rows.T)
    return decay * theta - (wrong * (1 - wrong)) @ rows / len(rows)


# %%
def runge_kutta(field, z, tau):
    k1 = field(z)
    k2 = field(z + tau / 2 * k1)
    k3 = field(z + tau / 2 * k2)
    k4 = field(z + tau * k3)
    return z + tau / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def euler(field, z, tau):
    return z + tau * field(z)


def follow(field, z, K, tau, method=runge_kutta):  # a flow at the times 0, 1, ..., K
    path = [z]
    for _ in range(K):
        for _ in range(round(1 / tau)):
            z = method(field, z, tau)
        path.append(z)
    return torch.stack(path)


# %%
def ball(mass=1.0, a=0.3):
    def field(z):
        theta, v = z.chunk(2, -1)
        return torch.cat([v, -(a * v + slope(theta)) / mass], -1)

    return field


def relative_gap(path, curve):  # of the positions
    path, curve = path[..., :785], curve[..., :785]
    return (path - curve).norm(dim=-1) / curve.norm(dim=-1)


# %%
K, few = run.pick(smoke=5, book=20, paper=20), 3
begin = torch.stack(
    [0.3 * torch.randn(785, generator=run.generator("start", seed=i), **like) for i in range(few)]
)
at_rest = torch.cat([begin, 0 * begin], -1)
rolled = orbit(at_rest, slope, 1.0, 0.3, K)
descended = [begin]
for _ in range(K):
    descended.append(descended[-1] - slope(descended[-1]))
descended = torch.stack(descended)
integrators = {"0.1": (0.1, runge_kutta), "0.05": (0.05, runge_kutta), "Euler": (0.1, euler)}
of_gd = {
    name: relative_gap(descended, follow(lambda z: -slope(z), begin, K, *how))
    for name, how in integrators.items()
}
of_hb = {name: relative_gap(rolled, follow(ball(), at_rest, K, *how)) for name, how in integrators.items()}
pushed = torch.cat([begin, -0.5 * slope(begin)], -1)
of_light = relative_gap(rolled, follow(ball(0.85), pushed, K, 0.1))
of_push = relative_gap(rolled, follow(ball(), pushed, K, 0.1))
of_second = relative_gap(descended, follow(modified_field(slope, 1.0), begin, K, 0.1))  # for gradient descent

# %%
paths = results.load("momentum/momentum_shadowing", "two-digits-paths")
scan = results.load("momentum/momentum_shadowing", "two-digits-time-steps")
scales = results.load("momentum/momentum_shadowing", "two-digits-starts")
kept_slice = {name: paths[name][0, :few, : K + 1] for name in ("gap_gd", "gap_hb")}
results.agree(kept_slice, {"gap_gd": of_gd["0.1"].mT, "gap_hb": of_hb["0.1"].mT}, rtol=1e-4, atol=1e-7)
light_slice = scan["gap_hb_corrected"][-1, :few, K]
results.agree({"largest": light_slice}, {"largest": of_light.amax(0)}, rtol=1e-5)
largest_gd, largest_hb = (torch.as_tensor(paths[name]).double().amax(-1) for name in ("gap_gd", "gap_hb"))
factor = largest_hb[0] / largest_gd[0]  # λ = 0.005, one for each seed
precision = torch.stack([each["0.1"].amax(0) / each["0.05"].amax(0) - 1 for each in (of_gd, of_hb)])
second_order_factors = of_light.amax(0) / of_second.amax(0)
assert run.scale == "smoke" or torch.allclose(
    second_order_factors.sort().values[[0, 2]], torch.tensor([1.04, 3.61], **like), atol=0.01
)
crude = torch.stack([each["Euler"].amax(0) / each["0.05"].amax(0) - 1 for each in (of_gd, of_hb)])

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Heavy ball is farther from its flow; with the larger weight decay it is sooner back.** Above: gap in percent of the norm, gradient descent and heavy ball, each to its own flow from the same start; mean and 95 % band over 12 starts. Below: training loss. Left: $\\lambda=.005$, right: $\\lambda=.0005$. $h=1$, $a=.3$, starts of standard deviation $.3$. Without momentum (dashed): gradient descent. From a kept result.", "name": "fig-momentum-shadowing-paths"}, "image": {"alt": "Four panels. Above, a hump near step 5 of about 3.5 percent for heavy ball and a lower one of under one percent for gradient descent; on the left heavy ball falls below gradient descent after 100 steps. Below, both losses fall, heavy ball's first."}}
fig, axes = figures.subplots(2, 2, size=(8.6, 6.4))
for column, decay in enumerate(two_digits.DECAYS):
    for name, label, look in (
        ("gd", "gradient descent", {"color": figures.COLORS["dark grey"], "ls": "--"}),
        ("hb", "heavy ball", {"color": figures.COLORS["blue"]}),
    ):
        figures.band(
            axes[0, column], range(251), 100 * paths[f"gap_{name}"][column], label=label, marker="", **look
        )
        figures.band(
            axes[1, column], range(251), paths[f"loss_{name}"][column], label=label, marker="", **look
        )
    axes[0, column].set(title=rf"$\lambda={decay:g}$", ylabel="gap to the flow, %")
    axes[1, column].set(xlabel="step $k$", ylabel="training loss", yscale="log")
axes[0, 0].legend()
plt.show()

# %%
rising = {
    name: int((paths[f"loss_{name}"][..., 1:] > paths[f"loss_{name}"][..., :-1]).any(-1).sum())
    for name in ("gd", "hb")
}
early = paths["gap_hb"][0, :, 1:6] / paths["gap_hb"][1, :, 1:6]  # heavy over light weight decay
late = {name: 100 * paths[f"gap_{name}"][..., -1] for name in ("gd", "hb")}
accuracy = statistics.mean_interval(100 * torch.as_tensor(paths["accuracies"]).flatten())
half_loss = [(paths[f"loss_{name}"][0] > 0.3).sum(-1) for name in ("gd", "hb")]  # steps to the loss 0.3

# %% tags=["hide-input"]
ends = {name: [statistics.mean_interval(row) for row in values] for name, values in late.items()}
sooner, fives = statistics.mean_interval(half_loss[0] / half_loss[1]), statistics.mean_interval(factor)
early_on = statistics.mean_interval(early.mean(-1))


def span(interval):
    return round(interval.low, 3), round(interval.high, 3)


def below(one, other):
    return bool(one.high < other.low)


figures.comparison(
    [
        ("largest gap, heavy ball over gradient descent, λ = 0.005", "5", span(fives), 5 in fives),
        ("accuracy at the end, %", "around 95", span(accuracy), abs(accuracy.estimate - 95) < 2),
        ("steps to the loss 0.3, gradient descent over heavy ball", "above 1", span(sooner), sooner.low > 1),
        ("gap of heavy ball, k = 1 to 5, λ = 0.005 over 0.0005", "above 1", span(early_on), early_on.low > 1),
        ("runs of heavy ball (of 24) whose loss rises once", "0", float(rising["hb"]), rising["hb"] == 0),
        (
            "gap of heavy ball at the end, %, λ = 0.005",
            "below the next",
            span(ends["hb"][0]),
            below(ends["hb"][0], ends["gd"][0]),
        ),
        (
            "same, gradient descent",
            "below λ = 0.0005",
            span(ends["gd"][0]),
            below(ends["gd"][0], ends["gd"][1]),
        ),
        (
            "gap of heavy ball at the end, %, λ = 0.0005",
            "below the next",
            span(ends["hb"][1]),
            below(ends["hb"][1], ends["gd"][1]),
        ),
        ("same, gradient descent", "", span(ends["gd"][1]), None),
    ],
    "the source's number lies in the 99.9 % interval of the mean over 12 starts, its order outside; accuracy: within 2 points",
    run=run,
    name="digits-source-and-here",
)

# %% tags=["hide-input"]
ledger.check(
    "thesis:fig-17",
    "Two digits: heavy ball strays from its flow at least twice as far as gradient descent from its own",
    measured=factor,
    criterion=confident("largest gap of heavy ball/of gradient descent, λ = 0.005", at_least=2.0),
    control=control("starts ten times smaller", scales["gap_hb"][0] / scales["gap_gd"][0]),
    expected="reproduced",
    claim="experiment",
    seeds=range(12),
    show="card",
)
ledger.check(
    "thesis:exp-integrator-precision",
    "Halving the step of the integrator changes the largest gaps of both methods by less than 0.1 %",
    measured=precision.abs(),
    criterion=at_most("|largest gap at 0.1/largest gap at 0.05 − 1|", 1e-3),
    control=control("Euler's method with the step 0.1", crude.abs()),
    expected="reproduced",
    claim="experiment",
    seeds=range(few),
    noise=1e-9,
)

# %% [markdown]
# The source's numbers come out: the factor is $5.2$ in the mean (between $2.7$ and $9.1$ over the starts), the accuracy $96\,\%$, and the gap
# of heavy ball with the larger weight decay goes to almost nothing. Some remarks of the source hold less firmly here. That a larger $\lambda$ makes
# the early gap larger is true, by a few percent. That the loss of heavy ball falls at every step is true for most starts; for one it rises on the way, since heavy ball is not a descent method.
# And with the small $\lambda$ heavy ball's gap after $250$ steps is larger than gradient descent's, not smaller. Gradient descent's own gap
# at the end hardly depends on $\lambda$. The criterion (a factor of two at least) was fixed from two pilot
# starts, and so was the scale of the start, which the source does not print: the factor depends on it, as we shall see.
#
# ### The gap is proportional to $h$
#
# The same loss with $\lambda=.005$ up to the time $40$, with four time steps.

# %%
hs = torch.tensor(two_digits.TIME_STEPS, **like)
at_end = {name: torch.as_tensor(scan[name])[..., -1] for name in ("gap_gd", "gap_hb", "gap_hb_corrected")}


def fitted_slopes(values):  # one for each start, h = 0.1, 0.2, 0.5
    x = hs[:3].log() - hs[:3].log().mean()
    return (x[:, None] * values[:3].log()).sum(0) / (x**2).sum()


slopes = {name: fitted_slopes(values) for name, values in at_end.items()}
lighter = at_end["gap_hb"][-1] / at_end["gap_hb_corrected"][-1]  # h = 1
grown = torch.as_tensor(scan["gap_hb"])[-1, :, -1] / torch.as_tensor(scan["gap_hb"])[-1, :, 20]
assert int((grown == 1).sum()) == 11  # starts whose largest gap comes before the time 20

# %% tags=["hide-input"]
ledger.check(
    "thesis:fig-18",
    "Two digits: the largest gap to the flow is proportional to h up to h = 0.5, for both methods",
    measured=torch.cat([slopes["gap_gd"], slopes["gap_hb"]]),
    criterion=between("fitted exponent of h, 12 starts, two methods", 0.9, 1.1),
    control=control("gap of heavy ball to the lighter ball", slopes["gap_hb_corrected"]),
    expected="reproduced",
    claim="experiment",
    seeds=range(12),
    show="card",
)
ledger.check(
    "thesis:beyond-momentum-factor",
    "Two digits, h = 1: heavy ball is at least three times nearer to the lighter ball",
    measured=lighter,
    criterion=confident("largest gap to the flow/to the lighter ball", at_least=3.0),
    control=control("only the push, mass one", of_hb["0.1"].amax(0) / of_push.amax(0)),
    expected="reproduced",
    claim="experiment",
    seeds=range(12),
    show="card",
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Linear in $h$, and quadratic for the lighter ball.** Two digits, $\\lambda=.005$, geometric means over 12 starts, 95 % bands. Left: largest gap of heavy ball so far against time, for $h=1,.5,.2,.1$ (from above): after the first hump little is added, whatever the number of steps. Right: largest gap up to the time $40$ against $h$: gradient descent, heavy ball, and heavy ball to the lighter ball {eq}`eq-momentum-shadowing-corrected`. What breaks it (dashed): proportionality to $\\sqrt h$. From a kept result.", "name": "fig-momentum-shadowing-steps"}, "image": {"alt": "Left: four rising and then flat curves, one for each time step. Right: on logarithmic axes two parallel lines of slope one and a lower line of slope two that meets the lower of them at h = 1; a dashed line is flatter."}}
fig, (left, right) = figures.subplots(1, 2, size=(8.6, 3.9))
for number in (3, 2, 1, 0):
    label = f"$h={two_digits.TIME_STEPS[number]:g}$"
    figures.band(left, range(1, 41), 100 * scan["gap_hb"][number, :, 1:], label=label, geometric=True)
left.set(xlabel="time", ylabel="largest gap so far, %", yscale="log")
left.legend(fontsize=8.5, ncol=2)
for name, label in (
    ("gap_gd", "gradient descent"),
    ("gap_hb", "heavy ball"),
    ("gap_hb_corrected", "to the lighter ball"),
):
    figures.band(right, hs, 100 * at_end[name].mT, label=label, geometric=True)
figures.line_control(right, hs, 12 * hs.sqrt(), label=r"$\sqrt{h}$")
right.set(xlabel="time step $h$", ylabel="largest gap, %", xscale="log", yscale="log")
right.legend(fontsize=8.5)
plt.show()

# %% tags=["remove-input"]
figures.numbers(
    run,
    "fig-momentum-shadowing-steps",
    {"h": hs} | {name: 100 * values.log().mean(1).exp() for name, values in at_end.items()},
)

# %% [markdown]
# (The exponent was fitted for $h\le.5$ only, as a pilot with other starts had shown that gradient descent's gap bends upwards after that. The bound of three for
# the lighter ball is less than half of the least value of a pilot with four other starts, $6.7$.)
#
# The number of steps hardly matters: with $h=1$, the largest gap of heavy ball up to the time $40$ comes before the time $20$ for $11$ of the $12$ starts.
#
# **Why momentum strays five times as far.** The source reads the factor of five as the price of fast convergence. Most of it comes from the comparison with a ball of the wrong mass and start. Measured against the lighter ball,
# heavy ball with $h=1$ is off by $.5\,\%$ where gradient descent is off by $.9\,\%$ from its flow. What looked like a loss of accuracy is a push of $\frac h2\nabla\mathcal L(\theta_0)$ at the start and $15\,\%$ of
# the mass. Gradient descent has a flow of second order too, at one Hessian-vector product a step ({chapter}`Shadowing <momentum/shadowing>`); over the first $20$ steps of three starts it is nearer to that
# flow than heavy ball is to the lighter ball, by factors from $1.04$ to $3.6$.
#
# This also explains why the factor depends on the start. In its first step from rest heavy ball moves by $h^2\lVert\nabla\mathcal L\rVert$, the ball by half of that to leading order in $h$, whether the
# loss bends or not. The first step of gradient descent is wrong by $\frac{h^2}2\lVert H\nabla\mathcal L\rVert$: where the loss is nearly straight, it is nearly right. Large starts saturate the sigmoids, and there the loss is nearly straight.

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**The factor is a property of the start.** Largest gap with $h=1$ up to the time $40$, $\\lambda=.005$, against the standard deviation of the start; 12 starts, 95 % bands. Left: gaps in percent. Right: divided by gradient descent's. The source's factor of five belongs to the scale $.3$. Without the effect (dashed): a factor of one. From a kept result.", "name": "fig-momentum-shadowing-scale"}, "image": {"alt": "Left: three curves that fall as the start grows, gradient descent's fastest. Right: the factor of heavy ball rises from 1.5 to 19; that of the lighter ball stays between 0.4 and 1.6."}}
fig, (left, right) = figures.subplots(1, 2, size=(8.6, 3.9))
sizes_of_start = torch.tensor(two_digits.SCALES, **like)
for name, label in (
    ("gap_gd", "gradient descent"),
    ("gap_hb", "heavy ball"),
    ("gap_hb_corrected", "to the lighter ball"),
):
    figures.band(left, sizes_of_start, 100 * scales[name].T, label=label, geometric=True)
for name, label, color in (
    ("gap_hb", "heavy ball", "vermillion"),
    ("gap_hb_corrected", "to the lighter ball", "green"),
):
    ratio = (scales[name] / scales["gap_gd"]).T
    figures.band(right, sizes_of_start, ratio, label=label, geometric=True, color=figures.COLORS[color])
figures.line_control(
    right, sizes_of_start, torch.ones(4), role="without the effect", label="gradient descent"
)
left.set(xscale="log", yscale="log", xlabel="standard deviation of the start", ylabel="largest gap, %")
right.set(
    xscale="log", yscale="log", xlabel="standard deviation of the start", ylabel="gap / gradient descent's"
)
for ax in (left, right):
    ax.legend(fontsize=8)
plt.show()

# %% [markdown]
# ### What weight decay does to the bound
#
# For gradient descent {prf:ref}`thesis-cor-2-4-1` allows a distance of $hL\Gamma/2\mu$. With $\Gamma\le L\lVert\theta_0-\theta^\star\rVert$, where $\theta^\star$ is the minimizer, it is of the order
# $L^2/\mu$. A footnote of the source takes weight decay to raise $L$ and to lower $\mu$ by the same amount, and concludes that the bound grows.
#
# :::{prf:proposition} Weight decay raises both constants
# :label: thesis-claim-regularization-contractivity
# Adding $\frac\lambda2\lVert\theta\rVert^2$ turns $\mu$ and $L$ into $\mu+\lambda$ and $L+\lambda$. If $L>2\mu$, the quotient $(L+\lambda)^2/(\mu+\lambda)$ falls as
# $\lambda$ grows from $0$ to $L-2\mu$, where it reaches $4(L-\mu)$, and rises after that.
# :::
#
# :::{dropdown} Proof
# The Hessian becomes $H+\lambda I$. The derivative of the quotient in $\lambda$ is $(L+\lambda)\bigl[2(\mu+\lambda)-(L+\lambda)\bigr]/(\mu+\lambda)^2$, negative while
# $\lambda<L-2\mu$. $\square$
# :::
#
# With $\mu=.1$ and $L=1$ the quotient is $10$ without weight decay, $3.6$ at $\lambda=.8$ and $3.64$ at $\lambda=1$. (For a quadratic around zero the minimizer stays where it is, and along the
# steepest direction $\Gamma=L\lVert\theta_0\rVert$; then the bound itself falls by the same factor.) So weight decay tightens the bound of a badly conditioned loss. What remains of
# the source's remark is the other half: it adds $\lambda\theta$ to the first gradients, which are large when the start is.

# %%
rotation = torch.linalg.qr(torch.randn(6, 6, generator=run.generator("rotation"), **like)).Q
hessian = rotation @ torch.diag(torch.linspace(0.1, 1, 6, **like)) @ rotation.mT


def quotient(decay):  # L²/μ of the loss with weight decay
    eigenvalues = torch.linalg.eigvalsh(hessian + decay * torch.eye(6, **like))
    return eigenvalues[-1] ** 2 / eigenvalues[0]


falling = torch.stack([quotient(decay) for decay in torch.linspace(0, 0.8, 41).tolist()])
beyond = torch.stack([quotient(decay) for decay in torch.linspace(0.8, 1.6, 41).tolist()])
printed_decay = torch.stack([(1 + decay) ** 2 / (0.1 - decay) for decay in torch.linspace(0.01, 0.09, 9)])
assert abs(quotient(0.0) - 10) + abs(quotient(0.8) - 3.6) + abs(quotient(1.0) - 40 / 11) < 1e-11

# %% tags=["hide-input"]
ledger.check(
    "thesis:claim-regularization-contractivity",
    "μ = 0.1, L = 1: L²/μ falls under weight decay from 0 to L − 2μ = 0.8 and rises after that",
    measured=torch.cat([falling[1:] / falling[:-1], beyond[:-1] / beyond[1:]]),
    criterion=at_most("L²/μ over its value 0.02 nearer to λ = 0 (up to 0.8), farther (beyond)", 1.0),
    control=control("μ lowered by what L is raised", printed_decay / 10),
    expected="corrected",
    correction=correction(
        printed="regularization increases L and decreases μ by the same amount, which increases ε",
        right="regularization increases both; L²/μ falls until λ = L − 2μ, if L > 2μ",
        evidence="rederived",
    ),
)

# %% [markdown]
# ## For the practitioner
#
# - **Read your settings as a ball.** $h=\sqrt\eta$ and $a=(1-\beta_1)/\sqrt\eta$. A smaller step size at the same momentum means more friction. To
#   follow the *same* ball with half the time step, take a quarter of $\eta$ and half of $1-\beta_1$.
# - **Believe a flow if** $h^2\lambda_1(H)$, with the largest eigenvalue $\lambda_1$ of the Hessian, stays below about one along the path (stability alone asks for less than $2(1+\beta_1)$), if $h\Gamma/a$, by which heavy ball runs ahead of the ball of mass one on a long slope, is
#   small beside the distances that matter, and if no saddle decides the outcome. Near a saddle trust the path, not the end point.
# - **Compare with the lighter ball.** Mass $\frac{1+\beta_1}2$, start velocity $-\frac h2\nabla\mathcal L(\theta_0)$: no extra gradient, and on the digits eight times
#   nearer. A simulation of the flow that is to tell something about your run should use it.
# - **Keep the velocity when you change the step.** Torch's momentum buffer $B$ holds $v=-hB$ (the update is $-\eta B$ and $\eta=h^2$). Change $h$, and $B$ has to be divided by the
#   factor by which $h$ grows if the ball is to keep its speed.
#
# **When not.** With minibatches the noise is amplified ({chapter}`Gradient memory <momentum/gradient_memory>`), and no statement of this page covers it. On flat directions errors add up, with the factor
# $h/a$ for every unit of gradient. And a flow in time $kh$ says nothing about the largest time step that trains: that is decided by {eq}`eq-momentum-shadowing-roots`.
#
# ## Exercises
#
# :::{exercise} By hand
# :label: ex-momentum-shadowing-hand
# $\eta=.04$, $\beta_1=.8$. Which time step, friction and mass of the lighter ball are these? Take one step from $\theta_0=1$ at rest on $\frac12\theta^2$, in phase space and by the
# classical recursion.
# :::
#
# :::{solution-start} ex-momentum-shadowing-hand
# :class: dropdown
# :::
#
# $h=.2$, $a=1$, mass $.9$. $v_1=-.2$, $\theta_1=1-.04=.96$; the recursion says $1-.04\cdot1=.96$.

# %% tags=["hide-cell"]
one_step_by_hand = step(torch.tensor([1.0, 0.0], **like), lambda theta: theta, 0.2, 1.0)
assert torch.allclose(one_step_by_hand, torch.tensor([0.96, -0.2], **like))

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Predict a number
# :label: ex-momentum-shadowing-lead
# On a straight slope (constant gradient $g$) heavy ball and the ball of mass one start together at rest. How far ahead is heavy ball in the long run? How much of it is the start, how much
# the mass? Numbers: $h=1$, $a=.3$, $\lVert g\rVert=1$.
# :::
#
# :::{solution-start} ex-momentum-shadowing-lead
# :class: dropdown
# :::
#
# The ball has moved by $-\frac ga\bigl(t-\frac1a\bigr)$ up to terms that die out, heavy ball by $-\frac ga\bigl(kh-\frac{\beta_1}a\bigr)$: it leads by $h\lVert g\rVert/a=3.33$. The push
# alone gives $\frac h2\lVert g\rVert/a=1.67$, the smaller mass the other half.

# %% tags=["hide-cell"]
flat = torch.zeros(2, **like)
led = orbit(flat, torch.ones_like, 1.0, 0.3, 80)[-1, 0] - flow(flat, torch.ones_like, 1.0, 0.3, 80)[-1, 0]
only_push = torch.tensor([0.0, -0.5], **like)
by_push = (
    flow(only_push, torch.ones_like, 1.0, 0.3, 80)[-1, 0] - flow(flat, torch.ones_like, 1.0, 0.3, 80)[-1, 0]
)
assert abs(-led - 1 / 0.3) < 1e-8 and abs(-by_push - 0.5 / 0.3) < 1e-8

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Change one line
# :label: ex-momentum-shadowing-corrected
# In the cell of the source's figure for the bowl, let `halved` use `corrected=True`. Expected: the largest distance at $h=.2$ falls from $.085$ to $.0067$, and each halving of $h$ divides it by
# four.
# :::
#
# :::{solution-start} ex-momentum-shadowing-corrected
# :class: dropdown
# :::
#
# This is the lighter ball on a quadratic; the theorem gives the order two.

# %% tags=["hide-cell"]
assert abs(peaks[1] - 0.085) < 1e-3 and abs(second_order[1] - 0.0067) < 1e-4
assert ((second_order[1:-1] / second_order[2:] - 4).abs() < 0.3).all()

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Finish the proof
# :label: ex-momentum-shadowing-stable
# Show that for $0<\beta_1<1$ and $c>0$ both roots of {eq}`eq-momentum-shadowing-roots` lie inside the unit circle if and only if $h^2c<2(1+\beta_1)$. How does the largest step size compare with that of
# gradient descent?
# :::
#
# :::{solution-start} ex-momentum-shadowing-stable
# :class: dropdown
# :::
#
# The roots depend continuously on $h^2c$ and meet the circle only at $h^2c=0$ and $h^2c=2(1+\beta_1)$, by the theorem's key step. Between the two the number of roots inside is constant, and at
# $h^2c=1+\beta_1$ they are $\pm i\sqrt{\beta_1}$, inside. At $h^2c=2(1+\beta_1)$ one root is $-1$; beyond it the value at $q=-1$ is negative, so one root is below $-1$. The largest step size is
# $\eta=2(1+\beta_1)/L$, up to twice that of gradient descent.

# %% tags=["hide-cell"]
assert (
    torch.linalg.eigvals(matrix(3.39, 1.0, 0.7)).abs().max()
    < 1
    < torch.linalg.eigvals(matrix(3.41, 1.0, 0.7)).abs().max()
)

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Open
# :label: ex-momentum-shadowing-open
# Is there a shadowing theorem for heavy ball on strongly convex losses that are not quadratic, with a radius of the right size? Known: no Euclidean norm of phase space contracts
# ({prf:ref}`thesis-claim-hb-not-contracting`); adapted norms work for one quadratic and give radii eighty times too large; {cite:t}`ghadimi2015global` prove convergence of heavy ball
# for small momentum only.
# :::
#
# ## What to remember
#
# 1. Step size and momentum are a clock and a friction: $h=\sqrt\eta$, $a=(1-\beta_1)/\sqrt\eta$.
# 2. One step misses the flow by $\Gamma[(1+h)(a+\frac L{2a})+1]h^2$; little friction makes it large, because the ball is fast.
# 3. Heavy ball stretches distances in single steps, yet on quadratics without flat directions a true orbit stays within a distance of order $h$, as long as the gradients along the flow are bounded.
# 4. On two digits the gap to the flow is proportional to $h$ and about five times that of gradient descent; the factor depends on the start.
# 5. Mass $\frac{1+\beta_1}2$ and a push of half a step make the flow exact to second order, and remove most of the factor of five.
#
# **Further reading.** {cite}`orvieto2019shadowing` is the paper behind this section; {cite}`shi2022understanding` and {cite}`kovachki2021continuous` derive equations of higher order for momentum;
# {cite}`sutskever2013importance` show what momentum does for deep networks; {cite}`polyak1964some` introduced heavy ball.

# %% tags=["remove-input"]
ledger.table()
