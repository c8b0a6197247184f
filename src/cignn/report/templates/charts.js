// Small charts of a graph's page.
function probabilityBars(names, probabilities, members) {
  const rows = element("div", { class: "prob", role: "list" });
  names.forEach((name, k) => {
    const said = members ? members.map((member) => member[k]) : [];
    const track = element("span", { class: "track", "aria-hidden": "true" });
    track.append(element("i", { class: "fill", style: `width:${share(probabilities[k])}` }));
    let words = number(probabilities[k]);
    if (said.length) {
      const [low, high] = [Math.min(...said), Math.max(...said)];
      track.append(element("i", { class: "spread", style: `left:${share(low)};width:${share(high - low)}` }));
      said.forEach((p) => track.append(element("i", { class: "dot", style: `left:${share(p)}` })));
      words += ` (${number(low)} to ${number(high)})`;
    }
    const item = element("span", { class: "value" }, words);
    rows.append(element("div", { role: "listitem" }, element("span", { class: "name" }, name), item, track));
  });
  return rows;
}

// Probability against the number of edges removed; the numbers are evenly spaced, they grow by 2 to 2.5 each.
function removalChart(counts, top, random, what) {
  const x = (k) => 40 + (280 * k) / Math.max(1, counts.length - 1);
  const y = (v) => 210 - 200 * v;
  const chart = svg("svg", { class: "chart", viewBox: "0 0 340 250", role: "img", "aria-label": `${what} as edges are removed; the table has its numbers` });
  const grid = svg("g", { class: "grid" });
  const ticks = svg("g", { class: "ticks" });
  for (let k = 0; k <= 4; k++) {
    grid.append(svg("line", { x1: 40, x2: 320, y1: y(k / 4), y2: y(k / 4) }));
    ticks.append(svg("text", { x: 34, y: y(k / 4) + 4, "text-anchor": "end" }, (k / 4).toFixed(2)));
  }
  counts.forEach((count, k) => ticks.append(svg("text", { x: x(k), y: 227, "text-anchor": "middle" }, count < 1000 ? String(count) : `${count / 1000}k`)));
  ticks.append(svg("text", { x: 180, y: 245, "text-anchor": "middle" }, "edges removed"));
  const path = (values) => values.map((v, k) => `${x(k).toFixed(1)},${y(v).toFixed(1)}`).join(" ");
  const points = svg("g", { class: "points" }, ...top.map((v, k) => svg("circle", { cx: x(k), cy: y(v), r: 4 })));
  chart.append(grid, ticks, svg("polyline", { class: "line other", points: path(random) }), svg("polyline", { class: "line", points: path(top) }), points);
  return chart;
}

// The top edges as bars, with the group's mean and spread on each.
function edgeBars(rows) {
  const out = element("div", { class: "edge-bars", role: "list" });
  for (const { source, target, weight, mean, spread } of rows) {
    const track = element("span", { class: "track", "aria-hidden": "true" }, element("i", { class: "fill", style: `width:${share(weight)}` }));
    let words = number(weight);
    if (mean !== null && !REPORT.alike) {
      const [low, high] = [Math.max(0, mean - spread), Math.min(1, mean + spread)];
      track.append(element("i", { class: "spread", style: `left:${share(low)};width:${share(high - low)}` }), element("i", { class: "dot", style: `left:${share(mean)}` }));
      words += ` (group ${number(mean)})`;
    }
    const name = element("span", { class: "name" }, breakable(source), " – ", breakable(target));
    out.append(element("div", { role: "listitem" }, name, track, element("span", { class: "value" }, words)));
  }
  return out;
}

// A value on both sides of a line in the middle; largest: the value of a full half.
function signedBar(value, largest) {
  const part = 50 * Math.min(1, Math.abs(value) / (largest || 1));
  const fill = element("i", { class: value < 0 ? "minus" : "plus", style: `left:${value < 0 ? 50 - part : 50}%;width:${part}%` });
  return element("span", {}, element("span", { class: "bar both", "aria-hidden": "true" }, fill), signed(value, digitsOf(largest)));
}
