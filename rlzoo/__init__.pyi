"""Made by scripts/make_stubs.py; do not edit."""

from typing import Any

import torch

from rlzoo.algorithms.hyperparameters import ScheduleLike
from rlzoo.algorithms.hyperparameters import TrainFreq as TrainFreqLike
from rlzoo import plots as _plots
from rlzoo.algorithms.ars import ARS as _ARS
from rlzoo.algorithms.base import Algorithm as Algorithm
from rlzoo.algorithms.imitation.bc import BC as _BC
from rlzoo.algorithms.imitation.gail import GAIL as _GAIL
from rlzoo.algorithms.off_policy.acer import ACER as _ACER
from rlzoo.algorithms.off_policy.crossq import CrossQ as _CrossQ
from rlzoo.algorithms.off_policy.ddpg import DDPG as _DDPG
from rlzoo.algorithms.off_policy.dqn import DQN as _DQN
from rlzoo.algorithms.off_policy.her import HER as HER
from rlzoo.algorithms.off_policy.off_policy_algorithm import OffPolicyAlgorithm as OffPolicyAlgorithm
from rlzoo.algorithms.off_policy.qrdqn import QRDQN as _QRDQN
from rlzoo.algorithms.off_policy.quantile_regression import quantile_huber_loss as quantile_huber_loss
from rlzoo.algorithms.off_policy.sac import SAC as _SAC
from rlzoo.algorithms.off_policy.td3 import TD3 as _TD3
from rlzoo.algorithms.off_policy.tqc import TQC as _TQC
from rlzoo.algorithms.on_policy.a2c import A2C as _A2C
from rlzoo.algorithms.on_policy.acktr import ACKTR as _ACKTR
from rlzoo.algorithms.on_policy.older_ppo import PPO1 as PPO1
from rlzoo.algorithms.on_policy.older_ppo import PPO2 as PPO2
from rlzoo.algorithms.on_policy.on_policy_algorithm import OnPolicyAlgorithm as OnPolicyAlgorithm
from rlzoo.algorithms.on_policy.ppo import PPO as _PPO
from rlzoo.algorithms.on_policy.ppo_lstm import RecurrentPPO as _RecurrentPPO
from rlzoo.algorithms.on_policy.ppo_mask import MaskablePPO as _MaskablePPO
from rlzoo.algorithms.on_policy.trpo import TRPO as _TRPO
from rlzoo.algorithms.train_frequency import RolloutReturn as RolloutReturn
from rlzoo.algorithms.train_frequency import TrainFreq as TrainFreq
from rlzoo.algorithms.train_frequency import TrainFrequencyUnit as TrainFrequencyUnit
from rlzoo.algorithms.train_frequency import should_collect_more_steps as should_collect_more_steps
from rlzoo.buffers.base_buffer import BaseBuffer as BaseBuffer
from rlzoo.buffers.demonstrations import ExpertDataset as ExpertDataset
from rlzoo.buffers.replay.her_replay_buffer import GoalSelectionStrategy as GoalSelectionStrategy
from rlzoo.buffers.replay.her_replay_buffer import HerReplayBuffer as HerReplayBuffer
from rlzoo.buffers.replay.prioritized import PrioritizedReplayBuffer as PrioritizedReplayBuffer
from rlzoo.buffers.replay.replay_buffer import DictReplayBuffer as DictReplayBuffer
from rlzoo.buffers.replay.replay_buffer import NStepReplayBuffer as NStepReplayBuffer
from rlzoo.buffers.replay.replay_buffer import ReplayBuffer as ReplayBuffer
from rlzoo.buffers.rollout_buffer import DictRolloutBuffer as DictRolloutBuffer
from rlzoo.buffers.rollout_buffer import RolloutBuffer as RolloutBuffer
from rlzoo.buffers.samples import DictReplayBufferSamples as DictReplayBufferSamples
from rlzoo.buffers.samples import DictRolloutBufferSamples as DictRolloutBufferSamples
from rlzoo.buffers.samples import ReplayBufferSamples as ReplayBufferSamples
from rlzoo.buffers.samples import RolloutBufferSamples as RolloutBufferSamples
from rlzoo.callbacks.base_callback import CallbackLike as CallbackLike
from rlzoo.callbacks.callbacks import BaseCallback as BaseCallback
from rlzoo.callbacks.callbacks import CallbackList as CallbackList
from rlzoo.callbacks.callbacks import CheckpointCallback as CheckpointCallback
from rlzoo.callbacks.callbacks import ConvertCallback as ConvertCallback
from rlzoo.callbacks.callbacks import EvalCallback as EvalCallback
from rlzoo.callbacks.callbacks import EventCallback as EventCallback
from rlzoo.callbacks.callbacks import EveryNTimesteps as EveryNTimesteps
from rlzoo.callbacks.callbacks import LogEveryNTimesteps as LogEveryNTimesteps
from rlzoo.callbacks.callbacks import MaskableEvalCallback as MaskableEvalCallback
from rlzoo.callbacks.callbacks import ProgressBarCallback as ProgressBarCallback
from rlzoo.callbacks.callbacks import RawStatisticsCallback as RawStatisticsCallback
from rlzoo.callbacks.callbacks import SaveVecNormalizeCallback as SaveVecNormalizeCallback
from rlzoo.callbacks.callbacks import StopTrainingOnMaxEpisodes as StopTrainingOnMaxEpisodes
from rlzoo.callbacks.callbacks import StopTrainingOnNoModelImprovement as StopTrainingOnNoModelImprovement
from rlzoo.callbacks.callbacks import StopTrainingOnRewardThreshold as StopTrainingOnRewardThreshold
from rlzoo.callbacks.trial_eval_callback import TrialEvalCallback as TrialEvalCallback
from rlzoo.cli.flags.parser import StoreDict as StoreDict
from rlzoo.cli.python import enjoy as enjoy
from rlzoo.cli.python import optimize as optimize
from rlzoo.cli.python import train as train
from rlzoo.core.action_noise import ActionNoise as ActionNoise
from rlzoo.core.action_noise import AdaptiveParamNoiseSpec as AdaptiveParamNoiseSpec
from rlzoo.core.action_noise import LinearNormalActionNoise as LinearNormalActionNoise
from rlzoo.core.action_noise import NormalActionNoise as NormalActionNoise
from rlzoo.core.action_noise import OrnsteinUhlenbeckActionNoise as OrnsteinUhlenbeckActionNoise
from rlzoo.core.action_noise import VectorizedActionNoise as VectorizedActionNoise
from rlzoo.core.device import get_device as get_device
from rlzoo.core.device import obs_as_tensor as obs_as_tensor
from rlzoo.core.errors import CheckpointError as CheckpointError
from rlzoo.core.errors import EnvironmentFailed as EnvironmentFailed
from rlzoo.core.errors import InvalidEnvironment as InvalidEnvironment
from rlzoo.core.errors import RunFailed as RunFailed
from rlzoo.core.errors import TrainingDiverged as TrainingDiverged
from rlzoo.core.errors import UnknownArgument as UnknownArgument
from rlzoo.core.errors import UnsupportedSpace as UnsupportedSpace
from rlzoo.core.errors import UserError as UserError
from rlzoo.core.observations import copy_obs_dict as copy_obs_dict
from rlzoo.core.observations import dict_to_obs as dict_to_obs
from rlzoo.core.observations import obs_space_info as obs_space_info
from rlzoo.core.returns import explained_variance as explained_variance
from rlzoo.core.returns import safe_mean as safe_mean
from rlzoo.core.running_statistics import RunningMeanStd as RunningMeanStd
from rlzoo.core.schedules import ConstantSchedule as ConstantSchedule
from rlzoo.core.schedules import CosineSchedule as CosineSchedule
from rlzoo.core.schedules import ExponentialSchedule as ExponentialSchedule
from rlzoo.core.schedules import FloatSchedule as FloatSchedule
from rlzoo.core.schedules import LinearSchedule as LinearSchedule
from rlzoo.core.schedules import PiecewiseSchedule as PiecewiseSchedule
from rlzoo.core.schedules import Schedule as Schedule
from rlzoo.core.schedules import SimpleLinearSchedule as SimpleLinearSchedule
from rlzoo.core.schedules import constant_fn as constant_fn
from rlzoo.core.schedules import get_linear_fn as get_linear_fn
from rlzoo.core.schedules import get_schedule_fn as get_schedule_fn
from rlzoo.core.schedules import linear_schedule as linear_schedule
from rlzoo.core.schedules import lr_schedule as lr_schedule
from rlzoo.core.schedules import make_schedule as make_schedule
from rlzoo.core.seeding import set_random_seed as set_random_seed
from rlzoo.core.spaces import check_for_correct_spaces as check_for_correct_spaces
from rlzoo.core.spaces import check_for_nested_spaces as check_for_nested_spaces
from rlzoo.core.spaces import check_shape_equal as check_shape_equal
from rlzoo.core.spaces import is_image_space as is_image_space
from rlzoo.core.spaces import is_image_space_channels_first as is_image_space_channels_first
from rlzoo.core.type_aliases import AtariResetReturn as AtariResetReturn
from rlzoo.core.type_aliases import AtariStepReturn as AtariStepReturn
from rlzoo.core.type_aliases import GymEnv as GymEnv
from rlzoo.core.type_aliases import GymObs as GymObs
from rlzoo.core.type_aliases import GymResetReturn as GymResetReturn
from rlzoo.core.type_aliases import GymStepReturn as GymStepReturn
from rlzoo.core.type_aliases import OptimizerStateDict as OptimizerStateDict
from rlzoo.core.type_aliases import PyTorchObs as PyTorchObs
from rlzoo.core.type_aliases import TensorDict as TensorDict
from rlzoo.distributions import BernoulliDistribution as BernoulliDistribution
from rlzoo.distributions import CategoricalDistribution as CategoricalDistribution
from rlzoo.distributions import DiagGaussianDistribution as DiagGaussianDistribution
from rlzoo.distributions import Distribution as Distribution
from rlzoo.distributions import MaskableBernoulliDistribution as MaskableBernoulliDistribution
from rlzoo.distributions import MaskableCategorical as MaskableCategorical
from rlzoo.distributions import MaskableCategoricalDistribution as MaskableCategoricalDistribution
from rlzoo.distributions import MaskableMultiCategoricalDistribution as MaskableMultiCategoricalDistribution
from rlzoo.distributions import MultiCategoricalDistribution as MultiCategoricalDistribution
from rlzoo.distributions import SquashedDiagGaussianDistribution as SquashedDiagGaussianDistribution
from rlzoo.distributions import StateDependentNoiseDistribution as StateDependentNoiseDistribution
from rlzoo.distributions import TanhBijector as TanhBijector
from rlzoo.distributions import kl_divergence as kl_divergence
from rlzoo.distributions import make_masked_proba_distribution as make_masked_proba_distribution
from rlzoo.distributions import make_proba_distribution as make_proba_distribution
from rlzoo.distributions import sum_independent_dims as sum_independent_dims
from rlzoo.envs.action_masks import ActionMasker as ActionMasker
from rlzoo.envs.action_masks import get_action_masks as get_action_masks
from rlzoo.envs.action_masks import is_masking_supported as is_masking_supported
from rlzoo.envs.atari.atari_wrappers import AtariWrapper as AtariWrapper
from rlzoo.envs.atari.atari_wrappers import ClipRewardEnv as ClipRewardEnv
from rlzoo.envs.atari.atari_wrappers import EpisodicLifeEnv as EpisodicLifeEnv
from rlzoo.envs.atari.atari_wrappers import FireResetEnv as FireResetEnv
from rlzoo.envs.atari.atari_wrappers import MaxAndSkipEnv as MaxAndSkipEnv
from rlzoo.envs.atari.atari_wrappers import NoopResetEnv as NoopResetEnv
from rlzoo.envs.atari.atari_wrappers import StickyActionEnv as StickyActionEnv
from rlzoo.envs.atari.atari_wrappers import WarpFrame as WarpFrame
from rlzoo.envs.atari.atari_wrappers import wrap_deepmind as wrap_deepmind
from rlzoo.envs.examples.toy import BitFlippingEnv as BitFlippingEnv
from rlzoo.envs.examples.toy import Catch as Catch
from rlzoo.envs.examples.toy import FakeImageEnv as FakeImageEnv
from rlzoo.envs.examples.toy import IdentityEnv as IdentityEnv
from rlzoo.envs.examples.toy import IdentityEnvBox as IdentityEnvBox
from rlzoo.envs.examples.toy import IdentityEnvMultiBinary as IdentityEnvMultiBinary
from rlzoo.envs.examples.toy import IdentityEnvMultiDiscrete as IdentityEnvMultiDiscrete
from rlzoo.envs.examples.toy import SimpleMultiObsEnv as SimpleMultiObsEnv
from rlzoo.envs.examples.toy_invalid_actions import (
    InvalidActionEnvMultiDiscrete as InvalidActionEnvMultiDiscrete,
)
from rlzoo.envs.examples.toy_invalid_actions import InvalidActionEnvDiscrete as InvalidActionEnvDiscrete
from rlzoo.envs.examples.toy_invalid_actions import InvalidActionEnvMultiBinary as InvalidActionEnvMultiBinary
from rlzoo.envs.examples.velocity_mask import MaskVelocityWrapper as MaskVelocityWrapper
from rlzoo.envs.make_atari import make_atari as make_atari
from rlzoo.envs.make_atari import make_atari_env as make_atari_env
from rlzoo.envs.make_vec_env import make_vec_env as make_vec_env
from rlzoo.envs.single_env.check_env import check_env as check_env
from rlzoo.envs.single_env.goal_env import HERGoalEnvWrapper as HERGoalEnvWrapper
from rlzoo.envs.single_env.monitor import LoadMonitorResultsError as LoadMonitorResultsError
from rlzoo.envs.single_env.monitor import Monitor as Monitor
from rlzoo.envs.single_env.monitor import ResultsWriter as ResultsWriter
from rlzoo.envs.single_env.monitor import get_monitor_files as get_monitor_files
from rlzoo.envs.single_env.monitor import load_results as load_results
from rlzoo.envs.single_env.wrappers import ActionNoiseWrapper as ActionNoiseWrapper
from rlzoo.envs.single_env.wrappers import ActionSmoothingWrapper as ActionSmoothingWrapper
from rlzoo.envs.single_env.wrappers import DelayedRewardWrapper as DelayedRewardWrapper
from rlzoo.envs.single_env.wrappers import FrameSkip as FrameSkip
from rlzoo.envs.single_env.wrappers import HistoryWrapper as HistoryWrapper
from rlzoo.envs.single_env.wrappers import ResizeObservation as ResizeObservation
from rlzoo.envs.single_env.wrappers import TimeFeatureWrapper as TimeFeatureWrapper
from rlzoo.envs.single_env.wrappers import TruncatedOnSuccessWrapper as TruncatedOnSuccessWrapper
from rlzoo.envs.vec_env.dummy import DummyVecEnv as DummyVecEnv
from rlzoo.envs.vec_env.dummy import is_wrapped as is_wrapped
from rlzoo.envs.vec_env.dummy import unwrap_wrapper as unwrap_wrapper
from rlzoo.envs.vec_env.gym_vector import GymVectorEnv as GymVectorEnv
from rlzoo.envs.vec_env.subproc import CloudpickleWrapper as CloudpickleWrapper
from rlzoo.envs.vec_env.subproc import SubprocVecEnv as SubprocVecEnv
from rlzoo.envs.vec_env.tile_images import tile_images as tile_images
from rlzoo.envs.vec_env.vec_env import VecEnv as VecEnv
from rlzoo.envs.vec_env.vec_env import VecEnvIndices as VecEnvIndices
from rlzoo.envs.vec_env.vec_env import VecEnvObs as VecEnvObs
from rlzoo.envs.vec_env.vec_env import VecEnvStepReturn as VecEnvStepReturn
from rlzoo.envs.vec_env.vec_env import VecEnvWrapper as VecEnvWrapper
from rlzoo.envs.vec_env.vec_env import is_vecenv_wrapped as is_vecenv_wrapped
from rlzoo.envs.vec_env.vec_env import unwrap_vec_wrapper as unwrap_vec_wrapper
from rlzoo.envs.vec_wrappers.stacked_observations import StackedObservations as StackedObservations
from rlzoo.envs.vec_wrappers.vec_check_nan import VecCheckNan as VecCheckNan
from rlzoo.envs.vec_wrappers.vec_extract_dict_obs import VecExtractDictObs as VecExtractDictObs
from rlzoo.envs.vec_wrappers.vec_frame_stack import VecFrameStack as VecFrameStack
from rlzoo.envs.vec_wrappers.vec_monitor import VecMonitor as VecMonitor
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize as VecNormalize
from rlzoo.envs.vec_wrappers.vec_normalize import sync_envs_normalization as sync_envs_normalization
from rlzoo.envs.vec_wrappers.vec_normalize import unwrap_vec_normalize as unwrap_vec_normalize
from rlzoo.envs.vec_wrappers.vec_transpose import VecTransposeImage as VecTransposeImage
from rlzoo.envs.vec_wrappers.vec_video_recorder import VecVideoRecorder as VecVideoRecorder
from rlzoo.evaluation.evaluate import Predictor as Predictor
from rlzoo.evaluation.evaluate import evaluate_policy as evaluate_policy
from rlzoo.experiment.from_hyperparams import create_test_env as create_test_env
from rlzoo.experiment.from_hyperparams import flatten_dict_observations as flatten_dict_observations
from rlzoo.experiment.from_hyperparams import get_callback_list as get_callback_list
from rlzoo.experiment.from_hyperparams import get_class_by_name as get_class_by_name
from rlzoo.experiment.from_hyperparams import get_wrapper_class as get_wrapper_class
from rlzoo.export.exporter import export_model as export_model
from rlzoo.hub.download import download_from_hub as download_from_hub
from rlzoo.hub.download import get_hf_trained_models as get_hf_trained_models
from rlzoo.hub.load import load_from_hub as load_from_hub
from rlzoo.hub.upload import push_to_hub as push_to_hub
from rlzoo.metrics.logger import CSVOutputFormat as CSVOutputFormat
from rlzoo.metrics.logger import Figure as Figure
from rlzoo.metrics.logger import FormatUnsupportedError as FormatUnsupportedError
from rlzoo.metrics.logger import HParam as HParam
from rlzoo.metrics.logger import HumanOutputFormat as HumanOutputFormat
from rlzoo.metrics.logger import Image as Image
from rlzoo.metrics.logger import JSONOutputFormat as JSONOutputFormat
from rlzoo.metrics.logger import KVWriter as KVWriter
from rlzoo.metrics.logger import Logger as Logger
from rlzoo.metrics.logger import SeqWriter as SeqWriter
from rlzoo.metrics.logger import TensorBoardOutputFormat as TensorBoardOutputFormat
from rlzoo.metrics.logger import Video as Video
from rlzoo.metrics.logger import configure as configure
from rlzoo.metrics.logger import configure_logger as configure_logger
from rlzoo.metrics.logger import filter_excluded_keys as filter_excluded_keys
from rlzoo.metrics.logger import get_latest_run_id as get_latest_run_id
from rlzoo.metrics.logger import make_output_format as make_output_format
from rlzoo.metrics.logger import read_csv as read_csv
from rlzoo.metrics.logger import read_json as read_json
from rlzoo.networks.extractors import BaseFeaturesExtractor as BaseFeaturesExtractor
from rlzoo.networks.extractors import CombinedExtractor as CombinedExtractor
from rlzoo.networks.extractors import FlattenExtractor as FlattenExtractor
from rlzoo.networks.extractors import NatureCNN as NatureCNN
from rlzoo.networks.mlp import MlpExtractor as MlpExtractor
from rlzoo.networks.mlp import create_mlp as create_mlp
from rlzoo.networks.mlp import get_actor_critic_arch as get_actor_critic_arch
from rlzoo.networks.preprocessing import get_action_dim as get_action_dim
from rlzoo.networks.preprocessing import get_flattened_obs_dim as get_flattened_obs_dim
from rlzoo.networks.preprocessing import get_obs_shape as get_obs_shape
from rlzoo.networks.preprocessing import is_vectorized_observation as is_vectorized_observation
from rlzoo.networks.preprocessing import maybe_transpose as maybe_transpose
from rlzoo.networks.preprocessing import preprocess_obs as preprocess_obs
from rlzoo.optim.conjugate_gradient import conjugate_gradient_solver as conjugate_gradient_solver
from rlzoo.optim.conjugate_gradient import flat_grad as flat_grad
from rlzoo.optim.parameters import get_parameters_by_name as get_parameters_by_name
from rlzoo.optim.parameters import update_learning_rate as update_learning_rate
from rlzoo.optim.parameters import zip_strict as zip_strict
from rlzoo.optim.polyak import polyak_update as polyak_update
from rlzoo.optim.rmsprop_tf import RMSpropTFLike as RMSpropTFLike
from rlzoo.playback.inline_video import InlineVideo as InlineVideo
from rlzoo.playback.inline_video import show as show
from rlzoo.playback.video_recording import record_video as record_video
from rlzoo.plots import curves as _results_plotter
from rlzoo.plots.aggregates import iqm as iqm
from rlzoo.plots.aggregates import optimality_gap as optimality_gap
from rlzoo.plots.aggregates import performance_profile as performance_profile
from rlzoo.plots.aggregates import probability_of_improvement as probability_of_improvement
from rlzoo.plots.aggregates import stratified_bootstrap as stratified_bootstrap
from rlzoo.plots.curves import X_EPISODES as X_EPISODES
from rlzoo.plots.curves import X_TIMESTEPS as X_TIMESTEPS
from rlzoo.plots.curves import X_WALLTIME as X_WALLTIME
from rlzoo.plots.curves import plot_curves as plot_curves
from rlzoo.plots.curves import plot_results as plot_results
from rlzoo.plots.curves import rolling_window as rolling_window
from rlzoo.plots.curves import ts2xy as ts2xy
from rlzoo.plots.curves import window_func as window_func
from rlzoo.plots.runs import load_runs as load_runs
from rlzoo.policies.actor_critic_policies import ActorCriticCnnPolicy as ActorCriticCnnPolicy
from rlzoo.policies.actor_critic_policies import ActorCriticPolicy as ActorCriticPolicy
from rlzoo.policies.actor_critic_policies import FeedForwardPolicy as FeedForwardPolicy
from rlzoo.policies.actor_critic_policies import MultiInputActorCriticPolicy as MultiInputActorCriticPolicy
from rlzoo.policies.actors import Actor as Actor
from rlzoo.policies.actors import SquashedGaussianActor as SquashedGaussianActor
from rlzoo.policies.base_policy import BaseModel as BaseModel
from rlzoo.policies.base_policy import BasePolicy as BasePolicy
from rlzoo.policies.continuous_policies import ContinuousCritic as ContinuousCritic
from rlzoo.policies.continuous_policies import CrossQPolicy as CrossQPolicy
from rlzoo.policies.continuous_policies import SACPolicy as SACPolicy
from rlzoo.policies.continuous_policies import TD3Policy as TD3Policy
from rlzoo.policies.continuous_policies import TQCPolicy as TQCPolicy
from rlzoo.policies.linear_policy import ARSLinearPolicy as ARSLinearPolicy
from rlzoo.policies.linear_policy import ARSPolicy as ARSPolicy
from rlzoo.policies.masked_policies import (
    MaskableMultiInputActorCriticPolicy as MaskableMultiInputActorCriticPolicy,
)
from rlzoo.policies.masked_policies import MaskableActorCriticCnnPolicy as MaskableActorCriticCnnPolicy
from rlzoo.policies.masked_policies import MaskableActorCriticPolicy as MaskableActorCriticPolicy
from rlzoo.policies.policy_registry import LnCnnPolicy as LnCnnPolicy
from rlzoo.policies.policy_registry import LnMlpPolicy as LnMlpPolicy
from rlzoo.policies.policy_registry import register_policy as register_policy
from rlzoo.policies.recurrent_policies import (
    RecurrentMultiInputActorCriticPolicy as RecurrentMultiInputActorCriticPolicy,
)
from rlzoo.policies.recurrent_policies import CnnLnLstmPolicy as CnnLnLstmPolicy
from rlzoo.policies.recurrent_policies import LstmPolicy as LstmPolicy
from rlzoo.policies.recurrent_policies import MlpLnLstmPolicy as MlpLnLstmPolicy
from rlzoo.policies.recurrent_policies import RecurrentActorCriticCnnPolicy as RecurrentActorCriticCnnPolicy
from rlzoo.policies.recurrent_policies import RecurrentActorCriticPolicy as RecurrentActorCriticPolicy
from rlzoo.policies.value_based import DQNPolicy as DQNPolicy
from rlzoo.policies.value_based import QNetwork as QNetwork
from rlzoo.policies.value_based import QRDQNPolicy as QRDQNPolicy
from rlzoo.policies.value_based import QuantileNetwork as QuantileNetwork
from rlzoo.processes.system_info import get_system_info as get_system_info
from rlzoo.runs.algos import ALGOS as ALGOS
from rlzoo.runs.saved_agents import get_model_path as get_model_path
from rlzoo.runs.saved_agents import get_saved_hyperparams as get_saved_hyperparams
from rlzoo.runs.saved_agents import get_trained_models as get_trained_models
from rlzoo.training.candidates import AsyncEval as AsyncEval
from rlzoo.training.expert_trajectories import generate_expert_traj as generate_expert_traj
from rlzoo.training.parallel_callback import ParallelTrainCallback as ParallelTrainCallback
from rlzoo.training.save_files import load_from_pkl as load_from_pkl
from rlzoo.training.save_files import load_from_zip_file as load_from_zip_file
from rlzoo.training.save_files import open_path as open_path
from rlzoo.training.save_files import save_to_pkl as save_to_pkl
from rlzoo.training.save_files import save_to_zip_file as save_to_zip_file
from rlzoo.tuning.experiment_manager import ExperimentManager as ExperimentManager
from rlzoo.tuning.space.own_samplers import HYPERPARAMS_CONVERTER as HYPERPARAMS_CONVERTER
from rlzoo.tuning.space.own_samplers import HYPERPARAMS_SAMPLER as HYPERPARAMS_SAMPLER
from rlzoo.tuning.space.own_samplers import convert_params as convert_params
from rlzoo.tuning.space.own_samplers import sample_a2c_params as sample_a2c_params
from rlzoo.tuning.space.own_samplers import sample_ars_params as sample_ars_params
from rlzoo.tuning.space.own_samplers import sample_ddpg_params as sample_ddpg_params
from rlzoo.tuning.space.own_samplers import sample_dqn_params as sample_dqn_params
from rlzoo.tuning.space.own_samplers import sample_ppo_lstm_params as sample_ppo_lstm_params
from rlzoo.tuning.space.own_samplers import sample_ppo_params as sample_ppo_params
from rlzoo.tuning.space.own_samplers import sample_qrdqn_params as sample_qrdqn_params
from rlzoo.tuning.space.own_samplers import sample_sac_params as sample_sac_params
from rlzoo.tuning.space.own_samplers import sample_td3_params as sample_td3_params
from rlzoo.tuning.space.own_samplers import sample_tqc_params as sample_tqc_params
from rlzoo.tuning.space.own_samplers import sample_trpo_params as sample_trpo_params

