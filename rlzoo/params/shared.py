"""Descriptions of hyperparameters that several algorithms share (see `rlzoo.params.descriptions`)."""

from __future__ import annotations

from rlzoo.params.descriptions import Doc

# ---------------------------------------------------------------------- optimisation

LEARNING_RATE = Doc(
    "step size of the optimiser: a number, a schedule such as 'lin_3e-4' (linear decay to 0), or a function"
    " of the progress remaining (1 to 0); lower it if training is unstable",
    "optimisation",
)
LR_SCHEDULE = Doc(
    "decay of a learning_rate that is a number: constant, linear, middle_drop, double_linear_con or"
    " double_middle_drop",
    "optimisation",
)
BATCH_SIZE = Doc(
    "minibatch size, in transitions of the rollout; should divide n_steps * n_envs; larger minibatches give"
    " fewer and less noisy gradient steps",
    "optimisation",
)
REPLAY_BATCH_SIZE = Doc(
    "transitions sampled from the replay buffer per gradient step; larger batches give less noisy gradients"
    " and cost more time",
    "optimisation",
)
N_EPOCHS = Doc(
    "passes over each rollout; more passes use each transition more often, but move the policy further from"
    " the one that collected it",
    "optimisation",
)
MAX_GRAD_NORM = Doc("upper bound on the L2 norm of the gradient; lower it if losses spike", "optimisation")
RMS_PROP_EPS = Doc("epsilon of RMSprop, added to the denominator for numerical stability", "optimisation")
POLICY_DELAY = Doc(
    "critic updates per actor update; a larger delay trains the actor on more accurate critics",
    "optimisation",
)

# ---------------------------------------------------------------------- rollouts and replay

N_STEPS = Doc(
    "steps per environment in each rollout, which holds n_steps * n_envs transitions; longer rollouts give"
    " less biased returns and fewer updates",
    "rollout",
)
BUFFER_SIZE = Doc(
    "replay buffer capacity, in transitions over all environments; the oldest are overwritten; lower it if"
    " memory is short",
    "replay buffer",
)
LEARNING_STARTS = Doc(
    "environment steps with uniformly random actions, over all environments, before the first gradient step",
    "replay buffer",
)
TRAIN_FREQ = Doc(
    "steps of each environment between two rounds of training, or (n, 'episode') for every n episodes",
    "replay buffer",
)
GRADIENT_STEPS = Doc(
    "gradient steps per round of training (every train_freq steps); -1: as many as environment steps"
    " collected; more are more sample-efficient and cost more time",
    "replay buffer",
)
REPLAY_BUFFER_CLASS = Doc(
    "replay buffer class, such as HerReplayBuffer; None: the one that suits observations and n_steps",
    "replay buffer",
)
REPLAY_BUFFER_KWARGS = Doc("keyword arguments for the replay buffer class", "replay buffer")
OPTIMIZE_MEMORY_USAGE = Doc(
    "accepted for compatibility with stable-baselines3, without effect: no observation is stored twice",
    "replay buffer",
)
BUFFER_DEVICE = Doc(
    "device that stores observations and actions of the replay buffer; auto: that of the agent",
    "replay buffer",
)
PRIORITIZED_REPLAY = Doc(
    "sample transitions with probability proportional to |TD error|^alpha (Schaul et al. 2016,"
    " https://arxiv.org/abs/1511.05952)",
    "replay buffer",
)

# ---------------------------------------------------------------------- returns and advantages

GAMMA = Doc(
    "discount factor per step, in [0, 1]; the agent looks about 1 / (1 - gamma) steps ahead; lower it if"
    " values grow too large",
    "returns and advantages",
)
GAE_LAMBDA = Doc(
    "lambda of generalised advantage estimation (Schulman et al. 2016, https://arxiv.org/abs/1506.02438), in"
    " [0, 1]; higher: less bias, more variance; 1: n-step returns",
    "returns and advantages",
)
NORMALIZE_ADVANTAGE = Doc(
    "scale the advantages of each batch to mean 0 and standard deviation 1", "returns and advantages"
)
N_STEP_RETURNS = Doc(
    "rewards summed before the bootstrap value in the target (n-step returns); more propagate rewards"
    " faster, with a bias from older policies",
    "returns and advantages",
)

