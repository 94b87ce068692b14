"""Learn a goal-conditioned task with hindsight experience replay."""

import numpy as np
from stable_baselines3 import DQN, HerReplayBuffer
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.her.goal_selection_strategy import GoalSelectionStrategy

env = Monitor(BitFlippingEnv(n_bits=4, continuous=False, max_steps=4))
model = DQN(
    "MultiInputPolicy",
    env,
    replay_buffer_class=HerReplayBuffer,
    replay_buffer_kwargs={"n_sampled_goal": 4, "goal_selection_strategy": "future"},
    learning_starts=100,
    learning_rate=1e-3,
    train_freq=1,
    exploration_fraction=0.5,
    seed=0,
)
model.learn(1_500)
assert isinstance(model.replay_buffer, HerReplayBuffer)
assert model.replay_buffer.goal_selection_strategy == GoalSelectionStrategy.FUTURE
batch = model.replay_buffer.sample(32)
assert set(batch.observations) == {"observation", "achieved_goal", "desired_goal"}
mean, _ = evaluate_policy(model, model.get_env(), n_eval_episodes=20)
assert mean > -4

model.save("her_agent")
loaded = DQN.load("her_agent", env=env)  # HER needs the environment's compute_reward
obs = loaded.get_env().reset()
assert loaded.predict(obs, deterministic=True)[0].shape == (1,)
assert np.isin(loaded.predict(obs)[0], range(4)).all()
