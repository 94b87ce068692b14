"""Use the action distributions alone."""

import torch
from gymnasium import spaces
from stable_baselines3.common.distributions import (
    BernoulliDistribution,
    CategoricalDistribution,
    DiagGaussianDistribution,
    MultiCategoricalDistribution,
    SquashedDiagGaussianDistribution,
    kl_divergence,
    make_proba_distribution,
)

torch.manual_seed(0)
gauss = DiagGaussianDistribution(2)
mean_net, log_std = gauss.proba_distribution_net(latent_dim=3, log_std_init=-1.0)
mean = mean_net(torch.ones(4, 3))
gauss = gauss.proba_distribution(mean, log_std)
assert torch.equal(gauss.get_actions(deterministic=True), mean)
assert gauss.log_prob(gauss.sample()).shape == (4,) and gauss.entropy().shape == (4,)

squashed = SquashedDiagGaussianDistribution(2)
actions, log_prob = squashed.log_prob_from_params(torch.zeros(4, 2), torch.zeros(4, 2))
assert actions.abs().max() < 1 and log_prob.shape == (4,)

choice = CategoricalDistribution(3).proba_distribution(torch.tensor([[0.0, 0.0, 9.0]]))
assert choice.mode().item() == 2
flat = CategoricalDistribution(3).proba_distribution(torch.zeros(1, 3))
assert kl_divergence(flat, choice).item() > 0

several = make_proba_distribution(spaces.MultiDiscrete([2, 3]))
assert isinstance(several, MultiCategoricalDistribution)
assert several.proba_distribution(torch.zeros(5, 5)).sample().shape == (5, 2)
bits = make_proba_distribution(spaces.MultiBinary(4))
assert isinstance(bits, BernoulliDistribution)
assert bits.proba_distribution(torch.zeros(5, 4)).log_prob(torch.ones(5, 4)).shape == (5,)
