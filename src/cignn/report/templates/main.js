const TITLE = document.title;

function groupSection() {
  const root = document.getElementById("group-view");
  if (!root || !GROUP) return;
  const place = element("div", { id: "group-viewer" });
  if (GROUP.sets.length > 1) {
    const choice = element("select", { id: "group-set", onchange: () => viewer.setEdges(groupEdges(GROUP.sets[choice.value])) });
    GROUP.sets.forEach(({ name, n }, k) => choice.append(element("option", { value: k }, `${name} (${n})`)));
    root.append(element("div", { class: "tools" }, element("label", { for: "group-set" }, "Mean over", choice)));
  }
  root.append(place);
  const viewer = new Viewer(place, NODES, { label: `Mean edge weights of ${SUBJECTS.name.length} ${REPORT.unit}s` });
  viewer.setEdges(groupEdges(GROUP.sets[0]));
}

function edgeTable() {
  const root = document.getElementById("edge-table");
  if (!root || !GROUP) return;
  const [s, t] = [(e) => GROUP.pairs[2 * e], (e) => GROUP.pairs[2 * e + 1]];
  const columns = [
    { label: "source", value: (e) => NODES.names[s(e)] },
    { label: "target", value: (e) => NODES.names[t(e)] },
  ];
  const [all, ...classes] = GROUP.sets;
  const sort = [columns.length, false];
  columns.push({ label: "weight", numeric: true, value: (e) => all.weight[e], cell: (e) => bar(all.weight[e]), note: "mean over all" });
  columns.push({ label: "spread", numeric: true, value: (e) => GROUP.deviation[e], note: `standard deviation over ${REPORT.unit}s` });
  classes.forEach((set) => columns.push({ label: set.name, numeric: true, value: (e) => set.weight[e], note: `mean weight over the ${set.n} of this class` }));
  columns.push({ label: REPORT.strength, numeric: true, value: (e) => GROUP.connectivity[e], note: `mean ${REPORT.strength}` });
  if (NODES.system) {
    columns.push({ label: "source system", value: (e) => systemName(NODES, s(e)) });
    columns.push({ label: "target system", value: (e) => systemName(NODES, t(e)) });
  }
  if (GROUP.known) columns.push({ label: "known", value: (e) => (GROUP.known[e] ? "yes" : "no"), note: "known to cause the class" });
  const rows = Array.from({ length: GROUP.pairs.length / 2 }, (_, e) => e);
  new DataTable(root, { caption: "Edges, means over the group", columns, rows, sort, file: "edges.csv" });
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
