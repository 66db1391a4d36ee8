// The live page of the service: what neuroshard.render (page.js) draws, with lists of plans,
// a form to plan, what-if, re-plans, sweeps and the progress of jobs around it.
//
// One route of the address's hash is one view; a view builds its part of the page out of
// elements and text alone, never out of markup, and stops when another view begins:
//
//   #/                      models, their newest plans, and the form to plan
//   #/models/NAME           the history of a model
//   #/plans/ID?devices=16   a plan, with what-if
//   #/plans/ID/with/ID      two plans side by side
//   #/plans/ID/replan       a new plan from an old one, with the curve of moved bytes
//   #/plans/ID/sweep        the plans of many clusters
//   #/jobs, #/jobs/ID       the jobs of the service, and the result of one
"use strict";

(() => {
  // ---- Elements ----

  /**
   * Makes an element. Attributes beginning with "on" are listeners; null and false are left out.
   * Children are elements or text.
   * @param {string} tag
   * @param {Object<string, any>} [attributes]
   * @param {...any} children
   * @returns {HTMLElement}
   */
  function h(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (name === "class") element.className = value;
      else if (name === "value") element.value = value;
      else element.setAttribute(name, value === true ? "" : String(value));
    }
    add(element, children);
    return element;
  }

  function add(element, children) {
    for (const child of children.flat(Infinity)) {
      if (child === null || child === undefined || child === false) continue;
      element.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
    return element;
  }

  function put(element, ...children) {
    element.replaceChildren();
    return add(element, children);
  }

  let ids = 0;
  const nextID = (prefix) => `live-${prefix}-${++ids}`;

  // ---- Numbers ----

  const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
  const threeDigits = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });

  const known = (x) => typeof x === "number" && Number.isFinite(x);
  const ms = (x) => (known(x) ? `${threeDigits.format(x)} ms` : "unknown");

  function bytes(x) {
    if (!known(x)) return "unknown";
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let i = 0;
    while (Math.abs(x) >= 1024 && i < units.length - 1) [x, i] = [x / 1024, i + 1];
    return `${i === 0 ? whole.format(x) : threeDigits.format(x)} ${units[i]}`;
  }

  /** Returns the change from one cost to another as text: "-46.2 %". */
  function change(from, to) {
    if (!known(from) || !known(to) || from <= 0) return "";
    const share = (100 * (to - from)) / from;
    if (Math.abs(share) < 0.05) return "no change";
    return `${share > 0 ? "+" : "\u2212"}${Math.abs(share).toFixed(1)} %`;
  }

  const plural = (n, one, many) => `${whole.format(n)} ${n === 1 ? one : many || one + "s"}`;

  function when(text) {
    const time = new Date(text);
    if (Number.isNaN(time.getTime())) return h("span", {}, text || "");
    const shown = time.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
    return h("time", { datetime: time.toISOString(), title: time.toISOString() }, shown);
  }

  // ---- The service ----

  /** A refusal of the service: what is wrong, where, and what to do about it. */
  class Refusal extends Error {
    constructor(status, body, retryAfter) {
      super(body.detail || body.title || `the service answered with status ${status}`);
      this.status = status;
      this.retryAfter = retryAfter;
      this.hint = body.hint || "";
      this.faults = (Array.isArray(body.errors) ? body.errors : []).filter((e) => e && e.message);
    }
  }

  const tokenKey = "neuroshard-token";
  let token = read(tokenKey, () => sessionStorage);

  /** Returns the stored value of a key, or "" if the browser allows no storage. */
  function read(key, storage) {
    try {
      return storage().getItem(key) || "";
    } catch {
      return "";
    }
  }

  function keep(key, value) {
    try {
      if (value) sessionStorage.setItem(key, value);
      else sessionStorage.removeItem(key);
    } catch {
      // Without storage, the value holds until the page is closed.
    }
  }

  function headers(more) {
    const all = { Accept: "application/json", ...more };
    if (token) all.Authorization = `Bearer ${token}`;
    return all;
  }

  function sleep(milliseconds, signal) {
    return new Promise((resolve, reject) => {
      if (signal && signal.aborted) return reject(signal.reason);
      const stop = () => {
        clearTimeout(timer);
        reject(signal.reason);
      };
      const timer = setTimeout(() => {
        if (signal) signal.removeEventListener("abort", stop);
        resolve();
      }, milliseconds);
      if (signal) signal.addEventListener("abort", stop, { once: true });
    });
  }

  /**
   * Sends a request, and returns the response if it is one of success. Asks for the token if
   * the service demands one, and comes back later if the service is busy.
   */
  async function send(method, path, { body, signal, header } = {}) {
    const more = { ...header };
    if (body !== undefined) more["Content-Type"] = "application/json";
    for (let tries = 0; ; tries++) {
      let response;
      try {
        response = await fetch(path, {
          method,
          signal,
          headers: headers(more),
          body: body === undefined ? undefined : encoded(body),
          credentials: "omit",
          redirect: "error",
        });
      } catch (e) {
        if (signal && signal.aborted) throw e;
        throw new Refusal(0, { detail: "The service does not answer.", hint: "Is neuroshard serve still running? Try again." });
      }
      if (response.ok) return response;
      const told = await response.json().catch(() => ({}));
      if (response.status === 401) {
        await askToken(signal, tries > 0 || token !== "");
        continue;
      }
      const wait = Number(response.headers.get("Retry-After")) || 1;
      if ((response.status === 429 || response.status === 503) && tries < 5 && wait <= 10) {
        say(`The service is busy. Trying again in ${plural(wait, "second")}.`);
        await sleep(1000 * wait, signal);
        continue;
      }
      throw new Refusal(response.status, told, wait);
    }
  }

  /** A text of JSON that a request has as it is, so that lines in faults are lines of the text. */
  class Written {
    constructor(text) {
      this.text = text;
    }

    toJSON() {
      return Written.mark;
    }

    static mark = "\u0000written\u0000";
  }

  /** Returns the body of a request as JSON. */
  function encoded(body) {
    const written = body.problem && body.problem.tables;
    const text = JSON.stringify(body);
    return written instanceof Written ? text.replace(JSON.stringify(Written.mark), () => written.text) : text;
  }

  const get = async (path, signal) => (await send("GET", path, { signal })).json();
  const post = async (path, body, signal) => (await send("POST", path, { body, signal })).json();

  let asking = null;

  /** Asks the reader for the token; several requests at once ask once. */
  function askToken(signal, wrong) {
    asking ||= new Promise((resolve, reject) => {
      const input = h("input", { type: "password", autocomplete: "off", id: nextID("token"), required: true });
      const dialog = h("dialog", { class: "live-dialog", "aria-label": "Token" });
      const form = h(
        "form",
        {
          method: "dialog",
          onsubmit: (event) => {
            event.preventDefault();
            token = input.value.trim();
            keep(tokenKey, token);
            finish(true);
          },
        },
        h("h2", {}, "This service asks for a token"),
        wrong ? h("p", { class: "live-error" }, "The service did not accept the token.") : null,
        h("label", { for: input.id }, "Token"),
        input,
        h("p", { class: "live-hint" }, "The token is the text in the file of neuroshard serve --token-file. This tab keeps it until the tab is closed."),
        h("div", { class: "live-actions" }, h("button", { type: "submit", class: "live-main" }, "Continue"), h("button", { type: "button", onclick: () => finish(false) }, "Cancel")),
      );
      const finish = (given) => {
        dialog.close();
        dialog.remove();
        asking = null;
        if (given) resolve();
        else reject(new Refusal(401, { detail: "The service asks for a token.", hint: "Reload the page to enter it." }));
      };
      dialog.append(form);
      dialog.addEventListener("cancel", (event) => {
        event.preventDefault(); // the Escape key
        finish(false);
      });
      document.body.append(dialog);
      dialog.showModal();
    });
    return asking;
  }

  /**
   * Follows the events of a job, with fetch, because an EventSource sends no token. Calls
   * onprogress with each progress, and returns the data of the last event. Connects again with
   * Last-Event-ID if the connection breaks.
   */
  async function follow(id, onprogress, signal) {
    let last = "";
    for (let failures = 0; ; ) {
      try {
        const header = { Accept: "text/event-stream" };
        if (last) header["Last-Event-ID"] = last;
        const response = await send("GET", `/v1/jobs/${id}/events`, { signal, header });
        for await (const event of events(response.body)) {
          failures = 0;
          if (event.id) last = event.id;
          if (event.name === "progress") onprogress(event.data);
          else if (event.name !== "message") return event;
        }
      } catch (e) {
        if ((signal && signal.aborted) || (e instanceof Refusal && e.status !== 0)) throw e;
        if (++failures > 5) throw e;
      }
      await sleep(500, signal);
    }
  }

  /** Yields the events of a stream: {name, data, id}. */
  async function* events(stream) {
    const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let event = { name: "message", data: "", id: "" };
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        const lines = (rest + value).split(/\r?\n/);
        rest = lines.pop();
        for (const line of lines) {
          if (line === "") {
            if (event.data) yield { ...event, data: parsed(event.data) };
            event = { name: "message", data: "", id: event.id };
            continue;
          }
          const colon = line.indexOf(":");
          const name = colon < 0 ? line : line.slice(0, colon);
          const text = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
          if (name === "event") event.name = text;
          if (name === "data") event.data += (event.data && "\n") + text;
          if (name === "id") event.id = text;
        }
      }
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  function parsed(text) {
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  }

  // ---- The frame ----

  const status = h("p", { class: "live-unseen", role: "status" });
  const page = document.getElementById("page");
  const version = h("span", { class: "live-version" });

  /** Says something to a screen reader. */
  function say(text) {
    status.textContent = text;
  }

  function frame() {
    document.body.classList.add("live");
    const link = (href, text) => h("a", { href, "data-route": href }, text);
    const skip = h("a", { class: "live-skip", href: "#page" }, "Skip to the content");
    const nav = h("nav", { "aria-label": "Pages" }, link("#/", "Plans"), link("#/new", "New plan"), link("#/jobs", "Jobs"));
    page.before(skip, h("div", { class: "live-head", role: "region", "aria-label": "Service" }, h("a", { class: "live-brand", href: "#/" }, "neuroshard"), nav, version), status);
    page.replaceChildren();
    // The theme that the reader chose on a plan's page (page.js) holds on all pages.
    const theme = read("neuroshard-theme", () => localStorage);
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    document.addEventListener("click", jump);
  }

  /** Links to parts of a page scroll there; the address stays that of the view. */
  function jump(event) {
    const link = event.target.closest("a[href^='#']");
    const href = link ? link.getAttribute("href") : "#/";
    if (href.startsWith("#/")) return;
    event.preventDefault();
    const target = href === "#page" ? page.querySelector("main") : document.getElementById(href.slice(1));
    if (!target) return;
    target.scrollIntoView();
    const heading = target.matches("main") ? target : target.querySelector("h2, h3") || target;
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  }

  /** Shows a view of elements of its own. */
  function screen(...children) {
    const main = h("main", { class: "live-view", tabindex: "-1" });
    add(main, children);
    put(page, main);
    return main;
  }

  // One element has the pages of all plans, so that what the reader chose there stays.
  const report = h("div", { class: "live-page" });
  const before = h("div", { class: "live-before" });

  /** Shows a view that draws a document, with elements above what is drawn. */
  function drawn(pageDocument, ...above) {
    put(before, above);
    if (report.parentNode !== page) put(page, report);
    draw(pageDocument);
    document.title = `${pageDocument.title || "Plan"} - neuroshard`;
  }

  /** Draws a document in place of the one that is drawn. The page keeps its height meanwhile, so that nothing jumps. */
  function draw(pageDocument) {
    report.style.minHeight = `${report.offsetHeight}px`;
    globalThis.neuroshard.render(pageDocument, report, { before });
    report.style.minHeight = "";
  }

  /** Returns a title, which gets the focus after a change of the view. */
  function title(text, ...more) {
    document.title = `${text} - neuroshard`;
    return h("div", { class: "live-title" }, h("h1", { tabindex: "-1" }, text), more);
  }

  /** Returns what is wrong as an element; what to do about it follows each fault. */
  function refusal(error) {
    const fault = (message, hint, where) =>
      h("li", {}, where ? h("code", {}, where) : null, where ? " " : null, message, hint ? h("span", { class: "live-hint" }, hint) : null);
    const faults = error instanceof Refusal && error.faults.length > 0 ? error.faults : null;
    const box = h("div", { class: "live-refusal", role: "alert", tabindex: "-1" });
    if (faults) {
      add(box, [h("strong", {}, plural(faults.length, "fault")), h("ul", {}, faults.map((f) => fault(f.message, f.hint, place(f))))]);
    } else {
      add(box, [h("ul", {}, fault(error.message || String(error), error.hint))]);
    }
    return box;
  }

  /** Returns where a fault is, in words that the request's author knows. */
  const place = (fault) => String(fault.location || "").replace(/^body\.?/, "").replace(/^problem\.?/, "");

  // ---- Fields ----

  /**
   * A field of a form: its row, and what it holds.
   * @typedef {{name: string, row: HTMLElement, input: HTMLElement, value: function(): any,
   *   fault: function(string, string=): void}} Field
   */

  function row(name, label, input, { hint, after } = {}) {
    const error = h("p", { class: "live-error", id: nextID("error") });
    const help = hint ? h("p", { class: "live-hint", id: nextID("hint") }, hint) : null;
    input.id ||= nextID(name);
    const described = [help && help.id, error.id].filter(Boolean).join(" ");
    input.setAttribute("aria-describedby", described);
    const element = h("div", { class: "live-field" }, h("label", { for: input.id }, label), h("div", { class: "live-input" }, input, after), help, error);
    const fault = (message, todo) => {
      put(error, message, message && todo ? h("span", { class: "live-hint" }, todo) : null);
      if (message) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    };
    input.addEventListener("input", () => fault(""));
    return { name, label, row: element, input, fault, value: () => input.value.trim() };
  }

  /** A whole number; with scale, buttons halve and double it. */
  function number(name, label, value, { hint, min = 1, max, placeholder, scale } = {}) {
    const input = h("input", { type: "number", inputmode: "numeric", name, min, max, step: 1, placeholder, value: value ?? "" });
    const times = (factor) => () => {
      const to = Math.max(min, Math.round(Number(input.value || placeholder || min) * factor));
      input.value = String(max ? Math.min(max, to) : to);
      input.dispatchEvent(new Event("input", { bubbles: true }));
      input.dispatchEvent(new Event("change", { bubbles: true }));
    };
    const after = scale && [
      h("button", { type: "button", class: "live-step", onclick: times(0.5) }, "\u00f72", h("span", { class: "live-unseen" }, ` halves: ${label}`)),
      h("button", { type: "button", class: "live-step", onclick: times(2) }, "\u00d72", h("span", { class: "live-unseen" }, ` doubles: ${label}`)),
    ];
    const field = row(name, label, input, { hint, after });
    field.value = () => (input.value.trim() === "" ? undefined : Number(input.value));
    return field;
  }

  function text(name, label, value, { hint, placeholder } = {}) {
    const field = row(name, label, h("input", { type: "text", name, placeholder, value: value ?? "", autocomplete: "off", spellcheck: "false" }), { hint });
    field.value = () => field.input.value.trim() || undefined;
    return field;
  }

  /** Whole numbers, separated by commas. */
  function numberList(name, label, value, more) {
    const field = text(name, label, value, more);
    const written = field.value;
    field.value = () => {
      if (written() === undefined) return undefined;
      const values = written().split(/[\s,]+/).filter(Boolean).map(Number);
      if (!values.every((v) => Number.isInteger(v) && v >= 0)) throw faultAt(name, `"${written()}" is no list of whole numbers.`, "Write 4, 8, 16.");
      return values;
    };
    return field;
  }

  /** One of several choices: [value, text] each. */
  function choice(name, label, value, choices, { hint } = {}) {
    const options = choices.map(([v, t]) => h("option", { value: v, selected: v === value }, t));
    if (value && !choices.some(([v]) => v === value)) options.push(h("option", { value, selected: true }, value));
    const field = row(name, label, h("select", { name }, options), { hint });
    field.value = () => field.input.value || undefined;
    return field;
  }

  /** Boxes to check, as one field whose value is the list of what is checked. */
  function boxes(name, label, values, choices, { hint } = {}) {
    const error = h("p", { class: "live-error" });
    const inputs = choices.map(([v, t]) => {
      const input = h("input", { type: "checkbox", name, value: v, checked: values.includes(v), id: nextID(name) });
      return [input, h("span", { class: "live-box" }, input, h("label", { for: input.id }, t))];
    });
    const set = h("fieldset", { class: "live-field live-boxes" }, h("legend", {}, label), h("div", {}, inputs.map(([, span]) => span)), hint ? h("p", { class: "live-hint" }, hint) : null, error);
    const fault = (message, todo) => put(error, message, message && todo ? h("span", { class: "live-hint" }, todo) : null);
    set.addEventListener("input", () => fault(""));
    return { name, label, row: set, input: inputs[0][0], fault, value: () => inputs.filter(([i]) => i.checked).map(([i]) => i.value) };
  }

  /**
   * Shows a refusal beside the fields that it concerns, and the rest of it in the box.
   * @param {Field[]} fields
   */
  function refuse(error, fields, box) {
    for (const field of fields) field.fault("");
    const rest = [];
    const faulty = new Set(); // the first fault of a field stands beside it, and its others in the box
    let first = null;
    error.message = inLabels(error.message || String(error), fields);
    error.hint = inLabels(error.hint, fields);
    for (const fault of error instanceof Refusal ? error.faults : []) {
      const field = concerned(fault, fields);
      fault.message = inLabels(fault.message, fields);
      fault.hint = inLabels(fault.hint, fields);
      if (!field || faulty.has(field)) {
        rest.push(fault);
        continue;
      }
      faulty.add(field);
      field.fault(fault.message, fault.hint);
      first ||= field;
    }
    put(box);
    if (rest.length > 0 || !first) {
      const left = error;
      if (first) left.faults = rest;
      box.append(refusal(left));
    }
    const target = first ? first.input : box.firstChild;
    const folded = target.closest("details");
    if (folded) folded.open = true;
    target.focus();
  }

  /** Returns a text of the service with the labels of fields in place of the names in requests. */
  function inLabels(words, fields) {
    return String(words || "").replace(/(?:problem\.)?(?:overrides|options|axes)\.([a-z_]+)/g, (name, last) => {
      const field = fields.find((f) => f.name === last);
      return field && field.label ? `"${field.label}"` : name;
    });
  }

  /** Returns the field that a fault is about: by its place, or else by the first field that its words name. */
  function concerned(fault, fields) {
    const parts = String(fault.location || "").split(/[.[\]]+/).reverse();
    for (const part of parts) {
      const field = fields.find((f) => f.name === part || (f.names || []).includes(part));
      if (field) return field;
    }
    const named = /(?:overrides|options|axes)\.([a-z_]+)/.exec(`${fault.message} ${fault.hint || ""}`) || /^([a-z_ ]+): /.exec(fault.message);
    return named ? fields.find((f) => f.name === named[1].replaceAll(" ", "_")) : undefined;
  }

  // ---- Jobs ----

  /** What a search does, by the names of its phases. */
  const phases = { start: "first plans", beam: "splitting tables", forms: "choosing sharding types", operators: "grouping tables into operators", anneal: "refining the plan" };

  /** Returns the text of a job's progress, and its share from 0 to 1 or null. */
  function progressOf(data) {
    const p = data.progress || {};
    const share = known(p.share) ? p.share : null;
    const parts = [phases[p.phase] || p.phase || data.state, known(p.done) && known(p.of) ? `${whole.format(p.done)} of ${plural(p.of, "cell")}` : null];
    if (known(p.best_ms)) parts.push(`best ${ms(p.best_ms)}`);
    if (known(p.evaluations)) parts.push(plural(p.evaluations, "evaluation"));
    return [parts.filter(Boolean).join(", "), share];
  }

  /**
   * Starts a job by a request and follows it in a box, with a button to cancel it.
   * Returns what the job results in.
   */
  async function run(path, body, box, what, signal) {
    put(box, h("p", {}, `Sending the request for ${what}.`));
    try {
      const response = await send("POST", path, { body, signal, header: { Prefer: "respond-async" } });
      const told = await response.json();
      if (response.status !== 202) return told;
      await watch(told.id, box, what, signal);
      const found = await get(`/v1/jobs/${told.id}`, signal);
      if (found.result) return { job: told.id, state: found.state, ...found.result };
      if (found.state === "canceled") throw new Refusal(0, { detail: "The job was canceled." });
      throw new Refusal(0, found.error || { detail: "The job has no result." });
    } finally {
      put(box);
    }
  }

  /** Follows a job to its end in a box, with a button to cancel the job. */
  async function watch(id, box, what, signal) {
    const bar = h("progress", { max: 1, "aria-label": `Progress of ${what}` });
    const line = h("p", {}, "Waiting for its turn.");
    const quit = () => {
      cancel.setAttribute("disabled", "");
      send("DELETE", `/v1/jobs/${id}`, {}).catch((e) => put(line, e.message));
    };
    const cancel = h("button", { type: "button", onclick: quit }, "Cancel");
    put(box, h("div", { class: "live-progress", "aria-busy": "true" }, line, bar, cancel));
    say(`${what[0].toUpperCase()}${what.slice(1)} has begun.`);
    let spoken = Date.now();
    const show = (data) => {
      const [words, share] = progressOf(data);
      line.textContent = words || "Working.";
      if (share === null) bar.removeAttribute("value");
      else bar.value = share;
      if (Date.now() - spoken < 5000) return;
      spoken = Date.now();
      say(line.textContent);
    };
    await follow(id, show, signal);
  }

  // ---- What the service knows ----

  /** Answers that do not change while the service runs. */
  const constants = new Map();

  function constant(path, signal) {
    if (!constants.has(path)) {
      const answer = get(path, signal);
      answer.catch(() => constants.delete(path));
      constants.set(path, answer);
    }
    return constants.get(path);
  }

  /** Returns the list in an answer: the answer itself, or its first list. */
  const listOf = (answer) => (Array.isArray(answer) ? answer : Object.values(answer || {}).find(Array.isArray) || []);

  const deviceChoices = async (signal) =>
    listOf(await constant("/v1/devices", signal)).map((d) => {
      const { name, memory_bytes: memory } = d;
      return [name, `${name} (${bytes(memory)})`];
    });

  const engines = [
    ["any", "any engine"],
    ["torchrec", "TorchRec"],
    ["hugectr", "HugeCTR"],
  ];

  const shardingTypes = ["table_wise", "column_wise", "row_wise", "table_row_wise", "grid", "data_parallel"].map((t) => [t, t.replaceAll("_", "-")]);

  // ---- Views: plans and models ----

  /** The first view: models with their newest plans, and the form to plan. */
  async function home(view) {
    const list = h("section", { class: "live-models", "aria-labelledby": "live-models" });
    const form = h("section", { "aria-labelledby": "live-new" }, h("h2", { id: "live-new" }, "New plan"));
    screen(title("Plans"), h("div", { class: "live-columns" }, list, form));
    await Promise.all([models(list, view), planForm(form, view)]);
  }

  async function models(root, view) {
    const names = listOf(await get("/v1/names", view.signal));
    const recent = listOf(await get("/v1/plans?limit=20", view.signal));
    put(root, h("h2", { id: "live-models" }, "Models"));
    if (names.length === 0) {
      root.append(h("p", { class: "live-hint" }, "No model has a plan yet. A plan with a name, from this page or from a training job, is listed here with its history."));
    } else {
      root.append(
        h(
          "ul",
          { class: "live-cards" },
          names.map((n) =>
            h("li", {}, h("a", { href: `#/models/${encodeURIComponent(n.name)}` }, n.name), h("span", {}, plural(n.plans, "plan")), h("span", {}, "newest ", when(n.last.created), `, ${ms(n.last.cost_ms)}`)),
          ),
        ),
      );
    }
    if (recent.length > 0) add(root, [h("h2", {}, "Newest plans"), plansTable(recent)]);
  }

  /** Returns the table of plans. choose, if given, is called with the two plans to compare. */
  function plansTable(entries, choose) {
    const chosen = new Set();
    const button = h("button", { type: "button", disabled: true, onclick: () => choose(...[...chosen].reverse()) }, "Compare two plans");
    const pick = (entry) => (event) => {
      if (event.target.checked) chosen.add(entry.id);
      else chosen.delete(entry.id);
      button.toggleAttribute("disabled", chosen.size !== 2);
    };
    const line = (e) =>
      h(
        "tr",
        {},
        choose ? h("td", {}, h("input", { type: "checkbox", "aria-label": `Compare the plan of ${e.created}`, onchange: pick(e) })) : null,
        h("td", {}, h("a", { href: `#/plans/${e.id}` }, when(e.created))),
        choose ? null : h("td", {}, e.name || ""),
        h("td", {}, cluster(e)),
        h("td", { class: "live-number" }, known(e.cost_ms) ? ms(e.cost_ms) : ""),
        h("td", {}, h("code", {}, e.id.slice(0, 8))),
      );
    const heads = [choose ? "Compare" : null, "Planned", choose ? null : "Model", "Cluster", "Cost", "Plan"].filter(Boolean);
    const table = h(
      "div",
      { class: "live-scroll", tabindex: "0", role: "region", "aria-label": "Plans" },
      h("table", {}, h("thead", {}, h("tr", {}, heads.map((t) => h("th", { scope: "col" }, t)))), h("tbody", {}, entries.map(line))),
    );
    return [choose && entries.length > 1 ? h("div", { class: "live-actions" }, button) : null, table];
  }

  const cluster = (e) => `${plural(e.tables, "table")} on ${plural(e.devices, "device")}`;

  /** The history of one model. */
  async function model(view, name) {
    const path = `/v1/plans?name=${encodeURIComponent(name)}&limit=100`;
    const entries = listOf(await get(path, view.signal));
    const last = entries[0];
    const actions = last && h("p", { class: "live-actions" }, h("a", { class: "live-button", href: `#/plans/${last.id}` }, "Newest plan"), h("a", { class: "live-button", href: `#/plans/${last.id}/replan` }, "Re-plan"));
    const none = h("p", {}, "This model has no plan.");
    const table = h("div");
    const show = () => put(table, plansTable(entries, (a, b) => go(`#/plans/${a}/with/${b}`)));
    show();
    const more = h("button", { type: "button", onclick: () => void older() }, "Older plans");
    const older = async () => {
      const next = listOf(await get(`${path}&before=${entries.at(-1).cursor}`, view.signal));
      entries.push(...next);
      show();
      more.hidden = next.length < 100;
    };
    more.hidden = entries.length < 100;
    screen(title(name), actions, entries.length > 0 ? [table, more] : none);
  }

  // ---- Views: the form to plan ----

  async function create(view) {
    const form = h("section", { class: "live-narrow" });
    screen(title("New plan"), form);
    await planForm(form, view);
  }

  /** The form: tables, cluster, and what few set. */
  async function planForm(root, view) {
    const query = view.query;
    const [workloads, devices] = await Promise.all([constant("/v1/workloads", view.signal), deviceChoices(view.signal)]);
    const source = tablesField(listOf(workloads), query);
    const fields = [
      source,
      text("name", "Name of the model", query.get("name"), { placeholder: "ranking-prod", hint: "Plans of one name are kept as its history." }),
      ...clusterFields(devices, query),
    ];
    const more = [
      text("memory", "Memory of a device", query.get("memory"), { placeholder: "40GiB" }),
      text("host_memory", "Memory of a host for tables", query.get("host_memory"), { placeholder: "none" }),
      text("reserve_share", "Share of the memory to keep free", query.get("reserve_share"), { placeholder: "0.15" }),
      choice("comm_precision", "Number format of exchanges", query.get("comm_precision") || "", [["", "as stated, or fp32"], ["fp32", "fp32"], ["fp16", "fp16"], ["bf16", "bf16"]]),
      number("min_width", "Narrowest slice of columns", query.get("min_width"), { min: 4, placeholder: "4" }),
      boxes("sharding_types", "Sharding types", listed(query.get("sharding_types")), shardingTypes, { hint: "None checked: all types." }),
      number("seed", "Seed", query.get("seed"), { min: 0, placeholder: "0" }),
      number("time_limit_ms", "Most time to search, in ms", query.get("time_limit_ms"), { placeholder: "the service's limit" }),
    ];
    const all = [...fields, ...more];
    const box = h("div");
    const submit = h("button", { type: "submit", class: "live-main" }, "Plan");
    const form = h("form", { novalidate: true, class: "live-form" }, fields.slice(0, 2).map((f) => f.row), h("fieldset", { class: "live-source" }, h("legend", {}, "Cluster"), h("p", { class: "live-hint" }, "Empty fields are as the tables or the known model state them."), h("div", { class: "live-fields" }, fields.slice(2).map((f) => f.row))), h("details", {}, h("summary", {}, "More settings"), h("div", { class: "live-fields" }, more.map((f) => f.row))), box, h("div", { class: "live-actions" }, submit));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      submit.setAttribute("disabled", "");
      try {
        const body = await bodyOf(all);
        for (const field of all) field.fault("");
        const result = await run("/v1/plan", body, box, "the plan", view.signal);
        say("The plan is ready.");
        go(`#/plans/${result.id}`);
      } catch (e) {
        if (!view.signal.aborted) refuse(e, all, box);
      } finally {
        submit.removeAttribute("disabled");
      }
    });
    form.addEventListener("change", () => {
      if (view.path === "new") rememberFields(view, all.filter((f) => f !== source), source.query());
    });
    root.append(form);
  }

  const listed = (text) => (text ? text.split(",") : []);

  /** The fields of a cluster, which are those of what-if. */
  function clusterFields(devices, query) {
    const placeholder = "as stated";
    const any = [["", placeholder]];
    return [
      number("devices", "Devices", query.get("devices"), { placeholder, scale: true, max: 1 << 20 }),
      choice("device", "Kind of GPU", query.get("device") || "", [...any, ...devices]),
      number("devices_per_host", "Devices of a host", query.get("devices_per_host"), { placeholder: "as usual: 8 at most" }),
      number("batch", "Global batch in samples", query.get("batch"), { placeholder, scale: true }),
      choice("for", "Engine", query.get("for") || "", [["", "as stated, or any"], ...engines]),
    ];
  }

  /** The devices that a host of a plan has room for: a host of a few has room for eight. */
  const hostRoom = (of) => (of.devices_per_host < of.devices ? of.devices_per_host : Math.max(8, of.devices_per_host));

  /** The fields of options; all others of a form are overrides. */
  const options = ["sharding_types", "seed", "time_limit_ms", "method", "max_evaluations"];

  /** Returns the request that the fields state. */
  async function bodyOf(fields) {
    const body = { problem: {}, options: {} };
    for (const field of fields) {
      const value = await field.value();
      if (value === undefined || (Array.isArray(value) && value.length === 0)) continue;
      if (field.problem) Object.assign(body.problem, value);
      else if (field.name === "name") body.problem.name = value;
      else if (options.includes(field.name)) body.options[field.name] = value;
      else (body.problem.overrides ||= {})[field.name] = field.name === "reserve_share" ? Number(value) : value;
    }
    return body;
  }

  /** The field of the tables: a workload, or a file that is chosen, dropped or pasted. */
  function tablesField(workloads, query) {
    const describe = (w) => [w.name, [w.name, w.tables ? plural(w.tables, "table") : null].filter(Boolean).join(", ")];
    const known = workloads.map(describe);
    const select = choice("workload", "Workload", query.get("workload") || (known[0] || [""])[0], known, { hint: "Published and drawn models, to try the planner." });
    const paste = h("textarea", { name: "tables", rows: 6, spellcheck: "false", placeholder: '{"format": "neuroshard-tables", ...}  or  name,rows,dim,pooling_factor' });
    const file = h("input", { type: "file", accept: ".json,.csv,.txt,application/json,text/csv", id: nextID("file") });
    const pasted = row("tables", "Tables as JSON or CSV", paste, {
      hint: "Paste the text, or drop a file here: tables of neuroshard, a scenario in TorchRec's words, the prototype's table_configs.json, or CSV with the columns name, rows and dim.",
    });
    const take = async (chosen) => {
      if (!chosen) return;
      if (chosen.size > 100 << 20) return pasted.fault("The file is larger than 100 MiB.", "Plan it with the command neuroshard plan.");
      paste.value = await chosen.text();
      pasted.fault("");
      say(`${chosen.name} is read.`);
      own.checked = true;
      show();
    };
    file.addEventListener("change", () => void take(file.files[0]));
    const drop = h("div", { class: "live-drop" }, pasted.row, h("div", { class: "live-file" }, h("label", { for: file.id }, "Or choose a file"), file));
    const group = nextID("source");
    const published = h("input", { type: "radio", name: group, id: nextID("workload"), checked: true });
    const own = h("input", { type: "radio", name: group, id: nextID("own") });
    const show = () => {
      select.row.hidden = own.checked;
      drop.hidden = !own.checked;
    };
    const element = h(
      "fieldset",
      {
        class: "live-source",
        ondragover: (event) => event.preventDefault(),
        ondrop: (event) => {
          event.preventDefault();
          void take(event.dataTransfer.files[0]);
        },
        onchange: show,
      },
      h("legend", {}, "Tables"),
      h("span", { class: "live-box" }, published, h("label", { for: published.id }, "A known model")),
      h("span", { class: "live-box" }, own, h("label", { for: own.id }, "Your own tables")),
      select.row,
      drop,
    );
    if (query.get("own")) own.checked = true;
    show();
    const present = () => (own.checked ? pasted : select);
    return {
      name: "tables",
      names: ["tables_csv", "workload"],
      problem: true,
      row: element,
      get input() {
        return present().input;
      },
      fault: (message, hint) => {
        pasted.fault("");
        select.fault("");
        present().fault(message, hint);
      },
      query: () => [["workload", own.checked ? undefined : select.value()], ["own", own.checked ? "1" : undefined]],
      value: () => {
        if (!own.checked) return { workload: select.value() };
        const written = paste.value.trim();
        if (!written) throw faultAt("tables", "There are no tables.", "Paste a text, choose a file or drop one.");
        if (!/^[[{]/.test(written)) return { tables_csv: paste.value };
        try {
          JSON.parse(written);
          return { tables: new Written(written) };
        } catch (e) {
          throw faultAt("tables", `The text is no JSON: ${e.message}`, "Check the text, or paste CSV.");
        }
      },
    };
  }

  function faultAt(location, message, hint) {
    return new Refusal(422, { detail: message, errors: [{ location, message, hint }] });
  }

  // ---- Views: a plan ----

  /** Returns the links to what can be done with a plan. */
  function tabs(id, present) {
    const links = [
      ["", "Plan and what-if"],
      ["/replan", "Re-plan"],
      ["/sweep", "Sweep"],
    ];
    return h(
      "nav",
      { class: "live-tabs", "aria-label": "This plan" },
      links.map(([path, text]) => h("a", { href: `#/plans/${id}${path}`, "aria-current": path === present ? "page" : null }, text)),
      h("button", { type: "button", onclick: () => void save(`/v1/plans/${id}`, `plan-${id.slice(0, 8)}.json`) }, "Download plan.json"),
    );
  }

  /** Saves an answer of the service as a file. A link would send no token. */
  async function save(path, name) {
    try {
      const content = await (await send("GET", path)).blob();
      const url = URL.createObjectURL(content);
      h("a", { href: url, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10000);
    } catch (e) {
      before.prepend(refusal(e));
    }
  }

  async function plan(view, id) {
    const stored = await storedPlan(view, id);
    drawn(stored.page, tabs(id, ""), whatIf(view, stored));
  }

  /** Returns a stored plan: its page, its problem, and the kinds of GPU for fields. */
  async function storedPlan(view, id) {
    const [pageDocument, problem, devices] = await Promise.all([
      get(`/v1/plans/${id}/page`, view.signal),
      get(`/v1/plans/${id}/problem`, view.signal),
      deviceChoices(view.signal),
    ]);
    return { id, page: pageDocument, problem, devices };
  }

  /** What a change of the cluster would bring: the changed plan takes the place of the plan. */
  function whatIf(view, { id, page: original, problem, devices }) {
    const of = original.plans[0].cluster;
    const stored = {
      devices: of.devices,
      device: of.profile,
      devices_per_host: of.devices_per_host,
      batch: of.batch,
      for: of.for || of.engine || "any",
    };
    const query = view.query;
    const start = (name) => query.get(name) || stored[name];
    const fields = [
      number("devices", "Devices", start("devices"), { scale: true, max: 1 << 20 }),
      choice("device", "Kind of GPU", start("device"), devices),
      number("devices_per_host", "Devices of a host", start("devices_per_host"), { placeholder: "all" }),
      number("batch", "Global batch in samples", start("batch"), { scale: true }),
      choice("for", "Engine", start("for"), engines),
    ];
    const outcome = h("div", { class: "live-outcome" });
    const box = h("div");
    // A press of the mouse leaves the focus where it is: if a field lost it, its change would be planned for, and
    // the button would move away under the mouse before the click.
    const still = (event) => event.preventDefault();
    const reset = h("button", { type: "button", hidden: true, onmousedown: still, onclick: () => restore() }, "Back to the stored plan");
    const restore = () => {
      for (const f of fields) f.input.value = stored[f.name] ?? "";
      ownHosts = false;
      update(0);
      fields[0].input.focus();
    };
    let work = null;
    let timer = 0;

    /** Returns the fields that differ from the stored plan's. */
    const changes = () => {
      const changed = {};
      for (const f of fields) {
        const value = f.value();
        if (value !== undefined && String(value) !== String(stored[f.name] ?? "")) changed[f.name] = value;
      }
      return changed;
    };

    // What is shown, or is on its way: the same again asks for nothing.
    let present = JSON.stringify({});
    const update = (delay) => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        const changed = changes();
        if (JSON.stringify(changed) === present) return;
        present = JSON.stringify(changed);
        if (work) work.abort();
        void show(changed);
      }, delay);
    };

    const show = async (changed) => {
      remember(view, changed);
      const none = Object.keys(changed).length === 0;
      reset.hidden = none;
      for (const f of fields) f.fault("");
      put(box);
      work = new AbortController();
      const signal = AbortSignal.any([view.signal, work.signal]);
      if (none) {
        report.removeAttribute("aria-busy");
        put(outcome);
        draw(original);
        return;
      }
      const began = performance.now();
      report.setAttribute("aria-busy", "true");
      const waits = h("p", {}, "Planning\u2026");
      put(outcome, waits);
      const clock = setInterval(() => {
        waits.textContent = `Planning for ${plural(Math.round((performance.now() - began) / 1000), "second")}. Another change starts again.`;
      }, 1000);
      signal.addEventListener("abort", () => clearInterval(clock));
      try {
        const all = { devices: fields[0].value(), devices_per_host: fields[2].value(), ...changed };
        const found = await tried(id, problem, all, signal);
        clearInterval(clock);
        draw(found.page);
        put(outcome, told(original, found, id));
        performance.measure("what-if", { start: began });
        say(outcome.textContent);
      } catch (e) {
        if (signal.aborted) return;
        clearInterval(clock);
        present = "";
        put(outcome);
        refuse(e, fields, box);
      }
      report.removeAttribute("aria-busy");
    };

    // More devices than one host holds are more hosts of the same size.
    const hostField = fields[2];
    let ownHosts = query.has("devices_per_host");
    hostField.input.addEventListener("input", () => (ownHosts = true));
    const fillHosts = () => {
      const devices = fields[0].value();
      if (ownHosts || !devices) return;
      hostField.input.value = String(devices === stored.devices ? stored.devices_per_host : Math.min(devices, hostRoom(stored)));
    };
    fields[0].input.addEventListener("input", fillHosts);
    fillHosts(); // of an address that states devices alone
    for (const f of fields) {
      // Typing ends after a pause; a choice, a button or the Enter key end it at once.
      f.input.addEventListener("input", () => update(250));
      f.input.addEventListener("change", () => update(0));
    }
    view.signal.addEventListener("abort", () => {
      clearTimeout(timer);
      report.removeAttribute("aria-busy");
    });
    const form = h(
      "form",
      { class: "live-whatif", "aria-label": "What if", novalidate: true, onsubmit: (event) => (event.preventDefault(), update(0)) },
      h("h2", {}, "What if"),
      h("div", { class: "live-fields" }, fields.map((f) => f.row)),
      h("div", { class: "live-result" }, outcome, reset),
      box,
    );
    if (Object.keys(changes()).length > 0) update(0);
    return form;
  }

  /** The what-if plans of this page, by request: asked once. */
  const tries = new Map();
  const mostTries = 40;

  /** Returns {plan, page, moved} of a stored problem with changes of its cluster. */
  async function tried(id, problem, changed, signal) {
    const body = changedBy(problem, changed);
    body.options.baselines = false; // a trial is compared with the stored plan alone
    const key = `${id} ${JSON.stringify(changed)}`;
    const known = tries.get(key);
    if (known) return known;
    const planned = await post("/v1/plan", body, signal);
    const [pageDocument, moved] = await Promise.all([
      get(`/v1/plans/${planned.id}/page`, signal),
      post("/v1/diff", { before: id, after: planned.id }, signal).catch((e) => {
        if (signal.aborted) throw e;
        return null;
      }),
    ]);
    const found = { plan: planned, page: pageDocument, moved };
    tries.set(key, found);
    if (tries.size > mostTries) tries.delete(tries.keys().next().value);
    return found;
  }

  /**
   * Returns the request for the problem of a stored plan with other fields of its cluster. It has
   * no name: a trial is no part of the model's history.
   */
  function changedBy(stored, changed) {
    const { name, options, ...problem } = stored;
    const overrides = { ...problem.overrides, ...changed };
    // More devices of hosts of the same size are more hosts.
    if (overrides.devices_per_host > overrides.devices) overrides.devices_per_host = overrides.devices;
    return { problem: { ...problem, overrides }, options: { ...options } };
  }

  /** Returns the problem of a stored plan without its cluster, which the request states or the old plan has. */
  function withoutCluster({ name, options, topology, overrides, ...problem }) {
    const { devices, device, devices_per_host, batch, ...rest } = overrides || {};
    return { ...problem, overrides: rest };
  }

  /** Returns the outcome of a trial: old and new cost, and what moves. */
  function told(original, found, id) {
    const old = original.plans[0].costs.predicted_ms;
    const now = found.page.plans[0].costs.predicted_ms;
    const shift = change(old, now);
    return [
      h("p", { class: "live-costs" }, h("span", {}, ms(old)), h("span", { "aria-hidden": "true" }, " \u2192 "), h("span", { class: "live-unseen" }, " becomes "), h("strong", {}, ms(now)), shift ? h("span", { class: shift === "no change" ? null : now < old ? "live-better" : "live-worse" }, ` ${shift}`) : null),
      h("p", {}, moves(found.moved)),
      h("p", { class: "live-actions" }, h("a", { class: "live-button", href: `#/plans/${found.plan.id}` }, "Open this plan"), h("a", { class: "live-button", href: `#/plans/${id}/with/${found.plan.id}` }, "Side by side")),
    ];
  }

  function moves(diff) {
    if (!diff) return "";
    const { moved_bytes: moved, changed_tables: changed } = diff;
    const parts = [`${plural(changed, "table")} ${changed === 1 ? "changes" : "change"}`];
    if (known(moved)) parts.unshift(moved === 0 ? "Nothing moves" : `${bytes(moved)} move`);
    return `${parts.join(", ")}.`;
  }

  /** Two plans side by side. */
  async function compare(view, first, second) {
    const pair = await get(`/v1/plans/${first}/page?with=${second}`, view.signal);
    const link = (href, words) => h("a", { class: "live-button", href }, words);
    drawn(pair, h("p", { class: "live-actions" }, link(`#/plans/${first}`, "First plan"), link(`#/plans/${second}`, "Second plan"), link(`#/plans/${second}/with/${first}`, "The other way round")));
  }

  // ---- Views: re-plans and sweeps ----

  /** Returns the options of a stored plan that a re-plan takes, too. */
  function optionsOf({ options = {} }) {
    const { seed, sharding_types, risk_penalty } = options;
    return JSON.parse(JSON.stringify({ seed, sharding_types, risk_penalty }));
  }

  /** Returns the name of the model of a page; a plan without a name is called by its id there. */
  const nameOf = (pageDocument) => (/^plan [0-9a-f]{8}$/.test(pageDocument.title) ? "" : pageDocument.title);

  async function replan(view, id) {
    const { page: original, problem, devices } = await storedPlan(view, id);
    const of = original.plans[0].cluster;
    const query = view.query;
    const source = tablesField(listOf(await constant("/v1/workloads", view.signal)), query);
    const same = h("input", { type: "checkbox", id: nextID("same"), checked: !query.get("own") });
    source.row.hidden = same.checked;
    same.addEventListener("change", () => (source.row.hidden = same.checked));
    const old = "as in the old plan";
    const fields = [
      number("devices", "Devices", query.get("devices"), { placeholder: String(of.devices), scale: true }),
      choice("device", "Kind of GPU", query.get("device") || "", [["", old], ...devices]),
      number("devices_per_host", "Devices of a host", query.get("devices_per_host"), { placeholder: String(of.devices_per_host) }),
      number("batch", "Global batch in samples", query.get("batch"), { placeholder: String(of.batch), scale: true }),
    ];
    const budget = [
      numberList("lost_devices", "Lost devices", query.get("lost_devices"), { placeholder: "none", hint: "Numbers of devices that failed, such as 3, 4. The other devices must hold all tables." }),
      text("max_bytes", "Most bytes to move", query.get("max_bytes"), { placeholder: "5% or 12GB", hint: "In addition to the bytes that must move. Empty: no limit." }),
      number("horizon", "Steps still to train", query.get("horizon"), { placeholder: "no limit", hint: "A move that pays back later is not taken." }),
    ];
    const name = text("name", "Name of the model", query.get("name") ?? nameOf(original), { hint: "The new plan becomes part of its history. Empty: of none." });
    const all = [source, ...fields, ...budget, name];
    const box = h("div");
    const submit = h("button", { type: "submit", class: "live-main" }, "Re-plan");
    const form = h(
      "form",
      { novalidate: true, class: "live-form live-narrow" },
      h("p", {}, "Finds plans that move few bytes from this one, and draws their cost against the bytes that move."),
      h("span", { class: "live-box" }, same, h("label", { for: same.id }, "The tables of the plan")),
      source.row,
      h("div", { class: "live-fields" }, fields.map((f) => f.row)),
      h("div", { class: "live-fields" }, [...budget, name].map((f) => f.row)),
      box,
      h("div", { class: "live-actions" }, submit),
    );
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      submit.setAttribute("disabled", "");
      try {
        const stated = await bodyOf(same.checked ? fields : [source, ...fields]);
        const body = { problem: stated.problem, old: id, options: optionsOf(problem) };
        if (same.checked) {
          const own = withoutCluster(problem);
          body.problem = { ...own, overrides: { ...own.overrides, ...stated.problem.overrides } };
        }
        if (name.value()) body.problem.name = name.value();
        for (const f of budget) if (f.value() !== undefined) body.options[f.name] = f.value();
        for (const f of all) f.fault("");
        const result = await run("/v1/replan", body, box, "the re-plan", view.signal);
        await showResult(result, view.signal, tabs(id, "/replan"), form);
      } catch (e) {
        if (!view.signal.aborted) refuse(e, all, box);
      } finally {
        submit.removeAttribute("disabled");
      }
    });
    form.addEventListener("change", () => rememberFields(view, [...fields, ...budget, name]));
    screen(title(`Re-plan: ${original.title || "plan"}`), tabs(id, "/replan"), form);
  }

  /** Draws the page of a job's result below the form, which is folded. */
  async function showResult(result, signal, links = null, form = null) {
    const pageDocument = await get(`/v1/jobs/${result.job}/page`, signal);
    const link = (href, words) => h("a", { class: "live-button", href }, words);
    const actions = h("p", { class: "live-actions" }, result.id ? link(`#/plans/${result.id}`, "Open the new plan") : null, form ? link(`#/jobs/${result.job}`, "Link to this result") : null);
    const cut = result.state === "canceled" ? h("p", { class: "live-error" }, "The job was canceled. The page shows what the job had found by then.") : null;
    drawn(pageDocument, links, cut, form ? h("details", {}, h("summary", {}, "Change the request"), form) : null, actions);
    arrive();
    say("The result is ready.");
  }

  async function sweep(view, id) {
    const { page: original, problem, devices } = await storedPlan(view, id);
    const of = original.plans[0].cluster;
    const query = view.query;
    const around = [...new Set([of.devices / 2, of.devices, of.devices * 2, of.devices * 4])].filter((n) => n >= 1).map(Math.floor);
    const kinds = boxes("device", "Kinds of GPU", query.get("device") ? listed(query.get("device")) : [of.profile], devices);
    const batches = choice("scaling", "Batch", query.get("scaling") || "batch", [
      ["batch", "the same for all: strong scaling"],
      ["batch_per_device", "grows with the devices: weak scaling"],
    ]);
    const axes = [
      numberList("devices", "Numbers of devices", query.get("devices") || around.join(", "), { hint: "Separated by commas." }),
      numberList("devices_per_host", "Devices of a host", query.get("devices_per_host") || String(of.devices ? hostRoom(of) : ""), {}),
      kinds,
    ];
    const price = text("price", "Price of one device for an hour, in dollars", query.get("price"), { placeholder: "2.95" });
    const all = [...axes, batches, price];
    const box = h("div");
    const submit = h("button", { type: "submit", class: "live-main" }, "Sweep");
    const form = h(
      "form",
      { novalidate: true, class: "live-form live-narrow" },
      h("p", {}, "Plans the tables of this plan for many clusters, and compares the plans in a table and a plot."),
      all.map((f) => f.row),
      box,
      h("div", { class: "live-actions" }, submit),
    );
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      submit.setAttribute("disabled", "");
      try {
        const { sharding_types: types, risk_penalty: penalty, ...searches } = optionsOf(problem);
        const body = { problem: withoutCluster(problem), axes: {}, options: searches };
        if (types) body.axes.sharding_types = [types.includes("all") ? "all" : types.join("+")];
        for (const axis of axes) {
          const values = axis.value();
          if (values && values.length > 0) body.axes[axis.name] = values;
        }
        if (batches.value() === "batch") body.axes.batch = [of.batch];
        else body.axes.batch_per_device = [Math.max(1, Math.round(of.batch / of.devices))];
        if (price.value()) body.price = Number(price.value());
        for (const f of all) f.fault("");
        const result = await run("/v1/sweep", body, box, "the sweep", view.signal);
        await showResult(result, view.signal, tabs(id, "/sweep"), form);
      } catch (e) {
        if (!view.signal.aborted) refuse(e, all, box);
      } finally {
        submit.removeAttribute("disabled");
      }
    });
    form.addEventListener("change", () => rememberFields(view, all));
    screen(title(`Sweep: ${original.title || "plan"}`), tabs(id, "/sweep"), form);
  }

  // ---- Views: jobs ----

  async function jobs(view) {
    const table = h("div", { class: "live-scroll", tabindex: "0", role: "region", "aria-label": "Jobs" });
    screen(title("Jobs"), h("p", { class: "live-hint" }, "Plans, re-plans and sweeps that run or ended a short while ago. The list is renewed every two seconds."), table);
    const renew = async () => {
      // Jobs also make the data of pages. The list leaves these jobs out once they have ended.
      const all = listOf(await get("/v1/jobs", view.signal)).filter((j) => j.what !== "page" || !ended(j));
      const focused = document.activeElement?.dataset?.job;
      put(table, all.length > 0 ? jobTable(all, view) : h("p", {}, "There are no jobs."));
      if (focused) table.querySelector(`[data-job="${CSS.escape(focused)}"]`)?.focus();
    };
    const renewAll = async () => {
      for (;;) {
        await sleep(2000, view.signal);
        await renew();
      }
    };
    await renew();
    renewAll().catch((e) => view.signal.aborted || put(table, refusal(e)));
  }

  const ended = (j) => ["done", "failed", "canceled"].includes(j.state);

  /** Shows the result of a job, or follows the job to its end. */
  async function job(view, id) {
    let found = await get(`/v1/jobs/${id}`, view.signal);
    if (!ended(found)) {
      const box = h("div", { class: "live-narrow" });
      screen(title(`Job: ${found.what}`), box);
      await watch(id, box, found.what, view.signal);
      found = await get(`/v1/jobs/${id}`, view.signal);
    }
    if (!found.result) throw new Refusal(0, found.error || { detail: `The job is ${found.state} and has no result.` });
    if (found.what === "plan") return location.replace(`#/plans/${found.result.id}`);
    await showResult({ job: id, state: found.state, ...found.result }, view.signal);
  }

  function jobTable(all, view) {
    const line = (j) => {
      const [words, share] = progressOf(j);
      const cancel = async (event) => {
        event.target.setAttribute("disabled", "");
        await send("DELETE", `/v1/jobs/${j.id}`, { signal: view.signal }).catch((e) => event.target.replaceWith(refusal(e)));
      };
      return h(
        "tr",
        {},
        h("td", {}, when(j.created)),
        h("td", {}, j.what),
        h("td", {}, j.state),
        h("td", {}, ended(j) ? "" : [h("progress", { max: 1, value: share === null ? null : share, "aria-label": "Progress" }), " ", words]),
        h("td", {}, ended(j) ? (j.state === "failed" ? "" : h("a", { href: `#/jobs/${j.id}`, "aria-label": `Result of the job of ${j.created}` }, "Result")) : h("button", { type: "button", "data-job": j.id, "aria-label": `Cancel the job of ${j.created}`, onclick: cancel }, "Cancel")),
      );
    };
    const heads = ["Created", "Work", "State", "Progress", "Action"];
    return h("table", {}, h("thead", {}, h("tr", {}, heads.map((t) => h("th", { scope: "col" }, t)))), h("tbody", {}, all.map(line)));
  }

  // ---- Routes ----

  const routes = [
    [/^$/, home],
    [/^new$/, create],
    [/^jobs$/, jobs],
    [/^jobs\/([0-9a-f]{32})$/, job],
    [/^models\/([^/]+)$/, model],
    [/^plans\/([0-9a-f]{32})$/, plan],
    [/^plans\/([0-9a-f]{32})\/with\/([0-9a-f]{32})$/, compare],
    [/^plans\/([0-9a-f]{32})\/replan$/, replan],
    [/^plans\/([0-9a-f]{32})\/sweep$/, sweep],
  ];

  /** The present view: its path, its query, and the signal that ends with it. */
  let present = null;

  const go = (hash) => {
    location.hash = hash;
  };

  /** Puts what the fields hold into the address, for others to share, without a new view. */
  function rememberFields(view, fields, more = []) {
    const stated = [...more];
    for (const field of fields) {
      try {
        stated.push([field.name, field.value()]);
      } catch {
        // A fault that the service or the form reports when the form is sent.
      }
    }
    remember(view, Object.fromEntries(stated));
  }

  function remember(view, fields) {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(fields)) {
      if (value !== undefined && value !== "" && !(Array.isArray(value) && value.length === 0)) query.set(name, String(value));
    }
    const text = query.toString().replaceAll("%2C", ",");
    history.replaceState(null, "", `#/${view.path}${text ? `?${text}` : ""}`);
  }

  async function show() {
    const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
    if (present) present.stop.abort();
    const stop = new AbortController();
    const view = { path, query: new URLSearchParams(query || ""), stop, signal: stop.signal };
    const first = present === null;
    present = view;
    for (const link of document.querySelectorAll("[data-route]")) {
      if (link.dataset.route === `#/${path}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    page.setAttribute("aria-busy", "true");
    try {
      const [draws, args] = route(path);
      await draws(view, ...args);
      if (!first && !stop.signal.aborted) arrive();
    } catch (e) {
      if (stop.signal.aborted) return;
      screen(title("This did not work"), refusal(e), h("p", {}, h("a", { href: "#/" }, "All plans")));
      arrive();
    } finally {
      if (present === view) page.removeAttribute("aria-busy");
    }
  }

  function route(path) {
    for (const [pattern, draws] of routes) {
      const match = pattern.exec(path);
      if (match) return [draws, match.slice(1).map(decodeURIComponent)];
    }
    throw new Refusal(404, { detail: `The page has no view #/${path}.` });
  }

  /** Puts the focus on the title of a view, so that a screen reader begins there. */
  function arrive() {
    page.querySelector("h1")?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }

  frame();
  addEventListener("hashchange", () => void show());
  void show();
  get("/v1/version").then(
    (v) => put(version, v.version),
    () => {},
  );
})();