# ---------------------------------------------------------------------- losses and entropy

CLIP_RANGE = Doc(
    "clipping range of the probability ratio (epsilon of eq. 7), a number or a schedule; lower it for"
    " smaller policy updates",
    "losses",
)
CLIP_RANGE_VF = Doc(
    "clipping range of the value function around its old values, in units of the return; None: no clipping",
    "losses",
)
VF_COEF = Doc("weight of the value loss; matters most where policy and value function share layers", "losses")
ENT_COEF = Doc(
    "weight of the entropy bonus; raise it if the policy becomes deterministic too early", "entropy"
)
TEMPERATURE = Doc(
    "entropy coefficient (temperature alpha): a number, 'auto' to learn it so that the entropy meets"
    " target_entropy, or 'auto_0.1' to learn it from 0.1 on; higher explores more",
    "entropy",
)
TARGET_ENTROPY = Doc(
    "entropy in nats that a learned ent_coef aims at; 'auto': minus the number of action dimensions",
    "entropy",
)

# ---------------------------------------------------------------------- trust regions

TARGET_KL_STOP = Doc(
    "an update stops when the KL divergence from the old policy exceeds 1.5 times this; None: it never does",
    "trust region",
)
TARGET_KL = Doc(
    "radius of the trust region: upper bound on the KL divergence from the old policy (delta of the paper);"
    " lower it for smaller policy updates",
    "trust region",
)
CG_MAX_STEPS = Doc(
    "iterations of the conjugate gradient method; more solve for the natural gradient more accurately",
    "trust region",
)
CG_DAMPING = Doc("added to the diagonal of the Fisher matrix; raise it if line searches fail", "trust region")
LINE_SEARCH_SHRINKING_FACTOR = Doc(
    "factor by which the line search shortens a step that leaves the trust region", "trust region"
)
LINE_SEARCH_MAX_ITER = Doc(
    "step lengths that the line search tries before it leaves the policy unchanged", "trust region"
)
N_CRITIC_UPDATES = Doc("passes of the value function over each rollout", "optimisation")
SUB_SAMPLING_FACTOR = Doc(
    "the policy update uses one of this many transitions of the rollout; larger is faster and noisier",
    "trust region",
)
SUM_KL = Doc(
    "sum the KL divergence over action dimensions, as in the paper; False: average it, as in sb3-contrib",
    "trust region",
)

# ---------------------------------------------------------------------- target networks

TAU = Doc(
    "Polyak coefficient: target <- tau * online + (1 - tau) * target at each target update; lower is slower"
    " and more stable",
    "target networks",
)
TARGET_UPDATE_INTERVAL = Doc("gradient steps between two updates of the target networks", "target networks")
TARGET_UPDATE_STEPS = Doc(
    "environment steps, over all environments, between two updates of the target network; larger is slower"
    " and more stable",
    "target networks",
)

# ---------------------------------------------------------------------- exploration

USE_SDE = Doc(
    "explore with generalised state-dependent exploration (gSDE, Raffin et al. 2021,"
    " https://arxiv.org/abs/2005.05719), which is smoother than independent Gaussian noise; Box actions",
    "exploration",
)
SDE_SAMPLE_FREQ = Doc(
    "steps between two samples of the gSDE noise; -1: only at the beginning of each rollout", "exploration"
)
USE_SDE_AT_WARMUP = Doc("explore with gSDE before learning_starts, instead of uniformly", "exploration")
ACTION_NOISE = Doc(
    "ActionNoise, such as NormalActionNoise, added to actions in [-1, 1] while collecting; None: no noise",
    "exploration",
)
RANDOM_EXPLORATION = Doc("probability of a uniformly random action while collecting", "exploration")
EXPLORATION_FRACTION = Doc(
    "fraction of training over which the probability of random actions is annealed", "exploration"
)
EXPLORATION_INITIAL_EPS = Doc("initial probability of a random action (epsilon-greedy)", "exploration")
EXPLORATION_FINAL_EPS = Doc("final probability of a random action (epsilon-greedy)", "exploration")

# ---------------------------------------------------------------------- demonstrations

EXPERT_DATASET = Doc(
    "demonstrations: an ExpertDataset, the path of its file, or a mapping of its arguments", "demonstrations"
)

