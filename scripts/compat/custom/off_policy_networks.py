"""Choose the networks of off-policy algorithms."""

from stable_baselines3 import DQN, SAC, TD3
from stable_baselines3.common.torch_layers import create_mlp
from torch import nn

sizes = {"net_arch": {"pi": [16], "qf": [32, 32]}, "n_critics": 3, "activation_fn": nn.Tanh}
sac = SAC("MlpPolicy", "Pendulum-v1", policy_kwargs=sizes, learning_starts=10, batch_size=8).learn(20)
assert len(sac.critic.q_networks) == 3
linear = [layer for layer in sac.critic.q_networks[0] if isinstance(layer, nn.Linear)]
assert [layer.in_features for layer in linear] == [4, 32, 32]
assert sac.actor.mu.in_features == 16 and sac.actor.log_std.out_features == 1

td3 = TD3("MlpPolicy", "Pendulum-v1", policy_kwargs={"net_arch": [24, 24]})
assert td3.actor.mu[0].out_features == 24
assert td3.critic_target is td3.policy.critic_target and td3.actor_target is td3.policy.actor_target

dqn = DQN("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [8], "activation_fn": nn.ELU})
assert [type(layer).__name__ for layer in dqn.q_net.q_net] == ["Linear", "ELU", "Linear"]
assert dqn.q_net_target is dqn.policy.q_net_target
layers = create_mlp(3, 2, [5], nn.ReLU, squash_output=True)
assert [type(layer).__name__ for layer in layers] == ["Linear", "ReLU", "Linear", "Tanh"]
