"""vitalsdsl for Weights & Biases: a policy over every run that a process logs.

    import vitalsdsl_wandb
    vitalsdsl_wandb.attach("llm.vitals")

Importing this loads no wandb; attaching does.
"""

from vitalsdsl_wandb.attach import WandbAttachment, attach

__all__ = ["WandbAttachment", "attach"]
