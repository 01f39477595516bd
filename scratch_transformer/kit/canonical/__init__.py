"""The components with one set of names for inputs and parameters, each doing what its `Recipe` says, right or wrong."""