__version__: str
__all__: list[str]
BaseAlgorithm = Algorithm
Bernoulli = BernoulliDistribution
Categorical = CategoricalDistribution
CnnLstmPolicy = RecurrentActorCriticCnnPolicy
CnnPolicy = ActorCriticCnnPolicy
DiagGaussian = DiagGaussianDistribution
DoneOnSuccessWrapper = TruncatedOnSuccessWrapper
HistoryWrapperObsDict = HistoryWrapper
LinearPolicy = ARSLinearPolicy
MaybeCallback = CallbackLike
MlpLstmPolicy = RecurrentActorCriticPolicy
MlpPolicy = ActorCriticPolicy
MultiCategorical = MultiCategoricalDistribution
MultiInputLstmPolicy = RecurrentMultiInputActorCriticPolicy
MultiInputPolicy = MultiInputActorCriticPolicy
PolicyPredictor = Predictor
SquashedDiagGaussian = SquashedDiagGaussianDistribution
StateDependentNoise = StateDependentNoiseDistribution
YAMLCompatResizeObservation = ResizeObservation
convert_ars_params = convert_params
convert_offpolicy_params = convert_params
convert_onpolicy_params = convert_params
is_vectorized_box_observation = is_vectorized_observation
is_vectorized_dict_observation = is_vectorized_observation
is_vectorized_discrete_observation = is_vectorized_observation
is_vectorized_multibinary_observation = is_vectorized_observation
is_vectorized_multidiscrete_observation = is_vectorized_observation
plots = _plots
results_plotter = _results_plotter
set_global_seeds = set_random_seed

