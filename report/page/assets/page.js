/**
 * Draws a document (report/page/document.go) as a page.
 *
 *   neuroshard.render(document, root, options)
 *
 * may be called again with another document: the selection, the order of the devices and the theme
 * stay. Charts are elements that CSS colours, so they need no drawing when the theme or the width
 * changes. Styles that depend on data are set by script, as a strict content security policy demands.
 */
'use strict';

(() => {
  const {
    h, add, fill, newID, button, link, facts, lines, choice,
    known, list, significant, grouped, ms, count, bytes, BYTES, percent, plural, change, compact,
    text, number, dataTable, TYPES,
  } = globalThis.neuroshard;

  const FORMAT = 'neuroshard-page';
  const VERSION = 1;

  // ---------------------------------------------------------------- words

  const TIERS = { host: 'in host memory', host_cached: 'in host memory, cached on the device' };

  /** Parts of a step in the order of time: the look of page.css, the title and the field of Devices. */
  const PHASES = [
    ['forward', 'Forward lookups', 'forward_ms'],
    ['wait', 'Wait for the slowest device', 'wait_ms'],
    ['forward-comm', 'Forward exchange', 'forward_comm_ms'],
    ['backward-comm', 'Backward exchange', 'backward_comm_ms'],
    ['backward', 'Backward and update', 'backward_ms'],
  ];

  /** Lines of a device's memory; the colours of the n-th are look-n. */
  const MEMORY = [
    ['weights_bytes', 'Weights'], ['optimizer_bytes', 'Optimizer state'], ['cache_bytes', 'Cache of host rows'],
    ['inputs_bytes', 'Inputs'], ['permuted_bytes', 'Permuted inputs'], ['indices_bytes', 'Indices'], ['outputs_bytes', 'Outputs'],
    ['received_bytes', 'Received vectors'], ['gradients_bytes', 'Gradients'], ['activations_bytes', 'Activations'], ['allocator_bytes', 'Allocator'],
  ];

  // ---------------------------------------------------------------- the plan, indexed

  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const alike = (values) => values.every((v) => v === values[0]);

  /** A plan of the document (page.Plan) with lists by device and by table. */
  function index(plan) {
    const { devices, shards, tables } = plan;
    const all = Array.from({ length: devices.count }, (_, d) => d);
    const byDevice = all.map(() => []), byTable = Array.from({ length: tables.count }, () => []);
    const copies = [];
    for (let s = 0; s < shards.count; s++) {
      byTable[shards.table[s]].push(s);
      (shards.device[s] < 0 ? copies : byDevice[shards.device[s]]).push(s);
    }
    const timed = list(devices.forward_ms).length > 0;
    const shardTimes = list(shards.time_ms).length > 0;
    const busy = timed ? all.map((d) => sum(PHASES.map(([, , field]) => devices[field][d])) - devices.wait_ms[d]) : [];
    const timeOf = (list) => sum(list.map((s) => shards.time_ms[s]));
    const ofCopies = shardTimes ? timeOf(copies) : 0;
    const capacities = devices.capacities_bytes || all.map(() => devices.capacity_bytes);
    const perHost = Math.max(1, plan.cluster.devices_per_host || devices.count);
    return {
      plan, devices, shards, tables, all, byDevice, byTable, copies, timed, busy, shardTimes, capacities, perHost,
      hostCapacities: devices.host_capacities_bytes || all.map(() => devices.host_capacity_bytes),
      hosts: Math.ceil(devices.count / perHost),
      filled: (d) => devices.used_bytes[d] / Math.max(1, capacities[d]), // of its own capacity
      critical: plan.critical,
      /**
       * The time of a copy on device d over the mean time of all devices, which the document has: with it
       * the times of a device's shards add up to its busy time.
       */
      copied: (d) => (ofCopies > 0 ? Math.max(0, busy[d] - timeOf(byDevice[d])) / ofCopies : 1),
    };
  }

  /** The shard's part of its table in words: "columns 0–31, rows 0–999", or "whole table". */
  function slice(m, shard) {
    const t = m.shards.table[shard];
    const part = (name, bounds, all) => {
      const from = bounds[2 * shard], to = bounds[2 * shard + 1];
      return to > from && to - from < all ? name + ' ' + grouped(from) + '–' + grouped(to - 1) : null;
    };
    const parts = [part('columns', m.shards.columns, m.tables.dim[t]), part('rows', m.shards.rows, m.tables.rows[t])];
    return parts.filter(Boolean).join(', ') || 'whole table';
  }

  /** The devices of a table in words: "0, 3, 5 and 2 more". */
  function devicesOf(m, table, most) {
    const devices = [...new Set(m.byTable[table].map((s) => m.shards.device[s]))].sort((a, b) => a - b);
    if (devices[0] < 0) return 'all';
    return devices.slice(0, most).join(', ') + (devices.length > most ? ' and ' + (devices.length - most) + ' more' : '');
  }

  const swatch = (look) => h('span', { class: 'swatch ' + look, 'aria-hidden': 'true' });
  const typeClass = (type) => (TYPES.includes(type) ? 'type-' + type : 'type-other');
  const typed = (type) => h('span', { class: 'typed' }, swatch(typeClass(type)), type);

  // ---------------------------------------------------------------- the devices shown

  /** What the reader chose. It stays if another document is drawn in the same root. */
  const newState = () => ({
    table: null, // name of the selected table
    device: -1,
    by: 'time', // what sets the area of a tile: bytes, or time where the document has times of shards
    level: 'device', // what a card shows: device or host
    order: 'number', // order of the devices: number, time or memory
    from: 0, // the first card shown
    size: 32, // cards shown at once
  });

  /** The changes of a state that redraw the pictures of devices; the others only mark what is selected. */
  const VIEW = ['by', 'level', 'order', 'from', 'size'];

  /** The cards of a plan: devices or hosts, in the chosen order. */
  function units(m, state) {
    const host = (d) => Math.floor(d / m.perHost);
    const all = state.level === 'host'
      ? Array.from({ length: m.hosts }, (_, i) => ({ label: 'Host ' + i, host: i, devices: m.all.filter((d) => host(d) === i) }))
      : m.all.map((d) => ({ label: 'Device ' + d, host: host(d), devices: [d] }));
    const most = (devices, of) => devices.reduce((a, b) => (of(b) > of(a) ? b : a));
    for (const u of all) {
      // Charts of times draw a host by its busiest device, and charts of memory by its fullest one.
      u.busiest = m.timed ? most(u.devices, (d) => m.busy[d]) : u.devices[0];
      u.fullest = most(u.devices, m.filled);
      u.critical = u.devices.includes(m.critical);
    }
    if (state.order === 'time' && m.timed) all.sort((a, b) => m.busy[b.busiest] - m.busy[a.busiest]);
    if (state.order === 'memory') all.sort((a, b) => m.filled(b.fullest) - m.filled(a.fullest));
    return all;
  }

  function windowOf(all, state) {
    const size = Math.min(state.size, all.length);
    const from = Math.max(0, Math.min(state.from, all.length - size));
    return all.slice(from, from + size);
  }

  // ---------------------------------------------------------------- charts

  /** Sets the place of an element in shares of its parent: {left, width, top, height, bottom}. */
  function at(element, place) {
    for (const [side, share] of Object.entries(place)) element.style[side] = 100 * share + '%';
    return element;
  }

  /** About n numbers from low to high, round in a unit of a size. */
  function ticks(low, high, n, size = 1) {
    const rough = (high - low) / n / size || 1, power = 10 ** Math.floor(Math.log10(rough));
    const step = size * power * ([1, 2, 5].find((f) => f * power >= rough) || 10);
    const out = [];
    for (let i = Math.ceil(low / step); i * step <= high * (1 + 1e-9); i++) out.push(i * step);
    return out;
  }

  /** The unit of an axis that ends at a number of bytes: its name and its size. */
  const unitOf = (end) => BYTES.find(([, least]) => end >= least) || ['B', 1];

  /** Gives an element a tooltip: a title, and rows of name and value. */
  const tipped = (element, [title, rows]) => Object.assign(element, { title: [title, ...rows.map((row) => row.join(': '))].join('\n') });

  const keyOf = (parts) => h('ul', { class: 'key' }, parts.map(([look, title]) => h('li', {}, swatch('look-' + look), title)));

  /** A figure with what all charts have: a title, a note, a key, a text alternative, and the data as a table. */
  function chart({ title, note, key, label, data }, plot) {
    plot.setAttribute('role', 'img');
    plot.setAttribute('aria-label', label());
    const figure = h('figure', { class: 'chart' },
      title ? h('figcaption', {}, title) : null, note ? h('p', { class: 'note' }, note) : null, key ? keyOf(key) : null, plot);
    if (data) figure.append(dataOf(data, title || label()));
    return figure;
  }

  /** The data of a chart as a table, made when it is opened. */
  function dataOf(data, caption) {
    const body = h('div');
    const details = h('details', { class: 'data', ontoggle: () => { if (details.open) fill(body, dataTable({ caption, size: 10, ...data })); } },
      h('summary', {}, 'Data of this chart as a table'), body);
    return details;
  }

  /**
   * A chart of stacked bars with a row for each item. spec, besides what chart takes:
   *   items() of the rows, all of them for the table
   *   parts: [look, title, value(item)], stacked from start(item) on
   *   end of the axis in "unit": 'ms' or 'bytes'; without it there is no axis
   *   name(item), strong(item), facts(item) (more rows of the tooltip)
   *   marks(item): places of lines across the row
   *   onclick(item)
   * The figure's draw() draws the rows again.
   */
  function bars(spec) {
    const { parts, end, start = () => 0, as } = spec;
    const [unit, size] = spec.unit === 'bytes' ? unitOf(end) : ['ms', 1];
    const scale = spec.unit ? ticks(0, end, 6, size) : [];
    const plot = h('div', { class: 'bars' });
    const row = (item) => {
      const track = h('div', { class: 'track' });
      let from = start(item);
      for (const [look, , value] of parts) {
        const v = value(item);
        if (v > 0) track.append(at(h('span', { class: 'look-' + look }), { left: from / end, width: v / end }));
        from += v;
      }
      for (const place of spec.marks ? spec.marks(item) : []) {
        if (place <= end) track.append(at(h('span', { class: 'mark-line' }), { left: place / end }));
      }
      const strong = spec.strong && spec.strong(item);
      const element = h('div', { class: 'row', onclick: spec.onclick && (() => spec.onclick(item)) },
        h('span', { class: strong ? 'row-name mark' : 'row-name' }, (strong ? '◆ ' : '') + spec.name(item)), track);
      return tipped(element, [spec.name(item), parts.map(([, title, value]) => [title, as(value(item))]).concat(spec.facts ? spec.facts(item) : [])]);
    };
    const axis = () => h('div', { class: 'row axis' }, h('span', { class: 'row-name' }, unit),
      h('div', { class: 'track' }, scale.map((v) => at(h('span', {}, grouped(Number((v / size).toPrecision(12)))), { left: v / end }))));
    const draw = () => {
      fill(plot, spec.items().map(row), scale.length ? axis() : null);
      plot.setAttribute('aria-label', spec.label());
    };
    draw();
    const figure = chart({
      key: parts.map(([look, title]) => [look, title]),
      data: spec.all && {
        rows: spec.all,
        columns: [text(spec.of, spec.name)].concat(parts.map(([, title, value]) => number(title, value, as)), spec.more || []),
      },
      ...spec,
    }, plot);
    figure.draw = draw;
    return figure;
  }

  /**
   * A chart of points. axes: x and y with {title, of(item), zero, size (of its unit)}. look(item) is its look; a point with
   * words(item) is larger and has them beside it.
   */
  function points({ items, x, y, look, words, tip, ...spec }) {
    const range = (axis) => {
      const values = items.map(axis.of), low = axis.zero ? 0 : Math.min(...values), high = Math.max(...values);
      const margin = 0.06 * (high - low || high || 1);
      return [axis.zero ? 0 : Math.max(0, low - margin), high + margin];
    };
    const [left, right] = range(x), [bottom, top] = range(y);
    const across = (v) => (v - left) / (right - left), up = (v) => (v - bottom) / (top - bottom);
    const field = h('div', { class: 'field-of-points' });
    const tick = ({ size = 1 }, v) => (v / size >= 1e5 ? compact(v / size) : grouped(Number((v / size).toPrecision(12))));
    for (const v of ticks(left, right, 6, x.size)) field.append(at(h('span', { class: 'tick-x' }, tick(x, v)), { left: across(v) }));
    for (const v of ticks(bottom, top, 5, y.size)) field.append(at(h('span', { class: 'tick-y' }, tick(y, v)), { bottom: up(v) }));
    for (const item of items) {
      const said = words(item);
      const point = h('span', { class: 'point look-' + look(item) + (said ? ' large' : '') }, said ? h('span', {}, said) : null);
      field.append(tipped(at(point, { left: across(x.of(item)), bottom: up(y.of(item)) }), tip(item)));
    }
    return chart(spec, h('div', { class: 'points' }, h('span', { class: 'axis-y' }, y.title), field, h('span', { class: 'axis-x' }, x.title)));
  }

  // ---------------------------------------------------------------- who holds what

  /** The measures of a card in px, for which tiles are laid out; they stretch with the card. */
  const CARD = { width: 150, height: 150, least: 50, most: 60 };

  const byTime = (m, state) => state.by === 'time' && m.shardTimes;

  /**
   * The tiles of a unit, largest first: a shard each, or on a host a table each. Times of a host are
   * those of its mean device, so that they compare with the step.
   */
  function tilesOf(m, state, unit) {
    const times = byTime(m, state), several = unit.devices.length > 1;
    const tiles = new Map();
    for (const d of unit.devices) {
      const copied = times ? m.copied(d) : 1;
      for (const s of m.byDevice[d].concat(m.copies)) {
        const table = m.shards.table[s], key = several ? table : s;
        if (!tiles.has(key)) tiles.set(key, { tables: [table], shards: new Set(), value: 0 });
        const tile = tiles.get(key);
        tile.shards.add(s);
        tile.value += times ? (m.shards.time_ms[s] * (m.shards.device[s] < 0 ? copied : 1)) / unit.devices.length : m.shards.bytes[s];
      }
    }
    return [...tiles.values()].filter((t) => t.value > 0).sort((a, b) => b.value - a.value);
  }

  const load = (tiles) => sum(tiles.map((t) => t.value));

  /** Joins the tiles that are too small to see into one; scale is the load of a full card. */
  function joined(tiles, scale) {
    const area = (v) => (v / scale) * CARD.width * CARD.height;
    const keep = tiles.findIndex((t, i) => i >= CARD.most || area(t.value) < CARD.least);
    if (keep < 0 || keep >= tiles.length - 1) return tiles;
    const rest = tiles.slice(keep);
    return tiles.slice(0, keep).concat({ tables: rest.flatMap((t) => t.tables), shards: new Set(), value: load(rest), joined: rest.length });
  }

  /**
   * Lays values out as rectangles whose areas are in the values' ratio and which are nearly
   * square (Bruls, Huizing, van Wijk: Squarified Treemaps, 2000).
   * @param {number[]} values positive, largest first
   * @returns {{x: number, y: number, w: number, h: number}[]}
   */
  function squarify(values, width, height) {
    const all = sum(values);
    const areas = values.map((v) => (v / all) * width * height);
    const worst = (most, least, total, side) => Math.max((side * side * most) / (total * total), (total * total) / (side * side * least));
    const rectangles = [];
    let x = 0, y = 0, w = width, high = height, i = 0;
    while (i < areas.length) {
      const side = Math.min(w, high);
      let end = i + 1, total = areas[i], now = worst(areas[i], areas[i], total, side);
      while (end < areas.length) {
        const next = worst(areas[i], areas[end], total + areas[end], side);
        if (next > now) break;
        now = next;
        total += areas[end++];
      }
      const thick = total / side;
      let along = 0;
      for (; i < end; i++) {
        const long = areas[i] / thick;
        rectangles.push(w >= high ? { x, y: y + along, w: thick, h: long } : { x: x + along, y, w: long, h: thick });
        along += long;
      }
      if (w >= high) { x += thick; w -= thick; } else { y += thick; high -= thick; }
    }
    return rectangles;
  }

  const tierOf = (m, tile) => {
    const [s] = tile.shards;
    return known(s) && TIERS[m.shards.tier[s]] ? m.shards.tier[s] : '';
  };

  /** What a tile says to a screen reader and in its tooltip: a title, and rows of name and value. */
  function tileWords(m, state, tile) {
    const value = [byTime(m, state) ? 'Time' : 'Size', byTime(m, state) ? ms(tile.value) : bytes(tile.value)];
    if (tile.joined) return [plural(tile.joined, 'small shard'), [value]];
    const [table] = tile.tables, shards = [...tile.shards];
    const rows = [
      ['Sharding type', m.tables.sharding_type[table]],
      ['Part', shards.length > 1 ? plural(shards.length, 'shard') : slice(m, shards[0])],
      ['Size', bytes(sum(shards.map((s) => m.shards.bytes[s]))) + (shards.length > 1 ? ' in all' : '')],
    ];
    if (byTime(m, state)) rows.push(value);
    if (tierOf(m, tile)) rows.push(['Tier', TIERS[tierOf(m, tile)]]);
    return [m.tables.name[table], rows];
  }

  /** The picture of one plan: a card for each device or host of the window. */
  function picture(page, m) {
    const { state } = page;
    const cards = h('div', { class: 'cards', role: 'group', 'aria-label': 'Devices and their tables; arrow keys move between tiles, Enter selects a table' });
    let tiles = []; // elements, each with its tile and the number of its card

    function draw() {
      const shown = windowOf(units(m, state), state);
      // The fullest card of all plans fills its frame.
      const scale = Math.max(Number.MIN_VALUE, ...page.models.flatMap((one) => windowOf(units(one, state), state).map((u) => load(tilesOf(one, state, u)))));
      tiles = [];
      const hosts = state.level === 'device' && state.order === 'number' && m.hosts > 1 ? [...new Set(shown.map((u) => u.host))] : [];
      cards.classList.toggle('flat', !hosts.length);
      cards.classList.toggle('small-hosts', m.perHost <= 4);
      const made = shown.map((u, i) => card(u, i, scale));
      fill(cards, hosts.length ? hosts.map((host) => h('div', { class: 'host', role: 'group', 'aria-label': 'Host ' + host },
        h('div', { class: 'host-name', 'aria-hidden': 'true' }, 'Host ' + host),
        h('div', { class: 'host-cards' }, made.filter((_, i) => shown[i].host === host)))) : made);
      if (tiles.length) tiles[0].tabIndex = 0;
      mark();
    }

    function card(unit, number, scale) {
      const all = tilesOf(m, state, unit), total = load(all), height = total / scale;
      const list = joined(all, scale);
      const rectangles = squarify(list.map((t) => t.value), CARD.width, CARD.height * height);
      const element = h('div', { class: 'card' },
        h('button', { type: 'button', class: 'card-name', onclick: () => page.select({ device: unit.busiest }) },
          h('span', { class: 'card-title' }, unit.label, unit.critical
            ? h('span', { class: 'mark' }, h('span', { 'aria-hidden': 'true' }, ' ◆'), h('span', { class: 'hidden' }, ' (critical)')) : null),
          h('span', { class: 'card-value muted' }, byTime(m, state) ? ms(total) : bytes(total))),
        h('div', { class: 'tiles' }, rectangles.map((r, i) => tileElement(list[i], r, 1 - height, number))));
      element.devices = unit.devices;
      return element;
    }

    function tileElement(tile, r, top, number) {
      const [title, rows] = tileWords(m, state, tile);
      const tier = tierOf(m, tile);
      const element = h('button', {
        type: 'button', tabindex: -1,
        class: 'tile ' + (tile.joined ? 'type-other' : typeClass(m.tables.sharding_type[tile.tables[0]])) + (tier ? ' tier-' + tier : ''),
        'aria-label': [title].concat(rows.map(([k, v]) => k.toLowerCase() + ' ' + v)).join(', '),
        onclick: () => (tile.joined ? page.announce(title + ', ' + rows[0][1]) : page.select({ table: title })),
      }, r.w > 26 && r.h > 15 ? h('span', {}, tile.joined ? '+' + tile.joined : title) : null);
      at(element, { left: r.x / CARD.width, top: top + r.y / CARD.height, width: r.w / CARD.width, height: r.h / CARD.height });
      Object.assign(element, { tile, number });
      tiles.push(element);
      return tipped(element, [title, rows]);
    }

    /** Marks the tiles of the selected table, and the card of the selected device. */
    function mark() {
      const table = state.table === null ? -1 : m.tables.name.indexOf(state.table);
      cards.classList.toggle('chosen', table >= 0);
      for (const element of tiles) element.classList.toggle('on', table >= 0 && element.tile.tables.includes(table));
      for (const element of cards.querySelectorAll('.card')) element.classList.toggle('on', element.devices.includes(state.device));
    }

    cards.addEventListener('keydown', (event) => {
      const i = tiles.indexOf(event.target);
      const card = (step) => tiles.findIndex((t) => t.number === tiles[i].number + step);
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1, ArrowDown: i < 0 || card(1), ArrowUp: i < 0 || card(-1), Home: 0, End: tiles.length - 1 }[event.key];
      if (i < 0 || to === undefined) return;
      event.preventDefault();
      if (!tiles[to]) return;
      tiles[i].tabIndex = -1;
      tiles[to].tabIndex = 0;
      tiles[to].focus();
    });
    page.on('view', draw);
    page.on('selection', mark);
    draw();
    return h('div', { class: 'picture' }, cards);
  }

  /** The key of colours and patterns: the sharding types and tiers that the plans have. */
  function key(models) {
    const counts = (type) => models.map((m) => list(m.plan.report.sharding_types).filter((c) => c.name === type).map((c) => c.tables)).flat();
    const tiers = Object.keys(TIERS).filter((t) => models.some((m) => m.shards.tier.includes(t)));
    return h('ul', { class: 'key', 'aria-label': 'Key of the tiles' },
      TYPES.filter((t) => counts(t).length).map((t) => h('li', {}, typed(t), h('span', { class: 'muted' }, counts(t).map(count).join(' → ')))),
      tiers.map((t) => h('li', {}, swatch('type-other tier-' + t), TIERS[t])));
  }

  /** The controls that choose which devices the picture, the step and the memory show. */
  function deviceControls(page, m) {
    const { state } = page;
    const bar = h('div', { class: 'bar' });
    const one = (title, name, pairs) => choice(title, state[name], pairs, (v) => page.set({ from: 0, [name]: name === 'size' ? Number(v) : v }));
    const status = h('span', { class: 'status', role: 'status' });
    const move = (by) => () => page.set({ from: state.from + by * state.size });
    const previous = button('Previous', move(-1)), next = button('Next', move(1));
    const outline = h('div', { class: 'outline', 'aria-hidden': 'true' });
    const update = () => {
      const all = units(m, state), shown = windowOf(all, state), from = all.indexOf(shown[0]);
      const many = all.length > shown.length;
      state.from = from;
      status.textContent = (many ? grouped(from + 1) + '–' + grouped(from + shown.length) + ' of ' : '') + plural(all.length, state.level);
      previous.hidden = next.hidden = outline.hidden = !many;
      previous.disabled = from === 0;
      next.disabled = from + shown.length >= all.length;
      if (many) fill(outline, all.map((u) => at(h('span', { class: shown.includes(u) ? 'on' : null }), { height: height(u) })));
    };
    const most = m.timed ? Math.max(...m.busy) : 1;
    const height = (u) => (state.order === 'memory' || !m.timed ? m.filled(u.fullest) : m.busy[u.busiest] / most);
    page.on('view', update);
    update();
    add(bar,
      m.shardTimes ? one('Area of a tile', 'by', [['bytes', 'bytes'], ['time', 'time']]) : null,
      m.hosts > 1 ? one('Show', 'level', [['device', 'devices'], ['host', 'hosts']]) : null,
      m.devices.count > 1 ? one('Order', 'order', [['number', 'by number'], m.timed ? ['time', 'busiest first'] : null, ['memory', 'fullest first']].filter(Boolean)) : null,
      m.devices.count > 16 ? one('At once', 'size', [[8, '8'], [16, '16'], [32, '32'], [64, '64']]) : null,
      m.critical >= 0 ? button('Critical device', () => page.select({ device: m.critical })) : null,
      h('div', { class: 'pager' }, status, previous, next));
    return [bar, outline];
  }

  function placementSection(page) {
    if (!page.models.length) return null;
    const m = page.models[0];
    return section(page, 'placement', 'Who holds what', h('p', { class: 'note' },
      'Each card is a device, and each tile a shard of a table. The fullest card shown fills its frame. Select a table to see it everywhere.'),
    deviceControls(page, m), key(page.models), pair(page, (one) => picture(page, one)));
  }

  // ---------------------------------------------------------------- the step and the memory

  /** A chart of bars with a row for each device or host of the window; deviceOf is the device that a unit is drawn by. */
  function deviceBars(page, m, { what, deviceOf, name = (d) => 'Device ' + d, ...spec }) {
    const shown = () => windowOf(units(m, page.state), page.state);
    const figure = bars({
      items: () => shown().map(deviceOf), all: m.all, of: 'Device',
      name: (d) => (page.state.level === 'host' ? 'Host ' + Math.floor(d / m.perHost) + ', device ' : 'Device ') + d + (spec.suffix ? spec.suffix(d) : ''),
      label: () => what + ' of ' + plural(shown().length, page.state.level) + '. ' + (spec.says || spec.note || ''),
      onclick: (d) => page.select({ device: d }),
      ...spec,
    });
    page.on('view', figure.draw);
    return figure;
  }

  function stepSection(page) {
    const timed = page.models.filter((m) => m.timed);
    if (!timed.length) return null;
    const ends = timed.map((m) => { const { start } = timesOf(m); return Math.max(...m.all.map((d) => start(d) + m.busy[d] + m.devices.wait_ms[d])); });
    const end = 1.02 * Math.max(...ends);
    return section(page, 'step', 'The step',
      h('p', { class: 'note' }, 'Time runs from left to right. Where a line is drawn, all devices wait for the slowest one; each begins its step so that it meets the others there.'),
      pair(page, (m) => (m.timed ? timeline(page, m, end) : h('p', { class: 'note' }, 'This plan has no predicted times.'))));
  }

  /** When each device begins its step, and the barrier where all meet; null if devices do not wait. */
  function timesOf(m) {
    const reached = m.all.map((d) => m.devices.forward_ms[d] + m.devices.wait_ms[d]);
    const barrier = m.devices.wait_ms.some((v) => v > 0) ? Math.max(...reached) : null;
    return { barrier, start: (d) => (barrier === null ? 0 : barrier - reached[d]) };
  }

  function timeline(page, m, end) {
    const v = m.devices, { barrier, start } = timesOf(m);
    const hides = v.forward_hidden_ms.concat(v.backward_hidden_ms).some((t) => t > 0);
    const hidden = (d) => v.forward_hidden_ms[d] + v.backward_hidden_ms[d];
    const more = [number('Busy', (d) => m.busy[d], ms)].concat(hides ? [number('Hidden, not in the cost', hidden, ms)] : []);
    return deviceBars(page, m, {
      what: 'Timeline of the step', says: m.critical >= 0 ? 'The critical device is ' + m.critical + ' with a busy time of ' + ms(m.busy[m.critical]) + '.' : '',
      parts: PHASES.map(([look, title, field]) => [look, title, (d) => v[field][d]]), unit: 'ms', as: ms, end, start, more,
      facts: (d) => more.map((c) => [c.title, ms(c.value(d))]),
      deviceOf: (u) => u.busiest, strong: (d) => d === m.critical,
      marks: barrier === null ? null : () => [barrier],
    });
  }

  function memorySection(page) {
    if (!page.models.length) return null;
    return section(page, 'memory', 'Memory', pair(page, (m) => h('div', {},
      memory(page, m, { lines: MEMORY, capacities: m.capacities, of: 'of each device\'s memory' }),
      m.plan.memory_picture ? h('figure', { class: 'chart' }, h('figcaption', {}, 'The fullest device over a step'),
        new DOMParser().parseFromString(m.plan.memory_picture, 'image/svg+xml').documentElement) : null,
      memory(page, m, { title: 'Host memory beside each device', lines: [['host_bytes', 'Tables in host memory']], capacities: m.hostCapacities, of: 'of host memory for each device' }))));
  }

  /** The memory of the devices in the window, line by line, with a mark at each capacity; null if nothing is used. */
  function memory(page, m, { title, lines, capacities, of }) {
    const value = (name) => (d) => m.devices.memory[d][name] || 0;
    const parts = lines.map(([name, line], i) => [String(i + 1), line, value(name)]).filter(([, , of]) => m.all.some((d) => of(d) > 0));
    const used = (d) => sum(parts.map(([, , of]) => of(d)));
    const most = Math.max(...m.all.map(used)), largest = Math.max(...capacities), own = !alike(capacities);
    if (!(most > 0)) return null;
    const fullest = m.all.reduce((a, b) => (used(b) / capacities[b] > used(a) / capacities[a] ? b : a));
    const range = own ? bytes(Math.min(...capacities)) + ' to ' + bytes(largest) : bytes(largest);
    return deviceBars(page, m, {
      title, what: 'Memory by lines', parts, unit: 'bytes', as: bytes, end: 1.02 * (own || most > 0.2 * largest ? Math.max(largest, most) : most),
      note: 'Tables may take ' + range + ' ' + of + '. Device ' + fullest + ' is the fullest and uses ' + percent(used(fullest) / capacities[fullest]) + '.',
      suffix: own ? (d) => ', ' + bytes(capacities[d]) : null,
      facts: (d) => [['In use', usedOf(used(d), capacities[d])]],
      more: [number('In use', used, bytes), number('Capacity', (d) => capacities[d], bytes), number('Free', (d) => capacities[d] - used(d), bytes)],
      deviceOf: (u) => u.fullest, marks: (d) => [capacities[d]],
    });
  }

  /** What is used of a capacity in words: "34.0 GiB, 50 % of 68.0 GiB". */
  const usedOf = (used, capacity) => bytes(used) + (capacity > 0 ? ', ' + percent(used / capacity) + ' of ' + bytes(capacity) : '');

  // ---------------------------------------------------------------- sections

  /** A section with a heading; it gets a link at the top of the page. */
  function section(page, id, title, ...children) {
    const heading = newID(id);
    page.sections.push([id, title]);
    return h('section', { id: 'section-' + id, class: 'section section-' + id, 'aria-labelledby': heading }, h('h2', { id: heading, tabindex: -1 }, title), children);
  }

  /** One column for each plan, with its name if there are two. */
  function pair(page, make) {
    if (page.models.length === 1) return make(page.models[0]);
    return h('div', { class: 'pair' }, page.models.map((m) => h('div', { class: 'half' }, h('h3', {}, planName(page, m)), make(m))));
  }

  const planName = (page, m) => (page.models.length > 1 ? ['Before: ', 'After: '][page.models.indexOf(m)] + m.plan.name : null);

  function costsSection(page) {
    if (!page.models.length) return null;
    return section(page, 'costs', 'Verdict', pair(page, (m) => h('div', {},
      page.models.length > 1 ? h('p', { class: 'note' }, m.plan.report.title) : null,
      verdict(m.plan.report.lines), warnings(m.plan.warnings))));
  }

  /** What the plan is worth: its time and its gain as the headline, and the rest as facts. */
  function verdict(all) {
    const named = (name) => all.filter((f) => f.name === name);
    const head = [...named('time'), ...named('gain')];
    return [h('p', { class: 'verdict' }, head.map((f) => h('span', { class: 'block' }, f.value))),
      facts(all.filter((f) => !head.includes(f)).map((f) => [f.name, f.value]))];
  }

  /** The verdict of a comparison, and what else is to say. */
  const headline = (of) => [h('p', { class: 'verdict' }, of.title.charAt(0).toUpperCase() + of.title.slice(1)), facts(of.lines.concat(list(of.facts)).map((f) => [f.name, f.value]))];

  const warnings = (all) => (list(all).length ? h('div', { class: 'warnings' }, h('h3', {}, plural(all.length, 'warning')), lines(all)) : null);

  function tablesSection(page) {
    if (!page.models.length) return null;
    return section(page, 'tables', 'Tables', pair(page, (m) => {
      const table = tablesTable(page, m);
      page.on('selection', table.refresh);
      return table;
    }));
  }

  const tableButton = (page, m, t) => h('button', { type: 'button', class: 'link', onclick: () => page.select({ table: m.tables.name[t] }) },
    swatch(typeClass(m.tables.sharding_type[t])), m.tables.name[t]);

  function tablesTable(page, m) {
    const t = m.tables, rest = { rest: true };
    const of = (field) => (i) => t[field][i];
    const has = (field) => list(t[field]).length > 0;
    const size = number('Size', of('bytes'), bytes, has('time_ms') ? rest : {});
    const time = number('Time on its slowest device', of('time_ms'), ms);
    const alternative = (i) => [known(t.alternative_cost_ms[i]) ? ms(t.alternative_cost_ms[i]) : '–', h('span', { class: 'muted block' }, change(m.plan.costs.predicted_ms, t.alternative_cost_ms[i]))];
    const columns = [
      text('Table', of('name'), { node: (i) => tableButton(page, m, i) }),
      text('Sharding type', of('sharding_type'), rest),
      number('Rows', of('rows'), count, rest),
      number('Dim', of('dim'), count, rest),
      size,
      has('pooling') ? number('Lookups', of('pooling'), significant, rest) : null,
      has('time_ms') ? time : null,
      number('Shards', (i) => m.byTable[i].length, count, rest),
      text('Devices', (i) => devicesOf(m, i, 4)),
      list(t.reason).some(Boolean) ? text('Why here', of('reason'), { wide: true, rest: true }) : null,
      has('alternative') ? text('Best alternative', (i) => t.alternative[i] || null, rest) : null,
      has('alternative') ? number('Cost with it', of('alternative_cost_ms'), ms, { node: alternative, rest: true }) : null,
    ].filter(Boolean);
    return dataTable({
      caption: 'Tables of ' + m.plan.name, columns, rows: t.name.map((_, i) => i), filter: true, sort: { column: has('time_ms') ? time : size, down: true },
      selected: (i) => t.name[i] === page.state.table,
    });
  }

  function baselinesSection(page) {
    if (!page.models.some((m) => list(m.plan.baselines).length)) return null;
    return section(page, 'baselines', 'Other methods', pair(page, (m) => (list(m.plan.baselines).length ? baselines(m.plan) : h('p', { class: 'note' }, 'This plan was not compared with others.'))));
  }

  const baselines = (plan) => dataTable({
    caption: 'Plans by other methods', rows: [{ ...plan.costs, method: 'this plan', valid: true, mine: true }, ...plan.baselines], selected: (b) => b.mine,
    columns: [
      text('Method', (b) => b.method), number('Predicted', (b) => b.predicted_ms, ms), number('SIMULATED', (b) => b.simulated_ms, ms),
      number('Planned in', (b) => b.wall_ms, ms, { rest: true }), text('Without a plan', (b) => (b.valid ? null : b.reason || 'yes')),
    ],
  });

  // ---------------------------------------------------------------- two plans, re-plans and sweeps

  function changesSection(page) {
    const { changes } = page.document;
    if (!changes) return null;
    const moved = changes.in_bytes.map((v, d) => v + changes.out_bytes[d]);
    const busiest = moved.map((_, d) => d).filter((d) => moved[d] > 0).sort((a, b) => moved[b] - moved[a]);
    return section(page, 'changes', 'What changes',
      headline(changes),
      busiest.length ? bars({
        title: 'Bytes that each device receives and sends', note: busiest.length > 16 ? 'The 16 devices that move most, of ' + count(moved.length) + '.' : null,
        label: () => 'Bars of the bytes that ' + plural(busiest.length, 'device') + ' receive and send, at most ' + bytes(moved[busiest[0]]),
        items: () => busiest.slice(0, 16), all: moved.map((_, d) => d), of: 'Device', unit: 'bytes', end: 1.02 * moved[busiest[0]], as: bytes,
        name: (d) => 'Device ' + d, parts: [['2', 'Receives', (d) => changes.in_bytes[d]], ['4', 'Sends', (d) => changes.out_bytes[d]]],
        onclick: (d) => page.select({ device: d }),
      }) : null,
      changes.tables.length ? dataTable({
        caption: 'Tables that change', rows: changes.tables, size: 15, filter: changes.tables.length > 15,
        selected: (t) => t.name === page.state.table,
        columns: [
          text('Table', (t) => t.name, { node: (t) => link(t.name, () => page.select({ table: t.name })) }),
          text('Change', (t) => t.what, { wide: true }),
          number('Moved', (t) => t.moved_bytes, bytes),
        ],
      }) : h('p', {}, 'No table changes.'));
  }

  function replanSection(page) {
    const { replan } = page.document;
    if (!replan) return null;
    const curve = list(replan.curve);
    const [unit, size] = unitOf(Math.max(...curve.map((p) => p.moved_bytes)));
    const columns = [
      text('Plan', (p) => p.label + (p.chosen ? ' (chosen)' : '')),
      number('Moved', (p) => p.moved_bytes, bytes),
      number('Predicted', (p) => p.cost_ms, ms),
      number('SIMULATED', (p) => p.simulated_cost_ms, ms, { rest: true }),
      text('Pays back', (p) => p.pays_back),
    ];
    return section(page, 'replan', 'Re-plan',
      headline(replan),
      curve.length > 1 ? points({
        title: 'Cost against the bytes to move', items: curve,
        label: () => 'Curve of ' + plural(curve.length, 'plan') + ': ' + curve.map((p) => p.label + ', ' + bytes(p.moved_bytes) + ' moved, cost ' + ms(p.cost_ms) + (p.chosen ? ' (chosen)' : '')).join('; '),
        x: { title: unit + ' moved', of: (p) => p.moved_bytes, size, zero: true }, y: { title: 'ms', of: (p) => p.cost_ms },
        look: (p) => (p.chosen ? 'chosen' : '1'), words: (p) => (p.chosen ? 'chosen' : ''),
        tip: (p) => [p.label, columns.slice(1).map((c) => [c.title, c.as(c.value(p))])],
      }) : null,
      curve.length ? dataTable({ caption: 'Plans of the curve', rows: curve, selected: (p) => p.chosen, columns }) : null);
  }

  /** Numbers of a sweep's cell that an axis of its plot can show. */
  const SWEEP = [
    number('Devices', (c) => c.devices, count),
    number('Step', (c) => c.step_ms, ms),
    number('Samples a second', (c) => c.samples_per_second, compact),
    number('Price of 10⁹ samples', (c) => c.price, (v) => '$' + significant(v)),
    number('Memory of the fullest device', (c) => c.memory_share, percent, { rest: true }),
  ];

  function sweepSection(page) {
    const { sweep } = page.document;
    if (!sweep) return null;
    const { cells } = sweep;
    const [devices, ...numbers] = SWEEP;
    const axes = SWEEP.filter((a) => cells.some((c) => known(a.value(c))));
    const now = { x: axes.includes(SWEEP[3]) ? SWEEP[3] : devices, y: axes.includes(SWEEP[2]) ? SWEEP[2] : SWEEP[1] };
    const place = h('div');
    const draw = () => fill(place, sweepPlot(cells, now));
    const axis = (title, name) => choice(title, axes.indexOf(now[name]), axes.map((a, i) => [i, a.title]), (i) => { now[name] = axes[i]; draw(); });
    draw();
    const columns = sweep.axes.map((name, a) => text(name, (c) => c.values[a]))
      .concat(numbers.filter((c) => axes.includes(c)), [text('Bound by', (c) => c.bind || c.reason || null, { rest: true }), text('Marks', (c) => list(c.marks).join(', '))]);
    return section(page, 'sweep', 'Sweep' + (sweep.name ? ' of ' + sweep.name : ''), headline(sweep),
      axes.length > 1 ? h('div', { class: 'bar' }, axis('Across', 'x'), axis('Up', 'y')) : null, place,
      dataTable({ caption: 'Clusters of the sweep', columns, rows: cells, filter: cells.length > 20, selected: (c) => list(c.marks).length > 0 }),
      warnings(sweep.warnings));
  }

  function sweepPlot(cells, { x, y }) {
    const items = cells.filter((c) => known(x.value(c)) && known(y.value(c)));
    const kinds = [...new Set(items.map((c) => c.device))];
    const look = (kind) => String((kinds.indexOf(kind) % 7) + 1);
    const name = (c) => c.devices + ' x ' + c.device;
    if (!items.length) return null;
    return points({
      items, key: kinds.map((kind) => [look(kind), kind]), look: (c) => look(c.device), words: (c) => list(c.marks).join(', '),
      label: () => 'Plot of ' + plural(items.length, 'cluster') + '. ' + items.filter((c) => list(c.marks).length).map((c) => name(c) + ' is ' + c.marks.join(', ')).join('; '),
      x: { title: x.title, of: x.value }, y: { title: y.title, of: y.value },
      tip: (c) => [name(c), SWEEP.filter((a) => known(a.value(c))).map((a) => [a.title, a.as(a.value(c))]).concat([['Bound by', c.bind || '–']])],
    });
  }

  // ---------------------------------------------------------------- whole step, provenance

  function wholeStepSection(page) {
    if (!page.models.some((m) => m.plan.step)) return null;
    return section(page, 'whole', 'The whole training step', pair(page, (m) => (m.plan.step ? wholeStep(m.plan.step) : h('p', { class: 'note' }, 'The whole step of this plan was not priced.'))));
  }

  function wholeStep({ step, terms, stack }) {
    const parts = Object.entries(terms || {}).filter(([, v]) => v > 0).map(([name, v]) => [name.replace(/_ms$/, '').replace(/_/g, ' ') + ', before anything is hidden', ms(v)]);
    return h('div', {}, h('p', { class: 'verdict' }, ms(step.ms) + (step.error_percent > 0 ? ' ± ' + Math.ceil(step.error_percent) + ' %' : '') + ', bound by ' + step.bound_by),
      facts([
        ['throughput', compact(step.samples_per_second) + ' samples a second'],
        ['stack', stack],
        ['price', known(step.price_per_1e9_samples) ? '$' + significant(step.price_per_1e9_samples) + ' for 10⁹ samples' : null],
        ['epoch', step.epoch_minutes > 0 ? significant(step.epoch_minutes) + ' min' : null],
        ['hidden', step.hidden_ms > 0 ? ms(step.hidden_ms) + ' of exchanges beside other work' : null],
        ['embeddings', ms(step.embedding_ms)],
        ['dense part', ms(step.dense_ms)],
        ['all-reduce', ms(step.allreduce_ms)],
        ...parts,
      ]));
  }

  function provenanceSection(page) {
    if (!page.models.length) return null;
    return section(page, 'provenance', 'Provenance', pair(page, (m) => h('div', {},
      facts(m.plan.provenance.map((f) => [f.name, f.value])),
      list(m.plan.missing).length ? [h('h3', {}, 'What this page leaves out'), lines(m.plan.missing)] : null)));
  }

  // ---------------------------------------------------------------- selection

  /** The panels of the selected table and device. */
  function drawSelection(page) {
    const { state, shell } = page;
    const parts = page.models.flatMap((m) => [
      state.table !== null && m.tables.name.includes(state.table) ? tablePanel(page, m) : [],
      state.device >= 0 && state.device < m.devices.count ? devicePanel(page, m, state.device) : [],
    ]).flat();
    shell.rail.hidden = !parts.length;
    shell.frame.classList.toggle('with-rail', parts.length > 0);
    fill(shell.rail, parts);
  }

  const panel = (page, m, title, note, nothing, ...children) => h('div', { class: 'panel' },
    h('div', { class: 'panel-head' }, h('h2', {}, title), button('✕', () => closePanel(page, nothing), { class: 'small close', 'aria-label': 'Close ' + title })),
    h('p', { class: 'note' }, [...note, planName(page, m)].filter(Boolean).join(' · ')), children);

  function devicePanel(page, m, d) {
    const v = m.devices, { shards, tables } = m;
    return panel(page, m, 'Device ' + d, [m.hosts > 1 ? 'Host ' + Math.floor(d / m.perHost) : null, d === m.critical ? 'critical device' : null], { device: -1 },
      facts([
        ['Memory', usedOf(v.used_bytes[d], m.capacities[d])],
        ['Host memory', v.memory[d].host_bytes > 0 ? usedOf(v.memory[d].host_bytes, m.hostCapacities[d]) : null],
        ...(m.timed ? [['Busy', ms(m.busy[d])], ...PHASES.map(([, title, field]) => [title, ms(v[field][d])])] : []),
        ['Shards', count(v.shards[d])],
        ['Dim sum', count(v.dim_sum[d])],
      ]),
      dataTable({
        caption: 'Shards of device ' + d, rows: m.byDevice[d].concat(m.copies), size: 8, filter: v.shards[d] > 8,
        selected: (s) => tables.name[shards.table[s]] === page.state.table,
        columns: [
          text('Table', (s) => tables.name[shards.table[s]], { node: (s) => tableButton(page, m, shards.table[s]) }),
          text('Part', (s) => slice(m, s)),
          number('Size', (s) => shards.bytes[s], bytes),
        ].concat(m.shardTimes ? [number('Time', (s) => shards.time_ms[s], ms)] : []),
      }));
  }

  function tablePanel(page, m) {
    const name = page.state.table, t = m.tables, i = t.name.indexOf(name);
    const changed = page.document.changes && page.document.changes.tables.find((c) => c.name === name);
    const of = (field) => list(t[field])[i];
    const cost = list(t.alternative_cost_ms)[i];
    const { device } = m.shards;
    return panel(page, m, name, [], { table: null },
      facts([
        ['Sharding type', typed(of('sharding_type'))],
        ['Rows x dim', count(of('rows')) + ' x ' + count(of('dim'))],
        ['Size', bytes(of('bytes'))],
        ['Stored as', of('stored')],
        ['Read by', of('features')],
        ['Lookups a sample', known(of('pooling')) ? significant(of('pooling')) : null],
        ['Vectors a sample', of('vectors')],
        ['Why here', of('reason')],
        ['Best alternative', of('alternative')],
        ['Cost with it', known(cost) ? ms(cost) + ', ' + change(m.plan.costs.predicted_ms, cost) : null],
        ['Changes', changed && changed.what],
      ]),
      dataTable({
        caption: 'Shards of ' + name, rows: m.byTable[i], size: 8,
        columns: [
          text('Device', (s) => device[s], { node: (s) => (device[s] < 0 ? 'all' : link(String(device[s]), () => page.select({ device: device[s] }))) }),
          text('Part', (s) => slice(m, s)),
          number('Size', (s) => m.shards.bytes[s], bytes),
        ].concat(m.shardTimes ? [number('Time', (s) => m.shards.time_ms[s], ms)] : []),
      }));
  }

  /** Closes a panel, and gives the focus back to what opened it. */
  function closePanel(page, nothing) {
    const { opener } = page;
    page.select(nothing);
    if (opener && opener.isConnected) opener.focus();
    else page.shell.title.focus({ preventScroll: true });
  }

  /** A box that finds tables and devices by their names. */
  function searchBox(page) {
    const id = newID('found');
    const found = h('datalist', { id });
    const names = [...new Set(page.models.flatMap((m) => m.tables.name))];
    const devices = Math.max(...page.models.map((m) => m.devices.count));
    const take = (wanted) => {
      const device = /^(?:device\s*)?(\d+)$/i.exec(wanted);
      if (names.includes(wanted)) page.select({ table: wanted }, true);
      else if (device && Number(device[1]) < devices) page.select({ device: Number(device[1]) }, true);
      else return false;
      input.value = '';
      return true;
    };
    const find = (event) => {
      const wanted = input.value.trim().toLowerCase();
      // The browser states how text came in: a chosen name of the list replaces all of it.
      if (event.inputType === 'insertReplacementText' || event.inputType === undefined) if (take(input.value)) return;
      fill(found, wanted ? names.filter((n) => n.toLowerCase().includes(wanted)).slice(0, 12).map((n) => h('option', { value: n })) : null);
    };
    const enter = (event) => {
      const wanted = input.value.trim();
      if (event.key !== 'Enter' || !wanted) return;
      if (!take(wanted) && found.firstChild) take(found.firstChild.value);
    };
    const input = h('input', {
      type: 'search', list: id, 'aria-label': 'Find a table or a device', placeholder: 'Find a table or device',
      autocomplete: 'off', spellcheck: 'false', oninput: find, onkeydown: enter,
    });
    return h('div', { class: 'search', role: 'search' }, input, found);
  }

  // ---------------------------------------------------------------- the page

  /** The page of each root: its parts and the state, which stay when another document is drawn. */
  const shells = new WeakMap();

  function newShell(root, { before }) {
    const main = newID('main');
    const shell = {
      state: newState(),
      title: h('h1', { tabindex: -1 }), summary: h('p', { class: 'summary' }),
      nav: h('nav', { class: 'nav', 'aria-label': 'Sections' }), search: h('div'), content: h('div', { class: 'content' }),
      rail: h('aside', { class: 'rail', 'aria-label': 'Selection', hidden: true }),
      live: h('div', { class: 'hidden', 'aria-live': 'polite', role: 'status' }),
      foot: h('footer', { class: 'foot' }),
    };
    shell.frame = h('div', { class: 'frame' },
      h('main', { id: main, class: 'main', tabindex: -1 }, h('div', { class: 'head' }, shell.title, shell.summary), before, shell.content), shell.rail);
    fill(root, h('a', { class: 'skip', href: '#' + main }, 'Skip to the content'),
      h('header', { class: 'top' }, h('span', { class: 'brand' }, 'neuroshard'), shell.nav, shell.search),
      shell.frame, shell.foot, shell.live);
    root.classList.add('ns');
    shell.rail.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') closePanel(shell.page, { table: null, device: -1 });
    });
    return shell;
  }

  /**
   * Draws a document into root, in place of what root shows.
   * @param {Object} document page.Document
   * @param {HTMLElement} root
   * @param {{before: Node}} [options] read at the first call with this root: a node above the content, which stays
   */
  function render(document, root, options) {
    if (!document || document.format !== FORMAT || document.version !== VERSION) {
      throw new Error('neuroshard: this page shows documents of format ' + FORMAT + ', version ' + VERSION);
    }
    if (!shells.has(root)) shells.set(root, newShell(root, options || {}));
    const shell = shells.get(root);
    const page = shell.page = newPage(document, shell);
    const one = page.models.length === 1 ? page.models[0].plan : null;
    shell.title.textContent = document.title;
    shell.summary.textContent = one ? one.report.title : '';
    fill(shell.content, SECTIONS.map((make) => make(page)));
    fill(shell.nav, h('ul', {}, page.sections.map(([id, title]) => h('li', {}, h('button', { type: 'button', onclick: () => show(id) }, title)))));
    fill(shell.search, page.models.length ? searchBox(page) : null);
    fill(shell.foot, 'neuroshard ' + document.tool);
    page.on('selection', () => drawSelection(page));
    drawSelection(page);
  }

  /** Goes to a section. A link to it would take the place of the route in the service's addresses. */
  function show(id) {
    const section = document.getElementById('section-' + id);
    section.scrollIntoView();
    section.firstChild.focus({ preventScroll: true });
  }

  const SECTIONS = [
    changesSection, replanSection, sweepSection, costsSection, placementSection, stepSection, memorySection, wholeStepSection,
    tablesSection, baselinesSection, provenanceSection,
  ];

  function newPage(document, shell) {
    const { state } = shell, listeners = { view: [], selection: [] };
    const page = {
      document, shell, state, models: document.plans.map(index), sections: [],
      announce: (words) => { shell.live.textContent = words; },
      on: (group, listener) => listeners[group].push(listener),
      /** Changes the state, and calls the listeners of the groups that changed. */
      set(changes) {
        const changed = Object.keys(changes).filter((name) => state[name] !== changes[name]);
        Object.assign(state, changes);
        if (changed.some((name) => VIEW.includes(name))) listeners.view.forEach((listener) => listener());
        if (changed.some((name) => !VIEW.includes(name))) listeners.selection.forEach((listener) => listener());
      },
      select: (selection, again) => select(page, selection, again),
    };
    // What the reader chose in another document may not be in this one.
    if (!page.models.some((m) => m.tables.name.includes(state.table))) state.table = null;
    if (!page.models.some((m) => state.device < m.devices.count)) state.device = -1;
    if (!page.models.some((m) => m.hosts > 1)) state.level = 'device';
    return page;
  }

  /** Selects a table or a device, says so, and moves the window of devices to the device. */
  function select(page, selection, again) {
    const { state, shell } = page;
    const changes = { ...selection };
    if (known(changes.table) && changes.table === state.table && !again) changes.table = null;
    if (changes.device >= 0) {
      const m = page.models.find((one) => changes.device < one.devices.count);
      const all = units(m, state), unit = all.find((u) => u.devices.includes(changes.device));
      if (!windowOf(all, state).includes(unit)) changes.from = Math.floor(all.indexOf(unit) / state.size) * state.size;
    }
    const active = document.activeElement;
    if (active && !shell.rail.contains(active)) page.opener = active;
    page.set(changes);
    const m = page.models.find((one) => one.tables.name.includes(changes.table)), table = m ? m.tables.name.indexOf(changes.table) : -1;
    if (m) page.announce('Table ' + changes.table + ' is selected: ' + m.tables.sharding_type[table] + ' on ' + devicesOf(m, table, 6));
    else page.announce(changes.device >= 0 ? 'Device ' + changes.device + ' is selected.' : 'Nothing is selected.');
  }

  globalThis.neuroshard.render = render;

  // A page on disk has its document inside.
  const embedded = document.getElementById('document');
  if (embedded) render(JSON.parse(embedded.textContent), document.getElementById('page'));
})();
