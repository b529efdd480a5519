# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Tools in ten minutes
#
# What does gradient descent do near a minimum, and what changes when the step shrinks to nothing, the coordinates
# change, or the gradient is noisy? Every chapter of this book asks some form of this. The answers stand here once, each
# on the smallest example that shows it, with what breaks it.
#
# You need linear algebra, the chain rule and the normal distribution. Afterwards you will be able to
#
# - predict every iterate of gradient descent on a quadratic, and the largest step that converges;
# - say what smoothness, strong convexity and the PL inequality each promise, and which of them needs convexity;
# - read a gradient flow as the limit of small steps, and know what the limit forgets;
# - compute how a change of parameters changes the path: $\dot\beta=-JJ^\top\nabla_\beta\mathcal L$;
# - find the size of the cloud that noise keeps around a minimum.
#
# The letters are those of [Notation](../../book/notation.md).

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

from learning_dynamics import ensembles, figures, flows, runs, statistics
from learning_dynamics.figures import COLORS
from learning_dynamics.ledger import Ledger, at_most, control, exponent, identity
from learning_dynamics.rules import GradientDescent

figures.use_style()
run = runs.Run("toolbox/tools_in_ten_minutes", scale=SCALE, device=DEVICE, seed=SEED)
ledger = Ledger(run)
like = {"dtype": run.dtype, "device": run.device}

# %% [markdown]
# ## A quadratic, one direction at a time
#
# Close to a minimizer $\theta^\star$ a smooth loss is nearly a quadratic,
# $\mathcal L(\theta)=\tfrac12(\theta-\theta^\star)^\top H(\theta-\theta^\star)$ with a symmetric Hessian $H$.
# Its gradient is $H(\theta-\theta^\star)$, so one step multiplies the distance to $\theta^\star$ by the matrix
# $I-\eta H$. In the eigenvectors of $H$ that matrix is diagonal, and the directions no longer talk to each other.
#
# :::{prf:proposition} Gradient descent on a quadratic
# :label: tools-gd-modes
# Let $H=U\,\mathrm{diag}(\lambda_1(H),\dots,\lambda_d(H))\,U^\top$ be positive definite and
# $z_k=U^\top(\theta_k-\theta^\star)$. With a constant step size $\eta$,
#
# $$[z_k]_i=(1-\eta\lambda_i(H))^k\,[z_0]_i .$$
#
# The iterates converge to $\theta^\star$ from every start if and only if $0<\eta<2/\lambda_1(H)$.
# :::
#
# *Why.* The step gives $z_{k+1}=U^\top(I-\eta H)(\theta_k-\theta^\star)$, and in the eigenvectors this is
# $[z_{k+1}]_i=(1-\eta\lambda_i(H))\,[z_k]_i$. A power of a number tends to zero exactly when the number lies strictly
# between $-1$ and $1$. The largest eigenvalue decides.
#
# Write $L=\lambda_1(H)$ and $\mu=\lambda_d(H)$ for the largest and the smallest curvature. The step is limited by
# $L$, while progress along the flattest direction is governed by $\mu$. Their ratio $\kappa=L/\mu$, the condition
# number, is the price of using one step size for all directions: the best one, $\eta=2/(L+\mu)$, still leaves the
# fraction $(\kappa-1)/(\kappa+1)$ of the error along the steepest and the flattest direction at every step.
#
# :::{admonition} Predict first
# :class: tip
# Take $L=10$, $\mu=1$ and $\eta=0.19$. Which of the two directions is the slow one, and which one jumps from side
# to side?
# :::
#
# :::{dropdown} Answer
# The factors are $1-1.9=-0.9$ for the steep direction and $1-0.19=0.81$ for the flat one. The steep direction
# changes sign at every step *and* is the slower of the two. Above $2/(L+\mu)\approx0.182$ a larger step slows
# training down.
# :::
#
# The update takes one line. The step size is a batch axis: three runs advance together.

# %%
c, s = math.cos(math.pi / 6), math.sin(math.pi / 6)
U = torch.tensor([[c, -s], [s, c]], **like)  # its columns are the eigenvectors
curvature = torch.tensor([10.0, 1.0], **like)  # L and mu
H = U @ torch.diag(curvature) @ U.T
theta_star = torch.tensor([0.5, -0.25], **like)
theta_0 = theta_star + U.sum(dim=1)  # one unit away along each eigenvector


