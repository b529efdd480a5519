# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Least action
#
# You train a logistic regression on the breast cancer data with Nesterov's momentum. The loss falls fast, but with a
# bump every two hundred steps or so, and it takes 2,939 steps to come within $10^{-9}$ of the minimum. If you set the
# momentum back to zero whenever the method has moved uphill, 563 steps are enough. Whoever looks for a reason meets a
# well-known story: the accelerated path is optimal in the way in which the path of a thrown stone is. Among all curves
# with the same two ends it makes an integral, called the *action*, least. If that were so, leaving the path at a bump
# should not pay.
#
# **Does the accelerated path make its action least, and for how long?** The path always makes the action *stationary*,
# that is, small changes of the path change it only in second order. The action is *least* only on windows of time
# shorter than a limit between $\pi/\sqrt L$ and $3.832/\sqrt L$, where $L$ is the largest curvature of the loss. One step of
# size $\eta$ takes the time $\sqrt\eta$, so at the usual $\eta=1/L$ this is at most $3.8$ steps. **What breaks it**: five per cent more time than the limit, or any friction
# that is low enough to accelerate.
#
# The picture is made by gradient descent on whole curves. Two points of Nesterov's path are joined by a straight line,
# and the line then moves downhill in the action, with its ends held fixed. (Each step is preconditioned by the matrix of
# $\frac12\int t^3\dot\vartheta^2dt$; without this the wiggles would force tiny steps.)

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
from scipy.integrate import quad, solve_ivp
from scipy.optimize import brentq
from scipy.special import j0, j1, jn_zeros, y1
from torch.func import grad, hessian, jvp
from torch.nn.functional import pad, softplus

from learning_dynamics import data, ensembles, figures, flows, rules, runs
from learning_dynamics.ledger import (
    Ledger,
    at_least,
    at_most,
    between,
    confident,
    control,
    correction,
    equals,
    identity,
    inequality,
)
from learning_dynamics.momentum.calculus_of_variations import (
    action,
    conjugate_points,
    damping_barrier,
    first_variation,
    lowest_modes,
)

figures.use_style()
run = runs.Run("momentum/least_action", scale=SCALE, device=DEVICE, seed=SEED)
ledger = Ledger(run)
like = {"dtype": run.dtype}  # small problems: on the CPU, whatever DEVICE says
every = {"markevery": 1}


def bessel(function):  # scipy's, exact to rounding; those of torch.special are off by 5e-7 just above 5
    return lambda x: torch.as_tensor(function(torch.as_tensor(x, **like).numpy()), **like)


bessel_j0, bessel_j1, bessel_y1 = bessel(j0), bessel(j1), bessel(y1)


# %%
def nesterov_path(t):  # solves θ'' + (3/t) θ' + θ = 0 from rest at θ(0) = 1
    return 2 * bessel_j1(t) / t


def lagrangian(theta, velocity, t):  # its integral over time is the action
    return t**3 * (velocity**2 / 2 - theta**2 / 2)


# %%
def descend(length, steps, nodes=600):  # gradient descent on curves, ends fixed
    t = torch.linspace(1, 1 + length, nodes + 1, **like)
    ends = nesterov_path(t[[0, -1]])
    curves = [ends[0] + (ends[1] - ends[0]) * (t - 1) / length]  # the straight line
    w = ((t[1:] + t[:-1]) / 2) ** 3 / t.diff()
    stiffness = torch.diag(w[1:] + w[:-1]) - torch.diag(w[1:-1], 1) - torch.diag(w[1:-1], -1)
    root = torch.linalg.cholesky(stiffness)  # the preconditioner
    for _ in range(steps):
        slope = grad(lambda curve: action(lagrangian, curve, t))(curves[-1])
        move = torch.cholesky_solve(slope[1:-1, None], root)[:, 0]
        curves.append(curves[-1] - 0.5 * pad(move, (1, 1)))
    return t, torch.stack(curves)


window = float(conjugate_points(lambda t: 3 / t, 1.0, 1.0, 6.0)[0]) - 1  # the limit
descents = {share: descend(share * window, 200) for share in (0.5, 0.95, 1.05)}
distance = {s: (curves - nesterov_path(t)).abs().amax(-1) for s, (t, curves) in descents.items()}

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Five per cent of time decide.** Loss $\\theta^2/2$, windows that start at $t_1=1$; the limit there is $3.3557$. Left: window of $0.95$ of the limit; the straight line (purple) after 10, 30 and 200 steps downhill in the action (600 nodes, step $0.5$, preconditioned by the stiffness matrix) comes to lie on Nesterov's path (black). Right: largest distance from Nesterov's path for $0.5$ and $0.95$ of the limit; the floor is the error of 600 nodes. What breaks it (dashed): $1.05$ of the limit; the curve runs away and the action falls without end.", "name": "fig-action-descent"}, "image": {"alt": "Left: a family of curves between two fixed points, approaching a black curve. Right: on a logarithmic axis two falling lines and a dashed line that rises beyond one thousand."}}
fig, (left, right) = figures.subplots(1, 2, size=(8.6, 3.8))
t, curves = descents[0.95]
for step, color in ((0, "purple"), (10, "vermillion"), (30, "green"), (200, "blue")):
    left.plot(t, curves[step], color=figures.COLORS[color], marker="", label=f"{step} steps")
left.plot(t, nesterov_path(t), color=figures.COLORS["black"], ls=":", marker="", label="Nesterov's path")
left.set(xlabel="time $t$", ylabel="$\\vartheta(t)$")
left.legend(fontsize=8.5)
steps = torch.arange(201, **like)
for share, color in ((0.5, "green"), (0.95, "blue")):
    right.semilogy(steps, distance[share], color=figures.COLORS[color], label=f"{share} of the limit")
figures.line_control(right, steps, distance[1.05], label="1.05 of it")
right.set(xlabel="step downhill in the action", ylabel="distance from Nesterov's path")
right.legend(fontsize=8.5)
plt.show()

# %% tags=["hide-input"]
figures.numbers(
    run,
    "descent-on-curves",
    {"step": steps, "half": distance[0.5], "below": distance[0.95], "above": distance[1.05]},
    noise=1e-6,
)

# %% [markdown]
# This chapter studies $\beta_1$ in
# $\theta_{k+1}=\theta_k$ $-\,\eta_kP_k(\nabla\mathcal L(\theta_k)+\xi_k)$ $+\,\beta_1(\theta_k-\theta_{k-1})$: it grows like
# $(k-1)/(k+2)$, or is constant, and the gradients have no noise. After it you can
#
# - say what an Euler-Lagrange equation promises about a path, and what it does not;
# - compute for how long a path makes its action least, for any friction and curvature, in two lines of code;
# - see why the answer is a buckling column, and why more time makes every accelerated path a saddle;
# - restart momentum at the right moment, and know what that moment has to do with the theory.
#
# The source is sections 2.1 and 2.2 of {cite}`orvieto2023dynamics`, after {cite}`zhang2021rethinking`. It corrects the story
# told in {cite}`wibisono2016variational` and in talks about it. Read
# {doc}`Tools in ten minutes <../toolbox/tools_in_ten_minutes>` first. The page runs in about 30 seconds on one CPU core,
# in about fifteen with `SCALE = "smoke"`.
#
# :::{dropdown} The letters of the source
# | here | source, 2.1 and 2.2 | meaning |
# |---|---|---|
# | $\theta(t)$, $\vartheta(t)$ | $X$, $Y$ | the path of the method; any other curve |
# | $\mathcal L$, $L$, $\mu$ | $f$, $\beta$, $\mu$ | loss, largest and smallest curvature |
# | $\Lambda$, $\mathcal S$ | $L$, $J$ | Lagrangian, action |
# | $[t_1,t_2]$, $\Delta=t_2-t_1$, $t_c$ | $[t_1,t_2]$ | window, its length, conjugate time |
# | $\zeta$, $\varepsilon$ | $h$, $\sigma$ | perturbation of a path, its size |
# | $w$, $c$ | $P$, $Q$ | the weights of $\dot\zeta^2$ and $\zeta^2$ in the second variation |
# | $a(t)$, $\nu$, $a$ | $3/t$, $\alpha$ | friction $\nu/t$, constant friction |
# | $t_0$, $\delta$ | $c$, $\epsilon$ | centre and half-width of a triangle |
# | $p$ | $p$ | power of a loss |
# | $\Psi$; $\rho,M,N$; $\Gamma$ | $\psi$; $e^\alpha,e^\beta,e^\gamma$; $F$ | mirror function; scalings; gauge function |
# | $h(t)$, $\chi(t)$, $z$, $E_1$ (local) | not used | curvature along the path, barrier, $\sqrt w\,\zeta$, lowest eigenvalue |
# :::
#
# ## A method, its flow, and their rates
#
# :::{prf:definition} Nesterov's accelerated gradient
# :label: thesis-alg-nag
# From $\theta_0=\theta_{-1}$, with a step size $\eta>0$, for $k=0,1,2,\dots$
#
# $$
# \begin{aligned}
# \bar\theta_k&=\theta_k+\tfrac{k-1}{k+2}(\theta_k-\theta_{k-1}),\\
# \theta_{k+1}&=\bar\theta_k-\eta\nabla\mathcal L(\bar\theta_k).
# \end{aligned}
# $$ (eq-action-nag)
# :::
#
# The method first runs ahead in the direction of its last movement and then takes a gradient step. For a convex loss
# whose gradient is $L$-Lipschitz (*$L$-smooth*) and $\eta\le1/L$, the gap to the minimum is
# $\mathcal L(\theta_k)-\mathcal L^\star\le2\lVert\theta_0-\theta^\star\rVert^2/(\eta(k+1)^2)$ {cite}`nesterov1983method,su2016differential`; gradient
# descent has $1/k$ in the place of $1/k^2$. No method that moves in the span of the gradients it has seen can do better than $1/k^2$
# while $d\ge2k+1$: on one quadratic its gap is at least $3L\lVert\theta_0-\theta^\star\rVert^2/(32(k+1)^2)$ {cite}`nesterov2018lectures`.
#
# With time $t=k\sqrt\eta$ and $\eta\to0$ the method becomes a motion with the friction $3/t$ {cite}`su2016differential`,
#
# $$\ddot\theta+\frac3t\,\dot\theta+\nabla\mathcal L(\theta)=0,$$ (eq-action-flow)
#
# and gradient descent, in the slower time $t=k\eta$, becomes $\dot\theta=-\nabla\mathcal L(\theta)$. The rates survive: the gap is at most
# $2\lVert\theta_0-\theta^\star\rVert^2/t^2$ on the first flow and $\lVert\theta_0-\theta^\star\rVert^2/(2t)$ on the second. For a quadratic loss the first flow is
# known in closed form. A direction of curvature $h$ that starts at rest in $1$ moves as
#
# $$\theta(t)=\frac{2\,\mathrm J_1(\sqrt h\,t)}{\sqrt h\,t},$$ (eq-action-bessel)
#
# where $\mathrm J_1$ is a Bessel function, a damped wave that looks like $\sqrt{2/\pi x}\,\cos(x-\frac{3\pi}4)$ for large $x$. Its first zero
# beyond $0$ is $j_{1,1}=3.8317$; this number will return.


# %%
def nesterov(gradient, theta, eta, steps):
    before, path = theta, [theta]
    for k in range(steps):
        ahead = theta + (k - 1) / (k + 2) * (theta - before)
        before, theta = theta, ahead - eta * gradient(ahead)
        path.append(theta)
    return torch.stack(path)


# %% [markdown]
# Two hundred problems in one dimension, $\mathcal L=\frac h2\theta^2$ with $h$ from $10^{-6}$ to $1$, so $L=1$ and $\eta=1$, for both methods, and both flows in closed form. The constant $2$ is met by another loss, $\lvert\theta\rvert$ (rounded
# within $10^{-4}$ of its minimum for the method): until it arrives, the flow moves as $\theta_0-\frac18t^2$, so $t^2$ times the gap is $2\theta_0^2$ at $t^2=4\theta_0$.

# %%
curvatures = torch.logspace(-6, 0, 200, **like)  # 200 problems in one dimension, L = 1
most = run.pick(smoke=300, book=2000, paper=2000)
accelerated = nesterov(lambda x: curvatures * x, torch.ones(200, **like), 1.0, most)
plain = (1 - curvatures) ** torch.arange(most + 1, **like)[:, None]
bound = 2 / torch.arange(1, most + 2, **like)[:, None] ** 2  # 2 |θ_0 - θ*|² / (k + 1)²
room = {name: 1 - curvatures * x**2 / 2 / bound for name, x in (("nag", accelerated), ("gd", plain))}
steep = nesterov(lambda x: (1e4 * x).clamp(-1, 1), torch.ones(1, **like), 1e-4, most).abs()  # L = 1e4
corner = 1 - torch.where(steep < 1e-4, 5e3 * steep**2, steep - 5e-5) / bound / 1e4

# %%
times = torch.logspace(-1, 3, 300, **like)
each = curvatures[:, None, None], torch.ones(200, 1, **like)


def flow_gap(nu):  # (times, problems), exact
    return curvatures * flows.nesterov_flow_quadratic(*each, times, nu).values[..., 0] ** 2 / 2


gradient_gap = curvatures * torch.exp(-2 * curvatures * times[:, None]) / 2
squared = times[:, None] ** 2
flow_room = torch.cat(
    [(2 - squared * flow_gap(3)).flatten(), (0.5 - times[:, None] * gradient_gap).flatten()]
)
before = torch.linspace(0.01, math.sqrt(8), 1000, **like)  # loss |θ|, until it arrives
corner_room = 2 - before**2 * (1 - before**2 / 8)


# %% [markdown]
# Nesterov's function is a quadratic whose Hessian has three diagonals, so that every step reaches one more coordinate. The best point that $k$ gradients can span is compared with the bound:


# %%
def worst_function(k, steps=None):  # gaps over the bound 3 L |θ_0 - θ*|² / (32 (k + 1)²)
    steps, d = steps or k, 2 * k + 1
    one, side = torch.eye(d, **like), torch.diag(torch.ones(d - 1, **like), 1)
    H, b = (2 * one - side - side.mT) / 4, one[0] / 4
    best = torch.linalg.solve(H, b)
    krylov = torch.stack([torch.linalg.matrix_power(H, i) @ b for i in range(steps)], -1)
    basis = torch.linalg.qr(krylov).Q  # all that so many gradients can span
    optimal = basis @ torch.linalg.solve(basis.mT @ H @ basis, basis.mT @ b)
    descended = best - torch.linalg.matrix_power(one - H, steps) @ best
    ends = optimal, nesterov(lambda x: H @ x - b, 0 * b, 1.0, steps)[-1], descended
    line = 3 * best.norm() ** 2 / (32 * (k + 1) ** 2)
    return torch.stack([(x - best) @ H @ (x - best) / 2 / line for x in ends])


hardest = torch.stack([worst_function(k) for k in (5, 10, 15)])  # optimal, Nesterov, gradient descent

# %% [markdown]
# Each result on this page is checked by a computation, whose outcome stands in a row or a card below it: what was
# measured, what it was allowed to be, and the same number for something wrong, which has to fail. A row such as
# "3 values, worst 4.0 against 3.7 to 4.3. What breaks it: along gradient flow (1.0 at best)" is read in this order; "at
# best" is the wrong number that comes closest to passing.
# {doc}`How claims are checked <../../book/how_claims_are_checked>` explains the rest.

# %% tags=["hide-input"]
kept = ensembles.iterate(
    rules.Nesterov(1.0, rules.nesterov_momentum),
    lambda x, k: curvatures * x,
    torch.ones(200, **like),
    50,
    record=range(51),
    watch=lambda state: state.memory,
)
assert torch.allclose(kept.watched, accelerated[:51])  # the library's memory is θ_k, its θ is the point ahead

ledger.check(
    "thesis:alg-nag",
    "Nesterov's method stays below 2‖θ_0 − θ*‖²/(η(k + 1)²) on 201 problems, at every step",
    measured=torch.cat([room["nag"], corner], -1),
    criterion=inequality("1 − gap · η(k + 1)²/(2‖θ_0 − θ*‖²)"),
    control=control(
        "gradient descent under the same bound; loss |θ| with 1.9 in the place of 2",
        torch.stack([room["gd"].min(), 1 - (1 - corner.min()) * 2 / 1.9]),
    ),
    expected="holds",
)
ledger.check(
    "thesis:claim-ode-rates",
    "The flows keep the rates: t² · gap ≤ 2‖θ_0 − θ*‖² with friction 3/t, t · gap ≤ ‖θ_0 − θ*‖²/2 for gradient flow",
    measured=torch.cat([flow_room, corner_room]),
    criterion=inequality("2 − t² · gap (friction 3/t); 1/2 − t · gap (gradient flow)"),
    control=control(
        "friction 1/t, and gradient flow, under the bound 2/t²; loss |θ| under 1.9/t²",
        torch.stack(
            [(2 - squared * flow_gap(1)).min(), (2 - squared * gradient_gap).min(), corner_room.min() - 0.1]
        ),
    ),
    expected="holds",
)
ledger.check(
    "thesis:claim-lower-bound",
    "On Nesterov's function no method in the span of k gradients beats 3L‖θ_0 − θ*‖²/(32(k + 1)²), k = 5, 10, 15",
    measured=hardest,
    criterion=at_least("gap/bound: best point in the span, Nesterov, gradient descent", 1.0),
    control=control(
        "d = 11 steps in the place of k = 5: the span holds the minimizer", worst_function(5, 11)[0]
    ),
    expected="holds",
)

