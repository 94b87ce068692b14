"""Action distributions: sample, mode, log_prob, entropy, kl."""