def descend(eta, steps):  # eta (runs, 1) -> iterates (steps + 1, runs, 2)
    path = [theta_0.expand(len(eta), 2)]
    for _ in range(steps):
        path.append(path[-1] - eta * ((path[-1] - theta_star) @ H))
    return torch.stack(path)


eta = torch.tensor([0.05, 0.19, 0.21], **like)[:, None]
path = descend(eta, 40)
rule, gradient = GradientDescent(eta), lambda theta, k: (theta - theta_star) @ H
library = ensembles.iterate(rule, gradient, path[0], 40, record=range(41))
assert torch.equal(library.values, path)

# %% [markdown]
# Now hold the iterates against the formula. The nearest wrong formula uses $e^{-\eta\lambda_i(H)}$ for the factor,
# as if the steps were infinitely small. The row below the cell reports the check: "120 values, worst 1e-14 against 9e-12" means that of 120
# numbers that should be zero the largest was 1e-14, and that rounding would excuse 9e-12. After "what breaks it" the same number follows for something
# wrong, which has to fail; "at best" is the wrong value that comes nearest to passing. {doc}`How claims are checked <../../book/how_claims_are_checked>`
# explains the rest.

# %% tags=["hide-input"]
z = (path - theta_star) @ U
k = torch.arange(1, 41, **like)[:, None, None]
exact = (1 - eta * curvature) ** k * z[0]
small_step = torch.exp(-eta * curvature * k) * z[0]


def distance_to(formula):
    return (z[1:] - formula).norm(dim=-1) / formula.norm(dim=-1)


ledger.check(
    "tools:gd-modes",
    "On a quadratic each direction shrinks by its own factor 1 − ηλᵢ(H)",
    measured=distance_to(exact),
    criterion=identity("‖z_k − formula‖/‖formula‖", condition=10, size=40),
    control=control("the factor exp(−ηλᵢ) of the flow", distance_to(small_step)),
    expected="holds",
)
# %% tags=["hide-input"] mystnb={"figure": {"caption": "**The steepest direction sets the largest step, both set the speed.** Top and middle: the two directions of three runs, dots on the lines of the formula. A short step ($\\eta=0.05$) settles the steep direction at once and leaves the flat one slow; $\\eta=0.19$ makes the steep one jump from side to side; $\\eta=0.21$ (dashed, what breaks it) makes it grow. Bottom: the factor by which a step shrinks the error, measured, is the larger of $\\lvert1-\\eta L\\rvert$ and $\\lvert1-\\eta\\mu\\rvert$; it is least at $2/(L+\\mu)$ and reaches 1 at $2/L$.", "name": "fig-tools-in-ten-minutes-quadratic"}, "image": {"alt": "Three panels. In the first, the steep coordinate against steps: it drops to zero at once for the short step, alternates in sign and shrinks for the middle one, alternates and grows for the long dashed one. In the second, the flat coordinate decays smoothly, slowest for the short step. In the third, the error factor against the step size: dots follow the upper envelope of a V-shaped and a falling line."}}
fig, axes = figures.subplots(3, 1, size=(5.8, 8.4))
for ax, i, name, limits in ((axes[0], 0, "steep", (-4.5, 9.5)), (axes[1], 1, "flat", (0, 1.45))):
    for j, color in ((0, COLORS["blue"]), (1, COLORS["vermillion"])):
        ax.plot(range(16), z[:16, j, i], "o", color=color, label=f"η = {eta[j].item()}")
        ax.plot(range(1, 16), exact[:15, j, i], color=color, marker="", linewidth=1)
    figures.line_control(ax, range(16), z[:16, 2, i], label="η = 0.21")
    ax.set(ylim=limits, xlabel="step k", ylabel=f"error, {name} direction")
    ax.legend(loc="upper right")

grid = torch.linspace(0.01, 0.23, 23, **like)[:, None]
distance = (descend(grid, 60) - theta_star).norm(dim=-1)
axes[2].plot(grid, (1 - grid * 10).abs(), marker="", label="|1 − ηL|")
axes[2].plot(grid, (1 - grid).abs(), marker="", label="|1 − ημ|")
axes[2].plot(grid, distance[-1] / distance[-2], ".", color=COLORS["black"], label="measured")
figures.line_control(axes[2], [0.2, 0.2], [0, 1.3], label="η = 2/L")
axes[2].set(ylim=(0, 2.0), xlabel="step size η", ylabel="error factor per step")
axes[2].legend(loc="upper left", ncols=2)
plt.show()