# %% [markdown]
# ## Stationary
#
# A *Lagrangian* $\Lambda(\theta,\dot\theta,t)$ gives every curve a number.
#
# :::{prf:definition} Action
# :label: thesis-def-action
# For continuously differentiable curves $\vartheta$ on a window $[t_1,t_2]$,
#
# $$\mathcal S[\vartheta]=\int_{t_1}^{t_2}\Lambda(\vartheta,\dot\vartheta,t)\,dt .$$
#
# Two curves are close if positions and velocities are close at all times:
# $\lVert\vartheta\rVert=\max_t\lVert\vartheta(t)\rVert+\max_t\lVert\dot\vartheta(t)\rVert$. A *perturbation* $\zeta$ is a curve that is zero at both ends. The *first variation*
# is the part of $\mathcal S[\vartheta+\varepsilon\zeta]-\mathcal S[\vartheta]$ that is linear in $\varepsilon$. A curve is *stationary* if it is zero for every $\zeta$, and a
# *local minimum* if no close curve with the same ends has a smaller action.
# :::
#
# A local minimum is stationary, for the same reason as in ordinary calculus. Stationary curves solve a differential
# equation, named after Euler and Lagrange ({prf:ref}`thesis-thm-2-2-1`): the slope of the action at time $t$ is
# $\partial_\theta\Lambda-\frac d{dt}\partial_{\dot\theta}\Lambda$, and it has to vanish.
#
# :::{prf:theorem} Nesterov's flow is stationary
# :label: thesis-eq-1
# Let $\mathcal L$ be continuously differentiable and $t_1>0$. The stationary curves of
#
# $$\Lambda=t^3\Bigl(\frac12\lVert\dot\theta\rVert^2-\mathcal L(\theta)\Bigr)$$ (eq-action-lagrangian)
#
# are exactly the solutions of {eq}`eq-action-flow`. With a weight $w(t)>0$ in the place of $t^3$ the friction is $a=\dot w/w$.
# :::
#
# *Why one should expect it.* Without the weight this is the Lagrangian of a ball in a landscape, kinetic minus potential energy,
# and the equation is Newton's. A weight that grows makes what comes later count for more, and the path spends its movement early: that is friction.
#
# *The key step.* The Euler-Lagrange equation is $\frac d{dt}(w\dot\theta)=-w\nabla\mathcal L$. Apply the product rule and divide by $w$.
#
# :::{dropdown} Proof
# 1. The change of the action is $\varepsilon\int w(\dot\theta^\top\dot\zeta-\nabla\mathcal L^\top\zeta)\,dt$, up to terms that are small compared with $\varepsilon$.
# 2. If $\theta$ has two derivatives, integrate by parts; $\zeta$ is zero at the ends. The integral is
#    $-\int\bigl(\frac d{dt}(w\dot\theta)+w\nabla\mathcal L\bigr)^\top\zeta\,dt$. It is zero for every $\zeta$ if and only if the bracket is. (If $\theta$ has one
#    derivative only, integrate the second term instead: $w\dot\theta+\int w\nabla\mathcal L$ is constant, so $w\dot\theta$ has a derivative after all.)
# 3. $\frac d{dt}(w\dot\theta)=w(\ddot\theta+\frac{\dot w}w\dot\theta)$, and $\dot w/w=3/t$ for $w=t^3$. $\square$
# :::
#
# The check takes a loss that is not quadratic, $\ln\cosh(\theta_1+\frac12\theta_2)+\frac18\theta_2^2$, integrates the flow, puts nodes on the path and differentiates
# the action with respect to every node. A path that is stationary for the integral leaves only the error of the nodes, which falls by four when
# they are twice as many.


# %%
def bowl(theta):
    return torch.log(torch.cosh(theta[..., 0] + theta[..., 1] / 2)) + theta[..., 1] ** 2 / 8


def bowl_lagrangian(theta, velocity, t):
    return t**3 * ((velocity**2).sum(-1) / 2 - bowl(theta))


bowl_start = torch.tensor([[2.0, -1.0], [1.0, 1.5], [-0.5, 2.0]], **like)
bowl_gradient = grad(lambda theta: bowl(theta).sum())


def slopes(path, nodes):  # largest slope of the action at a node, relative to the weight
    t = torch.linspace(1, 6, nodes + 1, **like)
    curve = path(t)
    size = first_variation(lambda x, v, s: bowl_lagrangian(x, v, s[:, None]).sum(-1), curve, t)
    return (size / t[1:-1, None, None] ** 3).abs().amax((0, 2))


# %%
def by_momentum(t):
    return flows.momentum_flow(bowl_gradient, bowl_start, t, lambda s: 3 / s, rtol=1e-13, atol=1e-14).values


def by_gradient(t):
    return flows.gradient_flow(lambda x, s: -bowl_gradient(x), bowl_start, t).values


falls = {path: slopes(path, 250) / slopes(path, 500) for path in (by_momentum, by_gradient)}

# %% tags=["hide-input"]
ledger.check(
    "thesis:eq-1",
    "The slope of the action along Nesterov's flow is the error of the nodes: twice the nodes, a quarter of it",
    measured=falls[by_momentum],
    criterion=between("largest slope with 250 nodes / with 500 nodes, three starts", 3.7, 4.3),
    control=control("along gradient flow", falls[by_gradient]),
    expected="holds",
    show="card",
    rtol=1e-3,
)

# %% [markdown]
# **Cite this result** as the anchor `thesis-eq-1` of this page, with the release of the book.
#
# ## Up in some directions, down in others
#
# Zero slope is not least. At a saddle of an ordinary function the slope is zero too, and what decides is the second
# derivative. Perturb the path by $\varepsilon\zeta$ and collect the terms in $\varepsilon^2$: they form the *second variation*
#
# $$
# \begin{aligned}
# \delta^2\mathcal S[\zeta]&=\frac12\int_{t_1}^{t_2}w\,\dot\zeta^2+c\,\zeta^2\,dt,\\
# c&=-w\,h,
# \end{aligned}
# $$ (eq-action-second)
#
# written for one direction, in which $h(t)$ is the curvature of the loss along the path. For several directions
# $h\,\zeta^2$ becomes $\zeta^\top H\zeta$ with the Hessian $H$. If the path is a local minimum, $\delta^2\mathcal S[\zeta]\ge0$ for every $\zeta$: otherwise a
# small multiple of that $\zeta$ would lower the action. The first term always speaks for a minimum, and most for perturbations that
# wiggle fast. The second speaks against it, and most for those that are broad.
#
# **Predict first.** Loss $\theta^2/2$, window from $t_1=1$ to $t_2=11$. Add $\varepsilon\sin(k\pi\frac{t-1}{10})$ to the path. For which of
# $k=1,5,10$ does the action fall?
#
# :::{dropdown} Answer
# For $k=1$ only: $-574\,\varepsilon^2$. The waves with $k=5$ and $k=10$ raise it, by $1374\,\varepsilon^2$ and $8140\,\varepsilon^2$. All three
# parabolas have slope zero at the path.
# :::

# %%
start, end = 1.0, 11.0


def wave(k):
    def curve(t):
        return torch.sin(k * math.pi * (t - start) / (end - start))

    return curve


# %%
def change(zeta, size, base=nesterov_path, until=end, nodes=4000):  # S[base + size ζ] - S[base]
    t = torch.linspace(start, until, nodes + 1, **like)
    value = [action(lagrangian, base(t) + e * zeta(t), t) for e in (size, 0.0)]
    return value[0] - value[1]


def split(zeta, **of):  # the even and the odd part of the change, for ε = 0.1
    up, down = change(zeta, 0.1, **of), change(zeta, -0.1, **of)
    return torch.stack([(up + down) / 2, (up - down) / 2])


parts = torch.stack([split(wave(k)) for k in (1, 5, 10)]) * 100  # per ε²
signs = torch.tensor([-1.0, 1.0, 1.0], **like)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**At Nesterov's path the action is at the top of one parabola and at the bottom of two others.** Change of the action along three perturbations $\\varepsilon\\sin(k\\pi(t-1)/10)$, loss $\\theta^2/2$, window from 1 to 11. What breaks it (dashed): the same $k=1$ on the window from 1 to 4, which is shorter than the limit, raises the action (times 100, to be seen).", "name": "fig-action-saddle"}, "image": {"alt": "Three parabolas through the origin, one opening downwards, two upwards, and a flat dashed one that opens upwards."}}
fig, ax = figures.subplots(size=(6.0, 3.8))
sizes = torch.linspace(-0.3, 0.3, 31, **like)
for k, color in ((1, "vermillion"), (5, "blue"), (10, "green")):
    values = torch.stack([change(wave(k), e) for e in sizes])
    ax.plot(sizes, values, color=figures.COLORS[color], label=f"$k={k}$")
short = torch.stack([change(lambda t: torch.sin(math.pi * (t - 1) / 3), e, until=4.0) for e in sizes])
figures.line_control(ax, sizes, 100 * short, label="window from 1 to 4 (times 100)")
ax.set(xlabel="size $\\varepsilon$ of the perturbation", ylabel="change of the action", ylim=(-120, 420))
ax.legend(fontsize=8.5)
plt.show()

# %% [markdown]
# The path is neither a minimum nor a maximum, it is a saddle in the space of curves. The source draws this as its Figure 2
# without a set-up; window and perturbations are ours.

# %% tags=["hide-input"]
brief = split(lambda t: torch.sin(math.pi * (t - 1) / 3), until=4.0)[0] * 100
of_line = split(wave(5), base=lambda t: 1 - t / 12)
ledger.check(
    "thesis:fig-2",
    "Loss θ²/2, window from 1 to 11: k = 1 lowers the action, k = 5 and 10 raise it",
    measured=parts[:, 0] * signs,
    criterion=at_least("−δ²S for k = 1; δ²S for k = 5 and 10", 100.0, signed=True),
    control=control("k = 1 on the window from 1 to 4, shorter than the limit", -brief),
    expected="reproduced",
    claim="experiment",
)
ledger.check(
    "thesis:def-first-variation",
    "The first variation along Nesterov's path is zero: the changes for ε and −ε are equal",
    measured=(parts[:, 1] / parts[:, 0]).abs(),
    criterion=at_most("|odd part/even part| of the change, ε = 0.1, k = 1, 5, 10", 1e-4),
    control=control("a straight line in the place of the path, k = 5", (of_line[1] / of_line[0]).abs()),
    expected="holds",
    noise=1e-5,
)


def density(s, k):
    angle = k * math.pi * (s - 1) / 10
    return s**3 * ((k * math.pi / 10 * math.cos(angle)) ** 2 - math.sin(angle) ** 2) / 2


exact = torch.tensor([quad(density, 1, 11, args=(k,), limit=200)[0] for k in (1, 5, 10)], **like)
ledger.check(
    "thesis:thm-2.2.2",
    "For a quadratic loss the change of the action is ε² δ²S, with δ²S of both signs on a long window",
    measured=(parts[:, 0] / exact - 1).abs(),
    criterion=at_most("|change/(ε² δ²S) − 1|, δ²S by quadrature, 4000 nodes", 1e-5),
    control=control("δ²S without the factor 1/2", (parts[:, 0] / (2 * exact) - 1).abs()),
    expected="holds",
)

# %% [markdown]
# ## When does a minimum turn into a saddle?
#
# Look for the perturbation that is the first to lower the action. At the moment of change it is itself stationary for
# $\delta^2\mathcal S$, so it solves the Euler-Lagrange equation of $\delta^2\mathcal S$, which is called *Jacobi's equation*:
#
# $$
# \begin{aligned}
# \frac d{dt}(w\,\dot\zeta)&=c\,\zeta,\qquad\text{that is,}\\
# \ddot\zeta+a\,\dot\zeta+h\,\zeta&=0.
# \end{aligned}
# $$ (eq-action-jacobi)
#
# For a quadratic loss, where $h$ is constant, this is the equation of the path itself. Its solutions are the *Jacobi fields*.
#
# :::{prf:definition} Conjugate time
# :label: thesis-def-conjugate-point
# A time $t_c>t_1$ is *conjugate* to $t_1$ if some solution of {eq}`eq-action-jacobi` other than zero vanishes at $t_1$ and at $t_c$.
# :::
#
# :::{prf:theorem} Jacobi's condition
# :label: thesis-thm-2-2-4
# Let the path be stationary and $w>0$ on $[t_1,t_2]$.
#
# (i) *Necessary.* If it is a local minimum, no time in $(t_1,t_2)$ is conjugate to $t_1$.
#
# (ii) *Sufficient.* If no time in $(t_1,t_2]$ is conjugate to $t_1$, it is a local minimum, and for a quadratic loss the only
# curve of least action between its ends.
#
# (iii) *Morse's count.* The number of independent directions in which $\delta^2\mathcal S<0$ is the number of conjugate times in $(t_1,t_2)$
# (with several parameters, each counted as often as there are independent fields that vanish there).
# :::
#
# The source gives (i) and (ii) as one condition on the open window. The two differ only if $t_2$ itself is conjugate to $t_1$; then the path is still a minimum for a quadratic loss, though not the only one.
#
# *Why one should expect it.* Beyond a conjugate time there are two different stationary ways from $t_1$ to $t_c$ with the same second-order cost. Going the
# second way and returning to the path leaves a corner, and cutting the corner saves action.
#
# *The key step.* If $u$ solves Jacobi's equation without a zero in the window, the second variation is a square,
#
# $$\delta^2\mathcal S[\zeta]=\frac12\int_{t_1}^{t_2}w\Bigl(\dot\zeta-\frac{\dot u}u\,\zeta\Bigr)^2dt .$$ (eq-action-square)
#
# :::{dropdown} Proof
# 1. *The square.* Expand it and add $\frac d{dt}\bigl(w\frac{\dot u}u\zeta^2\bigr)$, whose integral is zero. By Jacobi's equation for $u$
#    what remains is $w\dot\zeta^2-wh\zeta^2$.
# 2. *(ii).* If no time in $(t_1,t_2]$ is conjugate to $t_1$, the same holds for a starting time slightly before $t_1$, by continuity. Its field $u$ has no zero in $[t_1,t_2]$, so
#    $\delta^2\mathcal S\ge0$, and zero only if $\dot\zeta=\frac{\dot u}u\zeta$, so that $\zeta$ is a multiple of $u$, which is zero at $t_1$ only if $\zeta=0$. For a quadratic loss
#    $\mathcal S[\theta+\zeta]-\mathcal S[\theta]=\delta^2\mathcal S[\zeta]$. For other losses take $m>0$ so small that no time becomes conjugate if $w-2m$ takes the place of $w$ in front of $\dot\zeta^2$, while the term $wh\zeta^2$ stays. The square for this integral gives $\delta^2\mathcal S\ge m\int\dot\zeta^2$, which outweighs the
#    remainder of third order for perturbations with small velocity.
# 3. *(i).* Let $\zeta$ be the field from $t_1$ up to a conjugate time $t_c<t_2$, and zero from there on. An integration by parts gives $\delta^2\mathcal S[\zeta]=0$. Add $\varepsilon b$ with a
#    bump $b$ around $t_c$: the change is $\varepsilon\,w\dot\zeta(t_c^-)\,b(t_c)+O(\varepsilon^2)$, which is negative for one sign of $\varepsilon$. Round the corner; the change is as small as one likes.
# 4. *(iii).* The fields from $t_1$ to each conjugate time, each continued by zero, span a space on which $\delta^2\mathcal S\le0$, and by step 3 it can be made negative. On its complement the square of step 1,
#    between one conjugate time and the next, shows $\delta^2\mathcal S\ge0$ (Gelfand and Fomin {cite}`gelfand1963calculus`, section 26, for the first conjugate time; Milnor {cite}`milnor1963morse`, section 15, for the count). $\square$
# :::
#
# ### A column that buckles
#
# The weight can be removed. With $z=\sqrt w\,\zeta$ the second variation becomes
#
# $$
# \begin{aligned}
# \delta^2\mathcal S&=\frac12\int_{t_1}^{t_2}\dot z^2-(h-\chi)\,z^2\,dt,\\
# \chi&=\frac{a^2}4+\frac{\dot a}2 ,
# \end{aligned}
# $$ (eq-action-column)
#
# because $\dot\zeta\sqrt w=\dot z-\frac a2z$ and $-az\dot z$ integrates to $\frac{\dot a}2z^2$. This is the energy of an elastic column of length $\Delta$ under
# the load $h-\chi$. A short column stands, a long one buckles; friction carries the part $\chi$ of the load, the *barrier*. For $a=\nu/t$ it is
# $\nu(\nu-2)/(4t^2)$; for constant $a$ it is $a^2/4$. If $h-\chi$ is a constant $q>0$, the column buckles at $\Delta=\pi/\sqrt q$.
#
# *By hand.* Loss $\theta^2$, so $h=2$; constant friction $a=2$, so $\chi=1$ and $q=1$: the path is least on windows up to $\pi$. On the window $[0,2\pi]$ take
# $z=\sin\frac t2$, half a wave:
#
# $$
# \begin{aligned}
# \delta^2\mathcal S&=\frac12\int_0^{2\pi}\tfrac14\cos^2\tfrac t2-\sin^2\tfrac t2\,dt\\
# &=\frac12\Bigl(\frac\pi4-\pi\Bigr)=-\frac{3\pi}8<0 .
# \end{aligned}
# $$
#
# A computer finds the lowest modes of the column from a matrix with three diagonals, and the conjugate times from a differential equation. The two
# are independent, so Morse's count is a check. Among the cases is a path on the loss $\ln\cosh\theta$, whose curvature $h(t)=1/\cosh^2\theta(t)$ changes along the way.


