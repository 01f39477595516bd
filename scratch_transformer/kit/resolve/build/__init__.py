"""Building a learner's class from settings: by its parameters' names, with a config object, with parts of its own."""
