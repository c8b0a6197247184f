// Nodes and edges on a canvas: in three dimensions where the nodes have coordinates, else in two.
const VIEWS = { Oblique: [-0.6, 0.35], Left: [Math.PI / 2, 0], Right: [-Math.PI / 2, 0], Top: [0, Math.PI / 2], Back: [0, 0] };
const KEYS = "Drag or use the arrow keys to turn, plus and minus to zoom, N and P to step through regions, Escape to deselect.";

class Viewer {
  constructor(root, nodes, { label, count = 60 }) {
    Object.assign(this, { root, nodes, label, zoom: 1, hover: null, picked: null });
    this.id = `viewer-${Viewer.made++}`;
    this.solid = nodes.xyz !== null;
    this.places = this.solid ? centred(nodes.xyz) : null;
    this.reach = this.solid ? Math.max(...this.places.flat().map(Math.abs)) : 1; // along the axes of the views
    [this.yaw, this.pitch] = this.solid ? VIEWS.Oblique : [0, Math.PI / 2];
    this.chosen = new Set(REPORT.systems.map((_, k) => k));
    this.wanted = count;
    this.build();
    Viewer.all.add(this);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  build() {
    const { id } = this;
    this.canvas = element("canvas", { tabindex: "0", role: "application", "aria-roledescription": "connectome", "aria-label": this.label, "aria-describedby": `${id}-keys ${id}-count` });
    this.tip = element("div", { class: "tip", hidden: true });
    const stage = element("div", { class: "stage" }, this.canvas, this.tip);
    if (this.solid) {
      const views = Object.entries(VIEWS).map(([name, angles]) => element("button", { type: "button", onclick: () => this.turnTo(angles) }, name));
      stage.append(element("div", { class: "views", role: "group", "aria-label": "View from" }, ...views));
    }
    this.slider = element("input", { type: "range", min: 0, max: 1000, step: 1, id: `${id}-slider`, class: "threshold", oninput: () => this.slide() });
    this.output = element("output", { id: `${id}-count`, for: `${id}-slider`, class: "shown", role: "status", "aria-live": "polite" });
    const controls = element("div", { class: "controls" }, element("div", {}, element("label", { for: `${id}-slider` }, "Edges shown"), this.slider, this.output));
    if (REPORT.systems.length && this.nodes.system) controls.append(this.systemFilter());
    this.names = element("input", { type: "checkbox", checked: true, onchange: () => this.draw() });
    const names = element("label", {}, this.names, "names of hub nodes");
    controls.append(element("div", { class: "chips no-print" }, names));
    this.only = element("input", { type: "checkbox", onchange: () => this.select() });
    this.filter = element("div", { class: "chips no-print", hidden: true }, element("label", {}, this.only, "only what survives"));
    this.legend = element("p", { class: "legend" });
    controls.append(this.filter, this.legend);
    controls.append(element("p", { class: "quiet no-print", id: `${id}-keys` }, KEYS));
    this.said = element("p", { class: "unseen said", role: "status", "aria-live": "polite" });
    this.root.replaceChildren(element("div", { class: "viewer" }, stage, controls), this.said);
    this.listen();
  }

  systemFilter() {
    const boxes = REPORT.systems.map(({ name, colour }, k) => {
      const box = element("input", { type: "checkbox", checked: true, value: k });
      box.addEventListener("change", () => {
        box.checked ? this.chosen.add(k) : this.chosen.delete(k);
        this.select();
      });
      return [box, element("label", {}, box, element("span", { class: "swatch", style: `background:${colour}` }), name)];
    });
    const all = (on) => () => {
      boxes.forEach(([box], k) => {
        box.checked = on;
        on ? this.chosen.add(k) : this.chosen.delete(k);
      });
      this.select();
    };
    return element(
      "fieldset",
      {},
      element("legend", {}, "Systems (both ends)"),
      element("div", { class: "chips" }, ...boxes.map((pair) => pair[1])),
      element("div", { class: "small" }, element("button", { type: "button", onclick: all(true) }, "All"), element("button", { type: "button", onclick: all(false) }, "None"))
    );
  }

  // edges: see edgesOf; legend: words for positive and negative values. Unmarked edges are grey.
  setEdges(edges, legend = [`positive ${REPORT.strength}`, "negative"]) {
    this.edges = edges;
    this.order = Array.from(edges.v.keys()).sort((a, b) => Math.abs(edges.v[b]) - Math.abs(edges.v[a]));
    const some = edges.mark && edges.mark.some(Boolean);
    this.filter.hidden = !some;
    this.only.checked = Boolean(some);
    const coloured = edges.signed || REPORT.weighted ? [key("plus", legend[0]), key("minus", legend[1])] : [];
    this.legend.replaceChildren(...(edges.mark && !some ? [] : coloured), ...(edges.mark ? [key("grey", "does not survive")] : []));
    if (!this.solid) this.places = flat(this.nodes, edges);
    this.select();
  }

  // Edges within the chosen systems, top edges first; the slider sets how many of them are drawn.
  select() {
    const system = this.nodes.system;
    const { s, t } = this.edges;
    const kept = this.only.checked ? this.order.filter((e) => this.edges.mark[e]) : this.order;
    this.among = system ? kept.filter((e) => this.chosen.has(system[s[e]]) && this.chosen.has(system[t[e]])) : kept;
    const most = Math.max(1, this.among.length);
    this.slider.value = Math.round((1000 * Math.log(Math.min(Math.max(1, this.wanted), most))) / Math.max(Math.log(most), 1e-9));
    this.show(Math.min(this.wanted, this.among.length));
  }

  slide() {
    this.wanted = Math.max(1, Math.round(Math.max(1, this.among.length) ** (this.slider.value / 1000)));
    this.show(Math.min(this.wanted, this.among.length));
  }

  show(count) {
    const { v, s, t, noun, signed: both } = this.edges;
    this.drawn = this.among.slice(0, count);
    this.degree = new Map();
    for (const e of this.drawn) for (const k of [s[e], t[e]]) this.degree.set(k, (this.degree.get(k) || 0) + 1);
    const least = count ? `, ${noun} ${both ? "±" : ""}${number(Math.abs(v[this.drawn[count - 1]]), both ? digitsOf(Math.abs(v[this.drawn[0]])) : 2)} or more` : "";
    const words = `${count} of ${this.among.length} edges${least}, between ${this.degree.size} nodes`;
    this.output.textContent = words;
    this.slider.setAttribute("aria-valuetext", words);
    this.root.dataset.edges = count;
    this.root.dataset.nodes = this.degree.size;
    if (this.picked !== null && !this.degree.has(this.picked)) this.picked = null;
    this.draw();
  }

  turnTo([yaw, pitch]) {
    [this.yaw, this.pitch] = [yaw, pitch];
    this.draw();
  }

  listen() {
    let from = null;
    let moved = false;
    this.canvas.addEventListener("pointerdown", (event) => {
      from = [event.clientX, event.clientY, this.yaw, this.pitch];
      moved = false;
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (from && this.solid) {
        const [dx, dy] = [event.clientX - from[0], event.clientY - from[1]];
        moved = moved || Math.hypot(dx, dy) > 4;
        this.yaw = from[2] - dx / 120;
        this.pitch = Math.min(Math.PI / 2, Math.max(-Math.PI / 2, from[3] + dy / 120));
        this.draw();
      } else this.point(event);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (from && !moved) {
        this.point(event);
        this.pick(this.hover && this.hover.node !== undefined ? this.hover.node : null);
      }
      from = null;
    });
    this.canvas.addEventListener("pointercancel", () => (from = null));
    this.canvas.addEventListener("pointerleave", () => {
      this.hover = null;
      this.tip.hidden = true;
      this.draw();
    });
    this.canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // the page itself scrolls
      event.preventDefault();
      this.zoomBy(Math.exp(-event.deltaY / 300));
    }, { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const step = 0.12;
    const steps = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in steps && this.solid) {
      this.yaw += steps[event.key][0];
      this.pitch = Math.min(Math.PI / 2, Math.max(-Math.PI / 2, this.pitch + steps[event.key][1]));
      this.draw();
    } else if (event.key === "+" || event.key === "=") this.zoomBy(1.2);
    else if (event.key === "-") this.zoomBy(1 / 1.2);
    else if (event.key.toLowerCase() === "n") this.step(1);
    else if (event.key.toLowerCase() === "p") this.step(-1);
    else if (event.key === "Escape") this.pick(null);
    else return;
    event.preventDefault();
  }