class A2C(_A2C):
    """A2C for Box, Discrete, MultiDiscrete and MultiBinary actions."""

    learning_rate: ScheduleLike
    n_steps: int
    gamma: float
    gae_lambda: float
    ent_coef: float
    vf_coef: float
    max_grad_norm: float
    rms_prop_eps: float
    use_rms_prop: bool
    use_sde: bool
    sde_sample_freq: int
    normalize_advantage: bool
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.0007,
        n_steps: int = 5,
        gamma: float = 0.99,
        gae_lambda: float = 1.0,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        rms_prop_eps: float = 1e-05,
        use_rms_prop: bool = True,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        normalize_advantage: bool = False,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        rollout_buffer_class: type | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
    ) -> None: ...

class ACER(_ACER):
    """ACER for Discrete actions."""

    learning_rate: ScheduleLike
    n_steps: int
    gamma: float
    q_coef: float
    ent_coef: float
    max_grad_norm: float
    lr_schedule: str
    rprop_alpha: float
    rprop_epsilon: float
    buffer_size: int
    replay_ratio: float
    replay_start: int
    correction_term: float
    trust_region: bool
    alpha: float
    delta: float
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.0007,
        n_steps: int = 20,
        gamma: float = 0.99,
        q_coef: float = 0.5,
        ent_coef: float = 0.01,
        max_grad_norm: float = 10.0,
        lr_schedule: str = "linear",
        rprop_alpha: float = 0.99,
        rprop_epsilon: float = 1e-05,
        buffer_size: int = 5000,
        replay_ratio: float = 4.0,
        replay_start: int = 1000,
        correction_term: float = 10.0,
        trust_region: bool = True,
        alpha: float = 0.99,
        delta: float = 1.0,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        rollout_buffer_class: type | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
    ) -> None: ...

