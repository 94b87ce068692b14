"""A recurrent policy for a task that hides what matters: CartPole without velocities.

python examples/recurrent.py
"""

import sys

import numpy as np

from rlzoo import RecurrentPPO, evaluate_policy, make_vec_env


def main(steps: int = 100_000) -> float:
    env = make_vec_env("CartPoleNoVel-v1", n_envs=8, seed=0)
    model = RecurrentPPO(
        "MlpLstmPolicy",
        env,
        n_steps=128,
        batch_size=256,
        n_epochs=10,
        gae_lambda=0.8,
        gamma=0.98,
        learning_rate="lin_1e-3",
        policy_kwargs={"lstm_hidden_size": 32, "enable_critic_lstm": True},
        seed=0,
    )
    model.learn(steps)
    mean, std = evaluate_policy(model, make_vec_env("CartPoleNoVel-v1", n_envs=4, seed=1_000))
    print(f"return {mean:.1f} +/- {std:.1f}")

    # Playing by hand: pass the recurrent state on, and say where episodes begin.
    obs, state = env.reset(), None
    episode_start = np.ones(env.num_envs, dtype=bool)
    for _ in range(100):
        actions, state = model.predict(obs, state=state, episode_start=episode_start, deterministic=True)
        obs, _, episode_start, _ = env.step(actions)
    return mean


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