  zoomBy(factor) {
    this.zoom = Math.min(6, Math.max(0.5, this.zoom * factor));
    this.draw();
  }

  step(by) {
    const busy = [...this.degree.keys()].sort((a, b) => this.degree.get(b) - this.degree.get(a) || a - b);
    if (!busy.length) return;
    const at = busy.indexOf(this.picked);
    this.pick(busy[at < 0 ? (by > 0 ? 0 : busy.length - 1) : (at + by + busy.length) % busy.length]);
  }

  pick(node) {
    this.picked = node;
    this.said.textContent = node === null ? "" : `${this.nodeWords(node)}: ${this.neighbours(node).join("; ")}`;
    this.draw();
  }

  neighbours(node) {
    const { s, t, v } = this.edges;
    return this.drawn.filter((e) => s[e] === node || t[e] === node).slice(0, 8).map((e) => `${this.nodes.names[s[e] === node ? t[e] : s[e]]} ${number(v[e])}`);
  }

  nodeWords(k) {
    const system = systemName(this.nodes, k);
    const count = this.degree.get(k) || 0;
    return `${this.nodes.names[k]}${system ? ` (${system})` : ""}, ${count} edge${count === 1 ? "" : "s"}`;
  }

  edgeWords(e) {
    const { s, t, v, c, noun, signed: both, mark, deviation } = this.edges;
    const { names } = this.nodes;
    const words = [`${names[s[e]]} – ${names[t[e]]}: ${noun} ${both ? signed(v[e], digitsOf(Math.abs(v[this.drawn[0]]))) : number(v[e])}`];
    if (deviation && Number.isFinite(deviation[e])) words.push(deviationWords(deviation[e]));
    if (REPORT.weighted && c !== v) words.push(`${REPORT.strength} ${number(c[e])}`);
    if (mark) words.push(mark[e] ? "survives" : "does not survive");
    return words.join(", ");
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    this.hover = this.under(x, y);
    if (this.hover) {
      const { node, edge } = this.hover;
      this.tip.textContent = node !== undefined ? this.nodeWords(node) : this.edgeWords(edge);
      this.tip.hidden = false;
      this.tip.style.left = `${Math.max(4, Math.min(x + 14, box.width - this.tip.offsetWidth - 4))}px`;
      this.tip.style.top = `${Math.max(4, y - this.tip.offsetHeight - 12)}px`;
    } else this.tip.hidden = true;
    this.draw();
  }

