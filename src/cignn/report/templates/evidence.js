// What speaks for and against a decision: contributions in log-odds of the class explained.
const LISTED = 10; // connections on each side
const FULL = 0.01; // the least contribution that fills a bar: smaller ones look small
const LITTLE = 0.2; // contributions of all connections together below which a model hardly decides
const explainedName = (i) => REPORT.classes[EVIDENCE.explained[i]];

function deviationWords(d) {
  if (!Number.isFinite(d)) return "";
  if (Math.abs(d) < 0.05) return `as in ${REFERENCE.name}`;
  return `${number(Math.abs(d), 1)} SD ${d < 0 ? "lower" : "higher"} than ${REFERENCE.name}`;
}

function evidenceSection(i, nodes, edges) {
  const name = explainedName(i);
  const totals = [EVIDENCE.plus[i], EVIDENCE.minus[i]];
  const out = element("section", { "aria-label": `For and against ${name}`, id: "evidence" }, element("h3", {}, `For and against ${name}`), sumLine(i, name));
  const order = Array.from(edges.v.keys()).sort((a, b) => Math.abs(edges.v[b]) - Math.abs(edges.v[a]));
  const sides = [order.filter((e) => edges.v[e] > 0), order.filter((e) => edges.v[e] < 0)];
  const largest = order.length ? Math.abs(edges.v[order[0]]) : 1;
  if (totals[0] + totals[1] < LITTLE) out.append(element("p", { class: "notice" }, `All connections together move the log-odds by ${number(totals[0] + totals[1], 3)} at most: the model says nearly the same whatever they are.`));
  if (SURVEY && !SURVEY.selected.some(Boolean)) out.append(element("p", { class: "notice" }, `No connection survives in the group. These contributions say how the model came to its answer, and nothing about ${name}.`));
  out.append(element("div", { class: "pair sides" }, ...sides.map((side, k) => sideList(side, k, name, nodes, edges, largest, totals[k]))));
  const words = `In log-odds: a contribution of +0.69 doubles the odds of ${name}. The base is the model's answer without any contribution.`;
  if (EVIDENCE.pooled) out.append(element("p", { class: "quiet" }, `Evidence is pooled over ${EVIDENCE.pooled.n} connections that go together in ${EVIDENCE.pooled.name}: each gets its share of what all of them say.`));
  out.append(element("p", { class: "quiet" }, REFERENCE ? `${words} SD: standard deviations of ${REFERENCE.name}, from their mean.` : words));
  return out;
}

// base + for − against = log-odds → probability
function sumLine(i, name) {
  const [base, plus, minus] = [EVIDENCE.base[i], EVIDENCE.plus[i], EVIDENCE.minus[i]];
  const total = base + plus - minus;
  const term = (value, words, style = "") => element("span", { class: `term ${style}` }, element("b", {}, value), element("small", {}, words));
  const sign = (text) => element("span", { class: "sign" }, text);
  const chance = 1 / (1 + Math.exp(-total));
  const out = element("p", { class: "sum" }, term(number(base), "base"), sign("+"), term(number(plus), "for", "plus"), sign("−"), term(number(minus), "against", "minus"), sign("="), term(number(total), "log-odds"), sign("→"), term(number(chance), `probability of ${name}`));
  const said = SUBJECTS.probability[i][EVIDENCE.explained[i]];
  if (Math.abs(said - chance) < 0.02) return out;
  return element("div", {}, out, element("p", { class: "notice" }, `The model itself says ${number(said)}: the contributions do not add up to its answer.`));
}

function sideList(side, k, name, nodes, edges, largest, total) {
  const [word, style] = [["For", "plus"], ["Against", "minus"]][k];
  const shown = side.slice(0, LISTED);
  const item = (e) => {
    const what = element("span", { class: "name" }, breakable(nodes.names[edges.s[e]]), " – ", breakable(nodes.names[edges.t[e]]), star(edges.s[e], edges.t[e]));
    const track = element("span", { class: "track", "aria-hidden": "true" }, element("i", { class: `fill ${style}`, style: `width:${share(Math.abs(edges.v[e]) / Math.max(largest, FULL))}` }));
    return element("li", {}, what, track, element("span", { class: "value" }, signed(edges.v[e], digitsOf(largest))), element("span", { class: "note" }, deviationWords(edges.deviation[e])));
  };
  const out = element("div", {}, element("h4", {}, `${word} ${name}`));
  if (!side.length) out.append(element("p", {}, "No connection."));
  else out.append(element("ol", { class: "side" }, ...shown.map(item)));
  const rest = side.length - shown.length;
  if (rest > 0 && !REPORT.kept) {
    const left = total - shown.reduce((sum, e) => sum + Math.abs(edges.v[e]), 0);
    out.append(element("p", { class: "quiet" }, `${rest} other connection${rest === 1 ? "" : "s"}: ${k ? "−" : "+"}${number(Math.max(0, left))} together.`));
  }
  return out;
}

// A star for a connection that survives in the group.
const star = (s, t) => (SURVEY && survives(s, t) ? element("span", { class: "star", title: "survives in the group", role: "img", "aria-label": " survives in the group" }, " ★") : null);

function systemSection(i) {
  if (!EVIDENCE.sums) return null;
  const n = EVIDENCE.pairs.length;
  const rows = EVIDENCE.pairs.map(([a, b], p) => {
    const [plus, minus] = EVIDENCE.sums.subarray(2 * (i * n + p), 2 * (i * n + p) + 2);
    return { name: `${REPORT.systems[a].name} – ${REPORT.systems[b].name}`, plus, minus, net: plus - minus };
  });
  rows.sort((a, b) => Math.abs(b.net) - Math.abs(a.net));
  const shown = rows.filter((row) => row.plus + row.minus > 0);
  const largest = shown.length ? Math.abs(shown[0].net) : 1;
  const cells = (row) => [element("th", { scope: "row" }, row.name), element("td", { class: "number" }, signedBar(row.net, largest)), element("td", { class: "number" }, number(row.plus)), element("td", { class: "number" }, number(row.minus))];
  const table = (list) => {
    const head = ["systems", "net", "for", "against"].map((text, k) => element("th", { scope: "col", class: k ? "number" : null }, text));
    return element("table", { class: "pairs" }, element("caption", { class: "unseen" }, "Contributions by pair of systems"), element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...list.map((row) => element("tr", {}, ...cells(row)))));
  };
  const out = element("section", { "aria-label": "By pair of systems" }, element("h3", {}, "By pair of systems"), element("p", { class: "quiet" }, `Sums of the contributions of all connections within a system or between two, to the log-odds of ${explainedName(i)}; the largest net sums first.`));
  const [first, rest] = [shown.slice(0, LISTED), shown.slice(LISTED)];
  out.append(element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Contributions by pair of systems" }, table(first)));
  if (rest.length) out.append(element("details", {}, element("summary", {}, `${rest.length} other pair${rest.length === 1 ? "" : "s"}`), table(rest)));
  return out;
}
