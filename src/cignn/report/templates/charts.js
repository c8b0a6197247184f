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

function removalChart(shares, top, random, what) {
  const x = (v) => 40 + (280 * v) / shares[shares.length - 1];
  const y = (v) => 210 - 200 * v;
  const chart = svg("svg", { class: "chart", viewBox: "0 0 340 250", role: "img", "aria-label": `${what} as edges are removed; the table has its numbers` });
  const grid = svg("g", { class: "grid" });
  const ticks = svg("g", { class: "ticks" });
  for (let k = 0; k <= 4; k++) {
    grid.append(svg("line", { x1: 40, x2: 320, y1: y(k / 4), y2: y(k / 4) }));
    ticks.append(svg("text", { x: 34, y: y(k / 4) + 4, "text-anchor": "end" }, (k / 4).toFixed(2)));
  }
  const last = shares[shares.length - 1];
  for (let k = 0; k <= 5; k++) ticks.append(svg("text", { x: x((last * k) / 5), y: 227, "text-anchor": "middle" }, `${Math.round((100 * last * k) / 5)} %`));
  ticks.append(svg("text", { x: 180, y: 245, "text-anchor": "middle" }, "edges removed"));
  const path = (values) => values.map((v, k) => `${x(shares[k]).toFixed(1)},${y(v).toFixed(1)}`).join(" ");
  const points = svg("g", { class: "points" }, ...top.map((v, k) => svg("circle", { cx: x(shares[k]), cy: y(v), r: 4 })));
  chart.append(grid, ticks, svg("polyline", { class: "line other", points: path(random) }), svg("polyline", { class: "line", points: path(top) }), points);
  return chart;
}

// The top edges as bars, with the group's mean and spread on each.
function edgeBars(rows) {
  const out = element("div", { class: "edge-bars", role: "list" });
  for (const { source, target, weight, mean, deviation } of rows) {
    const track = element("span", { class: "track", "aria-hidden": "true" }, element("i", { class: "fill", style: `width:${share(weight)}` }));
    let words = number(weight);
    if (mean !== null) {
      const [low, high] = [Math.max(0, mean - deviation), Math.min(1, mean + deviation)];
      track.append(element("i", { class: "spread", style: `left:${share(low)};width:${share(high - low)}` }), element("i", { class: "dot", style: `left:${share(mean)}` }));
      words += ` (group ${number(mean)})`;
    }
    const name = element("span", { class: "name" }, breakable(source), " – ", breakable(target));
    out.append(element("div", { role: "listitem" }, name, track, element("span", { class: "value" }, words)));
  }
  return out;
}
