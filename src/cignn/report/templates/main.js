const TITLE = document.title;

function groupSection() {
  const root = document.getElementById("group-view");
  if (!root || !GROUP) return;
  const place = element("div", { id: "group-viewer" });
  const n = `${SUBJECTS.name.length} ${REPORT.unit}s`;
  const viewer = (label) => new Viewer(place, NODES, { label });
  if (SURVEY) {
    root.append(place);
    return viewer(`Map of the group of ${n}`).setEdges(surveyEdges(), SURVEY.signs);
  }
  const show = (k) => {
    const set = GROUP.sets[k];
    made.setEdges(groupEdges(set), set.towards === null ? undefined : [`for ${set.towards}`, `against ${set.towards}`]);
  };
  if (GROUP.sets.length > 1) {
    const choice = element("select", { id: "group-set", onchange: () => show(choice.value) });
    GROUP.sets.forEach(({ name, n: count }, k) => choice.append(element("option", { value: k }, `${name} (${count})`)));
    root.append(element("div", { class: "tools" }, element("label", { for: "group-set" }, "Mean over", choice)));
  }
  root.append(place);
  const made = viewer(`Mean edge ${EVIDENCE ? "contributions" : "weights"} of ${n}`);
  show(0);
}

function edgeTable() {
  const root = document.getElementById("edge-table");
  if (!root || !GROUP) return;
  const { pairs } = SURVEY || GROUP;
  const [s, t] = [(e) => pairs[2 * e], (e) => pairs[2 * e + 1]];
  const columns = [
    { label: "source", value: (e) => NODES.names[s(e)] },
    { label: "target", value: (e) => NODES.names[t(e)] },
    ...(SURVEY ? surveyColumns() : meanColumns()),
  ];
  if (NODES.system && SURVEY) columns.push({ label: "systems", value: (e) => `${systemName(NODES, s(e))} – ${systemName(NODES, t(e))}` });
  else if (NODES.system) {
    columns.push({ label: "source system", value: (e) => systemName(NODES, s(e)) });
    columns.push({ label: "target system", value: (e) => systemName(NODES, t(e)) });
  }
  const known = SURVEY ? (e) => GROUP.known[groupNumber(s(e), t(e))] : (e) => GROUP.known[e];
  if (GROUP.known) columns.push({ label: "known", value: (e) => (known(e) ? "yes" : "no"), note: "known to cause the class" });
  const rows = Array.from({ length: pairs.length / 2 }, (_, e) => e);
  const caption = SURVEY ? "Connections of the group's map" : "Edges, means over the group";
  new DataTable(root, { caption, columns, rows, sort: [columns.findIndex((column) => column.first), false], file: "edges.csv" });
}

// Columns of what resampling found; only what survives has a star.
function surveyColumns() {
  const { columns, value, direction, selected: found, second, alpha } = SURVEY;
  const largest = largestOf(value);
  const out = [
    { label: "survives", value: (e) => (found[e] ? "★" : "–"), note: `q of at most ${alpha}` },
    { label: "value", first: true, numeric: true, size: true, value: (e) => value[e], cell: (e) => (found[e] ? signedBar(value[e], largest) : signed(value[e], digitsOf(largest))), note: `on the map that ranks the connections (positive: ${SURVEY.signs[0]}); sorted by size` },
    { label: "direction", value: (e) => ["lower", "–", "higher"][direction[e] + 1], note: `in ${second}` },
  ];
  const more = [
    ["effect", 2, `standardised mean difference, ${second} minus the other class`, true],
    ["contribution", digitsOf(largestOf(columns.contribution.filter(Number.isFinite))), "mean contribution to the true class, in log-odds, in subjects not trained on", true],
    ["selection", 2, "share of half-samples in which the connection is among the largest", false],
    ["bound", 1, "bound on the expected number of false selections at this share", false],
    ["q", 3, "expected share of false ones among connections as large, against permuted labels", false],
    ...SURVEY.others.map((name) => [name, digitsOf(largestOf(columns[name])), "the other reading of the model, which does not rank the connections", true]),
  ];
  for (const [label, digits, note, size] of more) {
    if (columns[label].some(Number.isFinite)) out.push({ label, numeric: true, digits, size, value: (e) => columns[label][e], note });
  }
  return out;
}

