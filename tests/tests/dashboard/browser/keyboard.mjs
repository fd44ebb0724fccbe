// Everything by keyboard: the form, the filters, an instance, its timeline, a dialog. The pointer is not used.

import assert from 'node:assert/strict';
import { arrive, order, see, step, until } from './kit/actions.mjs';

const ID = 'order-by-keyboard';

export default async function scenario(stage) {
  const page = await stage.open();
  await arrive(page, 'Overview');
  const press = (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());

  // The first stop skips the navigation.
  await press('Tab');
  assert.equal(await focused(page), 'Skip to the content');
  await tabTo(page, 'Start');
  await press('Enter');
  await arrive(page, 'Start an instance');

  await tabTo(page, 'Orchestration');
  await page.keyboard.type('fulfil-order');
  await press('Tab');
  await page.keyboard.type(ID);
  await tabTo(page, 'Input');
  await page.keyboard.insertText(JSON.stringify(order(ID, { total_cents: 250_000 })));
  await tabTo(page, 'Start', 'BUTTON');
  await press('Enter');
  await arrive(page, ID);
  await step(page, 'approval', 'wait for message, waiting').waitFor();

  // The timeline: arrows choose a step, Enter opens it.
  await tabTo(page, 'Timeline.');
  await press('ArrowDown');
  const active = () => page.locator('[role=tree]').getAttribute('aria-activedescendant');
  const first = await active();
  assert.ok(first);
  await press('ArrowDown');
  assert.notEqual(await active(), first);
  await press('+', '+', 'ArrowRight', '0', 'Home', 'Enter');
  await until('the step is chosen', async () => (await page.locator('[role=treeitem][aria-selected=true]').count()) === 1);

  // A dialog: Escape closes it, and the focus returns.
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Send approval' }).first().waitFor();
  await tabTo(page, 'Send approval', 'BUTTON');
  await press('Enter');
  await page.getByRole('dialog').waitFor();
  await press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.match(await focused(page), /^Send approval/);
  await press('Enter');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.insertText('{"approved": true, "by": "grace"}');
  await tabTo(page, 'Send', 'BUTTON');
  await press('Enter');
  await until('it has ended', async () => (await page.locator('.badge').first().innerText()).includes('Completed'));

  // Filters, and from the list to an instance.
  await tabTo(page, 'Instances');
  await press('Enter');
  await arrive(page, 'Instances');
  await tabTo(page, 'Id begins with');
  await page.keyboard.type('order-by');
  await press('Enter');
  await until('the address has the filter', () => page.url().includes('prefix=order-by'));
  await see(page, ID);
  await tabTo(page, ID);
  await press('Enter');
  await arrive(page, ID);
}

/** Presses Tab until something with this name has the focus. */
async function tabTo(page, name, tag) {
  for (let presses = 0; presses < 120; presses += 1) {
    await page.keyboard.press('Tab');
    const [found, element] = await page.evaluate(describe);
    if (found.startsWith(name) && (!tag || tag === element)) return;
  }
  assert.fail(`Tab does not reach ${name}`);
}

const focused = async (page) => (await page.evaluate(describe))[0];

/** In the page: the name and the tag of what has the focus. */
function describe() {
  const element = document.activeElement;
  const label = element.getAttribute('aria-label') ?? element.labels?.[0]?.innerText ?? element.innerText ?? '';
  return [label.trim(), element.tagName];
}