# %%
def swing(t):  # θ'' + θ'/2 + tanh θ = 0 from θ = 2
    return flows.momentum_flow(torch.tanh, torch.tensor(2.0, **like), t, 0.5).values


swing_times = torch.linspace(0, 30, 3001, **like)
swing_curvature = (1 / torch.cosh(swing(swing_times)) ** 2).tolist()


def along_swing(t):  # linear between 3001 values
    k = min(int(100 * t), 2999)
    return swing_curvature[k] + (100 * t - k) * (swing_curvature[k + 1] - swing_curvature[k])


# %% [markdown]
# A case is a friction, a curvature along the path, and a start. The first function counts the modes and the conjugate times; it is called at four shares of the first conjugate time.

# %%
cases = {  # friction, curvature along the path, t_1
    "3/t": (lambda t: 3 / t, 1.0, 1.0),
    "3/t, late": (lambda t: 3 / t, 0.1, 4.0),
    "1/t": (lambda t: 1 / t, 1.0, 0.1),
    "constant": (1.0, 1.0, 0.0),
    "ln cosh": (0.5, along_swing, 0.0),
}


def count(friction, curvature, t1, length):  # directions that lower the action; conjugate times
    def load(t):
        return torch.tensor([curvature(float(s)) if callable(curvature) else curvature for s in t], **like)

    modes = lowest_modes(lambda t: damping_barrier(friction, t) - load(t), t1, length, count=6)
    times = conjugate_points(friction, curvature, t1, t1 + length, rtol=1e-8)
    return int((modes.values < 0).sum()), len(times)


# %%
limits = {  # the first conjugate time, as a distance from t_1
    name: float(conjugate_points(*case, case[2] + 25)[0]) - case[2] for name, case in cases.items()
}
found = torch.tensor(
    [count(*case, share * limits[name]) for name, case in cases.items() for share in (0.99, 1.01, 1.7, 2.3)]
)
free_of_friction = [  # the same without friction, just before the limit
    len(conjugate_points(0.0, 1.0, cases[name][2], cases[name][2] + 0.99 * limits[name]))
    for name in ("3/t", "constant")
]

# %% tags=["hide-input"]
assert found[:4, 0].tolist() == [0, 1, 1, 2]
ledger.check(
    "thesis:thm-2.2.4",
    "At 0.99, 1.01, 1.7 and 2.3 of the limit as many directions lower the action as there are conjugate times, five cases",
    measured=found[:, 0] - found[:, 1],
    criterion=equals("negative modes − conjugate times in the window", 0),
    control=control(
        "conjugate times of the equation without friction, at 0.99 of the limit",
        found[[0, 12], 0] - torch.tensor(free_of_friction),
    ),
    expected="holds",
    show="card",
)

# %% [markdown]
# ## The limit is a zero of a Bessel function
#
# **Predict first.** Friction $2/t$ in the place of $3/t$, $L=1$. How long may the window be if it starts at $t_1=0.01$, and how long if it starts at $t_1=10$?
#
# :::{dropdown} Answer
# Exactly $\pi$ both times: the barrier $\nu(\nu-2)/(4t^2)$ is zero for $\nu=2$.
# :::
#
# :::{prf:theorem} Conjugate times of Nesterov's flow
# :label: thesis-eq-11
# Loss $\frac h2\theta^2$, friction $3/t$, $t_1>0$. The Jacobi fields that vanish at $t_1$ are the multiples of
#
# $$
# \begin{aligned}
# \zeta(t)=\frac1t\bigl[&\mathrm Y_1(\sqrt h\,t)\,\mathrm J_1(\sqrt h\,t_1)\\
# &-\mathrm Y_1(\sqrt h\,t_1)\,\mathrm J_1(\sqrt h\,t)\bigr],
# \end{aligned}
# $$ (eq-action-field)
#
# where $\mathrm Y_1$ is the second solution of Bessel's equation, a wave a quarter of a period behind $\mathrm J_1$. So $t$ is conjugate to $t_1$ if and only if the bracket is zero, whatever the speed with which the field leaves
# $t_1$. There are infinitely many such $t$, and they lie the closer the larger $h$ is.
# :::
#
# *The key step.* With $\zeta=g(\sqrt h\,t)/t$ Jacobi's equation turns into Bessel's equation of order one for $g$.
#
# :::{dropdown} Proof
# 1. $c=-ht^3$ and $w=t^3$, so {eq}`eq-action-jacobi` is $\ddot\zeta+\frac3t\dot\zeta+h\zeta=0$. Insert $\zeta=g(x)/t$ with $x=\sqrt h\,t$: $x^2g''+xg'+(x^2-1)g=0$. Its
#    solutions are spanned by $\mathrm J_1$ and $\mathrm Y_1$; the bracket is the combination that is zero at $t_1$.
# 2. For large $x$, $\mathrm J_1\approx\sqrt{2/\pi x}\cos(x-\frac{3\pi}4)$ and $\mathrm Y_1\approx\sqrt{2/\pi x}\sin(x-\frac{3\pi}4)$, so that the bracket changes sign again and again.
# 3. A larger $h$ makes the load of the column larger, so it buckles earlier (the comparison below). $\square$
# :::
#
# :::{prf:proposition} The limit lies between two numbers
# :label: thesis-beyond-conjugate-law
# For every $t_1>0$ the first conjugate time $t_c$ obeys
#
# $$\pi<\sqrt h\,(t_c-t_1)<j_{1,1}=3.8317\ldots,$$ (eq-action-law)
#
# it decreases in $t_1$ from the right end (as $t_1\to0$) to the left end (as $t_1\to\infty$). For friction $\nu/t$ the right end is the first zero of the Bessel function of
# order $|\nu-1|/2$: with $0<\nu<2$ it lies below $\pi$, for $\nu=2$ both ends are $\pi$.
# :::
#
# :::{dropdown} Proof
# 1. *Sturm's comparison*: if $q_1\ge q_2$, and not equal, the solution of $\ddot z+q_1z=0$ that vanishes at $0$ has its next zero before that of $\ddot z+q_2z=0$. (Multiply each
#    equation by the other solution, subtract and integrate up to the earlier zero.)
# 2. Put $s=t-t_1$. The column has the load $q=h-\frac{\nu(\nu-2)}{4(t_1+s)^2}$. For $\nu>2$ it increases with $t_1$ at every $s$, so the first zero decreases. For $t_1\to\infty$,
#    $q\to h$ and the zero is $\pi/\sqrt h$.
# 3. For $t_1\to0$ the equation is $\ddot z+\bigl(h-\frac{\nu(\nu-2)}{4s^2}\bigr)z=0$, whose solution that vanishes at $0$ most strongly is $\sqrt s\,\mathrm J_m(\sqrt h\,s)$ with $m=|\nu-1|/2$. For $0<\nu<2$ all
#    inequalities turn round. $\square$
# :::


# %%
def field(h, t1, t):  # the bracket of the theorem
    x, x1 = math.sqrt(h) * torch.as_tensor(t, **like), math.sqrt(h) * torch.as_tensor(t1, **like)
    return bessel_y1(x) * bessel_j1(x1) - bessel_y1(x1) * bessel_j1(x)


def bessel_conjugate(h, t1):
    low, high = (t1 + width / math.sqrt(h) for width in (3.0, 4.0))
    return brentq(lambda t: float(field(h, t1, t)), low, high, xtol=1e-13)


# %% [markdown]
# Conjugate times of 14 cases by both ways, and the length of the window for four frictions:

# %%
first_zero = float(jn_zeros(1, 1)[0])  # j_{1,1}
grid = [(h, t1) for h in (0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0) for t1 in (1.0, 4.0)]
from_bessel = torch.tensor([bessel_conjugate(*each) for each in grid], **like)


def from_phase(nu):  # the same from the differential equation
    ends = [conjugate_points(lambda t: nu / t, h, t1, t1 + 5 / math.sqrt(h))[0] for h, t1 in grid]
    return torch.stack(ends)


apart = {nu: (from_phase(nu) - from_bessel).abs() for nu in (1, 3)}

starts = torch.logspace(-3, 2, run.pick(smoke=11, book=41, paper=41), **like)


def window_length(nu, t1):  # L = 1
    return float(conjugate_points(lambda t: nu / t, 1.0, t1, t1 + 6, log_time=True)[0]) - t1


law = {nu: torch.tensor([window_length(nu, float(t1)) for t1 in starts], **like) for nu in (1, 2, 3, 4)}

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**The window is a little longer than $\\pi/\\sqrt L$, never longer than $3.832/\\sqrt L$.** Length of the longest window on which the path makes its action least, in units of $1/\\sqrt L$, against its start, for frictions $\\nu/t$. Horizontal lines: $\\pi$ and $j_{1,1}$. Dots: lengths at which the lowest mode of the column changes its sign. What breaks it (dashed): beyond $\\sqrt{40}$ the source's explicit triangle proves a saddle for every start; everything above the curve of $\\nu=3$ is one.", "name": "fig-action-law"}, "image": {"alt": "Four curves over the logarithm of the start, all ending at pi on the right; to the left the one for nu 1 falls below pi, that for 2 stays, those for 3 and 4 rise to 3.83 and 4.49. A dashed line lies far above."}}
fig, ax = figures.subplots(size=(6.4, 4.0))
for nu, color in ((1, "green"), (2, "black"), (3, "blue"), (4, "purple")):
    ax.semilogx(starts, law[nu], color=figures.COLORS[color], marker="", label=f"$\\nu={nu}$")
dots = torch.tensor([0.01, 0.1, 0.5, 1.0, 3.0, 10.0], **like)
signs_of = [
    brentq(lambda d, s=float(s): float(lowest_modes(lambda t: 0.75 / t**2 - 1, s, d, nodes=4000, count=1).values[0]), 3, 4.2, xtol=1e-5)
    for s in dots
]  # fmt: skip
ax.semilogx(dots, signs_of, "o", color=figures.COLORS["blue"], **every)
for level in (math.pi, first_zero):
    ax.axhline(level, color=figures.COLORS["dark grey"], lw=1, ls=":", marker="")
figures.line_control(ax, starts, torch.full_like(starts, math.sqrt(40)), label="the triangle")
ax.set(xlabel="start of the window $\\sqrt{L}\\,t_1$", ylabel="length of the window $\\sqrt{L}\\,\\Delta$")
ax.legend(fontsize=8.5)
plt.show()

# %% tags=["hide-input"]
figures.numbers(
    run, "window-law", {"start": starts, **{f"nu{nu}": values for nu, values in law.items()}}, noise=1e-7
)

bounds = torch.minimum(law[3] - math.pi, first_zero - law[3])
right_ends = {
    2: math.pi,
    3: first_zero,
    4: brentq(lambda x: math.tan(x) - x, 4.4, 4.6),
}  # zeros of J_1/2, J_1, J_3/2
reached = torch.stack([2e-3 - (law[nu][0] - zero).abs() for nu, zero in right_ends.items()])  # 2 t_1 = 0.002
swapped = torch.stack([2e-3 - (law[nu][0] - right_ends[other]).abs() for nu, other in ((3, 2), (4, 3))])
ledger.check(
    "thesis:eq-11",
    "Zeros of the Bessel bracket are the conjugate times of Jacobi's equation, 14 pairs of curvature and start",
    measured=apart[3],
    criterion=at_most("|t_c from Bessel functions − t_c from the differential equation|", 1e-7),
    control=control("friction 1/t in the differential equation", apart[1]),
    expected="holds",
    show="card",
    noise=1e-8,
)
ledger.check(
    "thesis:beyond-conjugate-law",
    "The limit lies between π and j_{1,1} for every start from 0.001 to 100, falls with the start, and begins at the "
    "Bessel zero of order (ν − 1)/2 for ν = 2, 3, 4",
    measured=torch.cat([bounds, -law[3].diff(), reached]),
    criterion=inequality(
        "√L Δ − π, 3.8317 − √L Δ, its fall from start to start, 2 t_1 − |√L Δ − zero| at t_1 = 0.001"
    ),
    control=control(
        "frictions 1/t and 4/t, at t_1 = 0.001; the zero of order (ν − 2)/2",
        [float(law[1][0]) - math.pi, first_zero - float(law[4][0]), *swapped.tolist()],
    ),
    expected="holds",
    noise=1e-7,
)

# %% [markdown]
# **Cite these results** as the anchors `thesis-eq-11` and `thesis-beyond-conjugate-law` of this page, with the release of the book.
#
# In the source's Figure 3 the fields leave $t_1$ with different speeds and meet again at the conjugate time. Redrawn, with our choice of curvatures:

# %%
speeds = torch.tensor([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0], **like)


def fields(h, t1, friction, until):  # six Jacobi fields from t_1, by integration
    t = torch.linspace(t1, until, 400, **like)
    found = flows.momentum_flow(lambda x: h * x, 0 * speeds, t, friction, start=t1, velocity0=speeds)
    return t, found.values


meeting = {
    (h, t1): fields(h, t1, lambda s: 3 / s, bessel_conjugate(h, t1))
    for t1 in (1.0, 4.0)
    for h in (0.1, 0.5, 1.0, 5.0)
}
missed = {(h, t1): fields(h, t1, 0.0, bessel_conjugate(h, t1)) for h, t1 in meeting}


def at_the_end(of):  # |ζ(t_c)| over the largest |ζ|
    return torch.cat([curves[-1].abs() / curves.abs().amax(0) for t, curves in of.values()])


# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Fields of all speeds meet again at one time, which comes earlier where the loss is more curved.** Six Jacobi fields from $t_1=1$ (left) and $t_1=4$ (right) for four curvatures, scaled to height one; dots: conjugate times from the Bessel functions. What breaks it (dashed): the field without friction, curvature $0.5$, is elsewhere at that time.", "name": "fig-action-fields"}, "image": {"alt": "Two panels. In each, lens-shaped bundles of curves leave a common point and meet again at dots that lie further left for larger curvature."}}
fig, axes = figures.subplots(1, 2, size=(8.6, 3.6))
for ax, t1 in zip(axes, (1.0, 4.0), strict=True):
    for h, color in ((0.1, "purple"), (0.5, "green"), (1.0, "blue"), (5.0, "vermillion")):
        t, curves = meeting[h, t1]
        scale = curves.abs().max()
        ax.plot(t, curves / scale, color=figures.COLORS[color], marker="", lw=1)
        ax.plot(t[-1], 0, "o", color=figures.COLORS[color], label=f"$h={h:g}$", **every)
    t, curves = missed[0.5, t1]
    figures.line_control(ax, t, curves[:, -1] / curves.abs().max(), label="no friction")
    ax.set(xlabel="time $t$", ylabel="$\\zeta(t)$, scaled", title=f"$t_1={t1:g}$")
axes[0].legend(fontsize=8)
plt.show()

# %% tags=["hide-input"]
ledger.check(
    "thesis:fig-3",
    "Six Jacobi fields of different speed meet at the conjugate time, four curvatures, t_1 = 1 and 4",
    measured=at_the_end(meeting),
    criterion=at_most("|ζ(t_c)|/max |ζ|", 1e-6),
    control=control("fields without friction", at_the_end(missed)),
    expected="reproduced",
    claim="experiment",
    noise=1e-8,
)
figures.comparison(
    [
        (
            f"conjugate time, t₁ = {t1:g}, curvature {h:g}",
            "earlier for larger curvature",
            bessel_conjugate(h, t1),
            None if h == 0.1 else bool(bessel_conjugate(h, t1) < bessel_conjugate(g, t1)),
        )
        for t1 in (1.0, 4.0)
        for g, h in ((0.1, 0.1), (0.1, 0.5), (0.5, 1.0), (1.0, 5.0))
    ],
    "the conjugate time is earlier than for the curvature before",
    run=run,
    name="tab-conjugate-times",
)

# %% [markdown]
# The column can be tried out. Move the start, the length and the friction; the curve is the perturbation that lowers the action most, or raises it least.
#
# <div class="ld-widget" data-widget="buckling-window"></div>

# %%
START, LENGTH = 1.0, 3.6  # the start state of the moving part: friction 3/t, L = 1
column = lowest_modes(lambda t: damping_barrier(lambda s: 3 / s, t) - 1, START, LENGTH)
shape = column.modes[0] / column.modes[0].abs().max()

# %% tags=["hide-input", "static-twin"] mystnb={"figure": {"caption": "**Just beyond the limit the column buckles in one broad arch.** Left: the longest window for friction $3/t$, $L=1$, and a window of length $3.6$ from $t_1=1$ (dot) that is a little too long. Right: its lowest mode, scaled to height one. What breaks it (dashed): the second mode still raises the action.", "name": "fig-action-column"}, "image": {"alt": "Left: a falling curve with a dot just above it. Right: one arch, and a dashed curve with two arches."}}
fig, (left, right) = figures.subplots(1, 2, size=(8.6, 3.6))
left.semilogx(starts, law[3], color=figures.COLORS["blue"], marker="")
left.plot(START, LENGTH, "o", color=figures.COLORS["vermillion"], **every)
left.set(xlabel="start $\\sqrt{L}\\,t_1$", ylabel="length $\\sqrt{L}\\,\\Delta$", ylim=(2.9, 4.1))
right.plot(
    column.times,
    shape,
    color=figures.COLORS["vermillion"],
    marker="",
    label=f"$E_1={float(column.values[0]):.3f}$",
)
second = column.modes[1] / column.modes[1].abs().max()
figures.line_control(right, column.times, second, label=f"$E_2={float(column.values[1]):.2f}$")
right.set(xlabel="time $t$", ylabel="mode $z(t)$, scaled")
right.legend(fontsize=8.5)
plt.show()

