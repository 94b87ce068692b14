"""Population based bandits: the Gaussian process, its observations, and what copies explore."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from rlzoo.params.grid import Label
from rlzoo.params.search_parameters import Choice, Float, Int, SearchSpace
from rlzoo.tuning.pbt import bandit as bandit_module
from rlzoo.tuning.pbt.bandit import (
    EPSILONS,
    LENGTHS,
    NEWEST,
    NOISES,
    Array,
    Bandit,
    TimeVaryingGP,
    maximise,
    observations,
    standardise,
)
from rlzoo.tuning.pbt.population import (
    Explorer,
    Generation,
    Range,
    Start,
    first_generation,
    generator,
    next_generation,
    sample,
)
from rlzoo.tuning.space.search_space import Space

X = np.array([[0.1, 0.5], [0.4, 0.2], [0.9, 0.8]])
T = np.array([0.0, 1.0, 3.0])
Y = np.array([-1.0, 0.5, 0.8])


def correlation(a: Array, s: float, b: Array, t: float, length: float, epsilon: float) -> float:
    """The kernel for s^2 = 1, one pair at a time."""
    distance = float(np.mean((a - b) ** 2))
    return float(np.exp(-distance / (2 * length**2)) * (1 - epsilon) ** (abs(s - t) / 2))


def matrix(length: float, epsilon: float) -> Array:
    rows = [
        [correlation(a, s, b, t, length, epsilon) for b, t in zip(X, T, strict=True)]
        for a, s in zip(X, T, strict=True)
    ]
    return np.array(rows)


def test_posterior_is_that_of_the_equations() -> None:
    process = TimeVaryingGP(X, T, Y, length=0.4, epsilon=0.2, noise=0.1, variance=2.0)
    point, time = np.array([0.3, 0.4]), 4.0
    across = 2.0 * np.array([correlation(a, s, point, time, 0.4, 0.2) for a, s in zip(X, T, strict=True)])
    inverse = np.linalg.inv(2.0 * (matrix(0.4, 0.2) + 0.1 * np.eye(3)))
    mean, deviation = process.predict(point[None], np.array([time]))
    assert mean[0] == pytest.approx(across @ inverse @ Y, rel=1e-9)
    assert deviation[0] == pytest.approx(np.sqrt(2.0 - across @ inverse @ across), rel=1e-9)


def test_fit_maximises_the_marginal_likelihood() -> None:
    def likelihood(length: float, epsilon: float, noise: float) -> float:
        covariance = matrix(length, epsilon) + noise * np.eye(3)
        variance = Y @ np.linalg.solve(covariance, Y) / 3
        return float(multivariate_normal(np.zeros(3), variance * covariance).logpdf(Y))

    found = TimeVaryingGP.fit(X, T, Y)
    grid = [(length, epsilon, noise) for length in LENGTHS for epsilon in EPSILONS for noise in NOISES]
    best = max(likelihood(*values) for values in grid)
    assert likelihood(found.length, found.epsilon, found.noise) == pytest.approx(best)


def test_pending_points_lower_the_deviation_only() -> None:
    process = TimeVaryingGP(X, T, Y, length=0.4, epsilon=0.1, noise=0.1, variance=1.0)
    points, times = np.random.default_rng(0).random((5, 2)), np.full(5, 4.0)
    believed = process.believe(points[:1], times[:1])
    (mean, deviation), (after, lower) = process.predict(points, times), believed.predict(points, times)
    np.testing.assert_allclose(after, mean, atol=1e-12)
    assert (lower <= deviation + 1e-12).all() and lower[0] < 0.5 * deviation[0]


def test_observations_are_changes_since_the_parent() -> None:
    history = [
        [Generation(0, 0, 0, {"x": 1}, 5.0), Generation(1, 0, 1, {"x": 2}, 2.0)],
        [Generation(0, 1, 0, {"x": 1}, 6.0), Generation(1, 1, 0, {"x": 3}, 4.5)],
        [Generation(0, 2, 0, {"x": 1}, 6.5), Generation(1, 2, 1, {"x": 3}, 4.0)],
    ]
    found = [(each.interval, each.start.params["x"], each.change) for each in observations(history)]
    assert found == [(0, 1, 3.0), (0, 2, 0.0), (1, 1, 1.0), (1, 3, -0.5), (2, 1, 0.5), (2, 3, -0.5)]


def test_failed_members_are_observed_with_the_lowest_change() -> None:
    history = [
        [Generation(0, 0, 0, {"x": 1}, 5.0), Generation(1, 0, 1, {"x": 2}, None)],
        [Generation(0, 1, 0, {"x": 1}, None), Generation(1, 1, 0, {"x": 3}, 4.0)],
    ]
    found = [(each.interval, each.start.params["x"], each.change) for each in observations(history)]
    assert found == [(0, 1, 0.0), (0, 2, -1.0), (1, 1, -1.0), (1, 3, -1.0)]
    assert observations([[Generation(0, 0, 0, {"x": 1}, None)]]) == []


def test_outliers_are_not_the_change_of_failed_members() -> None:
    members = [Generation(number, 0, number, {}, float(number)) for number in range(20)]
    diverged = [*(replace(member, interval=1, value=2.0 * member.member) for member in members[:19])]
    diverged.append(Generation(19, 1, 19, {}, -1e6))
    failed = [Generation(number, 2, 0, {}, None) for number in range(20)]
    assert all(-100 < each.change < 0 for each in observations([members, diverged, failed])[-20:])


def test_values_that_fail_are_avoided() -> None:
    """Learning rates above 0.01 fail, and the highest below it improves most."""
    space, failures = Space({"learning_rate": Float(1e-5, 1e-1, log=True)}), 0
    for seed in range(3):
        members, history = first_generation(space, 8, seed), []
        for _ in range(8):
            for member in members:
                place = np.log10(float(str(member.params["learning_rate"])))
                before = history[-1][member.parent].value if history else 0.0
                member.value = None if place > -2 else (before or 0.0) + 1 - abs(place + 2.2)
            failures += sum(member.value is None for member in members) if history else 0
            history.append(members)
            members = next_generation(space, members, seed, Bandit(space, history))
    assert failures < 25, failures


def test_outliers_do_not_hide_differences() -> None:
    scaled = standardise(np.array([1.0, 2.0, 3.0, 2.0, 1.0, 2.0, 3.0, 2.0, 1.0, 3.0, -1e6]))
    assert scaled[2] - scaled[0] > 0.5 and abs(scaled.mean()) < 1e-9
    assert standardise(np.ones(3)).tolist() == [0.0, 0.0, 0.0]


def test_a_single_change_among_equal_ones_is_kept() -> None:
    scaled = standardise(np.array([0.0] * 19 + [100.0]))
    assert scaled.std() == pytest.approx(1.0) and scaled[-1] == pytest.approx(np.sqrt(19))


@pytest.mark.parametrize(
    "found",
    [Range(1e-5, 1e-1, log=True), Range(-2.0, 3.0), Range(1, 20, True, 1, True), Range(0.0, 1.0, step=0.25)],
)
def test_positions_in_a_range_are_inverse(found: Range) -> None:
    for place in (0.0, 0.3, 1.0):
        value = found.value(place)
        assert found.low <= value <= found.high
        assert found.value(found.position(value)) == pytest.approx(value)
    assert (found.value(0.0), found.value(1.0)) == (pytest.approx(found.low), pytest.approx(found.high))


@pytest.mark.parametrize(
    ("found", "last"),
    [
        (Range(1, 12, step=4, integer=True), 9),
        (Range(1, 13, step=4, integer=True), 13),
        (Range(0.0, 1.0, step=0.4), 0.8),
        (Range(0.0, 0.3, step=0.1), 0.3),  # 0.3 / 0.1 is below 3
    ],
)
def test_no_value_lies_beyond_the_last_step(found: Range, last: float) -> None:
    assert found.snap(found.high) == found.snap(found.high + 1) == found.value(1.0) == pytest.approx(last)
    assert found.snap(found.low - 1) == found.low


def test_maximum_in_the_cube_is_found() -> None:
    peak = np.array([0.2, 0.7, 1.0])
    best = maximise(
        lambda x: -np.square(x - peak).sum(-1), np.full(3, 0.5), np.random.default_rng(0)
    )  # in a corner of one dimension
    assert np.abs(best - peak).max() < 0.02


SPACE = Space(
    {
        "learning_rate": Float(1e-5, 1e-1, log=True),
        "n_epochs": Int(1, 20, log=True),
        "policy_kwargs.net_arch": Choice("small", "large"),
        "target_kl": Choice(0.1, 0.2),
    }
)


def test_copies_keep_to_the_space() -> None:
    first = first_generation(SPACE, 6, seed=1)
    history = [[replace(member, value=float(member.member)) for member in first]]
    parent, explore = history[0][5], Bandit(SPACE, history)
    pending = [Start(member.params, float(member.member)) for member in history[0]]
    for number in range(5):
        params = explore(parent, generator(1, 1, number), pending)
        assert params == explore(parent, generator(1, 1, number), pending)
        assert isinstance(params["n_epochs"], int) and 1 <= params["n_epochs"] <= 20
        assert 1e-5 <= float(str(params["learning_rate"])) <= 1e-1
        assert params["policy_kwargs.net_arch"] == parent.params["policy_kwargs.net_arch"]
        assert params["target_kl"] in (0.1, 0.2)


def intervals(n_intervals: int, size: int) -> list[list[Generation]]:
    """A history without exploration; every member improves by its number in each interval."""
    first = first_generation(SPACE, size, seed=1)
    return [
        [replace(each, interval=t, value=float((t + 1) * each.member)) for each in first]
        for t in range(n_intervals)
    ]


def test_confidence_bound_is_that_of_the_next_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    history, times, bounds = intervals(3, size=4), [], []

    def predict(process: TimeVaryingGP, x: Array, t: Array) -> tuple[Array, Array]:
        times.extend(t.tolist())
        return np.zeros(len(x)), np.ones(len(x))

    def maximum(score: Callable[[Array], Array], start: Array, rng: np.random.Generator) -> Array:
        bounds.extend(score(np.stack([start, start])).tolist())
        return start

    monkeypatch.setattr(TimeVaryingGP, "predict", predict)
    monkeypatch.setattr(bandit_module, "maximise", maximum)
    pending = [Start(history[2][1].params, 3.0)]
    Bandit(SPACE, history)(history[2][3], generator(1, 3, 0), pending)
    assert times == [3.0] * 3  # the pending member, then two candidates
    assert bounds == pytest.approx([np.sqrt(0.2 + np.log(0.4 * 12))] * 2)


def test_oldest_observations_are_dropped() -> None:
    history = intervals(NEWEST // 10 + 2, size=10)
    found = Bandit(SPACE, history).observations
    assert found == observations(history)[20:] and len(found) == NEWEST
    assert {found[0].interval, found[-1].interval} == {2, len(history) - 1}


def distance(seed: int, pending: bool) -> float:
    """Distance between the learning rates of two copies in one interval, in powers of ten."""
    members = first_generation(SPACE, 8, seed)
    members = [replace(member, value=float(member.member)) for member in members]
    bandit = Bandit(SPACE, [members])
    following = next_generation(
        SPACE, members, seed, bandit if pending else lambda parent, rng, _: bandit(parent, rng, [])
    )
    copies = [member.params for member in following if member.parent != member.member]
    first, second = (np.log10(float(str(params["learning_rate"]))) for params in copies)
    return float(abs(first - second))


def test_replaced_members_explore_different_values() -> None:
    known, unknown = (sum(distance(seed, pending) for seed in range(12)) for pending in (True, False))
    assert known > 2 * unknown, (known, unknown)


DRIFT: SearchSpace = {"gamma": Float(0.0, 1.0), "ent_coef": Float(0.0, 1.0)}


def draw(parent: Generation, rng: np.random.Generator, pending: Sequence[Start]) -> dict[str, Label]:
    """Explore by random draws."""
    explorer = Explorer(rng, {})
    sample(Space(DRIFT), explorer)
    return explorer.params


def regret(bandit: bool, seed: int) -> float:
    """Sum of what 4 members lose in 20 intervals against the best value, which moves."""
    space, noise, lost = Space(DRIFT), np.random.default_rng(seed), 0.0
    members, history = first_generation(space, 4, seed), []
    values = [0.0] * 4
    for interval in range(20):
        before = list(values)
        for member in members:
            x = np.array([float(str(value)) for value in member.params.values()])
            loss = float(np.square(x - [0.1 + 0.04 * interval, 0.7]).sum())
            lost += loss
            values[member.member] = before[member.parent] + 1.0 - 2.0 * loss + noise.normal(0, 0.05)
            member.value = values[member.member]
        history.append(members)
        members = next_generation(space, members, seed, Bandit(space, history) if bandit else draw)
    return lost


def test_regret_is_below_that_of_random_exploration() -> None:
    pairs = [(regret(True, seed), regret(False, seed)) for seed in range(4)]
    assert sum(ours for ours, _ in pairs) < 0.8 * sum(others for _, others in pairs), pairs
