"""What is known about a learner's code while it is checked, and the parts that composites are built with."""