# %% [markdown]
# ### Many directions: the sharpest one decides
#
# :::{prf:theorem} Least on short windows
# :label: thesis-thm-2-2-5
# Let the loss be a convex quadratic with largest curvature $L>0$, and let $\theta$ solve {eq}`eq-action-flow`. For $0<t_1<t_2$ the path makes the action least among all
# curves with the same ends if $t_2$ is smaller than the first time conjugate to $t_1$ for $h=L$. This window shrinks like $1/\sqrt L$.
# :::
#
# :::{prf:corollary} A saddle on long ones
# :label: thesis-cor-2-2-1
# If $t_2$ is larger than that time, the path is a saddle: some perturbations lower the action, others raise it.
# :::
#
# *Why one should expect it.* In the basis of the Hessian's eigenvectors the action is a sum, one term for each direction. A sum is least only if each term is.
#
# *The key step.* The most curved direction has the earliest conjugate time, since its column carries the largest load. And no window makes the path a maximum, because a perturbation that wiggles fast enough
# always raises the action.
#
# :::{dropdown} Proof
# 1. Rotate to the eigenbasis of $H$; lengths do not change, so $\mathcal S=\sum_i\mathcal S_i$ with curvatures $\lambda_i(H)\le L$, and the ends are fixed in each coordinate.
# 2. Before the first conjugate time for $L$ there is none for any smaller curvature (Sturm's comparison). By {prf:ref}`thesis-thm-2-2-4` (ii) each $\mathcal S_i$ is least at the path.
# 3. After it $\mathcal S_1$ falls along some $\zeta$ in the sharpest direction, by (i) and since $\mathcal S$ is quadratic. Along $\zeta=\sin(k\pi(t-t_1)/\Delta)$, $\int w\dot\zeta^2$ grows like
#    $k^2$ while $\int wh\zeta^2$ stays bounded, so the action rises for large $k$. $\square$
# :::
#
# The check forgets the eigenbasis: it takes random Hessians in four dimensions, puts 100 nodes on the window and computes all second derivatives of the action.


# %%
def quadratic_action(H):
    def of(theta, velocity, t):
        return t[:, 0] ** 3 * ((velocity**2).sum(-1) - (theta * (theta @ H)).sum(-1)) / 2

    return lambda curve, t: action(lambda x, v, s: of(x, v, s[:, None]), curve, t)


def spectrum(H, length, t1=1.0, nodes=100):  # eigenvalues of the second variation, in z = √w ζ
    t = torch.linspace(t1, t1 + length, nodes + 1, **like)
    inner = torch.zeros(nodes - 1, len(H), **like)
    second = hessian(lambda x: quadratic_action(H)(pad(x, (0, 0, 1, 1)), t))(inner)
    scale = (t[1:-1] ** 1.5 * (length / nodes) ** 0.5).repeat_interleave(len(H))
    return torch.linalg.eigvalsh(second.reshape(len(scale), -1) / scale / scale[:, None])


# %% tags=["hide-input"]
source = run.generator("hessians")
hessians = []
for _ in range(run.pick(smoke=2, book=6, paper=6)):
    Q = torch.linalg.qr(torch.randn(4, 4, generator=source, **like)).Q
    values = torch.cat([torch.tensor([1.0, 0.6], **like), 0.6 * torch.rand(2, generator=source, **like)])
    hessians.append(Q * values @ Q.mT)
ends = {
    share: torch.stack([spectrum(H, share * window)[[0, -1]] for H in hessians])
    for share in (0.5, 0.97, 1.03, 2.0)
}
second_sharpest = bessel_conjugate(0.6, 1.0) - 1
too_long = torch.stack([spectrum(H, 0.97 * second_sharpest)[0] for H in hessians])

ledger.check(
    "thesis:thm-2.2.5",
    "Random convex quadratics in four dimensions: at 0.5 and 0.97 of the limit for the largest curvature every perturbation raises the action",
    measured=torch.cat([ends[0.5][:, 0], ends[0.97][:, 0]]),
    criterion=at_least("lowest eigenvalue of the second variation / L", 1e-3, signed=True),
    control=control("0.97 of the limit for the second largest curvature", too_long),
    expected="holds",
    show="card",
    noise=1e-9,
)
ledger.check(
    "thesis:cor-2.2.1",
    "At 1.03 and 2 times the limit some perturbations lower the action and others raise it",
    measured=torch.cat([ends[s][:, i] * sign for s in (1.03, 2.0) for i, sign in ((0, -1), (1, 1))]),
    criterion=at_least("−lowest and highest eigenvalue of the second variation / L", 1e-3, signed=True),
    control=control("−lowest eigenvalue at 0.97 of the limit", -ends[0.97][:, 0]),
    expected="holds",
    noise=1e-9,
)

# %% [markdown]
# ## An explicit perturbation that lowers the action
#
# The conjugate times say that something lowers the action, the source also shows what: a triangle.
#
# :::{prf:definition} Triangle
# :label: thesis-eq-18
# $\zeta(t)=1-\lvert t-t_0\rvert/\delta$ for $\lvert t-t_0\rvert<\delta$, and zero elsewhere, with $0<\delta<t_0$. (Its corners can be rounded at no cost that matters.) For the loss
# $\frac h2\theta^2$ and the friction $3/t$
#
# $$
# \begin{aligned}
# \delta^2\mathcal S[\zeta]=-\frac{t_0}{3\delta}\Bigl(&\tfrac3{10}h\,\delta^4-3t_0^2\\
# &+(h\,t_0^2-3)\,\delta^2\Bigr).
# \end{aligned}
# $$ (eq-action-triangle)
# :::
#
# The bracket is a parabola in $\delta^2$ and negative at $\delta=0$, so it changes its sign once, at $\delta_\star$ with
#
# $$
# \begin{aligned}
# \delta_\star^2&=\frac{15-5u+\sqrt{25u^2-60u+225}}{3h},\\
# u&=h\,t_0^2 .
# \end{aligned}
# $$ (eq-action-width)
#
# Narrow triangles raise the action, triangles wider than $\delta_\star$ lower it. As a function of $u$, $h\,\delta_\star^2$ decreases from $10$ to $3$.
#
# :::{prf:proposition} A window that is always too long
# :label: thesis-prop-2-2-1
# If $t_2-t_1>\sqrt{40/L}$, the second variation of Nesterov's action on a convex quadratic with largest curvature $L$ takes both signs, for every $t_1>0$.
# :::
#
# *The key step.* The triangle around the middle of the window with $\delta=\frac12\sqrt{40/L}=\sqrt{10/L}$ fits, and $\delta>\delta_\star$.
#
# :::{dropdown} Proof
# 1. *The formula.* With $s=t-t_0$, $\int t^3\dot\zeta^2=\frac1{\delta^2}\int_{-\delta}^\delta(t_0+s)^3ds=\frac{2t_0^3}\delta+2t_0\delta$ and
#    $\int t^3\zeta^2=\int_{-\delta}^{\delta}(t_0^3+3t_0s^2)(1-\frac{\lvert s\rvert}\delta)^2ds$, which is $\frac{2t_0^3\delta}3+\frac{t_0\delta^3}5$. Half the first minus $\frac h2$ times the second is {eq}`eq-action-triangle`.
# 2. *The zero.* Solve the quadratic equation in $\delta^2$; the other root is negative. $h\,\delta_\star^2$ at $u=0$ is $(15+15)/3=10$. It decreases: its derivative in $u$ is $\frac13\bigl(\frac{25u-30}{\sqrt{25u^2-60u+225}}-5\bigr)<0$, since
#    $(25u-30)^2<25(25u^2-60u+225)$.
# 3. Choose the sharpest eigenvector as direction. The window is longer than $2\sqrt{10/L}$, so the triangle around its middle fits and is wider than $2\delta_\star$; it lowers the action. A narrow one raises it. $\square$
# :::
#
# The bound is sufficient and not sharp. Since $t_0>\delta$, the bracket of {eq}`eq-action-triangle` is at least $1.3\,h\,\delta^4-6\,\delta^2$ as soon as $h\delta^2>3$, so the very same triangle proves it from $2\sqrt{6/1.3}=4.297$ on, in units of $1/\sqrt L$.
# By {eq}`eq-action-law` the true limit is below $3.832$ for every start.


# %%
def triangle_formula(h, t0, delta):
    return -t0 / (3 * delta) * (0.3 * h * delta**4 + (h * t0**2 - 3) * delta**2 - 3 * t0**2)


def triangle_integral(h, t0, delta):  # ½ ∫ t³ (ζ̇² - h ζ²) by quadrature, each side by itself
    def density(t):
        return t**3 * (1 / delta**2 - h * (1 - abs(t - t0) / delta) ** 2) / 2

    return quad(density, t0 - delta, t0)[0] + quad(density, t0, t0 + delta)[0]


def widest(h, t0):  # where the integral changes its sign
    return brentq(lambda delta: triangle_integral(h, t0, delta), 0.5, t0, xtol=1e-13)


def width_formula(h, t0, sign=-1.0):
    u = h * t0**2
    return math.sqrt((15 - 5 * u + math.sqrt(25 * u**2 + sign * 60 * u + 225)) / (3 * h))


# %%
triangles = [(1.0, 3.0, 2.0), (2.0, 5.0, 1.5), (0.3, 6.0, 5.0)]
by_quadrature = torch.tensor([triangle_integral(*each) for each in triangles], **like)
by_formula = torch.tensor([triangle_formula(*each) for each in triangles], **like)
flipped = by_formula - torch.tensor([2 * t0 * delta for h, t0, delta in triangles], **like)  # + 3 for - 3
centres = (2.5, 4.0, 8.0, 16.0)
measured_widths = torch.tensor([widest(1.0, t0) for t0 in centres], **like)
widths = torch.tensor([[width_formula(1.0, t0, sign) for t0 in centres] for sign in (-1.0, 1.0)], **like)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Wide triangles lower the action; how wide they must be lies between $\\sqrt3$ and $\\sqrt{10}$.** Second variation along triangles of height one and half-width $\\delta$, {eq}`eq-action-triangle`, divided by $t_0^3$, for $h=1$ and four centres; dots: zeros found from the integral. What breaks it (dashed): a triangle with a centre at $t_0=1$ would have to be wider than its centre allows, $\\delta<t_0$, to lower the action.", "name": "fig-action-triangle"}, "image": {"alt": "Four falling curves that cross zero between 1.7 and 2.1, and a dashed curve that ends above zero at one."}}
fig, ax = figures.subplots(size=(6.0, 3.8))
for t0, color in zip(centres, ("green", "blue", "purple", "vermillion"), strict=True):
    delta = torch.linspace(0.6, min(t0, 3.5), 200, **like)
    ax.plot(
        delta,
        triangle_formula(1.0, t0, delta) / t0**3,
        color=figures.COLORS[color],
        marker="",
        label=f"$t_0={t0:g}$",
    )
    ax.plot(widest(1.0, t0), 0, "o", color=figures.COLORS[color], **every)
delta = torch.linspace(0.6, 1.0, 50, **like)
figures.line_control(ax, delta, triangle_formula(1.0, 1.0, delta), label="$t_0=1$")
ax.axhline(0, color=figures.COLORS["dark grey"], lw=1, marker="")
for edge in (math.sqrt(3), math.sqrt(10)):
    ax.axvline(edge, color=figures.COLORS["dark grey"], lw=1, ls=":", marker="")
ax.set(xlabel="half-width $\\delta$", ylabel="$\\delta^2\\mathcal{S}/t_0^3$")
ax.legend(fontsize=8.5)
plt.show()

# %% tags=["hide-input"]
pairs = [(h, t1) for h in (0.05, 1.0, 20.0) for t1 in (0.001, 0.1, 1.0, 5.0, 20.0)]


def lowest_over_curvature(length):  # of the second variation, on windows of this length · 1/√L
    def one(h, t1):
        modes = lowest_modes(lambda t: 0.75 / t**2 - h, t1, length / math.sqrt(h), nodes=1000, count=1)
        return float(modes.values[0]) / h

    return torch.tensor([one(h, t1) for h, t1 in pairs], **like)


def middle_triangle(length):  # sign of δ²S of the widest triangle in the window, scaled
    half = [0.9999 * length / 2 / math.sqrt(h) for h, t1 in pairs]
    values = [triangle_formula(h, t1 + d / 0.9999, d) for (h, t1), d in zip(pairs, half, strict=True)]
    return torch.tensor(
        [v * d / (t1 + d) ** 3 for v, d, (h, t1) in zip(values, half, pairs, strict=True)], **like
    )


beyond, too_short = 1.001 * math.sqrt(40), 0.99 * 2 * math.sqrt(6 / 1.3)
wide_enough = torch.tensor([width_formula(1.0, 10 ** (i / 20)) ** 2 for i in range(-60, 41)], **like)
saddles = torch.cat([-lowest_over_curvature(beyond), -middle_triangle(beyond), 10 - wide_enough])
assert torch.allclose(by_formula, torch.tensor([-0.9, -37.541667, -57.3], **like))
ledger.check(
    "thesis:eq-18",
    "The second variation along a triangle, by quadrature and by formula, three triangles",
    measured=by_quadrature / by_formula - 1,
    criterion=identity("integral/formula − 1", condition=100.0),
    control=control("+3 in the place of −3 in the formula", by_quadrature / flipped - 1),
    expected="holds",
)
ledger.check(
    "thesis:fig-5",
    "The second variation along triangles changes its sign at δ_{*}, between √3 and √10, for four centres",
    measured=measured_widths - widths[0],
    criterion=at_most("|zero of the integral − δ_{*} of the formula|", 1e-9, signed=True),
    control=control("+60u in the place of −60u", (measured_widths - widths[1]).abs()),
    expected="reproduced",
    claim="experiment",
    noise=1e-10,
)
assert (math.sqrt(3) < measured_widths).all() and (measured_widths < math.sqrt(10)).all()
ledger.check(
    "thesis:prop-2.2.1",
    "On a window 1.001 √(40/L) the action has a direction down, for 15 pairs of curvature and start; a triangle is one, "
    "since L δ_{*}² < 40/4",
    measured=saddles,
    criterion=inequality("−lowest eigenvalue/L; −δ²S of the triangle in the middle, scaled; 10 − L δ_{*}²"),
    control=control(
        "a window of 0.99 π/√L; the triangle in a window of 4.25/√L, earliest start; 39.9 in the place of 40",
        [
            float((-lowest_over_curvature(0.99 * math.pi)).max()),
            float((-middle_triangle(too_short)).min()),
            39.9 / 4 - float(wide_enough.max()),
        ],
    ),
    expected="holds",
    show="card",
)

# %% [markdown]
# A direction in which a quadratic function falls is a direction in which it falls for ever. Beyond the limit there is no better curve that one might look for:
#
# :::{prf:proposition} No least action on long windows
# :label: thesis-prop-2-2-2
# Convex quadratic loss, any two end points. The action of curves between them is unbounded above, and on windows longer than $\sqrt{40/L}$ unbounded below.
# :::
#
# :::{dropdown} Proof
# Take any curve $\vartheta$ between the points and a perturbation $\zeta$. $\mathcal S[\vartheta+\varepsilon\zeta]=\mathcal S[\vartheta]+\varepsilon\,b+\varepsilon^2\,\delta^2\mathcal S[\zeta]$ with some number $b$. The square wins over the linear term.
# Choose $\zeta$ with $\delta^2\mathcal S>0$ or, by {prf:ref}`thesis-prop-2-2-1`, with $\delta^2\mathcal S<0$. $\square$
# :::
#
# ### Two ways out that lead nowhere
#
# *Stop at the minimizer.* In one dimension, from rest at time $0$, the path is itself a Jacobi field that starts with $t_1\to0$. So it reaches the minimizer for the first time exactly when its window ends, at $t=j_{1,1}/\sqrt h$, and up to
# there it is least. In two dimensions with different curvatures the coordinates cross zero at different times, $j_{1,k}/\sqrt{\lambda_i(H)}$. The path misses the minimizer, unless the ratio of the curvatures is the square of a ratio of two zeros (such as $(j_{1,1}/j_{1,2})^2=0.298$, to which the $0.3$ of the figure is close). Even then, by the time the slower coordinate arrives, the window of the
# faster one is over.
#
# *Free the end point.* Perhaps the path is least among curves that end anywhere near the minimizer? It would then be least among those with its own end, which the corollary forbids. It is not even stationary: along $\zeta=(t-t_1)/\Delta$, which moves the end, the action has the slope
# $t_2^3\,\dot\theta(t_2)$. It is zero only at moments when the path stands still.


# %%
pairs_2d = {"1 and 0.3": (1.0, 0.3), "1 and 0.1": (1.0, 0.1), "1 and 1": (1.0, 1.0)}
clock = torch.linspace(0.01, 50, 5000, **like)
plane = {
    name: flows.nesterov_flow_quadratic(
        torch.diag(torch.tensor(h, **like)), torch.ones(2, **like), clock
    ).values
    for name, h in pairs_2d.items()
}
wide = clock.clamp(min=1) ** 1.5  # the path shrinks like t^(-3/2); this undoes it
nearest = {name: (wide * path.norm(dim=-1)).min() for name, path in plane.items()}


