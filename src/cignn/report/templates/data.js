// The data of the page, decoded; the edges of a graph only when it is opened.
const REPORT = JSON.parse(document.getElementById("report-data").textContent);

function bytes(text) {
  const raw = atob(text);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out.buffer;
}

let lines = null;
function recordOf(i) {
  if (lines === null) lines = document.getElementById("report-edges").textContent.split("\n");
  return bytes(lines[i]);
}

const floats = (text) => new Float32Array(bytes(text));
const GROUP = REPORT.group && {
  ...REPORT.group,
  pairs: new Uint16Array(bytes(REPORT.group.pairs)),
  sets: REPORT.group.sets.map((set) => ({ ...set, value: floats(set.value), deviation: set.deviation && floats(set.deviation) })),
  weight: floats(REPORT.group.weight),
  spread: floats(REPORT.group.spread),
  connectivity: floats(REPORT.group.connectivity),
  usual: floats(REPORT.group.usual),
  known: REPORT.group.known && new Uint8Array(bytes(REPORT.group.known)),
};
const EVIDENCE = REPORT.evidence && { ...REPORT.evidence, sums: REPORT.evidence.sums && floats(REPORT.evidence.sums) };
const REFERENCE = REPORT.reference && { name: REPORT.reference.name, mean: floats(REPORT.reference.mean), std: floats(REPORT.reference.std) };
const SURVEY = REPORT.survey && {
  ...REPORT.survey,
  pairs: new Uint16Array(bytes(REPORT.survey.pairs)),
  selected: new Uint8Array(bytes(REPORT.survey.selected)),
  direction: new Int8Array(bytes(REPORT.survey.direction)),
  value: floats(REPORT.survey.value),
  columns: Object.fromEntries(Object.entries(REPORT.survey.columns).map(([name, text]) => [name, floats(text)])),
};

// The values of a column's codes 1 to 255, see records.py.
const DECODE = {
  weight: (code, low, high) => low + ((code - 1) / 254) * (high - low),
  connectivity: (code, _, high) => ((code - 128) / 127) * high,
  deviation: (code, _, high) => ((code - 128) / 127) * high,
  contribution: (code, _, high) => Math.sign(code - 128) * ((code - 128) / 127) ** 2 * high,
};

// Edges of one graph: ends s and t, number in the group or −1, weight w, connectivity c, contribution, deviation;
// v is what ranks and draws them.
function edgesOf(i) {
  const buffer = recordOf(i);
  const { columns } = REPORT;
  const bounds = new Float32Array(buffer, 0, 2 * columns.length);
  const start = 8 * columns.length;
  const dense = REPORT.layout === "dense";
  const n = dense ? GROUP.pairs.length / 2 : new Uint32Array(buffer, start, 1)[0];
  const ends = dense ? null : new Uint16Array(buffer, start + 4, 2 * n);
  const codes = new Uint8Array(buffer, dense ? start : start + 4 + 4 * n);
  const out = { s: [], t: [], id: [], w: [], c: [], contribution: [], deviation: [], step: 0 };
  const of = (name, e) => {
    const k = columns.indexOf(name);
    return k < 0 ? NaN : DECODE[name](codes[k * n + e], bounds[2 * k], bounds[2 * k + 1]);
  };
  for (let e = 0; e < n; e++) {
    if (!codes[e]) continue; // the graph does not have this edge
    const [s, t] = dense ? [GROUP.pairs[2 * e], GROUP.pairs[2 * e + 1]] : [ends[e], ends[n + e]];
    const id = dense ? e : groupNumber(s, t);
    const c = of("connectivity", e);
    out.s.push(s);
    out.t.push(t);
    out.id.push(id);
    out.c.push(c);
    out.w.push(columns.includes("weight") ? of("weight", e) : GROUP.weight[id]);
    out.contribution.push(of("contribution", e));
    out.deviation.push(columns.includes("deviation") ? of("deviation", e) : deviationOf(id, c));
  }
  const k = columns.indexOf("weight");
  if (k >= 0) out.step = (bounds[2 * k + 1] - bounds[2 * k]) / 254; // the resolution of a byte
  return Object.assign(out, EVIDENCE ? { v: out.contribution, signed: true, noun: "contribution" } : { v: out.w, signed: false, noun: "weight" });
}

