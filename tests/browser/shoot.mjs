// node shoot.mjs PAGE.html|URL FOLDER NAME [dark] [plain] [begin] [SELECTOR ..]: opens it in Chromium at 1280 and at 400 pixels; prints as JSON
// what it found. Of each selector it makes a picture NAME-<number>.png, at 1280 pixels; of several sections of a page, as in
// "#result,#curves", one with these alone below its head.
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";
import {join} from "node:path";
import {mkdtempSync, rmSync} from "node:fs";
import {tmpdir} from "node:os";

const require = createRequire(join(process.env.PLAYWRIGHT ?? process.cwd(), "package.json"));
const {chromium} = require("playwright-core");
const [page, folder, name, ...more] = process.argv.slice(2);
const address = page.startsWith("http") ? page : pathToFileURL(page).href;
const isPlain = more.includes("plain");  // without scripts
const isBegin = more.includes("begin");  // a live page of a job that has not trained a batch yet
const profile = mkdtempSync(join(tmpdir(), "page-"));
const patience = 100_000;  // ms; the machine may have much else to do
const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const browser = await chromium.launchPersistentContext(profile, {executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  headless: true, args: flags, timeout: patience, viewport: {width: 1280, height: 900}, colorScheme: more.includes("dark") ? "dark" : "light", javaScriptEnabled: !isPlain});
browser.setDefaultTimeout(patience);
const found = {errors: [], requests: [], widths: {}, charts: {}, texts: {}};
const tab = await browser.newPage();
tab.on("console", message => { if (["error", "warning"].includes(message.type())) found.errors.push(message.text()); });
tab.on("pageerror", error => found.errors.push(String(error)));
tab.on("request", request => found.requests.push(request.url()));
// texts of charts that are cut, or that lie on each other
function spoiltTexts() {
  const found = [];
  for (const place of document.querySelectorAll(".chart")) {
    const chart = window.echarts && place.offsetParent ? echarts.getInstanceByDom(place) : null;
    if (!chart) continue;
    const texts = chart.getZr().storage.getDisplayList(true).filter(one => one.type === "tspan" && one.style.text && !one.invisible && !one.ignore).map(one => {
      const box = one.getBoundingRect().clone();
      if (one.transform) box.applyTransform(one.transform);
      return {text: one.style.text, box: box};
    });
    for (const [number, one] of texts.entries()) {
      if (/(\.\.\.|\u2026)$/.test(one.text)) found.push(place.id + ": cut: " + one.text);
      if (one.box.x < -1 || one.box.x + one.box.width > place.clientWidth + 1) found.push(place.id + ": out of the chart: " + one.text);
      for (const other of texts.slice(number + 1)) {
        const wide = Math.min(one.box.x + one.box.width, other.box.x + other.box.width) - Math.max(one.box.x, other.box.x);
        const high = Math.min(one.box.y + one.box.height, other.box.y + other.box.height) - Math.max(one.box.y, other.box.y);
        if (wide > 2 && high > 5) found.push(place.id + ": on each other: " + one.text + " | " + other.text);
      }
    }
  }
  return found;
}
// texts whose contrast to what is behind them is below that of WCAG AA: 3 for large ones, 4.5 for all others
function paleTexts() {
  const parts = colour => (colour.match(/[\d.]+/g) ?? []).map(Number), found = new Map();
  const over = (front, back) => [0, 1, 2].map(part => front[part] * (front[3] ?? 1) + back[part] * (1 - (front[3] ?? 1)));
  const light = colour => colour.map(value => value / 255).map(value => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
    .reduce((sum, value, part) => sum + value * [0.2126, 0.7152, 0.0722][part], 0);
  const behind = place => {
    if (!place) return [255, 255, 255];
    const style = getComputedStyle(place), ground = style.backgroundColor;
    if (style.backgroundImage.includes("url(")) return null;
    if (!ground.startsWith("rgb")) return behind(place.parentElement);
    const colour = parts(ground);
    if ((colour[3] ?? 1) >= 1) return colour;
    const below = behind(place.parentElement);
    return below && over(colour, below);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const place = text.parentElement, range = document.createRange();
    range.selectNodeContents(text);
    if (!text.data.trim() || place.closest("script, style, noscript, template") || range.getBoundingClientRect().width < 2
        || !place.checkVisibility({visibilityProperty: true, opacityProperty: true})) continue;
    const style = getComputedStyle(place), ground = behind(place), colour = place instanceof SVGElement ? style.fill : style.color;
    if (!ground || !colour.startsWith("rgb")) continue;
    const [one, other] = [light(over(parts(colour), ground)), light(ground.slice(0, 3))].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const contrast = (one + 0.05) / (other + 0.05);
    if (contrast < (large ? 3 : 4.5)) found.set(place.tagName + "." + place.className + " " + colour, contrast.toFixed(2) + ": " + text.data.trim().slice(0, 40));
  }
  return [...found].map(([place, text]) => "pale, " + place + " " + text);
}
await tab.goto(address, {waitUntil: "load"});
// a live page has what there is to see with the states that follow
const isLive = page.startsWith("http");
const drawn = () => tab.waitForFunction(selector => document.querySelector(selector), isBegin ? "#settings:not([hidden]) td" : "#now:not([hidden]) canvas");
if (isLive && !isPlain) {
  await drawn();
  await tab.reload({waitUntil: "load"});  // the token is no more in the address, and still known
  if (tab.url().includes("token")) found.errors.push("the token is in the address bar: " + tab.url());
  await drawn();
}
for (const width of [1280, 400]) {
  await tab.setViewportSize({width, height: 900});
  await tab.waitForTimeout(500);
  found.widths[width] = await tab.evaluate(() => document.documentElement.scrollWidth);
  found.texts[width] = [...await tab.evaluate(spoiltTexts), ...await tab.evaluate(paleTexts)];
  await tab.screenshot({path: join(folder, `${name}-${width}.png`), fullPage: true});
}
// a sheet of A4 with the margins of a browser
if (!isPlain && !isLive) {
  await tab.emulateMedia({media: "print"});
  await tab.setViewportSize({width: 718, height: 900});
  await tab.waitForTimeout(500);
  found.widths[718] = await tab.evaluate(() => document.documentElement.scrollWidth);
  found.texts[718] = await tab.evaluate(paleTexts);
  await tab.emulateMedia({media: null});  // "screen" would hold for the PDF, too
}
const wanted = more.filter(word => !["dark", "plain", "begin"].includes(word));
if (wanted.length) await tab.setViewportSize({width: 1280, height: 900});
for (const [number, selector] of wanted.entries()) {
  const sections = selector.includes(",#"), path = join(folder, `${name}-${number + 1}.png`);
  if (sections) await tab.addStyleTag({content: `section:not(${selector}), nav { display: none; }`});
  await tab.waitForTimeout(500);
  await tab.locator(sections ? "body" : selector).first().screenshot({path});
}
if (isPlain) found.tables = await tab.locator("table:visible").count();
else found.charts = await tab.evaluate(isLive => Object.fromEntries([...document.querySelectorAll(".chart")].filter(place => !isLive || place.offsetParent).map(place => {
  const chart = echarts.getInstanceByDom(place);
  const points = chart ? chart.getOption().series.reduce((sum, one) => sum + (one.data ?? []).length, 0) : 0;
  return [place.id, points];
})), isLive);
if (!isPlain && await tab.locator('[data-per="step"]').first().isVisible()) {
  await tab.setViewportSize({width: 1280, height: 900});
  await tab.click('[data-per="step"]');
  await tab.waitForTimeout(300);
  await tab.pdf({path: join(folder, `${name}.pdf`), format: "A4"});
  // charts of several layers, which are drawn anew for paper, have one picture each there, and none afterwards
  await tab.setViewportSize({width: 800, height: 900});
  await tab.waitForTimeout(300);
  const layers = await tab.evaluate(() => {
    const count = () => document.querySelectorAll(".printed").length;
    const several = [...document.querySelectorAll(".chart")].filter(one => one.clientWidth > 660 && one.querySelectorAll("canvas").length > 1).length;
    window.dispatchEvent(new Event("beforeprint"));
    const printed = count();
    window.dispatchEvent(new Event("afterprint"));
    return {several: several, printed: printed, after: count()};
  });
  if (layers.several !== layers.printed || layers.after) found.errors.push("printed charts: " + JSON.stringify(layers));
}
await browser.close();
rmSync(profile, {recursive: true, force: true});
console.log(JSON.stringify(found));
