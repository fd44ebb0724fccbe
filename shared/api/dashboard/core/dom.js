// Elements without markup. Every text becomes a text node, so no value of a workflow is ever parsed as HTML.

/** @typedef {Node | string | number | null | undefined | false | Child[]} Child */

/**
 * Properties of a new element. `on` holds listeners, `data` the `data-*` attributes, `style` single CSS properties. The rest are
 * attributes: `true` sets an empty one; `false`, `null` and `undefined` set none.
 * @typedef {{
 *   class?: string | null,
 *   on?: Record<string, (event: any) => void>,
 *   data?: Record<string, string>,
 *   style?: Record<string, string>,
 *   [attribute: string]: any,
 * }} Props
 */

const SVG = 'http://www.w3.org/2000/svg';

/**
 * Makes an HTML element.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props | null} [props]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  apply(element, props);
  append(element, children);
  return element;
}

/**
 * Makes an SVG element.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props | null} [props]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function svg(tag, props, ...children) {
  const element = document.createElementNS(SVG, tag);
  apply(element, props);
  append(element, children);
  return /** @type {SVGElementTagNameMap[Tag]} */ (element);
}

/**
 * Replaces what an element contains.
 * @template {Element} Parent
 * @param {Parent} element
 * @param {...Child} children
 * @returns {Parent}
 */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/**
 * @param {Element} element
 * @param {Props | null} [props]
 */
function apply(element, props) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (name === 'on') {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === 'data') {
      for (const [key, text] of Object.entries(value)) /** @type {HTMLElement} */ (element).dataset[key] = String(text);
    } else if (name === 'style') {
      // Single properties are allowed by the content security policy; a style attribute is not.
      const { style } = /** @type {HTMLElement} */ (element);
      for (const [key, text] of Object.entries(value)) style.setProperty(key, String(text));
    } else if (value === true) {
      element.setAttribute(name, '');
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, String(value));
    }
  }
}

/**
 * @param {Element} element
 * @param {Child[]} children
 */
function append(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child instanceof Node) element.append(child);
    else if (child !== null && child !== undefined && child !== false) element.append(String(child));
  }
}