// How far a connection is from the controls' mean, in their standard deviations.
function deviationOf(id, c) {
  return REFERENCE && id >= 0 && REFERENCE.std[id] > 0 ? (c - REFERENCE.mean[id]) / REFERENCE.std[id] : NaN;
}

let numbers = null;
function groupNumber(s, t) {
  if (!GROUP) return -1;
  if (numbers === null) {
    numbers = new Map();
    for (let e = 0; e < GROUP.pairs.length / 2; e++) numbers.set(GROUP.pairs[2 * e] * 65536 + GROUP.pairs[2 * e + 1], e);
  }
  return numbers.get(s * 65536 + t) ?? -1;
}

const onPairs = (pairs) => {
  const out = { s: [], t: [], id: [] };
  for (let e = 0; e < pairs.length / 2; e++) {
    out.s.push(pairs[2 * e]);
    out.t.push(pairs[2 * e + 1]);
    out.id.push(e);
  }
  return out;
};
function groupEdges(set) {
  const words = EVIDENCE ? { signed: true, noun: "contribution" } : { signed: false, noun: "weight" };
  return { ...onPairs(GROUP.pairs), v: Array.from(set.value), c: Array.from(GROUP.connectivity), ...words };
}
// The map of the group; what does not survive is drawn in grey.
function surveyEdges() {
  const value = Array.from(SURVEY.value);
  return { ...onPairs(SURVEY.pairs), v: value, c: value, signed: true, noun: "value", mark: Array.from(SURVEY.selected) };
}

let selected = null;
function survives(s, t) {
  if (selected === null) {
    selected = new Set();
    SURVEY.selected.forEach((yes, e) => yes && selected.add(SURVEY.pairs[2 * e] * 65536 + SURVEY.pairs[2 * e + 1]));
  }
  return selected.has(Math.min(s, t) * 65536 + Math.max(s, t));
}

// Nodes of a graph: names, system of each (or null), coordinates (or null).
function nodesOf(i) {
  if (REPORT.nodes) return NODES;
  const names = Array.from({ length: REPORT.n_nodes[i] }, (_, k) => `node ${k}`);
  return { names, system: null, xyz: null };
}
const NODES = REPORT.nodes && {
  names: REPORT.nodes.names,
  system: REPORT.nodes.system,
  xyz: REPORT.nodes.xyz && new Float32Array(bytes(REPORT.nodes.xyz)),
};
const systemName = (nodes, k) => (nodes.system ? REPORT.systems[nodes.system[k]].name : "");

// Text of the data reaches the page through these two only, as text.
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  setAttributes(node, attributes);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAttributes(node, attributes);
  node.append(...children);
  return node;
}
function setAttributes(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
}
// A long name may break after an underscore.
function breakable(text) {
  const out = element("span");
  String(text).split(/(?<=_)/).forEach((part, k) => out.append(...(k ? [element("wbr")] : []), part));
  return out;
}
const number = (value, digits = 2) => {
  if (!Number.isFinite(value)) return "–";
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
};
const signed = (value, digits = 2) => (Number(value.toFixed(digits)) > 0 ? `+${number(value, digits)}` : number(value, digits));
// Digits that leave two significant ones in the largest value of a list.
const digitsOf = (largest) => (largest > 0 ? Math.min(6, Math.max(2, 1 - Math.floor(Math.log10(largest)))) : 2);
const largestOf = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
const share = (value) => `${(100 * Math.min(1, Math.max(0, value))).toFixed(1)}%`;
const key = (style, words) => element("span", {}, element("span", { class: `key ${style}` }), words);