# %% [markdown]
# ## Smooth, strongly convex, PL
#
# A loss that is not quadratic has no fixed eigenvalues. Convergence proofs get by with bounds on its curvature, and
# three of them recur. ({numref}`fig-flows-and-diffusions-map` shows which conditions of this kind follow from which.)
#
# - $\mathcal L$ is **$L$-smooth** if its gradient is $L$-Lipschitz: with $\delta=\theta'-\theta$, it changes by at
#   most $L\lVert\delta\rVert$. Then the loss lies below a parabola of curvature $L$ at every point:
#   $\mathcal L(\theta')\le\mathcal L(\theta)+\nabla\mathcal L(\theta)^\top\delta+\tfrac L2\lVert\delta\rVert^2$.
# - $\mathcal L$ is **$\mu$-strongly convex** if it lies above such a parabola of curvature $\mu>0$ at every point.
#   It then has exactly one minimizer.
# - $\mathcal L$ satisfies the **PL inequality** with constant $\mu>0$ {cite}`karimi2016linear` if
#   $\tfrac12\lVert\nabla\mathcal L(\theta)\rVert^2\ge\mu\,(\mathcal L(\theta)-\mathcal L^\star)$ at every point:
#   wherever the loss is above its infimum $\mathcal L^\star$ (its greatest lower bound), the gradient is not small.
#
# Strong convexity implies PL with the same $\mu$: the lowest point of the lower parabola gives
# $\mathcal L^\star\ge\mathcal L(\theta)-\lVert\nabla\mathcal L(\theta)\rVert^2/(2\mu)$. PL asks for less. It allows many
# minimizers and needs no convexity. Least squares with more parameters than samples is the case to remember. It is not
# strongly convex, since the loss is flat along whole subspaces, yet for independent samples PL holds with $\mu$ the
# smallest *nonzero* eigenvalue of the Hessian: with residual $r=X\theta-y$,
# $\lVert X^\top r\rVert^2\ge\sigma_n(X)^2\lVert r\rVert^2$.
#
# Smoothness and PL together already give the linear rate. With $\eta=1/L$ the upper parabola, evaluated at the next
# iterate, and then PL give for the gap $\Delta_k=\mathcal L(\theta_k)-\mathcal L^\star$
#
# $$
# \begin{aligned}
# \Delta_{k+1}&\le\Delta_k-\tfrac1{2L}\lVert\nabla\mathcal L(\theta_k)\rVert^2\\
# &\le\bigl(1-\tfrac\mu L\bigr)\,\Delta_k.
# \end{aligned}
# $$
#
# The loss $\theta^2+3\sin^2\theta$ is PL without being convex. Raise the 3 to an 8 and a second valley appears on
# either side. At its bottom the gradient vanishes while the loss does not, so PL is false, and gradient descent
# stops there.


# %%
def wavy(theta, height):  # loss and gradient; the loss is (2 + 2 height)-smooth
    loss = theta**2 + height * theta.sin() ** 2
    return loss, 2 * theta + height * (2 * theta).sin()


def steepness(theta, height):  # what PL bounds from below
    loss, slope = wavy(theta, height)
    return 0.5 * slope**2 / loss


def descend_wavy(height, steps=30):  # eta = 1/L
    path = [torch.tensor(3.2, **like)]
    for _ in range(steps):
        path.append(path[-1] - wavy(path[-1], height)[1] / (2 + 2 * height))
    return torch.stack(path)


