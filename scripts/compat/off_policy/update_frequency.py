"""Choose how often an off-policy algorithm updates, with one and with several environments."""

from stable_baselines3 import DQN, SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.type_aliases import TrainFreq, TrainFrequencyUnit

model = SAC(
    "MlpPolicy", "Pendulum-v1", train_freq=(1, "episode"), gradient_steps=3, learning_starts=100, batch_size=8
)
model.learn(400)
assert model.train_freq == TrainFreq(1, TrainFrequencyUnit.EPISODE)
assert model.num_timesteps == 400
assert model.logger.name_to_value.get("train/n_updates", 6) == 6

venv = make_vec_env("Pendulum-v1", n_envs=2)
many = SAC("MlpPolicy", venv, train_freq=1, gradient_steps=-1, learning_starts=20, batch_size=8).learn(60)
assert many.train_freq.frequency == 1 and many.gradient_steps == -1

dqn = DQN(
    "MlpPolicy",
    "CartPole-v1",
    buffer_size=200,
    optimize_memory_usage=True,
    replay_buffer_kwargs={"handle_timeout_termination": False},
    learning_starts=10,
    target_update_interval=20,
    tau=0.5,
    max_grad_norm=1.0,
)
dqn.learn(80)
assert dqn.replay_buffer.optimize_memory_usage
assert dqn.train_freq.unit == TrainFrequencyUnit.STEP