  under(x, y) {
    let best = null;
    let least = 13;
    for (const k of this.degree.keys()) {
      const d = Math.hypot(this.at[k][0] - x, this.at[k][1] - y);
      if (d < least) [best, least] = [{ node: k }, d];
    }
    if (best) return best;
    least = 5;
    for (const e of this.drawn) {
      const d = toSegment(x, y, this.at[this.edges.s[e]], this.at[this.edges.t[e]]);
      if (d < least) [best, least] = [{ edge: e }, d];
    }
    return best;
  }

  draw() {
    if (!this.edges) return;
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    if (!width) return; // hidden: drawn when it becomes visible
    const ratio = window.devicePixelRatio || 1;
    const pen = this.canvas.getContext("2d");
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      [this.canvas.width, this.canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    }
    const style = getComputedStyle(document.documentElement);
    const ink = (name) => style.getPropertyValue(`--${name}`).trim();
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    this.project(width, height);
    if (this.solid) this.drawOutline(pen, ink);
    this.drawEdges(pen, ink);
    this.drawNodes(pen, ink);
    if (this.names.checked) this.drawNames(pen, ink, width, height);
  }

  // Screen positions and depths (0 near, 1 far) of all nodes.
  project(width, height) {
    const [cy, sy, cp, sp] = [Math.cos(this.yaw), Math.sin(this.yaw), Math.cos(this.pitch), Math.sin(this.pitch)];
    const room = this.solid ? height - 40 : height; // the buttons lie at the bottom
    this.scale = ((Math.min(width, room) / 2 - 22) / (this.solid ? this.reach + 0.1 : 1)) * this.zoom;
    this.at = this.places.map(([x, y, z]) => {
      const right = x * cy - y * sy;
      const far = x * sy + y * cy;
      return [width / 2 + this.scale * right, room / 2 - this.scale * (z * cp + far * sp), far * cp - z * sp];
    });
    this.middle = [width / 2, room / 2];
  }

