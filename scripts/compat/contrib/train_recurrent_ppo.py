"""Train a policy with an LSTM, and keep its state while predicting."""

import numpy as np
from sb3_contrib import RecurrentPPO
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.evaluation import evaluate_policy

kwargs = {"lstm_hidden_size": 16, "n_lstm_layers": 1, "enable_critic_lstm": True, "net_arch": [16]}
model = RecurrentPPO(
    "MlpLstmPolicy", "CartPole-v1", n_steps=64, batch_size=32, n_epochs=2, policy_kwargs=kwargs, verbose=1
)
model.learn(128)
assert isinstance(model.policy, RecurrentActorCriticPolicy)
venv = model.get_env()
evaluate_policy(model, venv, n_eval_episodes=2, warn=False)
model.save("recurrent")
model = RecurrentPPO.load("recurrent")

obs = venv.reset()
lstm_states = None
episode_starts = np.ones((venv.num_envs,), dtype=bool)
for _ in range(40):
    action, lstm_states = model.predict(
        obs, state=lstm_states, episode_start=episode_starts, deterministic=True
    )
    obs, rewards, dones, infos = venv.step(action)
    episode_starts = dones
assert len(lstm_states) == 2 and lstm_states[0].shape == (1, 1, 16)
assert model.policy.lstm_actor.hidden_size == 16
