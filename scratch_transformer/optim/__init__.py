"""The paper's training recipe, Adam and its warm-up schedule (Vaswani et al. 2017, section 5.3); and AdamW."""

from scratch_transformer.optim.adam import Adam, AdamW
from scratch_transformer.optim.optimizer import Optimizer
from scratch_transformer.optim.schedule import WarmupSchedule, warmup_lr

__all__ = ["Adam", "AdamW", "Optimizer", "WarmupSchedule", "warmup_lr"]
