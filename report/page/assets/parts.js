/**
 * What the page of a plan (page.js) and the pages of the service (live.js) share: elements, numbers in
 * words, and tables. Names in a document are untrusted: all text reaches the page as text nodes.
 */
'use strict';

globalThis.neuroshard = (() => {
  // ---------------------------------------------------------------- elements

  /**
   * Makes an element. Functions are listeners ("onclick"); null and false are left out.
   * @param {string} tag
   * @param {Object<string, any>} [attributes]
   * @param {...any} children elements and text, also in lists
   * @returns {HTMLElement}
   */
  function h(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (typeof value === 'function') element.addEventListener(name.slice(2), value);
      else if (name === 'value') element.value = value;
      else element.setAttribute(name, value === true ? '' : String(value));
    }
    return add(element, children);
  }

  function add(element, ...children) {
    element.append(...children.flat(Infinity).filter((c) => known(c) && c !== false));
    return element;
  }

  /** Replaces the children of an element. */
  function fill(element, ...children) {
    element.replaceChildren();
    return add(element, children);
  }

  let ids = 0;
  const newID = (prefix) => 'ns-' + prefix + '-' + ++ids;

  const button = (text, onclick, more) => h('button', { type: 'button', class: 'small', onclick, ...more }, text);

  /** A button that reads as a link, for names of tables and numbers of devices. */
  const link = (text, onclick) => h('button', { type: 'button', class: 'link', onclick }, text);

  /** Names and values, without what is not known. */
  const facts = (rows) => h('dl', { class: 'facts' },
    rows.filter(([, value]) => known(value) && value !== '').map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));

  const lines = (texts) => h('ul', { class: 'lines' }, list(texts).map((text) => h('li', {}, text)));

  /** A choice of one of [value, text] pairs. */
  function choice(title, value, pairs, onchange) {
    const select = h('select', { onchange: () => onchange(select.value) }, pairs.map(([v, text]) => h('option', { value: v }, text)));
    select.value = String(value);
    return h('label', { class: 'field' }, h('span', {}, title), select);
  }

  // ---------------------------------------------------------------- numbers

  const known = (v) => v !== null && v !== undefined;
  const list = (v) => v || [];

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

  const ms = (v) => (known(v) ? significant(v) + ' ms' : 'not known');
  const count = (v) => (known(v) ? grouped(v) : 'not known');

  const BYTES = [['TiB', 2 ** 40], ['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10], ['B', 1]];

  function bytes(v) {
    if (!known(v)) return 'not known';
    const [name, size] = BYTES.find(([, least]) => Math.abs(v) >= least) || ['B', 1];
    return (size === 1 ? v : significant(v / size)) + ' ' + name;
  }

  const percent = (share) => (Math.abs(share) >= 0.0995 ? (share * 100).toFixed(0) : (share * 100).toFixed(1)) + ' %';
  const plural = (n, one, many) => grouped(n) + ' ' + (n === 1 ? one : many || one + 's');

  /** The change from before to after: "12 % less". */
  function change(before, after) {
    if (!known(before) || !known(after) || !(before > 0)) return '';
    const share = after / before - 1;
    if (Math.abs(share) < 0.0005) return 'no change';
    return percent(Math.abs(share)) + (share < 0 ? ' less' : ' more');
  }

  const compactly = new Intl.NumberFormat('en-US', { notation: 'compact', maximumSignificantDigits: 3 });
  const compact = (v) => compactly.format(v);

  // ---------------------------------------------------------------- tables

  /** A column of text, and a column of numbers that "as" puts into words. */
  const text = (title, value, more) => ({ title, value, as: (v) => String(v), ...more });
  const number = (title, value, as, more) => ({ title, value, as, number: true, ...more });

  const shown = (column, row) => {
    const value = column.value(row);
    return known(value) ? column.as(value) : '–';
  };

  /** The order of two values; what is not known comes last in both directions. */
  function compare(a, b, sign) {
    if (!known(a) || !known(b)) return (known(a) ? 0 : 1) - (known(b) ? 0 : 1);
    if (typeof a === 'number' && typeof b === 'number') return sign * (a - b);
    return sign * String(a).localeCompare(String(b), 'en', { numeric: true });
  }

  /**
   * A table that sorts, filters and turns pages.
   * spec: {caption, columns, rows (a list of anything), size (of a page), filter (bool),
   *   selected(row), sort {column, down}}
   * column: {title, value(row), as(value), number, node(row) in place of text, wide, rest (not on a phone)}
   */
  function dataTable({ caption, columns, rows, size = 20, filter, selected, sort }) {
    const view = { sort, page: 0, text: '' };
    const id = newID('table');
    const body = h('tbody');
    const status = h('span', { class: 'status', role: 'status' });
    let order = [];

    const heads = columns.map((column) => h('th', { scope: 'col', class: kindOf(column), 'aria-sort': 'none' },
      h('button', { type: 'button', class: 'sort', onclick: () => sortBy(column) },
        column.title, h('span', { class: 'arrow', 'aria-hidden': 'true' }))));

    function sortBy(column) {
      const again = view.sort && view.sort.column === column;
      view.sort = { column, down: again ? !view.sort.down : Boolean(column.number) };
      update();
    }

    const matches = (row) => !view.text || columns.some((c) => shown(c, row).toLowerCase().includes(view.text));

    function update() {
      order = rows.filter(matches);
      if (view.sort) {
        const { column, down } = view.sort;
        order.sort((a, b) => compare(column.value(a), column.value(b), down ? -1 : 1));
      }
      view.page = 0;
      show();
    }

    function show() {
      const pages = Math.max(1, Math.ceil(order.length / size));
      view.page = Math.max(0, Math.min(view.page, pages - 1));
      const from = view.page * size, part = order.slice(from, from + size);
      fill(body, part.map(rowOf), part.length ? null
        : h('tr', {}, h('td', { colspan: columns.length, class: 'muted' }, 'No row has this text.')));
      heads.forEach((head, i) => {
        const sorted = view.sort && view.sort.column === columns[i];
        head.setAttribute('aria-sort', sorted ? (view.sort.down ? 'descending' : 'ascending') : 'none');
      });
      status.textContent = (part.length ? grouped(from + 1) + '–' + grouped(from + part.length) + ' of ' : '')
        + grouped(order.length) + (order.length < rows.length ? ' (of ' + grouped(rows.length) + ')' : '');
      previous.disabled = view.page === 0;
      next.disabled = view.page >= pages - 1;
    }

    const rowOf = (row) => h('tr', { class: selected && selected(row) ? 'selected' : null }, columns.map((column, c) =>
      h(c === 0 ? 'th' : 'td', { scope: c === 0 ? 'row' : null, class: kindOf(column) },
        column.node ? column.node(row) : shown(column, row))));

    const turn = (by) => () => { view.page += by; show(); };
    const previous = button('Previous', turn(-1)), next = button('Next', turn(1));
    const field = filter && h('input', {
      type: 'search', placeholder: 'text in any column', autocomplete: 'off', spellcheck: 'false',
      oninput: () => { view.text = field.value.trim().toLowerCase(); update(); },
    });
    const many = rows.length > size;
    const element = h('div', { class: 'table' },
      h('div', { class: 'bar' },
        field ? h('label', { class: 'field' }, h('span', {}, 'Filter'), field) : null,
        many || filter ? h('div', { class: 'pager' }, status, many ? [previous, next] : null) : null),
      h('div', { class: 'scroll', role: 'group', tabindex: 0, 'aria-labelledby': id },
        h('table', {}, h('caption', { id, class: 'hidden' }, caption), h('thead', {}, h('tr', {}, heads)), body)));
    element.refresh = show;
    update();
    return element;
  }

  /** Sharding types in the order of the documentation. The pattern is a class of page.css, too. */
  const TYPES = ['table_wise', 'column_wise', 'row_wise', 'table_row_wise', 'grid', 'data_parallel'];

  const kindOf = (c) => ['number', 'wide', 'rest'].filter((kind) => c[kind]).join(' ') || null;

  return {
    h, add, fill, newID, button, link, facts, lines, choice,
    known, list, significant, grouped, ms, count, bytes, BYTES, percent, plural, change, compact,
    text, number, dataTable, TYPES,
  };
})();
