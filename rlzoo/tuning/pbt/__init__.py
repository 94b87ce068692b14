"""Population based training: a search that changes hyperparameters while agents are trained."""
