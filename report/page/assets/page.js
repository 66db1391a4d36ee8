/**
 * Renders a document (report/page/document.go) as a page.
 *
 *   neuroshard.render(document, root, options)
 *
 * may be called again with another document: the selection, the order of the devices and the
 * theme stay. Names of tables are untrusted: all text reaches the page as text nodes, and styles
 * that depend on data are set by script, so that the page works under a strict content security
 * policy. Charts are drawn by Apache ECharts (the global echarts).
 */
(function () {
  'use strict';

  const FORMAT = 'neuroshard-page';
  const VERSION = 1;

  // ---------------------------------------------------------------- elements

  /**
   * Makes an element. Attributes whose value is null, undefined or false are left out.
   * @param {string} tag
   * @param {Object<string, any>} [attributes] "class", "on" (listeners by event), or any attribute
   * @param {...(Node|string|number|null|undefined|Array)} children strings become text nodes
   * @returns {HTMLElement}
   */
  function h(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === 'on') for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
      else element.setAttribute(name, value === true ? '' : String(value));
    }
    append(element, children);
    return element;
  }

  function append(element, children) {
    for (const child of children) {
      if (child === null || child === undefined) continue;
      if (Array.isArray(child)) append(element, child);
      else element.append(child instanceof Node ? child : String(child));
    }
  }

  /** Replaces the children of an element. */
  function fill(element, ...children) {
    element.replaceChildren();
    append(element, children);
    return element;
  }

  let ids = 0;
  const newID = (prefix) => 'ns-' + prefix + '-' + ++ids;

  // ---------------------------------------------------------------- numbers

  /** A number with three significant digits and at most six decimals, as Go's package unit prints it. */
  function significant(v) {
    if (!Number.isFinite(v)) return String(v);
    if (Math.abs(v) < 0.5e-6) return '0';
    const exponent = Number(v.toExponential(2).split('e')[1]);
    return grouped(v.toFixed(Math.max(0, Math.min(2 - exponent, 6))));
  }

  /** Puts commas between the thousands of a decimal number. */
  function grouped(text) {
    const [whole, decimals] = String(text).split('.');
    return whole.replace(/\B(?=(\d{3})+(?!\d))/g, ',') + (decimals ? '.' + decimals : '');
  }

  const known = (v) => v !== null && v !== undefined;
  const ms = (v) => (known(v) ? significant(v) + ' ms' : 'not known');

  function bytes(v) {
    if (!known(v)) return 'not known';
    if (v < 0) return '-' + bytes(-v);
    for (const [name, exponent] of [['TiB', 40], ['GiB', 30], ['MiB', 20], ['KiB', 10]]) {
      if (v >= 2 ** exponent) return significant(v / 2 ** exponent) + ' ' + name;
    }
    return v + ' B';
  }

  const count = (v) => (known(v) ? grouped(v) : 'not known');
  const percent = (share) => (Math.abs(share) >= 0.0995 ? (share * 100).toFixed(0) : (share * 100).toFixed(1)) + ' %';
  const plural = (n, one, many) => grouped(n) + ' ' + (n === 1 ? one : many || one + 's');

  /** The change from before to after: "12 % less". */
  function change(before, after) {
    if (!known(before) || !known(after) || !(before > 0)) return '';
    const share = after / before - 1;
    if (Math.abs(share) < 0.0005) return 'no change';
    return percent(Math.abs(share)) + (share < 0 ? ' less' : ' more');
  }

  const compact = (v) => {
    for (const [name, size] of [['G', 1e9], ['M', 1e6], ['k', 1e3]]) if (Math.abs(v) >= size) return significant(v / size) + name;
    return significant(v);
  };

  // ---------------------------------------------------------------- words

  /** Sharding types in the order of the documentation. The pattern is a class of page.css, too. */
  const TYPES = ['table_wise', 'column_wise', 'row_wise', 'table_row_wise', 'grid', 'data_parallel'];
  const TIERS = { hbm: 'in device memory', host: 'in host memory', host_cached: 'in host memory, cached on the device' };

  /** Parts of a step in the order of time. */
  const PHASES = [
    { key: 'forward', title: 'Forward lookups', short: 'forward', of: (d) => d.forward_ms },
    { key: 'wait', title: 'Wait for the slowest device', short: 'wait', of: (d) => d.wait_ms },
    { key: 'forward-comm', title: 'Forward exchange', short: 'forward exchange', of: (d) => d.forward_comm_ms },
    { key: 'backward-comm', title: 'Backward exchange', short: 'backward exchange', of: (d) => d.backward_comm_ms },
    { key: 'backward', title: 'Backward and update', short: 'backward', of: (d) => d.backward_ms },
  ];

  /** Lines of a device's memory. */
  const MEMORY = [
    ['weights_bytes', 'Weights'],
    ['optimizer_bytes', 'Optimizer state'],
    ['cache_bytes', 'Cache of host rows'],
    ['outputs_bytes', 'Outputs'],
    ['gradients_bytes', 'Gradients'],
    ['indices_bytes', 'Indices'],
    ['received_bytes', 'Received vectors'],
  ];

  // ---------------------------------------------------------------- the plan, indexed

  /**
   * A plan of the document with lists by device and by table.
   * @param {Object} plan page.Plan
   */
  function index(plan) {
    const { devices, shards, tables } = plan;
    const byDevice = Array.from({ length: devices.count }, () => []);
    const byTable = Array.from({ length: tables.count }, () => []);
    const copies = [];
    for (let i = 0; i < shards.count; i++) {
      byTable[shards.table[i]].push(i);
      if (shards.device[i] < 0) copies.push(i);
      else byDevice[shards.device[i]].push(i);
    }
    const timed = list(devices.forward_ms).length > 0;
    const busy = timed ? Array.from({ length: devices.count }, (_, i) =>
      devices.forward_ms[i] + devices.forward_comm_ms[i] + devices.backward_comm_ms[i] + devices.backward_ms[i]) : [];
    const perHost = Math.max(1, plan.cluster.devices_per_host || devices.count);
    // What tables may take of each device's memory, and of host memory for it.
    const capacities = devices.capacities_bytes || Array(devices.count).fill(devices.capacity_bytes);
    const hostCapacities = devices.host_capacities_bytes || Array(devices.count).fill(devices.host_capacity_bytes);
    return {
      capacities, hostCapacities, uneven: !alike(capacities),
      /** The share of its own capacity that a device uses. */
      filled: (d) => devices.used_bytes[d] / Math.max(1, capacities[d]),
      plan, devices, shards, tables, byDevice, byTable, copies, timed, busy, perHost,
      hosts: Math.ceil(devices.count / perHost),
      shardTimes: list(shards.time_ms).length > 0,
      critical: plan.critical ? plan.critical.device : -1,
    };
  }

  const list = (v) => v || [];
  const alike = (values) => values.every((v) => v === values[0]);

  /** The shard's part of its table in words: "columns 0-31, rows 0-999", or "whole". */
  function slice(m, shard) {
    const t = m.shards.table[shard];
    const parts = [];
    const part = (name, from, to, all) => {
      if (to > from && to - from < all) parts.push(name + ' ' + grouped(from) + '–' + grouped(to - 1));
    };
    part('columns', m.shards.columns[2 * shard], m.shards.columns[2 * shard + 1], m.tables.dim[t]);
    part('rows', m.shards.rows[2 * shard], m.shards.rows[2 * shard + 1], m.tables.rows[t]);
    return parts.length ? parts.join(', ') : 'whole table';
  }

  /** The devices of a table in words: "0, 3, 5". */
  function devicesOf(m, table, most) {
    const shards = m.byTable[table];
    if (shards.some((s) => m.shards.device[s] < 0)) return 'all';
    const devices = [...new Set(shards.map((s) => m.shards.device[s]))].sort((a, b) => a - b);
    return ranges(devices, most);
  }

  /** Sorted numbers in words: "0–3, 7 and 4 more". */
  function ranges(numbers, most) {
    const out = [];
    let i = 0;
    while (i < numbers.length && out.length < most) {
      let end = i;
      while (numbers[end + 1] === numbers[end] + 1) end++;
      out.push(end > i + 1 ? numbers[i] + '–' + numbers[end] : String(numbers[i]));
      i = end > i + 1 ? end + 1 : i + 1;
    }
    return out.join(', ') + (i < numbers.length ? ' and ' + (numbers.length - i) + ' more' : '');
  }

  const holds = (m, table, device) => m.byTable[table].some((s) => m.shards.device[s] < 0 || m.shards.device[s] === device);

  const typeClass = (type) => (TYPES.includes(type) ? 'type-' + type : 'type-other');

  // ---------------------------------------------------------------- state

  /** What the reader chose. It stays if another document is rendered into the same root. */
  function newState() {
    return {
      table: null, // name of the selected table
      device: -1,
      by: 'time', // what sets the area of a tile: bytes, or time where the document has times of shards
      level: 'device', // what a card shows: device or host
      order: 'number', // order of the devices: number, time or memory
      from: 0, // the first card shown
      size: 32, // cards shown at once
      shown: 0, // the plan that single views show, of two
    };
  }

  const states = new WeakMap();

  /** Calls listeners when the state changes; each gets the set of changed names. */
  function newStore(state) {
    const listeners = [];
    return {
      state,
      on(names, listener) { listeners.push([names, listener]); },
      set(changes) {
        const changed = Object.keys(changes).filter((name) => state[name] !== changes[name]);
        if (!changed.length) return;
        Object.assign(state, changes);
        for (const [names, listener] of listeners) if (names.some((n) => changed.includes(n))) listener(changed);
      },
    };
  }

  // ---------------------------------------------------------------- order and window of devices

  /** The cards of a plan: devices or hosts, in the chosen order. Each has its devices. */
  function units(m, state) {
    const all = [];
    if (state.level === 'host') {
      for (let host = 0; host < m.hosts; host++) {
        const devices = [];
        for (let d = host * m.perHost; d < Math.min((host + 1) * m.perHost, m.devices.count); d++) devices.push(d);
        all.push({ label: 'Host ' + host, id: host, host, devices });
      }
    } else {
      for (let d = 0; d < m.devices.count; d++) all.push({ label: 'Device ' + d, id: d, host: Math.floor(d / m.perHost), devices: [d] });
    }
    for (const u of all) {
      u.time = m.timed ? Math.max(...u.devices.map((d) => m.busy[d])) : null;
      u.memory = Math.max(...u.devices.map(m.filled));
      u.critical = u.devices.includes(m.critical);
      // A host is drawn by its busiest device in charts of times, and by its fullest one in those of memory.
      u.busiest = m.timed ? u.devices.reduce((a, b) => (m.busy[b] > m.busy[a] ? b : a)) : u.devices[0];
      u.fullest = u.devices.reduce((a, b) => (m.filled(b) > m.filled(a) ? b : a));
    }
    if (state.order === 'time' && m.timed) all.sort((a, b) => b.time - a.time || a.id - b.id);
    if (state.order === 'memory') all.sort((a, b) => b.memory - a.memory || a.id - b.id);
    return all;
  }

  const windowOf = (all, state) => {
    const size = Math.min(state.size, all.length);
    const from = Math.max(0, Math.min(state.from, all.length - size));
    return all.slice(from, from + size);
  };

  // ---------------------------------------------------------------- theme and charts

  /** The colours of the theme, from page.css. */
  function theme(root) {
    const style = getComputedStyle(root);
    return (name) => style.getPropertyValue('--' + name).trim();
  }

  const stripes = (angle) => ({ dashArrayX: [1, 0], dashArrayY: [1.5, 4], rotation: angle });
  const spots = (symbol) => ({ symbol, symbolSize: 0.6, dashArrayX: [[6, 6], [0, 6, 6, 0]], dashArrayY: [5, 0] });
  /** Patterns tell the series of a chart apart without their colours; page.css has the same ones for keys. */
  const PATTERNS = {
    plain: null, up: stripes(-Math.PI / 4), down: stripes(Math.PI / 4), flat: stripes(0), upright: stripes(Math.PI / 2),
    dots: spots('circle'), squares: spots('rect'),
  };
  /** The pattern of each series; its colour is --c-NAME. */
  const LOOKS = {
    forward: 'plain', wait: 'up', 'forward-comm': 'flat', 'backward-comm': 'upright', backward: 'dots', hidden: 'down',
    1: 'plain', 2: 'up', 3: 'dots', 4: 'flat', 5: 'down', 6: 'upright', 7: 'squares',
  };

  /** The look of a series: a colour of the theme with a pattern. */
  function look(color, name) {
    const pattern = PATTERNS[LOOKS[name]];
    return {
      color: color('c-' + name),
      borderColor: color('surface'),
      borderWidth: 0.5,
      decal: pattern ? Object.assign({ symbolSize: 1 }, pattern, { color: color('decal') }) : { symbol: 'none' },
    };
  }

  /** The key of a chart: names of looks with their titles. */
  const keyOf = (series) => h('ul', { class: 'key' }, series.map(([name, title]) => h('li', {}, h('span', { class: 'swatch look-' + name }), title)));

  /** The options that all charts share. */
  function base(color) {
    const text = { color: color('muted'), fontFamily: color('font'), fontSize: 12 };
    return {
      animation: false,
      textStyle: text,
      aria: { enabled: true, label: { enabled: false } },
      grid: { left: 8, right: 16, top: 12, bottom: 8, containLabel: true },
      tooltip: {
        renderMode: 'html', confine: true, appendTo: 'body', className: 'ns-tip',
        backgroundColor: color('surface'), borderColor: color('line'), borderWidth: 1, padding: 0,
        textStyle: { color: color('text'), fontSize: 12 }, transitionDuration: 0,
      },
    };
  }

  const axisLook = (color) => ({
    axisLine: { lineStyle: { color: color('line-strong') } },
    axisTick: { show: false },
    axisLabel: { color: color('muted'), fontSize: 12 },
    splitLine: { lineStyle: { color: color('line') } },
    nameTextStyle: { color: color('muted'), fontSize: 12 },
  });

  /** The content of a tooltip: a title and rows of name and value. */
  function tip(title, rows) {
    return h('div', { class: 'tip' }, h('strong', {}, title),
      rows.length ? h('dl', {}, rows.map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)])) : null);
  }

  /**
   * A chart with its text alternative, and its data as a table behind a button.
   * spec: {title, note, key (of its series), label (text alternative), height, option(color), data() ({columns, count}), click(event)}
   * Charts are drawn when they come near the visible part of the page, and again if the theme changes.
   */
  function chart(page, spec) {
    const plot = h('div', { class: 'plot', role: 'img', 'aria-label': spec.label });
    const figure = h('figure', { class: 'chart' },
      spec.title ? h('figcaption', {}, spec.title) : null,
      spec.note ? h('p', { class: 'note' }, spec.note) : null, spec.key ? keyOf(spec.key) : null, plot);
    if (spec.data) figure.append(dataOf(spec));
    const one = { spec, plot, instance: null, seen: false };
    one.draw = () => {
      plot.style.height = (typeof spec.height === 'function' ? spec.height() : spec.height) + 'px';
      if (!one.seen) return;
      if (!one.instance) {
        one.instance = echarts.init(plot, null, { renderer: 'svg' });
        if (spec.click) one.instance.on('click', spec.click);
        if (spec.ready) spec.ready(one.instance);
      }
      const color = theme(page.root);
      one.instance.resize();
      one.instance.setOption(Object.assign(base(color), spec.option(color)), { notMerge: true });
    };
    one.show = () => { if (!one.seen) { one.seen = true; one.draw(); } };
    plot.style.height = (typeof spec.height === 'function' ? spec.height() : spec.height) + 'px';
    page.charts.push(one);
    page.watch(plot, one);
    figure.redraw = (label) => { if (label) plot.setAttribute('aria-label', label); one.draw(); };
    return figure;
  }

  /** The data of a chart as a table, made when it is opened. */
  function dataOf(spec) {
    const body = h('div', {});
    const details = h('details', { class: 'data' }, h('summary', {}, 'Data of this chart as a table'), body);
    details.addEventListener('toggle', () => {
      if (details.open) fill(body, dataTable(Object.assign({ caption: spec.title || spec.label, rows: 10 }, spec.data())));
    });
    return details;
  }

  // ---------------------------------------------------------------- tables

  /**
   * A table that sorts, filters and turns pages.
   * spec: {caption, columns, count, rows (of a page), filter (bool), choices, selected(i), note, sort}
   * column: {title, number (bool), value(i) (for the order), text(i), node(i) (instead of text), wide or middle (its least width)}
   */
  function dataTable(spec) {
    const view = { sort: spec.sort || null, page: 0, rows: spec.rows || 25, text: '', choice: '' };
    const id = newID('table');
    const body = h('tbody', {});
    const status = h('span', { class: 'status', role: 'status' });
    const heads = spec.columns.map((column, i) => headOf(column, () => {
      const down = view.sort && view.sort.column === i ? !view.sort.down : !!column.number;
      view.sort = { column: i, down };
      view.page = 0;
      update();
    }));
    let order = [];

    function matches(i) {
      if (view.choice && !spec.choices.match(i, view.choice)) return false;
      if (!view.text) return true;
      return spec.columns.some((column) => column.text && column.text(i).toLowerCase().includes(view.text));
    }

    function arrange() {
      order = [];
      for (let i = 0; i < spec.count; i++) if (matches(i)) order.push(i);
      if (!view.sort) return;
      const column = spec.columns[view.sort.column];
      const sign = view.sort.down ? -1 : 1;
      const value = column.value || column.text;
      order.sort((a, b) => compare(value(a), value(b), sign) || a - b);
    }

    function update() {
      arrange();
      show();
    }

    function show() {
      const pages = Math.max(1, Math.ceil(order.length / view.rows));
      view.page = Math.max(0, Math.min(view.page, pages - 1));
      const from = view.page * view.rows;
      fill(body, order.slice(from, from + view.rows).map((i) => rowOf(spec, i)),
        order.length ? null : h('tr', {}, h('td', { colspan: spec.columns.length, class: 'empty' }, 'No row has this text.')));
      heads.forEach((head, i) => {
        const sorted = view.sort && view.sort.column === i;
        head.setAttribute('aria-sort', sorted ? (view.sort.down ? 'descending' : 'ascending') : 'none');
      });
      status.textContent = order.length ? grouped(from + 1) + '–' + grouped(Math.min(order.length, from + view.rows)) + ' of ' + grouped(order.length)
        + (order.length < spec.count ? ' (of ' + grouped(spec.count) + ')' : '') : '0 of ' + grouped(spec.count);
      previous.disabled = view.page === 0;
      next.disabled = view.page >= pages - 1;
    }

    const turn = (by) => () => { view.page += by; show(); };
    const previous = h('button', { type: 'button', class: 'small', on: { click: turn(-1) } }, 'Previous');
    const next = h('button', { type: 'button', class: 'small', on: { click: turn(1) } }, 'Next');
    const bar = h('div', { class: 'bar' });
    if (spec.filter) {
      bar.append(h('label', { class: 'field' }, h('span', {}, 'Filter'), h('input', {
        type: 'search', placeholder: 'text in any column', autocomplete: 'off', spellcheck: 'false',
        on: { input: (e) => { view.text = e.target.value.trim().toLowerCase(); view.page = 0; update(); } },
      })));
    }
    if (spec.choices) {
      bar.append(h('label', { class: 'field' }, h('span', {}, spec.choices.title), h('select', {
        on: { change: (e) => { view.choice = e.target.value; view.page = 0; update(); } },
      }, h('option', { value: '' }, 'all'), spec.choices.values.map((v) => h('option', { value: v }, v)))));
    }
    bar.append(h('div', { class: 'pager' }, status, spec.count > view.rows ? [previous, next] : null));
    const printed = h('p', { class: 'note only-print' });
    const element = h('div', { class: 'table' }, bar,
      h('div', { class: 'scroll', role: 'group', tabindex: 0, 'aria-labelledby': id },
        h('table', {}, h('caption', { id, class: 'hidden' }, spec.caption), h('thead', {}, h('tr', {}, heads)), body)), printed);
    element.update = update;
    element.refresh = show;
    /** Shows the page with a row. */
    element.reveal = (i) => {
      let at = order.indexOf(i);
      if (at < 0) {
        view.text = view.choice = '';
        for (const field of bar.querySelectorAll('input, select')) field.value = '';
        update();
        at = order.indexOf(i);
      }
      view.page = Math.floor(at / view.rows);
      show();
      const row = body.querySelector('.selected');
      if (row) row.scrollIntoView({ block: 'center' });
    };
    /** On paper a table shows its first rows in its order, and says so. */
    element.print = (on) => {
      const rows = view.rows;
      if (on) { view.rows = 50; view.page = 0; }
      show();
      view.rows = rows;
      printed.textContent = on && order.length > 50 ? 'The first 50 of ' + plural(order.length, 'row') + ' are printed; the page on a screen shows all.' : '';
    };
    element.classList.add('printable');
    update();
    return element;
  }

  function compare(a, b, sign) {
    // What is not known comes last in both directions.
    if (!known(a) || !known(b)) return (known(a) ? 0 : 1) - (known(b) ? 0 : 1);
    if (typeof a === 'number' && typeof b === 'number') return sign * (a - b);
    return sign * String(a).localeCompare(String(b), 'en', { numeric: true });
  }

  function headOf(column, click) {
    return h('th', { scope: 'col', class: column.number ? 'number' : null, 'aria-sort': 'none' },
      h('button', { type: 'button', class: 'sort', on: { click } }, column.title, h('span', { class: 'arrow', 'aria-hidden': 'true' })));
  }

  function rowOf(spec, i) {
    const selected = spec.selected && spec.selected(i);
    return h('tr', { class: selected ? 'selected' : null }, spec.columns.map((column, c) => {
      const content = column.node ? column.node(i) : column.text(i);
      const kind = [column.number ? 'number' : '', column.wide ? 'wide' : '', column.middle ? 'middle' : ''].join(' ').trim();
      return h(c === 0 ? 'th' : 'td', { scope: c === 0 ? 'row' : null, class: kind || null }, content);
    }));
  }

  // ---------------------------------------------------------------- who holds what

  /** The measures of a card in px, for which tiles are laid out; they stretch with the card. */
  const CARD = { width: 150, height: 150, least: 50, most: 60 };

  /** What the area of a tile stands for: bytes, or time if the document has times of shards. */
  const measure = (m, state) => (state.by === 'time' && m.shardTimes ? m.shards.time_ms : m.shards.bytes);
  const measured = (m, state) => (state.by === 'time' && m.shardTimes ? ms : bytes);

  /** The times of a host are those of its mean device, so that they compare with the step. */
  const share = (m, state, unit) => (measure(m, state) === m.shards.bytes ? 1 : 1 / unit.devices.length);

  const sumOf = (values, shards) => shards.reduce((sum, s) => sum + values[s], 0);

  /**
   * What a copy measures on device d over its measure in the document, which is the mean of all
   * devices: with it the times of a device's shards add up to its busy time.
   */
  function copied(m, state, d) {
    const values = measure(m, state);
    const all = sumOf(values, m.copies);
    return values === m.shards.bytes || !(all > 0) ? 1 : Math.max(0, m.busy[d] - sumOf(values, m.byDevice[d])) / all;
  }

  /** The sum of the measure over the shards of a unit. */
  function load(m, state, unit) {
    const values = measure(m, state);
    const copies = sumOf(values, m.copies);
    return unit.devices.reduce((sum, d) => sum + sumOf(values, m.byDevice[d]) + copies * copied(m, state, d), 0) * share(m, state, unit);
  }

  /** The load of the fullest card shown, of all plans: it fills its frame. */
  const fullest = (page, state) => Math.max(Number.MIN_VALUE,
    ...page.models.flatMap((m) => windowOf(units(m, state), state).map((u) => load(m, state, u))));

  /** The tiles of a unit, largest first: a shard each, or on a host a table each. */
  function tilesOf(m, state, unit) {
    const values = measure(m, state);
    if (unit.devices.length === 1) {
      const d = unit.devices[0], part = copied(m, state, d);
      const tile = (times) => (s) => ({ tables: [m.shards.table[s]], shards: [s], value: values[s] * times });
      return m.byDevice[d].map(tile(1)).concat(m.copies.map(tile(part))).sort((a, b) => b.value - a.value);
    }
    const byTable = new Map();
    const add = (s, times) => {
      const table = m.shards.table[s];
      const tile = byTable.get(table) || { tables: [table], shards: [], value: 0 };
      tile.shards.push(s);
      tile.value += values[s] * times * share(m, state, unit);
      byTable.set(table, tile);
    };
    for (const d of unit.devices) m.byDevice[d].forEach((s) => add(s, 1));
    const times = unit.devices.reduce((sum, d) => sum + copied(m, state, d), 0);
    m.copies.forEach((s) => add(s, times));
    return [...byTable.values()].sort((a, b) => b.value - a.value);
  }

  /** Joins the tiles that are too small to see into one; scale is the load of a full card. */
  function joined(tiles, scale) {
    const area = (v) => (v / scale) * CARD.width * CARD.height;
    let keep = tiles.findIndex((t, i) => i >= CARD.most || area(t.value) < CARD.least);
    if (keep < 0 || keep >= tiles.length - 1) return tiles;
    const rest = tiles.slice(keep);
    return tiles.slice(0, keep).concat({
      tables: rest.flatMap((t) => t.tables), shards: rest.flatMap((t) => t.shards),
      value: rest.reduce((sum, t) => sum + t.value, 0), joined: rest.length,
    });
  }

  /**
   * Lays values out as rectangles whose areas are in the values' ratio and which are nearly
   * square (Bruls, Huizing, van Wijk: Squarified Treemaps, 2000).
   * @param {number[]} values positive, largest first
   * @returns {{x: number, y: number, w: number, h: number}[]}
   */
  function squarify(values, width, height) {
    const sum = values.reduce((a, b) => a + b, 0);
    const areas = values.map((v) => (v / sum) * width * height);
    const rectangles = [];
    let x = 0, y = 0, w = width, hh = height, i = 0;
    while (i < areas.length) {
      const side = Math.min(w, hh);
      let end = i + 1, total = areas[i], worst = worstOf(areas[i], areas[i], total, side);
      while (end < areas.length) {
        const next = worstOf(areas[i], areas[end], total + areas[end], side);
        if (next > worst) break;
        worst = next;
        total += areas[end++];
      }
      const thick = total / side;
      let along = 0;
      for (; i < end; i++) {
        const long = areas[i] / thick;
        rectangles.push(w >= hh ? { x, y: y + along, w: thick, h: long } : { x: x + along, y, w: long, h: thick });
        along += long;
      }
      if (w >= hh) { x += thick; w -= thick; } else { y += thick; hh -= thick; }
    }
    return rectangles;
  }

  /** The worst ratio of sides in a row of areas, from the largest to the smallest. */
  const worstOf = (largest, smallest, total, side) =>
    Math.max((side * side * largest) / (total * total), (total * total) / (side * side * smallest));

  /** What a tile says to a screen reader and in its tooltip. */
  function tileWords(m, state, tile) {
    const value = measured(m, state)(tile.value);
    if (tile.joined) return { title: plural(tile.joined, 'small shard'), rows: [[state.by === 'time' ? 'Time' : 'Size', value]] };
    const t = tile.tables[0], s = tile.shards[0];
    const rows = [['Sharding type', m.tables.sharding_type[t]]];
    rows.push(['Part', tile.shards.length > 1 ? plural(tile.shards.length, 'shard') : slice(m, s)]);
    const sum = (values) => tile.shards.reduce((a, i) => a + values[i], 0);
    rows.push(['Size', bytes(sum(m.shards.bytes)) + (tile.shards.length > 1 ? ' in all' : '')]);
    if (m.shardTimes) rows.push(['Time', ms(sum(m.shards.time_ms))]);
    if (m.shards.tier[s] && m.shards.tier[s] !== 'hbm') rows.push(['Tier', TIERS[m.shards.tier[s]] || m.shards.tier[s]]);
    return { title: m.tables.name[t], rows };
  }

  /** The picture of one plan: a card for each device or host of the window. */
  function picture(page, m) {
    const { store } = page;
    const cards = h('div', { class: 'cards', role: 'group', 'aria-label': 'Devices and their tables; arrow keys move between tiles, Enter selects a table' });
    let tiles = []; // {element, tile, card}

    function draw() {
      const { state } = store;
      const all = units(m, state);
      const shown = windowOf(all, state);
      const scale = fullest(page, state);
      tiles = [];
      const grouped = state.level === 'device' && state.order === 'number' && m.hosts > 1;
      cards.classList.toggle('flat', !grouped);
      cards.classList.toggle('small-hosts', grouped && m.perHost <= 4);
      if (!grouped) fill(cards, shown.map((u, i) => card(u, i, scale)));
      else {
        const hosts = [...new Set(shown.map((u) => u.host))];
        fill(cards, hosts.map((host) => h('div', { class: 'host', role: 'group', 'aria-label': 'Host ' + host },
          h('div', { class: 'host-name', 'aria-hidden': 'true' }, 'Host ' + host),
          h('div', { class: 'host-cards' }, shown.map((u, i) => (u.host === host ? card(u, i, scale) : null))))));
      }
      if (tiles.length) tiles[0].element.tabIndex = 0;
      mark();
    }

    function card(unit, at, scale) {
      const { state } = store;
      const total = load(m, state, unit);
      const list = joined(tilesOf(m, state, unit).filter((t) => t.value > 0), scale);
      const body = h('div', { class: 'tiles' });
      const rectangles = total > 0 ? squarify(list.map((t) => t.value), CARD.width, (CARD.height * total) / scale) : [];
      rectangles.forEach((r, i) => body.append(tileElement(list[i], r, CARD.height * (1 - total / scale), at)));
      const value = measured(m, state)(total);
      const name = h('button', { type: 'button', class: 'card-name', on: { click: () => page.select({ device: unit.busiest }) } },
        h('span', { class: 'card-title' }, unit.label, unit.critical ? h('span', { class: 'mark' }, h('span', { 'aria-hidden': 'true' }, ' ◆'), h('span', { class: 'hidden' }, ' (critical)')) : null),
        h('span', { class: 'card-value' }, value));
      const element = h('div', { class: 'card' }, name, body);
      element.devices = unit.devices;
      return element;
    }

    function tileElement(tile, r, top, at) {
      const { state } = store;
      const words = tileWords(m, state, tile);
      const s = tile.shards[0];
      const tier = !tile.joined && m.shards.tier[s] && m.shards.tier[s] !== 'hbm' ? ' tier-' + (m.shards.tier[s] === 'host' ? 'host' : 'cached') : '';
      const element = h('button', {
        type: 'button', tabindex: -1,
        class: 'tile ' + (tile.joined ? 'type-many' : typeClass(m.tables.sharding_type[tile.tables[0]])) + tier,
        'aria-label': [words.title].concat(words.rows.map(([k, v]) => k.toLowerCase() + ' ' + v)).join(', '),
      }, r.w > (tile.joined ? 34 : 26) && r.h > 15 ? h('span', {}, tile.joined ? '+' + tile.joined : words.title) : null);
      Object.assign(element.style, {
        left: (100 * r.x) / CARD.width + '%', top: (100 * (top + r.y)) / CARD.height + '%',
        width: (100 * r.w) / CARD.width + '%', height: (100 * r.h) / CARD.height + '%',
      });
      const entry = { element, tile, words, at };
      element.addEventListener('click', () => choose(entry));
      tiles.push(entry);
      return element;
    }

    function choose(entry) {
      if (entry.tile.joined) page.announce(entry.words.title + ', ' + entry.words.rows[0][1]);
      else page.select({ table: m.tables.name[entry.tile.tables[0]] });
    }

    /** Marks the tiles of the selected table, and the card of the selected device. */
    function mark() {
      const { state } = store;
      const table = state.table === null ? -1 : m.tables.name.indexOf(state.table);
      cards.classList.toggle('chosen', table >= 0);
      for (const { element, tile } of tiles) element.classList.toggle('on', table >= 0 && tile.tables.includes(table));
      for (const element of cards.querySelectorAll('.card')) {
        element.classList.toggle('on', element.devices.includes(state.device));
      }
    }

    cards.addEventListener('keydown', (event) => {
      const i = tiles.findIndex((t) => t.element === event.target);
      if (i < 0) return;
      const to = neighbour(tiles, i, event.key);
      if (to === null) return;
      event.preventDefault();
      tiles[i].element.tabIndex = -1;
      tiles[to].element.tabIndex = 0;
      tiles[to].element.focus();
    });
    tooltips(page, cards, (element) => tiles.find((t) => t.element === element));
    store.on(['by', 'level', 'order', 'from', 'size'], draw);
    store.on(['table', 'device'], mark);
    draw();
    return h('div', { class: 'picture' }, cards);
  }

  /** The tile that a key leads to from tile i, or null. */
  function neighbour(tiles, i, key) {
    const card = (step) => {
      const wanted = tiles[i].at + step;
      const first = tiles.findIndex((t) => t.at === wanted);
      return first < 0 ? i : first;
    };
    switch (key) {
      case 'ArrowRight': return Math.min(i + 1, tiles.length - 1);
      case 'ArrowLeft': return Math.max(i - 1, 0);
      case 'ArrowDown': return card(1);
      case 'ArrowUp': return card(-1);
      case 'Home': return 0;
      case 'End': return tiles.length - 1;
    }
    return null;
  }

  /** One tooltip for the tiles in an element, for the pointer and for the focus. */
  function tooltips(page, element, entryOf) {
    const show = (event) => {
      const target = event.target.closest && event.target.closest('.tile');
      const entry = target && entryOf(target);
      if (!entry) return page.tooltip(null);
      page.tooltip(tip(entry.words.title, entry.words.rows), target.getBoundingClientRect());
    };
    element.addEventListener('pointerover', show);
    element.addEventListener('focusin', show);
    element.addEventListener('pointerleave', () => page.tooltip(null));
    element.addEventListener('focusout', () => page.tooltip(null));
    element.addEventListener('keydown', (event) => { if (event.key === 'Escape') page.tooltip(null); });
  }

  /** The key of colours and patterns: the sharding types and tiers that the plans have. */
  function key(models) {
    const types = TYPES.filter((t) => models.some((m) => list(m.plan.sharding_types).some((c) => c.name === t && c.tables > 0)));
    const tiers = ['host', 'host_cached'].filter((t) => models.some((m) => m.shards.tier.includes(t)));
    return h('ul', { class: 'key', 'aria-label': 'Key of the tiles' },
      types.map((type) => h('li', {}, h('span', { class: 'swatch ' + typeClass(type) }), type,
        h('span', { class: 'muted' }, models.map((m) => list(m.plan.sharding_types).filter((c) => c.name === type).map((c) => count(c.tables))).flat().join(' → ')))),
      tiers.map((tier) => h('li', {}, h('span', { class: 'swatch type-other tier-' + (tier === 'host' ? 'host' : 'cached') }), TIERS[tier])));
  }

  // ---------------------------------------------------------------- controls of the devices

  function choice(page, title, name, values) {
    const select = h('select', { on: { change: () => page.store.set({ [name]: Number.isFinite(values[0][0]) ? Number(select.value) : select.value, ...(name === 'size' ? {} : { from: 0 }) }) } },
      values.map(([value, text]) => h('option', { value }, text)));
    select.value = String(page.store.state[name]);
    page.store.on([name], () => { select.value = String(page.store.state[name]); });
    return h('label', { class: 'field' }, h('span', {}, title), select);
  }

  /** The controls that choose which devices the picture, the step and the memory show. */
  function deviceControls(page, m) {
    const { store } = page;
    const status = h('span', { class: 'status', role: 'status' });
    const move = (by) => () => store.set({ from: clamp(store.state.from + by * store.state.size) });
    const clamp = (from) => Math.max(0, Math.min(from, units(m, store.state).length - store.state.size));
    const previous = h('button', { type: 'button', class: 'small', on: { click: move(-1) } }, 'Previous');
    const next = h('button', { type: 'button', class: 'small', on: { click: move(1) } }, 'Next');
    const pager = h('div', { class: 'pager' }, status, previous, next);
    const update = () => {
      const all = units(m, store.state), shown = windowOf(all, store.state);
      const word = store.state.level === 'host' ? 'host' : 'device';
      const from = all.indexOf(shown[0]);
      const many = all.length > shown.length;
      status.textContent = many ? grouped(from + 1) + '–' + grouped(from + shown.length) + ' of ' + plural(all.length, word) : plural(all.length, word);
      previous.hidden = next.hidden = !many;
      previous.disabled = from <= 0;
      next.disabled = from + shown.length >= all.length;
    };
    store.on(['level', 'order', 'from', 'size'], update);
    update();
    return h('div', { class: 'bar' },
      m.shardTimes ? choice(page, 'Area of a tile', 'by', [['bytes', 'bytes'], ['time', 'time']]) : null,
      m.hosts > 1 ? choice(page, 'Show', 'level', [['device', 'devices'], ['host', 'hosts']]) : null,
      m.devices.count > 1 ? choice(page, 'Order', 'order', [['number', 'by number']].concat(m.timed ? [['time', 'busiest first']] : [], [['memory', 'fullest first']])) : null,
      m.devices.count > 16 ? choice(page, 'At once', 'size', [[8, '8'], [16, '16'], [32, '32'], [64, '64']]) : null,
      m.critical >= 0 ? h('button', { type: 'button', class: 'small', on: { click: () => page.select({ device: m.critical }) } }, 'Critical device') : null,
      pager);
  }

  /** The overview of all devices, above a window that is dragged over it. */
  function overview(page, m) {
    const { store } = page;
    const what = () => (store.state.order === 'memory' || !m.timed ? 'memory' : 'time');
    const spec = {
      title: 'Overview',
      height: 72,
      label: '',
      option(color) {
        const all = units(m, store.state), shown = windowOf(all, store.state);
        const from = all.indexOf(shown[0]);
        // Bars of less than a pixel would be a moiré: many devices are one area.
        const many = all.length > 200;
        const bars = {
          type: many ? 'line' : 'bar', step: many ? 'middle' : false, showSymbol: false, lineStyle: { width: 0 }, areaStyle: many ? { color: color('c-overview'), opacity: 1 } : undefined,
          data: all.map((u) => u[what()]), itemStyle: { color: color('c-overview'), decal: { symbol: 'none' } }, barCategoryGap: '15%', barMinHeight: 1, silent: true,
        };
        const critical = all.findIndex((u) => u.critical);
        const hiddenAxis = { type: 'category', data: all.map((u) => u.label), show: false };
        return {
          grid: [{ left: 1, right: 1, top: 8, bottom: 1 }, { left: 1, right: 1, top: 8, bottom: 1 }],
          tooltip: { show: false },
          xAxis: [Object.assign({ gridIndex: 0 }, hiddenAxis), Object.assign({ gridIndex: 1 }, hiddenAxis)],
          yAxis: [{ gridIndex: 0, show: false, type: 'value', min: 0 }, { gridIndex: 1, show: false }],
          dataZoom: [{
            type: 'slider', xAxisIndex: 1, startValue: from, endValue: from + shown.length - 1, left: 1, right: 1, top: 0, height: 72,
            showDataShadow: false, showDetail: false, brushSelect: false, zoomLock: true, backgroundColor: 'transparent', borderColor: 'transparent', moveHandleSize: 0,
            fillerColor: color('window'), handleStyle: { color: color('surface'), borderColor: color('accent') },
            handleSize: 0, filterMode: 'none',
          }],
          series: [bars, {
            type: 'scatter', symbol: 'diamond', symbolSize: 9, silent: true, itemStyle: { color: color('critical') }, z: 5,
            data: critical < 0 ? [] : [[critical, all[critical][what()]]],
          }, { type: 'line', xAxisIndex: 1, yAxisIndex: 1, data: [] }],
        };
      },
      ready(instance) {
        instance.on('datazoom', () => {
          const zoom = instance.getOption().dataZoom[0];
          store.set({ from: Math.max(0, Math.round(zoom.startValue)) });
        });
      },
    };
    const describe = () => 'Bars of the ' + (what() === 'memory' ? (m.uneven ? 'share of its own memory in use' : 'memory in use') : 'busy time') + ' of all ' + (store.state.level === 'host' ? 'hosts' : 'devices')
      + '. The window shows what the charts below show; the buttons above move it.';
    spec.label = describe();
    const figure = chart(page, spec);
    const toggle = () => { figure.hidden = units(m, store.state).length <= store.state.size; };
    store.on(['level', 'order', 'size'], () => { toggle(); figure.redraw(describe()); });
    store.on(['from'], () => figure.redraw());
    toggle();
    return figure;
  }

  // ---------------------------------------------------------------- the step

  const rowHeight = (n) => (n > 40 ? 16 : n > 16 ? 20 : 26);

  /** The label of a row in a chart of devices. */
  const rowLabel = (unit, device) => (unit.devices.length > 1 ? unit.label + ', device ' + device : unit.label);

  /** A y axis with a row for each device; the critical one is marked. */
  function deviceAxis(color, labels, critical) {
    return Object.assign(axisLook(color), {
      type: 'category', inverse: true, data: labels, splitLine: { show: false },
      axisLabel: {
        color: color('text'), fontSize: 12, interval: 0,
        formatter: (value, i) => (i === critical ? '{critical|◆ ' + value + '}' : value),
        rich: { critical: { color: color('critical'), fontWeight: 'bold', fontSize: 12 } },
      },
    });
  }

  /** The step of the devices in the window as a timeline. most is the end of the time axis. */
  function timeline(page, m, most) {
    const { store } = page;
    const shown = () => windowOf(units(m, store.state), store.state);
    const hidden = list(m.devices.forward_hidden_ms).some((v) => v > 0) || list(m.devices.backward_hidden_ms).some((v) => v > 0);
    const times = (d) => PHASES.map((p) => list(p.of(m.devices))[d] || 0);
    const spec = {
      label: '',
      key: PHASES.map((p) => [p.key, p.title]).concat(hidden ? [['hidden', 'Hidden exchanges, not in the cost']] : []),
      height: () => shown().length * rowHeight(shown().length) + 44,
      option(color) {
        const rows = shown();
        const devices = rows.map((u) => u.busiest);
        const series = PHASES.map((phase, p) => ({
          name: phase.title, type: 'bar', stack: 'step', barCategoryGap: '28%', itemStyle: look(color, phase.key),
          data: devices.map((d) => times(d)[p]), emphasis: { disabled: true }, cursor: 'pointer',
        }));
        if (hidden) series.push(hiddenParts(color, m, devices));
        return {
          grid: { left: 4, right: 24, top: 4, bottom: 2, containLabel: true },
          xAxis: Object.assign(axisLook(color), { type: 'value', min: 0, max: most, name: 'ms', nameLocation: 'end', nameGap: 4, axisLabel: { color: color('muted'), fontSize: 12, showMaxLabel: false } }),
          yAxis: deviceAxis(color, rows.map((u) => rowLabel(u, u.busiest)), rows.findIndex((u) => u.critical)),
          tooltip: Object.assign(base(color).tooltip, {
            trigger: 'axis', axisPointer: { type: 'shadow', shadowStyle: { color: color('hover') } },
            formatter: (items) => {
              const i = items[0].dataIndex, d = devices[i];
              const facts = PHASES.map((p, k) => [p.title, ms(times(d)[k])]);
              if (hidden) facts.push(['Hidden, not in the cost', ms((m.devices.forward_hidden_ms[d] || 0) + (m.devices.backward_hidden_ms[d] || 0))]);
              facts.push(['Busy', ms(m.busy[d])]);
              return tip(rowLabel(rows[i], d) + (d === m.critical ? ' (critical)' : ''), facts);
            },
          }),
          series,
        };
      },
      click: (event) => page.select({ device: shown()[event.dataIndex].busiest }),
      data: () => ({
        count: m.devices.count,
        columns: [{ title: 'Device', number: true, value: (i) => i, text: (i) => String(i) }]
          .concat(PHASES.map((p) => ({ title: p.title + ', ms', number: true, value: (i) => list(p.of(m.devices))[i], text: (i) => significant(list(p.of(m.devices))[i] || 0) })))
          .concat(hidden ? [{ title: 'Hidden, ms', number: true, value: (i) => m.devices.forward_hidden_ms[i] + m.devices.backward_hidden_ms[i], text: (i) => significant(m.devices.forward_hidden_ms[i] + m.devices.backward_hidden_ms[i]) }] : [])
          .concat([{ title: 'Busy, ms', number: true, value: (i) => m.busy[i], text: (i) => significant(m.busy[i]) }]),
      }),
    };
    const describe = () => {
      const rows = shown();
      const c = m.critical;
      return 'Timeline of the step of ' + plural(rows.length, store.state.level) + ', from ' + rows[0].label + ' to ' + rows[rows.length - 1].label + '. '
        + (c >= 0 ? 'The critical device is ' + c + ' with a busy time of ' + ms(m.busy[c]) + '.' : '');
    };
    spec.label = describe();
    const figure = chart(page, spec);
    store.on(['level', 'order', 'from', 'size'], () => figure.redraw(describe()));
    return figure;
  }

  /** The hidden parts of the exchanges as thin bars below the row: they run beside the dense part. */
  function hiddenParts(color, m, devices) {
    const style = { fill: color('c-hidden') };
    const data = [];
    devices.forEach((d, row) => {
      const start = m.devices.forward_ms[d] + m.devices.wait_ms[d] + m.devices.forward_comm_ms[d];
      const forward = m.devices.forward_hidden_ms[d] || 0, backward = m.devices.backward_hidden_ms[d] || 0;
      if (forward > 0) data.push([row, start, start + forward, 1]);
      if (backward > 0) data.push([row, Math.max(0, start - backward), start, 0]);
    });
    return {
      name: 'Hidden exchanges, not in the cost', type: 'custom', data, encode: { x: [1, 2], y: 0 }, itemStyle: { color: style.fill, decal: { symbol: 'none' } }, silent: true, clip: true, tooltip: { show: false },
      renderItem(params, api) {
        const from = api.coord([api.value(1), api.value(0)]), to = api.coord([api.value(2), api.value(0)]);
        const tall = api.size([0, 1])[1];
        const y = from[1] + (api.value(3) ? tall * 0.38 : -tall * 0.38 - 4);
        return { type: 'rect', shape: { x: from[0], y, width: to[0] - from[0], height: 4 }, style };
      },
    };
  }

  // ---------------------------------------------------------------- memory

  /** The memory of the devices in the window, line by line, each against its own capacity. */
  function memory(page, m) {
    const used = m.devices.used_bytes;
    const lines = MEMORY.filter(([name]) => m.devices.memory.some((d) => d[name] > 0));
    const most = Math.max(...used, 1), largest = Math.max(...m.capacities);
    const fullest = used.reduce((best, _, d) => (m.filled(d) > m.filled(best) ? d : best), 0);
    const share = percent(used[fullest] / m.capacities[fullest]);
    const whole = used.some((v, d) => v > 0.2 * m.capacities[d]);
    return memoryChart(page, m, {
      lines, capacities: m.capacities, end: whole ? Math.max(largest, most) * 1.02 : most * 1.08, mark: whole || m.uneven,
      used: (d) => used[d],
      note: 'Tables may take ' + (m.uneven
        ? between(m.capacities) + ' of a device\'s memory, as marked; device ' + fullest + ' is the fullest and uses ' + share + ' of its own.'
        : bytes(largest) + ' of each device\'s memory; the fullest device uses ' + share + '.')
        + (whole ? '' : m.uneven ? ' The axis ends before the largest capacity.' : ' The axis ends before the capacity.'),
    });
  }

  /** The memory of hosts beside the devices; null if no table lies there. */
  function hostMemory(page, m) {
    const used = m.devices.memory.map((d) => d.host_bytes || 0);
    const most = Math.max(...used);
    if (!(most > 0)) return null;
    const largest = Math.max(...m.hostCapacities);
    return memoryChart(page, m, {
      title: 'Host memory beside each device', lines: [['host_bytes', 'Tables in host memory']], capacities: m.hostCapacities, end: Math.max(largest, most) * 1.02, mark: largest > 0,
      used: (d) => used[d], note: 'Tables may take ' + between(m.hostCapacities) + ' of host memory for each device' + (alike(m.hostCapacities) ? '.' : ', as marked.'),
    });
  }

  /** The range of a list of bytes in words: "40.00 GiB", or "40.00 GiB to 80.00 GiB". */
  const between = (values) => (alike(values) ? bytes(values[0]) : bytes(Math.min(...values)) + ' to ' + bytes(Math.max(...values)));

  /** What is used of a capacity in words: "34.00 GiB, 50 % of 68.00 GiB". */
  const usedOf = (used, capacity) => bytes(used) + (capacity > 0 ? ', ' + percent(used / capacity) + ' of ' + bytes(capacity) : '');

  /** The marks of the rows' own capacities: a line across each row. Rows and capacities are in the order of the axis. */
  function capacityMarks(color, capacities, end) {
    const style = { stroke: color('critical'), lineDash: [4, 3], lineWidth: 1.5, fill: 'none' };
    return {
      name: 'Capacity', type: 'custom', data: capacities.map((c, row) => [row, c]).filter(([, c]) => c <= end), encode: { x: 1, y: 0 },
      itemStyle: { color: style.stroke, decal: { symbol: 'none' } }, silent: true, clip: true, tooltip: { show: false }, z: 5,
      renderItem(params, api) {
        const [x, y] = api.coord([api.value(1), api.value(0)]), half = api.size([0, 1])[1] / 2;
        return { type: 'line', shape: { x1: x, y1: y - half, x2: x, y2: y + half }, style };
      },
    };
  }

  function memoryChart(page, m, of) {
    const { store } = page;
    const shown = () => windowOf(units(m, store.state), store.state);
    const [unitName, unit] = [['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]].find(([, size]) => of.end >= size) || ['B', 1];
    const own = !alike(of.capacities); // each row has a mark of its own
    const spec = {
      title: of.title, note: of.note, label: '', key: of.lines.map(([, title], i) => [String((i % 7) + 1), title]).concat(of.mark && own ? [['capacity', 'Capacity']] : []),
      height: () => shown().length * rowHeight(shown().length) + 44,
      option(color) {
        const rows = shown(), devices = rows.map((u) => u.fullest);
        const series = of.lines.map(([name, title], i) => ({
          name: title, type: 'bar', stack: 'memory', barCategoryGap: '28%', itemStyle: look(color, String((i % 7) + 1)),
          data: devices.map((d) => (m.devices.memory[d][name] || 0) / unit), emphasis: { disabled: true }, cursor: 'pointer',
        }));
        if (of.mark && own) series.push(capacityMarks(color, devices.map((d) => of.capacities[d] / unit), of.end / unit));
        else if (of.mark && series.length) {
          series[0].markLine = {
            silent: true, symbol: 'none', data: [{ xAxis: of.capacities[0] / unit }],
            lineStyle: { color: color('critical'), type: 'dashed', width: 1.5 }, label: { formatter: 'capacity', color: color('critical'), fontSize: 12, position: 'start', distance: 4 },
          };
        }
        return {
          grid: { left: 4, right: 36, top: 20, bottom: 2, containLabel: true },
          xAxis: Object.assign(axisLook(color), { type: 'value', min: 0, max: of.end / unit, name: unitName, nameLocation: 'end', nameGap: 4, axisLabel: { color: color('muted'), fontSize: 12, showMaxLabel: false } }),
          yAxis: deviceAxis(color, rows.map((u) => rowLabel(u, u.fullest) + (own ? ', ' + bytes(of.capacities[u.fullest]) : '')), -1),
          tooltip: Object.assign(base(color).tooltip, {
            trigger: 'axis', axisPointer: { type: 'shadow', shadowStyle: { color: color('hover') } },
            formatter: (items) => {
              const d = devices[items[0].dataIndex];
              return tip(rowLabel(rows[items[0].dataIndex], d), of.lines.map(([name, title]) => [title, bytes(m.devices.memory[d][name] || 0)])
                .concat([['In use', usedOf(of.used(d), of.capacities[d])]]));
            },
          }),
          series,
        };
      },
      click: (event) => page.select({ device: shown()[event.dataIndex].fullest }),
      data: () => ({
        count: m.devices.count,
        columns: [{ title: 'Device', number: true, value: (i) => i, text: (i) => String(i) }]
          .concat(of.lines.map(([name, title]) => ({ title, number: true, value: (i) => m.devices.memory[i][name] || 0, text: (i) => bytes(m.devices.memory[i][name] || 0) })))
          .concat([
            { title: 'In use', number: true, value: of.used, text: (i) => bytes(of.used(i)) },
            { title: 'Capacity', number: true, value: (i) => of.capacities[i], text: (i) => bytes(of.capacities[i]) },
            { title: 'Free', number: true, value: (i) => of.capacities[i] - of.used(i), text: (i) => bytes(of.capacities[i] - of.used(i)) },
          ]),
      }),
    };
    const describe = () => 'Memory of ' + plural(shown().length, store.state.level) + ' by lines, in ' + unitName + '. ' + of.note;
    spec.label = describe();
    const figure = chart(page, spec);
    store.on(['level', 'order', 'from', 'size'], () => figure.redraw(describe()));
    return figure;
  }

  // ---------------------------------------------------------------- figures at the head

  const figure = (title, value, note, kind) => h('div', { class: 'figure' + (kind ? ' ' + kind : '') }, h('dt', {}, title), h('dd', {}, h('span', { class: 'value' }, value), note ? h('span', { class: 'note' }, note) : null));

  /** The best valid baseline by the simulated cost, else by the predicted one. */
  function bestBaseline(plan) {
    const cost = (b) => (known(b.simulated_ms) ? b.simulated_ms : b.predicted_ms);
    return list(plan.baselines).filter((b) => b.valid && known(cost(b))).sort((a, b) => cost(a) - cost(b))[0] || null;
  }

  function figures(plan) {
    const { costs } = plan;
    const out = [];
    out.push(figure('Predicted cost', known(costs.predicted_ms) ? ms(costs.predicted_ms) : 'not known', costs.by, 'first'));
    if (known(costs.simulated_ms)) out.push(figure('Simulated cost', ms(costs.simulated_ms), 'SIMULATED device, not measured'));
    if (known(costs.gap)) out.push(figure('Gap to the bound', 'at most ' + percent(costs.gap), 'SIMULATED'));
    if (known(costs.balance)) out.push(figure('Balance', costs.balance.toFixed(3), 'busiest device over the mean; 1 is perfect'));
    const best = bestBaseline(plan);
    const [mine, others] = best && known(best.simulated_ms) ? [costs.simulated_ms, best.simulated_ms] : [costs.predicted_ms, best && best.predicted_ms];
    if (best && known(mine)) out.push(figure('Against the best baseline', change(others, mine), best.method + (known(best.simulated_ms) ? ', SIMULATED ' : ', ') + ms(others)));
    return h('dl', { class: 'figures' }, out);
  }

  /** The certificate: the bound, and the gap up to the cost, as one bar. */
  function certificate(plan) {
    const { simulated_ms: cost, lower_bound_ms: bound, certificate: words } = plan.costs;
    if (!known(cost) || !known(bound) || !(cost > 0)) return words ? h('p', { class: 'note' }, /^none: /.test(words) ? words.replace(/^none: /, 'No certificate: ') : words) : null;
    const share = Math.min(1, bound / cost);
    const proven = h('div', { class: 'proven' }), gap = h('div', { class: 'gap' });
    proven.style.width = 100 * share + '%';
    gap.style.width = 100 * (1 - share) + '%';
    return h('div', { class: 'certificate' },
      h('div', { class: 'certificate-bar', role: 'img', 'aria-label': 'Lower bound ' + ms(bound) + ' of the simulated cost ' + ms(cost) }, proven, gap),
      h('div', { class: 'certificate-ends', 'aria-hidden': 'true' }, h('span', {}, 'no plan costs less than ' + ms(bound)), h('span', {}, 'this plan ' + ms(cost))),
      h('p', {}, words));
  }

  const warnings = (lines) => (list(lines).length ? h('div', { class: 'warnings' }, h('h3', {}, plural(lines.length, 'warning')), h('ul', {}, lines.map((w) => h('li', {}, w)))) : null);

  // ---------------------------------------------------------------- sections

  /** Names of sections in the bar at the top, where they are shorter than their headings. */
  const SHORT = { placement: 'Placement', step: 'Step', whole: 'Whole step', sweep: 'Sweep', changes: 'Changes' };

  /** A section with a heading; it gets a link at the top of the page. */
  function section(page, id, title, ...children) {
    const heading = newID(id);
    page.sections.push([id, SHORT[id] || title]);
    return h('section', { id: page.anchor(id), class: 'section section-' + id, 'aria-labelledby': heading }, h('h2', { id: heading, tabindex: -1 }, title), children);
  }

  /** One column for each plan, with its name if there are two. */
  function pair(page, make) {
    if (page.models.length === 1) return make(page.models[0], 0);
    return h('div', { class: 'pair' }, page.models.map((m, i) => h('div', { class: 'half' }, h('h3', {}, planName(page, i)), make(m, i))));
  }

  const planName = (page, i) => (page.models.length > 1 ? ['Before: ', 'After: '][i] + page.models[i].plan.name : page.models[i].plan.name);

  function overviewSection(page) {
    if (!page.models.length) return null;
    return section(page, 'costs', 'Costs', pair(page, (m) => h('div', {}, page.models.length > 1 ? h('p', { class: 'summary' }, m.plan.summary) : null,
      figures(m.plan), certificate(m.plan), warnings(m.plan.warnings))));
  }

  function placementSection(page) {
    if (!page.models.length) return null;
    const m = page.models[0];
    return section(page, 'placement', 'Who holds what',
      h('p', { class: 'lead' }, page.models.length > 1 || m.devices.count > 1
        ? 'Each card is a device, and each tile a shard of a table. The fullest card shown fills its frame. Select a table to see it everywhere.'
        : 'The card is the device, and each tile a shard. Select a table to see it everywhere.'),
      deviceControls(page, m), overview(page, m), key(page.models), pair(page, (one) => picture(page, one)));
  }

  function stepSection(page) {
    const timed = page.models.filter((m) => m.timed);
    if (!timed.length) return null;
    const most = Math.max(...timed.map((m) => Math.max(...m.busy.map((b, d) => b + (m.devices.wait_ms[d] || 0))))) * 1.04;
    return section(page, 'step', 'The step',
      h('p', { class: 'lead' }, 'Devices work from left to right and wait for the slowest before the exchange. Times are predicted' + (timed.some((m) => /SIMULATED/.test(m.plan.costs.by)) ? ' (SIMULATED).' : '.')),
      pair(page, (m) => (m.timed ? h('div', {}, why(page, m), timeline(page, m, most)) : h('p', { class: 'note' }, 'This plan has no predicted times.'))));
  }

  function why(page, m) {
    const lines = list(m.plan.critical && m.plan.critical.lines);
    if (!lines.length) return null;
    return h('div', { class: 'why' }, h('p', { class: 'why-first' }, h('span', { class: 'mark', 'aria-hidden': 'true' }, '◆'), lines[0]),
      lines.length > 1 ? h('ul', {}, lines.slice(1).map((l) => h('li', {}, l))) : null);
  }

  function memorySection(page) {
    if (!page.models.length) return null;
    return section(page, 'memory', 'Memory', pair(page, (m) => h('div', {}, memory(page, m), hostMemory(page, m))));
  }

  /** Buttons that choose one of two plans, for views that show one. */
  function planChoice(page) {
    if (page.models.length < 2) return null;
    const buttons = page.models.map((_, i) => h('button', { type: 'button', 'aria-pressed': String(page.store.state.shown === i), on: { click: () => page.store.set({ shown: i }) } }, planName(page, i)));
    page.store.on(['shown'], () => buttons.forEach((b, i) => b.setAttribute('aria-pressed', String(page.store.state.shown === i))));
    return h('div', { class: 'segments', role: 'group', 'aria-label': 'Plan' }, buttons);
  }

  function tablesSection(page) {
    if (!page.models.length) return null;
    const place = h('div', {});
    const draw = () => {
      page.tables = tablesTable(page, page.models[page.store.state.shown]);
      fill(place, page.tables);
    };
    page.store.on(['shown'], draw);
    page.store.on(['table'], () => page.tables.refresh());
    draw();
    return section(page, 'tables', 'Tables', planChoice(page), place);
  }

  function tablesTable(page, m) {
    const t = m.tables;
    const cost = m.plan.costs.predicted_ms;
    const has = (values) => list(values).length > 0;
    const columns = [
      { title: 'Table', text: (i) => t.name[i], node: (i) => h('button', { type: 'button', class: 'link', on: { click: () => page.select({ table: t.name[i] }) } }, t.name[i]) },
      { title: 'Sharding type', text: (i) => t.sharding_type[i], node: (i) => h('span', { class: 'typed' }, h('span', { class: 'swatch ' + typeClass(t.sharding_type[i]), 'aria-hidden': 'true' }), t.sharding_type[i]) },
      { title: 'Rows', number: true, value: (i) => t.rows[i], text: (i) => count(t.rows[i]) },
      { title: 'Dim', number: true, value: (i) => t.dim[i], text: (i) => count(t.dim[i]) },
      { title: 'Size', number: true, value: (i) => t.bytes[i], text: (i) => bytes(t.bytes[i]) },
    ];
    if (has(t.pooling)) columns.push({ title: 'Lookups', number: true, value: (i) => t.pooling[i], text: (i) => significant(t.pooling[i]) });
    if (has(t.vectors)) columns.push({ title: 'Vectors a sample', middle: true, text: (i) => t.vectors[i] || 'one for each feature' });
    if (has(t.time_ms)) columns.push({ title: 'Time, ms', number: true, value: (i) => t.time_ms[i], text: (i) => significant(t.time_ms[i]) });
    columns.push({ title: 'Shards', number: true, value: (i) => m.byTable[i].length, text: (i) => count(m.byTable[i].length) });
    columns.push({ title: 'Devices', text: (i) => devicesOf(m, i, 4) });
    if (list(t.reason).some(Boolean)) columns.push({ title: 'Why here', wide: true, text: (i) => t.reason[i] });
    if (has(t.alternative)) {
      columns.push({ title: 'Best alternative', middle: true, text: (i) => t.alternative[i] || '–' });
      columns.push({ title: 'Its cost, ms', number: true, value: (i) => t.alternative_cost_ms[i], text: (i) => (known(t.alternative_cost_ms[i]) ? significant(t.alternative_cost_ms[i]) : '–'), node: (i) => costNode(t.alternative_cost_ms[i], cost) });
    }
    const bySize = has(t.time_ms) ? columns.findIndex((c) => c.title === 'Time, ms') : 4;
    return dataTable({
      caption: 'Tables of ' + m.plan.name, columns, count: t.count, rows: 20, filter: true, sort: { column: bySize, down: true },
      selected: (i) => t.name[i] === page.store.state.table,
      choices: { title: 'Sharding type', values: TYPES.filter((type) => t.sharding_type.includes(type)), match: (i, v) => t.sharding_type[i] === v },
    });
  }

  const costNode = (alternative, cost) => (known(alternative)
    ? h('span', {}, significant(alternative), known(cost) ? h('span', { class: 'muted block' }, change(cost, alternative)) : null) : '–');

  function baselinesSection(page) {
    const with_ = page.models.filter((m) => list(m.plan.baselines).length);
    if (!with_.length) return null;
    return section(page, 'baselines', 'Baselines', pair(page, (m) => (list(m.plan.baselines).length ? baselines(page, m) : h('p', { class: 'note' }, 'This plan was not compared with baselines.'))));
  }

  function baselines(page, m) {
    const { plan } = m;
    const simulated = list(plan.baselines).some((b) => known(b.simulated_ms));
    const cost = (b) => (simulated ? b.simulated_ms : b.predicted_ms);
    const mine = { method: 'this plan', valid: true, simulated_ms: plan.costs.simulated_ms, predicted_ms: plan.costs.predicted_ms, mine: true };
    const all = [mine].concat(plan.baselines).filter((b) => b.valid && known(cost(b))).sort((a, b) => cost(a) - cost(b));
    const bad = plan.baselines.filter((b) => !b.valid).map((b) => b.method + (b.reason ? ' (' + b.reason + ')' : ''));
    const timed = plan.baselines.some((b) => known(b.wall_ms));
    return h('div', {}, chart(page, {
      title: (simulated ? 'SIMULATED' : 'Predicted') + ' cost of plans by other methods, ms',
      note: bad.length ? 'No valid plan: ' + bad.join(', ') + '.' : null,
      label: 'Bars of costs: ' + all.map((b) => b.method + ' ' + ms(cost(b))).join(', '),
      height: all.length * 28 + 16,
      option: (color) => ({
        tooltip: { show: false },
        grid: { left: 4, right: 90, top: 4, bottom: 4, containLabel: true },
        xAxis: { type: 'value', show: false, min: 0 },
        yAxis: Object.assign(axisLook(color), { type: 'category', inverse: true, data: all.map((b) => b.method), axisLine: { show: false }, axisLabel: { color: color('text'), fontSize: 12 } }),
        series: [{
          type: 'bar', barCategoryGap: '35%', silent: true,
          data: all.map((b) => ({ value: cost(b), itemStyle: b.mine ? look(color, '1') : { color: color('c-wait'), decal: { symbol: 'none' } } })),
          label: { show: true, position: 'right', color: color('text'), fontSize: 12, formatter: (p) => ms(p.value) },
        }],
      }),
      data: () => ({
        count: plan.baselines.length,
        columns: [
          { title: 'Method', text: (i) => plan.baselines[i].method },
          { title: 'Valid', text: (i) => (plan.baselines[i].valid ? 'yes' : 'no') },
          { title: 'Predicted, ms', number: true, value: (i) => plan.baselines[i].predicted_ms, text: (i) => (known(plan.baselines[i].predicted_ms) ? significant(plan.baselines[i].predicted_ms) : '–') },
          { title: 'SIMULATED, ms', number: true, value: (i) => plan.baselines[i].simulated_ms, text: (i) => (known(plan.baselines[i].simulated_ms) ? significant(plan.baselines[i].simulated_ms) : '–') },
        ].concat(timed ? [{ title: 'Planned in, ms', number: true, value: (i) => plan.baselines[i].wall_ms, text: (i) => (known(plan.baselines[i].wall_ms) ? significant(plan.baselines[i].wall_ms) : '–') }] : []),
      }),
    }));
  }

  // ---------------------------------------------------------------- two plans

  function changesSection(page) {
    const changes = page.document.changes;
    if (!changes) return null;
    const tables = list(changes.tables);
    const moved = list(changes.in_bytes).some((n) => n > 0);
    return section(page, 'changes', 'What changes',
      h('ul', { class: 'lines' }, list(changes.summary).map((l) => h('li', {}, l))),
      moved ? transferChart(page, changes) : null,
      tables.length ? dataTable({
        caption: 'Tables that change', count: tables.length, rows: 15, filter: tables.length > 15, sort: { column: 2, down: true },
        selected: (i) => tables[i].name === page.store.state.table,
        columns: [
          { title: 'Table', text: (i) => tables[i].name, node: (i) => h('button', { type: 'button', class: 'link', on: { click: () => page.select({ table: tables[i].name }) } }, tables[i].name) },
          { title: 'Change', wide: true, text: (i) => tables[i].what },
          { title: 'Moved', number: true, value: (i) => tables[i].moved_bytes, text: (i) => bytes(tables[i].moved_bytes) },
        ],
      }) : h('p', {}, 'No table changes.'));
  }

  /** Bytes that each device receives and sends. */
  function transferChart(page, changes) {
    const n = changes.in_bytes.length;
    const most = Math.max(...changes.in_bytes, ...changes.out_bytes, 1);
    const [unitName, unit] = [['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]].find(([, size]) => most >= size) || ['B', 1];
    const side = (name, title, values, pattern) => (color) => ({ name: title, type: 'bar', itemStyle: look(color, pattern), data: values.map((v) => v / unit), emphasis: { disabled: true } });
    const series = [side('in', 'receives', changes.in_bytes, '2'), side('out', 'sends', changes.out_bytes, '4')];
    return chart(page, {
      title: 'Bytes that each device receives and sends, ' + unitName,
      label: 'Bars of the bytes that ' + plural(n, 'device') + ' receive and send, at most ' + bytes(most),
      height: 180,
      key: [['2', 'receives'], ['4', 'sends']],
      option: (color) => ({
        xAxis: Object.assign(axisLook(color), { type: 'category', data: changes.in_bytes.map((_, i) => String(i)), splitLine: { show: false } }),
        yAxis: Object.assign(axisLook(color), { type: 'value' }),
        dataZoom: n > 64 ? [{ type: 'inside', startValue: 0, endValue: 63, zoomOnMouseWheel: 'ctrl' }, zoomSlider(color)] : [],
        grid: { left: 8, right: 16, top: 12, bottom: n > 64 ? 40 : 8, containLabel: true },
        tooltip: Object.assign(base(color).tooltip, { trigger: 'axis', axisPointer: { type: 'shadow', shadowStyle: { color: color('hover') } }, formatter: (items) => { const i = items[0].dataIndex; return tip('Device ' + i, [['receives', bytes(changes.in_bytes[i])], ['sends', bytes(changes.out_bytes[i])]]); } }),
        series: series.map((s) => s(color)),
      }),
      data: () => ({
        count: n,
        columns: [
          { title: 'Device', number: true, value: (i) => i, text: (i) => String(i) },
          { title: 'Receives', number: true, value: (i) => changes.in_bytes[i], text: (i) => bytes(changes.in_bytes[i]) },
          { title: 'Sends', number: true, value: (i) => changes.out_bytes[i], text: (i) => bytes(changes.out_bytes[i]) },
        ],
      }),
    });
  }

  const zoomSlider = (color) => ({ type: 'slider', height: 18, bottom: 6, borderColor: color('line'), fillerColor: color('window'), textStyle: { color: color('muted') }, showDetail: false });

  // ---------------------------------------------------------------- re-plan and sweep

  function replanSection(page) {
    const replan = page.document.replan;
    if (!replan) return null;
    const points = list(replan.curve);
    const most = Math.max(...points.map((p) => p.moved_bytes), 1);
    const [unitName, unit] = [['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]].find(([, size]) => most >= size) || ['B', 1];
    const order = points.map((_, i) => i).sort((a, b) => points[a].moved_bytes - points[b].moved_bytes);
    return section(page, 'replan', 'Re-plan',
      h('p', { class: 'verdict' }, replan.verdict), h('ul', { class: 'lines' }, list(replan.lines).map((l) => h('li', {}, l))),
      points.length > 1 ? chart(page, {
        title: 'Predicted cost against the bytes to move',
        label: 'Curve of ' + plural(points.length, 'plan') + ': ' + order.map((i) => points[i].label + ', ' + bytes(points[i].moved_bytes) + ' moved, cost ' + ms(points[i].cost_ms) + (points[i].chosen ? ' (chosen)' : '')).join('; '),
        height: 280,
        option: (color) => ({
          grid: { left: 8, right: 40, top: 24, bottom: 24, containLabel: true },
          xAxis: Object.assign(axisLook(color), { type: 'value', name: unitName + ' moved', nameLocation: 'middle', nameGap: 28, min: 0 }),
          yAxis: Object.assign(axisLook(color), { type: 'value', name: 'ms', scale: true }),
          tooltip: Object.assign(base(color).tooltip, { trigger: 'item', formatter: (item) => { const p = points[item.data.at]; return tip(p.label, [['Moved', bytes(p.moved_bytes)], ['Predicted', ms(p.cost_ms)]].concat(known(p.simulated_cost_ms) ? [['SIMULATED', ms(p.simulated_cost_ms)]] : [], [['Pays back', paysBack(p)]])); } }),
          series: [{
            type: 'line', symbolSize: 10, lineStyle: { color: color('line-strong'), width: 1.5 },
            data: order.map((i) => ({
              value: [points[i].moved_bytes / unit, points[i].cost_ms], at: i, symbol: points[i].chosen ? 'diamond' : 'circle', symbolSize: points[i].chosen ? 18 : 9,
              itemStyle: { color: points[i].chosen ? color('critical') : color('c-1') },
              label: { show: points[i].chosen, formatter: 'chosen', position: 'top', color: color('text') },
            })),
          }],
        }),
      }) : null,
      points.length ? dataTable({
        caption: 'Plans of the curve', count: points.length, rows: 15, selected: (i) => points[i].chosen,
        columns: [
          { title: 'Plan', text: (i) => points[i].label + (points[i].chosen ? ' (chosen)' : '') },
          { title: 'Moved', number: true, value: (i) => points[i].moved_bytes, text: (i) => bytes(points[i].moved_bytes) },
          { title: 'Predicted, ms', number: true, value: (i) => points[i].cost_ms, text: (i) => significant(points[i].cost_ms) },
          { title: 'SIMULATED, ms', number: true, value: (i) => points[i].simulated_cost_ms, text: (i) => (known(points[i].simulated_cost_ms) ? significant(points[i].simulated_cost_ms) : '–') },
          { title: 'Pays back', value: (i) => points[i].pays_back_after_steps, text: (i) => paysBack(points[i]) },
        ],
      }) : null);
  }

  const paysBack = (p) => (known(p.pays_back_after_steps) ? (p.pays_back_after_steps === 0 ? 'at once' : 'after ' + plural(p.pays_back_after_steps, 'step')) : 'never');

  /** Numbers of a sweep's cell that an axis of its plot can show. */
  const SWEEP = [
    { key: 'devices', title: 'Devices', text: count },
    { key: 'step_ms', title: 'Step, ms', text: ms },
    { key: 'samples_per_second', title: 'Samples a second', text: compact },
    { key: 'price', title: 'Price of 10⁹ samples, $', text: (v) => '$' + significant(v) },
    { key: 'memory_share', title: 'Memory of the fullest device', text: percent },
  ];
  const SYMBOLS = ['circle', 'rect', 'triangle', 'diamond', 'roundRect', 'pin', 'arrow'];

  function sweepSection(page) {
    const sweep = page.document.sweep;
    if (!sweep) return null;
    const cells = list(sweep.cells);
    const axes = SWEEP.filter((a) => cells.some((c) => known(c[a.key])));
    const priced = axes.some((a) => a.key === 'price');
    const now = { x: priced ? 'price' : 'devices', y: axes.some((a) => a.key === 'samples_per_second') ? 'samples_per_second' : 'step_ms' };
    const plotted = chart(page, sweepSpec(cells, () => now));
    const axisChoice = (title, name) => {
      const select = h('select', { on: { change: () => { now[name] = select.value; plotted.redraw(); } } }, axes.map((a) => h('option', { value: a.key }, a.title)));
      select.value = now[name];
      return h('label', { class: 'field' }, h('span', {}, title), select);
    };
    return section(page, 'sweep', 'Sweep' + (sweep.name ? ' of ' + sweep.name : ''),
      h('p', { class: 'lead' }, 'Each point is a cluster. Times and throughputs are SIMULATED or predicted, as the sweep says.'),
      axes.length > 1 ? h('div', { class: 'bar' }, axisChoice('Across', 'x'), axisChoice('Up', 'y')) : null, plotted, sweepTable(sweep, cells));
  }

  function sweepSpec(cells, now) {
    const kinds = [...new Set(cells.map((c) => c.device))];
    return {
      label: 'Plot of ' + plural(cells.length, 'cluster') + ' of ' + kinds.join(', ') + '. ' + cells.filter((c) => list(c.marks).length).map((c) => c.devices + ' x ' + c.device + ' is ' + c.marks.join(', ')).join('; '),
      height: 340,
      option(color) {
        const x = SWEEP.find((a) => a.key === now().x), y = SWEEP.find((a) => a.key === now().y);
        return {
          grid: { left: 8, right: 40, top: 60, bottom: 28, containLabel: true },
          legend: { top: 0, left: 0, type: 'scroll', itemGap: 16, textStyle: { color: color('text'), fontSize: 12 }, inactiveColor: color('line-strong'), pageIconColor: color('muted'), pageTextStyle: { color: color('muted') } },
          xAxis: Object.assign(axisLook(color), { type: 'value', scale: true, name: x.title, nameLocation: 'middle', nameGap: 30, axisLabel: { color: color('muted'), formatter: compact } }),
          yAxis: Object.assign(axisLook(color), { type: 'value', scale: true, name: y.title, nameTextStyle: { color: color('muted'), align: 'left' }, axisLabel: { color: color('muted'), formatter: compact } }),
          tooltip: Object.assign(base(color).tooltip, { trigger: 'item', formatter: (item) => { const c = cells[item.data.at]; return tip(c.devices + ' x ' + c.device + (list(c.marks).length ? ' (' + c.marks.join(', ') + ')' : ''), SWEEP.filter((a) => known(c[a.key])).map((a) => [a.title, a.text(c[a.key])]).concat([['Bound by', c.bind || '–']])); } }),
          series: kinds.map((kind, k) => ({
            name: kind, type: 'scatter', symbol: SYMBOLS[k % SYMBOLS.length], symbolSize: 11, itemStyle: { color: color('c-' + ((k % 7) + 1)), borderColor: color('surface'), borderWidth: 1 },
            data: cells.map((c, at) => ({ c, at })).filter(({ c }) => c.device === kind && known(c[x.key]) && known(c[y.key]))
              .map(({ c, at }) => ({ value: [c[x.key], c[y.key]], at, symbolSize: list(c.marks).length ? 17 : 11, label: { show: list(c.marks).length > 0, formatter: list(c.marks).join(', '), position: 'top', color: color('text') } })),
          })),
        };
      },
    };
  }

  function sweepTable(sweep, cells) {
    const number = (key, title, text) => ({ title, number: true, value: (i) => cells[i][key], text: (i) => (known(cells[i][key]) ? text(cells[i][key]) : '–') });
    const columns = list(sweep.axes).map((axis, a) => ({ title: axis, value: (i) => numeric(cells[i].values[a]), text: (i) => String(cells[i].values[a]) }))
      .concat([number('step_ms', 'Step, ms', significant), number('samples_per_second', 'Samples a second', compact), number('price', 'Price of 10⁹ samples, $', significant), number('memory_share', 'Memory', percent)]
        .filter((c) => cells.some((_, i) => known(c.value(i)))))
      .concat([{ title: 'Bound by', text: (i) => cells[i].bind || cells[i].reason || '–' }, { title: 'Marks', text: (i) => list(cells[i].marks).join(', ') }]);
    return dataTable({ caption: 'Clusters of the sweep', columns, count: cells.length, rows: 20, filter: cells.length > 20, selected: (i) => list(cells[i].marks).length > 0 });
  }

  const numeric = (text) => (text !== '' && Number.isFinite(Number(text)) ? Number(text) : text);

  // ---------------------------------------------------------------- whole step, provenance

  /** Parts of the whole training step (report.StepJSON). */
  const WHOLE = [['embedding_ms', 'Embeddings', '1'], ['dense_ms', 'Dense part', '2'], ['allreduce_ms', 'All-reduce', '4']];

  function wholeStepSection(page) {
    if (!page.models.some((m) => m.plan.step)) return null;
    return section(page, 'whole', 'The whole training step', h('p', { class: 'lead' }, 'With the dense part of the model and its all-reduce (SIMULATED).'), pair(page, (m) => (m.plan.step ? wholeStep(page, m.plan.step) : h('p', { class: 'note' }, 'The whole step of this plan was not priced.'))));
  }

  function wholeStep(page, step) {
    const s = step.step, terms = Object.entries(step.terms || {}).filter(([, v]) => v > 0);
    const error = known(s.error_percent) && s.error_percent > 0 ? ' ± ' + Math.ceil(s.error_percent) + ' %' : '';
    const parts = WHOLE.filter(([name]) => s[name] > 0);
    return h('div', {}, h('dl', { class: 'figures' },
      figure('Step', ms(s.ms) + error, 'bound by: ' + s.bound_by + (step.stack ? '; stack ' + step.stack : ''), 'first'),
      figure('Throughput', compact(s.samples_per_second), 'samples a second'),
      known(s.price_per_1e9_samples) ? figure('Price', '$' + significant(s.price_per_1e9_samples), 'for 10⁹ samples') : null,
      known(s.epoch_minutes) && s.epoch_minutes > 0 ? figure('Epoch', significant(s.epoch_minutes) + ' min', null) : null,
      s.hidden_ms > 0 ? figure('Hidden', ms(s.hidden_ms), 'exchanges beside other work') : null),
    chart(page, {
      label: 'Parts of the step: ' + parts.map(([name, title]) => title + ' ' + ms(s[name])).join(', '), height: 48,
      key: parts.map(([, title, name]) => [name, title]),
      option: (color) => ({
        grid: { left: 0, right: 0, top: 4, bottom: 4 },
        xAxis: { type: 'value', show: false, max: parts.reduce((sum, [name]) => sum + s[name], 0) }, yAxis: { type: 'category', show: false, data: ['step'] },
        tooltip: Object.assign(base(color).tooltip, { trigger: 'item', formatter: (item) => tip(item.seriesName, [['Time', ms(item.value)]]) }),
        series: parts.map(([name, title, pattern]) => ({ name: title, type: 'bar', stack: 'step', data: [s[name]], itemStyle: look(color, pattern), emphasis: { disabled: true } })),
      }),
      data: () => {
        const rows = parts.map(([name, title]) => [title, s[name]]).concat(terms.map(([name, v]) => ['before anything is hidden: ' + name.replace(/_ms$/, '').replace(/_/g, ' '), v]));
        return { count: rows.length, columns: [{ title: 'Part', text: (i) => rows[i][0] }, { title: 'Time, ms', number: true, value: (i) => rows[i][1], text: (i) => significant(rows[i][1]) }] };
      },
    }));
  }

  function provenanceSection(page) {
    if (!page.models.length) return null;
    return section(page, 'provenance', 'Provenance', pair(page, (m) => h('div', {},
      h('dl', { class: 'facts' }, list(m.plan.provenance).map((f) => [h('dt', {}, f.name), h('dd', {}, f.value)])),
      list(m.plan.missing).length ? h('div', { class: 'missing' }, h('h3', {}, 'What this page leaves out'), h('ul', { class: 'lines' }, m.plan.missing.map((l) => h('li', {}, l)))) : null)));
  }

  // ---------------------------------------------------------------- selection

  /** The panel of the selected device and table. */
  function drawSelection(page) {
    const { state } = page.store;
    const m = page.models[state.shown] || page.models[0];
    const parts = [];
    if (m && state.table !== null) parts.push(tablePanel(page, m));
    if (m && state.device >= 0 && state.device < m.devices.count) parts.push(devicePanel(page, m, state.device));
    page.shell.rail.hidden = !parts.length;
    page.shell.frame.classList.toggle('with-rail', parts.length > 0);
    fill(page.shell.rail, parts);
  }

  const panel = (page, title, note, close, ...children) => h('section', { class: 'panel', 'aria-label': title },
    h('div', { class: 'panel-head' }, h('h2', {}, title), h('button', { type: 'button', class: 'small close', 'aria-label': 'Close ' + title, on: { click: close } }, '✕')),
    note ? h('p', { class: 'note' }, note) : null, children);

  const facts = (rows) => h('dl', { class: 'facts' }, rows.filter((r) => r && known(r[1]) && r[1] !== '').map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));

  function devicePanel(page, m, d) {
    const v = m.devices;
    const host = m.hosts > 1 ? 'Host ' + Math.floor(d / m.perHost) : null;
    const note = [host, d === m.critical ? 'critical device' : null, page.models.length > 1 ? planName(page, m === page.models[0] ? 0 : 1) : null].filter(Boolean).join(' · ');
    const shards = m.byDevice[d].concat(m.copies);
    return panel(page, 'Device ' + d, note, () => closePanel(page, { device: -1 }),
      facts([
        ['Memory', usedOf(v.used_bytes[d], m.capacities[d])],
        v.memory[d].host_bytes > 0 ? ['Host memory', usedOf(v.memory[d].host_bytes, m.hostCapacities[d])] : null,
        m.timed ? ['Busy', ms(m.busy[d])] : null,
        ...(m.timed ? PHASES.map((p) => [p.title, ms(list(p.of(v))[d])]) : []),
        ['Shards', count(v.shards[d])],
        ['Dim sum', count(v.dim_sum[d])],
      ]),
      dataTable({
        caption: 'Shards of device ' + d, count: shards.length, rows: 8, filter: shards.length > 8, sort: { column: 2, down: true },
        selected: (i) => m.tables.name[m.shards.table[shards[i]]] === page.store.state.table,
        columns: [
          { title: 'Table', text: (i) => m.tables.name[m.shards.table[shards[i]]], node: (i) => tableButton(page, m, m.shards.table[shards[i]]) },
          { title: 'Part', text: (i) => slice(m, shards[i]) },
          { title: 'Size', number: true, value: (i) => m.shards.bytes[shards[i]], text: (i) => bytes(m.shards.bytes[shards[i]]) },
        ].concat(m.shardTimes ? [{ title: 'ms', number: true, value: (i) => m.shards.time_ms[shards[i]], text: (i) => significant(m.shards.time_ms[shards[i]]) }] : []),
      }));
  }

  const tableButton = (page, m, t) => h('button', { type: 'button', class: 'link', on: { click: () => page.select({ table: m.tables.name[t] }) } },
    h('span', { class: 'swatch ' + typeClass(m.tables.sharding_type[t]), 'aria-hidden': 'true' }), m.tables.name[t]);

  function tablePanel(page, m) {
    const name = page.store.state.table;
    const i = m.tables.name.indexOf(name);
    const close = () => closePanel(page, { table: null });
    if (i < 0) return panel(page, name, 'This plan does not have the table.', close);
    const t = m.tables;
    const changed = page.document.changes && list(page.document.changes.tables).find((c) => c.name === name);
    const shards = m.byTable[i];
    return panel(page, name, page.models.length > 1 ? planName(page, m === page.models[0] ? 0 : 1) : null, close,
      facts([
        ['Sharding type', h('span', { class: 'typed' }, h('span', { class: 'swatch ' + typeClass(t.sharding_type[i]), 'aria-hidden': 'true' }), t.sharding_type[i])],
        ['Rows x dim', count(t.rows[i]) + ' x ' + count(t.dim[i])],
        ['Size', bytes(t.bytes[i])],
        list(t.pooling).length ? ['Lookups a sample', significant(t.pooling[i])] : null,
        list(t.vectors).length && t.vectors[i] ? ['Vectors a sample', t.vectors[i]] : null,
        list(t.time_ms).length ? ['Time', ms(t.time_ms[i])] : null,
        list(t.reason).length ? ['Why here', t.reason[i]] : null,
        list(t.alternative).length && t.alternative[i] ? ['Best alternative', t.alternative[i]] : null,
        list(t.alternative).length && known(t.alternative_cost_ms[i]) ? ['Cost with it', ms(t.alternative_cost_ms[i]) + (known(m.plan.costs.predicted_ms) ? ', ' + change(m.plan.costs.predicted_ms, t.alternative_cost_ms[i]) : '')] : null,
        changed ? ['Changes', changed.what] : null,
      ]),
      h('button', { type: 'button', class: 'small', on: { click: () => page.tables.reveal(m.tables.name.indexOf(name)) } }, 'Show in the list of tables'),
      dataTable({
        caption: 'Shards of ' + name, count: shards.length, rows: 8,
        columns: [
          { title: 'Device', value: (s) => m.shards.device[shards[s]], text: (s) => (m.shards.device[shards[s]] < 0 ? 'all' : String(m.shards.device[shards[s]])), node: (s) => deviceButton(page, m.shards.device[shards[s]]) },
          { title: 'Part', text: (s) => slice(m, shards[s]) },
          { title: 'Size', number: true, value: (s) => m.shards.bytes[shards[s]], text: (s) => bytes(m.shards.bytes[shards[s]]) },
        ],
      }));
  }

  const deviceButton = (page, d) => (d < 0 ? 'all' : h('button', { type: 'button', class: 'link', on: { click: () => page.select({ device: d }) } }, String(d)));

  // ---------------------------------------------------------------- search

  /** A box that finds a table or a device: the ARIA pattern of a combobox with a list. */
  function searchBox(page) {
    const id = newID('found');
    const found = h('ul', { id, class: 'found', role: 'listbox', 'aria-label': 'Tables and devices', hidden: true });
    const input = h('input', {
      type: 'text', role: 'combobox', 'aria-expanded': 'false', 'aria-controls': id, 'aria-autocomplete': 'list', 'aria-label': 'Find a table or a device',
      placeholder: 'Find a table or device', autocomplete: 'off', spellcheck: 'false',
    });
    let hits = [], active = -1;

    function close() {
      found.hidden = true;
      input.setAttribute('aria-expanded', 'false');
      input.removeAttribute('aria-activedescendant');
      active = -1;
    }
    function pick(i) {
      if (!hits[i]) return;
      page.select(hits[i].select, true);
      input.value = '';
      close();
    }
    function activate(i) {
      active = (i + hits.length) % hits.length;
      [...found.children].forEach((li, at) => li.setAttribute('aria-selected', String(at === active)));
      input.setAttribute('aria-activedescendant', found.children[active].id);
      found.children[active].scrollIntoView({ block: 'nearest' });
    }
    function update() {
      hits = find(page, input.value);
      active = -1;
      input.removeAttribute('aria-activedescendant');
      fill(found, hits.map((hit, i) => h('li', { role: 'option', id: id + '-' + i, 'aria-selected': 'false', on: { pointerdown: (e) => { e.preventDefault(); pick(i); } } }, h('span', {}, hit.name), h('span', { class: 'muted' }, hit.note))));
      found.hidden = !hits.length;
      input.setAttribute('aria-expanded', String(hits.length > 0));
    }
    input.addEventListener('input', update);
    input.addEventListener('blur', close);
    input.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') { close(); return; }
      if (event.key === 'Enter') { event.preventDefault(); pick(Math.max(0, active)); return; }
      if ((event.key !== 'ArrowDown' && event.key !== 'ArrowUp') || !hits.length) return;
      event.preventDefault();
      activate(active < 0 && event.key === 'ArrowUp' ? hits.length - 1 : active + (event.key === 'ArrowDown' ? 1 : -1));
    });
    return h('div', { class: 'search', role: 'search' }, input, found);
  }

  /** At most 12 tables and devices whose name has the text. */
  function find(page, text) {
    const wanted = text.trim().toLowerCase();
    const m = page.models[page.store.state.shown];
    if (!wanted || !m) return [];
    const hits = [];
    const number = /^(?:device\s*)?(\d+)$/.exec(wanted);
    if (number && Number(number[1]) < m.devices.count) hits.push({ name: 'Device ' + Number(number[1]), note: m.timed ? ms(m.busy[Number(number[1])]) : '', select: { device: Number(number[1]) } });
    const starts = [], within = [];
    for (let i = 0; i < m.tables.count && starts.length < 12; i++) {
      const at = m.tables.name[i].toLowerCase().indexOf(wanted);
      if (at === 0) starts.push(i);
      else if (at > 0 && within.length < 12) within.push(i);
    }
    for (const i of starts.concat(within)) hits.push({ name: m.tables.name[i], note: m.tables.sharding_type[i] + ', ' + bytes(m.tables.bytes[i]), select: { table: m.tables.name[i] } });
    return hits.slice(0, 12);
  }

  // ---------------------------------------------------------------- the page

  /** The parts that stay when another document is rendered into the same root. */
  const shells = new WeakMap();

  function newShell(root, options) {
    const main = newID('main');
    const shell = {
      title: h('h1', { tabindex: -1 }), summary: h('p', { class: 'summary' }),
      nav: h('nav', { class: 'nav', 'aria-label': 'Sections' }),
      search: h('div', {}),
      slot: h('div', { class: 'slot' }),
      content: h('div', { class: 'content' }),
      rail: h('aside', { class: 'rail', 'aria-label': 'Selection', hidden: true }),
      live: h('div', { class: 'hidden', 'aria-live': 'polite', role: 'status' }),
      tooltip: h('div', { class: 'ns-tip tooltip', 'aria-hidden': 'true', hidden: true }),
      foot: h('footer', { class: 'foot' }),
      tools: h('div', { class: 'tools' }),
    };
    shell.frame = h('div', { class: 'frame' }, h('main', { id: main, class: 'main', tabindex: -1 }, h('div', { class: 'head' }, shell.title, shell.summary), shell.slot, shell.content), shell.rail);
    fill(root, h('a', { class: 'skip', href: '#' + main }, 'Skip to the content'),
      h('header', { class: 'top' }, h('span', { class: 'brand' }, 'neuroshard'), shell.nav, shell.search, shell.tools, themeChoice(root)),
      shell.frame, shell.foot, shell.live, shell.tooltip);
    root.classList.add('ns');
    shell.rail.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') closePanel(pages.get(root), { table: null, device: -1 });
    });
    if (options.before) append(shell.slot, [options.before]);
    if (options.tools) append(shell.tools, [options.tools]);
    return shell;
  }

  /** The choice of the theme: the reader's system, light or dark. */
  function themeChoice(root) {
    const html = root.ownerDocument.documentElement;
    const select = h('select', {
      'aria-label': 'Theme', class: 'theme',
      on: {
        change: () => {
          setTheme(html, select.value);
          try { localStorage.setItem('neuroshard-theme', select.value); } catch { /* storage is off: the choice ends with the page */ }
          redrawAll(root);
        },
      },
    }, [['auto', 'Auto'], ['light', 'Light'], ['dark', 'Dark']].map(([value, text]) => h('option', { value }, text)));
    let stored = null;
    try { stored = localStorage.getItem('neuroshard-theme'); } catch { /* as above */ }
    select.value = stored === 'light' || stored === 'dark' ? stored : 'auto';
    setTheme(html, select.value);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => redrawAll(root));
    return select;
  }

  function setTheme(html, value) {
    if (value === 'auto') html.removeAttribute('data-theme');
    else html.setAttribute('data-theme', value);
  }

  const pages = new WeakMap();
  const redrawAll = (root) => { const page = pages.get(root); if (page) page.charts.forEach((c) => c.draw()); };

  /**
   * Renders a document into root, in place of what root shows.
   * @param {Object} document page.Document
   * @param {HTMLElement} root
   * @param {Object} [options] read at the first call with this root: "before" is a node above the
   *   content, "tools" a node in the bar at the top; both stay for later documents
   * @returns {{select: function(Object): void, document: Object}} select takes {table: name or null, device: number or -1}
   */
  function render(document, root, options) {
    if (!document || document.format !== FORMAT || document.version !== VERSION) {
      throw new Error('neuroshard: this page shows documents of format ' + FORMAT + ', version ' + VERSION);
    }
    const old = pages.get(root);
    if (old) old.dispose();
    if (!shells.has(root)) {
      shells.set(root, newShell(root, options || {}));
      states.set(root, newState());
    }
    const page = newPage(document, root, shells.get(root), states.get(root));
    pages.set(root, page);
    build(page);
    return { select: (selection) => page.select(selection), document };
  }

  function newPage(document, root, shell, state) {
    const page = {
      document, root, shell, store: newStore(state), models: list(document.plans).map(index), charts: [], sections: [], tables: null,
      anchor: (id) => 'section-' + id,
      announce: (text) => { shell.live.textContent = text; },
      tooltip: (content, at) => showTooltip(shell.tooltip, content, at),
      select: (selection, scroll) => select(page, selection, scroll),
    };
    const byElement = new Map();
    const seen = new IntersectionObserver((entries) => {
      for (const e of entries) if (e.isIntersecting) { seen.unobserve(e.target); byElement.get(e.target).show(); }
    }, { rootMargin: '300px' });
    const sized = new ResizeObserver((entries) => {
      for (const e of entries) { const c = byElement.get(e.target); if (c.instance && e.contentRect.width > 0) c.instance.resize(); }
    });
    page.watch = (element, one) => { byElement.set(element, one); seen.observe(element); sized.observe(element); };
    page.dispose = () => {
      seen.disconnect();
      sized.disconnect();
      for (const c of page.charts) if (c.instance) c.instance.dispose();
      page.tooltip(null);
    };
    // What the reader chose in another document may not be in this one.
    if (state.shown >= page.models.length) state.shown = 0;
    if (state.table !== null && !page.models.some((m) => m.tables.name.includes(state.table))) state.table = null;
    if (!page.models.some((m) => state.device < m.devices.count)) state.device = -1;
    if (!page.models.some((m) => m.hosts > 1)) state.level = 'device';
    return page;
  }

  const SECTIONS = [overviewSection, changesSection, placementSection, stepSection, memorySection, replanSection, sweepSection, wholeStepSection, tablesSection, baselinesSection, provenanceSection];

  function build(page) {
    const { shell, document } = page;
    shell.title.textContent = document.title;
    shell.summary.textContent = page.models.length === 1 ? page.models[0].plan.summary : '';
    shell.summary.hidden = page.models.length !== 1;
    fill(shell.content, SECTIONS.map((make) => {
      try {
        return make(page);
      } catch (error) {
        // A part that fails must not hide the others.
        console.error(error);
        return h('p', { class: 'section' }, 'A part of the page could not be drawn: ' + error.message);
      }
    }));
    fill(shell.nav, h('ul', {}, page.sections.map(([id, title]) => h('li', {}, h('a', { href: '#' + page.anchor(id) }, title)))));
    fill(shell.search, page.models.length ? searchBox(page) : null);
    fill(shell.foot, 'neuroshard ' + document.tool);
    page.store.on(['table', 'device', 'shown'], () => drawSelection(page));
    drawSelection(page);
  }

  /** Closes a panel, and gives the focus back to what opened it. */
  function closePanel(page, selection) {
    const { opener } = page;
    page.select(selection);
    if (opener && opener.isConnected) opener.focus();
    else page.shell.title.focus({ preventScroll: true });
  }

  /** Selects a table or a device, says so, and moves the window of devices to the device. */
  function select(page, selection, scroll) {
    const { store } = page;
    const changes = Object.assign({}, selection);
    if (changes.table !== undefined && changes.table !== null && changes.table === store.state.table && !scroll) changes.table = null;
    if (known(changes.device) && changes.device >= 0) {
      const m = page.models.find((one) => changes.device < one.devices.count);
      if (!m) return;
      const all = units(m, store.state);
      const at = all.findIndex((u) => u.devices.includes(changes.device));
      const from = all.indexOf(windowOf(all, store.state)[0]);
      if (at < from || at >= from + store.state.size) changes.from = Math.floor(at / store.state.size) * store.state.size;
    }
    const active = page.root.ownerDocument.activeElement;
    if (active && !page.shell.rail.contains(active)) page.opener = active;
    store.set(changes);
    if (changes.table) page.announce('Table ' + changes.table + ' is selected: ' + tableWords(page, changes.table));
    else if (known(changes.device) && changes.device >= 0) page.announce('Device ' + changes.device + ' is selected.');
    else page.announce('Nothing is selected.');
  }

  function tableWords(page, name) {
    const m = page.models[page.store.state.shown];
    const i = m.tables.name.indexOf(name);
    return i < 0 ? 'this plan does not have it' : m.tables.sharding_type[i] + ' on ' + devicesOf(m, i, 6);
  }

  /** Shows the content beside a rectangle of the window; null hides the tooltip. */
  function showTooltip(element, content, at) {
    element.hidden = !content;
    if (!content) return;
    fill(element, content);
    const { offsetWidth: w, offsetHeight: hh } = element;
    const left = Math.max(8, Math.min(at.left + at.width / 2 - w / 2, innerWidth - w - 8));
    const top = at.top - hh - 8 > 8 ? at.top - hh - 8 : Math.min(at.bottom + 8, innerHeight - hh - 8);
    Object.assign(element.style, { left: left + 'px', top: top + 'px' });
  }

  // ---------------------------------------------------------------- paper

  /** Before printing, all charts are drawn at the width of paper, and tables show their first rows. */
  function print(on) {
    const html = document.documentElement;
    if (on) { beforePaper = html.getAttribute('data-theme'); setTheme(html, 'light'); } else setTheme(html, beforePaper || 'auto');
    for (const root of document.querySelectorAll('.ns')) {
      const page = pages.get(root);
      if (!page) continue;
      root.classList.toggle('paper', on);
      for (const table of root.querySelectorAll('.printable')) table.print(on);
      for (const c of page.charts) { c.seen = true; c.draw(); }
    }
  }
  let beforePaper = null;
  addEventListener('beforeprint', () => print(true));
  addEventListener('afterprint', () => print(false));

  globalThis.neuroshard = { render };

  // A page on disk has its document inside.
  const embedded = document.getElementById('document');
  if (embedded) render(JSON.parse(embedded.textContent), document.getElementById('page'));
})();