# %%
def path_velocity(t):  # of 2 J_1(t)/t
    return 2 * (bessel_j0(t) - 2 * bessel_j1(t) / t) / t


def end_slope(length, zeta, nodes=4000):  # dS/dε along ζ, by differentiating the action
    t = torch.linspace(1, 1 + length, nodes + 1, **like)
    path, move = nesterov_path(t), zeta((t - 1) / length)
    return grad(lambda e: action(lagrangian, path + e * move, t))(torch.tensor(0.0, **like))


lengths = torch.tensor([1.0, 2.0, 6.0], **like)
predicted = (1 + lengths) ** 3 * path_velocity(1 + lengths)
free = torch.stack([end_slope(float(length), lambda s: s) for length in lengths])
fixed = torch.stack([end_slope(float(length), lambda s: s * (1 - s)) for length in lengths])

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**With unequal curvatures the path misses the minimizer.** Nesterov's flow from $(1,1)$ at rest, $t\\le50$, for two pairs of curvatures; dots: where a coordinate crosses zero for the first time. The path shrinks like $t^{-3/2}$, so the check takes $t^{3/2}\\lVert\\theta\\rVert$ at times $0.01$ apart; after a hit the smallest of these values would be at most $0.005$ times the scaled speed $2\\sqrt{2/\\pi}\\,(1+h_2^{-1/2})^{1/2}\\le3.26$, curvatures $1$ and $h_2\\ge0.1$. What breaks it (dashed): equal curvatures; the path runs back and forth on a line through the minimizer.", "name": "fig-action-plane"}, "image": {"alt": "Two panels with curves that wind around the origin without meeting it, and a dashed diagonal line through the origin."}}
fig, axes = figures.subplots(1, 2, size=(8.6, 4.2))
for ax, name in zip(axes, ("1 and 0.3", "1 and 0.1"), strict=True):
    path = plane[name]
    ax.plot(path[:, 0], path[:, 1], color=figures.COLORS["blue"], marker="", lw=1.2)
    for i in range(2):
        k = int((path[:, i] < 0).nonzero()[0])
        ax.plot(*path[k], "o", color=figures.COLORS["vermillion"], **every)
    figures.line_control(ax, *plane["1 and 1"].T, label="equal curvatures")
    ax.set(xlabel="$\\theta_1$", ylabel="$\\theta_2$", title=f"curvatures {name}", aspect="equal")
axes[0].legend(fontsize=8)
plt.show()

# %% tags=["hide-input"]
early = 1e-6  # t_1 -> 0
first_conjugate = torch.stack(
    [
        conjugate_points(lambda t: 3 / t, h, early, 5 / math.sqrt(h), log_time=True)[0] * math.sqrt(h)
        for h in (0.3, 1.0, 7.0)
    ]
)
fine = {
    h: nesterov(
        lambda x, h=h: h * x, torch.ones(1, **like), 1e-6, run.pick(smoke=8000, book=8000, paper=8000)
    )
    for h in (0.3, 1.0, 7.0)
}
hits = torch.tensor(
    [float((path[:, 0] < 0).nonzero()[0]) * 1e-3 * math.sqrt(h) for h, path in fine.items()], **like
)
slower = first_zero / math.sqrt(0.3) - first_zero  # when the second coordinate arrives

ledger.check(
    "thesis:fig-4",
    "Two unequal curvatures: up to t = 50 the path keeps away from the minimizer",
    measured=torch.stack([nearest["1 and 0.3"], nearest["1 and 0.1"]]),
    criterion=at_least("min max(1, t)^1.5 ‖θ(t)‖ at 5000 times (a hit: below 0.0165)", 0.0165),
    control=control("equal curvatures", nearest["1 and 1"]),
    expected="reproduced",
    claim="experiment",
)
ledger.check(
    "thesis:claim-hitting-time",
    "In one dimension the method (η = 1e-6) hits the minimizer at the first conjugate time of t_1 → 0, three curvatures",
    measured=(hits - first_conjugate).abs(),
    criterion=at_most("√h |hitting time − conjugate time|", 0.01),
    control=control("two dimensions, curvatures 1 and 0.3: when the second coordinate arrives", slower),
    expected="holds",
    noise=1e-6,
)

# %% tags=["hide-input"]
assert torch.allclose(free, torch.tensor([-2.8227, -8.7496, 29.539], **like), rtol=1e-3)
ledger.check(
    "thesis:claim-free-endpoint",
    "With a free end the path is not even stationary: the slope of the action is t_2³ θ̇(t_2)",
    measured=(free / predicted - 1).abs(),
    criterion=at_most("|slope/(t_2³ θ̇(t_2)) − 1|, windows of length 1, 2, 6, 4000 nodes", 1e-4),
    control=control("a perturbation that keeps the end fixed", (fixed / predicted - 1).abs()),
    expected="holds",
    noise=1e-6,
)

rising = torch.linspace(1, 11, 2001, **like)
broad, narrow = (pad(1 - ((rising[1:-1] - 6) / d).abs(), (1, 1)).clamp(min=0) for d in (4.9, 0.5))
line = 3 - 0.4 * rising  # an arbitrary curve between arbitrary points


def per_square(zeta, size, t=rising, base=line):
    return action(lagrangian, base + size * zeta, t) / size**2


brief_t = torch.linspace(1, 1 + 0.95 * math.pi, 2001, **like)
brief_triangle = (1 - ((brief_t - brief_t.mean()) / (0.475 * math.pi)).abs()).clamp(min=0)
ledger.check(
    "thesis:prop-2.2.2",
    "Around an arbitrary curve the action goes to −∞ along a broad triangle and to +∞ along a narrow one",
    measured=torch.stack(
        [
            sign * per_square(zeta, size)
            for sign, zeta in ((-1, broad), (1, narrow))
            for size in (1e3, 1e4, 1e5)
        ]
    ),
    criterion=at_least("−S/ε² (broad) and S/ε² (narrow), ε = 1e3, 1e4, 1e5", 1.0, signed=True),
    control=control(
        "a broad triangle on a window of 0.95 π", -per_square(brief_triangle, 1e5, brief_t, 0 * brief_t)
    ),
    expected="holds",
)

# %% [markdown]
# ## Constant friction: always least, never fast
#
# For strongly convex losses, with smallest curvature $\mu>0$, momentum is usually constant. The flow is then $\ddot\theta+a\dot\theta+\nabla\mathcal L=0$, and it is fast for $a=2\sqrt\mu$: the gap shrinks at a rate proportional to $\sqrt\mu$,
# where gradient flow has $\mu$. The weight is $w=e^{at}$,
#
# $$\Lambda=e^{at}\Bigl(\frac12\lVert\dot\theta\rVert^2-\mathcal L(\theta)\Bigr),$$ (eq-action-constant)
#
# and the column carries the constant load $h-\frac{a^2}4$. It buckles when its length exceeds $\pi/\sqrt{h-a^2/4}$, and never if $a\ge2\sqrt h$.
#
# :::{prf:theorem} Heavy friction is least, accelerating friction is not
# :label: thesis-thm-2-2-6
# Let the loss be a strongly convex quadratic with curvatures from $\mu$ to $L$.
#
# (i) If $a\ge2\sqrt L$, the path makes the action least on every window.
#
# (ii) If $a<2\sqrt L$, it does so on windows of length $\Delta\le\dfrac{2\pi}{\sqrt{4L-a^2}}$, and on longer ones it is a saddle.
# :::
#
# *The key step.* Half a sine wave is the lowest mode of a column with a constant load, so the lowest eigenvalue of the second variation is
#
# $$E_1=\frac{a^2}4-L+\frac{\pi^2}{\Delta^2}.$$ (eq-action-lowest)
#
# :::{dropdown} Proof
# 1. In each eigendirection $\chi=a^2/4$. On curves that vanish at both ends, $\int\dot z^2\ge\frac{\pi^2}{\Delta^2}\int z^2$ with equality for $z=\sin(\pi(t-t_1)/\Delta)$. So $\delta^2\mathcal S\ge\frac12(\frac{a^2}4-h+\frac{\pi^2}{\Delta^2})\int z^2$,
#    with equality for one $z$. The smallest of these is the one of $h=L$.
# 2. It is positive on every window if $a\ge2\sqrt L$, and otherwise exactly if $\Delta<\pi/\sqrt{L-a^2/4}$. At equality it is zero: the path is a minimum there, but not the only one.
# 3. For longer windows this $z$ lowers the action, and fast waves raise it. $\square$
# :::
#
# *Why this is no praise.* With differences of time step $\sqrt\eta$ in the place of derivatives, friction $a$ is the momentum $\beta_1=1-a\sqrt\eta$. At $\eta=1/L$ the condition $a\ge2\sqrt L$ reads $\beta_1\le-1$: there is no such heavy ball. Where smaller steps allow it, the method does not accelerate, as the experiment below shows.


# %%
def column_constant(a, h, length, nodes=4000):
    return float(
        lowest_modes(lambda t: torch.full_like(t, a**2 / 4 - h), 0.0, length, nodes=nodes, count=1).values[0]
    )


# %%
def longest(a, h):
    return 2 * math.pi / math.sqrt(4 * h - a**2)


heavy = torch.tensor(
    [column_constant(a, 1.0, length) for a in (2.0, 3.0) for length in (5.0, 20.0, 60.0)], **like
)
light = [(a, h) for a in (0.2, 1.0, 1.99) for h in (0.3, 1.0) if a < 2 * math.sqrt(h)]
around = torch.tensor(
    [
        sign * column_constant(a, h, share * longest(a, h))
        for a, h in light
        for share, sign in ((0.99, 1), (1.01, -1))
    ],
    **like,
)

# %% tags=["hide-input"]
closest = column_constant(0.2, 1.0, 0.99 * 2 * math.pi / math.sqrt(4 - 0.2))  # a in the place of a²

ledger.check(
    "thesis:thm-2.2.6",
    "Least on every window tried if a ≥ 2√L; else up to 2π/√(4L − a²): signs at 0.99 and 1.01 of it",
    measured=torch.cat([heavy, around]),
    criterion=inequality(
        "E_1 for a = 2 and 3; E_1 at 0.99 and −E_1 at 1.01 of the limit for lighter friction"
    ),
    control=control(
        "a = 1.99 on a window of 40; a in the place of a² in the limit",
        [column_constant(1.99, 1.0, 40.0), closest],
    ),
    expected="holds",
    show="card",
    noise=1e-6,
)


# %%
def jacobi_constant(a, h, t):  # t_1 = 0, unit speed
    half = math.sqrt(abs(4 * h - a**2)) / 2
    turn = t if half == 0 else (torch.sinh(half * t) if a**2 > 4 * h else torch.sin(half * t)) / half
    return torch.exp(-a * t / 2) * turn


# %% [markdown]
# :::{dropdown} Jacobi fields and sine perturbations in closed form
# The theorem follows again from the Jacobi fields that vanish at $t_1$, with $\varphi=\frac12\sqrt{\lvert4h-a^2\rvert}$:
#
# $$
# \begin{aligned}
# a>2\sqrt h:&\quad e^{-at/2}\sinh\varphi(t-t_1),\\
# a=2\sqrt h:&\quad e^{-at/2}\,(t-t_1),\\
# a<2\sqrt h:&\quad e^{-at/2}\sin\varphi(t-t_1).
# \end{aligned}
# $$ (eq-action-fields)
#
# Only the last one returns to zero.
#
# For $a=h=1$ and $\zeta=\sin(k\pi(t-t_1)/\Delta)$ the source gives the second variation, which shows the saddle without any theory. Its integral is
#
# $$
# \begin{aligned}
# \delta^2\mathcal S=\;&\frac12\,e^{t_1}(e^\Delta-1)\\
# &\times\frac{k^2\pi^2(2k^2\pi^2-\Delta^2)}{\Delta^2(4k^2\pi^2+\Delta^2)} .
# \end{aligned}
# $$ (eq-action-sine)
#
# (The source prints another prefactor, with the same sign.) It is negative if and only if $\Delta>\sqrt2\,k\pi$. With $k=1$ it finds the saddle from $\Delta=4.443$ on, where the limit is $2\pi/\sqrt3=3.628$: a plain sine in $\zeta$ is not the lowest mode, a sine in $z$ is.
# :::

# %% tags=["hide-input"]
seconds = torch.linspace(0, 12, 200, **like)
three = (3.0, 2.0, 1.0)
integrated = [
    flows.momentum_flow(lambda x: x, 0 * seconds[0], seconds, a, velocity0=0 * seconds[0] + 1).values
    for a in three
]
off = torch.stack(
    [(jacobi_constant(a, 1.0, seconds) - path).abs().max() for a, path in zip(three, integrated, strict=True)]
)
wrong = torch.stack(
    [
        (jacobi_constant(0.9 * a, 1.0, seconds) - path).abs().max()
        for a, path in zip(three, integrated, strict=True)
    ]
)


def sine_integral(t1, length, k):  # ½ ∫ e^t (ζ̇² - ζ²) for ζ = sin(kπ(t - t_1)/Δ), a = h = 1
    def density(t):
        angle = k * math.pi * (t - t1) / length
        return math.exp(t) * ((k * math.pi / length * math.cos(angle)) ** 2 - math.sin(angle) ** 2) / 2

    return quad(density, t1, t1 + length, limit=200)[0]


def sine_formula(t1, length, k, prefactor):
    square = (k * math.pi) ** 2
    return prefactor * square * (2 * square - length**2) / (length**2 * (4 * square + length**2))


sines = [(0.0, 5.0, 1), (0.7, 3.0, 1), (1.3, 12.0, 2)]
integral = torch.tensor([sine_integral(*each) for each in sines], **like)
right_form = torch.tensor([sine_formula(*s, math.exp(s[0]) * math.expm1(s[1]) / 2) for s in sines], **like)
printed_form = torch.tensor(
    [sine_formula(*s, math.exp(2 * s[0]) * math.exp(-s[1]) * math.expm1(s[1])) for s in sines], **like
)

ledger.check(
    "thesis:eq-20",
    "The three Jacobi fields of constant friction solve Jacobi's equation",
    measured=off,
    criterion=at_most("|formula − integrated field| up to t = 12, a = 3, 2, 1", 1e-8),
    control=control("nine tenths of the friction in the formula", wrong),
    expected="holds",
    noise=1e-6,
)
ledger.check(
    "thesis:eq-24",
    "Sine perturbations for a = h = 1: the second variation is negative if and only if Δ > √2 kπ",
    measured=integral / right_form - 1,
    criterion=identity("integral/formula − 1, three windows", condition=1e3),
    control=control("the printed prefactor", integral / printed_form - 1),
    expected="corrected",
    correction=correction(
        printed="prefactor e^{2t₁} e^{−Δ}(e^Δ − 1)", right="prefactor ½ e^{t₁}(e^Δ − 1)", evidence="refereed"
    ),
)

# %% [markdown]
# *Infinite windows.* On $[t_1,\infty)$ only $a\ge2\sqrt L$ is free of conjugate times, and even then the statement has to be read window by window. The source's addition, that minimality carries over to the infinite window itself, is empty for the path from rest: its action there is $-\infty$, as that of many other curves is.
#
# :::{dropdown} Why window by window
# Take one direction of curvature $L$. For $a>2\sqrt L$ the path from
# rest is least on each window between its own two ends, yet its action $\frac12e^{at}\theta\,\dot\theta$, taken at the right end, tends to $-\infty$, since $e^{at}$ grows faster than $\theta\dot\theta$ decays. Among curves that
# end *at* the minimizer the least action does converge as the window grows, to $\frac12r\,\theta_0^2$ with $r=\frac12(a+\sqrt{a^2-4L})$; it belongs to the fast decay $\theta_0e^{-rt}$, which is not the path from rest.
# :::

# %%
heavy_rate = (2.5 + math.sqrt(2.5**2 - 4)) / 2


def heavy_action(path, t):  # loss θ²/2, friction 2.5
    return float(action(lambda x, v, s: torch.exp(2.5 * s) * (v**2 - x**2) / 2, path, t))


def to_zero(length):  # the stationary curve from 1 to 0
    t = torch.linspace(0, length, 20_001, **like)
    slow_rate = 2.5 - heavy_rate
    q = math.exp(-(heavy_rate - slow_rate) * length)
    return heavy_action((torch.exp(-heavy_rate * t) - q * torch.exp(-slow_rate * t)) / (1 - q), t)


def from_rest(length):
    t = torch.linspace(0, length, 20_001, **like)
    return heavy_action(flows.momentum_flow(lambda x: x, torch.tensor(1.0, **like), t, 2.5).values, t)


# %% tags=["hide-input"]
forever = torch.tensor(
    [column_constant(a, 1.0, length, 8000) for a in (2.0, 2.5) for length in (10.0, 50.0, 200.0)], **like
)
ledger.check(
    "thesis:claim-infinite-horizon",
    "Only for a ≥ 2√L is the path least on windows of every length tried, up to 200",
    measured=forever,
    criterion=inequality("E_1 for a = 2 and 2.5, windows of length 10, 50, 200"),
    control=control(
        "a = 1.9, windows of length 50 and 200",
        [column_constant(1.9, 1.0, length) for length in (50.0, 200.0)],
    ),
    expected="holds",
    noise=1e-6,
)
ledger.check(
    "thesis:beyond-infinite-window",
    "Friction 2.5, loss θ²/2: among curves that end at the minimizer the least action converges to r/2",
    measured=[abs(to_zero(length) - heavy_rate / 2) for length in (10.0, 12.0, 15.0)],
    criterion=at_most("|least action on [0, Δ] − r/2|, Δ = 10, 12, 15", 1e-4),
    control=control(
        "the action of the path from rest",
        [abs(from_rest(length) - heavy_rate / 2) for length in (5.0, 10.0)],
    ),
    expected="holds",
    noise=1e-6,
)