# ---------------------------------------------------------------------- arguments of every constructor

CONSTRUCTOR: dict[str, tuple[str, Doc]] = {
    "policy": (
        "str | type",
        Doc(
            "policy name (MlpPolicy, CnnPolicy for images, MultiInputPolicy for Dict observations) or class",
            "agent",
        ),
    ),
    "env": (
        "Any",
        Doc(
            "environment id, Gymnasium environment, VecEnv or gymnasium.vector.VectorEnv; None: set it later",
            "agent",
        ),
    ),
    "policy_kwargs": (
        "dict[str, Any] | None",
        Doc("keyword arguments of the policy, such as dict(net_arch=[64, 64])", "agent"),
    ),
    "rollout_buffer_class": (
        "type | None",
        Doc("class derived from RolloutBuffer; None: the one that suits the observations", "agent"),
    ),
    "rollout_buffer_kwargs": (
        "dict[str, Any] | None",
        Doc("keyword arguments for the rollout buffer class", "agent"),
    ),
    "stats_window_size": ("int", Doc("episodes that rollout/ep_rew_mean averages over", "agent")),
    "tensorboard_log": ("str | None", Doc("folder for TensorBoard event files; None: none", "agent")),
    "verbose": ("int", Doc("0: silent, 1: tables of metrics, 2: debug messages", "agent")),
    "seed": (
        "int | None",
        Doc("seed of Python, NumPy, PyTorch, the environments and their action spaces", "agent"),
    ),
    "device": (
        "torch.device | str",
        Doc("'auto' (CUDA if available), 'cpu', 'cuda' or a torch.device", "agent"),
    ),
}
"""By name: the annotation and the description."""

# ---------------------------------------------------------------------- keys of hyperparameter files

FILE_KEYS: dict[str, Doc] = {
    "policy": CONSTRUCTOR["policy"][1],
    "policy_kwargs": CONSTRUCTOR["policy_kwargs"][1],
    "stats_window_size": CONSTRUCTOR["stats_window_size"][1],
    "n_timesteps": Doc("environment steps to train for, over all environments", "training"),
    "n_envs": Doc("number of environments that step in parallel", "environment"),
    "normalize": Doc(
        "normalise observations and rewards with running statistics: true, or a mapping of VecNormalize"
        " arguments",
        "environment",
    ),
    "normalize_kwargs": Doc("keyword arguments for VecNormalize", "environment"),
    "frame_stack": Doc("number of consecutive observations stacked into one", "environment"),
    "env_wrapper": Doc("wrappers around each environment, the innermost first", "environment"),
    "vec_env_wrapper": Doc("wrappers around the vector of environments, the innermost first", "environment"),
    "monitor_kwargs": Doc("keyword arguments for the Monitor of each environment", "environment"),
    "env_kwargs": Doc("keyword arguments for the environment", "environment"),
    "eval_env_kwargs": Doc(
        "keyword arguments for the evaluation environment, on top of env_kwargs", "environment"
    ),
    "matmul_precision": Doc(
        "precision of float32 matrix products: highest, high (TF32 on a GPU, gradients in bfloat16 on a CPU)"
        " or medium (bfloat16), where the hardware has it",
        "training",
    ),
    "callback": Doc("callbacks of the training: class names, or mappings of a name to arguments", "training"),
    "noise_type": Doc(
        "action noise: none, normal or ornstein-uhlenbeck; of DDPG also adaptive-param, noise on parameters",
        "exploration",
    ),
    "noise_std": Doc("standard deviation of the action noise, for actions in [-1, 1]", "exploration"),
    "noise_std_final": Doc("standard deviation at the end of training; linear decay to it", "exploration"),
    "model_class": Doc("algorithm that learns with hindsight replay", "agent"),
    "n_sampled_goal": Doc("relabelled transitions per transition (hindsight replay)", "replay buffer"),
    "goal_selection_strategy": Doc(
        "which achieved goals replace the desired one: future, final, episode or random", "replay buffer"
    ),
    "copy_info_dict": Doc("give the info dictionaries to compute_reward (hindsight replay)", "replay buffer"),
}
"""Keys of an entry beside the hyperparameters of the algorithm."""
