"use strict";
// WORDS has for each phase the word that is shown and its exact term.
// Draws what is in #data. All numbers are there; tables of them stand in the page for who sees no charts.
const PHASES = ["data", "compute", "encode", "send", "wait", "merge", "rule"];
const COLOURS = {data: "#8e6bd1", compute: "#3d7edb", encode: "#e2a13a", send: "#2fa8a0", wait: "#c9ced6", merge: "#d9733f",
  rule: "#5aa469", between: "#7b8794", restart: "#c0392b"};
const MEAN = ["#3d7edb", "#e2813a", "#5aa469", "#c9768f"], OTHERS = ["#8e6bd1", "#2fa8a0", "#5aa469", "#c9768f", "#a3903f", "#7b8794"],
  RUNS = ["#8e6bd1", "#2fa8a0", "#d9733f", "#3d7edb", "#c9568f", "#a3903f", "#5aa469", "#7b8794"];
const DARK = window.matchMedia("(prefers-color-scheme: dark)");
const charts = new Map();
let page = null, curvesPer = "epoch";

function colour(phase) { return phase === "wait" && DARK.matches ? "#4a5361" : COLOURS[phase]; }
function ink() { return DARK.matches ? "#c9d1dc" : "#3a4452"; }
function rule() { return DARK.matches ? "#323a46" : "#e3e7ed"; }
function narrow() { return window.innerWidth < 520; }
function escaped(text) { return String(text).replace(/[&<>"]/g, c => "&#" + c.charCodeAt(0) + ";"); }

function seconds(value) {
  const size = Math.abs(value);
  if (!size) return "0";
  if (size >= 100) return value.toFixed(0) + " s";
  if (size >= 1) return value.toFixed(2) + " s";
  return size >= 1e-3 ? String(+(value * 1e3).toFixed(1)) + " ms" : (value * 1e6).toFixed(0) + " µs";
}
function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < 4) { value /= 1000; unit += 1; }
  return (unit && value < 100 ? value.toFixed(1) : value.toFixed(0)) + " " + units[unit];
}
function who(node) { return node === -2 ? "server" : "worker " + node; }
function word(phase) { return WORDS[phase] ? WORDS[phase][0] : phase; }
function exact(shown) { return (Object.values(WORDS).find(([one]) => one === shown) || ["", shown])[1]; }
function short(node) { return node === -2 ? "PS" : String(node); }

function show(id, option, height) {
  const place = document.getElementById(id);
  if (!place) return null;
  if (height) place.style.height = height + "px";
  let chart = charts.get(id);
  if (!chart) {
    chart = echarts.init(place, null, {renderer: "canvas"});
    charts.set(id, chart);
  }
  const base = {animation: false, textStyle: {color: ink()}, aria: {enabled: true},
    tooltip: {confine: true, backgroundColor: DARK.matches ? "#232b36" : "#fff", borderColor: rule(), textStyle: {color: ink(), fontSize: 12}}};
  option.tooltip = Object.assign(base.tooltip, option.tooltip || {});
  chart.setOption(Object.assign(base, option), {notMerge: true});
  chart.resize();
  return chart;
}
function axis(more) {
  return Object.assign({axisLabel: {color: ink(), fontSize: 11, hideOverlap: true}, nameTextStyle: {color: ink()},
    axisLine: {lineStyle: {color: rule()}}, splitLine: {lineStyle: {color: rule()}}}, more);
}
// how many lines a legend takes, by the width of its letters
function legendLines(names, place) {
  const width = place ? place.clientWidth : 600;
  let lines = 1, used = 0;
  for (const name of names) {
    const own = 16 + 5 + 7 * String(name).length + 10;
    if (used && used + own > width) { lines += 1; used = 0; }
    used += own;
  }
  return lines;
}
function legend(names, more) {
  return Object.assign({data: names, top: 0, textStyle: {color: ink(), fontSize: 12}, itemWidth: 16, itemHeight: 10,
    icon: "roundRect",
    inactiveColor: DARK.matches ? "#555e6b" : "#b8bfc9"}, more || {});
}

function drawCurves() {
  const curves = page.curves;
  if (!curves) return;
  for (const [number, name] of curves.names.entries()) {
    const lines = curves[curvesPer].filter(line => line.metric === name);
    // of runs with equal curves the ones below stand out on both sides
    const runs = Math.min(6, 1 + Math.max(0, ...lines.map(line => line.run || 0)));
    const series = lines.map(line => ({type: "line", name: line.name || line.label, data: line.points, symbol: "circle", showSymbol: line.points.length < 2,
      symbolSize: 7, emphasis: {disabled: true}, z: line.mean ? 5 : 2, color: line.run === undefined ? (line.mean ? MEAN[+line.test] : undefined) : RUNS[line.run % RUNS.length],
      lineStyle: {width: line.width ? line.width : line.run !== undefined ? 1.8 + 1.3 * Math.max(0, runs - 1 - line.run) : line.mean ? 2.4 : 0.9, opacity: line.opacity || (line.mean ? 1 : 0.55), type: line.test ? [8, 6] : "solid"}}));
    const each = Math.max(0, ...(curves.step || []).map(line => line.points.length ? line.points[line.points.length - 1][0] : 0)) /
      Math.max(1, ...curves.epoch.map(line => line.points.length ? line.points[line.points.length - 1][0] : 0));
    // the point of an epoch stands at its end
    const first = curvesPer === "epoch" ? 1 : 0;
    const places = (page.restarts || []).map(([epoch, batch]) => curvesPer === "epoch" ? epoch - 1 + (each ? batch / each : 1) : (epoch - 1) * each + batch)
      .map(place => Math.max(first, place));
    if (series.length && places.length) {
      series[0].markLine = {symbol: "none", silent: true, lineStyle: {color: "#c0392b", type: "dotted", width: 1.6},
        label: {formatter: "restart", color: ink(), fontSize: 11}, data: places.map(place => ({xAxis: place}))};
    }
    const few = series.length <= 12, unit = {seconds: seconds, bytes: bytes}[curvesPer];
    const amount = {bytes: bytes, client_bytes: bytes, seconds: seconds}[name];
    const named = lines.some(line => line.run !== undefined) ? [...new Set(series.map(one => one.name))] : few ? [true, false].flatMap(mean => lines.filter(line => !!line.mean === mean).map(line => line.label)) : lines.filter(line => line.mean).map(line => line.label);
    const above = 18 * legendLines(named, document.getElementById("curve-" + number)) + (places.length ? 22 : 14);
    show("curve-" + number, {legend: legend(named, {itemHeight: 5}), color: OTHERS, grid: {left: 54, right: 22, top: above, bottom: 40},
      xAxis: axis({type: "value", splitNumber: narrow() ? 4 : 6, name: curvesPer === "step" ? "batch" : curvesPer === "seconds" && page.clock ? "seconds (" + page.clock + ")" : curvesPer,
        nameLocation: "middle", nameGap: 24, min: "dataMin", max: "dataMax", minInterval: unit ? 0 : 1,
        axisLabel: {color: ink(), fontSize: 11, hideOverlap: true, formatter: unit}}),
      // a share, such as accuracy, ends at 1, and so does its axis
      yAxis: axis({type: "value", scale: !amount, axisLabel: {color: ink(), fontSize: 11, formatter: amount}, max: seen => seen.min >= 0 && seen.max > 0.9 && seen.max <= 1 ? 1 : null}), series: series,
      tooltip: {trigger: few ? "axis" : "item", formatter: items => {
        const all = [items].flat();
        return (curvesPer === "step" ? "batch" : curvesPer) + " " + (unit ? unit(all[0].value[0]) : all[0].value[0]) +
          all.map(item => "<br>" + item.marker + escaped(lines[item.seriesIndex].label) + " <b>" + (amount ? amount(item.value[1]) : Number(item.value[1]).toPrecision(5)) + "</b>").join("");
      }}});
  }
}

function drawCauses() {
  const rows = page.causes.slice(0, 10).reverse();
  if (!rows.length) return;
  // where there is little room names stand above their bars, else beside them, in two lines where they are long
  const above = narrow(), label = above ? {inside: true, margin: 0, align: "left", verticalAlign: "bottom", padding: [0, 0, 11, 2]} : {width: 180, overflow: "break", lineHeight: 14};
  show("causes", {grid: {left: above ? 4 : 196, right: 76, top: above ? 14 : 6, bottom: 26},
    xAxis: axis({type: "value", splitNumber: above ? 3 : 4, axisLabel: {color: ink(), fontSize: 11, hideOverlap: true, formatter: seconds}}),
    yAxis: axis({type: "category", data: rows.map(row => row.place.replace(/ (?=\d+$)/, "\u00a0")), axisTick: {show: false}, z: 10,
      axisLabel: Object.assign({color: ink(), fontSize: 12, interval: 0}, label)}),
    tooltip: {formatter: item => escaped(rows[item.dataIndex].text) + "<br><b>" + seconds(item.value) + "</b>"},
    series: [{type: "bar", data: rows.map(row => row.seconds), itemStyle: {color: COLOURS.merge, borderRadius: [0, 3, 3, 0]}, barMaxWidth: above ? 12 : 22,
      label: {show: true, position: "right", color: ink(), formatter: item => seconds(item.value)}}]}, 60 + (above ? 46 : 34) * rows.length);
}

function drawPhases() {
  const phases = page.phases;
  if (!phases.workers.length) return;
  const names = Object.keys(phases.seconds), words = names.map(word), above = 18 * legendLines(words, document.getElementById("phases")) + 14;
  show("phases", {legend: legend(words, {tooltip: {show: true, formatter: item => escaped(exact(item.name))}}), grid: {left: 74, right: 30, top: above, bottom: 30},
    xAxis: axis({type: "value", max: "dataMax", splitNumber: narrow() ? 3 : 6, axisLabel: {color: ink(), fontSize: 11, hideOverlap: true, formatter: seconds}}),
    yAxis: axis({type: "category", inverse: true, data: phases.workers.map(who)}),
    tooltip: {trigger: "axis", axisPointer: {type: "shadow"}, valueFormatter: seconds},
    series: names.map(name => ({type: "bar", name: word(name), stack: "all", data: phases.seconds[name], barMaxWidth: 22,
      itemStyle: {color: colour(name)}, emphasis: {disabled: true}}))}, 56 + above + Math.max(14, Math.min(30, 900 / phases.workers.length)) * phases.workers.length);
}

// the colour of a number on a cell of this share of the largest: white or dark, whichever has more contrast
function on(share) { return DARK.matches ? (share > 0.5 ? "#10151c" : "#f2f5f9") : share > 0.66 ? "#fff" : "#10151c"; }

function heat(id, columns, rows, cells, format, names) {
  if (!cells.length) return;
  const pair = document.getElementById(id).closest(".pair");
  if (pair && rows.length > 24) pair.classList.add("single");  // beside a large picture a small one stands above much emptiness
  const most = Math.max(...cells.map(cell => cell[2])), few = columns.length <= (narrow() ? 4 : 10) && rows.length <= 24;
  // every so many-th column has its label, so that none touches the next
  const room = document.getElementById(id).clientWidth - names.left - 14, longest = Math.max(...columns.map(text => String(text).length));
  const each = room > 0 ? Math.ceil(columns.length * (7 * longest + 8) / room) : 1;
  show(id, {grid: {left: names.left, right: 14, top: 10, bottom: 84},
    xAxis: axis({type: "category", data: columns, name: names.x, nameLocation: "middle", nameGap: 26, splitArea: {show: false},
      axisLabel: {color: ink(), fontSize: 11, interval: each - 1}}),
    yAxis: axis({type: "category", inverse: true, data: rows, name: names.y, nameLocation: "start",
      axisLabel: {color: ink(), fontSize: 11, width: names.left - 12, overflow: "break", lineHeight: 13, interval: rows.length > 40 ? "auto" : 0}}),
    visualMap: {min: 0, max: most || 1, calculable: false, orient: "horizontal", left: "center", bottom: 4, itemHeight: 110, itemWidth: 10,
      textStyle: {color: ink(), fontSize: 11}, formatter: value => format(value), text: [format(most), "0"],
      inRange: {color: DARK.matches ? ["#1f2834", "#2f5f8f", "#62b6e0", "#e9f5c9"] : ["#eef3fa", "#9ec5ea", "#3d7edb", "#173a75"]}},
    tooltip: {formatter: item => escaped(names.tell(rows[item.value[1]], columns[item.value[0]])) + "<br><b>" + format(item.value[2]) + "</b>" +
      (names.parts ? names.parts(item.value) : "")},
    series: [{type: "heatmap", progressive: 0, data: few ? cells.map(cell => ({value: cell, label: {color: on(cell[2] / (most || 1))}})) : cells, itemStyle: {borderColor: DARK.matches ? "#1a2029" : "#fff", borderWidth: columns.length > 24 ? 0 : 1},
      label: {show: few, fontSize: 11, formatter: item => format(item.value[2])}}]},
    Math.max(230, 110 + Math.max(names.least || 13, Math.min(30, 320 / rows.length)) * rows.length));
}

function drawHeat() {
  const waits = page.waits, links = page.links, variables = page.variables;
  heat("waits", waits.nodes.map(short), waits.waiters.map(who), waits.cells, seconds,
    {left: 80, x: "waited for", y: "", tell: (row, column) => row + " waited for " + column});
  heat("links", links.nodes.map(short), links.senders.map(who), links.cells, bytes,
    {left: 80, x: "to", y: "", tell: (row, column) => row + " sent to " + column,
      parts: ([to, of]) => links.ways.filter(way => way[0] === to && way[1] === of)
        .map(way => "<br>" + escaped(way[2]) + " " + bytes(way[3])).join("")});
  heat("variables", variables.nodes.map(short), variables.names, variables.cells, bytes,
    {left: narrow() ? 128 : 210, least: narrow() ? 30 : 18, x: "sent by worker", y: "", tell: (row, column) => row + ", sent by " + column});
  if (!page.clients) return;
  const held = page.clients.held, drawn = page.clients.drawn, whole = value => String(Math.round(value));
  heat("held", held.columns, held.clients.map(String), held.cells, whole,
    {left: 80, x: "class", y: "client", least: 8, tell: (row, column) => "client " + row + ", class " + column});
  heat("drawn", drawn.rounds, drawn.clients, drawn.cells, whole,
    {left: 80, x: "round", y: "client", least: 8, tell: (row, column) => "client " + row + " in round " + column});
}

// time against workers: each batch is a row of boxes, one for each phase, and a line from the packet that ended its wait
function drawBatches() {
  const batches = page.batches, places = new Map(batches.workers.map((node, place) => [node, place]));
  if (!batches.rows.length) return;
  const items = batches.rows.map((row, index) => [row[1] / 1e6, places.get(row[0]), (row[1] + row.slice(2, 9).reduce((a, b) => a + b, 0)) / 1e6, index]);
  function render(params, api) {
    const row = batches.rows[api.value(3)], band = api.size([0, 1])[1] * 0.72;
    const [left, middle] = api.coord([api.value(0), api.value(1)]), right = api.coord([api.value(2), api.value(1)])[0];
    const area = params.coordSys, clip = shape => echarts.graphic.clipRectByRect(shape, area);
    const children = [];
    function box(from, to, phase) {
      const shape = clip({x: from, y: middle - band / 2, width: Math.max(to - from, 0.6), height: band});
      if (shape) children.push({type: "rect", shape: shape, style: {fill: colour(phase)}});
    }
    if (right - left < 3) {
      let most = 0;
      for (let phase = 1; phase < 7; phase += 1) if (row[2 + phase] > row[2 + most]) most = phase;
      box(left, right, PHASES[most]);
    } else {
      let now = row[1];
      for (let phase = 0; phase < 7; phase += 1) {
        const from = api.coord([now / 1e6, 0])[0];
        now += row[2 + phase];
        if (row[2 + phase] > 0) box(from, api.coord([now / 1e6, 0])[0], PHASES[phase]);
      }
    }
    const sender = places.get(row[12]), wide = right - left > 26 * Math.max(1, batches.workers.length / 8);
    if (wide && sender !== undefined && row[6] > 0.05 * (items[api.value(3)][2] - items[api.value(3)][0]) * 1e6 && row[13] !== null) {
      const until = row[1] + row[2] + row[3] + row[4] + row[5] + row[6];
      const [x1, y1] = api.coord([row[13] / 1e6, sender]), [x2, y2] = api.coord([until / 1e6, api.value(1)]);
      if (x1 >= area.x && x2 <= area.x + area.width) {
        const down = y2 > y1 ? band / 2 : -band / 2;
        children.push({type: "line", shape: {x1: x1, y1: y1 + down, x2: x2, y2: y2 - down}, style: {stroke: "#c0392b", lineWidth: 1, opacity: 0.6}});
      }
    }
    return {type: "group", children: children};
  }
  const end = Math.max(...items.map(item => item[2])), per = batches.rows.length / batches.workers.length;
  const opening = per > 40 ? items.filter(item => item[1] === 0)[30][2] : end;
  const height = Math.max(13, Math.min(56, 760 / batches.workers.length)) * batches.workers.length + 76;
  const words = PHASES.map(word), above = 18 * legendLines(words, document.getElementById("batches")) + (batches.restarts.length ? 28 : 16);
  show("batches", {legend: legend(words, {selectedMode: false, tooltip: {show: true, formatter: item => escaped(exact(item.name))}}), grid: {left: 76, right: 30, top: above, bottom: 66},
    xAxis: axis({type: "value", min: 0, max: end, axisLabel: {color: ink(), fontSize: 11, hideOverlap: true, formatter: seconds}}),
    yAxis: axis({type: "category", inverse: true, data: batches.workers.map(who), splitLine: {show: false}}),
    dataZoom: [{type: "inside", filterMode: "weakFilter", startValue: 0, endValue: opening},
      {type: "slider", filterMode: "weakFilter", startValue: 0, endValue: opening, bottom: 10, height: 20, showDataShadow: false,
        labelFormatter: seconds, textStyle: {color: ink(), fontSize: 11}}],
    tooltip: {formatter: item => {
      if (item.seriesType !== "custom") return "";
      const row = batches.rows[item.value[3]];
      const parts = PHASES.map((phase, place) => [phase, row[2 + place]]).filter(part => part[1] > 0)
        .map(part => '<span style="display:inline-block;width:9px;height:9px;background:' + colour(part[0]) + '"></span> ' + word(part[0]) + " <b>" + seconds(part[1] / 1e6) + "</b>");
      const waited = row[12] === null ? "" : "<br>waited for " + who(row[12]);
      return who(row[0]) + ", epoch " + row[9] + ", batch " + row[10] + (row[11] > 1 ? " and " + (row[11] - 1) + " more" : "") + "<br>" + parts.join("<br>") + waited;
    }},
    series: [...PHASES.map(phase => ({type: "bar", name: word(phase), data: [], itemStyle: {color: colour(phase)}})),
      {type: "custom", name: "batches", renderItem: render, data: items, encode: {x: [0, 2], y: 1}, clip: true,
        markArea: {silent: true, itemStyle: {color: "#c0392b", opacity: 0.13}, label: {color: ink(), fontSize: 11, position: "top"},
          data: batches.restarts.map(([from, to]) => [{name: "restart", xAxis: from / 1e6}, {xAxis: to / 1e6}])}}]}, height + above);
}

function draw() {
  if (!page) return;
  if (!page.phases) return drawCurves();  // of several runs
  drawCauses(); drawPhases(); drawCurves(); drawHeat(); drawBatches();
}
function take(content) { page = content; draw(); }

function press(per) {
  curvesPer = per;
  document.querySelectorAll("[data-per]").forEach(button => button.setAttribute("aria-pressed", String(button.dataset.per === per)));
}

document.documentElement.classList.add("scripted");
document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".numbers").forEach(table => { table.open = false; });
  for (const button of document.querySelectorAll("[data-per]")) {
    button.addEventListener("click", () => { press(button.dataset.per); drawCurves(); });
  }
  DARK.addEventListener("change", draw);
  let waiting = 0;
  window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(draw, 120); });
  // a sheet is narrower than the window: 660 pixels fit on A4 and Letter
  window.addEventListener("beforeprint", () => {
    document.documentElement.classList.toggle("dark", DARK.matches);  // paper is white: its charts are inverted
    charts.forEach(chart => {
      if (chart.getDom().clientWidth <= 660) return;
      chart.resize({width: 660});
      chart.getZr().flush();  // drawn now, not with the next picture of the screen
      const place = chart.getDom();
      if (place.querySelectorAll("canvas").length < 2) return;
      // of canvases that are drawn while a page is printed the upper ones cover those below them on paper
      const whole = chart.renderToCanvas({pixelRatio: 2});
      whole.className = "printed";
      place.append(whole);
    });
  });
  window.addEventListener("afterprint", () => {
    document.querySelectorAll(".printed").forEach(canvas => canvas.remove());
    charts.forEach(chart => chart.resize({width: "auto"}));
  });
  const data = document.getElementById("data");
  if (data) {
    const content = JSON.parse(data.textContent);
    if (content && content.curves.epoch.every(line => line.points.length < 2)) press(document.querySelectorAll("[data-per]")[1].dataset.per);
    take(content);
  }
});
