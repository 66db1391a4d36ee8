/**
 * The page of the service: what neuroshard.render (page.js) draws, with lists of plans, a form to plan,
 * what-if, re-plans, sweeps and the progress of jobs around it. One route of the address's hash is one
 * view, which stops when another view begins:
 *
 *   #/                      models and their newest plans
 *   #/new                   the form to plan
 *   #/models/NAME           the history of a model
 *   #/plans/ID?devices=16   a plan, with what-if
 *   #/plans/ID/with/ID      two plans side by side
 *   #/plans/ID/replan       a new plan from an old one, with the curve of moved bytes
 *   #/plans/ID/sweep        the plans of many clusters
 *   #/jobs, #/jobs/ID       the jobs of the service, and the result of one
 */
'use strict';

(() => {
  const {
    h, add, fill, newID, button, known, count, ms, bytes, plural, change, text, number, dataTable, TYPES, render,
  } = globalThis.neuroshard;

  // ---------------------------------------------------------------- the service

  /** A refusal of the service: what is wrong, where, and what to do about it. */
  class Refusal extends Error {
    constructor(status, body) {
      super(body.detail || body.title || 'the service answered with status ' + status);
      this.hint = body.hint;
      this.faults = (body.errors || []).filter((e) => e && e.message);
    }
  }

  const faultAt = (location, message, hint) => new Refusal(422, { detail: message, errors: [{ location, message, hint }] });

  let token = '';
  try { token = sessionStorage.getItem('neuroshard-token') || ''; } catch { /* without storage, a token ends with the page */ }

  const sleep = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });

  /** The place in a request of tables that the reader wrote: they go out as they are, so that lines in faults are theirs. */
  const WRITTEN = '\u0000written\u0000';
  let written = '';

  /**
   * Sends a request, and returns the response if it is one of success. Asks for the token if the service
   * demands one, and comes back later if the service is busy.
   */
  async function send(method, path, { body, signal, header } = {}) {
    const headers = { Accept: 'application/json', ...header };
    if (body) headers['Content-Type'] = 'application/json';
    for (let tries = 0; ; tries++) {
      if (token) headers.Authorization = 'Bearer ' + token;
      const content = body && JSON.stringify(body).replace(JSON.stringify(WRITTEN), () => written);
      const response = await fetch(path, { method, signal, headers, body: content, credentials: 'omit', redirect: 'error' }).catch((e) => {
        if (signal && signal.aborted) throw e;
        throw new Refusal(0, { detail: 'The service does not answer.', hint: 'Is neuroshard serve still running? Try again.' });
      });
      if (response.ok) return response;
      const told = await response.json().catch(() => ({}));
      const wait = Number(response.headers.get('Retry-After')) || 1;
      if (response.status === 401) await askToken(Boolean(token));
      else if ([429, 503].includes(response.status) && tries < 5 && wait <= 10) await sleep(1000 * wait);
      else throw new Refusal(response.status, told);
    }
  }

  const get = async (path, signal) => (await send('GET', path, { signal })).json();
  const post = async (path, body, signal) => (await send('POST', path, { body, signal })).json();

  let asking = null;

  /** Asks the reader for the token; several requests at once ask once. */
  function askToken(wrong) {
    asking ||= new Promise((resolve, reject) => {
      const box = field('token', 'Token', h('input', { type: 'password', autocomplete: 'off', required: true }),
        { hint: 'The text in the file of neuroshard serve --token-file. This tab keeps it until the tab is closed.' });
      const given = () => {
        token = box.value();
        try { sessionStorage.setItem('neuroshard-token', token); } catch { /* as above */ }
        end(resolve);
      };
      const canceled = () => end(() => reject(new Refusal(401, { detail: 'The service asks for a token.', hint: 'Reload the page to enter it.' })));
      const dialog = h('dialog', { 'aria-label': 'Token', oncancel: canceled },
        h('form', { class: 'form', onsubmit: (event) => { event.preventDefault(); given(); } }, h('h2', {}, 'This service asks for a token'), box.row,
          h('div', { class: 'actions' }, h('button', { type: 'submit', class: 'small main-action' }, 'Continue'), button('Cancel', canceled))));
      const end = (settle) => { asking = null; dialog.remove(); settle(); };
      if (wrong) box.fault('The service did not accept the token.');
      document.body.append(dialog);
      dialog.showModal();
    });
    return asking;
  }

  /** Starts a job by a request, follows it in a box, and returns what the job results in. */
  async function run(path, body, box, what, signal) {
    try {
      const response = await send('POST', path, { body, signal, header: { Prefer: 'respond-async' } });
      const told = await response.json();
      return response.status === 202 ? await follow(told.id, box, what, signal) : told;
    } finally {
      fill(box);
    }
  }

  const ended = (job) => ['done', 'failed', 'canceled'].includes(job.state);

  /** Asks for a job until it ends, shows its progress in a box, and returns its result. */
  async function follow(id, box, what, signal) {
    const bar = h('progress', { max: 1, 'aria-label': 'Progress of ' + what }), line = h('p', { role: 'status' });
    fill(box, h('div', { class: 'progress', 'aria-busy': 'true' }, line, bar, button('Cancel', (event) => cancel(id, event.target))));
    for (let wait = 100; ; wait = Math.min(1000, 2 * wait)) {
      const job = await get('/v1/jobs/' + id, signal);
      if (job.result) return { job: id, state: job.state, ...job.result };
      if (ended(job)) throw new Refusal(0, job.error || { detail: `The job is ${job.state} and has no result.` });
      line.textContent = progressOf(job);
      bar.value = job.progress ? job.progress.share : 0;
      await sleep(wait);
      signal.throwIfAborted();
    }
  }

  function cancel(id, at) {
    at.disabled = true;
    send('DELETE', '/v1/jobs/' + id).catch((e) => at.replaceWith(refusal(e)));
  }

  const progressOf = ({ state, progress }) => (progress ? progress.text : state);

  // ---------------------------------------------------------------- the frame

  const page = document.getElementById('page');
  const report = h('div', { class: 'live-page' }); // the pages of all plans, so that what the reader chose there stays
  const before = h('div');

  function frame() {
    const link = (href, words) => h('a', { href, 'data-route': href }, words);
    const version = h('span', { class: 'note' });
    page.before(h('div', { class: 'top', role: 'region', 'aria-label': 'Service' }, h('a', { class: 'brand', href: '#/' }, 'neuroshard'),
      h('nav', { class: 'nav', 'aria-label': 'Pages' }, link('#/', 'Plans'), link('#/new', 'New plan'), link('#/jobs', 'Jobs')), version));
    document.body.classList.add('live');
    get('/v1/version').then((v) => fill(version, v.version), () => {});
    addEventListener('hashchange', () => void show());
  }

  /** Shows a view of elements of its own. */
  function screen(title, ...children) {
    document.title = title + ' - neuroshard';
    fill(page, h('main', { class: 'view', tabindex: -1 }, h('h1', { tabindex: -1 }, title), children));
  }

  /** Shows a view that draws a document, with elements above what is drawn. */
  function drawn(document_, ...above) {
    fill(before, above);
    if (report.parentNode !== page) fill(page, report);
    draw(document_);
    document.title = document_.title + ' - neuroshard';
  }

  /** Draws a document in place of the one that is drawn. The page keeps its height meanwhile, so that nothing jumps. */
  function draw(document_) {
    report.style.minHeight = report.offsetHeight + 'px';
    render(document_, report, { before });
    report.style.minHeight = '';
  }

  const anchor = (href, words) => h('a', { class: 'small', href }, words);
  const actions = (...children) => h('div', { class: 'actions' }, children);

  /** What is wrong as an element; what to do about it follows each fault. */
  function refusal(error) {
    const faults = error.faults && error.faults.length ? error.faults : [error];
    return h('div', { class: 'warnings refusal', role: 'alert', tabindex: -1 }, h('ul', {}, faults.map((f) => h('li', {}, f.message, hinted(f.hint)))));
  }

  const hinted = (hint) => (hint ? h('span', { class: 'note block' }, hint) : null);

  // ---------------------------------------------------------------- fields

  /**
   * A field of a form: {name, row (its element), input, value(), fault(message, hint)}. read makes its
   * value out of a text that is not empty; group is true for an input of several elements.
   */
  function field(name, label, input, { hint, after, read = (written) => written, group } = {}) {
    const error = h('p', { class: 'error', id: newID('error') });
    const help = h('p', { class: 'note', id: newID('hint') }, hint);
    input.id ||= newID(name);
    input.setAttribute('aria-describedby', help.id + ' ' + error.id);
    const fault = (message, todo) => {
      fill(error, message, message ? hinted(todo) : null);
      input.toggleAttribute('aria-invalid', Boolean(message));
    };
    input.addEventListener('input', () => fault());
    const row = group ? h('fieldset', { class: 'form-field' }, h('legend', {}, label), input, hint ? help : null, error)
      : h('div', { class: 'form-field' }, h('label', { for: input.id }, label), h('div', { class: 'input' }, input, after), hint ? help : null, error);
    const value = () => (input.value.trim() === '' ? undefined : read(input.value.trim()));
    return { name, label, row, input, fault, value };
  }

  /** A whole number; with scale, buttons halve and double it. */
  function numberField(name, label, value, { min = 1, placeholder, scale, hint } = {}) {
    const input = h('input', { type: 'number', name, min, step: 1, placeholder, value });
    const times = (factor) => () => {
      input.value = Math.max(min, Math.round(Number(input.value || placeholder || min) * factor) || min);
      input.dispatchEvent(new Event('input', { bubbles: true }));
      input.dispatchEvent(new Event('change', { bubbles: true }));
    };
    const step = (factor, sign, words) => button([sign, h('span', { class: 'hidden' }, words + label)], times(factor), { class: 'small step' });
    return field(name, label, input, { hint, read: Number, after: scale && [step(0.5, '÷2', ' halves: '), step(2, '×2', ' doubles: ')] });
  }

  const textField = (name, label, value, { hint, placeholder, read } = {}) =>
    field(name, label, h('input', { type: 'text', name, placeholder, value, autocomplete: 'off', spellcheck: 'false' }), { hint, read });

  const numbersField = (name, label, value, more) =>
    textField(name, label, value, { ...more, read: (written) => written.split(/[\s,]+/).filter(Boolean).map(Number) });

  function choiceField(name, label, value, choices, more) {
    const all = value && !choices.some(([v]) => v === value) ? [...choices, [value, value]] : choices;
    return field(name, label, h('select', { name }, all.map(([v, t]) => h('option', { value: v, selected: v === value }, t))), more);
  }

  /** Boxes to check; the value is the list of what is checked. */
  function boxesField(name, label, values, choices, more) {
    const inputs = choices.map(([value]) => h('input', { type: 'checkbox', name, value, checked: values.includes(value) }));
    const group = h('div', { class: 'boxes' }, choices.map(([, words], i) => h('label', {}, inputs[i], words)));
    return { ...field(name, label, group, { ...more, group: true }), value: () => inputs.filter((i) => i.checked).map((i) => i.value) };
  }

  /** The field of the tables: a workload, or a file that is chosen, dropped or pasted. */
  function tablesField(workloads, query) {
    const select = choiceField('workload', 'Workload', query.get('workload'), workloads.map((w) => [w.name, `${w.name}, ${plural(w.tables, 'table')}`]),
      { hint: 'Published and drawn models, to try the planner.' });
    const paste = h('textarea', { name: 'tables', rows: 6, spellcheck: 'false', placeholder: '{"format": "neuroshard-tables", ...}  or  name,rows,dim,pooling_factor' });
    const file = h('input', { type: 'file', accept: '.json,.csv,.txt,application/json,text/csv', 'aria-label': 'A file with the tables', onchange: () => take(file.files[0]) });
    const pasted = field('tables', 'Tables as JSON or CSV', paste, {
      hint: 'Paste the text, choose a file, or drop one here: tables of neuroshard, a scenario in TorchRec\'s words, or CSV with the columns name, rows and dim.',
    });
    async function take(chosen) {
      if (!chosen) return;
      paste.value = await chosen.text();
      pasted.fault();
      own.checked = true;
      show();
    }
    const group = newID('source');
    const published = h('input', { type: 'radio', name: group, checked: !query.get('own') });
    const own = h('input', { type: 'radio', name: group, class: 'own-tables', checked: query.get('own') });
    const show = () => {
      select.row.hidden = own.checked;
      pasted.row.hidden = file.hidden = !own.checked;
    };
    const row = h('fieldset', {
      class: 'form-field', onchange: show, ondragover: (event) => event.preventDefault(),
      ondrop: (event) => { event.preventDefault(); void take(event.dataTransfer.files[0]); },
    }, h('legend', {}, 'Tables'), h('div', { class: 'boxes' }, h('label', {}, published, 'A known model'), h('label', {}, own, 'Your own tables')), select.row, pasted.row, file);
    show();
    return {
      name: 'tables', names: ['tables_csv', 'workload'], row,
      get input() { return own.checked ? paste : select.input; },
      fault: (message, hint) => (own.checked ? pasted : select).fault(message, hint),
      query: () => ({ workload: own.checked ? undefined : select.value(), own: own.checked ? 1 : undefined }),
      /** The part of the problem that has the tables. */
      value: () => {
        if (!own.checked) return { workload: select.value() };
        written = paste.value;
        if (!written.trim()) throw faultAt('tables', 'There are no tables.', 'Paste a text, choose a file or drop one.');
        if (!/^\s*[[{]/.test(written)) return { tables_csv: written };
        try { JSON.parse(written); } catch (e) { throw faultAt('tables', 'The text is no JSON: ' + e.message, 'Check the text, or paste CSV.'); }
        return { tables: WRITTEN };
      },
    };
  }

  /** Shows a refusal beside the fields that it concerns, and the rest of it in the box. */
  function refuse(error, fields, box) {
    const rest = [], faulty = [];
    fields.forEach((f) => f.fault());
    for (const fault of error.faults || []) {
      const of = concerned(fault, fields);
      if (!of || faulty.includes(of)) rest.push(fault);
      else {
        of.fault(inLabels(fault.message, fields), inLabels(fault.hint, fields));
        faulty.push(of);
      }
    }
    const left = rest.length ? { faults: rest } : error;
    fill(box, rest.length || !faulty.length ? refusal(left) : null);
    const target = faulty.length ? faulty[0].input : box.firstChild;
    target.closest('details')?.setAttribute('open', '');
    target.focus();
  }

  const NAMED = /(?:problem\.)?(?:overrides|options|axes)\.([a-z_]+)/;

  /** A text of the service with the labels of fields in place of the names in requests. */
  const inLabels = (words, fields) => String(words || '').replace(new RegExp(NAMED, 'g'), (name, last) => {
    const of = fields.find((f) => f.name === last);
    return of ? '"' + of.label + '"' : name;
  });

  /** The field that a fault is about: by its place, or else by the first field that its words name. */
  function concerned(fault, fields) {
    const named = (name) => fields.find((f) => f.name === name || (f.names || []).includes(name));
    const placed = String(fault.location || '').split(/[.[\]]+/).reverse().find(named);
    const said = NAMED.exec(fault.message + ' ' + (fault.hint || '')) || /^([a-z_ ]+): /.exec(fault.message);
    return placed ? named(placed) : said ? named(said[1].replaceAll(' ', '_')) : undefined;
  }

  /** What fields state, without those that are empty. */
  function stated(fields) {
    const all = {};
    for (const f of fields) {
      const value = f.value();
      if (value !== undefined && value.length !== 0) all[f.name] = value;
    }
    return all;
  }

  /**
   * A form that starts a job. What it states stands in the address, for others to share.
   * spec: {fields, parts (its elements), verb, what, path, body() (the request), done(result, form)}
   */
  function jobForm(view, { fields, parts, verb, what, path, body, done }) {
    const box = h('div'), submit = h('button', { type: 'submit', class: 'small main-action' }, verb);
    const form = h('form', { class: 'form', novalidate: true }, parts, box, actions(submit));
    form.addEventListener('submit', async (event) => {
      event.preventDefault();
      submit.disabled = true;
      try {
        const request = body();
        fields.forEach((f) => f.fault());
        await done(await run(path, request, box, what, view.signal), form);
      } catch (e) {
        if (!view.signal.aborted) refuse(e, fields, box);
      } finally {
        submit.disabled = false;
      }
    });
    form.addEventListener('change', () => {
      const query = fields.map((f) => (f.query ? f.query() : stated([f])));
      remember(view, Object.assign({}, ...query));
    });
    return form;
  }

  const rows = (fields) => h('div', { class: 'fields' }, fields.map((f) => f.row));

  // ---------------------------------------------------------------- plans and models

  async function home(view) {
    const list = h('section');
    screen('Plans', list);
    await models(list, view);
  }

  async function models(root, view) {
    const [{ names }, { plans }] = await Promise.all([get('/v1/names', view.signal), get('/v1/plans?limit=20', view.signal)]);
    add(root, h('h2', {}, 'Models'), h('div', { class: 'models' }, names.length ? dataTable({
      caption: 'Models', rows: names,
      columns: [
        text('Model', (n) => n.name, { node: (n) => h('a', { href: '#/models/' + encodeURIComponent(n.name) }, n.name) }),
        number('Plans', (n) => n.plans, count, { rest: true }), ...planColumns.map((c) => ({ ...c, value: (n) => c.value(n.last), node: c.node && ((n) => c.node(n.last)) })),
      ],
    }) : h('p', { class: 'note' }, 'No model has a plan yet. A plan with a name, from this page or from a training job, is listed here with its history.')));
    if (plans.length) add(root, h('h2', {}, 'Newest plans'), plansTable(plans, [text('Model', (e) => e.name || null)]));
  }

  function when(time) {
    const date = new Date(time);
    return h('time', { datetime: date.toISOString() }, date.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' }));
  }

  /** The columns of a plan's entry in a list. */
  const planColumns = [
    text('Planned', (e) => e.asked, { node: (e) => h('a', { href: '#/plans/' + e.id }, when(e.asked)) }),
    text('GPUs', (e) => (e.device ? `${e.devices} x ${e.device}` : String(e.devices))),
    number('Batch', (e) => e.batch || null, count, { rest: true }),
    number('Tables', (e) => e.tables, count, { rest: true }),
    number('Cost', (e) => e.cost_ms || null, ms),
    number('Gain', (e) => e.gain_percent, (v) => `${v.toFixed(0)} %`),
    text('Engine', (e) => e.engine || null, { rest: true }),
  ];

  const plansTable = (plans, more) => dataTable({ caption: 'Plans', rows: plans, columns: [planColumns[0], ...more, ...planColumns.slice(1)] });

  /** The history of one model, where two plans can be chosen to compare. */
  async function model(view, name) {
    const path = `/v1/plans?name=${encodeURIComponent(name)}&limit=100`;
    const { plans } = await get(path, view.signal);
    const chosen = [], table = h('div');
    const compare = button('Compare two plans', () => go(`#/plans/${chosen[1].id}/with/${chosen[0].id}`), { class: 'small', disabled: true });
    const pick = (entry) => (event) => {
      chosen.splice(0, chosen.length, ...plans.filter((e) => (e === entry ? event.target.checked : chosen.includes(e)))); // the newest in front
      compare.disabled = chosen.length !== 2;
    };
    const box = text('Compare', () => '', { node: (e) => h('input', { type: 'checkbox', checked: chosen.includes(e), 'aria-label': `Compare the plan of ${e.asked}`, onchange: pick(e) }) });
    const show = () => {
      fill(table, plansTable(plans, plans.length > 1 ? [box] : []));
      older.hidden = plans.length % 100 !== 0;
    };
    const older = button('Older plans', async () => {
      plans.push(...(await get(`${path}&before=${plans.at(-1).cursor}`, view.signal)).plans);
      show();
    });
    if (!plans.length) return screen(name, h('p', {}, 'This model has no plan.'));
    show();
    screen(name, actions(anchor('#/plans/' + plans[0].id, 'Newest plan'), anchor(`#/plans/${plans[0].id}/replan`, 'Re-plan'), plans.length > 1 ? compare : null), table, older);
  }

  async function create(view) {
    const form = h('section', { class: 'narrow' });
    screen('New plan', form);
    await planForm(form, view);
  }

  const ENGINES = [['any', 'any engine'], ['torchrec', 'TorchRec'], ['hugectr', 'HugeCTR']];

  const deviceChoices = async (signal) => (await get('/v1/devices', signal)).map((d) => [d.name, `${d.name} (${bytes(d.memory_bytes)})`]);
  const workloads = (signal) => get('/v1/workloads', signal);

  /** The fields of a cluster, with what they hold and the placeholders where they hold nothing. */
  function clusterFields(devices, value, as = () => 'as stated') {
    const kind = value('device') ? devices : [['', as('device')], ...devices];
    return [
      numberField('devices', 'GPUs', value('devices'), { placeholder: as('devices'), scale: true }),
      choiceField('device', 'Kind of GPU', value('device') || '', kind),
      numberField('devices_per_host', 'GPUs of a host', value('devices_per_host'), { placeholder: as('devices_per_host') }),
      numberField('batch', 'Global batch in samples', value('batch'), { placeholder: as('batch'), scale: true }),
    ];
  }

  const engineField = (value) => choiceField('for', 'Engine', value || '', value ? ENGINES : [['', 'as stated, or any'], ...ENGINES]);

  /** The form to plan: tables, cluster, and what few set. */
  async function planForm(root, view) {
    const { query, signal } = view, has = (name) => query.get(name);
    const [known, devices] = await Promise.all([workloads(signal), deviceChoices(signal)]);
    const source = tablesField(known, query);
    const name = textField('name', 'Name of the model', has('name'), { placeholder: 'ranking-prod', hint: 'Plans of one name are kept as its history.' });
    const cluster = [...clusterFields(devices, has), engineField(has('for'))];
    const more = [
      textField('memory', 'Memory of a GPU', has('memory'), { placeholder: '40GiB' }),
      textField('host_memory', 'Memory of a host for tables', has('host_memory'), { placeholder: 'none' }),
      textField('reserve_share', 'Share of the memory to keep free', has('reserve_share'), { placeholder: '0.15', read: Number }),
      choiceField('comm_precision', 'Number format of exchanges', has('comm_precision') || '', [['', 'as stated, or fp32'], ['fp32', 'fp32'], ['fp16', 'fp16'], ['bf16', 'bf16']]),
      numberField('min_width', 'Narrowest slice of columns', has('min_width'), { min: 4, placeholder: '4' }),
    ];
    const options = [
      boxesField('sharding_types', 'Sharding types', (has('sharding_types') || '').split(','), TYPES.map((t) => [t, t]), { hint: 'None checked: all types.' }),
      numberField('seed', 'Seed', has('seed'), { min: 0, placeholder: '0' }),
      numberField('time_limit_ms', 'Most time to search, in ms', has('time_limit_ms'), { placeholder: 'the service\'s limit' }),
    ];
    root.append(jobForm(view, {
      fields: [source, name, ...cluster, ...more, ...options],
      parts: [source.row, name.row, rows(cluster), h('details', {}, h('summary', {}, 'More settings'), rows([...more, ...options]))],
      verb: 'Plan', what: 'the plan', path: '/v1/plan',
      body: () => ({ problem: { ...source.value(), ...stated([name]), overrides: stated([...cluster, ...more]) }, options: stated(options) }),
      done: (result) => go('#/plans/' + result.id),
    }));
  }

  // ---------------------------------------------------------------- a plan

  /** The links to what can be done with a plan. */
  function tabs(id, present) {
    const links = [['', 'Plan and what-if'], ['/replan', 'Re-plan'], ['/sweep', 'Sweep']];
    return h('nav', { class: 'tabs', 'aria-label': 'This plan' },
      links.map(([path, words]) => h('a', { href: `#/plans/${id}${path}`, 'aria-current': path === present ? 'page' : null }, words)),
      button('Download plan.json', () => void save(`/v1/plans/${id}`, `plan-${id.slice(0, 8)}.json`)));
  }

  /** Saves an answer of the service as a file. A link would send no token. */
  async function save(path, name) {
    const url = URL.createObjectURL(await (await send('GET', path)).blob());
    h('a', { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  /** A stored plan: its page, its problem, and the kinds of GPU for fields. */
  async function storedPlan({ signal }, id) {
    const [shown, problem, devices] = await Promise.all([get(`/v1/plans/${id}/page`, signal), get(`/v1/plans/${id}/problem`, signal), deviceChoices(signal)]);
    return { id, page: shown, problem, devices, cluster: shown.plans[0].cluster };
  }

  async function plan(view, id) {
    const stored = await storedPlan(view, id);
    drawn(stored.page, tabs(id, ''), whatIf(view, stored));
  }

  /** GPUs of a host for another number of GPUs: a host of a few has room for eight. */
  const perHost = (of, devices) => Math.min(devices, of.devices_per_host < of.devices ? of.devices_per_host : Math.max(8, of.devices_per_host));

  /** What a change of the cluster would bring: the changed plan takes the place of the plan. */
  function whatIf(view, { id, page: original, problem, devices, cluster }) {
    const now = { ...cluster, device: cluster.profile, for: cluster.for || cluster.engine || 'any' };
    const start = (name) => view.query.get(name) || now[name];
    const fields = [...clusterFields(devices, start), engineField(start('for'))];
    const outcome = h('div', { class: 'outcome' }), box = h('div');
    const reset = button('Back to the stored plan', () => { fields.forEach((f) => { f.input.value = now[f.name]; }); update(0); });
    let work = new AbortController(), timer = 0, present = '{}';

    /** The fields that differ from the stored plan's. */
    function changes() {
      const all = stated(fields);
      for (const [name, value] of Object.entries(all)) if (String(value) === String(now[name])) delete all[name];
      if (all.devices) all.devices_per_host ??= perHost(now, all.devices);
      return all;
    }

    /** Plans for what the fields hold after a pause; the same again asks for nothing. */
    function update(pause) {
      clearTimeout(timer);
      timer = setTimeout(() => {
        const changed = changes(), key = JSON.stringify(changed);
        if (key === present) return;
        present = key;
        work.abort();
        work = new AbortController();
        void show(changed, AbortSignal.any([view.signal, work.signal]));
      }, pause);
    }

    async function show(changed, signal) {
      const stays = Object.keys(changed).length === 0;
      remember(view, changed);
      reset.hidden = stays;
      fill(box);
      fill(outcome, stays ? null : h('p', { role: 'status' }, 'Planning. Another change starts again.'));
      fields.forEach((f) => f.fault());
      report.toggleAttribute('aria-busy', !stays);
      try {
        if (stays) return draw(original);
        const { name, options, ...rest } = problem; // without a name: a trial is no part of the model's history
        const planned = await post('/v1/plan', { problem: { ...rest, overrides: { ...rest.overrides, ...changed } }, options: { ...options, baselines: false } }, signal);
        const [shown, moved] = await Promise.all([get(`/v1/plans/${planned.id}/page`, signal), post('/v1/diff', { before: id, after: planned.id }, signal).catch(() => null)]);
        signal.throwIfAborted();
        draw(shown);
        fill(outcome, told(original, shown, moved, id, planned.id));
      } catch (e) {
        if (signal.aborted) return;
        present = '';
        fill(outcome);
        refuse(e, fields, box);
      }
      report.removeAttribute('aria-busy');
    }

    for (const f of fields) {
      // Typing ends after a pause; a choice, a button or the Enter key end it at once.
      f.input.addEventListener('input', () => update(250));
      f.input.addEventListener('change', () => update(0));
    }
    // A press of the mouse leaves the focus where it is: if a field lost it, its change would be planned for, and
    // the button would move away under the mouse before the click.
    reset.addEventListener('mousedown', (event) => event.preventDefault());
    reset.hidden = true;
    view.signal.addEventListener('abort', () => { clearTimeout(timer); report.removeAttribute('aria-busy'); });
    update(0);
    return h('form', { class: 'section form whatif', 'aria-label': 'What if', novalidate: true, onsubmit: (event) => { event.preventDefault(); update(0); } },
      h('h2', {}, 'What if'), rows(fields), h('div', { class: 'result' }, outcome, reset), box);
  }

  /** The outcome of a trial: old and new cost, and what moves. */
  function told(original, shown, moved, id, trial) {
    const [was, is] = [original, shown].map((d) => d.plans[0].costs.predicted_ms);
    const moves = moved && `${known(moved.moved_bytes) ? bytes(moved.moved_bytes) : 'An unknown number of bytes'} move, and ${plural(moved.changed_tables, 'table')} change.`;
    return [
      h('p', { class: 'verdict', role: 'status' }, `${ms(was)} becomes ${ms(is)}, ${change(was, is)}. ${moves || ''}`),
      actions(anchor('#/plans/' + trial, 'Open this plan'), anchor(`#/plans/${id}/with/${trial}`, 'Side by side')),
    ];
  }

  /** Two plans side by side. */
  async function compare(view, first, second) {
    const both = await get(`/v1/plans/${first}/page?with=${second}`, view.signal);
    drawn(both, actions(anchor('#/plans/' + first, 'First plan'), anchor('#/plans/' + second, 'Second plan'), anchor(`#/plans/${second}/with/${first}`, 'The other way round')));
  }

  // ---------------------------------------------------------------- re-plans and sweeps

  /** The problem of a stored plan without its cluster, which the request states or the old plan has. */
  function withoutCluster({ name, options, topology, overrides, ...problem }) {
    const { devices, device, devices_per_host: hosts, batch, ...rest } = overrides || {};
    return { ...problem, overrides: rest };
  }

  async function replan(view, id) {
    const { page: original, problem, devices, cluster } = await storedPlan(view, id);
    const { query } = view, has = (name) => query.get(name);
    const source = tablesField(await workloads(view.signal), query);
    const same = h('input', { type: 'checkbox', checked: !has('own'), onchange: () => { source.row.hidden = same.checked; } });
    source.row.hidden = same.checked;
    const fields = clusterFields(devices, has, (name) => (name === 'device' ? cluster.profile : cluster[name]));
    const budget = [
      numbersField('lost_devices', 'Lost GPUs', has('lost_devices'), { placeholder: 'none', hint: 'Numbers of GPUs that failed, such as 3, 4. The others must hold all tables.' }),
      textField('max_bytes', 'Most bytes to move', has('max_bytes'), { placeholder: '5% or 12GB', hint: 'In addition to the bytes that must move. Empty: no limit.' }),
      numberField('horizon', 'Steps still to train', has('horizon'), { placeholder: 'no limit', hint: 'A move that pays back later is not taken.' }),
    ];
    const named = /^plan [0-9a-f]{8}$/.test(original.plans[0].name) ? '' : original.plans[0].name; // a plan without a name is called by its id
    const name = textField('name', 'Name of the model', has('name') ?? named, { hint: 'The new plan becomes part of its history. Empty: of none.' });
    const { seed, sharding_types: types, risk_penalty: penalty } = problem.options || {};
    screen('Re-plan: ' + original.title, tabs(id, '/replan'), jobForm(view, {
      fields: [source, ...fields, ...budget, name],
      parts: [h('p', {}, 'Finds plans that move few bytes from this one, and draws their cost against the bytes that move.'),
        h('div', { class: 'boxes' }, h('label', {}, same, 'The tables of the plan')), source.row, rows(fields), rows([...budget, name])],
      verb: 'Re-plan', what: 'the re-plan', path: '/v1/replan',
      body: () => {
        const tables = same.checked ? withoutCluster(problem) : source.value();
        return {
          problem: { ...tables, ...stated([name]), overrides: { ...tables.overrides, ...stated(fields) } }, old: id,
          options: { seed, sharding_types: types, risk_penalty: penalty, ...stated(budget) },
        };
      },
      done: (result, form) => showResult(result, view.signal, tabs(id, '/replan'), form),
    }));
  }

  /** Draws the page of a job's result below the form, which is folded. */
  async function showResult(result, signal, links = null, form = null) {
    const shown = await get(`/v1/jobs/${result.job}/page`, signal);
    drawn(shown, links,
      result.state === 'canceled' ? h('p', { class: 'error' }, 'The job was canceled. The page shows what the job had found by then.') : null,
      form ? h('details', {}, h('summary', {}, 'Change the request'), form) : null,
      actions(result.id ? anchor('#/plans/' + result.id, 'Open the new plan') : null, form ? anchor('#/jobs/' + result.job, 'Link to this result') : null));
    arrive();
  }

  async function sweep(view, id) {
    const { page: original, problem, devices, cluster } = await storedPlan(view, id);
    const has = (name) => view.query.get(name);
    const around = [0.5, 1, 2, 4].map((f) => f * cluster.devices).filter(Number.isInteger);
    const axes = [
      numbersField('devices', 'Numbers of GPUs', has('devices') || around.join(', '), { hint: 'Separated by commas.' }),
      numbersField('devices_per_host', 'GPUs of a host', has('devices_per_host') || perHost(cluster, Infinity)),
      boxesField('device', 'Kinds of GPU', (has('device') || cluster.profile).split(','), devices),
    ];
    const scaling = choiceField('scaling', 'Batch', has('scaling') || 'batch', [['batch', 'the same for all: strong scaling'], ['batch_per_device', 'grows with the GPUs: weak scaling']]);
    const price = textField('price', 'Price of one GPU for an hour, in dollars', has('price'), { placeholder: '2.95', read: Number });
    const fields = [...axes, scaling, price];
    const { seed, sharding_types: types } = problem.options || {};
    screen('Sweep: ' + original.title, tabs(id, '/sweep'), jobForm(view, {
      fields, verb: 'Sweep', what: 'the sweep', path: '/v1/sweep',
      parts: [h('p', {}, 'Plans the tables of this plan for many clusters, and compares the plans in a table and a plot.'), fields.map((f) => f.row)],
      body: () => ({
        problem: withoutCluster(problem), options: { seed }, ...stated([price]),
        axes: {
          ...stated(axes), sharding_types: types && [types.includes('all') ? 'all' : types.join('+')],
          [scaling.value()]: [scaling.value() === 'batch' ? cluster.batch : Math.max(1, Math.round(cluster.batch / cluster.devices))],
        },
      }),
      done: (result, form) => showResult(result, view.signal, tabs(id, '/sweep'), form),
    }));
  }

  // ---------------------------------------------------------------- jobs

  async function jobs(view) {
    const table = h('div');
    screen('Jobs', h('p', { class: 'note' }, 'Plans, re-plans and sweeps that run or ended a short while ago. The list is renewed every two seconds.'), table);
    const action = (j) => {
      if (j.state === 'failed') return '–';
      return ended(j) ? h('a', { href: '#/jobs/' + j.id }, 'Result') : button('Cancel', (event) => cancel(j.id, event.target));
    };
    const renew = async () => {
      // Jobs also make the data of pages. The list leaves these jobs out once they have ended.
      const rows = (await get('/v1/jobs', view.signal)).jobs.filter((j) => j.what !== 'page' || !ended(j));
      const columns = [text('Work', (j) => j.what), text('Created', (j) => j.created, { node: (j) => when(j.created), rest: true }),
        text('State', (j) => (ended(j) ? j.state : progressOf(j))), text('Action', () => '', { node: action })];
      if (!table.contains(document.activeElement)) fill(table, rows.length ? dataTable({ caption: 'Jobs', rows, columns }) : h('p', {}, 'There are no jobs.'));
    };
    const renewAll = async () => { for (;;) { await sleep(2000); await renew(); } };
    await renew();
    renewAll().catch((e) => view.signal.aborted || fill(table, refusal(e)));
  }

  /** Shows the result of a job, or follows the job to its end. */
  async function job(view, id) {
    const { what } = await get('/v1/jobs/' + id, view.signal), box = h('div', { class: 'narrow' });
    screen('Job: ' + what, box);
    const result = await follow(id, box, what, view.signal);
    if (what === 'plan') return location.replace('#/plans/' + result.id);
    await showResult(result, view.signal);
  }

  // ---------------------------------------------------------------- routes

  const ID = '([0-9a-f]{32})';
  const ROUTES = [
    ['', home], ['new', create], ['jobs', jobs], ['jobs/' + ID, job], ['models/([^/]+)', model],
    ['plans/' + ID, plan], [`plans/${ID}/with/${ID}`, compare], [`plans/${ID}/replan`, replan], [`plans/${ID}/sweep`, sweep],
  ];

  let present = null; // aborts the view that is shown

  const go = (hash) => { location.hash = hash; };

  /** Puts values into the address, for others to share, without a new view. */
  function remember({ path }, values) {
    const query = new URLSearchParams(Object.entries(values).filter(([, v]) => v !== undefined).map(([name, v]) => [name, String(v)]));
    history.replaceState(null, '', `#/${path}${query.size ? '?' + query.toString().replaceAll('%2C', ',') : ''}`);
  }

  async function show() {
    const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
    const first = present === null, stop = new AbortController();
    present?.abort();
    present = stop;
    for (const link of document.querySelectorAll('[data-route]')) {
      if (link.dataset.route === '#/' + path) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
    page.setAttribute('aria-busy', 'true');
    try {
      const found = ROUTES.map(([pattern, draws]) => [new RegExp(`^${pattern}$`).exec(path), draws]).find(([match]) => match);
      if (!found) throw new Refusal(404, { detail: `The page has no view #/${path}.` });
      const [[, ...args], draws] = found;
      await draws({ path, query: new URLSearchParams(query || ''), signal: stop.signal }, ...args.map(decodeURIComponent));
      if (!first && present === stop) arrive();
    } catch (e) {
      if (stop.signal.aborted) return;
      screen('This did not work', refusal(e), h('p', {}, h('a', { href: '#/' }, 'All plans')));
      arrive();
    } finally {
      if (present === stop) page.removeAttribute('aria-busy');
    }
  }

  /** Puts the focus on the title of a view, so that a screen reader begins there. */
  function arrive() {
    page.querySelector('h1')?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }

  frame();
  void show();
})();
