"""Improve the parameters of an agent by random mutation."""

import gymnasium as gym
import torch
from stable_baselines3 import A2C
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor


def mutate(params: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: param + 0.3 * torch.randn_like(param) for name, param in params.items()}


env = Monitor(gym.make("CartPole-v1"))
model = A2C("MlpPolicy", env, ent_coef=0.0, policy_kwargs={"net_arch": [16]}, seed=1)
start = {
    key: value
    for key, value in model.policy.state_dict().items()
    if "policy" in key or "shared" in key or "action" in key
}
assert start
start_score, _ = evaluate_policy(model, env, n_eval_episodes=3)
scores = []
for _ in range(3):
    population = []
    for _ in range(6):
        candidate = mutate(start)
        model.policy.load_state_dict(candidate, strict=False)
        population.append((evaluate_policy(model, env, n_eval_episodes=2)[0], candidate))
    population.sort(key=lambda pair: pair[0], reverse=True)
    start = {name: torch.stack([best[name] for _, best in population[:3]]).mean(dim=0) for name in start}
    scores.append(population[0][0])
assert len(scores) == 3 and max(scores) > 8
everything = model.get_parameters()
everything["policy"] = dict(everything["policy"], **start)
model.set_parameters(everything)
assert torch.equal(model.policy.state_dict()["action_net.weight"], start["action_net.weight"])
