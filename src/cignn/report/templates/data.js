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

const GROUP = REPORT.group && {
  pairs: new Uint16Array(bytes(REPORT.group.pairs)),
  sets: REPORT.group.sets.map((set) => ({ ...set, weight: new Float32Array(bytes(set.weight)) })),
  deviation: new Float32Array(bytes(REPORT.group.deviation)),
  connectivity: new Float32Array(bytes(REPORT.group.connectivity)),
  negligible: REPORT.group.negligible,
  usual: new Float32Array(bytes(REPORT.group.usual)),
  known: REPORT.group.known && new Uint8Array(bytes(REPORT.group.known)),
};

// Edges of one graph: ends s and t, weight w, connectivity c, and the edge's number in the group or −1.
function edgesOf(i) {
  const buffer = recordOf(i);
  const [low, high, largest] = new Float32Array(buffer, 0, 3);
  const out = { s: [], t: [], w: [], c: [], id: [], step: (high - low) / 254 }; // step: the resolution of a byte
  const add = (s, t, code, signed, id) => {
    out.s.push(s);
    out.t.push(t);
    out.w.push(low + ((code - 1) / 254) * (high - low));
    out.c.push((signed / 127) * largest);
    out.id.push(id);
  };
  if (REPORT.layout === "dense") {
    const n = GROUP.pairs.length / 2;
    const codes = new Uint8Array(buffer, 12, n);
    const signed = new Int8Array(buffer, 12 + n, n);
    for (let e = 0; e < n; e++) {
      if (codes[e]) add(GROUP.pairs[2 * e], GROUP.pairs[2 * e + 1], codes[e], signed[e], e);
    }
    return out;
  }
  const n = new Uint32Array(buffer, 12, 1)[0];
  const ends = new Uint16Array(buffer, 16, 2 * n);
  const codes = new Uint8Array(buffer, 16 + 4 * n, n);
  const signed = new Int8Array(buffer, 16 + 5 * n, n);
  for (let e = 0; e < n; e++) add(ends[e], ends[n + e], codes[e], signed[e], groupNumber(ends[e], ends[n + e]));
  return out;
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

function groupEdges(set) {
  const n = GROUP.pairs.length / 2;
  const out = { s: [], t: [], w: Array.from(set.weight), c: Array.from(GROUP.connectivity), id: [] };
  for (let e = 0; e < n; e++) {
    out.s.push(GROUP.pairs[2 * e]);
    out.t.push(GROUP.pairs[2 * e + 1]);
    out.id.push(e);
  }
  return out;
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
const share = (value) => `${(100 * Math.min(1, Math.max(0, value))).toFixed(1)}%`;
const key = (style, words) => element("span", {}, element("span", { class: `key ${style}` }), words);