# %% [markdown]
# ### What acceleration looks like
#
# The source's Figure 6 follows three frictions on the loss $0.02\,\theta_1^2+0.0004\,\theta_2^2$, whose curvatures are $L=0.04$ and $\mu=0.0008$. The start $(1,1)$, the time span and the gradient flow beside them are our choice.
#
# **Predict first.** After $t=400$, which of the three has the largest loss: $3/t$, $2\sqrt\mu$ or $2\sqrt L$?
#
# :::{dropdown} Answer
# $2\sqrt L$, the only one that makes its action least on this window: $8.1\cdot10^{-5}$, against $6.2\cdot10^{-7}$ and $1.1\cdot10^{-11}$.
# :::


# %%
def from_rest_in_1(a, h, t):  # θ'' + a θ' + h θ = 0, closed form
    turn = math.sqrt(abs(a**2 - 4 * h)) / 2
    if turn < 1e-8:
        return torch.exp(-a * t / 2) * (1 + a * t / 2)
    if a**2 > 4 * h:
        slow_rate, fast_rate = a / 2 - turn, a / 2 + turn
        return (fast_rate * torch.exp(-slow_rate * t) - slow_rate * torch.exp(-fast_rate * t)) / (2 * turn)
    return torch.exp(-a * t / 2) * (torch.cos(turn * t) + a / (2 * turn) * torch.sin(turn * t))


# %%
flat = torch.tensor([0.04, 0.0008], **like)
long_time = torch.linspace(0.5, 400, 800, **like)
constants = {"$2\\sqrt{\\mu}$": 2 * math.sqrt(0.0008), "$2\\sqrt{L}$": 2 * math.sqrt(0.04)}
long_paths = {
    "$3/t$": flows.nesterov_flow_quadratic(torch.diag(flat), torch.ones(2, **like), long_time).values
} | {
    name: torch.stack([from_rest_in_1(a, float(h), long_time) for h in flat], -1)
    for name, a in constants.items()
}

# %%
long_paths["gradient flow"] = torch.exp(-flat * long_time[:, None])
losses = {name: (flat * path**2).sum(-1) / 2 for name, path in long_paths.items()}
crossings = {name: (path[1:].sign() != path[:-1].sign()).sum() for name, path in long_paths.items()}
windows = {
    "$3/t$": bessel_conjugate(0.04, 1.0) - 1,
    "$2\\sqrt{\\mu}$": longest(2 * math.sqrt(0.0008), 0.04),
    "$2\\sqrt{L}$": math.inf,
}

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**The paths that are fast oscillate, and are least only for a moment.** Left: flows on the loss $0.02\\theta_1^2+0.0004\\theta_2^2$ from $(1,1)$. Right: the loss; horizontal bars below: the longest window on which the path makes its action least (for $3/t$ from $t_1=1$). What breaks it (dashed): gradient flow, which is first order and has no action of this kind; heavy friction is hardly faster.", "name": "fig-action-frictions"}, "image": {"alt": "Left: two oscillating curves, one monotone one. Right: losses on a log axis; two fall to below one millionth, two stay near one ten-thousandth; bars show that only the slow one has a long window."}}
fig, (left, right) = figures.subplots(1, 2, size=(8.6, 4.0))
for row, ((name, path), color) in enumerate(
    zip(list(long_paths.items())[:3], ("blue", "green", "vermillion"), strict=True)
):
    left.plot(path[:, 0], path[:, 1], color=figures.COLORS[color], marker="", lw=1.2, label=name)
    right.semilogy(long_time, losses[name], color=figures.COLORS[color], marker="", label=name)
    height = 10.0 ** (-13 - row)
    right.plot(
        [0, min(windows[name], 400)],
        [height, height],
        color=figures.COLORS[color],
        marker="",
        lw=4,
        solid_capstyle="butt",
    )
figures.line_control(right, long_time, losses["gradient flow"], label="gradient flow")
left.set(xlabel="$\\theta_1$", ylabel="$\\theta_2$")
right.set(xlabel="time $t$", ylabel="loss", ylim=(1e-16, 1e4))
right.legend(fontsize=8, loc="upper right", ncols=2)
plt.show()

# %% tags=["hide-input"]
slow = losses["$2\\sqrt{L}$"][-1]
share = {name: torch.tensor(400 / length, **like) for name, length in windows.items()}
fast = [
    torch.stack([crossings[name] * 1.0, slow / losses[name][-1], share[name]])
    for name in list(long_paths)[:2]
]
ledger.check(
    "thesis:fig-6",
    "3/t and 2√μ oscillate, have the smaller loss at t = 400 and are least for less than a tenth of this time; 2√L is not",
    measured=torch.cat(fast),
    criterion=at_least(
        "sign changes of coordinates; loss of 2√L/loss; 400/longest window, for 3/t and 2√μ", 10.0
    ),
    control=control(
        "2√L: sign changes, 400/longest window; gradient flow: sign changes, loss of 2√L/loss",
        torch.stack(
            [
                crossings["$2\\sqrt{L}$"] * 1.0,
                share["$2\\sqrt{L}$"],
                crossings["gradient flow"] * 1.0,
                slow / losses["gradient flow"][-1],
            ]
        ),
    ),
    expected="reproduced",
    claim="experiment",
)
figures.comparison(
    [
        (f"loss, {words}", "no number", losses[name][-1], None)
        for words, name in (
            ("3/t", "$3/t$"),
            ("2√μ", "$2\\sqrt{\\mu}$"),
            ("2√L", "$2\\sqrt{L}$"),
            ("gradient flow", "gradient flow"),
        )
    ]
    + [
        (
            f"sign changes, {words}",
            "some" if yes else "none",
            crossings[name],
            bool((crossings[name] > 0) == yes),
        )
        for words, name, yes in (
            ("3/t", "$3/t$", True),
            ("2√μ", "$2\\sqrt{\\mu}$", True),
            ("2√L", "$2\\sqrt{L}$", False),
        )
    ],
    "a coordinate changes its sign where the source's picture oscillates",
    run=run,
    name="tab-frictions",
    rtol=1e-3,
)

# %% [markdown]
# ## Does a flat minimum rescue the story?
#
# Where the curvature at the minimizer is zero, as for $\mathcal L=\frac1p\lvert\theta\rvert^p$ with $p>2$, the load of the column vanishes as the path comes to rest. The source suggests that then there is a time $t_\star$ from which on the
# path is least on every window, calls this intuitive, and hard to prove because no closed form is known. There is one for $p=4$, and a symmetry for the rest.
#
# :::{prf:theorem} Least for ever: only the fourth power
# :label: thesis-claim-vanishing-curvature-optimal
# Loss $\frac1p\lvert\theta\rvert^p$ with $p>2$, friction $3/t$, from rest at $\theta_0>0$.
#
# (i) For $p=4$ the path is $\theta(t)=\theta_0/(1+\frac18\theta_0^2t^2)$. It makes its action stationary without a conjugate time in $(t_1,\infty)$ if and only if $t_1\ge t_\star=2\sqrt2/\theta_0$.
#
# (ii) For every other $p>2$ each $t_1>0$ has infinitely many conjugate times: there is no $t_\star$.
# :::
#
# *Why one should expect it.* Two things vanish together: the curvature $h(t)$, and the friction's barrier $\frac3{4t^2}$. Measured in $\ln t$, Jacobi's fields oscillate where $t^2h(t)$ stays above $1$ (step 5 of the proof). For $p<4$ the path oscillates and keeps passing through larger
# curvature; for $p>4$ it creeps, with $t^2h(t)\to4\bigl(1-(p-2)^{-2}\bigr)>1$, which is too much.
#
# *The key step.* If $\theta(t)$ is a path, so is $s^{2/(p-2)}\theta(st)$ for every $s>0$. The derivative with respect to $s$ at $s=1$ is a Jacobi field,
#
# $$\zeta(t)=t\,\dot\theta(t)+\frac2{p-2}\,\theta(t).$$ (eq-action-symmetry)
#
# :::{dropdown} Proof
# 1. Inserting shows that $s^{2/(p-2)}\theta(st)$ solves the equation; differentiating a family of solutions gives a solution of the linearized equation, which is Jacobi's.
# 2. *$p=4$.* The formula solves the equation: with $D=1+\frac18\theta_0^2t^2$, $\dot\theta=-\frac14\theta_0^3t/D^2$ and $\ddot\theta+\frac3t\dot\theta=-\theta_0^3/D^3$. Then $\zeta=\theta_0(1-\frac18\theta_0^2t^2)/D^2$ has its only zero at $t_\star$.
#    Between two zeros of one solution of a linear equation of second order lies a zero of any other that is not a multiple. So for $t_1\ge t_\star$ no solution that vanishes at $t_1$ vanishes again.
#    For $t_1<t_\star$ let $u$ be the field from $t_1$ with $\dot u(t_1)>0$. The number $t^3(u\dot\zeta-\dot u\zeta)$ does not change with $t$; at $t_1$ it is $-t_1^3\dot u\zeta<0$. For large $t$ the curvature is negligible, $u$ tends to a
#    constant $m$ and $\zeta\approx-m't^{-2}$ with $m'>0$, so the number is $2mm'$. Hence $m<0$: $u$ has changed its sign.
# 3. *$2<p<4$.* With $u=t^2\theta$ and $\tau=t^2$ the equation of the path is $u''+\frac14\tau^{1-p}\lvert u\rvert^{p-2}u=0$, an Emden-Fowler equation below its critical power; its solution from rest has zeros without end {cite}`wong1975generalized`. Between two zeros of $\theta$
#    the field {eq}`eq-action-symmetry` changes its sign, since it is $t\dot\theta$ there. By the separation of zeros every Jacobi field does.
# 4. *$p>4$, the path.* Put $s=\ln t$, $m=\frac2{p-2}<1$ and $\theta=t^{-m}v(s)$. The equation becomes $v''+2(1-m)v'$ $-\,m(2-m)v$ $+\,\lvert v\rvert^{p-2}v=0$: a ball with friction in a double well, whose middle is a hill at $v=0$. From rest at $\theta_0$ it starts on
#    the hill top ($v\to0$ as $s\to-\infty$) with energy zero and loses energy, so it never crosses the hill again and settles in a valley, $v^{p-2}\to m(2-m)$. Therefore $t^2h=(p-1)v^{p-2}$ $\to(p-1)m(2-m)$ $=4(1-(p-2)^{-2})$, which exceeds $1$ for $p>4$.
# 5. *$p>4$, the fields.* With $\zeta=y/t$ Jacobi's equation becomes $y''+(t^2h-1)\,y=0$ in $s$, whose coefficient tends to a positive number: $y$ oscillates for ever in $\ln t$ (Sturm's comparison with a constant coefficient; Kneser's criterion). $\square$
# :::


# %%
def power_path(p, until):  # from rest at 1, in s = ln t, with values at every time
    def field(s, state):
        x, v = state
        t = math.exp(s)
        return [t * v, -3 * v - t * math.copysign(abs(x) ** (p - 1), x)]

    begin = 1e-3  # there θ = 1 - t²/8
    solution = solve_ivp(field, (math.log(begin), math.log(until)), [1 - begin**2 / 8, -begin / 4],
                         method="DOP853", rtol=1e-10, atol=1e-13, dense_output=True)  # fmt: skip
    return lambda t: solution.sol(math.log(t))[0]


# %%
def conjugate_to(p, t1, until):
    path = power_path(p, until)
    return conjugate_points(
        lambda t: 3 / t, lambda t: (p - 1) * abs(path(t)) ** (p - 2), t1, until, rtol=1e-9, log_time=True
    )


horizon = run.pick(smoke=300.0, book=1000.0, paper=1000.0)
far = {p: conjugate_to(p, 10.0, end) for p, end in ((3, horizon), (3.5, horizon), (5, 1e4), (6, 1e4))}
fourth = {t1: conjugate_to(4, t1, 1e4) for t1 in (2.0, 2.7, 2.9, 3.0, 10.0)}
quarter = power_path(4, 1e4)
closed = max(abs(quarter(t) * (1 + t**2 / 8) - 1) for t in (0.1, 1.0, 10.0, 100.0, 1000.0))
fifth = power_path(5, 1e4)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Only for the fourth power the conjugate times come to an end.** Times conjugate to $t_1=10$ for losses $\\lvert\\theta\\rvert^p/p$ from rest at 1. Top row: the fourth power from $t_1=3>2\\sqrt2$ has none up to $10^4$. What breaks it (hollow, dashed line): the fourth power from $t_1=2<2\\sqrt2$ has one.", "name": "fig-action-powers"}, "image": {"alt": "Rows of dots on a logarithmic time axis: many for p 3, fewer for 3.5, three for 5 and 6, none for 4 except a hollow one."}}
fig, ax = figures.subplots(size=(6.4, 3.2))
for row, (p, color) in enumerate(((3, "vermillion"), (3.5, "purple"), (5, "green"), (6, "blue"))):
    ax.semilogx(far[p], torch.full_like(far[p], row), "o", color=figures.COLORS[color], **every)
ax.semilogx([3.0, 1e4], [4, 4], color=figures.COLORS["black"], marker="")
figures.line_control(
    ax, [2.0, float(fourth[2.0][0])], [4.4, 4.4], label="$t_1=2$", marker="o", markerfacecolor="none", **every
)
ax.set(
    yticks=range(5),
    yticklabels=["$p=3$", "$p=3.5$", "$p=5$", "$p=6$", "$p=4$"],
    xlabel="time $t$",
    xlim=(1.5, 1.5e4),
    ylim=(-0.5, 5.2),
)
ax.legend(fontsize=8.5, loc="upper right")
plt.show()

# %% tags=["hide-input"]
assert closed < 1e-6 and run.scale == "smoke" or len(far[3]) == 12
assert torch.allclose(far[3][:1], torch.tensor([21.374], **like), atol=2e-3)
assert torch.allclose(far[5], torch.tensor([94.44, 609.7, 4624.7], **like), rtol=1e-3)
assert len(fourth[2.0]) == len(fourth[2.7]) == 1 and abs(fourth[2.0][0] - 10.04) < 0.01
ledger.check(
    "thesis:claim-vanishing-curvature-optimal",
    "Fourth power, from rest at 1: no time up to 10,000 is conjugate to t_1 = 2.9, 3 or 10",
    measured=[len(fourth[t1]) for t1 in (2.9, 3.0, 10.0)],
    criterion=equals("conjugate times in (t_1, 10,000)", 0),
    control=control("the powers 3, 3.5, 5 and 6 from t_1 = 10", [len(each) for each in far.values()]),
    expected="corrected",
    correction=correction(
        printed="for losses |θ|^p with p > 2 there is a time t_{*} from which on the path is a minimizer",
        right="for |θ|^p from rest, exactly when p = 4",
        evidence="refereed",
    ),
    show="card",
)

# %% [markdown]
# ## What survives
#
# *Other Lagrangians for the same path.* Add to $\Lambda$ the total time derivative of any function $\Gamma(\theta,t)$:
#
# $$
# \begin{aligned}
# \tilde\Lambda=\Lambda&+\partial_\theta\Gamma(\theta,t)^\top\dot\theta\\
# &+\partial_t\Gamma(\theta,t).
# \end{aligned}
# $$ (eq-action-gauge)
#
# The action changes by $\Gamma$ at the right end minus $\Gamma$ at the left, a constant. The stationary curves and every second variation stay the same: this *gauge freedom* cannot turn the saddle into a minimum.
#
# :::{dropdown} Other orders: a convex action of fourth order
# The symmetric equation $(\partial_t^2+a\partial_t+h)(\partial_t^2-a\partial_t+h)\,\theta=0$ also has the path among its solutions. It is the Euler-Lagrange equation of
# $\frac12\int(\ddot\theta+a\dot\theta+h\theta)^2dt$, which is never negative and zero on the path. That is a convex action. It knows no more than the equation itself, and it is zero on *every* solution, slow or fast.
# :::
#
# *Other geometries.* The Lagrangian is a way to write down methods, and that use of it is untouched. Wibisono, Wilson and Jordan {cite}`wibisono2016variational` replace the Euclidean distance by the *Bregman divergence* of a convex function $\Psi$ with a positive definite Hessian,
# $D_\Psi(x,y)=\Psi(x)-\Psi(y)-\nabla\Psi(y)^\top(x-y)$, and use three scalings $\rho,M,N>0$ of time:
#
# $$
# \begin{aligned}
# \Lambda=\rho N\Bigl(&D_\Psi\bigl(\theta+\tfrac1\rho\dot\theta,\;\theta\bigr)\\
# &-M\,\mathcal L(\theta)\Bigr).
# \end{aligned}
# $$ (eq-action-bregman)
#
# :::{prf:proposition} The Bregman Lagrangian
# :label: thesis-eq-3
# If $\dot N=\rho N$, the stationary curves solve
#
# $$
# \begin{aligned}
# \ddot\theta&+\Bigl(\rho-\frac{\dot\rho}\rho\Bigr)\dot\theta\\
# &+\rho^2M\,\bigl[\nabla^2\Psi(\theta+\tfrac1\rho\dot\theta)\bigr]^{-1}\nabla\mathcal L=0 .
# \end{aligned}
# $$ (eq-action-bregman-flow)
#
# If also $\dot M\le\rho M$ (*ideal scaling*) and $\mathcal L$ is convex with a minimizer, the gap is at most $C/M(t)$, where $C$ depends on the start only. With $\Psi=\frac12\lVert\cdot\rVert^2$, $\rho=2/t$, $N=t^2$ and $M=t^2/4$ this is
# Nesterov's flow and its rate.
# :::
#
# :::{dropdown} Proof
# 1. With $Z=\theta+\frac1\rho\dot\theta$: $\partial_{\dot\theta}\Lambda=N(\nabla\Psi(Z)-\nabla\Psi(\theta))$ and
#    $\partial_\theta\Lambda$ is $\rho N$ times $\nabla\Psi(Z)-\nabla\Psi(\theta)$ $-\frac1\rho\nabla^2\Psi(\theta)\dot\theta$ $-M\nabla\mathcal L$. Set $\frac d{dt}$ of the first equal to the second and use $\dot N=\rho N$: $\frac d{dt}\nabla\Psi(Z)=-\rho M\nabla\mathcal L$. Written out this is
#    {eq}`eq-action-bregman-flow`.
# 2. $U=D_\Psi(\theta^\star,Z)+M(\mathcal L-\mathcal L^\star)$ has
#    the derivative $\rho M\nabla\mathcal L^\top(\theta^\star-Z)$ $+\,\dot M(\mathcal L-\mathcal L^\star)$ $+\,M\nabla\mathcal L^\top\dot\theta$, and $\dot\theta=\rho(Z-\theta)$. What remains is
#    $\rho M\nabla\mathcal L^\top(\theta^\star-\theta)$ $+\,\dot M(\mathcal L-\mathcal L^\star)$, by convexity at most $(\dot M-\rho M)(\mathcal L-\mathcal L^\star)\le0$. So $M(\mathcal L-\mathcal L^\star)\le U(0)=C$. $\square$
# :::