class ACKTR(_ACKTR):
    """ACKTR for Box and Discrete actions."""

    learning_rate: ScheduleLike
    n_steps: int
    gamma: float
    gae_lambda: float | None
    ent_coef: float
    vf_coef: float
    vf_fisher_coef: float
    max_grad_norm: float
    kfac_clip: float
    lr_schedule: str
    kfac_update: int
    async_eigen_decomp: bool
    momentum: float
    damping: float
    stats_decay: float
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.25,
        n_steps: int = 20,
        gamma: float = 0.99,
        gae_lambda: float | None = None,
        ent_coef: float = 0.01,
        vf_coef: float = 0.25,
        vf_fisher_coef: float = 1.0,
        max_grad_norm: float = 0.5,
        kfac_clip: float = 0.001,
        lr_schedule: str = "linear",
        kfac_update: int = 1,
        async_eigen_decomp: bool = False,
        momentum: float = 0.9,
        damping: float = 0.01,
        stats_decay: float = 0.99,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        rollout_buffer_class: type | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
    ) -> None: ...

class ARS(_ARS):
    """ARS for Box and Discrete actions; candidates play one by one, or in the processes of an `AsyncEval`."""

    n_delta: int
    n_top: int | None
    learning_rate: ScheduleLike
    delta_std: ScheduleLike
    zero_policy: bool
    alive_bonus_offset: float
    n_eval_episodes: int
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        n_delta: int = 8,
        n_top: int | None = None,
        learning_rate: ScheduleLike = 0.02,
        delta_std: ScheduleLike = 0.05,
        zero_policy: bool = True,
        alive_bonus_offset: float = 0.0,
        n_eval_episodes: int = 1,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
    ) -> None: ...

