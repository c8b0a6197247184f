"""Information between samples without densities: Gram matrices, matrix-based Rényi entropies, HSIC.

Pure differentiable functions of tensors, batched over leading dimensions; tensors follow their inputs.
"""

from cignn.information.gram import bandwidth, donsker_varadhan, gaussian_gram, hsic, label_gram
from cignn.information.renyi import (
    CausalTerms,
    causal_terms,
    conditional_mutual_information,
    joint_entropy,
    mutual_information,
    renyi_entropy,
)

__all__ = [
    "CausalTerms",
    "bandwidth",
    "causal_terms",
    "conditional_mutual_information",
    "donsker_varadhan",
    "gaussian_gram",
    "hsic",
    "joint_entropy",
    "label_gram",
    "mutual_information",
    "renyi_entropy",
]
