"""PyTorch operations on lists of tensors, in one kernel each; PyTorch has no public names for them."""

from torch import _foreach_add as foreach_add
from torch import _foreach_addcdiv_ as foreach_addcdiv_
from torch import _foreach_addcmul as foreach_addcmul
from torch import _foreach_addcmul_ as foreach_addcmul_
from torch import _foreach_copy_ as foreach_copy_
from torch import _foreach_lerp_ as foreach_lerp_
from torch import _foreach_mul_ as foreach_mul_
from torch import _foreach_norm as foreach_norm
from torch import _foreach_sqrt_ as foreach_sqrt_
from torch import _foreach_sub_ as foreach_sub_
from torch import _fused_adam_ as fused_adam_

__all__ = [
    "foreach_add",
    "foreach_addcdiv_",
    "foreach_addcmul",
    "foreach_addcmul_",
    "foreach_copy_",
    "foreach_lerp_",
    "foreach_mul_",
    "foreach_norm",
    "foreach_sqrt_",
    "foreach_sub_",
    "fused_adam_",
]