class BC(_BC):
    """Behaviour cloning for Box and Discrete actions."""

    expert_dataset: Any
    learning_rate: ScheduleLike
    batch_size: int
    ent_coef: float
    max_grad_norm: float | None
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        expert_dataset: Any = None,
        learning_rate: ScheduleLike = 0.001,
        batch_size: int = 64,
        ent_coef: float = 0.0,
        max_grad_norm: float | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
    ) -> None: ...

class CrossQ(_CrossQ):
    """CrossQ for Box actions."""

    learning_rate: ScheduleLike
    buffer_size: int
    learning_starts: int
    batch_size: int
    gamma: float
    gradient_steps: int
    action_noise: Any
    replay_buffer_class: Any
    replay_buffer_kwargs: Any
    optimize_memory_usage: bool
    n_steps: int
    ent_coef: float | str
    policy_delay: int
    use_sde: bool
    sde_sample_freq: int
    use_sde_at_warmup: bool
    random_exploration: float
    buffer_device: str
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.001,
        buffer_size: int = 1000000,
        learning_starts: int = 100,
        batch_size: int = 256,
        gamma: float = 0.99,
        train_freq: TrainFreqLike = 1,
        gradient_steps: int = 1,
        action_noise: Any = None,
        replay_buffer_class: Any = None,
        replay_buffer_kwargs: Any = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        ent_coef: float | str = "auto",
        target_entropy: float | str = "auto",
        policy_delay: int = 3,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        use_sde_at_warmup: bool = False,
        random_exploration: float = 0.0,
        buffer_device: str = "cpu",
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
    ) -> None: ...