  // An outline around all nodes, and the names of the directions.
  drawOutline(pen, ink) {
    const shape = hull(this.at.map(([x, y]) => [x, y]));
    if (shape.length < 3) return;
    const trace = () => {
      pen.beginPath();
      for (let k = 0; k <= shape.length; k++) {
        const [a, b] = [shape[k % shape.length], shape[(k + 1) % shape.length]];
        const half = [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
        k ? pen.quadraticCurveTo(...a, ...half) : pen.moveTo(...half);
      }
      pen.closePath();
    };
    pen.lineJoin = "round";
    const room = this.scale * 0.1;
    trace();
    pen.strokeStyle = ink("brain-line");
    pen.lineWidth = 2 * room + 2.5;
    pen.stroke();
    pen.strokeStyle = pen.fillStyle = ink("brain");
    pen.lineWidth = 2 * room;
    pen.stroke();
    pen.fill();
    pen.fillStyle = ink("quiet");
    pen.font = "600 13px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const [cy, sy, cp, sp] = [Math.cos(this.yaw), Math.sin(this.yaw), Math.cos(this.pitch), Math.sin(this.pitch)];
    const reach = Math.min(this.scale * 1.0 + 40, Math.min(...this.middle) - 12);
    for (const [name, x, y, z] of [["L", -1, 0, 0], ["R", 1, 0, 0], ["A", 0, 1, 0], ["P", 0, -1, 0], ["S", 0, 0, 1], ["I", 0, 0, -1]]) {
      const [dx, dy] = [x * cy - y * sy, z * cp + (x * sy + y * cy) * sp];
      const length = Math.hypot(dx, dy);
      if (length < 0.6) continue;
      const edge = Math.min(this.far(dx / length, dy / length) + room + 16, reach * 1.6);
      pen.fillText(name, this.middle[0] + (dx / length) * edge, this.middle[1] - (dy / length) * edge);
    }
  }

  // The extent of the nodes from the centre in one direction.
  far(dx, dy) {
    return Math.max(...this.at.map(([x, y]) => (x - this.middle[0]) * dx - (y - this.middle[1]) * dy));
  }

  drawEdges(pen, ink) {
    const { s, t, v, c, signed: both, mark } = this.edges;
    if (!this.drawn.length) return;
    const size = (e) => Math.abs(v[e]);
    const largest = size(this.drawn[0]);
    const smallest = both ? 0 : size(this.drawn[this.drawn.length - 1]);
    const colours = both || REPORT.weighted ? [ink("negative"), ink("positive")] : [ink("accent"), ink("accent")];
    const sign = both ? v : c;
    const focus = this.hover && this.hover.node !== undefined ? this.hover.node : this.picked;
    pen.lineCap = "round";
    for (let k = this.drawn.length - 1; k >= 0; k--) {
      const e = this.drawn[k];
      const part = largest > smallest ? (size(e) - smallest) / (largest - smallest) : 1;
      const mine = focus === null || s[e] === focus || t[e] === focus;
      const [a, b] = [this.at[s[e]], this.at[t[e]]];
      const near = this.solid ? 0.75 - 0.25 * ((a[2] + b[2]) / 2) : 1;
      pen.globalAlpha = mine ? Math.min(1, (0.3 + 0.6 * part) * near) : 0.06;
      pen.strokeStyle = mark && !mark[e] ? ink("brain-edge") : colours[sign[e] < 0 ? 0 : 1];
      pen.lineWidth = (0.8 + 3.4 * part) * (this.hover && this.hover.edge === e ? 1.8 : 1);
      if (this.hover && this.hover.edge === e) pen.globalAlpha = 1;
      pen.setLineDash(both && sign[e] < 0 ? [7, 5] : []);
      pen.beginPath();
      pen.moveTo(a[0], a[1]);
      pen.lineTo(b[0], b[1]);
      pen.stroke();
    }
    pen.setLineDash([]);
    pen.globalAlpha = 1;
  }

  drawNodes(pen, ink) {
    const most = Math.max(1, ...this.degree.values());
    const far = Array.from(this.at.keys()).sort((a, b) => this.at[b][2] - this.at[a][2]);
    const line = ink("ink");
    for (const k of far) {
      const count = this.degree.get(k) || 0;
      const [x, y] = this.at[k];
      pen.beginPath();
      if (!count) {
        pen.globalAlpha = 0.35;
        pen.fillStyle = ink("quiet");
        pen.arc(x, y, this.solid ? 1.6 : 2.5, 0, 7);
        pen.fill();
        continue;
      }
      pen.globalAlpha = 1;
      const colour = this.nodes.system ? REPORT.systems[this.nodes.system[k]].colour : ink("accent");
      pen.fillStyle = colour;
      pen.strokeStyle = line;
      pen.lineWidth = k === this.picked || (this.hover && this.hover.node === k) ? 3 : 1;
      pen.arc(x, y, 3.5 + 6 * Math.sqrt(count / most), 0, 7);
      pen.fill();
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  drawNames(pen, ink, width, height) {
    const most = width < 480 ? 6 : 12;
    const busy = [...this.degree.keys()].sort((a, b) => this.degree.get(b) - this.degree.get(a) || a - b);
    if (this.picked !== null) busy.unshift(this.picked);
    const taken = busy.slice(0, 40).map((k) => [this.at[k][0] - 5, this.at[k][1] - 5, this.at[k][0] + 5, this.at[k][1] + 5]);
    pen.font = "12px system-ui, sans-serif";
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.lineWidth = 3;
    pen.lineJoin = "round";
    let left = most;
    for (const k of new Set(busy)) {
      if (!left) break;
      const full = this.nodes.names[k].replaceAll("_", " ");
      const name = full.length > 28 ? `${full.slice(0, 27)}…` : full;
      const wide = pen.measureText(name).width;
      const [x, y] = this.at[k];
      for (const [ax, ay] of [[12, 0], [-12 - wide, 0], [-wide / 2, -17], [-wide / 2, 17]]) {
        const box = [x + ax, y + ay - 8, x + ax + wide, y + ay + 8];
        const inside = box[0] > 2 && box[1] > 2 && box[2] < width - 2 && box[3] < height - 2;
        if (!inside || taken.some((o) => box[0] < o[2] && o[0] < box[2] && box[1] < o[3] && o[1] < box[3])) continue;
        taken.push(box);
        pen.strokeStyle = ink(this.solid ? "brain" : "paper");
        pen.strokeText(name, x + ax, y + ay);
        pen.fillStyle = ink("ink");
        pen.fillText(name, x + ax, y + ay);
        left -= 1;
        break;
      }
    }
  }
}
Viewer.made = 0;
Viewer.all = new Set();

function centred(xyz) {
  const out = [];
  for (let k = 0; k < xyz.length; k += 3) out.push([xyz[k], xyz[k + 1], xyz[k + 2]]);
  const middle = [0, 1, 2].map((d) => (Math.min(...out.map((p) => p[d])) + Math.max(...out.map((p) => p[d]))) / 2);
  const size = Math.max(1e-9, ...out.map((p) => Math.hypot(...p.map((v, d) => v - middle[d]))));
  return out.map((p) => p.map((v, d) => (v - middle[d]) / size));
}

function toSegment(x, y, a, b) {
  const [dx, dy] = [b[0] - a[0], b[1] - a[1]];
  const along = Math.min(1, Math.max(0, ((x - a[0]) * dx + (y - a[1]) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(x - a[0] - along * dx, y - a[1] - along * dy);
}

function hull(points) {
  const sorted = points.slice().sort((p, q) => p[0] - q[0] || p[1] - q[1]);
  const half = (list) => {
    const out = [];
    for (const p of list) {
      while (out.length > 1) {
        const [a, b] = out.slice(-2);
        if ((b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]) > 0) break;
        out.pop();
      }
      out.push(p);
    }
    return out.slice(0, -1);
  };
  return [...half(sorted), ...half(sorted.reverse())];
}

// Positions on the plane: a ring, system by system, where graphs are aligned; else springs.
function flat(nodes, edges) {
  const n = nodes.names.length;
  const ring = Array.from({ length: n }, (_, k) => k);
  if (nodes.system) ring.sort((a, b) => nodes.system[a] - nodes.system[b] || a - b);
  const out = new Array(n);
  ring.forEach((k, at) => (out[k] = [Math.sin((2 * Math.PI * at) / n), Math.cos((2 * Math.PI * at) / n), 0]));
  if (REPORT.nodes || n > 400) return out;
  const ideal = 1.4 / Math.sqrt(n);
  for (let round = 0; round < 250; round++) {
    const push = out.map(() => [0, 0]);
    for (let a = 0; a < n; a++) {
      for (let b = 0; b < a; b++) {
        const [dx, dy] = [out[a][0] - out[b][0], out[a][1] - out[b][1]];
        const force = (ideal * ideal) / Math.max(dx * dx + dy * dy, 1e-6);
        push[a][0] += dx * force;
        push[a][1] += dy * force;
        push[b][0] -= dx * force;
        push[b][1] -= dy * force;
      }
    }
    edges.s.forEach((a, e) => {
      const b = edges.t[e];
      const [dx, dy] = [out[a][0] - out[b][0], out[a][1] - out[b][1]];
      const force = Math.hypot(dx, dy) / ideal;
      push[a][0] -= dx * force;
      push[a][1] -= dy * force;
      push[b][0] += dx * force;
      push[b][1] += dy * force;
    });
    const heat = 0.12 * (1 - round / 250);
    push.forEach(([x, y], k) => {
      const size = Math.hypot(x, y) || 1;
      out[k][0] += (x / size) * Math.min(size, heat);
      out[k][1] += (y / size) * Math.min(size, heat);
    });
  }
  return centred(Float32Array.from(out.flat()));
}