theta = torch.linspace(-4, 4, 8000, **like)  # none of these points is 0
mu = steepness(theta, 3.0).min()  # the best PL constant on this grid
arrives, stuck = descend_wavy(3.0), descend_wavy(8.0)
loss = wavy(arrives, 3.0)[0]
assert (loss[1:] <= (1 - mu / 8) * loss[:-1]).all()  # the linear rate
assert wavy(stuck, 8.0)[0][-1] > 8  # stopped far above the infimum 0

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**PL does not need convexity, but every valley must reach the bottom.** Top: a smooth, strongly convex loss between its two parabolas at one point. Middle: gradient descent with $\\eta=1/L$ (dots) passes the dents of $\\theta^2+3\\sin^2\\theta$ and arrives; on $\\theta^2+8\\sin^2\\theta$ (dashed, what breaks it) it stops in a valley above zero. Bottom: half the squared slope over the loss stays above a constant $\\mu$ for the first and falls to zero for the second.", "name": "fig-tools-in-ten-minutes-pl"}, "image": {"alt": "Three panels. Top, a convex curve that touches a wide parabola below it and a narrow one above it at one point. Middle, a dented curve with a single minimum, with dots that run down to it, and a dashed curve with a second valley in which dots pile up. Bottom, on a logarithmic axis, a curve that stays above a horizontal line and a dashed curve that dips to zero on both sides."}}
fig, (left, middle, right) = figures.subplots(3, 1, size=(5.8, 8.8))
x, at = torch.linspace(-3, 4, 300, **like), torch.tensor(1.5, **like)
height, slope = 0.5 * at**2 + 3 * at.cosh().log(), at + 3 * at.tanh()
left.plot(x, 0.5 * x**2 + 3 * x.cosh().log(), marker="", label="½θ² + 3 log cosh θ")
left.plot(x, height + slope * (x - at) + 2 * (x - at) ** 2, marker="", label="above: L = 4")
left.plot(x, height + slope * (x - at) + 0.5 * (x - at) ** 2, marker="", label="below: μ = 1")
left.plot(at, height, "o", color=COLORS["black"], zorder=3)
left.set(ylim=(-3, 42), xlabel="θ", ylabel="loss")
left.legend(loc="upper left")
middle.plot(theta, wavy(theta, 3.0)[0], marker="", label="θ² + 3 sin²θ")
figures.line_control(middle, theta, wavy(theta, 8.0)[0], label="θ² + 8 sin²θ")
middle.plot(arrives, loss, "o", color=COLORS["blue"])
middle.plot(stuck, wavy(stuck, 8.0)[0], "o", color=figures.CONTROL_COLOR)
middle.set(ylim=(-1, 28), xlabel="θ")
middle.legend(loc="upper center")
right.semilogy(theta, steepness(theta, 3.0), marker="", label="θ² + 3 sin²θ")
right.semilogy(theta, mu.expand(8000), marker="", label="μ")
figures.line_control(right, theta, steepness(theta, 8.0), label="θ² + 8 sin²θ")
right.set(ylim=(1e-4, 1e4), xlabel="θ", ylabel="½ slope² / loss")
right.legend(loc="upper center", ncols=2)
plt.show()

# %% [markdown]
# ## Gradient flow: the limit of small steps
#
# Let the step size go to zero while the product $t=\eta k$ stays fixed. Gradient descent becomes the **gradient
# flow** $\dot\theta=-\nabla\mathcal L(\theta)$, of which it is the forward Euler discretization: for a time $\eta$
# keep the velocity, then look again. The flow has no step size left to tune, and along it the loss cannot rise:
# $\tfrac{d}{dt}\mathcal L(\theta)=\nabla\mathcal L^\top\dot\theta=-\lVert\nabla\mathcal L(\theta)\rVert^2$.
# So this book uses the flow when it asks *which* minimizer training finds, and returns to finite steps when it asks how
# fast, how stable or how noisy. That there is exactly one flow from a start is {prf:ref}`thesis-thm-a-1-1`; it needs a
# gradient that is locally Lipschitz.
#
# On a quadratic the two differ by their factors: $e^{-\lambda_i(H)t}$ against $(1-\eta\lambda_i(H))^{t/\eta}$. At a
# fixed time the gap is to first order proportional to $\eta$: halve a small step, and gradient descent comes about twice
# as close to the flow. What the flow forgets is what a large step does: for it no step is too long, no direction jumps
# from side to side, and quantities that it conserves drift under real steps.
#
# A loss of two numbers shows such a quantity: $\mathcal L(u,v)=\tfrac12(uv-1)^2$. Its gradient is $(uv-1)\,(v,u)$,
# so the flow obeys $\tfrac{d}{dt}(u^2-v^2)=0$ and stays on a hyperbola. Where on the curve $uv=1$ it ends is
# therefore settled at the start.


# %%
def velocity(theta, t=0.0):  # minus the gradient of (uv - 1)^2 / 2
    return -(theta.prod(-1, keepdim=True) - 1) * theta.flip(-1)


