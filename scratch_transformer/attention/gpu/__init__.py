"""Kernels for GPUs, in Triton and Gluon. Imported only when one runs: Triton need not be installed."""
