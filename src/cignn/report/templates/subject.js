// The page of one graph.
const SUBJECTS = REPORT.subjects;
const whole = document.getElementById("whole");
const one = document.getElementById("one");

function openSubject(i) {
  const nodes = nodesOf(i);
  const edges = edgesOf(i);
  const title = element("h2", { id: "one-title", tabindex: "-1" }, SUBJECTS.name[i]);
  const last = SUBJECTS.name.length - 1;
  const link = (to, words) => (to < 0 || to > last ? null : element("a", { href: `#subject-${to}` }, words));
  const ways = element("nav", { "aria-label": `Other ${REPORT.unit}s`, class: "facts" }, element("a", { href: "#subjects" }, `All ${REPORT.unit}s`), link(i - 1, "Previous"), link(i + 1, "Next"));
  one.replaceChildren(element("div", { class: "one-head" }, title, ways), factsOf(i), probabilitySection(i));
  if (EVIDENCE && edges.v.length) one.append(evidenceSection(i, nodes, edges), ...[systemSection(i)].filter(Boolean));
  one.append(...[removalSection(i)].filter(Boolean), edgeSections(i, nodes, edges));
  whole.hidden = true;
  one.hidden = false;
  Viewer.all.forEach((viewer) => one.contains(viewer.root) && viewer.draw());
  document.title = `${SUBJECTS.name[i]} – ${TITLE}`;
  title.focus({ preventScroll: true });
  window.scrollTo({ top: 0, behavior: "instant" });
}

function closeSubject() {
  if (one.hidden) return;
  for (const made of [Viewer.all, DataTable.all]) made.forEach((item) => one.contains(item.root) && made.delete(item));
  one.hidden = true;
  one.replaceChildren();
  whole.hidden = false;
  document.title = TITLE;
  Viewer.all.forEach((viewer) => viewer.draw());
}

