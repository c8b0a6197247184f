"""The methods paragraph, and the tables and figures for a paper: true of the run, whole and escaped."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cignn import CohortClassifier, Explanations
from cignn.connectome import ComBat, Connectivity, ConnectomeGraphs, Deconfound
from cignn.datasets import make_cohort
from cignn.estimators import CLASSIFIERS, make_estimator
from cignn.evaluation import KFold, Store, evaluate
from cignn.evaluation.runner import plan
from cignn.evaluation.trivial import trivial_scores
from cignn.explanations import GroupExplanation
from cignn.report import ReportData, report_of, write_report
from cignn.report.methods_steps import BASELINES
from cignn.report.methods_text import OTHER, methods_text
from cignn.report.paper_tables import latex, paper_tables
from cignn.report.references import REFERENCES, Citations

pytestmark = pytest.mark.medium

METHODS = {"lasso": {"C": 1.0}, "linear-svm": {"C": 0.01}}


@pytest.fixture(scope="module")
def plain() -> ReportData:
    """A report of drawn explanations, with an evaluation by five folds and two seeds."""
    cohort = make_cohort(40, 8, data="matrices", n_edges=4, effect=1.0, n_sites=2, random_state=0)
    graphs = ConnectomeGraphs().transform(cohort)
    rng = np.random.default_rng(0)
    with Store() as store:
        results = evaluate(METHODS, {"d": cohort}, KFold(5), seeds=2, store=store, verbose=0)
        said = store.predictions()
    tested = pd.DataFrame({"method": ["lasso"], "metric": "accuracy", "value": 0.9, "permuted_mean": 0.5})
    return ReportData(
        Explanations(graphs, [rng.random(graphs.n_edges[0]) for _ in range(40)]),
        np.array([0, 1]),
        np.tile([0.4, 0.6], (40, 1)),
        results=results,
        predictions=said[said["method"] == "lasso"],
        class_names={0: "controls_&_others", 1: "50 % ill"},
        settings={"model": "lasso", "C": 1.0},
        facts={"model": "ShallowGraphClassifier", "scikit-learn": "1.7", "numpy": "2", "python": "3.12"},
        steps=(Connectivity("tangent"), ComBat(("age",)), Deconfound(("motion",)), ConnectomeGraphs()),
        permutations=tested.assign(permuted_std=0.05, p_value=0.01, n_permutations=99),
        trivial=trivial_scores(plan(METHODS, {"d": cohort}, KFold(5), 2), cohort),
    )


def said(data: ReportData) -> str:
    return " ".join(methods_text(data).paragraphs.values())


COHORT = make_cohort(12, 4, data="matrices", n_edges=1, random_state=0)
STEPS: dict[str, tuple[tuple[Any, ...], str, str]] = {
    "correlation": ((Connectivity(),), "was Pearson's correlation of their time series.", "Fisher"),
    "fisher": ((Connectivity(fisher=True),), "time series, as Fisher's z", "Ledoit"),
    "partial": ((Connectivity("partial"),), "the partial correlation", "tangent"),
    "tangent": ((Connectivity("tangent"),), "tangent-space projection", "nuisance"),
    "covariance": ((Connectivity("covariance"),), "was the covariance of their time series", "z-scored"),
    "matrices": ((), "given connectivity matrix of 8 regions", "time series"),
    "ComBat": ((ComBat(("age", "sex")),), "removed by ComBat [", "the label"),
    "label kept": ((ComBat((), keep_label=True),), "keeping effects of the label", "effects of age"),
    "shifts only": ((ComBat(mean_only=True),), "Site shifts of every connection", "spreads"),
    "Deconfound": ((Deconfound(("age", "motion")),), "age and head motion (mean framewise", "controls among"),
    "on controls": (
        (Deconfound(("age",), fit_on="controls"),),
        "controls among the training subjects",
        "ComBat",
    ),
    "on all": ((Deconfound(("age",), fit_on="all"),), "estimated on the training subjects.", "equal label"),
    "fitted": (
        (Deconfound(("age",)).fit(COHORT.with_y(None)),),
        "estimated on the training subjects.",
        "equal label",
    ),
    "by default": ((Deconfound(("age",)),), "at equal label", "controls among"),
    "within classes": ((Deconfound(("age",), fit_on="within_classes"),), "at equal label", "controls among"),
    "density": ((ConnectomeGraphs(0.1),), "the strongest 10 % of connections", "all connections"),
    "positive": ((ConnectomeGraphs(sign="positive"),), "positive ones only", "with their sign"),
}  # steps, what is said, what is not


@pytest.mark.parametrize("name", STEPS)
def test_steps_are_described_as_they_are(name: str, plain: ReportData) -> None:
    steps, told, untold = STEPS[name]
    text = said(replace(plain, steps=steps))
    assert told in text and untold not in text


def test_the_evaluation_is_described_as_it_was(plain: ReportData) -> None:
    text = said(plain)
    assert "5-fold cross-validation stratified by class, with random seeds 0 and 1" in text
    assert "a linear support vector machine was evaluated on the same splits" in text
    assert "harmonisation and the removal of nuisance effects included, was fitted without the test" in text
    assert "99 times with labels permuted over subjects within sites" in text
    assert "that of a subject's own site were predicted" in text
    assert "corrected resampled t-tests" in text and "Holm" in text
    alone = replace(plain, permutations=None, trivial=None, results=plain.results.query("method == 'lasso'"))
    for word in ("permuted over", "Holm", "majority", "For comparison"):
        assert word not in said(alone)
    assert "differed from the model described here in fisher" in said(
        replace(plain, facts={**plain.facts, OTHER: "fisher (True instead of False)"})
    )
    told = {"decisions of the evaluation": "Probabilities were calibrated."}
    assert "Probabilities were calibrated." in said(replace(plain, facts={**plain.facts, **told}))
    bare = replace(plain, results=None, predictions=None, permutations=None, trivial=None)
    assert "The model was not scored." in said(bare)
    assert "trained on and do not estimate" in said(replace(bare, trained_on=True))


@pytest.mark.parametrize("name", ["holdout", "loso", "given"])
def test_every_protocol_has_its_words(name: str, plain: ReportData) -> None:
    text = said(replace(plain, results=plain.results.assign(protocol=name)))
    words = {
        "holdout": "stratified hold-outs",
        "loso": "leaving out each of 5 sites",
        "given": "5 given splits",
    }
    assert words[name] in text and "cross-validation" not in text


def test_a_group_is_described_with_its_tests_or_without(plain: ReportData) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=28)
    halves = values + 0.1 * rng.normal(size=(20, 28))
    names = {"classes": (0, 1), "reading": "pattern", "n_subjects": 40}
    tested = GroupExplanation.from_maps(values, halves, rng.normal(size=(9, 28)), **names)
    untested = GroupExplanation.from_maps(values, halves, np.empty((0, 28)), **names)
    text = said(replace(plain, group=tested))
    assert "20 half-samples" in text and "against 9 permutations of the labels" in text
    assert f"Of 28 connections, {tested.n_selected} survived." in text
    assert "no connection was tested" in said(replace(plain, group=untested))
    assert "Means over subjects are descriptive" in said(plain)


def test_citations_are_numbered_in_order_and_all_are_listed(plain: ReportData) -> None:
    made = methods_text(plain)
    cited = [int(n) for group in re.findall(r"\[([\d, ]+)\]", said(plain)) for n in group.split(", ")]
    assert list(dict.fromkeys(cited)) == list(range(1, len(made.references) + 1))
    page = made.markdown("a study")
    assert page.startswith("# Methods: a study\n") and all(one.text in page for one in made.references)
    assert all(f"[{one.label}]({one.url})" in page for one in made.references)
    with pytest.raises(KeyError, match="no reference is called 'nobody'"):
        Citations()("nobody")


@pytest.mark.parametrize("name", REFERENCES)
def test_every_reference_is_well_formed(name: str) -> None:
    """Authors, title, where and when it appeared, and where it can be found."""
    one = REFERENCES[name]
    assert re.fullmatch(r"\S.*[^.]\.", one.text) and "  " not in one.text
    assert bool(one.doi) != bool(one.page), "one address"
    if one.doi:
        assert (
            re.fullmatch(r"10\.\d{4,9}/[!-~]+[^.,;\s]", one.doi) and one.url == f"https://doi.org/{one.doi}"
        )
    else:
        assert re.fullmatch(r"https://[a-z.]+/[!-~]+", one.page) and one.url == one.page
    if one.label.startswith("arXiv:"):
        assert re.fullmatch(r"arXiv:\d{4}\.\d{4,5}", one.label)
    if name != "nilearn":  # software without a year of its own
        assert re.search(r"\b(19|20)\d\d\b", one.text)
        authors = one.text.split(". ")[0]
        assert re.fullmatch(r"[^.]*\b[A-Z][A-Z-]{0,4}(, et al)?", authors), authors


def test_every_classifier_has_words_and_a_reference_where_there_is_one() -> None:
    for name in CLASSIFIERS:
        assert name in BASELINES
        assert name in REFERENCES or name == "logistic"


def test_settings_that_differ_from_the_preset_are_named() -> None:
    cohort = make_cohort(24, 8, n_edges=4, lengths=(30, 40), random_state=0)
    settings = {"dropout": 0.25}
    model = make_estimator("ci-gnn", epochs=1, n_estimators=2, settings=settings, random_state=0)
    fitted = CohortClassifier.make(model, connectivity=Connectivity(fisher=True)).fit(cohort)
    text = said(report_of(fitted, cohort))
    assert 'preset "connectome", except dropout = 0.25' in text and "mean over 2 networks" in text
    assert "for at most 1 epochs" in text and "CI-GNN [1]" in text and "as Fisher's z" in text


# -------------------------------------------------------------- tables and figures


@pytest.fixture(scope="module")
def page(plain: ReportData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(tmp_path_factory.mktemp("paper") / "my report.html", plain, files=True)


def test_tables_are_written_with_all_digits_and_printed_escaped(plain: ReportData, page: Path) -> None:
    folder = page.parent / "my report_files"
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert all(file.stat().st_size for file in files)
    names = {file.relative_to(folder).as_posix() for file in files}
    assert (folder / "methods.md").read_text("utf-8") == methods_text(plain).markdown(plain.title)
    for name in ("methods", "comparison", "permutations", "scores", "sites", "confusion"):
        assert {f"tables/{name}.csv", f"tables/{name}.tex"} <= names
    for name in ("roc", "confusion", "calibration", "decision_curve", "sites", "connectogram"):
        assert {f"figures/{name}.svg", f"figures/{name}.pdf"} <= names
    assert (folder / "figures" / "roc.pdf").read_bytes().startswith(b"%PDF")
    table = pd.read_csv(folder / "tables" / "methods.csv")
    own = plain.results.query("method == 'lasso' and metric == 'accuracy'")["value"].mean()
    kept = table.query("method == 'lasso' and metric == 'accuracy'")["mean"].item()
    assert kept == pytest.approx(own, abs=1e-12)
    assert set(table["method"]) == {"lasso", "linear-svm", "majority class", "site's majority"}
    printed = (folder / "tables" / "confusion.tex").read_text()
    assert r"controls\_\&\_others" in printed and r"50 \% ill" in printed
    for name, one in paper_tables(plain).items():
        text = latex(one.printed, one.caption, name)
        (spec,) = re.findall(r"\\begin{tabular}{([lr]+)}", text)
        body = re.findall(r"^(?!%|\\)(.*) \\\\$", text, re.M)
        assert len(body) == len(one.printed) + 1
        assert all(len(re.findall(r"(?<!\\)&", line)) == len(spec) - 1 for line in body), "a cell per column"


def test_what_latex_would_take_for_commands_is_printed() -> None:
    table = pd.DataFrame(
        {"a_b": ["\\input{x}", "50 % & more", "x^2 ~ {y} #1 $z$ < 3"], "n": [-0.5, np.nan, 1]}
    )
    text = latex(table, "100 %", "t")
    assert r"\textbackslash{}input\{x\}" in text and r"50 \% \& more" in text and r"a\_b" in text
    assert r"x\textasciicircum{}2 \textasciitilde{} \{y\} \#1 \$z\$ $<$ 3" in text
    assert "$-$0.500" in text and "–" in text


AWKWARD = [
    *(
        "snake_case_",
        "50 % & more",
        "[bracket",
        "*star",
        "a--b---c",
        "x^2 ~ {y} #1 $z$ < 3 > 2 | 1",
        r"\input{x}\\\\",
    ),
    *(
        "α β γ μ ρ σ ω Δ Σ Ω Α ο",
        "µ ± 3 × 10² ≤ ∞ °C",
        "Łódź, São Paulo, Þórshöfn, Đorđe",
        "«quoted» “so” – …",
    ),
    *("e\u0301 in two parts", "a\tb\nc\x07", "'`'", '"', "", "−0.5"),
]


def awkward(plain: ReportData) -> dict[str, str]:
    """Every table of a report, and one of awkward words, as LaTeX."""
    table = pd.DataFrame({word or "empty": AWKWARD for word in AWKWARD[:4]} | {"n": range(len(AWKWARD))})
    tables = {name: latex(one.printed, one.caption, name) for name, one in paper_tables(plain).items()}
    return tables | {"awkward": latex(table, " ".join(AWKWARD), "awkward")}


def test_no_name_can_end_a_row_or_a_cell_of_a_latex_table(plain: ReportData) -> None:
    for text in awkward(plain).values():
        (spec,) = re.findall(r"\\begin{tabular}{([lr]+)}", text)
        body = re.findall(r"^(.*) \\\\$", text, re.M)
        for line in body:
            bare = re.sub(r"\\[&%$#_{}]", "", line)  # without what is escaped
            assert bare.count("&") == len(spec) - 1 and not re.search(
                r"[%#_^~]", re.sub(r"\$[^$]*\$", "", bare)
            )
            assert bare.count("{") == bare.count("}") and bare.count("$") % 2 == 0
            assert not line.startswith(("[", "*")) and "\\\\" not in line and "--" not in line
        assert not re.search("[\u0370-\u03ff]", text), "Greek letters are commands"
    assert "XeLaTeX" not in text
    assert "% and XeLaTeX or LuaLaTeX with a font that has 脑" in latex(pd.DataFrame({"a": ["脑"]}), "", "t")


@pytest.mark.medium
def test_latex_prints_the_tables(plain: ReportData, tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not on the PATH")
    tables = awkward(plain)
    for name, text in tables.items():
        (tmp_path / f"{name}.tex").write_text(text, encoding="utf-8")
    inputs = "".join(f"\\input{{{name}}}\\clearpage\n" for name in tables)
    (tmp_path / "main.tex").write_text(
        "\\documentclass{article}\\usepackage{booktabs}\\usepackage[T1]{fontenc}\n"
        f"\\begin{{document}}\n{inputs}\\end{{document}}\n"
    )
    line = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "main.tex"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, timeout=300)
    log = done.stdout.decode("utf-8", "replace")
    if "booktabs.sty' not found" in log or "Font T1" in log:
        pytest.skip("pdflatex has no booktabs or no T1 fonts")
    assert done.returncode == 0, log[-2000:]
    assert (tmp_path / "main.pdf").stat().st_size > 10_000 and "Missing character" not in log


def test_the_page_links_to_files_that_are_there(plain: ReportData, page: Path, tmp_path: Path) -> None:
    text = page.read_text("utf-8")
    links = re.findall(r'href="(my%20report_files/[^"]+)"', text)
    assert len(links) > 15
    for link in links:
        assert (page.parent / link.replace("%20", " ")).is_file()
    assert methods_text(plain).paragraphs["Evaluation"][:60] in text
    alone = write_report(tmp_path / "alone.html", plain)
    assert "_files/" not in alone.read_text("utf-8") and not (tmp_path / "alone_files").exists()
    (tmp_path / "taken_files").write_text("")
    with pytest.raises(ValueError, match="taken_files is a file"):
        write_report(tmp_path / "taken.html", plain, files=True)
