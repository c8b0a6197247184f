"""Models as the commands make, explain and score them."""

from __future__ import annotations

import warnings
from copy import copy
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cignn._checks import meant, nearest
from cignn._progress import working
from cignn.cli import options as opt
from cignn.cli.app import complain, positive_words, show_facts
from cignn.cli.reading import read_data, subject_names
from cignn.cli.scans import atlas_for
from cignn.cli.scores import SCORE_METHODS
from cignn.cli.settings import assignments, names_in, read_settings

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from cignn import Cohort, CohortClassifier, Explanations, GraphSet


KNOWN_SIZES = {116: "aal116"}  # regions → the built-in atlas that has as many


def cohort_model(
    classifier: Any,
    cohort: Cohort,
    connectivity: str | None,
    fisher: bool,
    combat: bool,
    covariates: str | None,
    unseen_sites: str,
    missing_covariates: str,
    density: float | None,
    deconfound: str | None,
    deconfound_on: str,
    combat_on: str = "all",
    repeated_scans: str = "raise",
    *,
    positive: Any = None,
    verbose: int = 0,
) -> CohortClassifier:
    """Return the classifier with the steps before it, as the options say.

    positive : the class named as positive; of two classes, the other one is that of the controls.
    """
    from sklearn.base import is_regressor

    from cignn import CohortClassifier, CohortRegressor
    from cignn.connectome import ComBat, Connectivity, Deconfound

    if covariates is not None and not combat:
        raise typer.BadParameter("names what ComBat preserves; add --combat.", param_hint="'--covariates'")
    kept = [name for name in ("age", "sex") if name in cohort.covariates]
    if covariates is not None:
        kept = [] if covariates.lower() == "none" else names_in(covariates)
    others = [label for label in _classes(cohort) if str(label) != str(positive)]
    control = others[0] if positive is not None and len(others) == 1 else None
    whom: dict[str, Any] = {"fit_on": combat_on, "control": control, "repeated": repeated_scans}
    harmonised = ComBat(tuple(kept), unseen=unseen_sites, missing=missing_covariates, **whom)
    if combat:
        harmonised.check_columns(cohort)  # now, not in every task
    elif combat_on != "all":
        raise typer.BadParameter("says on whom --combat is fitted; add it.", param_hint="'--combat-on'")
    names = [name for name in names_in(deconfound) if name.lower() != "none"]
    cleaned = Deconfound(tuple(names), deconfound_on, control=control, unseen=unseen_sites)
    if names:
        cleaned.check_columns(cohort)
    elif deconfound_on not in ("auto", "all"):
        raise typer.BadParameter(
            "says on whom --deconfound is fitted; add it.", param_hint="'--deconfound-on'"
        )
    whole = CohortRegressor if is_regressor(classifier) else CohortClassifier
    return whole.make(
        classifier,
        connectivity=Connectivity(connectivity or "correlation", fisher=fisher, verbose=verbose),
        combat=harmonised if combat else False,
        deconfound=cleaned if names else None,
        density=density,
    )


def _classes(cohort: Cohort) -> list[Any]:
    import pandas as pd

    return pd.Series(cohort.y).dropna().unique().tolist()


def check_kind(connectivity: str | None, fisher: bool) -> None:
    """Refuse an unknown kind of connectivity, or one without Fisher's z, before anything is read."""
    if fisher and connectivity in ("tangent", "covariance"):
        raise typer.BadParameter(
            f"needs correlations; use --connectivity correlation or partial, got {connectivity}.",
            param_hint="'--fisher'",
        )
    if connectivity is not None and connectivity not in opt.KINDS:
        hint = meant(connectivity, opt.KINDS)
        raise typer.BadParameter(f"there is no '{connectivity}'; {hint}", param_hint="'--connectivity'")


def refuse_for_graphs(context: typer.Context) -> None:
    """Options of connectivity make no sense for data that are graphs already."""
    of_cohorts = ("connectivity", "fisher", "combat", "covariates", "deconfound", "density", "views", "view")
    for param in context.command.params:
        name = str(param.name)
        if name in of_cohorts and context.params.get(name):
            raise typer.BadParameter(
                "is for cohorts, the data are graphs; leave it out.", param_hint=f"'{param.opts[0]}'"
            )


def check_methods(names: list[str]) -> None:
    """Refuse an unknown method before the wait for imports; the words are those of `make_estimator`."""
    for name in names:
        if name not in (*opt.METHODS, *SCORE_METHODS):
            raise ValueError(f"there is no classifier {name!r}{nearest(name, opt.METHODS)}")