# %%
def slope_of(lam, theta, velocity, acceleration, t):  # ∂Λ/∂θ - d/dt ∂Λ/∂θ̇ at one state
    momentum = grad(lam, 1)
    along = velocity, acceleration, torch.ones_like(t)
    return grad(lam)(theta, velocity, t) - jvp(momentum, (theta, velocity, t), along)[1]


def with_gauge(theta, velocity, t):  # Γ = sin(t) θ_1² θ_2 + t θ_2
    def gauge(x, s):
        return torch.sin(s) * x[0] ** 2 * x[1] + s * x[1]

    value = jvp(gauge, (theta, t), (velocity, torch.ones_like(t)))[1]
    return bowl_lagrangian(theta, velocity, t) + value


# %%
def bregman(theta, velocity, t, power=2.0):  # Ψ = Σ θ ln θ, ρ = 2/t, N = t², M = t^power / 4
    Z = theta + t / 2 * velocity
    divergence = (Z * (Z / theta).log() - Z + theta).sum()
    return 2 * t * (divergence - t**power / 4 * bowl(theta))


def bregman_acceleration(theta, velocity, t, power=2.0, friction=3.0):
    Z = theta + t / 2 * velocity
    return -friction / t * velocity - t ** (power - 2) * Z * grad(bowl)(theta)


# %%
def energy(power):  # U along the flow, Euclidean, loss θ²/2 from rest at t = 1
    t = torch.linspace(1, 30, 1000, **like)
    path = flows.momentum_flow(
        lambda x: x,
        torch.tensor(1.0, **like),
        t,
        lambda s: 3 / s,
        force=lambda s: s ** (power - 2),
        start=1.0,
    )
    return (path.values + t / 2 * path.velocities) ** 2 / 2 + t**power / 4 * path.values**2 / 2


# %%
damped = torch.linspace(0, 5 * longest(0.2, 1.0), 4001, **like)
swinging = jacobi_constant(0.2, 1.0, damped + 1.0)  # a path with friction 0.2
waves = [
    torch.sin(k * math.pi * damped / damped[-1]) ** 2 for k in range(1, 11)
]  # position and velocity keep their ends


def symmetric_action(curve, t, a=0.2):  # ½ ∫ (θ'' + a θ' + θ)²
    d = t[1] - t[0]
    residue = (
        (curve[2:] - 2 * curve[1:-1] + curve[:-2]) / d**2
        + a * (curve[2:] - curve[:-2]) / (2 * d)
        + curve[1:-1]
    )
    return (residue**2).sum() * d / 2


# %%
def weighted_action(curve, t, a=0.2):
    return action(lambda x, v, s: torch.exp(a * s) * (v**2 - x**2) / 2, curve, t)


gains = {
    kind: torch.stack([kind(swinging + 0.1 * zeta, damped) - kind(swinging, damped) for zeta in waves])
    for kind in (symmetric_action, weighted_action)
}


# %% tags=["hide-input"]
def without_clock(theta, velocity, t):  # the same without ∂Γ/∂t
    return bowl_lagrangian(theta, velocity, t) + velocity @ grad(
        lambda x: torch.sin(t) * x[0] ** 2 * x[1] + t * x[1]
    )(theta)


source = run.generator("states")
states = [
    [*(0.5 + torch.rand(2, 2, generator=source, **like)), 2 * torch.rand((), generator=source, **like) + 1]
    for _ in range(20)
]
pushes = torch.randn(20, 2, generator=source, **like)
gauge_gap = {
    name: torch.stack(
        [
            slope_of(lam, x, v, push, t) - slope_of(bowl_lagrangian, x, v, push, t)
            for (x, v, t), push in zip(states, pushes, strict=True)
        ]
    )
    for name, lam in (("whole", with_gauge), ("no clock", without_clock))
}


def residual(friction):  # of the Bregman flow in the Euler-Lagrange equation
    return (
        torch.stack(
            [
                slope_of(bregman, x, v, bregman_acceleration(x, v, t, friction=friction), t)
                for x, v, t in states
            ]
        )
        .abs()
        .max()
    )


rises = torch.stack([energy(power).diff().amax().clamp(min=0) for power in (1.0, 2.0)])

ledger.check(
    "thesis:eq-25",
    "A gauge term changes no Euler-Lagrange equation: loss ln cosh, 20 random states, Γ = sin(t) θ_1² θ_2 + t θ_2",
    measured=gauge_gap["whole"].flatten(),
    criterion=identity(
        "slope of Λ with Γ − slope of Λ", condition=1e2, size=float(bowl_lagrangian(*states[0]).abs() + 1)
    ),
    control=control("without the term ∂Γ/∂t", gauge_gap["no clock"].norm(dim=-1)),
    expected="holds",
)

# %% tags=["hide-input"]
ledger.check(
    "thesis:claim-higher-order-action",
    "The action of the symmetric equation of fourth order rises along ten perturbations, on five times the limit",
    measured=gains[symmetric_action],
    criterion=at_least("½∫(θ̈ + aθ̇ + θ)² of the perturbed path − of the path", 1e-3, signed=True),
    control=control("the ordinary action, k = 2", gains[weighted_action][1]),
    expected="holds",
)
ledger.check(
    "thesis:eq-3",
    "The Bregman flow is stationary for Ψ = Σ θ ln θ, and under ideal scaling the energy U never rises, M = t/4 and t²/4",
    measured=torch.cat([residual(3.0)[None], rises]),
    criterion=at_most(
        "|slope of the action| at 20 states; largest rise of U between two of 1000 times", 1e-10
    ),
    control=control(
        "friction 2/t in the flow; M = t⁵/4", torch.stack([residual(2.0), energy(5.0).diff().amax()])
    ),
    expected="holds",
    noise=1e-11,
)

# %% [markdown]
# ## When to let go of momentum
#
# The loss goes down, turns, and goes up: that is the bump. The end of the window and the first bump are the same event in one dimension.
#
# :::{prf:theorem} The loss cannot rise within the first window
# :label: thesis-beyond-restart-is-conjugate
# Convex quadratic loss with largest curvature $L$, Nesterov's flow from rest at time $0$. The loss does not rise before $j_{1,1}/\sqrt L$, the first conjugate time of the start. In one dimension it rises immediately after it.
# :::
#
# *The key step.* Each direction moves like $\mathrm J_1(x)/x$ with $x=\sqrt h\,t\le\sqrt L\,t$. This function is positive up to $j_{1,1}=3.832$, and falls up to $5.136$.
#
# :::{dropdown} Proof
# 1. $\frac d{dt}\mathcal L=\sum_i\lambda_i(H)\,\theta_i\dot\theta_i$. With {eq}`eq-action-bessel` and $(\mathrm J_1(x)/x)'=-\mathrm J_2(x)/x$, each term is $-\lambda_i^{3/2}\theta_i(0)^2\,4\,\mathrm J_1(x_i)\mathrm J_2(x_i)/x_i^2$.
# 2. $\mathrm J_1>0$ on $(0,3.832)$ and $\mathrm J_2>0$ on $(0,5.136)$. As long as $\sqrt L\,t<3.832$ all terms are $\le0$.
# 3. In one dimension the only term changes its sign at $j_{1,1}$. $\square$
# :::
#
# The practical rule is older than this explanation. O'Donoghue and Candès {cite}`odonoghue2015adaptive` reset the momentum, and its schedule, when
#
# $$\nabla\mathcal L(\bar\theta_k)^\top(\theta_{k+1}-\theta_k)>0,$$ (eq-action-restart)
#
# that is, when the method has just moved uphill, or when the loss rises. In several dimensions the first rise comes later than the window of the sharpest direction: its oscillation is small, and the loss has to wait for the directions that carry it.


# %%
def first_rise(d, draws, source):  # √L t at which the loss first rises, L = 1
    h = torch.rand(draws, d, generator=source, **like)
    h[:, 0] = 1.0
    start_squared = torch.randn(draws, d, generator=source, **like) ** 2
    t = torch.linspace(0.02, 30, 1500, **like)
    x = h.sqrt() * t[:, None, None]
    loss = (h * start_squared * (2 * bessel_j1(x) / x) ** 2).sum(-1) / 2
    up = torch.cat([loss.diff(dim=0) > 0, torch.ones(1, draws, dtype=torch.bool)])
    return t[1:][up.int().argmax(0).clamp(max=len(t) - 2)]


source = run.generator("rises")
dimensions = (1, 2, 5, 20, 100)
rise = {d: first_rise(d, 40, source) / first_zero for d in dimensions}
without = torch.linspace(0.02, 10, 1500, **like)  # friction 1/t: J_0(t) turns at its first zero
turn = without[int((-bessel_j0(without) * bessel_j1(without) > 0).int().argmax())] / first_zero


# %% tags=["hide-input"]
def restart_time(eta):  # of the method itself on θ²/2, in units of time
    found = ensembles.iterate(rules.Restarted(rules.Nesterov(eta, rules.nesterov_momentum)), lambda x, k: x, torch.ones(1, 1, **like),
                              int(5 / math.sqrt(eta)), record=range(int(5 / math.sqrt(eta)) + 1), watch=lambda s: s.restarts)  # fmt: skip
    return float(found.watched[:, 0, 0].argmax()) * math.sqrt(eta)


restart_times = {eta: restart_time(eta) for eta in (1e-2, 1e-3, 1e-4)}

ledger.check(
    "thesis:beyond-restart-is-conjugate",
    "From rest the loss does not rise before j_{1,1}/√L: 40 random quadratics in each of 1, 2, 5, 20 and 100 dimensions; "
    "in 1 dimension it rises within 0.04 after",
    measured=torch.cat(
        [(torch.stack([rise[d] for d in dimensions]) - 1).flatten(), 1 + 0.04 / first_zero - rise[1]]
    ),
    criterion=inequality("√L · time of the first rise/3.8317 − 1; for d = 1: 1 + 0.04/3.8317 − that"),
    control=control(
        "friction 1/t in one dimension; d = 2, 5, 20, 100: rise within 0.04 after, median",
        [float(turn) - 1, *(1 + 0.04 / first_zero - float(rise[d].median()) for d in dimensions[1:])],
    ),
    expected="holds",
    show="card",
)
figures.comparison(
    [
        (
            f"first restart of the method, η = {eta:g}: time k√η",
            "3.8317 as η → 0",
            at,
            bool(abs(at - first_zero) < 3 * math.sqrt(eta)),
        )
        for eta, at in restart_times.items()
    ]
    + [
        (
            f"first rise/(3.8317/√L), median, {d} dimensions",
            "at least 1",
            rise[d].median(),
            bool(rise[d].median() >= 1),
        )
        for d in dimensions
    ],
    "within three steps of the limit; not before it",
    run=run,
    name="tab-first-rise",
)

# %% [markdown]
# ### On data
#
# Breast cancer data (569 tumours, 30 measurements, standardized, and a constant), logistic loss with the penalty $\frac12\cdot10^{-3}\lVert\theta\rVert^2$. All methods have the step size $\eta=1/L$ with $L=\frac14\lambda_1(X^\top X/n)+10^{-3}$; the condition number at the solution is about
# $3{,}300$. The first run uses all rows, twelve more use 400 random rows each. The methods: gradient descent, Nesterov with $(k-1)/(k+2)$, the same with either restart, Nesterov with the constant momentum $\frac{1-q}{1+q}$, $q=\sqrt{\mu\eta}$,
# which needs the smallest curvature $\mu$ at the solution, and Nesterov reset at fixed periods of 50 (the control), 100, 200 and 400 steps.
#
# **Predict first.** Constant momentum is tuned with a number that nobody knows before the run. How much slower is a restart, which knows nothing?
#
# :::{dropdown} Answer
# On all rows hardly: to a gap of $10^{-9}$ 563 steps (uphill test) and 527 (loss test), against 538 for the tuned momentum and 2,939 without restart. On 400 random rows the uphill test takes $1.0$ to $1.5$ times the steps of the tuned
# momentum, the loss test up to $1.6$ times.
# :::

# %%
cancer = data.load("breast-cancer")
X = cancer.inputs.to(**like)
X = (X - X.mean(0)) / X.std(0, correction=0)
X = torch.cat([X, torch.ones(len(X), 1, **like)], 1)
sign = 2 * cancer.targets.to(**like) - 1
penalty = 1e-3


def logistic(theta):  # (runs, 31) -> (runs)
    return (rows * softplus(-sign * (theta @ X.T))).sum(-1) + penalty / 2 * (theta**2).sum(-1)


def logistic_gradient(theta):
    return -(rows * sign * torch.sigmoid(-sign * (theta @ X.T))) @ X + penalty * theta


# %% tags=["hide-input"]
seeds = list(range(run.seed + 1, run.seed + 1 + run.pick(smoke=3, book=12, paper=12)))
rows = torch.zeros(1 + len(seeds), len(X), **like)  # weights of the rows in each run
rows[0] = 1 / len(X)
for i, seed in enumerate(seeds):
    chosen = torch.randperm(len(X), generator=run.generator("rows", seed))[:400]
    rows[1 + i, chosen] = 1 / 400


def logistic_hessian(theta):
    p = torch.sigmoid(theta @ X.T)
    return torch.einsum("rn,ni,nj->rij", rows * p * (1 - p), X, X) + penalty * torch.eye(31, **like)


best = torch.zeros(len(rows), 31, **like)
for _ in range(40):  # Newton, with half steps at first
    move = torch.linalg.solve(logistic_hessian(best), logistic_gradient(best))
    best = best - (0.5 if _ < 8 else 1.0) * move
L = torch.linalg.eigvalsh(torch.einsum("rn,ni,nj->rij", rows, X, X))[:, -1:] / 4 + penalty
mu = torch.linalg.eigvalsh(logistic_hessian(best))[:, :1]
assert logistic_gradient(best).abs().max() < 1e-12 and 3000 < L[0] / mu[0] < 3600

# %%
q = (mu / L).sqrt()
schedule = rules.Nesterov(1 / L, rules.nesterov_momentum)
methods = {
    "gradient descent": rules.GradientDescent(1 / L),
    "Nesterov": schedule,
    "restart, uphill": rules.Restarted(schedule),
    "restart, loss": rules.Restarted(schedule, when="loss"),
    "constant, knows $\\mu$": rules.Nesterov(1 / L, (1 - q) / (1 + q)),
} | {
    f"reset every {period}": rules.Nesterov(
        1 / L, lambda k, period=period: rules.nesterov_momentum(k % period)
    )
    for period in (50, 100, 200, 400)
}

# %%
length = run.pick(smoke=600, book=3200, paper=6000)


def both(theta, k):
    return logistic(theta), logistic_gradient(theta)


ways = {
    name: ensembles.iterate(
        rule,
        both if name == "restart, loss" else lambda theta, k: logistic_gradient(theta),
        0 * best,
        length,
        record=range(length + 1),
        observe=lambda theta: logistic(theta) - logistic(best),
    ).values
    for name, rule in methods.items()
}  # (steps, runs): the gap where the gradient is taken


# %%
def steps_to(gap):  # (runs) for each method, infinite where it did not get there
    reached = {name: way <= gap for name, way in ways.items()}
    return {
        name: torch.where(ok.any(0), ok.int().argmax(0).to(**like), torch.inf) for name, ok in reached.items()
    }


