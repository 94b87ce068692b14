"""Check that this checkout trains the same agents as another commit: equal parameters, bit for bit.

    python scripts/same_as.py HEAD~20
    python scripts/same_as.py COMMIT --cases ppo sac --seeds 0

Every case is trained for some thousand steps, once with each checkout, in a process with one thread. The
commit is checked out into a temporary worktree. The parameters of both agents are then compared by their
bytes, independent of the names of the tensors. Exits with 1 if any differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def cases() -> dict[str, Callable[[int], Any]]:
    """Name -> function of the seed that returns a trained agent."""
    import rlzoo

    small = {"policy_kwargs": {"net_arch": [64, 64]}}
    replay = {"learning_starts": 200, "buffer_size": 5_000, **small}
    images = {"policy_kwargs": {"features_extractor_kwargs": {"features_dim": 64}}}

    def train(algorithm: str, env: Any, steps: int, policy: str = "MlpPolicy", **kwargs: Any):
        def run(seed: int) -> Any:
            made = env() if callable(env) else env
            return getattr(rlzoo, algorithm)(policy, made, seed=seed, device="cpu", **kwargs).learn(steps)

        return run

    def imitate(algorithm: str, steps: int, **kwargs: Any):
        def run(seed: int) -> Any:
            with tempfile.TemporaryDirectory() as folder:
                expert = rlzoo.PPO("MlpPolicy", "CartPole-v1", seed=seed, device="cpu").learn(2_048)
                path = os.path.join(folder, "expert.npz")
                rlzoo.generate_expert_traj(expert, path, n_episodes=5)
                return getattr(rlzoo, algorithm)(
                    "MlpPolicy", "CartPole-v1", rlzoo.ExpertDataset(path), seed=seed, device="cpu", **kwargs
                ).learn(steps)

        return run

    vector = lambda env_id, n: lambda: rlzoo.make_vec_env(env_id, n_envs=n, seed=7)  # noqa: E731
    image_env = lambda: rlzoo.FakeImageEnv(screen_height=36, screen_width=36, n_channels=1)  # noqa: E731
    return {
        "a2c": train("A2C", vector("CartPole-v1", 4), 3_000),
        "a2c-cnn": train("A2C", image_env, 200, "CnnPolicy", **images),
        "acer": train("ACER", vector("CartPole-v1", 2), 2_000),
        "acktr": train("ACKTR", vector("CartPole-v1", 4), 3_000),
        "ars": train("ARS", "Pendulum-v1", 6_000),
        "bc": imitate("BC", 2_000),
        "crossq": train("CrossQ", "Pendulum-v1", 700, **replay),
        "ddpg": train("DDPG", "Pendulum-v1", 1_000, **replay),
        "dqn": train("DQN", "CartPole-v1", 3_000, train_freq=4, **replay),
        "dqn-cnn": train("DQN", image_env, 300, "CnnPolicy", learning_starts=50, buffer_size=500, **images),
        "gail": imitate("GAIL", 2_048),
        "her": train(
            "DQN",
            lambda: rlzoo.BitFlippingEnv(n_bits=6, continuous=False),
            1_500,
            "MultiInputPolicy",
            replay_buffer_class=rlzoo.HerReplayBuffer,
            **replay,
        ),
        "ppo": train("PPO", vector("CartPole-v1", 4), 6_000, n_steps=256),
        "ppo-box": train("PPO", "Pendulum-v1", 4_000, n_steps=512, use_sde=True),
        "ppo-normalized": train(
            "PPO", lambda: rlzoo.VecNormalize(rlzoo.make_vec_env("Pendulum-v1", n_envs=2)), 4_000, n_steps=256
        ),
        "ppo-lstm": train("RecurrentPPO", "CartPole-v1", 1_500, "MlpLstmPolicy", n_steps=256),
        "ppo-mask": train("MaskablePPO", lambda: rlzoo.InvalidActionEnvDiscrete(dim=8), 3_000, n_steps=256),
        "qrdqn": train("QRDQN", "CartPole-v1", 2_000, **replay),
        "sac": train("SAC", "Pendulum-v1", 1_200, **replay),
        "sac-sde": train("SAC", "Pendulum-v1", 800, use_sde=True, **replay),
        "td3": train("TD3", "Pendulum-v1", 1_500, **replay),
        "tqc": train("TQC", "Pendulum-v1", 800, **replay),
        "trpo": train("TRPO", "Pendulum-v1", 4_000, n_steps=512),
    }


def fingerprint(model: Any) -> dict[str, Any]:
    """The digests of all tensors of the policy, sorted, and their sum, for the reader."""
    tensors = [tensor.detach().cpu().numpy() for tensor in model.policy.state_dict().values()]
    return {
        "tensors": sorted(hashlib.sha256(tensor.tobytes()).hexdigest()[:16] for tensor in tensors),
        "sum": float(sum(abs(tensor.astype("float64")).sum() for tensor in tensors)),
        "steps": model.num_timesteps,
    }


def trained(checkout: Path, name: str, seed: int) -> dict[str, Any]:
    """Train one case with one checkout in a process and return its fingerprint, or its error."""
    one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": str(checkout)}
    command = [sys.executable, "-W", "ignore", __file__, "--worker", name, str(seed)]
    done = subprocess.run(
        command, cwd=checkout, env={**os.environ, **one_thread}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no output"])[-1]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def compare(commit: str, names: list[str], seeds: list[int]) -> int:
    """Print a line for each case and seed; return the number of those that differ."""
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "before"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "-q", "--detach", before, commit], check=True)
        try:
            for name in names:
                for seed in seeds:
                    old, new = (trained(checkout, name, seed) for checkout in (before, ROOT))
                    same = old == new and "error" not in new
                    different += not same
                    print(
                        f"{name:16}seed {seed}  {'equal' if same else f'DIFFERENT: {old} {new}'}", flush=True
                    )
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", before], check=True)
    return different


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        import torch

        torch.set_num_threads(1)
        print(json.dumps(fingerprint(cases()[sys.argv[2]](int(sys.argv[3])))))
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    sys.path.insert(0, str(ROOT))
    parser.add_argument("commit", help="what to compare with, such as HEAD~1")
    parser.add_argument("--cases", nargs="+", choices=list(cases()), default=list(cases()), metavar="CASE")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    args = parser.parse_args()
    return int(compare(args.commit, args.cases, args.seeds) > 0)


if __name__ == "__main__":
    sys.exit(main())