class DDPG(_DDPG):
    """DDPG for Box actions."""

    learning_rate: ScheduleLike
    buffer_size: int
    learning_starts: int
    batch_size: int
    tau: float
    gamma: float
    gradient_steps: int
    action_noise: Any
    replay_buffer_class: Any
    replay_buffer_kwargs: Any
    optimize_memory_usage: bool
    n_steps: int
    actor_lr: ScheduleLike | None
    critic_lr: ScheduleLike | None
    normalize_observations: bool
    observation_range: tuple[float, float]
    normalize_returns: bool
    return_range: tuple[float, float]
    enable_popart: bool
    critic_l2_reg: float
    clip_norm: float | None
    reward_scale: float
    param_noise: Any
    param_noise_adaption_interval: int
    random_exploration: float
    buffer_device: str
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.001,
        buffer_size: int = 1000000,
        learning_starts: int = 100,
        batch_size: int = 256,
        tau: float = 0.005,
        gamma: float = 0.99,
        train_freq: TrainFreqLike = 1,
        gradient_steps: int = 1,
        action_noise: Any = None,
        replay_buffer_class: Any = None,
        replay_buffer_kwargs: Any = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        actor_lr: ScheduleLike | None = None,
        critic_lr: ScheduleLike | None = None,
        normalize_observations: bool = False,
        observation_range: tuple[float, float] = (-5.0, 5.0),
        normalize_returns: bool = False,
        return_range: tuple[float, float] = ...,
        enable_popart: bool = False,
        critic_l2_reg: float = 0.0,
        clip_norm: float | None = None,
        reward_scale: float = 1.0,
        param_noise: Any = None,
        param_noise_adaption_interval: int = 50,
        random_exploration: float = 0.0,
        buffer_device: str = "cpu",
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
    ) -> None: ...