start = torch.tensor([1.5, -1.2], **like)
flow = flows.gradient_flow(velocity, start, torch.linspace(0, 4, 200))
eta = 2.0 ** -torch.arange(2, 11, **like)[:, None]  # 1/4 ... 1/1024
rule, gradient = GradientDescent(eta), lambda theta, k: -velocity(theta)
starts = start.expand(9, 2)
descent = ensembles.iterate(rule, gradient, starts, 1024, record=range(1025)).values
at_one = torch.stack([descent[2 ** (i + 2), i] for i in range(9)])  # after 1/eta steps
target = flows.gradient_flow(velocity, start, [1.0]).values[-1]
gap = (at_one - target).norm(dim=-1)

# %% tags=["hide-input"]
four_steps = torch.stack([flows.gradient_flow(velocity, start, [4 * e.item()]).values[-1] for e in eta])
ledger.check(
    "tools:flow-gap",
    "At a fixed time the gap between gradient descent and the flow is proportional to η",
    measured=statistics.log_log_slope(eta[-5:, 0], gap[-5:]),
    criterion=exponent("the exponent in η of the gap at t = 1", 1.0, neighbours=[0.5, 2.0]),
    control=control(
        "after four steps, whatever the time",
        statistics.log_log_slope(eta[-5:, 0], (descent[4] - four_steps)[-5:].norm(dim=-1)),
    ),
    expected="holds",
)


# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Small steps shadow the flow; large ones end elsewhere.** Top: the flow keeps $u^2-v^2$ and follows a hyperbola to $uv=1$; gradient descent with $\\eta=1/4$ (dashed, what breaks it) leaves that hyperbola and ends at another minimizer, with $\\eta=1/16$ the difference is small. Bottom: the distance to the flow at time $t=1$ shrinks in proportion to the step size, once that is small.", "name": "fig-tools-in-ten-minutes-flow"}, "image": {"alt": "Top, paths in the plane of u and v towards the curve u v equals one: a smooth flow, small steps close to it, and large dashed steps that arrive at a different point of the curve. Bottom, distance to the flow against step size on logarithmic axes, parallel to a line of slope one."}}
fig, (left, right) = figures.subplots(2, 1, size=(5.8, 7.0))
u = torch.linspace(0.55, 2.4, 100)
left.plot(u, 1 / u, color=COLORS["grey"], marker="", label="minimizers, uv = 1")
left.plot(*flow.values.T, color=COLORS["blue"], marker="", label="gradient flow")
left.plot(*descent[:60, 2].T, "o", color=COLORS["vermillion"], markersize=3, label="η = 1/16")
figures.line_control(left, *descent[:40, 0].T, label="η = 1/4", marker=".", markevery=1)
left.plot(*start, "o", color=COLORS["black"])
left.set(xlim=(0.5, 2.4), ylim=(-1.35, 1.7), xlabel="u", ylabel="v")
left.legend(loc="center right", bbox_to_anchor=(1, 0.42))
right.loglog(eta, gap, "o", color=COLORS["vermillion"], label="measured at t = 1")
right.loglog(eta, gap[-1] * eta / eta[-1], color=COLORS["blue"], marker="", label="slope 1")
right.set(xlabel="step size η", ylabel="distance to the flow")
right.legend()
plt.show()

