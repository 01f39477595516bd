"""Finds a learner's classes and functions, and runs their code where it can do no harm.

target.py: a file, module, notebook or directory -> sources. survey.py: a source -> its definitions, and what it does
when imported; nothing is run. load.py: a source -> its namespace, salvaged if it crashes or trains (placeholders.py for
missing packages, standins.py for small ones that compute, axes_by_name.py for einops and einx, parallel_layers.py for
layers over several processes, silent.py for what only reports), decorators seen through (decorated.py). sandbox.py: no
network, no writing, limits.
"""