class DQN(_DQN):
    """DQN for Discrete actions."""

    learning_rate: ScheduleLike
    buffer_size: int
    learning_starts: int
    batch_size: int
    tau: float
    gamma: float
    gradient_steps: int
    replay_buffer_class: Any
    replay_buffer_kwargs: Any
    optimize_memory_usage: bool
    n_steps: int
    target_update_interval: int
    exploration_fraction: float
    exploration_initial_eps: float
    exploration_final_eps: float
    max_grad_norm: float | None
    double_q: bool
    prioritized_replay: bool
    prioritized_replay_alpha: float
    prioritized_replay_beta0: float
    prioritized_replay_beta_iters: int | None
    prioritized_replay_eps: float
    param_noise: bool
    buffer_device: str
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.0001,
        buffer_size: int = 1000000,
        learning_starts: int = 100,
        batch_size: int = 32,
        tau: float = 1.0,
        gamma: float = 0.99,
        train_freq: TrainFreqLike = 4,
        gradient_steps: int = 1,
        replay_buffer_class: Any = None,
        replay_buffer_kwargs: Any = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        target_update_interval: int = 10000,
        exploration_fraction: float = 0.1,
        exploration_initial_eps: float = 1.0,
        exploration_final_eps: float = 0.05,
        max_grad_norm: float | None = 10,
        double_q: bool = False,
        prioritized_replay: bool = False,
        prioritized_replay_alpha: float = 0.6,
        prioritized_replay_beta0: float = 0.4,
        prioritized_replay_beta_iters: int | None = None,
        prioritized_replay_eps: float = 1e-06,
        param_noise: bool = False,
        buffer_device: str = "cpu",
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
    ) -> None: ...

class GAIL(_GAIL):
    """GAIL for Box and Discrete actions: a learner (TRPO or PPO) whose reward is a discriminator's."""

    expert_dataset: Any
    hidden_size_adversary: int
    adversary_entcoeff: float
    g_step: int
    d_step: int
    d_stepsize: float
    learner: str
    learning_rate: ScheduleLike | None
    n_steps: int
    batch_size: int | None
    gamma: float
    gae_lambda: float
    normalize_advantage: bool
    ent_coef: float
    use_sde: bool
    sde_sample_freq: int
    target_kl: float | None
    cg_max_steps: int | None
    cg_damping: float | None
    line_search_shrinking_factor: float | None
    line_search_max_iter: int | None
    n_critic_updates: int | None
    sub_sampling_factor: int | None
    sum_kl: bool | None
    n_epochs: int | None
    clip_range: ScheduleLike | None
    clip_range_vf: ScheduleLike | None
    vf_coef: float | None
    max_grad_norm: float | None
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        expert_dataset: Any = None,
        hidden_size_adversary: int = 100,
        adversary_entcoeff: float = 0.001,
        g_step: int = 3,
        d_step: int = 1,
        d_stepsize: float = 0.0003,
        learner: str = "trpo",
        learning_rate: ScheduleLike | None = None,
        n_steps: int = 2048,
        batch_size: int | None = None,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        normalize_advantage: bool = True,
        ent_coef: float = 0.0,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        target_kl: float | None = None,
        cg_max_steps: int | None = None,
        cg_damping: float | None = None,
        line_search_shrinking_factor: float | None = None,
        line_search_max_iter: int | None = None,
        n_critic_updates: int | None = None,
        sub_sampling_factor: int | None = None,
        sum_kl: bool | None = None,
        n_epochs: int | None = None,
        clip_range: ScheduleLike | None = None,
        clip_range_vf: ScheduleLike | None = None,
        vf_coef: float | None = None,
        max_grad_norm: float | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        rollout_buffer_class: type | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
    ) -> None: ...

class MaskablePPO(_MaskablePPO):
    """PPO for Discrete, MultiDiscrete and MultiBinary actions of which some are invalid."""

    learning_rate: ScheduleLike
    n_steps: int
    batch_size: int
    n_epochs: int
    gamma: float
    gae_lambda: float
    clip_range: ScheduleLike
    clip_range_vf: ScheduleLike | None
    normalize_advantage: bool
    ent_coef: float
    vf_coef: float
    max_grad_norm: float
    target_kl: float | None
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.0003,
        n_steps: int = 2048,
        batch_size: int = 64,
        n_epochs: int = 10,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip_range: ScheduleLike = 0.2,
        clip_range_vf: ScheduleLike | None = None,
        normalize_advantage: bool = True,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        target_kl: float | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        rollout_buffer_class: type | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
    ) -> None: ...

class PPO(_PPO):
    """PPO for Box, Discrete, MultiDiscrete and MultiBinary actions."""

    learning_rate: ScheduleLike
    n_steps: int
    batch_size: int
    n_epochs: int
    gamma: float
    gae_lambda: float
    clip_range: ScheduleLike
    clip_range_vf: ScheduleLike | None
    normalize_advantage: bool
    ent_coef: float
    vf_coef: float
    max_grad_norm: float
    use_sde: bool
    sde_sample_freq: int
    target_kl: float | None
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.0003,
        n_steps: int = 2048,
        batch_size: int = 64,
        n_epochs: int = 10,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip_range: ScheduleLike = 0.2,
        clip_range_vf: ScheduleLike | None = None,
        normalize_advantage: bool = True,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        target_kl: float | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        rollout_buffer_class: type | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
    ) -> None: ...

class QRDQN(_QRDQN):
    """QR-DQN for Discrete actions."""

    learning_rate: ScheduleLike
    buffer_size: int
    learning_starts: int
    batch_size: int
    tau: float
    gamma: float
    gradient_steps: int
    replay_buffer_class: Any
    replay_buffer_kwargs: Any
    optimize_memory_usage: bool
    n_steps: int
    target_update_interval: int
    exploration_fraction: float
    exploration_initial_eps: float
    exploration_final_eps: float
    max_grad_norm: float | None
    buffer_device: str
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 5e-05,
        buffer_size: int = 1000000,
        learning_starts: int = 100,
        batch_size: int = 32,
        tau: float = 1.0,
        gamma: float = 0.99,
        train_freq: TrainFreqLike = 4,
        gradient_steps: int = 1,
        replay_buffer_class: Any = None,
        replay_buffer_kwargs: Any = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        target_update_interval: int = 10000,
        exploration_fraction: float = 0.005,
        exploration_initial_eps: float = 1.0,
        exploration_final_eps: float = 0.01,
        max_grad_norm: float | None = None,
        buffer_device: str = "cpu",
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
    ) -> None: ...