# %% [markdown]
# ## Other coordinates, another path
#
# Training moves $\theta\in\mathbb R^d$, but what a linear model computes depends on $\theta$ only through its weights
# $\beta=g(\theta)\in\mathbb R^{d_x}$. (Where $\beta=\theta$, we have $d=d_x$.) Write $J=\partial\beta/\partial\theta$ for
# the Jacobian of the weights, so that $JJ^\top$ is $(d_x,d_x)$; the letter $\Theta$ is kept for the same product of the
# outputs. The chain rule, used once for the loss and once for the motion, gives the identity to which this book returns
# in every part.
#
# :::{prf:proposition} How the weights move
# :label: tools-jjt
# If $\beta=g(\theta)$ and $\theta$ follows the gradient flow of $\theta\mapsto\mathcal L(g(\theta))$, then
#
# $$\dot\beta=-JJ^\top\,\nabla_\beta\mathcal L(\beta).$$
#
# For $\theta=(u,v)$, $\beta=u\odot u-v\odot v$ and a *balanced* start, $u_0=v_0=\alpha\mathbf 1$, the matrix is a
# function of the weights alone: $JJ^\top=4\,\mathrm{diag}\sqrt{\beta^2+4\alpha^4}$, with squares and root
# entrywise.
# :::
#
# *Why.* $\dot\beta=J\dot\theta=-J\,\nabla_\theta\mathcal L=-J\,J^\top\nabla_\beta\mathcal L$. In the example
# $J=[\,2\,\mathrm{diag}(u),\,-2\,\mathrm{diag}(v)\,]$, hence $JJ^\top=4\,\mathrm{diag}(u^2+v^2)$. Since
# $\dot u=-2u\odot\nabla_\beta\mathcal L$ and $\dot v=2v\odot\nabla_\beta\mathcal L$, the product $u\odot v$ is constant,
# and from the balanced start it is $\alpha^2\mathbf 1$. So $(u^2+v^2)^2=(u^2-v^2)^2+4u^2v^2$ is
# $\beta^2+4\alpha^4$.
#
# The parameterization acts as a matrix $P=JJ^\top$ in front of the gradient. If $g$ reaches every $\beta$, it changes no function that the model
# can express and no minimizing $\beta$; it changes the path, and where there are many minimizers the path
# decides which one is found.
#
# The check takes random points with $u\odot v=\alpha^2\mathbf 1$, $u=\alpha e^s$ and $v=\alpha e^{-s}$ entrywise, and
# compares the velocity found by automatic differentiation with the formula. What breaks the formula is a start with
# $u_0\ne v_0$.


# %% tags=["hide-input"]
def g(theta):
    u, v = theta.chunk(2, dim=-1)
    return u * u - v * v


def mismatch(theta, alpha, direction):  # velocity by autograd against -P grad, relative
    beta, chain = torch.func.vjp(g, theta)
    _, moved = torch.func.jvp(g, (theta,), (-chain(direction)[0],))
    formula = -4 * torch.sqrt(beta**2 + 4 * alpha**4) * direction
    return (moved - formula).norm(dim=-1) / formula.norm(dim=-1)


alpha = 0.3
draw = torch.randn(2, 100, 5, generator=run.generator("points"), dtype=run.dtype)
s, direction = draw.to(run.device)
balanced = alpha * torch.cat([s.exp(), (-s).exp()], -1)
uneven = alpha * torch.cat([2 * s.exp(), (-s).exp()], -1)
ledger.check(
    "tools:jjt",
    "From a balanced start u² − v² moves by −4 diag √(β² + 4α⁴) times the gradient",
    measured=mismatch(balanced, alpha, direction),
    criterion=identity("‖β̇ + P∇L‖/‖P∇L‖", condition=10, size=10),
    control=control("a start with u₀ = 2v₀", mismatch(uneven, alpha, direction)),
    expected="holds",
)
# %% [markdown]
# One sample with inputs $x=(1,2)$ and target $y=2$ has a whole line of minimizers. Three models with the same
# functions, started at the same $\beta=0$, reach three different points of it.

# %%
x, y = torch.tensor([1.0, 2.0], **like), 2.0
times = torch.cat([torch.zeros(1), torch.logspace(-3, 2, 400)]).to(run.dtype)


def factors_path(alpha):  # the flow of u and v
    def velocity(theta, t):
        u, v = theta.chunk(2)
        pull = (g(theta) @ x - y) * x
        return torch.cat([-2 * u * pull, 2 * v * pull])

    start = torch.full((4,), alpha, **like)
    return flows.gradient_flow(velocity, start, times).values


factors = {alpha: factors_path(alpha) for alpha in (0.3, 0.02)}
zero = torch.zeros(2, **like)
plain = flows.gradient_flow(lambda beta, t: -(beta @ x - y) * x, zero, times).values

