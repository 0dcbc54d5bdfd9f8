"use strict";
let source = null, isOver = false, hasState = false;
function put(id, text) { document.getElementById(id).textContent = text; }
function showIf(id, is) { document.getElementById(id).hidden = !is; }

function fill(id, rows) {
  showIf(id, rows.length);
  const table = document.querySelector("#" + id + " table");
  table.replaceChildren();
  if (!rows.length) return;
  const names = Object.keys(rows[0]).filter(name => rows.some(row => row[name])), head = table.createTHead().insertRow(), body = table.createTBody();
  for (const name of names) {
    const cell = document.createElement("th");
    Object.assign(cell, {scope: "col", textContent: name});
    head.append(cell);
  }
  for (const row of rows) {
    const line = body.insertRow();
    for (const name of names) line.insertCell().textContent = row[name];
  }
}

function tell(state) {
  const title = state.title || (state.job ? "Job " + state.job : "No job yet"), runs = state.state === "running";
  put("title", title);
  put("state", state.state);
  document.getElementById("state").className = "state " + state.state;
  document.title = (state.done && runs ? Math.floor(100 * state.done) + " % " : "") + title + " - Parallel-SGD";
  put("message", state.message);
  showIf("message", state.message);
  put("note", state.note);
  showIf("note", state.note);
  const curves = state.page.curves.epoch.filter(line => line.mean && line.metric === "Loss");
  const losses = curves.map(line => line.label + " " + line.points[line.points.length - 1][1].toPrecision(4));
  const parts = state.job ? ["job " + state.job] : [runs ? "It starts." : "No job runs yet; the page shows one as soon as it does."];
  if (state.job && state.passed !== null) parts.push((runs ? "runs for " : "took ") + time(state.passed));
  const again = Math.max(1, ...state.tables.nodes.map(row => Number(row.attempt))) - 1;
  if (again) parts.push("started again " + (again > 1 ? again + " times" : "once") + " (see the log)");
  if (state.job && runs && !state.done && !state.page.batches.rows.length) parts.push("waiting for the first batch");
  if (state.done && runs) parts.push(Math.floor(100 * state.done) + " % done");
  if (state.left !== null && runs) parts.push("about " + time(state.left) + " left");
  if (losses.length) parts.push("loss: " + losses.join(", "));
  put("told", parts.join(" \u00b7 "));
  document.getElementById("done").value = state.state === "done" ? 1 : state.done;
}
function time(value) {
  const whole = Math.round(value), minutes = Math.floor(whole / 60);
  return whole < 60 ? whole + " s" : minutes < 60 ? minutes + " min " + whole % 60 + " s" : Math.floor(minutes / 60) + " h " + minutes % 60 + " min";
}

function shown(event) {
  hasState = true;
  const state = JSON.parse(event.data), log = document.getElementById("log");
  if (state.problem) {
    put("message", "The state of the job cannot be shown: " + state.problem);
    showIf("message", true);
    return;
  }
  tell(state);
  for (const id of ["nodes", "agents", "jobs"]) fill(id, state.tables[id]);
  fill("settings", state.about.settings || []);
  showIf("about", state.about.model);
  put("model", state.about.model || "");
  const follows = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
  showIf("said", state.log.length);
  log.textContent = state.log.join("\n");
  if (follows) log.scrollTop = log.scrollHeight;
  const box = document.getElementById("curve-box"), data = state.page;
  showIf("curves", data.curves.names.length);
  showIf("now", data.batches.rows.length);
  showIf("time", data.phases.workers.length);
  put("recent", "Of the last " + data.recent + " batches of each worker, which took " + seconds(data.seconds) + ".");
  for (const id of ["causes", "waits"]) document.getElementById(id).parentElement.hidden = !(id === "causes" ? data.causes : data.waits.cells).length;
  for (const [number, name] of data.curves.titles.entries()) {
    if (document.getElementById("curve-" + number)) continue;
    const figure = document.createElement("figure"), title = document.createElement("h3"), place = document.createElement("div");
    title.textContent = name;
    Object.assign(place, {id: "curve-" + number, className: "chart", role: "img", ariaLabel: name});
    figure.append(title, place);
    box.append(figure);
  }
  curvesPer = data.curves.epoch.some(line => line.points.length > 1) ? "epoch" : "step";
  take(data);
}
const NO_TOKEN = "This page needs the token: open the whole address that was printed.";
// The token stands behind the # of the address that was printed, which no request tells. It moves into the memory of this tab:
// neither the address bar nor a copied address has it, and the page can be reloaded.
function tokenOf() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  try {
    if (!given) return sessionStorage.getItem("token");
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname);
  } catch { /* a browser that keeps nothing: it stays in the address */ }
  return given;
}
function lost() {
  const isRefused = !source || source.readyState === EventSource.CLOSED;
  const gone = hasState ? ": what you see is the last state." : ".";
  put("message", isRefused && !hasState ? NO_TOKEN : "The page is not served any more" + gone);
  showIf("message", true);
  if (isRefused) put("state", "not connected");
}
// a tab that nobody looks at asks for a state now and then, for its title, and for the last one
function follow() {
  if (isOver) return;
  if (source) source.close();
  const token = tokenOf();
  if (!token) return lost();
  source = new EventSource("events?token=" + encodeURIComponent(token) + (document.hidden ? "&hidden=1" : ""));
  source.onmessage = shown;
  source.onerror = lost;
  source.addEventListener("end", () => { isOver = true; source.close(); });
}
document.addEventListener("visibilitychange", follow);
window.addEventListener("hashchange", () => { isOver = hasState = false; follow(); });  // the address of another page, in the same tab
follow();
