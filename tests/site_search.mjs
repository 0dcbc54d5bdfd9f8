// Ask the search of the built site: node site_search.mjs SITE < '["question", ...]'. It runs the site's own search worker, as a
// browser does, on the site's index, and prints for each question the places found, best first.
import { readFileSync, readdirSync } from "node:fs";
import { runInThisContext } from "node:vm";

const site = process.argv[2];
const workers = `${site}/assets/javascripts/workers`;
const source = readFileSync(`${workers}/${readdirSync(workers).find((name) => /^search\..*\.js$/.test(name))}`, "utf8");

let receive, answered;
globalThis.self = globalThis;
globalThis.addEventListener = (_, handler) => (receive = handler);
globalThis.postMessage = (message) => answered(message);
runInThisContext(source);
const ask = (message) => new Promise((resolve) => ((answered = resolve), receive({ data: message })));

// the numbers of messages: 0 sets up, 2 asks
const index = JSON.parse(readFileSync(`${site}/search/search_index.json`, "utf8"));
await ask({ type: 0, data: { ...index, options: { suggest: false } } });
const found = {};
for (const question of JSON.parse(readFileSync(0, "utf8"))) {
  const { data } = await ask({ type: 2, data: question });
  found[question] = data.items.map((page) => [...page].sort((a, b) => b.score - a.score)[0].location);
}
console.log(JSON.stringify(found));