# %% tags=["hide-input"]
kept = flow.values.square() @ torch.tensor([1.0, -1.0], **like)  # u^2 - v^2 of the first example
drifts = [kept / kept[0] - 1] + [
    (path[:, :2] * path[:, 2:] / alpha**2 - 1).flatten() for alpha, path in factors.items()
]
left = descent[1:40, 0].square() @ torch.tensor([1.0, -1.0], **like)
ledger.check(
    "tools:flow-conserves",
    "The flow keeps u² − v² in the loss (uv − 1)²/2, and u ⊙ v when β = u² − v²",
    measured=torch.cat(drifts).abs() / (100 * 1e-10),
    criterion=at_most("relative change of what is kept, over 100 times the solver's tolerance", 1.0),
    control=control(
        "gradient descent on (uv − 1)²/2 with η = 1/4", (left / kept[0] - 1).abs() / (100 * 1e-10)
    ),
    expected="holds",
    noise=1.0,
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Same functions, same start, same loss: three end points.** Trained directly, the weights go straight to the nearest minimizer. Trained as $u^2-v^2$, they bend towards the axis, and the smaller the start $\\alpha$, the closer they end to the sparse minimizer (0, 1).", "name": "fig-tools-in-ten-minutes-jjt"}, "image": {"alt": "Three paths from the origin to a slanted line of minimizers in the plane of two weights: a straight one that meets the line at a right angle, one slightly bent, and one that runs along the vertical axis and ends near its crossing with the line."}}
fig, ax = figures.subplots(1, 1)
ax.plot([-0.2, 1.2], [1.1, 0.4], color=COLORS["grey"], marker="", label="minimizers")
ax.plot(*plain.T, color=COLORS["blue"], marker="", label="β itself")
for (alpha, path), color in zip(factors.items(), (COLORS["vermillion"], COLORS["green"]), strict=True):
    ax.plot(*g(path).T, color=color, marker="", label=f"u² − v², α = {alpha}")
ax.plot([0, 0.4, 0], [0, 0.8, 1], "o", color=COLORS["black"], markersize=4, zorder=3)
ax.annotate("least Euclidean norm", (0.4, 0.8), (0.5, 0.9))
ax.annotate("sparse", (0, 1), (-0.17, 1.12))
ax.set(xlim=(-0.2, 1.2), ylim=(-0.05, 1.25), xlabel="first weight", ylabel="second weight", aspect="equal")
ax.legend(loc="lower right")
plt.show()

# %% [markdown]
# ## Noise: the cloud around a minimum
#
# A stochastic gradient does not let the iterates come to rest. Take one direction of curvature $h$, started
# anywhere, with independent noise $\xi_k$ of mean zero and variance $\sigma^2$ in every gradient:
#
# $$\theta_{k+1}=\theta_k-\eta\,(h\,\theta_k+\xi_k).$$
#
# Each step shrinks the variance by $(1-\eta h)^2$ and adds $\eta^2\sigma^2$. The two balance at exactly one value.
#
# :::{prf:proposition} Stationary variance
# :label: tools-ou-variance
# If $0<\eta h<2$ and $\theta_0$ has a finite variance, the variance of $\theta_k$ converges to
#
# $$V=\frac{\eta\,\sigma^2}{h\,(2-\eta h)} .$$
#
# The continuous limit, the Ornstein-Uhlenbeck process $d\theta=-h\,\theta\,dt+\sqrt\eta\,\sigma\,dW$
# {cite}`uhlenbeck1930theory`, where the increments $dW$ are independent and normal with variance $dt$
# ({chapter}`Flows and diffusions <toolbox/flows_and_diffusions>` builds such equations from coin throws), has the stationary
# (no longer changing) variance $\eta\sigma^2/(2h)$, which is too small by the factor $1-\eta h/2$.
# :::
#
# *Why.* $V$ solves $V=(1-\eta h)^2V+\eta^2\sigma^2$, and the variances $V_k$ approach it:
# $V_{k+1}-V=(1-\eta h)^2(V_k-V)$. Over a time $\eta$ the process moves by the same mean and variance as the update, to
# leading order. In a time $dt$ its variance changes by $-2hV\,dt+\eta\sigma^2\,dt$, which is zero at $\eta\sigma^2/(2h)$.
#
# Two readings of the formula matter later. The cloud shrinks with the step size, not with time: with a constant step
# the iterates never settle. And the cloud is narrow in steep directions and wide in flat ones, in such a way that the
# loss it costs, $\tfrac12hV=\eta\sigma^2/(2(2-\eta h))$, is for small $\eta h$ nearly the same, $\eta\sigma^2/4$, for
# every curvature.
#
# The check runs many independent chains for three choices of $\eta$, $h$ and $\sigma$. What breaks the formula is to
# follow the continuous process instead.

# %% tags=["hide-input"]
chains = run.pick(smoke=20_000, book=40_000, paper=400_000)
choices = torch.tensor([[0.5, 1, 1], [0.2, 4, 2], [1.5, 0.8, 0.5]], dtype=run.dtype)
eta, h, sigma = choices.T[..., None]  # (3, 1) each
V = eta * sigma**2 / (h * (2 - eta * h))


def ratio(shrink, spread, stream):  # interval of the variance over V, mean of the three choices
    noise, theta = run.generator(stream), torch.zeros(3, chains, dtype=run.dtype)
    for _ in range(60):
        theta = shrink * theta + spread * torch.randn(theta.shape, generator=noise, dtype=run.dtype)
    return statistics.mean_interval(((theta - theta.mean(1, keepdim=True)) ** 2 / V).mean(0), 0.999)


exact_step = sigma * (eta / (2 * h) * (1 - torch.exp(-2 * eta * h))).sqrt()  # of the process
ledger.check(
    "tools:ou-variance",
    "The stationary variance is ησ²/(h(2 − ηh)), for three choices of η, h, σ",
    measured=ratio(1 - eta * h, eta * sigma, "chain"),
    criterion=exponent("variance h(2 − ηh)/(ησ²)", 1.0, neighbours=[0.95, 1.05]),
    control=control(
        "the Ornstein-Uhlenbeck process, sampled exactly", ratio(torch.exp(-eta * h), exact_step, "process")
    ),
    expected="holds",
)
# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Noise keeps a cloud around the minimum, wider than the continuous limit says.** Top: one chain at $\\eta h=1/10$, started at 3, reaches a band of two standard deviations and stays in it about 95 % of the time. Bottom: variance of 4,000 chains at six step sizes (dots, $h=\\sigma=1$) on the exact curve; the continuous limit (dashed), which lacks the effect of finite steps, falls short.", "name": "fig-tools-in-ten-minutes-noise"}, "image": {"alt": "Top, a noisy path that falls from three to zero and then fluctuates inside a shaded band. Bottom, variance against step size: dots on a curve that bends upwards, above a dashed straight line."}}
fig, (left, right) = figures.subplots(2, 1, size=(5.8, 6.4))
noise = run.generator("figure")
sizes = torch.tensor([0.1, 0.25, 0.5, 0.75, 1.0, 1.4], dtype=run.dtype)[:, None]
theta = torch.full((6, 4000), 3.0, dtype=run.dtype)
one = []
for _ in range(200):
    one.append(theta[0, 0].item())
    theta = theta - sizes * (theta + torch.randn(theta.shape, generator=noise, dtype=run.dtype))
band = 2 * math.sqrt(0.1 / 1.9)
left.plot(one, marker="", linewidth=1, label="one chain")
left.axhspan(-band, band, alpha=0.2, label="±2 √V")
left.set(xlabel="step k", ylabel="position, the minimum at 0")
left.legend()
h = torch.linspace(0.01, 1.5, 100)
right.plot(sizes, theta.var(dim=1), "o", color=COLORS["black"], label="measured")
right.plot(h, h / (2 - h), marker="", label="exact, η/(2 − η)")
figures.line_control(right, h, h / 2, label="η/2", role="without the effect")
right.set(xlabel="step size η", ylabel="variance V")
right.legend()
plt.show()

# %% [markdown]
# ## What to remember
#
# 1. On a quadratic, direction $i$ shrinks by $1-\eta\lambda_i(H)$ per step; steps beyond $2/L$ diverge.
# 2. Smooth and PL is enough for the rate $1-\mu/L$. PL needs neither convexity nor a unique minimizer.
# 3. Gradient flow is gradient descent with $\eta\to0$; at a fixed time the gap is to first order proportional to
#    $\eta$.
# 4. A parameterization $\beta=g(\theta)$ puts $P=JJ^\top$ in front of the gradient: same functions, another path.
# 5. Noise of variance $\sigma^2$ keeps a cloud of variance $\eta\sigma^2/(h(2-\eta h))$ in a direction of curvature
#    $h$.
#
# {chapter}`Flows and diffusions <toolbox/flows_and_diffusions>` proves what this page uses about flows, noise and smoothness.
# Further reading: {cite}`nesterov2018lectures` for smooth and strongly convex functions, {cite}`karimi2016linear`
# for the PL inequality.
#
# ## Checks behind this page

# %% tags=["remove-input"]
ledger.table()