class RecurrentPPO(_RecurrentPPO):
    """PPO of recurrent policies for Box, Discrete, MultiDiscrete and MultiBinary actions."""

    learning_rate: ScheduleLike
    n_steps: int
    batch_size: int
    n_epochs: int
    gamma: float
    gae_lambda: float
    clip_range: ScheduleLike
    clip_range_vf: ScheduleLike | None
    normalize_advantage: bool
    ent_coef: float
    vf_coef: float
    max_grad_norm: float
    use_sde: bool
    sde_sample_freq: int
    target_kl: float | None
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.0003,
        n_steps: int = 128,
        batch_size: int = 128,
        n_epochs: int = 10,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip_range: ScheduleLike = 0.2,
        clip_range_vf: ScheduleLike | None = None,
        normalize_advantage: bool = True,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        target_kl: float | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        rollout_buffer_class: type | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
    ) -> None: ...

class SAC(_SAC):
    """SAC for Box actions."""

    learning_rate: ScheduleLike
    buffer_size: int
    learning_starts: int
    batch_size: int
    tau: float
    gamma: float
    gradient_steps: int
    action_noise: Any
    replay_buffer_class: Any
    replay_buffer_kwargs: Any
    optimize_memory_usage: bool
    n_steps: int
    ent_coef: float | str
    target_update_interval: int
    use_sde: bool
    sde_sample_freq: int
    use_sde_at_warmup: bool
    random_exploration: float
    policy_delay: int
    n_target_critics: int | None
    buffer_device: str
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.0003,
        buffer_size: int = 1000000,
        learning_starts: int = 100,
        batch_size: int = 256,
        tau: float = 0.005,
        gamma: float = 0.99,
        train_freq: TrainFreqLike = 1,
        gradient_steps: int = 1,
        action_noise: Any = None,
        replay_buffer_class: Any = None,
        replay_buffer_kwargs: Any = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        ent_coef: float | str = "auto",
        target_update_interval: int = 1,
        target_entropy: float | str = "auto",
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        use_sde_at_warmup: bool = False,
        random_exploration: float = 0.0,
        policy_delay: int = 1,
        n_target_critics: int | None = None,
        buffer_device: str = "cpu",
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
    ) -> None: ...

class TD3(_TD3):
    """TD3 for Box actions."""

    learning_rate: ScheduleLike
    buffer_size: int
    learning_starts: int
    batch_size: int
    tau: float
    gamma: float
    gradient_steps: int
    action_noise: Any
    replay_buffer_class: Any
    replay_buffer_kwargs: Any
    optimize_memory_usage: bool
    n_steps: int
    policy_delay: int
    target_policy_noise: float
    target_noise_clip: float
    random_exploration: float
    buffer_device: str
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.001,
        buffer_size: int = 1000000,
        learning_starts: int = 100,
        batch_size: int = 256,
        tau: float = 0.005,
        gamma: float = 0.99,
        train_freq: TrainFreqLike = 1,
        gradient_steps: int = 1,
        action_noise: Any = None,
        replay_buffer_class: Any = None,
        replay_buffer_kwargs: Any = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        policy_delay: int = 2,
        target_policy_noise: float = 0.2,
        target_noise_clip: float = 0.5,
        random_exploration: float = 0.0,
        buffer_device: str = "cpu",
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
    ) -> None: ...

class TQC(_TQC):
    """TQC for Box actions."""

    learning_rate: ScheduleLike
    buffer_size: int
    learning_starts: int
    batch_size: int
    tau: float
    gamma: float
    gradient_steps: int
    action_noise: Any
    replay_buffer_class: Any
    replay_buffer_kwargs: Any
    optimize_memory_usage: bool
    n_steps: int
    ent_coef: float | str
    target_update_interval: int
    top_quantiles_to_drop_per_net: int
    use_sde: bool
    sde_sample_freq: int
    use_sde_at_warmup: bool
    random_exploration: float
    buffer_device: str
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.0003,
        buffer_size: int = 1000000,
        learning_starts: int = 100,
        batch_size: int = 256,
        tau: float = 0.005,
        gamma: float = 0.99,
        train_freq: TrainFreqLike = 1,
        gradient_steps: int = 1,
        action_noise: Any = None,
        replay_buffer_class: Any = None,
        replay_buffer_kwargs: Any = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        ent_coef: float | str = "auto",
        target_update_interval: int = 1,
        target_entropy: float | str = "auto",
        top_quantiles_to_drop_per_net: int = 2,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        use_sde_at_warmup: bool = False,
        random_exploration: float = 0.0,
        buffer_device: str = "cpu",
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
    ) -> None: ...

class TRPO(_TRPO):
    """TRPO for Box, Discrete, MultiDiscrete and MultiBinary actions."""

    learning_rate: ScheduleLike
    n_steps: int
    batch_size: int
    gamma: float
    cg_max_steps: int
    cg_damping: float
    line_search_shrinking_factor: float
    line_search_max_iter: int
    n_critic_updates: int
    gae_lambda: float
    use_sde: bool
    sde_sample_freq: int
    normalize_advantage: bool
    target_kl: float
    sub_sampling_factor: int
    ent_coef: float
    sum_kl: bool
    def __init__(
        self,
        policy: str | type,
        env: Any = None,
        learning_rate: ScheduleLike = 0.001,
        n_steps: int = 2048,
        batch_size: int = 128,
        gamma: float = 0.99,
        cg_max_steps: int = 15,
        cg_damping: float = 0.1,
        line_search_shrinking_factor: float = 0.8,
        line_search_max_iter: int = 10,
        n_critic_updates: int = 10,
        gae_lambda: float = 0.95,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        normalize_advantage: bool = True,
        target_kl: float = 0.01,
        sub_sampling_factor: int = 1,
        ent_coef: float = 0.0,
        sum_kl: bool = False,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        rollout_buffer_class: type | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
    ) -> None: ...
