"""What the names in a learner's code mean: of constructors' parameters, of forward's, of weights."""