def estimators_of(names: list[str], settings: dict[str, Any], device: str) -> dict[str, Any]:
    """Make the methods; a setting reaches all that have it, or the one named before a dot."""
    from cignn.estimators import ESTIMATORS, make_estimator

    if not names:
        raise typer.BadParameter("name at least one, such as ci-gnn.", param_hint="'--methods'")
    params: dict[str, dict[str, Any]] = {name: {} for name in names}
    for name in names:
        make_estimator(name)  # says which names there are
    for key, value in settings.items():
        method, dot, param = key.rpartition(".")
        wanted = [method] if dot else [n for n in names if _takes(ESTIMATORS[n].estimator, param)]
        if dot and method not in params:
            raise typer.BadParameter(
                f"'{key}' names the method {method!r}, which is not evaluated.", param_hint="'--set'"
            )
        if not wanted:
            raise typer.BadParameter(
                f"none of {', '.join(names)} has a parameter '{param}'.", param_hint="'--set'"
            )
        for name in wanted:
            params[name][param] = value
    return {name: make_estimator(name, device=device, **params[name]) for name in names}


def explainable(estimators: dict[str, Any]) -> list[str]:
    """Names of methods a report can explain: ci-gnn, others that explain themselves, networks, the rest."""
    from cignn.estimators import ExplainingClassifier, NeuralGraphClassifier, ShallowGraphClassifier

    kinds = (ExplainingClassifier, NeuralGraphClassifier, ShallowGraphClassifier)
    able = [name for name, one in estimators.items() if isinstance(one, kinds)]
    return sorted(
        able, key=lambda n: (n != "ci-gnn", [isinstance(estimators[n], k) for k in kinds].index(True))
    )


def _takes(estimator: type, param: str) -> bool:
    from cignn.estimators.registry import parameters_of

    return param in parameters_of(estimator)


# ------------------------------------------------------------------- explanations and predictions


def explained(
    classifier: Any,
    graphs: GraphSet,
    explainer: str,
    seed: int,
    quiet: bool,
    target: Any = None,
    pooled: bool = True,
) -> Explanations:
    """Explain graphs by the classifier itself or by an explainer of that name.

    target : a class, or the one of each graph.
    """
    import numpy as np

    from cignn.estimators import ExplainingClassifier, KeptEpochWarning, NeuralGraphClassifier
    from cignn.estimators.kept_epochs import told_by_epochs_of
    from cignn.explainers import EXPLAINERS, NetworkExplainer, make_explainer

    if explainer == "auto":
        if hasattr(classifier, "explain"):
            if (told := told_by_epochs_of(classifier, mask_only=True)) is not None:
                warnings.warn(told, KeptEpochWarning, stacklevel=2)
            with working("explaining", not quiet):
                options = {} if target is None else {"target": target}
                if isinstance(classifier, ExplainingClassifier):
                    options["pooled"] = pooled
                return classifier.explain(graphs, **options)
        explainer = "contributions"
    if explainer not in EXPLAINERS:
        hint = meant(explainer, EXPLAINERS)
        raise typer.BadParameter(f"there is no explainer '{explainer}'; {hint}", param_hint="'--explainer'")
    if not isinstance(classifier, NeuralGraphClassifier) and issubclass(
        EXPLAINERS[explainer], NetworkExplainer
    ):
        raise typer.BadParameter(
            f"{explainer} explains networks, the model is none ({classifier.settings_.get('model')}); fit "
            "one such as ci-gnn.",
            param_hint="'--explainer'",
        )
    made = make_explainer(explainer)
    known = made.get_params()
    made.set_params(
        **{k: v for k, v in {"random_state": seed, "verbose": int(not quiet)}.items() if k in known}
    )
    fitted: Any = made.fit(classifier, graphs)
    chooses = "target" in signature(fitted.explain).parameters
    if target is None or (np.ndim(target) and not chooses):
        return fitted.explain(graphs)
    if not chooses:
        raise typer.BadParameter(
            f"{explainer} explains the predicted class alone; leave it out or use --explainer contributions.",
            param_hint="'--target'",
        )
    return fitted.explain(graphs, target=target)


def class_named(classes: np.ndarray, name: str | None) -> Any:
    """Return the class of that name, None without a name; --target names it."""
    known = {str(label): label for label in classes.tolist()}
    if name is not None and name not in known:
        raise typer.BadParameter(f"there is no class '{name}'; {meant(name, known)}", param_hint="'--target'")
    return None if name is None else known[name]


def with_correlations(explanations: Explanations, model: Any, data: Cohort | GraphSet) -> Explanations:
    """Return explanations whose tables show correlations, where the model's graphs are of tangent space."""
    from cignn import Cohort, CohortClassifier

    if not isinstance(model, CohortClassifier) or not isinstance(data, Cohort):
        return explanations
    return explanations.with_connectivity(model.shown_connectivity(data))


