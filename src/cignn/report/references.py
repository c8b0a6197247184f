"""References of what a run used, numbered in the order in which a text cites them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

ARXIV = "10.48550/arXiv."


class Reference(NamedTuple):
    """A work to cite by its DOI; page is its address where it has none."""

    text: str
    doi: str = ""
    page: str = ""

    @property
    def url(self) -> str:
        """Address of the work."""
        return f"https://doi.org/{self.doi}" if self.doi else self.page

    @property
    def label(self) -> str:
        """What to print as the link: arXiv:1609.02907, doi:10.…, or the address."""
        if self.doi.startswith(ARXIV):
            return f"arXiv:{self.doi.removeprefix(ARXIV)}"
        return f"doi:{self.doi}" if self.doi else self.page.removeprefix("https://")


def _arxiv(text: str, number: str) -> Reference:
    return Reference(text, f"{ARXIV}{number}")


_SVM = Reference(
    "Cortes C, Vapnik V. Support-vector networks. Machine Learning 20, 273–297, 1995.", "10.1007/BF00994018"
)


REFERENCES = {
    "ci-gnn": _arxiv(
        "Zheng K, Yu S, Chen B. CI-GNN: A Granger causality-inspired graph neural network for interpretable "
        "brain network-based psychiatric diagnosis. Neural Networks, 2024.",
        "2301.01642",
    ),
    "gcn": _arxiv(
        "Kipf TN, Welling M. Semi-supervised classification with graph convolutional networks. ICLR 2017.",
        "1609.02907",
    ),
    "gin": _arxiv(
        "Xu K, Hu W, Leskovec J, Jegelka S. How powerful are graph neural networks? ICLR 2019.", "1810.00826"
    ),
    "gat": _arxiv(
        "Veličković P, Cucurull G, Casanova A, et al. Graph attention networks. ICLR 2018.", "1710.10903"
    ),
    "sib": _arxiv(
        "Yu J, Xu T, Rong Y, Bian Y, Huang J, He R. Recognizing predictive substructures with subgraph "
        "information bottleneck. IEEE Transactions on Pattern Analysis and Machine Intelligence, 2021.",
        "2103.11155",
    ),
    "dir": _arxiv(
        "Wu Y-X, Wang X, Zhang A, He X, Chua T-S. Discovering invariant rationales for graph neural "
        "networks. ICLR 2022.",
        "2201.12872",
    ),
    "linear-svm": _SVM,
    "rbf-svm": _SVM,
    "lasso": Reference(
        "Tibshirani R. Regression shrinkage and selection via the lasso. Journal of the Royal Statistical "
        "Society B 58, 267–288, 1996.",
        "10.1111/j.2517-6161.1996.tb02080.x",
    ),
    "random-forest": Reference(
        "Breiman L. Random forests. Machine Learning 45, 5–32, 2001.", "10.1023/A:1010933404324"
    ),
    "adam": _arxiv("Kingma DP, Ba J. Adam: a method for stochastic optimization. ICLR 2015.", "1412.6980"),
    "tangent": Reference(
        "Varoquaux G, Baronnet F, Kleinschmidt A, Fillard P, Thirion B. Detection of brain "
        "functional-connectivity difference in post-stroke patients using group-level covariance modeling. "
        "MICCAI 2010, LNCS 6361, 200–208.",
        "10.1007/978-3-642-15705-9_25",
    ),
    "ledoit-wolf": Reference(
        "Ledoit O, Wolf M. A well-conditioned estimator for large-dimensional covariance matrices. Journal "
        "of Multivariate Analysis 88, 365–411, 2004.",
        "10.1016/S0047-259X(03)00096-4",
    ),
    "combat": Reference(
        "Johnson WE, Li C, Rabinovic A. Adjusting batch effects in microarray expression data using "
        "empirical Bayes methods. Biostatistics 8, 118–127, 2007.",
        "10.1093/biostatistics/kxj037",
    ),
    "combat-imaging": Reference(
        "Fortin J-P, Cullen N, Sheline YI, et al. Harmonization of cortical thickness measurements across "
        "scanners and sites. NeuroImage 167, 104–120, 2018.",
        "10.1016/j.neuroimage.2017.11.024",
    ),
    "combat-fc": Reference(
        "Yu M, Linn KA, Cook PA, et al. Statistical harmonization corrects site effects in functional "
        "connectivity measurements from multi-site fMRI data. Human Brain Mapping 39, 4213–4227, 2018.",
        "10.1002/hbm.24241",
    ),
    "nadeau-bengio": Reference(
        "Nadeau C, Bengio Y. Inference for the generalization error. Machine Learning 52, 239–281, 2003.",
        "10.1023/A:1024068626366",
    ),
    "holm": Reference(
        "Holm S. A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics "
        "6, 65–70, 1979.",
        page="https://www.jstor.org/stable/4615733",
    ),
    "permutation": Reference(
        "Phipson B, Smyth GK. Permutation p-values should never be zero: calculating exact p-values when "
        "permutations are randomly drawn. Statistical Applications in Genetics and Molecular Biology 9, "
        "article 39, 2010.",
        "10.2202/1544-6115.1585",
    ),
    "stability": Reference(
        "Shah RD, Samworth RJ. Variable selection with error control: another look at stability selection. "
        "Journal of the Royal Statistical Society B 75, 55–80, 2013.",
        "10.1111/j.1467-9868.2011.01034.x",
    ),
    "fdr": Reference(
        "Benjamini Y, Hochberg Y. Controlling the false discovery rate: a practical and powerful approach to "
        "multiple testing. Journal of the Royal Statistical Society B 57, 289–300, 1995.",
        "10.1111/j.2517-6161.1995.tb02031.x",
    ),
    "haufe": Reference(
        "Haufe S, Meinecke F, Görgen K, et al. On the interpretation of weight vectors of linear models in "
        "multivariate neuroimaging. NeuroImage 87, 96–110, 2014.",
        "10.1016/j.neuroimage.2013.10.067",
    ),
    "wilson": Reference(
        "Wilson EB. Probable inference, the law of succession, and statistical inference. Journal of the "
        "American Statistical Association 22, 209–212, 1927.",
        "10.1080/01621459.1927.10502953",
    ),
    "nuisance": Reference(
        "Spisak T. Statistical quantification of confounding bias in machine learning models. GigaScience "
        "11, giac082, 2022.",
        "10.1093/gigascience/giac082",
    ),
    "decision-curve": Reference(
        "Vickers AJ, Elkin EB. Decision curve analysis: a novel method for evaluating prediction models. "
        "Medical Decision Making 26, 565–574, 2006.",
        "10.1177/0272989X06295361",
    ),
    "aal116": Reference(
        "Tzourio-Mazoyer N, Landeau B, Papathanassiou D, et al. Automated anatomical labeling of activations "
        "in SPM using a macroscopic anatomical parcellation of the MNI MRI single-subject brain. NeuroImage "
        "15, 273–289, 2002.",
        "10.1006/nimg.2001.0978",
    ),
    "scikit-learn": Reference(
        "Pedregosa F, Varoquaux G, Gramfort A, et al. Scikit-learn: machine learning in Python. Journal of "
        "Machine Learning Research 12, 2825–2830, 2011.",
        page="https://jmlr.org/papers/v12/pedregosa11a.html",
    ),
    "torch": _arxiv(
        "Paszke A, Gross S, Massa F, et al. PyTorch: an imperative style, high-performance deep learning "
        "library. NeurIPS 2019.",
        "1912.01703",
    ),
    "nilearn": Reference("Nilearn contributors. nilearn [software]. Zenodo.", "10.5281/zenodo.8397156"),
}
"""Works by a short name. Those with a preprint alone, or whose journal's DOI is not known, have arXiv's."""


@dataclass
class Citations:
    """The works that a text cites, numbered from 1 by their first mention."""

    keys: list[str] = field(default_factory=list)

    def __call__(self, *keys: str) -> str:
        """Return what to write behind a sentence, such as [1, 2]."""
        for key in keys:
            if key not in REFERENCES:
                raise KeyError(f"no reference is called {key!r}.")
            if key not in self.keys:
                self.keys.append(key)
        return "[" + ", ".join(str(self.keys.index(key) + 1) for key in keys) + "]"

    @property
    def references(self) -> list[Reference]:
        """The works, in their order."""
        return [REFERENCES[key] for key in self.keys]
