"""Compare every exported agent with the agent itself, and print the table of scripts/export_results.md.

    python scripts/export_table.py              # all shipped agents; needs the extras onnx, robotics
    python scripts/export_table.py ppo/CartPole-v1 -n 200

Each agent plays N steps in its own environment (half of its actions are random, so that it sees more than its
usual path). The observations, as the environment showed them, go through the exported file, and what comes
out is compared with `model.predict(deterministic=True)` of the same observations behind VecNormalize: all of
them as one batch, and one by one. A recurrent policy is given the agent's own state at each step.

A discrete action may differ where two actions are valued the same to 1e-5, as rounding then decides: a tie.
"predict" compares the agent with itself, one by one with a batch: two files cannot agree better than that.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from gymnasium import spaces

from rlzoo.config.hyperparams import lookup, shipped_path
from rlzoo.core.runtime import set_random_seed
from rlzoo.envs.action_masks import get_action_masks
from rlzoo.envs.single_env.registration import ensure_registered
from rlzoo.envs.vec_wrappers.vec_normalize import unwrap_vec_normalize
from rlzoo.experiment.factories import build_evaluation_env, load_model
from rlzoo.experiment.resolve import resolve_config
from rlzoo.export.exporter import export_model
from rlzoo.export.policy_module import MASKS, STARTS, STATES, PolicyModule
from rlzoo.runs import run_folder

TIE = 1e-5
COLUMNS = (
    "agent", "inputs", "action", "normalised", "ONNX, batch", "ONNX, one by one", "TorchScript, batch",
    "state", "predict", "size",
)  # fmt: skip


class Visits:
    """What an agent saw and did: `fed` goes into a file, `seen` into `predict`."""

    def __init__(self, model: Any, module: PolicyModule, n_steps: int) -> None:
        self.fed: dict[str, list[np.ndarray]] = {port.name: [] for port in module.inputs}
        self.seen: list[Any] = []
        self.actions: list[np.ndarray] = []
        venv = model.env
        rng = np.random.default_rng(0)
        venv.action_space.seed(0)
        venv.seed(0)
        obs, state, starts = venv.reset(), None, np.ones(1, bool)
        for _ in range(n_steps):
            masks = {MASKS: get_action_masks(venv)} if module.is_masked else {}
            self._feed(raw_observation(venv, obs, module), masks, state, starts, module)
            self.seen.append(_copied(obs))
            action, state = model.predict(obs, state, episode_start=starts, deterministic=True, **masks)
            self.actions.append(action)
            if not module.is_masked and rng.random() < 0.5:
                action = np.array([venv.action_space.sample()])
            obs, _, starts, _ = venv.step(action)

    def _feed(self, raw: Any, masks: Any, state: Any, starts: np.ndarray, module: PolicyModule) -> None:
        values = {**raw, **{name: np.asarray(mask) for name, mask in masks.items()}}
        if module.is_recurrent:
            shape = [1 if size == "batch" else size for size in module.inputs[-2].shape]
            h_and_c = [np.zeros(shape, np.float32)] * 2 if state is None else state
            values |= {**dict(zip(STATES, h_and_c, strict=True)), STARTS: starts.copy()}
        for port in module.inputs:
            self.fed[port.name].append(np.array(values[port.name], port.dtype))

    def batch(self, module: PolicyModule, rows: slice = slice(None)) -> dict[str, np.ndarray]:
        """The inputs of these steps."""
        return {
            port.name: np.concatenate(self.fed[port.name][rows], port.batch_axis) for port in module.inputs
        }


def _copied(obs: Any) -> Any:
    return {key: array.copy() for key, array in obs.items()} if isinstance(obs, dict) else obs.copy()


def raw_observation(venv: Any, obs: Any, module: PolicyModule) -> dict[str, np.ndarray]:
    """The present observation as the environment gave it."""
    normalize = unwrap_vec_normalize(venv)
    below = obs if normalize is None or not normalize.norm_obs else normalize.old_obs
    named = below if module.is_dict else {"observation": below}
    if below is not obs:
        return dict(named)
    turned = {name for name, part in module.parts.items() if part.channels_last}
    return {name: np.moveaxis(array, -3, -1) if name in turned else array for name, array in named.items()}


def compare(model: Any, folder: Path, n_steps: int) -> dict[str, Any]:
    """Export an agent as ONNX and TorchScript, and compare both with it."""
    module = PolicyModule(model)
    visits = Visits(model, module, n_steps)
    path = export_model(model, folder / "policy.onnx")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    traced = torch.jit.load(export_model(model, folder / "policy.pt", to="torchscript"))
    everything = visits.batch(module)
    alone = np.concatenate(visits.actions)
    together, state = predict_batch(model, visits, everything, module)
    in_batch = session.run(None, everything)
    one_by_one = [session.run(None, visits.batch(module, slice(i, i + 1)))[0] for i in range(n_steps)]
    from_torch = traced(*(torch.from_numpy(everything[port.name]) for port in module.inputs))
    from_torch = from_torch[0] if isinstance(from_torch, tuple) else from_torch

    def verdict(actions: np.ndarray, expected: np.ndarray) -> str:
        return _verdict(actions, expected, model, visits, module)

    return {
        "onnx": verdict(in_batch[0], together),
        "onnx_single": verdict(np.concatenate(one_by_one), alone),
        "torchscript": verdict(from_torch.numpy(), together),
        "state": "-" if state is None else f"{max(map(_apart, in_batch[1:], state)):.1e}",
        "predict": verdict(together, alone),
        "bytes": path.stat().st_size,
        "module": module,
    }


def predict_batch(model: Any, visits: Visits, fed: dict[str, np.ndarray], module: PolicyModule) -> Any:
    """What the agent does with all observations at once, and its state afterwards."""
    first = visits.seen[0]
    if isinstance(first, dict):
        obs: Any = {key: np.concatenate([one[key] for one in visits.seen]) for key in first}
    else:
        obs = np.concatenate(visits.seen)
    given: dict[str, Any] = {MASKS: fed[MASKS]} if module.is_masked else {}
    if module.is_recurrent:
        given = {"state": tuple(fed[name] for name in STATES), "episode_start": fed[STARTS]}
    return model.predict(obs, deterministic=True, **given)


def _verdict(actions: np.ndarray, expected: np.ndarray, model: Any, visits: Visits, module: Any) -> str:
    """The largest difference; how many discrete actions differ."""
    difference = _apart(actions, expected)
    if isinstance(model.action_space, spaces.Box):
        return f"{difference:.1e}"
    rows = np.flatnonzero((actions != expected).reshape(len(expected), -1).any(axis=1))
    ties = [row for row in rows if _is_tie(model, visits, row, module)]
    return f"{len(rows)} differ" + (f", {len(ties)} of them ties" if len(rows) else "")


def _apart(ours: np.ndarray, theirs: np.ndarray) -> float:
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, (ours.shape, ours.dtype, theirs.dtype)
    return float(np.abs(ours.astype(np.float64) - theirs).max())


def _is_tie(model: Any, visits: Visits, row: int, module: PolicyModule) -> bool:
    """Whether the two best actions of a step are valued the same."""
    policy, fed = model.policy, {name: arrays[row] for name, arrays in visits.fed.items()}
    obs, _ = policy.obs_to_tensor(visits.seen[row])
    with torch.no_grad():
        if hasattr(policy, "q_values"):
            values = policy.q_values(obs)
        elif module.is_recurrent:
            rnn_state = policy.rnn_state_from([fed[name] for name in STATES], fed[STARTS], 1)
            values = policy.get_distribution(obs, rnn_state=rnn_state).logits
        else:
            masks = [torch.from_numpy(fed[MASKS])] if module.is_masked else []
            values = policy.get_distribution(obs, *masks).logits
    first, second = values.topk(2).values.flatten()[:2].tolist()
    return bool(first - second < TIE)


def row_of(algo: str, env_id: str, result: dict[str, Any]) -> str:
    """A row of the table."""
    module = result["module"]
    observed = [port for port in module.inputs if port.name in module.parts]
    named = [f"{port.name} {'x'.join(map(str, port.shape[1:])) or 'one'} {port.dtype}" for port in observed]
    named += [port.name for port in module.inputs if port not in observed]
    normalized = any(part.scaling is not None for part in module.parts.values())
    cells = (
        f"{algo} {env_id}",
        ", ".join(named),
        type(module.policy.action_space).__name__,
        "yes" if normalized else "no",
        *(result[name] for name in ("onnx", "onnx_single", "torchscript", "state", "predict")),
        f"{result['bytes'] / 1000:,.0f} kB",
    )
    return f"| {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("agents", nargs="*", metavar="ALGO/ENV", help="default: all shipped agents")
    parser.add_argument("-n", "--n-steps", type=int, default=1000)
    args = parser.parse_args()
    torch.set_num_threads(1)
    root = shipped_path("trained_agents")
    entries = json.loads((root / "registry.json").read_text())
    chosen = [e for e in entries if not args.agents or f"{e['algo']}/{e['env_id']}" in args.agents]
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    failed = 0
    for entry in chosen:
        algo, env_id = entry["algo"], entry["env_id"]
        try:
            ensure_registered(env_id)
            run = root / entry["path"]
            values = lookup(algo, env_id, run_folder.config_path(run, env_id)).values
            resolved = resolve_config(algo, values, trusted=False)
            set_random_seed(0)
            venv = build_evaluation_env(resolved, env_id, 1, 0, "dummy")
            with tempfile.TemporaryDirectory() as folder:
                model = load_model(resolved, run_folder.model_path(run, env_id), venv, "cpu")
                result = compare(model, Path(folder), args.n_steps)
            venv.close()
            print(row_of(algo, env_id, result), flush=True)
        except Exception:
            failed += 1
            print(f"| {algo} {env_id} | failed |", flush=True)
            traceback.print_exc()
    print(f"\n{len(chosen) - failed} of {len(chosen)} agents", file=sys.stderr)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
