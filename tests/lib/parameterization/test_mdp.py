"""Markov decision processes: exact values, planning, rollouts, and the three domains."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learning_dynamics.parameterization import mdp
from learning_dynamics.parameterization.mdp import mountain_car
from learning_dynamics.parameterization.mdp.four_rooms import ABSORBING, GOAL, SIDE, WALLS


def random_process(seed, actions=3, states=6, discount=0.8):
    random = torch.Generator().manual_seed(seed)
    transitions = torch.rand(actions, states, states, generator=random, dtype=torch.float64)
    rewards = torch.randn(actions, states, generator=random, dtype=torch.float64)
    return mdp.MarkovDecisionProcess(
        transitions / transitions.sum(-1, keepdim=True),
        rewards,
        torch.eye(states, dtype=torch.float64),
        discount,
    )


def test_values_solve_the_bellman_equation_and_shift_with_the_offset():
    process = random_process(0)
    policy = torch.full((6, 3), 1 / 3, dtype=torch.float64)
    chain, rewards = process.under(policy)
    values = process.values(policy)
    assert torch.allclose(values, rewards + 0.8 * chain @ values)
    shifted = process.values(policy, torch.tensor([0.0, 1.0], dtype=torch.float64))
    assert shifted.shape == (2, 6)
    assert torch.allclose(shifted[1] - shifted[0], torch.full((6,), 5.0, dtype=torch.float64))


def test_values_are_the_mean_of_returns():
    process, policy = mdp.chain(), mdp.chain_policy()
    starts = torch.arange(11).repeat_interleave(2000)
    drawn = mdp.rollouts(process, policy, starts, 150, torch.Generator().manual_seed(3))
    returns = mdp.discounted_returns(drawn.rewards, 0.9)[:, 0].reshape(11, 2000)
    error = (returns.mean(1) - process.values(policy)) / (returns.std(1) / 2000**0.5)
    assert error.abs().max() < 4  # eleven standard normal numbers


@given(st.integers(0, 10**6))
def test_policy_iteration_and_value_iteration_agree(seed):
    process = random_process(seed)
    by_policy = mdp.policy_iteration(process.transitions, process.rewards, 0.8)
    by_value = mdp.value_iteration(process.transitions, process.rewards, 0.8, tolerance=1e-10)
    assert by_policy.converged and by_value.converged
    assert torch.allclose(by_policy.values, by_value.values, atol=1e-8)
    assert (by_policy.actions == by_value.actions).all()


def test_planning_is_batched():
    processes = [random_process(seed) for seed in range(5)]
    transitions = torch.stack([process.transitions for process in processes])
    rewards = torch.stack([process.rewards for process in processes])
    for plan in (mdp.policy_iteration, mdp.value_iteration):
        together = plan(transitions, rewards, 0.8)
        for i, process in enumerate(processes):
            alone = plan(process.transitions, process.rewards, 0.8)
            assert torch.allclose(together.values[i], alone.values, atol=1e-5)


def test_ties_do_not_keep_policy_iteration_going():
    transitions = torch.full((2, 3, 3), 1 / 3, dtype=torch.float64)
    plan = mdp.policy_iteration(transitions, torch.ones(2, 3, dtype=torch.float64), 0.9)
    assert plan.rounds == 1 and plan.converged
    assert torch.allclose(plan.values, torch.full((3,), 10.0, dtype=torch.float64))


def test_planning_that_runs_out_of_rounds_says_so():
    process = mdp.four_rooms()
    given_up = mdp.value_iteration(process.transitions, process.rewards, 0.99, sweeps=3)
    assert given_up.rounds == 3 and not given_up.converged
    given_up = mdp.policy_iteration(process.transitions, process.rewards, 0.99, solves=1)
    assert given_up.rounds == 1 and not given_up.converged


def test_returns_against_a_sum():
    rewards = torch.randn(4, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = torch.stack(
        [sum(0.7 ** (s - t) * rewards[:, s] for s in range(t, 9)) for t in range(9)], dim=-1
    )
    assert torch.allclose(mdp.discounted_returns(rewards, 0.7), expected)


def test_rollouts_follow_the_transitions():
    process = mdp.four_rooms()
    drawn = mdp.rollouts(
        process, mdp.four_rooms_policy(process), torch.arange(122), 40, torch.Generator().manual_seed(1)
    )
    before, after = drawn.states[:, :-1], drawn.states[:, 1:]
    assert (process.transitions[drawn.actions[:, :-1], before, after] > 0).all()
    again = mdp.rollouts(
        process, mdp.four_rooms_policy(process), torch.arange(122), 40, torch.Generator().manual_seed(1)
    )
    assert (drawn.states == again.states).all()


def test_chain():
    process = mdp.chain()
    assert process.rewards[0, 9] == 10 and process.rewards[1, 10] == 1 and process.rewards.sum() == 11
    described = mdp.chain(pays_on_the_way=True)
    assert (described.rewards[1, :10] == 1).all() and described.rewards[1, 10] == 0
    assert mdp.chain_policy()[3].tolist() == pytest.approx([0.95, 0.05])


def test_four_rooms():
    process = mdp.four_rooms()
    assert len(WALLS) == 17 and process.states == 122 and process.features.shape == (122, 121)
    walls = [SIDE * row + column for row, column in WALLS]
    free = [cell for cell in range(121) if cell not in walls]
    assert process.transitions[:, free][:, :, walls].sum() == 0  # no way in
    assert process.transitions[:, walls][:, :, free].sum() > 0  # but out
    goal = SIDE * GOAL[0] + GOAL[1]
    assert (process.transitions[:, goal, ABSORBING] == 1).all() and process.rewards.sum() == 4
    assert process.transitions[0, 11 * 10].tolist().count(0.0) == 122 - 3  # a corner: up, stay (twice), right
    values = process.values(mdp.four_rooms_policy(process))
    assert values[goal] == 1 and values[ABSORBING] == 0 and values[:121].max() == 1
    stays = mdp.four_rooms(slips=False)
    assert stays.transitions[0, 24, 24] == pytest.approx(1 / 3)


def test_mountain_car_moves_like_gymnasium():
    gymnasium = pytest.importorskip("gymnasium")
    environment = gymnasium.make("MountainCar-v0").unwrapped
    random = np.random.default_rng(0)
    for seed in range(5):
        environment.reset(seed=seed)
        environment.state = np.array([random.uniform(-1.2, 0.4), random.uniform(-0.07, 0.07)])
        ours = torch.tensor(environment.state)
        for _ in range(200):
            action = int(random.integers(3)) if seed % 2 else 0  # seed 0, 2, 4 run into the wall
            _, _, ended, *_ = environment.step(action)
            ours = mountain_car.move(ours, torch.tensor(action), wall_stops=True)
            assert np.allclose(ours.numpy(), environment.state, rtol=0, atol=1e-12)
            assert ended == bool(ours[0] >= mountain_car.GOAL and ours[1] >= 0)
            if ended:
                break


def test_mountain_car_moves_by_hand():
    after = mountain_car.move(torch.tensor([[-0.5, 0.01]], dtype=torch.float64), torch.tensor([2]))
    velocity = 0.01 + 0.001 - 0.0025 * np.cos(-1.5)
    assert after[0].tolist() == pytest.approx([-0.5 + velocity, velocity])


def test_mountain_car_released_and_gymnasium_rules_differ_only_at_the_limits():
    fast = torch.tensor([-1.0, 0.069], dtype=torch.float64)
    push = torch.tensor(2)
    released, other = mountain_car.move(fast, push), mountain_car.move(fast, push, wall_stops=True)
    assert released[1] == other[1] == 0.07 and released[0] > other[0]
    slow = torch.tensor([-0.4, 0.02], dtype=torch.float64)
    assert torch.equal(mountain_car.move(slow, push), mountain_car.move(slow, push, wall_stops=True))


def test_mountain_car_episodes():
    drawn = mountain_car.episodes(30, 200, torch.Generator().manual_seed(0))
    lengths = drawn.active.sum(1)
    arrived = lengths < 200
    assert arrived.any()
    assert ((drawn.observations[:, 0, 0] + 0.5).abs() <= 0.1).all() and (
        drawn.observations[:, 0, 1] == 0
    ).all()
    paid = -drawn.rewards.sum(1)
    assert torch.equal(paid[arrived], lengths[arrived].double() - 1)  # the last step is free


def test_mountain_car_pushes_forward_at_rest_and_along_the_velocity():
    drawn = mountain_car.episodes(20, 150, torch.Generator().manual_seed(0), epsilon=0.0)
    position, velocity = drawn.observations.unbind(-1)
    assert (velocity[:, 0] == 0).all()
    push = torch.where(velocity[:, :-1] < 0, -0.001, 0.001)
    expected = (velocity + 0.0)[:, :-1] + push - 0.0025 * torch.cos(3 * position[:, :-1])
    moves = drawn.active[:, 1:]
    assert torch.allclose(velocity[:, 1:][moves], expected.clamp(-0.07, 0.07)[moves])
    # by hand: cos(1.5) = 0.0707372, so a push moves a car at rest at -0.5 by 0.001 - 0.0025 * 0.0707372
    start = torch.tensor([-0.5, 0.0], dtype=torch.float64)
    assert mountain_car.move(start, torch.tensor(2))[1].item() == pytest.approx(8.231570e-4)
    assert 90 < drawn.active.sum(1).double().mean() < 130


def test_radial_features():
    observations = torch.tensor([[-1.2, -0.07], [0.6, 0.07], [-0.3, 0.0]], dtype=torch.float64)
    features = mountain_car.radial_features(observations)
    assert features.shape == (3, 400) and torch.allclose(features.sum(-1), torch.ones(3, dtype=torch.float64))
    assert features[0].argmax() == 0 and features[1].argmax() == 399
    assert features.min() > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"discount": 1.0}, "discount"),
        ({"discount": -0.1}, "discount"),
        ({"transitions": torch.full((2, 3, 3), 0.3)}, "transitions: row"),
        ({"transitions": torch.tensor([[1.5, -0.5, 0.0]]).expand(2, 3, 3)}, "transitions: row"),
        ({"rewards": torch.zeros(3, 3)}, "rewards has shape"),
        ({"rewards": torch.full((2, 3), torch.nan)}, "rewards"),
        ({"features": torch.zeros(2, 3)}, "features has shape"),
    ],
)
def test_wrong_processes(change, message):
    right = {
        "transitions": torch.full((2, 3, 3), 1 / 3),
        "rewards": torch.zeros(2, 3),
        "features": torch.eye(3),
        "discount": 0.9,
    }
    mdp.MarkovDecisionProcess(**right)
    with pytest.raises(ValueError, match=message) as raised:
        mdp.MarkovDecisionProcess(**(right | change))
    assert "\n" not in str(raised.value)


def test_other_wrong_arguments():
    process = random_process(0)
    generator = torch.Generator()
    policy = torch.full((6, 3), 1 / 3, dtype=torch.float64)
    with pytest.raises(ValueError, match="policy"):
        process.under(policy[:, :2])
    with pytest.raises(ValueError, match="policy has shape"):
        process.under(torch.full((5, 3), 1 / 3, dtype=torch.float64))
    with pytest.raises(ValueError, match="starts"):
        mdp.rollouts(process, policy, torch.tensor([6]), 3, generator)
    with pytest.raises(ValueError, match="steps"):
        mdp.rollouts(process, policy, torch.tensor([0]), 0, generator)
    with pytest.raises(ValueError, match="tolerance"):
        mdp.value_iteration(process.transitions, process.rewards, 0.8, tolerance=0.0)
    with pytest.raises(ValueError, match="sweeps"):
        mdp.value_iteration(process.transitions, process.rewards, 0.8, sweeps=0)
    with pytest.raises(ValueError, match="rewards has shape"):
        mdp.policy_iteration(process.transitions, process.rewards[:2], 0.8)
    with pytest.raises(ValueError, match="epsilon"):
        mdp.epsilon_greedy(torch.zeros(3, dtype=torch.int64), 2, 1.5, torch.float64)
    with pytest.raises(ValueError, match="action"):
        mountain_car.move(torch.zeros(2), torch.tensor(3))
    with pytest.raises(ValueError, match="count"):
        mountain_car.episodes(0, 5, generator)
    with pytest.raises(ValueError, match="epsilon"):
        mountain_car.episodes(1, 5, generator, epsilon=-1.0)
    with pytest.raises(ValueError, match="grid"):
        mountain_car.radial_features(torch.zeros(2), grid=1)


def test_a_singular_system_is_an_error():
    nearly = 1 - 2.0**-30  # rounds to 1 in float32
    with pytest.raises(ValueError, match="singular"):
        mdp.chain_values(torch.ones(1, 1), torch.ones(1), nearly)