def positive_of(fitted: Any, model: Path, given: str | None) -> Any:
    """Return the class that counts as positive: the one given, else the one the model was scored by."""
    from cignn.evaluation import positive_class

    return positive_class(fitted.classes_, given or read_settings(model).get("positive"))


def tell_scores(scores: dict[str, float], table: pd.DataFrame, positive: Any) -> None:
    """Show scores, or say why labelled subjects have none."""
    if scores:
        words = positive_words(positive)
        show_facts(scores, f"on labelled subjects the model was not trained on{words}")
    elif "label" in table and table.loc[table["label"].notna(), "trained_on"].all():
        complain("note", "no scores: the model was trained on all subjects that have labels.")


def read_new(
    path: Path,
    model: Path,
    format: str,
    label: str,
    atlas: str | None,
    load: list[str] | None,
    quiet: bool,
    target: str | None = None,
) -> Cohort | GraphSet:
    """Read subjects to predict; the options of the model's own cohort hold unless others are given."""
    options = assignments(load)
    earlier = read_settings(model)
    kept = earlier.get("load", {})
    if isinstance(kept, dict) and str(earlier.get("format", "auto")) == format:
        options = {**{k: v for k, v in kept.items() if k not in ("participants", "selection")}, **options}
    if label == "label":
        label = str(earlier.get("label", label))
    atlas = atlas_for(path, atlas, earlier)
    named: dict[str, Any] = {"format": format, "label": label, "atlas": atlas, "target": target}
    return read_data(path, **named, load=options, new=True, quiet=quiet)


def suggest_atlas(names: list[str], quiet: bool) -> None:
    """Say which atlas regions without names may be of, by their number."""
    from cignn.datasets.atlas import unnamed

    if not quiet and len(names) in KNOWN_SIZES and unnamed(names):
        atlas = KNOWN_SIZES[len(names)]
        complain(
            "note", f"the {len(names)} regions have no names; if they are AAL's, --atlas {atlas} names them."
        )


def with_names(fitted: Any, data: Cohort | GraphSet, given: bool, quiet: bool) -> Any:
    """Return a model whose regions had no names with those given with new data; else say how to give some."""
    from cignn import Cohort, CohortClassifier
    from cignn.datasets.atlas import unnamed

    if hasattr(fitted, "decide"):  # a decision on the probabilities of another model
        named = copy(fitted)
        named.estimator_ = with_names(fitted.estimator_, data, given, quiet)
        return named
    if not isinstance(fitted, CohortClassifier) or not isinstance(data, Cohort):
        return fitted
    if given and data.atlas is not None and unnamed(fitted.roi_names_):
        return fitted.with_atlas(data.atlas)
    suggest_atlas(fitted.roi_names_, quiet)
    return fitted


def prediction_table(model: Any, data: Cohort | GraphSet, chances: np.ndarray) -> pd.DataFrame:
    """One row per scan: subject, site, label, whether it was trained on, predicted, p_<class>.

    Where subjects have several scans, also their session and run.
    """
    import numpy as np
    import pandas as pd

    columns: dict[str, Any] = {"subject": subject_names(data)}
    if len(set(columns["subject"])) < len(data):  # which scan of a subject it is
        known = getattr(data, "covariates", getattr(data, "meta", {}))
        columns |= {name: np.asarray(known[name]) for name in ("session", "run") if name in known}
    sites = getattr(data, "sites", getattr(data, "groups", None))
    if sites is not None:
        columns["site"] = sites
    if data.y is not None and not pd.isna(pd.Series(data.y)).all():
        columns["label"] = data.y
    columns["trained_on"] = model.trained_on(data)
    columns["predicted"] = called(model, chances)
    columns |= {f"p_{name}": chances[:, k] for k, name in enumerate(model.classes_.tolist())}
    return pd.DataFrame(columns)


def called(model: Any, chances: np.ndarray) -> np.ndarray:
    """(n,) the classes that a model calls (n, classes) probabilities, by its threshold where it has one."""
    import numpy as np

    if hasattr(model, "decide"):
        return model.decide(chances)
    return np.asarray(model.classes_)[chances.argmax(1)]


def own_scores(table: pd.DataFrame, classes: np.ndarray, positive: Any = None) -> dict[str, float]:
    """Scores on labelled subjects the model was not trained on.

    Empty where both classes are not there, or nobody knows whom the model was trained on.
    """
    from cignn.evaluation import classification_scores

    if "label" not in table:
        return {}
    usable = table[table["label"].isin(classes.tolist()) & ~table["trained_on"]]
    if usable["label"].nunique() < 2:
        return {}
    chances = usable[[f"p_{name}" for name in classes.tolist()]].to_numpy()
    y = usable["label"].to_numpy().astype(classes.dtype)
    predicted = usable["predicted"].to_numpy().astype(classes.dtype)
    return classification_scores(y, predicted, classes, chances, positive)