function factsOf(i) {
  const facts = [["predicted", REPORT.classes[SUBJECTS.predicted[i]]]];
  if (SUBJECTS.truth) {
    const truth = SUBJECTS.truth[i];
    facts.push(["label", truth < 0 ? "not known" : REPORT.classes[truth]]);
    if (truth >= 0) facts.push(["prediction", truth === SUBJECTS.predicted[i] ? "right" : "wrong"]);
  }
  if (SUBJECTS.site) facts.push(["site", SUBJECTS.site[i]]);
  if (SUBJECTS.held_out) facts.push(["trained on", SUBJECTS.held_out[i] ? "no" : "yes"]);
  else if (REPORT.trained_on) facts.push(["trained on", "yes"]);
  for (const [name, column] of Object.entries(SUBJECTS.columns)) facts.push([name, column[i]]);
  return element("dl", { class: "facts" }, ...facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

function probabilitySection(i) {
  const members = SUBJECTS.members && SUBJECTS.members[i];
  const out = element("section", { "aria-label": "Probability" }, element("h3", {}, "Probability"), probabilityBars(REPORT.classes, SUBJECTS.probability[i], members));
  if (members) out.append(element("p", { class: "quiet" }, `Dots are the ${members.length} networks of the ensemble, trained independently; the interval is their range.`));
  const words = calibrationWords(i);
  if (words) out.append(element("p", { class: "quiet" }, words));
  if (SUBJECTS.held_out ? !SUBJECTS.held_out[i] : REPORT.trained_on) {
    out.append(element("p", { class: "notice" }, `The model was trained on this ${REPORT.unit}: its probability is more extreme than it would be on a new one.`));
  }
  return out;
}

function calibrationWords(i) {
  const two = REPORT.classes.length === 2;
  const given = two ? SUBJECTS.probability[i][REPORT.positive] : Math.max(...SUBJECTS.probability[i]);
  const bin = REPORT.calibration.find(([low, high]) => given >= low && (given < high || high >= 1));
  if (!bin) return REPORT.calibration.length ? `No scored ${REPORT.unit} had a probability near ${number(given)}: its calibration is unknown.` : "";
  const [low, high, n, value, from, to] = bin;
  const what = two ? `were ${REPORT.classes[REPORT.positive]}` : "were of the predicted class";
  return `Calibration${REPORT.calibrated_by}: of the ${n} scored ${REPORT.unit === "graph" ? "graphs" : "subjects"} with a probability ${two ? `of ${REPORT.classes[REPORT.positive]} ` : ""}between ${number(low, 1)} and ${number(high, 1)}, ${Math.round(100 * value)} % ${what} (95 % interval ${Math.round(100 * from)} to ${Math.round(100 * to)} %).`;
}

function removalSection(i) {
  if (!REPORT.removal) return null;
  const { counts } = REPORT.removal;
  const [top, random] = [REPORT.removal.top[i], REPORT.removal.random[i]];
  const name = EVIDENCE ? explainedName(i) : REPORT.classes[SUBJECTS.predicted[i]];
  const [title, first] = EVIDENCE ? ["Without its largest contributions", "largest contributions first"] : ["Without its top edges", "top edges first"];
  const row = (k) => element("tr", {}, element("th", { scope: "row" }, String(counts[k])), element("td", { class: "number" }, number(top[k])), element("td", { class: "number" }, number(random[k])));
  const head = ["edges removed", first, "random edges"].map((text, k) => element("th", { scope: "col", class: k ? "number" : null }, text));
  const table = element("table", { class: "removal" }, element("caption", {}, `Probability of ${name}`), element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...counts.map((_, k) => row(k))));
  const legend = element("p", { class: "legend" }, key("", first), key("dashed", "random edges"));
  const words = `What the model says once the connections that speak most for ${name} are gone, beside as many at random.`;
  return element("section", { "aria-label": title }, element("h3", {}, title), EVIDENCE ? element("p", { class: "quiet" }, words) : null, element("div", { class: "pair" }, element("figure", {}, removalChart(counts, top, random, `Probability of ${name}`), legend), table));
}

function edgeSections(i, nodes, edges) {
  const rows = Array.from(edges.v.keys(), (e) => edgeRow(e, nodes, edges));
  const out = document.createDocumentFragment();
  if (!rows.length) out.append(element("section", { "aria-label": "Its edges" }, element("p", {}, "This graph has no edges.")));
  else if (!EVIDENCE) out.append(weightSection(rows));
  const place = element("div", { id: "one-view" });
  out.append(element("section", { "aria-label": "Its edges" }, element("h3", {}, "Its edges"), place));
  const viewer = new Viewer(place, nodes, { label: `Edges of ${SUBJECTS.name[i]}`, count: Math.min(60, rows.length) });
  viewer.setEdges(edges, EVIDENCE ? [`for ${explainedName(i)}`, `against ${explainedName(i)}`] : undefined);
  const holder = element("div", { id: "one-table" });
  const kept = EVIDENCE ? "edges of largest contribution" : "top edges";
  out.append(element("section", { "aria-label": "Table of its edges" }, element("h3", {}, "Table of its edges"), REPORT.kept ? element("p", { class: "quiet" }, `Only its ${REPORT.kept} ${kept} are kept in this file.`) : null, holder));
  const columns = edgeColumns(nodes, rows);
  const sort = [columns.findIndex((column) => column.first), false];
  new DataTable(holder, { caption: `Edges of ${SUBJECTS.name[i]}`, columns, rows, sort, size: 15, file: `${fileName(SUBJECTS.name[i])}_edges.csv` });
  return out;
}

function edgeRow(e, nodes, edges) {
  const id = edges.id[e];
  const known = GROUP && id >= 0;
  return {
    s: edges.s[e],
    t: edges.t[e],
    source: nodes.names[edges.s[e]],
    target: nodes.names[edges.t[e]],
    systems: nodes.system ? [systemName(nodes, edges.s[e]), systemName(nodes, edges.t[e])] : null,
    contribution: edges.contribution[e],
    deviation: edges.deviation[e],
    weight: edges.w[e],
    mean: known ? GROUP.weight[id] : null,
    spread: known ? GROUP.spread[id] : null,
    z: known && GROUP.spread[id] > Math.max(edges.step, GROUP.negligible) ? (edges.w[e] - GROUP.weight[id]) / GROUP.spread[id] : NaN,
    connectivity: edges.c[e],
    unusual: known && GROUP.usual[id] > 1e-6 ? (edges.c[e] - GROUP.connectivity[id]) / GROUP.usual[id] : NaN,
  };
}

// The top edges by weight, for models that say only where they look.
function weightSection(rows) {
  const top = rows.slice().sort((a, b) => b.weight - a.weight).slice(0, 12);
  const against = REPORT.alike ? `, the same for every ${REPORT.unit}` : GROUP ? " compared with the group" : "";
  const out = element("section", { "aria-label": `Top edges${against}` }, element("h3", {}, `Top edges${against}`));
  if (REPORT.alike) out.append(element("p", { class: "notice" }, `The model gives the edges of all ${REPORT.unit}s nearly the same weights: these say nothing about this ${REPORT.unit}. It differs from others in the connectivity of these edges, see its z in the table below.`));
  out.append(edgeBars(top));
  if (GROUP && !REPORT.alike) out.append(element("p", { class: "quiet" }, `Bars: this ${REPORT.unit}. Dots and lines: mean and standard deviation over all ${SUBJECTS.name.length} ${REPORT.unit}s.`));
  return out;
}

function edgeColumns(nodes, rows) {
  const columns = [
    { label: "source", value: (row) => row.source },
    { label: "target", value: (row) => row.target },
  ];
  if (EVIDENCE) {
    const largest = largestOf(rows.map((row) => row.contribution));
    columns.push({ label: "contribution", first: true, numeric: true, size: true, value: (row) => row.contribution, cell: (row) => signedBar(row.contribution, largest), note: "to the log-odds of the class explained; sorted by size" });
    columns.push({ label: "role", value: (row) => (row.contribution > 0 ? "for" : row.contribution < 0 ? "against" : "none") });
  }
  if (REFERENCE) {
    columns.push({ label: "deviation", numeric: true, digits: 1, size: true, value: (row) => row.deviation, note: `distance from the mean of ${REFERENCE.name} in their standard deviations` });
    columns.push({ label: "direction", value: (row) => (row.deviation < 0 ? "lower" : row.deviation > 0 ? "higher" : "–") });
  }
  if (SURVEY) columns.push({ label: "survives", value: (row) => (survives(row.s, row.t) ? "★" : "–"), note: "in the group" });
  const same = REPORT.alike ? `; the same for every ${REPORT.unit}` : "";
  columns.push({ label: EVIDENCE ? "where the model looks" : "weight", first: !EVIDENCE, numeric: true, value: (row) => row.weight, cell: EVIDENCE ? null : (row) => bar(row.weight, row.mean), note: `weight from 0 to 1${same}` });
  if (GROUP && !EVIDENCE) {
    columns.push({ label: "group mean", numeric: true, value: (row) => row.mean });
    columns.push({ label: "z", numeric: true, value: (row) => row.z, digits: 1, note: "distance from the group's mean in standard deviations; none where all weights are equal" });
  }
  if (REPORT.weighted) columns.push({ label: REPORT.strength, numeric: true, value: (row) => row.connectivity });
  if (REPORT.weighted && GROUP && !REFERENCE) columns.push({ label: "its z", numeric: true, value: (row) => row.unusual, digits: 1, note: `distance of this ${REPORT.strength} from the group's mean in standard deviations` });
  if (nodes.system) columns.push({ label: "systems", value: (row) => row.systems.join(" – ") });
  return columns;
}

const fileName = (text) => text.replace(/[^\p{L}\p{N}._-]+/gu, "_").slice(0, 60) || REPORT.unit;

function bar(value, tick = null) {
  const track = element("span", { class: "bar", "aria-hidden": "true" }, element("i", { style: `width:${share(value)}` }));
  if (tick !== null) track.append(element("b", { style: `left:${share(tick)}` }));
  return element("span", {}, track, number(value));
}
