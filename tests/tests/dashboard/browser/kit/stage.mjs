// What a scenario is given: pages that are watched.
//
// Every error of the console or of a page, every violation of the content security policy, every dialog of a script and every request to
// another origin is noted, and fails the scenario at its end, unless the scenario has said that it expects it.

import assert from 'node:assert/strict';

/** How long something may take to appear. */
export const PATIENCE_MS = 180_000;

/** Pages in a language and a zone of their own, so that screenshots do not depend on the machine. */
const DEFAULTS = { locale: 'en-GB', timezoneId: 'UTC', viewport: { width: 1280, height: 800 } };

export class Stage {
  #browser;
  #contexts = [];
  #troubles = [];
  #expected = [];

  constructor(browser, world) {
    this.#browser = browser;
    this.world = world;
    this.origins = new Set([world.api, ...(world.origins ?? [])].map((address) => new URL(address).origin));
    /** The requests to the API so far: method and path. */
    this.requests = [];
    /** How many of them are under way, without long polls. */
    this.underWay = 0;
  }

  /**
   * Opens the dashboard in a browser context of its own.
   * @param {string | null} hash the screen, such as `#/instances`; none opens an empty page
   * @param {object} [options] of the context
   */
  async open(hash = '#/', options = {}) {
    const context = await this.#browser.newContext({ ...DEFAULTS, ...options });
    this.#contexts.push(context);
    context.setDefaultTimeout(PATIENCE_MS);
    await context.addInitScript(() => {
      document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI, sample }) => {
        console.error(`content security policy: ${violatedDirective} ${blockedURI} ${sample}`);
      });
    });
    context.on('request', (request) => this.#request(request));
    for (const end of ['requestfinished', 'requestfailed']) context.on(end, (request) => { this.underWay -= isShort(request); });
    context.on('page', (page) => this.#watch(page));
    const page = await context.newPage();
    if (hash !== null) await page.goto(`${this.world.api}/${hash}`);
    return page;
  }

  /** Errors of the console that fit are part of the scenario. */
  expect(...patterns) {
    this.#expected.push(...patterns);
  }

  /** How many requests to paths that begin so were sent. */
  count(path) {
    return this.requests.filter((request) => request.path.startsWith(path)).length;
  }

  /** Fails if something happened that must not. */
  check() {
    const troubles = this.#troubles.filter((trouble) => !this.#expected.some((pattern) => pattern.test(trouble)));
    assert.deepEqual(troubles, []);
  }

  report() {
    return [...this.#troubles, ...this.requests.slice(-10).map(({ method, path }) => `${method} ${path}`)].join('\n');
  }

  async screenshot(path) {
    const page = this.#contexts.at(-1)?.pages().at(-1);
    await page?.screenshot({ path }).catch((error) => console.log(`no screenshot: ${error.message}`));
  }

  async close() {
    for (const context of this.#contexts) await context.close();
  }

  #request(request) {
    this.underWay += isShort(request);
    const url = new URL(request.url());
    if (url.protocol === 'data:' || url.protocol === 'blob:') return;
    if (!this.origins.has(url.origin)) this.#troubles.push(`a request to another origin: ${request.url()}`);
    if (url.origin === new URL(this.world.api).origin) {
      this.requests.push({ method: request.method(), path: url.pathname + url.search, headers: request.headers(), at: performance.now() });
    }
  }

  #watch(page) {
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') {
        this.#troubles.push(`${message.type()} of the console: ${message.text()} ${message.location().url ?? ''}`);
      }
    });
    page.on('pageerror', (error) => this.#troubles.push(`error of the page: ${error.stack ?? error}`));
    page.on('dialog', (dialog) => {
      this.#troubles.push(`a dialog of a script: ${dialog.message()}`);
      dialog.dismiss();
    });
  }
}

/** 1 for a request that is answered at once, 0 for a long poll. */
const isShort = (request) => (new URL(request.url()).searchParams.has('wait') ? 0 : 1);
