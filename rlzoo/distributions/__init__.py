"""Action distributions: sample, mode, log_prob, entropy, kl."""

from rlzoo.distributions.distribution import (
    Bernoulli,
    Categorical,
    DiagGaussian,
    Distribution,
    MultiCategorical,
    StateDependentNoise,
    kl_divergence,
    make_proba_distribution,
    sum_independent_dims,
)
from rlzoo.distributions.masked import (
    MaskableBernoulliDistribution,
    MaskableCategorical,
    MaskableCategoricalDistribution,
    MaskableMultiCategoricalDistribution,
    make_masked_proba_distribution,
)
from rlzoo.distributions.squashed_gaussian import SquashedDiagGaussian, TanhBijector

# names in stable-baselines3
DiagGaussianDistribution = DiagGaussian
SquashedDiagGaussianDistribution = SquashedDiagGaussian
CategoricalDistribution = Categorical
MultiCategoricalDistribution = MultiCategorical
BernoulliDistribution = Bernoulli
StateDependentNoiseDistribution = StateDependentNoise

__all__ = [
    "Bernoulli",
    "BernoulliDistribution",
    "Categorical",
    "CategoricalDistribution",
    "DiagGaussian",
    "DiagGaussianDistribution",
    "Distribution",
    "MaskableBernoulliDistribution",
    "MaskableCategorical",
    "MaskableCategoricalDistribution",
    "MaskableMultiCategoricalDistribution",
    "MultiCategorical",
    "MultiCategoricalDistribution",
    "SquashedDiagGaussian",
    "SquashedDiagGaussianDistribution",
    "StateDependentNoise",
    "StateDependentNoiseDistribution",
    "TanhBijector",
    "kl_divergence",
    "make_masked_proba_distribution",
    "make_proba_distribution",
    "sum_independent_dims",
]