quick = {gap: steps_to(gap) for gap in (1e-3, 1e-6, 1e-9)}

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**A restart at the first rise is about as fast as momentum tuned with the unknown $\\mu$.** Gap to the minimum on the breast cancer data, all 569 rows, step size $1/L$. Without the effect (dashed): Nesterov's method without restart, whose loss has bumps; grey: gradient descent, and momentum reset every 50 and every 200 steps whatever happens.", "name": "fig-action-cancer"}, "image": {"alt": "Gap on a log axis against steps. Three curves fall steeply to below 1e-9 at about 550 steps; the dashed one has bumps and needs almost 3000; of three grey ones two fall slowly."}}
fig, ax = figures.subplots(size=(6.6, 4.2))
index = torch.arange(0, length + 1, 10)
gaps = {name: way[index, 0] for name, way in ways.items()}
for name, color in (
    ("restart, uphill", "blue"),
    ("restart, loss", "green"),
    ("constant, knows $\\mu$", "vermillion"),
):
    ax.semilogy(index, gaps[name].clamp(min=1e-14), color=figures.COLORS[color], marker="", label=name)
figures.line_control(
    ax, index, gaps["Nesterov"].clamp(min=1e-14), label="no restart", role="without the effect"
)
for name, style in (("gradient descent", "-"), ("reset every 50", ":"), ("reset every 200", "-.")):
    ax.semilogy(index, gaps[name], color=figures.COLORS["dark grey"], ls=style, marker="", label=name)
ax.set(xlabel="step $k$", ylabel="gap to the minimum", ylim=(1e-13, 2), xlim=(0, length))
ax.legend(fontsize=8)
plt.show()

# %% tags=["hide-input"]
figures.numbers(
    run,
    "breast-cancer",
    {
        "step": index,
        "nesterov": gaps["Nesterov"].clamp(min=1e-14),
        "uphill": gaps["restart, uphill"].clamp(min=1e-14),
        "loss": gaps["restart, loss"].clamp(min=1e-14),
        "constant": gaps["constant, knows $\\mu$"].clamp(min=1e-14),
    },
    noise=1e-12,
    rtol=1e-3,
)

figures.comparison(
    [("condition number L/μ", "not given", float(L[0] / mu[0]), None)]
    + [
        (
            f"steps to a gap of {gap:g}, {name.replace('$', '').replace(chr(92) + 'mu', 'μ')}",
            "not given",
            quick[gap][name][0],
            None,
        )
        for name in methods
        for gap in quick
        if torch.isfinite(quick[gap][name][0])
    ],
    "condition number and steps on all rows, gap where the gradient is taken; the source has no data",
    run=run,
    name="tab-cancer-steps",
    rtol=0.02,
)

# %% tags=["hide-input"]
tight = 1e-9 if run.scale != "smoke" else 1e-3


def gain(
    name, gap
):  # ln(steps without restart/steps), the twelve runs on 400 rows; a method that is late counts with all steps
    late = torch.full((len(seeds),), float(length + 1), **like)
    steps_of = steps_to(gap)
    return torch.minimum(steps_of["Nesterov"][1:], late).log() - torch.minimum(steps_of[name][1:], late).log()


ledger.check(
    "thesis:beyond-restart-data",
    "400 random tumours: to a gap of 1e-9 the restart needs less than half of the steps of Nesterov's method",
    measured=gain("restart, uphill", tight),
    criterion=confident("ln(steps without restart/steps with restart) (ln 2)", at_least=math.log(2)),
    control=control("momentum reset every 50 steps", gain("reset every 50", tight)),
    expected="reproduced",
    claim="experiment",
    seeds=seeds,
    needs="book",
    rtol=0.02,
)
ledger.check(
    "thesis:beyond-restart-tuned",
    "400 random tumours: to a gap of 1e-9 the restart needs less than twice the steps of momentum that knows μ",
    measured=gain("constant, knows $\\mu$", tight) - gain("restart, uphill", tight),
    criterion=confident("ln(steps with restart/steps with constant momentum) (ln 2)", at_most=math.log(2)),
    control=control(
        "gradient descent in the place of the restart",
        gain("constant, knows $\\mu$", tight) - gain("gradient descent", tight),
    ),
    expected="reproduced",
    claim="experiment",
    seeds=seeds,
    needs="book",
    rtol=0.02,
)

# %% [markdown]
# Until a gap of $10^{-3}$ the restart changes nothing: the first bump comes later. At $10^{-6}$ it saves a factor of $1.4$ to $2.3$, at $10^{-9}$ a factor of five on all rows and of at least four on 400 (there Nesterov's method is mostly not at the goal when its 3,200 steps end, with which the first row above counts it). What counts is how often one resets: every 50 steps is much too often and as slow as no reset at all.
# Every 200 steps is as good as the test on all rows (558 steps against 563), but half or twice of this period costs $1.6$ to $2.4$ times as many. The test finds a good period without being told.
#
# The bound of the second row, twice the steps of tuned momentum, was set after a look at the run with seed 0, and confirmed at the seeds 1 to 3; the mean it measures is a factor of about $1.15$.
#
# **What it does not show.** The conjugate time of the sharpest direction is $3.8$ steps at $\eta=1/L$, and the first restart comes after two hundred. The theorem gives the earliest time at which the loss can rise; when it does rise depends on the slow directions.
# With minibatches the test looks at noisy gradients and fires at random; there are safer rules for that {cite}`roulet2017sharpness`.
#
# ## For the practitioner
#
# - **Reset the momentum and its schedule when the loss first rises,** or when $\nabla\mathcal L(\bar\theta_k)^\top(\theta_{k+1}-\theta_k)>0$. It costs one inner product, and on a deterministic loss it comes close to constant momentum tuned with the unknown $\mu$ (here 1 to 1.6 times its steps to a gap of $10^{-9}$).
#   In the library: `rules.Restarted(rules.Nesterov(eta, rules.nesterov_momentum))`.
# - **Keep the schedule $(k-1)/(k+2)$ for short runs.** Up to a moderate accuracy the restart changes nothing.
# - **Do not restart on minibatches** by this test: it fires at noise. There a constant $\beta_1$, or a decreasing step size, is the usual choice;
#   {chapter}`Gradient memory <momentum/gradient_memory>` says what it averages.
# - **Do not choose a friction because it makes an action least.** The only constant friction for which it always does, $a\ge2\sqrt L$, is a momentum $\beta_1\le-1$ at the usual step size.
# - **Use Lagrangians to design methods,** for other geometries or for the conserved quantities of a symmetry. Both need a stationary path only.
#
# ## Exercises
#
# :::{exercise} By hand
# :label: ex-action-by-hand
# Friction $2/t$, loss $2\theta^2$, window from $t_1=3$. Until when is the path least?
# :::
#
# :::{solution-start} ex-action-by-hand
# :class: dropdown
# :::
#
# $h=4$ and $\chi=0$, so the column carries the load $4$ and buckles at $\Delta=\pi/2$: until $3+\frac\pi2=4.571$.

# %% tags=["hide-cell"]
by_hand = conjugate_points(lambda t: 2 / t, 4.0, 3.0, 6.0)[0]
assert abs(by_hand - 3 - math.pi / 2) < 1e-8

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Predict a number
# :label: ex-action-predict
# Constant friction $a=1$, loss $\frac12\theta^2$. How long may the window be? At which length does a plain sine $\zeta=\sin(\pi(t-t_1)/\Delta)$ notice it?
# :::
#
# :::{solution-start} ex-action-predict
# :class: dropdown
# :::
#
# $2\pi/\sqrt{4-1}=3.628$. The plain sine lowers the action from $\sqrt2\pi=4.443$ on, by the sign in {eq}`eq-action-sine`: a test perturbation proves a saddle, but its failure to find one proves nothing.

# %% tags=["hide-cell"]
assert abs(conjugate_points(1.0, 1.0, 0.0, 5.0)[0] - 2 * math.pi / math.sqrt(3)) < 1e-8
assert sine_integral(0.0, 4.44, 1) > 0 > sine_integral(0.0, 4.45, 1)

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Change one line
# :label: ex-action-change
# In the cell above the first picture replace the shares $0.95$ and $1.05$ by $0.99$ and $1.01$ and take 1,000 steps. Expected: the distance for $0.99$ still shrinks, about five times more slowly; for $1.01$ it grows about five times more slowly. Why is the
# speed proportional to the distance from the limit?
# :::
#
# :::{solution-start} ex-action-change
# :class: dropdown
# :::
#
# The slowest mode of the descent contracts by $1-\frac12e$ a step, where $e$ is the lowest eigenvalue of the second variation relative to the stiffness. It crosses zero at the limit with a slope, so close to the limit it is proportional to the distance.

# %% tags=["hide-cell"]
speed = {}
for share in (0.95, 0.99, 1.01, 1.05):
    t, curves = descend(share * window, run.pick(smoke=20, book=200, paper=200))
    gaps = (curves - nesterov_path(t)).abs().amax(-1)
    speed[share] = float((gaps[20] / gaps[10]).log()) / 10
assert speed[0.95] < speed[0.99] < 0 < speed[1.01] < speed[1.05]
assert 3 < speed[0.95] / speed[0.99] < 8 and 3 < speed[1.05] / speed[1.01] < 8

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Finish the proof
# :label: ex-action-finish
# Show that a convex quadratic loss cannot rise before $j_{m,1}/\sqrt L$ along the flow with friction $\nu/t$ from rest, where $m=\frac{\nu-1}2\ge0$. Which property of Bessel functions replaces that of $\mathrm J_1$?
# :::
#
# :::{solution} ex-action-finish
# :class: dropdown
# Each direction moves like $\mathrm J_m(x)/x^m$ with $x=\sqrt h\,t$, and $(\mathrm J_m(x)/x^m)'=-\mathrm J_{m+1}(x)/x^m$. So each term of $\frac d{dt}\mathcal L$ is a negative multiple of $\mathrm J_m(x)\mathrm J_{m+1}(x)/x^{2m}$. The first zero of $\mathrm J_{m+1}$ is larger than that of
# $\mathrm J_m$ (zeros of Bessel functions of neighbouring orders interlace), so all terms are $\le0$ up to $j_{m,1}$.
# :::
#
# :::{exercise} Open
# :label: ex-action-open
# Is there an action with Nesterov's flow as its Euler-Lagrange equation that is convex on every window? Known: adding a gauge term $\frac d{dt}\Gamma$ cannot help, since it leaves the second variation as it is; nor can any other Lagrangian of first order with an invertible matrix $\partial^2_{\dot\theta\dot\theta}\Lambda$, since its Jacobi equation is
# the same flow, linearized, so that the conjugate times are the same; the action of fourth order is convex, but its equation has more solutions.
# Not known to us: whether an action of higher order does it without more solutions.
# :::
#
# ## Checks behind this page
#
# General statements used above, each checked on an example.
#
# :::{prf:theorem} Euler-Lagrange equation
# :label: thesis-thm-2-2-1
# A local minimum or maximum of the action, among continuously differentiable curves with the same ends, solves $\frac d{dt}\partial_{\dot\theta}\Lambda=\partial_\theta\Lambda$.
# :::
#
# :::{prf:theorem} Legendre's condition
# :label: thesis-thm-2-2-3
# At a local minimum $\partial^2_{\dot\theta\dot\theta}\Lambda$ is positive semidefinite at every time of the window.
# :::
#
# :::{dropdown} The coefficients of the second variation in general
# The coefficients of {eq}`eq-action-second` are $w=\partial^2_{\dot\theta\dot\theta}\Lambda$ and $c=\partial^2_{\theta\theta}\Lambda-\frac d{dt}\partial^2_{\theta\dot\theta}\Lambda$, for one direction, after an integration by parts of
# $2\,\partial^2_{\theta\dot\theta}\Lambda\,\zeta\dot\zeta=\partial^2_{\theta\dot\theta}\Lambda\,\frac d{dt}\zeta^2$.
# :::


# %%
def both_sides(curve, size=1e-3):  # 1 where the action has a slope, negative at an extremum
    t = torch.linspace(1, 3, 2001, **like)
    zeta = torch.sin(math.pi * (t - 1) / 2)
    values = torch.stack([action(lagrangian, curve(t) + e * zeta, t) for e in (size, -size, 0.0)])
    up, down = values[0] - values[2], values[1] - values[2]
    return -up * down / torch.maximum(up.abs(), down.abs()) ** 2


def legendre(centre, width=0.02):  # δ²S · width of a narrow triangle for Λ = ½ (t - 2) θ̇² + ½ 5 θ²
    def density(t):
        return ((t - 2) / width**2 + 5 * (1 - abs(t - centre) / width) ** 2) / 2

    return width * (quad(density, centre - width, centre)[0] + quad(density, centre, centre + width)[0])


# %% tags=["hide-input"]
ledger.check(
    "thesis:thm-2.2.1",
    "Curves that do not solve the equation are no extrema: the action rises on one side and falls on the other",
    measured=torch.stack(
        [both_sides(lambda t: 1 - t / 12), both_sides(lambda t: torch.exp(-t)), both_sides(torch.cos)]
    ),
    criterion=at_least("−Δ(+)Δ(−)/max Δ², a line, gradient flow, a cosine", 0.5, signed=True),
    control=control("Nesterov's path", both_sides(nesterov_path)),
    expected="holds",
    noise=1e-4,
)
ledger.check(
    "thesis:thm-2.2.3",
    "Where ∂²Λ/∂θ̇² is negative, a narrow triangle lowers the action, Λ = ½(t − 2)θ̇² + ½ 5θ²",
    measured=[-legendre(centre) for centre in (1.2, 1.5, 1.8)],
    criterion=at_least("−δ²S · width, triangles around t = 1.2, 1.5, 1.8", 0.1, signed=True),
    control=control(
        "triangles around t = 2.2 and 2.5, where it is positive", [-legendre(2.2), -legendre(2.5)]
    ),
    expected="holds",
)
ledger.check(
    "thesis:beyond-descent-on-curves",
    "Descent in the action leads to Nesterov's path on 0.5 and 0.95 of the limit, 200 steps",
    measured=torch.stack([distance[0.5][-1], distance[0.95][-1]]),
    criterion=at_most("distance from the path, 600 nodes", 1e-4),
    control=control("1.05 of the limit", distance[1.05][-1]),
    expected="holds",
    noise=1e-6,
)


# %% tags=["hide-input"]
def mixed(theta, velocity, t):  # a Lagrangian with a mixed derivative, 2 t θ
    return t**3 * velocity**2 / 2 - torch.log(torch.cosh(theta)) * t**3 + t * theta**2 * velocity


mixed_t = torch.linspace(1, 4, 4001, **like)
mixed_curve, bump = torch.cos(mixed_t), torch.sin(math.pi * (mixed_t - 1)) * (mixed_t - 1)
along_bump = (
    grad(grad(lambda e: action(mixed, mixed_curve + e * bump, mixed_t)))(torch.tensor(0.0, **like)) / 2
)
middle = (mixed_t[1:] + mixed_t[:-1]) / 2
x, v = torch.cos(middle), -torch.sin(middle)
zeta = torch.sin(math.pi * (middle - 1)) * (middle - 1)
zeta_dot = math.pi * torch.cos(math.pi * (middle - 1)) * (middle - 1) + torch.sin(math.pi * (middle - 1))
w = middle**3
theta_theta = -w / torch.cosh(x) ** 2 + 2 * middle * v
turned = 2 * x + 2 * middle * v  # d/dt of 2 t θ


def coefficients(c):  # ½ ∫ w ζ̇² + c ζ²
    return ((w * zeta_dot**2 + c * zeta**2) * mixed_t.diff()).sum() / 2


ledger.check(
    "thesis:eq-8",
    "The second derivative of the action along a perturbation is ½∫ w ζ̇² + c ζ², a Lagrangian with a mixed derivative",
    measured=abs(along_bump / coefficients(theta_theta - turned) - 1),
    criterion=at_most("|second derivative by differentiation/integral − 1|, 4000 nodes", 1e-5),
    control=control("c without the mixed term", abs(along_bump / coefficients(theta_theta) - 1)),
    expected="holds",
    noise=1e-7,
)

# %% [markdown]
# ## What to remember
#
# 1. Euler and Lagrange's equation says that the slope of the action is zero, and no more. Nesterov's path is stationary for $\int t^3(\frac12\lVert\dot\theta\rVert^2-\mathcal L)\,dt$.
# 2. It is least on windows shorter than a length between $\pi/\sqrt L$ and $3.832/\sqrt L$, and a saddle on longer ones, where the action has no lower bound. It is never a maximum.
# 3. With $z=\sqrt w\,\zeta$ the question is when a column buckles; friction carries the load $\frac{a^2}4+\frac{\dot a}2$.
# 4. Constant friction is always least for $a\ge2\sqrt L$, which does not accelerate. A flat minimum helps only for $\lvert\theta\rvert^4$.
# 5. Reset the momentum when the loss first rises. From rest it cannot rise before $3.832/\sqrt L$.
#
# **Cite these results** as the anchors `thesis-thm-2-2-5`, `thesis-thm-2-2-6`, `thesis-claim-vanishing-curvature-optimal` and `thesis-beyond-restart-is-conjugate` of this page, with the release of the book.
#
# **Further reading.** {cite:t}`gelfand1963calculus`, chapters 5 and 6, for second variations; {cite:t}`zhang2021rethinking` for the paper behind the source; {cite:t}`su2016differential` for the flow, {cite:t}`wibisono2016variational` for the
# Bregman Lagrangian; {cite:t}`odonoghue2015adaptive` for restarts. Next: {chapter}`Shadowing <momentum/shadowing>`.

# %% tags=["remove-input"]
ledger.table()
