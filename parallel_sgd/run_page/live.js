"use strict";
const source = new EventSource("events" + window.location.search);
function put(id, text) { document.getElementById(id).textContent = text; }
source.onmessage = event => {
  const state = JSON.parse(event.data), log = document.getElementById("log");
  put("title", state.title || "A run");
  put("state", state.state);
  document.getElementById("state").className = "state " + state.state;
  document.title = (state.done ? Math.floor(100 * state.done) + " % " : "") + (state.title || "A run") + " - Parallel-SGD";
  const curves = state.page.curves.epoch.filter(line => line.mean && line.metric === "Loss");
  const losses = curves.map(line => line.label + " " + line.points[line.points.length - 1][1].toPrecision(4));
  const parts = [state.job ? "job " + state.job : "It has not begun.", "for " + seconds(state.passed)];
  if (state.left !== null && state.state === "running") parts.push("about " + seconds(state.left) + " left");
  if (losses.length) parts.push("Loss: " + losses.join(", "));
  put("told", parts.join(" \u00b7 "));
  document.getElementById("done").value = state.done;
  const follows = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
  log.textContent = state.log.join("\n");
  if (follows) log.scrollTop = log.scrollHeight;
  const box = document.getElementById("curve-box");
  for (const [number, name] of state.page.curves.names.entries()) {
    if (document.getElementById("curve-" + number)) continue;
    const figure = document.createElement("figure"), title = document.createElement("h3"), place = document.createElement("div");
    title.textContent = name;
    Object.assign(place, {id: "curve-" + number, className: "chart", role: "img", ariaLabel: name});
    figure.append(title, place);
    box.append(figure);
  }
  curvesPer = state.page.curves.epoch.some(line => line.points.length > 1) ? "epoch" : "step";
  take(state.page);
};
source.addEventListener("end", () => source.close());
