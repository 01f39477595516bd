"""Where the canonical weights are among a learner's parameters."""
