"""The user-facing model: training, prediction, environments, saving and loading."""
