"""How fast attention is, how much memory it takes, and how near its results are: ours beside PyTorch's own.

case → rivals → race (checked, interleaved, weighed) → rows → ratios → table, page and plots

`run` goes through a `grid` of cases. The files in benchmarks/ time the same cases with pytest-benchmark.
"""
