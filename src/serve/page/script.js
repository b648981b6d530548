// The page of `nerzoo serve`. Texts and labels are inserted as text nodes only, never as markup.
"use strict";

const EXAMPLES = [
  ["University", "Marta Keller, dean of the University of Lindholm, visited the Bank of Brakel in March."],
  ["Proteins", "IL-2 gene expression and NF-kappa B activation through CD28 requires reactive oxygen production by 5-lipoxygenase."],
  ["News", "The mayor of New York City met researchers of the University of California in Los Angeles on Monday."],
];
const COLOURS = 10; // colours of the style sheet
const DEEPEST = 8; // most elements inside one another
const MOST_ROWS = 1000; // rows of the table
const LINES = 64; // lines of a file in one request
const CHARACTERS = 60000;
const AT_ONCE = 2; // requests of a file at the same time

const at = (id) => document.getElementById(id);
const state = { models: [], token: "", answer: null, model: null, run: 0, upload: null, address: null };

/** An element with a class and children; strings become text. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function report(message, isBad = false) {
  at("status").textContent = message;
  at("status").classList.toggle("bad", isBad);
}

/** Sends a request; fails with the message of the service. */
async function send(path, options = {}) {
  const headers = { ...options.headers };
  if (state.token) headers.Authorization = `Bearer ${state.token}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Error("The service does not answer.");
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  const problem = new Error(body.error || `The service answered ${response.status}.`);
  problem.status = response.status;
  problem.seconds = Number(response.headers.get("Retry-After")) || 1;
  if (response.status === 401) {
    at("access").hidden = false;
    at("token").focus();
  }
  throw problem;
}

const post = (body) => ({ method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

async function loadModels() {
  const answer = await (await send("/v1/models")).json();
  state.models = answer.models;
  at("model").replaceChildren(...answer.models.map((model) => element("option", { value: model.name }, model.name)));
  at("access").hidden = true;
  describeModel();
}

function chosenModel() {
  return state.models.find((model) => model.name === at("model").value);
}

function describeModel() {
  const model = chosenModel();
  if (!model) return;
  const kind = model.nested ? "nested" : "flat";
  const scores = model.calibrated ? "scores are probabilities" : "scores are not calibrated";
  at("about").textContent = `${model.name} finds ${kind} entities of ${model.labels.length} types: ${model.labels.join(", ")}; ${scores}.`;
}

function colour(label) {
  const model = state.models.find((one) => one.name === state.model);
  return Math.max(0, model ? model.labels.indexOf(label) : 0) % COLOURS;
}

/** Half a surrogate pair is not a character; it cannot be sent. */
function wellFormed(text) {
  return text.toWellFormed ? text.toWellFormed() : text.replace(/\p{Surrogate}/gu, "\ufffd");
}

async function run() {
  const text = wellFormed(at("text").value);
  const model = at("model").value;
  if (!text.trim()) {
    at("result").hidden = true;
    report("Write or paste a text first.");
    return;
  }
  const number = ++state.run;
  at("run").disabled = true;
  report("Finding entities…");
  try {
    const start = performance.now();
    const answer = await (await send("/v1/tag", post({ texts: [text], model }))).json();
    if (number !== state.run) return;
    state.answer = answer.results[0];
    state.model = answer.model;
    show();
    report(`${count(shown().length, "entity", "entities")} in ${Math.round(performance.now() - start)} ms.`);
  } catch (problem) {
    if (number === state.run) report(problem.message, true);
  } finally {
    if (number === state.run) at("run").disabled = false;
  }
}

const count = (number, one, many) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
const threshold = () => Number(at("threshold").value);
const shown = () => state.answer.entities.filter((entity) => (entity.score ?? 0) >= threshold());
const score = (entity) => (entity.score === undefined ? "" : entity.score.toFixed(4));

/** Draws the text and the table. */
function show() {
  const entities = shown();
  const { fragments, hidden } = cut(entities);
  const characters = Array.from(state.answer.text);
  const drawing = element("p", { class: `drawing deep-${depth(fragments)}`, dir: "auto" });
  drawing.append(...drawRange(characters, entities, 0, characters.length, fragments));
  at("drawing").replaceChildren(drawing);
  const first = drawing.querySelector(".entity");
  if (first) first.tabIndex = 0;
  at("rows").replaceChildren(...entities.slice(0, MOST_ROWS).map(row));
  const remarks = [];
  if (!entities.length) remarks.push("No entities at this score.");
  if (hidden) remarks.push(`Not drawn, because they overlap too many others: ${hidden}.`);
  if (entities.length > MOST_ROWS) remarks.push(`The table has the first ${MOST_ROWS} of ${entities.length}; the JSON has all.`);
  at("remark").textContent = remarks.join(" ");
  at("remark").hidden = !remarks.length;
  at("result").hidden = false;
}

function row(entity) {
  const chip = element("span", { class: `chip colour-${colour(entity.label)}` }, element("bdi", {}, entity.label));
  return element(
    "tr", {},
    element("td", { dir: "auto" }, entity.text), element("td", {}, chip),
    element("td", { class: "number" }, String(entity.start)), element("td", { class: "number" }, String(entity.end)),
    element("td", { class: "number" }, score(entity)),
  );
}

/** Cuts entities into fragments that nest, sorted by start, outer before inner: one that crosses another is cut where the
 *  other ends. */
function cut(entities) {
  const isBefore = (a, b) => a.start - b.start || b.end - a.end || a.entity - b.entity;
  const sorted = entities.map(({ start, end }, entity) => ({ start, end, entity })).sort(isBefore);
  const rests = []; // the second parts of those that were cut, sorted
  const open = [];
  const fragments = [];
  let hidden = 0;
  let next = 0;
  while (next < sorted.length || rests.length) {
    const takesRest = rests.length && (next >= sorted.length || isBefore(rests[0], sorted[next]) < 0);
    const { start, end, entity } = takesRest ? rests.shift() : sorted[next++];
    while (open.length && open[open.length - 1] <= start) open.pop();
    if (open.length >= DEEPEST || end <= start) {
      hidden += 1;
      continue;
    }
    const outer = open.length ? open[open.length - 1] : Infinity;
    const isLast = end <= outer;
    if (!isLast) {
      const rest = { start: outer, end, entity };
      const index = rests.findIndex((other) => isBefore(rest, other) < 0);
      rests.splice(index < 0 ? rests.length : index, 0, rest);
    }
    const fragment = { start, end: Math.min(end, outer), entity, isLast };
    open.push(fragment.end);
    fragments.push(fragment);
  }
  return { fragments, hidden };
}

function depth(fragments) {
  const open = [];
  let deepest = 0;
  for (const { start, end } of fragments) {
    while (open.length && open[open.length - 1] <= start) open.pop();
    deepest = Math.max(deepest, open.push(end));
  }
  return deepest;
}

function drawRange(characters, entities, start, end, fragments) {
  const nodes = [];
  let next = start;
  for (let index = 0; index < fragments.length; ) {
    const first = fragments[index];
    let after = index + 1;
    while (after < fragments.length && fragments[after].start < first.end) after += 1;
    nodes.push(characters.slice(next, first.start).join(""));
    nodes.push(drawFragment(characters, entities, first, fragments.slice(index + 1, after)));
    next = first.end;
    index = after;
  }
  nodes.push(characters.slice(next, end).join(""));
  return nodes;
}

function drawFragment(characters, entities, fragment, inner) {
  const entity = entities[fragment.entity];
  const info = `${entity.label} · characters ${entity.start} to ${entity.end}` + (score(entity) && ` · score ${score(entity)}`);
  const drawn = element("span", {
    class: `entity colour-${colour(entity.label)} inside-${depth(inner)}`,
    tabindex: "-1", "data-info": info, "aria-description": info,
  });
  drawn.append(...drawRange(characters, entities, fragment.start, fragment.end, inner));
  drawn.append(element("span", { class: "chip" }, fragment.isLast ? element("bdi", {}, entity.label) : "…"));
  return drawn;
}

/** The arrow keys go from one entity to the next. */
function move(event) {
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  const step = steps[event.key];
  if (!step || !event.target.classList.contains("entity")) return;
  const all = Array.from(at("drawing").querySelectorAll(".entity"));
  const next = all[all.indexOf(event.target) + step];
  if (!next) return;
  event.preventDefault();
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

async function copy(kind) {
  try {
    let text;
    if (kind === "json") {
      text = JSON.stringify({ ...state.answer, entities: shown() }, null, 2);
    } else {
      const request = { texts: [state.answer.text], model: state.model, threshold: threshold(), format: kind };
      text = await (await send("/v1/tag", post(request))).text();
    }
    await toClipboard(text);
    report(`Copied as ${{ json: "JSON", conll: "CoNLL", brat: "BRAT" }[kind]}.`);
  } catch (problem) {
    report(problem.message, true);
  }
}

async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return;
  } catch {
    // Not allowed, or an address without https: the older way.
  }
  const area = element("textarea", { class: "hidden", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  if (!isDone) throw new Error("The browser does not allow copying.");
}

/** The lines of a file in parts, each with the number of its first line. */
function parts(lines) {
  const all = [];
  let characters = Infinity;
  lines.forEach((line, index) => {
    if (characters + line.length > CHARACTERS || all[all.length - 1].lines.length >= LINES) {
      all.push({ first: index, lines: [] });
      characters = 0;
    }
    all[all.length - 1].lines.push(line);
    characters += line.length;
  });
  return all;
}

async function tagFile(file) {
  const upload = new AbortController();
  state.upload?.abort();
  state.upload = upload;
  if (state.address) URL.revokeObjectURL(state.address);
  at("download").hidden = true;
  at("cancel").hidden = false;
  at("work").hidden = false;
  const isJson = /\.(jsonl|ndjson)$/i.test(file.name);
  try {
    const content = (await file.text()).replace(/^\ufeff/, "").replace(/\r?\n$/, "");
    const lines = content ? content.split(/\r?\n/) : [];
    const all = parts(lines);
    const model = encodeURIComponent(at("model").value);
    const address = `/v1/tag?model=${model}&threshold=${threshold()}`;
    const results = new Array(all.length);
    let done = 0;
    progress(0, lines.length);
    const work = async (queue) => {
      for (let index = queue.next(); index !== null; index = queue.next()) {
        results[index] = await tagPart(address, all[index], isJson, upload.signal);
        done += all[index].lines.length;
        progress(done, lines.length);
      }
    };
    let next = 0;
    const queue = { next: () => (next < all.length ? next++ : null) };
    await Promise.all(Array.from({ length: AT_ONCE }, () => work(queue)));
    state.address = URL.createObjectURL(new Blob(results, { type: "application/x-ndjson" }));
    const link = at("download");
    link.href = state.address;
    link.download = file.name.replace(/\.[^.]*$/, "") + ".entities.jsonl";
    link.textContent = `Download ${link.download}`;
    link.hidden = false;
    report(`${count(lines.length, "line", "lines")} of ${file.name} done.`);
  } catch (problem) {
    upload.abort();
    const isCancelled = problem.name === "AbortError";
    if (state.upload === upload) report(isCancelled ? "Cancelled." : problem.message, !isCancelled);
    at("work").hidden = state.upload === upload;
  } finally {
    if (state.upload === upload) at("cancel").hidden = true;
  }
}

/** Tags a part of a file; waits and tries again when the service is busy. */
async function tagPart(address, part, isJson, signal) {
  const lines = isJson ? part.lines : part.lines.map((line) => JSON.stringify({ text: line }));
  const headers = { "Content-Type": "application/x-ndjson" };
  for (;;) {
    try {
      const body = wellFormed(lines.join("\n") + "\n");
      const response = await send(address, { method: "POST", headers, body, signal });
      const text = await response.text();
      // Lines are counted from the start of the file.
      return text.replace(/^\{"line":(\d+),/gm, (_, number) => `{"line":${Number(number) + part.first},`);
    } catch (problem) {
      if (problem.status !== 429) throw problem;
      await new Promise((resolve) => setTimeout(resolve, problem.seconds * 1000));
    }
  }
}

function progress(done, all) {
  at("progress").max = Math.max(all, 1);
  at("progress").value = done;
  at("progress-text").textContent = `${done.toLocaleString("en")} of ${count(all, "line", "lines")}`;
}

function start() {
  for (const [name, text] of EXAMPLES) {
    const button = element("button", { type: "button", class: "small" }, name);
    button.addEventListener("click", () => {
      at("text").value = text;
      run();
    });
    at("examples").append(button);
  }
  at("form").addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  at("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
  });
  at("model").addEventListener("change", () => {
    describeModel();
    if (at("text").value.trim()) run();
  });
  at("threshold").addEventListener("input", () => {
    at("threshold-value").textContent = threshold().toFixed(2);
    if (!state.answer) return;
    show();
    report(`${count(shown().length, "entity", "entities")} with a score of at least ${threshold().toFixed(2)}.`);
  });
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", () => copy(button.dataset.copy));
  }
  at("drawing").addEventListener("keydown", move);
  at("file").addEventListener("change", () => at("file").files[0] && tagFile(at("file").files[0]));
  at("cancel").addEventListener("click", () => state.upload?.abort());
  at("access").addEventListener("submit", (event) => {
    event.preventDefault();
    state.token = at("token").value.trim();
    at("token").value = "";
    loadModels().then(() => report(""), (problem) => report(problem.message, true));
  });
  loadModels().catch((problem) => report(problem.message, true));
}

start();