function meanColumns() {
  const [first, ...others] = GROUP.sets;
  const { unit } = REPORT;
  const weight = (label, leads) => ({ label, first: leads, numeric: true, value: (e) => GROUP.weight[e], cell: (e) => bar(GROUP.weight[e]), note: "mean weight over all" });
  const out = [];
  if (EVIDENCE) {
    const largest = largestOf(first.value);
    const words = (set) => `mean contribution to the log-odds of ${set.towards} over the ${set.n} of ${set.name}`;
    out.push({ label: first.name, first: true, numeric: true, size: true, value: (e) => first.value[e], cell: (e) => signedBar(first.value[e], largest), note: words(first) });
    others.forEach((set) => out.push({ label: set.name, numeric: true, size: true, digits: digitsOf(largest), value: (e) => set.value[e], note: words(set) }));
    if (first.deviation) {
      out.push({ label: "deviation", numeric: true, size: true, value: (e) => first.deviation[e], note: `of ${first.name}: mean distance from ${REFERENCE.name} in their standard deviations` });
      out.push({ label: "direction", value: (e) => (first.deviation[e] < 0 ? "lower" : first.deviation[e] > 0 ? "higher" : "–") });
    }
    out.push(weight("where the model looks", false));
  } else {
    out.push(weight("weight", true));
    out.push({ label: "spread", numeric: true, value: (e) => GROUP.spread[e], note: `standard deviation over ${unit}s` });
    others.forEach((set) => out.push({ label: set.name, numeric: true, value: (e) => set.value[e], note: `mean weight over the ${set.n} of this class` }));
  }
  out.push({ label: REPORT.strength, numeric: true, value: (e) => GROUP.connectivity[e], note: `mean ${REPORT.strength}` });
  return out;
}

function subjectTable() {
  const names = SUBJECTS.name;
  const columns = [{ label: REPORT.unit, value: (i) => names[i], cell: (i) => element("a", { href: `#subject-${i}` }, names[i]) }];
  if (SUBJECTS.site) columns.push({ label: "site", value: (i) => SUBJECTS.site[i] });
  if (SUBJECTS.truth) columns.push({ label: "label", value: (i) => (SUBJECTS.truth[i] < 0 ? "not known" : REPORT.classes[SUBJECTS.truth[i]]) });
  columns.push({ label: "predicted", value: (i) => REPORT.classes[SUBJECTS.predicted[i]] });
  if (SUBJECTS.truth) columns.push({ label: "prediction", value: (i) => (SUBJECTS.truth[i] < 0 ? "–" : SUBJECTS.truth[i] === SUBJECTS.predicted[i] ? "right" : "wrong") });
  const two = REPORT.classes.length === 2;
  const chance = (i) => (two ? SUBJECTS.probability[i][REPORT.positive] : Math.max(...SUBJECTS.probability[i]));
  columns.push({ label: two ? `probability of ${REPORT.classes[REPORT.positive]}` : "its probability", numeric: true, value: chance, cell: (i) => bar(chance(i)) });
  if (SUBJECTS.members) {
    const said = (i) => SUBJECTS.members[i].map((member) => (two ? member[REPORT.positive] : member[SUBJECTS.predicted[i]]));
    columns.push({ label: "range of members", numeric: true, value: (i) => Math.max(...said(i)) - Math.min(...said(i)), note: "largest minus least probability in the ensemble" });
  }
  if (SUBJECTS.held_out) columns.push({ label: "trained on", value: (i) => (SUBJECTS.held_out[i] ? "no" : "yes") });
  const rows = Array.from(names.keys());
  new DataTable(document.getElementById("subject-table"), { caption: `${REPORT.unit}s, their predictions and pages`, columns, rows, file: `${REPORT.unit}s.csv`, size: 20 });
}

function route() {
  const match = /^#subject-(\d+)$/.exec(location.hash);
  if (match && Number(match[1]) < SUBJECTS.name.length) return openSubject(Number(match[1]));
  const was = !one.hidden;
  closeSubject();
  const target = was && location.hash.length > 1 ? document.getElementById(location.hash.slice(1)) : null;
  if (target) target.scrollIntoView();
}

groupSection();
edgeTable();
subjectTable();
window.addEventListener("hashchange", route);
route();

// On paper: light colours, and more rows than a screen shows.
const redraw = () => Viewer.all.forEach((viewer) => viewer.draw());
window.addEventListener("beforeprint", () => {
  DataTable.all.forEach((table) => table.draw(Math.max(table.size, 40)));
  redraw();
});
window.addEventListener("afterprint", () => {
  DataTable.all.forEach((table) => table.draw());
  redraw();
});
for (const query of ["(prefers-color-scheme: dark)", "print"]) window.matchMedia(query).addEventListener("change", redraw);
document.documentElement.dataset.ready = "yes";
